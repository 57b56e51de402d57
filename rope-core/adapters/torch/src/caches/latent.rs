//! Caches of latents and keys, whose slots have a part for each.

use rope_core::cache::{
    CacheFormat, CacheLayout, CachePartsMut, CacheShape, GroupCodes, ScaleLayout, ScalePlace,
    TileScale,
};

use super::format::E8M0;
use super::place::{bytes_mut, strided};
use crate::norms::RawNorm;
use crate::plan::Plan;
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, integers, with_rows};
use crate::tensor::{extents, layout, with_adjacent_channels, with_elements};

/// `rope_kernels::rotate_into_latent_cache`
pub(crate) fn rotate_into_latent_cache(
    [latent, key]: [RawTensor; 2],
    rows: RawRows,
    (cache, slots): (RawTensor, RawTensor),
    (weight, norm): (RawTensor, RawNorm),
    (format, plan): (i64, i64),
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut cache = cache.named_mut("cache")?;
    let latent = with_adjacent_channels(latent.named("latent")?)?;
    let key = with_adjacent_channels(key.named("key")?)?;
    let (slots, weight) = (integers(&slots.named("slots")?)?, weight.named("weight")?);
    if latent.dtype() != key.dtype() {
        return Err(Failure::new(format!(
            "latent is {:?}, but key is {:?}; they must have one type",
            latent.dtype(),
            key.dtype()
        )));
    }
    plan.check_rounded_once()?;
    let widths = [extents(&latent, &plan)?[3], extents(&key, &plan)?[3]];
    RawNorm::check_apart(&weight, &[&cache])?;
    let rope = norm.rope(&plan, &weight)?.with_window(widths[0]);
    with_rows(rows, &plan, 1.0, &[cache.memory()], |_, rows| {
        let parts = parts(&cache, format, widths)?;
        let mut cache = CachePartsMut::new(bytes_mut(&mut cache, [&latent, &key])?, parts)?;
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

/// A part of a slot: where it lies, and its format.
type SlotPart = (CacheLayout, CacheFormat<'static>);

/// The parts of a cache of latents and keys, by the number of its format.
pub(super) fn parts(cache: &Tensor, format: i64, widths: [usize; 2]) -> Result<[SlotPart; 2]> {
    match format {
        0 => records(cache, widths),
        1 => records_of_v4(cache, widths),
        _ => Err(Failure::new(format!(
            "format is {format}; it must be one of rope_kernels.rotate_into_latent_cache"
        ))),
    }
}

/// The channels of the keys of a cache, beside latents of `latent` channels. Another width than that of whole slots is
/// refused where the parts are found.
pub(super) fn key_channels(cache: &Tensor, format: i64, latent: usize) -> usize {
    let width = cache.sizes().last().copied().unwrap_or(0);
    let (scales, size) = match (format, cache.dtype()) {
        (1, _) => ((latent / 64).next_multiple_of(8), 2),
        (_, Dtype::Uint8) => (latent / 128 * 4, 2),
        _ => (0, 1),
    };
    width.saturating_sub(latent).saturating_sub(scales) / size
}

/// DeepSeek-V4's records. A page has the codes and the keys of all slots, and then their scales: a
/// byte for 64 channels, in multiples of 8 bytes.
fn records_of_v4(cache: &Tensor, [latent, key]: [usize; 2]) -> Result<[SlotPart; 2]> {
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
    Ok([
        (
            part(0, latent, 1)?,
            CacheFormat::by_group(GroupCodes::E4m3In64(E8M0), at),
        ),
        (part(latent, key, 2)?, key_format),
    ])
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

/// Elements, or DeepSeek's records in bytes.
fn records(cache: &Tensor, [latent, key]: [usize; 2]) -> Result<[SlotPart; 2]> {
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
    let [of_latent, of_key] = match is_coded {
        true => {
            let scale = TileScale::Quotient {
                least: f32::MIN_POSITIVE,
            };
            let codes =
                CacheFormat::by_group(GroupCodes::E4m3In128(scale), ScalePlace::Inline(latent));
            [codes, CacheFormat::element::<rope_core::half::bf16>()]
        }
        false => with_elements!(cache, C => Ok([CacheFormat::element::<C>(); 2]))?,
    };
    Ok([(layouts[0], of_latent), (layouts[1], of_key)])
}
