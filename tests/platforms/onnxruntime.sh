#!/usr/bin/env bash
# rope-onnxruntime: lints, its wheel, and its operators in three versions of ONNX Runtime, against the oracle and the
# built-in ones. ROPE_REQUIRE=onnxruntime makes it a failure that ONNX Runtime cannot be had.
source "$(dirname "$0")/common.sh"

adapter=$root/rope-core/adapters/onnxruntime
unavailable() {
    case ",${ROPE_REQUIRE:-}," in
    *,onnxruntime,*) fail "ROPE_REQUIRE has onnxruntime: $*" ;;
    *) cannot "$*" ;;
    esac
}

step "ONNX Runtime"
python=$(command -v python3) || unavailable "no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || unavailable "python 3.11 or newer"
# install DIRECTORY PACKAGE ..: once.
install() {
    local directory=$temporary/python/$1
    shift
    if [[ -d $directory ]]; then return; fi
    rm -rf "$directory.partial"
    "$python" -m pip install -q --disable-pip-version-check --target "$directory.partial" "$@" >>"$log" 2>&1 ||
        unavailable "pip install $* failed"
    mv "$directory.partial" "$directory"
}
# numpy 1 is what the oldest was built with.
versions=(1.17.3 1.22.1 1.32.0)
too_old=1.16.3
install onnx "numpy==1.26.4" onnx
for version in "${versions[@]}" "$too_old"; do install "$version" --no-deps "onnxruntime==$version"; done

cd "$adapter"
step "formatting, lints"
cargo fmt --check
# The profile that is tested, whose dependencies are built once. Clippy checks, and shares none of it.
cargo clippy -q --locked --all-features -- -D warnings

step "the wheel"
wheel_of rope_onnxruntime
cmp setup.py ../torch/setup.py || fail "setup.py is another one than rope-torch's"
size=$(stat -c %s "$wheel")
if ((size > 1200000)); then fail "the wheel has $size bytes"; fi
echo "$(basename "$wheel"): $size bytes"
rm -rf "$temporary/installed"
tests "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$temporary/installed" "$wheel"

# run VERSION SCRIPT ..: with the wheel as it was installed.
run() {
    local version=$1
    shift
    tests env PYTHONDONTWRITEBYTECODE=1 \
        PYTHONPATH="$temporary/python/$version:$temporary/python/onnx:$temporary/installed:$adapter/tests" "$python" "$@"
}
step "too old a version"
run "$too_old" "$adapter/tests/too_old.py"

step "operators, by the operators that are built for the tests too"
tests cargo build --release --locked --features probes
cp "$CARGO_TARGET_DIR"/release/librope_onnxruntime.* "$temporary/installed/rope_onnxruntime/"
# Random nodes for a minute in all. The newest version has most of the tests, so the others run beside it.
suites=(test_embedding test_exact test_rewrite test_transformer)
newest=${versions[-1]}
(for version in "${versions[@]::2}"; do ROPE_SECONDS=10 run "$version" -m unittest "${suites[@]}"; done) &
ROPE_SECONDS=40 run "$newest" -m unittest "${suites[@]}"
wait $! || fail "an older version than $newest"
step "as a runner of the bench"
PYTHONPATH="$temporary/python/$newest:$temporary/python/onnx:$temporary/installed" \
    measured 8 --runner ../../../rope-bench/runners/onnxruntime --formulation onnxruntime/rope --workload W3,W4
# Skipped ones, of operators that a version does not have, are not counted.
awk '/^Ran [0-9]+ tests?/ { ran += $2 } match($0, /skipped=[0-9]+/) { ran -= substr($0, RSTART + 8) }
     END { printf "test result: ok. %d passed\n", ran }' "$log" >"$temporary/count"
cat "$temporary/count" >>"$log"
passed "in ${#versions[@]} versions"
