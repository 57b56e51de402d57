#!/usr/bin/env bash
# Other libraries' RoPE, built into rope-bench: builds all of them, and checks each against the oracle.
source "$(dirname "$0")/common.sh"

# Nothing is measured here, and optimized all of it takes twice as long to build.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$frameworks
packages clang cmake g++ python3-pip
if [[ -z ${ORT_DYLIB_PATH:-} ]]; then
    library=$temporary/onnxruntime
    if [[ ! -d $library ]]; then
        python3 -m pip install -q --disable-pip-version-check --no-deps --target "$library.partial" onnxruntime \
            || cannot "pip install onnxruntime failed"
        mv "$library.partial" "$library"
    fi
    ORT_DYLIB_PATH=$(ls "$library"/onnxruntime/capi/libonnxruntime.so.*)
    export ORT_DYLIB_PATH
fi
# What is measured nowhere need not be optimized, and what is never called need not be compiled.
export CMAKE_CXX_COMPILER_LAUNCHER=$here/only_ggml.sh LLAMA_LIB_PROFILE=Debug
features=peer-candle,peer-burn,peer-ggml,peer-ort
bench() { cargo run -q -p rope-bench --features $features "${unoptimized[@]}" -- "$@"; }

step "a run"
# One token, positions of their own, a part of a head, threads. The bench stops at a result that is wrong.
result=$temporary/result.json
bench --formulation candle,burn,ggml,ort --workload W3,W4,W5,W4d128r32 --json "$result"
bench --formulation candle,burn,ggml,ort --workload W4,W5 --threads 2
python3 - "$result" <<'EOF'
import json, sys

# The angles of positions up to 32 k in f32, and 16 bits for tables and for every step.
bounds = {"f32": 1e-2, "f16": 1e-2, "bf16": 2e-2}
three, two, one = {"f32", "f16", "bf16"}, {"f32", "f16"}, {"f32"}
expected = {
    "candle/rope": three, "candle/rope-i": three, "candle/rope-thd": three, "burn": one,
    "ggml/normal": two, "ggml/neox": two, "ort/contrib": two, "ort/onnx": two,
}
missing = {(name, element) for name, elements in expected.items() for element in elements}
failed = False
for case in json.load(open(sys.argv[1]))["cases"]:
    for m in case["measurements"]:
        missing.discard((m["formulation"], case["element"]))
        if not (m["error"] <= bounds[case["element"]] and m["time"]["minimum"] > 0 and m["preparation"] > 0):
            print("platform peers: FAILED: wrong:", case["group"], case["shape"], m)
            failed = True
for name, element in sorted(missing):
    print(f"platform peers: FAILED: {name} did not run in {element}")
sys.exit(bool(failed or missing))
EOF

step "numpy, as a runner"
if [[ ! -d $temporary/numpy ]]; then
    python3 -m pip install -q --disable-pip-version-check --target "$temporary/numpy.partial" numpy \
        || cannot "pip install numpy failed"
    mv "$temporary/numpy.partial" "$temporary/numpy"
fi
# One tensor and two, both orders, both pairings, a part of a head, positions of each sequence.
PYTHONPATH=$temporary/numpy bench --runner rope-bench/runners/numpy --formulation numpy --passes 1 \
    --workload W2,W3,W4,W4d128r32 --json "$result"
python3 - "$result" <<'PYTHON'
import json, sys

cases = json.load(open(sys.argv[1]))["cases"]
wrong = [case for case in cases if not case["measurements"][0]["version"].startswith("numpy ")]
# Four workloads, two pairings, two elements.
if len(cases) != 16 or wrong:
    sys.exit(f"platform peers: FAILED: numpy ran in {len(cases)} cases, {len(wrong)} of them without its version")
PYTHON

step "ONNX Runtime, as a runner"
if [[ ! -d $temporary/onnx ]]; then
    python3 -m pip install -q --disable-pip-version-check --target "$temporary/onnx.partial" onnx \
        || cannot "pip install onnx failed"
    mv "$temporary/onnx.partial" "$temporary/onnx"
fi
packages_of_onnx=$temporary/onnx:$(dirname "$(dirname "$(dirname "$ORT_DYLIB_PATH")")")
# rope-onnxruntime's own kernel is compared by the job onnxruntime.
PYTHONPATH=$packages_of_onnx bench --runner rope-bench/runners/onnxruntime --formulation onnxruntime/own --passes 1 \
    --workload W2,W3,W4 --json "$result"
python3 - "$result" <<'PYTHON'
import json, sys

cases = json.load(open(sys.argv[1]))["cases"]
wrong = [case for case in cases if not case["measurements"][0]["version"].startswith("onnxruntime ")]
# Three workloads, two pairings, two elements.
if len(cases) != 12 or wrong:
    sys.exit(f"platform peers: FAILED: ONNX Runtime ran in {len(cases)} cases, {len(wrong)} without its version")
PYTHON

step "without the library"
if ORT_DYLIB_PATH=$temporary/nowhere bench --formulation ort --shape 1,1,1,4 2>"$log"; then
    fail "a run without ONNX Runtime succeeded"
fi
grep -q "pip install .*onnxruntime" "$log"
echo "platform $name: 8 formulations of 4 libraries built in, NumPy and ONNX Runtime beside them, all right"
