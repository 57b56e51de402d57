//! The configuration of the module: burn-nn's, with a pairing and a partial rotation.

use alloc::vec::Vec;

use burn_core as burn;

use burn::config::Config;
use burn::serde::{Deserialize, Serialize};
use burn::tensor::{DType, Device, Tensor, TensorData};
use rope_core::{Frequencies, Pairing, Scaling};

use crate::encoding::or_panic;
use crate::{Error, RotaryEncoding};

/// The configuration of a [`RotaryEncoding`]. The names are burn-nn's, whose configuration files can be read.
///
/// ```
/// use burn::tensor::Device;
/// use rope_burn::RotaryEncodingConfig;
/// use rope_core::{Pairing, Scaling, Yarn};
///
/// let device = Device::flex();
/// let as_in_burn = RotaryEncodingConfig::new(512, 64).init(&device);
/// let phi = RotaryEncodingConfig::new(2048, 80)
///     .with_pairing(Pairing::Half)
///     .with_rotary_dim(Some(32))
///     .try_init(&device)?;
/// let qwen = RotaryEncodingConfig::new(4096, 128)
///     .with_theta(1e6)
///     .with_pairing(Pairing::Half)
///     .init_with_scaling(&Scaling::Yarn(Yarn::new(4.0, 32_768)), &device)?;
/// # let _ = (as_in_burn, phi, qwen);
/// # Ok::<(), rope_burn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(crate = "burn_core::serde")]
pub struct RotaryEncodingConfig {
    /// The number of positions whose rows are made in advance. (Rows of other positions are made on demand.)
    pub max_sequence_length: usize,
    /// The channels of a head: the last dimension of a rotated tensor.
    pub d_model: usize,
    /// The base of the frequencies, `rope_theta`; 10,000 by default.
    #[serde(default = "default_theta")]
    pub theta: f64,
    /// The pairing; interleaved by default, as in burn-nn.
    #[serde(default = "default_pairing", with = "pairing_by_name")]
    pub pairing: Pairing,
    /// The number of rotated channels of a head, the first ones; all by default.
    #[serde(default)]
    pub rotary_dim: Option<usize>,
}

impl Config for RotaryEncodingConfig {}

impl RotaryEncodingConfig {
    /// Creates the configuration for all channels of a head of `d_model`, interleaved, with a base of 10,000.
    pub fn new(max_sequence_length: usize, d_model: usize) -> Self {
        RotaryEncodingConfig {
            max_sequence_length,
            d_model,
            theta: default_theta(),
            pairing: default_pairing(),
            rotary_dim: None,
        }
    }

    /// Sets the base.
    #[must_use]
    pub fn with_theta(self, theta: impl Into<f64>) -> Self {
        let theta = theta.into();
        RotaryEncodingConfig { theta, ..self }
    }

    /// Sets the pairing.
    #[must_use]
    pub fn with_pairing(self, pairing: Pairing) -> Self {
        RotaryEncodingConfig { pairing, ..self }
    }

    /// Sets the number of rotated channels.
    #[must_use]
    pub fn with_rotary_dim(self, rotary_dim: Option<usize>) -> Self {
        RotaryEncodingConfig { rotary_dim, ..self }
    }

    /// Creates the module, without scaling, as burn's own configurations do.
    ///
    /// # Panics
    ///
    /// With the message of the error of [`RotaryEncodingConfig::try_init`].
    pub fn init(&self, device: &Device) -> RotaryEncoding {
        or_panic(self.try_init(device))
    }

    /// Creates the module ([`RotaryEncodingConfig::init`]) without panics.
    ///
    /// # Errors
    ///
    /// The errors of [`RotaryEncodingConfig::init_with_scaling`].
    pub fn try_init(&self, device: &Device) -> Result<RotaryEncoding, Error> {
        self.init_with_scaling(&Scaling::Default, device)
    }

    /// Creates the module with a published scaling, by the names of its parameters.
    ///
    /// # Errors
    ///
    /// [`Error::Rope`] with the errors of [`Frequencies::new`]; with
    /// [`rope_core::error::RowsError::RotaryDimExceedsHead`] if more channels rotate than a head has; with
    /// [`rope_core::error::FrequenciesError::RowsTooLong`] for more positions than fit memory.
    pub fn init_with_scaling(
        &self,
        scaling: &Scaling<'_>,
        device: &Device,
    ) -> Result<RotaryEncoding, Error> {
        let frequencies = Frequencies::new(self.rotated(), self.theta, scaling)?;
        self.init_with_frequencies(frequencies, device)
    }

    /// Creates the module with inverse frequencies that a function computes from the unscaled ones, `[pairs]`, in
    /// radians per position: burn-nn's way to scale. They are read once, as constants.
    ///
    /// # Errors
    ///
    /// The errors of [`RotaryEncodingConfig::init_with_scaling`], and of [`Frequencies::from_inverse`] for the result
    /// of the function; [`Error::Frequencies`] if that is not `f32`.
    pub fn init_with_frequency_scaling(
        &self,
        scaling: impl Fn(Tensor<1>) -> Tensor<1>,
        device: &Device,
    ) -> Result<RotaryEncoding, Error> {
        let rotated = self.rotated();
        let frequencies = Frequencies::new(rotated, self.theta, &Scaling::Default)?;
        let inverse: Vec<f32> = frequencies.iter().map(|pair| pair.inverse_f32).collect();
        let data = TensorData::new(inverse, [frequencies.iter().len()]);
        let scaled = scaling(Tensor::from_data(data, (device, DType::F32))).into_data();
        let dtype = scaled.dtype();
        let inverse = scaled
            .as_slice::<f32>()
            .map_err(|_| Error::Frequencies { dtype })?;
        self.init_with_frequencies(Frequencies::from_inverse(rotated, inverse, 1.0)?, device)
    }

    /// Creates the module with rope-core's frequencies, which include base and scaling: `theta` is not used.
    ///
    /// # Errors
    ///
    /// [`Error::RotaryDim`] if `rotary_dim` is set and differs from theirs; [`Error::Rope`] with
    /// [`rope_core::error::RowsError::RotaryDimExceedsHead`] and [`rope_core::error::FrequenciesError::RowsTooLong`] as
    /// [`RotaryEncodingConfig::init_with_scaling`].
    pub fn init_with_frequencies(
        &self,
        frequencies: Frequencies<'static>,
        device: &Device,
    ) -> Result<RotaryEncoding, Error> {
        let rotary_dim = frequencies.rotary_dim();
        match self.rotary_dim {
            Some(config) if config != rotary_dim => Err(Error::RotaryDim {
                frequencies: rotary_dim,
                config,
            }),
            _ => RotaryEncoding::new(
                frequencies,
                self.pairing,
                self.d_model,
                self.max_sequence_length,
                device,
            ),
        }
    }

    /// Returns the number of rotated channels.
    fn rotated(&self) -> usize {
        self.rotary_dim.unwrap_or(self.d_model)
    }
}

fn default_theta() -> f64 {
    10_000.0
}

fn default_pairing() -> Pairing {
    Pairing::Interleaved
}

/// A pairing in a file, by name.
mod pairing_by_name {
    use alloc::string::String;

    use burn_core::serde::de::Error;
    use burn_core::serde::{Deserialize, Deserializer, Serializer};
    use rope_core::Pairing;

    pub(super) fn serialize<S: Serializer>(pairing: &Pairing, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(pairing)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pairing, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
