"""The time of the built-in operators over that of this library's, in the middle of a graph.

    pip install onnx onnxruntime rope_onnxruntime-*.whl
    taskset -c 1 python rope-core/adapters/onnxruntime/bench.py [--tokens 2048 1] [--threads 1] [--seconds 2]

Each line is the minimum of many runs, of the two libraries in turn. The time of one node is that of a chain of them
less that of a chain of two, divided by the difference: without Python, and without the first and the last, which cannot
be in place, as they read the model's input and write its output. The last column is the roof: NumPy multiplies as many
bytes by a constant, in place. No operator that reads and writes each element once takes less, so where the built-in
takes less than twice the roof, nothing is twice as fast.
"""

import argparse
import itertools
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rope_onnxruntime

HEADS, HEAD_DIM = 32, 128
TYPES = {"f32": np.float32, "f16": np.float16}
STANDARD = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) >= (1, 23)


def chain(nodes, operator, kind, interleaved, rank, tokens):
    angles = np.arange(tokens + 1000)[:, None] * 10_000.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    tables = {"cos": np.cos(angles), "sin": np.sin(angles)}
    constants = [numpy_helper.from_array(array.astype(kind), name) for name, array in tables.items()]
    constants.append(numpy_helper.from_array(np.arange(1000, 1000 + tokens)[None], "ids"))
    standard = operator == "ai.onnx"
    order = ["cos", "sin", "ids"] if standard else ["ids", "cos", "sin"]
    attributes = {"interleaved": int(interleaved)} | ({"num_heads": HEADS} if rank == 3 else {})
    made = [helper.make_node("RotaryEmbedding", [f"x{index}", *order], [f"x{index + 1}"],
                             domain="" if standard else operator, **attributes) for index in range(nodes)]
    shape = [1, tokens, HEADS * HEAD_DIM] if rank == 3 else [1, HEADS, tokens, HEAD_DIM]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [helper.make_tensor_value_info(name, element, shape) for name in ("x0", f"x{nodes}")]
    graph = helper.make_graph(made, "chain", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 23 if standard else 15), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if standard else 9).SerializeToString()


class Chain:
    def __init__(self, nodes, library, threads, *case):
        # Of one thread the CPU's time, in which other programs do not count.
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        if library:
            rope_onnxruntime.register(options)
        self.session = onnxruntime.InferenceSession(chain(nodes, *case), options, providers=["CPUExecutionProvider"])
        x = np.random.default_rng(1).standard_normal(self.session.get_inputs()[0].shape).astype(case[1])
        self.binding = self.session.io_binding()
        # The binding does not keep them.
        self.ends = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in (x, np.empty_like(x))]
        self.binding.bind_ortvalue_input("x0", self.ends[0])
        self.binding.bind_ortvalue_output(f"x{nodes}", self.ends[1])
        self.least = float("inf")

    def run(self):
        start = self.clock()
        self.session.run_with_iobinding(self.binding)
        self.least = min(self.least, self.clock() - start)


class Roof:
    """An array of the same bytes, multiplied in place."""

    def __init__(self, chain):
        self.clock, self.least = chain.clock, float("inf")
        # Of small pages, as ONNX Runtime's; NumPy's own would be of large ones.
        self.array = np.frombuffer(bytearray(chain.ends[0].numpy().nbytes), np.float32)

    def run(self):
        start = self.clock()
        np.multiply(self.array, np.float32(0.999), out=self.array)
        self.least = min(self.least, self.clock() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, nargs="*", default=[2048, 1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of each line")
    options = parser.parse_args()
    print(f"ONNX Runtime {onnxruntime.__version__}, {options.threads} thread(s), 32 heads of 128")
    print("| tokens | operator | type | pairing | layout | built-in, us | ours, us | built-in / ours | roof, us |")
    print("|---|---|---|---|---|---|---|---|---|")
    operators = ["com.microsoft"] + ["ai.onnx"] * STANDARD
    for tokens, operator, (element, kind), interleaved, rank in itertools.product(
            options.tokens, operators, TYPES.items(), (False, True), (3, 4)):
        more = 4 if tokens > 64 else 200
        case = (operator, kind, interleaved, rank, tokens)
        chains = [[Chain(nodes, library, options.threads, *case) for nodes in (2, 2 + more)]
                  for library in (False, True)]
        # Of one token a call of NumPy takes longer than the node.
        roof = Roof(chains[0][0]) if tokens > 64 else None
        deadline = time.monotonic() + options.seconds
        while time.monotonic() < deadline:
            for few, many in chains:
                few.run()
                many.run()
            if roof:
                roof.run()
        built_in, ours = ((many.least - few.least) / more * 1e6 for few, many in chains)
        pairing, layout = ("half", "interleaved")[interleaved], {3: "tokens-major", 4: "heads-major"}[rank]
        print(f"| {tokens} | {operator} | {element} | {pairing} | {layout} | {built_in:.2f} | {ours:.2f} | "
              f"{built_in / ours:.2f} | {f'{roof.least * 1e6:.2f}' if roof else ''} |", flush=True)


if __name__ == "__main__":
    main()
