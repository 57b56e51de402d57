"""Times of rope_kernels beside eager PyTorch and torch.compile, on a core that is otherwise idle.

    taskset -c 1 python rope-core/adapters/torch/bench.py times        # a rotation: 2048 tokens, one token, and least
    taskset -c 1 python rope-core/adapters/torch/bench.py overhead     # parts of a call
    taskset -c 1 python rope-core/adapters/torch/bench.py cold         # a call after the caches were flushed
    taskset -c 1 python rope-core/adapters/torch/bench.py share        # a small Llama: the rotation's share of its time
    taskset -c 1 python rope-core/adapters/torch/bench.py large        # the same of Llama 3.2 1B's shape, in 3 GiB

Candidates take turns in an order that changes, as each leaves other tensors in the caches for the next. Each is shown by
its fastest turn: the CPU's time of the only thread, in which other programs do not count. Compiling needs a C++ compiler. `--json` prints a line for each, as `rope-bench keep` reads it:

    rope-bench keep torch-times -- python rope-core/adapters/torch/bench.py times --json
"""

import ctypes
import json
import random
import sys
from time import monotonic, perf_counter, thread_time as clock

import torch

import rope_kernels


def say(name, unit="us", **values):
    """A line of a table. Times are seconds, and shares of 1; `unit` is how a reader sees them."""
    if "--json" in sys.argv:
        print(json.dumps(dict(name=name, values=values)), flush=True)
        return
    of = {"us": 1e6, "ms": 1e3, "%": 100}[unit]
    print(f"{name}: " + ", ".join(f"{key} {of * value:.3g} {unit}" for key, value in values.items()), flush=True)


def turns(candidates, seconds=2.0):
    """The fastest call of each, in seconds."""
    best, calls = {}, {}
    for name, call in candidates.items():
        call()
        begin = clock()
        call()
        calls[name] = max(1, int(0.005 / (clock() - begin)))
    end = monotonic() + seconds * len(candidates)
    order, shuffle = list(candidates.items()), random.Random(1).shuffle
    while monotonic() < end:
        shuffle(order)
        for name, call in order:
            call()  # Another's tensors are in the caches.
            begin = clock()
            for _ in range(calls[name]):
                call()
            best[name] = min(best.get(name, 1e9), (clock() - begin) / calls[name])
    return {name: best[name] for name in candidates if name in best}


def eager(q, k, cos, sin):
    """transformers' formula."""
    def half(x):
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


def vllm(q, k, cos, sin):
    """vLLM's formula, which reads each value of a row once."""
    def rotated(x):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    return rotated(q), rotated(k)


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


def given(tokens, dtype=torch.float32, heads=(32, 8), head_dim=128):
    """Queries and keys as a projection leaves them, tokens before heads, and rows as transformers makes them."""
    q, k = (torch.randn(1, tokens, n, head_dim).to(dtype).transpose(1, 2) for n in heads)
    angle = torch.randn(tokens, head_dim // 2)
    cos, sin = (torch.cat((t, t), -1).to(dtype) for t in (angle.cos(), angle.sin()))
    return q, k, cos, sin


def keep_memory():
    """Of glibc: memory that is freed stays with the process. Otherwise a new tensor of 32 MiB gets pages of the system,
    which take five times as long as its rotation, or memory that an earlier call has left."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_max, 0)


def times():
    """A prompt and a token of 32 and 8 heads of 128 channels, and the least call: two heads of 8 channels."""
    keep_memory()
    bits = rope_kernels.plan(repeat="halves")
    seconds = 0.0 if "--warm" in sys.argv else 0.7  # Only to fill the compiler's cache.
    cases = [(name, tokens, dtype, {}) for tokens, name in ((2048, "2048 tokens"), (1, "one token"))
             for dtype in (torch.float32, torch.bfloat16, torch.float16)]
    cases.append(("least", 1, torch.float32, dict(heads=(1, 1), head_dim=8)))
    for name, tokens, dtype, how in cases:
        torch._dynamo.reset()
        eager_compiled, vllm_compiled = (torch.compile(formula, dynamic=False) for formula in (eager, vllm))
        q, k, cos, sin = given(tokens, dtype, **how)
        once = [table[:, None, : table.shape[-1] // 2].contiguous() for table in (cos, sin)]
        tokens_major = [x.transpose(1, 2)[0] for x in (q, k)]
        in_place = [x.transpose(1, 2).clone().transpose(1, 2) for x in (q, k)]
        with torch.no_grad():
            best = turns({
                "eager": lambda: eager(q, k, cos, sin),
                "compiled": lambda: eager_compiled(q, k, cos, sin),
                "vllm": lambda: vllm_compiled(*tokens_major, *once),
                "new": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
                "in_place": lambda: rope_kernels.rotate_qk_(*in_place, cos, sin, repeat="halves"),
                "operator": lambda: torch.ops.rope_kernels.rotate_qk_(*in_place, cos, sin, bits, 1.0),
            }, seconds)
        kind = str(dtype).removeprefix("torch.")
        say(f"{name}, {kind}", "ms" if tokens > 1 else "us", **best)


def overhead():
    ops, (q, k, cos, sin) = torch.ops.rope_kernels, given(1)
    x, bits = q[:, :1].contiguous(), rope_kernels.plan(repeat="halves")
    needs = x.clone().requires_grad_()
    one = lambda t: rope_kernels.rotate(t, cos, sin, repeat="halves")  # noqa: E731
    probes = {"an operator that does nothing": lambda: ops.nothing(x, cos, sin, bits, 1.0)} if hasattr(ops, "nothing") else {}
    best = turns(probes | {
        "an operator of PyTorch, view_as": lambda: torch.ops.aten.view_as(x, x),
        "one head in place, operator": lambda: ops.rotate_(x, cos, sin, bits, 1.0),
        "one head, operator": lambda: ops.rotate(x, cos, sin, bits, 1.0),
        "one head, rope_kernels.rotate": lambda: one(x),
        "one head, with a gradient, forward": lambda: one(needs),
        "an empty autograd.Function that clones": lambda: Empty.apply(needs, cos, sin),
        "an autograd.Function of the operator alone": lambda: Around.apply(needs, cos, sin),
        "32 and 8 heads in place, operator": lambda: ops.rotate_qk_(q, k, cos, sin, bits, 1.0),
        "32 and 8 heads in place, rope_kernels.rotate_qk_": lambda: rope_kernels.rotate_qk_(q, k, cos, sin, repeat="halves"),
        "32 and 8 heads, operator": lambda: ops.rotate_qk(q, k, cos, sin, bits, 1.0),
        "32 and 8 heads, rope_kernels.rotate_qk": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
        "32 and 8 heads, eager": lambda: eager(q, k, cos, sin),
    }, 1.0)
    for name, seconds in best.items():
        say(name, time=seconds)


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
        "eager": lambda: original(q, k, cos, sin),
        "enabled": lambda: ours(q, k, cos, sin),
        "rotate_qk": lambda: rope_kernels.rotate_qk(q, k, cos, sin, repeat="halves"),
        "operator": lambda: torch.ops.rope_kernels.rotate_qk(q, k, cos, sin, bits, 1.0),
        "operator_in_place": lambda: torch.ops.rope_kernels.rotate_qk_(q, k, cos, sin, bits, 1.0),
    }
    each = {name: [] for name in candidates}
    with torch.no_grad():
        for _ in range(200):
            for name, call in candidates.items():
                weights.mul_(1.0)  # 128 MiB.
                begin = perf_counter()
                call()
                each[name].append(perf_counter() - begin)
    say("one token, bfloat16", **{name: quartile(seconds) for name, seconds in each.items()})
    enabled.__exit__()


def quartile(seconds):
    """The first one: what else the machine does makes times longer."""
    return sorted(seconds)[len(seconds) // 4]


def llama(layers, hidden, intermediate, heads, kv_heads, dtype):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    config = LlamaConfig(hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
                         num_attention_heads=heads, num_key_value_heads=kv_heads, vocab_size=1024,
                         max_position_embeddings=4096)
    model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return model


def rotated(model, prompt, decoded, repetitions):
    """Of a prompt and of tokens after it, with and without rope_kernels in turns: the seconds of the fastest run, those
    of it that went into the rotation, and the seconds of each call. The rotation is what makes cos and sin of a step,
    and the function that each layer calls."""
    import rope_kernels.transformers
    from transformers import DynamicCache
    from transformers.models.llama import modeling_llama

    spent, of_calls, ids = [0.0], [], torch.randint(0, 1024, (1, prompt))

    def timed(function, calls):
        def call(*arguments, **named):
            begin = perf_counter()
            result = function(*arguments, **named)
            calls.append(perf_counter() - begin)
            spent[0] += calls[-1]
            return result

        return call

    @torch.inference_mode()
    def run(tokens):
        cache = DynamicCache(config=model.config)
        if tokens == 1:
            model(ids, past_key_values=cache, use_cache=True)
        of_calls.clear()
        spent[0], begin = 0.0, perf_counter()
        for _ in range(decoded if tokens == 1 else 1):
            model(ids[:, :tokens], past_key_values=cache, use_cache=True)
        return perf_counter() - begin, spent[0], list(of_calls)

    for name, tokens in (("prompt", prompt), ("token", 1)):
        best = {False: (1e9,), True: (1e9,)}
        for turn in range(repetitions):
            for ours in (turn % 2 == 0, turn % 2 == 1):
                if ours:
                    rope_kernels.transformers.enable(model)
                originals = modeling_llama.apply_rotary_pos_emb, model.model.rotary_emb.forward
                modeling_llama.apply_rotary_pos_emb = timed(originals[0], of_calls)
                model.model.rotary_emb.forward = timed(originals[1], [])
                best[ours] = min(best[ours], run(tokens))
                modeling_llama.apply_rotary_pos_emb = originals[0]
                del model.model.rotary_emb.forward
                if ours:
                    rope_kernels.transformers.disable(model)
        yield name, best[False], best[True]


def share():
    for dtype, kind in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for name, theirs, ours in rotated(llama(4, 512, 1024, 8, 2, dtype), 512, 16, 30):
            say(f"{kind}, {name}", "%", theirs=theirs[1] / theirs[0], ours=ours[1] / ours[0], whole=ours[0] / theirs[0])


def large():
    """Calls are cold here: a layer's weights go through the caches before the next call."""
    for name, theirs, ours in rotated(llama(16, 2048, 8192, 32, 8, torch.bfloat16), 128, 8, 5):
        say(f"bf16, {name}", "%", theirs=theirs[1] / theirs[0], ours=ours[1] / ours[0], whole=ours[0] / theirs[0])
        say(f"a call, {name}", theirs=quartile(theirs[2]), ours=quartile(ours[2]))


COMMANDS = {function.__name__: function for function in (times, overhead, cold, share, large)}

if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in COMMANDS:
        sys.exit(f"which table? {', '.join(COMMANDS)}")
    torch.set_num_threads(1)
    COMMANDS[sys.argv[1]]()
