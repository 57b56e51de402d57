//! Every verb by its definition: in f64, head by head, with plain loops. Read this file first; of rope-core it has only
//! the name of a pairing. The suite `naive` compares every verb with it, on numbers whose results are exact.

use rope_core::Pairing;

/// The cos and the sin of a token: one of each per pair, or per channel if the row is full-width.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cos values.
    pub cos: Vec<f64>,
    /// The sin values.
    pub sin: Vec<f64>,
}

/// Returns the row of a position: pair `i` of `d / 2` turns by `position * base^(-2i/d)` radians.
pub fn row(base: f64, d: usize, position: i64) -> Row {
    let angle = |i: usize| position as f64 * base.powf(-2.0 * i as f64 / d as f64);
    let (sin, cos) = (0..d / 2).map(|i| angle(i).sin_cos()).unzip();
    Row { cos, sin }
}

/// Returns the two channels of pair `i`: neighbors, or one from each half.
pub fn pair(pairing: Pairing, pairs: usize, i: usize) -> [usize; 2] {
    match pairing {
        Pairing::Interleaved => [2 * i, 2 * i + 1],
        Pairing::Half => [i, i + pairs],
    }
}

/// Rotates a head: the pair `(x, y)` becomes `(x cos - y sin, x sin + y cos)`. Channels beyond the pairs stay.
pub fn rotate(pairing: Pairing, row: &Row, head: &[f64]) -> Vec<f64> {
    let mut rotated = head.to_vec();
    for (i, (cos, sin)) in row.cos.iter().zip(&row.sin).enumerate() {
        let [a, b] = pair(pairing, row.cos.len(), i);
        rotated[a] = head[a] * cos - head[b] * sin;
        rotated[b] = head[a] * sin + head[b] * cos;
    }
    rotated
}

/// Rotates a head by the negative angles, which is the transpose; for rows of length 1 it is the inverse.
pub fn rotate_back(pairing: Pairing, row: &Row, head: &[f64]) -> Vec<f64> {
    let sin = row.sin.iter().map(|sin| -sin).collect();
    rotate(pairing, &Row { sin, ..row.clone() }, head)
}

/// Rotates a head by a full-width row, in which each channel of a pair has its own cos and sin.
pub fn rotate_full(pairing: Pairing, row: &Row, head: &[f64]) -> Vec<f64> {
    let mut rotated = head.to_vec();
    let pairs = row.cos.len() / 2;
    for i in 0..pairs {
        let [a, b] = pair(pairing, pairs, i);
        rotated[a] = head[a] * row.cos[a] - head[b] * row.sin[a];
        rotated[b] = head[b] * row.cos[b] + head[a] * row.sin[b];
    }
    rotated
}

/// Returns the gradients of a head's input and of its angles, from its output `y` and the output's gradient `dy`. By
/// the angle, the derivative of an output `(a, b)` is `(-b, a)`.
pub fn backward(pairing: Pairing, row: &Row, y: &[f64], dy: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let pairs = row.cos.len();
    let angle = |i| {
        let [a, b] = pair(pairing, pairs, i);
        y[a] * dy[b] - y[b] * dy[a]
    };
    (
        rotate_back(pairing, row, dy),
        (0..pairs).map(angle).collect(),
    )
}

/// Returns the sum of a head's squares.
pub fn sum_of_squares(head: &[f64]) -> f64 {
    head.iter().map(|x| x * x).sum()
}

/// Divides a head by the root of the mean of its squares, and multiplies it with weights.
pub fn norm(weight: &[f64], eps: f64, head: &[f64]) -> Vec<f64> {
    let root = (sum_of_squares(head) / head.len() as f64 + eps).sqrt();
    let channels = head.iter().zip(weight);
    channels.map(|(x, weight)| x / root * weight).collect()
}

/// Multiplies each block of a head with the Hadamard matrix, whose entry `[i][j]` is `(-1)^popcount(i & j)`, over the
/// root of the block's length.
pub fn hadamard(block: usize, head: &[f64]) -> Vec<f64> {
    let sign = |i: usize, j: usize| match (i & j).count_ones() % 2 {
        0 => 1.0,
        _ => -1.0,
    };
    let entry = |part: &[f64], i| (0..block).map(|j| sign(i, j) * part[j]).sum::<f64>();
    let parts = head.chunks(block);
    let sums = parts.flat_map(|part| (0..block).map(move |i| entry(part, i)));
    sums.map(|sum| sum / (block as f64).sqrt()).collect()
}

/// Returns the value of an E4M3 code: sign, 4 bits of exponent with the bias 7, and 3 bits of mantissa. The exponent 0
/// has no leading 1, and two codes are NaN.
pub fn e4m3(code: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7) / 8.0);
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa * 2f64.powi(-6),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - 7),
    };
    if code >> 7 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// Returns the E4M3 code of a number: of all codes the nearest, and of two that are equally near the even one.
pub fn to_e4m3(x: f64) -> u8 {
    let signed = (0..=255_u8).filter(|&code| (code >> 7 == 1) == x.is_sign_negative());
    let numbers = signed.filter(|&code| !e4m3(code).is_nan());
    let distance = |code: &u8| (e4m3(*code) - x).abs();
    let order = |a: &u8, b: &u8| {
        distance(a)
            .total_cmp(&distance(b))
            .then((a & 1).cmp(&(b & 1)))
    };
    numbers.min_by(order).expect("a code")
}

/// A cache of E4M3 codes with one scale, slot by slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// The codes of each slot.
    pub slots: Vec<Vec<u8>>,
    /// The value of the code 1.
    pub scale: f64,
}

impl Cache {
    /// Writes a token to a slot. A negative slot skips the token.
    pub fn write(&mut self, slot: i64, values: &[f64]) {
        if let Ok(slot) = usize::try_from(slot) {
            self.slots[slot] = values.iter().map(|x| to_e4m3(x / self.scale)).collect();
        }
    }

    /// Reads the token of a slot.
    pub fn read(&self, slot: usize) -> Vec<f64> {
        let codes = self.slots[slot].iter();
        codes.map(|&code| e4m3(code) * self.scale).collect()
    }
}
