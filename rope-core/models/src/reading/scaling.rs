//! The scaling of the frequencies, from the rope parameters.

use super::Reading;
use super::parameters::rope_type;
use super::shape::contradiction;
use crate::base::error::{Error, Result, beginning, missing, out_of_range, positive};
use crate::base::json::{Object, given, length, number, numbers};
use crate::base::words;
use crate::types::{Name, RopeTypes};
use alloc::vec::Vec;
use rope_core::{Frequencies, LongRope, Scaling, Yarn};

impl Reading<'_> {
    /// Returns the frequencies for the length of the sequence, which is required if the result depends on it.
    pub(super) fn by_length(
        &self,
        scaling: &str,
        made: &mut dyn FnMut(u64) -> Result<Frequencies<'static>>,
    ) -> Result<Frequencies<'static>> {
        let depends = ["dynamic", "longrope", "growing alpha", "growing scale"].contains(&scaling);
        match self.choices.length {
            None if depends => {
                let short = made(1)?;
                match made(LONG).is_ok_and(|long| long == short) {
                    true => Ok(short),
                    false => Err(missing(LENGTH)),
                }
            }
            length => made(length.unwrap_or_default()),
        }
    }

    /// Returns the scaling; the caller stores its lists.
    pub(super) fn scaling<'l>(
        &self,
        name: &str,
        rope: &Object,
        length: u64,
        lists: &'l mut (Vec<f64>, Vec<f64>),
    ) -> Result<Scaling<'l>> {
        let required = |key| number(rope, key)?.ok_or_else(|| missing(key));
        let optional = |key| Ok::<f64, Error>(number(rope, key)?.unwrap_or(0.0));
        Ok(match name {
            "linear" => Scaling::Linear {
                factor: required("factor")?,
            },
            "alpha" => Scaling::NtkAlpha {
                alpha: required("alpha")?,
            },
            "growing alpha" => Scaling::NtkAlpha {
                alpha: {
                    let context = positive("seq_length", self.context()? as f64)?;
                    growing_alpha(length as f64, context)
                },
            },
            "growing scale" => Scaling::NtkAlpha {
                alpha: {
                    let base = number(self.config, "base_seqlen")?;
                    let base = base.ok_or_else(|| missing("base_seqlen"))?;
                    let length = length.max(self.context()?);
                    growing_alpha(length as f64, positive("base_seqlen", base)?)
                },
            },
            "dynamic" => Scaling::DynamicNtk {
                factor: required("factor")?,
                max_position_embeddings: self.context()?,
                length,
            },
            "yarn" if self.row.rope_types == RopeTypes::Bailing => self.bailing(rope)?,
            "yarn" => Scaling::Yarn(Yarn {
                beta_fast: optional("beta_fast")?,
                beta_slow: optional("beta_slow")?,
                truncate: self.parameters.truncate()?,
                attention_factor: number(rope, "attention_factor")?,
                mscale: optional("mscale")?,
                mscale_all_dim: optional("mscale_all_dim")?,
                ..Yarn::new(self.stretch(rope)?, self.original(rope)?)
            }),
            "longrope" => {
                let list = |key| numbers(rope, key)?.ok_or_else(|| missing(key));
                *lists = (list("short_factor")?, list("long_factor")?);
                self.longrope(rope, length, lists)?
            }
            "llama3" => Scaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor: required("low_freq_factor")?,
                high_freq_factor: required("high_freq_factor")?,
                original_context: self.original(rope)?,
            },
            "proportional" => Scaling::Proportional {
                partial_rotary_factor: self.partial(rope, 1)?.unwrap_or(self.usual_part(true)),
                factor: number(rope, "factor")?.unwrap_or(1.0),
            },
            _ => Scaling::Default,
        })
    }

    /// Returns TeleChat's factor of cosines and sines: YaRN's, by the length over that of the training.
    pub(super) fn growing_scale(&self, length: u64) -> Result<f64> {
        let trained = positive("training_seqlen", self.context()? as f64)?;
        let scale = (length as f64 / trained).max(1.0);
        let yarn = Frequencies::new(2, 10_000.0, &Scaling::Yarn(Yarn::new(scale, 1)))?;
        Ok(yarn.attention_factor())
    }

    /// Returns YaRN as the first Bailing reads it: DeepSeek's, whose factor of queries and keys has defaults.
    fn bailing(&self, rope: &Object) -> Result<Scaling<'static>> {
        let (key, factor) = ("original_max_position_embeddings", "attention_factor");
        let original = length(rope, key)?.unwrap_or(4096);
        if let Some(beside) = given(self.config, key) {
            let same = beside.as_f64() == Some(original as f64);
            self.notes.beside(key, beside, same, "");
        }
        if let Some(own) = given(rope, factor) {
            self.notes.inside(factor, own, false, "");
        }
        let optional = |key| Ok::<f64, Error>(number(rope, key)?.unwrap_or(0.0));
        let mut mscale = number(rope, "mscale")?.unwrap_or(1.0);
        let mscale_all_dim = optional("mscale_all_dim")?;
        if mscale_all_dim == 0.0 {
            if mscale != 1.0 {
                return Err(self.unsupported("an mscale without mscale_all_dim is not known here"));
            }
            mscale = 0.0;
        }
        let stretch = number(rope, "factor")?.ok_or_else(|| missing("factor"))?;
        Ok(Scaling::Yarn(Yarn {
            beta_fast: optional("beta_fast")?,
            beta_slow: optional("beta_slow")?,
            mscale,
            mscale_all_dim,
            ..Yarn::new(stretch, original)
        }))
    }

    pub(super) fn longrope<'l>(
        &self,
        rope: &Object,
        length: u64,
        lists: &'l (Vec<f64>, Vec<f64>),
    ) -> Result<Scaling<'l>> {
        let (short_factor, mut long_factor) = (&lists.0[..], &lists.1[..]);
        let original_context = self.original(rope)?;
        let length = match self.row.rope_types {
            // The class makes its table for the whole context, and another one only for a longer sequence.
            RopeTypes::MiniCpm => length.max(self.context()?),
            _ => length,
        };
        let mut attention_factor = number(rope, "attention_factor")?;
        if self.row.rope_types == RopeTypes::PhiMoe {
            // The class has one factor per list, and always uses the short list.
            let key = match length > original_context {
                true => "long_mscale",
                false => "short_mscale",
            };
            attention_factor = Some(number(rope, key)?.ok_or_else(|| missing(key))?);
            long_factor = short_factor;
        }
        let factor = self.stretch(rope)?;
        match self.row.rope_types {
            RopeTypes::SuOrYarn(_) if rope_type(rope)? == "yarn" => {
                let yarn = Scaling::Yarn(Yarn::new(factor, original_context));
                let yarn = Frequencies::new(2, 10_000.0, &yarn)?;
                attention_factor = attention_factor.or(Some(yarn.attention_factor()));
            }
            // Its formula has no bound below 1.
            RopeTypes::MiniCpm if factor < 1.0 => {
                return Err(out_of_range(
                    "max_position_embeddings",
                    format_args!("{factor} times original_max_position_embeddings"),
                    "at least as large",
                ));
            }
            _ => {}
        }
        Ok(Scaling::LongRope(LongRope {
            short_factor,
            long_factor,
            original_context,
            length,
            factor,
            attention_factor,
        }))
    }

    pub(super) fn context(&self) -> Result<u64> {
        let key = "max_position_embeddings";
        let other = match self.row.context {
            Name::Or(other) => Some(other),
            Name::Only(key) => {
                let key = key.name();
                return length(self.config, key)?.ok_or_else(|| missing(key));
            }
            Name::Absent => {
                return Err(self.unsupported(
                    "this rope_type fails in the model's own code, which has no context",
                ));
            }
            _ => None,
        };
        let usual = length(self.config, key)?;
        let own = match other {
            Some(other) => length(self.config, other.name())?,
            None => None,
        };
        match (usual, own, other) {
            // The order in which the class reads them determines which of them counts.
            (Some(usual), Some(own), Some(other)) if usual != own => {
                Err(contradiction(key, usual, other.name(), own, ""))
            }
            _ => {
                let of_class = self.sizes.context;
                let default =
                    (of_class > 0 && !self.config.contains_key(key)).then_some(of_class.into());
                usual.or(own).or(default).ok_or_else(|| missing(key))
            }
        }
    }

    /// Returns the context of the original training; a key beside the parameters overrides the one inside.
    pub(super) fn original(&self, rope: &Object) -> Result<u64> {
        let key = "original_max_position_embeddings";
        let default = match self.row.rope_types {
            RopeTypes::LongRope(original) | RopeTypes::SuOrYarn(original) => Some(original.into()),
            _ => None,
        };
        let beside = match self.parameters.by_layer {
            true => None,
            false => length(self.config, key)?.or(default),
        };
        match (length(rope, key)?, beside) {
            (inside, Some(beside)) => {
                if let (Some(inside), Some(value)) = (inside, rope.get(key)) {
                    self.notes.inside(key, value, inside == beside, "");
                }
                Ok(beside)
            }
            (Some(original), None) => Ok(original),
            (None, None) => self.context(),
        }
    }

    /// Returns YaRN's factor. A file without one has the quotient of both contexts, as transformers computes it: 1 if
    /// `original_max_position_embeddings` is missing too.
    pub(super) fn stretch(&self, rope: &Object) -> Result<f64> {
        match number(rope, "factor")? {
            Some(factor) => Ok(factor),
            None => Ok(self.context()? as f64 / self.original(rope)? as f64),
        }
    }
}

/// The name of the required choice if two lengths give different results.
pub(super) const LENGTH: &str = "the length of the sequence (Config::with_length)";

/// A length beyond every context.
pub(super) const LONG: u64 = 1 << 40;

/// Returns the first Qwen's alpha: 1 within the context, and one less than a power of two beyond it.
pub(super) fn growing_alpha(length: f64, context: f64) -> f64 {
    let mut power = 1.0;
    while power * context < length {
        power *= 2.0;
    }
    2.0 * power - 1.0
}

pub(super) fn known_type(name: &str) -> Result<&str> {
    if words::has(TYPES, name) {
        return Ok(name);
    }
    Err(Error::Unknown {
        key: "rope_type".into(),
        value: beginning(name),
        known: TYPES,
    }
    .into())
}

/// The known types of scaling, also for an error.
pub(super) const TYPES: &str = "default, linear, dynamic, yarn, longrope, llama3, proportional";
