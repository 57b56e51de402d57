#!/usr/bin/env bash
# rope-burn, which is a workspace of its own: lints, documentation, tests, and the example that trains.
source "$(dirname "$0")/common.sh"

# Most of the time is the framework's build, and nobody looks at it in a debugger.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$frameworks
cd rope-core/burn

step "formatting, lints, documentation"
cargo fmt --check
cargo clippy --locked --all-targets --all-features -- -D warnings
cargo clippy --locked --lib -- -D warnings
# With the examples: thus the dependencies have the features with which they are checked already.
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features --document-private-items --lib --examples

step "tests"
tests cargo test --locked --all-features

step "examples"
cargo run -q --locked --all-features --example train

# To build it by these lines is to build burn with all of its defaults.
step "the README's dependency lines"
outside
mkdir -p "$outside/program/src"
cat >"$outside/program/Cargo.toml" <<END
[package]
name = "program"
edition = "2024"

$(block README.md toml 1)
END
echo 'fn main() {}' >"$outside/program/src/main.rs"
tests cargo generate-lockfile --manifest-path "$outside/program/Cargo.toml"
grep -q 'name = "rope-burn"' "$outside/program/Cargo.lock" || fail "the README's lines name no rope-burn"

step "the package"
tests "$root/tests/publishable.sh" burn
passed
