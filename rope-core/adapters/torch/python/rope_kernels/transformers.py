"""transformers' models rotate by rope_kernels: `enable(model)`, and back by `disable(model)`.

A modeling module of transformers has functions that rotate, of a few formulas. `enable` calls each with numbers, and
replaces it if its results are, bit for bit, those of a formula that is known here. What cannot be rotated by the
kernels in a call (another device, float64, a subclass of tensors) still goes to the function that was replaced.

The functions belong to the module, and every enabled model holds them: with the last of these models they are
transformers' own again, whether it was disabled or collected.
"""

import functools
import gc
import inspect
import itertools
import sys
import types
import weakref
from importlib import import_module

import torch

from ._config import Rotation
from ._formulas import NOT_OURS, formula_of, functions_of, replacement
from ._plan import Rounding

# Modules with replaced functions: {module's name: {(owner, function's name): (what was there, ours)}}, and what holds
# them: {module's name: {number: rounding}}. The owner is the module, or a class of it.
_replaced = {}
_holders = {}
_numbers = itertools.count()
# The attribute of an enabled model.
_USE = "_rope_kernels"


class _Use:
    """An attribute of an enabled model and of each copy. It holds the functions as long as it lives."""

    def __init__(self, modules, rounding):
        self.modules, self.rounding = tuple(modules), rounding
        for module in modules:
            _check_rounding(module, rounding, None)
        for module in modules:
            _replace(module, rounding)
        self.number = next(_numbers)
        for module in modules:
            _holders.setdefault(module, {})[self.number] = rounding
        weakref.finalize(self, _end, self.number, self.modules).atexit = False

    def __deepcopy__(self, memo):
        return _Use(self.modules, self.rounding)

    def __reduce__(self):
        return _Use, (self.modules, self.rounding)


def _check_rounding(module, rounding, own):
    """Refuses another rounding than that of the models that hold the module's functions."""
    def others():
        return [held for number, held in _holders.get(module, {}).items() if number != own and held != rounding]

    if others() and gc.collect() is not None and others():
        raise RuntimeError(
            f"rounding is {rounding!r}, but another enabled model rotates by {module} with rounding={others()[0]!r}, and "
            f"both have its functions; pass rounding={others()[0]!r}, or disable that model"
        )


def _replace(module, rounding):
    import_module(module)
    if module in _replaced:
        if all(ours.rounding == rounding for _, ours in _replaced[module].values()):
            return
        _restore(module)
    for owner, name, function in functions_of(sys.modules[module]):
        original = getattr(function, "replaces", function)
        ours = replacement(original, formula_of(original), rounding)
        ours.rounding = rounding
        _replaced.setdefault(module, {})[owner, name] = original, ours
        _set(owner, name, ours)


def _restore(module):
    for (owner, name), (original, ours) in _replaced.pop(module, {}).items():
        # What somebody else has put in the place of ours stays.
        if getattr(owner, name, None) is ours:
            _set(owner, name, original)


def _end(number, modules):
    for module in modules:
        held = _holders.get(module, {})
        held.pop(number, None)
        if not held:
            _holders.pop(module, None)
            _restore(module)


class Enabled:
    """The result of `enable`. As a context manager it disables the model at the end.

    model: the model. functions: the names of the replaced functions. unused: those that this model does not call as it
    is configured, each with the reason. rotates: whether any is left.
    """

    def __init__(self, model, functions, unused):
        self.model, self.functions, self.unused = model, functions, unused

    @property
    def rotates(self) -> bool:
        return len(self.unused) < len(self.functions)

    def __repr__(self):
        return f"Enabled({type(self.model).__name__}, functions={self.functions}, unused={self.unused})"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        disable(self.model)


def enable(
    model: torch.nn.Module, *, rounding: Rounding = "once", exact: bool = False, model_type: str | None = None
) -> Enabled:
    """Rotates queries and keys of the model by rope_kernels; returns what was replaced, and whether the model uses it.
    Other models of the same modeling module in this process are rotated so too, as long as this one is enabled.

    rounding: 16-bit tensors are rounded "once", or as "eager" transformers does, for its bits. exact: cos and sin come
    from the exact angles of the model's configuration, and not from f32 products. model_type: the type by whose rules
    exact=True reads the configuration, where the model has a type of its own.

    Raises RuntimeError, and changes nothing, for a model whose function has a formula that is not known here; where
    another enabled model has the same functions with another rounding; and with exact=True for one whose cos and sin are
    not known to follow from its configuration and the positions alone.
    """
    _check_module(model)
    if rounding not in ("once", "eager"):
        raise ValueError(f"rounding is {rounding!r}; it must be one of once, eager")
    if model_type is not None and not exact:
        raise ValueError(f"model_type is {model_type!r}; without exact=True no configuration is read: leave it out")
    formulas, owners = {}, {}
    for module in _modules(model):
        for owner, name, function in functions_of(sys.modules[module]):
            formula = formula_of(getattr(function, "replaces", function))
            if formula is None:
                raise RuntimeError(f"{module}.{name} has no formula that is known; rope_kernels does not replace it")
            formulas.setdefault(module, {})[name] = formula
            owners[module, name] = owner
    for module in _modules(model):
        for name, reason in NOT_OURS.items():
            if not formulas and hasattr(sys.modules[module], name):
                raise RuntimeError(f"{module}.{name} {reason}; rope_kernels does not replace it")
    if not formulas:
        raise RuntimeError(f"{type(model).__name__} has no function that rotates and is known; nothing is replaced")
    rotaries = dict(_rotary_modules(model))
    for rotary in rotaries:
        _check_repeated(rotary, list(formulas.get(type(rotary).__module__, {}).values()))
    forwards = {}
    if exact:
        forwards = {rotary: _exact_forward(rotary, config, model_type) for rotary, config in rotaries.items()}
        for module in set(formulas) - {type(rotary).__module__ for rotary in rotaries}:
            raise RuntimeError(
                f"{type(model).__name__} has no rotary module of {module}: it does not rotate, or by cos and sin that "
                "are made elsewhere; exact must be False"
            )
    own = getattr(vars(model).get(_USE), "number", None)
    for module in formulas:
        _check_rounding(module, rounding, own)
    disable(model)
    setattr(model, _USE, _Use(formulas, rounding))
    for rotary, forward in forwards.items():
        rotary.forward = forward
    names = [f"{module}.{name}" for module, name in owners]
    unused = {f"{module}.{name}": reason for module, name in owners if (reason := _unused(model, module, name))}
    return Enabled(model, names, unused)


def disable(model: "torch.nn.Module | Enabled") -> torch.nn.Module:
    """Undoes `enable`: the functions of its modules are transformers' own, unless another model is enabled that uses
    them. Returns the model."""
    if isinstance(model, Enabled):
        model = model.model
    _check_module(model)
    for rotary, _ in _rotary_modules(model):
        if _is_exact(rotary):
            del rotary.forward
    vars(model).pop(_USE, None)
    return model


def is_enabled(model: torch.nn.Module) -> bool:
    """Returns whether the model, or the model that it is a copy of, was enabled and not disabled since."""
    _check_module(model)
    return _USE in vars(model)


def _check_module(model):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; it must be a torch.nn.Module")


def _unused(model, module, name):
    """Why a model does not call a function of a module, or None."""
    parts = [part for part in model.modules() if type(part).__module__ == module]
    configs = [part.config for part in parts if hasattr(part, "config")]
    for config in configs:
        kind = getattr(config, "position_embedding_type", None)
        if isinstance(kind, str) and kind not in ("rope", "rotary"):
            return f"position_embedding_type is {kind!r}"
        if getattr(config, "alibi", False):
            return "alibi is set: attention is biased by distance, and nothing rotates"
    # The names through which a class of the module reaches the function.
    functions = {key: value for key, value in vars(sys.modules[module]).items() if isinstance(value, types.FunctionType)}
    names, before = {name}, set()
    while names != before:
        before = set(names)
        names |= {key for key, function in functions.items() if names & _mentioned(function.__code__)}
    for cls in {cls for part in parts for cls in type(part).__mro__}:
        for function in vars(cls).values():
            code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
            if code is not None and names & _mentioned(code):
                return None
    return "no module of the model calls it"


def _mentioned(code):
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*(_mentioned(each) for each in inner))


def _set(owner, name, function):
    setattr(owner, name, staticmethod(function) if inspect.isclass(owner) else function)


def _modules(model):
    """The modeling modules of the model's parts."""
    parts = (part for part in model.modules() if hasattr(getattr(part, "config", None), "model_type"))
    modules = (type(part).__module__ for part in parts)
    return [module for module in dict.fromkeys(modules) if module in sys.modules]


def _rotary_modules(part, config=None):
    """The modules that make cos and sin, each with its configuration: its own, or that of the part it belongs to."""
    config = getattr(part, "config", config)
    if "Rotary" in type(part).__name__:
        yield part, config
    for child in part.children():
        yield from _rotary_modules(child, config)


def _is_exact(rotary):
    return getattr(vars(rotary).get("forward"), "func", None) is _exact


def _taken(rotary, positions, layer_type=None, dtype=torch.float32):
    """The ways in which a rotary module takes positions: how many axes they have, whether each has a column, and pairs
    of positions and what the module makes of them. Positions are `[batch, tokens]`, `[axes, batch, tokens]` or, in
    columns, `[tokens, axes]`. RuntimeError if it takes none.
    """
    forward = type(rotary).forward.__get__(rotary) if _is_exact(rotary) else rotary.forward
    named = {} if layer_type is None else {"layer_type": layer_type}

    failures = []

    def made(given, extents):
        try:
            with torch.no_grad():
                tables = forward(torch.empty(1, dtype=dtype), given, **named)
        except Exception as error:  # Whatever it fails with, it does not take them.
            failures.append(f": {error}")
            return []
        is_pair = isinstance(tables, tuple) and len(tables) == 2
        return [(given, tables)] if is_pair and all(list(table.shape[:-1]) == extents for table in tables) else []

    tokens = len(positions)
    of_tokens = made(positions[None], [1, tokens])
    each = torch.stack([positions.roll(axis) for axis in range(4)])
    ways = [(axes, False, made(each[:axes, None], [1, tokens])) for axes in (2, 3, 4)]
    ways += [(axes, True, made(each[:axes].T, [tokens])) for axes in (2, 3, 4)]
    ways = [(axes, columns, taken + of_tokens) for axes, columns, taken in ways if taken]
    if ways or of_tokens:
        return ways or [(1, False, of_tokens)]
    raise RuntimeError("it does not return cos and sin of positions" + "".join(failures[:1]))


def _layer_types(rotary):
    """The types of layers of which a rotary module has frequencies, or None if it has one set of them."""
    names = [name.removesuffix("_inv_freq") for name, _ in rotary.named_buffers() if name.endswith("_inv_freq")]
    return [name for name in names if "original" not in name] or [None]


_REPEATS = ("halves", "pairs", "none")
_PLACES = {
    "halves": lambda table: table.unflatten(-1, (2, -1)).unbind(-2),
    "pairs": lambda table: table.unflatten(-1, (-1, 2)).unbind(-1),
}


def _check_repeated(rotary, formulas):
    """The kernels read each value once: where its two places differ (HunYuan-VL), they rotate otherwise."""
    places = [_PLACES.get(formula.repeat) for formula in formulas]
    if not places or None in places:
        return
    for layer_type in _layer_types(rotary):
        try:
            ways = _taken(rotary, torch.arange(6), layer_type)
        except RuntimeError:
            continue
        for tables in (tables for *_, taken in ways for _, tables in taken):
            if not any(all(torch.equal(*of(table)) for table in tables) for of in places):
                raise RuntimeError(
                    f"{type(rotary).__name__}: the channels of a pair have angles of their own, and the kernels one "
                    "for both; nothing is replaced"
                )


def _exact(known, axes, columns, sines_first, keeps_f32, x, position_ids, layer_type=None):
    """The forward function of a rotary module, with exact angles."""
    rotation, repeat = known[None if None in known else layer_type]
    if axes == 1:
        positions, extents = position_ids.reshape(-1), position_ids.shape
    elif columns:
        positions, extents = position_ids.T[:, None], position_ids.shape[:1]
    else:
        positions, extents = position_ids.expand(axes, -1, -1), position_ids.shape[-2:]
    dtype = torch.float32 if keeps_f32 else x.dtype
    cos, sin = (
        table.reshape(*extents, table.shape[-1]).to(x.device, dtype)
        for table in rotation.rows(positions.cpu(), repeat)
    )
    return (sin, cos) if sines_first else (cos, sin)


def _exact_forward(rotary, config, model_type=None):
    """`_exact` for a rotary module, if it makes cos and sin of positions as its configuration says."""
    try:
        if any(True for _ in rotary.parameters()):
            raise RuntimeError("its frequencies are learned")
        parameters = getattr(config, "rope_parameters", None) or {}
        for found in (parameters, *(value for value in parameters.values() if isinstance(value, dict))):
            if found.get("rope_type") in ("dynamic", "longrope"):
                raise RuntimeError(f"the frequencies of the scaling {found['rope_type']} change with the length")
        known, ways = {}, set()
        for layer_type in _layer_types(rotary):
            *known[layer_type], way = _exact_rotation(rotary, config, layer_type, model_type)
            ways.add(way)
        if len(ways) > 1:
            raise RuntimeError("its types of layers take positions in different ways")
        return functools.partial(_exact, known, *ways.pop())
    except RuntimeError as error:
        raise RuntimeError(f"{type(rotary).__name__}: {error}; exact must be False") from None


def _exact_rotation(rotary, config, layer_type, model_type):
    """The rotation of a module's frequencies, its way to repeat values, and what else `_exact` has to know."""
    # Scalings change slow frequencies, which far positions tell apart. Tables end before them.
    far = min(getattr(config, "max_position_embeddings", None) or 1024, 1024) - 1
    positions = torch.tensor([0, 1, 2, 3, 5, far // 8, far])
    ways = _taken(rotary, positions, layer_type)
    refusals = []
    for choice in _choices(config, layer_type):
        try:
            # As the model's code reads the file: what it ignores, its cos and sin do not have.
            rotation = Rotation(config, lenient=True, model_type=model_type, **choice)
        except RuntimeError as error:
            refusals.append(str(error))
            continue
        ways_of_it = [(columns, taken) for axes, columns, taken in ways if axes == rotation.axes]
        for (columns, taken), repeat, sines_first in itertools.product(ways_of_it, _REPEATS, (False, True)):
            how = (rotation.axes, columns, sines_first)
            exact = functools.partial(_exact, {None: (rotation, repeat)}, *how, True, torch.empty(1))
            if all(_are_near(exact(given), tables) for given, tables in taken):
                (_, (cos, _)), *_ = _taken(rotary, positions, layer_type, torch.bfloat16)[0][2]
                return rotation, repeat, (*how, cos.dtype == torch.float32)
        refusals.insert(0, "its cos and sin are other ones than its configuration says" + _of_short_frequencies(rotary))
    raise RuntimeError(refusals[0])


def _of_short_frequencies(rotary):
    for name, buffer in rotary.named_buffers():
        if name.endswith("inv_freq") and buffer.dtype in (torch.bfloat16, torch.float16):
            return (
                f", because {name} became {str(buffer.dtype).removeprefix('torch.')} (model.to rounds it; "
                "from_pretrained(dtype=..) keeps it in float32)"
            )
    return ""


def _choices(config, layer_type):
    """Arguments of `Rotation` for one set of frequencies."""
    if layer_type is not None:
        yield dict(layer_type=layer_type)
    yield {}
    for name in dict.fromkeys(getattr(config, "layer_types", None) or []):
        yield dict(layer_type=name)
    # Where some layers do not rotate, a rotation is that of a layer.
    for layer in range(getattr(config, "num_hidden_layers", None) or 0):
        yield dict(layer=layer)


def _are_near(ours, theirs):
    """Whether cos and sin of at most 1024 positions differ by no more than the rounding of f32 angles."""
    return all(x.shape == y.shape and torch.allclose(x, y.float(), rtol=5e-4, atol=5e-4) for x, y in zip(ours, theirs))
