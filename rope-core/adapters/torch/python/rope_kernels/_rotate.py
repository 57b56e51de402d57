"""Rotations by rows of cos and sin, with gradients."""

import torch
from torch import Tensor

from . import _gradients, _sharding
from ._library import ops
from ._plan import INPUT, OUTPUT, Direction, Layout, Pairing, Repeat, Rounding, plan

# By their overload: to find the only one of each costs a twentieth of a call.
_ROTATE_, _ROTATE_QK_ = ops.rotate_.default, ops.rotate_qk_.default


def rotate(
    x: Tensor, cos: Tensor, sin: Tensor = None, *, ids: Tensor | None = None, attention_factor: float = 1.0,
    group: "torch.distributed.ProcessGroup | None" = None, pairing: Pairing | None = None,
    direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None, rounding: Rounding = "once",
    output_pairing: Pairing | None = None,
) -> Tensor:  # fmt: skip
    """A new tensor: x rotated by rows of cos and sin, or by those rows of a table that ids name, one for each token
    (`[tokens]` or `[batch, tokens]`). Complex rows (`freqs_cis`) stand for both cos and sin, and then `pairing` is
    "interleaved" by default. The words are those of `plan`. Derivatives by x, cos and sin, of any order,
    backward and forward, and the transformations of torch.func; gradients of a table with repeated values are added to
    the first of two. float64 is computed in float64, by PyTorch's operators.

    group: a group of torch.distributed whose ranks have the heads of one rotation among them, in their order and each
    as many. Gradients of cos and sin, which all these heads share, are then sums over all of them, on every rank and
    with the bits of a single process; the backward pass gathers x and its gradient for them, and is of first order."""
    if sin is None:
        cos, sin, pairing = _of_complex(cos, pairing, repeat)
    bits = plan(pairing or "half", direction, layout, repeat, rounding, output_pairing)
    return explained(_gradients.rotated, x, cos, sin, ids, bits, attention_factor, group)


def rotate_qk(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor = None, *, ids: Tensor | None = None, attention_factor: float = 1.0,
    group: "torch.distributed.ProcessGroup | None" = None, pairing: Pairing | None = None,
    direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None, rounding: Rounding = "once",
    output_pairing: Pairing | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`rotate` of queries and keys, by the same rows."""
    if sin is None:
        cos, sin, pairing = _of_complex(cos, pairing, repeat)
    bits = plan(pairing or "half", direction, layout, repeat, rounding, output_pairing)
    return explained(_gradients.rotated_qk, q, k, cos, sin, ids, bits, attention_factor, group)


def rotate_(
    x: Tensor, cos: Tensor, sin: Tensor = None, *, ids: Tensor | None = None, attention_factor: float = 1.0,
    pairing: Pairing | None = None, direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None,
    rounding: Rounding = "once", output_pairing: Pairing | None = None,
) -> Tensor:  # fmt: skip
    """Rotates x in place, and returns it. Gradients of x only: those of cos and sin need what was overwritten. Tangents
    of all three."""
    if sin is None:
        cos, sin, pairing = _of_complex(cos, pairing, repeat)
    bits = plan(pairing or "half", direction, layout, repeat, rounding, output_pairing)
    return explained(_rotate_in_place, x, cos, sin, ids, bits, attention_factor)


def rotate_qk_(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor = None, *, ids: Tensor | None = None, attention_factor: float = 1.0,
    pairing: Pairing | None = None, direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None,
    rounding: Rounding = "once", output_pairing: Pairing | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`rotate_` of queries and keys, checked before either is touched; returns both.

    Views of one packed projection are fine; Q and K that are known to share heads are refused.
    """
    if sin is None:
        cos, sin, pairing = _of_complex(cos, pairing, repeat)
    bits = plan(pairing or "half", direction, layout, repeat, rounding, output_pairing)
    return explained(_rotate_qk_in_place, q, k, cos, sin, ids, bits, attention_factor)


# Parameters that are tensors.
_TENSORS = (
    "x", "q", "k", "v", "latent", "key", "cos", "sin", "positions", "deltas", "before", "after", "key_cache",
    "value_cache", "cache", "scale", "slots", "from_slots", "to_slots", "out",
)  # fmt: skip
_OPTIONAL = ("ids", "q_weight", "k_weight", "weight")


def explained(function, *arguments):
    """The function's result. Where it fails because of an argument that no operator takes, the error names that."""
    try:
        return function(*arguments)
    except (RuntimeError, TypeError, AttributeError):
        given = dict(zip(function.__code__.co_varnames, arguments))
        tensors = {name: given[name] for name in _TENSORS if name in given}
        tensors |= {name: given[name] for name in _OPTIONAL if given.get(name) is not None}
        if _sharding.is_new(*tensors.values()):
            return explained(function, *arguments)
        _gradients.refuse_subclasses(**tensors)
        raise


def _rotate_in_place(x, cos, sin, ids, bits, factor):
    if _gradients.by_copy(x, cos, sin):
        _refuse_table_gradients(cos, sin, "rotate")
        if not torch.compiler.is_compiling():
            _gradients.check_written(x=x)
        return _rotate_by_copy(x, cos, sin, ids, bits, factor)
    if ids is None:
        _ROTATE_(x, cos, sin, bits, factor)
    else:
        ops.rotate_at_(x, cos, sin, ids, bits, factor)
    return x


def _rotate_qk_in_place(q, k, cos, sin, ids, bits, factor):
    if _gradients.by_copy(q, k, cos, sin):
        _refuse_table_gradients(cos, sin, "rotate_qk")
        # Each rotates by a function of its own, as autograd has none for two views of one tensor. A trace has no memory
        # that they could share.
        if not torch.compiler.is_compiling():
            _gradients.check_written(q=q, k=k)
            with torch.no_grad():
                _gradients.check_qk(q, k, cos, sin, ids, bits, factor)
        return tuple(_rotate_by_copy(x, cos, sin, ids, bits, factor) for x in (q, k))
    if ids is None:
        _ROTATE_QK_(q, k, cos, sin, bits, factor)
    else:
        ops.rotate_qk_at_(q, k, cos, sin, ids, bits, factor)
    return q, k


def _rotate_by_copy(x, cos, sin, ids, bits, factor):
    """In place with derivatives, or in float64."""
    if x.dtype is torch.float64 or _gradients.transformed() or torch.compiler.is_compiling():
        refuse_other_pairing(bits)
        return x.copy_(_gradients.rotated(x, cos, sin, ids, bits, factor))
    return _gradients.RotateInPlace.apply(x, cos, sin, ids, bits, factor)


def refuse_other_pairing(bits):
    if bool(bits & INPUT) != bool(bits & OUTPUT):
        raise RuntimeError("output_pairing is another one than pairing, which x in place cannot have; use rotate")


def _of_complex(cos, pairing, repeat):
    """cos and sin of complex rows, and the pairing that a product of complex numbers has."""
    if not (isinstance(cos, torch.Tensor) and cos.is_complex()):
        raise TypeError("sin is missing; pass cos and sin, or complex rows alone")
    if repeat not in (None, "none"):
        raise TypeError(f"repeat is {repeat!r}, but complex rows have each value once; leave it out")
    return cos.real, cos.imag, "interleaved" if pairing is None else pairing


def _refuse_table_gradients(cos, sin, instead):
    for name, table in (("cos", cos), ("sin", sin)):
        if table.requires_grad:
            raise RuntimeError(f"{name} requires a gradient, which needs the tensor before the rotation; use {instead}")
