//! The checks of a call: operands, angles and stages must match. A call that fails here has written nothing.

use super::Rope;
use super::kinds::Lowered;
use super::operand::AnglesKind;
use crate::describe::cache::Format;
use crate::describe::rows::{RowSharing, Rows, check, fit, no_rotation};
use crate::describe::tensor::Layout;
use crate::error::{PlanError, ShapeError};
use crate::kernel::element::Element;
use crate::kernel::elements::{NormRotateKernels, OutOfPlaceKernels};
use crate::pass::{Operand, OperandMut, PassKernels, PassStages};
use crate::{Direction, Error, FullRows, Shape};

/// A source, and the kernels of norms for the element of a tensor, in programs that have norms.
pub(super) type SourceKernels<'s> = (Operand<'s>, Option<&'static NormRotateKernels>);

/// The element of the source of a pass, and its kernels.
pub(super) type ReadKernels = (&'static OutOfPlaceKernels, PassKernels);

/// A checked call without its plan and its operands.
pub(super) struct Checked<'a> {
    pub(super) shape: Shape,
    pub(super) kernels: ReadKernels,
    /// The angles of a rotation, and how sequences share their rows.
    pub(super) angles: Option<(AnglesKind<'a>, RowSharing)>,
    pub(super) skips_identity: bool,
    /// True if tokens share slots of a cache, which rotate once.
    pub(super) repeats: bool,
    pub(super) streams: bool,
}

impl<'a> Checked<'a> {
    /// Returns the rows of pairs that were made before the call.
    pub(super) fn rows(&self) -> Option<(&'a Rows<'a>, RowSharing)> {
        match self.angles {
            Some((AnglesKind::Rows(rows), sharing)) => Some((rows, sharing)),
            _ => None,
        }
    }
}

impl Rope {
    /// Checks rows against the shape of a tensor that is rotated in place, or against Q and K; returns how sequences
    /// share them.
    #[inline]
    pub(super) fn check_tensors<const N: usize>(
        &self,
        mut shapes: [Shape; N],
        rows: &Rows<'_>,
    ) -> Result<RowSharing, Error> {
        for shape in &mut shapes {
            *shape = self.window.shape(*shape, rows.rotary_dim())?;
        }
        let (shape, sharing) = match shapes[..] {
            [query, key] => {
                let sharing = self.fit_qk(query, key, rows)?;
                // Q or K may have no heads.
                let heads = query.heads.max(key.heads);
                (Shape { heads, ..query }, sharing)
            }
            _ => (shapes[0], self.fit_in_place(shapes[0], rows)?),
        };
        self.check_direction(shape, rows)?;
        Ok(sharing)
    }

    /// Checks rows against a tensor that is rotated in place; returns how sequences share them.
    #[inline]
    pub(crate) fn fit_in_place(&self, shape: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
        let sharing = self.check_in_place_rows(shape, rows.rotary_dim(), rows.len())?;
        rows.check_places(shape, sharing)?;
        Ok(sharing)
    }

    /// Checks Q and K of these shapes against each other and the rows, for callers that cannot borrow Q and K together.
    /// Only [`Rope::rotate_qk`] checks the direction.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate_qk`], except [`RowsError::Magnitude`](crate::error::RowsError::Magnitude).
    pub(crate) fn check_qk_shapes(
        &self,
        query: Shape,
        key: Shape,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.fit_qk(query, key, rows).map(drop)
    }

    #[inline]
    fn fit_qk(&self, query: Shape, key: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
        check_query_and_key(query, key)?;
        rows.check_heads(key)?;
        self.fit_in_place(query, rows)
    }

    /// Checks full-width rows against a tensor that is rotated in place; returns how sequences share them.
    pub(super) fn check_full(
        &self,
        shape: Shape,
        rows: &FullRows<'_>,
    ) -> Result<RowSharing, Error> {
        let windowed = self.window.shape(shape, rows.rotary_dim())?;
        self.check_same_pairing()?;
        let sharing = rows.fit(windowed)?;
        match self.inverts(windowed) {
            true => Err(no_rotation("Direction::Inverse")),
            false => Ok(sharing),
        }
    }

    /// Checks two tensors against the rows; returns how sequences share them.
    #[inline]
    pub(super) fn check_across(
        &self,
        source: Shape,
        target: Shape,
        rows: &Rows<'_>,
    ) -> Result<RowSharing, Error> {
        source.check_same(target)?;
        let windowed = self.window.shape(source, rows.rotary_dim())?;
        let sharing = fit(windowed, rows)?;
        self.check_direction(windowed, rows)?;
        Ok(sharing)
    }

    #[inline]
    pub(super) fn check_in_place_rows(
        &self,
        shape: Shape,
        rotary_dim: usize,
        rows: usize,
    ) -> Result<RowSharing, Error> {
        self.check_same_pairing()?;
        check(shape, rotary_dim, rows)
    }
}

impl<'p> Rope<Lowered<'p>> {
    /// Checks an in-place call; returns the stages that run, if they differ from the plan's.
    #[inline(always)]
    pub(super) fn check_in_place<'a>(
        &self,
        target: &OperandMut<'_>,
        kernels: PassKernels,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(Checked<'a>, Option<Lowered<'p>>), Error> {
        // Cached heads already have the stages of their plan: without angles nothing changes.
        let other = match target {
            OperandMut::Cache(_) if !self.stages.is_empty() => Some(self.stages.shifted()?),
            _ => None,
        };
        let (shape, kernels) = match target {
            OperandMut::Tensor(x, element) => (x.layout.shape(), (*element, kernels)),
            OperandMut::Cache(slots) => {
                let in_place = match slots.stored.format {
                    Format::Element(_, in_place) => Some(in_place),
                    Format::Codes(_) => None,
                };
                let kernels = PassKernels {
                    in_place,
                    normed: None,
                };
                let shape = slots.stored.shape(slots.slots.len());
                (shape, (f32::OUT_OF_PLACE, kernels))
            }
        };
        if angles.is_some() {
            self.check_same_pairing()?;
        }
        let mut checked = self.checked(shape, kernels, angles)?;
        if let OperandMut::Cache(slots) = target {
            checked.skips_identity = true;
            if let Some(angles) = angles {
                angles.check_moves()?;
            }
            slots.check(shape)?;
            if let Some(angles) = angles {
                checked.repeats =
                    slots.repeats(shape, &|first, second| angles.is_same(first, second))?;
            }
        }
        let in_tensor = matches!(target, OperandMut::Tensor(..));
        if in_tensor || angles.is_some() {
            let stages = other.as_ref().unwrap_or(&self.stages);
            self.check_stages(stages, &checked, in_tensor)?;
        }
        Ok((checked, other))
    }

    /// Checks a call from a source into a target; returns the stages that run, if they differ from the plan's.
    #[inline(always)]
    pub(super) fn check_into<'a>(
        &self,
        (source, normed): &SourceKernels<'_>,
        target: &OperandMut<'_>,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<(Checked<'a>, Option<Lowered<'p>>), Error> {
        let kernels = PassKernels {
            in_place: None,
            normed: *normed,
        };
        let (shape, element) = match (source, target) {
            (Operand::Tensor(x, element), _) => (x.layout.shape(), *element),
            (Operand::Cache(..), OperandMut::Tensor(y, _)) => (y.layout.shape(), f32::OUT_OF_PLACE),
            (Operand::Cache(cache, slots), OperandMut::Cache(_)) => {
                (cache.stored().shape(slots.len()), f32::OUT_OF_PLACE)
            }
        };
        if let (Operand::Tensor(..), OperandMut::Tensor(y, _)) = (source, target) {
            shape.check_same(y.layout.shape())?;
        }
        let checked = self.checked(shape, (element, kernels), angles)?;
        if let Operand::Cache(cache, slots) = source {
            cache.stored().check(shape, slots, cache.len())?;
        }
        if let OperandMut::Cache(target) = target {
            target.check(shape)?;
        }
        let other = match (source, target) {
            (Operand::Tensor(..), _) => None,
            (Operand::Cache(..), OperandMut::Tensor(..)) => Some(self.stages.undone()),
            (Operand::Cache(..), OperandMut::Cache(_)) => Some(self.stages.shifted()?),
        };
        let in_tensors = matches!(
            (source, target),
            (Operand::Tensor(..), OperandMut::Tensor(..))
        );
        self.check_stages(other.as_ref().unwrap_or(&self.stages), &checked, in_tensors)?;
        Ok((checked, other))
    }

    /// Checks stages against the heads, and the direction against the rows. Heads of tensors may be longer than a tile
    /// if they have no stage.
    #[inline]
    pub(super) fn check_stages(
        &self,
        stages: &Lowered<'_>,
        checked: &Checked<'_>,
        in_tensors: bool,
    ) -> Result<(), Error> {
        if !in_tensors || !stages.is_empty() {
            checked.shape.check_head_on_stack()?;
        }
        stages.check(checked.shape)?;
        match checked.angles {
            Some((AnglesKind::Rows(rows), _)) => self.check_direction(checked.shape, rows),
            Some((AnglesKind::Full(..), _)) if self.inverts(checked.shape) => {
                Err(no_rotation("Direction::Inverse"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the checked call on heads of this shape, if the angles match.
    #[inline(always)]
    pub(super) fn checked<'a>(
        &self,
        shape: Shape,
        kernels: ReadKernels,
        angles: Option<AnglesKind<'a>>,
    ) -> Result<Checked<'a>, Error> {
        let angles = match angles {
            None => None,
            Some(angles) => {
                let windowed = self.window.shape(shape, angles.rotary_dim())?;
                Some((angles, angles.fit(windowed)?))
            }
        };
        Ok(Checked {
            shape,
            kernels,
            angles,
            skips_identity: false,
            repeats: false,
            streams: false,
        })
    }
}

impl AnglesKind<'_> {
    /// Checks angles that rotate cached heads in place.
    #[inline(always)]
    pub(super) fn check_moves(self) -> Result<(), Error> {
        match self {
            AnglesKind::Rows(rows) => rows.check_moves(),
            AnglesKind::Full(..) => Err(no_rotation("a rotation in a cache")),
            AnglesKind::At(at) => at.angles().check_moves(),
        }
    }
}

impl Lowered<'_> {
    /// Checks the stages against heads of this shape, which fit a tile.
    pub(super) fn check(&self, shape: Shape) -> Result<(), Error> {
        let Some(PassStages {
            norm,
            scale,
            transform,
            ..
        }) = self.stages
        else {
            return Ok(());
        };
        let tokens = shape.batch.saturating_mul(shape.tokens);
        if let Some(norm) = norm {
            norm.check(tokens, shape.heads, shape.head_dim)?;
        }
        if let Some(scale) = scale {
            scale.check(tokens, shape.heads)?;
        }
        if let Some(transform) = transform {
            transform.hadamard.check(shape.head_dim)?;
        }
        Ok(())
    }
}

impl<S> Rope<S> {
    /// Checks that the rows support the direction. The last of all checks, because it reads every row.
    #[inline]
    pub(crate) fn check_direction(&self, shape: Shape, rows: &Rows<'_>) -> Result<(), Error> {
        match self.inverts(shape) {
            true => rows.check_magnitudes(),
            false => Ok(()),
        }
    }

    /// Returns true if a call undoes a rotation.
    #[inline]
    fn inverts(&self, shape: Shape) -> bool {
        self.direction == Direction::Inverse && !shape.is_empty()
    }

    /// Returns the layouts of tensors from the window on, for rows of this width.
    pub(crate) fn windowed<const N: usize>(
        &self,
        layouts: [&Layout; N],
        rotary_dim: usize,
    ) -> Result<[Layout; N], Error> {
        let mut layouts = layouts.map(|layout| *layout);
        for layout in &mut layouts {
            *layout = self.window.layout(layout, rotary_dim)?;
        }
        Ok(layouts)
    }

    /// Refuses an in-place plan that changes the pairing.
    #[inline]
    pub(super) fn check_same_pairing(&self) -> Result<(), Error> {
        let Rope { input, output, .. } = *self;
        if input != output {
            return Err(Error::Plan(PlanError::PairingChangesInPlace {
                input,
                output,
            }));
        }
        Ok(())
    }
}

/// Refuses Q and K that differ in more than their heads.
#[inline]
pub(crate) fn check_query_and_key(query: Shape, key: Shape) -> Result<(), Error> {
    let key = Shape {
        heads: query.heads,
        ..key
    };
    match query.difference(key) {
        None => Ok(()),
        Some((dimension, query, key)) => Err(Error::Shape(ShapeError::QueryKeyMismatch {
            dimension,
            query,
            key,
        })),
    }
}
