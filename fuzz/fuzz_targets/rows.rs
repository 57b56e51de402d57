//! The rows of any frequencies at any positions: correctly rounded, and the same bits on every backend.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::{Source, bodies};

fuzz_target!(|bytes: &[u8]| bodies::generated_rows(&mut Source::bytes(bytes)));
