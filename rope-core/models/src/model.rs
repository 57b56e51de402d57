//! The results of reading a file of any kind.

use crate::error::{Error, Refusal, Result, missing, still, unsupported};
use crate::ignored::Ignored;
use crate::layers::{Layers, Rotation, ambiguous, has_attention, no_such_type};
use crate::norms::{self, ModelNorm, NormedLayers};
use crate::reading::Reading;
use crate::types::Rotates;
use alloc::vec::Vec;

/// The rotations and norms of a model's queries and keys, read once from its file.
///
/// ```
/// use rope_core::Pairing;
/// use rope_models::Config;
///
/// let model = Config::from_json(r#"{
///     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
///     "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
///     "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
/// }"#)?.model()?;
/// let rotation = model.layers()?.get(31).unwrap().rotation.unwrap();
/// assert_eq!(rotation.frequencies().rotary_dim(), 128);
/// assert_eq!(rotation.pairing(), (Pairing::Half, Pairing::Half));
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// A loader iterates over [`Model::layers`]. [`Model::rotation`] is for models whose layers are all alike, and is an
/// error for the others. A method fails only if the file lacks its own result.
#[derive(Clone, Debug)]
pub struct Model {
    name: &'static str,
    layers: Result<Layers>,
    rotation: Result<Rotation>,
    norm: Result<Option<ModelNorm>>,
    ignored: Vec<Ignored>,
}

impl Model {
    pub(crate) fn of_config(reading: Reading<'_>, layer_type: Option<&str>) -> Self {
        let notes = &reading.notes;
        // A key missing from the parameters affects the rotation, and no norm.
        let before = notes.so_far();
        let layers = notes.settle(before, || Layers::read(&reading));
        let norm = notes.settle(None, || norm(&reading, layer_type, &layers));
        let rotation = notes.settle(before, || rotation(&reading, layer_type));
        Self {
            name: reading.name,
            layers,
            rotation,
            norm,
            ignored: reading.notes.into_found(),
        }
    }

    /// Creates a model from another reader; `norm` is the reason why norms are unknown.
    pub(crate) fn of_parts(
        name: &'static str,
        layers: Result<Layers>,
        rotation: Result<Rotation>,
        norm: Refusal,
    ) -> Self {
        Self {
            name,
            layers,
            rotation,
            norm: Err(norm),
            ignored: Vec::new(),
        }
    }

    /// Returns the model type, or the architecture of a GGUF file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the keys of the file about the rotation and the norm that the model's code ignores, each with path,
    /// value and reason. Those that contradict the code are [`Ignored::significant`], and errors unless
    /// [`Config::lenient`](crate::Config::lenient) was set. Empty for a GGUF file.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// let model = Config::from_json(r#"{
    ///     "model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14, "num_hidden_layers": 24,
    ///     "rope_theta": 1000000.0, "use_mrope": false
    /// }"#)?.model()?;
    /// assert!(model.rotation().is_ok());
    /// let [ignored] = model.ignored() else { panic!() };
    /// assert_eq!((ignored.path.as_str(), ignored.significant), ("use_mrope", false));
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    pub fn ignored(&self) -> &[Ignored] {
        &self.ignored
    }

    /// Returns the layers, with their types and rotations.
    ///
    /// # Errors
    ///
    /// The errors of [`Model::rotation`], except those of the layer type, which is irrelevant here; [`Error::Missing`]
    /// for `num_hidden_layers`; [`Error::Count`](rope_core::Error::Count) and [`Error::Invalid`] for lists with one
    /// entry per layer.
    pub fn layers(&self) -> Result<&Layers, Error> {
        self.layers.as_ref().map_err(Error::from)
    }

    /// Returns the rotation of the layers with attention, or of the selected layer type
    /// ([`Config::with_layer_type`](crate::Config::with_layer_type)), if it is the same for all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] for required keys; [`Error::Unknown`] for an unknown `rope_type`; [`Error::Unread`] for a
    /// meaningful key that the model's code ignores ([`Config::lenient`](crate::Config::lenient)); [`Error::Invalid`]
    /// for values of another type; [`Error::Ambiguous`] if layers differ and no type was selected, and if the file
    /// contradicts itself; [`Error::NoSuch`] for a layer type that the file does not have; [`Error::NothingRotates`] if
    /// nothing does; [`Error::Unsupported`] if layers differ by more than their type, and if the model's own code fails
    /// (each with its reason); [`RowsError::RotaryDim`](rope_core::error::RowsError::RotaryDim),
    /// [`Error::Count`](rope_core::Error::Count) and the errors of [`Frequencies::new`](rope_core::Frequencies::new)
    /// for numbers that do not match.
    pub fn rotation(&self) -> Result<&Rotation, Error> {
        self.rotation.as_ref().map_err(Error::from)
    }

    /// Returns the norm of queries and keys in the layers with attention, or in those of the selected layer type, if it
    /// is the same for all of them; `None` if they are not normed. [`Layer::norm`](crate::Layer::norm) returns that of
    /// one layer.
    ///
    /// ```
    /// use rope_core::norm::{NormFormula, NormReach};
    /// use rope_core::stages::StageOrder;
    /// use rope_models::{Config, NormWeights};
    ///
    /// let model = Config::from_json(r#"{
    ///     "model_type": "qwen3", "hidden_size": 2560, "num_attention_heads": 32, "head_dim": 128,
    ///     "num_hidden_layers": 36, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0
    /// }"#)?.model()?;
    /// let found = model.norm()?.expect("Qwen3 norms each head");
    /// assert_eq!((found.norm.formula(), found.norm.eps()), (NormFormula::LLAMA, 1e-6));
    /// assert_eq!((found.norm.reach(), found.norm.order()), (NormReach::Head, StageOrder::BeforeRotation));
    ///
    /// // One `self_attn.q_norm.weight` of the checkpoint for all heads of Q; K has its own.
    /// assert_eq!(found.weights, NormWeights::Shared);
    /// let weights = [1.0_f32; 128];
    /// let of_queries = found.norm.with_weight(&weights);
    /// # let _ = of_queries;
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for a norm without a constant in [`NormFormula`](rope_core::norm::NormFormula), and if
    /// layers differ; [`Error::Invalid`] for the values of its keys; [`Error::Unread`] for a key about it that the
    /// model's code does not read; the errors of [`Model::rotation`] for the selected layer type; and those of
    /// [`Model::layers`] for Llama 4 and Llama 3.2 Vision, whose layers differ.
    pub fn norm(&self) -> Result<Option<ModelNorm>, Error> {
        self.norm.as_ref().map_err(Error::from).copied()
    }
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
