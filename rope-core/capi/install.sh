#!/usr/bin/env bash
# Builds the libraries and puts them, the header and rope.pc under a prefix:
#
#     rope-core/capi/install.sh /usr/local [--no-std]
#
# --no-std: for firmware, a static library without std and without an allocator. CARGO_BUILD_TARGET, if set, is what is
# built for. DESTDIR, if set, is put before the prefix (for packages).
set -euo pipefail
if (($# < 1)) || [[ ${2:---no-std} != --no-std ]]; then
    echo "usage: $0 PREFIX [--no-std]" >&2
    exit 2
fi
prefix=$1
[[ $prefix == /* ]] || prefix=$PWD/$prefix
build=()
defines=
if [[ ${2:-} == --no-std ]]; then
    build=(--crate-type staticlib --no-default-features)
    defines=-DROPE_NO_STD
    # Without std nothing can unwind.
    export CARGO_PROFILE_RELEASE_PANIC=abort
fi
export CARGO_PROFILE_RELEASE_DEBUG=false
cd "$(dirname "$0")/../.."
capi=rope-core/capi

# What programs that link the static library must link besides: the note that rustc prints.
notes=$(cargo rustc --release -p rope-capi "${build[@]}" --color never -- --print native-static-libs 2>&1) || {
    echo "$notes" >&2
    exit 1
}
private=$(sed -n 's/^note: native-static-libs: *//p' <<<"$notes" | tail -1)
# A host's core has unwinding tables, and they name what only std has. Nothing unwinds.
if [[ -n $defines ]]; then private+=-Wl,--defsym=rust_eh_personality=0; fi
version=$(cargo pkgid -p rope-capi | sed 's/.*[#@]//')
built=${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}release

to=${DESTDIR:-}$prefix
install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$capi/include/rope.h" "$to/include/"
install -m 644 "$built/librope.a" "$to/lib/"
if [[ -z $defines && -f $built/librope.so ]]; then
    # Programs look for the name with the version up to the part whose change breaks them.
    install -m 755 "$built/librope.so" "$to/lib/librope.so.$version"
    ln -sf "librope.so.$version" "$to/lib/librope.so.${version%.*}"
    ln -sf "librope.so.${version%.*}" "$to/lib/librope.so"
fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@DEFINES@|$defines|" -e "s|@PRIVATE@|$private|" \
    "$capi/rope.pc.in" >"$to/lib/pkgconfig/rope.pc"
echo "rope $version is in $to"
