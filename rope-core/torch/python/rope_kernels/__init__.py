"""Rotary position embedding (RoPE) for PyTorch on CPUs: rope-core's kernels as operators, `torch.ops.rope_kernels`.

`rotate`, `rotate_`, `rotate_qk` and `rotate_qk_` take cos and sin by rows, and have gradients. The operators themselves
have none: call them where no tensor requires one.
"""

from . import _fakes  # noqa: F401
from ._plan import plan
from ._rotate import rotate, rotate_, rotate_qk, rotate_qk_

__all__ = ["plan", "rotate", "rotate_", "rotate_qk", "rotate_qk_"]
