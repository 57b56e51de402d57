//! The arrangement of a model's frequencies: which one of a set of base frequencies each pair takes, and which axis of
//! the positions drives it. Read from the `recomposition_frequencies` of each class.

use crate::error::{Result, missing, must_be};
use crate::json::{Object, counts, given, invalid};
use crate::types::AxesOf;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::{Frequencies, Scaling};

/// The axes of the pairs of a head, or of the channels of full-width rows.
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
        // As rope-core says it of all others: here a list is made for the pairs before it is asked.
        if rotary_dim > 65536 {
            return Err(rope_core::Error::RotaryDim {
                rotary_dim,
                required: "even and between 2 and 65536",
            }
            .into());
        }
        let pairs = rotary_dim / 2;
        let two = || match rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(rope_core::Error::RotaryDim {
                rotary_dim,
                required: "a multiple of 4 for two axes",
            }),
        };
        Ok(match axes {
            AxesOf::Text => Self::Known(Axes::from(rotary_dim)),
            AxesOf::Mrope(default) => {
                Self::Known(Axes::mrope(rotary_dim, sections(rope, default)?))
            }
            AxesOf::MropeAlternating(default) => {
                let sections = sections(rope, default)?;
                Self::Known(Axes::mrope_alternating(rotary_dim, sections))
            }
            AxesOf::Pixtral => {
                two()?;
                Self::Known(Axes::pixtral(rotary_dim))
            }
            AxesOf::Vision => {
                two()?;
                Self::Known(Axes::vision(rotary_dim))
            }
            AxesOf::Three => Self::Known(Axes::per_axis([pairs / 3; 3])),
            AxesOf::Flux => match rotary_dim {
                128 => Self::Known(Axes::per_axis([8, 28, 28])),
                _ => {
                    return Err(must_be(
                        "attention_head_dim",
                        "128, as its axes have channels",
                    ));
                }
            },
            AxesOf::Wan => Self::Known(Axes::wan(rotary_dim)),
            AxesOf::MropeInterleaved(default) => {
                let sections = sections(rope, default)?;
                Self::given(rotary_dim, 3, pairs, &|pair| match pair % 3 {
                    axis if axis > 0 && pair / 3 < sections[axis] => (pair, axis),
                    _ => (pair, 0),
                })
            }
            AxesOf::RowsAndColumns => {
                two()?;
                Self::given(rotary_dim, 2, pairs, &|pair| (pair, pair % 2))
            }
            AxesOf::ColumnsFirst => {
                let half = two()?;
                Self::given(rotary_dim / 2, 2, pairs, &|pair| match pair < half {
                    true => (pair, 1),
                    false => (pair - half, 0),
                })
            }
            AxesOf::ChannelSections => {
                // `cat(f, f)` is cut into pieces of twice a section, one after the other.
                let sections = channel_sections(rope, pairs)?;
                Self::given(rotary_dim, sections.len(), 2 * pairs, &|channel| {
                    let (mut axis, mut end) = (0, 2 * sections[0]);
                    while end <= channel {
                        axis += 1;
                        end += 2 * sections[axis];
                    }
                    (channel % pairs, axis)
                })
            }
            AxesOf::ChannelWindows => {
                let width = rotary_dim / 3 / 2 * 2;
                let half = (width / 2).max(1);
                Self::given(width, 3, 3 * width, &|channel| {
                    (channel % width % half, channel / width)
                })
            }
            AxesOf::ColumnsAndRows => {
                two()?;
                Self::given(rotary_dim / 2, 2, pairs, &|pair| (pair / 2, 1 - pair % 2))
            }
        })
    }

    /// A set of base frequencies over that many channels, and what takes them where.
    #[inline(never)]
    fn given(
        set_dim: usize,
        axes: usize,
        places: usize,
        place: &dyn Fn(usize) -> (usize, usize),
    ) -> Self {
        Self::Given {
            set_dim,
            axes,
            pairs: (0..places).map(place).collect(),
        }
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
            } => Frequencies::new(Axes::from(*set_dim), base, scaling)?.arranged(*axes, pairs)?,
        })
    }
}

/// HunYuan-VL's sections, as many as axes, which cover the pairs.
#[inline(never)]
fn channel_sections(rope: &Object, pairs: usize) -> Result<Vec<usize>> {
    let key = "mrope_section";
    let older = given(rope, "xdrope_section");
    let own = given(rope, key).or(older).ok_or_else(|| missing(key))?;
    let covers = |list: &Vec<usize>| {
        let sum = list
            .iter()
            .fold(0_usize, |sum, own| sum.saturating_add(*own));
        sum == pairs
    };
    let list = counts(own).filter(covers);
    list.ok_or_else(|| invalid(key, own, "a count of pairs for each axis, all of a head"))
}

/// The sections of M-RoPE, the file's or the class's.
fn sections(rope: &Object, default: [u8; 3]) -> Result<[usize; 3]> {
    let Some(own) = given(rope, "mrope_section") else {
        return Ok(default.map(usize::from));
    };
    counts(own)
        .and_then(|list| list.try_into().ok())
        .ok_or_else(|| invalid("mrope_section", own, "three counts of pairs"))
}
