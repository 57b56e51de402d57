//! No shape, stride or sub-tensor panics, aliases, or reaches outside of its slice; nor do rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::bodies::targets;

fuzz_target!(|bytes: &[u8]| targets::tensor(bytes));
