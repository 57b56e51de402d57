//! The shared buffer of all measurements, and its content.

use crate::cases::{Alignment, Element, Float, with_float};

const LINE: usize = 64;

/// Bytes with a configurable start.
#[derive(Debug)]
pub struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    /// Allocates `len` bytes.
    pub fn new(len: usize) -> Self {
        Memory {
            bytes: vec![0; len + 2 * LINE],
        }
    }

    /// Returns `len` bytes with an alignment.
    pub fn slice(&mut self, alignment: Alignment, len: usize) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(LINE)
            + match alignment {
                Alignment::Line => 0,
                Alignment::Allocator => 16,
            };
        &mut self.bytes[start..][..len]
    }
}

/// Returns values in [-1, 1), none of them special: the same on every machine.
pub fn values(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // 24 bits, so every value is exact.
            ((state >> 40) as f32 + 0.5) / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// Writes values as elements.
pub fn fill(bytes: &mut [u8], element: Element, values: &[f32]) {
    fn fill<E: Float>(bytes: &mut [u8], values: &[f32]) {
        for (to, from) in bytemuck::cast_slice_mut::<_, E>(bytes)
            .iter_mut()
            .zip(values)
        {
            *to = E::round(*from);
        }
    }
    with_float!(element, E => fill::<E>(bytes, values))
}
