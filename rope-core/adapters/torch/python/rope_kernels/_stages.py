"""Norms before a rotation, writes into caches after it, and what else caches need. They have no derivatives."""

from typing import Literal

import torch
from torch import Tensor

from . import _gradients
from ._library import ops
from ._plan import Direction, Layout, Pairing, Repeat, Rounding, choice, plan
from ._rotate import explained

Formula = Literal["llama", "olmo2", "gemma", "llama4", "chameleon", "layer_norm", "once"]
Over = Literal["head", "row"]
Order = Literal["before", "after"]
Format = Literal[
    "elements", "e4m3", "e5m2", "e5m2_saturating", "int8", "int8_away", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl",
    "mxfp4", "mxfp4_even", "mxfp4_up", "mxfp8", "mxfp8_even", "mxfp8_up", "nvfp4", "e4m3_in_128",
    "e4m3_in_128_power_of_two", "e4m3_in_128_e8m0", "e4m3_in_64", "e4m3_in_64_power_of_two", "e4m3_in_64_e8m0",
    "u8_in_32", "u8_in_64", "u8_in_128", "u4_in_32", "u4_in_64", "u4_in_128", "u8", "u8_minimum", "u4", "u4_minimum",
    "u8_by_channel", "u4_by_channel", "kivi2", "kivi4",
]  # fmt: skip
LatentFormat = Literal["e4m3_in_128", "e4m3_in_64_e8m0"]

_FORMULAS = {
    name: index
    for index, name in enumerate(("llama", "olmo2", "gemma", "llama4", "chameleon", "layer_norm", "once"))
}
_REACHES = {"head": 0, "row": 16}
_ORDERS = {"before": 0, "after": 32}
_FORMATS = {
    name: index
    for index, name in enumerate(
        ("elements", "e4m3", "int8", "q8_0", "q4_0", "int8_away", "mxfp4", "mxfp4_even", "mxfp8", "mxfp8_up", "nvfp4",
         "e4m3_in_128", "u8_in_32", "u8_in_64", "u8_in_128", "u4_in_32", "u4_in_64", "u4_in_128", "u8_by_channel",
         "u4_by_channel", "kivi2", "kivi4", "e5m2", "e5m2_saturating", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4_up",
         "mxfp8_even", "e4m3_in_128_power_of_two", "e4m3_in_128_e8m0", "e4m3_in_64", "e4m3_in_64_power_of_two",
         "e4m3_in_64_e8m0", "u8", "u8_minimum", "u4", "u4_minimum")
    )
}  # fmt: skip
_LATENT_FORMATS = {"e4m3_in_128": 0, "e4m3_in_64_e8m0": 1}
_CACHE_LAYOUTS = {"nhd": 0, "hnd": 64}


def _norm(formula, over, order):
    return choice("formula", _FORMULAS, formula) | choice("over", _REACHES, over) | choice("order", _ORDERS, order)


def _refuse_derivatives(*tensors):
    _gradients.refuse(
        "norms and caches have no gradients, no tangents and no transformations of torch.func; call them within "
        "torch.no_grad(), with tensors that have no tangent",
        *tensors,
    )


def norm_rotate_qk_(
    q: Tensor, k: Tensor, q_weight: Tensor | None, k_weight: Tensor | None, cos: Tensor, sin: Tensor, *,
    eps: float = 1e-6, formula: Formula = "llama", over: Over = "head", order: Order = "before",
    pairing: Pairing = "half", direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None,
    rounding: Rounding = "once", output_pairing: Pairing | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Norms the heads of Q and of K, each with its weights (`[head_dim]` or `[heads, head_dim]`; None: without), and
    rotates them, in place; returns both.

    formula: whose bits it gives, of the models' norms: "llama" (Qwen3 and most others), "olmo2", "gemma", "llama4",
    "chameleon", "layer_norm", or "once", which rounds only the result. over: a "head", or all heads of a token ("row").
    order: "before" the rotation or "after" it.
    """
    how = plan(pairing, direction, layout, repeat, rounding, output_pairing)
    return explained(_norm_rotate_qk, q, k, q_weight, k_weight, cos, sin, eps, _norm(formula, over, order), how)


def _norm_rotate_qk(q, k, q_weight, k_weight, cos, sin, eps, formula, how):
    _refuse_derivatives(q, k, cos, sin, *(weight for weight in (q_weight, k_weight) if weight is not None))
    weights = [q.new_empty(0) if weight is None else weight for weight in (q_weight, k_weight)]
    ops.norm_rotate_qk_(q, k, *weights, cos, sin, eps, formula, how)
    return q, k


def rotate_into_caches(
    k: Tensor, v: Tensor, cos: Tensor, sin: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor, *,
    weight: Tensor | None = None, eps: float = 1e-6, formula: Formula | None = None, over: Over = "head",
    order: Order = "before", format: Format = "elements", key_scale: Tensor | float = 1.0,
    value_scale: Tensor | float = 1.0, key_zero: Tensor | None = None, value_zero: Tensor | None = None,
    key_factor: float = 1.0, value_factor: float = 1.0, cache_layout: Literal["nhd", "hnd"] = "nhd",
    pairing: Pairing = "half", direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None,
    rounding: Rounding = "once", output_pairing: Pairing | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Rotates the keys, after a norm if there is a formula, and writes them and the values into a paged cache.

    slots: one for each token, `block * block_size + place`; a negative one is skipped. format: "elements" of the
    caches' type; "e4m3", "e5m2", "e5m2_saturating", "int8" and "int8_away", which rounds halves away from zero as vLLM
    does, bytes of `x / scale`; "q8_0" to "iq4_nl", ggml's blocks of 32 channels in uint8; "u8_in_32" to "u4_in_128",
    OpenVINO's groups of 32, 64 or 128 channels in uint8, which begin with a scale and a zero point; and codes with a
    scale for each group of channels, in uint8: "mxfp4" and "mxfp8" (32 channels; OCP's powers of two, or vLLM's
    "mxfp4_even" and NVIDIA's "mxfp8_up"), "nvfp4" (16 channels), "e4m3_in_128" and "e4m3_in_64", the latent channels of
    DeepSeek's caches, whose scales may be powers of two, as floats or bytes (E8M0), and "u8" and "u4", with a scale and
    a zero point (or "_minimum") for a head or each of its equal parts. FP4 has two channels in a byte, the even one in
    its low half; of u4 it is in the high half.
    Or numbers for each channel of a block, which a call writes whole, in the order of its slots, into uint8 of
    `[blocks, heads, rows, width]` ("hnd"): OpenVINO's "u8_by_channel" has 8 rows of numbers and a row for each slot, of
    head_dim bytes; "u4_by_channel" 16 and a row for each slot, of head_dim / 2; KIVI's "kivi2" and "kivi4" 4 and a row
    for 4 and for 2 slots, of head_dim.
    key_scale, value_scale: a number, or a float32 tensor: `[heads]`, or of the caches' first three dimensions. In that
    the scale of each token and head that is written is kept, as vLLM makes it: its largest magnitude / (448 or 127), at
    least 1e-6. Of groups: `[.., head_dim / channels]` after these three dimensions, which keeps their scales: uint8, or
    float32 for tiles of E4M3 without E8M0; `[.., 2 * parts]` in float32 for u8 and u4, scale and zero point side by
    side. The scales may be a view of the cache's own memory: those of a page after its codes, or of a head beside it.
    key_zero, value_zero: the zero points, or minima, of u8 and u4 in a float32 tensor of their own, whose shape and
    strides are those of the scales, `[.., parts]`; None: each follows its scale.
    key_factor, value_factor: the factors of "nvfp4": a code is `x / (scale * factor)`.
    cache_layout: "nhd" is [blocks, block_size, heads, head_dim], "hnd" [blocks, heads, block_size, head_dim]; the last
    dimension of blocks counts bytes.
    """
    number = -1 if formula is None else _norm(formula, over, order)
    code = choice("format", _FORMATS, format) | choice("cache_layout", _CACHE_LAYOUTS, cache_layout)
    scales = _scale(key_scale), _scale(value_scale), _given(key_zero), _given(value_zero)
    how = plan(pairing, direction, layout, repeat, rounding, output_pairing)
    return explained(
        _rotate_into_caches, k, v, cos, sin, key_cache, value_cache, *scales, slots, weight, eps, number, code, how,
        key_factor, value_factor
    )  # fmt: skip


def _rotate_into_caches(
    k, v, cos, sin, key_cache, value_cache, key_scale, value_scale, key_zero, value_zero, slots, weight, eps, formula,
    format, how, key_factor, value_factor,
):  # fmt: skip
    scales = key_scale, value_scale, key_zero, value_zero
    tensors = k, v, cos, sin, key_cache, value_cache, *scales, slots, _given(weight)
    _refuse_derivatives(*tensors)
    ops.rotate_into_caches(*tensors, eps, formula, format, how, key_factor, value_factor)
    return key_cache, value_cache


def read_cache(
    cache: Tensor, slots: Tensor, out: Tensor, cos: Tensor | None = None, sin: Tensor | None = None, *,
    format: Format | LatentFormat | None = None, scale: Tensor | float = 1.0, zero: Tensor | None = None,
    factor: float = 1.0, latent: int | None = None, cache_layout: Literal["nhd", "hnd"] = "nhd", pairing: Pairing = "half",
    direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None,
    output_pairing: Pairing | None = None,
) -> Tensor:  # fmt: skip
    """Reads slots of a cache into `out`, rotated by rows of cos and sin if they are given; returns `out`.

    cache: keys or values of `rotate_into_caches`, with its `format`, its `scale`, its `zero` and its `factor`; or, with
    `latent`, the channels of its latents, a cache of `rotate_into_latent_cache`, whose slots are read as heads of the
    latent and the key side by side, of which the key rotates.
    slots: one for each token of `out`; the token of a negative one stays as it is.
    out: float32, bfloat16 or float16, `[batch, heads, tokens, head_dim]` in the order of `layout`. Values are rounded to
    it once.
    """
    if (cos is None) != (sin is None):
        raise TypeError("cos or sin is missing; pass both, or neither to read without a rotation")
    how = plan(pairing, direction, layout, repeat, "once", output_pairing)
    cos, sin = _given(cos), _given(sin)
    described = _described(scale, zero, format, latent, cache_layout)
    return explained(_read_cache, cache, *described, factor, slots, out, cos, sin, how)


def _read_cache(cache, scale, zero, of_latent, format, factor, slots, out, cos, sin, how):
    _refuse_derivatives(cache, scale, zero, slots, out, cos, sin)
    ops.read_cache(cache, scale, zero, slots, out, cos, sin, of_latent, format, how, factor)
    return out


def rotate_cache_(
    cache: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, *, format: Format | LatentFormat | None = None,
    scale: Tensor | float = 1.0, zero: Tensor | None = None, factor: float = 1.0, latent: int | None = None,
    cache_layout: Literal["nhd", "hnd"] = "nhd", pairing: Pairing = "half", direction: Direction = "forward",
    repeat: Repeat | None = None,
) -> Tensor:  # fmt: skip
    """Rotates the keys in slots of a cache in place, as a context shift does; returns the cache.

    cache, format, scale, zero, factor, latent: those of `read_cache`. Codes are decoded, rotated and encoded again, with new
    scales where a call computes them; the latent of a record keeps its bits. A format by channel takes whole groups, each
    in the order of its slots.
    slots: each once; a negative one is skipped. cos, sin: a row for each slot (`Rotation.shift`).
    """
    how = plan(pairing, direction, "bhsd", repeat)
    described = _described(scale, zero, format, latent, cache_layout)
    return explained(_rotate_cache, cache, *described, factor, slots, cos, sin, how)


def _rotate_cache(cache, scale, zero, of_latent, format, factor, slots, cos, sin, how):
    _refuse_derivatives(cache, scale, zero, slots, cos, sin)
    ops.rotate_cache_(cache, scale, zero, slots, cos, sin, of_latent, format, how, factor)
    return cache


def move_slots(
    cache: Tensor, from_slots: Tensor, to_slots: Tensor, *, format: Format | LatentFormat | None = None,
    scale: Tensor | float = 1.0, zero: Tensor | None = None, factor: float = 1.0, latent: int | None = None,
    cache_layout: Literal["nhd", "hnd"] = "nhd",
) -> Tensor:  # fmt: skip
    """Copies each slot of `from_slots` to the slot of `to_slots` in its place, as bits with their scales, as if all were
    read before the first is written; returns the cache.

    cache, format, scale, zero, factor, latent: those of `read_cache`. A pair with a negative slot is skipped. Lists that no
    order of copies fits, as an exchange of two slots, are refused, and so are parts of a group of a format by channel.
    """
    described = _described(scale, zero, format, latent, cache_layout)
    return explained(_move_slots, cache, *described, factor, from_slots, to_slots)


def _move_slots(cache, scale, zero, of_latent, format, factor, from_slots, to_slots):
    _refuse_derivatives(cache, scale, zero, from_slots, to_slots)
    ops.move_slots(cache, scale, zero, from_slots, to_slots, of_latent, format, factor)
    return cache


def _given(tensor):
    """A tensor, which is empty for None."""
    return torch.empty(0) if tensor is None else tensor


def _scale(scale):
    return scale if isinstance(scale, torch.Tensor) else torch.tensor(scale, dtype=torch.float32)


def _described(scale, zero, format, latent, cache_layout):
    """The scale of a cache, its zero points, the channels of its latents, and the number of its format."""
    scale, zero = _scale(scale), _given(zero)
    layout = choice("cache_layout", _CACHE_LAYOUTS, cache_layout)
    if latent is None:
        return scale, zero, 0, choice("format", _FORMATS, "elements" if format is None else format) | layout
    if latent < 1 or layout:
        raise ValueError(f"latent is {latent} with cache_layout={cache_layout!r}; it must be at least 1, with \"nhd\"")
    return scale, zero, latent, choice("format", _LATENT_FORMATS, "e4m3_in_128" if format is None else format)


def rotate_into_latent_cache(
    latent: Tensor, key: Tensor, cos: Tensor, sin: Tensor, cache: Tensor, slots: Tensor, *,
    weight: Tensor | None = None, eps: float = 1e-6, formula: Formula | None = None, over: Over = "head",
    order: Order = "before", format: LatentFormat = "e4m3_in_128", pairing: Pairing = "half",
    direction: Direction = "forward", layout: Layout = "bhsd", repeat: Repeat | None = None, rounding: Rounding = "once",
    output_pairing: Pairing | None = None,
) -> Tensor:  # fmt: skip
    """Rotates the keys of multi-head latent attention, one head each, and writes them and their latents into a cache of
    `[blocks, block_size, channels]`; returns it. With a formula the head of a latent and its key, side by side, is
    normed as by `rotate_into_caches`; a norm of latents alone comes before the call.

    slots: one for each token, `block * block_size + place`; a negative one is skipped.
    cache: float32, bfloat16 or float16, of the channels of a latent and its key; or uint8 of the records that FlashMLA
    and vLLM call "fp8_ds_mla": the latent in E4M3, a float32 scale for each 128 channels of it, and the key in bfloat16
    (656 bytes for 512 and 64 channels).
    format: the codes of a uint8 cache. "e4m3_in_64_e8m0" has DeepSeek-V4's pages: the codes and the keys of all slots,
    then a power of two in a byte for each 64 channels, in multiples of 8 bytes per slot (584 bytes for 448 and 64).
    """
    norm = -1 if formula is None else _norm(formula, over, order)
    how, number = plan(pairing, direction, layout, repeat, rounding, output_pairing), choice("format", _LATENT_FORMATS, format)
    return explained(
        _rotate_into_latent_cache, latent, key, cos, sin, cache, slots, _given(weight), eps, norm, how, number
    )  # fmt: skip


def _rotate_into_latent_cache(latent, key, cos, sin, cache, slots, weight, eps, formula, how, format):
    tensors = latent, key, cos, sin, cache, slots, weight
    _refuse_derivatives(*tensors)
    ops.rotate_into_latent_cache(*tensors, eps, formula, how, format)
    return cache
