"""Builds the wheel, as pip calls it (PEP 517): the library by cargo, its folder and the metadata by hand.

    pip wheel --no-deps rope-core/adapters/onnxruntime
"""

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

here = Path(__file__).resolve().parent
NAMES = {"linux": "librope_onnxruntime.so", "darwin": "librope_onnxruntime.dylib", "win32": "rope_onnxruntime.dll"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    # Features only by `ROPE_FEATURES`: what is published has none.
    features = os.environ.get("ROPE_FEATURES", "")
    subprocess.check_call(["cargo", "build", "--release", "--locked", "--features", features], cwd=here)
    target = Path(os.environ.get("CARGO_TARGET_DIR", here / "target"))
    version = tomllib.loads((here / "Cargo.toml").read_text())["package"]["version"]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info = f"rope_onnxruntime-{version}.dist-info"
    library = NAMES["linux" if sys.platform.startswith("linux") else sys.platform]
    files = {f"rope_onnxruntime/{library}": (target / "release" / library).read_bytes()}
    for path in sorted((here / "python/rope_onnxruntime").glob("*.py")):
        files[f"rope_onnxruntime/{path.name}"] = path.read_bytes()
    for path in sorted(here.glob("LICENSE-*")):
        files[f"{info}/licenses/{path.name}"] = path.read_bytes()
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: rope-onnxruntime\nVersion: {version}\n"
        "Summary: Rotary position embedding (RoPE) for ONNX Runtime: its operators by rope-core's kernels\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: onnxruntime>=1.17\n"
        "Provides-Extra: rewrite\nRequires-Dist: onnx; extra == \"rewrite\"\n"
        "Description-Content-Type: text/markdown\n\n"
    ).encode() + (here / "README.md").read_bytes()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: rope\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
    ).encode()
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record = [f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    name = f"rope_onnxruntime-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("rope-onnxruntime is built from its repository, which has rope-core beside it")
