//! Detects overlap between two interleaved tensors in one buffer.

use crate::operand::rope_layout;

/// Returns `true` if two non-empty tensors of one element type are parts of one packed, tokens-major row. The second
/// begins `ahead` bytes after the first, which may be negative. [`Nest::sharing`] decides this and other layouts, in
/// 350 to 500 instructions.
#[inline]
pub(crate) fn of_one_row(
    first: &rope_layout,
    second: &rope_layout,
    element: usize,
    ahead: isize,
) -> bool {
    let ([batch, tokens, ..], [batch_stride, token_stride, _]) = (first.shape, first.strides);
    let same = (batch ^ second.shape[0])
        | (tokens ^ second.shape[1])
        | (batch_stride ^ second.strides[0])
        | (token_stride ^ second.strides[1]);
    // Rows at equal distances over all sequences. (The stride of a single row may be any number.)
    let even = batch == 1 || batch_stride == tokens.wrapping_mul(token_stride);
    if same != 0 || tokens == 1 || !even {
        return false;
    }
    // The span of a tensor exceeds a stride and a width, so nothing overflows.
    let stride = token_stride * element;
    let width = |x: &rope_layout| ((x.shape[2] - 1) * x.strides[2] + x.shape[3]) * element;
    // The offset of the second in a row, if it is at most a row away.
    let at = (ahead as usize).wrapping_add(if ahead < 0 { stride } else { 0 });
    at < stride && width(first) <= at && at + width(second) <= stride
}

/// The relation of two tensors, the worse the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sharing {
    /// No byte is of both.
    Apart,
    /// Their strides are no multiples of one another: only a comparison of every head would decide.
    Unknown,
    /// A byte is of both.
    Shared,
}

/// A dimension with more than one index, in bytes; zeros in place of one that has no more.
#[derive(Clone, Copy, Default)]
struct Dimension {
    stride: isize,
    /// The stride times the last index.
    reach: isize,
}

/// A tensor that is not empty, with nested dimensions. Every tensor that may be written is one.
#[derive(Clone, Copy)]
pub(crate) struct Nest {
    /// Sequences, tokens and heads, the longest stride first.
    dimensions: [Dimension; 3],
    /// From the first byte to the last.
    bytes: isize,
}

impl Nest {
    /// Creates it from a layout whose span fits its memory, so nothing overflows here or below.
    #[inline]
    pub(crate) fn new(layout: &rope_layout, element: usize, bytes: usize) -> Self {
        let [batch, tokens, heads, _] = layout.shape;
        let dimension = |extent: usize, stride: usize| match extent {
            // The stride of one index may be any number.
            0 | 1 => Dimension::default(),
            _ => Dimension {
                stride: (stride * element) as isize,
                reach: ((extent - 1) * stride * element) as isize,
            },
        };
        let [batch_stride, token_stride, head_stride] = layout.strides;
        let mut dimensions = [
            dimension(batch, batch_stride),
            dimension(tokens, token_stride),
            dimension(heads, head_stride),
        ];
        for (i, j) in [(0, 1), (1, 2), (0, 1)] {
            if dimensions[i].stride < dimensions[j].stride {
                dimensions.swap(i, j);
            }
        }
        let bytes = bytes as isize;
        Nest { dimensions, bytes }
    }

    /// Returns one index of the longest dimension, and the distance from the first index to the last; the whole tensor
    /// if that dimension has another stride.
    #[inline]
    fn inside(self, stride: isize) -> (Nest, isize) {
        let [first, second, third] = self.dimensions;
        if first.stride != stride {
            return (self, 0);
        }
        let inside = Nest {
            dimensions: [second, third, Dimension::default()],
            bytes: self.bytes - first.reach,
        };
        (inside, first.reach)
    }

    /// The relation to another tensor that begins `ahead` bytes after it, or before it.
    ///
    /// The answer is `Unknown` only if the longest stride of one is shorter than the other's, but not its span.
    pub(crate) fn sharing(self, other: Nest, ahead: isize) -> Sharing {
        if ahead >= self.bytes || -ahead >= other.bytes {
            return Sharing::Apart;
        }
        let stride = self.dimensions[0].stride.max(other.dimensions[0].stride);
        if stride == 0 {
            return Sharing::Shared;
        }
        let (own, own_reach) = self.inside(stride);
        let (theirs, their_reach) = other.inside(stride);
        if own.bytes.max(theirs.bytes) > stride {
            return Sharing::Unknown;
        }
        // Index i of this one and j of the other, u and v bytes into them, are the same byte where
        // i * stride + u = ahead + j * stride + v. As u and v are less than a stride, i - j is one of two numbers.
        // In nearly all packed rows `ahead` is less than a stride, and a division takes as long as all else.
        let rest = match ahead {
            _ if (0..stride).contains(&ahead) => ahead,
            _ if (-stride..0).contains(&ahead) => ahead + stride,
            _ => ahead.rem_euclid(stride),
        };
        let at = |rest: isize| {
            // (i - j) * stride, which is as much as the last index of either allows.
            if (-their_reach..=own_reach).contains(&(ahead - rest)) {
                own.sharing(theirs, rest)
            } else {
                Sharing::Apart
            }
        };
        at(rest).max(at(rest - stride))
    }
}
