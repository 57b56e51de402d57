"""Slots of caches that were written: read, rotated in place, moved. Codes are decoded here, in PyTorch."""

import pathlib
import re
import unittest

import torch

import rope_kernels
from support import DTYPES, SEED, eager, read, same, values

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
E2M1 = torch.cat((E2M1, -E2M1))
IQ4_NL = torch.tensor([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113.0])
BLOCKS, SLOTS, HEADS, CHANNELS = 5, 4, 2, 128
EIGHT_BITS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e5m2_saturating": torch.float8_e5m2,
              "int8": torch.int8, "int8_away": torch.int8}
BY_CHANNEL = {"u8_by_channel": 8, "u4_by_channel": 4, "kivi2": 2, "kivi4": 4}
# Bytes of a block.
GGML = {"q8_0": 34, "q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "iq4_nl": 18}


def halves(codes):
    """Codes of 4 bits: the low halves of all bytes, and the high ones."""
    return codes & 15, codes >> 4


def number(data, dtype):
    return data.contiguous().view(dtype).float()


def ggml(format, codes):
    block = codes.unflatten(-1, (-1, GGML[format]))
    d, rest = number(block[..., :2], torch.float16), block[..., 2:]
    if format == "q8_0":
        return (rest.view(torch.int8).float() * d).flatten(-2)
    least = None
    if format in ("q4_1", "q5_1"):
        least, rest = number(rest[..., :2], torch.float16), rest[..., 2:]
    fifth, rest = (rest[..., :4], rest[..., 4:]) if format in ("q5_0", "q5_1") else (None, rest)
    code = torch.cat(halves(rest), -1).long()
    if fifth is not None:
        code += (fifth[..., None] >> torch.arange(8) & 1).flatten(-2).long() << 4
    if format == "iq4_nl":
        return (d * IQ4_NL[code]).flatten(-2)
    code = code.float()
    return (code * d + least if least is not None else (code - {"q4_0": 8, "q5_0": 16}[format]) * d).flatten(-2)


def zero_points(bits, codes, numbers, minimum=False):
    """Codes with two numbers each, of groups that numbers count."""
    code = codes if bits == 8 else torch.stack(halves(codes)[::-1], -1).flatten(-2)
    scale, second = numbers.unflatten(-1, (-1, 2)).unbind(-1)
    code = code.float().unflatten(-1, (scale.shape[-1], -1))
    scale, second = scale[..., None], second[..., None]
    return (code * scale + second if minimum else (code - second) * scale).flatten(-2)


def decoded(format, codes, scale=None, factor=1.0):
    """The heads of a cache, but for those by channel."""
    if format == "elements":
        return codes.float()
    if format in EIGHT_BITS:
        scale = scale if isinstance(scale, float) else scale[..., None]
        return codes.view(EIGHT_BITS[format]).float() * scale
    if format in GGML:
        return ggml(format, codes)
    if "_in_" in format and format[0] == "u":
        bits, group = int(format[1]), int(format.split("_")[2])
        block = codes.unflatten(-1, (-1, 8 + group * bits // 8))
        numbers = number(block[..., :8], torch.float32)
        return zero_points(bits, block[..., 8:], numbers).flatten(-2)
    if format[0] == "u":
        return zero_points(int(format[1]), codes, scale, format.endswith("minimum"))
    code = codes.view(torch.float8_e4m3fn).float()
    if "fp4" in format:
        code = E2M1[torch.stack(halves(codes), -1).flatten(-2).long()]
    code = code.unflatten(-1, (scale.shape[-1], -1))
    if format == "nvfp4":
        scale = scale.view(torch.float8_e4m3fn)
    elif scale.dtype == torch.uint8:
        scale = torch.ldexp(torch.ones(scale.shape), scale.int() - 127)
    return (code * scale.float()[..., None] * factor).flatten(-2)


def by_channel(format, cache):
    """`[blocks, heads, rows, width]` as `[blocks, tokens, heads, channels]`."""
    bits = BY_CHANNEL[format]
    flat = cache.flatten(2)
    if format[0] == "u":
        channels = cache.shape[3] * 8 // bits
        scale, zero = number(flat[..., : 8 * channels], torch.float32).unflatten(-1, (2, channels)).unbind(-2)
        codes = flat[..., 8 * channels :].unflatten(-1, (-1, cache.shape[3]))
        code = codes if bits == 8 else torch.stack(halves(codes)[::-1], -1).flatten(-2)
        return ((code.float() - zero[:, :, None]) * scale[:, :, None]).transpose(1, 2)
    channels = cache.shape[3]
    scale, least = number(flat[..., : 4 * channels], torch.float16).unflatten(-1, (2, channels)).unbind(-2)
    # Bytes of codes of one channel: the first token in the lowest bits.
    codes = flat[..., 4 * channels :].unflatten(-1, (channels, -1))
    code = (codes[..., None] >> torch.arange(0, 8, bits) & (1 << bits) - 1).flatten(-2).float()
    return (code * scale[..., None] + least[..., None]).permute(0, 3, 1, 2)


def rotated(x, cos, sin, pairing="half"):
    """`[tokens, heads, channels]` by the rows of cos and sin, as eager PyTorch rotates it."""
    twice = (lambda t: torch.cat((t, t), -1)) if pairing == "half" else (lambda t: t.repeat_interleave(2, -1))
    return eager(x, *(twice(table)[:, None] for table in (cos, sin)), pairing)


class Slots(unittest.TestCase):
    """Each format: `how` are the arguments that describe a cache to all functions."""

    def rows(self, tokens, channels=CHANNELS):
        angle = torch.randn(tokens, channels // 2) * 3
        return angle.cos(), angle.sin()

    def formats(self):
        """Name, an empty cache, and its scale and factor."""
        empty = lambda width, dtype=torch.uint8: torch.zeros(BLOCKS, SLOTS, HEADS, width, dtype=dtype)
        for dtype in DTYPES.values():
            yield "elements", empty(CHANNELS, dtype), dict()
        for format, dtype in EIGHT_BITS.items():
            stored = torch.uint8 if dtype == torch.float8_e5m2 else dtype
            for scale in (0.25, torch.tensor([0.25, 0.125]), torch.zeros(BLOCKS, SLOTS, HEADS)):
                if not (isinstance(scale, torch.Tensor) and scale.dim() == 3 and "e5m2" in format):
                    yield format, torch.zeros(BLOCKS, SLOTS, HEADS, CHANNELS).to(stored), dict(scale=scale)
        for format, size in GGML.items():
            yield format, empty(CHANNELS // 32 * size), dict()
        for bits in (8, 4):
            for group in (32, 64, 128):
                yield f"u{bits}_in_{group}", empty(CHANNELS // group * (8 + group * bits // 8)), dict()
            for parts in (1, 2):
                for rule in ("", "_minimum"):
                    scale = torch.zeros(BLOCKS, SLOTS, HEADS, 2 * parts)
                    yield f"u{bits}{rule}", empty(CHANNELS * bits // 8), dict(scale=scale)
                    numbers = [torch.zeros(BLOCKS, SLOTS, HEADS, parts) for _ in range(2)]
                    yield f"u{bits}{rule}", empty(CHANNELS * bits // 8), dict(scale=numbers[0], zero=numbers[1])
        for format, per_byte, group, rules, dtype in (
            ("mxfp4", 2, 32, ("", "_even", "_up"), torch.uint8), ("mxfp8", 1, 32, ("", "_even", "_up"), torch.uint8),
            ("nvfp4", 2, 16, ("",), torch.uint8), ("e4m3_in_128", 1, 128, ("", "_power_of_two"), torch.float32),
            ("e4m3_in_128_e8m0", 1, 128, ("",), torch.uint8), ("e4m3_in_64", 1, 64, ("", "_power_of_two"), torch.float32),
            ("e4m3_in_64_e8m0", 1, 64, ("",), torch.uint8),
        ):
            for rule in rules:
                factor = dict(factor=0.03125) if format == "nvfp4" else dict()
                # Scales of their own, and in each page after its codes.
                scale = empty(CHANNELS // group, dtype)
                yield format + rule, empty(CHANNELS // per_byte), dict(scale=scale, **factor)
                sizes = [SLOTS * HEADS * CHANNELS // per_byte, SLOTS * HEADS * CHANNELS // group * dtype.itemsize]
                codes, scale = torch.zeros(BLOCKS, sum(sizes), dtype=torch.uint8).split(sizes, 1)
                scale = scale.view(dtype).unflatten(1, (SLOTS, HEADS, -1))
                yield format + rule, codes.unflatten(1, (SLOTS, HEADS, -1)), dict(scale=scale, **factor)

    def copy(self, cache, how):
        """A copy that lies as the original does: codes and scales may share a page."""
        scale = how.get("scale")
        if not isinstance(scale, torch.Tensor) or scale.untyped_storage().data_ptr() != cache.untyped_storage().data_ptr():
            kept = {name: each.clone() if isinstance(each, torch.Tensor) else each for name, each in how.items()}
            return cache.clone(), kept
        storage = cache.untyped_storage().clone()
        alike = lambda t: torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
        return alike(cache), {**how, "scale": alike(scale)}

    def write(self, x, cache, how, slots, format, **layout):
        """Writes values, which no rotation changes, `[tokens, heads, channels]`."""
        named = dict(value_scale=how.get("scale", 1.0), value_factor=how.get("factor", 1.0))
        keys, kept = self.copy(cache, how)
        named |= dict(key_scale=kept.get("scale", 1.0), key_factor=named["value_factor"])
        named |= dict(key_zero=kept.get("zero"), value_zero=how.get("zero"))
        cos = torch.ones(len(slots), x.shape[-1] // 2)
        rope_kernels.rotate_into_caches(x[None], x[None], cos, cos * 0, keys, cache, slots, format=format, layout="bshd",
                                        **named, **layout)

    def same_cache(self, one, other, what):
        (cache, how), (wanted, wanted_how) = one, other
        self.assertTrue(torch.equal(cache.contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8)), what)
        for name in ("scale", "zero"):
            if isinstance(how.get(name), torch.Tensor):
                self.assertTrue(torch.equal(how[name], wanted_how[name]), what)

    def test_every_format(self):
        torch.manual_seed(SEED)
        slots = torch.tensor([9, 2, -1, 0, 17])
        used = slots >= 0
        names = set()
        for format, cache, how in self.formats():
            names.add(format)
            what = f"{format} {how}, seed {SEED}"
            self.write(torch.randn(20, HEADS, CHANNELS), cache, how, torch.randperm(20), format)
            scale = how.get("scale", 1.0)
            numbers = torch.stack((scale, how["zero"]), -1).flatten(-2) if "zero" in how else scale
            kept = decoded(format, cache, numbers, how.get("factor", 1.0)).flatten(0, 1)
            self.assertGreater(kept.std().item(), 0.5, what)
            named = dict(format=format, **how)
            cos, sin = self.rows(5)
            before = self.copy(cache, how)
            for dtype in DTYPES.values():
                # Without a rotation; with one; in the other order of heads and tokens.
                for layout in ("bshd", "bhsd"):
                    for rows in ((), (cos, sin)):
                        out = torch.full((1, 5, HEADS, CHANNELS), 7.0, dtype=dtype)
                        given = out if layout == "bshd" else out.transpose(1, 2)
                        self.assertIs(rope_kernels.read_cache(cache, slots, given, *rows, layout=layout, **named), given)
                        wanted = torch.full((5, HEADS, CHANNELS), 7.0, dtype=dtype)
                        wanted[used] = (rotated(kept[slots], cos, sin) if rows else kept[slots]).to(dtype)[used]
                        same(self, out[0], wanted, what)
            self.same_cache((cache, how), before, what)
            # A shift: decoded, rotated and encoded again.
            shifted = self.copy(cache, how)
            turned = rotated(kept[slots], cos, sin)[used]
            self.write(turned, *shifted, slots[used], format)
            self.assertIs(rope_kernels.rotate_cache_(cache, slots, cos, sin, **named), cache)
            self.same_cache((cache, how), shifted, what)
            # Moves: bits, and those of the scales; as if all were read before one is written.
            for source, target in (([9, 2, -1, 0, 17], [3, 19, 4, -1, 1]), (range(4, 9), range(2, 7)),
                                   (range(2, 7), range(5, 10))):
                source, target = torch.tensor(list(source)), torch.tensor(list(target), dtype=torch.int32)
                moved = self.copy(cache, how)
                pairs = (source >= 0) & (target >= 0)
                tensors = [moved[0]]
                if isinstance(scale, torch.Tensor) and scale.dim() > 1:
                    tensors += [moved[1][name] for name in ("scale", "zero") if name in how]
                for tensor in tensors:
                    rows = tensor.flatten(0, 1) if tensor.is_contiguous() else tensor.reshape(20, *tensor.shape[2:])
                    rows = rows.clone()
                    rows.view(torch.uint8)[target[pairs].long()] = rows.view(torch.uint8)[source[pairs]]
                    tensor.copy_(rows.unflatten(0, (BLOCKS, SLOTS)))
                self.assertIs(rope_kernels.move_slots(cache, source, target, **named), cache)
                self.same_cache((cache, how), moved, what)
        self.assertEqual(names, set(rope_kernels._stages._FORMATS) - set(BY_CHANNEL))

    def test_decoders_are_those_of_others(self):
        """The decoders of this file give the values that ggml, NumPy and ml_dtypes made of golden codes."""
        def codes(file, key):
            return torch.tensor([int(code, 16) for code in file[key]], dtype=torch.uint8)

        file = read("codes4/ggml_rows")
        for format in ("q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"):
            wanted = values(file[f"{format}_dequant_f32"], torch.float32, -1)
            same(self, decoded(format, codes(file, f"{format}_f32")), wanted, format)
        file = read("codes4/micro")
        for key, format, per_byte, group in (
            ("mxfp4_even", "mxfp4_even", 2, 32), ("mxfp8_up", "mxfp8_up", 1, 32), ("nvfp4_0", "nvfp4", 2, 16),
            ("e4m3_in_64_quotient", "e4m3_in_64", 1, 64), ("e4m3_in_64_e8m0", "e4m3_in_64_e8m0", 1, 64),
            ("e4m3_in_128_quotient", "e4m3_in_128", 1, 128),
        ):
            wanted = values(file[f"{key}_dequant_f32"], torch.float32, -1)
            floats = format in ("e4m3_in_64", "e4m3_in_128")
            scale = values(file[f"{key}_scale_f32"], torch.float32, -1) if floats else codes(file, f"{key}_scale_f32")
            factor = 0.0625 if format == "nvfp4" else 1.0
            got = decoded(format, codes(file, f"{key}_codes_f32").view(-1, group // per_byte), scale[:, None], factor)
            # The signs of zeros are those of codes, of which micro.py makes some of another sign.
            self.assertTrue(torch.equal(got.flatten(), wanted), format)
        file = read("codes4/channels")
        for format, rows, width in (("u8_by_channel", 40, 20), ("u4_by_channel", 48, 10), ("kivi2", 12, 20),
                                    ("kivi4", 20, 20)):
            wanted = values(file[f"{format}_dequant_f32"], torch.float32, (2, 32, 1, 20))
            got = by_channel(format, codes(file, f"{format}_f32").view(2, 1, rows, width))
            self.assertTrue(torch.allclose(got, wanted, rtol=0, atol=0, equal_nan=True), format)

    def test_by_channel(self):
        torch.manual_seed(SEED)
        for format, rows, width in (("u8_by_channel", 40, 20), ("u4_by_channel", 48, 10), ("kivi2", 12, 20),
                                    ("kivi4", 20, 20)):
            cache = torch.zeros(3, HEADS, rows, width, dtype=torch.uint8)
            how = dict(format=format, cache_layout="hnd")
            self.write(torch.randn(96, HEADS, 20), cache, dict(), torch.arange(96), **how)
            kept = by_channel(format, cache).flatten(0, 1)
            # Any slots are read.
            slots = torch.tensor([70, 3, -1, 95, 32, 3])
            cos, sin = self.rows(6, 20)
            for given in ((), (cos, sin)):
                out = torch.full((1, 6, HEADS, 20), 7.0)
                rope_kernels.read_cache(cache, slots, out, *given, layout="bshd", **how)
                wanted = torch.full((6, HEADS, 20), 7.0)
                wanted[slots >= 0] = (rotated(kept[slots], cos, sin) if given else kept[slots])[slots >= 0]
                same(self, out[0], wanted, f"{format}, seed {SEED}")
            # Whole groups shift and move.
            slots = torch.cat([torch.arange(64, 96), torch.arange(32)])
            cos, sin = self.rows(64, 20)
            shifted = cache.clone()
            self.write(rotated(kept[slots], cos, sin), shifted, dict(), slots, **how)
            rope_kernels.rotate_cache_(cache, slots, cos, sin, **how)
            self.assertTrue(torch.equal(cache, shifted), f"{format}, seed {SEED}")
            rope_kernels.move_slots(cache, slots, torch.arange(64), **how)
            self.assertTrue(torch.equal(cache, shifted[[2, 0, 2]]), f"{format}, seed {SEED}")
            for message, call in (
                ("groups of 32", lambda: rope_kernels.rotate_cache_(cache, slots - 1, cos, sin, **how)),
                ("groups of 32", lambda: rope_kernels.move_slots(cache, slots[:6], slots[32:38], **how)),
                ("need \"hnd\"", lambda: rope_kernels.move_slots(cache, slots, slots, format=format)),
            ):
                with self.assertRaisesRegex(RuntimeError, message):
                    call()
                self.assertTrue(torch.equal(cache, shifted[[2, 0, 2]]), format)

    def test_latents(self):
        torch.manual_seed(SEED)
        slots = torch.tensor([9, 2, -1, 0, 11])
        used = slots >= 0
        for width, key, dtype, format, latent in ((576, 64, torch.float32, None, 512), (576, 64, torch.bfloat16, None, 512),
                                                  (656, 64, torch.uint8, "e4m3_in_128", 512),
                                                  (584, 64, torch.uint8, "e4m3_in_64_e8m0", 448)):
            cache = torch.zeros(3, 4, width, dtype=dtype)
            how = dict(latent=latent) if format is None else dict(latent=latent, format=format)
            words = {} if format is None else dict(format=format)
            x, k = torch.randn(1, 12, 1, latent), torch.randn(1, 12, 1, key)
            angle = torch.randn(12, key // 2)
            rope_kernels.rotate_into_latent_cache(x, k, angle.cos(), angle.sin(), cache, torch.randperm(12), layout="bshd",
                                                  pairing="interleaved", **words)

            def parts(cache):
                """The latents in f32, and views of the bytes of the keys, of the latents and of their scales."""
                if format is None:
                    return cache[..., :latent].float(), cache[..., latent:], [cache[..., :latent]]
                if format == "e4m3_in_128":
                    scale = cache[..., 512:528].view(torch.float32)
                    return decoded(format, cache[..., :512], scale), cache[..., 528:].view(torch.bfloat16), [cache[..., :528]]
                records, scales = cache.flatten(1).split([4 * 576, 4 * 8], 1)
                records, scales = records.unflatten(1, (4, 576)), scales.unflatten(1, (4, 8))
                codes = records[..., :448]
                return decoded(format, codes, scales[..., :7]), records[..., 448:].view(torch.bfloat16), [codes, scales]

            latents, keys, _ = parts(cache)
            kept = torch.cat((latents, keys.float()), -1).flatten(0, 1)[slots][:, None]
            cos, sin = self.rows(5, key)
            turned = torch.cat((kept[..., :latent], rotated(kept[..., latent:], cos, sin, "interleaved")), -1)
            before = cache.clone()
            for out_dtype in DTYPES.values():
                for rows, wanted in (((), kept), ((cos, sin), turned)):
                    out = torch.full((1, 5, 1, latent + key), 7.0, dtype=out_dtype)
                    rope_kernels.read_cache(cache, slots, out, *rows, layout="bshd", pairing="interleaved", **how)
                    wanted = torch.where(used[:, None, None], wanted, 7.0).to(out_dtype)
                    same(self, out[0], wanted, f"{dtype} {format}, seed {SEED}")
            self.assertTrue(torch.equal(cache, before))
            rope_kernels.rotate_cache_(cache, slots, cos, sin, pairing="interleaved", **how)
            # The latents keep their bits, and the keys are rounded.
            wanted = before.clone()
            of_key = parts(wanted)[1]
            for slot, head in zip(slots[used].tolist(), turned[used]):
                of_key[slot // 4, slot % 4] = head[0, latent:].to(of_key.dtype)
            self.assertTrue(torch.equal(cache, wanted), f"{dtype} {format}, seed {SEED}")
            rope_kernels.move_slots(cache, torch.tensor([9, -1, 2]), torch.tensor([5, 1, 10]), **how)
            _, of_key, others = parts(wanted)
            for source, target in ((9, 5), (2, 10)):
                for view in (of_key, *others):
                    view[target // 4, target % 4] = view[source // 4, source % 4]
            self.assertTrue(torch.equal(cache, wanted), f"{dtype} {format}, seed {SEED}")
            out = torch.zeros(1, 5, 1, latent + key)
            given = dict(cache=cache, slots=slots, out=out, cos=cos, sin=sin, layout="bshd", **how)
            for message, error, change in (
                ("contiguous|channels", RuntimeError, dict(cache=cache[..., :-1])),
                ("contiguous|three dimensions|pages", RuntimeError, dict(cache=cache[0])),
                ("contiguous|pages|pass a latent of at most 512", RuntimeError, dict(latent=latent + 1)),
                ("latent is 0", ValueError, dict(latent=0)),
                ("scale or factor", RuntimeError, dict(scale=0.5)),
                ("scale or factor", RuntimeError, dict(factor=0.5)),
                ("cache_layout", ValueError, dict(cache_layout="hnd")),
                ("format is", ValueError, dict(format="q8_0")),
                ("head_dim|channels", RuntimeError, dict(out=out[..., :-1])),
                ("slot 12", RuntimeError, dict(slots=slots + 1)),
            ):
                was = out.clone()
                with self.assertRaisesRegex(error, message):
                    rope_kernels.read_cache(**{**given, **change})
                same(self, out, was, message)

    def test_refused(self):
        torch.manual_seed(SEED)
        cache = torch.zeros(BLOCKS, SLOTS, HEADS, CHANNELS)
        cos, sin = self.rows(3)
        slots, out = torch.tensor([4, 5, 19]), torch.zeros(1, HEADS, 3, CHANNELS)
        self.write(torch.randn(20, HEADS, CHANNELS), cache, dict(), torch.arange(20), "elements")
        before = cache.clone()
        reads = dict(cache=cache, slots=slots, out=out, cos=cos, sin=sin)
        shifts = dict(cache=cache, slots=slots, cos=cos, sin=sin)
        moves = dict(cache=cache, from_slots=slots, to_slots=slots - 4)
        bytes = torch.zeros(BLOCKS, SLOTS, HEADS, 68, dtype=torch.uint8)
        for function, message, error, change in (
            ("read_cache", "cos or sin is missing", TypeError, dict(sin=None)),
            ("read_cache", "format is", ValueError, dict(format="other")),
            ("read_cache", "slot 20", RuntimeError, dict(slots=slots + 1)),
            ("read_cache", "slots", RuntimeError, dict(slots=slots[:2])),
            ("read_cache", "float32, bfloat16 and float16", RuntimeError, dict(out=out.double())),
            ("read_cache", "overlap", RuntimeError, dict(out=cache[0].transpose(0, 1)[None, :, :3])),
            ("read_cache", "head_dim|channels", RuntimeError, dict(out=out[..., :64])),
            ("read_cache", "the cache 2 of 128", RuntimeError, dict(out=out[:, :1])),
            ("read_cache", "contiguous numbers", RuntimeError, dict(cache=bytes[..., :67], format="q8_0")),
            ("read_cache", "codes and blocks", RuntimeError, dict(format="e4m3")),
            ("read_cache", "scale", RuntimeError, dict(scale=0.5)),
            ("read_cache", "a scale for 16 channels", RuntimeError, dict(cache=bytes[..., :64], format="nvfp4")),
            ("read_cache", "no gradients", RuntimeError, dict(cos=cos.clone().requires_grad_())),
            ("read_cache", "slots is a list", TypeError, dict(slots=[1, 2, 3])),
            ("read_cache", "layout|element", RuntimeError, dict(out=torch.zeros(1, HEADS, 1, CHANNELS).expand(1, HEADS, 3, CHANNELS))),
            ("rotate_cache_", "rows", RuntimeError, dict(cos=cos[:2], sin=sin[:2])),
            ("rotate_cache_", "slot 20", RuntimeError, dict(slots=slots + 1)),
            ("rotate_cache_", "same elements", RuntimeError, dict(cache=cache[:1].expand(BLOCKS, SLOTS, HEADS, CHANNELS))),
            ("rotate_cache_", "four dimensions", RuntimeError, dict(cache=cache[0])),
            ("rotate_cache_", "no gradients", RuntimeError, dict(sin=sin.clone().requires_grad_())),
            ("rotate_cache_", "int64 or int32", RuntimeError, dict(slots=slots.float())),
            ("move_slots", "slot", RuntimeError, dict(from_slots=slots, to_slots=slots.flip(0))),
            ("move_slots", "slot 20", RuntimeError, dict(from_slots=slots + 1)),
            ("move_slots", "from|slots", RuntimeError, dict(from_slots=slots[:2])),
            ("move_slots", "slot", RuntimeError, dict(to_slots=slots * 0)),
            ("move_slots", "factor", RuntimeError, dict(factor=2.0)),
        ):
            given = {"read_cache": reads, "rotate_cache_": shifts, "move_slots": moves}[function]
            with self.assertRaisesRegex(error, message, msg=f"{function} {change.keys()}") as raised:
                getattr(rope_kernels, function)(**{**given, **change})
            self.assertNotIn("::", str(raised.exception))
            same(self, cache, before, message)
            self.assertFalse(out.any(), message)

    def test_program_of_the_guide(self):
        page = (pathlib.Path(__file__).parents[3] / "src/guide/torch.md").read_text()
        programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertGreater(len(programs), 0)
        for program in programs:
            exec(program, names := {})
            # NVFP4 in the end: the keys that were read are those that were rotated, but for their codes.
            wanted = rope_kernels.rotate(names["k"], names["cos"], names["sin"])
            self.assertLess((names["out"] - wanted).norm() / wanted.norm(), 0.12)

    def test_as_of_a_program(self):
        """A shift of a model's keys: those that were rotated at their new positions, but for the rounding."""
        torch.manual_seed(SEED)
        rotation = rope_kernels.Rotation({"model_type": "llama", "head_dim": CHANNELS, "hidden_size": 256,
                                          "num_attention_heads": 2, "rope_theta": 500000.0})
        k, cache = torch.randn(1, 8, HEADS, CHANNELS), torch.zeros(BLOCKS, SLOTS, HEADS, CHANNELS)
        cos, sin = rotation.rows(torch.arange(100, 108))
        rope_kernels.rotate_into_caches(k, k, cos, sin, cache, torch.zeros_like(cache), torch.arange(8), layout="bshd")
        cos, sin = rotation.shift(torch.full((8,), -90))
        rope_kernels.rotate_cache_(cache, torch.arange(8), cos, sin)
        wanted = rope_kernels.rotate(k, *rotation.rows(torch.arange(10, 18)), layout="bshd")
        out = rope_kernels.read_cache(cache, torch.arange(8), torch.zeros_like(k), layout="bshd")
        self.assertLess((out - wanted).abs().max().item(), 2e-6)
