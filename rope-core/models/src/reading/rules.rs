//! The types of a model's layers: from the file, or by the rule of its class.

use super::Reading;
use super::layer_types::{FULL, INDEXED, SLIDING, in_file, no_such_kind, words_of};
use crate::base::error::{Result, count_of, missing, out_of_range};
use crate::base::json::{Object, Value, count, flag, given, length, numbers};
use crate::base::words;
use crate::types::{Form, Head, Key, LayerTypes, Rotates, When};
use alloc::vec::Vec;

impl<'c> Reading<'c> {
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
}

/// The most layers that a file may have.
const MOST: usize = 1 << 16;

/// Returns the types of the layers, from the file or by the rule of the class; empty if there is neither.
pub(crate) fn kinds<'c>(reading: &Reading<'c>) -> Result<Vec<&'c str>> {
    let count = reading.layer_count()?;
    if let Some(count) = count.filter(|&count| count > MOST) {
        let value = format_args!("{count}");
        return Err(out_of_range("num_hidden_layers", value, "at most 65536"));
    }
    let config = reading.config;
    if let Some(mut kinds) = in_file(config, words_of(reading.name))? {
        match reading.row.layers {
            LayerTypes::SparseOrWindow => {
                if let Some(full) = full_attention(config)? {
                    for kind in kinds.iter_mut().filter(|kind| **kind != SLIDING) {
                        if [FULL, INDEXED].contains(kind) {
                            *kind = full;
                        }
                    }
                }
            }
            // The list continues with the layers that predict further tokens.
            LayerTypes::Rules(_) if matches!(reading.row.parameters, Form::FirstLayers) => {
                let further = count_or_none(config, "num_nextn_predict_layers")?;
                if count.is_some_and(|count| kinds.len() == count + further) {
                    kinds.truncate(count.unwrap_or_default());
                }
            }
            _ => {}
        }
        if let Some(needed) = count.filter(|&count| count != kinds.len()) {
            return Err(count_of("layer_types", kinds.len(), needed));
        }
        // The code of these classes makes the last layer one of full attention.
        if let (Head::Global(..), Some(last)) = (reading.row.head, kinds.last_mut())
            && *last != FULL
        {
            *last = FULL;
            let list = given(config, "layer_types").or(given(config, "layers_block_type"));
            let list = list.unwrap_or(&Value::Null);
            reading.notes.beside("layer_types", list, false, "");
        }
        return Ok(kinds);
    }
    let mut made = Vec::new();
    if let Some(ratios) = numbers(config, "compress_ratios")?
        .filter(|_| matches!(reading.row.parameters, Form::Compressed))
    {
        let kind = |ratio: f64| match ratio {
            0.0 => Ok(SLIDING),
            4.0 => Ok("compressed_sparse_attention"),
            128.0 => Ok("heavily_compressed_attention"),
            _ => Err(out_of_range(
                "compress_ratios",
                format_args!("a list with {ratio}"),
                "a list of 0, 4 and 128",
            )),
        };
        for ratio in ratios.into_iter().take(count.unwrap_or(MOST)) {
            made.push(kind(ratio)?);
        }
        return Ok(made);
    }
    let Some(count) = count.filter(|_| !matches!(reading.row.layers, LayerTypes::Unknown)) else {
        return Ok(made);
    };
    for index in 0..count {
        made.push(by_rule(reading, index, count, None)?);
    }
    Ok(made)
}

/// Returns a number of layers that may be 0.
pub(crate) fn count_or_none(config: &Object, key: &'static str) -> Result<usize> {
    match length(config, key)? {
        None => Ok(0),
        Some(count) if count <= MOST as u64 => Ok(count as usize),
        Some(count) => Err(out_of_range(key, format_args!("{count}"), "at most 65536")),
    }
}

/// The key of the period of full attention in Cohere's dense first layers.
pub(crate) const PREFIX_PATTERN: &str = "prefix_dense_sliding_window_pattern";

/// Returns the meaning of full attention in dots3.note: an indexed one, unless `use_dsa` states otherwise. Files with
/// keys per layer are recent, and literal.
fn full_attention(config: &Object) -> Result<Option<&'static str>> {
    Ok(match flag(config, "use_dsa")? {
        Some(true) => Some(INDEXED),
        Some(false) => Some(FULL),
        None => (!config.contains_key("per_layer_config")).then_some(INDEXED),
    })
}

/// RecurrentGemma's types of blocks.
const BLOCK_TYPES: &str = "recurrent, attention";

/// Returns the type of one layer by the rules of its class, with the file's numbers or another number for one key.
#[inline(never)]
pub(crate) fn by_rule(
    reading: &Reading<'_>,
    index: usize,
    layers: usize,
    other: Option<(Key, usize)>,
) -> Result<&'static str> {
    let config = reading.config;
    let unknown = || missing("layer_types");
    let rules = match reading.row.layers {
        LayerTypes::Unknown | LayerTypes::Needed => return Err(unknown()),
        LayerTypes::Chunked => {
            return Ok(match reading.rotates_by_number(index)? {
                true => "chunked_attention",
                false => FULL,
            });
        }
        LayerTypes::Blocks => {
            let mut recurrent = Vec::new();
            match given(config, "block_types").and_then(Value::as_array) {
                Some(list) => {
                    for text in list.iter().filter_map(Value::as_str) {
                        if !words::has(BLOCK_TYPES, text) {
                            return Err(no_such_kind("block_types", text, BLOCK_TYPES));
                        }
                        recurrent.push(text == "recurrent");
                    }
                }
                None => recurrent.extend_from_slice(&[true, true, false]),
            }
            return Ok(match recurrent.get(index % recurrent.len().max(1)) {
                Some(true) => "linear_attention",
                _ => SLIDING,
            });
        }
        LayerTypes::Steps => {
            let step = count(config, "mamba_step")?.unwrap_or(2);
            if step < 2 {
                return Err(out_of_range(
                    "mamba_step",
                    format_args!("{step}"),
                    "at least 2",
                ));
            }
            let attends = match layers <= step / 2 {
                true => index + 1 == layers,
                false => index % step == step / 2,
            };
            if !attends && flag(config, "mamba_enabled")? != Some(false) {
                return Ok("linear_attention");
            }
            let full = numbers(config, "full_attention_idx")?.unwrap_or_default();
            return Ok(match full.contains(&(index as f64)) {
                true => FULL,
                false => SLIDING,
            });
        }
        LayerTypes::DensePrefix => {
            let dense = count_or_none(config, "first_k_dense_replace")?;
            let (place, key, pattern) = match index < dense {
                true => (index, PREFIX_PATTERN, 1),
                false => (index - dense, "sliding_window_pattern", 4),
            };
            let pattern = count(config, key)?.unwrap_or(pattern);
            return Ok(match (place + 1).is_multiple_of(pattern) {
                true => FULL,
                false => SLIDING,
            });
        }
        LayerTypes::SparseOrWindow => {
            let full = full_attention(config)?.unwrap_or(INDEXED);
            let windows = flag(config, "use_sliding_window")? != Some(false);
            return Ok(match windows && index >= 2 && index % 4 != 1 {
                true => SLIDING,
                false => full,
            });
        }
        LayerTypes::Listed(key, others, without) => {
            return Ok(match numbers(config, key.name())? {
                Some(list) if list.contains(&(index as f64)) => FULL,
                Some(_) => others.name(),
                None => without.name(),
            });
        }
        LayerTypes::Flags(key, flagged, others) => {
            let key = key.name();
            let list = numbers(config, key)?.ok_or_else(|| missing(key))?;
            return Ok(match list.get(index) {
                Some(1.0) => flagged.name(),
                Some(0.0) => others.name(),
                Some(flag) => {
                    let value = format_args!("a list with {flag}");
                    return Err(out_of_range(key, value, "a list of 0 and 1"));
                }
                None => return Err(count_of(key, list.len(), layers)),
            });
        }
        LayerTypes::Rules(rules) => rules,
    };
    for (kind, when) in rules {
        if holds_at(reading, *when, index, layers, other)? {
            return Ok(kind.name());
        }
    }
    Err(unknown())
}

/// Returns true if a rule applies to the layer with that index.
#[inline(never)]
fn holds_at(
    reading: &Reading<'_>,
    when: When,
    index: usize,
    layers: usize,
    other: Option<(Key, usize)>,
) -> Result<bool> {
    let by = |key: Key, period: u8| -> Result<usize> {
        if let Some((_, number)) = other.filter(|(own, _)| *own == key) {
            return Ok(number);
        }
        let without_window = reading
            .config
            .get("sliding_window")
            .is_some_and(Value::is_null);
        if key == Key::sliding_window_pattern
            && without_window
            && reading.row.rotates == Rotates::SlidingOrAll
        {
            // The code of these classes divides by zero.
            return Err(missing("layer_types"));
        }
        Ok(count(reading.config, key.name())?.unwrap_or(period.into()))
    };
    Ok(match when {
        When::Always => true,
        When::Every(period) => (index + 1).is_multiple_of(period.into()),
        When::EveryBy(key, period) => (index + 1).is_multiple_of(by(key, period)?),
        When::EveryFromEnd(period) => (layers - 1 - index).is_multiple_of(period.into()),
        When::Modulo(period, rest) => index % usize::from(period) == usize::from(rest),
        When::ModuloBy(key, period, rest) => index % by(key, period)? == usize::from(rest),
        When::First(layers) => index < usize::from(layers),
        When::Last => index + 1 == layers,
        When::In(list) => list.iter().any(|&own| usize::from(own) == index),
    })
}
