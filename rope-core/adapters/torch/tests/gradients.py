"""Gradients: bits of eager PyTorch's, numerical derivatives of first and second order, refusals."""

import itertools
import random
import unittest

import torch

import rope_kernels
from support import SEED, eager, has_its_derivatives, same


def twice(table, pairing):
    return torch.cat((table, table), -1) if pairing == "half" else table.repeat_interleave(2, -1)


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)

    def test_the_bits_of_eager(self):
        choose = random.Random(SEED)
        for _ in range(100):
            pairing, layout = choose.choice(["half", "interleaved"]), choose.choice(["bhsd", "bshd"])
            dtype = choose.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
            head_dim, unsqueezed = choose.choice([8, 64, 96]), 1 if layout == "bhsd" else 2
            rotary = choose.choice([head_dim, head_dim // 2])
            shape = [2, 3, 7, head_dim] if layout == "bhsd" else [2, 7, 3, head_dim]
            q, dq = (torch.randn(shape).to(dtype) for _ in range(2))
            k, dk = q.flip(0)[..., :1, :, :], dq.flip(0)[..., :1, :, :]
            if layout == "bshd":
                k, dk = q.flip(0)[..., :1, :], dq.flip(0)[..., :1, :]
            angle = torch.randn(choose.choice([1, 2]), 7, rotary // 2)
            cos, sin = twice(angle.cos(), pairing).to(dtype), twice(angle.sin(), pairing).to(dtype)
            wanted = []
            for x, dy in ((q, dq), (k, dk)):
                x = x.detach().clone().requires_grad_()
                eager(x, cos.unsqueeze(unsqueezed), sin.unsqueeze(unsqueezed), pairing).backward(dy)
                wanted.append(x.grad)
            q, k = (x.detach().clone().requires_grad_() for x in (q, k))
            how = dict(pairing=pairing, layout=layout, repeat="halves" if pairing == "half" else "pairs",
                       rounding="eager")
            torch.autograd.backward(rope_kernels.rotate_qk(q, k, cos, sin, **how), (dq, dk))
            for grad, expected in zip((q.grad, k.grad), wanted):
                # A zero that was added to padding has lost its sign.
                same(self, grad + 0.0, expected + 0.0, f"{shape} {dtype} {how}")
            alone = q.detach().clone().requires_grad_()
            rope_kernels.rotate(alone, cos, sin, **how).backward(dq)
            same(self, alone.grad, q.grad)
            in_place = q.detach().clone().requires_grad_()
            rope_kernels.rotate_(in_place.clone(), cos, sin, **how).backward(dq)
            same(self, in_place.grad, q.grad)

    def test_tables_against_eager(self):
        # Ours are sums in f64, eager's in f32; both are near the sums of f64 tensors.
        for pairing, layout, repeat in itertools.product(("half", "interleaved"), ("bhsd", "bshd"), ("none", "halves")):
            shape = [2, 3, 7, 16] if layout == "bhsd" else [2, 7, 3, 16]
            x, dy, angle = torch.randn(shape), torch.randn(shape), torch.randn(7, 6)
            one = [angle.cos().requires_grad_(), angle.sin().requires_grad_()]
            rows = one if repeat == "none" else [torch.cat((t, t), -1) for t in one]
            rope_kernels.rotate(x, *rows, pairing=pairing, layout=layout, repeat=repeat).backward(dy)
            exact = [t.detach().double().requires_grad_() for t in one]
            rows = [twice(t, pairing).unsqueeze(0 if layout == "bhsd" else 1) for t in exact]
            eager(x.double(), *rows, pairing).backward(dy.double())
            for ours, wanted in zip(one, exact):
                self.assertLess((ours.grad - wanted.grad).abs().max().item(), 1e-6)

    def test_numerical_derivatives(self):
        choices = itertools.product(
            ("half", "interleaved"), (None, "half", "interleaved"), ("forward", "transpose"), ("bhsd", "bshd"))
        for pairing, output, direction, layout in choices:
            x = torch.randn(2, 2, 3, 10, requires_grad=True)
            tokens = 3 if layout == "bhsd" else 2
            tables = [torch.randn(tokens, 4, requires_grad=True) for _ in range(2)]

            def rotate(x, cos, sin):
                return rope_kernels.rotate(x, cos, sin, pairing=pairing, output_pairing=output, direction=direction,
                                           layout=layout)

            with self.subTest(f"{pairing} {output} {direction} {layout}, seed {SEED}"):
                self.assertTrue(has_its_derivatives(rotate, (x, *tables)))
        # Both at once, tables of each sequence and head, and repeated; those with shared places get sums.
        for shape in ((2, 3, 4), (2, 1, 3, 4), (1, 2, 3, 4), (2, 2, 3, 4)):
            q = torch.randn(2, 2, 3, 10, requires_grad=True)
            k = torch.randn(2, 1 if shape[1] == 1 or len(shape) == 3 else 2, 3, 10, requires_grad=True)
            tables = [torch.randn(shape, requires_grad=True) for _ in range(2)]
            for repeat, width in (("none", None), ("halves", lambda t: torch.cat((t, t), -1)),
                                  ("pairs", lambda t: t.repeat_interleave(2, -1))):

                def rotate(q, k, cos, sin):
                    cos, sin = (cos, sin) if width is None else (width(cos), width(sin))
                    return rope_kernels.rotate_qk(q, k, cos, sin, repeat=repeat)

                with self.subTest(f"{shape} {repeat}, seed {SEED}"):
                    self.assertTrue(has_its_derivatives(rotate, (q, k, *tables)))

    def test_of_an_inverse(self):
        x, angle = torch.randn(1, 2, 3, 8, requires_grad=True), torch.randn(3, 4)
        cos, sin = 1.25 * angle.cos(), 1.25 * angle.sin()
        inverse = lambda x: rope_kernels.rotate(x, cos, sin, direction="inverse", attention_factor=1.25)  # noqa: E731
        self.assertTrue(has_its_derivatives(inverse, (x,)))

    def test_one_output_or_one_input(self):
        q, k, angle = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8, requires_grad=True), torch.randn(5, 4)
        cos, sin = angle.cos(), angle.sin()
        rotated = rope_kernels.rotate_qk(q, k, cos, sin)
        self.assertTrue(all(x.requires_grad for x in rotated))
        rotated[1].sum().backward()  # A gradient whose channels have a stride of 0.
        same(self, k.grad, rope_kernels.rotate(torch.ones(1, 2, 5, 8), cos, sin, direction="transpose"))
        self.assertIsNone(q.grad)
        q.requires_grad_()
        rope_kernels.rotate_qk(q, k.detach(), cos, sin)[0].sum().backward()
        same(self, q.grad, rope_kernels.rotate(torch.ones(1, 4, 5, 8), cos, sin, direction="transpose"))

    def test_in_place(self):
        x, angle = torch.randn(1, 2, 5, 8, requires_grad=True), torch.randn(5, 4)
        cos, sin = angle.cos(), angle.sin()
        with self.assertRaisesRegex(RuntimeError, "leaf"):
            rope_kernels.rotate_(x, cos, sin)
        with self.assertRaisesRegex(RuntimeError, "cos requires a gradient.*use rotate"):
            rope_kernels.rotate_(x * 1, cos.clone().requires_grad_(), sin)
        # Another function that has saved what a rotation overwrites notices it, with and without a gradient.
        for context in (torch.enable_grad, torch.no_grad):
            y = x * 1
            square = (y * y).sum()
            with context():
                rope_kernels.rotate_(y, cos, sin)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                square.backward()

    def test_refused(self):
        x, cos = torch.ones(1, 2, 5, 8, requires_grad=True), torch.ones(5, 4, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "number of rows is 4; .* must be 5"):
            rope_kernels.rotate(x, cos[:4], cos[:4])
        with self.assertRaisesRegex(RuntimeError, "even"):
            rope_kernels.rotate(x, torch.ones(5, 7, requires_grad=True), torch.ones(5, 7), repeat="halves")
        ops, x = torch.ops.rope_kernels, x.detach()
        for message, args in (
            ("one type", (x, x.half(), cos.detach())),
            ("repeat", (x, x, cos.detach(), rope_kernels.plan(repeat="halves"))),
            ('direction="forward"', (x, x, cos.detach(), rope_kernels.plan(direction="transpose"))),
            ("pairing", (x, x, cos.detach(), rope_kernels.plan(output_pairing="interleaved"))),
            ("must be 1 or those of x", (x, x, torch.ones(4, 4))),
            ("must be 1 or those of x", (x, x, torch.ones(3, 1, 5, 4))),
            ("head_dim", (x, x, torch.ones(5, 5))),
            ("tokens", (x, x[:, :, :4], cos.detach())),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                ops.table_gradients(*args)
