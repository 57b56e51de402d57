#!/usr/bin/env bash
# Builds and installs the C API; --help says how.
set -euo pipefail
usage() {
    cat <<END
usage: $0 PREFIX [--no-std]

Builds the libraries of rope, and puts them under PREFIX, an absolute path or one relative to this directory, with
rope.h, rope.pc for pkg-config, and a package for find_package(rope) of CMake.

  --no-std  for firmware: a static library without std and without an allocator
  --help    this text

CARGO_BUILD_TARGET, if set, is the target to build for. DESTDIR, if set, is put before PREFIX (for packages).
END
}
refuse() {
    echo "$0: $1" >&2
    exit 2
}
prefix=
no_std=
for argument; do
    case $argument in
    --help | -h)
        usage
        exit
        ;;
    --no-std) no_std=1 ;;
    -*) refuse "unknown option $argument; the options are --no-std and --help" ;;
    '') refuse "the prefix is empty; it must be a directory" ;;
    *)
        [[ -z $prefix ]] || refuse "a second prefix, $argument, after $prefix; there must be one"
        prefix=$argument
        ;;
    esac
done
if [[ -z $prefix ]]; then
    usage >&2
    exit 2
fi
[[ $prefix == /* ]] || prefix=$PWD/$prefix
build=()
defines=
if [[ -n $no_std ]]; then
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
install -d "$to/include" "$to/lib"
install -m 644 "$capi/include/rope.h" "$to/include/"
install -m 644 "$built/librope.a" "$to/lib/"
soname=
shared=
if [[ -z $defines && -f $built/librope.so ]]; then
    # Programs look for the name with the version up to the part whose change breaks them.
    soname=librope.so.${version%.*}
    shared=lib/$soname
    install -m 755 "$built/librope.so" "$to/lib/librope.so.$version"
    ln -sf "librope.so.$version" "$to/lib/$soname"
    ln -sf "$soname" "$to/lib/librope.so"
elif [[ -z $defines && -f $built/rope.dll ]]; then
    # Windows looks for it beside the program, or in PATH; linkers read the import library.
    shared=bin/rope.dll
    install -d "$to/bin"
    install -m 755 "$built/rope.dll" "$to/bin/"
    install -m 644 "$built/librope.dll.a" "$to/lib/"
fi
# fill NAME TO PRIVATE: writes lib/TO from the template NAME.in.
fill() {
    install -d "$(dirname "$to/lib/$2")"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@DEFINES@|$defines|" -e "s|@SONAME@|$soname|" \
        -e "s|@SHARED@|$shared|" -e "s|@PRIVATE@|$3|" "$capi/$1.in" >"$to/lib/$2"
}
fill rope.pc pkgconfig/rope.pc "$private"
# A list of CMake has semicolons.
for file in ropeConfig.cmake ropeConfigVersion.cmake; do fill $file cmake/rope/$file "${private// /;}"; done

echo "rope $version is in $to"
echo "pkg-config finds it with PKG_CONFIG_PATH=$prefix/lib/pkgconfig, CMake with CMAKE_PREFIX_PATH=$prefix, if not by"
echo "itself."
if [[ -n $soname ]]; then
    cat <<END
A program finds $soname when it starts in one of these ways:
  - it was linked with -Wl,-rpath,$prefix/lib
  - ldconfig ran, and $prefix/lib is one of its directories (/etc/ld.so.conf)
  - it is started with LD_LIBRARY_PATH=$prefix/lib
END
fi
