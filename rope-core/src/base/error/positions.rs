//! Lists of positions.

use super::count::{Are, Count};

errors! {
    /// A list of positions.
    ///
    /// [`Error::Positions`](crate::Error::Positions) holds it.
    ///
    /// ```
    /// use rope_core::error::PositionsError;
    /// use rope_core::{Error, Positions};
    ///
    /// let error = Positions::packed(&[0, 5, 3]).unwrap_err();
    /// assert_eq!(error, Error::Positions(PositionsError::Offsets { index: 2, offset: 3 }));
    /// ```
    pub enum PositionsError =>
    /// [`Frequencies::at`](crate::Frequencies::at), `rows`, `shift`: a list of positions for several
    /// axes whose length does not divide by their number; one number per token for
    /// [`MixedFrequencies`](crate::axes::MixedFrequencies) on several axes.
    PerAxis {
        /// Numbers in the list.
        given: usize,
        /// Axes of the frequencies.
        axes: usize,
    }: Shape => |f| write!(
        f,
        "{} {} not one per axis for each token on {}; give those of all axes to Positions::axis_major or \
         Positions::token_major",
        Count(given, "positions"),
        Are(given),
        Count(axes, "axes")
    ),
    /// [`DualChunk::positions`](crate::dual_chunk::DualChunk::positions): not one integer per token.
    DualChunk: Value =>
        "positions for Dual Chunk Attention are one integer per token, neither on several axes nor real nor of chunks \
         already; give the ids of the tokens",
    /// [`Frequencies::shift_from`](crate::Frequencies::shift_from), slots that are found by positions: a position that
    /// is a coordinate, and not an integer.
    NotAnInteger {
        /// The first coordinate.
        value: f64,
    }: Value => "the coordinate {value} is not an integer; shifts and slots need integer positions",
    /// [`Frequencies::at`](crate::Frequencies::at), `rows`, `shift`: a coordinate that is not a
    /// number, or beyond 2^63.
    Coordinate {
        /// Index in the list.
        index: usize,
        /// The coordinate.
        value: f64,
    }: Value =>
        "coordinate {index} is {value:?}; it must be within -2^63..=2^63, where its cos and sin are correctly rounded",
    /// [`Positions::packed`](crate::Positions::packed): the first offset is not 0, or one is below the one before.
    Offsets {
        /// Index of the offset.
        index: usize,
        /// The offset.
        offset: i64,
    }: Value => "offset {index} is {offset}; offsets start at 0 and never fall",
}
