//! A handle of a tensor, and failures of libtorch's functions.

use std::ffi::c_void;

use rope_core::internals::Renamed;

use super::sys;
use crate::dialect::NAMES;

/// The reason why a call failed, in a sentence; Python sees it as a `RuntimeError`.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Failure(sentence.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let named = Renamed {
            text: error,
            names: NAMES,
        };
        Failure(named.to_string())
    }
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The version of the interface that this file declares: 2.10, as libtorch packs it.
pub(super) const VERSION: u64 = (2 << 56) | (10 << 48);

/// Turns a status of libtorch, which has printed the reason, into a failure.
pub(super) fn succeeded(status: i32, call: &str) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(Failure::new(format!("libtorch's {call} failed"))),
    }
}

/// The value that a call writes through a pointer.
pub(super) fn written<T: Default>(call: &str, function: impl FnOnce(*mut T) -> i32) -> Result<T> {
    let mut value = T::default();
    succeeded(function(&mut value), call)?;
    Ok(value)
}

/// A reference to a tensor of which nothing is known.
#[derive(Debug)]
pub(crate) struct RawTensor(pub(super) *mut c_void);

impl Drop for RawTensor {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the handle is owned and deleted once, here.
            unsafe { sys::aoti_torch_delete_tensor_object(self.0) };
        }
    }
}

impl RawTensor {
    /// Takes what the stack has for a tensor.
    pub(crate) fn take(value: u64) -> Self {
        RawTensor(value as *mut c_void)
    }

    /// Where the first element of a tensor lies that has elements.
    pub(super) fn data(&self, name: &str, mutable: bool) -> Result<*mut u8> {
        let mut data = std::ptr::null_mut::<c_void>();
        // SAFETY: the handle is valid. A pointer that is to be read only is written through nowhere.
        let status = unsafe {
            match mutable {
                true => sys::torch_get_mutable_data_ptr(self.0, &mut data),
                false => sys::torch_get_const_data_ptr(self.0, (&raw mut data).cast()),
            }
        };
        succeeded(status, "data_ptr")?;
        match data.is_null() {
            true => Err(Failure::new(format!("{name} has no memory"))),
            false => Ok(data.cast()),
        }
    }
}
