#!/usr/bin/env bash
# Changes every field of every row of the tables of models, one at a time, and demands that a case of the row's type
# fails: what no case would miss may be wrong unseen.
#   tests/model_mutants.sh                   both tables
#   tests/model_mutants.sh types llama qwen  rows of types/rows.rs whose names begin so
#   tests/model_mutants.sh architectures     the GGUF architectures alone
# Prints killed / total and each survivor. model_mutants.txt lists those that change nothing a case could see, with the
# reasons; what survives and is not there, or is there and does not survive, is a failure. How: model_mutants.py.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 tests/model_mutants.py "$@"
