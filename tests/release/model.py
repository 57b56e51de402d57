"""A model with a rotation of rope-onnxruntime's own, run on any machine that has NumPy and ONNX Runtime.

    model.py make DIRECTORY        writes it, and what comes out by plain NumPy
    model.py run DIRECTORY         runs it by the rope_onnxruntime that is importable, and compares
"""

import pathlib
import sys

import numpy as np


def make(directory):
    import onnx
    from onnx import TensorProto, helper

    directory.mkdir(parents=True)
    x = np.random.default_rng(1).standard_normal((2, 4, 5, 64)).astype(np.float32)
    ids = np.array([[0, 1, 2, 3, 100], [7, 6, 5, 4, 4096]], np.int64)
    node = helper.make_node("Rotate", ["x", "position_ids"], ["y"], domain="rope", base=10000.0,
                            rotary_embedding_dim=64)
    graph = helper.make_graph(
        [node], "rotation",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape),
         helper.make_tensor_value_info("position_ids", TensorProto.INT64, ids.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
    )
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid("rope", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), directory / "model.onnx")
    # Angles in twice the precision; cos and sin, and each product and sum, are rounded to f32.
    frequency = 10000.0 ** (-np.arange(32) / 32.0)
    angle = ids[:, None, :, None] * frequency
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = x[..., :32], x[..., 32:]
    y = np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)
    np.savez(directory / "data.npz", x=x, ids=ids, y=y)


def run(directory):
    import onnxruntime

    import rope_onnxruntime

    data = np.load(directory / "data.npz")
    options = onnxruntime.SessionOptions()
    rope_onnxruntime.register(options)
    session = onnxruntime.InferenceSession((directory / "model.onnx").read_bytes(), options, ["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": data["x"], "position_ids": data["ids"]})
    different = int((y.view(np.uint32) != data["y"].view(np.uint32)).sum())
    print(f"ONNX Runtime {onnxruntime.__version__}, {sys.platform}: {different} of {y.size} values differ")
    sys.exit(different != 0)


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](pathlib.Path(sys.argv[2]))
