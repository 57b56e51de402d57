//! `cargo bench -p rope-bench`: all formulations in W1 to W5, in every element and pairing that they have. A group is a
//! case, so criterion's report shows its formulations side by side.

#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rope_bench::commands::selection::Selection;
use rope_bench::formulations::all;
use rope_bench::measure::memory::{self, Memory};

fn formulations(criterion: &mut Criterion) {
    let all = all();
    let plan = Selection::default().plan(&all).expect("the usual cases");
    for (case, formulations) in plan {
        let mut memory = Memory::new(case.bytes());
        let bytes = memory.slice(case.alignment, case.bytes());
        memory::fill(
            bytes,
            case.element,
            &memory::values(case.workload.elements()),
        );
        let mut group = criterion.benchmark_group(case.to_string());
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1))
            .throughput(Throughput::ElementsAndBytes {
                elements: case.workload.rotated() as u64,
                bytes: 2 * case.rotated_bytes() as u64,
            });
        for formulation in formulations {
            let mut runner = formulation.prepare(&case).expect("it supports the case");
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
}

criterion_group!(benches, formulations);
criterion_main!(benches);
