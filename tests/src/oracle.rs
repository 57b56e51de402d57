//! The results of a rotation, element by element from the definition. Shares no code with the kernels.

use rope_core::error::RowsError;
use rope_core::{Backend, Direction, Error, Pairing, Rope};

use crate::{Angles, Number, Source, View, bounds};

/// A rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Pairing of the input.
    pub input: Pairing,
    /// Pairing of the output.
    pub output: Pairing,
    /// Direction of the rotation.
    pub direction: Direction,
    /// Equal parts of the rotated channels, each paired by itself.
    pub parts: usize,
}

impl Rotation {
    /// Returns all rotations that keep the pairing and work in place.
    pub fn in_place() -> impl Iterator<Item = Rotation> {
        Rotation::all().filter(|rotation| rotation.input == rotation.output)
    }

    /// Returns all rotations.
    pub fn all() -> impl Iterator<Item = Rotation> {
        Pairing::ALL.into_iter().flat_map(|input| {
            Pairing::ALL.into_iter().flat_map(move |output| {
                Direction::ALL.map(|direction| Rotation {
                    input,
                    output,
                    direction,
                    parts: 1,
                })
            })
        })
    }

    /// Returns the forward rotation that keeps the pairing.
    pub fn forward(pairing: Pairing) -> Rotation {
        Rotation {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            parts: 1,
        }
    }

    /// Returns this rotation of a head that sometimes has several parts.
    pub fn in_parts(self, source: &mut Source<'_>, pairs: usize) -> Rotation {
        let divides = |parts: &usize| pairs.is_multiple_of(*parts);
        let divisors: Vec<usize> = (1..=pairs).filter(divides).collect();
        let parts = match divisors.is_empty() || !source.once_in(4) {
            true => 1,
            false => source.one_of(&divisors),
        };
        Rotation { parts, ..self }
    }

    /// Returns this rotation, or its transpose if it is an inverse and the rows have none.
    pub fn allowed(self, angles: &Angles) -> Rotation {
        let direction = match refusal(self.direction, angles, [1; 4]) {
            Some(_) => Direction::Transpose,
            None => self.direction,
        };
        Rotation { direction, ..self }
    }

    /// Returns the plan of the rotation on a backend.
    ///
    /// # Panics
    ///
    /// If the backend is not available.
    pub fn plan(self, backend: Backend) -> Rope {
        Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction)
            .with_parts(self.parts)
            .with_backend(backend)
            .expect("an available backend")
    }
}

/// The elements that a buffer must hold after a rotation.
#[derive(Clone, Debug)]
pub struct Expected<O> {
    /// Every element of the buffer, in the tensor and around it.
    pub values: Vec<O>,
    /// True for each element that comes from arithmetic or a conversion, whose NaN may be any NaN. All other elements
    /// were copied or left unchanged.
    pub computed: Vec<bool>,
}

/// Returns the error of a rotation of a tensor of this shape, if it must be refused. Rows have no inverse if a pair's
/// magnitude differs from the attention factor, or if a pair has none.
pub fn refusal(direction: Direction, angles: &Angles, shape: [usize; 4]) -> Option<Error> {
    if direction != Direction::Inverse || shape.contains(&0) {
        return None;
    }
    let factor = angles.attention_factor;
    for row in 0..angles.rows {
        for head in 0..angles.heads {
            for pair in 0..angles.pairs {
                let (cos, sin) = angles.get(row, head, pair);
                let (c, s) = (cos / factor as f32, sin / factor as f32);
                let off = (c * c + s * s - 1.0).abs();
                if off.is_nan() || off > bounds::squared_magnitude(cos, sin) {
                    return Some(Error::Rows(RowsError::Magnitude {
                        row,
                        head,
                        pair: pair as u32,
                        cos,
                        sin,
                        factor,
                    }));
                }
            }
        }
    }
    None
}

/// Asserts that a call was refused if, and only if, it had to be.
///
/// # Panics
///
/// If the result differs from the expected refusal.
#[track_caller]
pub fn answered(result: Result<(), Error>, refusal: Option<Error>) {
    // Compared as text, in which all NaNs are equal.
    assert_eq!(format!("{:?}", result.err()), format!("{refusal:?}"));
}

/// Returns the elements that `y`, painted before, must hold after the rotation of `x`, or after its refusal. In place
/// `x` and `y` are the same.
pub fn rotated<I: Number, O: Number>(
    rotation: Rotation,
    angles: &Angles,
    (x, from): (&[I], &View),
    (y, to): (&[O], &View),
) -> Expected<O> {
    assert_eq!(from.shape, to.shape);
    let mut expected = Expected {
        values: y.to_vec(),
        computed: vec![false; y.len()],
    };
    let [batch, tokens, _, head_dim] = from.shape;
    let pairs = angles.pairs;
    // Either one row per token, shared by all sequences, or one per token of each sequence.
    let rows_of_a_sequence = if angles.rows == tokens { 0 } else { tokens };
    assert!(angles.rows == tokens || angles.rows == batch * tokens);
    if refusal(rotation.direction, angles, from.shape).is_some() {
        return expected;
    }
    for [batch, token, head] in from.heads() {
        let at = |view: &View| view.index([batch, token, head, 0]);
        let x = &x[at(from)..][..head_dim];
        let values = &mut expected.values[at(to)..][..head_dim];
        let computed = &mut expected.computed[at(to)..][..head_dim];
        let row = batch * rows_of_a_sequence + token;
        for pair in 0..pairs {
            let members = |pairing| members(pairing, [pairs, rotation.parts], pair);
            let (cos, sin) = directed(rotation.direction, angles, row, head, pair);
            let [first, second] = members(rotation.input).map(|channel| x[channel].to_f32());
            let rotated = rotate(first, second, cos, sin);
            let [first, second] = members(rotation.output);
            (values[first], values[second]) = (O::from_f32(rotated.0), O::from_f32(rotated.1));
            (computed[first], computed[second]) = (true, true);
        }
        for channel in 2 * pairs..head_dim {
            let same_type = I::NAME == O::NAME;
            computed[channel] = !same_type;
            values[channel] = if same_type {
                O::from_bits(x[channel].bits())
            } else {
                O::from_f32(x[channel].to_f32())
            };
        }
    }
    expected
}

/// Returns the channels of a pair, of this many pairs in equal parts.
pub fn members(pairing: Pairing, [pairs, parts]: [usize; 2], pair: usize) -> [usize; 2] {
    let each = pairs / parts;
    let first = 2 * each * (pair / each);
    match pairing {
        Pairing::Interleaved => [2 * pair, 2 * pair + 1],
        Pairing::Half => [first + pair % each, first + pair % each + each],
    }
}

/// Rotates a pair by the definition. Every operation is rounded to f32.
pub fn rotate(x: f32, y: f32, cos: f32, sin: f32) -> (f32, f32) {
    (x * cos - y * sin, x * sin + y * cos)
}

/// Returns cos and sin of a pair as the direction uses them.
pub(crate) fn directed(
    direction: Direction,
    angles: &Angles,
    row: usize,
    head: usize,
    pair: usize,
) -> (f32, f32) {
    let (cos, sin) = angles.get(row, head, pair);
    match direction {
        Direction::Forward => (cos, sin),
        Direction::Transpose => (cos, -sin),
        Direction::Inverse => {
            let factor = 1.0 / (angles.attention_factor * angles.attention_factor);
            (cos * factor as f32, -(sin * factor as f32))
        }
    }
}
