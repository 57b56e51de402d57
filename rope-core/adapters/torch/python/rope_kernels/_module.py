"""A module that has the rows of a model's first positions, and rotates queries and keys by them."""

import numbers

import torch
from torch import Tensor

from . import _reference
from ._config import Rotation
from ._plan import Layout, plan
from ._rotate import rotate_qk


class RotaryEmbedding(torch.nn.Module):
    """Rotates queries and keys by the rows of positions 0 to `length - 1`, at the exact angles of a configuration.

    config and choices: as of `Rotation`. The rows are buffers that are not saved. `to` moves them to another device, and
    they stay in float32 where a model becomes bfloat16, as rounded rows would rotate by other angles. Beside the CPU,
    PyTorch's operators rotate.
    """

    def __init__(
        self, config: "str | dict | transformers.PreTrainedConfig | Rotation", length: int, *,  # noqa: F821
        layout: Layout = "bhsd", **choices,
    ):  # fmt: skip
        super().__init__()
        self.rotation = config if isinstance(config, Rotation) else Rotation(config, **choices)
        if self.rotation.axes > 1 or self.rotation.has_real_positions:
            raise RuntimeError(
                "positions of this model have several axes or are real; a table has integers of one axis: use "
                "Rotation.rotate"
            )
        if not isinstance(length, numbers.Integral) or length < 0:
            raise ValueError(f"length is {length!r}; it must be a number of positions")
        self.length, self.layout = length, layout
        cos, sin = self.rotation.rows(torch.arange(length))
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _apply(self, fn, recurse=True):
        had_rows = self.cos.device.type != "meta"
        super()._apply(fn, recurse)
        if self.cos.device.type != "meta" and not (had_rows and self.cos.dtype == torch.float32):
            cos, sin = self.rotation.rows(torch.arange(self.length))
            self.cos, self.sin = cos.to(self.cos.device), sin.to(self.sin.device)
        return self

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """New tensors: q and k rotated at these positions, `[tokens]` or `[batch, tokens]`."""
        rotation, first = self.rotation, self.rotation.window.start
        how = dict(
            pairing=rotation.pairing, output_pairing=rotation.output_pairing, direction=rotation.direction,
            layout=self.layout, repeat="none",
        )  # fmt: skip
        passing = [x[..., :first] if x.shape[-1] == rotation.head_dim else x[..., :0] for x in (q, k)]
        rotating = [x[..., part.shape[-1] :] for x, part in zip((q, k), passing)]
        if q.device.type == "cpu":
            results = rotate_qk(*rotating, self.cos, self.sin, ids=positions, **how)
        else:
            results = (_reference.rotate(x, self.cos, self.sin, positions, plan(**how), 1.0) for x in rotating)
        return tuple(torch.cat((part, y), -1) if part.shape[-1] else y for part, y in zip(passing, results))

    def extra_repr(self):
        return f"length={self.length}, head_dim={self.rotation.head_dim}, layout={self.layout!r}"
