//! The engine of a formulation, and the times of each engine in a workload.
//!
//! An engine is rope-core with its chosen backend, its kernels in C, a formulation of the literature, or a library. In
//! a workload its best pairing counts: not all have both.

use std::collections::BTreeMap;

use super::kind::{Kind, family};
use crate::results::{CaseResult, Measurement, Run};

/// rope-core, with rows made once as models make them.
pub const OURS: &str = "rope-core";

/// rope-core, with rows made in each call.
pub const ON_THE_FLY: &str = "rope-core, rows in the call";

/// rope-core's kernels in C.
pub const IN_C: &str = "the same kernel in C";

/// The engines of runners, by formulation or else by family, as their users know them. *As called* is the form in which
/// a model calls it; the others have their tables and tensors ready.
const OF_RUNNERS: [(&str, &str); 13] = [
    ("burn", "burn"),
    ("candle", "candle"),
    ("candle/as-called", "candle, as called"),
    ("ggml", "ggml (llama.cpp)"),
    ("numpy", "NumPy"),
    ("onnxruntime", "ONNX Runtime"),
    ("onnxruntime/as-called", "ONNX Runtime, as called"),
    ("onnxruntime/rope", "rope-onnxruntime"),
    ("pytorch/as-called", "PyTorch eager, as called"),
    ("pytorch/compile", "PyTorch compiled"),
    ("pytorch/eager", "PyTorch eager"),
    ("pytorch/rope", "rope-torch"),
    ("pytorch/vllm-compile", "PyTorch compiled"),
];

fn of_runner(formulation: &str) -> &str {
    let of = |name: &str| OF_RUNNERS.iter().find(|(known, _)| *known == name);
    let found = of(formulation).or_else(|| of(family(formulation)));
    found.map_or(family(formulation), |(_, engine)| engine)
}

/// Returns the engine of a formulation; `None` for a backend that the machine would not choose.
pub fn engine<'a>(run: &Run, formulation: &'a str) -> Option<&'a str> {
    let best = run.machine.backends.first();
    let chosen = |backend: &str| best.is_none_or(|best| best == backend);
    match Kind::of(formulation) {
        Kind::Own { backend } => chosen(backend).then_some(OURS),
        Kind::OnTheFly { backend } => chosen(backend).then_some(ON_THE_FLY),
        Kind::Intrinsics { backend } => chosen(backend).then_some(IN_C),
        Kind::Literature => Some(formulation),
        Kind::Library => Some(of_runner(formulation)),
    }
}

/// The time of an engine in a workload.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    pub engine: &'a str,
    /// The case in its best pairing.
    pub case: &'a CaseResult,
    /// Its fastest formulation there.
    pub measurement: &'a Measurement,
    /// The ratio of its fastest formulation to the roof in the other pairing, if it has that.
    pub high: f64,
}

impl Taken<'_> {
    /// Returns the time over the roof.
    pub fn low(&self) -> f64 {
        self.measurement.times_roof()
    }
}

/// Returns the engines of cases that differ only in their pairing.
pub fn taken<'a>(run: &Run, cases: impl Iterator<Item = &'a CaseResult>) -> Vec<Taken<'a>> {
    let mut all: Vec<Taken<'a>> = Vec::new();
    for case in cases {
        let mut here: BTreeMap<&str, &Measurement> = BTreeMap::new();
        for measurement in &case.measurements {
            if let Some(engine) = engine(run, &measurement.formulation) {
                let best = here.entry(engine).or_insert(measurement);
                if measurement.times_roof() < best.times_roof() {
                    *best = measurement;
                }
            }
        }
        for (engine, measurement) in here {
            let high = measurement.times_roof();
            let taken = Taken {
                engine,
                case,
                measurement,
                high,
            };
            match all.iter_mut().find(|known| known.engine == engine) {
                Some(known) => {
                    let high = high.max(known.high);
                    let is_best = taken.low() < known.low();
                    *known = Taken {
                        high,
                        ..if is_best { taken } else { *known }
                    };
                }
                None => all.push(taken),
            }
        }
    }
    all
}
