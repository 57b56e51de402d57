//! OperandAddresses the memory map in the linker's search path and writes golden values as constants.

use std::path::PathBuf;
use std::{env, fs};

mod golden;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::copy("memory.x", out.join("memory.x")).expect("a copy");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    // Flash has no pages, and sections need no alignment to them.
    println!("cargo:rustc-link-arg-bins=--nmagic");

    fs::write(out.join("golden.rs"), golden::constants()).expect("a file");
    println!("cargo:rerun-if-changed=build.rs\ncargo:rerun-if-changed=memory.x");
}
