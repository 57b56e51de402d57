#!/usr/bin/env python3
"""Changes every field of every row of the tables of models and fails if no case notices. README.md has the usage.

The tables are Rust, so mutants are compiled: a copy of rope-models that has all of them beside its rows, and with it the
suites that read the cases. The cases of a type depend on the row of that type alone, so one run of the tests tries
one mutant of each row, the round that ROPE_ROUND names, and says for which types a case fails. The types without a row
have two rounds of their own, in which each of them is a Llama: the composites, whose own row a case reads before that of
the part, and the others.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import model_rows

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = model_rows.SOURCES

# What stands in for a name, as something else that compiles.
SWAPS = {
    "full_attention": "sliding_attention",
    "sliding_attention": "full_attention",
    "linear_attention": "full_attention",
    "indexed_attention": "linear_attention",
    "compressed_sparse_attention": "heavily_compressed_attention",
    "heavily_compressed_attention": "compressed_sparse_attention",
    "window_attention": "full_attention",
    "conv": "full_attention",
    "hybrid": "full_attention",
    "hybrid_sliding": "hybrid",
    "Last": "Every(5)",
    "Head::Given": "Head::Usual",
    "LayerTypes::Needed": "LayerTypes::Unknown",
    "true": "false",
    "false": "true",
    "Formula::Llama": "Formula::Gemma",
    "Formula::Other": "Formula::Llama",
    "NormedLayers::Rotating": "NormedLayers::Still",
    "NormedLayers::Still": "NormedLayers::Rotating",
    "Scaled::Proportional": "Scaled::None",
    "Eps::Fixed": "Eps::Key(Key::rms_norm_eps)",
    "Latent::HeadDimRotates": "Latent::Usual",
    "Latent::FactorOfBoth": "Latent::Usual",
}
PIECE = re.compile(r'"[^"]*"|\d[\d_]*(?:\.\d+)?(?:e-?\d+)?|\w+(?:::\w+)?')


def changed_number(text):
    """Another number that could stand there."""
    value = float(text.replace("_", ""))
    other = value * 2 if abs(value) < 1 and value else value + (2 if value < 1000 else value)
    return repr(other) if re.search(r"[.e]", text) else str(int(other))


def changed_pieces(value):
    """The expression with one number, or one name in it, changed at a time."""
    for found in PIECE.finditer(value):
        piece = found[0]
        if piece.startswith('"'):
            other = piece[:-1] + 'x"'
        elif piece[0].isdigit():
            other = changed_number(piece)
        elif piece.startswith("Word::"):
            other = "Word::rope" if piece != "Word::rope" else "Word::olmo"
        elif piece.startswith("Key::"):
            other = "Key::rotary_pct" if piece != "Key::rotary_pct" else "Key::rope_ratio"
        elif piece in SWAPS:
            other = SWAPS[piece]
        elif piece.startswith("Formula::"):
            other = "Formula::Llama"
        else:
            continue
        yield value[: found.start()] + other + value[found.end() :]


class Types:
    name, path, definitions, row = "types", model_rows.TYPES, SOURCES / "types/row.rs", "Row"
    tests = ["model_types::every_case_is_equal_in_every_field_or_refused_as_listed",
             "model_types::keys_that_a_class_does_not_name_change_nothing",
             "model_types::layers_have_no_types_where_a_class_names_none",
             "model_types::types_whose_class_does_not_rotate_are_not_answered",
             "model_types::what_a_class_has_by_default_may_be_left_out",
             # By the name of the type that each is of.
             "own_code::chatglm", "own_code::internlm2", "own_code::minimax_text_01", "own_code::nomic_bert",
             "own_code::qwen",
             "published::every_published_file_is_read_as_its_code_runs"]
    base = "HALF"
    # What else could stand in a field.
    OTHERS = {
        "pairs": ["Pairs::Half", "Pairs::NegatedHalf", "Pairs::Interleaved", "Pairs::InterleavedToHalf",
                  "Pairs::InterleavedToHalfOrHalf"],
        "width": ["Name::Usual", "Name::Or(Key::n_embd)"],
        "heads": ["Name::Usual", "Name::Or(Key::n_head)"],
        "depth": ["Name::Usual", "Name::Or(Key::n_layer)"],
        "context": ["Name::Usual", "Name::Absent"],
        "head": ["Head::Usual", "Head::Or(48)", "Head::Quotient", "Head::TwiceQuotient", "latent(32, 32)",
                 "Head::Memory"],
        "part": ["Part::Factor(Key::partial_rotary_factor, 1.0)", "Part::Inside(0.5)", "Part::Channels(8)",
                 "Part::Clvp"],
        "obeys": ["false", "true"],
        "window": ["Window::Whole", "Window::Part", "Window::ExactPart", "Window::End"],
        "values": ["Values::Plain", "Values::Rotated"],
        "base": ["Base::Or(10_000)", "Base::Or(777)", "Base::InsideOr(777)"],
        "parameters": ["Form::Flat", "Form::ByLayerType", "Form::Older(Base::InsideOr(777))", "Form::Compressed",
                       "Form::ThetaOnly"],
        "rope_types": ["RopeTypes::Usual", "RopeTypes::Default", "RopeTypes::Images", "RopeTypes::Mrope",
                       "RopeTypes::Alpha", "RopeTypes::LongRope(512)", "RopeTypes::PhiMoe"],
        "turns": ["false", "true"],
        "softmax": ["false", "true"],
        "axes": ["AxesOf::Text", "AxesOf::Vision", "AxesOf::Mrope([4, 4, 4])"],
        "layers": ["LayerTypes::Unknown", "Rules(&[(full_attention, Every(2)), (sliding_attention, Always)])"],
        "rotates": ["Rotates::All", "Rotates::Sliding", "Rotates::SlidingOrAll", "Rotates::ExceptEvery(2)",
                    "Rotates::ByBase(Key::layer_rope_theta)", "Rotates::Nonzero(Key::layer_rope_theta)",
                    "Rotates::Except(Key::cross_attention_layers, LayerRun { first: 1, step: 5, count: 1 })"],
        "scaled_layers": ["None"],
        "condition": ["Condition::Always", "Condition::If(Key::qk_norm_type, Word::olmo)"],
        "ignores": ["None"],
        "norm": ["None", "Some(norm(Formula::Llama, 1e-3))"],
    }
    # What else a norm could have.
    NORM = ["reach: Reach::Row", "after: true", "switch: Some((Key::qk_norm_type, false))",
            "layers: NormedLayers::Still", "values: true"]

    def mutants(self, row, whole):
        for field, value in whole.items():
            seen = {value}
            others = [*self.OTHERS.get(field, []), *changed_pieces(value)]
            if field == "norm" and value != "None":
                inner = value.removeprefix("Some(").removesuffix(")")
                own = {piece.partition(":")[0] for piece in self.NORM if piece.partition(":")[0] + ":" in inner}
                others += [f"Some(QkNorm {{ {piece}, ..{inner} }})" for piece in self.NORM
                           if piece.partition(":")[0] not in own]
                # Without each of its own particulars.
                own = re.match(r"QkNorm \{ (.*), \.\.(.*) \}$", inner)
                for piece in model_rows.split(own[1]) if own else ():
                    rest = [other for other in model_rows.split(own[1]) if other != piece]
                    others.append(f"Some(QkNorm {{ {', '.join(rest)}{', ' * bool(rest)}..{own[2]} }})")
            if field == "layers" and value.startswith("Rules("):
                rules = model_rows.split(value[len("Rules(&["):-2])
                # The last rule is that of all others.
                for at in range(len(rules) - 1):
                    others.append(f"Rules(&[{', '.join(rules[:at] + rules[at + 1:])}])")
            for other in others:
                if other not in seen:
                    seen.add(other)
                    yield f"{field}: {value} -> {other}", row.changed(**{field: other})


class Architectures:
    name, path, definitions = "architectures", model_rows.ARCHITECTURES, SOURCES / "architecture.rs"
    row = "ArchitectureRow"
    tests = ["gguf::every_architecture_matches_its_cases"]
    base = "NORM"
    OTHERS = {
        "rope": ["Rope::Norm", "Rope::Neox", "Rope::Mrope", "Rope::Imrope", "Rope::NormOrMrope", "Rope::NeoxOrMrope",
                 "Rope::None"],
        "windows": ["Windows::None", "Windows::LastOf(4)", "Windows::FirstOf(4)", "Windows::File"],
        "windows_if": ["WindowsIf::Always", "WindowsIf::Window", "WindowsIf::NotZero", "WindowsIf::Layers64"],
        "local": ["Local::AsOthers", "Local::Own", "Local::Unscaled", "Local::TenThousand", "Local::Plain",
                  "Local::OwnPlain"],
        "own_dim": ["false", "true"],
        "halved": ["false", "true"],
        "rotates": ["RotatedLayers::All", "RotatedLayers::Sliding", "RotatedLayers::SlidingOrLead", "RotatedLayers::SlidingOrAll",
                    "RotatedLayers::Listed", "RotatedLayers::Switched", "RotatedLayers::Only7b"],
        "skips": ["Skips::None", "Skips::LastOf(4)", "Skips::FirstOf(4)"],
        "recurrent": ["Recurrent::None", "Recurrent::NoKeys", "Recurrent::ExceptEvery(4)"],
        "factors": ["Factors::None", "Factors::All", "Factors::Full", "Factors::FullNeeded"],
        "yarn": ["Yarns::Usual", "Yarns::Grok", "Yarns::Mistral3", "Yarns::Deepseek2", "Yarns::Deepseek",
                 "Yarns::Refused"],
        "alpha": ["false", "true"],
        "fixed": ["false", "true"],
        "refuses": ["None"],
    }
    def mutants(self, row, whole):
        refused = whole["rope"].startswith("Rope::Refused")
        for field, value in whole.items():
            # What is refused by its name has nothing else, and neither has what does not rotate.
            if (refused or whole["rope"] == "Rope::None") and field != "rope":
                continue
            # Why a row is refused is for readers.
            pieces = [] if refused else changed_pieces(value)
            seen = {value}
            for other in [*self.OTHERS[field], *pieces]:
                if other not in seen and not (refused and other != "Rope::Norm"):
                    seen.add(other)
                    yield f"{field}: {value} -> {other}", row.changed(**{field: other})


class Program:
    """The suites that read the cases, over a copy of rope-models."""

    TESTS = ["gguf", "model_types", "models", "own_code", "published"]

    def __init__(self):
        self.folder = ROOT / "target/model_mutants"
        models, suites = self.folder / "models", self.folder / "suites"
        shutil.rmtree(models, ignore_errors=True)
        shutil.rmtree(suites, ignore_errors=True)
        shutil.copytree(SOURCES.parent, models)
        suites.mkdir(parents=True)
        (suites / "suites").symlink_to(ROOT / "tests/suites")
        manifest = (models / "Cargo.toml").read_text().partition("[dev-dependencies]")[0]
        manifest = re.sub(r"^(\w|-)+\.workspace = true\n", "", manifest, flags=re.M)
        manifest = manifest.replace("[package]\n", '[package]\nversion = "0.0.0"\nedition = "2024"\nautoexamples = false\n')
        manifest = re.sub(r"^(readme|include|documentation|keywords|categories) .*\n", "", manifest, flags=re.M)
        core = f'rope-core = {{ path = "{ROOT}/rope-core" }}\n'
        (models / "Cargo.toml").write_text(manifest.replace("[dependencies]\n", "[dependencies]\n" + core))
        (suites / "Cargo.toml").write_text(
            '[package]\nname = "suites"\nversion = "0.0.0"\nedition = "2024"\n[lib]\npath = "lib.rs"\n[dependencies]\n'
            + core
            + f'rope-models = {{ path = "{models}" }}\n'
            + f'rope-harness = {{ path = "{ROOT}/tests/src", default-features = false }}\n'
            + 'serde_json = { version = "1", default-features = false, features = ["alloc"] }\n'
            + "[workspace]\n[profile.dev]\ndebug = false\nopt-level = 1\n"
        )
        shutil.copy(ROOT / "Cargo.lock", suites / "Cargo.lock")
        modules = "".join(f'#[path = "{ROOT}/tests/suites/{test}.rs"]\nmod {test};\n' for test in self.TESTS)
        (suites / "lib.rs").write_text("#![cfg(test)]\n#![allow(dead_code, unused)]\n" + modules)
        self.models, self.suites = models, suites

    # Where a table is looked up, and what is put before that.
    LOOKUPS = {
        "types": ("types.rs", "    if let Some((name, row)) = rows::named(name)",
                  "    if let Some((own, row)) = rows::mutant(name) {\n"
                  "        return Some((*own, Type::Rotating(*row)));\n    }\n"),
        "architectures": ("gguf.rs", "        let (name, row) = found.ok_or_else",
                          "        let found = crate::architectures::mutant(self.architecture).or(found);\n"),
    }
    MUTANT = """
extern crate std;

/// The mutant of that name in this run's round.
pub(crate) fn mutant(name: &str) -> Option<&'static (&'static str, NAMED)> {
    static ROUND: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let round = ROUND.get_or_init(|| std::env::var("ROPE_ROUND").map_or(u32::MAX, |round| round.parse().unwrap()));
    let place = MUTANTS.binary_search_by(|(own, row)| (*own, row.0).cmp(&(*round, name))).ok()?;
    Some(&MUTANTS[place].1)
}
"""

    def build(self, syntax, rounds):
        """The suites with these mutants, which are the rows of each round by their names."""
        mutants = [
            f'    ({number}, ("{name}", {row.expression(syntax.row)})),\n'
            for number, rows in enumerate(rounds)
            for name, row in sorted(rows.items())
        ]
        path = self.models / "src" / syntax.path.relative_to(SOURCES)
        made = f"\nstatic MUTANTS: &[(u32, (&str, {syntax.row}))] = &[\n{''.join(mutants)}];\n"
        path.write_text(syntax.path.read_text() + made + self.MUTANT.replace("NAMED", syntax.row))
        file, place, lookup = self.LOOKUPS[syntax.name]
        text = (SOURCES / file).read_text()
        assert text.count(place) == 1, place
        (self.models / "src" / file).write_text(text.replace(place, lookup + place))
        command = ["cargo", "test", "--no-run", "--lib", "--message-format", "json"]
        environment = dict(os.environ, RUSTFLAGS="--cap-lints allow", CARGO_TARGET_DIR=str(self.folder / "target"))
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.suites, env=environment)
        assert done.returncode == 0, done.stderr[-6000:]
        found = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
        self.program = [path for path in found if path][-1]

    def run(self, tests, number):
        """The types for which a case fails in that round: the one looked up first, and the one read."""
        environment = dict(os.environ, RUST_BACKTRACE="0", ROPE_ROUND=str(number))
        command = [self.program, "--quiet", "--exact", *tests]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT / "tests")
        if f"{len(tests)} passed" in done.stdout:
            return []
        failed = re.findall(r"^wrong: (\S+) (\S+) ", done.stdout, re.M)
        failed += [(name, name) for name in re.findall(r"^    own_code::(\w+)$", done.stdout, re.M)]
        assert failed and re.search(r"[1-9]\d* failed", done.stdout), done.stdout[-2000:] + done.stderr[-6000:]
        return failed


class Equivalent:
    """A line of model_mutants.txt: mutants that change nothing a case could see."""

    def __init__(self, line):
        self.line = line
        self.table, rows, self.mutant, _ = (part.strip() for part in line.split(" | "))
        self.used = False
        self.names = None if "=" in rows or rows == "*" else rows.split()
        conditions = (condition.split("=", 1) for condition in rows.split(" & ") if "=" in condition)
        self.conditions = [(field.strip(), pattern.strip()) for field, pattern in conditions]

    def holds(self, table, name, whole, mutant):
        found = (
            table == self.table
            and (self.names is None or name in self.names)
            and all(re.fullmatch(pattern, whole[field]) for field, pattern in self.conditions)
            and re.fullmatch(self.mutant, mutant)
        )
        self.used |= bool(found)
        return found


def listed():
    lines = (ROOT / "tests/tools/model_mutants.txt").read_text().splitlines()
    return [Equivalent(line) for line in lines if line and not line.startswith("#")]


def survivors_of(syntax, program, left, further):
    """The mutants of the rows that no case misses, and of the further rows. A round tries one of each row."""
    rounds = [{name: mutants[number] for name, mutants in left.items() if number < len(mutants)}
              for number in range(max(map(len, left.values()), default=0))]
    program.build(syntax, [{name: row for name, (_, row) in tried.items()} for tried in rounds] + further)
    assert program.run(syntax.tests, len(rounds) + len(further)) == [], "the test fails on the table as it is"
    # A composite whose text model lies flat in the file has the row of that.
    found, flat = [], model_rows.flat() if syntax.name == "types" else {}
    for number, tried in enumerate(rounds):
        failed = program.run(syntax.tests, number)
        seen = {flat.get(row, row) for _, row in failed}
        now = [(name, mutant) for name, (mutant, _) in tried.items() if name not in seen]
        print(f"{syntax.name}: round {number + 1} of {len(rounds)}: {len(tried)} mutants, {len(now)} survive", flush=True)
        found += now
    for number, tried in enumerate(further):
        seen = {name for both in program.run(syntax.tests, len(rounds) + number) for name in both} if tried else set()
        found += [(name, "a row") for name in tried if name not in seen]
    return found


def main():
    wanted = sys.argv[1:]
    tables = [syntax for syntax in (Types(), Architectures()) if not wanted or wanted[0] == syntax.name]
    equivalents, wrong = listed(), 0
    for syntax in tables:
        program = Program()
        rows, *_ = model_rows.read(syntax.path)
        bases = model_rows.bases(syntax.definitions)
        chosen = [name for name in rows if not wanted[1:] or name.startswith(tuple(wanted[1:]))]
        left = {name: list(syntax.mutants(rows[name], model_rows.whole(rows[name], bases))) for name in chosen}
        # Types without a row, each as a Llama.
        others = syntax.name == "types" and not wanted[1:]
        further = model_rows.names() - set(rows) if others else set()
        composites = model_rows.composites()
        further = [{name: model_rows.Row(name, syntax.base, {}) for name in sorted(some)}
                   for some in (further & composites, further - composites)]
        total = sum(map(len, [*left.values(), *further]))
        survivors = set(survivors_of(syntax, program, left, further))
        wholes = {name: model_rows.whole(rows[name], bases) for name in left}
        made = [(name, mutant) for name, mutants in left.items() for mutant, _ in mutants]
        equal = {one for one in made if any([e.holds(syntax.name, one[0], wholes[one[0]], one[1]) for e in equivalents])}
        for name, mutant in sorted(equal - survivors):
            print(f"{syntax.name}: {name}: {mutant}: listed as equivalent, and a case fails")
            wrong += 1
        equal &= survivors
        survivors = sorted(survivors - equal)
        for name, mutant in survivors:
            print(f"{syntax.name}: {name}: {mutant}: no case fails")
        print(
            f"{syntax.name}: {total} mutants of {len(chosen)} rows; {total - len(equal) - len(survivors)} killed / "
            f"{total}, {len(equal)} equivalent by the list, {len(survivors)} survive",
            flush=True,
        )
        wrong += len(survivors)
        for entry in equivalents:
            if not wanted[1:] and entry.table == syntax.name and not entry.used:
                print(f"model_mutants.txt: no mutant is {entry.line}")
                wrong += 1
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
