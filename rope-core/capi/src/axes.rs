//! Which axis of the positions drives which pair.

use rope_core::Error;
use rope_core::axes::Axes;
use rope_core::error::FrequenciesError;

use crate::failure::Failure;
use crate::memory::{Region, Span, plain};
use crate::names::lookup;

/// Which axis of the positions drives which pair, and which frequency a pair takes.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_axes_kind {
    /// One axis over `rotary_dim` channels: text.
    Text = 1001,
    /// M-RoPE in chunks over `rotary_dim`: `sections` (`count` of them) pairs of axis 0, of axis 1, ..; Qwen2-VL has
    /// {16, 24, 24} of 128 channels. The sections of this kind and of the next three sum to the pairs of `rotary_dim`.
    Mrope = 1002,
    /// Interleaved M-RoPE, `rotary_dim` and three `sections`: THWTHW..TT; Qwen3-VL has {24, 20, 20}.
    MropeInterleaved = 1003,
    /// Height and width alternating, `rotary_dim` and `sections` {height, width, time}; ERNIE-4.5-VL has {22, 22, 20}.
    MropeAlternating = 1004,
    /// Spread evenly, `rotary_dim` and three `sections`: openPangu.
    MropeSpread = 1005,
    /// ggml's MROPE: `rotary_dim` and four `sections`.
    GgmlMrope = 1006,
    /// ggml's IMROPE: `rotary_dim` and four `sections`.
    GgmlImrope = 1007,
    /// Base frequencies for each axis by itself: `sections` (`count` of them) pairs of each.
    PerAxis = 1008,
    /// Images: two axes. Each has half of the pairs of `rotary_dim`, and base frequencies of its own. Qwen's vision
    /// towers, DINOv3.
    Vision = 1009,
    /// Pixtral's images: one set of base frequencies, the even ones for the height, the odd ones for the width, over
    /// `rotary_dim`.
    Pixtral = 1010,
    /// WAN's video over `rotary_dim` (the head_dim): time, height and width, each with base frequencies of its own.
    Wan = 1011,
    /// One set of base frequencies, and the axis of every pair in `given` (`count` of them, 0 to 3).
    Given = 1012,
}
lookup!(rope_axes_kind, "kind of axes":
    Text Mrope MropeInterleaved MropeAlternating MropeSpread GgmlMrope GgmlImrope PerAxis Vision Pixtral Wan Given);

/// The axes. Fields that a kind does not name are not read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_axes {
    /// `enum rope_axes_kind`.
    pub kind: i32,
    /// Channels of a head that rotate. PER_AXIS and GIVEN ignore it: their lists name every pair.
    pub rotary_dim: usize,
    /// Pairs of each section.
    pub sections: [usize; 4],
    /// MROPE, PER_AXIS: how many sections, 1 to 4. GIVEN: how many pairs.
    pub count: usize,
    /// GIVEN: the axis of every pair.
    pub given: *const u8,
}
plain!(rope_axes);

/// One axis over `rotary_dim` channels: text.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_axes_text(rotary_dim: usize) -> rope_axes {
    rope_axes {
        kind: rope_axes_kind::Text as i32,
        rotary_dim,
        sections: [0; 4],
        count: 0,
        given: core::ptr::null(),
    }
}

impl rope_axes {
    /// # Safety
    ///
    /// `given` is null or points to the list, and nobody writes the list during `'a`.
    pub(crate) unsafe fn axes<'a>(&self) -> Result<(Axes<'a>, Region), Failure> {
        let [a, b, c, d] = self.sections;
        let mut region = Region::bytes("given", 0, 0);
        let given = self.count;
        let sections = |required| {
            Failure::Core(Error::Frequencies(FrequenciesError::Axes {
                given,
                required,
            }))
        };
        let axes = match rope_axes_kind::from_c(self.kind)? {
            rope_axes_kind::Text => Axes::from(self.rotary_dim),
            rope_axes_kind::Mrope => match self.count {
                1 => Axes::mrope(self.rotary_dim, [a]),
                2 => Axes::mrope(self.rotary_dim, [a, b]),
                3 => Axes::mrope(self.rotary_dim, [a, b, c]),
                4 => Axes::mrope(self.rotary_dim, [a, b, c, d]),
                _ => return Err(sections("of one to four sections")),
            },
            rope_axes_kind::MropeInterleaved => Axes::mrope_interleaved(self.rotary_dim, [a, b, c]),
            rope_axes_kind::MropeAlternating => Axes::mrope_alternating(self.rotary_dim, [a, b, c]),
            rope_axes_kind::MropeSpread => Axes::mrope_spread(self.rotary_dim, [a, b, c]),
            rope_axes_kind::GgmlMrope => Axes::ggml_mrope(self.rotary_dim, self.sections),
            rope_axes_kind::GgmlImrope => Axes::ggml_imrope(self.rotary_dim, self.sections),
            rope_axes_kind::PerAxis => match self.count {
                1 => Axes::per_axis([a]),
                2 => Axes::per_axis([a, b]),
                3 => Axes::per_axis([a, b, c]),
                4 => Axes::per_axis([a, b, c, d]),
                _ => return Err(sections("of one to four axes")),
            },
            rope_axes_kind::Vision => Axes::vision(self.rotary_dim),
            rope_axes_kind::Pixtral => Axes::pixtral(self.rotary_dim),
            rope_axes_kind::Wan => Axes::wan(self.rotary_dim),
            rope_axes_kind::Given => {
                let given = Span::new("given", self.given, self.count)?;
                region = given.region();
                // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                Axes::given(unsafe { given.get() })
            }
        };
        Ok((axes, region))
    }
}
