//! Measures times on a machine with other load.
//!
//! Each round runs a batch of every subject of a case, in an order that changes from round to round. A slow moment of
//! the machine therefore affects no subject in particular, and no subject always finds the same neighbor's data in the
//! caches. The minimum is the time of the code; median and spread show the disturbance.
//!
//! A shared machine is slow for seconds at a time, and a case is measured in one. Cases are therefore measured in
//! passes, each over all cases and in its own process: their spread shows the reliability of a number.

pub mod machine;
pub mod memory;
pub mod progress;
#[allow(unsafe_code, reason = "enters instruction sets")]
pub mod roof;
pub mod threads;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize, Serializer};

/// A subject of a measurement: repeats its work on the bytes the given number of times.
pub type Subject<'a> = Box<dyn FnMut(&mut [u8], usize) -> Result<()> + 'a>;

/// The time to spend.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The least duration of a batch, which hides the cost of reading the clock.
    pub batch: Duration,
    /// The time of a subject in all rounds together.
    pub share: Duration,
    /// The rounds of every subject, however slow it is.
    pub rounds: usize,
    /// The passes that divide the time and the rounds, if there are several cases.
    pub passes: usize,
}

impl Effort {
    /// For a run of less than a minute. Times of a debug build are not worth more.
    pub const QUICK: Effort = Effort {
        batch: Duration::from_micros(50),
        share: Duration::from_millis(if cfg!(debug_assertions) { 1 } else { 60 }),
        rounds: 6,
        passes: 6,
    };
    /// For published numbers.
    pub const FULL: Effort = Effort {
        batch: Duration::from_micros(200),
        share: Duration::from_millis(300),
        rounds: 12,
        passes: 6,
    };

    /// Sets the number of passes, with the same time in each.
    pub fn with_passes(self, passes: usize) -> Self {
        let pass = self.of_a_pass();
        Effort {
            share: pass.share * passes as u32,
            rounds: pass.rounds * passes,
            passes,
            ..self
        }
    }

    /// Returns the effort of one pass.
    pub fn of_a_pass(self) -> Self {
        Effort {
            share: self.share / self.passes as u32,
            rounds: self.rounds.div_ceil(self.passes),
            passes: 1,
            ..self
        }
    }
}

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
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
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
pub(crate) fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the geometric mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

/// Rounds to five digits, which exceeds the precision of these numbers.
fn five_digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

pub(crate) fn rounded<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
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
    pub(crate) fn over(&self, unit: f64) -> Time {
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

/// Measures subjects against each other, in one pass.
pub fn measure(
    subjects: &mut [Subject<'_>],
    bytes: &mut [u8],
    effort: Effort,
) -> Result<Vec<Time>> {
    let samples = sample(subjects, bytes, effort)?.into_iter();
    Ok(samples.map(|samples| Time::of(&[samples])).collect())
}

/// Measures subjects against each other, in one pass; returns the rounds.
pub fn sample(
    subjects: &mut [Subject<'_>],
    bytes: &mut [u8],
    effort: Effort,
) -> Result<Vec<Samples>> {
    let mut batches = Vec::new();
    for subject in &mut *subjects {
        batches.push(warm_up(subject, bytes, effort.batch)?);
    }
    let count = subjects.len();
    let mut samples = vec![Vec::new(); count];
    let mut spent = vec![Duration::ZERO; count];
    for round in 0.. {
        let mut idle = true;
        for place in 0..count {
            let who = (round + place * stride(round, count)) % count;
            if samples[who].len() >= effort.rounds && spent[who] >= effort.share {
                continue;
            }
            idle = false;
            let begin = Instant::now();
            // The previous subject has left its data in the caches. One untimed call loads the data of this subject.
            subjects[who](bytes, 1)?;
            let batch = timed(&mut subjects[who], bytes, batches[who])?;
            samples[who].push(batch.as_nanos() as f64 / batches[who] as f64);
            spent[who] += begin.elapsed();
        }
        if idle {
            break;
        }
    }
    Ok(samples)
}

/// Returns the distance between consecutive subjects in the order of a round. It is coprime to their number, so the
/// order reaches each of them, and it changes from round to round, so that the neighbors change.
fn stride(round: usize, count: usize) -> usize {
    fn gcd(a: usize, b: usize) -> usize {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let mut steps = 1 + round % count.max(1)..;
    steps.find(|&step| gcd(step, count) == 1).unwrap_or(1)
}

/// Returns the calls that a batch needs; warms up caches and branch predictors.
fn warm_up(subject: &mut Subject<'_>, bytes: &mut [u8], batch: Duration) -> Result<usize> {
    let mut times = 1;
    loop {
        let elapsed = timed(subject, bytes, times)?;
        if elapsed >= batch {
            return Ok(times);
        }
        let factor = batch.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        times = (times as f64 * (1.1 * factor).clamp(1.5, 100.0)).ceil() as usize;
    }
}

fn timed(subject: &mut Subject<'_>, bytes: &mut [u8], times: usize) -> Result<Duration> {
    let begin = Instant::now();
    subject(black_box(bytes), times)?;
    Ok(begin.elapsed())
}
