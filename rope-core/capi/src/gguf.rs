//! Models, from the bytes of GGUF files.

use core::ffi::c_char;

use std::boxed::Box;

use rope_models::Gguf;

use crate::config::{rope_model, text};
use crate::handle::own;
use crate::memory::{Out, Span, plain, read};
use crate::status::{rope_status, status_of};

/// Bytes in the caller's memory: a file that was read, or mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_bytes {
    /// The first byte; NULL: none.
    pub data: *const u8,
    /// The number of bytes.
    pub length: usize,
}
plain!(rope_bytes);

/// The answers to questions that a GGUF file leaves open. A member at zero leaves its question open too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_gguf {
    /// The other parts of a file that was split, in any order; NULL: none. They matter if the first part does not list
    /// the tensor of factors.
    pub parts: *const rope_bytes,
    /// Their number.
    pub part_count: usize,
    /// Keys of the file ("llama.rope.freq_scale"), separated by commas, that count as if they were not there; NULL:
    /// none. The text ends with a NUL.
    pub without: *const c_char,
    /// The context of a sequence, which decides between rope_factors_long.weight and rope_factors_short.weight; 0: the
    /// file's context_length.
    pub context: u64,
    /// Factors that replace the file's tensors; NULL: the file's.
    pub freq_factors: *const f32,
    /// Their number. 0 with a `freq_factors` that is not NULL: the model has no factors.
    pub freq_factor_count: usize,
}
plain!(rope_gguf);

/// Reads the bytes of a GGUF file, of version 2 or 3 in either byte order, into the rotation of each layer.
/// rope_model_free frees the model, which needs the bytes no longer.
///
/// Header, keys and the list of tensors are read, and of the tensors' data rope_freqs.weight, rope_factors_long.weight
/// and rope_factors_short.weight; the bytes after them may be left out. Of a file that was split, `data` is the first
/// part. `gguf` has the answers that the file lacks, or is NULL.
///
/// Returns ROPE_STATUS_GGUF if the bytes are not a GGUF file, or end before the rotation's keys;
/// ROPE_STATUS_MISSING, ROPE_STATUS_INVALID, ROPE_STATUS_UNKNOWN, ROPE_STATUS_UNSUPPORTED (rope_error_detail tells the
/// key), ROPE_STATUS_UTF8, and what rope_frequencies_new returns. The call cannot report a lack of memory: the process
/// ends if the system gives none for reading the file.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_model_from_gguf(
    data: *const u8,
    length: usize,
    gguf: *const rope_gguf,
    model: *mut *mut rope_model,
) -> rope_status {
    status_of(|| {
        let out = Out::new("model", model)?;
        // SAFETY: the caller promises that pointers are null or valid during the call.
        let mut file = Gguf::from_bytes(unsafe { Span::new("data", data, length)?.get() })?;
        if !gguf.is_null() {
            // SAFETY: the caller promises that pointers are null or valid during the call.
            let (gguf, without, parts, factors) = unsafe {
                let gguf = read("gguf", gguf)?;
                (
                    gguf,
                    text("without", gguf.without)?,
                    Span::new("parts", gguf.parts, gguf.part_count)?.get(),
                    Span::new("freq_factors", gguf.freq_factors, gguf.freq_factor_count)?.get(),
                )
            };
            for part in parts {
                // SAFETY: the caller promises that pointers are null or valid during the call.
                let bytes = unsafe { Span::new("part.data", part.data, part.length)?.get() };
                file = file.with_part(bytes)?;
            }
            for key in without.into_iter().flat_map(|keys| keys.split(',')) {
                file = file.without(key.trim());
            }
            if gguf.context != 0 {
                file = file.with_context(gguf.context);
            }
            if !gguf.freq_factors.is_null() {
                file = file.with_freq_factors((!factors.is_empty()).then_some(factors));
            }
        }
        let made = file.model()?;
        made.layers()?;
        let handle = own(Box::new(made))?;
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(handle) };
        Ok(())
    })
}
