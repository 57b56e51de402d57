#!/usr/bin/env bash
# rope-core and rope-models as a registry has them: packaged, unpacked away from the workspace, with their unit tests,
# examples and documentation built and run. What is not in a package is not missed: no test reads the golden data of the
# workspace.
#
#   packaged.sh          the check
#   packaged.sh list     what the packages have
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=${CARGO_TARGET_DIR:-$root/target}/packaged
export CARGO_TARGET_DIR=$work/target
# Nobody looks at it in a debugger.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
mkdir -p "$work"
cd "$root"

fail() {
    echo "packaged: FAILED: $*"
    exit 1
}

own='README\.md|LICENSE-(MIT|APACHE)|Cargo\.(toml|toml\.orig|lock)|\.cargo_vcs_info\.json'

# packaged CRATE [OPTION ..]
packaged() {
    local crate=$1 list=$work/$1.list log=$work/$1.log
    shift
    cargo package --quiet -p "$crate" --allow-dirty --list "$@" >"$list"
    if [[ $what == list ]]; then
        sed "s|^|$crate: |" "$list"
        return
    fi
    local others file archive passed
    others=$(grep -vE "^((src|examples)/.*|$own)\$" "$list" || true)
    [[ -z $others ]] || fail "the package of $crate has also" $others
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        grep -qx "$file" "$list" || fail "the package of $crate has no $file"
    done
    tests/unpacked.sh . "$crate" "$work/unpacked/$crate" "$@"
    # All files of a package have one age, by which cargo would take a build of another version for this one's.
    find "$work/unpacked/$crate" -name '*.rs' -exec touch {} +
    archive=$(ls "$CARGO_TARGET_DIR/package/$crate"-*.crate)
    # The versions are those that the package has locked.
    (cd "$work/unpacked/$crate" && cargo test --locked --all-features "$@") >"$log" 2>&1 || {
        tail -n 50 "$log"
        fail "see $log"
    }
    passed=$(awk '/^test result: ok\./ { sum += $4 } END { print sum + 0 }' "$log")
    [[ $passed -gt 0 ]] || fail "no test of $crate ran"
    echo "packaged: $crate: $(wc -l <"$list") files, $(($(wc -c <"$archive") / 1000)) KB, $passed tests passed"
}

what=${1:-}
packaged rope-core
# Until the registry has a rope-core, this one takes its place.
packaged rope-models --config "patch.crates-io.rope-core.path='$root/rope-core'"
