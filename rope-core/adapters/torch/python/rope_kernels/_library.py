"""Loads the library, which registers its operators with torch.

It finds tensors with tangents by a C++ function of libtorch, if that is there. With `ROPE_KERNELS_STABLE=1` it calls
libtorch's stable interface alone, which takes half a microsecond more for each tensor.
"""

import ctypes
import os
import pathlib

import torch

_version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if _version < (2, 10):
    raise ImportError(f"rope_kernels needs torch 2.10 or later, and this is {torch.__version__}")
_library = ctypes.CDLL(str(pathlib.Path(__file__).with_name("librope_torch.so")))
if _library.rope_kernels_register(int(os.environ.get("ROPE_KERNELS_STABLE", "0"))):
    raise ImportError("torch refused the operators of rope_kernels; is another copy of it loaded?")

ops = torch.ops.rope_kernels
