//! The frequency and the position of each pair of a head, from an operator's parameters.

use llama_cpp_sys_2 as c;
use rope_core::Pairing;
use rope_core::internals::{Are, Count};

// Macros in ggml.h.
const NORMAL: i32 = 0;
const NEOX: i32 = 2;
const MROPE: i32 = 8;
const VISION: i32 = 24;
const IMROPE: i32 = 40;

/// The `op_params` of `ROPE` and `ROPE_BACK`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    n_dims: usize,
    mode: i32,
    original_context: i32,
    base: f64,
    scale: f64,
    extrapolation: f64,
    magnitude: f64,
    beta_fast: f64,
    beta_slow: f64,
    sections: [i64; 4],
    /// The first channel that rotates.
    pub offset: usize,
}

/// A pair's angle is the position on its axis times its inverse frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The index of the position among those of a token.
    pub axis: u8,
    /// The inverse frequency, in radians per position.
    pub inverse: f64,
}

impl Parameters {
    /// Returns the parameters of an operator.
    ///
    /// # Errors
    ///
    /// A sentence that names the parameter which this backend refuses.
    pub fn read(operator: &c::ggml_tensor) -> Result<Self, String> {
        let ints = operator.op_params;
        let real = |index: usize| f64::from(f32::from_bits(ints[index].cast_unsigned()));
        let count = |index: usize, name: &str| {
            usize::try_from(ints[index]).map_err(|_| format!("{name} is {}", ints[index]))
        };
        let read = Parameters {
            n_dims: count(1, "n_dims")?,
            mode: ints[2],
            original_context: ints[4],
            base: real(5),
            scale: real(6),
            extrapolation: real(7),
            magnitude: real(8),
            beta_fast: real(9),
            beta_slow: real(10),
            sections: [11, 12, 13, 14].map(|index| ints[index].into()),
            offset: count(15, "the offset")?,
        };
        if ![NORMAL, NEOX, MROPE, VISION, IMROPE].contains(&read.mode) {
            return Err(format!("mode is {}", read.mode));
        }
        if read.axes() > 1 && (read.sections.iter().any(|&n| n < 0) || read.sections == [0; 4]) {
            return Err(format!("sections are {:?}", read.sections));
        }
        let head_dim = usize::try_from(operator.ne[0]).unwrap_or(0);
        let end = read.offset.checked_add(read.rotary_dim());
        if !read.n_dims.is_multiple_of(2)
            || read.n_dims == 0
            || end.is_none_or(|end| end > head_dim)
        {
            return Err(format!(
                "{} of {head_dim} {} to rotate from channel {} on",
                Count(read.rotary_dim(), "channels"),
                Are(read.rotary_dim()),
                read.offset
            ));
        }
        if read.mode == VISION {
            if read.rotary_dim() != head_dim {
                return Err(format!(
                    "vision rotates {} of {head_dim}",
                    Count(read.rotary_dim(), "channels")
                ));
            }
            // With other sections ggml does not begin each section at its first frequency.
            let [rows, columns, ..] = read.sections;
            let pairs = read.n_dims as i64;
            if rows == 0 || columns == 0 || read.sections[2..] != [0; 2] || rows + columns < pairs {
                return Err(format!("sections of vision are {:?}", read.sections));
            }
        }
        for (name, value) in [("freq_base", read.base), ("freq_scale", read.scale)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} is {value}"));
            }
        }
        let factor = read.attention_factor();
        if !(factor.is_finite() && factor > 0.0) {
            return Err(format!("the attention factor is {factor}"));
        }
        Ok(read)
    }

    /// Returns the number of positions of a token.
    pub fn axes(&self) -> usize {
        if self.mode & MROPE != 0 { 4 } else { 1 }
    }

    /// Returns the number of channels that rotate. Vision counts half of them in `n_dims`.
    pub fn rotary_dim(&self) -> usize {
        if self.mode == VISION {
            self.n_dims.saturating_mul(2)
        } else {
            self.n_dims
        }
    }

    /// Returns the pairing.
    pub fn pairing(&self) -> Pairing {
        if self.mode == NORMAL {
            Pairing::Interleaved
        } else {
            Pairing::Half
        }
    }

    /// Returns the factor of cos and sin.
    pub fn attention_factor(&self) -> f64 {
        let of_yarn = 1.0 + 0.1 * (1.0 / self.scale).ln();
        self.magnitude
            * if self.extrapolation == 0.0 {
                1.0
            } else {
                of_yarn
            }
    }

    /// Returns all pairs, in order. `factors` divide the frequencies. The frequencies are powers; ggml multiplies them
    /// up in f32 from pair to pair.
    pub fn pairs<'a>(&'a self, factors: Option<&'a [f32]>) -> impl Iterator<Item = Pair> + 'a {
        let ramp = self.ramp();
        let dimension = self.n_dims as f64;
        (0..self.rotary_dim() / 2).map(move |pair| {
            let (axis, exponent) = self.place(pair);
            let factor = factors.map_or(1.0, |factors| f64::from(factors[pair]));
            let extrapolated = self.base.powf(-2.0 * exponent as f64 / dimension) / factor;
            let share = ramp(pair) * self.extrapolation;
            Pair {
                axis,
                inverse: extrapolated * (self.scale * (1.0 - share) + share),
            }
        })
    }

    /// Returns the axis of a pair, and the index of its frequency on that axis, as `ggml_mrope_cache_init`.
    fn place(&self, pair: usize) -> (u8, i64) {
        let pair = pair as i64;
        if self.axes() == 1 {
            return (0, pair);
        }
        let [t, h, w, e] = self.sections;
        let sector = pair % (t + h + w + e);
        if self.mode == IMROPE {
            let axis = match sector % 3 {
                1 if sector < 3 * h => 1,
                2 if sector < 3 * w => 2,
                0 if sector < 3 * t => 0,
                _ => 3,
            };
            return (axis, pair);
        }
        let starts = [0, t, t + h, t + h + w];
        let axis = (1..4)
            .rev()
            .find(|&axis| sector >= starts[axis])
            .unwrap_or(0);
        // Only vision counts the frequencies of each axis from 0.
        let exponent = if self.mode == VISION {
            sector - starts[axis]
        } else {
            pair
        };
        (axis as u8, exponent)
    }

    /// Returns YaRN's share of the original frequency, as `rope_yarn_ramp`.
    fn ramp(&self) -> impl Fn(usize) -> f64 {
        let dimension = self.n_dims as f64;
        let correction = |rotations: f64| {
            let turns = f64::from(self.original_context) / (rotations * std::f64::consts::TAU);
            dimension * turns.ln() / (2.0 * self.base.ln())
        };
        let low = correction(self.beta_fast).floor().max(0.0);
        let high = correction(self.beta_slow).ceil().min(dimension - 1.0);
        move |pair| 1.0 - ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0)
    }
}
