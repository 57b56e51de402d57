//! The formats of caches by their numbers, and the caches that tensors have.

use rope_core::cache::{
    Asymmetric, BlockFormat, CacheFormat, CacheMut, CacheShape, ChannelCodes, GroupCodes,
    HeadScales, MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::internals::Count;

use super::place::{CacheMemory, CachePlace, is_given, strided, with_scales};
use crate::shim::{Dtype, Failure, Result, Tensor};
use crate::tensor::with_elements;

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

/// Codes with a scale for a group of channels. The tensors of a call decide the factor of NVFP4, and the channels of a
/// group of U8 and U4.
#[derive(Clone, Copy, Debug)]
struct Groups(GroupCodes);

impl Groups {
    /// Channels per byte of codes.
    fn per_byte(self) -> usize {
        match self.0 {
            GroupCodes::Mxfp4(_) | GroupCodes::Nvfp4(_) | GroupCodes::U4(..) => 2,
            _ => 1,
        }
    }

    /// Channels per scale; `None` if the scales decide.
    fn channels(self) -> Option<usize> {
        match self.0 {
            GroupCodes::Mxfp4(_) | GroupCodes::Mxfp8(_) => Some(32),
            GroupCodes::Nvfp4(_) => Some(16),
            GroupCodes::E4m3In128(_) => Some(128),
            GroupCodes::E4m3In64(_) => Some(64),
            _ => None,
        }
    }

    /// Returns true if scales are float32.
    fn has_floats(self) -> bool {
        match self.0 {
            GroupCodes::E4m3In128(scale) | GroupCodes::E4m3In64(scale) => {
                !matches!(scale, TileScale::E8m0 { .. })
            }
            GroupCodes::U8(..) | GroupCodes::U4(..) => true,
            _ => false,
        }
    }

    /// Returns the format of groups of `channels`.
    fn at(self, at: ScalePlace, channels: usize, factor: f32) -> CacheFormat<'static> {
        let codes = match self.0 {
            GroupCodes::Nvfp4(_) => GroupCodes::Nvfp4(factor),
            GroupCodes::U8(rule, _) => GroupCodes::U8(rule, channels),
            GroupCodes::U4(rule, _) => GroupCodes::U4(rule, channels),
            codes => codes,
        };
        CacheFormat::by_group(codes, at)
    }
}

/// Codes with numbers for a channel of a group of tokens, which is a block; and their channels per byte of a row, rows
/// of numbers, and tokens per row of codes.
#[derive(Clone, Copy, Debug)]
struct Channels(ChannelCodes, [usize; 3]);

impl Channels {
    /// The place of a cache of `[blocks, heads, rows, width]`, for heads of `head_dim` channels.
    fn place(self, cache: &Tensor, head_dim: usize) -> Result<CachePlace<'static>> {
        let Channels(codes, [per_byte, numbers, tokens]) = self;
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
                "{} is {:?}; for heads of {} a block must be contiguous rows of {}: {numbers} of numbers, and one for \
                 {tokens} of its slots",
                cache.name(),
                cache.sizes(),
                Count(head_dim, "channels"),
                Count(width, "bytes")
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
        Ok(CachePlace {
            layout: strided(shape, [block, head_dim, head])?,
            format: CacheFormat::by_channel(codes, block_size),
            memory: CacheMemory::Own,
        })
    }
}

/// vLLM's, and DeepSeek's, whose least magnitude is 1e-4.
const QUOTIENT: TileScale = TileScale::Quotient {
    least: f32::MIN_POSITIVE,
};
const POWER_OF_TWO: TileScale = TileScale::PowerOfTwo {
    least: 1e-4 / 448.0,
};
pub(super) const E8M0: TileScale = TileScale::E8m0 {
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
    Format::Groups(Groups(GroupCodes::Mxfp4(MxScale::Floor))),
    Format::Groups(Groups(GroupCodes::Mxfp4(MxScale::Even))),
    Format::Groups(Groups(GroupCodes::Mxfp8(MxScale::Floor))),
    Format::Groups(Groups(GroupCodes::Mxfp8(MxScale::Up))),
    Format::Groups(Groups(GroupCodes::Nvfp4(1.0))),
    Format::Groups(Groups(GroupCodes::E4m3In128(QUOTIENT))),
    Format::Blocks(BlockFormat::U8_IN_32),
    Format::Blocks(BlockFormat::U8_IN_64),
    Format::Blocks(BlockFormat::U8_IN_128),
    Format::Blocks(BlockFormat::U4_IN_32),
    Format::Blocks(BlockFormat::U4_IN_64),
    Format::Blocks(BlockFormat::U4_IN_128),
    Format::Channels(Channels(ChannelCodes::U8, [1, 8, 1])),
    Format::Channels(Channels(ChannelCodes::U4, [2, 16, 1])),
    Format::Channels(Channels(ChannelCodes::Kivi2, [1, 4, 4])),
    Format::Channels(Channels(ChannelCodes::Kivi4, [1, 4, 2])),
    Format::Codes(QuantFormat::E5m2),
    Format::Codes(QuantFormat::E5m2Saturating),
    Format::Blocks(BlockFormat::Q4_1),
    Format::Blocks(BlockFormat::Q5_0),
    Format::Blocks(BlockFormat::Q5_1),
    Format::Blocks(BlockFormat::IQ4_NL),
    Format::Groups(Groups(GroupCodes::Mxfp4(MxScale::Up))),
    Format::Groups(Groups(GroupCodes::Mxfp8(MxScale::Even))),
    Format::Groups(Groups(GroupCodes::E4m3In128(POWER_OF_TWO))),
    Format::Groups(Groups(GroupCodes::E4m3In128(E8M0))),
    Format::Groups(Groups(GroupCodes::E4m3In64(QUOTIENT))),
    Format::Groups(Groups(GroupCodes::E4m3In64(POWER_OF_TWO))),
    Format::Groups(Groups(GroupCodes::E4m3In64(E8M0))),
    Format::Groups(Groups(GroupCodes::U8(Asymmetric::ZeroPoint, 0))),
    Format::Groups(Groups(GroupCodes::U8(Asymmetric::Minimum, 0))),
    Format::Groups(Groups(GroupCodes::U4(Asymmetric::ZeroPoint, 0))),
    Format::Groups(Groups(GroupCodes::U4(Asymmetric::Minimum, 0))),
];
/// `[blocks, heads, block_size, head_dim]`, and not `[blocks, block_size, heads, head_dim]`.
const HEADS_MAJOR: i64 = 64;

/// The least scale that is made: vLLM's, whose scales per token and head these are.
const LEAST_SCALE: f32 = 1e-6;

/// The number of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFormat(pub(crate) i64);

/// The scales of a cache, with the tensors that give or keep them.
#[derive(Debug)]
pub(super) struct CacheScales {
    /// The tensor of the scales, and that of zero points, which is empty if each follows its scale.
    pub(super) tensors: [Tensor; 2],
    scales: Scales,
}

impl CacheScales {
    /// Returns those of a cache that has none but in its own memory.
    pub(super) fn without(tensors: [Tensor; 2]) -> Result<Self> {
        check_without(&tensors[1])?;
        let scales = Scales::Same(1.0);
        Ok(CacheScales { tensors, scales })
    }

    /// Returns the tensors that keep what a call computes.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Tensor> {
        let are_kept = matches!(self.scales, Scales::Made(_) | Scales::Groups(..));
        let [scale, zero] = &self.tensors;
        let kept = [are_kept.then_some(scale), is_given(zero).then_some(zero)];
        kept.into_iter().flatten()
    }
}

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

    /// Returns the scales of a cache.
    pub(super) fn scales(
        self,
        tensors: [Tensor; 2],
        cache: &Tensor,
        factor: f64,
    ) -> Result<CacheScales> {
        let [scale, zero] = &tensors;
        let scales = match self.format()? {
            Format::Groups(groups) => {
                self.group_scales(groups, [scale, zero], cache, factor as f32)?
            }
            _ => {
                check_without(zero)?;
                self.head_scales(scale, cache, factor)?
            }
        };
        Ok(CacheScales { tensors, scales })
    }

    /// Returns the scales of heads, as a tensor gives them.
    fn head_scales(self, scale: &Tensor, cache: &Tensor, factor: f64) -> Result<Scales> {
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
        [scale, zero]: [&Tensor; 2],
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
                check_without(zero)?;
                let needed = format!("a scale for {}", Count(channels, "channels"));
                (head_dim / channels, channels, needed)
            }
            None if is_given(zero) => {
                let needed = "a number for a head, or for each of its equal parts,".to_owned();
                let parts = given.max(1);
                (parts, head_dim / parts, needed)
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
                "{name} is {:?}, for parts of {}; heads of {} are no multiple of that",
                scale.sizes(),
                Count(channels, "channels"),
                Count(head_dim, "channels")
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
        if is_given(zero) {
            if (zero.sizes(), zero.strides()) != (scale.sizes(), scale.strides()) {
                return Err(Failure::new(format!(
                    "{} is {:?} with strides {:?}; it must lie as {name}, {:?} with strides {:?}",
                    zero.name(),
                    zero.sizes(),
                    zero.strides(),
                    scale.sizes(),
                    scale.strides()
                )));
            }
            for (tensor, other) in [(scale, cache), (zero, cache), (zero, scale)] {
                if tensor.overlaps(other) {
                    return Err(Failure::new(format!(
                        "{} and {} overlap in memory; scales and zero points in two tensors need memory of their own",
                        other.name(),
                        tensor.name()
                    )));
                }
            }
        }
        let layout = ScaleLayout { block, token, head };
        Ok(Scales::Groups(layout, channels, factor))
    }

    /// The channels of the heads of a cache; another width than whole codes is refused where the cache is made.
    pub(super) fn head_dim(self, cache: &Tensor) -> Result<usize> {
        let width = cache.sizes().last().copied().unwrap_or(0);
        let channels = match self.format()? {
            Format::Blocks(format) => (width / format.bytes).checked_mul(format.values),
            Format::Groups(groups) => width.checked_mul(groups.per_byte()),
            Format::Channels(channels) => width.checked_mul(channels.1[0]),
            _ => Some(width),
        };
        channels
            .ok_or_else(|| Failure::new(format!("{} has more channels than memory", cache.name())))
    }

    /// The cache in the memory of tensors, to be written, for heads of `head_dim` channels.
    pub(super) fn cache<'a>(
        self,
        cache: &'a mut Tensor,
        scales: &'a mut CacheScales,
        read: &[&Tensor],
        head_dim: usize,
    ) -> Result<CacheMut<'a>> {
        let CacheScales { tensors, scales } = scales;
        let place = self.place_of(cache, (&tensors[0], scales), head_dim)?;
        place.cache(cache, tensors, read)
    }

    /// The place of a cache in its tensors, for heads of `head_dim` channels.
    pub(super) fn place<'s>(
        self,
        cache: &Tensor,
        scales: &'s CacheScales,
        head_dim: usize,
    ) -> Result<CachePlace<'s>> {
        self.place_of(cache, (&scales.tensors[0], &scales.scales), head_dim)
    }

    fn place_of<'s>(
        self,
        cache: &Tensor,
        (scale, scales): (&Tensor, &'s Scales),
        head_dim: usize,
    ) -> Result<CachePlace<'s>> {
        let format = self.format()?;
        if let Format::Channels(channels) = format {
            if self.0 & HEADS_MAJOR == 0 {
                return Err(Failure::new(format!(
                    "cache_layout is \"nhd\" for {}; numbers by channel need \"hnd\"",
                    cache.name()
                )));
            }
            return channels.place(cache, head_dim);
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
        // A tensor of blocks counts bytes, and a layout counts values.
        let (values, bytes) = match format {
            Format::Blocks(format) => (format.values, format.bytes),
            Format::Groups(groups) => (groups.per_byte(), 1),
            _ => (1, 1),
        };
        let needed = head_dim / values * bytes;
        if width != needed || !head_dim.is_multiple_of(values) || (width > 1 && channel != 1) {
            return Err(Failure::new(format!(
                "{} is {:?} with a stride of {channel} in the last dimension; for heads of {} it must be {needed} contiguous \
                 {}",
                cache.name(),
                cache.sizes(),
                Count(head_dim, "channels"),
                if needed == 1 { "number" } else { "numbers" }
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
        let place = |format, memory| CachePlace {
            layout,
            format,
            memory,
        };
        match format {
            Format::Elements => with_elements!(cache, C => {
                Ok(place(CacheFormat::element::<C>(), CacheMemory::Own))
            }),
            Format::Codes(code) => {
                plain(cache)?;
                let scale_of_codes = match scales {
                    Scales::Same(same) => QuantScale::Divide((*same).into()),
                    Scales::Each(each) => QuantScale::Divide(HeadScales::Each(each)),
                    Scales::Made(made) | Scales::Groups(made, ..) => {
                        let format = |at| {
                            let least = LEAST_SCALE;
                            CacheFormat::quantized(code, QuantScale::Computed { least, at })
                        };
                        return with_scales((cache, scale), (layout, *made), 1, format);
                    }
                };
                let format = CacheFormat::quantized(code, scale_of_codes);
                Ok(place(format, CacheMemory::Own))
            }
            Format::Groups(groups) => {
                plain(cache)?;
                let Scales::Groups(made, channels, factor) = *scales else {
                    return Err(Failure::new(format!("{} has no scales", cache.name())));
                };
                match groups.has_floats() {
                    true => scale.elements::<f32>().map(|_| ())?,
                    false => plain(scale)?,
                }
                let format = |at| groups.at(at, channels, factor);
                with_scales((cache, scale), (layout, made), groups.per_byte(), format)
            }
            Format::Channels(_) => unreachable!("its place is found above"),
            Format::Blocks(format) => {
                plain(cache)?;
                Ok(place(format.into(), CacheMemory::Own))
            }
        }
    }
}

/// Refuses zero points of a format that has none in a tensor of their own.
fn check_without(zero: &Tensor) -> Result<()> {
    match is_given(zero) {
        false => Ok(()),
        true => Err(Failure::new(format!(
            "{} is given, but only the formats \"u8\", \"u8_minimum\", \"u4\" and \"u4_minimum\" have zero points in \
             a tensor of their own; leave it out",
            zero.name()
        ))),
    }
}
