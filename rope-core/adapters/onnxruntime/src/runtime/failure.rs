//! Failures: statuses of the runtime, refusals, panics.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ort_sys::{OrtErrorCode, OrtStatusPtr};
use rope_core::internals::Renamed;

use super::Api;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a session is not made, or a call is not run.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: OrtErrorCode,
    message: Cow<'static, str>,
}

/// A refusal of what a model or a caller has passed in.
pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Failure {
    Failure {
        code: OrtErrorCode::ORT_INVALID_ARGUMENT,
        message: message.into(),
    }
}

impl From<rope_core::Error> for Failure {
    fn from(error: rope_core::Error) -> Self {
        let named = Renamed {
            text: error,
            names: crate::dialect::NAMES,
        };
        invalid(named.to_string())
    }
}

impl Failure {
    /// The same, with the name of what it is about before the message.
    pub(super) fn of(self, what: &str) -> Self {
        Failure {
            message: format!("{what}: {}", self.message).into(),
            ..self
        }
    }

    /// The status that the runtime takes over.
    pub(super) fn into_status(self, api: Api) -> OrtStatusPtr {
        let message = CString::new(self.message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: every version has the function, which copies the message.
        unsafe { ((*api.functions.as_ptr()).CreateStatus)(self.code, message.as_ptr()) }
    }
}

impl Api {
    /// A status of the runtime as a result.
    pub(super) fn check(self, status: OrtStatusPtr) -> Result<()> {
        if status.0.is_null() {
            return Ok(());
        }
        let functions = self.functions.as_ptr();
        // SAFETY: every version has these functions. The message is copied before its status is released, once.
        unsafe {
            let code = ((*functions).GetErrorCode)(status.0);
            let message = CStr::from_ptr(((*functions).GetErrorMessage)(status.0));
            let message = message.to_string_lossy().into_owned().into();
            ((*functions).ReleaseStatus)(status.0);
            Err(Failure { code, message })
        }
    }
}

/// Runs what the runtime calls: nothing unwinds into its frames.
pub(super) fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let why = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Err(Failure {
            code: OrtErrorCode::ORT_RUNTIME_EXCEPTION,
            message: format!("rope-onnxruntime panicked, which is a bug in it: {why}").into(),
        })
    })
}

/// The status of what [`guarded`] ran.
pub(super) fn status(api: Api, run: impl FnOnce() -> Result<()>) -> OrtStatusPtr {
    match guarded(run) {
        Ok(()) => OrtStatusPtr::default(),
        Err(failure) => failure.into_status(api),
    }
}
