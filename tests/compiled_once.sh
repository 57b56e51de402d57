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

# The suite `kinds` compiles it too, so that whoever changes the interface sees it.
cp "$root/tests/compiled_once.rs" "$work/src/lib.rs"
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
