"""RoPE as one writes it in NumPy."""

import sys

import numpy as np

sys.path.append("..")
import protocol


def rotate(x, cos, sin, dim, half):
    y = np.empty_like(x)
    if half:
        first, second = slice(0, dim // 2), slice(dim // 2, dim)
    else:
        first, second = slice(0, dim, 2), slice(1, dim, 2)
    a, b = x[..., first], x[..., second]
    y[..., first] = a * cos - b * sin
    y[..., second] = b * cos + a * sin
    y[..., dim:] = x[..., dim:]
    return y


def prepare(request, tensors):
    # A dimension for the heads, where the layout has them.
    angles = np.expand_dims(protocol.angles(request), 2 if request["layout"] == "bshd" else 1)
    cos, sin = (table.astype(tensors[0].dtype) for table in (np.cos(angles), np.sin(angles)))
    dim, half = request["rotary_dim"], request["pairing"] == "half"
    return lambda: [rotate(x, cos, sin, dim, half) for x in tensors], lambda results: results


protocol.main(f"numpy {np.__version__}", prepare)
