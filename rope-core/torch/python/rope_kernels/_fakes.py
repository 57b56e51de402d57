"""What operators return for tensors without data: what torch.compile and torch.export trace with."""

import torch

from . import _library  # noqa: F401  An operator must exist before its fake.


def _contiguous(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like(x):
    """As `like` of `src/tensor.rs`: without gaps, and heads and tokens in the order in which they lie in x."""
    if 3 <= x.dim() <= 4 and x.stride(-3) < x.stride(-2):
        return _contiguous(x.transpose(-3, -2)).transpose(-3, -2)
    return _contiguous(x)


def _fake(name):
    return torch.library.register_fake(f"rope_kernels::{name}")


@_fake("rotate")
def _(x, cos, sin, plan=0, attention_factor=1.0):
    return _like(x)


@_fake("rotate_qk")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    return _like(q), _like(k)


@_fake("rotate_")
def _(x, cos, sin, plan=0, attention_factor=1.0):
    return None


@_fake("rotate_qk_")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    return None


@_fake("table_gradients")
def _(x, dy, cos, plan=0):
    return _contiguous(cos), _contiguous(cos)
