//! The module: burn-nn's `RotaryEncoding` with rope-core's frequencies, pairings, partial rotary and positions.

use alloc::vec::Vec;

use burn_core as burn;

use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::tensor::{Device, Int, Tensor};
use rope_core::error::RowsError;
use rope_core::{Frequencies, IntoPositions, Pairing, Positions};

use crate::{Error, RotaryRows, rotate};

/// A rotary position encoding: frequencies, a pairing, and the rows of a window of positions, made in advance.
///
/// [`forward`](RotaryEncoding::forward), [`apply`](RotaryEncoding::apply), [`shift`](RotaryEncoding::shift) and
/// [`reset`](RotaryEncoding::reset) are burn-nn's methods, and panic where burn-nn does, with the message of [`Error`].
/// All other methods return a `Result`. A position outside the window is no error: its rows are made for the call. All
/// angles are exact.
///
/// The module has no parameters: as in burn-nn, nothing is saved with a record and nothing is trained. For learned
/// frequencies use [`RotaryRows::new`] and [`rotate`].
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use rope_burn::RotaryEncodingConfig;
///
/// let device = Device::flex();
/// let encoding = RotaryEncodingConfig::new(512, 64).init(&device);
/// let x = Tensor::<4>::random([2, 8, 16, 64], Distribution::Default, &device);
/// let prompt = encoding.forward(x.clone());
/// let later = encoding.apply(x.clone(), 100);
/// // two sequences that are 100 and 7 tokens long
/// let positions: Vec<usize> = (100..116).chain(7..23).collect();
/// let each = encoding.apply_at(x, &positions)?;
/// # let _ = (prompt, later, each);
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct RotaryEncoding {
    /// `[1, 1, max_sequence_length, pairs]`, from position `window` on.
    cos: Tensor<4>,
    sin: Tensor<4>,
    window: usize,
    d_model: usize,
    #[module(skip)]
    frequencies: Frequencies<'static>,
    #[module(skip)]
    pairing: Pairing,
}

impl ModuleDisplay for RotaryEncoding {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        content
            .add("d_model", &self.d_model)
            .add("rotary_dim", &self.frequencies.rotary_dim())
            .add_debug_attribute("pairing", &self.pairing)
            .add("max_sequence_length", &self.max_sequence_length())
            .optional()
    }
}

impl RotaryEncoding {
    /// Creates the module from any frequencies, over heads of `d_model` channels, the first of which rotate.
    pub(crate) fn new(
        frequencies: Frequencies<'static>,
        pairing: Pairing,
        d_model: usize,
        max_sequence_length: usize,
        device: &Device,
    ) -> Result<Self, Error> {
        let rotary_dim = frequencies.rotary_dim();
        if rotary_dim > d_model {
            return Err(rope_core::Error::Rows(RowsError::RotaryDimExceedsHead {
                rotary_dim,
                head_dim: d_model,
            })
            .into());
        }
        let RotaryRows { cos, sin } =
            RotaryRows::at(&frequencies, 0..max_sequence_length, 1, device)?;
        Ok(RotaryEncoding {
            cos,
            sin,
            window: 0,
            d_model,
            frequencies,
            pairing,
        })
    }

    /// Creates the module from a model's `config.json`, read by [`rope_models::Config`].
    ///
    /// # Errors
    ///
    /// [`Error::Rotation`] if the model changes the pairing, rotates channels that are not the first ones of a head,
    /// rotates back, has full-width rows, pairs parts of a head by themselves, or rotates more than queries and keys;
    /// [`Error::Rope`] with [`rope_core::error::FrequenciesError::RowsTooLong`] for more positions than fit memory.
    #[cfg(feature = "models")]
    pub fn from_rotation(
        rotation: &rope_models::Rotation,
        max_sequence_length: usize,
        device: &Device,
    ) -> Result<Self, Error> {
        let (input, output) = rotation.pairing();
        let refused = [
            (input != output, "changes the pairing"),
            (
                rotation.window().start != 0,
                "leaves out the first channels",
            ),
            (
                rotation.direction() != rope_core::Direction::Forward,
                "is not forward",
            ),
            (rotation.rotates_values(), "rotates values as well"),
            (
                rotation.is_full_width(),
                "turns the two channels of a pair by different angles",
            ),
            (
                rotation.windows().count() > 1,
                "pairs parts of a head by themselves",
            ),
            (
                rotation.unrotates_output(),
                "turns the output of the attention back",
            ),
        ];
        if let Some(&(_, what)) = refused.iter().find(|(is, _)| *is) {
            return Err(Error::Rotation { what });
        }
        RotaryEncoding::new(
            rotation.frequencies().clone(),
            input,
            rotation.head_dim(),
            max_sequence_length,
            device,
        )
    }

    /// Creates the module of each layer of a model, in order; `None` for layers that do not rotate. Layers that rotate
    /// alike share their rows.
    ///
    /// # Errors
    ///
    /// [`Error::Model`] with the errors of [`rope_models::Model::layers`], and those of
    /// [`RotaryEncoding::from_rotation`].
    #[cfg(feature = "models")]
    pub fn of_layers(
        model: &rope_models::Model,
        max_sequence_length: usize,
        device: &Device,
    ) -> Result<Vec<Option<Self>>, Error> {
        let layers = model.layers()?;
        let rotations = layers.rotations();
        let made = rotations
            .iter()
            .map(|rotation| Self::from_rotation(rotation, max_sequence_length, device))
            .collect::<Result<Vec<_>, _>>()?;
        let of_layer = |layer: rope_models::Layer<'_>| {
            let rotation = layer.rotation?;
            let same = |other: &rope_models::Rotation| core::ptr::eq(other, rotation);
            made.get(rotations.iter().position(same)?).cloned()
        };
        Ok(layers.iter().map(of_layer).collect())
    }

    /// Rotates a tensor `[.., tokens, d_model]`, whose first token is at the first position of the window.
    ///
    /// # Panics
    ///
    /// As [`RotaryEncoding::apply`].
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.apply(x, 0)
    }

    /// Rotates a tensor `[.., tokens, d_model]`, whose first token is at position `start` of the window, in all
    /// sequences.
    ///
    /// # Panics
    ///
    /// With the message of the error of [`RotaryEncoding::try_apply`].
    pub fn apply<const D: usize>(&self, x: Tensor<D>, start: usize) -> Tensor<D> {
        or_panic(self.try_apply(x, start))
    }

    /// Rotates a tensor ([`RotaryEncoding::apply`]) without panics.
    ///
    /// # Errors
    ///
    /// [`Error::HeadDim`] if the last dimension of `x` is not `d_model`; [`Error::Position`] if a position does not fit
    /// `usize`; and the errors of [`rotate`].
    pub fn try_apply<const D: usize>(
        &self,
        x: Tensor<D>,
        start: usize,
    ) -> Result<Tensor<D>, Error> {
        let (_, tokens) = self.check(&x)?;
        let rows = self.window_rows(start, tokens)?;
        rotate(x, &rows, self.pairing)
    }

    /// Rotates a tensor `[.., tokens, d_model]` at these positions, independently of the window: one per token, the
    /// same in all sequences, or one per token of each sequence, sequence by sequence.
    ///
    /// Layers with common positions can share rows: [`RotaryEncoding::rows`], [`rotate`].
    ///
    /// # Errors
    ///
    /// [`Error::HeadDim`] if the last dimension of `x` is not `d_model`, and the errors of [`RotaryRows::at`] and of
    /// [`rotate`].
    pub fn apply_at<'p, const D: usize>(
        &self,
        x: Tensor<D>,
        positions: impl IntoPositions<'p>,
    ) -> Result<Tensor<D>, Error> {
        let (batch, tokens) = self.check(&x)?;
        let rows = self.frequencies.rows(positions)?;
        let sequences = if rows.len() == tokens { 1 } else { batch };
        let rows = RotaryRows::from_rows(&rows, sequences, &self.cos.device())?;
        rotate(x, &rows, self.pairing)
    }

    /// Computes the rows of these positions, for this number of sequences, as the argument of [`rotate`].
    ///
    /// # Errors
    ///
    /// The errors of [`RotaryRows::at`].
    pub fn rows<'p>(
        &self,
        positions: impl IntoPositions<'p>,
        sequences: usize,
    ) -> Result<RotaryRows, Error> {
        RotaryRows::at(&self.frequencies, positions, sequences, &self.cos.device())
    }

    /// Computes the rows ([`RotaryEncoding::rows`]) of positions in a tensor: `[tokens]` for all sequences alike, or
    /// `[batch, tokens]`; with frequencies on several axes (M-RoPE) `[axes, tokens]` or `[axes, batch, tokens]`.
    ///
    /// # Errors
    ///
    /// [`Error::PositionsShape`] for another shape, and the errors of [`RotaryRows::at`].
    pub fn rows_at<const D: usize>(&self, positions: Tensor<D, Int>) -> Result<RotaryRows, Error> {
        let (dims, axes) = (positions.dims(), self.frequencies.axes());
        let of_tokens = match dims.split_first() {
            Some((first, rest)) if axes > 1 && *first == axes => rest,
            _ if axes > 1 => &[],
            _ => &dims[..],
        };
        let sequences = match of_tokens {
            [_] => 1,
            [batch, _] => *batch,
            _ => {
                return Err(Error::PositionsShape {
                    dims: dims.to_vec(),
                    axes,
                });
            }
        };
        let ids: Vec<i64> = positions.into_data().iter::<i64>().collect();
        self.rows(Positions::axis_major(&ids), sequences)
    }

    /// Moves the window to begin at position `start`. (In burn-nn it moves only forward.)
    ///
    /// # Panics
    ///
    /// If the window would end beyond `usize::MAX`.
    pub fn shift(&mut self, start: usize) {
        let len = self.max_sequence_length();
        let rows = match start.checked_add(len) {
            Some(end) => self.rows(start..end, 1),
            None => Err(Error::Position {
                window: start,
                start: len,
            }),
        };
        RotaryRows {
            cos: self.cos,
            sin: self.sin,
        } = or_panic(rows);
        self.window = start;
    }

    /// Moves the window back to position 0.
    pub fn reset(&mut self) {
        if self.window != 0 {
            self.shift(0);
        }
    }

    /// Returns the frequencies.
    pub fn frequencies(&self) -> &Frequencies<'static> {
        &self.frequencies
    }

    /// Returns the pairing.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// Returns the number of positions in the window.
    pub fn max_sequence_length(&self) -> usize {
        self.cos.dims()[2]
    }

    /// Returns batch and tokens of a tensor with heads of `d_model` channels.
    fn check<const D: usize>(&self, x: &Tensor<D>) -> Result<(usize, usize), Error> {
        let dims = x.dims();
        let [.., tokens, given] = dims[..] else {
            return Err(Error::Dimensions { dimensions: D });
        };
        let needed = self.d_model;
        if given != needed {
            return Err(Error::HeadDim { given, needed });
        }
        let batch = if D > 2 { dims[0] } else { 1 };
        Ok((batch, tokens))
    }

    /// Returns the rows of `tokens` tokens from `start` of the window on: a part of it, or made for the call.
    fn window_rows(&self, start: usize, tokens: usize) -> Result<RotaryRows, Error> {
        let end = start.checked_add(tokens);
        if end.is_some_and(|end| end <= self.max_sequence_length()) {
            let (cos, sin) = (self.cos.clone(), self.sin.clone());
            return Ok(RotaryRows { cos, sin }.narrow(start, tokens));
        }
        let window = self.window;
        let beyond = Error::Position { window, start };
        let first = window.checked_add(start).ok_or(beyond.clone())?;
        let end = first.checked_add(tokens).ok_or(beyond)?;
        self.rows(first..end, 1)
    }
}

/// Unwraps a result: burn-nn's signatures have no room for an error.
pub(crate) fn or_panic<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("RotaryEncoding: {error}"))
}
