//! Reads and writes reports: a file is either complete or missing.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::results::{FORMAT, Run};

/// The name of a record of knobs, beside those of runs.
pub const TUNING: &str = "tuning.json";

/// Writes under a temporary name beside the target, and renames when everything is on the disk.
pub fn write(path: &Path, contents: &[u8]) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    if is_device(path) {
        return fs::write(path, contents).with_context(fail);
    }
    let unfinished = Unfinished(temporary(path)?);
    let mut file = File::create(&unfinished.0).with_context(fail)?;
    file.write_all(contents).with_context(fail)?;
    file.sync_all().with_context(fail)?;
    drop(file);
    fs::rename(&unfinished.0, path).with_context(fail)
}

/// Checks that a file can be written, before a run instead of after it.
pub fn check_writable(path: &Path) -> Result<()> {
    let name = path.display();
    ensure!(!path.is_dir(), "cannot write {name}: it is a directory");
    if !is_device(path) {
        let unfinished = Unfinished(temporary(path)?);
        File::create(&unfinished.0).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Writes a run as a record: one line, which nobody reads, in the repository.
pub fn record(path: &Path, run: &Run) -> Result<()> {
    keep(path, serde_json::to_vec(run)?)
}

/// Writes a line of JSON, and makes its folder.
pub fn keep(path: &Path, mut json: Vec<u8>) -> Result<()> {
    let folder = path.parent().context("a record is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    json.push(b'\n');
    write(path, &json)
}

/// Writes to a file, or to the standard output for `-`.
pub fn write_or_print(path: &Path, contents: &[u8]) -> Result<()> {
    if path.as_os_str() != "-" {
        return write(path, contents);
    }
    let written = io::stdout().lock().write_all(contents);
    written.context("cannot write to the standard output")
}

/// Reads the JSON of a run.
pub fn read(path: &Path) -> Result<Run> {
    let name = path.display();
    let text = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    parse(&text, &name.to_string())
}

/// Parses the JSON of a named run.
pub fn parse(text: &[u8], name: &str) -> Result<Run> {
    let value: serde_json::Value =
        serde_json::from_slice(text).with_context(|| format!("{name} is not JSON"))?;
    match value.get("format").and_then(|format| format.as_str()) {
        Some(FORMAT) => {}
        Some(other) => {
            bail!("{name} is in the format {other:?}; this program reads {FORMAT:?}")
        }
        None => bail!("{name} was not written by rope-bench: it has no \"format\""),
    }
    serde_json::from_value(value).with_context(|| format!("{name} is damaged"))
}

/// Returns true if a file begins as the JSON of a run does; a program does not.
pub fn is_run(path: &Path) -> Result<bool> {
    let mut first = [0];
    File::open(path)
        .and_then(|mut file| file.read(&mut first))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(first == *b"{")
}

/// Reads several runs, with their files. A folder stands for the `.json` files in it and below, by name.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Run)>> {
    let mut runs = Vec::new();
    for path in paths {
        let mut files = vec![path.clone()];
        if path.is_dir() {
            files.clear();
            recorded(path, &mut files)?;
            ensure!(
                !files.is_empty(),
                "no .json file in {} or below",
                path.display()
            );
            files.sort();
        }
        for file in files {
            let run = read(&file)?;
            runs.push((file, run));
        }
    }
    Ok(runs)
}

/// Collects the runs below a folder: its `.json` files, except records of knobs.
pub fn recorded(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let fail = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(fail)? {
        let path = entry.with_context(fail)?.path();
        if path.is_dir() {
            recorded(&path, files)?;
        } else if path.extension().is_some_and(|of| of == "json") && !path.ends_with(TUNING) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns a run as JSON.
pub fn json(run: &Run) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(run)?;
    text.push(b'\n');
    Ok(text)
}

/// Returns true for a pipe, a terminal or the like, which a file must not replace.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// A file that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The rename has moved the file: nothing is left to remove.
        let _ = fs::remove_file(&self.0);
    }
}

fn temporary(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        bail!("cannot write {}: it names no file", path.display())
    };
    let mut name = name.to_owned();
    if !cfg!(target_family = "wasm") {
        // Separates concurrent runs. WebAssembly has no processes.
        name.push(format!(".{}", std::process::id()));
    }
    name.push(".partial");
    Ok(path.with_file_name(name))
}
