"""transformers' models rotate by rope_kernels: `enable(model)`, and back by `disable(model)`.

A modeling module of transformers has functions that rotate, of a few formulas. `enable` calls each with numbers, and
replaces it if its results are, bit for bit, those of a formula that is known here. What cannot be rotated by the
kernels in a call (another device, float64) still goes to the function that was replaced.
"""

import inspect
import sys
import weakref
from typing import NamedTuple

import torch

from . import _gradients
from ._config import Rotation
from ._plan import plan


class _Formula(NamedTuple):
    """A function that rotates: its arguments, and what it does with them."""

    arguments: str  # "qk": (q, k, cos, sin, unsqueeze_dim=1); "vision": (q, k, cos, sin); "gptj": (x, sin, cos)
    pairing: str
    output_pairing: str
    repeat: str  # What it expects of cos and sin.
    partial: bool  # Whether channels beyond those of cos pass.
    upcasts: bool  # Whether 16-bit tensors are rotated in f32.
    returns: str  # "promoted": the type of x * cos; "kept": that of x.


_FORMULAS = [
    _Formula(arguments, *pairings, repeat, partial, upcasts, returns)
    for arguments in ("qk", "vision", "gptj")
    for pairings in (("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half"))
    for repeat in ("halves", "pairs", "none")
    for partial in (True, False)
    for upcasts, returns in ((False, "promoted"), (False, "kept"), (True, "kept"))
]
_NAMES = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_vision", "apply_rotary_pos_emb_interleave")
_ELEMENTS = (torch.float32, torch.bfloat16, torch.float16)

# Modules with replaced functions: {module's name: {function's name: what was there}}, and the models that use them.
_replaced = {}
_users = {}
_rotaries = weakref.WeakKeyDictionary()


def enable(model, *, rounding="once", exact=False):
    """Rotates queries and keys of the model by rope_kernels, and returns it. Other models of the same modeling module
    in this process are rotated so too.

    rounding: 16-bit tensors are rounded "once", or as "eager" transformers does, for its bits. exact: cos and sin come
    from the exact angles of the model's config.json, and not from f32 products.

    Raises RuntimeError, and changes nothing, for a model that rope-models does not know or whose function has a formula
    that is not known here.
    """
    if rounding not in ("once", "eager"):
        raise ValueError(f"rounding is {rounding!r}; it must be one of once, eager")
    functions, rotaries = {}, {}
    for module, configs in _modules(model).items():
        found = {name: getattr(sys.modules[module], name) for name in _NAMES if hasattr(sys.modules[module], name)}
        if not found:
            continue
        rotations = _rotations(configs)
        for name, function in found.items():
            original = getattr(function, "replaces", function)
            formula = _formula_of(original)
            if formula is None:
                raise RuntimeError(f"{module}.{name} has no formula that is known; rope_kernels does not replace it")
            # The knowledge of models and the code have to agree; a module with several functions has one that does.
            pairings = [(rotation.pairing, rotation.output_pairing) for rotation in rotations]
            if len(found) == 1 and (formula.pairing, formula.output_pairing) not in pairings:
                raise RuntimeError(f"{module}.{name} pairs channels as no rotation of {_names(configs)} does")
            functions[module, name] = _replacement(original, formula, rounding)
    if not functions:
        raise RuntimeError(f"{type(model).__name__} has no function that rotates and is known; nothing is replaced")
    if exact:
        rotaries = {rotary: _exact_forward(rotary) for rotary in _rotary_modules(model)}
        if not rotaries:
            raise RuntimeError(f"{type(model).__name__} has no rotary module; it has tables of its own")
    disable(model)
    for (module, name), function in functions.items():
        _replaced.setdefault(module, {}).setdefault(name, function.replaces)
        setattr(sys.modules[module], name, function)
        _users.setdefault(module, weakref.WeakSet()).add(model)
    for rotary, forward in rotaries.items():
        rotary.forward = forward
    _rotaries[model] = list(rotaries)
    return model


def disable(model):
    """Undoes `enable`: the functions of its modules are transformers' own, unless another model is enabled that uses
    them. Returns the model."""
    for rotary in _rotaries.pop(model, []):
        del rotary.forward
    for module in [module for module, users in _users.items() if model in users]:
        _users[module].discard(model)
        if not _users[module]:
            del _users[module]
            for name, function in _replaced.pop(module).items():
                setattr(sys.modules[module], name, function)
    return model


def _names(configs):
    return ", ".join(sorted({config.model_type for config in configs}))


def _modules(model):
    """The modeling modules of the model's parts, with their configurations."""
    modules = {}
    for part in model.modules():
        config = getattr(part, "config", None)
        if hasattr(config, "model_type") and type(part).__module__ in sys.modules:
            configs = modules.setdefault(type(part).__module__, [])
            if not any(config is other for other in configs):
                configs.append(config)
    return modules


def _rotations(configs):
    """The rotations of configurations, those of the types of their layers too, at a length that they all have."""
    rotations, refusal = [], None
    for config in configs:
        for layer_type in [None, *dict.fromkeys(getattr(config, "layer_types", None) or [])]:
            try:
                length = getattr(config, "max_position_embeddings", None)
                rotations.append(Rotation(config, layer_type=layer_type, length=length))
            except RuntimeError as error:
                refusal = refusal or f"{config.model_type}: {error}"
    if not rotations:
        raise RuntimeError(refusal)
    if any(rotation.is_full_width for rotation in rotations):
        raise RuntimeError(f"{_names(configs)}: the channels of a pair have angles of their own; it is not replaced")
    return rotations


def _how(formula, rounding, layout):
    return plan(
        pairing=formula.pairing, output_pairing=formula.output_pairing, repeat=formula.repeat, layout=layout,
        rounding=rounding,
    )  # fmt: skip


def _fits(formula, x, cos, sin):
    """Whether the kernels give what the function would."""
    width = cos.shape[-1] * (2 if formula.repeat == "none" else 1)
    return (
        x.device.type == cos.device.type == "cpu"
        and x.dtype in _ELEMENTS
        and cos.dtype in _ELEMENTS
        and cos.dtype == sin.dtype
        and cos.shape == sin.shape
        and (x.shape[-1] == width or formula.partial and x.shape[-1] > width)
        # Otherwise the result has another type than x.
        and (formula.returns == "kept" or x.dtype in (torch.float32, cos.dtype))
    )


def _replacement(original, formula, rounding):
    """A function with the arguments of the original, which it is called with where the kernels do not fit."""
    bits = {
        (layout, mode): _how(formula, mode, layout) for layout in ("bhsd", "bshd") for mode in ("once", "eager")
    }

    def rounded(x, cos):
        return "once" if formula.upcasts or x.dtype != cos.dtype else rounding

    if formula.arguments == "gptj":

        def apply(tensor, sin, cos):
            if tensor.dim() == 4 and cos.dim() == 3 and _fits(formula, tensor, cos, sin):
                return _gradients.rotated(tensor, cos, sin, None, bits["bshd", rounded(tensor, cos)], 1.0)
            return original(tensor, sin, cos)

    elif formula.arguments == "vision":

        def apply(q, k, cos, sin):
            if q.dim() == k.dim() == cos.dim() + 1 and all(_fits(formula, x, cos, sin) for x in (q, k)):
                return _gradients.rotated_qk(q, k, cos, sin, None, bits["bshd", rounded(q, cos)], 1.0)
            return original(q, k, cos, sin)

    else:

        def apply(q, k, cos, sin, *args, unsqueeze_dim=1, **others):
            if (
                not args and not others and unsqueeze_dim in (1, 2) and q.dtype == k.dtype
                and q.dim() == k.dim() == 4 and cos.dim() == 3 and all(_fits(formula, x, cos, sin) for x in (q, k))
            ):  # fmt: skip
                layout = "bhsd" if unsqueeze_dim == 1 else "bshd"
                return _gradients.rotated_qk(q, k, cos, sin, None, bits[layout, rounded(q, cos)], 1.0)
            return original(q, k, cos, sin, *args, unsqueeze_dim=unsqueeze_dim, **others)

    apply.replaces = original
    apply.formula = formula
    return apply


def _formula_of(function):
    """The formula whose bits the function's results are, or None."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    if parameters[:4] == ["q", "k", "cos", "sin"] and "unsqueeze_dim" in parameters:
        arguments = "qk"
    elif parameters == ["q", "k", "cos", "sin"]:
        arguments = "vision"
    elif parameters == ["tensor", "sin", "cos"]:
        arguments = "gptj"
    else:
        return None
    for formula in _FORMULAS:
        if formula.arguments == arguments and _matches(function, formula):
            return formula
    return None


def _matches(function, formula):
    generator = torch.Generator().manual_seed(0)

    def random(*shape, dtype=torch.float32):
        return torch.randn(shape, generator=generator).to(dtype)

    def outcome(call):
        try:
            results = call()
            return results if isinstance(results, tuple) else (results,)
        except (RuntimeError, TypeError):
            return None

    kinds = [(torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32)]
    for dtype, table_dtype in kinds:
        for head_dim in (8, 12):
            angle = random(*([2, 3] if formula.arguments != "vision" else [3]), 4)
            twice = {"none": lambda t: t, "halves": lambda t: torch.cat((t, t), -1),
                     "pairs": lambda t: t.repeat_interleave(2, -1)}[formula.repeat]
            cos, sin = (twice(t).to(table_dtype) for t in (angle.cos(), angle.sin()))
            for unsqueeze_dim in (1, 2) if formula.arguments == "qk" else (2,):
                shape = (2, 5, 3, head_dim) if unsqueeze_dim == 1 else (2, 3, 5, head_dim)
                if formula.arguments == "vision":
                    shape = shape[1:]
                q, k = random(*shape, dtype=dtype), random(*shape, dtype=dtype)
                args = {"qk": (q, k, cos, sin), "vision": (q, k, cos, sin), "gptj": (q, sin, cos)}[formula.arguments]
                named = {"unsqueeze_dim": unsqueeze_dim} if formula.arguments == "qk" else {}
                wanted = outcome(lambda: function(*args, **named))
                if wanted is None:
                    # More channels than cos has are an error of formulas without a part that passes.
                    if head_dim == 8 or formula.partial:
                        return False
                    continue
                if not _fits(formula, q, cos, sin):
                    if head_dim != 8 and not formula.partial:
                        return False
                    # The types of the results say which formula it is, if the kernels do not.
                    if any((x.dtype == dtype) != (formula.returns == "kept") for x in wanted):
                        return False
                    continue

                def unused(*args, **named):
                    raise RuntimeError("the kernels were to fit")

                ours = outcome(lambda: _replacement(unused, formula, "eager")(*args, **named))
                if ours is None or len(ours) != len(wanted):
                    return False
                if not all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(ours, wanted)):
                    return False
    return True


def _rotary_modules(model):
    for part in model.modules():
        parameters = list(inspect.signature(part.forward).parameters)
        if type(part).__name__.endswith("RotaryEmbedding") and parameters[:2] == ["x", "position_ids"]:
            yield part


def _exact_forward(rotary):
    """The forward function of a rotary module, with exact angles. What the module makes of the first positions says
    which rotation of its configuration it is, and how each value stands twice."""
    config = rotary.config
    layer_types = list(dict.fromkeys(getattr(config, "layer_types", None) or []))
    if "layer_type" in inspect.signature(rotary.forward).parameters:
        known = {layer_type: _exact_rows(rotary, [layer_type], layer_type=layer_type) for layer_type in layer_types}
    else:
        known = {None: _exact_rows(rotary, [None, *layer_types])}

    def forward(x, position_ids, layer_type=None):
        rotation, repeat = known[layer_type]
        cos, sin = rotation.rows(position_ids, repeat)
        return cos.to(x.dtype), sin.to(x.dtype)

    return forward


def _exact_rows(rotary, choices, **named):
    """A rotation of the module's configuration, and its way to repeat values."""
    name, refusal = type(rotary).__name__, None
    parameters = getattr(rotary.config, "rope_parameters", None) or {}
    parameters = parameters.get(named.get("layer_type")) or parameters
    if parameters.get("rope_type") in ("dynamic", "longrope"):
        raise RuntimeError(
            f"{name} has the scaling {parameters['rope_type']}, whose frequencies change with the length; exact must be "
            "False"
        )
    positions = torch.arange(8)[None]
    theirs = rotary.forward(torch.empty(1), positions, **named)
    for layer_type in choices:
        try:
            rotation = Rotation(rotary.config, layer_type=layer_type)
        except RuntimeError as error:
            refusal = refusal or str(error)
            continue
        for repeat in ("halves", "pairs", "none"):
            ours = rotation.rows(positions, repeat)
            if all(x.shape == y.shape and torch.allclose(x, y, atol=1e-5, rtol=1e-4) for x, y in zip(ours, theirs)):
                return rotation, repeat
        refusal = "its cos and sin are other ones than its configuration says"
    raise RuntimeError(f"{name}: {refusal}; exact must be False")
