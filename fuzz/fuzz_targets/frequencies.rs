//! No axes, base, scaling or GGUF keys panic; every result is finite, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::frequencies(bytes));
