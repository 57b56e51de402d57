"""The rewrite of GroupQueryAttention: how many nodes, the same outputs, and what is left alone."""

import contextlib
import io
import itertools
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import TYPES, VERSION, Case, session
from rope_onnxruntime import rewrite as rewriter

HEADS, KV_HEADS, HEAD_SIZE, POSITIONS = 4, 2, 32, 64


def rewritten(model):
    """A rewritten copy, and the report."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    report = rewriter.rewrite(copy)
    onnx.checker.check_model(copy)
    return copy, report


class Fixture:
    """Attention layers one after another, which share the tables and the lengths; each has a cache of its own."""

    def __init__(self, rng, kind=np.float32, layers=1, packed=False, ids=False, columns=HEAD_SIZE // 2, attributes=(),
                 tables="initializers", inputs=(), op="GroupQueryAttention", opset=15):
        self.rng, self.kind, self.layers, self.packed, self.ids = rng, kind, layers, packed, ids
        angles = rng.uniform(-4, 4, (POSITIONS, columns))
        self.tables = {"cos": np.cos(angles).astype(kind), "sin": np.sin(angles).astype(kind)}
        nodes, initializers, value = [], [], self.value
        values = [value("lengths", ["batch"], TensorProto.INT32), value("total", [], TensorProto.INT32)]
        if ids:
            values.append(value("ids", ["batch", "tokens"], TensorProto.INT64))
        constants = [numpy_helper.from_array(array, name) for name, array in self.tables.items()]
        if tables == "initializers":
            initializers += constants
        elif tables == "inputs":
            values += [value(name, ["positions", "columns"]) for name in self.tables]
        elif tables == "if":
            # As models have them whose frequencies depend on the length of the prompt.
            condition = numpy_helper.from_array(np.array(True), "short")
            branches = {}
            for branch in ("then_branch", "else_branch"):
                names = [f"{name} {branch}" for name in self.tables]
                made = [helper.make_node("Constant", [], [name], value=t) for name, t in zip(names, constants)]
                branches[branch] = helper.make_graph(made, branch, [], [value(name, None) for name in names])
            initializers.append(condition)
            nodes.append(helper.make_node("If", ["short"], ["cos", "sin"], **branches))
        outputs = []
        for layer in range(layers):
            qkv = self.qkv(layer)
            values += [value(name, ["batch", "tokens", width]) for name, width in qkv.items()]
            caches = [f"past {name} {layer}" for name in ("key", "value")]
            values += [value(name, ["batch", KV_HEADS, "past", HEAD_SIZE]) for name in caches]
            names = [*qkv, "", ""] if packed else list(qkv)
            names += [*caches, "lengths", "total", "cos", "sin", "ids" if ids else "", *inputs]
            present = [f"present {name} {layer}" for name in ("key", "value")]
            while not names[-1]:
                names.pop()
            given = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1} | dict(attributes)
            given = {name: item for name, item in given.items() if item is not None}
            nodes.append(helper.make_node(op, names, [f"y {layer}", *present], name=f"layer {layer}",
                                          domain="com.microsoft", **given))
            outputs += [value(f"y {layer}", ["batch", "tokens", HEADS * HEAD_SIZE])]
            outputs += [value(name, ["batch", KV_HEADS, "total", HEAD_SIZE]) for name in present]
        self.nodes, self.initializers, self.values, self.outputs = nodes, initializers, values, outputs
        self.model = self.made(helper.make_graph(nodes, "graph", values, outputs, initializers), opset)

    @staticmethod
    def made(graph, opset=15, functions=()):
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        opsets += [helper.make_opsetid("functions", 1)] * bool(functions)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)

    def value(self, name, shape, kind=None):
        return helper.make_tensor_value_info(name, TYPES[self.kind] if kind is None else kind, shape)

    def qkv(self, layer):
        if self.packed:
            return {f"qkv {layer}": (HEADS + 2 * KV_HEADS) * HEAD_SIZE}
        widths = {"query": HEADS, "key": KV_HEADS, "value": KV_HEADS}
        return {f"{name} {layer}": heads * HEAD_SIZE for name, heads in widths.items()}

    def feeds(self, lengths, tokens, caches=None):
        """A step of sequences that are `lengths` long with it; `caches` are the outputs of the one before."""
        batch, total = len(lengths), max(lengths)
        feeds = {"lengths": np.array(lengths, np.int32) - 1, "total": np.array(total, np.int32)}
        if self.ids:
            # Not those that the lengths give.
            feeds["ids"] = self.rng.integers(0, POSITIONS - tokens, (batch, tokens))
        for layer in range(self.layers):
            for name, width in self.qkv(layer).items():
                feeds[name] = self.rng.standard_normal((batch, tokens, width)).astype(self.kind)
            for index, name in enumerate(("key", "value")):
                empty = np.zeros((batch, KV_HEADS, 0, HEAD_SIZE), self.kind)
                feeds[f"past {name} {layer}"] = empty if caches is None else caches[3 * layer + 1 + index]
        return feeds


# ONNX Runtime 1.17 has this operator for GPUs only.
HAS_ATTENTION = VERSION >= (1, 20)


@unittest.skipUnless(HAS_ATTENTION, "this version has no such operator for the CPU, or none with all of its inputs")
class Rewritten(Case):
    def assert_same(self, fixture, count, model=None):
        """All outputs: with the built-in RotaryEmbedding the same bits, and with the library within the rounding of a
        rotation, for prompts, for prompts of different lengths, for one token, and for more tokens of one sequence."""
        model = model or fixture.model
        new, report = rewritten(model)
        self.assertEqual((len(report.rewritten), report.left_alone), (count, []))
        rotations = [node for node in nodes_of(new.graph) if node.op_type == "RotaryEmbedding"]
        self.assertEqual(len(rotations), 2 * count)
        threads = int(self.rng.integers(1, 3))
        original = session(model.SerializeToString(), library=False, threads=threads)
        built_in = session(new.SerializeToString(), library=False, threads=threads)
        ours = session(new.SerializeToString(), threads=threads)
        for steps in ([((7, 7, 7), 7), ((8, 8, 8), 1)], [((3, 9, 1), 9), ((4, 10, 2), 1), ((5, 11, 3), 1)],
                      [((6,), 6), ((11,), 5), ((12,), 1)]):
            caches = None
            for lengths, tokens in steps:
                feeds = fixture.feeds(lengths, tokens, caches)
                expected = original.run(None, feeds)
                for made, bound in ((built_in, 0), (ours, {np.float32: 2.0**-20, np.float16: 2.0**-8}[fixture.kind])):
                    for index, (got, y) in enumerate(zip(made.run(None, feeds), expected)):
                        for sequence, length in enumerate(lengths):
                            # Beyond a sequence's end there is nothing to compare, in outputs and in caches.
                            tail = length if index % 3 else tokens if caches is not None else length
                            a, b = (t[sequence, ..., :tail, :].astype(np.float64) for t in (got, y))
                            difference = np.abs(a - b).max()
                            what = f"{lengths}, {tokens} tokens, output {index}, {made is ours}"
                            self.assertLessEqual(difference, bound * max(1, np.abs(b).max()), what)
                caches = expected

    def test_layers_share_tables_and_positions(self):
        for kind, interleaved, layers in itertools.product((np.float32, np.float16), (0, 1), (1, 3)):
            fixture = Fixture(self.rng, kind, layers, attributes={"rotary_interleaved": interleaved})
            self.assert_same(fixture, layers)
            new, _ = rewritten(fixture.model)
            ops = [node.op_type for node in new.graph.node]
            self.assertEqual((ops.count("Range"), len(ops)), (1, 9 + 3 * layers))
            names = [tensor.name for tensor in new.graph.initializer]
            self.assertEqual((names.count("cos"), len(names)), (1, 5))

    def test_packed_queries_keys_and_values(self):
        for kind, interleaved in itertools.product((np.float32, np.float16), (0, 1)):
            attributes = {"rotary_interleaved": interleaved, "scale": 0.2}
            self.assert_same(Fixture(self.rng, kind, 2, packed=True, attributes=attributes), 2)

    def test_a_part_of_the_head(self):
        for packed in (False, True):
            self.assert_same(Fixture(self.rng, packed=packed, columns=8, attributes={"local_window_size": 4}), 1)

    def test_position_ids(self):
        for interleaved in (0, 1):
            self.assert_same(Fixture(self.rng, layers=2, ids=True, attributes={"rotary_interleaved": interleaved}), 2)

    def test_tables_of_branches(self):
        self.assert_same(Fixture(self.rng, tables="if"), 1)

    def test_attention_in_branches(self):
        fixture = Fixture(self.rng, layers=2)
        first, second = fixture.nodes
        y, key, value = second.output
        branches = {}
        for branch in ("then_branch", "else_branch"):
            node = onnx.NodeProto.FromString(second.SerializeToString())
            node.name = branch
            node.output[:] = [f"{name} {branch}" for name in second.output]
            outputs = [fixture.value(name, None) for name in node.output]
            branches[branch] = helper.make_graph([node], branch, [], outputs)
        choice = helper.make_node("If", ["choice"], list(second.output), **branches)
        initializers = [*fixture.initializers, numpy_helper.from_array(np.array(False), "choice")]
        for nodes, ranges in (([first, choice], 1), ([choice, first], 3)):
            graph = helper.make_graph(nodes, "graph", fixture.values, fixture.outputs, initializers)
            model = fixture.made(graph)
            self.assert_same(fixture, 3, model)
            # Positions that were computed before a branch are those of the branch, and not the other way.
            new, _ = rewritten(model)
            self.assertEqual(sum(node.op_type == "Range" for node in nodes_of(new.graph)), ranges)

    def test_a_cache_that_another_layer_has_written(self):
        if VERSION < (1, 30):
            self.skipTest("this version has no such caches")
        fixture = Fixture(self.rng)
        for value in fixture.model.graph.input:
            if value.name in ("key 0", "value 0"):
                value.type.tensor_type.shape.dim[1].dim_value = 0
        new, report = rewritten(fixture.model)
        self.assertEqual(len(report.rewritten), 1)
        self.assertEqual(sum(node.op_type == "RotaryEmbedding" for node in new.graph.node), 1)
        feeds = fixture.feeds((9, 9), 1, [None, *self.rng.standard_normal((2, 2, KV_HEADS, 9, HEAD_SIZE), np.float32)])
        for name in ("key 0", "value 0"):
            feeds[name] = feeds[name][:, :0]
        expected = session(fixture.model.SerializeToString(), library=False).run(None, feeds)
        for got, y in zip(session(new.SerializeToString(), library=False).run(None, feeds), expected):
            self.assert_bits(got, y)


class LeftAlone(Case):
    def assert_left(self, words, model):
        new, report = rewritten(model)
        self.assertEqual(report.rewritten, [])
        [(name, reason)] = report.left_alone
        self.assertIn("layer 0", name)
        self.assertIn(words, reason)
        self.assertIn(f"left alone: {name}: {reason}", str(report))
        self.assertEqual(new, model)

    def test_reasons(self):
        cases = [
            ("only GroupQueryAttention", {"op": "SparseAttention"}),
            ("version 12 of ONNX's operators; 13", {"opset": 12}),
            ("attribute rotary_offset is unknown", {"attributes": {"rotary_offset": 1}}),
            ("input 17 is unknown", {"inputs": ["", "", "", "", "", "", "", "lengths"]}),
            ("kv_num_heads is missing", {"attributes": {"kv_num_heads": None}}),
            ("a norm of queries and keys", {"inputs": ["", "", "", "", "cos", "cos"]}),
            ("query_seqlens", {"inputs": ["", "", "", "", "", "", "lengths"]}),
            ("how many columns cos_cache has", {"tables": "inputs"}),
        ]
        for words, options in cases:
            self.assert_left(words, Fixture(self.rng, **options).model)
        for index, words in ((2, "key or value is missing"), (7, "cos_cache is missing"), (5, "seqlens_k is missing")):
            fixture = Fixture(self.rng)
            fixture.model.graph.node[0].input[index] = ""
            self.assert_left(words, fixture.model)

    def test_functions(self):
        fixture = Fixture(self.rng)
        [node] = fixture.nodes
        inputs = [name for name in node.input if name]
        opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
        function = helper.make_function("functions", "Layer", inputs, node.output, [node], opsets)
        call = helper.make_node("Layer", inputs, node.output, domain="functions")
        graph = helper.make_graph([call], "graph", fixture.values, fixture.outputs, fixture.initializers)
        self.assert_left("function Layer", fixture.made(graph, functions=[function]))

    def test_attention_that_does_not_rotate(self):
        for attributes in ({"do_rotary": 0}, {"do_rotary": None}):
            model = Fixture(self.rng, attributes=attributes).model
            new, report = rewritten(model)
            self.assertEqual((new, report.rewritten, report.left_alone), (model, [], []))

    def test_twice(self):
        once, _ = rewritten(Fixture(self.rng, layers=2).model)
        twice, report = rewritten(once)
        self.assertEqual((twice, report.rewritten, report.left_alone), (once, [], []))


class CommandLine(Case):
    def run_command(self, *paths):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                status = rewriter.main([str(path) for path in paths])
            except SystemExit as exit:
                status = exit.code
        return status, out.getvalue()

    def test_files(self):
        fixture = Fixture(self.rng, layers=2)
        with tempfile.TemporaryDirectory() as directory:
            source, target = Path(directory, "in.onnx"), Path(directory, "out.onnx")
            onnx.save(fixture.model, source)
            status, out = self.run_command(source, target)
            self.assertEqual((status, out), (0, "2 rewritten, 0 left alone\n"))
            self.assertEqual(onnx.load(target), rewritten(fixture.model)[0])

    def test_weights_in_other_files(self):
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as other:
            source = Path(directory, "in.onnx")
            model = Fixture(self.rng).model
            onnx.save(model, source, save_as_external_data=True, location="weights", size_threshold=0)
            status, out = self.run_command(source, Path(other, "out.onnx"))
            self.assertEqual(status, 2)
            self.assertIn("must be in the same directory", out)
            self.assertEqual(list(Path(other).iterdir()), [])
            size = Path(directory, "weights").stat().st_size
            status, out = self.run_command(source, Path(directory, "out.onnx"))
            self.assertEqual((status, out), (0, "1 rewritten, 0 left alone\n"))
            self.assertEqual(Path(directory, "weights").stat().st_size, size)
            new = onnx.load(Path(directory, "out.onnx"))
            self.assertIn("cos", [tensor.name for tensor in new.graph.initializer if len(tensor.raw_data) == 4096])


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


if __name__ == "__main__":
    unittest.main()
