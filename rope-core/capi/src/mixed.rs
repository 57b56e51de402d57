//! Mixed frequencies: every pair has one on each axis, and each head its own.

use core::ffi::c_void;

use rope_core::axes::{MixedAngle, MixedFrequencies};
use rope_core::{Error, FrequencyChunk};

use crate::failure::Failure;
use crate::frequencies::{ROPE_FREQUENCIES_CHUNK, ROPE_FREQUENCIES_HEAD, ROPE_ROTARY_DIM_MAX};
use crate::handle::{self, Head, change, handle, init};
use crate::memory::{Out, Region, Span, plain, read};
use crate::names::{FLOATS, lookup, rope_backend, rope_number};
use crate::plan::rope_plan;
use crate::positions::rope_positions;
use crate::rotate::at;
use crate::rows::{self, fill, rope_rows, write_len};
use crate::status::{rope_status, status_of};
use crate::tensor::rope_tensor_mut;

/// Which angle a token's coordinates have on mixed axes.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_mixed_angle {
    /// The exact sum of the products of coordinate and frequency.
    Exact = 0,
    /// What timm and rope-vit compute: coordinates and inverse frequencies as floats, each product rounded to a float,
    /// and each sum, axis 0 first.
    SummedF32 = 1,
}
lookup!(rope_mixed_angle, "angle of mixed axes": Exact SummedF32);

impl rope_mixed_angle {
    fn angle(self) -> MixedAngle {
        match self {
            rope_mixed_angle::Exact => MixedAngle::Exact,
            rope_mixed_angle::SummedF32 => MixedAngle::SummedF32,
        }
    }
}

/// Frequencies of which every pair has one on each axis, so that its angle is the sum of coordinate times frequency
/// over the axes, and each head has its own: RoPE-Mixed in timm and rope-vit, Mochi. A handle, made once, or once a
/// step where they are learned.
///
/// rope_mixed_frequencies_new makes it on the heap; rope_mixed_frequencies_free frees it. rope_mixed_frequencies_init
/// makes it in the caller's memory.
#[repr(align(64))]
#[derive(Debug)]
pub struct rope_mixed_frequencies {
    head: Head,
    value: MixedFrequencies<'static>,
}
handle!(
    rope_mixed_frequencies,
    MixedFrequencies<'static>,
    0x726f_7065_5f6d_6978
);

/// Inverse frequencies of mixed axes, in radians a unit of the coordinate: `[axes][heads][pairs]`, the order of timm's,
/// rope-vit's and Mochi's parameters. Negative ones rotate the other way, zeros stand still.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_mixed_inverse {
    /// The numbers, aligned as their type is.
    pub values: *const c_void,
    /// How many: `axes * heads * pairs`.
    pub count: usize,
    /// Their type: ROPE_NUMBER_F32 or ROPE_NUMBER_F64.
    pub number: i32,
    /// Numbers that make up a position, 1 to 4.
    pub axes: usize,
    /// Heads that have frequencies of their own, all those of the tensor. 0 and 1: heads share theirs.
    pub heads: usize,
    /// Pairs of a head that rotate, half of rotary_dim.
    pub pairs: usize,
}
plain!(rope_mixed_inverse);

/// What rope_mixed_frequencies_describe tells of frequencies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_mixed_frequencies_info {
    /// How many numbers a position has.
    pub axes: usize,
    /// Heads that have frequencies of their own; 1: heads share theirs.
    pub heads: usize,
    /// Channels of a head that rotate: two for each pair.
    pub rotary_dim: usize,
    /// What cos and sin are multiplied by.
    pub attention_factor: f64,
    /// Which angle rows are made of (`enum rope_mixed_angle`).
    pub angle: i32,
}

/// What mixed frequencies are made of.
struct MixedRecipe<'a> {
    numbers: Numbers<'a>,
    shape: [usize; 3],
    attention_factor: f64,
    angle: MixedAngle,
}

/// Floating-point numbers of either type.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a> {
    Singles(&'a [f32]),
    Doubles(&'a [f64]),
}

impl<'a> Numbers<'a> {
    /// The numbers, and the bytes that they take.
    ///
    /// # Safety
    ///
    /// `values` is null or points to `count` of them, which nobody writes during `'a`.
    pub(crate) unsafe fn new(
        name: &'static str,
        values: *const c_void,
        count: usize,
        number: i32,
    ) -> Result<(Self, Region), Failure> {
        // SAFETY: the caller promises it.
        unsafe {
            match rope_number::from_c(number)? {
                rope_number::F32 => {
                    let span = Span::new(name, values.cast(), count)?;
                    Ok((Numbers::Singles(span.get()), span.region()))
                }
                rope_number::F64 => {
                    let span = Span::new(name, values.cast(), count)?;
                    Ok((Numbers::Doubles(span.get()), span.region()))
                }
                other => Err(other.refused(FLOATS)),
            }
        }
    }
}

impl handle::Recipe for MixedRecipe<'_> {
    type Handle = rope_mixed_frequencies;

    fn make(
        &self,
        storage: &'static mut [FrequencyChunk],
    ) -> Result<MixedFrequencies<'static>, Error> {
        let (shape, factor) = (self.shape, self.attention_factor);
        let made = match self.numbers {
            Numbers::Singles(list) => MixedFrequencies::new_in(storage, list, shape, factor),
            Numbers::Doubles(list) => MixedFrequencies::new_in(storage, list, shape, factor),
        };
        Ok(made?.with_angle(self.angle))
    }
}

/// The recipe that the arguments of a call describe, and the bytes that it reads.
///
/// # Safety
///
/// Each pointer, also one in a struct, is null or points to what it says, which nobody writes during `'a`.
unsafe fn recipe<'a>(
    inverse: *const rope_mixed_inverse,
    attention_factor: f64,
    angle: i32,
) -> Result<(MixedRecipe<'a>, Region), Failure> {
    // SAFETY: the caller promises it.
    unsafe {
        let inverse = read("inverse", inverse)?;
        let (numbers, region) =
            Numbers::new("values", inverse.values, inverse.count, inverse.number)?;
        let recipe = MixedRecipe {
            numbers,
            shape: [inverse.axes, inverse.heads.max(1), inverse.pairs],
            attention_factor,
            angle: rope_mixed_angle::from_c(angle)?.angle(),
        };
        Ok((recipe, region))
    }
}

/// The frequencies behind a handle, and the bytes they take.
///
/// # Safety
///
/// As [`value`](handle::value).
unsafe fn mixed<'a>(
    handle: *const rope_mixed_frequencies,
) -> Result<(&'a MixedFrequencies<'static>, Region), Failure> {
    // SAFETY: the caller promises it.
    unsafe { handle::value(handle) }
}

/// The recipe of rows, and the bytes that it reads.
///
/// # Safety
///
/// Pointers are null or point to what they say, which nobody writes during `'a`.
unsafe fn rows_recipe<'a>(
    frequencies: *const rope_mixed_frequencies,
    positions: *const rope_positions,
) -> Result<(rows::RowRecipe<'a>, [Region; 6]), Failure> {
    // SAFETY: the caller promises it.
    unsafe {
        let (frequencies, region) = mixed(frequencies)?;
        let (positions, [first, second]) = read("positions", positions)?.positions()?;
        let none = Region::bytes("positions", 0, 0);
        let regions = [region, first, second, none, none, none];
        Ok((rows::RowRecipe::AtMixed(frequencies, positions), regions))
    }
}

/// Bytes that are enough for rope_mixed_frequencies_init, wherever the memory begins. It is what the macro
/// ROPE_MIXED_FREQUENCIES_BYTES gives, but 0 for more pairs than half of ROPE_ROTARY_DIM_MAX, and where there are more
/// bytes than size_t counts.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_mixed_frequencies_bytes(axes: usize, heads: usize, pairs: usize) -> usize {
    if pairs > ROPE_ROTARY_DIM_MAX / 2 {
        return 0;
    }
    let chunks = MixedFrequencies::chunks([axes, heads, pairs]);
    let bytes = chunks.checked_mul(ROPE_FREQUENCIES_CHUNK);
    let bytes = bytes.and_then(|bytes| bytes.checked_add(ROPE_FREQUENCIES_HEAD));
    bytes.unwrap_or(0)
}

/// Makes mixed frequencies in the caller's memory. The rows multiply cos and sin by `attention_factor`; give 1 if the
/// model has none. `angle` is that of the rows (`enum rope_mixed_angle`). Allocates nothing.
///
/// `memory` has `size` bytes, of any alignment; ROPE_MIXED_FREQUENCIES_BYTES(axes, heads, pairs) are enough. The
/// frequencies lie there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to
/// free. What the memory held is lost, even if the call is refused.
///
/// Returns ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_AXES unless there are 1 to 4,
/// ROPE_STATUS_ROTARY_DIM for no pairs or too many, ROPE_STATUS_COUNT unless there are `axes * heads * pairs` numbers,
/// ROPE_STATUS_PARAMETER, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the memory meanwhile.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call. `memory` stays as long as the frequencies
/// are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_mixed_frequencies_init(
    memory: *mut c_void,
    size: usize,
    inverse: *const rope_mixed_inverse,
    attention_factor: f64,
    angle: i32,
    frequencies: *mut *mut rope_mixed_frequencies,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises it.
        unsafe {
            let (recipe, region) = recipe(inverse, attention_factor, angle)?;
            init(memory, size, (recipe, &[region]), frequencies)
        }
    })
}

/// Describes mixed frequencies.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_mixed_frequencies_describe(
    frequencies: *const rope_mixed_frequencies,
    info: *mut rope_mixed_frequencies_info,
) -> rope_status {
    status_of(|| {
        let out = Out::new("info", info)?;
        // SAFETY: the caller promises it.
        let (frequencies, region) = unsafe { mixed(frequencies) }?;
        Region::of("info", info).apart_from(&[region])?;
        let angle = rope_mixed_angle::ALL
            .iter()
            .find(|angle| angle.angle() == frequencies.angle());
        let info = rope_mixed_frequencies_info {
            axes: frequencies.axes(),
            heads: frequencies.heads(),
            rotary_dim: frequencies.rotary_dim(),
            attention_factor: frequencies.attention_factor(),
            angle: angle.map_or(-1, |angle| *angle as i32),
        };
        // SAFETY: the caller's struct.
        unsafe { out.write(info) };
        Ok(())
    })
}

/// Sets the backend that makes the rows (`enum rope_backend`). All backends make the same bits.
///
/// Returns ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_HANDLE.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the frequencies meanwhile.
///
/// # Safety
///
/// `frequencies` is NULL or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_mixed_frequencies_set_backend(
    frequencies: *mut rope_mixed_frequencies,
    backend: i32,
) -> rope_status {
    status_of(|| {
        let named = rope_backend::from_c(backend)?.backend();
        let backend = named.unwrap_or_else(rope_core::Backend::best);
        let with = |made: MixedFrequencies<'static>| made.backend(backend);
        // SAFETY: the caller promises it.
        unsafe { change(frequencies, with) }
    })
}

/// Writes to `len` how many values (floats) the rows of some positions have: tokens times heads (those that have
/// frequencies of their own) times rotary_dim.
///
/// Returns what rope_rows_len returns.
///
/// # Threads
///
/// As rope_rows_len.
///
/// # Safety
///
/// As rope_rows_len.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_len_mixed(
    frequencies: *const rope_mixed_frequencies,
    positions: *const rope_positions,
    len: *mut usize,
) -> rope_status {
    // SAFETY: the caller promises it.
    status_of(|| unsafe { write_len(rows_recipe(frequencies, positions)?, len) })
}

/// Makes the rows of some positions in the caller's storage, of each head where frequencies have several, and
/// describes them in `rows`. The storage has `len` floats; ROPE_ROWS_LEN(tokens * heads, rotary_dim) are needed.
///
/// With ROPE_MIXED_ANGLE_EXACT cos and sin are the floats nearest to the exact values.
///
/// Returns what rope_rows_fill returns.
///
/// # Threads
///
/// As rope_rows_fill.
///
/// # Safety
///
/// As rope_rows_fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_fill_mixed(
    frequencies: *const rope_mixed_frequencies,
    positions: *const rope_positions,
    storage: *mut f32,
    len: usize,
    rows: *mut rope_rows,
) -> rope_status {
    // SAFETY: the caller promises it.
    status_of(|| unsafe { fill(rows_recipe(frequencies, positions)?, storage, len, rows) })
}

/// Rotates a tensor in place as rope_rotate_at does, with the rows of mixed frequencies, made on the stack. Rows of
/// each head take longer to make than the rotation: where frequencies stay the same, keep them (rope_rows_fill_mixed).
///
/// Returns ROPE_STATUS_ROW_HEADS unless the frequencies are of one head or of the tensor's, and what rope_rotate_at
/// returns. The tensor is untouched then.
///
/// # Threads
///
/// As rope_rotate_at.
///
/// # Safety
///
/// As rope_rotate_at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_at_mixed(
    plan: *const rope_plan,
    x: *const rope_tensor_mut,
    frequencies: *const rope_mixed_frequencies,
    positions: *const rope_positions,
) -> rope_status {
    // SAFETY: the caller promises it.
    status_of(|| unsafe { at(plan, x, mixed(frequencies)?, positions) })
}

#[cfg(feature = "std")]
mod heap {
    use super::{recipe, rope_mixed_frequencies, rope_mixed_inverse, rows_recipe};
    use crate::handle::{free, new};
    use crate::memory::Out;
    use crate::positions::rope_positions;
    use crate::rows::{rope_table, write_table};
    use crate::status::{rope_status, status_of};

    /// Makes mixed frequencies, as rope_mixed_frequencies_init does. rope_mixed_frequencies_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_mixed_frequencies_init returns.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers, also those in structs, are NULL or point to what they say, for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_mixed_frequencies_new(
        inverse: *const rope_mixed_inverse,
        attention_factor: f64,
        angle: i32,
        frequencies: *mut *mut rope_mixed_frequencies,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("frequencies", frequencies)?;
            // SAFETY: the caller promises it.
            unsafe {
                let (recipe, _) = recipe(inverse, attention_factor, angle)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }

    /// Frees mixed frequencies that rope_mixed_frequencies_new has made. NULL is left alone.
    ///
    /// Returns ROPE_STATUS_HANDLE for those of rope_mixed_frequencies_init, whose memory is the caller's, and for
    /// memory that holds none; ROPE_STATUS_MISALIGNED. The library cannot tell that a handle was freed before.
    ///
    /// # Threads
    ///
    /// May be called from any thread; no other thread may use the frequencies then or later.
    ///
    /// # Safety
    ///
    /// `frequencies` is NULL or of this library, and is not used any more.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_mixed_frequencies_free(
        frequencies: *mut rope_mixed_frequencies,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        status_of(|| unsafe { free(frequencies) })
    }

    /// Makes the rows of rope_rows_fill_mixed on the heap. rope_table_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
    ///
    /// # Threads
    ///
    /// As rope_table_new.
    ///
    /// # Safety
    ///
    /// As rope_table_new.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_new_mixed(
        frequencies: *const rope_mixed_frequencies,
        positions: *const rope_positions,
        table: *mut *mut rope_table,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        status_of(|| unsafe { write_table(rows_recipe(frequencies, positions)?, table) })
    }
}
#[cfg(feature = "std")]
pub use heap::*;
