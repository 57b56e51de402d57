//! The layers of a model: their types, and their rotations.

use super::norm::ModelNorm;
use crate::base::error::{Error, Refusal, Result};
use crate::base::words;
use crate::types::NormedLayers;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use rope_core::{AnyRows, Direction, Frequencies, FullRows, IntoPositions, Pairing, Rope};

/// The rotation of queries and keys in some layers of a model: everything that its code does.
///
/// ```
/// use rope_core::{Tensor, TensorMut};
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "qk_nope_head_dim": 128,
///     "qk_rope_head_dim": 64, "max_position_embeddings": 4096, "rope_theta": 10000
/// }"#)?;
/// let model = config.model()?;
/// let rotation = model.rotation()?;
/// let rows = rotation.frequencies().rows(7..10)?;
/// let q = vec![1.0_f32; 3 * 128 * 192];
/// let mut rotated = vec![0.0_f32; q.len()];
/// let shape = [1, 3, 128, rotation.head_dim()];
/// let (x, mut y) = (Tensor::new(&q, shape)?, TensorMut::new(&mut rotated, shape)?);
/// rotation.rope().rotate_into(&x, &mut y, &rows)?;
/// assert_eq!(rotated[..128], q[..128]);              // channels 128..192 of each head rotate
/// assert_ne!(rotated[128..192], q[128..192]);
/// # Ok::<(), rope_models::Error>(())
/// ```
///
/// [`Rotation::rope`] and the rows of [`Rotation::rows`] say all of a rotation but [`Rotation::rotates_values`] and
/// [`Rotation::unrotates_output`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    pub(crate) frequencies: Frequencies<'static>,
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
    pub(crate) direction: Direction,
    pub(crate) head_dim: usize,
    pub(crate) offset: usize,
    pub(crate) values: bool,
    pub(crate) turned_back: bool,
    /// Separately paired parts of the window.
    pub(crate) windows: usize,
    pub(crate) full_width: bool,
    pub(crate) real_positions: bool,
}

impl Rotation {
    /// Returns the frequencies over the axes of the model: one per pair, or one per channel for full-width rows
    /// ([`Rotation::is_full_width`]).
    pub fn frequencies(&self) -> &Frequencies<'static> {
        &self.frequencies
    }

    /// Returns true if the two channels of a pair have different angles: HunYuan-VL and V-JEPA 2. The frequencies are
    /// then those of channels, and their rows are [`FullRows`], as in [`Rotation::rows`].
    pub fn is_full_width(&self) -> bool {
        self.full_width
    }

    /// Returns true if positions are coordinates in -1..1 (DINOv3): the frequencies count turns, and an integer is a
    /// whole turn. [`Positions::token_major`](rope_core::Positions::token_major) passes such positions.
    pub fn has_real_positions(&self) -> bool {
        self.real_positions
    }

    /// Computes the rows of some positions for the model's heads: those of [`Rotation::frequencies`], full-width if the
    /// model's are.
    ///
    /// # Errors
    ///
    /// The errors of [`Frequencies::rows`].
    pub fn rows<'p>(&self, positions: impl IntoPositions<'p>) -> Result<AnyRows<'static>, Error> {
        let rows = self.frequencies.rows(positions)?;
        match self.full_width {
            true => Ok(AnyRows::Channels(FullRows::new(rows)?)),
            false => Ok(AnyRows::Pairs(rows)),
        }
    }

    /// Returns the frequencies alone.
    #[must_use]
    pub fn into_frequencies(self) -> Frequencies<'static> {
        self.frequencies
    }

    /// Returns the pairing of input and output. They differ for DeepSeek-V3 and models derived from it, which read
    /// interleaved pairs and write halves.
    pub fn pairing(&self) -> (Pairing, Pairing) {
        (self.input, self.output)
    }

    /// Returns [`Direction::Transpose`] for nanochat, which rotates by the negated angle, and [`Direction::Forward`]
    /// for all other models.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the channels of a query's head in the attention; for multi-head latent attention the sum of both parts
    /// (192 for DeepSeek-V3).
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Returns the rotated channels of a head: from the first one for most models, the last ones for multi-head latent
    /// attention (where they are a separate tensor before) and for DeepSeek-V4.
    pub fn window(&self) -> Range<usize> {
        let frequencies = self.frequencies.rotary_dim();
        let rotary_dim = match self.full_width {
            true => frequencies / 2,
            false => frequencies,
        };
        self.offset..self.offset + rotary_dim
    }

    /// Iterates over the separately paired parts of [`Rotation::window`], each with the pairs of the rows that rotate
    /// it. One part for most models; for Gemma 4's vision tower the two halves of a head, each with its own axis.
    ///
    /// ```
    /// use rope_models::Config;
    ///
    /// let config = Config::from_json(r#"{"model_type": "gemma4_vision", "head_dim": 72}"#)?;
    /// let model = config.model()?;
    /// let windows: Vec<_> = model.rotation()?.windows().collect();
    /// assert_eq!(windows, [(0..36, 0..18), (36..72, 18..36)]);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    pub fn windows(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let (start, width) = (self.offset, self.window().len() / self.windows);
        (0..self.windows).map(move |window| {
            let first = window * width;
            let channels = start + first..start + first + width;
            (channels, first / 2..(first + width) / 2)
        })
    }

    /// Returns true if the values rotate as the keys do: RoFormer's option `rotary_value`, and CLVP.
    pub fn rotates_values(&self) -> bool {
        self.values
    }

    /// Returns true if the window of the attention's output is rotated back: DeepSeek-V4, whose values are its rotated
    /// keys.
    pub fn unrotates_output(&self) -> bool {
        self.turned_back
    }

    /// Returns the plan for whole heads of the model, in every verb: the pairing, the direction and the rotated
    /// channels ([`Rope::with_window`], [`Rope::with_parts`]), with the best backend of this machine.
    ///
    /// ```
    /// use rope_core::{Pairing, Rope};
    /// use rope_models::{Config, Error};
    ///
    /// let config = Config::from_json(r#"{"model_type": "deepseek_v2", "rope_theta": 10000}"#)?;
    /// let model = config.model()?;
    /// let rope = model.rotation()?.rope();
    /// assert_eq!(rope, Rope::new(Pairing::Interleaved).with_window(128).with_head_dim(192));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The plan refuses heads of another size than [`Rotation::head_dim`] ([`Rope::with_head_dim`]).
    /// [`Rotation::rope_for`] returns the plan for the rotating channels alone. A latent with its key after it,
    /// `[tokens, 576]` of DeepSeek-V3, rotates by `rope().with_window(512)`.
    pub fn rope(&self) -> Rope {
        Rope::new(self.input)
            .with_output_pairing(self.output)
            .with_direction(self.direction)
            .with_window(self.offset)
            .with_parts(self.windows)
            .with_head_dim(self.head_dim)
    }

    /// Returns the plan for heads of this many channels: all channels of the model's heads ([`Rotation::head_dim`]), or
    /// only the rotating ones, which are separate tensors in multi-head latent attention before they are combined.
    ///
    /// # Errors
    ///
    /// [`Error::ModelHead`] for heads of another size.
    pub fn rope_for(&self, head_dim: usize) -> Result<Rope, Error> {
        let window = self.window();
        if head_dim == self.head_dim {
            Ok(self.rope())
        } else if head_dim == window.len() {
            Ok(self.rope().with_window(0).with_head_dim(head_dim))
        } else {
            Err(Error::ModelHead {
                given: head_dim,
                head_dim: self.head_dim,
                window: (window.start, window.end),
            })
        }
    }
}

/// The layers of a model, in order.
///
/// ```
/// use rope_models::Config;
///
/// let config = Config::from_json(r#"{
///     "model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4,
///     "rope_theta": 50000.0
/// }"#)?;
/// for layer in config.model()?.layers()?.iter() {
///     match layer.rotation {
///         Some(rotation) => assert_eq!(rotation.frequencies().rotary_dim(), 128),
///         None => assert_eq!((layer.index, layer.layer_type), (3, Some("full_attention"))),
///     }
/// }
/// # Ok::<(), rope_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layers {
    /// The type of each layer, and the index of its rotation.
    layers: Vec<(Option<String>, Option<usize>)>,
    rotations: Vec<Rotation>,
    /// The norm and its layers, or the reason why it is unknown; no rotation depends on it.
    norm: Result<Option<(ModelNorm, NormedLayers)>>,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Layer<'l> {
    /// Its number, from 0.
    pub index: usize,
    /// Its type (`full_attention`, `sliding_attention`, `linear_attention`, ..), if the model has types of layers.
    pub layer_type: Option<&'l str>,
    /// Its rotation; `None` if its queries and keys are not rotated, or if it has none.
    pub rotation: Option<&'l Rotation>,
    /// The index of its rotation in [`Layers::rotations`], and of its rows if a program makes rows for each.
    pub rotation_index: Option<usize>,
    pub(crate) norm: Result<Option<ModelNorm>, &'l Refusal>,
}

impl Layer<'_> {
    /// Returns the norm of its queries and keys, whether or not they rotate; `None` without a norm, or without queries
    /// and keys.
    ///
    /// ```
    /// use rope_core::norm::NormFormula;
    /// use rope_models::Config;
    ///
    /// let config = Config::from_json(r#"{
    ///     "model_type": "exaone4", "hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128,
    ///     "num_hidden_layers": 4, "sliding_window": 4096, "sliding_window_pattern": 4, "rms_norm_eps": 1e-05,
    ///     "rope_theta": 1000000.0
    /// }"#)?;
    /// let model = config.model()?;
    /// let layers = model.layers()?;
    /// let last = layers.get(3).unwrap();
    /// assert_eq!(last.rotation, None);
    /// assert_eq!(last.norm()?.unwrap().norm.formula, NormFormula::LLAMA);
    /// # Ok::<(), rope_models::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Model::norm`](crate::Model::norm), except those of the layer type and of layers that differ.
    pub fn norm(&self) -> Result<Option<ModelNorm>, Error> {
        self.norm.map_err(Error::from)
    }
}

impl Layers {
    /// Creates layers from the type of each and the index of its rotation.
    pub(crate) fn new(
        layers: Vec<(Option<String>, Option<usize>)>,
        rotations: Vec<Rotation>,
        norm: Result<Option<(ModelNorm, NormedLayers)>>,
    ) -> Self {
        Self {
            layers,
            rotations,
            norm,
        }
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Returns true if there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the layer with that number.
    pub fn get(&self, index: usize) -> Option<Layer<'_>> {
        let (layer_type, rotation) = self.layers.get(index)?;
        let layer_type = layer_type.as_deref();
        let norm = match layer_type {
            Some(kind) if !has_attention(kind) => Ok(None),
            _ => self.norm.as_ref().map(|norm| {
                let (norm, layers) = (*norm)?;
                layers.holds(rotation.is_some()).then_some(norm)
            }),
        };
        Some(Layer {
            index,
            layer_type,
            rotation: rotation.and_then(|rotation| self.rotations.get(rotation)),
            rotation_index: *rotation,
            norm,
        })
    }

    /// Iterates over the layers.
    pub fn iter(&self) -> impl Iterator<Item = Layer<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns the distinct rotations: a program makes one set of rows for each.
    pub fn rotations(&self) -> &[Rotation] {
        &self.rotations
    }
}

/// Returns false for layer types without queries and keys.
pub(crate) fn has_attention(kind: &str) -> bool {
    !words::has("linear_attention conv moe mlp recurrent", kind)
}
