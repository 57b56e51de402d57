#!/usr/bin/env bash
# WebAssembly in Node (wasm32-wasip1), with simd128: the suites of kernels and of sizes that overflow, for what is new
# here are the instructions of the portable backend. Without simd128 the code is that of a machine without vectors,
# which s390x.sh runs.
source "$(dirname "$0")/common.sh"

wasm_in_node
debian_toolchain
optimized rope-tests rope-harness core compiler_builtins
export ROPE_EXPECT=portable,scalar
# The systematic suites run whole; of the random choices the first quarter of those that this machine makes.
export ROPE_FEWER=4

step "$ROPE_EXPECT"
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$wasm_link -C target-feature=+simd128"
# No threads, and no panic that could be caught.
suite wasm32-wasip1 "${std[@]}" "${of_kernels[@]}" \
    --skip thread --skip same_bits_in_any_order --skip an_unknown_name_in_the_list_is_a_failure
passed
