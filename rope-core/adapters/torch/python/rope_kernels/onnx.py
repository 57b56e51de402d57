"""Translations of the operators for `torch.onnx.export(model, .., dynamo=True, custom_translation_table=table())`.

A rotation that the standard operator has becomes `RotaryEmbedding` of opset 23, which rope-onnxruntime computes, too,
where it is registered. All others become products and sums. Needs onnxscript, as the exporter does.
"""

import torch

from ._plan import EAGER, HALVES, INPUT, INVERSE, OUTPUT, PAIRS, TOKENS_MAJOR, TRANSPOSE


def table() -> dict:
    """The translations by operator; export with `opset_version=23` or newer."""
    ops = torch.ops.rope_kernels
    return {
        ops.rotate.default: _rotate, ops.rotate_qk.default: _rotate_qk, ops.rotate_at.default: _rotate_at,
        ops.rotate_qk_at.default: _rotate_qk_at,
    }  # fmt: skip


def _rotate_qk(q, k, cos, sin, plan: int = 0, attention_factor: float = 1.0):
    return _rotate(q, cos, sin, plan, attention_factor), _rotate(k, cos, sin, plan, attention_factor)


def _rotate_qk_at(q, k, cos, sin, ids, plan: int = 0, attention_factor: float = 1.0):
    rows, how = _gathered(cos, sin, ids), (plan, attention_factor, len(ids.shape) + 1, cos)
    return _rotated(q, *rows, *how), _rotated(k, *rows, *how)


def _rotate_at(x, cos, sin, ids, plan: int = 0, attention_factor: float = 1.0):
    return _rotated(x, *_gathered(cos, sin, ids), plan, attention_factor, len(ids.shape) + 1, cos)


def _gathered(cos, sin, ids):
    from onnxscript import opset23 as op

    return op.Gather(cos, ids, axis=0), op.Gather(sin, ids, axis=0)


def _rotate(x, cos, sin, plan: int = 0, attention_factor: float = 1.0):
    return _rotated(x, cos, sin, plan, attention_factor, len(cos.shape), cos)


def _rotated(x, cos, sin, plan, attention_factor, of_rows, table):
    """`of_rows` is the rank of cos and sin, which are rows of `table`."""
    from onnxscript import opset23 as op

    is_standard = bool(plan & INPUT) == bool(plan & OUTPUT) and not plan & EAGER
    is_standard = is_standard and len(x.shape) == 4 and of_rows in (2, 3) and x.dtype == table.dtype
    if is_standard and x.dtype.name == "BFLOAT16":
        # ONNX Runtime has `Expand` and others on the CPU for other types alone.
        cos, sin = op.Cast(cos, to=1), op.Cast(sin, to=1)
    width = table.shape[-1]
    pairs = width // 2 if plan & (HALVES | PAIRS) else width
    if plan & HALVES:
        cos, sin = (_cut(op, rows, 0, pairs) for rows in (cos, sin))
    elif plan & PAIRS:
        cos, sin = (_cut(op, rows, 0, width, 2) for rows in (cos, sin))
    if plan & INVERSE:
        factor = op.CastLike(op.Constant(value_float=attention_factor**2), cos)
        cos, sin = op.Div(cos, factor), op.Div(sin, factor)
    if plan & (TRANSPOSE | INVERSE):
        sin = op.Neg(sin)
    if is_standard:
        return _standard(op, x, cos, sin, plan, of_rows, pairs)
    return _formula(op, x, cos, sin, plan, of_rows, pairs)


def _cut(op, x, begin, end, step=1):
    """Some of the last dimension."""
    begin, end, last, step = (op.Constant(value_ints=[number]) for number in (begin, end, -1, step))
    return op.Slice(x, begin, end, last, step)


def _standard(op, x, cos, sin, plan, of_rows, pairs):
    head_dim, dtype = x.shape[-1], x.dtype
    if plan & TOKENS_MAJOR:
        x = op.Transpose(x, perm=[0, 2, 1, 3])
    if of_rows == 2:
        cos, sin = (op.Unsqueeze(rows, op.Constant(value_ints=[0])) for rows in (cos, sin))
    # One row for each token of each sequence.
    extents = op.Concat(op.Shape(x, start=0, end=1), op.Constant(value_ints=[1, 1]), axis=0)
    cos, sin = (op.Expand(rows, extents) for rows in (cos, sin))
    if dtype.name == "BFLOAT16":
        cos, sin = op.CastLike(cos, x), op.CastLike(sin, x)
    part = 0 if 2 * pairs == head_dim else 2 * pairs
    y = op.RotaryEmbedding(x, cos, sin, interleaved=int(bool(plan & INPUT)), rotary_embedding_dim=part)
    return op.Transpose(y, perm=[0, 2, 1, 3]) if plan & TOKENS_MAJOR else y


def _formula(op, x, cos, sin, plan, of_rows, pairs):
    given, rank, head_dim = x, len(x.shape), x.shape[-1]
    if not plan & EAGER:
        x, cos, sin = (op.Cast(tensor, to=1) for tensor in (x, cos, sin))
    if of_rows < 4 and (of_rows == 3 or plan & TOKENS_MAJOR):
        heads = -2 if plan & TOKENS_MAJOR else -3
        cos, sin = (op.Unsqueeze(rows, op.Constant(value_ints=[heads])) for rows in (cos, sin))
    if plan & INPUT:
        first, second = _cut(op, x, 0, 2 * pairs, 2), _cut(op, x, 1, 2 * pairs, 2)
    else:
        first, second = _cut(op, x, 0, pairs), _cut(op, x, pairs, 2 * pairs)
    turned = (
        op.Sub(op.Mul(first, cos), op.Mul(second, sin)),
        op.Add(op.Mul(second, cos), op.Mul(first, sin)),
    )
    if plan & OUTPUT:
        both = op.Concat(*(op.Unsqueeze(part, op.Constant(value_ints=[-1])) for part in turned), axis=-1)
        y = op.Reshape(both, op.Constant(value_ints=[0] * (rank - 1) + [2 * pairs]))
    else:
        y = op.Concat(*turned, axis=-1)
    if head_dim != 2 * pairs:
        y = op.Concat(y, _cut(op, x, 2 * pairs, head_dim), axis=-1)
    return op.CastLike(y, given)
