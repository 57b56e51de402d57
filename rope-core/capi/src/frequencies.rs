//! Frequencies: a handle on the heap, or one in the caller's memory.

use core::ffi::c_void;

use rope_core::axes::{Axes, MixedFrequencies};
use rope_core::{Error, Frequencies, FrequencyChunk, Scaling};

use crate::axes::rope_axes;
use crate::failure::Failure;
use crate::handle::{ALIGNMENT, Head, change, handle, init};
use crate::memory::{Out, Region, Span, SpanMut, read};
use crate::names::{FLOATS, rope_angle, rope_backend, rope_mixed_angle, rope_number};
use crate::scaling::rope_scaling;
use crate::status::{rope_status, status_of};

/// Bytes of a chunk of eight pairs in ROPE_FREQUENCIES_BYTES.
pub const ROPE_FREQUENCIES_CHUNK: usize = 576;

/// Bytes besides the chunks in ROPE_FREQUENCIES_BYTES.
pub const ROPE_FREQUENCIES_HEAD: usize = 192;

/// The largest rotary_dim.
pub const ROPE_ROTARY_DIM_MAX: usize = 65536;

const _: () = {
    assert!(size_of::<FrequencyChunk>() <= ROPE_FREQUENCIES_CHUNK);
    // The handle has room at a multiple of its alignment, wherever the caller's memory begins.
    assert!(size_of::<rope_frequencies>() + ALIGNMENT - 1 <= ROPE_FREQUENCIES_HEAD);
    // A rotary_dim that is not refused overflows no sum of these, whatever the width of usize.
    assert!(
        FrequencyChunk::count(ROPE_ROTARY_DIM_MAX)
            <= u32::MAX as usize / ROPE_FREQUENCIES_CHUNK / 2
    );
};

/// The frequencies of all pairs of a head, and the factor on cos and sin. A handle, made once for a model.
///
/// rope_frequencies_new, _new_inverse and _from_config make it on the heap; rope_frequencies_free frees it.
/// rope_frequencies_init and _init_inverse make it in the caller's memory.
#[repr(align(64))]
#[derive(Debug)]
pub struct rope_frequencies {
    head: Head,
    value: AnyFrequencies,
}
handle!(rope_frequencies, AnyFrequencies, 0x726f_7065_5f66_7271);

/// Frequencies of which each pair follows one axis, or mixed ones.
#[derive(Clone, Debug)]
pub(crate) enum AnyFrequencies {
    Axes(Frequencies<'static>),
    Mixed(MixedFrequencies<'static>),
}

/// The properties of frequencies, as rope_frequencies_describe writes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_frequencies_info {
    /// Channels of a head that rotate: two for each pair.
    pub rotary_dim: usize,
    /// The number of axes of a position: 1 for text.
    pub axes: usize,
    /// Heads that have frequencies of their own (mixed ones); 1: heads share theirs.
    pub heads: usize,
    /// The factor on cos and sin: 1 for most models.
    pub attention_factor: f64,
    /// The factor of DeepSeek-V2 and V3 on the scale of their softmax: 1 for other models. The attention
    /// applies it; the rotation does not.
    pub softmax_factor: f64,
    /// Which angle rows are made of (`enum rope_angle`, of mixed frequencies `enum rope_mixed_angle`).
    pub angle: i32,
}

/// The frequencies behind a handle, and the bytes they take.
///
/// # Safety
///
/// As [`value`](crate::handle::value).
pub(crate) unsafe fn any_frequencies<'a>(
    handle: *const rope_frequencies,
) -> Result<(&'a AnyFrequencies, Region), Failure> {
    // SAFETY: the caller promises that `handle` is null or a live handle.
    unsafe { crate::handle::value(handle) }
}

/// Frequencies of which each pair follows one axis.
///
/// # Safety
///
/// As [`value`](crate::handle::value).
pub(crate) unsafe fn frequencies<'a>(
    handle: *const rope_frequencies,
) -> Result<(&'a Frequencies<'static>, Region), Failure> {
    // SAFETY: the caller promises that `handle` is null or a live handle.
    match unsafe { any_frequencies(handle) }? {
        (AnyFrequencies::Axes(frequencies), region) => Ok((frequencies, region)),
        (AnyFrequencies::Mixed(_), _) => Err(MIXED),
    }
}

const MIXED: Failure = Failure::Handle {
    name: "frequencies",
    required: "of frequencies on axes: it has mixed ones, which have no deltas, no angle to set and no list",
};

/// The parameters of frequencies.
enum FrequencyRecipe<'a> {
    Base(Axes<'a>, f64, Scaling<'a>),
    Singles(Axes<'a>, &'a [f32], f64),
    Doubles(Axes<'a>, &'a [f64], f64),
}

impl crate::handle::Recipe for FrequencyRecipe<'_> {
    type Handle = rope_frequencies;

    fn make(&self, storage: &'static mut [FrequencyChunk]) -> Result<AnyFrequencies, Error> {
        Ok(AnyFrequencies::Axes(match *self {
            FrequencyRecipe::Base(axes, base, ref scaling) => {
                Frequencies::new_in(storage, axes, base, scaling)
            }
            FrequencyRecipe::Singles(axes, inverse, factor) => {
                Frequencies::from_inverse_in(storage, axes, inverse, factor)
            }
            FrequencyRecipe::Doubles(axes, inverse, factor) => {
                Frequencies::from_inverse_in(storage, axes, inverse, factor)
            }
        }?))
    }
}

/// The recipe that the arguments of a call describe, and the bytes that it reads.
///
/// # Safety
///
/// Each pointer, also one in a struct, is null or valid, and nobody writes there during `'a`.
unsafe fn base_recipe<'a>(
    axes: *const rope_axes,
    base: f64,
    scaling: *const rope_scaling,
) -> Result<(FrequencyRecipe<'a>, [Region; 3]), Failure> {
    // SAFETY: the caller promises that each pointer, also one in a struct, is null or valid, and that nobody writes
    // there during `'a`.
    unsafe {
        let (axes, given) = read("axes", axes)?.axes()?;
        let scaling = match scaling.is_null() {
            true => rope_scaling::ZERO,
            false => read("scaling", scaling)?,
        };
        let (scaling, [first, second]) = scaling.scaling()?;
        Ok((
            FrequencyRecipe::Base(axes, base, scaling),
            [given, first, second],
        ))
    }
}

/// # Safety
///
/// As [`base_recipe`].
unsafe fn inverse_recipe<'a>(
    axes: *const rope_axes,
    inverse: *const c_void,
    count: usize,
    number: i32,
    attention_factor: f64,
) -> Result<(FrequencyRecipe<'a>, [Region; 3]), Failure> {
    let none = Region::bytes("list", 0, 0);
    // SAFETY: the caller promises that each pointer, also one in a struct, is null or valid, and that nobody writes
    // there during `'a`.
    unsafe {
        let (axes, given) = read("axes", axes)?.axes()?;
        match rope_number::from_c(number)? {
            rope_number::F32 => {
                let span = Span::<f32>::new("inverse", inverse.cast(), count)?;
                let recipe = FrequencyRecipe::Singles(axes, span.get(), attention_factor);
                Ok((recipe, [given, span.region(), none]))
            }
            rope_number::F64 => {
                let span = Span::<f64>::new("inverse", inverse.cast(), count)?;
                let recipe = FrequencyRecipe::Doubles(axes, span.get(), attention_factor);
                Ok((recipe, [given, span.region(), none]))
            }
            other => Err(other.refused(FLOATS)),
        }
    }
}

/// Makes frequencies in the caller's memory, for a base (rope_theta) and a scaling; NULL: none. Allocates nothing.
///
/// `memory` has `size` bytes, of any alignment; ROPE_FREQUENCIES_BYTES(rotary_dim) are enough. The frequencies lie
/// there: the caller neither moves nor reuses the memory as long as they are used, and has nothing to free. The
/// earlier content of the memory is lost, even if the call is refused.
///
/// Returns ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES,
/// ROPE_STATUS_SECTIONS, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE,
/// ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the memory meanwhile.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call. `memory` stays as long as the
/// frequencies are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_init(
    memory: *mut c_void,
    size: usize,
    axes: *const rope_axes,
    base: f64,
    scaling: *const rope_scaling,
    frequencies: *mut *mut rope_frequencies,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers are null or valid during the call, and `memory` as long as the
        // frequencies are used.
        unsafe {
            let (recipe, regions) = base_recipe(axes, base, scaling)?;
            init(memory, size, (recipe, &regions), frequencies)
        }
    })
}

/// As rope_frequencies_init, from inverse frequencies (radians a position) of a model file or a training run. There
/// are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply cos and
/// sin by `attention_factor`; give 1 if the model has none.
///
/// Returns what rope_frequencies_init returns.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the memory meanwhile.
///
/// # Safety
///
/// As rope_frequencies_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_init_inverse(
    memory: *mut c_void,
    size: usize,
    axes: *const rope_axes,
    inverse: *const c_void,
    count: usize,
    number: i32,
    attention_factor: f64,
    frequencies: *mut *mut rope_frequencies,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers are null or valid during the call, and `memory` as long as the
        // frequencies are used.
        unsafe {
            let (recipe, regions) = inverse_recipe(axes, inverse, count, number, attention_factor)?;
            init(memory, size, (recipe, &regions), frequencies)
        }
    })
}

/// Describes frequencies.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_describe(
    frequencies: *const rope_frequencies,
    info: *mut rope_frequencies_info,
) -> rope_status {
    status_of(|| {
        let out = Out::new("info", info)?;
        // SAFETY: the caller promises that `frequencies` is null or a live handle.
        let (frequencies, region) = unsafe { any_frequencies(frequencies) }?;
        Region::of("info", info).apart_from(&[region])?;
        let info = match frequencies {
            AnyFrequencies::Axes(frequencies) => rope_frequencies_info {
                rotary_dim: frequencies.rotary_dim(),
                axes: frequencies.axes(),
                heads: 1,
                attention_factor: frequencies.attention_factor(),
                softmax_factor: frequencies.softmax_factor(),
                angle: rope_angle::number(frequencies.angle()),
            },
            AnyFrequencies::Mixed(frequencies) => rope_frequencies_info {
                rotary_dim: frequencies.rotary_dim(),
                axes: frequencies.axes(),
                heads: frequencies.heads(),
                attention_factor: frequencies.attention_factor(),
                softmax_factor: 1.0,
                angle: rope_mixed_angle::number(frequencies.angle()),
            },
        };
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(info) };
        Ok(())
    })
}

/// Writes the inverse frequency of every pair in radians a position, correctly rounded: `rotary_dim / 2` numbers.
/// `inverse` has room for `len`.
///
/// Returns ROPE_STATUS_STORAGE if `len` is too small, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
/// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_inverse(
    frequencies: *const rope_frequencies,
    inverse: *mut f64,
    len: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that `frequencies` is null or a live handle.
        let (frequencies, region) = unsafe { self::frequencies(frequencies) }?;
        let (given, needed) = (len, frequencies.rotary_dim() / 2);
        let inverse = SpanMut::new("inverse", inverse, len)?;
        if given < needed {
            return Err(Error::Storage {
                what: "numbers of inverse",
                given,
                needed,
            }
            .into());
        }
        // SAFETY: the caller promises that pointers are null or valid during the call. The numbers become a slice only
        // after a check that they are disjoint from the frequencies (see `memory`).
        let inverse = unsafe { inverse.cut(needed).get(&[region]) }?;
        for (to, pair) in inverse.iter_mut().zip(frequencies.iter()) {
            *to = pair.inverse;
        }
        Ok(())
    })
}

/// Sets which angle rows are made of (`enum rope_angle`). New frequencies have ROPE_ANGLE_EXACT.
///
/// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE.
///
/// # Threads
///
/// May be called from any thread; no other thread may use the frequencies meanwhile.
///
/// # Safety
///
/// `frequencies` is NULL or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_set_angle(
    frequencies: *mut rope_frequencies,
    angle: i32,
) -> rope_status {
    status_of(|| {
        let angle = rope_angle::from_c(angle)?.angle();
        // SAFETY: the caller promises that `frequencies` is null or a live handle that nobody else uses.
        unsafe {
            self::frequencies(frequencies)?;
            change(frequencies, |made| {
                Ok(match made {
                    AnyFrequencies::Axes(made) => AnyFrequencies::Axes(made.with_angle(angle)),
                    mixed => mixed,
                })
            })
        }
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
pub unsafe extern "C" fn rope_frequencies_set_backend(
    frequencies: *mut rope_frequencies,
    backend: i32,
) -> rope_status {
    status_of(|| {
        let named = rope_backend::from_c(backend)?.backend();
        let backend = named.unwrap_or_else(rope_core::Backend::best);
        // SAFETY: the caller promises that `frequencies` is null or a live handle that nobody else uses.
        unsafe {
            change(frequencies, |made| {
                Ok(match made {
                    AnyFrequencies::Axes(made) => AnyFrequencies::Axes(made.with_backend(backend)?),
                    AnyFrequencies::Mixed(made) => {
                        AnyFrequencies::Mixed(made.with_backend(backend)?)
                    }
                })
            })
        }
    })
}

#[cfg(feature = "std")]
mod heap {
    use core::ffi::c_void;

    use super::{base_recipe, inverse_recipe, rope_axes, rope_frequencies, rope_scaling};
    use crate::handle::{free, new};
    use crate::memory::Out;
    use crate::status::{rope_status, status_of};

    /// Makes frequencies for a base (rope_theta) and a scaling; NULL: none. rope_frequencies_free frees them.
    ///
    /// Returns ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES, ROPE_STATUS_SECTIONS, ROPE_STATUS_PARAMETER,
    /// ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
    /// ROPE_STATUS_LENGTH, ROPE_STATUS_OUT_OF_MEMORY.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or valid for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_frequencies_new(
        axes: *const rope_axes,
        base: f64,
        scaling: *const rope_scaling,
        frequencies: *mut *mut rope_frequencies,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("frequencies", frequencies)?;
            // SAFETY: the caller promises that pointers are null or valid during the call.
            unsafe {
                let (recipe, _) = base_recipe(axes, base, scaling)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }

    /// As rope_frequencies_new, from inverse frequencies (radians a position) of a model file or a training run.
    /// There are `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. The rows multiply
    /// cos and sin by `attention_factor`; give 1 if the model has none.
    ///
    /// Returns what rope_frequencies_new returns.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or valid for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_frequencies_new_inverse(
        axes: *const rope_axes,
        inverse: *const c_void,
        count: usize,
        number: i32,
        attention_factor: f64,
        frequencies: *mut *mut rope_frequencies,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("frequencies", frequencies)?;
            // SAFETY: the caller promises that pointers are null or valid during the call.
            unsafe {
                let (recipe, _) = inverse_recipe(axes, inverse, count, number, attention_factor)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }

    /// Frees frequencies that a call has made on the heap. NULL is left alone.
    ///
    /// Returns ROPE_STATUS_HANDLE for frequencies of rope_frequencies_init, whose memory is the caller's, and for
    /// memory that holds no frequencies; ROPE_STATUS_MISALIGNED. The library cannot tell that a handle was freed
    /// before.
    ///
    /// # Threads
    ///
    /// May be called from any thread; no other thread may use the frequencies then or later.
    ///
    /// # Safety
    ///
    /// `frequencies` is NULL or of this library, and is not used any more.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_frequencies_free(
        frequencies: *mut rope_frequencies,
    ) -> rope_status {
        // SAFETY: the caller promises that `frequencies` is null or a handle that is no longer used.
        status_of(|| unsafe { free(frequencies) })
    }
}
#[cfg(feature = "std")]
pub use heap::{rope_frequencies_free, rope_frequencies_new, rope_frequencies_new_inverse};
