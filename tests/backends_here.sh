#!/usr/bin/env bash
# The backends that have to run on this CPU, the fastest first, by the kernel's word and not by our own detection.
set -euo pipefail
list=portable,scalar
flags=" $(grep -m1 '^flags' /proc/cpuinfo 2>/dev/null | cut -d: -f2 || true) "
has() { local flag; for flag; do [[ $flags == *" $flag "* ]] || return 1; done; }
if [[ $(uname -m) == aarch64 ]]; then
    list=neon,$list
    if grep -qm1 '^Features.* sve\b' /proc/cpuinfo; then list=sve,$list; fi
fi
if [[ $(uname -m) == riscv64 && $(grep -m1 '^isa' /proc/cpuinfo) =~ rv64[a-uw-y]*v ]]; then list=rvv,$list; fi
if has avx2 fma f16c; then
    list=avx2,$list
    if has avx512f avx512bw avx512dq avx512vl avx512_vbmi2; then
        list=avx512,$list
        if has avx512_bf16 avx512vbmi; then list=avx512bf16,$list; fi
    fi
fi
echo "$list"
