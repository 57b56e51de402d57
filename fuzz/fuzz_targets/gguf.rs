//! Any bytes as a GGUF file: nothing panics; what comes out is finite, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::gguf(bytes));
