#!/usr/bin/env bash
# 64-bit ARM under qemu-user: a core with nothing but the baseline, and one with fp16, bf16 and dot products.
source "$(dirname "$0")/common.sh"

aarch64_toolchain
export RUSTC=$debian_rustc
# Emulated; optimised, but with every check of a debug build.
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=0
on() {
    step "$1"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(aarch64_on "$1")
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
    expect neon,portable,scalar
    shift
    tests cargo test --target $aarch64 -p rope-core -p rope-tests --no-default-features "$@" -- "${emulated[@]}"
    ran
}

on cortex-a53 --lib --tests
# The same code runs; what might differ is what the CPU makes of 16-bit elements.
on max,sve=off --test backends --test golden --test rows --test properties
passed
