#!/usr/bin/env bash
# rope-candle: its tests and examples, whole models of candle-transformers, a program that patches candle-nn, and the
# package as it would be published.
source "$(dirname "$0")/common.sh"

# Nothing is measured here.
export CARGO_PROFILE_DEV_DEBUG=0
adapter=rope-core/candle
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
tests env RUSTDOCFLAGS="-D warnings" cargo doc -q --locked --workspace --no-deps --document-private-items

# By the lines of the README, and with the versions that are locked here.
step "a program that patches candle-nn"
program=$CARGO_TARGET_DIR/patched
line=$(grep -x 'candle-nn = { git = .* }' README.md | uniq)
git_url=https://github.com/rope-rs/rope
[[ $line == *"git = \"$git_url\""* ]] || fail "the README has no two equal lines that patch candle-nn: $line"
# manifest CANDLE_NN ROPE_CANDLE [PATCH]: the program's, with these dependencies and the section of patches.
manifest() {
    cat >"$program/Cargo.toml" <<END
[package]
name = "patched"
version = "0.0.0"
edition = "2024"

[dependencies]
candle-core = "=0.11.1"
$1
dependent = { path = "dependent" }
rope-candle = { $2 }

[workspace]

$3

# As in rope-candle's workspace, whose builds it shares.
[profile.dev]
lto = "off"

[profile.dev.package."*"]
debug = false
END
}
# patched CANDLE_NN ROPE_CANDLE: the program, before its candle-nn and rope-candle come from there, and after.
patched() {
    local from_there=${line/git = \"$git_url\"/$1}
    rm -rf "$program/src"
    mkdir -p "$program/src" "$program/dependent/src"
    cp "$here/patched.rs" "$program/src/main.rs"
    # A library that uses candle-nn, as candle-transformers does, in a second to build.
    cat >"$program/dependent/Cargo.toml" <<END
[package]
name = "dependent"
version = "0.0.0"
edition = "2024"

[dependencies]
candle-core = "0.11.1"
candle-nn = "0.11.1"
END
    cat >"$program/dependent/src/lib.rs" <<END
use candle_core::{Result, Tensor};
pub fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    candle_nn::rotary_emb::rope(x, cos, sin)
}
END
    cp Cargo.lock "$program"
    manifest 'candle-nn = "=0.11.1"' "$2" ""
    tests cargo update -q --manifest-path "$program/Cargo.toml" --workspace
    manifest "$from_there" "$2" "[patch.crates-io]
$from_there"
    tests cargo update -q --manifest-path "$program/Cargo.toml" candle-nn
    # Whoever asks for candle-nn gets the patch, which alone has the real one.
    cargo tree --manifest-path "$program/Cargo.toml" -i candle-nn@0.11.1 --depth 1 --prefix none >"$program/tree"
    if [[ $(wc -l <"$program/tree") != 2 ]] || ! grep -q '^candle-nn v0\.11\.99' "$program/tree"; then
        cat "$program/tree"
        fail "candle-nn is not patched"
    fi
}
# As a repository, where Cargo finds it by its name.
repository=$program/repository
rm -rf "$repository"
mkdir -p "$repository"
git -C "$root" ls-files -z --cached --others --exclude-standard -- Cargo.toml LICENSE-MIT LICENSE-APACHE rope-core |
    tar -C "$root" --null -T - -c | tar -C "$repository" -x
git -C "$repository" init -q
git -C "$repository" add -A
git -C "$repository" -c user.name=rope -c user.email=rope@localhost commit -qm "as it lies here"
patched "git = \"file://$repository\"" "git = \"file://$repository\""
# As it lies here, where it is built already.
patched "path = \"$root/$adapter/patch\"" "path = \"$root/$adapter\""
tests cargo run -q --manifest-path "$program/Cargo.toml"

step "the package"
tests "$root/tests/publishable.sh" candle

passed
