#!/usr/bin/env python3
"""Cases of diffusers' transformers, made by running their classes: golden/diffusers.jsonl.

    python3 tests/golden/diffusers_types.py     (diffusers 0.42.1, torch 2.15.0)

Each class is built with one block and two heads; a case has the file of its default sizes. A class computes its rows
when it is called, from frequencies that `torch.outer` multiplies with positions, one call an axis: they are recorded
there. A query before and after the rotation, at the input of the attention function, tells the pairs. A case has the
words of models.jsonl.
"""

import importlib
import inspect
import json
import pathlib
import struct

import diffusers
import torch

OUT = pathlib.Path(__file__).parent / "diffusers.jsonl"


def watched(attention, arguments, tokens):
    """Calls an attention. Returns its query after the norm and at the attention function, and its norm."""
    seen = {}
    hook = attention.norm_q.register_forward_hook(lambda module, args, made: seen.update(before=made.clone()))
    functional, real = torch.nn.functional, torch.nn.functional.scaled_dot_product_attention

    def attend(query, *rest, **named):
        seen.setdefault("after", query.transpose(1, 2).clone())
        return real(query, *rest, **named)

    functional.scaled_dot_product_attention = attend
    try:
        with torch.no_grad():
            attention(**arguments)
    finally:
        functional.scaled_dot_product_attention = real
        hook.remove()
    return seen["before"], seen["after"][:, tokens], attention.norm_q


def turned(query, angles):
    """A query [.., channels] whose neighboring channels are rotated by the angles [.., pairs]."""
    even, odd = query[..., 0::2].double(), query[..., 1::2].double()
    cos, sin = angles.cos(), angles.sin()
    made = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return made.flatten(-2)


def hidden(model_dim, tokens):
    return torch.randn(1, tokens, model_dim)


IDS = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 4], [3, 1, 2, 5]])


def of_flux(model, positions):
    width, tokens = model.inner_dim, len(positions)
    # The text is in front of the image, at position 0.
    rows = model.pos_embed(torch.cat([torch.zeros_like(positions[:1]), positions]))
    return watched(
        model.transformer_blocks[0].attn,
        {
            "hidden_states": hidden(width, tokens),
            "encoder_hidden_states": hidden(width, 1),
            "image_rotary_emb": rows,
        },
        slice(1, None),
    )


GRID = (2, 1, 3)


def of_hunyuan(model, positions):
    patch_size = model.config.patch_size
    patch = patch_size[-1] if isinstance(patch_size, (tuple, list)) else patch_size
    video = torch.zeros(1, 1, GRID[0], GRID[1] * patch, GRID[2] * patch)
    width = model.config.num_attention_heads * model.config.attention_head_dim
    if len(model.config.rope_axes_dim) == 2:
        video = video[:, :, 0]
    tokens = len(positions)
    arguments = {
        "hidden_states": hidden(width, tokens),
        "encoder_hidden_states": hidden(width, 1),
        "image_rotary_emb": model.rope(video),
    }
    if type(model).__name__.startswith("HunyuanVideo15"):
        arguments["attention_mask"] = torch.ones(1, 1)
    return watched(model.transformer_blocks[0].attn, arguments, slice(0, tokens))


def of_wan(model, positions):
    patch = model.config.patch_size[-1]
    video = torch.zeros(1, 1, GRID[0], GRID[1] * patch, GRID[2] * patch)
    width = model.config.num_attention_heads * model.config.attention_head_dim
    arguments = {"hidden_states": hidden(width, len(positions)), "rotary_emb": model.rope(video)}
    return watched(model.blocks[0].attn1, arguments, slice(None))


def of_lumina(model, positions):
    tokens = hidden(model.config.hidden_size, len(positions))
    rows = model.rope_embedder._get_freqs_cis(positions[None])
    arguments = {"hidden_states": tokens, "encoder_hidden_states": tokens, "image_rotary_emb": rows}
    return watched(model.layers[0].attn, arguments, slice(None))


def of_z_image(model, positions):
    rows = model.rope_embedder(positions)[None]
    arguments = {"hidden_states": hidden(model.config.dim, len(positions)), "freqs_cis": rows}
    return watched(model.layers[0].attention, arguments, slice(None))


FLUX = {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 2, "joint_attention_dim": 32}
POOLED = {**FLUX, "pooled_projection_dim": 32}
HUNYUAN = {"num_layers": 1, "num_attention_heads": 2, "num_refiner_layers": 1, "text_embed_dim": 32}
VIDEO = {**HUNYUAN, "num_single_layers": 1, "pooled_projection_dim": 32}
WAN = {"num_layers": 1, "num_attention_heads": 2, "text_dim": 32, "freq_dim": 32, "ffn_dim": 32}
LUMINA = {"num_layers": 1, "num_refiner_layers": 1, "hidden_size": 192, "num_attention_heads": 2, "num_kv_heads": 2}
Z_IMAGE = {"n_layers": 1, "n_refiner_layers": 1, "dim": 256, "n_heads": 2, "n_kv_heads": 2, "cap_feat_dim": 32}

# Of each class: its file, a small model, the call, the positions, and keys with other values.
CLASSES = {
    "BriaTransformer2DModel": ("transformer_bria", POOLED, of_flux, IDS[:, :3], [{"rope_theta": 5000}]),
    "ChromaTransformer2DModel": (
        "transformer_chroma",
        {**FLUX, "approximator_num_channels": 64, "approximator_hidden_dim": 64, "approximator_layers": 1},
        of_flux,
        IDS[:, :3],
        [],
    ),
    "Flux2Transformer2DModel": (
        "transformer_flux2",
        FLUX,
        of_flux,
        IDS,
        [{"rope_theta": 10000, "axes_dims_rope": (16, 16, 48, 48), "eps": 1e-5}],
    ),
    "FluxTransformer2DModel": (
        "transformer_flux",
        POOLED,
        of_flux,
        IDS[:, :3],
        [{"attention_head_dim": 64, "axes_dims_rope": (8, 28, 28)}],
    ),
    "HunyuanImageTransformer2DModel": (
        "transformer_hunyuanimage",
        {**HUNYUAN, "num_single_layers": 1},
        of_hunyuan,
        None,
        [],
    ),
    "HunyuanVideo15Transformer3DModel": (
        "transformer_hunyuan_video15",
        {**HUNYUAN, "text_embed_2_dim": 32, "image_embed_dim": 32},
        of_hunyuan,
        None,
        [{"attention_head_dim": 64, "rope_theta": 1000.0, "rope_axes_dim": (8, 28, 28)}],
    ),
    "HunyuanVideoTransformer3DModel": (
        "transformer_hunyuan_video",
        VIDEO,
        of_hunyuan,
        None,
        [{"rope_theta": 1000.0, "rope_axes_dim": (32, 48, 48)}],
    ),
    "LongCatImageTransformer2DModel": ("transformer_longcat_image", POOLED, of_flux, IDS[:, :3], []),
    "Lumina2Transformer2DModel": (
        "transformer_lumina2",
        {**LUMINA, "cap_feat_dim": 32},
        of_lumina,
        IDS[:, :3],
        [],
    ),
    "OvisImageTransformer2DModel": ("transformer_ovis_image", FLUX, of_flux, IDS[:, :3], []),
    "SkyReelsV2Transformer3DModel": ("transformer_skyreels_v2", WAN, of_wan, None, []),
    "WanTransformer3DModel": ("transformer_wan", WAN, of_wan, None, [{"attention_head_dim": 64, "eps": 1e-5}]),
    "WanVACETransformer3DModel": ("transformer_wan_vace", {**WAN, "vace_layers": [0]}, of_wan, None, []),
    "ZImageTransformer2DModel": (
        "transformer_z_image",
        Z_IMAGE,
        of_z_image,
        IDS[:, :3],
        [{"norm_eps": 1e-6, "rope_theta": 1000.0, "axes_dims": (64, 32, 32), "axes_lens": (64, 64, 64)}],
    ),
}


def f32(number):
    return struct.pack(">f", number).hex()


def of_norm(norm, channels):
    """PyTorch's module multiplies with the weights before it rounds, diffusers' own after."""
    over_heads = norm.weight.numel() > channels
    return {
        "formula": "OLMO2" if isinstance(norm, torch.nn.RMSNorm) else "LLAMA",
        "eps": f32(norm.eps),
        "reach": "row" if over_heads else "head",
        "place": "before",
        "weights": "per head" if over_heads else "shared",
        "bias": getattr(norm, "bias", None) is not None,
        "values": False,
    }


def file_of(model, name, added):
    """The file that the class writes with its default sizes."""
    defaults = inspect.signature(type(model).__init__).parameters
    keys = {key: own.default for key, own in defaults.items() if own.default is not inspect.Parameter.empty}
    return {"_class_name": name, "_diffusers_version": diffusers.__version__, **keys, **added}


def case(number, name, module, shape, call, positions, added):
    own = importlib.import_module(f"diffusers.models.transformers.{module}")
    recorded, outer = [], torch.outer

    def record(places, frequencies):
        recorded.append(frequencies.double().tolist())
        return outer(places, frequencies)

    torch.outer = record
    try:
        torch.manual_seed(1)
        model = getattr(own, name)(**shape, **added).eval()
        lists = ("axes_dims_rope", "rope_axes_dim", "axes_dim_rope", "axes_dims")
        axes = len(next((model.config[key] for key in lists if key in model.config), [0] * 3))
        if positions is None:
            positions = torch.cartesian_prod(*[torch.arange(size) for size in GRID[-axes:]])
        before, after, norm = call(model, positions)
    finally:
        torch.outer = outer
    inverse = [own for axis in recorded[:axes] for own in axis]
    of_pair = [axis for axis, list in enumerate(recorded[:axes]) for _ in list]
    if before.dim() == 3:
        before = before.unflatten(-1, (2, -1))
    angles = positions[:, of_pair].double() * torch.tensor(inverse)
    wanted = turned(before, angles[None, :, None])
    assert (wanted - after).abs().max() < 1e-5, name
    assert after.shape[-1] == 2 * len(inverse), name
    config = file_of(model, name, added)
    layers = config.get("num_layers", config.get("n_layers")) + config.get("num_single_layers", 0)
    rotation = {
        "rotary_dim": 2 * len(inverse),
        "pairing_in": "interleaved",
        "pairing_out": "interleaved",
        "direction": 1,
        "head_dim": 2 * len(inverse),
        "inv_freq_f32_hex": "".join(f32(own) for own in inverse),
        "axes": of_pair,
    }
    return {
        "id": f"{name}/{number}",
        "config": config,
        "model_type": name,
        "rotates": True,
        "rotations": [rotation],
        "layers": [0] * layers,
        "norm": of_norm(norm, after.shape[-1]),
    }


def main():
    cases = []
    for name, (module, shape, call, positions, further) in CLASSES.items():
        for number, added in enumerate([{}, *further]):
            cases.append(case(number, name, module, shape, call, positions, added))
    OUT.write_text("".join(json.dumps(own, separators=(",", ":")) + "\n" for own in cases))


if __name__ == "__main__":
    main()
