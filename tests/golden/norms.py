"""Holds the norms of queries and keys in the table of model types (rope-core/models/src/types/rows.rs) to the sources of
an installed transformers.

    python3 tests/golden/norms.py

For each type that rotates it reads the attention classes of the type's folder, without running them: which norms their
constructors make and from which keys, what those norms compute (the source of each class of norm is compared with the
few that are known), under which condition, over how many channels, and whether they are called before or after the
rotation. What it finds is written as words, and so is the row. It names each type whose row has others, and each layer
of an attention class that sounds like a norm and is not known here, and fails if there are any.

Needs transformers, and no torch; CI does not run it. Written for transformers 5.23.0.
"""

import ast
import functools
import importlib
import inspect
import pathlib
import re
import sys
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))
import model_rows

MODELS = pathlib.Path(transformers.__file__).parent / "models"

# Layers of attention classes by their names: norms of queries, of keys, of both, and of values.
QUERIES = {"q_norm", "q_layernorm", "query_layernorm", "q_layer_norm", "q_b_norm"}
KEYS = {"k_norm", "k_layernorm", "key_layernorm", "k_layer_norm", "kv_norm"}
BOTH = {"qk_norm"}
VALUES = {"v_norm"}
# Norms of something else: latents, the output, the hidden states.
OTHERS = {"q_a_layernorm", "kv_a_layernorm", "q_a_norm", "o_norm", "attn_sub_norm", "groupnorm", "layer_norm", "norm"}
ROTATIONS = re.compile(r"\w*apply_\w*(rotary|rope|multimodal)\w*|rotate_\w+")

# What `forward` (and `_norm`) of a class of norm says, without spaces, and its name in the table.
PREFIX = "input_dtype=hidden_states.dtype;hidden_states=hidden_states.to(torch.float32);"
VARIANCE = "variance=hidden_states.pow(2).mean(-1,keepdim=True);"
ROOT = "hidden_states=hidden_states*torch.rsqrt(variance+self.variance_epsilon);"
NORM = "returnx*torch.rsqrt(x.pow(2).mean(-1,keepdim=True)+self.eps);"
POWER = ("mean_squared=hidden_states.pow(2).mean(-1,keepdim=True)+self.eps;"
         "returnhidden_states*torch.pow(mean_squared,-0.5);")
SCALED = ("normed_output=self._norm(hidden_states.float());ifself.with_scale:normed_output=normed_output*"
          "self.weight.float();returnnormed_output.type_as(hidden_states);")
GROUPED = ("ifself.group_sizeisnotNone:x=x.reshape(*x.shape[:-1],-1,self.group_size);out=x*torch.rsqrt(x.pow(2)."
           "mean(-1,keepdim=True)+self.eps);returnout.flatten(-2)ifself.group_sizeisnotNoneelseout;")
GEMMA = "output=self._norm(x.float());output=output*(1.0+self.weight.float());returnoutput.type_as(x);"
FORMULAS = {
    PREFIX + VARIANCE + ROOT + "returnself.weight*hidden_states.to(input_dtype);": "llama",
    PREFIX + VARIANCE + ROOT + "return(self.weight*hidden_states).to(input_dtype);": "olmo2",
    NORM + GEMMA: "gemma",
    GROUPED + GEMMA: "gemma",
    POWER + SCALED: "gemma3n",
    NORM + "returnself._norm(x.float()).type_as(x);": "llama4",
    PREFIX + "mean=hidden_states.mean(-1,keepdim=True);variance=(hidden_states-mean).pow(2).mean(-1,keepdim=True);"
    "hidden_states=(hidden_states-mean)*torch.rsqrt(variance+self.variance_epsilon);"
    "hidden_states=self.weight.to(torch.float32)*hidden_states;returnhidden_states.to(input_dtype);": "cohere",
    "states_per_heads=torch.split(hidden_states,1,dim=1);returntorch.cat([norm(hidden_states)fornorm,hidden_statesin"
    "zip(self.norms,states_per_heads)],dim=1);": "stable-lm",
    "hidden_states=F.layer_norm(hidden_states,self.normalized_shape,None,None,eps=1e-05);"
    "hidden_states=hidden_states*self.weight+self.bias;returnhidden_states;": "chameleon",
    # nn.LayerNorm, its result in the element of the input.
    "returnsuper().forward(hidden_states).to(hidden_states.dtype);": "layer-norm",
}


def bare(function):
    """The statements of a function without its documentation and without spaces."""
    return "".join(re.sub(r"\s", "", ast.unparse(line)) + ";" for line in function.body
                   if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)))


def methods(node):
    return {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}


@functools.cache
def configurations():
    """The configurations by their own types, parts of composites among them."""
    found = dict(CONFIG_MAPPING.items())
    for path in MODELS.glob("*/configuration_*.py"):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for member in vars(module).values():
            if inspect.isclass(member) and member.__module__ == module.__name__:
                found.setdefault(getattr(member, "model_type", None), member)
    return found


def configuration_class(model_type):
    configuration = configurations()[model_type]
    folder = configuration.__module__.split(".")[2]
    if (MODELS / folder / f"modeling_{folder}.py").exists():
        return configuration, folder
    # A type of another project, which is read by the class of one of transformers' own.
    name = MODEL_MAPPING_NAMES[model_type]
    for path in MODELS.glob("*/modeling_*.py"):
        if re.search(rf"^class {name}\b", path.read_text(), re.M):
            own = next(own for own, model in MODEL_MAPPING_NAMES.items() if model == name and own == path.parent.name)
            return configurations()[own], path.parent.name
    raise LookupError(f"{model_type} has no code")


def attention_classes(classes, configuration):
    """The attention classes whose constructor takes this configuration, or one that no other type of the folder has."""
    found = {}
    for node in classes.values():
        own = methods(node)
        if not re.search(r"Attention\d?$|MLA$", node.name) or "forward" not in own or "__init__" not in own:
            continue
        arguments = {a.arg: ast.unparse(a.annotation) for a in own["__init__"].args.args if a.annotation}
        found[node.name] = (node, arguments.get("config", ""))
    exact = [node for node, config in found.values() if configuration.__name__ in re.findall(r"\w+", config)]
    return exact or [node for node, _ in found.values()]


def layers(constructor):
    """The layers that a constructor makes and whose names or makers sound like norms: name, call, condition."""
    def walk(body, condition):
        for line in body:
            if isinstance(line, ast.If):
                yield from walk(line.body, ast.unparse(line.test))
                yield from walk(line.orelse, f"not {ast.unparse(line.test)}")
            elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Attribute):
                name, value, own = line.targets[0].attr, line.value, condition
                if isinstance(value, ast.IfExp) and isinstance(value.body, ast.Call):
                    value, own = value.body, ast.unparse(value.test)
                if isinstance(value, ast.Call) and name != "norm_factor":
                    maker = ast.unparse(value.func)
                    if re.search("norm|l2|clip", name + maker, re.I) and maker not in ("nn.Identity", "math.sqrt"):
                        yield name, value, own
    yield from walk(constructor.body, "")


def calls_of(node):
    return [(call.lineno, ast.unparse(call.func)) for call in ast.walk(node) if isinstance(call, ast.Call)]


def rotates(attention):
    return any(ROTATIONS.fullmatch(function.rpartition(".")[2]) for _, function in calls_of(attention))


def words_of(attention, classes, configuration, report):
    """The words of one attention class, or None if its queries and keys are not normed."""
    own = methods(attention)
    constructor, forward = own["__init__"], own["forward"]
    arguments = constructor.args
    # What only another class (of cross attention) asks of this one.
    off = {a.arg for a, default in zip(arguments.args[::-1], arguments.defaults[::-1])
           if isinstance(default, ast.Constant) and default.value is False}
    set_from = dict(re.findall(r"(self\.\w+|\w+) = ([\w.]+)$", ast.unparse(constructor), re.M))
    queries, keys, values = [], [], False
    for name, call, condition in layers(constructor):
        if set_from.get(condition, condition) in off:
            continue
        if name in VALUES:
            values = True
        elif name in QUERIES | BOTH:
            queries.append((name, call, condition))
        elif name in KEYS:
            keys.append((name, call, condition))
        elif name not in OTHERS:
            report(f"{attention.name}.{name} is not known")
    for _, function in calls_of(attention):
        if re.search("norm(?!al)", function) and not function.startswith("self.") and "Norm" not in function:
            report(f"{attention.name} calls {function}")
    if not queries:
        return None
    name, call, condition = queries[0]
    maker = ast.unparse(call.func)
    if keys and ast.unparse(keys[0][1].func) != maker:
        return ("norm=other",)
    formula, fixed = None, None
    if maker == "nn.LayerNorm":
        formula, fixed = "layer-norm", 1e-5
    elif maker in classes:
        node = methods(classes[maker])
        text = bare(node["_norm"]) if "_norm" in node else ""
        formula = FORMULAS.get(text + bare(node["forward"]))
        if "__init__" in node:
            arguments = node["__init__"].args
            defaults = dict(zip([a.arg for a in arguments.args][::-1], arguments.defaults[::-1]))
            fixed = ast.literal_eval(defaults["eps"]) if "eps" in defaults else None
        if formula in ("layer-norm", "chameleon"):
            fixed = 1e-5
    if not formula:
        return ("norm=other",)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if formula == "layer-norm" and "bias" in given and not ast.literal_eval(given["bias"]):
        formula = "stable-lm"
    if formula == "gemma3n" and "with_scale" in given and not ast.literal_eval(given["with_scale"]):
        formula = "llama4"
    texts = [ast.unparse(argument) for argument in call.args]
    eps = ast.unparse(given["eps"]) if "eps" in given else next((t for t in texts if t.endswith("eps")), None)
    words = []
    if eps:
        key = eps.rpartition("config.")[2]
        words.append(f"norm={formula}:{getattr(configuration(), key):g}".replace("e-0", "e-"))
        key = configuration.attribute_map.get(key, key)
        names = [key] + [name for name, meant in configuration.attribute_map.items() if meant == key]
        if names != ["rms_norm_eps"]:
            words.append(f"norm-eps={'|'.join(names)}")
    else:
        words += [f"norm={formula}:{fixed:g}".replace("e-0", "e-"), "norm-eps="]
    size = next((ast.unparse(given[k]) for k in ("dim", "hidden_size") if k in given), texts[0] if texts else "")
    row = r"(self\.|config\.)?(hidden_size|num_attention_heads \* self\.head_dim)"
    chosen = re.fullmatch(rf"self\.head_dim if config\.(\w+) == '\w+' else {row}", size)
    if chosen:
        lines = [line for line in ast.unparse(forward).splitlines() if f"{chosen[1]} ==" in line]
        row = lines[0].rpartition("== ")[2].strip("':")
        words.append(f"norm-row={chosen[1]}:{row}:{getattr(configuration(), chosen[1])}")
    elif re.fullmatch(row, size):
        words.append("norm-row")
    elif size and not re.search(r"head_dim|hidden_size // ", size) and not size.endswith("eps"):
        report(f"{attention.name}: a norm over {size}")
    normed = [line for line, function in calls_of(forward) if function == f"self.{name}"]
    turned = [line for line, function in calls_of(forward) if ROTATIONS.fullmatch(function.rpartition(".")[2])]
    if not turned:
        words.append("norm-layers=still")
    elif min(normed) > max(turned):
        words.append("norm-after")
    elif max(normed) > min(turned):
        report(f"{attention.name}: norms on both sides of the rotation")
    condition = re.sub(r"self\.config\.", "config.", condition)
    condition = set_from.get(condition, condition)
    if condition == "config.use_qk_norm and self.use_rope":
        condition = "config.use_qk_norm"
        words.append("norm-layers=rotating")
    if condition:
        key = condition.rpartition("config.")[2]
        if not re.fullmatch(r"config\.\w+", condition) or not hasattr(configuration(), key):
            report(f"{attention.name}: normed if {condition}")
        else:
            words.append(f"norm-if={key}:{str(bool(getattr(configuration(), key))).lower()}")
    if values:
        words.append("norm-values")
    return tuple(words)


NAMES = {"Llama": "llama", "Olmo2": "olmo2", "Gemma": "gemma", "Gemma3n": "gemma3n", "Llama4": "llama4",
         "Cohere": "cohere", "StableLm": "stable-lm", "LayerNorm": "layer-norm", "Chameleon": "chameleon"}


def words_of_row(norm):
    """The words of a row's field `norm`."""
    if norm == "None":
        return ()
    if "Formula::Other" in norm:
        return ("norm=other",)
    formula, eps = re.search(r"norm\(Formula::(\w+), ([\de.-]+)\)", norm).groups()
    words = [f"norm={NAMES[formula]}:{float(eps):g}".replace("e-0", "e-")]
    for pattern, word in [
        (r"eps_keys: &\[(.*?)\]", lambda keys: "norm-eps=" + "|".join(re.findall(r"Key::(\w+)", keys))),
        (r"(reach: Reach::Row)\b(?!If)", lambda _: "norm-row"),
        (r"RowIf\((.*?)\]\)", lambda row: "norm-row=" + ":".join(re.findall(r"(?:Key::|\")(\w+)", row))),
        (r"(after: true)", lambda _: "norm-after"),
        (r"switch: Some\(\((.*?)\)\)", lambda pair: "norm-if=" + pair.removeprefix("Key::").replace(", ", ":")),
        (r"layers: NormedLayers::(\w+)", lambda layers: "norm-layers=" + layers.lower()),
        (r"(values: true)", lambda _: "norm-values"),
    ]:
        found = re.search(pattern, norm)
        if found:
            words.append(word(found[1]))
    return tuple(words)


def main():
    wrong = 0
    bases = model_rows.bases(model_rows.SOURCES / "types/row.rs")
    for name, row in model_rows.read(model_rows.TYPES)[0].items():
        def report(what):
            nonlocal wrong
            wrong += 1
            print(f"{name}: {what}")
        row = model_rows.whole(row, bases)
        configuration, folder = configuration_class(name)
        tree = ast.parse((MODELS / folder / f"modeling_{folder}.py").read_text())
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        attention = attention_classes(classes, configuration)
        if not any(map(rotates, attention)):
            report("no attention class that rotates was found")
        # Cross attention counts where it is one of the model's layers.
        still = row["rotates"].startswith("Rotates::Except(")
        found = {node.name: words_of(node, classes, configuration, report)
                 for node in attention if still or rotates(node)}
        in_table = words_of_row(row["norm"])
        kinds = {tuple(sorted(words)) for words in found.values() if words}
        if kinds != ({tuple(sorted(in_table))} if in_table else set()):
            report(f"{' '.join(in_table) or 'nothing'} in the table; in the classes {found}")
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
