//! The backward pass of a line whose heads share a row: adds each head's terms, and rotates its gradient back, while it
//! is in registers.
//!
//! The sums of a group stay in registers during all heads, as do its cos and sin. They are added as in [`AddTerms`],
//! and heads rotate as in [`RotateLine`], so the bits are those of the two kernels in sequence. Incomplete groups, and
//! rows with a NaN that the instruction set would round wrongly, are left to those two.
//!
//! Each group is a pass over heads: over all of a line, or over a few if the tensors are large. The next group finds
//! those heads in the first-level cache, and the first group prefetches later heads.
//!
//! The limit, counted and measured with AVX-512 on Zen 5 for heads of 128 channels in the first-level cache, is f64.
//! For f32, a head is 32 conversions of 0.8 cycles, 26 cycles; 34 are measured, and 10 for the transpose alone. For
//! bf16, whose products are exact in f32, a group is 60 vector instructions, 15 cycles at best; 21 are measured, and 9
//! for the transpose. (Adding on the multiplier ports, as `a * 1 + b`, takes 1 to 6 % longer for bf16.) Beyond the
//! caches three streams move where the transpose has two.

use core::marker::PhantomData;
use core::ops::Range;

use super::gradient::{AddTerms, GradientLine, GradientTerm};
use super::heads::Heads;
use super::line::{Line, SourceLine, Starts};
use super::pairs::PairLayout;
use super::rotate::RotateLine;
use super::rotation::{self, AngleVectors, ConstOrder, LaneOrder, with_order};
use super::route::Same;
use super::source::SourceHeads;
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, MemoryKernel, SimdSums};

/// A kernel that rotates a line of gradients in place, and adds `y1 dy2 - y2 dy1` to the sums of its pairs, shared by
/// all heads.
pub(crate) struct BackwardLine<'l, E, P> {
    /// The rotated tensor.
    y: &'l SourceLine<'l>,
    line: &'l Line<'l>,
    sums: &'l mut [f64],
    chain: PhantomData<(E, P)>,
}

impl<'l, E, P> BackwardLine<'l, E, P> {
    #[inline(always)]
    pub(crate) fn new(y: &'l SourceLine<'l>, sums: &'l mut [f64], line: &'l Line<'l>) -> Self {
        BackwardLine {
            y,
            line,
            sums,
            chain: PhantomData,
        }
    }
}

impl<E: Convert, P: PairLayout> MemoryKernel for BackwardLine<'_, E, P> {
    const BF16: bool = E::BF16;

    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], _: usize) {
        let BackwardLine { y, line, sums, .. } = self;
        let pairs = line.rows.pairs;
        let from = match line.rows.starts {
            Starts::Shared(start) if const { S::BACKWARD } => {
                let row = line.rows.row(start);
                if RotateLine::<Same<E, P>>::nan_in(s, row) {
                    0
                } else {
                    with_order!(Self::lane_order::<S>(), O => {
                        Self::passes::<S, O>(s, y, (memory, line), sums, row)
                    })
                }
            }
            _ => 0,
        };
        if from < pairs {
            let mut terms = GradientLine {
                x: SourceLine { ahead: 0, ..*y },
                g: SourceLine {
                    memory: &*memory,
                    at: 0,
                    step: line.step,
                    ahead: 0,
                },
                heads: line.heads,
                head_dim: line.head_dim,
                pairs,
                term: GradientTerm::Cross,
                sums,
                sums_step: 0,
            };
            s.enter(AddTerms::<E, P>::from(&mut terms, from));
            s.enter_in(memory, from, RotateLine::<Same<E, P>>::new((), line, ()));
        }
    }
}

impl<E: Convert, P: PairLayout> BackwardLine<'_, E, P> {
    /// The heads of a partial pass: 2 KiB at 128 channels. (With prefetching, partial passes take 0.65 to 0.85 of the
    /// time of passes over all heads in `[1, 2048, 32, 128]`, and 0.3 to 0.75 with AVX2.)
    const SOME: usize = 16 / size_of::<E::Bits>();

    /// Returns the order of a group's lanes.
    const fn lane_order<S: SimdSums>() -> LaneOrder {
        LaneOrder::of::<S, P>(E::EVEN_ODD, size_of::<E::Bits>(), true)
    }

    /// Processes all whole groups of all heads. Returns the next pair.
    #[inline(always)]
    fn passes<S: SimdSums, O: ConstOrder>(
        s: S,
        y: &SourceLine<'_>,
        (memory, line): (&mut [u8], &Line<'_>),
        sums: &mut [f64],
        row: [&[f32]; 2],
    ) -> usize {
        let some = if line.ahead != 0 {
            Self::SOME
        } else {
            line.heads
        };
        let (mut first, mut from) = (0, 0);
        while first < line.heads {
            let heads = first..line.heads.min(first + some);
            first = heads.end;
            from = 0;
            while line.rows.pairs - from >= const { 2 * S::LANES } {
                let target = (&mut *memory, line);
                Self::pass::<S, O>(s, y, target, sums, row, heads.clone(), from);
                from += const { 2 * S::LANES };
            }
        }
        from
    }

    /// Processes a group of some heads.
    #[inline(always)]
    fn pass<S: SimdSums, O: ConstOrder>(
        s: S,
        y: &SourceLine<'_>,
        (memory, line): (&mut [u8], &Line<'_>),
        sums: &mut [f64],
        [cos, sin]: [&[f32]; 2],
        some: Range<usize>,
        from: usize,
    ) {
        let (factors, head_dim) = (line.rows.factors, line.head_dim);
        let y = SourceHeads::<E>::of(y);
        let mut heads = Heads::<Same<E, P>>::of((), memory, line);
        let (pairs, len) = (cos.len(), const { 2 * S::LANES });
        let cos = S::chunks(&cos[from..][..len]).as_chunks().0;
        let sin = S::chunks(&sin[from..][..len]).as_chunks().0;
        let angles = AngleVectors::<S, O>::load(s, cos[0], sin[0], factors);
        let places = S::chunks_mut(&mut sums[from..][..len]);
        let mut added = AddTerms::<E, P>::load(s, places);
        heads.check(pairs, from, len);
        let prefetches = const { S::PREFETCHES } && from == 0 && heads.ahead != 0;
        for index in some {
            if prefetches {
                y.prefetch(s, index, head_dim, false);
                heads.prefetch(s, heads.at(index), false);
            }
            let y = P::groups::<S, _>(y.head(index, head_dim), pairs, from, 1);
            let mut dy = heads.groups(s, &(), heads.at(index), [pairs, from, 1]);
            let group = P::get(P::reread(&dy.target), 0);
            added = AddTerms::<E, P>::add::<S, false>(s, added, P::get(y, 0), group);
            dy.rotate(s, 0, &angles);
        }
        AddTerms::<E, P>::store(s, added, places);
    }
}
