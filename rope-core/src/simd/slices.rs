//! The stages that read and write alone: elements to f32, and f32 to elements, of channels that lie side by side.

use core::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::simd::element::Convert;
use crate::simd::{InstructionSet, Kernel};

/// Elements to f32.
pub(crate) struct ToF32<'a, E> {
    source: &'a [u8],
    target: &'a mut [f32],
    element: PhantomData<E>,
}

impl<'a, E> ToF32<'a, E> {
    #[inline(always)]
    pub(crate) fn new(source: &'a [u8], target: &'a mut [f32]) -> Self {
        ToF32 {
            source,
            target,
            element: PhantomData,
        }
    }
}

impl<E: Convert> Kernel for ToF32<'_, E> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let source = cast_slice(self.source);
        let from = S::chunks(source).as_chunks::<2>().0;
        let to = S::chunks_mut(self.target).as_chunks_mut::<2>().0;
        for (x, y) in from.iter().zip(to) {
            let [a, b] = E::read(s, *x);
            *y = [s.store_f32(a), s.store_f32(b)];
        }
        let done = from.len() * 2 * S::LANES;
        let (source, target) = (&source[done..], &mut self.target[done..]);
        if const { S::LANES == 1 } {
            for (x, y) in source.iter().zip(target) {
                *y = E::to_f32(*x);
            }
        } else if !source.is_empty() {
            s.narrower()
                .enter(ToF32::<E>::new(cast_slice(source), target));
        }
    }
}

/// f32 to elements, rounded.
pub(crate) struct FromF32<'a, E> {
    source: &'a [f32],
    target: &'a mut [u8],
    element: PhantomData<E>,
}

impl<'a, E> FromF32<'a, E> {
    #[inline(always)]
    pub(crate) fn new(source: &'a [f32], target: &'a mut [u8]) -> Self {
        FromF32 {
            source,
            target,
            element: PhantomData,
        }
    }
}

impl<E: Convert> Kernel for FromF32<'_, E> {
    const BF16: bool = E::BF16;

    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let target = cast_slice_mut(self.target);
        let from = S::chunks(self.source).as_chunks::<2>().0.as_chunks().0;
        let to = S::chunks_mut(target)
            .as_chunks_mut::<2>()
            .0
            .as_chunks_mut()
            .0;
        for ([[a, b], [c, d]], y) in from.iter().zip(to) {
            let group = [
                [s.load_f32(*a), s.load_f32(*b)],
                [s.load_f32(*c), s.load_f32(*d)],
            ];
            *y = E::write(s, group);
        }
        let done = from.len() * 4 * S::LANES;
        let (source, target) = (&self.source[done..], &mut target[done..]);
        if const { S::LANES == 1 } {
            for (x, y) in source.iter().zip(target) {
                *y = E::from_f32(*x);
            }
        } else if !source.is_empty() {
            s.narrower()
                .enter(FromF32::<E>::new(source, cast_slice_mut(target)));
        }
    }
}
