"""How an operator rotates, as one integer; its bits are those of `src/plan.rs`."""

import itertools
from typing import Literal

# What an editor shows of the words.
Pairing = Literal["half", "interleaved"]
Direction = Literal["forward", "transpose", "inverse"]
Layout = Literal["bhsd", "bshd"]
Repeat = Literal["none", "halves", "pairs"]
Rounding = Literal["once", "eager"]

INPUT, OUTPUT, TRANSPOSE, INVERSE, TOKENS_MAJOR, HALVES, PAIRS, EAGER, OPEN = (1 << bit for bit in range(9))
# For the functions that take the place of transformers': the operator refuses what they would do otherwise.
STRICT, FULL, PROMOTED = (1 << bit for bit in range(9, 12))

_PAIRINGS = {"half": 0, "interleaved": INPUT}
_DIRECTIONS = {"forward": 0, "transpose": TRANSPOSE, "inverse": INVERSE}
_LAYOUTS = {"bhsd": 0, "bshd": TOKENS_MAJOR}
_REPEATS = {"none": 0, "halves": HALVES, "pairs": PAIRS}
_ROUNDINGS = {"once": 0, "eager": EAGER}


def choice(name, words, word):
    if not isinstance(word, (str, type(None))) or word not in words:
        raise ValueError(f"{name} is {word!r}; it must be one of {', '.join(words)}")
    return words[word]


def _made(pairing, direction, layout, repeat, rounding, output_pairing):
    output = choice("output_pairing", _PAIRINGS, pairing if output_pairing is None else output_pairing)
    return (
        choice("pairing", _PAIRINGS, pairing)
        | output << 1
        | choice("direction", _DIRECTIONS, direction)
        | choice("layout", _LAYOUTS, layout)
        | (OPEN if repeat is None else choice("repeat", _REPEATS, repeat))
        | choice("rounding", _ROUNDINGS, rounding)
    )


# To check six words takes as long as a small rotation.
_PLANS = {
    words: _made(*words)
    for words in itertools.product(_PAIRINGS, _DIRECTIONS, _LAYOUTS, (*_REPEATS, None), _ROUNDINGS, (*_PAIRINGS, None))
}


def plan(
    pairing: Pairing = "half", direction: Direction = "forward", layout: Layout = "bhsd",
    repeat: Repeat | None = None, rounding: Rounding = "once", output_pairing: Pairing | None = None,
) -> int:  # fmt: skip
    """The integer that the operators take for how they rotate.

    pairing: "half" pairs channels (i, i + rotary_dim / 2), "interleaved" (2i, 2i + 1); output_pairing: another one for
    the result, out of place. direction: "forward"; "inverse", which undoes it; "transpose", its gradient.
    layout: "bhsd" is [batch, heads, tokens, head_dim], "bshd" [batch, tokens, heads, head_dim]; both also without batch.
    repeat: a row of cos has each value once ("none"), twice as cat((freqs, freqs), -1) ("halves"), or twice as
    repeat_interleave(2, -1) ("pairs"); None is "none", and refuses rows that have each value twice.
    rounding: 16-bit results are rounded "once", or after each operation as "eager" PyTorch does.
    """
    words = pairing, direction, layout, repeat, rounding, output_pairing
    try:
        bits = _PLANS.get(words)
    except TypeError:  # A word is a list, say.
        bits = None
    return _made(*words) if bits is None else bits


def transposed(bits):
    """The plan of the gradient of a rotation: the other way round, from its output pairing to its input pairing."""
    turned = bits & (TRANSPOSE | INVERSE)
    swapped = bits & ~(INPUT | OUTPUT | TRANSPOSE | INVERSE)
    return swapped | (bits & INPUT) << 1 | (bits & OUTPUT) >> 1 | (0 if turned else TRANSPOSE)
