//! One configuration read by one row of the table: for a type of layers (or one layer) its rotation, or none.

use crate::error::{
    Error, Refusal, Result, beginning, missing, must_be, out_of_range, positive, unread,
    unsupported,
};
use crate::json::{Object, Value, count, flag, given, invalid, length, number, numbers, object};
use crate::layers::{PREFIX_PATTERN, Rotation, count_of, count_or_none, kinds};
use crate::parameters::{FULL, Parameters, SLIDING, check_read, inside_or_beside, rope_type};
use crate::types::*;
use crate::words;
use alloc::string::ToString;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::{Direction, Frequencies, LongRope, Pairing, Scaling, Yarn};

/// A configuration, the row of its model type, and what the caller chose.
pub(crate) struct Reading<'c> {
    pub(crate) config: &'c Object,
    /// The model type.
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    pub(crate) parameters: Parameters,
    length: Option<u64>,
}

/// What single layers change, by their numbers.
const PER_LAYER: &str = "per_layer_config";

/// The entry of a layer in a list with one for each.
fn entry(key: Key, list: &[f64], index: usize) -> Result<f64> {
    let own = list.get(index).copied();
    own.ok_or_else(|| count_of(key.name(), list.len(), index + 1))
}

/// What makes the rotation of one layer another than that of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LayerVariant<'k, 'c> {
    /// The type of the layer, where parameters or heads depend on it.
    pub(crate) kind: Option<&'k str>,
    /// The keys that `per_layer_config` has for the layer, where heads depend on it.
    own: Option<&'c Object>,
    /// The base, where each layer has its own.
    base: Option<f64>,
    /// Whether the scaling is left out.
    unscaled: bool,
}

impl<'c> Reading<'c> {
    pub(crate) fn new(
        config: &'c Object,
        name: &'static str,
        row: Row,
        length: Option<u64>,
    ) -> Result<Self> {
        let rotates = match row.condition {
            Condition::Always => true,
            Condition::If(key, wanted) => {
                let found = given(config, key.name()).and_then(Value::as_str);
                found == Some(wanted.name())
            }
            Condition::IfTrue(key) => flag(config, key.name())? == Some(true),
            Condition::Unless(key) => flag(config, key.name())? != Some(true),
        };
        if !rotates {
            return Err(unsupported(
                name,
                "it rotates with another choice of its configuration only, and not with this one",
            ));
        }
        let types = "layer_types";
        if matches!(row.layers, LayerTypes::Needed) && given(config, types).is_none() {
            return Err(missing(types));
        }
        let parameters = Parameters::read(config, &row)?;
        let reading = Self {
            config,
            name,
            row,
            parameters,
            length,
        };
        reading.check_numbers()?;
        Ok(reading)
    }

    fn unsupported(&self, what: &'static str) -> Refusal {
        unsupported(self.name, what)
    }

    /// Of a partial rotation that the class has no code for.
    fn fails(&self) -> Refusal {
        self.unsupported("this partial rotation fails in the model's own code")
    }

    /// The rotation of the layers of that type, or of the layer with that index; `None` if they stand still.
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
                    // The code looks only whether the number is zero.
                    let rope = self.parameters.of(None)?;
                    let rope = rope.ok_or_else(|| missing(key_name))?;
                    if self.base(rope, None)? != own {
                        return Err(unread(key_name));
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
            Some(all) => self.own_keys(all, by_number()?.0)?,
            None => None,
        };
        Ok(Some(LayerVariant {
            kind: kind.filter(|_| matters),
            own,
            base,
            unscaled,
        }))
    }

    /// Whether a layer of Cohere's is dense, and all dense ones rotate.
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

    /// Whether the layer with that number rotates, for models that name the layers without rotation.
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

    /// Whether layers differ by more than their type, so that only a layer's number tells its rotation.
    pub(crate) fn by_number(&self) -> bool {
        let by_type = [
            Rotates::All,
            Rotates::Sliding,
            Rotates::SlidingOrAll,
            Rotates::Parametrized,
        ];
        !by_type.contains(&self.row.rotates)
            || self.row.scaled_layers.is_some()
            || matches!(self.config_by_layer(), Ok(Some(_)))
    }

    /// What single layers change, where their heads may depend on it: `save_pretrained` writes the layers that differ.
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

    /// Refuses what stands there under anything but a layer's number.
    fn check_numbers(&self) -> Result<()> {
        let Some(all) = self.config_by_layer()? else {
            return Ok(());
        };
        for (name, _) in all.iter() {
            let number = name.parse::<usize>().map(|number| number.to_string());
            if number.as_deref() != Ok(name) {
                return Err(Error::Invalid {
                    key: PER_LAYER.into(),
                    value: beginning(name),
                    required: "an object for each layer, by its number",
                }
                .into());
            }
        }
        Ok(())
    }

    /// The keys that stand there for one layer.
    fn own_keys(&self, all: &'c Object, index: usize) -> Result<Option<&'c Object>> {
        let Some(own) = all.get(&index.to_string()) else {
            return Ok(None);
        };
        let own = own
            .as_object()
            .ok_or_else(|| invalid(PER_LAYER, own, "an object for each layer"))?;
        let sounds = |key: &str| words::any_within(ROTARY, key) && key != "qk_rope_head_dim";
        match own.iter().find(|(key, _)| sounds(key)) {
            Some((key, _)) => Err(unread(key)),
            None => Ok(Some(own)),
        }
    }

    /// The types of the layers, in their order; empty if the model has no types of layers.
    pub(crate) fn kinds(&self) -> Result<Vec<&'c str>> {
        kinds(self)
    }

    /// How many layers there are.
    pub(crate) fn layer_count(&self) -> Result<Option<usize>> {
        self.dimension("num_hidden_layers", self.row.depth)
    }

    /// The same, or as many as the file has types for.
    pub(crate) fn layers(&self, kinds: &[&str]) -> Result<usize> {
        match self.layer_count()? {
            Some(layers) => Ok(layers),
            None if kinds.is_empty() => Err(missing("num_hidden_layers")),
            None => Ok(kinds.len()),
        }
    }

    /// A number of the model's shape, by its usual key or by the one that this class calls it.
    #[inline(never)]
    fn dimension(&self, usual: &'static str, name: Name) -> Result<Option<usize>> {
        let (other, times) = match name {
            Name::Usual => return count(self.config, usual),
            Name::Only(key) => return count(self.config, key.name()),
            Name::Absent => return Ok(None),
            Name::Or(key) => (key, 1),
            Name::Twice(key) => (key, 2),
        };
        let own = count(self.config, other.name())?.map(|own| own.saturating_mul(times));
        match (count(self.config, usual)?, own) {
            (Some(usual_one), Some(own)) if usual_one != own => Err(Error::Ambiguous {
                key: usual,
                choices: beginning(other.name()),
            }
            .into()),
            (usual, own) => Ok(own.or(usual.map(|usual| usual / times * times))),
        }
    }

    fn heads(&self) -> Result<usize> {
        let key = "num_attention_heads";
        self.dimension(key, self.row.heads)?
            .ok_or_else(|| missing(key))
    }

    #[inline(never)]
    fn width_over_heads(&self) -> Result<usize> {
        let key = "hidden_size";
        let width = self.dimension(key, self.row.width)?;
        let width = width.ok_or_else(|| missing(key))?;
        let heads = self.heads()?;
        // The models' code divides and rounds down, or refuses; no published model has a rest.
        if width % heads != 0 {
            return Err(out_of_range(
                key,
                format_args!("{width}"),
                "a multiple of num_attention_heads where head_dim is not given",
            ));
        }
        Ok(width / heads)
    }

    /// The rotating and the other channels of multi-head latent attention.
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
        if renamed.is_some() && own.is_some() && own != renamed {
            return Err(unread(key));
        }
        let rotating = own.or(renamed).unwrap_or(rotating.into());
        let still = of_layer("qk_nope_head_dim")?.unwrap_or(still.into());
        Ok(Some((rotating, still)))
    }

    /// The channels of a head that the rotary part of the code goes by, and those that are left before the window.
    pub(crate) fn head_dim(&self, kind: Option<&str>, layer: Option<&Object>) -> Result<usize> {
        if let Some((rotating, _)) = self.latent(kind, layer)? {
            return Ok(rotating);
        }
        let own = count(self.config, "head_dim");
        let (own, default) = match self.row.head {
            Head::Memory => return self.memory_head(),
            Head::Quotient => return self.quotient(own?, 1),
            Head::TwiceQuotient => return self.quotient(own?, 2),
            // Gemma 4's full-attention layers have heads of another size, which is a key of the file, or of the layer.
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
            // A null is no number of channels, and no width over heads.
            Head::KeyOr(key, default) => {
                let key = key.name();
                return match (self.config.contains_key(key), own?) {
                    (true, own) => {
                        let made = count(self.config, key)?;
                        Self::only(made.ok_or_else(|| missing(key))?, own)
                    }
                    // To some of these the usual key is another name of theirs.
                    (false, Some(own)) if own != usize::from(default) => Err(missing(key)),
                    (false, _) => Ok(default.into()),
                };
            }
            Head::Given => return own?.ok_or_else(|| missing("head_dim")),
            Head::Usual | Head::Latent { .. } => (own?, None),
        };
        // A null is not an omission.
        let omitted = !self.config.contains_key("head_dim");
        match own.or(default.filter(|_| omitted).map(usize::from)) {
            Some(dim) => Ok(dim),
            None => self.width_over_heads(),
        }
    }

    /// The width over the heads, which a `head_dim` of the file does not change.
    fn quotient(&self, own: Option<usize>, times: usize) -> Result<usize> {
        Self::only(times * self.width_over_heads()?, own)
    }

    /// The channels of a head where a `head_dim` of the file may say the same, and nothing else.
    fn only(made: usize, own: Option<usize>) -> Result<usize> {
        match own {
            Some(own) if own != made => Err(unread("head_dim")),
            _ => Ok(made),
        }
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

    /// The part of the head that the file asks to rotate, whether or not the code obeys it; `None` if it says nothing.
    #[inline(never)]
    fn partial(&self, rope: &Object, head_dim: usize) -> Result<Option<f64>> {
        let inside = "partial_rotary_factor";
        let partial = match self.row.part {
            Part::Factor(key, _) => inside_or_beside(rope, inside, self.config, key.name())?,
            Part::Count(key, _) => match (number(rope, inside)?, count(self.config, key.name())?) {
                (Some(inside), _) => Some(inside),
                (None, Some(dim)) => Some(dim as f64 / head_dim as f64),
                (None, None) => number(self.config, inside)?,
            },
            Part::Inside(_) | Part::Unscaled(_) => number(rope, inside)?,
            Part::Channels(_) | Part::Clvp => inside_or_beside(rope, inside, self.config, inside)?,
        };
        // The class puts it into its own parameters, and not into those that `rope_scaling` replaces them by.
        let replaced = given(self.config, "rope_scaling")
            .and_then(Value::as_object)
            .is_some_and(|old| !old.is_empty());
        let whole = match (self.both_parts() && !replaced, self.latent(None, None)?) {
            (true, Some((rotating, rest))) => Some(rotating as f64 / (rotating + rest) as f64),
            _ => None,
        };
        Ok(partial.or(whole))
    }

    /// The part of the head in a file that does not say it.
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

    /// Whether the parameters of latent attention speak of both parts of its heads.
    fn both_parts(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::FactorOfBoth,
                ..
            }
        )
    }

    /// Whether layers with a window have latent attention of another shape.
    fn of_windows(&self) -> bool {
        matches!(
            self.row.head,
            Head::Latent {
                quirk: Latent::OfWindows,
                ..
            }
        )
    }

    /// How many channels of the head rotate.
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
            // The class puts the part that its keys make into the parameters, whatever stands there.
            _ if self.of_windows() => {
                return match rope_type(rope)? {
                    "proportional" => Err(self.fails()),
                    _ => even(head_dim, head_dim),
                };
            }
            _ => {}
        }
        // Some count the other channels of latent attention among the head's, and undo it by the partial factor.
        let whole = match self.latent(None, None)? {
            Some((rotating, rest)) if self.both_parts() => rotating + rest,
            _ => head_dim,
        };
        let partial = self.partial(rope, head_dim)?;
        let asked = part_of(whole, partial.unwrap_or(self.usual_part(scaled)))?;
        if self.both_parts() && asked != head_dim {
            return Err(match partial {
                Some(_) => unread("partial_rotary_factor"),
                None => self.fails(),
            });
        }
        let made = match (rope_type(rope)?, scaled || self.row.obeys) {
            ("proportional", _) => whole,
            (_, true) => asked,
            (_, false) => whole,
        };
        // A factor that the code does not obey has to say what it does.
        if made != asked && !scaled {
            return Err(unread("partial_rotary_factor"));
        }
        let fits = match self.row.window {
            Window::Part | Window::End => made <= head_dim,
            Window::ExactPart => made == asked,
            Window::Whole | Window::Halves => made == head_dim,
        };
        if !fits {
            return Err(self.fails());
        }
        even(made, head_dim)
    }

    /// The base of layers with a window, where they have one of their own in this file.
    fn base_of_windows(&self) -> Option<Base> {
        match self.row.parameters {
            Form::OfWindows(_) if self.parameters.in_file => None,
            Form::Older(base) | Form::OlderAllScaled(base) | Form::OfWindows(base) => Some(base),
            _ => None,
        }
    }

    /// The base of that type of layers.
    #[inline(never)]
    fn base(&self, rope: &Object, kind: Option<&str>) -> Result<f64> {
        let base = match self.base_of_windows() {
            Some(base) if kind == Some(SLIDING) => base,
            _ => self.row.base,
        };
        let inside = "rope_theta";
        let (found, default) = match base {
            Base::Or(base) => (inside_or_beside(rope, inside, self.config, inside)?, base),
            Base::KeyOr(key, base) => (
                inside_or_beside(rope, inside, self.config, key.name())?,
                base,
            ),
            Base::InsideOr(base) => (number(rope, inside)?, base),
            Base::Inside => {
                // One beside them is in no use, and may say the same.
                inside_or_beside(rope, inside, self.config, inside)?;
                return number(rope, inside)?.ok_or_else(|| missing(inside));
            }
            Base::Times(key, base) => {
                let factor = number(self.config, key.name())?.unwrap_or(1.0);
                let factor = positive(key.name(), factor)?;
                (Some(f64::from(base) * factor), base)
            }
            Base::Fixed(base) => {
                if number(rope, inside)?.is_some_and(|own| own != f64::from(base)) {
                    return Err(unread(inside));
                }
                (None, base)
            }
        };
        Ok(found.unwrap_or(default.into()))
    }

    /// The rotation of the layers that differ in this.
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
            ("su" | "yarn", RopeTypes::LongRope(_)) => "longrope",
            ("deepseek_yarn", RopeTypes::DeepseekYarn) => "yarn",
            ("xdrope", _) if row.axes == AxesOf::ChannelSections => match number(rope, "alpha")? {
                Some(alpha) if alpha != 0.0 => "alpha",
                _ => "dynamic",
            },
            ("dynamic", RopeTypes::Alpha) if number(rope, "alpha")?.is_some_and(|a| a != 0.0) => {
                "alpha"
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
            RopeTypes::LongRope(_) | RopeTypes::PhiMoe => !scaled || scaling_name == "longrope",
            RopeTypes::Older => words::has("default linear dynamic", scaling_name),
            RopeTypes::Usual
            | RopeTypes::Mrope
            | RopeTypes::Alpha
            | RopeTypes::DeepseekYarn
            | RopeTypes::GrowingAlpha => true,
        };
        if !known {
            return Err(self.unsupported("this rope_type fails in the model's own code"));
        }
        if !layer.unscaled {
            check_read(rope, scaling_name, row)?;
        }
        let head_dim = self.head_dim(kind, layer.own)?;
        let rotary_dim = self.rotary_dim(rope, scaled, head_dim)?;
        let base = match layer.base {
            Some(base) => base,
            None => self.base(rope, kind)?,
        };
        self.check_beside(rope, base, rotary_dim)?;
        let mut lists = (Vec::new(), Vec::new());
        let scaling = match row.turns {
            true => Scaling::Turns,
            false => self.scaling(scaling_name, rope, &mut lists)?,
        };
        let axes = crate::axes::Arrangement::new(row.axes, rope, rotary_dim)?;
        let mut frequencies = axes.frequencies(base, &scaling)?;
        if !row.softmax {
            frequencies = frequencies.with_softmax_factor(1.0)?;
        }
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

    /// The scaling, its lists kept by the caller.
    fn scaling<'l>(
        &self,
        name: &str,
        rope: &Object,
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
                    growing_alpha(self.sequence()? as f64, context)
                },
            },
            "dynamic" => Scaling::DynamicNtk {
                factor: required("factor")?,
                max_position_embeddings: self.context()?,
                length: self.sequence()?,
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
                self.longrope(rope, lists)?
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

    fn longrope<'l>(&self, rope: &Object, lists: &'l (Vec<f64>, Vec<f64>)) -> Result<Scaling<'l>> {
        let (original_context, length) = (self.original(rope)?, self.sequence()?);
        let mut attention_factor = number(rope, "attention_factor")?;
        let (short_factor, mut long_factor) = (&lists.0[..], &lists.1[..]);
        if self.row.rope_types == RopeTypes::PhiMoe {
            // The class has a factor for each list, and takes the short list whatever the length.
            let key = match length > original_context {
                true => "long_mscale",
                false => "short_mscale",
            };
            attention_factor = Some(number(rope, key)?.ok_or_else(|| missing(key))?);
            long_factor = short_factor;
        }
        Ok(Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            original_context,
            length,
            factor: self.stretch(rope)?,
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
            // Which of them counts depends on when the class reads them.
            (Some(usual), Some(own), Some(other)) if usual != own => Err(Error::Ambiguous {
                key,
                choices: beginning(other.name()),
            }
            .into()),
            _ => usual.or(own).ok_or_else(|| missing(key)),
        }
    }

    fn sequence(&self) -> Result<u64> {
        self.length
            .ok_or_else(|| missing("the length of the sequence (Config::with_length)"))
    }

    /// The context of the original training; a key beside the parameters counts before the one inside.
    fn original(&self, rope: &Object) -> Result<u64> {
        let key = "original_max_position_embeddings";
        let default = match self.row.rope_types {
            RopeTypes::LongRope(original) => Some(original.into()),
            _ => None,
        };
        let beside = match self.parameters.by_layer {
            true => None,
            false => length(self.config, key)?.or(default),
        };
        match (length(rope, key)?, beside) {
            (Some(inside), Some(beside)) if inside != beside => {
                Err(must_be(key, "the same in the parameters and beside them"))
            }
            (Some(original), _) | (None, Some(original)) => Ok(original),
            (None, None) => self.context(),
        }
    }

    fn stretch(&self, rope: &Object) -> Result<f64> {
        match number(rope, "factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.context()? as f64 / self.original(rope)? as f64),
        }
    }

    /// Refuses keys beside the parameters that other models read and that this one does not, unless they say what
    /// counts without them.
    fn check_beside(&self, rope: &Object, base: f64, rotary_dim: usize) -> Result<()> {
        let interleaved = self.pairing().0 == Pairing::Interleaved;
        for (key, value) in self.config.iter().filter(|(_, value)| !value.is_null()) {
            let number = value.as_f64();
            let is = |names| words::has(names, key);
            let agrees = if is("rope_theta rotary_emb_base rotary_embedding_base rope_base") {
                number == Some(base)
            } else if is("attn_rotary_emb rotary_dim qk_rope_head_dim") {
                number == Some(rotary_dim as f64)
            } else if is(PARTS) {
                let head_dim = self.head_dim(None, None).unwrap_or(rotary_dim);
                let partial = self.partial(rope, head_dim)?;
                number.is_some_and(|part| {
                    part_of(head_dim, part).is_ok_and(|part| part == rotary_dim)
                        || partial == Some(part)
                })
            } else if is("alibi use_alibi use_dynamic_ntk position_encoding_2d") {
                value.as_bool() == Some(false)
            } else if is("rope_interleave rope_gptj rotary_emb_interleaved") {
                // The last two are GPT-J's pairing, in files of Cohere's and in its own.
                value.as_bool() == Some(interleaved)
            } else if key == "rotary" {
                // Whether GPT-J rotates at all.
                value.as_bool() == Some(true)
            } else if is("position_embedding_type position_embeddings_type") {
                match value.as_str() {
                    Some("rope" | "rotary") => true,
                    Some("rope_gptj") => interleaved,
                    _ => false,
                }
            } else if key == "rope_ratio" {
                number == Some(1.0)
            } else if key == "use_rope_layers" {
                value.as_array().is_some_and(<[Value]>::is_empty)
            } else {
                key == "original_rope" || !is(OF_SOME) && key_is_irrelevant(key)
            };
            if !agrees && !self.reads(key) {
                return Err(unread(key));
            }
        }
        Ok(())
    }

    /// Whether the code of this model reads that key.
    #[inline(never)]
    fn reads(&self, key: &str) -> bool {
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
        if let Condition::If(key, _) | Condition::IfTrue(key) | Condition::Unless(key) =
            row.condition
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
        named.into_iter().flatten().any(|named| named.name() == key)
            || match key {
                // Inside and beside have been compared.
                "rope_theta" => match row.parameters {
                    Form::ByLayerTypeOr(_) => !matches!(row.base, Base::InsideOr(_)),
                    _ => self.parameters.by_layer || matches!(row.base, Base::Or(_)),
                },
                "rotary_dim" => matches!(row.part, Part::Channels(_)),
                "use_dynamic_ntk" => row.rope_types == RopeTypes::GrowingAlpha,
                "rope_interleave" => row.pairs == Pairs::InterleavedToHalfOrHalf,
                "no_rope_layers" | "no_rope_layer_interval" => {
                    matches!(row.rotates, Rotates::ExceptEvery(_))
                }
                "global_head_dim" => matches!(row.head, Head::Global(..)),
                "compress_rope_theta" => matches!(row.parameters, Form::Compressed),
                "partial_rotary_factors" => matches!(row.parameters, Form::FirstLayers),
                "qk_rope_head_dim" | "swa_qk_rope_head_dim" => self.of_windows(),
                // zamba2 has both, and computes its heads itself.
                "kv_channels" => row.head == Head::TwiceQuotient,
                _ => false,
            }
    }
}

/// Keys of the part of a head that rotates.
const PARTS: &str =
    "rotary_emb_fraction rope_pct rope_percent rotary_pct rotary_percent partial_rotary_factor";

/// Keys that other models read, and that say nothing without their code.
const OF_SOME: &str = "rope_local_base_freq local_rope_theta global_rope_theta compress_rope_theta swa_rope_theta \
    layer_rope_theta no_rope_layers no_rope_layer_interval rope_scaling_layers partial_rotary_factors use_mem_rope \
    rotary_value global_head_dim kv_channels mrope_section xdrope_section";

/// What the names of keys about a rotation have in them.
const ROTARY: &str = "rope rotary theta";

/// Keys whose names sound like a rotation, and that say something else: the parameters themselves, which are read by
/// another rule, and the indexers of sparse attention. Every other key with such a name is refused.
fn key_is_irrelevant(key: &str) -> bool {
    let known = "rope_scaling rope_parameters rope_theta indexer_rope_interleave relation_bias_theta \
                 memory_attention_rope_feat_sizes memory_attention_rope_k_sizes memory_attention_rope_dropout";
    !words::any_within(ROTARY, key) || words::has(known, key)
}

/// The first Qwen's alpha: 1 within the context, and one less than a power of two from there on.
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
        _ => Err(Error::Rope(rope_core::Error::RotaryDim {
            rotary_dim,
            required: "even, above 0, and not above head_dim",
        })
        .into()),
    }
}

/// The types of scaling that are known, for a refusal too.
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

/// `int(dim * partial)`, the product rounded to a double as in the models' code.
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

/// The frequencies over given axes, from the base and the scaling of a file whose model is not known.
pub(crate) fn over(
    config: &Object,
    layer_type: Option<&str>,
    length: Option<u64>,
    axes: Axes<'_>,
) -> Result<Frequencies<'static>> {
    let row = HALF;
    let parameters = Parameters::read(config, &row)?;
    let reading = Reading {
        config,
        name: "unknown",
        row,
        parameters,
        length,
    };
    let rope = reading
        .parameters
        .of(layer_type)?
        .ok_or_else(|| missing("the parameters of a type of layers"))?;
    let base = inside_or_beside(rope, "rope_theta", config, "rope_theta")?
        .ok_or_else(|| missing("rope_theta"))?;
    let name = match rope_type(rope)? {
        "su" => "longrope",
        "mrope" | "axial" => "default",
        other => other,
    };
    known_type(name)?;
    check_read(rope, name, &row)?;
    let mut lists = (Vec::new(), Vec::new());
    let scaling = reading.scaling(name, rope, &mut lists)?;
    Ok(Frequencies::new(axes, base, &scaling)?)
}
