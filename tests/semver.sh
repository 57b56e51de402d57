#!/usr/bin/env bash
# cargo-semver-checks of rope-core and rope-models: what the last release promised still holds, or the version says that
# it does not. The last release is the newest tag v* before HEAD.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
# The tag of a release that is being made is of HEAD itself.
last=$(git tag --list 'v*' --merged HEAD --no-contains HEAD --sort=-v:refname | sed -n 1p)
if [[ -z $last ]]; then
    echo "semver: $version is the first release: there is none to compare with"
    exit
fi
if ! cargo semver-checks --version >/dev/null 2>&1; then
    cargo install --quiet --debug --locked cargo-semver-checks || {
        echo "semver: cannot be had here: cargo install cargo-semver-checks"
        exit 77
    }
fi
cargo semver-checks --baseline-rev "$last" -p rope-core -p rope-models
echo "semver: $version follows $last"
