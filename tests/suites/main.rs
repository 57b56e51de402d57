//! The suites, one property each; `tests/README.md` says which owns what. One binary: it is linked once for each
//! platform that runs it, and its tests share the threads. `cargo test -p rope-tests NAME::` runs one suite.

#![cfg_attr(
    not(feature = "every"),
    allow(
        dead_code,
        reason = "suites share functions with those that are left out"
    )
)]

#[cfg(feature = "every")]
mod accuracy;
mod agree;
#[cfg(feature = "every")]
mod asymmetric;
mod backends;
#[cfg(feature = "every")]
mod bodies;
mod cache;
#[cfg(feature = "every")]
mod channels;
#[cfg(feature = "models")]
mod classes;
#[cfg(feature = "every")]
mod codes4;
#[cfg(all(unix, not(target_family = "wasm"), feature = "models"))]
mod compile_errors;
#[cfg(feature = "models")]
mod config;
mod convert;
#[cfg(feature = "sizes")]
mod corpus;
#[cfg(feature = "models")]
mod dialects;
#[cfg(feature = "models")]
mod diffusers;
#[cfg(feature = "sizes")]
mod empty;
#[cfg(feature = "every")]
mod examples;
#[cfg(feature = "models")]
mod explain;
#[cfg(all(not(target_family = "wasm"), feature = "every"))]
mod extremes;
#[cfg(feature = "every")]
mod frequencies;
#[cfg(feature = "every")]
mod full;
mod gguf;
#[cfg(feature = "every")]
mod gguf_files;
mod golden;
#[cfg(feature = "sizes")]
mod gradient;
#[cfg(all(unix, feature = "every"))]
mod guard;
#[cfg(feature = "every")]
mod hadamard;
#[cfg(feature = "models")]
mod ignored;
#[cfg(feature = "every")]
mod implementations;
#[cfg(feature = "every")]
mod imports;
#[cfg(feature = "every")]
mod kinds;
#[cfg(feature = "models")]
mod layer_rules;
#[cfg(feature = "every")]
mod messages;
#[cfg(feature = "every")]
mod micro;
#[cfg(feature = "every")]
mod mixed;
#[cfg(feature = "models")]
mod model_types;
mod models;
#[cfg(feature = "sizes")]
mod moves;
#[cfg(feature = "every")]
mod naive;
mod norm;
#[cfg(feature = "every")]
mod operands;
#[cfg(feature = "every")]
mod outputs;
#[cfg(feature = "models")]
mod own_code;
#[cfg(all(not(target_family = "wasm"), feature = "every"))]
mod pages;
#[cfg(all(not(target_family = "wasm"), feature = "every"))]
mod parallel;
#[cfg(feature = "every")]
mod parts;
mod properties;
#[cfg(feature = "models")]
mod published;
#[cfg(feature = "sizes")]
mod refused;
#[cfg(feature = "sizes")]
mod refused_caches;
#[cfg(feature = "sizes")]
mod refused_chains;
#[cfg(feature = "sizes")]
mod rotate_at;
mod rows;
#[cfg(feature = "sizes")]
mod rows_per_head;
#[cfg(feature = "every")]
mod scale_places;
#[cfg(feature = "every")]
mod shards;
mod shift;
#[cfg(feature = "sizes")]
mod slots;
mod special_values;
#[cfg(feature = "sizes")]
mod split;
#[cfg(feature = "sizes")]
mod stages;
mod strict;
#[cfg(all(
    unix,
    any(target_arch = "x86_64", target_arch = "aarch64"),
    feature = "every"
))]
mod symbols;
#[cfg(feature = "every")]
mod tuning;
#[cfg(feature = "every")]
mod verbs;
#[cfg(feature = "every")]
mod versions;
#[cfg(feature = "every")]
mod zero_points;
