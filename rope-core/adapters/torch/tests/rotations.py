"""Rotations by rows: bits against rope-core's golden data and against eager PyTorch; refusals; fuzzed calls."""

import itertools
import random
import unittest

import torch

import rope_kernels
from support import BITS, DTYPES, GOLDEN, SEED, bits, eager, read, same, values


class Golden(unittest.TestCase):
    def test_the_bits_of_hugging_face(self):
        layouts = {"half": ("half", "half"), "interleaved": ("interleaved", "interleaved"),
                   "interleaved_in_half_out": ("interleaved", "half"), "half_mrope": ("half", "half"),
                   "half_imrope": ("half", "half")}
        count = 0
        for path in sorted((GOLDEN / "apply").glob("*.txt")):
            data = read(f"apply/{path.stem}")
            if data["layout"][0] not in layouts or data["rotary_offset"] != ["0"]:
                continue
            pairing, output = layouts[data["layout"][0]]
            tokens, head_dim, pairs = (int(data[key][0]) for key in ("tokens", "head_dim", "n_freq"))
            for name, dtype in DTYPES.items():
                if f"q_in_{name}" not in data:
                    continue
                cos, sin = (values(data[f"{key}_hf_{name}"], dtype, (tokens, pairs)) for key in ("cos", "sin"))
                for key, heads in (("q", int(data["q_heads"][0])), ("k", int(data["k_heads"][0]))):
                    shape = (1, tokens, heads, head_dim)
                    given, wanted = (values(data[f"{key}_{end}_{name}"], dtype, shape) for end in ("in", "hf"))
                    how = dict(pairing=pairing, output_pairing=output, layout="bshd", rounding="eager")
                    same(self, rope_kernels.rotate(given, cos, sin, **how), wanted, f"{path.stem} {key} {name}")
                    count += 1
        self.assertGreater(count, 50)


class Eager(unittest.TestCase):
    def test_any_strides_types_and_tables(self):
        choose = random.Random(SEED)
        torch.manual_seed(SEED)
        for _ in range(400):
            batch, heads, tokens = choose.choice([1, 2, 3]), choose.choice([1, 2, 5]), choose.choice([1, 2, 7, 33])
            head_dim = choose.choice([4, 16, 64, 96, 128])
            rotary = choose.choice([head_dim, head_dim // 2])
            dtype = choose.choice(list(DTYPES.values()))
            pairing, layout = choose.choice(["half", "interleaved"]), choose.choice(["bhsd", "bshd"])
            base = torch.randn(batch, tokens, heads + 1, head_dim + 3).to(dtype)
            x = base[:, :, 1:, :head_dim]
            angle = torch.randn(choose.choice([1, batch]), tokens, rotary // 2)
            # 16-bit tables of an f32 tensor would be promoted by both.
            table = choose.choice([dtype, dtype, torch.float32])
            cos, sin = angle.cos().to(table), angle.sin().to(table)
            repeat = choose.choice(["none", "halves", "pairs"])
            twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1),
                     "pairs": lambda t: t.repeat_interleave(2, -1)}
            full = twice["halves" if pairing == "half" else "pairs"]
            if layout == "bhsd":
                x = x.transpose(1, 2)
            unsqueezed = 1 if layout == "bhsd" else 2
            rounding = "eager" if table is dtype else "once"
            args = (x, full(cos).unsqueeze(unsqueezed), full(sin).unsqueeze(unsqueezed), pairing)
            if rounding == "eager":
                expected = eager(*args)
            else:
                expected = eager(x.float(), *args[1:]).to(dtype)
                # The channels that pass are not rounded, and a NaN is not among them.
            how = dict(pairing=pairing, layout=layout, repeat=repeat, rounding=rounding)
            what = f"{list(x.shape)} {dtype} {table} {how}"
            rows = [twice[repeat](cos), twice[repeat](sin)]
            if choose.random() < 0.3:
                rows = [torch.stack((row, row), -1)[..., 0] for row in rows]
            with torch.no_grad():
                same(self, rope_kernels.rotate(x, *rows, **how), expected, what)
                q, k = rope_kernels.rotate_qk(x, x.flip(1) if layout == "bshd" else x, *rows, **how)
                same(self, q, expected, what)
                around = base.clone()
                target = around[:, :, 1:, :head_dim]
                target = target.transpose(1, 2) if layout == "bhsd" else target
                rope_kernels.rotate_(target, *rows, **how)
                same(self, target, expected, what)
                target.copy_(x)
                same(self, around, base, f"{what}: written beside the tensor")

    def test_every_element_rounded_as_eager(self):
        torch.manual_seed(SEED)
        every = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
        # 32 pairs fill registers, and 21 do not; rows of numbers, and of every element, with infinities and NaNs.
        for dtype, pairing, pairs, of_all in itertools.product(
                (torch.bfloat16, torch.float16), ("half", "interleaved"), (32, 21), (False, True)):
            x = every.view(dtype)[torch.randperm(1 << 16)].view(1, 1, -1, 64)
            rows = torch.randn(2, x.shape[2], pairs) * 2.0 ** torch.randint(-20, 2, (2, x.shape[2], pairs))
            cos, sin = every.view(dtype)[torch.randint(1 << 16, rows.shape)] if of_all else rows.to(dtype)
            repeat = "halves" if pairing == "half" else "pairs"
            full = [torch.cat((t, t), -1) if pairing == "half" else t.repeat_interleave(2, -1) for t in (cos, sin)]
            wanted = eager(x, *full, pairing)
            for ours in (rope_kernels.rotate(x, *full, repeat=repeat, pairing=pairing, rounding="eager"),
                         rope_kernels.rotate_(x.clone(), cos, sin, pairing=pairing, rounding="eager")):
                self.assertTrue(torch.equal(ours.isnan(), wanted.isnan()))
                # A NaN is any NaN.
                infinite = dict(nan=7.0, posinf=torch.inf, neginf=-torch.inf)
                what = f"{dtype} {pairing} {pairs} {of_all}"
                same(self, ours.nan_to_num(**infinite), wanted.nan_to_num(**infinite), what)

    def test_every_element_of_a_table(self):
        """A table of 16 bits rotates as the same numbers in f32; 64 pairs fill registers, 21 do not."""
        torch.manual_seed(SEED)
        every = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
        twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1), "pairs": lambda t: t.repeat_interleave(2, -1)}
        for dtype, pairs, repeat in itertools.product((torch.bfloat16, torch.float16), (64, 21), twice):
            table = every.view(dtype)[: (1 << 16) // pairs * pairs].view(-1, pairs)
            cos, sin = twice[repeat](table), twice[repeat](table.flip(0))
            x, ids = torch.randn(1, 2, len(table), 2 * pairs), torch.randperm(len(table))
            wanted = rope_kernels.rotate(x, table.float(), table.flip(0).float(), repeat="none")
            for ours, expected in (
                (rope_kernels.rotate(x, cos, sin, repeat=repeat), wanted),
                (rope_kernels.rotate(x[:, :, ids], cos, sin, ids=ids, repeat=repeat), wanted[:, :, ids]),
            ):
                # A NaN is any NaN.
                self.assertTrue(torch.equal(ours.isnan(), expected.isnan()))
                infinite = dict(nan=7.0, posinf=torch.inf, neginf=-torch.inf)
                same(self, ours.nan_to_num(**infinite), expected.nan_to_num(**infinite), f"{dtype} {pairs} {repeat}")

    def test_a_changed_table_is_seen(self):
        """Also by a write that no version counts: nothing of a table is kept from call to call."""
        torch.manual_seed(SEED)
        x, table = torch.randn(1, 2, 5, 16), torch.rand(2, 5, 8).bfloat16()
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                cos, sin = (t.clone() for t in table)
                rope_kernels.rotate(x, cos, sin)
                for write in (lambda: cos.mul_(-1), lambda: cos.data.zero_(), lambda: cos.view(torch.int16).numpy().fill(0x3F80)):
                    write()
                    rotated = x.clone()
                    rope_kernels.rotate_(rotated, cos, sin)
                    same(self, rope_kernels.rotate(x, cos, sin), rope_kernels.rotate(x, cos.float(), sin.float()))
                    same(self, rotated, rope_kernels.rotate(x, cos.float(), sin.float()))

    def test_packed_queries_and_keys(self):
        torch.manual_seed(SEED)
        packed = torch.randn(2, 5, 6, 8)
        angle = torch.randn(5, 4)
        cos, sin = angle.cos(), angle.sin()
        expected = eager(packed, *(torch.cat((t, t), -1)[None, :, None] for t in (cos, sin)), "half")
        expected[:, :, 5:] = packed[:, :, 5:]
        rope_kernels.rotate_qk_(packed[:, :, :4], packed[:, :, 4:5], cos, sin, layout="bshd")
        same(self, packed, expected)

    def test_inverse_undoes_and_transpose_is_the_gradient(self):
        torch.manual_seed(SEED)
        x, angle = torch.randn(1, 3, 9, 16, requires_grad=True), torch.randn(9, 8)
        cos, sin = 1.25 * angle.cos(), 1.25 * angle.sin()
        dy = torch.randn(1, 3, 9, 16)
        eager(x, torch.cat((cos, cos), -1), torch.cat((sin, sin), -1), "half").backward(dy)
        same(self, rope_kernels.rotate(dy, cos, sin, direction="transpose"), x.grad)
        with torch.no_grad():
            y = rope_kernels.rotate(x, cos, sin)
            back = rope_kernels.rotate(y, cos, sin, direction="inverse", attention_factor=1.25)
        self.assertLess((back - x).abs().max().item(), 2e-6)

    def test_threads_change_no_bit(self):
        torch.manual_seed(SEED)
        every, angle = torch.randn(2, 1024, 8, 64), torch.randn(2, 1024, 32)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        for dtype, sequences, layout in itertools.product((torch.float32, torch.bfloat16), (1, 2), ("bshd", "bhsd")):
            x = every[:sequences].to(dtype)
            x = x if layout == "bshd" else x.transpose(1, 2).contiguous()
            rows = angle[:sequences].cos().to(dtype), angle[:sequences].sin().to(dtype)
            for rounding in ("once", "eager"):
                how, results = dict(layout=layout, rounding=rounding), []
                for threads in (1, 2, 3):
                    torch.set_num_threads(threads)
                    results.append(rope_kernels.rotate(x, *rows, **how))
                    results.append(rope_kernels.rotate_(x.clone(), *rows, **how))
                for result in results[1:]:
                    same(self, result, results[0], f"{dtype} {sequences} {how}")


class Refused(unittest.TestCase):
    def refuses(self, message, call, *args, error=RuntimeError, **how):
        before = [arg.clone() for arg in args]
        with self.assertRaisesRegex(error, message):
            call(*args, **how)
        for arg, old in zip(args, before):
            self.assertTrue(torch.equal(arg, old), "touched")

    def test_what_does_not_fit(self):
        x, cos, sin = torch.ones(1, 2, 5, 8), torch.ones(5, 4), torch.zeros(5, 4)
        for call in (rope_kernels.rotate, rope_kernels.rotate_):
            self.refuses("number of rows is 4; .* must be 5", call, x, cos[:4], sin[:4])
            self.refuses("rotary_dim 10 exceeds head_dim 8", call, x, torch.ones(5, 5), torch.zeros(5, 5))
            self.refuses("cos is .* but sin is", call, x, cos, sin[:4])
            self.refuses("must be \\[batch", call, x[0, 0], cos, sin)
            self.refuses("dimensions", call, x[None, None], cos, sin)
            self.refuses("operators rotate float32", call, x.long(), cos, sin)
            self.refuses("operators rotate float32", call, x.bool(), cos, sin)
            self.refuses("each value twice", call, x, torch.rand(5, 8), torch.rand(5, 8), repeat="halves")
            self.refuses("each value twice", call, x, torch.rand(5, 8), torch.rand(5, 8), repeat="pairs")
            self.refuses("even", call, x, torch.ones(5, 7), torch.ones(5, 7), repeat="halves")
            self.refuses("magnitude|attention", call, x, 2 * cos, sin, direction="inverse")
            self.refuses("pairing is", call, x, cos, sin, pairing="other", error=ValueError)
        complex_rows = torch.polar(cos, sin)
        for call in (lambda *rows: rope_kernels.rotate(x, *rows), lambda *rows: rope_kernels.rotate_(x, *rows),
                     lambda *rows: rope_kernels.rotate_qk(x, x, *rows), lambda *rows: rope_kernels.rotate_qk_(x, x, *rows)):
            self.refuses("sin is missing", call, cos, error=TypeError)
            self.refuses("cos is complex; pass complex rows alone", call, complex_rows, complex_rows, error=TypeError)
        self.refuses("plan is", torch.ops.rope_kernels.rotate, x, cos, sin, plan=12)
        self.refuses("one type", rope_kernels.rotate_, x.bfloat16(), cos, sin, rounding="eager")
        self.refuses("pairing", rope_kernels.rotate_, x, cos, sin, output_pairing="interleaved")
        self.refuses("stride", rope_kernels.rotate_, torch.ones(1, 2, 5, 16)[..., ::2], cos, sin)
        self.refuses("overlap", rope_kernels.rotate_, torch.ones(1, 1, 5, 8).expand(1, 2, 5, 8), cos, sin)
        self.refuses("number of rows is 5; .* must be 4", rope_kernels.rotate_qk_, x, torch.ones(1, 1, 4, 8), cos, sin)

    def test_q_and_k_with_elements_in_common(self):
        cos, sin = torch.rand(2, 5, 4).cos(), torch.rand(2, 5, 4).sin()
        for layout, token_dim in (("bshd", 1), ("bhsd", 2)):
            packed = torch.rand(2, 5, 6, 8)
            heads = lambda first, end: packed[:, :, first:end].transpose(1, token_dim)
            for q, k in ((0, 6), (0, 6)), ((0, 4), (3, 5)), ((1, 3), (0, 6)), ((0, 1), (0, 6)), ((2, 5), (1, 3)):
                self.refuses("in common", rope_kernels.rotate_qk_, heads(*q), heads(*k), cos, sin, layout=layout)
                # With gradients Q and K rotate one after the other, and are refused as without.
                leaf = packed.clone().requires_grad_()
                both = [(leaf * 1)[:, :, first:end].transpose(1, token_dim) for first, end in (q, k)]
                rope_kernels.rotate_qk_(*both, cos, sin, layout=layout)  # Of memory of its own each.
                y = leaf * 1
                both = [y[:, :, first:end].transpose(1, token_dim) for first, end in (q, k)]
                self.refuses("in common", rope_kernels.rotate_qk_, *both, cos, sin, layout=layout)
                same(self, y.detach(), leaf.detach())
            # The last head of K is the first of Q in the next token; the heads begin amid one another.
            late = packed.view(-1).as_strided((2, 4, 4, 8), (240, 48, 8, 1), 24).transpose(1, token_dim)
            amid = packed.view(-1).as_strided((2, 4, 2, 8), (240, 48, 8, 1), 20).transpose(1, token_dim)
            q = packed[:, :4, :3].transpose(1, token_dim)
            for k in (late, amid):
                self.refuses("in common", rope_kernels.rotate_qk_, q, k, cos[:, :4], sin[:, :4], layout=layout)
            before = packed.clone()
            q, k = heads(0, 4), heads(4, 6)
            expected = [rope_kernels.rotate(x, cos, sin, layout=layout) for x in (q, k)]
            rope_kernels.rotate_qk_(q, k, cos, sin, layout=layout)
            for x, rotated in zip((q, k), expected):
                same(self, x, rotated)
            self.assertFalse(torch.equal(packed, before))
            gradients = []
            for rotate in (rope_kernels.rotate_qk_, rope_kernels.rotate_qk):
                leaf = before.clone().requires_grad_()
                y = leaf * 1
                both = [y[:, :, first:end].transpose(1, token_dim) for first, end in ((0, 4), (4, 6))]
                both = rotate(*both, cos, sin, layout=layout)
                for x, rotated in zip(both, expected):
                    same(self, x.detach(), rotated)
                sum((x * torch.arange(x.numel()).view(x.shape)).sum() for x in both).backward()
                gradients.append(leaf.grad)
            same(self, *gradients)
            for needs in (False, True):
                x = (before[:, :, :1].clone().requires_grad_(needs) * 1).expand(2, 5, 2, 8).transpose(1, token_dim)
                y = before[:, :, :4].transpose(1, token_dim).contiguous()
                self.refuses("overlap|more than one element", rope_kernels.rotate_qk_, x, y, cos, sin, layout=layout)
                self.refuses("overlap|more than one element", rope_kernels.rotate_qk_, y, x, cos, sin, layout=layout)
                few = before[:, :4, 4:].transpose(1, token_dim).clone().requires_grad_(needs) * 1
                self.refuses("rows is 10", rope_kernels.rotate_qk_, y, few, cos, sin, layout=layout)
                table, ids = torch.rand(9, 4), torch.arange(5)
                self.refuses("overlap|more than one element", rope_kernels.rotate_qk_, y, x, table, table, ids=ids,
                             layout=layout)

    def test_other_devices_and_storages(self):
        x, cos, sin = torch.ones(1, 2, 5, 8), torch.ones(5, 4), torch.zeros(5, 4)
        for bad in ([x, cos, sin.to_sparse()], [x.to_sparse(), cos, sin]):
            with self.assertRaises((RuntimeError, NotImplementedError)):
                torch.ops.rope_kernels.rotate(*bad)
        # Without data only the shape is known.
        y = torch.ops.rope_kernels.rotate(*(tensor.to("meta") for tensor in (x, cos, sin)))
        self.assertEqual((y.device.type, y.shape), ("meta", x.shape))
        resized = torch.ones(1, 2, 5, 8)
        resized.untyped_storage().resize_(16)
        with self.assertRaisesRegex(RuntimeError, "storage"):
            rope_kernels.rotate_(resized, cos, sin)

    def test_types_that_are_not_rotated(self):
        # An output of an unknown type was once a tensor of garbage, which crashed in one run of two.
        cos, sin = torch.ones(5, 4), torch.zeros(5, 4)
        for dtype in (torch.bool, torch.complex64, torch.int16, torch.float64, torch.int64):
            for x in (torch.ones(1, 2, 5, 8), torch.ones(1, 2, 5, 16)[..., ::2], torch.ones(0, 2, 5, 8)):
                for _ in range(200):
                    with self.assertRaisesRegex(RuntimeError, "operators rotate float32"):
                        torch.ops.rope_kernels.rotate(x.to(dtype), cos, sin)

    def test_tables_that_overlap_with_the_tensor(self):
        whole = torch.rand(1, 1, 5, 8)
        cos, sin = whole[0, 0, :, :4], whole[0, 0, :, 4:]
        expected = rope_kernels.rotate(whole, cos.clone(), sin.clone())
        same(self, rope_kernels.rotate_(whole, cos, sin), expected)

    def test_nothing_crashes(self):
        choose = random.Random(SEED)

        def tensor():
            rank = choose.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6])
            sizes = [choose.choice([0, 1, 2, 3, 4, 8]) for _ in range(rank)]
            strides = [choose.choice([0, 1, 1, 2, 4, 8, 16, 32]) for _ in range(rank)]
            dtype = choose.choice([torch.float32] * 3 + [torch.bfloat16, torch.float16, torch.float64, torch.int64,
                                                        torch.bool, torch.complex64])
            storage = torch.ones(4096).to(dtype)
            return storage.as_strided(sizes, strides, choose.choice([0, 1, 7]))

        ran = 0
        for _ in range(12_000):
            shared = choose.random() < 0.2
            tensors = [tensor() for _ in range(4)]
            if shared:
                tensors[1] = tensors[0]
            arguments = (choose.randrange(-2, 300), choose.choice([1.0, 0.0, -2.0, float("nan"), float("inf")]))
            ops = torch.ops.rope_kernels
            name, count = choose.choice([("rotate", 3), ("rotate_", 3), ("rotate_qk", 4), ("rotate_qk_", 4)])
            if choose.random() < 0.5:
                tokens, pairs = choose.choice([0, 1, 3]), choose.choice([0, 1, 4])
                tensors[count - 2] = tensors[count - 1] = torch.ones(tokens, pairs)
                tensors[0] = torch.ones(2, choose.choice([1, 3]), choose.choice([0, 1, 3]), 8)
            try:
                getattr(ops, name)(*tensors[:count], *arguments)
                ran += 1
            except RuntimeError as error:
                self.assertNotIn("panicked", str(error), f"seed {SEED}")
        self.assertGreater(ran, 20, f"seed {SEED}")
