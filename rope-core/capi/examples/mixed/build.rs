//! Compiles the C part. Cargo passes on where rope.h is, from the build script of rope-capi.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=src/keys.c");
    let include = env::var("DEP_ROPE_INCLUDE").expect("rope-capi is a dependency");
    // A struct that has grown there has to grow here.
    println!("cargo::rerun-if-changed={include}");
    cc::Build::new()
        .file("src/keys.c")
        .include(include)
        .compile("keys");
}
