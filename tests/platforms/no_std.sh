#!/usr/bin/env bash
# Builds without std, and without an allocator, for targets that have neither. Nothing runs here; firmware.sh runs.
source "$(dirname "$0")/common.sh"

debian_toolchain

targets=(thumbv7em-none-eabihf aarch64-unknown-none riscv64gc-unknown-none-elf x86_64-unknown-none
    wasm32-unknown-unknown)
builds=0
build() {
    step "${targets[*]}: $*"
    tests cargo build -p rope-core --lib "${targets[@]/#/--target=}" -Zbuild-std=core,alloc "${unoptimised[@]}" "$@"
    builds=$((builds + ${#targets[@]}))
}

build --no-default-features
build
build --no-default-features --features serde
echo "platform $name: $builds builds passed"
