"""Rotations of a model, read from its config.json, by positions, at exact angles."""

import json
import struct

import torch
from torch import Tensor

from . import _gradients
from ._library import ops
from ._plan import INPUT, OUTPUT, TOKENS_MAJOR, TRANSPOSE, Layout, Repeat, plan
from ._rotate import explained, refuse_other_pairing


class NothingRotates(RuntimeError):
    """A model has no rotation, or what was asked for has none."""


class ChoosePart(RuntimeError):
    """A model has no rotation of its own, but its parts have: `part` says which is meant."""


class IgnoredKey(RuntimeError):
    """A file says something else about the rotation than its model's code does; see `lenient`."""


class Rotation:
    """How the layers of a model rotate: its frequencies, with their scaling, its pairing, the channels that rotate.

    config: the text of a config.json, what json made of it, or a configuration of transformers. layer_type, part,
    model_type, length and layer are choices that the file leaves open: `full_attention`, `vision_config`, the type by
    whose rules it is read, the length of the sequence that dynamic scalings depend on, the number of a layer where
    layers differ by their number. What rope-models does not know, it refuses: RuntimeError, and NothingRotates or
    ChoosePart where these are the reason. A key about the rotation that the model's code ignores, and that says
    something else, is refused as IgnoredKey, unless lenient: then the answer is that of the code. `ignored` lists such
    keys.
    """

    def __init__(
        self, config: "str | dict | transformers.PreTrainedConfig", *, layer_type: str | None = None,  # noqa: F821
        part: str | None = None, model_type: str | None = None, length: int | None = None, lenient: bool = False,
        layer: int | None = None,
    ):  # fmt: skip
        if hasattr(config, "to_json_string"):
            config = config.to_json_string()
        elif not isinstance(config, str):
            config = json.dumps(config)
        choices = (layer_type, part, model_type, length, 1 if lenient else None, layer)
        text = "\0".join([config, *("" if choice is None else str(choice) for choice in choices)])
        # A tensor, so that a graph has it as a constant.
        self.config = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        try:
            numbers = ops.config_rotation(self.config).tolist()
        except RuntimeError as error:
            kind = int(ops.config_refusal(self.config))
            raise (RuntimeError, NothingRotates, ChoosePart, IgnoredKey)[kind](str(error)) from None
        self.bits, self.head_dim, first, end, self.axes, full_width, factor, real = numbers
        self.window = range(first, end)
        self.is_full_width, self.has_real_positions = bool(full_width), bool(real)
        self.attention_factor = struct.unpack("d", struct.pack("q", factor))[0]
        self.pairing = "interleaved" if self.bits & INPUT else "half"
        self.output_pairing = "interleaved" if self.bits & OUTPUT else "half"
        self.direction = "transpose" if self.bits & TRANSPOSE else "forward"

    @property
    def ignored(self) -> list[tuple[str, str, str, bool]]:
        """The keys about the rotation that the file has and the model's code ignores: of each its path, its value, the
        reason, and whether it says something else than the code does."""
        fields = bytes(ops.config_ignored(self.config).tolist()).decode().split("\0")[:-1]
        each = zip(*[iter(fields)] * 4)
        return [(path, value, reason, significant == "1") for path, value, reason, significant in each]

    def rows(self, positions: Tensor, repeat: Repeat = "none") -> tuple[Tensor, Tensor]:
        """cos and sin of positions (`[tokens]`, `[batch, tokens]`, or `[axes, batch, tokens]`) in float32:
        `[.., rotary_dim / 2]`, or with each value twice, as `plan` says. The angles are exact at any position.

        Positions are int64 or int32, or real numbers in float64 or float32. A model with `has_real_positions` (DINOv3)
        takes coordinates in -1..1, and refuses integers."""
        return explained(_rows, positions, self, plan(repeat=repeat))

    def shift(self, deltas: Tensor, repeat: Repeat = "none") -> tuple[Tensor, Tensor]:
        """cos and sin that move rotated keys by `deltas`, one for each token: their magnitude is 1, as the keys have the
        attention factor already. To rotate keys by `rows` again would square it.

        They rotate the channels of `window`: `rotate_(k[..., window.start : window.stop], *shift(deltas),
        pairing=rotation.output_pairing, direction=rotation.direction)`."""
        return explained(_shift, deltas, self, plan(repeat=repeat))

    def shift_from(
        self, old: "Rotation", before: Tensor, after: Tensor, repeat: Repeat = "none"
    ) -> tuple[Tensor, Tensor]:
        """cos and sin that move keys which `old` rotated at positions `before` to positions `after` of this rotation:
        for dynamic, YaRN or LongRoPE scalings whose frequencies changed with the length. They replace the attention
        factor, too, and are used as those of `shift`."""
        if not isinstance(old, Rotation):
            raise TypeError(f"old is a {type(old).__name__}; it must be a Rotation")
        return explained(_shift_from, before, after, self, old, plan(repeat=repeat))

    def rotate(self, x: Tensor, positions: Tensor, layout: Layout = "bhsd") -> Tensor:
        """A new tensor: x rotated at these positions. Its heads are the model's, or the channels that rotate alone."""
        return explained(_gradients.rotated_by_config, x, self, positions, plan(layout=layout) & TOKENS_MAJOR)

    def rotate_(self, x: Tensor, positions: Tensor, layout: Layout = "bhsd") -> Tensor:
        """Rotates x in place, and returns it."""
        return explained(_rotate_in_place, x, positions, self, plan(layout=layout) & TOKENS_MAJOR)


def _rows(positions, rotation, bits):
    return ops.config_rows(rotation.config, positions, len(rotation.window) // 2, bits)


def _shift(deltas, rotation, bits):
    return ops.config_shift(rotation.config, deltas, len(rotation.window) // 2, bits)


def _shift_from(before, after, rotation, old, bits):
    return ops.config_shift_from(rotation.config, old.config, before, after, len(rotation.window) // 2, bits)


def _rotate_in_place(x, positions, rotation, bits):
    if not _gradients.by_copy(x):
        ops.rotate_by_config_(x, rotation.config, positions, bits)
        return x
    if not torch.compiler.is_compiling():
        _gradients.check_written(x=x)
    refuse_other_pairing(rotation.bits)
    return x.copy_(_gradients.rotated_by_config(x, rotation, positions, bits))
