//! How a model arranges its frequencies: which one of a set of base frequencies each pair takes, and which axis of the
//! positions drives it. Read from the `recomposition_frequencies` of each class.

use super::json::{Object, given};
use super::types::Model;
use crate::error::Name;
use crate::frequencies::Result;
use crate::frequencies::axes::covered;
use crate::{Axes, Error, Frequencies, Scaling};
use alloc::vec::Vec;
use serde_json::Value;

/// One set of base frequencies, and for each pair its place in the set and its axis.
pub(super) struct Arrangement {
    set_dim: usize,
    axes: usize,
    pairs: Vec<(usize, u8)>,
}

impl Arrangement {
    /// The arrangement over that many channels. A model of video uses fewer, if they do not divide by three.
    pub(super) fn new(model: Model, rope: &Object, rotary_dim: &mut usize) -> Result<Self> {
        let pairs = *rotary_dim / 2;
        let word = model.value("axes").unwrap_or("text");
        let (scheme, default) = word.split_once(':').unwrap_or((word, ""));
        let sections = || sections(rope, default);
        let two = || match *rotary_dim % 4 {
            0 => Ok(pairs / 2),
            _ => Err(Error::RotaryDim {
                rotary_dim: *rotary_dim,
                required: "a multiple of 4 for two axes",
            }),
        };
        let (set_dim, axes, pairs): (usize, usize, Vec<(usize, u8)>) = match scheme {
            "mrope" => {
                let [time, height, width] = sections()?;
                covered(*rotary_dim, &[time, height, width])?;
                let axis = |pair| u8::from(pair >= time) + u8::from(pair >= time + height);
                (
                    *rotary_dim,
                    3,
                    (0..pairs).map(|pair| (pair, axis(pair))).collect(),
                )
            }
            "mrope-interleaved" => {
                let sections = sections()?;
                let axis = |pair: usize| match pair % 3 {
                    axis if axis > 0 && pair / 3 < sections[axis] => axis as u8,
                    _ => 0,
                };
                (
                    *rotary_dim,
                    3,
                    (0..pairs).map(|pair| (pair, axis(pair))).collect(),
                )
            }
            "mrope-alternating" => {
                let [height, width, time] = sections()?;
                covered(*rotary_dim, &[height, width, time])?;
                if height != width {
                    return Err(Error::Axes {
                        required: "as many pairs of height as of width where they alternate",
                    });
                }
                let axis = |pair| match pair < 2 * height {
                    true => 1 + (pair % 2) as u8,
                    false => 0,
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
                    (0..pairs).map(|pair| (pair, (pair % 2) as u8)).collect(),
                )
            }
            "pixtral" => {
                let half = two()?;
                let place = |pair| match pair < half {
                    true => (2 * pair, 0),
                    false => (2 * (pair - half) + 1, 1),
                };
                (*rotary_dim, 2, (0..pairs).map(place).collect())
            }
            "vision" | "columns-first" => {
                let half = two()?;
                let first = u8::from(scheme == "columns-first");
                let place = |pair| match pair < half {
                    true => (pair, first),
                    false => (pair - half, 1 - first),
                };
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            "columns-and-rows" => {
                two()?;
                let place = |pair| (pair / 2, 1 - (pair % 2) as u8);
                (*rotary_dim / 2, 2, (0..pairs).map(place).collect())
            }
            "three" => {
                let set = *rotary_dim / 3 / 2;
                *rotary_dim = 6 * set;
                let place = |pair| (pair % set, (pair / set) as u8);
                (2 * set, 3, (0..3 * set).map(place).collect())
            }
            _ => (*rotary_dim, 1, (0..pairs).map(|pair| (pair, 0)).collect()),
        };
        Ok(Self {
            set_dim,
            axes,
            pairs,
        })
    }

    pub(super) fn frequencies(
        &self,
        base: f64,
        scaling: &Scaling<'_>,
    ) -> Result<Frequencies<'static>> {
        let set = Frequencies::new(Axes::from(self.set_dim), base, scaling)?;
        Ok(set.arranged(self.axes, &self.pairs))
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
        .ok_or(Error::Invalid {
            key: "mrope_section",
            value: own.map_or(Name::EMPTY, |own| Name::of(format_args!("{own}"))),
            required: "three counts of pairs",
        })
}
