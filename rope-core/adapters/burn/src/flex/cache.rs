//! Writes keys, rotated, and values into two tensors that form a KV cache, and reads them.

use alloc::vec::Vec;

use burn_core::backend::Flex;
use burn_core::backend::flex::FlexTensor;
use burn_core::tensor::kind::Basic;
use burn_core::tensor::{
    BackendPrimitive, DType, Element as BurnElement, Tensor, TensorData, bf16, f16,
};
use rope_core::cache::{
    self, Asymmetric, BlockFormat, Cache, CacheLayout, CacheMut, CacheShape, CacheSlotsMut,
    CacheStrides, ChannelCodes, GroupCodes, IntoSlots, MxScale, QuantFormat, QuantScale,
    ScalePlace, Slots, TileScale,
};
use rope_core::norm::Norm;
use rope_core::stages::Normed;
use rope_core::{Call, Element, Layout, NoRotation, Pairing, Rope, Rows, TensorMut};

use super::norm::{on_flex, with_rows};
use super::{elements, extents, layout, readable, rotates};
use crate::{Error, RotaryRows, operation};

/// The storage format of the tensors of a KV cache.
///
/// ```
/// use rope_burn::CacheFormat;
/// use rope_burn::rope_core::cache::{BlockFormat, QuantFormat};
///
/// let pages_of_floats = CacheFormat::Elements;
/// let fp8 = CacheFormat::Quantized(QuantFormat::E4m3, [0.5, 0.25]);
/// let ggml = CacheFormat::Blocks(BlockFormat::Q8_0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum CacheFormat {
    /// Elements of the cache's type, `f32`, `f16` or `bf16`, whatever the type of K and V.
    #[default]
    Elements,
    /// 8-bit codes of `x / scale` in tensors of [`DType::U8`]; the scales are those of the keys and of the values.
    Quantized(QuantFormat, [f32; 2]),
    /// ggml's blocks of 32 channels, with their scales, in tensors of [`DType::U8`], whose last dimension counts bytes:
    /// `head_dim / 32 * format.bytes`.
    Blocks(&'static BlockFormat),
    /// Codes with a scale for each group of channels, in tensors of [`DType::U8`], whose last dimension counts bytes:
    /// the codes of a head, then its scales.
    Groups(GroupFormat),
    /// Codes with numbers for each channel of a block, in tensors of [`DType::U8`], `[blocks, heads, rows, width]`. A
    /// call writes whole blocks, each in the order of its slots, and reads any slots.
    Channels(ChannelFormat),
}

/// A format with a scale for each group of channels, as those of [`rope_core::cache::CacheFormat`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum GroupFormat {
    /// 17 bytes for 32 channels.
    Mxfp4(MxScale),
    /// 33 bytes for 32 channels.
    Mxfp8(MxScale),
    /// 9 bytes for 16 channels; the factors of the keys and of the values.
    Nvfp4([f32; 2]),
    /// 132 bytes for 128 channels; 129 with [`TileScale::E8m0`].
    E4m3In128(TileScale),
    /// 68 bytes for 64 channels; 65 with [`TileScale::E8m0`].
    E4m3In64(TileScale),
    /// Unsigned codes of 8 bits, and 8 bytes for a group of this number of channels, which may be a head's.
    U8(Asymmetric, usize),
    /// Unsigned codes of 4 bits, likewise.
    U4(Asymmetric, usize),
}

impl GroupFormat {
    /// Returns the channels of a group, its bytes with its scale, and the channels per byte of codes.
    fn extents(self) -> [usize; 3] {
        match self {
            GroupFormat::Mxfp4(_) => [32, 17, 2],
            GroupFormat::Mxfp8(_) => [32, 33, 1],
            GroupFormat::Nvfp4(_) => [16, 9, 2],
            GroupFormat::E4m3In128(TileScale::E8m0 { .. }) => [128, 129, 1],
            GroupFormat::E4m3In128(_) => [128, 132, 1],
            GroupFormat::E4m3In64(TileScale::E8m0 { .. }) => [64, 65, 1],
            GroupFormat::E4m3In64(_) => [64, 68, 1],
            GroupFormat::U8(_, channels) => [channels, channels.saturating_add(8), 1],
            GroupFormat::U4(_, channels) => [channels, channels / 2 + 8, 2],
        }
    }

    /// Returns rope-core's format for heads of `head_dim` channels; `index` is that of the factor.
    fn format(self, head_dim: usize, index: usize) -> cache::CacheFormat<'static> {
        let [_, _, per_byte] = self.extents();
        let at = ScalePlace::Inline(head_dim / per_byte);
        let codes = match self {
            GroupFormat::Mxfp4(scale) => GroupCodes::Mxfp4(scale),
            GroupFormat::Mxfp8(scale) => GroupCodes::Mxfp8(scale),
            GroupFormat::Nvfp4(factors) => GroupCodes::Nvfp4(factors[index]),
            GroupFormat::E4m3In128(scale) => GroupCodes::E4m3In128(scale),
            GroupFormat::E4m3In64(scale) => GroupCodes::E4m3In64(scale),
            GroupFormat::U8(rule, channels) => GroupCodes::U8(rule, channels),
            GroupFormat::U4(rule, channels) => GroupCodes::U4(rule, channels),
        };
        cache::CacheFormat::by_group(codes, at)
    }
}

/// A format with numbers for each channel of a block of slots, as those of
/// [`rope_core::cache::ChannelCodes`]. The rows of a head in a block are first those of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelFormat {
    /// OpenVINO's codes of 8 bits: rows of `head_dim` bytes, 8 of scales and zero points, and one for each slot.
    U8,
    /// OpenVINO's codes of 4 bits: rows of `head_dim / 2` bytes, 16 of scales and zero points, and one for each slot.
    U4,
    /// KIVI's codes of 2 bits: rows of `head_dim` bytes, 4 of scales and minima, and one for 4 slots.
    Kivi2,
    /// KIVI's codes of 4 bits: rows of `head_dim` bytes, 4 of scales and minima, and one for 2 slots.
    Kivi4,
}

impl ChannelFormat {
    /// Returns the channels per byte of a row, the rows of numbers, and the slots per row of codes.
    fn extents(self) -> [usize; 3] {
        match self {
            ChannelFormat::U8 => [1, 8, 1],
            ChannelFormat::U4 => [2, 16, 1],
            ChannelFormat::Kivi2 => [1, 4, 4],
            ChannelFormat::Kivi4 => [1, 4, 2],
        }
    }

    /// Returns rope-core's format for blocks of `block_size` slots.
    fn format(self, block_size: usize) -> cache::CacheFormat<'static> {
        let codes = match self {
            ChannelFormat::U8 => ChannelCodes::U8,
            ChannelFormat::U4 => ChannelCodes::U4,
            ChannelFormat::Kivi2 => ChannelCodes::Kivi2,
            ChannelFormat::Kivi4 => ChannelCodes::Kivi4,
        };
        cache::CacheFormat::by_channel(codes, block_size)
    }

    /// Returns the layout of a cache by its extents and strides in bytes, or the number of bytes of a block, whose rows
    /// do not lie one after another in steps of that number.
    fn place(
        self,
        [blocks, rows, heads, width]: [usize; 4],
        [block, row, head]: [usize; 3],
    ) -> Result<(CacheShape, CacheStrides), usize> {
        let [per_byte, numbers, slots] = self.extents();
        let bytes = rows.saturating_mul(width).max(1);
        let fits = rows > numbers && row == width;
        if !fits || !block.is_multiple_of(bytes) || !head.is_multiple_of(bytes) {
            return Err(bytes);
        }
        let block_size = (rows - numbers).saturating_mul(slots);
        let head_dim = width.saturating_mul(per_byte);
        // A layout counts the values of the codes of a block.
        let values = block_size.saturating_mul(head_dim);
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let strides = CacheStrides {
            block: (block / bytes).saturating_mul(values),
            group: block_size.max(1),
            group_stride: 0,
            token: head_dim,
            head: (head / bytes).saturating_mul(values),
            chunk: head_dim.max(1),
            chunk_stride: 0,
            channel: 1,
        };
        Ok((shape, strides))
    }
}

impl CacheFormat {
    /// Returns true if tensors of this type have the format.
    fn keeps(self, dtype: DType) -> bool {
        match self {
            CacheFormat::Elements => rotates(dtype),
            _ => dtype == DType::U8,
        }
    }
}

/// Rotates `k`, after a norm if there is one, writes it and `v` into the slots of a KV cache, and returns the cache's
/// keys and values. A cache without other handles is written in place; otherwise a copy is.
///
/// `k` and `v` are `[batch, heads, tokens, head_dim]`, and each cache `[blocks, heads, block_size, head_dim]`. For a
/// cache with the middle dimensions exchanged, pass and use `swap_dims(1, 2)`, which copies nothing.
///
/// `slots` has one slot per token of each sequence, `block * block_size + place`; a negative one is skipped. It is a
/// slice or `Vec` of integers (for a tensor, its data), a range, an integer, or page tables ([`Slots::table`];
/// [`Slots::sequences`] with one block per sequence).
///
/// Runs on Flex only, and has no gradient.
///
/// ```
/// use burn::tensor::{DType, Device, Distribution, Int, Tensor};
/// use rope_burn::rope_core::cache::QuantFormat;
/// use rope_burn::rope_core::{Frequencies, Pairing, Scaling};
/// use rope_burn::{CacheFormat, RotaryRows, rotate_into_caches};
///
/// let device = Device::flex();
/// let rows = RotaryRows::at(&Frequencies::new(64, 1e6, &Scaling::Default)?, 100..103, 1, &device)?;
/// // 4 blocks of 16 slots in FP8
/// let cache = || Tensor::<4, Int>::zeros([4, 2, 16, 64], (&device, DType::U8));
/// let format = CacheFormat::Quantized(QuantFormat::E4m3, [0.5, 0.25]);
/// let k = Tensor::<4>::random([1, 2, 3, 64], Distribution::Default, &device);
/// let v = Tensor::ones_like(&k);
/// let slots = [17_i64, 18, 40];
/// let (k, v) = ((k, cache()), (v, cache()));
/// let (keys, values) = rotate_into_caches(k, v, format, &slots, &rows, Pairing::Half, None)?;
/// # let _ = (keys, values);
/// # Ok::<(), rope_burn::Error>(())
/// ```
///
/// # Errors
///
/// The errors of [`rotate`](crate::rotate) for `k`; [`Error::Fused`] if a tensor is not on Flex, is on a device with
/// autodiff, or does not have a type of its format; [`Error::Rope`] with the errors of [`rope_core::Rope::rotate_into`]
/// and of [`CacheMut`], and with [`rope_core::Error::Parameter`] if the last dimension is not whole blocks.
/// Nothing is written then; other handles of the caches are unchanged.
pub fn rotate_into_caches<'s, C>(
    (k, keys): (Tensor<4>, Tensor<4, C>),
    (v, values): (Tensor<4>, Tensor<4, C>),
    format: CacheFormat,
    slots: impl IntoSlots<'s>,
    rows: &RotaryRows,
    pairing: Pairing,
    norm: Option<Norm<'_>>,
) -> Result<(Tensor<4, C>, Tensor<4, C>), Error>
where
    C: Basic + BackendPrimitive<Flex, Primitive = FlexTensor>,
{
    operation::check(&k, rows)?;
    let stored = |dtype| format.keeps(dtype);
    let (k, v) = (on_flex("k", k, rotates)?, on_flex("v", v, rotates)?);
    let mut keys = readable(on_flex("keys", keys, stored)?);
    let mut values = readable(on_flex("values", values, stored)?);
    let mut rope = Rope::<Normed<'_>>::from(Rope::new(pairing));
    if let Some(norm) = norm {
        rope = rope.with_norm(norm);
    }
    with_rows(rows, |rows| {
        let mut keys = cache_mut(&mut keys, format, 0)?;
        let mut values = cache_mut(&mut values, format, 1)?;
        let slots = slots.into();
        let caches = [keys.slots(slots), values.slots(slots)];
        let (k, v) = (readable(k), readable(v));
        for_element!(k, write(&k, &v, caches, (&rope, rows)))
    })?;
    let [keys, values] = [keys, values].map(Tensor::from_primitive::<Flex>);
    Ok((keys, values))
}

fn write<K: Element + BurnElement>(
    k: &FlexTensor,
    v: &FlexTensor,
    [mut keys, values]: [CacheSlotsMut<'_>; 2],
    (rope, rows): (&Rope<Normed<'_>>, &Rows<'_>),
) -> Result<(), Error> {
    let k = rope_core::Tensor::new(elements::<K>(k), layout(k)?)?;
    let write_keys = rope.prepare_into(&k, &mut keys, rows)?;
    for_element!(v, write_both(write_keys, v, values))
}

/// Writes keys, which were checked, after values are checked too.
fn write_both<V: Element + BurnElement>(
    write_keys: Call<'_>,
    v: &FlexTensor,
    mut values: CacheSlotsMut<'_>,
) -> Result<(), Error> {
    let v = rope_core::Tensor::new(elements::<V>(v), layout(v)?)?;
    let unchanged = Rope::new(Pairing::Half);
    let write_values = unchanged.prepare_into(&v, &mut values, &NoRotation)?;
    write_keys.run();
    write_values.run();
    Ok(())
}

/// Reads the keys and the values in some slots of a KV cache, as tensors `[batch, heads, tokens, head_dim]` in `f32`,
/// `f16` or `bf16`.
///
/// `slots` are those of [`rotate_into_caches`], `tokens` for each of `batch` sequences; a negative one gives zeros. The
/// cache is borrowed, so the next write is in place.
///
/// # Errors
///
/// [`Error::Fused`] if a cache is not on Flex, is on a device with autodiff, or does not have a type of its format, and
/// for another `dtype`; [`Error::Memory`] for more slots than fit memory; [`Error::Rope`] with the errors of
/// [`rope_core::Rope::apply_into`] and of [`Cache`], and with [`rope_core::Error::Parameter`] if the last
/// dimension is not whole blocks.
pub fn read_caches<'s, C>(
    (keys, values): (&Tensor<4, C>, &Tensor<4, C>),
    format: CacheFormat,
    [batch, tokens]: [usize; 2],
    slots: impl IntoSlots<'s>,
    dtype: DType,
) -> Result<(Tensor<4>, Tensor<4>), Error>
where
    C: Basic + BackendPrimitive<Flex, Primitive = FlexTensor>,
{
    let (tokens, slots) = ([batch, tokens], slots.into());
    let read = |name, cache: &Tensor<4, C>, index| {
        let cache = readable(on_flex(name, cache.clone(), |dtype| format.keeps(dtype))?);
        let cache = (&cache, format, index);
        let read = match dtype {
            DType::F32 => read_elements::<f32>(cache, tokens, slots),
            DType::F16 => read_elements::<f16>(cache, tokens, slots),
            DType::BF16 => read_elements::<bf16>(cache, tokens, slots),
            _ => Err(Error::Fused {
                name: "the result",
                dtype,
            }),
        };
        Ok::<_, Error>(Tensor::from_primitive::<Flex>(read?))
    };
    Ok((read("keys", keys, 0)?, read("values", values, 1)?))
}

fn read_elements<E: Element + BurnElement>(
    (x, format, index): (&FlexTensor, CacheFormat, usize),
    [batch, tokens]: [usize; 2],
    slots: Slots<'_>,
) -> Result<FlexTensor, Error> {
    let place = place(x, format)?;
    let start = x.layout().start_offset();
    let codes = || x.bytes().get(start..).unwrap_or_default();
    let cache = match format {
        CacheFormat::Elements => for_element!(x, elements_cache(x, place))?,
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[index].into());
            Cache::coded(codes(), place, cache::CacheFormat::quantized(code, scale))?
        }
        CacheFormat::Blocks(format) => Cache::coded(codes(), place, format)?,
        CacheFormat::Groups(format) => {
            let head_dim = place.shape().head_dim;
            Cache::coded(codes(), place, format.format(head_dim, index))?
        }
        CacheFormat::Channels(format) => {
            let block_size = place.shape().block_size;
            Cache::coded(codes(), place, format.format(block_size))?
        }
    };
    let shape = [batch, place.shape().heads, tokens, place.shape().head_dim];
    let count = shape
        .iter()
        .try_fold(1, |count: usize, extent| count.checked_mul(*extent));
    let count = count.ok_or(Error::Memory { shape })?;
    let mut values = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::Memory { shape });
    }
    values.resize(count, E::from_elem(0.0));
    let mut target = TensorMut::new(&mut values, Layout::bhsd(shape)?)?;
    // A plan without a rotation runs only its stages: this one has none.
    Rope::new(Pairing::Half).apply_into(&cache.slots(slots), &mut target)?;
    Ok(FlexTensor::from_data(TensorData::new(values, shape)))
}

fn elements_cache<E: Element + BurnElement>(
    x: &FlexTensor,
    place: CacheLayout,
) -> Result<Cache<'_>, rope_core::Error> {
    Cache::new(elements::<E>(x), place)
}

/// Returns the layout of a cache in a tensor's memory, from its first element on, in elements or values.
fn place(x: &FlexTensor, format: CacheFormat) -> Result<CacheLayout, Error> {
    let [
        (blocks, block),
        (heads, head),
        (block_size, token),
        (width, _),
    ] = extents(x);
    if let CacheFormat::Channels(format) = format {
        let extents = [blocks, block_size, heads, width];
        let place = format.place(extents, [block, token, head]);
        let (shape, strides) = place.map_err(|_| rope_core::Error::Parameter {
            name: "the number of rows of a head in a block of the cache",
            value: block_size as f64,
            required: "those of the numbers and of the codes of its format, one after another, with blocks and heads at \
                       multiples of their bytes",
        })?;
        return Ok(CacheLayout::strided(shape, strides)?);
    }
    // The tensor of a cache of blocks counts bytes, and a layout values.
    let (per_block, bytes) = match format {
        CacheFormat::Blocks(format) => (format.values, format.bytes),
        CacheFormat::Groups(format) => {
            let [values, bytes, _] = format.extents();
            (values, bytes)
        }
        _ => (1, 1),
    };
    let counts = [width, block, token, head];
    let names = [
        "the last dimension of the cache",
        "the stride of its blocks",
        "the stride of its tokens",
        "the stride of its heads",
    ];
    for (count, name) in counts.into_iter().zip(names) {
        if !count.is_multiple_of(bytes) {
            let error = rope_core::Error::Parameter {
                name,
                value: count as f64,
                required: "a multiple of the bytes of a block: make the cache of whole blocks of its format",
            };
            return Err(error.into());
        }
    }
    let mut counts = counts.map(|count| (count / bytes).saturating_mul(per_block));
    if let CacheFormat::Groups(format) = format {
        // Steps are codes and scales.
        let [_, _, per_byte] = format.extents();
        for (count, bytes) in counts.iter_mut().zip([width, block, token, head]).skip(1) {
            *count = bytes.saturating_mul(per_byte);
        }
    }
    let [head_dim, block, token, head] = counts;
    let shape = CacheShape {
        blocks,
        block_size,
        heads,
        head_dim,
    };
    let strides = CacheStrides {
        block,
        group: block_size.max(1),
        group_stride: 0,
        token,
        head,
        chunk: head_dim.max(1),
        chunk_stride: 0,
        channel: 1,
    };
    Ok(CacheLayout::strided(shape, strides)?)
}

/// Returns the cache in a tensor's memory, for writing; `index` is that of its scale.
fn cache_mut(x: &mut FlexTensor, format: CacheFormat, index: usize) -> Result<CacheMut<'_>, Error> {
    let place = place(x, format)?;
    Ok(match format {
        CacheFormat::Elements => for_element!(x, elements_cache_mut(x, place))?,
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[index].into());
            CacheMut::coded(codes(x), place, cache::CacheFormat::quantized(code, scale))?
        }
        CacheFormat::Blocks(format) => CacheMut::coded(codes(x), place, format)?,
        CacheFormat::Groups(format) => {
            let head_dim = place.shape().head_dim;
            CacheMut::coded(codes(x), place, format.format(head_dim, index))?
        }
        CacheFormat::Channels(format) => {
            let block_size = place.shape().block_size;
            CacheMut::coded(codes(x), place, format.format(block_size))?
        }
    })
}

fn elements_cache_mut<E: Element + BurnElement>(
    x: &mut FlexTensor,
    place: CacheLayout,
) -> Result<CacheMut<'_>, rope_core::Error> {
    let start = x.layout().start_offset();
    let elements = x.storage_mut::<E>().get_mut(start..).unwrap_or_default();
    CacheMut::new(elements, place)
}

/// Returns the bytes from the first one on, in memory without other handles.
fn codes(x: &mut FlexTensor) -> &mut [u8] {
    let start = x.layout().start_offset();
    x.storage_mut::<u8>().get_mut(start..).unwrap_or_default()
}
