#!/usr/bin/env bash
# rope-burn, which is a workspace of its own: lints, documentation, tests, and the example that trains.
source "$(dirname "$0")/common.sh"

# Most of the time is the framework's build, and nobody looks at it in a debugger.
export CARGO_PROFILE_DEV_DEBUG=0
cd rope-core/burn

step "formatting, lints, documentation"
cargo fmt --check
cargo clippy --locked --all-targets --all-features -- -D warnings
cargo clippy --locked --lib -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features --document-private-items

step "tests"
tests cargo test --locked --all-features

step "examples"
cargo run -q --locked --all-features --example train

step "the package"
tests "$root/tests/publishable.sh" burn
passed
