#!/usr/bin/env bash
# 64-bit RISC-V under qemu-user, with vectors of three lengths, with CI_ALL of four, and with none: the suites of what
# `rvv` computes itself, the fuzz bodies at the shortest and the longest, and the bench, which verifies every value. A
# CPU may fill elements that an instruction leaves out with ones, or keep them; both kinds are emulated.
source "$(dirname "$0")/common.sh"

debian_toolchain gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user
riscv64=riscv64gc-unknown-linux-gnu
export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
optimized rope-tests rope-harness core compiler_builtins
# The first quarter of the random choices that this machine makes, or a sixteenth between these lengths. At one length
# all backends are tested.
export ROPE_FEWER=4
on() {
    echo "qemu-riscv64 -cpu rv64,$1 -L /usr/riscv64-linux-gnu"
}
# vectors LENGTH ONES: ones is true or false.
vectors() {
    on "v=true,vext_spec=v1.0,elen=64,vlen=$1,rvv_ta_all_1s=$2,rvv_ma_all_1s=$2"
}
rotations=(backends:: agree:: special_values:: golden:: guard:: split:: rows_per_head:: shift:: stages::)

for length in 128 256 ${CI_ALL:+512} 1024; do
    step "vectors of $length bits"
    bodies=() ROPE_FEWER=16 ones=true
    if [[ $length == 128 || $length == 1024 ]]; then bodies=(corpus::) ROPE_FEWER=4; fi
    if [[ $length == 256 ]]; then ones=false; fi
    CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUNNER=$(vectors $length $ones)
    export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUNNER
    expect rvv,portable,scalar
    if [[ $length != 128 ]]; then export ROPE_ONLY=rvv; fi
    suite $riscv64 "${std[@]}" --features rope-tests/every -- "${rotations[@]}" "${bodies[@]}"
    ran
done

step "no vectors"
unset ROPE_ONLY
CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUNNER=$(on v=false)
expect portable,scalar
suite $riscv64 "${std[@]}" -- backends:: agree::head_sizes_of_models
ran

step "the bench, which verifies"
tests cargo build --config profile.dev.package.rope-bench.opt-level=1 "${suite_options[@]}" -p rope-bench \
    --target $riscv64 "${std[@]}"
read -ra emulator <<<"$(vectors 256 false)"
tests "${emulator[@]}" "$CARGO_TARGET_DIR/$riscv64/debug/rope-bench" --passes 1 --formulation fused --workload W3,W5 \
    --json "$temporary/riscv64.json" --emulated-by "$(qemu-riscv64 --version | sed -n 1p)"
measurements=$(grep -c '"formulation":' "$temporary/riscv64.json")
passed "$measurements measurements of the bench verified"
