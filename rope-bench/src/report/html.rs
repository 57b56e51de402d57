//! One page that holds everything: no network, and no script but the playground's.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::answer::answer;
use crate::report::kind::legend;
use crate::report::playground;
use crate::report::svg;
use crate::report::table::{self, count, digits, time};
use crate::report::titles::Titled;
use crate::results::{Accuracy, CaseResult, CyclesResult, RowsResult, Run};
use crate::rows::LIBM;

const STYLE: &str = include_str!("style.css");

/// The page.
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

/// What the page says, of which machine.
fn title(runs: &[Titled]) -> String {
    match runs {
        [one] => format!(
            "Rotary position embedding against the limit of {}",
            one.run.machine.name()
        ),
        _ => {
            let names: Vec<_> = runs.iter().map(Titled::short).collect();
            format!(
                "Rotary position embedding against the machine's limit: {}",
                names.join(", ")
            )
        }
    }
}

/// A heading that a link can name: where a run is one of several, with its letter.
fn heading(id: &str, says: &Markup) -> Markup {
    let id = id.to_lowercase().replace([' ', ',', '/'], "-");
    html! { span id=(id) { (says) " " a.permalink href={ "#" (id) } { "#" } } }
}

/// The sections of a run. Of one that is alone every case is drawn, with all of its numbers.
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
            // Where times mean nothing they are not shown.
            @if is_emulated { (instructions(group)) } @else if is_alone { (times(group)) } @else {
                (rectangle(&table::speeds(group)))
            }
        }
        @if let Some(rows) = run.rows.as_ref().filter(|_| !is_emulated) { (makers(rows)) }
        @if let Some(cycles) = &run.cycles { (predictions(cycles)) }
    }
}

/// Where the numbers come from.
fn facts(run: &Run) -> Markup {
    let values: usize = run.verification.iter().map(|line| line.values).sum();
    let wrong: usize = run.verification.iter().map(|line| line.wrong).sum();
    let models: BTreeSet<_> = run.verification.iter().map(|line| &line.model).collect();
    let verified = if models.is_empty() {
        String::new()
    } else {
        format!("{values} values of {} models, {wrong} wrong", models.len())
    };
    let dispatch = run.dispatch.iter();
    let dispatch = dispatch.map(|line| format!("{} {}", line.backend, time(line.time.minimum)));
    let mut facts = run.machine.facts();
    facts.extend([
        (
            "load",
            run.load
                .as_ref()
                .map_or_else(String::new, |_| table::load(run)),
        ),
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

/// The cases of a group: bars, numbers.
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
    const HEADING: [&str; 9] = [
        "workload, formulation",
        "elements/ns",
        "GB/s",
        "call",
        "median",
        "spread",
        "time / roof",
        "error",
        "prepared in",
    ];
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    for case in group {
        let copy = case.copy.iter().map(|copy| {
            vec![
                format!("{} memcpy", case.workload),
                digits(case.elements as f64 / copy.minimum),
                digits(2.0 * case.bytes as f64 / copy.minimum),
                time(copy.minimum),
                time(copy.median),
                format!("{:.1} %", 100.0 * copy.spread),
                digits(copy.minimum / case.roof()),
                String::new(),
                String::new(),
            ]
        });
        rows.extend(copy);
        rows.extend(case.measurements.iter().map(|m| {
            vec![
                format!("{} {}", case.workload, m.formulation),
                digits(case.elements_per_ns(m)),
                digits(m.gigabytes_per_s()),
                time(m.time.minimum),
                time(m.time.median),
                format!("{:.1} %", 100.0 * m.time.spread),
                digits(m.times_roof()),
                format!("{:.1e}", m.error),
                time(m.preparation),
            ]
        }));
    }
    rectangle(&rows)
}

/// What kernels should take on CPUs that are not here.
fn predictions(cycles: &CyclesResult) -> Markup {
    html! {
        h3 { "Prediction: cycles for each element" }
        p.warn {
            "A prediction, not a measurement. " (cycles.tool) " plays the inner loops, heads of \
             " (cycles.head_dim) " channels rotated in place, on models of CPUs: all data are in the first cache, \
             and all branches foreseen. Loops of ARM whose stores move their own address, some of the scalar ones, \
             take less than it says. Where a kernel runs on this machine, what it takes stands beside it."
        }
        p.soft { "Loop: elements and instructions of an iteration. Stack: vectors, and other values, that it keeps \
         there." }
        @for kernels in cycles.kernels.chunk_by(|a, b| a.architecture == b.architecture) {
            (rectangle(&table::predicted(cycles, kernels)))
        }
        ul.soft { @for note in table::cycles_notes(cycles) { li { (note) } } }
    }
}

/// A table: its heading, then its rows.
fn rectangle(rows: &[Vec<String>]) -> Markup {
    html! {
        div.wide { table { @for (index, row) in rows.iter().enumerate() {
            tr { @for cell in row { @if index == 0 { th { (cell) } } @else { td { (cell) } } } }
        } } }
    }
}

/// What an emulated run has instead of times.
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

/// How long cos and sin take to make.
fn makers(rows: &RowsResult) -> Markup {
    let heading = [
        "backend, tokens",
        "rotate_at / rotate",
        "rotate_at",
        "rotate",
    ];
    let rotated = rows.rotated.iter().map(|rotated| {
        vec![
            format!("{} {}", rotated.backend, count(rotated.tokens, "token")),
            digits(rotated.ratio),
            time(rotated.rotate_at.minimum),
            time(rotated.rotate.minimum),
        ]
    });
    let rotated: Vec<_> = std::iter::once(heading.map(str::to_owned).to_vec())
        .chain(rotated)
        .collect();
    html! {
        h3 { "Making cos and sin" }
        p {
            "Rows of " (rows.pairs) " pairs, correctly rounded at every position. Beside them the platform's sinf \
             and cosf ("
            (LIBM) "), of the f32 angles that models compute. A bar is the time of one cos and one sin: shorter is \
             faster."
        }
        div.cards { @for tokens in table::makers(rows).0 {
            figure { figcaption { b { (count(tokens, "row")) } } (svg::makers::makers(rows, tokens)) }
        } }
        @if let Some(first) = rows.rotated.first() {
            p {
                "Rotating " (first.heads) " heads with rows that are made on the way (rotate_at) and with ready ones \
                 (rotate):"
            }
            (rectangle(&rotated))
        }
    }
}

/// How wrong cos and sin are, by the first run that says it: the same on every machine.
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
