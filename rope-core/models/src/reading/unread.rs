//! Keys about the rotation that the model's code does not read, and whether they agree with it.

use super::Reading;
use super::children::join;
use super::layer_types::{FULL, SLIDING};
use super::parameters::{
    FAILS_ABOVE, IRRELEVANT, ROTARY, SETS, SWITCHES, fails_above, keys_read, rope_type,
};
use super::patterns::PATTERNS;
use super::place::TEXT;
use super::shape::part_of;
use super::variants::Facts;
use crate::base::error::Result;
use crate::base::json::{Object, Value, given};
use crate::base::nearest::{distance, nearest};
use crate::base::words;
use crate::types::*;
use alloc::string::ToString;
use alloc::vec::Vec;
use rope_core::Pairing;

impl Reading<'_> {
    /// Notes the parameters that the type of scaling does not read.
    #[inline(never)]
    pub(super) fn check_read(&self, rope: &Object, scaling: &str) {
        let axes = self.row.axes;
        let sections = match axes {
            AxesOf::ChannelSections => "mrope_section xdrope_section",
            axes if axes.has_sections() => "mrope_section mrope_interleaved interleaved",
            _ => "",
        };
        let magnitudes = match self.row.rope_types {
            RopeTypes::PhiMoe => "short_mscale long_mscale",
            _ => "",
        };
        let lists = [keys_read(scaling), sections, magnitudes, IRRELEVANT];
        for (key, value) in rope.iter() {
            let other = |name| given(rope, name).filter(|own| *own != value);
            let read = match key {
                "type" => other("rope_type").is_none(),
                "xdrope_section" => other("mrope_section").is_none(),
                _ => lists.iter().any(|list| words::has(list, key)),
            };
            if !read {
                let known = lists.iter().flat_map(|list| list.split_ascii_whitespace());
                let (neutral, near) = match key {
                    "type" => (self.is_plain(value) && scaling == "default", "rope_type"),
                    _ => (is_neutral(key, value), nearest(key, known)),
                };
                self.notes.inside(key, value, neutral, near);
            }
        }
    }

    /// Returns true if a type of scaling stands for none.
    pub(super) fn is_plain(&self, value: &Value) -> bool {
        match value.as_str() {
            Some("default") => true,
            Some("mrope") => self.row.rope_types == RopeTypes::Mrope,
            Some("axial") => self.row.rope_types == RopeTypes::Images,
            _ => false,
        }
    }

    /// Notes keys about the rotation that this model does not read: beside the parameters, in a parameter set that does
    /// not count, and above the part.
    pub(super) fn check_beside(&self, facts: &Facts<'_>) -> Result<()> {
        let read = self.read_keys();
        for (key, value) in self.config.iter() {
            if read.contains(&key) || self.parameters.ignored.contains(&key) {
                continue;
            }
            if let Some(meant) = self.meaning(key, &read) {
                let neutral = self.agrees(facts, meant, value)?;
                let near = nearest(key, read.iter().copied());
                self.notes.beside(key, value, neutral, near);
            }
        }
        for name in &self.parameters.ignored {
            if let Some(value @ Value::Object(set)) = self.config.get(name) {
                let neutral = self.set_agrees(facts, set)?;
                self.notes.beside(name, value, neutral, "");
            }
        }
        self.check_objects(facts)?;
        if self.choices.other_type {
            self.check_sizes(facts)?;
        }
        for (path, object) in &self.above {
            let text = object.get(TEXT).and_then(Value::as_object);
            let name = object.get("model_type").and_then(Value::as_str);
            // They belong to the text model, or the class of the whole reads them.
            let others = match (name.and_then(model_type), text) {
                (Some((_, Type::Rotating(_) | Type::Refused(_))), _) => true,
                (_, Some(text)) => !self.is_within(text),
                (found, None) => matches!(found, Some((_, Type::Composite(Some(_))))),
            };
            if others {
                continue;
            }
            for (key, value) in object.iter() {
                let neutral = match value {
                    Value::Object(set) if words::has(SETS, key) => {
                        if fails_above(object, set) {
                            return Err(self.unsupported(FAILS_ABOVE));
                        }
                        self.set_agrees(facts, set)?
                    }
                    Value::Object(_) => continue,
                    _ if self.is_about(key) => self.agrees(facts, key, value)?,
                    _ => continue,
                };
                self.notes.note(join(path, key), value, neutral, "");
            }
        }
        Ok(())
    }

    /// Notes keys about the rotation in objects that no class reads. Sizes count there if the file has no part for this
    /// model.
    #[inline(never)]
    fn check_objects(&self, facts: &Facts<'_>) -> Result<()> {
        for (path, object) in &self.unread {
            for (key, value) in object.iter() {
                let neutral = match value {
                    Value::Object(set) if words::has(SETS, key) => self.set_agrees(facts, set)?,
                    Value::Object(_) => continue,
                    _ if is_of_rotation(key) => self.agrees(facts, key, value)?,
                    _ => continue,
                };
                self.notes.note(join(path, key), value, neutral, "");
            }
        }
        for (path, object) in self.unread.iter().filter(|_| self.choices.omitted) {
            for (key, value) in object.iter() {
                if let Some(own) = self.size(key)? {
                    let same = value.as_u64().is_none_or(|size| size == own as u64);
                    self.notes.note(join(path, key), value, same, "");
                }
            }
        }
        Ok(())
    }

    /// Notes the sizes of a file of another type, under the names of its class, which differ from those that are read.
    #[inline(never)]
    fn check_sizes(&self, facts: &Facts<'_>) -> Result<()> {
        let row = &self.row;
        for (names, usual, name) in [
            ("d_model n_embd embed_dim dim", "hidden_size", row.width),
            ("num_heads n_head n_heads", "num_attention_heads", row.heads),
            (
                "d_kv d_head attention_head_dim head_size dim_head",
                "head_dim",
                Name::Usual,
            ),
        ] {
            let read = |key: &str| match name {
                Name::Or(own) | Name::Only(own) | Name::Twice(own) => own.name() == key,
                _ => false,
            };
            for key in names.split_ascii_whitespace() {
                let Some(value) = given(self.config, key).filter(|_| !read(key)) else {
                    continue;
                };
                let own = match usual {
                    "head_dim" => Some(facts.head_dim),
                    usual => self.size(usual)?,
                };
                let same = own.is_some_and(|own| value.as_u64() == Some(own as u64));
                self.notes.beside(key, value, same, usual);
            }
        }
        Ok(())
    }

    /// Returns a size of the model, by its usual key.
    fn size(&self, key: &str) -> Result<Option<usize>> {
        let (row, sizes) = (&self.row, &self.sizes);
        match key {
            "hidden_size" => self.dimension("hidden_size", row.width, sizes.width.into()),
            "num_attention_heads" => {
                self.dimension("num_attention_heads", row.heads, sizes.heads.into())
            }
            "num_hidden_layers" => self.layer_count(),
            "head_dim" => Ok(self.head_dim(None, None).ok()),
            _ => Ok(None),
        }
    }

    /// Notes keys about base and scaling, for an unknown model, that name others than those that are read. The caller
    /// knows axes, pairing, parts of heads and layers.
    #[inline(never)]
    pub(super) fn check_unknown(&self, rope: &Object, scaling: &str, base: f64) -> Result<()> {
        let facts = Facts {
            rope,
            scaling,
            base,
            head_dim: 0,
            rotary_dim: 0,
        };
        let read = ["rope_theta", "max_position_embeddings", ORIGINAL];
        let agrees = |key: &str, value: &Value| match key {
            "rope_type" => Ok(value.as_str() == Some(scaling)),
            _ => self.agrees(&facts, key, value),
        };
        for (key, value) in self.config.iter() {
            if read.contains(&key)
                || words::has(SETS, key) && !self.parameters.ignored.contains(&key)
            {
                continue;
            }
            let meant = match (self.meaning(key, &read), value) {
                (Some(meant), _) if !words::has(OF_CALLER, meant) => meant,
                _ => continue,
            };
            let neutral = agrees(meant, value)?;
            let near = nearest(key, read.iter().copied());
            self.notes.beside(key, value, neutral, near);
        }
        let others = self.above.iter().chain(&self.unread);
        for (path, object) in others {
            for (key, value) in object.iter() {
                let neutral = match value {
                    Value::Object(set) if words::has(SETS, key) => self.set_agrees(&facts, set)?,
                    Value::Object(_) => continue,
                    _ if is_of_rotation(key) && !words::has(OF_CALLER, key) => agrees(key, value)?,
                    _ => continue,
                };
                self.notes.note(join(path, key), value, neutral, "");
            }
        }
        Ok(())
    }

    /// Returns true if the part that is read is that object, or within it.
    pub(super) fn is_within(&self, object: &Object) -> bool {
        let mut above = self.above.iter().map(|(_, own)| *own);
        core::ptr::eq(object, self.config) || above.any(|own| core::ptr::eq(own, object))
    }

    /// Returns true if a parameter set that does not count agrees with the code.
    pub(super) fn set_agrees(&self, facts: &Facts<'_>, set: &Object) -> Result<bool> {
        for (key, value) in set.iter() {
            let neutral = match key {
                "rope_type" | "type" => {
                    value.as_str() == Some(facts.scaling)
                        || facts.scaling == "default" && self.is_plain(value)
                        || facts.scaling == "default" && is_identity(set)
                }
                "rope_theta" | "partial_rotary_factor" => self.agrees(facts, key, value)?,
                _ => {
                    let read = words::has(keys_read(facts.scaling), key);
                    let default = match key {
                        "beta_fast" => value.as_f64() == Some(32.0),
                        "beta_slow" => value.as_f64() == Some(1.0),
                        _ => is_neutral(key, value),
                    };
                    default && !facts.rope.contains_key(key)
                        || is_neutral(key, value)
                        || facts.rope.get(key) == Some(value)
                        || !read && words::has(IRRELEVANT, key)
                }
            };
            if !neutral {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a key that is not read agrees with the code.
    pub(super) fn agrees(&self, facts: &Facts<'_>, key: &str, value: &Value) -> Result<bool> {
        let interleaved = self.pairing().0 == Pairing::Interleaved;
        let number = value.as_f64();
        let is = |names| words::has(names, key);
        let idle = |(idle, own): (Key, u16)| idle.name() == key && number == Some(own.into());
        if value.is_null() || self.row.idle.is_some_and(idle) {
            return Ok(true);
        }
        if let Some(agrees) = self.pattern_agrees(facts, key, value)? {
            return Ok(agrees);
        }
        let all = |number| {
            let list = value.as_array();
            list.is_some_and(|list| list.iter().all(|own| own.as_f64() == Some(number)))
        };
        let base_of = |kind: &str| -> Result<Option<f64>> {
            match self.parameters.of(Some(kind)) {
                Ok(Some(rope)) if self.parameters.by_layer => {
                    Ok(Some(self.base(rope, Some(kind))?))
                }
                _ => Ok(None),
            }
        };
        Ok(
            if is(
                "rope_theta rotary_emb_base rotary_embedding_base rope_base global_rope_theta rope_global_base_freq",
            ) {
                number == Some(base_of(FULL)?.unwrap_or(facts.base))
            } else if is("rope_local_base_freq local_rope_theta swa_rope_theta") {
                number == Some(base_of(SLIDING)?.unwrap_or(facts.base))
            } else if is("layer_rope_theta") {
                all(facts.base)
            } else if is("axes_dims_rope") {
                self.row.axes == AxesOf::Flux && value.to_string() == "[16,56,56]"
            } else if is("attn_rotary_emb rotary_dim qk_rope_head_dim") {
                // A part of 0 channels stands for no latent attention.
                number == Some(facts.rotary_dim as f64)
                    || key == "qk_rope_head_dim" && number == Some(0.0)
            } else if is("global_head_dim kv_channels head_dim") {
                number == Some(facts.head_dim as f64)
            } else if is(PARTS) {
                let head_dim = self.head_dim(None, None).unwrap_or(facts.rotary_dim);
                let partial = self.partial(facts.rope, head_dim)?;
                number.is_some_and(|part| {
                    part_of(head_dim, part).is_ok_and(|part| part == facts.rotary_dim)
                        || partial == Some(part)
                })
            } else if is("rope_interleave rope_interleaved rope_gptj rotary_emb_interleaved") {
                // The last two are GPT-J's pairing, in Cohere's files and in its own.
                value.as_bool() == Some(interleaved)
            } else if is(SWITCHES) {
                // Switches of the whole rotation.
                value.as_bool() == Some(true)
            } else if is("position_embedding_type position_embeddings_type") {
                match value.as_str() {
                    Some("rope" | "rotary") => true,
                    Some("rope_gptj") => interleaved,
                    _ => false,
                }
            } else if is("use_mrope") {
                value.as_bool() == Some(false) || self.row.axes.has_sections()
            } else if words::any_within("scale scaling factor ratio", key) && number == Some(1.0) {
                // A factor of 1 scales nothing.
                true
            } else if is("no_rope_layers") {
                // Every layer rotates.
                all(1.0)
            } else {
                is_neutral(key, value)
            },
        )
    }

    /// Returns true if the name of a key is about the rotation.
    pub(super) fn is_about(&self, key: &str) -> bool {
        !words::has(OF_OTHERS, key)
            && (words::any_within(ROTARY, key)
                || self.is_replaced(key)
                || [PARTS, OF_SOME, SETS, PATTERNS]
                    .iter()
                    .any(|list| words::has(list, key)))
    }

    /// Returns the meaning of an unread key about the rotation: itself, or a key that is read and differs by at most
    /// two letters.
    pub(super) fn meaning<'k>(&self, key: &'k str, read: &[&'static str]) -> Option<&'k str>
    where
        'static: 'k,
    {
        if words::has(OF_OTHERS, key) {
            return None;
        }
        // A key of another class is no misspelling of one that is read.
        if words::has(OF_SOME, key) {
            return Some(key);
        }
        let near = |known: &&&'static str| {
            known.len() > 7
                && known.len().abs_diff(key.len()) < 3
                && distance(known.as_bytes(), key.as_bytes()) < 3
        };
        let meant = read.iter().find(near).copied();
        meant.or(self.is_about(key).then_some(key))
    }

    /// Returns the keys beside the parameters that the code of this model reads.
    #[inline(never)]
    pub(super) fn read_keys(&self) -> Vec<&'static str> {
        let row = self.row;
        let mut named: [Option<Key>; 10] = [None; 10];
        if let Part::Factor(key, _) | Part::Count(key, _) = row.part {
            named[0] = Some(key);
        }
        if let Base::KeyOr(key, _) | Base::Times(key, _) = row.base {
            named[1] = Some(key);
        }
        if let Some(Base::KeyOr(key, _) | Base::KeyOrMain(key)) = self.base_of_windows() {
            named[2] = Some(key);
        }
        if let Rotates::ByBase(key) | Rotates::Nonzero(key) | Rotates::Except(key, _) = row.rotates
        {
            named[3] = Some(key);
        }
        if let Condition::If(key, _)
        | Condition::IfOrOmitted(key, _)
        | Condition::IfTrue(key)
        | Condition::Unless(key)
        | Condition::UnlessFalse(key) = row.condition
        {
            named[4] = Some(key);
        }
        if let Values::If(key) = row.values {
            named[5] = Some(key);
        }
        if let Head::KeyOr(key, _) = row.head {
            named[6] = Some(key);
        }
        named[7] = row.scaled_layers;
        named[8] = row.ignores;
        if let AxesOf::Listed(key, _) = row.axes {
            named[9] = Some(key);
        }
        let mut read: Vec<&'static str> = Vec::new();
        for key in named.into_iter().flatten() {
            read.push(key.name());
        }
        let theta = match row.parameters {
            Form::FirstLayers | Form::Compressed | Form::ByLayerTypeFilled(_) => true,
            _ => matches!(row.base, Base::Or(_) | Base::OrWithin(..)),
        };
        for (condition, keys) in [
            (
                !matches!(row.parameters, Form::ThetaOnly | Form::New | Form::Rotary),
                "rope_scaling",
            ),
            (
                !matches!(row.parameters, Form::ThetaOnly | Form::Rotary),
                "rope_parameters",
            ),
            (theta, "rope_theta"),
            (matches!(row.part, Part::Channels(_)), "rotary_dim"),
            (row.rope_types == RopeTypes::GrowingAlpha, "use_dynamic_ntk"),
            (
                row.pairs == Pairs::InterleavedToHalfOrHalf,
                "rope_interleave",
            ),
            (
                matches!(row.rotates, Rotates::ExceptEvery(_)),
                "no_rope_layers no_rope_layer_interval",
            ),
            (matches!(row.parameters, Form::Rotary), "rotary"),
            (matches!(row.head, Head::Global(..)), "global_head_dim"),
            (
                matches!(row.parameters, Form::Compressed),
                "compress_rope_theta partial_rotary_factor",
            ),
            (
                matches!(row.parameters, Form::FirstLayers),
                "partial_rotary_factors",
            ),
            (
                matches!(row.head, Head::Latent { .. }),
                "qk_rope_head_dim qk_nope_head_dim",
            ),
            (
                self.of_windows(),
                "swa_qk_rope_head_dim swa_qk_nope_head_dim",
            ),
            // zamba2 has both, and computes its heads itself.
            (
                row.head == Head::TwiceQuotient,
                "kv_channels attention_head_dim",
            ),
            (true, READ_BY_ALL),
        ] {
            if condition {
                read.extend(keys.split_ascii_whitespace());
            }
        }
        if given(self.config, "layer_types").is_none() {
            read.extend(self.keys_of_layers().into_iter().map(Key::name));
        }
        read
    }
}

/// Returns true if the name of a key in any object is about the rotation alone.
fn is_of_rotation(key: &str) -> bool {
    !words::has(OF_OTHERS, key)
        && (words::any_within(ROTARY, key) || words::has(PARTS, key) || key == "use_dynamic_ntk")
}

/// Returns true if a scaling divides all frequencies by 1.
fn is_identity(set: &Object) -> bool {
    rope_type(set) == Ok("linear") && set.get("factor").and_then(Value::as_f64) == Some(1.0)
}

/// Returns true if a value has no meaning by itself under that key.
pub(super) fn is_neutral(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => key != "truncate",
        Value::Array(list) => list.is_empty(),
        Value::Object(own) => own.is_empty(),
        Value::Bool(true) => key == "truncate",
        Value::Number(number) => match key {
            "factor" | "attention_factor" => *number == 1.0,
            "mscale" | "mscale_all_dim" | "alpha" => *number == 0.0,
            _ => false,
        },
        Value::Text(_) => false,
    }
}

/// The key of the original context.
const ORIGINAL: &str = "original_max_position_embeddings";

/// Keys about what the caller knows of an unknown model: axes, pairing, parts of heads, and layers.
const OF_CALLER: &str = "rotary_emb_fraction rope_pct rope_percent rotary_pct rotary_percent partial_rotary_factor \
    partial_rotary_factors rotary use_rope use_rotary use_rotary_emb use_rotary_embedding use_rotary_embeddings \
    use_rotary_pos_emb use_rotary_position_embeddings no_rope_layers no_rope_layer_interval rotary_value \
    global_head_dim kv_channels mrope_section xdrope_section alibi use_alibi use_mrope mrope_interleaved \
    position_encoding_2d position_embedding_type position_embeddings_type hybrid_layer_pattern attn_type_list \
    nope_layer_interval qk_rope_head_dim qk_nope_head_dim rotary_dim attn_rotary_emb rope_interleave \
    rope_interleaved rope_gptj rotary_emb_interleaved axes_dims_rope";

/// Keys of the shape, beside the parameters, that the code of all classes reads, by this name or another.
pub(super) const READ_BY_ALL: &str = "hidden_size num_attention_heads num_hidden_layers head_dim max_position_embeddings \
    original_max_position_embeddings layer_types";

/// Keys of the rotated part of a head.
pub(super) const PARTS: &str =
    "rotary_emb_fraction rope_pct rope_percent rotary_pct rotary_percent partial_rotary_factor";

/// Keys that other models read, and that have no meaning without their code.
pub(super) const OF_SOME: &str = "rope_local_base_freq rope_global_base_freq local_rope_theta global_rope_theta \
    compress_rope_theta swa_rope_theta layer_rope_theta no_rope_layers no_rope_layer_interval rope_scaling_layers \
    partial_rotary_factors use_mem_rope rotary_value global_head_dim kv_channels mrope_section xdrope_section alibi \
    use_alibi use_dynamic_ntk position_encoding_2d position_embedding_type position_embeddings_type";

/// Keys whose names resemble those of the rotation, with another meaning.
pub(super) const OF_OTHERS: &str = "original_rope indexer_rope_interleave relation_bias_theta memory_attention_rope_feat_sizes \
    memory_attention_rope_k_sizes memory_attention_rope_dropout v_head_dim";
