"""What runners in Python have in common: they read the request, time their calls and answer. PROTOCOL.md has the rules.

A runner calls `main(version, prepare)`. `prepare(request, tensors)` gets NumPy arrays of the request's layout, of uint16
for bf16, and returns a function without arguments that rotates them into results, and one that makes such arrays of
these results. All that `prepare` does is preparation: tables, models, compilation.
"""

import json
import sys
from time import perf_counter_ns

import numpy as np

ELEMENTS = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}


def angles(request):
    """The angles in f32 of all pairs, `[sequences, tokens, pairs]`; one sequence stands for all."""
    dim = request["rotary_dim"]
    exponents = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    frequencies = np.float32(1) / np.float32(request["base"]) ** exponents
    return np.array(request["positions"], dtype=np.float32)[..., None] * frequencies


def read(request):
    batch, tokens, head_dim = (request[key] for key in ("batch", "tokens", "head_dim"))
    values = np.fromfile(request["input"], dtype=ELEMENTS[request["element"]])
    tensors, start = [], 0
    for heads in request["heads"]:
        inner = (tokens, heads) if request["layout"] == "bshd" else (heads, tokens)
        end = start + batch * tokens * heads * head_dim
        tensors.append(values[start:end].reshape(batch, *inner, head_dim))
        start = end
    return tensors


def measure(request, call):
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
    return samples


def main(version, prepare):
    request = json.loads(sys.stdin.readline())
    if request["protocol"] != 1:
        sys.exit(f"protocol {request['protocol']}: this runner speaks 1")
    tensors = read(request)
    begin = perf_counter_ns()
    call, arrays = prepare(request, tensors)
    preparation = perf_counter_ns() - begin
    np.concatenate([array.ravel() for array in arrays(call())]).tofile(request["output"])
    samples = measure(request, call)
    print(json.dumps({"version": version, "preparation": preparation, "samples": samples}))
