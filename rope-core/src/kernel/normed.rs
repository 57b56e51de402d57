//! A norm fused with the rotation after it: a head is read from memory once, and both products are computed in
//! registers before the rotation.
//!
//! The sums of all heads of a line come first ([`LineRoots`]), side by side, because each ends in a latency of some
//! hundred cycles: eight additions, a root, two quotients. The heads are in the first-level cache when they are read
//! again.

use core::marker::PhantomData;

use super::elements::{ElementType, elements};
use super::heads::Heads;
use super::line::{Line, SourceLine};
use super::norm::{LANES, ROOTS, Term, add_blocks, add_rest, fold_lanes, roots};
use super::pairs::Interleaved;
use super::prologue::LineNorm;
use super::route::Same;
use super::source::SourceHeads;
use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel, MemoryKernel};

/// Channels of a head from which a sum is a cascade, and a norm is not fused.
pub(crate) const TOO_LONG: usize = 512;

/// A kernel that norms the channels of each head that do not rotate, from an even one on.
pub(crate) struct NormRest<'l, 'n, E> {
    pub(crate) line: &'l Line<'l>,
    pub(crate) norm: &'n LineNorm<'n>,
    pub(crate) element: PhantomData<E>,
}

impl<E: Convert> MemoryKernel for NormRest<'_, '_, E> {
    const BF16: bool = E::BF16;

    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], from: usize) {
        let NormRest { line, norm, .. } = self;
        let (head_dim, count) = (line.head_dim, line.heads);
        let mut heads = Heads::<Same<E, Interleaved>>::of((), memory, line);
        if const { S::LANES == 1 } {
            for index in 0..count {
                for (channel, x) in heads.head(index).iter_mut().enumerate().skip(from) {
                    *x = E::from_f32(norm.channel::<E>(index, channel, E::to_f32(*x)));
                }
            }
            return;
        }
        // Neighbors form pairs: two vectors of them are a group, which is four vectors of channels.
        let groups = (head_dim - from) / const { 4 * S::LANES };
        let (pair, pairs) = (from / 2, groups * const { 2 * S::LANES });
        heads.check(0, pair, pairs);
        for index in 0..count {
            let mut head = heads.groups(s, &norm, heads.at(index), [0, pair, groups]);
            for i in 0..groups {
                head.norm(s, i);
            }
        }
        let from = from + 2 * pairs;
        if from < head_dim {
            s.narrower().enter_in(memory, from, self);
        }
    }
}

/// A kernel for the reciprocal roots of the heads of a line: sums of squares in the order of [`norm`](super::norm), of
/// heads below [`TOO_LONG`], at most [`ROOTS`] of them. One kernel for all elements, with one branch on the element.
pub(crate) struct LineRoots<'a> {
    pub(crate) element: ElementType,
    pub(crate) heads: &'a SourceLine<'a>,
    pub(crate) head_dim: usize,
    pub(crate) len: usize,
    pub(crate) eps: f32,
    pub(crate) roots: &'a mut [f32; ROOTS],
}

impl Kernel for LineRoots<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(mut self, s: S) {
        // First the vectors of all heads, then the serial ends of their sums, then the roots: no step waits for its own
        // result.
        let mut eights = [[0.0_f32; 8]; ROOTS];
        self.squares(s, &mut eights);
        for (sum, eight) in self.roots.iter_mut().zip(&eights).take(self.len) {
            *sum = eight.iter().fold(*sum, |sum, lane| sum + lane);
        }
        roots(s, self.roots, self.len, self.head_dim as f32, self.eps);
    }
}

macro_rules! squares {
    ($($Type:ident: $E:ty [$($fused:tt)*];)+) => {
        impl LineRoots<'_> {
            #[inline(always)]
            fn squares<S: InstructionSet>(&mut self, s: S, eights: &mut [[f32; 8]; ROOTS]) {
                match self.element {
                    $(ElementType::$Type => self.squares_of::<$E, S>(s, eights),)+
                }
            }
        }
    };
}
elements!(squares);

impl LineRoots<'_> {
    /// Computes the sums of squares of the heads: eight lanes each, and the rest below eight values in the place of its
    /// root.
    #[inline(always)]
    fn squares_of<E: Convert, S: InstructionSet>(&mut self, s: S, eights: &mut [[f32; 8]; ROOTS]) {
        let heads = SourceHeads::<E>::of(self.heads);
        let sums = eights.iter_mut().zip(&mut *self.roots).take(self.len);
        for (index, (eight, sum)) in sums.enumerate() {
            if const { S::PREFETCHES_HEADS } && heads.ahead != 0 {
                heads.prefetch(s, index, self.head_dim, false);
            }
            let (blocks, rest) = heads.head(index, self.head_dim).as_chunks::<LANES>();
            let mut lanes = add_blocks::<E, S>(s, Term::Square, [0.0; LANES], blocks, 0.0);
            *sum = 0.0;
            if !rest.is_empty() {
                let mut values = [0.0; LANES];
                for (value, x) in values.iter_mut().zip(rest) {
                    *value = E::to_f32(*x);
                }
                *sum = add_rest(Term::Square, &mut lanes, &values[..rest.len()], 0.0);
            }
            *eight = fold_lanes(s, &lanes);
        }
    }
}
