"""Writes models/types.jsonl and types_frequencies.txt: what the models of an installed transformers rotate and norm, by
running their code.

    python3 tests/golden/models.py run FOLDER [TYPE ..]   writes both files into FOLDER, of all types or of these
    python3 tests/golden/models.py run FOLDER only CASES TYPE ..    the same, of the cases whose names match alone
    python3 tests/golden/models.py merge FOLDER           puts the new cases of such a run into models/types.jsonl
    python3 tests/golden/models.py defaults               renews models/defaults.jsonl, what a class has where a file
                                                          says nothing
    python3 tests/golden/models.py published [NAME ..]    renews golden/published/cases.jsonl, of all files there or these
    python3 tests/golden/models.py keys                   renews models/keys.txt, the keys that a type's own source names,
                                                          and without_rotation.txt, the types whose source has none
    python3 tests/golden/models.py without-row            names the types of transformers that have no row here

`run` never reads the crate's table of types, whose test the cases are. It goes over transformers' registry. For each type
it makes configurations: one with the shape alone, and others with the keys that the type's own source mentions, every
scaling, other lengths, heads and numbers of layers. It builds the type's model, small and with random weights, and runs
it once. Wrappers around the functions that rotate call them on one-hot vectors with the cos and sin of that very call:
from these maps come pairing, direction, window, axes, frequencies and factor of each layer. Norms of queries and keys are
run on random data, and named by the formula whose bits they have. Of models that need images or sound the attention of
each layer runs alone. Everything that a map does not say is on stderr; models/cases.jsonl has cases of most of these.

Needs transformers, torch (CPU) and about 8 GB of memory; CI does not run it. Written for transformers 5.24.0.
"""

import copy
import dataclasses
import gc
import importlib
import inspect
import json
import math
import os
import pathlib
import re
import struct
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))
import model_rows  # noqa: E402

os.environ.setdefault("USE_HUB_KERNELS", "0")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.manual_seed(0)

ROTATIONS = re.compile(r"\w*apply_\w*(rotary|rope|multimodal)\w*|rotate_(?!half)\w+|apply_rotary\w*")
INPUTS = (
    "q",
    "k",
    "v",
    "query",
    "key",
    "value",
    "x",
    "xq",
    "xk",
    "tensor",
    "query_states",
    "key_states",
    "query_layer",
    "key_layer",
    "value_layer",
    "hidden_states",
    "q_states",
    "k_states",
    "q_rot",
    "k_rot",
    "qk",
)


def modeling(configuration):
    package = configuration.__module__.rpartition(".")[0]
    name = configuration.__module__.rpartition(".")[2].replace("configuration_", "modeling_")
    path = pathlib.Path(importlib.import_module(package).__file__).parent
    names = [p.stem for p in sorted(path.glob("modeling_*.py"))]
    names.sort(key=lambda n: n != name)
    return [importlib.import_module(f"{package}.{n}") for n in names]


def model_classes(configuration):
    """The model classes made of that configuration, the barest first."""
    found = []
    for module in modeling(configuration):
        for name, member in vars(module).items():
            if (
                inspect.isclass(member)
                and issubclass(member, transformers.PreTrainedModel)
                and member.__module__ == module.__name__
            ):
                if member.config_class is configuration and not name.endswith("PreTrainedModel"):
                    found.append(member)
    return sorted(
        found,
        key=lambda m: (
            "For" in m.__name__,
            not m.__name__.endswith(("Model", "Encoder", "Decoder", "Transformer")),
            len(m.__name__),
        ),
    )


TOKENS = 13
# Coordinates in -1..1 have this as the denominator of a position.
UNITS = 8192
POWERS = [0] + [2**k for k in range(TOKENS - 1)]


def f32_hex(x):
    return struct.pack(">f", x).hex()


class Stop(Exception):
    pass


class Observer:
    """Wraps the rotating functions, the attention and the norms of a modeling module, and keeps what they do."""

    def __init__(self, modules, model_builder, layer_count):
        self.rotations, self.norms, self.attends = [], [], []
        self.layer, self.attention, self.undo, self.order = None, [], [], 0
        self.modules, self.count, self.inside = modules, layer_count, False
        self.outputs, self.seen = [], {}
        for module in modules:
            for name, member in list(vars(module).items()):
                if inspect.isfunction(member) and member.__module__ == module.__name__:
                    if ROTATIONS.fullmatch(name):
                        self.patch(module, name, self.rotating(member, name))
                    if name == "eager_attention_forward":
                        self.patch(module, name, self.attending(member))
                elif (
                    inspect.isclass(member)
                    and member.__module__ == module.__name__
                    and issubclass(member, torch.nn.Module)
                ):
                    for method, function in list(vars(member).items()):
                        static = isinstance(function, staticmethod)
                        plain = function.__func__ if static else function
                        if inspect.isfunction(plain) and (
                            ROTATIONS.fullmatch(method)
                            or (
                                method == "forward"
                                and "Rotary" in name
                                and {"q", "k"} <= set(inspect.signature(plain).parameters)
                            )
                        ):
                            wrapped = self.rotating(plain, f"{name}.{method}")
                            self.patch(member, method, staticmethod(wrapped) if static else wrapped)
        self.model = model_builder()
        for path, part in self.model.named_modules():
            if isinstance(part, torch.nn.ModuleList):
                for index, layer in enumerate(part):
                    if len(part) == layer_count:
                        layer.register_forward_pre_hook(self.enter(path, index))
                        layer.register_forward_hook(self.leave(path, index))
            if re.search(r"Attention|Mixer|MLA$|Indexer", type(part).__name__):
                part.register_forward_pre_hook(self.enter_attention(part))
                part.register_forward_hook(self.leave_attention(part))
                for name, child in part.named_children():
                    identity = isinstance(child, torch.nn.Identity)
                    if not identity and "norm" in (name + type(child).__name__).lower():
                        child.register_forward_hook(self.normed(name, part))

    def patch(self, owner, name, new):
        self.undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, new)

    def close(self):
        for owner, name, old in reversed(self.undo):
            setattr(owner, name, old)

    def enter(self, path, index):
        def hook(*_):
            self.stack = getattr(self, "stack", [])
            self.stack.append(self.layer)
            self.layer = (path, index)

        return hook

    def leave(self, path, index):
        def hook(*_):
            self.layer = self.stack.pop()

        return hook

    def enter_attention(self, part):
        def hook(*_):
            self.attention.append(part)

        return hook

    def leave_attention(self, part):
        def hook(*_):
            if part in self.attention:
                self.attention.remove(part)

        return hook

    def normed(self, name, part):
        def hook(module, args, output):
            if self.inside:
                return
            self.order += 1
            self.norms.append(
                {
                    "name": name,
                    "module": module,
                    "shape": tuple(args[0].shape),
                    "layer": self.layer,
                    "order": self.order,
                    "attention": part,
                    "output": output,
                }
            )

        return hook

    def attending(self, original):
        def wrapped(module, query, key, value, *args, **kwargs):
            scaling = kwargs.get("scaling", args[1] if len(args) > 1 else None)
            self.attends.append(
                {
                    "layer": self.layer,
                    "head_dim": query.shape[-1],
                    "scaling": scaling,
                    "query": query.detach(),
                    "key": key.detach(),
                    "module": module,
                }
            )
            return original(module, query, key, value, *args, **kwargs)

        return wrapped

    def rotating(self, original, name):
        signature = inspect.signature(original)

        def wrapped(*args, **kwargs):
            before = len(self.rotations)
            output = original(*args, **kwargs)
            if self.inside:
                return output
            self.inside = True
            try:
                bound = signature.bind(*args, **kwargs)
                self.order += 1
                record = {
                    "function": name,
                    "layer": self.layer,
                    "order": self.order,
                    "attention": self.attention[-1] if self.attention else None,
                }
                given = [
                    key
                    for key, value in bound.arguments.items()
                    if key in INPUTS
                    and isinstance(value, torch.Tensor)
                    and value.is_floating_point()
                    and value.dim() >= 3
                ]
                outputs = output if isinstance(output, (tuple, list)) else (output,)
                outputs = [one for one in outputs if isinstance(one, torch.Tensor)]
                record["given"] = given
                record["outputs"] = [one.detach() for one in outputs]
                seen = (
                    name,
                    tuple(
                        (
                            (key, tuple(value.shape) if key in given else value.detach().numpy().tobytes())
                            if isinstance(value, torch.Tensor)
                            else repr(value)[:40]
                        )
                        for key, value in bound.arguments.items()
                    ),
                )
                if seen not in self.seen:
                    self.seen[seen] = [
                        self.map_of(original, bound, key, at) for at, key in enumerate(given[: len(outputs)])
                    ]
                record["maps"] = self.seen[seen]
                if any(isinstance(own, torch.Tensor) for own in record["maps"]):
                    # What it calls rotates parts of the same heads.
                    del self.rotations[before:]
                self.rotations.append(record)
            finally:
                self.inside = False
            return output

        wrapped.__name__ = getattr(original, "__name__", name)
        return wrapped

    def map_of(self, original, bound, key, at):
        """The linear map of each token: [tokens, out, in], or None if heads differ."""
        given = bound.arguments[key]
        width = given.shape[-1]
        columns = []
        for channel in range(width):
            one = torch.zeros_like(given)
            one[..., channel] = 1
            bound.arguments[key] = one
            output = original(*bound.args, **bound.kwargs)
            outputs = output if isinstance(output, (tuple, list)) else (output,)
            outputs = [o for o in outputs if isinstance(o, torch.Tensor)]
            columns.append(outputs[at].detach())
        bound.arguments[key] = given
        made = torch.stack(columns, -1)  # [.., out, in]
        axes = [axis for axis in range(made.dim() - 2) if made.shape[axis] == self.tokens]
        if not axes:
            return None
        made = made.movedim(axes[0], 0).reshape(self.tokens, -1, made.shape[-2], made.shape[-1])
        if not (made == made[:, :1]).all():
            return "heads differ"
        return made[:, 0]


def structure(M, positions):
    """Pairs and factor of the maps of tokens, the first of which stands at position 0."""
    T, out, width = M.shape
    first = M[0]
    moving = (M != first).any(1).any(0).nonzero().flatten().tolist()
    factor = first[:, moving].abs().max().item() if moving else 1.0
    places = first.abs().argmax(0).tolist()
    at = dict(enumerate(places))
    if sorted(places) != list(range(width)) or out != width:
        return None
    back = {i: j for j, i in at.items()}
    touched = (M != 0).any(0)  # [out, in]
    pairs = {}
    for j in moving:
        rows = [i for i in touched[:, j].nonzero().flatten().tolist() if i != at[j]]
        if len(rows) != 1:
            return None
        pairs[j] = back[rows[0]]
    if any(pairs.get(k) != j for j, k in pairs.items()):
        return None
    lows = sorted(j for j in pairs if j < pairs[j])
    return {"factor": factor, "at": at, "pairs": [(j, pairs[j]) for j in lows], "moving": moving, "width": width}


def angle_of(M, at, j, k, tokens, positions):
    """The angle of one step, from tokens at these rising positions of one axis."""
    estimate = None
    for token, position in zip(tokens, positions):
        if position == 0:
            continue
        angle = math.atan2(M[token, at[k], j].item(), M[token, at[j], j].item())
        if estimate is None:
            estimate = angle / position
        else:
            turns = round((estimate * position - angle) / (2 * math.pi))
            estimate = (angle + 2 * math.pi * turns) / position
    return estimate


def buffers(model):
    found = []
    for path, part in model.named_modules():
        for name, value in list(vars(part).items()) + list(part._buffers.items()):
            if (
                "freq" in name
                and isinstance(value, torch.Tensor)
                and not value.is_complex()
                and value.numel() > 0
                and value.is_floating_point()
            ):
                flat = value.detach().float().flatten()
                if flat.numel() <= 4096:
                    found.append(flat)
    return found


def factors(model):
    found = []
    for part in model.modules():
        for name, value in vars(part).items():
            if name.endswith("attention_scaling") and isinstance(value, (int, float)):
                found.append(float(value))
    return found


def rotation_of(M, model, positions, axes=1):
    """Describes a map in the words of a case, or returns the reason why no case can describe it."""
    if M is None or isinstance(M, str):
        return M or "no token axis"
    memo = model.__dict__.setdefault("memo_of_maps", {})
    if id(M) not in memo:
        memo[id(M)] = rotation_of_map(M, model, positions, axes)
    return copy.deepcopy(memo[id(M)])


def rotation_of_map(M, model, positions, axes):
    """Describes a map by the given positions, or by the positions of models that count for themselves."""
    made = rotation_at(M, model, positions, axes)
    if axes == 1 and isinstance(made, dict) and not made.pop("explained"):
        counted = rotation_at(M, model, list(range(1, TOKENS)), axes)
        if isinstance(counted, dict) and counted.pop("explained"):
            return {**counted, "counted": True}
    if isinstance(made, dict):
        made.pop("explained", None)
    return made


def blocks(M, model, positions, axes, shape, distance):
    """Describes a head whose parts are paired by themselves: each part as a head, put together."""
    pairs, width = shape["pairs"], 2 * distance
    if shape["width"] % width or len(pairs) != shape["width"] // 2:
        return f"blocks {pairs[:4]}"
    parts = [rotation_at(M[:, at : at + width, at : at + width], model, positions, axes)
             for at in range(0, shape["width"], width)]
    told = next((part for part in parts if isinstance(part, str)), None)
    if told:
        return told
    if any(part["pairing_in"] != "half" or part["pairing_out"] != "half" for part in parts):
        return "blocks of other pairs"
    made = {**parts[0], "width": shape["width"], "rotary_dim": shape["width"], "pairing_in": "blocks-half",
            "pairing_out": "blocks-half", "pairs_in": pairs, "pairs_out": pairs}
    made["inv_freq"] = [own for part in parts for own in part["inv_freq"]]
    made["axes"] = [own for part in parts for own in part["axes"]]
    return made


def full_width(M, model, shape, runs, positions):
    """Describes halves whose two channels turn by separate axes, because their rows of cos and sin have the full width."""
    at, pairs, width = shape["at"], shape["pairs"], shape["width"]
    if pairs != [(j, j + width // 2) for j in range(width // 2)] or any(at[j] != j for j in at):
        return "two axes of other pairs"
    known, freqs, axes = buffers(model), [], []
    for row in range(width):
        other, sign = pairs[row % (width // 2)][row < width // 2], -1 if row < width // 2 else 1
        # That row of the map alone, as a pair whose first channel has its cos and its sin.
        own = torch.stack([M[:, row, row], sign * M[:, row, other]], 1)[..., None]
        found = [(axis, tokens) for axis, tokens in runs if not all(torch.equal(own[t], own[0]) for t in tokens)]
        if len(found) != 1:
            return "a channel follows two axes"
        axes.append(found[0][0])
        freqs.append(angle_of(own, {0: 0, 1: 1}, 0, 1, found[0][1], POWERS[1:] if positions is None else positions))
    half = width // 2
    near = lambda ours, list_: list_.numel() == half and all(
        abs(freq - list_[n % half].item()) <= 2e-5 * list_[n % half].item() + 1e-7 for n, freq in enumerate(ours))
    chosen = next((list_ for list_ in known if near(freqs, list_)), None)
    if chosen is None:
        return "two axes of other frequencies"
    return {"explained": True, "width": width, "offset": 0, "rotary_dim": width, "pairing_in": "half",
            "pairing_out": "half", "direction": 1, "inv_freq": [f32_hex(x) for x in chosen.tolist()],
            "attention_factor_f64": min(factors(model) + [1.0], key=lambda x: abs(x - shape["factor"])),
            "axes": axes[:half], "axes_second": axes[half:]}


def rotation_at(M, model, positions, axes):
    shape = structure(M, positions)
    if shape is None:
        return "not pairs"
    at, pairs = shape["at"], shape["pairs"]
    if not pairs:
        return "identity"
    distances = {k - j for j, k in pairs}
    base = min(j for j, _ in pairs)
    if distances == {1} and len(pairs) > 1 or (len(pairs) == 1 and distances == {1}):
        kind = "interleaved"
    elif len(distances) == 1:
        kind = "half"
    else:
        return f"pairs {pairs[:4]}"
    known = buffers(model)
    freqs, theirs = [], []
    directions, axis_of = set(), []
    runs = (
        [(0, list(range(1, TOKENS)))]
        if axes == 1
        else [(a, list(range(1 + a * (TOKENS - 1), 1 + (a + 1) * (TOKENS - 1)))) for a in range(axes)]
    )
    for j, k in pairs:
        found = None
        for axis, tokens in runs:
            if all(torch.equal(M[t, :, j], M[0, :, j]) for t in tokens):
                continue
            if found is not None:
                return full_width(M, model, shape, runs, positions)
            found = axis
            freqs.append(angle_of(M, at, j, k, tokens, POWERS[1:] if positions is None else positions))
        axis_of.append(found)
        directions.add(1 if freqs[-1] > 0 else -1)
    if len(directions) != 1:
        return "directions differ"
    direction = directions.pop()
    unit = getattr(model, "unit_of_angles", 1.0)
    freqs = [f * direction / unit for f in freqs]
    near = lambda a, b: abs(a - b) <= 2e-5 * abs(b) + 1e-7
    if kind == "half":
        distance = distances.pop()
        count, offset = distance, base
        if any(j >= base + distance for j, _ in pairs):
            return blocks(M, model, positions, axes, shape, distance)
        place = {j - base: n for n, (j, _) in enumerate(pairs)}
        # Pairs that stand still at the beginning cannot be seen.
        if base and shape["width"] >= 2 * distance and base + 2 * distance > shape["width"]:
            count, offset = distance, 0
            place = {j: n for n, (j, _) in enumerate(pairs)}
    else:
        if any((j - base) % 2 for j, _ in pairs):
            return "odd pairs"
        count, offset = (pairs[-1][1] - base + 1) // 2, base
        place = {(j - base) // 2: n for n, (j, _) in enumerate(pairs)}
    values, axis_list = [], []
    chosen = None
    for list_ in known:
        if (
            kind == "interleaved"
            and list_.numel() > count
            and (list_[count:] == 0).all()
            and 2 * list_.numel() + offset <= shape["width"]
        ):
            if all(near(freqs[n], list_[p].item()) for p, n in place.items()):
                count = list_.numel()
        if (
            list_.numel() == count
            and all(near(freqs[n], list_[p].item()) for p, n in place.items())
            and all(list_[p] == 0 for p in range(count) if p not in place)
        ):
            chosen = list_
            break
    union = sorted({x for list_ in known for x in list_.tolist()})
    for p in range(count):
        n = place.get(p)
        if chosen is not None:
            values.append(chosen[p].item())
        elif n is None:
            values.append(0.0)
        else:
            best = min(union, key=lambda x: abs(x - freqs[n]), default=None)
            values.append(best if best is not None and near(freqs[n], best) else freqs[n])
        axis_list.append(axis_of[n] if n is not None else None)
    if kind == "half":
        first, second = at[offset], at[offset + count]
        out = "half" if second - first == count else "interleaved" if second - first == 1 else "other"
    else:
        first, second = at[offset], at[offset + 1]
        out = "interleaved" if second - first == 1 else "half" if second - first == count else "other"
    factor = min(factors(model) + [1.0], key=lambda x: abs(x - shape["factor"]))
    if abs(factor - shape["factor"]) > 1e-6:
        factor = shape["factor"]
    made = {
        "explained": chosen is not None,
        "width": shape["width"],
        "offset": offset,
        "rotary_dim": 2 * count,
        "pairing_in": kind,
        "pairing_out": out,
        "direction": direction,
        "inv_freq": [f32_hex(v) for v in values],
        "attention_factor_f64": factor,
    }
    if axes > 1:
        made["axes"] = axis_list
    return made


# Norms.


def norm_references(x, w, b, eps, heads):
    F = torch.nn.functional
    dtype, x32 = x.dtype, x.float()
    r = torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps)
    if w is None:
        yield "LLAMA4", (x32 * r).to(dtype)
        return
    if w.dim() == 1:
        yield "LLAMA", w * (x32 * r).to(dtype)
        yield "OLMO2", (w * (x32 * r)).to(dtype)
        yield "GEMMA", ((x32 * r) * (1.0 + w.float())).to(dtype)
        power = torch.pow(x32.pow(2).mean(-1, keepdim=True) + eps, -0.5)
        yield "GEMMA3N", ((x32 * power) * w.float()).to(dtype)
        if b is not None:
            yield "LAYER_NORM", F.layer_norm(x, (x.shape[-1],), w, b, eps)
        else:
            yield "LAYER_NORM without bias", F.layer_norm(x, (x.shape[-1],), w, None, eps)
    else:
        for axis in range(x.dim() - 1):
            if x.shape[axis] == w.shape[0]:
                shaped = w.reshape([w.shape[0] if a == axis else 1 for a in range(x.dim() - 1)] + [w.shape[1]])
                mean = x32.mean(-1, keepdim=True)
                c = x32 - mean
                v = c.pow(2).mean(-1, keepdim=True)
                yield "COHERE", (shaped.float() * (c * torch.rsqrt(v + eps))).to(dtype)
                if b is not None:
                    sb = b.reshape(shaped.shape)
                    yield "CHAMELEON", F.layer_norm(x, (x.shape[-1],), None, None, eps) * shaped + sb
                pieces = [F.layer_norm(x.select(axis, h), (x.shape[-1],), w[h], None, eps) for h in range(w.shape[0])]
                yield "STABLE_LM", torch.stack(pieces, axis)


def norm_of(event, head_dim):
    module, shape = event["module"], event["shape"]
    parameters = dict(module.named_parameters())
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        made = copy.deepcopy(module).to(dtype)
        for hooks in (made._forward_hooks, made._forward_pre_hooks):
            hooks.clear()
        with torch.no_grad():
            for p in made.parameters():
                p.copy_(torch.rand_like(p.float()) + 0.25)
            x = (torch.randn(shape) * 2e-3).to(dtype)
            try:
                y = made(x)
            except TypeError:
                return {"formula": "other"}  # it takes queries and keys at once
            own = list(made.parameters())
            names = [n for n, _ in made.named_parameters()]
            w = b = None
            if any(n.startswith("norms.") for n in names):
                w = torch.stack([p for n, p in zip(names, own) if n.endswith("weight")])
            elif own:
                w = own[names.index("weight")]
                b = own[names.index("bias")] if "bias" in names else None
            if w is not None and w.dim() == 2 and w.shape[0] == 1:
                pass
            eps_s = [
                v
                for n, v in list(vars(made).items()) + [(n, getattr(m, "eps", None)) for n, m in made.named_modules()]
                if ("eps" in n or n.startswith("norms")) and isinstance(v, float)
            ]
            eps_s += [getattr(made, "eps", None)] if isinstance(getattr(made, "eps", None), float) else []
            eps_s = list(dict.fromkeys(eps_s + [1e-5, 1e-6]))
            hits = set()
            for eps in eps_s:
                for name, reference in norm_references(x, w, b, eps, None):
                    if reference.shape == y.shape and torch.equal(reference, y):
                        hits.add((name, eps))
        results.append(hits)
    both = results[0] & results[1]
    names = {n for n, _ in both}
    weights = "none" if not parameters else None
    numel = sum(p.numel() for n, p in parameters.items() if n.endswith("weight"))
    bias = any(n.endswith("bias") for n in parameters)
    if not names or len({e for _, e in both}) != 1:
        return {"formula": "other"}
    # torch's pow by -0.5 is its rsqrt: what is said here is said of each.
    formula, eps = (
        "|".join(sorted(names)).replace("LAYER_NORM without bias", "STABLE_LM"),
        sorted(e for _, e in both)[0],
    )
    reach = "head"
    if shape[-1] != head_dim:
        x = torch.randn(shape)
        with torch.no_grad():
            one = copy.deepcopy(module)
            one._forward_hooks.clear()
            one = one.float()
            y0 = one(x)
            x2 = x.clone()
            x2[..., :head_dim] *= 3
            y1 = one(x2)
        reach = "head" if torch.equal(y0[..., head_dim:], y1[..., head_dim:]) else "row"
    if weights is None:
        weights = "shared" if numel <= head_dim else "per head"
    return {"formula": formula, "eps": f32_hex(eps), "reach": reach, "weights": weights, "bias": bias}


QUERIES = {"q_norm", "q_layernorm", "query_layernorm", "q_layer_norm", "q_b_norm", "qk_norm", "norm_q", "query_norm"}
VALUES = {"v_norm"}
# A norm of the rotated channels of keys alone.
ROTATED_KEYS = {"k_rope_only_layernorm"}

# Configurations.

WIDTH = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "width")
HEADS = (
    "num_attention_heads",
    "n_heads",
    "n_head",
    "num_heads",
    "decoder_num_attention_heads",
    "heads",
    "encoder_attention_heads",
)
DEPTH = (
    "num_hidden_layers",
    "n_layers",
    "n_layer",
    "depth",
    "num_layers",
    "decoder_num_hidden_layers",
    "layers",
    "encoder_layers",
)
CONTEXT = ("max_position_embeddings", "max_seq_len", "n_positions", "model_max_length", "max_seq_length")


def own_key(configuration, names):
    fields = {f.name for f in dataclasses.fields(configuration)}
    usual = names[0]
    mapped = configuration.attribute_map.get(usual)
    if mapped:
        return mapped
    return next((name for name in names if name in fields), None)


def tiny(configuration, model_type, given):
    """Returns the settings that make the model small and leave its rotation alone."""
    made = {}
    for field in dataclasses.fields(configuration):
        name, value = field.name, field.default
        if name in given or value is dataclasses.MISSING:
            continue
        if re.search(r"vocab_size|vocabulary_size", name) and isinstance(value, int):
            made[name] = 64
        elif re.search(r"^(pad|bos|eos|sep|mask|cls)_token_id$", name):
            made[name] = 1
        elif re.search(
            r"intermediate_size|ffn_dim|ffn_hidden|n_inner|mlp_dim|intermediate_dim|feed_forward", name
        ) and isinstance(value, int) and not name.startswith("chunk"):
            made[name] = 32
        elif re.search(
            r"^(num_experts|n_routed_experts|num_local_experts|moe_num_experts|n_experts|num_moe_experts)$", name
        ) and isinstance(value, int):
            made[name] = 4
        elif (
            re.search(r"experts_per_tok|^top_k|topk$|moe_topk|moe_k$|num_experts_per_token|moe_top_k", name)
            and isinstance(value, int)
            and "group" not in name
            and "index" not in name
        ):
            made[name] = 2
        elif re.search(r"^(n_group|topk_group)$", name) and isinstance(value, int):
            made[name] = 1
        elif re.search(r"lora_rank|q_lora_rank", name) and isinstance(value, int):
            made[name] = 16
        elif name in ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "swa_num_key_value_heads") and isinstance(
            value, int
        ):
            made[name] = 4
        elif "dropout" in name and isinstance(value, float):
            made[name] = 0.0
    return {**made, **OVERRIDES.get(model_type, {})}


# Parts of others, whose rotation no case is of.
PART = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16}
TOWER = {"model_type": "timm_wrapper", "architecture": "resnet10t"}
OVERRIDES = {
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] * 25},
    "dots3_note_audio_encoder": {"adapter_input_size": 512},
    "dots3_note_vision_encoder": {"adapter_in_dim": 96, "num_local_experts": 2},
    "esm": {"vocab_size": 64, "pad_token_id": 1},
    "evolla": {"protein_encoder_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                                          "intermediate_size": 32}, "resampler_heads": 2, "resampler_dim_head": 8},
    "idefics": {"vision_config": {"embed_dim": 32, "image_size": 28, "patch_size": 14, "num_attention_heads": 2,
                                  "num_hidden_layers": 1, "intermediate_size": 32}},
    "dots3_note_text": {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                        "shared_experts_intermediate_size": 32, "num_key_value_heads": 4, "index_n_heads": 2,
                        "index_topk": 8, "swa_num_key_value_heads": 4},
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 256, "indexer_budget": 64,
                       "indexer_compress_ratio": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "pe_audio_video_encoder": {"audio_config": PART, "video_config": {**PART, "vision_config": TOWER}},
    "pe_video_encoder": {"vision_config": TOWER},
    "gradium_phonon_tts": {"flow_head_config": {"condition_dim": 96}},
    "granitemoehybrid": {"mamba_n_heads": 8},
    "kyutai_speech_to_text": {"audio_bos_token_id": 1, "audio_pad_token_id": 1},
    "bamba": {"mamba_n_heads": 8},
    "deepseek_v2": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "nemotron": {"num_key_value_heads": 4},
    "nemotron3_5_transcribe_word_timestamp": {"blank_token_id": 3},
    "nemotron3_5_transcribe_asr_audio": {},
    "pocket_tts": {"flow_head_config": {"condition_dim": 96}},
    "zaya": {"num_experts_per_tok": 1},
    "chameleon": {"vocabulary_map": {"<image>": 3}},
    "gemma3n_text": {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 16, "laurel_rank": 8},
    "diffusion_gemma_text": {"num_experts": 4, "moe_intermediate_size": 32, "top_k_experts": 2},
    "dbrx": {"ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}},
    "dots1": {
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 99,
    },
}
ATTRIBUTES = {
    "t5_gemma_module": {"dropout_rate": 0.0},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "moonshine_streaming": {"num_key_value_heads": 4},
}
# What a type's files have to have.
NEEDS = {
    "dots3_note_text": {"swa_num_attention_heads": 4},
    "dots3_note_vision_encoder": {"num_hidden_layers": 42},
    "qwen2_vl_vision": {"embed_dim": 96},
    "zamba2": {"num_hidden_layers": 54},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv", "full_attention", "conv", "conv"]},
    "dbrx": {"attn_config": {"rope_theta": 23456.0, "clip_qkv": 8.0}},
    "ministral": {"head_dim": 32},
    "hunyuan_v1_dense": {"head_dim": 32},
    "hunyuan_v1_moe": {"head_dim": 32},
    "hunyuan_vl": {"head_dim": 32},
    "hunyuan_vl_text": {"head_dim": 32},
    "step3p5": {"sliding_window": 16},
    "bamba": {"attn_layer_indices": [1, 3]},
    "esm": {"position_embedding_type": "rotary"},
    "granitemoehybrid": {"position_embedding_type": "rope", "layer_types": ["mamba", "attention"] * 3 + ["mamba"]},
}
# A shape in the other names that a class has for its keys.
NAMES = {
    "dots3_note_vision_encoder": {"embed_dim": 96, "num_heads": 4, "num_hidden_layers": 42},
    "exaone": {"hidden_size": 96, "num_attention_heads": 4, "num_layers": 7},
    "step3p5_vision": {"width": 96, "heads": 4, "layers": 7},
}
# Keys of published files that a class never reads.
IGNORED = {name: {"position_embedding_type": "absolute"} for name in ("modernbert", "modernbert-decoder")}
WIDE = {"helium": 512, "moonshine_streaming": 160, "mimi": 512, "mimi_decoder": 512, "pocket_tts_audio_tokenizer": 512,
        "pocket_tts_audio_tokenizer_decoder": 512, "glm4v_text": 256, "glm_image_text": 256, "glm_ocr_text": 256,
        "minimax_m3_vl_vision": 160}
# Layers enough for each of a class's lists to end.
DEEPEST = {"mllama_text_model": 46}
# Axes that parameters have to have.
SECTIONS = {"hunyuan_vl": [4, 4, 4, 4], "hunyuan_vl_text": [4, 4, 4, 4]}
AXES = {"neomme": 2, "qwen3_omni_moe_talker_code_predictor": 1, "qwen3_omni_moe_code2wav": 1,
        "minimax_m3_vl_vision": 3, "dinov3_vit": 2, "eomt_dinov3": 2, "sapiens2": 2, "hunyuan_vl": 4, "hunyuan_vl_text": 4}


def is_axial(configuration):
    """Returns True for a class of images or videos: axes are rows and columns, and frames."""
    try:
        return (getattr(configuration(), "rope_parameters", None) or {}).get("rope_type") == "axial"
    except Exception:
        return False


def axes_of(model_type, configuration):
    if model_type in AXES:
        return AXES[model_type]
    if is_axial(configuration):
        return 2
    return 3 if "mrope_section" in source_of(configuration) else 1


SCALINGS = {
    "linear": {"rope_type": "linear", "rope_theta": 500000.0, "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 500000.0, "factor": 2.0},
    "alpha": {"rope_type": "dynamic", "rope_theta": 500000.0, "factor": 1.0, "alpha": 1000.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 1024},
    "mscale": {
        "rope_type": "yarn",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "original_max_position_embeddings": 1024,
        "mscale": 0.7,
        "mscale_all_dim": 0.9,
    },
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "deepseek-yarn": {"rope_type": "deepseek_yarn", "rope_theta": 500000.0, "factor": 8.0,
                      "original_max_position_embeddings": 1024},
    "mrope-type": {"rope_type": "mrope", "rope_theta": 500000.0},
    "axial": {"rope_type": "axial", "rope_theta": 500000.0},
    "proportional": {"rope_type": "proportional", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
}

# Parameters with a part of the head, scaled and not.
PARTS = {
    "partial": {"rope_type": "default", "rope_theta": 54321.0, "partial_rotary_factor": 0.5},
    "yarn-partial": {**SCALINGS["yarn"], "partial_rotary_factor": 0.5},
}

# Parameters of classes that fail with fewer, whose heads are odd with others, or that have a base of their own.
BETA = {"llama_4_scaling_beta": 0.1}
LONG = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
WHOLE = {
    "mistral4": {
        "mscale": {**LONG, **BETA, "rope_theta": 500000.0, "mscale": 0.7, "mscale_all_dim": 0.9,
                   "partial_rotary_factor": 0.5},
        "theta-less": {**LONG, **BETA, "partial_rotary_factor": 0.5},
    },
    "ministral3": {"theta-less": {**LONG, **BETA}},
    "deepseek_v4": {"mrope-type": {"rope_type": "mrope"}},
    "moonshine": {name: {**SCALINGS[name], "partial_rotary_factor": 0.5}
                  for name in ("dynamic", "mscale", "mrope-type")},
    "phimoe": {"longrope-partial": {
        "rope_type": "longrope", "rope_theta": 500000.0, "factor": 4.0, "partial_rotary_factor": 0.5,
        "short_factor": [1.0 + i / 8 for i in range(6)], "long_factor": [2.0 + i / 4 for i in range(6)],
        "short_mscale": 1.25, "long_mscale": 1.5, "original_max_position_embeddings": 1024}},
}

# Keys of files that some class reads, with a value that is nobody's default.
KEYS = {
    "rope_theta": 123456.0,
    "rotary_emb_base": 23456.0,
    "global_rope_theta": 23456.0,
    "local_rope_theta": 3456.0,
    "rope_local_base_freq": 3456.0,
    "rotary_pct": 0.5,
    "partial_rotary_factor": 0.5,
    "rotary_dim": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 24,
    "kv_channels": 24,
    "global_head_dim": 48,
    "compress_rope_theta": 77777.0,
    "swa_rope_theta": 7777.0,
    "rope_interleave": False,
    "rotary_value": True,
    "alibi": True,
    "use_mem_rope": True,
    "position_embedding_type": "rope",
    "no_rope_layer_interval": 3,
    "layer_rope_theta": "layers",
    "no_rope_layers": "flags",
    "rope_scaling_layers": [1, 3],
    "cross_attention_layers": [1, 2],
    "attn_layer_indices": [1, 2],
    "full_attn_idxs": [1, 4],
    "sliding_window_pattern": 3,
    "global_attn_every_n_layers": 2,
    "full_attention_interval": 3,
    "layer_group_size": 3,
    "sliding_window": None,
    "block_types": ["attention", "recurrent"],
    "compress_ratios": "ratios",
    "original_max_position_embeddings": 512,
    "rms_norm_eps": 3e-4,
    "layer_norm_eps": 3e-4,
    "norm_eps": 3e-4,
    "layer_norm_epsilon": 3e-4,
    "use_qk_norm": None,
    "qk_layernorm": None,
    "qk_norm_type": "olmo",
    "projection_dim": 512,
    "memory_attention_hidden_size": 128,
    "memory_attention_num_attention_heads": 2,
    "memory_attention_downsample_rate": 2,
    "head_dim": 24,
}


def source_of(configuration):
    """The configuration's own file, and what it inherits in other folders."""
    text = ""
    for member in configuration.__mro__:
        if member.__module__.startswith("transformers.models."):
            text += inspect.getsource(member)
    for module in modeling(configuration):
        text += inspect.getsource(module)
    return text


# What a file has to switch on before other keys are read.
SWITCHES = {
    "cohere": {"use_qk_norm": True},
    "phi": {"qk_layernorm": True},
    "stablelm": {"qk_layernorm": True},
    "zamba2": {"use_mem_rope": True},
}


def variants(model_type, configuration):
    """The shape of a file, and that with one more key, or some, of a class each."""
    own, sections = SWITCHES.get(model_type), SECTIONS.get(model_type)
    for name, given in plain_variants(model_type, configuration):
        if sections and "rope_parameters" in given:
            own_sections = given["rope_parameters"].get("mrope_section", sections)
            given = {**given, "rope_parameters": {**given["rope_parameters"], "mrope_section": own_sections}}
        yield name, given
        if own and set(own) - set(given):
            yield f"{name}-on", {**given, **own}


def plain_variants(model_type, configuration):
    source = source_of(configuration)
    fields = {f.name: f for f in dataclasses.fields(configuration)}
    keys = [own_key(configuration, names) for names in (WIDTH, HEADS, DEPTH, CONTEXT)]
    width, heads, depth, context = keys
    wide = 512 if "mrope" in source or "recomposition" in source or "rotary_dim" in fields else 96
    wide = 96 if is_axial(configuration) else wide
    wide = WIDE.get(model_type, wide)
    shape = {}
    if width:
        shape[width] = wide
    if heads:
        shape[heads] = 4
    if depth:
        shape[depth] = 7
    if context:
        shape[context] = 8192
    shape.update(NEEDS.get(model_type, {}))
    other_head = {"head_dim": 40 if wide == 96 else 160}
    yield "bare", shape
    yield "theta", {**shape, "rope_theta": 123456.0}
    yield "parameters", {**shape, "rope_parameters": {"rope_type": "default", "rope_theta": 54321.0}}
    # Whose base counts: that of the class, or one beside the parameters.
    yield "theta-less", {**shape, "rope_parameters": {"rope_type": "default"}}
    yield "theta-beside", {**shape, "rope_theta": 123456.0, "rope_parameters": {"rope_type": "default"}}
    if "rope_scaling" in inspect.getsource(configuration):
        yield "older", {**shape, "rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}
    yield "head", {**shape, **other_head}
    for name, parameters in SCALINGS.items():
        yield name, {**shape, "rope_parameters": parameters}
    if "head_dim" in fields:
        # Some scalings fail without one.
        yield "head-mscale", {**shape, **other_head, "rope_parameters": SCALINGS["mscale"]}
    yield "partial", {**shape, "rope_parameters": PARTS["partial"]}
    yield "partial-beside", {**shape, "rope_theta": 123456.0, "partial_rotary_factor": 0.5}
    # A part that is no class's default, with the sections that it has.
    sections = lambda pairs: {"mrope_section": [pairs - pairs * 3 // 8 * 2, pairs * 3 // 8, pairs * 3 // 8]}
    of_axes = sections if "mrope_section" in source and model_type not in SECTIONS else lambda _: {}
    yield "quarter", {
        **shape,
        "partial_rotary_factor": 0.25,
        "rope_parameters": {"rope_type": "default", "rope_theta": 54321.0, **of_axes(wide // 32)},
    }
    if "mrope_section" in source:
        whole = of_axes(wide // 8)
        yield "proportional-sections", {
            **shape, "rope_parameters": {**SCALINGS["proportional"], **whole}}
        yield "theta-less-sections", {**shape, "rope_parameters": {"rope_type": "default", **whole}}
        yield "theta-beside-sections", {
            **shape, "rope_theta": 123456.0, "rope_parameters": {"rope_type": "default", **whole}}
        halves = of_axes(wide // 16) or {"mrope_section": [own // 2 for own in SECTIONS[model_type]]}
        yield "yarn-partial-sections", {**shape, "rope_parameters": {**PARTS["yarn-partial"], **halves}}
    # What a class does not obey by itself its scalings may.
    yield "yarn-partial", {**shape, "rope_parameters": PARTS["yarn-partial"]}
    yield "proportional-beside", {
        **shape,
        "partial_rotary_factor": 0.5,
        "rope_parameters": {"rope_type": "proportional", "rope_theta": 500000.0},
    }
    if heads:
        # Whether the channels of a head are a quotient, where the shape has as many.
        yield "heads", {**shape, heads: 8}
        yield "heads-head", {**shape, heads: 8, "head_dim": wide // 4}
    if context:
        yield "dynamic-context", {**shape, context: 1024, "rope_parameters": SCALINGS["dynamic"]}
    factors = {"short_factor": "short", "long_factor": "long"}
    for name, length in (("longrope-short", 8192), ("longrope-long", 1024)):
        yield name, {
            **shape,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 500000.0,
                "factor": 4.0,
                **factors,
                "original_max_position_embeddings": length,
            },
        }
    # Keys that one class of LongRoPE has, and what another does without.
    own = {"rope_type": "longrope", "rope_theta": 500000.0, "factor": 4.0, **factors}
    yield "longrope-512", {**shape, "rope_parameters": {**own, "original_max_position_embeddings": 512}}
    yield "longrope-bare", {**shape, "rope_parameters": own}
    magnitudes = {"short_mscale": 1.25, "long_mscale": 1.5, "original_max_position_embeddings": 1024}
    yield "longrope-mscale", {**shape, "rope_parameters": {**own, **magnitudes}}
    given = {**own, "original_max_position_embeddings": 1024}
    yield "longrope-factorless", {**shape, "rope_parameters": {k: v for k, v in given.items() if k != "factor"}}
    yield "longrope-plain", {**shape, "rope_parameters": {k: v for k, v in own.items() if k != "factor"}}
    usual = {"hidden_size": wide, "num_attention_heads": 4, "num_hidden_layers": 7, "max_position_embeddings": 8192}
    if usual != shape and set(usual) - set(shape):
        yield "usual", {**usual, **NEEDS.get(model_type, {})}
    if context and context != CONTEXT[0]:
        for name, both in (
            ("both", {CONTEXT[0]: 1024, context: 8192}),
            ("both-turned", {context: 8192, CONTEXT[0]: 1024}),
        ):
            yield name, {**shape, **both, "rope_parameters": SCALINGS["dynamic"]}
    if model_type in IGNORED:
        yield "ignored", {**shape, **IGNORED[model_type]}
    if model_type in NAMES:
        yield "names", NAMES[model_type]
    if NEEDS.get(model_type):
        less = {key: value for key, value in shape.items() if key not in NEEDS[model_type]}
        yield "needs", less
        if model_type in SECTIONS:
            default = {"rope_type": "default", "rope_theta": 54321.0}
            yield "needs-sections", {**less, "rope_parameters": default}
            # Of heads that the file does not say: some number of channels, and the width over the heads.
            for pairs in (24, wide // 8):
                yield f"needs-sections-{pairs}", {
                    **less, "rope_parameters": {**default, "mrope_section": [pairs // 4] * 4}}
    for name, own in WHOLE.get(model_type, {}).items():
        yield f"whole-{name}", {**shape, "rope_parameters": own}
    if depth and "layer_types" not in shape:
        yield "deep", {**shape, depth: 25}
        yield "one", {**shape, depth: 1}
        if "sliding_attention" in source:
            yield "all-full", {**shape, "layer_types": ["full_attention"] * 7, "sliding_window": None}
        if model_type in DEEPEST:
            yield "deepest", {**shape, depth: DEEPEST[model_type]}
    for key, value in KEYS.items():
        if not re.search(rf"\b{key}\b", source) or key in ("rope_theta", "partial_rotary_factor", "head_dim"):
            continue
        if shape.get(key) == value:
            continue
        if value == "layers":
            value = [123.0, 0.0, 456.0, 0.0, 123.0, 789.0, 456.0]
        elif value == "flags":
            value = [1, 0, 1, 1, 0, 1, 1]
        elif value == "ratios":
            value = [0, 128, 4, 128, 4, 0, 4]
        if value is None and key != "sliding_window":
            for flag in (True, False):
                yield f"{key}-{flag}".lower(), {**shape, key: flag}
            continue
        yield key, {**shape, key: value}
        if key == "qk_rope_head_dim" and "mrope" in source:
            yield f"{key}-wide", {**shape, key: 96}
        if key == "layer_rope_theta":
            given = {"rope_type": "default", "rope_theta": 54321.0}
            yield f"{key}-same", {**shape, key: [own and 54321.0 for own in value], "rope_parameters": given}
        if key == "rope_scaling_layers":
            yield f"{key}-linear", {**shape, key: value, "rope_parameters": SCALINGS["linear"]}
    kinds = re.findall(r"\"(\w+_attention|hybrid|hybrid_sliding)\"", source)
    if "layer_types" in source:
        nested = {
            kind: {"rope_type": "default", "rope_theta": 1000.0 * (n + 3)}
            for n, kind in enumerate(sorted(set(kinds)))
        }
        if nested:
            yield "by-layer", {**shape, "rope_parameters": nested}
            yield "by-layer-head", {**shape, **other_head, "rope_parameters": nested}
            less = {"rope_parameters": {kind: {"rope_type": "default"} for kind in nested}}
            yield "by-layer-theta-less", {**shape, **less}
            yield "by-layer-theta-beside", {**shape, **less, "rope_theta": 123456.0}
            for name in ("mrope-type", "alpha", "mscale", "yarn-partial", "llama3", "partial", "proportional"):
                own = SCALINGS.get(name) or PARTS[name]
                yield f"by-layer-{name}", {**shape, "rope_parameters": {kind: own for kind in nested}}
            yield "by-layer-partial-beside", {**shape, "rope_parameters": nested, "partial_rotary_factor": 0.5}
            own = {"rope_parameters": {
                kind: {"rope_type": "proportional", "rope_theta": 500000.0} for kind in nested}}
            yield "by-layer-proportional-whole", {**shape, **own}
            yield "by-layer-proportional-beside", {**shape, **own, "partial_rotary_factor": 0.5}
            # What a class has for types of layers that its own files have none of.
            if depth and "layer_types" not in shape:
                listed = [sorted(nested)[layer % len(nested)] for layer in range(7)]
                windows = {"sliding_window": 4} if "sliding_window" in fields else {}
                yield "by-type", {**shape, **windows, "layer_types": listed[::-1]}


def finished(given, head_dim):
    """Lists of LongRoPE's factors, which have the length of the rotation."""
    text = json.dumps(given)
    if '"short"' not in text:
        return given
    n = head_dim // 2
    made = json.loads(text)
    made["rope_parameters"]["short_factor"] = [1.0 + i / 8 for i in range(n)]
    made["rope_parameters"]["long_factor"] = [2.0 + i / 4 for i in range(n)]
    return made


# Runs.


def run(model_type, configuration, given, axes=1):
    """The case of one configuration, by running the model that its class makes."""
    keys = {**json.loads(json.dumps(given)), **tiny(configuration, model_type, given)}
    config = configuration.from_dict(keys)
    if model_type in FLAT:
        config = CONFIG_MAPPING[model_type].from_dict(keys).get_text_config()
    config._attn_implementation = "eager"
    classes = model_classes(configuration)
    if model_type in BUILT:
        module, _, name = BUILT[model_type].rpartition(".")
        classes = [getattr(importlib.import_module(module), name)]
    if not classes:
        from transformers.models.auto.modeling_auto import MODEL_MAPPING

        classes = [MODEL_MAPPING[configuration]]
    for key, value in ATTRIBUTES.get(model_type, {}).items():
        setattr(config, key, value)
    modules = modeling(configuration)
    modules += [m for m in [sys.modules[classes[0].__module__]] if m not in modules]
    depth = own_key(configuration, DEPTH)
    count = getattr(config, depth) if depth else None
    last = None
    for chosen in CHOSEN.get(model_type, classes[:4]):

        def build():
            torch.manual_seed(0)
            return chosen(copy.deepcopy(config)).eval()

        observer = Observer.__new__(Observer)
        try:
            observer.tokens = TOKENS if axes == 1 else 1 + axes * (TOKENS - 1)
            observer.__init__(modules, build, count)
            try:
                call(observer.model, config, observer.tokens, axes)
                CALLED.add(model_type)
            except Exception as error:
                # What runs as a whole by other keys fails by these.
                of_tokens = {"input_ids", "inputs_embeds"} & set(inspect.signature(chosen.forward).parameters)
                if model_type in CALLED or axes > 1 and of_tokens:
                    raise
                alone(observer, config, error, axes)
            # Tokens of its own making cannot be told apart.
            seen = [own for record in observer.rotations for own in record["maps"]]
            if seen and axes == 1 and model_type not in COMPRESSING and None in [own if own is None else 0 for own in seen]:
                alone(observer, config, Stop("no token axis"), axes)
            CHOSEN[model_type] = [chosen]
            return config, observer
        except Exception as error:
            last = last or error
        finally:
            observer.close()
    raise last


CHOSEN, CALLED = {}, set()
# Types that rotate tokens of their own making too, beside those of the file.
COMPRESSING = {"deepseek_v4"}
# Configurations that no class of the registry is made of, and a decoder whose heads an encoder beside it would change.
BUILT = {"t5_gemma_module": "transformers.models.t5gemma.modeling_t5gemma.T5GemmaEncoder",
         "moonshine": "transformers.models.moonshine.modeling_moonshine.MoonshineDecoder",
         "edgetam_video": "transformers.models.edgetam_video.modeling_edgetam_video.EdgeTamVideoMemoryAttention",
         "sam2_video": "transformers.models.sam2_video.modeling_sam2_video.Sam2VideoMemoryAttention",
         "sam3_tracker_video":
             "transformers.models.sam3_tracker_video.modeling_sam3_tracker_video.Sam3TrackerVideoMemoryAttention"}


# What models need beside tokens.
FURTHER = {
    "idefics": lambda tokens: {"pixel_values": torch.randn(1, 1, 3, 28, 28),
                               "image_attention_mask": torch.ones(1, tokens, 1)},
    "wav2vec2-conformer": lambda _: {"input_values": torch.randn(1, 8000)},
}


def call(model, config, tokens, axes):
    names = inspect.signature(model.forward).parameters
    position_ids = positions_of(axes) if axes == 1 else positions_of(axes)[:, None]
    arguments = FURTHER.get(config.model_type, lambda _: {})(tokens)
    if "position_ids" in names:
        arguments["position_ids"] = position_ids
    if "use_cache" in names:
        arguments["use_cache"] = False
    main = next((name for name in ("input_ids", "inputs_embeds", "input_values") if name in names), None)
    width = getattr(config, "hidden_size", None)
    with torch.no_grad():
        if main == "input_ids":
            arguments["input_ids"] = torch.arange(tokens)[None] % 40 + 2
        elif main and main not in arguments:
            arguments[main] = torch.randn(1, tokens, width)
        elif not main:
            raise Stop(f"inputs {list(names)}")
        if "cross_attention_states" in names:
            arguments["cross_attention_states"] = torch.randn(1, 5, width)
        if "encoder_hidden_states" in names:
            arguments["encoder_hidden_states"] = torch.randn(1, 5, width)
        try:
            model(**arguments)
        except Exception:
            if "inputs_embeds" not in names or main != "input_ids":
                raise
            del arguments["input_ids"]
            model(**arguments, inputs_embeds=torch.randn(1, tokens, width))


def positions_of(axes):
    """The positions of tokens, [axes, tokens]: token 0 is at 0, and runs of the others move along one axis each."""
    if axes == 1:
        return torch.tensor([POWERS])
    made = torch.zeros(axes, 1 + axes * (TOKENS - 1), dtype=torch.long)
    for axis in range(axes):
        made[axis, 1 + axis * (TOKENS - 1) : 1 + (axis + 1) * (TOKENS - 1)] = torch.tensor(POWERS[1:])
    return made


def alone(observer, config, error, axes):
    """Runs the attention of each layer by itself, with the rows that the model's own module of rotary embeddings makes:
    of models whose inputs are not tokens."""
    model, count = observer.model, observer.tokens
    # The outermost are those of the model itself: others are its parts'.
    depth = lambda found: found[0].count(".")
    rotary = [(path, part) for path, part in model.named_modules() if re.search("Rotary|RoPE|Rope", type(part).__name__)
              and {"position_ids", "pixel_values"} & set(inspect.signature(part.forward).parameters)]
    # A part of a model, whose layers no key counts.
    lists = [(path, part) for path, part in model.named_modules()
             if isinstance(part, torch.nn.ModuleList) and observer.count in (None, len(part))]
    if not rotary or not lists:
        raise error
    rotary, (path, layers) = min(rotary, key=depth)[1], min(lists, key=depth)
    of_coordinates = "pixel_values" in inspect.signature(rotary.forward).parameters
    if of_coordinates:
        # Coordinates of patches in -1..1, which the angles count turns of.
        of_modules, coordinates = sys.modules[type(rotary).__module__], positions_of(axes).T.float() / UNITS
        observer.patch(of_modules, "get_patches_center_coordinates", lambda *_, **__: coordinates)
        model.unit_of_angles = 2 * math.pi / UNITS
        pixels = torch.zeros(1, 3, 64, 64)
    # Modules of images take tokens with or without a batch, or as rows and columns, and positions [tokens, axes].
    ids = [positions_of(axes)] if axes == 1 else [positions_of(axes).T, positions_of(axes).T[None]]
    shapes = [(1, count)] if axes == 1 else [(count,), (1, count), (1, 1, count)]
    kinds = getattr(config, "layer_types", None)
    of_kind, last = "layer_type" in inspect.signature(rotary.forward).parameters, None
    for position_ids, shape in ((own, shape) for own in ids for shape in shapes):
        observer.rotations, observer.norms, observer.attends, observer.attention = [], [], [], []
        observer.stack, observer.layer = [], None
        try:
            for index, layer in enumerate(layers):
                # The first is that of the layer itself: others look elsewhere.
                found = [part for part in layer.modules() if "Attention" in type(part).__name__
                         and "position_embeddings" in inspect.signature(part.forward).parameters]
                if not found:
                    continue
                names = inspect.signature(found[0].forward).parameters
                width = next(part for part in found[0].modules() if isinstance(part, torch.nn.Linear)).in_features
                states = torch.randn(*shape, width)
                given = {"layer_type": kinds[index]} if of_kind else {}
                rows = rotary(pixels) if of_coordinates else rotary(states, position_ids, **given)
                arguments = {"position_embeddings": rows, "position_ids": position_ids, "attention_mask": None,
                             "past_key_values": None, "cu_seqlens": torch.tensor([0, count]), "max_seqlen": count,
                             "key": states, "value": states}
                # Those of another part, of which there may be none.
                arguments |= {name: states[:, :0] for name in names if name.endswith("_hidden_states")}
                required = {name for name, own in names.items() if own.default is inspect.Parameter.empty
                            and own.kind == own.POSITIONAL_OR_KEYWORD}
                required |= {"position_embeddings", *["position_ids"] * (axes > 1)}
                arguments = {name: value for name, value in arguments.items() if name in required & set(names)}
                observer.layer = (path, index) if observer.count else None
                with torch.no_grad():
                    found[0](states, **arguments)
            maps = observer.rotations[0]["maps"] if observer.rotations else []
            if maps and all(isinstance(own, torch.Tensor) for own in maps):
                return
        except Exception as own:
            last = last or own
    raise last or error


def case_of(model_type, variant, given, config, observer, axes):
    case = {"id": f"{model_type}/{variant}", "model_type": model_type, "config": {"model_type": model_type, **given}}
    model = observer.model
    stacks = {}
    for record in observer.rotations:
        path, index = record["layer"] or (None, None)
        stacks.setdefault(path, []).append(record)
    layered = [path for path in stacks if path is not None]
    if not observer.rotations:
        return {**case, "rotates": False}
    stack = layered[0] if layered else None
    attends = {a["layer"]: a for a in observer.attends}
    by_module = {(a["layer"], id(a["module"])): a for a in observer.attends}
    rotations, of_layer, norms, counts = [], {}, {}, False
    for record in stacks[stack]:
        if "Indexer" in type(record["attention"]).__name__ or not record["maps"]:
            continue
        made = rotation_of(record["maps"][0], model, POWERS[1:], axes)
        if isinstance(made, str):
            if made in ("identity", "no token axis"):
                continue
            raise Stop(made)
        if record["given"][:1] != record["given"][:1]:
            raise Stop("?")
        for other in record["maps"][1:2]:
            again = rotation_of(other, model, POWERS[1:], axes)
            if again != made:
                raise Stop("queries and keys differ")
        values = len(record["maps"]) > 2 and rotation_of(record["maps"][2], model, POWERS[1:], axes) == made
        attention = by_module.get((record["layer"], id(record["attention"])), attends.get(record["layer"]))
        width = made.pop("width")
        counts = made.pop("counted", False)
        head_dim = (
            attention["head_dim"]
            if attention
            else next(
                (
                    getattr(record["attention"], n)
                    for n in ("head_dim", "head_size", "attention_head_size")
                    if hasattr(record["attention"], n)
                ),
                width,
            )
        )
        if attention and head_dim > width:
            out = record["outputs"][0]
            query = attention["query"]
            where = [
                o
                for o in range(head_dim - width + 1)
                for r in (out, out.transpose(1, 2))
                if r.shape[:-1] == query.shape[:-1] and torch.equal(query[..., o : o + width], r)
            ]
            if not where:
                raise Stop("the rotated channels are not found in the query")
            made["offset"] += where[0]
        made["head_dim"] = head_dim
        notes = ["Values are rotated too."] * values
        notes += ["The angle is 2 pi times the coordinate."] * hasattr(model, "unit_of_angles")
        if notes:
            made["note"] = " ".join(notes)
        if attention and attention["scaling"] is not None:
            made["attention_scale"] = float(attention["scaling"])
        if made not in rotations:
            rotations.append(made)
        of_layer.setdefault(record["layer"], set()).add(rotations.index(made))
        # An indexer may rotate before.
        first = min(r["order"] for r in stacks[stack]
                    if r["layer"] == record["layer"] and r["attention"] is record["attention"])
        for event in observer.norms:
            if (
                event["layer"] == record["layer"]
                and event["attention"] is record["attention"]
                and event["name"] in QUERIES
            ):
                own = norm_of(event, head_dim)
                own["place"] = "before" if event["order"] < first else "after"
                own["values"] = any(e["name"] in VALUES and e["layer"] == record["layer"] for e in observer.norms)
                norms[record["layer"]] = own
            if event["attention"] is record["attention"] and event["name"] in ROTATED_KEYS:
                norms[record["layer"]] = {"formula": "other"}
    for layer, found in of_layer.items():
        if len(found) > 1:
            one, other = (dict(rotations[n]) for n in sorted(found)[:2])
            if len(found) == 2 and one.pop("direction") == -other.pop("direction"):
                for key in ("attention_scale", "note"):
                    one.pop(key, None), other.pop(key, None)
                if one == other:
                    forward = next(n for n in found if rotations[n]["direction"] == 1)
                    rotations[forward][
                        "note"
                    ] = "The same layer also applies the opposite rotation (to the attention output)."
                    of_layer[layer] = {forward}
                    continue
            raise Stop("a layer rotates in two ways")
    case["rotates"] = True
    if stack is None:
        case["layers"] = None
    else:
        case["layers"] = []
        for index in range(observer.count):
            layer = (stack, index)
            if layer in of_layer:
                case["layers"].append(next(iter(of_layer[layer])))
            elif observer.attends and layer not in attends:
                case["layers"].append(-1)
            else:
                case["layers"].append(None)
    # A layer of two attentions is two layers.
    attentions = {}
    for record in stacks[stack]:
        attentions.setdefault(record["layer"], set()).add(id(record["attention"]))
    times = {len(own) for own in attentions.values()}
    if (
        stack is not None
        and times != {1}
        and len(times) == 1
        and getattr(config, "num_hidden_layers", None) == observer.count * max(times)
    ):
        case["layers"] = [entry for entry in case["layers"] for _ in range(max(times))]
    for event in observer.norms:
        if (
            event["layer"]
            and event["layer"][0] == stack
            and event["layer"] not in norms
            and event["name"] in QUERIES
            and event["layer"] in attends
        ):
            own = norm_of(event, attends[event["layer"]]["head_dim"])
            own["place"] = "before"
            own["values"] = any(e["name"] in VALUES and e["layer"] == event["layer"] for e in observer.norms)
            norms[event["layer"]] = own
    case["rotations"] = rotations
    case["counts"] = counts
    kinds = getattr(config, "layer_types", None)
    if kinds:
        case["types"] = list(kinds)
    case["norms"] = norms
    attending = [l for l in (attends or of_layer) if l and l[0] == stack]
    different = {json.dumps(norms.get(l), sort_keys=True) for l in (attending or of_layer)}
    case["norm"] = json.loads(different.pop()) or {} if len(different) == 1 else "layers"
    if case["norm"] == "layers":
        case["norm"] = [norms.get((stack, i)) for i in range(observer.count)]
    del case["norms"]
    return case


def cases_of(model_type, configuration, only):
    axes = axes_of(model_type, configuration)
    head, broken = 24, 0
    for variant, given in variants(model_type, configuration):
        if variant != "bare" and broken:
            return
        if variant != "bare" and only and not re.fullmatch(only, variant):
            continue
        try:
            config, observer = run(model_type, configuration, finished(given, head), axes)
        except Stop as error:
            yield None, f"{model_type}/{variant}: {error}"
            broken |= variant == "bare"
            continue
        except Exception as error:
            # What this machine, or the size of the tokens' table, cannot do says nothing of the class.
            own = not re.search("alloc|index out of range in self", str(error))
            if variant == "bare" or not own:
                yield None, f"{model_type}/{variant}: {type(error).__name__} {str(error)}"[:300]
            if not own:
                continue
            yield {
                "id": f"{model_type}/{variant}",
                "model_type": model_type,
                "config": {"model_type": model_type, **finished(given, head)},
                "rotates": None,
                "hf_error": f"{type(error).__name__} {str(error)}"[:120],
            }, None
            continue
        try:
            case = case_of(model_type, variant, finished(given, head), config, observer, axes)
            if variant == "bare" and case["rotates"]:
                head = case["rotations"][0]["rotary_dim"]
            if re.search("dynamic|longrope", json.dumps(given)):
                case["length"] = TOKENS if case.pop("counts", False) else POWERS[-1] + 1
            case.pop("counts", None)
            yield case, None
        except Stop as error:
            yield None, f"{model_type}/{variant}: {error}"


# A type of all layers that a row may leave out.
UNSAID = {"full_attention", "reference_sliding_attention", "sliding_attention"}


def finish(cases):
    """Lines of types.jsonl, each with the cases of one type, and the lists of frequencies."""
    lists, places, out = [], {}, []
    by = {}
    for c in cases:
        by.setdefault(c["model_type"], []).append(c)

    def place(of, value):
        if value not in of:
            of.append(value)
        return of.index(value)

    for t, own in by.items():
        bare = next((c for c in own if c["id"].endswith("/bare") and c["rotates"] and c["rotations"]), None)
        kinds = [set(c.get("types") or []) for c in own]
        differ = any(len(own) > 1 or own - UNSAID for own in kinds)
        # The bare file may be scaled itself.
        squares = "mscale_all_dim" in source_of(configuration_of(t))
        line = {"model_type": t, "config": own[0]["config"], "rotations": [], "norms": [], "cases": []}
        for c in own:
            case = {"id": c["id"].split("/", 1)[1]}
            changed = {k: v for k, v in c["config"].items() if k not in line["config"] or line["config"][k] != v}
            gone = [k for k in line["config"] if k not in c["config"]]
            if changed:
                case["config"] = changed
            if gone:
                case["without"] = gone
            case["rotates"] = c["rotates"]
            if c["rotates"] is None:
                case["hf_error"] = c["hf_error"][:40]
            if "length" in c:
                case["length"] = c["length"]
            if differ and c.get("types"):
                case["types"] = c["types"]
            numbers = []
            for r in c.get("rotations", []):
                r = dict(r)
                text = "".join(r.pop("inv_freq"))
                if text not in places:
                    places[text] = len(lists)
                    lists.append(text)
                r["inv_freq"] = places[text]
                scale = r.pop("attention_scale", None)
                b = bare["rotations"][0] if bare else {}
                if scale is not None and squares:
                    factor = scale * math.sqrt(r["head_dim"])
                    if abs(factor - 1) > 1e-12:
                        r["softmax_factor"] = factor
                elif scale is not None and b.get("attention_scale"):
                    # One of the class's own, whatever the head, or that of the head and a factor.
                    factor = scale / b["attention_scale"] * math.sqrt(r["head_dim"] / b["head_dim"])
                    if abs(scale / b["attention_scale"] - 1) > 1e-12 and abs(factor - 1) > 1e-12:
                        r["softmax_factor"] = factor
                if r.get("offset") == 0:
                    del r["offset"]
                if r["attention_factor_f64"] == 1:
                    del r["attention_factor_f64"]
                numbers.append(place(line["rotations"], r))
            if c["rotates"]:
                if c["layers"] is None:
                    case["rotation"] = numbers[0]
                else:
                    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
                    case["layers"] = "".join(
                        "." if l is None else "-" if l == -1 else digits[numbers[l]] for l in c["layers"]
                    )
                norm = c["norm"]
                case["norm"] = (
                    [place(line["norms"], n or {}) for n in norm]
                    if isinstance(norm, list)
                    else place(line["norms"], norm)
                )
            line["cases"].append(case)
        out.append(line)
    return out, lists


def configuration_of(model_type):
    """The configuration of a type: the registry's, or that of a part of composites."""
    name = CLASSES.get(model_type, model_type)
    return CONFIG_MAPPING[name] if name in CONFIG_MAPPING else configurations()[name]


def run_all(folder, wanted, only=None):
    made = []
    for model_type in wanted or sorted(CONFIG_MAPPING):
        own = []
        try:
            configuration = configuration_of(model_type)
            source = "".join(inspect.getsource(module) for module in modeling(configuration))
            if modeling(configuration) and not re.search("rotary|rope|RoPE|rotate", source):
                continue
            for case, error in cases_of(model_type, configuration, only):
                if error:
                    print(error, file=sys.stderr, flush=True)
                else:
                    own.append(case)
        except Exception as error:
            print(f"{model_type}: {type(error).__name__} {error}", file=sys.stderr, flush=True)
        if any(case["rotates"] is not None for case in own):
            made += own
        gc.collect()
    lines, lists = finish(made)
    folder = pathlib.Path(folder)
    (folder / "types.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    (folder / "types_frequencies.txt").write_text("".join(line + "\n" for line in lists))


def merge(folder):
    """Adds the cases of a run to models/types.jsonl, for the types of the run."""
    own, golden = pathlib.Path(folder), pathlib.Path(__file__).parent / "models"
    lists = (golden / "types_frequencies.txt").read_text().splitlines()
    places = {text: place for place, text in enumerate(lists)}
    new_lists = (own / "types_frequencies.txt").read_text().splitlines()
    lines = {(line := json.loads(text))["model_type"]: line for text in (golden / "types.jsonl").read_text().splitlines()}

    def place(of, value):
        if value not in of:
            of.append(value)
        return of.index(value)

    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    for text in (own / "types.jsonl").read_text().splitlines():
        new = json.loads(text)
        for rotation in new["rotations"]:
            rotation["inv_freq"] = places.setdefault(new_lists[rotation["inv_freq"]], len(places))
        line = lines.setdefault(new["model_type"], {**new, "rotations": [], "norms": [], "cases": []})
        if line["config"] != new["config"]:
            raise SystemExit(f"{new['model_type']}: the first case is another")
        known = {case["id"] for case in line["cases"]}
        for case in new["cases"]:
            if case["id"] in known:
                continue
            turned = [place(line["rotations"], rotation) for rotation in new["rotations"]]
            if "rotation" in case:
                case["rotation"] = turned[case["rotation"]]
            if "layers" in case:
                case["layers"] = "".join(digits[turned[int(c, 36)]] if c not in ".-" else c for c in case["layers"])
            if "norm" in case:
                norm, normed = case["norm"], [place(line["norms"], norm) for norm in new["norms"]]
                case["norm"] = [normed[n] for n in norm] if isinstance(norm, list) else normed[norm]
            line["cases"].append(case)
    lists = sorted(places, key=places.get)
    text = "".join(json.dumps(lines[name], separators=(",", ":")) + "\n" for name in sorted(lines))
    (golden / "types.jsonl").write_text(text)
    (golden / "types_frequencies.txt").write_text("".join(line + "\n" for line in lists))


# Published files.

# Types whose class is another's, by the `auto_map` of their files: Kimi-K2's code is DeepSeek-V3's, under its names.
# And composites whose text model may lie flat in the file: their class makes its configuration of the file's keys.
FLAT = {name: f"{name}_text" for name in ("hunyuan_vl", "paddleocr_vl", "qwen2_vl")}
CLASSES = {"kimi_k2": "deepseek_v3", **FLAT}
SHAPE = {"per_layer_config", "quantization_config", "auto_map", "compression_config"}


def published_class(config):
    """The part of a file that is its text model, and that part's type."""
    part, root = config, config["model_type"]
    if isinstance(config.get("text_config"), dict):
        part = config["text_config"]
    own = part.get("model_type", root)
    if own not in CONFIG_MAPPING and own not in CLASSES or own == root and part is not config:
        own = root + "_text"
    return part, own


def smaller(configuration, model_type, given):
    """The file's keys, but with four heads and what makes the model small. Heads keep their channels."""
    made = {key: value for key, value in given.items() if key not in SHAPE}
    config = configuration.from_dict(copy.deepcopy(made))
    width, heads = own_key(configuration, WIDTH), own_key(configuration, HEADS)
    channels = given.get("head_dim") or getattr(config, width) // getattr(config, heads)
    if "per_layer_config" in given:
        made["per_layer_config"] = given["per_layer_config"]
    made.update({width: 4 * channels, heads: 4, **tiny(configuration, model_type, {})})
    few = r"(key_value|kv|attention)_heads$|^(n_routed|num|num_local)_experts$"
    made.update({key: 4 for key in made if re.search(few, key) and made[key]})
    made.update({key: 2 for key in made if re.search(r"^top_k_experts$|experts_per_tok$", key) and made[key]})
    made.update({key: 32 for key in made if re.search(r"intermediate_size$", key) and made[key]})
    for key in [*made]:
        # Other names of what is small, and what would refuse it.
        other = configuration.attribute_map.get(key)
        if other in made or re.search(r"expert|_token_id|index_n_heads|num_hash", key) and isinstance(made[key], list):
            del made[key]
        elif re.search(r"(linear|index|o)_.*(heads|groups)$", key) and isinstance(made[key], int):
            made[key] = min(made[key], 4)
    return made


def published_case(path):
    """Returns the rotation of a published file's class, as a line of published/cases.jsonl."""
    part, own = published_class(json.loads(path.read_text()))
    configuration = CONFIG_MAPPING[CLASSES.get(own, own)]
    source = source_of(configuration)
    axes = axes_of(own, configuration)
    line = {"file": path.name, "class": configuration.__name__}
    if not re.search("rotary|rope|RoPE|rotate", "".join(inspect.getsource(module) for module in modeling(configuration))):
        return {**line, "rotates": False}
    config, observer = run(own, configuration, smaller(configuration, own, part), axes)
    case = case_of(path.stem, "published", {}, config, observer, axes)
    line["rotates"] = case["rotates"]
    if case["rotates"]:
        for rotation in case["rotations"]:
            rotation["inv_freq_f32_hex"] = "".join(rotation.pop("inv_freq"))
            scale = rotation.pop("attention_scale", None)
            # Others have a scale of their own, which no factor of frequencies is.
            if scale is not None and "mscale_all_dim" in source:
                rotation["attention_scale"] = scale
                factor = scale * math.sqrt(rotation["head_dim"])
                if abs(factor - 1) > 1e-12:
                    rotation["softmax_factor"] = factor
        if isinstance(case["norm"], list):
            case["norm"] = [norm or {} for norm in case["norm"]]
        if len(set(case.get("types") or [])) < 2:
            case.pop("types", None)
        line |= {key: case[key] for key in ("rotations", "layers", "types", "norm") if case.get(key) is not None}
    return line


def published(wanted):
    folder = pathlib.Path(__file__).parent / "published"
    cases = folder / "cases.jsonl"
    known = [json.loads(line) for line in cases.read_text().splitlines()] if cases.exists() and wanted else []
    found = {case["file"]: case for case in known}
    for path in sorted(folder.glob("*.json")):
        if wanted and path.stem not in wanted:
            continue
        try:
            found[path.name] = published_case(path)
            print(f"{path.stem}: {found[path.name]['class']}", flush=True)
        except Exception as error:
            print(f"{path.stem}: {type(error).__name__} {error}"[:400], file=sys.stderr, flush=True)
        gc.collect()
        lines = (json.dumps(found[name], separators=(",", ":")) + "\n" for name in sorted(found))
        cases.write_text("".join(lines))


def without_row():
    # A file has the type of the class, which a few names of the registry are not.
    types = {getattr(configuration, "model_type", name) or name for name, configuration in CONFIG_MAPPING.items()}
    missing = sorted(types - model_rows.names())
    for name in missing:
        print(name)
    print(f"transformers {transformers.__version__}: {len(missing)} of {len(types)} types without a row",
          file=sys.stderr)
    sys.exit(bool(missing))


def parts_of(configuration, given):
    """Returns the parts of a model of that configuration and their shapes, without memory for the model."""
    config = configuration.from_dict(copy.deepcopy(given))
    config._attn_implementation = "eager"
    for key, value in ATTRIBUTES.get(given["model_type"], {}).items():
        setattr(config, key, value)
    classes = model_classes(configuration)
    if given["model_type"] in BUILT:
        module, _, name = BUILT[given["model_type"]].rpartition(".")
        classes = [getattr(importlib.import_module(module), name)]
    if not classes:
        from transformers.models.auto.modeling_auto import MODEL_MAPPING

        classes = [MODEL_MAPPING[configuration]]
    last = None
    for chosen in classes[:4]:
        try:
            with torch.device("meta"):
                model = chosen(config)
        except Exception as error:
            last = last or error
            continue
        found = []
        for path, part in model.named_modules():
            numbers = [f"{name}={value}" for name, value in vars(part).items() if isinstance(value, (int, float))]
            tensors = [f"{name}:{tuple(value.shape)}" for name, value in {**part._buffers, **part._parameters}.items()
                       if value is not None]
            found.append((path, type(part).__name__, sorted(numbers + tensors)))
        return found
    raise last


def of_attention(parts):
    """Returns the parts that belong to an attention."""
    paths = [path for path, name, _ in parts if re.search("Attention|Attn", name)]
    return [part for part in parts if any(part[0] == path or part[0].startswith(path + ".") for path in paths)]


def traits(model_type, configuration):
    """Finds the keys that the models of a class obey, by building some of them: a `head_dim` that changes their attention,
    a part that changes anything, and a norm of queries and keys. A model that cannot be built may have all of them."""
    shape = next(iter(variants(model_type, configuration)))[1]
    given = {"model_type": model_type, **shape, **tiny(configuration, model_type, shape)}
    given.pop("head_dim", None)
    try:
        parts = parts_of(configuration, given)
    except Exception as error:
        print(f"{model_type}: {type(error).__name__} {str(error)}"[:160], file=sys.stderr)
        return ["head_dim", "norm", "partial_rotary_factor"]
    plain = of_attention(parts)
    if not plain:
        return ["head_dim", "norm", "partial_rotary_factor"]  # layers without attention, by the shape alone
    try:
        reads = of_attention(parts_of(configuration, {**given, "head_dim": 40})) != plain
    except Exception:
        reads = True
    try:
        partial = parts_of(configuration, {**given, "partial_rotary_factor": 0.5}) != parts
    except Exception:
        partial = True
    normed = any(path.rpartition(".")[2] in QUERIES for path, _, _ in plain)
    return ["head_dim"] * reads + ["norm"] * normed + ["partial_rotary_factor"] * partial


def keys():
    """Writes the keys of each type with a row: a key that rows name, and the source of its classes or of their models
    names. A class reads no key that its source does not name."""
    # Of those that no row names, what a pairing and a form of rows stand for.
    all_keys, lines = [*model_rows.keys(), "rope_interleave", "rope_parameters"], []
    # What all classes share names keys, too.
    shared = pathlib.Path(inspect.getfile(importlib.import_module("transformers.modeling_rope_utils")))
    for model_type in sorted(model_rows.read(model_rows.TYPES)[0]):
        if CLASSES.get(model_type, model_type) not in CONFIG_MAPPING:
            continue
        configuration = CONFIG_MAPPING[CLASSES.get(model_type, model_type)]
        bases = [base for base in configuration.__mro__ if base.__module__.startswith("transformers.models.")]
        code = [*map(inspect.getsource, bases), *code_of(made_of(configuration)).values()]
        own = set(re.findall(r"\w+", "".join(code)))
        words = own | set(re.findall(r"\w+", shared.read_text()))
        # Whether a class reads a part by what all share is seen of what it builds.
        words -= {"partial_rotary_factor", "rope_parameters"} - own
        named = [key for key in all_keys if key in words]
        of_types = ["layer_types"] * has_layer_types(configuration)
        found = traits(model_type, configuration)
        lines.append(" ".join(dict.fromkeys([model_type, *named, *of_types, *found])))
    text = f"# transformers {transformers.__version__}\n" + "\n".join(lines) + "\n"
    folder = pathlib.Path(__file__).parent / "models"
    (folder / "keys.txt").write_text(text)
    names = "".join(f"{name}\n" for name, one in sorted(configurations().items()) if does_not_rotate(one))
    (folder / "without_rotation.txt").write_text(f"# transformers {transformers.__version__}\n{names}")


def defaults():
    """Writes the defaults of each class whose type has a row. A line is a shape, and the other keys that rows name or
    imply, as `to_dict` of a class with that shape returns them."""
    wanted = {*model_rows.keys(), *SAID} - {*WIDTH, *HEADS, *DEPTH, *CONTEXT}
    lines = []
    for model_type in sorted(model_rows.read(model_rows.TYPES)[0]):
        if model_type not in CONFIG_MAPPING:
            continue
        configuration = CONFIG_MAPPING[model_type]
        names = [own_key(configuration, names) for names in (WIDTH, HEADS, DEPTH, CONTEXT)]
        try:
            plain = configuration()
            shape = {name: getattr(plain, name) for name in names if name and isinstance(getattr(plain, name), int)}
            depth = names[2]
            if depth and shape.get(depth, 0) > 12:
                try:
                    plain, shape[depth] = configuration(**{depth: 12}), 12
                except Exception:
                    pass
            own = plain.to_dict()
        except Exception as error:
            print(f"{model_type}: {type(error).__name__} {str(error)}"[:160], file=sys.stderr)
            continue
        said = {key: own[key] for key in sorted(wanted) if own.get(key) is not None and key not in shape}
        if isinstance(said.get("sliding_window"), int):
            said["sliding_window"] = 4096
        lines.append(json.dumps({"shape": {"model_type": model_type, **shape}, "said": said}, separators=(",", ":")))
    path = pathlib.Path(__file__).parent / "models/defaults.jsonl"
    path.write_text("".join(line + "\n" for line in lines))


# Keys that no row names, as they are the usual ones.
SAID = ("head_dim", "global_head_dim", "layer_types", "rope_parameters", "sliding_window", "qk_nope_head_dim",
        "no_rope_layers", "no_rope_layer_interval", "block_types", "first_k_dense_replace", "mlp_layer_types",
        "prefix_dense_sliding_window_pattern", "compress_ratios", "swa_head_dim", "swa_qk_nope_head_dim",
        "memory_attention_hidden_size", "memory_attention_num_attention_heads", "memory_attention_downsample_rate",
        "projection_dim", "rope_interleave", "use_dsa", "use_sliding_window")


# "property" has a rope in it.
OF_ROTATIONS = re.compile(r"(?i)rotary|(?<!p)rope|rotate_(half|every)|inv_freq|freqs_cis|\bfreqs\b")


def made_of(configuration):
    """The modules that are made of a configuration: its models, or what its folder makes of it."""
    found = model_classes(configuration)
    if not found:
        from transformers.models.auto.modeling_auto import MODEL_MAPPING

        named = lambda own: set(re.findall(r"\w+Config\b", str(own.annotation)))
        of = {member: [named(own) for own in inspect.signature(member.__init__).parameters.values()]
              for module in modeling(configuration) for member in vars(module).values()
              if inspect.isclass(member) and issubclass(member, torch.nn.Module) and member.__module__ == module.__name__}
        # What takes another one too is made of that one, where something takes this one alone.
        found = [member for member, names in of.items() if {configuration.__name__} in names]
        found = found or [member for member, names in of.items() if any(configuration.__name__ in own for own in names)]
        if not found and configuration in MODEL_MAPPING:
            own = MODEL_MAPPING[configuration]
            found = [own] if inspect.isclass(own) else list(own)
    return found


def code_of(classes):
    """The source of the methods of these modules, and of the modules and functions that they name, by their names. What
    a family of models records of its parts is no code of a single one."""
    ours = lambda member: getattr(member, "__module__", "").startswith("transformers.models.")
    todo, seen = list(classes), {}
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        bases, functions = [one], [one]
        if inspect.isclass(one):
            bases = [base for base in one.__mro__ if ours(base) and not base.__name__.endswith("PreTrainedModel")]
            functions = [getattr(own, "__func__", own) for base in bases for own in vars(base).values()]
        functions = [inspect.unwrap(own) for own in functions if callable(own)]
        seen[one] = "".join(inspect.getsource(own) for own in functions if inspect.isfunction(own))
        for module in {sys.modules[base.__module__] for base in bases}:
            for word in set(re.findall(r"\w+", seen[one])):
                member = vars(module).get(word)
                # A table of modules names all of them.
                members = list(member.values()) if isinstance(member, dict) else [member]
                todo += [own for own in members if ours(own) and (
                    inspect.isfunction(own) or inspect.isclass(own) and issubclass(own, torch.nn.Module))]
    return seen


def configurations():
    """The configurations by their types, those too that only composites have."""
    found = {}
    for name in sorted(CONFIG_MAPPING):
        one = CONFIG_MAPPING[name]
        for member in vars(sys.modules[one.__module__]).values():
            if inspect.isclass(member) and issubclass(member, transformers.PreTrainedConfig) and (
                    member.__module__ == one.__module__) and getattr(member, "model_type", ""):
                found.setdefault(member.model_type, member)
        # The classes of parts without a type are named by the whole and the part.
        whole = getattr(one, "model_type", name)
        for part, member in one.sub_configs.items():
            if inspect.isclass(member) and member is not transformers.AutoConfig and not member.model_type:
                found.setdefault(f"{whole}_{part.removesuffix('_config')}", member)
        # A few names of the registry are no types of files.
        if getattr(one, "model_type", name) == name:
            found[name] = one
    return found


def does_not_rotate(configuration):
    """Returns True for a class that has parts with configurations of their own, or whose models name no rotation."""
    if configuration.sub_configs:
        return True
    files = sorted(pathlib.Path(inspect.getfile(configuration)).parent.glob("modeling_*.py"))
    if files and not any(OF_ROTATIONS.search(file.read_text()) for file in files):
        return True
    return not any(OF_ROTATIONS.search(text) for text in code_of(made_of(configuration)).values())


def has_layer_types(configuration):
    """Returns True for a class with types of layers: a field of them, or a list that it makes."""
    names = ("layer_types", "layers_block_type", "block_types")
    if {field.name for field in dataclasses.fields(configuration)} & set(names):
        return True
    try:
        one = configuration()
    except Exception:
        return True
    return any(getattr(one, name, None) for name in names)


def main():
    match sys.argv[1:]:
        case ["run", folder, "only", only, *wanted]:
            run_all(folder, wanted, only)
        case ["run", folder, *wanted]:
            run_all(folder, wanted)
        case ["merge", folder]:
            merge(folder)
        case ["published", *wanted]:
            published(wanted)
        case ["keys"]:
            keys()
        case ["defaults"]:
            defaults()
        case ["without-row"]:
            without_row()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
