//! Any chain into any cache, and out of it: every backend gives the bits of the definition.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::cache(bytes));
