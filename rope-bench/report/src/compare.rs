//! Compares two runs: ratios, their noise, and the lines in which the noise hides the requested difference.
//!
//! Two runs of one program differ, because a shared machine changes from minute to minute, and because two processes
//! differ. The runs measure this themselves. The passes of a run are apart in time, and each is a separate
//! process: if the fastest ones agree, a time is that of the code. The roof's loops are the
//! same code in any two runs, so their differences, in this case and in all, are the machine's. Two programs that
//! alternate run on the same machine. Times over the roof's leave out the clock of the
//! machine. But if a tensor just fits a cache, the roof differs by a tenth between runs in which the rotations agree to
//! 0.2 %. A line is therefore compared by both, and neither may contradict the other.
//!
//! A ratio is then within its noise of the truth. It is a difference if 1 is outside the noise, and if the fastest
//! passes of both together all belong to one run. The code takes the same time if the noise excludes the requested
//! difference. In all other cases the comparison is undecided.
//!
//! Standard errors of a few passes are sometimes small by chance, and a table has many lines. The order of the passes
//! is less subject to chance: for two runs with equal distributions, the ten fastest passes belong to one run in 6 of
//! 10,000 lines.
//!
//! All of this assumes the same machine for both. Two consecutive runs during which others had a quarter of a core
//! reflect the others: their share of a core is noise.
//!
//! The report's page compares engines by the same rule, in [multiples of the roof](over_roofs).
//!
//! Half of this file is tests: a verdict caused by noise is worse than none, so each kind of noise is simulated.

use std::f64::consts::SQRT_2;
use std::fmt::Write;

use anyhow::{Result, ensure};

use crate::cells::{align, digits, texts, time};
use crate::results::{CaseResult, Measurement, RoofResult, Run};
use crate::table::load;
use crate::time::{Time, least, sorted};

/// The default of the requested difference.
pub const DIFFERENCE: f64 = 0.05;

/// The least difference: the same code at another address differs by as much.
const LEAST: f64 = 0.02;

/// Standard errors of the two times that count as noise. (On a machine whose other users made half of all passes take
/// 1.5 times as long, 24 alternating passes of one program slowed down by 5 % were distinguished in 73 of 120 lines:
/// all 72 of tensors in L1 and L2, and one of the 48 of 32 MiB. Without a slowdown no line differed. [`LEAD`] was added
/// later.)
const ERRORS: f64 = 2.0;

/// A time is that of the fastest pass, or of the next one for every `PASSES` passes.
const PASSES: usize = 12;

/// The number of fastest passes that must belong to the faster run; all if there are fewer.
const LEAD: usize = 10;

/// The noise of a case, in mean differences of its roof's loops.
const OF_CASE: f64 = 2.0;

/// The noise of all cases, in the median difference of the roof's loops.
const OF_ALL: f64 = 1.5;

/// The comparison of two measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The logarithm of B / A: below 0, B is faster.
    log: f64,
    noise: f64,
    from: &'static str,
}

/// The verdict on a line of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Faster,
    Slower,
    /// The difference is smaller than requested.
    Same,
    /// Undecided.
    CannotTell,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "the same",
            Verdict::CannotTell => "cannot tell",
        }
    }
}

impl Comparison {
    /// Compares two times, with the noise of their case.
    fn of(a: &Time, b: &Time, case: (f64, &'static str)) -> Self {
        let leads = leads(a.of_passes(), b.of_passes());
        let [a, b] = [a, b].map(Fast::of);
        let log = b.log - a.log;
        let own = ERRORS * a.error.hypot(b.error);
        let mixed = if leads { 0.0 } else { log.abs() };
        let noises = [
            (LEAST, ""),
            (own, "its passes"),
            (mixed, "their order"),
            case,
        ];
        let (noise, from) = largest(noises);
        Comparison { log, noise, from }
    }

    /// Compares two times over the roofs of their cases.
    fn over_roofs(times: [(&CaseResult, &Measurement); 2], case: (f64, &'static str)) -> Self {
        let [a, b] = times.map(|(case, measured)| measured.time.over(case.roof()));
        Comparison::of(&a, &b, case)
    }

    /// Returns whether A and B differ, or differ by less than `difference`, a share.
    pub fn verdict(&self, difference: f64) -> Verdict {
        let Comparison { log, noise, .. } = *self;
        if log.abs() > noise {
            [Verdict::Slower, Verdict::Faster][usize::from(log < 0.0)]
        } else if log.abs() + noise <= difference.ln_1p() {
            Verdict::Same
        } else {
            Verdict::CannotTell
        }
    }
}

/// Returns true if the fastest passes of two runs all belong to one of them.
fn leads(a: &[f64], b: &[f64]) -> bool {
    let ahead = |a: &[f64], b: &[f64]| {
        let fastest = least(b.iter().copied());
        let ahead = a.iter().filter(|&&pass| pass < fastest).count();
        ahead >= a.len().min(LEAD)
    };
    ahead(a, b) || ahead(b, a)
}

fn largest<const N: usize>(noises: [(f64, &'static str); N]) -> (f64, &'static str) {
    let larger = |a: (f64, _), b: (f64, _)| if b.0 > a.0 { b } else { a };
    noises.into_iter().fold((0.0, ""), larger)
}

/// The undisturbed time of something.
struct Fast {
    /// The logarithm of the time of one of the fastest passes.
    log: f64,
    /// Its standard error.
    error: f64,
}

impl Fast {
    fn of(time: &Time) -> Self {
        let logs = sorted(time.of_passes().iter().map(|pass| pass.ln()));
        let (count, rank) = (logs.len(), logs.len() / PASSES);
        let log = logs[rank];
        if count == 1 {
            let error = time.median.ln() - log;
            return Fast { log, error };
        }
        // By the bootstrap: among as many passes drawn with replacement, each has a probability of this rank.
        let up_to = |index: usize| more_than(rank, count, index as f64 / count as f64);
        let chances = (0..count).map(|index| up_to(index + 1) - up_to(index));
        let squares = chances
            .zip(&logs)
            .map(|(chance, other)| chance * (other - log).powi(2));
        let error = squares.sum::<f64>().sqrt();
        Fast { log, error }
    }
}

/// Returns the probability that more than `most` of `count` draws succeed, each with the probability `each`.
fn more_than(most: usize, count: usize, each: f64) -> f64 {
    let mut chosen = 1.0;
    let mut up_to = 0.0;
    for wins in 0..=most {
        up_to += chosen * each.powi(wins as i32) * (1.0 - each).powi((count - wins) as i32);
        chosen *= (count - wins) as f64 / (wins + 1) as f64;
    }
    1.0 - up_to
}

/// Returns the differences of the roof's loops in a case, as logarithms.
fn controls(a: &CaseResult, b: &CaseResult) -> Vec<f64> {
    let roofs = a.roofs.iter().filter_map(|old| {
        let new = b.roofs.iter().find(|new| new.name == old.name)?;
        Some((Fast::of(&new.time).log - Fast::of(&old.time).log).abs())
    });
    roofs.collect()
}

/// Returns the noise common to the measurements of a case.
fn of_case(a: &CaseResult, b: &CaseResult, of_all: f64) -> (f64, &'static str) {
    let controls = controls(a, b);
    let mean = controls.iter().sum::<f64>() / controls.len().max(1) as f64;
    largest([
        (OF_ALL * of_all, "the machine"),
        (OF_CASE * mean, "the roof"),
        (of_passes(a, b), "the passes"),
    ])
}

/// Returns the noise of the passes of a case: passes that agree by chance prove nothing if those of their neighbors do
/// not.
fn of_passes(a: &CaseResult, b: &CaseResult) -> f64 {
    let times = [a, b].into_iter().flat_map(|case| {
        let roofs = case.roofs.iter().map(|roof| &roof.time);
        roofs.chain(case.measurements.iter().map(|measured| &measured.time))
    });
    let errors = sorted(times.map(|time| Fast::of(time).error));
    ERRORS * SQRT_2 * quantile(&errors, 0.75)
}

/// Returns the nearest of sorted values to a share of them.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// Returns the noise of two runs at different times: other programs and machines slow a round by their share of a core.
/// Below a quarter of a core most rounds are undisturbed, and the passes show the others.
pub fn apart(a: &Run, b: &Run) -> f64 {
    let loads = [a, b].map(|run| run.load.as_ref().filter(|load| load.hides_differences()));
    let noises = loads.map(|load| load.map_or(0.0, |load| (load.others + load.stolen).ln_1p()));
    noises[0].max(noises[1])
}

/// Compares two measurements in multiples of their roofs: two engines of a run, or one engine on two machines. `load`
/// is the noise of two runs that are [`apart`].
pub fn over_roofs([a, b]: [(&CaseResult, &Measurement); 2], load: f64) -> Comparison {
    Comparison::over_roofs([a, b], of_roofs(a.0, b.0, load))
}

/// Returns the noise common to the measurements of two cases in multiples of their roofs.
fn of_roofs(a: &CaseResult, b: &CaseResult, load: f64) -> (f64, &'static str) {
    let errors = [a, b].map(|case| {
        let fastest = |a: &&RoofResult, b: &&RoofResult| a.time.minimum.total_cmp(&b.time.minimum);
        let roof = case.roofs.iter().min_by(fastest);
        roof.map_or(0.0, |roof| Fast::of(&roof.time).error)
    });
    let roofs = match std::ptr::eq(a, b) {
        true => 0.0,
        false => ERRORS * errors[0].hypot(errors[1]),
    };
    let passes = (of_passes(a, b), "the passes");
    largest([(roofs, "the roof"), passes, (load, "the load")])
}

/// A line of the table, or of the roof.
struct Line<'a> {
    old: &'a CaseResult,
    new: &'a CaseResult,
    measured: Option<(&'a Measurement, &'a Measurement, Compared)>,
}

/// The comparison of a line by two measures: its times, which the clock of the machine changes, and its times over the
/// roof, which a roof that just fits a cache changes.
#[derive(Clone, Copy, Debug)]
struct Compared {
    times: Comparison,
    over_roofs: Comparison,
}

impl Compared {
    /// Returns the verdict of one measure, unless the other contradicts it.
    fn verdict(&self, difference: f64) -> Verdict {
        let [times, over_roofs] = [self.times, self.over_roofs].map(|by| by.verdict(difference));
        match (times, over_roofs) {
            (Verdict::CannotTell, Verdict::Same) => Verdict::Same,
            (verdict, Verdict::CannotTell) => verdict,
            (verdict, other) if verdict == other => verdict,
            _ => Verdict::CannotTell,
        }
    }
}

/// Returns the common lines of two runs, after the roof of each case. `load` is the noise of all.
fn lines<'a>(a: &'a Run, b: &'a Run, load: f64) -> Vec<Line<'a>> {
    let pair = |old: &'a CaseResult| Some((old, b.cases.iter().find(|new| is_same(old, new))?));
    let pairs: Vec<_> = a.cases.iter().filter_map(pair).collect();
    let of_all = quantile(&sorted(pairs.iter().flat_map(|(a, b)| controls(a, b))), 0.5);
    let mut lines = Vec::new();
    for (old, new) in pairs {
        let line = |measured| Line { old, new, measured };
        let case = largest([of_case(old, new, of_all), (load, "the load")]);
        let roofs = of_roofs(old, new, load);
        lines.push(line(None));
        lines.extend(old.measurements.iter().filter_map(|a| {
            let b = new.measured(&a.formulation)?;
            let times = Comparison::of(&a.time, &b.time, case);
            let over_roofs = Comparison::over_roofs([(old, a), (new, b)], roofs);
            Some(line(Some((a, b, Compared { times, over_roofs }))))
        }));
    }
    lines
}

/// Checks that a difference is in the valid range.
///
/// # Errors
///
/// The difference is out of range.
pub fn check_difference(difference: f64) -> Result<()> {
    ensure!(
        difference > LEAST && difference < 1.0,
        "a difference of {} %: the same code differs by {} % at another address; ask for more than that, and less than 100",
        100.0 * difference,
        100.0 * LEAST
    );
    Ok(())
}

/// Returns the table of two named runs for a requested difference. They alternated, or ran one after the other.
pub fn table(
    [(a_name, a), (b_name, b)]: [(&str, &Run); 2],
    difference: f64,
    by_turns: bool,
) -> Result<String> {
    check_difference(difference)?;
    let others = if by_turns { 0.0 } else { apart(a, b) };
    let mut text = String::new();
    for (letter, name, run) in [("A", a_name, a), ("B", b_name, b)] {
        let machine = &run.machine;
        let (cpu, compiler, revision) = (&machine.cpu, &machine.compiler, &machine.revision);
        let _ = writeln!(text, "{letter}  {name}: {cpu}, {compiler}, {revision}");
        let _ = writeln!(text, "   {}", load(run));
        if let Some(emulator) = &machine.emulator {
            let _ = writeln!(
                text,
                "{letter} was emulated by {emulator}: its times mean nothing"
            );
        }
    }
    let lines = lines(a, b, others);
    ensure!(!lines.is_empty(), "the two runs have no case in common");
    let mut rows = vec![texts(
        "case|formulation|time B / A|noise|from|B is|A|B|A / roof|B / roof".split('|'),
    )];
    let mut counts = [0; 4];
    for Line { old, new, measured } in &lines {
        let mut row = vec![format!("{} {}", old.workload, old.group)];
        let ratio = |ratio: f64| format!("{ratio:.3}");
        match measured {
            None => {
                let [a, b] = [old.roof(), new.roof()];
                row.extend(["roof".into(), ratio(b / a)]);
                row.extend(texts(["", "", ""]).into_iter().chain([time(a), time(b)]));
            }
            Some((a, b, compared)) => {
                let verdict = compared.verdict(difference);
                let compared = compared.times;
                counts[verdict as usize] += 1;
                row.extend([
                    a.formulation.clone(),
                    ratio(compared.log.exp()),
                    ratio(compared.noise.exp_m1()),
                    compared.from.into(),
                    verdict.text().into(),
                    time(a.time.minimum),
                    time(b.time.minimum),
                    digits(a.times_roof()),
                    digits(b.times_roof()),
                ]);
            }
        }
        rows.push(row);
    }
    text += "\ntime B / A: below 1, B is faster. noise: how far that may be from 1 with the same code in both: by how far the\n\
             fastest passes lie apart, its own or those of its case, by what the roof's loops differ in this case, or in all\n\
             cases (the machine); by the ratio itself where the fastest passes are of both (their order); at least 2 %.\n\
             A, B: the fastest round. / roof: time over the roof's, of the middle pass\n\n";
    text += &align(&rows);
    let [faster, slower, same, unknown] = counts;
    let _ = writeln!(
        text,
        "\n{faster} faster, {slower} slower, {same} the same within {} %, {unknown} cannot be told",
        100.0 * difference
    );
    if others > 0.0 {
        text += "Others used the machine, and the runs were made one after the other, so that little can be told of them: measure\n\
                 both by turns (compare takes two programs), or on a quiet machine\n";
    } else if unknown > 0 {
        let passes = |run: &Run| {
            let cases = run.cases.iter();
            let times = cases.flat_map(|case| case.roofs.iter().map(|roof| roof.time.passes.len()));
            times.max().unwrap_or(0)
        };
        let more = 2 * passes(a).max(passes(b)).max(3);
        let _ = writeln!(
            text,
            "What cannot be told has more noise than the difference: measure both again with --passes {more}, by turns (compare\n\
             takes two programs), on a core that nothing else uses"
        );
    }
    Ok(text)
}

fn is_same(a: &CaseResult, b: &CaseResult) -> bool {
    a.workload == b.workload && a.shape == b.shape && a.group == b.group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::results::Load;
    use crate::table::conclusion;
    use crate::time::Ratio;

    fn time(passes: [f64; 4]) -> Time {
        let passes = passes.map(|pass| vec![pass]);
        Time::of(&passes)
    }

    #[test]
    fn a_ratio_is_within_its_noise() {
        let verdict = |a, b, case| Comparison::of(&time(a), &time(b), (case, "")).verdict(0.05);
        let quiet = [100.0, 100.4, 100.2, 109.0];
        let [slower, slightly] = [1.1, 1.01].map(|factor| quiet.map(|pass| factor * pass));
        // A fastest pass that no other confirms; and 4 %, which is below 5 %, and possibly noise.
        let (unsettled, noisy) = ([100.0, 109.0, 109.0, 109.0], [104.0, 108.0, 108.0, 108.0]);
        for (a, b, case, expected) in [
            (quiet, slower, 0.0, Verdict::Slower),
            (slower, quiet, 0.0, Verdict::Faster),
            (quiet, quiet, 0.0, Verdict::Same),
            (quiet, slightly, 0.0, Verdict::Same),
            // The noise of the case hides the difference.
            (quiet, slower, 0.1, Verdict::CannotTell),
            (quiet, quiet, 0.06, Verdict::CannotTell),
            (unsettled, slower, 0.0, Verdict::CannotTell),
            (quiet, noisy, 0.0, Verdict::CannotTell),
        ] {
            assert_eq!(verdict(a, b, case), expected, "{a:?} {b:?} {case}");
        }
    }

    /// Returns random numbers between 0 and 1.
    fn random() -> impl Iterator<Item = f64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 40) as f64 + 0.5) / f64::from(1 << 24)
        })
    }

    /// Creates a run of 100 cases with one formulation, `factor` times as slow. Each round takes longer than the code
    /// by a random share: `noise` in the mean, and often nearly nothing, as on a shared machine.
    fn run(random: &mut impl Iterator<Item = f64>, factor: f64, noise: f64) -> Run {
        let mut time = |code: f64| {
            let mut round = || code * (1.0 - noise * random.next().unwrap().ln());
            Time::of(&[(); 6].map(|()| (0..5).map(|_| round()).collect::<Vec<_>>()))
        };
        let mut run = Run::new(Machine::default());
        run.cases.extend((0..100).map(|case| CaseResult {
            group: "f32 half".into(),
            workload: format!("{case}"),
            roofs: Vec::from(["baseline", "avx2"].map(|name| RoofResult {
                name: name.into(),
                time: time(80.0),
            })),
            measurements: vec![Measurement {
                formulation: "fused/avx2".into(),
                time: time(100.0 * factor),
                ..Measurement::default()
            }],
            ..CaseResult::default()
        }));
        run
    }

    /// Counts the lines that are faster, slower, the same, and undecided.
    fn verdicts(a: &Run, b: &Run) -> [usize; 4] {
        let lines = lines(a, b, 0.0);
        let verdicts = lines.iter().filter_map(|line| line.measured);
        verdicts.fold([0; 4], |mut counts, (.., ratio)| {
            counts[ratio.verdict(DIFFERENCE) as usize] += 1;
            counts
        })
    }

    #[test]
    fn what_is_found_of_a_slowdown() {
        let mut random = random();
        let mut counts = |factor: f64, noise: f64| {
            let a = run(&mut random, 1.0, noise);
            verdicts(&a, &run(&mut random, factor, noise))
        };
        for (factor, noise, most) in [
            // No difference: none is found, and most lines are the same.
            (1.0, 0.02, [0, 0, 100, 5]),
            // A slowdown beyond the noise.
            (1.05, 0.02, [0, 100, 0, 5]),
            (1.1, 0.02, [0, 100, 0, 0]),
            // More noise than slowdown: undecided with and without a slowdown.
            (1.0, 1.0, [1, 2, 3, 100]),
            (1.05, 1.0, [1, 2, 3, 100]),
            // Less than requested, but above zero: never certainly the same, and never lost.
            (1.05, 0.2, [2, 100, 2, 100]),
            // A fifth, where a pass takes a twentieth longer in the mean.
            (1.2, 0.05, [0, 100, 0, 5]),
        ] {
            let found = counts(factor, noise);
            let mut both = found.iter().zip(most);
            assert!(
                both.all(|(found, most)| *found <= most),
                "{factor} {noise}: {found:?}"
            );
        }
    }

    /// Two runs of one program with 3 % of a core for others, one after the other: in the table, and on the page.
    #[test]
    fn equal_runs_are_the_same() {
        let mut random = random();
        let [mut a, mut b] = [(); 2].map(|()| run(&mut random, 1.0, 0.02));
        for run in [&mut a, &mut b] {
            let (others, stolen) = (0.03, 0.01);
            run.load = Some(Load { others, stolen });
        }
        let text = table([("a", &a), ("b", &b)], DIFFERENCE, false).unwrap();
        assert!(text.contains("\n0 faster, 0 slower, "), "{text}");
        assert!(!text.contains("inf"), "{text}");
        let [same, unknown] = [Verdict::Same, Verdict::CannotTell].map(|verdict| {
            let lines = text.lines();
            lines.filter(|line| line.contains(verdict.text())).count()
        });
        assert!(same >= 95 && unknown <= 7, "{text}");
        for (a, b) in a.cases.iter().zip(&b.cases) {
            let compared = over_roofs([a, b].map(|case| (case, &case.measurements[0])), 0.0);
            let verdict = compared.verdict(DIFFERENCE);
            assert!(matches!(verdict, Verdict::Same | Verdict::CannotTell));
        }
        // A tenth is a difference in both.
        let slower = run(&mut random, 1.1, 0.02);
        for (a, b) in a.cases.iter().zip(&slower.cases) {
            let compared = over_roofs([a, b].map(|case| (case, &case.measurements[0])), 0.0);
            assert_eq!(compared.verdict(DIFFERENCE), Verdict::Slower);
            let apart = over_roofs([a, b].map(|case| (case, &case.measurements[0])), 0.5);
            assert_eq!(apart.verdict(DIFFERENCE), Verdict::CannotTell);
        }
    }

    /// A machine whose clock is 4 % slower in the second run slows the roof and the code alike.
    #[test]
    fn a_slower_clock_is_no_difference() {
        let mut random = random();
        let a = run(&mut random, 1.0, 0.005);
        let mut with_clock = |factor: f64| {
            let mut b = run(&mut random, factor, 0.005);
            let of_case = |case: &mut CaseResult| {
                let roofs = case.roofs.iter_mut().map(|roof| &mut roof.time);
                let lines = case.measurements.iter_mut().map(|line| &mut line.time);
                roofs
                    .chain(lines)
                    .for_each(|time| *time = time.over(1.0 / 1.04));
            };
            b.cases.iter_mut().for_each(of_case);
            b
        };
        let [faster, slower, same, _] = verdicts(&a, &with_clock(1.0));
        assert_eq!([faster, slower], [0, 0]);
        assert!(same >= 95, "{same}");
        let [faster, _, same, _] = verdicts(&a, &with_clock(1.06));
        assert_eq!([faster, same], [0, 0]);
    }

    /// A loop that takes a tenth longer in every other process.
    #[test]
    fn what_differs_between_processes_is_noise() {
        let mut random = random();
        let mut run = |factor: f64| {
            let mut run = run(&mut random, factor, 0.001);
            for measured in run.cases.iter_mut().flat_map(|case| &mut case.measurements) {
                let passes = measured.time.passes.iter();
                let passes = passes.map(|time| match random.next().unwrap() < 0.5 {
                    true => vec![1.1 * time],
                    false => vec![*time],
                });
                measured.time = Time::of(&passes.collect::<Vec<_>>());
            }
            run
        };
        let (a, b, slower) = (run(1.0), run(1.0), run(1.05));
        let found = verdicts(&a, &b);
        assert!(found[0] + found[1] <= 5, "{found:?}");
        let found = verdicts(&a, &slower);
        assert!(found[0] + found[2] <= 5, "{found:?}");
    }

    #[test]
    fn what_cannot_be_told_is_counted_and_more_passes_suggested() {
        let mut random = random();
        let [a, b] = [(); 2].map(|()| run(&mut random, 1.0, 1.0));
        let text = table([("a", &a), ("b", &b)], DIFFERENCE, true).unwrap();
        assert!(
            text.contains("cannot be told") && text.contains("--passes 12"),
            "{text}"
        );
        let same = table([("a", &a), ("a", &a)], DIFFERENCE, true).unwrap();
        assert!(same.contains("0 faster, 0 slower"), "{same}");
        assert!(table([("a", &a), ("b", &b)], 0.01, true).is_err());
        let none = Run::new(a.machine.clone());
        assert!(table([("a", &a), ("b", &none)], DIFFERENCE, true).is_err());
    }

    /// Returns the times of the passes of one case: the code's, and the addition of each pass of a busy machine.
    fn passes(count: usize, code: f64, mut pass: impl FnMut() -> f64) -> Time {
        Time::of(&(0..count).map(|_| vec![code * pass()]).collect::<Vec<_>>())
    }

    /// The last line of a run: the fastest formulation in all cases, and the load of the machine.
    #[test]
    fn a_run_ends_with_what_to_use() {
        let mut random = random();
        let mut run = run(&mut random, 1.0, 0.0);
        run.cases.truncate(2);
        let measured = |name: &str, value| Measurement {
            formulation: name.into(),
            ratios: vec![Ratio {
                value,
                ..Ratio::default()
            }],
            ..Measurement::default()
        };
        for (case, times) in run.cases.iter_mut().zip([1.0, 1.21]) {
            case.measurements = vec![measured("fused/avx2", times), measured("fused/scalar", 4.0)];
        }
        // The fastest of all, in one of the cases.
        run.cases[0].measurements.push(measured("complex", 0.5));
        let last = conclusion(&run);
        let use_it = "Use fused/avx2: 1.10 times the limit in the mean of 2 cases, at most 1.21. ";
        assert!(last.starts_with(use_it), "{last}");
        assert!(last.contains("not known"), "{last}");
        let (others, stolen) = (1.2, 0.0);
        run.load = Some(Load { others, stolen });
        assert!(conclusion(&run).contains("A shared machine: other programs had 1.20 of"));
        run.cases.clear();
        assert_eq!(conclusion(&run), "");
    }

    /// Kinds of noise for which equal runs had verdicts, in 1 to 7 of 100 lines by their standard errors alone; with 6
    /// and 24 passes.
    #[test]
    fn equal_runs_under_noise_have_no_verdict() {
        let mut random = random();
        let mut unit = move || random.next().unwrap().clamp(1e-9, 1.0 - 1e-9);
        let (mut lines, mut verdicts) = (0, 0);
        for count in [6, 24] {
            for noise in 0..4 {
                for _ in 0..200 {
                    let mut pass = || {
                        let (u, v) = (unit(), unit());
                        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                        match noise {
                            0 => 1.0 - u.ln(),
                            1 => (0.2 * normal).exp(),
                            // Half of all passes are disturbed, or nine of ten.
                            2 => (if u < 0.5 { 1.5 } else { 1.0 }) * (1.0 + 0.004 * v),
                            _ => (if u < 0.9 { 1.5 } else { 1.0 }) * (1.0 + 0.004 * v),
                        }
                    };
                    let [a, b] = [(); 2].map(|()| passes(count, 100.0, &mut pass));
                    let verdict = Comparison::of(&a, &b, (0.0, "")).verdict(DIFFERENCE);
                    verdicts += usize::from(matches!(verdict, Verdict::Faster | Verdict::Slower));
                    lines += 1;
                }
            }
        }
        // By chance the fastest passes all belong to one run in 6 of 10,000 lines of 24 passes, and in 22 of 6 passes.
        assert!(verdicts <= 1, "{verdicts} of {lines} equal lines");
    }

    /// Two runs on a shared machine: one was disturbed, and the other was not.
    #[test]
    fn runs_of_a_busy_machine_one_after_the_other_have_no_verdict() {
        let mut random = random();
        let (mut a, mut b) = (run(&mut random, 1.0, 0.02), run(&mut random, 1.5, 0.02));
        let stolen = 0.0;
        let load = |others| Some(Load { others, stolen });
        (a.load, b.load) = (load(0.01), load(1.2));
        let text =
            |a: &Run, b: &Run, by_turns| table([("a", a), ("b", b)], DIFFERENCE, by_turns).unwrap();
        let after = text(&a, &b, false);
        assert!(after.contains("0 faster, 0 slower, 0 the same"), "{after}");
        assert!(after.contains("A quiet machine"), "{after}");
        assert!(
            after.contains("A shared machine: other programs had 1.20"),
            "{after}"
        );
        assert!(text(&a, &b, true).contains("0 faster, 100 slower"));
        for quiet in [0.02, 0.2] {
            b.load = load(quiet);
            assert!(text(&a, &b, false).contains("0 faster, 100 slower"));
        }
    }
}
