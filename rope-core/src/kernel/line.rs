//! The unit of compiled work: the loop over the heads of a line.
//!
//! ```text
//! for head in line {
//!     for pair in head {
//!         (x, y) = read(pair)
//!         write(x cos - y sin, x sin + y cos)
//!     }
//! }
//! ```
//!
//! is all there is to it, and [`RotateLine::plain`] is just that. What the other two loops change, and why:
//!
//! - *Vectors.* A group, two vectors of pairs, is rotated at a time. Two, because elements of 16 bits come in twos: one
//!   register of them is two of f32.
//! - *cos and sin stay in registers* while the heads of a token pass ([`RotateLine::shared`]): as many groups as the
//!   registers take, with a pass over the heads for each so many. (Read anew for each head, a rotation in cache takes
//!   twice as long.) Where each head has a row of its own there is nothing to keep ([`RotateLine::each`]).
//! - *What fills no group* is left to the next narrower instruction set: a call of its kernel, with the pair to begin
//!   at.
//! - *The next line is asked for* while the heads of this one are rotated, where the walk says so.

use core::hint::black_box;
use core::marker::PhantomData;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::normed::{Before, HeadNorm};
use super::pairs::{Double, PairLayout};
use super::rotation::{Angles, Form, RowFactors, alternate, part, rotate};
use crate::element::Convert;
use crate::rows::View;
use crate::simd::{Kernel, Scalar, Simd};

/// Heads at equal distances, and their rows. Every index in it has been checked against the tensor.
pub(crate) struct Line<'a> {
    /// Where heads are read, if not where they are written; in a backward pass, those of the rotated tensor. The
    /// elements as bytes: a line has no type, its kernel has.
    pub(crate) source: Option<&'a [u8]>,
    /// Elements from one head to the next, where they are read.
    pub(crate) source_step: usize,
    /// Where heads are written.
    pub(crate) target: &'a mut [u8],
    /// Elements from one head to the next, where they are written.
    pub(crate) target_step: usize,
    /// How many heads.
    pub(crate) heads: usize,
    /// Channels of a head.
    pub(crate) head_dim: usize,
    /// Bytes of the whole tensor.
    pub(crate) tensor: usize,
    /// Their rows.
    pub(crate) rows: LineRows<'a>,
    /// Where the line that is rotated next is read and written, in bytes; empty if nothing is gained by asking for it.
    pub(crate) next: [&'a [u8]; 2],
}

/// The rows of a line.
#[derive(Clone, Copy)]
pub(crate) struct LineRows<'a> {
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    /// Values of a row in either.
    pub(crate) pairs: usize,
    pub(crate) starts: Starts<'a>,
    /// `None` where cos and sin are taken as they are. A reference, because two f32 that a walk writes and a kernel
    /// reads as eight bytes stall behind all stores in flight.
    pub(crate) factors: Option<&'a RowFactors>,
}

/// Where rows start, in cos and in sin.
#[derive(Clone, Copy)]
pub(crate) enum Starts<'a> {
    /// The row that all heads share.
    Shared(usize),
    /// The row of each head.
    Each(&'a [usize]),
}

impl<'a> LineRows<'a> {
    /// The rows of the heads from one on.
    pub(crate) fn from(self, head: usize) -> Self {
        LineRows {
            starts: match self.starts {
                Starts::Each(starts) => Starts::Each(&starts[head..]),
                shared => shared,
            },
            ..self
        }
    }

    /// Of rows that were checked.
    #[inline(always)]
    pub(crate) fn of(rows: &View<'a>, starts: Starts<'a>, factors: Option<&'a RowFactors>) -> Self {
        let (cos, sin) = rows.values();
        LineRows {
            cos,
            sin,
            pairs: rows.pairs(),
            starts,
            factors,
        }
    }

    /// cos and sin of the row that starts there.
    #[inline(always)]
    pub(super) fn row(&self, start: usize) -> [&'a [f32]; 2] {
        [
            &self.cos[start..][..self.pairs],
            &self.sin[start..][..self.pairs],
        ]
    }
}

/// Rotates the pairs of a line from one on: reads elements `I` of pairing `P`, writes elements `O` of pairing `Q`.
///
/// `IN_PLACE` says that a head is read where it is written. One text serves both, but not one kernel: one that looks
/// for itself where to read compiles the arithmetic twice all the same, and takes 12 more instructions a head.
pub(crate) struct RotateLine<'l, 'a, const IN_PLACE: bool, I, P, O, Q, N = ()> {
    line: &'l mut Line<'a>,
    from: usize,
    /// What stands before the rotation.
    before: N,
    chain: PhantomData<(I, P, O, Q)>,
}

impl<'l, 'a, const IN_PLACE: bool, I, P, O, Q, N> RotateLine<'l, 'a, IN_PLACE, I, P, O, Q, N> {
    #[inline(always)]
    pub(crate) fn new(line: &'l mut Line<'a>, before: N) -> Self {
        RotateLine::from(line, 0, before)
    }

    #[inline(always)]
    pub(super) fn from(line: &'l mut Line<'a>, from: usize, before: N) -> Self {
        RotateLine {
            line,
            from,
            before,
            chain: PhantomData,
        }
    }
}

impl<const IN_PLACE: bool, I: Convert, P: PairLayout, O: Convert, Q: PairLayout, N: Before> Kernel
    for RotateLine<'_, '_, IN_PLACE, I, P, O, Q, N>
{
    const BF16: bool = O::BF16;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let RotateLine {
            line,
            mut from,
            before,
            ..
        } = self;
        let rows = line.rows;
        let pairs = rows.pairs;
        let Some(mut heads) = Heads::<I, O>::of::<IN_PLACE>(line) else {
            return;
        };
        if const { S::LANES == 1 } {
            return Self::plain(&mut heads, &rows, from, before);
        }
        match rows.starts {
            Starts::Shared(start) if !Self::nan_in(s, rows.row(start)) => {
                let row = rows.row(start);
                if const { Self::most::<S>() >= 4 } {
                    while pairs - from >= 4 * Self::group::<S>() {
                        from = Self::shared::<S, 4>(s, &mut heads, row, rows.factors, from, before);
                    }
                }
                if const { !N::NORMS } {
                    while pairs - from >= 2 * Self::group::<S>() {
                        from = Self::shared::<S, 2>(s, &mut heads, row, rows.factors, from, before);
                    }
                }
                while pairs - from >= Self::group::<S>() {
                    from = Self::shared::<S, 1>(s, &mut heads, row, rows.factors, from, before);
                }
            }
            Starts::Each(starts) if !Self::nan_in_any(s, &rows, starts) => {
                from = if rows.factors.is_none() {
                    Self::each::<S, true>(s, &mut heads, &rows, starts, from, before)
                } else {
                    Self::each::<S, false>(s, &mut heads, &rows, starts, from, before)
                };
            }
            // The narrower instruction set takes the whole line, and it or the next asks for every NaN.
            _ => {}
        }
        if from < pairs {
            s.narrower().enter(Self::from(line, from, before));
        }
    }
}

impl<'l, 'a, const IN_PLACE: bool, I: Convert, P: PairLayout, O: Convert, Q: PairLayout, N: Before>
    RotateLine<'l, 'a, IN_PLACE, I, P, O, Q, N>
{
    /// Whether elements are read as even and odd ones: where both ends like it, unless their own order costs less.
    /// Those of alternating members are the members.
    const fn even_odd<S: Simd>() -> bool {
        !N::NORMS
            && I::EVEN_ODD
            && O::EVEN_ODD
            && (P::ALTERNATING || !Q::ALTERNATING && !S::WIDENS_IN_ORDER)
    }

    /// Whether they are written so too: where they lie as they did.
    const fn writes_even_odd<S: Simd>() -> bool {
        Self::even_odd::<S>() && P::ALTERNATING == Q::ALTERNATING
    }

    /// The form of a group.
    const fn form<S: Simd>(shared: bool) -> Form {
        Form::of::<S, P>(Self::even_odd::<S>(), size_of::<O::Bits>(), shared)
    }

    /// Whether a row has a NaN that the instruction set would round wrongly.
    #[inline(always)]
    pub(super) fn nan_in<S: Simd>(s: S, [cos, sin]: [&[f32]; 2]) -> bool {
        if const { !(Self::writes_even_odd::<S>() && S::TRUSTS_NAN) } {
            return false;
        }
        let mut sum = s.splat(0.0);
        for (&cos, &sin) in S::chunks(cos).iter().zip(S::chunks(sin)) {
            sum = s.add(sum, s.add(s.load_f32(cos), s.load_f32(sin)));
        }
        s.any_nan(sum)
    }

    /// The same of the rows of a line.
    #[inline(always)]
    fn nan_in_any<S: Simd>(s: S, rows: &LineRows<'_>, starts: &[usize]) -> bool {
        let mut found = false;
        if const { Self::writes_even_odd::<S>() && S::TRUSTS_NAN } {
            for &start in starts {
                found |= Self::nan_in(s, rows.row(start));
            }
        }
        found
    }

    /// Whether the heads of a tensor are asked for ahead: f32 beyond the first cache; 16 bits, which take longer to
    /// rotate, beyond the second.
    const fn asks_ahead<S: Simd>(bytes: usize) -> bool {
        let cache = if size_of::<O::Bits>() == 4 {
            48 << 10
        } else {
            2 << 20
        };
        S::AHEAD > 0 && bytes > cache
    }

    /// Pairs in a group.
    const fn group<S: Simd>() -> usize {
        2 * S::LANES
    }

    /// Groups whose cos and sin fit the registers.
    const fn most<S: Simd>() -> usize {
        match Self::form::<S>(true) {
            // What norms as well waits for its arithmetic, not for cos and sin, and is a quarter as large so.
            _ if N::NORMS => 1,
            Form::Doubled => S::GROUPS / 2,
            _ => S::GROUPS,
        }
    }

    /// The loop as it is written down: one lane, any number of pairs. The definition that all backends agree with.
    #[inline(always)]
    fn plain(heads: &mut Heads<'_, I, O>, rows: &LineRows<'_>, from: usize, before: N) {
        for index in 0..heads.len {
            let start = match rows.starts {
                Starts::Shared(start) => start,
                Starts::Each(starts) => starts[index],
            };
            let [cos, sin] = rows.row(start);
            let RowFactors { cos: c, sin: n } = *rows.factors.unwrap_or(&RowFactors::UNSCALED);
            let (source, target) = heads.head(index);
            // Cut before it is walked through: to skip inside the loop keeps the compiler from vectorising it.
            let [cos, sin] = [&cos[from..], &sin[from..]];
            if let Some(source) = source {
                for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
                    let [x, y] = P::members(rows.pairs, from + i);
                    let xy = [I::to_f32(source[x]), I::to_f32(source[y])];
                    let [u, v] = rotate(Scalar, xy, cos * c, sin * n);
                    let [x, y] = Q::members(rows.pairs, from + i);
                    [target[x], target[y]] = [O::from_f32(u), O::from_f32(v)];
                }
            } else if let Some(norm) = before.norm() {
                for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
                    let [x, y] = P::members(rows.pairs, from + i);
                    let normed = |channel: usize, bits: O::Bits| {
                        norm.channel::<O>(index, channel, O::to_f32(bits))
                    };
                    let xy = [normed(x, target[x]), normed(y, target[y])];
                    let [u, v] = rotate(Scalar, xy, cos * c, sin * n);
                    [target[x], target[y]] = [O::from_f32(u), O::from_f32(v)];
                }
            } else {
                P::replace(target, rows.pairs, from, [cos, sin], |[x, y], cos, sin| {
                    let xy = [I::to_f32(same(x)), I::to_f32(same(y))];
                    let [u, v] = rotate(Scalar, xy, cos * c, sin * n);
                    [O::from_f32(u), O::from_f32(v)]
                });
            }
        }
    }

    /// `G` groups, from a pair on, of all heads, with the row that they share. Returns the next pair.
    #[inline(always)]
    fn shared<S: Simd, const G: usize>(
        s: S,
        heads: &mut Heads<'_, I, O>,
        [cos, sin]: [&[f32]; 2],
        factors: Option<&RowFactors>,
        from: usize,
        before: N,
    ) -> usize {
        let form = const { Self::form::<S>(true) };
        let (pairs, len) = (cos.len(), G * Self::group::<S>());
        let cos = S::chunks(&cos[from..][..len]).as_chunks().0;
        let sin = S::chunks(&sin[from..][..len]).as_chunks().0;
        let mut angles = [Angles::zero(s); G];
        for i in 0..G {
            angles[i] = Angles::load(s, cos[i], sin[i], factors, form);
        }
        heads.check::<P, Q>(pairs, from, len);
        let ahead = from == 0 && Self::asks_ahead::<S>(heads.tensor);
        for index in 0..heads.len {
            if ahead {
                heads.ask_for(s, index + S::AHEAD);
            }
            let mut cut = heads.cut::<S, P, Q>(s, &before, index, [pairs, from, G]);
            // By hand: a loop that may call something (what is rare, in 16 bits) the compiler does not unroll, and
            // keeps cos and sin in memory for it.
            const { assert!(G == 1 || G == 2 || G == 4) };
            cut.rotate(s, 0, &angles[0], form);
            if const { G > 1 } {
                cut.rotate(s, 1, &angles[1], form);
            }
            if const { G > 2 } {
                cut.rotate(s, 2, &angles[2], form);
                cut.rotate(s, 3, &angles[3], form);
            }
        }
        from + len
    }

    /// All whole groups, from a pair on, of all heads, each with its own row. Returns the next pair.
    #[inline(always)]
    fn each<S: Simd, const FORWARD: bool>(
        s: S,
        heads: &mut Heads<'_, I, O>,
        rows: &LineRows<'_>,
        starts: &[usize],
        from: usize,
        before: N,
    ) -> usize {
        let form = const { Self::form::<S>(false) };
        let groups = (rows.pairs - from) / Self::group::<S>();
        let factors = if FORWARD { None } else { rows.factors };
        let len = groups * Self::group::<S>();
        heads.check::<P, Q>(rows.pairs, from, len);
        for (index, &start) in starts.iter().enumerate() {
            heads.ask_for_next(s, index);
            let [cos, sin] = rows.row(start);
            let cos = &S::chunks(&cos[from..][..len]).as_chunks().0[..groups];
            let sin = &S::chunks(&sin[from..][..len]).as_chunks().0[..groups];
            let mut cut = heads.cut::<S, P, Q>(s, &before, index, [rows.pairs, from, groups]);
            for i in 0..groups {
                cut.rotate(s, i, &Angles::load(s, cos[i], sin[i], factors, form), form);
            }
        }
        from + len
    }
}

/// The heads of a line, as the elements they are.
pub(super) struct Heads<'h, I: Convert, O: Convert> {
    source: Option<&'h [I::Bits]>,
    source_step: usize,
    target: &'h mut [O::Bits],
    target_step: usize,
    len: usize,
    head_dim: usize,
    pub(super) tensor: usize,
    next: [&'h [u8]; 2],
}

impl<'h, I: Convert, O: Convert> Heads<'h, I, O> {
    /// Nothing if they are not read where the kernel reads, which no plan asks for.
    #[inline(always)]
    pub(super) fn of<const IN_PLACE: bool>(line: &'h mut Line<'_>) -> Option<Self> {
        Some(Heads {
            source: if IN_PLACE {
                None
            } else {
                Some(cast_slice(line.source?))
            },
            source_step: line.source_step,
            target: cast_slice_mut(line.target),
            target_step: line.target_step,
            len: line.heads,
            head_dim: line.head_dim,
            tensor: line.tensor,
            next: line.next,
        })
    }

    /// Every head has these pairs, where it is read and where it is written: the plan has seen to it.
    #[inline(always)]
    pub(super) fn check<P: PairLayout, Q: PairLayout>(
        &self,
        pairs: usize,
        from: usize,
        len: usize,
    ) {
        assert!(P::has(self.head_dim, pairs, from, len) && Q::has(self.head_dim, pairs, from, len));
    }

    /// Asks for the head of the next line that is where a head of this one is.
    #[inline(always)]
    fn ask_for_next<S: Simd>(&self, s: S, index: usize) {
        let [source, target] = self.next;
        if !source.is_empty() {
            let size = size_of::<I::Bits>();
            ask_for(
                s,
                source,
                index * self.source_step * size,
                self.head_dim * size,
            );
        }
        if !target.is_empty() {
            let size = size_of::<O::Bits>();
            ask_for(
                s,
                target,
                index * self.target_step * size,
                self.head_dim * size,
            );
        }
    }

    /// Asks for a head that comes later, perhaps in a later line. The step of a single head may be any number.
    #[inline(always)]
    pub(super) fn ask_for<S: Simd>(&self, s: S, index: usize) {
        if let Some(source) = self.source {
            ask_for(
                s,
                source,
                index.wrapping_mul(self.source_step),
                self.head_dim,
            );
        }
        let start = index.wrapping_mul(self.target_step);
        ask_for(s, &*self.target, start, self.head_dim);
    }

    #[inline(always)]
    fn head(&mut self, index: usize) -> (Option<&'h [I::Bits]>, &mut [O::Bits]) {
        let source = match self.source {
            Some(source) => Some(&source[index * self.source_step..][..self.head_dim]),
            None => None,
        };
        let target = &mut self.target[index * self.target_step..][..self.head_dim];
        (source, target)
    }

    #[inline(always)]
    #[allow(
        clippy::manual_map,
        reason = "a closure is not inlined into the backend's entry"
    )]
    pub(super) fn cut<'c, S: Simd, P: PairLayout, Q: PairLayout>(
        &'c mut self,
        s: S,
        before: &'c impl Before,
        index: usize,
        [pairs, from, groups]: [usize; 3],
    ) -> Cut<'c, S, I, P, O, Q> {
        let (source, target) = self.head(index);
        Cut {
            norm: match before.norm() {
                Some(norm) => Some(norm.head(s, index, [pairs, from, groups])),
                None => None,
            },
            source: match source {
                Some(source) => Some(P::groups::<S, _>(source, pairs, from, groups)),
                None => None,
            },
            target: Q::groups_mut::<S, _>(target, pairs, from, groups),
        }
    }
}

/// Groups of a head, where they are read, if that is another place, and where they are written.
pub(super) struct Cut<'c, S: Simd, I: Convert, P: PairLayout, O: Convert, Q: PairLayout> {
    norm: Option<HeadNorm<'c, S, P>>,
    source: Option<P::Groups<'c, Double<S, I::Bits>>>,
    pub(super) target: Q::GroupsMut<'c, Double<S, O::Bits>>,
}

impl<S: Simd, I: Convert, P: PairLayout, O: Convert, Q: PairLayout> Cut<'_, S, I, P, O, Q> {
    /// Reads a group, norms it, rotates it, writes it: all stages of a chain, in registers.
    #[inline(always)]
    pub(super) fn rotate(&mut self, s: S, i: usize, angles: &Angles<S>, form: Form) {
        let even_odd = matches!(form, Form::ApartEvenOdd | Form::EvenOdd);
        let [a, b] = match self.source {
            Some(source) => P::get(source, i),
            None => {
                let [a, b] = Q::get(Q::reread(&self.target), i);
                [same(a), same(b)]
            }
        };
        let mut group = [I::read(s, a, even_odd), I::read(s, b, even_odd)];
        if let Some(norm) = &self.norm {
            group = norm.apply::<I>(s, i, group);
        }
        let rotated = angles.rotate(s, group, form);
        let moves = const { P::ALTERNATING != Q::ALTERNATING };
        let [[x0, y0], [x1, y1]] = rotated;
        let rotated = match const { (P::ALTERNATING, Q::ALTERNATING) } {
            // Even and odd elements are apart already.
            (true, false) if even_odd => [[x0, x1], [y0, y1]],
            (true, false) => part(s, rotated),
            (false, true) => alternate(s, rotated),
            _ => rotated,
        };
        Q::set(
            &mut self.target,
            i,
            O::write(s, rotated, even_odd && !moves),
        );
    }
}

/// Asks for the cache lines of some elements, as far as they are there. A loop of few instructions: what it costs, it
/// costs for each head, also where the caches have it all.
#[inline(always)]
pub(crate) fn ask_for<S: Simd, T: Pod>(s: S, elements: &[T], start: usize, len: usize) {
    if const { !S::PREFETCHES } {
        return;
    }
    let elements = elements.get(start..).unwrap_or_default();
    let elements = &elements[..len.min(elements.len())];
    // A step that the compiler does not know: else it unrolls the loop eight times in each of a hundred kernels, which
    // makes the crate a tenth larger, and nothing faster.
    let step = black_box(const { 64 / size_of::<T>() });
    let mut at = 0;
    while let Some(element) = elements.get(at) {
        s.prefetch(element);
        at += step;
    }
}

/// A value as the type that it has: what is read where it is written is of one element.
#[inline(always)]
fn same<T: Pod, U: Pod>(x: T) -> U {
    bytemuck::try_cast(x).unwrap_or_else(|_| U::zeroed())
}
