//! Rotary position embedding (RoPE): rotate the pairs of x by the angles of its positions.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod backend;
#[cfg(all(
    any(target_arch = "x86", target_arch = "x86_64"),
    target_feature = "sse2"
))]
#[allow(unsafe_code, reason = "reads XCR0")]
mod cpu;
mod element;
mod error;
mod frequencies;
mod kernel;
mod pairing;
#[cfg(feature = "rayon")]
mod parallel;
mod positions;
mod rope;
mod rows;
#[allow(
    unsafe_code,
    reason = "enters instruction sets, and calls their intrinsics"
)]
mod simd;
mod tensor;

pub use backend::Backend;
pub use element::Element;
pub use error::{Error, Name};
#[cfg(feature = "serde")]
pub use frequencies::Config;
pub use frequencies::{
    Angle, Axes, Frequencies, Frequency, FrequencyBlock, Gguf, GgufValue, LongRope, Scaling, Yarn,
};
pub use pairing::Pairing;
pub use positions::{Coordinates, Positions};
pub use rope::{Direction, Rope};
pub use rows::{Ids, Rows};
pub use tensor::{Dimension, IntoLayout, Layout, Shape, Strides, Tensor, TensorMut};
