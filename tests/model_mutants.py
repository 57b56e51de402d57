"""Changes every field of every row of the tables of models and demands that a case fails: see model_mutants.sh.

Nothing is built for a mutant. The tables are text that the test program contains, so a copy of the program gets a
changed table in its place. The cases of a type depend on the row of that type alone, so one run tries one mutant of
each row at once, and the test says for which types a case fails. Rows of composites, and of types that do not rotate,
have runs of their own: a case reads the row of a composite before that of its part.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
ROTATING = ("half", "interleaved", "interleaved>half", "negated")


# The syntax of the tables: rows, and what a changed field looks like. All else works with any rows.


def changed_number(text):
    """Another number that could stand there."""
    value = float(text)
    other = value * 2 if abs(value) < 1 and value else value + (2 if value < 1000 else value)
    return repr(other) if re.search(r"[.e]", text) else str(int(other))


def changed_pieces(value):
    """The value with one number, or one name in it, changed at a time."""
    for found in re.finditer(r"\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z_][A-Za-z_0-9-]*", value):
        piece = found[0]
        swaps = {
            "full": "sliding",
            "sliding": "full",
            "linear": "full",
            "conv": "full",
            "indexed": "linear",
            "last": "/5",
            "hybrid": "full",
            "true": "false",
            "false": "true",
            "rotating": "still",
            "still": "rotating",
            "llama": "gemma",
            "olmo2": "llama",
            "gemma": "llama",
            "gemma3n": "llama",
            "llama4": "llama",
            "cohere": "llama",
            "stable-lm": "llama",
            "layer-norm": "llama",
            "chameleon": "llama",
            "own": "plain",
            "unscaled": "own",
            "plain": "own",
            "own-plain": "plain",
            "width": "7",
        }
        if piece in ("e", "mrope", "mrope-interleaved", "mrope-alternating"):
            other = "text"
        elif piece in swaps:
            other = swaps[piece]
        elif piece[0].isdigit():
            other = changed_number(piece)
        else:
            other = piece + "x"
        yield value[: found.start()] + other + value[found.end() :]


class Types:
    """types.txt: a type, its folder, its pairing, and words: flags, and fields `key=value`."""

    file = "types.txt"
    test = "model_types::every_case_is_equal_in_every_field_or_refused_as_listed"
    # A field that a row may have and this one has not: what it would do must be seen too.
    ADDED = (
        "width-key=n_embd heads-key=n_head depth-key=n_layer head=48 head=width/heads head=2*width/heads mla=32+32 "
        "whole memory no-context partial=:0.5 obeys window own-window end rotary-dim=8 clvp values base=:777 base=777 "
        "axes=vision axes=mrope:4,4,4 by-layer sliding=:777 scales-sliding null-stands-still compress alpha longrope "
        "phimoe mrope-type original=512 axial unscaled theta-only turns softmax layers=full@/2,sliding rotates=sliding "
        "rotates=sliding-or-all no-rope=2 bases=layer_rope_theta stills=layer_rope_theta still-layers=x:1 "
        "if=model_type:other norm=llama:1e-3 norm-row norm-after norm-if=x:false norm-layers=still norm-values "
        "interleave-key"
    ).split()

    def parts(self, line):
        line, why, reason = line.partition(" why=")
        words = line.split()
        return words[:3], words[3:], why + reason

    def name(self, line):
        return line.split(None, 1)[0]

    def kind(self, line):
        return "rotating" if line.split()[2] in ROTATING else "other"

    def also(self, line):
        """Types whose rows a case of this row's type reads besides."""
        return re.findall(r" flat=(\S+)", line)

    def mutants(self, line):
        (name, folder, pairing), words, why = self.parts(line)

        def row(words, pairing=pairing):
            return " ".join([name, folder, pairing, *words]) + why

        others = {
            "half": ("interleaved", "negated", "none"),
            "interleaved": ("half", "interleaved>half"),
            "interleaved>half": ("interleaved", "half"),
            "negated": ("half",),
            "none": ("half",),
            "part": ("half",),
            "refused": ("half",),
        }[pairing]
        for other in others:
            yield f"{pairing} -> {other}", row(words, other)
        for at, word in enumerate(words):
            without = words[:at] + words[at + 1 :]
            yield f"without {word}", row(without)
            key, equals, value = word.partition("=")
            seen = set()
            for changed in changed_pieces(value) if equals else ():
                if changed not in seen:
                    seen.add(changed)
                    yield f"{word} -> {key}={changed}", row(words[:at] + [f"{key}={changed}"] + words[at + 1 :])
        if pairing in ROTATING:
            keys = {word.partition("=")[0] for word in words}
            for word in self.ADDED:
                if word.partition("=")[0] not in keys:
                    yield f"with {word}", row(words + [word])


class Architectures:
    """architectures.txt: an architecture, its rope type, a file, and words."""

    file = "architectures.txt"
    test = "gguf::every_architecture_is_what_its_cases_say"
    ADDED = (
        "window=4 window=file if=window local=own local=unscaled local=10000 local=plain own-dim halved "
        "rotates=sliding rotates=listed rotates=switched skips=4 skips=4:first recurrent=kv recurrent=4 freqs "
        "freqs=full freqs=needed yarn=betas yarn=grok yarn=mistral3 yarn=deepseek2 yarn=deepseek yarn=refused alpha "
        "fixed"
    ).split()
    WINDOWED = ("local=", "own-dim", "if=")

    def name(self, line):
        return line.split(None, 1)[0]

    def kind(self, line):
        return "rotating"

    def also(self, line):
        return []

    def mutants(self, line):
        words = line.split()
        (name, kind, file), words = words[:3], words[3:]
        if kind == "refused":
            yield "refused -> norm", f"{name} norm {file}"
            return

        def row(words, kind=kind):
            return " ".join([name, kind, file, *words])

        for other in {
            "norm": ("neox", "none", "norm|mrope"),
            "neox": ("norm", "none", "neox|mrope"),
            "mrope": ("neox", "imrope"),
            "imrope": ("neox", "mrope"),
            "none": ("norm",),
            "norm|mrope": ("norm", "neox|mrope", "mrope"),
            "neox|mrope": ("neox", "norm|mrope", "mrope"),
        }[kind]:
            yield f"{kind} -> {other}", row(words, other)
        for at, word in enumerate(words):
            yield f"without {word}", row(words[:at] + words[at + 1 :])
            key, equals, value = word.partition("=")
            if key in ("freqs", "yarn"):
                continue
            seen = set()
            for changed in changed_pieces(value) if equals else ():
                if changed not in seen:
                    seen.add(changed)
                    yield f"{word} -> {key}={changed}", row(words[:at] + [f"{key}={changed}"] + words[at + 1 :])
        if kind != "none":
            keys = {word.partition("=")[0] for word in words if not word.startswith(("freqs", "yarn"))}
            for word in self.ADDED:
                windowed = word.startswith(self.WINDOWED) and "window" not in keys
                if word.partition("=")[0] not in keys and word not in words and not windowed:
                    yield f"with {word}", row(words + [word])


# The runs.


def table_of(syntax):
    # The tables move with the crate that reads them.
    found = [path for path in (ROOT / "rope-core").rglob(syntax.file) if "target" not in path.parts]
    assert len(found) == 1, found
    return found[0].read_text()


class Program:
    """A copy of the test program whose table is another."""

    def __init__(self, path, table):
        self.bytes = bytearray(pathlib.Path(path).read_bytes())
        self.table = table.encode()
        self.places = [found.start() for found in re.finditer(re.escape(self.table), self.bytes)]
        assert self.places, "the program does not contain the table"
        self.copy = os.path.join(tempfile.mkdtemp(prefix="rope-mutants-"), "suites")
        pathlib.Path(self.copy).write_bytes(self.bytes)
        os.chmod(self.copy, 0o755)

    def run(self, table, test):
        """The types for which a case fails with this table in place of its own."""
        # The comments at the top make room.
        text = table.encode()
        comments = re.match(rb"(?:#.*\n)*", text).end()
        excess = max(len(text) - len(self.table), 0)
        assert excess < comments - 2
        text = b"#" + text[excess + 1 :] if excess else text
        text += b"\n" * (len(self.table) - len(text))
        with open(self.copy, "r+b") as file:
            for place in self.places:
                file.seek(place)
                file.write(text)
        done = subprocess.run(
            [self.copy, "--exact", test],
            capture_output=True,
            text=True,
            timeout=600,
            cwd=ROOT / "tests",
            env=dict(os.environ, RUST_BACKTRACE="0"),
        )
        if "1 passed" in done.stdout:
            return []
        failed = re.findall(r"^wrong: (\S+) (\S+) ", done.stdout, re.M)
        assert failed and "1 failed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
        return failed


def listed():
    """The mutants that change nothing a case could see: table, row, mutant -> reason."""
    found = {}
    for line in (ROOT / "tests/model_mutants.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            table, rows, mutant, reason = (part.strip() for part in line.split(" | "))
            found[(table, rows, mutant)] = reason
    return found


def is_listed(equivalents, table, name, mutant, used):
    for entry in equivalents:
        of_table, rows, pattern = entry
        if table == of_table and (rows == "*" or name in rows.split()) and re.fullmatch(pattern, mutant):
            used.add(entry)
            return True
    return False


def main():
    path, wanted = sys.argv[1], sys.argv[2:]
    tables = [
        syntax for syntax in (Types(), Architectures()) if not wanted or wanted[0] == syntax.file.removesuffix(".txt")
    ]
    equivalents, used, wrong = listed(), set(), 0
    for syntax in tables:
        table = table_of(syntax)
        program = Program(path, table)
        rows = {syntax.name(line): line for line in table.splitlines() if line and not line.startswith("#")}
        chosen = [name for name in rows if not wanted[1:] or name.startswith(tuple(wanted[1:]))]
        assert program.run(table, syntax.test) == [], "the test fails on the table as it is"
        survivors, total = [], 0
        for kind in ("rotating", "other"):
            left = {name: list(syntax.mutants(rows[name])) for name in chosen if syntax.kind(rows[name]) == kind}
            total += sum(map(len, left.values()))
            while left:
                tried = {name: mutants.pop() for name, mutants in left.items()}
                lines = [
                    (
                        tried[name][1]
                        if (name := "".join(line.split(None, 1)[:1])) in tried
                        and not line.startswith("#")
                        else line
                    )
                    for line in table.splitlines()
                ]
                failed = program.run("\n".join(lines) + "\n", syntax.test)
                seen = set()
                for root, row in failed:
                    seen |= {row} | set(syntax.also(rows.get(row, ""))) if kind == "rotating" else {root}
                survivors += [(name, mutant) for name, (mutant, _) in tried.items() if name not in seen]
                left = {name: mutants for name, mutants in left.items() if mutants}
        equal = [one for one in survivors if is_listed(equivalents, syntax.file, *one, used)]
        survivors = sorted(set(survivors) - set(equal))
        for name, mutant in survivors:
            print(f"{syntax.file}: {name}: {mutant}: no case fails")
        print(
            f"{syntax.file}: {total} mutants of {len(chosen)} rows; {total - len(equal) - len(survivors)} killed / "
            f"{total}, {len(equal)} equivalent by the list, {len(survivors)} survive",
            flush=True,
        )
        wrong += len(survivors)
        for entry in equivalents:
            if not wanted[1:] and entry[0] == syntax.file and entry not in used:
                print(f"model_mutants.txt: no survivor is {' | '.join(entry)}")
                wrong += 1
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
