//! The architectures of GGUF files, by llama.cpp's code: the table `architectures.rs`, one row an architecture.
//!
//! A row starts from [`NORM`] or [`NEOX`], which rotate all layers alike, and names the fields in which its
//! architecture differs. An architecture that is not there is refused by name.

/// The rotation that llama.cpp computes for an architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchitectureRow {
    /// The pairing of channels and the distribution of axes: its `llama_model_rope_type`.
    pub(crate) rope: Rope,
    /// Which layers have a sliding window.
    pub(crate) windows: Windows,
    /// The files in which layers have a sliding window.
    pub(crate) windows_if: WindowsIf,
    /// The base and the scaling of those layers.
    pub(crate) local: Local,
    /// They rotate `rope.dimension_count_swa` channels (elsewhere layer 0 decides for all).
    pub(crate) own_dim: bool,
    /// The other layers rotate half of `rope.dimension_count`.
    pub(crate) halved: bool,
    /// Which layers rotate.
    pub(crate) rotates: RotatedLayers,
    /// Which of these do not, by their number.
    pub(crate) skips: Skips,
    /// Which layers have no queries and keys.
    pub(crate) recurrent: Recurrent,
    /// The layers in which a tensor of factors counts: `rope_freqs`, `rope_factors_long` or `rope_factors_short`.
    pub(crate) factors: Factors,
    /// The tensors of factors are the long and the short ones, whatever the scaling's type.
    pub(crate) long_short: bool,
    /// The particulars of its YaRN.
    pub(crate) yarn: Yarns,
    /// `rope.scaling.alpha` changes the base.
    pub(crate) alpha: bool,
    /// The whole head, base 10000, no scaling.
    pub(crate) fixed: bool,
    /// A key that is refused above 0: its meaning was not read.
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

/// The same in halves.
pub(crate) const NEOX: ArchitectureRow = ArchitectureRow {
    rope: Rope::Neox,
    ..NORM
};

/// The pairing of an architecture, and its distribution of axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rope {
    /// Interleaved pairs.
    Norm,
    /// Halves.
    Neox,
    /// Halves, four axes by sections.
    Mrope,
    /// The same, interleaved sections.
    Imrope,
    /// By `rope.dimension_sections`, if the file has two of them.
    NormOrMrope,
    /// The same.
    NeoxOrMrope,
    /// No layer rotates.
    None,
    /// It is not answered here, and why.
    Refused(&'static str),
}

/// Which layers have a sliding window, where the file has no `attention.sliding_window_pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None, whatever the file says.
    None,
    /// All but the last of each so many.
    LastOf(usize),
    /// All but the first of each so many.
    FirstOf(usize),
    /// The file has to say it.
    File,
}

/// The files in which layers have a sliding window.
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
    /// Those of the other layers.
    AsOthers,
    /// The base `rope.freq_base_swa`, if there is one, and the scaling of the others.
    Own,
    /// The same without the scaling.
    Unscaled,
    /// The same without the scaling, and 10000 where there is no `rope.freq_base_swa`.
    TenThousand,
    /// The base of the others, without scaling and attention factor.
    Plain,
    /// `rope.freq_base_swa`, if there is one, without scaling and attention factor.
    OwnPlain,
}

/// Which layers rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotatedLayers {
    All,
    /// Those with a sliding window.
    Sliding,
    /// Those with a sliding window, and the first `leading_dense_block_count`.
    SlidingOrLead,
    /// Those with a sliding window, and all where no layer has one.
    SlidingOrAll,
    /// Those that `attention.rope_pattern` lists, or all.
    Listed,
    /// All, unless `rope.scaling.finetuned` is false.
    Switched,
    /// All of a model of 32 layers, none of one of 40.
    Only7b,
}

/// Which layers do not rotate, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skips {
    None,
    /// The last of each so many; of Llama 4 without windows the last layer.
    LastOf(usize),
    /// The first of each so many, of files with windows.
    FirstOf(usize),
}

/// Which layers have no queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recurrent {
    None,
    /// Those with an `attention.head_count_kv` of 0.
    NoKeys,
    /// Those of `attention.recurrent_layers`, or all but each so many (`full_attention_interval`).
    ExceptEvery(usize),
}

/// The layers in which a tensor of factors counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    None,
    All,
    /// In those without a sliding window.
    Full,
    /// The same, and the file does not load without one.
    FullNeeded,
}

/// The particulars of an architecture's YaRN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yarns {
    Usual,
    /// `yarn_beta_fast` and `yarn_beta_slow` count; the first is 8 where it is missing.
    Grok,
    /// They count, and `yarn_log_multiplier` as it is.
    Mistral3,
    /// `yarn_log_multiplier` counts ten times, on the scale of the softmax, and cancels the attention factor.
    Deepseek2,
    /// The same, but only if it counts 1.
    Deepseek,
    /// The scale of the softmax has a factor that no variant expresses.
    Refused,
}

impl ArchitectureRow {
    pub(crate) fn rotates(&self) -> bool {
        !matches!(self.rope, Rope::None | Rope::Refused(_))
    }

    /// Returns `true` if all its layers rotate, and alike.
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
