#!/usr/bin/env bash
# rope-torch: lints, its wheel, which is built without torch, and its operators in PyTorch, against golden data and
# eager PyTorch, and small models of transformers with and without it. ROPE_TORCH names other versions than the newest.
# ROPE_REQUIRE=torch makes it a failure that PyTorch cannot be had.
source "$(dirname "$0")/common.sh"

adapter=$root/rope-core/adapters/torch
read -ra versions <<<"${ROPE_TORCH:-2.15.0}"
unavailable() {
    case ",${ROPE_REQUIRE:-}," in
    *,torch,*) fail "ROPE_REQUIRE has torch: $*" ;;
    *) cannot "$*" ;;
    esac
}

step "the tools"
[[ $(uname -sm) == "Linux x86_64" ]] || unavailable "Linux on x86-64"
packages gcc binutils unzip
python=$(command -v python3) || unavailable "no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || unavailable "python 3.10 or newer"

cd "$adapter"
step "formatting, lints"
cargo fmt --check
cargo clippy -q --locked -- -D warnings

step "the wheel"
wheel_of rope_kernels libtorch_cpu.so
size=$(stat -c %s "$wheel")
# Codes with a scale per group, of channels or of tokens, are a fifth of it.
if ((size > 1350000)); then fail "the wheel has $size bytes"; fi
echo "$(basename "$wheel"): $size bytes"
metadata=$(unzip -p "$wheel" '*/METADATA')
for line in "Requires-Dist: torch>=2.10" "Requires-Python: >=3.10" "Project-URL: Documentation" "Author: "; do
    grep -q "^$line" <<<"$metadata" || fail "the wheel's metadata has no line $line"
done

step "transformers 5.24.0, and its sources, which have the common tests"
transformers=$temporary/transformers-5.24.0
if [[ ! -d $transformers ]]; then
    rm -rf "$transformers.partial"
    "$python" -m pip install -q --disable-pip-version-check --target "$transformers.partial" transformers==5.24.0 \
        >>"$log" 2>&1 || unavailable "pip install transformers==5.24.0 failed"
    mv "$transformers.partial" "$transformers"
fi
sources=$temporary/transformers-sources
if [[ ! -d $sources ]]; then
    rm -rf "$sources.partial"
    mkdir "$sources.partial"
    "$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary transformers -d "$sources.partial" \
        transformers==5.24.0 >>"$log" 2>&1 || unavailable "pip download transformers==5.24.0 failed"
    tar -xzf "$sources.partial"/transformers-5.24.0.tar.gz -C "$sources.partial" --strip-components 1
    "$python" -m pip install -q --disable-pip-version-check --target "$sources.partial/needed" pytest parameterized \
        >>"$log" 2>&1 || unavailable "pip install pytest parameterized failed"
    mv "$sources.partial" "$sources"
fi

for version in "${versions[@]}"; do
    step "PyTorch $version"
    torch=$temporary/torch-$version
    if [[ ! -d $torch ]]; then
        rm -rf "$torch.partial"
        "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$torch.partial" "torch==$version" \
            filelock fsspec jinja2 markupsafe mpmath networkx "numpy<3" setuptools sympy typing-extensions >>"$log" 2>&1 ||
            unavailable "pip install torch==$version failed"
        mv "$torch.partial" "$torch"
    fi
    bash "$here/torch_stubs.sh" "$torch/torch" "$temporary/stubs-$version"
    rm -rf "$temporary/installed"
    tests "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$temporary/installed" "$wheel"
    tests env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$torch:$temporary/installed:$transformers" \
        LD_LIBRARY_PATH="$temporary/stubs-$version" "$python" tests/run.py
done

step "the common model tests of transformers"
tests env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$torch:$temporary/installed:$transformers:$sources/needed" \
    LD_LIBRARY_PATH="$temporary/stubs-$version" "$python" tests/common_models.py "$sources"

step "exported to ONNX"
onnx=$temporary/onnx
if [[ ! -d $onnx ]]; then
    rm -rf "$onnx.partial"
    "$python" -m pip install -q --disable-pip-version-check --target "$onnx.partial" onnx==1.23.2 onnxscript==0.7.2 \
        onnxruntime==1.32.0 >>"$log" 2>&1 || unavailable "pip install onnx onnxscript onnxruntime failed"
    mv "$onnx.partial" "$onnx"
fi
tests cargo build -q --locked --release --manifest-path ../onnxruntime/Cargo.toml
tests env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$torch:$temporary/installed:$transformers:$onnx" \
    LD_LIBRARY_PATH="$temporary/stubs-$version" \
    ROPE_ONNXRUNTIME="$CARGO_TARGET_DIR/release/librope_onnxruntime.so" "$python" tests/run.py exported

step "as a runner of the bench"
# Two pairings, two cases, three elements; `rotate_half` is of one pairing, in two forms.
PYTHONPATH="$torch:$temporary/installed" LD_LIBRARY_PATH="$temporary/stubs-$version" \
    measured 24 --runner ../../../rope-bench/runners/pytorch --formulation pytorch/eager,pytorch/as-called,pytorch/rope --workload W3,W4
passed "in PyTorch ${versions[*]}"
