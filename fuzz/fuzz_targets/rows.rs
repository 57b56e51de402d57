//! The rows of any frequencies at any positions: correctly rounded, and the same bits on every backend.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::rows(bytes));
