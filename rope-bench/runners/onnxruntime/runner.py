"""RoPE in ONNX Runtime: com.microsoft::RotaryEmbedding by its own kernel, and by rope-onnxruntime; ONNX's operator.

`onnxruntime/as-called` is `session.run` of its own kernel: every call reads NumPy arrays and returns new ones.
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.append("..")
import protocol


def model(request, tensors):
    """A RotaryEmbedding for each tensor: of [batch, tokens, heads * head_dim], or of [batch, heads, tokens, head_dim]."""
    dtype = tensors[0].dtype
    element = helper.np_dtype_to_tensor_dtype(dtype)
    angles = protocol.angles(request)
    sequences, tokens, pairs = angles.shape
    # A row of the tables for each sequence and token, and ids that name it.
    ids = np.arange(sequences * tokens, dtype=np.int64).reshape(sequences, tokens)
    ids = np.broadcast_to(ids, (request["batch"], tokens)).copy()
    rows = angles.reshape(-1, pairs)
    constants = {"cos": np.cos(rows).astype(dtype), "sin": np.sin(rows).astype(dtype), "ids": ids}
    attributes = {"interleaved": int(request["pairing"] == "interleaved")}
    if request["rotary_dim"] < request["head_dim"]:
        attributes["rotary_embedding_dim"] = request["rotary_dim"]
    is_onnx = request["formulation"] == "onnxruntime/onnx"
    inputs, outputs, nodes = [], [], []
    for index, (tensor, heads) in enumerate(zip(tensors, request["heads"])):
        names = [f"x{index}", f"y{index}"]
        # Where only a part of a head rotates, the contributed operator needs their number in each layout.
        more = {"num_heads": heads} if tensor.ndim == 3 or "rotary_embedding_dim" in attributes else {}
        operands = ["cos", "sin", "ids"] if is_onnx else ["ids", "cos", "sin"]
        domain = "" if is_onnx else "com.microsoft"
        nodes.append(
            helper.make_node(
                "RotaryEmbedding", [names[0], *operands], [names[1]], domain=domain, **attributes, **more
            )
        )
        inputs.append(helper.make_tensor_value_info(names[0], element, tensor.shape))
        outputs.append(helper.make_tensor_value_info(names[1], element, tensor.shape))
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "rotation", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def prepare(request, arrays):
    shapes = [array.shape for array in arrays]
    if request["layout"] == "bshd":
        arrays = [array.reshape(*array.shape[:2], -1) for array in arrays]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    if request["formulation"] == "onnxruntime/rope":
        import rope_onnxruntime

        rope_onnxruntime.register(options)
    session = onnxruntime.InferenceSession(model(request, arrays), options, providers=["CPUExecutionProvider"])
    if request["formulation"] == "onnxruntime/as-called":
        feeds = {f"x{index}": array for index, array in enumerate(arrays)}
        return (
            lambda: session.run(None, feeds),
            lambda results: [result.reshape(shape) for result, shape in zip(results, shapes)],
        )
    # Bound once, as a program with buffers of its own does; results stay where they are from call to call.
    binding = session.io_binding()
    results = [onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(array)) for array in arrays]
    for index, (array, result) in enumerate(zip(arrays, results)):
        binding.bind_ortvalue_input(f"x{index}", onnxruntime.OrtValue.ortvalue_from_numpy(array))
        binding.bind_ortvalue_output(f"y{index}", result)

    def call():
        session.run_with_iobinding(binding)
        return results

    return call, lambda results: [result.numpy().reshape(shape) for result, shape in zip(results, shapes)]


protocol.main(f"onnxruntime {onnxruntime.__version__}", prepare)
