//! The registered operators.

use std::ffi::CStr;

use crate::runtime::Declaration;
use crate::{embedding, exact};

/// The domains, by the names that models have for them, and their operators. ONNX's own is the empty name.
pub(crate) const DOMAINS: &[(&CStr, &[Declaration])] = &[
    (c"com.microsoft", &[embedding::CONTRIBUTED]),
    (c"", &[embedding::STANDARD]),
    (c"rope", &[exact::ROTATE, exact::NORM_ROTATE]),
    #[cfg(feature = "probes")]
    (c"rope.test", &[crate::probes::PANIC, crate::probes::PLACE]),
];
