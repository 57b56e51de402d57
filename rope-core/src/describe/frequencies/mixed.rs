//! Mixed axes: each pair has a frequency on every axis, its angle is their sum, and each head has its own.

mod generate;

use super::axes::{self, MAX_AXES};
#[cfg(feature = "alloc")]
use super::empty_chunks;
use super::frequency::{self, Frequency, store_given};
use super::{FrequencyChunks, fitting};
use crate::base::debug::debug;
use crate::base::error::{Result, check_count};
use crate::error::FrequenciesError;
use crate::kernel::sincos::chunk::FrequencyChunk;
use crate::proof::Proof;
use crate::{Backend, Error};

/// The definition of the angle of a token on mixed axes.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::axes::{MixedAngle, MixedFrequencies};
///
/// // Two axes, one head, two pairs.
/// let learned = [1.0_f32, 0.1, 0.5, 0.05];
/// let frequencies = MixedFrequencies::new(&learned, [2, 1, 2], 1.0)?;
/// assert_eq!(frequencies.angle(), MixedAngle::Exact);
/// let trained = frequencies.with_angle(MixedAngle::SummedF32); // timm's bits
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixedAngle {
    /// The exact sum of the products of coordinate and frequency.
    #[default]
    Exact,
    /// The angle of timm and rope-vit: coordinates and inverse frequencies as `f32`, each product rounded to `f32`,
    /// then each sum, axis 0 first. An angle that overflows `f32` counts as zero.
    SummedF32,
}

/// Frequencies of shape `[axes, heads, pairs]`: the angle of a pair is the sum over the axes of coordinate times
/// frequency. [`Frequencies`](crate::Frequencies) has one axis per pair and one set of pairs for all heads; here every
/// pair follows all axes, and every head has its own pairs. Covers RoPE-Mixed in timm and rope-vit, Mochi, and, with
/// zeros in the right places, axes fixed per head (HDiT) or learned.
///
/// Made once, or once per step if the frequencies are learned. With an allocator, [`MixedFrequencies::new`] owns the
/// frequencies; without one, [`MixedFrequencies::new_in`] keeps them in the caller's storage.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::axes::MixedFrequencies;
/// use rope_core::Positions;
///
/// // a layer's parameters, `[axes, heads, pairs]`: two heads of 4 pairs
/// let learned = [
///     [[0.96_f32, 0.30, -0.30, -0.09], [-0.57, -0.18, 0.82, 0.26]],
///     [[0.30, 0.09, 0.96, 0.30], [-0.82, -0.26, -0.57, -0.18]],
/// ];
/// let frequencies = MixedFrequencies::new(learned.as_flattened().as_flattened(), [2, 2, 4], 1.0)?;
///
/// // the patches of an image, 3 rows of 2: axis 0 is the column, axis 1 the row
/// let grid = [0, 1, 0, 1, 0, 1, /* */ 0, 0, 1, 1, 2, 2];
/// let mut values = [0.0; 6 * 2 * 8];   // [tokens, heads, cos of all pairs | sin of all pairs]
/// frequencies.at(Positions::axis_major(&grid))?.rows_in(&mut values)?;
/// assert_eq!(values[..8], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// # Prefix tokens
///
/// A class token and registers have no place in the image and no rotation. Rotate only the tokens after them:
/// [`Layout::narrow`](crate::Layout::narrow) to the tokens `prefix..tokens`.
#[derive(Clone, PartialEq)]
pub struct MixedFrequencies<'a> {
    /// `[head][eight pairs][axis]`.
    chunks: FrequencyChunks<'a>,
    axes: usize,
    heads: usize,
    pairs: usize,
    /// See [`FrequencyChunk::reach`].
    reach: f64,
    attention_factor: f64,
    angle: MixedAngle,
    proof: Proof,
}

#[cfg(feature = "alloc")]
impl MixedFrequencies<'static> {
    /// Creates frequencies from inverse frequencies `[axes, heads, pairs]` (radians per unit of the coordinate). This
    /// is the order of timm's, rope-vit's and Mochi's parameters (one layer of timm's `[axes, depth, heads, pairs]`).
    /// The numbers are `f32`, `f64` or any type that converts to `f64`, and exact from there on. Negative ones rotate
    /// the other way; zeros do not rotate. All heads share the frequencies if there is one head. cos and sin are
    /// multiplied by `attention_factor`: 1.0 for a model without one.
    ///
    /// # Errors
    ///
    /// [`FrequenciesError::Axes`] unless there are 1 to 4 axes; [`Error::Parameter`] without heads, and for an
    /// attention factor that is not positive; [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) for no pairs
    /// or more than 32768; [`Error::Count`] unless there are `axes * heads * pairs` numbers; [`Error::ListEntry`] for a
    /// number that is not finite; [`FrequenciesError::TurnsPerPosition`] for a pair with 32768 turns per unit or more;
    /// and [`Error::OutOfMemory`].
    pub fn new<T: Copy + Into<f64>>(
        inverse: &[T],
        shape: [usize; 3],
        attention_factor: f64,
    ) -> Result<Self> {
        check(inverse.len(), shape)?;
        let mut chunks = empty_chunks(Self::chunks(shape))?;
        let made = take(&mut chunks, inverse, shape, attention_factor)?;
        Ok(Self {
            chunks: chunks.into(),
            ..made
        })
    }
}

impl<'a> MixedFrequencies<'a> {
    /// Returns the number of chunks for frequencies of `[axes, heads, pairs]`.
    pub const fn chunks([axes, heads, pairs]: [usize; 3]) -> usize {
        axes.saturating_mul(heads)
            .saturating_mul(FrequencyChunk::count(pairs.saturating_mul(2)))
    }

    /// Creates [`MixedFrequencies::new`] in the caller's storage. Uses its first [`MixedFrequencies::chunks`] elements.
    ///
    /// # Errors
    ///
    /// The errors of [`MixedFrequencies::new`], and [`Error::Storage`] if the storage is too short.
    pub fn new_in<T: Copy + Into<f64>>(
        storage: &'a mut [FrequencyChunk],
        inverse: &[T],
        shape: [usize; 3],
        attention_factor: f64,
    ) -> Result<Self> {
        check(inverse.len(), shape)?;
        let chunks = fitting(storage, Self::chunks(shape))?;
        let made = take(chunks, inverse, shape, attention_factor)?;
        Ok(Self {
            chunks: FrequencyChunks::from(&*chunks),
            ..made
        })
    }

    /// Sets the definition of the angle.
    #[must_use]
    pub fn with_angle(self, angle: MixedAngle) -> Self {
        Self { angle, ..self }
    }

    /// Sets the backend that computes rows: the same bits at another speed.
    ///
    /// # Errors
    ///
    /// [`PlanError::BackendUnavailable`](crate::error::PlanError::BackendUnavailable) if this CPU, or this build,
    /// cannot run it.
    pub fn with_backend(self, backend: Backend) -> Result<Self> {
        Ok(Self {
            proof: backend.required()?,
            ..self
        })
    }

    /// Returns the definition of the angle.
    pub fn angle(&self) -> MixedAngle {
        self.angle
    }

    /// Returns the number of axes of a position.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Returns the number of heads with separate frequencies; 1 if all heads share them.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Returns the number of rotated channels of a head, two per pair.
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }

    /// Returns the factor on cos and sin.
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// Returns the frequency of a pair of a head on one axis, or `None` if an index is out of range.
    pub fn frequency(&self, axis: usize, head: usize, pair: usize) -> Option<Frequency> {
        if axis >= self.axes || head >= self.heads || pair >= self.pairs {
            return None;
        }
        let chunk = &self.chunks[index(self.shape(), axis, head, pair)];
        Some(Frequency::from_entry(chunk.get(pair % 8)))
    }

    fn shape(&self) -> [usize; 3] {
        [self.axes, self.heads, self.pairs]
    }
}

debug!(
    MixedFrequencies<'_>,
    |frequencies| axes: frequencies.axes,
    heads: frequencies.heads,
    rotary_dim: frequencies.rotary_dim(),
    angle: frequencies.angle,
    attention_factor: frequencies.attention_factor,
    backend: frequencies.proof.backend()
);

/// Returns the index of the chunk of a pair on an axis. The indices must be in range.
fn index([axes, _, pairs]: [usize; 3], axis: usize, head: usize, pair: usize) -> usize {
    (head * pairs.div_ceil(8) + pair / 8) * axes + axis
}

/// Refuses invalid shapes, and lists whose length does not match.
#[inline(never)]
fn check(given: usize, [axes, heads, pairs]: [usize; 3]) -> Result<()> {
    if axes == 0 || axes > MAX_AXES {
        return Err(Error::Frequencies(FrequenciesError::Axes {
            given: axes,
            required: "1 to 4 where they are mixed",
        }));
    }
    if heads == 0 {
        let required = "1 for frequencies that all heads share, or their number";
        return Err(Error::parameter("heads", 0.0, required));
    }
    axes::pairs_of(pairs.saturating_mul(2))?;
    check_count("inverse", given, heads.saturating_mul(axes * pairs))
}

/// Converts inverse frequencies that passed [`check`]. Returns frequencies without chunks, for the caller to add.
fn take<T: Copy + Into<f64>>(
    chunks: &mut [FrequencyChunk],
    inverse: &[T],
    shape: [usize; 3],
    attention_factor: f64,
) -> Result<MixedFrequencies<'static>> {
    let attention_factor = frequency::attention_factor(attention_factor)?;
    let [axes, heads, pairs] = shape;
    for (at, &inverse) in inverse.iter().enumerate() {
        let (axis, head, pair) = (at / pairs / heads, at / pairs % heads, at % pairs);
        let chunk = &mut chunks[index(shape, axis, head, pair)];
        store_given(chunk, at, pair, inverse.into(), axis as u8)?;
    }
    Ok(MixedFrequencies {
        chunks: FrequencyChunks::default(),
        axes,
        heads,
        pairs,
        reach: FrequencyChunk::reach(chunks),
        attention_factor,
        angle: MixedAngle::Exact,
        proof: Proof::best(),
    })
}
