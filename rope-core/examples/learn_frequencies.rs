//! A training run without a framework: frequencies of mixed axes, per head, are planted in one attention and found
//! again from its scores by gradient descent, through `Rope::backward` and `PairGradients::frequencies`.
//!
//! Both attentions see the same queries and keys of an image's patches, each number uniform with variance 1, drawn anew
//! for each step. Their scores `q_m R(phi_m)^T R(phi_n) k_n / sqrt(head_dim)` differ by their frequencies alone. The
//! loss is the mean of the squared differences, and Adam, whose rate falls to zero along a line, moves the frequencies
//! of one attention. Both begin as RoPE-Mixed does (theta 10), each head of each with a random direction of its own.
//!
//! # Small images first
//!
//! The expected loss of a pair whose frequencies are off by `(a, b)` is that of a known problem, to find a frequency
//! from samples: `1 - D(a) D(b)`, where `D` is Fejer's kernel of as many samples as the grid has columns or rows. Its
//! slope leads to zero from no farther than a turn divided by that number. With 8 columns that is 0.79 radians, where
//! starts are up to 2 away on an axis, so pairs would end in a side lobe: with grids of 8 x 8 patches alone, five of
//! the seeds 1 to 6 end an error of 2 and more away. With 3 columns it is 2.09. So the first quarter of the steps sees
//! grids of 3 x 3 patches, and the rest, which measures more finely, of 8 x 8: each of the seeds 1 to 12 ends within
//! 1.2e-5.
//!
//! # What is compared
//!
//! A pair has channels of its own, so pairs cannot change places; and the scores have sines of an angle beside its
//! cosine, so they tell its sign. One symmetry is left: on whole coordinates, a frequency and one a whole turn faster
//! are the same. Frequencies are compared as they are, so to end in such a place would count as an error of 6.3.
//!
//! # The same on every machine
//!
//! Rows and rotations have the same bits everywhere, and what is computed here are sums, products, quotients and roots
//! of `f64`, one after the other.
//!
//! `cargo run --release -p rope-core --example learn_frequencies`

use rope_core::axes::MixedFrequencies;
use rope_core::gradient::PairGradients;
use rope_core::{Error, Frequencies, Pairing, Positions, Rope, Rows, Scaling, Tensor, TensorMut};

/// Steps that are enough.
const STEPS: usize = 240;
/// The first step with large images.
const GROWN: usize = STEPS / 4;
/// The largest distance from a pair's planted frequencies, over their length, with which a run has succeeded.
const BOUND: f64 = 1e-4;
/// The bits of the largest distance at the end, on every machine and backend.
const LAST: u64 = 4530524317594198092;

const AXES: usize = 2;
const HEADS: usize = 4;
const PAIRS: usize = 8;
const HEAD_DIM: usize = 2 * PAIRS;
const SHAPE: [usize; 3] = [AXES, HEADS, PAIRS];
/// The sizes of RoPE-Mixed as published.
const THETA: f64 = 10.0;
/// Patches on a side, and images, of an early step; then of a late one.
const SMALL: (usize, usize) = (3, 64);
const LARGE: (usize, usize) = (8, 2);
/// Adam's rate at first.
const RATE: f64 = 0.05;

pub(crate) fn main() -> Result<(), Error> {
    let mut random = Random(7);
    let planted = random.start()?;
    let teacher = MixedFrequencies::new(&planted, SHAPE, 1.0)?;
    let mut frequencies = random.start()?;
    let rope = Rope::new(Pairing::Half);
    let mut adam = Adam::new(frequencies.len());
    println!(" step  patches    loss   error");
    for step in 0..STEPS {
        let (side, count) = if step < GROWN { SMALL } else { LARGE };
        let images = Images::draw(side, count, &mut random);
        let target = images.attention(&rope, &teacher)?;
        let learner = MixedFrequencies::new(&frequencies, SHAPE, 1.0)?;
        let attention = images.attention(&rope, &learner)?;
        let errors = differences(&attention.scores, &target.scores);
        if step % 24 == 0 {
            let (loss, error) = (mean_square(&errors), farthest(&frequencies, &planted));
            println!("{step:>5}  {side} x {side}   {loss:>7.1e} {error:>7.1e}");
        }
        let gradient = images.gradient(&rope, attention, &errors)?;
        let rate = RATE * ((STEPS - step) as f64 / STEPS as f64);
        adam.step(&gradient, rate, &mut frequencies);
    }
    let error = farthest(&frequencies, &planted);
    println!("{STEPS:>5}                  {error:>7.1e}");
    assert!(error <= BOUND, "a pair is {error:.1e} of its length away");
    assert_eq!(error.to_bits(), LAST, "another run than on other machines");
    Ok(())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// In [0, 1), 53 bits of it.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Numbers of mean 0 and variance 1.
    fn values(&mut self, len: usize) -> Vec<f32> {
        let reach = 3.0_f64.sqrt();
        (0..len)
            .map(|_| ((2.0 * self.unit() - 1.0) * reach) as f32)
            .collect()
    }

    /// Frequencies as RoPE-Mixed begins with them (`init_2d_freqs` of rope-vit): the first half of a head's pairs looks
    /// along its direction, the second half across it.
    fn start(&mut self) -> Result<Vec<f64>, Error> {
        let directions = [(); HEADS].map(|()| std::f64::consts::TAU * self.unit());
        let magnitudes = Frequencies::new(PAIRS, THETA, &Scaling::Default)?;
        let mut inverse = vec![0.0; AXES * HEADS * PAIRS];
        for (k, magnitude) in magnitudes.iter().enumerate() {
            // cos and sin by the crate: those of a platform's library differ.
            let unit = Frequencies::from_inverse(2, &[1.0], magnitude.inverse)?;
            let rows = unit.rows(Positions::from(&directions))?;
            for head in 0..HEADS {
                let Some(([cos], [sin])) = rows.row(head, 0) else {
                    continue;
                };
                let (cos, sin) = (f64::from(*cos), f64::from(*sin));
                let (x, y) = (head * PAIRS + k, (HEADS + head) * PAIRS + k);
                (inverse[x], inverse[x + PAIRS / 2]) = (cos, -sin);
                (inverse[y], inverse[y + PAIRS / 2]) = (sin, cos);
            }
        }
        Ok(inverse)
    }
}

/// Queries and keys of some images, `[images, tokens, HEADS, HEAD_DIM]`, and where their patches are.
struct Images {
    shape: [usize; 4],
    positions: Vec<i64>,
    q: Vec<f32>,
    k: Vec<f32>,
}

/// Rotated queries and keys, and their scores `[images, heads, queries, keys]`.
struct Attention {
    rows: Rows<'static>,
    q: Vec<f32>,
    k: Vec<f32>,
    scores: Vec<f64>,
}

impl Images {
    fn draw(side: usize, images: usize, random: &mut Random) -> Self {
        let tokens = side * side;
        let columns = (0..tokens).map(|patch| patch % side);
        let rows = (0..tokens).map(|patch| patch / side);
        let shape = [images, tokens, HEADS, HEAD_DIM];
        let len = shape.iter().product();
        Images {
            shape,
            positions: columns.chain(rows).map(|at| at as i64).collect(),
            q: random.values(len),
            k: random.values(len),
        }
    }

    fn attention(
        &self,
        rope: &Rope,
        frequencies: &MixedFrequencies<'_>,
    ) -> Result<Attention, Error> {
        let rows = frequencies.rows(Positions::axis_major(&self.positions))?;
        let (mut q, mut k) = (self.q.clone(), self.k.clone());
        rope.rotate(&mut TensorMut::new(&mut q, self.shape)?, &rows)?;
        rope.rotate(&mut TensorMut::new(&mut k, self.shape)?, &rows)?;
        let scores = self.scores(&q, &k);
        Ok(Attention { rows, q, k, scores })
    }

    fn scores(&self, q: &[f32], k: &[f32]) -> Vec<f64> {
        let mut scores = Vec::new();
        self.each_score(|query, key| {
            let terms = q[query..][..HEAD_DIM].iter().zip(&k[key..][..HEAD_DIM]);
            let sum: f64 = terms.map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            scores.push(sum / divisor());
        });
        scores
    }

    /// The gradient of the loss by the frequencies, from how far each score is off.
    fn gradient(
        &self,
        rope: &Rope,
        attention: Attention,
        errors: &[f64],
    ) -> Result<Vec<f64>, Error> {
        let Attention { rows, q, k, .. } = attention;
        let (mut dq, mut dk) = (vec![0.0; q.len()], vec![0.0; k.len()]);
        let mut errors_left = errors.iter();
        self.each_score(|query, key| {
            let error = errors_left.next().copied().unwrap_or(f64::NAN);
            let by_score = 2.0 * error / (errors.len() as f64 * divisor());
            for channel in 0..HEAD_DIM {
                dq[query + channel] += by_score * f64::from(k[key + channel]);
                dk[key + channel] += by_score * f64::from(q[query + channel]);
            }
        });
        let tokens = self.shape[1];
        let mut sums = vec![0.0; tokens * HEADS * PAIRS];
        let mut angles = PairGradients::new(&mut sums, [tokens, HEADS, PAIRS])?;
        for (rotated, by_rotated) in [(q, dq), (k, dk)] {
            let rotated = Tensor::new(&rotated, self.shape)?;
            let mut gradient: Vec<f32> = by_rotated.iter().map(|&value| value as f32).collect();
            let mut gradient = TensorMut::new(&mut gradient, self.shape)?;
            rope.backward(&rotated, &mut gradient, &rows, &mut angles)?;
        }
        let mut gradient = vec![0.0; AXES * HEADS * PAIRS];
        angles.frequencies(Positions::axis_major(&self.positions), AXES, &mut gradient)?;
        Ok(gradient)
    }

    /// Where the query and the key of each score begin.
    fn each_score(&self, mut each: impl FnMut(usize, usize)) {
        let [images, tokens, ..] = self.shape;
        let at = |image, token, head| ((image * tokens + token) * HEADS + head) * HEAD_DIM;
        for image in 0..images {
            for head in 0..HEADS {
                for query in 0..tokens {
                    for key in 0..tokens {
                        each(at(image, query, head), at(image, key, head));
                    }
                }
            }
        }
    }
}

/// The divisor of scores.
fn divisor() -> f64 {
    (HEAD_DIM as f64).sqrt()
}

fn differences(scores: &[f64], target: &[f64]) -> Vec<f64> {
    let both = scores.iter().zip(target);
    both.map(|(score, target)| score - target).collect()
}

fn mean_square(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64
}

/// The largest distance of a pair's frequencies from those planted, over the length of these.
fn farthest(frequencies: &[f64], planted: &[f64]) -> f64 {
    let length = |x: f64, y: f64| (x * x + y * y).sqrt();
    let (x, y) = frequencies.split_at(HEADS * PAIRS);
    let (planted_x, planted_y) = planted.split_at(HEADS * PAIRS);
    let errors = (0..HEADS * PAIRS).map(|pair| {
        length(x[pair] - planted_x[pair], y[pair] - planted_y[pair])
            / length(planted_x[pair], planted_y[pair])
    });
    errors.fold(0.0, f64::max)
}

/// Adam (Kingma and Ba, arXiv:1412.6980, algorithm 1).
struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
    /// The share of the initial zeros in the two means.
    left: [f64; 2],
}

impl Adam {
    const KEPT: [f64; 2] = [0.9, 0.99];
    const EPSILON: f64 = 1e-12;

    fn new(len: usize) -> Self {
        Adam {
            mean: vec![0.0; len],
            square: vec![0.0; len],
            left: [1.0, 1.0],
        }
    }

    fn step(&mut self, gradient: &[f64], rate: f64, parameters: &mut [f64]) {
        let [of_mean, of_square] = Self::KEPT;
        self.left[0] *= of_mean;
        self.left[1] *= of_square;
        let means = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, gradient), (mean, square)) in
            parameters.iter_mut().zip(gradient).zip(means)
        {
            *mean = of_mean * *mean + (1.0 - of_mean) * gradient;
            *square = of_square * *square + (1.0 - of_square) * (gradient * gradient);
            let (mean, square) = (*mean / (1.0 - self.left[0]), *square / (1.0 - self.left[1]));
            *parameter -= rate * mean / (square.sqrt() + Self::EPSILON);
        }
    }
}
