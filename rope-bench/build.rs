//! Writes the compiler, the flags and the revision into the build, and compiles the C of a feature.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Not always below `.git`: in a separate work tree that is a file.
    for name in ["HEAD", "logs/HEAD"] {
        let path = first_line("git", &["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    set("ROPE_BENCH_RUSTC", first_line(&rustc, &["--version"]));
    set(
        "ROPE_BENCH_REVISION",
        first_line("git", &["rev-parse", "--short=12", "HEAD"]),
    );
    set("ROPE_BENCH_TARGET", std::env::var("TARGET").ok());
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    set("ROPE_BENCH_FLAGS", Some(flags.replace('\u{1f}', " ")));
    #[cfg(feature = "intrinsics")]
    let c = intrinsics();
    #[cfg(not(feature = "intrinsics"))]
    let c = None;
    set("ROPE_BENCH_CC", c);
}

/// Compiles the C loops, optimized in every profile as a reference must be, with each product and sum rounded by
/// itself. Returns the compiler and its version.
#[cfg(feature = "intrinsics")]
fn intrinsics() -> Option<String> {
    const SOURCES: [&str; 2] = [
        "src/formulations/intrinsics.c",
        "src/formulations/hadamard.c",
    ];
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if !matches!(machine.as_str(), "x86_64" | "aarch64") {
        return None;
    }
    let mut build = cc::Build::new();
    build.files(SOURCES).opt_level(3).extra_warnings(true);
    build.flag("-std=c11").flag("-ffp-contract=off");
    build.compile("rope_bench_intrinsics");
    let compiler = build.get_compiler();
    first_line(compiler.path().to_str()?, &["--version"])
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout)
        .ok()?
        .lines()
        .next()
        .map(str::to_owned)
}

fn set(name: &str, value: Option<String>) {
    println!("cargo::rustc-env={name}={}", value.unwrap_or_default());
}
