//! The rope parameters of a file, determined as in transformers (`modeling_rope_utils.py`, and the
//! `convert_rope_params_to_dict` of classes with their own): the object that counts, its entry for each type of layers,
//! and the keys beside it that are merged into it.

use super::layer_types::{FULL, INDEXED, SLIDING, ambiguous, no_such_parameters};
use super::notes::Notes;
use crate::base::error::{Refusal, Result, count_of, unsupported};
use crate::base::json::{Object, Value, count, flag, given, invalid, number, object};
use crate::base::words;
use crate::types::*;
use alloc::vec::Vec;

/// The parameters of a file, either for all layers or by type of layer.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    values: Object,
    /// True if the values are objects, one per type of layer.
    pub(crate) by_layer: bool,
    /// True if they come from the file, not from the class.
    pub(crate) in_file: bool,
    /// The names of the file's parameter sets that do not count.
    pub(crate) ignored: Vec<&'static str>,
}

impl Parameters {
    pub(crate) fn read(
        config: &Object,
        name: &'static str,
        row: &Row,
        notes: &Notes<'_>,
    ) -> Result<Self> {
        let (new_name, old_name) = ("rope_parameters", "rope_scaling");
        let (new, old) = (object(config, new_name)?, object(config, old_name)?);
        // Empty sets count as none.
        let own = |set: Option<&'_ Object>| set.is_some_and(|set| !set.is_empty());
        let old = old.filter(|old| !old.is_empty());
        let in_file = new.or(old).is_some();
        let mut ignored = Vec::new();
        let mut ignore = |name, condition| {
            if condition {
                ignored.push(name);
            }
        };
        let mut values = match new {
            Some(new) => new.clone(),
            None => class_parameters(row.parameters),
        };
        match row.parameters {
            Form::ThetaOnly => {
                ignore(new_name, own(new));
                ignore(old_name, own(old));
                values = Object::new();
            }
            Form::Rotary => {
                ignore(new_name, own(new));
                ignore(old_name, own(old));
                values = of_rotary(config)?;
            }
            Form::New => ignore(old_name, own(old)),
            Form::Older(_) | Form::OlderAllScaled(_) => {
                older(&mut values, old, row.parameters, notes);
            }
            Form::FirstLayers => {
                let (made, read) = of_first_layers(config, new, old)?;
                ignore(new_name, !read && own(new));
                ignore(old_name, !made.contains_key(FULL) || read && own(old));
                values = made;
            }
            Form::OfWindows(_) => {
                if let Some(old) = old {
                    if new.is_some() {
                        return Err(unsupported(
                            name,
                            "rope_parameters beside rope_scaling fail in the model's own code",
                        ));
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
                    ignore(new_name, own(new) && new != Some(old));
                    values.clone_from(old);
                }
            }
        }
        match row.parameters {
            Form::Compressed => values = compressed(config, values, notes)?,
            Form::ByLayerTypeFilled(_) => {
                complete(&mut values, row.parameters, config, in_file);
            }
            _ => {}
        }
        let by_layer = !matches!(
            row.parameters,
            Form::Flat | Form::FlatOr(_) | Form::New | Form::ThetaOnly | Form::Rotary
        );
        let parameters = Self {
            values,
            by_layer,
            in_file,
            ignored,
        };
        parameters.check(notes)?;
        Ok(parameters)
    }

    /// Notes keys beside the objects of layer types: nothing reads them there.
    #[inline(never)]
    fn check(&self, notes: &Notes<'_>) -> Result<()> {
        if !self.by_layer {
            return Ok(());
        }
        let objects = || self.values.values().filter_map(Value::as_object);
        for (key, value) in self.values.iter() {
            if value.is_object() || value.is_null() || key == "truncate" {
                continue;
            }
            // transformers writes some of these keys itself, and never reads them.
            let said = objects().all(|own| {
                own.contains_key(key) || (key == "rope_type" && own.contains_key("type"))
            });
            notes.inside(key, value, said && objects().next().is_some(), "");
        }
        // The switch of YaRN's rounding is read only beside the types of layers.
        let outer = self.truncate()?;
        for own in objects() {
            if let Some(own) = own.get("truncate") {
                notes.inside("truncate", own, *own == Value::Bool(outer), "");
            }
        }
        Ok(())
    }

    /// Returns true if the ends of YaRN's ramp are rounded.
    pub(crate) fn truncate(&self) -> Result<bool> {
        Ok(flag(&self.values, "truncate")?.unwrap_or(true))
    }

    /// Returns the types of layers with parameters.
    #[inline(never)]
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let mut kinds = Vec::new();
        for (key, value) in self.values.iter() {
            let is_type = value.is_object() || value.is_null();
            // These two are not types of layers.
            if self.by_layer && is_type && !words::has("main compress", key) {
                kinds.push(key);
            }
        }
        kinds
    }

    /// Returns the parameters of a type of layers; `None` if they are null.
    #[inline(never)]
    pub(crate) fn of(&self, kind: Option<&str>) -> Result<Option<&Object>> {
        if !self.by_layer {
            return Ok(Some(&self.values));
        }
        let label = match kind {
            // DeepSeek-V4 labels its parameters by the function of the layers.
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
                Some(kind) => no_such_parameters(kind, &self.kinds()),
                None => ambiguous(&self.kinds()),
            }),
        }
    }
}

/// The keys of parameter sets.
pub(crate) const SETS: &str = "rope_scaling rope_parameters";

/// Parts of the names of keys about a rotation.
pub(crate) const ROTARY: &str = "rope rotary theta yarn";

/// Switches of the whole rotation.
pub(crate) const SWITCHES: &str = "rotary use_rope use_rotary use_rotary_emb use_rotary_embedding use_rotary_embeddings \
    use_rotary_pos_emb use_rotary_position_embeddings";

/// Returns the object `rotary` of the first InternLM in current terms. Its older files have none, and their code scales
/// nothing.
#[inline(never)]
fn of_rotary(config: &Object) -> Result<Object> {
    let key = "rotary";
    let mut made = Object::new();
    let Some(own) = object(config, key)? else {
        return Ok(made);
    };
    for (name, value) in own.iter() {
        let (name, value) = match (name, value.as_str()) {
            ("base", _) => ("rope_theta", value.clone()),
            ("scaling_factor", _) => ("factor", value.clone()),
            ("type", Some("origin")) => ("rope_type", Value::Text("default".into())),
            ("type", Some("dynamic")) => ("rope_type", value.clone()),
            ("type", _) => return Err(invalid(key, value, "of the type origin or dynamic")),
            _ => {
                return Err(invalid(
                    key,
                    value,
                    "with base, type and scaling_factor alone",
                ));
            }
        };
        made.insert(name, value);
    }
    if rope_type(&made)? == "dynamic" {
        made.insert_missing("factor", Value::Number(1.0));
    }
    Ok(made)
}

/// Returns Step 3.5's parameters: the file's objects by type of layers, if all exist, and `true`; otherwise the entries
/// of its lists for the first layer of each type.
#[inline(never)]
fn of_first_layers(
    config: &Object,
    new: Option<&Object>,
    old: Option<&Object>,
) -> Result<(Object, bool)> {
    let kinds = match given(config, "layer_types") {
        Some(list) => list.as_array().unwrap_or_default(),
        None => &[Value::Null][..],
    };
    let kinds = kinds.iter().map(|kind| kind.as_str().unwrap_or(FULL));
    if let Some(new) = new
        && kinds
            .clone()
            .all(|kind| new.get(kind).is_some_and(Value::is_object))
    {
        return Ok((new.clone(), true));
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
        // A `type` of an older file does not change it.
        own.insert("rope_type", Value::Text("default".into()));
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
    Ok((made, false))
}

/// Fills the objects of full-attention and sliding-window layers from the single scaling of an older file.
#[inline(never)]
fn older(values: &mut Object, old: Option<&Object>, form: Form, notes: &Notes<'_>) {
    // It applies to all layers; no code reads objects in it.
    for (key, value) in old.into_iter().flat_map(Object::iter) {
        if let Value::Object(own) = value {
            notes.inside(key, value, own.is_empty(), "");
        }
    }
    for kind in [FULL, SLIDING] {
        if given(values, kind).is_none() {
            let mut own = Object::new();
            own.insert("rope_type", Value::Text("default".into()));
            values.insert(kind, Value::Object(own));
        }
        // The scaling of older files applies to full-attention layers.
        if let (Some(old), Some(Value::Object(own))) = (old, values.get_mut(kind))
            && (kind == FULL || matches!(form, Form::OlderAllScaled(_)))
        {
            for (key, value) in old.iter() {
                let before = own.get(key).filter(|before| *before != value);
                if let Some(before) = before.filter(|_| key != "rope_type") {
                    notes.inside(key, before, false, "");
                }
            }
            own.insert_all(old);
        }
    }
}

/// Completes the file's parameters with those of the class, or uses the latter.
#[inline(never)]
fn complete(values: &mut Object, form: Form, config: &Object, found: bool) {
    let mut own = class_parameters(form);
    // A base beside the parameters overrides those of the class.
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

/// Returns the parameters of a file without any.
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

/// Returns the class's own parameters as a file would have them.
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

/// Fills keys that the file's parameters for a type of layers omit, from the class.
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

/// Returns DeepSeek-V4's two sets: `main` for layers with a sliding window, which are not scaled, and `compress` for
/// the others, with a separate key for the base and YaRN without an attention factor. Only a file with both sets
/// provides them, and then one base applies to both.
#[inline(never)]
fn compressed(config: &Object, mut values: Object, notes: &Notes<'_>) -> Result<Object> {
    let names = ["main", "compress"];
    let base = |key, default| Ok::<f64, Refusal>(number(config, key)?.unwrap_or(default));
    let bases = [
        base("rope_theta", 1e4)?,
        base("compress_rope_theta", 1.6e5)?,
    ];
    let part = "partial_rotary_factor";
    let beside = number(config, part)?;
    let mut made = Object::new();
    let head = count(config, "head_dim")?.unwrap_or(512) as f64;
    let counted = match beside {
        Some(beside) => beside,
        None => count(config, "qk_rope_head_dim")?.map_or(0.125, |dim| dim as f64 / head),
    };
    if names.map(|name| values.get(name).is_some_and(Value::is_object)) == [true, true] {
        // The functions of scalings complete the sets; that of the default does not.
        let mut usual = beside.unwrap_or(1.0);
        let mut own_bases = [None; 2];
        for (place, name) in names.into_iter().enumerate() {
            if let Some(Value::Object(own)) = values.get_mut(name) {
                if rope_type(own)? != "default" {
                    usual = counted;
                }
                own_bases[place] = number(own, "rope_theta")?;
                own.insert_missing("rope_theta", Value::Number(bases[0]));
                own.insert_missing(part, Value::Number(usual));
                made.insert(name, Value::Object(core::mem::take(own)));
            }
        }
        if let ([Some(main), Some(_)], Some(value)) = (own_bases, given(config, "rope_theta")) {
            notes.beside("rope_theta", value, main == bases[0], "");
        }
        if let Some(value) = given(config, "compress_rope_theta") {
            let base = own_bases[1].unwrap_or(bases[0]);
            notes.beside("compress_rope_theta", value, base == bases[1], "");
        }
        return Ok(made);
    }
    let mut compress = values;
    if rope_type(&compress)? == "yarn" {
        compress.insert_missing("attention_factor", Value::Number(1.0));
    }
    let mut main = Object::new();
    // The file's values under these names do not count.
    for (key, value, other) in [("rope_theta", bases[1], bases[0]), (part, counted, counted)] {
        if let Some(own) = given(&compress, key) {
            notes.inside(key, own, own.as_f64() == Some(value), "");
        }
        compress.insert(key, Value::Number(value));
        main.insert(key, Value::Number(other));
    }
    for (name, own) in names.into_iter().zip([main, compress]) {
        made.insert(name, Value::Object(own));
    }
    Ok(made)
}

/// Returns `rope_type`, or `type`, its old name.
#[inline(never)]
pub(crate) fn rope_type(rope: &Object) -> Result<&str> {
    let text = |key: &'static str| {
        given(rope, key)
            .map(|value| value.as_str().ok_or_else(|| invalid(key, value, "a text")))
            .transpose()
    };
    Ok(text("rope_type")?.or(text("type")?).unwrap_or("default"))
}

/// The reason of the refusal for [`fails_above`].
pub(crate) const FAILS_ABOVE: &str =
    "rope parameters beside this part fail in the model's own code";

/// Returns true if a composite's code fails on its own rope parameters, which it checks and does not use.
pub(crate) fn fails_above(above: &Object, set: &Object) -> bool {
    let needed = match rope_type(set) {
        Ok("linear" | "dynamic") => "factor",
        Ok("yarn") => "factor original_max_position_embeddings",
        Ok("longrope") => "short_factor long_factor original_max_position_embeddings",
        Ok("llama3") => {
            "factor original_max_position_embeddings low_freq_factor high_freq_factor rope_theta"
        }
        _ => "",
    };
    let mut needed = needed.split_ascii_whitespace();
    let old = above.get("rope_scaling").and_then(Value::as_object) == Some(set);
    let theta = given(above, "rope_theta").is_some();
    match rope_type(set) {
        Ok("yarn" | "longrope" | "llama3") if old && theta => true,
        _ => needed.any(|key| !set.contains_key(key)),
    }
}

/// Returns the keys that a type of scaling reads, besides `rope_type`, `type`, `rope_theta` and
/// `partial_rotary_factor`.
pub(crate) fn keys_read(kind: &str) -> &'static str {
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

/// Keys that no rotation depends on: former lengths, and scales of some models' queries. The first ones are read for
/// every type of scaling.
pub(crate) const IRRELEVANT: &str = "rope_type type rope_theta partial_rotary_factor original_max_position_embeddings \
    max_position_embeddings llama_4_scaling_beta finetuned";
