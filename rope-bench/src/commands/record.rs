//! Records: runs kept as data, below `rope-bench/records`.
//!
//! A record claims every ratio to within [`CLAIM`]. A shared machine may record: the load of others is part of the
//! record. A ratio whose passes disagree by more is refused, line by line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use rope_report::files;
use rope_report::results::{Load, Measurement, Record, Refused, Run};
use rope_report::time::{Ratio, Time};

use crate::commands::run::ROOF;

/// The claimed accuracy of ratios. Two digits of a table claim about as much.
pub const CLAIM: f64 = 0.1;

/// The machine's work up to some moment.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    at: Instant,
    busy: f64,
    stolen: f64,
    own: f64,
}

/// Ticks of the clock per second, in the files below: the same on every Linux supported by Rust.
const TICKS: f64 = 100.0;

impl Usage {
    /// Returns the current usage; `None` if the system does not report it.
    pub fn now() -> Option<Self> {
        let all = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        let cpu: Vec<f64> = numbers(all.lines().next()?.strip_prefix("cpu ")?);
        // The name of the program, in parentheses, may contain spaces. Its children count once they have ended.
        let own: Vec<f64> = numbers(own.rsplit_once(')')?.1.get(2..)?);
        let [user, nice, system, _, _, interrupts, soft, stolen] = *cpu.get(..8)? else {
            return None;
        };
        Some(Usage {
            at: Instant::now(),
            busy: (user + nice + system + interrupts + soft) / TICKS,
            stolen: stolen / TICKS,
            own: own.get(10..14)?.iter().sum::<f64>() / TICKS,
        })
    }

    /// Returns the load of others since then.
    pub fn until_now(self) -> Option<Load> {
        let now = Usage::now()?;
        let seconds = (now.at - self.at).as_secs_f64();
        let others = (now.busy - self.busy) - (now.own - self.own);
        Some(Load {
            others: (others / seconds).max(0.0),
            stolen: (now.stolen - self.stolen) / seconds,
        })
    }
}

fn numbers(text: &str) -> Vec<f64> {
    let words = text.split_whitespace();
    words.map(|word| word.parse().unwrap_or(0.0)).collect()
}

/// Converts a run to a record: removes ratios that it cannot claim, and lists them.
pub fn refuse(run: &mut Run) {
    let mut refused = Vec::new();
    let mut is_kept = |[workload, group, formulation, over]: [&str; 4], spread: f64| {
        let kept = spread <= CLAIM;
        if !kept {
            refused.push(Refused {
                workload: workload.into(),
                group: group.into(),
                formulation: formulation.into(),
                over: over.into(),
                spread,
            });
        }
        kept
    };
    for case in &mut run.cases {
        for Measurement {
            formulation,
            ratios,
            ..
        } in &mut case.measurements
        {
            let of = [&*case.workload, &*case.group, formulation];
            ratios.retain(|ratio| is_kept([of[0], of[1], of[2], &*ratio.over], ratio.spread));
        }
        let over_roof = |ratio: &Ratio| ratio.over == ROOF;
        let is_whole = |m: &Measurement| m.ratios.first().is_some_and(over_roof);
        case.measurements
            .retain(|m| m.time.is_none() || is_whole(m));
    }
    if let Some(rows) = &mut run.rows {
        let made = &mut rows.made;
        made.retain(|made| is_kept(["rows", "", &made.maker, ""], made.time.spread));
    }
    run.record = Some(Record {
        claim: CLAIM,
        refused,
    });
}

/// Removes everything that an emulated CPU lacks: instructions, predictions and verification stay.
pub fn forget_times_if_emulated(run: &mut Run) {
    if run.machine.emulator.is_none() {
        return;
    }
    run.rows = None;
    run.load = None;
    for case in &mut run.cases {
        case.roofs.clear();
        for measurement in &mut case.measurements {
            measurement.time = Time::default();
            measurement.ratios.clear();
            measurement.preparation = 0.0;
        }
    }
}

/// Writes a record to the folder of its machine, and returns its path.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(run: &Run, records: &Path) -> Result<PathBuf> {
    let path = records.join(run.machine.folder()).join(&run.date);
    let path = path.with_extension("json");
    files::record(&path, run)?;
    Ok(path)
}

/// Returns true if the working tree differs from its commit.
pub fn has_changes() -> bool {
    let status = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=no"])
        .output();
    status.is_ok_and(|output| !output.stdout.is_empty())
}
