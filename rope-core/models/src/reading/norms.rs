//! The norm of a model's queries and keys, by the row of its type and its configuration.

use super::Reading;
use crate::base::error::{Result, unsupported};
use crate::base::json::{Object, Value, given, invalid};
use crate::base::words;
use crate::model::{ModelNorm, NormWeights};
use crate::types::{Eps, Formula, NormedLayers, QkNorm, Reach, Word};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::StageOrder;

/// Returns a formula, its weights, and whether it has biases.
fn formula(formula: Formula) -> Option<(NormFormula, NormWeights, bool)> {
    use NormWeights::{PerHead, Shared};
    Some(match formula {
        Formula::Llama => (NormFormula::LLAMA, Shared, false),
        Formula::Olmo2 | Formula::Gemma3n => (NormFormula::OLMO2, Shared, false),
        Formula::Plamo2 => (NormFormula::LLAMA, PerHead, false),
        Formula::Gemma => (NormFormula::GEMMA, Shared, false),
        Formula::Llama4 => (NormFormula::LLAMA4, NormWeights::None, false),
        Formula::Cohere | Formula::StableLm => (NormFormula::LAYER_NORM, PerHead, false),
        Formula::LayerNorm => (NormFormula::LAYER_NORM, Shared, true),
        Formula::Chameleon => (NormFormula::CHAMELEON, PerHead, true),
        Formula::Other => return None,
    })
}

/// Reads the norm of queries and keys, and its layers.
#[inline(never)]
pub(crate) fn read(reading: &Reading<'_>) -> Result<Option<(ModelNorm, NormedLayers)>> {
    let normed = normed(reading)?;
    let Some(own) = reading.row.norm.filter(|_| normed) else {
        return Ok(None);
    };
    let (formula, mut weights, bias) = formula(own.formula).ok_or_else(|| {
        unsupported(
            reading.name,
            "the norm of its queries and keys is not one that NormFormula says",
        )
    })?;
    let mut norm = Norm::new(formula, eps(reading, &own)?);
    if over_row(reading.config, own.reach)? {
        norm = norm.with_reach(NormReach::Token);
        if weights == NormWeights::Shared {
            weights = NormWeights::PerHead;
        }
    }
    if own.after {
        norm = norm.with_order(StageOrder::AfterRotation);
    }
    let found = ModelNorm {
        norm,
        weights,
        bias,
        values: own.values,
    };
    Ok(Some((found, own.layers)))
}

/// Returns true if there is a norm. Refuses a contradicting key that the model's code does not read.
fn normed(reading: &Reading<'_>) -> Result<bool> {
    let (own, config) = (reading.row.norm, reading.config);
    let normed = match own.and_then(|own| own.switch) {
        None => own.is_some(),
        Some((key, default)) => match config.get(key.name()) {
            None => default,
            Some(value) => value
                .as_bool()
                .ok_or_else(|| invalid(key.name(), value, "true or false"))?,
        },
    };
    for key in ["use_qk_norm", "qk_norm", "use_qk_layernorm", "qk_layernorm"] {
        let said = given(config, key).and_then(Value::as_bool);
        if said.is_some_and(|said| said != normed) {
            reading.notes.beside(key, &Value::Bool(!normed), false, "");
        }
    }
    // diffusers' name of the formula, which the row has.
    if let Some(own) = given(config, "qk_norm")
        && let Some(formula) = own.as_str()
    {
        let same = normed && words::has("rms_norm rms_norm_across_heads", formula);
        reading.notes.beside("qk_norm", own, same, "");
    }
    Ok(normed)
}

/// Returns the number added to the mean. A null is not an omission.
fn eps(reading: &Reading<'_>, own: &QkNorm) -> Result<f32> {
    let config = reading.config;
    let usual = "rms_norm_eps";
    let keys = match own.eps_key {
        Eps::Fixed => [None, None],
        Eps::Key(key) => [Some(key.name()), None],
        Eps::KeyOr(key, other) => [Some(key.name()), Some(other.name())],
    };
    let mut found = keys.iter().flatten();
    let eps = match found.find_map(|&key| Some((key, config.get(key)?))) {
        Some((key, value)) => value
            .as_f64()
            .filter(|&eps| eps >= 0.0 && (eps as f32).is_finite())
            .ok_or_else(|| invalid(key, value, "a number that is finite and not negative"))?,
        None => own.eps.into(),
    };
    // If eps is fixed, the usual key is that of other norms.
    let free = own.eps_key == Eps::Fixed || keys.contains(&Some(usual));
    let ignored = given(config, usual).filter(|_| !free);
    let said = |value: &Value| value.as_f64().map(|other| other as f32);
    if let Some(value) = ignored.filter(|value| said(value) != Some(eps as f32)) {
        reading.notes.beside(usual, value, false, "");
    }
    Ok(eps as f32)
}

/// Returns true if the norm covers all heads of a token.
fn over_row(config: &Object, reach: Reach) -> Result<bool> {
    let (key, [row, default]) = match reach {
        Reach::Head => return Ok(false),
        Reach::Row => return Ok(true),
        Reach::RowIf(key, choices) => (key.name(), choices.map(Word::name)),
    };
    let Some(value) = config.get(key) else {
        return Ok(row == default);
    };
    match value.as_str() {
        Some(choice) if choice == row => Ok(true),
        Some(choice) if choice == default => Ok(false),
        _ => Err(invalid(key, value, "a choice that the model's code has")),
    }
}
