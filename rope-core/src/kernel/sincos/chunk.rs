//! Eight frequencies, in the layout of the row generator.

/// The angle of one unit of a coordinate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// True if it rotates the other way.
    pub(crate) negative: bool,
    /// Whole turns, which affect only coordinates that are not integers.
    pub(crate) whole: u32,
    /// The fraction in units of 2^-128 turn.
    pub(crate) fraction: u128,
}

impl Step {
    /// Creates the step of `whole` turns, rounded down, and a fraction.
    pub(crate) fn new(whole: i16, fraction: u128) -> Self {
        // The magnitude of a negative step is its distance to zero.
        let (negative, whole, fraction) = match (whole < 0, fraction) {
            (false, _) => (false, whole.unsigned_abs(), fraction),
            (true, 0) => (true, whole.unsigned_abs(), 0),
            (true, _) => (true, whole.unsigned_abs() - 1, fraction.wrapping_neg()),
        };
        Self {
            negative,
            whole: whole.into(),
            fraction,
        }
    }

    /// Returns the arguments of [`Step::new`].
    pub(crate) fn whole_and_fraction(self) -> (i16, u128) {
        let whole = self.whole as i16;
        match self.negative {
            false => (whole, self.fraction),
            true => (
                -whole - i16::from(self.fraction != 0),
                self.fraction.wrapping_neg(),
            ),
        }
    }
}

/// One frequency of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) step: Step,
    /// The inverse frequency in radians, correctly rounded.
    pub(crate) inverse: f64,
    pub(crate) inverse_f32: f32,
    pub(crate) axis: u8,
}

/// The frequencies of eight pairs: an element of the storage of [`Frequencies::new_in`], which needs
/// [`FrequencyChunk::count`] of them.
///
/// The generator's form of a step is computed once per chunk, because this takes several times as long as a row (5 ns
/// per pair).
///
/// [`Frequencies::new_in`]: crate::Frequencies::new_in
///
/// ```
/// use rope_core::{Frequencies, FrequencyChunk, Scaling};
///
/// const STORAGE: FrequencyChunk = FrequencyChunk::EMPTY;
/// let mut storage = [STORAGE; FrequencyChunk::count(128)];
/// let frequencies = Frequencies::new_in(&mut storage, 128, 10_000.0, &Scaling::Default)?;
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "FrequencyBlock")]
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct FrequencyChunk {
    /// The 53 highest bits of four steps: quarter turns per unit of the coordinate.
    pub(crate) high: [f64; 8],
    /// The next 53 bits.
    pub(crate) low: [f64; 8],
    /// The inverse frequencies as f32, in f64 for the generator of
    /// [`Angle::HuggingFaceF32`](crate::Angle::HuggingFaceF32).
    pub(crate) inverse_f32: [f64; 8],
    /// The axis of each pair, as the index of [`SimdF64::pick`](crate::simd::SimdF64::pick).
    pub(crate) axis: [[u32; 2]; 8],
    /// The steps themselves, for the oracle. Unused places have step zero.
    pub(crate) step: [Step; 8],
    inverse: [f64; 8],
}

/// Compares without `high` and `low`: they follow from the step, and may be NaN.
impl PartialEq for FrequencyChunk {
    fn eq(&self, other: &Self) -> bool {
        let frequencies = |chunk: &Self| (chunk.step, chunk.axis, chunk.inverse, chunk.inverse_f32);
        frequencies(self) == frequencies(other)
    }
}

impl FrequencyChunk {
    /// Eight pairs that do not rotate.
    pub const EMPTY: FrequencyChunk = FrequencyChunk {
        high: [0.0; 8],
        low: [0.0; 8],
        inverse_f32: [0.0; 8],
        axis: [[0, 1]; 8],
        step: [Step {
            negative: false,
            whole: 0,
            fraction: 0,
        }; 8],
        inverse: [0.0; 8],
    };

    /// Returns the number of chunks for frequencies of `rotary_dim` channels.
    pub const fn count(rotary_dim: usize) -> usize {
        rotary_dim.div_ceil(16)
    }

    pub(crate) fn set(&mut self, lane: usize, entry: Entry) {
        (self.high[lane], self.low[lane]) = quarters(entry.step);
        self.step[lane] = entry.step;
        self.inverse[lane] = entry.inverse;
        self.inverse_f32[lane] = entry.inverse_f32.into();
        let axis = u32::from(entry.axis);
        self.axis[lane] = [2 * axis, 2 * axis + 1];
    }

    pub(crate) fn get(&self, lane: usize) -> Entry {
        Entry {
            step: self.step[lane],
            inverse: self.inverse[lane],
            inverse_f32: self.inverse_f32[lane] as f32,
            axis: (self.axis[lane][0] / 2) as u8,
        }
    }

    /// Returns the largest coordinate with which the generator's fast path stays within 2^32 turns (or 2^32 radians,
    /// which is less).
    pub(crate) fn reach(chunks: &[Self]) -> f64 {
        let most = chunks
            .iter()
            .flat_map(|chunk| chunk.high)
            .fold(4.0, |most, high| f64::max(most, high.abs()));
        (1_u64 << 34) as f64 / most
    }
}

/// Returns four steps as the sum of two f64, within 2^-106 of the step, or `(NaN, NaN)` for steps below 2^-50, which
/// might give an f32 that is not normal.
pub(crate) const fn quarters(step: Step) -> (f64, f64) {
    let Step {
        negative,
        whole,
        fraction,
    } = step;
    if whole == 0 && fraction >> 78 == 0 {
        return if fraction == 0 {
            (0.0, 0.0)
        } else {
            (f64::NAN, f64::NAN)
        };
    }
    let above = 32 - whole.leading_zeros();
    let top = match above {
        0 => fraction,
        _ => (whole as u128) << (128 - above) | fraction >> above,
    };
    // The step is `bits * 2^-scale`, with the highest bit set.
    let (bits, scale) = (
        top << top.leading_zeros(),
        128 + top.leading_zeros() - above,
    );
    let sign = if negative { -1.0 } else { 1.0 };
    (
        sign * (bits >> 75) as u64 as f64 * power_of_two(77 - scale as i32),
        sign * (bits >> 11) as u64 as f64 * power_of_two(13 - scale as i32),
    )
}

pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}
