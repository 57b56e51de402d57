//! The channels of a head that rotate, and the parts of them that are paired by themselves.

use core::ops::Range;

use crate::describe::tensor::Layout;
use crate::error::{PlanError, RowsError};
use crate::{Dimension, Error, Shape};

/// The window of a plan. The width of the rows determines its last channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first rotated channel.
    pub(crate) first: usize,
    /// The number of equal parts. Each is paired by itself, as a head of its own.
    pub(crate) parts: usize,
    /// The only size of heads that rotate; 0 if heads may have any.
    pub(crate) head_dim: usize,
}

/// A part of a window.
pub(crate) struct WindowPart {
    /// Its channels. The last part has the channels after the window, too.
    pub(crate) channels: Range<usize>,
    /// Its pairs, of those in a row.
    pub(crate) pairs: Range<usize>,
}

impl Window {
    /// One part, from the first channel on, of heads of any size.
    pub(crate) const WHOLE: Self = Window {
        first: 0,
        parts: 1,
        head_dim: 0,
    };

    /// Returns true for one part, from the first channel on.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        (self.first, self.parts) == (0, 1)
    }

    /// Returns true if heads of this size may rotate.
    #[inline]
    pub(crate) fn fits(self, head_dim: usize) -> bool {
        self.head_dim == head_dim || self.head_dim == 0
    }

    /// Refuses heads of another size than the plan's.
    #[inline]
    pub(crate) fn check_head(self, given: usize) -> Result<(), Error> {
        let Window {
            first, head_dim, ..
        } = self;
        match self.fits(given) {
            true => Ok(()),
            false => Err(Error::Plan(PlanError::HeadDim {
                given,
                head_dim,
                first,
            })),
        }
    }

    /// Returns the window in heads that begin with it.
    pub(crate) fn at_first(self) -> Self {
        Window {
            first: 0,
            head_dim: 0,
            ..self
        }
    }

    /// Iterates over the parts in heads of `head_dim` channels, for rows of this number of pairs.
    #[inline]
    pub(crate) fn parts(self, head_dim: usize, pairs: usize) -> impl Iterator<Item = WindowPart> {
        let first = self.first;
        // Rows without pairs divide into any number of parts.
        let parts = self.parts.min(pairs.max(1));
        let each = pairs / parts.max(1);
        (1..=parts).map(move |part| {
            let pairs = (part - 1) * each..part * each;
            let end = match part == parts {
                true => head_dim,
                false => first + 2 * pairs.end,
            };
            let channels = first + 2 * pairs.start..end;
            WindowPart { channels, pairs }
        })
    }

    /// Iterates over the parts, and then over the channels before them, which have no pairs.
    #[inline]
    pub(crate) fn all_channels(
        self,
        head_dim: usize,
        pairs: usize,
    ) -> impl Iterator<Item = WindowPart> {
        let before = WindowPart {
            channels: 0..self.first,
            pairs: 0..0,
        };
        self.parts(head_dim, pairs).chain([before])
    }

    /// Returns the layout of heads from the window on, for rows of this width.
    #[inline(never)]
    pub(crate) fn layout(self, layout: &Layout, rotary_dim: usize) -> Result<Layout, Error> {
        self.shape(layout.shape(), rotary_dim)?;
        Ok(self.narrow(layout))
    }

    /// Returns the layout of heads from the window on, which they have.
    pub(crate) fn narrow(self, layout: &Layout) -> Layout {
        match self.first {
            0 => *layout,
            first => layout.part(Dimension::Channels, first..layout.shape().head_dim),
        }
    }

    /// Returns the shape of heads from the window on, for rows of this width, whose pairs the parts must divide.
    #[inline]
    pub(crate) fn shape(self, shape: Shape, rotary_dim: usize) -> Result<Shape, Error> {
        let Window { first, parts, .. } = self;
        let head_dim = shape.head_dim;
        self.check_head(head_dim)?;
        // From the first channel on, the rows are checked with the tokens.
        if first > 0
            && head_dim
                .checked_sub(first)
                .is_none_or(|room| rotary_dim > room)
        {
            return Err(Error::Rows(RowsError::Window {
                first_channel: first,
                rotary_dim,
                head_dim,
            }));
        }
        if parts != 1 && (parts == 0 || !(rotary_dim / 2).is_multiple_of(parts)) {
            return Err(Error::Rows(RowsError::Parts { parts, rotary_dim }));
        }
        Ok(Shape {
            head_dim: head_dim - first,
            ..shape
        })
    }
}
