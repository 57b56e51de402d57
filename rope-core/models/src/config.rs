//! A Hugging Face `config.json` read into the rotation of each layer, or a refusal with the reason.
//!
//! A configuration says less than it seems to. Its parameters live under `rope_parameters` or `rope_scaling`, flat or
//! nested by layer type; what equals the default of the model's class is omitted; how channels are paired, which layers
//! rotate at all and which keys are read is written nowhere but in the model's code. What is missing here is taken from
//! a table of model types (`types.txt`), never from a guess: where the table has no answer, neither has the caller. And
//! a key that says something, and that the model's code does not read, is refused by its name: either the file or the
//! code is not what its author means.

use crate::error::{Error, Result, beginning, listed};
use crate::json::Object;
use crate::layers::{Layers, Rotation, ambiguous, has_attention, no_such_type};
use crate::nearest::{distance, nearest};
use crate::norms::{self, ModelNorm, NormedLayers};
use crate::reading::Reading;
use crate::types::{Model, lines, model};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rope_core::{Axes, Frequencies, Pairing};
use serde_json::{Map, Value};

/// A model's `config.json`, and the choices that the file leaves open.
///
/// ```
/// use rope_core::Pairing;
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
///     "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
///                      "original_max_position_embeddings": 8192}
/// }"#)?;
/// assert_eq!(config.frequencies()?.rotary_dim(), 128);
/// assert_eq!(config.pairing()?, (Pairing::Half, Pairing::Half));
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// A loader goes over [`Config::layers`]; [`Config::rotation`] is for models whose layers are all alike, and refuses
/// the others. Which model types are known, and what is known of them, is in the
/// [guide](crate::guide::models).
///
/// # When it refuses
///
/// A wrong rotation still produces text, so nothing here is guessed. There is a way out where the caller knows more
/// than the file: [`Config::with_model_type`] reads it by the rules of another type; [`Config::without`] leaves out a
/// key that is not meant; [`Config::frequencies_over`] takes base and scaling alone from the file of a model that is
/// not known here, and leaves all that the table would have said to the caller.
#[derive(Clone, Debug)]
pub struct Config {
    root: Object,
    part: Option<String>,
    model_type: Option<String>,
    layer_type: Option<String>,
    length: Option<u64>,
}

impl Config {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] if it is not a JSON object.
    pub fn from_json(text: &str) -> Result<Self> {
        match serde_json::from_str(text) {
            Ok(Value::Object(root)) => Ok(Self {
                root,
                part: None,
                model_type: None,
                layer_type: None,
                length: None,
            }),
            Ok(_) => Err(Error::Json {
                line: 0,
                column: 0,
                ends_early: false,
            }),
            Err(error) => Err(Error::Json {
                line: error.line().max(1),
                column: error.column(),
                ends_early: error.is_eof(),
            }),
        }
    }

    /// The part of a composite model that is meant: `vision_config`, say, or `thinker_config.text_config` for one
    /// within another. Without it a file that has a `text_config` is read there.
    #[must_use]
    pub fn with_part(self, key: &str) -> Self {
        Self {
            part: Some(key.to_string()),
            ..self
        }
    }

    /// The model type, in place of the file's `model_type`: the caller vouches that the model does what that one does.
    #[must_use]
    pub fn with_model_type(self, model_type: &str) -> Self {
        Self {
            model_type: Some(model_type.to_string()),
            ..self
        }
    }

    /// The layer type that is meant (`full_attention`, `sliding_attention`, ..), where they differ.
    #[must_use]
    pub fn with_layer_type(self, layer_type: &str) -> Self {
        Self {
            layer_type: Some(layer_type.to_string()),
            ..self
        }
    }

    /// The length of the sequence, the largest position plus one, on which dynamic NTK and LongRoPE depend.
    #[must_use]
    pub fn with_length(self, length: u64) -> Self {
        Self {
            length: Some(length),
            ..self
        }
    }

    /// The file as if this key were nowhere in it: the caller knows that it is not meant. What the model's code does
    /// without it counts then.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// // Hugging Face's class of this model ignores the key, and rotates a quarter of the head.
    /// let config = Config::from_json(r#"{
    ///     "model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.5
    /// }"#)?;
    /// assert!(config.rotation().is_err());
    /// assert_eq!(config.without("rope_pct").rotation()?.window(), 0..20);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        let mut objects: Vec<&mut Map<String, Value>> = alloc::vec![&mut self.root];
        while let Some(object) = objects.pop() {
            object.remove(key);
            objects.extend(object.values_mut().filter_map(Value::as_object_mut));
        }
        self
    }

    /// The layers: of which type each is, and its rotation or none.
    ///
    /// # Errors
    ///
    /// Those of [`Config::rotation`] but for those of the layer type, which is not asked for; [`Error::Missing`] for
    /// `num_hidden_layers`; [`Error::Count`](rope_core::Error::Count) and [`Error::Invalid`] for lists with an entry
    /// for each layer.
    pub fn layers(&self) -> Result<Layers> {
        Layers::read(&self.reading()?)
    }

    /// The rotation of the layers that have attention, or of those of the layer type that was chosen, if it is the same
    /// for all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`, for keys that it follows from, and for a `rope_type`
    /// that is not known here; [`Error::Unread`] for a key that says something and that the model's code does not obey
    /// ([`Config::without`]); [`Error::Invalid`] for values of another type; [`Error::Ambiguous`] where layers differ
    /// and no type was chosen, and where the file says two things; [`Error::NoSuch`] for a layer type or a part that
    /// the file does not have; [`Error::Unsupported`] where nothing rotates, where layers differ by more than their
    /// type, where the model's own code fails, and for rotations that these types do not describe (each with its
    /// reason); [`Error::RotaryDim`](rope_core::Error::RotaryDim), [`Error::Count`](rope_core::Error::Count) and those
    /// of [`Frequencies::new`] for numbers that do not fit.
    pub fn rotation(&self) -> Result<Rotation> {
        let reading = self.reading()?;
        let kinds = reading.kinds()?;
        let chosen = self.layer_type.as_deref();
        let mut first = None;
        let mut same = true;
        if reading.by_number() {
            let layers = reading.layers(&kinds)?;
            for index in 0..layers {
                let kind = kinds.get(index).cloned();
                if chosen.is_some_and(|chosen| kind.as_deref() != Some(chosen)) {
                    continue;
                }
                let found = reading.difference(kind, Some((index, layers)))?;
                same &= *first.get_or_insert_with(|| found.clone()) == found;
            }
        } else {
            let mut candidates = self.candidates(&reading, &kinds)?;
            candidates.dedup();
            for kind in candidates {
                if chosen.is_none() && kind.as_deref().is_some_and(|kind| !has_attention(kind)) {
                    continue;
                }
                let found = match &kind {
                    Some(kind) if !has_attention(kind) => None,
                    _ => reading.difference(kind, None)?,
                };
                same &= *first.get_or_insert_with(|| found.clone()) == found;
            }
        }
        let difference = match first {
            // Parameters by the type of layers may say the same for all of them.
            Some(Some(_)) if !same && chosen.is_none() && !reading.by_number() => {
                return Self::agreeing(&reading, &kinds);
            }
            Some(difference) if same => difference,
            Some(_) if reading.by_number() => {
                return Err(Error::Unsupported {
                    model: reading.model.name(),
                    what: "its layers rotate differently; use Config::layers",
                });
            }
            Some(_) => {
                return Err(ambiguous(
                    kinds
                        .iter()
                        .map(|kind| &**kind)
                        .chain(reading.parameters.kinds()),
                ));
            }
            None if chosen.is_some() => {
                let kinds = kinds.iter().map(|kind| &**kind);
                return Err(no_such_type(chosen.unwrap_or_default(), kinds));
            }
            None => None,
        };
        match difference {
            Some(difference) => reading.rotation(&difference),
            None => Err(Error::Unsupported {
                model: reading.model.name(),
                what: "its layers of this type do not rotate",
            }),
        }
    }

    /// The types of layers that are asked for, or the model's.
    #[inline(never)]
    fn candidates<'k>(
        &'k self,
        reading: &'k Reading<'_>,
        kinds: &[Cow<'k, str>],
    ) -> Result<Vec<Option<Cow<'k, str>>>> {
        let chosen = self.layer_type.as_deref();
        let mut candidates: Vec<Option<Cow<'k, str>>> = match chosen {
            Some(chosen) => alloc::vec![Some(Cow::Borrowed(chosen))],
            None if !kinds.is_empty() => kinds.iter().cloned().map(Some).collect(),
            None => {
                let own = reading.parameters.kinds();
                own.map(|kind| Some(Cow::Borrowed(kind))).collect()
            }
        };
        if candidates.is_empty() {
            if reading.model.value("rotates").is_some() || reading.parameters.by_layer {
                return Err(Error::Missing {
                    key: "num_hidden_layers",
                });
            }
            candidates.push(None);
        }
        if let Some(chosen) = chosen {
            let known = kinds.iter().any(|kind| kind == chosen)
                || (kinds.is_empty() && reading.parameters.kinds().any(|kind| kind == chosen));
            if !known {
                let kinds = kinds.iter().map(|kind| &**kind);
                return Err(no_such_type(
                    chosen,
                    kinds.chain(reading.parameters.kinds()),
                ));
            }
        }
        Ok(candidates)
    }

    /// The rotation of layers whose types have parameters of their own, if all say the same.
    #[inline(never)]
    fn agreeing(reading: &Reading<'_>, kinds: &[Cow<'_, str>]) -> Result<Rotation> {
        let names: Vec<&str> = match kinds.is_empty() {
            true => reading.parameters.kinds().collect(),
            false => kinds.iter().map(|kind| &**kind).collect(),
        };
        let refusal = || ambiguous(names.iter().copied().chain(reading.parameters.kinds()));
        let mut rotation: Option<Rotation> = None;
        let mut seen: Vec<&str> = Vec::new();
        for &name in names.iter().filter(|name| has_attention(name)) {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let difference = reading.difference(Some(Cow::Borrowed(name)), None)?;
            let made = reading.rotation(&difference.ok_or_else(refusal)?)?;
            if rotation.as_ref().is_some_and(|rotation| *rotation != made) {
                return Err(refusal());
            }
            rotation = Some(made);
        }
        rotation.ok_or_else(refusal)
    }

    /// The frequencies of [`Config::rotation`], over the axes of the model.
    ///
    /// # Errors
    ///
    /// Those of [`Config::rotation`].
    pub fn frequencies(&self) -> Result<Frequencies<'static>> {
        Ok(self.rotation()?.into_frequencies())
    }

    /// The frequencies over these axes by the base and the scaling of the file alone: the way out for a model that is
    /// not known here, whose axes, rotated channels, pairing and layers the caller knows.
    ///
    /// The file has to name its base (`rope_theta`).
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] and [`Error::Invalid`] for the keys of the base and of the scaling; [`Error::Unknown`] for a
    /// `rope_type` that is not known here; [`Error::NoSuch`] for a layer type without parameters, and for a part that
    /// the file does not have; those of [`Frequencies::new`].
    pub fn frequencies_over<'x>(&self, axes: impl Into<Axes<'x>>) -> Result<Frequencies<'static>> {
        crate::reading::over(
            self.config()?,
            self.layer_type.as_deref(),
            self.length,
            axes.into(),
        )
    }

    /// The pairing of what goes in and of what comes out: [`Rotation::pairing`] of all layers.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`: the pairing is not written in the file, and a wrong
    /// one still produces text. [`Error::Unsupported`] for a model that does not rotate, and for one whose rotation is
    /// more than frequencies and a pairing, so that it has to be asked for by [`Config::rotation`] or
    /// [`Config::layers`]. [`Error::NoSuch`] for the part that [`Config::with_part`] names.
    pub fn pairing(&self) -> Result<(Pairing, Pairing)> {
        let reading = self.reading()?;
        match reading.plain_pairing()? {
            Some(pairing) => Ok(pairing),
            None => Err(Error::Unsupported {
                model: reading.model.name(),
                what: "its rotation is more than frequencies and a pairing; use Config::rotation",
            }),
        }
    }

    /// The norm of queries and keys in the layers that have attention, or in those of the layer type that was chosen,
    /// if it is the same for all of them; `None` if they are not normed. [`Layer::norm`](crate::Layer::norm) says it of
    /// one layer.
    ///
    /// ```
    /// use rope_core::{NormFormula, NormReach, Place};
    /// use rope_models::{Config, NormWeights};
    ///
    /// let config = Config::from_json(r#"{
    ///     "model_type": "qwen3", "hidden_size": 2560, "num_attention_heads": 32, "head_dim": 128,
    ///     "num_hidden_layers": 36, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0
    /// }"#)?;
    /// let found = config.norm()?.expect("Qwen3 norms each head");
    /// assert_eq!((found.norm.formula(), found.norm.eps()), (NormFormula::LLAMA, 1e-6));
    /// assert_eq!((found.norm.reach(), found.norm.place()), (NormReach::Head, Place::BeforeRotation));
    ///
    /// // One `self_attn.q_norm.weight` of the checkpoint for all heads of Q; K has its own.
    /// assert_eq!(found.weights, NormWeights::Shared);
    /// let weights = [1.0_f32; 128];
    /// let of_queries = found.norm.weight(&weights);
    /// # let _ = of_queries;
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// A GGUF file has no key for it: llama.cpp norms where a layer has the tensors `attn_q_norm` and `attn_k_norm`,
    /// and how is in its code. [`Gguf`](crate::Gguf) does not answer.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`; [`Error::Unsupported`] for a model that does not
    /// rotate, for a norm that [`NormFormula`](rope_core::NormFormula) does not say, and where layers differ;
    /// [`Error::Invalid`] for the values of its keys; [`Error::Unread`] for a key that says something of it and that
    /// the model's code does not read; those of [`Config::rotation`] for the parameters of the rotation and for the
    /// layer type that was chosen, and those of [`Config::layers`] for Llama 4 and Llama 3.2 Vision, whose layers
    /// differ.
    pub fn norm(&self) -> Result<Option<ModelNorm>> {
        let reading = self.reading()?;
        let chosen = self.layer_type.as_deref();
        if let Some(chosen) = chosen {
            self.candidates(&reading, &reading.kinds()?)?;
            if !has_attention(chosen) {
                return Ok(None);
            }
        }
        match norms::read(&reading)? {
            None => Ok(None),
            Some((norm, NormedLayers::All)) => Ok(Some(norm)),
            Some(_) => {
                let layers = Layers::read(&reading)?;
                let mut norms = layers
                    .iter()
                    .filter(|layer| chosen.is_none() || layer.layer_type == chosen)
                    .map(|layer| layer.norm());
                let first = norms.next().unwrap_or(Ok(None));
                match norms.all(|norm| norm == first) {
                    true => first,
                    false => Err(Error::Unsupported {
                        model: reading.model.name(),
                        what: "its layers have different norms; use Config::layers",
                    }),
                }
            }
        }
    }

    /// The channels of a head that the rotary part is taken from: the whole head, or for multi-head latent attention
    /// the part of it that rotates (`qk_rope_head_dim`). [`Rotation::head_dim`] and [`Rotation::window`] speak of the
    /// whole head.
    ///
    /// # Errors
    ///
    /// Those of [`Config::pairing`], [`Error::Missing`] and [`Error::Invalid`] for the keys it follows from.
    pub fn head_dim(&self) -> Result<usize> {
        self.reading()?.head_dim(self.layer_type.as_deref())
    }

    /// How many channels of [`Config::head_dim`] rotate.
    ///
    /// # Errors
    ///
    /// Those of [`Config::rotation`].
    pub fn rotary_dim(&self) -> Result<usize> {
        Ok(self.rotation()?.frequencies().rotary_dim())
    }

    /// The layer types of the model, each once: those of its layers, or those that the file has parameters for if it
    /// does not say how many layers there are. None if the model has no types of layers.
    ///
    /// # Errors
    ///
    /// Those of [`Config::pairing`], and [`Error::Missing`], [`Error::Invalid`] and
    /// [`Error::Count`](rope_core::Error::Count) for the keys that they follow from.
    pub fn layer_types(&self) -> Result<Vec<String>> {
        let reading = self.reading()?;
        let mut kinds: Vec<String> = reading
            .kinds()?
            .iter()
            .map(|kind| kind.to_string())
            .collect();
        if kinds.is_empty() {
            kinds = reading.parameters.kinds().map(String::from).collect();
        }
        kinds.sort_unstable();
        kinds.dedup();
        Ok(kinds)
    }

    /// The part of the file that describes the rotating model.
    #[inline(never)]
    fn config(&self) -> Result<&Object> {
        let Some(part) = &self.part else {
            return match self.root.get("text_config") {
                Some(Value::Object(config)) => Ok(config),
                _ => Ok(&self.root),
            };
        };
        let mut config = &self.root;
        for key in part.split('.') {
            config = match config.get(key) {
                Some(Value::Object(config)) => config,
                _ => return Err(no_such_part(part, key, config)),
            };
        }
        Ok(config)
    }

    fn reading(&self) -> Result<Reading<'_>> {
        Reading::new(self.config()?, self.model()?, self.length)
    }

    /// The line of the model's type. A part without a type of its own, or with that of the whole model, as older files
    /// have it, has the type that the whole model's class gives it.
    #[inline(never)]
    fn model(&self) -> Result<Model> {
        let text = |object: &Object| {
            object
                .get("model_type")
                .and_then(Value::as_str)
                .map(String::from)
        };
        let config = self.config()?;
        let (own, root) = (text(config), text(&self.root));
        let part = match &self.part {
            Some(part) => part.rsplit('.').next(),
            None if !core::ptr::eq(config, &self.root) => Some("text_config"),
            None => None,
        };
        let named = self.model_type.clone().or(match (own, root, part) {
            (Some(own), Some(root), Some(part)) if own == root => Some(part_of_model(&root, part)),
            (None, Some(root), Some(part)) => Some(part_of_model(&root, part)),
            (own, root, _) => own.or(root),
        });
        let name = named.ok_or(Error::Missing { key: "model_type" })?;
        let found = model(&name).ok_or_else(|| Error::Unknown {
            key: "model_type",
            value: beginning(&name),
            known: nearest(&name, lines().map(Model::name)),
        })?;
        // Composite models whose text model lies flat in the file.
        match found.value("flat").filter(|_| self.part.is_none()) {
            Some(text) => model(text).ok_or(Error::Missing { key: "model_type" }),
            None => Ok(found),
        }
    }
}

/// Of a part that an object does not have: the parts that it has are its objects with a type, or named as parts are.
#[cold]
fn no_such_part(part: &str, missing: &str, object: &Object) -> Error {
    let is_part = |(key, value): &(&String, &Value)| match value {
        Value::Object(value) => key.ends_with("_config") || value.contains_key("model_type"),
        _ => false,
    };
    let mut parts: Vec<&str> = object
        .iter()
        .filter(is_part)
        .map(|(key, _)| &**key)
        .collect();
    parts.sort_by_key(|key| distance(key.as_bytes(), missing.as_bytes()));
    Error::NoSuch {
        key: "the part (Config::with_part)",
        given: beginning(part),
        known: listed(parts.into_iter()),
    }
}

/// The type of a part of a composite model: its name and that of the part.
fn part_of_model(root: &str, part: &str) -> String {
    [root, "_", part.trim_end_matches("_config")].concat()
}
