//! Positions of tokens: the numbers that frequencies turn into angles.

use core::ops::Range;

use crate::Error;
use crate::base::error::check_count;
use crate::describe::dual_chunk::{ChunkIds, DualChunk, DualChunkQuery};
use crate::describe::ids::{
    Coordinates, GivenIntegers, GivenNumbers, Ids, IntoIds, Numbers, check_offsets, sequence_of,
};
use crate::describe::shard::ShardTokens;
use crate::error::PositionsError;
use crate::kernel::sincos::AxisPosition;

/// The positions of tokens, on one axis or several.
///
/// ```
/// use rope_core::Positions;
///
/// let prompt = Positions::from(0..512);                         // one axis, or the same on all
/// let step = Positions::from(512);                              // one token
/// let steps = Positions::from(&[17_i64, 512, 90]);              // one id per token
/// let back = Positions::from(-7);                               // negative: rotates back
/// let times = Positions::from(&[0.0, 0.04, 0.08]);              // real-valued coordinates
/// let image = Positions::axis_major(&[0_i32, 0, 1, 1, /* */ 0, 1, 0, 1]);   // rows, then columns, of a 2 x 2 image
/// let packed = Positions::packed(&[0_u32, 5, 7])?;              // 0 1 2 3 4 | 0 1
/// # Ok::<(), rope_core::Error>(())
/// ```
///
/// An integer is one token; a range (`a..b` or `a..=b`) is consecutive tokens; a list (a slice, an array or a `Vec`, by
/// reference) has one number per token. Integers are `i32`, `i64`, `u32`, `u64` or `usize`; lists may also have real
/// numbers, `f32` or `f64`. A range that ends before it starts has no tokens, as everywhere in Rust; a call with tokens
/// refuses it by their number. Integers beyond `i64` wrap, as they do in the 64 bits of every other library.
///
/// On several axes, one number per token applies to all of them: text among images. [`MixedFrequencies`] are for images
/// alone, and refuse it.
///
/// [`MixedFrequencies`]: crate::axes::MixedFrequencies
#[doc(alias = "position_ids")]
#[derive(Clone, Copy, Debug)]
pub struct Positions<'a>(PositionSource<'a>);

/// Conversion to [`Positions`], from an integer, a range or a list.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Error, Frequencies, IntoPositions, Rows, Scaling};
///
/// fn rows<'p>(positions: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
///     Frequencies::new(64, 10_000.0, &Scaling::Default)?.rows(positions)
/// }
///
/// let (range, list, token) = (rows(7..9)?, rows(&[7_u32, 8])?, rows(7_i64)?);
/// assert_eq!((range.len(), list.len(), token.len()), (2, 2, 1));
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "positions cannot be made of `{Self}`",
    label = "neither `Positions`, nor an integer, a range or a list by reference (`&[..]`, `&Vec`) of numbers",
    note = "numbers are i32, i64, u32, u64, usize, f32 or f64; several axes go through `Positions::axis_major` or \
            `Positions::token_major`"
)]
pub trait IntoPositions<'a>: Into<Positions<'a>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: Into<Positions<'a>>> IntoPositions<'a> for T {}

/// The largest magnitude of a coordinate, 2^63, as of an integer: the error of its angle is the error of a step, 2^-128
/// turn, times the coordinate. At 2^96 one angle in 64 is rounded to the wrong f32.
const MOST_COORDINATE: f64 = (1_u64 << 63) as f64;

/// The positions as given by the caller.
#[derive(Clone, Copy, Debug)]
enum PositionSource<'a> {
    /// One integer per token, the same on all axes, and the mapping to ids if tokens are numbered by chunks.
    Tokens(TokenPositions<'a>, Option<ChunkIds>),
    /// One integer per axis and token: a range or a list.
    PerAxis(TokenPositions<'a>, AxisOrder),
    /// Real numbers.
    Coordinates(Coordinates<'a>, AxisOrder),
}

/// One integer per token.
#[derive(Clone, Copy, Debug)]
enum TokenPositions<'a> {
    /// Consecutive positions.
    Range { first: i64, len: usize },
    /// A list.
    Ids(Ids<'a>),
    /// Consecutive positions from 0, or from a start, in each sequence; sequence `s` has the tokens
    /// `offsets[s]..offsets[s + 1]`.
    Packed {
        offsets: Ids<'a>,
        starts: Option<Ids<'a>>,
    },
    /// The tokens of a rank.
    Shard(ShardTokens<'a>),
}

impl TokenPositions<'_> {
    /// Returns the number of tokens.
    fn len(&self) -> usize {
        match self {
            TokenPositions::Range { len, .. } => *len,
            TokenPositions::Ids(ids) => ids.len(),
            TokenPositions::Shard(tokens) => tokens.len(),
            TokenPositions::Packed { offsets, .. } => offsets.last() as usize,
        }
    }

    /// Returns the position of an existing token.
    fn at(&self, token: usize) -> i64 {
        match self {
            TokenPositions::Range { first, .. } => first.wrapping_add(token as i64),
            TokenPositions::Ids(ids) => ids.at(token),
            TokenPositions::Shard(tokens) => tokens.position_at(token),
            TokenPositions::Packed { offsets, starts } => packed(*offsets, *starts, token),
        }
    }

    /// Returns the first of `count` positions from `token` on, if they are consecutive.
    fn consecutive(&self, token: usize, count: usize) -> Option<i64> {
        match self {
            TokenPositions::Shard(tokens) => tokens.consecutive(token, count),
            TokenPositions::Range { first, .. } => Some(first.wrapping_add(token as i64)),
            TokenPositions::Ids(_) | TokenPositions::Packed { .. } => None,
        }
    }
}

/// The order of a list on several axes.
#[derive(Clone, Copy, Debug)]
enum AxisOrder {
    /// One coordinate per token, the same on all axes.
    OneAxis,
    /// All coordinates on axis 0, then all on axis 1.
    AxisMajor,
    /// All coordinates of token 0, then all of token 1.
    TokenMajor,
}

/// A count beyond `usize` saturates: no tensor has as many tokens either.
impl<'a> From<GivenIntegers<'a>> for TokenPositions<'a> {
    fn from(integers: GivenIntegers<'a>) -> Self {
        match integers {
            GivenIntegers::Ids(ids) => TokenPositions::Ids(ids),
            GivenIntegers::Range { first, len } => TokenPositions::Range {
                first: first as i64,
                len: usize::try_from(len).unwrap_or(usize::MAX),
            },
        }
    }
}

/// One position per token.
impl<'a, N: Numbers<'a>> From<N> for Positions<'a> {
    fn from(numbers: N) -> Self {
        Positions(match numbers.numbers() {
            GivenNumbers::Integers(integers) => PositionSource::Tokens(integers.into(), None),
            GivenNumbers::Coordinates(coordinates) => {
                PositionSource::Coordinates(coordinates, AxisOrder::OneAxis)
            }
        })
    }
}

/// The positions of a rank's tokens.
impl<'a> From<ShardTokens<'a>> for Positions<'a> {
    fn from(tokens: ShardTokens<'a>) -> Self {
        Positions(PositionSource::Tokens(TokenPositions::Shard(tokens), None))
    }
}

impl<'a> Positions<'a> {
    /// Creates positions on several axes: all tokens on axis 0, then all on axis 1 (Hugging Face's `[3, batch *
    /// tokens]`, ggml).
    #[doc(alias = "real_axis_major")]
    pub fn axis_major(numbers: impl Numbers<'a>) -> Self {
        Positions::on_axes(numbers.numbers(), AxisOrder::AxisMajor)
    }

    /// Creates positions on several axes: all axes of token 0, then all of token 1 (DINOv3's patches).
    #[doc(alias = "real_token_major")]
    pub fn token_major(numbers: impl Numbers<'a>) -> Self {
        Positions::on_axes(numbers.numbers(), AxisOrder::TokenMajor)
    }

    fn on_axes(numbers: GivenNumbers<'a>, order: AxisOrder) -> Self {
        Positions(match numbers {
            GivenNumbers::Integers(integers) => PositionSource::PerAxis(integers.into(), order),
            GivenNumbers::Coordinates(numbers) => PositionSource::Coordinates(numbers, order),
        })
    }

    /// Creates the positions of packed sequences, each counted from 0: sequence `s` has the tokens
    /// `offsets[s]..offsets[s + 1]` (FlashAttention's `cu_seqlens`).
    ///
    /// # Errors
    ///
    /// [`PositionsError::Offsets`] unless the offsets start at 0 and never fall.
    #[doc(alias = "cu_seqlens")]
    pub fn packed(offsets: impl IntoIds<'a>) -> Result<Self, Error> {
        Positions::packed_sequences(offsets.into(), None)
    }

    /// Creates the positions of packed sequences with sequence `s` counted from `starts[s]`, the tokens in its cache.
    ///
    /// # Errors
    ///
    /// The errors of [`Positions::packed`], and [`Error::Count`] unless there is one start per sequence.
    pub fn packed_from(offsets: impl IntoIds<'a>, starts: impl IntoIds<'a>) -> Result<Self, Error> {
        Positions::packed_sequences(offsets.into(), Some(starts.into()))
    }

    fn packed_sequences(offsets: Ids<'a>, starts: Option<Ids<'a>>) -> Result<Self, Error> {
        check_offsets(offsets)?;
        if let Some(starts) = starts {
            check_count("starts", starts.len(), offsets.len().saturating_sub(1))?;
        }
        let packed = TokenPositions::Packed { offsets, starts };
        Ok(Positions(PositionSource::Tokens(packed, None)))
    }

    /// Returns the number of positions on one axis.
    pub(crate) fn len(&self) -> usize {
        match self.0 {
            PositionSource::Tokens(tokens, _) => tokens.len(),
            PositionSource::PerAxis(ids, _) => ids.len(),
            PositionSource::Coordinates(coordinates, _) => coordinates.len(),
        }
    }

    /// Returns the number of packed sequences, or `None` if positions are not packed.
    pub(crate) fn packed_len(&self) -> Option<usize> {
        self.offsets()
            .map(|offsets| offsets.len().saturating_sub(1))
    }

    /// Returns the packed sequence of an existing token.
    pub(crate) fn sequence(&self, token: usize) -> Option<usize> {
        let token = match self.0 {
            PositionSource::Tokens(TokenPositions::Shard(tokens), _) => tokens.token(token)?,
            _ => token,
        };
        Some(sequence_of(self.offsets()?, token as i64))
    }

    fn offsets(&self) -> Option<Ids<'a>> {
        match self.0 {
            PositionSource::Tokens(TokenPositions::Packed { offsets, .. }, _) => Some(offsets),
            PositionSource::Tokens(TokenPositions::Shard(tokens), _) => tokens.offsets(),
            _ => None,
        }
    }

    /// Returns true if memory holds a number for each token.
    pub(crate) fn is_list(&self) -> bool {
        match self.0 {
            PositionSource::Tokens(tokens, _) | PositionSource::PerAxis(tokens, _) => {
                matches!(tokens, TokenPositions::Ids(_))
            }
            PositionSource::Coordinates(..) => true,
        }
    }

    /// Returns true if the ids are those of [`DualChunk::positions`], which many tokens share, and are not a list.
    pub(crate) fn is_range_of_chunks(&self) -> bool {
        matches!(self.0, PositionSource::Tokens(_, Some(_))) && !self.is_list()
    }

    /// Returns the tokens around one with a negative position whose positions are negative too: a range may have more
    /// of them than a loop can visit. In a list, and if the position is not negative, it is the token alone.
    pub(crate) fn negatives_around(&self, token: usize) -> Range<usize> {
        let alone = token..token + 1;
        let (PositionSource::Tokens(tokens, None) | PositionSource::PerAxis(tokens, _)) = self.0
        else {
            return alone;
        };
        let run = match tokens {
            TokenPositions::Range { len, .. } => 0..len,
            TokenPositions::Packed { offsets, .. } => {
                let sequence = sequence_of(offsets, token as i64);
                offsets.at(sequence) as usize..offsets.at(sequence + 1) as usize
            }
            _ => return alone,
        };
        let first = tokens.at(run.start);
        let below = usize::try_from(first.min(0).unsigned_abs()).unwrap_or(usize::MAX);
        let end = run.start.saturating_add(below).min(run.end);
        match token < end {
            true => run.start..end,
            false => alone,
        }
    }

    /// Returns the position of an existing token on one axis, or [`PositionsError::NotAnInteger`] for a coordinate.
    pub(crate) fn integer(&self, token: usize) -> Result<i64, Error> {
        match self.0 {
            PositionSource::Tokens(tokens, ids) => {
                let position = tokens.at(token);
                Ok(ids.map_or(position, |ids| ids.of(position)))
            }
            PositionSource::PerAxis(ids, _) => Ok(ids.at(token)),
            PositionSource::Coordinates(coordinates, _) => {
                Err(Error::Positions(PositionsError::NotAnInteger {
                    value: coordinates.at(token),
                }))
            }
        }
    }

    /// Resolves positions ([`Positions::on`]) on mixed axes. Refuses one number per token for all axes: it would put
    /// all tokens on a diagonal, and no model does so.
    pub(crate) fn on_each(self, axes: usize) -> Result<ResolvedPositions<'a>, Error> {
        let one_per_token = matches!(
            self.0,
            PositionSource::Tokens(..) | PositionSource::Coordinates(_, AxisOrder::OneAxis)
        );
        if axes > 1 && one_per_token {
            let given = self.len();
            return Err(Error::Positions(PositionsError::PerAxis { given, axes }));
        }
        self.on(axes)
    }

    /// Checks the positions against their axes, and makes them indexable.
    ///
    /// Returns [`PositionsError::PerAxis`] if a list for several axes does not divide by their number, and
    /// [`PositionsError::Coordinate`] for a coordinate that is not finite or beyond [`MOST_COORDINATE`].
    pub(crate) fn on(self, axes: usize) -> Result<ResolvedPositions<'a>, Error> {
        let divided = |given: usize, order| match order {
            AxisOrder::OneAxis => Ok(given),
            _ if given.is_multiple_of(axes) => Ok(given / axes),
            _ => Err(Error::Positions(PositionsError::PerAxis { given, axes })),
        };
        let tokens = match self.0 {
            PositionSource::Tokens(tokens, _) => tokens.len(),
            PositionSource::PerAxis(ids, order) => divided(ids.len(), order)?,
            PositionSource::Coordinates(coordinates, order) => {
                let exact = |&index: &usize| coordinates.at(index).abs() <= MOST_COORDINATE;
                if let Some(index) = (0..coordinates.len()).find(|index| !exact(index)) {
                    let value = coordinates.at(index);
                    return Err(Error::Positions(PositionsError::Coordinate {
                        index,
                        value,
                    }));
                }
                divided(coordinates.len(), order)?
            }
        };
        Ok(ResolvedPositions {
            source: self.0,
            tokens,
            axes,
        })
    }
}

impl DualChunk {
    /// Returns the position ids of tokens at these positions, one integer per token: a range, a list, packed sequences
    /// or the tokens of a rank. Makes no list of ids.
    ///
    /// # Errors
    ///
    /// [`PositionsError::DualChunk`] for positions on several axes, for real numbers, and for positions of chunks.
    pub fn positions<'p>(
        self,
        query: DualChunkQuery,
        positions: impl IntoPositions<'p>,
    ) -> Result<Positions<'p>, Error> {
        match positions.into().0 {
            PositionSource::Tokens(tokens, None) => {
                let ids = Some(ChunkIds::new(self, query));
                Ok(Positions(PositionSource::Tokens(tokens, ids)))
            }
            _ => Err(Error::Positions(PositionsError::DualChunk)),
        }
    }
}

/// Positions that match their axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResolvedPositions<'a> {
    source: PositionSource<'a>,
    tokens: usize,
    axes: usize,
}

impl ResolvedPositions<'_> {
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the first position of `count` tokens from `token` on, if they are consecutive on all axes.
    pub(crate) fn consecutive(&self, token: usize, count: usize) -> Option<i64> {
        match self.source {
            PositionSource::Tokens(tokens, ids) => {
                let first = tokens.consecutive(token, count)?;
                ids.map_or(Some(first), |ids| ids.consecutive(first, count))
            }
            PositionSource::PerAxis(..) | PositionSource::Coordinates(..) => None,
        }
    }

    /// Returns true if two existing tokens have the same position on every axis.
    pub(crate) fn is_same(&self, first: usize, second: usize) -> bool {
        (0..self.axes).all(|axis| match (self.at(first, axis), self.at(second, axis)) {
            (AxisPosition::Integer(first), AxisPosition::Integer(second)) => first == second,
            (first, second) => first.value() == second.value(),
        })
    }

    /// Returns the first coordinate, if positions are coordinates.
    pub(crate) fn first_coordinate(&self) -> Option<f64> {
        match self.source {
            PositionSource::Coordinates(coordinates, _) if coordinates.len() > 0 => {
                Some(coordinates.at(0))
            }
            _ => None,
        }
    }

    fn index(&self, order: AxisOrder, token: usize, axis: usize) -> usize {
        match order {
            AxisOrder::OneAxis => token,
            AxisOrder::AxisMajor => axis * self.tokens + token,
            AxisOrder::TokenMajor => token * self.axes + axis,
        }
    }

    /// Returns the position of a token on an axis.
    pub(crate) fn at(&self, token: usize, axis: usize) -> AxisPosition {
        AxisPosition::Integer(match self.source {
            PositionSource::Tokens(tokens, ids) => {
                let position = tokens.at(token);
                ids.map_or(position, |ids| ids.of(position))
            }
            PositionSource::PerAxis(ids, order) => ids.at(self.index(order, token, axis)),
            PositionSource::Coordinates(coordinates, order) => {
                return AxisPosition::Coordinate(coordinates.at(self.index(order, token, axis)));
            }
        })
    }
}

/// Returns the position of a token of packed sequences. Its sequence is the last that starts at or before it.
fn packed(offsets: Ids<'_>, starts: Option<Ids<'_>>, token: usize) -> i64 {
    let sequence = sequence_of(offsets, token as i64);
    let start = starts.map_or(0, |starts| starts.at(sequence));
    start.wrapping_add(token as i64 - offsets.at(sequence))
}
