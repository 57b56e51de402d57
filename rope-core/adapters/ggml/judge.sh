#!/usr/bin/env bash
# Builds ggml and the backend, and lets ggml judge it: src/bin/judge. By hand; it needs clang, cmake and a C++ compiler,
# and some minutes for ggml.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/platforms/ggml}
# Of llama.cpp ggml alone is compiled.
export CMAKE_CXX_COMPILER_LAUNCHER=$root/tests/platforms/only_ggml.sh LLAMA_LIB_PROFILE=Release
cargo run --release --locked --manifest-path "$here/Cargo.toml"
