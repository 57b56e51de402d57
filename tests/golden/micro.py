"""Writes codes4/micro.txt: rows in MXFP4, MXFP8, NVFP4 and tiles of E4M3, by NumPy and ml_dtypes.

    python3 tests/golden/micro.py > tests/golden/codes4/micro.txt

numpy 2.4.6 and ml_dtypes 0.6.0 made the file. It never calls the crate. A row has 128 channels; each format makes its
codes of whole rows. Exponents come from `frexp`, and codes from the conversions of ml_dtypes, whose float8_e4m3fn and
float4_e2m1fn round to nearest even; numbers are clipped to the largest code first, because these do not saturate.
"""

import ml_dtypes
import numpy

# the largest scales of rows near the end of f32 decode to infinities
numpy.seterr(over="ignore")

ROWS, CHANNELS = 14, 128
E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
LARGEST = {E4M3: numpy.float32(448), E2M1: numpy.float32(6)}
EXPONENT = {E4M3: 8, E2M1: 2}
MANTISSA = {E4M3: 3, E2M1: 1}
F32 = numpy.float32


def rows():
    random = numpy.random.default_rng(68)
    x = random.standard_normal((ROWS, CHANNELS)).astype(F32)
    for row in range(ROWS):
        x[row] *= F32(2.0 ** float(random.integers(-12, 12)))
    x[1] = 0
    x[2, :40] = -0.0
    # outliers, powers of two, largest codes and their neighbors, ties of codes
    x[3, ::16] = 100
    x[4] = 2.0 ** random.integers(-8, 8, CHANNELS)
    x[5] = numpy.nextafter(F32(448), F32(0)) * random.choice([-1, 1], CHANNELS)
    x[6] = random.integers(-24, 25, CHANNELS) * 0.25
    x[7] = random.integers(-7, 8, CHANNELS) * 2.0**-130
    x[8] = random.standard_normal(CHANNELS) * 1e-39
    x[9] = numpy.ldexp(random.uniform(1, 2, CHANNELS), random.integers(-140, 127, CHANNELS))
    x[10] = numpy.ldexp(random.uniform(1, 2, CHANNELS), 127)
    x[11, ::32] = numpy.ldexp(F32(1.75), random.integers(-3, 4, 4))
    x[12, ::32] = numpy.ldexp(F32(1.9375), random.integers(4, 9, 4))
    return x.astype(F32)


def convert(x, code):
    clipped = numpy.clip(x.astype(F32), -LARGEST[code], LARGEST[code])
    return clipped.astype(code)


def power(exponent):
    return numpy.ldexp(numpy.float64(1), exponent - 127)


def exponents(largest, code, rule):
    """Biased exponents of the scales of groups."""
    found = []
    for m in largest.ravel():
        m = F32(m)
        if rule == "up":
            quotient = m / LARGEST[code]
            mantissa, exponent = numpy.frexp(numpy.float64(quotient))
            # mantissa in [0.5, 1): 2^(exponent - 1) is the power of two itself
            ceiling = exponent - 1 if mantissa == 0.5 else exponent
            found.append(0 if quotient == 0 else max(0, min(254, ceiling + 127)))
            continue
        m = numpy.float64(m)
        if m == 0:
            found.append(0)
            continue
        mantissa, exponent = numpy.frexp(m)
        if rule == "even" and m >= 2.0**-126:
            # halves of the last place of the code go up
            steps = numpy.floor(mantissa * 2 * 2 ** MANTISSA[code] + 0.5)
            if steps == 2 * 2 ** MANTISSA[code]:
                exponent += 1
        found.append(max(0, exponent - 1 + 127 - EXPONENT[code]))
    return numpy.array(found, dtype=numpy.int64).reshape(largest.shape)


def mx(x, code, rule):
    groups = x.reshape(-1, 32)
    biased = exponents(numpy.abs(groups).max(axis=1), code, rule)
    scale = power(biased)[:, None]
    codes = convert((groups.astype(numpy.float64) / scale).astype(F32), code)
    if rule == "even":
        codes = numpy.where((biased == 0)[:, None], groups * F32(0), codes.astype(F32)).astype(code)
    values = (codes.astype(numpy.float64) * scale).astype(F32)
    return biased.astype(numpy.uint8), codes, values


def nvfp4(x, factor):
    groups = x.reshape(-1, 16)
    one = F32(1)
    g = one / F32(factor)
    largest = numpy.abs(groups).max(axis=1)
    scale = convert(g * (largest * (one / F32(6))), E4M3)
    wide = scale.astype(F32)
    with numpy.errstate(divide="ignore"):
        by = numpy.where(wide == 0, F32(0), one / (wide * (one / g))).astype(F32)
    codes = convert(groups * by[:, None], E2M1)
    values = codes.astype(F32) * wide[:, None] * F32(factor)
    return scale.view(numpy.uint8), codes, values


def tiles(x, size, rule):
    groups = x.reshape(-1, size)
    least = numpy.finfo(F32).tiny
    scale = numpy.maximum(numpy.abs(groups).max(axis=1) / F32(448), least)
    if rule == "e8m0":
        # of DeepSeek-V4: the least magnitude is 1e-4
        scale = numpy.maximum(numpy.abs(groups).max(axis=1), F32(1e-4)) / F32(448)
    if rule != "quotient":
        mantissa, exponent = numpy.frexp(scale)
        exponent = numpy.where(mantissa == 0.5, exponent - 1, exponent)
        scale = numpy.ldexp(F32(1), exponent)
    codes = convert(groups / scale[:, None], E4M3)
    values = codes.astype(F32) * scale[:, None]
    if rule == "e8m0":
        scale = (exponent + 127).astype(numpy.uint8)
    return scale, codes, values


def packed(codes):
    bits = codes.view(numpy.uint8)
    if codes.dtype != E2M1:
        return bits
    bits = bits.ravel()
    return bits[0::2] | bits[1::2] << 4


def line(key, numbers):
    numbers = numpy.ascontiguousarray(numbers).ravel()
    words = numbers.view({1: numpy.uint8, 4: numpy.uint32}[numbers.itemsize])
    print(key, *(f"{word:0{2 * words.itemsize}x}" for word in words))


def main():
    print("# by micro.py: NumPy and ml_dtypes. Codes of E2M1 in pairs, the even channel in the low half of a byte")
    print("rows", ROWS)
    print("channels", CHANNELS)
    for element, convert_to in (("f32", F32), ("bf16", ml_dtypes.bfloat16)):
        narrow = rows().astype(convert_to)
        x = narrow.astype(F32)
        # bf16 rounds the largest numbers to infinity
        x[~numpy.isfinite(x)] = 1
        narrow = x.astype(convert_to)
        if element == "f32":
            line("x_f32", narrow)
        else:
            print("x_bf16", *(f"{word:04x}" for word in narrow.view(numpy.uint16).ravel()))
        made = {}
        for rule in ("floor", "even", "up"):
            made[f"mxfp4_{rule}"] = mx(x, E2M1, rule)
            made[f"mxfp8_{rule}"] = mx(x, E4M3, rule)
        for index, factor in enumerate((0.0625, 0.11)):
            made[f"nvfp4_{index}"] = nvfp4(x, factor)
            line(f"nvfp4_factor_{element}_{index}", numpy.array([factor], dtype=F32))
        for size in (64, 128)[1 if element == "bf16" else 0 :]:
            for rule in ("quotient", "power_of_two"):
                made[f"e4m3_in_{size}_{rule}"] = tiles(x, size, rule)
        made["e4m3_in_64_e8m0"] = tiles(x, 64, "e8m0")
        for key, (scale, codes, values) in made.items():
            line(f"{key}_scale_{element}", scale)
            line(f"{key}_codes_{element}", packed(codes))
            if element == "f32":
                line(f"{key}_dequant_f32", values)


main()
