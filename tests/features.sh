#!/usr/bin/env bash
# Each package with the oldest Rust that it promises: with every set of its features.
# candle.sh and burn.sh do the same for rope-candle and rope-burn, beside their frameworks.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if [[ $(rustc --version) != "rustc $rust."* ]]; then
    export RUSTUP_TOOLCHAIN=$rust
    [[ $(rustc --version 2>/dev/null) == "rustc $rust."* ]] || {
        echo "features: cannot be had here: Rust $rust, which is the oldest that the packages promise"
        exit 77
    }
fi
if ! cargo hack --version >/dev/null 2>&1; then
    cargo install --quiet --debug --locked cargo-hack || {
        echo "features: cannot be had here: cargo install cargo-hack"
        exit 77
    }
fi
export CARGO_TARGET_DIR=$root/target/platforms/features CARGO_INCREMENTAL=0
mkdir -p "$CARGO_TARGET_DIR"
log=$CARGO_TARGET_DIR/log
: >"$log"
checks=0
# check PACKAGE [DIRECTORY]
check() {
    local before
    before=$(grep -c '^info: running' "$log" || true)
    (cd "${2:-.}" && cargo hack check --locked --feature-powerset -p "$1") >>"$log" 2>&1 || {
        tail -n 40 "$log"
        echo "features: FAILED: $1"
        exit 1
    }
    checks=$(grep -c '^info: running' "$log" || true)
    echo "features: $1: $((checks - before)) sets with $(rustc --version | cut -d' ' -f2)"
}
check rope-core
check rope-models
# Without std the C API has a panic handler, and nothing unwinds.
CARGO_PROFILE_DEV_PANIC=abort check rope-capi
check rope-bench
check rope-torch rope-core/adapters/torch
check rope-onnxruntime rope-core/adapters/onnxruntime
((checks)) || exit 1
# The programs in the documentation, without the rows that own their memory; those that need them are empty then.
documented=$(cargo test --locked --doc -p rope-core --no-default-features 2>>"$log") || {
    printf '%s\n' "$documented" | tail -n 40
    echo "features: FAILED: rope-core's documentation without alloc"
    exit 1
}
count=$(printf '%s\n' "$documented" | awk '/^test result: ok/ {sum += $4} END {print sum + 0}')
((count)) || exit 1
echo "features: rope-core: $count programs of its documentation without alloc"
echo "features: $checks sets of features in 6 packages"
