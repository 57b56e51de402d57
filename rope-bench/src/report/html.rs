//! One page that holds everything: no network, and no script but the playground's.

use std::fmt::Write;

use crate::report::playground;
use crate::report::svg::{self, escape};
use crate::report::table::{self, count, digits, time};
use crate::results::{Accuracy, CaseResult, CyclesResult, RowsResult, Run};
use crate::rows::LIBM;

const STYLE: &str = "
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0}
h2{font-size:1.25rem;margin:2rem 0 .5rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{max-width:70ch}
.soft{color:var(--soft)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:1rem 1.5rem}
figure{margin:0}
figcaption{font-size:.9rem}
svg{width:100%;height:auto;display:block}
.plot{max-width:900px;overflow-x:auto}
.plot svg{min-width:560px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0;font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
summary{cursor:pointer;padding:.4rem 0}
.warn{border-left:4px solid var(--c1);padding-left:.8rem}
";

/// The page.
pub fn page(runs: &[Run]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\"><title>rope-bench</title><style>{}{STYLE}{}</style></head><body><h1>Rotary position embedding: \
         formulations against the machine's limit</h1>",
        svg::STYLE,
        playground::STYLE
    );
    if runs.iter().any(|run| !run.cases.is_empty()) {
        page.push_str(
            "<p>Each bar is the part of the roof that a formulation reaches. The \
             roof is what this machine takes to multiply the same bytes in place by a constant: every byte read once and \
             written once. Bars are the fastest round, the tick in a bar is the median round.</p>",
        );
    }
    if runs.iter().filter(|run| !run.cases.is_empty()).count() > 1 {
        side_by_side(&mut page, runs);
    }
    for run in runs {
        one(&mut page, run);
    }
    page + &playground::section() + "</body></html>\n"
}

fn one(page: &mut String, run: &Run) {
    let machine = &run.machine;
    let _ = write!(page, "<h2>{}</h2>", escape(&machine.cpu));
    if let Some(emulator) = &machine.emulator {
        let _ = write!(
            page,
            "<p class=\"warn\">Emulated by {}: its times mean nothing and are not shown.</p>",
            escape(emulator)
        );
    }
    let values: usize = run.verification.iter().map(|line| line.values).sum();
    let wrong: usize = run.verification.iter().map(|line| line.wrong).sum();
    let models = run
        .verification
        .iter()
        .map(|line| &line.model)
        .collect::<std::collections::BTreeSet<_>>()
        .len();
    let dispatch: Vec<_> = run
        .dispatch
        .iter()
        .map(|line| format!("{} {}", line.backend, time(line.time.minimum)))
        .collect();
    let facts = [
        (
            "architecture",
            format!(
                "{} {}, {} cores",
                machine.architecture, machine.system, machine.cores
            ),
        ),
        ("features", machine.features.join(" ")),
        ("caches", machine.caches.join(", ")),
        (
            "compiler",
            format!("{}, {} {}", machine.compiler, machine.target, machine.flags),
        ),
        ("revision", machine.revision.clone()),
        ("backends", machine.backends.join(" ")),
        (
            "verified",
            if models > 0 {
                format!("{values} values of {models} models, {wrong} wrong")
            } else {
                String::new()
            },
        ),
        ("a call", dispatch.join(", ")),
    ];
    page.push_str("<dl>");
    for (key, value) in facts.iter().filter(|(_, value)| !value.trim().is_empty()) {
        let _ = write!(page, "<dt>{key}</dt><dd>{}</dd>", escape(value));
    }
    page.push_str("</dl>");
    for group in svg::groups(&run.cases) {
        // Where times mean nothing they are not shown.
        if machine.emulator.is_some() {
            instructions(page, group);
            continue;
        }
        let _ = write!(
            page,
            "<h3>{}</h3><div class=\"grid\">",
            escape(&group[0].group)
        );
        for case in group {
            let _ = write!(
                page,
                "<figure><figcaption><b>{}</b> <span class=\"soft\">{}; {}</span></figcaption>{}</figure>",
                escape(&case.workload),
                escape(&case.shape),
                escape(&case.about),
                svg::bars(case)
            );
        }
        page.push_str("</div>");
        let _ = write!(
            page,
            "<details><summary>Roofline and numbers, {}</summary><p class=\"soft\">Lines: what the roof moves in each \
             workload. Discs: rope-core. Rings: the other formulations, by the bytes that they move, temporaries \
             included.</p>",
            escape(&group[0].group)
        );
        for part in group.chunks(svg::COLOURS) {
            let _ = write!(page, "<div class=\"plot\">{}</div>", svg::roofline(part));
        }
        numbers(page, group);
        page.push_str("</details>");
    }
    if let Some(rows) = run.rows.as_ref().filter(|_| machine.emulator.is_none()) {
        makers(page, rows);
    }
    errors(page, &run.accuracy);
    if let Some(cycles) = &run.cycles {
        predictions(page, cycles);
    }
}

/// What kernels should take on CPUs that are not here.
fn predictions(page: &mut String, cycles: &CyclesResult) {
    let _ = write!(
        page,
        "<h3>Prediction: cycles for each element</h3><p class=\"warn\">A prediction, not a measurement. {} plays the inner \
         loops, heads of {} channels rotated in place, on models of CPUs: all data are in the first cache, and all \
         branches foreseen. Loops of ARM whose stores move their own address, some of the scalar \
         ones, take less than it says. Where a kernel runs on this machine, what it takes stands beside it.</p><p class=\"soft\">\
         Loop: elements and instructions of an iteration. Stack: vectors, and other values, that it keeps there.</p>",
        escape(&cycles.tool),
        cycles.head_dim
    );
    for kernels in cycles
        .kernels
        .chunk_by(|a, b| a.architecture == b.architecture)
    {
        rectangle(page, &table::predicted(cycles, kernels));
    }
    page.push_str("<ul class=\"soft\">");
    for note in table::cycles_notes(cycles) {
        let _ = write!(page, "<li>{}</li>", escape(&note));
    }
    page.push_str("</ul>");
}

/// A table: its heading, then its rows.
fn rectangle(page: &mut String, rows: &[Vec<String>]) {
    page.push_str("<div class=\"wide\"><table>");
    for (index, row) in rows.iter().enumerate() {
        page.push_str("<tr>");
        for cell in row {
            let tag = if index == 0 { "th" } else { "td" };
            let _ = write!(page, "<{tag}>{}", escape(cell));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

/// What an emulated run has instead of times.
fn instructions(page: &mut String, group: &[CaseResult]) {
    let rows = table::counted(group);
    let _ = write!(page, "<h3>{}</h3>", escape(&group[0].group));
    if rows.len() < 2 {
        page.push_str("<p class=\"soft\">Checked; instructions were not counted.</p>");
        return;
    }
    page.push_str("<p>Instructions for each element that rotates: fewer are better.</p>");
    rectangle(page, &rows);
}

/// How long cos and sin take to make.
fn makers(page: &mut String, rows: &RowsResult) {
    let _ = write!(
        page,
        "<h3>Making cos and sin</h3><p>Rows of {} pairs, correctly rounded at every position. Beside them the platform's \
         sinf and cosf ({LIBM}), of the f32 angles that models compute. A bar is the time of one cos and one sin: shorter is \
         faster.</p><div class=\"grid\">",
        rows.pairs
    );
    for tokens in table::makers(rows).0 {
        let _ = write!(
            page,
            "<figure><figcaption><b>{}</b></figcaption>{}</figure>",
            count(tokens, "row"),
            svg::makers(rows, tokens)
        );
    }
    page.push_str("</div>");
    let Some(first) = rows.rotated.first() else {
        return;
    };
    let _ = write!(
        page,
        "<p>Rotating {} heads with rows that are made on the way (rotate_at) and with ready ones (rotate):</p>\
         <div class=\"wide\"><table><tr><th>backend, tokens<th>rotate_at / rotate<th>rotate_at<th>rotate</tr>",
        first.heads
    );
    for rotated in &rows.rotated {
        let _ = write!(
            page,
            "<tr><td>{} {}<td>{}<td>{}<td>{}</tr>",
            escape(&rotated.backend),
            count(rotated.tokens, "token"),
            digits(rotated.ratio),
            time(rotated.rotate_at.minimum),
            time(rotated.rotate.minimum)
        );
    }
    page.push_str("</table></div>");
}

/// How wrong cos and sin are.
fn errors(page: &mut String, models: &[Accuracy]) {
    let Some(first) = models.first() else {
        return;
    };
    let _ = write!(
        page,
        "<h3>Error against position</h3><p>The largest error of any cos or sin among up to {} positions of each level. The \
         reference is off by less than {:.0e}.</p>",
        first.positions, first.reference_error
    );
    for accuracy in models {
        let _ = write!(
            page,
            "<figure><figcaption><b>{}</b> <span class=\"soft\">{}</span></figcaption><div class=\"plot\">{}</div></figure>\
             <details><summary>Numbers, {0}</summary><div class=\"wide\"><table><tr><th>positions up to",
            escape(&accuracy.model),
            escape(&accuracy.about),
            svg::errors(accuracy)
        );
        for method in &accuracy.methods {
            let _ = write!(page, "<th>{}", escape(&method.name));
        }
        page.push_str("</tr>");
        for (index, level) in accuracy.levels.iter().enumerate() {
            let _ = write!(page, "<tr><td>{level}");
            for error in accuracy.methods.iter().filter_map(|m| m.errors.get(index)) {
                let _ = write!(page, "<td>{error:.1e}");
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div></details>");
    }
    page.push_str("<dl>");
    for method in &first.methods {
        let _ = write!(
            page,
            "<dt>{}</dt><dd>{}; {}</dd>",
            escape(&method.name),
            escape(&method.about),
            escape(&method.source)
        );
    }
    page.push_str("</dl>");
}

fn numbers(page: &mut String, group: &[CaseResult]) {
    page.push_str(
        "<div class=\"wide\"><table><tr><th>workload, formulation<th>elements/ns<th>GB/s<th>call<th>median<th>spread<th>\
         time / roof<th>error<th>prepared in</tr>",
    );
    for case in group {
        if let Some(copy) = &case.copy {
            let _ = write!(
                page,
                "<tr><td>{} memcpy<td>{}<td>{}<td>{}<td>{}<td>{:.1} %<td>{}<td><td></tr>",
                escape(&case.workload),
                digits(case.elements as f64 / copy.minimum),
                digits(2.0 * case.bytes as f64 / copy.minimum),
                time(copy.minimum),
                time(copy.median),
                100.0 * copy.spread,
                digits(copy.minimum / case.roof())
            );
        }
        for m in &case.measurements {
            let _ = write!(
                page,
                "<tr><td>{} {}<td>{}<td>{}<td>{}<td>{}<td>{:.1} %<td>{}<td>{:.1e}<td>{}</tr>",
                escape(&case.workload),
                escape(&m.formulation),
                digits(m.elements_per_ns),
                digits(m.gigabytes_per_s),
                time(m.time.minimum),
                time(m.time.median),
                100.0 * m.time.spread,
                digits(m.times_roof),
                m.error,
                time(m.preparation)
            );
        }
    }
    page.push_str("</table></div>");
}

/// The same cases on several machines or commits.
fn side_by_side(page: &mut String, runs: &[Run]) {
    page.push_str("<h2>Side by side</h2><p class=\"soft\">Time / roof, and the time of a call.</p><div class=\"wide\"><table><tr><th>case");
    for run in runs {
        let _ = write!(
            page,
            "<th>{}<br><span class=\"soft\">{}</span>",
            escape(&run.machine.cpu),
            escape(&run.machine.revision)
        );
    }
    page.push_str("</tr>");
    let mut seen: Vec<(&CaseResult, &str)> = Vec::new();
    for case in runs.iter().flat_map(|run| &run.cases) {
        for m in &case.measurements {
            if !seen
                .iter()
                .any(|(other, name)| is_same(case, other) && *name == m.formulation)
            {
                seen.push((case, &m.formulation));
            }
        }
    }
    for (case, name) in seen {
        let _ = write!(
            page,
            "<tr><td>{} {} {}",
            escape(&case.workload),
            escape(&case.group),
            escape(name)
        );
        for run in runs {
            let found = run.cases.iter().find(|other| is_same(case, other));
            let found =
                found.and_then(|case| case.measurements.iter().find(|m| m.formulation == name));
            let found = found.filter(|_| run.machine.emulator.is_none());
            let _ = match found {
                Some(m) => write!(
                    page,
                    "<td>{} <span class=\"soft\">{}</span>",
                    digits(m.times_roof),
                    time(m.time.minimum)
                ),
                None => write!(page, "<td>"),
            };
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

fn is_same(a: &CaseResult, b: &CaseResult) -> bool {
    a.workload == b.workload && a.shape == b.shape && a.group == b.group
}
