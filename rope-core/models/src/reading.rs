//! Reads a configuration by its row of the table.
//!
//! `place.rs` finds the part of the file. `parameters.rs` determines the rope parameters as transformers does,
//! `rules.rs` the types of the layers, and `variants.rs` the layers that rotate, with their differences. `rotation.rs`
//! computes the rotation of one variant, with `shape.rs` (heads), `scaling.rs` and `axes.rs`. `norms.rs` reads the
//! norm. `results.rs` reads both for all layers. `children.rs`, `unread.rs` and `patterns.rs` compare the keys that no
//! code reads with the result, `unrotated.rs` those of a type without a rotation, and `notes.rs` collects them.
//! `unknown.rs` reads base and scaling alone.

mod axes;
mod children;
mod input;
mod layer_types;
mod norms;
mod notes;
mod parameters;
mod patterns;
mod place;
mod results;
mod rotation;
mod rules;
mod scaling;
mod shape;
mod unknown;
mod unread;
mod unrotated;
mod variants;

pub(crate) use input::{Choices, Reading};
pub(crate) use notes::Notes;
pub(crate) use parameters::{FAILS_ABOVE, fails_above};
pub(crate) use place::{CLASS, Place, TEXT, own_type, type_of_part};
pub(crate) use results::model;
pub(crate) use unknown::over;
pub(crate) use unrotated::refusal as refusal_of_unrotated;
