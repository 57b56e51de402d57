#!/usr/bin/env bash
# Other libraries' RoPE, by the runners of rope-bench: builds those in Rust, and checks each against the oracle.
source "$(dirname "$0")/common.sh"

# Nothing is measured here, and optimized all of it takes twice as long to build.
export CARGO_PROFILE_DEV_DEBUG=0
packages clang cmake g++ python3-pip
python=$temporary/python
if [[ ! -d $python ]]; then
    python3 -m pip install -q --disable-pip-version-check --target "$python.partial" numpy onnx onnxruntime \
        || cannot "pip install numpy onnx onnxruntime failed"
    mv "$python.partial" "$python"
fi
export PYTHONPATH=$python

step "the runners in Rust"
# What is measured nowhere need not be optimized, and what is never called need not be compiled.
export CMAKE_CXX_COMPILER_LAUNCHER=$here/only_ggml.sh LLAMA_LIB_PROFILE=Debug
runners=()
for runner in candle burn ggml; do
    manifest=rope-bench/runners/$runner/Cargo.toml
    cargo fmt --manifest-path $manifest --check
    CARGO_TARGET_DIR=$frameworks tests cargo build --locked --manifest-path $manifest
    # As described, but for how it is built.
    mkdir -p "$temporary/$runner"
    python3 - rope-bench/runners/$runner "$frameworks/debug/runner-$runner" >"$temporary/$runner/runner.json" <<'PYTHON'
import json, sys

description = json.load(open(f"{sys.argv[1]}/runner.json"))
print(json.dumps({**description, "command": [sys.argv[2]]}))
PYTHON
    runners+=(--runner "$temporary/$runner")
done
cargo fmt --manifest-path rope-bench/runners/protocol/Cargo.toml --check
for runner in numpy onnxruntime; do runners+=(--runner rope-bench/runners/$runner); done

step "a run"
# rope-onnxruntime's and rope-torch's own operators are compared by the jobs of these names.
runners+=(--formulation candle,burn,ggml,numpy,onnxruntime/own,onnxruntime/as-called,onnxruntime/onnx)
# Heads-major tokens; then one tensor and two, positions of their own, a part of a head.
measured 13 "${runners[@]}" --workload W2 --element f32
measured 109 "${runners[@]}" --workload W3,W4,W5,W4d128r32
python3 - "$temporary/measured.json" <<'PYTHON'
import json, sys

# The angles of positions up to 32 k in f32, and 16 bits for tables and for every step.
bounds = {"f32": 1e-2, "f16": 1e-2, "bf16": 2e-2}
three, two, one = {"f32", "f16", "bf16"}, {"f32", "f16"}, {"f32"}
expected = {
    "candle/rope": three, "candle/rope-i": three, "candle/rope-thd": three, "candle/as-called": three, "burn": one, "ggml/normal": two,
    "ggml/neox": two, "numpy": two, "onnxruntime/own": two, "onnxruntime/as-called": two,
    "onnxruntime/onnx": two,
}
libraries = {"candle": "candle-nn", "ggml": "llama-cpp-sys-2"}
missing = {(name, element) for name, elements in expected.items() for element in elements}
failed = False
for case in json.load(open(sys.argv[1]))["cases"]:
    for m in case["measurements"]:
        missing.discard((m["formulation"], case["element"]))
        family = m["formulation"].split("/")[0]
        right = m["error"] <= bounds[case["element"]] and m["time"]["minimum"] > 0 and m["preparation"] > 0
        if not right or not m["version"].startswith(libraries.get(family, family) + " "):
            print("platform peers: FAILED: wrong:", case["group"], case["shape"], m)
            failed = True
for name, element in sorted(missing):
    print(f"platform peers: FAILED: {name} did not run in {element}")
sys.exit(bool(failed or missing))
PYTHON

step "quantization"
# Blocks of other bytes stop it. Three sizes of each format.
tests "$root/target/debug/rope-bench" cache --runner "$temporary/ggml"
count=$(grep -c 'ggml/q' "$log")
[[ $count == 18 ]] || fail "$count measurements of ggml's quantizers instead of 18"
echo "platform $name: 11 formulations of 5 runners and 6 formats of blocks, all right"
