//! A loop compiled for the CPU's widest registers, and its conversions of f16.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(not(target_arch = "aarch64"))]
mod portable;
mod work;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use self::neon::run;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(crate) use self::portable::run;
pub(crate) use self::work::{Convert, LANES, Work};
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86::run;
