#!/usr/bin/env bash
# Finds phrases that made these texts hard to read, in texts, comments, messages and scripts. It is a help, not the
# standard: CONTRIBUTING.md has that. A line is a phrase to avoid, as a regular expression, and what to write instead.
# Spelling is American.
set -euo pipefail
cd "$(dirname "$0")/.."

phrases='
behind (one another|the other|another|those|them|its?|each)\b	after
(comes|stands|is|are|tokens|heads|keys) behind\b	follow, after
so many (heads|rows|channels|tokens|sequences)( that| for|[,.;])	n heads, this number of heads
for each of some\b	per token
are not those of\b	name both values
is that of (those|what|who)\b	say what it is
as those see\b	as seen by
cannot be said here	cannot be expressed; say what to use
without a word	silently
\bsays so\b	returns true, is an error
(loop|chain|kernel|row|norm|rotation|store|walk|stage|backend|it) (wants?|asks)\b	needs, requires
nobody (wants|asks)\b	is unused, is discarded
\bof before\b	older
\b(does|do) not obey\b	ignores
\bcannot say\b	cannot express, cannot describe
\b(Who|who) (makes|links|rotates|asks)\b	programs that, callers that
all else that\b	everything else that
(colour|behaviour|neighbour|centre|licence)s?\b	color, behavior, neighbor, center, license
(quanti|normali|optimi|initiali|seriali|recogni|reali|minimi|speciali)s(e[ds]?|ing|ation)\b	-ize
(labell|modell|cancell|travell|signall)(ed|ing)\b	one l
'

# The lines of texts outside of code blocks, all comments, and string literals.
read_lines() {
    git ls-files -z '*.md' '*.h' '*.c' '*.cpp' '*.rs' '*.sh' '*.py' '*.toml' .ci ':!tests/golden/*' ':!tests/prose.sh' |
        xargs -0 awk '
        FNR == 1 { code = 0; text = FILENAME ~ /\.(md|h)$/; hash = FILENAME !~ /\.(md|h|c|cpp|rs)$/ }
        text && /^ *```/ { code = !code }
        text ? !code : hash ? /^ *#/ || /"/ : /^ *\/[\/*]/ || /^ \*/ || /[;{},)] *\/\/ / || /"/ {
            print FILENAME ":" FNR ": " $0 }'
}

text=$(read_lines)
failed=0
while IFS=$'\t' read -r phrase instead; do
    if [[ -z $phrase ]]; then continue; fi
    if found=$(grep -P -- "$phrase" <<<"$text"); then
        printf '%s\n    instead of "%s": %s\n' "$found" "$phrase" "$instead"
        failed=1
    fi
done <<<"$phrases"
exit $failed
