"""Builds the wheel, with cargo and Python's standard library: `pip wheel rope-core/adapters/torch`, or `python3 wheel.py DIR`.

The library has neither Python's ABI nor C++'s, so one wheel serves every Python 3 and every torch from 2.10 on.
"""

import base64
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import zipfile

here = pathlib.Path(__file__).resolve().parent
NAME, VERSION = "rope_kernels", "0.1.0"


def build_library():
    command = ["cargo", "build", "--release", "--locked", "--message-format=json-render-diagnostics"]
    # Features only by `ROPE_FEATURES`: what is published has none.
    command += [f"--features={os.environ.get('ROPE_FEATURES', '')}"]
    out = subprocess.run(command, cwd=here, stdout=subprocess.PIPE, check=True, text=True).stdout
    for line in out.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["target"]["name"] == "rope_torch":
            return pathlib.Path(message["filenames"][0])
    raise SystemExit("cargo built no library")


def build_wheel(directory, config_settings=None, metadata_directory=None):
    library = build_library()
    tag = f"py3-none-linux_{platform.machine()}"
    information = f"{NAME}-{VERSION}.dist-info"
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in sorted((here / "python" / NAME).glob("*.py"))}
    files[f"{NAME}/librope_torch.so"] = library.read_bytes()
    for license in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{information}/licenses/{license}"] = (here / license).read_bytes()
    files[f"{information}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: rope-kernels\nVersion: {VERSION}\n"
        "Summary: Rotary position embedding (RoPE) kernels for PyTorch on CPUs\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.9\n"
        "Description-Content-Type: text/markdown\n\n" + (here / "README.md").read_text()
    ).encode()
    files[f"{information}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: rope-torch\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    files[f"{information}/entry_points.txt"] = b"[vllm.general_plugins]\nrope_kernels = rope_kernels.vllm:register\n"
    record = f"{information}/RECORD"
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    wheel = f"{NAME}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return wheel


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(build_wheel(sys.argv[1]))
