//! Compiles the C part. Cargo passes on where rope.h is, from the build script of rope-capi.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/keys.c");
    let include = env::var("DEP_ROPE_INCLUDE").expect("rope-capi is a dependency");
    cc::Build::new()
        .file("src/keys.c")
        .include(include)
        .compile("keys");
}
