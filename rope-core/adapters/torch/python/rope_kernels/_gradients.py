"""Gradients of rotations. A rotation is linear in the tensor, and linear in its rows:

    y = R(cos, sin) x        dx = R(cos, sin)^T dy        dcos, dsin = sums over x and dy, linear in both again

so two functions are enough for gradients of any order. They are used only where a gradient is needed: a Function costs
as much as ten operators.
"""

import torch
from torch import distributed
from torch.autograd import Function
from torch.nn.functional import pad

from ._library import ops
from ._plan import EAGER, HALVES, INPUT, INVERSE, OUTPUT, PAIRS, TOKENS_MAJOR, TRANSPOSE, transposed


# By their overload: to find the only one of each costs a twentieth of a call.
_ROTATE, _ROTATE_AT = ops.rotate.default, ops.rotate_at.default
_ROTATE_QK, _ROTATE_QK_AT = ops.rotate_qk.default, ops.rotate_qk_at.default


def needed(*tensors):
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return False


def once(cos, sin, bits):
    """Tables that have each value once, and the plan for them. A value's gradient goes to the first of its two places,
    the only one that is read."""
    if bits & HALVES:
        return cos[..., : cos.shape[-1] // 2], sin[..., : sin.shape[-1] // 2], bits & ~HALVES
    if bits & PAIRS:
        return cos[..., ::2], sin[..., ::2], bits & ~PAIRS
    return cos, sin, bits


def _rotate(x, cos, sin, ids, bits, factor):
    if ids is None:
        return _ROTATE(x, cos, sin, bits, factor)
    return _ROTATE_AT(x, cos, sin, ids, bits, factor)


def _rotate_qk(q, k, cos, sin, ids, bits, factor):
    if ids is None:
        return _ROTATE_QK(q, k, cos, sin, bits, factor)
    return _ROTATE_QK_AT(q, k, cos, sin, ids, bits, factor)


def rotated(x, cos, sin, ids, bits, factor, group=None):
    if not needed(x, cos, sin):
        return _rotate(x, cos, sin, ids, bits, factor)
    cos, sin, ids, bits = _rows(cos, sin, ids, bits, group)
    return _Rotate.apply(x, cos, sin, ids, (bits, factor, group))


def rotated_qk(q, k, cos, sin, ids, bits, factor, group=None):
    if not needed(q, k, cos, sin):
        return _rotate_qk(q, k, cos, sin, ids, bits, factor)
    cos, sin, ids, bits = _rows(cos, sin, ids, bits, group)
    return _RotateQK.apply(q, k, cos, sin, ids, (bits, factor, group))


def _rows(cos, sin, ids, bits, group):
    """cos, sin, ids, plan: for gradients of tables the rows themselves, each value once."""
    if not (cos.requires_grad or sin.requires_grad):
        return cos, sin, ids, bits
    heads = cos.shape[_heads(bits)] if cos.dim() == 4 else 1
    if group is not None and heads != 1:
        raise RuntimeError(f"cos has rows for each of {heads} heads; those of a group have one row: leave group out")
    cos, sin, bits = _checked_once(cos, sin, bits)
    return (cos, sin, None, bits) if ids is None else (cos[ids], sin[ids], None, bits)


def _checked_once(cos, sin, bits):
    for name, table in (("cos", cos), ("sin", sin)):
        if bits & (HALVES | PAIRS) and table.shape[-1] % 2:
            raise RuntimeError(f"{name} has rows of {table.shape[-1]} values; they must be even: each value twice")
    return once(cos, sin, bits)


def _heads(bits):
    """The dimension of heads."""
    return -2 if bits & TOKENS_MAJOR else -3


def _back(dy, cos, sin, ids, bits, factor):
    """The gradient by the tensor that was rotated."""
    dx = rotated(dy, cos, sin, ids, transposed(bits), factor)
    return dx / factor**2 if bits & INVERSE and factor != 1.0 else dx


def _of_tables(x, dy, cos, bits, factor, group):
    """The gradients by cos and sin."""
    if group is not None:
        x, dy = _of_all_heads(x, dy, cos, bits, group)
    scale = factor**-2 if bits & INVERSE and factor != 1.0 else 1.0
    if bool(bits & INPUT) != bool(bits & OUTPUT):
        # The sums need one pairing: that of the input.
        dy, bits = _with_pairing(dy, 2 * cos.shape[-1], bits & INPUT), bits ^ OUTPUT
    if bits & (TRANSPOSE | INVERSE):
        x, dy = dy, x
    bits &= ~(TRANSPOSE | INVERSE | EAGER)
    if needed(x, dy):
        dcos, dsin = _TableGradients.apply(x, dy, cos, bits)
    else:
        dcos, dsin = ops.table_gradients(x, dy, cos, bits)
    return (dcos, dsin) if scale == 1.0 else (dcos * scale, dsin * scale)


def _of_all_heads(x, dy, cos, bits, group):
    """Channels that rotate, of the heads of all ranks: a sum of one rank's heads has been rounded where the sum over
    all goes on; of all heads it is the sum of a single process. Its terms, in f64, would be no less to gather."""
    if torch.is_grad_enabled():
        raise RuntimeError("gradients with a group have no gradients: leave out create_graph, or group")
    rotary_dim = 2 * cos.shape[-1]
    ours = torch.stack((x[..., :rotary_dim], dy[..., :rotary_dim]))
    parts = [torch.empty_like(ours) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, ours, group=group)
    return torch.cat(parts, _heads(bits))


def _with_pairing(y, rotary_dim, interleaved):
    pairs, rest = y[..., :rotary_dim], y[..., rotary_dim:]
    if interleaved:
        pairs = torch.stack(pairs.chunk(2, -1), -1).flatten(-2)
    else:
        pairs = torch.cat((pairs[..., ::2], pairs[..., 1::2]), -1)
    return torch.cat((pairs, rest), -1)


class _Rotate(Function):
    @staticmethod
    def forward(ctx, x, cos, sin, ids, how):
        _, of_cos, of_sin = ctx.needs_input_grad[:3]
        ctx.save_for_backward(cos, sin, ids, x if of_cos or of_sin else None)
        ctx.how = how
        return _rotate(x, cos, sin, ids, how[0], how[1])

    @staticmethod
    def backward(ctx, dy):
        cos, sin, ids, x = ctx.saved_tensors
        bits, factor, group = ctx.how
        dx = _back(dy, cos, sin, ids, bits, factor) if ctx.needs_input_grad[0] else None
        tables = (None, None) if x is None else _of_tables(x, dy, cos, bits, factor, group)
        return dx, *tables, None, None


class _RotateQK(Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, ids, how):
        ctx.set_materialize_grads(False)
        _, _, of_cos, of_sin = ctx.needs_input_grad[:4]
        ctx.save_for_backward(cos, sin, ids, *((q, k) if of_cos or of_sin else (None, None)))
        ctx.how = how
        return _rotate_qk(q, k, cos, sin, ids, how[0], how[1])

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin, ids, *before = ctx.saved_tensors
        of_q, of_k = ctx.needs_input_grad[:2]
        back = [None, None]
        bits, factor, group = ctx.how
        if of_q and of_k and dq is not None and dk is not None and not bits & INVERSE:
            back = rotated_qk(dq, dk, cos, sin, ids, transposed(bits), factor)
        else:
            for index, (needs, dy) in enumerate(((of_q, dq), (of_k, dk))):
                if needs and dy is not None:
                    back[index] = _back(dy, cos, sin, ids, bits, factor)
        tables = [None, None]
        for x, dy in zip(before, (dq, dk)):
            if x is not None and dy is not None:
                added = _of_tables(x, dy, cos, bits, factor, group)
                tables = [new if total is None else total + new for total, new in zip(tables, added)]
        return *back, *tables, None, None


class RotateInPlace(Function):
    @staticmethod
    def forward(ctx, x, cos, sin, ids, bits, factor):
        ctx.mark_dirty(x)
        ctx.save_for_backward(cos, sin, ids)
        ctx.how = bits, factor
        if ids is None:
            ops.rotate_(x, cos, sin, bits, factor)
        else:
            ops.rotate_at_(x, cos, sin, ids, bits, factor)
        return x

    @staticmethod
    def backward(ctx, dy):
        cos, sin, ids = ctx.saved_tensors
        return _back(dy, cos, sin, ids, *ctx.how), None, None, None, None, None


class _TableGradients(Function):
    @staticmethod
    def forward(ctx, x, dy, cos, bits):
        ctx.save_for_backward(x, dy)
        ctx.bits = bits
        return ops.table_gradients(x, dy, cos, bits)

    @staticmethod
    def backward(ctx, of_cos, of_sin):
        x, dy = ctx.saved_tensors
        of_x, of_dy = ctx.needs_input_grad[:2]
        rotary_dim = 2 * of_cos.shape[-1]

        def turned(tensor, bits):
            # Channels that do not rotate are in no sum.
            y = rotated(tensor, of_cos, of_sin, None, bits, 1.0)
            return pad(y[..., :rotary_dim], (0, tensor.shape[-1] - rotary_dim))

        return (
            turned(dy, transposed(ctx.bits)) if of_x else None,
            turned(x, ctx.bits) if of_dy else None,
            None,
            None,
        )


class RotateByConfig(Function):
    @staticmethod
    def forward(ctx, x, config, positions, bits):
        ctx.save_for_backward(config, positions)
        ctx.bits = bits
        return ops.rotate_by_config(x, config, positions, bits)

    @staticmethod
    def backward(ctx, dy):
        config, positions = ctx.saved_tensors
        bits = ctx.bits ^ TRANSPOSE
        if needed(dy):
            return RotateByConfig.apply(dy, config, positions, bits), None, None, None
        return ops.rotate_by_config(dy, config, positions, bits), None, None, None
