//! The result of a run.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::time::{Ratio, Time, least, rounded};

/// The mark of our JSON, and its version, which changes with the name or meaning of a key.
pub const FORMAT: &str = "rope-bench 3";

/// A run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub format: String,
    pub date: String,
    pub machine: Machine,
    /// The load of others meanwhile; `None` if the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// The results of rope-core on the data of real models.
    pub verification: Vec<Verified>,
    pub cases: Vec<CaseResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accuracy: Vec<Accuracy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallCost>,
}

impl Run {
    /// Creates a run without measurements.
    pub fn new(machine: Machine) -> Self {
        Run {
            format: FORMAT.into(),
            date: today(),
            machine,
            ..Run::default()
        }
    }
}

/// The load of others while a machine measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    #[serde(serialize_with = "rounded")]
    pub others: f64,
    #[serde(serialize_with = "rounded")]
    pub stolen: f64,
}

impl Load {
    /// Returns true if others used the machine enough to affect times: 3 % of a core.
    pub fn is_shared(&self) -> bool {
        self.others + self.stolen > 0.03
    }

    /// Returns true if others may have disturbed every round: from a quarter of a core on. Below that most rounds are
    /// undisturbed, and the passes show the disturbance of the others.
    pub fn hides_differences(&self) -> bool {
        self.others + self.stolen > 0.25
    }
}

/// The properties of a record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub claim: f64,
    pub refused: Vec<Refused>,
}

/// A ratio that a record does not claim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Refused {
    pub workload: String,
    pub group: String,
    pub formulation: String,
    pub over: String,
    #[serde(serialize_with = "rounded")]
    pub spread: f64,
}

/// One element on one backend with the data of one model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verified {
    pub model: String,
    pub layout: String,
    pub backend: String,
    pub element: String,
    pub values: usize,
    pub wrong: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

/// All measurements of a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CaseResult {
    /// Cases of one group make one table.
    pub group: String,
    pub workload: String,
    pub about: String,
    pub shape: String,
    pub element: String,
    pub pairing: String,
    pub aligned: bool,
    pub threads: usize,
    pub elements: usize,
    pub bytes: usize,
    pub roofs: Vec<RoofResult>,
    pub measurements: Vec<Measurement>,
}

/// The machine's own limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoofResult {
    pub name: String,
    pub time: Time,
}

/// A formulation in a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    pub formulation: String,
    #[serde(default, serialize_with = "rounded")]
    pub preparation: f64,
    /// Nanoseconds; omitted if times mean nothing.
    #[serde(default, skip_serializing_if = "Time::is_none")]
    pub time: Time,
    /// Its time over the roof's; for rope-core also over those of C and of libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    #[serde(serialize_with = "rounded")]
    pub error: f64,
    /// Instructions of a call, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Measurement {
    /// Returns the time over the roof's: 1 is perfect.
    pub fn times_roof(&self) -> f64 {
        self.ratios.first().map_or(f64::NAN, |ratio| ratio.value)
    }
}

impl CaseResult {
    /// Returns the measurement of a formulation.
    pub fn measured(&self, formulation: &str) -> Option<&Measurement> {
        let mut measured = self.measurements.iter();
        measured.find(|measured| measured.formulation == formulation)
    }

    /// Returns the nanoseconds of the fastest scaling loop.
    pub fn roof(&self) -> f64 {
        least(self.roofs.iter().map(|roof| roof.time.minimum))
    }

    /// Returns the instructions per rotated element, if they were counted.
    pub fn instructions_per_element(&self, measurement: &Measurement) -> Option<f64> {
        Some(measurement.instructions? / self.elements as f64)
    }
}

/// Returns the formulations of some cases, each once.
pub fn formulations<'a>(cases: impl IntoIterator<Item = &'a CaseResult>) -> Vec<&'a str> {
    let measured = cases.into_iter().flat_map(|case| &case.measurements);
    distinct(measured.map(|measurement| &*measurement.formulation))
}

/// Returns each item once, in order.
pub fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// A line through the times of calls with one token of some heads: see [`calls`](super::calls).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallCost {
    pub group: String,
    pub formulation: String,
    pub intercept: f64,
    pub slope: f64,
    pub off: f64,
}

/// The worst cos or sin of a model, by method and position.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Accuracy {
    pub model: String,
    pub about: String,
    pub positions: usize,
    pub reference_error: f64,
    pub levels: Vec<u32>,
    pub methods: Vec<MethodErrors>,
}

/// A method for cos and sin, and its errors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MethodErrors {
    pub name: String,
    pub about: String,
    pub source: String,
    pub errors: Vec<f64>,
}

/// The name of the platform's sinf and cosf among the makers.
pub const LIBM: &str = "libm";

/// The times to make rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RowsResult {
    pub pairs: usize,
    pub made: Vec<Made>,
}

/// A number of rows by one maker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Made {
    pub maker: String,
    pub tokens: usize,
    pub time: Time,
    pub ns_per_pair: f64,
}

/// One call, and the calls that it replaces.
#[derive(Clone, Debug)]
pub struct Pass {
    pub name: String,
    pub tokens: usize,
    pub heads: usize,
    /// The name of the calls that it is compared with.
    pub beside: &'static str,
    /// Nanoseconds of the one call.
    pub one: f64,
    /// Nanoseconds of the calls that it is compared with.
    pub other: f64,
    /// Nanoseconds of the roof over the same bytes, if the call is in place.
    pub roof: Option<f64>,
}

/// Returns the day in UTC.
pub fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    now.to_string().chars().take("2026-01-31".len()).collect()
}
