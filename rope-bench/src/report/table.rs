//! Tables for a terminal.

use std::fmt::Write;
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use rope_core::Backend;

use crate::cache::Pass;
use crate::call;
use crate::machine::Machine;
use crate::results::{
    Accuracy, CallCost, CaseResult, CyclesResult, Dispatch, KernelCycles, Made, Measurement,
    Record, RowsResult, Run, formulations,
};
use crate::rows::LIBM;
use crate::verification::Verified;

/// The head of a report: where the numbers come from.
pub fn machine(machine: &Machine) -> String {
    let mut text = String::new();
    for (key, value) in machine.facts() {
        let _ = writeln!(text, "{key:<10}{value}");
    }
    if let Some(emulator) = &machine.emulator {
        let _ = writeln!(text, "{:<10}by {emulator}: times mean nothing", "emulated");
    }
    text
}

/// The elements of one model on one backend: a line, and one more for each that is wrong.
pub fn verified(elements: &[Verified]) -> String {
    let Some(Verified {
        model,
        layout,
        backend,
        ..
    }) = elements.first()
    else {
        return String::new();
    };
    let mut line = format!("{model:<18} {backend:<9}");
    for Verified {
        element,
        values,
        wrong,
        ..
    } in elements
    {
        let verdict = if *wrong == 0 {
            "right".to_owned()
        } else {
            format!("{wrong} WRONG")
        };
        let _ = write!(line, "{element:>5} {values:>6} {verdict}  ");
    }
    let _ = write!(line, " ({layout})");
    for Verified { element, first, .. } in elements {
        if let Some(first) = first {
            let _ = write!(line, "\n    {element} {first}");
        }
    }
    line
}

/// The sum of the verification.
pub fn verification(lines: &[Verified]) -> String {
    let values: usize = lines.iter().map(|line| line.values).sum();
    let wrong: usize = lines.iter().map(|line| line.wrong).sum();
    let verdict = if wrong == 0 {
        "every bit right".to_owned()
    } else {
        format!("{wrong} WRONG")
    };
    format!("{values} values compared: {verdict}\n")
}

/// Where a record is, what it refused, and whose the machine was.
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
            let _ = writeln!(
                text,
                "  {} {}: {} / {} spreads over {:.0} %",
                line.workload,
                line.group,
                line.formulation,
                line.over,
                100.0 * line.spread
            );
        }
    }
    text + &load(run) + "\n"
}

/// Whose the machine was meanwhile.
pub fn load(run: &Run) -> String {
    match &run.load {
        None => "What else the machine did is not known.".into(),
        Some(load) => format!(
            "{}: other programs had {} of {}, other machines {}.",
            if load.is_shared() {
                "A shared machine"
            } else {
                "A quiet machine"
            },
            digits(load.others),
            count(run.machine.cores, "core"),
            digits(load.stolen)
        ),
    }
}

/// The last line of a run: what to use, how near to the limit it is, and whose the machine was. Nothing if nothing was
/// measured.
pub fn conclusion(run: &Run) -> String {
    let of = |name: &str| -> Vec<f64> {
        let measured = run.cases.iter().filter_map(|case| case.measured(name));
        measured.map(Measurement::times_roof).collect()
    };
    let named = formulations(&run.cases)
        .into_iter()
        .map(|name| (name, of(name)));
    let named: Vec<_> = named.collect();
    // What admits fewer cases is no answer for all.
    let most = named
        .iter()
        .map(|(_, times)| times.len())
        .max()
        .unwrap_or(0);
    let mean = |times: &[f64]| {
        let logs = times.iter().map(|times| times.ln()).sum::<f64>();
        (logs / times.len() as f64).exp()
    };
    let of_all = named.iter().filter(|(_, times)| times.len() == most);
    let best = of_all.min_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
    let Some((name, times)) = best.filter(|_| run.machine.emulator.is_none()) else {
        return String::new();
    };
    let largest = times.iter().copied().fold(0.0, f64::max);
    format!(
        "Use {name}: {} times the limit in the mean of {}, at most {}. {}\n",
        digits(mean(times)),
        count(times.len(), "case"),
        digits(largest),
        load(run)
    )
}

/// What a call costs.
pub fn dispatch(lines: &[Dispatch]) -> String {
    let cost = |line: &Dispatch| {
        let made = line.with_tensor.as_ref();
        let made = made.map(|time| format!(" ({:.1})", time.minimum));
        let made = made.unwrap_or_default();
        format!("{} {:.1} ns{made}", line.backend, line.time.minimum)
    };
    let costs: Vec<_> = lines.iter().map(cost).collect();
    format!(
        "A call that rotates one pair (with the making of its tensor): {}\n",
        costs.join(", ")
    )
}

/// Cases that differ in their workload only, side by side: five fit a terminal.
pub fn cases(cases: &[CaseResult]) -> String {
    let tables = cases.chunks(5).map(|cases| align(&speeds(cases)));
    tables.collect::<Vec<_>>().join("\n")
}

/// The rows of such a table: its heading, the limits, then the formulations.
pub fn speeds(cases: &[CaseResult]) -> Vec<Vec<String>> {
    let group = cases.first().map_or("", |first| &*first.group);
    let head = |case: &CaseResult| format!("{} {}", case.workload, case.shape);
    let roof = |case: &CaseResult| cell(case, case.roof(), None);
    let copy = |case: &CaseResult| {
        let copy = case.copy.as_ref().map(|copy| copy.minimum);
        copy.map_or_else(String::new, |copy| {
            cell(case, copy, Some(copy / case.roof()))
        })
    };
    let mut rows = vec![
        row(group, cases.iter().map(head)),
        row("roof", cases.iter().map(roof)),
        row("memcpy", cases.iter().map(copy)),
    ];
    rows[0].extend(["error".into(), "prepared in".into()]);
    for name in formulations(cases) {
        let measured = cases.iter().map(|case| (case, case.measured(name)));
        let cells = measured.clone().map(|(case, measured)| {
            measured.map_or_else(String::new, |m| {
                cell(case, m.time.minimum, Some(m.times_roof()))
            })
        });
        let most = |of: fn(&Measurement) -> f64| {
            let measured = measured.clone().filter_map(|(_, measured)| measured);
            measured.map(of).fold(0.0, f64::max)
        };
        let worst = [
            format!("{:.0e}", most(|m| m.error)),
            time(most(|m| m.preparation)),
        ];
        rows.push(row(name, cells.chain(worst)));
    }
    rows
}

/// The cost of a call and of a head, ours and C's: a table for each group of cases.
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
    if !costs
        .iter()
        .any(|cost| cost.formulation.starts_with(call::C))
    {
        text += "\nNo C beside ours: it needs --features intrinsics, and an instruction set that the C loops have.\n";
    }
    text
}

/// Nanoseconds of each number of heads.
fn by_heads(group: &[CaseResult]) -> Vec<Vec<String>> {
    let cases = || {
        group
            .iter()
            .filter_map(|case| Some((case, call::heads(case)?)))
    };
    let heads = cases().map(|(_, heads)| heads.to_string());
    let mut rows = vec![row("ns of a call, by its heads", heads)];
    for name in formulations(cases().map(|(case, _)| case)) {
        let measured = cases().map(|(case, _)| case.measured(name));
        let digits = |of: &Measurement| digits(of.time.minimum);
        let times = measured.map(|measured| measured.map_or_else(String::new, digits));
        rows.push(row(name, times));
    }
    rows
}

/// The rows of such a table: its heading, then the formulations.
fn calls_of(group: &[CaseResult], costs: &[CallCost]) -> Vec<Vec<String>> {
    const ALONE: [&str; 5] = ["P2", "P128", "W3", "W5", "W3n"];
    let time_of = |workload: &str, formulation: &str| {
        let case = group.iter().find(|case| case.workload == workload)?;
        Some(case.measured(formulation)?.time.minimum)
    };
    let alone = ALONE.iter().flat_map(|&name| [name, "/ C"]);
    let heading = ["a call", "/ C", "a head", "/ C", "off by"].into_iter();
    let heading = heading.chain(alone).map(String::from);
    let mut rows = vec![row(&group[0].group, heading)];
    rows[0].pop();
    for name in formulations(group) {
        let c = call::like(name);
        let mut row = row(name, cost_cells(costs, &group[0].group, name, time));
        for workload in ALONE {
            let c = c.as_deref().and_then(|c| time_of(workload, c));
            row.extend(beside(time_of(workload, name), c, time));
        }
        // There is no C with a norm.
        row.pop();
        rows.push(row);
    }
    rows
}

/// Cycles that kernels should take: a table for each architecture.
pub fn cycles(cycles: &CyclesResult) -> String {
    let mut text = format!(
        "Cycles for each element, as {} PREDICTS them: all data in the first cache, all branches foreseen. A loop: elements\n\
         and instructions of an iteration, and what it keeps on the stack: vectors, other values\n",
        cycles.tool
    );
    for kernels in cycles
        .kernels
        .chunk_by(|a, b| a.architecture == b.architecture)
    {
        text.push('\n');
        text += &align(&predicted(cycles, kernels));
    }
    for note in cycles_notes(cycles) {
        let _ = writeln!(text, "{note}");
    }
    let missing = |kernel: &&KernelCycles| kernel.problem.is_some();
    let missing = cycles.kernels.iter().filter(missing).count();
    let _ = writeln!(
        text,
        "{} loops found, {missing} not found",
        cycles.kernels.len() - missing
    );
    text
}

/// The rows of such a table: its heading, then the kernels.
pub fn predicted(cycles: &CyclesResult, kernels: &[KernelCycles]) -> Vec<Vec<String>> {
    let architecture = kernels
        .first()
        .map_or("", |kernel| kernel.architecture.as_str());
    let columns: Vec<_> = cycles
        .cpus
        .iter()
        .enumerate()
        .filter(|(_, cpu)| cpu.architecture == architecture && cpu.known)
        .collect();
    let measured = kernels.iter().any(|kernel| kernel.measured.is_some());
    let mut head = vec![architecture.to_owned(), "loop".into(), "stack".into()];
    head.extend(columns.iter().map(|(_, cpu)| {
        let mark = if cpu.own { "" } else { "*" };
        format!("{}{mark}", cpu.name)
    }));
    if measured {
        head.push("measured".into());
        head.push("/ predicted".into());
    }
    let mut rows = vec![head];
    for kernel in kernels {
        let found = match kernel.problem {
            Some(_) => ["not found".into(), String::new()],
            None => [
                format!("{} in {}", kernel.elements, kernel.instructions),
                format!("{}, {}", kernel.spills, kernel.slots),
            ],
        };
        let name = format!("{} {} {}", kernel.backend, kernel.element, kernel.pairing);
        let mut row = row(name, found);
        let number = |value: Option<f64>| value.map_or_else(String::new, per_element);
        row.extend(
            columns
                .iter()
                .map(|&(index, _)| number(kernel.predicted[index])),
        );
        if measured {
            let here = columns.iter().find(|(_, cpu)| cpu.here);
            let predicted = here.and_then(|&(index, _)| kernel.predicted[index]);
            let ratio = kernel.measured.zip(predicted).map(|(m, p)| digits(m / p));
            row.extend([number(kernel.measured), ratio.unwrap_or_default()]);
        }
        rows.push(row);
    }
    rows
}

fn per_element(cycles: f64) -> String {
    if cycles < 1.0 {
        format!("{cycles:.3}")
    } else {
        digits(cycles)
    }
}

/// What has to be said about such tables.
pub fn cycles_notes(cycles: &CyclesResult) -> Vec<String> {
    let mut notes = Vec::new();
    for cpu in &cycles.cpus {
        if !cpu.known {
            notes.push(format!("{}: {} does not know it", cpu.name, cycles.tool));
        } else if !cpu.own {
            notes.push(format!(
                "* {}: no model of its own; played on that whose units are called {}",
                cpu.name, cpu.units
            ));
        }
    }
    for kernel in &cycles.kernels {
        if let Some(problem) = &kernel.problem {
            notes.push(format!(
                "{} {} {} {}: not found: {problem}",
                kernel.architecture, kernel.backend, kernel.element, kernel.pairing
            ));
        }
    }
    if let Some(here) = &cycles.here {
        notes.push(format!(
            "measured: on {}, in the first cache; a cycle is what an instruction takes in a chain of additions and exclusive \
             ors, {:.3} ns at best",
            here.cpu, here.ns_per_cycle
        ));
    }
    notes
}

/// Instructions for each element that rotates: a table for every group of cases in which they were counted.
pub fn instructions(run: &Run) -> String {
    let mut text = String::from("Instructions for each element that rotates\n");
    for group in run.cases.chunk_by(|a, b| a.group == b.group) {
        let rows = counted(group);
        if rows.len() > 1 {
            text.push('\n');
            text += &align(&rows);
        }
    }
    let costs = call::costs(&run.cases, |measured| measured.instructions);
    if !costs.is_empty() {
        text += "\nInstructions of a call and of a head, as a line over the heads\n\n";
        let heading = ["", "a call", "/ C", "a head", "/ C", "off by"];
        let mut rows = vec![heading.map(String::from).to_vec()];
        rows.extend(costs.iter().map(|cost| {
            let name = format!("{} {}", cost.group, cost.formulation);
            row(
                name,
                cost_cells(&costs, &cost.group, &cost.formulation, digits),
            )
        }));
        text += &align(&rows);
    }
    text
}

/// Intercept and slope of a line, each over C's, and how far the line is off.
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
    let c = call::like(formulation).and_then(|c| find(&c));
    let mut cells = Vec::new();
    for part in [
        |cost: &CallCost| cost.intercept,
        |cost: &CallCost| cost.slope,
    ] {
        cells.extend(beside(cost.map(part), c.map(part), unit));
    }
    cells.push(cost.map_or_else(String::new, |cost| format!("{:.0} %", 100.0 * cost.off)));
    cells
}

/// A number, and its ratio to C's.
fn beside(ours: Option<f64>, c: Option<f64>, unit: fn(f64) -> String) -> [String; 2] {
    let ratio = ours.zip(c).map(|(ours, c)| digits(ours / c));
    [
        ours.map_or_else(String::new, unit),
        ratio.unwrap_or_default(),
    ]
}

/// The rows of such a table: its heading, then the formulations.
pub fn counted(group: &[CaseResult]) -> Vec<Vec<String>> {
    let heading = group.first().map_or("", |case| &*case.group);
    let mut rows = vec![row(heading, group.iter().map(|case| case.workload.clone()))];
    for name in formulations(group) {
        let counted = |case: &CaseResult| case.instructions_per_element(case.measured(name)?);
        if group.iter().any(|case| counted(case).is_some()) {
            let cells = group.iter().map(counted);
            rows.push(row(
                name,
                cells.map(|cell| cell.map_or_else(String::new, digits)),
            ));
        }
    }
    rows
}

/// The errors of all methods at every level, or at those that `is_shown`.
pub fn errors(accuracy: &Accuracy, is_shown: impl Fn(u32) -> bool) -> Vec<Vec<String>> {
    let methods = &accuracy.methods;
    let names = methods.iter().map(|method| method.name.clone());
    let mut rows = vec![row("positions up to", names)];
    for (index, &level) in accuracy.levels.iter().enumerate() {
        if is_shown(level) {
            let errors = methods.iter().filter_map(|method| method.errors.get(index));
            rows.push(row(
                level.to_string(),
                errors.map(|error| format!("{error:.1e}")),
            ));
        }
    }
    rows
}

/// How wrong cos and sin of a model are.
pub fn accuracy(accuracy: &Accuracy) -> String {
    const POWERS: [u32; 15] = [0, 4, 8, 10, 12, 14, 15, 16, 17, 18, 20, 23, 24, 27, 31];
    let rows = errors(accuracy, |level| POWERS.contains(&level.ilog2()));
    format!(
        "The largest error of any cos or sin: {}, {}\n{}",
        accuracy.model,
        accuracy.about,
        align(&rows)
    )
}

/// What the columns of [`accuracy`] are.
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

/// The numbers of rows that were made, in order, and the makers.
pub fn makers(rows: &RowsResult) -> (Vec<usize>, Vec<&str>) {
    let (mut tokens, mut makers) = (Vec::new(), Vec::new());
    for made in &rows.made {
        if !tokens.contains(&made.tokens) {
            tokens.push(made.tokens);
        }
        if !makers.contains(&made.maker.as_str()) {
            makers.push(&made.maker);
        }
    }
    (tokens, makers)
}

/// The time that a maker took for a number of rows.
pub fn made<'a>(rows: &'a RowsResult, maker: &str, tokens: usize) -> Option<&'a Made> {
    rows.made
        .iter()
        .find(|made| made.maker == maker && made.tokens == tokens)
}

/// `1 row`, `16 rows`.
pub fn count(number: usize, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

/// Passes, what they are measured beside, and the ratio.
pub fn passes(backend: Backend, passes: &[Pass]) -> String {
    let heading = [
        "",
        "tokens",
        "heads",
        "one call",
        "beside",
        "",
        "ratio",
        "times roof",
    ];
    let mut lines: Vec<Vec<String>> = vec![heading.map(String::from).to_vec()];
    for pass in passes {
        lines.push(vec![
            pass.name.clone(),
            pass.tokens.to_string(),
            pass.heads.to_string(),
            time(pass.one),
            pass.beside.into(),
            time(pass.other),
            digits(pass.one / pass.other),
            pass.roof
                .map_or_else(String::new, |roof| digits(pass.one / roof)),
        ]);
    }
    format!(
        "Heads of 128 channels on {backend}: one call, and what it is measured beside.\n{}",
        align(&lines)
    )
}

/// How long cos and sin take to make.
pub fn rows(result: &RowsResult) -> String {
    let (tokens, makers) = makers(result);
    let heading = tokens.iter().map(|&tokens| count(tokens, "row"));
    let mut lines = vec![row("ns per cos and sin", heading)];
    for maker in makers {
        let cell = |&tokens: &usize| {
            let Some(made) = made(result, maker, tokens) else {
                return String::new();
            };
            let libm = self::made(result, LIBM, tokens);
            let faster = libm
                .filter(|_| maker != LIBM)
                .map_or_else(String::new, |libm| {
                    format!("{}x", digits(libm.time.minimum / made.time.minimum))
                });
            format!(
                "{} {:>7} {faster:>5}",
                digits(made.ns_per_pair),
                time(made.time.minimum)
            )
        };
        lines.push(row(maker, tokens.iter().map(cell)));
    }
    let mut text = format!(
        "Rows of {} pairs; x: how many times faster than the platform's sinf and cosf of f32 angles ({LIBM})\n{}",
        result.pairs,
        align(&lines)
    );
    let mut lines: Vec<Vec<String>> = Vec::new();
    for rotated in &result.rotated {
        let head = count(rotated.tokens, "token");
        if !lines.iter().flatten().any(|cell| *cell == head) {
            if lines.is_empty() {
                lines.push(vec!["rotate_at / rotate".into()]);
            }
            lines[0].push(head);
        }
        let cell = format!(
            "{} {:>7} {:>7}",
            digits(rotated.ratio),
            time(rotated.rotate_at.minimum),
            time(rotated.rotate.minimum)
        );
        match lines.iter_mut().find(|line| line[0] == rotated.backend) {
            Some(line) => line.push(cell),
            None => lines.push(vec![rotated.backend.clone(), cell]),
        }
    }
    if let Some(rotated) = result.rotated.first() {
        let _ = write!(
            text,
            "\nRotating {} heads of {} channels, f32, with rows made on the way and with ready rows\n{}",
            rotated.heads,
            2 * result.pairs,
            align(&lines)
        );
    }
    text
}

/// A row of a table: what it is about, and its cells.
pub fn row(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.into()).chain(cells).collect()
}

/// Elements in a nanosecond, time, and time in roofs.
fn cell(case: &CaseResult, nanoseconds: f64, times_roof: Option<f64>) -> String {
    let times_roof = times_roof.map_or_else(String::new, digits);
    let speed = digits(case.elements as f64 / nanoseconds);
    format!("{speed} {:>7} {times_roof:>5}", time(nanoseconds))
}

/// Nanoseconds in the unit that suits them.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{} ns", digits(ns)),
        ns if ns < 1e6 => format!("{} us", digits(ns / 1e3)),
        ns => format!("{} ms", digits(ns / 1e6)),
    }
}

/// Three digits.
pub fn digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Columns under one another: the first to the left, the others to the right.
pub fn align(rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index == 0 {
            column.set_padding((0, 0));
        } else {
            column.set_padding((3, 0));
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}
