//! Keys that list the types of layers, or count them, and that the model's code does not read: whether its layers are
//! those that the key states.

use super::Reading;
use super::layer_types::{FULL, SLIDING};
use super::parameters::keys_read;
use super::rules::by_rule;
use super::variants::Facts;
use crate::base::error::Result;
use crate::base::json::{Value, given};
use crate::base::words;
use crate::model::has_attention;
use crate::types::{Key, LayerTypes, When};
use alloc::vec::Vec;

/// Keys about which layers rotate and how, under the names of several classes.
pub(super) const PATTERNS: &str =
    "hybrid_layer_pattern attn_type_list nope_layer_interval initial_context_length";

impl Reading<'_> {
    /// Returns the keys by which the class finds the types of layers, if the file does not list them.
    pub(super) fn keys_of_layers(&self) -> Vec<Key> {
        match self.row.layers {
            LayerTypes::Listed(key, ..) | LayerTypes::Flags(key, ..) => alloc::vec![key],
            LayerTypes::Rules(rules) => {
                let mut keys = Vec::new();
                for (_, when) in rules {
                    if let When::EveryBy(key, _) | When::ModuloBy(key, ..) = when
                        && !keys.contains(key)
                    {
                        keys.push(*key);
                    }
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if `layer_types` replaces this key of the class.
    pub(super) fn is_replaced(&self, key: &str) -> bool {
        given(self.config, "layer_types").is_some()
            && self.keys_of_layers().iter().any(|own| own.name() == key)
    }

    /// Returns true if the layers are those of such a key; `None` for another key.
    #[inline(never)]
    pub(super) fn pattern_agrees(
        &self,
        facts: &Facts<'_>,
        key: &str,
        value: &Value,
    ) -> Result<Option<bool>> {
        let mut own = self.keys_of_layers().into_iter();
        let own = own.find(|own| own.name() == key);
        if own.is_none() && !words::has(PATTERNS, key) {
            return Ok(None);
        }
        let kinds = self.kinds()?;
        let kind = |index: usize| kinds.get(index).copied().unwrap_or(FULL);
        let each = |is: &dyn Fn(usize, &Value) -> bool| {
            let list = value.as_array().unwrap_or_default();
            let whole = !list.is_empty() && list.len() >= kinds.len();
            let mut layers = list.iter().enumerate();
            // A list may go on with the layers that predict further tokens.
            let further = |index| !kinds.is_empty() && index >= kinds.len();
            whole && layers.all(|(index, own)| further(index) || is(index, own))
        };
        let flag = |own: &Value, is: bool| own.as_f64() == Some(f64::from(u8::from(is)));
        let number = value.as_f64();
        Ok(Some(match (key, own) {
            ("hybrid_layer_pattern", _) => each(&|index, own| flag(own, kind(index) == SLIDING)),
            ("attn_type_list", None) => each(&|index, own| flag(own, has_attention(kind(index)))),
            ("initial_context_length", _) => {
                let read = words::has(keys_read(facts.scaling), "original_max_position_embeddings");
                !read || number == Some(self.original(facts.rope)? as f64)
            }
            ("nope_layer_interval", _) => match value.as_u64() {
                Some(every @ 1..) => self.rotates_except(every as usize, &kinds)?,
                _ => number == Some(0.0) || value.is_null(),
            },
            (_, Some(own)) => match (self.row.layers, value) {
                (LayerTypes::Listed(_, others, _), Value::Array(_)) => {
                    let listed = |index: usize| {
                        let list = value.as_array().unwrap_or_default();
                        list.iter().any(|own| own.as_f64() == Some(index as f64))
                    };
                    let mut layers = kinds.iter().enumerate();
                    layers.all(|(index, kind)| listed(index) == (*kind != others.name()))
                }
                (LayerTypes::Flags(_, flagged, _), _) => {
                    each(&|index, own| flag(own, kind(index) == flagged.name()))
                }
                // EXAONE's: a letter for each layer of a period.
                (_, Value::Text(period)) => {
                    let letter = |index: usize| period.chars().nth(index % period.len().max(1));
                    let mut layers = kinds.iter().enumerate();
                    layers.all(|(index, kind)| match letter(index) {
                        Some('L') => *kind == SLIDING,
                        Some('G') => *kind == FULL || index + 1 == kinds.len(),
                        _ => false,
                    })
                }
                _ => match value.as_u64() {
                    Some(every @ 1..) => {
                        let every = Some((own, every as usize));
                        let mut same = true;
                        for (index, kind) in kinds.iter().enumerate() {
                            same &= by_rule(self, index, kinds.len(), every)? == *kind;
                        }
                        same
                    }
                    _ => value.is_null(),
                },
            },
            _ => false,
        }))
    }

    /// Returns true if all layers with an attention rotate, except the last one of every `period` layers.
    fn rotates_except(&self, period: usize, kinds: &[&str]) -> Result<bool> {
        let layers = self.layers(kinds)?;
        for index in 0..layers {
            let kind = kinds.get(index).copied();
            if !kind.is_none_or(has_attention) {
                continue;
            }
            let rotates = self.difference(kind, Some((index, layers)))?.is_some();
            if rotates == (index + 1).is_multiple_of(period) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
