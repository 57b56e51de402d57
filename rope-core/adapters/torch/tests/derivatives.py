"""Derivatives forward and of every order, the transformations of torch.func, and float64."""

import functools
import itertools
import os
import pathlib
import subprocess
import sys
import unittest
import warnings

import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap

import rope_kernels
from support import SEED, eager, same

CONFIG = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2}
DEEPSEEK = {"model_type": "deepseek_v3", "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "hidden_size": 64,
            "num_attention_heads": 2}


def twice(table, repeat):
    return {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1),
            "pairs": lambda t: t.repeat_interleave(2, -1)}[repeat](table)


def tensors(*shape, pairs=4, dtype=torch.float32):
    x, angle = torch.randn(*shape, 8).to(dtype), torch.randn(shape[-1], pairs, dtype=torch.float64)
    return x, angle.cos().to(dtype), angle.sin().to(dtype)


def scripted(x):
    rows = torch.ones(x.size(-2), x.size(-1) // 2)
    return torch.ops.rope_kernels.rotate(x, rows, rows, 0, 1.0)


class Float64(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)

    def test_the_bits_of_the_formula(self):
        for pairing, layout, repeat in itertools.product(
                ("half", "interleaved"), ("bhsd", "bshd"), ("none", "halves", "pairs")):
            x, cos, sin = tensors(2, 3, 5, dtype=torch.float64, pairs=3)
            how = dict(pairing=pairing, layout=layout, repeat=repeat)
            if layout == "bshd":
                x = x.transpose(1, 2)
            full = [twice(t, "halves" if pairing == "half" else "pairs").unsqueeze(0 if layout == "bhsd" else 1)
                    for t in (cos, sin)]
            wanted = eager(x, *full, pairing)
            rows, ids = [twice(t, repeat) for t in (cos, sin)], torch.arange(5)
            for by in ({}, {"ids": ids}):
                ours = rope_kernels.rotate(x, *rows, **how, **by)
                self.assertTrue(torch.equal(ours, wanted) and ours.dtype == torch.float64, how)
                target = x.clone()
                self.assertIs(rope_kernels.rotate_(target, *rows, **how, **by), target)
                self.assertTrue(torch.equal(target, wanted))
                q, k = rope_kernels.rotate_qk_(x.clone(), x.flip(0), *rows, **how, **by)
                self.assertTrue(torch.equal(q, wanted) and torch.equal(k, wanted.flip(0)))
            back = rope_kernels.rotate(wanted, *rows, direction="inverse", **how)
            self.assertLess((back - x).abs().max().item(), 1e-12)
        rotation, positions = rope_kernels.Rotation(CONFIG), torch.tensor([3, 70, 9, 4, 11])
        x = torch.randn(1, 2, 5, 8, dtype=torch.float64)
        wanted = rope_kernels.rotate(x, *rotation.rows(positions))
        self.assertTrue(torch.equal(rotation.rotate(x, positions), wanted))
        self.assertTrue(torch.equal(rotation.rotate_(x, positions), wanted))

    def test_refused_as_others(self):
        x, cos, sin = tensors(1, 2, 5, dtype=torch.float64)
        for call in (rope_kernels.rotate, rope_kernels.rotate_):
            for message, args, how in (
                ("number of rows is 4", (x, cos[:4], sin[:4]), {}),
                ("each value twice", (x, torch.rand(5, 8), torch.rand(5, 8)), dict(repeat="halves")),
                ("magnitude", (x, 2 * cos, sin), dict(direction="inverse")),
                ("position id -1", (x, cos, sin), dict(ids=torch.tensor([0, 1, 2, 3, -1]))),
            ):
                before = x.clone()
                with self.assertRaisesRegex(RuntimeError, message):
                    call(*args, **how)
                self.assertTrue(torch.equal(x, before))
        with self.assertRaisesRegex(RuntimeError, "use rotate"):
            rope_kernels.rotate_(x, cos, sin, output_pairing="interleaved")
        with self.assertRaisesRegex(RuntimeError, "in common"):
            rope_kernels.rotate_qk_(x, x[:, 1:], cos, sin)
        with self.assertRaisesRegex(RuntimeError, "another than pairing|use rotate"):
            rope_kernels.Rotation(DEEPSEEK).rotate_(torch.ones(1, 2, 5, 8, dtype=torch.float64), torch.arange(5))


class Numerical(unittest.TestCase):
    """Every function against differences in float64: backward, forward, both of one another, in batches."""

    def check(self, function, *arguments):
        arguments = [x.detach().double().requires_grad_() for x in arguments]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(gradcheck(function, arguments, check_forward_ad=True, check_batched_grad=True,
                                      check_batched_forward_grad=True))
            self.assertTrue(gradgradcheck(function, arguments, check_fwd_over_rev=True, check_rev_over_rev=True,
                                          check_batched_grad=True))

    def setUp(self):
        torch.manual_seed(SEED)

    def test_by_rows(self):
        choices = itertools.product(
            ("half", "interleaved"), (None, "half", "interleaved"), ("forward", "transpose"), ("bhsd", "bshd"))
        for pairing, output, direction, layout in choices:
            how = dict(pairing=pairing, output_pairing=output, direction=direction, layout=layout)
            with self.subTest(str(how)):
                tables = torch.randn(2, 2, 2)
                self.check(functools.partial(rope_kernels.rotate, **how), torch.randn(1, 2, 2, 5), *tables)

    def test_tables(self):
        # Of each sequence, of each head, repeated, by ids that name a row twice.
        for shape in ((2, 2, 2), (1, 2, 2, 2), (2, 2, 2, 2)):
            tables, x = torch.randn(2, *shape), torch.randn(2, 2, 2, 4)
            with self.subTest(str(shape)):
                self.check(rope_kernels.rotate, x, *tables)
        for repeat in ("halves", "pairs"):
            with self.subTest(repeat):
                self.check(lambda x, cos, sin: rope_kernels.rotate(x, twice(cos, repeat), twice(sin, repeat), repeat=repeat),
                           torch.randn(1, 1, 2, 4), *torch.randn(2, 2, 2))
        for ids in (torch.tensor([2, 0, 2]), torch.tensor([[2, 0, 2], [1, 1, 0]])):
            with self.subTest(str(ids)):
                self.check(lambda x, cos, sin: rope_kernels.rotate(x, cos, sin, ids=ids),
                           torch.randn(2, 1, 3, 4), *torch.randn(2, 3, 2))

    def test_queries_and_keys(self):
        self.check(rope_kernels.rotate_qk, torch.randn(1, 2, 2, 4), torch.randn(1, 1, 2, 4), *torch.randn(2, 2, 2))

    def test_in_place(self):
        cos, sin = torch.randn(2, 3, 2)
        ids = torch.tensor([2, 0])
        for rows in ((cos[:2], sin[:2], {}), (cos, sin, {"ids": ids})):
            cos, sin, how = rows
            self.check(lambda x: rope_kernels.rotate_(1 * x, cos, sin, **how), torch.randn(1, 2, 2, 4))
            self.check(lambda q, k: rope_kernels.rotate_qk_(1 * q, 1 * k, cos, sin, **how),
                       torch.randn(1, 2, 2, 4), torch.randn(1, 1, 2, 4))

    def test_of_an_inverse(self):
        angle = torch.randn(2, 2)
        rows = 1.25 * angle.double().cos(), 1.25 * angle.double().sin()
        how = dict(direction="inverse", attention_factor=1.25)
        self.check(lambda x: rope_kernels.rotate(x, *rows, **how), torch.randn(1, 2, 2, 4))
        # Of rows at the angle, whose magnitude stays.
        self.check(lambda x, angle: rope_kernels.rotate(x, 1.25 * angle.cos(), 1.25 * angle.sin(), **how),
                   torch.randn(1, 1, 2, 4), angle)

    def test_of_a_model(self):
        positions = torch.arange(7, 9)
        for config in (CONFIG, DEEPSEEK):
            rotation = rope_kernels.Rotation(config)
            self.check(lambda x: rotation.rotate(x, positions), torch.randn(1, 2, 2, 8))
        rotation = rope_kernels.Rotation(CONFIG)
        self.check(lambda x: rotation.rotate_(1 * x, positions), torch.randn(1, 2, 2, 8))

    def test_frequencies_and_positions(self):
        x, positions, frequencies = torch.randn(1, 2, 3, 4), torch.tensor([0.5, 2.0, 3.0]), torch.rand(2)

        def rotate(x, positions, frequencies):
            angle = positions[:, None] * frequencies
            return rope_kernels.rotate(x, angle.cos(), angle.sin())

        self.check(rotate, x, positions, frequencies)


class Forward(unittest.TestCase):
    """A tangent is rotated as the tensor is: its bits are those of a rotation, in every type."""

    def setUp(self):
        torch.manual_seed(SEED)

    def test_of_the_tensor(self):
        rotation, positions = rope_kernels.Rotation(CONFIG), torch.arange(70, 75)
        for dtype, rounding in itertools.product((torch.float32, torch.bfloat16, torch.float16), ("once", "eager")):
            x, cos, sin = tensors(2, 3, 5, dtype=dtype)
            tangent = torch.randn(x.shape).to(dtype)
            how = dict(rounding=rounding)
            by_ids = dict(ids=torch.tensor([4, 3, 3, 2, 0]), **how)
            for function in (
                lambda x: rope_kernels.rotate(x, cos, sin, **how),
                lambda x: rope_kernels.rotate(x, cos, sin, **by_ids),
                lambda x: rope_kernels.rotate_(1 * x, cos, sin, **how),
                lambda x: rope_kernels.rotate_(1 * x, cos, sin, **by_ids),
                lambda x: rope_kernels.rotate_qk(x, x[:, :1], cos, sin, **how)[0],
                lambda x: rope_kernels.rotate_qk(x[:, :1], x, cos, sin, **by_ids)[1],
                lambda x: rope_kernels.rotate_qk_(1 * x, x[:, :1] * 1, cos, sin, **how)[0],
                lambda x: rotation.rotate(x, positions),
                lambda x: rotation.rotate_(1 * x, positions),
                lambda x: torch.ops.rope_kernels.rotate(x, cos, sin),
                lambda x: torch.ops.rope_kernels.rotate_qk_at(x, x, cos, sin, by_ids["ids"])[1],
            ):
                wanted = function(x), function(tangent)
                for ours, expected in zip(jvp(function, (x,), (tangent,)), wanted):
                    same(self, ours, expected)
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x.clone(), tangent.clone())
                for y in (rope_kernels.rotate(dual, cos, sin, **how), rope_kernels.rotate_(dual, cos, sin, **how)):
                    for ours, given in zip(forward_ad.unpack_dual(y), (x, tangent)):
                        same(self, ours, rope_kernels.rotate(given, cos, sin, **how))

    def test_of_everything(self):
        x, cos, sin = (t.double() for t in tensors(2, 3, 5, pairs=3))
        tangents = [torch.randn_like(t) for t in (x, cos, sin)]
        ours = jvp(lambda *given: rope_kernels.rotate(*given, repeat="none"), (x, cos, sin), tuple(tangents))
        wanted = jvp(lambda x, cos, sin: eager(x, twice(cos, "halves"), twice(sin, "halves"), "half"),
                     (x, cos, sin), tuple(tangents))
        for y, expected in zip(ours, wanted):
            self.assertLess((y - expected).abs().max().item(), 1e-12)
        # In f32, where the kernels rotate, the same to rounding; channels that pass have the tangent they had.
        narrow = [t.float() for t in (x, cos, sin)], [t.float() for t in tangents]
        _, tangent = jvp(rope_kernels.rotate, *(tuple(each) for each in narrow))
        self.assertLess((tangent - wanted[1]).abs().max().item(), 1e-5)
        same(self, tangent[..., 6:], narrow[1][0][..., 6:])

    def test_a_model(self):
        from models import small

        model = small("llama")
        embeds = torch.randn(1, 6, 64)
        parameters = dict(model.named_parameters())
        tangents = {name: torch.randn_like(value) for name, value in parameters.items()}

        def logits(embeds, parameters):
            return functional_call(model, parameters, kwargs=dict(inputs_embeds=embeds, use_cache=False)).logits

        given = (embeds, parameters), (torch.randn_like(embeds), tangents)
        wanted = jvp(logits, *given)
        rope_kernels.transformers.enable(model)
        ours = jvp(logits, *given)
        rope_kernels.transformers.disable(model)
        for x, y in zip(ours, wanted):
            same(self, x, y)


class Transformed(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)

    def test_jacobians_and_hessians(self):
        given = [t.double() for t in tensors(1, 2, 3, pairs=3)]

        def loss(rotate, x, cos, sin):
            return (rotate(x, cos, sin).sin() ** 3).sum()

        theirs = lambda x, cos, sin: eager(x, twice(cos, "halves"), twice(sin, "halves"), "half")  # noqa: E731
        for transform in (grad, jacrev, jacfwd, hessian):
            wanted, ours = (transform(functools.partial(loss, rotate), argnums=(0, 1, 2))(*given)
                            for rotate in (theirs, rope_kernels.rotate))
            flat = [torch.utils._pytree.tree_leaves(each) for each in (ours, wanted)]
            self.assertEqual(len(flat[0]), 9 if transform is hessian else 3)
            for x, y in zip(*flat):
                self.assertLess((x - y).abs().max().item(), 1e-11, transform.__name__)
        # In f32: of a rotation alone each entry is a cos, a sin, 0 or 1.
        x, cos, sin = tensors(1, 2, 3, pairs=3)
        rotate = lambda x: rope_kernels.rotate(x, cos, sin)  # noqa: E731
        forward, backward = jacfwd(rotate)(x), jacrev(rotate)(x)
        self.assertTrue(torch.equal(forward, backward))
        self.assertTrue(torch.equal(forward, jacrev(lambda x: theirs(x, cos, sin))(x)))

    def test_batches(self):
        # Each argument with and without a dimension of examples, which is any of its dimensions.
        x, k = torch.randn(4, 2, 3, 5, 8), torch.randn(4, 2, 1, 5, 8)
        for layout, shape in itertools.product(("bhsd", "bshd"), ((5,), (1, 5), (2, 5), (2, 1, 5), (1, 3, 5), None)):
            if layout == "bshd":
                x, k = torch.randn(4, 2, 5, 3, 8), torch.randn(4, 2, 5, 1, 8)
                shape = (2, 5, 1) if shape == (2, 1, 5) else (1, 5, 3) if shape == (1, 3, 5) else shape
            ids = torch.randint(0, 9, (4, 5)) if shape is None else None
            tables = torch.randn(2, 4, *((9,) if shape is None else shape), 3)
            for of_x, of_tables, of_ids, one in itertools.product((0, 1, 3, None), (0, -1, None), (0, None), (False, True)):
                if one and shape is not None and shape[0] == 2 or ids is None and of_ids == 0:
                    continue
                given = [x[:, 0] if one else x, *tables, ids]
                dims = [of_x, of_tables, of_tables, of_ids if ids is not None else None]
                if not any(dim is not None for dim in dims):
                    continue
                given = [t if t is None else t[0] if dim is None else t.movedim(0, dim) for t, dim in zip(given, dims)]
                what = f"{layout} {shape} {dims} {one}, seed {SEED}"

                def rotate(x, cos, sin, ids):
                    return rope_kernels.rotate(x, cos, sin, ids=ids, layout=layout)

                ours = vmap(rotate, tuple(dims))(*given)
                each = [[t if dim is None else t.select(dim, i) for t, dim in zip(given, dims)] for i in range(4)]
                same(self, ours, torch.stack([rotate(*arguments) for arguments in each]), what)
                if of_x is not None:
                    target = given[0].clone()
                    vmap(lambda x, *rows: rope_kernels.rotate_(x, *rows[:2], ids=rows[2], layout=layout),
                         tuple(dims))(target, *given[1:])
                    same(self, target.movedim(of_x, 0), ours, what)

    def test_batches_of_pairs_and_of_models(self):
        q, k, (cos, sin) = torch.randn(4, 2, 3, 5, 8), torch.randn(4, 2, 1, 5, 8), torch.randn(2, 5, 4)
        wanted = [torch.stack(each) for each in zip(*(rope_kernels.rotate_qk(a, b, cos, sin) for a, b in zip(q, k)))]
        for ours in (vmap(lambda q, k: rope_kernels.rotate_qk(q, k, cos, sin))(q, k),
                     vmap(lambda q, k: rope_kernels.rotate_qk_(q, k, cos, sin))(q.clone(), k.clone())):
            for x, y in zip(ours, wanted):
                same(self, x, y)
        packed = torch.cat((q, k), 2)
        vmap(lambda x: rope_kernels.rotate_qk_(x[:, :3], x[:, 3:], cos, sin))(packed)
        same(self, packed, torch.cat(wanted, 2))
        rotation, positions = rope_kernels.Rotation(CONFIG), torch.randint(0, 99, (4, 2, 5))
        wanted = torch.stack([rotation.rotate(x, ids) for x, ids in zip(q, positions)])
        same(self, vmap(rotation.rotate)(q, positions), wanted)
        same(self, vmap(rotation.rotate_)(q, positions), wanted)

    def test_of_one_another(self):
        x, tangent = torch.randn(2, 3, 1, 2, 5, 8), torch.randn(2, 3, 1, 2, 5, 8)
        cos, sin = torch.randn(2, 2, 5, 4)
        rotate = lambda x, cos, sin: rope_kernels.rotate(x, cos, sin)  # noqa: E731
        wanted = torch.stack([torch.stack([rotate(y, c, s) for y in each]) for each, c, s in zip(x, cos, sin)])
        same(self, vmap(vmap(rotate, (0, None, None)))(x, cos, sin), wanted)
        inner = lambda x, t, cos, sin: jvp(lambda x: rotate(x, cos, sin), (x,), (t,))[1]  # noqa: E731
        ours = vmap(vmap(inner, (0, 0, None, None)))(x, tangent, cos, sin)
        same(self, ours, vmap(vmap(rotate, (0, None, None)))(tangent, cos, sin))
        outer = jvp(lambda x: vmap(vmap(rotate, (0, None, None)))(x, cos, sin), (x,), (tangent,))
        same(self, outer[0], wanted)
        same(self, outer[1], ours)
        per_example = vmap(grad(lambda x, c, s: (rotate(x, c, s) ** 2).sum()), (0, 0, 0))(x[:, 0], cos, sin)
        for gradient, y, c, s in zip(per_example, x[:, 0], cos, sin):
            leaf = y.clone().requires_grad_()
            (rotate(leaf, c, s) ** 2).sum().backward()
            same(self, gradient, leaf.grad)

    def test_compiled(self):
        x, cos, sin = tensors(2, 3, 5)
        tangent = torch.randn_like(x)
        rotate = lambda x: rope_kernels.rotate(x, cos, sin)  # noqa: E731

        def of_dual(x, tangent):
            with forward_ad.dual_level():
                return forward_ad.unpack_dual(rotate(forward_ad.make_dual(x, tangent))).tangent

        for function in (
            lambda x, t: jvp(rotate, (x,), (t,))[1],
            lambda x, t: jvp(lambda x: rope_kernels.rotate_(1 * x, cos, sin), (x,), (t,))[1],
            lambda x, t: grad(lambda x: (rotate(x) * t).sum())(x),
            lambda x, t: vmap(rotate)(torch.stack((x, t))),
            lambda x, t: vmap(lambda x: rope_kernels.rotate_(x, cos, sin))(torch.stack((x, t))),
            of_dual,
        ):
            torch._dynamo.reset()
            ours = torch.compile(function, backend="aot_eager", fullgraph=True)(x, tangent)
            self.assertLess((ours - function(x, tangent)).abs().max().item(), 1e-6)
        # What was traced without tangents is not called with them.
        torch._dynamo.reset()
        compiled = torch.compile(rotate, backend="aot_eager")
        for _ in range(2):
            same(self, compiled(x), rotate(x))
            with forward_ad.dual_level():
                primal, of_it = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, tangent)))
            self.assertLess((of_it - rotate(tangent)).abs().max().item(), 1e-6)

    def test_operators_in_a_trace(self):
        # Without refusals torch 2.10 loses the tangents of inputs, and every torch those that are made in the trace.
        x, cos, sin = tensors(1, 2, 3)
        ops, weight = torch.ops.rope_kernels, torch.ones(8, requires_grad=True)

        def in_place(x):
            y = 1 * x
            ops.rotate_(y, cos, sin)
            return y

        for function in (
            lambda x: ops.rotate(x, cos, sin) * weight, lambda x: ops.rotate_qk(x, x, cos, sin)[1], in_place,
        ):
            def of_dual(x):
                with forward_ad.dual_level():
                    return forward_ad.unpack_dual(function(forward_ad.make_dual(x, x))).tangent

            for call in (of_dual, torch.no_grad()(of_dual)):
                for fullgraph, message in ((False, "has a tangent"), (True, "cannot be traced within .*; call the func")):
                    torch._dynamo.reset()
                    with self.assertRaisesRegex(Exception, message):
                        torch.compile(call, backend="aot_eager", fullgraph=fullgraph)(x)
            torch._dynamo.reset()
            compiled = torch.compile(function, backend="aot_eager")
            with forward_ad.dual_level():
                same(self, compiled(x), function(x))
                for leaf in (x, x.clone().requires_grad_()):
                    # Torch 2.10 has a refusal of its own for what it has compiled before the operator.
                    with self.assertRaisesRegex(RuntimeError, "has a tangent|must implement the jvp function"):
                        compiled(forward_ad.make_dual(leaf, x))

    def test_refused_by_the_stable_interface_alone(self):
        run = str(pathlib.Path(__file__).with_name("run.py"))
        tests = ["derivatives.Transformed.test_refused", "derivatives.Forward.test_of_the_tensor"]
        environment = os.environ | {"ROPE_KERNELS_STABLE": "1"}
        result = subprocess.run([sys.executable, run, *tests], env=environment, capture_output=True, text=True)
        self.assertIn("test result: ok. 2 passed", result.stdout, result.stderr)

    def test_refused(self):
        x, cos, sin = tensors(1, 2, 3)
        weight, caches = torch.ones(8), [torch.zeros(1, 3, 2, 8) for _ in range(2)]
        ones, none, slots, latents = torch.tensor(1.0), torch.empty(0), torch.arange(3), torch.zeros(1, 3, 16)
        ops = torch.ops.rope_kernels
        config = rope_kernels.Rotation(CONFIG).config
        calls = {
            "norms and caches have no": [
                lambda x: rope_kernels.norm_rotate_qk_(1 * x, 1 * x, weight, weight, cos, sin),
                lambda x: rope_kernels.rotate_into_caches(x, x, cos, sin, *caches, slots),
                lambda x: rope_kernels.rotate_into_latent_cache(x[:, :1], x[:, :1], cos, sin, latents, slots),
            ],
            "has no derivatives": [
                lambda x: ops.rotate_(1 * x, cos, sin), lambda x: ops.rotate_qk_(1 * x, 1 * x, cos, sin),
                lambda x: ops.rotate_at_(1 * x, cos, sin, slots),
                lambda x: ops.rotate_qk_at_(1 * x, 1 * x, cos, sin, slots),
                lambda x: ops.rotate_by_config(x, config, slots), lambda x: ops.rotate_by_config_(1 * x, config, slots),
                lambda x: ops.norm_rotate_qk_(1 * x, 1 * x, weight, weight, cos, sin, 1e-6),
                lambda x: ops.rotate_into_caches(x, x, cos, sin, *caches, ones, ones, none, none, slots, weight, 1e-6),
                lambda x: ops.rotate_into_latent_cache(x[:, :1], x[:, :1], cos, sin, latents, slots, none, 1e-6),
                lambda x: ops.table_gradients(x, x, cos),
            ],
            "a group has gradients alone": [lambda x: rope_kernels.rotate(x, cos, sin, group=object())],
        }
        for message, each in calls.items():
            for call in each:
                with self.assertRaisesRegex(RuntimeError, message):
                    jvp(call, (x,), (x,))
        for call in calls["norms and caches have no"]:
            with forward_ad.dual_level(), self.assertRaisesRegex(RuntimeError, "no tangents"):
                call(forward_ad.make_dual(x, x))
        # The operators themselves are below autograd, where torch has no word for tangents.
        calls["has a tangent"] = [
            *calls.pop("has no derivatives"),
            lambda x: ops.rotate(x, cos, sin), lambda x: ops.rotate_at(x, cos, sin, slots),
            lambda x: ops.rotate_qk(x, x, cos, sin), lambda x: ops.rotate_qk_at(x, x, cos, sin, slots),
            lambda x: ops.rotate(x[:, :1], cos, sin), lambda x: ops.rotate(torch.ones(2, 3, 8), x[0, 0, :, :4], sin),
            torch.no_grad()(lambda x: ops.rotate(x, cos, sin)),
            torch.jit.script(scripted), torch.compile(lambda x: ops.rotate(x, cos, sin), backend="aot_eager"),
        ]
        for call in calls["has a tangent"]:
            for requires_grad in (False, True):
                leaf = x.clone().requires_grad_(requires_grad)
                with forward_ad.dual_level(), self.assertRaisesRegex(Exception, "has a tangent .torch.autograd.forward_ad"):
                    call(forward_ad.make_dual(leaf, x))
        for call in calls["has a tangent"][-4:]:
            with forward_ad.dual_level():
                same(self, call(forward_ad.make_dual(x, x).detach()), call(x))
        with forward_ad.dual_level():
            # Tensors without a tangent are rotated as ever.
            rope_kernels.norm_rotate_qk_(x.clone(), x.clone(), weight, weight, cos, sin)
        with self.assertRaisesRegex(RuntimeError, "in common"):
            vmap(lambda x: rope_kernels.rotate_qk_(x, x[:, 1:], cos, sin))(torch.ones(2, 1, 2, 3, 8))
        with self.assertRaisesRegex(RuntimeError, "cos requires a gradient|use rotate"):
            grad(lambda cos: rope_kernels.rotate_(1 * x, cos, sin).sum())(cos)
        full = rope_kernels.Rotation({"model_type": "hunyuan_vl_text", "hidden_size": 64, "num_attention_heads": 4,
                                      "head_dim": 16, "rope_parameters": {"rope_type": "xdrope", "rope_theta": 1e4,
                                                                         "factor": 1.0, "alpha": 1.0, "xdrope_section": [2, 2, 2, 2]}})
        self.assertTrue(full.is_full_width)
        y = torch.ones(1, 2, 3, 16)
        with self.assertRaisesRegex(RuntimeError, "no float64, no tangents"):
            full.rotate(y.double(), torch.arange(3))
