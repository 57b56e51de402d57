"""What operators return for tensors without data: what torch.compile and torch.export trace with."""

import functools

import torch
from torch.autograd import forward_ad

from . import _library  # noqa: F401  An operator must exist before its fake.
from ._plan import HALVES, PAIRS


def _contiguous(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like(x):
    """As `like` of `src/tensor.rs`: without gaps, and heads and tokens in the order in which they lie in x."""
    if 3 <= x.dim() <= 4 and x.stride(-3) < x.stride(-2):
        return _contiguous(x.transpose(-3, -2)).transpose(-3, -2)
    return _contiguous(x)


def _constant(name):
    """The fake of an operator whose results have no derivatives."""
    return torch.library.register_fake(f"rope_kernels::{name}")


def _fake(name):
    """The fake of an operator that has no derivatives. It refuses traces in which tensors may have tangents: those that
    a trace makes never reach the operator, and torch 2.10 detaches inputs, which drops theirs. Without `fullgraph`
    Dynamo then calls the operator itself, which looks for tangents."""

    def register(fake):
        @functools.wraps(fake)
        def checked(*args, **named):
            if forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled():
                raise NotImplementedError(
                    f"torch.ops.rope_kernels.{name} cannot be traced within torch.autograd.forward_ad.dual_level(), as "
                    "it has no derivatives; call the functions of rope_kernels"
                )
            return fake(*args, **named)

        return _constant(name)(checked)

    return register


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


@_fake("check_qk")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    return None


@_fake("check_qk_at")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    return None


@_fake("table_gradients")
def _(x, dy, cos, plan=0):
    return _contiguous(cos), _contiguous(cos)


@_fake("rotate_at")
def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
    return _like(x)


@_fake("rotate_qk_at")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    return _like(q), _like(k)


@_fake("rotate_at_")
def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
    return None


@_fake("rotate_qk_at_")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    return None


@_constant("config_rotation")
def _(config):
    return config.new_empty(7, dtype=torch.int64)


@_constant("config_refusal")
def _(config):
    return config.new_empty(1, dtype=torch.int64)


@_constant("config_ignored")
def _(config):
    return config.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.uint8)


@_constant("config_rows")
def _(config, positions, pairs, plan=0):
    width = 2 * pairs if plan & (HALVES | PAIRS) else pairs
    extents = positions.shape[1:] if positions.dim() == 3 else positions.shape
    return tuple(positions.new_empty((*extents, width), dtype=torch.float32) for _ in range(2))


@_fake("rotate_by_config")
def _(x, config, positions, plan=0):
    return _like(x)


@_fake("rotate_by_config_")
def _(x, config, positions, plan=0):
    return None


@_fake("norm_rotate_qk_")
def _(q, k, q_weight, k_weight, cos, sin, eps, formula=0, plan=0):
    return None


@_fake("rotate_into_caches")
def _(k, v, cos, sin, key_cache, value_cache, key_scale, value_scale, slots, weight, eps, formula=-1, format=0,
      plan=0):  # fmt: skip
    return None
