"""The plugin of vLLM, by classes that have what it uses of vLLM's."""

import os
import sys
import types
import unittest
from unittest import mock

import torch

import rope_kernels.vllm
from support import SEED, same


class RotaryEmbedding:
    """vLLM's formula: the table, each product and each sum in the type of the query."""

    head_size, is_neox_style = 16, True

    def __init__(self):
        angle = torch.randn(50, 8)
        self.cos_sin_cache = torch.cat((angle.cos(), angle.sin()), -1)

    def _match_cos_sin_cache_dtype(self, query):
        return self.cos_sin_cache.to(query.dtype)

    def forward_native(self, positions, query, key=None):
        cos, sin = self._match_cos_sin_cache_dtype(query)[positions].chunk(2, -1)
        rotated = [Apply.forward_native(self, x.view(len(positions), -1, 16), cos, sin).view(x.shape)
                   for x in (query, key) if x is not None]
        return (*rotated, None)[:2]

    @classmethod
    def register_oot(cls, ours):
        cls.ours = ours


class Apply:
    is_neox_style, enable_fp32_compute = True, False

    def forward_native(self, x, cos, sin):
        (first, second), (cos, sin) = x.chunk(2, -1), (t.unsqueeze(-2).to(x.dtype) for t in (cos, sin))
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    @classmethod
    def register_oot(cls, ours):
        cls.ours = ours


def register(**how):
    layers = types.SimpleNamespace(RotaryEmbedding=RotaryEmbedding)
    modules = {
        "vllm.model_executor.custom_op": types.SimpleNamespace(op_registry_oot={}),
        "vllm.model_executor.layers.rotary_embedding": layers,
        "vllm.model_executor.layers.rotary_embedding.common": types.SimpleNamespace(ApplyRotaryEmb=Apply),
    }
    with mock.patch.dict(sys.modules, modules):
        return rope_kernels.vllm.register(**how)


class Plugin(unittest.TestCase):
    def test_roundings(self):
        torch.manual_seed(SEED)
        self.assertEqual(register(), ["RotaryEmbedding", "Apply"])
        ours, positions = RotaryEmbedding.ours(), torch.randint(0, 50, (7,))
        apply = Apply.ours()
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            q, k = torch.randn(7, 64).to(dtype), torch.randn(7, 32).to(dtype)
            wanted = RotaryEmbedding.forward_native(ours, positions, q, k)
            cos, sin = ours.cos_sin_cache[positions].chunk(2, -1)
            for rounding, environment in (("eager", {}), ("once", {"ROPE_KERNELS_VLLM_ROUNDING": "once"})):
                with mock.patch.dict(os.environ, environment):
                    register()
                equal = dtype == torch.float32 or rounding == "eager"
                for results in (ours.forward_native(positions, q, k),
                                ours.forward_cpu(positions, q.clone(), k.clone()),
                                (ours.forward_native(positions, q)[0],),
                                (apply.forward_native(q.view(7, 4, 16), cos, sin).view(7, 64),)):
                    for x, y in zip(results, wanted):
                        self.assertEqual(torch.equal(x, y), equal, f"{dtype} {rounding}")
                if not equal:
                    exact = rope_kernels.rotate(q.view(7, 4, 16), cos, sin, layout="bshd").view(7, 64)
                    same(self, ours.forward_native(positions, q)[0], exact)
        register(rounding="once")
        self.assertEqual(rope_kernels.vllm._rounding, "once")
        with self.assertRaisesRegex(ValueError, "rounding is 'other'; it must be one of eager, once"):
            register(rounding="other")
