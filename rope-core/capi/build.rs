//! Names the shared library, so that programs find the version they were linked with, and tells the build scripts of
//! dependents where the header is.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let (os, family) = (
        variable("CARGO_CFG_TARGET_OS"),
        variable("CARGO_CFG_TARGET_FAMILY"),
    );
    // DEP_ROPE_INCLUDE, by the `links` of Cargo.toml.
    println!(
        "cargo::metadata=include={}/include",
        variable("CARGO_MANIFEST_DIR")
    );
    if family == "unix" && os != "macos" && os != "ios" {
        // Before 1.0 a new minor version may break programs.
        let (major, minor) = (
            variable("CARGO_PKG_VERSION_MAJOR"),
            variable("CARGO_PKG_VERSION_MINOR"),
        );
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librope.so.{major}.{minor}");
    }
}
