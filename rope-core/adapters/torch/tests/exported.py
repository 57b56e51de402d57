"""Models that torch.onnx.export writes, in ONNX Runtime: needs onnx, onnxscript and onnxruntime; `ROPE_ONNXRUNTIME` is
the library of rope-onnxruntime, by which they run, too."""

import io
import itertools
import os
import unittest

import onnx
import onnxruntime
import torch

import rope_kernels
import rope_kernels.onnx
import rope_kernels.transformers
from models import small
from support import SEED

LIBRARY = os.environ.get("ROPE_ONNXRUNTIME")


def exported(module, args):
    file = io.BytesIO()
    torch.onnx.export(
        module, args, dynamo=True, opset_version=23, custom_translation_table=rope_kernels.onnx.table(), verbose=False
    ).save(file)
    return file.getvalue()


def run(text, args, libraries=(None, LIBRARY)):
    """The outputs by ONNX Runtime's own kernels, and by rope-onnxruntime's."""
    for library in libraries[: 2 if LIBRARY else 1]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if library is not None:
            options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        given = {each.name: x.numpy() for each, x in zip(session.get_inputs(), args)}
        yield [torch.from_numpy(y) for y in session.run(None, given)]


class Exported(unittest.TestCase):
    def equal(self, module, args, is_standard, bound=1e-6):
        text = exported(module, args)
        kinds = [node.op_type for node in onnx.load_from_string(text).graph.node]
        self.assertEqual("RotaryEmbedding" in kinds, is_standard, kinds)
        wanted = module(*args)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for results in run(text, args):
            for ours, theirs in zip(results, wanted, strict=True):
                self.assertLess((ours - theirs).abs().max().item(), bound)

    def test_an_enabled_model(self):
        model, ids = small("llama"), torch.randint(3, 100, (2, 12), generator=torch.Generator().manual_seed(SEED))

        class Logits(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(ids, use_cache=False).logits

        with torch.no_grad(), rope_kernels.transformers.enable(model):
            self.equal(Logits(), (ids,), True, 2e-5)

    def test_rotations(self):
        torch.manual_seed(SEED)
        angle, ids = torch.randn(5, 4), torch.tensor([[4, 1, 0, 3, 2], [0, 0, 1, 2, 4]])
        twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1), "pairs": lambda t: t.repeat_interleave(2, -1)}
        for how, head_dim, of_ids, is_standard in (
            (dict(repeat="halves"), 8, False, True),
            (dict(repeat="pairs", pairing="interleaved"), 8, False, True),
            (dict(repeat="none", layout="bshd"), 8, False, True),
            (dict(repeat="halves"), 8, True, True),
            (dict(repeat="none", direction="transpose"), 8, False, True),
            (dict(repeat="none"), 12, False, True),
            (dict(repeat="none", pairing="interleaved", output_pairing="half"), 12, False, False),
            (dict(repeat="none", pairing="half", output_pairing="interleaved"), 12, True, False),
            (dict(repeat="halves", rounding="eager", layout="bshd"), 12, False, False),
        ):
            class Rotates(torch.nn.Module):
                def forward(self, q, k, cos, sin, *ids):
                    return rope_kernels.rotate_qk(q, k, cos, sin, ids=ids[0] if ids else None, **how)

            shapes = ((2, 3, 5, head_dim), (2, 1, 5, head_dim))
            if how.get("layout") == "bshd":
                shapes = ((2, 5, 3, head_dim), (2, 5, 1, head_dim))
            args = (*(torch.randn(*shape) for shape in shapes), *(twice[how["repeat"]](t) for t in (angle.cos(), angle.sin())))
            with self.subTest(str(how)):
                self.equal(Rotates(), args + ((ids,) if of_ids else ()), is_standard)

    def test_rotations_in_16_bits(self):
        """With f32 around them, as NumPy has no bfloat16. rope-onnxruntime has the bits of rope_kernels; ONNX Runtime
        rounds float16 where it likes, and has no kernel for bfloat16 on the CPU."""
        torch.manual_seed(SEED)
        angle = torch.randn(5, 8)
        for dtype, table, layout, is_standard in itertools.product(
                (torch.float16, torch.bfloat16), ("same", "f32"), ("bhsd", "bshd"), (True, False)):
            of_table = dtype if table == "same" else torch.float32
            output = None if is_standard else "interleaved"

            class Rotates(torch.nn.Module):
                def forward(self, q, k, cos, sin):
                    rows = cos.to(of_table), sin.to(of_table)
                    how = dict(repeat="halves", layout=layout, output_pairing=output)
                    return tuple(y.float() for y in rope_kernels.rotate_qk(q.to(dtype), k.to(dtype), *rows, **how))

            shapes = ((2, 3, 5, 16), (2, 1, 5, 16)) if layout == "bhsd" else ((2, 5, 3, 16), (2, 5, 1, 16))
            args = (*(torch.randn(*shape) for shape in shapes), *(torch.cat((t, t), -1) for t in (angle.cos(), angle.sin())))
            with self.subTest(f"{dtype} {table} {layout} {is_standard}"):
                text = exported(Rotates(), args)
                kinds = [node.op_type for node in onnx.load_from_string(text).graph.node]
                is_standard = is_standard and table == "same"
                self.assertEqual("RotaryEmbedding" in kinds, is_standard, kinds)
                wanted = Rotates()(*args)
                if is_standard and dtype is torch.bfloat16:
                    with self.assertRaisesRegex(Exception, "NOT_IMPLEMENTED"):
                        next(run(text, args))
                    results = list(run(text, args, (LIBRARY,))) if LIBRARY else []
                else:
                    results = list(run(text, args))
                for index, ours in enumerate(results):
                    for y, z in zip(ours, wanted, strict=True):
                        if index == 0 and is_standard and dtype is torch.float16:
                            self.assertLess((y - z).abs().max().item(), 0.01)
                        else:
                            self.assertTrue(torch.equal(y, z))

    def test_a_model_in_float16(self):
        model, ids = small("llama").half(), torch.randint(3, 100, (2, 12), generator=torch.Generator().manual_seed(SEED))

        class Logits(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids):
                return self.model(ids, use_cache=False).logits.float()

        with torch.no_grad(), rope_kernels.transformers.enable(model):
            self.equal(Logits(), (ids,), True, 0.02)
