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


def of_shards(rank, ranks):
    """Distributed tensors of which each rank has some heads, sequences or tokens: no communication, and the bits of the
    whole, forward and backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = init_device_mesh("cpu", (ranks,))
    generator = torch.Generator().manual_seed(SEED)
    angle = torch.randn(ranks, TOKENS, HEAD_DIM // 2, generator=generator)
    ids = torch.randint(TOKENS, (ranks, TOKENS), generator=generator)
    q, dq = (torch.randn(ranks, HEADS, TOKENS, HEAD_DIM, generator=generator).bfloat16() for _ in range(2))
    k, dk = (torch.randn(ranks, KV_HEADS, TOKENS, HEAD_DIM, generator=generator).bfloat16() for _ in range(2))
    for of_heads, layout in ((1, "bhsd"), (2, "bshd")):
        given = [x if of_heads == 1 else x.transpose(1, 2) for x in (q, k, dq, dk)]
        # The dimension that is divided, and the placements of cos and of ids.
        for dimension, rows, of_rows, of_ids in (
            (of_heads, angle[0], Replicate(), Replicate()), (of_heads, angle, Replicate(), Replicate()),
            (0, angle[0], Replicate(), Shard(0)), (0, angle, Shard(0), Shard(0)),
            (3 - of_heads, angle[:1], Shard(1), Shard(1)),
        ):
            for how in (dict(), dict(ids=ids)) if rows.dim() == 2 else (dict(),):
                results = []
                for place in (lambda x, _: x, lambda x, placement: distribute_tensor(x, mesh, [placement])):
                    x, y = (place(t, Shard(dimension)).detach().requires_grad_() for t in given[:2])
                    cos, sin = (place(t, of_rows) for t in (rows.cos(), rows.sin()))
                    named = {name: place(t, of_ids) for name, t in how.items()} | dict(layout=layout)
                    back = [place(t, Shard(dimension)) for t in given[2:]]
                    with CommDebugMode() as traffic:
                        rotated = rope_kernels.rotate_qk(x, y, cos, sin, **named)
                        torch.autograd.backward(rotated, back)
                    results.append([*rotated, x.grad, y.grad])
                    if traffic.get_total_counts():
                        raise AssertionError(f"{dimension} {layout} {how.keys()}: {traffic.get_comm_counts()}")
                for wanted, ours in zip(*results):
                    if ours.placements != (Shard(dimension),):
                        raise AssertionError(f"{dimension} {layout}: {ours.placements}")
                    equal(ours.full_tensor(), wanted, f"shards of dimension {dimension}, {layout}, of {ranks}")
    # The gradients of rows that all heads share are those of one process.
    rows = []
    for place in (lambda x, _: x, lambda x, placement: distribute_tensor(x, mesh, [placement])):
        cos, sin = (place(t, Replicate()).detach().requires_grad_() for t in (angle[0].cos(), angle[0].sin()))
        rope_kernels.rotate(place(q, Shard(1)), cos, sin).backward(place(dq, Shard(1)))
        rows.append((cos.grad, sin.grad))
    for wanted, ours in zip(*rows):
        equal(ours.full_tensor(), wanted, f"gradients of rows by shards of {ranks}")


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
    of_shards(rank, ranks)
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
