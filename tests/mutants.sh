#!/usr/bin/env bash
# Changes rope-core and rope-models at random places, one at a time, and fails if the suites, the unit tests and the
# calls of the C API pass with a change that is not in mutants/equivalent.txt. All changes are compiled into one copy of
# the tree and chosen at run time. MUTANTS=200 is how many, and with 0 only the list is looked at; ROPE_SEED=.. is which
# ones; ONLY="walk.rs:454 .." runs those of the sample again. In debug builds of the dependents, as the tests are.
set -euo pipefail
cd "$(dirname "$0")/.."

# A mutant may allocate without end.
ulimit -v 12000000
CARGO_TARGET_DIR=target/mutants/tool exec cargo run --quiet --manifest-path tests/mutants/Cargo.toml
