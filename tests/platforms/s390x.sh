#!/usr/bin/env bash
# A big-endian machine, under qemu-user: conversions of 16-bit elements, files of golden data.
source "$(dirname "$0")/common.sh"

packages rustc-web rust-web-src gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user

export RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x -L /usr/s390x-linux-gnu -E LD_LIBRARY_PATH=/usr/s390x-linux-gnu/lib"
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=0

expect portable,scalar
step "$ROPE_EXPECT"
tests cargo test --target s390x-unknown-linux-gnu -Zbuild-std -p rope-core -p rope-tests --no-default-features --lib --tests -- "${emulated[@]}"
ran
passed
