#!/usr/bin/env bash
# 32-bit x86, on this CPU: usize of 32 bits, core::arch::x86, eight registers.
source "$(dirname "$0")/common.sh"

debian_toolchain gcc-i686-linux-gnu libc6-dev-i386-cross
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUNNER="/usr/i686-linux-gnu/lib/ld-linux.so.2 --library-path /usr/i686-linux-gnu/lib"
# It runs on this CPU: a suite that is optimised takes longer to build than to run.
optimised serde_json core compiler_builtins

expect "$("$root/tests/backends_here.sh")"
step "$ROPE_EXPECT"
# current_exe is the loader: it cannot start a test again.
suite i686-unknown-linux-gnu "${std[@]}"
ran
passed
