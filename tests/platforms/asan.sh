#!/usr/bin/env bash
# AddressSanitizer over the test suite: no access outside what the allocator gave.
source "$(dirname "$0")/common.sh"

address_sanitizer

export RUSTFLAGS="-Zsanitizer=address -Cdebuginfo=line-tables-only"
export CARGO_PROFILE_DEV_OPT_LEVEL=1
expect "$("$root/tests/backends_here.sh")"
step "$ROPE_EXPECT"
# A target is named so that build scripts are not instrumented.
suite x86_64-unknown-linux-gnu --features rope-tests/every
ran
passed
