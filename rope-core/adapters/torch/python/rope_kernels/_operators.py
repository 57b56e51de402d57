"""The operators within torch.func: rotations by rows as their functions do them, and refusals of all others that would
lose a derivative. Without this a tangent of an operator's argument would be lost in silence."""

import torch

from . import _gradients

_LIBRARY = torch.library.Library("rope_kernels", "IMPL")


def _within_functorch(name):
    return lambda function: _LIBRARY.impl(name, function, "FuncTorchDynamicLayerFrontMode")


@_within_functorch("rotate")
def _(x, cos, sin, plan=0, attention_factor=1.0):
    return _gradients.rotated(x, cos, sin, None, plan, attention_factor)


@_within_functorch("rotate_at")
def _(x, cos, sin, ids, plan=0, attention_factor=1.0):
    return _gradients.rotated(x, cos, sin, ids, plan, attention_factor)


@_within_functorch("rotate_qk")
def _(q, k, cos, sin, plan=0, attention_factor=1.0):
    return _gradients.rotated_qk(q, k, cos, sin, None, plan, attention_factor)


@_within_functorch("rotate_qk_at")
def _(q, k, cos, sin, ids, plan=0, attention_factor=1.0):
    return _gradients.rotated_qk(q, k, cos, sin, ids, plan, attention_factor)


def _refused(name):
    def refuse(*args, **named):
        raise RuntimeError(
            f"torch.ops.rope_kernels.{name} has no derivatives and no transformations of torch.func; rotate by the "
            "functions of rope_kernels"
        )

    _within_functorch(name)(refuse)


for _name in (
    "rotate_", "rotate_at_", "rotate_qk_", "rotate_qk_at_", "rotate_by_config", "rotate_by_config_", "norm_rotate_qk_",
    "rotate_into_caches", "rotate_into_latent_cache", "read_cache", "rotate_cache_", "move_slots",
    "table_gradients",
):  # fmt: skip
    _refused(_name)
