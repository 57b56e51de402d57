//! Frequencies, and rows computed from them.

use super::count::Count;

errors! {
    /// Frequencies: their values, their axes, or the rows that are computed from them.
    ///
    /// [`Error::Frequencies`](crate::Error::Frequencies) holds it.
    ///
    /// ```
    /// # #[cfg(feature = "alloc")] {
    /// use rope_core::error::FrequenciesError;
    /// use rope_core::{Error, Frequencies};
    ///
    /// // A pair that turns by more than 32768 turns from a position to the next.
    /// let error = Frequencies::from_inverse(2, &[1e6], 1.0).unwrap_err();
    /// let expected = FrequenciesError::TurnsPerPosition { pair: 0, inverse: 1e6 };
    /// assert_eq!(error, Error::Frequencies(expected));
    /// # };
    /// ```
    pub enum FrequenciesError =>
    /// [`Frequencies::new`](crate::Frequencies::new): one position would rotate a pair by 32768 turns or more, which
    /// no model means and no coordinate resolves.
    TurnsPerPosition {
        /// The pair.
        pair: usize,
        /// Its inverse frequency in radians.
        inverse: f64,
    }: Value =>
        "the inverse frequency of pair {pair} is {inverse:?}; its magnitude must be below 205887.4, which is 32768 \
         turns per position",
    /// [`Frequencies::new`](crate::Frequencies::new): the [`Axes`](crate::axes::Axes) do not add up.
    Axes {
        /// The number of axes, or of pairs, that is wrong.
        given: usize,
        /// The requirement.
        required: &'static str,
    }: Value => "the axes must be {required}; given: {given}",
    /// M-RoPE, by [`Axes::mrope`](crate::axes::Axes::mrope) and the like: the sections are not the pairs of the
    /// channels that rotate.
    Sections {
        /// The sections, in pairs; zeros after the last one.
        sections: [usize; 4],
        /// The number of sections.
        axes: u8,
        /// Channels that rotate; `u32::MAX` beyond that.
        rotary_dim: u32,
    }: Value => |f| {
        let given = sections.get(..axes.into()).unwrap_or_default();
        let pairs = given.iter().fold(0_usize, |sum, &n| sum.saturating_add(n));
        write!(
            f,
            "the sections {given:?} of M-RoPE sum to {}, but rotary_dim {rotary_dim} has {}; where the other \
             channels stand still, rotary_dim is {}",
            Count(pairs, "pairs"),
            rotary_dim / 2,
            pairs.saturating_mul(2)
        )
    },
    /// [`TokenAngles::rows`](crate::TokenAngles::rows), `rows_in`: more values than memory can be asked for.
    RowsTooLong {
        /// Rows asked for.
        tokens: usize,
        /// Values of a row.
        rotary_dim: usize,
    }: Capacity => |f| write!(
        f,
        "{tokens} rows of {rotary_dim} values are more than isize::MAX ({}) bytes; compute fewer rows at a time",
        isize::MAX
    ),
    /// A call by [`TokenAngles`](crate::TokenAngles): a row is longer than what is kept on the stack.
    RotaryDimOnStack {
        /// Values of a row.
        rotary_dim: usize,
        /// The most there is room for.
        limit: usize,
    }: Capacity =>
        "rotary_dim is {rotary_dim}; rows that are computed on the stack have at most {limit} channels; make wider ones \
         before the call",
}
