#!/usr/bin/env python3
"""Flips one bit of every class of golden value and fails if no test notices. README.md beside this file has the usage.

A class is a key of a file without the digits that number it (a position, an index); where lines are columns, a column.
blind.txt lists the classes whose lowest bit no test can see, with the reason of each:
  information FILES KEYS reason   no flip is seen: nothing computes with it
  bound FILES KEYS reason         compared within a bound, or an input of what is rounded: the lowest bit of some value
                                  is not seen, and the highest is
"""
import concurrent.futures
import fnmatch
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests/golden")
PHASES = "rope-core/src/kernel/sincos/phases_u128.txt"
WORK = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "blind")
SEED = int(os.environ.get("ROPE_SEED", "1"))
# What reads nothing of a file by its keys says what it reads here.
UNLOGGED = {"phases_u128.txt": "core", "logits/": "candle"}
# Lines whose words are columns, by the file and the first word; "" is any.
COLUMNS = {"phases_u128.txt": "", "hard_midpoints.txt": "", "hard_near_zero.txt": "", "models/keys.txt": "",
           "models/without_rotation.txt": "", "norm/sum_order.txt": r"\d+",
           "cache/fp8_e4m3fn.txt": "", "cache/fp8_e5m2.txt": "", "norm/special_d40.txt": "case",
           "cache/scatter16.txt": "case", "mixed/ropevit_init.txt": "case",
           **{f"mixed/timm_{name}.txt": "angles_fnv1a64"
              for name in ("2h_d32_real_coords", "2h_d64_7x9_ij", "3h_d48_7x9_xy", "vit_small_14x14_xy")}}


# What of a case of a model is no answer, beside its configuration; a type and a GGUF architecture read some of its
# keys.
INPUTS = ("part", "layer_type", "length", "note", "hf_error", "cases.#.id", "cases.#.length", "cases.#.factors.#")
INPUT_KEYS = ("cases.#.keys.", "cases.#.config.")


def class_of(key):
    """Numbers go, but not those of types, as in f32."""
    return re.sub(r"(?<![A-Za-z0-9])\d+", "#", key)


def flipped(word, high):
    """A word with its lowest bit flipped, or its sign."""
    if high and re.fullmatch(r"-?[0-9a-f]+,[0-9a-f]+", word):
        # Whole turns, and what is beyond them.
        whole, fraction = word.split(",")
        return f"{flipped(whole, False)},{fraction}"
    if high:
        digit = next((i for i, c in enumerate(word) if c in "0123456789abcdef"), None)
        if digit is None:
            return word[:-1] + chr(ord(word[-1]) ^ 2)
        return word[:digit] + format(int(word[digit], 16) ^ 8, "x") + word[digit + 1:]
    last = word[-1]
    if re.fullmatch("[0-9a-f]", last):
        return word[:-1] + format(int(last, 16) ^ 1, "x")
    return word[:-1] + chr(ord(last) ^ 1)


def flipped_json(value, high):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return -value - 1 if high else value ^ 1
    if isinstance(value, float):
        bits, = struct.unpack("<Q", struct.pack("<d", value))
        return struct.unpack("<d", struct.pack("<Q", bits ^ (1 << 63 if high else 1)))[0]
    return flipped(value, high) if value else "x"


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, path + (key,))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, path + (index,))
    elif value is not None:
        yield path


def set_leaf(document, path, high):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = flipped_json(document[path[-1]], high)


def json_class(path):
    return class_of(".".join("#" if isinstance(key, int) else key for key in path))


# The values of a class that are tried: of a NaN, and of an input that is rounded away, no test sees the lowest bit.
ATTEMPTS = 12


def pick(choices, *name):
    """One of some, by the seed and a name, so that another class does not move it."""
    return random.Random(f"{SEED} {name}").choice(choices)


def classes_of(file, text):
    """The classes of a file: name -> its text with a bit flipped, as a function of which bit and of the attempt."""
    found = {}
    if file.endswith(".json"):
        document = json.loads(text)
        paths = {}
        for path in leaves(document):
            name = json_class(path)
            if file.startswith("published/"):
                # As it was published: most keys say nothing of a rotation, and the rest is one class.
                if not re.search("rope|rotary|theta|model_type", name):
                    continue
                name = "config"
            paths.setdefault(name, []).append(path)
        for name, of_class in paths.items():
            def flip(high, attempt, of_class=of_class, name=name):
                changed = json.loads(text)
                set_leaf(changed, pick(of_class, file, name, attempt), high)
                return json.dumps(changed)
            found[name] = flip
        return found
    lines = text.split("\n")
    if file.endswith(".jsonl"):
        documents = [json.loads(line) for line in lines if line]
        paths = {}
        for index, document in enumerate(documents):
            for path in leaves(document):
                name = json_class(path)
                if name.startswith("config."):
                    # Hundreds of types, each with keys of its own, of which most say nothing of a rotation.
                    name = "config"
                paths.setdefault(name, []).append((index, path))
        for name, of_class in paths.items():
            # What one case ignores may matter to another: inputs flip in all cases at once, answers in one.
            def flip(high, attempt, of_class=of_class, name=name):
                every = name in INPUTS or name.startswith(INPUT_KEYS)
                some = of_class if every else [pick(of_class, file, name, attempt)]
                changed = list(lines)
                of_line = {}
                for index, path in some:
                    of_line.setdefault(index, []).append(path)
                for index, of_index in of_line.items():
                    document = json.loads(lines[index])
                    for path in of_index:
                        set_leaf(document, path, high)
                    changed[index] = json.dumps(document)
                return "\n".join(changed)
            found[name] = flip
        return found
    places = {}
    for index, line in enumerate(lines):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if file == "models/inverse_frequencies.txt":
            places.setdefault("values", []).append((index, None))
        elif file in COLUMNS and re.fullmatch(COLUMNS[file] or ".*", words[0]):
            names = not re.fullmatch(r"\d+|[0-9a-f]{32}", words[0]) and COLUMNS[file] != ""
            key = class_of(words[0]) if names or words[0] in ("code", "sat") else "line"
            for column in range(1 if key != "line" else 0, len(words)):
                places.setdefault(f"{key}[{column}]", []).append((index, column))
        else:
            for column in range(1, len(words)):
                places.setdefault(class_of(words[0]), []).append((index, column))
    for name, of_class in places.items():
        def flip(high, attempt, of_class=of_class, name=name):
            index, column = pick(of_class, file, name, attempt)
            changed = list(lines)
            if column is None:
                line = lines[index]
                at = 8 * pick(range(len(line) // 8), name, attempt)
                changed[index] = line[:at] + flipped(line[at:at + 8], high) + line[at + 8:]
            else:
                parts = re.split(r"(\s+)", lines[index])
                parts[2 * column] = flipped(parts[2 * column], high)
                changed[index] = "".join(parts)
            return "\n".join(changed)
        found[name] = flip
    return found


class Test:
    def __init__(self, program, name):
        self.program, self.name, self.seconds, self.reads = program, name, 0.0, set()

    def run(self, golden, reads=None):
        """Returns True if the test passes on a copy of the golden data."""
        environment = dict(os.environ, ROPE_GOLDEN=golden, ROPE_SEED=str(SEED), RUST_BACKTRACE="0")
        if reads:
            environment["ROPE_GOLDEN_READS"] = reads
        start = time.monotonic()
        path, folder = self.program
        done = subprocess.run([path, "--exact", self.name], env=environment, cwd=folder, capture_output=True, text=True,
                              timeout=900)
        self.seconds = time.monotonic() - start
        if "1 passed" not in done.stdout and done.returncode == 0:
            sys.exit(f"{self.name} did not run:\n{done.stdout}")
        self.output = done.stdout
        return done.returncode == 0


def copies(count):
    """Copies of the golden data, one for each worker."""
    made = []
    for index in range(count):
        copy = os.path.join(WORK, str(index))
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(GOLDEN, copy)
        shutil.copy(os.path.join(ROOT, PHASES), copy)
        made.append(copy)
    return made


def built(*target):
    """The program of a test target."""
    command = ["cargo", "test", "--no-run", "--message-format=json", *target]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found = [line for line in map(json.loads, lines) if line.get("executable") and line["profile"]["test"]]
    assert len(found) == 1, found
    return found[0]["executable"]


def programs_for(wanted):
    """The programs that read the wanted files. Those of candle only by name: they take minutes to build."""
    def wants(file):
        return not wanted or any(file.startswith(start) or start.startswith(file) for start in wanted)
    # Asked of the whole workspace, it is built already.
    programs = {"suites": built("--workspace", "--test", "suites")}
    if wants("phases_u128.txt"):
        programs["core"] = built("-p", "rope-core", "--lib")
    if wanted and wants("logits/"):
        programs["candle"] = built("--manifest-path", "rope-core/adapters/candle/models/Cargo.toml", "--test", "golden")
    return programs


def main():
    wanted = sys.argv[1:]
    programs = programs_for(wanted)
    os.makedirs(WORK, exist_ok=True)
    workers = int(os.environ.get("ROPE_WORKERS") or len(os.sched_getaffinity(0)))
    free = copies(workers)
    lock = threading.Lock()

    def with_copy(work):
        def run(*arguments):
            with lock:
                copy = free.pop()
            try:
                return work(copy, *arguments)
            finally:
                with lock:
                    free.append(copy)
        return run

    # The tests that read golden data, what they read, and how long each takes.
    tests = []
    for kind, path in programs.items():
        folder = os.path.join(ROOT, {"suites": "tests", "core": "rope-core", "candle": "rope-core/adapters/candle/models"}[kind])
        listed = subprocess.run([path, "--list"], capture_output=True, text=True, check=True).stdout
        names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        ignored = subprocess.run([path, "--list", "--ignored"], capture_output=True, text=True, check=True).stdout
        names = [name for name in names if name + ": test" not in ignored.splitlines()]
        if kind == "suites":
            readers = [name.removesuffix(".rs") for name in os.listdir(os.path.join(ROOT, "tests/suites"))
                       if name.endswith(".rs") and "golden" in open(os.path.join(ROOT, "tests/suites", name)).read()]
            names = [name for name in names if name.split("::")[0] in readers]
        if kind == "core":
            names = [name for name in names if name.endswith("sincos::tests::phases")]
        for name in names:
            test = Test((path, folder), name)
            test.kind = kind
            tests.append(test)

    @with_copy
    def observe(copy, test):
        log = os.path.join(WORK, f"reads of {test.name}".replace("::", "."))
        if os.path.exists(log):
            os.remove(log)
        if not test.run(copy, log):
            sys.exit(f"{test.name} fails on the golden data as it is:\n{test.output}")
        if os.path.exists(log):
            test.reads = set(open(log).read().splitlines())
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(observe, tests))

    files = []
    for folder, _, names in os.walk(free[0]):
        files += [os.path.relpath(os.path.join(folder, name), free[0]) for name in names
                  if name.endswith((".txt", ".json", ".jsonl"))]
    files = sorted(file for file in files if not wanted or file.startswith(tuple(wanted)))
    # Which program reads a file that no suite does.
    def kind_of(file):
        return next((kind for start, kind in UNLOGGED.items() if file.startswith(start)), "suites")
    kinds = {file: kind_of(file) for file in files}
    for kind, skipped in itertools.groupby(sorted(files, key=kinds.get), key=kinds.get):
        if kind not in programs:
            print(f"not flipped, as the tests of {kind} were not asked for by name: {' '.join(skipped)}", flush=True)
    files = [file for file in files if kinds[file] in programs]
    texts = {file: open(os.path.join(free[0], file)).read() for file in files}
    classes = [(file, name, flip) for file in files for name, flip in classes_of(file, texts[file]).items()]

    def readers(file, name):
        """The tests that may see a class, the quickest first."""
        kind = kinds[file]
        found = []
        for test in tests:
            keys = [read[len(file) + 1:] for read in test.reads if read.startswith(file + " ")]
            asked = [class_of(key.split()[0]) for key in keys]
            by_key = name in asked or re.sub(r"\[\d+\]$", "", name) in asked or "*" in asked
            if test.kind == kind and (kind != "suites" or by_key):
                found.append(test)
        return sorted(found, key=lambda test: test.seconds)

    listed = []
    for line in open(os.path.join(ROOT, "tests/tools/blind.txt")):
        if line.strip() and not line.startswith("#"):
            kind, of_files, keys, reason = line.split(None, 3)
            listed.append((kind, of_files, keys, reason.strip()))
    used = set()

    def entry(file, name):
        for index, (kind, of_files, keys, reason) in enumerate(listed):
            if any(fnmatch.fnmatchcase(file, pattern) for pattern in of_files.split("|")) and \
                    any(fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in keys.split("|")):
                used.add(index)
                return kind, reason
        return None, None

    def write(copy, file, text):
        with open(os.path.join(copy, file), "w") as output:
            output.write(text)

    @with_copy
    def seen(copy, file, name, flip, high, of_all=False):
        """The test that sees a flip of some value of a class (of all of those that are tried), or none."""
        tried, found = set(), None
        try:
            for attempt in range(ATTEMPTS):
                changed = flip(high, attempt)
                if changed == texts[file]:
                    sys.exit(f"{file} {name}: nothing flipped")
                if changed in tried:
                    continue
                tried.add(changed)
                write(copy, file, changed)
                found = next((test.name for test in readers(file, name) if not test.run(copy)), None)
                if (found is None) == of_all:
                    return found
        finally:
            write(copy, file, texts[file])
        return found

    wrong, counts, information = [], {"bits": 0, "bound": 0, "information": 0}, {}
    quiet = []
    todo = []
    for file, name, flip in classes:
        kind, reason = entry(file, name)
        if kind == "information":
            counts["information"] += 1
            information.setdefault(reason, []).append(f"{file} {name}")
            quiet.append((file, name, flip))
        else:
            todo.append((file, name, flip, kind))

    def flip_one(one):
        file, name, flip, kind = one
        if kind == "bound":
            return one, seen(file, name, flip, False, True), seen(file, name, flip, True)
        low = seen(file, name, flip, False)
        return one, low, low or seen(file, name, flip, True)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for (file, name, _, kind), low, high in pool.map(flip_one, todo):
            if kind == "bound" and high and not low:
                counts["bound"] += 1
            elif kind is None and low:
                counts["bits"] += 1
            else:
                fate = f"listed, but {low} sees its lowest bit" if low else \
                    "only its highest bit is seen" if high else "no test sees it"
                wrong.append(f"{file} {name}: {fate}")
                print(wrong[-1], flush=True)

    # What is listed as unseen, all at once: every test must pass.
    def unseen(some, high, attempt, of_tests):
        """The tests, of some, that fail."""
        copy = free[0]
        by_file = {}
        for file, name, flip in some:
            by_file.setdefault(file, []).append(flip)
        for file, flips in by_file.items():
            # Each flip changes words of its own.
            parts = texts[file].split("\n")
            for flip in flips:
                parts = merged(parts, texts[file], flip(high, attempt), file)
            write(copy, file, "\n".join(parts))
        failing = [test for test in of_tests if any(test in of_file[file] for file in by_file) and not test.run(copy)]
        for file in by_file:
            write(copy, file, texts[file])
        return failing

    def seen_nevertheless(some, high, attempt, of_tests):
        """The smallest parts of some, by halves, that a test sees, with the test."""
        failing = unseen(some, high, attempt, of_tests)
        if not failing:
            return []
        middle = len(some) // 2
        halves = [some[:middle], some[middle:]] if middle else []
        found = [one for half in halves for one in seen_nevertheless(half, high, attempt, failing)]
        return found or [(some, failing[0].name)]

    of_file = {file: set(reader for name in by_name for reader in readers(file, name))
               for file, by_name in names_of(classes).items()}
    for high, attempt in ((False, 0), (False, 1), (False, 2), (True, 0)):
        for some, test in seen_nevertheless(quiet, high, attempt, tests):
            names = " with ".join(f"{file} {name}" for file, name, _ in some)
            wrong.append(f"{names}: listed, but {test} sees it")
            print(wrong[-1], flush=True)
    if not wanted:
        for index, (kind, of_files, keys, _) in enumerate(listed):
            if index not in used and not of_files.startswith("logits/"):
                wrong.append(f"blind.txt: nothing is {of_files} {keys}")
                print(wrong[-1])
    print("information only:")
    for reason, names in information.items():
        print(f"  {reason}: {len(names)}")
        for name in names:
            print(f"    {name}")
    flips, noticed = len(todo), counts["bits"] + counts["bound"]
    print(f"seed {SEED}: {len(classes)} classes of {len(files)} files; {flips} flipped / {noticed} noticed "
          f"({counts['bits']} by the lowest bit, {counts['bound']} within a bound); {counts['information']} "
          f"information only; {len(wrong)} wrong; {time.monotonic() - start:.0f} s")
    sys.exit(1 if wrong else 0)


def names_of(classes):
    found = {}
    for file, name, _ in classes:
        found.setdefault(file, []).append(name)
    return found


def merged(parts, before, after, file):
    """The lines of `parts`, with the words that `after` changed."""
    if file.endswith(".json"):
        return merged_json(parts, before, after)
    old, new = before.split("\n"), after.split("\n")
    for index, (a, b) in enumerate(zip(old, new)):
        if a == b:
            continue
        if file.endswith(".jsonl"):
            parts[index] = merged_json([parts[index]], a, b)[0]
            continue
        words = list(zip(re.split(r"(\s+)", a), re.split(r"(\s+)", b)))
        current = re.split(r"(\s+)", parts[index])
        parts[index] = "".join(y if x != y else z for (x, y), z in zip(words, current))
    return parts


def merged_json(parts, before, after):
    document, old, new = (json.loads(text) for text in ("\n".join(parts), before, after))
    for path in leaves(old):
        a, b, c = old, new, document
        for key in path[:-1]:
            a, b, c = a[key], b[key], c[key]
        if a[path[-1]] != b[path[-1]]:
            c[path[-1]] = b[path[-1]]
    return [json.dumps(document)]


main()
