//! The C names for the Rust names in messages of rope-core and rope-models.

/// Pairs of a Rust name, or of a phrase with one, and C's. The suite `dialects` reports a name without a pair.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("usize::MAX", "SIZE_MAX"),
    ("isize::MAX", "PTRDIFF_MAX"),
    ("fit usize", "fit size_t"),
    ("the slice has", "the memory has"),
    (
        "use Layout::bshd for a part of a larger slice",
        "use rope_layout_init for a part of a larger memory",
    ),
    (
        "Positions::axis_major or Positions::token_major",
        "ROPE_POSITIONS_KIND_AXIS_MAJOR or ROPE_POSITIONS_KIND_TOKEN_MAJOR",
    ),
    (
        "call the function whose name ends with `_in` (rows_in), which takes the caller's storage",
        "call rope_rows_fill, which takes the caller's storage",
    ),
    ("Direction::Forward", "ROPE_DIRECTION_FORWARD"),
    ("Direction::Inverse", "ROPE_DIRECTION_INVERSE"),
    ("Direction::Transpose", "ROPE_DIRECTION_TRANSPOSE"),
    ("rotate_into", "rope_rotate_into"),
    (
        "the attention factor of the rows is",
        "rows.attention_factor is",
    ),
    (
        "Frequencies::shift",
        "rope_rows_fill with rope_angles.moves",
    ),
    ("Rope::channel_gradients", "ROPE_GRADIENT_KIND_CHANNELS"),
    ("Rope::angle_gradients", "ROPE_GRADIENT_KIND_ANGLES"),
    ("Rope::factor_gradients", "ROPE_GRADIENT_KIND_FACTORS"),
    ("PairGradients::cos_sin", "rope_pair_gradients_cos_sin"),
    ("set it by Rope::with_parts", "set rope_plan.parts"),
    ("set Rope::with_window to", "set rope_plan.first_channel to"),
    (
        "Rows::repeated gives one row to all tokens",
        "a stride of 0 for tokens in rope_angles.layout gives one row to all tokens",
    ),
    (
        "addressed by slots, not by Slots::offsets,",
        "addressed by slots, not by ROPE_SLOTS_KIND_OFFSETS,",
    ),
    ("Rows::from_cos_sin", "rope_rows_apart"),
    ("Rows::inverted", "rope_rows_invert"),
    (
        "take the rows of one sequence by Rows::narrow",
        "pass the rows of one sequence, at its part of the values",
    ),
    (
        "give those of all axes to Positions::axis_major or Positions::token_major",
        "list those of all axes as ROPE_POSITIONS_KIND_AXIS_MAJOR or ROPE_POSITIONS_KIND_TOKEN_MAJOR",
    ),
    (
        "the function whose name ends with `_in` (rows_in)",
        "rope_rows_fill",
    ),
    (
        "ShardKind::UnevenZigzag",
        "ROPE_POSITIONS_KIND_UNEVEN_ZIGZAG_SHARD",
    ),
    ("ShardKind::Striped", "ROPE_POSITIONS_KIND_STRIPED_SHARD"),
    ("to Norm::with_weight", "as rope_norm.weight"),
    (
        "leave out Norm::with_sum_of_squares",
        "set rope_norm.sums to NULL",
    ),
    ("call Norm::without_weight", "set rope_norm.weighted to 0"),
    ("that is `weighted`", "whose rope_norm.weighted is not 0"),
    ("Config::with_length", "rope_config.length"),
    ("Config::with_part", "rope_config.part"),
    ("Config::with_layer_type", "rope_config.layer_type"),
    (
        "Config::with_model_type reads the file by the rules of another type, Config::frequencies_over takes its base \
         and scaling alone",
        "rope_config.model_type reads the file by the rules of another type",
    ),
    (
        "Config::with_model_type reads it",
        "rope_config.model_type reads it",
    ),
    ("Config::with_model_type(", "rope_config.model_type ("),
    ("Config::lenient", "rope_config.lenient"),
    ("Config::without leaves", "rope_config.without leaves"),
    ("Gguf::from_bytes", "rope_model_from_gguf"),
    ("Gguf::with_part", "rope_gguf.parts"),
    ("Gguf::without leaves", "rope_gguf.without leaves"),
    (
        "to Gguf::with_freq_factors, or None if the file has none",
        "as rope_gguf.freq_factors, none of them if the file has none",
    ),
    (
        "or None, to Gguf::with_freq_factors",
        "or none, as rope_gguf.freq_factors",
    ),
    (
        "None: this architecture does not read one",
        "none (a rope_gguf.freq_factor_count of 0): this architecture does not read one",
    ),
    ("to Gguf::with_freq_factors", "as rope_gguf.freq_factors"),
    ("Gguf::with_freq_factors", "rope_gguf.freq_factors"),
    ("use Model::layers", "use rope_model_from_config"),
    ("Model::layers", "rope_model_describe_layer"),
    (
        "guide::refused has",
        "the page `refused` of rope-models' guide has",
    ),
];
