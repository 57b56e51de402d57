//! A function for each error that the suites of refusals provoke, with the fields as parameters. The compiler reports a
//! function that no suite calls.

use std::convert::identity;

use rope_core::error::{
    CacheError, CacheIndex, FrequenciesError, PlanError, PositionsError, RowsError, ShapeError,
    SlotsError,
};
use rope_core::{Backend, Dimension, Error, Pairing, Shape};

macro_rules! errors {
    ($($name:ident { $($field:ident: $type:ty),* } = $group:path, $error:ident::$variant:ident;)+) => {$(
        pub(crate) fn $name($($field: $type),*) -> Error {
            $group($error::$variant { $($field),* })
        }
    )+};
}

errors! {
    count { name: &'static str, given: usize, needed: usize } = identity, Error::Count;
    list_entry { name: &'static str, index: u32, value: f64, required: &'static str } = identity, Error::ListEntry;
    parameter { name: &'static str, value: f64, required: &'static str } = identity, Error::Parameter;
    shape_elements { shape: Shape, len: usize } = identity, Error::ShapeElements;
    storage { what: &'static str, given: usize, needed: usize } = identity, Error::Storage;

    head_dim_on_stack { head_dim: usize, limit: usize } = Error::Shape, ShapeError::HeadDimOnStack;
    mismatch { dimension: Dimension, source: usize, target: usize } = Error::Shape, ShapeError::Mismatch;
    out_of_bounds { needed: usize, len: usize } = Error::Shape, ShapeError::OutOfBounds;
    operand_part { part: u32, of: &'static str, given: usize, first: usize } = Error::Shape, ShapeError::Part;
    overflow { shape: Shape } = Error::Shape, ShapeError::Overflow;
    overlap { dimension: Dimension, stride: usize, needed: usize } = Error::Shape, ShapeError::Overlap;
    parts_interleave { dimension: Dimension } = Error::Shape, ShapeError::PartsInterleave;
    query_key { dimension: Dimension, query: usize, key: usize } = Error::Shape, ShapeError::QueryKeyMismatch;
    range { dimension: Dimension, start: usize, end: usize, extent: usize } = Error::Shape, ShapeError::Range;
    stride_overflow { dimension: Dimension, extent: usize, stride: usize } = Error::Shape, ShapeError::StrideOverflow;

    already_gathered {} = Error::Rows, RowsError::AlreadyGathered;
    attention_factor { factor: f64 } = Error::Rows, RowsError::AttentionFactor;
    cos_sin_length { cos: usize, sin: usize } = Error::Rows, RowsError::CosSinLength;
    halves_differ { row: usize, pair: usize } = Error::Rows, RowsError::HalvesDiffer;
    halves_equal { row: usize, width: usize } = Error::Rows, RowsError::HalvesEqual;
    magnitude { row: usize, head: usize, pair: u32, cos: f32, sin: f32, factor: f64 }
        = Error::Rows, RowsError::Magnitude;
    no_inverse { row: usize, head: usize, pair: usize, cos: f32, sin: f32 } = Error::Rows, RowsError::NoInverse;
    outside_table { index: usize, id: i64, rows: usize } = Error::Rows, RowsError::PositionOutsideTable;
    rotary_dim { rotary_dim: usize, required: &'static str } = Error::Rows, RowsError::RotaryDim;
    rotary_dim_exceeds { rotary_dim: usize, head_dim: usize } = Error::Rows, RowsError::RotaryDimExceedsHead;
    window { first_channel: usize, rotary_dim: usize, head_dim: usize } = Error::Rows, RowsError::Window;
    parts { parts: usize, rotary_dim: usize } = Error::Rows, RowsError::Parts;
    row_count { rows: usize, tokens: usize, batch: usize } = Error::Rows, RowsError::Count;
    row_heads { rows: usize, heads: usize } = Error::Rows, RowsError::Heads;
    row_range { start: usize, end: usize, rows: usize } = Error::Rows, RowsError::Range;
    row_shape { len: usize, rows: usize, width: usize } = Error::Rows, RowsError::Shape;
    row_width { width: usize, rotary_dim: usize } = Error::Rows, RowsError::Width;
    rows_per_head { rows: usize, heads: usize } = Error::Rows, RowsError::PerHead;
    sequences { sequences: usize, tokens: usize } = Error::Rows, RowsError::Sequences;

    backend_unavailable { backend: Backend } = Error::Plan, PlanError::BackendUnavailable;
    centered_sums {} = Error::Plan, PlanError::CenteredSums;
    plan_head_dim { given: usize, head_dim: usize, first: usize } = Error::Plan, PlanError::HeadDim;
    hadamard_block { block: usize } = Error::Plan, PlanError::HadamardBlock;
    hadamard_head { block: usize, head_dim: usize } = Error::Plan, PlanError::HadamardHead;
    pairing_changes { input: Pairing, output: Pairing } = Error::Plan, PlanError::PairingChangesInPlace;
    stages_in_parts { reason: &'static str } = Error::Plan, PlanError::StagesInParts;
    parts_on_stack { channels: usize } = Error::Plan, PlanError::PartsOnStack;
    weight_missing { needed: usize } = Error::Plan, PlanError::WeightMissing;
    weight_unused { given: usize } = Error::Plan, PlanError::WeightUnused;

    cache_heads { heads: usize, head_dim: usize, cache_heads: usize, cache_head_dim: usize }
        = Error::Cache, CacheError::Heads;
    cache_channels { start: usize, end: usize, head_dim: usize } = Error::Cache, CacheError::Channels;
    cache_channels_apart { head_dim: usize, chunk: usize, chunk_stride: usize, channel: usize }
        = Error::Cache, CacheError::ChannelsApart;
    cache_layout { required: &'static str } = Error::Cache, CacheError::Layout;
    cache_overlap { of: &'static str, index: CacheIndex, stride: usize, other: CacheIndex, least: usize }
        = Error::Cache, CacheError::Overlap;
    cache_part_of_block { of: &'static str, given: usize, values: usize } = Error::Cache, CacheError::PartOfBlock;
    cache_part_divided { start: usize, end: usize, at: usize } = Error::Cache, CacheError::PartDivided;
    cache_part_overlap { of: &'static str, first: usize, second: usize } = Error::Cache, CacheError::PartOverlap;
    cache_scale_among_codes { at: usize, head_dim: usize } = Error::Cache, CacheError::ScaleAmongCodes;
    cache_scale_room { end: usize, head_dim: usize, index: CacheIndex, stride: usize, least: usize }
        = Error::Cache, CacheError::ScaleRoom;
    cache_too_large { extent: usize, stride: usize } = Error::Cache, CacheError::TooLarge;
    cache_memory { needed: usize, given: usize } = Error::Cache, CacheError::Memory;

    negative_page { index: u32, position: i64, sequence: i64, page: i64, block: i64 }
        = Error::Slots, SlotsError::NegativePage;
    page { index: usize, position: i64, page: i64, pages: usize } = Error::Slots, SlotsError::Page;
    page_position { index: usize, position: i64, sequence: i64, limit: usize }
        = Error::Slots, SlotsError::PagePosition;
    slot { index: usize, slot: i64, slots: usize } = Error::Slots, SlotsError::Slot;
    slot_count { slots: usize, tokens: usize, batch: usize } = Error::Slots, SlotsError::Count;
    slot_offset { index: usize, offset: i64, extent: usize, len: usize } = Error::Slots, SlotsError::Offset;

    not_an_integer { value: f64 } = Error::Positions, PositionsError::NotAnInteger;
    rows_too_long { tokens: usize, rotary_dim: usize } = Error::Frequencies, FrequenciesError::RowsTooLong;
}
