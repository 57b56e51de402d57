"""The rotary tests of flash-attention, torchtune and Liger, with our kernels in the place of theirs: run by hand.

    python rope-core/adapters/torch/peers_by_hand.py flash-attention=DIR torchtune=DIR liger=DIR

DIR is a checkout, of which flash_attn and tests, torchtune and tests, or src and test are needed. Required are pytest,
and einops for flash-attention or transformers for Liger. Each suite runs twice on the CPU: with the peer's formula in
PyTorch, and with our kernels. Kernels in Triton need a GPU and do not run, nor does the only test that counts their
compilations. Of the peers' packages the modules of rotations are imported alone.
"""

import ast
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import torch

import rope_kernels


def module(name, **contents):
    made = types.ModuleType(name)
    vars(made).update(contents)
    sys.modules[name] = made
    return made


def package(name, folder):
    """A package whose own `__init__` does not run."""
    module(name, __path__=[str(folder)])


def flash_attention(root, ours, scratch):
    """`apply_rotary` is all that its layers call."""

    def positions(x, offsets, lengths):
        if lengths is not None:
            counts = lengths.diff().tolist()
            offsets = offsets.tolist() if isinstance(offsets, torch.Tensor) else [offsets] * len(counts)
            return torch.cat([torch.arange(first, first + count) for first, count in zip(offsets, counts)])
        tokens = torch.arange(x.shape[1])
        return offsets[:, None] + tokens if isinstance(offsets, torch.Tensor) else offsets + tokens

    def apply_rotary(x, cos, sin, seqlen_offsets=0, cu_seqlens=None, max_seqlen=None, interleaved=False, inplace=False,
                     conjugate=False):  # fmt: skip
        ids = positions(x, seqlen_offsets, cu_seqlens)
        if ours:
            how = dict(ids=ids, layout="bshd", pairing="interleaved" if interleaved else "half",
                       direction="transpose" if conjugate else "forward")
            return (rope_kernels.rotate_ if inplace else rope_kernels.rotate)(x, cos, sin, **how)
        formula = sys.modules["flash_attn.layers.rotary"].apply_rotary_emb_torch
        rows = cos[ids].float(), (-sin if conjugate else sin)[ids].float()
        y = formula(x.float(), *rows, interleaved).to(x.dtype)
        return x.copy_(y) if inplace else y

    package("flash_attn", root / "flash_attn")
    package("flash_attn.ops", root / "flash_attn/ops")
    package("flash_attn.ops.triton", scratch)
    module("flash_attn.ops.triton.rotary", apply_rotary=apply_rotary)
    torch.cuda.get_device_capability = lambda *_: (8, 0)  # With bfloat16.
    compile_by_inductor = torch.compile
    torch.compile = lambda function: compile_by_inductor(function, backend="aot_eager")
    test = scratch / "test_flash_rotary.py"
    text = (root / "tests/test_rotary.py").read_text()
    test.write_text(text.replace('"cuda"', '"cpu"').replace("\nimport triton\n", "\n"))
    return [test, "--deselect", f"{test.name}::test_compilation_count"]


def torchtune(root, ours, scratch):
    """The classes make their tables and rotate by them."""
    for folder in ("", ".modules", ".models", ".models.llama3_1", ".training"):
        package(f"torchtune{folder}", root / "torchtune" / folder[1:].replace(".", "/"))
    module("torchtune.training.seed", set_seed=torch.manual_seed)
    from torchtune.models.llama3_1._position_embeddings import Llama3ScaledRoPE
    from torchtune.modules.position_embeddings import RotaryPositionalEmbeddings, VisionRotaryPositionalEmbeddings

    def forward(self, x, *, input_pos=None):
        cos, sin = self.cache.unbind(-1)
        if input_pos is None:
            cos, sin = cos[: x.shape[1]], sin[: x.shape[1]]
        return rope_kernels.rotate(x, cos, sin, ids=input_pos, layout="bshd", pairing="interleaved")

    def of_tiles(self, x, **_):
        tiles = x.reshape(-1, self.seq_len, *x.shape[2:])
        return rope_kernels.rotate(tiles, *self.cache.unbind(-1), layout="bshd", pairing="interleaved").reshape(x.shape)

    if ours:
        RotaryPositionalEmbeddings.forward = Llama3ScaledRoPE.forward = forward
        VisionRotaryPositionalEmbeddings.forward = of_tiles
    # Of the tests' own tools, which import all of torchtune, the two that these tests call.
    wanted = ("assert_expected", "mps_ignored_test")
    tools = ast.parse((root / "tests/test_utils.py").read_text())
    tools.body = [node for node in tools.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    package("tests", scratch)
    import pytest
    from typing import Any

    exec(compile(tools, "test_utils.py", "exec"), vars(module("tests.test_utils", Any=Any, pytest=pytest, torch=torch)))
    for name in ("modules", "models/llama3_1"):
        test = scratch / f"test_torchtune_{pathlib.Path(name).name}.py"
        test.write_text((root / "tests/torchtune" / name / "test_position_embeddings.py").read_text())
    return [scratch]


def liger(root, ours, scratch):
    """Its Functions in `liger_kernel.ops`, of which others only have to be there."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
    from transformers.models.llama4.modeling_llama4 import Llama4TextRotaryEmbedding, apply_rotary_emb

    def without_device(cls):
        """The tests pass a device, which newer versions of transformers do not take."""
        init = cls.__init__
        cls.__init__ = lambda self, config, device=None: init(self, config)

    def rope(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
        if ours:
            return rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves")
        cos, sin = (table if table.dim() == 3 else table.unsqueeze(0) for table in (cos, sin))
        return apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)

    def llama4_rope(q, k, freqs_cis):
        if not ours:
            return apply_rotary_emb(q, k, freqs_cis)
        rows = freqs_cis.real.contiguous(), freqs_cis.imag.contiguous()
        return rope_kernels.rotate_qk(q, k, *rows, layout="bshd", pairing="interleaved")

    functions = {"LigerRopeFunction": rope, "LigerLlama4RopeFunction": llama4_rope}
    package("liger_kernel", root / "src/liger_kernel")
    package("liger_kernel.transformers", root / "src/liger_kernel/transformers")
    ops = module("liger_kernel.ops", **{name: types.SimpleNamespace(apply=call) for name, call in functions.items()})
    ops.__getattr__ = lambda name: types.SimpleNamespace(apply=None)
    without_device(LlamaRotaryEmbedding)
    without_device(Llama4TextRotaryEmbedding)
    sys.path.insert(0, str(root))
    import test.utils

    test.utils.supports_bfloat16 = lambda: True
    return [root / "test/transformers" / f"test_{name}.py" for name in ("rope", "llama4_rope")]


PEERS = {"flash-attention": flash_attention, "torchtune": torchtune, "liger": liger}


class Outcomes:
    """A plugin of pytest."""

    def __init__(self):
        self.all = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr.reprcrash.message.split("\n")[0] if report.failed else ""
            self.all[report.nodeid.rpartition("/")[2]] = [report.outcome, reason]


def run_here(name, root, kernels):
    import pytest

    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as scratch:
        arguments = PEERS[name](pathlib.Path(root).resolve(), kernels == "ours", pathlib.Path(scratch))
        options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", root if name == "liger" else scratch]
        pytest.main([str(option) for option in [*options, *arguments]], plugins=[outcomes])
    print(json.dumps(outcomes.all))


def run(name, root, kernels):
    command = [sys.executable, __file__, "--here", name, root, kernels]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(result.stdout[-3000:] + result.stderr[-3000:])
    return json.loads(result.stdout.splitlines()[-1])


def main():
    for argument in sys.argv[1:]:
        name, _, root = argument.partition("=")
        formula, ours = run(name, root, "formula"), run(name, root, "ours")
        for kernels, outcomes in (("formula", formula), ("ours", ours)):
            count = collections.Counter(outcome for outcome, _ in outcomes.values())
            print(f"{name}, {kernels}: " + ", ".join(f"{number} {outcome}" for outcome, number in sorted(count.items())))
        if not ours or set(ours) != set(formula):
            raise SystemExit(f"{name}: other tests ran with our kernels, or none")
        for test, (outcome, reason) in ours.items():
            if outcome == "failed":
                also = "; so with the formula" if formula[test][0] == "failed" else ""
                print(f"  {test}: {reason}{also}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--here"]:
        run_here(*sys.argv[2:])
    else:
        main()
