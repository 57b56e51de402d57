#!/usr/bin/env bash
# 32-bit x86, on this CPU: usize of 32 bits, core::arch::x86, eight registers. It runs the suites of kernels and of
# sizes that overflow.
source "$(dirname "$0")/common.sh"

debian_toolchain gcc-i686-linux-gnu libc6-dev-i386-cross
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER="/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib"
optimized core compiler_builtins

expect "$("$root/tests/backends_here.sh")"
step "$ROPE_EXPECT"
suite i686-unknown-linux-gnu "${std[@]}" "${of_kernels[@]}"
ran
passed
