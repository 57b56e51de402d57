//! Writes keys, rotated, and values into two tensors that form a KV cache, and reads them.

use std::cell::RefCell;

use candle_core::{
    CpuStorage, DType, Device, Error, InplaceOp1, Layout, Result, Storage, Tensor, WithDType, bail,
};
use rope_core::cache::{
    self, Asymmetric, BlockFormat, Cache, CacheLayout, CacheMut, CacheShape, CacheStrides,
    ChannelCodes, GroupCodes, MxScale, QuantFormat, QuantScale, ScalePlace, Slots, TileScale,
};
use rope_core::stages::Normed;
use rope_core::{AnyRows, Element, NoRotation, Pairing, Rope, Strides, TensorMut};

use crate::rotation::Rotation;
use crate::tensor::{
    Order, from_offset, on_cpu, refused, share_storage, unsupported, with_adjacent_channels,
    with_elements,
};

/// The storage format of the tensors of a KV cache.
///
/// ```
/// use rope_candle::CacheFormat;
/// use rope_candle::rope_core::cache::{BlockFormat, QuantFormat};
///
/// let pages_of_bf16 = CacheFormat::Elements;
/// let fp8 = CacheFormat::Quantized(QuantFormat::E4m3, [0.5, 0.25]);
/// let ggml = CacheFormat::Blocks(BlockFormat::Q8_0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum CacheFormat {
    /// Elements of the cache's type, f32, bf16 or f16, whatever the type of K and V.
    #[default]
    Elements,
    /// 8-bit codes of `x / scale` in tensors of u8; the scales are those of the keys and of the values.
    Quantized(QuantFormat, [f32; 2]),
    /// ggml's blocks of 32 channels, with their scales, in tensors of u8, whose last dimension counts bytes: `head_dim
    /// / 32 * format.bytes`.
    Blocks(&'static BlockFormat),
    /// Codes with a scale for each group of channels, in tensors of u8, whose last dimension counts bytes: the codes
    /// of a head, then its scales.
    Groups(GroupFormat),
    /// Codes with numbers for each channel of a block, in tensors of u8, `[blocks, heads, rows, width]`. A call writes
    /// whole blocks, each in the order of its slots, and reads any slots.
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
    ) -> std::result::Result<(CacheShape, CacheStrides), usize> {
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

/// Writes K and V into the slots of two caches, K rotated. Everything is checked before either is written.
pub(crate) fn write(
    rotation: &Rotation,
    [k, v]: [&Tensor; 2],
    [keys, values]: [&Tensor; 2],
    format: CacheFormat,
    slots: Slots<'_>,
    rows: &AnyRows<'_>,
) -> Result<()> {
    let tensors = [("k", k), ("v", v), ("keys", keys), ("values", values)];
    for (name, tensor) in tensors {
        on_cpu(name, tensor)?;
        if tensor.track_op() {
            bail!("{name} is tracked, and a write into a cache has no gradient; detach it");
        }
    }
    // candle locks a storage while it is written.
    for (read, written) in [(0, 2), (1, 2), (0, 3), (1, 3), (3, 2)] {
        if share_storage(tensors[read].1, tensors[written].1) {
            let [read, written] = [read, written].map(|index| tensors[index].0);
            bail!("{read} and {written} share their storage; copy one of them");
        }
    }
    let order = rotation.order;
    let [_, _, _, head_dim] = order.extents(k.layout())?;
    let mut rope = Rope::<Normed<'_>>::from(rotation.plan(head_dim)?);
    if let Some(norm) = &rotation.norm {
        rope = rope.with_norm(norm.as_core()?);
    }
    let unchanged = Rope::new(Pairing::Half);
    let (k, v) = (with_adjacent_channels(k)?, with_adjacent_channels(v)?);
    let ((k, k_layout), (v, v_layout)) = (k.storage_and_layout(), v.storage_and_layout());
    let (Storage::Cpu(k), Storage::Cpu(v)) = (&*k, &*v) else {
        bail!("rope-candle rotates on the CPU");
    };
    let (k_place, v_place) = (order.layout(k_layout)?, order.layout(v_layout)?);
    borrow_mut(keys, |keys, layout| {
        let mut keys = cache_mut(("keys", keys, layout), order, format, 0)?;
        borrow_mut(values, |values, layout| {
            let mut values = cache_mut(("values", values, layout), order, format, 1)?;
            let (mut keys, mut values) = (keys.slots(slots), values.slots(slots));
            with_elements!(k, k => with_elements!(v, v => {
                let k = rope_core::Tensor::new(from_offset(k, k_layout), k_place).map_err(refused)?;
                let v = rope_core::Tensor::new(from_offset(v, v_layout), v_place).map_err(refused)?;
                let write_keys = rope.prepare_into(&k, &mut keys, rows).map_err(refused)?;
                let write_values = unchanged.prepare_into(&v, &mut values, &NoRotation);
                let write_values = write_values.map_err(refused)?;
                write_keys.run();
                write_values.run();
                Ok(())
            }))
        })
    })
}

/// Reads the heads of some slots of a cache, as `[batch, tokens]`; `index` is that of its scale.
pub(crate) fn read(
    (name, tensor): (&str, &Tensor),
    order: Order,
    (format, index): (CacheFormat, usize),
    (tokens, slots): ([usize; 2], Slots<'_>),
    dtype: DType,
) -> Result<Tensor> {
    on_cpu(name, tensor)?;
    if tensor.track_op() {
        bail!("{name} is tracked, and a read of a cache has no gradient; detach it");
    }
    let (storage, layout) = tensor.storage_and_layout();
    let place = place(name, layout, order, format)?;
    let CacheShape {
        block_size,
        heads,
        head_dim,
        ..
    } = place.shape();
    let cache = match (format, &*storage) {
        (CacheFormat::Elements, Storage::Cpu(elements)) => {
            with_elements!(elements, elements => Ok(Cache::new(from_offset(elements, layout), place)))?
        }
        (CacheFormat::Quantized(code, scales), Storage::Cpu(CpuStorage::U8(codes))) => {
            let scale = QuantScale::Divide(scales[index].into());
            Cache::coded(
                from_offset(codes, layout),
                place,
                cache::CacheFormat::quantized(code, scale),
            )
        }
        (CacheFormat::Blocks(format), Storage::Cpu(CpuStorage::U8(blocks))) => {
            Cache::coded(from_offset(blocks, layout), place, format)
        }
        (CacheFormat::Groups(format), Storage::Cpu(CpuStorage::U8(codes))) => Cache::coded(
            from_offset(codes, layout),
            place,
            format.format(head_dim, index),
        ),
        (CacheFormat::Channels(format), Storage::Cpu(CpuStorage::U8(codes))) => {
            Cache::coded(from_offset(codes, layout), place, format.format(block_size))
        }
        _ => return Err(not_codes(name)),
    };
    let (cache, shape) = (
        cache.map_err(refused)?,
        [tokens[0], tokens[1], heads, head_dim],
    );
    match dtype {
        DType::F32 => read_elements::<f32>(&cache, order, shape, slots),
        DType::BF16 => read_elements::<rope_core::half::bf16>(&cache, order, shape, slots),
        DType::F16 => read_elements::<rope_core::half::f16>(&cache, order, shape, slots),
        other => Err(unsupported(other)),
    }
}

fn read_elements<E: Element + WithDType>(
    cache: &Cache<'_>,
    order: Order,
    shape: [usize; 4],
    slots: Slots<'_>,
) -> Result<Tensor> {
    let dims = Order::sorted(shape, order);
    let count = dims
        .iter()
        .try_fold(1, |count: usize, dim| count.checked_mul(*dim));
    let zeros = count.map(bytemuck::allocation::try_zeroed_vec::<E>);
    let Some(Ok(mut elements)) = zeros else {
        bail!("a tensor {dims:?} is more than memory holds");
    };
    let layout = order.layout(&Layout::contiguous(&dims))?;
    let mut target = TensorMut::new(&mut elements, layout).map_err(refused)?;
    // A plan without a rotation runs only its stages: this one has none.
    let rope = Rope::new(Pairing::Half);
    rope.apply_into(&cache.slots(slots), &mut target)
        .map_err(refused)?;
    Tensor::from_vec(elements, dims.to_vec(), &Device::Cpu)
}

/// Returns the layout of a cache in a tensor's memory, from its offset on, in elements or values.
fn place(name: &str, layout: &Layout, order: Order, format: CacheFormat) -> Result<CacheLayout> {
    let [blocks, block_size, heads, width] = order.extents(layout)?;
    let Strides { batch, token, head } = order.strides(layout)?;
    if let CacheFormat::Channels(format) = format {
        let extents = [blocks, block_size, heads, width];
        let (shape, strides) = match format.place(extents, [batch, token, head]) {
            Ok(place) => place,
            Err(bytes) => bail!(
                "{name} is {:?} with strides {:?}; for {format:?} a head has {} rows of numbers and rows of codes in each \
                 block, which lie one after another, and blocks and heads are at multiples of these {bytes} bytes",
                layout.dims(),
                layout.stride(),
                format.extents()[1]
            ),
        };
        return CacheLayout::strided(shape, strides).map_err(refused);
    }
    // The tensor of a cache of blocks counts bytes, and a layout values.
    let (values, bytes) = match format {
        CacheFormat::Blocks(format) => (format.values, format.bytes),
        CacheFormat::Groups(format) => {
            let [values, bytes, _] = format.extents();
            (values, bytes)
        }
        _ => (1, 1),
    };
    let counts = [width, batch, token, head];
    if let Some(count) = counts.iter().find(|count| !count.is_multiple_of(bytes)) {
        bail!(
            "{name} is {:?} with strides {:?}, and blocks of {bytes} bytes do not fit {count}",
            layout.dims(),
            layout.stride()
        );
    }
    let mut counts = counts.map(|count| (count / bytes).saturating_mul(values));
    if let CacheFormat::Groups(format) = format {
        // Steps are codes and scales.
        let [_, _, per_byte] = format.extents();
        for (count, bytes) in counts.iter_mut().zip([width, batch, token, head]).skip(1) {
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
    CacheLayout::strided(shape, strides).map_err(refused)
}

/// Returns the cache in a tensor's memory, for writing; `index` is that of its scale.
fn cache_mut<'a>(
    (name, storage, layout): (&str, &'a mut CpuStorage, &Layout),
    order: Order,
    format: CacheFormat,
    index: usize,
) -> Result<CacheMut<'a>> {
    let (place, start) = (place(name, layout, order, format)?, layout.start_offset());
    let cache = match (format, storage) {
        (CacheFormat::Elements, storage) => with_elements!(storage, elements => {
            Ok(CacheMut::new(elements.get_mut(start..).unwrap_or_default(), place))
        })?,
        (CacheFormat::Quantized(code, scales), CpuStorage::U8(codes)) => {
            let codes = codes.get_mut(start..).unwrap_or_default();
            let scale = QuantScale::Divide(scales[index].into());
            CacheMut::coded(codes, place, cache::CacheFormat::quantized(code, scale))
        }
        (CacheFormat::Blocks(format), CpuStorage::U8(blocks)) => {
            CacheMut::coded(blocks.get_mut(start..).unwrap_or_default(), place, format)
        }
        (CacheFormat::Groups(format), CpuStorage::U8(codes)) => CacheMut::coded(
            codes.get_mut(start..).unwrap_or_default(),
            place,
            format.format(place.shape().head_dim, index),
        ),
        (CacheFormat::Channels(format), CpuStorage::U8(codes)) => CacheMut::coded(
            codes.get_mut(start..).unwrap_or_default(),
            place,
            format.format(place.shape().block_size),
        ),
        _ => return Err(not_codes(name)),
    };
    cache.map_err(refused)
}

fn not_codes(name: &str) -> Error {
    Error::msg(format!("{name} must be u8 for codes and blocks"))
}

/// Borrows a tensor's storage, which candle lends only to operations.
fn borrow_mut(
    tensor: &Tensor,
    write: impl FnMut(&mut CpuStorage, &Layout) -> Result<()>,
) -> Result<()> {
    struct Borrow<F>(RefCell<F>);

    impl<F: FnMut(&mut CpuStorage, &Layout) -> Result<()>> InplaceOp1 for Borrow<F> {
        fn name(&self) -> &'static str {
            "rope-candle-into-cache"
        }

        fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
            (self.0.borrow_mut())(storage, layout)
        }
    }

    tensor.inplace_op1(&Borrow(RefCell::new(write)))
}
