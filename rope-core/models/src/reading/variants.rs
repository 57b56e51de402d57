//! The differences between a model's layers: whether one rotates, and by which parameters.

use super::Reading;
use super::layer_types::SLIDING;
use super::parameters::rope_type;
use super::rules::{PREFIX_PATTERN, count_or_none};
use crate::base::error::{Error, Refusal, Result, beginning, count_of, missing};
use crate::base::json::{Object, count, flag, given, invalid, numbers, object};
use crate::base::words;
use crate::types::{Head, Key, Latent, Rotates};

/// The key of the changes of single layers, by number.
pub(super) const PER_LAYER: &str = "per_layer_config";

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
    pub(super) own: Option<&'c Object>,
    /// The base, if each layer has its own.
    pub(super) base: Option<f64>,
    /// True if the scaling is omitted.
    pub(super) unscaled: bool,
}

/// The values that determine the result for a type of layers.
pub(super) struct Facts<'r> {
    pub(super) rope: &'r Object,
    pub(super) scaling: &'r str,
    pub(super) base: f64,
    pub(super) head_dim: usize,
    pub(super) rotary_dim: usize,
}

impl<'c> Reading<'c> {
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
    pub(super) fn config_by_layer(&self) -> Result<Option<&'c Object>> {
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
    pub(super) fn check_numbers(&self) -> Result<()> {
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
    pub(super) fn own_keys(&self, all: &'c Object, index: usize) -> Option<&'c Object> {
        let own = all
            .iter()
            .filter(|(name, _)| layer_number(name) == Some(index));
        own.last()?.1.as_object()
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
