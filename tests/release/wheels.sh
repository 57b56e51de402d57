#!/usr/bin/env bash
# wheels.sh DIRECTORY PACKAGE ..: installs the wheels of a release by pip, with what they require, in an environment of
# their own, and runs them. For machines that need no emulator; PACKAGE is `onnxruntime` or `torch`.
set -euo pipefail
files=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package; do
    python3 -m venv "$work/$package" 2>/dev/null || python -m venv "$work/$package"
    python=$work/$package/bin/python
    [[ -x $python ]] || python=$work/$package/Scripts/python.exe
    case $package in
    onnxruntime)
        "$python" -m pip install -q --disable-pip-version-check --find-links "$files" rope-onnxruntime onnx
        "$python" "$root/tests/release/model.py" make "$work/model"
        (cd "$work" && "$python" "$root/tests/release/model.py" run model)
        ;;
    torch)
        "$python" -m pip install -q --disable-pip-version-check --find-links "$files" rope-kernels numpy
        (cd "$work" && PYTHONPATH=$root/rope-core/adapters/torch/tests "$python" \
            "$root/rope-core/adapters/torch/tests/run.py" rotations)
        ;;
    *)
        echo "wheels: no package $package; they are onnxruntime and torch" >&2
        exit 2
        ;;
    esac
    echo "wheels: $package runs"
done
