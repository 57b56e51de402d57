#!/usr/bin/env bash
# torch_stubs.sh TORCH DIRECTORY: libraries for a torch that was built for CUDA, where there is no CUDA.
#
# The package index has only that build for Linux on x86-64. Its libraries load if those that they name exist, and if
# every symbol that nothing defines is defined: by functions that return 0.
set -euo pipefail
libraries=$1/lib stubs=$2
rm -rf "$stubs"
mkdir -p "$stubs"

mapfile -t objects < <(find "$libraries" -maxdepth 1 -name '*.so*' -type f)
# Libraries by name: needed, there, and of the system.
readelf -d "${objects[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u >"$stubs/needed"
{
    find "$libraries" -maxdepth 1 -name '*.so*' -printf '%f\n'
    ldconfig -p | awk '/=>/ { print $1 }'
} | sort -u >"$stubs/there"
comm -23 "$stubs/needed" "$stubs/there" >"$stubs/missing"
if [[ ! -s $stubs/missing ]]; then exit 0; fi

# Which versions of symbols each library must have: LIBRARY VERSION.
objdump -p "${objects[@]}" |
    awk '/required from/ { sub(/:$/, "", $3); library = $3; next } library && NF == 4 { print library, $4; next }
         { library = "" }' | sort -u >"$stubs/versions"

# Symbols, as NAME or NAME@VERSION. Weak ones may stay undefined.
mapfile -t system < <(ldconfig -p | awk '/x86-64/ && /=>/ { print $1, $NF }' |
    awk 'NR == FNR { needed[$1]; next } $1 in needed { print $2 }' "$stubs/needed" -)
nm -D --defined-only "${objects[@]}" "${system[@]}" 2>/dev/null |
    awk 'NF > 1 { sub(/@.*/, "", $NF); print $NF }' | sort -u >"$stubs/defined"
nm -D --undefined-only "${objects[@]}" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u |
    awk 'NR == FNR { defined[$1]; next } { name = $1; sub(/@.*/, "", name) } !(name in defined)' "$stubs/defined" - \
        >"$stubs/undefined"

rest=$(head -1 "$stubs/missing") # This one defines what is asked for without a version.
while read -r library; do
    awk -v library="$library" -v rest="$rest" -v script="$stubs/script" '
        BEGIN { printf "" > script; print ".text" }
        NR == FNR { if ($1 == library) nodes[$2] = ""; next }
        { split($1, symbol, "@") }
        symbol[2] in nodes { nodes[symbol[2]] = nodes[symbol[2]] symbol[1] "; " }
        symbol[2] in nodes || (symbol[2] == "" && library == rest) {
            print ".globl " symbol[1] "\n.type " symbol[1] ", @function\n" symbol[1] ":"
        }
        END {
            print "xor %eax, %eax\nret\n.section .note.GNU-stack,\"\""
            for (version in nodes) print version " { " nodes[version] "};" > script
        }' "$stubs/versions" "$stubs/undefined" >"$stubs/stubs.s"
    options=(-shared -nostdlib "-Wl,-soname,$library")
    if [[ -s $stubs/script ]]; then options+=("-Wl,--version-script=$stubs/script"); fi
    gcc "${options[@]}" "$stubs/stubs.s" -o "$stubs/$library"
done <"$stubs/missing"
echo "$(wc -l <"$stubs/missing") libraries of CUDA, without a function that does anything"
