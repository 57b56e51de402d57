//! Versions of tensors, which count writes: a backward pass that saved a tensor reads its version, and refuses a tensor
//! that was written since. Kernels registered for the CPU alone have to count by themselves.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use super::interface::{Failure, RawTensor, Result, VERSION, succeeded};
use super::sys;

/// C++ functions of libtorch that are not in its stable interface.
struct Shortcut {
    /// `bool at::native::is_inference(const at::Tensor&)`
    is_inference: unsafe extern "C-unwind" fn(sys::Handle) -> bool,
    /// `bool c10::InferenceMode::is_enabled()`
    is_inference_mode: unsafe extern "C-unwind" fn() -> bool,
    /// `void torch::autograd::impl::bump_version(const at::Tensor&)`
    bump_version: unsafe extern "C-unwind" fn(sys::Handle),
}

static SHORTCUT: OnceLock<Shortcut> = OnceLock::new();

/// Finds the functions, if libtorch has them all.
pub(super) fn find_shortcut() {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        }
        let names = [
            c"_ZN2at6native12is_inferenceERKNS_6TensorE",
            c"_ZN3c1013InferenceMode10is_enabledEv",
            c"_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
        ];
        // SAFETY: a null pointer stands for the libraries that this one needs.
        let found = names.map(|name| unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) });
        if found.iter().all(|function| !function.is_null()) {
            let [is_inference, is_inference_mode, bump_version] = found;
            // SAFETY: the names have the types of the arguments; both results are a `bool` by the name's declaration. A
            // handle is a pointer to an `at::Tensor`, as a reference is.
            let shortcut = unsafe {
                Shortcut {
                    is_inference: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn(sys::Handle) -> bool,
                    >(is_inference),
                    is_inference_mode: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn() -> bool,
                    >(is_inference_mode),
                    bump_version: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C-unwind" fn(sys::Handle),
                    >(bump_version),
                }
            };
            SHORTCUT.get_or_init(|| shortcut);
        }
    }
}

/// Refuses a tensor of `torch.inference_mode()` outside of that mode, where it must not be written.
pub(super) fn refuse(tensor: &RawTensor, name: &str) -> Result<()> {
    let is_frozen = match SHORTCUT.get() {
        // SAFETY: the handle is valid, and the functions read flags.
        Some(shortcut) => unsafe {
            (shortcut.is_inference)(tensor.0) && !(shortcut.is_inference_mode)()
        },
        // A tensor that is made in the mode belongs to it.
        None => is_inference(tensor)? && !is_inference(&new_scalar()?)?,
    };
    match is_frozen {
        false => Ok(()),
        true => Err(Failure::new(format!(
            "{name} is a tensor of torch.inference_mode(), which nothing may write outside of that mode; clone it, or \
             use the function that returns a new tensor"
        ))),
    }
}

/// Counts a write to a tensor that [`refuse`] accepted.
pub(super) fn count_write(tensor: &RawTensor) -> Result<()> {
    match SHORTCUT.get() {
        // SAFETY: the handle is valid. The function fails for tensors that `refuse` refuses alone.
        Some(shortcut) => unsafe { (shortcut.bump_version)(tensor.0) },
        None => {
            // A tensor without the history and a view without elements share the version.
            let detached = call(c"aten::detach", c"", [owned(tensor)?])?;
            let flat = call(c"aten::unsqueeze", c"", [detached, 0])?;
            let nothing = call(c"aten::narrow", c"", [flat, 0, 0, 0])?;
            drop(RawTensor::take(call(c"aten::zero_", c"", [nothing])?));
        }
    }
    Ok(())
}

/// A reference for a stack to own.
fn owned(tensor: &RawTensor) -> Result<u64> {
    let mut own = std::ptr::null_mut();
    // SAFETY: the handle is valid.
    let status = unsafe { sys::aoti_torch_new_tensor_handle(tensor.0, &mut own) };
    succeeded(status, "new_tensor_handle")?;
    Ok(own as u64)
}

/// Calls an operator whose first argument, which it owns, is a tensor, and others integers; returns its only result.
fn call<const N: usize>(
    name: &std::ffi::CStr,
    overload: &std::ffi::CStr,
    mut stack: [u64; N],
) -> Result<u64> {
    // SAFETY: the callers pass what the schemas of these operators declare; the result takes the first place.
    let status = unsafe {
        sys::torch_call_dispatcher(
            name.as_ptr(),
            overload.as_ptr(),
            stack.as_mut_ptr(),
            VERSION,
        )
    };
    succeeded(status, "call_dispatcher")?;
    Ok(stack.first().copied().unwrap_or_default())
}

fn is_inference(tensor: &RawTensor) -> Result<bool> {
    // A `bool` on the stack is its lowest byte.
    Ok(call(c"aten::is_inference", c"", [owned(tensor)?])? & 0xff != 0)
}

fn new_scalar() -> Result<RawTensor> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: no numbers are read of lists without any, and the type is one that libtorch has named.
    let status = unsafe {
        sys::aoti_torch_empty_strided(
            0,
            std::ptr::NonNull::dangling().as_ptr(),
            std::ptr::NonNull::dangling().as_ptr(),
            sys::aoti_torch_dtype_float32(),
            sys::aoti_torch_device_type_cpu(),
            0,
            &mut handle,
        )
    };
    succeeded(status, "empty_strided")?;
    Ok(RawTensor(handle))
}
