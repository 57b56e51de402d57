//! The architectures of GGUF files, by llama.cpp's code. The table is `architectures.rs`, one row per architecture.
//!
//! A row starts from [`NORM`] or [`NEOX`], which rotate all layers alike, and names the fields in which its
//! architecture differs. An architecture without a row is refused by name.

/// The rotation that llama.cpp computes for an architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchitectureRow {
    /// The pairing and the axes: its `llama_model_rope_type`.
    pub(crate) rope: Rope,
    /// The layers with a sliding window.
    pub(crate) windows: Windows,
    /// The files in which they have it.
    pub(crate) windows_if: WindowsIf,
    /// The base and the scaling of these layers.
    pub(crate) local: Local,
    /// These layers rotate `rope.dimension_count_swa` channels (elsewhere layer 0 decides for all).
    pub(crate) own_dim: bool,
    /// The other layers rotate half of `rope.dimension_count`.
    pub(crate) halved: bool,
    /// The layers that rotate.
    pub(crate) rotates: RotatedLayers,
    /// The exceptions among them, by number.
    pub(crate) skips: Skips,
    /// The layers without queries and keys.
    pub(crate) recurrent: Recurrent,
    /// The layers that use a tensor of factors: `rope_freqs`, `rope_factors_long` or `rope_factors_short`.
    pub(crate) factors: Factors,
    /// The factors are the long and the short ones, whatever the type of the scaling.
    pub(crate) long_short: bool,
    /// The variant of its YaRN.
    pub(crate) yarn: Yarns,
    /// `rope.scaling.alpha` changes the base.
    pub(crate) alpha: bool,
    /// The whole head, base 10000, no scaling.
    pub(crate) fixed: bool,
    /// The key whose positive value describes code that has not been read.
    pub(crate) refuses: Option<&'static str>,
}

/// Llama: all layers alike, in interleaved pairs.
pub(crate) const NORM: ArchitectureRow = ArchitectureRow {
    rope: Rope::Norm,
    windows: Windows::None,
    windows_if: WindowsIf::Always,
    local: Local::AsOthers,
    own_dim: false,
    halved: false,
    rotates: RotatedLayers::All,
    skips: Skips::None,
    recurrent: Recurrent::None,
    factors: Factors::None,
    long_short: false,
    yarn: Yarns::Usual,
    alpha: false,
    fixed: false,
    refuses: None,
};

/// All layers alike, in halves.
pub(crate) const NEOX: ArchitectureRow = ArchitectureRow {
    rope: Rope::Neox,
    ..NORM
};

/// The pairing and the axes of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rope {
    /// Interleaved pairs.
    Norm,
    /// Halves.
    Neox,
    /// Halves, four axes by sections.
    Mrope,
    /// Halves, four axes by interleaved sections.
    Imrope,
    /// Interleaved pairs, or `Mrope` if the file has two `rope.dimension_sections`.
    NormOrMrope,
    /// Halves, or `Mrope` if the file has two `rope.dimension_sections`.
    NeoxOrMrope,
    /// No layer rotates.
    None,
    /// Not supported here, with the reason.
    Refused(&'static str),
}

/// The layers with a sliding window in a file without `attention.sliding_window_pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None, regardless of the file.
    None,
    /// All but the last of every `n`.
    LastOf(usize),
    /// All but the first of every `n`.
    FirstOf(usize),
    /// The file must specify them.
    File,
}

/// The files whose layers have a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowsIf {
    Always,
    /// With an `attention.sliding_window` above 0.
    Window,
    /// Without an `attention.sliding_window` of 0.
    NotZero,
    /// With 64 layers.
    Layers64,
}

/// The base and the scaling of layers with a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    /// The base and the scaling of the other layers.
    AsOthers,
    /// The base `rope.freq_base_swa`, if there is one, and the scaling of the others.
    Own,
    /// The base as in `Own`, without scaling.
    Unscaled,
    /// The base `rope.freq_base_swa`, or 10000, without scaling.
    TenThousand,
    /// The base of the other layers, without scaling and attention factor.
    Plain,
    /// The base as in `Own`, without scaling and attention factor.
    OwnPlain,
}

/// The layers that rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotatedLayers {
    All,
    /// Layers with a sliding window.
    Sliding,
    /// Layers with a sliding window, and the first `leading_dense_block_count`.
    SlidingOrLead,
    /// Layers with a sliding window, or all if no layer has one.
    SlidingOrAll,
    /// Layers listed by `attention.rope_pattern`, or all.
    Listed,
    /// All, unless `rope.scaling.finetuned` is false.
    Switched,
    /// All of a model of 32 layers, none of a model of 40.
    Only7b,
}

/// The layers that do not rotate, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skips {
    None,
    /// The last of every `n`; in Llama 4 without windows, the last layer.
    LastOf(usize),
    /// The first of every `n`, in files with windows.
    FirstOf(usize),
}

/// The layers without queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recurrent {
    None,
    /// Layers with an `attention.head_count_kv` of 0.
    NoKeys,
    /// Layers in `attention.recurrent_layers`, or all but every `full_attention_interval`-th, or `n`-th.
    ExceptEvery(usize),
}

/// The layers that use a tensor of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    None,
    All,
    /// Layers without a sliding window.
    Full,
    /// Layers without a sliding window; the file does not load without a tensor.
    FullNeeded,
}

/// The variant of an architecture's YaRN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yarns {
    Usual,
    /// `yarn_beta_fast` and `yarn_beta_slow` count; the default of the first is 8.
    Grok,
    /// `yarn_beta_fast` and `yarn_beta_slow` count, and `yarn_log_multiplier` without a factor.
    Mistral3,
    /// `yarn_log_multiplier` counts ten times, scales the softmax, and cancels the attention factor.
    Deepseek2,
    /// As `Deepseek2`, but only if the multiplier counts 1.
    Deepseek,
    /// The scale of the softmax has a factor that no variant expresses.
    Refused,
}

impl ArchitectureRow {
    pub(crate) fn rotates(&self) -> bool {
        !matches!(self.rope, Rope::None | Rope::Refused(_))
    }

    /// Returns true if all layers rotate, and alike.
    pub(crate) fn all_layers_alike(&self) -> bool {
        self.windows == Windows::None
            && self.rotates == RotatedLayers::All
            && self.skips == Skips::None
            && self.recurrent == Recurrent::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architectures::ROWS;

    #[test]
    fn rows_are_in_order_and_hold_together() {
        assert!(ROWS.is_sorted_by(|(one, _), (next, _)| one < next));
        for (name, row) in ROWS {
            let windowed = row.windows != Windows::None;
            let depends = row.local != Local::AsOthers
                || row.windows_if != WindowsIf::Always
                || row.own_dim
                || row.halved;
            assert!(windowed || !depends, "{name}: without windows");
            if let Rope::Refused(why) = row.rope {
                assert!(why.len() > 10 && row.all_layers_alike(), "{name}");
            }
        }
    }
}
