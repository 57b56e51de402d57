//! How long things take, on a machine that does other things too.
//!
//! Each round runs a batch of every subject of a case, in an order that changes from round to round. So a slow moment
//! of the machine falls on no subject in particular, and no subject always finds what the same neighbour left in the
//! caches. The minimum is what the code can do; median and spread say how far the machine let it.

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
    /// Time that a subject has in all rounds together.
    pub share: Duration,
    /// Rounds in which every subject runs, however slow it is.
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
        for place in 0..count {
            let who = (round + place * stride(round, count)) % count;
            if samples[who].len() >= effort.rounds && spent[who] >= effort.share {
                continue;
            }
            idle = false;
            let begin = Instant::now();
            // The subject before has left its own data in the caches. One call that is not timed brings this subject's.
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

/// The distance from one subject to the next in the order of a round. It has no divisor in common with their number, so
/// that the order comes to each of them, and it changes from round to round, so that none always follows the same one.
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
