#!/usr/bin/env bash
# rope-burn, which is a workspace of its own: lints, documentation, tests, and the examples that are no measurements.
source "$(dirname "$0")/common.sh"

# Most of the time is the framework's build, and nobody looks at it in a debugger.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$frameworks
cd rope-core/adapters/burn

step "formatting, lints, documentation"
cargo fmt --check
# The library by itself: its dependencies have the features that it requires, not those that the tests add.
cargo clippy --locked --lib -- -D warnings
# Without a backend of its own choice.
cargo clippy --locked --lib --no-default-features -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features --document-private-items --lib

# Clippy is the compiler of rope-burn here. To lint the tests apart is to check all of burn once more, for two minutes.
step "tests, with lints"
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
tests cargo test --locked --all-features
if grep -A5 '^warning' "$log"; then fail "warnings"; fi

step "examples"
for example in train cache; do
    cargo run -q --locked --all-features --example "$example"
done
unset RUSTC_WORKSPACE_WRAPPER

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
