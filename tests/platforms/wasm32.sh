#!/usr/bin/env bash
# WebAssembly in Node (wasm32-wasip1), with simd128. Without it the code is that of a machine without vectors, which
# s390x.sh runs; no_std.sh builds it.
source "$(dirname "$0")/common.sh"

wasm_in_node
debian_toolchain
optimized rope-tests core compiler_builtins
export ROPE_EXPECT=portable,scalar

step "$ROPE_EXPECT"
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$wasm_link -C target-feature=+simd128"
# No threads, and no panic that could be caught.
suite wasm32-wasip1 "${std[@]}" -- \
    --skip thread --skip same_bits_in_any_order --skip an_unknown_name_in_the_list_is_a_failure
passed
