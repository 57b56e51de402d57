//! The verbs of rope-core for each element type, compiled here once: a generic call in a suite would compile every
//! kernel of every backend again, which takes minutes when it is optimised.

use half::{bf16, f16};
use rope_core::{Backend, Error, Pairing, Rope, Rows, Tensor, TensorMut};

use crate::{Number, Rotation};

/// A [`Rope`], to be called in tests.
#[derive(Clone, Copy, Debug)]
pub struct Plan(pub Rope);

impl Plan {
    /// The plan of a turn on a backend.
    ///
    /// # Panics
    ///
    /// If the backend is not available.
    pub fn new(rotation: Rotation, backend: Backend) -> Self {
        let rope = Rope::new(rotation.input)
            .output_pairing(rotation.output)
            .direction(rotation.direction);
        Plan(rope.backend(backend).expect("an available backend"))
    }

    /// Forward, on the best backend.
    pub fn forward(pairing: Pairing) -> Self {
        Plan(Rope::new(pairing))
    }

    /// [`Rope::rotate`].
    pub fn rotate<E: Number>(self, x: &mut TensorMut<'_, E>, rows: &Rows<'_>) -> Result<(), Error> {
        E::rotate(self, x, rows)
    }

    /// [`Rope::rotate_qk`].
    pub fn rotate_qk<Q: Number, K: Number>(
        self,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, K>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        K::rotate_with(self, q, k, rows)
    }

    /// [`Rope::rotate_into`].
    pub fn rotate_into<I: Number, O: Number>(
        self,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        O::rotate_from(self, x, y, rows)
    }
}

/// An element type whose kernels are compiled here: the verbs as functions without parameters of type.
pub trait Compiled: Sized {
    /// [`Rope::rotate`].
    fn rotate(plan: Plan, x: &mut TensorMut<'_, Self>, rows: &Rows<'_>) -> Result<(), Error>;

    /// [`Rope::rotate_qk`] of any Q.
    fn rotate_with<Q: Number>(
        plan: Plan,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, Self>,
        rows: &Rows<'_>,
    ) -> Result<(), Error>;

    /// [`Rope::rotate_into`] from any element.
    fn rotate_from<I: Number>(
        plan: Plan,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, Self>,
        rows: &Rows<'_>,
    ) -> Result<(), Error>;
}

/// For each other element type `O`: [`Compiled`] with both types known.
pub trait To<O> {
    /// [`Rope::rotate_qk`].
    fn qk(
        plan: Plan,
        q: &mut TensorMut<'_, Self>,
        k: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error>
    where
        Self: Sized;

    /// [`Rope::rotate_into`].
    fn into(
        plan: Plan,
        x: &Tensor<'_, Self>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error>
    where
        Self: Sized;
}

macro_rules! compiled {
    ($($element:ty),*) => {$(
        impl Compiled for $element {
            #[inline(never)]
            fn rotate(plan: Plan, x: &mut TensorMut<'_, Self>, rows: &Rows<'_>) -> Result<(), Error> {
                plan.0.rotate(x, rows)
            }

            fn rotate_with<Q: Number>(
                plan: Plan,
                q: &mut TensorMut<'_, Q>,
                k: &mut TensorMut<'_, Self>,
                rows: &Rows<'_>,
            ) -> Result<(), Error> {
                <Q as To<Self>>::qk(plan, q, k, rows)
            }

            fn rotate_from<I: Number>(
                plan: Plan,
                x: &Tensor<'_, I>,
                y: &mut TensorMut<'_, Self>,
                rows: &Rows<'_>,
            ) -> Result<(), Error> {
                <I as To<Self>>::into(plan, x, y, rows)
            }
        }
        compiled!(@to $element => f32, f16, bf16);
    )*};
    (@to $from:ty => $($to:ty),*) => {$(
        impl To<$to> for $from {
            #[inline(never)]
            fn qk(
                plan: Plan,
                q: &mut TensorMut<'_, Self>,
                k: &mut TensorMut<'_, $to>,
                rows: &Rows<'_>,
            ) -> Result<(), Error> {
                plan.0.rotate_qk(q, k, rows)
            }

            #[inline(never)]
            fn into(
                plan: Plan,
                x: &Tensor<'_, Self>,
                y: &mut TensorMut<'_, $to>,
                rows: &Rows<'_>,
            ) -> Result<(), Error> {
                plan.0.rotate_into(x, y, rows)
            }
        }
    )*};
}
compiled!(f32, f16, bf16);
