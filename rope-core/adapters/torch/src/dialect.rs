//! The Python names for the Rust names in messages of rope-core and rope-models.

/// Pairs of a Rust name, or of a phrase with one, and Python's. The suite `dialects` reports a name without a pair.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("usize::MAX", "the largest index"),
    ("isize::MAX", "the largest size"),
    ("the slice has", "the memory has"),
    (
        "use Layout::bshd for a part of a larger slice",
        "pass a view of a part of a larger tensor",
    ),
    ("Direction::Forward", "direction=\"forward\""),
    ("Direction::Inverse", "direction=\"inverse\""),
    ("Direction::Transpose", "direction=\"transpose\""),
    (
        "give those of all axes to Positions::axis_major or Positions::token_major",
        "pass those of all axes, [axes, batch, tokens]",
    ),
    (
        "compute fewer rows at a time, or call the function whose name ends with `_in` (rows_in), which takes the \
         caller's storage",
        "compute fewer rows at a time",
    ),
    ("rotate_into", "rotate"),
    (
        "takes gradients back, Rope::channel_gradients sums those of cos and sin, and rotate_into",
        "takes gradients back, and rotate",
    ),
    (
        "use Rope::angle_gradients, Rope::factor_gradients and PairGradients::cos_sin",
        "leave out output_pairing, or the gradients of cos and sin",
    ),
    (
        "give both to Rows::from_cos_sin",
        "pass both, as cos and as sin",
    ),
    (
        "take the rows of one sequence by Rows::narrow",
        "pass the rows of one sequence",
    ),
    (
        "; Rows::repeated gives one row to all tokens",
        "; cos.expand(tokens, -1) gives one row to all tokens",
    ),
    (
        "set Rope::with_window to at most",
        "pass a latent of at most",
    ),
    ("use Rows::inverted", "pass the rows' own attention_factor"),
    ("to Norm::with_weight", "as weight"),
    ("call Norm::without_weight", "use a formula that has none"),
    ("original_context", "original_max_position_embeddings"),
    ("Config::with_length", "length"),
    ("Config::with_part", "part"),
    ("layer_type (Config::with_layer_type)", "layer_type"),
    ("Config::with_layer_type", "layer_type"),
    (
        "Config::with_model_type reads the file by the rules of another type, Config::frequencies_over takes its base \
         and scaling alone",
        "model_type reads it by the rules of another type",
    ),
    (
        "(Config::without leaves it out)",
        "(leave it out of config if it is not meant)",
    ),
    (
        "Config::lenient answers as the code does, Config::without leaves the key out",
        "lenient=True answers as the code does; leave the key out of config if it is not meant",
    ),
    ("Config::with_model_type", "model_type"),
    ("use Model::layers", "choose one by layer"),
    ("Model::layers", "layer"),
    (
        "guide::refused has",
        "the page `refused` of rope-models' guide has",
    ),
];
