//! The extents of a tensor.

use core::fmt;
use core::ops::Range;

/// The extents of a tensor, in this order for every order in memory.
///
/// ```
/// use rope_core::Shape;
///
/// let shape = Shape::from([1, 5, 32, 128]);
/// assert_eq!((shape.tokens, shape.heads), (5, 32));
/// assert_eq!(shape.elements(), Some(20_480));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens per sequence.
    pub tokens: usize,
    /// Heads per token.
    pub heads: usize,
    /// Channels per head.
    pub head_dim: usize,
}

impl Shape {
    /// Returns the number of elements, or `None` if it exceeds `usize::MAX`.
    pub fn elements(self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.batch
            .checked_mul(self.tokens)?
            .checked_mul(self.heads)?
            .checked_mul(self.head_dim)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.batch == 0 || self.tokens == 0 || self.heads == 0 || self.head_dim == 0
    }

    /// Returns the ranges of all sequences and all tokens.
    pub(crate) fn whole(self) -> [Range<usize>; 2] {
        [0..self.batch, 0..self.tokens]
    }

    /// Returns the first dimension in which two shapes differ, with its extents in this shape and in the other.
    pub fn difference(self, other: Shape) -> Option<(Dimension, usize, usize)> {
        use Dimension::{Batch, Channels, Heads, Tokens};
        [Batch, Tokens, Heads, Channels]
            .map(|dimension| (dimension, self.extent(dimension), other.extent(dimension)))
            .into_iter()
            .find(|(_, own, other)| own != other)
    }

    /// Returns the extent of a dimension.
    pub(crate) fn extent(mut self, dimension: Dimension) -> usize {
        *self.extent_mut(dimension)
    }

    #[inline]
    pub(crate) fn extent_mut(&mut self, dimension: Dimension) -> &mut usize {
        match dimension {
            Dimension::Batch => &mut self.batch,
            Dimension::Tokens => &mut self.tokens,
            Dimension::Heads => &mut self.heads,
            Dimension::Channels => &mut self.head_dim,
        }
    }
}

/// Creates the shape `[batch, tokens, heads, head_dim]`.
impl From<[usize; 4]> for Shape {
    fn from([batch, tokens, heads, head_dim]: [usize; 4]) -> Self {
        Shape {
            batch,
            tokens,
            heads,
            head_dim,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}, {}, {}, {}]",
            self.batch, self.tokens, self.heads, self.head_dim
        )
    }
}

/// A dimension of a tensor.
///
/// ```
/// use rope_core::{Dimension, Tensor};
///
/// // K of a packed row: heads 8 to 9 of 8 heads of Q, 2 of K and 2 of V.
/// let packed = [0.0_f32; 3 * 12 * 64];
/// let packed = Tensor::new(&packed, [1, 3, 12, 64])?;
/// let k = packed.narrow(Dimension::Heads, 8..10)?;
/// assert_eq!(k.shape().heads, 2);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Sequences.
    Batch,
    /// Tokens per sequence.
    Tokens,
    /// Heads per token.
    Heads,
    /// Channels per head.
    Channels,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dimension::Batch => "batch",
            Dimension::Tokens => "tokens",
            Dimension::Heads => "heads",
            Dimension::Channels => "channels",
        })
    }
}
