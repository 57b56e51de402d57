#!/usr/bin/env bash
# rope-bench on three architectures (this one, aarch64 in an emulator, wasm32 in Node), one report of all of them, and
# the report in headless Chromium: its console must be silent and its playground drawn. UPDATE=1 renews playground.wasm.
source "$(dirname "$0")/common.sh"

wasm_in_node
aarch64_toolchain
packages chromium
work=$temporary
small=(--workload W5 --element f32)

step "here"
optimized_bench
tests "$bench" "${small[@]}" --json "$work/here.json"
tests "$bench" rows --most 4096 --json "$work/rows.json"
tests "$bench" accuracy --positions 256 --json "$work/accuracy.json"

# For other machines debug builds, for which aarch64.sh has built dependencies and rope-core, and wasm32.sh std: what is
# looked at here is that the bench runs there, counts and is shown, not how fast it is.
debian_toolchain
optimized core compiler_builtins rope-tests
build() {
    tests cargo build --config profile.dev.package.rope-bench.opt-level=1 "${suite_options[@]}" -p rope-bench "$@"
}

step "aarch64, emulated: instructions instead of times"
build --target $aarch64 --features intrinsics
read -ra emulator <<<"$(aarch64_on max,sve=off)"
program=$CARGO_TARGET_DIR/$aarch64/debug/rope-bench
tests "${emulator[@]}" "$program" "${small[@]}" --formulation fused,intrinsics,complex,even-odd,rotate-half \
    --json "$work/aarch64.json" --emulated-by "$(qemu-aarch64 --version | sed -n 1p)"
# To a file QEMU writes its log line by line, to its standard error in parts of lines.
trace=("${emulator[@]}" -D /dev/stderr -d in_asm,exec,nochain)
"$bench" instructions "$work/aarch64.json" --program "$program" -- "${trace[@]}"

step "wasm32, in Node"
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$wasm_link -C target-feature=+simd128"
build --target wasm32-wasip1 "${std[@]}"
read -ra node <<<"$CARGO_TARGET_WASM32_WASIP1_RUNNER"
program=$CARGO_TARGET_DIR/wasm32-wasip1/debug/rope-bench.wasm
tests "${node[@]}" "$program" "${small[@]}" --json "$work/wasm32.json"
step "the playground"
kept=$root/rope-bench/report/src/playground.wasm
playground
if [[ -n ${UPDATE:-} ]]; then cp "$playground" "$kept"; fi
# Another compiler makes other bytes; they must compute the same.
node "$here/playground.mjs" "$playground" "$kept"

step "the report in Chromium"
"$bench" report "$work"/{here,rows,accuracy,aarch64,wasm32}.json --output "$work/report.html"
# load PAGE: its document, in a window of 1300 x 900, and what the console said.
load() {
    timeout 120 chromium --headless --window-size=1300,900 --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync --virtual-time-budget=10000 \
        --user-data-dir="$work/profile" --enable-logging=stderr --dump-dom "file://$1" \
        >"$work/document" 2>"$work/console.log"
    grep -E ':CONSOLE[:(]' "$work/console.log" >"$work/console" || true
}
# A check that cannot fail checks nothing.
echo '<!doctype html><title>wrong</title><script>nothing.such()</script>' >"$work/wrong.html"
load "$work/wrong.html"
grep -q ReferenceError "$work/console" || fail "this Chromium does not show console errors"
load "$work/report.html"
if [[ -s $work/console ]]; then
    cat "$work/console"
    fail "the console is not silent"
fi
grep -q 'data-state="drawn"' "$work/document" || fail "the playground was not drawn"
for part in 'Instructions for each element that rotates' wasm32-wasip1 'Error against position' 'Making cos and sin'; do
    grep -q "$part" "$work/document" || fail "the page has no '$part'"
done
# Every drawing of the file, and those of the playground's planes.
written=$(grep -o '<svg ' "$work/report.html" | wc -l)
loaded=$(grep -o '<svg ' "$work/document" | wc -l)
[[ $loaded == $((written + 12)) ]] || fail "$written drawings written, $loaded loaded"
# Tables fit the window. The same check must see one that does not.
# wider PAGE: the tables that are wider than their place.
wider() {
    cat "$1" - >"$work/probed.html" <<'HTML'
<script>addEventListener("load", () => {
    const wide = [...document.querySelectorAll(".wide")].filter((one) => one.scrollWidth > one.clientWidth);
    document.body.dataset.wider = wide.length;
})</script>
HTML
    load "$work/probed.html"
    grep -o 'data-wider="[0-9]*"' "$work/document" | tr -dc '0-9'
}
sed 's/<div class="wide">/<div class="wide" style="width:100px">/' "$work/report.html" >"$work/narrow.html"
[[ $(wider "$work/narrow.html") != 0 ]] || fail "a table in 100 pixels is not seen to be wider"
[[ $(wider "$work/report.html") == 0 ]] || fail "a table is wider than a window of 1300 pixels"
echo "platform $name: 3 architectures in one page, $loaded drawings, silent console"
