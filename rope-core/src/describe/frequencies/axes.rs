//! The axis of the positions for each pair.
//!
//! Text has one axis. Images have two; video and multimodal decoders have three or four. Each pair of a head follows
//! one axis. Models differ in the assignment of pairs, and in the base frequencies: all axes share one set (pair `j`
//! has the frequency `base^(-2j/d)` on any axis), or each axis has its own set.
//!
//! # What is not here
//!
//! Two published layouts rotate the two members of a pair by different angles. This is not a rotation: it keeps neither
//! the length of a vector nor the dependence on relative positions, and needs cos and sin tables of full width.
//! * V-JEPA 2 (Hugging Face `vjepa2`, `rotate_queries_or_keys`) pairs neighbors but tiles the frequencies
//!   `[f0..fn, f0..fn]`.
//! * HunYuan-VL in Hugging Face 5.23 cuts the duplicated table at twice the sections, so a pair may have its two angles
//!   from two axes. vLLM's `xdrope.py` cuts the table of pairs instead: that is [`Axes::mrope`] with four sections. The
//!   two disagree; compare with the checkpoint before trusting either.

use crate::Error;
use crate::base::error::saturated;
use crate::error::{FrequenciesError, RowsError};

/// The most axes of a position.
pub(crate) const MAX_AXES: usize = 4;

/// The most rotated channels. Far above any model (512), and low enough that a mistaken number costs milliseconds
/// instead of the machine's memory.
pub(crate) const MAX_ROTARY_DIM: usize = 65536;

/// The axis and the base frequency of each pair.
///
/// A plain `rotary_dim` converts to the single axis of text, so `Frequencies::new(128, ..)` needs no `Axes`.
/// [`Frequencies::new`](crate::Frequencies::new) checks the numbers of a layout.
///
/// Sections count pairs, as the models' `mrope_section` does. Sections of M-RoPE must sum to the pairs of `rotary_dim`:
/// fewer would leave channels unrotated and change every frequency. For a model that rotates a part of its head, pass
/// the size of that part (GLM-4V: 64 of 128 channels, `[8, 12, 12]`).
///
/// Axes have the order of the positions: time, height, width for the decoders.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::axes::Axes;
/// use rope_core::{Frequencies, Positions, Scaling};
///
/// // Qwen2-VL: 16 pairs follow the time, 24 the height, 24 the width.
/// let axes = Axes::mrope(128, [16, 24, 24]);
/// let frequencies = Frequencies::new(axes, 1_000_000.0, &Scaling::Default)?;
/// // Two patches of an image, `[3, tokens]`: the same time and row, neighboring columns.
/// let rows = frequencies.rows(Positions::axis_major(&[0, 0, 5, 5, 8, 9]))?;
/// assert_eq!(rows.len(), 2);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes<'a> {
    scheme: Scheme,
    rotary_dim: usize,
    /// Zeros after the last section.
    sections: [usize; MAX_AXES],
    count: usize,
    /// The axis of each pair, for [`Scheme::Given`].
    given: &'a [u8],
}

/// One arrangement per constructor of [`Axes`], by its name; several constructors share [`Scheme::PerAxis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Text,
    Mrope,
    MropeInterleaved,
    MropeAlternating,
    MropeSpread,
    GgmlMrope,
    GgmlImrope,
    PerAxis,
    Pixtral,
    Given,
}

/// The axis of the positions and the base frequency of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) pair: usize,
    pub(crate) axis: u8,
    pub(crate) index: usize,
}

/// Returns the pairs of `rotary_dim` rotated channels, or refuses their number.
pub(super) fn pairs_of(rotary_dim: usize) -> Result<usize, Error> {
    match rotary_dim {
        2..=MAX_ROTARY_DIM if rotary_dim.is_multiple_of(2) => Ok(rotary_dim / 2),
        _ => Err(Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and between 2 and 65536",
        })),
    }
}

impl From<usize> for Axes<'_> {
    /// Creates one axis over `rotary_dim` rotated channels: text.
    fn from(rotary_dim: usize) -> Self {
        Axes::of(Scheme::Text, rotary_dim, [0])
    }
}

impl<'a> Axes<'a> {
    /// M-RoPE in chunks: the first `sections[0]` pairs follow axis 0, the next `sections[1]` axis 1, and so on, up to
    /// four sections. All share one set of base frequencies.
    ///
    /// Qwen2-VL, Qwen2.5-VL and Qwen2.5-Omni (`[16, 24, 24]`, Hugging Face `qwen2_vl`), GLM-4V and GLM-OCR (`[8, 12,
    /// 12]` over the rotated half of the head, interleaved pairs, `glm4v`), and HunYuan-VL's XD-RoPE as in vLLM.
    ///
    /// ```
    /// # #[cfg(feature = "alloc")] {
    /// use rope_core::axes::Axes;
    /// use rope_core::error::FrequenciesError;
    /// use rope_core::{Error, Frequencies, Scaling};
    ///
    /// assert!(Frequencies::new(Axes::mrope(128, [16, 24, 24]), 1e6, &Scaling::Default).is_ok());
    /// // 60 pairs, where 128 channels are 64
    /// let typo = Frequencies::new(Axes::mrope(128, [16, 24, 20]), 1e6, &Scaling::Default);
    /// assert!(matches!(typo, Err(Error::Frequencies(FrequenciesError::Sections { .. }))));
    /// # };
    /// ```
    #[doc(alias = "mrope_section")]
    pub const fn mrope<const N: usize>(rotary_dim: usize, sections: [usize; N]) -> Self {
        const { assert!(N >= 1 && N <= MAX_AXES, "one to four sections") };
        Axes::of(Scheme::Mrope, rotary_dim, sections)
    }

    /// Interleaved M-RoPE, `[time, height, width]`: pairs `j` with `j % 3 == 1` below three times the height section
    /// follow the height, pairs with `j % 3 == 2` below three times the width section follow the width, and all others
    /// time. All share one set of base frequencies. `THWTHW..TT`.
    ///
    /// Qwen3-VL and Qwen3-Omni (`[24, 20, 20]`), Qwen3.5 (`[11, 11, 10]`): Hugging Face `qwen3_vl`,
    /// `apply_interleaved_mrope`.
    pub const fn mrope_interleaved(rotary_dim: usize, sections: [usize; 3]) -> Self {
        Axes::of(Scheme::MropeInterleaved, rotary_dim, sections)
    }

    /// M-RoPE with alternating height and width, `[height, width, time]`: of the first `height + width` pairs the even
    /// ones follow the height (axis 1) and the odd ones the width (axis 2); the rest follow time (axis 0). All share
    /// one set of base frequencies. The two sections must be equal.
    ///
    /// ERNIE-4.5-VL (`[22, 22, 20]`, interleaved pairs, Hugging Face `ernie4_5_vl_moe`) and Bailing, whose list has the
    /// order time, height, width (vLLM `bailing_mrope.py`).
    pub const fn mrope_alternating(rotary_dim: usize, sections: [usize; 3]) -> Self {
        Axes::of(Scheme::MropeAlternating, rotary_dim, sections)
    }

    /// M-RoPE spread evenly, `[time, height, width]`: each pair goes to the axis with the smallest served fraction of
    /// its section, never to the same axis twice in a row if another has pairs left, and the last pair to time. All
    /// share one set of base frequencies.
    ///
    /// openPangu (vLLM `mrope_interleaved.py`, `get_mrope_interleaved_id_list`).
    pub const fn mrope_spread(rotary_dim: usize, sections: [usize; 3]) -> Self {
        Axes::of(Scheme::MropeSpread, rotary_dim, sections)
    }

    /// ggml's `GGML_ROPE_TYPE_MROPE`, sections `[time, height, width, extra]`: chunks as in [`Axes::mrope`], repeated
    /// if the sections do not cover the head.
    pub const fn ggml_mrope(rotary_dim: usize, sections: [usize; 4]) -> Self {
        Axes::of(Scheme::GgmlMrope, rotary_dim, sections)
    }

    /// ggml's `GGML_ROPE_TYPE_IMROPE`, sections `[time, height, width, extra]`: as [`Axes::mrope_interleaved`], but the
    /// remaining pairs follow the extra axis 3 instead of time. llama.cpp passes 0 on that axis: two pairs of Qwen3-VL
    /// (61 and 62 of 64) do not rotate there, and rotate in Hugging Face.
    pub const fn ggml_imrope(rotary_dim: usize, sections: [usize; 4]) -> Self {
        Axes::of(Scheme::GgmlImrope, rotary_dim, sections)
    }

    /// Separate base frequencies per axis: the first `pairs[0]` pairs follow axis 0 with the frequencies of a head of
    /// `2 * pairs[0]` channels, the next `pairs[1]` axis 1 with the frequencies of `2 * pairs[1]`, and so on, up to
    /// four axes.
    pub const fn per_axis<const N: usize>(pairs: [usize; N]) -> Self {
        const { assert!(N >= 1 && N <= MAX_AXES, "one to four axes") };
        let axes = Axes::of(Scheme::PerAxis, 0, pairs);
        let rotary_dim = sum(axes.sections).saturating_mul(2);
        Axes { rotary_dim, ..axes }
    }

    /// Images: two axes, each with half of the pairs and its own base frequencies. [`Axes::per_axis`] over `[rotary_dim
    /// / 4; 2]`.
    ///
    /// The vision towers of Qwen2-VL to Qwen3-VL, Kimi and GLM-4V (axes height, width; half-split pairs), ggml's
    /// `GGML_ROPE_TYPE_VISION`, SAM 2 and EdgeTAM (axes x, y; interleaved pairs), Llama 4 (axes `column + 1`, `row +
    /// 1`; interleaved pairs, class token at 0), DINOv3 (with [`Scaling::Turns`](crate::Scaling::Turns) and real-valued
    /// coordinates), and Gemma 4. Gemma 4's pairs are half-split within each axis' half of the head: its plans have two
    /// [`parts`](crate::Rope::with_parts).
    pub const fn vision(rotary_dim: usize) -> Self {
        Axes::of(Scheme::PerAxis, rotary_dim, [rotary_dim / 4; 2])
    }

    /// Pixtral's images: one set of base frequencies over the whole head. The even ones follow the height (axis 0, the
    /// first half of the pairs), the odd ones the width (axis 1, the second half). Hugging Face `pixtral`; Mistral 3's
    /// vision tower.
    pub const fn pixtral(rotary_dim: usize) -> Self {
        Axes::of(Scheme::Pixtral, rotary_dim, [0; 2])
    }

    /// WAN's video, axes time, height, width with base frequencies for each: height and width have `head_dim / 6`
    /// pairs, time the rest (44, 42 and 42 channels of 128).
    pub const fn wan(head_dim: usize) -> Self {
        let side = head_dim / 6;
        let sections = [head_dim / 2 - 2 * side, side, side];
        Axes::of(Scheme::PerAxis, head_dim, sections)
    }

    /// Any other layout with one set of base frequencies: the axis (0 to 3) of every pair.
    pub const fn given(axes: &'a [u8]) -> Self {
        Axes {
            given: axes,
            ..Axes::of(Scheme::Given, axes.len().saturating_mul(2), [])
        }
    }

    const fn of<const N: usize>(scheme: Scheme, rotary_dim: usize, sections: [usize; N]) -> Self {
        let mut wide = [0; MAX_AXES];
        wide.split_at_mut(N).0.copy_from_slice(&sections);
        Axes {
            scheme,
            rotary_dim,
            sections: wide,
            count: N,
            given: &[],
        }
    }

    /// Checks the numbers; returns the pairs that they cover.
    #[inline(never)]
    pub(crate) fn pairs(&self) -> Result<usize, Error> {
        let Axes {
            scheme,
            rotary_dim,
            sections,
            given,
            ..
        } = *self;
        let all = sum(sections);
        let axes = |given, required| {
            Err(Error::Frequencies(FrequenciesError::Axes {
                given,
                required,
            }))
        };
        let divided = |required| {
            Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim,
                required,
            }))
        };
        match scheme {
            Scheme::Pixtral if !rotary_dim.is_multiple_of(4) => {
                return divided("a multiple of 4 for two axes");
            }
            Scheme::PerAxis if all.saturating_mul(2) != rotary_dim => {
                return divided("divisible among the axes");
            }
            Scheme::GgmlMrope | Scheme::GgmlImrope if all == 0 => {
                return axes(0, "sections with at least one pair");
            }
            Scheme::MropeAlternating if sections[0] != sections[1] => {
                return axes(
                    sections[0],
                    "as many pairs of height as of width where they alternate",
                );
            }
            Scheme::MropeSpread if sections[0] == 0 => {
                return axes(0, "at least one pair of time, which has the last one");
            }
            Scheme::Given
                if let Some(&axis) = given.iter().find(|&&axis| usize::from(axis) >= MAX_AXES) =>
            {
                return axes(axis.into(), "numbered 0 to 3");
            }
            _ => {}
        }
        let pairs = pairs_of(rotary_dim)?;
        let covers = match scheme {
            Scheme::Mrope
            | Scheme::MropeInterleaved
            | Scheme::MropeAlternating
            | Scheme::MropeSpread => all == pairs,
            _ => true,
        };
        match covers {
            true => Ok(pairs),
            false => Err(Error::Frequencies(FrequenciesError::Sections {
                sections,
                axes: self.count as u8,
                rotary_dim: saturated(rotary_dim),
            })),
        }
    }

    /// Returns the number of axes.
    pub(crate) fn count(&self) -> usize {
        match self.scheme {
            Scheme::Given => usize::from(self.given.iter().copied().max().unwrap_or(0)) + 1,
            _ => self.count,
        }
    }

    /// Returns the pairs of each set of base frequencies, in the order of the pairs. They sum to [`Axes::pairs`].
    pub(crate) fn pairs_of_sets(&self, pairs: usize) -> [usize; MAX_AXES] {
        match self.scheme {
            Scheme::PerAxis => self.sections,
            _ => [pairs, 0, 0, 0],
        }
    }

    /// Returns the assignment of each pair, in order. Requires axes that [`Axes::pairs`] accepts.
    pub(crate) fn assignments(self, pairs: usize) -> Assignments<'a> {
        Assignments {
            axes: self,
            pairs,
            pair: 0,
            placed: [0; 3],
            last: None,
        }
    }
}

/// The iterator of [`Axes::assignments`]. A separate type: iterator adapters took 4 KB of machine code.
pub(crate) struct Assignments<'a> {
    axes: Axes<'a>,
    pairs: usize,
    /// The next pair.
    pair: usize,
    /// State of [`Axes::mrope_spread`]: the pairs placed on each axis, and the axis of the previous pair.
    placed: [usize; 3],
    last: Option<usize>,
}

impl Iterator for Assignments<'_> {
    type Item = Assignment;

    #[inline(never)]
    fn next(&mut self) -> Option<Assignment> {
        let pair = self.pair;
        if pair == self.pairs {
            return None;
        }
        self.pair += 1;
        let (sections, given) = (self.axes.sections, self.axes.given);
        let (axis, index) = match self.axes.scheme {
            Scheme::Text => (0, pair),
            Scheme::Mrope => (section(&sections, pair).0, pair),
            Scheme::MropeInterleaved => match pair % 3 {
                axis if axis > 0 && pair / 3 < sections[axis] => (axis, pair),
                _ => (0, pair),
            },
            Scheme::MropeAlternating => match pair < sections[0] + sections[1] {
                true => (1 + pair % 2, pair),
                false => (0, pair),
            },
            Scheme::MropeSpread => {
                let [time, height, width, _] = sections;
                // The last of all pairs is time's.
                let axis = if pair + 1 == self.pairs {
                    0
                } else {
                    least_served([time - 1, height, width], self.placed, self.last)
                };
                self.placed[axis] += 1;
                self.last = Some(axis);
                (axis, pair)
            }
            Scheme::GgmlMrope => (section(&sections, pair % sum(sections)).0, pair),
            Scheme::GgmlImrope => match pair % sum(sections) {
                sector if sector / 3 < sections[sector % 3] => (sector % 3, pair),
                _ => (3, pair),
            },
            Scheme::PerAxis => section(&sections, pair),
            Scheme::Pixtral => match pair < self.pairs / 2 {
                true => (0, 2 * pair),
                false => (1, 2 * (pair - self.pairs / 2) + 1),
            },
            Scheme::Given => (usize::from(given[pair]), pair),
        };
        Some(Assignment {
            pair,
            axis: axis as u8,
            index,
        })
    }
}

/// Returns the pairs of all sections.
const fn sum([a, b, c, d]: [usize; MAX_AXES]) -> usize {
    a.saturating_add(b).saturating_add(c).saturating_add(d)
}

/// Returns the section of an index, and its place there.
fn section(sections: &[usize; MAX_AXES], mut index: usize) -> (usize, usize) {
    for (axis, &length) in sections.iter().enumerate() {
        if index < length {
            return (axis, index);
        }
        index -= length;
    }
    (MAX_AXES - 1, index)
}

/// Returns the axis with the smallest placed fraction and pairs left, not `last` if another one is possible.
fn least_served(counts: [usize; 3], placed: [usize; 3], last: Option<usize>) -> usize {
    let open = |axis: &usize| placed[*axis] < counts[*axis];
    // Cross-multiplies fractions to compare them in integers; the first of equals wins.
    let least = |a: usize, b: usize| {
        if placed[b] * counts[a] < placed[a] * counts[b] {
            b
        } else {
            a
        }
    };
    let other = (0..3)
        .filter(open)
        .filter(|&axis| Some(axis) != last)
        .reduce(least);
    let Some(axis) = other.or((0..3).find(open)) else {
        unreachable!("a pair is left, so an axis has one")
    };
    axis
}
