#!/usr/bin/env bash
# rope-core as a registry has it: packaged, unpacked away from the workspace, with its unit tests, examples and
# documentation built and run. What is not in the package is not missed: no test reads the golden data of the workspace.
#
#   packaged.sh          the check
#   packaged.sh list     what the package has
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

cargo package --quiet -p rope-core --allow-dirty --list >"$work/list"
if [[ ${1:-} == list ]]; then
    cat "$work/list"
    exit
fi
own='README\.md|LICENSE-(MIT|APACHE)|Cargo\.(toml|toml\.orig|lock)|\.cargo_vcs_info\.json'
others=$(grep -vE "^((src|examples)/.*|$own)\$" "$work/list" || true)
[[ -z $others ]] || fail "the package has also" $others
for file in README.md LICENSE-MIT LICENSE-APACHE; do
    grep -qx "$file" "$work/list" || fail "the package has no $file"
done
tests/unpacked.sh . rope-core "$work/unpacked"
archive=$(ls "$CARGO_TARGET_DIR"/package/rope-core-*.crate)
cd "$work/unpacked"

# The versions are those that the package has locked.
cargo test --locked --all-features >"$work/log" 2>&1 || {
    tail -n 50 "$work/log"
    fail "see $work/log"
}
passed=$(awk '/^test result: ok\./ { sum += $4 } END { print sum + 0 }' "$work/log")
[[ $passed -gt 0 ]] || fail "no test ran"
echo "packaged: $(wc -l <"$work/list") files, $(($(wc -c <"$archive") / 1000)) KB, $passed tests passed"
