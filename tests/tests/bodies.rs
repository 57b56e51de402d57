//! What fuzzers do, with random choices and with few bytes.

use rope_tests::{Source, bodies};

#[test]
fn tensors() {
    let source = &mut Source::random("tensors");
    for _ in 0..200_000 {
        bodies::tensor(source);
    }
}

#[test]
fn rows() {
    let source = &mut Source::random("rows");
    for _ in 0..200_000 {
        bodies::rows(source);
    }
}

/// Whatever the bytes, and however few.
#[test]
fn bytes() {
    let choices = &mut Source::random("bytes");
    for len in 0..200 {
        let bytes: Vec<u8> = (0..len).map(|_| choices.word() as u8).collect();
        bodies::rotate(&mut Source::bytes(&bytes));
        bodies::tensor(&mut Source::bytes(&bytes));
        bodies::rows(&mut Source::bytes(&bytes));
    }
}
