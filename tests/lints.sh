#!/usr/bin/env bash
# Formatting, lints, documentation: without a warning, with all features, with none, and with each by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
for manifest in fuzz rope-bench/playground tests/avx512 tests/firmware tests/firmware-riscv; do
    cargo fmt --manifest-path $manifest/Cargo.toml --check
done
tests/width.sh
tests/prose.sh
# A reader that ends early fails its writer, now and then, and `pipefail` the script: `sed -n 1p` and `grep -q .. <(..)`
# do not.
if git grep -nE '\| *(head\b|grep -[a-zA-Z]*q)' -- '*.sh' .ci; then exit 1; fi

cargo clippy --workspace --all-targets --all-features -- -D warnings
# The unit tests are the same with each feature; the platforms run them with fewer.
for features in "" alloc rayon; do
    cargo clippy -p rope-core --lib --tests --no-default-features --features "$features" -- -D warnings
done
cargo clippy -p rope-models --lib --no-default-features -- -D warnings
# rustdoc links to another crate's page if that page is there, and `--no-deps` leaves the order to chance: first the
# crates that others name.
others="--workspace --exclude rope-bench --exclude rope-core --exclude rope-models"
for packages in "-p rope-core" "-p rope-models" "$others"; do
    # shellcheck disable=SC2086
    RUSTDOCFLAGS="-D warnings" cargo doc $packages --all-features --no-deps --document-private-items
done
python3 tests/rustdoc_links.py "${CARGO_TARGET_DIR:-target}/doc" rope_core rope_models rope
# With examples, of which it has none: thus its dependencies have the features with which they are checked already.
RUSTDOCFLAGS="-D warnings" cargo doc -p rope-bench --no-deps --features intrinsics --lib --bins --examples
echo "lints: no warning"
