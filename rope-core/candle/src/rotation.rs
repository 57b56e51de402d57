//! A rotation of a storage by rows: into a new one, or in place.

use std::ops::Range;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Shape, WithDType};
use rope_core::{Direction, Element, Pairing, Rope, Rows, Tensor, TensorMut};

use crate::tensor::{Order, from_offset, refused, with_elements};

/// What rotates, and how.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) direction: Direction,
    pub(crate) order: Order,
    /// The heads of a model, where a configuration says what they are.
    pub(crate) model: Option<ModelHeads>,
}

/// The heads of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelHeads {
    /// Channels of a head.
    pub(crate) head_dim: usize,
    /// Those that rotate.
    pub(crate) window: Range<usize>,
}

impl Rotation {
    /// Forward, from the first channel on.
    pub(crate) fn new(pairing: Pairing) -> Self {
        Rotation {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            order: Order::default(),
            model: None,
        }
    }

    /// What takes gradients back, if there is such a rotation. (That of the inverse divides by the square of the
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

    pub(crate) fn plan(&self) -> Rope {
        Rope::new(self.input)
            .output_pairing(self.output)
            .direction(self.direction)
    }

    /// The channels that rotate of heads with `given` channels, where they are not the first ones: those of the model's
    /// whole heads. The rotating channels alone are another tensor of a model.
    fn window(&self, given: usize) -> Result<Option<Range<usize>>> {
        let Some(ModelHeads { head_dim, window }) = &self.model else {
            return Ok(None);
        };
        if given == *head_dim {
            return Ok((window.start != 0).then(|| window.clone()));
        }
        if given == window.len() {
            return Ok(None);
        }
        Err(refused(rope_models::Error::ModelHead {
            given,
            head_dim: *head_dim,
            window: (window.start, window.end),
        }))
    }

    /// The rotated tensor, contiguous.
    pub(crate) fn rotated(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        rows: &Rows<'_>,
    ) -> Result<(CpuStorage, Shape)> {
        let rotated = with_elements!(storage, x => {
            self.rotated_elements((storage, x), layout, rows)
        })?;
        Ok((rotated, layout.shape().clone()))
    }

    fn rotated_elements<E: Element + WithDType>(
        &self,
        (storage, x): (&CpuStorage, &[E]),
        layout: &Layout,
        rows: &Rows<'_>,
    ) -> Result<CpuStorage> {
        let mut source = self.order.layout(layout)?;
        let mut target = self.order.layout(&Layout::contiguous(layout.shape()))?;
        let mut rotated = bytemuck::zeroed_vec::<E>(layout.shape().elem_count());
        if let Some(window) = self.window(source.shape().head_dim)? {
            // The channels around it, too.
            let mut copy = E::to_cpu_storage_owned(rotated);
            storage.copy_strided_src(&mut copy, 0, layout)?;
            rotated = E::cpu_storage_data(copy)?;
            source = source.channels(window.clone()).map_err(refused)?;
            target = target.channels(window).map_err(refused)?;
        }
        let source = Tensor::new(from_offset(x, layout), source).map_err(refused)?;
        let mut target = TensorMut::new(&mut rotated, target).map_err(refused)?;
        let plan = self.plan();
        #[cfg(feature = "rayon")]
        let done = plan.rotate_into_parallel(&source, &mut target, rows);
        #[cfg(not(feature = "rayon"))]
        let done = plan.rotate_into(&source, &mut target, rows);
        done.map_err(refused)?;
        Ok(E::to_cpu_storage_owned(rotated))
    }

    fn rotate_elements<E: Element>(
        &self,
        x: &mut [E],
        layout: &Layout,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let mut place = self.order.layout(layout)?;
        if let Some(window) = self.window(place.shape().head_dim)? {
            place = place.channels(window).map_err(refused)?;
        }
        let x = x.get_mut(layout.start_offset()..).unwrap_or_default();
        let mut x = TensorMut::new(x, place).map_err(refused)?;
        let plan = self.plan();
        #[cfg(feature = "rayon")]
        let done = plan.rotate_parallel(&mut x, rows);
        #[cfg(not(feature = "rayon"))]
        let done = plan.rotate(&mut x, rows);
        done.map_err(refused)
    }
}

/// A rotation in place, as candle runs it.
pub(crate) struct InPlace<'a> {
    pub(crate) rotation: &'a Rotation,
    pub(crate) rows: &'a Rows<'a>,
}

impl InplaceOp1 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "rope-candle-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        with_elements!(storage, x => self.rotation.rotate_elements(x, layout, self.rows))
    }
}
