"""Rotations and their sums in PyTorch's own operators, which have every derivative: for float64, and for traces with
tangents."""

import torch

from ._library import ops
from ._plan import EAGER, HALVES, INPUT, INVERSE, OUTPUT, PAIRS, TOKENS_MAJOR, TRANSPOSE


def once(cos, sin, bits):
    """Tables that have each value once, and the plan for them. A value's gradient goes to the first of its two places,
    the only one that is read."""
    if bits & HALVES:
        return cos[..., : cos.shape[-1] // 2], sin[..., : sin.shape[-1] // 2], bits & ~HALVES
    if bits & PAIRS:
        return cos[..., ::2], sin[..., ::2], bits & ~PAIRS
    return cos, sin, bits


def split(x, pairs, interleaved):
    """Both channels of each pair, and the channels that pass."""
    rest = x.narrow(-1, 2 * pairs, x.shape[-1] - 2 * pairs)
    if not interleaved:
        return x.narrow(-1, 0, pairs), x.narrow(-1, pairs, pairs), rest
    rotary = x.narrow(-1, 0, 2 * pairs)
    return rotary[..., ::2], rotary[..., 1::2], rest


def joined(first, second, rest, interleaved):
    if interleaved:
        rotary = torch.stack((first, second), -1).reshape(*first.shape[:-1], 2 * first.shape[-1])
    else:
        rotary = torch.cat((first, second), -1)
    return torch.cat((rotary, rest), -1)


def beside(table, bits):
    """A table with a dimension of heads, which broadcasts to a tensor of four dimensions."""
    if table.dim() < 4:
        table = table.unsqueeze(-2 if bits & TOKENS_MAJOR else -3)
    return table


def check(x, cos, sin, ids, bits, factor):
    """Refuses what the kernels refuse, by the kernels themselves."""
    bits &= ~EAGER
    x, cos, sin = (tensor.float() for tensor in (x, cos, sin))
    if ids is None:
        ops.rotate(x, cos, sin, bits, factor)
    else:
        ops.rotate_at(x, cos, sin, ids, bits, factor)


def rotate(x, cos, sin, ids, bits, factor):
    """The rotation by two products and a sum for each channel; 16-bit results are rounded as the plan says."""
    cos, sin, bits = once(cos, sin, bits)
    if ids is not None:
        cos, sin = cos[ids], sin[ids]
    if bits & INVERSE:
        cos, sin = cos / factor**2, sin / factor**2
    if bits & (TRANSPOSE | INVERSE):
        sin = -sin
    cos, sin = beside(cos, bits), beside(sin, bits)
    of_one, dtype = x.dim() == 3, x.dtype
    x = x.unsqueeze(0) if of_one else x
    if dtype in (torch.bfloat16, torch.float16) and not bits & EAGER:
        x, cos, sin = x.float(), cos.float(), sin.float()
    first, second, rest = split(x, cos.shape[-1], bits & INPUT)
    y = joined(first * cos - second * sin, second * cos + first * sin, rest, bits & OUTPUT).to(dtype)
    return y.squeeze(0) if of_one else y


def table_gradients(x, dy, cos, bits, factor):
    """The sums over x and dy that are the gradients of cos and sin, in the shape and type of cos; in float64 until they
    are added."""
    x_first, x_second, _ = split(x.double(), cos.shape[-1], bits & INPUT)
    dy_first, dy_second, _ = split(dy.double(), cos.shape[-1], bits & OUTPUT)
    of_cos = x_first * dy_first + x_second * dy_second
    of_sin = x_first * dy_second - x_second * dy_first
    if bits & (TRANSPOSE | INVERSE):
        of_sin = -of_sin
    if bits & INVERSE:
        of_cos, of_sin = of_cos / factor**2, of_sin / factor**2
    target = beside(cos, bits).shape
    return tuple(_summed(terms, target).reshape(cos.shape).to(cos.dtype) for terms in (of_cos, of_sin))


def _summed(terms, target):
    if terms.dim() < len(target):
        terms = terms.unsqueeze(0)
    return terms.sum_to_size(target)
