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
use rope_report::time::{Samples, Time};

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
