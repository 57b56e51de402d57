//! A cache in the memory of tensors: where its heads lie, and which tensor has its bytes.

use rope_core::cache::{
    Cache, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides, ScaleLayout, ScalePlace,
};

use crate::shim::{Dtype, Failure, Result, Tensor};
use crate::tensor::with_elements;

/// A cache as it lies in its tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachePlace<'s> {
    pub(super) layout: CacheLayout,
    pub(super) format: CacheFormat<'s>,
    pub(super) memory: CacheMemory,
}

/// The tensors that have the bytes of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) enum CacheMemory {
    /// That of the cache.
    Own,
    /// That of the cache, and another that has its scales.
    Apart,
    /// Both, of one storage: the scales lie between the codes.
    Shared,
}

impl<'s> CachePlace<'s> {
    /// The cache, to be written while slices of all of `read` exist.
    pub(super) fn cache<'a>(
        self,
        cache: &'a mut Tensor,
        [scale, zero]: &'a mut [Tensor; 2],
        read: &[&Tensor],
    ) -> Result<CacheMut<'a>>
    where
        's: 'a,
    {
        let (layout, format, read) = (self.layout, self.format, read.iter().copied());
        Ok(match (self.memory, scale.dtype()) {
            (CacheMemory::Own, _) => CacheMut::coded(bytes_mut(cache, read)?, layout, format)?,
            (CacheMemory::Apart, Dtype::Float32) => {
                let memory = bytes_mut(cache, read.clone())?;
                let scales = scale.elements_mut::<f32>(read.clone())?;
                match is_given(zero) {
                    true => {
                        let lists = [scales, zero.elements_mut::<f32>(read)?];
                        CacheMut::coded_with_scales(memory, layout, format, lists)?
                    }
                    false => CacheMut::coded_with_scales(memory, layout, format, scales)?,
                }
            }
            (CacheMemory::Apart, _) => {
                let scales = scale.elements_mut::<u8>(read.clone())?;
                CacheMut::coded_with_scales(bytes_mut(cache, read)?, layout, format, scales)?
            }
            (CacheMemory::Shared, _) => {
                CacheMut::coded(cache.bytes_with_mut(scale, read)?, layout, format)?
            }
        })
    }

    /// The cache, to be read.
    pub(super) fn read<'a>(
        self,
        cache: &'a Tensor,
        [scale, zero]: &'a [Tensor; 2],
    ) -> Result<Cache<'a>>
    where
        's: 'a,
    {
        let (layout, format) = (self.layout, self.format);
        Ok(match (self.memory, scale.dtype()) {
            (CacheMemory::Own, _) => Cache::coded(bytes(cache)?, layout, format)?,
            (CacheMemory::Apart, Dtype::Float32) => {
                let scales = scale.elements::<f32>()?;
                match is_given(zero) {
                    true => {
                        let lists = [scales, zero.elements::<f32>()?];
                        Cache::coded_with_scales(bytes(cache)?, layout, format, lists)?
                    }
                    false => Cache::coded_with_scales(bytes(cache)?, layout, format, scales)?,
                }
            }
            (CacheMemory::Apart, _) => {
                let scales = scale.elements::<u8>()?;
                Cache::coded_with_scales(bytes(cache)?, layout, format, scales)?
            }
            (CacheMemory::Shared, _) => Cache::coded(cache.bytes_with(scale)?, layout, format)?,
        })
    }
}

/// Returns true if zero points have a tensor of their own.
pub(super) fn is_given(zero: &Tensor) -> bool {
    zero.sizes() != [0]
}

/// The bytes of a tensor of elements or of codes.
pub(super) fn bytes(cache: &Tensor) -> Result<&[u8]> {
    match cache.dtype() {
        Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E4m3 => cache.elements::<u8>(),
        _ => with_elements!(cache, C => Ok(bytemuck::cast_slice(cache.elements::<C>()?))),
    }
}

/// The same to be written, while slices of all of `read` may exist.
pub(super) fn bytes_mut<'a, 't>(
    cache: &'a mut Tensor,
    read: impl IntoIterator<Item = &'t Tensor>,
) -> Result<&'a mut [u8]> {
    match cache.dtype() {
        Dtype::Uint8 | Dtype::Int8 | Dtype::Float8E4m3 => cache.elements_mut::<u8>(read),
        _ => with_elements!(cache, C => {
            Ok(bytemuck::cast_slice_mut(cache.elements_mut::<C>(read)?))
        }),
    }
}

/// A cache whose channels are contiguous, with the strides of its blocks, slots and heads.
pub(super) fn strided(shape: CacheShape, [block, token, head]: [usize; 3]) -> Result<CacheLayout> {
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

/// The place of a cache with computed scales: in a tensor of their own, or between its codes, as those of a page after
/// all codes of the page.
pub(super) fn with_scales(
    (cache, scale): (&Tensor, &Tensor),
    (layout, place): (CacheLayout, ScaleLayout),
    per_byte: usize,
    format: impl FnOnce(ScalePlace) -> CacheFormat<'static>,
) -> Result<CachePlace<'static>> {
    if !cache.overlaps(scale) {
        return Ok(CachePlace {
            layout,
            format: format(ScalePlace::Separate(place)),
            memory: CacheMemory::Apart,
        });
    }
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
    Ok(CachePlace {
        layout: layout.with_offset(codes.saturating_mul(per_byte))?,
        format: format(ScalePlace::InBlock { first, strides }),
        memory: CacheMemory::Shared,
    })
}
