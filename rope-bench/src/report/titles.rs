//! The titles that distinguish runs on a page: a letter, a file, a machine.

use std::path::PathBuf;

use crate::results::Run;

/// A run with a title.
#[derive(Clone, Debug)]
pub struct Titled {
    /// A, B, and so on where there are several; nothing for a single one.
    pub letter: String,
    /// The file it was read from, without `.json`.
    pub file: String,
    pub run: Run,
}

impl Titled {
    /// Titles for runs that were read from files.
    pub fn all(runs: Vec<(PathBuf, Run)>) -> Vec<Titled> {
        let is_one = runs.len() == 1;
        let titled = runs
            .into_iter()
            .enumerate()
            .map(|(index, (path, run))| Titled {
                letter: if is_one { String::new() } else { letter(index) },
                file: match path.file_stem().filter(|_| is_one) {
                    Some(name) => name.display().to_string(),
                    None => path.with_extension("").display().to_string(),
                },
                run,
            });
        titled.collect()
    }

    /// `A before`, or the file alone.
    pub fn short(&self) -> String {
        format!("{} {}", self.letter, self.file).trim().to_owned()
    }
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
    #[test]
    fn letters_do_not_end() {
        assert_eq!([0, 25, 26, 53].map(super::letter), ["A", "Z", "A2", "B3"]);
    }
}
