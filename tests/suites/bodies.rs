//! The bodies of the fuzz targets with random choices and with few bytes.

use rope_tests::{Source, bodies, seed};

fn random(test: &str, times: usize, body: impl Fn(&mut Source<'_>)) {
    let source = &mut Source::random(test);
    for _ in 0..seed::times(times) {
        body(source);
    }
}

#[test]
fn tensors() {
    random("tensors", 200_000, bodies::tensor);
}

#[test]
fn rows() {
    random("rows", 200_000, bodies::rows);
}

/// Chains agree with the definition.
#[test]
fn chains() {
    random("chains", 1_500, bodies::chain);
}

#[test]
fn caches() {
    random("caches", 1_500, bodies::cache);
}

#[test]
fn shifts() {
    random("shifts", 1_000, bodies::shift);
}

#[test]
fn gradients() {
    random("gradients", 500, bodies::gradient);
}

#[test]
fn frequencies() {
    random("frequencies", 5_000, bodies::frequencies);
}

#[test]
fn generated_rows() {
    random("generated_rows", 2_000, bodies::generated_rows);
}

#[test]
fn mixed_rows() {
    random("mixed_rows", 1_000, bodies::mixed_rows);
}

#[test]
fn configurations() {
    random("configurations", 10_000, bodies::made_config);
}

#[test]
fn gguf_files() {
    random("gguf_files", 20_000, bodies::made_gguf);
}

#[cfg(feature = "capi")]
#[test]
fn calls() {
    random("calls", 5_000, bodies::calls);
}

/// Tests interleaved Q and K; each outcome occurs often.
#[cfg(feature = "capi")]
#[test]
fn packed() {
    let source = &mut Source::random("packed");
    let mut ends = bodies::Packed::default();
    for _ in 0..5_000 {
        let end = bodies::packed(source);
        ends.apart += end.apart;
        ends.between += end.between;
        ends.shared += end.shared;
        ends.unknown += end.unknown;
    }
    println!("{ends:?}");
    assert!(ends.apart > 200 && ends.between > 200 && ends.shared > 200 && ends.unknown > 5);
}

#[cfg(feature = "capi")]
#[test]
fn memories() {
    random("memories", 20_000, bodies::memories);
}

/// Tests any bytes, however few.
#[test]
fn bytes() {
    let choices = &mut Source::random("bytes");
    for len in 0..200 {
        let bytes: Vec<u8> = (0..len).map(|_| choices.word() as u8).collect();
        for (_, body) in bodies::TARGETS {
            body(&bytes);
        }
    }
}
