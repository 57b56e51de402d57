//! The Hadamard transform from its definition: butterflies of ascending strides, each operation rounded to f32.

use rope_core::stages::HadamardFactor;

use crate::Source;

/// A transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hadamard {
    /// Channels of a block.
    pub block: usize,
    /// True if the factor is multiplied before the butterflies.
    pub first: bool,
}

impl Hadamard {
    /// Returns a random transform for heads of this many channels, or `None` if no block fits.
    pub fn any(source: &mut Source<'_>, head_dim: usize) -> Option<Self> {
        let most = head_dim.trailing_zeros().min(11) as usize;
        (most > 0).then(|| Hadamard {
            // The longest block is the most common one in practice.
            block: match source.once_in(3) {
                true => 1 << most,
                false => 1 << source.within(1, most),
            },
            first: source.once_in(2),
        })
    }

    /// Returns the transform in the crate's form.
    pub fn given(&self) -> rope_core::stages::Hadamard {
        let factor = match self.first {
            true => HadamardFactor::First,
            false => HadamardFactor::Last,
        };
        let hadamard = rope_core::stages::Hadamard::new(self.block).expect("a power of two");
        hadamard.with_factor(factor)
    }

    /// Transforms a head.
    pub fn apply(&self, head: &mut [f32]) {
        assert_eq!(head.len() % self.block, 0);
        // The square root of a power of two is rounded in f64 and then to f32; the second rounding depends on 24 of 53
        // bits.
        let factor = (1.0 / (self.block as f64).sqrt()) as f32;
        for block in head.chunks_mut(self.block) {
            if self.first {
                block.iter_mut().for_each(|x| *x *= factor);
            }
            let mut stride = 1;
            while stride < block.len() {
                for low in (0..block.len()).filter(|low| low & stride == 0) {
                    let (a, b) = (block[low], block[low + stride]);
                    (block[low], block[low + stride]) = (a + b, a - b);
                }
                stride *= 2;
            }
            if !self.first {
                block.iter_mut().for_each(|x| *x *= factor);
            }
        }
    }
}
