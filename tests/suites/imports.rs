//! The imports of a crate: layers import downwards, and files form no circles except for the ones named here.
//!
//! An import is a path: in a `use`, or in the code if it begins with `crate`, `super`, `self` or a child module. It
//! leads to the file that defines the name, through any re-exports. A module that re-exports a name of its own files
//! without using it imports nothing. Methods are imports of layers: a type that gets an `impl` in another layer leads
//! its users there. An `impl` of that layer's own traits is allowed, because
//! their users import them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Names with their files.
type Named = [(&'static str, &'static [&'static str])];

/// A crate.
struct Crate {
    /// The folder of its sources, from the root of the repository.
    folder: &'static str,
    /// The layers, the lowest first, with their files, and their folders with the files of the folders' modules.
    layers: &'static Named,
    /// The circles; each is one definition in several files.
    circles: &'static Named,
}

const CORE: Crate = Crate {
    folder: "rope-core/src",
    layers: &[
        ("base", &["base", "tuning"]),
        ("simd", &["proof", "simd"]),
        ("kernel", &["kernel"]),
        ("describe", &["describe"]),
        ("pass", &["pass"]),
        ("execute", &["execute"]),
        ("plan", &["plan"]),
        (
            "crate",
            &["axes", "error", "guide", "internals", "lib", "stages"],
        ),
    ],
    circles: &[],
};

const BENCH: Crate = Crate {
    folder: "rope-bench/src",
    layers: &[
        ("cases", &["cases"]),
        ("measure", &["measure"]),
        ("verify", &["verify"]),
        ("formulations", &["formulations"]),
        ("commands", &["commands"]),
        ("crate", &["lib", "main"]),
    ],
    circles: &[],
};

const MODELS: Crate = Crate {
    folder: "rope-core/models/src",
    layers: &[
        ("base", &["base"]),
        ("tables", &["architecture", "architectures", "types"]),
        ("model", &["model"]),
        ("reading", &["reading"]),
        (
            "crate",
            &[
                "config", "explain", "gguf", "grid", "guide", "initial", "lib",
            ],
        ),
    ],
    circles: &[],
};

/// A crate without layers or circles.
const fn flat(folder: &'static str) -> Crate {
    Crate {
        folder,
        layers: &[],
        circles: &[],
    }
}

const CRATES: [Crate; 10] = [
    CORE,
    BENCH,
    flat("rope-bench/report/src"),
    flat("rope-core/adapters/burn/src"),
    flat("rope-core/adapters/candle/src"),
    flat("rope-core/adapters/ggml/src"),
    flat("rope-core/adapters/onnxruntime/src"),
    flat("rope-core/adapters/torch/src"),
    flat("rope-core/capi/src"),
    MODELS,
];

/// A path, segment by segment.
type Segments = Vec<String>;

/// The imports of a file.
#[derive(Default)]
struct Source {
    /// The names that it imports or re-exports, with the paths of its `use` declarations.
    names: BTreeMap<String, Segments>,
    /// The modules that it imports by a glob.
    globs: Vec<Segments>,
    /// The imported paths.
    imports: BTreeSet<Segments>,
    /// The types of its `impl` blocks, each with the trait if there is one.
    impls: Vec<(Segments, Option<Segments>)>,
    /// The traits that it defines.
    traits: BTreeSet<String>,
}

/// All files of a crate, by their paths without `.rs`.
struct Sources(BTreeMap<String, Source>);

/// Returns the words and the punctuation of a text, without comments and without the unit tests at its end.
fn tokens(text: &str) -> Vec<&str> {
    let (code, _) = text
        .split_once("#[cfg(test)]\nmod tests")
        .unwrap_or((text, ""));
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (len, is_code) = match word {
            0 if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            0 if first == '\'' => (character(rest).unwrap_or(1), false),
            0 if first == '"' => (string(rest), false),
            1 | 2 if rest[..word].ends_with('r') && raw_string(&rest[word..]).is_some() => (
                word + raw_string(&rest[word..]).expect("a raw string"),
                false,
            ),
            0 if rest.starts_with("::") => (2, true),
            0 => (first.len_utf8(), true),
            len => (len, true),
        };
        if is_code {
            tokens.push(&rest[..len]);
        }
        rest = rest[len..].trim_start();
    }
    tokens
}

/// The length of the character literal at the start of a text; none if it is a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut rest = text[1..].chars();
    let escape = if rest.next()? == '\\' { 2 } else { 1 };
    let end = text[1..].char_indices().nth(escape)?.0 + 1;
    let found = text[end..].find('\'')?;
    // An escape like `\u{b5}` is longer.
    (found == 0 || escape == 2).then_some(end + found + 1)
}

/// The length of the raw string after its `r`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let marks = text.find(|c| c != '#')?;
    let inside = text[marks..].strip_prefix('"')?;
    let end = format!("\"{}", &text[..marks]);
    Some(marks + 1 + inside.find(&end)? + end.len())
}

/// The length of the string literal at the start of a text.
fn string(text: &str) -> usize {
    let mut escaped = true;
    let end = text.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.expect("a string ends") + 1
}

/// Reads the tree of a `use` after its keyword. Calls `found` with each path, which ends in `*` for a glob, and with
/// its new name.
fn use_tree<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>,
    before: &[String],
    found: &mut dyn FnMut(Segments, &str),
) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.next() {
        match token {
            "::" => continue,
            "{" => {
                while tokens.peek().is_some_and(|token| *token != "}") {
                    use_tree(tokens, &path, found);
                    tokens.next_if_eq(&",");
                }
                tokens.next();
                return;
            }
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        let renamed = tokens.next_if_eq(&"as").and_then(|_| tokens.next());
        if tokens.peek().is_none_or(|token| *token != "::") {
            let name = renamed.map_or_else(|| path[path.len() - 1].clone(), str::to_owned);
            return found(path, &name);
        }
    }
}

/// Returns the paths of the trait, if there is one, and of the type of an `impl`, from its header.
fn implemented(header: &[&str]) -> (Option<Segments>, Segments) {
    let (mut paths, mut depth, mut last) = (vec![Segments::new()], 0_usize, "");
    for &token in header {
        let is_name = token.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$');
        match token {
            "<" => depth += 1,
            // The arrow of a function's type.
            ">" if last == "-" => {}
            ">" => depth -= 1,
            _ if depth > 0 => {}
            "for" => paths.push(Segments::new()),
            "where" => break,
            "const" | "mut" | "dyn" | "unsafe" => {}
            word if is_name => paths.last_mut().expect("a path").push(word.to_owned()),
            _ => {}
        }
        last = token;
    }
    let own_type = paths.pop().expect("a type");
    (paths.pop(), own_type)
}

impl Source {
    /// Reads a file with the module path `own`.
    fn read(text: &str, own: &[String], files: &BTreeSet<String>) -> Self {
        let mut source = Source::default();
        let tokens = tokens(text);
        // Inline modules, each with the depth of its braces.
        let (mut inside, mut depth): (Vec<(String, usize)>, _) = (Vec::new(), 0);
        let mut shown = Vec::new();
        let mut used = BTreeSet::new();
        let mut at = 0;
        while at < tokens.len() {
            let module: Segments = own
                .iter()
                .cloned()
                .chain(inside.iter().map(|(name, _)| name.clone()))
                .collect();
            let absolute = |path: &[String]| -> Option<Segments> {
                let mut module = module.clone();
                let mut rest = path;
                match path[0].as_str() {
                    "crate" => (module, rest) = (Vec::new(), &path[1..]),
                    "self" => rest = &path[1..],
                    "super" => {
                        while rest.first().is_some_and(|word| word == "super") {
                            (_, rest) = (module.pop(), &rest[1..]);
                        }
                    }
                    child => {
                        let name = [own, &[child.to_owned()]].concat().join("/");
                        if !files.contains(&name) {
                            return None;
                        }
                        module = own.to_vec();
                    }
                }
                module.extend_from_slice(rest);
                Some(module)
            };
            match tokens[at..] {
                ["use", next, ..] if next != "<" => {
                    let public = at > 0 && ["pub", ")"].contains(&tokens[at - 1]);
                    let end = tokens[at..].iter().position(|token| *token == ";");
                    let end = at + end.expect("a `use` ends");
                    let mut tree = tokens[at + 1..end].iter().copied().peekable();
                    use_tree(&mut tree, &[], &mut |path, name| {
                        let Some(path) = absolute(&path) else { return };
                        if name == "*" {
                            let module = path[..path.len() - 1].to_vec();
                            source.globs.push(module.clone());
                            source.imports.insert(module);
                            return;
                        }
                        source.names.insert(name.to_owned(), path.clone());
                        if public && path.starts_with(own) {
                            shown.push((name.to_owned(), path));
                        } else {
                            source.imports.insert(path);
                        }
                    });
                    at = end;
                }
                ["impl", ..] if at == 0 || [";", "}", "]", "unsafe"].contains(&tokens[at - 1]) => {
                    let end = tokens[at..].iter().position(|token| *token == "{");
                    let header = &tokens[at + 1..at + end.expect("an `impl` has a body")];
                    let (of, own_type) = implemented(header);
                    let path = |words: Segments| match words.first() {
                        Some(first) if !first.starts_with('$') => Some(
                            absolute(&words).unwrap_or_else(|| [module.clone(), words].concat()),
                        ),
                        _ => None,
                    };
                    if let Some(own_type) = path(own_type) {
                        source
                            .impls
                            .push((own_type, of.map(|of| path(of).unwrap_or_default())));
                    }
                }
                ["trait", name, ..] => _ = source.traits.insert(name.to_owned()),
                ["mod", name, "{", ..] => {
                    inside.push((name.to_owned(), depth));
                    (depth, at) = (depth + 1, at + 2);
                }
                [first, "::", ..] if at == 0 || tokens[at - 1] != "::" => {
                    let mut path = vec![first.to_owned()];
                    while let ["::", word, ..] = tokens[at + 1..]
                        && word.starts_with(|c: char| c.is_alphabetic() || c == '_')
                    {
                        path.push(word.to_owned());
                        at += 2;
                    }
                    used.insert(first);
                    if path.len() > 1
                        && let Some(path) = absolute(&path)
                    {
                        source.imports.insert(path);
                    }
                }
                ["{", ..] => depth += 1,
                ["}", ..] => {
                    depth -= 1;
                    inside.pop_if(|(_, outside)| *outside == depth);
                }
                [word, ..] => _ = used.insert(word),
                [] => unreachable!("there is a token"),
            }
            at += 1;
        }
        let shown = shown.into_iter();
        let needed = shown.filter(|(name, _)| used.contains(name.as_str()));
        source.imports.extend(needed.map(|(_, path)| path));
        source
    }
}

impl Sources {
    fn read(folder: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(folder);
        let mut texts = BTreeMap::new();
        let mut folders = vec![folder.clone()];
        while let Some(inner) = folders.pop() {
            for entry in fs::read_dir(&inner).expect("the sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs")
                    && !path.ends_with("tests.rs")
                {
                    let name = path
                        .strip_prefix(&folder)
                        .expect("inside")
                        .with_extension("");
                    let name = name.to_str().expect("UTF-8").replace('\\', "/");
                    texts.insert(name, fs::read_to_string(path).expect("a text"));
                }
            }
        }
        let files = texts.keys().cloned().collect();
        let read = |(name, text): (String, String)| {
            let own: Segments = match name.as_str() {
                "lib" => Vec::new(),
                name => name.split('/').map(str::to_owned).collect(),
            };
            let source = Source::read(&text, &own, &files);
            (name, source)
        };
        Sources(texts.into_iter().map(read).collect())
    }

    /// Returns the file that defines the target of a path.
    fn file_of(&self, path: &[String]) -> String {
        let mut file = "lib".to_owned();
        for (index, word) in path.iter().enumerate() {
            let inner = path[..=index].join("/");
            if self.0.contains_key(&inner) {
                file = inner;
            } else if let Some(leads) = self.0[&file].names.get(word)
                && leads[..] != path[..=index]
            {
                return self.file_of(&[leads, &path[index + 1..]].concat());
            } else {
                break;
            }
        }
        file
    }

    /// Returns the imported files of each file.
    fn graph(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let imported = |(name, source): (&'_ String, &Source)| -> BTreeSet<String> {
            let files = source.imports.iter().map(|path| self.file_of(path));
            // The names of other files in a module that is imported by a glob.
            let globs = source.globs.iter().flat_map(|module| {
                let shown = &self.0[&self.file_of(module)].names;
                shown.values().map(|path| self.file_of(path))
            });
            files.chain(globs).filter(|file| file != name).collect()
        };
        let files = self.0.iter();
        files
            .map(|file| (file.0.as_str(), imported(file)))
            .collect()
    }
}

impl Crate {
    /// Returns the layer of a file: its index from below, and its name.
    fn layer(&self, file: &str) -> (usize, &'static str) {
        let holds = |place: &&str| file == *place || file.starts_with(&format!("{place}/"));
        let mut layers = self.layers.iter().enumerate();
        let found = layers.find(|(_, (_, places))| places.iter().any(holds));
        let (index, (name, _)) = found.unwrap_or_else(|| panic!("{file} is in no layer"));
        (index, name)
    }
}

/// Returns all files that a file imports, directly or indirectly.
fn reached<'g>(graph: &'g BTreeMap<&str, BTreeSet<String>>, from: &str) -> BTreeSet<&'g str> {
    let mut reached = BTreeSet::new();
    let mut files: Vec<&str> = graph[from].iter().map(String::as_str).collect();
    while let Some(file) = files.pop() {
        if reached.insert(file) {
            files.extend(graph[file].iter().map(String::as_str));
        }
    }
    reached
}

#[test]
fn layers_import_downwards() {
    let mut upwards = Vec::new();
    for layered in CRATES.iter().filter(|of| !of.layers.is_empty()) {
        for (file, imports) in &Sources::read(layered.folder).graph() {
            let (own, name) = layered.layer(file);
            for import in imports {
                let (other, above) = layered.layer(import);
                if other > own {
                    upwards.push(format!("{file} ({name}) imports {import} ({above})"));
                }
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

/// The methods that a layer adds to types of layers below it, which must not call them.
const ELSEWHERE: [&str; 6] = [
    "describe/tensor (describe) adds methods to describe::tensor::Shape (base)",
    "execute/ops (execute) adds methods to execute::ops::Pass (pass)",
    "execute/staged (execute) adds methods to execute::staged::Pass (pass)",
    "execute/staged (execute) adds methods to execute::staged::Operands (pass)",
    "pass/walk (pass) adds methods to pass::walk::Steps (describe)",
    "proof (simd) adds methods to proof::Backend (base)",
];

/// A method of a type leads to the layer of its `impl`, in which only a trait of that layer may be implemented.
#[test]
fn types_have_their_methods_in_their_own_layer() {
    let mut elsewhere = Vec::new();
    for layered in CRATES.iter().filter(|of| !of.layers.is_empty()) {
        let sources = Sources::read(layered.folder);
        for (file, source) in &sources.0 {
            let (own, name) = layered.layer(file);
            for (of, with) in &source.impls {
                let (other, above) = layered.layer(&sources.file_of(of));
                let has_own_trait = with.as_ref().is_some_and(|with| {
                    let file = sources.file_of(with);
                    let is_here = with
                        .last()
                        .is_some_and(|it| sources.0[&file].traits.contains(it));
                    is_here && layered.layer(&file).0 == own
                });
                if other != own && !has_own_trait {
                    let of = of.join("::");
                    elsewhere.push(format!("{file} ({name}) adds methods to {of} ({above})"));
                }
            }
        }
    }
    assert_eq!(elsewhere, ELSEWHERE);
}

#[test]
fn only_the_named_circles_are_there() {
    for part in &CRATES {
        let sources = Sources::read(part.folder);
        let graph = sources.graph();
        let reached: BTreeMap<&str, BTreeSet<&str>> = graph
            .keys()
            .map(|file| (*file, reached(&graph, file)))
            .collect();
        let circle = |file: &&str| -> Vec<&str> {
            let both =
                |other: &&str| reached[*file].contains(*other) && reached[*other].contains(*file);
            graph.keys().copied().filter(|other| both(other)).collect()
        };
        let circles: BTreeSet<Vec<&str>> = graph
            .keys()
            .map(circle)
            .filter(|circle| !circle.is_empty())
            .collect();
        let named = part
            .circles
            .iter()
            .map(|(_, files)| files.to_vec())
            .collect();
        let edges: Vec<_> = circles
            .iter()
            .flatten()
            .map(|file| {
                let to: Vec<_> = graph[file]
                    .iter()
                    .filter(|to| {
                        circles
                            .iter()
                            .any(|circle| circle.contains(file) && circle.contains(&to.as_str()))
                    })
                    .collect();
                format!("{file} -> {to:?}")
            })
            .collect();
        assert_eq!(circles, named, "{}: {edges:#?}", part.folder);
    }
}

/// The graph has the expected edges: a reader that finds no import would find no circle.
#[test]
fn imports_are_found() {
    let sources = Sources::read(CORE.folder);
    let graph = sources.graph();
    for (file, import) in [
        // A name that the crate re-exports.
        ("describe/rows", "base/error"),
        // A tree of names, and a path in the code.
        ("execute/normed", "kernel/normed"),
        ("pass", "kernel/normed"),
        // A child module.
        ("describe/frequencies", "describe/frequencies/scaling"),
        ("describe/cache", "describe/cache/slots"),
        // A name that the parent module re-exports.
        ("simd/avx512", "simd/cache_line"),
        ("execute/lines", "describe/rows/view"),
        // A name that a module imports for its own files.
        ("kernel/sincos/consecutive", "kernel/sincos/position"),
        // A glob.
        ("proof", "simd/scalar"),
    ] {
        assert!(graph[file].contains(import), "{file}: {:#?}", graph[file]);
    }
    // A module that re-exports a name of its own files without using it.
    assert!(!graph["plan"].contains("plan/outputs"), "{graph:#?}");
}
