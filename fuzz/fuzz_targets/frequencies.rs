//! No axes, base, scaling or GGUF keys panic; every result is finite, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::{Source, bodies};

fuzz_target!(|bytes: &[u8]| bodies::frequencies(&mut Source::bytes(bytes)));
