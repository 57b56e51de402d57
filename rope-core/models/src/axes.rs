//! How a model arranges its frequencies: which one of a set of base frequencies each pair takes, and which axis of the
//! positions drives it. Read from the `recomposition_frequencies` of each class.

use crate::error::Result;
use crate::json::{Object, given, invalid};
use crate::types::AxesOf;
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
    pub(crate) fn new(axes: AxesOf, rope: &Object, rotary_dim: &mut usize) -> Result<Self> {
        let pairs = *rotary_dim / 2;
        let two = || match *rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(rope_core::Error::RotaryDim {
                rotary_dim: *rotary_dim,
                required: "a multiple of 4 for two axes",
            }),
        };
        let (set_dim, axes, pairs): (usize, usize, Vec<(usize, usize)>) = match axes {
            AxesOf::Text => return Ok(Self::Known(Axes::from(*rotary_dim))),
            AxesOf::Mrope(default) => {
                let sections = sections(rope, default)?;
                return Ok(Self::Known(Axes::mrope(*rotary_dim, sections)));
            }
            AxesOf::MropeAlternating(default) => {
                let sections = sections(rope, default)?;
                return Ok(Self::Known(Axes::mrope_alternating(*rotary_dim, sections)));
            }
            AxesOf::Pixtral => {
                two()?;
                return Ok(Self::Known(Axes::pixtral(*rotary_dim)));
            }
            AxesOf::Vision => {
                two()?;
                return Ok(Self::Known(Axes::vision(*rotary_dim)));
            }
            AxesOf::Three => {
                let set = *rotary_dim / 3 / 2;
                *rotary_dim = 6 * set;
                return Ok(Self::Known(Axes::per_axis([set; 3])));
            }
            AxesOf::MropeInterleaved(default) => {
                let sections = sections(rope, default)?;
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
            AxesOf::RowsAndColumns => {
                two()?;
                (
                    *rotary_dim,
                    2,
                    (0..pairs).map(|pair| (pair, pair % 2)).collect(),
                )
            }
            AxesOf::ColumnsFirst => {
                let half = two()?;
                let place = |pair| match pair < half {
                    true => (pair, 1),
                    false => (pair - half, 0),
                };
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            AxesOf::ColumnsAndRows => {
                two()?;
                let place = |pair| (pair / 2, 1 - pair % 2);
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
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
fn sections(rope: &Object, default: [u8; 3]) -> Result<[usize; 3]> {
    let Some(own) = given(rope, "mrope_section") else {
        return Ok(default.map(usize::from));
    };
    let list: Option<Vec<usize>> = own.as_array().and_then(|list| {
        let section = |value: &Value| usize::try_from(value.as_u64()?).ok();
        list.iter().map(section).collect()
    });
    list.and_then(|list| list.try_into().ok())
        .ok_or_else(|| invalid("mrope_section", own, "three counts of pairs"))
}
