//! The results of reading a file of any kind.

mod ignored;
mod layers;
mod norm;

pub use ignored::Ignored;
pub use layers::{Layer, Layers, Rotation};
pub use norm::{ModelNorm, NormWeights};

pub(crate) use layers::has_attention;

use crate::base::error::{Error, Result};
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
    pub(crate) fn new(
        name: &'static str,
        layers: Result<Layers>,
        rotation: Result<Rotation>,
        norm: Result<Option<ModelNorm>>,
        ignored: Vec<Ignored>,
    ) -> Self {
        Self {
            name,
            layers,
            rotation,
            norm,
            ignored,
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
    /// assert_eq!((found.norm.formula, found.norm.eps), (NormFormula::LLAMA, 1e-6));
    /// assert_eq!((found.norm.reach, found.norm.order), (NormReach::Head, StageOrder::BeforeRotation));
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
