//! The chain, and the verbs that take one.

use rope_core::stages::{LinearStages, WithStages};
use rope_core::{NoRotation, Pairing, Rope};

use crate::cache::{Names, rope_cache};
use crate::failure::Failure;
use crate::hadamard::rope_hadamard;
use crate::memory::{Region, SpanMut, plain, read};
use crate::norm::rope_norm;
use crate::plan::rope_plan;
use crate::rotate::with_element;
use crate::rows::{rope_rows, with_rows};
use crate::scale::rope_scale;
use crate::slots::rope_slots;
use crate::status::{rope_status, status_of};
use crate::tensor::{rope_tensor, rope_tensor_mut};

/// A plan with more stages than the rotation, all that stands between a projection and the attention:
///
/// read -> norm -> scale -> rotate -> norm -> scale -> transform -> write
///
/// The norm and the scale stand on either side; the Hadamard transform is the last stage, and the first one of what is
/// read from a cache, which it undoes. Between the stages a value is a float; a norm, a scale and the chain say where
/// it is rounded to the element of what is read. A head has at most 2048 channels. The bits are the same on every
/// backend.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_chain {
    /// The rotation.
    pub plan: rope_plan,
    /// The norm; NULL: none.
    pub norm: *const rope_norm,
    /// The scale; NULL: none.
    pub scale: *const rope_scale,
    /// Other than 0: what follows the rotation (a norm, a scale, a transform, a quantized format) takes its float as it
    /// is. Otherwise that is rounded to the element of what is read first, which gives the bits of separate passes.
    pub without_rounding: i32,
    /// The Hadamard transform; zeros: none.
    pub hadamard: rope_hadamard,
}
plain!(rope_chain);

impl rope_chain {
    /// The chain but for its norm, and the bytes that are read for it.
    ///
    /// # Safety
    ///
    /// `scale` is null or points to what it says, which nobody writes during `'a`.
    unsafe fn without_norm<'a>(&self) -> Result<(Rope<LinearStages<'a>>, Region), Failure> {
        let mut chain = Rope::<LinearStages<'_>>::from(self.plan.rope()?);
        let mut region = Region::bytes("factors", 0, 0);
        if !self.scale.is_null() {
            // SAFETY: the caller promises it.
            let (scale, factors) = unsafe { read("scale", self.scale)?.scale() }?;
            chain = chain.scale(scale);
            region = factors;
        }
        if let Some(hadamard) = self.hadamard.hadamard()? {
            chain = chain.hadamard(hadamard);
        }
        if self.without_rounding != 0 {
            chain = chain.without_rounding();
        }
        Ok((chain, region))
    }

    /// The chain, if it has no norm.
    ///
    /// # Safety
    ///
    /// As [`rope_chain::without_norm`].
    pub(crate) unsafe fn linear<'a>(&self) -> Result<(Rope<LinearStages<'a>>, Region), Failure> {
        if !self.norm.is_null() {
            return Err(Failure::NotLinear);
        }
        // SAFETY: the caller promises it.
        unsafe { self.without_norm() }
    }
}

/// The caller's chain, and the bytes that are read for it.
///
/// # Safety
///
/// Each pointer is null or points to what it says, which nobody writes during `'a`.
#[inline(never)]
pub(crate) unsafe fn chain<'a>(
    chain: *const rope_chain,
) -> Result<(Rope<WithStages<'a>>, [Region; 4]), Failure> {
    // SAFETY: the caller promises it.
    let given = unsafe { read("chain", chain) }?;
    // SAFETY: the same.
    let (linear, factors) = unsafe { given.without_norm() }?;
    let mut chain = Rope::<WithStages<'_>>::from(linear);
    let mut regions = [Region::bytes("norm", 0, 0); 4];
    regions[3] = factors;
    if !given.norm.is_null() {
        // SAFETY: the caller promises it.
        let (norm, [weight, bias, sums]) = unsafe { read("norm", given.norm)?.norm() }?;
        chain = chain.norm(norm);
        [regions[0], regions[1], regions[2]] = [weight, bias, sums];
    }
    Ok((chain, regions))
}

/// Runs a chain in place.
///
/// Returns ROPE_STATUS_HEAD_DIM_ON_STACK for heads of more than 2048 channels; ROPE_STATUS_PARAMETER,
/// ROPE_STATUS_COUNT, ROPE_STATUS_WEIGHT_MISSING, ROPE_STATUS_WEIGHT_UNUSED and ROPE_STATUS_CENTERED_SUMS for a norm or
/// a scale that does not fit; ROPE_STATUS_HADAMARD_BLOCK and ROPE_STATUS_HADAMARD_HEAD for a transform that does not;
/// and what rope_rotate returns. The tensor is untouched then.
///
/// # Threads
///
/// As rope_rotate.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate(
    chain: *const rope_chain,
    x: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `x` becomes a slice only apart from what the chain and the rows are
        // read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let x = read("x", x)?;
            with_rows(rows, &mut |rows, regions| {
                with_element!(x.element, E => {
                    let mut x = x.tensor::<E>("x", &[&used, &regions])?;
                    Ok(chain.rotate(&mut x, rows)?)
                })
            })
        }
    })
}

/// Runs a chain in place without its rotation: queries and keys of layers that norm and do not rotate; heads of an
/// attention's output, whose Hadamard transform is undone so.
///
/// Returns what rope_chain_rotate returns, but for the rows.
///
/// # Threads
///
/// As rope_rotate.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_run_stages(
    chain: *const rope_chain,
    x: *const rope_tensor_mut,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `x` becomes a slice only apart from what the chain is read from (see
        // `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let x = read("x", x)?;
            with_element!(x.element, E => {
                Ok(chain.apply(&mut x.tensor::<E>("x", &[&used])?)?)
            })
        }
    })
}

const IN_PLACE: &str = "they must be disjoint; rope_chain_rotate works in place";

/// Runs a chain from one tensor into another, whose element and pairing may differ.
///
/// The two must not share memory, from the first element to the last of each.
///
/// Returns what rope_rotate_into and rope_chain_rotate return. The target is untouched then.
///
/// # Threads
///
/// As rope_rotate_into.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate_into(
    chain: *const rope_chain,
    x: *const rope_tensor,
    y: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `y` becomes a slice only apart from `x` and from what the chain and
        // the rows are read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (x, y) = (read("x", x)?, read("y", y)?);
            let source = [x.region("x")?];
            with_rows(rows, &mut |rows, regions| {
                with_element!(y.element, O => {
                    let mut y = y
                        .tensor::<O>("y", &[&used, &source, &regions])
                        .map_err(|refused| refused.between(["y", "x"], IN_PLACE))?;
                    with_element!(x.element, I => {
                        Ok(chain.rotate_into(&x.tensor::<I>("x")?, &mut y, rows)?)
                    })
                })
            })
        }
    })
}

/// Writes the sums of squares that the norm of a chain takes of a tensor: one for each token of each sequence where it
/// is over the row, one for each head of those where it is over heads. Ranks that have some heads each add theirs up,
/// and give them to the `sums` of a rope_norm.
///
/// Returns ROPE_STATUS_NULL for a chain without a norm, ROPE_STATUS_STORAGE unless `len` is their number,
/// ROPE_STATUS_CENTERED_SUMS for a norm that is centered, ROPE_STATUS_HEAD_DIM_ON_STACK, and what rope_chain_rotate
/// returns but for the rows. Nothing is written then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the sums meanwhile; others may read the tensor.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_squares(
    chain: *const rope_chain,
    x: *const rope_tensor,
    sums: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The sums become a slice only apart from `x` and from what the chain is
        // read from (see `memory`).
        unsafe {
            let (_, used) = self::chain(chain)?;
            let given = read("chain", chain)?;
            let (norm, _) = read("norm", given.norm)?.norm()?;
            let rope = given.plan.rope()?;
            let x = read("x", x)?;
            let sums = SpanMut::new("sums", sums, len)?;
            sums.region().apart_from(&used)?;
            let sums = sums.get(&[x.region("x")?])?;
            with_element!(x.element, E => {
                Ok(rope.sum_of_squares(norm, &x.tensor::<E>("x")?, sums)?)
            })
        }
    })
}

/// Runs a chain from a tensor into the slots of a cache, one slot for each token of each sequence: keys as they are
/// projected, into a cache that may be paged and of another element or code.
///
/// A token with a negative slot is left out. Of two tokens with one slot the later one stays. The memory of the cache,
/// all of it, must be apart from what is read.
///
/// Returns ROPE_STATUS_CACHE_HEADS if the cache has other heads; ROPE_STATUS_SLOT_COUNT unless there is one slot for
/// each token of each sequence; ROPE_STATUS_SLOT, ROPE_STATUS_SLOT_OFFSET and ROPE_STATUS_PAGE_POSITION for one that
/// the cache, or its sequence, does not have; ROPE_STATUS_NEGATIVE_PAGE; ROPE_STATUS_OFFSETS for packed sequences whose
/// tokens do not follow one another; ROPE_STATUS_CACHE_LAYOUT and ROPE_STATUS_OUT_OF_BOUNDS for a layout that
/// makes no cache, or not one of this memory; ROPE_STATUS_STORAGE for too few scales; ROPE_STATUS_COUNT and
/// ROPE_STATUS_PARAMETER for scales that are given; and what rope_chain_rotate returns. The cache is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the cache's memory and scales meanwhile; others may read the
/// source, the slots and the rows.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate_into_cache(
    chain: *const rope_chain,
    x: *const rope_tensor,
    cache: *const rope_cache,
    slots: *const rope_slots,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The cache and its scales become slices only apart from one another,
        // from `x`, from the slots and from what the chain and the rows are read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (x, cache) = (read("x", x)?, read("cache", cache)?);
            let (slots, listed) = read("slots", slots)?.slots()?;
            let source = [x.region("x")?];
            with_rows(rows, &mut |rows, regions| {
                let (mut cache, _) =
                    cache.writable(Names::CACHE, &[&source, &used, &listed, &regions])?;
                with_element!(x.element, E => {
                    let x = x.tensor::<E>("x")?;
                    Ok(chain.rotate_into(&x, &mut cache.slots(slots), rows)?)
                })
            })
        }
    })
}

/// As rope_chain_rotate_into_cache without the rotation: values, which are converted and written (and normed, in some
/// models).
///
/// Returns what rope_chain_rotate_into_cache returns, but for the rows.
///
/// # Threads
///
/// As rope_chain_rotate_into_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_copy_into_cache(
    chain: *const rope_chain,
    x: *const rope_tensor,
    cache: *const rope_cache,
    slots: *const rope_slots,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The cache and its scales become slices only apart from one another,
        // from `x`, from the slots and from what the chain is read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (x, cache) = (read("x", x)?, read("cache", cache)?);
            let (slots, listed) = read("slots", slots)?.slots()?;
            let source = [x.region("x")?];
            let (mut cache, _) = cache.writable(Names::CACHE, &[&source, &used, &listed])?;
            with_element!(x.element, E => {
                Ok(chain.apply_into(&x.tensor::<E>("x")?, &mut cache.slots(slots))?)
            })
        }
    })
}

const ONE_EACH: &str = "they must be disjoint; of caches between one another, rope_chain_rotate_into_cache and \
    rope_chain_copy_into_cache take one each";

/// Writes keys and values of the same tokens into the same slots: keys through the chain, values converted alone. All
/// is checked before either cache is written.
///
/// The two caches must not share memory, from the first byte to the last of each. Caches that lie between one another
/// take rope_chain_rotate_into_cache and rope_chain_copy_into_cache.
///
/// Returns what rope_chain_rotate_into_cache returns for either.
///
/// # Threads
///
/// As rope_chain_rotate_into_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate_into_caches(
    chain: *const rope_chain,
    k: *const rope_tensor,
    keys: *const rope_cache,
    v: *const rope_tensor,
    values: *const rope_cache,
    slots: *const rope_slots,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it.
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (k, keys) = (read("k", k)?, read("keys", keys)?);
            let (v, values) = (read("v", v)?, read("values", values)?);
            let (slots, listed) = read("slots", slots)?.slots()?;
            let sources = [k.region("k")?, v.region("v")?, values.given(Names::VALUES)?];
            // The slices of both caches exist at the same time: the second is made only if it is apart from the first.
            with_rows(rows, &mut |rows, regions| {
                let read: [&[Region]; 4] = [&sources, &used, &listed, &regions];
                let (mut keys, taken) = keys.writable(Names::KEYS, &read)?;
                let read: [&[Region]; 5] = [&taken, &sources, &used, &listed, &regions];
                let names = [Names::VALUES.memory, Names::KEYS.memory];
                let (mut values, _) = values
                    .writable(Names::VALUES, &read)
                    .map_err(|refused| refused.between(names, ONE_EACH))?;
                with_element!(k.element, K => {
                    let k = k.tensor::<K>("k")?;
                    with_element!(v.element, V => {
                        let v = v.tensor::<V>("v")?;
                        let (mut keys, mut values) = (keys.slots(slots), values.slots(slots));
                        let unchanged = Rope::new(Pairing::Half);
                        let write_keys = chain.prepare_into(&k, &mut keys, rows)?;
                        let write_values = unchanged.prepare_into(&v, &mut values, &NoRotation)?;
                        write_keys.run();
                        write_values.run();
                        Ok(())
                    })
                })
            })
        }
    })
}

/// Runs a chain from a cache into a tensor, one slot for each token of each sequence: keys that were cached before
/// their rotation. What is read is a float, so that nothing between the stages is rounded. A token with a negative slot
/// is left out.
///
/// Returns what rope_chain_rotate_into_cache returns. The tensor is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the tensor's memory meanwhile, from its first element to its
/// last; others may read the cache, the slots and the rows.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_rotate_from_cache(
    chain: *const rope_chain,
    cache: *const rope_cache,
    slots: *const rope_slots,
    y: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `y` becomes a slice only apart from the cache, its scales, the slots
        // and what the chain and the rows are read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (cache, y) = (read("cache", cache)?, read("y", y)?);
            let (slots, listed) = read("slots", slots)?.slots()?;
            let (cache, taken) = cache.readable(Names::CACHE)?;
            with_rows(rows, &mut |rows, regions| {
                with_element!(y.element, E => {
                    let mut y = y.tensor::<E>("y", &[&used, &taken, &listed, &regions])?;
                    Ok(chain.rotate_into(&cache.slots(slots), &mut y, rows)?)
                })
            })
        }
    })
}

/// As rope_chain_rotate_from_cache without the rotation: heads of a cache as float, half precision or bfloat16.
///
/// Returns what rope_chain_rotate_into_cache returns, but for the rows. The tensor is untouched then.
///
/// # Threads
///
/// As rope_chain_rotate_from_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_copy_from_cache(
    chain: *const rope_chain,
    cache: *const rope_cache,
    slots: *const rope_slots,
    y: *const rope_tensor_mut,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `y` becomes a slice only apart from the cache, its scales, the slots
        // and what the chain is read from (see `memory`).
        unsafe {
            let (chain, used) = self::chain(chain)?;
            let (cache, y) = (read("cache", cache)?, read("y", y)?);
            let (slots, listed) = read("slots", slots)?.slots()?;
            let (cache, taken) = cache.readable(Names::CACHE)?;
            with_element!(y.element, E => {
                let mut y = y.tensor::<E>("y", &[&used, &taken, &listed])?;
                Ok(chain.apply_into(&cache.slots(slots), &mut y)?)
            })
        }
    })
}

/// Rotates keys that lie in a cache, in place, one row for each slot: a context shift by the rows of
/// rope_rows_fill_shift.
///
/// A head is read as float, rotated, and rounded once to what the cache keeps; scales that are made are made anew. A
/// row that rotates by nothing leaves the bits of its slot.
///
/// Returns ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_SHIFT_FACTOR for rows with an attention factor other than 1, which
/// cached keys have already (rope_rows.moves), and what rope_chain_rotate_into_cache returns. The cache is untouched
/// then.
///
/// # Threads
///
/// As rope_chain_rotate_into_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_shift(
    plan: *const rope_plan,
    cache: *const rope_cache,
    slots: *const rope_slots,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The cache and its scales become slices only apart from one another,
        // from the slots and from the rows (see `memory`).
        unsafe {
            let rope = read("plan", plan)?.rope()?;
            let cache = read("cache", cache)?;
            let (slots, listed) = read("slots", slots)?.slots()?;
            with_rows(rows, &mut |rows, regions| {
                let (mut cache, _) = cache.writable(Names::CACHE, &[&listed, &regions])?;
                Ok(rope.rotate(&mut cache.slots(slots), rows)?)
            })
        }
    })
}

/// As rope_shift, by a chain without a norm: keys that were cached with a Hadamard transform, which is undone before
/// the rotation and done again after it. A scale is not applied: cached keys have it, and it commutes with the
/// rotation.
///
/// Returns ROPE_STATUS_NOT_LINEAR for a chain with a norm, and what rope_shift returns. The cache is untouched then.
///
/// # Threads
///
/// As rope_chain_rotate_into_cache.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_chain_shift(
    chain: *const rope_chain,
    cache: *const rope_cache,
    slots: *const rope_slots,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The cache and its scales become slices only apart from one another,
        // from the slots and from what the chain and the rows are read from (see `memory`).
        unsafe {
            let (chain, factors) = read("chain", chain)?.linear()?;
            let cache = read("cache", cache)?;
            let (slots, listed) = read("slots", slots)?.slots()?;
            with_rows(rows, &mut |rows, regions| {
                let read: [&[Region]; 3] = [&[factors], &listed, &regions];
                let (mut cache, _) = cache.writable(Names::CACHE, &read)?;
                Ok(chain.rotate(&mut cache.slots(slots), rows)?)
            })
        }
    })
}
