#!/usr/bin/env bash
# 64-bit ARM under qemu-user, on a core with nothing but the baseline, which is all that the code uses.
source "$(dirname "$0")/common.sh"

aarch64_toolchain
debian_toolchain
optimized rope-tests rope-harness
cpu=cortex-a53
step $cpu
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(aarch64_on $cpu)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
expect neon,portable,scalar
# The systematic suites run whole; of the random choices the first quarter of those that this machine makes.
export ROPE_FEWER=4
suite $aarch64 --features rope-tests/every
ran
passed
