#!/usr/bin/env bash
# What `cargo publish` would upload, packaged and checked as whoever downloads it compiles it: rope-core, rope-models,
# and the adapters for frameworks. These depend on a rope-core of the registry; until it has this one, the one that lies
# here takes its place, and so does rope-models.
#
#   publishable.sh                  rope-core, rope-models and all adapters
#   publishable.sh core candle ..   those
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
crates=("$@")
if [[ $# == 0 ]]; then crates=(core models candle burn); fi
for crate in "${crates[@]}"; do
    how=(check)
    case $crate in
    core) publishable . rope-core ;;
    models) publishable . rope-models "${core[@]}" ;;
    *)
        # With all features, and of burn a build, as its script has it: else much of a framework would be looked at
        # anew.
        if [[ $crate == burn ]]; then how=(test --no-run); fi
        publishable "rope-core/adapters/$crate" "rope-$crate" --all-features "${core[@]}" "${models[@]}"
        ;;
    esac
done
