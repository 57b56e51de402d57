//! Two runs side by side: ratios first, and how much of them is noise.

use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::measuring::Time;
use crate::report::table::{align, digits, time};
use crate::results::{CaseResult, Run};

/// What two measurements say about each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// After / before: below 1 is faster.
    pub ratio: f64,
    /// How far the ratio may be off, from the spread of both.
    pub noise: f64,
}

impl Ratio {
    fn of(before: f64, after: f64, spreads: [f64; 2]) -> Self {
        Ratio {
            ratio: after / before,
            noise: spreads[0].hypot(spreads[1]) * after / before,
        }
    }

    fn of_times(before: &Time, after: &Time) -> Self {
        Ratio::of(before.minimum, after.minimum, [before.spread, after.spread])
    }

    /// Whether it differs from 1 by more than the noise, and by more than a hundredth.
    pub fn is_difference(&self) -> bool {
        (self.ratio - 1.0).abs() > self.noise.max(0.01)
    }

    fn verdict(&self) -> &'static str {
        match *self {
            ratio if !ratio.is_difference() => "same within noise",
            Ratio { ratio, .. } if ratio < 1.0 => "faster",
            _ => "slower",
        }
    }
}

/// The table.
pub fn table(before: &Run, after: &Run) -> Result<String> {
    let name = |run: &Run| {
        format!(
            "{}, {}, {}",
            run.machine.cpu, run.machine.compiler, run.machine.revision
        )
    };
    let mut text = format!("A  {}\nB  {}\n", name(before), name(after));
    for (letter, run) in [("A", before), ("B", after)] {
        if let Some(emulator) = &run.machine.emulator {
            let _ = writeln!(
                text,
                "{letter} was emulated by {emulator}: its times mean nothing"
            );
        }
    }
    text.push('\n');
    let heading = [
        "case",
        "formulation",
        "B / A",
        "+-",
        "",
        "roofs B / A",
        "A",
        "B",
        "roofs A",
        "roofs B",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let (mut faster, mut slower, mut same) = (0, 0, 0);
    for old in &before.cases {
        let Some(new) = after.cases.iter().find(|new| is_same(old, new)) else {
            continue;
        };
        let case = format!("{} {}", old.workload, old.group);
        let roof = Ratio::of(
            old.roof(),
            new.roof(),
            [old.roof_spread(), new.roof_spread()],
        );
        rows.push(row(&case, "roof", roof, [old.roof(), new.roof()], None));
        for old in &old.measurements {
            let Some(new) = new
                .measurements
                .iter()
                .find(|new| new.formulation == old.formulation)
            else {
                continue;
            };
            let ratio = Ratio::of_times(&old.time, &new.time);
            match (ratio.is_difference(), ratio.ratio < 1.0) {
                (false, _) => same += 1,
                (true, true) => faster += 1,
                (true, false) => slower += 1,
            }
            rows.push(row(
                &case,
                &old.formulation,
                ratio,
                [old.time.minimum, new.time.minimum],
                Some([old.times_roof, new.times_roof]),
            ));
        }
    }
    ensure!(rows.len() > 1, "the two runs have no case in common");
    text += &align(&rows);
    let _ = writeln!(
        text,
        "\n{faster} faster, {slower} slower, {same} the same within noise"
    );
    Ok(text)
}

fn row(
    case: &str,
    name: &str,
    ratio: Ratio,
    times: [f64; 2],
    times_roof: Option<[f64; 2]>,
) -> Vec<String> {
    let of_roof = |f: fn([f64; 2]) -> f64| {
        times_roof.map_or_else(String::new, |times_roof| digits(f(times_roof)))
    };
    vec![
        case.into(),
        name.into(),
        format!("{:.3}", ratio.ratio),
        format!("{:.3}", ratio.noise),
        ratio.verdict().into(),
        of_roof(|[a, b]| b / a),
        time(times[0]),
        time(times[1]),
        of_roof(|[a, _]| a),
        of_roof(|[_, b]| b),
    ]
}

fn is_same(a: &CaseResult, b: &CaseResult) -> bool {
    a.workload == b.workload && a.shape == b.shape && a.group == b.group
}
