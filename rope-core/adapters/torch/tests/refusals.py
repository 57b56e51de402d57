"""Refusals before a call writes: tensors that autograd protects, other devices, rows of another form. And the versions
of written tensors."""

import os
import subprocess
import sys
import unittest

import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import rope_kernels
from support import SEED, same

LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4}


def given(dtype=torch.float32):
    torch.manual_seed(SEED)
    angle = torch.randn(5, 4)
    return torch.randn(1, 2, 5, 8).to(dtype), angle.cos().to(dtype), angle.sin().to(dtype)


def leaf(dtype):
    x = torch.randn(1, 2, 5, 8, dtype=dtype, requires_grad=True)
    return x, x


def view_of_a_leaf(dtype):
    x = torch.randn(3, 1, 2, 5, 8, dtype=dtype, requires_grad=True)
    return x, x[1]


def output_of_unbind(dtype):
    x = torch.randn(3, 1, 2, 5, 8, dtype=dtype, requires_grad=True) * 1
    return x, x.unbind()[1]


def output_of_split(dtype):
    x = torch.randn(3, 2, 5, 8, dtype=dtype, requires_grad=True) * 1
    return x, x.split(1)[1]


def view_made_without_gradients(dtype):
    x = torch.randn(3, 1, 2, 5, 8, dtype=dtype, requires_grad=True) * 1
    with torch.no_grad():
        view = x[1]
    return x, view.requires_grad_()


PROTECTED = (leaf, view_of_a_leaf, output_of_unbind, output_of_split, view_made_without_gradients)


class Written(unittest.TestCase):
    def refuses(self, memory, call, message="requires a gradient"):
        before = [x.detach().clone() for x in memory]
        with self.assertRaisesRegex(RuntimeError, message):
            call()
        for x, old in zip(memory, before):
            self.assertTrue(torch.equal(x.detach(), old), "touched")

    def test_a_refused_call_writes_nothing(self):
        rotation = rope_kernels.Rotation(LLAMA)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            _, cos, sin = given(torch.float32 if dtype == torch.float64 else dtype)
            cos, sin = (t.to(dtype) for t in (cos, sin)) if dtype == torch.float64 else (cos, sin)
            for made in PROTECTED:
                with self.subTest(f"{made.__name__} {dtype}"):
                    base, x = made(dtype)
                    self.refuses([base], lambda: rope_kernels.rotate_(x, cos, sin))
                    self.refuses([base], lambda: rotation.rotate_(x, torch.arange(5)), "leaf|gradient|multiple views|view")
                    q = torch.randn(1, 4, 5, 8, dtype=dtype)
                    for fine in (q, q.clone().requires_grad_() * 1):
                        self.refuses([fine, base], lambda: rope_kernels.rotate_qk_(fine, x, cos, sin))
                        self.refuses([fine, base], lambda: rope_kernels.rotate_qk_(x, fine, cos, sin))
                        table, ids = torch.cat((cos, cos)), torch.arange(5)
                        self.refuses([fine, base], lambda: rope_kernels.rotate_qk_(fine, x, table, table, ids=ids))
                        with forward_ad.dual_level():
                            self.refuses([fine, base], lambda: rope_kernels.rotate_qk_(fine, x, cos, sin))
                    # Without gradients nothing is protected.
                    with torch.no_grad():
                        wanted = rope_kernels.rotate(x, cos, sin)
                        self.assertTrue(torch.equal(rope_kernels.rotate_(x, cos, sin), wanted))

    def test_tensors_of_inference(self):
        for dtype in (torch.float32, torch.float64):
            fine, cos, sin = given(dtype)
            with torch.inference_mode():
                x = torch.randn(1, 2, 5, 8, dtype=dtype)
                before = x.clone()
                rope_kernels.rotate_(x, cos, sin)
                self.assertFalse(torch.equal(x, before))
            message = "inference_mode|inference tensor"
            self.refuses([x], lambda: rope_kernels.rotate_(x, cos, sin), message)
            self.refuses([fine, x], lambda: rope_kernels.rotate_qk_(fine, x, cos, sin), message)
            needs = fine.clone().requires_grad_() * 1
            self.refuses([needs, x], lambda: rope_kernels.rotate_qk_(needs, x, cos, sin), message)
        self.operators_refuse()

    def operators_refuse(self):
        ops, (fine, cos, sin) = torch.ops.rope_kernels, given()
        weight, scale = torch.ones(8), torch.tensor(1.0)
        with torch.inference_mode():
            x, cache, made = torch.randn(1, 2, 5, 8), torch.zeros(3, 4, 2, 8), torch.ones(3, 4, 2)
            codes, latents = torch.zeros(3, 4, 2, 8, dtype=torch.int8), torch.zeros(3, 4, 16)
            bytes, zeros = torch.zeros(3, 4, 2, 8, dtype=torch.uint8), torch.ones(3, 4, 2, 1)
        none, heads, ids = torch.empty(2, 0), torch.randn(5, 2, 8), torch.arange(5)
        config = rope_kernels.Rotation(LLAMA).config
        into = dict(eps=1e-6, plan=rope_kernels.plan(layout="bshd"))
        for memory, call in (
            ([x], lambda: ops.rotate_(x, cos, sin)),
            ([fine, x], lambda: ops.rotate_qk_(fine, x, cos, sin)),
            ([x, fine], lambda: ops.rotate_qk_(x, fine, cos, sin)),
            ([x], lambda: ops.rotate_at_(x, cos, sin, ids)),
            ([fine, x], lambda: ops.rotate_qk_at_(fine, x, cos, sin, ids)),
            ([x], lambda: ops.rotate_by_config_(x, config, ids)),
            ([fine, x], lambda: ops.norm_rotate_qk_(fine, x, weight, weight, cos, sin, 1e-6)),
            ([cache], lambda: ops.rotate_into_caches(heads, heads.clone(), cos, sin, torch.zeros(3, 4, 2, 8), cache, scale,
                                                     scale.clone(), *none, ids, weight, **into)),
            ([codes, made], lambda: ops.rotate_into_caches(
                heads, heads.clone(), cos, sin, torch.zeros_like(codes), torch.zeros_like(codes), torch.ones(3, 4, 2),
                made, *none, ids, weight, format=2, **into)),
            ([bytes, zeros], lambda: ops.rotate_into_caches(
                heads, heads.clone(), cos, sin, torch.zeros_like(bytes), torch.zeros_like(bytes), torch.ones(3, 4, 2, 1),
                torch.ones(3, 4, 2, 1), torch.ones(3, 4, 2, 1), zeros, ids, weight, format=35, **into)),
            ([latents], lambda: ops.rotate_into_latent_cache(
                heads[:, :1], heads[:, 1:], cos, sin, latents, ids, weight[:0], **into)),
        ):
            self.refuses(memory, call, "of torch.inference_mode\\(\\), which nothing may write outside")

    def versions_are_counted(self):
        ops, (x, cos, sin) = torch.ops.rope_kernels, given()
        weight, ids, config = torch.ones(8), torch.arange(5), rope_kernels.Rotation(LLAMA).config
        for name, call in (
            ("rotate_", lambda y: ops.rotate_(y, cos, sin)),
            ("rotate_qk_", lambda y: ops.rotate_qk_(x.clone(), y, cos, sin)),
            ("rotate_qk_, q", lambda y: ops.rotate_qk_(y, x.clone(), cos, sin)),
            ("rotate_at_", lambda y: ops.rotate_at_(y, cos, sin, ids)),
            ("rotate_qk_at_", lambda y: ops.rotate_qk_at_(x.clone(), y, cos, sin, ids)),
            ("rotate_by_config_", lambda y: ops.rotate_by_config_(y, config, ids)),
            ("norm_rotate_qk_", lambda y: ops.norm_rotate_qk_(x.clone(), y, weight, weight, cos, sin, 1e-6)),
            ("rope_kernels.rotate_", lambda y: rope_kernels.rotate_(y, cos, sin)),
            ("rope_kernels.rotate_qk_", lambda y: rope_kernels.rotate_qk_(x.clone(), y, cos, sin)),
        ):
            needs = torch.randn(1, 2, 5, 8, requires_grad=True)
            saved = x.clone()
            product = needs * saved
            version = saved._version
            call(saved)
            self.assertGreater(saved._version, version, name)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation", msg=name):
                product.sum().backward()
            # Nothing that was refused counts.
            version = saved._version
            with self.assertRaises(RuntimeError):
                ops.rotate_(saved, cos[:3], sin[:3])
            self.assertEqual(saved._version, version)
        heads, caches = torch.randn(5, 2, 8), [torch.zeros(3, 4, 2, 8, dtype=torch.int8) for _ in range(2)]
        scales = [torch.ones(3, 4, 2) for _ in range(2)]
        versions = [t._version for t in caches + scales]
        rope_kernels.rotate_into_caches(heads, heads.clone(), cos, sin, *caches, ids, format="int8", layout="bshd",
                                        key_scale=scales[0], value_scale=scales[1])
        for tensor, version in zip(caches + scales, versions):
            self.assertGreater(tensor._version, version)
        caches = [torch.zeros(3, 4, 2, 8, dtype=torch.uint8) for _ in range(2)]
        scale, zero, *others = (torch.ones(3, 4, 2, 1) for _ in range(4))
        rope_kernels.rotate_into_caches(heads, heads.clone(), cos, sin, *caches, ids, format="u8", layout="bshd",
                                        key_scale=scale, key_zero=zero, value_scale=others[0], value_zero=others[1])
        versions = [t._version for t in (caches[0], scale, zero)]
        self.assertTrue(all(version > 0 for version in versions), versions)
        rope_kernels.rotate_cache_(caches[0], ids, cos, sin, format="u8", scale=scale, zero=zero)
        for tensor, version in zip((caches[0], scale, zero), versions):
            self.assertGreater(tensor._version, version)

    def test_versions(self):
        self.versions_are_counted()

    def test_by_the_stable_interface_alone(self):
        script = "import refusals; t = refusals.Written(); t.versions_are_counted(); t.operators_refuse(); print('both')"
        run = subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"ROPE_KERNELS_STABLE": "1"}, text=True,
            capture_output=True, cwd=os.path.dirname(os.path.abspath(__file__)))  # fmt: skip
        self.assertIn("both", run.stdout, run.stderr[-2000:])


class Devices(unittest.TestCase):
    def test_several(self):
        x, cos, sin = given()
        k, ids = torch.randn(1, 1, 5, 8), torch.arange(5)
        away = lambda t: t.to("meta")  # noqa: E731
        for call in (
            lambda: rope_kernels.rotate(x, away(cos), sin),
            lambda: rope_kernels.rotate(x, cos, away(sin)),
            lambda: rope_kernels.rotate(x, away(cos), away(sin)),
            lambda: rope_kernels.rotate(away(x), cos, sin),
            lambda: rope_kernels.rotate(x.double(), away(cos).double(), away(sin).double()),
            lambda: rope_kernels.rotate_(x, away(cos), away(sin)),
            lambda: rope_kernels.rotate(x, cos, sin, ids=away(ids)),
            lambda: rope_kernels.rotate_(x, cos, sin, ids=away(ids)),
            lambda: rope_kernels.rotate_qk(x, away(k), cos, sin),
            lambda: rope_kernels.rotate_qk(away(x), k, away(cos), away(sin)),
            lambda: rope_kernels.rotate_qk_(x, away(k), cos, sin),
            lambda: rope_kernels.rotate_qk_(x, k, cos, sin, ids=away(ids)),
            lambda: rope_kernels.rotate(x.clone().requires_grad_(), away(cos), away(sin)),
            lambda: rope_kernels.Rotation(LLAMA).rotate(x, away(ids)),
            lambda: rope_kernels.Rotation(LLAMA).rotate_(x, away(ids)),
            lambda: rope_kernels.norm_rotate_qk_(x, away(k), None, None, cos, sin),
            lambda: torch.ops.rope_kernels.check_qk(x, away(k), cos, sin),
            lambda: torch.ops.rope_kernels.table_gradients(x, away(x), cos),
        ):
            before = x.clone()
            with self.assertRaisesRegex(RuntimeError, "one device|[Ee]xpected.* device"):
                call()
            same(self, x, before)
        # On one device without data only shapes are known.
        self.assertEqual(rope_kernels.rotate(away(x), away(cos), away(sin)).device.type, "meta")


class Rows(unittest.TestCase):
    def test_of_transformers_without_repeat(self):
        torch.manual_seed(SEED)
        x, angle = torch.randn(1, 2, 5, 128), torch.randn(5, 32)
        for repeat, twice in (("halves", lambda t: torch.cat((t, t), -1)), ("pairs", lambda t: t.repeat_interleave(2, -1))):
            for dtype in (torch.float32, torch.bfloat16):
                cos, sin = twice(angle.cos()).to(dtype), twice(angle.sin()).to(dtype)
                wanted = rope_kernels.rotate(x, cos, sin, repeat=repeat)
                for call in (
                    lambda **how: rope_kernels.rotate(x, cos, sin, **how),
                    lambda **how: rope_kernels.rotate(x.double(), cos.double(), sin.double(), **how),
                    lambda **how: rope_kernels.rotate_qk(x, x, cos, sin, **how)[0],
                    lambda **how: rope_kernels.rotate_(x.clone(), cos, sin, **how),
                    lambda **how: rope_kernels.rotate(x, cos, sin, ids=torch.arange(5), **how),
                    lambda **how: rope_kernels.rotate(x.clone().requires_grad_(), cos, sin, **how),
                    lambda **how: rope_kernels.norm_rotate_qk_(x.clone(), x.clone(), None, None, cos, sin, **how),
                ):
                    with self.assertRaisesRegex(RuntimeError, f'pass repeat="{repeat}", or repeat="none"'):
                        call()
                    call(repeat=repeat)
                    call(repeat="none")
                same(self, rope_kernels.rotate_(x.clone(), cos, sin, repeat=repeat), wanted)
                # A position 0 decides nothing; the others do.
                cos[0], sin[0] = 1.0, 0.0
                with self.assertRaisesRegex(RuntimeError, f'repeat="{repeat}"'):
                    rope_kernels.rotate(x, cos, sin)
                rope_kernels.rotate(x[:, :, :1], cos[:1], sin[:1])
                # Of the whole head, the error names the way out.
                with self.assertRaisesRegex(RuntimeError, 'exceeds head_dim.*repeat="halves" or "pairs"'):
                    rope_kernels.rotate(x[..., :64], cos, sin, repeat="none")
                with self.assertRaisesRegex(RuntimeError, f'repeat="{repeat}"'):
                    rope_kernels.rotate(x[..., :64], cos, sin)
        # Positions of two axes that are equal for one token: other rows differ.
        rows = torch.cat((angle, angle.flip(0)), -1)
        rope_kernels.rotate(x, rows.cos(), rows.sin())

    def test_batches(self):
        torch.manual_seed(SEED)
        angle = torch.randn(3, 5, 4)
        q, k = torch.randn(1, 2, 5, 8), torch.randn(1, 1, 5, 8)
        for cos, sin in ((angle.cos(), angle.sin()), (angle[:1].cos().expand(3, 5, 4), angle[:1].sin().expand(3, 5, 4))):
            for x in (q, q.double()):
                rows = [t.to(x.dtype) for t in (cos, sin)]
                with self.assertRaisesRegex(RuntimeError, r"cos is \[3, 5, 4\]|must be 5"):
                    rope_kernels.rotate(x, *rows)
                with self.assertRaisesRegex(RuntimeError, r"cos is \[3, 5, 4\]|must be 5"):
                    rope_kernels.rotate_qk(x, k.to(x.dtype), *rows)
                with self.assertRaisesRegex(RuntimeError, r"cos is \[3, 5, 4\]|must be 5"):
                    rope_kernels.rotate_(x, *rows)
                # The way out.
                wanted = torch.cat([rope_kernels.rotate(x, rows[0][i], rows[1][i]) for i in range(3)])
                self.assertTrue(torch.equal(rope_kernels.rotate(x.expand(3, 2, 5, 8), *rows), wanted))


class Arguments(unittest.TestCase):
    """What is no tensor, or one that no operator takes, is refused by its name, by each function."""

    def test_by_name(self):
        x, cos, sin = given()
        k, ids, weight = torch.randn(1, 1, 5, 8), torch.arange(5), torch.ones(8)
        cache, latents = torch.zeros(3, 4, 2, 8), torch.zeros(3, 4, 12)
        rotation, module = rope_kernels.Rotation(LLAMA), rope_kernels.RotaryEmbedding(LLAMA, 64)
        calls = (
            (rope_kernels.rotate, dict(x=x, cos=cos, sin=sin, ids=ids)),
            (rope_kernels.rotate_, dict(x=x.clone(), cos=cos, sin=sin, ids=ids)),
            (rope_kernels.rotate_qk, dict(q=x, k=k, cos=cos, sin=sin, ids=ids)),
            (rope_kernels.rotate_qk_, dict(q=x.clone(), k=k.clone(), cos=cos, sin=sin, ids=ids)),
            (rope_kernels.norm_rotate_qk_, dict(q=x.clone(), k=k.clone(), q_weight=weight, k_weight=weight, cos=cos,
                                                sin=sin)),
            (rope_kernels.rotate_into_caches, dict(k=x, v=x.clone(), cos=cos, sin=sin, key_cache=cache,
                                                   value_cache=cache.clone(), slots=ids)),
            (rope_kernels.rotate_into_latent_cache, dict(latent=torch.randn(1, 1, 5, 4), key=k, cos=cos, sin=sin,
                                                         cache=latents, slots=ids)),
            (rotation.rotate, dict(x=x, positions=ids)),
            (rotation.rotate_, dict(x=x.clone(), positions=ids)),
            (rotation.rows, dict(positions=ids)),
            (rotation.shift, dict(deltas=ids)),
            (lambda **how: rotation.shift_from(rotation, **how), dict(before=ids, after=ids)),
        )
        wrong = (
            (lambda t: t.numpy(), "is a ndarray; it must be a tensor"),
            (lambda t: t.tolist(), "is a list; it must be a tensor"),
            (lambda t: t.to_sparse(), "has the layout torch.sparse_coo"),
            (lambda t: torch.quantize_per_tensor(t.float(), 0.1, 0, torch.qint8), "is quantized"),
        )
        for call, arguments in calls:
            call(**arguments)
            for name, (other, message) in ((name, each) for name in arguments for each in wrong):
                with self.subTest(f"{call} {name} {message}"), self.assertRaisesRegex(TypeError, f"^{name} {message}"):
                    call(**arguments | {name: other(arguments[name])})
        for message, call in (
            ("old is a int; it must be a Rotation", lambda: rotation.shift_from(3, ids, ids)),
            ("cos is complex; pass complex rows alone", lambda: rope_kernels.rotate(x, torch.complex(cos, sin), sin)),
            ("ids is a list", lambda: module(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), [0, 1, 2, 3, 4])),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()
        with self.assertRaisesRegex(ValueError, "pairing is \\['half'\\]; it must be one of half, interleaved"):
            rope_kernels.rotate(x, cos, sin, pairing=["half"])


class Fakes(unittest.TestCase):
    def test_shapes_that_are_refused(self):
        ops, bits = torch.ops.rope_kernels, rope_kernels.plan
        x, cos, sin = torch.ones(2, 4, 5, 8), torch.ones(5, 4), torch.zeros(5, 4)
        ids, config = torch.zeros(5, dtype=torch.int64), rope_kernels.Rotation(LLAMA).config
        calls = [
            (ops.rotate, (x, cos[:4], sin[:4])),
            (ops.rotate, (x, cos, sin[:4])),
            (ops.rotate, (x, torch.ones(5, 5), torch.ones(5, 5))),
            (ops.rotate, (x[0, 0], cos, sin)),
            (ops.rotate, (x[None], cos, sin)),
            (ops.rotate, (x.double(), cos, sin)),
            (ops.rotate, (x.long(), cos, sin)),
            (ops.rotate, (x, cos[0], sin[0])),
            (ops.rotate, (x, torch.ones(3, 5, 4), torch.ones(3, 5, 4))),
            (ops.rotate, (x, torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))),
            (ops.rotate, (x, torch.ones(5, 7), torch.ones(5, 7), bits(repeat="halves"))),
            (ops.rotate, (x.bfloat16(), cos, sin, bits(rounding="eager"))),
            (ops.rotate_, (x, cos, sin, bits(output_pairing="interleaved"))),
            (ops.rotate_qk, (x, x[:, :1, :4], cos, sin)),
            (ops.rotate_qk_, (x, x[:, :1, :4].clone(), cos, sin)),
            (ops.rotate_at, (x, cos, sin, ids[:4])),
            (ops.rotate_at, (x, cos, sin, ids.float())),
            (ops.rotate_at, (x, torch.ones(2, 5, 4), torch.ones(2, 5, 4), ids)),
            (ops.rotate_qk_at_, (x, x[:, :1, :4].clone(), cos, sin, ids)),
            (ops.rotate_by_config, (x, config, ids[:4])),
            (ops.rotate_by_config, (x, config, ids.bool())),
            (ops.rotate, (x, torch.ones(5, 0), torch.ones(5, 0))),
            (ops.rotate, (x, torch.ones(5, 0), torch.ones(5, 0), bits(repeat="halves"))),
            (ops.config_rows, (config, ids.bool(), 4)),
            (ops.config_rows, (config, ids.reshape(1, 1, 1, 5), 4)),
            (ops.config_shift, (config, ids.bfloat16(), 4)),
            (ops.config_shift_from, (config, config, ids, ids.half(), 4)),
        ]
        accepted = [
            (ops.rotate, (x, cos, sin)),
            (ops.rotate, (x, torch.ones(10, 4), torch.ones(10, 4))),
            (ops.rotate, (x, torch.ones(2, 5, 4), torch.ones(2, 5, 4))),
            (ops.rotate, (x, torch.ones(2, 4, 5, 4), torch.ones(2, 4, 5, 4))),
            (ops.rotate, (x, torch.ones(1, 1, 5, 4), torch.ones(1, 1, 5, 4))),
            (ops.rotate, (x.transpose(1, 2), torch.ones(2, 5, 1, 4), torch.ones(2, 5, 1, 4), bits(layout="bshd"))),
            (ops.rotate_at, (x, cos, sin, ids.repeat(2))),
            (ops.rotate_at, (x, cos, sin, torch.zeros(2, 5, dtype=torch.int32))),
        ]
        for wanted, which in ((RuntimeError, calls), (None, accepted)):
            for op, args in which:
                what = f"{op} {[list(a.shape) if hasattr(a, 'shape') else a for a in args]}"
                with FakeTensorMode() as mode:
                    fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
                    metas = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in fakes]
                for arguments in (args, fakes, args if any(a is config for a in args) else metas):
                    if wanted is None:
                        op(*arguments)
                        continue
                    with self.assertRaises(wanted, msg=what):
                        op(*arguments)
