//! The text of each error, word for word. The suites that provoke an error compare its fields; this suite compares
//! their places in the text. All numbers of a case differ, and two exchanged fields would show.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use rope_core::error::{
    CacheError, CacheIndex, FrequenciesError, GradientError, PlanError, PositionsError, RowsError,
    ShapeError, ShardError, SlotsError,
};
use rope_core::internals::ERRORS;
use rope_core::{Backend, Dimension, Direction, Error, ErrorKind, Pairing, Shape, UnknownName};
use rope_models::{Config, Error as ModelError, Gguf, GgufValue};
use rope_tests::bodies::config::Questions;

/// Returns each error in each form of its text.
pub(crate) fn cases() -> Vec<(Error, String)> {
    let shape = Shape::from([2, 3, 5, 7]);
    let (most, longest) = (usize::MAX, isize::MAX);
    let words: &[(Error, &str)] = &[
        (
            Error::Shape(ShapeError::OutOfBounds {
                needed: 48,
                len: 47,
            }),
            "the layout needs 48 elements, the slice has 47",
        ),
        (
            Error::ShapeElements {
                shape: [1, 5, 8, 128].into(),
                len: 20480,
            },
            "shape [1, 5, 8, 128] has 5120 elements, but the slice has 20480 (heads would be 32); use Layout::bshd for \
             a part of a larger slice",
        ),
        (
            Error::ShapeElements {
                shape: [1, 5, 32, 128].into(),
                len: 5120,
            },
            "shape [1, 5, 32, 128] has 20480 elements, but the slice has 5120 (heads would be 8)",
        ),
        (
            Error::ShapeElements {
                shape: [1, 2, 3, 8].into(),
                len: 47,
            },
            "shape [1, 2, 3, 8] has 48 elements, but the slice has 47",
        ),
        (
            Error::Shape(ShapeError::Overlap {
                dimension: Dimension::Tokens,
                stride: 15,
                needed: 16,
            }),
            "stride 15 of tokens lets elements overlap that must be distinct; it must be at least 16",
        ),
        (
            Error::Shape(ShapeError::Range {
                dimension: Dimension::Heads,
                start: 2,
                end: 9,
                extent: 4,
            }),
            "range 2..9 of heads is not inside 0..4",
        ),
        (
            Error::Shape(ShapeError::Range {
                dimension: Dimension::Channels,
                start: 9,
                end: 2,
                extent: 16,
            }),
            "range 9..2 of channels ends before it starts; it must be inside 0..16",
        ),
        (
            Error::Shape(ShapeError::PartsInterleave {
                dimension: Dimension::Channels,
            }),
            "the parts of a split along channels interleave in memory; split the dimension with the largest stride \
             first",
        ),
        (
            Error::Rows(RowsError::RotaryDim {
                rotary_dim: 3,
                required: "even and at least 2",
            }),
            "rotary_dim is 3, but must be even and at least 2",
        ),
        (
            Error::Rows(RowsError::RotaryDimExceedsHead {
                rotary_dim: 10,
                head_dim: 8,
            }),
            "rotary_dim 10 exceeds head_dim 8; give rows of at most 8 channels, or whole heads",
        ),
        (
            Error::Rows(RowsError::Window {
                first_channel: 64,
                rotary_dim: 48,
                head_dim: 96,
            }),
            "the rows rotate 48 channels from the plan's window on, 64..112, but head_dim is 96; set \
             Rope::with_window to at most 48, or give narrower rows",
        ),
        (
            Error::Rows(RowsError::Window {
                first_channel: 128,
                rotary_dim: 66,
                head_dim: 64,
            }),
            "the rows rotate 66 channels from the plan's window on, 128..194, but head_dim is 64; give rows of at most \
             64 channels, or whole heads",
        ),
        (
            Error::Rows(RowsError::Parts {
                parts: 5,
                rotary_dim: 72,
            }),
            "parts is 5; it must divide the 36 pairs of the rows (rotary_dim 72), as 1 does; set it by \
             Rope::with_parts, or give rows of another width",
        ),
        (
            Error::Rows(RowsError::CosSinLength { cos: 8, sin: 6 }),
            "cos has 8 values and sin has 6; they must have as many",
        ),
        (
            Error::Rows(RowsError::Width {
                width: 5,
                rotary_dim: 8,
            }),
            "rows of 5 cos are not for rotary_dim 8: they have 4 (each kept once) or 8 (each kept twice, `cat(freqs, \
             freqs)`)",
        ),
        (
            Error::Rows(RowsError::Shape {
                len: 16,
                rows: 3,
                width: 4,
            }),
            "shape [3, 4] has 12 values, but the slice has 16, which is [4, 4]",
        ),
        (
            Error::Rows(RowsError::Shape {
                len: 9,
                rows: 2,
                width: 4,
            }),
            "shape [2, 4] has 8 values, but the slice has 9",
        ),
        (
            Error::Rows(RowsError::HalvesEqual { row: 2, width: 8 }),
            "row 2 has the same 4 values in both of its halves, so it is `cat(freqs, freqs)` of cos or of sin alone, \
             not cos and then sin; give both to Rows::from_cos_sin",
        ),
        (
            Error::Rows(RowsError::HalvesDiffer { row: 2, pair: 1 }),
            "row 2 has another value for pair 1 in its second half than in its first, so it is not `cat(freqs, \
             freqs)`; of `repeat_interleave(2)` take every second value",
        ),
        (
            Error::Rows(RowsError::Count {
                rows: 7,
                tokens: 3,
                batch: 2,
            }),
            "the number of rows is 7; for batch 2 and 3 tokens it must be 3 (one per token, for all sequences) or 6 (one \
             per token of each sequence)",
        ),
        (
            Error::Rows(RowsError::Count {
                rows: 7,
                tokens: 3,
                batch: 1,
            }),
            "the number of rows is 7; for batch 1 and 3 tokens it must be 3, one per token",
        ),
        (
            Error::Rows(RowsError::Count {
                rows: 1,
                tokens: 3,
                batch: 2,
            }),
            "the number of rows is 1; for batch 2 and 3 tokens it must be 3 (one per token, for all sequences) or 6 (one \
             per token of each sequence); Rows::repeated gives one row to all tokens",
        ),
        (
            Error::Rows(RowsError::PerHead { rows: 12, heads: 5 }),
            "the number of rows is 12, which is not a multiple of 5 heads",
        ),
        (
            Error::Rows(RowsError::Heads { rows: 3, heads: 2 }),
            "the rows are per head, for 3 heads, but 2 heads are required",
        ),
        (
            Error::Rows(RowsError::Sequences {
                sequences: 2,
                tokens: 3,
            }),
            "the rows are laid out for 2 sequences of 3 tokens, and rotate tensors of that shape; for others take the rows of \
             one sequence by Rows::narrow",
        ),
        (
            Error::Rows(RowsError::Magnitude {
                row: 1,
                head: 2,
                pair: 3,
                cos: 0.5,
                sin: 0.25,
                factor: 4.0,
            }),
            "pair 3 of row 1 (head 2) has cos 0.5 and sin 0.25, whose magnitude is not the attention factor 4 that \
             Direction::Inverse divides by; use Rows::inverted",
        ),
        (
            Error::Rows(RowsError::NoInverse {
                row: 1,
                head: 2,
                pair: 3,
                cos: 0.0,
                sin: -0.0,
            }),
            "pair 3 of row 1 (head 2) has cos 0.0 and sin -0.0; no cos and sin in f32 undo it",
        ),
        (
            Error::Rows(RowsError::PositionOutsideTable {
                index: 2,
                id: -7,
                rows: 5,
            }),
            "position id -7 (at index 2) is outside the table's 0..5",
        ),
        (
            Error::Rows(RowsError::AlreadyGathered),
            "the rows are gathered by id already; gather them from the table, once",
        ),
        (
            Error::Rows(RowsError::Range {
                start: 2,
                end: 6,
                rows: 5,
            }),
            "rows 2..6 are not inside 0..5",
        ),
        (
            Error::Rows(RowsError::AttentionFactor { factor: -0.0 }),
            "the attention factor is -0; it must be finite and not zero",
        ),
        (
            Error::Plan(PlanError::PairingChangesInPlace {
                input: Pairing::Interleaved,
                output: Pairing::Half,
            }),
            "the plan reads interleaved pairs and its output_pairing is half, which no call in place can change; use one \
             that writes another tensor, as rotate_into, or leave out output_pairing",
        ),
        (
            Error::Gradient(GradientError::Direction {
                direction: Direction::Inverse,
            }),
            "a backward pass requires a plan with Direction::Forward, but its direction is inverse; pass the plan of the \
             forward pass, which is transposed here",
        ),
        (
            Error::Gradient(GradientError::Pairing {
                input: Pairing::Interleaved,
                output: Pairing::Half,
            }),
            "gradients of cos and sin require a plan with one pairing, but its input pairing is interleaved and its \
             output_pairing half; use Rope::angle_gradients, Rope::factor_gradients and PairGradients::cos_sin",
        ),
        (
            Error::Gradient(GradientError::Heads {
                gradients: 3,
                heads: 4,
            }),
            "the gradients have 3 heads, the tensor has 4; give one for all heads, or one per head",
        ),
        (
            Error::Gradient(GradientError::Shape {
                what: "pairs",
                given: 5,
                needed: 13,
            }),
            "the gradients have 5 pairs, but 13 are required",
        ),
        (
            Error::Gradient(GradientError::RowOfZeros {
                row: 1,
                head: 2,
                pair: 3,
            }),
            "cos and sin of pair 3 of row 1 (head 2) are both zero; one must not be",
        ),
        (
            Error::Shape(ShapeError::Mismatch {
                dimension: Dimension::Heads,
                source: 5,
                target: 17,
            }),
            "source and target must have one shape, but heads is 5 in the source and 17 in the target",
        ),
        (
            Error::Shape(ShapeError::Part {
                part: 1,
                of: "tokens",
                given: 4,
                first: 3,
            }),
            "the parts of an operand may differ in their channels alone, but part 1 has 4 tokens and the first part 3",
        ),
        (
            Error::Shape(ShapeError::QueryKeyMismatch {
                dimension: Dimension::Channels,
                query: 7,
                key: 19,
            }),
            "Q and K may differ in their heads alone, but channels is 7 in Q and 19 in K",
        ),
        (
            Error::Parameter {
                name: "factor",
                value: -2.0,
                required: "finite and positive",
            },
            "factor is -2, but must be finite and positive",
        ),
        (
            Error::ListEntry {
                name: "factors",
                index: 3,
                value: 0.5,
                required: "finite and at least 1",
            },
            "factors[3] is 0.5, but must be finite and at least 1",
        ),
        (
            Error::Count {
                name: "weight",
                given: 7,
                needed: 8,
            },
            "weight has 7 numbers, but 8 are needed",
        ),
        (
            Error::Parameter {
                name: "local_size",
                value: 7.0,
                required: "below chunk_size",
            },
            "local_size is 7, but must be below chunk_size",
        ),
        (
            Error::Parameter {
                name: "base",
                value: 1e300,
                required: "another",
            },
            "base is 1e300, but must be another",
        ),
        (
            Error::Storage {
                what: "scales",
                given: 15,
                needed: 16,
            },
            "15 scales were given, but 16 are needed",
        ),
        (
            Error::OutOfMemory { bytes: 1 << 59 },
            "576460752303423488 bytes could not be allocated; compute fewer rows at a time, or call the function whose \
             name ends with `_in` (rows_in), which takes the caller's storage",
        ),
        (
            Error::Cache(CacheError::Memory {
                needed: 69632,
                given: 18,
            }),
            "the layout of the cache needs 69632 bytes, the memory has 18",
        ),
        (
            Error::Frequencies(FrequenciesError::TurnsPerPosition {
                pair: 3,
                inverse: 3e5,
            }),
            "the inverse frequency of pair 3 is 300000.0; its magnitude must be below 205887.4, which is 32768 turns \
             per position",
        ),
        (
            Error::Frequencies(FrequenciesError::Axes {
                given: 5,
                required: "as many as 4",
            }),
            "the axes must be as many as 4; given: 5",
        ),
        (
            Error::Frequencies(FrequenciesError::Sections {
                sections: [16, 24, 20, 0],
                axes: 3,
                rotary_dim: 128,
            }),
            "the sections [16, 24, 20] of M-RoPE sum to 60 pairs, but rotary_dim 128 has 64; where the other channels \
             stand still, rotary_dim is 120",
        ),
        (
            Error::Positions(PositionsError::PerAxis { given: 7, axes: 3 }),
            "7 positions are not one per axis for each token on 3 axes; give those of all axes to Positions::axis_major \
             or Positions::token_major",
        ),
        (
            Error::Positions(PositionsError::DualChunk),
            "positions for Dual Chunk Attention are one integer per token, neither on several axes nor real nor of chunks \
             already; give the ids of the tokens",
        ),
        (
            Error::Positions(PositionsError::NotAnInteger { value: 0.5 }),
            "the coordinate 0.5 is not an integer; shifts and slots need integer positions",
        ),
        (
            Error::Positions(PositionsError::Coordinate {
                index: 3,
                value: f64::INFINITY,
            }),
            "coordinate 3 is inf; it must be within -2^63..=2^63, where its cos and sin are correctly rounded",
        ),
        (
            Error::Positions(PositionsError::Offsets {
                index: 3,
                offset: 4,
            }),
            "offset 3 is 4; offsets start at 0 and never fall",
        ),
        (
            Error::Frequencies(FrequenciesError::RotaryDimOnStack {
                rotary_dim: 1026,
                limit: 1024,
            }),
            "rotary_dim is 1026; rows that are computed on the stack have at most 1024 channels; make wider ones before the \
             call",
        ),
        (
            Error::Plan(PlanError::HeadDim {
                given: 576,
                head_dim: 192,
                first: 128,
            }),
            "head_dim is 576, but the plan is for heads of 192, which rotate from channel 128 on; for the last ones of these \
             heads set Rope::with_window to 512, without a head_dim",
        ),
        (
            Error::Plan(PlanError::HeadDim {
                given: 96,
                head_dim: 128,
                first: 0,
            }),
            "head_dim is 96, but the plan is for heads of 128; for the same channels of these heads set \
             Rope::with_window to 0, without a head_dim",
        ),
        (
            Error::Cache(CacheError::Layout {
                required: "of whole pages",
            }),
            "the layout of a cache must be of whole pages",
        ),
        (
            Error::Cache(CacheError::Channels {
                start: 9,
                end: 2,
                head_dim: 64,
            }),
            "channels is 9..2; it must end where it starts or after, and at most at head_dim (64)",
        ),
        (
            Error::Cache(CacheError::ChannelsApart {
                head_dim: 64,
                chunk: 8,
                chunk_stride: 128,
                channel: 1,
            }),
            "a range of channels, blocks, and a scale after the codes of a head require contiguous heads, but chunk is 8 of \
             64 channels, with the stride 128; use an nhd or hnd layout",
        ),
        (
            Error::Cache(CacheError::ChannelsApart {
                head_dim: 64,
                chunk: 64,
                chunk_stride: 0,
                channel: 2,
            }),
            "a range of channels, blocks, and a scale after the codes of a head require contiguous heads, but the 64 \
             channels of a head have the stride 2; use an nhd or hnd layout",
        ),
        (
            Error::Cache(CacheError::ScaleAmongCodes {
                at: 60,
                head_dim: 64,
            }),
            "the scale at byte 60 of a head would lie among its 64 codes; it must be at 64 or after",
        ),
        (
            Error::Cache(CacheError::ScaleRoom {
                end: 76,
                head_dim: 64,
                index: CacheIndex::Head,
                stride: 65,
                least: 76,
            }),
            "the stride of head is 65, and must be at least 76 for scales that end at byte 76 of each head; an nhd layout \
             of heads of 76 bytes, narrowed to the first 64, has room for them",
        ),
        (
            Error::Cache(CacheError::PartOfBlock {
                of: "the stride of head",
                given: 48,
                values: 32,
            }),
            "the stride of head is 48, but a cache in blocks of 32 values requires a multiple of 32; pad it to whole \
             blocks",
        ),
        (
            Error::Cache(CacheError::Overlap {
                of: "scales",
                index: CacheIndex::Token,
                stride: 1,
                other: CacheIndex::Head,
                least: 2,
            }),
            "two indices of head and token could name the same scales; the stride of token is 1, and must be at least 2",
        ),
        (
            Error::Cache(CacheError::Overlap {
                of: "elements",
                index: CacheIndex::Head,
                stride: 0,
                other: CacheIndex::Head,
                least: 1,
            }),
            "two indices of head could name the same elements; the stride of head is 0, and must be at least 1",
        ),
        (
            Error::Cache(CacheError::PartOverlap {
                of: "bytes",
                first: 0,
                second: 2,
            }),
            "parts 0 and 2 of a cache could share bytes; give each its own place: bytes after the codes and scales of the \
             other at the same strides, or a memory of its own",
        ),
        (
            Error::Cache(CacheError::PartDivided {
                start: 500,
                end: 564,
                at: 512,
            }),
            "channels 500..564 are one part, or rotate together, but another operand or part divides them at channel 512; \
             give both operands the same parts, and let the channels that rotate be in one",
        ),
        (
            Error::Cache(CacheError::Heads {
                heads: 2,
                head_dim: 3,
                cache_heads: 5,
                cache_head_dim: 7,
            }),
            "the tensor has 2 heads of 3 channels, the cache 5 of 7; they must be as many and as long",
        ),
        (
            Error::Slots(SlotsError::Count {
                slots: 7,
                tokens: 3,
                batch: 2,
            }),
            "the number of slots is 7; for batch 2 and 3 tokens it must be 6, one per token of each sequence, negative \
             where nothing is written",
        ),
        (
            Error::Slots(SlotsError::Slot {
                index: 1,
                slot: 9,
                slots: 6,
            }),
            "slot 9 (of token 1) is outside the cache's 0..6",
        ),
        (
            Error::Slots(SlotsError::SameTarget {
                slot: 9,
                first: 1,
                second: 4,
            }),
            "slot 9 is the target of move 1 and of move 4; give each move a target of its own, or a negative slot to skip \
             it",
        ),
        (
            Error::Slots(SlotsError::MoveOrder {
                slot: 9,
                read: 4,
                written: 1,
            }),
            "move 1 writes slot 9 before move 4 reads it, and the reverse order fits no better; move the slots in several \
             calls, and those of a cycle by a free slot",
        ),
        (
            Error::Slots(SlotsError::PartOfGroup {
                index: 3,
                slot: 40,
                found: 24,
                tokens: 32,
            }),
            "token 3 begins 24 consecutive slots at slot 40, but slots share scales by channel in groups of 32, which begin \
             at multiples of 32; write, shift and move whole groups in order, and keep tokens in a cache of elements until \
             they fill one",
        ),
        (
            Error::Slots(SlotsError::Repeated {
                slot: 7,
                first: 2,
                second: 5,
            }),
            "slot 7 is that of tokens 2 and 5, whose rows differ; a rotation in place moves a slot once: list it once, or \
             with equal rows",
        ),
        (
            Error::Slots(SlotsError::Offset {
                index: 3,
                offset: 81,
                extent: 16,
                len: 96,
            }),
            "offset 81 (of token 3) leaves no room for the 16 of its heads in the cache's 96; offsets count elements, and \
             bytes where the cache has codes",
        ),
        (
            Error::Slots(SlotsError::PagePosition {
                index: 5,
                position: 6,
                sequence: 1,
                limit: 4,
            }),
            "position 6 (of token 5) is beyond the pages of sequence 1, which hold 0..4; give the sequence more pages, or the \
             token a negative position",
        ),
        (
            Error::Slots(SlotsError::Page {
                index: 3,
                position: 40,
                page: 9,
                pages: 4,
            }),
            "page 9 (of token 3, at position 40) is outside the cache's 0..4",
        ),
        (
            Error::Slots(SlotsError::NegativePage {
                index: 5,
                position: 70,
                sequence: 1,
                page: 4,
                block: -2,
            }),
            "page 4 of sequence 1 is -2, but position 70 (of token 5) is in it; a token is skipped by a negative \
             position",
        ),
        (
            Error::Cache(CacheError::ShiftFactor { factor: 1.25 }),
            "the attention factor of the rows is 1.25, but a shift requires 1, as cached keys have the factor already; \
             make the rows by Frequencies::shift",
        ),
        (
            Error::Plan(PlanError::StagesInParts {
                reason: "a part has scales by channel",
            }),
            "the plan has a norm, a scale or a transform, which need whole heads, but a part has scales by channel; run \
             these stages on a tensor first, and write the parts by a plan without them",
        ),
        (
            Error::Plan(PlanError::PartsOnStack { channels: 8192 }),
            "heads * head_dim is 8192; it must be at most 4096 in a call on parts by a plan with a norm, a scale or a \
             transform; run these stages on a tensor first, and write the parts by a plan without them",
        ),
        (
            Error::Plan(PlanError::NormInCache),
            "the plan has a norm, which the keys of a cache have already; rotate them by a plan without it",
        ),
        (
            Error::Shape(ShapeError::HeadDimOnStack {
                head_dim: 2049,
                limit: 2048,
            }),
            "head_dim is 2049; a norm, a scale and a cache take heads of at most 2048 channels",
        ),
        (
            Error::Plan(PlanError::WeightMissing { needed: 128 }),
            "the norm's formula has weights, but none were given; give 128 (or 128 per head) to Norm::with_weight, or \
             call Norm::without_weight",
        ),
        (
            Error::Plan(PlanError::WeightUnused { given: 128 }),
            "the norm's formula has no weights, but 128 were given; leave them out, or use a formula that is \
             `weighted`",
        ),
        (
            Error::Rows(RowsError::FullWidth {
                operation: "a rotation in a cache",
            }),
            "a rotation in a cache requires rows with one angle per pair, but these are full-width: they have one per channel, \
             which is no rotation; Direction::Transpose takes gradients back, Rope::channel_gradients sums those of \
             cos and sin, and rotate_into rotates keys as they are read",
        ),
        (
            Error::Shard(ShardError::Rank { rank: 4, ranks: 3 }),
            "rank is 4; it must be below ranks (3)",
        ),
        (
            Error::Shard(ShardError::Rank { rank: 4, ranks: 0 }),
            "ranks is 0; it must be at least 1, which is all of the sequence",
        ),
        (
            Error::Shard(ShardError::Tokens {
                sequence: 2,
                tokens: 10,
                multiple: 8,
            }),
            "sequence 2 has 10 tokens, but a shard of this kind requires a multiple of 8; pad it, or use \
             ShardKind::UnevenZigzag or ShardKind::Striped",
        ),
        (
            Error::Plan(PlanError::HadamardBlock { block: 96 }),
            "block is 96; a Hadamard block must be a power of two from 2 to 2048",
        ),
        (
            Error::Plan(PlanError::HadamardHead {
                block: 64,
                head_dim: 80,
            }),
            "block is 64; a Hadamard block must divide head_dim (80), and the largest power of two that does is 16",
        ),
        (
            Error::Plan(PlanError::CenteredSums),
            "a centered norm needs the mean, which sums of squares do not have; leave out Norm::with_sum_of_squares",
        ),
    ];
    let mut cases: Vec<_> = words
        .iter()
        .map(|(error, text)| (*error, text.to_string()))
        .collect();
    // Errors that depend on this machine.
    let backends: Vec<&str> = Backend::available().map(Backend::name).collect();
    cases.extend([
        (
            Error::Shape(ShapeError::Overflow { shape }),
            format!("shape [2, 3, 5, 7] has indices or strides beyond usize::MAX ({most})"),
        ),
        #[cfg(target_pointer_width = "64")]
        (
            Error::Shard(ShardError::Rank { rank: 4, ranks: 1 << 32 }),
            "ranks is 4294967296; it must be at most 4294967295".to_string(),
        ),
        (
            Error::Shape(ShapeError::StrideOverflow { dimension: Dimension::Tokens, extent: 3, stride: 13 }),
            format!("stride 13 of tokens, with the extent 3, leads to indices beyond usize::MAX ({most})"),
        ),
        (
            Error::Cache(CacheError::TooLarge { extent: 3, stride: 13 }),
            format!("an extent of 3 at a stride of 13 leads beyond usize::MAX ({most}), the last index of a cache"),
        ),
        (
            Error::Plan(PlanError::BackendUnavailable { backend: Backend::Scalar }),
            format!("backend scalar is not available here; there are: {}", backends.join(" ")),
        ),
        (
            Error::Frequencies(FrequenciesError::RowsTooLong { tokens: 5, rotary_dim: 4 }),
            format!("5 rows of 4 values are more than isize::MAX ({longest}) bytes; compute fewer rows at a time"),
        ),
    ]);
    cases
}

/// Returns each error of rope-models in each form of its text.
pub(crate) fn cases_of_models() -> Vec<(ModelError, String)> {
    let of_text = |text: &str| Config::from_json(text).expect_err("a refusal");
    // Parts of a file are made from a file; the later of two model types applies.
    let of_llama = |keys: &str| {
        let config = Config::from_json(&format!(r#"{{"model_type": "llama", {keys}}}"#));
        config.expect("JSON").frequencies().expect_err("a refusal")
    };
    let of_gguf = |architecture: &str, own: &[(&str, GgufValue<'_>)]| {
        let mut keys = vec![("general.architecture", GgufValue::Text(architecture))];
        keys.extend(own);
        let gguf = Gguf::new(&keys).expect("an architecture");
        let model = gguf.with_freq_factors(None).model();
        let rotation = model.and_then(|model| model.rotation().cloned());
        rotation.expect_err("a refusal")
    };
    let of_part = |part: &str, text: &str| {
        let config = Config::from_json(text).expect("JSON").with_part(part);
        config.frequencies().expect_err("a refusal")
    };
    let of_layer_type = |model_type: &str, full: &str, layer_type: &str| {
        let text = format!(
            r#"{{"model_type": "{model_type}", "head_dim": 64, "rope_parameters": {{
            "full_attention": {full}, "sliding_attention": {{"rope_theta": 1e5}}}}}}"#
        );
        let config = Config::from_json(&text).expect("JSON");
        let config = config.with_layer_type(layer_type);
        config.frequencies().expect_err("a refusal")
    };
    let words = [
        (
            ModelError::ModelHead {
                given: 65,
                head_dim: 192,
                window: (128, 190),
            },
            "the tensor's heads have 65 channels; the model's have 192, of which 128..190 rotate: pass whole heads, or \
             those 62 channels alone",
        ),
        (
            ModelError::FreqFactors {
                architecture: "llama",
                tensor: "rope_freqs.weight",
            },
            "a file of the architecture llama may have the tensor rope_freqs.weight; pass its values to \
             Gguf::with_freq_factors, or None if the file has none",
        ),
        (
            of_text("[]"),
            "the configuration is JSON, but not an object ({..})",
        ),
        (
            of_text("{\n  \"a\": {\"b\": 1"),
            "the configuration ends early, at line 2, column 14: it is empty, or cut off",
        ),
        (
            of_text("{\n  \"a\": 1,,}"),
            "the configuration is not JSON from line 2, column 10",
        ),
        (
            ModelError::Missing {
                key: "rope_theta".into(),
            },
            "rope_theta is missing, and has no known default",
        ),
        (
            of_llama(r#""head_dim": 64, "rope_theta": "1e4""#),
            "rope_theta is \"1e4\", but must be a number",
        ),
        (
            Config::from_json(
                r#"{"model_type": "llama", "head_dim": 64, "num_hidden_layers": 100000}"#,
            )
            .expect("JSON")
            .layers()
            .expect_err("a refusal"),
            "num_hidden_layers is 100000, but must be at most 65536",
        ),
        (
            of_llama(r#""head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "none"}"#),
            "rope_type is \"none\", which is not known here; there are: default, linear, dynamic, yarn, longrope, \
             llama3, proportional",
        ),
        (
            of_llama(r#""head_dim": 64, "model_type": "qqqq""#),
            "model_type is \"qqqq\", which is not known here; Config::with_model_type reads the file by the rules of \
             another type, Config::frequencies_over takes its base and scaling alone",
        ),
        (
            of_llama(r#""head_dim": 64, "rope_parameters": {"a": {"rope_theta": 1e4}}"#),
            "rope_parameters.a is {\"rope_theta\":10000} in the file, and this model's code ignores it (Config::lenient \
             answers as the code does, Config::without leaves the key out)",
        ),
        (
            of_llama(r#""head_dim": 64, "rope_tetha": 5e5"#),
            "rope_tetha is 500000 in the file, and this model's code ignores it; the nearest key that it reads is \
             rope_theta (Config::lenient answers as the code does, Config::without leaves the key out)",
        ),
        (
            of_llama(
                r#""model_type": "glm4v", "hidden_size": 4096, "vision_config": {"hidden_size": 1536, "num_heads": 12}"#,
            ),
            "glm4v: it holds parts that rotate in their own ways; choose one with Config::with_part: vision_config; if \
             the keys of its text model lie beside each other in the file, Config::with_model_type(\"glm4v_text\") \
             reads them",
        ),
        (
            of_llama(r#""model_type": "mpt""#),
            "mpt: neither it nor its parts have a rotary embedding, so nothing rotates",
        ),
        (
            of_llama(r#""model_type": "gemma3_text", "hidden_size": 2560"#),
            "layer_type (Config::with_layer_type) must be chosen from: full_attention, sliding_attention",
        ),
        (
            ModelError::Unsupported {
                model: "fancy",
                what: "the angles depend on the tensor",
            },
            "fancy: the angles depend on the tensor",
        ),
        (
            of_llama(r#""head_dim": 64, "model_type": "lama""#),
            "model_type is \"lama\", which is not known here; Config::with_model_type reads the file by the rules of \
             another type, Config::frequencies_over takes its base and scaling alone",
        ),
        (
            of_llama(r#""head_dim": 64, "model_type": "mixformer-sequential""#),
            "model_type is \"mixformer-sequential\", which is not known here; it rotates as \"phi-msft\" does; \
             Config::with_model_type reads the file by the rules of another type, Config::frequencies_over takes its \
             base and scaling alone",
        ),
        (
            of_gguf("qwen9", &[]),
            "general.architecture is \"qwen9\", which is not known here",
        ),
        (
            of_part(
                "vision",
                r#"{"text_config": {}, "vision_config": {}, "rope_scaling": {}}"#,
            ),
            "the part (Config::with_part) is \"vision\", which the file does not have; it has: vision_config, \
             text_config",
        ),
        (
            of_part("vision_config", r#"{"model_type": "llama"}"#),
            "the part (Config::with_part) is \"vision_config\", but the file has none to choose from; leave it out",
        ),
        (
            of_layer_type("mellum", r#"{"rope_theta": 1e4}"#, "slidingattention"),
            "layer_type (Config::with_layer_type) is \"slidingattention\", which the file does not have; it has: \
             full_attention",
        ),
        (
            of_layer_type("beam", "null", "full_attention"),
            "beam: its layers of this type do not rotate; leave their queries and keys as they are",
        ),
        (
            of_llama(r#""head_dim": 64, "model_type": "gpt2""#),
            "gpt2: it has no rotary embedding, so nothing rotates",
        ),
        (
            of_gguf("mamba", &[]),
            "mamba: no layer of this architecture rotates",
        ),
        (
            of_gguf(
                "llama",
                &[
                    ("llama.block_count", GgufValue::Integer(32)),
                    ("llama.attention.key_length", GgufValue::Integer(128)),
                    ("llama.rope.freq_base", GgufValue::Text("5e5")),
                ],
            ),
            "llama.rope.freq_base is \"5e5\", but must be a number",
        ),
        (
            of_gguf("llama", &[("llama.rope.freq_bass", GgufValue::Float(1e4))]),
            "a key of the GGUF file is \"llama.rope.freq_bass\", which is not known here; the nearest that is known is \
             \"llama.rope.freq_base\"; Gguf::without leaves it out",
        ),
        (
            of_gguf("llama", &[("llama.rope.x", GgufValue::Others)]),
            "a key of the GGUF file is \"llama.rope.x\", which is not known here; Gguf::without leaves it out",
        ),
        (
            of_gguf("llama", &[]),
            "llama.rope.dimension_count is missing, and has no known default",
        ),
        (
            Gguf::from_bytes(b"GGML").expect_err("a refusal"),
            "the GGUF file is wrong from byte 0: it does not begin with the letters GGUF",
        ),
        (
            Gguf::from_bytes(b"").expect_err("a refusal"),
            "the GGUF file is wrong from byte 0: it is empty; give the bytes of the file from its first on",
        ),
        (
            ModelError::TensorData {
                tensor: "rope_freqs.weight",
                end: 2048,
                given: 1000,
            },
            "the tensor rope_freqs.weight ends at byte 2048 of the GGUF file, and 1000 bytes were given: give the file \
             as far as there, or pass the tensor's values to Gguf::with_freq_factors",
        ),
        (
            ModelError::SplitFile {
                tensor: "rope_freqs.weight",
                given: 1,
                count: 3,
            },
            "1 of 3 parts of the GGUF file were given, without the tensor rope_freqs.weight: give the others \
             (Gguf::with_part), or pass its values, or None, to Gguf::with_freq_factors",
        ),
        (
            of_llama(r#""head_dim": 63, "rope_theta": 1e4"#),
            "rotary_dim is 63, but must be even, above 0, and not above head_dim",
        ),
    ];
    words
        .into_iter()
        .map(|(error, text)| (error, text.to_string()))
        .collect()
}

/// Asserts that each error has its text, and that each name has an error; with a name comes the group that holds it.
fn have_their_sentences<'n, E: Debug + Display>(
    cases: &[(E, String)],
    names: impl IntoIterator<Item = (&'n str, &'n str)>,
) {
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(error, sentence)| error.to_string() != *sentence)
        .map(|(error, sentence)| format!("{error}\n  instead of\n{sentence}\n"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (group, name) in names {
        let shown = match group {
            "" => name.to_string(),
            _ => format!("{group}({name}"),
        };
        let of_name = |(error, _): &(E, String)| {
            let rest = format!("{error:?}");
            rest.strip_prefix(&shown)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        assert!(
            cases.iter().any(of_name),
            "no case has the sentence of {shown}"
        );
    }
}

fn unknown<T>(kind: &str, all: &[T])
where
    T: Copy + Debug + Display + PartialEq + FromStr<Err = UnknownName>,
{
    let names: Vec<String> = all.iter().map(T::to_string).collect();
    let names = names.join(" ");
    for name in ["", "Half", "sse", "half ", "forward,inverse"] {
        let error = name.parse::<T>().expect_err("a refusal");
        let known = error.known;
        assert_eq!((error.kind, known.replace(',', "")), (kind, names.clone()));
        let text = format!("unknown {kind} {name:?}; there are: {known}");
        assert_eq!(error.to_string(), text);
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
        assert_eq!(boxed.to_string(), text);
    }
    for each in all {
        assert_eq!(each.to_string().parse(), Ok(*each));
    }
}

#[test]
fn unknown_names() {
    unknown("pairing", &Pairing::ALL);
    unknown("direction", &Direction::ALL);
    unknown("backend", Backend::ALL);
}

#[test]
fn each_error_has_its_sentence() {
    let of_group = |&(group, names): &(&'static str, &'static [&str])| {
        names.iter().map(move |&name| (group, name))
    };
    have_their_sentences(&cases(), ERRORS.iter().flat_map(of_group));
    have_their_sentences(
        &cases_of_models(),
        ModelError::NAMES.iter().map(|&name| ("", name)),
    );
}

/// Errors show their fields as `derive` writes them.
#[test]
fn errors_show_their_fields() {
    let error = RowsError::CosSinLength { cos: 1, sin: 2 };
    assert_eq!(format!("{error:?}"), "CosSinLength { cos: 1, sin: 2 }");
    let error = Error::Rows(error);
    assert_eq!(
        format!("{error:?}"),
        "Rows(CosSinLength { cos: 1, sin: 2 })"
    );
    assert_eq!(
        format!("{error:#?}"),
        "Rows(\n    CosSinLength {\n        cos: 1,\n        sin: 2,\n    },\n)"
    );
    let gathered = Error::Rows(RowsError::AlreadyGathered);
    assert_eq!(format!("{gathered:?}"), "Rows(AlreadyGathered)");
}

/// Each kind has an error, and each kind can occur in a caller's program.
#[test]
fn each_error_has_a_kind() {
    let errors = [
        (
            Error::Rows(RowsError::CosSinLength { cos: 1, sin: 2 }),
            ErrorKind::Shape,
        ),
        (
            Error::Rows(RowsError::AttentionFactor { factor: 0.0 }),
            ErrorKind::Value,
        ),
        (
            Error::Rows(RowsError::PositionOutsideTable {
                index: 0,
                id: 9,
                rows: 9,
            }),
            ErrorKind::Index,
        ),
        (
            Error::Rows(RowsError::AlreadyGathered),
            ErrorKind::Operation,
        ),
        (
            Error::Shape(ShapeError::HeadDimOnStack {
                head_dim: 4096,
                limit: 2048,
            }),
            ErrorKind::Capacity,
        ),
        (
            Error::Plan(PlanError::BackendUnavailable {
                backend: Backend::Scalar,
            }),
            ErrorKind::Backend,
        ),
    ];
    for (error, kind) in errors {
        assert_eq!(error.kind(), kind, "{error}");
    }
    let kinds = errors.map(|(_, kind)| kind);
    for (error, sentence) in cases() {
        assert!(kinds.contains(&error.kind()), "{sentence}");
    }
}

/// A number that may be 1 has its noun by `Count`. The listed numbers are above 1.
#[test]
fn one_has_a_singular() {
    let cases = [
        (
            Error::Rows(RowsError::Heads { rows: 3, heads: 1 }),
            "the rows are per head, for 3 heads, but 1 head is required",
        ),
        (
            Error::Count {
                name: "weight",
                given: 0,
                needed: 1,
            },
            "weight has 0 numbers, but 1 is needed",
        ),
        (
            Error::Storage {
                what: "values of storage",
                given: 1,
                needed: 2,
            },
            "1 value of storage was given, but 2 are needed",
        ),
        (
            Error::Positions(PositionsError::PerAxis { given: 1, axes: 2 }),
            "1 position is not one per axis for each token on 2 axes; give those of all axes to Positions::axis_major \
             or Positions::token_major",
        ),
    ];
    for (error, words) in cases {
        assert_eq!(error.to_string(), words);
    }
    let never_one = [
        "{tokens} rows",
        "{rotary_dim} values",
        "{limit} channels",
        "{head_dim} channels",
        "{rotary_dim} channels",
        "{end} bytes",
        "{bytes} bytes",
        "{values} values",
        "{input} pairs",
    ];
    let nouns = "heads pairs tokens rows values channels elements numbers sequences bytes axes positions codes";
    for text in [
        include_str!("../../rope-core/src/base/error.rs"),
        include_str!("../../rope-core/src/base/error/cache.rs"),
        include_str!("../../rope-core/src/base/error/frequencies.rs"),
        include_str!("../../rope-core/src/base/error/gradient.rs"),
        include_str!("../../rope-core/src/base/error/plan.rs"),
        include_str!("../../rope-core/src/base/error/positions.rs"),
        include_str!("../../rope-core/src/base/error/rows.rs"),
        include_str!("../../rope-core/src/base/error/shape.rs"),
        include_str!("../../rope-core/src/base/error/shard.rs"),
        include_str!("../../rope-core/src/base/error/slots.rs"),
    ] {
        for noun in nouns.split(' ') {
            for (at, found) in text.match_indices(&format!("}} {noun}")) {
                let from = text[..at].rfind('{').unwrap_or(at);
                let counted = &text[from..at + found.len()];
                assert!(never_one.contains(&counted), "{counted}: use Count");
            }
        }
    }
}
