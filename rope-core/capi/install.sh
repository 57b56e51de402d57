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
built=${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}release
[[ $built == /* ]] || built=$PWD/$built

# What programs that link the static library must link besides. rustc writes it to a file, so that what cargo shows
# while it builds is seen. A file for each of the two libraries: cargo does not build again what is there.
needs=$built/librope${defines:+-no-std}.needs
cargo rustc --release -p rope-capi "${build[@]}" -- --print "native-static-libs=$needs"
# Not libgcc_s, of which there is no static one: every C compiler adds the unwinder that its program wants by itself,
# libgcc_s or, to a static program, libgcc_eh.
private=$(sed -E 's/(^| )-lgcc_s( |$)/ /; s/^ //' "$needs")
# A host's core has unwinding tables, and they name what only std has. Nothing unwinds.
if [[ -n $defines ]]; then private+=" -Wl,--defsym=rust_eh_personality=0"; fi
# Without this a program gets the whole static library, a megabyte that nothing calls.
case ${CARGO_BUILD_TARGET:-$(uname -s)} in
*darwin* | Darwin) private+=" -Wl,-dead_strip" ;;
*) private+=" -Wl,--gc-sections" ;;
esac
version=$(cargo pkgid -p rope-capi | sed 's/.*[#@]//')

to=${DESTDIR:-}$prefix
install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$capi/include/rope.h" "$to/include/"
install -m 644 "$built/librope.a" "$to/lib/"
soname=
if [[ -z $defines && -f $built/librope.so ]]; then
    # Programs look for the name with the version up to the part whose change breaks them.
    soname=librope.so.${version%.*}
    install -m 755 "$built/librope.so" "$to/lib/librope.so.$version"
    ln -sf "librope.so.$version" "$to/lib/$soname"
    ln -sf "$soname" "$to/lib/librope.so"
fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@DEFINES@|$defines|" -e "s|@PRIVATE@|$private|" \
    "$capi/rope.pc.in" >"$to/lib/pkgconfig/rope.pc"

echo "rope $version is in $to"
echo "pkg-config finds it with PKG_CONFIG_PATH=$prefix/lib/pkgconfig, if not by itself."
if [[ -n $soname ]]; then
    cat <<END
A program finds $soname when it starts in one of these ways:
  - it was linked with -Wl,-rpath,$prefix/lib
  - ldconfig ran, and $prefix/lib is one of its directories (/etc/ld.so.conf)
  - it is started with LD_LIBRARY_PATH=$prefix/lib
END
fi
