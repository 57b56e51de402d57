//! Counts instructions instead of times, for emulated CPUs, where times mean nothing.
//!
//! [`repeat`] runs one formulation in one case several times and does nothing else. [`count`] runs it under an
//! instruction counter, once and three times, and returns half the difference: the instructions of a call, without the
//! start of the program and the making of tables.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rope_report::results::{CaseResult, Run};

use crate::commands::selection::Selection;
use crate::formulations;
use crate::formulations::formulation::Formulation;
use crate::measure::memory::{self, Memory};

/// The command that runs [`repeat`].
pub const REPEAT: &str = "repeat";

/// Runs the formulation of that name in the single selected case, `times` times.
pub fn repeat(selection: &Selection, times: usize) -> Result<()> {
    let all = formulations::all();
    let plan = selection.plan(&all)?;
    // A name may also be that of a family: complex, and complex/in-place.
    let wanted =
        |formulation: &&dyn Formulation| selection.formulation.contains(&formulation.name());
    let found = plan.first().filter(|_| plan.len() == 1);
    let found = found.and_then(|(case, of)| Some((case, *of.iter().find(|&f| wanted(f))?)));
    let Some((case, formulation)) = found else {
        bail!("not one formulation in one case");
    };
    let mut memory = Memory::new(case.bytes());
    let bytes = memory.slice(case.alignment, case.bytes());
    let values = memory::values(case.workload.elements());
    memory::fill(bytes, case.element, &values);
    let mut runner = formulation.prepare(case)?;
    runner.load(bytes)?;
    runner.run(bytes, times)
}

/// Fills in the instructions of all measurements of a run made by `program`.
///
/// `counter` is a command and its options, before the program: `qemu-aarch64 -d in_asm,exec,nochain`, which prints the
/// instructions of each block and each execution of a block; or `valgrind --tool=callgrind
/// --callgrind-out-file=/dev/null`, which prints their sum.
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

/// Returns the arguments of [`repeat`] for a measurement.
fn arguments(case: &CaseResult, formulation: &str) -> Vec<String> {
    // The name of a free shape is the shape.
    let is_shape = case.workload.contains(',');
    let key = if is_shape { "--shape" } else { "--workload" };
    let [workload, element, pairing] = [&case.workload, &case.element, &case.pairing];
    let line = format!(
        "{key} {workload} --element {element} --pairing {pairing} --formulation {formulation} --threads {}",
        case.threads
    );
    line.split(' ').map(String::from).collect()
}

/// Returns the instructions of a program from its start to its end.
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
    // Read concurrently: the child prints more than a pipe holds.
    let reader = thread::spawn(move || read(BufReader::new(said)));
    let status = child.wait()?;
    let Ok(said) = reader.join() else {
        bail!("the output of {first} could not be read");
    };
    let InstructionCounts { executed, others } = said?;
    let others = others.join("\n");
    ensure!(status.success(), "{first}: {status}\n{others}");
    ensure!(executed > 0, "{first} counted nothing\n{others}");
    Ok(executed)
}

/// The output of a counter.
#[derive(Debug, Default)]
struct InstructionCounts {
    executed: u64,
    /// The first unrecognized lines.
    others: Vec<String>,
}

/// Parses valgrind's sum; or QEMU's log, which lists the instructions of a block when it is translated, one per line,
/// and its address whenever it is executed.
fn read(mut lines: impl BufRead) -> Result<InstructionCounts> {
    let mut said = InstructionCounts::default();
    // The instructions of each block, by the address of its first.
    let mut lengths: HashMap<u64, u64> = HashMap::new();
    // The block being listed, and the number of its instructions so far.
    let (mut block, mut length) = (0, 0);
    let mut line = String::new();
    while lines.read_line(&mut line)? != 0 {
        if let Some(trace) = line.strip_prefix("Trace ") {
            // Trace 0: 0x7f0ab8000100 [0000000001009331/000000550283cc40/00000001/00000200]
            let executed = trace.split('/').nth(1).and_then(hexadecimal);
            let length = executed.and_then(|block| lengths.get(&block));
            said.executed += length.with_context(|| {
                format!("-d in_asm has to say which instructions these are: {line}")
            })?;
        } else if let Some(address) = instruction(&line) {
            if length == 0 {
                block = address;
            }
            length += 1;
            // Replaces the length of an earlier translation of the block.
            lengths.insert(block, length);
        } else if line.starts_with("IN:") {
            length = 0;
        } else if let Some((_, sum)) = line.split_once("Collected : ") {
            said.executed = sum.trim().parse()?;
        } else if said.others.len() < 20 && !line.trim_matches(['-', '\n']).is_empty() {
            said.others.push(line.trim_end().to_owned());
        }
        line.clear();
    }
    Ok(said)
}

/// Returns the address in a line like `0x550283cc40:  d503201f  nop`.
fn instruction(line: &str) -> Option<u64> {
    let (address, _) = line.strip_prefix("0x")?.split_once(':')?;
    hexadecimal(address)
}

fn hexadecimal(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSLATED: &str = "----------------
IN: main
0x5502838798:  f8207841  str      x1, [x2, x0, lsl #3]
0x550283879c:  f8410c20  ldr      x0, [x1, #0x10]!
0x55028387a0:  b5ffff00  cbnz     x0, #0x5502838780

";
    const EXECUTED: &str =
        "Trace 0: 0x7f0ab80007c0 [0000000001009331/0000005502838798/00000001/00000200] main\n";

    fn executed(log: &str) -> u64 {
        read(log.as_bytes()).unwrap().executed
    }

    #[test]
    fn a_block_counts_whenever_it_is_executed() {
        assert_eq!(executed(TRANSLATED), 0);
        assert_eq!(executed(&format!("{TRANSLATED}{EXECUTED}{EXECUTED}")), 6);
        // Translated again, it ends earlier.
        let shorter = "IN: main\n0x5502838798:  f8207841  str      x1, [x2, x0, lsl #3]\n";
        let other = "IN: \n0x5502838700:  d503201f  nop\n";
        let log = format!("{TRANSLATED}{EXECUTED}{shorter}{other}{EXECUTED}{TRANSLATED}{EXECUTED}");
        assert_eq!(executed(&log), 3 + 1 + 3);
    }

    #[test]
    fn blocks_of_unknown_length_are_refused() {
        let refused = read(EXECUTED.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("in_asm"), "{refused}");
    }

    #[test]
    fn a_sum_and_complaints() {
        let log = format!("{TRANSLATED}no such formulation\n==7== Collected : 1234\n");
        let InstructionCounts { executed, others } = read(log.as_bytes()).unwrap();
        assert_eq!(
            (executed, &*others.join("\n")),
            (1234, "no such formulation")
        );
    }
}
