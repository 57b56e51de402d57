//! `cargo bench -p rope-bench`: all formulations in f32 in W1 to W5, then rope-core's backends in every element in the
//! workloads that fit the caches. A group is a case, so criterion's report shows its formulations side by side.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rope_bench::cases::{Case, Element};
use rope_bench::formulations::all;
use rope_bench::memory::{self, Memory};
use rope_bench::roof::Roof;
use rope_bench::threads::Team;
use rope_bench::workloads::Workload;
use rope_core::Pairing;

/// Workloads beyond this size measure memory, not kernels.
const SECOND_CACHE: usize = 1 << 20;

fn formulations(criterion: &mut Criterion) {
    groups(criterion, "formulations", &[Element::F32], usize::MAX, "");
}

fn kernels(criterion: &mut Criterion) {
    groups(criterion, "kernels", &Element::ALL, SECOND_CACHE, "fused/");
}

/// Benchmarks the formulations named `prefix..`, in the workloads up to a size in bytes.
fn groups(criterion: &mut Criterion, title: &str, elements: &[Element], most: usize, prefix: &str) {
    let mut workloads = Workload::standard();
    workloads.retain(|workload| 4 * workload.elements() <= most);
    for workload in workloads {
        for &element in elements {
            for pairing in Pairing::ALL {
                let case = Case::new(workload.clone(), element, pairing);
                group(criterion, title, &case, prefix);
            }
        }
    }
}

/// The roofs and the formulations of a case, in one buffer.
fn group(criterion: &mut Criterion, title: &str, case: &Case, prefix: &str) {
    let workload = &case.workload;
    let mut memory = Memory::new(case.bytes());
    let bytes = memory.slice(case.alignment, case.bytes());
    memory::fill(bytes, case.element, &memory::values(workload.elements()));
    let mut group = criterion.benchmark_group(format!("{title}/{case}"));
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .throughput(Throughput::ElementsAndBytes {
            elements: workload.rotated() as u64,
            bytes: 2 * case.rotated_bytes() as u64,
        });
    let team = Team::new(1).expect("one thread is no team");
    for roof in Roof::available() {
        group.bench_function(format!("roof/{}", roof.name), |bencher| {
            bencher.iter_custom(|times| {
                let begin = Instant::now();
                roof.run(bytes, &team, times as usize);
                begin.elapsed()
            });
        });
    }
    for formulation in all() {
        if !formulation.name().starts_with(prefix) || formulation.supports(case).is_err() {
            continue;
        }
        let mut runner = formulation.prepare(case).expect("it supports the case");
        runner.load(bytes).expect("it supports the case");
        group.bench_function(formulation.name(), |bencher| {
            bencher.iter_custom(|times| {
                let begin = Instant::now();
                let run = runner.run(bytes, times as usize);
                run.expect("it supports the case");
                begin.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, formulations, kernels);
criterion_main!(benches);
