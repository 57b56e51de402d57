#!/usr/bin/env bash
# Windows on x86-64, under wine: `long` of 32 bits, and the other ABI for vectors. It runs the suites of kernels
# and of sizes that overflow.
source "$(dirname "$0")/common.sh"

debian_toolchain gcc-mingw-w64-x86-64 wine64
target=x86_64-pc-windows-gnu
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=/usr/lib/wine/wine64
export WINEPREFIX=$CARGO_TARGET_DIR/wine WINEDEBUG=-all WINEPATH=Z:$CARGO_TARGET_DIR/wine-libraries
mkdir -p "$CARGO_TARGET_DIR/wine-libraries"
# std takes its random numbers from a library that this wine lacks.
x86_64-w64-mingw32-gcc -shared -x c - -o "$CARGO_TARGET_DIR/wine-libraries/bcryptprimitives.dll" -ladvapi32 <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) { return SystemFunction036(data, (ULONG)len); }
C
optimized core compiler_builtins

expect "$("$root/tests/backends_here.sh")"
step "$ROPE_EXPECT"
suite $target "${std[@]}" "${of_kernels[@]}"
ran
passed
