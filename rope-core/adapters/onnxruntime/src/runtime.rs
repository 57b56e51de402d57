//! ONNX Runtime's C API as safe calls. All that is `unsafe` is here.

#![allow(
    unsafe_code,
    reason = "functions of the C API are unsafe to call, and its callbacks get pointers"
)]

mod call;
mod element;
mod failure;
mod node;
mod register;
mod table;

use core::ptr::NonNull;

use ort_sys::OrtApi;

pub(crate) use call::{Buffers, Call, Input, Inputs, Scalar, Threads};
pub(crate) use element::ElementType;
pub(crate) use failure::{Failure, Result, invalid};
pub(crate) use node::Node;
pub(crate) use table::{Declaration, Kernel, Parameter};

/// The functions of the runtime that loaded this library.
#[derive(Clone, Copy, Debug)]
struct Api {
    /// A table that ends with the functions of `version`, so no reference to an [`OrtApi`] is made.
    functions: NonNull<OrtApi>,
    version: u32,
}

// SAFETY: the table is constant and lives as long as the runtime.
unsafe impl Send for Api {}
// SAFETY: as above, and its functions may be called from any thread.
unsafe impl Sync for Api {}

impl Api {
    /// The version of which functions are called if the runtime has it; and the oldest that has all that are required.
    const NEWEST: u32 = 24;
    const OLDEST: u32 = 17;
}

/// `checked!(api, Function(arguments))`: calls a function of an [`Api`], and makes its status a [`Result`].
macro_rules! checked {
    ($api:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let api: $crate::runtime::Api = $api;
        // SAFETY: the table has the function, which is one of `Api::OLDEST` or was looked for by version. The
        // arguments are pointers that the runtime passed in or that it returned, and places for what it returns.
        let status = unsafe { ((*api.functions.as_ptr()).$function)($($argument),*) };
        api.check(status)
    }};
}
use checked;
