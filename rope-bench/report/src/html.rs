//! A self-contained page: no network, and no script but the playground's.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::answer::answer;
use crate::cells::rectangle;
use crate::counts;
use crate::playground;
use crate::results::{Accuracy, LIBM, RowsResult, Run};
use crate::svg;
use crate::table;
use crate::titles::{Titled, warning};

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
                (counts::section(&runs.iter().map(|run| &run.run).collect::<Vec<_>>()))
                (errors(runs))
                @for run in runs { (one(run)) }
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

/// Returns the sections of a run.
fn one(titled: &Titled) -> Markup {
    let run = &titled.run;
    let is_emulated = run.machine.emulator.is_some();
    html! {
        h2 { (titled.short()) ": " (run.machine.name()) }
        @if let Some(emulator) = &run.machine.emulator {
            p.warn { "Emulated by " (emulator) ": checked; its times mean nothing and are not shown." }
        }
        (facts(run))
        @if !is_emulated && !run.cases.is_empty() {
            p.soft { "The time of a call, and how many times the roof that is." }
            (warning(titled))
            @for group in run.cases.chunk_by(|a, b| a.group == b.group) {
                h3 { (group[0].group) }
                (rectangle(&table::speeds(group, table::with_units)))
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
    let load = run.load.as_ref().map(|_| table::load(run));
    let mut facts = table::facts(&run.machine);
    facts.extend([("load", load.unwrap_or_default()), ("verified", verified)]);
    html! {
        dl { @for (key, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            dt { (key) }
            dd { (value) }
        } }
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
        h2 { "Error against position" }
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
