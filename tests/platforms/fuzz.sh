#!/usr/bin/env bash
# The fuzz targets under AddressSanitizer, one after the other:
#   fuzz.sh [SECONDS [TARGET ..]]    4 seconds each, and all of them, if not said
# A run begins with fuzz/corpus and what earlier runs have discovered, which is kept under target/platforms/fuzz/corpus.
# An input that makes a target fail is kept in fuzz/artifacts.
source "$(dirname "$0")/common.sh"
seconds=${1:-4}
targets=("${@:2}")
version=0.13.2

command -v c++ >/dev/null || packages g++
address_sanitizer
if [[ $(cargo fuzz --version 2>/dev/null) != "cargo-fuzz $version" ]]; then
    echo "installing cargo-fuzz $version"
    # As in interface.sh, it is used once.
    cargo install --quiet --debug --locked "cargo-fuzz@$version" >>"$log" 2>&1 || cannot "cargo install cargo-fuzz@$version failed"
fi

failed() {
    tail -n 100 "$log"
    fail "$@"
}

# More units than one compile on all cores. A callback at each comparison was half of the time, and tells a fuzzer whose
# bytes are choices nothing; the words of JSON are in a dictionary.
how=(--fuzz-dir fuzz --codegen-units 16 --no-trace-compares)
step build
cargo fuzz build "${how[@]}" >>"$log" 2>&1 || failed "the targets do not build"
if [[ ${#targets[@]} == 0 ]]; then mapfile -t targets < <(cargo fuzz list --fuzz-dir fuzz); fi

total=0
for target in "${targets[@]}"; do
    step "$target, $seconds s"
    discovered=$CARGO_TARGET_DIR/corpus/$target
    mkdir -p "$discovered"
    # An input's worth by how rare its features are takes a fifth of the time to compute, and finds less: in 20 s of
    # rotate 15,800 edges and 16,130, without 16,510 and 16,270; of chain 11,030 and 10,600, 12,030 and 11,900.
    options=(-max_total_time="$seconds" -seed="$ROPE_SEED" -max_len=4096 -timeout=60 -print_final_stats=1 -entropic=0)
    if [[ -f fuzz/dictionaries/$target.dict ]]; then options+=(-dict="fuzz/dictionaries/$target.dict"); fi
    : >"$log"
    cargo fuzz run "${how[@]}" "$target" "$discovered" "fuzz/corpus/$target" -- "${options[@]}" >"$log" 2>&1 ||
        failed "$target: see fuzz/artifacts/$target"
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [[ ${executions:-0} -gt 0 ]] || failed "$target: nothing was executed"
    echo "$target: $executions executions, $(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second"
    total=$((total + executions))
done
echo "platform $name: ${#targets[@]} targets, $total executions, nothing found"
