//! The tables and the picture of the texts match the records.

use std::collections::BTreeSet;
use std::path::Path;

use rope_bench::cases::Element;
use rope_bench::commands::{rank, record};
use rope_bench::measure::machine;
use rope_core::{Backend, Pairing};
use rope_report as report;
use rope_report::results::{CaseResult, Measurement, Record, Run};
use rope_report::time::{Ratio, Time};

#[test]
fn texts_are_what_the_records_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    rank::splice(&root, true).unwrap();
}

/// Returns a run of a named CPU, with the same times over the roof in W1 and W3.
fn run(cpu: &str, date: &str, formulations: &[(&str, f64)]) -> Run {
    let mut run = Run::new(machine::this(None));
    run.machine.microarchitecture = Some(cpu.into());
    run.machine.backends = vec!["avx2".into(), "scalar".into()];
    run.date = date.into();
    run.cases.extend(["W1", "W3"].map(|workload| {
        CaseResult {
            group: "f32 half".into(),
            workload: workload.into(),
            element: "f32".into(),
            aligned: true,
            threads: 1,
            measurements: formulations
                .iter()
                .map(|&(name, roofs)| measured(name, roofs))
                .collect(),
            ..CaseResult::default()
        }
    }));
    run
}

fn ratio(over: &str, value: f64, spread: f64) -> Ratio {
    Ratio {
        over: over.into(),
        value,
        spread,
    }
}

fn measured(name: &str, roofs: f64) -> Measurement {
    Measurement {
        formulation: name.into(),
        time: Time::of(&[vec![10.0 * roofs]]),
        ratios: vec![ratio("roof", roofs, 0.0)],
        ..Measurement::default()
    }
}

#[test]
fn the_newest_record_of_each_machine_is_ranked() {
    let ours = "fused/avx2";
    let old = [(ours, 2.0), ("fused/scalar", 9.0), ("candle/rope", 8.0)];
    let new = [
        (ours, 8.0),
        ("candle/rope", 32.0),
        ("candle/rope-thd", 16.0),
    ];
    let runs = [
        run("Old", "2026-02-01", &old),
        run("Old", "2026-01-01", &[(ours, 99.0)]),
        run("New", "2026-01-15", &new),
    ];
    let named = runs.into_iter().map(|run| (run.date.clone().into(), run));
    let named: Vec<_> = named.collect();
    let newest = rank::newest(&named, false);
    let dates: Vec<_> = newest.iter().map(|run| &*run.date).collect();
    assert_eq!(dates, ["2026-01-15", "2026-02-01"]);
    let text = rank::rank(&newest).unwrap();
    // The roots of 2 * 8 and of 8 * 16: the library at its best; no other backend than the one that is chosen.
    let mut lines = text.lines().skip(2);
    for expected in [
        "| **rope-core** | 4.00 | 4.00 | - |",
        "| candle | 11.3 | 11.3 | - |",
    ] {
        assert!(lines.next().unwrap().starts_with(expected), "{text}");
    }
    assert_eq!(lines.next(), Some(""), "{text}");
}

#[test]
fn a_record_refuses_the_ratios_that_spread_beyond_its_claim() {
    let mut run = run(
        "One",
        "2026-01-01",
        &[("fused/avx2", 1.0), ("complex", 2.0)],
    );
    // Of the first case one ratio of the first line; of the second case all that its second line is.
    let of_c = ratio("intrinsics/avx2", 1.0, 0.11);
    run.cases[0].measurements[0].ratios.push(of_c);
    run.cases[1].measurements[1].ratios[0].spread = 0.2;
    run.cases[1].measurements[0].ratios[0].spread = record::CLAIM;
    record::refuse(&mut run);
    let kept = |case: usize| run.cases[case].measurements.iter();
    let kept = |case: usize| kept(case).map(|line| (&*line.formulation, line.ratios.len()));
    assert!(kept(0).eq([("fused/avx2", 1), ("complex", 1)]));
    assert!(kept(1).eq([("fused/avx2", 1)]));
    let Record { claim, refused } = run.record.as_ref().unwrap();
    assert_eq!(*claim, record::CLAIM);
    let refused = refused.iter();
    let refused = refused.map(|line| {
        (
            &*line.workload,
            &*line.formulation,
            &*line.over,
            line.spread,
        )
    });
    assert!(refused.eq([
        ("W1", "fused/avx2", "intrinsics/avx2", 0.11),
        ("W3", "complex", "roof", 0.2)
    ]));
}

#[test]
fn an_engine_with_fewer_lines_is_marked() {
    let lines = [("fused/avx2", 1.0), ("complex", 2.0)];
    let (mut one, two) = (
        run("One", "2026-01-01", &lines),
        run("Two", "2026-01-01", &lines),
    );
    one.cases[1].measurements.truncate(1);
    let text = rank::rank(&[&one, &two]).unwrap();
    assert!(text.contains("| complex | 2.00 | 2.00* | - |"), "{text}");
    assert!(rank::rank(&[]).is_err());
}

/// 32 heads at 256 bits: the bounds of f32 half, and of 16-bit elements.
const BOUNDS: [(&str, f64, f64); 2] = [("rvv", 0.3, 0.9), ("sve", 0.9, 2.0)];

#[test]
fn instructions_are_counted_for_every_kernel_of_arm_and_risc_v() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    let runs = report::files::read_all(&[records]).unwrap().into_iter();
    let emulated = runs
        .map(|(_, run)| run)
        .filter(|run| run.machine.emulator.is_some());
    let (mut found, mut bounded) = (BTreeSet::new(), 0);
    for run in emulated {
        for case in &run.cases {
            for measured in &case.measurements {
                let kernel = [&case.workload, &case.group, &measured.formulation].map(Clone::clone);
                let count = case.instructions_per_element(measured);
                let count = count.unwrap_or_else(|| panic!("{kernel:?} was not counted"));
                for (backend, of_f32, of_16_bits) in BOUNDS {
                    if run
                        .machine
                        .folder()
                        .ends_with(&format!("256-bit-{backend}"))
                        && case.workload == "H32"
                    {
                        let most = if case.element == "f32" {
                            of_f32
                        } else {
                            of_16_bits
                        };
                        assert!(count <= most, "{kernel:?}: {count}");
                        bounded += 1;
                    }
                }
                found.insert(kernel);
            }
        }
    }
    let mut expected = BTreeSet::new();
    for backend in Backend::ALL
        .iter()
        .filter(|of| !of.name().starts_with("avx"))
    {
        for group in Element::ALL
            .iter()
            .flat_map(|of| Pairing::ALL.map(|by| format!("{of} {by}")))
        {
            let kernel =
                |workload: &str| [workload.into(), group.clone(), format!("fused/{backend}")];
            expected.extend(["H32", "W3"].map(kernel));
        }
    }
    assert_eq!(found, expected);
    assert_eq!(bounded, 12);
}

/// The README's table and picture come from one record with libraries; its accuracy from any.
#[test]
fn the_readme_shows_the_record_with_libraries() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let part = |name: &str| {
        let (_, after) = readme
            .split_once(&format!("<!-- {name}: `rope-bench"))
            .unwrap();
        after.split_once(&format!("<!-- end of {name}")).unwrap().0
    };
    let rows = |name: &str| {
        part(name)
            .lines()
            .filter(|line| line.starts_with('|'))
            .count()
    };
    assert_eq!(rows("accuracy"), 6);
    assert!((3..=8).contains(&rows("speed")), "at most six lines");
    let records = root.join("rope-bench/records");
    let runs = report::files::read_all(&[records]).unwrap();
    let newest = rank::newest(&runs, false);
    let shown = newest.iter().filter(|run| {
        let date = format!("{}, commit {}", run.date, run.machine.revision);
        part("speed").contains(&date)
    });
    assert_eq!(shown.count(), 1);
}
