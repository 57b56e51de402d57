//! A Hugging Face `config.json`: which part of it is meant, and the row of its model type.
//!
//! A configuration says less than it seems to. Its parameters live under `rope_parameters` or `rope_scaling`, flat or
//! nested by layer type; what equals the default of the model's class is omitted; how channels are paired, which layers
//! rotate at all and which keys are read is written nowhere but in the model's code. What is missing here is taken from
//! a table of model types (`types/rows.rs`), never from a guess: where the table has no answer, neither has the caller.
//! And a key that says something, and that the model's code does not read, is refused by its name: either the file or
//! the code is not what its author means.

use crate::error::{Error, Refusal, Result, beginning, listed, missing};
use crate::json::{Object, Value};
use crate::model::Model;
use crate::nearest::sort_nearest;
use crate::reading::Reading;
use crate::types::{Row, Type, model_type, nearest_type, row_of};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use rope_core::Frequencies;
use rope_core::axes::Axes;

/// A model's `config.json`, and the choices that the file leaves open.
///
/// ```
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "head_dim": 256,
///     "num_hidden_layers": 34}
/// }"#)?;
/// let sliding = config.with_layer_type("sliding_attention").model()?;
/// assert_eq!(sliding.rotation()?.window(), 0..256);
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// [`Config::model`] has the answers. Which model types are known, and what is known of them, is in the
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
    /// Reads the file's text: JSON as Python writes it, with `Infinity`, `NaN` and integers of any length. Numbers that
    /// the rotation depends on have to be finite.
    ///
    /// It needs the default feature `config`, and with it the standard library.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] if it is not a JSON object.
    #[cfg(feature = "config")]
    pub fn from_json(text: &str) -> Result<Self, Error> {
        match crate::json::parse(text)? {
            Value::Object(root) => Ok(Self {
                root,
                part: None,
                model_type: None,
                layer_type: None,
                length: None,
            }),
            _ => Err(Error::Json {
                line: 0,
                column: 0,
                ends_early: false,
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
    /// assert!(config.model()?.rotation().is_err());
    /// assert_eq!(config.without("rope_pct").model()?.rotation()?.window(), 0..20);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        let mut objects: Vec<&mut Object> = alloc::vec![&mut self.root];
        while let Some(object) = objects.pop() {
            object.remove(key);
            objects.extend(object.values_mut().filter_map(Value::as_object_mut));
        }
        self
    }

    /// What the file says, by the code of its model type.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`; [`Error::Unsupported`] for a type that does not
    /// rotate, and for one that is refused; [`Error::NoSuch`] for the part that [`Config::with_part`] names;
    /// [`Error::Unread`], [`Error::Ambiguous`] and [`Error::Invalid`] for the parameters of the rotation. What else is
    /// refused, the questions of the [`Model`] refuse.
    pub fn model(&self) -> Result<Model, Error> {
        let (name, row) = self.row()?;
        let reading = Reading::new(self.config()?, name, row, self.length)?;
        Ok(Model::of_config(&reading, self.layer_type.as_deref()))
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
    pub fn frequencies_over<'x>(
        &self,
        axes: impl Into<Axes<'x>>,
    ) -> Result<Frequencies<'static>, Error> {
        let (config, layer_type) = (self.config()?, self.layer_type.as_deref());
        let axes = axes.into();
        Ok(crate::reading::over(config, layer_type, self.length, axes)?)
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

    /// The row of the model's type. A part without a type of its own, or with that of the whole model, as older files
    /// have it, has the type that the whole model's class gives it.
    #[inline(never)]
    fn row(&self) -> Result<(&'static str, Row)> {
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
        let name = named.ok_or_else(|| missing("model_type"))?;
        let (mut name, mut found) = model_type(&name).ok_or_else(|| Error::Unknown {
            key: "model_type".into(),
            value: beginning(&name),
            known: nearest_type(&name),
        })?;
        // Composite models whose text model lies flat in the file.
        if let Type::Composite(Some(text)) = found
            && self.part.is_none()
        {
            (name, found) = model_type(text).ok_or_else(|| missing("model_type"))?;
        }
        Ok((name, row_of(name, found)?))
    }
}

/// Of a part that an object does not have: the parts that it has are its objects with a type, or named as parts are.
#[cold]
fn no_such_part(part: &str, missing: &str, object: &Object) -> Refusal {
    let mut parts = Vec::new();
    for (key, value) in object.iter() {
        if let Value::Object(value) = value
            && (key.ends_with("_config") || value.contains_key("model_type"))
        {
            parts.push(key);
        }
    }
    sort_nearest(&mut parts, missing);
    Error::NoSuch {
        key: "the part (Config::with_part)",
        given: beginning(part),
        known: listed(&parts),
    }
    .into()
}

/// The type of a part of a composite model: its name and that of the part.
fn part_of_model(root: &str, part: &str) -> String {
    let mut part = part;
    while let Some(shorter) = part.strip_suffix("_config") {
        part = shorter;
    }
    let mut name = String::from(root);
    name.push('_');
    name.push_str(part);
    name
}
