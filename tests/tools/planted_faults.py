#!/usr/bin/env python3
"""Plants one fault at a time in rope-core and the C API, and prints which tests find it. README.md has the usage.

planted_faults.txt names an expression of a file and what stands there instead. A copy of the tree holds every fault,
each beside the right expression; the environment chooses one. So all faults cost one build, and each costs a run.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = pathlib.Path(os.environ.get("ROPE_FAULTS", ROOT / "target/planted_faults"))
CRATES = {"core": "rope-core/src", "capi": "rope-core/capi/src"}
# The suites that call the C API; a fault of the core is for all suites.
SUITES = {"core": [], "capi": ["bodies::", "full::", "moves::", "outputs::", "shards::"]}
SWITCH = """
extern crate std as faults;

/// Returns true if the environment chooses this fault.
#[doc(hidden)]
pub fn planted(fault: u32) -> bool {
    static CHOSEN: faults::sync::OnceLock<u32> = faults::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| faults::env::var("ROPE_FAULT").map_or(0, |chosen| chosen.parse().unwrap())) == fault
}
"""


class Fault:
    """A line of planted_faults.txt: `crate/file[#n] | expression | fault`, where n counts from 1."""

    def __init__(self, number, line):
        self.number, self.line = number, line
        place, self.right, self.wrong = (part.strip() for part in line.split(" | "))
        place, _, nth = place.partition("#")
        self.crate, _, file = place.partition("/")
        self.path, self.nth = pathlib.Path(CRATES[self.crate]) / file, int(nth or 0)

    def plant(self, text):
        """The text with the fault beside the expression, which stands there once unless its number is given."""
        edge = r"\b" if re.match(r"\w", self.right[-1]) else ""
        found = list(re.finditer(re.escape(self.right) + edge, text))
        assert len(found) >= 1 and (self.nth or len(found) == 1), f"{self.line}: {len(found)} places"
        at = found[max(self.nth, 1) - 1]
        name = "crate::planted" if self.crate == "core" else "rope_core::planted"
        both = f"(if {name}({self.number}) {{ {self.wrong} }} else {{ {at[0]} }})"
        return text[: at.start()] + both + text[at.end() :]


def build(faults):
    """Copies the tree, plants the faults, and returns the programs of the C API's tests and of the suites."""
    tree = FOLDER / "tree"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    kept = {file for file in listed if file and (ROOT / file).is_file()}
    for file in kept:
        to = tree / file
        if to.is_file() and to.read_bytes() == (ROOT / file).read_bytes():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if not (file.endswith(".rs") and any(file.startswith(folder + "/") for folder in CRATES.values())):
            shutil.copy(ROOT / file, to)
    for file in [path for path in tree.rglob("*") if path.is_file() and str(path.relative_to(tree)) not in kept]:
        file.unlink()
    for crate, folder in CRATES.items():
        for path in (ROOT / folder).rglob("*.rs"):
            relative = path.relative_to(ROOT)
            text = path.read_text()
            for fault in faults:
                if fault.path == relative:
                    text = fault.plant(text)
            if relative.name == "lib.rs" and relative.parent == pathlib.Path(folder):
                head, mark, rest = text.partition("#![")
                text = head + "#![allow(warnings, clippy::all)]\n" + mark + rest
                text += SWITCH if crate == "core" else ""
            to = tree / relative
            if not to.is_file() or to.read_text() != text:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(text)
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics", "-p", "rope-capi", "-p", "rope-tests"]
    environment = dict(os.environ, CARGO_TARGET_DIR=str(FOLDER / "target"))
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-8000:]
    programs = {}
    for line in done.stdout.splitlines():
        built = json.loads(line)
        if built.get("executable") and built["profile"]["test"] and built["target"]["name"] in ("calls", "suites"):
            programs[built["target"]["name"]] = built["executable"]
    assert set(programs) == {"calls", "suites"}, programs
    return tree, programs


def failed(tree, program, filters, number):
    """The tests that fail with this fault; a program that crashes or does not end has found it, too."""
    environment = dict(os.environ, ROPE_FAULT=str(number), ROPE_SEED="1", RUST_BACKTRACE="0")
    folder = tree / ("tests" if "suites" in program else "rope-core/capi")
    command = ["nice", program, "--test-threads", "2", *filters]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return ["(it does not end)"]
    names = sorted(set(re.findall(r"^test (\S+) \.\.\. FAILED$", done.stdout, re.M)))
    return names or ([f"(it ends with {done.returncode})"] if done.returncode else [])


def main():
    lines = (ROOT / "tests/tools/planted_faults.txt").read_text().splitlines()
    faults = [Fault(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    tree, programs = build(faults)
    wanted = sys.argv[1:]
    chosen = [fault for fault in faults if not wanted or any(word in fault.line for word in wanted)]
    for name, program in programs.items():
        found = failed(tree, program, SUITES["capi"] if name == "suites" else [], 0)
        assert not found, f"{name} fails without a fault: {found}"
    survivors = []
    for fault in chosen:
        found = {}
        for name, program in programs.items():
            found[name] = failed(tree, program, SUITES[fault.crate] if name == "suites" else [], fault.number)
        counts = ", ".join(f"{name} {len(tests)}: {' '.join(tests[:3])}" for name, tests in sorted(found.items()))
        print(f"{'found' if any(found.values()) else 'MISSED'} | {fault.line} | {counts}", flush=True)
        survivors += [] if any(found.values()) else [fault.line]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults are found")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
