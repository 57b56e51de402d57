//! The results for all layers of a model: their rotations and norms, and whether they are the same.

use super::layer_types::{ambiguous, no_such_type};
use super::variants::LayerVariant;
use super::{Reading, norms};
use crate::base::error::{Refusal, Result, missing, still, unsupported};
use crate::model::{Layers, Model, ModelNorm, Rotation, has_attention};
use crate::types::{NormedLayers, Rotates};
use alloc::string::String;
use alloc::vec::Vec;

/// Reads the model of a configuration; the rotation and the norm for a type of layers, if one is selected.
pub(crate) fn model(reading: Reading<'_>, layer_type: Option<&str>) -> Model {
    let notes = &reading.notes;
    // A key missing from the parameters affects the rotation, and no norm.
    let before = notes.so_far();
    let layers = notes.settle(before, || layers(&reading));
    let norm = notes.settle(None, || norm(&reading, layer_type, &layers));
    let rotation = notes.settle(before, || rotation(&reading, layer_type));
    let ignored = reading.notes.into_found();
    Model::new(reading.name, layers, rotation, norm, ignored)
}

fn layers(reading: &Reading<'_>) -> Result<Layers> {
    let kinds = reading.kinds()?;
    let count = reading.layers(&kinds)?;
    let norm = reading.notes.settle(None, || norms::read(reading));
    let (mut layers, mut rotations) = (Vec::new(), Vec::new());
    let mut variants: Vec<LayerVariant<'_, '_>> = Vec::new();
    for index in 0..count {
        let kind = kinds.get(index);
        let difference = match kind {
            Some(kind) if !has_attention(kind) => None,
            _ => reading.difference(kind.copied(), Some((index, count)))?,
        };
        let rotation = match difference {
            None => None,
            Some(difference) => {
                let known = variants.iter().position(|other| *other == difference);
                Some(match known {
                    Some(known) => known,
                    None => {
                        rotations.push(reading.rotation(&difference)?);
                        variants.push(difference);
                        variants.len() - 1
                    }
                })
            }
        };
        layers.push((kind.map(|kind| String::from(*kind)), rotation));
    }
    Ok(Layers::new(layers, rotations, norm))
}

fn rotation(reading: &Reading<'_>, chosen: Option<&str>) -> Result<Rotation> {
    let kinds = reading.kinds()?;
    let mut first = None;
    let mut same = true;
    if reading.by_number() {
        let layers = reading.layers(&kinds)?;
        for index in 0..layers {
            let kind = kinds.get(index).copied();
            if chosen.is_some() && kind != chosen {
                continue;
            }
            let found = reading.difference(kind, Some((index, layers)))?;
            same &= *first.get_or_insert(found) == found;
        }
    } else {
        let mut last = None;
        for kind in candidates(reading, chosen, &kinds)? {
            let has_attention = kind.is_none_or(has_attention);
            if last.replace(kind) == Some(kind) || (chosen.is_none() && !has_attention) {
                continue;
            }
            let found = match has_attention {
                true => reading.difference(kind, None)?,
                false => None,
            };
            same &= *first.get_or_insert(found) == found;
        }
    }
    let difference = match first {
        // Parameters by the type of layers may be the same for all of them.
        Some(Some(_)) if !same && chosen.is_none() && !reading.by_number() => {
            return agreeing(reading, &kinds);
        }
        Some(difference) if same => difference,
        Some(_) if reading.by_number() => {
            return Err(unsupported(
                reading.name,
                "its layers rotate differently; use Model::layers",
            ));
        }
        Some(_) => return Err(ambiguous(&with_parameters(reading, &kinds))),
        None => match chosen {
            Some(chosen) => return Err(no_such_type(chosen, &kinds)),
            None => None,
        },
    };
    match difference {
        Some(difference) => reading.rotation(&difference),
        None => Err(still(
            reading.name,
            "its layers of this type do not rotate; leave their queries and keys as they are",
        )),
    }
}

/// Returns the types of layers, and those that have parameters.
fn with_parameters<'k>(reading: &'k Reading<'_>, kinds: &[&'k str]) -> Vec<&'k str> {
    let mut all = reading.parameters.kinds();
    all.extend_from_slice(kinds);
    all
}

/// Returns the requested types of layers, or the model's; `None` if layers have no type.
#[inline(never)]
fn candidates<'k>(
    reading: &'k Reading<'_>,
    chosen: Option<&'k str>,
    kinds: &[&'k str],
) -> Result<Vec<Option<&'k str>>> {
    let own = match kinds {
        [] => reading.parameters.kinds(),
        _ => kinds.to_vec(),
    };
    if let Some(chosen) = chosen {
        return match own.contains(&chosen) {
            true => Ok(alloc::vec![Some(chosen)]),
            false if reading.parameters.kinds().contains(&chosen) => Err(still(
                reading.name,
                "there are parameters for this type of layers, but no layer has the type",
            )),
            false => Err(no_such_type(chosen, &own)),
        };
    }
    if !own.is_empty() {
        let mut all = Vec::new();
        own.into_iter().for_each(|kind| all.push(Some(kind)));
        return Ok(all);
    }
    let of_windows = matches!(
        reading.row.rotates,
        Rotates::Sliding | Rotates::SlidingOrAll | Rotates::SlidingOrDense
    );
    match of_windows || reading.parameters.by_layer {
        true => Err(missing("num_hidden_layers")),
        false => Ok(alloc::vec![None]),
    }
}

/// Returns the rotation of layers whose types have separate parameters, if all agree.
#[inline(never)]
fn agreeing(reading: &Reading<'_>, kinds: &[&str]) -> Result<Rotation> {
    let refusal = || ambiguous(&with_parameters(reading, kinds));
    let names = match kinds {
        [] => reading.parameters.kinds(),
        _ => kinds.to_vec(),
    };
    let mut rotation: Option<Rotation> = None;
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) || !has_attention(name) {
            continue;
        }
        seen.push(name);
        let difference = reading.difference(Some(name), None)?;
        let made = reading.rotation(&difference.ok_or_else(refusal)?)?;
        if rotation.as_ref().is_some_and(|rotation| *rotation != made) {
            return Err(refusal());
        }
        rotation = Some(made);
    }
    rotation.ok_or_else(refusal)
}

fn norm(
    reading: &Reading<'_>,
    chosen: Option<&str>,
    layers: &Result<Layers>,
) -> Result<Option<ModelNorm>> {
    if let Some(chosen) = chosen {
        candidates(reading, Some(chosen), &reading.kinds()?)?;
        if !has_attention(chosen) {
            return Ok(None);
        }
    }
    match norms::read(reading)? {
        None => Ok(None),
        Some((norm, NormedLayers::All)) => Ok(Some(norm)),
        Some((norm, _)) => {
            let layers = layers.as_ref().map_err(Refusal::clone)?;
            // Each layer has this rotation or none.
            let mut first = None;
            for layer in layers.iter() {
                let meant = chosen.is_none() || layer.layer_type == chosen;
                let normed = matches!(layer.norm, Ok(Some(_)));
                if meant && *first.get_or_insert(normed) != normed {
                    return Err(unsupported(
                        reading.name,
                        "its layers have different norms; use Model::layers",
                    ));
                }
            }
            Ok(first.unwrap_or(false).then_some(norm))
        }
    }
}
