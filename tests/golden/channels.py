"""Writes codes4/channels.txt: groups of tokens in codes with numbers by channel, by NumPy.

    python3 tests/golden/channels.py > tests/golden/codes4/channels.txt

It never calls the crate. u8 and u4 follow OpenVINO's vector code on x86 (`find_params_by_channel`, `quantize_by_channel`
of `attn_quant.cpp`): NumPy's f32, and a fused multiply-add as a sum of fractions, rounded once by `rounded`. Codes of 2
and 4 bits follow KIVI (`triton_quantize_and_pack_along_last_dim` of `new_pack.py`): NumPy's f16, in which each operation
is rounded. A group is a block of one head: the scales of all channels, their zero points or minima, the codes.
"""

import numpy

from zero_points import F32, code

F16 = numpy.float16
TOKENS, CHANNELS, GROUP = 64, 20, 32


def rows():
    random = numpy.random.default_rng(68)
    x = random.standard_normal((CHANNELS, TOKENS)).astype(F32)
    for channel in range(CHANNELS):
        x[channel] *= F32(2.0 ** float(random.integers(-12, 12)))
    # constants: zeros of both signs, others
    x[1, ::2], x[1, 1::2] = 0, -0.0
    x[2, :GROUP], x[2, GROUP:] = 3.25, -1e-3
    # only one sign, with an offset that f32 and f16 round; ties of codes
    x[3] = 1000 + numpy.abs(x[3])
    x[4] = random.integers(0, 511, TOKENS) * 0.5
    x[4, ::GROUP], x[4, 1::GROUP] = 0, 255
    x[5] = random.integers(-15, 16, TOKENS) * 0.5
    x[5, ::GROUP], x[5, 1::GROUP] = -7.5, 7.5
    x[6] = random.integers(-3, 4, TOKENS) * 0.5
    x[6, ::GROUP], x[6, 1::GROUP] = -1.5, 1.5
    # subnormals of f32 and of f16, whose scale may be 0
    x[7] = random.integers(-7, 8, TOKENS) * 2.0**-149
    x[8] = random.integers(-3, 4, TOKENS) * 2.0**-24
    x[9] = random.integers(0, 2, TOKENS) * 2.0**-24
    # wide ranges, beyond f16, and one beyond f32
    x[10] = numpy.ldexp(random.uniform(1, 2, TOKENS), random.integers(-140, 127, TOKENS))
    x[11] = numpy.ldexp(random.uniform(1, 2, TOKENS), 127) * random.choice([-1, 1], TOKENS)
    x[12] = random.uniform(-65504, 65504, TOKENS)
    # a zero point beyond all codes, and one beyond 2^31
    x[13] = 65536 + random.integers(0, 2, TOKENS) / 128
    x[14] = 3e9 + random.integers(0, 2, TOKENS) * 256.0
    x[15, ::GROUP] = 100
    return x.astype(F32).T.copy()


def openvino(x, bits):
    """A group of tokens [GROUP, CHANNELS]: its bytes and its values."""
    most = (1 << bits) - 1
    # as a reciprocal, unlike the codes with a scale per group of channels
    scale = (x.max(axis=0) - x.min(axis=0)) * (F32(1) / F32(most))
    scale = numpy.where(scale == 0, F32(0.0001), scale)
    zero = (F32(0) - x.min(axis=0)) / scale
    by = F32(1) / scale
    codes = [[code(x, *numbers, most) for x, *numbers in zip(row, by, zero)] for row in x]
    codes = numpy.array(codes, dtype=numpy.uint8)
    values = (codes.astype(F32) - zero) * scale
    packed = codes if bits == 8 else codes[:, 0::2] << 4 | codes[:, 1::2]
    return [scale.astype("<f4"), zero.astype("<f4"), packed], values


def kivi(x, bits):
    x, most = x.astype(F16), F16((1 << bits) - 1)
    # bounds may be zeros of either sign: none is negative here
    low, high = x.min(axis=0) + F16(0), x.max(axis=0)
    scale = (high - low) / most + F16(0)
    scale[numpy.isnan(scale)] = F16(numpy.nan)
    codes = (x - low) / scale
    # NaN to an integer: 0
    codes = numpy.where(numpy.isnan(codes), F16(0), numpy.clip(codes, F16(0), most))
    codes = numpy.rint(codes).astype(numpy.uint32)
    values = codes.astype(F32) * scale.astype(F32) + low.astype(F32)
    along = codes.T.reshape(CHANNELS, -1, 32 // bits)
    words = (along << (numpy.arange(32 // bits, dtype=numpy.uint32) * bits)).sum(axis=2)
    return [scale.astype("<f2"), low.astype("<f2"), words.astype("<u4")], values


def line(key, numbers):
    words = numbers.view({1: numpy.uint8, 4: numpy.uint32}[numbers.itemsize]).ravel()
    print(key, *(f"{word:0{2 * words.itemsize}x}" for word in words))


def main():
    print("# by channels.py: NumPy and fractions")
    x = rows()
    line("x_f32", x)
    # bf16 in f32: the upper halves
    upper = x.view(numpy.uint32) >> 16
    print("x_bf16", *(f"{word:04x}" for word in upper.ravel()))
    for element, x in (("f32", x), ("bf16", (upper << 16).view(F32))):
        for name, encode, bits in (
            ("u8_by_channel", openvino, 8),
            ("u4_by_channel", openvino, 4),
            ("kivi2", kivi, 2),
            ("kivi4", kivi, 4),
        ):
            groups = [encode(group, bits) for group in x.reshape(-1, GROUP, CHANNELS)]
            parts = [numpy.ascontiguousarray(part) for group, _ in groups for part in group]
            line(f"{name}_{element}", numpy.concatenate([part.view(numpy.uint8).ravel() for part in parts]))
            line(f"{name}_dequant_{element}", numpy.concatenate([values.ravel() for _, values in groups]))


if __name__ == "__main__":
    main()
