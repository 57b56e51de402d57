#!/usr/bin/env bash
# A firmware for a Cortex-M4F (tests/firmware) in an emulator: no allocator, golden values, sizes, instruction counts.
source "$(dirname "$0")/common.sh"

debian_toolchain qemu-system-arm binutils
CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$(rust_lld)
export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER
cd tests/firmware

start() {
    tests qemu-system-arm -M mps2-an386 -icount shift=0 -nographic -semihosting-config enable=on,target=native -kernel "$1"
}

build() {
    step "$1"
    elf=$CARGO_TARGET_DIR/thumbv7em-none-eabihf/release/rope-firmware
    tests cargo build --locked --release --target thumbv7em-none-eabihf -Zbuild-std=core
    size -A "$elf" | awk -v what="$1" '
        $1 ~ /^\.(vector_table|text|rodata|data)$/ { flash += $2 }
        $1 ~ /^\.(data|bss)$/ { ram += $2 }
        END { printf "firmware size, %s: %d bytes of flash, %d bytes of static RAM\n", what, flash, ram }'
    # An instruction of the emulated core takes a nanosecond of its time.
    start "$elf"
    # It says nothing but its exit code: text would be larger than what it is there to measure.
    start "${elf%/*}/given"
    echo "test result: ok. 1 passed: given rows" >>"$log"
}

build "for speed"
export CARGO_PROFILE_RELEASE_OPT_LEVEL=s
build "for size"
passed
