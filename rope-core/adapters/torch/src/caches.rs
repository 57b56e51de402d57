//! Keys, normed and rotated, and values, written into the slots of a paged cache in one call.

use rope_core::cache::{
    BlockFormat, CacheFormat, CacheLayout, CacheMut, CachePartsMut, CacheShape, CacheStrides,
    HeadScales, MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::stages::Normed;
use rope_core::{NoRotation, Pairing, Rope};

use crate::norms::RawNorm;
use crate::plan::Plan;
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, integers, with_rows};
use crate::tensor::{extents, layout, with_adjacent_channels, with_elements};

/// The format of a cache.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// Elements of the type of its tensor.
    Elements,
    Codes(QuantFormat),
    Blocks(&'static BlockFormat),
    Groups(Groups),
    Channels(Channels),
}

/// Codes with a scale for a group of channels.
#[derive(Clone, Copy, Debug)]
enum Groups {
    Mxfp4(MxScale),
    Mxfp8(MxScale),
    Nvfp4,
    E4m3In128,
}

impl Groups {
    /// Channels per byte of codes, and per scale.
    fn extents(self) -> (usize, usize) {
        match self {
            Groups::Mxfp4(_) => (2, 32),
            Groups::Mxfp8(_) => (1, 32),
            Groups::Nvfp4 => (2, 16),
            Groups::E4m3In128 => (1, 128),
        }
    }

    fn at(self, place: ScaleLayout, factor: f32) -> CacheFormat<'static> {
        let at = ScalePlace::Separate(place);
        match self {
            Groups::Mxfp4(scale) => CacheFormat::mxfp4(scale, at),
            Groups::Mxfp8(scale) => CacheFormat::mxfp8(scale, at),
            Groups::Nvfp4 => CacheFormat::nvfp4(factor, at),
            Groups::E4m3In128 => {
                let least = f32::MIN_POSITIVE;
                CacheFormat::e4m3_in_128(TileScale::Quotient { least }, at)
            }
        }
    }
}

/// Codes with numbers for a channel of a group of tokens, which is a block.
#[derive(Clone, Copy, Debug)]
enum Channels {
    U8,
    U4,
    Kivi2,
    Kivi4,
}

impl Channels {
    /// Channels per byte of a row, rows of numbers, and tokens per row of codes.
    fn extents(self) -> [usize; 3] {
        match self {
            Channels::U8 => [1, 8, 1],
            Channels::U4 => [2, 16, 1],
            Channels::Kivi2 => [1, 4, 4],
            Channels::Kivi4 => [1, 4, 2],
        }
    }

    fn of(self, tokens: usize) -> CacheFormat<'static> {
        match self {
            Channels::U8 => CacheFormat::u8_by_channel(tokens),
            Channels::U4 => CacheFormat::u4_by_channel(tokens),
            Channels::Kivi2 => CacheFormat::kivi2(tokens),
            Channels::Kivi4 => CacheFormat::kivi4(tokens),
        }
    }

    /// The cache in a tensor's memory, `[blocks, heads, rows, width]`, for heads of `head_dim` channels.
    fn cache<'a>(
        self,
        cache: &'a mut Tensor,
        read: &[&Tensor],
        head_dim: usize,
    ) -> Result<CacheMut<'a>> {
        let [per_byte, numbers, tokens] = self.extents();
        let width = head_dim / per_byte;
        let (&[blocks, heads, rows, last], &[of_block, of_head, of_row, channel]) =
            (cache.sizes(), cache.strides())
        else {
            return Err(Failure::new(format!(
                "{} is {:?}; it must have four dimensions: blocks, heads, rows, channels",
                cache.name(),
                cache.sizes()
            )));
        };
        let fits = last == width && head_dim.is_multiple_of(per_byte) && rows > numbers;
        if !fits || channel != 1 || of_row != width {
            return Err(Failure::new(format!(
                "{} is {:?}; for heads of {head_dim} channels a block must be contiguous rows of {width} bytes: {numbers} \
                 of numbers, and one for {tokens} of its slots",
                cache.name(),
                cache.sizes()
            )));
        }
        if cache.dtype() != Dtype::Uint8 {
            return Err(Failure::new(format!(
                "{} is {:?}; codes by channel need uint8",
                cache.name(),
                cache.dtype()
            )));
        }
        let block_size = (rows - numbers) * tokens;
        let strides = [of_block, of_head].map(|stride| {
            let count = stride
                .is_multiple_of(rows * width)
                .then(|| stride / (rows * width))?;
            count.checked_mul(block_size)?.checked_mul(head_dim)
        });
        let [Some(block), Some(head)] = strides else {
            return Err(Failure::new(format!(
                "{} has strides of {of_block} and {of_head} bytes, in which blocks of {} bytes do not fit",
                cache.name(),
                rows * width
            )));
        };
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let layout = strided(shape, [block, head_dim, head])?;
        let codes = cache.elements_mut::<u8>(read.iter().copied())?;
        Ok(CacheMut::coded(codes, layout, self.of(block_size))?)
    }
}

/// By their numbers in `rope_kernels.rotate_into_caches`.
const FORMATS: [Format; 22] = [
    Format::Elements,
    Format::Codes(QuantFormat::E4m3),
    Format::Codes(QuantFormat::Int8Even),
    Format::Blocks(BlockFormat::Q8_0),
    Format::Blocks(BlockFormat::Q4_0),
    Format::Codes(QuantFormat::Int8RoundAway),
    Format::Groups(Groups::Mxfp4(MxScale::Floor)),
    Format::Groups(Groups::Mxfp4(MxScale::Even)),
    Format::Groups(Groups::Mxfp8(MxScale::Floor)),
    Format::Groups(Groups::Mxfp8(MxScale::Up)),
    Format::Groups(Groups::Nvfp4),
    Format::Groups(Groups::E4m3In128),
    Format::Blocks(BlockFormat::U8_IN_32),
    Format::Blocks(BlockFormat::U8_IN_64),
    Format::Blocks(BlockFormat::U8_IN_128),
    Format::Blocks(BlockFormat::U4_IN_32),
    Format::Blocks(BlockFormat::U4_IN_64),
    Format::Blocks(BlockFormat::U4_IN_128),
    Format::Channels(Channels::U8),
    Format::Channels(Channels::U4),
    Format::Channels(Channels::Kivi2),
    Format::Channels(Channels::Kivi4),
];
/// `[blocks, heads, block_size, head_dim]`, and not `[blocks, block_size, heads, head_dim]`.
const HEADS_MAJOR: i64 = 32;

/// The least scale that is made: vLLM's, whose scales per token and head these are.
const LEAST_SCALE: f32 = 1e-6;

/// The number of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFormat(pub(crate) i64);

/// The scale of codes.
#[derive(Debug)]
enum Scales {
    /// Given for all heads.
    Same(f32),
    /// Given for each head.
    Each(Vec<f32>),
    /// Made for each token and head, and kept in a tensor, which lies so.
    Made(ScaleLayout),
    /// Made for each group of channels, likewise, with the factor of the tensor.
    Groups(ScaleLayout, f32),
}

impl RawFormat {
    fn format(self) -> Result<Format> {
        let index = usize::try_from(self.0 & !HEADS_MAJOR).ok();
        let format = index.and_then(|index| FORMATS.get(index)).copied();
        format.ok_or_else(|| {
            Failure::new(format!(
                "format is {}; it must be one of rope_kernels.rotate_into_caches",
                self.0
            ))
        })
    }

    /// Numbers that a cache has for each dimension, as `[blocks, slots of a block, heads]`.
    fn sorted(self, [blocks, second, third]: [usize; 3]) -> [usize; 3] {
        match self.0 & HEADS_MAJOR {
            0 => [blocks, second, third],
            _ => [blocks, third, second],
        }
    }

    /// The scales of a cache, as a tensor gives them.
    fn scales(self, scale: &Tensor, cache: &Tensor, factor: f64) -> Result<Scales> {
        if let Format::Groups(groups) = self.format()? {
            return self.group_scales(groups, scale, cache, factor as f32);
        }
        if factor != 1.0 {
            return Err(Failure::new(format!(
                "the factor of {} is {factor}, but only the format \"nvfp4\" has one",
                cache.name()
            )));
        }
        let (name, sizes, values) = (scale.name(), scale.sizes(), scale.elements::<f32>()?);
        let given = (sizes.is_empty(), values.first().copied().unwrap_or(1.0));
        if !matches!(self.format()?, Format::Codes(_)) {
            return match given {
                (true, 1.0) => Ok(Scales::Same(1.0)),
                _ => Err(Failure::new(format!(
                    "{name} is given, but only formats of codes have scales, not format {}",
                    self.0
                ))),
            };
        }
        // The cache itself is refused where it is made.
        let extents = cache.sizes().get(..3).unwrap_or_default();
        let heads = extents
            .try_into()
            .map_or(0, |extents| self.sorted(extents)[2]);
        match (sizes, scale.strides()) {
            ([], _) => Ok(Scales::Same(given.1)),
            (&[count], &[stride]) if count == heads => Ok(Scales::Each(
                (0..count).map(|head| values[head * stride]).collect(),
            )),
            (&[a, b, c], &[of_a, of_b, of_c]) if sizes == extents => {
                let [blocks, block_size, heads] = self.sorted([a, b, c]);
                let strides @ [block, token, head] = self.sorted([of_a, of_b, of_c]);
                let shape = CacheShape {
                    blocks,
                    block_size,
                    heads,
                    head_dim: 1,
                };
                // No two scales may have one place.
                strided(shape, strides)?;
                Ok(Scales::Made(ScaleLayout { block, token, head }))
            }
            _ => Err(Failure::new(format!(
                "{name} is {sizes:?}; it must be a number, one for each head, or {extents:?} for those that are made for \
                 each token and head"
            ))),
        }
    }

    /// The scales of groups of a cache.
    fn group_scales(
        self,
        groups: Groups,
        scale: &Tensor,
        cache: &Tensor,
        factor: f32,
    ) -> Result<Scales> {
        let (per_byte, values) = groups.extents();
        let (&[blocks, second, third, width], name) = (cache.sizes(), scale.name()) else {
            // The cache itself is refused where it is made.
            return Ok(Scales::Same(1.0));
        };
        let count = width * per_byte / values;
        let wanted = [blocks, second, third, count];
        let (true, &[of_a, of_b, of_c, last]) = (scale.sizes() == wanted, scale.strides()) else {
            return Err(Failure::new(format!(
                "{name} is {:?}; it must be {wanted:?}: a scale for {values} channels of each token and head",
                scale.sizes()
            )));
        };
        if last != 1 && count > 1 {
            return Err(Failure::new(format!(
                "{name} has a stride of {last} in the last dimension; the scales of a head must be contiguous"
            )));
        }
        let [blocks, block_size, heads] = self.sorted([blocks, second, third]);
        let strides @ [block, token, head] = self.sorted([of_a, of_b, of_c]);
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim: count,
        };
        // No two scales may have one place.
        strided(shape, strides)?;
        Ok(Scales::Groups(ScaleLayout { block, token, head }, factor))
    }

    /// The cache in a tensor's memory, for heads of `head_dim` channels.
    fn cache<'a>(
        self,
        cache: &'a mut Tensor,
        (scale, scales): (&'a mut Tensor, &'a Scales),
        read: &[&Tensor],
        head_dim: usize,
    ) -> Result<CacheMut<'a>> {
        let format = self.format()?;
        if let Format::Channels(channels) = format {
            if self.0 & HEADS_MAJOR == 0 {
                return Err(Failure::new(format!(
                    "cache_layout is \"nhd\" for {}; numbers by channel need \"hnd\"",
                    cache.name()
                )));
            }
            return channels.cache(cache, read, head_dim);
        }
        let (&[blocks, second, third, width], &[block, of_second, of_third, channel]) =
            (cache.sizes(), cache.strides())
        else {
            return Err(Failure::new(format!(
                "{} is {:?}; it must have four dimensions: blocks, slots of a block, heads, channels",
                cache.name(),
                cache.sizes()
            )));
        };
        let [blocks, block_size, heads] = self.sorted([blocks, second, third]);
        let mut strides = self.sorted([block, of_second, of_third]);
        // Of blocks the tensor has bytes, and a layout values.
        let (values, bytes) = match format {
            Format::Blocks(format) => (format.values, format.bytes),
            Format::Groups(groups) => (groups.extents().0, 1),
            _ => (1, 1),
        };
        let needed = head_dim / values * bytes;
        if width != needed || !head_dim.is_multiple_of(values) || (width > 1 && channel != 1) {
            return Err(Failure::new(format!(
                "{} is {:?} with a stride of {channel} in the last dimension; for heads of {head_dim} channels it must \
                 be {needed} contiguous numbers",
                cache.name(),
                cache.sizes(),
            )));
        }
        for stride in &mut strides {
            if !stride.is_multiple_of(bytes) {
                return Err(Failure::new(format!(
                    "{} has a stride of {stride} bytes, in which blocks of {bytes} bytes do not fit",
                    cache.name()
                )));
            }
            *stride = (*stride / bytes).checked_mul(values).ok_or_else(|| {
                Failure::new(format!("{} has strides beyond memory", cache.name()))
            })?;
        }
        let shape = CacheShape {
            blocks,
            block_size,
            heads,
            head_dim,
        };
        let layout = strided(shape, strides)?;
        let plain = |cache: &Tensor| match cache.dtype() {
            Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E4m3 => Ok(()),
            other => Err(Failure::new(format!(
                "{} is {other:?}; codes and blocks need uint8, int8 or float8_e4m3fn",
                cache.name()
            ))),
        };
        match format {
            Format::Elements => with_elements!(cache, C => {
                Ok(CacheMut::new(cache.elements_mut::<C>(read.iter().copied())?, layout)?)
            }),
            Format::Codes(code) => {
                plain(cache)?;
                let (scale, kept) = match scales {
                    Scales::Same(same) => (QuantScale::Divide((*same).into()), &mut [][..]),
                    Scales::Each(each) => (QuantScale::Divide(HeadScales::Each(each)), &mut [][..]),
                    Scales::Made(layout) | Scales::Groups(layout, _) => {
                        let made = QuantScale::Computed {
                            least: LEAST_SCALE,
                            at: ScalePlace::Separate(*layout),
                        };
                        (made, scale.elements_mut::<f32>(read.iter().copied())?)
                    }
                };
                let codes = cache.elements_mut::<u8>(read.iter().copied())?;
                Ok(CacheMut::coded_with_scales(
                    codes,
                    layout,
                    CacheFormat::quantized(code, scale),
                    kept,
                )?)
            }
            Format::Groups(groups) => {
                plain(cache)?;
                let Scales::Groups(place, factor) = *scales else {
                    return Err(Failure::new(format!("{} has no scales", cache.name())));
                };
                let format = groups.at(place, factor);
                let codes = cache.elements_mut::<u8>(read.iter().copied())?;
                if matches!(groups, Groups::E4m3In128) {
                    let scales = scale.elements_mut::<f32>(read.iter().copied())?;
                    return Ok(CacheMut::coded_with_scales(codes, layout, format, scales)?);
                }
                plain(scale)?;
                let scales = scale.elements_mut::<u8>(read.iter().copied())?;
                Ok(CacheMut::coded_with_scales(codes, layout, format, scales)?)
            }
            Format::Channels(_) => unreachable!("its cache is made above"),
            Format::Blocks(format) => {
                plain(cache)?;
                Ok(CacheMut::coded(
                    cache.elements_mut::<u8>(read.iter().copied())?,
                    layout,
                    format,
                )?)
            }
        }
    }
}

/// A cache whose channels are contiguous, with the strides of its blocks, slots and heads.
fn strided(shape: CacheShape, [block, token, head]: [usize; 3]) -> Result<CacheLayout> {
    let strides = CacheStrides {
        block,
        group: shape.block_size.max(1),
        group_stride: 0,
        token,
        head,
        chunk: shape.head_dim.max(1),
        chunk_stride: 0,
        channel: 1,
    };
    Ok(CacheLayout::strided(shape, strides)?)
}

/// `rope_kernels::rotate_into_caches`
pub(crate) fn rotate_into_caches(
    [k, v]: [RawTensor; 2],
    rows: RawRows,
    [key_cache, value_cache, key_scale, value_scale]: [RawTensor; 4],
    slots: RawTensor,
    (weight, norm): (RawTensor, RawNorm),
    (format, factors): (RawFormat, [f64; 2]),
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut key_cache = key_cache.named_mut("key_cache")?;
    let mut value_cache = value_cache.named_mut("value_cache")?;
    let mut key_scale = key_scale.named_mut("key_scale")?;
    let mut value_scale = value_scale.named_mut("value_scale")?;
    let k = with_adjacent_channels(k.named("k")?)?;
    let v = with_adjacent_channels(v.named("v")?)?;
    let (slots, weight) = (integers(&slots.named("slots")?)?, weight.named("weight")?);
    if k.dtype() != v.dtype() {
        return Err(Failure::new(format!(
            "k is {:?}, but v is {:?}; they must have one type",
            k.dtype(),
            v.dtype()
        )));
    }
    if plan.eager {
        return Err(Failure::new(
            "rounding is \"eager\"; into a cache it must be \"once\"",
        ));
    }
    let scales = [
        format.scales(&key_scale, &key_cache, factors[0])?,
        format.scales(&value_scale, &value_cache, factors[1])?,
    ];
    let mut written = vec![&key_cache, &value_cache];
    for (tensor, scales) in [&key_scale, &value_scale].into_iter().zip(&scales) {
        if matches!(scales, Scales::Made(_) | Scales::Groups(..)) {
            written.push(tensor);
        }
    }
    RawNorm::check_apart(&weight, &written)?;
    for (index, one) in written.iter().enumerate() {
        if let Some(other) = written[..index].iter().find(|other| one.overlaps(other)) {
            return Err(Failure::new(format!(
                "{} and {} overlap in memory; keep them in tensors of their own, or one after the other",
                other.name(),
                one.name()
            )));
        }
    }
    let mut rope = Rope::<Normed<'_>>::from(plan.rope());
    if norm.formula != -1 {
        rope = rope.with_norm(norm.with(&weight)?);
    }
    let unchanged = Rope::new(Pairing::Half);
    let written: Vec<_> = written.iter().map(|tensor| tensor.memory()).collect();
    with_rows(rows, &plan, 1.0, &written, |_, rows| {
        let (k_shape, v_shape) = (extents(&k, &plan)?, extents(&v, &plan)?);
        let [of_keys, of_values] = &scales;
        let (of_keys, of_values) = ((&mut key_scale, of_keys), (&mut value_scale, of_values));
        let mut keys = format.cache(&mut key_cache, of_keys, &[&k, &v], k_shape[3])?;
        let mut values = format.cache(&mut value_cache, of_values, &[&k, &v], v_shape[3])?;
        let (mut keys, mut values) = (keys.slots(&slots), values.slots(&slots));
        with_elements!(k, E => {
            let k = rope_core::Tensor::new(k.elements::<E>()?, layout(&k, &plan)?)?;
            let v = rope_core::Tensor::new(v.elements::<E>()?, layout(&v, &plan)?)?;
            let write_keys = rope.prepare_into(&k, &mut keys, rows)?;
            let write_values = unchanged.prepare_into(&v, &mut values, &NoRotation)?;
            write_keys.run();
            write_values.run();
            Ok(())
        })
    })?;
    key_cache.count_write()?;
    value_cache.count_write()?;
    for (scale, scales) in [&key_scale, &value_scale].into_iter().zip(&scales) {
        if matches!(scales, Scales::Made(_) | Scales::Groups(..)) {
            scale.count_write()?;
        }
    }
    Ok(())
}

/// `rope_kernels::rotate_into_latent_cache`
pub(crate) fn rotate_into_latent_cache(
    [latent, key]: [RawTensor; 2],
    rows: RawRows,
    (cache, slots): (RawTensor, RawTensor),
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut cache = cache.named_mut("cache")?;
    let latent = with_adjacent_channels(latent.named("latent")?)?;
    let key = with_adjacent_channels(key.named("key")?)?;
    let slots = integers(&slots.named("slots")?)?;
    if latent.dtype() != key.dtype() {
        return Err(Failure::new(format!(
            "latent is {:?}, but key is {:?}; they must have one type",
            latent.dtype(),
            key.dtype()
        )));
    }
    if plan.eager {
        return Err(Failure::new(
            "rounding is \"eager\"; into a cache it must be \"once\"",
        ));
    }
    let widths = [extents(&latent, &plan)?[3], extents(&key, &plan)?[3]];
    let rope = plan.rope().with_window(widths[0]);
    with_rows(rows, &plan, 1.0, &[cache.memory()], |_, rows| {
        let mut cache = latent_cache(&mut cache, [&latent, &key], widths)?;
        with_elements!(latent, E => {
            let source = [
                rope_core::Tensor::new(latent.elements::<E>()?, layout(&latent, &plan)?)?,
                rope_core::Tensor::new(key.elements::<E>()?, layout(&key, &plan)?)?,
            ];
            Ok(rope.rotate_into(&source, &mut cache.slots(&slots), rows)?)
        })
    })?;
    cache.count_write()
}

/// The cache of latents and keys in a tensor's memory: elements, or DeepSeek's records in bytes.
fn latent_cache<'a>(
    cache: &'a mut Tensor,
    read: [&Tensor; 2],
    [latent, key]: [usize; 2],
) -> Result<CachePartsMut<'a, 2>> {
    let (&[blocks, block_size, width], &[block, token, channel]) = (cache.sizes(), cache.strides())
    else {
        return Err(Failure::new(format!(
            "cache is {:?}; it must have three dimensions: blocks, slots of a block, channels or bytes",
            cache.sizes()
        )));
    };
    let is_coded = cache.dtype() == Dtype::Uint8;
    // Bytes of the scales, and of an element of the key.
    let (scales, size) = if is_coded {
        (latent / 128 * 4, 2)
    } else {
        (0, 1)
    };
    let needed = latent + scales + size * key;
    let divides = !is_coded
        || latent.is_multiple_of(128) && [block, token].iter().all(|it| it.is_multiple_of(2));
    if width != needed || !divides || (width > 1 && channel != 1) {
        return Err(Failure::new(format!(
            "cache is {:?} with strides of {:?}; for a latent of {latent} channels and a key of {key} it must be {needed} \
             contiguous numbers per slot; in uint8 the latent is a multiple of 128, and strides are even",
            cache.sizes(),
            cache.strides(),
        )));
    }
    let part = |first: usize, head_dim: usize, size: usize| {
        let shape = CacheShape {
            blocks,
            block_size,
            heads: 1,
            head_dim,
        };
        let strides = [block / size, token / size, width / size];
        Ok::<_, Failure>(strided(shape, strides)?.with_offset(first / size)?)
    };
    let layouts = [part(0, latent, 1)?, part(latent + scales, key, size)?];
    if is_coded {
        let least = f32::MIN_POSITIVE;
        let codes =
            CacheFormat::e4m3_in_128(TileScale::Quotient { least }, ScalePlace::Inline(latent));
        let formats = [codes, CacheFormat::element::<rope_core::half::bf16>()];
        let bytes = cache.elements_mut::<u8>(read)?;
        let parts = [(layouts[0], formats[0]), (layouts[1], formats[1])];
        return Ok(CachePartsMut::new(bytes, parts)?);
    }
    with_elements!(cache, C => {
        let format = CacheFormat::element::<C>();
        let bytes = bytemuck::cast_slice_mut(cache.elements_mut::<C>(read)?);
        Ok(CachePartsMut::new(bytes, layouts.map(|layout| (layout, format)))?)
    })
}
