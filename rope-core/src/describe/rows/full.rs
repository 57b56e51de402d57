//! Full-width rows: one cos and one sin per channel.

use super::{FullWidth, RowSharing, Rows, View, check};
use crate::base::limits::MOST_CHANNELS;
use crate::error::{FrequenciesError, RowsError};
use crate::{Error, Shape};

/// Full-width rows: one cos and one sin per channel. For the channels `i` and `j` of a pair
///
/// ```text
/// x' = x cos[i] - y sin[i]        y' = y cos[j] + x sin[j]
/// ```
///
/// with the roundings of any other rotation. If both channels have the same cos and sin, the bits are those of
/// [`Rows`]. HunYuan-VL and V-JEPA 2 rotate in this way, as do kernels that index cos and sin by channel. Channel
/// indices refer to the tensor before the rotation.
///
/// In general this is not a rotation. [`Direction::Transpose`](crate::Direction::Transpose) computes gradients, but
/// [`Direction::Inverse`](crate::Direction::Inverse) and rotations in a cache are refused. f32 tensors rotate in place;
/// everything else runs over a tile of f32.
///
/// ```
/// use rope_core::{FullRows, Pairing, Rope, Rows, TensorMut};
/// // `[rows, rotary_dim]`: the second channel turns by another angle than the first.
/// let (cos, sin) = ([0.0, 1.0], [1.0, 0.0]);
/// let rows = FullRows::new(Rows::strided(&cos, &sin, [1, 1, 1, 2])?)?;
/// let mut x = [2.0_f32, 3.0];
/// Rope::new(Pairing::Half).rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &rows)?;
/// assert_eq!(x, [-3.0, 3.0]);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("full_width", "into_full_width", "per_channel"))]
#[derive(Clone, Debug)]
pub struct FullRows<'a>(Rows<'a>);

/// The rows of a model that is known at run time: [`Rows`], or [`FullRows`] for a few models.
///
/// ```
/// use rope_core::{AnyRows, FullRows, Rows};
/// let values = Rows::new(&[1.0, 0.8, 0.0, 0.6], [1, 4])?;
/// let pairs = AnyRows::from(values.clone());
/// let channels = AnyRows::Channels(FullRows::new(values)?);
/// assert_eq!((pairs.rotary_dim(), channels.rotary_dim()), (4, 2));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum AnyRows<'a> {
    /// One angle per pair.
    Pairs(Rows<'a>),
    /// One angle per channel.
    Channels(FullRows<'a>),
}

impl<'a> FullRows<'a> {
    /// Converts rows of `n` pairs to full-width rows that rotate `n` channels: each value of a row belongs to a
    /// channel, not to a pair. [`Rows::strided`] reads rows of any layout, and
    /// [`Frequencies::arranged`](crate::Frequencies::arranged) assigns a frequency and an axis to each channel.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`] if the number of pairs is odd; [`FrequenciesError::RotaryDimOnStack`] for more than
    /// 2048 channels.
    pub fn new(rows: Rows<'a>) -> Result<Self, Error> {
        let (rotary_dim, limit) = (rows.pairs, MOST_CHANNELS);
        super::pairs(rotary_dim)?;
        if rotary_dim > limit {
            return Err(Error::Frequencies(FrequenciesError::RotaryDimOnStack {
                rotary_dim,
                limit,
            }));
        }
        Ok(FullRows(rows))
    }

    /// Returns the rows, whose values are those of channels.
    pub fn rows(&self) -> &Rows<'a> {
        &self.0
    }

    /// Returns the number of channels that a row rotates.
    pub(crate) fn rotary_dim(&self) -> usize {
        self.0.pairs
    }

    /// Checks the rows against a tensor; returns how sequences share them.
    pub(crate) fn fit(&self, shape: Shape) -> Result<RowSharing, Error> {
        let sharing = check(shape, self.rotary_dim(), self.0.len())?;
        self.0.check_places(shape, sharing)?;
        Ok(sharing)
    }

    /// Returns the rows as the kernel reads them, with the code that does.
    pub(crate) fn view(&self, sharing: RowSharing, full: &'static FullWidth) -> View<'_> {
        View {
            pairs: self.rotary_dim() / 2,
            full: Some(full),
            ..self.0.view(sharing)
        }
    }
}

impl<'a> AnyRows<'a> {
    /// Returns the number of channels that a row rotates.
    pub fn rotary_dim(&self) -> usize {
        match self {
            AnyRows::Pairs(rows) => rows.rotary_dim(),
            AnyRows::Channels(rows) => rows.rotary_dim(),
        }
    }

    /// Checks the rows against tensors of that shape: [`Rows::check_shape`].
    ///
    /// # Errors
    ///
    /// The errors of [`Rows::check_shape`].
    pub fn check_shape(&self, shape: impl Into<Shape>) -> Result<(), Error> {
        match self {
            AnyRows::Pairs(rows) => rows.check_shape(shape),
            AnyRows::Channels(rows) => rows.fit(shape.into()).map(drop),
        }
    }

    /// Returns the rows, whose values are those of pairs or of channels.
    pub fn rows(&self) -> &Rows<'a> {
        match self {
            AnyRows::Pairs(rows) => rows,
            AnyRows::Channels(rows) => rows.rows(),
        }
    }
}

impl<'a> From<Rows<'a>> for AnyRows<'a> {
    fn from(rows: Rows<'a>) -> Self {
        AnyRows::Pairs(rows)
    }
}

/// Refuses full-width rows.
#[cold]
pub(crate) fn no_rotation(operation: &'static str) -> Error {
    Error::Rows(RowsError::FullWidth { operation })
}
