"""One-node models, sessions with the library and without, and the oracle."""

import os
import random
import unittest

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import rope_onnxruntime

SEED = int(os.environ.get("ROPE_SEED") or random.randrange(1 << 32))
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
BF16 = ml_dtypes.bfloat16
TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, BF16: TensorProto.BFLOAT16}

# Refusals are expected here, and ONNX Runtime prints them as errors.
onnxruntime.set_default_logger_severity(4)


class Case(unittest.TestCase):
    """Random data of one seed, which a failure prints."""

    def setUp(self):
        self.rng = np.random.default_rng(SEED)

    def assert_bits(self, got, expected, what=""):
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape), what)
        bits = np.uint16 if got.dtype.itemsize == 2 else np.uint32
        different = np.flatnonzero(got.ravel().view(bits) != expected.ravel().view(bits))
        if len(different):
            at = different[0]
            self.fail(
                f"{what}: {len(different)} of {got.size} differ, the first at {at}: {got.ravel()[at]}, not "
                f"{expected.ravel()[at]} (ROPE_SEED={SEED})"
            )


def model(op, domain, inputs, attributes, opset=23):
    """A model of one node. `inputs` are names and arrays, or None where an optional one is left out; those of bf16 are
    given as f32, which ONNX Runtime's Python can pass in every version, and converted in the graph."""
    nodes, values, names = [], [], []
    kind = next(iter(inputs.values())).dtype.type
    for name, array in inputs.items():
        if array is None:
            names.append("")
            continue
        given = np.float32 if array.dtype == BF16 else array.dtype.type
        values.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(given)), array.shape))
        if array.dtype == BF16:
            nodes.append(helper.make_node("Cast", [name], [name + " bf16"], to=TensorProto.BFLOAT16))
            name += " bf16"
        names.append(name)
    while names and not names[-1]:
        names.pop()
    nodes.append(helper.make_node(op, names, ["y"], name="the node", domain=domain, **attributes))
    y = "y"
    if kind == BF16:
        y = "y f32"
        nodes.append(helper.make_node("Cast", ["y"], [y], to=TensorProto.FLOAT))
    shape = next(iter(inputs.values())).shape
    out = helper.make_tensor_value_info(y, TensorProto.FLOAT if kind == BF16 else TYPES[kind], shape)
    graph = helper.make_graph(nodes, "graph", values, [out])
    # A runtime refuses opsets that it does not know.
    opset = opset if domain == "" else 15
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * (domain != "")
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 9 if opset < 23 else 10
    return made.SerializeToString()


def session(serialized, library=True, threads=1):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if library:
        rope_onnxruntime.register(options)
    return onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])


def feed(inputs):
    widened = lambda array: array.astype(np.float32) if array.dtype == BF16 else array
    return {name: widened(array) for name, array in inputs.items() if array is not None}


def run(op, domain, inputs, attributes, library=True, threads=1, opset=23):
    kind = next(iter(inputs.values())).dtype
    [y] = session(model(op, domain, inputs, attributes, opset), library, threads).run(None, feed(inputs))
    return y.astype(kind)


def rotated(x, cos, sin, interleaved):
    """The oracle: [batch, tokens, heads, head_dim] by the rows [batch, tokens, pairs]. Two products and a sum in f32,
    each rounded by itself, then rounded to the type: the bits that the library has to give."""
    pairs = cos.shape[-1]
    wide = x.astype(np.float32)
    cos, sin = (rows.astype(np.float32)[:, :, None] for rows in (cos, sin))
    channels = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved else (
        slice(0, pairs), slice(pairs, 2 * pairs))
    a, b = (wide[..., part] for part in channels)
    y = x.copy()
    y[..., channels[0]] = (a * cos - b * sin).astype(x.dtype)
    y[..., channels[1]] = (a * sin + b * cos).astype(x.dtype)
    return y
