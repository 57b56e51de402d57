#!/usr/bin/env bash
# A big-endian machine, under qemu-user: the suites whose code depends on the order of bytes, which are conversions of
# elements, quantized caches, and files.
source "$(dirname "$0")/common.sh"

debian_toolchain gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER=s390x-linux-gnu-gcc
export CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER="qemu-s390x -L /usr/s390x-linux-gnu -E LD_LIBRARY_PATH=/usr/s390x-linux-gnu/lib"
optimized rope-tests rope-harness core compiler_builtins

expect portable,scalar
# The systematic suites run whole; of the random choices the first quarter of those that this machine makes.
export ROPE_FEWER=4
step "$ROPE_EXPECT"
# Every head size takes most of the time of `agree`, and the kernels that it is about are those of other machines.
# QEMU before 8.1 multiplies two f32 into an f64 wrongly (MDEB and MDEBR), as the inverse of rows does.
skipped=(--skip every_head_size)
if [[ $(qemu-s390x --version) =~ version\ ([0-9]+)\.([0-9]+) ]] &&
    ((BASH_REMATCH[1] < 8 || BASH_REMATCH[1] == 8 && BASH_REMATCH[2] < 1)); then
    skipped+=(--skip inverted_rows_between_frequencies_move_keys_back)
fi
suite s390x-unknown-linux-gnu "${std[@]}" -- "${skipped[@]}" \
    backends:: agree:: convert:: special_values:: golden:: rows:: norm:: cache:: shift:: gguf::
ran
passed
