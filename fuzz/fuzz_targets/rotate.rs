//! Any shape, strides, elements, pairings, rows and window: every backend gives the bits of the definition.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::{Source, bodies};

fuzz_target!(|bytes: &[u8]| bodies::rotate(&mut Source::bytes(bytes)));
