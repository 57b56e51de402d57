//! Frequencies: a handle on the heap, or in memory of the caller's.

use core::ffi::c_void;

use rope_core::{Axes, Error, Frequencies, FrequencyBlock, Scaling};

use crate::axes::rope_axes;
use crate::failure::Failure;
use crate::memory::{Out, Region, Span, SpanMut, empty_blocks, place, read};
use crate::names::{rope_angle, rope_backend, rope_number};
use crate::scaling::rope_scaling;
use crate::status::{rope_status, status_of};

const MAGIC: u64 = 0x726f_7065_5f66_7271;

/// Bytes of a block of eight pairs in ROPE_FREQUENCIES_BYTES.
pub const ROPE_FREQUENCIES_BLOCK: usize = 576;

/// Bytes besides the blocks in ROPE_FREQUENCIES_BYTES.
pub const ROPE_FREQUENCIES_HEAD: usize = 192;

/// The largest rotary_dim.
pub const ROPE_ROTARY_DIM_MAX: usize = 65536;

const ALIGNMENT: usize = align_of::<rope_frequencies>();
const _: () = {
    assert!(align_of::<FrequencyBlock>() == ALIGNMENT);
    assert!(size_of::<FrequencyBlock>() <= ROPE_FREQUENCIES_BLOCK);
    // A rotary_dim that is not refused overflows no sum of these, whatever the width of usize.
    assert!(
        FrequencyBlock::count(ROPE_ROTARY_DIM_MAX)
            <= u32::MAX as usize / ROPE_FREQUENCIES_BLOCK / 2
    );
    // Wherever the caller's memory begins.
    assert!(size_of::<rope_frequencies>() + ALIGNMENT - 1 <= ROPE_FREQUENCIES_HEAD);
};

/// The frequencies of all pairs of a head, and the factor on cos and sin. Made once for a model; a handle.
///
/// On the heap (rope_frequencies_new, _new_inverse, _from_config: to be freed), or in memory of the caller's
/// (rope_frequencies_init).
#[repr(align(64))]
#[derive(Debug)]
pub struct rope_frequencies {
    magic: u64,
    /// Of this and the blocks behind it.
    bytes: usize,
    /// Whether it is to be freed.
    owned: bool,
    frequencies: Frequencies<'static>,
}

// Threads may share it.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<rope_frequencies>();
};

/// What frequencies are like.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_frequencies_info {
    /// Channels of a head that turn: two for each pair.
    pub rotary_dim: usize,
    /// How many numbers a position has: 1 for text.
    pub axes: usize,
    /// What cos and sin are multiplied by: 1 for most models.
    pub attention_factor: f64,
    /// What DeepSeek-V2 and V3 multiply the scale of their softmax by besides. For the attention; no part of the
    /// rotation.
    pub softmax_factor: f64,
}

/// The frequencies behind a handle, and the bytes they take.
///
/// # Safety
///
/// A pointer that is not null points to frequencies of this library that nobody changes or frees during `'a`, or at
/// least to as many bytes.
pub(crate) unsafe fn frequencies<'a>(
    handle: *const rope_frequencies,
) -> Result<(&'a Frequencies<'static>, Region), Failure> {
    // SAFETY: the caller's promise.
    unsafe { check(handle) }?;
    // SAFETY: the caller's promise; the magic number has told that it was made here.
    let handle = unsafe { &*handle };
    let region = Region::bytes(
        "frequencies",
        core::ptr::from_ref(handle).addr(),
        handle.bytes,
    );
    Ok((&handle.frequencies, region))
}

/// `ROPE_STATUS_HANDLE` unless it was made here.
///
/// # Safety
///
/// A pointer that is not null points to as many bytes as a handle has.
unsafe fn check(handle: *const rope_frequencies) -> Result<(), Failure> {
    place("frequencies", handle)?;
    // SAFETY: neither null nor misaligned. Any bits are a number; that memory is there is the caller's promise.
    let magic = unsafe { (&raw const (*handle).magic).read() };
    if magic == MAGIC {
        Ok(())
    } else {
        Err(Failure::Handle)
    }
}

/// What frequencies are made of.
enum Recipe<'a> {
    Base(Axes<'a>, f64, Scaling<'a>),
    Singles(Axes<'a>, &'a [f32], f64),
    Doubles(Axes<'a>, &'a [f64], f64),
}

impl Recipe<'_> {
    fn make<'s>(&self, storage: &'s mut [FrequencyBlock]) -> Result<Frequencies<'s>, Error> {
        match *self {
            Recipe::Base(axes, base, ref scaling) => {
                Frequencies::new_in(storage, axes, base, scaling)
            }
            Recipe::Singles(axes, inverse, factor) => {
                Frequencies::from_inverse_in(storage, axes, inverse, factor)
            }
            Recipe::Doubles(axes, inverse, factor) => {
                Frequencies::from_inverse_in(storage, axes, inverse, factor)
            }
        }
    }

    /// The blocks that are needed.
    fn blocks(&self) -> Result<usize, Error> {
        match self.make(&mut []) {
            Ok(_) => Ok(0),
            Err(Error::Storage { needed, .. }) => Ok(needed),
            Err(error) => Err(error),
        }
    }

    /// Makes them behind a handle at the beginning of some memory.
    ///
    /// # Safety
    ///
    /// The memory is a multiple of 64 and has room for a handle and `blocks` blocks; nobody else uses it as long as
    /// the handle is in use, and nothing of the recipe lies in it.
    unsafe fn place(
        &self,
        memory: *mut u8,
        blocks: usize,
        owned: bool,
    ) -> Result<*mut rope_frequencies, Error> {
        let handle = memory.cast::<rope_frequencies>();
        // SAFETY: the handle is a multiple of its alignment long, which is that of blocks; there is room for both.
        let storage = unsafe { empty_blocks(handle.add(1).cast::<FrequencyBlock>(), blocks) };
        let frequencies = self.make(storage)?;
        let bytes = size_of::<rope_frequencies>() + blocks * size_of::<FrequencyBlock>();
        // SAFETY: there is room, and it is aligned.
        unsafe {
            handle.write(rope_frequencies {
                magic: MAGIC,
                bytes,
                owned,
                frequencies,
            });
        }
        Ok(handle)
    }
}

/// What a call says of frequencies, read and checked.
///
/// # Safety
///
/// The structs, and the lists that they name, are there, if they are not null, and nobody writes them during `'a`.
unsafe fn base_recipe<'a>(
    axes: *const rope_axes,
    base: f64,
    scaling: *const rope_scaling,
) -> Result<(Recipe<'a>, [Region; 3]), Failure> {
    // SAFETY: the caller's promise, for all of it.
    unsafe {
        let (axes, given) = read("axes", axes)?.axes()?;
        let scaling = match scaling.is_null() {
            true => rope_scaling::ZERO,
            false => read("scaling", scaling)?,
        };
        let (scaling, [first, second]) = scaling.scaling()?;
        Ok((Recipe::Base(axes, base, scaling), [given, first, second]))
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
) -> Result<(Recipe<'a>, [Region; 3]), Failure> {
    let none = Region::bytes("list", 0, 0);
    // SAFETY: the caller's promise, for all of it.
    unsafe {
        let (axes, given) = read("axes", axes)?.axes()?;
        match rope_number::from_c(number)? {
            rope_number::F32 => {
                let span = Span::<f32>::new("inverse", inverse.cast(), count)?;
                let recipe = Recipe::Singles(axes, span.get(), attention_factor);
                Ok((recipe, [given, span.region(), none]))
            }
            rope_number::F64 => {
                let span = Span::<f64>::new("inverse", inverse.cast(), count)?;
                let recipe = Recipe::Doubles(axes, span.get(), attention_factor);
                Ok((recipe, [given, span.region(), none]))
            }
            other => Err(Failure::UnknownValue {
                what: "floating-point type",
                value: other as i32,
            }),
        }
    }
}

/// Makes frequencies in the caller's memory.
///
/// # Safety
///
/// `size` bytes are there and the caller's; `out` is checked.
unsafe fn init(
    memory: *mut c_void,
    size: usize,
    (recipe, read): (Recipe<'_>, [Region; 3]),
    out: *mut *mut rope_frequencies,
) -> Result<(), Failure> {
    let place = Out::new("frequencies", out)?;
    let memory = SpanMut::new("memory", memory.cast::<u8>(), size)?;
    memory.region().apart_from(&read)?;
    memory
        .region()
        .apart_from(&[Region::of("frequencies", out)])?;
    let blocks = recipe.blocks()?;
    // SAFETY: the caller's promise; nothing that is read lies in it, as has just been checked.
    let memory = unsafe { memory.get(&[]) }?;
    let padding = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
    let needed = padding + size_of::<rope_frequencies>() + blocks * size_of::<FrequencyBlock>();
    let room = memory.get_mut(padding..needed).ok_or(Error::Storage {
        given: size,
        needed,
    })?;
    // SAFETY: aligned, long enough, and the caller's to give away.
    let handle = unsafe { recipe.place(room.as_mut_ptr(), blocks, false) }?;
    // SAFETY: the caller's pointer.
    unsafe { place.write(handle) };
    Ok(())
}

/// Bytes that rope_frequencies_init wants for `rotary_dim` channels, wherever the memory begins: what the macro
/// ROPE_FREQUENCIES_BYTES gives; 0 beyond ROPE_ROTARY_DIM_MAX.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_frequencies_bytes(rotary_dim: usize) -> usize {
    if rotary_dim > ROPE_ROTARY_DIM_MAX {
        return 0;
    }
    ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_BLOCK * FrequencyBlock::count(rotary_dim)
}

/// Makes frequencies in the caller's memory, for a base (rope_theta) and a scaling; NULL: none. Allocates nothing.
///
/// `memory` has `size` bytes, of any alignment; ROPE_FREQUENCIES_BYTES(rotary_dim) are enough. It is used until the
/// frequencies are not used any more, must not be moved, and needs no freeing. What it held is lost, even if the
/// call is refused.
///
/// Answers ROPE_STATUS_STORAGE if the memory is too short, ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES,
/// ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT, ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; no other may use the memory meanwhile.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call; `memory` as long as the frequencies are
/// used.
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
        // SAFETY: the caller's promise.
        unsafe { init(memory, size, base_recipe(axes, base, scaling)?, frequencies) }
    })
}

/// As rope_frequencies_init, from inverse frequencies (radians a position) of a model file or a training run:
/// `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. cos and sin are multiplied by
/// `attention_factor`; 1 where there is none.
///
/// Answers what rope_frequencies_init does.
///
/// # Threads
///
/// May be called from any thread; no other may use the memory meanwhile.
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
        // SAFETY: the caller's promise.
        unsafe {
            let recipe = inverse_recipe(axes, inverse, count, number, attention_factor)?;
            init(memory, size, recipe, frequencies)
        }
    })
}

/// What frequencies are like.
///
/// Answers ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_describe(
    frequencies: *const rope_frequencies,
    info: *mut rope_frequencies_info,
) -> rope_status {
    status_of(|| {
        let out = Out::new("info", info)?;
        // SAFETY: the caller's promise.
        let (frequencies, region) = unsafe { self::frequencies(frequencies) }?;
        Region::of("info", info).apart_from(&[region])?;
        let info = rope_frequencies_info {
            rotary_dim: frequencies.rotary_dim(),
            axes: frequencies.axes(),
            attention_factor: frequencies.attention_factor(),
            softmax_factor: frequencies.softmax_factor(),
        };
        // SAFETY: the caller's struct.
        unsafe { out.write(info) };
        Ok(())
    })
}

/// The inverse frequency of every pair in radians a position, correctly rounded: `rotary_dim / 2` numbers, of `len`
/// that there is room for.
///
/// Answers ROPE_STATUS_STORAGE if that is too short, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
/// ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_frequencies_inverse(
    frequencies: *const rope_frequencies,
    inverse: *mut f64,
    len: usize,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller's promise.
        let (frequencies, region) = unsafe { self::frequencies(frequencies) }?;
        let (given, needed) = (len, frequencies.rotary_dim() / 2);
        let inverse = SpanMut::new("inverse", inverse, len)?;
        if given < needed {
            return Err(Error::Storage { given, needed }.into());
        }
        // SAFETY: the caller's promise.
        let inverse = unsafe { inverse.cut(needed).get(&[region]) }?;
        for (to, pair) in inverse.iter_mut().zip(frequencies.pairs()) {
            *to = pair.inverse();
        }
        Ok(())
    })
}

/// Changes frequencies.
///
/// # Safety
///
/// As [`frequencies`], and nobody else uses them meanwhile.
unsafe fn change(
    handle: *mut rope_frequencies,
    how: impl FnOnce(Frequencies<'static>) -> Result<Frequencies<'static>, Error>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { check(handle) }?;
    // SAFETY: the caller's promise; the magic number has told that it was made here.
    let handle = unsafe { &mut *handle };
    handle.frequencies = how(handle.frequencies.clone())?;
    Ok(())
}

/// Sets which angle rows are made of (`enum rope_angle`); ROPE_ANGLE_EXACT unless it is set.
///
/// Answers ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE.
///
/// # Threads
///
/// May be called from any thread; no other may use the frequencies meanwhile.
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
        // SAFETY: the caller's promise.
        unsafe { change(frequencies, |frequencies| Ok(frequencies.with_angle(angle))) }
    })
}

/// Sets the backend that makes the rows (`enum rope_backend`): the same bits, another speed.
///
/// Answers ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_HANDLE.
///
/// # Threads
///
/// May be called from any thread; no other may use the frequencies meanwhile.
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
        // SAFETY: the caller's promise.
        unsafe { change(frequencies, |frequencies| frequencies.with_backend(backend)) }
    })
}

#[cfg(feature = "std")]
mod heap {
    use core::alloc::Layout;
    use core::ffi::c_void;

    use rope_core::{Frequencies, FrequencyBlock};
    use std::alloc::{alloc, dealloc};

    use super::{
        ALIGNMENT, MAGIC, Recipe, base_recipe, check, inverse_recipe, rope_axes, rope_frequencies,
        rope_scaling,
    };
    use crate::failure::Failure;
    use crate::memory::Out;
    use crate::status::{rope_status, status_of};

    /// Memory for a handle and blocks behind it.
    fn layout(blocks: usize) -> Result<Layout, Failure> {
        let bytes = size_of::<rope_frequencies>() + blocks * size_of::<FrequencyBlock>();
        Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Failure::OutOfMemory { bytes })
    }

    fn allocate(blocks: usize) -> Result<*mut u8, Failure> {
        let layout = layout(blocks)?;
        // SAFETY: a handle has a size.
        let memory = unsafe { alloc(layout) };
        match memory.is_null() {
            true => Err(Failure::OutOfMemory {
                bytes: layout.size(),
            }),
            false => Ok(memory),
        }
    }

    fn new(recipe: &Recipe<'_>) -> Result<*mut rope_frequencies, Failure> {
        let blocks = recipe.blocks()?;
        let memory = allocate(blocks)?;
        // SAFETY: aligned, long enough, and nobody else's.
        unsafe { recipe.place(memory, blocks, true) }.map_err(|error| {
            if let Ok(layout) = layout(blocks) {
                // SAFETY: it came from `alloc` with this layout, and nothing points into it.
                unsafe { dealloc(memory, layout) };
            }
            error.into()
        })
    }

    /// A handle for frequencies that own their blocks.
    pub(crate) fn own(frequencies: Frequencies<'static>) -> Result<*mut rope_frequencies, Failure> {
        let handle = allocate(0)?.cast::<rope_frequencies>();
        // SAFETY: there is room for a handle, and it is aligned.
        unsafe {
            handle.write(rope_frequencies {
                magic: MAGIC,
                bytes: size_of::<rope_frequencies>(),
                owned: true,
                frequencies,
            });
        }
        Ok(handle)
    }

    /// Makes frequencies for a base (rope_theta) and a scaling; NULL: none. To be freed by rope_frequencies_free.
    ///
    /// Answers ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_AXES, ROPE_STATUS_PARAMETER, ROPE_STATUS_COUNT,
    /// ROPE_STATUS_TOO_FAST, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
    /// ROPE_STATUS_LENGTH, ROPE_STATUS_OUT_OF_MEMORY.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or point to what they say, for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_frequencies_new(
        axes: *const rope_axes,
        base: f64,
        scaling: *const rope_scaling,
        frequencies: *mut *mut rope_frequencies,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("frequencies", frequencies)?;
            // SAFETY: the caller's promise.
            unsafe {
                let (recipe, _) = base_recipe(axes, base, scaling)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }

    /// As rope_frequencies_new, from inverse frequencies (radians a position) of a model file or a training run:
    /// `count` of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), one for each pair. cos and sin are multiplied
    /// by `attention_factor`; 1 where there is none.
    ///
    /// Answers what rope_frequencies_new does.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or point to what they say, for the length of the call.
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
            // SAFETY: the caller's promise.
            unsafe {
                let (recipe, _) = inverse_recipe(axes, inverse, count, number, attention_factor)?;
                out.write(new(&recipe)?);
            }
            Ok(())
        })
    }

    /// Frees frequencies that a call has made on the heap; NULL: nothing to do.
    ///
    /// Answers ROPE_STATUS_HANDLE for those of rope_frequencies_init, whose memory is the caller's, and for what is
    /// none; ROPE_STATUS_MISALIGNED. What was freed already cannot be told.
    ///
    /// # Threads
    ///
    /// May be called from any thread; no other may use the frequencies then or later.
    ///
    /// # Safety
    ///
    /// `frequencies` is NULL or of this library, and is not used any more.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_frequencies_free(
        frequencies: *mut rope_frequencies,
    ) -> rope_status {
        status_of(|| {
            if frequencies.is_null() {
                return Ok(());
            }
            // SAFETY: the caller's promise.
            unsafe { check(frequencies) }?;
            // SAFETY: the caller's promise; the magic number has told that it was made here.
            let handle = unsafe { &mut *frequencies };
            if !handle.owned {
                return Err(Failure::Handle);
            }
            handle.magic = 0;
            let layout =
                Layout::from_size_align(handle.bytes, ALIGNMENT).map_err(|_| Failure::Internal)?;
            // SAFETY: it was allocated with this layout, and its value is dropped once, here.
            unsafe {
                frequencies.drop_in_place();
                dealloc(frequencies.cast(), layout);
            }
            Ok(())
        })
    }
}
#[cfg(feature = "std")]
pub(crate) use heap::own;
#[cfg(feature = "std")]
pub use heap::{rope_frequencies_free, rope_frequencies_new, rope_frequencies_new_inverse};
