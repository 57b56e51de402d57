#!/usr/bin/env bash
# valgrind's memcheck: nothing uninitialised is used, nothing outside is read or written, with AVX2 (it hides AVX-512).
source "$(dirname "$0")/common.sh"

packages valgrind

# The build is shared with x86_64-sse2.sh.
export CARGO_TARGET_DIR=$root/target/platforms/x86_64
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=line-tables-only
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9"
expect avx2,portable,scalar
step "$ROPE_EXPECT"
tests cargo test --target x86_64-unknown-linux-gnu -p rope-core -p rope-tests --no-default-features \
    --test backends --test golden --test guard --test split -- "${emulated[@]}" --test-threads=1
tests cargo test --target x86_64-unknown-linux-gnu -p rope-core -p rope-tests --no-default-features --test agree -- --test-threads=1 \
    head_sizes_of_models partial_rotary rows_in_every_form
ran
passed
