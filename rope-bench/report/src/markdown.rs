//! Tables of the texts, in Markdown, and the line below them that names the run.

use std::fmt::Write;

use super::engines::OURS;
use super::results::Run;
use super::table;

/// Returns a table whose first column is bold where it is ours.
pub fn markdown<'a>(
    heading: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = (String, Vec<String>)>,
) -> String {
    let heading: Vec<_> = heading.collect();
    let rule = "---|".repeat(heading.len() + 1);
    let mut text = format!("| | {} |\n|{rule}\n", heading.join(" | "));
    for (name, cells) in rows {
        let bold = if name.starts_with(OURS) { "**" } else { "" };
        let _ = writeln!(text, "| {bold}{name}{bold} | {} |", cells.join(" | "));
    }
    text
}

/// Returns the machine, the date, the commit and the load, on two lines.
pub fn machine(run: &Run) -> String {
    let (name, caches) = (run.machine.name(), run.machine.caches.join(", "));
    let (date, revision, load) = (&run.date, &run.machine.revision, table::load(run));
    format!("{name} ({caches}), {date}, commit {revision}.\n  {load}")
}
