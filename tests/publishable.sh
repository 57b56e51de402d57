#!/usr/bin/env bash
# What `cargo publish` would upload, packaged and checked as whoever downloads it compiles it: rope-core, rope-models,
# and the adapters for frameworks. These depend on a rope-core of the registry; until it has this one, the one that lies
# here takes its place, and so does rope-models.
#
#   publishable.sh                  rope-core, rope-models and all adapters
#   publishable.sh candle ..        those adapters
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_INCREMENTAL=0
target=${CARGO_TARGET_DIR:-}
cd "$root"

# publishable DIRECTORY CRATE [OPTION ..]: a check finds what is missing in the package as well as a build would. Of all
# targets: thus the dependencies have the features with which an adapter's script has checked them.
publishable() {
    local directory=$root/$1 crate=$2
    shift 2
    export CARGO_TARGET_DIR=${target:-$directory/target}
    local unpacked=$CARGO_TARGET_DIR/publishable/$crate
    tests/unpacked.sh "$directory" "$crate" "$unpacked" "$@"
    (cd "$unpacked" && cargo "${how[@]}" --quiet --locked --all-targets "$@")
    echo "publishable: $crate"
}

core=(--config "patch.crates-io.rope-core.path='$root/rope-core'")
models=(--config "patch.crates-io.rope-models.path='$root/rope-core/models'")
how=(check)
adapters=("$@")
if [[ $# == 0 ]]; then
    publishable . rope-core
    publishable . rope-models "${core[@]}"
    for adapter in candle burn; do
        if [[ -f rope-core/adapters/$adapter/Cargo.toml ]]; then adapters+=("$adapter"); fi
    done
fi
for adapter in "${adapters[@]}"; do
    # With all features, and of burn a build, as its script has it: else much of a framework would be looked at anew.
    if [[ $adapter == burn ]]; then how=(test --no-run); else how=(check); fi
    publishable "rope-core/adapters/$adapter" "rope-$adapter" --all-features "${core[@]}" "${models[@]}"
done
