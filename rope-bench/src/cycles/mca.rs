//! llvm-mca, which plays instructions on a model of a CPU.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Architecture;

/// Times a loop is played: enough that its first rounds do not show.
const ITERATIONS: usize = 1000;

/// The parts of what llvm-mca says that are read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct McaOutput {
    code_regions: Vec<Region>,
    target_info: Target,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Region {
    name: String,
    summary_view: Summary,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Summary {
    iterations: f64,
    total_cycles: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Target {
    resources: Vec<String>,
}

/// Loops on a CPU.
#[derive(Debug)]
pub struct Played {
    /// The units of the model, by which one sees whose model it is.
    pub units: Vec<String>,
    /// Cycles of an iteration of each loop.
    pub cycles: Vec<f64>,
}

/// Its version, and the CPU that it runs on, in its own words.
pub fn version(program: &str) -> Result<(String, String)> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {program} (Debian: apt-get install llvm)"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = |mark: &str| {
        let found = text.lines().find_map(|line| line.split_once(mark));
        found.map_or("", |(_, value)| value).trim().to_owned()
    };
    let version = format!("llvm-mca {}", after("LLVM version "));
    Ok((version, after("Host CPU: ")))
}

/// Plays loops, one after the other; `None` if the CPU is not known.
pub fn play(
    program: &str,
    architecture: Architecture,
    cpu: &str,
    loops: &[String],
) -> Result<Option<Played>> {
    let mut text = String::new();
    if architecture == Architecture::X86_64 {
        text += ".intel_syntax noprefix\n";
    }
    for (index, code) in loops.iter().enumerate() {
        // Older versions know no other sign of a comment.
        text += &format!("# LLVM-MCA-BEGIN {index}\n{code}\n# LLVM-MCA-END {index}\n");
    }
    let mut child = Command::new(program)
        .args([
            &format!("-mtriple={}", architecture.triple()),
            &format!("-mcpu={cpu}"),
            &format!("-iterations={ITERATIONS}"),
            "--json",
            "-instruction-info=0",
            "-resource-pressure=0",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let mut input = child.stdin.take().context("its standard input is ours")?;
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    // If it did not read all of it, it says why.
    let _ = writer.join();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("is not a recognized processor") {
        return Ok(None);
    }
    ensure!(
        output.status.success(),
        "{program} -mcpu={cpu}: {complaint}"
    );
    let said: McaOutput = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the output of {program} is not understood"))?;
    ensure!(
        said.code_regions.len() == loops.len()
            && said
                .code_regions
                .iter()
                .enumerate()
                .all(|(i, region)| region.name == i.to_string()),
        "{program} -mcpu={cpu}: {} loops of {}\n{complaint}",
        said.code_regions.len(),
        loops.len()
    );
    let cycles =
        |region: &Region| region.summary_view.total_cycles / region.summary_view.iterations;
    Ok(Some(Played {
        units: said.target_info.resources,
        cycles: said.code_regions.iter().map(cycles).collect(),
    }))
}
