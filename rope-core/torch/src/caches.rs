//! Keys, normed and rotated, and values, written into the slots of a paged cache in one call.

use rope_core::cache::{
    BlockFormat, CacheLayout, CacheMut, CacheShape, CacheStrides, QuantFormat, QuantScale,
};
use rope_core::stages::Stages;
use rope_core::{Rope, Rows};

use crate::norms::RawNorm;
use crate::plan::Plan;
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, integers, with_rows};
use crate::tensor::{extents, layout, with_adjacent_channels, with_elements};

/// What a cache keeps.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// Elements of the type of its tensor.
    Elements,
    Codes(QuantFormat),
    Blocks(&'static BlockFormat),
}

/// By their numbers in `rope_kernels.rotate_into_caches`.
const FORMATS: [Format; 5] = [
    Format::Elements,
    Format::Codes(QuantFormat::E4m3),
    Format::Codes(QuantFormat::Int8Even),
    Format::Blocks(BlockFormat::Q8_0),
    Format::Blocks(BlockFormat::Q4_0),
];
/// `[blocks, heads, block_size, head_dim]`, and not `[blocks, block_size, heads, head_dim]`.
const HEADS_MAJOR: i64 = 16;

/// The number of a format, and the scales of K and V.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFormat {
    pub(crate) format: i64,
    pub(crate) scales: [f64; 2],
}

impl RawFormat {
    fn format(self) -> Result<Format> {
        let index = usize::try_from(self.format & !HEADS_MAJOR).ok();
        let format = index.and_then(|index| FORMATS.get(index)).copied();
        format.ok_or_else(|| {
            Failure::new(format!(
                "format is {}; it must be one of rope_kernels.rotate_into_caches",
                self.format
            ))
        })
    }

    /// The cache in a tensor's memory, for heads of `head_dim` channels.
    fn cache<'a>(
        self,
        cache: &'a mut Tensor,
        read: &[&Tensor],
        head_dim: usize,
        scale: f64,
    ) -> Result<CacheMut<'a>> {
        let format = self.format()?;
        let (&[blocks, second, third, width], &[block, of_second, of_third, channel]) =
            (cache.sizes(), cache.strides())
        else {
            return Err(Failure::new(format!(
                "{} is {:?}; it must have four dimensions: blocks, slots of a block, heads, channels",
                cache.name(),
                cache.sizes()
            )));
        };
        let (block_size, heads, token, head) = match self.format & HEADS_MAJOR {
            0 => (second, third, of_second, of_third),
            _ => (third, second, of_third, of_second),
        };
        // Of blocks the tensor has bytes, and a layout values.
        let (values, bytes) = match format {
            Format::Blocks(format) => (format.values(), format.bytes()),
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
        let mut strides = [block, token, head];
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
        let [block, token, head] = strides;
        let layout = CacheLayout::strided(
            CacheShape {
                blocks,
                block_size,
                heads,
                head_dim,
            },
            CacheStrides {
                block,
                group: block_size.max(1),
                group_stride: 0,
                token,
                head,
                chunk: head_dim.max(1),
                chunk_stride: 0,
                channel: 1,
            },
        )?;
        let plain = |cache: &Tensor| match cache.dtype() {
            Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E4m3 => Ok(()),
            other => Err(Failure::new(format!(
                "{} is {other:?}; codes and blocks need uint8, int8 or float8_e4m3fn",
                cache.name()
            ))),
        };
        match format {
            Format::Elements => with_elements!(cache, C => {
                Ok(CacheMut::new(cache.elements_mut::<C>(read)?, layout)?)
            }),
            Format::Codes(code) => {
                plain(cache)?;
                let scale = QuantScale::Divide((scale as f32).into());
                Ok(CacheMut::quantized(
                    cache.elements_mut::<u8>(read)?,
                    layout,
                    code,
                    scale,
                    &mut [],
                )?)
            }
            Format::Blocks(format) => {
                plain(cache)?;
                Ok(CacheMut::blocks(
                    cache.elements_mut::<u8>(read)?,
                    layout,
                    format,
                )?)
            }
        }
    }
}

/// `rope_kernels::rotate_into_caches`
pub(crate) fn rotate_into_caches(
    [k, v]: [RawTensor; 2],
    rows: RawRows,
    [key_cache, value_cache]: [RawTensor; 2],
    slots: RawTensor,
    (weight, norm): (RawTensor, RawNorm),
    format: RawFormat,
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut key_cache = key_cache.named_mut("key_cache")?;
    let mut value_cache = value_cache.named_mut("value_cache")?;
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
    RawNorm::check_apart(&weight, &[&key_cache, &value_cache])?;
    if key_cache.overlaps(&value_cache) {
        return Err(Failure::new(
            "key_cache and value_cache overlap in memory; keep them in tensors of their own, or one after the other",
        ));
    }
    let written = [key_cache.memory(), value_cache.memory()];
    with_rows(rows, &plan, 1.0, &written, |_, rows| {
        let (k_shape, v_shape) = (extents(&k, &plan)?, extents(&v, &plan)?);
        let [key_scale, value_scale] = format.scales;
        let mut keys = format.cache(&mut key_cache, &[&k, &v], k_shape[3], key_scale)?;
        let mut values = format.cache(&mut value_cache, &[&k, &v], v_shape[3], value_scale)?;
        let mut caches = [&mut keys, &mut values];
        let tensors = [&k, &v];
        match norm.formula {
            -1 => write(&plan.rope(), tensors, &plan, &mut caches, &slots, rows),
            _ => write(
                &plan.rope().norm(norm.with(&weight)?),
                tensors,
                &plan,
                &mut caches,
                &slots,
                rows,
            ),
        }
    })
}

fn write<S: Stages>(
    rope: &Rope<S>,
    [k, v]: [&Tensor; 2],
    plan: &Plan,
    [keys, values]: &mut [&mut CacheMut<'_>; 2],
    slots: &[i64],
    rows: &Rows<'_>,
) -> Result<()> {
    with_elements!(k, E => {
        let k = rope_core::Tensor::new(k.elements::<E>()?, layout(k, plan)?)?;
        let v = rope_core::Tensor::new(v.elements::<E>()?, layout(v, plan)?)?;
        Ok(rope.rotate_into_caches((&k, keys), (&v, values), slots, rows)?)
    })
}
