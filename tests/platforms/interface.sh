#!/usr/bin/env bash
# What users depend on: the public items of rope-core and rope-models, kept in the public-api.txt of each (UPDATE=1
# renews them), and the licenses of what they link, by the list in deny.toml.
#
# The lines of Python below do for licenses what cargo-deny does, because a build of cargo-deny takes many times as long
# as all of this script, on every machine that is used once. Where it is installed, `cargo deny check` reads the same
# file, and looks for advisories too, whose database is not among the packages.
source "$(dirname "$0")/common.sh"

# rustdoc's JSON has versions, and each cargo-public-api reads one: that of this stable toolchain.
version=0.52.0
toolchain=1.95
[[ $(uname -m) == x86_64 ]] || cannot "backends are public items, and the list has those of x86-64"
[[ $(rustc --version) == "rustc $toolchain."* ]] || cannot "the public items are listed with Rust $toolchain; this is $(rustc --version)"
if [[ $(cargo public-api --version 2>/dev/null) != "cargo-public-api $version" ]]; then
    echo "installing cargo-public-api $version"
    # Optimized it would take three times as long to build, and be used once.
    cargo install --quiet --debug --locked "cargo-public-api@$version" >>"$log" 2>&1 || cannot "cargo install cargo-public-api@$version failed"
fi

# Without blanket, auto-trait and derived implementations (-sss): they were nearly half of the lines, and none was
# written by hand. That all types are Send and Sync is held where lib.rs lists them.
step "public items"
export RUSTC_BOOTSTRAP=1
items=0
for crate in rope-core rope-models; do
    kept=rope-core/public-api.txt
    if [[ $crate == rope-models ]]; then kept=rope-core/models/public-api.txt; fi
    cargo rustdoc -q -p $crate --all-features --lib -- -Zunstable-options --output-format json --cap-lints allow
    cargo public-api -sss --rustdoc-json "$CARGO_TARGET_DIR/doc/${crate/-/_}.json" >"$temporary/public-api.txt"
    if [[ -n ${UPDATE:-} ]]; then cp "$temporary/public-api.txt" "$kept"; fi
    if ! diff -u "$kept" "$temporary/public-api.txt"; then
        fail "the public items are others than in $kept; if they are meant to be, UPDATE=1 renews it"
    fi
    items=$((items + $(wc -l <"$kept")))
done

step "documentation, as docs.rs builds it"
RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo doc -q -p rope-core -p rope-models --all-features --no-deps

step "licenses"
cargo tree -p rope-core -p rope-models -p rope-capi --all-features -e normal --prefix none --format '{p}|{l}' | grep -F '|' | sort -u >"$temporary/licenses"
command -v python3 >/dev/null || packages python3
python3 - "$temporary/licenses" <<'END'
import re, sys, tomllib

allowed = set(tomllib.load(open("deny.toml", "rb"))["licenses"]["allow"])
wrong = []
for line in open(sys.argv[1]):
    package, license = line.strip().removesuffix(" (*)").split("|")
    alternatives = re.split(r" OR |/", license.replace("(", "").replace(")", ""))
    if not any(all(part.strip() in allowed for part in one.split(" AND ")) for one in alternatives):
        wrong.append(f"{package}: {license!r} is not in deny.toml")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
echo "platform $name: $items public items and $(wc -l <"$temporary/licenses") licenses as they should be"
