"""Ranks of torch.distributed (gloo): their shards are those of the whole, bit for bit, forward and backward."""

import datetime
import os
import pathlib
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import rope_kernels
from support import SEED

BATCH, HEADS, KV_HEADS, TOKENS, HEAD_DIM = 2, 8, 4, 32, 64
START = 100_000  # Where a table in f32 would be off.


def given(dtype):
    generator = torch.Generator().manual_seed(SEED)
    q, dq = (torch.randn(BATCH, HEADS, TOKENS, HEAD_DIM, generator=generator).to(dtype) for _ in range(2))
    k, dk = (torch.randn(BATCH, KV_HEADS, TOKENS, HEAD_DIM, generator=generator).to(dtype) for _ in range(2))
    return q, k, dq, dk


def rows(positions):
    config = {"model_type": "llama", "hidden_size": HEADS * HEAD_DIM, "num_attention_heads": HEADS}
    return [row.detach().requires_grad_() for row in rope_kernels.Rotation(config).rows(positions)]


def run(q, k, dq, dk, positions):
    """Rotated q and k, their gradients, and those of cos and sin."""
    q, k, (cos, sin) = q.detach().requires_grad_(), k.detach().requires_grad_(), rows(positions)
    rotated = rope_kernels.rotate_qk(q, k, cos, sin)
    torch.autograd.backward(rotated, (dq, dk))
    return [x.detach() for x in rotated] + [x.grad for x in (q, k, cos, sin)]


def tokens_of(kind, rank, ranks):
    """The tokens of a rank of context parallelism: of zigzag the chunks `rank` and `2 ranks - 1 - rank`; of striped each
    token `ranks` after the one before."""
    if kind == "striped":
        return torch.arange(rank, TOKENS, ranks)
    chunks = torch.arange(TOKENS).chunk(2 * ranks)
    return torch.cat((chunks[rank], chunks[2 * ranks - 1 - rank]))


def gathered(x, ranks):
    """What all ranks have, in their order."""
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x.contiguous())
    return parts


def equal(ours, wanted, what):
    if not torch.equal(ours, wanted):
        raise AssertionError(f"{what}: other bits than the whole, seed {SEED}")


def rank_main(rank, ranks, store):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=300))
    names = ["q", "k", "dq", "dk", "dcos", "dsin"]
    for dtype in (torch.float32, torch.bfloat16):
        q, k, dq, dk = given(dtype)
        whole = run(q, k, dq, dk, START + torch.arange(TOKENS))

        # Context parallel: a rank has all heads of some tokens, in an order of its own.
        for kind in ("zigzag", "striped"):
            tokens = tokens_of(kind, rank, ranks)
            ours = run(*(x[:, :, tokens] for x in (q, k, dq, dk)), START + tokens)
            order = torch.cat([tokens_of(kind, other, ranks) for other in range(ranks)])
            for name, part, wanted in zip(names, ours, whole):
                dimension = part.dim() - 2
                together = torch.cat(gathered(part, ranks), dimension)
                equal(together, wanted.index_select(dimension, order), f"{kind} {name} {dtype} of {ranks}")

        # Tensor parallel: a rank has some heads of all tokens. Gradients of the rows, which all heads share, are summed
        # over the ranks in their order: the same bits on each of them, and from run to run.
        def heads(x, of_rank):
            return x.chunk(ranks, 1)[of_rank]

        positions = START + torch.arange(TOKENS)
        ours = run(*(heads(x, rank) for x in (q, k, dq, dk)), positions)
        for name, part, wanted in zip(names, ours[:4], whole):
            equal(torch.cat(gathered(part, ranks), 1), wanted, f"heads {name} {dtype} of {ranks}")
        for index, (name, part) in enumerate(zip(names[4:], ours[4:])):
            total = sum(gathered(part, ranks))
            alone = [run(*(heads(x, other) for x in (q, k, dq, dk)), positions)[4 + index] for other in range(ranks)]
            equal(total, sum(alone), f"heads {name} {dtype} of {ranks}")
            apart = (total - whole[4 + index]).abs().max().item()
            if apart > 1e-5:
                raise AssertionError(f"heads {name} {dtype} of {ranks}: {apart} from the whole")
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def ranks(self, count):
        with tempfile.TemporaryDirectory() as directory:
            processes.spawn(rank_main, args=(count, str(pathlib.Path(directory) / "store")), nprocs=count)

    def test_two(self):
        self.ranks(2)

    def test_four(self):
        self.ranks(4)
