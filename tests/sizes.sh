#!/usr/bin/env bash
# How large what users link is. Sizes are exact, unlike times: past its bound one is a failure.
#   sizes.sh [top]      with the largest functions of each as well
source "$(dirname "$0")/platforms/common.sh"

# What is measured, and its budget in bytes: a round number with at least 5 % of room when it was set. A budget changes
# only with a reason. Smaller code is none. Codes with a scale per group (MXFP4, MXFP8, NVFP4, tiles of E4M3) raised
# three when they were 263 KB on x86-64; they are 130 KB less since all formats share kernels. Vectors that decode
# numbers by channel, and codes with a minimum packed in vectors, raised the same three by 5 %.
bounds="
rope-core-x86_64          1620000   machine code of every element, pairing and backend, frequencies, rows, norms, caches, gradients and the short ways of C's calls
models-x86_64              187000   what reads config.json and GGUF files
rope-core-aarch64          940000   the same for AArch64, which has SVE beside NEON
librope.so                2840000   the shared library, stripped; a tenth of it reads models' files
librope.a                19900000   the static one, stripped; nearly all of it is Rust's standard library
frequencies-x86_64          95000   what frequencies and rows add to a program with given rows (wished for: 60000)
config-x86_64              323000   what reading a config.json adds to a program that rotates by any plan
scaling-x86_64               3500   the largest function of the frequencies
playground.wasm             60000   what the report's page computes with
firmware-speed              90500   flash of the test program for a Cortex-M4F
firmware-size               60000   the same, built for size
firmware-given              11600   flash of a program with given rows, f32 and one pairing, built for size
"

top=${1:-}
packages binutils
aarch64_toolchain
linker=$(rust_lld)
fresh=$(mktemp "$temporary/sizes.XXXXXX")
trap 'rm -f "$fresh"' EXIT

# is WHAT BYTES
is() {
    [[ $2 -gt 0 ]] || fail "$1 has no size"
    echo "$1 $2" >>"$fresh"
}

# The bytes of all sections of that kind: functions have sections of their own.
code() { size -A "$1" 2>/dev/null | awk '$1 ~ /^\.text/ { sum += $2 } END { print sum + 0 }'; }
flash() { size -A "$1" | awk '$1 ~ /^\.(vector_table|text|rodata|data)$/ { sum += $2 } END { print sum + 0 }'; }
linked() { size "$1" | awk 'END { print $4 }'; }

# Functions and what they take, the largest first, one a line.
functions() {
    nm -S --defined-only "$1" 2>/dev/null | c++filt | sed -E 's/\[[0-9a-f]{8,}\]//g; s/::h[0-9a-f]{16}$//' |
        perl -ne 'my (undef, $size, $kind, @name) = split;
            printf "%d %s\n", hex $size, "@name" if @name && $kind =~ /^[tTwW]$/' |
        sort -rn
}
show() {
    if [[ -z $top ]]; then return; fi
    echo "--- the largest functions of $1"
    functions "$2" | cut -c1-220 | sed -n 1,40p
}

step "this machine: the libraries"
released here
release=${core%/deps/*}
if [[ $(uname -m) == x86_64 ]]; then
    # `rayon`, the feature that the library goes without, has generic functions only.
    is rope-core-x86_64 "$(code "$core")"
    is models-x86_64 "$(code "$(ls -t "${core%/*}"/librope_models-*.rlib | sed -n 1p)")"
    functions "$core" >"$temporary/functions"
    is scaling-x86_64 "$(awk '/rope_core::describe::frequencies::/ { print $1; exit }' "$temporary/functions")"
fi
for library in librope.so librope.a; do
    strip --strip-unneeded "$installed/lib/$library" -o "$temporary/$library"
    is $library "$(stat -c %s "$temporary/$library")"
done
show rope-core "$core"
show librope.so "$release/librope.so"

step "this machine: a program with and without frequencies"
program=$temporary/program
mkdir -p "$program"
cat >"$program/given.rs" <<'END_OF_FILE'
use std::hint::black_box;

use rope_core::{Error, Pairing, Rope, Rows, TensorMut};

fn main() -> Result<(), Error> {
    let (mut x, row) = (vec![1.0_f32; 4 * 128], [[0.6_f32; 64], [0.8; 64]].concat());
    let rows = Rows::new(&row, [1, 128])?;
    Rope::new(Pairing::Half).rotate(&mut TensorMut::new(black_box(&mut x), [1, 1, 4, 128])?, &rows)?;
    println!("{}", x[0]);
    Ok(())
}
END_OF_FILE
cat >"$program/made.rs" <<'END_OF_FILE'
use std::hint::black_box;

use rope_core::{Error, Frequencies, Pairing, Rope, Scaling, TensorMut};

fn main() -> Result<(), Error> {
    let mut x = vec![1.0_f32; 4 * 128];
    let frequencies = Frequencies::new(128, 500_000.0, &Scaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_context: 8192,
    })?;
    let rows = frequencies.rows(black_box(1000)..1001)?;
    Rope::new(Pairing::Half).rotate(&mut TensorMut::new(black_box(&mut x), [1, 1, 4, 128])?, &rows)?;
    println!("{}", x[0]);
    Ok(())
}
END_OF_FILE
cat >"$program/coded.rs" <<'END_OF_FILE'
use std::hint::black_box;

use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::{Error, Pairing, Rope, Rows, Tensor};

fn main() -> Result<(), Error> {
    let (x, row) = (vec![1.0_f32; 2 * 128], [[0.6_f32; 64], [0.8; 64]].concat());
    let (rows, mut memory) = (Rows::new(&row, [1, 128])?, [0; 2 * 128]);
    let (layout, scale) = (CacheLayout::nhd([1, 1, 2, 128])?, QuantScale::Divide(0.5.into()));
    let mut cache = CacheMut::coded(&mut memory, layout, CacheFormat::quantized(QuantFormat::E4m3, scale))?;
    let x = Tensor::new(black_box(&x), [1, 1, 2, 128])?;
    Rope::new(Pairing::Half).rotate_into(&x, &mut cache.slots(&[0]), &rows)?;
    println!("{}", memory[0]);
    Ok(())
}
END_OF_FILE
# Every plan that a file may ask for, so that the other one adds none.
cat >"$program/text.rs" <<'END_OF_FILE'
use std::hint::black_box;

use rope_core::{AnyRows, Dimension, Direction, Frequencies, FullRows, Pairing, Rope, Scaling, TensorMut};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(black_box("config.json"))?;
    let mut x = vec![1.0_f32; 4 * 128];
    let frequencies = Frequencies::new(text.len() & !1, 500_000.0, &Scaling::Default)?;
    let mut rows = AnyRows::from(frequencies.rows(black_box(1000)..1001)?);
    if black_box(false) {
        rows = AnyRows::Channels(FullRows::new(rows.rows().clone())?);
    }
    let rope = Rope::new(black_box(Pairing::Half)).with_output_pairing(black_box(Pairing::Half));
    let x = TensorMut::new(black_box(&mut x), [1, 1, 4, 128])?;
    let mut window = x.narrow(Dimension::Channels, black_box(0)..128)?;
    rope.with_direction(black_box(Direction::Forward)).rotate(&mut window, &rows)?;
    println!("{:?}", window.shape());
    Ok(())
}
END_OF_FILE
cat >"$program/config.rs" <<'END_OF_FILE'
use std::hint::black_box;

use rope_core::TensorMut;
use rope_models::Config;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(black_box("config.json"))?;
    let mut x = vec![1.0_f32; 4 * 128];
    let model = Config::from_json(&text)?.model()?;
    for layer in model.layers()?.iter() {
        let Some(rotation) = layer.rotation else { continue };
        let rows = rotation.rows(black_box(1000)..1001)?;
        let rope = rotation.rope_for(128)?;
        rope.rotate(&mut TensorMut::new(black_box(&mut x), [1, 1, 4, 128])?, &rows)?;
    }
    println!("{}", x[0]);
    Ok(())
}
END_OF_FILE
models=$(ls -t "${core%/*}"/librope_models-*.rlib | sed -n 1p)
for what in given made coded text config; do
    # What `cargo build --release` has for a program that depends on the library above.
    tests rustc --edition 2024 -O -C symbol-mangling-version=v0 --extern "rope_core=$core" \
        --extern "rope_models=$models" \
        -L "dependency=$release/deps" -L "dependency=${installed%/*}/release/deps" \
        "$program/$what.rs" -o "$program/$what"
done
if [[ $(uname -m) == x86_64 ]]; then
    is frequencies-x86_64 $(($(linked "$program/made") - $(linked "$program/given")))
    is config-x86_64 $(($(linked "$program/config") - $(linked "$program/text")))
fi
# Programs without frequencies link none of their code; `made` shows that the search would find it.
theirs='rope_core::(describe::frequencies|kernel::sincos)::'
[[ $(functions "$program/made" | grep -cE "$theirs") -ge 10 ]] || fail "no frequencies in $program/made"
if functions "$program/given" | grep -E "$theirs"; then fail "these are in a program that makes no frequencies"; fi
# Who writes one code of 8 bits links no other.
grep -qE 'quantize::.*CodedFloat<3\b' <(functions "$program/coded") || fail "no E4M3 in $program/coded"
others='quantize::(ggml::|CodedFloat<2\b|[A-Za-z]*(Int8|Q8_0))'
[[ $(functions "$core" | grep -cE "$others") -ge 30 ]] || fail "no other codes in the library"
if functions "$program/coded" | grep -E "$others"; then fail "these are in a program that writes E4M3 only"; fi
show "a program with frequencies" "$program/made"
show "a program without" "$program/given"
show "a program that reads a config.json" "$program/config"

debian_toolchain
step "rope-core for aarch64"
released "$aarch64"
is rope-core-aarch64 "$(code "$core")"
show "rope-core for aarch64" "$core"

step "the playground"
playground
is playground.wasm "$(stat -c %s "$playground")"

# firmware.sh runs these.
export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$linker
cd tests/firmware
firmware=$CARGO_TARGET_DIR/thumbv7em-none-eabihf/release
for level in 3 s; do
    step "firmware, optimized for $level"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=$level \
        tests cargo build --locked --release --target thumbv7em-none-eabihf -Zbuild-std=core
    if [[ $level == 3 ]]; then
        is firmware-speed "$(flash "$firmware/rope-firmware")"
    else
        is firmware-size "$(flash "$firmware/rope-firmware")"
        is firmware-given "$(flash "$firmware/given")"
        show "the firmware with given rows" "$firmware/given"
    fi
    show "the firmware, optimized for $level" "$firmware/rope-firmware"
done

step "all sizes"
awk -v name="$name" '
    NR == FNR { size[$1] = $2; next }
    NF {
        bound = $2; what = $1; $1 = $2 = ""
        if (!(what in size)) { left_out++; next }
        over = size[what] > bound
        printf "%-20s %9d of at most %9d  %s%s\n", what, size[what], bound, over ? "TOO LARGE: " : "", substr($0, 3)
        measured++; failed += over; delete size[what]
    }
    END {
        for (what in size) { print what " has no bound"; failed++ }
        if (failed) { printf "%s: FAILED: %d of %d sizes\n", name, failed, measured; exit 1 }
        printf "%s: %d sizes within their bounds%s\n", name, measured, left_out ? ", " left_out " of others" : ""
    }' "$fresh" - <<<"$bounds"
