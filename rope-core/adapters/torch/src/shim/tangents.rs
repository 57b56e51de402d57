//! Tangents of `torch.autograd.forward_ad`. The arguments of a kernel may have them and its results have none, so a
//! kernel would lose them in silence.

use std::ffi::c_void;
use std::sync::OnceLock;

use super::interface::{Failure, RawTensor, Result, VERSION, succeeded, written};
use super::sys;

/// Refuses a tensor that has a tangent.
pub(super) fn refuse(tensor: &RawTensor, name: &str) -> Result<()> {
    if may_have_tangent(tensor)? && has_tangent(tensor)? {
        return Err(Failure::new(format!(
            "{name} has a tangent (torch.autograd.forward_ad), which operators do not rotate; call the functions of \
             rope_kernels, or pass {name}.detach()"
        )));
    }
    Ok(())
}

/// Calls `_unpack_dual` by the dispatcher, which takes half a microsecond.
fn has_tangent(tensor: &RawTensor) -> Result<bool> {
    let mut own = std::ptr::null_mut();
    // SAFETY: the handle is valid.
    let status = unsafe { sys::aoti_torch_new_tensor_handle(tensor.0, &mut own) };
    succeeded(status, "new_tensor_handle")?;
    let level = 0;
    let mut stack = [own as u64, level];
    let name = c"aten::_unpack_dual".as_ptr();
    // SAFETY: the operator takes a tensor, which the stack owns, and the level, and returns two tensors.
    let status =
        unsafe { sys::torch_call_dispatcher(name, c"".as_ptr(), stack.as_mut_ptr(), VERSION) };
    succeeded(status, "_unpack_dual")?;
    let [_primal, tangent] = stack.map(RawTensor::take);
    is_defined(tangent.0)
}

fn is_defined(tensor: sys::Handle) -> Result<bool> {
    // SAFETY: the handle is valid.
    written("is_defined", |p| unsafe {
        sys::aoti_torch_is_defined(tensor, p)
    })
}

/// `const at::Tensor& c10::TensorImpl::_fw_grad(uint64_t level, const at::TensorBase& self) const`
type FwGrad = unsafe extern "C-unwind" fn(*const c_void, u64, *const c_void) -> *mut c_void;

/// A C++ function, which is in every libtorch since 1.11 and not in its stable interface.
static SHORTCUT: OnceLock<FwGrad> = OnceLock::new();

/// Finds the function that [`may_have_tangent`] calls, if libtorch has it.
pub(super) fn find_shortcut() {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn dlsym(handle: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
        }
        let name = c"_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE";
        // SAFETY: a null pointer stands for the libraries that this one needs.
        let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
        if !found.is_null() {
            // SAFETY: the name has the types of the arguments, and the function has always returned a reference.
            let function = unsafe { std::mem::transmute::<*mut c_void, FwGrad>(found) };
            SHORTCUT.get_or_init(|| function);
        }
    }
}

/// Returns whether a call of [`has_tangent`] is needed, in some nanoseconds.
fn may_have_tangent(tensor: &RawTensor) -> Result<bool> {
    let Some(fw_grad) = SHORTCUT.get() else {
        return Ok(true);
    };
    // SAFETY: a handle is a pointer to an `at::Tensor`, which is a pointer to its `TensorImpl`. The reference that is
    // returned lives as long as the tensor, and is a handle, too.
    is_defined(unsafe { fw_grad(*tensor.0.cast::<*const c_void>(), 0, tensor.0) })
}
