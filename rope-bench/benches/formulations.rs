//! All formulations in f32 in W1 to W5: `cargo bench -p rope-bench --bench formulations`.
//!
//! A group is a case, so that criterion's report puts the formulations beside one another.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use criterion::{Criterion, criterion_group, criterion_main};
use rope_bench::cases::{Alignment, Case, Element};
use rope_bench::workloads::Workload;
use rope_core::Pairing;

fn formulations(criterion: &mut Criterion) {
    for workload in Workload::standard() {
        for pairing in Pairing::ALL {
            let workload = workload.clone();
            let case = Case {
                workload,
                element: Element::F32,
                pairing,
                alignment: Alignment::Line,
                threads: 1,
            };
            shared::group(criterion, "formulations", &case, |_| true);
        }
    }
}

criterion_group!(benches, formulations);
criterion_main!(benches);

#[path = "shared/mod.rs"]
mod shared;
