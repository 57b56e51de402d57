"""Writes logits/: what small whole models of transformers give, with weights that a formula makes.

    python3 tests/golden/logits.py

Of each model: its configuration (NAME.json), which candle-transformers reads too, and its logits (NAME.txt) in f32, in
bf16 and in f64, with the cos and sin that transformers computes and with those of the exact angles. Each result in f64
is recomputed by numpy, with none of the model's code, and has to agree to 1e-9.

Needs torch (CPU), transformers, numpy and mpmath; CI does not run it. Written for transformers 5.23.0 and torch 2.15.0.
The last bits of matrix products, and so of all logits, are the CPU's: a file made elsewhere differs in them.
"""

import json
import math
import pathlib
import struct
from unittest import mock

import mpmath
import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent / "logits"
SHAPE = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 128,
         "vocab_size": 128, "max_position_embeddings": 131072, "tie_word_embeddings": False, "hidden_act": "silu"}
LLAMA = {"model_type": "llama", "hidden_size": 128, **SHAPE, "rms_norm_eps": 1e-5, "rope_theta": 500000.0}
CONFIGURATIONS = {
    "llama": LLAMA,
    "llama3": {**LLAMA, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    # Heads that are wider than their share of the hidden size, as in Qwen3-0.6B.
    "qwen3": {"model_type": "qwen3", "hidden_size": 64, "head_dim": 32, **SHAPE, "rms_norm_eps": 1e-6,
              "rope_theta": 1000000.0, "attention_bias": False, "use_sliding_window": False, "sliding_window": None,
              "max_window_layers": 2},
}
TOKENS = 16
JUMPS = [0, 1, 17, 18, 400, 401, 1023, 5000, 5001, 12345, 30000, 65535, 65536, 80001, 99998, 99999]
POSITIONS = {f"at_{p}": list(range(p, p + TOKENS)) for p in (0, 100, 5000, 100000)} | {"jumps": JUMPS}
IN_BF16 = [(model, case) for model in ("llama3", "qwen3") for case in ("at_100", "at_5000", "at_100000", "jumps")]


def random(name, count):
    """The first outputs of splitmix64, started at the FNV-1a hash of the name."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    z = np.uint64(state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def weight(name, shape):
    """A tensor of the model, in f32."""
    k = (random(name, math.prod(shape)) >> np.uint64(40)).astype(np.int64) - 2**23
    u = (k.astype(np.float32) * np.float32(2**-24)).reshape(shape)
    if len(shape) == 1:
        return np.float32(1) + u * np.float32(0.25)
    return u * np.float32(2.0 if "embed" in name else {64: 0.5, 128: 0.25}[shape[1]])


def exact_frequencies(config):
    """The inverse frequencies, in 200 bits."""
    frequencies = [mpmath.mpf(config["rope_theta"]) ** (-mpmath.mpf(i) / 16) for i in range(16)]
    if scaling := config.get("rope_scaling"):
        for i, w in enumerate(frequencies):
            turns = scaling["original_max_position_embeddings"] * w / (2 * mpmath.pi)
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            kept = min(max((turns - low) / (high - low), mpmath.mpf(0)), mpmath.mpf(1))
            frequencies[i] = w * (kept + (1 - kept) / scaling["factor"])
    return frequencies


def exact_rows(config, positions):
    """The cos and sin of the exact angles, [token][pair], rounded to f64."""
    angles = [[p * w for w in exact_frequencies(config)] for p in positions]
    return tuple(np.array([[float(f(a)) for a in row] for row in angles]) for f in (mpmath.cos, mpmath.sin))


class Model:
    """The model of transformers in one dtype, with the formula's weights or others."""

    def __init__(self, config, dtype, weights=None):
        made = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
        self.model = transformers.AutoModelForCausalLM.from_config(made, dtype=dtype, attn_implementation="eager")
        self.model.eval()
        # Converting the model afterwards would also have rounded the frequencies.
        assert self.model.model.rotary_emb.inv_freq.dtype == torch.float32
        named = self.model.named_parameters()
        self.weights = weights or {name: weight(name, tuple(tensor.shape)) for name, tensor in named}
        self.model.load_state_dict({name: torch.from_numpy(w) for name, w in self.weights.items()})

    def rows(self, positions):
        """The cos and sin that the model computes in f32, [token][pair]."""
        rows = self.model.model.rotary_emb(torch.zeros(1), torch.tensor([positions]))
        return tuple(x[0, :, :16].numpy() for x in rows)

    def logits(self, tokens, positions):
        # The mask keeps positions that jump from being taken for sequences packed into one.
        with torch.no_grad():
            return self.model(input_ids=torch.tensor([tokens]), position_ids=torch.tensor([positions]),
                              attention_mask=torch.ones(1, TOKENS, dtype=torch.long), use_cache=False).logits[0]

    def logits_in_f64(self, tokens, positions, rows):
        """Runs the model with the given cos and sin, and with f64 in norms and softmax, where transformers has f32. Changes
        the model."""
        softmax = lambda x, dim, dtype: torch.softmax(x, dim)
        norm = lambda m: lambda x: m.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon))
        given = tuple(torch.from_numpy(np.concatenate([x, x], 1).astype(np.float64))[None] for x in rows)
        for module in self.model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = norm(module)
        self.model.model.rotary_emb.forward = lambda x, position_ids: given
        with mock.patch.object(torch.nn.functional, "softmax", softmax):
            return self.logits(tokens, positions).numpy()


def recomputed(config, weights, tokens, rows):
    """The logits in f64, written anew in numpy."""
    w = {name: x.astype(np.float64) for name, x in weights.items()}
    cos, sin = (x.astype(np.float64)[:, None] for x in rows)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * w[name]

    def heads(x, name):
        x = (x @ w[f"{name}_proj.weight"].T).reshape(TOKENS, -1, 32)
        if f"{name}_norm.weight" in w:
            x = norm(x, f"{name}_norm.weight")
        if name.endswith(".v"):
            return x
        a, b = x[..., :16], x[..., 16:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        of = f"model.layers.{layer}."
        y = norm(x, of + "input_layernorm.weight")
        q, k, v = (heads(y, f"{of}self_attn.{part}") for part in "qkv")
        mixed = np.empty_like(q)
        for h in range(4):
            scores = q[:, h] @ k[:, h // 2].T / np.sqrt(32)
            scores[np.triu_indices(TOKENS, 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, h] = shares / shares.sum(-1, keepdims=True) @ v[:, h // 2]
        x = x + mixed.reshape(TOKENS, -1) @ w[of + "self_attn.o_proj.weight"].T
        y = norm(x, of + "post_attention_layernorm.weight")
        gate, up = (y @ w[f"{of}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[of + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w["lm_head.weight"].T


def distance(a, b):
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())


def logits_in_f64(config, weights, tokens, positions, rows):
    """Returns the logits of transformers' model with the given cos and sin, if numpy agrees with it."""
    logits = Model(config, torch.float64, weights).logits_in_f64(tokens, positions, rows)
    assert distance(logits, recomputed(config, weights, tokens, rows)) < 1e-9
    return logits


def bits(form, values):
    return (struct.pack(form, x).hex() for x in np.asarray(values).ravel().tolist())


def rounded_to_bf16(weights):
    return {name: torch.from_numpy(w).bfloat16().float().numpy() for name, w in weights.items()}


def write(name, config):
    model = Model(config, torch.float32)
    tokens = [int(z >> np.uint64(57)) for z in random("tokens", TOKENS)]
    inverse = model.model.model.rotary_emb.inv_freq.numpy()
    out = open(HERE / f"{name}.txt", "w")
    (HERE / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}, numpy {np.__version__}"
    print(f"# {name}; made by logits.py with {versions}.", file=out)
    print("tokens", *tokens, file=out)
    for key in "model.norm.weight", "lm_head.weight":
        print(f"{key}_f32", *bits(">f", model.weights[key].ravel()[:16]), file=out)
    print("inv_freq_hf_f32", *bits(">f", inverse), file=out)
    # A power and a quotient, each rounded to f32, and where Llama 3 blends two frequencies six operations more.
    assert all(abs(x / w - 1) < 8 * 2**-24 for x, w in zip(inverse.tolist(), exact_frequencies(config)))
    unmoved = None
    for case, positions in POSITIONS.items():
        rows, exact = model.rows(positions), exact_rows(config, positions)
        # cos and sin are torch's, at most an ulp from those of the product of position and frequency in f32.
        angles = (np.float32(positions)[:, None] * inverse).astype(np.float64)
        assert max(distance(row, of(angles)) for row, of in zip(rows, (np.cos, np.sin))) <= 2**-23
        f32 = model.logits(tokens, positions).numpy()
        hf_rows, right = (logits_in_f64(config, model.weights, tokens, positions, r) for r in (rows, exact))
        # Attention sees differences of positions only: where all are moved by as much, exact logits stay what they are.
        unmoved = right if unmoved is None else unmoved
        assert case == "jumps" or distance(right, unmoved) < 1e-12
        # Half of the tokens elsewhere: the logits have to depend on the positions by far more than they are rounded.
        elsewhere = [p + 1000 * (i >= TOKENS // 2) for i, p in enumerate(positions)]
        rounding, moved = distance(f32, hf_rows), distance(f32, model.logits(tokens, elsewhere))
        assert moved > 1e4 * rounding
        double = Model(config, torch.float64, model.weights).logits(tokens, positions)
        said = {"hf_f32 to hf_rows_f64": rounding, "in double to hf_rows_f64": distance(double, hf_rows),
                "hf_rows_f64 to exact_f64": distance(hf_rows, right), "half of the tokens moved": moved}
        lines = {"positions": positions, "hf_f32": bits(">f", f32), "hf_rows_f64": bits(">d", hf_rows[-1]),
                 "exact_f64": bits(">d", right[-1])}
        if (name, case) in IN_BF16:
            low = Model(config, torch.bfloat16, rounded_to_bf16(model.weights))
            bf16 = low.logits(tokens, positions).float().numpy()
            right = logits_in_f64(config, low.weights, tokens, positions, exact)
            said["hf_bf16 to exact_of_bf16_f64"] = distance(bf16, right)
            lines["hf_bf16"] = (word[:4] for word in bits(">f", bf16))
            lines["exact_of_bf16_f64"] = bits(">d", right[-1])
        said = "; ".join(f"{what} {x:.1e}" for what, x in said.items())
        print(f"{name} {case}: {said}", flush=True)
        print(f"# {case}: {said}", file=out)
        for key, values in lines.items():
            print(f"{case}.{key}", *values, file=out)


mpmath.mp.prec = 200
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
HERE.mkdir(exist_ok=True)
for name, config in CONFIGURATIONS.items():
    write(name, config)
