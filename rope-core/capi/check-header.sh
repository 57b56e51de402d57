#!/usr/bin/env bash
# Fails when include/rope.h is not what cbindgen makes of the crate, grouped by task; with --write it makes it so.
set -euo pipefail
cd "$(dirname "$0")"
version=0.29.4

if [[ $(cbindgen --version 2>/dev/null) != "cbindgen $version" ]]; then
    # It runs for a second: optimizing it takes longer.
    cargo install --quiet --debug --locked "cbindgen@$version"
fi
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
# From the workspace's root, which is two directories up.
(cd ../.. && cbindgen --quiet --config rope-core/capi/cbindgen.toml --crate rope-capi --output "$made/cbindgen.h" .)
awk -f sections.awk sections.txt src/*.rs "$made/cbindgen.h" >"$made/rope.h"
first=$(grep -nm 1 '^rope_status rope_' "$made/rope.h" | cut -d: -f1)
if ((first > 200)); then
    echo "the first call of rope.h is on line $first: 200 lines are what a reader goes through" >&2
    exit 1
fi
if [[ ${1:-} == --write ]]; then cp "$made/rope.h" include/rope.h; fi
if ! diff -u include/rope.h "$made/rope.h" >&2; then
    echo "include/rope.h is stale: run rope-core/capi/check-header.sh --write" >&2
    exit 1
fi
echo "include/rope.h is what the crate says"
