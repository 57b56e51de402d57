//! A Hugging Face `config.json`: the part to read, and the row of its model type.
//!
//! A configuration is incomplete. Its parameters are under `rope_parameters` or `rope_scaling`, flat or nested by layer
//! type. Values that equal the defaults of the model's class are omitted. The pairing, the layers that rotate and the
//! keys that are read are only in the model's code. Missing values come from a table of model types (`types/rows.rs`),
//! never from a guess: if the table has none, the caller gets an error. A meaningful key that the model's code does not
//! read is refused by name: either the file or the code differs from its author's intent.

use crate::base::error::{Error, Refusal, Result, beginning, listed, missing, still, unsupported};
use crate::base::json::{Object, Value};
use crate::base::words;
use crate::model::Model;
use crate::reading::{
    self, CLASS, Choices, FAILS_ABOVE, Notes, Place, Reading, TEXT, fails_above, own_type,
    type_of_part,
};
use crate::types::{
    PartOf, Row, Type, alike, checks_flat, instead, model_type, otherwise, part_of, parts, row_of,
    text_part,
};
use alloc::borrow::Cow;
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
/// [`Config::model`] returns the results. The [guide](crate::guide::models) lists the known model types.
///
/// # Refusals
///
/// A wrong rotation still produces text, so no value is guessed. A caller that knows more than the file has these
/// options: [`Config::with_model_type`] reads it by the rules of another type; [`Config::lenient`] follows the model's
/// code if the file has a key about the rotation that the code ignores; [`Config::without`] removes an unintended key;
/// [`Config::frequencies_over`] reads only base and scaling, for an unknown model, and leaves the rest of the table to
/// the caller.
///
/// If the model's own code computes a rotation, the result has the same values, unless the file states another
/// rotation. [`Model::ignored`] lists the keys of the file that the code ignores.
#[derive(Clone, Debug)]
pub struct Config {
    root: Object,
    part: Option<String>,
    model_type: Option<String>,
    layer_type: Option<String>,
    length: Option<u64>,
    lenient: bool,
}

impl Config {
    /// Parses the text of the file: JSON as Python writes it, with `Infinity`, `NaN` and integers of any length.
    /// Numbers that affect the rotation must be finite.
    ///
    /// Requires the default feature `config`, and with it the standard library.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] if the text is not a JSON object.
    #[cfg(feature = "config")]
    pub fn from_json(text: &str) -> Result<Self, Error> {
        match crate::base::json::parse(text)? {
            Value::Object(root) => Ok(Self {
                root,
                part: None,
                model_type: None,
                layer_type: None,
                length: None,
                lenient: false,
            }),
            _ => Err(Error::Json {
                line: 0,
                column: 0,
                ends_early: false,
            }),
        }
    }

    /// Selects a part of a composite model: `vision_config`, say, or `thinker_config.text_config` for a nested one. By
    /// default a file with a `text_config` is read there, or at the text model of its class. If the file omits the
    /// part, it is the one that the class of the whole creates.
    #[must_use]
    pub fn with_part(self, key: &str) -> Self {
        Self {
            part: Some(key.to_string()),
            ..self
        }
    }

    /// Overrides the file's `model_type`: the caller guarantees that the model behaves like that type.
    #[must_use]
    pub fn with_model_type(self, model_type: &str) -> Self {
        Self {
            model_type: Some(model_type.to_string()),
            ..self
        }
    }

    /// Selects the layer type (`full_attention`, `sliding_attention`, ..), for models whose layers differ.
    #[must_use]
    pub fn with_layer_type(self, layer_type: &str) -> Self {
        Self {
            layer_type: Some(layer_type.to_string()),
            ..self
        }
    }

    /// Sets the length of the sequence, the largest position plus one, on which dynamic NTK and LongRoPE depend.
    #[must_use]
    pub fn with_length(self, length: u64) -> Self {
        Self {
            length: Some(length),
            ..self
        }
    }

    /// Follows the model's code if the file has a key about the rotation that the code ignores and that states another
    /// one. By default such a key is an error, [`Error::Unread`]. [`Model::ignored`] lists these keys.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// // Hugging Face's class of this model ignores the key, and rotates a quarter of the head.
    /// let config = Config::from_json(r#"{
    ///     "model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.5
    /// }"#)?;
    /// assert!(config.model()?.rotation().is_err());
    /// let model = config.lenient().model()?;
    /// assert_eq!(model.rotation()?.window(), 0..20);
    /// assert_eq!(model.ignored()[0].path, "rope_pct");
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    #[must_use]
    pub fn lenient(self) -> Self {
        Self {
            lenient: true,
            ..self
        }
    }

    /// Removes this key everywhere in the file, or at this path (`rope_scaling.factor`), if the caller knows that it is
    /// unintended. The model's code then applies without it.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// let config = Config::from_json(r#"{
    ///     "model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.5
    /// }"#)?;
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
        remove_at(&mut self.root, key);
        self
    }

    /// Reads the file by the code of its model type.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] or [`Error::Missing`] for `model_type`; [`Error::NothingRotates`] for a type that does not
    /// rotate; [`Error::Unsupported`] for a type that is refused; [`Error::ChoosePart`] for a type whose parts rotate;
    /// [`Error::NoSuch`] for the part named by [`Config::with_part`]; [`Error::Ambiguous`] and [`Error::Invalid`] for
    /// the parameters of the rotation; [`Error::Unread`] for keys of a rotation in the file of a type without one. The
    /// methods of [`Model`] return all other errors.
    pub fn model(&self) -> Result<Model, Error> {
        let file = self.completed();
        let place = Place::find(&file.root, file.part.as_deref())?;
        let (name, row) = file.row(&place)?;
        let notes = Notes::new(place.object(), &place.path(), self.lenient);
        let choices = Choices {
            length: self.length,
            other_type: self.model_type.is_some(),
            omitted: !place.is_in(&self.root),
        };
        let input = Reading::new(&place, name, row, choices, notes)?;
        Ok(reading::model(input, self.layer_type.as_deref()))
    }

    /// Computes the frequencies over these axes from the base and the scaling of the file alone: for an unknown model
    /// whose axes, rotated channels, pairing and layers the caller knows.
    ///
    /// The file must have a base (`rope_theta`).
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] and [`Error::Invalid`] for the keys of the base and of the scaling; [`Error::Unknown`] for an
    /// unknown `rope_type`; [`Error::Unread`] for other keys about base and scaling, in any object of the file;
    /// [`Error::NoSuch`] for a layer type without parameters, and for a part that the file does not have; and the
    /// errors of [`Frequencies::new`].
    pub fn frequencies_over<'x>(
        &self,
        axes: impl Into<Axes<'x>>,
    ) -> Result<Frequencies<'static>, Error> {
        let place = Place::find(&self.root, self.part.as_deref())?;
        let layer_type = self.layer_type.as_deref();
        let notes = Notes::new(place.object(), &place.path(), self.lenient);
        let axes = axes.into();
        Ok(reading::over(&place, layer_type, self.length, axes, notes)?)
    }

    /// Completes the file: adds the requested part, or its text model, if the file leaves it to the class of the whole.
    #[inline(never)]
    fn completed(&self) -> Cow<'_, Self> {
        let Some(whole) = own_type(&self.root).filter(|_| self.model_type.is_none()) else {
            return Cow::Borrowed(self);
        };
        let path = match (&self.part, model_type(whole)) {
            (Some(path), _) => path,
            (None, Some((_, Type::Composite(None)))) => text_part(whole).unwrap_or(TEXT),
            _ => return Cow::Borrowed(self),
        };
        let (mut made, mut name) = (self.clone(), String::from(whole));
        let mut object = &mut made.root;
        for key in path.split('.') {
            let omitted = object.get(key).is_none_or(Value::is_null);
            if omitted {
                let known = part_of(&name, key);
                let Some(known) = known.filter(|_| !has_parts_or_sizes(object, &name)) else {
                    return Cow::Borrowed(self);
                };
                let own = known.name(&name);
                if matches!(model_type(&own), Some((_, Type::Still))) {
                    return Cow::Borrowed(self);
                }
                let mut part = Object::new();
                part.insert("model_type", Value::Text(own));
                object.insert(key, Value::Object(part));
            }
            object = match object.get_mut(key) {
                Some(Value::Object(own)) => own,
                _ => return Cow::Borrowed(self),
            };
            for (size, number) in otherwise(&name, key, omitted) {
                object.insert_missing(size, Value::Number(number));
            }
            name = type_of_part(Some(&name), key, object).unwrap_or(name);
        }
        Cow::Owned(made)
    }

    /// Returns the row of the model's type. A part has the type given by the class of the whole, or names its own. A
    /// part without a type, or with the type of the whole as in older files, is named by the whole and the part.
    #[inline(never)]
    fn row(&self, place: &Place<'_>) -> Result<(&'static str, Row)> {
        let mut name = own_type(&self.root).map(String::from);
        let mut object = &self.root;
        for part in place.parts() {
            object = match object.get(part) {
                Some(Value::Object(own)) => own,
                _ => break,
            };
            let known = name.as_deref().and_then(|whole| part_of(whole, part));
            if self.model_type.is_none()
                && known.is_some_and(|known| known.names_its_type)
                && own_type(object).is_none()
            {
                return Err(missing([part, ".model_type"].concat()));
            }
            name = type_of_part(name.as_deref(), part, object).or(name);
        }
        let name = self
            .model_type
            .clone()
            .or(name)
            .ok_or_else(|| nameless(&self.root))?;
        let of_class = self.root.get(CLASS).and_then(Value::as_str) == Some(&name);
        let (mut name, mut found) = model_type(&name).ok_or_else(|| Error::Unknown {
            key: if of_class { CLASS } else { "model_type" }.into(),
            value: beginning(&name),
            known: alike(&name),
        })?;
        if let Some(other) = instead(name, object) {
            (name, found) = model_type(other).ok_or_else(|| missing("model_type"))?;
        }
        // Composite models whose text model is flat in the file.
        if let Type::Composite(Some(text)) = found
            && self.part.is_none()
        {
            let set = object.get("rope_scaling").and_then(Value::as_object);
            if checks_flat(name) && set.is_some_and(|set| fails_above(object, set)) {
                return Err(unsupported(name, FAILS_ABOVE));
            }
            (name, found) = model_type(text).ok_or_else(|| missing("model_type"))?;
        }
        let refused = match found {
            Type::Composite(_) => Err(choose_part(name, object)),
            _ => row_of(name, found),
        };
        match refused {
            Err(refusal) if matches!(refusal.error(), Error::NothingRotates { .. }) => {
                let read = reading::refusal_of_unrotated(name, &self.root, object, &place.path());
                Err(read.filter(|_| !self.lenient).unwrap_or(refusal))
            }
            answer => Ok((name, answer?)),
        }
    }
}

/// Returns the error for a file without a model type: the way to read files of other programs that have none.
#[cold]
fn nameless(root: &Object) -> Refusal {
    let has = |key: &str| root.contains_key(key);
    missing(if has("speculators_model_type") {
        "model_type (a file of Speculators has its layers in a part: Config::with_part(\"transformer_layer_config\"))"
    } else if has("dim") && has("n_heads") {
        "model_type (a params.json has none: rotate interleaved pairs by frequencies of its rope_theta and \
         scaling, over head_dim or dim / n_heads channels)"
    } else {
        "model_type"
    })
}

/// Returns true if a composite's file has other parts than its class, or sizes beside them, as older files do. A
/// missing part is then not an omission.
fn has_parts_or_sizes(object: &Object, name: &str) -> bool {
    let sizes = "hidden_size num_hidden_layers num_attention_heads";
    object.iter().any(|(key, value)| match value {
        Value::Object(own) => own.contains_key("hidden_size") && part_of(name, key).is_none(),
        _ => words::has(sizes, key),
    })
}

/// Returns the error for a composite: the parts of its file that rotate, or that none does.
#[cold]
#[inline(never)]
fn choose_part(name: &'static str, object: &Object) -> Refusal {
    let mut found = Vec::new();
    rotating_parts(Some(name), object, "", &mut found);
    let rotates = |whole: &str, part: PartOf| {
        model_type(&part.name(whole))
            .filter(|(_, own)| !matches!(own, Type::Still))
            .map(|(own, _)| own)
    };
    let mut text = "";
    let mut any = !found.is_empty();
    for part in parts(name) {
        if let Some(own) = rotates(name, part) {
            // A part that holds parts is no result by itself.
            let whole = matches!(model_type(own), Some((_, Type::Composite(_))));
            any |= !whole || parts(own).any(|part| rotates(own, part).is_some());
            if part.key == TEXT && !whole && !object.contains_key(TEXT) {
                text = own;
            }
        }
    }
    if !any {
        return still(
            name,
            "neither it nor its parts have a rotary embedding, so nothing rotates",
        );
    }
    let names: Vec<&str> = found.iter().map(String::as_str).collect();
    Error::ChoosePart {
        model: name,
        parts: listed(&names),
        text,
    }
    .into()
}

/// Collects the paths of the parts that rotate, by their types in the file.
fn rotating_parts(whole: Option<&str>, object: &Object, path: &str, found: &mut Vec<String>) {
    for (key, value) in object.iter() {
        let Value::Object(part) = value else { continue };
        let Some(name) = type_of_part(whole, key, part) else {
            continue;
        };
        let path = match path {
            "" => String::from(key),
            path => [path, ".", key].concat(),
        };
        match model_type(&name) {
            Some((_, Type::Rotating(_) | Type::Refused(_))) => found.push(path),
            Some((_, Type::Still)) => {}
            // An unknown part may have known parts.
            _ if path.split('.').count() < 4 => rotating_parts(Some(&name), part, &path, found),
            _ => {}
        }
    }
}

/// Removes the key at a path, if it exists.
fn remove_at(object: &mut Object, path: &str) {
    object.remove(path);
    let mut names = Vec::new();
    for (name, value) in object.iter() {
        if value.is_object()
            && path
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
        {
            names.push(String::from(name));
        }
    }
    for name in names {
        if let Some(Value::Object(own)) = object.get_mut(&name) {
            remove_at(own, &path[name.len() + 1..]);
        }
    }
}
