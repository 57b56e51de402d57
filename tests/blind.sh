#!/usr/bin/env bash
# Flips one bit of every class of golden value and demands that a test fails: what no test would miss is no reference.
#   tests/blind.sh               all of them but logits/, which only the models of candle read
#   tests/blind.sh norm shift    the files whose names begin so
#   tests/blind.sh logits/       those of candle, which is built
# blind.txt has what is information only, with reasons; what is seen and listed, or neither, is a failure. Which value
# of a class it is depends on ROPE_SEED.
set -euo pipefail
cd "$(dirname "$0")/.."
# The program that a test target is, built.
program() {
    cargo test --no-run --message-format=json "$@" 2>/dev/null |
        python3 -c '
import json, sys
found = [m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable") and m["profile"]["test"]]
assert len(found) == 1, found
print(found[0])'
}
# Of the whole workspace, as it is built.
programs=("suites=$(program --workspace --test suites)")
wants() {
    local prefix
    if [[ $# == 1 ]]; then return 0; fi
    for prefix in "${@:2}"; do
        if [[ $1 == "$prefix"* || $prefix == "$1"* ]]; then return 0; fi
    done
    return 1
}
if wants phases_u128.txt "$@"; then programs+=("core=$(program -p rope-core --lib)"); fi
if [[ $# != 0 ]] && wants logits/ "$@"; then
    programs+=("candle=$(program --manifest-path rope-core/candle/models/Cargo.toml --test golden)")
fi
python3 tests/blind.py "${programs[@]}" "$@"
