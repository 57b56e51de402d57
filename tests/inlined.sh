#!/bin/sh
# Whether all of a backend was inlined into its entry: an intrinsic, or an operation of an instruction set, that is a
# function of its own in optimized code was compiled without the instruction set, and is a call per vector.
#
# usage: tests/inlined.sh BINARY..        a release binary that rotates: `target/release/rope-bench`
set -eu
: "${1:?usage: $0 BINARY..}"
for binary; do
    # Mangled, as every version of nm shows them; `_mm` and `v` names are functions of core::core_arch.
    symbols=$(nm "$binary")
    case $symbols in
    *rope_core*) ;;
    *) echo "$binary: no symbol of rope_core; stripped?" >&2; exit 2 ;;
    esac
    # `enter` and what is in it is where a backend begins; `cpu`, CPUID and XGETBV only ask what there is; the scalar
    # root is integer work. SSE2 is in every build, and what memchr uses, which the bench does not optimize.
    found=$(printf '%s\n' "$symbols" |
        grep -E 'core_arch|9rope_core4simd|as[^.]*rope_core[^.]*simd[^.]*(Simd|InstructionSet)' |
        grep -vE '5enter|6detect|4simd3cpu|xgetbv|6scalar4sqrt|x864sse2|x865cpuid|__m128i|core_arch4simd|x86.*as_m128i' || true)
    if [ -n "$found" ]; then
        echo "$binary: not inlined:" >&2
        printf '%s\n' "$found" | sed 's/^[^_]*//' | { c++filt 2>/dev/null || cat; } >&2
        exit 1
    fi
    echo "$binary: all inlined"
done
