//! Keys, normed and rotated, and values, written into the slots of a paged cache in one call.

mod format;
mod latent;
mod place;
mod slots;

use rope_core::{NoRotation, Pairing, Rope};

use crate::norms::RawNorm;
use crate::plan::Plan;
use crate::shim::{Failure, RawTensor, Result, Tensor};
use crate::tables::{RawRows, integers, with_rows};
use crate::tensor::{extents, layout, with_adjacent_channels, with_elements};

pub(crate) use format::RawFormat;
pub(crate) use latent::rotate_into_latent_cache;
pub(crate) use slots::{RawCache, move_slots, read_cache, rotate_cache_in_place};

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
    ([key_cache, value_cache], [key_scale, value_scale, key_zero, value_zero]): (
        [RawTensor; 2],
        [RawTensor; 4],
    ),
    slots: RawTensor,
    (weight, norm): (RawTensor, RawNorm),
    (format, factors): (RawFormat, [f64; 2]),
    plan: i64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut key_cache = key_cache.named_mut("key_cache")?;
    let mut value_cache = value_cache.named_mut("value_cache")?;
    let key_scale = key_scale.named_mut("key_scale")?;
    let value_scale = value_scale.named_mut("value_scale")?;
    let key_zero = key_zero.named_mut("key_zero")?;
    let value_zero = value_zero.named_mut("value_zero")?;
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
    plan.check_rounded_once()?;
    let mut of_keys = format.scales([key_scale, key_zero], &key_cache, factors[0])?;
    let mut of_values = format.scales([value_scale, value_zero], &value_cache, factors[1])?;
    let written: Vec<_> = [&key_cache, &value_cache]
        .into_iter()
        .chain(of_keys.kept())
        .chain(of_values.kept())
        .collect();
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
    let rope = norm.rope(&plan, &weight)?;
    let unchanged = Rope::new(Pairing::Half);
    let is_shared = written.iter().any(|one| {
        let others = written.iter().filter(|other| other.name() > one.name());
        let mut others = others.filter(|other| !is_scale_of(other, one));
        others.any(|other| one.overlaps(other))
    });
    let written: Vec<_> = written.iter().map(|tensor| tensor.memory()).collect();
    with_rows(rows, &plan, 1.0, &written, |_, rows| {
        let (k_shape, v_shape) = (extents(&k, &plan)?, extents(&v, &plan)?);
        let read = [&k, &v];
        with_elements!(k, E => {
            let x = rope_core::Tensor::new(k.elements::<E>()?, layout(&k, &plan)?)?;
            let y = rope_core::Tensor::new(v.elements::<E>()?, layout(&v, &plan)?)?;
            if is_shared {
                // Slices of two caches in one page do not exist together: the values are checked, the keys written.
                let mut values = format.cache(&mut value_cache, &mut of_values, &read, v_shape[3])?;
                let _ = unchanged.prepare_into(&y, &mut values.slots(&slots), &NoRotation)?;
                let mut keys = format.cache(&mut key_cache, &mut of_keys, &read, k_shape[3])?;
                rope.rotate_into(&x, &mut keys.slots(&slots), rows)?;
                let mut values = format.cache(&mut value_cache, &mut of_values, &read, v_shape[3])?;
                return Ok(unchanged.apply_into(&y, &mut values.slots(&slots))?);
            }
            let mut keys = format.cache(&mut key_cache, &mut of_keys, &read, k_shape[3])?;
            let mut values = format.cache(&mut value_cache, &mut of_values, &read, v_shape[3])?;
            let (mut keys, mut values) = (keys.slots(&slots), values.slots(&slots));
            let write_keys = rope.prepare_into(&x, &mut keys, rows)?;
            let write_values = unchanged.prepare_into(&y, &mut values, &NoRotation)?;
            write_keys.run();
            write_values.run();
            Ok(())
        })
    })?;
    let mut written = [&key_cache, &value_cache]
        .into_iter()
        .chain(of_keys.kept())
        .chain(of_values.kept());
    written.try_for_each(Tensor::count_write)
}
