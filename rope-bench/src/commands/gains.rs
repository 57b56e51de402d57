//! The gain of one call over several, or its cost over another: [`stages`], [`cache`] and [`backward`] measure it.
//!
//! The several calls are rope-core's own, so the ratio is the cost of the passes alone. Both results are first compared
//! bit for bit.

pub mod backward;
pub mod cache;
mod outputs;
#[cfg(feature = "intrinsics")]
#[allow(unsafe_code, reason = "calls the C API")]
pub mod prepared;
mod quantizers;
pub mod stages;
#[cfg(feature = "intrinsics")]
mod transform;

use std::hint::black_box;

use anyhow::{Result, ensure};
use rope_core::cache::{
    BlockFormat, CacheFormat, CacheLayout, CacheMut, ChannelCodes, GroupCodes, MxScale,
    QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::{Error, Frequencies, Rope, Rows, Scaling, TensorMut};
use rope_report::results::Pass;

use crate::cases::{Alignment, Element, Float, with_float};
use crate::measure::memory::{Memory, fill, values};
use crate::measure::{Effort, Subject, measure};

const HEAD_DIM: usize = 128;
/// Slots per block.
const BLOCK: usize = 16;
/// Slots per block of a cache with numbers by channel, which is one group.
const GROUP: usize = 32;

/// The storage format of a cache's keys, and its scales.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Plain(Element),
    Given(QuantFormat),
    Made(QuantFormat),
    Blocks(&'static BlockFormat),
    Groups(Groups),
    /// Numbers by channel, by the tokens of a group.
    Channels(ChannelCodes),
}

/// A format with a scale per group of channels.
#[derive(Clone, Copy, Debug)]
enum Groups {
    Nvfp4,
    Mxfp4,
    Mxfp8,
    Tiles,
}

impl Groups {
    fn at(self, at: ScalePlace) -> CacheFormat<'static> {
        let least = f32::MIN_POSITIVE;
        let codes = match self {
            Groups::Nvfp4 => GroupCodes::Nvfp4(1.0 / 64.0),
            Groups::Mxfp4 => GroupCodes::Mxfp4(MxScale::Floor),
            Groups::Mxfp8 => GroupCodes::Mxfp8(MxScale::Floor),
            Groups::Tiles => GroupCodes::E4m3In128(TileScale::Quotient { least }),
        };
        CacheFormat::by_group(codes, at)
    }

    /// Returns the channels per scale.
    fn values(self) -> usize {
        match self {
            Groups::Nvfp4 => 16,
            Groups::Mxfp4 | Groups::Mxfp8 => 32,
            Groups::Tiles => 128,
        }
    }
}

const BF16: Kept = Kept::Plain(Element::Bf16);
const E4M3: Kept = Kept::Given(QuantFormat::E4m3);

/// A tensor of some tokens, its rows, and the slots of its tokens in a paged cache.
struct Calls {
    rope: Rope,
    tokens: usize,
    heads: usize,
    effort: Effort,
    rows: Rows<'static>,
    slots: Vec<i64>,
    layout: CacheLayout,
    block: usize,
}

impl Calls {
    fn new(rope: Rope, shape: [usize; 2], effort: Effort) -> Result<Self> {
        Calls::in_blocks(rope, shape, effort, BLOCK)
    }

    /// Creates a tensor whose tokens are in blocks of this many slots.
    fn in_blocks(
        rope: Rope,
        [tokens, heads]: [usize; 2],
        effort: Effort,
        block_size: usize,
    ) -> Result<Self> {
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let blocks = tokens.div_ceil(block_size).next_power_of_two();
        // Blocks in a scattered order, as from an allocator of pages.
        let block = |token: usize| (token / block_size * 7 + 3) % blocks;
        let slot = |token: usize| (block(token) * block_size + token % block_size) as i64;
        Ok(Calls {
            rope,
            tokens,
            heads,
            effort,
            rows: frequencies.rows(4096..4096 + tokens as u32)?,
            slots: (0..tokens).map(slot).collect(),
            layout: CacheLayout::nhd([blocks, block_size, heads, HEAD_DIM])?,
            block: block_size,
        })
    }

    fn shape(&self) -> [usize; 4] {
        [1, self.tokens, self.heads, HEAD_DIM]
    }

    fn len(&self) -> usize {
        self.tokens * self.heads * HEAD_DIM
    }

    fn pass(&self, name: impl Into<String>, beside: &'static str, one: f64, other: f64) -> Pass {
        Pass {
            name: name.into(),
            tokens: self.tokens,
            heads: self.heads,
            beside,
            one,
            other,
            roof: None,
        }
    }

    /// Runs the subjects in alternation; returns their shortest times.
    fn measure(&self, subjects: &mut [Subject<'_>], bytes: &mut [u8]) -> Result<Vec<f64>> {
        let times = measure(subjects, bytes, self.effort)?;
        Ok(times.iter().map(|time| time.minimum).collect())
    }

    /// Measures the first subject against all others together.
    fn beside(
        &self,
        name: impl Into<String>,
        beside: &'static str,
        subjects: &mut [Subject<'_>],
        bytes: &mut [u8],
    ) -> Result<Pass> {
        let times = self.measure(subjects, bytes)?;
        Ok(self.pass(name, beside, times[0], times[1..].iter().sum()))
    }

    /// Returns a cache in these bytes.
    fn cache<'a>(
        &self,
        kept: Kept,
        bytes: &'a mut [u8],
        scales: &'a mut [f32],
    ) -> Result<CacheMut<'a>, Error> {
        let place = ScaleLayout::nh([self.block, self.heads]);
        let at = ScalePlace::Separate(place);
        let (code, scale, scales) = match kept {
            Kept::Plain(element) => {
                return with_float!(element, E =>
                    CacheMut::new::<E>(bytemuck::cast_slice_mut(bytes), self.layout));
            }
            Kept::Blocks(format) => return CacheMut::coded(bytes, self.layout, format),
            Kept::Channels(codes) => {
                let blocks = self.layout.shape().blocks;
                let layout = CacheLayout::hnd([blocks, self.heads, self.block, HEAD_DIM])?;
                return CacheMut::coded(bytes, layout, CacheFormat::by_channel(codes, self.block));
            }
            Kept::Groups(groups) => {
                let place = place.with_groups(HEAD_DIM / groups.values());
                let format = groups.at(ScalePlace::Separate(place));
                return match groups {
                    Groups::Tiles => {
                        CacheMut::coded_with_scales(bytes, self.layout, format, scales)
                    }
                    _ => {
                        let scales = bytemuck::cast_slice_mut::<_, u8>(scales);
                        CacheMut::coded_with_scales(bytes, self.layout, format, scales)
                    }
                };
            }
            Kept::Given(code) => (code, QuantScale::Multiply(0.5.into()), &mut [][..]),
            Kept::Made(code) => (code, QuantScale::Computed { least: 1e-6, at }, scales),
        };
        CacheMut::coded_with_scales(
            bytes,
            self.layout,
            CacheFormat::quantized(code, scale),
            scales,
        )
    }

    /// Returns a call with a cache in the bytes.
    fn on_cache<'a>(
        &'a self,
        kept: Kept,
        call: impl Fn(&mut CacheMut<'_>) -> Result<(), Error> + 'a,
    ) -> Subject<'a> {
        // A head of NVFP4 has 8 bytes of scales. These bytes are normal numbers in every format of scales.
        let filler = f32::from_ne_bytes([0x38; 4]);
        let mut scales = vec![filler; 2 * self.layout.shape().blocks * self.block * self.heads];
        Box::new(move |bytes, times| {
            let mut cache = self.cache(kept, bytes, &mut scales)?;
            Ok((0..times).try_for_each(|_| call(black_box(&mut cache)))?)
        })
    }
}

/// Returns a call with a tensor in the bytes.
pub(crate) fn on_tensor<'a, E: Float>(
    shape: [usize; 4],
    call: impl Fn(&mut TensorMut<'_, E>) -> Result<(), Error> + 'a,
) -> Subject<'a> {
    Box::new(move |bytes, times| {
        let elements: &mut [E] = bytemuck::cast_slice_mut(bytes);
        let mut x = TensorMut::new(&mut elements[..shape.iter().product()], shape)?;
        Ok((0..times).try_for_each(|_| call(black_box(&mut x)))?)
    })
}

/// Returns `len` random elements as bytes.
fn filled<E: Float>(memory: &mut Memory, len: usize) -> &mut [u8] {
    let bytes = memory.slice(Alignment::Line, len * size_of::<E>());
    fill(bytes, E::ELEMENT, &values(len));
    bytes
}

/// Checks that the first subject and the others together produce the same bytes.
fn agree(subjects: &mut [Subject<'_>], bytes: &mut [u8]) -> Result<()> {
    let mut memory = Memory::new(bytes.len());
    let apart = memory.slice(Alignment::Line, bytes.len());
    apart.copy_from_slice(bytes);
    let (one, others) = subjects.split_at_mut(1);
    one[0](bytes, 1)?;
    others.iter_mut().try_for_each(|other| other(apart, 1))?;
    ensure!(*bytes == *apart, "one call and several differ");
    Ok(())
}
