#!/usr/bin/env bash
# 64-bit ARM under qemu-user: a core with nothing but the baseline, and one with fp16, bf16 and dot products.
source "$(dirname "$0")/common.sh"

architecture arm64
packages rustc-web rust-web-src libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user

target=aarch64-unknown-linux-gnu
export RUSTC=$debian_rustc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# Emulated; optimised, but with every check of a debug build.
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=0
on() {
    step "$1"
    # Without the second library path a libc6:arm64 that is installed is mixed with the cross one, and threads hang.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $1 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib"
    expect neon,portable,scalar
    shift
    tests cargo test --target $target -p rope-core -p rope-tests "$@" -- "${emulated[@]}"
    ran
}

on cortex-a53 --lib --tests
# The same code runs; what might differ is what the CPU makes of 16-bit elements.
on max,sve=off --test backends --test golden --test rows --test properties
passed
