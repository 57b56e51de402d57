"""Rotations of a model, read from its config.json, by positions, at exact angles."""

import json
import struct

import torch

from . import _gradients
from ._library import ops
from ._plan import INPUT, OUTPUT, TOKENS_MAJOR, TRANSPOSE, plan
from ._rotate import written


class Rotation:
    """How the layers of a model rotate: its frequencies, with their scaling, its pairing, the channels that rotate.

    config: the text of a config.json, what json made of it, or a configuration of transformers. layer_type, part,
    model_type, length and layer are choices that the file leaves open: `full_attention`, `vision_config`, the type by
    whose rules it is read, the length of the sequence that dynamic scalings depend on, the number of a layer where
    layers differ by their number. What rope-models does not know, it refuses: RuntimeError.
    """

    def __init__(self, config, *, layer_type=None, part=None, model_type=None, length=None, layer=None):
        if hasattr(config, "to_json_string"):
            config = config.to_json_string()
        elif not isinstance(config, str):
            config = json.dumps(config)
        choices = (layer_type, part, model_type, length, layer)
        text = "\0".join([config, *("" if choice is None else str(choice) for choice in choices)])
        # A tensor, so that a graph has it as a constant.
        self.config = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        bits, self.head_dim, first, end, self.axes, full_width, factor = ops.config_rotation(self.config).tolist()
        self.window = range(first, end)
        self.is_full_width = bool(full_width)
        self.attention_factor = struct.unpack("d", struct.pack("q", factor))[0]
        self.pairing = "interleaved" if bits & INPUT else "half"
        self.output_pairing = "interleaved" if bits & OUTPUT else "half"
        self.direction = "transpose" if bits & TRANSPOSE else "forward"

    def rows(self, positions, repeat="none"):
        """cos and sin of positions (`[tokens]`, `[batch, tokens]`, or `[axes, batch, tokens]`) in float32: `[.., rotary_dim
        / 2]`, or with each value twice, as `plan` says. The angles are exact at any position."""
        return ops.config_rows(self.config, positions, len(self.window) // 2, plan(repeat=repeat))

    def rotate(self, x, positions, layout="bhsd"):
        """A new tensor: x rotated at these positions. Its heads are the model's, or the channels that rotate alone."""
        bits = plan(layout=layout) & TOKENS_MAJOR
        if _gradients.needed(x):
            return _gradients.RotateByConfig.apply(x, self.config, positions, bits)
        return ops.rotate_by_config(x, self.config, positions, bits)

    def rotate_(self, x, positions, layout="bhsd"):
        """Rotates x in place, and returns it; without gradients."""
        if _gradients.needed(x):
            raise RuntimeError("x requires a gradient; use rotate")
        ops.rotate_by_config_(x, self.config, positions, plan(layout=layout) & TOKENS_MAJOR)
        return written(x)
