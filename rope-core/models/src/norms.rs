//! The norm of a model's queries and keys, by its line of the table and its configuration.

use crate::error::{Error, Result, beginning};
use crate::json::{given, invalid};
use crate::reading::Reading;
use rope_core::{Norm, NormFormula, NormReach, Place};
use serde_json::Value;

/// The norm of a model's queries and keys, without its weights: [`Config::norm`](crate::Config::norm) and
/// [`Layer::norm`](crate::Layer::norm).
///
/// Queries and keys have weights of their own, in the same shape. A norm of latents, which multi-head latent attention
/// has, is none of queries or keys. Nor is what else the model's code multiplies queries by; the table names it
/// ([guide](crate::guide::models)).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelNorm {
    /// The norm, to which the caller adds the weights ([`Norm::weight`]) and the biases ([`Norm::bias`]).
    pub norm: Norm<'static>,
    /// Which weights it has.
    pub weights: NormWeights,
    /// Whether it has biases, in the shape of the weights.
    pub bias: bool,
    /// Whether each head of the values is normed too, by the same formula and with the same eps, without weights:
    /// Gemma 3n and 4.
    pub values: bool,
}

/// Which weights the norm of a model's queries and keys has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormWeights {
    /// None: Llama 4, nanochat.
    None,
    /// `[head_dim]`, which all heads share.
    Shared,
    /// `[heads, head_dim]`: norms over all heads of a token, and those of Cohere, StableLM and Chameleon.
    PerHead,
}

/// Which of the layers that have queries and keys norm them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NormedLayers {
    All,
    Rotating,
    Still,
}

impl NormedLayers {
    /// Whether a layer with attention is one of them.
    pub(crate) fn holds(self, rotates: bool) -> bool {
        match self {
            NormedLayers::All => true,
            NormedLayers::Rotating => rotates,
            NormedLayers::Still => !rotates,
        }
    }
}

/// A formula by its name in the table, its weights, and whether it has biases.
fn formula(name: &str) -> Option<(NormFormula, NormWeights, bool)> {
    use NormWeights::{PerHead, Shared};
    Some(match name {
        "llama" => (NormFormula::LLAMA, Shared, false),
        "olmo2" => (NormFormula::OLMO2, Shared, false),
        "gemma" => (NormFormula::GEMMA, Shared, false),
        "gemma3n" => (NormFormula::GEMMA3N, Shared, false),
        "llama4" => (NormFormula::LLAMA4, NormWeights::None, false),
        "cohere" => (NormFormula::COHERE, PerHead, false),
        "stable-lm" => (NormFormula::STABLE_LM, PerHead, false),
        "layer-norm" => (NormFormula::LAYER_NORM, Shared, true),
        "chameleon" => (NormFormula::CHAMELEON, PerHead, true),
        _ => return None,
    })
}

/// The norm of queries and keys, and in which layers it is.
#[inline(never)]
pub(crate) fn read(reading: &Reading<'_>) -> Result<Option<(ModelNorm, NormedLayers)>> {
    let model = reading.model;
    let normed = normed(reading)?;
    let Some((name, default)) = model.keyed("norm").filter(|_| normed) else {
        return Ok(None);
    };
    let (formula, mut weights, bias) = formula(name).ok_or(Error::Unsupported {
        model: model.name(),
        what: "the norm of its queries and keys is not one that NormFormula says",
    })?;
    let mut norm = Norm::new(formula, eps(reading, default)?);
    if over_row(reading)? {
        norm = norm.over(NormReach::Row);
        if weights == NormWeights::Shared {
            weights = NormWeights::PerHead;
        }
    }
    if model.is("norm-after") {
        norm = norm.at(Place::AfterRotation);
    }
    let layers = match model.value("norm-layers") {
        Some("rotating") => NormedLayers::Rotating,
        Some("still") => NormedLayers::Still,
        _ => NormedLayers::All,
    };
    let found = ModelNorm {
        norm,
        weights,
        bias,
        values: model.is("norm-values"),
    };
    Ok(Some((found, layers)))
}

/// Whether there is a norm. A key that says otherwise, and that the model's code does not read, is refused.
fn normed(reading: &Reading<'_>) -> Result<bool> {
    let (model, config) = (reading.model, reading.config);
    let own = model.keyed("norm-if");
    let normed = match own.and_then(|(key, _)| Some((key, config.get(key)?))) {
        Some((key, value)) => value
            .as_bool()
            .ok_or_else(|| invalid(key, value, "true or false"))?,
        None => model.value("norm").is_some() && own.is_none_or(|(_, default)| default == "true"),
    };
    for key in ["use_qk_norm", "qk_norm", "use_qk_layernorm", "qk_layernorm"] {
        let said = given(config, key).and_then(Value::as_bool);
        if said.is_some_and(|said| said != normed) {
            let key = beginning(key);
            return Err(Error::Unread { key });
        }
    }
    Ok(normed)
}

/// What is added to the mean. A null is not an omission.
fn eps(reading: &Reading<'_>, default: &str) -> Result<f32> {
    let usual = "rms_norm_eps";
    let config = reading.config;
    let keys = reading.model.value("norm-eps").unwrap_or(usual);
    let found = keys
        .split('|')
        .find_map(|key| Some((key, config.get(key)?)));
    let eps = match found {
        Some((key, value)) => value
            .as_f64()
            .filter(|&eps| eps >= 0.0 && (eps as f32).is_finite())
            .ok_or_else(|| invalid(key, value, "a number that is finite and not negative"))?,
        None => default.parse().unwrap_or(0.0),
    };
    // Where eps is fixed, the usual key is that of other norms.
    let unread = given(config, usual).filter(|_| !keys.is_empty() && !keys.contains(usual));
    match unread.is_some_and(|value| value.as_f64() != Some(eps)) {
        true => Err(Error::Unread {
            key: beginning(usual),
        }),
        false => Ok(eps as f32),
    }
}

/// Whether it is taken over all heads of a token.
fn over_row(reading: &Reading<'_>) -> Result<bool> {
    let model = reading.model;
    let Some((key, choices)) = model
        .value("norm-row")
        .and_then(|word| word.split_once(':'))
    else {
        return Ok(model.is("norm-row"));
    };
    let (row, default) = choices.split_once(':').unwrap_or((choices, ""));
    let Some(value) = reading.config.get(key) else {
        return Ok(row == default);
    };
    match value.as_str() {
        Some(choice) if choice == row => Ok(true),
        Some(choice) if choice == default => Ok(false),
        _ => Err(invalid(key, value, "a choice that the model's code has")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::lines;

    #[test]
    fn every_norm_of_the_table_is_known_or_other() {
        let mut known = 0;
        for model in lines() {
            let Some((name, default)) = model.keyed("norm") else {
                assert!(
                    ["norm-if", "norm-eps", "norm-row", "norm-layers"]
                        .iter()
                        .all(|key| model.value(key).is_none() && !model.is(key)),
                    "{model:?}"
                );
                continue;
            };
            assert!(name == "other" || formula(name).is_some(), "{model:?}");
            let eps = default.parse::<f32>();
            assert_eq!(eps.is_ok_and(|eps| eps > 0.0), name != "other", "{model:?}");
            let layers = model.value("norm-layers");
            assert!(
                layers.is_none_or(|layers| ["rotating", "still"].contains(&layers)),
                "{model:?}"
            );
            let switch = model.keyed("norm-if");
            assert!(
                switch.is_none_or(|(_, default)| ["true", "false"].contains(&default)),
                "{model:?}"
            );
            known += usize::from(name != "other");
        }
        assert!(known > 60, "{known}");
    }
}
