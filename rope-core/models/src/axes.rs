//! How a model arranges its frequencies: which one of a set of base frequencies each pair takes, and which axis of the
//! positions drives it. Read from the `recomposition_frequencies` of each class.

use crate::error::{Error, Result, quoted};
use crate::json::{Object, given};
use crate::types::Model;
use alloc::string::String;
use alloc::vec::Vec;
use rope_core::{Axes, Frequencies, Scaling};
use serde_json::Value;

/// How the pairs of a head lie over its axes.
pub(crate) enum Arrangement {
    /// As rope-core has it.
    Known(Axes<'static>),
    /// One set of base frequencies, and for each pair its place in the set and its axis.
    Given {
        set_dim: usize,
        axes: usize,
        pairs: Vec<(usize, usize)>,
    },
}

impl Arrangement {
    /// The arrangement over that many channels. A model of video uses fewer, if they do not divide by three.
    pub(crate) fn new(model: Model, rope: &Object, rotary_dim: &mut usize) -> Result<Self> {
        let pairs = *rotary_dim / 2;
        let word = model.value("axes").unwrap_or("text");
        let (scheme, default) = word.split_once(':').unwrap_or((word, ""));
        let sections = || sections(rope, default);
        let two = || match *rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(rope_core::Error::RotaryDim {
                rotary_dim: *rotary_dim,
                required: "a multiple of 4 for two axes",
            }),
        };
        let (set_dim, axes, pairs): (usize, usize, Vec<(usize, usize)>) = match scheme {
            "mrope" => return Ok(Self::Known(Axes::mrope(*rotary_dim, sections()?))),
            "mrope-alternating" => {
                let sections = sections()?;
                return Ok(Self::Known(Axes::mrope_alternating(*rotary_dim, sections)));
            }
            "pixtral" => {
                two()?;
                return Ok(Self::Known(Axes::pixtral(*rotary_dim)));
            }
            "vision" => {
                two()?;
                return Ok(Self::Known(Axes::vision(*rotary_dim)));
            }
            "three" => {
                let set = *rotary_dim / 3 / 2;
                *rotary_dim = 6 * set;
                return Ok(Self::Known(Axes::per_axis([set; 3])));
            }
            "mrope-interleaved" => {
                let sections = sections()?;
                let axis = |pair: usize| match pair % 3 {
                    axis if axis > 0 && pair / 3 < sections[axis] => axis,
                    _ => 0,
                };
                (
                    *rotary_dim,
                    3,
                    (0..pairs).map(|pair| (pair, axis(pair))).collect(),
                )
            }
            "rows-and-columns" => {
                two()?;
                (
                    *rotary_dim,
                    2,
                    (0..pairs).map(|pair| (pair, pair % 2)).collect(),
                )
            }
            "columns-first" => {
                let half = two()?;
                let place = |pair| match pair < half {
                    true => (pair, 1),
                    false => (pair - half, 0),
                };
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            "columns-and-rows" => {
                two()?;
                let place = |pair| (pair / 2, 1 - pair % 2);
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            _ => return Ok(Self::Known(Axes::from(*rotary_dim))),
        };
        Ok(Self::Given {
            set_dim,
            axes,
            pairs,
        })
    }

    pub(crate) fn frequencies(
        &self,
        base: f64,
        scaling: &Scaling<'_>,
    ) -> Result<Frequencies<'static>> {
        Ok(match self {
            Self::Known(axes) => Frequencies::new(*axes, base, scaling)?,
            Self::Given {
                set_dim,
                axes,
                pairs,
            } => Frequencies::new(*set_dim, base, scaling)?.arranged(*axes, pairs)?,
        })
    }
}

/// The sections of M-RoPE, the file's or the class's.
fn sections(rope: &Object, default: &str) -> Result<[usize; 3]> {
    let own = given(rope, "mrope_section");
    let list: Option<Vec<usize>> = match own {
        None => default
            .split(',')
            .map(|section| section.parse().ok())
            .collect(),
        Some(value) => value.as_array().and_then(|list| {
            let section = |value: &Value| usize::try_from(value.as_u64()?).ok();
            list.iter().map(section).collect()
        }),
    };
    list.and_then(|list| list.try_into().ok())
        .ok_or_else(|| Error::Invalid {
            key: "mrope_section",
            value: own.map_or_else(String::new, |own| quoted(format_args!("{own}"))),
            required: "three counts of pairs",
        })
}
