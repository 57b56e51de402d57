//! The backward pass of a plan whose stages are linear: what stands between the rotation and the transform is summed.

use super::SumFn;
use super::sums::PairGradients;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::gradient::GradientTerm;
use crate::pass::PassKernels;
use crate::plan::erased::AnglesKind;
use crate::stages::{LinearStages, Plain};
use crate::{Error, Rope, Rows};

impl Rope<LinearStages<'_>> {
    #[inline(never)]
    pub(in crate::plan) fn backward_bytes(
        &self,
        (y, dy): (&Bytes<'_>, &mut BytesMut<'_>),
        kernels: (&'static OutOfPlaceKernels, PassKernels),
        sum: SumFn,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let back = self.back_with([y.layout.shape(), dy.layout.shape()], rows, angles)?;
        back.erased(&mut |back| {
            let checked = &back.check_in_tensor(dy, kernels, Some(AnglesKind::Rows(rows)))?;
            self.add_angles([y, &dy.read()], kernels.0, sum, angles)?;
            back.run_in_tensor(checked, dy, true);
            Ok(())
        })
    }

    /// Adds the gradients of the angles, of what stands between the rotation and the transform: the factors of a scale
    /// cancel.
    pub(in crate::plan) fn add_angles(
        &self,
        tensors: [&Bytes<'_>; 2],
        element: &'static OutOfPlaceKernels,
        sum: SumFn,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let plain = self.with(Plain);
        match self.stages.transform {
            None => plain.add_terms(sum, GradientTerm::Cross, tensors, angles),
            Some(transform) => {
                plain.transformed_angle_gradients(transform, tensors, element, angles)
            }
        }
    }
}
