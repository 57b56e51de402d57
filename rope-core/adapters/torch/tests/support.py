"""What the tests share: the seed of all random choices (`ROPE_SEED`), comparisons of bits, transformers' formulas."""

import os
import pathlib
import random
import warnings

import torch
from torch.autograd import gradcheck, gradgradcheck

SEED = int(os.environ.get("ROPE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
os.environ["ROPE_SEED"] = str(SEED)  # For the processes that a test starts.
GOLDEN = pathlib.Path(__file__).resolve().parents[4] / "tests" / "golden"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}


def bits(x):
    return x.contiguous().view(BITS[x.dtype])


def same(test, ours, expected, what=""):
    test.assertEqual((ours.shape, ours.dtype), (expected.shape, expected.dtype), what)
    test.assertTrue(torch.equal(bits(ours), bits(expected)), f"other bits, seed {SEED}: {what}")


def eager(x, cos, sin, pairing):
    """transformers' formulas; cos and sin have each value twice, and can be broadcast to x."""
    rotary = cos.shape[-1]
    x, rest = x[..., :rotary], x[..., rotary:]
    if pairing == "half":
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return torch.cat(((x * cos) + (turned * sin), rest), -1)


def read(name):
    lines = (line.split() for line in (GOLDEN / f"{name}.txt").read_text().splitlines() if line[:1] != "#")
    return {line[0]: line[1:] for line in lines if line}


def values(words, dtype, shape):
    size = 32 if dtype is torch.float32 else 16
    signed = [number - (1 << size) if number >> (size - 1) else number for number in (int(w, 16) for w in words)]
    return torch.tensor(signed, dtype=BITS[dtype]).view(dtype).reshape(shape)


def has_its_derivatives(function, arguments):
    # Functions that are linear in each argument: a step of 1/4 is as good as a small one, and far from rounding.
    how = dict(eps=0.25, atol=2e-3, rtol=2e-3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input #. requires gradient and is not a double")
        return gradcheck(function, arguments, **how) and gradgradcheck(function, arguments, **how)
