"""A plugin of vLLM on CPUs: its rotary embeddings rotate by rope_kernels, with the rows of vLLM's own table.

The wheel's entry point `vllm.general_plugins` calls `register`. Every class whose rotation is RotaryEmbedding's is
replaced, whatever its frequencies, and ApplyRotaryEmb, by which M-RoPE and vision encoders rotate. What has a rotation
of its own (DeepSeek's scaled one, dual chunks) stays vLLM's.

In 16 bits vLLM's reference rounds the table, each product and each sum, and so does the plugin. With the environment's
`ROPE_KERNELS_VLLM_ROUNDING=once`, or `register(rounding="once")`, results are rounded once, from vLLM's table as it is:
nearer to exact, and faster.
"""

import os

import torch

from ._gradients import needed, transformed
from ._library import ops
from ._plan import Rounding, choice, plan
from ._rotate import rotate

# By how 16-bit results are rounded, which `register` sets.
_ROUNDINGS = {"eager": "eager", "once": "once"}
_rounding = "eager"
_ELEMENTS = (torch.float32, torch.bfloat16, torch.float16)


def _ours(*tensors):
    return not needed(*tensors) and not transformed() and all(x.device.type == "cpu" and x.dtype in _ELEMENTS for x in tensors)


class _Rotary:
    """What is put before RotaryEmbedding, or a class that has its rotation."""

    def _given(self, positions, query, key):
        tensors = [query] if key is None else [query, key]
        if not _ours(*tensors, self.cos_sin_cache):
            return None
        positions = positions.flatten()
        heads = [x.view(positions.shape[0], -1, self.head_size) for x in tensors]
        table = self.cos_sin_cache if _rounding == "once" else self._match_cos_sin_cache_dtype(query)
        bits = plan("half" if self.is_neox_style else "interleaved", layout="bshd", rounding=_rounding)
        return heads, *table.chunk(2, -1), positions, bits

    def forward_native(self, positions, query, key=None):
        given = self._given(positions, query, key)
        if given is None:
            return super().forward_native(positions, query, key)
        heads, *how = given
        if key is None:
            return ops.rotate_at(*heads, *how).view(query.shape), None
        q, k = ops.rotate_qk_at(*heads, *how)
        return q.reshape(query.shape), k.reshape(key.shape)

    def forward_cpu(self, positions, query, key=None):
        given = self._given(positions, query, key)
        if given is None:
            return super().forward_cpu(positions, query, key)
        heads, *how = given
        (ops.rotate_at_ if key is None else ops.rotate_qk_at_)(*heads, *how)
        return query, key


class _Apply:
    """What is put before ApplyRotaryEmb."""

    def forward_native(self, x, cos, sin):
        if not _ours(x, cos, sin) or x.dim() not in (3, 4):
            return super().forward_native(x, cos, sin)
        rounding = "once" if self.enable_fp32_compute else _rounding
        if rounding == "eager":
            cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        pairing = "half" if self.is_neox_style else "interleaved"
        return rotate(x, cos, sin, pairing=pairing, layout="bshd", rounding=rounding)

    def forward_cpu(self, x, cos, sin):
        return self.forward_native(x, cos, sin)


def _subclasses(cls):
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def register(rounding: Rounding | None = None) -> list[str]:
    """Puts our classes in the place of vLLM's, of which instances are made from then on; returns the names.

    rounding: "eager", vLLM's own, or "once"; by default that of the environment.
    """
    global _rounding
    name = "ROPE_KERNELS_VLLM_ROUNDING" if rounding is None else "rounding"
    rounding = os.environ.get(name, "eager") if rounding is None else rounding
    _rounding = choice(name, _ROUNDINGS, rounding)
    from vllm.model_executor.custom_op import op_registry_oot
    from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding
    from vllm.model_executor.layers.rotary_embedding.common import ApplyRotaryEmb

    same = [cls for cls in _subclasses(RotaryEmbedding) if cls.forward_native is RotaryEmbedding.forward_native]
    replaced = [(cls, _Rotary) for cls in [RotaryEmbedding, *same]] + [(ApplyRotaryEmb, _Apply)]
    names = []
    for cls, ours in replaced:
        if cls.__name__ not in op_registry_oot:
            cls.register_oot(type(cls.__name__, (ours, cls), {}))
            names.append(cls.__name__)
    return names
