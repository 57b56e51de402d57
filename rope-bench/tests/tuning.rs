//! The table of cores matches its records: `rope-core/src/tuning.rs` and `rope-bench/records/CORE/tuning.json`.

use std::path::Path;

use rope_bench::commands::tune::{
    self, Choice, DIFFERENCE, Decision, KNOBS, Measured, Tuned, recorded,
};
use rope_bench::measure::machine;
use rope_core::internals::{self, TUNINGS, Tuning};
use rope_core::{Pairing, Rope};
use rope_report::files;

fn records() -> Vec<Tuned> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("records");
    let folders = std::fs::read_dir(folder).expect("the records");
    let mut files: Vec<_> = folders
        .map(|entry| entry.expect("an entry").path().join(files::TUNING))
        .collect();
    files.retain(|file| file.exists());
    files.sort();
    files
        .iter()
        .map(|file| tune::read(file).expect("a record"))
        .collect()
}

fn row(core: &str) -> Option<&'static Tuning> {
    TUNINGS.iter().copied().find(|row| row.core == core)
}

/// Returns the loss that a value may have: the least difference, and the noise of its record.
fn margin(measured: &Measured) -> f64 {
    let noise = measured.others.iter().map(|choice| choice.noise);
    1.0 + DIFFERENCE + noise.fold(0.0, f64::max)
}

#[test]
fn every_row_has_the_best_value_of_its_record() {
    for record in records() {
        let row = row(&record.core).unwrap_or(TUNINGS[0]);
        for measured in &record.knobs {
            let knob = tune::knob(&measured.knob).expect("a knob of the table");
            let value = recorded(knob.of(*row));
            let lost = measured.over_best(value);
            let lost = lost.unwrap_or_else(|| {
                panic!("{}: {} of {value} was not measured", record.core, knob.name)
            });
            assert!(
                lost <= margin(measured),
                "{}: {} of {value} takes {lost:.2}",
                record.core,
                knob.name
            );
        }
    }
}

#[test]
fn cores_without_a_row_have_the_value_with_the_smallest_worst_case() {
    let records = records();
    for knob in KNOBS {
        let of: Vec<&Measured> = records
            .iter()
            .flat_map(|record| {
                record
                    .knobs
                    .iter()
                    .filter(|measured| measured.knob == knob.name)
            })
            .collect();
        // Values that every record has.
        let worst = |value: u64| -> Option<f64> {
            let mut lost = of.iter().map(|measured| measured.over_best(value));
            lost.try_fold(1.0, |worst: f64, lost| Some(worst.max(lost?)))
        };
        let values = knob.values.iter().map(|&value| recorded(value));
        let best = values.filter_map(worst).fold(f64::INFINITY, f64::min);
        let chosen = recorded(knob.of(*TUNINGS[0]));
        let lost = worst(chosen)
            .unwrap_or_else(|| panic!("{}: {chosen} was not measured everywhere", knob.name));
        let margin = of
            .iter()
            .map(|measured| margin(measured))
            .fold(1.0, f64::max);
        assert!(
            lost <= best * margin,
            "{}: {chosen} takes {lost:.2}, another value {best:.2}",
            knob.name
        );
    }
}

#[test]
fn the_table_and_the_records_name_a_core_alike() {
    let row = internals::tuning(&Rope::new(Pairing::Half));
    if row.core != TUNINGS[0].core {
        assert_eq!(row.core, machine::this(None).name());
    }
}

fn measured(ratio: f64, noise: f64) -> Measured {
    let other = |value, ratio| Choice {
        value,
        ratio,
        noise,
        cases: Vec::new(),
    };
    Measured {
        knob: "rotate.heads f32".into(),
        unit: "heads".into(),
        chosen: 0,
        others: vec![other(10, ratio), other(14, 1.3)],
    }
}

#[test]
fn a_decision_needs_a_difference_beyond_the_noise() {
    let decisions = [(1.2, 0.0), (0.97, 0.0), (0.8, 0.05), (0.8, 0.3)]
        .map(|(ratio, noise)| measured(ratio, noise).decision());
    assert_eq!(
        decisions,
        [
            Decision::Keep,
            Decision::Keep,
            Decision::Change(10),
            Decision::CannotTell
        ]
    );
    assert_eq!(measured(0.5, 0.0).over_best(14), Some(2.6));
    assert_eq!(measured(0.5, 0.0).over_best(12), None);
}

/// A knob that one case measures may gain, or lose, in another: heads_together of 16 bits gained 0.96 in bf16 half and
/// 0.77 in interleaved f16.
#[test]
fn every_knob_is_measured_by_cases_that_differ() {
    for knob in KNOBS {
        let [helped, hurt, ..] = knob.probes else {
            panic!("{} is measured by {} case", knob.name, knob.probes.len());
        };
        let case = |probe: &tune::probes::Probe| format!("{probe:?}");
        assert_ne!(case(helped), case(hurt), "{}", knob.name);
        let elements = knob.probes.iter().map(|probe| probe.element.name());
        let is_of_f32 = |element: &str| element == "f32";
        let (size, mut elements) = (knob.name.split(' ').nth(1), elements);
        match size {
            Some("f32") => assert!(elements.all(is_of_f32), "{}", knob.name),
            Some(_) => assert!(!elements.any(is_of_f32), "{}", knob.name),
            None => {}
        }
    }
}

/// A field without a knob would never be measured.
#[test]
fn every_field_has_a_knob() {
    let text = format!("{:#?}", TUNINGS[0]);
    let fields = text.lines().filter_map(|line| line.strip_prefix("    "));
    let fields = fields.filter(|field| field.starts_with(|c: char| c.is_alphabetic()));
    let names = fields.map(|field| field.split(':').next().unwrap());
    let names: Vec<&str> = names.filter(|&name| name != "core").collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let is_of = |knob: &tune::Knob| knob.name.split([' ', '.']).next() == Some(name);
        assert!(KNOBS.iter().any(is_of), "{name} has no knob");
    }
}
