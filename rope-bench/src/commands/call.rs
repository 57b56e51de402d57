//! The costs of a call and of a head: a line through the times of one token by its heads.
//!
//! rope-core on every backend and the C loops run in the same rounds of [`Bench`](crate::commands::run::Bench), which
//! checks their results. The line's intercept is the fixed cost of a call, its slope the loop's.

use rope_core::{Backend, Pairing};
use rope_report::names::{C, CAPI, FUSED, NORMED};

use crate::cases::workloads::Workload;
use crate::cases::{Case, Element};
use crate::commands::selection::Planned;
use crate::formulations::formulation::Formulation;

/// Returns W3, W5 and W3n of the workloads, and those of a call, in each element and pairing, for rope-core with ready
/// rows, from Rust and from C, and for C.
pub fn plan<'a>(
    all: &'a [Box<dyn Formulation>],
    backends: &[Backend],
    elements: &[Element],
    pairings: &[Pairing],
) -> Vec<Planned<'a>> {
    let is_shown = |name: &str| {
        let mut parts = name.split('/');
        let (family, backend) = (parts.next(), parts.next());
        let is_known = |prefix: &str| family == prefix.strip_suffix('/');
        [FUSED, NORMED, C, CAPI].into_iter().any(is_known)
            && !name.ends_with("/on-the-fly")
            && backends.iter().any(|known| Some(known.name()) == backend)
    };
    let mut workloads = Workload::single_calls();
    workloads.extend(Workload::standard().into_iter().filter(|standard| {
        // The step that is as short as a call, and the chunk.
        ["W3", "W5"].contains(&standard.name.as_str())
    }));
    workloads.push(Workload::normed());
    let mut plan = Vec::new();
    for &element in elements {
        for &pairing in pairings {
            plan.extend(workloads.iter().cloned().map(|workload| {
                let case = Case::new(workload, element, pairing);
                let able = all.iter().map(|formulation| &**formulation);
                let able = able.filter(|f| is_shown(&f.name()) && f.supports(&case));
                (case.clone(), able.collect())
            }));
        }
    }
    plan
}
