//! Plain rotations of tensors. They skip the pass, which would be most of the cost of a small call.

use super::{Detour, InPlaceTensor, Rope};
use crate::describe::rows::{Rotation, View};
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::describe::window::Window;
use crate::execute::lines::{self, TokenHeads};
use crate::execute::staged;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::line::{LineRows, Starts};
use crate::pass::walk::Walk;
use crate::pass::{IoFormats, Operand, OperandMut, PartOfCall, Pass, PassKernels};
use crate::{Direction, Error, Rows};

impl Rope {
    #[inline(never)]
    pub(crate) fn rotate_bytes(
        &self,
        x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        match self.detour {
            Some(Detour(detour)) => (detour.in_place)(self, [(x, element)], rows),
            None => self.rotate_tensors([(x, element)], rows),
        }
    }

    #[inline(never)]
    pub(crate) fn rotate_qk_bytes(
        &self,
        tensors: [InPlaceTensor<'_>; 2],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        match self.detour {
            Some(Detour(detour)) => (detour.query_and_key)(self, tensors, rows),
            None => self.rotate_tensors(tensors, rows),
        }
    }

    #[inline(always)]
    pub(super) fn rotate_tensors<const N: usize>(
        &self,
        mut tensors: [InPlaceTensor<'_>; N],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        match self.row_of_a_token(tensors.each_ref().map(|(x, _)| x.layout), rows) {
            Some(row) => {
                self.rotate_tokens(&mut tensors, &row);
                Ok(())
            }
            None => self.rotate_checked(tensors, rows),
        }
    }

    #[inline(never)]
    fn rotate_checked<const N: usize>(
        &self,
        tensors: [InPlaceTensor<'_>; N],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        for (x, _) in &tensors {
            self.window.check_head(x.layout.shape().head_dim)?;
        }
        let sharing = self.check_tensors(&tensors, rows)?;
        let (view, factor) = (rows.view(sharing), rows.attention_factor());
        for (mut x, element) in tensors {
            self.run_in_place(&mut x, element, &view, factor);
        }
        Ok(())
    }

    /// Returns the row of a plain call on one token with one row, forward, if no check can fail. Every other call is
    /// checked in full, which takes more instructions than the rotation of a few heads.
    #[inline(always)]
    fn row_of_a_token<'r, const N: usize>(
        &self,
        layouts: [&Layout; N],
        rows: &'r Rows<'_>,
    ) -> Option<LineRows<'r>> {
        if self.direction != Direction::Forward || self.input != self.output {
            return None;
        }
        let head_dim = layouts.first()?.shape().head_dim;
        for layout in layouts {
            let shape = layout.shape();
            let is_a_token = shape.batch == 1 && shape.tokens == 1 && shape.head_dim == head_dim;
            if !is_a_token || rows.rotary_dim() > head_dim || !self.window.fits(head_dim) {
                return None;
            }
        }
        rows.only()
    }

    /// Rotates tensors of one token.
    #[inline(always)]
    fn rotate_tokens(&self, tensors: &mut [InPlaceTensor<'_>], row: &LineRows<'_>) {
        let core = (self.proof.fitting(row.pairs), self.tuning);
        for (x, element) in tensors {
            let kernel = element.0.of(self.input);
            if let Some(heads) = TokenHeads::new(core, kernel, x.layout, [x.size, row.pairs]) {
                heads.run(x.bytes, row);
            }
        }
    }

    /// Returns the heads of a plain call on one token by the first row of its values, if no check can fail.
    pub(crate) fn token_heads(
        &self,
        layout: &Layout,
        size: usize,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Option<TokenHeads> {
        let row = self.row_of_a_token([layout], rows)?;
        if self.detour.is_some() || !matches!(row.starts, Starts::Shared(0)) {
            return None;
        }
        let core = (self.proof.fitting(row.pairs), self.tuning);
        TokenHeads::new(core, element.0.of(self.input), layout, [size, row.pairs])
    }

    #[inline(never)]
    pub(crate) fn rotate_bytes_into(
        &self,
        (x, source_element): (Bytes<'_>, &'static OutOfPlaceKernels),
        (y, target_element): (&mut BytesMut<'_>, &'static OutOfPlaceKernels),
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let elements = [source_element, target_element];
        if let Some(Detour(detour)) = self.detour {
            return (detour.across)(self, x, y, elements, rows);
        }
        self.window.check_head(x.layout.shape().head_dim)?;
        let view = rows.view(self.check_across(x.layout.shape(), y.layout.shape(), rows)?);
        self.run_across(x, y, elements, view, rows.attention_factor());
        Ok(())
    }

    /// Rotates one tensor into another, both of these elements.
    pub(crate) fn run_across(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        [source, target]: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let (input, output) = (self.input, self.output);
        let factors = self.factors(attention_factor);
        let ends = IoFormats {
            source,
            input,
            target,
            output,
        };
        let is_full = rows.full.is_some();
        if let Some(kernel) = ends.fused().filter(|_| !self.staged && !is_full) {
            let walk = &Walk::between([x.layout, y.layout], &rows, factors.as_ref());
            return lines::rotate_lines(self.core(), ends, kernel, x.bytes, y.bytes, walk);
        }
        let rotation = Rotation {
            rows,
            factors,
            input,
            output,
            window: Window::WHOLE,
        };
        let (kernels, of) = (PassKernels::default(), PartOfCall::whole(y.layout.shape()));
        let pass = Pass::new(
            self.core(),
            (source, kernels),
            of,
            Some(rotation),
            self.staged,
        );
        let target = &mut OperandMut::Tensor(y.part(y.layout), target);
        staged::run(&pass, Some(&Operand::Tensor(x, source)), target);
    }

    pub(crate) fn run_in_place(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &View<'_>,
        attention_factor: f64,
    ) {
        let (core, kernel) = (self.core(), element.0.of(self.input));
        let factors = self.factors(attention_factor);
        if let Some(full) = rows.full {
            let rotation = Rotation {
                rows: *rows,
                factors,
                input: self.input,
                output: self.output,
                window: Window::WHOLE,
            };
            return (full.in_place)(core, self.staged, x, element.1, rotation);
        }
        lines::rotate_in_place(core, kernel, x, rows, factors.as_ref());
    }
}
