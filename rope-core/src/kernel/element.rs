//! Element types, as the crates of users see them.

use bytemuck::Pod;

use crate::kernel::elements::{
    BackwardKernels, ElementType, GradientKernels, InPlaceKernels, NormRotateKernels,
    OutOfPlaceKernels,
};

/// A type that tensors are made of: `f32`, [`half::f16`] or [`half::bf16`].
///
/// Whatever the element, the arithmetic is f32, and its result is rounded to the element once, to nearest, ties to
/// even. Converting up is exact.
///
/// Special values: infinities, subnormals and the sign of zero are kept by both conversions (nothing is flushed), and
/// what rounds beyond the largest finite value becomes an infinity. A NaN stays a NaN; which one is not promised,
/// because instruction sets differ in the payload they pass on.
///
/// ```
/// use rope_core::{Element, Error, Pairing, Rope, Rows, TensorMut, half::bf16};
///
/// fn rotate<E: Element>(x: &mut [E], rows: &Rows<'_>) -> Result<(), Error> {
///     Rope::new(Pairing::Half).rotate(&mut TensorMut::new(x, [1, 1, 2, 64])?, rows)
/// }
///
/// let rows = [0.0_f32; 64];
/// rotate(&mut [bf16::ONE; 2 * 64], &Rows::new(&rows, [1, 64])?)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "tensors are not made of `{Self}`",
    label = "the elements of a tensor are `f32`, `half::f16` or `half::bf16`",
    note = "f64 is converted first: `x as f32`; the rotation is computed in f32 whatever the element is"
)]
pub trait Element: ElementKernels {}

/// An element as its users' crates see it: the kernels that this crate has compiled for it. Sealed.
pub trait ElementKernels: Pod + Send + Sync {
    #[doc(hidden)]
    const TYPE: ElementType;
    #[doc(hidden)]
    const IN_PLACE: &'static InPlaceKernels;
    #[doc(hidden)]
    const OUT_OF_PLACE: &'static OutOfPlaceKernels;
    #[doc(hidden)]
    const NORMED: &'static NormRotateKernels;
    #[doc(hidden)]
    const SUMMED: &'static GradientKernels;
    #[doc(hidden)]
    const BACKWARD: &'static BackwardKernels;
}
