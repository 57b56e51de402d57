"""Distributed tensors (DTensor): the placements of heads, batches and tokens with which each rank rotates its shard.

They are registered when the first such tensor arrives, because torch.distributed.tensor takes long to load.
"""

import functools
import sys

from ._library import ops
from ._plan import TOKENS_MAJOR


def is_distributed(x) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def is_new(*tensors) -> bool:
    """Returns whether a tensor is distributed and the operators have just learned how to rotate it."""
    before = register.cache_info().currsize
    return any(is_distributed(x) for x in tensors) and not before and register()


@functools.cache
def register() -> bool:
    """Registers the placements; returns False where torch has no way to."""
    try:
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.experimental import register_sharding
    except ImportError:
        return False
    whole = Replicate()

    def placed(x, cos, plan, ids=None):
        """The dimensions of x that may be divided, each with the placements of cos and of ids."""
        tokens, heads = (x.ndim - 3, x.ndim - 2) if plan & TOKENS_MAJOR else (x.ndim - 2, x.ndim - 3)
        yield heads, Shard(heads) if cos.ndim == 4 and cos.shape[heads] > 1 else whole, whole
        if x.ndim == 4:
            of_ids = ids is not None and ids.ndim == 2 and ids.shape[0] > 1
            of_rows = ids is None and cos.ndim > 2 and cos.shape[0] > 1
            yield 0, Shard(0) if of_rows else whole, Shard(0) if of_ids else whole
        if ids is not None:
            yield tokens, whole, Shard(ids.ndim - 1)
        else:
            yield tokens, Shard(tokens if cos.ndim == 4 else cos.ndim - 2), whole

    def placements(tensors, cos, plan, ids=None):
        others = [None, None]
        of_ids = [] if ids is None else [whole]
        count = len(tensors)
        yield [whole] * count, [whole] * (count + 2) + of_ids + others
        for dimension, of_rows, of_ids in placed(tensors[0], cos, plan, ids):
            of_ids = [] if ids is None else [of_ids]
            yield [Shard(dimension)] * count, [Shard(dimension)] * count + [of_rows] * 2 + of_ids + others

    @register_sharding(ops.rotate.default)
    def _(x, cos, sin, plan=0, attention_factor=1.0):
        return list(placements([x], cos, plan))

    @register_sharding(ops.rotate_qk.default)
    def _(q, k, cos, sin, plan=0, attention_factor=1.0):
        return list(placements([q, k], cos, plan))

    @register_sharding(ops.rotate_at.default)
    def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
        return list(placements([x], cos, plan, ids))

    @register_sharding(ops.rotate_qk_at.default)
    def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
        return list(placements([q, k], cos, plan, ids))

    @register_sharding(ops.table_gradients.default)
    def _(x, dy, cos, plan=0):
        # A sum of the sums of ranks has other bits: each rank sums all.
        return [([whole, whole], [whole, whole, whole, None])]

    return True
