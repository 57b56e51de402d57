#!/usr/bin/env bash
# unpacked.sh DIRECTORY CRATE INTO [OPTION ..]: what `cargo publish` would upload of the crate in that directory,
# unpacked as a package of its own. The archive is in $CARGO_TARGET_DIR/package.
set -euo pipefail
directory=$1 crate=$2 into=$3
shift 3
cd "$directory"
# --allow-dirty: what is tested is what lies here. Cargo's own verification would build all that the crate depends on.
options=(--quiet --no-verify --allow-dirty -p "$crate" "$@")
cargo publish --dry-run "${options[@]}"
rm -f "$CARGO_TARGET_DIR/package/$crate"-*.crate
cargo package "${options[@]}"
rm -rf "$into"
mkdir -p "$into"
tar -xzf "$CARGO_TARGET_DIR/package/$crate"-*.crate -C "$into" --strip-components 1
# It may lie below a workspace, and is none of it.
printf '\n[workspace]\n' >>"$into/Cargo.toml"
