"""A small Llama: two layers with a KV cache, as exporters write them, and the same in NumPy in f64."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from common import TYPES

LAYERS, VOCABULARY, HIDDEN, MIDDLE = 2, 96, 128, 192
HEADS, KV_HEADS, HEAD_SIZE, POSITIONS = 4, 2, 32, 4096
EPSILON = 1e-5


def weights(rng, kind):
    """Normally distributed, at scales that keep the activations near 1; the tables of Llama."""
    made = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(kind)
    gain = lambda: rng.uniform(0.5, 1.5, HIDDEN).astype(kind)
    angles = np.arange(POSITIONS)[:, None] * 10_000.0 ** -(np.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2))
    named = {"embedding": rng.standard_normal((VOCABULARY, HIDDEN)).astype(kind), "norm": gain(),
             "head": made(HIDDEN, VOCABULARY), "cos": np.cos(angles).astype(kind), "sin": np.sin(angles).astype(kind)}
    for layer in range(LAYERS):
        named |= {f"{layer}.{name}": array for name, array in {
            "attention norm": gain(), "query": made(HIDDEN, HEADS * HEAD_SIZE),
            "key": made(HIDDEN, KV_HEADS * HEAD_SIZE), "value": made(HIDDEN, KV_HEADS * HEAD_SIZE),
            "output": made(HEADS * HEAD_SIZE, HIDDEN), "mlp norm": gain(), "gate": made(HIDDEN, MIDDLE),
            "up": made(HIDDEN, MIDDLE), "down": made(MIDDLE, HIDDEN)}.items()}
    return named


class Llama:
    """The graph. `rotation` is what rotates: "contributed", "standard", or "inside" of the attention."""

    def __init__(self, rng, rotation, kind=np.float32, interleaved=False):
        self.rotation, self.kind, self.interleaved = rotation, kind, interleaved
        self.weights = weights(rng, kind)
        self.nodes, self.constants = [], {}
        element = TYPES[kind]
        value = helper.make_tensor_value_info
        inputs = [value("tokens", TensorProto.INT64, ["batch", "tokens"])]
        if rotation == "inside":
            inputs += [value("lengths", TensorProto.INT32, ["batch"]), value("total", TensorProto.INT32, [])]
        else:
            inputs += [value("ids", TensorProto.INT64, ["batch", "tokens"])]
            inputs += [value("mask", element, ["tokens", "total"])]
        cache = ["batch", KV_HEADS, "past", HEAD_SIZE]
        inputs += [value(f"past.{layer}.{name}", element, cache)
                   for layer in range(LAYERS) for name in ("key", "value")]
        present = ["batch", KV_HEADS, "total", HEAD_SIZE]
        outputs = [value("logits", element, ["batch", "tokens", VOCABULARY])]
        outputs += [value(f"present.{layer}.{name}", element, present)
                    for layer in range(LAYERS) for name in ("key", "value")]

        x = self.op("Gather", "embedding", "tokens")
        for layer in range(LAYERS):
            x = self.op("Add", x, self.attention(self.norm(x, f"{layer}.attention norm"), layer))
            x = self.op("Add", x, self.mlp(self.norm(x, f"{layer}.mlp norm"), layer))
        self.op("MatMul", self.norm(x, "norm"), "head", output="logits")
        tensors = [numpy_helper.from_array(array, name) for name, array in (self.weights | self.constants).items()]
        graph = helper.make_graph(self.nodes, "llama", inputs, outputs, tensors)
        opset = 23 if rotation == "standard" else 18
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset == 23 else 9)

    def op(self, op, *inputs, output=None, **attributes):
        name = f"{op} {len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output or name], name=name, **attributes))
        return output or name

    def constant(self, *values, kind=np.int64):
        name = f"{np.dtype(kind).name} {values}"
        self.constants[name] = np.array(values, kind)
        return name

    def norm(self, x, weight):
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.constant(-1))
        root = self.op("Sqrt", self.op("Add", mean, self.constant(EPSILON, kind=self.kind)))
        return self.op("Mul", self.op("Div", x, root), weight)

    def mlp(self, x, layer):
        gate = self.op("MatMul", x, f"{layer}.gate")
        gate = self.op("Mul", gate, self.op("Sigmoid", gate))
        return self.op("MatMul", self.op("Mul", gate, self.op("MatMul", x, f"{layer}.up")), f"{layer}.down")

    def attention(self, x, layer):
        query, key, value = (self.op("MatMul", x, f"{layer}.{name}") for name in ("query", "key", "value"))
        y = (self.fused if self.rotation == "inside" else self.unfused)(query, key, value, layer)
        return self.op("MatMul", y, f"{layer}.output")

    def fused(self, query, key, value, layer):
        inputs = [query, key, value, f"past.{layer}.key", f"past.{layer}.value", "lengths", "total", "cos", "sin"]
        y = f"attention {layer}"
        self.nodes.append(helper.make_node(
            "GroupQueryAttention", inputs, [y, f"present.{layer}.key", f"present.{layer}.value"], name=y,
            domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1,
            rotary_interleaved=int(self.interleaved)))
        return y

    def unfused(self, query, key, value, layer):
        options = {"interleaved": int(self.interleaved)}
        if self.rotation == "contributed":
            query, key = (self.op("RotaryEmbedding", x, "ids", "cos", "sin", domain="com.microsoft", **options)
                          for x in (query, key))
        query, key, value = (
            self.op("Transpose", self.op("Reshape", x, self.constant(0, 0, heads, HEAD_SIZE)), perm=[0, 2, 1, 3])
            for x, heads in ((query, HEADS), (key, KV_HEADS), (value, KV_HEADS)))
        if self.rotation == "standard":
            query, key = (self.op("RotaryEmbedding", x, "cos", "sin", "ids", **options) for x in (query, key))
        key, value = (self.op("Concat", f"past.{layer}.{name}", x, output=f"present.{layer}.{name}", axis=2)
                      for name, x in (("key", key), ("value", value)))
        # Heads that share a key and a value are a dimension of their own.
        query = self.op("Reshape", query, self.constant(0, KV_HEADS, HEADS // KV_HEADS, -1, HEAD_SIZE))
        key, value = (self.op("Unsqueeze", x, self.constant(2)) for x in (key, value))
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 2, 4, 3]))
        scores = self.op("Mul", scores, self.constant(HEAD_SIZE**-0.5, kind=self.kind))
        weights = self.op("Softmax", self.op("Add", scores, "mask"), axis=-1)
        y = self.op("Reshape", self.op("MatMul", weights, value), self.constant(0, HEADS, -1, HEAD_SIZE))
        return self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.constant(0, 0, HEADS * HEAD_SIZE))

    def feeds(self, tokens, start, caches):
        """A step with the tokens at `start ..`; the cache of each layer, of the step before."""
        count = tokens.shape[1]
        total = caches[0].shape[2] + count
        feeds = {"tokens": tokens} | {f"past.{index // 2}.{('key', 'value')[index % 2]}": cache
                                      for index, cache in enumerate(caches)}
        if self.rotation == "inside":
            lengths = np.full(len(tokens), total - 1, np.int32)
            return feeds | {"lengths": lengths, "total": np.array(total, np.int32)}
        mask = np.where(np.arange(total) <= np.arange(total - count, total)[:, None], 0, -1e4).astype(self.kind)
        return feeds | {"ids": np.tile(start + np.arange(count), (len(tokens), 1)), "mask": mask}

    def caches(self, batch):
        return [np.zeros((batch, KV_HEADS, 0, HEAD_SIZE), self.kind)] * (2 * LAYERS)

    def logits(self, tokens, start):
        """All of the tokens at once, in f64, from the weights and tables as they are."""
        w = {name: array.astype(np.float64) for name, array in self.weights.items()}
        batch, count = tokens.shape
        cos, sin = (w[name][start : start + count, None] for name in ("cos", "sin"))
        half = HEAD_SIZE // 2
        first, second = (slice(0, None, 2), slice(1, None, 2)) if self.interleaved else (slice(half), slice(half, None))

        def norm(x, weight):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight

        def rotated(x):
            y = np.empty_like(x)
            y[..., first] = x[..., first] * cos - x[..., second] * sin
            y[..., second] = x[..., first] * sin + x[..., second] * cos
            return y

        x = w["embedding"][tokens]
        mask = np.where(np.arange(count) <= np.arange(count)[:, None], 0, -np.inf)
        for layer in range(LAYERS):
            weight = lambda name: w[f"{layer}.{name}"]
            h = norm(x, weight("attention norm"))
            query, key, value = ((h @ weight(name)).reshape(batch, count, -1, HEAD_SIZE)
                                 for name in ("query", "key", "value"))
            key, value = (np.repeat(t, HEADS // KV_HEADS, 2) for t in (rotated(key), value))
            scores = np.einsum("bqhd,bkhd->bhqk", rotated(query), key) / np.sqrt(HEAD_SIZE) + mask
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            y = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(-1, keepdims=True), value)
            x = x + y.reshape(batch, count, -1) @ weight("output")
            h = norm(x, weight("mlp norm"))
            gate = h @ weight("gate")
            x = x + (gate / (1 + np.exp(-gate)) * (h @ weight("up"))) @ weight("down")
        return norm(x, w["norm"]) @ w["head"]
