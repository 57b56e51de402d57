//! Slots of one cache: read, rotated in place, moved.

use rope_core::cache::{CacheParts, CachePartsMut};
use rope_core::{AnyRows, Pairing, Rope, Source, TensorMut};

use super::format::{CacheScales, RawFormat};
use super::latent::{key_channels, parts};
use super::place::{bytes, bytes_mut};
use crate::plan::Plan;
use crate::shim::{Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, integers, with_rows, with_rows_or_none};
use crate::tensor::{layout, with_elements};

/// A cache as Python describes it.
#[derive(Debug)]
pub(crate) struct RawCache {
    /// The cache, its scales, and zero points in a tensor of their own.
    pub(crate) tensors: [RawTensor; 3],
    /// The channels of the latents; 0 for a cache of heads.
    pub(crate) latent: i64,
    /// The number of a format of heads, or of latents.
    pub(crate) format: i64,
    pub(crate) factor: f64,
}

/// A cache of one of the two kinds.
#[derive(Debug)]
struct AnyCache {
    cache: Tensor,
    /// Those of heads. Latents have theirs in the cache.
    scales: CacheScales,
    kind: CacheKind,
}

#[derive(Debug)]
enum CacheKind {
    Heads(RawFormat),
    /// The number of a format, and the channels of the latents and of the keys.
    Latents(i64, [usize; 2]),
}

impl AnyCache {
    fn new(raw: RawCache, is_written: bool) -> Result<Self> {
        let [cache, scale, zero] = raw.tensors;
        let named = |tensor: RawTensor, name| match is_written {
            true => tensor.named_mut(name),
            false => tensor.named(name),
        };
        let cache = named(cache, "cache")?;
        let (scale, zero) = (named(scale, "scale")?, named(zero, "zero")?);
        let (scales, kind) = match usize::try_from(raw.latent) {
            Ok(0) => {
                let format = RawFormat(raw.format);
                let scales = format.scales([scale, zero], &cache, raw.factor)?;
                (scales, CacheKind::Heads(format))
            }
            Ok(latent) => {
                if raw.factor != 1.0
                    || !scale.sizes().is_empty()
                    || scale.elements::<f32>()? != [1.0]
                {
                    return Err(Failure::new(
                        "scale or factor is given, but latents have their scales in their records; leave both out",
                    ));
                }
                let scales = CacheScales::without([scale, zero])?;
                let key = key_channels(&cache, raw.format, latent);
                (scales, CacheKind::Latents(raw.format, [latent, key]))
            }
            Err(_) => {
                return Err(Failure::new(format!(
                    "latent is {}; it must be the channels of a latent, or 0 for a cache of heads",
                    raw.latent
                )));
            }
        };
        Ok(AnyCache {
            cache,
            scales,
            kind,
        })
    }

    /// Returns the tensors that calls write: the cache, and those of scales that a call computes.
    fn written(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.cache).chain(self.scales.kept())
    }

    fn count_write(&self) -> Result<()> {
        self.written().try_for_each(Tensor::count_write)
    }

    /// The rotation of a plan, of the channels of this cache that rotate.
    fn rope(&self, plan: &Plan) -> Rope {
        match &self.kind {
            CacheKind::Heads(_) => plan.rope(),
            CacheKind::Latents(_, [latent, _]) => plan.rope().with_window(*latent),
        }
    }
}

/// `rope_kernels::read_cache`
pub(crate) fn read_cache(
    cache: RawCache,
    slots: RawTensor,
    out: RawTensor,
    rows: RawRows,
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    plan.check_rounded_once()?;
    let mut out = out.named_mut("out")?;
    let slots = integers(&slots.named("slots")?)?;
    let any = AnyCache::new(cache, false)?;
    let (rope, place) = (any.rope(&plan), layout(&out, &plan)?);
    let (cache, scales) = (&any.cache, &any.scales);
    with_rows_or_none(rows, &plan, &[out.memory()], |rows| {
        with_elements!(out, E => {
            match &any.kind {
                CacheKind::Heads(format) => {
                    let [scale, zero] = &scales.tensors;
                    let y = out.elements_mut::<E>([cache, scale, zero])?;
                    let read_from = format.place(cache, scales, format.head_dim(cache)?)?;
                    let source = read_from.read(cache, &scales.tensors)?;
                    read(&rope, &source.slots(&slots), &mut TensorMut::new(y, place)?, rows)
                }
                CacheKind::Latents(format, widths) => {
                    let y = out.elements_mut::<E>([cache])?;
                    let parts = CacheParts::new(bytes(cache)?, parts(cache, *format, *widths)?)?;
                    read(&rope, &parts.slots(&slots), &mut TensorMut::new(y, place)?, rows)
                }
            }
        })
    })?;
    out.count_write()
}

fn read<E: rope_core::Element>(
    rope: &Rope,
    source: &impl Source,
    y: &mut TensorMut<'_, E>,
    rows: Option<&AnyRows<'_>>,
) -> Result<()> {
    match rows {
        Some(rows) => rope.rotate_into(source, y, rows)?,
        None => Rope::new(Pairing::Half).apply_into(source, y)?,
    }
    Ok(())
}

/// `rope_kernels::rotate_cache_`
pub(crate) fn rotate_cache_in_place(
    cache: RawCache,
    slots: RawTensor,
    rows: RawRows,
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    plan.check_rounded_once()?;
    let mut any = AnyCache::new(cache, true)?;
    let slots = integers(&slots.named("slots")?)?;
    let rope = any.rope(&plan);
    let written: Vec<_> = any.written().map(Tensor::memory).collect();
    with_rows(rows, &plan, 1.0, &written, |_, rows| {
        let (cache, scales) = (&mut any.cache, &mut any.scales);
        match &any.kind {
            CacheKind::Heads(format) => {
                let head_dim = format.head_dim(cache)?;
                let mut cache = format.cache(cache, scales, &[], head_dim)?;
                rope.rotate(&mut cache.slots(&slots), rows)?;
            }
            CacheKind::Latents(format, widths) => {
                let parts = parts(cache, *format, *widths)?;
                let mut cache = CachePartsMut::new(bytes_mut(cache, [])?, parts)?;
                rope.rotate(&mut cache.slots(&slots), rows)?;
            }
        }
        Ok(())
    })?;
    any.count_write()
}

/// `rope_kernels::move_slots`
pub(crate) fn move_slots(cache: RawCache, [from, to]: [RawTensor; 2]) -> Result<()> {
    let mut any = AnyCache::new(cache, true)?;
    let from = integers(&from.named("from_slots")?)?;
    let to = integers(&to.named("to_slots")?)?;
    let (cache, scales) = (&mut any.cache, &mut any.scales);
    match &any.kind {
        CacheKind::Heads(format) => {
            let head_dim = format.head_dim(cache)?;
            let mut cache = format.cache(cache, scales, &[], head_dim)?;
            cache.move_slots(&from, &to)?;
        }
        CacheKind::Latents(format, widths) => {
            let parts = parts(cache, *format, *widths)?;
            CachePartsMut::new(bytes_mut(cache, [])?, parts)?.move_slots(&from, &to)?;
        }
    }
    any.count_write()
}
