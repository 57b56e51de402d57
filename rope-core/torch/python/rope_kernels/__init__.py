"""Rotary position embedding (RoPE) for PyTorch on CPUs: rope-core's kernels as operators, `torch.ops.rope_kernels`.

`rotate`, `rotate_`, `rotate_qk` and `rotate_qk_` take cos and sin by rows. They compute no gradients yet, and refuse
tensors that need them.
"""

import ctypes
import pathlib

import torch

_version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
if _version < (2, 10):
    raise ImportError(f"rope_kernels needs torch 2.10 or later, and this is {torch.__version__}")
if ctypes.CDLL(str(pathlib.Path(__file__).with_name("librope_torch.so"))).rope_kernels_register():
    raise ImportError("torch refused the operators of rope_kernels; is another copy of it loaded?")

_ops = torch.ops.rope_kernels

_PAIRINGS = {"half": 0, "interleaved": 1}
_DIRECTIONS = {"forward": 0, "transpose": 4, "inverse": 8}
_LAYOUTS = {"bhsd": 0, "bshd": 16}
_REPEATS = {"none": 0, "halves": 32, "pairs": 64}
_ROUNDINGS = {"once": 0, "eager": 128}


def _bits(name, words, word):
    if word not in words:
        raise ValueError(f"{name} is {word!r}; it must be one of {', '.join(words)}")
    return words[word]


def plan(pairing="half", direction="forward", layout="bhsd", repeat="none", rounding="once", output_pairing=None):
    """The integer that the operators take for how they rotate.

    pairing: "half" pairs channels (i, i + rotary_dim / 2), "interleaved" (2i, 2i + 1); output_pairing: another one for
    the result, out of place. direction: "forward"; "inverse", which undoes it; "transpose", its gradient.
    layout: "bhsd" is [batch, heads, tokens, head_dim], "bshd" [batch, tokens, heads, head_dim]; both also without batch.
    repeat: a row of cos has each value once ("none"), twice as cat((freqs, freqs), -1) ("halves"), or twice as
    repeat_interleave(2, -1) ("pairs"). rounding: 16-bit results are rounded "once", or after each operation as "eager"
    PyTorch does.
    """
    output = _bits("output_pairing", _PAIRINGS, pairing if output_pairing is None else output_pairing)
    return (
        _bits("pairing", _PAIRINGS, pairing)
        | output << 1
        | _bits("direction", _DIRECTIONS, direction)
        | _bits("layout", _LAYOUTS, layout)
        | _bits("repeat", _REPEATS, repeat)
        | _bits("rounding", _ROUNDINGS, rounding)
    )


def _refuse_gradients(*tensors):
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError("rope_kernels computes no gradients yet; call it within torch.no_grad()")


def rotate(x, cos, sin, *, attention_factor=1.0, **how):
    """A new tensor: x rotated by rows of cos and sin. `how` is what `plan` takes."""
    _refuse_gradients(x, cos, sin)
    return _ops.rotate(x, cos, sin, plan(**how), attention_factor)


def rotate_(x, cos, sin, *, attention_factor=1.0, **how):
    """Rotates x in place, and returns it."""
    _refuse_gradients(x, cos, sin)
    _ops.rotate_(x, cos, sin, plan(**how), attention_factor)
    return x


def rotate_qk(q, k, cos, sin, *, attention_factor=1.0, **how):
    """`rotate` of queries and keys, by the same rows."""
    _refuse_gradients(q, k, cos, sin)
    return _ops.rotate_qk(q, k, cos, sin, plan(**how), attention_factor)


def rotate_qk_(q, k, cos, sin, *, attention_factor=1.0, **how):
    """`rotate_` of queries and keys, checked before either is touched; returns both."""
    _refuse_gradients(q, k, cos, sin)
    _ops.rotate_qk_(q, k, cos, sin, plan(**how), attention_factor)
    return q, k
