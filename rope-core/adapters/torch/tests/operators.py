"""Operators beside rotations by rows: by ids of a table, by a model's configuration, with norms, into caches."""

import random
import re
import typing
import unittest
from pathlib import Path

import torch

import rope_kernels
from support import DTYPES, SEED, has_its_derivatives, read, same, values

LLAMA = {"model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "rope_theta": 500000.0,
         "max_position_embeddings": 131072,
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192}}


def rms_norm(x, weight, eps=1e-6):
    """LlamaRMSNorm."""
    normed = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return weight * normed.to(x.dtype)


class ByIds(unittest.TestCase):
    def test_the_bits_of_a_gather(self):
        choose = random.Random(SEED)
        torch.manual_seed(SEED)
        for _ in range(60):
            dtype = choose.choice([torch.float32, torch.bfloat16, torch.float16])
            table_type = choose.choice([dtype, torch.float32])
            angle = torch.randn(50, 8)
            repeat = choose.choice(["none", "halves", "pairs"])
            cos, sin = angle.cos().to(table_type), angle.sin().to(table_type)
            if choose.random() < 0.5:  # vLLM's table: cos beside sin.
                cos, sin = torch.cat((cos, sin), -1).chunk(2, -1)
            twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1),
                     "pairs": lambda t: t.repeat_interleave(2, -1)}[repeat]
            cos, sin = twice(cos), twice(sin)
            q, k = torch.randn(2, 3, 7, 16).to(dtype), torch.randn(2, 1, 7, 16).to(dtype)
            ids = torch.randint(0, 50, choose.choice([(7,), (2, 7)]), dtype=choose.choice([torch.int64, torch.int32]))
            how = dict(pairing=choose.choice(["half", "interleaved"]), repeat=repeat)
            wanted = rope_kernels.rotate_qk(q, k, cos[ids], sin[ids], **how)
            for ours, expected in zip(rope_kernels.rotate_qk(q, k, cos, sin, ids=ids, **how), wanted):
                same(self, ours, expected)
            same(self, rope_kernels.rotate(q, cos, sin, ids=ids, **how), wanted[0])
            same(self, rope_kernels.rotate_(q.clone(), cos, sin, ids=ids, **how), wanted[0])
            for ours, expected in zip(rope_kernels.rotate_qk_(q.clone(), k.clone(), cos, sin, ids=ids, **how), wanted):
                same(self, ours, expected)

    def test_gradients(self):
        torch.manual_seed(SEED)
        angle, ids = torch.randn(9, 4), torch.tensor([[3, 0, 3], [8, 1, 2]])
        results = []
        for by_ids in (True, False):
            torch.manual_seed(SEED)
            x, k = torch.randn(2, 4, 3, 8, requires_grad=True), torch.randn(2, 2, 3, 8, requires_grad=True)
            cos, sin = angle.cos().requires_grad_(), angle.sin().requires_grad_()
            for tables in ((cos, sin), (cos.detach(), sin.detach())):
                rows = tables if by_ids else [t[ids] for t in tables]
                y = rope_kernels.rotate_qk(x, k, *rows, ids=ids if by_ids else None)
                y = (*y, rope_kernels.rotate(x, *rows, ids=ids if by_ids else None))
                sum((part * torch.arange(part.numel()).view(part.shape)).sum() for part in y).backward()
            z = rope_kernels.rotate_(x * 1, *(t.detach() for t in rows), ids=ids if by_ids else None)
            z.square().sum().backward()
            results.append([t.grad for t in (x, k, cos, sin)])
        for ours, wanted in zip(*results):
            # A row of a table that several ids name gets the sum of their gradients, in an order of PyTorch's.
            self.assertTrue(torch.allclose(ours, wanted, rtol=1e-5))
        for ours, wanted in zip(results[0][:2], results[1][:2]):
            same(self, ours, wanted)

    def test_refused(self):
        x, table = torch.ones(1, 2, 3, 8), torch.ones(5, 4)
        for ids, message in ((torch.tensor([0, 1, 5]), "5"), (torch.tensor([0, -1, 2]), "-1"),
                             (torch.tensor([0, 1]), "must be 3"), (torch.tensor([0.0, 1.0, 2.0]), "int64 or int32")):
            for tables in (table, table.bfloat16()):
                y = x.clone()
                with self.assertRaisesRegex(RuntimeError, message):
                    rope_kernels.rotate_(y, tables, tables, ids=ids)
                same(self, y, x)
        with self.assertRaisesRegex(RuntimeError, "ids name rows"):
            rope_kernels.rotate(x, torch.ones(2, 5, 4), torch.ones(2, 5, 4), ids=torch.tensor([0, 1, 2]))


class ByConfiguration(unittest.TestCase):
    def test_rows_are_exact(self):
        rotation = rope_kernels.Rotation(LLAMA)
        self.assertEqual((rotation.head_dim, rotation.window, rotation.axes), (32, range(32), 1))
        self.assertEqual((rotation.pairing, rotation.direction, rotation.attention_factor), ("half", "forward", 1.0))
        plain = rope_kernels.Rotation({"model_type": "llama", "hidden_size": 128, "num_attention_heads": 4})
        positions = torch.tensor([[0, 1, 2, 77], [100_000, 131_071, 5, 1_000_000]])
        cos, sin = plain.rows(positions)
        inverse = 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
        angles = positions[..., None].double() * inverse
        self.assertLess((cos.double() - angles.cos()).abs().max().item(), 6.1e-8)
        self.assertLess((sin.double() - angles.sin()).abs().max().item(), 6.1e-8)
        for repeat, wanted in (("halves", torch.cat((cos, cos), -1)), ("pairs", cos.repeat_interleave(2, -1))):
            same(self, plain.rows(positions, repeat)[0], wanted)

    def test_rotations(self):
        torch.manual_seed(SEED)
        rotation, positions = rope_kernels.Rotation(LLAMA), torch.tensor([[3, 4, 5], [100_000, 7, 9]])
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(2, 4, 3, 32).to(dtype)
            wanted = rope_kernels.rotate(x, *rotation.rows(positions))
            same(self, rotation.rotate(x, positions), wanted)
            same(self, rotation.rotate_(x.clone(), positions), wanted)
            tokens_major = x.transpose(1, 2).contiguous()
            same(self, rotation.rotate(tokens_major, positions, layout="bshd"), wanted.transpose(1, 2))
        x = torch.randn(2, 4, 3, 32, requires_grad=True)
        rotation.rotate(x, positions).backward(torch.ones(2, 4, 3, 32))
        ones = torch.ones(2, 4, 3, 32)
        wanted = rope_kernels.rotate(ones, *rotation.rows(positions), direction="transpose")
        same(self, x.grad, wanted)
        leaf = torch.randn(2, 4, 3, 32, requires_grad=True)
        rotation.rotate_(1 * leaf, positions).backward(ones)
        same(self, leaf.grad, wanted)
        self.assertTrue(has_its_derivatives(
            lambda x: rotation.rotate(x, positions), (torch.randn(2, 1, 3, 32, requires_grad=True),)))

    def test_windows_pairings_and_axes(self):
        torch.manual_seed(SEED)
        deepseek = rope_kernels.Rotation({
            "model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "hidden_size": 64,
            "num_attention_heads": 2})
        self.assertEqual((deepseek.pairing, deepseek.output_pairing, deepseek.window), ("interleaved", "half", range(16, 24)))
        x, positions = torch.randn(1, 2, 5, 24, requires_grad=True), torch.arange(5)
        rows = deepseek.rows(positions)
        part = rope_kernels.rotate(x[..., 16:], *rows, pairing="interleaved", output_pairing="half")
        wanted = torch.cat((x[..., :16], part), -1)
        ours = deepseek.rotate(x, positions)
        same(self, ours, wanted.detach())
        dy = torch.randn(1, 2, 5, 24)
        same(self, torch.autograd.grad(ours, x, dy)[0], torch.autograd.grad(wanted, x, dy)[0])
        same(self, deepseek.rotate(x[..., 16:], positions), part.detach())
        with self.assertRaisesRegex(RuntimeError, "pairing"):
            deepseek.rotate_(x.detach().clone(), positions)
        with self.assertRaisesRegex(RuntimeError, "16"):
            deepseek.rotate(x[..., :16], positions)
        qwen = rope_kernels.Rotation({
            "model_type": "qwen2_vl", "hidden_size": 64, "num_attention_heads": 4,
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}})
        self.assertEqual(qwen.axes, 3)
        positions = torch.randint(0, 50, (3, 2, 5))
        cos, _ = qwen.rows(positions)
        self.assertEqual(cos.shape, (2, 5, 8))
        text = positions[:1].expand(3, 2, 5)
        same(self, qwen.rows(text)[0], qwen.rows(positions[0])[0])
        x = torch.randn(2, 4, 5, 16)
        same(self, qwen.rotate(x, positions), rope_kernels.rotate(x, *qwen.rows(positions)))

    def test_refused(self):
        for config, message in (("{", "line 1"), ({"model_type": "gpt2"}, "gpt2|rotat"), ({"model_type": "no such"}, "no such"),
                                (dict(LLAMA, rope_scaling={"rope_type": "other"}), "other")):
            with self.assertRaisesRegex(RuntimeError, message):
                rope_kernels.Rotation(config)
        gemma = {"model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
                 "num_hidden_layers": 6}
        dynamic = dict(LLAMA, rope_scaling={"rope_type": "dynamic", "factor": 2.0})
        smol = {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4}
        # The ways out are arguments of Rotation.
        for config, choices, message in (
            (gemma, {}, "^layer_type must be chosen"), (dynamic, {}, r"\(length\)"), (smol, {}, "choose one by layer"),
            (smol, {"layer": 3}, "layer 3 does not rotate"), (smol, {"layer": 4}, r"below the number of layers \(4\)"),
            (dict(LLAMA, model_type="lama"), {}, "model_type reads it by the rules of another type"),
            ({"model_type": "musicflamingo"}, {}, "guide"), (dict(LLAMA, use_mrope=True), {}, "out of config"),
        ):
            with self.assertRaisesRegex(RuntimeError, message) as raised:
                rope_kernels.Rotation(config, **choices)
            self.assertNotIn("::", str(raised.exception))
        same(self, rope_kernels.Rotation(smol, layer=0).rows(torch.arange(3))[0],
             rope_kernels.Rotation({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                                    "rope_theta": 2e6}).rows(torch.arange(3))[0])
        rotation, x = rope_kernels.Rotation(LLAMA), torch.ones(1, 4, 3, 32)
        for message, call in (
            ("must be 3", lambda: rotation.rotate(x, torch.arange(4))),
            ("positions is", lambda: rotation.rotate(x, torch.zeros(3, 1, 3, dtype=torch.int64))),
            ("is bfloat16; it must be int64, int32, float64 or float32", lambda: rotation.rows(torch.zeros(3, dtype=torch.bfloat16))),
            ("config must be", lambda: torch.ops.rope_kernels.rotate_by_config(x, x, torch.arange(3))),
            ("layout, and", lambda: torch.ops.rope_kernels.rotate_by_config(x, rotation.config, torch.arange(3), 1)),
            ("pairs is 5", lambda: torch.ops.rope_kernels.config_rows(rotation.config, torch.arange(3), 5)),
            ("leaf", lambda: rotation.rotate_(torch.ones(1, 4, 3, 32, requires_grad=True), torch.arange(3))),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()
        partial = {**LLAMA, "rope_pct": 0.5, "use_mrope": False}
        for kind, message, config in (
            (rope_kernels.IgnoredKey, "rope_pct is 0.5", partial),
            (rope_kernels.NothingRotates, "nothing rotates", {"model_type": "bert"}),
            (rope_kernels.ChoosePart, "parts that rotate", {"model_type": "dia"}),
        ):
            with self.assertRaisesRegex(kind, message):
                rope_kernels.Rotation(config)
        lenient = rope_kernels.Rotation(partial, lenient=True)
        self.assertEqual(lenient.window, rotation.window)
        self.assertEqual([(key, value, other) for key, value, _, other in lenient.ignored],
                         [("rope_pct", "0.5", True), ("use_mrope", "false", False)])
        self.assertEqual(rotation.ignored, [])
        gibberish = torch.frombuffer(bytearray(b"\xff\x00\x00"), dtype=torch.uint8)
        with self.assertRaises(RuntimeError):
            torch.ops.rope_kernels.config_rotation(gibberish)


class Norms(unittest.TestCase):
    def test_the_bits_of_norm_then_rotation(self):
        torch.manual_seed(SEED)
        before = torch.get_num_threads()
        try:
            for dtype in (torch.float32, torch.bfloat16):
                for tokens, layout in ((7, "bhsd"), (7, "bshd"), (1024, "bhsd"), (1024, "bshd")):
                    torch.set_num_threads(3)
                    packed = torch.randn(1, tokens, 6, 64).to(dtype)
                    angle = torch.randn(tokens, 32)
                    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
                    weights = [torch.randn(64).to(dtype) for _ in range(2)]
                    q, k = packed[:, :, :4], packed[:, :, 4:5]
                    if layout == "bhsd":
                        q, k = q.transpose(1, 2), k.transpose(1, 2)
                    wanted = [rope_kernels.rotate(rms_norm(x, weight), cos, sin, layout=layout)
                              for x, weight in zip((q, k), weights)]
                    apart = [x.clone(memory_format=torch.contiguous_format) for x in (q, k)]
                    rope_kernels.norm_rotate_qk_(*apart, *weights, cos, sin, layout=layout)
                    rest = packed[:, :, 5:].clone()
                    rope_kernels.norm_rotate_qk_(q, k, *weights, cos, sin, layout=layout)
                    for ours, in_clone, expected in zip((q, k), apart, wanted):
                        same(self, ours, expected)
                        same(self, in_clone, expected)
                    same(self, packed[:, :, 5:], rest)
        finally:
            torch.set_num_threads(before)

    def test_without_weights_over_rows_and_after(self):
        torch.manual_seed(SEED)
        # Enough for threads, which must not share the heads of a row among them.
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(3)
        q, k, angle = torch.randn(1, 2, 2048, 64), torch.randn(1, 2, 2048, 64), torch.randn(2048, 32)
        cos, sin = angle.cos(), angle.sin()
        rotated = rope_kernels.rotate(q, cos, sin)
        normed = rotated * torch.rsqrt(rotated.pow(2).mean(-1, keepdim=True) + 1e-6)
        ours, _ = rope_kernels.norm_rotate_qk_(q.clone(), k.clone(), None, None, cos, sin, order="after")
        self.assertLess((ours - normed).abs().max().item(), 1e-5)
        row = q * torch.rsqrt(q.pow(2).mean((1, 3), keepdim=True) + 1e-6)
        ours, _ = rope_kernels.norm_rotate_qk_(q.clone(), k.clone(), None, None, cos, sin, over="row")
        self.assertLess((ours - rope_kernels.rotate(row, cos, sin)).abs().max().item(), 1e-5)

    def test_refused(self):
        q, k, w, t = torch.ones(1, 2, 3, 8), torch.ones(1, 1, 3, 8), torch.ones(8), torch.ones(3, 4)
        for message, error, args, how in (
            ("formula is", ValueError, (q, k, w, w, t, t), dict(formula="other")),
            ("7|8", RuntimeError, (q, k, w, torch.ones(7), t, t), {}),
            ("contiguous", RuntimeError, (q, k, w, torch.ones(16)[::2], t, t), {}),
            ("one type", RuntimeError, (q, k.half(), w, w, t, t), {}),
            ("eps is", RuntimeError, (q, k, w, w, t, t), dict(eps=-1.0)),
            ("must be 4", RuntimeError, (q, torch.ones(1, 1, 4, 8), w, w, t, t), {}),
            ("pairing", RuntimeError, (q, k, w, w, t, t), dict(output_pairing="interleaved")),
            ("once", RuntimeError, (q, k, w, w, t, t), dict(rounding="eager")),
            ("overlap", RuntimeError, (q, k, q[0, 0, 0], w, t, t), {}),
            ("in common", RuntimeError, (q, q, w, w, t, t), {}),
            ("in common", RuntimeError, (q, q[:, 1:], w, w, t, t), {}),
            ("no gradients", RuntimeError, (q, k, w.clone().requires_grad_(), w, t, t), {}),
        ):
            before = [x.clone() for x in args[:2]]
            with self.assertRaisesRegex(error, message):
                rope_kernels.norm_rotate_qk_(*args, **how)
            for x, old in zip(args, before):
                same(self, x, old)


class Caches(unittest.TestCase):
    def given(self, dtype=torch.float32):
        torch.manual_seed(SEED)
        k, v, angle = torch.randn(1, 5, 2, 64).to(dtype), torch.randn(1, 5, 2, 64).to(dtype), torch.randn(5, 32)
        return k, v, angle.cos(), angle.sin(), torch.tensor([9, 2, -1, 0, 17])

    def lines(self, cache, slots, layout):
        """The heads in those slots, of the tokens that have one: [tokens, heads, width]."""
        if layout == "hnd":
            cache = cache.transpose(1, 2)
        return cache.reshape(-1, *cache.shape[2:])[slots[slots >= 0]]

    def test_what_is_kept(self):
        # The definitions of the codes, in PyTorch.
        def q8_0(x):
            blocks = x.unflatten(-1, (-1, 32))
            d = blocks.abs().amax(-1, keepdim=True) / 127
            codes = (blocks * torch.where(d == 0, 0.0, 1 / d))
            codes = (codes.sign() * (codes.abs() + 0.5).floor()).to(torch.int8)
            scales = d.half().view(torch.uint8)
            return torch.cat((scales, codes.view(torch.uint8)), -1).flatten(-2)

        def q4_0(x):
            blocks = x.unflatten(-1, (-1, 32))
            largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
            d = largest / -8
            codes = (blocks * torch.where(d == 0, 0.0, 1 / d) + 8.5).to(torch.uint8).clamp(max=15)
            packed = codes[..., :16] | codes[..., 16:] << 4
            return torch.cat((d.half().view(torch.uint8), packed), -1).flatten(-2)

        formats = {
            "elements": (torch.bfloat16, 64, lambda x: x.bfloat16()),
            "e4m3": (torch.float8_e4m3fn, 64, lambda x: (x / 0.5).clamp(-448, 448).to(torch.float8_e4m3fn)),
            "int8": (torch.int8, 64, lambda x: (x / 0.5).round().clamp(-128, 127).to(torch.int8)),
            "q8_0": (torch.uint8, 68, q8_0),
            "q4_0": (torch.uint8, 36, q4_0),
        }
        for name, (dtype, width, code) in formats.items():
            for layout in ("nhd", "hnd"):
                for weight in (None, torch.randn(64)):
                    k, v, cos, sin, slots = self.given()
                    shape = [5, 4, 2, width] if layout == "nhd" else [5, 2, 4, width]
                    caches = [torch.zeros(shape).to(dtype) for _ in range(2)]
                    norm = {} if weight is None else dict(weight=weight, formula="llama")
                    scales = dict(key_scale=0.5, value_scale=0.5) if name in ("e4m3", "int8") else {}
                    rope_kernels.rotate_into_caches(
                        k, v, cos, sin, *caches, slots, format=name, cache_layout=layout, layout="bshd", **norm, **scales)
                    rotated = rope_kernels.rotate(k if weight is None else rms_norm(k, weight), cos, sin, layout="bshd")
                    for cache, x in zip(caches, (rotated, v)):
                        kept, wanted = self.lines(cache, slots, layout), code(x)[0][slots >= 0]
                        kept, wanted = (t.contiguous().view(torch.uint8) for t in (kept, wanted))
                        self.assertTrue(torch.equal(kept, wanted), f"{name} {layout}, seed {SEED}")
                        written = cache.contiguous().view(torch.uint8).count_nonzero().item()
                        self.assertEqual(written, kept.count_nonzero().item(), "written beside the slots")

    def test_scales(self):
        codes = {
            "e4m3": (torch.float8_e4m3fn, 448, lambda x: x.clamp(-448, 448).to(torch.float8_e4m3fn)),
            "int8": (torch.int8, 127, lambda x: x.round().clamp(-128, 127).to(torch.int8)),
        }
        for name, (dtype, largest, code) in codes.items():
            for layout in ("nhd", "hnd"):
                k, v, cos, sin, slots = self.given()
                k[0, 0, 1], v[0, 1, 0] = 0, 1e-7  # Their scales are the least.
                shape = [5, 4, 2, 64] if layout == "nhd" else [5, 2, 4, 64]
                how = dict(format=name, cache_layout=layout, layout="bshd")
                rotated = rope_kernels.rotate(k, cos, sin, layout="bshd")
                for each in (True, False):
                    caches = [torch.zeros(shape).to(dtype) for _ in range(2)]
                    if each:
                        scales = [torch.tensor([0.5, 0.3]), torch.tensor([0.7, 9.0, 0.02])[::2]]
                    else:
                        scales = torch.full((2, *shape[:3], 2), -1.0)[..., 0].unbind()
                    rope_kernels.rotate_into_caches(
                        k, v, cos, sin, *caches, slots, key_scale=scales[0], value_scale=scales[1], **how)
                    for cache, scale, x in zip(caches, scales, (rotated, v)):
                        x = x[0][slots >= 0]
                        if each:
                            wanted = code(x / scale[:, None])
                        else:
                            wanted_scales = (x.abs().amax(-1) / largest).clamp(min=1e-6)
                            wanted = code(x * (1 / wanted_scales)[..., None])
                            same(self, self.lines(scale[..., None], slots, layout)[..., 0], wanted_scales, name)
                            written = (scale != -1).sum().item()
                            self.assertEqual(written, wanted_scales.numel(), "written beside the slots")
                        kept = self.lines(cache, slots, layout)
                        kept, wanted = (t.contiguous().view(torch.uint8) for t in (kept, wanted))
                        self.assertTrue(torch.equal(kept, wanted), f"{name} {layout}, seed {SEED}")

    def test_latents(self):
        latents, rotary, slots = 512, 64, torch.tensor([9, -1, 3, 7, 8])
        latent, projected = torch.randn(1, 5, 1, latents), torch.randn(1, 5, 1, latents + rotary)
        latent[0, 4] = 0
        key = projected[..., latents:]
        angles = torch.randn(1, 5, rotary // 2)
        cos, sin = angles.cos(), angles.sin()
        for words in (torch.float32, torch.bfloat16):
            x, k = latent.to(words), key.to(words)
            # Rounded once, to the element of the cache.
            rotated = rope_kernels.rotate(k.float(), cos, sin, layout="bshd", pairing="interleaved")
            how = dict(layout="bshd", pairing="interleaved")
            for kept in (torch.float32, torch.bfloat16):
                cache = torch.full((3, 4, latents + rotary), 7.0, dtype=kept)
                got = rope_kernels.rotate_into_latent_cache(x, k, cos, sin, cache, slots, **how)
                self.assertIs(got, cache)
                lines = cache.view(12, -1)
                whole = torch.cat([x.float(), rotated], -1).to(kept)[0, :, 0]
                for token, slot in enumerate(slots.tolist()):
                    if slot >= 0:
                        self.assertTrue(torch.equal(lines[slot], whole[token]), f"{words} {kept}, seed {SEED}")
                self.assertEqual((lines == 7.0).all(-1).sum().item(), 8)
            # vLLM's fp8_ds_mla.
            cache = torch.full((3, 4, 656), 0x5A, dtype=torch.uint8)
            rope_kernels.rotate_into_latent_cache(x, k, cos, sin, cache, slots, **how)
            lines = cache.view(12, 656)
            tiles = x.float()[0, :, 0].view(5, 4, 128)
            scales = (tiles.abs().amax(-1) / 448).clamp(min=torch.finfo(torch.float32).tiny)
            codes = (tiles / scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(5, 512)
            for token, slot in enumerate(slots.tolist()):
                if slot >= 0:
                    line = lines[slot]
                    self.assertTrue(torch.equal(line[:512], codes[token].view(torch.uint8)), f"{words}, seed {SEED}")
                    self.assertTrue(torch.equal(line[512:528].clone().view(torch.float32), scales[token]))
                    wanted = rotated[0, token, 0].bfloat16()
                    self.assertTrue(torch.equal(line[528:].clone().view(torch.bfloat16), wanted), f"seed {SEED}")
            self.assertEqual((lines == 0x5A).all(-1).sum().item(), 8)
        # DeepSeek-V4's pages: 576 bytes of each slot, then 8 of each.
        narrow = latent[..., :448].bfloat16()
        for stride in (4 * 584, 4 * 584 + 56):
            memory = torch.full((3, stride), 0x5A, dtype=torch.uint8)
            pages = memory[:, : 4 * 584].unflatten(1, (4, 584))
            rope_kernels.rotate_into_latent_cache(narrow, key.bfloat16(), cos, sin, pages, slots, **how,
                                                  format="e4m3_in_64_e8m0")
            rotated = rope_kernels.rotate(key.bfloat16(), cos, sin, layout="bshd", pairing="interleaved")
            tiles = narrow.float()[0, :, 0].view(5, 7, 64)
            scales = (tiles.abs().amax(-1).clamp(min=1e-4) / 448).log2().ceil()
            codes = (tiles / scales.exp2()[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).view(5, 448)
            records, bytes_of = memory[:, : 4 * 576].reshape(12, 576), memory[:, 4 * 576 : 4 * 584].reshape(12, 8)
            for token, slot in enumerate(slots.tolist()):
                if slot >= 0:
                    self.assertTrue(torch.equal(records[slot, :448], codes[token].view(torch.uint8)), f"seed {SEED}")
                    wanted = rotated[0, token, 0].view(torch.uint8)
                    self.assertTrue(torch.equal(records[slot, 448:], wanted), f"seed {SEED}")
                    self.assertEqual(bytes_of[slot].tolist(), [*(127 + scales[token]).int().tolist(), 0x5A])
            self.assertEqual((records == 0x5A).all(-1).sum().item(), 8)
            before = memory.clone()
            for message, change in (("pages of uint8", dict(cache=pages[..., :583])), ("slot 12", dict(slots=slots + 3)),
                                    ("pages of uint8", dict(cache=torch.zeros(3, 4, 584)))):
                args = dict(latent=narrow, key=key.bfloat16(), cos=cos, sin=sin, cache=pages, slots=slots)
                with self.assertRaisesRegex(RuntimeError, message):
                    rope_kernels.rotate_into_latent_cache(**{**args, **change}, **how, format="e4m3_in_64_e8m0")
            self.assertTrue(torch.equal(memory, before))
        # A norm of the whole head: the same bytes as those of a head that was normed before.
        for formula, weight in (("llama", torch.rand(576)), ("llama4", None), ("gemma", torch.rand(576))):
            for order in ("before", "after"):
                made = [torch.full((3, 4, 576), 7.0), torch.full((3, 4, 656), 0x5A, dtype=torch.uint8)]
                both = torch.cat((latent, key), -1)
                how = dict(formula=formula, order=order, weight=weight, eps=1e-5, layout="bshd", pairing="interleaved")
                heads = torch.zeros(3, 4, 1, 576)
                # The channels that rotate are those of the key.
                turns = torch.cat((torch.zeros(5, 256), angles[0]), -1)
                rope_kernels.rotate_into_caches(both, both, turns.cos(), turns.sin(), heads, heads.clone(), slots, **how)
                for cache_of in made:
                    rope_kernels.rotate_into_latent_cache(latent, key, cos, sin, cache_of, slots, **how)
                wanted = heads.view(12, 576)[slots[slots >= 0]]
                same(self, made[0].view(12, 576)[slots[slots >= 0]], wanted, f"{formula} {order}, seed {SEED}")
                plain = torch.full((3, 4, 656), 0x5A, dtype=torch.uint8)
                rope_kernels.rotate_into_latent_cache(
                    wanted[None, :, None, :512], wanted[None, :, None, 512:], torch.ones(4, 32), torch.zeros(4, 32), plain,
                    slots[slots >= 0], layout="bshd", pairing="interleaved")
                self.assertTrue(torch.equal(made[1], plain), f"{formula} {order}, seed {SEED}")
        before = cache.clone()
        for message, change in (
            ("weight", dict(formula="llama", weight=torch.ones(512))),
            ("overlap", dict(formula="llama", weight=cache.view(torch.bfloat16).flatten()[:576])),
            ("three dimensions", dict(cache=torch.zeros(12, 656, dtype=torch.uint8))),
            ("contiguous numbers", dict(cache=cache[..., :655])),
            ("contiguous numbers", dict(cache=torch.zeros(3, 4, 576)[..., :575])),
            ("one type", dict(key=key.half())),
            ("slot 12", dict(slots=torch.tensor([9, 1, 3, 7, 12]))),
            ("number of slots", dict(slots=slots[:4])),
            ("parts", dict(latent=x[:, :4])),
            ("rounding", dict(rounding="eager")),
        ):
            args = dict(latent=x, key=k, cos=cos, sin=sin, cache=cache, slots=slots, layout="bshd", pairing="interleaved")
            with self.assertRaisesRegex(RuntimeError, message):
                rope_kernels.rotate_into_latent_cache(**{**args, **change})
        self.assertTrue(torch.equal(cache, before))

    def test_scales_are_those_of_vllm(self):
        file = read("cache/int8_rows")
        tokens, heads, width = (int(file[name][0]) for name in ("tokens", "heads", "head_dim"))
        cos, sin, slots = torch.ones(tokens, width // 2), torch.zeros(tokens, width // 2), torch.arange(tokens)
        for words, dtype in DTYPES.items():
            x = values(file[f"x_{words}"], dtype, (1, tokens, heads, width))
            for name, format in (("vllm", "int8_away"), ("vllm_fp8", "e4m3")):
                caches = [torch.zeros(1, tokens, heads, width, dtype=torch.uint8) for _ in range(2)]
                scales = [torch.zeros(1, tokens, heads) for _ in range(2)]
                rope_kernels.rotate_into_caches(
                    x, x, cos, sin, *caches, slots, key_scale=scales[0], value_scale=scales[1], format=format,
                    layout="bshd")
                wanted = torch.tensor([int(code, 16) for code in file[f"{name}_codes_{words}"]], dtype=torch.uint8)
                for cache, scale in zip(caches, scales):
                    self.assertTrue(torch.equal(cache.flatten(), wanted), f"{name} {words}")
                    same(self, scale.flatten(), values(file[f"{name}_scale_{words}"], torch.float32, -1))

    def test_groups_with_zero_points_are_those_of_numpy(self):
        file = read("codes4/zero_points")
        for words, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = values(file[f"x_{words}"], dtype, (1, -1, 2, 128))
            tokens = x.shape[1]
            cos, sin, slots = torch.ones(tokens, 64), torch.zeros(tokens, 64), torch.arange(tokens)
            for format, width in (("u8_in_32", 160), ("u8_in_64", 144), ("u8_in_128", 136), ("u4_in_32", 96),
                                  ("u4_in_64", 80), ("u4_in_128", 72)):
                wanted = torch.tensor([int(code, 16) for code in file[f"{format}_{words}"]], dtype=torch.uint8)
                for cache_layout, shape in (("nhd", (1, tokens, 2, width)), ("hnd", (1, 2, tokens, width))):
                    caches = [torch.zeros(shape, dtype=torch.uint8) for _ in range(2)]
                    rope_kernels.rotate_into_caches(x, x, cos, sin, *caches, slots, format=format, layout="bshd",
                                                    cache_layout=cache_layout)
                    got = caches[1] if cache_layout == "nhd" else caches[1].transpose(1, 2)
                    self.assertTrue(torch.equal(got.flatten(), wanted), f"{format} {words} {cache_layout}")

    def test_channels_are_those_of_numpy(self):
        file = read("codes4/channels")
        for words, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = values(file[f"x_{words}"], dtype, (1, 64, 1, 20)).expand(1, 64, 2, 20)
            cos, sin = torch.ones(64, 10), torch.zeros(64, 10)
            for format, rows, width in (("u8_by_channel", 40, 20), ("u4_by_channel", 48, 10), ("kivi2", 12, 20),
                                        ("kivi4", 20, 20)):
                wanted = torch.tensor([int(code, 16) for code in file[f"{format}_{words}"]], dtype=torch.uint8)
                caches = [torch.zeros(3, 2, rows, width, dtype=torch.uint8) for _ in range(2)]
                slots = torch.cat([torch.arange(64, 96), torch.arange(32)])
                how = dict(format=format, layout="bshd", cache_layout="hnd")
                rope_kernels.rotate_into_caches(x, x, cos, sin, *caches, slots, **how)
                for cache in caches:
                    for head in range(2):
                        got = torch.cat([cache[2, head].flatten(), cache[0, head].flatten()])
                        self.assertTrue(torch.equal(got, wanted), f"{format} {words}")
                    self.assertFalse(cache[1].any())
                before = [cache.clone() for cache in caches]
                for message, change in (
                    ("groups of 32", dict(slots=slots - 1)),
                    ("groups of 32", dict(slots=slots.flip(0))),
                    ("need \"hnd\"", dict(cache_layout="nhd")),
                    ("contiguous rows", dict(key_cache=caches[0][..., :-1])),
                    ("contiguous rows", dict(key_cache=caches[0][:, :, :4])),
                    ("do not fit", dict(key_cache=caches[0][:, :, :rows - 4])),
                    ("uint8", dict(key_cache=caches[0].to(torch.int8))),
                ):
                    args = dict(k=x, v=x, cos=cos, sin=sin, key_cache=caches[0], value_cache=caches[1], slots=slots, **how)
                    with self.assertRaisesRegex(RuntimeError, message):
                        rope_kernels.rotate_into_caches(**{**args, **change})
                for cache, kept in zip(caches, before):
                    self.assertTrue(torch.equal(cache, kept), format)

    def test_numbers_of_heads_are_those_of_numpy(self):
        file = read("codes4/zero_points")
        for words, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = values(file[f"x_{words}"], dtype, -1)
            for channels in (80, 96, 256):
                for parts in (1, 2):
                    tokens = x.numel() // (2 * parts * channels)
                    heads = x[: tokens * 2 * parts * channels].view(1, tokens, 2, parts * channels)
                    cos = torch.ones(tokens, parts * channels // 2)
                    for bits in (8, 4):
                        for rule, name in (("zero_point", f"u{bits}"), ("minimum", f"u{bits}_minimum")):
                            key = f"u{bits}_of_{channels}_{rule}"
                            codes = torch.tensor([int(code, 16) for code in file[f"{key}_codes_{words}"]]).to(torch.uint8)
                            numbers = values(file[f"{key}_numbers_{words}"], torch.float32, -1)
                            width = parts * channels * bits // 8
                            # Numbers of their own; before the codes of a head, as in OpenVINO's pages; after a page.
                            apart = [[torch.zeros(1, tokens, 2, width, dtype=torch.uint8),
                                      torch.zeros(1, tokens, 2, 2 * parts)] for _ in range(2)]
                            heads_of = torch.zeros(2, 1, tokens, 2, 8 * parts + width, dtype=torch.uint8)
                            before = [[head[..., 8 * parts:], head[..., : 8 * parts].view(torch.float32)]
                                      for head in heads_of]
                            pages = self.pages(tokens, 2, width, torch.float32, 2 * parts)
                            in_two = [[torch.zeros(1, tokens, 2, width, dtype=torch.uint8),
                                       *torch.zeros(2, 1, tokens, 2, parts)] for _ in range(2)]
                            for place, ((keys, key_scale, *key_zero), (kept, value_scale, *value_zero)) in (
                                ("apart", apart), ("before", before), ("page", pages), ("in two", in_two),
                            ):
                                slots = torch.arange(tokens)
                                rope_kernels.rotate_into_caches(
                                    heads, heads, cos, torch.zeros_like(cos), keys, kept, slots, key_scale=key_scale,
                                    value_scale=value_scale, format=name, layout="bshd",
                                    **(dict(key_zero=key_zero[0], value_zero=value_zero[0]) if key_zero else {}))
                                case = f"{key} {words}, {parts} parts, {place}"
                                for cache, scale, *zero in ((keys, key_scale, *key_zero), (kept, value_scale, *value_zero)):
                                    scale = torch.stack((scale, *zero), -1).flatten(-2) if zero else scale
                                    wanted = codes[: tokens * 2 * width]
                                    got = cache.flatten(0, 1)[:tokens].flatten()
                                    self.assertTrue(torch.equal(got, wanted), case)
                                    got = scale.flatten(0, 1)[:tokens].flatten()
                                    same(self, got, numbers[: got.numel()], case)

    def pages(self, tokens, heads, width, dtype, scales):
        """Keys and values with their scales, of pages [keys | scales | values | scales] of 4 slots, as vLLM's."""
        blocks, size = -(-tokens // 4), dtype.itemsize
        sizes = [4 * heads * width, 4 * heads * scales * size]
        pages = torch.zeros(blocks, 2 * sum(sizes) + 16, dtype=torch.uint8)
        made, begin = [], 0
        for _ in range(2):
            codes = pages[:, begin : begin + sizes[0]].unflatten(1, (4, heads, width))
            begin += sizes[0]
            kept = pages[:, begin : begin + sizes[1]].view(dtype).unflatten(1, (4, heads, scales))
            begin += sizes[1]
            made.append([codes, kept])
        return made

    def test_pages_have_the_codes_and_scales_of_tensors(self):
        k, v, cos, sin, slots = self.given()
        for format, per_byte, group, dtype in (("nvfp4", 2, 16, torch.uint8), ("mxfp8", 1, 32, torch.uint8),
                                               ("e4m3_in_64", 1, 64, torch.float32), ("u4", 2, 32, torch.float32),
                                               ("e4m3", 1, 64, torch.float32), ("int8_away", 1, 64, torch.float32)):
            each = format in ("e4m3", "int8_away")
            count = 64 // group
            shape = (5, 4, 2)
            apart = [[torch.zeros(*shape, 64 // per_byte, dtype=torch.uint8), torch.zeros(*shape, count, dtype=dtype)]
                     for _ in range(2)]
            pages = self.pages(20, 2, 64 // per_byte, dtype, count)
            if each:
                apart, pages = ([[cache, scale[..., 0]] for cache, scale in made] for made in (apart, pages))
            how = dict(format=format, layout="bshd")
            for made in (apart, pages):
                (keys, key_scale), (kept, value_scale) = made
                rope_kernels.rotate_into_caches(k, v, cos, sin, keys, kept, slots, key_scale=key_scale,
                                                value_scale=value_scale, **how)
            for (cache, scale), (paged, in_page) in zip(apart, pages):
                self.assertTrue(torch.equal(cache, paged), format)
                self.assertTrue(torch.equal(scale, in_page), format)
                self.assertTrue(cache.any() and scale.any(), format)
        # Scales among the codes, and keys among the values.
        (keys, key_scale), (kept, value_scale) = self.pages(20, 2, 32, torch.uint8, 4)
        whole = keys._base
        before = whole.clone()
        inside = whole[:, 100:].as_strided((5, 4, 2, 4), (whole.stride(0), 8, 4, 1))
        for message, change in (
            ("share no byte", dict(key_scale=inside)),
            ("overlap", dict(value_cache=keys)),
            ("overlap", dict(value_scale=key_scale)),
            ("overlap", dict(value_scale=inside)),
            ("slot", dict(slots=slots + 20)),
        ):
            args = dict(key_cache=keys, value_cache=kept, key_scale=key_scale, value_scale=value_scale, slots=slots)
            with self.assertRaisesRegex(RuntimeError, message, msg=message):
                rope_kernels.rotate_into_caches(k, v, cos, sin, **{**args, **change}, format="nvfp4", layout="bshd")
            self.assertTrue(torch.equal(whole, before), message)

    def test_formats_are_those_of_rust_and_c(self):
        """Every code of rope-core, and every format of rope.h, has its name here."""
        root = Path(__file__).parents[3]
        here = set(typing.get_args(rope_kernels._stages.Format))
        same_as = {"int8_even": "int8", "int8_round_away": "int8_away"}
        api = (root / "public-api.txt").read_text()
        header = (root / "capi/include/rope.h").read_text()
        in_c = re.findall(r"ROPE_CACHE_FORMAT_(\w+) =", header)
        self.assertGreater(len(in_c), 25)
        for codes, count, suffix in (("Group", 7, ""), ("Channel", 4, "_by_channel"), ("Quant", 5, "")):
            kind = "QuantFormat" if codes == "Quant" else f"{codes}Codes"
            names = set(re.findall(rf"^pub rope_core::cache::{kind}::([A-Z]\w+)(?:\(|$)", api, re.MULTILINE))
            self.assertGreaterEqual(len(names), count, kind)
            for name in names:
                # E4m3In128 is e4m3_in_128.
                name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=In)(?=\d)", "_", name).lower()
                name = same_as.get(name, name) + (suffix if name[0] == "u" else "")
                self.assertIn(name, here)
        for name in in_c:
            name = name.lower()
            name = "elements" if name in ("f32", "f16", "bf16") else same_as.get(name, name)
            name = re.sub(r"in(\d+)$", r"in_\1", name)
            self.assertIn(name, here)
        # The rules of scales: the first of a format has no suffix.
        rules = re.findall(r"ROPE_GROUP_SCALE_(\w+) =", header)
        plain = {"floor", "quotient", "zero_point"}
        for rule in {rule.lower() for rule in rules} - plain:
            self.assertTrue(any(name.endswith(f"_{rule}") for name in here), rule)

    def test_groups_are_those_of_numpy(self):
        file = read("codes4/micro")
        channels = int(file["channels"][0])
        for words, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = values(file[f"x_{words}"], dtype, (1, -1, 2, channels))
            tokens = x.shape[1]
            cos, sin, slots = torch.ones(tokens, channels // 2), torch.zeros(tokens, channels // 2), torch.arange(tokens)
            for key, format, per_byte, group, kept in (
                ("mxfp4_floor", "mxfp4", 2, 32, torch.uint8),
                ("mxfp4_even", "mxfp4_even", 2, 32, torch.uint8),
                ("mxfp8_floor", "mxfp8", 1, 32, torch.uint8),
                ("mxfp8_up", "mxfp8_up", 1, 32, torch.uint8),
                ("nvfp4_0", "nvfp4", 2, 16, torch.uint8),
                ("nvfp4_1", "nvfp4", 2, 16, torch.uint8),
                ("mxfp4_up", "mxfp4_up", 2, 32, torch.uint8),
                ("mxfp8_even", "mxfp8_even", 1, 32, torch.uint8),
                ("e4m3_in_64_e8m0", "e4m3_in_64_e8m0", 1, 64, torch.uint8),
                ("e4m3_in_128_quotient", "e4m3_in_128", 1, 128, torch.float32),
            ):
                caches = [torch.zeros(1, tokens, 2, channels // per_byte, dtype=torch.uint8) for _ in range(2)]
                scales = [torch.zeros(1, tokens, 2, channels // group, dtype=kept) for _ in range(2)]
                factor = 1.0
                if format == "nvfp4":
                    factor = values(file[f"nvfp4_factor_{words}_{key[-1]}"], torch.float32, -1).item()
                how = dict(key_scale=scales[0], value_scale=scales[1], key_factor=factor, value_factor=factor,
                           format=format, layout="bshd")
                rope_kernels.rotate_into_caches(x, x, cos, sin, *caches, slots, **how)
                wanted = torch.tensor([int(code, 16) for code in file[f"{key}_codes_{words}"]], dtype=torch.uint8)
                if kept == torch.float32:
                    same(self, scales[1].flatten(), values(file[f"{key}_scale_{words}"], kept, -1))
                else:
                    wanted_scales = [int(code, 16) for code in file[f"{key}_scale_{words}"]]
                    self.assertEqual(scales[1].flatten().tolist(), wanted_scales, f"{key} {words}")
                self.assertTrue(torch.equal(caches[1].flatten(), wanted), f"{key} {words}")
                # Keys are values that were rotated before.
                rotated = rope_kernels.rotate(x, cos, sin, layout="bshd")
                others = [torch.zeros_like(cache) for cache in caches]
                kept_for = dict(key_scale=torch.zeros_like(scales[0]), value_scale=torch.zeros_like(scales[1]))
                rope_kernels.rotate_into_caches(x, rotated, cos, sin, *others, slots, **{**how, **kept_for})
                self.assertTrue(torch.equal(caches[0], others[1]), f"{key} {words}")
                self.assertTrue(torch.equal(scales[0], kept_for["value_scale"]), f"{key} {words}")
                for message, change in (
                    ("a scale for", dict(key_scale=scales[0][..., :0])),
                    ("a scale for", dict(value_scale=1.0)),
                    ("overlap", dict(value_scale=scales[0])),
                    ("factor", dict(key_factor=0.0) if format == "nvfp4" else dict(format="q8_0", key_factor=2.0)),
                ):
                    before = [t.clone() for t in (*caches, *scales)]
                    with self.assertRaisesRegex(RuntimeError, message, msg=format):
                        rope_kernels.rotate_into_caches(x, x, cos, sin, *caches, slots, **{**how, **change})
                    for tensor, was in zip((*caches, *scales), before):
                        self.assertTrue(torch.equal(tensor, was))

    def test_scales_refused(self):
        k, v, cos, sin, slots = self.given()
        caches = [torch.zeros(5, 4, 2, 64, dtype=torch.int8) for _ in range(2)]
        scales = [torch.zeros(5, 4, 2) for _ in range(2)]
        args = dict(k=k, v=v, cos=cos, sin=sin, key_cache=caches[0], value_cache=caches[1], slots=slots, layout="bshd",
                    format="int8", key_scale=scales[0], value_scale=scales[1])
        for message, change in (
            ("overlap", dict(value_scale=scales[0])),
            ("overlap", dict(key_scale=k.view(-1)[:40].view(5, 4, 2))),
            ("overlap", dict(key_scale=caches[1].view(torch.float32).view(-1)[:40].view(5, 4, 2))),
            ("layout|element", dict(key_scale=torch.zeros(5, 4, 1).expand(5, 4, 2))),
            ("for each token and head", dict(key_scale=torch.zeros(5, 2, 4))),
            ("for each token and head", dict(key_scale=torch.ones(3))),
            ("for each token and head", dict(key_scale=torch.ones(1).expand(1 << 44))),
            ("float32", dict(key_scale=torch.zeros(5, 4, 2, dtype=torch.float64))),
            ("scale", dict(key_scale=torch.tensor([0.5, -1.0]))),
            ("have scales", dict(format="elements")),
            ("have scales", dict(format="q8_0", key_scale=0.5)),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                rope_kernels.rotate_into_caches(**{**args, **change})
            self.assertEqual(sum(t.count_nonzero().item() for t in (*caches, *scales)), 0)

    def test_zero_points_refused(self):
        k, v, cos, sin, slots = self.given()
        caches = [torch.zeros(5, 4, 2, 64, dtype=torch.uint8) for _ in range(2)]
        scales, zeros = ([torch.zeros(5, 4, 2, 2) for _ in range(2)] for _ in range(2))
        args = dict(k=k, v=v, cos=cos, sin=sin, key_cache=caches[0], value_cache=caches[1], slots=slots, layout="bshd",
                    format="u8", key_scale=scales[0], value_scale=scales[1], key_zero=zeros[0], value_zero=zeros[1])
        page, other = torch.zeros(2, 5, 4, 2, 64 + 8, dtype=torch.uint8)
        beside = dict(key_cache=page[..., :64], key_scale=page[..., 64:].view(torch.float32),
                      key_zero=other[..., 64:].view(torch.float32))
        both = torch.zeros(5, 4, 2, 2, 2)
        for message, change in (
            ("key_zero is .* lie as key_scale", dict(key_zero=torch.zeros(5, 4, 2, 1))),
            ("value_zero is .* lie as value_scale", dict(value_zero=torch.zeros(5, 2, 4, 2).transpose(1, 2))),
            ("value_zero .*float32", dict(value_zero=torch.zeros(5, 4, 2, 2, dtype=torch.float64))),
            ("a number for a head", dict(key_scale=torch.zeros(5, 4, 3, 2), key_zero=torch.zeros(5, 4, 3, 2))),
            ("no multiple", dict(key_scale=torch.zeros(5, 4, 2, 3), key_zero=torch.zeros(5, 4, 2, 3))),
            ("contiguous", dict(key_scale=both[..., 0], key_zero=both[..., 1])),
            ("key_scale and key_zero overlap", dict(key_zero=scales[0])),
            ("overlap", dict(value_zero=zeros[0])),
            ("overlap", dict(value_zero=scales[0])),
            ("overlap", dict(key_zero=k.view(-1)[:80].view(5, 4, 2, 2))),
            ("key_cache and key_scale overlap", beside),
            ("two numbers", dict(value_zero=None, value_scale=torch.zeros(5, 4, 2, 1))),
            ("only the formats \"u8\"", dict(format="mxfp8", key_scale=torch.zeros(5, 4, 2, 2, dtype=torch.uint8))),
            ("only the formats \"u8\"", dict(format="int8", key_scale=0.5, value_scale=0.5)),
            ("only the formats \"u8\"", dict(format="u8_in_64")),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                rope_kernels.rotate_into_caches(**{**args, **change})
            kept = (*caches, *scales, *zeros, page, other, both)
            self.assertEqual(sum(t.count_nonzero().item() for t in kept), 0, message)
        with self.assertRaisesRegex(RuntimeError, "zero is given"):
            latents = torch.zeros(3, 4, 96)
            rope_kernels.move_slots(latents, slots, slots, latent=64, zero=zeros[0])

    def test_refused(self):
        k, v, cos, sin, slots = self.given()
        keys, values = torch.zeros(5, 4, 2, 64), torch.zeros(5, 4, 2, 64)
        args = dict(k=k, v=v, cos=cos, sin=sin, key_cache=keys, value_cache=values, slots=slots, layout="bshd")
        for message, error, change in (
            ("slot", RuntimeError, dict(slots=torch.tensor([9, 2, -1, 0, 20]))),
            ("slots", RuntimeError, dict(slots=slots[:4])),
            ("int64 or int32", RuntimeError, dict(slots=slots.float())),
            ("format is", ValueError, dict(format="other")),
            ("contiguous numbers", RuntimeError, dict(key_cache=torch.zeros(5, 4, 2, 32))),
            ("four dimensions", RuntimeError, dict(value_cache=torch.zeros(5, 4, 128))),
            ("heads", RuntimeError, dict(key_cache=torch.zeros(5, 4, 3, 64))),
            ("codes and blocks", RuntimeError, dict(format="e4m3")),
            ("scale", RuntimeError, dict(format="e4m3", key_cache=keys.to(torch.uint8), value_cache=values.to(torch.uint8),
                                         key_scale=0.0)),
            ("overlap", RuntimeError, dict(value_cache=keys)),
            ("overlap", RuntimeError, dict(key_cache=k.view(5, 1, 2, 64))),
            ("one type", RuntimeError, dict(v=v.half())),
            ("once", RuntimeError, dict(rounding="eager")),
            ("no gradients", RuntimeError, dict(k=k.clone().requires_grad_())),
            ("no gradients", RuntimeError, dict(formula="llama", weight=torch.ones(64, requires_grad=True))),
            ("no gradients", RuntimeError, dict(key_scale=torch.ones(2, requires_grad=True))),
        ):
            with self.assertRaisesRegex(error, message):
                rope_kernels.rotate_into_caches(**{**args, **change})
            self.assertEqual(keys.count_nonzero().item() + values.count_nonzero().item(), 0)


class Fuzzed(unittest.TestCase):
    def test_more_elements_than_memory(self):
        # Expanded tensors: one element, and any number of places that hold it.
        ops, many = torch.ops.rope_kernels, 1 << 44
        x, table = torch.ones(1, 1, 1, 8), torch.ones(1, 4)
        wide = x.expand(1, 1, many, 8)
        ids, halves = torch.zeros(1, dtype=torch.int64), table.bfloat16().expand(many, 4)
        rotation = rope_kernels.Rotation(LLAMA).config
        for call in (
            lambda: ops.rotate(x, halves, halves),
            lambda: ops.rotate(wide, halves, halves),
            lambda: ops.rotate(wide, table.expand(many, 4), table.expand(many, 4)),
            lambda: ops.rotate_at(x, table, table, ids.expand(many)),
            lambda: ops.table_gradients(wide, wide, table.expand(many, 4)),
            lambda: ops.config_rows(rotation, ids.expand(many), 16),
            lambda: ops.rotate_by_config(torch.ones(1, 1, 1, 32).expand(1, 1, many, 32), rotation, ids.expand(many)),
        ):
            with self.assertRaises(RuntimeError) as raised:
                call()
            self.assertNotIn("panicked", str(raised.exception))
        # Of such a table a few rows are not too many.
        same(self, rope_kernels.rotate(x, halves, halves, ids=ids), rope_kernels.rotate(x, table, table))

    def test_nothing_crashes(self):
        choose = random.Random(SEED)
        config = rope_kernels.Rotation(LLAMA).config
        dtypes = [torch.float32] * 4 + [torch.bfloat16, torch.float16, torch.uint8, torch.int8, torch.int64, torch.int32,
                                        torch.bool, torch.float64, torch.float8_e4m3fn]

        def tensor():
            rank = choose.choice([0, 1, 1, 2, 2, 3, 4, 4, 5])
            sizes = [choose.choice([0, 1, 2, 3, 4, 8, 32]) for _ in range(rank)]
            strides = [choose.choice([0, 1, 1, 2, 4, 8, 32]) for _ in range(rank)]
            storage = torch.ones(8192).to(choose.choice(dtypes))
            return storage.as_strided(sizes, strides, choose.choice([0, 1, 7]))

        def near(name, tokens, channels):
            """An argument that fits others of as many tokens, and heads of as many channels."""
            return {
                "config": lambda: config, "old": lambda: config, "deltas": lambda: torch.arange(tokens) - 1,
                "before": lambda: torch.arange(tokens), "after": lambda: torch.arange(tokens),
                "positions": lambda: torch.arange(tokens), "ids": lambda: torch.arange(tokens),
                "slots": lambda: torch.arange(tokens) - 1,
                "cos": lambda: torch.rand(tokens, 16), "sin": lambda: torch.rand(tokens, 16),
                "weight": lambda: torch.ones(channels), "q_weight": lambda: torch.ones(32), "k_weight": lambda: torch.ones(32),
                "key_cache": lambda: torch.zeros(2, 4, 2, 32), "value_cache": lambda: torch.zeros(2, 4, 2, 32),
                "latent": lambda: torch.ones(1, 1, tokens, 32), "key": lambda: torch.ones(1, 1, tokens, 32),
                "cache": lambda: torch.zeros(2, 4, 64), "out": lambda: torch.ones(1, 1, tokens, 64),
                "from_slots": lambda: torch.arange(tokens) - 1, "to_slots": lambda: torch.arange(tokens) + 4,
                "key_scale": lambda: torch.tensor(1.0), "value_scale": lambda: torch.tensor(1.0),
                "scale": lambda: torch.tensor(1.0), "key_zero": lambda: torch.empty(0),
                "value_zero": lambda: torch.empty(0), "zero": lambda: torch.empty(0),
            }.get(name, lambda: torch.ones(1, 2, tokens, 32))()

        names = [name for name in dir(torch.ops.rope_kernels) if not name.startswith("_")]
        schemas = {schema.name.split("::")[1]: schema for schema in torch._C._jit_get_all_schemas()
                   if schema.name.startswith("rope_kernels::")}
        self.assertGreaterEqual(len(schemas), 15, names)
        fuzzed, fit = {name: 0 for name in schemas}, {name: 0 for name in schemas}
        for _ in range(6000):
            name, schema = choose.choice(sorted(schemas.items()))
            # A quarter of the calls has nothing that does not fit, and runs.
            other, tokens, args = choose.choice([0, 0.05, 0.15, 0.3]), choose.choice([3, 3, 4, 0]), []
            for argument in schema.arguments:
                fits = choose.random() >= other
                if argument.type.kind() == "TensorType":
                    tokens_of = tokens if fits else choose.choice([0, 3, 4])
                    args.append(near(argument.name, tokens_of, 64 if "latent" in name else 32) if fits
                                or choose.random() < 0.3 else tensor())
                elif argument.type.kind() == "FloatType":
                    args.append(1.0 if fits else choose.choice([1e-6, 0.0, -2.0, float("nan"), float("inf")]))
                elif fits:
                    args.append({"pairs": 16, "latent": 32}.get(argument.name, 0))
                else:
                    args.append(choose.choice([-(1 << 63), -2, -1, 1, 2, 3, 16, 17, 48, 64, 255, (1 << 63) - 1]))
            try:
                getattr(torch.ops.rope_kernels, name)(*args)
                (fuzzed if other else fit)[name] += 1
            except RuntimeError as error:
                self.assertNotIn("panicked", str(error), f"seed {SEED}: {name}")
                self.assertNotIn("::", str(error), f"seed {SEED}: {name}")
                self.assertTrue(other, f"seed {SEED}: {name} of {tokens} tokens: {error}")
        self.assertTrue(all(fit.values()) and all(fuzzed.values()), f"seed {SEED}: {fit} {fuzzed}")


YARN = {"model_type": "llama", "hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 4096,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}


class Shifts(unittest.TestCase):
    def test_the_attention_factor_is_not_squared(self):
        torch.manual_seed(SEED)
        rotation = rope_kernels.Rotation(YARN)
        self.assertGreater(rotation.attention_factor, 1.1)
        k, before, deltas = torch.randn(1, 2, 5, 32), torch.arange(10, 15), torch.tensor([-10, -10, 3, 0, 700])
        cached = rotation.rotate(k, before)
        wanted = rotation.rotate(k, before + deltas)
        moved = rope_kernels.rotate(cached, *rotation.shift(deltas))
        self.assertLess((moved - wanted).abs().max().item(), 2e-6)
        again = rope_kernels.rotate(cached, *rotation.rows(deltas))
        self.assertGreater((again - wanted).abs().max().item(), 0.1)
        cos, sin = rotation.shift(deltas, "halves")
        self.assertEqual(cos.shape, (5, 32))
        self.assertLess((cos.square() + sin.square() - 1).abs().max().item(), 2e-7)
        same(self, rope_kernels.rotate_(cached.clone(), cos, sin, repeat="halves"), moved)

    def test_from_other_frequencies(self):
        torch.manual_seed(SEED)
        plain = rope_kernels.Rotation({key: value for key, value in YARN.items() if key != "rope_scaling"})
        yarn, k = rope_kernels.Rotation(YARN), torch.randn(1, 2, 5, 32)
        before, after = torch.arange(100, 105), torch.tensor([7, 8, 9, 2000, 2001])
        for old, new in ((plain, yarn), (yarn, plain)):
            moved = rope_kernels.rotate(old.rotate(k, before), *new.shift_from(old, before, after))
            self.assertLess((moved - new.rotate(k, after)).abs().max().item(), 4e-6)

    def test_windows_and_pairings(self):
        torch.manual_seed(SEED)
        rotation = rope_kernels.Rotation({
            "model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "hidden_size": 64,
            "num_attention_heads": 2})
        k, before = torch.randn(1, 2, 5, 24), torch.arange(5)
        cached = rotation.rotate(k, before)
        window = cached[..., rotation.window.start : rotation.window.stop]
        how = dict(pairing=rotation.output_pairing, direction=rotation.direction)
        rope_kernels.rotate_(window, *rotation.shift(torch.full((5,), 30)), **how)
        self.assertLess((cached - rotation.rotate(k, before + 30)).abs().max().item(), 2e-6)

    def test_refused(self):
        yarn, ids = rope_kernels.Rotation(YARN), torch.arange(5)
        for message, call in (
            ("both must have one position", lambda: yarn.shift_from(yarn, ids, ids[:4])),
            ("it must be int64, int32, float64 or float32", lambda: yarn.shift(ids.to(torch.int16))),
            ("one pairing, one direction and one window", lambda: yarn.shift_from(rope_kernels.Rotation(
                {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}), ids, ids)),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = mode.from_tensor(ids)
            self.assertEqual(yarn.shift(fake)[0].shape, (5, 16))


class RealPositions(unittest.TestCase):
    def test_of_dinov3(self):
        import transformers

        config = transformers.DINOv3ViTConfig(hidden_size=64, num_attention_heads=4, image_size=16, patch_size=4)
        rotation = rope_kernels.Rotation(config)
        self.assertTrue(rotation.has_real_positions)
        module = transformers.DINOv3ViTModel(config).eval().rope_embeddings
        cos, sin = module(torch.zeros(1, 3, 16, 16))
        ours = rotation.rows(coordinates(4, 4).T[:, None], "halves")
        for table, wanted in zip(ours, (cos, sin)):
            self.assertLess((table[0] - wanted).abs().max().item(), 2e-6)
        with self.assertRaisesRegex(RuntimeError, "coordinates in -1..1.*pass float32 or float64"):
            rotation.rows(torch.zeros(2, 1, 16, dtype=torch.int64))

    def test_between_integers(self):
        torch.manual_seed(SEED)
        rotation, x = rope_kernels.Rotation(LLAMA), torch.randn(1, 4, 5, 32)
        whole = torch.arange(3, 8)
        for dtype in (torch.float32, torch.float64):
            same(self, rotation.rotate(x, whole.to(dtype)), rotation.rotate(x, whole))
        with self.assertRaisesRegex(RuntimeError, r"it must be \[tokens\] or \[batch, tokens\](?!,)"):
            rotation.rows(whole[None, None])
        half = rotation.rotate(rotation.rotate(x, whole + 0.5), torch.full((5,), -0.5))
        self.assertLess((half - rotation.rotate(x, whole)).abs().max().item(), 2e-6)
        for bad in (float("nan"), float("inf")):
            with self.assertRaises(RuntimeError):
                rotation.rotate(x, torch.full((5,), bad))


def coordinates(rows, columns):
    """DINOv3's: the middle of each patch, in -1..1."""
    axes = [2 * (torch.arange(n, dtype=torch.float64) + 0.5) / n - 1 for n in (rows, columns)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, 1)


class Module(unittest.TestCase):
    def test_the_bits_of_a_rotation(self):
        torch.manual_seed(SEED)
        q, k, positions = torch.randn(2, 4, 5, 32), torch.randn(2, 2, 5, 32), torch.tensor([[0, 1, 2, 3, 4], [9, 8, 63, 1, 0]])
        module, rotation = rope_kernels.RotaryEmbedding(LLAMA, 64), rope_kernels.Rotation(LLAMA)
        for x, y in zip(module(q, k, positions), (q, k)):
            same(self, x, rotation.rotate(y, positions))
        self.assertEqual((list(module.state_dict()), module.cos.shape), ([], (64, 16)))
        # The rows keep their type in a 16-bit model.
        short = rope_kernels.RotaryEmbedding(LLAMA, 64).to(torch.bfloat16)
        self.assertEqual(short.cos.dtype, torch.float32)
        same(self, short.cos, module.cos)
        same(self, short(q.bfloat16(), k.bfloat16(), positions)[0], rotation.rotate(q.bfloat16(), positions))
        self.assertEqual(module.to("meta")(q.to("meta"), k.to("meta"), positions.to("meta"))[1].shape, k.shape)
        # Where tensors without data get memory, which nothing fills, the rows are made again.
        with torch.device("meta"):
            made_there = rope_kernels.RotaryEmbedding(LLAMA, 64)
        for empty in (module, made_there):
            same(self, empty.to_empty(device="cpu")(q, k, positions)[0], rotation.rotate(q, positions))
        deepseek = {"model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "hidden_size": 64,
                    "num_attention_heads": 2}
        module, x = rope_kernels.RotaryEmbedding(deepseek, 10, layout="bshd"), torch.randn(1, 5, 2, 24)
        for y in module(x, x, torch.arange(5)):
            same(self, y, rope_kernels.Rotation(deepseek).rotate(x, torch.arange(5), layout="bshd"))
        with self.assertRaisesRegex(RuntimeError, "64"):
            rope_kernels.RotaryEmbedding(LLAMA, 64)(q, k, torch.arange(60, 65))
        for length in (-1, 1.5, "64"):
            with self.assertRaisesRegex(ValueError, f"length is {length!r}; it must be"):
                rope_kernels.RotaryEmbedding(LLAMA, length)


class Complex(unittest.TestCase):
    def test_rows_in_place_of_cos_and_sin(self):
        torch.manual_seed(SEED)
        x, angle = torch.randn(2, 3, 5, 16), torch.randn(5, 8)
        rows = torch.polar(torch.ones(5, 8), angle)
        product = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (8, 2))) * rows).flatten(-2)
        same(self, rope_kernels.rotate(x, rows), product)
        same(self, rope_kernels.rotate_(x.clone(), rows), product)
        for y in (*rope_kernels.rotate_qk(x, x, rows), *rope_kernels.rotate_qk_(x.clone(), x.clone(), rows)):
            same(self, y, product)
        same(self, rope_kernels.rotate(x, rows, pairing="half"), rope_kernels.rotate(x, rows.real, rows.imag))
        cos, sin = rows.real, rows.imag
        for message, call in (
            ("complex rows have each value once", lambda: rope_kernels.rotate(x, rows, repeat="halves")),
            ("x is complex; the kernels rotate real", lambda: rope_kernels.rotate(torch.view_as_complex(x.unflatten(-1, (8, 2))), cos, sin)),
            ("cos is a ndarray; it must be a tensor", lambda: rope_kernels.rotate(x, cos.numpy(), sin.numpy())),
            ("sin is missing", lambda: rope_kernels.rotate(x, cos)),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()
