"""Writes frequencies.txt: the scaling variants that golden/tables has no case of, from their formulas in 400 bits.

Every parameter counts as the exact value of its double (or float, where the variant takes floats). Needs mpmath.
"""

import struct

from mpmath import ceil, exp, floor, log, mp, mpf, pi, sqrt

mp.prec = 400


def ladder(d, b):
    return [mpf(b) ** (-mpf(2 * i) / d) for i in range(d // 2)]


def ntk_base(d, b, x):
    return mpf(b) * mpf(x) ** (mpf(d) / (d - 2))


def ramp(d, b, context, fast, slow, truncate=True):
    corr = lambda n: d * log(mpf(context) / (mpf(n) * 2 * pi)) / (2 * log(mpf(b)))
    low, high = corr(fast), corr(slow)
    if truncate:
        low, high = floor(low), ceil(high)
    low, high = max(low, mpf(0)), min(high, mpf(d - 1))
    if low == high:
        high += mpf(0.001)
    return [1 - min(max((i - low) / (high - low), mpf(0)), mpf(1)) for i in range(d // 2)]


def blend(a, b, at):
    return [x + (y - x) * t for x, y, t in zip(a, b, at)]


def yarn(d, b, s, context, fast=32, slow=1, truncate=True):
    w = ladder(d, b)
    return blend([x / mpf(s) for x in w], w, ramp(d, b, context, fast, slow, truncate))


def by_parts(d, b, s, context, ntk, extrapolation):
    w = ladder(d, b)
    mask = [x * mpf(ntk) for x in ramp(d, b, context, 1.25, 0.75)]
    slow = blend([x / mpf(s) for x in w], ladder(d, ntk_base(d, b, s)), mask)
    return blend(slow, w, [x * mpf(extrapolation) for x in ramp(d, b, context, 16, 2)])


def mscale(s, m=1):
    return mpf(1) if s <= 1 else mpf(m) * log(mpf(s)) / 10 + 1


f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
alphas = [0.0625 * (i % 5) - 0.1 for i in range(32)]
factors = [f32(1 + 0.37 * i) for i in range(32)]
lo, hi = mpf(0.25), mpf(16.5)
cases = {
    "default_odd_ladder": (ladder(90, 1234567.5), 1, 1),
    "default_base_1e300": (ladder(64, 1e300), 1, 1),
    "default_base_below_1": (ladder(64, 0.125), 1, 1),
    "default_widest": (ladder(65536, 1e4)[::511], 1, 1),
    "linear_2.5": ([x / mpf(2.5) for x in ladder(64, 1e4)], 1, 1),
    "ntk_alpha": (ladder(128, ntk_base(128, 1e4, 1000)), 1, 1),
    "ntk_dynamic_1.7": (ladder(96, ntk_base(96, 1e4, mpf(1.7) * 5000 / 3000 - (mpf(1.7) - 1))), 1, 1),
    "ntk_fixed": ([x / mpf(8) ** (mpf(2) / 128) for x in ladder(128, 80000)], 1, 1),
    "ntk_mixed": (
        [w * exp(-log(mpf(8)) / mpf(64) ** mpf(0.625) * mpf(i + 1) ** mpf(0.625)) for i, w in enumerate(ladder(128, 1e4))],
        1,
        1,
    ),
    "ntk_by_parts": (by_parts(128, 1e4, 4, 2048, 1, 1), 1, 1),
    "ntk_by_parts_half": (by_parts(128, 1e4, 4, 2048, 0.5, 0.75), 1, 1),
    "yarn_mscale": (yarn(64, 1e4, 40, 4096), mscale(40, mpf(0.707)) / mscale(40, mpf(1.25)), mscale(40, mpf(1.25)) ** 2),
    "yarn_short_context": (yarn(64, 1e4, 4, 4), mscale(4), 1),
    "yarn_narrow_ramp": (yarn(64, 1e4, 4, 4096, 2, 1.9999), mscale(4), 1),
    "yarn_betas": (yarn(128, 1e6, 3.5, 10000, 20.25, 0.5, False), mscale(3.5), 1),
    "longrope_factor_1": ([w / mpf(f) for w, f in zip(ladder(64, 1e4), factors)], 1, 1),
    "longrope_factor_1.75": ([w / mpf(f) for w, f in zip(ladder(64, 1e4), factors)], sqrt(1 + log(mpf(1.75)) / log(mpf(3))), 1),
    "proportional": ([w if i < 32 else mpf(0) for i, w in enumerate(ladder(256, 1e6))], 1, 1),
    "freq_factors": ([w / mpf(f) for w, f in zip(ladder(64, 5e5), factors)], 1, 1),
    "learned": ([w * exp(mpf(a)) for w, a in zip(ladder(64, 5e5), alphas)], 1, 1),
    "turns": ([2 * pi * w for w in ladder(32, 100)] * 2, 1, 1),
    "periods": ([2 * pi / (lo * (hi / lo) ** (mpf(i) / 15)) for i in range(16)] * 2, 1, 1),
    "vision": (ladder(40, 1e4) * 2, 1, 1),
    "wan": (ladder(44, 1e4) + ladder(42, 1e4) * 2, 1, 1),
    "given_f64": ([mpf(x) for x in (1.0, -0.3, 1e-25, 5e-324, 0.0, 100.125)], 1, 1),
}


def nearest(x, digits, lowest):
    """The nearest value of `digits` significant bits, ties to even."""
    if x == 0:
        return mpf(0)
    exponent = max(int(floor(log(abs(x), 2))) - digits + 1, lowest)
    scaled = x / mpf(2) ** exponent
    below = floor(scaled)
    rest = scaled - below
    up = rest > 0.5 or (rest == 0.5 and int(below) % 2 == 1)
    return (below + up) * mpf(2) ** exponent


def bits(x, digits, lowest, code):
    return struct.pack(">" + code, float(nearest(x, digits, lowest))).hex()


out = open(__file__.replace(".py", ".txt"), "w")
print("# Frequencies of the scaling variants that tables/ has no case of; made by frequencies.py with mpmath, 400 bits.", file=out)
print("# NAME.turns: whole turns (decimal) and the fraction in units of 2^-128 (hex), comma between. NAME.inverse: f64", file=out)
print("# and f32 of the inverse frequency, correctly rounded. NAME.factors: attention and softmax factor, f64.", file=out)
for name, (inverse, attention, softmax) in cases.items():
    turns = [int(floor(w / (2 * pi) * mpf(2) ** 128 + mpf(0.5))) for w in inverse]
    print(f"{name}.turns", *(f"{t >> 128},{t & (2**128 - 1):032x}" for t in turns), file=out)
    print(f"{name}.inverse_f64", *(bits(w, 53, -1074, "d") for w in inverse), file=out)
    print(f"{name}.inverse_f32", *(bits(w, 24, -149, "f") for w in inverse), file=out)
    print(f"{name}.factors", *(bits(mpf(x), 53, -1074, "d") for x in (attention, softmax)), file=out)
