//! Mixed axes: frequencies of which every pair has one on each axis, so that its angle is a sum, and each head has its
//! own.

mod generate;

use core::fmt;

use super::axes::{MAX_AXES, MAX_ROTARY_DIM};
#[cfg(feature = "alloc")]
use super::empty_chunks;
use super::{Frequency, FrequencyChunks, fitting, scaling};
use crate::base::error::Result;
use crate::base::float128::Float128;
use crate::kernel::sincos::chunk::FrequencyChunk;
use crate::proof::Proof;
use crate::{Backend, Error};

/// Which angle a token's coordinates have on mixed axes.
///
/// ```
/// use rope_core::axes::{MixedAngle, MixedFrequencies};
///
/// // Two axes, one head, two pairs.
/// let learned = [1.0_f32, 0.1, 0.5, 0.05];
/// let frequencies = MixedFrequencies::new(&learned, [2, 1, 2], 1.0)?;
/// assert_eq!(frequencies.angle(), MixedAngle::Exact);
/// let trained = frequencies.with_angle(MixedAngle::SummedF32); // timm's bits
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixedAngle {
    /// The exact sum of the products of coordinate and frequency.
    #[default]
    Exact,
    /// What timm and rope-vit compute: coordinates and inverse frequencies as `f32`, each product rounded to `f32`, and
    /// each sum, axis 0 first. An angle that `f32` cannot hold counts as zero.
    SummedF32,
}

/// Frequencies of shape `[axes, heads, pairs]`: the angle of a pair is the sum over the axes of coordinate times
/// frequency. Where [`Frequencies`](crate::Frequencies) has one axis for each pair and one set of pairs for all heads,
/// here every pair follows all axes, and every head has pairs of its own: RoPE-Mixed in timm and rope-vit, Mochi, and,
/// with zeros in the right places, whatever has fixed axes by the head (HDiT) or learned ones.
///
/// Made once, or once a step where the frequencies are learned. With an allocator [`MixedFrequencies::new`] owns its
/// frequencies; without, [`MixedFrequencies::new_in`] keeps them in storage of the caller's.
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
/// let values = frequencies.values(Positions::axis_major(&grid))?;
/// assert_eq!(values.len(), 6 * 2 * 8);   // [tokens, heads, cos of all pairs | sin of all pairs]
/// assert_eq!(values[..8], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// # Prefix tokens
///
/// A class token and registers have no place in the image, and no rotation. Rotate only the tokens after them:
/// [`Layout::tokens`](crate::Layout::tokens) of `prefix..tokens`.
#[derive(Clone, PartialEq)]
pub struct MixedFrequencies<'a> {
    /// `[head][eight pairs][axis]`.
    chunks: FrequencyChunks<'a>,
    axes: usize,
    heads: usize,
    pairs: usize,
    /// [`FrequencyChunk::reach`].
    reach: f64,
    attention_factor: f64,
    angle: MixedAngle,
    proof: Proof,
}

#[cfg(feature = "alloc")]
impl MixedFrequencies<'static> {
    /// The frequencies of `[axes, heads, pairs]` from their inverse (radians a unit of the coordinate), in that order,
    /// which is that of timm's, rope-vit's and Mochi's parameters (of one layer of timm's `[axes, depth, heads,
    /// pairs]`). They are `f32`, `f64` or whatever else converts to `f64`, and exact from there on. Negative ones
    /// rotate the other way, zeros stand still. One head is all heads'. cos and sin are multiplied by
    /// `attention_factor`; 1.0 where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] unless there are 1 to 4 axes, [`Error::Parameter`] without heads and for an attention factor
    /// that is not positive, [`Error::RotaryDim`] for no pairs or more than 32768, [`Error::Count`] unless there are
    /// `axes * heads * pairs` numbers, [`Error::ListEntry`] for one that is not finite, [`Error::TurnsPerPosition`] for
    /// a pair with 32768 turns a unit or more, and [`Error::OutOfMemory`].
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
    /// Blocks that frequencies of `[axes, heads, pairs]` need.
    pub const fn chunks([axes, heads, pairs]: [usize; 3]) -> usize {
        axes.saturating_mul(heads)
            .saturating_mul(FrequencyChunk::count(pairs.saturating_mul(2)))
    }

    /// [`MixedFrequencies::new`] in the caller's storage, of which the first [`MixedFrequencies::chunks`] elements are
    /// used.
    ///
    /// # Errors
    ///
    /// Those of [`MixedFrequencies::new`], and [`Error::Storage`] if the storage is too short.
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

    /// The same frequencies with another notion of the angle.
    #[must_use]
    pub fn with_angle(self, angle: MixedAngle) -> Self {
        Self { angle, ..self }
    }

    /// The same frequencies with another backend for the rows: the same bits, another speed.
    ///
    /// # Errors
    ///
    /// [`Error::BackendUnavailable`] if this CPU, or this build, cannot run it.
    pub fn backend(self, backend: Backend) -> Result<Self> {
        Ok(Self {
            proof: backend.required()?,
            ..self
        })
    }

    /// Which angle the rows are made of.
    pub fn angle(&self) -> MixedAngle {
        self.angle
    }

    /// How many numbers a position has.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// How many heads have frequencies of their own; 1 where all heads share them.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// How many channels of a head rotate: two for each pair.
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }

    /// What cos and sin are multiplied by.
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// What an axis adds to the angle of a head's pair, if there are such.
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

impl fmt::Debug for MixedFrequencies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MixedFrequencies")
            .field("axes", &self.axes)
            .field("heads", &self.heads)
            .field("rotary_dim", &self.rotary_dim())
            .field("angle", &self.angle)
            .field("attention_factor", &self.attention_factor)
            .field("backend", &self.proof.backend())
            .finish_non_exhaustive()
    }
}

/// The chunk of a pair on an axis. What is multiplied is within the chunks.
fn index([axes, _, pairs]: [usize; 3], axis: usize, head: usize, pair: usize) -> usize {
    (head * pairs.div_ceil(8) + pair / 8) * axes + axis
}

/// Refuses shapes that no frequencies have, and frequencies that are not as many.
#[inline(never)]
fn check(given: usize, [axes, heads, pairs]: [usize; 3]) -> Result<()> {
    if axes == 0 || axes > MAX_AXES {
        return Err(Error::Axes {
            required: "1 to 4 where they are mixed",
        });
    }
    if heads == 0 {
        return Err(Error::Parameter {
            name: "heads",
            value: 0.0,
            required: "1 for frequencies that all heads share, or their number",
        });
    }
    if pairs == 0 || pairs > MAX_ROTARY_DIM / 2 {
        return Err(Error::RotaryDim {
            rotary_dim: pairs.saturating_mul(2),
            required: "even and between 2 and 65536",
        });
    }
    let needed = heads.saturating_mul(axes * pairs);
    if given != needed {
        return Err(Error::Count {
            name: "inverse",
            given,
            needed,
        });
    }
    Ok(())
}

/// Takes frequencies that [`check`] has let pass; what it returns has everything but the chunks.
fn take<T: Copy + Into<f64>>(
    chunks: &mut [FrequencyChunk],
    inverse: &[T],
    shape: [usize; 3],
    attention_factor: f64,
) -> Result<MixedFrequencies<'static>> {
    let attention_factor = scaling::attention_factor(attention_factor)?;
    for (at, &inverse) in inverse.iter().enumerate() {
        set(chunks, shape, at, inverse.into())?;
    }
    let [axes, heads, pairs] = shape;
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

/// Puts number `at` of the list where it belongs.
#[inline(never)]
fn set(chunks: &mut [FrequencyChunk], shape: [usize; 3], at: usize, inverse: f64) -> Result<()> {
    let [_, heads, pairs] = shape;
    let (axis, head, pair) = (at / pairs / heads, at / pairs % heads, at % pairs);
    let inverse = scaling::finite("inverse", inverse).map_err(|error| error.in_list(at))?;
    let frequency = Frequency::new(
        pair,
        inverse * Float128::INVERSE_TWO_PI,
        inverse,
        axis as u8,
    )?;
    chunks[index(shape, axis, head, pair)].set(pair % 8, frequency.entry());
    Ok(())
}
