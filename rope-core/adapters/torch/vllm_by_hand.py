"""Whether the plugin's rotations are vLLM's: run by hand where vLLM is installed, beside rope_kernels.

    python rope-core/adapters/torch/vllm_by_hand.py
    python rope-core/adapters/torch/vllm_by_hand.py --alone      # vLLM's rotary embeddings alone, where the rest does not import
"""

import contextlib
import importlib.util
import itertools
import pathlib
import sys
import types
from unittest import mock

import torch


def import_alone():
    """vLLM's modules of rotary embeddings, with mocks for what they import from elsewhere in it."""
    root = pathlib.Path(importlib.util.find_spec("vllm").origin).parent
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers"):
        module = types.ModuleType(name)
        module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    mocked = ("config", "config.compilation", "logger", "model_executor.utils", "platforms", "_aiter_ops",
              "triton_utils", "utils", "utils.torch_utils", "utils.flashinfer", "distributed", "_custom_ops")
    for name in mocked:
        sys.modules[f"vllm.{name}"] = mock.MagicMock()
    compilation = types.SimpleNamespace(custom_ops=["none"], enabled_custom_ops=set(), disabled_custom_ops=set(),
                                        mode=None, backend="eager")
    sys.modules["vllm.config"].get_cached_compilation_config = lambda: compilation
    platform = sys.modules["vllm.platforms"].current_platform
    platform.is_cpu = lambda: True
    for other in ("rocm", "cuda", "cuda_alike", "tpu", "xpu", "out_of_tree"):
        setattr(platform, f"is_{other}", lambda: False)
    sys.modules["vllm._aiter_ops"].rocm_aiter_ops.is_triton_rotary_embed_enabled = lambda: False


if "--alone" in sys.argv:
    import_alone()
    configured = contextlib.nullcontext
else:
    from vllm.config import VllmConfig, set_current_vllm_config

    def configured():
        return set_current_vllm_config(VllmConfig())


import vllm.model_executor.layers.rotary_embedding as rotary_embedding  # noqa: E402
from vllm.model_executor.layers.rotary_embedding.mrope import MRotaryEmbedding  # noqa: E402

import rope_kernels.vllm  # noqa: E402

SCALINGS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 1024},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
}


def embedding(scaling, neox, rotary, dtype):
    parameters = {**SCALINGS[scaling], "rope_theta": 10000.0, "partial_rotary_factor": rotary / 128}
    return rotary_embedding.get_rope(128, 4096, neox, parameters, dtype)


def main():
    torch.manual_seed(0)
    with configured():
        cases = [(s, neox, rotary) for s in SCALINGS for neox in (True, False) for rotary in (128, 64)]
        before = {case: embedding(*case, torch.float32) for case in cases}
        mrope = dict(head_size=128, rotary_dim=128, max_position_embeddings=4096, base=10000.0, is_neox_style=True,
                     dtype=torch.float32, mrope_section=[16, 24, 24])
        mrope_before = MRotaryEmbedding(**mrope)
        print("replaced:", *rope_kernels.vllm.register())
        rotary_embedding._ROPE_DICT.clear()
        packed = torch.randn(37, (8 + 2 + 2) * 128)
        q, k, _ = packed.split([8 * 128, 2 * 128, 2 * 128], -1)
        positions = torch.randint(0, 4096, (37,))
        for case in cases:
            theirs, ours = before[case], embedding(*case, torch.float32)
            assert isinstance(ours, rope_kernels.vllm._Rotary) and not isinstance(theirs, rope_kernels.vllm._Rotary)
            wanted = theirs.forward_native(positions, q, k)
            for name, results in (("native", ours.forward_native(positions, q, k)),
                                  ("in place", ours.forward_cpu(positions, q.clone(), k.clone()))):
                assert all(torch.equal(x, y) for x, y in zip(results, wanted)), (case, name)
            assert torch.equal(ours.forward_native(positions, q)[0], wanted[0]), case
            print(f"{type(theirs).__name__} {case}: equal bits")
        mrope_ours, grid = MRotaryEmbedding(**mrope), torch.randint(0, 4096, (3, 37))
        wanted = mrope_before.forward_native(grid, q, k)
        assert all(torch.equal(x, y) for x, y in zip(mrope_ours.forward_native(grid, q, k), wanted))
        assert isinstance(mrope_ours.apply_rotary_emb, rope_kernels.vllm._Apply)
        print("MRotaryEmbedding: equal bits")
        in_16_bits(before)


def in_16_bits(before):
    """Elements beyond the tolerance of vLLM's tests, and the mean distance from float64, of both roundings."""
    for dtype, rounding in itertools.product((torch.bfloat16, torch.float16), ("eager", "once")):
        rope_kernels.vllm.register(rounding)
        beyond, total, cases, distances = 0, 0, 0, [0.0, 0.0]
        for case in before:
            rotary_embedding._ROPE_DICT.clear()
            ours = embedding(*case, dtype)
            positions, q = torch.randint(0, 4096, (37,)), torch.randn(37, 8 * 128).to(dtype)
            wanted = super(rope_kernels.vllm._Rotary, ours).forward_native(positions, q)[0]
            exact = before[case].double().forward_native(positions, q.double())[0]
            before[case].float()
            for result in (ours.forward_native(positions, q)[0], ours.forward_cpu(positions, q.clone())[0]):
                close = torch.isclose(result, wanted, atol=1e-2 if dtype == torch.bfloat16 else 1e-3, rtol=1e-5)
                beyond, total, cases = beyond + (~close).sum().item(), total + close.numel(), cases + bool(close.all())
                assert rounding == "once" or torch.equal(result, wanted), case
            for index, y in enumerate((result, wanted)):
                distances[index] += (y.double() - exact).abs().mean().item() / len(before)
        print(f"{dtype} {rounding}: {beyond / total:.2%} beyond, {cases} of {2 * len(before)} cases pass; mean distance "
              f"from float64 {distances[0]:.2e}, vLLM's {distances[1]:.2e}")


if __name__ == "__main__":
    main()
