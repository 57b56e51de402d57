//! A Hugging Face `config.json` read into frequencies and a pairing, or a refusal with the reason.
//!
//! A configuration says less than it seems to. Its parameters live under `rope_parameters` or `rope_scaling`, flat or
//! nested by layer type; what equals the default of the model's class is omitted; how channels are paired and axes are
//! dealt out is written nowhere but in the model's code. What is missing here is taken from a table of model types
//! (`types.rs`), never from a guess: where the table has no answer, neither has the caller.

use super::types::{AxisScheme, Model, model};
use crate::error::Name;
use crate::frequencies::Result;
use crate::frequencies::scaling::positive;
use crate::real::Real;
use crate::{Axes, Error, Frequencies, LongRope, Pairing, Scaling, Yarn};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// A model's `config.json`, and the choices that the file leaves open.
///
/// ```
/// use rope_core::{Config, Pairing};
///
/// let config = Config::from_json(r#"{
///     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
///     "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
///                      "original_max_position_embeddings": 8192}
/// }"#)?;
/// assert_eq!(config.frequencies()?.rotary_dim(), 128);
/// assert_eq!(config.pairing()?, (Pairing::Half, Pairing::Half));
/// # Ok::<(), rope_core::Error>(())
/// ```
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
            Ok(_) => Err(Error::Json { line: 0, column: 0 }),
            Err(error) => Err(Error::Json {
                line: error.line().max(1),
                column: error.column(),
            }),
        }
    }

    /// The part of a composite model that is meant: `vision_config`, say. Without it a file that has a `text_config`
    /// is read there.
    #[must_use]
    pub fn with_part(self, key: &str) -> Self {
        Self {
            part: Some(key.to_string()),
            ..self
        }
    }

    /// The model type, in place of the file's `model_type`.
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

    /// The frequencies of the layer type, over the axes of the model.
    ///
    /// # Errors
    ///
    /// Those of [`Config::axes`] and of [`Config::frequencies_over`].
    pub fn frequencies(&self) -> Result<Frequencies<'static>> {
        self.frequencies_over(self.axes()?)
    }

    /// The frequencies over other axes than the model's, or over those of a model that is not known here.
    ///
    /// # Errors
    ///
    /// Those of [`Config::rotary_dim`]; [`Error::Count`] for axes over another number of pairs than that;
    /// [`Error::Missing`] and [`Error::Invalid`] for the keys of the base and of the scaling; [`Error::Unknown`] for a
    /// `rope_type` that is not known here; those of [`Frequencies::new`].
    pub fn frequencies_over<'x>(&self, axes: impl Into<Axes<'x>>) -> Result<Frequencies<'static>> {
        let axes = axes.into();
        let (given, needed) = (axes.pairs()?, self.rotary_dim()? / 2);
        if given != needed {
            return Err(Error::Count {
                name: "axes",
                given,
                needed,
            });
        }
        let (base, mut lists) = (self.base()?, (Vec::new(), Vec::new()));
        Frequencies::new(axes, base, &self.scaling(&mut lists)?)
    }

    /// The axes of the model: one for text, more where the model type is known for them.
    ///
    /// # Errors
    ///
    /// Those of [`Config::rotary_dim`]; [`Error::Unknown`] or [`Error::Missing`] for `model_type`, if the file has an
    /// `mrope_section` whose meaning depends on it; [`Error::Invalid`] for that section; [`Error::Unsupported`] for
    /// XD-RoPE.
    pub fn axes(&self) -> Result<Axes<'static>> {
        let rotary_dim = self.rotary_dim()?;
        let rope = self.rope()?;
        if self.rope_type(rope) == Some("xdrope") {
            return Err(Error::Unsupported {
                what: "XD-RoPE, on which vLLM and Hugging Face disagree",
            });
        }
        let sections = match rope
            .and_then(|rope| rope.get("mrope_section"))
            .filter(|value| !value.is_null())
        {
            None => None,
            Some(value) => Some(sections(value).ok_or(Error::Invalid {
                key: "mrope_section",
                required: "three counts of pairs",
            })?),
        };
        match self.model()? {
            Some(model) if model.axis_scheme == AxisScheme::Text && sections.is_some() => {
                Err(self.unknown_model())
            }
            Some(model) => Ok(model.axis_scheme.axes(rotary_dim, sections)),
            None if sections.is_some() => Err(self.unknown_model()),
            None => Ok(Axes::from(rotary_dim)),
        }
    }

    /// The pairing of what goes in and of what comes out. They differ for DeepSeek-V3 and the models that took its
    /// code, which read interleaved pairs and write halves.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`: the pairing is not written in the file, and a wrong
    /// one still produces text. [`Error::Unsupported`] for Gemma 4's vision tower, whose heads are two half-split
    /// heads each. [`Error::Missing`] or [`Error::Invalid`] for the part that [`Config::with_part`] names.
    pub fn pairing(&self) -> Result<(Pairing, Pairing)> {
        let model = self.model()?.ok_or_else(|| self.unknown_model())?;
        let what = "two half-split heads in one, each with its own axis; rotate them one at a time";
        let pairing = model.pairing.ok_or(Error::Unsupported { what })?;
        match (pairing, self.config()?.get("rope_interleave")) {
            ((Pairing::Interleaved, Pairing::Half), Some(Value::Bool(false))) => {
                Ok((Pairing::Half, Pairing::Half))
            }
            _ => Ok(pairing),
        }
    }

    /// The channels of a head that the rotary part is taken from: the whole head, or for multi-head latent attention
    /// the part of it that rotates (`qk_rope_head_dim`).
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] or [`Error::Invalid`] for the keys it follows from, and for the part that
    /// [`Config::with_part`] names.
    pub fn head_dim(&self) -> Result<usize> {
        let config = self.config()?;
        let model = self.model()?;
        if let Some(dim) = count(config, "qk_rope_head_dim")? {
            return Ok(dim);
        }
        if model.is_some_and(|model| model.mla) {
            return Ok(64);
        }
        // Gemma 4's full-attention layers have heads of another size.
        if self.layer_type.as_deref() == Some("full_attention")
            && let Some(dim) =
                count(config, "global_head_dim")?.or(model.and_then(|model| model.global_head_dim))
        {
            return Ok(dim);
        }
        if let Some(dim) = count(config, "head_dim")?.or(model.and_then(|model| model.head_dim)) {
            return Ok(dim);
        }
        let first = |keys: &[&'static str]| -> Result<Option<usize>> {
            keys.iter()
                .map(|key| count(config, key))
                .find(|found| !matches!(found, Ok(None)))
                .unwrap_or(Ok(None))
        };
        // Qwen2-VL's vision tower calls its own width embed_dim, and the language model's hidden_size.
        let width = first(&["embed_dim", "hidden_size", "n_embd"])?
            .ok_or(Error::Missing { key: "head_dim" })?;
        let heads =
            first(&["num_attention_heads", "num_heads", "n_head"])?.ok_or(Error::Missing {
                key: "num_attention_heads",
            })?;
        Ok(width / heads)
    }

    /// How many channels of [`Config::head_dim`] rotate.
    ///
    /// # Errors
    ///
    /// Those of [`Config::head_dim`], for the keys of the parameters too; [`Error::Ambiguous`] where the answer depends
    /// on a layer type that was not named, or where the file has two sets of parameters that differ;
    /// [`Error::Unsupported`] for a layer type that does not rotate; [`Error::Parameter`] for a partial factor that is
    /// not positive; [`Error::RotaryDim`] if the number is odd, 0, or larger than the head.
    pub fn rotary_dim(&self) -> Result<usize> {
        let head_dim = self.head_dim()?;
        let (config, rope, model) = (self.config()?, self.rope()?, self.model()?);
        if self.rope_type(rope) == Some("proportional") {
            return Ok(head_dim);
        }
        let partial = [rope, Some(config)]
            .into_iter()
            .flatten()
            .find_map(|object| {
                ["partial_rotary_factor", "rotary_pct"]
                    .iter()
                    .find_map(|key| number(object, key).transpose())
            });
        let explicit = count(config, "rotary_dim")?;
        let rotary_dim = match (explicit, partial.transpose()?, model) {
            (Some(dim), ..) => dim,
            // The part that rotates is all there is of an MLA head: Mistral 4's factor speaks of the other part too.
            (None, _, Some(Model { mla: true, .. })) => head_dim,
            (None, Some(partial), _) => part_of(head_dim, partial)?,
            (
                None,
                None,
                Some(Model {
                    rotary_dim: Some(dim),
                    ..
                }),
            ) => dim,
            (None, None, Some(model)) => part_of(head_dim, model.partial_rotary_factor)?,
            (None, None, None) => head_dim,
        };
        match rotary_dim {
            2.. if rotary_dim % 2 == 0 && rotary_dim <= head_dim => Ok(rotary_dim),
            _ => Err(Error::RotaryDim {
                rotary_dim,
                required: "even, above 0, and not above head_dim",
            }),
        }
    }

    /// The layer types that the file has parameters for; none if all layers share them.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] or [`Error::Invalid`] for the part that [`Config::with_part`] names, [`Error::Invalid`] for
    /// parameters of another type, [`Error::Ambiguous`] for two sets of parameters that differ.
    pub fn layer_types(&self) -> Result<impl Iterator<Item = &str>> {
        let nested = self
            .parameters()?
            .filter(|parameters| is_nested(parameters));
        let local = self.local_base()?.filter(|_| nested.is_none());
        let names = local.map(|_| ["full_attention", "sliding_attention"]);
        Ok(nested
            .into_iter()
            .flat_map(|nested| nested.keys().map(String::as_str))
            .chain(names.into_iter().flatten()))
    }

    /// The part of the file that describes the rotating model.
    fn config(&self) -> Result<&Object> {
        match &self.part {
            Some(part) => match self.root.get(part) {
                Some(Value::Object(config)) => Ok(config),
                Some(_) => Err(Error::Invalid {
                    key: "with_part",
                    required: "the key of an object",
                }),
                None => Err(Error::Missing {
                    key: "the part given to Config::with_part",
                }),
            },
            None => match self.root.get("text_config") {
                Some(Value::Object(config)) => Ok(config),
                _ => Ok(&self.root),
            },
        }
    }

    fn model_type(&self) -> Result<Option<&str>> {
        let config = self.config()?;
        let own = self
            .model_type
            .as_deref()
            .or(config.get("model_type").and_then(Value::as_str));
        Ok(own.or(self.root.get("model_type").and_then(Value::as_str)))
    }

    fn model(&self) -> Result<Option<Model>> {
        let Some(name) = self.model_type()? else {
            return Ok(None);
        };
        // Older files give their vision tower the name of the whole model.
        let vision = (self.part.as_deref() == Some("vision_config"))
            .then(|| model(&[name, "_vision"].concat()))
            .flatten();
        Ok(vision.or_else(|| model(name)))
    }

    fn unknown_model(&self) -> Error {
        match self.model_type() {
            Ok(Some(name)) => Error::Unknown {
                key: "model_type",
                value: Name::new(name),
            },
            Ok(None) => Error::Missing { key: "model_type" },
            Err(error) => error,
        }
    }

    /// `rope_parameters`, or `rope_scaling` as it was called.
    fn parameters(&self) -> Result<Option<&Object>> {
        let config = self.config()?;
        let [new, old] = [
            ("rope_parameters", "an object"),
            ("rope_scaling", "an object"),
        ]
        .map(|(key, required)| match config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(Error::Invalid { key, required }),
        });
        match (new?, old?) {
            (Some(new), Some(old)) if new != old => Err(Error::Ambiguous {
                key: "which of two different sets of parameters counts",
                choices: Name::new("rope_parameters, rope_scaling"),
            }),
            (new, old) => Ok(new.or(old)),
        }
    }

    /// The base of sliding-window layers in files that do not nest: the key of Gemma 3, of ModernBERT, or a default.
    fn local_base(&self) -> Result<Option<f64>> {
        let config = self.config()?;
        for key in ["rope_local_base_freq", "local_rope_theta"] {
            if let Some(base) = number(config, key)? {
                return Ok(Some(base));
            }
        }
        Ok(self.model()?.and_then(|model| model.local_base))
    }

    /// The parameters of the layer type.
    fn rope(&self) -> Result<Option<&Object>> {
        let parameters = self.parameters()?;
        if parameters.is_none() && self.model()?.is_some_and(|model| model.scaled) {
            return Err(Error::Missing {
                key: "rope_parameters",
            });
        }
        match (parameters, self.layer_type.as_deref()) {
            (Some(nested), layer_type) if is_nested(nested) => {
                // Whoever names no layer type may still be answered if all of them agree.
                let mut values = nested.values();
                let first = values.next();
                let found = match layer_type {
                    Some(name) => nested.get(name),
                    None => first.filter(|_| values.all(|value| Some(value) == first)),
                };
                match found {
                    Some(Value::Object(rope)) => Ok(Some(rope)),
                    Some(_) => Err(Error::Unsupported {
                        what: "this layer type does not rotate at all",
                    }),
                    None => Err(self.ambiguous()),
                }
            }
            (flat, layer_type) if self.local_base()?.is_some() => match layer_type {
                Some("full_attention") => Ok(flat),
                // The scaling of these files is that of the full-attention layers.
                Some("sliding_attention") => Ok(None),
                _ => Err(self.ambiguous()),
            },
            (flat, _) => Ok(flat),
        }
    }

    fn ambiguous(&self) -> Error {
        let mut choices = Name::new("");
        for (index, name) in self.layer_types().into_iter().flatten().enumerate() {
            let _ = write!(choices, "{}{name}", if index == 0 { "" } else { ", " });
        }
        Error::Ambiguous {
            key: "layer_type",
            choices,
        }
    }

    fn rope_type<'r>(&self, rope: Option<&'r Object>) -> Option<&'r str> {
        let rope = rope?;
        rope.get("rope_type")
            .or_else(|| rope.get("type"))
            .and_then(Value::as_str)
    }

    /// `rope_theta`.
    fn base(&self) -> Result<f64> {
        let (config, rope) = (self.config()?, self.rope()?);
        if let Some(base) = rope
            .map(|rope| number(rope, "rope_theta"))
            .transpose()?
            .flatten()
        {
            return Ok(base);
        }
        let nested = self.parameters()?.is_some_and(is_nested);
        if !nested
            && self.layer_type.as_deref() == Some("sliding_attention")
            && let Some(base) = self.local_base()?
        {
            return Ok(base);
        }
        for key in ["rope_theta", "rotary_emb_base", "global_rope_theta"] {
            if let Some(base) = number(config, key)? {
                return Ok(base);
            }
        }
        let model = self.model()?.ok_or(Error::Missing { key: "rope_theta" })?;
        let local = model
            .local_base
            .filter(|_| self.layer_type.as_deref() == Some("sliding_attention"));
        Ok(local.unwrap_or(model.base))
    }

    /// The scaling, its lists kept by the caller.
    fn scaling<'l>(&self, lists: &'l mut (Vec<f64>, Vec<f64>)) -> Result<Scaling<'l>> {
        let plain = match self.model()? {
            Some(Model { turns: true, .. }) => Scaling::Turns,
            _ => Scaling::Default,
        };
        let (config, Some(rope)) = (self.config()?, self.rope()?) else {
            return Ok(plain);
        };
        let required = |key| number(rope, key)?.ok_or(Error::Missing { key });
        let optional = |key| Ok::<f64, Error>(number(rope, key)?.unwrap_or(0.0));
        let longest = || {
            length(config, "max_position_embeddings")?.ok_or(Error::Missing {
                key: "max_position_embeddings",
            })
        };
        let sequence = || {
            self.length.ok_or(Error::Missing {
                key: "the length of the sequence (Config::with_length)",
            })
        };
        // A number beside the parameters takes precedence over one among them; without either the context was never
        // extended (standardize_rope_params).
        let original = || {
            let key = "original_max_position_embeddings";
            match if self.parameters()?.is_some_and(is_nested) {
                None
            } else {
                length(config, key)?
            } {
                Some(beside) => Ok(beside),
                None => length(rope, key)?.map_or_else(longest, Ok),
            }
        };
        // A null factor is the ratio of the contexts.
        let stretch = || match number(rope, "factor")? {
            Some(factor) => Ok(factor),
            None => Ok((Real::from_u64(longest()?) / Real::from_u64(original()?.max(1))).to_f64()),
        };
        Ok(match self.rope_type(Some(rope)) {
            Some("default" | "mrope" | "axial") => plain,
            // Qwen3-VL's first files and the parameters of nested defaults have no type; a factor without one has no
            // meaning.
            None if rope.get("factor").is_none_or(Value::is_null) => plain,
            None => return Err(Error::Missing { key: "rope_type" }),
            Some("linear") => Scaling::Linear {
                factor: required("factor")?,
            },
            Some("dynamic") => match number(rope, "alpha")?.filter(|&alpha| alpha != 0.0) {
                // HunYuan's label for a fixed alpha.
                Some(alpha) => Scaling::NtkAlpha { alpha },
                None => Scaling::DynamicNtk {
                    factor: required("factor")?,
                    max_position_embeddings: longest()?,
                    length: sequence()?,
                },
            },
            Some("yarn") => Scaling::Yarn(Yarn {
                beta_fast: optional("beta_fast")?,
                beta_slow: optional("beta_slow")?,
                // Read beside the layer types where parameters are nested, as Hugging Face does.
                truncate: match self
                    .parameters()?
                    .and_then(|parameters| parameters.get("truncate"))
                {
                    None => true,
                    Some(Value::Bool(truncate)) => *truncate,
                    Some(_) => {
                        return Err(Error::Invalid {
                            key: "truncate",
                            required: "true or false",
                        });
                    }
                },
                attention_factor: number(rope, "attention_factor")?,
                mscale: optional("mscale")?,
                mscale_all_dim: optional("mscale_all_dim")?,
                ..Yarn::new(stretch()?, original()?)
            }),
            Some("longrope" | "su") => {
                *lists = (
                    numbers(rope, "short_factor")?,
                    numbers(rope, "long_factor")?,
                );
                let (original_context, sequence) = (original()?, sequence()?);
                // Phi-3.5-MoE's own attention factors, one for each list.
                let own = if sequence > original_context {
                    "long_mscale"
                } else {
                    "short_mscale"
                };
                let attention_factor = match number(rope, "attention_factor")? {
                    Some(factor) => Some(factor),
                    None => number(rope, own)?,
                };
                Scaling::LongRope(LongRope {
                    short_factor: &lists.0,
                    long_factor: &lists.1,
                    original_context,
                    length: sequence,
                    factor: stretch()?,
                    attention_factor,
                })
            }
            Some("llama3") => Scaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor: required("low_freq_factor")?,
                high_freq_factor: required("high_freq_factor")?,
                original_context: original()?,
            },
            Some("proportional") => Scaling::Proportional {
                partial_rotary_factor: number(rope, "partial_rotary_factor")?.unwrap_or(1.0),
                factor: number(rope, "factor")?.unwrap_or(1.0),
            },
            Some(other) => {
                return Err(Error::Unknown {
                    key: "rope_type",
                    value: Name::new(other),
                });
            }
        })
    }
}

/// Whether the parameters are given by layer type: every value is an object, or null for layers that do not rotate.
/// `truncate` may stand beside them.
fn is_nested(parameters: &Object) -> bool {
    let mut values = parameters
        .iter()
        .filter(|(key, _)| *key != "truncate")
        .map(|(_, value)| value)
        .peekable();
    values.peek().is_some()
        && values.clone().any(Value::is_object)
        && values.all(|value| value.is_object() || value.is_null())
}

/// The number under a key; `None` if there is none or null.
fn number(object: &Object, key: &'static str) -> Result<Option<f64>> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(Error::Invalid {
            key,
            required: "a number",
        }),
    }
}

/// The length under a key: a whole number, also where it is written as a float.
fn length(object: &Object, key: &'static str) -> Result<Option<u64>> {
    let Some(value) = object.get(key).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let float = || {
        value
            .as_f64()
            .filter(|&float| (0.0..9e15).contains(&float) && float as u64 as f64 == float)
    };
    let whole = value.as_u64().or_else(|| float().map(|float| float as u64));
    whole.map(Some).ok_or(Error::Invalid {
        key,
        required: "a whole number",
    })
}

/// A number of channels or heads.
fn count(object: &Object, key: &'static str) -> Result<Option<usize>> {
    match length(object, key)? {
        None => Ok(None),
        Some(value @ 1..=0xffff_ffff) => Ok(Some(value as usize)),
        Some(_) => Err(Error::Invalid {
            key,
            required: "positive and below 2^32",
        }),
    }
}

/// The list of numbers under a key.
fn numbers(object: &Object, key: &'static str) -> Result<Vec<f64>> {
    match object.get(key) {
        None | Some(Value::Null) => Err(Error::Missing { key }),
        Some(value) => value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_f64).collect())
            .ok_or(Error::Invalid {
                key,
                required: "a list of numbers",
            }),
    }
}

fn sections(value: &Value) -> Option<[usize; 3]> {
    let list: Option<Vec<usize>> = value
        .as_array()?
        .iter()
        .map(|section| section.as_u64().and_then(|n| usize::try_from(n).ok()))
        .collect();
    list?.try_into().ok()
}

/// `int(dim * partial)`, the product rounded to a double as in the models' code.
fn part_of(dim: usize, partial: f64) -> Result<usize> {
    let product =
        (positive("partial_rotary_factor", partial)? * Real::from_u64(dim as u64)).to_f64();
    match Real::from_f64(product.min(f64::MAX)).to_fixed() {
        Some((whole, _)) if whole <= 0xffff_ffff => Ok(whole as usize),
        _ => Err(Error::Invalid {
            key: "partial_rotary_factor",
            required: "at most 1",
        }),
    }
}
