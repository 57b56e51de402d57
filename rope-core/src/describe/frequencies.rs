//! The frequencies of a model: for every pair how far one position rotates it, and which axis of the positions does.
//!
//! All that scaling, partial rotation over layers, multimodal axes and configuration files have to say about a model
//! ends here, in one step and one axis a pair and one factor for all. What makes rows of cos and sin out of it knows
//! nothing of where it came from.
//!
//! # The step
//!
//! A pair with the inverse frequency `w` (radians a position) rotates by `T = w / 2 pi` turns a position. `T` is kept
//! as whole turns and a fraction in units of 2^-128 turn, within one unit of the exact one. The phase of an integer
//! position `p` is `p * fraction` modulo 2^128: a wrapping multiplication, exact for negative positions and far ones,
//! in which whole turns vanish. A real-valued position does not make them vanish (half of one turn is half a turn), so
//! they are kept; no published text model has any, while DINOv3's first period is exactly one.
//!
//! A [`Float128`] has 128 bits, so a step is not always the nearest one: of 480 steps of published models 470 are, and
//! 10 are the next above. Of 32,647 steps of random bases up to 2^31 over up to 320 channels 1,455 were a neighbor of
//! the nearest, and the worst was 0.83 units off. Rounding each correctly would take 256 bits throughout; a unit moves
//! the angle of position 2^63 by 2^-65 turn. Where one position is more than a radian, as only coordinates have it, a
//! step is off in proportion: by up to 6 units where it is four turns.

// The first one has the constructors: rustdoc shows the methods of a type by module.
mod construct;

pub(crate) mod axes;
mod frequency;
mod generate;
mod mixed;
pub(crate) mod scaling;
mod shift;
pub(crate) mod source;

pub use axes::Axes;
pub use frequency::Frequency;
pub use mixed::{MixedAngle, MixedFrequencies};
pub use scaling::{LongRope, Scaling, Yarn};
pub use source::RowsAt;

use core::fmt;

use crate::base::error::{Error, Result};
use crate::base::float128::Float128;
use crate::kernel::sincos::chunk::FrequencyChunk;
use crate::proof::Proof;
use axes::Assignment;
use scaling::BaseFrequencies;

/// Which angle a position has.
///
/// ```
/// use rope_core::{Angle, Frequencies, Scaling};
///
/// // The bits that a model saw in training, with an angle that is wrong by 6e-2 at a million.
/// let frequencies = Frequencies::new(128, 500_000.0, &Scaling::Default)?;
/// assert_eq!(frequencies.angle(), Angle::Exact);
/// let trained = frequencies.with_angle(Angle::HuggingFaceF32);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Angle {
    /// The exact product of position and frequency.
    #[default]
    Exact,
    /// What Hugging Face's models compute: position and inverse frequency as `f32`, their product rounded to `f32`,
    /// and that taken as the angle. It is wrong by 8e-3 at 128k positions and by 6e-2 at a million; it is what such
    /// a model was trained and evaluated with. For the same bits take the inverse frequencies from the model as well
    /// ([`Frequencies::from_inverse`]): its own are up to 4 units in the last place off the correctly rounded ones.
    HuggingFaceF32,
}

/// The frequencies of all pairs of a head and the factor on cos and sin: all that the rows are made of.
///
/// Made once for a model (or a layer type, where they differ). With an allocator [`Frequencies::new`] owns its pairs;
/// without, [`Frequencies::new_in`] keeps them in storage of the caller's.
///
/// `{:?}` describes them in a line; `{:#?}` lists all pairs.
///
/// ```
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Linear { factor: 4.0 })?;
/// // The cos and sin of the tokens 1000 to 1004.
/// let rows = frequencies.rows(1000..1005)?;
/// assert_eq!(rows.len(), 5);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Frequencies<'a> {
    chunks: FrequencyChunks<'a>,
    pairs: usize,
    axes: usize,
    /// [`FrequencyChunk::reach`].
    reach: f64,
    attention_factor: f64,
    softmax_factor: f64,
    angle: Angle,
    proof: Proof,
}

#[cfg(feature = "alloc")]
type FrequencyChunks<'a> = alloc::borrow::Cow<'a, [FrequencyChunk]>;
#[cfg(not(feature = "alloc"))]
type FrequencyChunks<'a> = &'a [FrequencyChunk];

impl fmt::Debug for Frequencies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// All pairs, as a list.
        struct Pairs<'f>(&'f Frequencies<'f>);
        impl fmt::Debug for Pairs<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.0.iter()).finish()
            }
        }
        let every_pair = f.alternate();
        let mut fields = f.debug_struct("Frequencies");
        fields
            .field("rotary_dim", &self.rotary_dim())
            .field("axes", &self.axes)
            .field("angle", &self.angle)
            .field("attention_factor", &self.attention_factor)
            .field("softmax_factor", &self.softmax_factor)
            .field("backend", &self.proof.backend());
        if every_pair {
            return fields.field("pairs", &Pairs(self)).finish();
        }
        let mut inverse = self.iter().map(|pair| pair.inverse());
        let first = inverse.next();
        fields
            .field("first_inverse", &first.unwrap_or_default())
            .field(
                "last_inverse",
                &inverse.last().or(first).unwrap_or_default(),
            )
            .finish_non_exhaustive()
    }
}

/// So many values, all zero. (The system's zeroed pages: a table is written once, not twice.)
#[cfg(feature = "alloc")]
fn zeros(values: usize) -> Result<alloc::vec::Vec<f32>> {
    bytemuck::allocation::try_zeroed_vec(values).map_err(|()| out_of_memory::<f32>(values))
}

/// So many chunks of pairs that stand still.
#[cfg(feature = "alloc")]
fn empty_chunks(count: usize) -> Result<alloc::vec::Vec<FrequencyChunk>> {
    let mut chunks = alloc::vec::Vec::new();
    chunks
        .try_reserve_exact(count)
        .map_err(|_| out_of_memory::<FrequencyChunk>(count))?;
    chunks.resize(count, FrequencyChunk::EMPTY);
    Ok(chunks)
}

#[cfg(feature = "alloc")]
fn out_of_memory<T>(count: usize) -> Error {
    Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
    }
}

/// The first chunks of the storage, as many as are needed, emptied.
fn fitting(storage: &mut [FrequencyChunk], needed: usize) -> Result<&mut [FrequencyChunk]> {
    let given = storage.len();
    let chunks = storage.get_mut(..needed).ok_or(Error::Storage {
        what: "chunks of storage",
        given,
        needed,
    })?;
    chunks.fill(FrequencyChunk::EMPTY);
    Ok(chunks)
}

/// Computes the frequencies of all pairs; what it returns has everything but the chunks.
fn make(
    chunks: &mut [FrequencyChunk],
    axes: Axes<'_>,
    base: f64,
    scaling: &Scaling<'_>,
) -> Result<Frequencies<'static>> {
    let base = scaling::positive("base", base)?;
    let pairs = axes.pairs()?;
    let mut assignments = axes.assignments(pairs);
    for set in axes.pairs_of_sets(pairs) {
        if set > 0 {
            scaling.write(BaseFrequencies::new(set, base), &mut assignments, chunks)?;
        }
    }
    let factors = scaling.factors()?;
    Ok(Frequencies {
        attention_factor: factors.attention,
        softmax_factor: factors.softmax,
        ..Frequencies::without_chunks(chunks, pairs, axes.count())
    })
}

/// Takes the frequencies of all pairs from their inverse; what it returns has everything but the chunks.
fn take<T: Copy + Into<f64>>(
    chunks: &mut [FrequencyChunk],
    axes: Axes<'_>,
    inverse: &[T],
    attention_factor: f64,
) -> Result<Frequencies<'static>> {
    let pairs = axes.pairs()?;
    if inverse.len() != pairs {
        return Err(Error::Count {
            name: "inverse",
            given: inverse.len(),
            needed: pairs,
        });
    }
    let given = inverse.iter().enumerate();
    for ((index, &inverse), Assignment { pair, axis, .. }) in given.zip(axes.assignments(pairs)) {
        let inverse =
            scaling::finite("inverse", inverse.into()).map_err(|error| error.in_list(index))?;
        let frequency = Frequency::new(pair, inverse * Float128::INVERSE_TWO_PI, inverse, axis)?;
        chunks[pair / 8].set(pair % 8, frequency.entry());
    }
    Ok(Frequencies {
        attention_factor: scaling::attention_factor(attention_factor)?,
        ..Frequencies::without_chunks(chunks, pairs, axes.count())
    })
}

impl Frequencies<'static> {
    fn without_chunks(chunks: &[FrequencyChunk], pairs: usize, axes: usize) -> Self {
        Frequencies {
            chunks: FrequencyChunks::default(),
            pairs,
            axes,
            reach: FrequencyChunk::reach(chunks),
            attention_factor: 1.0,
            softmax_factor: 1.0,
            angle: Angle::Exact,
            proof: Proof::best(),
        }
    }
}
