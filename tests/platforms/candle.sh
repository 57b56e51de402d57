#!/usr/bin/env bash
# rope-candle: its tests and examples, whole models of candle-transformers, a program that patches candle-nn, and the
# package as it would be published.
source "$(dirname "$0")/common.sh"

# Nothing is measured here.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$frameworks
adapter=rope-core/adapters/candle
cd "$adapter"

step "tests, examples, whole models"
tests cargo test --locked --workspace
# Built with the tests.
for example in examples/*.rs; do
    example=$(basename "$example" .rs)
    tests "$CARGO_TARGET_DIR/debug/examples/$example"
    echo "test result: ok. 1 passed: example $example" >>"$log"
done

step "on one thread"
# Asked of the workspace, all but rope-candle and rope-core is built already.
tests cargo test -q --locked --workspace --no-default-features --test suites

step "formatting, lints, documentation"
tests cargo fmt --all --check
tests cargo fmt --manifest-path patch/Cargo.toml --check
tests cargo clippy -q --locked --workspace --all-targets -- -D warnings
# With the examples: thus the dependencies have the features with which they are checked already.
tests env RUSTDOCFLAGS="-D warnings" cargo doc -q --locked --workspace --no-deps --document-private-items --lib --examples

# By the lines of the README, with the versions that are locked here.
step "a program that patches candle-nn"
outside
program=$outside/program
mkdir -p "$program/src" "$program/dependent/src"
cp "$here/patched.rs" "$program/src/main.rs"
cp Cargo.lock "$program"
# A library that uses candle-nn, as candle-transformers does, in a second to build. once_cell and syn have the features
# that they have with candle-transformers, and so candle-core is built already.
cat >"$program/dependent/Cargo.toml" <<END
[package]
name = "dependent"
version = "0.0.0"
edition = "2024"

[dependencies]
candle-core = "0.11.1"
candle-nn = "0.11.1"
once_cell = "1"

[build-dependencies]
syn = { version = "2", features = ["visit-mut"] }
END
echo 'fn main() {}' >"$program/dependent/build.rs"
cat >"$program/dependent/src/lib.rs" <<END
use candle_core::{Result, Tensor};
pub fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    candle_nn::rotary_emb::rope(x, cos, sin)
}
END
# manifest LINES: the program's; LINES begin with its dependencies.
manifest() {
    cat >"$program/Cargo.toml" <<END
[package]
name = "patched"
version = "0.0.0"
edition = "2024"

[workspace]

# As in rope-candle's workspace, whose builds it shares.
[profile.dev]
lto = "off"

[profile.dev.package."*"]
debug = false

$1

[dependencies.candle-core]
version = "=0.11.1"

[dependencies.dependent]
path = "dependent"
END
}
ours=$(block README.md toml 1 | grep '^rope-candle = ')
# Before, with candle's own; and after.
manifest "[dependencies]
$ours
candle-nn = \"=0.11.1\""
tests cargo update -q --manifest-path "$program/Cargo.toml" --workspace
manifest "$(block README.md toml 2 | sed "s|^\[dependencies\]$|&\n$ours|")"
tests cargo update -q --manifest-path "$program/Cargo.toml" candle-nn
# All that depend on candle-nn get the patch, which alone has the real one.
cargo tree --manifest-path "$program/Cargo.toml" -i candle-nn@0.11.1 --depth 1 --prefix none >"$program/tree"
if [[ $(wc -l <"$program/tree") != 2 ]] || ! grep -q '^candle-nn v0\.11\.99' "$program/tree"; then
    cat "$program/tree"
    fail "candle-nn is not patched"
fi
tests cargo run -q --manifest-path "$program/Cargo.toml"

step "the package"
tests "$root/tests/publishable.sh" candle

passed
