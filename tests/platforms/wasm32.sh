#!/usr/bin/env bash
# WebAssembly in Node (wasm32-wasip1), with and without simd128.
source "$(dirname "$0")/common.sh"

wasm_in_node
debian_toolchain
emulator
export ROPE_EXPECT=portable,scalar

base=$CARGO_TARGET_DIR
# on FEATURES [FILTER ..]
on() {
    local features=$1
    step "$@"
    shift
    export CARGO_TARGET_DIR=$base/$features
    export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$wasm_link -C target-feature=$features"
    # No threads, and no panic that could be caught.
    suite wasm32-wasip1 -Zbuild-std=std,panic_abort -- \
        --skip thread --skip same_bits_in_any_order --skip an_unknown_name_in_the_list_is_a_failure "$@"
}

on +simd128
# Without vectors other code runs where vectors would.
on -simd128 agree:: backends:: convert:: golden:: rows:: special_values:: stages::
passed
