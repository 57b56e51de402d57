#!/usr/bin/env python3
"""Cycles that the inner loops of rope-core should take on CPUs that are not here, as llvm-mca predicts them.

    cycles.py [--mca llvm-mca] [--loops FILE] [--json FILE] [--bench rope-bench] x86_64=core.s aarch64=core.s ..

The assembly is what `cargo rustc --release -p rope-core --lib -- --emit asm -C debuginfo=0 -C
symbol-mangling-version=v0` writes, for x86-64 with `-C llvm-args=--x86-asm-syntax=intel`. It is a prediction: all data
are in the first cache, all branches foreseen, and a CPU is what LLVM's scheduler knows of it. Where a store of ARM also
moves its own address (`str d4, [x22], #8`), llvm-mca lets the new address wait for the data, so that some scalar loops
take less than it says. With --bench, rope-bench measures the loops that run here, in the first cache.

A way through a loop begins at a label and ends with a jump back to it; it calls nothing and passes no inner loop. It
rotates heads in place if it reads as many bytes from memory as it writes there, those of cos and sin besides where they
are not kept in registers, and if they are a part of a head. Constants and the function's own frame are not memory. Of
several ways the one that rotates the most elements is meant, then the one with the most loops around it, as what is
left over when all whole passes are done stands outside; then the shortest, as compilers put what is rare out of the
way.

The scalable backends are assembly, which marks its loops over heads by comments. An iteration rotates more elements
with longer vectors; the table counts those of 128 bits.
"""
import argparse
import json
import re
import subprocess

HEAD_DIM = 128
# The most ways through a loop that are looked at, and how often llvm-mca plays one.
WAYS, ITERATIONS = 4000, 1000
# Backends, the fastest first, and targets. Without vectors, `portable` runs the scalar loops; those of RISC-V are not
# looked at.
ARCHITECTURES = {
    "x86_64": ("avx512bf16 avx512 avx2 portable scalar", "x86_64-unknown-linux-gnu"),
    "aarch64": ("sve neon portable scalar", "aarch64-unknown-linux-gnu"),
    "riscv64": ("rvv", "riscv64-unknown-linux-gnu"),
    "thumbv7em": ("scalar", "thumbv7em-none-eabihf"),
}
# Scalable backends, and the elements of an iteration with vectors of 128 bits.
SCALABLE = {"sve": 16, "rvv": 32}
# Name, LLVM's name, architecture, the first backend that it runs, how the units of a model of its own are called, and
# the bits of scalable vectors. Skylake-X has no VBMI2, which the backend `avx512` needs.
CPUS = [
    ("Sapphire Rapids", "sapphirerapids", "x86_64", "avx512bf16", "SPR"),
    ("Zen 5", "znver5", "x86_64", "avx512bf16", "Zn5"),
    ("Zen 4", "znver4", "x86_64", "avx512bf16", "Zn4"),
    ("Zen 3", "znver3", "x86_64", "avx2", "Zn3"),
    ("Skylake-X", "skylake-avx512", "x86_64", "avx2", "SKX"),
    ("Neoverse V1", "neoverse-v1", "aarch64", "sve", "V1", 256),
    ("Neoverse V2", "neoverse-v2", "aarch64", "sve", "V2", 128),
    ("A64FX", "a64fx", "aarch64", "sve", "A64FX", 512),
    ("Neoverse N1", "neoverse-n1", "aarch64", "neon", "N1"),
    ("Apple M1", "apple-m1", "aarch64", "neon", "M1"),
    ("Cortex-A76", "cortex-a76", "aarch64", "neon", "A76"),
    ("Cortex-A53", "cortex-a53", "aarch64", "neon", "A53"),
    ("Cortex-M4", "cortex-m4", "thumbv7em", "scalar", "M4"),
    ("SiFive P670", "sifive-p670", "riscv64", "rvv", "SiFiveP600", 128),
    ("SiFive X390", "sifive-x390", "riscv64", "rvv", "VLEN1024X300SiFive7", 1024),
    ("SpacemiT X60", "spacemit-x60", "riscv64", "rvv", "SMX60", 256),
]
ELEMENTS = {"f32": 4, "bf16": 2, "f16": 2}
# Control never passes these: jumps that are always taken, and exits. It comes back after calls.
ENDS = {"jmp", "b", "b.w", "ret", "ud2", "bx", "br", "pop"}
CALLS = {"call", "bl", "blx", "blr"}
X86_SIZES = ["byte", "word", "dword", "qword", "xmmword", "ymmword", "zmmword"]


def functions(text):
    """The labels and instructions of each function. A name that was set equal to another has the other's lines."""
    found, lines = {}, []
    for line in text.splitlines():
        # Comments: `#` on x86 (an ARM immediate follows its `#` at once), `//` and `@` on ARM.
        line = re.split(r"# |#\t|//|@ |\t#APP|\t#NO_APP", line)[0].strip()
        if line.endswith(":") and not line.startswith(".L"):
            lines = found[line[:-1]] = []
        elif line.startswith(".set"):
            alias, _, of = line[4:].partition(",")
            if of.strip() in found:
                found[alias.strip()] = found[of.strip()]
        elif line and (line.endswith(":") or not line.startswith(".")):
            lines.append(" ".join(line.split()))
    return found


def assembled(text):
    """The loops of kernels in assembly that rotate in place, by element and pairing."""
    found = {}
    marked = re.finditer(r"in place: (\w+) (\w+)\s+(\.L\w+):(.*?\s\3)\n", text, re.S)
    for element, pairing, _, loop in (match.groups() for match in marked):
        lines = [" ".join(re.split("#\\s|//", line)[0].split()) for line in loop.splitlines()]
        found[element, pairing.lower()] = [line for line in lines if line and not line.startswith(".")]
    return found


def kernel(name):
    """The backend, element and pairing of a demangled function, if it rotates in place with nothing before it."""
    backend = re.search(r"<rope_core::simd::(\w+)::", name)
    of = re.search(r"::RotateLine<[^<]*::Same<([^>]*), ([^>]*)>>+$", name)
    if backend and of:
        element, pairing = [path.rsplit("::", 1)[-1] for path in of.groups()]
        backend = backend[1] + ("bf16" if "inside_bf16" in name else "")
        if not any(backend in backends.split() for backends, _ in ARCHITECTURES.values()):
            raise SystemExit(f"no architecture has the backend {backend}")
        return backend, element, pairing.lower()


def target(line):
    """Where a jump or a branch goes. Loads of constants, which name labels too, begin with other letters."""
    last = re.split("[ ,]", line)[-1]
    return last if line[0] in "jbct" and last.startswith(".L") else None


def returns(lines, places, head, end, label):
    """Returns True if a label inside a loop begins an inner loop: control returns to it without passing the outer label.

    Otherwise the jump back to it ends a block that the compiler moved out of the way.
    """
    seen, todo = set(), [label + 1]
    while todo:
        at = todo.pop()
        while at <= end and at not in seen and at != head:
            if at == label:
                return True
            seen.add(at)
            line = lines[at]
            at += 1
            to = places.get(target(line))
            if to is not None and head <= to <= end:
                todo.append(to)
            if line.split(" ")[0] in ENDS:
                break
    return False


def ways(lines, places, head, end, inner):
    """All ways from a label to itself."""
    found, todo = [], [(head + 1, [])]
    while todo:
        at, way = todo.pop()
        while at <= end and at not in inner and len(way) <= end - head:
            line = lines[at]
            at += 1
            if line.endswith(":"):
                continue
            way = way + [line]
            to = places.get(target(line))
            if to == head:
                found.append(way)
            elif to is not None and head <= to <= end:
                todo.append((to, way))
            if line.split(" ")[0] in ENDS | CALLS:
                break
        if len(found) + len(todo) > WAYS:
            raise ValueError("a loop with too many ways through it")
    return found


def access(name, operands):
    """The address, bytes and direction of an instruction that reads or writes memory, and whether it has a vector."""
    before, bracket, rest = operands.partition("[")
    if not bracket:
        before, _, rest = operands.rpartition(", ")
    if name.startswith(("lea", "nop", "prefetch", "prfm", "pld")):
        return None
    address = rest.split("]")[0]
    if before.endswith(" ptr "):
        # x86, in Intel's syntax, which says how large an operand in memory is; the first one is written.
        size = before.split()[-2]
        reads_only = name.startswith(("cmp", "test", "ucomi", "vucomi", "comi", "vcomi"))
        writes = "," not in before and "], " in operands and not reads_only
        return address, 1 << X86_SIZES.index(size), writes, "mm" in operands
    stores = name.startswith(("st", "vst"))
    if not stores and not name.startswith(("ld", "vld")) or not bracket and not address.startswith(".L"):
        return None

    def size(register):
        if register[0] == "v" and register.endswith((".8b", ".4h", ".2s", ".1d")):
            return 8
        if register[0] in "wrl":
            return {"h": 2, "b": 1}.get(name[-1], 4)
        return {"q": 16, "v": 16, "d": 8, "x": 8, "h": 2, "b": 1}.get(register[0], 4)

    registers = [register for register in re.split("[,{} ]+", before) if register]
    return address, sum(map(size, registers)), stores, any(register[0] in "vqdsh" for register in registers)


def rotated(way, size, scalar, framed):
    """The elements that a way rotates in place, or 0, and the vectors and other values that it keeps on the stack."""
    stack = ("rsp", "sp", "rbp", "x29") if framed else ("rsp", "sp")
    read = written = 0
    kept = {True: 0, False: 0}
    # What two instructions read from one address counts once, unless its registers changed in between.
    seen = set()
    for line in way:
        name, _, operands = line.partition(" ")
        found = access(name, operands)
        if not found:
            changed = operands.split(",")[0]
            seen = {address for address in seen if not changed or changed not in address}
            continue
        address, count, writes, vector = found
        if any(mark in address for mark in ("rip", "LCPI", ":lo12:")):
            pass
        elif address.startswith(stack):
            kept[vector] += 1
        elif writes:
            written += count
        elif address not in seen:
            read += count
            seen.add(address)
        # ARM's stores and loads may move the address: `[x8], #32`, `[x8, #32]!`.
        if "], " in operands and " ptr " not in operands or operands.endswith("!"):
            moved = address.split(",")[0]
            seen = {address for address in seen if moved not in address}
    elements, rest = divmod(written, size)
    is_part = elements >= 2 and HEAD_DIM % elements == 0 and rest == 0
    is_rotation = is_part and read == written + (4 * elements if scalar else 0)
    return elements if is_rotation else 0, (kept[True], kept[False])


def hot(lines, size, scalar):
    """The loop over the elements of a head that are rotated in place: its elements, instructions and stack."""
    places = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    # From each label to the last jump back to it.
    jumps = [(places.get(target(line)), at) for at, line in enumerate(lines)]
    extents = {head: at for head, at in jumps if head is not None and head <= at}
    framed = any(line.startswith(("mov rbp, rsp", "lea rbp, [rsp", "mov x29, sp", "add x29, sp")) for line in lines)
    best = None
    for head, end in extents.items():
        inner = {at for at in extents if head < at <= end and returns(lines, places, head, end, at)}
        around = sum(first < head and end < last for first, last in extents.items())
        for way in ways(lines, places, head, end, inner):
            elements, stack = rotated(way, size, scalar, framed)
            order = (elements, around, -len(way), -head)
            if elements and (best is None or order > best[0]):
                best = (order, (elements, way, stack))
    if best is None:
        raise ValueError("no loop rotates elements in place")
    return best[1]


def play(mca, architecture, cpu, loops):
    """The first unit of a CPU's model and the cycles of each loop, or None if llvm-mca does not know the CPU."""
    text = ".intel_syntax noprefix\n" if architecture == "x86_64" else ""
    # Older versions know no other sign of a comment.
    # What `vsetvli` set before the loop.
    state = "# LLVM-MCA-RISCV-LMUL M4\n# LLVM-MCA-RISCV-SEW E32\n" if architecture == "riscv64" else ""
    text += "".join(f"# LLVM-MCA-BEGIN {i}\n{state}{code}\n# LLVM-MCA-END {i}\n" for i, code in enumerate(loops))
    triple = ARCHITECTURES[architecture][1]
    options = [f"-mtriple={triple}", f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "--json"]
    command = [mca, *options, "-instruction-info=0", "-resource-pressure=0", "-"]
    played = subprocess.run(command, input=text, capture_output=True, text=True)
    if "is not a recognized processor" in played.stderr:
        return None
    if played.returncode:
        raise SystemExit(f"{' '.join(command)}: {played.stderr}")
    said = json.loads(played.stdout)
    regions = said["CodeRegions"]
    if [region["Name"] for region in regions] != [str(i) for i in range(len(loops))]:
        raise SystemExit(f"{' '.join(command)}: {len(regions)} loops of {len(loops)}\n{played.stderr}")
    summaries = [region["SummaryView"] for region in regions]
    # A unit of several has a NUL and its number after its name.
    unit = re.match(r"\w*", said["TargetInfo"]["Resources"][0])[0]
    return unit, [summary["TotalCycles"] / summary["Iterations"] for summary in summaries]


def measured(bench):
    """Nanoseconds of an element by kernel, in the first cache: the difference of 48 heads and 16."""
    shapes = [f"1,1,{heads},{HEAD_DIM}" for heads in (16, 48)]
    command = [bench, "--shape", shapes[0], "--shape", shapes[1], "--formulation", "fused", "--json", "-"]
    run = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    times = {}
    for case in run["cases"]:
        for line in case["measurements"]:
            kernel = f"{line['formulation'].removeprefix('fused/')} {case['element']} {case['pairing']}"
            times.setdefault(kernel, {})[case["workload"]] = line["time"]["minimum"]
    few, many = shapes
    return run["machine"]["architecture"], {
        kernel: (of[many] - of[few]) / (32 * HEAD_DIM) for kernel, of in times.items()
    }


def predict(architecture, path, mca, listing, here):
    """Prints a table of an architecture; returns it, how many loops were found, and the notes below the table."""
    with open(path) as file:
        text = file.read()
    found, marked = functions(text), assembled(text)
    rotations = [symbol for symbol in found if "RotateLine" in symbol]
    filt = mca.replace("llvm-mca", "llvm-cxxfilt")
    names = subprocess.run([filt], input="\n".join(rotations), capture_output=True, text=True, check=True).stdout
    kernels = {}
    for symbol, name in zip(rotations, names.splitlines()):
        if kernel(name):
            kernels.setdefault(kernel(name), []).append(found[symbol])
    backends, rows, notes = ARCHITECTURES[architecture][0].split(), [], []
    for element in ELEMENTS:
        for pairing in ("half", "interleaved"):
            # `avx512bf16` is the same as `avx512`, but for bf16.
            for backend in backends if element == "bf16" else [of for of in backends if of != "avx512bf16"]:
                loop, problem = None, "no such function"
                if backend in SCALABLE and (element, pairing) in marked:
                    loop = SCALABLE[backend], marked[element, pairing], (0, 0)
                for lines in kernels.get((backend, element, pairing), []):
                    try:
                        loop = loop or hot(lines, ELEMENTS[element], backend == "scalar")
                    except ValueError as error:
                        problem = error
                rows.append((backend, f"{backend} {element} {pairing}", loop))
                if loop:
                    code = "\n".join(loop[1])
                    listing.append(f"# {architecture} {rows[-1][1]}: {loop[0]} elements\n{code}\n\n")
                else:
                    notes.append(f"{architecture} {rows[-1][1]}: not found: {problem}")
    table = [[architecture, "loop", "stack"]]
    for _, name, loop in rows:
        elements, way, stack = loop or (0, [], (0, 0))
        kept = f"{stack[0]} {stack[1]}" if any(stack) else ""
        table.append([name, f"{elements} in {len(way)}" if loop else "not found", kept])
    for name, cpu, of, first, own, *bits in CPUS:
        able = backends[backends.index(first):] if of == architecture else []
        ours = [row for row in rows if row[0] in able and row[2]]
        if not ours:
            continue
        played = play(mca, architecture, cpu, ["\n".join(loop[1]) for _, _, loop in ours])
        if not played:
            notes.append(f"{name}: {mca} does not know it")
            continue
        unit, cycles = played
        if not unit.startswith(own):
            notes.append(f"* {name}: no model of its own; played on that whose units are called {unit}")
        table[0].append(name if unit.startswith(own) else name + "*")
        longer = {backend: bits[0] / 128 for backend in SCALABLE if bits}
        of_loops = {
            row[1]: count / (row[2][0] * longer.get(row[0], 1)) for row, count in zip(ours, cycles)
        }
        for line in table[1:]:
            line.append(f"{of_loops[line[0]]:.3f}" if line[0] in of_loops else "")
    if here[0] == architecture:
        table[0].append("ns here")
        for line in table[1:]:
            line.append(f"{here[1][line[0]]:.4f}" if line[0] in here[1] else "")
    widths = [max(map(len, column)) for column in zip(*table)]
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("   ".join([line[0].ljust(widths[0]), *cells]).rstrip())
    print()
    return table, sum(row[2] is not None for row in rows), notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mca", default="llvm-mca", help="the newer, the more CPUs it knows")
    parser.add_argument("--loops", help="writes the loops to this file, as they are played")
    parser.add_argument("--json", help="writes the tables to this file, by architecture and loop")
    parser.add_argument("--bench", help="the rope-bench that measures the loops of this machine beside the predictions")
    parser.add_argument("files", nargs="+", metavar="ARCHITECTURE=ASSEMBLY")
    options = parser.parse_args()
    here = measured(options.bench) if options.bench else (None, {})
    print("PREDICTED cycles for each element. A loop: elements and instructions of an iteration. The stack: vectors\n"
          "and other values that it keeps there\n")
    listing, results = [], []
    for file in options.files:
        architecture, _, path = file.partition("=")
        results.append(predict(architecture, path, options.mca, listing, here))
    for note in (note for _, _, notes in results for note in notes):
        print(note)
    found = sum(found for _, found, _ in results)
    print(f"{found} loops found, {sum(len(table) - 1 for table, _, _ in results) - found} not found")
    if options.loops:
        with open(options.loops, "w") as file:
            file.writelines(listing)
    if options.json:
        tables = {
            heading[0]: {line[0]: dict(zip(heading[1:], line[1:])) for line in lines}
            for (heading, *lines), _, _ in results
        }
        with open(options.json, "w") as file:
            json.dump(tables, file, indent=1)


main()
