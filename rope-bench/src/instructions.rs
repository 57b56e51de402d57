//! Instructions instead of times, where times mean nothing: on an emulated CPU.
//!
//! [`repeat`] is a program that runs one formulation in one case some times and does nothing else. [`count`] runs it
//! under something that counts instructions, once and three times, and takes half the difference: what a call takes,
//! without the start of the program and the making of tables.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::formulations::{self, Formulation};
use crate::memory::{self, Memory};
use crate::results::{CaseResult, Run};
use crate::selection::Selection;

/// The command that [`repeat`] is behind.
pub const REPEAT: &str = "repeat";

/// Runs the formulation of that name in the one case that a selection leaves, `times` times.
pub fn repeat(selection: &Selection, times: usize) -> Result<()> {
    let all = formulations::all();
    let plan = selection.plan(&all)?;
    // A name may be a family's as well: complex, and complex/in-place.
    let wanted =
        |formulation: &&dyn Formulation| selection.formulation.contains(&formulation.name());
    let found = plan.first().filter(|_| plan.len() == 1);
    let found = found.and_then(|(case, of)| Some((case, *of.iter().find(|&f| wanted(f))?)));
    let Some((case, formulation)) = found else {
        bail!("not one formulation in one case");
    };
    let mut memory = Memory::new(case.bytes());
    let bytes = memory.slice(case.alignment, case.bytes());
    memory::fill(
        bytes,
        case.element,
        &memory::values(case.workload.elements()),
    );
    let mut runner = formulation.prepare(case)?;
    runner.load(bytes)?;
    runner.run(bytes, times)
}

/// Fills in the instructions of all measurements of a run that `program` made.
///
/// `counter` is a command and its options, before the program: `qemu-aarch64 -singlestep -d exec,nochain`, which says a
/// line for every instruction, or `valgrind --tool=callgrind --callgrind-out-file=/dev/null`, which says their sum.
pub fn count(run: &mut Run, counter: &[String], program: &str) -> Result<()> {
    for case in &mut run.cases {
        for index in 0..case.measurements.len() {
            let arguments = arguments(case, &case.measurements[index].formulation);
            let name = || arguments.join(" ");
            let executed = |times| executed(counter, program, &arguments, times).with_context(name);
            let (once, thrice) = (executed(1)?, executed(3)?);
            ensure!(
                thrice > once,
                "{}: {once} instructions for one call and {thrice} for three",
                name()
            );
            case.measurements[index].instructions = Some((thrice - once) as f64 / 2.0);
        }
    }
    Ok(())
}

/// What makes [`repeat`] do it.
fn arguments(case: &CaseResult, formulation: &str) -> Vec<String> {
    // A free shape's name is the shape.
    let workload = if case.workload.contains(',') {
        "--shape"
    } else {
        "--workload"
    };
    let mut arguments: Vec<String> = [
        (workload, case.workload.as_str()),
        ("--element", &case.element),
        ("--pairing", &case.pairing),
        ("--formulation", formulation),
    ]
    .into_iter()
    .flat_map(|(key, value)| [key.to_owned(), value.to_owned()])
    .collect();
    if case.threads > 1 {
        arguments.extend(["--threads".into(), case.threads.to_string()]);
    }
    arguments
}

/// Instructions of a program from its start to its end.
fn executed(counter: &[String], program: &str, arguments: &[String], times: usize) -> Result<u64> {
    let [first, rest @ ..] = counter else {
        bail!("no command that counts instructions");
    };
    let mut child = Command::new(first)
        .args(rest)
        .args([program, REPEAT])
        .args(arguments)
        .args(["--times", &times.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {first}"))?;
    let said = child.stderr.take().context("its standard error is ours")?;
    // Read beside the child: it says more than a pipe holds.
    let reader = thread::spawn(move || -> Result<(u64, Option<u64>, Vec<String>)> {
        let (mut traced, mut sum, mut others) = (0, None, Vec::new());
        for line in BufReader::new(said).lines() {
            let line = line?;
            if line.starts_with("Trace ") {
                traced += 1;
            } else if let Some((_, number)) = line.split_once("Collected : ") {
                sum = number.trim().parse().ok();
            } else if others.len() < 20 {
                others.push(line);
            }
        }
        Ok((traced, sum, others))
    });
    let status = child.wait()?;
    let Ok(read) = reader.join() else {
        bail!("what {first} said could not be read");
    };
    let (traced, sum, others) = read?;
    ensure!(status.success(), "{first}: {status}\n{}", others.join("\n"));
    match sum {
        Some(sum) => Ok(sum),
        None if traced > 0 => Ok(traced),
        None => bail!("{first} counted nothing\n{}", others.join("\n")),
    }
}
