//! Rows as tensors: the cos and sin of each token, made once, for every layer.

use alloc::vec::Vec;

use burn_core::tensor::{DType, Device, Tensor, TensorData};
use rope_core::error::{FrequenciesError, RowsError};
use rope_core::{Frequencies, IntoPositions, Rows};

use crate::Error;

/// The cos and sin of each token, `[sequences, heads, tokens, pairs]` of each, as `f32`.
///
/// Rows of one sequence serve all sequences of the rotated tensor, and rows of one head all its heads, by broadcasting.
/// Twice as many channels rotate as there are pairs; the others of a head pass through.
///
/// ```
/// use burn::tensor::Device;
/// use rope_burn::RotaryRows;
/// use rope_core::{Frequencies, Scaling};
///
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let prompt = RotaryRows::at(&frequencies, 0..512, 1, &Device::flex())?;
/// assert_eq!(prompt.dims(), [1, 1, 512, 32]);
/// // the next token of two sequences, which are 512 and 90 tokens long
/// let next = RotaryRows::at(&frequencies, &[512, 90], 2, &Device::flex())?;
/// assert_eq!(next.dims(), [2, 1, 1, 32]);
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RotaryRows {
    pub(crate) cos: Tensor<4>,
    pub(crate) sin: Tensor<4>,
}

impl RotaryRows {
    /// Creates rows from given cos and sin, or from ones computed from parameters, whose gradients
    /// [`rotate`](crate::rotate) returns. (Angles that are products of `f32` have their usual errors: use
    /// [`RotaryRows::at`] for large positions.)
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use rope_burn::{RotaryRows, rotate};
    /// use rope_core::Pairing;
    ///
    /// let device = Device::flex().autodiff();
    /// let learned = Tensor::<1>::from_data([1.0, 0.5, 0.1, 0.02], &device).require_grad();
    /// let positions = Tensor::<1>::from_data([0.0, 1.0, 2.0], &device);
    /// let angles = positions.reshape([1, 1, 3, 1]) * learned.clone().reshape([1, 1, 1, 4]);
    /// let rows = RotaryRows::new(angles.clone().cos(), angles.sin())?;
    ///
    /// let q = Tensor::<4>::ones([2, 6, 3, 8], &device);
    /// let gradients = rotate(q, &rows, Pairing::Half)?.sum().backward();
    /// assert!(learned.grad(&gradients).is_some());
    /// # Ok::<(), rope_burn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::CosSinShape`] if the two differ in shape; [`Error::RowsType`] if they are not `f32`; [`Error::Rope`]
    /// ([`rope_core::error::RowsError::RotaryDim`]) if they have no pairs.
    pub fn new(cos: Tensor<4>, sin: Tensor<4>) -> Result<Self, Error> {
        let shape = cos.dims();
        if shape != sin.dims() {
            return Err(Error::CosSinShape {
                cos: shape,
                sin: sin.dims(),
            });
        }
        for dtype in [cos.dtype(), sin.dtype()] {
            if dtype != DType::F32 {
                return Err(Error::RowsType { dtype });
            }
        }
        if shape[3] == 0 {
            let required = "even and at least 2";
            let rotary_dim = 0;
            return Err(rope_core::Error::Rows(RowsError::RotaryDim {
                rotary_dim,
                required,
            })
            .into());
        }
        Ok(RotaryRows { cos, sin })
    }

    /// Computes the exact rows of these positions: the same for all sequences (`sequences` is 1), or for each sequence
    /// in turn.
    ///
    /// Positions are a range, a list of integers, or any [`rope_core::Positions`]; frequencies are
    /// [`rope_core::Frequencies`] of any scaling and any axes.
    ///
    /// # Errors
    ///
    /// [`Error::Rope`] with the errors of [`rope_core::Frequencies::rows`], and those of [`RotaryRows::from_rows`].
    pub fn at<'p>(
        frequencies: &Frequencies<'_>,
        positions: impl IntoPositions<'p>,
        sequences: usize,
        device: &Device,
    ) -> Result<Self, Error> {
        RotaryRows::from_rows(&frequencies.rows(positions)?, sequences, device)
    }

    /// Converts rope-core's rows of any kind: of a table, gathered, or one per head.
    ///
    /// # Errors
    ///
    /// [`Error::Sequences`] unless the rows divide evenly into `sequences`; [`Error::Rope`]
    /// ([`rope_core::error::FrequenciesError::RowsTooLong`]) if they exceed memory.
    pub fn from_rows(rows: &Rows<'_>, sequences: usize, device: &Device) -> Result<Self, Error> {
        let (len, heads, pairs) = (rows.len(), rows.heads(), rows.rotary_dim() / 2);
        if sequences == 0 || !len.is_multiple_of(sequences) {
            return Err(Error::Sequences {
                rows: len,
                sequences,
            });
        }
        // Rows that coincide may exceed memory when written out.
        let (tokens, rotary_dim) = (len, 2 * pairs);
        let count = len
            .checked_mul(heads)
            .and_then(|rows| rows.checked_mul(rotary_dim));
        let count = count
            .filter(|count| *count <= isize::MAX as usize / size_of::<f32>())
            .ok_or(rope_core::Error::Frequencies(
                FrequenciesError::RowsTooLong { tokens, rotary_dim },
            ))?;
        let mut values = Vec::with_capacity(count);
        for token in 0..len {
            for head in 0..heads {
                let (cos, sin) = rows.row(token, head).unwrap_or_default();
                values.extend_from_slice(cos);
                values.extend_from_slice(sin);
            }
        }
        let data = TensorData::new(values, [sequences, len / sequences, heads, 2 * pairs]);
        let joined = Tensor::<4>::from_data(data, (device, DType::F32)).swap_dims(1, 2);
        Ok(RotaryRows {
            cos: joined.clone().narrow(3, 0, pairs),
            sin: joined.narrow(3, pairs, pairs),
        })
    }

    /// Returns the cos of each, `[sequences, heads, tokens, pairs]`.
    pub fn cos(&self) -> &Tensor<4> {
        &self.cos
    }

    /// Returns the sin of each, `[sequences, heads, tokens, pairs]`.
    pub fn sin(&self) -> &Tensor<4> {
        &self.sin
    }

    /// Returns `[sequences, heads, tokens, pairs]`.
    pub fn dims(&self) -> [usize; 4] {
        self.cos.dims()
    }

    /// Returns the number of channels that a row rotates, twice its pairs.
    pub fn rotary_dim(&self) -> usize {
        2 * self.dims()[3]
    }

    /// Selects the rows of `tokens` tokens from `start` on.
    pub(crate) fn narrow(&self, start: usize, tokens: usize) -> Self {
        RotaryRows {
            cos: self.cos.clone().narrow(2, start, tokens),
            sin: self.sin.clone().narrow(2, start, tokens),
        }
    }
}
