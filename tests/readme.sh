#!/usr/bin/env bash
# What the READMEs tell a reader to type: their dependency lines and programs, from outside of the checkout. (The lines
# of C, candle and burn are tried by c.sh, candle.sh and burn.sh.)
source "$(dirname "$0")/platforms/common.sh"

export CARGO_PROFILE_DEV_DEBUG=0
outside
program=$outside/program
mkdir -p "$program/src/bin"

# built_by LINES NAME: builds a program below src with these lines in its manifest, and runs it.
built_by() {
    cat >"$program/Cargo.toml" <<END
[package]
name = "program"
edition = "2024"

$1
END
    # Nothing is measured: an optimized rope-core takes longer to build than these programs to run.
    tests cargo run -q --manifest-path "$program/Cargo.toml" --bin "$2" "${unoptimized[@]}"
    echo "test result: ok. 1 passed: $2" >>"$log"
}

for readme in README.md rope-core/README.md rope-core/models/README.md; do
    step "$readme"
    rm -f "$program"/src/bin/*
    lines=$(block $readme toml 1)
    programs=$(grep -c '^```rust$' $readme)
    for number in $(seq "$programs"); do block $readme rust "$number" >"$program/src/bin/number_$number.rs"; done
    for number in $(seq "$programs"); do built_by "$lines" "number_$number"; done
done

step "config.json, with the lines of its README"
rm -f "$program"/src/bin/*
cp rope-core/models/examples/config.rs "$program/src/bin"
built_by "$(block rope-core/models/README.md toml 1)" config
passed
