//! A rotation of a storage by rows: into a new storage, or in place.

use std::ops::Range;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Shape, WithDType, bail};
use rope_core::{Dimension, Direction, Element, Pairing, Rope, Rows, Tensor, TensorMut};

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

/// Channels of a head that are paired by themselves, and their pairs of the rows; `None` for all pairs.
type Part = (Range<usize>, Option<Range<usize>>);

/// The heads of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelHeads {
    /// Channels of a head.
    pub(crate) head_dim: usize,
    /// The rotated channels.
    pub(crate) window: Range<usize>,
    /// The separately paired parts of them, and the pairs of the rows for each.
    pub(crate) parts: Vec<(Range<usize>, Range<usize>)>,
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

    pub(crate) fn plan(&self) -> Rope {
        let plan = Rope::new(self.input)
            .output_pairing(self.output)
            .direction(self.direction);
        #[cfg(feature = "rayon")]
        let plan = plan.parallel();
        plan
    }

    /// Returns the part that each call rotates, for heads with `given` channels: the model's whole heads, or only the
    /// rotating channels, which are a separate tensor in some models.
    fn parts(&self, given: usize) -> Result<Vec<Part>> {
        let Some(ModelHeads {
            head_dim,
            window,
            parts,
        }) = &self.model
        else {
            return Ok(vec![(0..given, None)]);
        };
        let from = if given == *head_dim {
            window.start
        } else if given == window.len() {
            0
        } else {
            return Err(refused(rope_models::Error::ModelHead {
                given,
                head_dim: *head_dim,
                window: (window.start, window.end),
            }));
        };
        if parts.len() == 1 {
            return Ok(vec![(from..given, None)]);
        }
        let moved = |(channels, pairs): &(Range<usize>, Range<usize>)| {
            let start = channels.start - window.start + from;
            (start..start + channels.len(), Some(pairs.clone()))
        };
        Ok(parts.iter().map(moved).collect())
    }

    /// Returns `true` if the rotating channels are one part.
    fn has_one_part(&self) -> bool {
        self.model
            .as_ref()
            .is_none_or(|model| model.parts.len() == 1)
    }

    /// Returns the plan for heads with `given` channels that rotate in one part, for norms and caches.
    pub(crate) fn whole(&self, what: &str, given: usize) -> Result<Rope> {
        match &self.parts(given)?[..] {
            [(channels, _)] => Ok(self.plan().window(channels.start)),
            parts => {
                let rotating: Vec<_> = parts.iter().map(|(channels, _)| channels).collect();
                bail!(
                    "channels {rotating:?} of {given} rotate, each part by itself; {what} takes heads of one part, \
                     so rotate these alone first"
                )
            }
        }
    }

    /// Returns the rotated tensor, contiguous.
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
        let source = self.order.layout(layout)?;
        let target = self.order.layout(&Layout::contiguous(layout.shape()))?;
        let mut rotated = bytemuck::zeroed_vec::<E>(layout.shape().elem_count());
        let head_dim = source.shape().head_dim;
        if self.norm.is_some() || self.has_one_part() {
            let plan = self.whole("a norm", head_dim)?;
            let source = Tensor::new(from_offset(x, layout), source).map_err(refused)?;
            let mut target = TensorMut::new(&mut rotated, target).map_err(refused)?;
            match &self.norm {
                Some(norm) => (plan.norm(norm.as_core()?)).rotate_into(&source, &mut target, rows),
                None => plan.rotate_into(&source, &mut target, rows),
            }
            .map_err(refused)?;
            return Ok(E::to_cpu_storage_owned(rotated));
        }
        let parts = self.parts(head_dim)?;
        // Copies the other channels, too.
        let mut copy = E::to_cpu_storage_owned(rotated);
        storage.copy_strided_src(&mut copy, 0, layout)?;
        rotated = E::cpu_storage_data(copy)?;
        for (channels, pairs) in parts {
            let source = source
                .narrow(Dimension::Channels, channels.clone())
                .map_err(refused)?;
            let target = target
                .narrow(Dimension::Channels, channels)
                .map_err(refused)?;
            let source = Tensor::new(from_offset(x, layout), source).map_err(refused)?;
            let mut target = TensorMut::new(&mut rotated, target).map_err(refused)?;
            let own = pairs.map(|pairs| rows.pairs(pairs)).transpose();
            let own = own.map_err(refused)?;
            let (plan, rows) = (self.plan(), own.as_ref().unwrap_or(rows));
            plan.rotate_into(&source, &mut target, rows)
                .map_err(refused)?;
        }
        Ok(E::to_cpu_storage_owned(rotated))
    }

    fn rotate_elements<E: Element>(
        &self,
        x: &mut [E],
        layout: &Layout,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let place = self.order.layout(layout)?;
        let x = x.get_mut(layout.start_offset()..).unwrap_or_default();
        let head_dim = place.shape().head_dim;
        if self.norm.is_some() || self.has_one_part() {
            let plan = self.whole("a norm", head_dim)?;
            let mut x = TensorMut::new(x, place).map_err(refused)?;
            return match &self.norm {
                Some(norm) => plan.norm(norm.as_core()?).rotate(&mut x, rows),
                None => plan.rotate(&mut x, rows),
            }
            .map_err(refused);
        }
        for (channels, pairs) in self.parts(head_dim)? {
            let place = place
                .narrow(Dimension::Channels, channels)
                .map_err(refused)?;
            let mut x = TensorMut::new(x, place).map_err(refused)?;
            let own = pairs.map(|pairs| rows.pairs(pairs)).transpose();
            let own = own.map_err(refused)?;
            let (plan, rows) = (self.plan(), own.as_ref().unwrap_or(rows));
            plan.rotate(&mut x, rows).map_err(refused)?;
        }
        Ok(())
    }
}

/// An in-place rotation, as an operation of candle.
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
