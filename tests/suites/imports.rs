//! The imports of rope-core: layers import downwards, and files form no circles.
//!
//! An import is a path: in a `use`, or in the code if it begins with `crate`, `super`, `self` or a child module. It
//! leads to the file that defines the name, through any re-exports. A module that re-exports a name of its own files
//! without using it imports nothing. Methods are no imports: a file that adds methods to a type of a lower layer is
//! called through that type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers, the lowest first, with their files, and their folders with the files of the folders' modules.
const LAYERS: [(&str, &[&str]); 8] = [
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
}

/// All files of rope-core, by their paths without `.rs`.
struct Crate(BTreeMap<String, Source>);

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
            0 if rest.starts_with("'\"'") => (3, false),
            0 if first == '"' => (string(rest), false),
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

impl Crate {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rope-core/src");
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
        Crate(texts.into_iter().map(read).collect())
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

/// Returns the layer of a file: its index from below, and its name.
fn layer(file: &str) -> Option<(usize, &'static str)> {
    let holds = |place: &&str| file == *place || file.starts_with(&format!("{place}/"));
    let found = LAYERS
        .iter()
        .position(|(_, places)| places.iter().any(holds));
    found.map(|index| (index, LAYERS[index].0))
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
    let sources = Crate::read();
    let mut upwards = Vec::new();
    for (file, imports) in &sources.graph() {
        let (own, name) = layer(file).unwrap_or_else(|| panic!("{file} is in no layer"));
        for import in imports {
            let (other, above) = layer(import).unwrap_or_else(|| panic!("{import} is in no layer"));
            if other > own {
                upwards.push(format!("{file} ({name}) imports {import} ({above})"));
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn files_form_no_circles() {
    let sources = Crate::read();
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
    assert!(circles.is_empty(), "{circles:#?}");
}

/// The graph has the expected edges: a reader that finds no import would find no circle.
#[test]
fn imports_are_found() {
    let sources = Crate::read();
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
