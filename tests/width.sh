#!/usr/bin/env bash
# No line of prose beyond 120 columns: comments, and texts but for their tables and what is to be typed.
set -euo pipefail
cd "$(dirname "$0")/.."
long() { git ls-files -z "${@:2}" | xargs -0 awk -v comment="$1" '
    FNR == 1 { code = 0 }
    /^ *```/ { code = !code }
    length($0) > 120 && !code && $0 ~ comment && $0 !~ /^ *((\/\/[\/!]?|#) *)?(\||<)/ { print FILENAME ":" FNR }'; }
found=$(
    long '^ *(//|/[*]| [*])' '*.rs' '*.c' '*.h' '*.cpp' '*.mjs'
    long '^ *#' '*.sh' '*.toml' '*.py' .ci
    long '' '*.md' ':!tests/golden/*'
)
if [[ -n $found ]]; then
    printf 'beyond 120 columns:\n%s\n' "$found"
    exit 1
fi
