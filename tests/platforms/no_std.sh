#!/usr/bin/env bash
# Builds without std, and rope-core without an allocator, for targets that have neither, with 32 and 64 bits. Nothing
# runs here; firmware.sh runs, and the playground is a build for WebAssembly without std.
source "$(dirname "$0")/common.sh"

debian_toolchain

targets=(thumbv7em-none-eabihf x86_64-unknown-none)
builds=0
build() {
    step "${targets[*]}: $*"
    tests cargo build --lib "${targets[@]/#/--target=}" -Zbuild-std=core,alloc "${unoptimized[@]}" "$@"
    builds=$((builds + ${#targets[@]}))
}

# What the features have by themselves, lints.sh looks at.
build -p rope-core --no-default-features
build -p rope-models --no-default-features
# As install.sh builds it for firmware; c.sh reads its header.
step "the C API for ${targets[0]}"
tests cargo rustc -p rope-capi --no-default-features --crate-type staticlib --target "${targets[0]}" \
    -Zbuild-std=core,alloc "${unoptimized[@]}"
[[ -s $CARGO_TARGET_DIR/${targets[0]}/debug/librope.a ]] || fail "no static library"
builds=$((builds + 1))
echo "platform $name: $builds builds passed"
