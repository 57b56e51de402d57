#!/usr/bin/env python3
"""Cases of model types that are not transformers': the rotations of the code that their files name, by its formulas.

    python3 tests/golden/own_code.py            renews golden/published/own_code.jsonl
    python3 tests/golden/own_code.py files PATH renews golden/published/files.jsonl from a list of published files with
                                                the rotary modules of their classes, as transformers built them

The functions below say in plain Python what each `modeling_*.py` does; published/README.md has where each was read.
None reads the crate's table of types, whose test the cases are. A case has the words of models/types.jsonl.
"""

import json
import math
import pathlib
import struct
import sys

PUBLISHED = pathlib.Path(__file__).parent / "published"


def powers(dim, base):
    return [base ** -(2 * pair / dim) for pair in range(dim // 2)]


def grown(base, factor, length, context, dim):
    """The base of dynamic NTK: the same up to the context."""
    if length <= context:
        return base
    return base * (factor * length / context - (factor - 1)) ** (dim / (dim - 2))


def rotation(inverse, head, dim=None, offset=0, pairing="half", output=None, attention=1.0, axes=None, softmax=1.0):
    made = {
        "rotary_dim": dim or head,
        "pairing_in": pairing,
        "pairing_out": output or pairing,
        "direction": 1,
        "head_dim": head,
        "inv_freq_f32_hex": "".join(struct.pack(">f", own).hex() for own in inverse),
    }
    if offset:
        made["offset"] = offset
    if attention != 1.0:
        made["attention_factor_f64"] = attention
    if softmax != 1.0:
        made["softmax_factor"] = softmax
    if axes:
        made["axes"] = axes
    return made


def width_over_heads(config):
    return config["hidden_size"] // config["num_attention_heads"]


def plain(config, length):
    """Llama's: Yuan's, Baichuan-7B's and the first InternLM's code has the base 10000 and reads none."""
    head = width_over_heads(config)
    return rotation(powers(head, 10000.0), head)


def baichuan(config, length):
    # 13B's class reads model_max_length, and adds ALiBi.
    return plain(config, length) if "max_position_embeddings" in config else None


def by_theta(config, length):
    head = width_over_heads(config)
    return rotation(powers(head, config.get("rope_theta", 10000.0)), head)


def older(config, length):
    """Llama's code of 2023, with linear and dynamic scaling."""
    head, base = width_over_heads(config), config.get("rope_theta", 10000.0)
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("type", scaling.get("rope_type"))
    if kind == "dynamic":
        base = grown(base, scaling["factor"], length, config["max_position_embeddings"], head)
    divisor = scaling["factor"] if kind == "linear" else 1.0
    return rotation([own / divisor for own in powers(head, base)], head)


def minicpm(config, length):
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type")) != "longrope":
        return older(config, length)
    head, base, context = width_over_heads(config), config.get("rope_theta", 10000.0), config["max_position_embeddings"]
    original = scaling["original_max_position_embeddings"]
    # The table is made for the context first, and again for a sequence that is longer.
    factors = scaling["long_factor" if max(length, context) > original else "short_factor"]
    attention = math.sqrt(1 + math.log(context / original) / math.log(original))
    inverse = [own / factor for own, factor in zip(powers(head, base), factors)]
    return rotation(inverse, head, attention=attention)


def phi3(config, length):
    """Phi-3's: `su` and `longrope` are one; Phi-3-vision's `yarn` differs in its attention factor."""
    head, base = width_over_heads(config), config.get("rope_theta", 10000.0)
    dim = int(head * config.get("partial_rotary_factor", 1))
    inverse, attention = powers(dim, base), 1.0
    scaling = config.get("rope_scaling")
    if scaling:
        original = config.get("original_max_position_embeddings", 4096)
        factors = scaling["long_factor" if length > original else "short_factor"]
        inverse = [own / factor for own, factor in zip(inverse, factors)]
        scale = config["max_position_embeddings"] / original
        if scale > 1 and scaling["type"] == "yarn" and config["model_type"] == "phi3_v":
            attention = 0.1 * math.log(scale) + 1
        elif scale > 1:
            attention = math.sqrt(1 + math.log(scale) / math.log(original))
    return rotation(inverse, head, dim=dim, attention=attention)


def minimax_m3(config, length):
    return rotation(powers(config["rotary_dim"], config["rope_theta"]), config["head_dim"], dim=config["rotary_dim"])


def phi3_small(config, length):
    head = width_over_heads(config)
    return rotation(powers(head, config.get("rope_embedding_base", 1000000.0)), head)


def phi_msft(config, length):
    head = config["n_embd"] // config["n_head"]
    dim = min(config.get("rotary_dim", 32), head)
    return rotation(powers(dim, 10000.0), head, dim=dim)


def internlm(config, length):
    own = config.get("rotary") or {"type": "origin", "base": 10000}
    head, base = width_over_heads(config), float(own["base"])
    if own["type"] == "dynamic":
        base = grown(base, own.get("scaling_factor", 1.0), length, config["max_position_embeddings"], head)
    return rotation(powers(head, base), head)


def hunyuan(config, length):
    head, alpha = width_over_heads(config), config["rope_scaling"]["alpha"]
    return rotation(powers(head, config["rope_theta"] * alpha ** (head / (head - 2))), head)


def llama3(config, length):
    head, scaling = width_over_heads(config), config["rope_scaling"]
    original, low, high = (
        scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    made = []
    for own in powers(head, config["rope_theta"]):
        wave = 2 * math.pi / own
        if wave < original / high:
            made.append(own)
        elif wave > original / low:
            made.append(own / scaling["factor"])
        else:
            smooth = (original / wave - low) / (high - low)
            made.append((1 - smooth) * own / scaling["factor"] + smooth * own)
    return rotation(made, head)


def deepseek_vl_v2(config, length):
    if not config.get("use_mla", True):
        return by_theta(config, length)
    dim, rest = config.get("qk_rope_head_dim", 64), config.get("qk_nope_head_dim", 128)
    inverse = powers(dim, config.get("rope_theta", 10000.0))
    return rotation(inverse, rest + dim, dim=dim, offset=rest, pairing="interleaved", output="half")


def windows(channels, head):
    inverse = [own for width in channels for own in powers(width, 10000.0)]
    axes = [axis for axis, width in enumerate(channels) for _ in range(width // 2)]
    return rotation(inverse, head, pairing="interleaved", axes=axes)


def flux(config, length):
    return windows([16, 56, 56], config["attention_head_dim"])


def wan(config, length):
    head = config["dim"] // config["num_heads"]
    side = 2 * (head // 6)
    return windows([head - 2 * side, side, side], head)


def yarn(inverse, scaling, base, mscale):
    """DeepSeek's YaRN, and the factor of its cosines and sines."""
    dim, factor = 2 * len(inverse), scaling["factor"]
    original = scaling.get("original_max_position_embeddings", 4096)

    def place(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(place(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(place(scaling.get("beta_slow", 1))), dim - 1)
    made = []
    for pair, own in enumerate(inverse):
        ramp = min(max((pair - low) / (high - low or 0.001), 0), 1)
        made.append(own / factor * ramp + own * (1 - ramp))
    return made, mscale(factor, scaling.get("mscale", 1)) / mscale(factor, scaling.get("mscale_all_dim", 0))


def of_yarn(factor, mscale=1):
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def bailing_moe(config, length):
    scaling = config.get("rope_scaling") or {}
    head = config.get("head_dim") or width_over_heads(config)
    base = config.get("rope_theta", 10000.0)
    if scaling.get("type") == "yarn":
        inverse, attention = yarn(powers(head, base), scaling, base, of_yarn)
        return rotation(inverse, head, attention=attention)
    return older({**config, "hidden_size": head, "num_attention_heads": 1}, length)


def part_of_head(config, default=1.0, head=None, base=None):
    head = head or config.get("head_dim") or width_over_heads(config)
    dim = int(head * config.get("partial_rotary_factor", default))
    return rotation(powers(dim, base or config.get("rope_theta", 10000.0)), head, dim=dim)


def bailing_moe_v2(config, length):
    return part_of_head(config, 0.5)


def mimo_v2(config, length):
    head = config.get("head_dim") or width_over_heads(config)
    windows = config.get("swa_head_dim") or head, config.get("swa_rope_theta")
    full, windows = part_of_head(config), part_of_head(config, 1.0, *windows)
    kinds = config["hybrid_layer_pattern"]
    # The rotations are in the order of the layers.
    return [full, windows] if kinds[0] == 0 else [windows, full]


def by_pattern(config):
    kinds = config["hybrid_layer_pattern"]
    return [int(kind != kinds[0]) for kind in kinds]


def minimax_m1(config, length):
    head = config.get("head_dim") or width_over_heads(config)
    dim = config.get("rotary_dim", head)
    return rotation(powers(dim, config.get("rope_theta", 1e6)), head, dim=dim)


def by_attention(config):
    return [own - 1 for own in config["attn_type_list"]]


FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"

# Of types whose layers differ, the types of the layers.
KINDS = {
    "mimo_v2": lambda config: [[FULL, SLIDING][kind] for kind in config["hybrid_layer_pattern"]],
    "minimax_m1": lambda config: [[LINEAR, FULL][kind] for kind in config["attn_type_list"]],
    "plamo2": lambda config: [
        LINEAR if kind < 0 else FULL if layer in (config.get("full_attention_idx") or []) else SLIDING
        for layer, kind in enumerate(by_steps(config))
    ],
}


def openelm(config, length):
    head = config.get("head_dim", 128)
    return rotation(powers(head, config.get("rope_freq_constant", 10000)), head)


def plamo2(config, length):
    head, base = config.get("hidden_size_per_head", 128), config.get("rope_theta", 10000)
    local = rotation(powers(head, config.get("rope_local_theta", base)), head)
    full = rotation(powers(head, base), head)
    kinds = [kind for kind in by_steps(config) if kind >= 0]
    own = [local, full] if kinds[0] == 0 else [full, local]
    return own if 1 in kinds else own[:1]


def by_steps(config):
    """-1 is Mamba; the others are numbered by their first layer."""
    count, step = config["num_hidden_layers"], config.get("mamba_step", 2)
    full, made = config.get("full_attention_idx") or [], []
    for layer in range(count):
        mamba = layer != count - 1 if count <= step // 2 else layer % step != step // 2
        mamba = mamba and config.get("mamba_enabled", True)
        made.append(-1 if mamba else int(layer in full))
    attention = [kind for kind in made if kind >= 0]
    return [kind if kind < 0 else int(kind != attention[0]) for kind in made]


def telechat(config, length):
    head = config["hidden_size"] // config["n_head"]
    length = max(length, config["training_seqlen"])
    alpha = max(2 ** math.ceil(math.log(length / config["base_seqlen"], 2) + 1) - 1, 1)
    scale = length / config["training_seqlen"]
    return rotation(powers(head, 10000 * alpha ** (head / (head - 2))), head, attention=of_yarn(scale))


def f32(number):
    return struct.pack(">f", number).hex()


def norm(eps, reach, place):
    weights = "per head" if reach == "row" else "shared"
    return {
        "formula": "LLAMA",
        "eps": f32(eps),
        "reach": reach,
        "place": place,
        "weights": weights,
        "bias": False,
        "values": False,
    }


def no_norm(config):
    return {}


def molmo_norm(config):
    return norm(config.get("layer_norm_eps", 1e-5), "row", "before") if config.get("attention_layer_norm") else {}


def hunyuan_norm(config):
    return norm(config["rms_norm_eps"], "head", "after") if config.get("use_qk_norm") else {}


def bailing_norm(config):
    return norm(config.get("rms_norm_eps", 1e-5), "head", "before") if config.get("use_qk_norm") else {}


def openelm_norm(config):
    return norm(1e-6, "head", "before") if config.get("normalize_qk_projections") else {}


def plamo2_norm(config):
    return {**norm(1e-6, "head", "before"), "weights": "per head"}


def every_layer(config):
    count = config.get("num_hidden_layers", config.get("n_layer", config.get("num_layers", config.get("num_transformer_layers"))))
    return [0] * (count + config.get("num_single_layers", 0))


def blocks(config):
    own = [block["attention"] for block in config["block_configs"]]
    # -1 is a layer without attention.
    return [-1 if block["no_op"] or block["replace_with_linear"] else 0 for block in own]


# Of each type: the part of the file that its text model is in, the rotation, the layers and the norm.
TYPES = {
    "baichuan": (None, baichuan, every_layer, no_norm),
    "bailing_moe": (None, bailing_moe, every_layer, no_norm),
    "bailing_moe_v2": (None, bailing_moe_v2, every_layer, bailing_norm),
    "deepseek": (None, older, every_layer, no_norm),
    "deepseek_vl_v2": ("language_config", deepseek_vl_v2, every_layer, no_norm),
    "flux": (None, flux, every_layer, lambda config: {"formula": "other"}),
    "hunyuan": (None, hunyuan, every_layer, hunyuan_norm),
    "internlm": (None, internlm, every_layer, no_norm),
    "internvl_chat": ("llm_config", phi3, every_layer, no_norm),
    "kimi_vl": ("text_config", deepseek_vl_v2, every_layer, no_norm),
    "llava_llama": ("llm_cfg", older, every_layer, no_norm),
    "mimo": (None, by_theta, every_layer, no_norm),
    "mimo_v2": (None, mimo_v2, by_pattern, no_norm),
    "minicpm": (None, minicpm, every_layer, no_norm),
    "minicpmo": (None, by_theta, every_layer, no_norm),
    "minicpmv": (None, by_theta, every_layer, no_norm),
    "minimax_m1": (None, minimax_m1, by_attention, no_norm),
    "minimax_m3": (None, minimax_m3, every_layer, lambda config: {"formula": "other"}),
    "molmo": (None, by_theta, every_layer, molmo_norm),
    "multi_modality": ("language_config", by_theta, every_layer, no_norm),
    "nemotron-nas": (None, llama3, blocks, no_norm),
    "openelm": (None, openelm, every_layer, openelm_norm),
    "orion": (None, older, every_layer, no_norm),
    "phi-msft": (None, phi_msft, every_layer, no_norm),
    "phi3_v": (None, phi3, every_layer, no_norm),
    "phi3small": (None, phi3_small, every_layer, no_norm),
    "phi4": (None, phi3, every_layer, no_norm),
    "phi4mm": (None, phi3, every_layer, no_norm),
    "plamo": (None, plain, every_layer, no_norm),
    "plamo2": (None, plamo2, by_steps, plamo2_norm),
    "telechat": (None, telechat, every_layer, no_norm),
    "wan": (None, wan, every_layer, lambda config: norm(config["eps"], "row", "before")),
    "xverse": (None, by_theta, every_layer, no_norm),
    "yuan": (None, plain, every_layer, no_norm),
}

SHAPE = {"hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3, "max_position_embeddings": 4096}
LISTS = {"short_factor": [1 + pair / 8 for pair in range(12)], "long_factor": [2 + pair / 4 for pair in range(12)]}
HALF_LISTS = {key: own[:6] for key, own in LISTS.items()}
HALF = {"partial_rotary_factor": 0.5}
LONGER = {"max_position_embeddings": 16384}
LONGROPE = {"rope_type": "longrope", **LISTS, "original_max_position_embeddings": 4096}
LATENT = {"num_attention_heads": 4, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32}
TELECHAT = {"n_head": 4, "n_layer": 2, "training_seqlen": 8192}
ATTENTION = {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False}


# Files with these keys have their shape there.
PARTS = {"n_embd", "language_config", "text_config", "num_transformer_layers"}


def block(**own):
    return {"attention": {**ATTENTION, **own}, "ffn": {"no_op": False}}


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}

# Of each type, a name, what is added to the shape (None takes a key away), and the length.
FURTHER = [
    ("baichuan", "7b", {}, 1),
    ("baichuan", "13b", {"max_position_embeddings": None, "model_max_length": 4096}, 1),
    ("bailing_moe", "plain", {"rope_theta": 600000.0, "head_dim": 32}, 1),
    ("bailing_moe", "linear", {"rope_scaling": {"type": "linear", "factor": 4.0}}, 1),
    ("bailing_moe", "dynamic-grown", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, 10000),
    ("bailing_moe", "yarn", {"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 16}}, 1),
    (
        "bailing_moe",
        "yarn-mscale",
        {
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "mscale_all_dim": 0.5,
                "original_max_position_embeddings": 2048,
            }
        },
        1,
    ),
    ("bailing_moe_v2", "half", {}, 1),
    ("bailing_moe_v2", "norm", {"head_dim": 32, "rope_theta": 6e5, "use_qk_norm": True, "rms_norm_eps": 1e-6}, 1),
    ("bailing_moe_v2", "norm-eps", {"head_dim": 32, "partial_rotary_factor": 0.25, "use_qk_norm": True}, 1),
    ("deepseek", "plain", {"rope_theta": 50000.0}, 1),
    ("deepseek", "linear", {"rope_scaling": {"type": "linear", "factor": 4.0}}, 1),
    ("deepseek", "dynamic", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, 4096),
    ("deepseek", "dynamic-grown", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, 10000),
    (
        "deepseek_vl_v2",
        "latent",
        {"language_config": {"model_type": "deepseek_v2", "num_hidden_layers": 2, "rope_theta": 5e4, **LATENT}},
        1,
    ),
    ("hunyuan", "alpha", {"rope_theta": 1e4, "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 50.0}}, 1),
    (
        "hunyuan",
        "alpha-norm",
        {
            "rope_theta": 1e4,
            "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 50.0},
            "use_qk_norm": True,
            "rms_norm_eps": 1e-6,
        },
        1,
    ),
    ("internlm", "plain", {}, 1),
    ("internlm", "origin", {"rotary": {"base": 50000, "type": "origin"}}, 9999),
    ("internlm", "dynamic", {"rotary": {"base": 10000, "type": "dynamic"}}, 4096),
    ("internlm", "dynamic-grown", {"rotary": {"base": 10000, "type": "dynamic", "scaling_factor": 2.0}}, 9000),
    (
        "kimi_vl",
        "latent",
        {"text_config": {"model_type": "deepseek_v3", "num_hidden_layers": 2, "rope_theta": 8e5, **LATENT}},
        1,
    ),
    ("llava_llama", "flat", {"rope_theta": 5e4}, 1),
    (
        "mimo_v2",
        "windows",
        {
            "head_dim": 48,
            "swa_head_dim": 48,
            "partial_rotary_factor": 0.334,
            "rope_theta": 1e7,
            "swa_rope_theta": 10000,
            "hybrid_layer_pattern": [0, 1, 0],
        },
        1,
    ),
    (
        "mimo_v2",
        "windows-first",
        {"head_dim": 48, "swa_head_dim": 32, "rope_theta": 1e7, "hybrid_layer_pattern": [1, 1, 0]},
        1,
    ),
    ("minicpm", "linear", {"rope_scaling": {"type": "linear", "factor": 2.0}}, 1),
    ("minicpm", "dynamic-grown", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}, 8192),
    ("minicpm", "longrope", {"rope_scaling": LONGROPE}, 4096),
    ("minicpm", "longrope-longer", {"rope_scaling": LONGROPE}, 4097),
    ("minicpm", "longrope-context", {"rope_scaling": {**LONGROPE, "original_max_position_embeddings": 1024}}, 1),
    ("minicpmo", "2.6", {"version": 2.6, "rope_theta": 1e6}, 1),
    ("minicpmv", "4.0", {"version": 4.0}, 1),
    (
        "minimax_m1",
        "part",
        {"head_dim": 32, "rotary_dim": 16, "rope_theta": 1e7, "attn_type_list": [0, 1, 0]},
        1,
    ),
    ("minimax_m1", "whole", {"attn_type_list": [0, 0, 1]}, 1),
    ("minimax_m3", "part", {"head_dim": 32, "rotary_dim": 16, "partial_rotary_factor": 0.5, "rope_theta": 5e6}, 1),
    ("molmo", "norm", {"attention_layer_norm": True, "layer_norm_eps": 1e-6, "rope_theta": 1e6}, 1),
    (
        "nemotron-nas",
        "blocks",
        {
            "rope_theta": 500000.0,
            "rope_scaling": LLAMA3,
            "block_configs": [block(), block(no_op=True), block(replace_with_linear=True)],
        },
        1,
    ),
    ("openelm", "plain", {"model_dim": 1280, "num_transformer_layers": 3}, 1),
    (
        "openelm",
        "norm",
        {
            "model_dim": 1280,
            "num_transformer_layers": 2,
            "head_dim": 64,
            "rope_freq_constant": 50000,
            "rope_max_length": 4096,
            "normalize_qk_projections": True,
        },
        1,
    ),
    ("orion", "plain", {"rope_theta": 10000.0, "rope_scaling": None}, 1),
    ("orion", "linear", {"rope_scaling": {"type": "linear", "factor": 3.0}}, 1),
    ("phi-msft", "whole", {"n_embd": 96, "n_head": 4, "n_layer": 2, "rotary_dim": 24, "flash_rotary": True}, 1),
    ("phi3_v", "plain", {}, 1),
    ("phi3_v", "su", {"rope_scaling": {"type": "su", **LISTS}, **LONGER}, 4096),
    ("phi3_v", "su-longer", {"rope_scaling": {"type": "su", **LISTS}, **LONGER}, 4097),
    ("phi3_v", "yarn", {"rope_scaling": {"type": "yarn", **LISTS}, **LONGER}, 4096),
    ("phi3_v", "yarn-longer", {"rope_scaling": {"type": "yarn", **LISTS}, **LONGER}, 4097),
    ("phi3small", "plain", {"rope_embedding_base": 1000000, "rope_position_scale": 1.0}, 1),
    ("phi3small", "base", {"rope_embedding_base": 50000}, 1),
    ("phi4mm", "half", {"rope_scaling": {"type": "longrope", **HALF_LISTS}, **LONGER, **HALF}, 9000),
    ("phi4mm", "half-yarn", {"rope_scaling": {"type": "yarn", **HALF_LISTS}, **LONGER, **HALF}, 9000),
    ("phi4mm", "plain", {}, 1),
    ("plamo", "plain", {"n_shared_head": 8}, 1),
    ("plamo2", "plain", {"hidden_size_per_head": 32, "mamba_step": 2}, 1),
    (
        "plamo2",
        "local",
        {
            "rope_theta": 10000,
            "rope_local_theta": 1000000,
            "full_attention_idx": [5],
            "num_hidden_layers": 8,
            "mamba_step": 4,
            "mamba_enabled": False,
        },
        1,
    ),
    ("plamo2", "few", {"hidden_size_per_head": 64, "mamba_step": 8, "full_attention_idx": [2], "rope_theta": 5e4}, 1),
    ("telechat", "trained", {**TELECHAT, "base_seqlen": 8192}, 1),
    ("telechat", "stretched", {**TELECHAT, "base_seqlen": 4096}, 8192),
    ("telechat", "grown", {**TELECHAT, "base_seqlen": 8192}, 20000),
    ("xverse", "plain", {}, 1),
    ("xverse", "theta", {"rope_theta": 500000.0}, 1),
    ("yuan", "plain", {}, 1),
]


def case(config, length):
    part, rotates, layers, norms = TYPES[config["model_type"]]
    own = config.get(part, config)
    found = rotates(own, length)
    made = {"model_type": config["model_type"], "rotates": found is not None}
    if length != 1:
        made["length"] = length
    if found:
        found = found if isinstance(found, list) else [found]
        made |= {"rotations": found, "layers": layers(own), "norm": norms(own)}
        if config["model_type"] in KINDS:
            made["types"] = KINDS[config["model_type"]](own)
    return made


def lines(of, path):
    text = "".join(json.dumps(own, separators=(",", ":")) + "\n" for own in of)
    path.write_text(text)


def main():
    cases = []
    for line in (PUBLISHED / "files.jsonl").read_text().splitlines():
        file = json.loads(line)
        if file["config"]["model_type"] in TYPES:
            cases.append({"file": file["file"], **case(file["config"], 1)})
    for model_type, name, added, length in FURTHER:
        shape = {} if PARTS & set(added) else SHAPE
        config = {"model_type": model_type, **shape, **added}
        if "n_head" in added:
            config |= {"num_attention_heads": None, "num_hidden_layers": None}
        config = {key: value for key, value in config.items() if value is not None}
        cases.append({"id": f"{model_type}/{name}", "config": config, **case(config, length)})
    lines(cases, PUBLISHED / "own_code.jsonl")


def condensed(module):
    """Returns the first and last frequency of each buffer, their number, and the attention factor."""
    made = {}
    for name, buffer in module["bufs"].items():
        values = buffer.get("v")
        if not name.endswith("inv_freq") or not values:
            continue
        kind = name.removesuffix("inv_freq").removesuffix("_")
        key = f"{kind}_attention_scaling" if kind else "attention_scaling"
        made[kind] = [values[0], values[-1], len(values), module["attn"].get(key, 1.0)]
    return made


def files(path):
    made = []
    for line in pathlib.Path(path).read_text().splitlines():
        file = json.loads(line)
        truth, own = file["truth"], {"file": file["file"]}
        if "rot" in truth:
            own["rotates"] = {module["path"]: condensed(module) for module in truth["rot"]}
            for module in truth["rot"]:
                if module["class"] == "PhimoeRotaryEmbedding":
                    # Each call has a factor of its own, which the module does not have before.
                    own["rotates"][module["path"]] = {key: list[:3] + [None] for key, list in condensed(module).items()}
            own["types"] = {key: part["model_type"] for key, part in truth["resolved"].items()}
            text = file["config"].get("text_config", file["config"])
            for key in ("types", "use_rope"):
                of_layers = truth["layers"].get(key, [])
                # Some lists have only the layers of one kind of module.
                if len(of_layers) == text.get("num_hidden_layers"):
                    own[f"layer_{key}"] = of_layers
        # The last, as some have Python's Infinity, which is read by nobody else.
        own["config"] = file["config"]
        made.append(own)
    lines(made, PUBLISHED / "files.jsonl")


if __name__ == "__main__":
    files(sys.argv[2]) if sys.argv[1:2] == ["files"] else main()
