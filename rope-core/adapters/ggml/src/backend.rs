//! The functions that ggml calls: one registration with one device, whose backends compute graphs.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::ptr;

use llama_cpp_sys_2 as c;

use crate::interface::{API_VERSION, Backend, Device, Registration};
use crate::operator::{self, unsupported};

static REGISTRATION: Registration = Registration {
    api_version: API_VERSION,
    get_name: registration_name,
    get_device_count,
    get_device,
    get_proc_address: None,
    context: ptr::null_mut(),
};

static DEVICE: Device = Device {
    get_name: device_name,
    get_description,
    get_memory,
    get_type,
    get_props,
    init_backend,
    get_buffer_type,
    get_host_buffer_type: None,
    buffer_from_host_ptr: None,
    supports_op,
    supports_buft,
    offload_op: None,
    events: [None; 3],
    registration: &raw const REGISTRATION,
    context: ptr::null_mut(),
};

/// The reason why the backend was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The version of the structs of the program's ggml.
    pub api_version: c_int,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this ggml has version {} of the backend interface; the backend is for version {API_VERSION}",
            self.api_version
        )
    }
}

impl std::error::Error for Refused {}

/// Adds the device to those of this program's ggml. llama.cpp uses it for every context that is made later.
///
/// # Errors
///
/// [`Refused`], if ggml's structs have another version.
pub fn register() -> Result<(), Refused> {
    // SAFETY: the CPU is a device of every ggml, and its registration begins with the version.
    let api_version = unsafe {
        let cpu = c::ggml_backend_dev_by_type(c::GGML_BACKEND_DEVICE_TYPE_CPU);
        *c::ggml_backend_dev_backend_reg(cpu).cast::<c_int>()
    };
    if api_version != API_VERSION {
        return Err(Refused { api_version });
    }
    // SAFETY: the registration is of this version, and is static.
    unsafe { c::ggml_backend_register((&raw const REGISTRATION).cast_mut().cast()) };
    Ok(())
}

/// Returns the device, for a scheduler.
pub fn device() -> c::ggml_backend_dev_t {
    (&raw const DEVICE).cast_mut().cast()
}

extern "C" fn registration_name(_: c::ggml_backend_reg_t) -> *const c_char {
    c"rope-core".as_ptr()
}

extern "C" fn get_device_count(_: c::ggml_backend_reg_t) -> usize {
    1
}

extern "C" fn get_device(_: c::ggml_backend_reg_t, _: usize) -> c::ggml_backend_dev_t {
    device()
}

extern "C" fn device_name(_: c::ggml_backend_dev_t) -> *const c_char {
    c"rope-core".as_ptr()
}

extern "C" fn get_description(_: c::ggml_backend_dev_t) -> *const c_char {
    c"rope-core: rotations on the CPU".as_ptr()
}

/// A type of which llama.cpp takes every device beside the CPU.
extern "C" fn get_type(_: c::ggml_backend_dev_t) -> c::ggml_backend_dev_type {
    c::GGML_BACKEND_DEVICE_TYPE_ACCEL
}

extern "C" fn backend_name(_: c::ggml_backend_t) -> *const c_char {
    c"rope-core".as_ptr()
}

/// Returns no memory: the device has none of its own.
unsafe extern "C" fn get_memory(_: c::ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    // SAFETY: ggml passes the addresses of two numbers.
    unsafe { (*free, *total) = (0, 0) };
}

unsafe extern "C" fn get_props(
    device: c::ggml_backend_dev_t,
    properties: *mut c::ggml_backend_dev_props,
) {
    // SAFETY: ggml passes the address of a struct that may be written to.
    unsafe {
        properties.write(c::ggml_backend_dev_props {
            name: device_name(device),
            description: get_description(device),
            memory_free: 0,
            memory_total: 0,
            type_: get_type(device),
            device_id: ptr::null(),
            caps: c::ggml_backend_dev_caps {
                async_: false,
                host_buffer: false,
                buffer_from_host_ptr: false,
                events: false,
                mmap_support: false,
            },
        });
    }
}

extern "C" fn init_backend(_: c::ggml_backend_dev_t, _: *const c_char) -> c::ggml_backend_t {
    static GUID: [u8; 16] = *b"rope-core-backen";
    Box::into_raw(Box::new(Backend {
        guid: &raw const GUID,
        get_name: backend_name,
        free,
        asynchronous: [None; 10],
        graph_compute,
        events: [None; 3],
        device: &raw const DEVICE,
        context: ptr::null_mut(),
    }))
    .cast()
}

unsafe extern "C" fn free(backend: c::ggml_backend_t) {
    // SAFETY: it was made by `init_backend`, and ggml frees it once.
    drop(unsafe { Box::from_raw(backend.cast::<Backend>()) });
}

extern "C" fn get_buffer_type(_: c::ggml_backend_dev_t) -> c::ggml_backend_buffer_type_t {
    // SAFETY: it returns the address of a static.
    unsafe { c::ggml_backend_cpu_buffer_type() }
}

unsafe extern "C" fn supports_buft(
    _: c::ggml_backend_dev_t,
    buffer_type: c::ggml_backend_buffer_type_t,
) -> bool {
    // SAFETY: ggml passes one of its buffer types.
    unsafe { c::ggml_backend_buft_is_host(buffer_type) }
}

/// Returns true for operators that compute nothing, which every backend must accept.
fn is_view(op: c::ggml_op) -> bool {
    matches!(
        op,
        c::GGML_OP_NONE
            | c::GGML_OP_RESHAPE
            | c::GGML_OP_VIEW
            | c::GGML_OP_PERMUTE
            | c::GGML_OP_TRANSPOSE
    )
}

unsafe extern "C" fn supports_op(
    _: c::ggml_backend_dev_t,
    operator: *const c::ggml_tensor,
) -> bool {
    // SAFETY: ggml passes an operator of a graph, whose sources are those that its constructor gave it.
    let operator = unsafe { &*operator };
    // SAFETY: as above.
    is_view(operator.op) || unsafe { unsupported(operator) }.is_none()
}

unsafe extern "C" fn graph_compute(
    _: c::ggml_backend_t,
    graph: *mut c::ggml_cgraph,
) -> c::ggml_status {
    // SAFETY: ggml passes a graph of operators that `supports_op` accepted, with memory that the CPU may access.
    unsafe {
        for index in 0..c::ggml_graph_n_nodes(graph) {
            let node = &*c::ggml_graph_node(graph, index);
            // A graph may contain nodes that ggml does not want computed.
            if is_view(node.op) || node.flags & c::GGML_TENSOR_FLAG_COMPUTE as i32 == 0 {
                continue;
            }
            if let Err(reason) = operator::compute(node) {
                eprintln!("rope-core: {reason}");
                return c::GGML_STATUS_FAILED;
            }
        }
    }
    c::GGML_STATUS_SUCCESS
}
