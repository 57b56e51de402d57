#!/usr/bin/env bash
# 32-bit x86, on this CPU: usize of 32 bits, core::arch::x86, eight registers.
source "$(dirname "$0")/common.sh"

packages rustc-web rust-web-src gcc-i686-linux-gnu libc6-dev-i386-cross

export RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER="/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib"
# It runs on this CPU: optimised, it takes longer to build than to run.
export CARGO_PROFILE_DEV_DEBUG=0

expect "$(x86_backends)"
step "$ROPE_EXPECT"
# current_exe is the loader: it cannot start a test again.
tests cargo test --target i686-unknown-linux-gnu -Zbuild-std -p rope-core -p rope-tests --no-default-features --lib --tests -- "${emulated[@]}"
ran
passed
