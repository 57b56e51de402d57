//! How to do the things that go wrong, one page each; [whole programs](programs); and [what the words mean](words).

#[doc = include_str!("guide/pairing.md")]
pub mod choosing_a_pairing {}

#[doc = include_str!("guide/weights.md")]
pub mod porting_weights {}

#[doc = include_str!("guide/kv_cache.md")]
pub mod kv_cache {}

#[doc = include_str!("guide/axes.md")]
pub mod several_axes {}

#[doc = include_str!("guide/embedded.md")]
pub mod embedded {}

#[doc = include_str!("guide/programs.md")]
pub mod programs {}

#[doc = include_str!("guide/words.md")]
pub mod words {}
