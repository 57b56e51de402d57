//! Values that a kernel converts to f32, of an element known at run time. A kernel per element would triple the code,
//! and is no faster than a branch that always goes the same way.

use core::hint::black_box;
use core::ops::Range;
use core::slice::ChunksExact;

use bytemuck::cast_slice;

use super::elements::{ElementType, elements};
use crate::simd::element::Convert;
use crate::simd::slices::ToF32;
use crate::simd::{InstructionSet, Simd, SimdQuant};

/// Work on pairs of vectors of any element.
pub(crate) trait PairsWork {
    fn run<E: Convert, S: SimdQuant>(self, s: S, pairs: &[[S::Chunk<E::Bits>; 2]]);
}

macro_rules! values {
    ($($Type:ident: $E:ty [$($fused:tt)*];)+) => {
        /// Contiguous elements in storage format.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Values<'a> {
            $($Type(&'a [<$E as Convert>::Bits]),)+
        }

        impl<'a> Values<'a> {
            /// Casts bytes to values.
            #[inline(always)]
            pub(crate) fn of(element: ElementType, bytes: &'a [u8]) -> Self {
                match element {
                    $(ElementType::$Type => Values::$Type(cast_slice(bytes)),)+
                }
            }

            #[inline(always)]
            pub(crate) fn len(self) -> usize {
                match self {
                    $(Values::$Type(values) => values.len(),)+
                }
            }

            /// Returns the element of the values, and their bytes.
            #[inline(always)]
            pub(crate) fn bytes(self) -> (ElementType, &'a [u8]) {
                match self {
                    $(Values::$Type(values) => (ElementType::$Type, cast_slice(values)),)+
                }
            }

            /// Returns a part of the values.
            #[inline(always)]
            pub(crate) fn part(self, range: Range<usize>) -> Self {
                match self {
                    $(Values::$Type(values) => Values::$Type(&values[range]),)+
                }
            }

            /// Returns the whole blocks of four vectors.
            #[inline(always)]
            pub(crate) fn blocks<S: SimdQuant>(self) -> Blocks<'a, S> {
                match self {
                    $(Values::$Type(values) => Blocks::$Type(S::chunks(values).as_chunks().0),)+
                }
            }

            /// Runs work on the whole pairs of vectors, compiled for each element: a branch before its loops, and none
            /// in them.
            #[inline(always)]
            pub(crate) fn run_on_pairs<S: InstructionSet>(self, s: S, work: impl PairsWork) {
                match self {
                    $(Values::$Type(values) => work.run::<$E, S>(s, S::chunks(values).as_chunks().0),)+
                }
            }

            /// Returns the whole pairs of vectors.
            #[inline(always)]
            pub(crate) fn pairs<S: Simd>(self) -> VectorPairs<'a, S> {
                match self {
                    $(Values::$Type(values) => VectorPairs::$Type(S::chunks(values).as_chunks().0),)+
                }
            }

            /// Returns, per lane, the largest magnitude of each of the first blocks ([`together`]), ignoring NaNs.
            #[inline(always)]
            fn magnitude_lanes<S: SimdQuant>(self, s: S) -> [S::F32; 4] {
                match self {
                    $(Values::$Type(values) => {
                        let mut blocks = blocks_of::<$E, S>(values);
                        let zero = s.splat(0.0);
                        let mut lanes = [zero, zero, zero, zero];
                        lanes[0] = magnitude::<$E, S>(s, blocks.next());
                        if const { together::<S>() == 4 } {
                            lanes[1] = magnitude::<$E, S>(s, blocks.next());
                            lanes[2] = magnitude::<$E, S>(s, blocks.next());
                            lanes[3] = magnitude::<$E, S>(s, blocks.next());
                        }
                        lanes
                    })+
                }
            }

            /// Converts all values to f32; the shorter of both lengths counts.
            #[inline(always)]
            pub(crate) fn widen<S: InstructionSet>(self, s: S, target: &mut [f32]) {
                let len = self.len().min(target.len());
                let target = &mut target[..len];
                match self.part(0..len) {
                    $(Values::$Type(values) => s.enter(ToF32::<$E>::new(cast_slice(values), target)),)+
                }
            }
        }

        /// Blocks of four vectors.
        #[derive(Clone, Copy)]
        pub(crate) enum Blocks<'a, S: SimdQuant> {
            $($Type(&'a [[S::Chunk<<$E as Convert>::Bits>; 4]]),)+
        }

        impl<S: SimdQuant> Blocks<'_, S> {
            #[inline(always)]
            pub(crate) fn len(self) -> usize {
                match self {
                    $(Blocks::$Type(blocks) => blocks.len(),)+
                }
            }

            /// Returns true if a block is loaded as even and odd elements of each two vectors.
            #[inline(always)]
            pub(crate) fn even_odd(self) -> bool {
                S::INTERLEAVES_CODES
                    && match self {
                        $(Blocks::$Type(_) => <$E as Convert>::EVEN_ODD,)+
                    }
            }

            /// Loads a block as f32.
            #[inline(always)]
            pub(crate) fn load(self, s: S, index: usize) -> [S::F32; 4] {
                let ([a, b], [c, d]) = match self {
                    $(Blocks::$Type(blocks) => {
                        let [a, b, c, d] = blocks[index];
                        if const { S::INTERLEAVES_CODES } {
                            (
                                <$E as Convert>::read_even_odd(s, [a, b]),
                                <$E as Convert>::read_even_odd(s, [c, d]),
                            )
                        } else {
                            (
                                <$E as Convert>::read(s, [a, b]),
                                <$E as Convert>::read(s, [c, d]),
                            )
                        }
                    })+
                };
                [a, b, c, d]
            }
        }

        /// Pairs of vectors.
        #[derive(Clone, Copy)]
        pub(crate) enum VectorPairs<'a, S: Simd> {
            $($Type(&'a [[S::Chunk<<$E as Convert>::Bits>; 2]]),)+
        }

        impl<S: Simd> VectorPairs<'_, S> {
            /// Loads a pair as f32, in the order of its elements.
            #[inline(always)]
            pub(crate) fn load(self, s: S, index: usize) -> [S::F32; 2] {
                match self {
                    $(VectorPairs::$Type(pairs) => <$E as Convert>::read(s, pairs[index]),)+
                }
            }

            /// Loads a pair as f32, in the cheapest order.
            #[inline(always)]
            pub(crate) fn load_in_any_order(self, s: S, index: usize) -> [S::F32; 2] {
                match self {
                    $(VectorPairs::$Type(pairs) => {
                        <$E as Convert>::read_even_odd(s, pairs[index])
                    })+
                }
            }
        }
    };
}
elements!(values);

/// Values in a block of ggml's formats.
pub(crate) const BLOCK: usize = 32;

/// Returns the number of blocks whose largest lanes are found together: 1 with four lanes, which are few.
const fn together<S: Simd>() -> usize {
    if S::LANES < 8 { 1 } else { 4 }
}

/// Returns the vectors of each block. With four lanes their number is hidden from the compiler, which would unroll
/// loops over them to twice the code.
#[inline(always)]
fn blocks_of<E: Convert, S: Simd>(values: &[E::Bits]) -> ChunksExact<'_, S::Chunk<E::Bits>> {
    let vectors = const { BLOCK / S::LANES };
    S::chunks(values).chunks_exact(if const { S::LANES < 8 } {
        black_box(vectors)
    } else {
        vectors
    })
}

/// Returns the largest magnitude of a block per lane; 0 without a block.
#[inline(always)]
fn magnitude<E: Convert, S: SimdQuant>(s: S, block: Option<&[S::Chunk<E::Bits>]>) -> S::F32 {
    let mut largest = s.splat(0.0);
    if let Some(block) = block {
        for pair in block.as_chunks().0 {
            let [a, b] = E::read_even_odd(s, *pair);
            largest = s.max_magnitude(s.max_magnitude(largest, a), b);
        }
    }
    largest
}

impl Values<'_> {
    /// Computes the largest magnitude of each block, ignoring NaNs.
    #[inline(always)]
    pub(crate) fn block_magnitudes<S: InstructionSet>(self, s: S, largest: &mut [f32]) {
        let together = const { together::<S>() };
        for (index, largest) in largest.chunks_exact_mut(together).enumerate() {
            let start = index * together * BLOCK;
            if start >= self.len() {
                break;
            }
            let lanes = self.part(start..self.len()).magnitude_lanes(s);
            match largest {
                [largest] => *largest = s.max_lane(lanes[0]),
                largest => largest.copy_from_slice(&s.extreme_lanes::<true>(lanes)),
            }
        }
    }

    /// Returns the largest magnitude, ignoring NaNs; 0 without values.
    #[inline(always)]
    pub(crate) fn largest_magnitude<S: InstructionSet>(self, s: S) -> f32 {
        let blocks = self.blocks::<S>();
        // Four at a time, because each waits for its own chain.
        let zero = s.splat(0.0);
        let mut lanes = [zero, zero, zero, zero];
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

    /// Loads an incomplete block, padded with zeros.
    #[inline(always)]
    pub(crate) fn padded<S: InstructionSet>(self, s: S) -> [S::F32; 4] {
        let mut values = [0.0; MOST_OF_BLOCK];
        self.widen(s, &mut values);
        Values::F32(&values).blocks::<S>().load(s, 0)
    }
}

/// The most values that become f32 before their codes.
pub(crate) const MOST_WIDENED: usize = 1024;

/// Values in the largest block.
pub(crate) const MOST_OF_BLOCK: usize = 64;

#[inline(always)]
fn max_magnitudes<S: SimdQuant>(
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

impl<S: SimdQuant> Blocks<'_, S> {
    /// Values in a block.
    pub(crate) const LEN: usize = 4 * S::LANES;
}
