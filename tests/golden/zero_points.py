"""Writes codes4/zero_points.txt: rows in unsigned codes with a scale and a zero point per group, by NumPy.

    python3 tests/golden/zero_points.py > tests/golden/codes4/zero_points.txt

It never calls the crate. The formulas are those of OpenVINO's vector code on x86 (`attn_quant.cpp`), and those of
tract's values (`kv_quant.rs`), with a minimum in place of the zero point. Scales and zero points are NumPy's f32; a
fused multiply-add is a sum of fractions, rounded once by `rounded`. Groups of 32, 64 and 128 channels are blocks: the
scale, the zero point, the codes. Others have their numbers apart. A byte of two codes has the even channel in its high
half.
"""

import math
from fractions import Fraction

import numpy

# numbers beyond the range of f32 are part of the rules
numpy.seterr(all="ignore")

ROWS, CHANNELS = 14, 128
F32 = numpy.float32


def rows():
    random = numpy.random.default_rng(86)
    x = random.standard_normal((ROWS, CHANNELS)).astype(F32)
    for row in range(ROWS):
        x[row] *= F32(2.0 ** float(random.integers(-12, 12)))
    # constants: zeros of both signs, others
    x[1, ::2], x[1, 1::2] = 0, -0.0
    x[2, :64], x[2, 64:] = 3.25, -1e-3
    # only one sign, with an offset that f32 rounds; ties of codes
    x[3] = 1000 + numpy.abs(x[3])
    x[4] = random.integers(0, 511, CHANNELS) * 0.5
    x[4, ::32], x[4, 1::32] = 0, 255
    x[5] = random.integers(-15, 16, CHANNELS) * 0.5
    x[5, ::32], x[5, 1::32] = -7.5, 7.5
    # subnormals, whose scale may be 0, or have no reciprocal
    x[6] = random.integers(-7, 8, CHANNELS) * 2.0**-149
    x[7] = random.integers(-99999, 99999, CHANNELS) * 2.0**-149
    # wide ranges, and one that overflows
    x[8] = numpy.ldexp(random.uniform(1, 2, CHANNELS), random.integers(-140, 127, CHANNELS))
    x[9] = numpy.ldexp(random.uniform(1, 2, CHANNELS), 127) * random.choice([-1, 1], CHANNELS)
    # a zero point beyond all codes, and one beyond 2^31
    x[10] = 65536 + random.integers(0, 2, CHANNELS) / 128
    x[11] = 3e9 + random.integers(0, 2, CHANNELS) * 256.0
    x[12, ::32] = 100
    return x.astype(F32)


def rounded(exact):
    """The f32 nearest to a fraction, ties to even; an infinity beyond."""
    if exact == 0:
        return F32(0)
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    last = max(exponent - 23, -149)
    number = round(magnitude / Fraction(2) ** last) * Fraction(2) ** last
    if number >= 2**128:
        number = math.inf
    return F32(float(number) if exact > 0 else -float(number))


def code(x, by, zero, most):
    product = x * by
    if numpy.isfinite(x) and numpy.isfinite(by) and numpy.isfinite(zero):
        total = rounded(Fraction(float(x)) * Fraction(float(by)) + Fraction(float(zero)))
    else:
        total = product + zero
    if not total < 2**31:
        return 0
    if total < 0:
        return 0
    return min(round(Fraction(float(total))), most)


def zero_point(group, most):
    """The scale, the zero point, the codes and the values of a group."""
    scale = (group.max() - group.min()) / F32(most)
    scale = F32(0.0001) if scale == 0 else scale
    zero = (F32(0) - group.min()) / scale
    by = F32(1) / scale
    codes = numpy.array([code(x, by, zero, most) for x in group], dtype=numpy.uint8)
    return (scale, zero), codes, (codes.astype(F32) - zero) * scale


def minimum(group, most):
    """The scale, the minimum, the codes and the values of a group."""
    low, high = group.min() + F32(0), group.max()
    scale = (high - low) / F32(most) if high > low else F32(1)
    quotients = (group - low) / scale
    # halves away from zero, of numbers that are not negative; a NaN is 0
    quotients = numpy.where(numpy.isnan(quotients), F32(0), quotients)
    quotients = numpy.minimum(quotients, F32(most)).astype(numpy.float64)
    codes = numpy.floor(quotients + 0.5).astype(numpy.uint8)
    return (scale, low), codes, low + codes.astype(F32) * scale


def encode(x, size, bits, rule=zero_point):
    """The numbers, the codes in bytes and the values of each group."""
    made = [rule(group, (1 << bits) - 1) for group in x.ravel()[: x.size // size * size].reshape(-1, size)]
    numbers = numpy.array([numbers for numbers, _, _ in made], dtype="<f4")
    codes = numpy.array([codes for _, codes, _ in made])
    packed = codes if bits == 8 else codes[:, 0::2] << 4 | codes[:, 1::2]
    return numbers, packed, numpy.array([values for _, _, values in made])


def line(key, numbers):
    numbers = numpy.ascontiguousarray(numbers)
    words = numbers.view({1: numpy.uint8, 4: numpy.uint32}[numbers.itemsize]).ravel()
    print(key, *(f"{word:0{2 * words.itemsize}x}" for word in words))


def main():
    print("# by zero_points.py: NumPy and fractions")
    x = rows()
    line("x_f32", x)
    # bf16 in f32: the upper halves
    upper = x.view(numpy.uint32) >> 16
    print("x_bf16", *(f"{word:04x}" for word in upper.ravel()))
    for element, x in (("f32", x), ("bf16", (upper << 16).view(F32))):
        for bits in (8, 4):
            for size in (32, 64, 128):
                numbers, packed, values = encode(x, size, bits)
                blocks = numpy.concatenate([numbers.view(numpy.uint8), packed], axis=1)
                line(f"u{bits}_in_{size}_{element}", blocks)
                line(f"u{bits}_in_{size}_dequant_{element}", values)
            for size in (20, 80, 96, 256):
                for rule in (zero_point, minimum):
                    numbers, packed, values = encode(x, size, bits, rule)
                    key = f"u{bits}_of_{size}_{rule.__name__}"
                    line(f"{key}_numbers_{element}", numbers)
                    line(f"{key}_codes_{element}", packed)
                    if size == 80:
                        line(f"{key}_dequant_{element}", values)


if __name__ == "__main__":
    main()
