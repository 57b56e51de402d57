//! The functions of libtorch's stable C interface.

use std::ffi::{c_char, c_void};

/// A kernel as libtorch calls it: the stack begins with the inputs, which the kernel owns, and ends with the outputs in
/// their place.
pub(crate) type Entry = extern "C-unwind" fn(*mut u64, u64, u64);

pub(super) type Handle = *mut c_void;

unsafe extern "C" {
    pub(super) fn aoti_torch_device_type_cpu() -> i32;
    pub(super) fn aoti_torch_dtype_float32() -> i32;
    pub(super) fn aoti_torch_dtype_bfloat16() -> i32;
    pub(super) fn aoti_torch_dtype_float16() -> i32;
    pub(super) fn aoti_torch_dtype_float64() -> i32;
    pub(super) fn aoti_torch_dtype_int32() -> i32;
    pub(super) fn aoti_torch_dtype_int64() -> i32;
    pub(super) fn aoti_torch_dtype_uint8() -> i32;
    pub(super) fn aoti_torch_dtype_int8() -> i32;
    pub(super) fn aoti_torch_dtype_float8_e4m3fn() -> i32;
    pub(super) fn aoti_torch_dtype_element_size(dtype: i32) -> usize;
    pub(super) fn aoti_torch_get_device_type(tensor: Handle, value: *mut i32) -> i32;
    pub(super) fn aoti_torch_get_dtype(tensor: Handle, value: *mut i32) -> i32;
    pub(super) fn aoti_torch_get_dim(tensor: Handle, value: *mut i64) -> i32;
    pub(super) fn aoti_torch_get_sizes(tensor: Handle, value: *mut *const i64) -> i32;
    pub(super) fn aoti_torch_get_strides(tensor: Handle, value: *mut *const i64) -> i32;
    pub(super) fn aoti_torch_get_storage_offset(tensor: Handle, value: *mut i64) -> i32;
    pub(super) fn aoti_torch_get_storage_size(tensor: Handle, value: *mut i64) -> i32;
    pub(super) fn torch_get_const_data_ptr(tensor: Handle, value: *mut *const c_void) -> i32;
    pub(super) fn torch_get_mutable_data_ptr(tensor: Handle, value: *mut *mut c_void) -> i32;
    pub(super) fn aoti_torch_empty_strided(
        dim: i64,
        sizes: *const i64,
        strides: *const i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        tensor: *mut Handle,
    ) -> i32;
    pub(super) fn aoti_torch_copy_(tensor: Handle, source: Handle, non_blocking: i32) -> i32;
    pub(super) fn aoti_torch_delete_tensor_object(tensor: Handle) -> i32;
    pub(super) fn aoti_torch_new_tensor_handle(tensor: Handle, copy: *mut Handle) -> i32;
    pub(super) fn aoti_torch_is_defined(tensor: Handle, defined: *mut bool) -> i32;
    pub(super) fn torch_call_dispatcher(
        name: *const c_char,
        overload: *const c_char,
        stack: *mut u64,
        version: u64,
    ) -> i32;
    pub(super) fn torch_get_num_threads(threads: *mut u32) -> i32;
    pub(super) fn torch_parallel_for(
        begin: i64,
        end: i64,
        grain: i64,
        body: extern "C" fn(i64, i64, *mut c_void),
        context: *mut c_void,
    ) -> i32;
    pub(super) fn aoti_torch_library_init_def(
        namespace: *const c_char,
        file: *const c_char,
        line: u32,
        library: *mut Handle,
    ) -> i32;
    pub(super) fn aoti_torch_library_init_impl(
        namespace: *const c_char,
        key: *const c_char,
        file: *const c_char,
        line: u32,
        library: *mut Handle,
    ) -> i32;
    pub(super) fn aoti_torch_library_def(library: Handle, schema: *const c_char) -> i32;
    pub(super) fn torch_library_impl(
        library: Handle,
        name: *const c_char,
        entry: Entry,
        version: u64,
    ) -> i32;
}

unsafe extern "C-unwind" {
    /// libstdc++'s `std::__throw_runtime_error(char const*)`: the interface has no other way for a kernel to fail.
    #[link_name = "_ZSt21__throw_runtime_errorPKc"]
    pub(super) fn throw_runtime_error(message: *const c_char) -> !;
}
