//! The same cases in several runs: on several machines, or at several commits.

use maud::{Markup, html};

use crate::report::range::Range;
use crate::report::svg::ratios::{Strip, ratios};
use crate::report::table::{digits, time};
use crate::report::titles::Titled;
use crate::results::{CaseResult, Measurement};

/// A formulation in a case, and what each run has of it.
struct Compared<'a> {
    case: &'a CaseResult,
    formulation: &'a str,
    found: Vec<Option<(&'a CaseResult, &'a Measurement)>>,
}

impl Compared<'_> {
    /// A run over the first one: the ratio of times over roofs, and whether their rounds lie apart.
    fn ratio(&self, run: usize) -> Option<(f64, bool)> {
        let (before, after) = ((*self.found.first()?)?, (*self.found.get(run)?)?);
        let apart = !Range::between_runs(before.0, before.1)
            .overlaps(Range::between_runs(after.0, after.1));
        Some((after.1.times_roof() / before.1.times_roof(), apart))
    }
}

/// The section. Nothing if fewer than two runs have times.
pub fn side_by_side(runs: &[Titled]) -> Markup {
    let runs: Vec<_> = runs
        .iter()
        .filter(|run| run.run.machine.emulator.is_none() && !run.run.cases.is_empty())
        .collect();
    let [first, others @ ..] = &*runs else {
        return html! {};
    };
    if others.is_empty() {
        return html! {};
    }
    let compared = compared(&runs);
    html! {
        h2 { "Side by side" }
        dl { @for run in &runs {
            dt { b { (run.letter) } }
            @let machine = &run.run.machine;
            dd { b { (run.file) } ": " (machine.cpu) ", " (machine.compiler) ", " (machine.revision) }
        } }
        p {
            "A mark is a case: time / roof of one run over that of " (first.letter) ". Left of 1 it is nearer to the \
             limit than " (first.letter) ". Where a mark is filled, and its formulation bold, the rounds of the two \
             runs do not overlap, the noise of both roofs included. To the right: the median, and in how many cases \
             they do not overlap. " code { "rope-bench compare" } " judges two runs case by case."
        }
        @for (index, run) in others.iter().enumerate() {
            h3 { (run.short()) " against " (first.short()) }
            div.cards { @for element in elements(&compared) {
                @let strips = strips(compared.iter().filter(|one| one.case.element == element), index + 1);
                @if !strips.is_empty() {
                    figure {
                        figcaption { b { (element) } }
                        (ratios(
                            &format!("{} against {}, {element}: ratios of time over roof", run.short(), first.short()),
                            "ratio: smaller is nearer to the limit",
                            &strips,
                        ))
                    }
                }
            } }
        }
        @for group in compared.chunk_by(|a, b| a.case.group == b.case.group) {
            details { summary { "Numbers, " (group[0].case.group) } (table(&runs, group)) }
        }
    }
}

/// Time / roof and time of each run, and the ratios to the first one.
fn table(runs: &[&Titled], compared: &[Compared<'_>]) -> Markup {
    html! {
        div.wide { table {
            tr {
                th { "workload, formulation" }
                @for (index, run) in runs.iter().enumerate() {
                    th { (run.short()) br; span.soft { "roofs, time" } }
                    @if index > 0 { th { (run.letter) " / " (runs[0].letter) br; span.soft { "of roofs" } } }
                }
            }
            @for one in compared { tr {
                td { (one.case.workload) " " (one.formulation) }
                @for (index, found) in one.found.iter().enumerate() {
                    td { @if let Some((_, m)) = found { (digits(m.times_roof())) " \
                     " span.soft { (time(m.time.minimum)) } } }
                    @if index > 0 { (cell(one.ratio(index))) }
                }
            } }
        } }
    }
}

/// Rounds that lie apart stand out, and not by their color alone.
fn cell(ratio: Option<(f64, bool)>) -> Markup {
    html! {
        @match ratio {
            Some((ratio, true)) if ratio < 1.0 => td.nearer { "▼ " (digits(ratio)) },
            Some((ratio, true)) => td.farther { "▲ " (digits(ratio)) },
            Some((ratio, false)) => td { (digits(ratio)) },
            None => td {},
        }
    }
}

/// The formulations that a run shares with the first one.
fn strips<'a>(compared: impl Iterator<Item = &'a Compared<'a>>, run: usize) -> Vec<Strip> {
    let mut strips: Vec<Strip> = Vec::new();
    for one in compared {
        let Some((ratio, apart)) = one.ratio(run) else {
            continue;
        };
        let mark = (
            format!("{} {}", one.case.workload, one.case.group),
            ratio,
            apart,
        );
        match strips
            .iter_mut()
            .find(|strip| strip.name == one.formulation)
        {
            Some(strip) => strip.ratios.push(mark),
            None => strips.push(Strip {
                name: one.formulation.to_owned(),
                ratios: vec![mark],
            }),
        }
    }
    strips
}

/// The elements, in the order of the runs.
fn elements<'a>(compared: &[Compared<'a>]) -> Vec<&'a str> {
    let mut elements: Vec<&str> = Vec::new();
    for one in compared {
        if !elements.contains(&one.case.element.as_str()) {
            elements.push(&one.case.element);
        }
    }
    elements
}

/// Everything that any run has measured, case by case.
fn compared<'a>(runs: &[&'a Titled]) -> Vec<Compared<'a>> {
    let mut all: Vec<Compared<'a>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for case in &run.run.cases {
            for m in &case.measurements {
                let known = all
                    .iter()
                    .position(|one| one.formulation == m.formulation && is_same(one.case, case));
                let at = known.unwrap_or_else(|| {
                    all.push(Compared {
                        case,
                        formulation: &m.formulation,
                        found: vec![None; runs.len()],
                    });
                    all.len() - 1
                });
                all[at].found[index] = Some((case, m));
            }
        }
    }
    // What only later runs have belongs to its case.
    let mut cases: Vec<&CaseResult> = Vec::new();
    for one in &all {
        if !cases.iter().any(|case| is_same(case, one.case)) {
            cases.push(one.case);
        }
    }
    all.sort_by_key(|one| cases.iter().position(|case| is_same(case, one.case)));
    all
}

fn is_same(a: &CaseResult, b: &CaseResult) -> bool {
    a.workload == b.workload && a.shape == b.shape && a.group == b.group
}
