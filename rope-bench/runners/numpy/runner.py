"""RoPE as one writes it in NumPy. The protocol: ../PROTOCOL.md."""

import json
import sys
from time import perf_counter_ns

import numpy as np

ELEMENTS = {"f32": np.float32, "f16": np.float16}


def tables(request, element):
    """cos and sin of each sequence and token, of all pairs, made in f32 and rounded to the element."""
    dim = request["rotary_dim"]
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    frequencies = np.float32(1) / np.float32(request["base"]) ** exponents
    positions = np.array(request["positions"], dtype=np.float32)
    angles = positions[..., None] * frequencies
    # A dimension for the heads, where the layout has them.
    angles = np.expand_dims(angles, 2 if request["layout"] == "bshd" else 1)
    return np.cos(angles).astype(element), np.sin(angles).astype(element)


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


def main():
    request = json.loads(sys.stdin.readline())
    if request["protocol"] != 1:
        sys.exit(f"protocol {request['protocol']}: this runner speaks 1")
    element = ELEMENTS[request["element"]]
    batch, tokens, head_dim = (request[key] for key in ("batch", "tokens", "head_dim"))
    values = np.fromfile(request["input"], dtype=element)
    tensors, start = [], 0
    for heads in request["heads"]:
        inner = (tokens, heads) if request["layout"] == "bshd" else (heads, tokens)
        end = start + batch * tokens * heads * head_dim
        tensors.append(values[start:end].reshape(batch, *inner, head_dim))
        start = end

    begin = perf_counter_ns()
    cos, sin = tables(request, element)
    preparation = perf_counter_ns() - begin
    dim, half = request["rotary_dim"], request["pairing"] == "half"

    def call():
        return [rotate(x, cos, sin, dim, half) for x in tensors]

    np.concatenate([y.ravel() for y in call()]).tofile(request["output"])

    def batch_of(calls):
        begin = perf_counter_ns()
        for _ in range(calls):
            call()
        return perf_counter_ns() - begin

    calls = 1
    while batch_of(calls) < request["batch_ns"]:
        calls *= 2
    samples, begin = [], perf_counter_ns()
    while len(samples) < request["rounds"] or perf_counter_ns() - begin < request["duration_ns"]:
        samples.append(batch_of(calls) / calls)
    print(json.dumps({"version": f"numpy {np.__version__}", "preparation": preparation, "samples": samples}))


main()
