#!/usr/bin/env bash
# WebAssembly in Node (wasm32-wasip1), with and without simd128.
source "$(dirname "$0")/common.sh"

packages rustc-web rust-web-src wasi-libc
command -v node >/dev/null || packages nodejs
node -e "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)" || cannot "node 20 or newer (this is $(node --version))"

export RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1
CARGO_TARGET_WASM32_WASIP1_LINKER=$(rust_lld)
export CARGO_TARGET_WASM32_WASIP1_LINKER
export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings --stack-size=4000 $here/wasi.mjs"
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=0
export ROPE_EXPECT=portable,scalar

# Debian's C library for WASI, which has no pthread_join and no pthread_detach: what is undefined becomes an import.
wasi=/usr/lib/wasm32-wasi
link="-C link-self-contained=no -L native=$wasi -C link-arg=$wasi/crt1-command.o -C link-arg=--allow-undefined"

base=$CARGO_TARGET_DIR
for features in -simd128 +simd128; do
    step "$features"
    export CARGO_TARGET_DIR=$base/$features
    export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$link -C target-feature=$features"
    # No threads, and no panic that could be caught.
    tests cargo test --target wasm32-wasip1 -Zbuild-std=std,panic_abort -p rope-core -p rope-tests --lib --tests \
        -- --skip thread --skip same_rows_in_any_order --skip an_unknown_name_in_the_list_is_a_failure
done
passed
