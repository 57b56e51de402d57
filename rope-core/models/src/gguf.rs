//! Reads the keys of a GGUF file about its rotary embedding into layers, frequencies and a pairing, or refuses them.
//!
//! The keys are llama.cpp's (`docs/gguf.md`, `src/llama-arch.cpp`). Their meaning differs by architecture: the layers
//! with a sliding window and their differences, the layers that do not rotate, the keys and tensors that count, and the
//! pairing, which may differ from the original model's (converters permute Llama's weights to interleaved pairs).
//! `architectures.rs` has a row for each. The results are those of llama.cpp, even if it ignores a key; behavior
//! without an equivalent here is refused. `gguf/file.rs` reads the keys and the tensors of factors from the bytes of a
//! file; otherwise the caller provides them.

mod file;
mod value;

pub use value::GgufValue;

use crate::architecture::{
    ArchitectureRow, Factors, Local, Recurrent, Rope, RotatedLayers, Skips, Windows, WindowsIf,
    Yarns,
};
use crate::architectures::ROWS;
use crate::base::error::{
    Error, GGUF_KEY, Refusal, Result, beginning, missing, must_be, out_of_range, still, unsupported,
};
use crate::base::nearest::nearest;
use crate::model::{Layers, Model, Rotation};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use file::{FREQS, FilePart, FileValue, LONG, SHORT, TENSORS, invalid};
use rope_core::axes::Axes;
use rope_core::{Direction, Frequencies, Pairing, Scaling, Yarn};

/// The rotary embedding of a GGUF file: its keys, and for some models a tensor of factors.
///
/// [`Gguf::from_bytes`] reads a file, and [`Gguf::new`] uses the keys and values of another parser. [`Gguf::model`]
/// returns the results.
///
/// ```
/// use rope_core::Pairing;
/// use rope_models::{Gguf, GgufValue};
///
/// // a Llama 3.1
/// let keys = [
///     ("general.architecture", GgufValue::Text("llama")),
///     ("llama.block_count", GgufValue::Integer(32)),
///     ("llama.attention.key_length", GgufValue::Integer(128)),
///     ("llama.rope.freq_base", GgufValue::Float(500_000.0)),
/// ];
/// // its tensor `rope_freqs.weight`, which has the scaling; no key names it
/// let rope_freqs: Option<Vec<f32>> = Some([[1.0; 32], [8.0; 32]].concat());
/// let gguf = Gguf::new(&keys)?.with_freq_factors(rope_freqs.as_deref());
/// let model = gguf.model()?;
/// let rotation = model.rotation()?;
/// assert_eq!(rotation.pairing(), (Pairing::Interleaved, Pairing::Interleaved));
/// assert_eq!(rotation.window(), 0..128);
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// No key tells whether a file has a tensor of factors. Without a file, an architecture that may have one (`freqs` in
/// the table) has no frequencies until [`Gguf::with_freq_factors`] specifies it: Llama 3.1 and later would otherwise
/// rotate as Llama 3.0, and still produce text.
///
/// # The architectures
///
/// The architectures of llama.cpp. Those whose rotation has no plan here are refused with the reason.
///
#[doc = crate::architectures::architecture_names!()]
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    keys: Keys<'a>,
    architecture: &'a str,
    /// The tensors of the file, if there is one.
    file: Option<Tensors>,
    /// The tensor of factors, or its absence; `None` until the caller specifies it.
    factors: Option<Option<&'a [f32]>>,
    /// The context of a sequence.
    context: Option<u64>,
    /// Keys that count as missing.
    without: Vec<&'a str>,
}

/// Keys and values.
#[derive(Clone, Debug)]
enum Keys<'a> {
    Given(&'a [(&'a str, GgufValue<'a>)]),
    File(Vec<(&'a str, FileValue<'a>)>),
}

impl Keys<'_> {
    fn iter(&self) -> impl Iterator<Item = (&str, GgufValue<'_>)> {
        let entry = |index: usize| match self {
            Keys::Given(pairs) => pairs.get(index).copied(),
            Keys::File(pairs) => pairs.get(index).map(|(key, value)| (*key, value.value())),
        };
        (0..).map_while(entry)
    }
}

/// The tensors listed by the given parts of a file.
#[derive(Clone, Debug)]
struct Tensors {
    /// The values of the [`TENSORS`] that exist, or why they cannot be read.
    values: [Option<Result<Vec<f32>>>; 3],
    /// The numbers of the parts.
    parts: Vec<u64>,
    /// The number of all parts.
    count: u64,
}

/// llama.cpp's keys under `ARCHITECTURE.rope.`; each architecture reads some of them.
const ROPE_KEYS: [&str; 17] = [
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
];

/// The kinds of layers with attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Full,
    Sliding,
}

/// The attention of one layer: `None` without queries and keys.
#[derive(Clone, Copy, Debug)]
struct Attention {
    kind: Kind,
    rotates: bool,
}

/// The parameters of one kind of layers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Numbers {
    rotary_dim: usize,
    base: f64,
    scaled: bool,
    attention_factor: bool,
    /// True if a tensor of factors counts.
    factors: bool,
}

/// An architecture and its row.
#[derive(Clone, Copy, Debug)]
struct Architecture {
    name: &'static str,
    row: &'static ArchitectureRow,
}

impl<'a> Gguf<'a> {
    /// Reads the bytes of a file, of version 2 or 3 in either byte order: for example, a memory map of the file.
    ///
    /// Reads the header, the keys and the list of tensors, and of the tensors' data `rope_freqs.weight`,
    /// `rope_factors_long.weight` and `rope_factors_short.weight`. The bytes after those may be omitted.
    ///
    /// ```
    /// use rope_models::Gguf;
    ///
    /// # fn write(keys: &[(&str, u32, &[u8])]) -> Vec<u8> {
    /// #     let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    /// #     let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    /// #     file.extend((keys.len() as u64).to_le_bytes());
    /// #     for (key, kind, value) in keys {
    /// #         file.extend([&text(key)[..], &kind.to_le_bytes(), value].concat());
    /// #     }
    /// #     file
    /// # }
    /// # let architecture = [&5_u64.to_le_bytes()[..], b"qwen3"].concat();
    /// # let bytes = write(&[
    /// #     ("general.architecture", 8, &architecture),
    /// #     ("qwen3.block_count", 4, &36_u32.to_le_bytes()),
    /// #     ("qwen3.attention.key_length", 4, &128_u32.to_le_bytes()),
    /// #     ("qwen3.rope.freq_base", 6, &1e6_f32.to_le_bytes()),
    /// # ]);
    /// // `bytes` are those of a Qwen3.
    /// let model = Gguf::from_bytes(&bytes)?.model()?;
    /// assert_eq!(model.layers()?.len(), 36);
    /// assert_eq!(model.rotation()?.window(), 0..128);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// For a split file (`split.count` above 1), pass the first part, and the others to [`Gguf::with_part`]. The others
    /// matter if the first part does not list the tensor of factors.
    ///
    /// # Errors
    ///
    /// [`Error::GgufFile`] if the bytes are not such a file, or end before its list of tensors; [`Error::Missing`]
    /// without `general.architecture`; [`Error::Invalid`] if it is not a text, for an alignment that is not a power of
    /// two, and for a part other than the first.
    ///
    /// A tensor that cannot be read is an error of the results that depend on it ([`Gguf::model`]).
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        let part = FilePart::read(bytes)?;
        if part.number != 0 {
            let number = GgufValue::Integer(part.number as i64);
            let first = "0: Gguf::from_bytes takes the first part of a file, and Gguf::with_part the others";
            return Err(invalid(file::NUMBER, number, first).into());
        }
        let key = "general.architecture";
        let architecture = part.keys.iter().find(|(name, _)| *name == key);
        let architecture = match architecture {
            Some((_, FileValue::Plain(value))) => Some(*value),
            Some(_) => Some(GgufValue::Others),
            None => None,
        };
        Self::of(
            Keys::File(part.keys),
            architecture,
            Some(Tensors {
                values: part.tensors,
                parts: alloc::vec![0],
                count: part.count,
            }),
        )
    }

    /// Adds another part of a split file, in any order.
    ///
    /// ```
    /// use rope_models::{Error, Gguf};
    ///
    /// fn read<'a>(first: &'a [u8], others: &[&[u8]]) -> Result<Gguf<'a>, Error> {
    ///     let gguf = Gguf::from_bytes(first)?;
    ///     others.iter().try_fold(gguf, |gguf, part| gguf.with_part(part))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::GgufFile`] as [`Gguf::from_bytes`]; [`Error::Invalid`] for a part of another file (`split.count`), for
    /// a repeated part (`split.no`), and if [`Gguf::from_bytes`] did not read the first part.
    pub fn with_part(mut self, bytes: &[u8]) -> Result<Self, Error> {
        let part = FilePart::read(bytes)?;
        let Some(file) = &mut self.file else {
            return Err(must_be("Gguf::with_part", "called after Gguf::from_bytes").into());
        };
        let integer = |number: u64| GgufValue::Integer(number as i64);
        if part.count != file.count {
            return Err(invalid(file::COUNT, integer(part.count), "that of the first part").into());
        }
        if part.number >= file.count || file.parts.contains(&part.number) {
            let required = "below split.count, and of a part that was not given before";
            return Err(invalid(file::NUMBER, integer(part.number), required).into());
        }
        file.parts.push(part.number);
        for (values, own) in file.values.iter_mut().zip(part.tensors) {
            *values = values.take().or(own);
        }
        Ok(self)
    }

    /// Uses the keys and values of another parser: all keys of the file; or `general.architecture` with the keys under
    /// the architecture's `rope.` and `attention.` and its `block_count`, `nextn_predict_layers`, `context_length`,
    /// `embedding_length`, `leading_dense_block_count` and `full_attention_interval`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without `general.architecture`; [`Error::Invalid`] if it is not a text.
    pub fn new(pairs: &'a [(&'a str, GgufValue<'a>)]) -> Result<Self, Error> {
        let key = "general.architecture";
        let architecture = pairs.iter().find(|(name, _)| *name == key);
        Self::of(
            Keys::Given(pairs),
            architecture.map(|(_, value)| *value),
            None,
        )
    }

    fn of(
        keys: Keys<'a>,
        architecture: Option<GgufValue<'a>>,
        file: Option<Tensors>,
    ) -> Result<Self, Error> {
        let key = "general.architecture";
        match architecture {
            Some(GgufValue::Text(architecture)) => Ok(Self {
                keys,
                architecture,
                file,
                factors: None,
                context: None,
                without: Vec::new(),
            }),
            Some(value) => Err(invalid(key, value, "a text").into()),
            None => Err(missing(key).into()),
        }
    }

    /// Sets the tensor `rope_freqs.weight`, or for LongRoPE the one of `rope_factors_short.weight` and
    /// `rope_factors_long.weight` that the context requires (llama.cpp uses the long one if the context of a sequence
    /// is above `rope.scaling.original_context_length`); `None` if the file has none of them. Not required for
    /// architectures that never have one. Overrides the tensors of [`Gguf::from_bytes`].
    #[must_use]
    pub fn with_freq_factors(self, factors: Option<&'a [f32]>) -> Self {
        Self {
            factors: Some(factors),
            ..self
        }
    }

    /// Sets the context of a sequence, which selects `rope_factors_long.weight` or `rope_factors_short.weight` of
    /// [`Gguf::from_bytes`]. The default is the file's `context_length`, as in llama.cpp with an `n_ctx` of 0.
    #[must_use]
    pub fn with_context(self, context: u64) -> Self {
        Self {
            context: Some(context),
            ..self
        }
    }

    /// Removes this key (`llama.rope.freq_scale`, say), if the caller knows that it is unintended.
    #[must_use]
    pub fn without(mut self, key: &'a str) -> Self {
        self.without.push(key);
        self
    }

    /// Reads the file once, with the same results as a `config.json`, layer by layer, in a value independent of the
    /// file. Every function of a [`Model`], as in the adapters, accepts that of a GGUF file.
    ///
    /// ```
    /// use rope_core::Pairing;
    /// use rope_models::{Gguf, GgufValue};
    ///
    /// let keys = [
    ///     ("general.architecture", GgufValue::Text("qwen3")),
    ///     ("qwen3.block_count", GgufValue::Integer(36)),
    ///     ("qwen3.attention.key_length", GgufValue::Integer(128)),
    ///     ("qwen3.rope.freq_base", GgufValue::Float(1_000_000.0)),
    /// ];
    /// let model = Gguf::new(&keys)?.model()?;
    /// let rotation = model.layers()?.get(35).unwrap().rotation.unwrap();
    /// assert_eq!(rotation.pairing(), (Pairing::Half, Pairing::Half));
    /// assert_eq!((rotation.window(), rotation.head_dim()), (0..128, 128));
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// The pairing is that of the file's tensors, which converters may have permuted. The keys do not describe norms:
    /// [`Model::norm`] is [`Error::Unsupported`].
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] for an unknown architecture, and for a key under its `rope.` that llama.cpp does not have
    /// ([`Gguf::without`]); [`Error::Unsupported`] for an architecture that is refused.
    ///
    /// [`Model::layers`] and [`Model::rotation`] have further errors: [`Error::Missing`], [`Error::Invalid`] and
    /// [`Error::Unknown`] for their keys (`block_count`, those of a head's channels, of the base, of the scaling and of
    /// the sections), and for the tensor of factors; [`Error::FreqFactors`] if the keys of [`Gguf::new`] may come with
    /// a tensor and [`Gguf::with_freq_factors`] was not called; [`Error::TensorData`] and [`Error::SplitFile`] if the
    /// bytes of [`Gguf::from_bytes`] do not contain it; [`Error::Unsupported`] if no layer rotates;
    /// [`Error::Ambiguous`] for the rotation of layers that differ; and the errors of [`Frequencies::new`].
    pub fn model(&self) -> Result<Model, Error> {
        let architecture = self.known()?;
        let norm = unsupported(
            architecture.name,
            "the keys of a GGUF file say nothing of norms",
        );
        let layers = self.read_layers(architecture, norm.clone());
        Ok(Model::new(
            architecture.name,
            layers,
            self.read_rotation(None),
            Err(norm),
            Vec::new(),
        ))
    }

    /// Reads the layers with their rotations, at most two. Excludes the layers of multi-token prediction, which follow
    /// the others.
    fn read_layers(&self, architecture: Architecture, norm: Refusal) -> Result<Layers> {
        let differ = !architecture.row.all_layers_alike();
        let mut kinds: Vec<Kind> = Vec::new();
        let (mut rotations, mut all) = (Vec::new(), Vec::new());
        for index in 0..self.layer_count()? {
            let attention = self.attention(architecture, index)?;
            let layer_type = match attention.map(|attention| attention.kind) {
                None => "linear_attention",
                Some(Kind::Full) => "full_attention",
                Some(Kind::Sliding) => "sliding_attention",
            };
            let rotating = attention.filter(|attention| attention.rotates);
            let place = match rotating.map(|attention| attention.kind) {
                None => None,
                Some(kind) => match kinds.iter().position(|own| *own == kind) {
                    Some(place) => Some(place),
                    None => {
                        rotations.push(self.read_rotation(Some(kind))?);
                        kinds.push(kind);
                        Some(rotations.len() - 1)
                    }
                },
            };
            all.push((differ.then(|| layer_type.into()), place));
        }
        Ok(Layers::new(all, rotations, Err(norm)))
    }

    /// Reads the rotation of one kind of layers, or of all layers.
    fn read_rotation(&self, kind: Option<Kind>) -> Result<Rotation> {
        let (architecture, numbers) = self.numbers(kind)?;
        let frequencies = self.frequencies(architecture, numbers)?;
        let pairing = self.pairing(architecture)?;
        let rotary_dim = frequencies.rotary_dim();
        let latent = self.count("attention.kv_lora_rank")?.is_some();
        let keys = ["attention.key_length_swa", "attention.key_length_mla"];
        let (own, required) = match (kind, latent) {
            (Some(Kind::Sliding), _) => (
                Some(keys[0]),
                "at least as many: rope.dimension_count_swa is too large, or missing",
            ),
            (_, true) => (
                Some(keys[1]),
                "at least as many: rope.dimension_count is too large, or missing",
            ),
            _ => (None, "at least as many: rope.dimension_count is too large"),
        };
        let own = match own {
            Some(key) => self.count(key)?.map(|head_dim| (key, head_dim)),
            None => None,
        };
        let usual = "attention.key_length";
        let (key, head_dim) = match own {
            Some(own) => own,
            None => {
                let head_dim = self.head_dim().map_err(|refusal| match refusal.error() {
                    Error::Missing { .. } => self.missing(usual),
                    _ => refusal,
                })?;
                (usual, head_dim)
            }
        };
        let Some(rest) = head_dim.checked_sub(rotary_dim) else {
            return Err(out_of_range(
                self.full(key),
                format_args!("{head_dim} for {rotary_dim} channels that rotate"),
                required,
            ));
        };
        Ok(Rotation {
            frequencies,
            input: pairing,
            output: pairing,
            direction: Direction::Forward,
            head_dim,
            // In latent attention the last channels rotate.
            offset: if latent { rest } else { 0 },
            values: false,
            turned_back: false,
            windows: 1,
            full_width: false,
            real_positions: false,
        })
    }

    /// Returns the pairing of the file's tensors.
    fn pairing(&self, architecture: Architecture) -> Result<Pairing> {
        Ok(match self.rope_type(architecture)? {
            Rope::Norm => Pairing::Interleaved,
            _ => Pairing::Half,
        })
    }

    /// Returns the axes: four for the multimodal architectures, otherwise one.
    fn axes(&self, architecture: Architecture, rotary_dim: usize) -> Result<Axes<'static>> {
        let over_sections = match self.rope_type(architecture)? {
            Rope::Mrope => Axes::ggml_mrope,
            Rope::Imrope => Axes::ggml_imrope,
            _ => return Ok(Axes::from(rotary_dim)),
        };
        let sections = self
            .sections()?
            .ok_or_else(|| self.missing("rope.dimension_sections"))?;
        Ok(over_sections(rotary_dim, sections))
    }

    /// Computes the frequencies as llama.cpp does, from the file alone.
    fn frequencies(
        &self,
        architecture: Architecture,
        numbers: Numbers,
    ) -> Result<Frequencies<'static>> {
        let (scaling, own) = self.scaling(architecture, numbers)?;
        let axes = self.axes(architecture, numbers.rotary_dim)?;
        let frequencies = Frequencies::new(axes, numbers.base, &scaling)?;
        if !(own.is_finite() && own > 0.0) {
            let key = "rope.scaling.attn_factor";
            return Err(self.invalid(key, GgufValue::Float(own), "positive and finite"));
        }
        let factor = frequencies.attention_factor() * own;
        Ok(frequencies.with_attention_factor(factor)?)
    }

    /// Returns the architecture's row of the table, unless it is refused.
    fn known(&self) -> Result<Architecture> {
        let found = ROWS.iter().find(|(name, _)| *name == self.architecture);
        let (name, row) = found.ok_or_else(|| Error::Unknown {
            key: "general.architecture".into(),
            value: beginning(self.architecture),
            known: "",
        })?;
        if let Rope::Refused(what) = row.rope {
            return Err(unsupported(name, what));
        }
        if let Some(key) = row.refuses
            && self.whole(key)?.is_some_and(|value| value != 0)
        {
            return Err(self.must_be(key, "0, or not there: what it describes is not known here"));
        }
        for (key, _) in self.keys.iter().filter(|_| row.rotates()) {
            let own = self.own(key).unwrap_or_default();
            if own.starts_with("rope.") && !ROPE_KEYS.contains(&own) {
                return Err(Error::Unknown {
                    key: GGUF_KEY.into(),
                    value: beginning(key),
                    known: nearest(own, ROPE_KEYS.into_iter()),
                }
                .into());
            }
        }
        Ok(Architecture { name, row })
    }

    /// Returns the rope type, resolved for the file.
    fn rope_type(&self, architecture: Architecture) -> Result<Rope> {
        // Sections count if there are at least two.
        let by_sections = |without| {
            let sections = self.sections()?;
            let several = sections.is_some_and(|[first, second, ..]| first > 0 && second > 0);
            Ok(if several { Rope::Mrope } else { without })
        };
        match architecture.row.rope {
            Rope::NormOrMrope => by_sections(Rope::Norm),
            Rope::NeoxOrMrope => by_sections(Rope::Neox),
            Rope::None | Rope::Refused(_) => Err(still(
                architecture.name,
                "no layer of this architecture rotates",
            )),
            rope => Ok(rope),
        }
    }

    fn sections(&self) -> Result<Option<[usize; 4]>> {
        let key = "rope.dimension_sections";
        let invalid = || self.must_be(key, "four counts of pairs");
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Integers(&[a, b, c, d])) => {
                let mut sections = [0; 4];
                for (section, pairs) in sections.iter_mut().zip([a, b, c, d]) {
                    *section = usize::try_from(pairs).map_err(|_| invalid())?;
                }
                Ok(Some(sections))
            }
            Some(_) => Err(invalid()),
        }
    }

    /// Returns the number of layers, without those of multi-token prediction.
    fn layer_count(&self) -> Result<usize> {
        // llama.cpp's LLAMA_MAX_LAYERS.
        const MOST: usize = 512;
        let key = "block_count";
        let all = self.count(key)?.ok_or_else(|| self.missing(key))?;
        let required = "1 to 512, and above nextn_predict_layers";
        let ahead = self.whole("nextn_predict_layers")?.unwrap_or(0);
        match all.checked_sub(ahead) {
            Some(count @ 1..) if all <= MOST => Ok(count),
            _ => Err(self.must_be(key, required)),
        }
    }

    /// Returns the attention of a layer; `None` if it has no queries and keys.
    fn attention(&self, architecture: Architecture, index: usize) -> Result<Option<Attention>> {
        if self.recurrent(architecture, index)? {
            return Ok(None);
        }
        let sliding = self.slides(architecture, index)?;
        let kind = if sliding { Kind::Sliding } else { Kind::Full };
        let rotates = architecture.row.rotates()
            && self.rotates(architecture, index, sliding)?
            && !self.skipped(architecture, index)?;
        Ok(Some(Attention { kind, rotates }))
    }

    fn recurrent(&self, architecture: Architecture, index: usize) -> Result<bool> {
        match architecture.row.recurrent {
            Recurrent::None => Ok(false),
            Recurrent::NoKeys => {
                let key = match self.find("attention.head_count_kv") {
                    Some(_) => "attention.head_count_kv",
                    None => "attention.head_count",
                };
                Ok(self.at_layer(key, index)? == Some(0))
            }
            Recurrent::ExceptEvery(every) => {
                let listed = self.at_layer("attention.recurrent_layers", index)?;
                let every = self.count("full_attention_interval")?.unwrap_or(every);
                Ok(listed.map_or(!(index + 1).is_multiple_of(every), |listed| listed != 0))
            }
        }
    }

    /// Returns true if some layers have a sliding window.
    fn windowed(&self, architecture: Architecture) -> Result<bool> {
        let window = || self.whole("attention.sliding_window");
        Ok(match architecture.row.windows_if {
            _ if architecture.row.windows == Windows::None => false,
            WindowsIf::Always => true,
            WindowsIf::Window => window()?.is_some_and(|window| window > 0),
            WindowsIf::NotZero => window()? != Some(0),
            WindowsIf::Layers64 => self.layer_count()? == 64,
        })
    }

    /// Returns true if the layer has a sliding window.
    fn slides(&self, architecture: Architecture, index: usize) -> Result<bool> {
        let windows = architecture.row.windows;
        if windows == Windows::None || !self.windowed(architecture)? {
            return Ok(false);
        }
        let key = "attention.sliding_window_pattern";
        let own = self.find(key);
        if let Some(GgufValue::Integers(_) | GgufValue::Bools(_)) = own {
            return Ok(self.at_layer(key, index)?.is_some_and(|slides| slides != 0));
        }
        let (default, full_first) = match windows {
            Windows::LastOf(every) => (every, false),
            Windows::FirstOf(every) => (every, true),
            Windows::None | Windows::File => {
                return Err(match own {
                    None => self.missing(key),
                    Some(_) => self.must_be(key, "a list with an entry for each layer"),
                });
            }
        };
        let every = self.whole(key)?.unwrap_or(default);
        let full = if full_first { 0 } else { every.wrapping_sub(1) };
        Ok(every == 0 || index % every != full)
    }

    /// Returns true if layers of this number and kind rotate, except those that are skipped.
    fn rotates(&self, architecture: Architecture, index: usize, sliding: bool) -> Result<bool> {
        Ok(match architecture.row.rotates {
            RotatedLayers::Sliding => sliding,
            RotatedLayers::SlidingOrLead => {
                sliding || index < self.whole("leading_dense_block_count")?.unwrap_or(0)
            }
            RotatedLayers::SlidingOrAll => sliding || !self.windowed(architecture)?,
            RotatedLayers::Listed => self
                .at_layer("attention.rope_pattern", index)?
                .is_none_or(|rotates| rotates != 0),
            RotatedLayers::Switched => self.flag("rope.scaling.finetuned")?.unwrap_or(true),
            RotatedLayers::Only7b => match self.layer_count()? {
                32 => true,
                40 => false,
                _ => {
                    return Err(unsupported(
                        architecture.name,
                        "a Baichuan of neither 32 nor 40 layers, which llama.cpp does not run",
                    ));
                }
            },
            RotatedLayers::All => true,
        })
    }

    /// Returns true if the layer is skipped by its number.
    fn skipped(&self, architecture: Architecture, index: usize) -> Result<bool> {
        Ok(match architecture.row.skips {
            Skips::None => false,
            Skips::FirstOf(every) => {
                let all = !self.windowed(architecture)? || self.layer_count()? == every;
                !all && index.is_multiple_of(every)
            }
            // Without windows llama.cpp sets the period to the number of layers, "always use rope".
            Skips::LastOf(_)
                if architecture.row.windows_if == WindowsIf::NotZero
                    && !self.windowed(architecture)? =>
            {
                index + 1 == self.layer_count()?
            }
            Skips::LastOf(every) => (index + 1).is_multiple_of(every),
        })
    }

    /// Returns the parameters of one kind of layers, or of all layers.
    fn numbers(&self, kind: Option<Kind>) -> Result<(Architecture, Numbers)> {
        let architecture = self.known()?;
        if !architecture.row.rotates() {
            return Err(still(
                architecture.name,
                "no layer of this architecture rotates",
            ));
        }
        if kind.is_some() || architecture.row.all_layers_alike() {
            let kind = kind.unwrap_or(Kind::Full);
            return Ok((architecture, self.numbers_of(architecture, kind)?));
        }
        let mut found: Option<Option<Numbers>> = None;
        for index in 0..self.layer_count()? {
            let Some(attention) = self.attention(architecture, index)? else {
                continue;
            };
            let own = match attention.rotates {
                true => Some(self.numbers_of(architecture, attention.kind)?),
                false => None,
            };
            if found.is_some_and(|found| found != own) {
                return Err(Error::Ambiguous {
                    key: "the layer (Model::layers)",
                    choices: "full_attention, sliding_attention".into(),
                }
                .into());
            }
            found = Some(own);
        }
        let numbers = found
            .flatten()
            .ok_or_else(|| still(architecture.name, "no layer of this model rotates"))?;
        Ok((architecture, numbers))
    }

    fn numbers_of(&self, architecture: Architecture, kind: Kind) -> Result<Numbers> {
        if architecture.row.fixed {
            return Ok(Numbers {
                rotary_dim: self.head_dim()?,
                base: 10_000.0,
                scaled: false,
                attention_factor: false,
                factors: false,
            });
        }
        let sliding = kind == Kind::Sliding;
        let local = match sliding {
            true => architecture.row.local,
            false => Local::AsOthers,
        };
        // llama.cpp's default is the same for every architecture.
        let others = self.number("rope.freq_base")?.unwrap_or(10_000.0);
        let own = self.number("rope.freq_base_swa")?;
        Ok(Numbers {
            rotary_dim: self.rotary_dim_of(architecture, sliding)?,
            base: match local {
                Local::AsOthers | Local::Plain => others,
                Local::Own | Local::Unscaled | Local::OwnPlain => own.unwrap_or(others),
                Local::TenThousand => own.unwrap_or(10_000.0),
            },
            scaled: matches!(local, Local::AsOthers | Local::Own),
            attention_factor: !matches!(local, Local::Plain | Local::OwnPlain),
            factors: match architecture.row.factors {
                Factors::None => false,
                Factors::All => true,
                Factors::Full | Factors::FullNeeded => !sliding,
            },
        })
    }

    fn rotary_dim_of(&self, architecture: Architecture, sliding: bool) -> Result<usize> {
        let all = match self.count("rope.dimension_count")? {
            Some(dim) => dim,
            None => self.head_dim()?,
        };
        let others = if architecture.row.halved {
            all / 2
        } else {
            all
        };
        let own = self.count("rope.dimension_count_swa")?;
        let sliding = match (architecture.row.own_dim, own) {
            (true, _) => sliding,
            (false, None) => false,
            (false, Some(_)) => self.slides(architecture, 0)?,
        };
        Ok(if sliding { own.unwrap_or(all) } else { others })
    }

    /// Returns the channels of a key's head in the first layer.
    fn head_dim(&self) -> Result<usize> {
        if let Some(dim) = self.count("attention.key_length")? {
            return Ok(dim);
        }
        let width = self
            .count("embedding_length")?
            .ok_or_else(|| self.missing("rope.dimension_count"))?;
        let key = "attention.head_count";
        match self.at_layer(key, 0)? {
            None => Err(self.missing(key)),
            Some(heads @ 1..) => Ok(width / heads as usize),
            Some(_) => Err(self.must_be(key, "positive in the first layer")),
        }
    }

    /// Returns the scaling, and a factor on its attention factor.
    fn scaling(&self, architecture: Architecture, numbers: Numbers) -> Result<(Scaling<'_>, f64)> {
        if architecture.row.fixed {
            return Ok((Scaling::Default, 1.0));
        }
        let factor = match self.number("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            // The old name of the key.
            None => self.number("rope.scale_linear")?,
        };
        // A factor of 0 stands for none, and a factor of 1 has no effect.
        let factor = factor.filter(|&factor| factor != 0.0 && factor != 1.0);
        let key = "rope.scaling.type";
        let kind = match self.find(key) {
            Some(GgufValue::Text(kind @ ("none" | "linear" | "yarn" | "longrope"))) => kind,
            Some(GgufValue::Text(other)) => {
                return Err(Error::Unknown {
                    key: self.full(key).into(),
                    value: beginning(other),
                    known: "none, linear, yarn, longrope",
                }
                .into());
            }
            Some(value) => return Err(self.invalid(key, value, "a text")),
            None => "linear",
        };
        if kind == "yarn" && factor.is_some_and(|factor| factor.is_nan() || factor < 1.0) {
            return Err(self.must_be("rope.scaling.factor", "1 or above with the type yarn"));
        }
        let own = self.number("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let attention_factor = if numbers.attention_factor { own } else { 1.0 };
        let factors = self.factors(architecture, numbers, kind)?;
        self.refuse_softmax_scales(architecture, kind, factor, own)?;
        if architecture.row.yarn == Yarns::Grok {
            self.refuse_grok(kind)?;
        }
        if !numbers.scaled {
            return Ok((Scaling::Default, attention_factor));
        }
        let alpha = match architecture.row.alpha {
            true => self
                .number("rope.scaling.alpha")?
                .filter(|&alpha| alpha > 0.0),
            false => None,
        };
        let scaling = match (kind, factor, factors, alpha) {
            (_, None, None, None) => Scaling::Default,
            (_, None, Some(factors), None) => Scaling::FreqFactors { factors },
            ("linear", Some(factor), None, None) => Scaling::Linear { factor },
            ("yarn", Some(factor), None, None) => Scaling::Yarn(self.yarn(architecture, factor)?),
            // The exponent contains the channels of the head, all of which must rotate.
            (_, None, None, Some(alpha)) if self.head_dim()? == numbers.rotary_dim => {
                Scaling::NtkAlpha { alpha }
            }
            (_, _, _, Some(_)) => {
                return Err(self.must_be(
                    "rope.scaling.alpha",
                    "alone, and for heads that rotate as a whole",
                ));
            }
            (_, Some(_), _, None) => {
                return Err(self.must_be(
                    "rope.scaling.factor",
                    "1, or not there, beside a tensor of factors and with the types none and longrope",
                ));
            }
        };
        Ok((scaling, attention_factor))
    }

    /// Returns the tensor of factors, if the layer reads one.
    fn factors(
        &self,
        architecture: Architecture,
        numbers: Numbers,
        kind: &str,
    ) -> Result<Option<&[f32]>> {
        if architecture.row.factors == Factors::None {
            let given = match (self.factors, &self.file) {
                (Some(told), _) => told.is_some(),
                (None, Some(file)) => file.values.iter().any(Option::is_some),
                (None, None) => false,
            };
            if given {
                return Err(must_be(
                    "the tensor of factors (Gguf::with_freq_factors)",
                    "None: this architecture does not read one",
                ));
            }
            if kind == "longrope" {
                return Err(self.must_be(
                    "rope.scaling.type",
                    "none, linear or yarn: this architecture does not read factors",
                ));
            }
        }
        if !numbers.factors {
            return Ok(None);
        }
        let by_context = kind == "longrope" || architecture.row.long_short;
        let tensor = match by_context {
            true => "rope_factors_long.weight or rope_factors_short.weight",
            false => TENSORS[FREQS],
        };
        let needed = kind == "longrope" || architecture.row.factors == Factors::FullNeeded;
        let given = match (self.factors, &self.file) {
            (Some(told), _) => told,
            (None, Some(file)) => self.listed(file, by_context)?,
            (None, None) => {
                return Err(Error::FreqFactors {
                    architecture: architecture.name,
                    tensor,
                }
                .into());
            }
        };
        match given {
            None if needed => Err(missing(tensor)),
            // The tensor covers the widest layers; others read its first entries.
            Some(all) if architecture.row.halved => {
                Ok(Some(all.get(..numbers.rotary_dim / 2).unwrap_or(all)))
            }
            factors => Ok(factors),
        }
    }

    /// Selects the tensor of factors of a file as llama.cpp does (`get_rope_factors`).
    fn listed<'f>(&self, file: &'f Tensors, by_context: bool) -> Result<Option<&'f [f32]>> {
        let complete = file.parts.len() as u64 >= file.count;
        let [_, long, short] = &file.values;
        let index = match by_context {
            false => FREQS,
            true if complete && long.is_none() && short.is_none() => return Ok(None),
            true => {
                let trained = "context_length";
                let context = match self.context {
                    Some(context) => context,
                    None => self.count(trained)?.ok_or_else(|| self.missing(trained))? as u64,
                };
                let key = "rope.scaling.original_context_length";
                let original = match self.count(key)? {
                    Some(original) => original,
                    None => self.count(trained)?.ok_or_else(|| self.missing(key))?,
                };
                if context > original as u64 {
                    LONG
                } else {
                    SHORT
                }
            }
        };
        match &file.values[index] {
            Some(Ok(values)) => Ok(Some(values)),
            Some(Err(refusal)) => Err(refusal.clone()),
            None if !complete => Err(Error::SplitFile {
                tensor: TENSORS[index],
                given: file.parts.len(),
                count: file.count,
            }
            .into()),
            None if by_context => Err(missing(TENSORS[index])),
            None => Ok(None),
        }
    }

    /// Refuses DeepSeek's scale of the softmax, the square of the attention factor with the logarithm of the scaling.
    fn refuse_softmax_scales(
        &self,
        architecture: Architecture,
        kind: &str,
        factor: Option<f64>,
        own: f64,
    ) -> Result<()> {
        let refused = match architecture.row.yarn {
            Yarns::Deepseek2 | Yarns::Deepseek => false,
            Yarns::Refused => true,
            _ => return Ok(()),
        };
        if own != 1.0 {
            return Err(self.must_be(
                "rope.scaling.attn_factor",
                "1, or not there: this architecture scales its softmax by it too",
            ));
        }
        match factor {
            Some(_) if refused || kind != "yarn" => Err(self.must_be(
                "rope.scaling.factor",
                "1, or not there: this architecture scales its softmax by it too",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses settings of Grok's files that contradict the type of the scaling.
    fn refuse_grok(&self, kind: &str) -> Result<()> {
        let meant = if kind == "yarn" { 1.0 } else { 0.0 };
        let key = "rope.scaling.yarn_ext_factor";
        let extrapolation = self.number(key)?.filter(|&factor| factor >= 0.0);
        if extrapolation.is_some_and(|factor| factor != meant) {
            return Err(self.must_be(key, "1 with the type yarn, 0 with others, or not there"));
        }
        let key = "rope.scaling.yarn_attn_factor";
        if kind != "yarn" && self.number(key)?.is_some_and(|factor| factor != 1.0) {
            return Err(self.must_be(key, "1, or not there, without the type yarn"));
        }
        Ok(())
    }

    fn yarn(&self, architecture: Architecture, factor: f64) -> Result<Yarn> {
        let key = "rope.scaling.original_context_length";
        let original_context = match self.count(key)? {
            Some(context) => context,
            None => self
                .count("context_length")?
                .ok_or_else(|| self.missing(key))?,
        };
        let mut yarn = Yarn::new(factor, original_context as u64);
        let own = architecture.row.yarn;
        if own == Yarns::Grok {
            yarn.beta_fast = 8.0;
        }
        if let Yarns::Grok | Yarns::Mistral3 = own {
            if let Some(fast) = self.number("rope.scaling.yarn_beta_fast")? {
                yarn.beta_fast = fast;
            }
            if let Some(slow) = self.number("rope.scaling.yarn_beta_slow")? {
                yarn.beta_slow = slow;
            }
        }
        let key = "rope.scaling.yarn_log_multiplier";
        let multiplier = self.number(key)?.filter(|&multiplier| multiplier != 0.0);
        if own == Yarns::Mistral3 {
            match multiplier {
                None => {}
                // The quotient of two equal magnitude scalings.
                Some(1.0) => yarn.attention_factor = Some(1.0),
                Some(_) => {
                    return Err(self.must_be(key, "1, or not there"));
                }
            }
        }
        if let Yarns::Deepseek2 | Yarns::Deepseek = own {
            // A tenth of mscale_all_dim as an f32. Inverted in f32 as by llama.cpp, where a tenth of one becomes one
            // again.
            let tenth = multiplier.ok_or_else(|| self.missing(key))? as f32;
            let mscale = f64::from(tenth / 0.1);
            if own == Yarns::Deepseek && mscale != 1.0 {
                return Err(self.must_be(
                    key,
                    "a tenth: this architecture scales its softmax otherwise",
                ));
            }
            (yarn.mscale, yarn.mscale_all_dim) = (mscale, mscale);
        }
        Ok(yarn)
    }

    /// Returns the name of a key without the architecture, if it belongs to it.
    fn own<'k>(&self, key: &'k str) -> Option<&'k str> {
        let own = key.strip_prefix(self.architecture)?.strip_prefix('.')?;
        (!self.without.contains(&key)).then_some(own)
    }

    /// Returns the value of the architecture's key.
    fn find(&self, key: &str) -> Option<GgufValue<'_>> {
        let mut keys = self.keys.iter();
        let found = keys.find(|(name, _)| self.own(name) == Some(key));
        found.map(|(_, value)| value)
    }

    /// Returns the full name of the architecture's key.
    #[cold]
    #[inline(never)]
    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn missing(&self, key: &str) -> Refusal {
        missing(self.full(key))
    }

    fn must_be(&self, key: &str, required: &'static str) -> Refusal {
        match self.find(key) {
            Some(value) => self.invalid(key, value, required),
            None => must_be(self.full(key), required),
        }
    }

    fn invalid(&self, key: &str, value: GgufValue<'_>, required: &'static str) -> Refusal {
        out_of_range(self.full(key), format_args!("{value}"), required)
    }

    /// Returns the entry of a layer in a list, or the one value for all layers.
    fn at_layer(&self, key: &'static str, index: usize) -> Result<Option<i64>> {
        let entry = match self.find(key) {
            None => return Ok(None),
            Some(GgufValue::Integers(list)) => list.get(index).map(|&value| value.into()),
            Some(GgufValue::Bools(list)) => list.get(index).map(|&value| value.into()),
            Some(GgufValue::Integer(value)) => Some(value),
            Some(_) => None,
        };
        entry
            .filter(|&value| value >= 0)
            .map(Some)
            .ok_or_else(|| self.must_be(key, "a count, or a list with an entry for each layer"))
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>> {
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Bool(value)) => Ok(Some(value)),
            Some(value) => Err(self.invalid(key, value, "a boolean")),
        }
    }

    fn number(&self, key: &'static str) -> Result<Option<f64>> {
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Float(value)) => Ok(Some(value)),
            Some(GgufValue::Integer(value)) => Ok(Some(value as f64)),
            Some(value) => Err(self.invalid(key, value, "a number")),
        }
    }

    /// Returns a count that may be 0.
    fn whole(&self, key: &'static str) -> Result<Option<usize>> {
        match self.find(key) {
            Some(GgufValue::Integer(0)) => Ok(Some(0)),
            _ => self.count(key),
        }
    }

    fn count(&self, key: &'static str) -> Result<Option<usize>> {
        match self.find(key) {
            None => Ok(None),
            Some(GgufValue::Integer(value @ 1..=0xffff_ffff)) => Ok(usize::try_from(value).ok()),
            Some(_) => Err(self.must_be(key, "a positive integer below 2^32")),
        }
    }
}
