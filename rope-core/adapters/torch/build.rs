//! Links the library to libtorch by name, without a libtorch.
//!
//! Python loads libtorch without making its symbols global, so symbols that are merely undefined would not be found.
//! Linked to any shared object of the soname `libtorch_cpu.so`, the library names that one as needed, and the loader
//! takes the one that is loaded.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let directory = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let status = Command::new(&linker)
        .args([
            "-shared",
            "-nostdlib",
            "-Wl,-soname,libtorch_cpu.so",
            "-x",
            "c",
            "/dev/null",
            "-o",
        ])
        .arg(directory.join("libtorch_cpu.so"))
        .status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{} made no empty libtorch_cpu.so: {status:?}",
        linker.display()
    );
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo::rustc-cdylib-link-arg=-ltorch_cpu");
}
