"""The common model tests of transformers' source distribution, on six types of models, with our kernels and without.

    python tests/common_models.py DIRECTORY          # of the unpacked source distribution

Every test has the same outcome both times. The distribution has no tests of single models and not all modules that its
common ones import: models are made here, of the classes that are installed, and two empty mixins take their places.
"""

import collections
import os
import pathlib
import sys
import types
import unittest

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

import torch  # noqa: E402
import transformers  # noqa: E402

import rope_kernels.transformers  # noqa: E402
from rope_kernels import _formulas  # noqa: E402

SOURCES = pathlib.Path(sys.argv[1])
TEXT = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=37, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
TYPES = {
    "Llama": TEXT,
    "Qwen3": dict(TEXT, head_dim=8),
    "Phi3": dict(TEXT, partial_rotary_factor=0.5),
    "Cohere": TEXT,
    "GPTNeoX": {"rotary_pct": 0.5} | {key: value for key, value in TEXT.items() if key != "num_key_value_heads"},
    "Nemotron": TEXT,
}


def common_tests():
    package = types.ModuleType("tests")
    package.__path__ = [str(SOURCES / "tests")]
    sys.modules["tests"] = package
    missing_mixins = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}
    for module, mixin in missing_mixins.items():
        folder = types.ModuleType(f"tests.{module.split('.')[0]}")
        folder.__path__ = []
        missing = types.ModuleType(f"tests.{module}")
        setattr(missing, mixin, type(mixin, (), {}))
        sys.modules |= {folder.__name__: folder, missing.__name__: missing}
    from tests.test_modeling_common import ModelTesterMixin

    return ModelTesterMixin, sys.modules["tests.generation.test_utils"].GenerationTesterMixin


class Tester:
    """What the common tests ask a model's own tests for."""

    batch_size, seq_length, is_training = 2, 7, True
    num_hidden_layers, num_attention_heads, hidden_size, vocab_size = 2, 4, 32, 99

    def __init__(self, test, name):
        self.config_class, self.how = getattr(transformers, f"{name}Config"), TYPES[name]

    def get_config(self):
        return self.config_class(**self.how)

    def prepare_config_and_inputs_for_common(self):
        ids = torch.randint(3, 99, (self.batch_size, self.seq_length))
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def case(name, mixins):
    classes = [getattr(transformers, name + ending) for ending in ("Model", "ForCausalLM")]

    def setup(test):
        torch.manual_seed(0)
        test.model_tester = Tester(test, name)

    return type(f"{name}Test", (*mixins, unittest.TestCase), {"all_model_classes": tuple(classes), "setUp": setup})


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.all = {}

    def addSuccess(self, test):
        self.all[test.id()] = "passed"

    def addFailure(self, test, error):
        self.all[test.id()] = f"failed: {error[0].__name__}"

    def addError(self, test, error):
        self.all[test.id()] = f"failed: {error[0].__name__}"

    def addSkip(self, test, reason):
        self.all[test.id()] = "skipped"

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.all[subtest.id()] = f"failed: {error[0].__name__}"


def outcomes(cases):
    result = Outcomes()
    for each in cases:
        unittest.defaultTestLoader.loadTestsFromTestCase(each).run(result)
    return result


def main():
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    mixins = common_tests()
    cases = [case(name, mixins) for name in TYPES]
    without = outcomes(cases)
    # Each stays enabled, and with it all models of its module.
    models = [getattr(transformers, f"{name}Model")(Tester(None, name).get_config()) for name in TYPES]
    calls, rotated = 0, rope_kernels._gradients.rotated_qk

    def counted(*args):
        nonlocal calls
        calls += 1
        return rotated(*args)

    rope_kernels._gradients.rotated_qk = counted
    operator = _formulas._rotate_qk

    def counted_operator(*args):
        nonlocal calls
        calls += 1
        return operator(*args)

    _formulas._rotate_qk = counted_operator
    for model in models:
        rope_kernels.transformers.enable(model)
    ours = outcomes(cases)
    apart = {name: (without.all.get(name), outcome) for name, outcome in ours.all.items()
             if outcome != without.all.get(name)}
    for name, (before, outcome) in apart.items():
        print(f"{name}: {before} without, {outcome} with our kernels")
    count = collections.Counter(outcome.split(":")[0] for outcome in ours.all.values())
    print(f"{len(TYPES)} types of models: {dict(count)}, {calls} calls of the kernels")
    for name, outcome in ours.all.items():
        if outcome.startswith("failed"):
            print(f"{name}: {outcome}, as without our kernels")
    if apart or set(ours.all) != set(without.all) or count["passed"] < 50 * len(TYPES) or calls < 100 * len(TYPES):
        raise SystemExit(1)
    print(f"test result: ok. {count['passed']} passed; common tests of transformers")


main()
