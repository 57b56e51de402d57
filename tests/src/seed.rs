//! The seed and the number of a run's random choices.

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

/// The number of random choices of a body: `times`, or as many fewer as `ROPE_FEWER` says. An emulator takes 25 times
/// as long, and its choices are the first of those that this machine makes with the same seed.
///
/// # Panics
///
/// If the variable is set to something that is not a positive number.
pub fn times(times: usize) -> usize {
    static FEWER: OnceLock<usize> = OnceLock::new();
    let fewer = FEWER.get_or_init(|| match std::env::var("ROPE_FEWER") {
        Ok(text) => match text.parse() {
            Ok(fewer @ 1..) => fewer,
            _ => panic!("ROPE_FEWER={text} is not a positive number"),
        },
        Err(_) => 1,
    });
    times.div_ceil(*fewer)
}
