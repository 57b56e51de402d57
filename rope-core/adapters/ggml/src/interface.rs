//! The structs by which a backend presents itself: `ggml-backend-impl.h`, of which `llama-cpp-sys-2` has no bindings.

use std::ffi::{c_char, c_int, c_void};

use llama_cpp_sys_2 as c;

/// `GGML_BACKEND_API_VERSION`.
pub(crate) const API_VERSION: c_int = 3;

/// An optional function that this backend lacks.
pub(crate) type Absent = Option<unsafe extern "C" fn()>;

/// `ggml_backend_reg`.
#[repr(C)]
pub(crate) struct Registration {
    pub(crate) api_version: c_int,
    pub(crate) get_name: extern "C" fn(c::ggml_backend_reg_t) -> *const c_char,
    pub(crate) get_device_count: extern "C" fn(c::ggml_backend_reg_t) -> usize,
    pub(crate) get_device: extern "C" fn(c::ggml_backend_reg_t, usize) -> c::ggml_backend_dev_t,
    pub(crate) get_proc_address: Absent,
    pub(crate) context: *mut c_void,
}

/// `ggml_backend_device`.
#[repr(C)]
pub(crate) struct Device {
    pub(crate) get_name: extern "C" fn(c::ggml_backend_dev_t) -> *const c_char,
    pub(crate) get_description: extern "C" fn(c::ggml_backend_dev_t) -> *const c_char,
    pub(crate) get_memory: unsafe extern "C" fn(c::ggml_backend_dev_t, *mut usize, *mut usize),
    pub(crate) get_type: extern "C" fn(c::ggml_backend_dev_t) -> c::ggml_backend_dev_type,
    pub(crate) get_props:
        unsafe extern "C" fn(c::ggml_backend_dev_t, *mut c::ggml_backend_dev_props),
    pub(crate) init_backend:
        extern "C" fn(c::ggml_backend_dev_t, *const c_char) -> c::ggml_backend_t,
    pub(crate) get_buffer_type:
        extern "C" fn(c::ggml_backend_dev_t) -> c::ggml_backend_buffer_type_t,
    pub(crate) get_host_buffer_type: Absent,
    pub(crate) buffer_from_host_ptr: Absent,
    pub(crate) supports_op:
        unsafe extern "C" fn(c::ggml_backend_dev_t, *const c::ggml_tensor) -> bool,
    pub(crate) supports_buft:
        unsafe extern "C" fn(c::ggml_backend_dev_t, c::ggml_backend_buffer_type_t) -> bool,
    pub(crate) offload_op: Absent,
    /// `event_new`, `event_free`, `event_synchronize`.
    pub(crate) events: [Absent; 3],
    pub(crate) registration: *const Registration,
    pub(crate) context: *mut c_void,
}

/// `ggml_backend`.
#[repr(C)]
pub(crate) struct Backend {
    pub(crate) guid: *const [u8; 16],
    pub(crate) get_name: extern "C" fn(c::ggml_backend_t) -> *const c_char,
    pub(crate) free: unsafe extern "C" fn(c::ggml_backend_t),
    /// The functions from `set_tensor_async` to `graph_plan_compute`.
    pub(crate) asynchronous: [Absent; 10],
    pub(crate) graph_compute:
        unsafe extern "C" fn(c::ggml_backend_t, *mut c::ggml_cgraph) -> c::ggml_status,
    /// `event_record`, `event_wait`, `graph_optimize`.
    pub(crate) events: [Absent; 3],
    pub(crate) device: *const Device,
    pub(crate) context: *mut c_void,
}

// SAFETY: no field of either struct is ever written.
unsafe impl Sync for Registration {}
// SAFETY: as above.
unsafe impl Sync for Device {}
