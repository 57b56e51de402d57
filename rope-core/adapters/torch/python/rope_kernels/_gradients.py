"""Derivatives of rotations. A rotation is linear in the tensor, and linear in its rows:

    y = R(cos, sin) x        dx = R(cos, sin)^T dy        dcos, dsin = sums over x and dy, linear in both again

so two functions are enough for gradients of any order, and for tangents: that of y is R(cos, sin) of the tangent of x,
and the rotation of x by the tangents of cos and sin. They are used only where a derivative is needed: a Function costs
as much as ten operators. Forward mode and the transformations of torch.func need a Function of another form, which
costs more: `_Transformed`.
"""

import torch
from torch import distributed
from torch.autograd import Function, forward_ad
from torch.nn.functional import pad

from . import _reference
from ._batched import folded, of_one_example, unfolded
from ._library import ops
from ._plan import EAGER, HALVES, INPUT, INVERSE, OPEN, OUTPUT, PAIRS, TOKENS_MAJOR, TRANSPOSE, transposed
from ._reference import once


# By their overload: to find the only one of each costs a twentieth of a call.
_ROTATE, _ROTATE_AT = ops.rotate.default, ops.rotate_at.default
_ROTATE_QK, _ROTATE_QK_AT = ops.rotate_qk.default, ops.rotate_qk_at.default


def needed(*tensors):
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return False


def transformed():
    """Whether tensors may have tangents, or be those of a transformation of torch.func."""
    # A trace guards the level that it reads, which is that before the traced function; `_level` reads the present one.
    return forward_ad._current_level >= 0 or _level() >= 0 or _in_functorch()


def _level():
    return forward_ad._current_level


# What torch.compiler.assume_constant_result does, which loads the compiler.
_level._dynamo_marked_constant = True

_in_functorch = torch._C._are_functorch_transforms_active


def by_copy(*tensors):
    """Whether a rotation in place is a copy of a rotation, which has every derivative."""
    for x in tensors:
        if x.dtype is torch.float64:
            return True
    return needed(*tensors) or transformed()


_DEFAULT = torch._C._autograd.CreationMeta.DEFAULT


def check_written(**tensors):
    """Refuses tensors that autograd does not let a caller write, as PyTorch does after they were written."""
    for name, x in tensors.items():
        if x.is_inference():
            if not torch.is_inference_mode_enabled():
                raise RuntimeError(
                    f"{name} is a tensor of torch.inference_mode(), which nothing may write outside of that mode; clone "
                    "it, or use the function that returns a new tensor"
                )
        elif torch.is_grad_enabled() and x.requires_grad and not _in_functorch():
            base = x._base if x._is_view() else None
            if x.is_leaf or base is not None and base.is_leaf and base.requires_grad:
                kind = "a leaf" if x.is_leaf else "a view of a leaf"
            elif base is not None and torch._C._autograd._get_creation_meta(x) != _DEFAULT:
                kind = "an output of a function that returns several views, or a view made without gradients,"
            else:
                continue
            raise RuntimeError(
                f"{name} is {kind} that requires a gradient, which nothing may write in place; use the function that "
                "returns a new tensor, or torch.no_grad()"
            )


def refuse(sentence, *tensors):
    """Raises what has no derivatives and no batches, where one of the tensors would have some."""
    if needed(*tensors):
        raise RuntimeError(sentence)
    if transformed():
        for tensor in tensors:
            of_functorch = _in_functorch() and torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            if of_functorch or forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
                raise RuntimeError(sentence)


_WAYS = {
    "DTensor": "the kernels rotate into a new tensor alone, by cos and sin that are DTensors; pass {}.to_local()",
    "NestedTensor": "the kernels do not rotate; pass {}.values()",
}


def refuse_subclasses(**tensors):
    """After a call failed: raises TypeError with the name of an argument that no operator takes, if one is the reason."""
    for name, x in tensors.items():
        kind = type(x).__name__
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {kind}; it must be a tensor: torch.as_tensor({name})")
        if x.is_quantized:
            raise TypeError(f"{name} is quantized, which the kernels do not rotate; pass {name}.dequantize()")
        if x.is_complex() and name in ("cos", "sin"):
            raise TypeError(f"{name} is complex; pass complex rows alone, in the place of cos and sin")
        if x.is_complex() and name in ("x", "q", "k"):
            raise TypeError(
                f"{name} is complex; the kernels rotate real channels: pass torch.view_as_real({name}).flatten(-2), with "
                'pairing="interleaved"'
            )
        if x.is_nested:
            kind = "NestedTensor"
        elif x.layout is not torch.strided:
            raise TypeError(f"{name} has the layout {x.layout}, which the kernels do not rotate; pass {name}.to_dense()")
        if kind in _WAYS:
            raise TypeError(f"{name} is a {kind}, which {_WAYS[kind].format(name)}")


def _rotate(x, cos, sin, ids, bits, factor):
    if x.dtype is torch.float64:
        _reference.check(x, cos, sin, ids, bits, factor)
        return _reference.rotate(x, cos, sin, ids, bits, factor)
    if ids is None:
        return _ROTATE(x, cos, sin, bits, factor)
    return _ROTATE_AT(x, cos, sin, ids, bits, factor)


def _rotate_qk(q, k, cos, sin, ids, bits, factor):
    if q.dtype is torch.float64 or k.dtype is torch.float64:
        return tuple(_rotate(x, cos, sin, ids, bits, factor) for x in (q, k))
    if ids is None:
        return _ROTATE_QK(q, k, cos, sin, bits, factor)
    return _ROTATE_QK_AT(q, k, cos, sin, ids, bits, factor)


def check_qk(q, k, cos, sin, ids, bits, factor):
    """Refuses what a rotation of both in place refuses."""
    q, k, cos, sin = (of_one_example(tensor).detach() for tensor in (q, k, cos, sin))
    if q.dtype is torch.float64 and k.dtype is torch.float64:
        # Where the elements lie decides; twice as many of half the size lie at the same places.
        q, k, cos, sin = q.view(torch.float32), k.view(torch.float32), cos.float(), sin.float()
    if ids is None:
        ops.check_qk(q, k, cos, sin, bits, factor)
    else:
        ops.check_qk_at(q, k, cos, sin, of_one_example(ids), bits, factor)


def rotated(x, cos, sin, ids, bits, factor, group=None):
    if transformed():
        if group is not None:
            raise RuntimeError("a group has gradients alone, no tangents and no transformations: leave group out")
        if torch.compiler.is_compiling():
            # A trace forgets the tangents of a Function.
            return _reference.rotate(x, cos, sin, ids, bits, factor)
        return _Transformed.apply(x, cos, sin, ids, (bits, factor))
    if not needed(x, cos, sin):
        return _rotate(x, cos, sin, ids, bits, factor)
    cos, sin, ids, bits = _rows(cos, sin, ids, bits, group)
    return _Rotate.apply(x, cos, sin, ids, (bits, factor, group))


def rotated_qk(q, k, cos, sin, ids, bits, factor, group=None):
    if transformed():
        return tuple(rotated(x, cos, sin, ids, bits, factor, group) for x in (q, k))
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
    if x.dtype is torch.float64 or transformed():
        return _reference.table_gradients(x, dy, cos, bits, factor)
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


def _by_rows_alone(x, cos, sin, ids, bits, factor):
    """A rotation by rows that need not be cos and sin, such as their tangents: channels that do not rotate are 0, and
    an inverse divides by the square of the factor."""
    if bits & INVERSE:
        bits ^= INVERSE | TRANSPOSE
        cos, sin = cos / factor**2, sin / factor**2
    y, rotary_dim = rotated(x, cos, sin, ids, bits & ~(EAGER | OPEN), 1.0), 2 * cos.shape[-1]
    return pad(y.narrow(-1, 0, rotary_dim), (0, x.shape[-1] - rotary_dim))


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


class _Transformed(Function):
    """A rotation with all derivatives, also forward, and batches of `torch.vmap`."""

    @staticmethod
    def forward(x, cos, sin, ids, how):
        return _rotate(x, cos, sin, ids, *how)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, cos, sin, ids, ctx.how = inputs
        ctx.set_materialize_grads(False)
        _, of_cos, of_sin = ctx.needs_input_grad[:3]
        ctx.save_for_backward(cos, sin, ids, x if of_cos or of_sin else None)
        ctx.save_for_forward(cos, sin, ids, x)

    @staticmethod
    def backward(ctx, dy):
        if dy is None:
            return (None,) * 5
        cos, sin, ids, x = ctx.saved_tensors
        bits, factor = ctx.how
        of_x, of_cos, of_sin = ctx.needs_input_grad[:3]
        dx = _back(dy, cos, sin, ids, bits, factor) if of_x else None
        if x is None:
            return dx, None, None, None, None
        first, _, bits = _checked_once(cos, sin, bits)
        rows = first if ids is None else first[ids]
        tables = _of_tables(x, dy, rows, bits, factor, None)
        if ids is not None:
            tables = (torch.zeros_like(first).index_put((ids,), table, accumulate=True) for table in tables)
        of_cos, of_sin = (_in_first_places(table, ctx.how[0]) for table in tables)
        return dx, of_cos, of_sin, None, None

    @staticmethod
    def jvp(ctx, x_tangent, cos_tangent, sin_tangent, *_):
        cos, sin, ids, x = ctx.saved_tensors
        bits, factor = ctx.how
        tangents = []
        if x_tangent is not None:
            tangents.append(rotated(x_tangent, cos, sin, ids, bits, factor))
        if cos_tangent is not None or sin_tangent is not None:
            rows = [torch.zeros_like(cos) if rows is None else rows for rows in (cos_tangent, sin_tangent)]
            *rows, bits = _checked_once(*rows, bits)
            tangents.append(_by_rows_alone(x, *rows, ids, bits, factor))
        return sum(tangents[1:], tangents[0]) if tangents else None

    @staticmethod
    def vmap(info, in_dims, x, cos, sin, ids, how):
        rank = x.dim() - (in_dims[0] is not None)
        y = rotated(*folded(info.batch_size, in_dims, x, cos, sin, ids), *how)
        return unfolded(y, info.batch_size, rank), 0


def _in_first_places(table, bits):
    if bits & HALVES:
        return pad(table, (0, table.shape[-1]))
    if bits & PAIRS:
        return torch.stack((table, torch.zeros_like(table)), -1).reshape(*table.shape[:-1], 2 * table.shape[-1])
    return table


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
        return (
            _by_rows_alone(dy, of_cos, of_sin, None, transposed(ctx.bits), 1.0) if of_x else None,
            _by_rows_alone(x, of_cos, of_sin, None, ctx.bits, 1.0) if of_dy else None,
            None,
            None,
        )


def rotated_by_config(x, rotation, positions, bits):
    if not transformed() and x.dtype is not torch.float64:
        if needed(x):
            return _RotateByConfig.apply(x, rotation, positions, bits)
        return ops.rotate_by_config(x, rotation.config, positions, bits)
    if rotation.is_full_width:
        raise RuntimeError(
            "the channels of a pair have angles of their own in this model: such rotations have gradients, but no "
            "float64, no tangents and no transformations of torch.func"
        )
    first = rotation.window.start if x.shape[-1] == rotation.head_dim else 0
    if x.shape[-1] not in (rotation.head_dim, len(rotation.window)):
        return ops.rotate_by_config(x.float(), rotation.config, positions, bits)  # Which refuses it.
    rotation_bits = transposed(rotation.bits) if bits & TRANSPOSE else rotation.bits
    rows = rotation.rows(positions)
    y = rotated(x[..., first:], *rows, None, rotation_bits | bits & TOKENS_MAJOR, 1.0)
    return torch.cat((x[..., :first], y), -1) if first else y


class _RotateByConfig(Function):
    @staticmethod
    def forward(ctx, x, rotation, positions, bits):
        ctx.save_for_backward(positions)
        ctx.how = rotation, bits
        return ops.rotate_by_config(x, rotation.config, positions, bits)

    @staticmethod
    def backward(ctx, dy):
        (positions,), (rotation, bits) = ctx.saved_tensors, ctx.how
        return rotated_by_config(dy, rotation, positions, bits ^ TRANSPOSE), None, None, None
