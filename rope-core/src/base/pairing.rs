//! The pairing of the channels of a head.

use crate::base::names::named;

/// The pairing of the channels of a head: which two rotate by one angle.
///
/// With `n = rotary_dim / 2` pairs, pair `i` is
///
/// ```text
/// Interleaved   channels 2i and 2i + 1      x0 y0 x1 y1 x2 y2 .. | rest
/// Half          channels i and i + n        x0 x1 x2 .. y0 y1 y2 .. | rest
/// ```
///
/// Both give the same attention scores if the weights are permuted to match, and garbage otherwise. Nothing in a tensor
/// tells which pairing its model was trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// `(2i, 2i + 1)`: GPT-J, Llama as Meta published it, GLM up to GLM-4, Cohere; ggml's `NORMAL`, ONNX's
    /// `interleaved = 1`. The form of the paper (Su et al., *RoFormer*, arXiv:2104.09864, eq. 34).
    #[doc(alias("rotate_every_two", "gptj", "view_as_complex"))]
    Interleaved,
    /// `(i, i + rotary_dim / 2)`: GPT-NeoX, Hugging Face's `rotate_half` models (Llama, Mistral, Qwen,
    /// Gemma, Phi, GLM-4.5); ggml's `NEOX`, ONNX's `interleaved = 0`.
    #[doc(alias("rotate_half", "neox", "is_neox_style"))]
    Half,
}

impl Pairing {
    /// Both pairings.
    pub const ALL: [Pairing; 2] = [Pairing::Interleaved, Pairing::Half];

    /// Returns the channel of a head with pairing `other` that corresponds to channel `channel` of a head with this
    /// pairing: the permutation of the rows of a Q or K projection that ports weights from `other` to this pairing.
    ///
    /// Channels from `rotary_dim` on are not rotated, and stay. An odd `rotary_dim` is rounded down to an even one.
    ///
    /// ```
    /// use rope_core::Pairing::{Half, Interleaved};
    /// let order: Vec<usize> = (0..8).map(|channel| Interleaved.channel_in(Half, 6, channel)).collect();
    /// assert_eq!(order, [0, 3, 1, 4, 2, 5, 6, 7]);
    /// ```
    pub const fn channel_in(self, other: Pairing, rotary_dim: usize, channel: usize) -> usize {
        let pairs = rotary_dim / 2;
        if channel >= 2 * pairs {
            return channel;
        }
        let (pair, member) = match self {
            Pairing::Interleaved => (channel / 2, channel % 2),
            Pairing::Half => (channel % pairs, channel / pairs),
        };
        match other {
            Pairing::Interleaved => 2 * pair + member,
            Pairing::Half => pair + member * pairs,
        }
    }

    /// Returns the name in lower case, as parsed by [`FromStr`](core::str::FromStr).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Pairing::Interleaved => "interleaved",
            Pairing::Half => "half",
        }
    }
}

named!(Pairing, "pairing", "interleaved, half");
