//! Element types, as other crates see them.

use bytemuck::Pod;

use crate::kernel::elements::{
    BackwardKernels, ElementType, GradientKernels, InPlaceKernels, NormRotateKernels,
    OutOfPlaceKernels,
};

/// The element type of a tensor: `f32`, [`half::f16`] or [`half::bf16`].
///
/// The arithmetic is f32 for every element, and its result is rounded to the element once, to nearest, ties to even.
/// Converting up is exact.
///
/// Special values: both conversions keep infinities, subnormals (nothing is flushed) and the sign of zero. A value that
/// rounds beyond the largest finite one becomes an infinity. A NaN stays a NaN; its payload is not specified, because
/// instruction sets pass on different ones.
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
pub trait Element: Pod + Send + Sync {
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
