//! The row of a model type: what the code of its class does, in enums and numbers.
//!
//! A row starts from [`HALF`] or another of the constants below, which is what Llama's code does but for the pairing,
//! and names the fields in which its class differs.

use super::columns::{bases, place, row};
use super::rows::{BASES, NAMED};
use crate::norms::NormedLayers;
use crate::words;

/// Makes an enum of names that stand in files, spelled as they stand there.
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
    alibi attention_head_dim attention_layer_norm attn_layer_indices attn_type_list cross_attention_layers d_model
    decoder_num_attention_heads decoder_num_hidden_layers depth dim embed_dim eps flash_rotary full_attention_interval
    full_attn_idxs global_attn_every_n_layers global_rope_theta heads kv_channels layer_group_size layer_norm_eps
    layer_rope_theta layers local_rope_theta max_seq_len model_max_length n_embd n_head n_heads n_layer n_layers
    norm_eps num_heads num_layers num_single_layers partial_rotary_factor position_embedding_type qk_layernorm
    qk_norm_type qk_rope_head_dim rms_norm_eps rope_embedding_base rope_local_base_freq rope_ratio rope_scaling_layers
    rotary_dim rotary_emb_base rotary_pct rotary_value seq_length sliding_window_pattern swa_rope_theta use_mem_rope
    use_qk_norm use_rotary_embedding width
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

row! {
    /// The rotation of a model type's class.
    Row {
        /// The pairing of channels.
        pairs: Pairs,

        /// The width of the model: `hidden_size`.
        width: Name,
        /// The heads of a layer: `num_attention_heads`.
        heads: Name,
        /// The layers: `num_hidden_layers`.
        depth: Name,
        /// The context, which some scalings depend on: `max_position_embeddings`.
        context: Name,
        /// The channels of a head.
        head: Head,

        /// The number of channels of the head that the file lets rotate.
        part: Part,
        /// The class's own frequencies obey [`Row::part`], not only those of a scaling.
        obeys: bool,
        /// Which channels its code can rotate.
        window: Window,
        /// The rotation of values.
        values: Values,

        /// The base of the frequencies.
        base: Base,
        /// The place of the rotation's parameters.
        parameters: Form,
        /// Which `rope_type`s the class knows, and what they mean.
        rope_types: RopeTypes,
        /// The frequencies count turns of coordinates in -1..1.
        turns: bool,
        /// YaRN's `mscale_all_dim` is squared onto the scale of the softmax.
        softmax: bool,
        /// The distribution of frequencies and axes over pairs.
        axes: AxesOf,

        /// The types of the layers of a file without `layer_types`.
        layers: LayerTypes,
        /// Which layers rotate.
        rotates: Rotates,
        /// The layers that the scaling is for, where the file lists them; all without the list.
        scaled_layers: Option<Key>,
        /// Which files rotate.
        condition: Condition,

        /// A key of published files that its code never reads, whatever it says.
        ignores: Option<Key>,
        /// A key that the class has with this number by default, and never reads.
        idle: Option<(Key, u16)>,

        /// The norm of queries and keys; those of latents are not here.
        norm: Option<QkNorm>,
    }
}

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

/// The same in interleaved pairs.
pub(crate) const INTERLEAVED: Row = Row {
    pairs: Pairs::Interleaved,
    ..HALF
};

/// DeepSeek-V3: latent attention whose rotating channels, the last of a head, are interleaved and come out as halves.
pub(crate) const DEEPSEEK: Row = Row {
    pairs: Pairs::InterleavedToHalf,
    head: latent(128, 64),
    softmax: true,
    ..HALF
};

/// GLM: the first channels of a head rotate, as many as `partial_rotary_factor` says.
pub(crate) const PARTIAL: Row = Row {
    obeys: true,
    window: Window::Part,
    ..HALF
};

/// A vision tower: a row and a column, in halves, of heads that are a quotient.
pub(crate) const VISION: Row = Row {
    head: Head::Quotient,
    axes: AxesOf::Vision,
    context: Name::Absent,
    rope_types: RopeTypes::Images,
    ..HALF
};

/// Qwen2-VL's vision tower and those that took its code: the same by other keys.
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
    /// The same; halves in too if `rope_interleave` is false.
    InterleavedToHalfOrHalf,
}

/// The key of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The usual one.
    Usual,
    /// Another one that says the same; both may be there.
    Or(Key),
    /// This one, and never the usual.
    Only(Key),
    /// Twice what this one says: of layers that have two attentions each.
    Twice(Key),
    /// The sum of these: of two kinds of layers, one after the other.
    Sum(Key, Key),
    /// None: the class has no such number.
    Absent,
}

/// The channels of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// `head_dim`, or the width over the heads.
    Usual,
    /// The same; the class's dynamic NTK, YaRN and LongRoPE fail without a `head_dim`.
    Unset,
    /// `head_dim`, or this many.
    Or(u16),
    /// `head_dim`; the code fails without it.
    Given,
    /// This key, or this many.
    KeyOr(Key, u16),
    /// Always the width over the heads; a file whose `head_dim` differs is refused.
    Quotient,
    /// The same, but what rotates goes by `head_dim`, if the file has one.
    QuotientApart,
    /// `head_dim`, or `attention_head_dim`, or twice the width over the heads.
    TwiceQuotient,
    /// `head_dim`, or this many; in full-attention layers `global_head_dim`, or that many.
    Global(u16, u16),
    /// Latent attention: `qk_nope_head_dim` and, after it, `qk_rope_head_dim`, which alone rotates.
    Latent {
        still: u16,
        rotating: u16,
        /// Other keys or values for them.
        quirk: Latent,
    },
    /// The head of the memory attention, `memory_attention_*`.
    Memory,
}

/// The particulars of latent attention's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latent {
    Usual,
    /// `head_dim` is another name of `qk_rope_head_dim`.
    HeadDimRotates,
    /// The parameters speak of both parts, and their partial factor singles out the rotating one.
    FactorOfBoth,
    /// Layers with a window have keys of their own: `swa_qk_nope_head_dim`, or 192, and `swa_qk_rope_head_dim`, or the
    /// rest of `swa_head_dim`, or of 256.
    OfWindows,
}

pub(crate) const fn latent(still: u16, rotating: u16) -> Head {
    Head::Latent {
        still,
        rotating,
        quirk: Latent::Usual,
    }
}

/// The number of channels of the head that the file lets rotate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    /// A part of the head: `partial_rotary_factor` of the parameters, or this key, or this number.
    Factor(Key, f64),
    /// `partial_rotary_factor` of the parameters, or this number of channels over those of the head, or this factor.
    Count(Key, f64),
    /// `partial_rotary_factor` of the parameters, or this number.
    Inside(f64),
    /// `partial_rotary_factor` of the parameters, or this number where nothing is scaled, and 1 where something is.
    Unscaled(f64),
    /// A number of channels: `rotary_dim`, or this one.
    Channels(u16),
    /// CLVP's: see `Model::rotary_dim`.
    Clvp,
}

/// Which channels the code of a class can rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// The whole head; the code fails with fewer.
    Whole,
    /// The first channels.
    Part,
    /// The first channels, and only as many as the factor says.
    ExactPart,
    /// The last channels, and the attention's output is rotated back.
    End,
    /// Both halves of the head, each of which is paired by itself.
    Halves,
}

/// The rotation of values, if they rotate as keys do.
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
    /// `rope_theta` of the parameters or beside them, or this.
    Or(u32),
    /// The same, but the second only in files whose context is at most so long.
    OrWithin(u32, u16),
    /// `rope_theta` of the parameters, or this key, or this number.
    KeyOr(Key, u32),
    /// `rope_theta` of the parameters, or this.
    InsideOr(u32),
    /// `rope_theta` of the parameters; the code fails without it.
    Inside,
    /// This, times the key's number.
    Times(Key, u32),
    /// This, whatever the file says.
    Fixed(u32),
}

/// The place of the rotation's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// One object, or none.
    Flat,
    /// One object, or these parameters.
    FlatOr(&'static Defaults),
    /// An object for each type of layers.
    ByLayerType,
    /// An object for each type of layers, or these; `None` is a null.
    ByLayerTypeOr(&'static ByType),
    /// The same, and what the file's objects leave out is taken from these too.
    ByLayerTypeFilled(&'static ByType),
    /// The same, made from older files: what they scale is full-attention layers, and this is the base of the others.
    Older(Base),
    /// The same, but what they scale is all layers.
    OlderAllScaled(Base),
    /// An object for each type of layers, or one for all; without any, the base of layers with a window is this.
    OfWindows(Base),
    /// An object for each type of layers, or what the file's lists say of the first layer of each type; an older file
    /// scales full-attention layers.
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

/// The parameters of a file that has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) theta: Option<f64>,
    pub(crate) partial: Option<f64>,
    pub(crate) scaling: Scaled,
}

/// The scaling of a file that has none.
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

/// The base, and the part of the pairs that rotate at all.
pub(crate) const fn proportional(base: f64, part: f64) -> Defaults {
    Defaults {
        scaling: Scaled::Proportional,
        ..partial(base, part)
    }
}

/// Which types of scaling a class knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RopeTypes {
    /// Those of transformers.
    Usual,
    /// `default` alone.
    Default,
    /// Those of images: `default` and `axial` alone.
    Images,
    /// The usual ones; `mrope` means `default`.
    Mrope,
    /// The usual ones; `dynamic` with an alpha is NTK with that alpha.
    Alpha,
    /// `default` and `longrope` alone, which `su` and `yarn` mean too; the original context of a file that has none.
    LongRope(u16),
    /// The usual ones; `deepseek_yarn` means `yarn`.
    DeepseekYarn,
    /// `default`, `linear` and `dynamic` alone.
    Older,
    /// The same and `longrope`, whose list is chosen by the context if that is longer than the sequence.
    MiniCpm,
    /// `default` and `longrope`, also called `su`; `yarn` is `longrope` with YaRN's attention factor. The original
    /// context of a file that has none.
    SuOrYarn(u16),
    /// `default` alone; how the class scales is not known here.
    Unscaled,
    /// `dynamic` with an alpha alone: without one the class rounds its frequencies to bf16.
    AlphaAlone,
    /// `default`; unless `use_dynamic_ntk` is false, NTK by an alpha that grows with the length.
    GrowingAlpha,
    /// `default` and `longrope` with `short_mscale` and `long_mscale`, by the short list whatever the length (a defect
    /// of transformers by the looks of it: the long list is never used).
    PhiMoe,
}

/// The distribution of frequencies and axes over pairs: see `axes.rs`. Numbers are the sections of a file without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxesOf {
    /// One axis.
    Text,
    Mrope([u8; 3]),
    MropeInterleaved([u8; 3]),
    MropeAlternating([u8; 3]),
    Vision,
    Pixtral,
    /// Each axis a third of the channels.
    Three,
    /// FLUX: 16 channels for the place in a list of images, and 56 each for row and column.
    Flux,
    /// WAN: time, row and column.
    Wan,
    RowsAndColumns,
    ColumnsFirst,
    ColumnsAndRows,
    /// Full-width rows: each channel takes its axis from the file's sections (HunYuan-VL).
    ChannelSections,
    /// Full-width rows: three windows of channels, one an axis (V-JEPA 2).
    ChannelWindows,
}

impl AxesOf {
    /// Returns `true` if the file may have sections.
    pub(crate) fn has_sections(self) -> bool {
        matches!(
            self,
            Self::Mrope(_) | Self::MropeInterleaved(_) | Self::MropeAlternating(_)
        )
    }

    /// Returns `true` if the two channels of a pair have frequencies and axes of their own.
    pub(crate) fn is_full_width(self) -> bool {
        matches!(self, Self::ChannelSections | Self::ChannelWindows)
    }
}

/// The types of the layers of a file without `layer_types`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LayerTypes {
    /// There are none.
    Unknown,
    /// The code fails without them.
    Needed,
    /// The first of these whose condition holds.
    Rules(&'static [(LayerType, When)]),
    /// Full attention in the layers that the key lists, the next type in the others; without the key the last one.
    Listed(Key, LayerType, LayerType),
    /// The first type in the layers for which the key lists 1, the other in those with 0.
    Flags(Key, LayerType, LayerType),
    /// Llama 4's: chunked attention in the layers that rotate.
    Chunked,
    /// RecurrentGemma's `block_types`.
    Blocks,
    /// By a pattern in the first `first_k_dense_replace` layers, and by one that begins anew in the others.
    DensePrefix,
    /// Sliding windows in three of four layers from the third on; full attention is an indexed one without `use_dsa`.
    SparseOrWindow,
}

/// For which layers a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The last of each so many.
    Every(u8),
    /// The last of each so many as the key says, or this number.
    EveryBy(Key, u8),
    /// The same, counted from the end.
    EveryFromEnd(u8),
    /// Those whose index divided by the first leaves the second.
    Modulo(u8, u8),
    /// The same; the key counts before the first number.
    ModuloBy(Key, u8, u8),
    /// So many at the beginning.
    First(u8),
    /// The last layer.
    Last,
    /// These.
    In([u8; 9]),
}

/// Which layers rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotates {
    All,
    /// Those with a sliding window.
    Sliding,
    /// Those with a sliding window, or all if `sliding_window` is null.
    SlidingOrAll,
    /// Those with a sliding window, and dense ones if all dense layers of the prefix have full attention.
    SlidingOrDense,
    /// Those whose type has parameters that are not null.
    Parametrized,
    /// All but each Nth (`no_rope_layer_interval`), or by `no_rope_layers`.
    ExceptEvery(u8),
    /// All by the base that this key lists for each, but for those with 0.
    ByBase(Key),
    /// All but those for which this key lists 0; without it all but each fourth from the end.
    Nonzero(Key),
    /// All but those that this key lists, or these.
    Except(Key, LayerRun),
    /// Those whose `block_configs` has an attention.
    Blocks,
}

/// Some layers: the first, and every so many from it on.
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

/// Which files of a type rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    /// Those in which this key has this value.
    If(Key, Word),
    /// Those in which this key is true.
    IfTrue(Key),
    /// Those in which this key is not true.
    Unless(Key),
    /// Baichuan's of 7B, which alone have `max_position_embeddings`; those of 13B, of 40 heads, have ALiBi.
    Baichuan,
    /// Those in which this key is not false.
    UnlessFalse(Key),
}

/// The norm of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QkNorm {
    /// Its formula.
    pub(crate) formula: Formula,
    /// The epsilon of a file without any of the keys.
    pub(crate) eps: f32,
    /// Its key in a file.
    pub(crate) eps_key: Eps,
    /// Over which channels it is.
    pub(crate) reach: Reach,
    /// It stands after the rotation.
    pub(crate) after: bool,
    /// It is there if this key is true, or if this is.
    pub(crate) switch: Option<(Key, bool)>,
    /// The layers that have it.
    pub(crate) layers: NormedLayers,
    /// Values are normed too, without weights.
    pub(crate) values: bool,
}

/// A norm of each head, before the rotation, in all layers.
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
    /// None of these.
    Other,
}

/// The key of a norm's epsilon in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eps {
    /// Nowhere: it is fixed.
    Fixed,
    Key(Key),
    /// Under the first of these that the file has.
    KeyOr(Key, Key),
}

/// Over which channels a norm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Each head.
    Head,
    /// All heads of a token.
    Row,
    /// All heads if the key has the first value, each head if it has the second, which it has where it is missing.
    RowIf(Key, [Word; 2]),
}
