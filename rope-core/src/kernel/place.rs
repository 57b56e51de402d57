//! Where heads are read and where their rotation goes: one tensor, or two.

use core::any::TypeId;
use core::marker::PhantomData;
use core::ops::Range;

use super::members::{Members, shuffled};
use super::rotate::{Angles, turn, turn_alternating};
use crate::element::Element;
use crate::simd::Simd;
use crate::tensor::{Layout, Shape, Strides, Tensor, TensorMut};

/// The tensor or tensors of a rotation.
pub(crate) trait Memory {
    type Line<'a>: Line
    where
        Self: 'a;

    fn shape(&self) -> Shape;

    /// Strides of the tensor that is written, which decide the order of the walk.
    fn strides(&self) -> Strides;

    /// All heads of a token.
    fn heads(&mut self, batch: usize, token: usize) -> Self::Line<'_>;

    /// One head of some tokens.
    fn tokens(&mut self, batch: usize, tokens: Range<usize>, head: usize) -> Self::Line<'_>;
}

/// Heads at equal distances.
pub(crate) trait Line {
    type Head<'a>: Head
    where
        Self: 'a;

    /// Whether loading pairs leaves them in the order of [`Simd::unzip`].
    const SHUFFLED: bool;

    /// Whether pairs that alternate can be turned without taking them apart.
    const ALTERNATING: bool;

    fn len(&self) -> usize;

    fn head(&mut self, index: usize) -> Self::Head<'_>;

    /// Asks for a head that is to be rotated later, perhaps beyond the end of the line.
    fn prefetch<S: Simd>(&self, s: S, index: usize);

    /// Lets channels `from..` through unrotated.
    fn pass<S: Simd>(&mut self, s: S, from: usize);
}

/// One head.
pub(crate) trait Head {
    /// Rotates `angles.len()` vectors of pairs, from pair `at`, of a head with `pairs` pairs.
    fn rotate<S: Simd>(&mut self, s: S, pairs: usize, at: usize, angles: impl Angles<S>);
}

/// A tensor that is rotated where it is.
pub(crate) struct InPlace<'a, E: Element, P> {
    data: &'a mut [E::Bits],
    layout: Layout,
    pairing: PhantomData<P>,
}

impl<'a, E: Element, P: Members> InPlace<'a, E, P> {
    pub(crate) fn new(x: &'a mut TensorMut<'_, E>) -> Self {
        let layout = *x.layout();
        InPlace {
            data: bytemuck::cast_slice_mut(x.data_mut()),
            layout,
            pairing: PhantomData,
        }
    }
}

impl<E: Element, P: Members> Memory for InPlace<'_, E, P> {
    type Line<'a>
        = LineInPlace<'a, E, P>
    where
        Self: 'a;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.layout.shape()
    }

    #[inline(always)]
    fn strides(&self) -> Strides {
        self.layout.strides()
    }

    #[inline(always)]
    fn heads(&mut self, batch: usize, token: usize) -> LineInPlace<'_, E, P> {
        let Shape {
            heads, head_dim, ..
        } = self.layout.shape();
        LineInPlace {
            data: &mut self.data[self.layout.head(batch, token, 0)..],
            step: self.layout.strides().head,
            len: heads,
            channels: head_dim,
            pairing: PhantomData,
        }
    }

    #[inline(always)]
    fn tokens(&mut self, batch: usize, tokens: Range<usize>, head: usize) -> LineInPlace<'_, E, P> {
        LineInPlace {
            data: &mut self.data[self.layout.head(batch, tokens.start, head)..],
            step: self.layout.strides().token,
            len: tokens.len(),
            channels: self.layout.shape().head_dim,
            pairing: PhantomData,
        }
    }
}

pub(crate) struct LineInPlace<'a, E: Element, P> {
    data: &'a mut [E::Bits],
    step: usize,
    len: usize,
    channels: usize,
    pairing: PhantomData<P>,
}

impl<E: Element, P: Members> Line for LineInPlace<'_, E, P> {
    type Head<'a>
        = HeadInPlace<'a, E, P>
    where
        Self: 'a;

    const SHUFFLED: bool = shuffled::<P, E>();
    const ALTERNATING: bool = shuffled::<P, E>();

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn head(&mut self, index: usize) -> HeadInPlace<'_, E, P> {
        HeadInPlace {
            head: &mut self.data[index * self.step..][..self.channels],
            pairing: PhantomData,
        }
    }

    #[inline(always)]
    fn prefetch<S: Simd>(&self, s: S, index: usize) {
        prefetch(s, self.data, index * self.step, self.channels);
    }

    #[inline(always)]
    fn pass<S: Simd>(&mut self, _: S, _: usize) {}
}

pub(crate) struct HeadInPlace<'a, E: Element, P> {
    head: &'a mut [E::Bits],
    pairing: PhantomData<P>,
}

impl<E: Element, P: Members> Head for HeadInPlace<'_, E, P> {
    #[inline(always)]
    fn rotate<S: Simd>(&mut self, s: S, pairs: usize, at: usize, angles: impl Angles<S>) {
        let mut run = P::run_mut::<S, _>(self.head, pairs, at, angles.len());
        for i in 0..angles.len() {
            let (cos, sin) = angles.get(s, i);
            if angles.doubled() {
                let (a, b) = P::load_as_is::<S, E>(s, P::reread(&run), i);
                let a = turn_alternating(s, a, cos[0], sin[0]);
                let b = turn_alternating(s, b, cos[1], sin[1]);
                P::store_as_is::<S, E>(s, &mut run, i, (a, b));
            } else {
                let pair = P::load::<S, E>(s, P::reread(&run), i);
                P::store::<S, E>(s, &mut run, i, turn(s, pair, (cos[0], sin[0])));
            }
        }
    }
}

/// A tensor that is read, and another that takes its rotation: the element and the pairing may change on the way.
pub(crate) struct Across<'a, I: Element, O: Element, P, Q> {
    source: &'a [I::Bits],
    source_layout: Layout,
    target: &'a mut [O::Bits],
    target_layout: Layout,
    pairings: PhantomData<(P, Q)>,
}

impl<'a, I: Element, O: Element, P: Members, Q: Members> Across<'a, I, O, P, Q> {
    pub(crate) fn new(source: &Tensor<'a, I>, target: &'a mut TensorMut<'_, O>) -> Self {
        let target_layout = *target.layout();
        Across {
            source: bytemuck::cast_slice(source.data()),
            source_layout: *source.layout(),
            target: bytemuck::cast_slice_mut(target.data_mut()),
            target_layout,
            pairings: PhantomData,
        }
    }
}

impl<I: Element, O: Element, P: Members, Q: Members> Memory for Across<'_, I, O, P, Q> {
    type Line<'a>
        = LineAcross<'a, I, O, P, Q>
    where
        Self: 'a;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.target_layout.shape()
    }

    #[inline(always)]
    fn strides(&self) -> Strides {
        self.target_layout.strides()
    }

    #[inline(always)]
    fn heads(&mut self, batch: usize, token: usize) -> LineAcross<'_, I, O, P, Q> {
        let Shape {
            heads, head_dim, ..
        } = self.target_layout.shape();
        LineAcross {
            source: &self.source[self.source_layout.head(batch, token, 0)..],
            source_step: self.source_layout.strides().head,
            target: &mut self.target[self.target_layout.head(batch, token, 0)..],
            target_step: self.target_layout.strides().head,
            len: heads,
            channels: head_dim,
            pairings: PhantomData,
        }
    }

    #[inline(always)]
    fn tokens(
        &mut self,
        batch: usize,
        tokens: Range<usize>,
        head: usize,
    ) -> LineAcross<'_, I, O, P, Q> {
        LineAcross {
            source: &self.source[self.source_layout.head(batch, tokens.start, head)..],
            source_step: self.source_layout.strides().token,
            target: &mut self.target[self.target_layout.head(batch, tokens.start, head)..],
            target_step: self.target_layout.strides().token,
            len: tokens.len(),
            channels: self.target_layout.shape().head_dim,
            pairings: PhantomData,
        }
    }
}

pub(crate) struct LineAcross<'a, I: Element, O: Element, P, Q> {
    source: &'a [I::Bits],
    source_step: usize,
    target: &'a mut [O::Bits],
    target_step: usize,
    len: usize,
    channels: usize,
    pairings: PhantomData<(P, Q)>,
}

impl<I: Element, O: Element, P: Members, Q: Members> Line for LineAcross<'_, I, O, P, Q> {
    type Head<'a>
        = HeadAcross<'a, I, O, P, Q>
    where
        Self: 'a;

    const SHUFFLED: bool = shuffled::<P, I>();
    const ALTERNATING: bool = shuffled::<P, I>() && shuffled::<Q, O>();

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn head(&mut self, index: usize) -> HeadAcross<'_, I, O, P, Q> {
        HeadAcross {
            source: &self.source[index * self.source_step..][..self.channels],
            target: &mut self.target[index * self.target_step..][..self.channels],
            pairings: PhantomData,
        }
    }

    #[inline(always)]
    fn prefetch<S: Simd>(&self, s: S, index: usize) {
        prefetch(s, self.source, index * self.source_step, self.channels);
        prefetch(s, self.target, index * self.target_step, self.channels);
    }

    #[inline(always)]
    fn pass<S: Simd>(&mut self, s: S, from: usize) {
        if from == self.channels {
            return;
        }
        for index in 0..self.len {
            let HeadAcross { source, target, .. } = self.head(index);
            let (source, target) = (&source[from..], &mut target[from..]);
            if TypeId::of::<I>() == TypeId::of::<O>() {
                // Not even a NaN changes.
                target.copy_from_slice(bytemuck::cast_slice(source));
            } else {
                convert::<S, I, O>(s, source, target);
            }
        }
    }
}

pub(crate) struct HeadAcross<'a, I: Element, O: Element, P, Q> {
    source: &'a [I::Bits],
    target: &'a mut [O::Bits],
    pairings: PhantomData<(P, Q)>,
}

impl<I: Element, O: Element, P: Members, Q: Members> Head for HeadAcross<'_, I, O, P, Q> {
    #[inline(always)]
    fn rotate<S: Simd>(&mut self, s: S, pairs: usize, at: usize, angles: impl Angles<S>) {
        let source = P::run::<S, _>(self.source, pairs, at, angles.len());
        let mut target = Q::run_mut::<S, _>(self.target, pairs, at, angles.len());
        for i in 0..angles.len() {
            let (cos, sin) = angles.get(s, i);
            if angles.doubled() {
                let (a, b) = P::load_as_is::<S, I>(s, source, i);
                let a = turn_alternating(s, a, cos[0], sin[0]);
                let b = turn_alternating(s, b, cos[1], sin[1]);
                Q::store_as_is::<S, O>(s, &mut target, i, (a, b));
            } else {
                let pair = P::load::<S, I>(s, source, i);
                let (x, y) = turn(s, pair, (cos[0], sin[0]));
                let turned = match const { (shuffled::<P, I>(), shuffled::<Q, O>()) } {
                    (true, false) => (s.unorder(x), s.unorder(y)),
                    (false, true) => (s.order(x), s.order(y)),
                    _ => (x, y),
                };
                Q::store::<S, O>(s, &mut target, i, turned);
            }
        }
    }
}

/// Asks for the cache lines of some elements, if they are all there.
#[inline(always)]
fn prefetch<S: Simd, T>(s: S, data: &[T], start: usize, len: usize) {
    if let Some(elements) = start.checked_add(len).and_then(|end| data.get(start..end)) {
        for line in elements.chunks(const { 64 / size_of::<T>() }) {
            s.prefetch(&line[0]);
        }
    }
}

/// Elements as another type.
#[inline(always)]
fn convert<S: Simd, I: Element, O: Element>(s: S, source: &[I::Bits], target: &mut [O::Bits]) {
    let (source, source_rest) = source.split_at(source.len() - source.len() % S::LANES);
    let (target, target_rest) = target.split_at_mut(source.len());
    for (&x, y) in S::chunks(source).iter().zip(S::chunks_mut(target)) {
        let x = I::load(s, x);
        [*y, _] = O::store(s, x, x);
    }
    if const { S::LANES > 1 } && !source_rest.is_empty() {
        convert::<_, I, O>(s.narrower(), source_rest, target_rest);
    }
}
