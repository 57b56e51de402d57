"""Moves the rotation out of attention: `GroupQueryAttention` with `do_rotary = 1` rotates inside, where no operator can
replace it. It becomes two `RotaryEmbedding` nodes and a `GroupQueryAttention` with `do_rotary = 0`.

    python -m rope_onnxruntime.rewrite in.onnx out.onnx

From Python: `rewrite(model)`. Requires onnx and NumPy, not ONNX Runtime.
"""

import argparse
import sys
from collections import ChainMap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

__all__ = ["Report", "rewrite"]

DOMAIN = "com.microsoft"
# The first in which the sizes of Split are an input.
OLDEST_OPSET = 13
# Operators with an attribute do_rotary.
ROTATE_INSIDE = ("Attention", "GroupQueryAttention", "PagedAttention", "SparseAttention")
# Inputs and attributes of GroupQueryAttention as of ONNX Runtime 1.32. A node with others is left alone: they could
# change what is rotated.
INPUTS = (
    "query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids "
    "attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight query_seqlens"
).split()
ATTRIBUTES = set(
    "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads "
    "q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap "
    "v_quant_type".split()
)


@dataclass
class Report:
    """What was rewritten, and what was not."""

    rewritten: list[str] = field(default_factory=list)
    """Names of nodes."""
    left_alone: list[tuple[str, str]] = field(default_factory=list)
    """Names of nodes that rotate inside, and the reasons."""

    def __str__(self):
        lines = [f"{len(self.rewritten)} rewritten, {len(self.left_alone)} left alone"]
        return "\n".join(lines + [f"left alone: {name}: {reason}" for name, reason in self.left_alone])


def rewrite(model: ModelProto) -> Report:
    """Rewrites a model in place. Its inputs, outputs and weights stay as they are."""
    rewriter = _Rewriter(model)
    rewriter.run(model.graph, ChainMap(), ChainMap())
    for function in model.functions:
        for node in function.node:
            if _rotates_inside(node):
                rewriter.leave(node, f"it is in the function {function.name}; inline the functions of the model first")
    return rewriter.report


class _Refusal(Exception):
    """Why a node is left alone."""


class _Rewriter:
    def __init__(self, model):
        self.graph = model.graph
        self.opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
        self.names = set(_names(model.graph))
        self.constants = {}
        self.report = Report()

    def leave(self, node, reason):
        self.report.left_alone.append((f"{node.name or node.output[0]} ({node.op_type})", reason))

    def run(self, graph, shapes, positions):
        """A graph and those within it. `shapes` are those of the tensors in sight, `positions` those that were
        computed for nodes before."""
        shapes, positions = shapes.new_child(_shapes(graph)), positions.new_child()
        nodes = []
        for node in graph.node:
            for inner in _graphs(node):
                self.run(inner, shapes, positions)
            if _rotates_inside(node):
                try:
                    nodes += self.before(node, shapes, positions)
                    self.report.rewritten.append(node.name or node.output[0])
                except _Refusal as refusal:
                    self.leave(node, str(refusal))
            nodes.append(node)
            _add_shapes_of(node, shapes)
        del graph.node[:]
        graph.node.extend(nodes)

    def before(self, node, shapes, positions):
        """The nodes that rotate for a node, which no longer does."""
        attributes = {attribute.name: attribute for attribute in node.attribute}
        inputs = dict(zip(INPUTS, [*node.input, *[""] * len(INPUTS)]))
        columns = self.columns(node, attributes, inputs, shapes)
        heads = [attributes[name].i for name in ("num_heads", "kv_num_heads")]
        made = _Nodes(self, f"{node.name or node.output[0]}/rotation")

        query, key, value = (inputs[name] for name in ("query", "key", "value"))
        if not key:
            query, key, value = self.unpacked(made, query, *heads)
        # Layers of the same sequences rotate the same tokens; of others the operator would refuse the ids.
        what = tuple(inputs[name] for name in ("seqlens_k", "total_sequence_length", "position_ids"))
        if what not in positions:
            positions[what] = self.positions(made, query, *what)
        rotated = []
        for name, x, count in zip(("query", "key"), (query, key), heads):
            # Keys without tokens are those of a layer that shares the cache of another.
            if shapes.get(x, ())[1:2] == (0,):
                rotated.append(x)
                continue
            options = {
                "domain": DOMAIN,
                "interleaved": attributes["rotary_interleaved"].i if "rotary_interleaved" in attributes else 0,
                "num_heads": count,
                "rotary_embedding_dim": 2 * columns,
            }
            tables = (inputs["cos_cache"], inputs["sin_cache"])
            rotated.append(made.node("RotaryEmbedding", [x, positions[what], *tables], name, **options))

        inputs |= dict(zip(("query", "key", "value"), (*rotated, value)))
        inputs |= dict.fromkeys(("cos_cache", "sin_cache", "position_ids"), "")
        del node.input[:]
        node.input.extend(list(inputs.values())[: max(i for i, name in enumerate(inputs.values()) if name) + 1])
        kept = [a for a in node.attribute if a.name not in ("do_rotary", "rotary_interleaved")]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("do_rotary", 0)])
        return made.nodes

    def columns(self, node, attributes, inputs, shapes):
        """The columns of the tables, of a node that can be rewritten."""
        if node.op_type != "GroupQueryAttention":
            raise _Refusal("only GroupQueryAttention is rewritten")
        if self.opset < OLDEST_OPSET:
            raise _Refusal(f"the model has version {self.opset} of ONNX's operators; {OLDEST_OPSET} is required")
        unknown = [f"the attribute {name}" for name in attributes if name not in ATTRIBUTES]
        unknown += [f"input {index}" for index in range(len(INPUTS), len(node.input)) if node.input[index]]
        if unknown:
            raise _Refusal(f"{unknown[0]} is unknown")
        missing = [name for name in ("num_heads", "kv_num_heads") if name not in attributes]
        missing += [name for name in ("query", "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache")
                    if not inputs[name]]
        if bool(inputs["key"]) != bool(inputs["value"]):
            missing.append("key or value")
        if missing:
            raise _Refusal(f"{missing[0]} is missing")
        if inputs["q_norm_weight"] or inputs["k_norm_weight"]:
            raise _Refusal("it has a norm of queries and keys inside, before the rotation")
        if inputs["query_seqlens"]:
            raise _Refusal("query_seqlens gives positions that the tables need not have")
        columns = shapes.get(inputs["cos_cache"], ())[1:2]
        if not columns or columns[0] is None:
            raise _Refusal("the model does not tell how many columns cos_cache has")
        return columns[0]

    def unpacked(self, made, packed, num_heads, kv_num_heads):
        """Query, key and value of one tensor, in which the heads of each follow one another."""
        heads = self.constant("head_counts", [num_heads, kv_num_heads, kv_num_heads])
        columns = made.node("Gather", [made.node("Shape", [packed]), self.constant("two", 2)])
        head_size = made.node("Div", [columns, self.constant("all_heads", num_heads + 2 * kv_num_heads)])
        sizes = made.node("Mul", [heads, head_size])
        return made.node("Split", [packed, sizes], ["query", "key", "value"], axis=2)

    def positions(self, made, query, lengths, total, given):
        """Position ids [batch, tokens] as GroupQueryAttention has them. A sequence of `lengths + 1` tokens ends with
        those of the query; one that is shorter than the query, which is padded, starts with them."""
        zero, one = self.constant("zero", 0), self.constant("one", 1)
        tokens = made.node("Gather", [made.node("Shape", [query]), one])
        steps = made.node("Range", [zero, tokens, one])
        if given:
            # Of a first prompt the first id counts alone.
            first = made.node("Gather", [made.node("Reshape", [given, self.constant("flat", [-1])]), zero])
            from_first = made.node("Add", [steps, first])
            total = made.node("Cast", [total], to=TensorProto.INT64)
            is_first = made.node("Equal", [total, tokens])
            return made.node("Where", [is_first, from_first, given], "positions")
        lengths = made.node("Cast", [lengths], to=TensorProto.INT64)
        before = made.node("Max", [made.node("Sub", [made.node("Add", [lengths, one]), tokens]), zero])
        rows = made.node("Reshape", [before, self.constant("column", [-1, 1])])
        return made.node("Add", [rows, steps], "positions")

    def constant(self, name, value):
        """An initializer of the model, one for each name."""
        key = (name, str(value))
        if key not in self.constants:
            self.constants[key] = self.name(f"rotation/{name}")
            self.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), self.constants[key]))
        return self.constants[key]

    def name(self, wanted):
        """A name that nothing else has."""
        name, count = wanted, 1
        while name in self.names:
            name, count = f"{wanted}_{count}", count + 1
        self.names.add(name)
        return name


class _Nodes:
    """Nodes that are made for one."""

    def __init__(self, rewriter, prefix):
        self.rewriter, self.prefix, self.nodes = rewriter, prefix, []

    def node(self, op, inputs, outputs=None, **attributes):
        names = outputs if isinstance(outputs, list) else [outputs or op.lower()]
        names = [self.rewriter.name(f"{self.prefix}/{name}") for name in names]
        name = self.rewriter.name(f"{self.prefix}/{op}")
        self.nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return names if isinstance(outputs, list) else names[0]


def _rotates_inside(node):
    return node.domain == DOMAIN and node.op_type in ROTATE_INSIDE and any(
        attribute.name == "do_rotary" and attribute.i for attribute in node.attribute)


def _graphs(node):
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _names(graph):
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield node.name
        yield from node.output
        for inner in _graphs(node):
            yield from _names(inner)


def _shapes(graph):
    """Shapes that a graph tells, with None for what varies."""
    shapes = {}
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            shapes[value.name] = tuple(d.dim_value if d.HasField("dim_value") else None
                                       for d in value.type.tensor_type.shape.dim)
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def _add_shapes_of(node, shapes):
    """The shapes of a node's outputs, for the nodes that tables come from."""
    if node.op_type == "Constant":
        for attribute in node.attribute:
            if attribute.name == "value":
                shapes[node.output[0]] = tuple(attribute.t.dims)
    elif node.op_type in ("Cast", "Identity") and node.input[0] in shapes:
        shapes.setdefault(node.output[0], shapes[node.input[0]])
    elif node.op_type == "If":
        # Tables for short prompts and for long ones differ in rows.
        branches = [graph for graph in _graphs(node)]
        for index, output in enumerate(node.output):
            known = [_shape_in(branch, branch.output[index].name, shapes) for branch in branches]
            if all(known) and len({len(shape) for shape in known}) == 1:
                shapes.setdefault(output, tuple(a if a == b else None for a, b in zip(*known)))


def _shape_in(graph, name, shapes):
    inner = ChainMap(_shapes(graph), *shapes.maps)
    for node in graph.node:
        _add_shapes_of(node, inner)
    return inner.get(name)


def _external(graph):
    tensors = [*graph.initializer]
    for node in graph.node:
        tensors += [attribute.t for attribute in node.attribute if attribute.type == AttributeProto.TENSOR]
        if any(_external(inner) for inner in _graphs(node)):
            return True
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rope_onnxruntime.rewrite", description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path, metavar="in.onnx")
    parser.add_argument("target", type=Path, metavar="out.onnx")
    paths = parser.parse_args(arguments)
    # Weights in other files stay there.
    model = onnx.load(paths.source, load_external_data=False)
    if _external(model.graph) and paths.source.resolve().parent != paths.target.resolve().parent:
        parser.error(f"{paths.source} has weights in other files; {paths.target} must be in the same directory")
    report = rewrite(model)
    onnx.save(model, paths.target)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
