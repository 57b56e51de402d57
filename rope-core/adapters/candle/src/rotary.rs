//! A model's rotary embedding: frequencies, pairing, and the rows of a forward step.

use std::sync::Arc;

use candle_core::layout::LayoutRelation;
use candle_core::{
    CpuStorage, CustomOp1, DType, Device, Error, Layout, Result, Shape, Tensor, bail,
};
use rope_core::cache::IntoSlots;
use rope_core::norm::Norm;
use rope_core::{AnyRows, Frequencies, FullRows, IntoPositions, Pairing};
use rope_models::Config;

use crate::cache::{self, CacheFormat};
use crate::norm::TensorNorm;
use crate::positions::Positions;
use crate::rotation::{InPlace, ModelHeads, Rotation};
use crate::tensor::{Order, on_cpu, refused, share_storage, unsupported, with_adjacent_channels};

/// The rotary embedding of a model, or of the layers that share one.
///
/// It holds the frequencies and the pairing. Tensors are `[batch, heads, tokens, head_dim]` unless [`Rotary::order`]
/// sets another order, in f32, bf16 or f16, with any strides. Frequencies of fewer channels than a head rotate the
/// first ones, and the others pass.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use rope_candle::Rotary;
/// use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
///
/// // 32 of the 128 channels of a head
/// let rotary = Rotary::new(Frequencies::new(32, 10_000.0, &Scaling::Default)?, Pairing::Half);
/// // two sequences of one token, at separate positions
/// let rows = rotary.rows(&[17_u32, 90_000])?;
/// let x = Tensor::ones((2, 8, 1, 128), DType::F32, &Device::Cpu)?;
/// let y = rotary.rotate(&x, &rows)?;
/// assert_eq!(y.narrow(3, 32, 96)?.to_vec3::<f32>().is_err(), true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Rotary {
    frequencies: Arc<Frequencies<'static>>,
    /// True if the frequencies are those of channels, whose rows are full-width.
    full_width: bool,
    rotation: Rotation,
}

/// The cos and sin of the tokens of one forward step, in f32: all layers share them, and so do Q and K. A clone is
/// cheap.
#[derive(Clone, Debug)]
pub struct Rows(Arc<AnyRows<'static>>);

impl Rotary {
    /// Creates an embedding from frequencies with any scaling or axes, and a pairing.
    pub fn new(frequencies: Frequencies<'static>, pairing: Pairing) -> Self {
        Rotary {
            frequencies: Arc::new(frequencies),
            full_width: false,
            rotation: Rotation::new(pairing),
        }
    }

    /// Creates an embedding from the text of a model's `config.json`, if all its layers rotate alike; otherwise see
    /// [`Rotary::of_layers`].
    ///
    /// # Errors
    ///
    /// The errors of [`Config::from_json`] and [`rope_models::Model::rotation`].
    pub fn from_config(json: &str) -> Result<Self> {
        let model = Config::from_json(json).and_then(|config| config.model());
        let model = model.map_err(refused)?;
        Ok(model.rotation().map_err(refused)?.clone().into())
    }

    /// Creates the embedding of each layer of a model, in order; `None` for layers that do not rotate. Layers that
    /// rotate alike share their frequencies, and may share rows made by any of them.
    ///
    /// # Errors
    ///
    /// The errors of [`rope_models::Model::layers`].
    pub fn of_layers(model: &rope_models::Model) -> Result<Vec<Option<Self>>> {
        let layers = model.layers().map_err(refused)?;
        let rotations = layers.rotations().iter();
        let made: Vec<Rotary> = rotations.cloned().map(Rotary::from).collect();
        let of_layer = |layer: rope_models::Layer<'_>| {
            let rotation = layer.rotation?;
            let same = |other: &rope_models::Rotation| core::ptr::eq(other, rotation);
            made.get(layers.rotations().iter().position(same)?).cloned()
        };
        Ok(layers.iter().map(of_layer).collect())
    }

    /// Sets the order of the dimensions.
    pub fn order(mut self, order: Order) -> Self {
        self.rotation.order = order;
        self
    }

    /// Adds a norm of each tensor before or after its rotation, in the same pass. [`Norm`] has the formula, eps, reach
    /// and order. `weight`, `[head_dim]` or `[heads, head_dim]` in f32, bf16 or f16, is copied. Q and K have separate
    /// weights, so a layer has a `Rotary` for each; clones share their frequencies, and any of them makes the rows.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use rope_candle::Rotary;
    /// use rope_candle::rope_core::norm::{Norm, NormFormula};
    /// use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
    ///
    /// let rotary = Rotary::new(Frequencies::new(64, 1e6, &Scaling::Default)?, Pairing::Half);
    /// let weight = Tensor::ones(64, DType::BF16, &Device::Cpu)?;
    /// // Qwen3's `q_norm`, and its rotation
    /// let of_q = rotary.clone().with_norm(Norm::new(NormFormula::LLAMA, 1e-6), Some(&weight))?;
    /// let q = Tensor::ones((1, 8, 3, 64), DType::BF16, &Device::Cpu)?;
    /// let q = of_q.rotate(&q, &rotary.rows(0..3)?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The norm has no gradient: [`Rotary::rotate`] then refuses a tracked tensor.
    ///
    /// # Errors
    ///
    /// A message, if the weight has another type, is tracked, or is not on the CPU. The number of weights is checked
    /// with the first tensor, as in [`rope_core::Rope::rotate`].
    pub fn with_norm(mut self, norm: Norm<'static>, weight: Option<&Tensor>) -> Result<Self> {
        self.rotation.norm = Some(TensorNorm::new(norm, weight)?);
        Ok(self)
    }

    /// Returns the frequencies.
    pub fn frequencies(&self) -> &Frequencies<'static> {
        &self.frequencies
    }

    /// Computes the rows of some tokens: of a range of positions or one id per token, shared by all sequences; or of
    /// all sequences in turn, with as many tokens as the batch. Angles are exact.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`].
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<Rows> {
        let rows = self.frequencies.rows(positions).map_err(refused)?;
        Ok(Rows(Arc::new(match self.full_width {
            true => AnyRows::Channels(FullRows::new(rows).map_err(refused)?),
            false => AnyRows::Pairs(rows),
        })))
    }

    /// Computes the rows ([`Rotary::rows`]) of positions in a tensor, read in its order: integers of any type, or real
    /// numbers in f32 or f64. It is `[tokens]` or `[batch, tokens]`; `[axes, tokens]` or `[axes, batch, tokens]` if the
    /// frequencies have several axes (M-RoPE).
    ///
    /// # Errors
    ///
    /// A message, if the tensor has another type or its first dimension is not the axes; and the errors of
    /// [`Rotary::rows`].
    pub fn rows_at(&self, positions: &Tensor) -> Result<Rows> {
        self.rows(Positions::new(positions, self.frequencies.axes())?.as_core())
    }

    /// Returns the rotated tensor, contiguous. A gradient reaches `x`.
    ///
    /// # Errors
    ///
    /// A message: the errors of [`rope_core::Rope::rotate_into`]; if `x` does not have four dimensions or a supported
    /// type, or is not on the CPU; after [`Rotary::with_norm`], if `x` is tracked.
    pub fn rotate(&self, x: &Tensor, rows: &Rows) -> Result<Tensor> {
        on_cpu("x", x)?;
        if self.rotation.norm.is_some() && x.track_op() {
            bail!(
                "x is tracked, and a norm has no gradient here: norm x with candle's operations before a Rotary \
                 without a norm, or detach it"
            );
        }
        let (rotation, rows) = (self.rotation.clone(), rows.clone());
        with_adjacent_channels(x)?.apply_op1(ByRows { rotation, rows })
    }

    /// Returns the rotated Q and K.
    ///
    /// # Errors
    ///
    /// The errors of [`Rotary::rotate`]; and a message after [`Rotary::with_norm`], which belongs to one of them.
    pub fn rotate_qk(&self, q: &Tensor, k: &Tensor, rows: &Rows) -> Result<(Tensor, Tensor)> {
        self.check_without_norm()?;
        Ok((self.rotate(q, rows)?, self.rotate(k, rows)?))
    }

    /// Rotates a tensor in place, with any strides. Tensors that share its storage (views, clones) change too: use it
    /// for a tensor without other handles, such as a projection's result. Nothing is recorded for a backward pass.
    ///
    /// # Errors
    ///
    /// A message: the errors of [`rope_core::Rope::rotate`]; if a gradient of `x` is tracked, which would be wrong; if
    /// it does not have four dimensions or a supported type, or has elements that coincide; if the channels of a head
    /// are not adjacent; if it is not on the CPU. `x` is untouched then.
    pub fn rotate_in_place(&self, x: &Tensor, rows: &Rows) -> Result<()> {
        self.check_in_place("x", x)?;
        let (rotation, rows) = (&self.rotation, &*rows.0);
        x.inplace_op1(&InPlace { rotation, rows })
    }

    /// Rotates Q and K in place: two tensors, or two windows of one without common elements. Both are checked before
    /// either is touched.
    ///
    /// # Errors
    ///
    /// The errors of [`Rotary::rotate_in_place`]; if the two differ in more than their heads; if they are known to have
    /// elements in common; after [`Rotary::with_norm`], which belongs to one of them.
    pub fn rotate_qk_in_place(&self, q: &Tensor, k: &Tensor, rows: &Rows) -> Result<()> {
        self.check_without_norm()?;
        let (query, key) = (self.check_in_place("q", q)?, self.check_in_place("k", k)?);
        let without_heads = |[batch, tokens, _, head_dim]: [usize; 4]| [batch, tokens, head_dim];
        if without_heads(query) != without_heads(key) {
            bail!(
                "q and k differ in more than their heads: {:?} and {:?}",
                q.dims(),
                k.dims()
            );
        }
        if coincide(q, k) {
            bail!("q and k have elements in common, which would be rotated twice");
        }
        let heads = rows.0.rows().heads();
        if heads > 1 && heads != key[2] {
            bail!("the rows are for {heads} heads, but k has {}", key[2]);
        }
        self.rotate_in_place(q, rows)?;
        self.rotate_in_place(k, rows)
    }

    /// Rotates `k`, after a [norm](Rotary::with_norm) if there is one, and writes it and `v` into the slots of a KV
    /// cache: two tensors, written in place. Views of them change too, and nothing is recorded for a backward pass.
    ///
    /// `k` and `v` are `[batch, heads, tokens, head_dim]`, and each cache `[blocks, heads, block_size, head_dim]`; or
    /// with the middle two exchanged, by [`Rotary::order`]. (`transpose(1, 2)` is a view of a cache in another order
    /// than the tensors.) The channels of a head must be adjacent; other strides are arbitrary.
    ///
    /// `slots` has one slot per token of each sequence, `block * block_size + place`; a negative one is skipped. It is
    /// a slice or `Vec` of integers (for a tensor, the result of `to_vec1`), a range, an integer, or page tables
    /// ([`Slots::table`](rope_core::cache::Slots::table), [`Slots::sequences`](rope_core::cache::Slots::sequences) with
    /// one block per sequence).
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use rope_candle::rope_core::cache::QuantFormat;
    /// use rope_candle::rope_core::{Frequencies, Pairing, Scaling};
    /// use rope_candle::{CacheFormat, Rotary};
    ///
    /// let rotary = Rotary::new(Frequencies::new(64, 1e6, &Scaling::Default)?, Pairing::Half);
    /// // 4 blocks of 16 slots in FP8
    /// let [keys, values] = [(); 2].map(|()| Tensor::zeros((4, 2, 16, 64), DType::U8, &Device::Cpu));
    /// let (keys, values) = (keys?, values?);
    /// let format = CacheFormat::Quantized(QuantFormat::E4m3, [0.5, 0.25]);
    /// let k = Tensor::ones((1, 2, 3, 64), DType::BF16, &Device::Cpu)?;
    /// let slots = Tensor::new(&[17_i64, 18, 40], &Device::Cpu)?;
    /// let rows = rotary.rows(100..103)?;
    /// let slots = slots.to_vec1::<i64>()?;
    /// rotary.rotate_into_caches((&k, &keys), (&k, &values), format, &slots, &rows)?;
    /// assert_eq!(values.get(1)?.get(0)?.get(1)?.get(0)?.to_scalar::<u8>()?, 0x48); // 4.0
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A message: the errors of [`rope_core::Rope::rotate_into`]; if a tensor is tracked (detach it), does not have
    /// four dimensions, or is not on the CPU; if a cache does not have the type of its format, or shares its storage
    /// with another tensor of the call. Both caches are untouched then.
    pub fn rotate_into_caches<'s>(
        &self,
        (k, keys): (&Tensor, &Tensor),
        (v, values): (&Tensor, &Tensor),
        format: CacheFormat,
        slots: impl IntoSlots<'s>,
        rows: &Rows,
    ) -> Result<()> {
        let (tensors, caches) = ([k, v], [keys, values]);
        cache::write(
            &self.rotation,
            tensors,
            caches,
            format,
            slots.into(),
            &rows.0,
        )
    }

    /// Reads the keys and the values in some slots of a KV cache, as tensors for candle's operations: `[batch, heads,
    /// tokens, head_dim]`, or by [`Rotary::order`], in f32, bf16 or f16.
    ///
    /// `slots` are those of [`Rotary::rotate_into_caches`], `tokens` for each of `batch` sequences; a negative one
    /// gives zeros.
    ///
    /// # Errors
    ///
    /// A message: the errors of [`rope_core::Rope::apply_into`]; if a cache is tracked, does not have four dimensions
    /// or the type of its format, or is not on the CPU; if `dtype` is not supported.
    pub fn read_caches<'s>(
        &self,
        (keys, values): (&Tensor, &Tensor),
        format: CacheFormat,
        [batch, tokens]: [usize; 2],
        slots: impl IntoSlots<'s>,
        dtype: DType,
    ) -> Result<(Tensor, Tensor)> {
        let (order, slots) = (self.rotation.order, ([batch, tokens], slots.into()));
        Ok((
            cache::read(("keys", keys), order, (format, 0), slots, dtype)?,
            cache::read(("values", values), order, (format, 1), slots, dtype)?,
        ))
    }

    fn check_without_norm(&self) -> Result<()> {
        if self.rotation.norm.is_some() {
            bail!("the norm belongs to one tensor; rotate Q and K each with a Rotary of its norm");
        }
        Ok(())
    }

    /// Checks everything that does not depend on the rows; returns `[batch, tokens, heads, head_dim]`.
    fn check_in_place(&self, name: &str, x: &Tensor) -> Result<[usize; 4]> {
        on_cpu(name, x)?;
        if x.track_op() {
            bail!("{name} is rotated in place, and its gradient, which is tracked, would be wrong");
        }
        if !matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16) {
            return Err(unsupported(x.dtype()));
        }
        if x.layout().has_internal_overlap() {
            bail!("{name} is rotated in place, and its elements coincide");
        }
        self.rotation.order.layout(x.layout())?;
        self.rotation.order.extents(x.layout())
    }
}

/// Returns true if two tensors are known to have elements in common; candle cannot detect this for all interleaved
/// windows.
fn coincide(x: &Tensor, y: &Tensor) -> bool {
    share_storage(x, y)
        && matches!(
            x.layout().relation(y.layout()),
            LayoutRelation::Identical | LayoutRelation::Overlapping
        )
}

impl From<rope_models::Rotation> for Rotary {
    /// Converts the rotation of a layer in a configuration.
    fn from(rotation: rope_models::Rotation) -> Self {
        let (input, output) = rotation.pairing();
        let model = ModelHeads {
            head_dim: rotation.head_dim(),
            window: rotation.window(),
            parts: rotation.windows().count(),
        };
        Rotary {
            rotation: Rotation {
                input,
                output,
                direction: rotation.direction(),
                order: Order::default(),
                model: Some(model),
                norm: None,
            },
            full_width: rotation.is_full_width(),
            frequencies: Arc::new(rotation.into_frequencies()),
        }
    }
}

impl Rows {
    /// Returns cos and sin as tensors of f32, `[tokens, pairs]` each: for [`rope`](crate::rope), and for models that
    /// keep tables.
    ///
    /// # Errors
    ///
    /// A message, if each head has its own rows, or if the rows are full-width.
    pub fn cos_sin(&self) -> Result<(Tensor, Tensor)> {
        let AnyRows::Pairs(rows) = &*self.0 else {
            bail!("the rows have an angle for each channel, and no table of pairs");
        };
        let (tokens, pairs) = (rows.len(), rows.rotary_dim() / 2);
        if rows.heads() > 1 {
            bail!("each of {} heads has rows of its own", rows.heads());
        }
        let mut tables = [(); 2].map(|()| Vec::with_capacity(tokens * pairs));
        for (cos, sin) in (0..tokens).filter_map(|token| rows.row(token, 0)) {
            tables[0].extend_from_slice(cos);
            tables[1].extend_from_slice(sin);
        }
        let [cos, sin] = tables.map(|table| Tensor::from_vec(table, (tokens, pairs), &Device::Cpu));
        Ok((cos?, sin?))
    }
}

impl From<rope_core::Rows<'static>> for Rows {
    /// Converts rows of rope-core: of mixed axes, of each head, of a shift.
    fn from(rows: rope_core::Rows<'static>) -> Self {
        Rows(Arc::new(rows.into()))
    }
}

/// A rotation by rows, as an operation of candle.
struct ByRows {
    rotation: Rotation,
    rows: Rows,
}

impl CustomOp1 for ByRows {
    fn name(&self) -> &'static str {
        "rope-candle"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.rotation.rotated(storage, layout, &self.rows.0)
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let rotation = self.rotation.transposed().ok_or_else(|| {
            Error::msg("a rotation back divides by the attention factor, and has no gradient here")
        })?;
        let rows = self.rows.clone();
        let gradient = with_adjacent_channels(gradient)?;
        Ok(Some(gradient.apply_op1_no_bwd(&ByRows { rotation, rows })?))
    }
}
