//! The titles of runs on a page: a letter, a file, a machine.

use std::path::PathBuf;

use maud::{Markup, html};

use crate::results::{Load, Run};
use crate::table::load;

/// A run with a title.
#[derive(Clone, Debug)]
pub struct Titled {
    /// A to Z, then numbers, if there are several; empty for a single one.
    pub letter: String,
    /// The file of the run, without `.json`.
    pub file: String,
    pub run: Run,
}

impl Titled {
    /// Returns titles for runs that were read from files.
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

    /// Returns `A before`, or the file alone.
    pub fn short(&self) -> String {
        format!("{} {}", self.letter, self.file).trim().to_owned()
    }
}

/// Returns a warning beside the numbers of a shared machine.
pub fn warning(run: &Titled) -> Markup {
    html! {
        @if run.run.load.as_ref().is_some_and(Load::is_shared) {
            p.warn { @if !run.letter.is_empty() { (run.letter) ": " } (load(&run.run)) " Its times may be too long." }
        }
    }
}

fn letter(index: usize) -> String {
    let letter = ('A'..='Z').nth(index);
    letter.map_or_else(|| index.to_string(), String::from)
}
