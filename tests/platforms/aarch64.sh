#!/usr/bin/env bash
# 64-bit ARM under qemu-user: a core with nothing but the baseline, and one with fp16, bf16 and dot products.
source "$(dirname "$0")/common.sh"

aarch64_toolchain
debian_toolchain
optimized rope-tests
on() {
    step "$1"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(aarch64_on "$1")
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
    expect neon,portable,scalar
    shift
    suite $aarch64 -- "$@"
    ran
}

on cortex-a53
# The same code runs; what might differ is what the CPU makes of 16-bit elements.
on max,sve=off backends:: golden:: rows:: properties::
passed
