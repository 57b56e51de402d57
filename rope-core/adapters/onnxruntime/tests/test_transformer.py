"""A small Llama end to end: logits of a prompt and of tokens after it, with the library and without."""

import itertools
import unittest

import numpy as np

from common import VERSION, Case, session
from rope_onnxruntime.rewrite import rewrite
from test_embedding import HAS_STANDARD
from test_rewrite import HAS_ATTENTION
from transformer import LAYERS, VOCABULARY, Llama


def logits(llama, model, tokens, start, prompt, **options):
    """The prompt, then one token after another, with the cache of the step before."""
    made = session(model.SerializeToString(), **options)
    caches, steps = llama.caches(len(tokens)), []
    for begin, end in [(0, prompt), *((at, at + 1) for at in range(prompt, tokens.shape[1]))]:
        y, *caches = made.run(None, llama.feeds(tokens[:, begin:end], start + begin, caches))
        steps.append(y)
    return np.concatenate(steps, 1)


class Transformer(Case):
    def test_logits(self):
        rotations = ["contributed"] + ["standard"] * HAS_STANDARD + ["inside"] * HAS_ATTENTION
        for rotation, interleaved, kind in itertools.product(rotations, (False, True), (np.float32, np.float16)):
            if kind == np.float16 and VERSION < (1, 30):
                # Its operators have no kernels of f16.
                continue
            llama = Llama(self.rng, rotation, kind, interleaved)
            # Attention that rotates inside has positions from 0.
            start = 0 if rotation == "inside" else 3000
            tokens = self.rng.integers(0, VOCABULARY, (2, 40))
            exact = llama.logits(tokens, start)
            # Three times the error of ONNX Runtime's own kernels: 2^-20.5 and 2^-11.
            bound = {np.float32: 2.0**-19, np.float16: 2.0**-9}[kind] * np.abs(exact).max()
            model = llama.model
            built_in = logits(llama, model, tokens, start, 32, library=False)
            if rotation == "inside":
                report = rewrite(model)
                self.assertEqual((len(report.rewritten), report.left_alone), (LAYERS, []))
                self.assert_bits(logits(llama, model, tokens, start, 32, library=False), built_in, "rewritten")
            self.assertLessEqual(np.abs(built_in - exact).max(), bound)
            for threads in (1, 2):
                what = f"{rotation}, {interleaved}, {kind}, {threads} threads"
                ours = logits(llama, model, tokens, start, 32, threads=threads)
                self.assertLessEqual(np.abs(ours - exact).max(), bound, what)
                if VERSION < (1, 18) and threads == 1:
                    # Its kernel has no fused operations.
                    self.assert_bits(ours, built_in, what)


if __name__ == "__main__":
    unittest.main()
