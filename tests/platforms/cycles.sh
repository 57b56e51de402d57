#!/usr/bin/env bash
# The inner loops on models of CPUs: assembly for three targets, every kernel's loop found and played by llvm-mca.
# Nothing is measured against a limit: what a model says of a loop is no test of it.
source "$(dirname "$0")/common.sh"

# The newest llvm-mca knows the most CPUs, and every assembler syntax of the compilers above.
newest=$(apt-cache search '^llvm-[0-9]+$' | sed 's/ .*//' | sort -t- -k2n | tail -n 1)
packages "${newest:-llvm}"
mca=llvm-mca${newest#llvm}

[[ $(uname -m) == x86_64 ]] || cannot "the assembly of x86-64 is made on such a machine"
step "x86_64"
released here
loops=(x86_64="$assembly")
aarch64_toolchain
debian_toolchain
step "aarch64"
released "$aarch64"
loops+=(aarch64="$assembly")
packages gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
step "riscv64"
released riscv64gc-unknown-linux-gnu "${std[@]}"
loops+=(riscv64="$assembly")

step "$mca"
work=$temporary
"$here/cycles.py" --mca "$mca" --loops "$work/loops.s" --json "$work/cycles.json" "${loops[@]}" | tee "$work/table"
# The scalar backend's loop over a head may be a call of its own, into which nothing looks. All others have to be found,
# 20 of x86-64, 18 of AArch64 and 6 of RISC-V.
found=$(sed -n 's/^\([0-9]*\) loops found, [0-9]* not found$/\1/p' "$work/table")
lost=$(grep -E '^[a-z0-9_]+ [a-z0-9]+ .*: not found: ' "$work/table" | grep -cvE '^[a-z0-9_]+ scalar ' || true)
[[ $lost == 0 ]] || fail "$lost loops of vectors were not found"
[[ ${found:-0} -ge 44 ]] || fail "${found:-no} loops found, of at least 44"
echo "platform $name: $found kernels' loops, all of vectors found, played by $("$mca" --version | sed -n 's/.*LLVM version/llvm-mca/p')"
