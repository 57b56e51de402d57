#!/usr/bin/env bash
# macOS on ARM: the crates compile for it. Nothing runs: there is no linker for macOS on Linux.
source "$(dirname "$0")/common.sh"

target=aarch64-apple-darwin
rustup target add $target >>"$log" 2>&1 || cannot "rustup target add $target failed"
builds=0
check() {
    step "$target: $*"
    cargo check --quiet --target $target "$@"
    builds=$((builds + 1))
}
check -p rope-core --no-default-features
check -p rope-core --all-features
check -p rope-models
echo "platform $name: $builds builds passed"
