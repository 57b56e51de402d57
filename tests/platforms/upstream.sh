#!/usr/bin/env bash
# The patches in `adapters/*/upstream`: each fits the sources that it states, as the registry has them, and its tests
# and the upstream's pass.
#
#   upstream.sh                     candle-nn, burn-nn and ggml
#   upstream.sh time [candle ..]    measures each before and after, too
source "$(dirname "$0")/common.sh"

adapters=$root/rope-core/adapters
export CARGO_PROFILE_DEV_DEBUG=0

# sources ADAPTER CRATE: copies what the registry has of a crate that the adapter's Cargo.lock locks to $package. Its
# Cargo.toml is that of the repository; `normalized.toml` beside it is the registry's, which builds alone.
sources() {
    local directory
    (cd "$adapters/$1" && cargo fetch -q --locked)
    directory=$(cd "$adapters/$1" && cargo metadata -q --locked --format-version 1 |
        python3 -c 'import json, pathlib, sys
name = sys.argv[1]
packages = [p for p in json.load(sys.stdin)["packages"] if p["name"] == name and p["source"]]
print(pathlib.Path(packages[0]["manifest_path"]).parent)' "$2")
    package=$temporary/$2
    rm -rf "$package"
    mkdir -p "$package"
    cp -r "$directory/." "$package"
    mv "$package/Cargo.toml" "$package/normalized.toml"
    mv "$package/Cargo.toml.orig" "$package/Cargo.toml"
}

# apply PATCH DEPTH: applies it to $package, which lies DEPTH - 1 folders deep in the upstream's repository. The commit
# is the one that the patch states, if it states one.
apply() {
    local patch=$1 stated
    stated=$(sed -n 's/^Base-commit: //p' "$patch")
    if [[ -n $stated && -f $package/.cargo_vcs_info.json ]]; then
        grep -q "\"sha1\": \"$stated\"" "$package/.cargo_vcs_info.json" || fail "$patch: its commit is not the registry's"
    fi
    # Not within the repository around it, of which the folder is no part.
    (cd "$package" && GIT_CEILING_DIRECTORIES=$(dirname "$package") git apply -p"$2" "$patch") ||
        fail "$patch does not apply"
}

# manifest FEATURES: makes the patched package one that builds alone, with rope-core of this repository.
manifest() {
    python3 - "$package" "$root" "$1" <<'END'
import pathlib, sys

package, root, features = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
# What the patch adds to the manifest, with the registry's in place of a workspace's.
added = [line for line in (package / "Cargo.toml").read_text().splitlines() if "rope-core" in line]
assert len(added) == 2, added
text = (package / "normalized.toml").read_text()
text = text.replace("[features]\n", '[features]\nrope-core = ["dep:rope-core"]\n', 1)
text += f'\n[dependencies.rope-core]\npath = "{root}/rope-core"\noptional = true\nfeatures = [{features}]\n\n[workspace]\n'
for kind in ("tests", "examples"):
    for file in sorted((package / kind).glob("rope*.rs")):
        if f'path = "{kind}/{file.name}"' not in text:
            text += f'\n[[{kind[:-1]}]]\nname = "{file.stem}"\npath = "{kind}/{file.name}"\n'
(package / "Cargo.toml").write_text(text)
END
}

candle() {
    step "candle-nn"
    sources candle candle-nn
    apply "$adapters/candle/upstream/candle-nn.patch" 2
    cp "$adapters/candle/Cargo.lock" "$package"
    install -D -t "$package/examples" "$adapters/candle/upstream/rope_time.rs"
    manifest '"rayon"'
    # The test that candle has of its rotations, and that of the patch.
    (cd "$package" && tests cargo test -q --release --features rope-core --test rope_core &&
        tests cargo test -q --release --features rope-core --test ops rope)
    if [[ -n $time ]]; then
        for features in "" rope-core; do
            (cd "$package" && cargo build -q --release --features "$features" --example rope_time &&
                RAYON_NUM_THREADS=1 "$CARGO_TARGET_DIR/release/examples/rope_time")
        done
    fi
}

burn() {
    step "burn-nn"
    sources burn burn-nn
    apply "$adapters/burn/upstream/burn-nn.patch" 3
    cp "$adapters/burn/Cargo.lock" "$package"
    install -D -t "$package/examples" "$adapters/burn/upstream/rope_time.rs"
    manifest '"alloc"'
    # The module's tests, and that of the patch, on Flex. The framework is that of the job `burn`.
    export CARGO_PROFILE_DEV_LTO=off
    (cd "$package" && CARGO_TARGET_DIR=$frameworks tests cargo test -q --features rope-core,burn-core/flex --lib rope)
    if [[ -n $time ]]; then
        for features in "" ,rope-core; do
            (cd "$package" && cargo build -q --release --features "burn-core/flex$features" --example rope_time &&
                "$CARGO_TARGET_DIR/release/examples/rope_time")
        done
    fi
}

ggml() {
    local with built
    step "ggml"
    packages cmake g++
    sources ggml llama-cpp-sys-2
    package+=/llama.cpp
    apply "$adapters/ggml/upstream/ggml.patch" 1
    # A project around it, as llama.cpp is.
    cat >"$package/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.14)
project(rope C CXX)
add_subdirectory(ggml)
add_executable(rope "$adapters/ggml/upstream/rope.cpp")
target_link_libraries(rope PRIVATE ggml)
END
    tests rope-core/capi/install.sh "$temporary/rope"
    for with in ${time:+OFF} ON; do
        built=$temporary/ggml-$with
        cmake -S "$package" -B "$built" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF \
            -DCMAKE_PREFIX_PATH="$temporary/rope" -DGGML_CPU_ROPE_LIB=$with >>"$log" 2>&1 || fail "cmake: see $log"
        cmake --build "$built" --target rope --parallel "$(nproc)" >>"$log" 2>&1 || fail "no build of ggml: see $log"
        if [[ -n $time ]]; then
            echo "GGML_CPU_ROPE_LIB=$with"
            "$built/rope" time
        fi
    done
    # Every operator against double precision.
    tests "$built/rope" exact
}

time=
if [[ ${1:-} == time ]]; then
    time=1
    shift
fi
patches=("$@")
if [[ $# == 0 ]]; then patches=(candle burn ggml); fi
for patch in "${patches[@]}"; do "$patch"; done
passed
