"""torch.compile without a graph break, in inference and in training; torch.export; PyTorch's own checks of operators."""

import itertools
import pathlib
import subprocess
import sys
import unittest

import torch

import rope_kernels
from support import SEED, same


def tensors(layout="bhsd", dtype=torch.float32):
    torch.manual_seed(SEED)
    q, k, angle = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16), torch.randn(5, 8)
    if layout == "bhsd":
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    return q.to(dtype), k.to(dtype), angle.cos().to(dtype), angle.sin().to(dtype)


class Operators(unittest.TestCase):
    def test_opcheck(self):
        # The checks of autograd registrations are about operators that have some; ours are called without gradients.
        ops = torch.ops.rope_kernels
        for layout, dtype, packed in itertools.product(("bhsd", "bshd"), (torch.float32, torch.bfloat16), (0, 1)):
            q, k, cos, sin = tensors(layout, dtype)
            if packed:
                q, k = q.contiguous(), k.flip(0)
            how = rope_kernels.plan(layout=layout)
            for op, args in (
                (ops.rotate, (q, cos, sin, how)),
                (ops.rotate_, (q.clone(), cos, sin, how)),
                (ops.rotate_qk, (q, k, cos, sin, how)),
                (ops.rotate_qk_, (q.clone(), k.clone(), cos, sin, how)),
                (ops.check_qk, (q.clone(), k.clone(), cos, sin, how)),
                (ops.table_gradients, (q, q.flip(0), cos, how)),
            ):
                torch.library.opcheck(op, args)

    def test_opcheck_of_the_others(self):
        ops = torch.ops.rope_kernels
        q, k, cos, sin = tensors()
        ids, weight, rows = torch.tensor([4, 0, 1, 1, 3]), torch.rand(16), torch.arange(10)
        rotation = rope_kernels.Rotation({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})
        caches = [torch.zeros(3, 5, 2, 16) for _ in range(2)]
        ones = [torch.tensor(1.0) for _ in range(2)]
        codes, scales = [c.to(torch.int8) for c in caches], [torch.zeros(3, 5, 2) for _ in range(2)]
        bytes, none = [c.to(torch.uint8) for c in caches], [torch.empty(0) for _ in range(2)]
        numbers, zeros = ([torch.zeros(3, 5, 2, 2) for _ in range(2)] for _ in range(2))
        for op, args in (
            (ops.rotate_at, (q, cos, sin, ids)),
            (ops.rotate_at_, (q.clone(), cos, sin, ids)),
            (ops.rotate_qk_at, (q, k, cos, sin, ids)),
            (ops.rotate_qk_at_, (q.clone(), k.clone(), cos, sin, ids)),
            (ops.check_qk_at, (q.clone(), k.clone(), cos, sin, ids)),
            (ops.config_rotation, (rotation.config,)),
            (ops.config_refusal, (rotation.config,)),
            (ops.config_ignored, (rotation.config,)),
            (ops.config_rows, (rotation.config, ids, 8, rope_kernels.plan(repeat="halves"))),
            (ops.config_rows, (rotation.config, ids[None], 8)),
            (ops.config_shift, (rotation.config, ids, 8)),
            (ops.config_shift_from, (rotation.config, rotation.config, ids, ids + 1, 8)),
            (ops.rotate_by_config, (q, rotation.config, ids)),
            (ops.rotate_by_config_, (q.clone(), rotation.config, ids)),
            (ops.norm_rotate_qk_, (q.clone(), k.clone(), weight, weight, cos, sin, 1e-6)),
            (ops.rotate_into_caches, (k, k.flip(0), cos, sin, *caches, *ones, *none, rows, weight, 1e-6)),
            (ops.rotate_into_caches, (k, k.flip(0), cos, sin, *codes, *scales, *none, rows, weight, 1e-6, 0, 2)),
            (ops.rotate_into_caches, (k, k.flip(0), cos, sin, *bytes, *numbers, *zeros, rows, weight, 1e-6, 0, 35)),
            (ops.rotate_into_latent_cache, (k[:, :1], k[:, 1:2], cos, sin, torch.zeros(3, 5, 32), rows, none[0], 1e-6)),
            (ops.rotate_into_latent_cache, (k[:, :1], k[:, 1:2], cos, sin, torch.zeros(3, 5, 32), rows, torch.ones(32),
                                            1e-6, 0)),
            (ops.read_cache, (caches[0], ones[0], none[0], rows, k.clone(), cos, sin)),
            (ops.read_cache, (codes[0], scales[0], none[0], rows, k.clone(), weight[:0], weight[:0], 0, 2)),
            (ops.read_cache, (bytes[0], numbers[0], zeros[0], rows, k.clone(), weight[:0], weight[:0], 0, 35)),
            (ops.rotate_cache_, (caches[0].clone(), ones[0], none[0], rows[5:], cos, sin)),
            (ops.rotate_cache_, (codes[0].clone(), scales[0].clone(), none[0], rows[:5], cos, sin, 0, 2)),
            (ops.rotate_cache_, (bytes[0].clone(), numbers[0].clone(), zeros[0].clone(), rows[:5], cos, sin, 0, 35)),
            (ops.move_slots, (caches[0].clone(), ones[0], none[0], rows[:5], rows[5:])),
            (ops.move_slots, (bytes[0].clone(), numbers[0].clone(), zeros[0].clone(), rows[:5], rows[5:], 0, 35)),
        ):
            torch.library.opcheck(op, args)

    def test_every_operator_is_checked(self):
        schemas = [schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas()
                   if schema.name.startswith("rope_kernels::")]
        text = pathlib.Path(__file__).read_text()
        for name in schemas:
            self.assertIn(f"(ops.{name}, ", text)


class Compiled(unittest.TestCase):
    """By the backend that needs no C++ compiler; it lowers and functionalizes as the default one does."""

    def compiled(self, function, **how):
        torch._dynamo.reset()
        return torch.compile(function, fullgraph=True, backend="aot_eager", **how)

    def test_inference(self):
        q, k, cos, sin = tensors()
        together = self.compiled(lambda q, k, cos, sin: rope_kernels.rotate_qk(2 * q, k, cos, sin))
        for ours, wanted in zip(together(q, k, cos, sin), rope_kernels.rotate_qk(2 * q, k, cos, sin)):
            same(self, ours, wanted)
        in_place = self.compiled(lambda q, cos, sin: rope_kernels.rotate_(q + 1, cos, sin) * 2)
        same(self, in_place(q, cos, sin), rope_kernels.rotate(q + 1, cos, sin) * 2)
        argument = q.clone()
        self.compiled(lambda q, cos, sin: rope_kernels.rotate_(q, cos, sin))(argument, cos, sin)
        same(self, argument, rope_kernels.rotate(q, cos, sin))

    def test_strides_of_results(self):
        cos, sin = torch.rand(5, 8), torch.rand(5, 8)
        base = {heads: torch.randn(2, 5, heads + 3, 16) for heads in (1, 2, 4)}
        kinds = (lambda x: x.contiguous().transpose(1, 2), lambda x: x.transpose(1, 2).contiguous(),
                 lambda x: x.transpose(1, 2), lambda x: x.transpose(1, 2).expand(3, 2, *x.transpose(1, 2).shape[1:])[0])
        for of_q, of_k, heads in itertools.product(kinds, kinds, (1, 2)):
            q, k = of_q(base[4][:, :, :4]), of_k(base[heads][:, :, :heads])
            rotate = self.compiled(lambda q, k: rope_kernels.rotate_qk(q, k, cos, sin))
            for ours, wanted in zip(rotate(q, k), rope_kernels.rotate_qk(q, k, cos, sin)):
                self.assertEqual((ours.shape, ours.stride()), (wanted.shape, wanted.stride()))
                same(self, ours, wanted)

    def test_importing_does_not_load_the_compiler(self):
        script = "import torch; before = 'torch._dynamo' in sys.modules; import rope_kernels, rope_kernels.transformers; " \
                 "print(before, 'torch._dynamo' in sys.modules, 'torch._inductor' in sys.modules)"
        run = subprocess.run([sys.executable, "-c", "import sys; " + script], text=True, capture_output=True)
        self.assertEqual(run.stdout, "False False False\n", run.stderr[-1000:])

    def test_lengths_that_change(self):
        rotate = self.compiled(lambda q, cos, sin: rope_kernels.rotate(q, cos, sin, layout="bshd"), dynamic=True)
        for tokens in (3, 7, 12):
            q, angle = torch.randn(2, tokens, 4, 16), torch.randn(tokens, 8)
            same(self, rotate(q, angle.cos(), angle.sin()),
                 rope_kernels.rotate(q, angle.cos(), angle.sin(), layout="bshd"))

    def test_training(self):
        def loss(q, k, cos, sin):
            q, k = rope_kernels.rotate_qk(q, k, cos, sin)
            return ((q[:, :2] * k).sum(-1) * torch.arange(5)).sum() + rope_kernels.rotate_(q * 2, cos.detach(), sin.detach()).sum()

        results = []
        for function in (loss, self.compiled(loss)):
            given = [x.detach().clone().requires_grad_() for x in tensors()]
            value = function(*given)
            value.backward()
            results.append([value.detach(), *(x.grad for x in given)])
        for ours, wanted in zip(*results):
            same(self, ours, wanted)

    def test_rotations_of_a_model(self):
        rotation = rope_kernels.Rotation({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})

        def rotate(x, positions):
            cos, sin = rotation.rows(positions, "halves")
            return rotation.rotate(x, positions).sum() + rope_kernels.rotate(2 * x, cos, sin, repeat="halves").sum()

        gradients = []
        for function in (rotate, self.compiled(rotate)):
            x = tensors()[0].clone().requires_grad_()
            function(x, torch.arange(7, 12)).backward()
            gradients.append(x.grad)
        same(self, *gradients)

    def test_export(self):
        class Module(torch.nn.Module):
            def forward(self, q, k, cos, sin):
                return rope_kernels.rotate_qk(q, k, cos, sin)

        given = tensors()
        program = torch.export.export(Module(), given)
        self.assertIn("rope_kernels.rotate_qk", str(program.graph))
        for ours, wanted in zip(program.module()(*given), rope_kernels.rotate_qk(*given)):
            same(self, ours, wanted)
