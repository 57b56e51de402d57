//! How long things take, on a machine that does other things too.
//!
//! All subjects of a case take turns: in each round every one of them runs a batch, in an order that changes from
//! round to round, so that a slow moment of the machine, or what a neighbour left in the caches, is nobody's fate.
//! The minimum is what the code can do; median and spread say how far the machine let it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Something to measure: does its work on the bytes, as many times as told.
pub type Subject<'a> = Box<dyn FnMut(&mut [u8], usize) -> Result<()> + 'a>;

/// How much time to spend.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// A batch lasts at least this long, so that reading the clock does not show.
    pub batch: Duration,
    /// What a subject may use up in all rounds.
    pub share: Duration,
    /// Rounds that everybody takes part in, however slow.
    pub rounds: usize,
}

impl Effort {
    /// For a run of less than a minute.
    pub const QUICK: Effort = Effort {
        batch: Duration::from_micros(50),
        share: Duration::from_millis(60),
        rounds: 5,
    };
    /// For numbers to publish.
    pub const FULL: Effort = Effort {
        batch: Duration::from_micros(200),
        share: Duration::from_millis(300),
        rounds: 11,
    };
}

/// Nanoseconds of one call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Time {
    /// The fastest round.
    pub minimum: f64,
    /// The middle round.
    pub median: f64,
    /// The distance between the first and the third quartile, in medians.
    pub spread: f64,
    /// Rounds.
    pub rounds: usize,
}

impl Time {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |quarters: usize| {
            samples
                .get((samples.len().max(1) - 1) * quarters / 4)
                .copied()
                .unwrap_or(f64::NAN)
        };
        Time {
            minimum: at(0),
            median: at(2),
            spread: (at(3) - at(1)) / at(2),
            rounds: samples.len(),
        }
    }
}

/// Measures subjects against each other.
pub fn measure(
    subjects: &mut [Subject<'_>],
    bytes: &mut [u8],
    effort: Effort,
) -> Result<Vec<Time>> {
    let mut batches = Vec::new();
    for subject in &mut *subjects {
        batches.push(warm_up(subject, bytes, effort.batch)?);
    }
    let count = subjects.len();
    let mut samples = vec![Vec::new(); count];
    let mut spent = vec![Duration::ZERO; count];
    for round in 0.. {
        let mut idle = true;
        for turn in 0..count {
            let who = (round + turn * stride(round, count)) % count;
            if samples[who].len() >= effort.rounds && spent[who] >= effort.share {
                continue;
            }
            idle = false;
            let begin = Instant::now();
            // One call that does not count: what the one before left in the caches is none of this one's doing.
            subjects[who](bytes, 1)?;
            let batch = timed(&mut subjects[who], bytes, batches[who])?;
            samples[who].push(batch.as_nanos() as f64 / batches[who] as f64);
            spent[who] += begin.elapsed();
        }
        if idle {
            break;
        }
    }
    Ok(samples.into_iter().map(Time::of).collect())
}

/// A step through all subjects that is another in each round, so that nobody always follows the same one.
fn stride(round: usize, count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (1 + round % count.max(1)..)
        .find(|&step| gcd(step, count) == 1)
        .unwrap_or(1)
}

/// Calls that a batch needs; the caches and the branch predictors learn on the way.
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
