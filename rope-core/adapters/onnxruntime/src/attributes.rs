//! Attributes that several operators have.

use std::ffi::CStr;

use rope_core::Pairing;

use crate::runtime::{Node, Result, invalid};

/// A count: 0 where the model does not say.
pub(crate) fn count(node: &Node, name: &CStr) -> Result<usize> {
    let value = node.integer(name)?.unwrap_or(0);
    usize::try_from(value).map_err(|_| {
        let name = name.to_string_lossy();
        invalid(format!(
            "{name} is {value}; it must be 0 (not given) or positive"
        ))
    })
}

/// A switch: off where the model does not say.
pub(crate) fn switch(node: &Node, name: &CStr) -> Result<bool> {
    match node.integer(name)?.unwrap_or(0) {
        0 => Ok(false),
        1 => Ok(true),
        value => {
            let name = name.to_string_lossy();
            Err(invalid(format!("{name} is {value}; it must be 0 or 1")))
        }
    }
}

pub(crate) fn pairing(node: &Node) -> Result<Pairing> {
    Ok(match switch(node, c"interleaved")? {
        true => Pairing::Interleaved,
        false => Pairing::Half,
    })
}
