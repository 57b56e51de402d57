//! Norms that many models apply to Q and K with the rotation: RMS norms and layer norms.
//!
//! A [`Norm`] is a [stage](crate::stages) of a plan. Its [`NormFormula`] defines the sum, the weights, and the rounding
//! of results to the element type: models differ in all three.
//!
//! ```
//! use rope_core::norm::{Norm, NormFormula};
//! use rope_core::{Pairing, Rope, Rows, TensorMut};
//!
//! // Qwen3 normalizes each head of Q, then rotates it. Both happen in one call.
//! let q_norm_weight = [1.0_f32; 128];
//! let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&q_norm_weight);
//! let rope = Rope::new(Pairing::Half).with_norm(norm);
//!
//! let rows = [0.0_f32; 3 * 128]; // the cos and sin of three tokens
//! let mut q = [1.0_f32; 3 * 2 * 128];
//! let mut q = TensorMut::new(&mut q, [1, 3, 2, 128])?;
//! rope.rotate(&mut q, &Rows::new(&rows, [3, 128])?)?;
//! # Ok::<(), rope_core::Error>(())
//! ```

pub use crate::kernel::norm::NormSum;

use crate::Error;
use crate::base::error::check_count;
use crate::base::stage_order::StageOrder;
use crate::describe::ids::List;
use crate::error::PlanError;
use crate::kernel::element::Element;
use crate::kernel::elements::{ElementType, OutOfPlaceKernels, elements};

/// A norm of queries or keys: a stage of a plan ([`Rope::with_norm`](crate::Rope::with_norm)).
///
/// With `T` the element of the source tensor, `x` a head (or the heads of a token, [`NormReach`]) as f32, and `w` the
/// weights,
///
/// ```text
/// root mean square   r = 1 / sqrt(mean(x^2) + eps)             y = x r w     or x r (1 + w), or x r
/// centered            m = mean(x), v = mean((x - m)^2)          y = (x - m) r w + b, r = 1 / sqrt(v + eps)
/// ```
///
/// with every operation rounded to f32 by itself. A [`NormFormula`] selects the formula, and the intermediate results
/// that are rounded to `T`: models differ, and it shows in a quarter of the bits of bf16.
///
/// The mean is a sum in one fixed order on every backend ([`NormSum`]), with one division.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula};
///
/// let weights = [1.0_f32; 128];
/// let qwen3 = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
/// let gemma3 = Norm::new(NormFormula::GEMMA, 1e-6).with_weight(&weights);
/// // a root mean square alone
/// let llama4 = Norm::new(NormFormula::LLAMA4, 1e-5);
/// ```
///
/// A plan refuses a norm without the weights of its formula: a model with a forgotten `q_norm.weight` still produces
/// text.
#[doc(alias = "RMSNorm")]
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Norm<'a> {
    /// The formula.
    pub formula: NormFormula,
    /// The number added to the mean, in f32.
    pub eps: f32,
    pub(crate) weight: Option<Weights<'a>>,
    pub(crate) bias: Option<Weights<'a>>,
    /// The channels that the norm covers.
    pub reach: NormReach,
    /// Before the rotation, or after it.
    pub order: StageOrder,
    /// The order of summation.
    pub sum: NormSum,
    pub(crate) given: Option<GivenSums<'a>>,
}

/// The formula of a norm: its sums, and the results that are rounded to the element of the source tensor. The constants
/// have the names of the code whose bits they reproduce.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula};
///
/// let weights = [1.0_f32; 128];
/// let qwen3 = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
/// let gemma = Norm::new(NormFormula::GEMMA, 1e-6).with_weight(&weights); // 1 + w
/// assert_eq!(gemma.formula, NormFormula::GEMMA);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormFormula {
    /// Subtracts the mean first: a layer norm.
    pub centered: bool,
    /// Multiplies by weights, which [`Norm::with_weight`] must then provide.
    pub weighted: bool,
    /// Uses the factor `1 + w`, formed in f32.
    pub one_plus_weight: bool,
    /// Rounds `x r` to the element before the weight.
    pub rounds_normed: bool,
    /// Rounds the product with the weight to the element before a bias is added.
    pub rounds_product: bool,
    /// The rounding of the result.
    pub result: NormResult,
}

/// The rounding of the result of a norm.
///
/// ```
/// use rope_core::norm::{NormFormula, NormResult};
///
/// // Fused GPU kernels pass the f32 to the rotation; eager models round before it.
/// assert_eq!(NormFormula::ONCE.result, NormResult::Kept);
/// assert_eq!(NormFormula::GEMMA.result, NormResult::Rounded);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormResult {
    /// None: the next stage receives the f32.
    Kept,
    /// To the element of the source tensor.
    Rounded,
    /// To the wider of that element and the type of the weights, as PyTorch promotes a product: weights of f32 (or of
    /// another 16-bit type than the element) keep the f32.
    Promoted,
}

impl NormFormula {
    /// `w T(x r)`, two roundings: `LlamaRMSNorm` and its copies (Llama, Qwen3, GLM-4.5, HunYuan, EXAONE 4, MiniMax-M2,
    /// LFM2, Apertus, OLMoE).
    pub const LLAMA: Self = Self {
        centered: false,
        weighted: true,
        one_plus_weight: false,
        rounds_normed: true,
        rounds_product: false,
        result: NormResult::Promoted,
    };
    /// `T(w (x r))`, one rounding: OLMo 2 and 3, gpt-oss, and Gemma 3n and 4, which normalize values without weights
    /// ([`Norm::without_weight`]).
    pub const OLMO2: Self = Self {
        rounds_normed: false,
        result: NormResult::Rounded,
        ..Self::LLAMA
    };
    /// `T((x r) (1 + w))`: Gemma 1 to 3, Qwen3-Next, Qwen3.5.
    pub const GEMMA: Self = Self {
        one_plus_weight: true,
        ..Self::OLMO2
    };
    /// `T(x r)`, without a weight: Llama 4's `Llama4TextL2Norm` (a root mean square despite its name), nanochat.
    pub const LLAMA4: Self = Self {
        weighted: false,
        ..Self::OLMO2
    };
    /// `T(w ((x - m) r))`, or `T(w ((x - m) r) + b)` with biases: the bits of Cohere and Command R. Also for StableLM,
    /// Phi and Persimmon, which call PyTorch's `nn.LayerNorm`. PyTorch sums by Welford's algorithm and with fused
    /// operations; this differs by at most `7 * 2^-24` of the largest magnitude of the row.
    pub const LAYER_NORM: Self = Self {
        centered: true,
        ..Self::OLMO2
    };
    /// `T(T(T((x - m) r) w) + b)`, with weights and biases per head, eps 1e-5: Chameleon, within the bound of
    /// [`LAYER_NORM`](Self::LAYER_NORM).
    pub const CHAMELEON: Self = Self {
        centered: true,
        rounds_product: true,
        ..Self::LLAMA
    };
    /// `x r w` in f32, passed unrounded to the rotation: one rounding in all, as in the fused kernels of GPU libraries
    /// (vLLM's and TensorRT-LLM's `fused_qk_norm_rope`).
    pub const ONCE: Self = Self {
        result: NormResult::Kept,
        ..Self::OLMO2
    };
}

/// The channels that a norm covers.
///
/// ```
/// use rope_core::norm::{Norm, NormFormula, NormReach};
///
/// // OLMo 2: over all heads of a token, with a weight for each channel of each head.
/// let weights = [1.0_f32; 32 * 128];
/// let norm = Norm::new(NormFormula::OLMO2, 1e-6).with_weight(&weights).with_reach(NormReach::Token);
/// assert_eq!(norm.reach, NormReach::Token);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NormReach {
    /// Each head by itself.
    #[default]
    Head,
    /// All heads of a token together, `heads * head_dim` channels: OLMo 2, OLMoE, MiniMax-M2.
    Token,
}

/// Sums computed by the caller: `sums[row] / width` is the mean square.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GivenSums<'a> {
    pub(crate) sums: &'a [f32],
    pub(crate) width: usize,
}

macro_rules! weights {
    ($($Type:ident: $E:ty [$($fused:tt)*];)+) => {
        /// The weights, or the biases, of a norm: `[head_dim]`, shared by all heads, or `[heads, head_dim]`.
        ///
        /// ```
        /// use rope_core::half::bf16;
        /// use rope_core::norm::{Norm, NormFormula};
        ///
        /// let (floats, halves) = ([1.0_f32; 128], [bf16::ONE; 128]);
        /// let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&floats);
        /// let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&halves);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Weights<'a> {
            $(#[allow(missing_docs, reason = "an element has its own documentation")] $Type(&'a [$E]),)+
        }

        impl<'a> Weights<'a> {
            /// Returns the element kernels and the bytes.
            pub(crate) fn bytes(self) -> (&'static OutOfPlaceKernels, &'a [u8]) {
                match self {
                    $(Weights::$Type(values) => (<$E>::OUT_OF_PLACE, bytemuck::cast_slice(values)),)+
                }
            }
        }

        impl<'a, L: List<'a, Item: Element>> From<L> for Weights<'a> {
            fn from(list: L) -> Self {
                match L::Item::TYPE {
                    $(ElementType::$Type => Weights::$Type(bytemuck::cast_slice(list.slice())),)+
                }
            }
        }
    };
}
elements!(weights);

/// Conversion to [`Weights`], from a list by reference.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::norm::{IntoWeights, Norm, NormFormula};
///
/// fn norm<'a>(weight: impl IntoWeights<'a>) -> Norm<'a> {
///     Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weight)
/// }
/// let weights = vec![rope_core::half::bf16::ONE; 64];
/// let norms = [norm(&weights), norm(&[1.0_f32; 64])];
/// # };
/// ```
#[diagnostic::on_unimplemented(
    message = "weights cannot be made of `{Self}`",
    label = "neither `Weights` nor a list by reference (`&[..]`, `&Vec`) of f32, f16 or bf16",
    note = "the norm borrows its weights: bind the array to a variable, and pass a reference"
)]
pub trait IntoWeights<'a>: Into<Weights<'a>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: Into<Weights<'a>>> IntoWeights<'a> for T {}

impl Weights<'_> {
    pub(crate) fn len(self) -> usize {
        let (element, bytes) = self.bytes();
        bytes.len() / element.size
    }
}

impl<'a> Norm<'a> {
    /// Creates a norm per head, before the rotation. `eps` is added to the mean, in f32. Unless the formula has no
    /// weights ([`NormFormula::weighted`]), [`Norm::with_weight`] must follow.
    pub const fn new(formula: NormFormula, eps: f32) -> Self {
        Norm {
            formula,
            eps,
            weight: None,
            bias: None,
            reach: NormReach::Head,
            order: StageOrder::BeforeRotation,
            sum: NormSum::PyTorch,
            given: None,
        }
    }

    /// Sets the weights, `[head_dim]` or `[heads, head_dim]`.
    pub fn with_weight(self, weight: impl IntoWeights<'a>) -> Self {
        Norm {
            weight: Some(weight.into()),
            ..self
        }
    }

    /// Removes the weights, whatever the formula.
    pub const fn without_weight(self) -> Self {
        Norm {
            formula: NormFormula {
                weighted: false,
                ..self.formula
            },
            weight: None,
            ..self
        }
    }

    /// Sets the biases, `[head_dim]` or `[heads, head_dim]`.
    pub fn with_bias(self, bias: impl IntoWeights<'a>) -> Self {
        Norm {
            bias: Some(bias.into()),
            ..self
        }
    }

    /// Sets the reach: a head, or all heads of a token. Either accepts weights of both lengths: `head_dim` weights of a
    /// norm over the token are shared by its heads.
    #[doc(alias = "over")]
    pub const fn with_reach(self, reach: NormReach) -> Self {
        Norm { reach, ..self }
    }

    /// Sets the order: before the rotation, or after it.
    pub const fn with_order(self, order: StageOrder) -> Self {
        Norm { order, ..self }
    }

    /// Sets the order of summation.
    pub const fn with_sum(self, sum: NormSum) -> Self {
        Norm { sum, ..self }
    }

    /// Sets sums of squares computed by the caller, for rows split over ranks: one sum per token of each sequence (per
    /// head of each token if heads are normed by themselves), and `width`, the number of summed channels.
    /// `Rope::sum_of_squares` computes the sums of a part.
    ///
    /// A plan refuses given sums for a centered norm.
    #[doc(alias = "given_sums")]
    pub const fn with_sum_of_squares(self, sums: &'a [f32], width: usize) -> Self {
        Norm {
            given: Some(GivenSums { sums, width }),
            ..self
        }
    }

    /// Checks the norm against a tensor of this many rows (tokens of all sequences), heads and channels.
    pub(crate) fn check(&self, rows: usize, heads: usize, head_dim: usize) -> Result<(), Error> {
        if !(self.eps >= 0.0 && self.eps.is_finite()) {
            let required = "finite and not negative";
            return Err(Error::parameter("eps", self.eps.into(), required));
        }
        match (self.formula.weighted, self.weight) {
            (true, None) => return Err(Error::Plan(PlanError::WeightMissing { needed: head_dim })),
            (false, Some(weight)) => {
                let given = weight.len();
                return Err(Error::Plan(PlanError::WeightUnused { given }));
            }
            _ => {}
        }
        let all = heads.saturating_mul(head_dim);
        for (name, weights) in [("weight", self.weight), ("bias", self.bias)] {
            let given = weights.map_or(head_dim, |weights| weights.len());
            if given != head_dim && given != all {
                let needed = match self.reach {
                    NormReach::Token => all,
                    NormReach::Head => head_dim,
                };
                return Err(Error::Count {
                    name,
                    given,
                    needed,
                });
            }
        }
        if let Some(GivenSums { sums, width }) = self.given {
            if self.formula.centered {
                return Err(Error::Plan(PlanError::CenteredSums));
            }
            if width == 0 {
                return Err(Error::parameter("width", 0.0, "at least 1"));
            }
            let needed = match self.reach {
                NormReach::Token => rows,
                NormReach::Head => rows.saturating_mul(heads),
            };
            check_count("sums", sums.len(), needed)?;
        }
        Ok(())
    }
}
