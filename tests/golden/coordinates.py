"""Writes coordinates.txt: rows of real-valued coordinates, from their definition in 400 bits. Needs mpmath."""

import struct

from mpmath import cos, floor, log, mp, mpf, pi, sin

mp.prec = 400

f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
ladder = lambda d, b: [mpf(b) ** (-mpf(2 * i) / d) for i in range(d // 2)]

# Patch centres of DINOv3, rows and columns of a 14 x 11 image; single precision is what its code computes in.
patches = [(y, x) for y in (0, 1, 6, 13) for x in (0, 3, 5, 10)]
centres = [(2 * ((y + 0.5) / 14) - 1, 2 * ((x + 0.5) / 11) - 1) for y, x in patches]
periods = [2 * pi * w for w in ladder(32, 100)]

seconds = [0.0, -0.0, 0.02, 1 / 3, -0.5, 59.94, -86399.999, 1.7e9 + 0.123, 2.0**32 - 2.0**-20, 1e-7, 2.0**-41, 1e-30]
seconds += [1e-38, -3e-42, 5e-324, 2.0**52 + 0.5, 1e15 / 3, 2.0**60]
# Some turn the other way, some by several turns a unit.
mixed = [200000.0, -200000.0, f32(6.2831853), -6.5, -40.0, 0.1, -1e-5, 0.0, 1e-9, 1e-25]
points = [(0.5, -0.25, 3.0), (1e-3, 7.75, -1 / 3), (123456.789, -0.001, 2.0**33 + 0.5), (-1e9, 1e-12, 0.0)]

cases = {
    # name: inverse frequencies, the axis of each, coordinates of each token
    "dinov3": (periods * 2, [0] * 16 + [1] * 16, centres),
    "dinov3_f32": (periods * 2, [0] * 16 + [1] * 16, [(f32(y), f32(x)) for y, x in centres]),
    "seconds": (ladder(64, 1e4), [0] * 32, [(t,) for t in seconds]),
    "mixed": ([mpf(w) for w in mixed], [i % 3 for i in range(10)], points),
}


def nearest(x):
    """The bits of the f32 nearest to x; +0 for 0."""
    if x == 0:
        return 0
    exponent = max(int(floor(log(abs(x), 2))) - 23, -149)
    scaled = abs(x) / mpf(2) ** exponent
    below = int(floor(scaled))
    rest = scaled - below
    below += rest > 0.5 or (rest == 0.5 and below % 2 == 1)
    bits = struct.unpack(">I", struct.pack(">f", float(below * mpf(2) ** exponent)))[0]
    return bits | (x < 0) << 31


out = open(__file__.replace(".py", ".txt"), "w")
print("# Rows of real-valued coordinates; made by coordinates.py with mpmath, 400 bits.", file=out)
print("# NAME.inverse: f64 of the inverse frequencies. NAME.coordinates: f64, token by token, axis by axis.", file=out)
print("# NAME.cos, NAME.sin: f32 of cos and sin of the exact angles, correctly rounded, token by token, pair by pair.", file=out)
for name, (inverse, axes, tokens) in cases.items():
    angles = [[w * mpf(at[axis]) for w, axis in zip(inverse, axes)] for at in tokens]
    print(f"{name}.inverse", *(struct.pack(">d", float(w)).hex() for w in inverse), file=out)
    print(f"{name}.coordinates", *(struct.pack(">d", x).hex() for at in tokens for x in at), file=out)
    for key, function in ("cos", cos), ("sin", sin):
        print(f"{name}.{key}", *(f"{nearest(function(a)):08x}" for row in angles for a in row), file=out)
