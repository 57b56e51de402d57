//! Values that a kernel reads as f32, of an element that is known when it runs: where a kernel for each element would
//! be three times the code, and is no faster than a branch that always goes the same way.

use core::ops::Range;

use bytemuck::cast_slice;
use half::{bf16, f16};

use super::convert::ToF32;
use crate::element::Convert;
use crate::simd::Simd;

/// Elements side by side, as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    F32(&'a [f32]),
    F16(&'a [u16]),
    Bf16(&'a [u16]),
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    F16,
    Bf16,
}

impl<'a> Values<'a> {
    /// Of bytes.
    #[inline(always)]
    pub(crate) fn of(kind: Kind, bytes: &'a [u8]) -> Self {
        match kind {
            Kind::F32 => Values::F32(cast_slice(bytes)),
            Kind::F16 => Values::F16(cast_slice(bytes)),
            Kind::Bf16 => Values::Bf16(cast_slice(bytes)),
        }
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F16(values) | Values::Bf16(values) => values.len(),
        }
    }

    /// Some of them.
    #[inline(always)]
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Values::F32(values) => Values::F32(&values[range]),
            Values::F16(values) => Values::F16(&values[range]),
            Values::Bf16(values) => Values::Bf16(&values[range]),
        }
    }

    /// The whole blocks of four vectors.
    #[inline(always)]
    pub(crate) fn blocks<S: Simd>(self) -> Blocks<'a, S> {
        match self {
            Values::F32(values) => Blocks::F32(S::chunks(values).as_chunks().0),
            Values::F16(values) => Blocks::F16(S::chunks(values).as_chunks().0),
            Values::Bf16(values) => Blocks::Bf16(S::chunks(values).as_chunks().0),
        }
    }

    /// All of them as f32; of two lengths the shorter counts.
    #[inline(always)]
    pub(crate) fn widen<S: Simd>(self, s: S, target: &mut [f32]) {
        let len = self.len().min(target.len());
        let target = &mut target[..len];
        match self.part(0..len) {
            Values::F32(values) => target.copy_from_slice(values),
            Values::F16(values) => s.enter(ToF32::<f16>::new(cast_slice(values), target)),
            Values::Bf16(values) => s.enter(ToF32::<bf16>::new(cast_slice(values), target)),
        }
    }

    /// The largest magnitude, NaNs left out; 0 of none.
    #[inline(always)]
    pub(crate) fn largest_magnitude<S: Simd>(self, s: S) -> f32 {
        let blocks = self.blocks::<S>();
        // Four at a time: each waits for its own.
        let mut lanes = [s.splat(0.0); 4];
        for index in 0..blocks.len() {
            lanes = max_magnitudes(s, lanes, blocks.load(s, index));
        }
        let rest = self.part(blocks.len() * Blocks::<S>::LEN..self.len());
        if rest.len() > 0 {
            lanes = max_magnitudes(s, lanes, rest.padded(s));
        }
        let [a, b, c, d] = lanes;
        s.max_lane(s.max_magnitude(s.max_magnitude(a, b), s.max_magnitude(c, d)))
    }

    /// Values that fill no block as one, with zeros behind them.
    #[inline(always)]
    pub(crate) fn padded<S: Simd>(self, s: S) -> [S::F32; 4] {
        let mut values = [0.0; MOST_OF_BLOCK];
        self.widen(s, &mut values);
        Values::F32(&values).blocks::<S>().load(s, 0)
    }
}

/// Values of the largest block.
pub(crate) const MOST_OF_BLOCK: usize = 64;

#[inline(always)]
fn max_magnitudes<S: Simd>(
    s: S,
    [a, b, c, d]: [S::F32; 4],
    [x, y, z, w]: [S::F32; 4],
) -> [S::F32; 4] {
    [
        s.max_magnitude(a, x),
        s.max_magnitude(b, y),
        s.max_magnitude(c, z),
        s.max_magnitude(d, w),
    ]
}

/// Blocks of four vectors.
#[derive(Clone, Copy)]
pub(crate) enum Blocks<'a, S: Simd> {
    F32(&'a [[S::Chunk<f32>; 4]]),
    F16(&'a [[S::Chunk<u16>; 4]]),
    Bf16(&'a [[S::Chunk<u16>; 4]]),
}

impl<S: Simd> Blocks<'_, S> {
    /// Values of a block.
    pub(crate) const LEN: usize = 4 * S::LANES;

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        match self {
            Blocks::F32(blocks) => blocks.len(),
            Blocks::F16(blocks) | Blocks::Bf16(blocks) => blocks.len(),
        }
    }

    /// Whether a block comes as even and odd elements, of each two vectors.
    #[inline(always)]
    pub(crate) fn even_odd(self) -> bool {
        S::INTERLEAVES_CODES && matches!(self, Blocks::Bf16(_))
    }

    /// A block as f32.
    #[inline(always)]
    pub(crate) fn load(self, s: S, index: usize) -> [S::F32; 4] {
        let ([a, b], [c, d]) = match self {
            Blocks::F32(blocks) => {
                let [a, b, c, d] = blocks[index];
                (
                    [s.load_f32(a), s.load_f32(b)],
                    [s.load_f32(c), s.load_f32(d)],
                )
            }
            Blocks::F16(blocks) => {
                let [a, b, c, d] = blocks[index];
                (f16::read(s, [a, b], false), f16::read(s, [c, d], false))
            }
            Blocks::Bf16(blocks) => {
                let [a, b, c, d] = blocks[index];
                (
                    bf16::read(s, [a, b], S::INTERLEAVES_CODES),
                    bf16::read(s, [c, d], S::INTERLEAVES_CODES),
                )
            }
        };
        [a, b, c, d]
    }
}
