#!/usr/bin/env bash
# Builds the C face, compiles the examples with gcc and clang as C99, C11 and C++17, against the static and the shared
# library, with every warning an error, and runs them: plainly, under valgrind, and with AddressSanitizer. Then a library
# without std. Says what it could not run; fails if something that ran was wrong.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

missing=()
for tool in gcc g++ clang clang++ valgrind pkg-config; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if ((${#missing[@]})) && command -v apt-get >/dev/null; then
    apt-get install -y -qq --no-install-recommends gcc g++ clang libclang-rt-dev valgrind pkg-config >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc g++ clang libclang-rt-dev valgrind pkg-config >/dev/null 2>&1; } || true
fi

"$here/../install.sh" "$stage"
export PKG_CONFIG_PATH=$stage/lib/pkgconfig
export LD_LIBRARY_PATH=$stage/lib
warnings=(-Wall -Wextra -Werror -pedantic)
read -ra flags <<<"$(pkg-config --cflags rope)"
read -ra shared <<<"$(pkg-config --libs rope)"
read -ra private <<<"$(pkg-config --libs --static rope | sed "s|-L[^ ]*||; s|-lrope||")"
static=("$stage/lib/librope.a" "${private[@]}")

ran=0
# run NAME PROGRAM..: runs a program and counts it.
run() {
    local name=$1
    shift
    "$@" >"$stage/out" 2>&1 || { cat "$stage/out"; echo "failed: $name" >&2; exit 1; }
    ran=$((ran + 1))
    echo "$name: $(head -1 "$stage/out")"
}
# build OUTPUT COMPILER STANDARD SOURCE FLAGS..
build() {
    local output=$1 compiler=$2 standard=$3 source=$4
    shift 4
    "$compiler" "-std=$standard" "${warnings[@]}" -O1 -g "${flags[@]}" "$here/$source" -o "$output" "$@" -lm -pthread
}

for compilers in "gcc g++" "clang clang++"; do
    read -r c cpp <<<"$compilers"
    if ! command -v "$c" >/dev/null || ! command -v "$cpp" >/dev/null; then
        echo "not run: $c is not here"
        continue
    fi
    for case in "$c c99 rotate.c" "$c c11 rotate.c" "$cpp c++17 rotate.cpp"; do
        read -r compiler standard source <<<"$case"
        build "$stage/static" "$compiler" "$standard" "$source" "${static[@]}"
        run "$compiler $standard static" "$stage/static"
        build "$stage/shared" "$compiler" "$standard" "$source" "${shared[@]}"
        run "$compiler $standard shared" "$stage/shared"
        if command -v valgrind >/dev/null; then
            run "$compiler $standard valgrind" valgrind -q --leak-check=full --error-exitcode=9 "$stage/static"
        else
            echo "not run: valgrind is not here"
        fi
        build "$stage/asan" "$compiler" "$standard" "$source" "${static[@]}" -fsanitize=address,undefined -fno-sanitize-recover=all
        run "$compiler $standard address and undefined sanitizers" "$stage/asan"
    done
done

# The library instrumented as well, where the compiler lets it be: what it reads and writes is checked, not only the
# examples. rustc's sanitizers are unstable, and clang's runtime has to understand them.
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$here/../../../target}/asan
if command -v clang >/dev/null && (cd "$here/../../.." && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$target \
    cargo build --quiet --release -p rope-capi --target "$host" 2>"$stage/err"); then
    build "$stage/asan" clang c11 rotate.c "$target/$host/release/librope.a" "${private[@]}" -fsanitize=address
    run "clang c11 instrumented library" "$stage/asan"
    build "$stage/asan" clang++ c++17 rotate.cpp "$target/$host/release/librope.a" "${private[@]}" -fsanitize=address
    run "clang++ c++17 instrumented library" "$stage/asan"
else
    echo "not run: the instrumented library ($(tail -1 "$stage/err" 2>/dev/null))"
fi

# Without std and without an allocator, as firmware has it.
target=${CARGO_TARGET_DIR:-$here/../../../target}/no-std
(cd "$here/../../.." && CARGO_TARGET_DIR=$target cargo rustc --quiet --release -p rope-capi --crate-type staticlib \
    --no-default-features --features panic-handler)
build "$stage/bare" gcc c99 rotate.c -DROPE_NO_STD "$target/release/librope.a"
run "gcc c99 without std" "$stage/bare"

echo "C examples: $ran runs passed"
