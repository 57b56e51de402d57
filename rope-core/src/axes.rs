//! Positions with more than one axis: images, video, and frequencies that mix the axes.
//!
//! [`Axes`] assigns one axis to each pair of channels, by the rule of a model. The result is a
//! [`Frequencies`](crate::Frequencies) as for text, with one position per axis. In [`MixedFrequencies`] the angle
//! depends on all axes at once, separately for each pair of each head.
//!
//! ```
//! # #[cfg(feature = "alloc")] {
//! use rope_core::axes::Axes;
//! use rope_core::{Frequencies, Pairing, Positions, Rope, Scaling, TensorMut};
//!
//! // Qwen2-VL: of 64 pairs, 16 rotate by the frame, 24 by the row and 24 by the column.
//! let axes = Axes::mrope(128, [16, 24, 24]);
//! let frequencies = Frequencies::new(axes, 1_000_000.0, &Scaling::Default)?;
//!
//! // Two tokens, each with its frame, row and column.
//! let positions = [[0_i64, 1, 4], [0, 1, 5]];
//! let rows = frequencies.rows(Positions::token_major(positions.as_flattened()))?;
//!
//! let mut q = vec![1.0_f32; 2 * 8 * 128];
//! Rope::new(Pairing::Half).rotate(&mut TensorMut::new(&mut q, [1, 2, 8, 128])?, &rows)?;
//! # }
//! # Ok::<(), rope_core::Error>(())
//! ```

pub use crate::describe::frequencies::{Axes, MixedAngle, MixedFrequencies};
