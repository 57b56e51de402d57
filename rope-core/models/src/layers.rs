//! The layers of a model: their types, and their rotations.

use crate::error::{Error, Refusal, Result, beginning, listed as list_of, missing, out_of_range};
use crate::json::{Object, Value, count, flag, given, invalid, length, numbers};
use crate::nearest::{nearest, sort_nearest};
use crate::norms::{self, ModelNorm, NormedLayers};
use crate::parameters::{FULL, INDEXED, SLIDING};
use crate::reading::{LayerVariant, Reading};
use crate::types::{Form, Head, Key, LayerTypes, Rotates, When};
use crate::words;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use rope_core::{Direction, Frequencies, IntoPositions, Pairing, Rope, Rows};

/// The rotation of queries and keys in some layers of a model: everything that its code does.
///
/// ```
/// use rope_core::{Tensor, TensorMut};
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "qk_nope_head_dim": 128,
///     "qk_rope_head_dim": 64, "max_position_embeddings": 4096, "rope_theta": 10000
/// }"#)?;
/// let model = config.model()?;
/// let rotation = model.rotation()?;
/// let rows = rotation.frequencies().rows(7..10)?;
/// let q = vec![1.0_f32; 3 * 128 * 192];
/// let mut rotated = vec![0.0_f32; q.len()];
/// let shape = [1, 3, 128, rotation.head_dim()];
/// let (x, mut y) = (Tensor::new(&q, shape)?, TensorMut::new(&mut rotated, shape)?);
/// rotation.rope().rotate_into(&x, &mut y, &rows)?;
/// assert_eq!(rotated[..128], q[..128]);              // channels 128..192 of each head rotate
/// assert_ne!(rotated[128..192], q[128..192]);
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// [`Rotation::rope`] and the rows of [`Rotation::rows`] say all of a rotation but [`Rotation::rotates_values`] and
/// [`Rotation::unrotates_output`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    pub(crate) frequencies: Frequencies<'static>,
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) direction: Direction,
    pub(crate) head_dim: usize,
    pub(crate) offset: usize,
    pub(crate) values: bool,
    pub(crate) turned_back: bool,
    /// Separately paired parts of the window.
    pub(crate) windows: usize,
    pub(crate) full_width: bool,
    pub(crate) real_positions: bool,
}

impl Rotation {
    /// Returns the frequencies over the axes of the model: one per pair, or one per channel for full-width rows
    /// ([`Rotation::is_full_width`]).
    pub fn frequencies(&self) -> &Frequencies<'static> {
        &self.frequencies
    }

    /// Returns true if the two channels of a pair have different angles: HunYuan-VL and V-JEPA 2. The frequencies are
    /// then those of channels, and their rows are made [`Rows::into_full_width`], as in [`Rotation::rows`].
    pub fn is_full_width(&self) -> bool {
        self.full_width
    }

    /// Returns true if positions are coordinates in -1..1 (DINOv3): the frequencies count turns, and an integer is a
    /// whole turn. [`Positions::real_token_major`](rope_core::Positions::real_token_major) passes such positions.
    pub fn has_real_positions(&self) -> bool {
        self.real_positions
    }

    /// Computes the rows of some positions for the model's heads: those of [`Rotation::frequencies`], full-width if the
    /// model's are.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`].
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<Rows<'static>, Error> {
        let rows = self.frequencies.rows(positions)?;
        match self.full_width {
            true => Ok(rows.into_full_width()?),
            false => Ok(rows),
        }
    }

    /// Returns the frequencies alone.
    #[must_use]
    pub fn into_frequencies(self) -> Frequencies<'static> {
        self.frequencies
    }

    /// Returns the pairing of input and output. They differ for DeepSeek-V3 and models derived from it, which read
    /// interleaved pairs and write halves.
    pub fn pairing(&self) -> (Pairing, Pairing) {
        (self.input, self.output)
    }

    /// Returns [`Direction::Transpose`] for nanochat, which rotates by the negated angle, and [`Direction::Forward`]
    /// for all other models.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the channels of a query's head in the attention; for multi-head latent attention the sum of both parts
    /// (192 for DeepSeek-V3).
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Returns the rotated channels of a head: from the first one for most models, the last ones for multi-head latent
    /// attention (where they are a separate tensor before) and for DeepSeek-V4.
    pub fn window(&self) -> Range<usize> {
        let frequencies = self.frequencies.rotary_dim();
        let rotary_dim = match self.full_width {
            true => frequencies / 2,
            false => frequencies,
        };
        self.offset..self.offset + rotary_dim
    }

    /// Iterates over the separately paired parts of [`Rotation::window`], each with the pairs of the rows that rotate
    /// it. One part for most models; for Gemma 4's vision tower the two halves of a head, each with its own axis.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// let config = Config::from_json(r#"{"model_type": "gemma4_vision", "head_dim": 72}"#)?;
    /// let model = config.model()?;
    /// let windows: Vec<_> = model.rotation()?.windows().collect();
    /// assert_eq!(windows, [(0..36, 0..18), (36..72, 18..36)]);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    pub fn windows(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let (start, width) = (self.offset, self.window().len() / self.windows);
        (0..self.windows).map(move |window| {
            let first = window * width;
            let channels = start + first..start + first + width;
            (channels, first / 2..(first + width) / 2)
        })
    }

    /// Returns true if the values rotate as the keys do: RoFormer's option `rotary_value`, and CLVP.
    pub fn rotates_values(&self) -> bool {
        self.values
    }

    /// Returns true if the window of the attention's output is rotated back: DeepSeek-V4, whose values are its rotated
    /// keys.
    pub fn unrotates_output(&self) -> bool {
        self.turned_back
    }

    /// Returns the plan for whole heads of the model, in every verb: the pairing, the direction and the rotated
    /// channels ([`Rope::with_window`], [`Rope::with_parts`]), with the best backend of this machine.
    ///
    /// ```
    /// use rope_core::{Pairing, Rope};
    /// use rope_models::{Config, Error};
    ///
    /// let config = Config::from_json(r#"{"model_type": "deepseek_v2", "rope_theta": 10000}"#)?;
    /// let model = config.model()?;
    /// let rope = model.rotation()?.rope();
    /// assert_eq!(rope, Rope::new(Pairing::Interleaved).with_window(128).with_head_dim(192));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The plan refuses heads of another size than [`Rotation::head_dim`] ([`Rope::with_head_dim`]).
    /// [`Rotation::rope_for`] returns the plan for the rotating channels alone. A latent with its key after it,
    /// `[tokens, 576]` of DeepSeek-V3, rotates by `rope().with_window(512)`.
    pub fn rope(&self) -> Rope {
        Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction)
            .with_window(self.offset)
            .with_parts(self.windows)
            .with_head_dim(self.head_dim)
    }

    /// Returns the plan for heads of this many channels: all channels of the model's heads ([`Rotation::head_dim`]), or
    /// only the rotating ones, which are separate tensors in multi-head latent attention before they are combined.
    ///
    /// # Errors
    ///
    /// [`Error::ModelHead`] for heads of another size.
    pub fn rope_for(&self, head_dim: usize) -> Result<Rope, Error> {
        let window = self.window();
        if head_dim == self.head_dim {
            Ok(self.rope())
        } else if head_dim == window.len() {
            Ok(self.rope().with_window(0).with_head_dim(head_dim))
        } else {
            Err(Error::ModelHead {
                given: head_dim,
                head_dim: self.head_dim,
                window: (window.start, window.end),
            })
        }
    }
}

/// The layers of a model, in order.
///
/// ```
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4,
///     "rope_theta": 50000.0
/// }"#)?;
/// for layer in config.model()?.layers()?.iter() {
///     match layer.rotation {
///         Some(rotation) => assert_eq!(rotation.frequencies().rotary_dim(), 128),
///         None => assert_eq!((layer.index, layer.layer_type), (3, Some("full_attention"))),
///     }
/// }
/// # Ok::<(), rope_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layers {
    /// The type of each layer, and the index of its rotation.
    layers: Vec<(Option<String>, Option<usize>)>,
    rotations: Vec<Rotation>,
    /// The norm and its layers, or the reason why it is unknown; no rotation depends on it.
    norm: Result<Option<(ModelNorm, NormedLayers)>>,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Layer<'l> {
    /// Its number, from 0.
    pub index: usize,
    /// Its type (`full_attention`, `sliding_attention`, `linear_attention`, ..), if the model has types of layers.
    pub layer_type: Option<&'l str>,
    /// Its rotation; `None` if its queries and keys are not rotated, or if it has none.
    pub rotation: Option<&'l Rotation>,
    /// The index of its rotation in [`Layers::rotations`], and of its rows if a program makes rows for each.
    pub rotation_index: Option<usize>,
    pub(crate) norm: Result<Option<ModelNorm>, &'l Refusal>,
}

impl Layer<'_> {
    /// Returns the norm of its queries and keys, whether or not they rotate; `None` without a norm, or without queries
    /// and keys.
    ///
    /// ```
    /// use rope_core::norm::NormFormula;
    /// use rope_models::Config;
    ///
    /// let config = Config::from_json(r#"{
    ///     "model_type": "exaone4", "hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128,
    ///     "num_hidden_layers": 4, "sliding_window": 4096, "sliding_window_pattern": 4, "rms_norm_eps": 1e-05,
    ///     "rope_theta": 1000000.0
    /// }"#)?;
    /// let model = config.model()?;
    /// let layers = model.layers()?;
    /// let last = layers.get(3).unwrap();
    /// assert_eq!(last.rotation, None);
    /// assert_eq!(last.norm()?.unwrap().norm.formula(), NormFormula::LLAMA);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Model::norm`](crate::Model::norm), except those of the layer type and of layers that differ.
    pub fn norm(&self) -> Result<Option<ModelNorm>, Error> {
        self.norm.map_err(Error::from)
    }
}

impl Layers {
    /// Creates the layers from another reader: the type of each layer and the index of its rotation.
    pub(crate) fn of_parts(
        layers: Vec<(Option<String>, Option<usize>)>,
        rotations: Vec<Rotation>,
        norm: Result<Option<(ModelNorm, NormedLayers)>>,
    ) -> Self {
        Self {
            layers,
            rotations,
            norm,
        }
    }

    pub(crate) fn read(reading: &Reading<'_>) -> Result<Self> {
        let kinds = reading.kinds()?;
        let layers = reading.layers(&kinds)?;
        let mut made = Self {
            layers: Vec::new(),
            rotations: Vec::new(),
            norm: reading.notes.settle(None, || norms::read(reading)),
        };
        let mut variants: Vec<LayerVariant<'_, '_>> = Vec::new();
        for index in 0..layers {
            let kind = kinds.get(index);
            let difference = match kind {
                Some(kind) if !has_attention(kind) => None,
                _ => reading.difference(kind.copied(), Some((index, layers)))?,
            };
            let rotation = match difference {
                None => None,
                Some(difference) => {
                    let known = variants.iter().position(|other| *other == difference);
                    Some(match known {
                        Some(known) => known,
                        None => {
                            made.rotations.push(reading.rotation(&difference)?);
                            variants.push(difference);
                            variants.len() - 1
                        }
                    })
                }
            };
            made.layers
                .push((kind.map(|kind| String::from(*kind)), rotation));
        }
        Ok(made)
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Returns true if there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the layer with that number.
    pub fn get(&self, index: usize) -> Option<Layer<'_>> {
        let (layer_type, rotation) = self.layers.get(index)?;
        let layer_type = layer_type.as_deref();
        let norm = match layer_type {
            Some(kind) if !has_attention(kind) => Ok(None),
            _ => self.norm.as_ref().map(|norm| {
                let (norm, layers) = (*norm)?;
                layers.holds(rotation.is_some()).then_some(norm)
            }),
        };
        Some(Layer {
            index,
            layer_type,
            rotation: rotation.and_then(|rotation| self.rotations.get(rotation)),
            rotation_index: *rotation,
            norm,
        })
    }

    /// Iterates over the layers.
    pub fn iter(&self) -> impl Iterator<Item = Layer<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns the distinct rotations: a program makes one set of rows for each.
    pub fn rotations(&self) -> &[Rotation] {
        &self.rotations
    }
}

/// Returns false for layer types without queries and keys.
pub(crate) fn has_attention(kind: &str) -> bool {
    !words::has("linear_attention conv moe mlp recurrent", kind)
}

/// Returns the error for a list with one entry per layer that has another length.
pub(crate) fn count_of(name: &'static str, given: usize, needed: usize) -> Refusal {
    Error::Rope(rope_core::Error::Count {
        name,
        given,
        needed,
    })
    .into()
}

/// The most layers that a file may have.
const MOST: usize = 1 << 16;

/// Returns the types of the layers, from the file or by the rule of the class; empty if there is neither.
pub(crate) fn kinds<'c>(reading: &Reading<'c>) -> Result<Vec<&'c str>> {
    let count = reading.layer_count()?;
    if let Some(count) = count.filter(|&count| count > MOST) {
        let value = format_args!("{count}");
        return Err(out_of_range("num_hidden_layers", value, "at most 65536"));
    }
    let config = reading.config;
    if let Some(mut kinds) = listed(config, words_of(reading.name))? {
        match reading.row.layers {
            LayerTypes::SparseOrWindow => {
                if let Some(full) = full_attention(config)? {
                    for kind in kinds.iter_mut().filter(|kind| **kind != SLIDING) {
                        if [FULL, INDEXED].contains(kind) {
                            *kind = full;
                        }
                    }
                }
            }
            // The list continues with the layers that predict further tokens.
            LayerTypes::Rules(_) if matches!(reading.row.parameters, Form::FirstLayers) => {
                let further = count_or_none(config, "num_nextn_predict_layers")?;
                if count.is_some_and(|count| kinds.len() == count + further) {
                    kinds.truncate(count.unwrap_or_default());
                }
            }
            _ => {}
        }
        if let Some(needed) = count.filter(|&count| count != kinds.len()) {
            return Err(count_of("layer_types", kinds.len(), needed));
        }
        // The code of these classes makes the last layer one of full attention.
        if let (Head::Global(..), Some(last)) = (reading.row.head, kinds.last_mut())
            && *last != FULL
        {
            *last = FULL;
            let list = given(config, "layer_types").or(given(config, "layers_block_type"));
            let list = list.unwrap_or(&Value::Null);
            reading.notes.beside("layer_types", list, false, "");
        }
        return Ok(kinds);
    }
    let mut made = Vec::new();
    if let Some(ratios) = numbers(config, "compress_ratios")?
        .filter(|_| matches!(reading.row.parameters, Form::Compressed))
    {
        let kind = |ratio: f64| match ratio {
            0.0 => Ok(SLIDING),
            4.0 => Ok("compressed_sparse_attention"),
            128.0 => Ok("heavily_compressed_attention"),
            _ => Err(out_of_range(
                "compress_ratios",
                format_args!("a list with {ratio}"),
                "a list of 0, 4 and 128",
            )),
        };
        for ratio in ratios.into_iter().take(count.unwrap_or(MOST)) {
            made.push(kind(ratio)?);
        }
        return Ok(made);
    }
    let Some(count) = count.filter(|_| !matches!(reading.row.layers, LayerTypes::Unknown)) else {
        return Ok(made);
    };
    for index in 0..count {
        made.push(by_rule(reading, index, count, None)?);
    }
    Ok(made)
}

/// Returns a number of layers that may be 0.
pub(crate) fn count_or_none(config: &Object, key: &'static str) -> Result<usize> {
    match length(config, key)? {
        None => Ok(0),
        Some(count) if count <= MOST as u64 => Ok(count as usize),
        Some(count) => Err(out_of_range(key, format_args!("{count}"), "at most 65536")),
    }
}

/// The key of the period of full attention in Cohere's dense first layers.
pub(crate) const PREFIX_PATTERN: &str = "prefix_dense_sliding_window_pattern";

/// Returns the meaning of full attention in dots3.note: an indexed one, unless `use_dsa` states otherwise. Files with
/// keys per layer are recent, and literal.
fn full_attention(config: &Object) -> Result<Option<&'static str>> {
    Ok(match flag(config, "use_dsa")? {
        Some(true) => Some(INDEXED),
        Some(false) => Some(FULL),
        None => (!config.contains_key("per_layer_config")).then_some(INDEXED),
    })
}

/// The types of layers of transformers (`ALLOWED_ATTN_LAYER_TYPES`): its classes refuse other words in `layer_types`.
const KINDS: &str = "full_attention, sliding_attention, chunked_attention, window_attention, indexed_attention, \
    compressed_sparse_attention, heavily_compressed_attention, minimax_m3_sparse, conv, moe, hybrid, hybrid_sliding, \
    reference_sliding_attention, linear_attention";

/// The further types of `layers_block_type`.
const BLOCKS: &str = "mlp, recurrent";

/// Returns the types of layers of a model's class.
fn words_of(name: &str) -> &'static str {
    match name {
        "deepseek_v4" => {
            "sliding_attention, compressed_sparse_attention, heavily_compressed_attention"
        }
        "neomme" => "full_attention, sliding_attention",
        _ => KINDS,
    }
}

/// Returns the error for a type of layers that no class has, with the nearest one.
#[cold]
#[inline(never)]
fn no_such_kind(key: &'static str, word: &str, known: &'static str) -> Refusal {
    let near = nearest(word, known.split(", "));
    Error::Unknown {
        key: key.into(),
        value: beginning(word),
        known: if near.is_empty() { known } else { near },
    }
    .into()
}

/// Returns the types listed by the file, by their current names.
#[inline(never)]
fn listed<'c>(config: &'c Object, words: &'static str) -> Result<Option<Vec<&'c str>>> {
    let key = match given(config, "layer_types") {
        Some(_) => "layer_types",
        None => "layers_block_type",
    };
    let Some(value) = given(config, key) else {
        return Ok(None);
    };
    let name = |value| match value {
        "mamba" => "linear_attention",
        "attention" => FULL,
        "deepseek_sparse_attention" | "qwen_sparse_attention" => "indexed_attention",
        other => other,
    };
    let refusal = || invalid(key, value, "a list of texts");
    let mut made = Vec::new();
    for own in value.as_array().ok_or_else(refusal)? {
        let own = own.as_str().ok_or_else(refusal)?;
        let kind = name(own);
        let known = words::has(words, kind) || key != "layer_types" && words::has(BLOCKS, kind);
        if !known {
            return Err(no_such_kind(key, own, words));
        }
        made.push(kind);
    }
    Ok(Some(made))
}

/// RecurrentGemma's types of blocks.
const BLOCK_TYPES: &str = "recurrent, attention";

/// Returns the type of one layer by the rules of its class, with the file's numbers or another number for one key.
#[inline(never)]
pub(crate) fn by_rule(
    reading: &Reading<'_>,
    index: usize,
    layers: usize,
    other: Option<(Key, usize)>,
) -> Result<&'static str> {
    let config = reading.config;
    let unknown = || missing("layer_types");
    let rules = match reading.row.layers {
        LayerTypes::Unknown | LayerTypes::Needed => return Err(unknown()),
        LayerTypes::Chunked => {
            return Ok(match reading.rotates_by_number(index)? {
                true => "chunked_attention",
                false => FULL,
            });
        }
        LayerTypes::Blocks => {
            let mut recurrent = Vec::new();
            match given(config, "block_types").and_then(Value::as_array) {
                Some(list) => {
                    for text in list.iter().filter_map(Value::as_str) {
                        if !words::has(BLOCK_TYPES, text) {
                            return Err(no_such_kind("block_types", text, BLOCK_TYPES));
                        }
                        recurrent.push(text == "recurrent");
                    }
                }
                None => recurrent.extend_from_slice(&[true, true, false]),
            }
            return Ok(match recurrent.get(index % recurrent.len().max(1)) {
                Some(true) => "linear_attention",
                _ => SLIDING,
            });
        }
        LayerTypes::Steps => {
            let step = count(config, "mamba_step")?.unwrap_or(2);
            if step < 2 {
                return Err(out_of_range(
                    "mamba_step",
                    format_args!("{step}"),
                    "at least 2",
                ));
            }
            let attends = match layers <= step / 2 {
                true => index + 1 == layers,
                false => index % step == step / 2,
            };
            if !attends && flag(config, "mamba_enabled")? != Some(false) {
                return Ok("linear_attention");
            }
            let full = numbers(config, "full_attention_idx")?.unwrap_or_default();
            return Ok(match full.contains(&(index as f64)) {
                true => FULL,
                false => SLIDING,
            });
        }
        LayerTypes::DensePrefix => {
            let dense = count_or_none(config, "first_k_dense_replace")?;
            let (place, key, pattern) = match index < dense {
                true => (index, PREFIX_PATTERN, 1),
                false => (index - dense, "sliding_window_pattern", 4),
            };
            let pattern = count(config, key)?.unwrap_or(pattern);
            return Ok(match (place + 1).is_multiple_of(pattern) {
                true => FULL,
                false => SLIDING,
            });
        }
        LayerTypes::SparseOrWindow => {
            let full = full_attention(config)?.unwrap_or(INDEXED);
            let windows = flag(config, "use_sliding_window")? != Some(false);
            return Ok(match windows && index >= 2 && index % 4 != 1 {
                true => SLIDING,
                false => full,
            });
        }
        LayerTypes::Listed(key, others, without) => {
            return Ok(match numbers(config, key.name())? {
                Some(list) if list.contains(&(index as f64)) => FULL,
                Some(_) => others.name(),
                None => without.name(),
            });
        }
        LayerTypes::Flags(key, flagged, others) => {
            let key = key.name();
            let list = numbers(config, key)?.ok_or_else(|| missing(key))?;
            return Ok(match list.get(index) {
                Some(1.0) => flagged.name(),
                Some(0.0) => others.name(),
                Some(flag) => {
                    let value = format_args!("a list with {flag}");
                    return Err(out_of_range(key, value, "a list of 0 and 1"));
                }
                None => return Err(count_of(key, list.len(), layers)),
            });
        }
        LayerTypes::Rules(rules) => rules,
    };
    for (kind, when) in rules {
        if holds_at(reading, *when, index, layers, other)? {
            return Ok(kind.name());
        }
    }
    Err(unknown())
}

/// Returns true if a rule applies to the layer with that index.
#[inline(never)]
fn holds_at(
    reading: &Reading<'_>,
    when: When,
    index: usize,
    layers: usize,
    other: Option<(Key, usize)>,
) -> Result<bool> {
    let by = |key: Key, period: u8| -> Result<usize> {
        if let Some((_, number)) = other.filter(|(own, _)| *own == key) {
            return Ok(number);
        }
        let without_window = reading
            .config
            .get("sliding_window")
            .is_some_and(Value::is_null);
        if key == Key::sliding_window_pattern
            && without_window
            && reading.row.rotates == Rotates::SlidingOrAll
        {
            // The code of these classes divides by zero.
            return Err(missing("layer_types"));
        }
        Ok(count(reading.config, key.name())?.unwrap_or(period.into()))
    };
    Ok(match when {
        When::Always => true,
        When::Every(period) => (index + 1).is_multiple_of(period.into()),
        When::EveryBy(key, period) => (index + 1).is_multiple_of(by(key, period)?),
        When::EveryFromEnd(period) => (layers - 1 - index).is_multiple_of(period.into()),
        When::Modulo(period, rest) => index % usize::from(period) == usize::from(rest),
        When::ModuloBy(key, period, rest) => index % by(key, period)? == usize::from(rest),
        When::First(layers) => index < usize::from(layers),
        When::Last => index + 1 == layers,
        When::In(list) => list.iter().any(|&own| usize::from(own) == index),
    })
}

/// Returns the error that lists the layer types to choose from.
#[cold]
#[inline(never)]
pub(crate) fn ambiguous(kinds: &[&str]) -> Refusal {
    Error::Ambiguous {
        key: LAYER_TYPE,
        choices: list_of(&each_once(kinds)),
    }
    .into()
}

/// Returns the error for a type that no layer has: lists the existing types, the nearest first.
#[cold]
#[inline(never)]
pub(crate) fn no_such_type(chosen: &str, kinds: &[&str]) -> Refusal {
    let mut kinds = each_once(kinds);
    sort_nearest(&mut kinds, chosen);
    Error::NoSuch {
        key: LAYER_TYPE,
        given: beginning(chosen),
        known: list_of(&kinds),
    }
    .into()
}

/// Returns the error for a type of layers without parameters, if others have some.
#[cold]
#[inline(never)]
pub(crate) fn no_such_parameters(kind: &str, kinds: &[&str]) -> Refusal {
    Error::NoSuch {
        key: "a type of layers in rope_parameters",
        given: beginning(kind),
        known: list_of(&each_once(kinds)),
    }
    .into()
}

const LAYER_TYPE: &str = "layer_type (Config::with_layer_type)";

/// Returns each item once, in alphabetical order.
#[inline(never)]
fn each_once<'k>(kinds: &[&'k str]) -> Vec<&'k str> {
    let mut seen: Vec<&str> = Vec::new();
    for kind in kinds {
        if seen.contains(kind) {
            continue;
        }
        seen.push(kind);
        let mut place = seen.len() - 1;
        while place > 0 && seen[place] < seen[place - 1] {
            seen.swap(place, place - 1);
            place -= 1;
        }
    }
    seen
}
