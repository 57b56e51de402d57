//! A self-contained page: no network, and no script but the playground's.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::measuring::Time;
use crate::report::answer::answer;
use crate::report::kind::legend;
use crate::report::playground;
use crate::report::svg;
use crate::report::table::{self, digits, time};
use crate::report::titles::Titled;
use crate::results::{Accuracy, CaseResult, RowsResult, Run};
use crate::rows::LIBM;

const STYLE: &str = include_str!("style.css");

/// Returns the page.
pub fn page(runs: &[Titled]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title(runs)) }
                style { (PreEscaped(svg::STYLE)) (PreEscaped(STYLE)) (PreEscaped(playground::STYLE)) }
            }
            body {
                h1 { (title(runs)) }
                (answer(runs))
                (errors(runs))
                @for run in runs { (one(run, runs.len() == 1)) }
                (playground::section())
            }
        }
    };
    page.into_string() + "\n"
}

/// Returns the title, with the machine.
fn title(runs: &[Titled]) -> String {
    let what = "Rotary position embedding against the";
    if let [one] = runs {
        return format!("{what} limit of {}", one.run.machine.name());
    }
    let names: Vec<_> = runs.iter().map(Titled::short).collect();
    format!("{what} machine's limit: {}", names.join(", "))
}

/// Returns a heading with an anchor; with its letter if there are several runs.
fn heading(id: &str, says: &Markup) -> Markup {
    let id = id.to_lowercase().replace([' ', ',', '/'], "-");
    html! { span id=(id) { (says) " " a.permalink href={ "#" (id) } { "#" } } }
}

/// Returns the sections of a run. For a single run every case is drawn, with all of its numbers.
fn one(titled: &Titled, is_alone: bool) -> Markup {
    let run = &titled.run;
    let id = |part: &str| format!("{} {part}", titled.letter).trim().to_owned();
    let is_emulated = run.machine.emulator.is_some();
    html! {
        h2 { (heading(&id("machine"), &html! { (titled.short()) ": " (run.machine.name()) })) }
        @if let Some(emulator) = &run.machine.emulator {
            p.warn { "Emulated by " (emulator) ": its times mean nothing and are not shown." }
        }
        (facts(run))
        @if !is_alone && !is_emulated && !run.cases.is_empty() {
            p.soft {
                "In each cell elements in a nanosecond, time of a call, and time over the roof. A page of this run alone \
                 has more."
            }
        }
        @for group in svg::groups(&run.cases) {
            h3 { (heading(&id(&group[0].group), &html! { (group[0].group) })) }
            // Times without meaning are not shown.
            @if is_emulated { (instructions(group)) } @else if is_alone { (times(group)) } @else {
                (rectangle(&table::speeds(group)))
            }
        }
        @if let Some(rows) = run.rows.as_ref().filter(|_| !is_emulated) { (makers(rows)) }
    }
}

/// Returns the origin of the numbers.
fn facts(run: &Run) -> Markup {
    let values: usize = run.verification.iter().map(|line| line.values).sum();
    let wrong: usize = run.verification.iter().map(|line| line.wrong).sum();
    let models: BTreeSet<_> = run.verification.iter().map(|line| &line.model).collect();
    let verified = match models.len() {
        0 => String::new(),
        count => format!("{values} values of {count} models, {wrong} wrong"),
    };
    let dispatch = run.dispatch.iter();
    let dispatch = dispatch.map(|line| format!("{} {}", line.backend, time(line.time.minimum)));
    let load = run.load.as_ref().map(|_| table::load(run));
    let mut facts = run.machine.facts();
    facts.extend([
        ("load", load.unwrap_or_default()),
        ("verified", verified),
        ("a call", dispatch.collect::<Vec<_>>().join(", ")),
    ]);
    html! {
        dl { @for (key, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            dt { (key) }
            dd { (value) }
        } }
    }
}

/// Returns the cases of a group: bars, numbers.
fn times(group: &[CaseResult]) -> Markup {
    let names = group.iter().flat_map(|case| &case.measurements);
    html! {
        (legend(names.map(|m| m.formulation.as_str())))
        p.soft { "Bold: cannot be told from the fastest, as its rounds overlap with those of the fastest." }
        div.cards { @for case in group {
            figure { (caption(case)) (svg::bars(case)) }
        } }
        details { summary { "Numbers, " (group[0].group) } (numbers(group)) }
    }
}

fn caption(case: &CaseResult) -> Markup {
    html! { figcaption { b { (case.workload) } " " span.soft { (case.shape) "; " (case.about) } } }
}

fn numbers(group: &[CaseResult]) -> Markup {
    let heading =
        "workload, formulation|elements/ns|GB/s|call|median|spread|time / roof|error|prepared in";
    let mut rows = vec![table::texts(heading.split('|'))];
    for case in group {
        let line = |name: &str, bytes: f64, of: &Time, times_roof: f64| {
            vec![
                format!("{} {name}", case.workload),
                digits(case.elements as f64 / of.minimum),
                digits(bytes / of.minimum),
                time(of.minimum),
                time(of.median),
                format!("{:.1} %", 100.0 * of.spread),
                digits(times_roof),
            ]
        };
        rows.extend(case.copy.iter().map(|copy| {
            let times_roof = copy.minimum / case.roof();
            let mut row = line("memcpy", 2.0 * case.bytes as f64, copy, times_roof);
            row.extend(table::texts(["", ""]));
            row
        }));
        rows.extend(case.measurements.iter().map(|m| {
            let mut row = line(&m.formulation, m.bytes, &m.time, m.times_roof());
            row.extend([format!("{:.1e}", m.error), time(m.preparation)]);
            row
        }));
    }
    rectangle(&rows)
}

/// Returns a table: its heading, then its rows.
fn rectangle(rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide { table { @for (index, row) in rows.iter().enumerate() {
            tr { @for cell in row { @if index == 0 { th { (cell) } } @else { td { (cell) } } } }
        } } }
    }
}

/// Returns the instructions of an emulated run, instead of times.
fn instructions(group: &[CaseResult]) -> Markup {
    let rows = table::counted(group);
    html! {
        @if rows.len() < 2 {
            p.soft { "Checked; instructions were not counted." }
        } @else {
            p { "Instructions for each element that rotates: fewer are better." }
            (rectangle(&rows))
        }
    }
}

/// Returns the times to make cos and sin.
fn makers(rows: &RowsResult) -> Markup {
    html! {
        h3 { "Making cos and sin" }
        p {
            "Rows of " (rows.pairs) " pairs, correctly rounded at every position: nanoseconds of one cos and one sin, the \
             time of all, and how many times faster than the platform's sinf and cosf (" (LIBM) ") of the f32 angles that \
             models compute."
        }
        (rectangle(&table::made(rows)))
        @if let Some(first) = rows.rotated.first() {
            p {
                "Rotating " (first.heads) " heads with rows that are made on the way and with ready ones: the ratio, and both \
                 times."
            }
            (rectangle(&table::rotated(rows)))
        }
    }
}

/// Returns the errors of cos and sin, from the first run that has them: the same on every machine.
fn errors(runs: &[Titled]) -> Markup {
    let mut models = runs.iter().map(|run| run.run.accuracy.as_slice());
    let models: &[Accuracy] = models.find(|of| !of.is_empty()).unwrap_or_default();
    let Some(first) = models.first() else {
        return html! {};
    };
    html! {
        h2 { (heading("accuracy", &html! { "Error against position" })) }
        p {
            "The largest error of any cos or sin among up to " (first.positions) " positions of each level. The \
             reference is off by less than " (format!("{:.0e}", first.reference_error)) "."
        }
        div.cards {
            @for accuracy in models {
                figure {
                    figcaption { b { (accuracy.model) } " " span.soft { (accuracy.about) } }
                    (svg::errors::errors(accuracy))
                }
            }
            dl { @for method in &first.methods { dt { (method.name) } dd { (method.about) "; " (method.source) } } }
        }
        @for accuracy in models {
            details { summary { "Numbers, " (accuracy.model) } (rectangle(&table::errors(accuracy, |_| true))) }
        }
    }
}
