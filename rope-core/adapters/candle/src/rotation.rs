//! A rotation of a storage by rows: into a new storage, or in place.

use std::ops::Range;

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Shape, WithDType};
use rope_core::{AnyRows, Direction, Element, Pairing, Rope, Tensor, TensorMut};

use crate::norm::TensorNorm;
use crate::tensor::{Order, from_offset, refused, with_elements};

/// The parameters of a rotation.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) direction: Direction,
    pub(crate) order: Order,
    /// The heads of a model, if a configuration describes them.
    pub(crate) model: Option<ModelHeads>,
    /// The norm in the same call.
    pub(crate) norm: Option<TensorNorm>,
}

/// The heads of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelHeads {
    /// Channels of a head.
    pub(crate) head_dim: usize,
    /// The rotated channels.
    pub(crate) window: Range<usize>,
    /// The number of separately paired parts of them.
    pub(crate) parts: usize,
}

impl Rotation {
    /// Creates a forward rotation from the first channel on.
    pub(crate) fn new(pairing: Pairing) -> Self {
        Rotation {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            order: Order::default(),
            model: None,
            norm: None,
        }
    }

    /// Returns the rotation of gradients, if there is one. (That of the inverse would divide by the square of the
    /// attention factor, forward.)
    pub(crate) fn transposed(&self) -> Option<Self> {
        let direction = match self.direction {
            Direction::Forward => Direction::Transpose,
            Direction::Transpose => Direction::Forward,
            Direction::Inverse => return None,
        };
        Some(Rotation {
            input: self.output,
            output: self.input,
            direction,
            ..self.clone()
        })
    }

    /// Returns the plan for heads with `given` channels: the model's whole heads, or only the rotating channels, which
    /// are a separate tensor in some models.
    pub(crate) fn plan(&self, given: usize) -> Result<Rope> {
        let plan = Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction);
        #[cfg(feature = "rayon")]
        let plan = plan.with_threads();
        let Some(ModelHeads {
            head_dim,
            ref window,
            parts,
        }) = self.model
        else {
            return Ok(plan);
        };
        let plan = plan.with_parts(parts);
        if given == head_dim {
            Ok(plan.with_window(window.start))
        } else if given == window.len() {
            Ok(plan)
        } else {
            Err(refused(rope_models::Error::ModelHead {
                given,
                head_dim,
                window: (window.start, window.end),
            }))
        }
    }

    /// Returns the rotated tensor, contiguous.
    pub(crate) fn rotated(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        rows: &AnyRows<'_>,
    ) -> Result<(CpuStorage, Shape)> {
        let rotated = with_elements!(storage, x => self.rotated_elements(x, layout, rows))?;
        Ok((rotated, layout.shape().clone()))
    }

    fn rotated_elements<E: Element + WithDType>(
        &self,
        x: &[E],
        layout: &Layout,
        rows: &AnyRows<'_>,
    ) -> Result<CpuStorage> {
        let source = self.order.layout(layout)?;
        let target = self.order.layout(&Layout::contiguous(layout.shape()))?;
        let mut rotated = bytemuck::zeroed_vec::<E>(layout.shape().elem_count());
        let plan = self.plan(source.shape().head_dim)?;
        let source = Tensor::new(from_offset(x, layout), source).map_err(refused)?;
        let mut target = TensorMut::new(&mut rotated, target).map_err(refused)?;
        match &self.norm {
            Some(norm) => (plan.with_norm(norm.as_core()?)).rotate_into(&source, &mut target, rows),
            None => plan.rotate_into(&source, &mut target, rows),
        }
        .map_err(refused)?;
        Ok(E::to_cpu_storage_owned(rotated))
    }

    fn rotate_elements<E: Element>(
        &self,
        x: &mut [E],
        layout: &Layout,
        rows: &AnyRows<'_>,
    ) -> Result<()> {
        let place = self.order.layout(layout)?;
        let x = x.get_mut(layout.start_offset()..).unwrap_or_default();
        let plan = self.plan(place.shape().head_dim)?;
        let mut x = TensorMut::new(x, place).map_err(refused)?;
        match &self.norm {
            Some(norm) => plan.with_norm(norm.as_core()?).rotate(&mut x, rows),
            None => plan.rotate(&mut x, rows),
        }
        .map_err(refused)
    }
}

/// An in-place rotation, as an operation of candle.
pub(crate) struct InPlace<'a> {
    pub(crate) rotation: &'a Rotation,
    pub(crate) rows: &'a AnyRows<'a>,
}

impl InplaceOp1 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "rope-candle-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        with_elements!(storage, x => self.rotation.rotate_elements(x, layout, self.rows))
    }
}
