"""The results of operators for tensors without data, with which torch.compile and torch.export trace. Types, devices
and shapes that the kernels refuse are refused here, too."""

import functools

import torch
from torch.autograd import forward_ad

from . import _library  # noqa: F401  An operator must exist before its fake.
from ._plan import EAGER, HALVES, INPUT, INVERSE, OUTPUT, PAIRS, STRICT, TOKENS_MAJOR

_ELEMENTS = (torch.float32, torch.bfloat16, torch.float16)


def _contiguous(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like(x):
    """As `like` of `src/tensor.rs`: without gaps, and heads and tokens in the order in which they lie in x."""
    if 3 <= x.dim() <= 4 and x.stride(-3) < x.stride(-2):
        return _contiguous(x.transpose(-3, -2)).transpose(-3, -2)
    return _contiguous(x)


def _holds(condition):
    """Returns whether a comparison of extents holds, and True if a trace does not know the extents."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_true

    return guard_or_true(condition)


def _shape(x):
    return list(x.shape)


def check_devices(**tensors):
    """Refuses tensors of several devices: the kernels for one would be given the memory of another."""
    (first, x), *others = tensors.items()
    for name, other in others:
        if other.device != x.device:
            raise RuntimeError(
                f"{first} is on {x.device}, but {name} on {other.device}; they must be on one device: "
                f"{name}.to({first}.device)"
            )


def _check_elements(**tensors):
    for name, x in tensors.items():
        if x.dtype not in _ELEMENTS:
            what = str(x.dtype).removeprefix("torch.")
            raise RuntimeError(f"{name} is {what}; operators rotate float32, bfloat16 and float16")


def _extents(name, x, plan):
    """`[batch, tokens, heads, head_dim]`"""
    order = "tokens, heads" if plan & TOKENS_MAJOR else "heads, tokens"
    if x.dim() not in (3, 4):
        raise RuntimeError(f"{name} is {_shape(x)}; it must be [batch, {order}, head_dim] or [{order}, head_dim]")
    batch, second, third, head_dim = (1,) * (4 - x.dim()) + tuple(x.shape)
    return (batch, second, third, head_dim) if plan & TOKENS_MAJOR else (batch, third, second, head_dim)


def _extents_of_rows(cos, plan):
    """`[batch, tokens, heads, width]`"""
    if cos.dim() == 4:
        return _extents("cos", cos, plan)
    batch = cos.shape[0] if cos.dim() == 3 else 1
    return batch, cos.shape[-2], 1, cos.shape[-1]


def _check_tokens(name, x, plan, rows, what):
    """Refuses another number of rows than one for each token, or one for each token of each sequence."""
    batch, tokens, _, _ = _extents(name, x, plan)
    if not _holds(rows == tokens) and not _holds(rows == batch * tokens):
        raise RuntimeError(f"the number of {what} is {rows}; for {name} {_shape(x)} it must be {tokens}")


def _check_rows(tensors, cos, sin, plan, ids=None):
    """Refuses what the kernels refuse of a rotation by rows, as far as it does not depend on values."""
    check_devices(**tensors, cos=cos, sin=sin, **({} if ids is None else dict(ids=ids)))
    _check_elements(**tensors, cos=cos, sin=sin)
    if cos.dim() != sin.dim() or not all(_holds(a == b) for a, b in zip(cos.shape, sin.shape)):
        raise RuntimeError(f"cos is {_shape(cos)}, but sin is {_shape(sin)}")
    if not 2 <= cos.dim() <= 4:
        raise RuntimeError(
            f"cos is {_shape(cos)}; it must be [tokens, width], [batch, tokens, width], or have the four dimensions of "
            "the tensor that is rotated"
        )
    batch, tokens, heads, width = _extents_of_rows(cos, plan)
    if ids is not None:
        if not (_holds(batch == 1) and _holds(heads == 1)):
            raise RuntimeError(f"cos is {_shape(cos)}; a table of which ids name rows must be [rows, width]")
        if ids.dtype not in (torch.int64, torch.int32):
            raise RuntimeError(f"ids is {str(ids.dtype).removeprefix('torch.')}; it must be int64 or int32")
    if plan & (HALVES | PAIRS) and not _holds(width % 2 == 0):
        raise RuntimeError(f"rotary_dim is {width}; it must be even: a row has each value twice")
    rotary_dim = width if plan & (HALVES | PAIRS) else 2 * width
    if not _holds(rotary_dim > 0):
        raise RuntimeError("rotary_dim is 0, but must be even and at least 2")
    for name, x in tensors.items():
        of_x, _, its_heads, head_dim = _extents(name, x, plan)
        if not _holds(rotary_dim <= head_dim):
            raise RuntimeError(
                f"rotary_dim {rotary_dim} of cos {_shape(cos)} exceeds head_dim {head_dim} of {name}; if rows have each "
                'value twice, pass repeat="halves" or "pairs"'
            )
        if ids is not None:
            _check_tokens(name, x, plan, ids.numel(), "ids")
            continue
        if not _holds(batch == 1) and not _holds(batch == of_x):
            batches = 1 if _holds(of_x == 1) else f"1, or {of_x}"
            raise RuntimeError(f"cos is {_shape(cos)}, and {name} {_shape(x)}; the batch of cos must be {batches}")
        if not _holds(heads == 1) and not _holds(heads == its_heads):
            raise RuntimeError(f"cos has rows for {heads} heads, and {name} has {its_heads}")
        _check_tokens(name, x, plan, batch * tokens, "rows")
        if plan & EAGER and x.dtype != torch.float32:
            if plan & INVERSE:
                raise RuntimeError('rounding is "eager"; direction must not be "inverse"')
            if not cos.dtype == sin.dtype == x.dtype:
                raise RuntimeError(f'cos is {cos.dtype}, but {name} is {x.dtype}; rounding="eager" needs one type')


def _check_in_place(plan):
    if bool(plan & INPUT) != bool(plan & OUTPUT):
        raise RuntimeError("output_pairing is another one than pairing, which a tensor in place cannot have")


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
    _check_rows(dict(x=x), cos, sin, plan)
    return _like(x)


@_fake("rotate_qk")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    if plan & STRICT:
        raise NotImplementedError("a trace compares shapes before the call")
    _check_rows(dict(q=q, k=k), cos, sin, plan)
    return _like(q), _like(k)


@_fake("rotate_")
def _(x, cos, sin, plan=0, attention_factor=1.0):
    _check_rows(dict(x=x), cos, sin, plan)
    _check_in_place(plan)


@_fake("rotate_qk_")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    _check_rows(dict(q=q, k=k), cos, sin, plan)
    _check_in_place(plan)


@_fake("check_qk")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    _check_rows(dict(q=q, k=k), cos, sin, plan)
    _check_in_place(plan)


@_fake("check_qk_at")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    _check_rows(dict(q=q, k=k), cos, sin, plan, ids)
    _check_in_place(plan)


@_fake("table_gradients")
def _(x, dy, cos, plan=0):
    check_devices(x=x, dy=dy, cos=cos)
    return _contiguous(cos), _contiguous(cos)


@_fake("rotate_at")
def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
    _check_rows(dict(x=x), cos, sin, plan, ids)
    return _like(x)


@_fake("rotate_qk_at")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    _check_rows(dict(q=q, k=k), cos, sin, plan, ids)
    return _like(q), _like(k)


@_fake("rotate_at_")
def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
    _check_rows(dict(x=x), cos, sin, plan, ids)
    _check_in_place(plan)


@_fake("rotate_qk_at_")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    _check_rows(dict(q=q, k=k), cos, sin, plan, ids)
    _check_in_place(plan)


@_constant("config_rotation")
def _(config):
    return config.new_empty(8, dtype=torch.int64)


@_constant("config_refusal")
def _(config):
    return config.new_empty(1, dtype=torch.int64)


@_constant("config_ignored")
def _(config):
    return config.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.uint8)


@_constant("config_rows")
def _(config, positions, pairs, plan=0):
    _check_places(positions=positions)
    return _tables(positions, pairs, plan)


def _check_places(**places):
    for name, positions in places.items():
        if positions.dtype not in (torch.int64, torch.int32, torch.float64, torch.float32):
            what = str(positions.dtype).removeprefix("torch.")
            raise RuntimeError(f"{name} is {what}; it must be int64, int32, float64 or float32")
        if positions.dim() > 3:
            raise RuntimeError(
                f"{name} is {_shape(positions)}; it must be [tokens], [batch, tokens] or [axes, batch, tokens]"
            )


def _tables(positions, pairs, plan):
    width = 2 * pairs if plan & (HALVES | PAIRS) else pairs
    extents = positions.shape[1:] if positions.dim() == 3 else positions.shape
    return tuple(positions.new_empty((*extents, width), dtype=torch.float32) for _ in range(2))


@_constant("config_shift")
def _(config, deltas, pairs, plan=0):
    _check_places(deltas=deltas)
    return _tables(deltas, pairs, plan)


@_constant("config_shift_from")
def _(config, old, before, after, pairs, plan=0):
    check_devices(before=before, after=after)
    _check_places(before=before, after=after)
    return _tables(after, pairs, plan)


def _check_positions(x, positions, plan):
    """Positions of three dimensions have axes in the first."""
    check_devices(x=x, positions=positions)
    _check_elements(x=x)
    _check_places(positions=positions)
    _check_tokens("x", x, plan, positions[0].numel() if positions.dim() == 3 else positions.numel(), "positions")


@_fake("rotate_by_config")
def _(x, config, positions, plan=0):
    _check_positions(x, positions, plan)
    return _like(x)


@_fake("rotate_by_config_")
def _(x, config, positions, plan=0):
    _check_positions(x, positions, plan)


@_fake("norm_rotate_qk_")
def _(q, k, q_weight, k_weight, cos, sin, eps, formula=0, plan=0):
    check_devices(q=q, q_weight=q_weight, k_weight=k_weight)
    _check_rows(dict(q=q, k=k), cos, sin, plan)
    _check_in_place(plan)


@_fake("rotate_into_caches")
def _(k, v, cos, sin, key_cache, value_cache, key_scale, value_scale, key_zero, value_zero, slots, weight, eps,
      formula=-1, format=0, plan=0, key_factor=1.0, value_factor=1.0):  # fmt: skip
    check_devices(k=k, v=v, key_cache=key_cache, value_cache=value_cache, slots=slots)
    _check_rows(dict(k=k), cos, sin, plan)


@_fake("rotate_into_latent_cache")
def _(latent, key, cos, sin, cache, slots, weight, eps, formula=-1, plan=0, format=0):
    check_devices(latent=latent, key=key, cache=cache, slots=slots)
    _check_rows(dict(key=key), cos, sin, plan)


@_fake("read_cache")
def _(cache, scale, zero, slots, out, cos, sin, latent=0, format=0, plan=0, factor=1.0):
    check_devices(cache=cache, slots=slots, out=out)
    if cos.dim() > 1:
        _check_rows(dict(out=out), cos, sin, plan)


@_fake("rotate_cache_")
def _(cache, scale, zero, slots, cos, sin, latent=0, format=0, plan=0, factor=1.0):
    check_devices(cache=cache, slots=slots, cos=cos, sin=sin)


@_fake("move_slots")
def _(cache, scale, zero, from_slots, to_slots, latent=0, format=0, factor=1.0):
    check_devices(cache=cache, from_slots=from_slots, to_slots=to_slots)
