"""Loads the library, which registers its operators with torch."""

import ctypes
import pathlib

import torch

_version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if _version < (2, 10):
    raise ImportError(f"rope_kernels needs torch 2.10 or later, and this is {torch.__version__}")
if ctypes.CDLL(str(pathlib.Path(__file__).with_name("librope_torch.so"))).rope_kernels_register():
    raise ImportError("torch refused the operators of rope_kernels; is another copy of it loaded?")

ops = torch.ops.rope_kernels
