//! Rows of cos and sin.

use super::count::{Are, Count};

errors! {
    /// Rows of cos and sin: their values, their number, or what they are used for.
    ///
    /// [`Error::Rows`](crate::Error::Rows) holds it.
    ///
    /// ```
    /// use rope_core::error::RowsError;
    /// use rope_core::{Error, Rows};
    ///
    /// // Three values are not two rows of two.
    /// let error = Rows::new(&[1.0, 0.0, 1.0], [2, 2]).unwrap_err();
    /// assert_eq!(error, Error::Rows(RowsError::Shape { len: 3, rows: 2, width: 2 }));
    /// ```
    pub enum RowsError =>
    /// [`Rows`](crate::Rows) and [`Frequencies`](crate::Frequencies) constructors: the number of rotated channels is
    /// odd, zero or too large, or the scaling needs more of them.
    RotaryDim {
        /// The value refused.
        rotary_dim: usize,
        /// The requirement.
        required: &'static str,
    }: Value => "rotary_dim is {rotary_dim}, but must be {required}",
    /// [`Rope`](crate::Rope)'s rotations: the rows rotate more channels than a head has.
    RotaryDimExceedsHead {
        /// Channels that the rows rotate.
        rotary_dim: usize,
        /// Channels of a head.
        head_dim: usize,
    }: Shape => |f| {
        let most = Count(head_dim, "channels");
        write!(f, "rotary_dim {rotary_dim} exceeds head_dim {head_dim}; give rows of at most {most}, or whole heads")
    },
    /// [`Rope::with_window`](crate::Rope::with_window): a head ends before the channels that the rows rotate from the
    /// window on.
    Window {
        /// The first rotated channel.
        first_channel: usize,
        /// Channels that the rows rotate.
        rotary_dim: usize,
        /// Channels of a head.
        head_dim: usize,
    }: Shape => |f| {
        let end = first_channel.saturating_add(rotary_dim);
        write!(
            f,
            "the rows rotate {rotary_dim} channels from the plan's window on, {first_channel}..{end}, but head_dim is \
             {head_dim}; "
        )?;
        match head_dim.checked_sub(rotary_dim) {
            Some(most) => write!(f, "set Rope::with_window to at most {most}, or give narrower rows"),
            None => write!(f, "give rows of at most {}, or whole heads", Count(head_dim, "channels")),
        }
    },
    /// [`Rope::with_parts`](crate::Rope::with_parts): the parts of a window do not divide the pairs of the rows.
    Parts {
        /// Parts of the plan's window.
        parts: usize,
        /// Channels that the rows rotate.
        rotary_dim: usize,
    }: Shape => |f| write!(
        f,
        "parts is {parts}; it must divide the {} of the rows (rotary_dim {rotary_dim}), as 1 does; set it by \
         Rope::with_parts, or give rows of another width",
        Count(rotary_dim / 2, "pairs")
    ),
    /// [`Rows::new`](crate::Rows::new), `from_vec`, `from_cos_sin`: a slice has more or fewer values than its shape.
    Shape {
        /// Length of the slice: of each, where cos and sin have one each.
        len: usize,
        /// Rows of the shape.
        rows: usize,
        /// Values of a row of the shape.
        width: usize,
    }: Shape => |f| {
        let values = Count(rows.saturating_mul(width), "values");
        write!(f, "shape [{rows}, {width}] has {values}, but the slice has {len}")?;
        match len.checked_div(width) {
            Some(rows) if rows * width == len => write!(f, ", which is [{rows}, {width}]"),
            _ => Ok(()),
        }
    },
    /// [`Rows::new`](crate::Rows::new), `from_vec`: both halves of a row are the same, so it is no row of cos and then
    /// sin.
    HalvesEqual {
        /// The row.
        row: usize,
        /// Its values.
        width: usize,
    }: Value => |f| write!(
        f,
        "row {row} has the same {} in both of its halves, so it is `cat(freqs, freqs)` of cos or of sin alone, \
         not cos and then sin; give both to Rows::from_cos_sin",
        Count(width / 2, "values")
    ),
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): the cos and sin slices differ in length.
    CosSinLength {
        /// Length of the cos slice.
        cos: usize,
        /// Length of the sin slice.
        sin: usize,
    }: Shape => |f| write!(f, "cos has {} and sin has {sin}; they must have as many", Count(cos, "values")),
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): a row has neither a value for each pair nor two.
    Width {
        /// Values of a row of cos (or sin).
        width: usize,
        /// Channels that a row rotates.
        rotary_dim: usize,
    }: Shape => |f| write!(
        f,
        "rows of {width} cos are not for rotary_dim {rotary_dim}: they have {} (each kept once) or {rotary_dim} (each \
         kept twice, `cat(freqs, freqs)`)",
        rotary_dim / 2
    ),
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): a row that should keep each value twice, in two halves that
    /// are the same, does not.
    HalvesDiffer {
        /// The row.
        row: usize,
        /// The first pair that differs.
        pair: usize,
    }: Value =>
        "row {row} has another value for pair {pair} in its second half than in its first, so it is not \
         `cat(freqs, freqs)`; of `repeat_interleave(2)` take every second value",
    /// [`Rope`](crate::Rope)'s rotations: neither one row per token nor one per token of every sequence.
    Count {
        /// Rows given.
        rows: usize,
        /// Tokens of a sequence.
        tokens: usize,
        /// Sequences of the batch.
        batch: usize,
    }: Shape => |f| {
        let all = batch.saturating_mul(tokens);
        let counted = Count(tokens, "tokens");
        write!(f, "the number of rows is {rows}; for batch {batch} and {counted} it must be {tokens}")?;
        match all == tokens {
            true => f.write_str(", one per token")?,
            false => write!(f, " (one per token, for all sequences) or {all} (one per token of each sequence)")?,
        }
        match rows {
            1 => f.write_str("; Rows::repeated gives one row to all tokens"),
            _ => Ok(()),
        }
    },
    /// [`Rows::with_heads`](crate::Rows::with_heads), [`Rows::strided`](crate::Rows::strided): the number of rows
    /// is not a multiple of the number of heads.
    PerHead {
        /// Rows given.
        rows: usize,
        /// Heads asked for.
        heads: usize,
    }: Shape => |f| match heads {
        0 => write!(f, "heads is 0; {} per head are for at least one head", Count(rows, "rows")),
        _ => write!(f, "the number of rows is {rows}, which is not a multiple of {}", Count(heads, "heads")),
    },
    /// Rows per head, for another number of heads than the tensor has.
    Heads {
        /// Heads that have a row each.
        rows: usize,
        /// Heads that they are to be for.
        heads: usize,
    }: Shape => |f| {
        let (rows, required) = (Count(rows, "heads"), Count(heads, "heads"));
        write!(f, "the rows are per head, for {rows}, but {required} {} required", Are(heads))
    },
    /// [`Rows::strided`](crate::Rows::strided): sequences that lie apart in memory are used as what they are not, by a
    /// rotation of other sequences, as a table, or by a range across them.
    Sequences {
        /// Sequences that have rows.
        sequences: usize,
        /// Tokens of each.
        tokens: usize,
    }: Shape => |f| {
        let (sequences, tokens) = (Count(sequences, "sequences"), Count(tokens, "tokens"));
        write!(
            f,
            "the rows are laid out for {sequences} of {tokens}, and rotate tensors of that shape; for others take the \
             rows of one sequence by Rows::narrow"
        )
    },
    /// [`Direction::Inverse`](crate::Direction::Inverse): a pair of given rows has another magnitude than the attention
    /// factor that it divides by. [`Rows::inverted`](crate::Rows::inverted) makes the rows that undo them.
    Magnitude {
        /// The row.
        row: usize,
        /// The head whose row it is; 0 where heads share it.
        head: usize,
        /// The pair.
        pair: u32,
        /// Its cos.
        cos: f32,
        /// Its sin.
        sin: f32,
        /// The attention factor, whose square `cos^2 + sin^2` should be.
        factor: f64,
    }: Operation =>
        "pair {pair} of row {row} (head {head}) has cos {cos} and sin {sin}, whose magnitude is not the attention \
         factor {factor} that Direction::Inverse divides by; use Rows::inverted",
    /// [`Rows::inverted`](crate::Rows::inverted): no f32 undo a pair.
    NoInverse {
        /// The row.
        row: usize,
        /// The head whose row it is; 0 where heads share it.
        head: usize,
        /// The pair.
        pair: usize,
        /// Its cos.
        cos: f32,
        /// Its sin.
        sin: f32,
    }: Value => "pair {pair} of row {row} (head {head}) has cos {cos:?} and sin {sin:?}; no cos and sin in f32 undo it",
    /// [`Rows::gather`](crate::Rows::gather): an id that names no row of the table.
    PositionOutsideTable {
        /// Index of the id in the list.
        index: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    }: Index => "position id {id} (at index {index}) is outside the table's 0..{rows}",
    /// [`Rows::gather`](crate::Rows::gather) and [`Rows::with_heads`](crate::Rows::with_heads) of rows that are a
    /// gathering themselves.
    AlreadyGathered: Operation => "the rows are gathered by id already; gather them from the table, once",
    /// [`Rows::narrow`](crate::Rows::narrow): the range is not inside the rows.
    Range {
        /// First row asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Rows there are.
        rows: usize,
    }: Shape => "rows {start}..{end} are not inside 0..{rows}",
    /// [`Rows::with_attention_factor`](crate::Rows::with_attention_factor): zero, infinite or not a number.
    AttentionFactor {
        /// The value refused.
        factor: f64,
    }: Value => "the attention factor is {factor}; it must be finite and not zero",
    /// [`Direction::Inverse`](crate::Direction::Inverse), or a rotation of keys that stay in a cache: the rows are
    /// [`FullRows`](crate::FullRows).
    FullWidth {
        /// The operation.
        operation: &'static str,
    }: Operation =>
        "{operation} requires rows with one angle per pair, but these are full-width: they have one per channel, which \
         is no rotation; Direction::Transpose takes gradients back, Rope::channel_gradients sums those of cos and sin, \
         and rotate_into rotates keys as they are read",
}
