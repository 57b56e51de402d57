#!/usr/bin/env bash
# Miri, where it can be had: undefined behavior of the scalar and portable backends, and of AVX2 with f32.
source "$(dirname "$0")/common.sh"

cargo +nightly miri --version >/dev/null 2>&1 || cannot "cargo +nightly miri: it is a component of a nightly toolchain"
export RUSTUP_TOOLCHAIN=nightly
# The golden files are read from the disk.
export MIRIFLAGS="-Zmiri-disable-isolation"

step "scalar, portable"
expect portable,scalar
tests cargo miri test -p rope-core --lib -- tensor rows rope
tests cargo miri test -p rope-tests --test suites -- refused:: backends::
ran
step "avx2"
export RUSTFLAGS="-Ctarget-feature=+avx2,+fma,+f16c"
expect avx2,portable,scalar
tests cargo miri test -p rope-tests --test suites -- backends::
tests cargo miri test -p rope-tests --test suites -- golden::f32_output
ran
passed
