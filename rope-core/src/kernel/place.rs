//! Where heads are read and where their rotation goes: one tensor, or two.

use core::any::TypeId;
use core::marker::PhantomData;

use super::members::Members;
use super::rotate::{Angles, turn};
use crate::element::Element;
use crate::simd::Simd;
use crate::tensor::{Layout, Shape, Strides, Tensor, TensorMut};

/// The tensor or tensors of a rotation.
pub(crate) trait Memory {
    type Head<'a>: Head
    where
        Self: 'a;

    /// Whether cos and sin are wanted in the order of [`Simd::unzip`].
    const SHUFFLED: bool;

    fn shape(&self) -> Shape;

    /// Strides of the tensor that is written, which decide the order of the walk.
    fn strides(&self) -> Strides;

    fn head(&mut self, batch: usize, token: usize, head: usize) -> Self::Head<'_>;
}

/// One head.
pub(crate) trait Head {
    /// Rotates `angles.len()` vectors of pairs, from pair `at`, of a head with `pairs` pairs.
    fn rotate<S: Simd>(&mut self, s: S, pairs: usize, at: usize, angles: impl Angles<S>);

    /// Lets channels `from..` through unrotated.
    fn pass<S: Simd>(&mut self, s: S, from: usize);
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
        InPlace { data: bytemuck::cast_slice_mut(x.data_mut()), layout, pairing: PhantomData }
    }
}

impl<E: Element, P: Members> Memory for InPlace<'_, E, P> {
    type Head<'a>
        = HeadInPlace<'a, E, P>
    where
        Self: 'a;

    const SHUFFLED: bool = P::ALTERNATING && E::SHUFFLED;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.layout.shape()
    }

    #[inline(always)]
    fn strides(&self) -> Strides {
        self.layout.strides()
    }

    #[inline(always)]
    fn head(&mut self, batch: usize, token: usize, head: usize) -> HeadInPlace<'_, E, P> {
        let start = self.layout.head(batch, token, head);
        HeadInPlace { head: &mut self.data[start..start + self.layout.shape().head_dim], pairing: PhantomData }
    }
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
            let pair = P::load::<S, E>(s, P::reread(&run), i);
            let turned = turn(s, pair, angles.get(s, i));
            P::store::<S, E>(s, &mut run, i, turned);
        }
    }

    #[inline(always)]
    fn pass<S: Simd>(&mut self, _: S, _: usize) {}
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
    type Head<'a>
        = HeadAcross<'a, I, O, P, Q>
    where
        Self: 'a;

    const SHUFFLED: bool = P::ALTERNATING && I::SHUFFLED;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.target_layout.shape()
    }

    #[inline(always)]
    fn strides(&self) -> Strides {
        self.target_layout.strides()
    }

    #[inline(always)]
    fn head(&mut self, batch: usize, token: usize, head: usize) -> HeadAcross<'_, I, O, P, Q> {
        let channels = self.target_layout.shape().head_dim;
        let source = self.source_layout.head(batch, token, head);
        let target = self.target_layout.head(batch, token, head);
        HeadAcross {
            source: &self.source[source..source + channels],
            target: &mut self.target[target..target + channels],
            pairings: PhantomData,
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
        let shuffled = const { (P::ALTERNATING && I::SHUFFLED, Q::ALTERNATING && O::SHUFFLED) };
        for i in 0..angles.len() {
            let pair = P::load::<S, I>(s, source, i);
            let (x, y) = turn(s, pair, angles.get(s, i));
            let turned = match shuffled {
                (true, false) => (s.unorder(x), s.unorder(y)),
                (false, true) => (s.order(x), s.order(y)),
                _ => (x, y),
            };
            Q::store::<S, O>(s, &mut target, i, turned);
        }
    }

    #[inline(always)]
    fn pass<S: Simd>(&mut self, s: S, from: usize) {
        let (source, target) = (&self.source[from..], &mut self.target[from..]);
        if TypeId::of::<I>() == TypeId::of::<O>() {
            // Not even a NaN changes.
            target.copy_from_slice(bytemuck::cast_slice(source));
        } else {
            convert::<S, I, O>(s, source, target);
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
