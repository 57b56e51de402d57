"""Rotary position embedding (RoPE) for PyTorch on CPUs: rope-core's kernels as operators, `torch.ops.rope_kernels`.

`rotate`, `rotate_`, `rotate_qk` and `rotate_qk_` take cos and sin by rows, and have derivatives of every kind;
`Rotation` reads a model's config.json, `RotaryEmbedding` is a module of one; `norm_rotate_qk_` and `rotate_into_caches`
do more in the same pass, and `read_cache`, `rotate_cache_` and `move_slots` read, shift and move cached keys. The
operators themselves have no derivatives: call them where no tensor requires one.
"""

from . import _fakes, _operators  # noqa: F401
from ._config import ChoosePart, IgnoredKey, NothingRotates, Rotation
from ._module import RotaryEmbedding
from ._plan import plan
from ._rotate import rotate, rotate_, rotate_qk, rotate_qk_
from ._stages import (
    move_slots, norm_rotate_qk_, read_cache, rotate_cache_, rotate_into_caches, rotate_into_latent_cache,
)  # fmt: skip

__version__ = "0.1.0"
__all__ = [
    "ChoosePart", "IgnoredKey", "NothingRotates", "RotaryEmbedding", "Rotation", "move_slots", "norm_rotate_qk_", "plan",
    "read_cache", "rotate", "rotate_", "rotate_cache_", "rotate_into_caches", "rotate_into_latent_cache", "rotate_qk",
    "rotate_qk_",
]  # fmt: skip
