//! Every way a call can be refused: an error is one entry of the list below.

use core::fmt;

use crate::base::limits::MOST_CHANNELS;
use crate::{Backend, Dimension, Direction, Pairing, Shape};

/// What may be refused.
pub(crate) type Result<T, E = Error> = core::result::Result<T, E>;

/// Writes an error as `derive` would.
fn show(f: &mut fmt::Formatter<'_>, name: &str, fields: &[(&str, &dyn fmt::Debug)]) -> fmt::Result {
    let mut shown = f.debug_struct(name);
    for (name, value) in fields {
        shown.field(name, value);
    }
    shown.finish()
}

/// Makes of one list the errors, their messages and their names: `Variant { fields } => what writes the message`, in
/// which `$f` is the formatter and the fields have their names.
macro_rules! errors {
    ($f:ident =>
        $(
            $(#[doc = $doc:literal])+
            $name:ident $({ $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ })? => $message:expr,
        )+
    ) => {
        /// Why a call was refused. A refused call has written nothing.
        ///
        /// ```
        /// use rope_core::{Error, Tensor};
        ///
        /// // A message names the value, what is required, and where it helps the way out.
        /// let error = Tensor::new(&[0.0_f32; 128], [1, 1, 3, 64]).unwrap_err();
        /// assert!(matches!(error, Error::ShapeElements { len: 128, .. }));
        /// let message = "shape [1, 1, 3, 64] has 192 elements, but the slice has 128 (heads would be 2)";
        /// assert_eq!(error.to_string(), message);
        /// ```
        #[derive(Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum Error {
            $(
                $(#[doc = $doc])+
                $name $({ $($(#[doc = $field_doc])+ $field: $type,)+ })?,
            )+
        }

        impl Error {
            /// The names of all errors, for [`internals::ERRORS`](crate::internals::ERRORS).
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];
        }

        // What is derived is compiled again in every crate that shows an error.
        impl fmt::Debug for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(
                        Error::$name $({ $($field),+ })? => {
                            show(f, stringify!($name), &[$($((stringify!($field), $field)),+)?])
                        }
                    )+
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(
                                Error::$name $({ $($field),+ })? => $message,
                    )+
                }
            }
        }
    };
}

errors! { f =>
    /// A [`Layout`](crate::Layout) constructor, [`Rows::strided`](crate::Rows::strided): the number of elements, or a
    /// stride that follows from the shape, does not fit `usize`.
    ShapeOverflow {
        /// The shape asked for.
        shape: Shape,
    } => write!(f, "shape {shape} has indices or strides beyond usize::MAX ({})", usize::MAX),
    /// [`Layout::strided`](crate::Layout::strided): the index of the last element does not fit `usize`.
    StrideOverflow {
        /// The dimension that reaches farthest.
        dimension: Dimension,
        /// Its extent.
        extent: usize,
        /// Its stride.
        stride: usize,
    } => write!(
        f,
        "stride {stride} of {dimension}, with the extent {extent}, leads to indices beyond usize::MAX ({})",
        usize::MAX
    ),
    /// [`Tensor::new`](crate::Tensor::new), [`TensorMut::new`](crate::TensorMut::new): the layout reaches past
    /// the slice.
    OutOfBounds {
        /// Elements the layout needs.
        needed: usize,
        /// Elements the slice has.
        len: usize,
    } => write!(f, "the layout needs {needed} elements, the slice has {len}"),
    /// [`Tensor::new`](crate::Tensor::new), [`TensorMut::new`](crate::TensorMut::new),
    /// [`Rows::strided`](crate::Rows::strided): a shape has more or fewer elements than the slice.
    ShapeElements {
        /// The shape asked for.
        shape: Shape,
        /// Elements the slice has.
        len: usize,
    } => {
        // A shape that has no number of elements is refused before.
        let elements = shape.elements().unwrap_or(usize::MAX);
        write!(f, "shape {shape} has {elements} elements, but the slice has {len}")?;
        // Of grouped queries: the number of heads that the slice has.
        let head = Shape { heads: 1, ..shape }.elements().unwrap_or(0);
        if len > 0 && head > 0 && len.is_multiple_of(head) {
            write!(f, " (heads would be {})", len / head)?;
        }
        if len > elements {
            f.write_str("; use Layout::bshd for a part of a larger slice")?;
        }
        Ok(())
    },
    /// [`TensorMut::new`](crate::TensorMut::new), [`Rope::sum_of_squares`](crate::Rope::sum_of_squares) of rows: a step
    /// along `dimension` lands inside the elements of the dimensions below it, so that two indices could name one
    /// element.
    Overlap {
        /// The dimension whose stride is too short.
        dimension: Dimension,
        /// Its stride, in elements.
        stride: usize,
        /// The least stride with which it nests among the other dimensions, as they are.
        needed: usize,
    } => write!(
        f,
        "stride {stride} of {dimension} lets elements overlap that must be distinct; it must be at least {needed}"
    ),
    /// [`Layout::narrow`](crate::Layout::narrow) and `split_at` of the tensors: the range is not inside the dimension.
    Range {
        /// The dimension.
        dimension: Dimension,
        /// First index asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Extent of the dimension.
        extent: usize,
    } => write!(f, "range {start}..{end} of {dimension} is not inside 0..{extent}"),
    /// [`TensorMut::split_at`](crate::TensorMut::split_at): the two parts interleave in memory, so that they cannot
    /// be two slices. Split the dimension with the largest stride first.
    PartsInterleave {
        /// The dimension that was to be split.
        dimension: Dimension,
    } => write!(
        f,
        "the parts of a split along {dimension} interleave in memory; \
         split the dimension with the largest stride first"
    ),
    /// [`Rows`](crate::Rows) and [`Frequencies`](crate::Frequencies) constructors: the number of rotated channels is
    /// odd, zero or too large, or the scaling needs more of them.
    RotaryDim {
        /// The value refused.
        rotary_dim: usize,
        /// What it has to be.
        required: &'static str,
    } => write!(f, "rotary_dim is {rotary_dim}, but must be {required}"),
    /// [`Rope`](crate::Rope)'s rotations: the rows rotate more channels than a head has.
    RotaryDimExceedsHead {
        /// Channels that the rows rotate.
        rotary_dim: usize,
        /// Channels of a head.
        head_dim: usize,
    } => write!(f, "rotary_dim {rotary_dim} exceeds head_dim {head_dim}"),
    /// [`Rows::new`](crate::Rows::new), `from_vec`, `from_cos_sin`: a slice has more or fewer values than its shape.
    RowsShape {
        /// Length of the slice: of each, where cos and sin have one each.
        len: usize,
        /// Rows of the shape.
        rows: usize,
        /// Values of a row of the shape.
        width: usize,
    } => {
        let values = rows.saturating_mul(width);
        write!(f, "shape [{rows}, {width}] has {values} values, but the slice has {len}")?;
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
    } => write!(
        f,
        "row {row} has the same {} values in both of its halves, so it is `cat(freqs, freqs)` of cos or of sin alone, \
         not cos and then sin; give both to Rows::from_cos_sin",
        width / 2
    ),
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): the cos and sin slices differ in length.
    CosSinLength {
        /// Length of the cos slice.
        cos: usize,
        /// Length of the sin slice.
        sin: usize,
    } => write!(f, "{cos} cos values beside {sin} sin values"),
    /// [`Rows::from_cos_sin`](crate::Rows::from_cos_sin): a row has neither a value for each pair nor two.
    RowWidth {
        /// Values of a row of cos (or sin).
        width: usize,
        /// Channels that a row rotates.
        rotary_dim: usize,
    } => write!(
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
    } => write!(
        f,
        "row {row} has another value for pair {pair} in its second half than in its first, so it is not \
         `cat(freqs, freqs)`; of `repeat_interleave(2)` take every second value"
    ),
    /// [`Rope`](crate::Rope)'s rotations: neither one row per token nor one per token of every sequence.
    RowCount {
        /// Rows given.
        rows: usize,
        /// Tokens of a sequence.
        tokens: usize,
        /// Sequences of the batch.
        batch: usize,
    } => {
        let all = batch.saturating_mul(tokens);
        write!(f, "the number of rows is {rows}; for batch {batch} and {tokens} tokens it must be {tokens}")?;
        match all == tokens {
            true => f.write_str(", one per token"),
            false => write!(f, " (one per token, for all sequences) or {all} (one per token of each sequence)"),
        }
    },
    /// [`Rows::with_heads`](crate::Rows::with_heads), [`Rows::strided`](crate::Rows::strided): the number of rows
    /// is not a multiple of the number of heads.
    RowsPerHead {
        /// Rows given.
        rows: usize,
        /// Heads asked for.
        heads: usize,
    } => match heads {
        0 => write!(f, "heads is 0; {rows} rows per head are for at least one head"),
        _ => write!(f, "the number of rows is {rows}, which is not a multiple of {heads} heads"),
    },
    /// Rows per head, for another number of heads than the tensor has.
    RowHeads {
        /// Heads that have a row each.
        rows: usize,
        /// Heads that they are to be for.
        heads: usize,
    } => write!(f, "the rows are per head, for {rows} heads, but {heads} heads are required"),
    /// [`Rows::strided`](crate::Rows::strided): sequences that lie apart in memory are used as what they are not, by a
    /// rotation of other sequences, as a table, or by a range across them.
    RowSequences {
        /// Sequences that have rows.
        sequences: usize,
        /// Tokens of each.
        tokens: usize,
    } => write!(
        f,
        "the rows are laid out for {sequences} sequences of {tokens} tokens, and rotate tensors of that shape; for \
         others take the rows of one sequence by Rows::range"
    ),
    /// [`Direction::Inverse`]: a pair of given rows has another magnitude than the attention
    /// factor that it divides by. [`Rows::inverted`](crate::Rows::inverted) makes the rows that undo them.
    RowMagnitude {
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
        /// The attention factor, whose square `cos^2 + sin^2` should be.
        factor: f64,
    } => write!(
        f,
        "pair {pair} of row {row} (head {head}) has cos {cos} and sin {sin}, whose magnitude is not the attention \
         factor {factor} that Direction::Inverse divides by; use Rows::inverted"
    ),
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
    } => write!(
        f,
        "pair {pair} of row {row} (head {head}) has cos {cos:?} and sin {sin:?}; no cos and sin in f32 undo it"
    ),
    /// [`Rows::gather`](crate::Rows::gather): an id that names no row of the table.
    PositionOutsideTable {
        /// Index of the id in the list.
        index: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    } => write!(f, "position id {id} (at index {index}) is outside the table's 0..{rows}"),
    /// [`Rows::gather`](crate::Rows::gather) and [`Rows::with_heads`](crate::Rows::with_heads) of rows that are a
    /// gathering themselves.
    AlreadyGathered => f.write_str("the rows are gathered by id already; gather them from the table, once"),
    /// [`Rows::range`](crate::Rows::range): the range is not inside the rows.
    RowRange {
        /// First row asked for.
        start: usize,
        /// End of the range asked for (one past the last).
        end: usize,
        /// Rows there are.
        rows: usize,
    } => write!(f, "rows {start}..{end} are not inside 0..{rows}"),
    /// [`Rows::with_attention_factor`](crate::Rows::with_attention_factor): zero, infinite or not a number.
    AttentionFactor {
        /// The value refused.
        factor: f64,
    } => write!(f, "the attention factor is {factor}; it must be finite and not zero"),
    /// [`Rope::rotate`](crate::Rope::rotate) and the other verbs that work in place, of a plan whose output pairing
    /// is another than its input pairing: use [`Rope::rotate_into`](crate::Rope::rotate_into).
    PairingChangesInPlace {
        /// The plan's input pairing.
        input: Pairing,
        /// The plan's output pairing.
        output: Pairing,
    } => write!(
        f,
        "the plan reads {input} pairs and its output_pairing is {output}, which no call in place can change; use one \
         that writes another tensor, as rotate_into, or leave out output_pairing"
    ),
    /// [`Rope::backward`](crate::Rope::backward): the plan does not rotate forward, so it has no backward pass here.
    BackwardDirection {
        /// The plan's direction.
        direction: Direction,
    } => write!(f, "a backward pass requires a plan with Direction::Forward, but its direction is {direction}"),
    /// [`Gradients::CosSin`](crate::gradient::Gradients::CosSin),
    /// [`Gradients::Channels`](crate::gradient::Gradients::Channels): the plan's output pairing is another than its
    /// input pairing.
    GradientPairing {
        /// The plan's input pairing.
        input: Pairing,
        /// The plan's output pairing.
        output: Pairing,
    } => write!(
        f,
        "gradients of cos and sin require a plan with one pairing, but its input pairing is {input} and its output_pairing \
         {output}; use Gradients::Angles, Gradients::Factors and PairGradients::cos_sin"
    ),
    /// The number of heads of the gradients is neither 1 nor the tensor's.
    GradientHeads {
        /// Heads of the gradients.
        gradients: usize,
        /// Heads of the tensor.
        heads: usize,
    } => write!(f, "the gradients have {gradients} heads, the tensor has {heads}; give one for all heads, or one per head"),
    /// Gradients of another shape than the rows, or than other gradients.
    GradientShape {
        /// What there are more or fewer of: rows, heads or pairs.
        what: &'static str,
        /// How many the gradients have.
        given: usize,
        /// How many they should have.
        needed: usize,
    } => write!(f, "the gradients have {given} {what}, but {needed} are required"),
    /// [`PairGradients::cos_sin`](crate::gradient::PairGradients::cos_sin): cos and sin are both zero, so the rotated
    /// tensor says nothing of them.
    RowOfZeros {
        /// The row.
        row: usize,
        /// The head that has it; 0 of a row that all heads share.
        head: usize,
        /// The pair.
        pair: usize,
    } => write!(f, "cos and sin of pair {pair} of row {row} (head {head}) are both zero; one must not be"),
    /// [`Rope::rotate_into`](crate::Rope::rotate_into): source and target have different shapes.
    ShapeMismatch {
        /// The first dimension in which they differ.
        dimension: Dimension,
        /// Its extent in the source.
        source: usize,
        /// Its extent in the target.
        target: usize,
    } => write!(
        f,
        "source and target must have one shape, but {dimension} is {source} in the source and {target} in the target"
    ),
    /// [`Rope::rotate_qk`](crate::Rope::rotate_qk): Q and K have different numbers of sequences, tokens or channels.
    QueryKeyMismatch {
        /// The first dimension in which they differ.
        dimension: Dimension,
        /// Its extent in Q.
        query: usize,
        /// Its extent in K.
        key: usize,
    } => write!(f, "Q and K may differ in their heads alone, but {dimension} is {query} in Q and {key} in K"),
    /// [`Rope::backend`](crate::Rope::backend): this CPU, or this build, lacks the instruction set.
    BackendUnavailable {
        /// The backend asked for.
        backend: Backend,
    } => {
        write!(f, "backend {backend} is not available here; there are:")?;
        Backend::available().try_for_each(|backend| write!(f, " {backend}"))
    },
    /// [`Frequencies::new`](crate::Frequencies::new), `new_in`, `from_inverse`, `from_inverse_in`: a base, factor or
    /// other number that makes no sense.
    Parameter {
        /// The parameter, by its public name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it has to be.
        required: &'static str,
    } => write!(f, "{name} is {}, but must be {required}", Number(value)),
    /// [`Frequencies::new`](crate::Frequencies::new), `new_in`, `from_inverse`, `from_inverse_in`: a number of a list
    /// makes no sense.
    ListEntry {
        /// The list, by its public name.
        name: &'static str,
        /// Where in the list; `u32::MAX` beyond that.
        index: u32,
        /// What was given.
        value: f64,
        /// What it has to be.
        required: &'static str,
    } => write!(f, "{name}[{index}] is {}, but must be {required}", Number(value)),
    /// [`Frequencies::new`](crate::Frequencies::new): a list with one number for each pair (or sequence) has
    /// another length.
    Count {
        /// The list, by its public name.
        name: &'static str,
        /// How many numbers it has.
        given: usize,
        /// How many are needed.
        needed: usize,
    } => write!(f, "{name} has {given} numbers, but {needed} are needed"),
    /// [`Frequencies::new_in`](crate::Frequencies::new_in), `from_inverse_in`, `rows_in`, the scales of
    /// [`CacheMut::quantized`](crate::cache::CacheMut::quantized): the caller's storage is too short.
    Storage {
        /// What it is made of.
        what: &'static str,
        /// How many it has.
        given: usize,
        /// How many are needed.
        needed: usize,
    } => write!(f, "{given} {what} were given, but {needed} are needed"),
    /// [`Frequencies::new`](crate::Frequencies::new): one position would rotate a pair by 32768 turns or more, which
    /// no model means and no coordinate resolves.
    TurnsPerPosition {
        /// The pair.
        pair: usize,
        /// Its inverse frequency in radians.
        inverse: f64,
    } => write!(
        f,
        "the inverse frequency of pair {pair} is {inverse:?}; its magnitude must be below 205887.4, which is 32768 \
         turns per position"
    ),
    /// [`Frequencies::new`](crate::Frequencies::new): the [`Axes`](crate::axes::Axes) do not add up.
    Axes {
        /// What is wrong with them.
        required: &'static str,
    } => write!(f, "the axes must be {required}"),
    /// M-RoPE, by [`Axes::mrope`](crate::axes::Axes::mrope) and the like: the sections are not the pairs of the
    /// channels that rotate.
    Sections {
        /// The sections, in pairs; zeros after the last one.
        sections: [usize; 4],
        /// How many there are.
        axes: u8,
        /// Channels that rotate.
        rotary_dim: usize,
    } => {
        let given = sections.get(..axes.into()).unwrap_or_default();
        let pairs = given.iter().fold(0_usize, |sum, &n| sum.saturating_add(n));
        write!(
            f,
            "the sections {given:?} of M-RoPE sum to {pairs} pairs, but rotary_dim {rotary_dim} has {}; where the other \
             channels stand still, rotary_dim is {}",
            rotary_dim / 2,
            pairs.saturating_mul(2)
        )
    },
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`, `at`: a list of positions for several
    /// axes whose length does not divide by their number; one number per token for
    /// [`MixedFrequencies`](crate::axes::MixedFrequencies) on several axes.
    PositionsPerAxis {
        /// Numbers in the list.
        given: usize,
        /// Axes of the frequencies.
        axes: usize,
    } => write!(
        f,
        "{given} positions are not one per axis for each token on {axes} axes; give those of all axes to \
         Positions::axis_major or Positions::token_major"
    ),
    /// [`Frequencies::shift_from`](crate::Frequencies::shift_from), slots that are found by positions: a position that
    /// is a coordinate, and not an integer.
    NotAnInteger {
        /// The first coordinate.
        value: f64,
    } => write!(f, "the coordinate {value} is not an integer; shifts and slots need integer positions"),
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`, `at`: a coordinate that is infinite or
    /// not a number.
    Coordinate {
        /// Index in the list.
        index: usize,
        /// The coordinate.
        value: f64,
    } => write!(f, "coordinate {index} is {value}, which is not finite"),
    /// [`Positions::packed`](crate::Positions::packed): the first offset is not 0, or one is below the one before.
    Offsets {
        /// Index of the offset.
        index: usize,
        /// The offset.
        offset: i64,
    } => write!(f, "offset {index} is {offset}; offsets start at 0 and never fall"),
    /// [`Frequencies::rows`](crate::Frequencies::rows), `rows_in`: more values than memory can be asked for.
    RowsTooLong {
        /// Rows asked for.
        tokens: usize,
        /// Values of a row.
        rotary_dim: usize,
    } => write!(
        f,
        "{tokens} rows of {rotary_dim} values are more than isize::MAX ({}) bytes",
        isize::MAX
    ),
    /// [`Frequencies::rows`](crate::Frequencies::rows) and the other calls that allocate: the allocator has no memory.
    /// Nothing has been allocated.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    } => write!(
        f,
        "{bytes} bytes could not be allocated; compute fewer rows at a time, or call the function whose name ends with \
         `_in` (rows_in), which takes the caller's storage"
    ),
    /// [`Frequencies::at`](crate::Frequencies::at): a row is longer than what is kept on the stack.
    RotaryDimOnStack {
        /// Values of a row.
        rotary_dim: usize,
        /// The most there is room for.
        limit: usize,
    } => write!(
        f,
        "rotary_dim is {rotary_dim}; rows that are computed on the stack have at most {limit} channels"
    ),
    /// [`CacheLayout`](crate::cache::CacheLayout)'s constructors, and those of caches: strides that make no cache, or
    /// not one for what it is to keep.
    CacheLayout {
        /// What it has to be.
        required: &'static str,
    } => write!(f, "the layout of a cache must be {required}"),
    /// [`Cache`](crate::cache::Cache) and [`CacheMut`](crate::cache::CacheMut): the layout reaches past the memory.
    CacheMemory {
        /// Bytes that the layout needs, [`CacheLayout::bytes`](crate::cache::CacheLayout::bytes).
        needed: usize,
        /// Bytes that the memory has.
        given: usize,
    } => write!(f, "the layout of the cache needs {needed} bytes, the memory has {given}"),
    /// The tensor and the cache have different heads.
    CacheHeads {
        /// Heads of the tensor.
        heads: usize,
        /// Channels of a head of the tensor.
        head_dim: usize,
        /// Heads of the cache.
        cache_heads: usize,
        /// Channels of a head of the cache.
        cache_head_dim: usize,
    } => write!(
        f,
        "the tensor has {heads} heads of {head_dim} channels, the cache {cache_heads} of {cache_head_dim}"
    ),
    /// Not one slot for each token of each sequence.
    SlotCount {
        /// Slots given.
        slots: usize,
        /// Tokens of a sequence.
        tokens: usize,
        /// Sequences of the batch.
        batch: usize,
    } => write!(
        f,
        "the number of slots is {slots}; for batch {batch} and {tokens} tokens it must be {}, one per token of each \
         sequence, negative where nothing is written",
        batch.saturating_mul(tokens)
    ),
    /// A slot that the cache does not have.
    Slot {
        /// Index of the token.
        index: usize,
        /// The slot.
        slot: i64,
        /// Slots of the cache.
        slots: usize,
    } => write!(f, "slot {slot} (of token {index}) is outside the cache's 0..{slots}"),
    /// [`Slots::offsets`](crate::cache::Slots::offsets): a token would reach past the cache.
    SlotOffset {
        /// Index of the token.
        index: usize,
        /// The element it begins at.
        offset: i64,
        /// From its first element to its last.
        extent: usize,
        /// The length of the cache.
        len: usize,
    } => write!(
        f,
        "offset {offset} (of token {index}) leaves no room for the {extent} of its heads in the cache's {len}; offsets count \
         elements, and bytes where the cache has codes"
    ),
    /// [`Slots::pages`](crate::cache::Slots::pages), `table` and `sequences`: a position that the sequence has no page
    /// for, or a sequence that is not there.
    PagePosition {
        /// Index of the token.
        index: usize,
        /// Its position.
        position: i64,
        /// Its sequence.
        sequence: i64,
    } => write!(
        f,
        "position {position} (of token {index}) is beyond the pages of sequence {sequence}"
    ),
    /// [`Slots::pages`](crate::cache::Slots::pages), `table`: a page that the cache does not have.
    Page {
        /// Index of the token.
        index: usize,
        /// Its position.
        position: i64,
        /// The page of the position.
        page: i64,
        /// Pages of the cache.
        pages: usize,
    } => write!(
        f,
        "page {page} (of token {index}, at position {position}) is outside the cache's 0..{pages}"
    ),
    /// [`Slots::pages`](crate::cache::Slots::pages), `table`: the page of a position that is not negative is negative.
    NegativePage {
        /// Index of the token.
        index: usize,
        /// Its position.
        position: i64,
        /// Its sequence.
        sequence: i64,
        /// Which of the pages of its sequence.
        page: i64,
        /// What the table has there.
        block: i64,
    } => write!(
        f,
        "page {page} of sequence {sequence} is {block}, but position {position} (of token {index}) is in it; a token \
         is skipped by a negative position"
    ),
    /// [`WithStages`](crate::stages::WithStages) and caches: a head is longer than what is kept on the stack.
    HeadDimOnStack {
        /// Channels of a head.
        head_dim: usize,
        /// The most there is room for.
        limit: usize,
    } => write!(f, "head_dim is {head_dim}; a norm, a scale and a cache take heads of at most {limit} channels"),
    /// [`Direction::Inverse`], a rotation of keys that stay in a cache,
    /// [`Rope::backward`](crate::Rope::backward) and other operations of rotations: the rows are full-width.
    FullWidthRows {
        /// The operation.
        operation: &'static str,
    } => write!(
        f,
        "{operation} requires rows with one angle per pair, but these are full-width: they have one per channel, which \
         is no rotation; Direction::Transpose takes gradients back, and Gradients::Channels sums those of cos and sin"
    ),
    /// A rotation of keys that stay in a cache: the rows have an attention factor, which cached keys have already.
    ShiftFactor {
        /// The attention factor of the rows.
        factor: f64,
    } => write!(
        f,
        "the attention factor of the rows is {factor}, but a shift requires 1, as cached keys have the factor already; \
         make the rows by Frequencies::shift"
    ),
    /// A rotation of keys that stay in a cache: the plan has a norm, which cached keys have already.
    NormInCache => write!(
        f,
        "the plan has a norm, which the keys of a cache have already; rotate them by a plan without it"
    ),
    /// [`Shard::new`](crate::shard::Shard::new): the rank is not below the number of ranks.
    Rank {
        /// The rank.
        rank: usize,
        /// How many ranks there are.
        ranks: usize,
    } => write!(f, "rank is {rank}; it must be below ranks ({ranks}), and ranks at most {}", u32::MAX),
    /// [`Shard::tokens`](crate::shard::Shard::tokens), [`Shard::packed`](crate::shard::Shard::packed): tokens that
    /// cannot be divided evenly.
    ShardTokens {
        /// The sequence; 0 where the whole is divided.
        sequence: usize,
        /// How many tokens it has.
        tokens: usize,
        /// What they must be a multiple of.
        multiple: usize,
    } => write!(
        f,
        "sequence {sequence} has {tokens} tokens, but a shard of this kind requires a multiple of {multiple}; pad it, or \
         use ShardKind::UnevenZigzag or ShardKind::Striped"
    ),
    /// [`Hadamard`](crate::stages::Hadamard): a block that is no power of two, or too short or long.
    HadamardBlock {
        /// Channels of the block.
        block: usize,
    } => write!(
        f,
        "block is {block}; a Hadamard block must be a power of two from 2 to {MOST_CHANNELS}"
    ),
    /// [`Rope::hadamard`](crate::Rope::hadamard): the block does not divide a head.
    HadamardHead {
        /// Channels of the block.
        block: usize,
        /// Channels of a head.
        head_dim: usize,
    } => write!(
        f,
        "block is {block}; a Hadamard block must divide head_dim ({head_dim}), and the largest power of two that does \
         is {}",
        if head_dim == 0 { 0 } else { 1 << head_dim.trailing_zeros() }
    ),
    /// [`Norm`](crate::norm::Norm): the formula has weights, and none were given.
    WeightMissing {
        /// How many are needed, if all heads share them.
        needed: usize,
    } => write!(
        f,
        "the norm's formula has weights, but none were given; give {needed} (or {needed} per head) to Norm::weight, or \
         call Norm::without_weight"
    ),
    /// [`Norm`](crate::norm::Norm): weights for a formula that has none.
    WeightUnused {
        /// How many were given.
        given: usize,
    } => write!(
        f,
        "the norm's formula has no weights, but {given} were given; leave them out, or use a formula that is `weighted`"
    ),
    /// [`Norm::with_sum_of_squares`](crate::norm::Norm::with_sum_of_squares) of a norm that is centered: it has a mean
    /// of its own to take off.
    CenteredSums => f.write_str("a centered norm needs the mean, and takes no sums of squares"),
}

impl core::error::Error for Error {}

/// A number as one writes it: an integer without a fraction.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // What has more digits than an f64 is written with an exponent.
            integer if integer as i64 as f64 == integer && integer.abs() < 1e16 => {
                write!(f, "{integer}")
            }
            number => write!(f, "{number:?}"),
        }
    }
}

/// Every fallible call returns one, so it is kept small: what it says of shapes is the dimension in which they differ.
const _: () = assert!(size_of::<Error>() <= 48);

/// What a caller can do about an [`Error`].
///
/// ```
/// use rope_core::{ErrorKind, Tensor};
///
/// // 3 heads of 64 channels do not fit a slice of 128 elements.
/// let error = Tensor::new(&[0.0_f32; 128], [1, 1, 3, 64]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Shape);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, strides or lengths do not agree with each other. The program passes operands that do not belong
    /// together; the same call fails every time.
    Shape,
    /// A parameter has a value that is not allowed, usually one that was read from a file. Reject the model.
    Value,
    /// A position, a slot or a page does not exist in the table or the cache. Reject the request, or make more room.
    Index,
    /// The plan or the rows do not support this operation. The message names the call that does, where there is one.
    Operation,
    /// A buffer is too short, a size exceeds a fixed limit, or the allocator has no memory. Pass more memory, or use a
    /// call without the limit.
    Capacity,
    /// This CPU or this build lacks the instruction set. Use another one of
    /// [`Backend::available`](crate::Backend::available).
    Backend,
}

impl Error {
    /// What a caller can do about this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::ShapeElements { .. }
            | Error::OutOfBounds { .. }
            | Error::Overlap { .. }
            | Error::Range { .. }
            | Error::RotaryDimExceedsHead { .. }
            | Error::RowsShape { .. }
            | Error::CosSinLength { .. }
            | Error::RowWidth { .. }
            | Error::RowCount { .. }
            | Error::RowsPerHead { .. }
            | Error::RowHeads { .. }
            | Error::RowSequences { .. }
            | Error::RowRange { .. }
            | Error::GradientHeads { .. }
            | Error::GradientShape { .. }
            | Error::ShapeMismatch { .. }
            | Error::QueryKeyMismatch { .. }
            | Error::Count { .. }
            | Error::PositionsPerAxis { .. }
            | Error::CacheLayout { .. }
            | Error::CacheMemory { .. }
            | Error::CacheHeads { .. }
            | Error::SlotCount { .. }
            | Error::HadamardHead { .. } => ErrorKind::Shape,
            Error::RotaryDim { .. }
            | Error::HalvesEqual { .. }
            | Error::HalvesDiffer { .. }
            | Error::NoInverse { .. }
            | Error::AttentionFactor { .. }
            | Error::RowOfZeros { .. }
            | Error::Parameter { .. }
            | Error::ListEntry { .. }
            | Error::TurnsPerPosition { .. }
            | Error::Axes { .. }
            | Error::Sections { .. }
            | Error::NotAnInteger { .. }
            | Error::Coordinate { .. }
            | Error::Offsets { .. }
            | Error::Rank { .. }
            | Error::ShardTokens { .. }
            | Error::HadamardBlock { .. } => ErrorKind::Value,
            Error::PositionOutsideTable { .. }
            | Error::Slot { .. }
            | Error::SlotOffset { .. }
            | Error::PagePosition { .. }
            | Error::Page { .. }
            | Error::NegativePage { .. } => ErrorKind::Index,
            Error::PartsInterleave { .. }
            | Error::RowMagnitude { .. }
            | Error::AlreadyGathered
            | Error::PairingChangesInPlace { .. }
            | Error::BackwardDirection { .. }
            | Error::GradientPairing { .. }
            | Error::FullWidthRows { .. }
            | Error::ShiftFactor { .. }
            | Error::NormInCache
            | Error::WeightMissing { .. }
            | Error::WeightUnused { .. }
            | Error::CenteredSums => ErrorKind::Operation,
            Error::ShapeOverflow { .. }
            | Error::StrideOverflow { .. }
            | Error::Storage { .. }
            | Error::RowsTooLong { .. }
            | Error::OutOfMemory { .. }
            | Error::RotaryDimOnStack { .. }
            | Error::HeadDimOnStack { .. } => ErrorKind::Capacity,
            Error::BackendUnavailable { .. } => ErrorKind::Backend,
        }
    }

    /// The error of a number, said of the number at an index of a list.
    pub(crate) fn in_list(self, index: usize) -> Self {
        let index = list_index(index);
        match self {
            Error::Parameter {
                name,
                value,
                required,
            } => Error::ListEntry {
                name,
                index,
                value,
                required,
            },
            other => other,
        }
    }
}

/// The index of [`Error::ListEntry`].
pub(crate) fn list_index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
