#!/usr/bin/env bash
# Builds without std, and without an allocator, for targets that have neither. Nothing runs here; firmware.sh runs.
source "$(dirname "$0")/common.sh"

packages rustc-web rust-web-src
export RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1

builds=0
build() {
    local target=$1 std=$2
    shift 2
    tests cargo build -p rope-core --lib --target "$target" -Zbuild-std="$std" "$@"
    builds=$((builds + 1))
}

for target in thumbv7em-none-eabihf aarch64-unknown-none riscv64gc-unknown-none-elf x86_64-unknown-none; do
    step $target
    build $target core,alloc --no-default-features --features serde
    build $target core,alloc
    build $target core --no-default-features
done
echo "platform $name: $builds builds passed"
