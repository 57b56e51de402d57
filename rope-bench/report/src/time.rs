//! Times and ratios: what a measurement keeps of its rounds.

use serde::{Deserialize, Serialize, Serializer};

/// Nanoseconds of a call in each round of one pass.
pub type Samples = Vec<f64>;

/// Nanoseconds of one call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Time {
    #[serde(serialize_with = "rounded")]
    pub minimum: f64,
    #[serde(serialize_with = "rounded")]
    pub median: f64,
    /// The distance between the first and the third quartile, relative to the median.
    #[serde(serialize_with = "rounded")]
    pub spread: f64,
    /// Rounds; 0 if times mean nothing.
    pub rounds: usize,
    /// The fastest round of each pass; empty if there was one pass.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "all_rounded"
    )]
    pub passes: Vec<f64>,
}

/// The ratio of two times from the same passes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The divisor: `roof`, or a formulation.
    pub over: String,
    /// The median of the passes' ratios, each from the fastest rounds of one pass.
    #[serde(serialize_with = "rounded")]
    pub value: f64,
    /// The distance between the first and the third quartile of the passes' ratios, relative to the value.
    #[serde(serialize_with = "rounded")]
    pub spread: f64,
}

impl Ratio {
    /// Computes the ratio from the fastest rounds of the same passes.
    pub fn of(over: &str, times: &[f64], others: &[f64]) -> Self {
        let ratios = sorted(times.iter().zip(others).map(|(time, other)| time / other));
        let at = |quarters| quartile(&ratios, quarters);
        Ratio {
            over: over.into(),
            value: at(2),
            spread: (at(3) - at(1)) / at(2),
        }
    }
}

/// Returns numbers in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the first, second or third quartile of sorted numbers.
fn quartile(sorted: &[f64], quarters: usize) -> f64 {
    let at = (sorted.len().max(1) - 1) * quarters / 4;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Returns the least of some numbers, or infinity.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the geometric mean.
pub fn mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

/// Rounds to five digits, which exceeds the precision of these numbers.
fn five_digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

pub fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(five_digits(*value))
}

fn all_rounded<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&value| five_digits(value)))
}

impl Time {
    /// Returns true if nothing was measured.
    pub fn is_none(&self) -> bool {
        self.rounds == 0
    }

    /// Returns the time in units of `unit` nanoseconds.
    pub fn over(&self, unit: f64) -> Time {
        Time {
            minimum: self.minimum / unit,
            median: self.median / unit,
            passes: self.passes.iter().map(|pass| pass / unit).collect(),
            ..*self
        }
    }

    /// Returns the fastest round of each pass.
    pub fn of_passes(&self) -> &[f64] {
        if self.passes.is_empty() {
            std::slice::from_ref(&self.minimum)
        } else {
            &self.passes
        }
    }

    /// Computes the time from the rounds of all passes.
    pub fn of(passes: &[Samples]) -> Self {
        let samples = sorted(passes.concat());
        let at = |quarters| quartile(&samples, quarters);
        Time {
            minimum: at(0),
            median: at(2),
            spread: (at(3) - at(1)) / at(2),
            rounds: samples.len(),
            passes: match passes {
                [_] => Vec::new(),
                passes => passes
                    .iter()
                    .map(|pass| least(pass.iter().copied()))
                    .collect(),
            },
        }
    }
}
