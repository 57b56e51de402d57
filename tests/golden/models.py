"""Holds the table of model types (rope-core/models/src/types.txt) to an installed transformers.

    python3 tests/golden/models.py > cases.jsonl
    ROPE_MODELS=cases.jsonl cargo test -p rope-tests model_types:: -- --nocapture

For each type of text model in the table it builds the class's configuration in several variants, makes the class's own
rotary module from it (no weights, no model), and writes what that computed: the inverse frequencies of each type of
layers and the attention factor. Of these cases the suite compares these two only; models/cases.jsonl, which was made by
running whole models, has the rest. A variant that transformers refuses is a case without a rotation. Types that are in
transformers and not in the table are named on stderr.

Needs transformers and torch (CPU); CI does not run it. Written for transformers 5.23.0.
"""

import importlib
import inspect
import json
import pathlib
import struct
import sys

import transformers

TABLE = pathlib.Path(__file__).parents[2] / "rope-core/models/src/types.txt"
SHAPE = {"hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 12, "max_position_embeddings": 8192,
         "attn_layer_indices": [0]}
VARIANTS = {
    "bare": {},
    "theta": {"rope_theta": 123456.0},
    "partial": {"rope_theta": 123456.0, "partial_rotary_factor": 0.5},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 500000.0, "factor": 3.0}},
    "legacy-linear": {"rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0,
                                 "original_max_position_embeddings": 1024}},
    "llama3": {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                                   "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 1024}},
}


def configuration_class(folder, model_type):
    """The configuration class of that type, and its name."""
    module = importlib.import_module(f"transformers.models.{folder}.configuration_{folder}")
    for name, member in vars(module).items():
        if inspect.isclass(member) and getattr(member, "model_type", None) == model_type:
            return member
    return None


def rotary_class(folder, configuration):
    """The rotary module that takes this configuration, or the only one that there is."""
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    found = [m for n, m in vars(module).items() if inspect.isclass(m) and n.endswith("RotaryEmbedding")]
    found = [m for m in found if m.__module__ == module.__name__]
    for member in found:
        parameters = list(inspect.signature(member.__init__).parameters.values())[1:]
        annotation = parameters[0].annotation if parameters else None
        if getattr(annotation, "__name__", annotation) == configuration.__name__:
            return member
    # Others are annotated with the whole model's configuration.
    stem = configuration.__name__.removesuffix("Config").removesuffix("Text")
    named = [m for m in found if m.__name__ == f"{stem}RotaryEmbedding"]
    return named[0] if named else found[0] if len(found) == 1 else None


def bits(tensor):
    return [struct.pack(">f", value).hex() for value in tensor.float().tolist()]


def cases(model_type, configuration, rotary):
    for variant, keys in VARIANTS.items():
        # Heads of another size than the class's default break a few.
        given = {"model_type": model_type, **SHAPE, **keys}
        case = {"id": f"{model_type}/installed/{variant}", "model_type": model_type, "config": given,
                "compare": "frequencies", "rotates": True}
        try:
            made = configuration.from_dict(json.loads(json.dumps(given)))
            module = rotary(made)
            kinds = getattr(module, "layer_types", None) or [None]
            for kind in kinds:
                prefix = f"{kind}_" if kind else ""
                factor = getattr(module, f"{prefix}attention_scaling")
                own = {**case, "inv_freq_f32_hex": bits(getattr(module, f"{prefix}inv_freq")),
                       "attention_factor_f64": float(factor)}
                yield {**own, "layer_type": kind, "id": f"{case['id']}/{kind}"} if kind else own
        except Exception as error:  # whatever the class raises is its refusal
            yield {**case, "rotates": None, "hf_error": f"{type(error).__name__} {error}"[:200]}


def main():
    transformers.logging.set_verbosity_error()
    known = set()
    for line in TABLE.read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        known.add(words[0])
        axes = next((word for word in words if word.startswith("axes=")), "axes=text")
        compared = axes in ("axes=text", "axes=rows-and-columns") or axes.startswith(("axes=mrope:", "axes=mrope-i"))
        # DeepSeek-V4 labels its parameters otherwise than its layers.
        if words[2] in ("none", "part", "refused") or not compared or "compress" in words:
            continue
        try:
            configuration = configuration_class(words[1], words[0])
            rotary = configuration and rotary_class(words[1], configuration)
        except ImportError as error:
            print(f"{words[0]}: {error}", file=sys.stderr)
            continue
        if not rotary:
            print(f"{words[0]}: no rotary module found", file=sys.stderr)
            continue
        for case in cases(words[0], configuration, rotary):
            print(json.dumps(case))
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    for name in sorted(set(CONFIG_MAPPING_NAMES) - known):
        print(f"{name}: not in the table", file=sys.stderr)


if __name__ == "__main__":
    main()
