//! Keys, normed and rotated, and values, written into the slots of a paged cache in one call.

use rope_core::cache::{
    Asymmetric, BlockFormat, CacheFormat, CacheLayout, CacheMut, CachePartsMut, CacheShape,
    CacheStrides, ChannelCodes, GroupCodes, HeadScales, MxScale, QuantFormat, QuantScale,
    ScaleLayout, ScalePlace, TileScale,
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
    E4m3In128(TileScale),
    E4m3In64(TileScale),
    /// A scale and a zero point, or a minimum, for a head or for equal parts of it.
    U8(Asymmetric),
    U4(Asymmetric),
}

impl Groups {
    /// Channels per byte of codes.
    fn per_byte(self) -> usize {
        match self {
            Groups::Mxfp4(_) | Groups::Nvfp4 | Groups::U4(_) => 2,
            _ => 1,
        }
    }

    /// Channels per scale; `None` if the scales decide.
    fn channels(self) -> Option<usize> {
        match self {
            Groups::Mxfp4(_) | Groups::Mxfp8(_) => Some(32),
            Groups::Nvfp4 => Some(16),
            Groups::E4m3In128(_) => Some(128),
            Groups::E4m3In64(_) => Some(64),
            Groups::U8(_) | Groups::U4(_) => None,
        }
    }

    /// Returns true if scales are float32.
    fn has_floats(self) -> bool {
        match self {
            Groups::E4m3In128(scale) | Groups::E4m3In64(scale) => {
                !matches!(scale, TileScale::E8m0 { .. })
            }
            Groups::U8(_) | Groups::U4(_) => true,
            _ => false,
        }
    }

    /// Returns the format of groups of `channels`.
    fn at(self, at: ScalePlace, channels: usize, factor: f32) -> CacheFormat<'static> {
        let codes = match self {
            Groups::Mxfp4(scale) => GroupCodes::Mxfp4(scale),
            Groups::Mxfp8(scale) => GroupCodes::Mxfp8(scale),
            Groups::Nvfp4 => GroupCodes::Nvfp4(factor),
            Groups::E4m3In128(scale) => GroupCodes::E4m3In128(scale),
            Groups::E4m3In64(scale) => GroupCodes::E4m3In64(scale),
            Groups::U8(rule) => GroupCodes::U8(rule, channels),
            Groups::U4(rule) => GroupCodes::U4(rule, channels),
        };
        CacheFormat::by_group(codes, at)
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
        let codes = match self {
            Channels::U8 => ChannelCodes::U8,
            Channels::U4 => ChannelCodes::U4,
            Channels::Kivi2 => ChannelCodes::Kivi2,
            Channels::Kivi4 => ChannelCodes::Kivi4,
        };
        CacheFormat::by_channel(codes, tokens)
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

/// vLLM's, and DeepSeek's, whose least magnitude is 1e-4.
const QUOTIENT: TileScale = TileScale::Quotient {
    least: f32::MIN_POSITIVE,
};
const POWER_OF_TWO: TileScale = TileScale::PowerOfTwo {
    least: 1e-4 / 448.0,
};
const E8M0: TileScale = TileScale::E8m0 {
    least: 1e-4 / 448.0,
};

/// By their numbers in `rope_kernels.rotate_into_caches`.
const FORMATS: [Format; 39] = [
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
    Format::Groups(Groups::E4m3In128(QUOTIENT)),
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
    Format::Codes(QuantFormat::E5m2),
    Format::Codes(QuantFormat::E5m2Saturating),
    Format::Blocks(BlockFormat::Q4_1),
    Format::Blocks(BlockFormat::Q5_0),
    Format::Blocks(BlockFormat::Q5_1),
    Format::Blocks(BlockFormat::IQ4_NL),
    Format::Groups(Groups::Mxfp4(MxScale::Up)),
    Format::Groups(Groups::Mxfp8(MxScale::Even)),
    Format::Groups(Groups::E4m3In128(POWER_OF_TWO)),
    Format::Groups(Groups::E4m3In128(E8M0)),
    Format::Groups(Groups::E4m3In64(QUOTIENT)),
    Format::Groups(Groups::E4m3In64(POWER_OF_TWO)),
    Format::Groups(Groups::E4m3In64(E8M0)),
    Format::Groups(Groups::U8(Asymmetric::ZeroPoint)),
    Format::Groups(Groups::U8(Asymmetric::Minimum)),
    Format::Groups(Groups::U4(Asymmetric::ZeroPoint)),
    Format::Groups(Groups::U4(Asymmetric::Minimum)),
];
/// `[blocks, heads, block_size, head_dim]`, and not `[blocks, block_size, heads, head_dim]`.
const HEADS_MAJOR: i64 = 64;

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
    /// Made for each group of this number of channels, likewise, with the factor of the tensor.
    Groups(ScaleLayout, usize, f32),
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
        let (&[blocks, second, third, width], name) = (cache.sizes(), scale.name()) else {
            // The cache itself is refused where it is made.
            return Ok(Scales::Same(1.0));
        };
        let head_dim = width * groups.per_byte();
        let given = scale.sizes().get(3).copied().unwrap_or(0);
        let (count, channels, needed) = match groups.channels() {
            Some(channels) => {
                let needed = format!("a scale for {channels} channels");
                (head_dim / channels, channels, needed)
            }
            None => {
                let needed = "two numbers for a head, or for each of its equal parts,".to_owned();
                let parts = (given / 2).max(1);
                (2 * parts, head_dim / parts, needed)
            }
        };
        let wanted = [blocks, second, third, count];
        let (true, &[of_a, of_b, of_c, last]) = (scale.sizes() == wanted, scale.strides()) else {
            return Err(Failure::new(format!(
                "{name} is {:?}; it must be {wanted:?}: {needed} of each token and head",
                scale.sizes()
            )));
        };
        if !head_dim.is_multiple_of(channels.max(1)) {
            return Err(Failure::new(format!(
                "{name} has two numbers for each of {} parts, which {head_dim} channels have not",
                count / 2
            )));
        }
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
        let layout = ScaleLayout { block, token, head };
        Ok(Scales::Groups(layout, channels, factor))
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
            Format::Groups(groups) => (groups.per_byte(), 1),
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
                    Scales::Made(place) | Scales::Groups(place, ..) => {
                        let made = |at| QuantScale::Computed {
                            least: LEAST_SCALE,
                            at,
                        };
                        if cache.overlaps(scale) {
                            let format = |at| CacheFormat::quantized(code, made(at));
                            return with_scales_inside(
                                cache,
                                scale,
                                read,
                                (layout, *place),
                                1,
                                format,
                            );
                        }
                        let kept = scale.elements_mut::<f32>(read.iter().copied())?;
                        (made(ScalePlace::Separate(*place)), kept)
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
                let Scales::Groups(place, channels, factor) = *scales else {
                    return Err(Failure::new(format!("{} has no scales", cache.name())));
                };
                if !groups.has_floats() {
                    plain(scale)?;
                }
                if cache.overlaps(scale) {
                    let per_byte = groups.per_byte();
                    let format = |at| groups.at(at, channels, factor);
                    return with_scales_inside(
                        cache,
                        scale,
                        read,
                        (layout, place),
                        per_byte,
                        format,
                    );
                }
                let format = groups.at(ScalePlace::Separate(place), channels, factor);
                let codes = cache.elements_mut::<u8>(read.iter().copied())?;
                if groups.has_floats() {
                    let scales = scale.elements_mut::<f32>(read.iter().copied())?;
                    return Ok(CacheMut::coded_with_scales(codes, layout, format, scales)?);
                }
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

/// A cache whose scales lie between its codes, as those of a page after all codes of the page: one memory has both.
fn with_scales_inside<'a>(
    cache: &'a mut Tensor,
    scale: &Tensor,
    read: &[&Tensor],
    (layout, place): (CacheLayout, ScaleLayout),
    per_byte: usize,
    format: impl FnOnce(ScalePlace) -> CacheFormat<'static>,
) -> Result<CacheMut<'a>> {
    let unit = scale.element_size();
    let wanted = if unit == 4 {
        Dtype::Float32
    } else {
        Dtype::Uint8
    };
    if scale.dtype() != wanted {
        return Err(Failure::new(format!(
            "{} must be of the type {wanted:?}",
            scale.name()
        )));
    }
    let start = cache.memory().start.min(scale.memory().start);
    let codes = cache.memory().start - start;
    let in_bytes = |stride: usize| stride.saturating_mul(unit);
    let strides = ScaleLayout {
        block: in_bytes(place.block),
        token: in_bytes(place.token),
        head: in_bytes(place.head),
    };
    let first = scale.memory().start - start;
    let layout = layout.with_offset(codes.saturating_mul(per_byte))?;
    let bytes = cache.bytes_with(scale, read.iter().copied())?;
    Ok(CacheMut::coded(
        bytes,
        layout,
        format(ScalePlace::InBlock { first, strides }),
    )?)
}

/// Returns true if a tensor has the scales of a cache.
fn is_scale_of(scale: &Tensor, cache: &Tensor) -> bool {
    let pair = [cache.name(), scale.name()];
    [["key_cache", "key_scale"], ["value_cache", "value_scale"]].contains(&pair)
}

/// Returns true if two tensors share no byte, as their blocks show: these have one stride, and in it the elements of
/// one block of each lie one after the other.
fn interleave(one: &Tensor, other: &Tensor) -> bool {
    let block = |tensor: &Tensor| {
        let (&stride, size) = (tensor.strides().first()?, tensor.element_size());
        let of_block = tensor.sizes().iter().zip(tensor.strides()).skip(1);
        let last = of_block
            .map(|(size, stride)| size.saturating_sub(1).saturating_mul(*stride))
            .fold(0_usize, usize::saturating_add);
        let extent = last.saturating_add(1).saturating_mul(size);
        Some((tensor.memory().start, stride.saturating_mul(size), extent))
    };
    let (Some((start, stride, extent)), Some((other_start, other_stride, other_extent))) =
        (block(one), block(other))
    else {
        return false;
    };
    if stride != other_stride || stride == 0 {
        return false;
    }
    let distance = match other_start >= start {
        true => (other_start - start) % stride,
        false => (stride - (start - other_start) % stride) % stride,
    };
    extent <= distance && distance.saturating_add(other_extent) <= stride
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
        // Scales may lie among the codes of their cache, which it checks itself.
        let own = |other: &Tensor| is_scale_of(one, other) || is_scale_of(other, one);
        let overlaps =
            |other: &&&Tensor| one.overlaps(other) && !own(other) && !interleave(other, one);
        if let Some(other) = written[..index].iter().find(overlaps) {
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
    let is_shared = written.iter().any(|one| {
        let others = written.iter().filter(|other| other.name() > one.name());
        let mut others = others.filter(|other| !is_scale_of(other, one));
        others.any(|other| one.overlaps(other))
    });
    let written: Vec<_> = written.iter().map(|tensor| tensor.memory()).collect();
    with_rows(rows, &plan, 1.0, &written, |_, rows| {
        let (k_shape, v_shape) = (extents(&k, &plan)?, extents(&v, &plan)?);
        let [of_keys, of_values] = &scales;
        let (of_keys, of_values) = ((&mut key_scale, of_keys), (&mut value_scale, of_values));
        let read = [&k, &v];
        with_elements!(k, E => {
            let x = rope_core::Tensor::new(k.elements::<E>()?, layout(&k, &plan)?)?;
            let y = rope_core::Tensor::new(v.elements::<E>()?, layout(&v, &plan)?)?;
            if is_shared {
                // Slices of two caches in one page do not exist together: the values are checked, the keys written.
                let (scale, scales) = (&mut *of_values.0, of_values.1);
                let values = (&mut *scale, scales);
                let mut values = format.cache(&mut value_cache, values, &read, v_shape[3])?;
                let _ = unchanged.prepare_into(&y, &mut values.slots(&slots), &NoRotation)?;
                let mut keys = format.cache(&mut key_cache, of_keys, &read, k_shape[3])?;
                rope.rotate_into(&x, &mut keys.slots(&slots), rows)?;
                let values = (scale, scales);
                let mut values = format.cache(&mut value_cache, values, &read, v_shape[3])?;
                return Ok(unchanged.apply_into(&y, &mut values.slots(&slots))?);
            }
            let mut keys = format.cache(&mut key_cache, of_keys, &read, k_shape[3])?;
            let mut values = format.cache(&mut value_cache, of_values, &read, v_shape[3])?;
            let (mut keys, mut values) = (keys.slots(&slots), values.slots(&slots));
            let write_keys = rope.prepare_into(&x, &mut keys, rows)?;
            let write_values = unchanged.prepare_into(&y, &mut values, &NoRotation)?;
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
    (format, plan): (i64, i64),
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let of_v4 = match format {
        0 => false,
        1 => true,
        _ => {
            return Err(Failure::new(format!(
                "format is {format}; it must be one of rope_kernels.rotate_into_latent_cache"
            )));
        }
    };
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
        let mut cache = match of_v4 {
            true => records_of_v4(&mut cache, [&latent, &key], widths)?,
            false => latent_cache(&mut cache, [&latent, &key], widths)?,
        };
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

/// DeepSeek-V4's records in a tensor's memory. A page has the codes and the keys of all slots, and then their scales: a
/// byte for 64 channels, in multiples of 8 bytes.
fn records_of_v4<'a>(
    cache: &'a mut Tensor,
    read: [&Tensor; 2],
    [latent, key]: [usize; 2],
) -> Result<CachePartsMut<'a, 2>> {
    let scales = (latent / 64).next_multiple_of(8);
    let (record, width) = (latent + 2 * key, latent + 2 * key + scales);
    let fits = match (cache.sizes(), cache.strides()) {
        (&[blocks, block_size, given], &[block, token, channel]) => {
            let fits = cache.dtype() == Dtype::Uint8
                && latent.is_multiple_of(64)
                && given == width
                && channel == 1
                && token == width
                && block.is_multiple_of(2);
            fits.then_some([blocks, block_size, block])
        }
        _ => None,
    };
    let Some([blocks, block_size, block]) = fits else {
        return Err(Failure::new(format!(
            "cache is {:?} with strides of {:?} and of the type {:?}; for a latent of {latent} channels, a multiple of 64, \
             and a key of {key} it must be pages of uint8, [blocks, block_size, {width}], each of them contiguous and at \
             an even distance from the one before",
            cache.sizes(),
            cache.strides(),
            cache.dtype(),
        )));
    };
    let part = |first: usize, head_dim: usize, size: usize| {
        let strides = [block / size, record / size, record / size];
        part_of_slots([blocks, block_size, head_dim], strides, first / size)
    };
    let at = ScalePlace::InBlock {
        first: block_size * record,
        strides: ScaleLayout {
            block,
            token: scales,
            head: scales,
        },
    };
    let key_format = CacheFormat::element::<rope_core::half::bf16>();
    let parts = [
        (
            part(0, latent, 1)?,
            CacheFormat::by_group(GroupCodes::E4m3In64(E8M0), at),
        ),
        (part(latent, key, 2)?, key_format),
    ];
    Ok(CachePartsMut::new(cache.elements_mut::<u8>(read)?, parts)?)
}

/// Returns the layout of a part of slots of one head, from an offset on.
fn part_of_slots(
    [blocks, block_size, head_dim]: [usize; 3],
    strides: [usize; 3],
    offset: usize,
) -> Result<CacheLayout> {
    let shape = CacheShape {
        blocks,
        block_size,
        heads: 1,
        head_dim,
    };
    Ok(strided(shape, strides)?.with_offset(offset)?)
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
        let strides = [block / size, token / size, width / size];
        part_of_slots([blocks, block_size, head_dim], strides, first / size)
    };
    let layouts = [part(0, latent, 1)?, part(latent + scales, key, size)?];
    if is_coded {
        let least = f32::MIN_POSITIVE;
        let codes = CacheFormat::by_group(
            GroupCodes::E4m3In128(TileScale::Quotient { least }),
            ScalePlace::Inline(latent),
        );
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
