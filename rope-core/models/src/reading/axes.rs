//! The arrangement of a model's frequencies: the base frequency and the axis of each pair. Derived from the
//! `recomposition_frequencies` of each class.

use crate::base::error::{Result, missing, out_of_range};
use crate::base::json::{Object, counts, given, invalid};
use crate::types::AxesOf;
use alloc::vec::Vec;
use rope_core::axes::Axes;
use rope_core::error::RowsError;
use rope_core::{Frequencies, Scaling};

/// The arrangement of the pairs of a head, or the channels of full-width rows, over the axes.
pub(crate) enum Arrangement {
    /// An arrangement of rope-core.
    Known(Axes<'static>),
    /// One set of base frequencies, and for each pair, or channel, its index in the set and its axis.
    Given {
        set_dim: usize,
        axes: usize,
        pairs: Vec<(usize, usize)>,
    },
}

impl Arrangement {
    /// Creates the arrangement over `rotary_dim` channels. A video model uses fewer if they do not divide by three.
    pub(crate) fn new(
        axes: AxesOf,
        config: &Object,
        rope: &Object,
        rotary_dim: usize,
    ) -> Result<Self> {
        // Checked here as in rope-core, because a list of the pairs is made before rope-core checks it.
        if rotary_dim > 65536 {
            return Err(rope_core::Error::Rows(RowsError::RotaryDim {
                rotary_dim,
                required: "even and between 2 and 65536",
            })
            .into());
        }
        let pairs = rotary_dim / 2;
        let two = || match rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(rope_core::Error::Rows(RowsError::RotaryDim {
                rotary_dim,
                required: "a multiple of 4 for two axes",
            })),
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
                channels => {
                    return Err(out_of_range(
                        "attention_head_dim",
                        format_args!("{channels}"),
                        "128, as its axes have channels",
                    ));
                }
            },
            AxesOf::Listed(key, default) => {
                let pairs = listed(config, key.name(), default, rotary_dim)?;
                Self::Known(match pairs[..] {
                    [one] => Axes::per_axis([one]),
                    [one, two] => Axes::per_axis([one, two]),
                    [one, two, three] => Axes::per_axis([one, two, three]),
                    [one, two, three, four] => Axes::per_axis([one, two, three, four]),
                    ref many => {
                        let value = format_args!("a list of {}", many.len());
                        return Err(out_of_range(
                            key.name(),
                            value,
                            "a list of one to four axes",
                        ));
                    }
                })
            }
            AxesOf::Wan => Self::Known(Axes::wan(rotary_dim)),
            AxesOf::MropeInterleaved(default) | AxesOf::MropeInterleavedWhole(default) => {
                let sections = sections(rope, default)?;
                if matches!(axes, AxesOf::MropeInterleavedWhole(_)) {
                    check_whole(sections, pairs)?;
                }
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
                // The code splits `cat(f, f)` into pieces of twice a section.
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

    /// Creates a set of base frequencies over `set_dim` channels, with the index and axis of each pair or channel.
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

/// Checks that sections cover the pairs of a head.
#[inline(never)]
fn check_whole([time, rows, columns]: [usize; 3], pairs: usize) -> Result<()> {
    let sum = time.saturating_add(rows).saturating_add(columns);
    if sum == pairs {
        return Ok(());
    }
    Err(out_of_range(
        "mrope_section",
        format_args!("[{time}, {rows}, {columns}]"),
        "three counts of pairs, half of the rotated channels in all",
    ))
}

/// Returns HunYuan-VL's sections, as many as axes, which cover the pairs.
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

/// Returns the pairs of each axis, from the file's channels or the class's, which are those of a head.
#[inline(never)]
fn listed(
    config: &Object,
    key: &'static str,
    default: [u8; 4],
    rotary_dim: usize,
) -> Result<Vec<usize>> {
    let mut channels: Vec<usize> = default.iter().copied().map(usize::from).collect();
    channels.retain(|own| *own > 0);
    if let Some(own) = given(config, key) {
        let refused = || invalid(key, own, "even counts of channels, one an axis");
        channels = counts(own).ok_or_else(refused)?;
        if channels
            .iter()
            .any(|own| *own == 0 || !own.is_multiple_of(2))
        {
            return Err(refused());
        }
    }
    let sum = channels
        .iter()
        .fold(0_usize, |sum, own| sum.saturating_add(*own));
    if sum != rotary_dim {
        return Err(out_of_range(
            key,
            format_args!("a list of {sum} channels"),
            "one of all channels of a head, as its code adds them up",
        ));
    }
    Ok(channels.iter().map(|own| own / 2).collect())
}

/// Returns the sections of M-RoPE, from the file or the class.
fn sections(rope: &Object, default: [u8; 3]) -> Result<[usize; 3]> {
    let Some(own) = given(rope, "mrope_section") else {
        return Ok(default.map(usize::from));
    };
    counts(own)
        .and_then(|list| list.try_into().ok())
        .ok_or_else(|| invalid("mrope_section", own, "three counts of pairs"))
}
