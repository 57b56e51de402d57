//! The function that the runtime calls when it has loaded this library.

use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;

use ort_sys::{OrtApi, OrtApiBase, OrtCustomOpDomain, OrtSessionOptions, OrtStatusPtr};

use super::failure::status;
use super::table::Entry;
use super::{Api, ElementType, Result, checked, invalid};
use crate::operators::DOMAINS;

/// Adds the operators to the options of a session.
///
/// # Safety
///
/// ONNX Runtime calls it, as `SessionOptions.register_custom_ops_library` does, with its own pointers.
#[allow(non_snake_case, reason = "the name that ONNX Runtime looks for")]
#[unsafe(no_mangle)]
pub(super) unsafe extern "system" fn RegisterCustomOps(
    options: *mut OrtSessionOptions,
    base: *const OrtApiBase,
) -> OrtStatusPtr {
    let Some(base) = NonNull::new(base.cast_mut()) else {
        return OrtStatusPtr(null_mut());
    };
    // SAFETY: the runtime passes its functions.
    let (api, version) = unsafe { api(base) };
    let Some(api) = api else {
        return OrtStatusPtr(null_mut());
    };
    status(api, || {
        if api.version < Api::OLDEST {
            return Err(invalid(format!(
                "ONNX Runtime is {version}; rope-onnxruntime requires 1.{} or newer",
                Api::OLDEST
            )));
        }
        for domain in domains(base, api)? {
            checked!(api, AddCustomOpDomain(options, domain.as_ptr()))?;
        }
        Ok(())
    })
}

/// The functions of a runtime, and its version in words. The version is read first: asked for the functions of a newer
/// one, a runtime prints to the standard error.
///
/// # Safety
///
/// `base` is that of a runtime.
unsafe fn api(base: NonNull<OrtApiBase>) -> (Option<Api>, String) {
    // SAFETY: the runtime's table, whose functions return texts and tables that live as long as it.
    let (version, functions) = unsafe {
        let base = base.as_ref();
        let version = CStr::from_ptr((base.GetVersionString)())
            .to_string_lossy()
            .into_owned();
        let minor = version
            .strip_prefix("1.")
            .and_then(|rest| rest.split('.').next()?.parse().ok());
        // What an older runtime, or one of another numbering, returns a status with.
        let asked = minor.map_or(1, |minor: u32| minor.clamp(1, Api::NEWEST));
        (
            version,
            NonNull::new((base.GetApi)(asked).cast_mut()).map(|table| (table, asked)),
        )
    };
    let api =
        functions.map(|(functions, version): (NonNull<OrtApi>, u32)| Api { functions, version });
    (api, version)
}

/// The domains of a runtime, made once: sessions use them, and nothing says when the last one is gone.
fn domains(base: NonNull<OrtApiBase>, api: Api) -> Result<Vec<NonNull<OrtCustomOpDomain>>> {
    static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(made) = made.iter().find(|made| made.base == base) {
        return Ok(made.domains.clone());
    }
    let mut domains = Vec::new();
    for (name, declarations) in DOMAINS {
        let mut domain = null_mut();
        checked!(api, CreateCustomOpDomain(name.as_ptr(), &mut domain))?;
        for declaration in *declarations {
            for element in ElementType::ROTATED {
                let entry = Box::leak(Box::new(Entry::new(api, declaration, element)));
                checked!(api, CustomOpDomain_Add(domain, entry.table()))?;
            }
        }
        domains.push(NonNull::new(domain).ok_or_else(|| invalid("a domain is null"))?);
    }
    made.push(Made {
        base,
        domains: domains.clone(),
    });
    Ok(domains)
}

struct Made {
    base: NonNull<OrtApiBase>,
    domains: Vec<NonNull<OrtCustomOpDomain>>,
}

// SAFETY: the runtime's own, which live as long as it and are only passed back to it.
unsafe impl Send for Made {}
