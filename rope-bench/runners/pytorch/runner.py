"""RoPE in PyTorch: as transformers writes it, eager and compiled, as vLLM writes it, compiled, and by rope-torch.

`pytorch/as-called` is what a layer of transformers does with the result of a projection: it transposes Q and K, which
stay views, gives cos and sin of the step a dimension for the heads, and rotates.
"""

import sys

import numpy as np
import torch

sys.path.append("..")
import protocol

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


def apply_rotary_pos_emb(tensors, cos, sin):
    """transformers' function of that name, of any number of tensors."""
    return [x * cos + rotate_half(x) * sin for x in tensors]


def as_called(tensors, cos, sin):
    """The same of [batch, tokens, heads, head_dim], as a layer calls it."""
    return apply_rotary_pos_emb([x.transpose(1, 2) for x in tensors], cos.unsqueeze(1), sin.unsqueeze(1))


def forward_static(tensors, cos, sin):
    """vLLM's ApplyRotaryEmb, of any number of tensors; cos and sin have each value once."""
    results = []
    for x in tensors:
        x1, x2 = torch.chunk(x, 2, dim=-1)
        results.append(torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1))
    return results


def prepare(request, arrays):
    torch.set_num_threads(request["threads"])
    dtype = DTYPES[request["element"]]
    tensors = [torch.from_numpy(array) for array in arrays]
    if dtype == torch.bfloat16:
        tensors = [x.view(dtype) for x in tensors]
    angles = torch.from_numpy(protocol.angles(request))
    formulation = request["formulation"]
    if formulation == "pytorch/rope":
        import rope_kernels

        cos, sin = angles.cos(), angles.sin()
        how = {"pairing": request["pairing"], "layout": request["layout"]}
        if len(tensors) == 2:
            call = lambda: rope_kernels.rotate_qk(*tensors, cos, sin, **how)
        else:
            call = lambda: [rope_kernels.rotate(tensors[0], cos, sin, **how)]
    elif formulation == "pytorch/as-called":
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        call = lambda: as_called(tensors, cos, sin)
    else:
        of_vllm = formulation == "pytorch/vllm-compile"
        given = angles if of_vllm else torch.cat((angles, angles), dim=-1)
        given = given.unsqueeze(2 if request["layout"] == "bshd" else 1)
        cos, sin = given.cos().to(dtype), given.sin().to(dtype)
        rotate = forward_static if of_vllm else apply_rotary_pos_emb
        if formulation != "pytorch/eager":
            rotate = torch.compile(rotate, fullgraph=True, dynamic=False)
            rotate(tensors, cos, sin)
        call = lambda: rotate(tensors, cos, sin)

    def to_arrays(results):
        if formulation == "pytorch/as-called":
            results = [result.transpose(1, 2) for result in results]
        results = [result.contiguous() for result in results]
        if dtype == torch.bfloat16:
            results = [result.view(torch.uint16) for result in results]
        return [result.numpy() for result in results]

    return call, to_arrays


with torch.inference_mode():
    protocol.main(f"torch {torch.__version__}", prepare)
