//! Every formulation against the oracle, in shapes small enough for a debug build, in every order and alignment.

use rope_bench::cases::{Alignment, Case, Element};
use rope_bench::formulations::all;
use rope_bench::memory::{self, Memory};
use rope_bench::models::MODELS;
use rope_bench::oracle;
use rope_bench::workloads::{Order, Workload};
use rope_core::Pairing;

fn small() -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Workload::standard();
    workloads.extend(Workload::head_sizes());
    workloads.extend(MODELS.iter().flat_map(|model| model.workloads()));
    for workload in &mut workloads {
        workload.tokens = workload.tokens.min(7);
        workload.heads = workload.heads.min(3);
        workload.kv_heads = workload.kv_heads.min(2);
        if workload.batch > 3 {
            workload.batch = 3;
            workload.starts.truncate(3);
        }
    }
    let heads_major = workloads.iter().map(|workload| Workload {
        order: Order::HeadsMajor,
        ..workload.clone()
    });
    let heads_major: Vec<_> = heads_major.collect();
    workloads.extend(heads_major);
    workloads
}

#[test]
fn formulations_are_right() {
    let all = all();
    let mut checked = 0;
    for workload in small() {
        for element in Element::ALL {
            for pairing in Pairing::ALL {
                for (alignment, threads) in [
                    (Alignment::Line, 1),
                    (Alignment::Allocator, 1),
                    (Alignment::Line, 3),
                ] {
                    let case = Case {
                        workload: workload.clone(),
                        element,
                        pairing,
                        alignment,
                        threads,
                    };
                    let values = memory::values(case.workload.elements());
                    let turns = oracle::turns(&case.workload);
                    let mut memory = Memory::new(case.bytes());
                    for formulation in all
                        .iter()
                        .filter(|formulation| formulation.supports(&case).is_ok())
                    {
                        let bytes = memory.slice(alignment, case.bytes());
                        memory::fill(bytes, element, &values);
                        let mut runner = formulation.prepare(&case).unwrap();
                        runner.load(bytes).unwrap();
                        runner.run(bytes, 1).unwrap();
                        runner.store(bytes).unwrap();
                        let error = oracle::error(&case, &turns, &values, bytes).unwrap();
                        let limit = formulation.about().limit(&case);
                        assert!(
                            error <= limit,
                            "{} in {case}: {error:e} > {limit:e}",
                            formulation.name()
                        );
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} checked");
}

#[test]
fn the_oracle_sees_errors() {
    let workload = Workload {
        tokens: 2,
        heads: 1,
        ..Workload::standard().remove(0)
    };
    let case = Case {
        workload,
        element: Element::F32,
        pairing: Pairing::Half,
        alignment: Alignment::Line,
        threads: 1,
    };
    let (values, turns) = (
        memory::values(case.workload.elements()),
        oracle::turns(&case.workload),
    );
    // Nothing was rotated: right for token 0 only.
    let error = oracle::error(&case, &turns, &values, bytemuck::cast_slice(&values)).unwrap();
    assert!(error > 0.1);
    let nothing = vec![f32::NAN; values.len()];
    assert_eq!(
        oracle::error(&case, &turns, &values, bytemuck::cast_slice(&nothing)).unwrap(),
        f64::INFINITY
    );
}
