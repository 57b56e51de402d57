//! The attributes of a node, when its session is made.

use std::ffi::{CStr, c_char};
use std::ptr::{NonNull, null, null_mut};

use ort_sys::OrtKernelInfo;

use super::call::Constant;
use super::{Api, Failure, Result, checked, invalid};

/// A node of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    api: Api,
    info: NonNull<OrtKernelInfo>,
}

impl Node {
    /// # Safety
    ///
    /// `info` is that of a node whose kernel is being made, for as long as the result is used.
    pub(super) unsafe fn new(api: Api, info: NonNull<OrtKernelInfo>) -> Self {
        Node { api, info }
    }

    /// An attribute that is one integer.
    pub(crate) fn integer(&self, name: &CStr) -> Result<Option<i64>> {
        let mut value = 0;
        self.read(name, "an integer", self.read_integer(name, &mut value))
            .map(|there| there.then_some(value))
    }

    /// An attribute that is one number.
    pub(crate) fn number(&self, name: &CStr) -> Result<Option<f32>> {
        let mut value = 0.0;
        self.read(name, "a float", self.read_number(name, &mut value))
            .map(|there| there.then_some(value))
    }

    /// An attribute that is a list of numbers.
    pub(crate) fn numbers(&self, name: &CStr) -> Result<Option<Vec<f32>>> {
        let mut values = Vec::new();
        self.read(name, "floats", self.read_numbers(name, &mut values))
            .map(|there| there.then_some(values))
    }

    /// An attribute that is a text.
    pub(crate) fn text(&self, name: &CStr) -> Result<Option<String>> {
        let mut value = String::new();
        self.read(name, "a string", self.read_text(name, &mut value))
            .map(|there| there.then_some(value))
    }

    /// Input `index`, if it is an initializer that no run can replace. The kernel is not used longer than it.
    pub(super) fn constant(&self, index: usize) -> Result<Option<Constant>> {
        let (mut is_constant, mut value) = (0, null());
        checked!(
            self.api,
            KernelInfoGetConstantInput_tensor(
                self.info.as_ptr(),
                index,
                &mut is_constant,
                &mut value
            )
        )?;
        if is_constant == 0 || value.is_null() {
            return Ok(None);
        }
        // SAFETY: the runtime keeps the initializers of a session as long as its kernels.
        unsafe { Constant::new(self.api, value) }.map(Some)
    }

    /// The name that the model gives the node, for messages.
    fn name(&self) -> String {
        let info = self.info.as_ptr();
        let name =
            text(|bytes, size| checked!(self.api, KernelInfo_GetNodeName(info, bytes, size)));
        name.unwrap_or_default()
    }

    /// True if an attribute was read. One that was not is absent, or has another type: nobody else looks, as a custom
    /// operator's attributes are declared nowhere.
    fn read(&self, name: &CStr, required: &str, done: Result<()>) -> Result<bool> {
        if done.is_ok() {
            return Ok(true);
        }
        let has_another_type = self.read_integer(name, &mut 0).is_ok()
            || self.read_number(name, &mut 0.0).is_ok()
            || self.read_text(name, &mut String::new()).is_ok()
            || self.read_numbers(name, &mut Vec::new()).is_ok()
            || self.read_integers(name).is_ok();
        if has_another_type {
            let name = name.to_string_lossy();
            return Err(invalid(format!(
                "{name} has another type; it must be {required}"
            )));
        }
        Ok(false)
    }

    fn read_integer(&self, name: &CStr, value: &mut i64) -> Result<()> {
        let info = self.info.as_ptr();
        checked!(
            self.api,
            KernelInfoGetAttribute_int64(info, name.as_ptr(), value)
        )
    }

    fn read_number(&self, name: &CStr, value: &mut f32) -> Result<()> {
        let info = self.info.as_ptr();
        checked!(
            self.api,
            KernelInfoGetAttribute_float(info, name.as_ptr(), value)
        )
    }

    fn read_numbers(&self, name: &CStr, values: &mut Vec<f32>) -> Result<()> {
        let (info, mut size) = (self.info.as_ptr(), 0);
        checked!(
            self.api,
            KernelInfoGetAttributeArray_float(info, name.as_ptr(), null_mut(), &mut size)
        )?;
        values.resize(size, 0.0);
        checked!(
            self.api,
            KernelInfoGetAttributeArray_float(info, name.as_ptr(), values.as_mut_ptr(), &mut size)
        )
    }

    fn read_integers(&self, name: &CStr) -> Result<()> {
        let (info, mut size) = (self.info.as_ptr(), 0);
        checked!(
            self.api,
            KernelInfoGetAttributeArray_int64(info, name.as_ptr(), null_mut(), &mut size)
        )
    }

    fn read_text(&self, name: &CStr, value: &mut String) -> Result<()> {
        let info = self.info.as_ptr();
        *value = text(|bytes, size| {
            checked!(
                self.api,
                KernelInfoGetAttribute_string(info, name.as_ptr(), bytes, size)
            )
        })?;
        Ok(())
    }

    /// A refusal that names the node.
    pub(super) fn refused(&self, operator: &CStr, failure: Failure) -> Failure {
        failure.of(&format!(
            "{} node '{}'",
            operator.to_string_lossy(),
            self.name()
        ))
    }
}

/// A text of the runtime: `read` is called for its size, then for its bytes.
fn text(read: impl Fn(*mut c_char, &mut usize) -> Result<()>) -> Result<String> {
    let mut size = 0;
    read(null_mut(), &mut size)?;
    let mut bytes = vec![0_u8; size];
    read(bytes.as_mut_ptr().cast(), &mut size)?;
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
