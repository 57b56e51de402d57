//! The expected result, written per element from the definition. Shares no code with the kernels.

use rope_core::{Backend, Direction, Error, Pairing, Rope};

use crate::{Angles, Number, View, bounds};

/// Which rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Which channels of the source are a pair.
    pub input: Pairing,
    /// Where they go.
    pub output: Pairing,
    /// Which way.
    pub direction: Direction,
}

impl Rotation {
    /// All that keep the pairing: the ones that work in place.
    pub fn in_place() -> impl Iterator<Item = Rotation> {
        Rotation::all().filter(|rotation| rotation.input == rotation.output)
    }

    /// All.
    pub fn all() -> impl Iterator<Item = Rotation> {
        Pairing::ALL.into_iter().flat_map(|input| {
            Pairing::ALL.into_iter().flat_map(move |output| {
                Direction::ALL.map(|direction| Rotation {
                    input,
                    output,
                    direction,
                })
            })
        })
    }

    /// Forward, the pairing kept.
    pub fn forward(pairing: Pairing) -> Rotation {
        Rotation {
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
        }
    }

    /// The same, or its transpose where the rows have no inverse.
    pub fn allowed(self, angles: &Angles) -> Rotation {
        let direction = match refusal(self.direction, angles, [1; 4]) {
            Some(_) => Direction::Transpose,
            None => self.direction,
        };
        Rotation { direction, ..self }
    }

    /// Its plan on a backend.
    ///
    /// # Panics
    ///
    /// If the backend is not available.
    pub fn plan(self, backend: Backend) -> Rope {
        Rope::new(self.input)
            .output_pairing(self.output)
            .direction(self.direction)
            .backend(backend)
            .expect("an available backend")
    }
}

/// The expected contents of a buffer after a rotation.
#[derive(Clone, Debug)]
pub struct Expected<O> {
    /// Every element, the ones around the tensor included.
    pub values: Vec<O>,
    /// Which of them come from arithmetic or a conversion, so that a NaN may be any NaN. The others are bits that
    /// were copied, or left alone.
    pub computed: Vec<bool>,
}

/// The expected error of a rotation of a tensor of this shape: an inverse is not there where a pair has another
/// magnitude than the attention factor, or none.
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
                    return Some(Error::RowMagnitude {
                        row,
                        head,
                        pair,
                        cos,
                        sin,
                        factor,
                    });
                }
            }
        }
    }
    None
}

/// Demands that a call was refused if it had to be.
///
/// # Panics
///
/// If it was not, or was and should not have been.
#[track_caller]
pub fn answered(result: Result<(), Error>, refusal: Option<Error>) {
    // As text, in which a NaN is as good as another.
    assert_eq!(format!("{:?}", result.err()), format!("{refusal:?}"));
}

/// The expected contents of `y`, painted as it is, when `x` has been rotated into it, or was refused to be. In place
/// they are the same.
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
    // Either one row per token, for all sequences, or one per token of each.
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
            let members = |pairing| match pairing {
                Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                Pairing::Half => [pair, pair + pairs],
            };
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

/// The definition. Every operation is an f32, rounded by itself.
pub fn rotate(x: f32, y: f32, cos: f32, sin: f32) -> (f32, f32) {
    (x * cos - y * sin, x * sin + y * cos)
}

/// cos and sin of a pair, as the direction makes use of them.
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
