#!/usr/bin/env bash
# The C API: its tests; its header; and the examples as programs that use what install.sh has installed, compiled by gcc
# and by clang as C99, C11 and C++17 with every warning an error. They run with the static and with the shared library,
# all static, under valgrind, with the sanitizers on both sides of the boundary, and without std; built by CMake, which
# finds the package; and by Cargo, with Rust in the same program.
source "$(dirname "$0")/common.sh"

packages gcc g++ clang libclang-rt-dev valgrind pkg-config cmake make
# Three builds of the kernels, and nothing is measured here; sizes.sh builds the library as it is installed.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
limit=1200
capi=rope-core/capi
prefix=$CARGO_TARGET_DIR/prefix
warnings=(-Wall -Wextra -Wconversion -Werror -pedantic)
valgrind=(valgrind -q --leak-check=full --error-exitcode=9)

# run COMMAND..: a run of an example is a test; in cargo's words, so that `passed` counts it.
runs=0
run() {
    tests "$@"
    echo "test result: ok. 1 passed: $*" >>"$log"
    runs=$((runs + 1))
}

step "the crate's tests, and Rust and C in one program"
tests "${built[@]}" test --workspace --test calls
# With a test, whose dependencies have more features: those that are built.
tests "${built[@]}" build --workspace --test calls --bin rope-mixed
run "$root/target/debug/rope-mixed"

step "the header"
tests "$capi/check-header.sh"

step "a status that is not looked at"
cat >"$CARGO_TARGET_DIR/ignored.c" <<'END'
#include <rope.h>
void ignored(const rope_plan *plan, const rope_operand *x, const rope_angles *rows, rope_table *table) {
    rope_rotate(plan, x, rows);
    rope_table_free(table);
}
END
for compiler in "gcc -std=c99" "gcc -std=c2x" "clang -std=c99" "clang -std=c2x" "g++ -xc++ -std=c++11" \
    "g++ -xc++ -std=c++17" "clang++ -xc++ -std=c++11" "clang++ -xc++ -std=c++17"; do
    read -ra command <<<"$compiler -Wall -Wextra -Wconversion -pedantic -I$capi/include -c -o /dev/null"
    "${command[@]}" "$CARGO_TARGET_DIR/ignored.c" 2>"$CARGO_TARGET_DIR/ignored" || fail "$compiler"
    found=$(grep -c 'warning: ' "$CARGO_TARGET_DIR/ignored" || true)
    [[ $found == 1 ]] || fail "$compiler: $found warnings instead of one"
    grep -q 'warning: ignoring return value' "$CARGO_TARGET_DIR/ignored" || fail "$compiler: another warning"
    tests "${command[@]}" -Werror -DROPE_NODISCARD= "$CARGO_TARGET_DIR/ignored.c"
done

step "the libraries"
grep -qF -- '--no-std' <("$capi/install.sh" --help) || fail "install.sh --help"
for wrong in --no_std -x ''; do
    refusal=$("$capi/install.sh" "$prefix/wrong" "$wrong" 2>&1) && fail "install.sh takes '$wrong'"
    grep -qE -- "unknown option ${wrong:---}|the prefix is empty" <<<"$refusal" || fail "'$wrong' is not named"
done
tests "$capi/install.sh" "$prefix/std"
tests "$capi/install.sh" "$prefix/no-std" --no-std
# What the library reads and writes is checked as well, not only the examples. A target is named so that build scripts
# are not instrumented.
tests env CARGO_BUILD_TARGET="$(rustc -vV | sed -n 's/^host: //p')" RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address \
    "$capi/install.sh" "$prefix/asan"

# compile LIBRARY LINKING [FLAGS..]: makes $program of $source, with the flags that pkg-config gives.
compile() {
    local library=$1 linking=$2 flags libraries
    shift 2
    export PKG_CONFIG_PATH=$prefix/$library/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --cflags rope)"
    case $linking in
    shared) libraries=$(pkg-config --libs rope)" -Wl,-rpath,$prefix/$library/lib" ;;
    static) libraries=$(pkg-config --libs --static rope | sed 's/-lrope/-l:librope.a/') ;;
    all-static) libraries="-static $(pkg-config --libs --static rope)" ;;
    esac
    read -ra libraries <<<"$libraries"
    program=$CARGO_TARGET_DIR/$compiler-$standard-$library-$linking
    # valgrind does not read DWARF 5.
    tests "$compiler" "-std=$standard" "${warnings[@]}" -O1 -gdwarf-4 "$@" "${flags[@]}" "$capi/examples/$source" \
        -o "$program" "${libraries[@]}" -lm -pthread
}

# shared PROGRAM: checks that it needs the shared library, by the name with the version that breaks.
shared() { grep -qF 'Shared library: [librope.so.0.1]' <(readelf -d "$1"); }

for case in "gcc c99 rotate.c" "gcc c11 rotate.c" "g++ c++17 rotate.cpp" "gcc c99 cache.c" "gcc c99 train.c" \
    "clang c99 rotate.c" "clang c11 rotate.c" "clang++ c++17 rotate.cpp" "clang c11 cache.c" "clang c11 train.c"; do
    read -r compiler standard source <<<"$case"
    step "$source, $compiler, $standard"

    compile std shared
    shared "$program"
    run "$program"

    compile std static
    if shared "$program"; then exit 1; fi
    run "$program"
    # What valgrind looks into is the library, which is the same for every compiler: each source once.
    if [[ $compiler == g* && $standard != c11 ]]; then run "${valgrind[@]}" "$program"; fi

    compile std all-static
    grep -q 'no dynamic section' <(readelf -d "$program")
    run "$program"

    compile asan static -fsanitize=address,undefined -fno-sanitize-recover=all
    run "$program"

    if [[ $source == *.c ]]; then
        compile no-std static
        run "$program"
    fi
done

step "the commands of the READMEs"
outside
for text in README.md rope-core/src/guide/c.md $capi/README.md; do
    # The library is where it has been installed above, which `install.sh` finds built.
    sed -n '/^```console$/,/^```$/s/^\$ //p' $text | grep -E '^(rope/.*install\.sh|cc |\./)' | sed "s|/usr/local|$prefix/std|" |
        grep -v -e --no-std >"$outside/commands"
    for command in install.sh 'cc '; do
        grep -qF "$command" "$outside/commands" || fail "$text has no command with $command"
    done
    (cd "$outside" && PKG_CONFIG_PATH=$prefix/std/lib/pkgconfig run bash -eux commands)
done

step "CMake"
# The package is found where it has been moved to.
moved=$CARGO_TARGET_DIR/moved
rm -rf "$moved" "$CARGO_TARGET_DIR"/cmake*
cp -a "$prefix/std" "$moved"
tests cmake -S "$capi/examples" -B "$CARGO_TARGET_DIR/cmake" -DCMAKE_PREFIX_PATH="$moved" \
    -DCMAKE_C_FLAGS="-std=c99 -O1 -gdwarf-4 ${warnings[*]}"
tests cmake --build "$CARGO_TARGET_DIR/cmake"
shared "$CARGO_TARGET_DIR/cmake/layer"
run "${valgrind[@]}" "$CARGO_TARGET_DIR/cmake/layer"
grep -q 'no dynamic section' <(readelf -d "$CARGO_TARGET_DIR/cmake/layer-static")
run "$CARGO_TARGET_DIR/cmake/layer-static"

# Without std there is one library, and the header has to know. Versions that may break programs are not found.
version=$(PKG_CONFIG_PATH=$prefix/std/lib/pkgconfig pkg-config --modversion rope)
cat >"$outside/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(rotate C)
foreach(wrong 0 0.0 0.99 1 99.0 ${version%.*}.99)
  find_package(rope \${wrong} QUIET)
  if(rope_FOUND)
    message(FATAL_ERROR "\${wrong} is found")
  endif()
endforeach()
find_package(rope $version EXACT REQUIRED)
find_package(rope ${version%.*} REQUIRED)
add_executable(rotate rope/$capi/examples/rotate.c)
target_link_libraries(rotate PRIVATE rope::rope m)
END
tests cmake -S "$outside" -B "$CARGO_TARGET_DIR/cmake-no-std" -DCMAKE_PREFIX_PATH="$prefix/no-std"
tests cmake --build "$CARGO_TARGET_DIR/cmake-no-std"
run "$CARGO_TARGET_DIR/cmake-no-std/rotate"

# Firmware: a compiler without a C library reads the header. no_std.sh builds the library, firmware.sh runs.
step "thumbv7em-none-eabihf"
read -ra flags <<<"$(PKG_CONFIG_PATH=$prefix/no-std/lib/pkgconfig pkg-config --cflags rope)"
tests clang --target=thumbv7em-none-eabihf -std=c99 -ffreestanding "${warnings[@]}" "${flags[@]}" -fsyntax-only \
    -include rope.h -x c /dev/null

passed "$runs of them runs of the examples"
