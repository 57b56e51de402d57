"""Runs the tests of rope_kernels: all of this directory, or the modules that are named.

`ROPE_SEED` is the seed of all random choices, which a failure can be repeated with.
"""

import sys
import unittest

import torch

import rope_kernels
from support import SEED

MODULES = sys.argv[1:] or [
    "rotations", "refusals", "gradients", "derivatives", "compiled", "operators", "cached", "plugin", "models", "distributed",
]

if __name__ == "__main__":
    print(f"seed {SEED}, torch {torch.__version__}, {rope_kernels.__file__}")
    suite = unittest.defaultTestLoader.loadTestsFromNames(MODULES)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful() or result.testsRun == 0 or result.skipped:
        raise SystemExit(1)
    print(f"test result: ok. {result.testsRun} passed; torch {torch.__version__}")
