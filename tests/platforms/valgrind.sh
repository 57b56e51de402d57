#!/usr/bin/env bash
# valgrind's memcheck: nothing uninitialized is used, nothing outside is read or written, with AVX2 (it hides AVX-512).
source "$(dirname "$0")/common.sh"

packages valgrind

export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9"
expect avx2,portable,scalar
step "$ROPE_EXPECT"
# One thread: valgrind runs one at a time.
built_suite --test-threads=1 backends:: golden:: guard:: split:: \
    agree::head_sizes_of_models agree::partial_rotary agree::rows_in_every_form
ran
passed
