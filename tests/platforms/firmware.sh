#!/usr/bin/env bash
# Firmwares in emulators, without an allocator: a Cortex-M4F's (tests/firmware), with sizes, and one of 64-bit RISC-V
# (tests/firmware-riscv), with vectors and without. Golden values and instruction counts of both.
source "$(dirname "$0")/common.sh"

debian_toolchain qemu-system-arm qemu-system-misc binutils
CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$(rust_lld)
export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER
export CARGO_TARGET_RISCV64GC_UNKNOWN_NONE_ELF_LINKER=$CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER
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
CARGO_PROFILE_RELEASE_OPT_LEVEL=s build "for size"

# riscv BACKEND CPU ..: it runs on each of the CPUs.
cd ../firmware-riscv
riscv() {
    local backend=$1 cpu elf=$CARGO_TARGET_DIR/riscv64gc-unknown-none-elf/release/rope-firmware-riscv
    shift
    tests cargo build --locked --release --target riscv64gc-unknown-none-elf -Zbuild-std=core
    for cpu; do
        step "RISC-V, $backend on $cpu"
        tests qemu-system-riscv64 -M virt -cpu "rv64,$cpu" -icount shift=0 -bios none -nographic -kernel "$elf"
        grep -q "^backends that run: $backend" <(tail -n 20 "$log") || fail "$backend should have run"
    done
}
vectors=v=true,vext_spec=v1.0
export CARGO_TARGET_RISCV64GC_UNKNOWN_NONE_ELF_RUSTFLAGS="--cfg rope_rvv"
riscv rvv $vectors,vlen=128 $vectors,vlen=512
export CARGO_TARGET_RISCV64GC_UNKNOWN_NONE_ELF_RUSTFLAGS=
riscv portable v=false
passed
