#!/usr/bin/env bash
# What `cargo publish` would upload, packaged and checked as whoever downloads it compiles it: rope-core, and its
# adapters for frameworks. These depend on a rope-core of the registry; until it has this one, the one that lies here
# takes its place.
#
#   publishable.sh                  rope-core and all adapters
#   publishable.sh candle ..        those adapters
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_INCREMENTAL=0
cd "$root"

# dry_run DIRECTORY CRATE [OPTION ..]. --allow-dirty: what is tested is what lies here. Cargo's own verification would
# build all that the crate depends on anew, where a check finds what is missing as well.
dry_run() {
    local directory=$1 crate=$2 target archive unpacked
    shift 2
    cd "$root/$directory"
    target=${CARGO_TARGET_DIR:-$PWD/target}
    cargo publish --quiet --dry-run --no-verify --allow-dirty -p "$crate" "$@"
    rm -f "$target/package/$crate"-*.crate
    cargo package --quiet --no-verify --allow-dirty -p "$crate" "$@"
    archive=$(ls "$target/package/$crate"-*.crate)
    unpacked=$target/publishable/$crate
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    tar -xzf "$archive" -C "$unpacked" --strip-components 1
    # It may lie below a workspace, and is none of it.
    printf '\n[workspace]\n' >>"$unpacked/Cargo.toml"
    cd "$unpacked"
    CARGO_TARGET_DIR=$target cargo check --quiet --locked "$@"
    echo "publishable: $crate"
}

adapters=("$@")
if [[ $# == 0 ]]; then
    dry_run . rope-core
    for adapter in candle burn; do
        if [[ -f $root/rope-core/$adapter/Cargo.toml ]]; then adapters+=("$adapter"); fi
    done
fi
for adapter in "${adapters[@]}"; do
    # With all features, as its script builds it: with others much of a framework would be looked at anew.
    dry_run "rope-core/$adapter" "rope-$adapter" --all-features --config "patch.crates-io.rope-core.path='$root/rope-core'"
done
