//! The backward pass of a plan whose stages are linear: what stands between the rotation and the transform is summed.

use super::SumFn;
use super::sums::PairGradients;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::gradient::GradientTerm;
use crate::pass::{OperandMut, PassKernels};
use crate::plan::operand::AnglesKind;
use crate::stages::{Linear, Plain};
use crate::{Error, Rope, Rows};

impl<S: Linear> Rope<S> {
    #[inline(never)]
    pub(super) fn backward_staged(
        &self,
        y: &Bytes<'_>,
        (mut dy, element): (BytesMut<'_>, &'static OutOfPlaceKernels),
        kernels: PassKernels,
        sum: SumFn,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let back = self.back_with([y.layout.shape(), dy.layout.shape()], rows, angles)?;
        back.erased(&mut |back| {
            let target = &mut OperandMut::Tensor(dy.part(dy.layout), element);
            let (checked, _) =
                &back.check_in_place(target, kernels, Some(AnglesKind::Rows(rows)))?;
            let OperandMut::Tensor(dy, _) = target else {
                unreachable!("the target is a tensor")
            };
            self.add_angles([y, &dy.read()], element, sum, angles)?;
            back.run_checked_in_place(checked, target, true);
            Ok(())
        })
    }

    /// Adds the gradients of the angles, of what stands between the rotation and the transform: the factors of a scale
    /// cancel.
    pub(super) fn add_angles(
        &self,
        tensors: [&Bytes<'_>; 2],
        element: &'static OutOfPlaceKernels,
        sum: SumFn,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let plain = self.with(Plain);
        match self.stages.lowered().transform() {
            None => plain.add_terms(sum, GradientTerm::Cross, tensors, angles),
            Some(transform) => {
                plain.transformed_angle_gradients(transform, tensors, element, angles)
            }
        }
    }
}
