//! The result of a run.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::measuring::{Ratio, Time, rounded};
use crate::verification::Verified;

/// The mark of our JSON, and its version: another one wherever a key changes its name or its meaning.
pub const FORMAT: &str = "rope-bench 3";

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// The day it was made, `2026-01-31`, in UTC.
    pub date: String,
    /// The machine and the build that measured.
    pub machine: Machine,
    /// What else the machine did meanwhile; nothing where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Of a record: how far its passes agree, and what was left out because they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Whether rope-core gave the right bits on the data of real models.
    pub verification: Vec<Verified>,
    /// Formulations that were made slower, and how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_down: Option<String>,
    /// What a call costs before it rotates anything.
    pub dispatch: Vec<Dispatch>,
    /// What was measured of each case.
    pub cases: Vec<CaseResult>,
    /// The errors of cos and sin, of each method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accuracy: Vec<Accuracy>,
    /// How long cos and sin take to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsResult>,
    /// The cycles that llvm-mca predicts for the inner loops on other CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<CyclesResult>,
    /// What a call costs, and what a head of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallCost>,
}

impl Run {
    /// A run that has measured nothing yet.
    pub fn new(machine: Machine) -> Self {
        Run {
            format: FORMAT.into(),
            date: today(),
            machine,
            load: None,
            record: None,
            verification: Vec::new(),
            slow_down: None,
            dispatch: Vec::new(),
            cases: Vec::new(),
            accuracy: Vec::new(),
            rows: None,
            cycles: None,
            calls: Vec::new(),
        }
    }
}

/// What else a machine did while it measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Cores that other programs used, in the mean.
    #[serde(serialize_with = "rounded")]
    pub others: f64,
    /// Cores that a hypervisor gave to other machines, in the mean.
    #[serde(serialize_with = "rounded")]
    pub stolen: f64,
}

impl Load {
    /// Whether others had enough of the machine for times to be theirs too: 3 % of a core.
    pub fn is_shared(&self) -> bool {
        self.others + self.stolen > 0.03
    }
}

/// What makes a run a record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Every ratio is claimed to be right within this share: its spread over the passes is smaller.
    pub claim: f64,
    /// Ratios that were left out because their spread was not.
    pub refused: Vec<Refused>,
}

/// A ratio that a record has not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The workload.
    pub workload: String,
    /// The group of its case.
    pub group: String,
    /// The formulation.
    pub formulation: String,
    /// Over what.
    pub over: String,
    /// The spread that is too large.
    #[serde(serialize_with = "rounded")]
    pub spread: f64,
}

/// Time to rotate a single pair: the cost of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Dispatch {
    /// The backend.
    pub backend: String,
    /// Nanoseconds.
    pub time: Time,
    /// Those of a call with the making of its tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_tensor: Option<Time>,
}

/// All that was measured of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    /// [`Case::group`](crate::cases::Case::group): cases of one group make one table.
    pub group: String,
    /// The workload's name.
    pub workload: String,
    /// What it stands for.
    pub about: String,
    /// `[batch, tokens, heads, head_dim]`.
    pub shape: String,
    /// The element.
    pub element: String,
    /// The pairing.
    pub pairing: String,
    /// Whether the tensors start at a cache line.
    pub aligned: bool,
    /// Threads.
    pub threads: usize,
    /// Elements that rotate.
    pub elements: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// The scaling loops; the fastest is the roof.
    pub roofs: Vec<RoofResult>,
    /// Copying the same bytes elsewhere, with the platform's memcpy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Time>,
    /// The formulations.
    pub measurements: Vec<Measurement>,
}

/// The machine's own limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoofResult {
    /// The instruction set.
    pub name: String,
    /// Nanoseconds.
    pub time: Time,
}

/// A formulation in a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// Its name.
    pub formulation: String,
    /// Nanoseconds that tables, temporaries and plans took to make, once and cold.
    #[serde(default, serialize_with = "rounded")]
    pub preparation: f64,
    /// Nanoseconds; none where times mean nothing.
    #[serde(default, skip_serializing_if = "Time::is_none")]
    pub time: Time,
    /// Its time over the roof's; of rope-core's own also over those of C and of libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    /// Bytes moved, temporaries included.
    pub bytes: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// The largest distance from the exact rotation, in lengths of the pair.
    #[serde(serialize_with = "rounded")]
    pub error: f64,
    /// Instructions of a call, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// The library that a [runner](crate::runners) measured, and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Measurement {
    /// Time over the roof's: 1 is perfect.
    pub fn times_roof(&self) -> f64 {
        self.ratios.first().map_or(f64::NAN, |ratio| ratio.value)
    }

    /// Gigabytes moved in a second.
    pub fn gigabytes_per_s(&self) -> f64 {
        self.bytes / self.time.minimum
    }
}

impl CaseResult {
    /// What was measured of a formulation.
    pub fn measured(&self, formulation: &str) -> Option<&Measurement> {
        let mut measured = self.measurements.iter();
        measured.find(|measured| measured.formulation == formulation)
    }

    /// Elements that a formulation rotates in a nanosecond.
    pub fn elements_per_ns(&self, measurement: &Measurement) -> f64 {
        self.elements as f64 / measurement.time.minimum
    }

    /// Nanoseconds of the fastest scaling loop.
    pub fn roof(&self) -> f64 {
        self.roofs
            .iter()
            .map(|roof| roof.time.minimum)
            .fold(f64::INFINITY, f64::min)
    }

    /// Instructions for each element that rotates, where they were counted.
    pub fn instructions_per_element(&self, measurement: &Measurement) -> Option<f64> {
        let counted = measurement.instructions?;
        Some(counted / self.elements as f64)
    }
}

/// The formulations of some cases, each once.
pub fn formulations<'a>(cases: impl IntoIterator<Item = &'a CaseResult>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let cases = cases.into_iter();
    for measurement in cases.flat_map(|case| &case.measurements) {
        if !names.contains(&measurement.formulation.as_str()) {
            names.push(&measurement.formulation);
        }
    }
    names
}

/// A line through the times of calls with one token of some heads: see [`call`](crate::call).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallCost {
    /// The group of its cases.
    pub group: String,
    /// The formulation.
    pub formulation: String,
    /// Nanoseconds of a call with no head: the fixed cost.
    pub intercept: f64,
    /// Nanoseconds of a head.
    pub slope: f64,
    /// The largest distance of a time from the line, over the time.
    pub off: f64,
}

/// The worst cos or sin of a model, by method and position.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Accuracy {
    /// The model.
    pub model: String,
    /// Its frequencies.
    pub about: String,
    /// Positions that were tried for each level, at most.
    pub positions: usize,
    /// What the reference is off by, at most.
    pub reference_error: f64,
    /// The largest position of each level.
    pub levels: Vec<u32>,
    /// The methods.
    pub methods: Vec<MethodErrors>,
}

/// A way to cos and sin, and how wrong it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MethodErrors {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Who does it.
    pub source: String,
    /// The largest error of any cos or sin at each level.
    pub errors: Vec<f64>,
}

/// How long rows take to make, alone and on the way into a rotation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsResult {
    /// Pairs of a row.
    pub pairs: usize,
    /// Rows alone.
    pub made: Vec<Made>,
    /// Rotations.
    pub rotated: Vec<RotatedAt>,
}

/// So many rows by one maker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Made {
    /// A backend, or [`LIBM`](crate::rows::LIBM).
    pub maker: String,
    /// Rows.
    pub tokens: usize,
    /// Nanoseconds.
    pub time: Time,
    /// Nanoseconds of one cos and one sin.
    pub ns_per_pair: f64,
}

/// A rotation with rows that are ready, and one that makes them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RotatedAt {
    /// The backend.
    pub backend: String,
    /// Tokens.
    pub tokens: usize,
    /// Heads of each.
    pub heads: usize,
    /// `rotate`.
    pub rotate: Time,
    /// `rotate_at`.
    pub rotate_at: Time,
    /// `rotate_at` / `rotate`.
    pub ratio: f64,
}

/// Cycles of the inner loops, as a program predicts them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CyclesResult {
    /// The program, and its version.
    pub tool: String,
    /// Channels of a head.
    pub head_dim: usize,
    /// The CPUs that were asked about.
    pub cpus: Vec<ModelledCpu>,
    /// The kernels.
    pub kernels: Vec<KernelCycles>,
    /// The CPU that measured some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<CyclesHere>,
}

/// A CPU that a program has a model of, or has not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelledCpu {
    /// Its name.
    pub name: String,
    /// As LLVM calls it.
    pub llvm: String,
    /// What it runs.
    pub architecture: String,
    /// Whether the program knows it.
    pub known: bool,
    /// The first unit of the model, whose name says whose model it is.
    pub units: String,
    /// Whether the model is this CPU's own; or else that of an earlier one.
    pub own: bool,
    /// Whether the program says that it runs on one.
    pub here: bool,
}

/// The inner loop of a kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelCycles {
    /// The target.
    pub architecture: String,
    /// The backend.
    pub backend: String,
    /// The element.
    pub element: String,
    /// The pairing.
    pub pairing: String,
    /// Elements that an iteration rotates.
    pub elements: usize,
    /// Its instructions.
    pub instructions: usize,
    /// Vectors that it keeps on the stack: each written or read counts.
    pub spills: usize,
    /// Other values that it keeps on the stack.
    pub slots: usize,
    /// Constants that it reads from memory.
    pub constants: usize,
    /// Cycles of an element on each CPU, in their order; nothing where it cannot run or is not known.
    pub predicted: Vec<Option<f64>>,
    /// Cycles of an element here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Why the loop was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The CPU that measured, and its clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CyclesHere {
    /// Its name.
    pub cpu: String,
    /// Nanoseconds of a cycle at its fastest, from a chain of instructions of one cycle each.
    pub ns_per_cycle: f64,
}

/// The day in UTC, by the proleptic Gregorian calendar.
pub(crate) fn today() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    date(now.map_or(0, |now| now.as_secs() / 86_400))
}

/// So many days after the first of 1970.
fn date(mut days: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < of_month {
            break;
        }
        days -= of_month;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_have_dates() {
        let dates = [0, 58, 59, 789, 11_016, 20_483, 20_818].map(super::date);
        assert_eq!(
            dates,
            [
                "1970-01-01",
                "1970-02-28",
                "1970-03-01",
                "1972-02-29",
                "2000-02-29",
                "2026-01-30",
                "2026-12-31"
            ]
        );
    }
}
