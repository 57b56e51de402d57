//! Finds the rotation from `before` to `after`, for ported weights that produce gibberish.
//!
//! Pairing, window and direction are conventions of the code that a model was trained with, and no tensor contains
//! them. A few tokens of queries before and after their rotation, from a program that runs the model, determine them:
//! every rotation of this crate is tried, and the distance between its result and the observed heads is measured. This
//! is slow and plain arithmetic in f64, for some dozens of heads; no other code uses it.
//!
//! # Criteria
//!
//! - *Near enough*: the rotation reproduces the observed heads up to [`TOLERANCE`] of their length. A model in bf16
//!   rounds cos, sin, two products and a sum to 8 bits: each output is off by at most 3 * 2^-9 of the two products, or
//!   2^-6.9 of the pair's length. The errors of f32 code are far below (1e-4 at position 4096 for an f32 angle).
//! - *Alone*: every other rotation, and none at all, is at least [`SEPARATION`] times as far away, and as far from the
//!   resolution of bf16 ([`RESOLUTION`]). Independent errors add up in squares over all channels, so a wrong rotation
//!   is as far off as the two rotations are apart. Near position 0, or if few channels rotate by little, they are not
//!   apart: then the data is insufficient.

use core::ops::Range;

use rope_core::error::ShapeError;
use rope_core::{Direction, Element, Error, Pairing, Rope, Rows, Shape, Tensor};

/// The largest distance of a result from the observed heads, relative to their length.
const TOLERANCE: f64 = 1.0 / 64.0;

/// The least ratio of the next best distance to the best.
const SEPARATION: f64 = 4.0;

/// The least significant distance, relative to the length of the observed heads: one rounding to bf16, which the values
/// may have undergone in any storage. Unchanged values do not rule out a rotation below the resolution of bf16.
const RESOLUTION: f64 = 1.0 / 512.0;

/// The convention by which code rotates heads, which no tensor contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    input: Pairing,
    output: Pairing,
    direction: Direction,
    offset: usize,
    rotary_dim: usize,
}

impl Convention {
    /// Returns the pairing of input and output. With two channels the pairings are the same, and this returns half.
    pub fn pairing(&self) -> (Pairing, Pairing) {
        (self.input, self.output)
    }

    /// Returns the rotated channels of a head.
    pub fn window(&self) -> Range<usize> {
        self.offset..self.offset + self.rotary_dim
    }

    /// Returns the direction. Without an attention factor, inverse and transpose are the same, and this returns
    /// transpose.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the plan, for the channels of the window ([`Layout::narrow`](rope_core::Layout::narrow)).
    pub fn rope(&self) -> Rope {
        Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction)
    }
}

/// The result of [`explain`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Explanation {
    /// Exactly this rotation.
    Rotation(Convention),
    /// Nothing rotated, as in layers without position.
    Unrotated,
    /// Insufficient data: two explanations are equally good. `None` stands for no rotation.
    Ambiguous {
        /// The best.
        first: Option<Convention>,
        /// The next best.
        second: Option<Convention>,
    },
    /// No explanation: other frequencies or positions, another rotary_dim, a permutation of the channels, or an
    /// intermediate step that is not a rotation (a norm, a scale).
    Unexplained {
        /// The nearest; `None` stands for no rotation.
        nearest: Option<Convention>,
        /// The squared distance from the observed heads, relative to their squared length: 1 is the distance of zeros.
        /// NaN if a value was NaN.
        apart: f64,
    },
}

/// Finds the pairing, the window of a head and the direction that explain `after`, if `before` was rotated by `rows`.
///
/// The shapes are `[batch, tokens, heads, head_dim]`, of queries or keys before and after the rotation, with one row
/// per token or one per token of each sequence. The window has as many channels as the rows rotate, and may begin
/// anywhere. A few tokens at positions from ten on suffice.
///
/// The result is the same on every machine, for any values, after at most `4 * 3 * (head_dim - rotary_dim + 1)`
/// rotations in plain code.
///
/// ```
/// use rope_core::{Direction, Rows, Tensor};
/// use rope_models::{Explanation, explain};
///
/// // One pair of channels of three, back by 0.5 radians.
/// let (sin, cos) = 0.5_f32.sin_cos();
/// let rows = [cos, sin];
/// let before = [3.0_f32, 2.0, 1.0];
/// let after = [3.0, 2.0 * cos + 1.0 * sin, 1.0 * cos - 2.0 * sin];
/// let [before, after] = [&before, &after].map(|x| Tensor::new(x, [1, 1, 1, 3]));
/// let found = explain(&before?, &after?, &Rows::new(&rows, [1, 2])?)?;
/// let Explanation::Rotation(convention) = found else { panic!("{found:?}") };
/// assert_eq!(convention.window(), 1..3);
/// assert_eq!(convention.direction(), Direction::Transpose);
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ShapeError::Mismatch`] if the shapes differ;
/// [`RowsError::RotaryDimExceedsHead`](rope_core::error::RowsError::RotaryDimExceedsHead) if the rows rotate more
/// channels than a head has; [`RowsError::Count`](rope_core::error::RowsError::Count) unless there is one row per token
/// or one per token of every sequence; [`RowsError::Heads`](rope_core::error::RowsError::Heads) and
/// [`RowsError::Sequences`](rope_core::error::RowsError::Sequences) as [`Rope::rotate`](rope_core::Rope::rotate).
pub fn explain<I, O>(
    before: &Tensor<'_, I>,
    after: &Tensor<'_, O>,
    rows: &Rows<'_>,
) -> Result<Explanation, Error>
where
    I: Element + Into<f32>,
    O: Element + Into<f32>,
{
    let (source, target) = (before.shape(), after.shape());
    if let Some((dimension, source, target)) = source.difference(target) {
        return Err(Error::Shape(ShapeError::Mismatch {
            dimension,
            source,
            target,
        }));
    }
    rows.check_shape(source)?;
    let seen = Seen {
        shape: source,
        before: &|head, channel| value(before, head, channel),
        after: &|head, channel| value(after, head, channel),
        rows,
    };
    Ok(seen.explanation())
}

/// Returns a channel of an existing head.
fn value<E: Element + Into<f32>>(x: &Tensor<'_, E>, head: HeadIndex, channel: usize) -> f64 {
    let channels = x.head(head).unwrap_or_default();
    channels
        .get(channel)
        .map_or(f64::NAN, |&value| value.into().into())
}

/// A sequence, a token and a head.
type HeadIndex = [usize; 3];

/// cos and sin of a token.
type CosSin<'r> = (&'r [f32], &'r [f32]);

/// The observed heads, of any element.
struct Seen<'a> {
    shape: Shape,
    before: &'a dyn Fn(HeadIndex, usize) -> f64,
    after: &'a dyn Fn(HeadIndex, usize) -> f64,
    rows: &'a Rows<'a>,
}

impl Seen<'_> {
    fn explanation(&self) -> Explanation {
        // With a NaN among the values, no distance is smaller than another.
        let mut best = (None, self.apart(None));
        let mut next = (None, f64::INFINITY);
        for convention in self.conventions() {
            let tried = (Some(convention), self.apart(Some(convention)));
            if tried.1 < best.1 {
                (best, next) = (tried, best);
            } else if tried.1 < next.1 {
                next = tried;
            }
        }
        let length = self.sum(&|head, _| {
            let channels = 0..self.shape.head_dim;
            channels
                .map(|channel| square((self.after)(head, channel)))
                .sum()
        });
        let (first, apart) = best;
        let near = apart <= square(TOLERANCE) * length;
        let alone = next.1 > square(SEPARATION) * apart.max(square(RESOLUTION) * length);
        match (near, alone, first) {
            (false, ..) => Explanation::Unexplained {
                nearest: first,
                apart: apart / length,
            },
            (true, false, _) => Explanation::Ambiguous {
                first,
                second: next.0,
            },
            (true, true, Some(convention)) => Explanation::Rotation(convention),
            (true, true, None) => Explanation::Unrotated,
        }
    }

    /// Iterates over all distinguishable conventions, the usual ones first.
    fn conventions(&self) -> impl Iterator<Item = Convention> {
        let rotary_dim = self.rows.rotary_dim();
        let offsets = 0..self.shape.head_dim + 1 - rotary_dim;
        // Two channels are one pair in either pairing.
        let pairings = &Pairing::ALL[usize::from(rotary_dim == 2)..];
        let directions = match self.rows.attention_factor() {
            1.0 => &[Direction::Forward, Direction::Transpose][..],
            _ => &Direction::ALL,
        };
        offsets.flat_map(move |offset| {
            directions.iter().flat_map(move |&direction| {
                pairings.iter().flat_map(move |&input| {
                    pairings.iter().map(move |&output| Convention {
                        input,
                        output,
                        direction,
                        offset,
                        rotary_dim,
                    })
                })
            })
        })
    }

    /// Returns the squared distance of a rotation's result from the observed heads.
    fn apart(&self, convention: Option<Convention>) -> f64 {
        let window = convention.map_or(0..0, |convention| convention.window());
        self.sum(&|head, (cos, sin)| {
            let still = (0..window.start).chain(window.end..self.shape.head_dim);
            let mut sum: f64 = still
                .map(|channel| square((self.after)(head, channel) - (self.before)(head, channel)))
                .sum();
            let Some(convention) = convention else {
                return sum;
            };
            let (scale, sign) = convention.factors(self.rows.attention_factor());
            for (pair, (&cos, &sin)) in cos.iter().zip(sin).enumerate() {
                let (cos, sin) = (scale * f64::from(cos), sign * scale * f64::from(sin));
                let [x, y] = convention
                    .members(convention.input, pair)
                    .map(|channel| (self.before)(head, channel));
                let [u, v] = convention
                    .members(convention.output, pair)
                    .map(|channel| (self.after)(head, channel));
                sum += square(u - (x * cos - y * sin)) + square(v - (x * sin + y * cos));
            }
            sum
        })
    }

    /// Sums a number over all heads; it may depend on cos and sin.
    fn sum(&self, of: &dyn Fn(HeadIndex, CosSin<'_>) -> f64) -> f64 {
        let Shape {
            batch,
            tokens,
            heads,
            ..
        } = self.shape;
        // One row per token, shared by all sequences or not.
        let stride = if self.rows.len() == tokens { 0 } else { tokens };
        let mut sum = 0.0;
        for batch in 0..batch {
            for token in 0..tokens {
                let row = batch * stride + token;
                for head in 0..heads {
                    if let Some(row) = self.rows.row(row, head) {
                        sum += of([batch, token, head], row);
                    }
                }
            }
        }
        sum
    }
}

impl Convention {
    /// Returns the two channels of a pair.
    fn members(&self, pairing: Pairing, pair: usize) -> [usize; 2] {
        let pairs = self.rotary_dim / 2;
        [pair, pair + pairs].map(|channel| {
            self.offset + Pairing::Half.channel_in(pairing, self.rotary_dim, channel)
        })
    }

    /// Returns the factor on cos and sin, and the sign of sin.
    fn factors(&self, attention_factor: f64) -> (f64, f64) {
        match self.direction {
            Direction::Forward => (1.0, 1.0),
            Direction::Inverse => (1.0 / (attention_factor * attention_factor), -1.0),
            Direction::Transpose => (1.0, -1.0),
        }
    }
}

fn square(x: f64) -> f64 {
    x * x
}
