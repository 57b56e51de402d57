//! Reads a configuration by its row of the table: for a type of layers (or one layer), its rotation or none.

use crate::children;
use crate::config::Place;
use crate::error::{Error, Refusal, Result, beginning, missing, positive, still, unsupported};
use crate::ignored::Notes;
use crate::json::{Object, Value, count, flag, given, invalid, number, numbers, object};
use crate::layers::{PREFIX_PATTERN, Rotation, count_of, count_or_none, kinds};
use crate::parameters::{FULL, Parameters, SLIDING, rope_type};
use crate::types::*;
use crate::words;
use alloc::string::String;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::{Direction, Frequencies, Pairing, Scaling};

mod patterns;
mod scaling;
mod shape;
mod unread;

use scaling::known_type;
use unread::Facts;
pub(crate) use unread::{FAILS_ABOVE, fails_above};

/// A configuration, the row of its model type, and the caller's choices.
pub(crate) struct Reading<'c> {
    pub(crate) config: &'c Object,
    /// The model type.
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) parameters: Parameters,
    sizes: Sizes,
    choices: Choices,
    /// The objects above the part that is read, with their paths.
    above: Vec<(String, &'c Object)>,
    /// The objects that no class reads, with their paths.
    unread: Vec<(String, &'c Object)>,
    pub(crate) notes: Notes<'c>,
}

/// The caller's choices, and what they mean for the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Choices {
    /// The length of the sequence.
    pub(crate) length: Option<u64>,
    /// The caller overrides the file's `model_type`.
    pub(crate) other_type: bool,
    /// The file omits the part that is read.
    pub(crate) omitted: bool,
}

/// The key of the changes of single layers, by number.
const PER_LAYER: &str = "per_layer_config";

/// The heads of layers with a window where a file of [`Latent::OfWindows`] has no `swa_num_attention_heads`.
const HEADS_OF_WINDOWS: usize = 64;

/// The types of `rope_parameters` without `rope_theta` that [`Form::New`] does not complete by the key beside them.
const NOT_COMPLETED: [&str; 3] = ["default", "llama3", "proportional"];

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
        choices: Choices,
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
            Condition::IfOrOmitted(key, wanted) => {
                let found = config.get(key.name());
                found.is_none_or(|found| found.as_str() == Some(wanted.name()))
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
            choices,
            above,
            unread: children::unread(place),
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
                Some(list) if list.len() == layers => match list[index].as_str() {
                    Some("dense") => Ok(true),
                    Some("sparse") => Ok(false),
                    _ => Err(invalid(key, &list[index], "a list of dense and sparse")),
                },
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
            let near = match (inside, given(self.config, "rope_scaling")) {
                ("rope_theta", Some(_)) => "rope_scaling.rope_theta",
                ("rope_theta", None) => "rope_parameters.rope_theta",
                (_, Some(_)) => "rope_scaling.partial_rotary_factor",
                (_, None) => "rope_parameters.partial_rotary_factor",
            };
            self.notes.beside(beside, value, neutral, near);
        }
        Ok(own.or(other))
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
            // Where `rope_parameters` is in the file, this class completes only the parameters of some scalings.
            Base::Or(_)
                if matches!(self.row.parameters, Form::New)
                    && self.config.contains_key("rope_parameters")
                    && (rope.is_empty() || NOT_COMPLETED.contains(&rope_type(rope)?))
                    && number(rope, inside)?.is_none() =>
            {
                return Err(self.unsupported(
                    "rope_parameters without rope_theta fail in the model's own code",
                ));
            }
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
            // `rope_theta` of the file is that of the other layers.
            Base::KeyOrMain(key) => match number(self.config, key.name())? {
                Some(base) => return Ok(base),
                None => return self.base(rope, None),
            },
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
            ("default", RopeTypes::Telechat) => "growing scale",
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
            RopeTypes::Bailing => words::has("default linear dynamic yarn", scaling_name),
            RopeTypes::Telechat => scaling_name == "growing scale",
            RopeTypes::Usual
            | RopeTypes::Mrope
            | RopeTypes::Alpha
            | RopeTypes::AlphaAlone
            | RopeTypes::Unscaled
            | RopeTypes::DeepseekYarn
            | RopeTypes::GrowingAlpha => true,
        };
        let unset = row.head == Head::Unset && !self.config.contains_key("head_dim");
        if !known
            || unset && words::has("dynamic yarn longrope", scaling_name)
            || scaling_name == "longrope" && self.heads_differ()?
        {
            return Err(self.unsupported("this rope_type fails in the model's own code"));
        }
        let sections = "mrope_section";
        // Only the parameters of the class have the sections that this class requires.
        if matches!(row.axes, AxesOf::MropeInterleaved(_))
            && row.rope_types == RopeTypes::Default
            && self.parameters.in_file
            && given(rope, sections).is_none()
        {
            return Err(missing(sections));
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
        let axes = crate::axes::Arrangement::new(row.axes, self.config, rope, rotary_dim)?;
        let frequencies = self.by_length(scaling_name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = match row.turns {
                true => Scaling::Turns,
                false => self.scaling(scaling_name, rope, length, &mut lists)?,
            };
            let frequencies = axes.frequencies(base, &scaling)?;
            let frequencies = match row.rope_types {
                RopeTypes::Telechat => {
                    frequencies.with_attention_factor(self.growing_scale(length)?)?
                }
                _ => frequencies,
            };
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
            real_positions: row.turns,
        })
    }

    /// Returns true if layers have other numbers of heads than the file, in a class that then fails on LongRoPE: its
    /// check reads one number for all layers.
    #[inline(never)]
    fn heads_differ(&self) -> Result<bool> {
        let Head::Latent {
            quirk: Latent::OfWindows,
            ..
        } = self.row.head
        else {
            return Ok(false);
        };
        let key = "num_attention_heads";
        let heads = self.dimension(key, self.row.heads, self.sizes.heads.into())?;
        if let Some(all) = object(self.config, PER_LAYER)? {
            let mut own = all.values().filter_map(|own| own.as_object()?.get(key));
            return Ok(own.any(|own| own.as_u64() != heads.map(|heads| heads as u64)));
        }
        let of_windows = count(self.config, "swa_num_attention_heads")?.unwrap_or(HEADS_OF_WINDOWS);
        Ok(heads != Some(of_windows) && self.kinds()?.contains(&SLIDING))
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
}

/// Parses the number of a layer as Python does.
fn layer_number(name: &str) -> Option<usize> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|_| digits)
}

/// Keys that the code of most classes reads once for all layers.
const READ_ONCE: &str = "head_dim hidden_size max_position_embeddings original_max_position_embeddings layer_types \
    qk_rope_head_dim qk_nope_head_dim num_hidden_layers";

/// Computes the frequencies over given axes, from the base and the scaling of a file of an unknown model.
pub(crate) fn over(
    place: &Place<'_>,
    layer_type: Option<&str>,
    sequence: Option<u64>,
    axes: Axes<'_>,
    notes: Notes<'_>,
) -> Result<Frequencies<'static>> {
    let (row, config) = (HALF, place.object());
    let mut above = place.objects();
    above.pop();
    let parameters = Parameters::read(config, "unknown", &row, &notes)?;
    let reading = Reading {
        config,
        name: "unknown",
        row,
        parameters,
        sizes: Sizes::default(),
        choices: Choices {
            length: sequence,
            ..Choices::default()
        },
        above,
        unread: children::unread(place),
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
        reading.check_unknown(rope, name, base)?;
        reading.by_length(name, &mut |length| {
            let mut lists = (Vec::new(), Vec::new());
            let scaling = reading.scaling(name, rope, length, &mut lists)?;
            Ok(Frequencies::new(axes, base, &scaling)?)
        })
    })
}
