"""Writes what transformers' classes answer for files that say little: their sizes, and the rotation of their default
files and of every scaling in every spelling.

    python3 tests/golden/classes.py sizes             renews models/sizes.txt, and types/sizes.rs of rope-models from it
    python3 tests/golden/classes.py cases [TYPE ..]   renews models/classes.jsonl and classes_frequencies.txt, of all
                                                      types or of these

`cases` makes a configuration of each file by its class, and of that configuration the module of rotary embeddings that
the class's model has, alone, on the CPU. It asks that module for the frequencies of each type of layers, after a call
with the last position of a long text. The table of types is not read but for the names.

Needs what models.py needs; CI does not run it. Written for transformers 5.24.0.
"""

import copy
import gc
import inspect
import json
import pathlib
import re
import sys

import models
import model_rows
import torch
import transformers

GOLDEN = pathlib.Path(__file__).parent / "models"
USUAL = {"width": "hidden_size", "heads": "num_attention_heads", "depth": "num_hidden_layers",
         "context": "max_position_embeddings"}


def sizes():
    """A line a row: its width, heads, layers and context where a file has none; 0 where the class has no number."""
    rows, bases = model_rows.read(model_rows.TYPES)[0], model_rows.bases(model_rows.SOURCES / "types/row.rs")
    classes, lines = models.configurations(), []
    for name, row in rows.items():
        fields, found = model_rows.whole(row, bases), []
        configuration = classes.get("deepseek_v3" if name == "kimi_k2" else name)
        plain = configuration and configuration()
        for field, usual in USUAL.items():
            key = re.search(r"Key::(\w+)", fields[field])
            key = key[1] if key else usual
            values = plain.to_dict() if plain and fields[field] != "Name::Absent" else {}
            value = next((values[own] for own in (plain and plain.attribute_map.get(key, key), key, usual)
                          if isinstance(values.get(own), int)), None)
            if value is None and values:
                plain.allow_global_per_layer_attribute_access = True
                value = getattr(plain, key, None)
            value = value if isinstance(value, int) else 0
            found.append(2 * value if "Twice" in fields[field] else value)
        lines.append(" ".join(map(str, [name, *found])))
    parts = "".join(otherwise(rows, classes))
    (GOLDEN / "sizes.txt").write_text("".join(line + "\n" for line in lines) + parts)
    path = model_rows.SOURCES / "types/sizes.rs"
    quoted = ("    {} {};\n".format(*re.sub(r"^(\S+)", r'"\1"', line).split(" ", 1)) for line in lines)
    text = re.sub(r"(?<=sizes! \{\n).*?(?=\}\n)", lambda _: "".join(quoted), path.read_text(), flags=re.S)
    path.write_text(re.sub(r'(?<=&str = "\\\n).*?(?=";)', lambda _: parts, text, count=1, flags=re.S))


def otherwise(rows, classes):
    """The parts that a composite's class makes where a file has none, and that are not what their own class makes."""
    keys = [*USUAL.values(), "head_dim", "rope_theta"]
    for name, configuration in sorted(classes.items()):
        try:
            whole = configuration()
        except Exception:
            continue
        for part in configuration.sub_configs:
            own = getattr(whole, part, None)
            if not isinstance(own, transformers.PreTrainedConfig) or own.model_type not in rows:
                continue
            made, plain = own.to_dict(), type(own)().to_dict()
            for values in (made, plain):
                values["rope_theta"] = (values.get("rope_parameters") or {}).get("rope_theta")
            if any(made.get(key) != plain.get(key) for key in keys):
                try:
                    merged = getattr(configuration.from_dict({part: {"model_type": own.model_type}}), part).to_dict()
                    merges = all(merged.get(key) == made.get(key) for key in keys[:4])
                except Exception:
                    merges = False
                numbers = [int(made.get(key) or 0) for key in keys]
                yield " ".join(map(str, [name, part, *numbers, int(merges)])) + "\n"


# A file without the names that make it a `LENGTH` long text has none of its answers depend on the length.
LENGTH = 300_000
FACTORS = {"factor": 4.0, "original_max_position_embeddings": 4096}
SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": FACTORS,
    "longrope": {**FACTORS, "short_factor": "short", "long_factor": "long"},
    "llama3": {**FACTORS, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "proportional": {"partial_rotary_factor": 0.5},
}
THETA = {"rope_theta": 500000.0}
SPELLINGS = {
    "scaling": lambda name, own: {**THETA, "rope_scaling": {"rope_type": name, **own}},
    "scaling-type": lambda name, own: {**THETA, "rope_scaling": {"type": name, **own}},
    "scaling-alone": lambda name, own: {"rope_scaling": {"rope_type": name, **own}},
    "parameters": lambda name, own: {"rope_parameters": {"rope_type": name, **THETA, **own}},
    "parameters-type": lambda name, own: {"rope_parameters": {"type": name, **THETA, **own}},
    "beside": lambda name, own: {**THETA, "rope_parameters": {"rope_type": name, **own}},
    "by-type": lambda name, own: {"rope_parameters": {"types": {"rope_type": name, **THETA, **own}}},
}
PATCHES = {f"{name}/{spelling}": make(name, own)
           for name, own in SCALINGS.items() for spelling, make in SPELLINGS.items()}
NOISE = "token|architectures|_version|dropout|initializer|label|_coef|vocab|_feature|_image|image_|stage_names"
ROTARY = re.compile("Rotary|Rope|RoPE|RoPe")


def filled(patch, pairs, kinds):
    """A patch for a rotation of so many pairs, and for these types of layers."""
    text = json.dumps(patch).replace('"short"', str([1 + n / 8 for n in range(pairs)]))
    made = json.loads(text.replace('"long"', str([2 + n / 4 for n in range(pairs)])))
    own = made.get("rope_parameters", {})
    if "types" in own:
        each = own.pop("types")
        own.update({kind: copy.deepcopy(each) for kind in kinds})
    return made


class Unseen(Exception):
    """A model that has no module of rotary embeddings."""


class Rotary:
    """The module of rotary embeddings that the model of a configuration has."""

    def __init__(self, name, configuration):
        self.name, self.configuration = name, configuration
        self.modules = models.modeling(configuration)
        classes = models.model_classes(configuration)
        if name in models.BUILT:
            module, _, own = models.BUILT[name].rpartition(".")
            classes = [getattr(models.importlib.import_module(module), own)]
        mapping = transformers.models.auto.modeling_auto.MODEL_MAPPING
        if not classes and configuration in mapping:
            classes = [mapping[configuration]] if inspect.isclass(mapping[configuration]) else [*mapping[configuration]]
        self.classes, self.alone, self.fails, self.modules_of = classes[:4], None, False, self.modules
        self.modules_of += [m for m in {sys.modules[own.__module__] for own in classes} if m not in self.modules]

    def kinds_of(self):
        return [own for module in self.modules_of for name, own in vars(module).items() if inspect.isclass(own)
                and ROTARY.search(name) and issubclass(own, torch.nn.Module) and "__init__" in vars(own)]

    def made(self, config):
        """The class of the outermost module and its arguments, seen while the model is made without memory."""
        seen, undo, last, self.fails = {}, [], None, False
        for own in self.kinds_of():
            def recorded(part, *args, old=own.__init__, own=own, **kwargs):
                if type(part) is own:
                    seen[id(part)] = (args, kwargs)
                old(part, *args, **kwargs)

            undo.append((own, own.__init__))
            own.__init__ = recorded
        try:
            for chosen in self.classes:
                try:
                    with torch.device("meta"):
                        model = chosen(config)
                except Exception as error:
                    last = last or error
                    continue
                if not any("Attention" in type(part).__name__ for part in model.modules()):
                    break
                found = [(path.count("."), path, part) for path, part in model.named_modules() if id(part) in seen
                         and any(key.endswith(("inv_freq", "embed_positions")) for key in dict(part.named_buffers()))]
                if found:
                    _, _, part = min(found, key=lambda own: own[:2])
                    return (type(part), *seen[id(part)])
        finally:
            for own, old in undo:
                own.__init__ = old
        # The model fails by this file, for a reason that may be another.
        signatures = [(one, inspect.signature(one.__init__).parameters) for one in self.kinds_of()]
        own = [one for one, names in signatures if [*names][1:2] == ["config"]]
        of_class = [one for one, names in signatures if "config" in names
                    and names["config"].annotation is self.configuration]
        own = of_class if len(own) > 1 else own
        if last and len(own) == 1:
            self.fails = True
            return own[0], (config,), {}
        raise last or Unseen

    def of(self, config):
        config._attn_implementation = "eager"
        if self.alone:
            return self.alone(config)
        own, args, kwargs = self.made(config)
        values = [*args, *kwargs.values()]
        if len(values) == 1 and values[0] is config:
            self.alone = own
        return own(*args, **kwargs)


def hexes(tensor):
    return "".join(models.f32_hex(value) for value in tensor.float().flatten().tolist())


def rotations(rotary, config, long):
    """Returns the frequencies in hex and the attention factor, by the type of layers or under no name."""
    module, found = rotary.of(config), {}
    if hasattr(module, "embed_positions"):
        # A table of sines and, beside them, cosines.
        sin, cos = module.embed_positions.double().chunk(2, dim=-1)
        made = torch.atan2(sin[1], cos[1])
        for at in (2**n for n in range(1, len(sin).bit_length() - 1)):
            angle = torch.atan2(sin[at], cos[at])
            made = (angle + 2 * torch.pi * ((made * at - angle) / (2 * torch.pi)).round()) / at
        return {"": [hexes(made), 1.0]}
    kinds = [key[: -len("_inv_freq")] for key, _ in module.named_buffers()
             if key.endswith("_inv_freq") and not re.search("original_inv_freq|long_inv_freq", key)]
    forward = inspect.signature(module.forward).parameters
    turns = 2 * torch.pi if "math.pi" in inspect.getsource(type(module)) else 1
    for kind in kinds or [""]:
        # The frequencies of a length are made before the rows.
        if "position_ids" in forward and hasattr(module, "rope_type"):
            last, ids = None, torch.tensor([[LENGTH - 1 if long else 1]])
            of_axes = [ids[None].expand(axes, 1, 1) for axes in (3, 4)]
            for position_ids in (ids, *of_axes, ids.expand(1, 2), ids[None].expand(1, 1, 2)):
                try:
                    module(torch.zeros(1, 1, 1), position_ids, **({"layer_type": kind} if kind else {}))
                    break
                except Exception as error:
                    last = last or error
            else:
                raise last
        factor = getattr(module, f"{kind}_attention_scaling", getattr(module, "attention_scaling", 1.0))
        found[kind] = [hexes(turns * getattr(module, f"{kind}_inv_freq" if kind else "inv_freq")), float(factor)]
    if [*found] == [""] and not getattr(config, "head_dim", None) and hasattr(config, "num_attention_heads"):
        head = config.hidden_size // config.num_attention_heads
        if head % 2 and 4 * head < len(found[""][0]):
            raise ArithmeticError("an odd head has no room for its pairs")
    return found


def parts_of(config, path=""):
    """The parts of a composite, and what lies in them, by their paths."""
    for name in config.sub_configs:
        own = getattr(config, name, None)
        if isinstance(own, transformers.PreTrainedConfig):
            yield path + name, own
            yield from parts_of(own, f"{path}{name}.")


def shorter(saved, rows):
    """A saved file without what says nothing of a rotation: tokens, and the keys of parts that do not rotate."""
    made = {key: value for key, value in saved.items() if not re.search(NOISE, key)}
    for key, value in made.items():
        if isinstance(value, dict) and "model_type" in value:
            rotates = value["model_type"] in rows or any(isinstance(own, dict) and "model_type" in own
                                                         for own in value.values())
            made[key] = shorter(value, rows) if rotates else {"model_type": value["model_type"]}
    return made


def cases_of(name, configuration, rows, rotaries, place):
    """The line of a type: its empty file, the file that it saves, and every patch, each with the place of its truth."""
    def made(given):
        try:
            return configuration.from_dict({"model_type": name, **copy.deepcopy(given)})
        except Exception as error:
            return f"raises {type(error).__name__}"

    def truth(own, long=False):
        own_name = own.model_type
        if own_name not in rows:
            return place(None)
        if own_name not in rotaries:
            rotaries[own_name] = Rotary(own_name, type(own))
        try:
            found = rotations(rotaries[own_name], own, long)
            return place({**found, "fails": True} if rotaries[own_name].fails else found)
        except Unseen:
            return place("unseen")
        except Exception as error:
            return place(f"raises {type(error).__name__}")

    def applied(own, given, default, long):
        """The same; where it has other pairs than those of the default file, if a small model runs with it."""
        found, default = LISTED[truth(own, long)], LISTED[default]
        pairs = lambda one: [len(value[0]) for value in one.values() if value is not True]
        # Lists of factors have the length of the large model.
        both = isinstance(found, dict) and isinstance(default, dict) and "short_factor" not in json.dumps(given)
        if both and (pairs(found) != pairs(default) or "rotary_ndims" in models.source_of(type(own))):
            try:
                shape = next(iter(models.variants(own.model_type, type(own))))[1]
                models.run(own.model_type, type(own), {**shape, **given}, models.axes_of(own.model_type, type(own)))
            except Exception as error:
                return place(f"raises {type(error).__name__}")
        return place(found)

    line = {"model_type": name}
    plain = made({})
    if isinstance(plain, str):
        return {**line, "raises": plain}
    parts = {path: own for path, own in parts_of(plain) if own.model_type in rows}
    if parts or name in rows:
        line["saved"] = shorter(json.loads(made({}).to_json_string()), rows)
    if parts:
        line["parts"] = {path: [own.model_type, truth(own)] for path, own in parts.items()}
    if "text_config" in parts and name not in rows:
        first = LISTED[line["parts"]["text_config"][1]]
        line["pairs"] = len(next(iter(first.values()))[0]) // 8 if isinstance(first, dict) else 0
        for where in ("inside", "beside"):
            line[where] = []
            for scaling in SCALINGS:
                given = filled(PATCHES[f"{scaling}/scaling-type"], line["pairs"], [])
                own = made({"text_config": given} if where == "inside" else given)
                long, default = scaling in ("dynamic", "longrope"), line["parts"]["text_config"][1]
                line[where].append(place(own) if isinstance(own, str)
                                   else applied(own.get_text_config(), given, default, long))
    if name not in rows:
        return line
    line["truth"] = truth(plain)
    if not isinstance(LISTED[line["truth"]], dict):
        return line
    kinds = sorted(set(getattr(plain, "layer_types", None) or []))
    first = next(iter(LISTED[line["truth"]].values()))
    pairs = len(first[0]) // 8
    line |= {"pairs": pairs, "kinds": kinds, "cases": []}
    for case, patch in PATCHES.items():
        given = filled(patch, pairs, kinds)
        own, long = made(given), bool(re.search("dynamic|longrope", case))
        line["cases"].append(place(own) if isinstance(own, str) else applied(own, given, line["truth"], long))
    return line


LISTED = []


def cases(wanted):
    """Lines of models/classes.jsonl: the patches, the truths, and each type."""
    rows, rotaries, lists, places, lines = model_rows.read(model_rows.TYPES)[0], {}, {}, {}, {}

    def place(truth):
        key = json.dumps(truth)
        if key not in places:
            places[key] = len(places)
            LISTED.append(truth)
        return places[key]

    if wanted:
        text = (GOLDEN / "classes_frequencies.txt").read_text().splitlines()
        head, *old = map(json.loads, (GOLDEN / "classes.jsonl").read_text().splitlines())
        for truth in head["truths"]:
            place({kind: own if own is True else [text[own[0]], own[1]] for kind, own in truth.items()}
                  if isinstance(truth, dict) else truth)
        lines = {line["model_type"]: line for line in old}
    for name, configuration in sorted(models.configurations().items()):
        if not wanted or name in wanted:
            lines[name] = cases_of(name, configuration, rows, rotaries, place)
            print(name, len(LISTED), flush=True)
            gc.collect()
    truths = [{kind: own if own is True else [lists.setdefault(own[0], len(lists)), own[1]]
               for kind, own in truth.items()} if isinstance(truth, dict) else truth for truth in LISTED]
    head = {"length": LENGTH, "patches": [*PATCHES.items()], "truths": truths}
    all_lines = [head, *(lines[name] for name in sorted(lines))]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in all_lines)
    (GOLDEN / "classes.jsonl").write_text(text)
    (GOLDEN / "classes_frequencies.txt").write_text("".join(own + "\n" for own in lists))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["cases", *wanted]:
            cases(wanted)
        case ["sizes"]:
            sizes()
        case _:
            sys.exit(__doc__)
