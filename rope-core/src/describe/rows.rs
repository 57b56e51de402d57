//! Rows: the cos and sin of each token. A table of all positions, the rows of one forward step and rows made on the
//! fly are one type, and the kernel reads nothing else.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::base::limits::MOST_CHANNELS;
use crate::describe::tensor::IntoLayout;
use crate::{Error, Ids, Shape};

pub(crate) mod fit;
mod inverse;
mod view;

pub(crate) use view::{FullHeads, FullWidth, Rotation, RowSharing, View};

/// The cos and sin of each token, `rotary_dim / 2` of each, as f32 and already multiplied by the attention factor.
///
/// A rotation takes as many rows as a sequence has tokens (all sequences share them), or as many as there are
/// tokens in the batch (`batch * tokens`, the sequence by sequence).
///
/// The heads of a token share its row, unless each has a row of its own ([`Rows::with_heads`], [`Rows::strided`]). Then
/// the rows of all heads of a token count as one row, and a rotation takes them only for tensors with this number of
/// heads.
///
/// ```
/// use rope_core::Rows;
/// let table = [1.0, 1.0, 0.0, 0.0, /* */ 0.5, 0.25, 0.8, 0.9];   // two rows of [cos cos | sin sin]
/// let table = Rows::new(&table, [2, 4])?;
/// let step = table.gather(&[1_u32, 1, 0])?;
/// assert_eq!(step.row(0), Some((&[0.5, 0.25][..], &[0.8, 0.9][..])));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Rows<'a> {
    values: RowValues<'a>,
    pairs: usize,
    /// What rotates by full-width rows, if these are: values of a row are then those of its channels.
    full: Option<&'static FullWidth>,
    /// Values from a row to that of the next token.
    stride: usize,
    /// Heads that have a row each; 1 where all share one.
    heads: usize,
    /// Values from the row of a head to that of the next.
    head_stride: usize,
    /// Where not all rows are at equal distances.
    sequences: Option<SequenceStride>,
    ids: Option<Ids<'a>>,
    /// The first of the ids in use; rows are used from their first value on.
    first_id: usize,
    /// The rows or ids in use.
    len: usize,
    attention_factor: f64,
    /// Whether every pair is known to have the attention factor as its magnitude.
    uniform: bool,
    /// Whether they move keys, by a factor that the keys do not have yet ([`Frequencies::shift_from`]).
    ///
    /// [`Frequencies::shift_from`]: crate::Frequencies::shift_from
    moves: bool,
}

#[derive(Clone)]
enum RowValues<'a> {
    /// `[cos | sin]` per row.
    Joined(&'a [f32]),
    #[cfg(feature = "alloc")]
    Owned(Vec<f32>),
    Apart(&'a [f32], &'a [f32]),
}

/// Rows of several sequences of several tokens each, where a sequence does not begin one row after the previous one.
#[derive(Clone, Copy)]
struct SequenceStride {
    count: usize,
    tokens: usize,
    /// Values from one to the next.
    stride: usize,
}

impl<'a> Rows<'a> {
    /// A tensor of the shape `[rows, rotary_dim]`, in each row `rotary_dim / 2` cos, then as many sin (vLLM's cache).
    ///
    /// PyTorch's `cat((freqs, freqs), -1).cos()` has the same shape and no sin: it goes to [`Rows::from_cos_sin`], with
    /// its sin. To tell, this looks at the last row, and refuses it if both halves are the same. Rows of one pair, and
    /// a last row whose values have one magnitude and are not all 1 (zeros, which are padding, or every pair turned by
    /// 45 degrees), are accepted.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if `rotary_dim` is zero or odd, [`Error::RowsShape`] unless the slice has
    /// `rows * rotary_dim` values, [`Error::HalvesEqual`] if the last row has the same values in both halves.
    pub fn new(values: &'a [f32], [rows, rotary_dim]: [usize; 2]) -> Result<Self, Error> {
        check_joined(values, [rows, rotary_dim])?;
        Ok(Rows::computed(values, rotary_dim))
    }

    /// As [`Rows::new`], owning its memory.
    ///
    /// # Errors
    ///
    /// Those of [`Rows::new`].
    #[cfg(feature = "alloc")]
    pub fn from_vec(
        values: Vec<f32>,
        [rows, rotary_dim]: [usize; 2],
    ) -> Result<Rows<'static>, Error> {
        check_joined(&values, [rows, rotary_dim])?;
        Ok(Rows::computed_vec(values, rotary_dim))
    }

    /// The rows that this crate has computed, a whole number of them, by angles that may be any.
    #[inline]
    pub(crate) fn computed(values: &'a [f32], rotary_dim: usize) -> Self {
        let rows = values.len().checked_div(rotary_dim).unwrap_or(0);
        Rows::all(RowValues::Joined(values), rotary_dim / 2, rotary_dim, rows)
    }

    /// As [`Rows::computed`], owning its memory.
    #[cfg(feature = "alloc")]
    pub(crate) fn computed_vec(values: Vec<f32>, rotary_dim: usize) -> Rows<'static> {
        let rows = values.len().checked_div(rotary_dim).unwrap_or(0);
        Rows::all(RowValues::Owned(values), rotary_dim / 2, rotary_dim, rows)
    }

    /// cos and sin in slices of their own, as tensors of the shape `[rows, width]`: `width` is `rotary_dim / 2` where
    /// each value is kept once (ONNX), and `rotary_dim` where it is kept twice, the second half of a row like the first
    /// (PyTorch's `cat((freqs, freqs), -1)`; the first half is read).
    ///
    /// A value that is kept twice in a row (`repeat_interleave(2)`) is neither: take every second one. To tell, this
    /// looks at the last row of those that keep their values twice.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if `rotary_dim` is zero or odd, [`Error::RowWidth`] for another width,
    /// [`Error::CosSinLength`] if the slices differ in length, [`Error::RowsShape`] unless they have `rows * width`
    /// values, [`Error::HalvesDiffer`] if the last row should keep its values twice and does not.
    pub fn from_cos_sin(
        cos: &'a [f32],
        sin: &'a [f32],
        [rows, width]: [usize; 2],
        rotary_dim: usize,
    ) -> Result<Self, Error> {
        let pairs = pairs(rotary_dim)?;
        if width != pairs && width != rotary_dim {
            return Err(Error::RowWidth { width, rotary_dim });
        }
        let len = cos.len();
        if len != sin.len() {
            return Err(Error::CosSinLength {
                cos: len,
                sin: sin.len(),
            });
        }
        check_shape(len, [rows, width])?;
        for values in [cos, sin] {
            let last = &values[len - width.min(len)..];
            let (first, second) = last.split_at(pairs.min(last.len()));
            let bits = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
            if let Some(pair) = first.iter().zip(second).position(bits) {
                let row = rows - 1;
                return Err(Error::HalvesDiffer { row, pair });
            }
        }
        Ok(Rows::all(RowValues::Apart(cos, sin), pairs, width, rows))
    }

    /// cos and sin as they lie in memory, of the shape `[batch, tokens, heads, rotary_dim / 2]` with any strides: a row
    /// for each head of each token of each sequence. Dimensions that share their rows have an extent of 1 or a stride
    /// of 0: then there is one head, or one sequence. A shape is the whole of each slice; a [`Layout`](crate::Layout)
    /// may cover a part.
    ///
    /// ```
    /// use rope_core::{Layout, Rows};
    /// let (heads, tokens, pairs) = (3, 5, 4);
    /// let (cos, sin) = ([1.0; 3 * 5 * 4], [0.0; 3 * 5 * 4]);
    /// // `[heads, tokens, pairs]`, which all sequences share: timm
    /// let rows = Rows::strided(&cos, &sin, Layout::bhsd([1, heads, tokens, pairs])?)?;
    /// assert_eq!((rows.len(), rows.heads(), rows.rotary_dim()), (5, 3, 8));
    /// // `[tokens, heads, pairs]`: Mochi
    /// let rows = Rows::strided(&cos, &sin, [1, tokens, heads, pairs])?;
    /// assert_eq!((rows.len(), rows.heads(), rows.rotary_dim()), (5, 3, 8));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if a row has no pairs, [`Error::RowsPerHead`] if there are no heads,
    /// [`Error::ShapeOverflow`] if an index, or the number of rows, would not fit `usize`, [`Error::OutOfBounds`] if
    /// a layout reaches past either slice, [`Error::ShapeElements`] if a shape has more or fewer elements than either.
    pub fn strided(cos: &'a [f32], sin: &'a [f32], layout: impl IntoLayout) -> Result<Self, Error> {
        layout.into_layout(sin.len())?;
        let layout = layout.into_layout(cos.len())?;
        let (shape, strides) = (layout.shape(), layout.strides());
        let overflow = Error::ShapeOverflow { shape };
        let Shape {
            tokens,
            head_dim: pairs,
            ..
        } = shape;
        self::pairs(pairs.checked_mul(2).ok_or(overflow)?)?;
        // What is shared has one index.
        let batch = if strides.batch == 0 {
            shape.batch.min(1)
        } else {
            shape.batch
        };
        let shared = shape.heads == 1 || shape.heads > 1 && strides.head == 0;
        let (heads, head_stride) = if shared {
            (1, 0)
        } else {
            (shape.heads, strides.head)
        };
        if heads == 0 {
            let rows = shape.batch.saturating_mul(tokens);
            return Err(Error::RowsPerHead { rows, heads });
        }
        let rows = batch.checked_mul(tokens).ok_or(overflow)?;
        // Where there are no rows, the first would begin anywhere.
        let [cos, sin] = [cos, sin].map(|values| values.get(layout.offset()..).unwrap_or_default());
        // A single token of each sequence, or sequences one after another, are rows at equal distances.
        let stride = if tokens == 1 {
            strides.batch
        } else {
            strides.token
        };
        let behind = strides.token.checked_mul(tokens) == Some(strides.batch);
        let sequences = SequenceStride {
            count: batch,
            tokens,
            stride: strides.batch,
        };
        Ok(Rows {
            heads,
            head_stride,
            sequences: (batch > 1 && tokens > 1 && !behind).then_some(sequences),
            ..Rows::all(RowValues::Apart(cos, sin), pairs, stride, rows)
        })
    }

    /// Full-width rows of cos and sin, `[rows, rotary_dim]` each.
    pub(crate) fn wide(
        (cos, sin): (&'a [f32], &'a [f32]),
        [rows, rotary_dim]: [usize; 2],
        full: &'static FullWidth,
    ) -> Result<Self, Error> {
        let len = cos.len();
        if len != sin.len() {
            return Err(Error::CosSinLength {
                cos: len,
                sin: sin.len(),
            });
        }
        check_shape(len, [rows, rotary_dim])?;
        let apart = RowValues::Apart(cos, sin);
        Rows::all(apart, rotary_dim, rotary_dim, rows).widened(full)
    }

    /// The same rows, each of whose values is that of a channel.
    pub(crate) fn widened(self, full: &'static FullWidth) -> Result<Self, Error> {
        self.check_rotates("Rows::per_channel")?;
        let (rotary_dim, limit) = (self.pairs, MOST_CHANNELS);
        let pairs = pairs(rotary_dim)?;
        if rotary_dim > limit {
            return Err(Error::RotaryDimOnStack { rotary_dim, limit });
        }
        Ok(Rows {
            pairs,
            full: Some(full),
            ..self
        })
    }

    fn all<'b>(values: RowValues<'b>, pairs: usize, stride: usize, rows: usize) -> Rows<'b> {
        Rows {
            values,
            pairs,
            full: None,
            stride,
            heads: 1,
            head_stride: 0,
            sequences: None,
            ids: None,
            first_id: 0,
            len: rows,
            attention_factor: 1.0,
            uniform: false,
            moves: false,
        }
    }

    /// Takes the rows as rows per head: `heads` of them that follow one another belong to the heads of one
    /// token, `[tokens, heads, rotary_dim]`. From then on a token's count as one row.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let table = [1.0, 0.0, /* */ 0.8, 0.6, /* */ 0.0, 1.0, /* */ 0.6, 0.8];   // two tokens of two heads
    /// let rows = Rows::new(&table, [4, 2])?.with_heads(2)?;
    /// assert_eq!((rows.len(), rows.heads()), (2, 2));
    /// assert_eq!(rows.row_of(1, 0), Some((&[0.0][..], &[1.0][..])));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::RowsPerHead`] if `heads` is zero, or the rows are not a whole number of tokens; of rows that are no
    /// longer one after the other, [`Error::AlreadyGathered`] if they were gathered by id, [`Error::RowSequences`] and
    /// [`Error::RowHeads`] if they lie as sequences or each head has its own already.
    pub fn with_heads(self, heads: usize) -> Result<Self, Error> {
        if self.ids.is_some() {
            return Err(Error::AlreadyGathered);
        }
        self.at_equal_distances()?;
        let rows = self.len();
        if self.heads > 1 {
            return Err(Error::RowHeads {
                rows: self.heads,
                heads,
            });
        }
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(Error::RowsPerHead { rows, heads });
        }
        Ok(self.of_heads(heads))
    }

    /// The same of rows at equal distances, a whole number of tokens.
    pub(crate) fn of_heads(self, heads: usize) -> Self {
        Rows {
            // More than there are values is the stride of no token but the first.
            stride: self.stride.saturating_mul(heads),
            heads,
            head_stride: if heads == 1 { 0 } else { self.stride },
            len: self.len / heads,
            ..self
        }
    }

    /// Says by which factor the cos and sin are scaled (YaRN, LongRoPE), for [`Direction::Inverse`] to divide by its
    /// square, and for a rotation of keys that stay in a cache to refuse the rows unless it is 1. The values themselves
    /// stay as they are. Rows that a caller gives have the factor 1 until this says another.
    ///
    /// # Errors
    ///
    /// [`Error::AttentionFactor`] if it is zero, infinite or not a number.
    ///
    /// [`Direction::Inverse`]: crate::Direction::Inverse
    pub fn with_attention_factor(mut self, factor: f64) -> Result<Self, Error> {
        if !factor.is_finite() || factor == 0.0 {
            return Err(Error::AttentionFactor { factor });
        }
        self.attention_factor = factor;
        self.uniform = false;
        self.moves = false;
        Ok(self)
    }

    /// As [`Rows::with_attention_factor`], of rows whose every pair was made with that magnitude.
    pub(crate) fn of_magnitude(self, factor: f64) -> Result<Self, Error> {
        let rows = self.with_attention_factor(factor)?;
        Ok(Rows {
            uniform: true,
            ..rows
        })
    }

    /// Takes them as rows that move keys, whatever their attention factor.
    pub(crate) fn moving(self) -> Self {
        Rows {
            moves: true,
            ..self
        }
    }

    /// The same rows, if they are not gathered, over other values.
    #[inline]
    pub(crate) fn over<'b>(&self, cos: &'b [f32], sin: Option<&'b [f32]>) -> Rows<'b> {
        Rows {
            values: match sin {
                Some(sin) => RowValues::Apart(cos, sin),
                None => RowValues::Joined(cos),
            },
            ids: None,
            ..*self
        }
    }

    /// Refuses rows that would apply the attention factor to keys that have it already.
    #[inline]
    pub(crate) fn check_moves(&self) -> Result<(), Error> {
        self.check_rotates("a rotation in a cache")?;
        let factor = self.attention_factor;
        if factor != 1.0 && !self.moves {
            return Err(Error::ShiftFactor { factor });
        }
        Ok(())
    }

    /// The rows with these position ids, in their order, taking these rows as the table of positions `0..len`. Where
    /// each head has its own rows, an id stands for the rows of all heads of a token. Nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::PositionOutsideTable`] if an id has no row, [`Error::AlreadyGathered`] if these rows were gathered by
    /// id, [`Error::RowSequences`] if they lie as sequences that are no table.
    pub fn gather<'b>(&'b self, ids: impl Into<Ids<'b>>) -> Result<Rows<'b>, Error> {
        if self.ids.is_some() {
            return Err(Error::AlreadyGathered);
        }
        self.at_equal_distances()?;
        let ids = ids.into();
        let rows = self.len();
        // Once here, so that the kernel need not look again.
        for index in 0..ids.len() {
            let id = ids.at(index);
            if usize::try_from(id).is_ok_and(|id| id < rows) {
                continue;
            }
            return Err(Error::PositionOutsideTable { index, id, rows });
        }
        let (cos, sin) = self.slices();
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            len: ids.len(),
            ids: Some(ids),
            ..*self
        })
    }

    /// The rows `range`: a few tokens, or one sequence.
    ///
    /// # Errors
    ///
    /// [`Error::RowRange`] if the range is not inside the rows, [`Error::RowSequences`] if they lie as sequences of
    /// which it is neither whole ones nor a part of one.
    pub fn range(&self, range: Range<usize>) -> Result<Rows<'_>, Error> {
        let Range { start, end } = range;
        if start > end || end > self.len() {
            return Err(Error::RowRange {
                start,
                end,
                rows: self.len(),
            });
        }
        let (len, (cos, sin)) = (end - start, self.slices());
        let (mut first_id, mut sequences) = (self.first_id, None);
        let begin = match self.sequences {
            _ if self.ids.is_some() => {
                first_id += start;
                0
            }
            None => start * self.stride,
            Some(all) => {
                let (tokens, sequence, token) =
                    (all.tokens, start / all.tokens, start % all.tokens);
                if token + len > tokens {
                    if token > 0 || len % tokens > 0 {
                        return self.at_equal_distances().map(|()| self.clone());
                    }
                    let count = len / tokens;
                    sequences = Some(SequenceStride { count, ..all });
                }
                sequence * all.stride + token * self.stride
            }
        };
        // The end of all rows may lie beyond the last value.
        let [cos, sin] = [cos, sin].map(|values| values.get(begin..).unwrap_or_default());
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            sequences,
            first_id,
            len,
            ..*self
        })
    }

    /// The rows of a range of the pairs, for channels of a head that are paired by themselves: Gemma 4's vision tower
    /// rotates each half of a head as a head of its own, by one half of the pairs. Nothing is copied.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let rows = Rows::new(&[1.0, 0.8, 0.0, 0.6], [1, 4])?;
    /// assert_eq!(rows.pairs(1..2)?.row(0), Some((&[0.8][..], &[0.6][..])));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if the range is empty, or beyond the pairs of the rows; [`Error::FullWidthRows`] for
    /// full-width rows.
    pub fn pairs(&self, range: Range<usize>) -> Result<Rows<'_>, Error> {
        self.check_rotates("Rows::pairs")?;
        if range.is_empty() || range.end > self.pairs {
            return Err(Error::RotaryDim {
                rotary_dim: 2 * range.len(),
                required: "twice the pairs of a range within the rows (Rows::pairs)",
            });
        }
        let (cos, sin) = self.slices();
        let [cos, sin] = [cos, sin].map(|values| values.get(range.start..).unwrap_or_default());
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            pairs: range.len(),
            ..*self
        })
    }

    /// Row `index` for `tokens` tokens, which share it: Dual Chunk Attention
    /// ([`DualChunk`](crate::dual_chunk::DualChunk)) has one position for all queries beside keys of earlier chunks.
    /// Nothing is copied.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let table = [1.0, 0.0, /* */ 0.8, 0.6];   // two rows
    /// let table = Rows::new(&table, [2, 2])?;
    /// let rows = table.repeated(1, 1000)?;
    /// assert_eq!((rows.len(), rows.row(999)), (1000, Some((&[0.8][..], &[0.6][..]))));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::RowRange`] if `index` is not below [`Rows::len`].
    pub fn repeated(&self, index: usize, tokens: usize) -> Result<Rows<'_>, Error> {
        let rows = self.len();
        if index >= rows {
            return Err(Error::RowRange {
                start: index,
                end: index.saturating_add(1),
                rows,
            });
        }
        let (sharing, batch, token) = self.place(index);
        let begin = self.view(sharing).start(batch, token);
        let (cos, sin) = self.slices();
        Ok(Rows {
            values: RowValues::Apart(&cos[begin..], &sin[begin..]),
            stride: 0,
            sequences: None,
            ids: None,
            first_id: 0,
            len: tokens,
            ..*self
        })
    }

    /// Demands that each row lies at the same distance from the previous one.
    fn at_equal_distances(&self) -> Result<(), Error> {
        match self.sequences {
            Some(SequenceStride { count, tokens, .. }) => Err(Error::RowSequences {
                sequences: count,
                tokens,
            }),
            None => Ok(()),
        }
    }

    /// How many rows: of rows of each head, of how many tokens.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many heads have a row each: 1 where all heads share one.
    #[inline]
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// cos values of a row, and sin values: one for each pair, or for each channel of full-width rows.
    fn width(&self) -> usize {
        view::width(self.pairs, self.full)
    }

    /// Whether the two channels of a pair have angles of their own ([`Rows::full`], [`Rows::per_channel`]).
    #[inline]
    pub fn is_full_width(&self) -> bool {
        self.full.is_some()
    }

    /// Refuses full-width rows.
    #[inline]
    pub(crate) fn check_rotates(&self, operation: &'static str) -> Result<(), Error> {
        if self.full.is_some() {
            return Err(Error::FullWidthRows { operation });
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Channels that a row rotates: twice its pairs.
    #[inline]
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }

    /// The factor that cos and sin are scaled by; 1 by default.
    #[inline]
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// The cos and the sin of row `index`, if there is one; of the first head where each has its own. A full-width row
    /// has one of each for each channel.
    pub fn row(&self, index: usize) -> Option<(&[f32], &[f32])> {
        self.row_of(index, 0)
    }

    /// The cos and the sin of a head's row `index`, if there is one. All heads have the row that they share.
    pub fn row_of(&self, index: usize, head: usize) -> Option<(&[f32], &[f32])> {
        let there = index < self.len() && (head < self.heads || self.heads == 1);
        there.then(|| self.at(index, head))
    }

    /// The same where it is there.
    pub(crate) fn at(&self, index: usize, head: usize) -> (&[f32], &[f32]) {
        let (sharing, batch, token) = self.place(index);
        self.view(sharing).row(batch, token, head)
    }

    /// The sequence and the token of a row that is there, and whose the rows are to be found so.
    fn place(&self, index: usize) -> (RowSharing, usize, usize) {
        match self.sequences {
            Some(SequenceStride { tokens, .. }) => {
                let sharing = RowSharing::EachSequence { tokens };
                (sharing, index / tokens, index % tokens)
            }
            None => (RowSharing::AllSequences, 0, index),
        }
    }

    /// The rows that undo these with [`Direction::Forward`], pair by pair, whatever their magnitudes: `cos / (cos^2 +
    /// sin^2)` and `-sin / (cos^2 + sin^2)` in f64, rounded once. They are made in the caller's storage, of which the
    /// first `len * heads * rotary_dim` values are used.
    ///
    /// Where every pair has the attention factor as its magnitude, [`Direction::Inverse`] undoes the rows themselves.
    /// The pairs of xPos have other magnitudes, as each grows or decays at a rate of its own.
    ///
    /// # Errors
    ///
    /// [`Error::FullWidthRows`] of full-width rows, [`Error::Storage`] if the storage is too short,
    /// [`Error::RowsTooLong`] for more values than a slice can have, [`Error::NoInverse`] if a pair has none in f32 (of
    /// 0 and 0, or of what is not finite), [`Error::AttentionFactor`] if the attention factor has none. The storage is
    /// untouched then.
    ///
    /// [`Direction::Forward`]: crate::Direction::Forward
    /// [`Direction::Inverse`]: crate::Direction::Inverse
    pub fn inverted<'o>(&self, storage: &'o mut [f32]) -> Result<Rows<'o>, Error> {
        self.invert(storage)
    }

    /// The additive sinusoidal encoding of the original Transformer from the same angles: for each row `PE(2i) = sin`,
    /// `PE(2i + 1) = cos`, `rotary_dim` values. With `Frequencies::new(d_model, 10_000.0, ..)` these are the values of
    /// Vaswani et al., *Attention Is All You Need*, arXiv:1706.03762, section 3.5, correctly rounded.
    ///
    /// # Errors
    ///
    /// [`Error::FullWidthRows`] of full-width rows, [`Error::RowHeads`] of rows of each head, [`Error::Storage`] unless
    /// `out` has exactly `len * rotary_dim` values; it is untouched then.
    pub fn sinusoidal(&self, out: &mut [f32]) -> Result<(), Error> {
        self.check_rotates("Rows::sinusoidal")?;
        if self.heads > 1 {
            let (rows, heads) = (self.heads, 1);
            return Err(Error::RowHeads { rows, heads });
        }
        // Rows that coincide may be more than memory holds.
        let (given, needed) = (out.len(), self.len().saturating_mul(self.rotary_dim()));
        if given != needed {
            return Err(Error::Storage {
                what: "values of out",
                given,
                needed,
            });
        }
        for (token, row) in out.chunks_exact_mut(self.rotary_dim()).enumerate() {
            let (cos, sin) = self.at(token, 0);
            for ((pair, cos), sin) in row.as_chunks_mut().0.iter_mut().zip(cos).zip(sin) {
                *pair = [*sin, *cos];
            }
        }
        Ok(())
    }

    /// All cos and all sin. In joined rows the sin slice starts at the first sin, so it is shorter.
    #[inline(always)]
    fn slices(&self) -> (&[f32], &[f32]) {
        match &self.values {
            RowValues::Joined(values) => (values, values.get(self.width()..).unwrap_or(&[])),
            #[cfg(feature = "alloc")]
            RowValues::Owned(values) => (values, values.get(self.width()..).unwrap_or(&[])),
            RowValues::Apart(cos, sin) => (cos, sin),
        }
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("len", &self.len())
            .field("heads", &self.heads)
            .field("rotary_dim", &self.rotary_dim())
            .field("gathered", &self.ids.is_some())
            .field("attention_factor", &self.attention_factor)
            .finish_non_exhaustive()
    }
}

/// The pairs of so many rotated channels.
fn pairs(rotary_dim: usize) -> Result<usize, Error> {
    if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
        return Err(Error::RotaryDim {
            rotary_dim,
            required: "even and at least 2",
        });
    }
    Ok(rotary_dim / 2)
}

/// Checks that `len` values are those of a shape.
fn check_shape(len: usize, [rows, width]: [usize; 2]) -> Result<(), Error> {
    if rows.checked_mul(width) != Some(len) {
        return Err(Error::RowsShape { len, rows, width });
    }
    Ok(())
}

/// Checks the shape of joined rows, and that the last is not one of PyTorch's, which keep each value twice.
fn check_joined(values: &[f32], [rows, width]: [usize; 2]) -> Result<(), Error> {
    let pairs = pairs(width)?;
    check_shape(values.len(), [rows, width])?;
    let (cos, sin) = match values.rchunks_exact(width).next() {
        Some(last) if pairs > 1 => last.split_at(pairs),
        _ => return Ok(()),
    };
    let equal = |(cos, sin): (&f32, &f32)| cos.to_bits() == sin.to_bits();
    if !cos.iter().zip(sin).all(equal) {
        return Ok(());
    }
    // Of one magnitude are padding, and pairs that all turn by 45 degrees; but ones are the cos of position 0.
    let magnitude = |cos: &f32| cos.abs().to_bits();
    let first = cos.first().map_or(0, magnitude);
    let is_one = |cos: &f32| cos.to_bits() == 1_f32.to_bits();
    if cos.iter().all(|cos| magnitude(cos) == first) && !cos.iter().all(is_one) {
        return Ok(());
    }
    let row = rows - 1;
    Err(Error::HalvesEqual { row, width })
}
