"""Times of rope_kernels beside eager PyTorch and torch.compile, on a core that is otherwise idle.

    taskset -c 1 python rope-core/adapters/torch/bench.py overhead     # microseconds of a call
    taskset -c 1 python rope-core/adapters/torch/bench.py rotate       # milliseconds of a rotation
    taskset -c 1 python rope-core/adapters/torch/bench.py cold         # microseconds of a call after the caches were flushed
    taskset -c 1 python rope-core/adapters/torch/bench.py tokens       # tokens per second of a small Llama of transformers
    taskset -c 1 python rope-core/adapters/torch/bench.py share        # the share of its time that the rotation takes

Candidates take turns, and each is shown by its fastest turn: the CPU's time of the only thread, in which other programs
do not count. Compiling needs a C++ compiler.
"""

import sys
from time import monotonic, perf_counter, thread_time as clock

import torch

import rope_kernels


def turns(candidates, seconds=2.0):
    """The fastest call of each, in seconds."""
    best, calls = {}, {}
    for name, call in candidates.items():
        call()
        begin = clock()
        call()
        calls[name] = max(1, int(0.005 / (clock() - begin)))
    end = monotonic() + seconds * len(candidates)
    while monotonic() < end:
        for name, call in candidates.items():
            begin = clock()
            for _ in range(calls[name]):
                call()
            best[name] = min(best.get(name, 1e9), (clock() - begin) / calls[name])
    return best


def eager(q, k, cos, sin):
    def half(x):
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy, None, None


class Around(Empty):
    """Nothing but the operator."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return torch.ops.rope_kernels.rotate(x, cos, sin, rope_kernels.plan(repeat="halves"), 1.0)


def given(tokens, dtype=torch.float32):
    q, k = torch.randn(1, 32, tokens, 128).to(dtype), torch.randn(1, 8, tokens, 128).to(dtype)
    angle = torch.randn(tokens, 64)
    cos, sin = (torch.cat((t, t), -1).to(dtype) for t in (angle.cos(), angle.sin()))
    return q, k, cos, sin


def overhead():
    ops, (q, k, cos, sin) = torch.ops.rope_kernels, given(1)
    x, bits = q[:, :1].contiguous(), rope_kernels.plan(repeat="halves")
    needs = x.clone().requires_grad_()
    one = lambda t: rope_kernels.rotate(t, cos, sin, repeat="halves")  # noqa: E731
    probes = {"an operator that does nothing": lambda: ops.nothing(x, cos, sin, bits, 1.0)} if hasattr(ops, "nothing") else {}
    times = turns(probes | {
        "an operator of PyTorch, view_as": lambda: torch.ops.aten.view_as(x, x),
        "one head in place, operator": lambda: ops.rotate_(x, cos, sin, bits, 1.0),
        "one head, operator": lambda: ops.rotate(x, cos, sin, bits, 1.0),
        "one head, rope_kernels.rotate": lambda: one(x),
        "one head, with a gradient, forward": lambda: one(needs),
        "an empty autograd.Function that clones": lambda: Empty.apply(needs, cos, sin),
        "an autograd.Function of the operator alone": lambda: Around.apply(needs, cos, sin),
        "32 and 8 heads in place, operator": lambda: ops.rotate_qk_(q, k, cos, sin, bits, 1.0),
        "32 and 8 heads, rope_kernels.rotate_qk": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
        "32 and 8 heads, eager": lambda: eager(q, k, cos, sin),
    })
    for name, seconds in times.items():
        print(f"{seconds * 1e6:8.2f} us  {name}")


def cold():
    """A token of a layer as in a large model, whose weights leave nothing of the last layer's call in the caches."""
    import rope_kernels.transformers
    from transformers import LlamaConfig, LlamaModel
    from transformers.models.llama import modeling_llama

    weights, model = torch.randn(1 << 25), LlamaModel(LlamaConfig(num_hidden_layers=1, hidden_size=64,
                                                                  num_attention_heads=2, intermediate_size=64))
    original = modeling_llama.apply_rotary_pos_emb
    enabled = rope_kernels.transformers.enable(model)
    ours = modeling_llama.apply_rotary_pos_emb
    q, k, cos, sin = given(1, torch.bfloat16)
    cos, sin = cos[None], sin[None]
    bits = rope_kernels.plan(repeat="halves")
    candidates = {
        "eager transformers": lambda: original(q, k, cos, sin),
        "an enabled model": lambda: ours(q, k, cos, sin),
        "rope_kernels.rotate_qk": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
        "the operator": lambda: torch.ops.rope_kernels.rotate_qk(q, k, cos, sin, bits, 1.0),
        "the operator in place": lambda: torch.ops.rope_kernels.rotate_qk_(q, k, cos, sin, bits, 1.0),
    }
    times = {name: [] for name in candidates}
    with torch.no_grad():
        for _ in range(200):
            for name, call in candidates.items():
                weights.mul_(1.0)  # 128 MiB.
                begin = perf_counter()
                call()
                times[name].append(perf_counter() - begin)
    for name, each in times.items():
        each.sort()
        print(f"{each[len(each) // 4] * 1e6:8.1f} us  {name}")
    enabled.__exit__()


def rotate():
    compiled = torch.compile(eager)
    for dtype in (torch.float32, torch.bfloat16):
        for tokens in (1, 128, 2048):
            q, k, cos, sin = given(tokens, dtype)
            in_place = [q.clone(), k.clone()]
            times = turns({
                "eager": lambda: eager(q, k, cos, sin),
                "compiled": lambda: compiled(q, k, cos, sin),
                "ours": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
                "ours in place": lambda: rope_kernels.rotate_qk_(*in_place, cos, sin, repeat="halves"),
            })
            print(f"{dtype} {tokens} tokens: " + ", ".join(f"{n} {s * 1e3:.3f} ms" for n, s in times.items()))


def small():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                         num_key_value_heads=2, vocab_size=1024, max_position_embeddings=4096)
    return LlamaForCausalLM(config).eval()


def share():
    """The rotation is what makes cos and sin of a step, and the function that each layer calls."""
    import rope_kernels.transformers
    from transformers import DynamicCache
    from transformers.models.llama import modeling_llama

    model, prompt, spent = small(), 512, [0.0]
    ids = torch.randint(0, 1024, (1, prompt))

    def timed(function):
        def call(*arguments, **named):
            begin = clock()
            result = function(*arguments, **named)
            spent[0] += clock() - begin
            return result

        return call

    @torch.inference_mode()
    def run(tokens):
        cache = DynamicCache(config=model.config)
        if tokens == 1:
            model(ids, past_key_values=cache, use_cache=True)
        spent[0], begin = 0.0, clock()
        for _ in range(16 if tokens == 1 else 1):
            model(ids[:, :tokens], past_key_values=cache, use_cache=True)
        return clock() - begin, spent[0]

    for dtype in (torch.float32, torch.bfloat16):
        model.to(dtype)
        for name, tokens in (("prompt", prompt), ("token", 1)):
            best = {False: (1e9, 0.0), True: (1e9, 0.0)}
            for turn in range(30):
                for ours in (turn % 2 == 0, turn % 2 == 1):
                    if ours:
                        rope_kernels.transformers.enable(model)
                    originals = modeling_llama.apply_rotary_pos_emb, model.model.rotary_emb.forward
                    modeling_llama.apply_rotary_pos_emb, model.model.rotary_emb.forward = map(timed, originals)
                    best[ours] = min(best[ours], run(tokens))
                    modeling_llama.apply_rotary_pos_emb = originals[0]
                    del model.model.rotary_emb.forward
                    if ours:
                        rope_kernels.transformers.disable(model)
            eager, ours = best[False], best[True]
            print(f"{dtype}, {name}: eager {100 * eager[1] / eager[0]:.1f} %, ours {100 * ours[1] / ours[0]:.1f} %, "
                  f"the model's time {ours[0] / eager[0]:.3f} of eager's")


def tokens():
    import rope_kernels.transformers

    model = small()

    @torch.no_grad()
    def prefill(model, ids):
        model(ids, use_cache=False)

    for dtype in (torch.float32, torch.bfloat16):
        model = model.to(dtype)
        for count in (1, 32, 512):
            ids, compiled = torch.randint(0, 1024, (1, count)), torch.compile(model)
            rates = {}
            torch._dynamo.reset()
            for _ in range(2):  # Enabling is for all: candidates take turns of whole measurements.
                for name, which, ours in (("eager", model, False), ("compiled", compiled, False), ("ours", model, True)):
                    if ours:
                        rope_kernels.transformers.enable(model)
                    seconds = turns({name: lambda: prefill(which, ids)}, 3.0)[name]
                    rope_kernels.transformers.disable(model)
                    rates[name] = max(rates.get(name, 0.0), count / seconds)
            print(f"{dtype} {count} tokens at once: " + ", ".join(f"{n} {r:.0f} tokens/s" for n, r in rates.items()))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"overhead": overhead, "cold": cold, "rotate": rotate, "tokens": tokens, "share": share}[sys.argv[1]]()
