//! Instructions per rotated element, of all runs in which they were counted: a table for each workload.

use maud::{Markup, html};

use crate::cells::{digits, rectangle, row};
use crate::results::{CaseResult, Run, distinct, formulations};

/// The instructions of some runs in a workload.
#[derive(Clone, Debug)]
pub struct Counts<'a> {
    /// A case of the workload.
    pub case: &'a CaseResult,
    /// The heading, of an element and a pairing each; then a row for each formulation of each run.
    pub table: Vec<Vec<String>>,
}

/// Returns the instructions by workload, if some were counted there.
pub fn counts<'a>(runs: &[&'a Run]) -> Vec<Counts<'a>> {
    let cases = || runs.iter().flat_map(|run| &run.cases);
    let mut counts = Vec::new();
    for workload in distinct(cases().map(|case| &case.workload)) {
        let of_workload = |case: &&'a CaseResult| case.workload == *workload;
        let groups = distinct(cases().filter(of_workload).map(|case| &case.group));
        let mut table = vec![row(workload, groups.iter().copied().cloned())];
        for run in runs {
            let of_run = run.cases.iter().filter(of_workload);
            for name in formulations(of_run.clone()) {
                let cell = |group: &&String| {
                    let case = of_run.clone().find(|case| case.group == **group)?;
                    case.instructions_per_element(case.measured(name)?)
                };
                let cells: Vec<Option<f64>> = groups.iter().map(cell).collect();
                if cells.iter().any(Option::is_some) {
                    let cpu = run.machine.name();
                    let cells = cells
                        .into_iter()
                        .map(|cell| cell.map_or_else(String::new, digits));
                    table.push(row(format!("{name}, {cpu}"), cells));
                }
            }
        }
        let case = cases().find(of_workload).filter(|_| table.len() > 1);
        counts.extend(case.map(|case| Counts { case, table }));
    }
    counts
}

/// Returns the section of a page; empty without counts.
pub fn section(runs: &[&Run]) -> Markup {
    let counts = counts(runs);
    html! {
        @if !counts.is_empty() {
            h2 { "Instructions for each element that rotates" }
            p { "Those of a call with everything around its loop: fewer are better." }
            @for Counts { case, table } in &counts {
                h3 { (case.workload) ": " (case.about) }
                (rectangle(table))
            }
        }
    }
}
