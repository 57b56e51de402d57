//! The suites, one property each; `tests/README.md` says which owns what. One binary: it is linked once for each
//! platform that runs it, and its tests share the threads. `cargo test -p rope-tests NAME::` runs one suite.

mod accuracy;
mod agree;
mod backends;
mod bodies;
mod cache;
mod codes4;
#[cfg(feature = "models")]
mod config;
mod convert;
mod corpus;
mod examples;
#[cfg(feature = "models")]
mod explain;
mod frequencies;
mod full;
mod gguf;
mod golden;
mod gradient;
#[cfg(unix)]
mod guard;
mod hadamard;
mod implementations;
mod kinds;
#[cfg(feature = "models")]
mod layer_rules;
mod messages;
mod mixed;
#[cfg(feature = "models")]
mod model_types;
mod models;
mod norm;
mod outputs;
#[cfg(feature = "models")]
mod own_code;
#[cfg(not(target_family = "wasm"))]
mod parallel;
mod properties;
#[cfg(feature = "models")]
mod published;
mod refused;
mod refused_chains;
mod rotate_at;
mod rows;
mod rows_per_head;
mod shards;
mod shift;
mod special_values;
mod split;
mod stages;
#[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod symbols;
