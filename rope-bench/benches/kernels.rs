//! rope-core on every backend, element and pairing, in the workloads that fit the caches:
//! `cargo bench -p rope-bench --bench kernels`.
//!
//! A group is a case, so that criterion's report puts the backends beside one another.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use criterion::{Criterion, criterion_group, criterion_main};
use rope_bench::cases::{Alignment, Case, Element};
use rope_bench::workloads::Workload;
use rope_core::Pairing;

fn kernels(criterion: &mut Criterion) {
    for workload in Workload::within_the_caches() {
        for element in Element::ALL {
            for pairing in Pairing::ALL {
                let workload = workload.clone();
                let case = Case {
                    workload,
                    element,
                    pairing,
                    alignment: Alignment::Line,
                    threads: 1,
                };
                shared::group(criterion, "kernels", &case, |name| {
                    name.starts_with("fused/")
                });
            }
        }
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);

#[path = "shared/mod.rs"]
mod shared;
