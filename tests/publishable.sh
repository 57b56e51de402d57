#!/usr/bin/env bash
# What `cargo publish` would upload, packaged and built as whoever downloads it builds it: rope-core, and its adapters
# for frameworks. These depend on a rope-core of the registry; until it has this one, the one that lies here takes its
# place.
#
#   publishable.sh                  rope-core and all adapters
#   publishable.sh candle ..        those adapters
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_INCREMENTAL=0
cd "$root"

# dry_run DIRECTORY CRATE [OPTION ..]. --allow-dirty: what is tested is what lies here.
dry_run() {
    local directory=$1 crate=$2
    shift 2
    (cd "$directory" && cargo publish --quiet --dry-run --allow-dirty -p "$crate" "$@")
    echo "publishable: $crate"
}

adapters=("$@")
if [[ $# == 0 ]]; then
    dry_run . rope-core
    for adapter in candle burn; do
        if [[ -f rope-core/$adapter/Cargo.toml ]]; then adapters+=("$adapter"); fi
    done
fi
for adapter in "${adapters[@]}"; do
    # With all features, as its script builds it: with others much of a framework would be built anew.
    dry_run "rope-core/$adapter" "rope-$adapter" --all-features --config "patch.crates-io.rope-core.path='$root/rope-core'"
done
