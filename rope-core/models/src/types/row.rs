//! The row of a model type: the behavior of its class, in enums and numbers.
//!
//! A row starts from [`HALF`] or another of the constants below, and names the fields in which its class differs. They
//! describe Llama's code, except for the pairing.

use super::columns::{bases, row};
use crate::base::words;

/// Defines an enum of names in files, with their spelling.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident: $($variant:ident)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(non_camel_case_types, reason = "the names are those of files")]
        pub(crate) enum $name { $($variant),+ }

        impl $name {
            pub(crate) fn name(self) -> &'static str {
                const NAMES: &str = concat!($(stringify!($variant), " "),+);
                words::nth(NAMES, self as usize)
            }
        }
    };
}

names! {
    /// The keys of files that rows name.
    Key:
    alibi attention_head_dim attention_layer_norm attn_layer_indices attn_type_list axes_dim_rope axes_dims
    axes_dims_rope cross_attention_layers d_model decoder_num_attention_heads decoder_num_hidden_layers depth dim
    embed_dim eps flash_rotary full_attention_interval full_attn_idxs global_attn_every_n_layers global_rope_theta
    heads hidden_size_per_head hybrid_layer_pattern kv_channels layer_group_size layer_norm_eps layer_rope_theta
    layers local_rope_theta max_seq_len model_dim model_max_length n_embd n_embed n_head n_heads n_layer n_layers
    norm_eps normalize_qk_projections num_heads num_layers num_single_layers num_transformer_layers
    partial_rotary_factor position_embedding_type qk_layernorm qk_norm qk_norm_type qk_rope_head_dim rms_norm_eps
    rope_axes_dim rope_embedding_base rope_freq_constant rope_local_base_freq rope_local_theta rope_max_length
    rope_max_seq_len rope_ratio rope_scaling_layers rotary_dim rotary_emb_base rotary_pct rotary_value seq_length
    sliding_window_pattern swa_head_dim swa_rope_theta time_theta training_seqlen use_mem_rope use_qk_norm
    use_rotary_embedding width
}

names! {
    /// The types of layers that rows name.
    LayerType:
    full_attention sliding_attention linear_attention indexed_attention compressed_sparse_attention
    heavily_compressed_attention window_attention conv hybrid hybrid_sliding
}

names! {
    /// Values of files that rows name.
    Word:
    olmo qwen3 rope rotary
}

bases!(HALF INTERLEAVED DEEPSEEK PARTIAL VISION QWEN_VISION);

/// Passes the definition of a row to another macro.
macro_rules! fields {
    ($define:ident) => {
        $define! {
            /// The behavior of the class of a model type.
            Row {
                /// The pairing of channels.
                pairs: Pairs,

                /// The key of the width of the model: `hidden_size`.
                width: Name,
                /// The key of the heads of a layer: `num_attention_heads`.
                heads: Name,
                /// The key of the layers: `num_hidden_layers`.
                depth: Name,
                /// The key of the context, which some scalings depend on: `max_position_embeddings`.
                context: Name,
                /// The channels of a head.
                head: Head,

                /// The rotated part of the head according to the file.
                part: Part,
                /// The class's own frequencies obey [`Row::part`], not only those of a scaling.
                obeys: bool,
                /// The channels that its code can rotate.
                window: Window,
                /// The rotation of values.
                values: Values,

                /// The base of the frequencies.
                base: Base,
                /// The place of the rotation's parameters.
                parameters: Form,
                /// The `rope_type`s of the class, and their meaning.
                rope_types: RopeTypes,
                /// The frequencies count turns of coordinates in -1..1.
                turns: bool,
                /// YaRN's `mscale_all_dim` is squared onto the scale of the softmax.
                softmax: bool,
                /// The frequencies and axes of pairs.
                axes: AxesOf,

                /// The types of the layers of a file without `layer_types`.
                layers: LayerTypes,
                /// The layers that rotate.
                rotates: Rotates,
                /// The layers that are scaled, if the file lists them; all without the list.
                scaled_layers: Option<Key>,
                /// The files that rotate.
                condition: Condition,

                /// A key of published files that its code never reads, whatever its value.
                ignores: Option<Key>,
                /// A key that the class has with this default number, and never reads.
                idle: Option<(Key, u16)>,

                /// The norm of queries and keys, not of latents.
                norm: Option<QkNorm>,
            }
        }
    };
}

pub(super) use fields;

fields!(row);

/// Llama: all channels of every head of every layer rotate, in halves, by one base.
pub(crate) const HALF: Row = Row {
    pairs: Pairs::Half,
    width: Name::Usual,
    heads: Name::Usual,
    depth: Name::Usual,
    context: Name::Usual,
    head: Head::Usual,
    part: Part::Factor(Key::partial_rotary_factor, 1.0),
    obeys: false,
    window: Window::Whole,
    values: Values::Plain,
    base: Base::Or(10_000),
    parameters: Form::Flat,
    rope_types: RopeTypes::Usual,
    turns: false,
    softmax: false,
    axes: AxesOf::Text,
    layers: LayerTypes::Unknown,
    rotates: Rotates::All,
    scaled_layers: None,
    condition: Condition::Always,
    ignores: None,
    idle: None,
    norm: None,
};

/// Llama in interleaved pairs.
pub(crate) const INTERLEAVED: Row = Row {
    pairs: Pairs::Interleaved,
    ..HALF
};

/// DeepSeek-V3: latent attention whose rotating channels, the last of a head, are interleaved and become halves.
pub(crate) const DEEPSEEK: Row = Row {
    pairs: Pairs::InterleavedToHalf,
    head: latent(128, 64),
    softmax: true,
    ..HALF
};

/// GLM: the first channels of a head rotate, by `partial_rotary_factor`.
pub(crate) const PARTIAL: Row = Row {
    obeys: true,
    window: Window::Part,
    ..HALF
};

/// A vision tower: a row and a column, in halves, with heads of the width over their number.
pub(crate) const VISION: Row = Row {
    head: Head::Quotient,
    axes: AxesOf::Vision,
    context: Name::Absent,
    rope_types: RopeTypes::Images,
    ..HALF
};

/// Qwen2-VL's vision tower and those derived from it: other keys.
pub(crate) const QWEN_VISION: Row = Row {
    heads: Name::Or(Key::num_heads),
    depth: Name::Or(Key::depth),
    ..VISION
};

/// The pairing of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    Half,
    /// In halves, by the negated angle.
    NegatedHalf,
    Interleaved,
    /// Interleaved in, halves out.
    InterleavedToHalf,
    /// As `InterleavedToHalf`; halves in too if `rope_interleave` is false.
    InterleavedToHalfOrHalf,
}

/// The key of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The usual key.
    Usual,
    /// Another key with the same meaning; both may exist.
    Or(Key),
    /// This key, and never the usual one.
    Only(Key),
    /// Twice the value of this key, for layers with two attentions each.
    Twice(Key),
    /// The sum of these keys, for two consecutive kinds of layers.
    Sum(Key, Key),
    /// None: the class has no such number.
    Absent,
}

/// The channels of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// `head_dim`, or the width over the heads.
    Usual,
    /// As `Usual`; the class's dynamic NTK, YaRN and LongRoPE fail without a `head_dim`.
    Unset,
    /// `head_dim`, or this number.
    Or(u16),
    /// `head_dim`; the code fails without it.
    Given,
    /// This key, or this number.
    KeyOr(Key, u16),
    /// Always the width over the heads; a file whose `head_dim` differs is refused.
    Quotient,
    /// As `Usual`; layers with a window have the channels of this key, if the file has it.
    OfWindows(Key),
    /// As `Quotient`, but the rotation follows `head_dim` if the file has one.
    QuotientApart,
    /// `head_dim`, or `attention_head_dim`, or twice the width over the heads.
    TwiceQuotient,
    /// `head_dim`, or the first number; in full-attention layers `global_head_dim`, or the second.
    Global(u16, u16),
    /// Latent attention: `qk_nope_head_dim` and, after it, `qk_rope_head_dim`, which alone rotates.
    Latent {
        still: u16,
        rotating: u16,
        /// Deviations of its keys.
        quirk: Latent,
    },
    /// The channels of the memory attention, `memory_attention_*`.
    Memory,
}

/// Deviations in the keys of latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latent {
    Usual,
    /// `head_dim` is another name of `qk_rope_head_dim`.
    HeadDimRotates,
    /// The code makes frequencies for `head_dim`, or the default of `qk_rope_head_dim`, and fails with others.
    HeadDimAlike,
    /// The parameters cover both parts, and their partial factor selects the rotating one.
    FactorOfBoth,
    /// Layers with a window have separate keys: `swa_qk_nope_head_dim`, or 192, and `swa_qk_rope_head_dim`, or the rest
    /// of `swa_head_dim`, or of 256.
    OfWindows,
}

pub(crate) const fn latent(still: u16, rotating: u16) -> Head {
    Head::Latent {
        still,
        rotating,
        quirk: Latent::Usual,
    }
}

/// The rotated part of the head according to the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A part of the head: `partial_rotary_factor` of the parameters, or this key, or this number.
    Factor(Key, f64),
    /// `partial_rotary_factor` of the parameters, or this number of channels over those of the head, or this factor.
    Count(Key, f64),
    /// `partial_rotary_factor` of the parameters, or this number.
    Inside(f64),
    /// `partial_rotary_factor` of the parameters, or this number without a scaling, and 1 with one.
    Unscaled(f64),
    /// A number of channels: `rotary_dim`, or this one.
    Channels(u16),
    /// CLVP's: see `Model::rotary_dim`.
    Clvp,
}

/// The channels that the code of a class can rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// The whole head; the code fails with fewer.
    Whole,
    /// The first channels.
    Part,
    /// The first channels, exactly as many as the factor states.
    ExactPart,
    /// The last channels, and the attention's output is rotated back.
    End,
    /// Both halves of the head, each paired by itself.
    Halves,
}

/// The rotation of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Plain,
    Rotated,
    /// If this key is true.
    If(Key),
}

/// The base of the frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Base {
    /// `rope_theta` of the parameters or beside them, or this number.
    Or(u32),
    /// As `Or`, but the number applies only to files whose context is at most this long.
    OrWithin(u32, u16),
    /// `rope_theta` of the parameters, or this key, or this number.
    KeyOr(Key, u32),
    /// This key, or the base of the other layers: for layers with a window.
    KeyOrMain(Key),
    /// `rope_theta` of the parameters, or this number.
    InsideOr(u32),
    /// `rope_theta` of the parameters; the code fails without it.
    Inside,
    /// This number, times that of the key.
    Times(Key, u32),
    /// This number, regardless of the file.
    Fixed(u32),
}

/// The place of the rotation's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// One object, or none.
    Flat,
    /// One object, or these parameters.
    FlatOr(&'static Defaults),
    /// One object per type of layers.
    ByLayerType,
    /// One object per type of layers, or these; `None` is a null.
    ByLayerTypeOr(&'static ByType),
    /// As `ByLayerTypeOr`, and keys that the file's objects omit come from these too.
    ByLayerTypeFilled(&'static ByType),
    /// As `ByLayerTypeOr`, converted from older files: their scaling applies to full-attention layers, and this is the
    /// base of the others.
    Older(Base),
    /// As `Older`, but the scaling applies to all layers.
    OlderAllScaled(Base),
    /// One object per type of layers, or one for all; without any, this is the base of layers with a window.
    OfWindows(Base),
    /// One object per type of layers, or the entries of the file's lists for the first layer of each type; an older
    /// file scales full-attention layers.
    FirstLayers,
    /// DeepSeek-V4's two sets, main and compress.
    Compressed,
    /// `rope_parameters`, or none: `rope_scaling` is not read.
    New,
    /// The key `rope_theta` alone.
    ThetaOnly,
    /// The object `rotary` of the first InternLM, or none.
    Rotary,
}

/// The parameters of two types of layers.
pub(crate) type ByType = [(LayerType, Option<Defaults>); 2];

/// The parameters of a file without any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) theta: Option<f64>,
    pub(crate) partial: Option<f64>,
    pub(crate) scaling: Scaled,
}

/// The scaling of a file without any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scaled {
    None,
    Proportional,
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: u32,
    },
    Yarn {
        factor: f64,
        original: u32,
        truncate: bool,
        /// `mscale` and `mscale_all_dim` are 1.
        mscale: bool,
        attention_factor: Option<f64>,
    },
}

/// The base alone.
pub(crate) const fn theta(theta: f64) -> Defaults {
    Defaults {
        theta: Some(theta),
        partial: None,
        scaling: Scaled::None,
    }
}

/// The base, and the part of the head.
pub(crate) const fn partial(base: f64, part: f64) -> Defaults {
    Defaults {
        partial: Some(part),
        ..theta(base)
    }
}

/// The base, and the part of the pairs that rotates at all.
pub(crate) const fn proportional(base: f64, part: f64) -> Defaults {
    Defaults {
        scaling: Scaled::Proportional,
        ..partial(base, part)
    }
}

/// The types of scaling of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RopeTypes {
    /// All of transformers.
    Usual,
    /// Only `default`.
    Default,
    /// Only those of images: `default` and `axial`.
    Images,
    /// The usual ones; `mrope` means `default`.
    Mrope,
    /// The usual ones; `dynamic` with an alpha is NTK with that alpha.
    Alpha,
    /// Only `default` and `longrope`, with the aliases `su` and `yarn`; the number is the default of the original
    /// context.
    LongRope(u16),
    /// The usual ones; `deepseek_yarn` means `yarn`.
    DeepseekYarn,
    /// Only `default`, `linear` and `dynamic`.
    Older,
    /// As `Older`, and `yarn`, whose original context is 4096 unless the parameters have one.
    Bailing,
    /// As `Older`, and `longrope`, whose list depends on the context if that is longer than the sequence.
    MiniCpm,
    /// `default` and `longrope`, also called `su`; `yarn` is `longrope` with YaRN's attention factor. The number is the
    /// default of the original context.
    SuOrYarn(u16),
    /// Only `default`; the scaling of the class is unknown here.
    Unscaled,
    /// Only `dynamic` with an alpha: without one the class rounds its frequencies to bf16.
    AlphaAlone,
    /// `default`; unless `use_dynamic_ntk` is false, NTK with an alpha that grows with the length.
    GrowingAlpha,
    /// `default`: NTK with an alpha that grows with the length over `base_seqlen`, and cosines and sines that grow with
    /// the length over `training_seqlen`.
    Telechat,
    /// `default` and `longrope` with `short_mscale` and `long_mscale`, always by the short list (apparently a defect of
    /// transformers: the long list is never used).
    PhiMoe,
}

/// The frequencies and axes of pairs: see `reading/axes.rs`. Numbers are the default sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxesOf {
    /// One axis.
    Text,
    Mrope([u8; 3]),
    MropeInterleaved([u8; 3]),
    /// As `MropeInterleaved`; the code refuses sections that do not cover the head.
    MropeInterleavedWhole([u8; 3]),
    MropeAlternating([u8; 3]),
    Vision,
    Pixtral,
    /// A third of the channels for each axis.
    Three,
    /// FLUX: 16 channels for the index in a list of images, and 56 each for row and column.
    Flux,
    /// The channels of each axis, as this key lists them, or these up to a 0.
    Listed(Key, [u8; 4]),
    /// WAN: time, row and column.
    Wan,
    RowsAndColumns,
    ColumnsFirst,
    ColumnsAndRows,
    /// Full-width rows: each channel has its axis from the file's sections (HunYuan-VL).
    ChannelSections,
    /// Full-width rows: three windows of channels, one per axis (V-JEPA 2).
    ChannelWindows,
}

impl AxesOf {
    /// Returns true if the file may have sections.
    pub(crate) fn has_sections(self) -> bool {
        matches!(
            self,
            Self::Mrope(_)
                | Self::MropeInterleaved(_)
                | Self::MropeInterleavedWhole(_)
                | Self::MropeAlternating(_)
        )
    }

    /// Returns true if the two channels of a pair have different frequencies and axes.
    pub(crate) fn is_full_width(self) -> bool {
        matches!(self, Self::ChannelSections | Self::ChannelWindows)
    }
}

/// The types of the layers of a file without `layer_types`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LayerTypes {
    /// There are none.
    Unknown,
    /// Required: the code fails without them.
    Needed,
    /// The type of the first rule whose condition holds.
    Rules(&'static [(LayerType, When)]),
    /// Full attention in the layers that the key lists, and the second type in the others; without the key, the third.
    Listed(Key, LayerType, LayerType),
    /// The first type in layers for which the key lists 1, the second in layers with 0.
    Flags(Key, LayerType, LayerType),
    /// Llama 4's: chunked attention in the layers that rotate.
    Chunked,
    /// RecurrentGemma's `block_types`.
    Blocks,
    /// PLaMo 2's: attention in one layer of every `mamba_step`, full in those of `full_attention_idx`.
    Steps,
    /// A pattern in the first `first_k_dense_replace` layers, and another that restarts in the others.
    DensePrefix,
    /// Sliding windows in three of four layers from the third on; full attention is an indexed one without `use_dsa`.
    SparseOrWindow,
}

/// The layers of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The last of every `n`.
    Every(u8),
    /// The last of every `n`, by the key or this number.
    EveryBy(Key, u8),
    /// As `Every`, counted from the end.
    EveryFromEnd(u8),
    /// Layers whose index modulo the first number is the second.
    Modulo(u8, u8),
    /// As `Modulo`; the key overrides the first number.
    ModuloBy(Key, u8, u8),
    /// The first `n` layers.
    First(u8),
    /// The last layer.
    Last,
    /// These layers.
    In([u8; 9]),
}

/// The layers that rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotates {
    All,
    /// Layers with a sliding window.
    Sliding,
    /// Layers with a sliding window, or all if `sliding_window` is null.
    SlidingOrAll,
    /// Layers with a sliding window, and dense ones if all dense layers of the prefix have full attention.
    SlidingOrDense,
    /// Layers whose type has parameters that are not null.
    Parametrized,
    /// All but each Nth (`no_rope_layer_interval`), or by `no_rope_layers`.
    ExceptEvery(u8),
    /// All but those with 0, by the base that this key lists per layer.
    ByBase(Key),
    /// All but those for which this key lists 0; without it, all but each fourth from the end.
    Nonzero(Key),
    /// All but those that this key lists, or these.
    Except(Key, LayerRun),
    /// Layers whose `block_configs` has an attention.
    Blocks,
}

/// A range of layers: the first, and every `n`-th from it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerRun {
    pub(crate) first: u8,
    pub(crate) step: u8,
    pub(crate) count: u8,
}

impl LayerRun {
    pub(crate) fn contains(self, index: usize) -> bool {
        let [first, step, count] = [self.first, self.step, self.count].map(usize::from);
        index >= first && (index - first).is_multiple_of(step) && (index - first) / step < count
    }
}

/// The files of a type that rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    /// Files in which this key has this value.
    If(Key, Word),
    /// Files in which this key has this value, or which omit it.
    IfOrOmitted(Key, Word),
    /// Files in which this key is true.
    IfTrue(Key),
    /// Files in which this key is not true.
    Unless(Key),
    /// Baichuan's files of 7B, which alone have `max_position_embeddings`; those of 13B, with 40 heads, have ALiBi.
    Baichuan,
    /// Files in which this key is not false.
    UnlessFalse(Key),
}

/// The norm of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QkNorm {
    /// Its formula.
    pub(crate) formula: Formula,
    /// The default of the number added to the mean.
    pub(crate) eps: f32,
    /// The key of that number.
    pub(crate) eps_key: Eps,
    /// The channels that it covers.
    pub(crate) reach: Reach,
    /// True if it runs after the rotation.
    pub(crate) after: bool,
    /// The switch of the norm: a key, and its default.
    pub(crate) switch: Option<(Key, bool)>,
    /// The layers that have it.
    pub(crate) layers: NormedLayers,
    /// True if values are normed too, without weights.
    pub(crate) values: bool,
}

/// Returns a norm of each head, before the rotation, in all layers.
pub(crate) const fn norm(formula: Formula, eps: f32) -> QkNorm {
    QkNorm {
        formula,
        eps,
        eps_key: Eps::Key(Key::rms_norm_eps),
        reach: Reach::Head,
        after: false,
        switch: None,
        layers: NormedLayers::All,
        values: false,
    }
}

/// The formulas of norms, by their names in [`NormFormula`](rope_core::norm::NormFormula).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Formula {
    Llama,
    Olmo2,
    Gemma,
    Gemma3n,
    /// Without weights.
    Llama4,
    Cohere,
    StableLm,
    LayerNorm,
    Chameleon,
    /// Llama's, with weights for each head.
    Plamo2,
    /// None of these.
    Other,
}

/// The key of the number that a norm adds to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eps {
    /// None: the number is fixed.
    Fixed,
    Key(Key),
    /// The first of these keys that the file has.
    KeyOr(Key, Key),
}

/// The channels that a norm covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Each head.
    Head,
    /// All heads of a token.
    Row,
    /// All heads if the key has the first value, each head if it has the second, which is the default.
    RowIf(Key, [Word; 2]),
}

/// The layers with queries and keys that norm them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NormedLayers {
    All,
    Rotating,
    Still,
}

impl NormedLayers {
    /// Returns true if a layer with attention is one of them.
    pub(crate) fn holds(self, rotates: bool) -> bool {
        match self {
            NormedLayers::All => true,
            NormedLayers::Rotating => rotates,
            NormedLayers::Still => !rotates,
        }
    }
}
