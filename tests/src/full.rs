//! Full-width rows from the definition: a cos and a sin for each channel of a pair.

use rope_core::{Direction, Layout, Pairing, Rows, Strides};

use crate::number::values;
use crate::oracle::members;
use crate::{Expected, Number, Rotation, Source, View};

/// Rows with `rotary_dim` cos and `rotary_dim` sin each.
#[derive(Clone, Debug)]
pub struct FullRows {
    /// The cos values, row by row; the heads of a row lie one after the other.
    pub cos: Vec<f32>,
    /// The sin values, in the same order.
    pub sin: Vec<f32>,
    /// Number of rows.
    pub rows: usize,
    /// Number of heads with values of their own; 1 if the heads share a row.
    pub heads: usize,
    /// Number of rotated channels.
    pub rotary_dim: usize,
}

impl FullRows {
    /// Returns rows of any values.
    pub fn any(source: &mut Source<'_>, [rows, heads]: [usize; 2], rotary_dim: usize) -> Self {
        let len = rows * heads * rotary_dim;
        let [cos, sin] = [(); 2].map(|()| values(source, len));
        FullRows {
            cos,
            sin,
            rows,
            heads,
            rotary_dim,
        }
    }

    /// Calls `f` with the rows: in two slices or as joined rows of `[cos | sin]`, and directly or selected by ids.
    ///
    /// # Panics
    ///
    /// If the crate refuses the rows.
    pub fn with<T>(
        &self,
        [joined, gathered]: [bool; 2],
        f: impl FnOnce(&rope_core::FullRows<'_>) -> T,
    ) -> T {
        let &FullRows {
            rows,
            heads,
            rotary_dim: width,
            ..
        } = self;
        let lines = self.cos.chunks(width).zip(self.sin.chunks(width));
        let memory: Vec<f32> = lines.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
        let made = if joined && rows > 0 {
            let shape = [1, rows, heads, width];
            let strides = Strides {
                batch: 0,
                token: 2 * width * heads,
                head: 2 * width,
            };
            let layout = Layout::strided(shape, strides);
            let values = Rows::strided(&memory, &memory[width..], layout.expect("a small layout"));
            values.expect("valid rows")
        } else {
            let rows = Rows::strided(&self.cos, &self.sin, [1, rows * heads, 1, width]);
            rows.and_then(|rows| rows.with_heads(heads))
                .expect("valid rows")
        };
        let ids: Vec<u32> = (0..rows as u32).collect();
        if gathered {
            let gathered = made.gather(&ids[..]).expect("ids of the table");
            f(&rope_core::FullRows::new(gathered).expect("valid rows"))
        } else {
            f(&rope_core::FullRows::new(made).expect("valid rows"))
        }
    }

    /// Returns the rows as a struct of C: in two slices, joined in a memory, or there with strides.
    #[cfg(feature = "capi")]
    pub fn over_c(&self, form: usize, memory: &mut Vec<f32>) -> rope::rope_angles {
        let &FullRows {
            rows,
            heads,
            rotary_dim,
            ..
        } = self;
        let lines = self.cos.chunks(rotary_dim).zip(self.sin.chunks(rotary_dim));
        *memory = lines.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
        let (cos, len) = (memory.as_ptr(), memory.len());
        let last = len.saturating_sub(2 * rotary_dim);
        // Joined rows whose last cos and sin are equal are refused.
        let joined =
            memory[last..last + len.min(rotary_dim)] != memory[len - len.min(rotary_dim)..];
        let table = match form {
            0 if joined => rope::rope_rows_joined(cos, len, rotary_dim),
            1 if rows > 0 => {
                let (sin, shape) = (cos.wrapping_add(rotary_dim), [1, rows, heads, rotary_dim]);
                let strides = [0, 2 * rotary_dim * heads, 2 * rotary_dim];
                let layout = rope::rope_layout { shape, strides };
                let strided = crate::c::strided_rows(cos, sin, len - rotary_dim, layout);
                rope::rope_angles {
                    rotary_dim,
                    ..strided
                }
            }
            _ => {
                let (cos, sin) = (self.cos.as_ptr(), self.sin.as_ptr());
                crate::c::full_rows(cos, sin, rows * heads, rotary_dim)
            }
        };
        rope::rope_angles {
            heads,
            full_width: 1,
            ..table
        }
    }

    /// Returns the cos and the sin of a channel.
    pub fn get(&self, row: usize, head: usize, channel: usize) -> [f32; 2] {
        let head = if self.heads == 1 { 0 } else { head };
        let at = (row * self.heads + head) * self.rotary_dim + channel;
        [self.cos[at], self.sin[at]]
    }

    /// Returns the row of a token.
    fn row(&self, [batch, tokens, _, _]: [usize; 4], sequence: usize, token: usize) -> usize {
        if self.rows == tokens {
            token
        } else {
            assert_eq!(self.rows, batch * tokens);
            sequence * tokens + token
        }
    }
}

/// Returns the elements that `y` must hold after the rotation of `x`, forward or transposed.
pub fn rotated<I: Number, O: Number>(
    rotation: Rotation,
    rows: &FullRows,
    (x, from): (&[I], &View),
    (y, to): (&[O], &View),
) -> Expected<O> {
    let mut expected = Expected {
        values: y.to_vec(),
        computed: vec![false; y.len()],
    };
    let (head_dim, pairs) = (from.shape[3], rows.rotary_dim / 2);
    let members = |pairing, pair| members(pairing, [pairs, rotation.parts], pair);
    // The rows use the channels of the tensor before the rotation.
    let of_rows = match rotation.direction {
        Direction::Forward => rotation.input,
        _ => rotation.output,
    };
    for [sequence, token, head] in from.heads() {
        let at = |view: &View| view.index([sequence, token, head, 0]);
        let x = &x[at(from)..][..head_dim];
        let values = &mut expected.values[at(to)..][..head_dim];
        let computed = &mut expected.computed[at(to)..][..head_dim];
        let row = rows.row(from.shape, sequence, token);
        for pair in 0..pairs {
            let [i, j] = members(of_rows, pair);
            let [[ci, si], [cj, sj]] = [i, j].map(|channel| rows.get(row, head, channel));
            let [a, b] = members(rotation.input, pair).map(|channel| x[channel].to_f32());
            let rotated = match rotation.direction {
                Direction::Forward => [a * ci - b * si, b * cj + a * sj],
                _ => [a * ci + b * sj, b * cj - a * si],
            };
            for (channel, value) in members(rotation.output, pair).into_iter().zip(rotated) {
                values[channel] = O::from_f32(value);
                computed[channel] = true;
            }
        }
        for channel in rows.rotary_dim..head_dim {
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

/// Adds the gradients of cos and of sin, `[rows, heads or 1, rotary_dim]`, term by term.
pub fn add_gradients<E: Number>(
    (pairing, parts): (Pairing, usize),
    rows: &FullRows,
    (x, from): (&[E], &View),
    (dy, to): (&[E], &View),
    [cos, sin]: [&mut [f64]; 2],
) {
    let pairs = rows.rotary_dim / 2;
    for [sequence, token, head] in from.heads() {
        let row = rows.row(from.shape, sequence, token);
        let head_of_row = if rows.heads == 1 { 0 } else { head };
        let at = (row * rows.heads + head_of_row) * rows.rotary_dim;
        let read = |values: &[E], view: &View, channel| {
            f64::from(values[view.index([sequence, token, head, channel])].to_f32())
        };
        for pair in 0..pairs {
            let [i, j] = members(pairing, [pairs, parts], pair);
            // dy_i = .. x_i cos[i] - x_j sin[i], dy_j = .. x_j cos[j] + x_i sin[j]
            cos[at + i] += read(x, from, i) * read(dy, to, i);
            sin[at + i] += -(read(x, from, j) * read(dy, to, i));
            cos[at + j] += read(x, from, j) * read(dy, to, j);
            sin[at + j] += read(x, from, i) * read(dy, to, j);
        }
    }
}
