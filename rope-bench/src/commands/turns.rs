//! Alternates two programs, pass by pass: the rope-bench of two commits.
//!
//! A shared machine changes from minute to minute, which affects consecutive measurements. In alternation, both
//! programs are slowed down equally often.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rope_report::files;
use rope_report::results::{CaseResult, Load, Run};
use rope_report::time::{Ratio, Time};

use crate::commands::run::{ROOF, fastest_roof};
use crate::measure::progress::Progress;

/// Measures two programs with the same arguments, and returns the passes of each as a run.
///
/// # Errors
///
/// The failure of a program, or different measurements in different passes.
pub fn measure(programs: [&Path; 2], passes: usize, arguments: &[String]) -> Result<[Run; 2]> {
    let bar = Progress::new(2 * passes as u64);
    let mut runs = [Vec::new(), Vec::new()];
    for turn in 0..passes {
        // Each goes first equally often.
        for index in [turn % 2, (turn + 1) % 2] {
            runs[index].push(pass(programs[index], arguments)?);
            bar.advance(1);
        }
    }
    let [before, after] = runs;
    Ok([join(&before)?, join(&after)?])
}

fn pass(program: &Path, arguments: &[String]) -> Result<Run> {
    let name = program.display();
    let output = Command::new(program)
        .args(arguments)
        .args(["--passes", "1", "--json", "-"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} ended with {}\n{errors}",
        output.status
    );
    files::parse(&output.stdout, &format!("what {name} printed"))
}

/// Combines the passes of one program to a run.
fn join(passes: &[Run]) -> Result<Run> {
    let mut run = passes.first().context("no pass")?.clone();
    ensure!(
        passes.iter().all(|pass| measured(pass) == measured(&run)),
        "a pass measured something else than the first"
    );
    let loads: Option<Vec<&Load>> = passes.iter().map(|pass| pass.load.as_ref()).collect();
    run.load = loads.map(|loads| {
        let sum = |of: fn(&Load) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
        let count = loads.len() as f64;
        Load {
            others: sum(|load| load.others) / count,
            stolen: sum(|load| load.stolen) / count,
        }
    });
    for (index, case) in run.cases.iter_mut().enumerate() {
        let join = |of: &dyn Fn(&CaseResult) -> &Time| {
            let times = passes.iter().map(|pass| of(&pass.cases[index]));
            Time::of(&times.map(|time| vec![time.minimum]).collect::<Vec<_>>())
        };
        for (at, roof) in case.roofs.iter_mut().enumerate() {
            roof.time = join(&|case| &case.roofs[at].time);
        }
        let roof = fastest_roof(&case.roofs);
        for (at, measured) in case.measurements.iter_mut().enumerate() {
            measured.time = join(&|case| &case.measurements[at].time);
            measured.ratios = vec![Ratio::of(ROOF, measured.time.of_passes(), &roof)];
        }
    }
    Ok(run)
}

/// Returns the names of all measurements.
fn measured(run: &Run) -> Vec<[&str; 3]> {
    let mut names = Vec::new();
    for case in &run.cases {
        let roofs = case.roofs.iter().map(|roof| &roof.name);
        let formulations = case.measurements.iter().map(|one| &one.formulation);
        let all = roofs.chain(formulations);
        names.extend(all.map(|name| [&*case.workload, &*case.group, name]));
    }
    names
}
