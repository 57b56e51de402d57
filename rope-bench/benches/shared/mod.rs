//! A case as a group of criterion.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rope_bench::cases::Case;
use rope_bench::formulations::all;
use rope_bench::memory::{self, Memory};
use rope_bench::roof::Roof;
use rope_bench::threads::Team;

/// The roofs and the formulations with such names, in one buffer.
pub(crate) fn group(
    criterion: &mut Criterion,
    title: &str,
    case: &Case,
    wanted: impl Fn(&str) -> bool,
) {
    let values = memory::values(case.workload.elements());
    let mut memory = Memory::new(case.bytes());
    let bytes = memory.slice(case.alignment, case.bytes());
    memory::fill(bytes, case.element, &values);
    let mut group = criterion.benchmark_group(format!("{title}/{case}"));
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::ElementsAndBytes {
        elements: case.workload.rotated() as u64,
        bytes: 2 * case.rotated_bytes() as u64,
    });
    let team = Team::new(case.threads).expect("one thread is no team");
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
        if !wanted(&formulation.name()) || formulation.supports(case).is_err() {
            continue;
        }
        let mut runner = formulation.prepare(case).expect("it supports the case");
        runner.load(bytes).expect("it supports the case");
        group.bench_function(formulation.name(), |bencher| {
            bencher.iter_custom(|times| {
                let begin = Instant::now();
                runner
                    .run(bytes, times as usize)
                    .expect("it supports the case");
                begin.elapsed()
            });
        });
    }
    group.finish();
}
