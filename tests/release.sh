#!/usr/bin/env bash
# Makes the files of a release; --help says how. tests/artifacts.sh installs and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

usage() {
    cat <<END
usage: $0 [--into DIRECTORY] [--once] [--list] [PART ..]

Makes the files of rope $version from the commit that is checked out, twice in new clones, and compares the bytes.
Nothing is uploaded. Without a PART it makes all of them, and fails before it builds if this machine cannot.

  --into    where the files go; target/release-$version if not named. What is there is removed
  --once    builds once and compares nothing
  --list    prints the parts
  PART      a part, or the beginning of one: c, wheel/rope-kernels, crate/rope-core
END
}
refuse() {
    echo "release: $*" >&2
    exit 2
}

linux=({x86_64,aarch64}-unknown-linux-gnu)
windows=({x86_64,aarch64}-pc-windows-gnullvm)
musl=({x86_64,aarch64}-unknown-linux-musl)
macos=({x86_64,aarch64}-apple-darwin)
# PyTorch's kernels throw by a function of libstdc++, which neither PyTorch for macOS nor that for Windows has.
parts=(
    crate/rope-{core,models,candle,burn}
    "${linux[@]/#/c/}" "${windows[@]/#/c/}"
    sdist/rope-{kernels,onnxruntime}
    "${linux[@]/#/wheel/rope-kernels/}" "${musl[@]/#/wheel/rope-kernels/}"
    "${linux[@]/#/wheel/rope-onnxruntime/}" "${musl[@]/#/wheel/rope-onnxruntime/}"
    "${macos[@]/#/wheel/rope-onnxruntime/}" "${windows[@]/#/wheel/rope-onnxruntime/}"
    demo
    papers
)

into=target/release-$version once='' chosen=()
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --into) into=${2:-} && shift ;;
    --once) once=1 ;;
    --list) printf '%s\n' "${parts[@]}" && exit ;;
    -*) refuse "unknown option $1; the options are --into, --once, --list and --help" ;;
    *)
        found=$(printf '%s\n' "${parts[@]}" | grep -E "^${1%/}(/|$)") || refuse "there is no part $1; --list prints all"
        mapfile -t -O ${#chosen[@]} chosen <<<"$found"
        ;;
    esac
    shift
done
[[ -n $into ]] || refuse "--into needs a directory"
((${#chosen[@]})) || chosen=("${parts[@]}")
[[ $into == /* ]] || into=$root/$into
work=$root/target/release-work
# The order of functions depends on the path of the sources: the same on every machine.
round=/tmp/rope-release
clone=$round/rope
mkdir -p "$work"
log=$work/log
: >"$log"
step() { printf -- '--- release: %s (%d s)\n' "$*" "$SECONDS"; }
quietly() {
    "$@" >>"$log" 2>&1 || {
        tail -n 40 "$log"
        echo "release: FAILED: $*; the whole log is $log"
        exit 1
    }
}

step "what this machine can build"
missing=()
# needs PART COMMAND ..: notes the part if a command fails.
needs() {
    local part=$1
    shift
    "$@" >>"$log" 2>&1 || missing+=("$part: no success with: $*")
}
tools=$work/tools
has_tools() {
    if cmp -s tests/release/tools.txt "$tools/installed"; then return; fi
    rm -rf "$tools"
    python3 -m venv "$tools" &&
        "$tools/bin/python" -m pip install -q --disable-pip-version-check -r tests/release/tools.txt &&
        cp tests/release/tools.txt "$tools/installed"
}
target_of() { [[ $1 != */*-*-* ]] || echo "${1##*/}"; }
has_std() { rustup target list --installed | grep -x "$1" || rustup target add "$1"; }
has_rust() { [[ $(rustc --version) == "rustc $rust."* ]]; }
for part in "${chosen[@]}"; do
    needs "$part" has_rust
    if [[ $part != crate/* ]]; then needs "$part" has_tools; fi
    target=$(target_of "$part")
    if [[ $part == demo ]]; then target=wasm32-unknown-unknown; fi
    if [[ -n $target ]]; then needs "$part" has_std "$target"; fi
    if [[ $part == c/*-linux-* ]]; then needs "$part" dpkg-deb --version; fi
done
if ((${#missing[@]})); then
    printf 'release: cannot be built here: %s\n' "${missing[@]}"
    echo "release: name the parts that can be built, or install what is missing ($log)"
    exit 77
fi
if [[ -n $(git status --porcelain) ]]; then echo "release: what is not committed is not in the release"; fi

# Times and names of files do not depend on when and where they are made.
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=false MACOSX_DEPLOYMENT_TARGET=11.0 PYTHONDONTWRITEBYTECODE=1
umask 022
# packed ARCHIVE DIRECTORY NAME: a .tar.gz of DIRECTORY/NAME.
packed() {
    tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$3" |
        gzip -9n >"$1"
}

# building TARGET: cargo builds for it and links by zig. What it makes names neither the clone nor cargo's directory.
# glibc 2.17 is the oldest that Rust's standard library supports.
building() {
    local linker=$work/linkers/$1 for=$1 name=${1//-/_} zig=(-m ziglang)
    case $1 in
    *-linux-gnu) for=${1/-unknown/}.2.17 ;;
    *-linux-musl) for=${1/-unknown/} ;;
    *-windows-gnullvm) for=${1%%-*}-windows-gnu ;;
    *-apple-darwin) for=${1%%-*}-macos-none ;;
    esac
    mkdir -p "$work/linkers"
    cat >"$linker" <<END
#!/bin/sh
export CARGO_ZIGBUILD_ZIG_COMMAND='$tools/bin/python' CARGO_ZIGBUILD_ZIG_COMMAND_ARGS='${zig[*]}'
exec '$tools/bin/cargo-zigbuild' zig cc -- -fno-sanitize=all -target $for "\$@"
END
    chmod +x "$linker"
    export "CARGO_TARGET_${name^^}_LINKER=$linker" CARGO_BUILD_TARGET=$1
    export RUSTFLAGS="--remap-path-prefix=$clone=/rope --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    if [[ $1 == *-musl ]]; then RUSTFLAGS+=" -C target-feature=-crt-static"; fi
    export CARGO_TARGET_DIR=$round/target
}

# The manifest of what a package or an archive is built from.
manifest_of() {
    case $1 in
    c) echo rope-core/capi/Cargo.toml ;;
    demo) echo rope-bench/playground/Cargo.toml ;;
    rope-kernels) echo rope-core/adapters/torch/Cargo.toml ;;
    rope-onnxruntime) echo rope-core/adapters/onnxruntime/Cargo.toml ;;
    esac
}
linked() { "$tools/bin/python" "$clone/tests/release/linked.py" "$@"; }
# licenses DIRECTORY WHAT: the licenses of rope, and of what is linked into it.
licenses() {
    mkdir -p "$1"
    cp "$clone"/LICENSE-* "$1/"
    linked licenses "$clone/$(manifest_of "$2")" >"$1/LICENSE-THIRD-PARTY"
}

crate() {
    local crate=$1 directory=. options=()
    export CARGO_TARGET_DIR=$round/crates
    if [[ $crate != rope-core ]]; then options+=(--config "patch.crates-io.rope-core.path='$clone/rope-core'"); fi
    case $crate in
    rope-candle | rope-burn)
        directory=rope-core/adapters/${crate#rope-}
        options+=(--config "patch.crates-io.rope-models.path='$clone/rope-core/models'")
        ;;
    esac
    # As whoever downloads it builds it; once, as nothing that is built is kept.
    if [[ $out == */first ]]; then quietly "$clone/tests/publishable.sh" "${crate#rope-}"; fi
    quietly "$clone/tests/unpacked.sh" "$clone/$directory" "$crate" "$round/unpacked" "${options[@]}"
    cp "$CARGO_TARGET_DIR/package/$crate-$version.crate" "$out/"
}

c() {
    local stage=$round/stage folder=rope-$version-$1 debian
    building "$1"
    rm -rf "$stage"
    DESTDIR=$stage CARGO_PROFILE_RELEASE_STRIP=symbols quietly "$clone/rope-core/capi/install.sh" /usr
    mv "$stage/usr" "$stage/$folder"
    licenses "$stage/$folder/share/doc/librope-dev" c
    case $1 in
    x86_64-*-linux-*) debian=amd64 ;;
    aarch64-*-linux-*) debian=arm64 ;;
    esac
    if [[ -n ${debian:-} ]]; then
        mkdir -p "$stage/deb/DEBIAN"
        cp -a "$stage/$folder" "$stage/deb/usr"
        cat "$stage"/deb/usr/share/doc/librope-dev/LICENSE-* >"$stage/deb/usr/share/doc/librope-dev/copyright"
        rm "$stage"/deb/usr/share/doc/librope-dev/LICENSE-*
        sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$debian/" "$clone/tests/release/control" \
            >"$stage/deb/DEBIAN/control"
        quietly dpkg-deb --build --root-owner-group -Zxz "$stage/deb" "$out/librope-dev_${version}_$debian.deb"
    fi
    # Wherever it is unpacked. CMake's package finds itself.
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$stage/$folder/lib/pkgconfig/rope.pc"
    packed "$out/$folder.tar.gz" "$stage" "$folder"
}

# The source distribution of a Python package, unpacked in $tree.
sources() {
    local package=${1//-/_} adapter
    tree=$round/sources/$package-$version
    if [[ -d $tree ]]; then return; fi
    adapter=$clone/$(dirname "$(manifest_of "$1")")
    linked licenses "$adapter/Cargo.toml" >"$adapter/LICENSE-THIRD-PARTY"
    (cd "$adapter" && quietly "$tools/bin/python" -c "
from setuptools import build_meta
build_meta.build_sdist('$round/made')")
    mkdir -p "$round/sources"
    tar -xzf "$round/made/$package-$version.tar.gz" -C "$round/sources"
}
sdist() {
    sources "$1"
    packed "$out/${1//-/_}-$version.tar.gz" "$round/sources" "${1//-/_}-$version"
    quietly "$tools/bin/twine" check --strict "$out/${1//-/_}-$version.tar.gz"
}

wheel() {
    local package=${1//-/_} target=$2 platform library made unwinder for
    sources "$1"
    building "$target"
    export RUSTFLAGS="--remap-path-prefix=$tree=/rope $RUSTFLAGS"
    if [[ $1/$target == rope-kernels/*-linux-* ]]; then
        # PyTorch's exceptions pass through the kernels by libgcc's unwinder. zig links one of its own, which does not
        # read the other's records: the process would crash.
        unwinder=$round/libgcc_s-$target.so for=${target/-unknown/}
        if [[ $target == *-gnu ]]; then for+=.2.17; fi
        printf 'void _Unwind_%s(void) {}\n' Backtrace DeleteException FindEnclosingFunction GetCFA GetDataRelBase GetIP \
            GetIPInfo GetLanguageSpecificData GetRegionStart GetTextRelBase RaiseException Resume SetGR SetIP |
            quietly "$tools/bin/python" -m ziglang cc -target "$for" -shared -nostdlib -x c - \
                -Wl,-soname,libgcc_s.so.1 -o "$unwinder"
        RUSTFLAGS+=" -C link-arg=$unwinder"
    fi
    case $target in
    *-linux-gnu) platform=manylinux_2_17_${target%%-*} ;;
    *-linux-musl) platform=musllinux_1_2_${target%%-*} ;;
    x86_64-apple-darwin) platform=macosx_11_0_x86_64 ;;
    aarch64-apple-darwin) platform=macosx_11_0_arm64 ;;
    x86_64-pc-windows-*) platform=win_amd64 ;;
    aarch64-pc-windows-*) platform=win_arm64 ;;
    esac
    (cd "$tree" && quietly cargo build --release --locked --offline)
    library=$(sed -n '/^\[lib\]/,/^$/s/^name = "\(.*\)"$/\1/p' "$tree/Cargo.toml")
    library=$(find "$CARGO_TARGET_DIR/$target/release" -maxdepth 1 \
        \( -name "lib$library.so" -o -name "lib$library.dylib" -o -name "$library.dll" \))
    # A copy: what setuptools leaves is not part of the next wheel.
    rm -rf "$round/wheel"
    cp -a "$tree" "$round/wheel"
    (cd "$round/wheel" && ROPE_LIBRARY=$library quietly "$tools/bin/python" -c "
from setuptools import build_meta
build_meta.build_wheel('$round/wheel', {'--build-option': ['--plat-name', '$platform']})")
    made=$round/wheel/$package-$version-py3-none-$platform.whl
    quietly "$tools/bin/twine" check --strict "$made"
    if [[ $target == *-linux-* ]]; then
        # auditwheel finds the oldest C library that it works with: the tag's. libtorch is PyTorch's, libgcc_s comes
        # with its libstdc++, and libc.so is musl's: a linker script of glibc has its name. The wheel that auditwheel
        # writes is discarded.
        rm -rf "$round/audited"
        quietly env "PATH=$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat auto --exclude libtorch_cpu.so \
            --exclude libgcc_s.so.1 --exclude libc.so -w "$round/audited" "$made"
        if [[ $(ls "$round/audited") != *"$platform"* ]]; then
            echo "release: FAILED: auditwheel finds $(ls "$round/audited"), not $platform"
            exit 1
        fi
    fi
    cp "$made" "$out/"
}

demo() {
    local folder=rope-playground-$version page=rope-bench/report/src
    export CARGO_TARGET_DIR=$round/target
    export RUSTFLAGS="--remap-path-prefix=$clone=/rope --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo -C target-feature=+simd128"
    quietly env -u CARGO_BUILD_TARGET cargo build --release --locked --target wasm32-unknown-unknown \
        --manifest-path "$clone/rope-bench/playground/Cargo.toml"
    mkdir -p "$round/$folder"
    cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/rope_playground.wasm" "$round/$folder/"
    {
        printf '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>rope %s</title>\n' "$version"
        printf '<style>\n%s\n%s\n</style>\n' "$(cat "$clone/$page/svg/style.css")" "$(cat "$clone/$page/playground.css")"
        cat "$clone/$page/playground.html"
        printf '<script type="application/block-stream" id="playground-wasm">%s</script>\n' \
            "$(base64 -w 0 "$round/$folder/rope_playground.wasm")"
        printf '<script>\n%s\n</script>\n</html>\n' "$(cat "$clone/$page/playground.js")"
    } >"$round/$folder/index.html"
    licenses "$round/$folder" demo
    packed "$out/$folder.tar.gz" "$round" "$folder"
}

papers() {
    local what manifests=()
    for what in c demo rope-kernels rope-onnxruntime; do manifests+=("$clone/$(manifest_of $what)"); done
    linked sbom "$version" "$commit" "${manifests[@]}" >"$out/rope-$version.cdx.json"
    linked licenses "${manifests[@]}" >"$out/LICENSE-THIRD-PARTY"
    cp "$clone"/LICENSE-{MIT,APACHE} "$clone/CHANGELOG.md" "$out/"
}

# make WHICH: the parts, in $work/WHICH.
make() {
    local part how
    out=$work/$1
    rm -rf "$round" "$out"
    mkdir -p "$round" "$out"
    quietly git clone -q --shared "$root" "$clone"
    quietly git -C "$clone" checkout -q --detach "$commit"
    for part in "${chosen[@]}"; do
        step "$part, $1"
        IFS=/ read -ra how <<<"$part"
        (cd "$clone" && "${how[@]}")
    done
    rm -rf "$round"
}
mkdir "$round" || refuse "$round is there: another release is being made, or one was stopped; remove it"
trap 'rm -rf "$round"' EXIT
make first
if [[ -z $once ]]; then
    make second
    step "the bytes of both"
    if ! diff -rq "$work/first" "$work/second"; then
        echo "release: FAILED: two builds of one commit differ"
        exit 1
    fi
fi

rm -rf "$into"
mkdir -p "$(dirname "$into")"
mv "$work/first" "$into"
rm -rf "$work/second"
cd "$into"
sha256sum -- * >../SHA256SUMS.partial
mv ../SHA256SUMS.partial SHA256SUMS
ls -l | awk 'NF > 2 { print $5, $9 }'
echo "release: $(wc -l <SHA256SUMS) files of ${#chosen[@]} parts in $into${once:+, built once}"
