//! The one number that a run depends on.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

/// The environment variable that fixes the seed, in decimal.
pub const VARIABLE: &str = "ROPE_SEED";

/// The seed of this process: from the environment, or another one each time. A test that fails shows it.
///
/// # Panics
///
/// If the variable is set to something that is not a number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{VARIABLE}={text} is not a number")),
        Err(_) => RandomState::new().hash_one(0),
    })
}
