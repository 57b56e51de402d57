//! Rows: the cos and sin of each token. A table of all positions, the rows of one forward step and rows computed within
//! a call share one type, the only one that the kernel reads.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Range;

use crate::base::debug::debug;
use crate::base::memory::MaybeOwned;
use crate::describe::tensor::IntoLayout;
use crate::error::{CacheError, RowsError, ShapeError};
use crate::kernel::line::{LineRows, Starts};
use crate::{Error, Ids, IntoIds, Shape};

mod full;
mod inverse;
mod view;

pub(crate) use full::no_rotation;
pub use full::{AnyRows, FullRows};
pub(crate) use view::{FullHeads, FullWidth, Rotation, RowSharing, View};

/// The cos and sin of each token: `rotary_dim / 2` of each, as f32, with the attention factor already applied.
///
/// A rotation accepts one row per token of a sequence (all sequences share them), or `batch * tokens` rows,
/// sequence-major.
///
/// The heads of a token share its row, unless each has its own ([`Rows::with_heads`], [`Rows::strided`]). The rows of
/// all heads of a token then count as one, and a rotation accepts them only for tensors with this number of heads.
///
/// ```
/// use rope_core::Rows;
/// let table = [1.0, 1.0, 0.0, 0.0, /* */ 0.5, 0.25, 0.8, 0.9];   // two rows of [cos cos | sin sin]
/// let table = Rows::new(&table, [2, 4])?;
/// let step = table.gather(&[1_u32, 1, 0])?;
/// assert_eq!(step.row(0, 0), Some((&[0.5, 0.25][..], &[0.8, 0.9][..])));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias = "freqs_cis")]
#[derive(Clone)]
pub struct Rows<'a> {
    values: RowValues<'a>,
    pairs: usize,
    /// Values from the row of one token to that of the next.
    stride: usize,
    /// Heads with a separate row; 1 if all share one.
    heads: usize,
    /// Values from the row of one head to that of the next.
    head_stride: usize,
    /// The distance of sequences, if not all rows are at equal distances.
    sequences: Option<SequenceStride>,
    ids: Option<Ids<'a>>,
    /// The first id in use; the values of the rows start at the first row in use.
    first_id: usize,
    /// The number of rows, or ids, in use.
    len: usize,
    attention_factor: f64,
    /// True if the magnitude of every pair is known to be the attention factor.
    uniform: bool,
    /// True if the rows move keys by a factor that the keys do not have yet ([`Frequencies::shift_from`]).
    ///
    /// [`Frequencies::shift_from`]: crate::Frequencies::shift_from
    moves: bool,
}

#[derive(Clone)]
enum RowValues<'a> {
    /// `[cos | sin]` per row.
    Joined(MaybeOwned<'a, f32>),
    Apart(&'a [f32], &'a [f32]),
}

/// The distance of sequences of several tokens, if a sequence does not start one row after the previous one.
#[derive(Clone, Copy)]
struct SequenceStride {
    count: usize,
    tokens: usize,
    /// Values from one sequence to the next.
    stride: usize,
}

impl<'a> Rows<'a> {
    /// Views a tensor `[rows, rotary_dim]`; each row has `rotary_dim / 2` cos, then as many sin (vLLM's cache).
    ///
    /// PyTorch's `cat((freqs, freqs), -1).cos()` has the same shape and no sin: pass it to [`Rows::from_cos_sin`] with
    /// its sin. To tell them apart, the constructor refuses values whose last row has equal halves. It accepts rows of
    /// one pair, and a last row whose values have one magnitude and are not all 1 (zeros, which are padding, or every
    /// pair rotated by 45 degrees).
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`] if `rotary_dim` is zero or odd; [`RowsError::Shape`] unless the slice has `rows *
    /// rotary_dim` values; [`RowsError::HalvesEqual`] if the halves of the last row are equal.
    #[doc(alias = "cos_sin_cache")]
    #[inline]
    pub fn new(values: &'a [f32], [rows, rotary_dim]: [usize; 2]) -> Result<Self, Error> {
        check_joined(values, [rows, rotary_dim])?;
        Ok(Rows::computed(values, rotary_dim))
    }

    /// Creates rows that own their memory; see [`Rows::new`].
    ///
    /// # Errors
    ///
    /// The errors of [`Rows::new`].
    #[cfg(feature = "alloc")]
    pub fn from_vec(
        values: Vec<f32>,
        [rows, rotary_dim]: [usize; 2],
    ) -> Result<Rows<'static>, Error> {
        check_joined(&values, [rows, rotary_dim])?;
        Ok(Rows::computed(values, rotary_dim))
    }

    /// Views a whole number of rows that this crate computed. Skips the checks of angles.
    #[inline]
    pub(crate) fn computed(values: impl Into<MaybeOwned<'a, f32>>, rotary_dim: usize) -> Self {
        let values = values.into();
        let rows = values.len().checked_div(rotary_dim).unwrap_or(0);
        Rows::all(RowValues::Joined(values), rotary_dim / 2, rotary_dim, rows)
    }

    /// Views cos and sin in separate slices, as tensors `[rows, width]`. `width` is `rotary_dim / 2` if each value is
    /// stored once (ONNX), and `rotary_dim` if each is stored twice, with equal halves of a row (PyTorch's `cat((freqs,
    /// freqs), -1)`; the first half is read).
    ///
    /// Values repeated one by one (`repeat_interleave(2)`) are neither: pass every second value. To tell them apart,
    /// the constructor checks the last row if values are stored twice.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`] if `rotary_dim` is zero or odd; [`RowsError::Width`] for another width;
    /// [`RowsError::CosSinLength`] if the slices differ in length; [`RowsError::Shape`] unless they have `rows * width`
    /// values; [`RowsError::HalvesDiffer`] if the last row should store its values twice and does not.
    #[doc(alias("cos_cache", "sin_cache"))]
    pub fn from_cos_sin(
        cos: &'a [f32],
        sin: &'a [f32],
        [rows, width]: [usize; 2],
        rotary_dim: usize,
    ) -> Result<Self, Error> {
        let pairs = pairs(rotary_dim)?;
        if width != pairs && width != rotary_dim {
            return Err(Error::Rows(RowsError::Width { width, rotary_dim }));
        }
        check_apart(cos, sin, [rows, width])?;
        let len = cos.len();
        for values in [cos, sin] {
            let last = &values[len - width.min(len)..];
            let (first, second) = last.split_at(pairs.min(last.len()));
            let bits = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
            if let Some(pair) = first.iter().zip(second).position(bits) {
                let row = rows - 1;
                return Err(Error::Rows(RowsError::HalvesDiffer { row, pair }));
            }
        }
        Ok(Rows::all(RowValues::Apart(cos, sin), pairs, width, rows))
    }

    /// Views strided cos and sin of shape `[batch, tokens, heads, rotary_dim / 2]`: one row per head, token and
    /// sequence. Sequences, or heads, that share rows have an extent of 1 or a stride of 0, and count as one. A shape
    /// covers each whole slice; a [`Layout`](crate::Layout) may cover a part.
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
    /// [`RowsError::RotaryDim`] if a row has no pairs; [`RowsError::PerHead`] if there are no heads;
    /// [`ShapeError::Overflow`] if an index, or the number of rows, does not fit `usize`; [`ShapeError::OutOfBounds`]
    /// if a layout reaches past either slice; [`Error::ShapeElements`] if a shape and either slice have different
    /// numbers of elements.
    pub fn strided(cos: &'a [f32], sin: &'a [f32], layout: impl IntoLayout) -> Result<Self, Error> {
        layout.layout_of(sin.len())?;
        let layout = layout.layout_of(cos.len())?;
        let (shape, strides) = (layout.shape(), layout.strides());
        let overflow = Error::Shape(ShapeError::Overflow { shape });
        let (tokens, pairs) = (shape.tokens, shape.head_dim);
        self::pairs(pairs.checked_mul(2).ok_or(overflow)?)?;
        // A shared dimension counts as one index.
        let batch = match strides.batch {
            0 => shape.batch.min(1),
            _ => shape.batch,
        };
        let (heads, head_stride) = match (shape.heads, strides.head) {
            (1, _) | (2.., 0) => (1, 0),
            separate => separate,
        };
        if heads == 0 {
            let rows = shape.batch.saturating_mul(tokens);
            return Err(Error::Rows(RowsError::PerHead { rows, heads }));
        }
        let rows = batch.checked_mul(tokens).ok_or(overflow)?;
        // Without rows, the offset may be anywhere.
        let [cos, sin] = [cos, sin].map(|values| values.get(layout.offset()..).unwrap_or_default());
        // One token per sequence, or contiguous sequences, are rows at equal distances.
        let stride = match tokens {
            1 => strides.batch,
            _ => strides.token,
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

    #[inline]
    fn all<'b>(values: RowValues<'b>, pairs: usize, stride: usize, rows: usize) -> Rows<'b> {
        Rows {
            values,
            pairs,
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

    /// Groups rows by head: `heads` consecutive rows belong to the heads of one token, `[tokens, heads, rotary_dim]`,
    /// and count as one row from then on.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let table = [1.0, 0.0, /* */ 0.8, 0.6, /* */ 0.0, 1.0, /* */ 0.6, 0.8];   // two tokens of two heads
    /// let rows = Rows::new(&table, [4, 2])?.with_heads(2)?;
    /// assert_eq!((rows.len(), rows.heads()), (2, 2));
    /// assert_eq!(rows.row(1, 0), Some((&[0.0][..], &[1.0][..])));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::PerHead`] if `heads` is zero, or the rows are not a whole number of tokens. For rows that are not
    /// contiguous: [`RowsError::AlreadyGathered`] if they were gathered by id, [`RowsError::Sequences`] if their
    /// sequences are apart, and [`RowsError::Heads`] if each head has its own already.
    pub fn with_heads(self, heads: usize) -> Result<Self, Error> {
        self.check_table()?;
        let rows = self.len();
        if self.heads > 1 {
            return Err(Error::Rows(RowsError::Heads {
                rows: self.heads,
                heads,
            }));
        }
        if heads == 0 || !rows.is_multiple_of(heads) {
            return Err(Error::Rows(RowsError::PerHead { rows, heads }));
        }
        Ok(self.of_heads(heads))
    }

    /// Groups rows at equal distances by head. Requires a whole number of tokens.
    pub(crate) fn of_heads(self, heads: usize) -> Self {
        Rows {
            // A saturated stride exceeds the values: then there is one token, and the stride is unused.
            stride: self.stride.saturating_mul(heads),
            heads,
            head_stride: if heads == 1 { 0 } else { self.stride },
            len: self.len / heads,
            ..self
        }
    }

    /// Sets the factor by which cos and sin are scaled (YaRN, LongRoPE), without changing the values.
    /// [`Direction::Inverse`] divides by its square, and a rotation of keys in a cache refuses rows with a factor other
    /// than 1. The factor of given rows is 1 by default.
    ///
    /// # Errors
    ///
    /// [`RowsError::AttentionFactor`] if the factor is zero, infinite or NaN.
    ///
    /// [`Direction::Inverse`]: crate::Direction::Inverse
    pub fn with_attention_factor(mut self, factor: f64) -> Result<Self, Error> {
        if !factor.is_finite() || factor == 0.0 {
            return Err(Error::Rows(RowsError::AttentionFactor { factor }));
        }
        self.attention_factor = factor;
        self.uniform = false;
        self.moves = false;
        Ok(self)
    }

    /// Sets the attention factor ([`Rows::with_attention_factor`]) of rows whose every pair has it as magnitude.
    pub(crate) fn of_magnitude(self, factor: f64) -> Result<Self, Error> {
        let mut rows = self.with_attention_factor(factor)?;
        rows.uniform = true;
        Ok(rows)
    }

    /// Marks the rows as moving keys, whatever their attention factor.
    pub(crate) fn moving(mut self) -> Self {
        self.moves = true;
        self
    }

    /// Returns the rows, if they are not gathered, over other values.
    #[inline]
    pub(crate) fn over<'b>(&self, cos: &'b [f32], sin: Option<&'b [f32]>) -> Rows<'b> {
        Rows {
            values: match sin {
                Some(sin) => RowValues::Apart(cos, sin),
                None => RowValues::Joined(MaybeOwned::from(cos)),
            },
            ids: None,
            ..*self
        }
    }

    /// Refuses rows that would apply the attention factor twice to cached keys.
    #[inline]
    pub(crate) fn check_moves(&self) -> Result<(), Error> {
        let factor = self.attention_factor;
        if factor != 1.0 && !self.moves {
            return Err(Error::Cache(CacheError::ShiftFactor { factor }));
        }
        Ok(())
    }

    /// Selects the rows of these position ids, in order, from a table of positions `0..len`. If each head has its own
    /// rows, an id selects the rows of all heads of a token. Copies nothing.
    ///
    /// # Errors
    ///
    /// [`RowsError::PositionOutsideTable`] if an id has no row; [`RowsError::AlreadyGathered`] if the rows were
    /// gathered by id; [`RowsError::Sequences`] if their sequences are apart and form no table.
    #[doc(alias = "index_select")]
    pub fn gather<'b>(&'b self, ids: impl IntoIds<'b>) -> Result<Rows<'b>, Error> {
        self.check_table()?;
        let ids = ids.into();
        let rows = self.len();
        // Checked here once, so the kernel need not.
        for index in 0..ids.len() {
            let id = ids.at(index);
            if usize::try_from(id).is_ok_and(|id| id < rows) {
                continue;
            }
            return Err(Error::Rows(RowsError::PositionOutsideTable {
                index,
                id,
                rows,
            }));
        }
        let (cos, sin) = self.slices();
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            len: ids.len(),
            ids: Some(ids),
            ..*self
        })
    }

    /// Selects the rows `range`: a few tokens, or one sequence.
    ///
    /// # Errors
    ///
    /// [`RowsError::Range`] if the range exceeds the rows; [`RowsError::Sequences`] if sequences are apart and the
    /// range is neither whole sequences nor a part of one.
    #[doc(alias = "range")]
    pub fn narrow(&self, range: Range<usize>) -> Result<Rows<'_>, Error> {
        let Range { start, end } = range;
        if start > end || end > self.len() {
            return Err(Error::Rows(RowsError::Range {
                start,
                end,
                rows: self.len(),
            }));
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
        // The end of all rows may exceed the last value.
        let [cos, sin] = [cos, sin].map(|values| values.get(begin..).unwrap_or_default());
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            sequences,
            first_id,
            len,
            ..*self
        })
    }

    /// Selects a range of the pairs, for channels of a head that rotate by a call of their own. Equal parts of a head
    /// rotate in one call, by [`Rope::with_parts`](crate::Rope::with_parts). Copies nothing.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let rows = Rows::new(&[1.0, 0.8, 0.0, 0.6], [1, 4])?;
    /// assert_eq!(rows.narrow_pairs(1..2)?.row(0, 0), Some((&[0.8][..], &[0.6][..])));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`] if the range is empty or exceeds the pairs.
    pub fn narrow_pairs(&self, range: Range<usize>) -> Result<Rows<'_>, Error> {
        if range.is_empty() || range.end > self.pairs {
            return Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim: range.len().saturating_mul(2),
                required: "twice the pairs of a range within the rows (Rows::narrow_pairs)",
            }));
        }
        let (cos, sin) = self.slices();
        let [cos, sin] = [cos, sin].map(|values| values.get(range.start..).unwrap_or_default());
        Ok(Rows {
            values: RowValues::Apart(cos, sin),
            pairs: range.len(),
            ..*self
        })
    }

    /// Repeats row `index` for `tokens` tokens: in Dual Chunk Attention ([`DualChunk`](crate::dual_chunk::DualChunk))
    /// all queries share one position for keys of earlier chunks. Copies nothing.
    ///
    /// ```
    /// use rope_core::Rows;
    /// let table = [1.0, 0.0, /* */ 0.8, 0.6];   // two rows
    /// let table = Rows::new(&table, [2, 2])?;
    /// let rows = table.repeated(1, 1000)?;
    /// assert_eq!((rows.len(), rows.row(999, 0)), (1000, Some((&[0.8][..], &[0.6][..]))));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::Range`] unless `index` is below [`Rows::len`].
    pub fn repeated(&self, index: usize, tokens: usize) -> Result<Rows<'_>, Error> {
        let rows = self.len();
        if index >= rows {
            return Err(Error::Rows(RowsError::Range {
                start: index,
                end: index.saturating_add(1),
                rows,
            }));
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

    /// Refuses rows that are gathered already, or whose sequences lie apart.
    fn check_table(&self) -> Result<(), Error> {
        if self.ids.is_some() {
            return Err(Error::Rows(RowsError::AlreadyGathered));
        }
        self.at_equal_distances()
    }

    /// Checks that all rows are at equal distances.
    fn at_equal_distances(&self) -> Result<(), Error> {
        match self.sequences {
            Some(SequenceStride { count, tokens, .. }) => Err(Error::Rows(RowsError::Sequences {
                sequences: count,
                tokens,
            })),
            None => Ok(()),
        }
    }

    /// Returns the number of rows; for rows per head, the number of tokens.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of heads with a separate row; 1 if all heads share one.
    #[inline]
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of channels that a row rotates, twice its pairs.
    #[inline]
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }

    /// Returns the factor that cos and sin are scaled by; 1 by default.
    #[inline]
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// Returns the cos and sin of a head in row `index`, or `None` if either is out of range. Heads that share their
    /// rows have those of head 0.
    ///
    /// The additive encoding of the original Transformer has the same numbers, `PE(2i) = sin` and `PE(2i + 1) = cos`.
    #[doc(alias("row_of", "sinusoidal"))]
    pub fn row(&self, index: usize, head: usize) -> Option<(&[f32], &[f32])> {
        let there = index < self.len() && (head < self.heads || self.heads == 1);
        there.then(|| self.at(index, head))
    }

    /// Returns the cos and sin of an existing row.
    pub(crate) fn at(&self, index: usize, head: usize) -> (&[f32], &[f32]) {
        let (sharing, batch, token) = self.place(index);
        self.view(sharing).row(batch, token, head)
    }

    /// Returns true if two existing rows have the same bits.
    pub(crate) fn is_same(&self, first: usize, second: usize) -> bool {
        let bits = |(one, other): (&f32, &f32)| one.to_bits() == other.to_bits();
        let same = |one: &[f32], other: &[f32]| one.iter().zip(other).all(bits);
        (0..self.heads).all(|head| {
            let [(cos, sin), (other_cos, other_sin)] =
                [first, second].map(|index| self.at(index, head));
            same(cos, other_cos) && same(sin, other_sin)
        })
    }

    /// Returns the sequence and the token of an existing row, and the sharing by which to look it up.
    fn place(&self, index: usize) -> (RowSharing, usize, usize) {
        match self.sequences {
            Some(SequenceStride { tokens, .. }) => {
                let sharing = RowSharing::EachSequence { tokens };
                (sharing, index / tokens, index % tokens)
            }
            None => (RowSharing::AllSequences, 0, index),
        }
    }

    /// Returns all cos and all sin. In joined rows the sin slice starts at the first sin, so it is shorter.
    #[inline(always)]
    fn slices(&self) -> (&[f32], &[f32]) {
        match &self.values {
            RowValues::Joined(values) => (values, values.get(self.pairs..).unwrap_or(&[])),
            RowValues::Apart(cos, sin) => (cos, sin),
        }
    }

    /// Returns the rows as the kernel reads them.
    #[inline]
    pub(crate) fn view(&self, sharing: RowSharing) -> View<'_> {
        let (cos, sin) = self.slices();
        let sequence_stride = match (sharing, self.sequences, &self.ids) {
            (RowSharing::AllSequences, ..) => 0,
            (_, Some(sequences), _) => sequences.stride,
            (RowSharing::EachSequence { tokens }, None, Some(_)) => tokens,
            (RowSharing::EachSequence { tokens }, None, None) => tokens.saturating_mul(self.stride),
        };
        View {
            cos,
            sin,
            pairs: self.pairs,
            full: None,
            ids: self.ids,
            first: self.first_id,
            sequence_stride,
            stride: self.stride,
            heads: self.heads,
            head_stride: self.head_stride,
        }
    }

    /// Returns the row if it is the only one and all heads share it: such a call makes no [`View`]. Inlined for the
    /// reason of [`Addresses`](crate::describe::address::Addresses).
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<LineRows<'_>> {
        if (self.len, self.heads) != (1, 1) || self.sequences.is_some() {
            return None;
        }
        let start = view::row_start(self.ids, self.first_id, 0, self.stride);
        let (cos, sin) = self.slices();
        Some(LineRows {
            cos,
            sin,
            pairs: self.pairs,
            starts: Starts::Shared(start),
            factors: None,
        })
    }

    /// Checks that rows per head match the heads of a tensor.
    #[inline]
    pub(crate) fn check_heads(&self, shape: Shape) -> Result<(), Error> {
        let (rows, heads) = (self.heads, shape.heads);
        if rows > 1 && rows != heads {
            return Err(Error::Rows(RowsError::Heads { rows, heads }));
        }
        Ok(())
    }

    /// Checks heads, and that sequences of rows that are apart match the sequences of the tensor.
    #[inline]
    pub(crate) fn check_places(&self, shape: Shape, sharing: RowSharing) -> Result<(), Error> {
        self.check_heads(shape)?;
        match (self.sequences, sharing) {
            (Some(SequenceStride { tokens, .. }), RowSharing::EachSequence { tokens: of })
                if tokens == of =>
            {
                Ok(())
            }
            _ => self.at_equal_distances(),
        }
    }

    /// Checks these rows against tensors of that shape: the checks of [`Rope::rotate`](crate::Rope::rotate) that do not
    /// depend on the plan.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDimExceedsHead`] if rows rotate more channels than a head has; [`RowsError::Count`] unless
    /// there is one row per token, or one per token of every sequence; [`RowsError::Heads`] if rows are for another
    /// number of heads; [`RowsError::Sequences`] if strided rows are for other sequences.
    pub fn check_shape(&self, shape: impl Into<Shape>) -> Result<(), Error> {
        fit(shape.into(), self).map(drop)
    }
}

debug!(
    Rows<'_>,
    |rows| len: rows.len(),
    heads: rows.heads,
    rotary_dim: rows.rotary_dim(),
    gathered: rows.ids.is_some(),
    attention_factor: rows.attention_factor
);

/// Returns the number of pairs of `rotary_dim` channels.
#[inline]
fn pairs(rotary_dim: usize) -> Result<usize, Error> {
    if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
        return Err(Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and at least 2",
        }));
    }
    Ok(rotary_dim / 2)
}

/// Checks rows against a tensor; returns how sequences share them.
#[inline]
pub(crate) fn fit(shape: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
    let sharing = check(shape, rows.rotary_dim(), rows.len())?;
    rows.check_places(shape, sharing)?;
    Ok(sharing)
}

/// Checks the number and width of rows against a tensor; returns how sequences share them.
#[inline]
pub(crate) fn check(shape: Shape, rotary_dim: usize, rows: usize) -> Result<RowSharing, Error> {
    let (batch, tokens, head_dim) = (shape.batch, shape.tokens, shape.head_dim);
    if rotary_dim > head_dim {
        return Err(Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim,
            head_dim,
        }));
    }
    if rows == tokens {
        Ok(RowSharing::AllSequences)
    } else if Some(rows) == batch.checked_mul(tokens) {
        Ok(RowSharing::EachSequence { tokens })
    } else {
        Err(Error::Rows(RowsError::Count {
            rows,
            tokens,
            batch,
        }))
    }
}

/// Checks that a slice of `len` values has the shape.
#[inline]
fn check_shape(len: usize, [rows, width]: [usize; 2]) -> Result<(), Error> {
    if rows.checked_mul(width) != Some(len) {
        return Err(Error::Rows(RowsError::Shape { len, rows, width }));
    }
    Ok(())
}

/// Checks the lengths of separate cos and sin.
fn check_apart(cos: &[f32], sin: &[f32], shape: [usize; 2]) -> Result<(), Error> {
    let (cos, sin) = (cos.len(), sin.len());
    if cos != sin {
        return Err(Error::Rows(RowsError::CosSinLength { cos, sin }));
    }
    check_shape(cos, shape)
}

/// Checks the shape of joined rows, and refuses PyTorch's rows, which store each value twice.
#[inline]
fn check_joined(values: &[f32], [rows, width]: [usize; 2]) -> Result<(), Error> {
    let pairs = pairs(width)?;
    check_shape(values.len(), [rows, width])?;
    // The first pair of the last row usually decides.
    let last = values.len().wrapping_sub(width);
    match (values.get(last), values.get(last.wrapping_add(pairs))) {
        (Some(cos), Some(sin)) if cos.to_bits() != sin.to_bits() => Ok(()),
        _ => check_halves(values, [rows, width], pairs),
    }
}

#[inline(never)]
fn check_halves(values: &[f32], [rows, width]: [usize; 2], pairs: usize) -> Result<(), Error> {
    let (cos, sin) = match values.rchunks_exact(width).next() {
        Some(last) if pairs > 1 => last.split_at(pairs),
        _ => return Ok(()),
    };
    let equal = |(cos, sin): (&f32, &f32)| cos.to_bits() == sin.to_bits();
    if !cos.iter().zip(sin).all(equal) {
        return Ok(());
    }
    // Equal magnitudes are padding, or pairs that all rotate by 45 degrees; but ones are the cos of position 0.
    let magnitude = |cos: &f32| cos.abs().to_bits();
    let first = cos.first().map_or(0, magnitude);
    let is_one = |cos: &f32| cos.to_bits() == 1_f32.to_bits();
    if cos.iter().all(|cos| magnitude(cos) == first) && !cos.iter().all(is_one) {
        return Ok(());
    }
    let row = rows - 1;
    Err(Error::Rows(RowsError::HalvesEqual { row, width }))
}
