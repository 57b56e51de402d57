//! Rows: the cos and sin of each token. A table of all positions, the rows of one step and rows made on the fly are
//! one type, and the kernel reads nothing else.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::{Error, Ids};

/// The cos and sin of each token, `rotary_dim / 2` of each, as f32 and already multiplied by the attention factor.
///
/// A rotation takes as many rows as a sequence has tokens (all sequences share them), or as many as there are
/// tokens in the batch (`batch * tokens`, the rows of one sequence behind those of another).
///
/// ```
/// use rope_core::Rows;
/// let table = [1.0, 1.0, 0.0, 0.0, /* */ 0.5, 0.25, 0.8, 0.9];   // two rows of [cos cos | sin sin]
/// let table = Rows::new(&table, 4)?;
/// let step = table.gather(&[1_u32, 1, 0])?;
/// assert_eq!(step.row(0), Some((&[0.5, 0.25][..], &[0.8, 0.9][..])));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Rows<'a> {
    values: Values<'a>,
    pairs: usize,
    ids: Option<Ids<'a>>,
    /// The rows or ids in use.
    range: (usize, usize),
    attention_factor: f64,
}

#[derive(Clone)]
enum Values<'a> {
    /// `[cos | sin]` per row.
    Joined(&'a [f32]),
    #[cfg(feature = "alloc")]
    Owned(Vec<f32>),
    Apart {
        cos: &'a [f32],
        sin: &'a [f32],
        stride: usize,
    },
}

impl<'a> Rows<'a> {
    /// Rows of `rotary_dim` values each: `rotary_dim / 2` cos, then as many sin (vLLM's cache).
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if `rotary_dim` is zero or odd, [`Error::RowsLength`] if the slice is not a whole number of
    /// rows.
    pub fn new(values: &'a [f32], rotary_dim: usize) -> Result<Self, Error> {
        Rows::joined(Values::Joined(values), values.len(), rotary_dim)
    }

    /// As [`Rows::new`], owning its memory.
    ///
    /// # Errors
    ///
    /// Those of [`Rows::new`].
    #[cfg(feature = "alloc")]
    pub fn from_vec(values: Vec<f32>, rotary_dim: usize) -> Result<Rows<'static>, Error> {
        let len = values.len();
        Rows::joined(Values::Owned(values), len, rotary_dim)
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
        if rows.checked_mul(width) != Some(len) {
            return Err(Error::RowsShape { len, rows, width });
        }
        for values in [cos, sin] {
            let last = &values[len - width.min(len)..];
            let (first, second) = last.split_at(pairs.min(last.len()));
            let bits = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
            if let Some(pair) = first.iter().zip(second).position(bits) {
                let row = rows - 1;
                return Err(Error::HalvesDiffer { row, pair });
            }
        }
        let stride = width;
        Ok(Rows::all(Values::Apart { cos, sin, stride }, pairs, rows))
    }

    fn joined<'b>(values: Values<'b>, len: usize, rotary_dim: usize) -> Result<Rows<'b>, Error> {
        let pairs = pairs(rotary_dim)?;
        if !len.is_multiple_of(rotary_dim) {
            return Err(Error::RowsLength {
                len,
                row: rotary_dim,
            });
        }
        Ok(Rows::all(values, pairs, len / rotary_dim))
    }

    fn all<'b>(values: Values<'b>, pairs: usize, rows: usize) -> Rows<'b> {
        Rows {
            values,
            pairs,
            ids: None,
            range: (0, rows),
            attention_factor: 1.0,
        }
    }

    /// Says by which factor the cos and sin are scaled (YaRN, LongRoPE), for [`Direction::Inverse`] to divide by its
    /// square. The values themselves stay as they are.
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
        Ok(self)
    }

    /// The rows with these position ids, in their order, taking these rows as the table of positions `0..len`.
    /// Nothing is copied.
    ///
    /// # Errors
    ///
    /// [`Error::PositionOutsideTable`] if an id has no row, [`Error::GatheredTwice`] if these rows were gathered by id.
    pub fn gather<'b>(&'b self, ids: impl Into<Ids<'b>>) -> Result<Rows<'b>, Error> {
        if self.ids.is_some() {
            return Err(Error::GatheredTwice);
        }
        let ids = ids.into();
        let (first, rows) = (self.range.0, self.len());
        // Once here, so that the kernel need not look again.
        for index in 0..ids.len() {
            let id = ids.get(index).unwrap_or(-1);
            if usize::try_from(id).is_ok_and(|id| id < rows) {
                continue;
            }
            return Err(Error::PositionOutsideTable { index, id, rows });
        }
        let (cos, sin, stride) = self.slices();
        let start = (first * stride).min(cos.len());
        Ok(Rows {
            values: Values::Apart {
                cos: &cos[start..],
                sin: &sin[start.min(sin.len())..],
                stride,
            },
            pairs: self.pairs,
            range: (0, ids.len()),
            ids: Some(ids),
            attention_factor: self.attention_factor,
        })
    }

    /// Rows `range`: those of a few tokens, or of one sequence.
    ///
    /// # Errors
    ///
    /// [`Error::RowRange`] if the range is not inside the rows.
    pub fn range(&self, range: Range<usize>) -> Result<Rows<'_>, Error> {
        let Range { start, end } = range;
        if start > end || end > self.len() {
            return Err(Error::RowRange {
                start,
                end,
                rows: self.len(),
            });
        }
        let (cos, sin, stride) = self.slices();
        Ok(Rows {
            values: Values::Apart { cos, sin, stride },
            range: (self.range.0 + start, self.range.0 + end),
            ..*self
        })
    }

    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.range.1 - self.range.0
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

    /// The factor that cos and sin are scaled by; 1 unless it was said otherwise.
    #[inline]
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// The cos and the sin of row `index`, if there is one.
    pub fn row(&self, index: usize) -> Option<(&[f32], &[f32])> {
        (index < self.len()).then(|| self.view(RowSharing::AllSequences).row(index))
    }

    /// The additive sinusoidal encoding of the original Transformer from the same angles: for each row `PE(2i) = sin`,
    /// `PE(2i + 1) = cos`, `rotary_dim` values. With `Frequencies::new(d_model, 10_000.0, ..)` these are the values of
    /// Vaswani et al., *Attention Is All You Need*, arXiv:1706.03762, section 3.5, correctly rounded.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] unless `out` has exactly `len * rotary_dim` values; it is untouched then.
    pub fn sinusoidal(&self, out: &mut [f32]) -> Result<(), Error> {
        let (given, needed) = (out.len(), self.len() * self.rotary_dim());
        if given != needed {
            return Err(Error::Storage { given, needed });
        }
        let view = self.view(RowSharing::AllSequences);
        for (token, row) in out.chunks_exact_mut(self.rotary_dim()).enumerate() {
            let (cos, sin) = view.row(token);
            for ((pair, cos), sin) in row.as_chunks_mut().0.iter_mut().zip(cos).zip(sin) {
                *pair = [*sin, *cos];
            }
        }
        Ok(())
    }

    /// All cos, all sin, and the values from one row to the next. In joined rows the sin slice starts at the first
    /// sin, so it is shorter.
    #[inline]
    fn slices(&self) -> (&[f32], &[f32], usize) {
        match &self.values {
            Values::Joined(values) => (
                values,
                values.get(self.pairs..).unwrap_or(&[]),
                2 * self.pairs,
            ),
            #[cfg(feature = "alloc")]
            Values::Owned(values) => (
                values,
                values.get(self.pairs..).unwrap_or(&[]),
                2 * self.pairs,
            ),
            Values::Apart { cos, sin, stride } => (cos, sin, *stride),
        }
    }

    /// What the kernel reads.
    #[inline]
    pub(crate) fn view(&self, sharing: RowSharing) -> View<'_> {
        let (cos, sin, stride) = self.slices();
        View {
            cos,
            sin,
            stride,
            pairs: self.pairs,
            ids: self.ids,
            first: self.range.0,
            sequence_stride: sharing.sequence_stride(),
        }
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("len", &self.len())
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

/// Whose the rows are, of the sequences of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowSharing {
    /// One row for each token: all sequences share them.
    AllSequences,
    /// One row for each of the tokens of each sequence, those of one sequence behind those of another.
    EachSequence { tokens: usize },
}

impl RowSharing {
    /// Rows from one sequence to the next.
    #[inline]
    pub(crate) fn sequence_stride(self) -> usize {
        match self {
            RowSharing::AllSequences => 0,
            RowSharing::EachSequence { tokens } => tokens,
        }
    }
}

/// Rows as the kernel finds them by sequence and token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    stride: usize,
    pairs: usize,
    ids: Option<Ids<'a>>,
    first: usize,
    /// [`RowSharing::sequence_stride`]: found once, because the walk asks for every line.
    sequence_stride: usize,
}

impl<'a> View<'a> {
    /// Pairs of a row.
    #[inline(always)]
    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    /// All cos and all sin, which rows start in.
    #[inline(always)]
    pub(crate) fn values(&self) -> (&'a [f32], &'a [f32]) {
        (self.cos, self.sin)
    }

    /// Where the row of a token starts, in cos and in sin.
    #[inline(always)]
    pub(crate) fn start(&self, batch: usize, token: usize) -> usize {
        let index = self.first + batch * self.sequence_stride + token;
        let row = match self.ids {
            None => index,
            // `gather` has found every id inside the table.
            Some(Ids::I32(ids)) => ids[index] as usize,
            Some(Ids::I64(ids)) => ids[index] as usize,
            Some(Ids::U32(ids)) => ids[index] as usize,
            Some(Ids::U64(ids)) => ids[index] as usize,
            Some(Ids::Usize(ids)) => ids[index],
        };
        row * self.stride
    }

    /// cos and sin of a token.
    fn row(&self, token: usize) -> (&'a [f32], &'a [f32]) {
        let at = self.start(0, token);
        (&self.cos[at..][..self.pairs], &self.sin[at..][..self.pairs])
    }

    /// The same rows, seen from a later token or sequence.
    #[cfg(feature = "rayon")]
    pub(crate) fn skip(self, batch: usize, tokens: usize) -> Self {
        View {
            first: self.first + batch * self.sequence_stride + tokens,
            ..self
        }
    }
}
