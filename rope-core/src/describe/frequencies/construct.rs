//! Constructors, settings and getters of frequencies.

use super::axes::Axes;
#[cfg(feature = "alloc")]
use super::empty_chunks;
use super::frequency::{self, Frequency};
use super::scaling::Scaling;
use super::{Angle, Frequencies, fitting, make, take};
use crate::Backend;
#[cfg(feature = "alloc")]
use crate::Error;
use crate::base::error::Result;
#[cfg(feature = "alloc")]
use crate::error::{FrequenciesError, ShapeError};
use crate::kernel::sincos::chunk::FrequencyChunk;

#[cfg(feature = "alloc")]
impl Frequencies<'static> {
    /// Computes the frequencies of `axes` for a base (`rope_theta`) and a scaling. A plain number is the single axis of
    /// text over that many rotated channels. Any positive base is valid: with 1 all pairs have the same frequency, and
    /// below 1 later pairs are faster.
    ///
    /// ```
    /// use rope_core::axes::Axes;
    /// use rope_core::{Frequencies, Scaling, Yarn};
    ///
    /// let llama = Frequencies::new(128, 500_000.0, &Scaling::Llama3 {
    ///     factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192,
    /// })?;
    /// assert_eq!(llama.rotary_dim(), 128);
    /// let axes = Axes::mrope_interleaved(128, [24, 20, 20]);
    /// let qwen3_vl = Frequencies::new(axes, 5e6, &Scaling::Default)?;
    /// assert_eq!((qwen3_vl.rotary_dim(), qwen3_vl.axes()), (128, 3));
    /// let gpt_oss = Scaling::Yarn(Yarn { truncate: false, ..Yarn::new(32.0, 4096) });
    /// assert_eq!(Frequencies::new(64, 150_000.0, &gpt_oss)?.attention_factor(), 1.3465735902799727);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) for a number of channels that `axes` or the scaling
    /// cannot rotate; [`FrequenciesError::Axes`] for axes that do not add up; [`Error::Parameter`] and
    /// [`Error::ListEntry`] for a number out of range; [`Error::Count`] for a list whose length differs from the pairs
    /// (of one set of base frequencies); [`FrequenciesError::TurnsPerPosition`] for a pair with 32768 turns per
    /// position or more; and [`Error::OutOfMemory`].
    #[doc(alias = "rope_theta")]
    pub fn new<'x>(axes: impl Into<Axes<'x>>, base: f64, scaling: &Scaling<'_>) -> Result<Self> {
        let axes = axes.into();
        let mut storage = empty_chunks(FrequencyChunk::count(2 * axes.pairs()?))?;
        let made = make(&mut storage, axes, base, scaling)?;
        Ok(made.over(storage))
    }

    /// Creates frequencies from a model file or learned parameters: one inverse frequency (radians per position) for
    /// each pair, in `f32`, `f64` or any type that converts to `f64`, and exact from there on. Negative ones rotate the
    /// other way; zeros do not rotate. cos and sin are multiplied by `attention_factor`: 1.0 for a model without one.
    ///
    /// ```
    /// use rope_core::Frequencies;
    ///
    /// let inv_freq: [f32; 4] = [1.0, 0.1, 0.01, 0.001];
    /// let frequencies = Frequencies::from_inverse(8, &inv_freq, 1.0)?;
    /// assert_eq!(frequencies.iter().nth(1).map(|pair| pair.inverse_f32), Some(0.1));
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) and [`FrequenciesError::Axes`] as
    /// [`Frequencies::new`]; [`Error::Count`] unless there is one number per pair; [`Error::ListEntry`] for a number
    /// that is not finite; [`Error::Parameter`] for an attention factor that is not positive;
    /// [`FrequenciesError::TurnsPerPosition`] for a pair with 32768 turns per position or more; and
    /// [`Error::OutOfMemory`].
    #[doc(alias = "inv_freq")]
    pub fn from_inverse<'x, T: Copy + Into<f64>>(
        axes: impl Into<Axes<'x>>,
        inverse: &[T],
        attention_factor: f64,
    ) -> Result<Self> {
        let axes = axes.into();
        let mut storage = empty_chunks(FrequencyChunk::count(2 * axes.pairs()?))?;
        let made = take(&mut storage, axes, inverse, attention_factor)?;
        Ok(made.over(storage))
    }
}

impl<'a> Frequencies<'a> {
    /// Computes [`Frequencies::new`] in the caller's storage. Uses its first [`FrequencyChunk::count`] elements.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::new`], and [`Error::Storage`] if the storage is too short.
    pub fn new_in<'x>(
        storage: &'a mut [FrequencyChunk],
        axes: impl Into<Axes<'x>>,
        base: f64,
        scaling: &Scaling<'_>,
    ) -> Result<Self> {
        let axes = axes.into();
        let chunks = fitting(storage, FrequencyChunk::count(2 * axes.pairs()?))?;
        let made = make(chunks, axes, base, scaling)?;
        Ok(made.over(&*chunks))
    }

    /// Computes [`Frequencies::from_inverse`] in the caller's storage. Uses its first [`FrequencyChunk::count`]
    /// elements.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::from_inverse`], and [`Error::Storage`] if the storage is too short.
    pub fn from_inverse_in<'x, T: Copy + Into<f64>>(
        storage: &'a mut [FrequencyChunk],
        axes: impl Into<Axes<'x>>,
        inverse: &[T],
        attention_factor: f64,
    ) -> Result<Self> {
        let axes = axes.into();
        let chunks = fitting(storage, FrequencyChunk::count(2 * axes.pairs()?))?;
        let made = take(chunks, axes, inverse, attention_factor)?;
        Ok(made.over(&*chunks))
    }

    /// Sets the definition of the angle.
    #[must_use]
    pub fn with_angle(self, angle: Angle) -> Self {
        Self { angle, ..self }
    }

    /// Sets the backend that computes rows: the same bits at another speed.
    ///
    /// # Errors
    ///
    /// [`PlanError::BackendUnavailable`](crate::error::PlanError::BackendUnavailable) if this CPU, or this build,
    /// cannot run it.
    pub fn with_backend(self, backend: Backend) -> Result<Self> {
        Ok(Self {
            proof: backend.required()?,
            ..self
        })
    }

    /// Sets the attention factor ([`Frequencies::attention_factor`]).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless it is positive and its products with cos and sin are finite `f32`.
    pub fn with_attention_factor(self, factor: f64) -> Result<Self> {
        Ok(Self {
            attention_factor: frequency::attention_factor(factor)?,
            ..self
        })
    }

    /// Sets the softmax factor, which is only reported ([`Frequencies::softmax_factor`]): 1.0 for a model whose
    /// attention has none, whatever its scaling.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless it is positive and finite.
    pub fn with_softmax_factor(self, factor: f64) -> Result<Self> {
        Ok(Self {
            softmax_factor: frequency::positive("softmax_factor", factor)?.to_f64(),
            ..self
        })
    }

    /// Selects pairs: for each new pair, the index of a pair here and the axis (of `axes`) that it follows. A pair may
    /// serve several axes, or none. Covers arrangements that no [`Axes`] has.
    ///
    /// ```
    /// use rope_core::{Frequencies, Scaling};
    ///
    /// // Two axes that share a set of two frequencies, the column (axis 1) first.
    /// let set = Frequencies::new(4, 100.0, &Scaling::Default)?;
    /// let frequencies = set.arranged(2, &[(0, 1), (1, 1), (0, 0), (1, 0)])?;
    /// let pairs = frequencies.iter().map(|pair| (pair.inverse, pair.axis));
    /// assert_eq!(pairs.collect::<Vec<_>>(), [(1.0, 1), (0.1, 1), (1.0, 0), (0.1, 0)]);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FrequenciesError::Axes`] unless there are 1 to 4 axes and each of `pairs` names one of them;
    /// [`ShapeError::Range`] of the channels for an index beyond the pairs here;
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) for no pairs or more than 32768;
    /// [`Error::OutOfMemory`].
    #[cfg(feature = "alloc")]
    pub fn arranged(&self, axes: usize, pairs: &[(usize, usize)]) -> Result<Frequencies<'static>> {
        use super::axes;
        use crate::kernel::sincos::chunk::Entry;

        if axes > axes::MAX_AXES || pairs.iter().any(|&(_, axis)| axis >= axes) {
            return Err(Error::Frequencies(FrequenciesError::Axes {
                given: axes,
                required: "1 to 4, and each pair on one of them",
            }));
        }
        if let Some(&(source, _)) = pairs.iter().find(|&&(source, _)| source >= self.pairs) {
            return Err(Error::Shape(ShapeError::Range {
                dimension: crate::Dimension::Channels,
                start: source.saturating_mul(2),
                end: source.saturating_mul(2).saturating_add(2),
                extent: self.rotary_dim(),
            }));
        }
        let rotary_dim = pairs.len().saturating_mul(2);
        axes::pairs_of(rotary_dim)?;
        let mut chunks = empty_chunks(FrequencyChunk::count(rotary_dim))?;
        for (pair, &(source, axis)) in pairs.iter().enumerate() {
            let entry = self.chunks[source / 8].get(source % 8);
            let axis = axis as u8;
            chunks[pair / 8].set(pair % 8, Entry { axis, ..entry });
        }
        Ok(Frequencies {
            reach: FrequencyChunk::reach(&chunks),
            pairs: pairs.len(),
            axes,
            chunks: chunks.into(),
            ..*self
        })
    }

    /// Returns the definition of the angle.
    pub fn angle(&self) -> Angle {
        self.angle
    }

    /// Iterates over the frequencies of the pairs, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Frequency> + '_ {
        (0..self.pairs).map(|pair| Frequency::from_entry(self.chunks[pair / 8].get(pair % 8)))
    }

    /// Returns the number of rotated channels of a head, two per pair.
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }

    /// Returns the number of axes of a position: 1 for text, 2 for images, 3 or 4 for video and multimodal decoders.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Returns the factor on cos and sin (YaRN's and LongRoPE's `attention_factor`): 1.0 for most models.
    #[doc(alias("mscale", "attention_scaling"))]
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }

    /// Returns the factor of DeepSeek-V2 and V3 on the scale of the softmax, beside the attention factor: the square of
    /// YaRN's magnitude scaling for `mscale_all_dim`. The attention must apply it; it is no part of the rotation. 1.0
    /// without `mscale_all_dim`.
    #[doc(alias = "mscale_all_dim")]
    pub fn softmax_factor(&self) -> f64 {
        self.softmax_factor
    }
}
