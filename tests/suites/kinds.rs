//! Lists of kinds that the compiler does not compare with the definitions.
//!
//! rope-core's enumerations may grow. The compiler therefore does not ask other crates for every variant, and it never
//! asks for every constructor. These tests read the definitions and search for each kind in the texts that must have
//! all of them: the bodies of the fuzz targets, which choose among kinds, the C API, the suites, the bench, the scripts
//! and the tables of the READMEs.

use std::collections::HashSet;

const AXES: &str = include_str!("../../rope-core/src/describe/frequencies/axes.rs");
const CODE: &str = include_str!("../../rope-core/src/describe/cache/quant.rs");
const CACHE_LAYOUT: &str = include_str!("../../rope-core/src/describe/cache/layout.rs");
const DIRECTION: &str = include_str!("../../rope-core/src/base/direction.rs");
const DUAL_CHUNK: &str = include_str!("../../rope-core/src/describe/dual_chunk.rs");
const ELEMENTS: &str = include_str!("../../rope-core/src/kernel/elements.rs");
const FREQUENCIES: &str = include_str!("../../rope-core/src/describe/frequencies.rs");
const GGUF: &str = include_str!("../../rope-core/models/src/gguf/value.rs");
const GRID: &str = include_str!("../../rope-core/models/src/grid.rs");
const IDS: &str = include_str!("../../rope-core/src/describe/ids.rs");
const MIXED: &str = include_str!("../../rope-core/src/describe/frequencies/mixed.rs");
const NORM: &str = include_str!("../../rope-core/src/describe/norm.rs");
const NORM_SUM: &str = include_str!("../../rope-core/src/kernel/norm.rs");
const POSITIONS: &str = include_str!("../../rope-core/src/describe/positions.rs");
const OUTPUTS: &str = include_str!("../../rope-core/src/plan/outputs.rs");
const SCALE: &str = include_str!("../../rope-core/src/describe/scale.rs");
const SCALING: &str = include_str!("../../rope-core/src/describe/frequencies/scaling.rs");
const SHAPE: &str = include_str!("../../rope-core/src/base/shape.rs");
const SLOTS: &str = include_str!("../../rope-core/src/describe/cache/slots.rs");
const STAGE_ORDER: &str = include_str!("../../rope-core/src/base/stage_order.rs");
const TENSOR: &str = include_str!("../../rope-core/src/describe/tensor.rs");

/// Returns the lines between the one that begins with `first` and the next closing brace at the margin.
fn block<'t>(text: &'t str, first: &str) -> impl Iterator<Item = &'t str> {
    let mut lines = text.lines();
    assert!(
        lines.any(|line| line.starts_with(first)),
        "no {first:?} in the source: has it moved?"
    );
    lines.take_while(|line| *line != "}")
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the variants of an enumeration.
fn variants<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    block(text, &format!("pub enum {name}"))
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase))
        .map(word)
        .collect()
}

/// Returns the public functions in a type's first block whose first parameter is not `self`.
fn constructors<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
    let lines: Vec<&str> = block(text, first).collect();
    lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| {
            let line = line.strip_prefix("    pub ")?;
            let rest = line.strip_prefix("const ").unwrap_or(line);
            let rest = rest.strip_prefix("fn ")?;
            // The first parameter is on this line, or on the next.
            let (_, parameters) = rest.split_once('(')?;
            let first = if parameters.is_empty() {
                lines.get(index + 1)?.trim()
            } else {
                parameters
            };
            let first = first.trim_start_matches(['&', ' ']);
            let first = first.strip_prefix("mut ").unwrap_or(first);
            (word(first) != "self").then_some(word(rest))
        })
        .collect()
}

/// Returns the named formulas of norms.
fn formulas() -> Vec<&'static str> {
    block(NORM, "impl NormFormula")
        .filter_map(|line| line.strip_prefix("    pub const "))
        .map(word)
        .collect()
}

/// Asserts that a text has every kind, as `prefix` and its name.
#[track_caller]
fn all_in(text: &str, prefix: &str, kinds: &[&str]) {
    assert!(kinds.len() > 1, "{prefix}: {kinds:?}");
    for kind in kinds {
        let name = format!("{prefix}{kind}");
        let named = text
            .match_indices(&name)
            .any(|(at, _)| word(&text[at + prefix.len()..]) == *kind);
        assert!(named, "{name} is not named");
    }
}

#[test]
fn every_kind_is_fuzzed() {
    let frequencies = include_str!("../src/bodies/frequencies.rs");
    all_in(frequencies, "Scaling::", &variants(SCALING, "Scaling"));
    all_in(frequencies, "Axes::", &constructors(AXES, "impl<'a> Axes<"));
    all_in(frequencies, "Angle::", &variants(FREQUENCIES, "Angle"));
    all_in(frequencies, "GgufValue::", &variants(GGUF, "GgufValue"));

    let rows = include_str!("../src/bodies/generated_rows.rs");
    let positions = constructors(POSITIONS, "impl<'a> Positions<");
    all_in(rows, "Positions::", &positions);
    all_in(rows, "Listed::", &variants(IDS, "Ids"));
    all_in(rows, "Listed::", &variants(IDS, "Coordinates"));
    all_in(rows, "Angle::", &variants(FREQUENCIES, "Angle"));

    let tensor = include_str!("../src/bodies/tensor.rs");
    all_in(tensor, "Layout::", &constructors(TENSOR, "impl Layout"));
    all_in(tensor, "Dimension::", &variants(SHAPE, "Dimension"));

    let norm = include_str!("../src/norm.rs");
    all_in(norm, "NormFormula::", &formulas());
    for kind in ["NormResult", "NormReach"] {
        all_in(norm, &format!("{kind}::"), &variants(NORM, kind));
    }
    all_in(norm, "NormSum::", &variants(NORM_SUM, "NormSum"));
    all_in(norm, "StageOrder::", &variants(STAGE_ORDER, "StageOrder"));
    let cache = include_str!("../src/cache.rs");
    all_in(cache, "QuantScale::", &variants(CODE, "QuantScale"));
    all_in(cache, "HeadScales::", &variants(CODE, "HeadScales"));
    all_in(cache, "ScalePlace::", &variants(CODE, "ScalePlace"));
    let layouts = constructors(CACHE_LAYOUT, "impl CacheLayout");
    all_in(cache, "CacheLayout::", &layouts);
    all_in(cache, "Slots::", &constructors(SLOTS, "impl<'a> Slots<"));
    let quantize = include_str!("../src/quantize.rs");
    all_in(quantize, "QuantFormat::", &variants(CODE, "QuantFormat"));
    let outputs = include_str!("../src/bodies/outputs.rs");
    let targets = constructors(OUTPUTS, "impl<'a> Output<");
    all_in(outputs, "Output::", &targets);
    let chain = include_str!("../src/chain.rs");
    all_in(chain, "Scale::", &constructors(SCALE, "impl<'a> Scale<"));
}

/// Every function of the header is fuzzed, and so called with extreme arguments: see `extremes`.
#[test]
fn every_call_is_fuzzed() {
    let header = include_str!("../../rope-core/capi/include/rope.h");
    let functions: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with(['/', '#', ' ']))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("rope_"))
        .collect();
    assert!(functions.len() > 20, "{functions:?}");
    let calls = concat!(
        include_str!("../src/bodies/calls.rs"),
        include_str!("../src/bodies/calls/arguments.rs"),
    );
    all_in(calls, "", &functions);
}

/// A suite provokes each error: `refused`, by its `errors`, or the suite of the function that refuses.
#[test]
fn every_error_has_a_test() {
    let mut files = vec![];
    rust_files(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("suites"),
        &mut files,
    );
    // `messages` makes every error itself.
    files.retain(|file| !file.ends_with("messages.rs"));
    let suites: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a suite"))
        .collect();
    let words: HashSet<&str> = suites
        .iter()
        .flat_map(|suite| suite.split(|c: char| !c.is_alphanumeric() && c != ':'))
        .collect();
    let of_models = ("", rope_models::Error::NAMES);
    for (group, names) in rope_core::internals::ERRORS.iter().chain([&of_models]) {
        for name in *names {
            let error = format!("{group}Error::{name}");
            assert!(words.contains(&*error), "no suite provokes {error}");
        }
    }
}

/// C has a number for every kind of rope-core.
#[test]
fn every_kind_has_a_number() {
    let scaling = include_str!("../../rope-core/capi/src/scaling.rs");
    all_in(scaling, "Scaling::", &variants(SCALING, "Scaling"));
    let axes = include_str!("../../rope-core/capi/src/axes.rs");
    all_in(axes, "Axes::", &constructors(AXES, "impl<'a> Axes<"));
    let positions = include_str!("../../rope-core/capi/src/positions.rs");
    let kinds = constructors(POSITIONS, "impl<'a> Positions<");
    all_in(positions, "Positions::", &kinds);
    // size_t equals one of the other types.
    let mut lists = variants(IDS, "Ids");
    lists.retain(|list| *list != "Usize");
    all_in(positions, "Ids::", &lists);
    let queries = variants(DUAL_CHUNK, "DualChunkQuery");
    all_in(positions, "DualChunkQuery::", &queries);
    let outputs = include_str!("../../rope-core/capi/src/outputs.rs");
    // A tensor is one group of heads, and groups have rows of any kind (`internals::head_groups`).
    let mut targets = constructors(OUTPUTS, "impl<'a> Output<");
    targets.retain(|target| *target != "tensor");
    all_in(
        &outputs.replace("head_groups(y", "Output::head_groups(y"),
        "Output::",
        &targets,
    );
    let names = include_str!("../../rope-core/capi/src/names.rs");
    all_in(names, "Angle::", &variants(FREQUENCIES, "Angle"));
    all_in(names, "Direction::", &variants(DIRECTION, "Direction"));
    all_in(names, "MixedAngle::", &variants(MIXED, "MixedAngle"));
    let grids = include_str!("../../rope-core/capi/src/initial.rs");
    all_in(grids, "GridIndexing::", &variants(GRID, "GridIndexing"));
    let layouts = include_str!("../../rope-core/capi/src/operand.rs");
    // Packed sequences are one sequence, tokens-major.
    let mut orders = constructors(TENSOR, "impl Layout");
    orders.retain(|order| *order != "thd");
    all_in(layouts, "Layout::", &orders);

    let norm = include_str!("../../rope-core/capi/src/norm.rs");
    all_in(norm, "NormFormula::", &formulas());
    for kind in ["NormResult", "NormReach"] {
        all_in(norm, &format!("{kind}::"), &variants(NORM, kind));
    }
    all_in(norm, "NormSum::", &variants(NORM_SUM, "NormSum"));
    all_in(norm, "StageOrder::", &variants(STAGE_ORDER, "StageOrder"));
    let cache = include_str!("../../rope-core/capi/src/cache.rs");
    all_in(cache, "QuantFormat::", &variants(CODE, "QuantFormat"));
    all_in(cache, "QuantScale::", &variants(CODE, "QuantScale"));
    all_in(cache, "ScalePlace::", &variants(CODE, "ScalePlace"));
    let layouts = constructors(CACHE_LAYOUT, "impl CacheLayout");
    all_in(cache, "CacheLayout::", &layouts);
    let slots = include_str!("../../rope-core/capi/src/slots.rs");
    all_in(slots, "Slots::", &constructors(SLOTS, "impl<'a> Slots<"));
}

/// The bodies over C, or a test of C, have every format of a cache.
#[test]
fn every_format_of_c_is_compared() {
    let cache = include_str!("../../rope-core/capi/src/cache.rs");
    let tests = concat!(
        include_str!("../src/over_c.rs"),
        include_str!("../../rope-core/capi/tests/calls/caches.rs"),
    );
    let tests = tests.replace("rope_cache_format::", "Format::");
    all_in(&tests, "Format::", &variants(cache, "rope_cache_format"));
}

/// The suite that compares with reference data and provokes errors has every scaling and every arrangement of axes.
#[test]
fn every_kind_is_tested() {
    let frequencies = include_str!("frequencies.rs");
    all_in(frequencies, "Scaling::", &variants(SCALING, "Scaling"));
    all_in(frequencies, "Axes::", &constructors(AXES, "impl<'a> Axes<"));
}

/// Every suite would pass for an element that no list has.
#[cfg(not(target_family = "wasm"))]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "compiled_once.sh looks into its objects"
)]
#[path = "../compiled_once.rs"]
mod compiled_once;

#[test]
fn every_element_is_tested() {
    let table = ELEMENTS
        .split_once("$read! {")
        .and_then(|(_, rest)| rest.split_once("\n        }"));
    let (table, _) = table.expect("the table of elements");
    let elements: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split_once(": ")?.1.split_once(" ["))
        .filter_map(|(path, _)| path.rsplit("::").next())
        .collect();
    assert!(elements.len() > 2, "{elements:?}");
    let once = include_str!("../compiled_once.rs");
    let aliases = |text: &'static str, alias: &str| -> Vec<&'static str> {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix(alias)?.strip_suffix(';'))
            .filter_map(|path| path.rsplit("::").next())
            .collect()
    };
    let c = include_str!("../../rope-core/capi/src/operand.rs");
    let c = aliases(c, "type $E = ");
    let bench = include_str!("../../rope-bench/src/cases.rs");
    let bench = aliases(bench, "type $float = ");
    for element in &elements {
        assert!(c.contains(element), "{element}: with_element! of the C API");
        assert!(
            bench.contains(element),
            "{element}: with_float! of the bench"
        );
        let line = format!("    {element}: rotate_");
        assert!(once.contains(&line), "{element}: compiled_once.rs");
    }
    fn name<E: rope_tests::Number>() -> &'static str {
        E::NAME
    }
    fn names<I: rope_tests::Number, O: rope_tests::Number>() -> (&'static str, &'static str) {
        (I::NAME, O::NAME)
    }
    let listed = rope_tests::element_functions!(name: fn() -> &'static str);
    let listed: Vec<&str> = listed.iter().map(|name| name()).collect();
    let elements: Vec<String> = elements.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(listed, elements, "element_functions!");
    let pairs: Vec<_> = elements
        .iter()
        .flat_map(|input| elements.iter().map(move |output| (&**input, &**output)))
        .collect();
    let listed = rope_tests::element_pair_functions!(names: fn() -> (&'static str, &'static str));
    let listed: Vec<_> = listed.iter().map(|names| names()).collect();
    assert_eq!(listed, pairs, "element_pair_functions!");
}

/// A backend that no script expects could stop running without notice.
#[test]
fn every_backend_is_expected_somewhere() {
    let here = include_str!("../backends_here.sh");
    let readmes = [
        include_str!("../../README.md"),
        include_str!("../../rope-core/README.md"),
    ];
    for backend in rope_core::Backend::ALL {
        let name = backend.name();
        let mut words = here.split(|c: char| !c.is_ascii_alphanumeric());
        assert!(words.any(|word| word == name), "{name}: backends_here.sh");
        for readme in readmes {
            let row = format!("| `{name}` |");
            assert!(readme.contains(&row), "no {row} in a README");
        }
    }
}

/// Every page of the guide is in a table, and every program is shown on a page.
#[test]
fn every_page_and_every_program_is_found() {
    let guide = include_str!("../../rope-core/src/guide.rs");
    let readme = include_str!("../../README.md");
    let quoted = |folder: &'static str| -> Vec<&str> {
        guide
            .split('"')
            .filter(|text| {
                text.starts_with(folder) && !text.ends_with(".c") && !text.ends_with(".txt")
            })
            .collect()
    };
    let pages = quoted("guide/");
    assert!(pages.len() > 10, "{pages:?}");
    for page in pages {
        let link = format!("(rope-core/src/{page})");
        assert!(readme.contains(&link), "README: {page}");
    }
    let modules = guide
        .split("page!(")
        .skip(1)
        .map(|rest| word(rest.trim_start()));
    for name in modules {
        let named = guide.contains(&format!("[`{name}`]")) || guide.contains(&format!("]({name})"));
        assert!(named, "the guide's table: {name}");
    }
    let programs = quoted("../examples/");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../rope-core/examples");
    for file in std::fs::read_dir(folder).expect("the examples") {
        let name = file.expect("a file").file_name();
        let name = name.to_str().expect("a name");
        let link = format!("(rope-core/examples/{name})");
        assert!(readme.contains(&link), "README: {name}");
        assert!(
            programs.iter().any(|path| path.ends_with(name)),
            "the guide: {name}"
        );
    }
}

/// The READMEs name the features of rope-core, and the oldest Rust that it builds with.
#[test]
fn readmes_name_the_features_and_the_rust() {
    let manifest = include_str!("../../rope-core/Cargo.toml");
    let features = manifest.split_once("[features]\n").expect("features").1;
    let features = features.split("\n[").next().unwrap_or_default();
    let names: Vec<&str> = features
        .lines()
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .filter(|name| *name != "default")
        .collect();
    assert!(names.len() >= 2, "{names:?}");
    let rust = include_str!("../../Cargo.toml")
        .split_once("rust-version = \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .expect("a version")
        .0;
    for readme in [
        include_str!("../../README.md"),
        include_str!("../../rope-core/README.md"),
    ] {
        for name in &names {
            assert!(readme.contains(&format!("`{name}`")), "{name}");
        }
        let named = readme
            .lines()
            .any(|line| line.contains("Rust") && line.contains(rust));
        assert!(named, "{rust}");
    }
}

/// Every public type and trait of rope-core has a program in its documentation. Types that macros define are indented.
#[test]
fn every_noun_has_an_example() {
    let mut nouns: Vec<&str> = include_str!("../../rope-core/public-api.txt")
        .lines()
        .filter_map(|line| {
            let item = line.split_once("pub ")?.1;
            ["struct ", "enum ", "trait "]
                .iter()
                .find_map(|kind| item.strip_prefix(kind))
        })
        .filter_map(|path| {
            let path = path.split(['<', ' ', '(']).next()?;
            path.trim_end_matches(':').rsplit("::").next()
        })
        .collect();
    nouns.sort_unstable();
    nouns.dedup();
    assert!(nouns.len() > 60, "{nouns:?}");

    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../rope-core/src");
    let mut files = vec![];
    rust_files(&sources, &mut files);
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a source"))
        .collect();
    for noun in nouns {
        let documentation: Vec<String> = texts
            .iter()
            .flat_map(|text| documentation_of(text, noun))
            .collect();
        assert!(!documentation.is_empty(), "{noun} is not found");
        assert!(
            documentation.iter().any(|text| text.contains("```")),
            "{noun} has no example"
        );
    }
}

/// Returns the comments before each public type of this name.
fn documentation_of(text: &str, noun: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let defines = |line: &str| {
        ["pub struct ", "pub enum ", "pub trait "]
            .iter()
            .any(|kind| {
                line.strip_prefix(kind)
                    .is_some_and(|rest| word(rest) == noun)
            })
    };
    let places = (0..lines.len()).filter(|&line| defines(lines[line]));
    places
        .map(|at| {
            let before = lines[..at].iter().rev();
            let comment = before
                .skip_while(|line| !line.starts_with("///"))
                .take_while(|line| line.starts_with("///"));
            comment.map(|line| format!("{line}\n")).collect()
        })
        .collect()
}

/// The grammar of settings: a function that takes `self` and sets a part is `with_part`, and `without_part` sets it to
/// nothing. The bare name reads the part.
#[test]
fn settings_have_one_grammar() {
    let api = include_str!("../../rope-core/public-api.txt");
    let mut settings = 0;
    for line in api.lines() {
        let Some((_, path)) = line.split_once(" fn rope_core::") else {
            continue;
        };
        let Some((path, rest)) = path.split_once('(') else {
            continue;
        };
        let Some((arguments, result)) = rest.rsplit_once(") -> ") else {
            continue;
        };
        // The path of `sum_of_squares<E: ..>` has a type parameter.
        let path = match path.strip_suffix('>') {
            Some(open) => open.rsplit_once('<').expect("a parameter").0,
            None => path,
        };
        let name = path.rsplit("::").next().expect("a name");
        let returns_itself = ["Self", "core::result::Result<Self", "rope_core::Rope<"]
            .iter()
            .any(|own| result.starts_with(own));
        let takes_itself = arguments == "self" || arguments.starts_with("self, ");
        let sets = name.starts_with("with_") || name.starts_with("without_");
        assert!(!sets || takes_itself, "{name} sets nothing");
        if takes_itself && returns_itself {
            let selects = name.starts_with("narrow") || name.starts_with("into_");
            assert!(sets || selects, "{name} sets a part: with_{name}");
            settings += usize::from(sets);
        }
    }
    assert!(settings >= 25, "{settings}");
}

/// Two types of a crate with one name could be confused, whatever their modules. Associated types and the two sides of
/// a `cfg` count as one type each.
#[test]
fn no_two_types_of_a_crate_share_a_name() {
    for sources in [
        "../rope-core/src",
        "../rope-core/models/src",
        "../rope-core/capi/src",
        "../rope-core/adapters/candle/src",
        "../rope-core/adapters/burn/src",
        "../rope-core/adapters/torch/src",
        "../rope-core/adapters/onnxruntime/src",
        "../rope-bench/src",
        "src",
    ] {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
        let mut files = vec![];
        rust_files(&sources, &mut files);
        assert!(files.len() > 2, "{}", sources.display());
        let mut seen: Vec<(String, String)> = vec![];
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            let file = file.display().to_string();
            for name in text.lines().filter_map(type_name) {
                match seen.iter().find(|(known, _)| known == name) {
                    Some((_, first)) if *first != file => {
                        panic!("{name} is a type of {first} and of {file}")
                    }
                    Some(_) => {}
                    None => seen.push((name.into(), file.clone())),
                }
            }
        }
    }
}

/// Collects the sources below a folder.
pub(crate) fn rust_files(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the type that a line at the margin defines.
fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ')?.1,
        None => line,
    };
    ["struct ", "enum ", "trait ", "union ", "type "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
        .map(word)
}
