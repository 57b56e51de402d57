#!/usr/bin/env bash
# x86-64 where CPUID has less: no AVX at all, AVX2, and AVX2 without FMA, which must not be taken for AVX2. The same
# binaries, under qemu-user.
source "$(dirname "$0")/common.sh"

packages qemu-user

on() {
    step "$1: $2"
    export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="qemu-x86_64 -cpu $1"
    expect "$2"
    shift 2
    built_suite "$@"
    ran
}

# What this adds is the choice of the backend: the code of all of them runs natively too.
on Nehalem portable,scalar backends:: golden:: rows::
on Haswell avx2,portable,scalar backends:: golden:: rows::
on Haswell,-fma portable,scalar backends:: golden::
passed
