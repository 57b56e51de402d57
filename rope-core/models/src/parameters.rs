//! The rope parameters of a file, as transformers makes them out (`modeling_rope_utils.py`, and the
//! `convert_rope_params_to_dict` of classes that have their own): which object counts, what stands in it for which
//! type of layers, and what is put into it from the keys beside it.

use crate::error::{Error, Result, unread};
use crate::json::{Object, Value, flag, given, invalid, number, object};
use crate::layers::{ambiguous, count_of, no_such_type};
use crate::types::*;
use crate::words;
use alloc::vec::Vec;

/// The parameters of a file, either for all layers or by type of layer.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    values: Object,
    /// The values are objects, one for each type of layer.
    pub(crate) by_layer: bool,
    /// They are the file's, and not the class's.
    pub(crate) in_file: bool,
}

impl Parameters {
    pub(crate) fn read(config: &Object, row: &Row) -> Result<Self> {
        let (new, old) = (
            object(config, "rope_parameters")?,
            object(config, "rope_scaling")?,
        );
        // An empty `rope_scaling` is none.
        let old = old.filter(|old| !old.is_empty());
        let in_file = new.or(old).is_some();
        if let (Some(new), Some(old)) = (new, old)
            && new != old
            && !new.is_empty()
        {
            return Err(Error::Ambiguous {
                key: "which of two different sets of parameters counts",
                choices: "rope_parameters, rope_scaling".into(),
            }
            .into());
        }
        if matches!(row.parameters, Form::ThetaOnly) {
            if in_file {
                let key = match new {
                    Some(_) => "rope_parameters",
                    None => "rope_scaling",
                };
                return Err(unread(key));
            }
            return Ok(Self {
                values: Object::new(),
                by_layer: false,
                in_file,
            });
        }
        let mut values = match new {
            Some(new) => new.clone(),
            None => class_parameters(row.parameters),
        };
        match row.parameters {
            Form::Older(_) | Form::OlderAllScaled(_) => older(&mut values, old, row.parameters)?,
            Form::FirstLayers => values = of_first_layers(config, new, old)?,
            Form::OfWindows(_) => {
                if let Some(old) = old {
                    if new.is_some() {
                        return Err(unread("rope_scaling"));
                    }
                    values.clone_from(old);
                }
                let kinds = [FULL, INDEXED, SLIDING];
                if !kinds.iter().any(|kind| values.contains_key(kind)) {
                    let all = Value::Object(core::mem::take(&mut values));
                    for kind in kinds {
                        values.insert(kind, all.clone());
                    }
                }
            }
            _ => {
                if let Some(old) = old {
                    values.clone_from(old);
                }
            }
        }
        match row.parameters {
            Form::Compressed => values = compressed(config, values)?,
            Form::ByLayerTypeFilled(_) => {
                complete(&mut values, row.parameters, config, in_file);
            }
            _ => {}
        }
        let by_layer = !matches!(
            row.parameters,
            Form::Flat | Form::FlatOr(_) | Form::ThetaOnly
        );
        let parameters = Self {
            values,
            by_layer,
            in_file,
        };
        parameters.check()?;
        Ok(parameters)
    }

    /// What stands in an object of its own or beside such objects is read from there, or refused.
    #[inline(never)]
    fn check(&self) -> Result<()> {
        if !self.by_layer {
            return match self.values.iter().find(|(_, value)| value.is_object()) {
                Some((key, _)) => Err(unread(key)),
                None => Ok(()),
            };
        }
        let objects = || self.values.values().filter_map(Value::as_object);
        for (key, value) in self.values.iter() {
            if value.is_object() || value.is_null() || key == "truncate" {
                continue;
            }
            // transformers writes some of these itself, and reads none of them again.
            let said = objects().all(|own| {
                own.contains_key(key) || (key == "rope_type" && own.contains_key("type"))
            });
            if !said || objects().next().is_none() {
                return Err(unread(key));
            }
        }
        // The ends of YaRN's ramp are looked for beside the types of layers only.
        let outer = self.truncate()?;
        for own in objects() {
            if own
                .get("truncate")
                .is_some_and(|own| *own != Value::Bool(outer))
            {
                return Err(unread("truncate"));
            }
        }
        Ok(())
    }

    /// Whether the ends of YaRN's ramp are rounded.
    pub(crate) fn truncate(&self) -> Result<bool> {
        Ok(flag(&self.values, "truncate")?.unwrap_or(true))
    }

    /// The types of layers that there are parameters for.
    #[inline(never)]
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let mut kinds = Vec::new();
        for (key, value) in self.values.iter() {
            let is_type = value.is_object() || value.is_null();
            // These two are no types of layers.
            if self.by_layer && is_type && !words::has("main compress", key) {
                kinds.push(key);
            }
        }
        kinds
    }

    /// The parameters of that type of layers; `None` where they are null.
    #[inline(never)]
    pub(crate) fn of(&self, kind: Option<&str>) -> Result<Option<&Object>> {
        if !self.by_layer {
            return Ok(Some(&self.values));
        }
        let label = match kind {
            // DeepSeek-V4 labels its parameters by what the layers do.
            Some(kind) if self.values.contains_key("compress") => Some(match kind {
                SLIDING => "main",
                _ => "compress",
            }),
            kind => kind,
        };
        match label.and_then(|label| self.values.get(label)) {
            Some(Value::Object(own)) => Ok(Some(own)),
            Some(Value::Null) => Ok(None),
            _ => Err(match kind {
                Some(kind) => no_such_type(kind, &self.kinds()),
                None => ambiguous(&self.kinds()),
            }),
        }
    }
}

pub(crate) const FULL: &str = "full_attention";
pub(crate) const SLIDING: &str = "sliding_attention";
pub(crate) const INDEXED: &str = "indexed_attention";

/// Step 3.5's: the file's objects by type of layers, or what its lists have for the first layer of each type.
#[inline(never)]
fn of_first_layers(config: &Object, new: Option<&Object>, old: Option<&Object>) -> Result<Object> {
    let refused = |key: &str| unread(key);
    let kinds = match given(config, "layer_types") {
        Some(list) => list.as_array().unwrap_or_default(),
        None => &[Value::Null][..],
    };
    let kinds = kinds.iter().map(|kind| kind.as_str().unwrap_or(FULL));
    if let Some(new) = new.filter(|new| !new.is_empty()) {
        let all = kinds
            .clone()
            .all(|kind| new.get(kind).is_some_and(Value::is_object));
        return match all {
            true => Ok(new.clone()),
            false => Err(refused("rope_parameters")),
        };
    }
    let of_layer = |key: &'static str, index: usize| match given(config, key) {
        Some(Value::Array(list)) => match list.get(index) {
            Some(value @ Value::Number(_)) => Ok(Some(value.clone())),
            Some(value) => Err(invalid(key, value, "numbers, one a layer")),
            None => Err(count_of(key, list.len(), index + 1)),
        },
        Some(value @ Value::Number(_)) if key == "rope_theta" => Ok(Some(value.clone())),
        Some(value) => Err(invalid(key, value, "a list with a number for each layer")),
        None => Ok(None),
    };
    let mut made = Object::new();
    for (index, kind) in kinds.enumerate() {
        if made.contains_key(kind) {
            continue;
        }
        let mut own = Object::new();
        for (inside, key) in [
            ("rope_theta", "rope_theta"),
            ("partial_rotary_factor", "partial_rotary_factors"),
        ] {
            if let Some(value) = of_layer(key, index)? {
                own.insert(inside, value);
            }
        }
        if let Some(old) = old.filter(|_| kind == FULL) {
            own.insert_all(old);
        }
        made.insert(kind, Value::Object(own));
    }
    match old.is_some() && !made.contains_key(FULL) {
        true => Err(refused("rope_scaling")),
        false => Ok(made),
    }
}

/// The objects of full-attention and of sliding-window layers, made or completed from an older file's one scaling.
#[inline(never)]
fn older(values: &mut Object, old: Option<&Object>, form: Form) -> Result<()> {
    if old.is_some_and(|old| old.values().any(Value::is_object)) {
        return Err(unread("rope_scaling"));
    }
    for kind in [FULL, SLIDING] {
        if given(values, kind).is_none() {
            let mut own = Object::new();
            own.insert("rope_type", Value::Text("default".into()));
            values.insert(kind, Value::Object(own));
        }
        // What older files scale is the full-attention layers.
        if let (Some(old), Some(Value::Object(own))) = (old, values.get_mut(kind))
            && (kind == FULL || matches!(form, Form::OlderAllScaled(_)))
        {
            own.insert_all(old);
        }
    }
    Ok(())
}

/// Completes what the file has by the parameters of the class, or takes these.
#[inline(never)]
fn complete(values: &mut Object, form: Form, config: &Object, found: bool) {
    let mut own = class_parameters(form);
    // A base beside the parameters counts before those of the class.
    if given(config, "rope_theta").is_some() {
        own.values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|own| own.remove("rope_theta"));
    }
    match found {
        true => fill(values, &own),
        false => *values = own,
    }
}

/// The parameters of a file that has none.
#[inline(never)]
fn class_parameters(form: Form) -> Object {
    let mut made = Object::new();
    match form {
        Form::FlatOr(own) => return of_class(own),
        Form::ByLayerTypeOr(list) | Form::ByLayerTypeFilled(list) => {
            for (kind, own) in list {
                let own = own.as_ref().map(|own| Value::Object(of_class(own)));
                made.insert(kind.name(), own.unwrap_or(Value::Null));
            }
        }
        _ => {}
    }
    made
}

/// The class's own parameters as they would stand in a file.
#[inline(never)]
fn of_class(own: &Defaults) -> Object {
    let (theta, partial) = (own.theta, own.partial);
    let (name, factor, original) = match own.scaling {
        Scaled::None => ("default", None, None),
        Scaled::Proportional => ("proportional", None, None),
        Scaled::Llama3 {
            factor, original, ..
        } => ("llama3", Some(factor), Some(original)),
        Scaled::Yarn {
            factor, original, ..
        } => ("yarn", Some(factor), Some(original)),
    };
    let mut found = Object::new();
    let mut put = |key: &str, value: Option<f64>| {
        if let Some(value) = value {
            found.insert(key, Value::Number(value));
        }
    };
    put("rope_theta", theta);
    put("partial_rotary_factor", partial);
    put("factor", factor);
    put("original_max_position_embeddings", original.map(f64::from));
    match own.scaling {
        Scaled::Llama3 { low, high, .. } => {
            put("low_freq_factor", Some(low));
            put("high_freq_factor", Some(high));
        }
        Scaled::Yarn {
            truncate,
            mscale,
            attention_factor,
            ..
        } => {
            let one = mscale.then_some(1.0);
            put("mscale", one);
            put("mscale_all_dim", one);
            put("attention_factor", attention_factor);
            found.insert("truncate", Value::Bool(truncate));
        }
        _ => {}
    }
    found.insert("rope_type", Value::Text(name.into()));
    found
}

/// What the class has for a type of layers, where the file's parameters for it leave a key out.
#[inline(never)]
fn fill(values: &mut Object, own: &Object) {
    for (kind, defaults) in own.iter() {
        if let (Some(Value::Object(found)), Some(defaults)) =
            (values.get_mut(kind), defaults.as_object())
        {
            for (key, value) in defaults.iter() {
                found.insert_missing(key, value.clone());
            }
        }
    }
}

/// DeepSeek-V4's two sets: `main` for layers with a sliding window, which are not scaled, and `compress` for the
/// others, whose base is a key of its own and whose YaRN has no attention factor. Only a file that has both has its
/// own.
#[inline(never)]
fn compressed(config: &Object, mut values: Object) -> Result<Object> {
    let both = ["main", "compress"].map(|name| values.get(name).is_some_and(Value::is_object));
    let base = |key, default| Ok::<f64, Error>(number(config, key)?.unwrap_or(default));
    let bases = [
        base("rope_theta", 1e4)?,
        base("compress_rope_theta", 1.6e5)?,
    ];
    if both == [true, true] {
        // Beside two sets of its own a file's bases are not asked for.
        for ((name, key), base) in [("main", "rope_theta"), ("compress", "compress_rope_theta")]
            .into_iter()
            .zip(bases)
        {
            let own = values
                .get(name)
                .and_then(|own| own.as_object()?.get("rope_theta")?.as_f64());
            if given(config, key).is_some() && own.is_some_and(|own| own != base) {
                return Err(unread(key));
            }
        }
        let mut made = Object::new();
        for (name, base) in ["main", "compress"].into_iter().zip(bases) {
            if let Some(Value::Object(own)) = values.get_mut(name) {
                own.insert_missing("rope_theta", Value::Number(base));
                made.insert(name, Value::Object(core::mem::take(own)));
            }
        }
        return Ok(made);
    }
    let mut compress = values;
    if rope_type(&compress)? == "yarn" {
        compress.insert_missing("attention_factor", Value::Number(1.0));
    }
    if given(&compress, "rope_theta").is_some_and(|own| own.as_f64() != Some(bases[1])) {
        return Err(unread("rope_theta"));
    }
    compress.insert("rope_theta", Value::Number(bases[1]));
    let mut main = Object::new();
    main.insert("rope_theta", Value::Number(bases[0]));
    let mut made = Object::new();
    made.insert("main", Value::Object(main));
    made.insert("compress", Value::Object(compress));
    Ok(made)
}

/// `rope_type`, or `type` as it was called.
#[inline(never)]
pub(crate) fn rope_type(rope: &Object) -> Result<&str> {
    let text = |key: &'static str| {
        given(rope, key)
            .map(|value| value.as_str().ok_or_else(|| invalid(key, value, "a text")))
            .transpose()
    };
    match (text("rope_type")?, text("type")?) {
        (Some(new), Some(old)) if new != old => Err(Error::Ambiguous {
            key: "the type of scaling",
            choices: "rope_type, type".into(),
        }
        .into()),
        (new, old) => Ok(new.or(old).unwrap_or("default")),
    }
}

/// The keys that a type of scaling reads, beside `rope_type`, `type`, `rope_theta` and `partial_rotary_factor`.
fn keys_read(kind: &str) -> &'static str {
    match kind {
        "linear" | "dynamic" | "proportional" => "factor",
        "alpha" => "factor alpha beta_fast beta_slow mscale mscale_all_dim",
        "yarn" => {
            "factor original_max_position_embeddings attention_factor beta_fast beta_slow mscale mscale_all_dim \
             truncate"
        }
        "longrope" => {
            "factor original_max_position_embeddings attention_factor short_factor long_factor"
        }
        "llama3" => "factor original_max_position_embeddings low_freq_factor high_freq_factor",
        _ => "",
    }
}

/// Keys that no rotation depends on: what a length was before, and what scales the queries of some models.
const IRRELEVANT: &str = "rope_type type rope_theta partial_rotary_factor original_max_position_embeddings \
    max_position_embeddings llama_4_scaling_beta finetuned";

/// Refuses parameters that the type of scaling does not read, unless they say what counts without them.
#[inline(never)]
pub(crate) fn check_read(rope: &Object, kind: &str, row: &Row) -> Result<()> {
    let read = keys_read(kind);
    let sections = match row.axes {
        AxesOf::ChannelSections => "mrope_section xdrope_section",
        axes if axes.has_sections() => "mrope_section mrope_interleaved interleaved",
        _ => "",
    };
    let magnitudes = match row.rope_types {
        RopeTypes::PhiMoe => "short_mscale long_mscale",
        _ => "",
    };
    for (key, value) in rope.iter() {
        let neutral = value.is_null()
            || match key {
                "factor" | "attention_factor" => value.as_f64() == Some(1.0),
                "mscale" | "mscale_all_dim" | "alpha" => value.as_f64() == Some(0.0),
                "truncate" => value.as_bool() == Some(true),
                _ => false,
            };
        let lists = [read, IRRELEVANT, sections, magnitudes];
        if !neutral && !lists.iter().any(|list| words::has(list, key)) {
            return Err(unread(key));
        }
    }
    Ok(())
}

/// A number that may stand in the parameters or beside them. Where it stands in both, both have to say the same.
#[inline(never)]
pub(crate) fn inside_or_beside(
    rope: &Object,
    inside: &'static str,
    config: &Object,
    beside: &'static str,
) -> Result<Option<f64>> {
    match (number(rope, inside)?, number(config, beside)?) {
        (Some(inside), Some(other)) if inside != other => Err(unread(beside)),
        (inside, other) => Ok(inside.or(other)),
    }
}
