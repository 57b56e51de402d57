//! Mixed frequencies: every pair has one on each axis, and each head its own.

use core::ffi::c_void;

use rope_core::axes::{MixedAngle, MixedFrequencies};
use rope_core::{Error, FrequencyChunk};

use crate::failure::Failure;
use crate::frequencies::{AnyFrequencies, rope_frequencies};
use crate::handle::{self, init};
use crate::memory::{Region, Span, plain, read};
use crate::names::{FLOATS, rope_mixed_angle, rope_number};
use crate::status::{rope_status, status_of};

/// Inverse frequencies of mixed axes, in radians a unit of the coordinate: `[axes][heads][pairs]`, the order of timm's,
/// rope-vit's and Mochi's parameters. Negative ones rotate the other way, zeros stand still.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_mixed_inverse {
    /// The numbers, aligned as their type is.
    pub values: *const c_void,
    /// Their number: `axes * heads * pairs`.
    pub count: usize,
    /// Their type: ROPE_NUMBER_F32 or ROPE_NUMBER_F64.
    pub number: i32,
    /// Numbers that make up a position, 1 to 4.
    pub axes: usize,
    /// Heads with frequencies of their own: the number of heads of the tensor. 0 and 1: heads share theirs.
    pub heads: usize,
    /// Pairs of a head that rotate, half of rotary_dim.
    pub pairs: usize,
}
plain!(rope_mixed_inverse);

/// The parameters of mixed frequencies.
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
        // SAFETY: the caller promises that `values` is null or has `count` numbers, which nobody writes during `'a`.
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
    type Handle = rope_frequencies;

    fn make(&self, storage: &'static mut [FrequencyChunk]) -> Result<AnyFrequencies, Error> {
        let (shape, factor) = (self.shape, self.attention_factor);
        let made = match self.numbers {
            Numbers::Singles(list) => MixedFrequencies::new_in(storage, list, shape, factor),
            Numbers::Doubles(list) => MixedFrequencies::new_in(storage, list, shape, factor),
        };
        Ok(AnyFrequencies::Mixed(made?.with_angle(self.angle)))
    }
}

/// The recipe that the arguments of a call describe, and the bytes that it reads.
///
/// # Safety
///
/// Each pointer, also one in a struct, is null or valid, and nobody writes there during `'a`.
unsafe fn recipe<'a>(
    inverse: *const rope_mixed_inverse,
    attention_factor: f64,
    angle: i32,
) -> Result<(MixedRecipe<'a>, Region), Failure> {
    // SAFETY: the caller promises that each pointer, also one in a struct, is null or valid, and that nobody writes
    // there during `'a`.
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

/// Creates mixed-axis frequencies: a pair's angle is the sum over axes of coordinate times frequency, and each head has
/// its own frequencies (RoPE-Mixed in timm and rope-vit, Mochi). They lie in the caller's memory, as after
/// rope_frequencies_init. Learned frequencies are created again after each change. The rows multiply cos and sin by
/// `attention_factor`; pass 1 if the model has none. `angle` is the formula of the rows' angles
/// (`enum rope_mixed_angle`). Allocates nothing.
///
/// `memory` has `size` bytes, of any alignment; ROPE_MIXED_FREQUENCIES_BYTES(axes, heads, pairs) are enough. The
/// frequencies lie there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to
/// free. The earlier content of the memory is lost, even if the call is refused.
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
/// Pointers are NULL or valid for the length of the call. `memory` stays as long as the frequencies
/// are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_mixed_frequencies_init(
    memory: *mut c_void,
    size: usize,
    inverse: *const rope_mixed_inverse,
    attention_factor: f64,
    angle: i32,
    frequencies: *mut *mut rope_frequencies,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers are null or valid during the call, and `memory` as long as the
        // frequencies are used.
        unsafe {
            let (recipe, region) = recipe(inverse, attention_factor, angle)?;
            init(memory, size, (recipe, &[region]), frequencies)
        }
    })
}

#[cfg(feature = "std")]
mod heap {
    use super::{recipe, rope_mixed_inverse};
    use crate::frequencies::rope_frequencies;
    use crate::handle::new;
    use crate::memory::Out;
    use crate::status::{rope_status, status_of};

    /// Makes mixed frequencies, as rope_mixed_frequencies_init does. rope_frequencies_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_mixed_frequencies_init returns.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers, also those in structs, are NULL or valid for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_mixed_frequencies_new(
        inverse: *const rope_mixed_inverse,
        attention_factor: f64,
        angle: i32,
        frequencies: *mut *mut rope_frequencies,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("frequencies", frequencies)?;
            // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call.
            unsafe {
                let (recipe, _) = recipe(inverse, attention_factor, angle)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }
}
#[cfg(feature = "std")]
pub use heap::rope_mixed_frequencies_new;
