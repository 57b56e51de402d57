#!/usr/bin/env bash
# Fails when include/rope.h is not what cbindgen makes of the crate; with --write it makes it so.
set -euo pipefail
cd "$(dirname "$0")"
version=0.29.4

if [[ $(cbindgen --version 2>/dev/null) != "cbindgen $version" ]]; then
    # It runs for a second: optimizing it takes longer.
    cargo install --quiet --debug --locked "cbindgen@$version"
fi
verify=--verify
if [[ ${1:-} == --write ]]; then verify=; fi
# From the workspace's root, which is two directories up.
cd ../..
if ! cbindgen --quiet $verify --config rope-core/capi/cbindgen.toml --crate rope-capi \
    --output rope-core/capi/include/rope.h .; then
    echo "include/rope.h is stale: run rope-core/capi/check-header.sh --write" >&2
    exit 1
fi
echo "include/rope.h is what the crate says"
