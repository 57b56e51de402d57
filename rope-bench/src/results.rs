//! What a run leaves behind.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::measuring::Time;
use crate::verification::Verified;

/// The mark of our JSON, and its version: another one wherever a key changes its name or its meaning.
pub const FORMAT: &str = "rope-bench 2";

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: String,
    /// The machine and the build that measured.
    pub machine: Machine,
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
    /// Frequencies that gradient descent found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
}

impl Run {
    /// A run that has measured nothing yet.
    pub fn new(machine: Machine) -> Self {
        Run {
            format: FORMAT.into(),
            machine,
            verification: Vec::new(),
            slow_down: None,
            dispatch: Vec::new(),
            cases: Vec::new(),
            accuracy: Vec::new(),
            rows: None,
            cycles: None,
            calls: Vec::new(),
            training: None,
        }
    }
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
    #[serde(default)]
    pub preparation: f64,
    /// Nanoseconds.
    pub time: Time,
    /// Time of the roof: 1 is perfect.
    pub times_roof: f64,
    /// Elements rotated in a nanosecond.
    pub elements_per_ns: f64,
    /// Bytes moved, temporaries included.
    pub bytes: f64,
    /// Gigabytes moved in a second.
    pub gigabytes_per_s: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// The largest distance from the exact rotation, in lengths of the pair.
    pub error: f64,
    /// Instructions of a call, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// The library that a [runner](crate::runners) measured, and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl CaseResult {
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

    /// Its spread.
    pub fn roof_spread(&self) -> f64 {
        let fastest = self
            .roofs
            .iter()
            .min_by(|a, b| a.time.minimum.total_cmp(&b.time.minimum));
        fastest.map_or(0.0, |roof| roof.time.spread)
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

/// Frequencies that were planted, and the way of others to them: see [`train`](crate::train).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Of the random numbers.
    pub seed: u64,
    /// `[axes, heads, pairs]`, in radians a patch: of all frequencies here.
    pub shape: [usize; 3],
    /// What the magnitudes of both starts are made of.
    pub theta: f64,
    /// Steps.
    pub steps: usize,
    /// The first step with larger images.
    pub grown: usize,
    /// What was to be found.
    pub planted: Vec<f64>,
    /// From the start to the end.
    pub points: Vec<TrainingPoint>,
    /// The largest error of a run that succeeds.
    pub bound: f64,
}

/// How far a training was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingPoint {
    /// Steps that were made.
    pub step: usize,
    /// Patches on a side of the images that the next one sees.
    pub side: u16,
    /// The mean of the squared differences of scores.
    pub loss: f64,
    /// The largest distance of a pair's frequencies from those planted, over the length of these.
    pub error: f64,
    /// The frequencies.
    pub frequencies: Vec<f64>,
}
