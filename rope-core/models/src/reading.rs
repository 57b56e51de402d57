//! Reads a configuration by its row of the table: for a type of layers (or one layer), its rotation or none.

use crate::config::{Place, TEXT};
use crate::error::{
    Error, Refusal, Result, beginning, missing, must_be, out_of_range, positive, still, unsupported,
};
use crate::ignored::Notes;
use crate::json::{Object, Value, count, flag, given, invalid, length, number, numbers, object};
use crate::layers::{PREFIX_PATTERN, Rotation, count_of, count_or_none, kinds};
use crate::nearest::{distance, nearest};
use crate::parameters::{FULL, IRRELEVANT, Parameters, SLIDING, keys_read, rope_type};
use crate::types::*;
use crate::words;
use alloc::string::String;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::error::RowsError;
use rope_core::{Direction, Frequencies, LongRope, Pairing, Scaling, Yarn};

/// A configuration, the row of its model type, and the caller's choices.
pub(crate) struct Reading<'c> {
    pub(crate) config: &'c Object,
    /// The model type.
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) parameters: Parameters,
    sizes: Sizes,
    length: Option<u64>,
    /// The objects above the part that is read, with their paths.
    above: Vec<(String, &'c Object)>,
    pub(crate) notes: Notes<'c>,
}

/// The key of the changes of single layers, by number.
const PER_LAYER: &str = "per_layer_config";

/// Returns the entry of a layer in a list with one entry per layer.
fn entry(key: Key, list: &[f64], index: usize) -> Result<f64> {
    let own = list.get(index).copied();
    own.ok_or_else(|| count_of(key.name(), list.len(), index + 1))
}

/// The differences between the rotations of layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LayerVariant<'k, 'c> {
    /// The type of the layer, if parameters or heads depend on it.
    pub(crate) kind: Option<&'k str>,
    /// The keys of `per_layer_config` for the layer, if heads depend on it.
    own: Option<&'c Object>,
    /// The base, if each layer has its own.
    base: Option<f64>,
    /// True if the scaling is omitted.
    unscaled: bool,
}

impl<'c> Reading<'c> {
    pub(crate) fn new(
        place: &Place<'c>,
        name: &'static str,
        row: Row,
        length: Option<u64>,
        notes: Notes<'c>,
    ) -> Result<Self> {
        let (config, mut above) = (place.object(), place.objects());
        above.pop();
        let rotates = match row.condition {
            Condition::Always => true,
            Condition::If(key, wanted) => {
                let found = given(config, key.name()).and_then(Value::as_str);
                found == Some(wanted.name())
            }
            Condition::IfTrue(key) => flag(config, key.name())? == Some(true),
            Condition::Unless(key) => flag(config, key.name())? != Some(true),
            Condition::Baichuan => {
                given(config, "max_position_embeddings").is_some()
                    && count(config, "num_attention_heads")? != Some(40)
            }
            Condition::UnlessFalse(key) => flag(config, key.name())? != Some(false),
        };
        if !rotates {
            return Err(still(
                name,
                "it rotates with another choice of its configuration only, and not with this one",
            ));
        }
        let types = "layer_types";
        if matches!(row.layers, LayerTypes::Needed) && given(config, types).is_none() {
            return Err(missing(types));
        }
        let parameters = Parameters::read(config, name, &row, &notes)?;
        let reading = Self {
            config,
            name,
            row,
            parameters,
            sizes: sizes_of(name),
            length,
            above,
            notes,
        };
        reading.check_numbers()?;
        Ok(reading)
    }

    fn unsupported(&self, what: &'static str) -> Refusal {
        unsupported(self.name, what)
    }

    /// Returns the error for a partial rotation without code in the class.
    fn fails(&self) -> Refusal {
        self.unsupported("this partial rotation fails in the model's own code")
    }

    /// Returns the difference of the layers of a type, or of the layer with an index; `None` if they do not rotate.
    #[inline(never)]
    pub(crate) fn difference<'k>(
        &self,
        kind: Option<&'k str>,
        layer: Option<(usize, usize)>,
    ) -> Result<Option<LayerVariant<'k, 'c>>> {
        let sliding = kind == Some(SLIDING);
        let still = match self.row.rotates {
            Rotates::Sliding => !sliding,
            // Without a window all layers rotate.
            Rotates::SlidingOrAll => {
                let window = self.config.get("sliding_window");
                !sliding && window.is_none_or(|window| !window.is_null())
            }
            Rotates::SlidingOrDense => {
                let window = self.config.get("sliding_window");
                let sliding = sliding && window.is_none_or(|window| !window.is_null());
                !sliding && !self.is_dense_and_forced(layer)?
            }
            _ => false,
        };
        if still {
            return Ok(None);
        }
        if self.parameters.by_layer && self.parameters.of(kind)?.is_none() {
            return match self.row.rotates {
                Rotates::Parametrized => Ok(None),
                _ => Err(missing("the parameters of a type of layers")),
            };
        }
        let by_number = || {
            layer.ok_or_else(|| {
                self.unsupported(
                    "its layers rotate differently, by their number; use Model::layers",
                )
            })
        };
        let (mut base, mut unscaled) = (None, false);
        match self.row.rotates {
            Rotates::ExceptEvery(_) if !self.rotates_by_number(by_number()?.0)? => return Ok(None),
            Rotates::ByBase(key) => {
                if let Some(list) = numbers(self.config, key.name())? {
                    match entry(key, &list, by_number()?.0)? {
                        0.0 => return Ok(None),
                        own => base = Some(own),
                    }
                }
            }
            Rotates::Nonzero(key) => {
                let (index, layers) = by_number()?;
                let key_name = key.name();
                if let Some(list) = numbers(self.config, key_name)? {
                    let own = entry(key, &list, index)?;
                    if own == 0.0 {
                        return Ok(None);
                    }
                    // The code only compares the number with zero.
                    let rope = self.parameters.of(None)?;
                    let rope = rope.ok_or_else(|| missing(key_name))?;
                    if self.base(rope, None)? != own
                        && let Some(list) = self.config.get(key_name)
                    {
                        self.notes.beside(key_name, list, false, "");
                    }
                } else if (layers - 1 - index).is_multiple_of(4) {
                    return Ok(None);
                }
            }
            Rotates::Except(key, default) => {
                let listed = numbers(self.config, key.name())?;
                let (index, _) = by_number()?;
                let still = match listed {
                    Some(list) => list.contains(&(index as f64)),
                    None => default.contains(index),
                };
                if still {
                    return Ok(None);
                }
            }
            // Layers without an attention do not rotate; all others rotate alike.
            Rotates::Blocks => match layer {
                Some((index, _)) if !self.block_attends(index)? => return Ok(None),
                _ => {}
            },
            _ => {}
        }
        if let Some(key) = self.row.scaled_layers
            && let Some(list) = numbers(self.config, key.name())?
            && let Some(rope) = self.parameters.of(kind)?
            && rope_type(rope)? != "default"
        {
            unscaled = !list.contains(&(by_number()?.0 as f64));
        }
        let matters = self.parameters.by_layer || matches!(self.row.head, Head::Global(..));
        let own = match self.config_by_layer()? {
            Some(all) => self.own_keys(all, by_number()?.0),
            None => None,
        };
        Ok(Some(LayerVariant {
            kind: kind.filter(|_| matters),
            own,
            base,
            unscaled,
        }))
    }

    /// Returns true if the attention of a DeciLM block exists and is not a matrix.
    fn block_attends(&self, index: usize) -> Result<bool> {
        let key = "block_configs";
        let list = given(self.config, key).ok_or_else(|| missing(key))?;
        let refused = || invalid(key, list, "a list of objects, each with an attention");
        let list = list.as_array().ok_or_else(refused)?;
        let block = list
            .get(index)
            .ok_or_else(|| count_of(key, list.len(), index + 1))?;
        let attention = block
            .as_object()
            .and_then(|own| own.get("attention")?.as_object());
        let attention = attention.ok_or_else(refused)?;
        let is = |key| Ok::<bool, Refusal>(flag(attention, key)? == Some(true));
        Ok(!is("no_op")? && !is("replace_with_linear")?)
    }

    /// Returns true if a Cohere layer is dense, and all dense layers rotate.
    fn is_dense_and_forced(&self, layer: Option<(usize, usize)>) -> Result<bool> {
        let forced = count(self.config, PREFIX_PATTERN)?.unwrap_or(1) == 1;
        let Some((index, layers)) = layer.filter(|_| forced) else {
            return Ok(false);
        };
        let key = "mlp_layer_types";
        match given(self.config, key) {
            None => Ok(index < count_or_none(self.config, "first_k_dense_replace")?),
            Some(list) => match list.as_array() {
                Some(list) if list.len() == layers => Ok(list[index].as_str() == Some("dense")),
                Some(list) => Err(count_of(key, list.len(), layers)),
                None => Err(invalid(key, list, "a list of texts")),
            },
        }
    }

    /// Returns true if the layer with that number rotates, for models that list layers without rotation.
    pub(crate) fn rotates_by_number(&self, index: usize) -> Result<bool> {
        let Rotates::ExceptEvery(every) = self.row.rotates else {
            return Ok(true);
        };
        let every = count(self.config, "no_rope_layer_interval")?.unwrap_or(every.into());
        match numbers(self.config, "no_rope_layers")?.filter(|list| !list.is_empty()) {
            Some(list) => match list.get(index) {
                Some(rotates) => Ok(*rotates != 0.0),
                None => Err(count_of("no_rope_layers", list.len(), index + 1)),
            },
            None => Ok(!(index + 1).is_multiple_of(every)),
        }
    }

    /// Returns true if layers differ by more than their type, so that the rotation depends on the layer's number.
    pub(crate) fn by_number(&self) -> bool {
        let by_type = [
            Rotates::All,
            Rotates::Sliding,
            Rotates::SlidingOrAll,
            Rotates::Parametrized,
            Rotates::Blocks,
        ];
        !by_type.contains(&self.row.rotates)
            || self.row.scaled_layers.is_some()
            || matches!(self.config_by_layer(), Ok(Some(_)))
    }

    /// Returns the changes of single layers if their heads may depend on them: `save_pretrained` writes the layers that
    /// differ.
    fn config_by_layer(&self) -> Result<Option<&'c Object>> {
        match self.row.head {
            Head::Global(..)
            | Head::Latent {
                quirk: Latent::OfWindows,
                ..
            } => object(self.config, PER_LAYER),
            _ => Ok(None),
        }
    }

    /// Refuses names there that are not a layer's number, and keys that the code reads once for all layers.
    fn check_numbers(&self) -> Result<()> {
        let Some(all) = object(self.config, PER_LAYER)? else {
            return Ok(());
        };
        let by_layer = self.config_by_layer()?.is_some();
        let layers = self.layer_count()?;
        let refusal = |value: &str, required| Error::Invalid {
            key: PER_LAYER.into(),
            value: beginning(value),
            required,
        };
        for (name, own) in all.iter() {
            let number = layer_number(name)
                .filter(|number| layers.is_none_or(|layers| *number < layers))
                .ok_or_else(|| refusal(name, "an object for each layer, by its number"))?;
            let own = own
                .as_object()
                .ok_or_else(|| invalid(PER_LAYER, own, "an object for each layer"))?;
            let once = |key: &str| match by_layer {
                true => self.is_about(key) && key != "qk_rope_head_dim",
                false => self.is_about(key) || words::has(READ_ONCE, key),
            };
            let mut keys = own
                .iter()
                .filter(|(key, value)| self.config.get(key) != Some(value));
            if let Some((key, _)) = keys.find(|(key, _)| once(key)) {
                let path = alloc::format!("{number}.{key}");
                let required = "without keys of the rotation, which this model's code reads once for all layers";
                return Err(refusal(&path, required).into());
            }
        }
        Ok(())
    }

    /// Returns the keys there for one layer; of equal numbers the last counts.
    fn own_keys(&self, all: &'c Object, index: usize) -> Option<&'c Object> {
        let own = all
            .iter()
            .filter(|(name, _)| layer_number(name) == Some(index));
        own.last()?.1.as_object()
    }

    /// Returns the types of the layers, in order; empty if the model has no types of layers.
    pub(crate) fn kinds(&self) -> Result<Vec<&'c str>> {
        kinds(self)
    }

    /// Returns the number of layers.
    pub(crate) fn layer_count(&self) -> Result<Option<usize>> {
        // The types of the layers count them, too.
        let of_class = match given(self.config, "layer_types") {
            Some(_) => 0,
            None => self.sizes.depth.into(),
        };
        self.dimension("num_hidden_layers", self.row.depth, of_class)
    }

    /// Returns the number of layers, or that of the types in the file.
    pub(crate) fn layers(&self, kinds: &[&str]) -> Result<usize> {
        match self.layer_count()? {
            Some(layers) => Ok(layers),
            None if kinds.is_empty() => Err(missing("num_hidden_layers")),
            None => Ok(kinds.len()),
        }
    }

    /// Returns a number of the model's shape, by its usual key, by the key of this class, or by the default of the
    /// class.
    #[inline(never)]
    fn dimension(&self, usual: &'static str, name: Name, default: usize) -> Result<Option<usize>> {
        let (other, times) = match name {
            Name::Usual => (usual, 1),
            Name::Or(key) | Name::Only(key) => (key.name(), 1),
            Name::Twice(key) => (key.name(), 2),
            Name::Absent => return Ok(None),
            Name::Sum(one, other) => {
                let one = count(self.config, one.name())?;
                let other = count(self.config, other.name())?;
                return Ok(one.zip(other).map(|(one, other)| one.saturating_add(other)));
            }
        };
        let usual = match name {
            Name::Only(_) => other,
            _ => usual,
        };
        let own = count(self.config, other)?.map(|own| own.saturating_mul(times));
        // A null is not an omission.
        let omitted = ![usual, other]
            .iter()
            .any(|key| self.config.contains_key(key));
        match (count(self.config, usual)?, own) {
            (Some(usual_one), Some(own)) if usual_one != own => Err(Error::Ambiguous {
                key: usual,
                choices: beginning(other),
            }
            .into()),
            (usual, own) => Ok(own
                .or(usual.map(|usual| usual / times * times))
                .or((omitted && default > 0).then_some(default))),
        }
    }

    fn heads(&self) -> Result<usize> {
        let key = "num_attention_heads";
        self.dimension(key, self.row.heads, self.sizes.heads.into())?
            .ok_or_else(|| missing(key))
    }

    #[inline(never)]
    fn width_over_heads(&self) -> Result<usize> {
        let key = "hidden_size";
        let width = self.dimension(key, self.row.width, self.sizes.width.into())?;
        let width = width.ok_or_else(|| missing(key))?;
        let heads = self.heads()?;
        // The models' code rounds the quotient down, or refuses it; no published model has a remainder.
        if width % heads != 0 {
            return Err(out_of_range(
                key,
                format_args!("{width}"),
                "a multiple of num_attention_heads where head_dim is not given",
            ));
        }
        Ok(width / heads)
    }

    /// Returns the rotating and the other channels of multi-head latent attention.
    #[inline(never)]
    fn latent(&self, kind: Option<&str>, layer: Option<&Object>) -> Result<Option<(usize, usize)>> {
        let Head::Latent {
            still,
            rotating,
            quirk,
        } = self.row.head
        else {
            return Ok(None);
        };
        let key = "head_dim";
        let renamed = match quirk {
            Latent::HeadDimRotates => count(self.config, key)?,
            _ => None,
        };
        let by_layer = self.config.contains_key(PER_LAYER);
        if quirk == Latent::OfWindows && kind == Some(SLIDING) && !by_layer {
            let still = self.number_or("swa_qk_nope_head_dim", 192)?;
            let whole = self.number_or("swa_head_dim", 256)?;
            let rest = whole.saturating_sub(still);
            return Ok(Some((self.number_or("swa_qk_rope_head_dim", rest)?, still)));
        }
        let of_layer = |key| match layer.filter(|layer| layer.contains_key(key)) {
            Some(layer) => count(layer, key),
            None => count(self.config, key),
        };
        let own = of_layer("qk_rope_head_dim")?;
        if renamed.is_some()
            && own.is_some_and(|own| Some(own) != renamed)
            && let Some(value) = self.config.get(key)
        {
            self.notes.beside(key, value, false, "qk_rope_head_dim");
        }
        let rotating = own.or(renamed).unwrap_or(rotating.into());
        let still = of_layer("qk_nope_head_dim")?.unwrap_or(still.into());
        Ok(Some((rotating, still)))
    }

    /// Returns the channels of a head for the rotary code, without those before the window.
    pub(crate) fn head_dim(&self, kind: Option<&str>, layer: Option<&Object>) -> Result<usize> {
        if let Some((rotating, _)) = self.latent(kind, layer)? {
            return Ok(rotating);
        }
        let own = count(self.config, "head_dim");
        let (own, default) = match self.row.head {
            Head::Memory => return self.memory_head(),
            Head::Quotient => return self.quotient(own?),
            Head::QuotientApart => return self.width_over_heads(),
            Head::TwiceQuotient => {
                let other = count(self.config, "attention_head_dim")?;
                return own?
                    .or(other)
                    .map_or_else(|| Ok(2 * self.width_over_heads()?), Ok);
            }
            // Heads of Gemma 4's full-attention layers have another size, which is a key of the file, or of the layer.
            Head::Global(default, _) if self.config_by_layer()?.is_some() => {
                let of_layer = layer.map(|own| count(own, "head_dim")).transpose()?;
                (
                    of_layer.flatten().map_or(own, |own| Ok(Some(own)))?,
                    Some(default),
                )
            }
            Head::Global(_, default) if kind == Some(FULL) => {
                let own = count(self.config, "global_head_dim")?;
                return Ok(own.unwrap_or(default.into()));
            }
            Head::Global(default, _) | Head::Or(default) => (own?, Some(default)),
            // A null is not a number of channels, and does not stand for the width over the heads.
            Head::KeyOr(key, default) => {
                let key = key.name();
                return match (self.config.contains_key(key), own?) {
                    (true, own) => {
                        let made = count(self.config, key)?;
                        Ok(self.only(made.ok_or_else(|| missing(key))?, own))
                    }
                    // For some of these types the usual key is an alias.
                    (false, Some(own)) if own != usize::from(default) => Err(missing(key)),
                    (false, _) => Ok(default.into()),
                };
            }
            Head::Given => return own?.ok_or_else(|| missing("head_dim")),
            Head::Usual | Head::Unset | Head::Latent { .. } => (own?, None),
        };
        // A null is not an omission.
        let omitted = !self.config.contains_key("head_dim");
        match own.or(default.filter(|_| omitted).map(usize::from)) {
            Some(dim) => Ok(dim),
            None => self.width_over_heads(),
        }
    }

    /// Returns the width over the heads, which a `head_dim` of the file does not change.
    fn quotient(&self, own: Option<usize>) -> Result<usize> {
        Ok(self.only(self.width_over_heads()?, own))
    }

    /// Returns the channels of a head, which a `head_dim` of the file does not change.
    fn only(&self, made: usize, own: Option<usize>) -> usize {
        if let (Some(own), Some(value)) = (own, self.config.get("head_dim")) {
            self.notes.beside("head_dim", value, own == made, "");
        }
        made
    }

    /// Returns a number that may be in the parameters or beside them; the one inside counts.
    fn inside_or_beside(
        &self,
        rope: &Object,
        inside: &'static str,
        beside: &'static str,
    ) -> Result<Option<f64>> {
        let (own, other) = (number(rope, inside)?, number(self.config, beside)?);
        if let (Some(own), Some(other), Some(value)) = (own, other, self.config.get(beside)) {
            // Beside types of layers, it applies to full attention.
            let full = self.parameters.of(Some(FULL)).ok().flatten();
            let full = full.and_then(|full| full.get(inside)?.as_f64());
            let full = full.filter(|_| self.parameters.by_layer);
            let neutral = own == other || full == Some(other);
            self.notes.beside(beside, value, neutral, inside);
        }
        Ok(own.or(other))
    }

    fn number_or(&self, key: &'static str, default: usize) -> Result<usize> {
        Ok(count(self.config, key)?.unwrap_or(default))
    }

    fn memory_head(&self) -> Result<usize> {
        let width = self.number_or("memory_attention_hidden_size", 256)?;
        let rate = self.number_or("memory_attention_downsample_rate", 1)?;
        let heads = self.number_or("memory_attention_num_attention_heads", 1)?;
        Ok(width / rate.saturating_mul(heads).max(1))
    }

    /// Returns the rotated part of the head according to the file, whether or not the code obeys it; `None` if it has
    /// none.
    #[inline(never)]
    fn partial(&self, rope: &Object, head_dim: usize) -> Result<Option<f64>> {
        let inside = "partial_rotary_factor";
        let partial = match self.row.part {
            Part::Factor(key, _) => self.inside_or_beside(rope, inside, key.name())?,
            Part::Count(key, _) => match (number(rope, inside)?, count(self.config, key.name())?) {
                (Some(inside), _) => Some(inside),
                (None, Some(dim)) => Some(dim as f64 / head_dim as f64),
                (None, None) => number(self.config, inside)?,
            },
            Part::Inside(_) | Part::Unscaled(_) => number(rope, inside)?,
            Part::Channels(_) => None,
            Part::Clvp => self.inside_or_beside(rope, inside, inside)?,
        };
        // The class writes it into its own parameters, but not into those of `rope_scaling`, which replace them.
        let replaced = given(self.config, "rope_scaling")
            .and_then(Value::as_object)
            .is_some_and(|old| !old.is_empty());
        let whole = match (self.both_parts() && !replaced, self.latent(None, None)?) {
            (true, Some((rotating, rest))) => rotating as f64 / (rotating + rest) as f64,
            _ => return Ok(partial),
        };
        // A key beside them does not count then.
        if let (None, Some(beside)) = (given(rope, inside), given(self.config, inside)) {
            let same = beside.as_f64() == Some(whole);
            self.notes.beside(inside, beside, same, "");
            return Ok(Some(whole));
        }
        Ok(partial.or(Some(whole)))
    }

    /// Returns the default of the rotated part of the head.
    fn usual_part(&self, scaled: bool) -> f64 {
        match self.row.part {
            Part::Unscaled(_) if scaled => 1.0,
            Part::Factor(_, part)
            | Part::Count(_, part)
            | Part::Inside(part)
            | Part::Unscaled(part) => part,
            Part::Channels(_) | Part::Clvp => 1.0,
        }
    }

    /// Returns true if the parameters of latent attention cover both parts of its heads.
    fn both_parts(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::FactorOfBoth,
                ..
            }
        )
    }

    /// Returns true if layers with a window have latent attention of another shape.
    fn of_windows(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::OfWindows,
                ..
            }
        )
    }

    /// Returns the number of rotated channels of the head.
    #[inline(never)]
    fn rotary_dim(&self, rope: &Object, scaled: bool, head_dim: usize) -> Result<usize> {
        match self.row.part {
            Part::Clvp => {
                let width = self.number_or("projection_dim", 768)?;
                return even((width / (2 * self.heads()?)).max(32), head_dim);
            }
            Part::Channels(default) => {
                return even(self.number_or("rotary_dim", default.into())?, head_dim);
            }
            // The class overwrites the part in the parameters with the one from its keys.
            _ if self.of_windows() => {
                return match rope_type(rope)? {
                    "proportional" => Err(self.fails()),
                    _ => even(head_dim, head_dim),
                };
            }
            _ => {}
        }
        // Some count the other channels of latent attention as part of the head, and compensate by the partial factor.
        let whole = match self.latent(None, None)? {
            Some((rotating, rest)) if self.both_parts() => rotating + rest,
            _ => head_dim,
        };
        let partial = self.partial(rope, head_dim)?;
        let asked = part_of(whole, partial.unwrap_or(self.usual_part(scaled)))?;
        if self.both_parts() && asked != head_dim {
            return Err(self.fails());
        }
        let made = match (rope_type(rope)?, scaled || self.row.obeys) {
            ("proportional", _) => whole,
            (_, true) => asked,
            (_, false) => whole,
        };
        // A factor that the code ignores must agree with it.
        if made != asked && !scaled {
            let key = "partial_rotary_factor";
            match (given(rope, key), given(self.config, key)) {
                (Some(own), _) => self.notes.inside(key, own, false, ""),
                (None, Some(own)) => self.notes.beside(key, own, false, ""),
                _ => return Err(self.fails()),
            }
        }
        let fits = match self.row.window {
            Window::Part | Window::End => made <= head_dim,
            Window::ExactPart => made == asked || !scaled && !self.row.obeys,
            Window::Whole | Window::Halves => made == head_dim,
        };
        if !fits {
            return Err(self.fails());
        }
        even(made, head_dim)
    }

    /// Returns the separate base of layers with a window, if this file has one.
    fn base_of_windows(&self) -> Option<Base> {
        match self.row.parameters {
            Form::OfWindows(_) if self.parameters.in_file => None,
            Form::Older(base) | Form::OlderAllScaled(base) | Form::OfWindows(base) => Some(base),
            _ => None,
        }
    }

    /// Returns the base of that type of layers.
    #[inline(never)]
    fn base(&self, rope: &Object, kind: Option<&str>) -> Result<f64> {
        let base = match self.base_of_windows() {
            Some(base) if kind == Some(SLIDING) => base,
            _ => self.row.base,
        };
        let inside = "rope_theta";
        let (found, default) = match base {
            Base::Or(base) => (self.inside_or_beside(rope, inside, inside)?, base),
            Base::OrWithin(base, most) => {
                let found = self.inside_or_beside(rope, inside, inside)?;
                // The code for a longer context has a separate base.
                match found.is_some() || self.context()? <= most.into() {
                    true => (found, base),
                    false => return Err(missing(inside)),
                }
            }
            Base::KeyOr(key, base) => (self.inside_or_beside(rope, inside, key.name())?, base),
            Base::InsideOr(base) => (number(rope, inside)?, base),
            Base::Inside => return number(rope, inside)?.ok_or_else(|| missing(inside)),
            Base::Times(key, base) => {
                let factor = number(self.config, key.name())?.unwrap_or(1.0);
                let factor = positive(key.name(), factor)?;
                (Some(f64::from(base) * factor), base)
            }
            Base::Fixed(base) => {
                if let Some(own) = given(rope, inside) {
                    let same = own.as_f64() == Some(base.into());
                    self.notes.inside(inside, own, same, "");
                }
                (None, base)
            }
        };
        Ok(found.unwrap_or(default.into()))
    }

    /// Returns the rotation of the layers with this difference.
    pub(crate) fn rotation(&self, layer: &LayerVariant<'_, '_>) -> Result<Rotation> {
        let (row, kind) = (&self.row, layer.kind);
        let rope = self
            .parameters
            .of(kind)?
            .ok_or_else(|| missing("the parameters of a type of layers"))?;
        let own_type = rope_type(rope)?;
        let scaling_name = match (own_type, row.rope_types) {
            _ if layer.unscaled => "default",
            ("axial", RopeTypes::Images) | ("mrope", RopeTypes::Mrope) => "default",
            ("su" | "yarn", RopeTypes::LongRope(_) | RopeTypes::SuOrYarn(_)) => "longrope",
            ("deepseek_yarn", RopeTypes::DeepseekYarn) => "yarn",
            ("xdrope", _) if row.axes == AxesOf::ChannelSections => match number(rope, "alpha")? {
                Some(alpha) if alpha != 0.0 => "alpha",
                _ => "dynamic",
            },
            ("dynamic", RopeTypes::Alpha | RopeTypes::AlphaAlone)
                if number(rope, "alpha")?.is_some_and(|a| a != 0.0) =>
            {
                "alpha"
            }
            (other, RopeTypes::Unscaled) if other != "default" => {
                return Err(self.unsupported("how its code scales is not known here"));
            }
            (_, RopeTypes::AlphaAlone) => {
                return Err(
                    self.unsupported("its code rounds frequencies without an alpha to bf16")
                );
            }
            (_, RopeTypes::GrowingAlpha) => match flag(self.config, "use_dynamic_ntk")? {
                Some(false) => "default",
                _ => "growing alpha",
            },
            (other, _) => known_type(other)?,
        };
        let scaled = scaling_name != "default";
        let known = match row.rope_types {
            RopeTypes::Images | RopeTypes::Default => !scaled,
            RopeTypes::LongRope(_) | RopeTypes::SuOrYarn(_) | RopeTypes::PhiMoe => {
                !scaled || scaling_name == "longrope"
            }
            RopeTypes::Older => words::has("default linear dynamic", scaling_name),
            RopeTypes::MiniCpm => words::has("default linear dynamic longrope", scaling_name),
            RopeTypes::Usual
            | RopeTypes::Mrope
            | RopeTypes::Alpha
            | RopeTypes::AlphaAlone
            | RopeTypes::Unscaled
            | RopeTypes::DeepseekYarn
            | RopeTypes::GrowingAlpha => true,
        };
        let unset = row.head == Head::Unset && !self.config.contains_key("head_dim");
        if !known || unset && words::has("dynamic yarn longrope", scaling_name) {
            return Err(self.unsupported("this rope_type fails in the model's own code"));
        }
        if !layer.unscaled {
            self.check_read(rope, scaling_name);
        }
        let head_dim = self.head_dim(kind, layer.own)?;
        let apart = match row.head {
            Head::QuotientApart => count(self.config, "head_dim")?,
            _ => None,
        };
        let rotary_dim = self.rotary_dim(rope, scaled, apart.unwrap_or(head_dim))?;
        if rotary_dim > head_dim {
            return Err(self.fails());
        }
        let base = match layer.base {
            Some(base) => base,
            None => self.base(rope, kind)?,
        };
        let facts = Facts {
            rope,
            scaling: scaling_name,
            base,
            head_dim,
            rotary_dim,
        };
        self.check_beside(&facts)?;
        let axes = crate::axes::Arrangement::new(row.axes, rope, rotary_dim)?;
        let frequencies = self.by_length(scaling_name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = match row.turns {
                true => Scaling::Turns,
                false => self.scaling(scaling_name, rope, length, &mut lists)?,
            };
            let frequencies = axes.frequencies(base, &scaling)?;
            Ok(match row.softmax {
                true => frequencies,
                false => frequencies.with_softmax_factor(1.0)?,
            })
        })?;
        let (input, output, direction) = self.pairing();
        let (whole, offset) = match self.latent(kind, layer.own)? {
            Some((rotating, rest)) => (rotating + rest, rest),
            None if row.window == Window::End => (head_dim, head_dim - rotary_dim),
            None => (head_dim, 0),
        };
        Ok(Rotation {
            frequencies,
            input,
            output,
            direction,
            head_dim: whole,
            offset,
            values: match row.values {
                Values::Plain => false,
                Values::Rotated => true,
                Values::If(key) => flag(self.config, key.name())?.unwrap_or(false),
            },
            turned_back: row.window == Window::End,
            windows: match row.window {
                Window::Halves => 2,
                _ => 1,
            },
            full_width: row.axes.is_full_width(),
        })
    }

    fn pairing(&self) -> (Pairing, Pairing, Direction) {
        let forward = Direction::default();
        let halves = self.config.get("rope_interleave") == Some(&Value::Bool(false));
        match self.row.pairs {
            Pairs::Interleaved => (Pairing::Interleaved, Pairing::Interleaved, forward),
            Pairs::NegatedHalf => (Pairing::Half, Pairing::Half, Direction::Transpose),
            Pairs::Half => (Pairing::Half, Pairing::Half, forward),
            Pairs::InterleavedToHalfOrHalf if halves => (Pairing::Half, Pairing::Half, forward),
            Pairs::InterleavedToHalf | Pairs::InterleavedToHalfOrHalf => {
                (Pairing::Interleaved, Pairing::Half, forward)
            }
        }
    }

    /// Returns the frequencies for the length of the sequence, which is required if the result depends on it.
    fn by_length(
        &self,
        scaling: &str,
        made: &mut dyn FnMut(u64) -> Result<Frequencies<'static>>,
    ) -> Result<Frequencies<'static>> {
        let depends = ["dynamic", "longrope", "growing alpha"].contains(&scaling);
        match self.length {
            None if depends => {
                let short = made(1)?;
                match made(LONG).is_ok_and(|long| long == short) {
                    true => Ok(short),
                    false => Err(missing(LENGTH)),
                }
            }
            length => made(length.unwrap_or_default()),
        }
    }

    /// Returns the scaling; the caller stores its lists.
    fn scaling<'l>(
        &self,
        name: &str,
        rope: &Object,
        length: u64,
        lists: &'l mut (Vec<f64>, Vec<f64>),
    ) -> Result<Scaling<'l>> {
        let required = |key| number(rope, key)?.ok_or_else(|| missing(key));
        let optional = |key| Ok::<f64, Error>(number(rope, key)?.unwrap_or(0.0));
        Ok(match name {
            "linear" => Scaling::Linear {
                factor: required("factor")?,
            },
            "alpha" => Scaling::NtkAlpha {
                alpha: required("alpha")?,
            },
            "growing alpha" => Scaling::NtkAlpha {
                alpha: {
                    let context = positive("seq_length", self.context()? as f64)?;
                    growing_alpha(length as f64, context)
                },
            },
            "dynamic" => Scaling::DynamicNtk {
                factor: required("factor")?,
                max_position_embeddings: self.context()?,
                length,
            },
            "yarn" => Scaling::Yarn(Yarn {
                beta_fast: optional("beta_fast")?,
                beta_slow: optional("beta_slow")?,
                truncate: self.parameters.truncate()?,
                attention_factor: number(rope, "attention_factor")?,
                mscale: optional("mscale")?,
                mscale_all_dim: optional("mscale_all_dim")?,
                ..Yarn::new(self.stretch(rope)?, self.original(rope)?)
            }),
            "longrope" => {
                let list = |key| numbers(rope, key)?.ok_or_else(|| missing(key));
                *lists = (list("short_factor")?, list("long_factor")?);
                self.longrope(rope, length, lists)?
            }
            "llama3" => Scaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor: required("low_freq_factor")?,
                high_freq_factor: required("high_freq_factor")?,
                original_context: self.original(rope)?,
            },
            "proportional" => Scaling::Proportional {
                partial_rotary_factor: self.partial(rope, 1)?.unwrap_or(self.usual_part(true)),
                factor: number(rope, "factor")?.unwrap_or(1.0),
            },
            _ => Scaling::Default,
        })
    }

    fn longrope<'l>(
        &self,
        rope: &Object,
        length: u64,
        lists: &'l (Vec<f64>, Vec<f64>),
    ) -> Result<Scaling<'l>> {
        let (short_factor, mut long_factor) = (&lists.0[..], &lists.1[..]);
        let original_context = self.original(rope)?;
        let length = match self.row.rope_types {
            // The class makes its table for the whole context, and another one only for a longer sequence.
            RopeTypes::MiniCpm => length.max(self.context()?),
            _ => length,
        };
        let mut attention_factor = number(rope, "attention_factor")?;
        if self.row.rope_types == RopeTypes::PhiMoe {
            // The class has one factor per list, and always uses the short list.
            let key = match length > original_context {
                true => "long_mscale",
                false => "short_mscale",
            };
            attention_factor = Some(number(rope, key)?.ok_or_else(|| missing(key))?);
            long_factor = short_factor;
        }
        let factor = self.stretch(rope)?;
        match self.row.rope_types {
            RopeTypes::SuOrYarn(_) if rope_type(rope)? == "yarn" => {
                let yarn = Scaling::Yarn(Yarn::new(factor, original_context));
                let yarn = Frequencies::new(2, 10_000.0, &yarn)?;
                attention_factor = attention_factor.or(Some(yarn.attention_factor()));
            }
            // Its formula has no bound below 1.
            RopeTypes::MiniCpm if factor < 1.0 => {
                return Err(must_be(
                    "max_position_embeddings",
                    "at least the original one",
                ));
            }
            _ => {}
        }
        Ok(Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            original_context,
            length,
            factor,
            attention_factor,
        }))
    }

    fn context(&self) -> Result<u64> {
        let key = "max_position_embeddings";
        let other = match self.row.context {
            Name::Or(other) => Some(other),
            Name::Only(key) => {
                let key = key.name();
                return length(self.config, key)?.ok_or_else(|| missing(key));
            }
            Name::Absent => {
                return Err(self.unsupported(
                    "this rope_type fails in the model's own code, which has no context",
                ));
            }
            _ => None,
        };
        let usual = length(self.config, key)?;
        let own = match other {
            Some(other) => length(self.config, other.name())?,
            None => None,
        };
        match (usual, own, other) {
            // The order in which the class reads them determines which of them counts.
            (Some(usual), Some(own), Some(other)) if usual != own => Err(Error::Ambiguous {
                key,
                choices: beginning(other.name()),
            }
            .into()),
            _ => {
                let of_class = self.sizes.context;
                let default =
                    (of_class > 0 && !self.config.contains_key(key)).then_some(of_class.into());
                usual.or(own).or(default).ok_or_else(|| missing(key))
            }
        }
    }

    /// Returns the context of the original training; a key beside the parameters overrides the one inside.
    fn original(&self, rope: &Object) -> Result<u64> {
        let key = "original_max_position_embeddings";
        let default = match self.row.rope_types {
            RopeTypes::LongRope(original) | RopeTypes::SuOrYarn(original) => Some(original.into()),
            _ => None,
        };
        let beside = match self.parameters.by_layer {
            true => None,
            false => length(self.config, key)?.or(default),
        };
        match (length(rope, key)?, beside) {
            (inside, Some(beside)) => {
                if let (Some(inside), Some(value)) = (inside, rope.get(key)) {
                    self.notes.inside(key, value, inside == beside, "");
                }
                Ok(beside)
            }
            (Some(original), None) => Ok(original),
            (None, None) => self.context(),
        }
    }

    fn stretch(&self, rope: &Object) -> Result<f64> {
        match number(rope, "factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.context()? as f64 / self.original(rope)? as f64),
        }
    }

    /// Notes the parameters that the type of scaling does not read.
    #[inline(never)]
    fn check_read(&self, rope: &Object, scaling: &str) {
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
    fn is_plain(&self, value: &Value) -> bool {
        match value.as_str() {
            Some("default") => true,
            Some("mrope") => self.row.rope_types == RopeTypes::Mrope,
            Some("axial") => self.row.rope_types == RopeTypes::Images,
            _ => false,
        }
    }

    /// Notes keys about the rotation that this model does not read: beside the parameters, in a parameter set that does
    /// not count, and above the part.
    fn check_beside(&self, facts: &Facts<'_>) -> Result<()> {
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
                let mut path = path.clone();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                let neutral = match value {
                    Value::Object(set) if words::has(SETS, key) => {
                        if fails_above(object, set) {
                            return Err(self.unsupported(
                                "rope parameters beside this part fail in the model's own code",
                            ));
                        }
                        self.set_agrees(facts, set)?
                    }
                    Value::Object(_) => continue,
                    _ if self.is_about(key) => self.agrees(facts, key, value)?,
                    _ => continue,
                };
                self.notes.note(path, value, neutral, "");
            }
        }
        Ok(())
    }

    /// Returns true if the part that is read is that object, or within it.
    fn is_within(&self, object: &Object) -> bool {
        let mut above = self.above.iter().map(|(_, own)| *own);
        core::ptr::eq(object, self.config) || above.any(|own| core::ptr::eq(own, object))
    }

    /// Returns true if a parameter set that does not count agrees with the code.
    fn set_agrees(&self, facts: &Facts<'_>, set: &Object) -> Result<bool> {
        for (key, value) in set.iter() {
            let neutral = match key {
                "rope_type" | "type" => {
                    value.as_str() == Some(facts.scaling)
                        || facts.scaling == "default" && self.is_plain(value)
                }
                "rope_theta" | "partial_rotary_factor" => self.agrees(facts, key, value)?,
                _ => {
                    let read = words::has(keys_read(facts.scaling), key);
                    is_neutral(key, value)
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
    fn agrees(&self, facts: &Facts<'_>, key: &str, value: &Value) -> Result<bool> {
        let interleaved = self.pairing().0 == Pairing::Interleaved;
        let number = value.as_f64();
        let is = |names| words::has(names, key);
        let idle = |(idle, own): (Key, u16)| idle.name() == key && number == Some(own.into());
        if value.is_null() || self.row.idle.is_some_and(idle) {
            return Ok(true);
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
            if is("rope_theta rotary_emb_base rotary_embedding_base rope_base global_rope_theta") {
                number == Some(base_of(FULL)?.unwrap_or(facts.base))
            } else if is("rope_local_base_freq local_rope_theta swa_rope_theta") {
                number == Some(base_of(SLIDING)?.unwrap_or(facts.base))
            } else if is("layer_rope_theta") {
                all(facts.base)
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
    fn is_about(&self, key: &str) -> bool {
        !words::has(OF_OTHERS, key)
            && (words::any_within(ROTARY, key)
                || [PARTS, OF_SOME, SETS]
                    .iter()
                    .any(|list| words::has(list, key)))
    }

    /// Returns the meaning of an unread key about the rotation: itself, or a key that is read and differs by at most
    /// two letters.
    fn meaning<'k>(&self, key: &'k str, read: &[&'static str]) -> Option<&'k str>
    where
        'static: 'k,
    {
        if words::has(OF_OTHERS, key) {
            return None;
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
    fn read_keys(&self) -> Vec<&'static str> {
        let row = self.row;
        let mut named: [Option<Key>; 9] = [None; 9];
        if let Part::Factor(key, _) | Part::Count(key, _) = row.part {
            named[0] = Some(key);
        }
        if let Base::KeyOr(key, _) | Base::Times(key, _) = row.base {
            named[1] = Some(key);
        }
        if let Some(Base::KeyOr(key, _)) = self.base_of_windows() {
            named[2] = Some(key);
        }
        if let Rotates::ByBase(key) | Rotates::Nonzero(key) | Rotates::Except(key, _) = row.rotates
        {
            named[3] = Some(key);
        }
        if let Condition::If(key, _)
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
        read
    }
}

/// The values that determine the result for a type of layers.
struct Facts<'r> {
    rope: &'r Object,
    scaling: &'r str,
    base: f64,
    head_dim: usize,
    rotary_dim: usize,
}

/// Returns true if a composite's code fails on its own rope parameters, which it checks and does not use.
fn fails_above(above: &Object, set: &Object) -> bool {
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

/// The name of the required choice if two lengths give different results.
const LENGTH: &str = "the length of the sequence (Config::with_length)";

/// A length beyond every context.
const LONG: u64 = 1 << 40;

/// Parses the number of a layer as Python does.
fn layer_number(name: &str) -> Option<usize> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|_| digits)
}

/// Returns true if a value has no meaning by itself under that key.
fn is_neutral(key: &str, value: &Value) -> bool {
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

/// The keys of parameter sets.
const SETS: &str = "rope_scaling rope_parameters";

/// Keys of the shape, beside the parameters, that the code of all classes reads, by this name or another.
const READ_BY_ALL: &str = "hidden_size num_attention_heads num_hidden_layers head_dim max_position_embeddings \
    original_max_position_embeddings layer_types";

/// Keys that the code of most classes reads once for all layers.
const READ_ONCE: &str = "head_dim hidden_size max_position_embeddings original_max_position_embeddings layer_types \
    qk_rope_head_dim qk_nope_head_dim num_hidden_layers";

/// Keys of the rotated part of a head.
const PARTS: &str =
    "rotary_emb_fraction rope_pct rope_percent rotary_pct rotary_percent partial_rotary_factor";

/// Switches of the whole rotation.
const SWITCHES: &str = "rotary use_rope use_rotary use_rotary_emb use_rotary_embedding use_rotary_embeddings \
    use_rotary_pos_emb use_rotary_position_embeddings";

/// Keys that other models read, and that have no meaning without their code.
const OF_SOME: &str = "rope_local_base_freq local_rope_theta global_rope_theta compress_rope_theta swa_rope_theta \
    layer_rope_theta no_rope_layers no_rope_layer_interval rope_scaling_layers partial_rotary_factors use_mem_rope \
    rotary_value global_head_dim kv_channels mrope_section xdrope_section alibi use_alibi use_dynamic_ntk \
    position_encoding_2d position_embedding_type position_embeddings_type";

/// Parts of the names of keys about a rotation.
const ROTARY: &str = "rope rotary theta";

/// Keys whose names resemble those of the rotation, with another meaning.
const OF_OTHERS: &str = "original_rope indexer_rope_interleave relation_bias_theta memory_attention_rope_feat_sizes \
    memory_attention_rope_k_sizes memory_attention_rope_dropout v_head_dim";

/// Returns the first Qwen's alpha: 1 within the context, and one less than a power of two beyond it.
fn growing_alpha(length: f64, context: f64) -> f64 {
    let mut power = 1.0;
    while power * context < length {
        power *= 2.0;
    }
    2.0 * power - 1.0
}

fn even(rotary_dim: usize, head_dim: usize) -> Result<usize> {
    match rotary_dim {
        2.. if rotary_dim.is_multiple_of(2) && rotary_dim <= head_dim => Ok(rotary_dim),
        _ => Err(Error::Rope(rope_core::Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even, above 0, and not above head_dim",
        }))
        .into()),
    }
}

/// The known types of scaling, also for an error.
const TYPES: &str = "default, linear, dynamic, yarn, longrope, llama3, proportional";

fn known_type(name: &str) -> Result<&str> {
    if words::has(TYPES, name) {
        return Ok(name);
    }
    Err(Error::Unknown {
        key: "rope_type".into(),
        value: beginning(name),
        known: TYPES,
    }
    .into())
}

/// Computes `int(dim * partial)`, with the product rounded to f64 as in the models' code.
fn part_of(dim: usize, partial: f64) -> Result<usize> {
    let product = positive("partial_rotary_factor", partial)? * dim as f64;
    match product < 4_294_967_296.0 {
        true => Ok(product as usize),
        false => Err(out_of_range(
            "partial_rotary_factor",
            format_args!("{partial:?}"),
            "at most 1",
        )),
    }
}

/// Computes the frequencies over given axes, from the base and the scaling of a file of an unknown model.
pub(crate) fn over(
    place: &Place<'_>,
    layer_type: Option<&str>,
    sequence: Option<u64>,
    axes: Axes<'_>,
    notes: Notes<'_>,
) -> Result<Frequencies<'static>> {
    let (row, config) = (HALF, place.object());
    let parameters = Parameters::read(config, "unknown", &row, &notes)?;
    let reading = Reading {
        config,
        name: "unknown",
        row,
        parameters,
        sizes: Sizes::default(),
        length: sequence,
        above: Vec::new(),
        notes,
    };
    let before = reading.notes.so_far();
    reading.notes.settle(before, || {
        let rope = reading
            .parameters
            .of(layer_type)?
            .ok_or_else(|| missing("the parameters of a type of layers"))?;
        let base = reading
            .inside_or_beside(rope, "rope_theta", "rope_theta")?
            .ok_or_else(|| missing("rope_theta"))?;
        let name = match rope_type(rope)? {
            "su" => "longrope",
            "mrope" | "axial" => "default",
            other => other,
        };
        known_type(name)?;
        reading.check_read(rope, name);
        reading.by_length(name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = reading.scaling(name, rope, length, &mut lists)?;
            Ok(Frequencies::new(axes, base, &scaling)?)
        })
    })
}
