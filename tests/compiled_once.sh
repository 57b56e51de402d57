#!/usr/bin/env bash
# Whether kernels are compiled once, in rope-core: compiles a crate that rotates every element, both pairings, in place
# and across, and looks into its own objects, debug and release, for `rope_core::kernel` and `rope_core::simd`.
#
#   compiled_once.sh          the check
#   compiled_once.sh speed    what such a crate's debug build costs with optimized kernels: times, so nothing fails
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=${CARGO_TARGET_DIR:-$root/target}/compiled_once
# Nobody looks at it in a debugger.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
mkdir -p "$work/src"

fail() {
    echo "compiled_once: FAILED: $*"
    exit 1
}

cat >"$work/src/lib.rs" <<'END_OF_FILE'
//! All that leads to a kernel. No function is generic, so each is compiled here, with what it instantiates.
use half::{bf16, f16};
use rope_core::axes::Axes;
use rope_core::*;

type Done = Result<(), Error>;

macro_rules! one {
    ($($element:ident: $rotate:ident $parallel:ident $at:ident $qk:ident,)+) => {$(
        pub fn $rotate(x: &mut TensorMut<'_, $element>, rows: &Rows<'_>) -> Done {
            Rope::new(Pairing::Half).rotate(x, rows)?;
            Rope::new(Pairing::Interleaved).with_direction(Direction::Inverse).rotate(x, rows)
        }

        pub fn $parallel(x: &mut TensorMut<'_, $element>, rows: &Rows<'_>) -> Done {
            Rope::new(Pairing::Half).with_threads().rotate(x, rows)
        }

        pub fn $at(x: &mut TensorMut<'_, $element>, frequencies: &Frequencies<'_>) -> Done {
            Rope::new(Pairing::Half).rotate(x, &frequencies.at(7..9)?)?;
            Rope::new(Pairing::Interleaved).rotate(x, &frequencies.at(&[7, 9])?)
        }

        pub fn $qk(
            q: &mut TensorMut<'_, $element>,
            k: &mut TensorMut<'_, $element>,
            other: &mut TensorMut<'_, f32>,
            rows: &Rows<'_>,
        ) -> Done {
            Rope::new(Pairing::Half).rotate_qk(q, k, rows)?;
            Rope::new(Pairing::Interleaved).rotate_qk(q, other, rows)
        }
    )+};
}
one! {
    f32: rotate_f32 rotate_parallel_f32 rotate_at_f32 rotate_qk_f32,
    f16: rotate_f16 rotate_parallel_f16 rotate_at_f16 rotate_qk_f16,
    bf16: rotate_bf16 rotate_parallel_bf16 rotate_at_bf16 rotate_qk_bf16,
}

macro_rules! two {
    ($($name:ident: $input:ident $output:ident,)+) => {$(
        pub fn $name(x: &Tensor<'_, $input>, y: &mut TensorMut<'_, $output>, rows: &Rows<'_>) -> Done {
            for pairing in Pairing::ALL {
                Rope::new(Pairing::Half).with_output_pairing(pairing).rotate_into(x, y, rows)?;
                Rope::new(Pairing::Interleaved).with_output_pairing(pairing).rotate_into(x, y, rows)?;
            }
            Ok(())
        }
    )+};
}
two! {
    rotate_f32_into_f32: f32 f32, rotate_f32_into_f16: f32 f16, rotate_f32_into_bf16: f32 bf16,
    rotate_f16_into_f32: f16 f32, rotate_f16_into_f16: f16 f16, rotate_f16_into_bf16: f16 bf16,
    rotate_bf16_into_f32: bf16 f32, rotate_bf16_into_f16: bf16 f16, rotate_bf16_into_bf16: bf16 bf16,
}

pub fn rotate_by_all_rows(x: &mut TensorMut<'_, f32>) -> Done {
    let rope = Rope::new(Pairing::Half);
    let mut storage = [0.0; 1024];
    let mut blocks = [FrequencyChunk::EMPTY; FrequencyChunk::count(128)];
    let yarn = Scaling::Yarn(Yarn::new(4.0, 4096));

    let frequencies = Frequencies::new(Axes::mrope_interleaved(128, [24, 20, 20]), 5e6, &yarn)?;
    rope.rotate(x, &frequencies.rows(Positions::axis_major(&[1, 2, 3]))?)?;
    rope.rotate(x, &frequencies.rows(Positions::real_token_major(&[0.5, 2.0, 3.0]))?)?;
    let frequencies = Frequencies::new_in(&mut blocks, 128, 1e4, &yarn)?;
    rope.rotate(x, &frequencies.at(&[3_u32, 4])?.rows_in(&mut storage)?)?;
    let frequencies = Frequencies::from_inverse(4, &[1.0_f32, 0.5], 1.0)?;
    rope.rotate(x, &frequencies.rows(1000..1010)?)?;
    let table = Frequencies::new(128, 1e4, &Scaling::Default)?.rows(0..100)?;
    rope.rotate(x, &table.gather(&[5_i32, 7])?)?;
    rope.rotate(x, &table.range(3..9)?)?;
    rope.rotate(x, &Rows::new(&storage, [8, 128])?)
}
END_OF_FILE
functions=22

cd "$work"

if [[ ${1:-} == speed ]]; then
    export CARGO_TARGET_DIR=$work/target
    # The versions are those of this workspace: cargo takes what the crate needs from its lock file.
    cp "$root/Cargo.lock" Cargo.lock
    cat >Cargo.toml <<END_OF_FILE
[package]
name = "dependent"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
rope-core = { path = "$root/rope-core", features = ["rayon"] }
half = { version = "2.7", default-features = false }

# What the README tells users to write.
[profile.dev.package.rope-core]
opt-level = 3

# Without it.
[profile.plain]
inherits = "dev"
[profile.plain.package.rope-core]
opt-level = 0
END_OF_FILE

    cat >src/main.rs <<'END_OF_FILE'
//! Nanoseconds an element, the least of half a second: one line for each tensor.
use std::time::{Duration, Instant};

use half::bf16;
use rope_core::{Element, Error, Frequencies, Pairing, Rope, Scaling, TensorMut};

fn time<E: Element>(what: &str, one: E, pairing: Pairing, shape: [usize; 4]) -> Result<(), Error> {
    let mut data = vec![one; shape.iter().product()];
    let rows = Frequencies::new(shape[3], 1e4, &Scaling::Default)?.rows(0..shape[1])?;
    let rope = Rope::new(pairing);
    let mut x = TensorMut::new(&mut data, shape)?;
    let (start, mut least) = (Instant::now(), Duration::MAX);
    while start.elapsed() < Duration::from_millis(500) {
        let begin = Instant::now();
        rope.rotate(&mut x, &rows)?;
        least = least.min(begin.elapsed());
    }
    let elements = shape.iter().product::<usize>() as f64;
    println!("{:.4}\t{what} {shape:?} {}", least.as_secs_f64() * 1e9 / elements, pairing.name());
    Ok(())
}

fn main() -> Result<(), Error> {
    for pairing in Pairing::ALL {
        time("f32", 1.0_f32, pairing, [1, 2048, 32, 128])?;
        time("f32", 1.0_f32, pairing, [1, 64, 32, 128])?;
        time("bf16", bf16::ONE, pairing, [1, 64, 32, 128])?;
        time("f32", 1.0_f32, pairing, [1, 1, 40, 128])?;
    }
    Ok(())
}
END_OF_FILE
    for round in 1 2 3; do
        for profile in release dev plain; do cargo run -q --profile "$profile" >"$work/times.$profile.$round"; done
    done
    # least PROFILE: the lines of the rounds, each with its least time.
    least() {
        awk -F'\t' '!($2 in best) { order[++tensors] = $2 } !($2 in best) || $1 < best[$2] { best[$2] = $1 }
            END { for (i = 1; i <= tensors; i++) print best[order[i]] "\t" order[i] }' "$work/times.$1".{1,2,3}
    }
    echo "tensor; ns an element: a release build, a debug build with rope-core at opt-level 3, their ratio, one without"
    paste <(least release) <(least dev) <(least plain) | awk -F'\t' '
        { printf "%-40s %.3f %.3f %.2f %.1f\n", $2, $1, $3, $3 / $1, $5; if ($3 / $1 > worst) worst = $3 / $1 }
        END { printf "compiled_once: %d tensors, in debug at most %.2f times the time of release\n", NR, worst }'
    exit
fi

# What LIBRARY's own objects define, one a line.
defined() { nm --defined-only "$1" 2>/dev/null | c++filt | sed -n 's/^[0-9a-f]* [A-Za-z] //p'; }
kernels='rope_core(\[[0-9a-f]*\])?::(kernel|simd)::'

objects=0
declare -A level=([dev]=0 [release]=3)
for profile in dev release; do
    # Asked of the whole workspace, rope-core is the one of the tests and of the bench, which may be there already.
    built=$(cargo build -q --manifest-path "$root/Cargo.toml" --profile "$profile" --workspace --example kv_cache \
        --message-format json)
    library() { grep -o "[^\"]*/lib$1-[0-9a-f]*\.rlib" <<<"$built" | sed -n 1p; }
    core=$(library rope_core)
    begin=$(date +%s.%N)
    # The newer mangling names what a generic function was made with: one of core that was made with a kernel is seen.
    rustc --edition 2024 --crate-name dependent --crate-type rlib -C opt-level=${level[$profile]} -C embed-bitcode=no \
        -C symbol-mangling-version=v0 --extern "rope_core=$core" --extern "half=$(library half)" \
        -L "dependency=${core%/*}" src/lib.rs -o libdependent.rlib
    seconds=$(date +%s.%N | awk -v begin="$begin" '{ printf "%.1f", $1 - begin }')

    # A look that sees nothing anywhere proves nothing: rope-core itself has kernels, and the crate has its functions.
    defined "$core" >"$work/core"
    seen=$(grep -cE "$kernels" "$work/core" || true)
    [[ $seen -ge 50 ]] || fail "$profile: only $seen kernels in rope-core itself; is it still $kernels?"
    defined libdependent.rlib >"$work/dependent"
    own=$(grep -cE '^dependent(\[[0-9a-f]*\])?::rotate_[a-z0-9_]*$' "$work/dependent" || true)
    [[ $own == "$functions" ]] || fail "$profile: $own of $functions functions in the crate that uses them"

    # The block of frequencies is data, which lies beside the kernel that reads it.
    sed -E -i "s/rope_core(\[[0-9a-f]*\])?::kernel::sincos::chunk::FrequencyChunk/FrequencyChunk/g" "$work/dependent"
    if grep -E "$kernels" "$work/dependent" >"$work/found"; then
        cut -c1-240 "$work/found" | sed -n 1,30p
        fail "$profile: $(wc -l <"$work/found") symbols of kernels in the crate that depends on rope-core"
    fi
    text=$(size -t libdependent.rlib 2>/dev/null | awk 'END { print $1 }')
    echo "$profile: none among $(wc -l <"$work/dependent") symbols, $text bytes, anew in $seconds s; $seen in rope-core"
    objects=$((objects + 1))
done
echo "compiled_once: $functions functions in $objects builds, and no kernel made for them"
