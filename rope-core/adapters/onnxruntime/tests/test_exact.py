"""The domain `rope`: exact angles of positions, and a norm before the rotation."""

import itertools
import unittest

import numpy as np

from common import BF16, Case, feed, model, rotated, run, session

F = np.float32


def rows(positions, inverse, factor=1.0):
    """cos and sin in extended precision, in which the product of a position and an f32 is exact."""
    assert np.finfo(np.longdouble).nmant >= 63
    angles = np.asarray(positions).astype(np.longdouble)[..., None] * np.asarray(inverse).astype(np.longdouble)
    return (F(np.cos(angles) * factor), F(np.sin(angles) * factor))


def normed(x, weight, epsilon, formula):
    """As PyTorch's eager models: every operation rounded. The sums of squares of small integers are exact."""
    wide, w = x.astype(F), weight.astype(F)
    mean = (wide * wide).sum(-1, dtype=F, keepdims=True) / F(x.shape[-1])
    r = F(1) / np.sqrt(mean + F(epsilon))
    xr = wide * r
    return {
        "llama": lambda: (w * xr.astype(x.dtype).astype(F)).astype(x.dtype),
        "olmo2": lambda: (w * xr).astype(x.dtype),
        "gemma": lambda: (xr * (F(1) + w)).astype(x.dtype),
        # What the rotation takes is not rounded.
        "once": lambda: xr * w,
    }[formula]()


class Exact(Case):
    def case(self, rank, kind=np.float32, tokens=5):
        x = self.rng.integers(-8, 9, (2, tokens, 3, 16)).astype(kind)
        return x, lambda t: np.ascontiguousarray(t.transpose(0, 2, 1, 3)) if rank == 4 else t.reshape(2, tokens, 48)

    def test_positions_at_exact_angles(self):
        inverse = (10_000.0 ** -(np.arange(8) / 8)).astype(F)
        for kind, rank, interleaved, limit in itertools.product(
            (np.float32, np.float16, BF16), (3, 4), (False, True), (100, 1_000_000)
        ):
            x, laid_out = self.case(rank, kind)
            ids = self.rng.integers(-limit, limit, (2, 5))
            attributes = {"inverse_frequencies": inverse.tolist(), "interleaved": int(interleaved), "num_heads": 3}
            y = rotated(x, *rows(ids, inverse), interleaved)
            for threads in (1, 2):
                got = run("Rotate", "rope", {"x": laid_out(x), "ids": ids}, attributes, threads=threads)
                self.assert_bits(got, laid_out(y), f"{kind}, {rank}, {interleaved}, {limit}")

    def test_base_part_of_the_head_and_start(self):
        x, laid_out = self.case(4)
        inverse = np.longdouble(500_000) ** -(np.arange(4, dtype=np.longdouble) / 4)
        y = rotated(x, *rows(np.tile(np.arange(1000, 1005), (2, 1)), inverse, 2.0), False)
        attributes = {"base": 500_000.0, "rotary_embedding_dim": 8, "attention_factor": 2.0}
        got = run("Rotate", "rope", {"x": laid_out(x), "ids": np.array([1000])}, attributes)
        self.assert_bits(got, laid_out(y))

    def test_norm_before_the_rotation(self):
        inverse = (10_000.0 ** -(np.arange(8) / 8)).astype(F)
        for kind, formula, rank, tokens in itertools.product(
            (np.float32, BF16), ("llama", "olmo2", "gemma", "once"), (3, 4), (5, 3000)
        ):
            x, laid_out = self.case(rank, kind, tokens)
            weight = self.rng.uniform(0.5, 2, 16).astype(kind)
            ids = self.rng.integers(0, 9999, (2, tokens))
            attributes = {"inverse_frequencies": inverse.tolist(), "num_heads": 3, "formula": formula, "epsilon": 1e-5}
            y = rotated(normed(x, weight, 1e-5, formula), *rows(ids, inverse), False).astype(kind)
            for threads in (1, 2):
                inputs = {"x": laid_out(x), "ids": ids, "weight": weight}
                got = run("NormRotate", "rope", inputs, attributes, threads=threads)
                self.assert_bits(got, laid_out(y), f"{kind}, {formula}, {rank}, {tokens}")

    def test_refusals(self):
        x, laid_out = self.case(3)
        inputs = {"x": laid_out(x), "ids": np.zeros((2, 5), np.int64), "weight": np.ones(16, F)}
        right = {"rotary_embedding_dim": 16, "num_heads": 3}
        for changes, words in (
            ({"rotary_embedding_dim": 0}, "rotary_embedding_dim is 0"),
            ({"inverse_frequencies": [1.0], "base": 10.0}, "exclude each other"),
            ({"inverse_frequencies": [1.0]}, "has 1 value; rotary_embedding_dim (16) requires half as many"),
            ({"formula": "layer"}, "formula is 'layer'"),
            ({"epsilon": -1.0}, "epsilon is -1"),
            ({"base": 10}, "base has another type"),
            ({"base": -1.0}, "-1"),
            ({"attention_factor": 0.0}, "0"),
        ):
            with self.assertRaises(Exception) as raised:
                session(model("NormRotate", "rope", inputs, right | changes))
            self.assertIn("NormRotate node 'the node'", str(raised.exception))
            self.assertIn(words, str(raised.exception))
        for changes, words in (
            ({"ids": np.zeros((2, 4), np.int64)}, "it must be [2, 5] or [1]"),
            ({"ids": np.array([(1 << 63) - 2])}, "with 5 tokens it is beyond int64"),
            ({"weight": np.ones(8, F)}, "it must be [16]"),
            ({"x": np.ones((2, 5, 47), F)}, "multiple of num_heads (3)"),
        ):
            wrong = inputs | changes
            with self.assertRaises(Exception) as raised:
                session(model("NormRotate", "rope", wrong, right)).run(None, feed(wrong))
            self.assertIn("INVALID_ARGUMENT", str(raised.exception))
            self.assertIn(words, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
