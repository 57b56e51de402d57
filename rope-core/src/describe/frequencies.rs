//! The frequencies of a model: for each pair, its rotation per position and the axis of the positions it follows.
//!
//! Scaling, partial rotation, multimodal axes and configuration files all reduce to this: one step and one axis per
//! pair, and one factor for all pairs. The code that makes rows of cos and sin reads nothing else.
//!
//! # The step
//!
//! A pair with the inverse frequency `w` (radians per position) rotates by `T = w / 2 pi` turns per position. `T` is
//! stored as whole turns and a fraction in units of 2^-128 turn, within one unit of the exact value. The phase of an
//! integer position `p` is `p * fraction` modulo 2^128: a wrapping multiplication, exact for negative and distant
//! positions, in which whole turns vanish. They do not vanish for a real-valued position (half of one turn is half a
//! turn), so whole turns are stored too. No published text model has any; DINOv3's first period is exactly one.
//!
//! A [`Float128`](crate::base::float128::Float128) has 128 bits, so a step is not always the nearest one. Of 480 steps
//! of published models, 470 are the nearest and 10 the next above. Of 32,647 steps of random bases up to 2^31 over up
//! to 320 channels, 1,455 were a neighbor of the nearest, at worst 0.83 units off. Correct rounding would need 256 bits
//! throughout; one unit moves the angle of position 2^63 by 2^-65 turn. If one position is more than a radian, as with
//! coordinates, the error grows in proportion: up to 6 units at four turns.

// The module of the constructors comes first: rustdoc lists the methods of a type by module.
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
pub use source::TokenAngles;

use core::fmt;

use crate::base::error::{Result, check_count};
#[cfg(feature = "alloc")]
use crate::base::memory::out_of_memory;
use crate::base::memory::{MaybeOwned, part_of_storage};
use crate::kernel::sincos::chunk::FrequencyChunk;
use crate::proof::Proof;
use axes::Assignment;
use frequency::store_given;
use scaling::BaseFrequencies;

/// The definition of the angle of a position.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Angle, Frequencies, Scaling};
///
/// // The bits that a model saw in training, from an angle that is wrong by 6e-2 at a million.
/// let frequencies = Frequencies::new(128, 500_000.0, &Scaling::Default)?;
/// assert_eq!(frequencies.angle(), Angle::Exact);
/// let trained = frequencies.with_angle(Angle::HuggingFaceF32);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Angle {
    /// The exact product of position and frequency.
    #[default]
    Exact,
    /// The angle of Hugging Face's models: position and inverse frequency as `f32`, and their product rounded to `f32`.
    /// Its cos and sin are off by up to 8e-3 at 128k positions and by 6e-2 at a million, but such a model was trained
    /// and evaluated with it. For the same bits, pass the model's own inverse frequencies to
    /// [`Frequencies::from_inverse`]: they are up to 4 units in the last place off the correctly rounded ones.
    HuggingFaceF32,
}

/// The frequencies of all pairs of a head, and the factor on cos and sin: the input for rows.
///
/// Made once per model, or per layer type if layers differ. With an allocator, [`Frequencies::new`] owns the pairs;
/// without one, [`Frequencies::new_in`] keeps them in the caller's storage.
///
/// `{:?}` prints one line; `{:#?}` lists all pairs.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(128, 10_000.0, &Scaling::Linear { factor: 4.0 })?;
/// // The cos and sin of the tokens 1000 to 1004.
/// let rows = frequencies.rows(1000..1005)?;
/// assert_eq!(rows.len(), 5);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("RotaryEmbedding", "rotary_emb"))]
#[derive(Clone, PartialEq)]
pub struct Frequencies<'a> {
    chunks: FrequencyChunks<'a>,
    pairs: usize,
    axes: usize,
    /// See [`FrequencyChunk::reach`].
    reach: f64,
    attention_factor: f64,
    softmax_factor: f64,
    angle: Angle,
    proof: Proof,
}

type FrequencyChunks<'a> = MaybeOwned<'a, FrequencyChunk>;

impl fmt::Debug for Frequencies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            let pairs = fmt::from_fn(|f| f.debug_list().entries(self.iter()).finish());
            return fields.field("pairs", &pairs).finish();
        }
        let mut inverse = self.iter().map(|pair| pair.inverse);
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

/// Allocates `count` chunks of pairs that do not rotate.
#[cfg(feature = "alloc")]
fn empty_chunks(count: usize) -> Result<alloc::vec::Vec<FrequencyChunk>> {
    let mut chunks = alloc::vec::Vec::new();
    chunks
        .try_reserve_exact(count)
        .map_err(|_| out_of_memory::<FrequencyChunk>(count))?;
    chunks.resize(count, FrequencyChunk::EMPTY);
    Ok(chunks)
}

/// Returns the first `needed` chunks of the storage, cleared.
fn fitting(storage: &mut [FrequencyChunk], needed: usize) -> Result<&mut [FrequencyChunk]> {
    let chunks = part_of_storage(storage, "chunks of storage", needed)?;
    chunks.fill(FrequencyChunk::EMPTY);
    Ok(chunks)
}

/// Computes the frequencies of all pairs. Returns frequencies without chunks, for the caller to add.
fn make(
    chunks: &mut [FrequencyChunk],
    axes: Axes<'_>,
    base: f64,
    scaling: &Scaling<'_>,
) -> Result<Frequencies<'static>> {
    let base = frequency::positive("base", base)?;
    let pairs = axes.pairs()?;
    let mut assignments = axes.assignments(pairs);
    for set in axes.pairs_of_sets(pairs) {
        if set > 0 {
            scaling.write(BaseFrequencies::new(set, base), &mut assignments, chunks)?;
        }
    }
    let [attention_factor, softmax_factor] = scaling.factors()?;
    Ok(Frequencies {
        attention_factor,
        softmax_factor,
        ..Frequencies::without_chunks(chunks, pairs, axes.count())
    })
}

/// Converts inverse frequencies to those of all pairs. Returns frequencies without chunks, for the caller to add.
fn take<T: Copy + Into<f64>>(
    chunks: &mut [FrequencyChunk],
    axes: Axes<'_>,
    inverse: &[T],
    attention_factor: f64,
) -> Result<Frequencies<'static>> {
    let pairs = axes.pairs()?;
    check_count("inverse", inverse.len(), pairs)?;
    for (&inverse, Assignment { pair, axis, .. }) in inverse.iter().zip(axes.assignments(pairs)) {
        store_given(&mut chunks[pair / 8], pair, pair, inverse.into(), axis)?;
    }
    Ok(Frequencies {
        attention_factor: frequency::attention_factor(attention_factor)?,
        ..Frequencies::without_chunks(chunks, pairs, axes.count())
    })
}

impl Frequencies<'static> {
    fn over<'c>(self, chunks: impl Into<FrequencyChunks<'c>>) -> Frequencies<'c> {
        Frequencies {
            chunks: chunks.into(),
            ..self
        }
    }

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
