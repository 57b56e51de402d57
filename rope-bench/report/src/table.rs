//! The tables of a run, for a terminal and for the page.

use std::fmt::Write;
use std::path::Path;

use crate::calls;
use crate::cells::{align, count, digits, or_empty, row, texts, time};
use crate::counts::counts;
use crate::machine::Machine;
use crate::names::C;
use crate::results::{
    Accuracy, CallCost, CaseResult, LIBM, Measurement, Pass, Record, RowsResult, Run, Verified,
    distinct, formulations,
};
use crate::time::mean;

/// Returns the origin of the numbers: words and their values.
pub fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let cores = count(machine.cores, "core");
    let compiler = format!("{}, {} {}", machine.compiler, machine.target, machine.flags);
    let cpu = format!(
        "{}, {cores}, {} {}",
        machine.cpu, machine.architecture, machine.system
    );
    let pinned = if machine.pinned { "to one core" } else { "no" };
    let mut facts = vec![
        ("CPU", cpu),
        ("caches", machine.caches.join(", ")),
        ("features", machine.features.join(" ")),
        ("compiler", compiler.trim_end().to_owned()),
        ("revision", machine.revision.clone()),
        ("backends", machine.backends.join(" ")),
        ("pinned", pinned.to_owned()),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Returns the head of a report: the origin of the numbers.
pub fn machine(machine: &Machine) -> String {
    let mut text = String::new();
    for (key, value) in facts(machine) {
        let _ = writeln!(text, "{key:<10}{value}");
    }
    if let Some(emulator) = &machine.emulator {
        let _ = writeln!(text, "{:<10}by {emulator}: times mean nothing", "emulated");
    }
    text
}

/// Returns the elements of one model on one backend: a line, and one more for each error.
pub fn verified(elements: &[Verified]) -> String {
    let Some(first) = elements.first() else {
        return String::new();
    };
    let mut line = format!("{:<18} {:<10}", first.model, first.backend);
    for of in elements {
        let verdict = wrong(of.wrong, "right");
        let _ = write!(line, "{:>5} {:>6} {verdict}  ", of.element, of.values);
    }
    let _ = write!(line, " ({})", first.layout);
    for of in elements {
        if let Some(first) = &of.first {
            let _ = write!(line, "\n    {} {first}", of.element);
        }
    }
    line
}

fn wrong(number: usize, none: &str) -> String {
    match number {
        0 => none.into(),
        _ => format!("{number} WRONG"),
    }
}

/// Returns the sum of the verification.
pub fn verification(lines: &[Verified]) -> String {
    let values: usize = lines.iter().map(|line| line.values).sum();
    let verdict = wrong(lines.iter().map(|line| line.wrong).sum(), "every bit right");
    format!("{values} values compared: {verdict}\n")
}

/// Returns the path of a record, its refusals, and the load of the machine.
pub fn record(run: &Run, path: &Path) -> String {
    let measured = run.cases.iter().flat_map(|case| &case.measurements);
    let kept: usize = measured.map(|measurement| measurement.ratios.len()).sum();
    let mut text = format!("{}: {kept} ratios", path.display());
    if let Some(Record { claim, refused }) = &run.record {
        let _ = writeln!(
            text,
            " within {:.0} %, {} refused:",
            100.0 * claim,
            refused.len()
        );
        for line in refused {
            let (formulation, over) = (&line.formulation, &line.over);
            let spread = 100.0 * line.spread;
            let of = format!("{} {}", line.workload, line.group);
            let _ = writeln!(
                text,
                "  {of}: {formulation} / {over} spreads over {spread:.0} %"
            );
        }
    }
    text + &load(run) + "\n"
}

/// Returns the load of the machine.
pub fn load(run: &Run) -> String {
    match &run.load {
        None => "What else the machine did is not known.".into(),
        Some(load) => {
            let kind = if load.is_shared() { "shared" } else { "quiet" };
            let (others, stolen) = (digits(load.others), digits(load.stolen));
            let cores = count(run.machine.cores, "core");
            format!(
                "A {kind} machine: other programs had {others} of {cores}, other machines {stolen}."
            )
        }
    }
}

/// Returns the last line of a run: the recommendation, its distance from the limit, and the load of the machine. Empty
/// if nothing was measured.
pub fn conclusion(run: &Run) -> String {
    let named = formulations(&run.cases).into_iter().map(|name| {
        let measured = run.cases.iter().filter_map(|case| case.measured(name));
        (name, measured.map(Measurement::times_roof).collect())
    });
    let named: Vec<(&str, Vec<f64>)> = named.collect();
    // A formulation that supports fewer cases is no recommendation for all.
    let most = named.iter().map(|(_, times)| times.len()).max();
    let of_all = named.iter().filter(|(_, times)| Some(times.len()) == most);
    let best = of_all.min_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
    let Some((name, times)) = best.filter(|_| run.machine.emulator.is_none()) else {
        return String::new();
    };
    let [mean, largest] = [mean(times), times.iter().copied().fold(0.0, f64::max)].map(digits);
    let (cases, load) = (count(times.len(), "case"), load(run));
    format!(
        "Use {name}: {mean} times the limit in the mean of {cases}, at most {largest}. {load}\n"
    )
}

/// Returns cases that differ only in their workload, side by side: five fit a terminal.
pub fn cases(cases: &[CaseResult]) -> String {
    let tables = cases.chunks(5).map(|cases| align(&speeds(cases, cell)));
    tables.collect::<Vec<_>>().join("\n")
}

/// The content of a cell: of a case, nanoseconds, and these over the roof's.
pub type Cell = fn(&CaseResult, f64, Option<f64>) -> String;

/// Returns the rows of such a table: its heading, the limits, then the formulations.
pub fn speeds(cases: &[CaseResult], cell: Cell) -> Vec<Vec<String>> {
    let group = cases.first().map_or("", |first| &*first.group);
    let head = |case: &CaseResult| format!("{} {}", case.workload, case.shape);
    let roof = |case: &CaseResult| cell(case, case.roof(), None);
    let mut rows = vec![
        row(group, cases.iter().map(head)),
        row("roof", cases.iter().map(roof)),
    ];
    rows[0].extend(texts(["error", "prepared in"]));
    for mut row in by_formulation("", cases.iter(), |case, m| {
        Some(cell(case, m.time.minimum, Some(m.times_roof())))
    })
    .drain(1..)
    {
        let measured = cases.iter().filter_map(|case| case.measured(&row[0]));
        let most = |of: fn(&Measurement) -> f64| measured.clone().map(of).fold(0.0, f64::max);
        let (error, preparation) = (most(|m| m.error), most(|m| m.preparation));
        row.extend([format!("{error:.0e}"), time(preparation)]);
        rows.push(row);
    }
    rows
}

/// Returns a row for each formulation of some cases, with a cell for each case.
fn by_formulation<'a>(
    heading: &str,
    cases: impl Iterator<Item = &'a CaseResult> + Clone,
    cell: impl Fn(&CaseResult, &Measurement) -> Option<String>,
) -> Vec<Vec<String>> {
    let mut rows = vec![row(
        heading,
        cases.clone().map(|case| case.workload.clone()),
    )];
    for name in formulations(cases.clone()) {
        let cells = cases.clone().map(|case| cell(case, case.measured(name)?));
        if cells.clone().any(|cell| cell.is_some()) {
            rows.push(row(name, cells.map(Option::unwrap_or_default)));
        }
    }
    rows
}

/// Returns the costs of a call and of a head, ours and C's: a table for each group of cases.
pub fn calls(cases: &[CaseResult], costs: &[CallCost]) -> String {
    let mut text = String::from(
        "One token of 1 to 40 heads of 128 channels: the time of a call as a line over the heads. / C: over the C loop of the\n\
         same instruction set. off by: how far a time is from the line, at most. P2, P128: one pair that rotates, in a head of\n\
         2 and of 128 channels. W3: 32 + 8 heads in one call. W5: 16 tokens of 8 heads. W3n: W3 with a norm of Q and one of K\n",
    );
    for group in cases.chunk_by(|a, b| a.group == b.group) {
        text.push('\n');
        text += &align(&calls_of(group, costs));
        text.push('\n');
        text += &align(&by_heads(group));
    }
    if !costs.iter().any(|cost| cost.formulation.starts_with(C)) {
        text += "\nNo C beside ours: it needs --features intrinsics, and an instruction set that the C loops have.\n";
    }
    text
}

/// Returns the nanoseconds by number of heads.
fn by_heads(group: &[CaseResult]) -> Vec<Vec<String>> {
    let cases = group.iter().filter(|case| calls::heads(case).is_some());
    let digits = |_: &_, m: &Measurement| Some(digits(m.time.minimum));
    let mut rows = by_formulation("ns of a call, by its heads", cases, digits);
    for name in &mut rows[0][1..] {
        *name = name.trim_start_matches('H').to_owned();
    }
    rows
}

/// Returns the rows of such a table: its heading, then the formulations.
fn calls_of(group: &[CaseResult], costs: &[CallCost]) -> Vec<Vec<String>> {
    const ALONE: [&str; 5] = ["P2", "P128", "W3", "W5", "W3n"];
    let time_of = |workload: &str, formulation: &str| {
        let case = group.iter().find(|case| case.workload == workload)?;
        Some(case.measured(formulation)?.time.minimum)
    };
    let alone = ALONE.iter().flat_map(|&name| [name, "/ C"]);
    let heading = LINE.into_iter().chain(alone).map(String::from);
    let mut rows = vec![row(&group[0].group, heading)];
    rows[0].pop();
    for name in formulations(group) {
        let c = calls::like(name);
        let mut row = row(name, cost_cells(costs, &group[0].group, name, time));
        for workload in ALONE {
            let c = c.as_deref().and_then(|c| time_of(workload, c));
            row.extend(beside(time_of(workload, name), c, time));
        }
        // C has no norm.
        row.pop();
        rows.push(row);
    }
    rows
}

/// The columns of [`cost_cells`].
const LINE: [&str; 5] = ["a call", "/ C", "a head", "/ C", "off by"];

/// Returns the instructions per rotated element: a table for each workload in which they were counted.
pub fn instructions(run: &Run) -> String {
    let mut text = String::from("Instructions for each element that rotates\n");
    for counts in counts(&[run]) {
        text.push('\n');
        text += &align(&counts.table);
    }
    let costs = calls::costs(&run.cases, |measured| measured.instructions);
    if !costs.is_empty() {
        text += "\nInstructions of a call and of a head, as a line over the heads\n\n";
        let mut rows = vec![row("", texts(LINE))];
        rows.extend(costs.iter().map(|cost| {
            let name = format!("{} {}", cost.group, cost.formulation);
            let cells = cost_cells(&costs, &cost.group, &cost.formulation, digits);
            row(name, cells)
        }));
        text += &align(&rows);
    }
    text
}

/// Returns intercept and slope of a line, each over C's, and the residual of the line.
fn cost_cells(
    costs: &[CallCost],
    group: &str,
    formulation: &str,
    unit: fn(f64) -> String,
) -> Vec<String> {
    let find = |formulation: &str| {
        let mut costs = costs.iter();
        costs.find(|cost| cost.group == group && cost.formulation == formulation)
    };
    let cost = find(formulation);
    let c = calls::like(formulation).and_then(|c| find(&c));
    let intercepts = [cost, c].map(|cost| Some(cost?.intercept));
    let slopes = [cost, c].map(|cost| Some(cost?.slope));
    let mut cells = [intercepts, slopes]
        .map(|[ours, c]| beside(ours, c, unit))
        .concat();
    cells.push(or_empty(cost, |cost| format!("{:.0} %", 100.0 * cost.off)));
    cells
}

/// Returns a number, and its ratio to another one.
fn beside(ours: Option<f64>, other: Option<f64>, unit: fn(f64) -> String) -> [String; 2] {
    let ratio = ours.zip(other).map(|(ours, other)| ours / other);
    [or_empty(ours, unit), or_empty(ratio, digits)]
}

/// Returns the errors of all methods at every level, or at those that `is_shown`.
pub fn errors(accuracy: &Accuracy, is_shown: impl Fn(u32) -> bool) -> Vec<Vec<String>> {
    let methods = || accuracy.methods.iter();
    let mut rows = vec![row(
        "positions up to",
        methods().map(|method| method.name.clone()),
    )];
    let levels = accuracy.levels.iter().enumerate();
    for (index, level) in levels.filter(|(_, level)| is_shown(**level)) {
        let errors = methods().filter_map(|method| method.errors.get(index));
        rows.push(row(
            level.to_string(),
            errors.map(|error| format!("{error:.1e}")),
        ));
    }
    rows
}

/// Returns the errors of cos and sin of a model.
pub fn accuracy(accuracy: &Accuracy) -> String {
    const POWERS: [u32; 15] = [0, 4, 8, 10, 12, 14, 15, 16, 17, 18, 20, 23, 24, 27, 31];
    let rows = errors(accuracy, |level| POWERS.contains(&level.ilog2()));
    let (model, about, rows) = (&accuracy.model, &accuracy.about, align(&rows));
    format!("The largest error of any cos or sin: {model}, {about}\n{rows}")
}

/// Returns the meaning of the columns of [`accuracy`].
pub fn methods(accuracy: &Accuracy) -> String {
    let mut text = String::new();
    for method in &accuracy.methods {
        let _ = writeln!(
            text,
            "{:<18} {}\n{:<18} {}",
            method.name, method.about, "", method.source
        );
    }
    let _ = writeln!(
        text,
        "Up to {} positions of each level were tried; the reference is off by less than {:.0e}.",
        accuracy.positions, accuracy.reference_error
    );
    text
}

/// Returns passes, their references, and the ratios.
pub fn passes(backend: &str, passes: &[Pass]) -> String {
    let heading = "|tokens|heads|one call|beside||ratio|times roof";
    let mut lines = vec![texts(heading.split('|'))];
    lines.extend(passes.iter().map(|pass| {
        vec![
            pass.name.clone(),
            pass.tokens.to_string(),
            pass.heads.to_string(),
            time(pass.one),
            pass.beside.into(),
            time(pass.other),
            digits(pass.one / pass.other),
            or_empty(pass.roof, |roof| digits(pass.one / roof)),
        ]
    }));
    let lines = align(&lines);
    format!(
        "Heads of 128 channels on {backend}: one call, and what it is measured beside.\n{lines}"
    )
}

/// Returns the times to make cos and sin.
pub fn rows(result: &RowsResult) -> String {
    format!(
        "Rows of {} pairs; x: how many times faster than the platform's sinf and cosf of f32 angles ({LIBM})\n{}",
        result.pairs,
        align(&made(result))
    )
}

/// Returns rows by maker and number of tokens.
pub fn made(result: &RowsResult) -> Vec<Vec<String>> {
    let find = |maker: &str, tokens| {
        let mut all = result.made.iter();
        all.find(|made| made.maker == maker && made.tokens == tokens)
    };
    let tokens = distinct(result.made.iter().map(|made| made.tokens));
    let heading = tokens.iter().map(|&tokens| count(tokens, "row"));
    let mut lines = vec![row("ns per cos and sin", heading)];
    for maker in distinct(result.made.iter().map(|made| &*made.maker)) {
        let cell = |&tokens: &usize| {
            or_empty(find(maker, tokens), |made| {
                let libm = find(LIBM, tokens).filter(|_| maker != LIBM);
                let faster = libm.map(|libm| libm.time.minimum / made.time.minimum);
                let faster = or_empty(faster, |times| format!("{}x", digits(times)));
                let (each, all) = (digits(made.ns_per_pair), time(made.time.minimum));
                format!("{each} {all:>7} {faster:>5}")
            })
        };
        lines.push(row(maker, tokens.iter().map(cell)));
    }
    lines
}

/// Returns elements per nanosecond, time, and time in roofs.
fn cell(case: &CaseResult, nanoseconds: f64, times_roof: Option<f64>) -> String {
    let times_roof = or_empty(times_roof, digits);
    let speed = digits(case.elements as f64 / nanoseconds);
    format!("{speed} {:>7} {times_roof:>5}", time(nanoseconds))
}

/// Returns a time with its unit, and the multiple of the roof.
pub fn with_units(_: &CaseResult, nanoseconds: f64, times_roof: Option<f64>) -> String {
    let times_roof = or_empty(times_roof, |times| format!(", {} x", digits(times)));
    time(nanoseconds) + &times_roof
}
