//! The repository's Markdown as a code host shows it: every link leads to a file or a heading, and no line of a program
//! is hidden. rustdoc shows the pages of both guides, too: `tests/rustdoc_links.py` follows the links that it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that have a guide: their folders.
const GUIDES: [&str; 2] = ["rope-core", "rope-core/models"];

/// The Markdown of a file, without its blocks of code.
#[derive(Debug, Default)]
struct Page {
    /// The lines of each block of Rust.
    programs: Vec<String>,
    /// The targets of inline links and images, and of HTML.
    inline: Vec<String>,
    /// The labels of references: `[text][label]`, and `` [`label`] ``.
    references: BTreeSet<String>,
    /// The definitions of labels: `[label]: target`.
    definitions: BTreeMap<String, String>,
    /// The anchors of the headings.
    anchors: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Calls `found` with every file below a folder that a clone could have.
fn walk(folder: &Path, found: &mut dyn FnMut(PathBuf)) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let built = name.starts_with('.') || name == "target" || name == "node_modules";
        if path.is_dir() && !path.is_symlink() {
            if !built {
                walk(&path, found);
            }
        } else {
            found(path);
        }
    }
}

/// The pages, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let mut pages = BTreeMap::new();
    walk(&root(), &mut |path| {
        if path.extension().is_some_and(|end| end == "md") {
            let text = fs::read_to_string(&path).expect("a page");
            let name = path.strip_prefix(root()).expect("a path in the repository");
            pages.insert(name.to_path_buf(), Page::read(&text));
        }
    });
    assert!(pages.len() > 40, "{}", pages.len());
    pages
}

/// The anchor that code hosts give a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    heading
        .trim()
        .chars()
        .filter(kept)
        .collect::<String>()
        .to_lowercase()
        .replace(' ', "-")
}

/// The end of a span of code at the start of a text, or of the backticks that begin none.
fn span(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let fence = &text[..ticks];
    text[ticks..]
        .find(fence)
        .map_or(ticks, |end| ticks + end + ticks)
}

/// The end of brackets at the start of a text, if they close.
fn bracketed(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        match text[at..].chars().next()? {
            ']' => return Some(at + 1),
            '`' => at += span(&text[at..]),
            '[' => at += bracketed(&text[at..])?,
            other => at += other.len_utf8(),
        }
    }
}

fn label(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut prose = String::new();
        let mut block: Option<(bool, String)> = None;
        for line in text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut block, fence) {
                (Some((is_rust, _)), Some(_)) => {
                    let (is_rust, code) = (*is_rust, block.take().expect("it is open").1);
                    page.programs.extend(is_rust.then_some(code));
                }
                (Some((_, code)), None) => *code += &format!("{line}\n"),
                (None, Some(info)) => {
                    block = Some((info.is_empty() || info.starts_with("rust"), String::new()));
                }
                (None, None) => prose += &format!("{line}\n"),
            }
        }
        assert!(block.is_none(), "a block of code ends");
        let mut rest = String::new();
        for line in prose.lines() {
            let heading = line.trim_start_matches('#');
            if heading.len() < line.len() && heading.starts_with(' ') {
                page.anchors.insert(anchor(heading));
            }
            match line
                .strip_prefix('[')
                .and_then(|line| line.split_once("]: "))
                .filter(|(_, target)| !target.contains(' '))
            {
                Some((name, target)) => {
                    let twice = page.definitions.insert(label(name), target.to_owned());
                    assert_eq!(twice, None, "{name} is defined once");
                }
                None => rest += &format!("{line}\n"),
            }
        }
        page.links(&rest);
        page
    }

    /// Finds the links of a text without blocks and definitions.
    fn links(&mut self, mut text: &str) {
        while let Some(at) = text.find(['`', '[', '<']) {
            text = &text[at..];
            let len = match text.as_bytes()[0] {
                b'`' => span(text),
                b'<' => {
                    let tag = text.split('>').next().unwrap_or_default();
                    for name in ["href=\"", "src=\""] {
                        let value = tag
                            .split_once(name)
                            .and_then(|(_, rest)| rest.split_once('"'));
                        self.inline
                            .extend(value.map(|(target, _)| target.to_owned()));
                    }
                    1
                }
                _ => bracketed(text).map_or(1, |end| {
                    let name = &text[1..end - 1];
                    // A link around an image.
                    self.links(name);
                    let rest = &text[end..];
                    if let Some(target) = rest.strip_prefix('(') {
                        let target = target.split(')').next().unwrap_or_default();
                        self.inline.push(target.trim().to_owned());
                        end
                    } else if rest.starts_with('[') {
                        let until = bracketed(rest).expect("a label ends");
                        self.references.insert(label(&rest[1..until - 1]));
                        end + until
                    } else {
                        let name = label(name);
                        if name.starts_with('`') || self.definitions.contains_key(&name) {
                            self.references.insert(name);
                        }
                        end
                    }
                }),
            };
            text = &text[len..];
        }
    }
}

/// Returns true if a link leaves the repository. No test follows such links.
fn is_elsewhere(target: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

#[test]
fn every_link_leads_to_a_file_or_a_heading() {
    let pages = pages();
    let mut followed = 0;
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        let folder = root().join(path.parent().expect("a folder"));
        for target in page.inline.iter().chain(page.definitions.values()) {
            if is_elsewhere(target) {
                continue;
            }
            followed += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let led = if file.is_empty() {
                root().join(path)
            } else {
                folder.join(file)
            };
            let Ok(led) = led.canonicalize() else {
                wrong.push(format!("{}: {target}: no such file", path.display()));
                continue;
            };
            if anchor.is_empty() {
                continue;
            }
            let root = root().canonicalize().expect("the root");
            let of_page = led.strip_prefix(root).ok().and_then(|led| pages.get(led));
            if !of_page.is_some_and(|page| page.anchors.contains(anchor)) {
                wrong.push(format!("{}: {target}: no such heading", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(followed > 300, "{followed}");
}

#[test]
fn every_reference_is_defined_and_every_definition_used() {
    for (path, page) in pages() {
        let defined: BTreeSet<String> = page.definitions.keys().cloned().collect();
        assert_eq!(
            page.references,
            defined,
            "{}: its references, and its definitions",
            path.display()
        );
    }
}

/// Code hosts show the lines that rustdoc hides, and rustdoc's paths as they are.
#[test]
fn pages_hide_no_lines() {
    for (path, page) in pages() {
        for line in page.programs.iter().flat_map(|code| code.lines()) {
            let hidden = line == "#" || line.starts_with("# ");
            assert!(!hidden, "{}: {line}", path.display());
        }
    }
}

/// The pages of a guide: their paths in `src`, with the programs that rustdoc shows below them.
fn in_rustdoc(guide: &str) -> Vec<(&str, Vec<&str>)> {
    let of_macro = guide.split("page!(").skip(1).map(|module| {
        let until = module.split(");").next().unwrap_or_default();
        let mut quoted = until.split('"').skip(1).step_by(2);
        (quoted.next().expect("a page"), quoted.collect())
    });
    let c = guide
        .contains("guide/c.md")
        .then_some(("guide/c.md", vec!["../capi/examples/layer.c"]));
    of_macro.chain(c).collect()
}

/// `links.txt` has rustdoc's definition of each reference, and the page's own leads to a file with the same name in it.
#[test]
fn rustdoc_has_a_definition_of_every_reference() {
    for folder in GUIDES {
        let source = root().join(folder).join("src");
        let read = |path: &str| fs::read_to_string(source.join(path)).expect("a file of the guide");
        let for_rustdoc = Page::read(&read("guide/links.txt")).definitions;
        let mut used = BTreeSet::new();
        let guide = read("guide.rs");
        let mut listed = BTreeSet::new();
        for (path, _) in in_rustdoc(&guide) {
            listed.insert(path.to_owned());
            let page = Page::read(&read(path));
            let has_none = |target: &&String| !is_elsewhere(target);
            let inline: Vec<_> = page.inline.iter().filter(has_none).collect();
            assert!(
                inline.is_empty(),
                "{path}: {inline:?} lead nowhere in rustdoc: define them at the foot"
            );
            for (name, target) in page.definitions {
                let item = for_rustdoc
                    .get(&name)
                    .unwrap_or_else(|| panic!("links.txt: {name}"));
                used.insert(name.clone());
                let (item, section) = item.split_once('#').unwrap_or((item, ""));
                if target.ends_with(".rs") && section.is_empty() && !item.contains("::guide::") {
                    let code =
                        fs::read_to_string(source.join("guide").join(&target)).expect("a file");
                    let last = item
                        .trim_end_matches("()")
                        .rsplit("::")
                        .next()
                        .unwrap_or_default();
                    let is_part = |c: char| c.is_alphanumeric() || c == '_';
                    let named = code.split(|c| !is_part(c)).any(|word| word == last);
                    assert!(named, "{path}: {name}: {target} has no {last}");
                }
            }
        }
        let all: BTreeSet<String> = for_rustdoc.into_keys().collect();
        assert_eq!(used, all, "{folder}: what the pages use of links.txt");
        walk(&source.join("guide"), &mut |file| {
            let name = format!(
                "guide/{}",
                file.file_name().expect("a name").to_string_lossy()
            );
            assert!(
                !name.ends_with(".md") || listed.contains(&name),
                "guide.rs: {name}"
            );
        });
    }
}

/// A page leads to the programs that rustdoc shows below it.
#[test]
fn pages_lead_to_their_programs() {
    for folder in GUIDES {
        let source = root().join(folder).join("src");
        let guide = fs::read_to_string(source.join("guide.rs")).expect("a guide");
        let mut programs = 0;
        for (path, shown) in in_rustdoc(&guide) {
            let page = Page::read(&fs::read_to_string(source.join(path)).expect("a page"));
            for program in shown {
                let target = format!("../{program}");
                assert!(
                    page.definitions.values().any(|led| *led == target),
                    "{path}: {program}"
                );
                programs += 1;
            }
        }
        assert!(programs > 5, "{folder}: {programs}");
    }
}

/// The aliases of a source file, each with the name of its item.
fn aliases(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rest in code.split("#[doc(alias").skip(1) {
        let (names, item) = rest.split_once(")]").expect("an attribute ends");
        let line = item.lines().find(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with('#') && !line.starts_with("//")
        });
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words = line
            .into_iter()
            .flat_map(|line| line.split(|c| !is_part(c)));
        let kinds = [
            "", "pub", "const", "unsafe", "fn", "struct", "enum", "trait",
        ];
        let item = words
            .into_iter()
            .find(|word| !kinds.contains(word))
            .expect("an item");
        let names = names.split('"').skip(1).step_by(2);
        found.extend(names.map(|name| (name.to_owned(), item.to_owned())));
    }
    found
}

/// rustdoc finds each name of the page of names, at the item that the page names.
#[test]
fn names_of_other_code_are_aliases() {
    let source = root().join("rope-core/src");
    let mut in_code = BTreeSet::new();
    walk(&source, &mut |file| {
        if file.extension().is_some_and(|end| end == "rs") {
            in_code.extend(aliases(&fs::read_to_string(file).expect("a source")));
        }
    });
    let page = fs::read_to_string(source.join("guide/names.md")).expect("a page");
    let mut on_page = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let (names, rest) = row[2..].split_once(" | ").expect("two columns");
        let Some((item, _)) = rest
            .strip_prefix("[`")
            .and_then(|rest| rest.split_once("`]"))
        else {
            // Another crate's, or a group.
            continue;
        };
        let item = item.rsplit("::").next().unwrap_or_default();
        for name in names.split('`').skip(1).step_by(2) {
            on_page.insert((name.to_owned(), item.to_owned()));
        }
    }
    assert_eq!(in_code, on_page, "`doc(alias)`, and guide/names.md");
    assert!(on_page.len() > 80, "{}", on_page.len());
}

#[test]
fn anchors_are_those_of_code_hosts() {
    assert_eq!(
        anchor(" From C, and in frameworks"),
        "from-c-and-in-frameworks"
    );
    assert_eq!(anchor(" `dory`: layers of an MLP"), "dory-layers-of-an-mlp");
    let page =
        Page::read("# A b\n[x](y#z) [`t`], [u][v]\n`[n](o)`\n```\nlet a = 1;\n```\n[v]: w\n");
    assert_eq!(page.inline, ["y#z"]);
    assert_eq!(
        page.references,
        BTreeSet::from(["`t`".to_owned(), "v".to_owned()])
    );
    assert!(page.definitions["v"] == "w" && page.anchors.contains("a-b"));
    assert_eq!(page.programs, ["let a = 1;\n"]);
    let found = aliases("#[doc(alias(\n\"a\",\n \"b\"\n))]\n#[inline]\npub const fn c(");
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], ("b".to_owned(), "c".to_owned()));
}
