"""The functions by which models of transformers rotate: their arguments, their formulas, and functions of the kernels
that take their place. A function is known by its results, which are those of a formula bit for bit."""

import inspect
import itertools
import weakref
from typing import NamedTuple

import torch

from . import _gradients, _sharding
from ._library import ops
from ._plan import FULL, PROMOTED, STRICT, plan

_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
# The function of the overload, without the method around it.
_rotate_qk = getattr(ops.rotate_qk.default, "_op", ops.rotate_qk.default)

NAMES = (
    "apply_rotary_pos_emb", "apply_rotary_pos_emb_vision", "apply_rotary_pos_emb_interleave", "apply_rotary_emb",
    "vision_apply_rotary_emb", "apply_rotary_pos_emb_2d", "apply_rotary_pos_emb_2d_self_attn",
    "RoFormerSelfAttention.apply_rotary_position_embeddings",
)  # fmt: skip
# Functions of other rotations, of modules that have no other function.
NOT_OURS = {
    "rotate_queries_or_keys": "makes its own angles, of which the channels of a pair have two",
    "apply_rotary_time_emb": "rotates in float64",
}
_ELEMENTS = (torch.float32, torch.bfloat16, torch.float16)
_SAME = ("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half")


class Formula(NamedTuple):
    """What a function does with the arguments of its kind."""

    kind: str
    pairing: str
    output_pairing: str
    repeat: str  # What it expects of cos and sin.
    direction: str
    window: str  # Whether the "first" or "last" channels rotate and others pass, or "all" rotate.
    upcasts: bool  # Whether 16-bit tensors are rotated in f32.
    returns: str  # "promoted": the type of x * cos; "kept": that of x.

    def rotary_dim(self, cos):
        return cos.shape[-1] * (2 if self.repeat == "none" else 1)

    def fits(self, x, cos, sin, layout):
        """Whether the kernels give what the function would."""
        width = self.rotary_dim(cos)
        return (
            _is_plain(x) and _is_plain(cos) and _is_plain(sin)
            and x.device.type == cos.device.type == sin.device.type == "cpu"
            and x.dtype in _ELEMENTS
            and cos.dtype in _ELEMENTS
            and cos.dtype == sin.dtype
            and cos.shape == sin.shape
            and (x.shape[-1] == width or self.window != "all" and x.shape[-1] > width)
            # Otherwise the result has another type than x.
            and (self.returns == "kept" or x.dtype in (torch.float32, cos.dtype))
            and _has_a_row_for_each(x, cos, layout)
        )  # fmt: skip

    def bits(self, layout, mode):
        return plan(
            pairing=self.pairing, output_pairing=self.output_pairing, repeat=self.repeat, layout=layout,
            direction=self.direction, rounding=mode,
        )  # fmt: skip

    def strict_bits(self, layout, rounding):
        """A plan with which the operator itself refuses what does not fit."""
        how = self.bits(layout, "once" if self.upcasts else rounding) | STRICT
        return how | (FULL if self.window == "all" else 0) | (PROMOTED if self.returns == "promoted" else 0)

    def rotation(self, rounding):
        """A function that rotates tensors by rows, or returns None where the kernels do not fit."""
        bits = {(layout, mode): self.bits(layout, mode) for layout in ("bhsd", "bshd") for mode in ("once", "eager")}

        def rotated(tensors, cos, sin, layout):
            mode = "once" if self.upcasts or tensors[0].dtype != cos.dtype else rounding
            how = bits[layout, mode]
            if self.window == "last":
                width = self.rotary_dim(cos)
                turned = (_gradients.rotated(x[..., -width:], cos, sin, None, how, 1.0) for x in tensors)
                return tuple(torch.cat((x[..., :-width], y), -1) for x, y in zip(tensors, turned))
            if len(tensors) == 2 and tensors[0].dtype == tensors[1].dtype:
                return _gradients.rotated_qk(*tensors, cos, sin, None, how, 1.0)
            return tuple(_gradients.rotated(x, cos, sin, None, how, 1.0) for x in tensors)

        def rotate(tensors, cos, sin, layout):
            for x in tensors:
                if not self.fits(x, cos, sin, layout):
                    return None
            if torch.compiler.is_compiling():
                return rotated(tensors, cos, sin, layout)
            try:
                return rotated(tensors, cos, sin, layout)
            except RuntimeError:  # The original answers, or says what is wrong.
                return None

        return rotate


def _is_plain(x):
    """Returns whether a tensor is PyTorch's own, or a distributed one. Others may have several lengths."""
    of = type(x)
    traced = of is not torch.Tensor and of is not torch.nn.Parameter
    if traced and not of.__module__.startswith("torch._subclasses."):
        return _sharding.is_distributed(x) and not _is_compiling() and _sharding.register()
    return x.layout is torch.strided and not x.is_nested


def _has_a_row_for_each(x, cos, layout):
    """Returns whether each token has a row of its own. Eager code also broadcasts a row to several tokens."""
    tokens = x.shape[-2 if layout == "bhsd" else -3]
    batch = x.shape[0] if x.dim() == 4 else 1
    if cos.dim() == 2:
        return cos.shape[0] == tokens
    if cos.dim() == 3:
        return cos.shape[1] == tokens and (cos.shape[0] == 1 or cos.shape[0] == batch)
    heads_dim = 1 if layout == "bhsd" else 2
    return (
        cos.dim() == x.dim() == 4
        and cos.shape[3 - heads_dim] == tokens
        and (cos.shape[0] == 1 or cos.shape[0] == batch)
        and (cos.shape[heads_dim] == 1 or cos.shape[heads_dim] == x.shape[heads_dim])
    )


# The layout of a tensor with four dimensions, by the dimensions of its rows and the `dim` of their `unsqueeze(dim)`.
_LAYOUTS = {(3, 1): "bhsd", (3, 2): "bshd", (2, 0): "bhsd", (2, 1): "bshd"}


def _layout(unsqueeze_dim):
    return "bhsd" if unsqueeze_dim == 1 else "bshd"


# Of each kind: a function of those arguments in the place of another, which rotates what does not fit; and arguments
# with which formulas are told apart. `tables` makes cos and sin of a shape.


class _QueryAndKey:
    def matches(names):
        return names[:4] == ["q", "k", "cos", "sin"] and "unsqueeze_dim" in names

    def replacement(rotate, original, strict=None):
        def slow(q, k, cos, sin, unsqueeze_dim):
            layout = _LAYOUTS.get((cos.dim(), unsqueeze_dim))
            if layout is not None and q.dim() == k.dim() == 4 and q.dtype == k.dtype:
                return rotate((q, k), cos, sin, layout)
            return None

        def apply(q, k, cos, sin, unsqueeze_dim=1):
            # Without gradients one call of an operator, which refuses what does not fit.
            if not (_is_grad_enabled() or _is_compiling()):
                try:
                    return _rotate_qk(q, k, cos, sin, strict[unsqueeze_dim], 1.0)
                except Exception:
                    pass
            results = slow(q, k, cos, sin, unsqueeze_dim)
            return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim) if results is None else results

        def apply_others(q, k, cos, sin, *args, unsqueeze_dim=1, **others):
            results = slow(q, k, cos, sin, unsqueeze_dim) if not args and not others else None
            if results is not None:
                return results
            return original(q, k, cos, sin, *args, unsqueeze_dim=unsqueeze_dim, **others)

        names = list(inspect.signature(original).parameters)
        return apply if strict and names == ["q", "k", "cos", "sin", "unsqueeze_dim"] else apply_others

    def samples(x, tables):
        for unsqueeze_dim, shape in ((1, (2, 5, 3)), (2, (2, 3, 5))):
            yield (x(*shape), x(*shape), *tables(2, 3)), dict(unsqueeze_dim=unsqueeze_dim)
        for unsqueeze_dim, shape in ((0, (2, 5, 3)), (1, (2, 3, 5))):
            yield (x(*shape), x(*shape), *tables(3)), dict(unsqueeze_dim=unsqueeze_dim)


class _One:
    def matches(names):
        return names == ["x", "cos", "sin", "unsqueeze_dim"]

    def replacement(rotate, original):
        def apply(x, cos, sin, unsqueeze_dim=1):
            if unsqueeze_dim in (1, 2) and x.dim() == 4 and cos.dim() == 3:
                results = rotate((x,), cos, sin, _layout(unsqueeze_dim))
                if results is not None:
                    return results[0]
            return original(x, cos, sin, unsqueeze_dim=unsqueeze_dim)

        return apply

    def samples(x, tables):
        for unsqueeze_dim, shape in ((1, (2, 5, 3)), (2, (2, 3, 5))):
            yield (x(*shape), *tables(2, 3)), dict(unsqueeze_dim=unsqueeze_dim)


class _Vision:
    """Tokens before heads, and rows as many as tokens."""

    def matches(names):
        return names == ["q", "k", "cos", "sin"]

    def replacement(rotate, original):
        def apply(q, k, cos, sin):
            if q.dim() == k.dim() == cos.dim() + 1:
                results = rotate((q, k), cos, sin, "bshd")
                if results is not None:
                    return results
            return original(q, k, cos, sin)

        return apply

    def samples(x, tables):
        yield (x(3, 5), x(3, 5), *tables(3)), {}


class _Broadcast:
    """Heads before tokens, and one row for each token of all heads; further arguments as the function has them."""

    def matches(names):
        return names == ["q", "k", "cos", "sin"] or names[:5] == ["q", "k", "cos", "sin", "num_k_exclude_rope"]

    def replacement(rotate, original):
        def apply(q, k, cos, sin, *args, **others):
            if (
                not args and not any(others.values()) and q.dim() == k.dim() == 4
                and q.shape[-2] == k.shape[-2] == cos.shape[-2] and (cos.dim() == 2 or cos.shape[0] == 1)
            ):  # fmt: skip
                results = rotate((q, k), cos, sin, "bhsd")
                if results is not None:
                    return results
            return original(q, k, cos, sin, *args, **others)

        return apply

    def samples(x, tables):
        for shape in ((3,), (1, 3), (1, 1, 3)):
            yield (x(2, 5, 3), x(2, 5, 3), *tables(*shape)), {}


class _Patches:
    """As `_Broadcast`, where tokens before those that have a row pass."""

    def matches(names):
        return names == ["q", "k", "cos", "sin", "kwargs"]

    def replacement(rotate, original):
        def apply(q, k, cos, sin, **others):
            passing = q.shape[-2] - sin.shape[-2]
            if q.dim() == k.dim() == 4 and q.shape[-2] == k.shape[-2] and cos.dim() == 2 and passing >= 0:
                results = rotate((q[..., passing:, :], k[..., passing:, :]), cos, sin, "bhsd")
                if results is not None:
                    return tuple(torch.cat((x[..., :passing, :], y), -2) for x, y in zip((q, k), results))
            return original(q, k, cos, sin, **others)

        return apply

    def samples(x, tables):
        for tokens in (3, 5):
            yield (x(2, 5, tokens), x(2, 5, tokens), *tables(3)), {}


class _SinesFirst:
    def matches(names):
        return names == ["tensor", "sin", "cos"]

    def replacement(rotate, original):
        def apply(tensor, sin, cos):
            if tensor.dim() == 4 and cos.dim() == 3:
                results = rotate((tensor,), cos, sin, "bshd")
                if results is not None:
                    return results[0]
            return original(tensor, sin, cos)

        return apply

    def samples(x, tables):
        cos, sin = tables(2, 3)
        yield (x(2, 3, 5), sin, cos), {}


class _WithValues:
    """Rows of a table by position ids, and values that rotate too."""

    def matches(names):
        return names == ["q", "k", "v", "cos", "sin", "position_ids", "unsqueeze_dim"]

    def replacement(rotate, original):
        def apply(q, k, v, cos, sin, position_ids, unsqueeze_dim=1):
            if unsqueeze_dim in (1, 2) and q.dim() == k.dim() == v.dim() == 4 and cos.dim() == position_ids.dim() == 2:
                rows = cos[position_ids], sin[position_ids]
                results = rotate((q, k, v), *rows, _layout(unsqueeze_dim))
                if results is not None:
                    return results
            return original(q, k, v, cos, sin, position_ids, unsqueeze_dim=unsqueeze_dim)

        return apply

    def samples(x, tables):
        ids = torch.tensor([[6, 0, 2], [1, 1, 5]])
        for unsqueeze_dim, shape in ((1, (2, 5, 3)), (2, (2, 3, 5))):
            yield (x(*shape), x(*shape), x(*shape), *tables(7), ids), dict(unsqueeze_dim=unsqueeze_dim)


class _Sinusoidal:
    """Sines and cosines in one tensor."""

    def matches(names):
        return names == ["sinusoidal_pos", "query_layer", "key_layer", "value_layer"]

    def replacement(rotate, original):
        def apply(sinusoidal_pos, query_layer, key_layer, value_layer=None):
            tensors = (query_layer, key_layer) + (() if value_layer is None else (value_layer,))
            if sinusoidal_pos.dim() == 4 and all(x.dim() == 4 for x in tensors):
                sin, cos = sinusoidal_pos.chunk(2, -1)
                results = rotate(tensors, cos, sin, "bhsd")
                if results is not None:
                    return results
            return original(sinusoidal_pos, query_layer, key_layer, value_layer)

        return apply

    def samples(x, tables):
        cos, sin = tables(1, 1, 3)
        yield (torch.cat((sin, cos), -1), x(2, 5, 3), x(2, 5, 3)), {}
        yield (torch.cat((sin, cos), -1), x(2, 5, 3), x(2, 5, 3), x(2, 5, 3)), {}


class _Complex:
    """Rows of complex numbers, cos + i sin, and tokens before heads. PyTorch rounds these products as the kernels do in
    its vectors of up to eight numbers; those of a rest of a row have one rounding less."""

    layout, pairs = "bshd", 8

    @classmethod
    def matches(cls, names):
        return names == ["xq", "xk", "freqs_cis"]

    @classmethod
    def replacement(cls, rotate, original):
        def apply(xq, xk, freqs_cis):
            if xq.dim() == xk.dim() == 4 and freqs_cis.dim() == 3:
                results = rotate((xq, xk), freqs_cis.real, freqs_cis.imag, cls.layout)
                if results is not None:
                    return results
            return original(xq, xk, freqs_cis)

        return apply

    @classmethod
    def samples(cls, x, tables):
        shape = (2, 3, 5) if cls.layout == "bshd" else (2, 5, 3)
        yield (x(*shape), x(*shape), torch.complex(*(table.float() for table in tables(2, 3)))), {}


class _ComplexOfHeadsFirst(_Complex):
    layout = "bhsd"


class _ComplexOfPatches:
    """As `_Complex`, of rows that all sequences share."""

    pairs = 8

    def matches(names):
        return names == ["query", "key", "freqs_ci"]

    def replacement(rotate, original):
        def apply(query, key, freqs_ci):
            if query.dim() == key.dim() == 4 and freqs_ci.shape[0] == query.shape[1] == freqs_ci[..., 0].numel():
                rows = freqs_ci.view(query.shape[1], -1)
                results = rotate((query, key), rows.real, rows.imag, "bshd")
                if results is not None:
                    return results
            return original(query, key, freqs_ci)

        return apply

    def samples(x, tables):
        yield (x(2, 3, 5), x(2, 3, 5), torch.complex(*(table.float() for table in tables(3, 1)))), {}


_KINDS = {
    kind.__name__: kind
    for kind in (_QueryAndKey, _One, _Vision, _Broadcast, _Patches, _SinesFirst, _WithValues, _Sinusoidal, _Complex,
                 _ComplexOfHeadsFirst, _ComplexOfPatches)
}  # fmt: skip
_FORMULAS = list(
    itertools.product(
        _SAME, ("halves", "pairs", "none"), ("forward", "transpose"), ("first", "all", "last"),
        ((False, "promoted"), (False, "kept"), (True, "kept")),
    )
)  # fmt: skip


def functions_of(module):
    """The functions of a module that may rotate: the names of each, and the object that has it."""
    for name in NAMES:
        owner, *within = name.split(".")
        owner, name = (getattr(module, owner, None), within[0]) if within else (module, owner)
        function = getattr(owner, name, None)
        if function is not None:
            yield owner, name, function


def replacement(original, formula, rounding):
    """A function with the arguments of the original, which it calls where the kernels do not fit."""
    kind, rotate = _KINDS[formula.kind], formula.rotation(rounding)
    if kind is _QueryAndKey and formula.window != "last":
        strict = {1: formula.strict_bits("bhsd", rounding), 2: formula.strict_bits("bshd", rounding)}
        apply = kind.replacement(rotate, original, strict)
    else:
        apply = kind.replacement(rotate, original)
    apply.replaces = original
    apply.formula = formula
    return apply


_known = weakref.WeakKeyDictionary()


def formula_of(function):
    """The formula whose bits the function's results are, or None."""
    if function not in _known:
        _known[function] = _found_formula(function)
    return _known[function]


def _found_formula(function):
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    for kind in (kind for kind, its in _KINDS.items() if its.matches(names)):
        for (pairing, output_pairing), repeat, direction, window, (upcasts, returns) in _FORMULAS:
            formula = Formula(kind, pairing, output_pairing, repeat, direction, window, upcasts, returns)
            if _matches(function, formula):
                return formula
    return None


def _outcome(call):
    try:
        results = call()
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return None
    return results if isinstance(results, tuple) else (results,)


def _matches(function, formula):
    generator, kind = torch.Generator().manual_seed(0), _KINDS[formula.kind]
    twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1),
             "pairs": lambda t: t.repeat_interleave(2, -1)}[formula.repeat]  # fmt: skip

    def unused(*args, **named):
        raise RuntimeError("the kernels were to fit")

    unused.__signature__ = inspect.signature(function)
    for dtype, table_dtype in (
        (torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32)
    ):  # fmt: skip
        pairs = getattr(kind, "pairs", 4)
        for head_dim in (2 * pairs, 3 * pairs):
            # What the kernels do not rotate tells formulas apart by the types of the results alone.
            fits = formula.returns == "kept" or dtype == table_dtype

            def x(*shape):
                return torch.randn(*shape, head_dim, generator=generator).to(dtype)

            def tables(*shape):
                angle = torch.randn(*shape, pairs, generator=generator)
                return [twice(t).to(table_dtype) for t in (angle.cos(), angle.sin())]

            for args, named in kind.samples(x, tables):
                wanted = _outcome(lambda: function(*args, **named))
                if wanted is None:
                    # More channels than cos has are an error of formulas without a part that passes.
                    if head_dim == 2 * pairs or formula.window != "all":
                        return False
                    continue
                if head_dim != 2 * pairs and formula.window == "all":
                    return False
                if not fits:
                    if any(y.dtype == dtype for y in wanted):
                        return False
                    continue
                ours = _outcome(lambda: replacement(unused, formula, "eager")(*args, **named))
                if ours is None or len(ours) != len(wanted):
                    return False
                if not all(y.dtype == z.dtype and torch.equal(y, z) for y, z in zip(ours, wanted)):
                    return False
    return True
