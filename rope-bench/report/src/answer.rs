//! The opening of the page: each formulation and library, as multiples of the machine's limit.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::cells::{count, digits, time};
use crate::compare::{self, Verdict};
use crate::engines::{self, ON_THE_FLY, OURS, Taken};
use crate::kind::{Kind, legend};
use crate::range::Range;
use crate::results::{CaseResult, distinct};
use crate::svg::bars::{Bar, draw, roof};
use crate::time::mean;
use crate::titles::{Titled, warning};

/// The representative workloads: a model token by token, for many users at once, and with a prompt.
const SHOWN: [&str; 3] = ["W3", "W4", "W1"];

/// An engine in a workload.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    run: &'a Titled,
    taken: Taken<'a>,
}

impl Entry<'_> {
    /// Returns the range in roofs.
    fn range(&self) -> Range {
        Range::of(&self.taken.measurement.time, self.taken.case.roof())
    }

    /// Returns true if it cannot be told from another entry, or is faster: the rule of `compare`.
    fn is_as_fast_as(&self, other: &Entry<'_>) -> bool {
        let [of, than] = [other, self].map(|entry| (entry.taken.case, entry.taken.measurement));
        let runs = [other, self].map(|entry| entry.run);
        let load = match std::ptr::eq(runs[0], runs[1]) {
            true => 0.0,
            false => compare::apart(&runs[0].run, &runs[1].run),
        };
        let compared = compare::over_roofs([of, than], load);
        compared.verdict(compare::DIFFERENCE) != Verdict::Slower
    }

    /// Returns the bar, bold if it cannot be told from the fastest one.
    fn bar(&self, fastest: &Entry<'_>) -> Bar {
        let (case, m, range) = (self.taken.case, self.taken.measurement, self.range());
        let kind = Kind::of(&m.formulation);
        let name = match kind {
            Kind::Own { backend } => format!("rope-core {backend}"),
            Kind::Intrinsics { backend } => format!("C {backend}"),
            _ => m.formulation.clone(),
        };
        let (roofs, call) = (digits(m.times_roof()), time(m.time.minimum));
        Bar {
            name: format!("{} {name}", self.run.letter).trim().to_owned(),
            value: format!("{roofs} roofs, {call}"),
            class: kind.class(),
            low: range.low,
            high: range.high,
            is_first: self.is_as_fast_as(fastest),
            about: format!(
                "{}, {} pairs: {roofs} times the roof, slower rounds {}, {call}, {} elements/ns; median {}, spread \
                 {:.1} %, error {:.0e}",
                m.formulation,
                case.pairing,
                digits(range.high),
                digits(case.elements as f64 / m.time.minimum),
                time(m.time.median),
                100.0 * m.time.spread,
                m.error
            ),
        }
    }
}

/// Returns the picture, and its numbers in words; empty if no run has times.
pub fn answer(runs: &[Titled]) -> Markup {
    let elements = distinct(timed(runs).map(|(_, case)| case.element.as_str()));
    let Some((first, others)) = elements.split_first() else {
        return html! {};
    };
    let threads = timed(runs).map(|(_, case)| case.threads).max().unwrap_or(1);
    html! {
        p {
            "How many times the machine's limit a rotation takes: less is faster. The limit, " b { "the roof" } ", \
             is what a machine takes to multiply the same bytes in place by a constant: every byte read once and \
             written once."
        }
        (matrix(runs, &elements))
        p {
            "A bar is solid up to the fastest round, and pale up to about the third quartile of the rounds."
        }
        (picture(runs, first))
        p.soft {
            (first) " elements on " (count(threads, "thread")) ", each formulation in the pairing that suits it \
             better, each library at its best. rope-core is the backend that it chooses by itself, C the loop for the same \
             instruction set; the others are below. Bold: cannot be told from the fastest, by the rule of `rope-bench compare`."
        }
        @for element in others {
            details { summary { "The same in " (element) } (picture(runs, element)) }
        }
    }
}

/// Returns every engine of every run, by element and workload: the darker, the farther from the limit.
fn matrix(runs: &[Titled], elements: &[&str]) -> Markup {
    let workloads = distinct(timed(runs).map(|(_, case)| case.workload.as_str()));
    let of = |element| workloads.iter().map(move |&workload| (element, workload));
    let columns: Vec<(&str, &str)> = elements.iter().flat_map(|&element| of(element)).collect();
    // The times of each engine of each run, by column.
    let mut rows: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for (column, (element, workload)) in columns.iter().enumerate() {
        for Entry { run, taken } in entries(runs, workload, element) {
            let name = format!("{} {}", run.letter, taken.engine);
            let cells = rows
                .entry(name)
                .or_insert_with(|| vec![None; columns.len()]);
            cells[column] = Some(taken.low());
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    let of = |cells: &[Option<f64>]| mean(&cells.iter().flatten().copied().collect::<Vec<_>>());
    rows.sort_by(|(_, a), (_, b)| of(a).total_cmp(&of(b)));
    html! {
        p.soft { @for workload in &workloads {
            @if let Some((_, case)) = timed(runs).find(|(_, case)| case.workload == *workload) {
                b { (workload) } ": " (case.about) ". "
            }
        } }
        @if runs.len() > 1 { dl { @for run in runs {
            dt { b { (run.letter) } }
            dd { (run.run.machine.name()) ", " (run.run.date) ", " (run.run.machine.revision) }
        } } }
        @for run in runs { (warning(run)) }
        div.wide { table.matrix {
            tr { th {} @for element in elements { th.element colspan=(workloads.len()) { (element) } } }
            tr { th { "times the roof" } @for (_, workload) in &columns { th { (workload) } } }
            @for (name, cells) in &rows { tr {
                td { (name) }
                @for cell in cells { @match cell {
                    Some(times) => td style=(shade(*times)) { (digits(*times)) },
                    None => td {},
                } }
            } }
        } }
    }
}

/// Returns a share of the color: none at the limit, all of it at a hundred times the limit.
fn shade(times: f64) -> String {
    let share = (times.ln() / 100.0_f64.ln()).clamp(0.0, 1.0);
    format!("--share:{:.0}%", 60.0 * share)
}

/// Returns a panel for each workload.
fn picture(runs: &[Titled], element: &str) -> Markup {
    let workloads = distinct(timed(runs).map(|(_, case)| case.workload.as_str()));
    let known = SHOWN.into_iter().filter(|name| workloads.contains(name));
    let known: Vec<_> = known.collect();
    let shown = if known.is_empty() { workloads } else { known };
    let panels = shown.into_iter().take(SHOWN.len());
    let panels: Vec<_> = panels
        .map(|workload| entries(runs, workload, element))
        .collect();
    let all = panels.iter().flatten();
    let names = all.map(|entry| &*entry.taken.measurement.formulation);
    html! {
        div.cards {
            @for entries in &panels { @if let Some(Entry { taken: Taken { case, .. }, .. }) = entries.first() {
                figure {
                    figcaption { (headline(entries)) (case.about) ", " (element) }
                    @let bars = bars(entries);
                    (draw(&format!("{}, {element}: time over roof", case.about), &bars))
                }
            } }
        }
        (legend(names))
    }
}

/// Returns `1.03 times the limit`, for rope-core in each run that has it.
fn headline(entries: &[Entry<'_>]) -> Markup {
    let own = entries.iter().filter(|entry| entry.taken.engine == OURS);
    let mut own: Vec<_> = own.collect();
    own.sort_by(|a, b| a.run.letter.cmp(&b.run.letter));
    html! {
        @if !own.is_empty() {
            div.headline {
                "rope-core: "
                @for entry in own { (entry.run.letter) " " b { (digits(entry.taken.low())) } " " }
                "times the limit"
            }
        }
    }
}

/// Returns the roof of each run, as its fastest entry met it, then the entries.
fn bars(entries: &[Entry<'_>]) -> Vec<Bar> {
    let mut letters: Vec<&str> = Vec::new();
    let mut bars: Vec<Bar> = Vec::new();
    for Entry { run, taken } in entries {
        if !letters.contains(&run.letter.as_str()) {
            letters.push(&run.letter);
            let bar = roof(taken.case);
            let name = format!("{} {}", run.letter, bar.name).trim().to_owned();
            bars.push(Bar { name, ..bar });
        }
    }
    let by_time = |a: &&Entry<'_>, b: &&Entry<'_>| a.range().low.total_cmp(&b.range().low);
    if let Some(fastest) = entries.iter().min_by(by_time) {
        bars.extend(entries.iter().map(|entry| entry.bar(fastest)));
    }
    bars
}

/// Returns the engines, without rope-core with rows made in the call: the fastest engine first, its runs in sequence.
fn entries<'a>(runs: &'a [Titled], workload: &str, element: &str) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    for run in runs {
        let cases = timed(runs).filter(|(of, case)| {
            of.letter == run.letter && case.workload == workload && case.element == element
        });
        let taken = engines::taken(&run.run, cases.map(|(_, case)| case)).into_iter();
        let shown = taken.filter(|taken| taken.engine != ON_THE_FLY);
        entries.extend(shown.map(|taken| Entry { run, taken }));
    }
    let best = |engine: &str| {
        let same = entries.iter().filter(|other| other.taken.engine == engine);
        same.map(|other| other.taken.low())
            .fold(f64::INFINITY, f64::min)
    };
    let mut sorted = entries.clone();
    sorted.sort_by(|a, b| {
        best(a.taken.engine)
            .total_cmp(&best(b.taken.engine))
            .then_with(|| a.run.letter.cmp(&b.run.letter))
    });
    sorted
}

/// Returns cases with meaningful times: those on one thread that begin at a cache line, or the nearest to that.
fn timed(runs: &[Titled]) -> impl Iterator<Item = (&Titled, &CaseResult)> {
    let runs = runs.iter().filter(|run| run.run.machine.emulator.is_none());
    let cases = runs.flat_map(|run| run.run.cases.iter().map(move |case| (run, case)));
    let way = |case: &CaseResult| (case.threads, !case.aligned);
    let usual = cases.clone().map(|(_, case)| way(case)).min();
    cases.filter(move |(_, case)| Some(way(case)) == usual)
}
