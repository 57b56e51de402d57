//! What tells runs apart on a page: a letter, a file, a machine.

use std::path::{Component, Path, PathBuf};

use crate::results::Run;

/// A run with a title.
#[derive(Clone, Debug)]
pub struct Titled {
    /// A, B, and so on where there are several; nothing for a single one.
    pub letter: String,
    /// The file it was read from, as far as it differs from the others' folders, without `.json`.
    pub file: String,
    /// The run.
    pub run: Run,
}

impl Titled {
    /// Titles for runs that were read from files.
    pub fn all(runs: Vec<(PathBuf, Run)>) -> Vec<Titled> {
        let (paths, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        let is_one = runs.len() == 1;
        let named = runs.into_iter().zip(names(&paths)).enumerate();
        named
            .map(|(index, (run, file))| Titled {
                letter: if is_one { String::new() } else { letter(index) },
                file,
                run,
            })
            .collect()
    }

    /// `A before`, or the file alone.
    pub fn short(&self) -> String {
        format!("{} {}", self.letter, self.file).trim().to_owned()
    }
}

/// Paths without the folders that all of them lie in, and without `.json`.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let folders: Vec<Vec<Component<'_>>> = paths
        .iter()
        .map(|path| {
            path.parent()
                .unwrap_or(Path::new(""))
                .components()
                .collect()
        })
        .collect();
    let shared = (0..)
        .take_while(|&depth| {
            let first = folders.first().and_then(|folder| folder.get(depth));
            first.is_some() && folders.iter().all(|folder| folder.get(depth) == first)
        })
        .count();
    let name = |path: &PathBuf| {
        let path: PathBuf = path.components().skip(shared).collect();
        path.with_extension("").display().to_string()
    };
    paths.iter().map(name).collect()
}

/// A to Z, then A2.
fn letter(index: usize) -> String {
    let letter = char::from(b'A' + (index % 26) as u8);
    match index / 26 {
        0 => letter.to_string(),
        more => format!("{letter}{}", more + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(paths: &[&str]) -> Vec<String> {
        names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn files_are_named_by_what_they_do_not_share() {
        assert_eq!(named(&["records/zen5/a.json"]), ["a"]);
        assert_eq!(named(&["r/x/a.json", "r/x/b.json"]), ["a", "b"]);
        assert_eq!(named(&["r/x/a.json", "r/y/a.json"]), ["x/a", "y/a"]);
        assert_eq!(named(&["a.json", "r/a.json"]), ["a", "r/a"]);
    }

    #[test]
    fn letters_do_not_end() {
        assert_eq!([0, 25, 26, 53].map(letter), ["A", "Z", "A2", "B3"]);
    }
}
