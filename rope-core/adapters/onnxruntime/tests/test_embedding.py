"""The two built-in operators: every combination of type, rank, pairing, part of the head, ids and threads."""

import itertools
import os
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import BF16, SEED, VERSION, Case, feed, model, rotated, run, session

# The newest version of ONNX's operators that a version of ONNX Runtime knows.
HAS_STANDARD = VERSION >= (1, 23)
SECONDS = float(os.environ.get("ROPE_SECONDS", "10"))


class Node:
    """Inputs and attributes of a node, and what it has to return."""

    def __init__(self, rng, schema, kind, rank, interleaved, partial, ids, shape=(2, 5, 3, 16), positions=40):
        batch, tokens, heads, head_dim = shape
        rotary_dim = partial or head_dim
        pairs = rotary_dim // 2
        self.schema, self.kind = schema, kind
        self.attributes = {"interleaved": int(interleaved)}
        if partial:
            self.attributes["rotary_embedding_dim"] = partial
        if schema == "standard" and rank == 3 or partial and schema == "contributed":
            self.attributes["num_heads"] = heads
        x = rng.standard_normal(shape).astype(kind)
        table = (batch, tokens) if ids == "none" else (positions,)
        angles = rng.uniform(-4, 4, (*table, pairs))
        cos, sin = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
        if ids == "none":
            position_ids, rows = None, (cos, sin)
        else:
            if ids == "offset":
                start = rng.integers(0, positions - tokens + 1)
                position_ids = np.array([start], np.int64)
                each = np.broadcast_to(start + np.arange(tokens), (batch, tokens))
            else:
                position_ids = each = rng.integers(0, positions, (batch, tokens))
            rows = (cos[each], sin[each])
        y = rotated(x, *rows, interleaved)
        self.x, self.y = (self.laid_out(t, rank) for t in (x, y))
        if schema == "contributed":
            self.inputs = {"x": self.x, "position_ids": position_ids, "cos": cos, "sin": sin}
        else:
            self.inputs = {"x": self.x, "cos": cos, "sin": sin, "position_ids": position_ids}

    @staticmethod
    def laid_out(x, rank):
        if rank == 4:
            return np.ascontiguousarray(x.transpose(0, 2, 1, 3))
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])

    @property
    def domain(self):
        return "com.microsoft" if self.schema == "contributed" else ""

    def run(self, **options):
        return run("RotaryEmbedding", self.domain, self.inputs, self.attributes, **options)


def combinations():
    for schema, kind, rank, interleaved, partial in itertools.product(
        ("contributed", "standard"), (np.float32, np.float16, BF16), (3, 4), (False, True), (0, 6)
    ):
        for ids in ("offset", "each") if schema == "contributed" else ("none", "each"):
            if schema == "contributed" or HAS_STANDARD:
                yield schema, kind, rank, interleaved, partial, ids


class Embedding(Case):
    def test_every_combination_has_the_bits_of_the_oracle(self):
        count = 0
        for combination in combinations():
            node = Node(self.rng, *combination)
            for threads in (1, 2):
                self.assert_bits(node.run(threads=threads), node.y, f"{combination}, {threads} threads")
            count += 1
        self.assertEqual(count, 96 if HAS_STANDARD else 48)

    def test_the_built_in_operators_agree(self):
        """In f32 within its fused operations, in 16 bits within the rounding of each step. Only the newest: older ones
        leave channels unwritten, or have tables of their own shape."""
        if VERSION < (1, 30):
            self.skipTest("compared with the newest version only")
        compared = 0
        for combination in combinations():
            node = Node(self.rng, *combination)
            try:
                built_in = node.run(library=False)
            except Exception as error:
                # It has no bf16; and f16 of the contributed operator only where MLAS has it.
                self.assertIn("NOT_IMPLEMENTED", str(error))
                self.assertNotEqual(node.kind, np.float32)
                continue
            bound = {np.float32: 2.0**-21, np.float16: 2.0**-8}[node.kind]
            difference = np.abs(built_in.astype(np.float64) - node.y.astype(np.float64))
            self.assertLessEqual(difference.max(), bound * max(1, np.abs(node.y.astype(np.float64)).max()), combination)
            compared += 1
        self.assertGreaterEqual(compared, 48)

    def test_prompts_are_cut_for_threads_with_the_same_bits(self):
        for kind, rank, batch in itertools.product((np.float32, BF16), (3, 4), (1, 3)):
            shape = (batch, 700, 4, 128)
            for ids in ("offset", "each"):
                node = Node(self.rng, "contributed", kind, rank, False, 0, ids, shape, positions=900)
                for threads in (1, 2):
                    self.assert_bits(node.run(threads=threads), node.y, f"{kind}, {rank}, {ids}, {threads}")

    def test_random_nodes(self):
        """For some seconds (ROPE_SECONDS)."""
        deadline, count = time.monotonic() + SECONDS, 0
        rng = self.rng
        while time.monotonic() < deadline:
            schema = "standard" if HAS_STANDARD and rng.random() < 0.5 else "contributed"
            shape = tuple(int(rng.integers(low, high)) for low, high in ((0, 4), (0, 70), (1, 9))) + (
                2 * int(rng.integers(1, 100)),)
            partial = 2 * int(rng.integers(1, shape[3] // 2 + 1)) if rng.random() < 0.5 else 0
            ids = str(rng.choice(["offset", "each"] if schema == "contributed" else ["none", "each"]))
            kind = (np.float32, np.float16, BF16)[rng.integers(3)]
            combination = (schema, kind, int(rng.choice([3, 4])), bool(rng.random() < 0.5), partial, ids, shape, 100)
            node = Node(rng, *combination)
            self.assert_bits(node.run(threads=int(rng.integers(1, 3))), node.y, str(combination))
            count += 1
        print(f"{count} random nodes, ROPE_SEED={SEED}")
        self.assertGreater(count, 20)

    def test_inputs_that_are_initializers(self):
        """Looked up once for a session, except where a run may replace them: those are inputs of the model as well."""
        for combination in combinations():
            node = Node(self.rng, *combination)
            if node.kind == BF16:
                continue
            for replaceable in (False, True):
                made = onnx.ModelProto.FromString(model("RotaryEmbedding", node.domain, node.inputs, node.attributes))
                given = {name: array for name, array in feed(node.inputs).items() if name != "x"}
                zeros = {name: np.zeros_like(array) for name, array in given.items()}
                for name, array in (zeros if replaceable else given).items():
                    made.graph.initializer.append(numpy_helper.from_array(array, name))
                if not replaceable:
                    del made.graph.input[1:]
                ready = session(made.SerializeToString())
                for _ in range(2):
                    [y] = ready.run(None, {"x": node.x} | (given if replaceable else {}))
                    self.assert_bits(y, node.y, f"{combination}, {replaceable}")

    def test_ids_that_follow_one_another(self):
        """Rows of the table as it is: as many as there are, not one more, and only where each sequence has them."""
        schemas = ["contributed"] + ["standard"] * HAS_STANDARD
        for schema, kind, rank, start in itertools.product(schemas, (np.float32, np.float16), (3, 4), (0, 7, 35)):
            node = Node(self.rng, schema, kind, rank, False, 0, "each")
            follow = start + np.arange(5)
            for ids in ([follow, follow], [follow, follow[::-1]], [follow, np.maximum(follow - 1, 0)]):
                node.inputs["position_ids"] = ids = np.array(ids)
                cos, sin = (node.inputs[name][ids] for name in ("cos", "sin"))
                x = node.x.reshape(2, 5, 3, 16) if rank == 3 else node.x.transpose(0, 2, 1, 3)
                self.assert_bits(node.run(), node.laid_out(rotated(x, cos, sin, False), rank), str(ids))
        node.inputs["position_ids"] = np.array([np.arange(36, 41)] * 2)
        with self.assertRaisesRegex(Exception, "INVALID_ARGUMENT.*40"):
            node.run()

    def test_later_opsets(self):
        if not HAS_STANDARD:
            self.skipTest("this version has no such operator")
        node = Node(self.rng, "standard", np.float32, 4, False, 0, "each")
        for opset in (23, 24):
            self.assert_bits(node.run(opset=opset), node.y, str(opset))

    def test_shapes_are_inferred(self):
        node = Node(self.rng, "contributed", np.float32, 4, False, 0, "each")
        made = session(model("RotaryEmbedding", node.domain, node.inputs, node.attributes))
        self.assertEqual(made.get_outputs()[0].shape, list(node.x.shape))

    def test_shapes_that_the_model_does_not_tell(self):
        """Nothing is inferred from them: neither a rank nor a dimension."""
        node = Node(self.rng, "contributed", np.float32, 4, False, 0, "each")
        shape = np.array([2, 3, -1, 16])
        for is_input in (True, False):
            made = onnx.ModelProto.FromString(model("RotaryEmbedding", node.domain, node.inputs, node.attributes))
            [rotation] = made.graph.node
            rotation.input[0], rotation.output[0] = "of unknown shape", "rotated"
            made.graph.node.insert(0, helper.make_node("Reshape", ["x", "shape"], ["of unknown shape"]))
            made.graph.node.append(helper.make_node("Transpose", ["rotated"], ["transposed"], perm=[0, 2, 1, 3]))
            made.graph.node.append(helper.make_node("Concat", ["transposed", "transposed"], ["y"], axis=1))
            made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["size"]))
            made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
            feeds = feed(node.inputs) | {"x": node.x.ravel()}
            if is_input:
                made.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, ["rank"]))
                feeds["shape"] = shape
            else:
                made.graph.initializer.append(numpy_helper.from_array(shape, "shape"))
            [y] = session(made.SerializeToString()).run(None, feeds)
            self.assert_bits(y, np.concatenate([node.y.transpose(0, 2, 1, 3)] * 2, 1))


class Refusals(Case):
    def node(self, schema="contributed", rank=3, ids="each", partial=0):
        return Node(self.rng, schema, np.float32, rank, False, partial, ids)

    def assert_refused(self, words, node, **changes):
        """When the session is made, or when it runs: then a run after it is right again."""
        serialized = model("RotaryEmbedding", node.domain, node.inputs, node.attributes | changes)
        with self.assertRaises(Exception) as raised:
            session(serialized)
        for word in ("RotaryEmbedding node 'the node'", *words):
            self.assertIn(word, str(raised.exception))

    def assert_run_refused(self, words, node, **inputs):
        # The shapes of inputs that are wrong are unknown to the graph.
        wrong = node.inputs | inputs
        made = session(model("RotaryEmbedding", node.domain, wrong, node.attributes))
        with self.assertRaises(Exception) as raised:
            made.run(None, feed(wrong))
        self.assertIn("INVALID_ARGUMENT", str(raised.exception))
        for word in words:
            self.assertIn(word, str(raised.exception))
        if inputs and all(array.shape == getattr(node.inputs[name], "shape", None) for name, array in inputs.items()):
            [y] = made.run(None, feed(node.inputs))
            self.assert_bits(y, node.y)

    def test_attributes(self):
        node = self.node()
        self.assert_refused(["num_heads is 0", "rotary_embedding_dim (6)"], node, rotary_embedding_dim=6)
        self.assert_refused(["rotary_embedding_dim is 5", "even"], node, rotary_embedding_dim=5, num_heads=3)
        self.assert_refused(["num_heads is -1"], node, num_heads=-1)
        self.assert_refused(["interleaved is 2"], node, interleaved=2)
        self.assert_refused(["interleaved", "must be an integer"], node, interleaved=1.0)
        self.assert_refused(["num_heads", "must be an integer"], node, num_heads=[3])

    def test_attributes_that_have_no_effect(self):
        node = self.node()
        for packed in (0, 1):
            node.attributes |= {"scale": 0.5, "is_packed_batching": packed}
            self.assert_bits(node.run(), node.y)

    def test_packed_batches(self):
        """Their tokens may be more than the tables' rows, and none."""
        for kind, rank, partial, shape in itertools.product(
            (np.float32, np.float16, BF16), (3, 4), (0, 6), ((1, 9, 3, 16), (2, 5, 3, 16), (1, 0, 3, 16), (0, 5, 3, 16))
        ):
            node = Node(self.rng, "contributed", kind, rank, False, partial, "each", shape, positions=4)
            node.attributes["is_packed_batching"] = 1
            self.assert_bits(node.run(), node.y, (kind, rank, partial, shape))
            if kind == np.float32 and VERSION >= (1, 30):
                np.testing.assert_allclose(node.run(library=False), node.y, rtol=0, atol=2e-6)

    def test_heads_of_rank_4_are_those_of_the_input(self):
        """Whatever num_heads is, as in ONNX Runtime."""
        for partial, heads in itertools.product((0, 6), (1, 3, 5, 48)):
            node = self.node(rank=4, partial=partial)
            node.attributes["num_heads"] = heads
            self.assert_bits(node.run(), node.y, (partial, heads))
            if VERSION >= (1, 30):
                np.testing.assert_allclose(node.run(library=False), node.y, rtol=0, atol=2e-6)

    def test_inputs(self):
        node = self.node()
        x, ids, cos = (node.inputs[name] for name in ("x", "position_ids", "cos"))
        for bad in (-1, 40, 1 << 40):
            outside = ids.copy()
            outside[1, 2] = bad
            self.assert_run_refused([f"{bad}", "40"], node, position_ids=outside)
        for start in (-1, 36, (1 << 63) - 1):
            self.assert_run_refused([f"[{start}] for 5 tokens;", "0..40"], node, position_ids=np.array([start]))
        self.assert_run_refused(["[-1] for 1 token;"], node, x=x[:, :1], position_ids=np.array([-1]))
        self.assert_run_refused(["position_ids is [2, 4]", "[2, 5] or [1]"], node, position_ids=ids[:, :4])
        self.assert_run_refused(["position_ids is [3]"], node, position_ids=ids[0, :3])
        self.assert_run_refused(["sin_cache is [39, 8]"], node, sin=cos[:39])
        self.assert_run_refused(["multiple", "(14)"], node, cos=cos[:, :7], sin=cos[:, :7])
        self.assert_run_refused(["(80)"], node, cos=cos[:, 0], sin=cos[:, 0])
        self.assert_run_refused(["the input is [2, 5]"], node, x=x[:, :, 0])
        four = self.node(rank=4)
        self.assert_run_refused(["both must be [positions, 8]"], four, cos=cos[:, :6], sin=cos[:, :6])
        self.assert_run_refused(["half of rotary_embedding_dim (16)"], four, cos=np.zeros((40, 0), np.float32), sin=np.zeros((40, 0), np.float32))
        node.attributes |= {"num_heads": 5}
        self.assert_run_refused(["num_heads is 5", "3 heads"], node)

    def test_inputs_of_the_standard_operator(self):
        if not HAS_STANDARD:
            self.skipTest("this version has no such operator")
        node = self.node("standard", ids="none")
        cos = node.inputs["cos"]
        self.assert_run_refused(["[2, 5, 8]"], node, cos=cos[:, :4], sin=cos[:, :4])
        self.assert_run_refused(["[positions, 8]"], node, position_ids=np.zeros((2, 5), np.int64))
        by_ids = self.node("standard")
        self.assert_run_refused(["it must be [2, 5]"], by_ids, position_ids=np.array([3]))
        del node.attributes["num_heads"]
        self.assert_run_refused(["num_heads is 0", "rank 3"], node)


class Probes(Case):
    """Operators that are built for the tests."""

    def test_a_panic_becomes_a_status(self):
        x = np.ones((4, 4), np.float32)
        for threads in (1, 2):
            made = session(model("Panic", "rope.test", {"x": x}, {}), threads=threads)
            with self.assertRaisesRegex(Exception, "rope-onnxruntime panicked.*the last part"):
                made.run(None, {"x": np.full_like(x, np.nan)})
            [y] = made.run(None, {"x": x})
            self.assert_bits(y, x)

    def test_in_place_where_the_graph_allows_it(self):
        x = np.arange(16, dtype=np.float32).reshape(4, 4)
        reversed_x = x.ravel()[::-1].reshape(4, 4)
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape)
        nodes = [
            helper.make_node("Abs", ["x"], ["a"]),
            helper.make_node("Place", ["a"], ["b"], domain="rope.test"),
            helper.make_node("Abs", ["b"], ["in place"]),
            # The caller's memory, and one that another node reads.
            helper.make_node("Place", ["x"], ["c"], domain="rope.test"),
            helper.make_node("Abs", ["c"], ["apart"]),
        ]
        graph = helper.make_graph(nodes, "graph", [value("x")], [value("in place"), value("apart")])
        opsets = [helper.make_opsetid("", 15), helper.make_opsetid("rope.test", 1)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        in_place, apart = session(made.SerializeToString()).run(None, {"x": x})
        # Before 1.18 a custom operator could not allow it.
        self.assert_bits(in_place, x if VERSION >= (1, 18) else reversed_x)
        self.assert_bits(apart, reversed_x)


if __name__ == "__main__":
    unittest.main()
