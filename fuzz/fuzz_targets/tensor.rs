//! No shape, stride or sub-tensor panics, aliases, or reaches outside of its slice; nor do rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rope_tests::{Source, bodies};

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::bytes(bytes);
    bodies::tensor(&mut source);
    bodies::rows(&mut source);
});
