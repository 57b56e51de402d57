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


def run(q, k, dq, dk, positions, **how):
    """Rotated q and k, their gradients, and those of cos and sin."""
    q, k, (cos, sin) = q.detach().requires_grad_(), k.detach().requires_grad_(), rows(positions)
    rotated = rope_kernels.rotate_qk(q, k, cos, sin, **how)
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


def steep(x, dy):
    """The terms of a head are so large that those after it lose bits, until another head takes them away: a sum in
    another order, or of sums of its parts, is another one."""
    x, dy = x.clone(), dy.clone()
    x[:, 0] *= 2.0**20
    dy[:, 0] *= 2.0**20
    x[:, HEADS - 2], dy[:, HEADS - 2] = -x[:, 0], dy[:, 0]
    return x, dy


def of_tables(rank, ranks):
    """Gradients of tables of 48 of the channels: of each sequence, by ids, in 16 bits with repeated values; no batch."""
    generator = torch.Generator().manual_seed(SEED)
    x, dy = (torch.randn(BATCH, HEADS, TOKENS, HEAD_DIM, generator=generator).bfloat16() for _ in range(2))
    table = torch.randn(2 * TOKENS, 24, generator=generator)
    ids = torch.randint(2 * TOKENS, (TOKENS,), generator=generator)
    cases = (
        (x, dy, table.reshape(2, TOKENS, 24), dict()),
        (x, dy, table, dict(ids=ids)),
        (x, dy, torch.cat((table[:TOKENS],) * 2, -1).bfloat16(), dict(repeat="halves")),
        (*steep(x, dy), table[:TOKENS], dict()),
        (x[0], dy[0, :, :, :1].expand(dy.shape[1:]), table[:TOKENS], dict()),
    )
    for index, (x, dy, table, how) in enumerate(cases):
        gradients = []
        for group in (None, dist.group.WORLD):
            cos, sin = (each.detach().requires_grad_() for each in (table, table.flip(-2)))
            part = [y if group is None else y.chunk(ranks, -3)[rank] for y in (x, dy)]
            rope_kernels.rotate(part[0], cos, sin, group=group, **how).backward(part[1])
            gradients.append((cos.grad, sin.grad))
        for ours, wanted in zip(*gradients):
            equal(ours, wanted, f"tables {index} of {ranks}")


def refused():
    x, table = torch.ones(1, 2, 3, 8, requires_grad=True), torch.ones(1, 2, 3, 4, requires_grad=True)
    case = unittest.TestCase()
    with case.assertRaisesRegex(RuntimeError, "cos has rows for each of 2 heads"):
        rope_kernels.rotate(x, table, table, group=dist.group.WORLD)
    rotated = rope_kernels.rotate(x, table[0, 0], table[0, 0], group=dist.group.WORLD)
    with case.assertRaisesRegex(RuntimeError, "leave out create_graph"):
        torch.autograd.grad(rotated.sum(), table, create_graph=True)


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

        # Tensor parallel: a rank has some heads of all tokens, and all ranks get the gradients of the rows.
        positions = START + torch.arange(TOKENS)
        for how in (
            dict(),
            dict(layout="bshd", pairing="interleaved"),
            dict(pairing="interleaved", output_pairing="half"),
            dict(layout="bshd", direction="inverse"),
        ):
            heads = 2 if "layout" in how else 1
            given_here = [x.transpose(1, 2) if heads == 2 else x for x in (q, k, dq, dk)]
            whole = run(*given_here, positions, **how)
            ours = run(*(x.chunk(ranks, heads)[rank] for x in given_here), positions, **how, group=dist.group.WORLD)
            for name, part, wanted in zip(names, ours, whole):
                together = part if name in ("dcos", "dsin") else torch.cat(gathered(part, ranks), heads)
                equal(together, wanted, f"heads {name} {dtype} {how} of {ranks}")
    of_tables(rank, ranks)
    refused()
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def ranks(self, count):
        with tempfile.TemporaryDirectory() as directory:
            processes.spawn(rank_main, args=(count, str(pathlib.Path(directory) / "store")), nprocs=count)

    def test_two(self):
        self.ranks(2)

    def test_four(self):
        self.ranks(4)
