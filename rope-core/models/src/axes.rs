//! How a model arranges its frequencies: which one of a set of base frequencies each pair takes, and which axis of the
//! positions drives it. Read from the `recomposition_frequencies` of each class.

use crate::error::{Result, missing, unread};
use crate::json::{Object, Value, given, invalid};
use crate::types::AxesOf;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::{Frequencies, Scaling};

/// How the pairs of a head, or the channels of full-width rows, lie over its axes.
pub(crate) enum Arrangement {
    /// As rope-core has it.
    Known(Axes<'static>),
    /// One set of base frequencies, and for each pair, or channel, its place in the set and its axis.
    Given {
        set_dim: usize,
        axes: usize,
        pairs: Vec<(usize, usize)>,
    },
}

impl Arrangement {
    /// The arrangement over that many channels. A model of video uses fewer, if they do not divide by three.
    pub(crate) fn new(axes: AxesOf, rope: &Object, rotary_dim: usize) -> Result<Self> {
        let pairs = rotary_dim / 2;
        let two = || match rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(rope_core::Error::RotaryDim {
                rotary_dim,
                required: "a multiple of 4 for two axes",
            }),
        };
        let (set_dim, axes, pairs): (usize, usize, Vec<(usize, usize)>) = match axes {
            AxesOf::Text => return Ok(Self::Known(Axes::from(rotary_dim))),
            AxesOf::Mrope(default) => {
                let sections = sections(rope, default)?;
                return Ok(Self::Known(Axes::mrope(rotary_dim, sections)));
            }
            AxesOf::MropeAlternating(default) => {
                let sections = sections(rope, default)?;
                return Ok(Self::Known(Axes::mrope_alternating(rotary_dim, sections)));
            }
            AxesOf::Pixtral => {
                two()?;
                return Ok(Self::Known(Axes::pixtral(rotary_dim)));
            }
            AxesOf::Vision => {
                two()?;
                return Ok(Self::Known(Axes::vision(rotary_dim)));
            }
            AxesOf::Three => {
                return Ok(Self::Known(Axes::per_axis([pairs / 3; 3])));
            }
            AxesOf::MropeInterleaved(default) => {
                let sections = sections(rope, default)?;
                let axis = |pair: usize| match pair % 3 {
                    axis if axis > 0 && pair / 3 < sections[axis] => axis,
                    _ => 0,
                };
                (
                    rotary_dim,
                    3,
                    (0..pairs).map(|pair| (pair, axis(pair))).collect(),
                )
            }
            AxesOf::RowsAndColumns => {
                two()?;
                (
                    rotary_dim,
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
                (rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            AxesOf::ChannelSections => {
                // `cat(f, f)` is cut into pieces of twice a section, one after the other.
                let sections = channel_sections(rope, pairs)?;
                let ends = sections.iter().scan(0, |end, section| {
                    *end += 2 * section;
                    Some(*end)
                });
                let ends: Vec<usize> = ends.collect();
                let axis = |channel| ends.iter().filter(|&&end| end <= channel).count();
                let place = |channel| (channel % pairs, axis(channel));
                let channels = (0..2 * pairs).map(place).collect();
                (rotary_dim, sections.len(), channels)
            }
            AxesOf::ChannelWindows => {
                let width = rotary_dim / 3 / 2 * 2;
                let half = (width / 2).max(1);
                let place = |channel| (channel % width % half, channel / width);
                (width, 3, (0..3 * width).map(place).collect())
            }
            AxesOf::ColumnsAndRows => {
                two()?;
                let place = |pair| (pair / 2, 1 - pair % 2);
                (rotary_dim / 2, 2, (0..pairs).map(place).collect())
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

/// HunYuan-VL's sections, as many as axes, which cover the pairs.
#[inline(never)]
fn channel_sections(rope: &Object, pairs: usize) -> Result<Vec<usize>> {
    let key = "mrope_section";
    let older = given(rope, "xdrope_section");
    let own = given(rope, key).or(older).ok_or_else(|| missing(key))?;
    if older.is_some_and(|older| older != own) {
        return Err(unread("xdrope_section"));
    }
    let list: Option<Vec<usize>> = own.as_array().and_then(|list| {
        let section = |value: &Value| usize::try_from(value.as_u64()?).ok();
        list.iter().map(section).collect()
    });
    let covers = |list: &Vec<usize>| {
        let sum = list
            .iter()
            .fold(0_usize, |sum, own| sum.saturating_add(*own));
        sum == pairs
    };
    let list = list.filter(covers);
    list.ok_or_else(|| invalid(key, own, "a count of pairs for each axis, all of a head"))
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
