//! Two runs side by side: ratios first, and how much of them is noise.
//!
//! Two runs of one program differ, because a machine that others share is another machine a minute later. How far, the
//! runs say themselves. The passes of a run lie apart in time: where the two fastest passes of a measurement agree, its
//! time is what the code takes. And the roof's loops and memcpy are the same code in any two runs: what they differ by,
//! in this case and in all, the machine differs by. A difference is called one if it is well beyond all of that, and if
//! every pass of one run is faster than every pass of the other.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::measuring::Time;
use crate::report::table::{align, digits, time};
use crate::results::{CaseResult, Run};

/// No difference below this is called one: the same code at another address differs by as much.
const LEAST: f64 = 0.02;

/// How many times what the controls of a case differ by, at most, a measurement of it has to.
const OF_CASE: f64 = 2.0;

/// How many times what half of all controls stay within. (More tells no more runs of one program apart, and hides what
/// differs by a tenth.)
const OF_ALL: f64 = 1.5;

/// How many times what the fastest passes of a measurement differ by.
const OF_PASSES: f64 = 2.0;

/// What two measurements say about each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// B / A: below 1, B is faster.
    pub ratio: f64,
    /// How far the ratio of two runs of the same code may be from 1.
    pub noise: f64,
    /// Whether every pass of one run is faster than every pass of the other.
    pub apart: bool,
}

impl Ratio {
    fn of(a: &Time, b: &Time, machine: f64) -> Self {
        let passes = unsettled(a).hypot(unsettled(b));
        let [a_passes, b_passes] = [a, b].map(range);
        Ratio {
            ratio: b.minimum / a.minimum,
            noise: machine.max(OF_PASSES * passes),
            apart: a_passes[1] < b_passes[0] || b_passes[1] < a_passes[0],
        }
    }

    /// Whether the two are not the same code on the same machine.
    pub fn is_difference(&self) -> bool {
        self.apart && self.ratio.ln().abs() > self.noise
    }

    fn verdict(&self) -> &'static str {
        match *self {
            ratio if !ratio.is_difference() => "same within noise",
            Ratio { ratio, .. } if ratio < 1.0 => "faster",
            _ => "slower",
        }
    }
}

/// How far the second-fastest pass is from the fastest: one that no other confirms is worth little. Of a single pass,
/// how far its middle round is.
fn unsettled(time: &Time) -> f64 {
    let mut passes = time.passes.clone();
    passes.sort_by(f64::total_cmp);
    let second = passes.get(1).copied().unwrap_or(time.median);
    second / time.minimum - 1.0
}

/// The fastest and the slowest pass; of a single one, its fastest round twice.
fn range(time: &Time) -> [f64; 2] {
    let slowest = time.passes.iter().copied().fold(time.minimum, f64::max);
    [time.minimum, slowest]
}

/// By how much the loops that are the same in both runs differ in a case: logarithms.
fn controls(a: &CaseResult, b: &CaseResult) -> Vec<f64> {
    let roofs = a.roofs.iter().filter_map(|old| {
        let new = b.roofs.iter().find(|new| new.name == old.name)?;
        Some((&old.time, &new.time))
    });
    roofs
        .chain(a.copy.as_ref().zip(b.copy.as_ref()))
        .map(|(old, new)| (new.minimum / old.minimum).ln().abs())
        .collect()
}

/// The table of two runs and their names.
pub fn table([(a_name, a), (b_name, b)]: [(&str, &Run); 2]) -> Result<String> {
    let mut text = String::new();
    for (letter, name, run) in [("A", a_name, a), ("B", b_name, b)] {
        let machine = &run.machine;
        let _ = writeln!(
            text,
            "{letter}  {name}: {}, {}, {}",
            machine.cpu, machine.compiler, machine.revision
        );
        if let Some(emulator) = &machine.emulator {
            let _ = writeln!(
                text,
                "{letter} was emulated by {emulator}: its times mean nothing"
            );
        }
    }
    let pairs: Vec<_> = a
        .cases
        .iter()
        .filter_map(|old| Some((old, b.cases.iter().find(|new| is_same(old, new))?)))
        .collect();
    ensure!(!pairs.is_empty(), "the two runs have no case in common");
    let mut all: Vec<f64> = pairs.iter().flat_map(|(a, b)| controls(a, b)).collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).copied().unwrap_or(0.0);

    let heading = [
        "case",
        "formulation",
        "time B / A",
        "noise",
        "B is",
        "A",
        "B",
        "A / roof",
        "B / roof",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let (mut faster, mut slower, mut same) = (0, 0, 0);
    for (old, new) in pairs {
        let case = format!("{} {}", old.workload, old.group);
        let of_case = controls(old, new).into_iter().fold(0.0, f64::max);
        let machine = LEAST.max(OF_CASE * of_case).max(OF_ALL * median);
        rows.push(vec![
            case.clone(),
            "roof".into(),
            format!("{:.3}", new.roof() / old.roof()),
            String::new(),
            String::new(),
            time(old.roof()),
            time(new.roof()),
        ]);
        for a in &old.measurements {
            let Some(b) = new
                .measurements
                .iter()
                .find(|b| b.formulation == a.formulation)
            else {
                continue;
            };
            let ratio = Ratio::of(&a.time, &b.time, machine);
            match (ratio.is_difference(), ratio.ratio < 1.0) {
                (false, _) => same += 1,
                (true, true) => faster += 1,
                (true, false) => slower += 1,
            }
            rows.push(vec![
                case.clone(),
                a.formulation.clone(),
                format!("{:.3}", ratio.ratio),
                format!("{:.3}", ratio.noise.exp_m1()),
                ratio.verdict().into(),
                time(a.time.minimum),
                time(b.time.minimum),
                digits(a.times_roof),
                digits(b.times_roof),
            ]);
        }
    }
    text += "\ntime B / A: below 1, B is faster. noise: how far that may be from 1 with the same code in both, by what the\n\
             roof's loops and memcpy differ, and by how far the passes of a run lie apart. / roof: time over the roof's\n\n";
    text += &align(&rows);
    let _ = writeln!(
        text,
        "\n{faster} faster, {slower} slower, {same} the same within noise"
    );
    Ok(text)
}

fn is_same(a: &CaseResult, b: &CaseResult) -> bool {
    a.workload == b.workload && a.shape == b.shape && a.group == b.group
}

#[cfg(test)]
mod tests {
    use super::{Ratio, Time};

    fn time(passes: [f64; 3]) -> Time {
        Time {
            minimum: passes.into_iter().fold(f64::INFINITY, f64::min),
            median: passes[0],
            spread: 0.0,
            rounds: 9,
            passes: passes.to_vec(),
        }
    }

    #[test]
    fn a_difference_is_beyond_the_machine_and_the_passes() {
        let is = |a, b, machine| Ratio::of(&time(a), &time(b), machine).is_difference();
        let quiet = 0.02;
        assert!(is([100.0, 101.0, 100.5], [110.0, 111.0, 110.2], quiet));
        assert!(is([110.0, 111.0, 110.2], [100.0, 101.0, 100.5], quiet));
        // What the machine's own loops differ by.
        assert!(!is([100.0, 101.0, 100.5], [110.0, 111.0, 110.2], 0.1));
        // A fastest pass that no other confirms.
        assert!(!is([100.0, 109.0, 108.0], [110.0, 111.0, 110.2], quiet));
        // Passes that overlap.
        assert!(!is([100.0, 100.1, 120.0], [110.0, 111.0, 110.2], quiet));
        assert!(!is([100.0, 101.0, 100.5], [101.5, 101.6, 101.7], quiet));
    }
}
