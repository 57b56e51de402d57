//! The names of the types of layers, those that a file lists, and the errors about them.

use crate::base::error::{Error, Refusal, Result, beginning, listed};
use crate::base::json::{Object, given, invalid};
use crate::base::nearest::{nearest, sort_nearest};
use crate::base::words;
use alloc::vec::Vec;

pub(crate) const FULL: &str = "full_attention";
pub(crate) const SLIDING: &str = "sliding_attention";
pub(crate) const INDEXED: &str = "indexed_attention";

/// The types of layers of transformers (`ALLOWED_ATTN_LAYER_TYPES`): its classes refuse other words in `layer_types`.
const KINDS: &str = "full_attention, sliding_attention, chunked_attention, window_attention, indexed_attention, \
    compressed_sparse_attention, heavily_compressed_attention, minimax_m3_sparse, conv, moe, hybrid, hybrid_sliding, \
    reference_sliding_attention, linear_attention";

/// The further types of `layers_block_type`.
const BLOCKS: &str = "mlp, recurrent";

/// Returns the types of layers of a model's class.
pub(super) fn words_of(name: &str) -> &'static str {
    match name {
        "deepseek_v4" => {
            "sliding_attention, compressed_sparse_attention, heavily_compressed_attention"
        }
        "neomme" => "full_attention, sliding_attention",
        _ => KINDS,
    }
}

/// Returns the error for a type of layers that no class has, with the nearest one.
#[cold]
#[inline(never)]
pub(super) fn no_such_kind(key: &'static str, word: &str, known: &'static str) -> Refusal {
    let near = nearest(word, known.split(", "));
    Error::Unknown {
        key: key.into(),
        value: beginning(word),
        known: if near.is_empty() { known } else { near },
    }
    .into()
}

/// Returns the types listed by the file, by their current names.
#[inline(never)]
pub(super) fn in_file<'c>(config: &'c Object, words: &'static str) -> Result<Option<Vec<&'c str>>> {
    let key = match given(config, "layer_types") {
        Some(_) => "layer_types",
        None => "layers_block_type",
    };
    let Some(value) = given(config, key) else {
        return Ok(None);
    };
    let name = |value| match value {
        "mamba" => "linear_attention",
        "attention" => FULL,
        "deepseek_sparse_attention" | "qwen_sparse_attention" => "indexed_attention",
        other => other,
    };
    let refusal = || invalid(key, value, "a list of texts");
    let mut made = Vec::new();
    for own in value.as_array().ok_or_else(refusal)? {
        let own = own.as_str().ok_or_else(refusal)?;
        let kind = name(own);
        let known = words::has(words, kind) || key != "layer_types" && words::has(BLOCKS, kind);
        if !known {
            return Err(no_such_kind(key, own, words));
        }
        made.push(kind);
    }
    Ok(Some(made))
}

/// Returns the error that lists the layer types to choose from.
#[cold]
#[inline(never)]
pub(crate) fn ambiguous(kinds: &[&str]) -> Refusal {
    Error::Ambiguous {
        key: LAYER_TYPE,
        choices: listed(&each_once(kinds)),
    }
    .into()
}

/// Returns the error for a type that no layer has: lists the existing types, the nearest first.
#[cold]
#[inline(never)]
pub(crate) fn no_such_type(chosen: &str, kinds: &[&str]) -> Refusal {
    let mut kinds = each_once(kinds);
    sort_nearest(&mut kinds, chosen);
    Error::NoSuch {
        key: LAYER_TYPE,
        given: beginning(chosen),
        known: listed(&kinds),
    }
    .into()
}

/// Returns the error for a type of layers without parameters, if others have some.
#[cold]
#[inline(never)]
pub(crate) fn no_such_parameters(kind: &str, kinds: &[&str]) -> Refusal {
    Error::NoSuch {
        key: "a type of layers in rope_parameters",
        given: beginning(kind),
        known: listed(&each_once(kinds)),
    }
    .into()
}

const LAYER_TYPE: &str = "layer_type (Config::with_layer_type)";

/// Returns each item once, in alphabetical order.
#[inline(never)]
fn each_once<'k>(kinds: &[&'k str]) -> Vec<&'k str> {
    let mut seen: Vec<&str> = Vec::new();
    for kind in kinds {
        if seen.contains(kind) {
            continue;
        }
        seen.push(kind);
        let mut place = seen.len() - 1;
        while place > 0 && seen[place] < seen[place - 1] {
            seen.swap(place, place - 1);
            place -= 1;
        }
    }
    seen
}
