//! Any calls of the C API in any order, with pointers that are null, misaligned, overlapping or right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::capi(bytes));
