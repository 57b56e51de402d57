//! The sums of a backward pass.

use crate::base::debug::debug;
use crate::describe::rows::check;
use crate::error::{GradientError, RowsError};
use crate::kernel::gradient::GradientLine;
use crate::proof::Proof;
use crate::{Error, Rows, Shape};

/// Gradients of pairs, `[rows, heads or 1, pairs]`: the sums of a backward pass, in the caller's `f64` storage.
///
/// There is one row per token, shared by all sequences, or one per token of each sequence; and one head for all, or
/// each has its own. Calls add to the values in place: start with zeros, or with the sums of other layers.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::gradient::PairGradients;
/// use rope_core::{Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
///
/// let (tokens, heads, head_dim) = (3, 2, 4);
/// let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(0..tokens)?;
/// let rope = Rope::new(Pairing::Half);
///
/// let shape = [1, tokens, heads, head_dim];
/// let mut q: Vec<f32> = (0..24).map(|i| (i as f32).sin()).collect();
/// rope.rotate(&mut TensorMut::new(&mut q, shape)?, &rows)?;
///
/// // .. the gradient of the rotated tensor arrives, and becomes the gradient of the tensor before:
/// let mut dq: Vec<f32> = (0..24).map(|i| (i as f32).cos()).collect();
/// let mut sums = vec![0.0; tokens * head_dim / 2];
/// let mut angles = PairGradients::new(&mut sums, [tokens, 1, head_dim / 2])?;
/// rope.backward(&Tensor::new(&q, shape)?, &mut TensorMut::new(&mut dq, shape)?, &rows, &mut angles)?;
///
/// let mut inverse_frequencies = vec![0.0; head_dim / 2];
/// angles.frequencies(0..tokens, 1, &mut inverse_frequencies)?;
/// assert!(inverse_frequencies.iter().all(|gradient| *gradient != 0.0));
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
pub struct PairGradients<'a> {
    pub(super) sums: &'a mut [f64],
    pub(super) rows: usize,
    pub(super) heads: usize,
    pub(super) pairs: usize,
}

impl<'a> PairGradients<'a> {
    /// Views sums of shape `[rows, heads or 1, pairs]`, in this order in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] unless there is exactly one sum per row, head and pair; also if one extent is zero and the
    /// product of the others exceeds `usize`.
    pub fn new(
        sums: &'a mut [f64],
        [rows, heads, pairs]: [usize; 3],
    ) -> Result<PairGradients<'a>, Error> {
        // Later code counts channels, and multiplies the extents in other orders.
        let channels = rows.max(1).saturating_mul(heads.max(1));
        let channels = channels.saturating_mul(pairs.max(1)).checked_mul(2);
        let needed = channels.map_or(usize::MAX, |_| rows * heads * pairs);
        if sums.len() != needed {
            return Err(Error::Storage {
                what: "sums",
                given: sums.len(),
                needed,
            });
        }
        Ok(PairGradients {
            sums,
            rows,
            heads,
            pairs,
        })
    }

    /// Returns `[rows, heads, pairs]`.
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.rows, self.heads, self.pairs]
    }

    /// Returns all sums.
    pub(crate) fn sums(&self) -> &[f64] {
        self.sums
    }

    /// Splits the sums into the rows before `row` and the rest, for threads with separate tokens. Heads cannot be
    /// split.
    ///
    /// # Errors
    ///
    /// [`RowsError::Range`] if `row` is beyond the rows.
    pub fn split_at(mut self, row: usize) -> Result<(PairGradients<'a>, PairGradients<'a>), Error> {
        let rows = self.rows;
        if row > rows {
            return Err(Error::Rows(RowsError::Range {
                start: row,
                end: rows,
                rows,
            }));
        }
        let first = self.take_rows(row);
        Ok((first, self))
    }

    /// The same sums, borrowed for as long as needed.
    pub(crate) fn reborrow(&mut self) -> PairGradients<'_> {
        PairGradients {
            sums: self.sums,
            ..*self
        }
    }

    /// The sums of some of the rows.
    pub(crate) fn take_rows(&mut self, count: usize) -> PairGradients<'a> {
        let len = count * self.heads * self.pairs;
        let (taken, rest) = core::mem::take(&mut self.sums).split_at_mut(len);
        self.sums = rest;
        self.rows -= count;
        PairGradients {
            sums: taken,
            rows: count,
            ..*self
        }
    }

    /// Checks the sums against two tensors; returns the rows from the first of one sequence to the first of the next.
    pub(crate) fn check(&self, shapes: [Shape; 2]) -> Result<usize, Error> {
        self.check_rotary_dim(shapes, 2 * self.pairs)
    }

    /// Checks sums of channels against two tensors, as [`PairGradients::check`].
    pub(super) fn check_channels(&self, shapes: [Shape; 2]) -> Result<usize, Error> {
        let rotary_dim = self.pairs;
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
            return Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim,
                required: "even and at least 2",
            }));
        }
        self.check_rotary_dim(shapes, rotary_dim)
    }

    /// Checks the shape of the sums; the error names the last extent `last`.
    pub(super) fn check_shape(&self, shape: [usize; 3], last: &'static str) -> Result<(), Error> {
        let extents = self.shape().into_iter().zip(shape);
        for (what, (given, needed)) in ["rows", "heads", last].into_iter().zip(extents) {
            if given != needed {
                return Err(Error::Gradient(GradientError::Shape {
                    what,
                    given,
                    needed,
                }));
            }
        }
        Ok(())
    }

    fn check_rotary_dim(
        &self,
        [source, target]: [Shape; 2],
        rotary_dim: usize,
    ) -> Result<usize, Error> {
        source.check_same(target)?;
        let shape = target;
        let sharing = check(shape, rotary_dim, self.rows)?;
        if self.heads != 1 && self.heads != shape.heads {
            return Err(Error::Gradient(GradientError::Heads {
                gradients: self.heads,
                heads: shape.heads,
            }));
        }
        Ok(sharing.sequence_stride())
    }

    /// Checks that rows have as many pairs.
    pub(crate) fn check_pairs(&self, rows: &Rows<'_>) -> Result<(), Error> {
        self.check_shape([self.rows, self.heads, rows.rotary_dim() / 2], "pairs")
    }
}

debug!(PairGradients<'_>, |sums| shape: sums.shape());

/// Adds a term of a line.
pub(crate) type SumFn = fn(Proof, &mut GradientLine<'_>);
