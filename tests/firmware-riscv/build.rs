//! The memory map where the linker finds it, and golden values as constants.

use std::path::PathBuf;
use std::{env, fs};

#[path = "../firmware/golden.rs"]
mod golden;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::copy("link.ld", out.join("link.ld")).expect("a copy");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.ld");
    fs::write(out.join("golden.rs"), golden::constants()).expect("a file");
    println!("cargo:rerun-if-changed=build.rs\ncargo:rerun-if-changed=link.ld");
}
