//! Frequency scaling for contexts longer than those of training: one rule per variant.
//!
//! Notation: `d` the rotated channels, `i` a pair, `b` the base, `s` the factor, `L` the original context, `w_i =
//! b^(-2i/d)` the unscaled inverse frequency. All of it is computed on turns (`w_i / 2 pi`) in [`Float128`]s: every
//! parameter counts as the exact value of its number, and the results are the same on every machine.
//!
//! This code is not hot, and [`Float128`] operations are large. The longer rules and the shared parts are therefore not
//! inlined, which reduces the file from 68 KB of machine code to 21 KB.

use super::axes::{Assignment, Assignments};
use super::frequency::{attention_factor, finite, positive, required, store};
use crate::base::error::{Result, check_count};
use crate::base::float128::Float128;
use crate::error::RowsError;
use crate::{Error, FrequencyChunk};

/// A scaling of the frequencies `b^(-2i/d)` of a model, with the published names of the parameters.
///
/// Numbers must be finite, factors and lengths positive; [`Frequencies::new`](crate::Frequencies::new) refuses others
/// and names the parameter.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Scaling, Yarn};
///
/// let plain = Frequencies::new(128, 10_000.0, &Scaling::Default)?;
/// let linear = Frequencies::new(128, 10_000.0, &Scaling::Linear { factor: 8.0 })?;
/// let yarn = Frequencies::new(128, 10_000.0, &Scaling::Yarn(Yarn::new(8.0, 4096)))?;
/// // `factor` is the key `rope_scaling.factor` of a `config.json`; it must be positive.
/// assert!(Frequencies::new(128, 10_000.0, &Scaling::Linear { factor: 0.0 }).is_err());
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("rope_scaling", "rope_type"))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Scaling<'a> {
    /// No scaling: `w_i = b^(-2i/d)`. Su et al., RoFormer, arXiv:2104.09864.
    #[default]
    Default,

    /// Position interpolation: `w_i / s`. Chen et al., arXiv:2306.15595; Hugging Face `linear`.
    Linear {
        /// `s`, the ratio of the longer context to the original: 4 for 4 times the length. ggml's `freq_scale` is `1 /
        /// s`, here 0.25. A factor below 1 is valid, and spreads positions.
        factor: f64,
    },

    /// NTK-aware scaling of the base with the length of the sequence: `b' = b (s n / M - (s - 1))^(d/(d-2))`, `n` the
    /// larger of `length` and `M`. Hugging Face `dynamic` recomputes the frequencies as a sequence grows; vLLM stays at
    /// `n = s M`. Requires `d > 2`.
    DynamicNtk {
        /// `s`.
        factor: f64,
        /// `M`, the model's `max_position_embeddings` (not the original context).
        max_position_embeddings: u64,
        /// The length of the sequence so far: the largest position plus one.
        length: u64,
    },

    /// NTK-aware scaling with a given alpha: `b' = b alpha^(d/(d-2))`. HunYuan (vLLM `dynamic_ntk_alpha_rope.py`,
    /// Hugging Face `ntk_alpha`). With alpha = `s` it is the first, static NTK-aware scaling. Requires `d > 2`.
    NtkAlpha {
        /// alpha.
        alpha: f64,
    },

    /// NTK with fixed frequencies: `(b s)^(-2i/d) / s^(2/d)`. kexue.fm/9706; vLLM `ntk_scaling_rope.py`.
    NtkFixed {
        /// `s`.
        factor: f64,
    },

    /// NTK with a mixed base: `w_i exp(-a (i+1)^beta)`, `a = ln s / (d/2)^beta`. kexue.fm/9706; vLLM
    /// `ntk_scaling_rope.py` with `mixed_b`.
    NtkMixed {
        /// `s`.
        factor: f64,
        /// beta.
        mixed_b: f64,
    },

    /// NTK by parts, YaRN's predecessor: linear interpolation for slow pairs, a larger base for pairs between, no
    /// change for fast pairs. jquesnelle/yarn `LlamaPartNTKScaledRotaryEmbedding.py`. Requires `d > 2` and `b > 1`.
    NtkByParts {
        /// `s`.
        factor: f64,
        /// `L`.
        original_context: u64,
        /// The weight of the larger base, 0 to 1; published as 1.
        ntk_factor: f64,
        /// The weight of unchanged fast pairs, 0 to 1; published as 1.
        extrapolation_factor: f64,
    },

    /// YaRN: interpolates slow pairs, keeps fast pairs, blends between, and adds an attention factor. Requires `b > 1`.
    Yarn(Yarn),

    /// LongRoPE: a searched divisor per pair, one list for sequences within the original context and one for longer
    /// ones.
    LongRope(LongRope<'a>),

    /// Llama 3.1: interpolates pairs with fewer than `low_freq_factor` turns in the original context, keeps pairs with
    /// more than `high_freq_factor`, and blends between. Hugging Face `llama3`. In Llama 4 both limits are equal, and
    /// nothing is blended.
    Llama3 {
        /// `s`; 8 in Llama 3.1.
        factor: f64,
        /// Turns in the original context up to which a pair is slow; 1 in Llama 3.1.
        low_freq_factor: f64,
        /// Turns from which a pair is fast, at least `low_freq_factor`; 4 in Llama 3.1.
        high_freq_factor: f64,
        /// `L`; 8192 in Llama 3.1.
        original_context: u64,
    },

    /// Gemma 4's full-attention layers: the first `floor(partial d / 2)` pairs rotate with the frequencies of the whole
    /// head, `w_i / s`; the others do not rotate. Hugging Face `proportional`. This differs from a partial rotation of
    /// the head: pairs and frequencies belong to all `d` channels.
    Proportional {
        /// The part of the head that rotates, up to 1.
        partial_rotary_factor: f64,
        /// `s`; 1 in Gemma 4.
        factor: f64,
    },

    /// ggml's tensor `rope_freqs`: `w_i / factors[i]`, one factor per pair. GGUF files store the scaling of Llama 3.1
    /// and LongRoPE in this form.
    FreqFactors {
        /// The divisors, not zero.
        factors: &'a [f32],
    },

    /// A learned correction: `w_i exp(alphas[i])`, one per pair. Mistral Large 4 (Hugging Face `mistral_large4`). For
    /// frequencies that are themselves learned or stored see
    /// [`Frequencies::from_inverse`](crate::Frequencies::from_inverse).
    Learned {
        /// The logarithms of the factors.
        alphas: &'a [f64],
    },

    /// The base counts turns instead of radians: `2 pi b^(-2i/d)`, a period of `b^(2i/d)`. DINOv3's image coordinates
    /// in [-1, 1] (base 100, [`Axes::vision`](crate::axes::Axes::vision); facebookresearch/dinov3
    /// `rope_position_encoding.py`).
    Turns,

    /// Periods in geometric progression from `min_period` to `max_period`, both included: `2 pi / (min
    /// (max/min)^(i/(d/2-1)))`. The base is unused. DINOv3's other parameters. Requires `d > 2`.
    Periods {
        /// The period of the first pair.
        min_period: f64,
        /// The period of the last pair.
        max_period: f64,
    },
}

/// The parameters of YaRN: Peng et al., arXiv:2309.00071; Hugging Face `yarn`.
///
/// `Yarn { truncate: false, ..Yarn::new(32.0, 4096) }` overrides the published defaults by name.
///
/// `attention_factor` reproduces llama.cpp's formula, and TeleChat 3's, whose magnitude scaling has the coefficient
/// 0.07 instead of 0.1 (vLLM `telechat3_scaling_rope.py`).
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, Scaling, Yarn};
///
/// let yarn = Yarn { truncate: false, ..Yarn::new(32.0, 4096) }; // gpt-oss
/// let frequencies = Frequencies::new(64, 150_000.0, &Scaling::Yarn(yarn))?;
/// assert_eq!(frequencies.attention_factor(), 0.1 * 32_f64.ln() + 1.0);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// `s`; for a configuration without one, the context over the original context. ggml's `freq_scale` is `1 / s`. A
    /// factor below 1 is valid.
    pub factor: f64,
    /// `L`, the context before scaling.
    pub original_context: u64,
    /// Turns in the original context from which a pair is kept; 32. 0 means the default, as in Hugging Face.
    pub beta_fast: f64,
    /// Turns up to which a pair is interpolated; 1. 0 means the default.
    pub beta_slow: f64,
    /// Rounds the ends of the ramp to whole pairs; true. gpt-oss has false.
    pub truncate: bool,
    /// The factor on cos and sin; replaces every computed one.
    pub attention_factor: Option<f64>,
    /// With `mscale_all_dim`, the attention factor is the ratio of their magnitude scalings (`0.1 m ln s + 1`); if
    /// either is 0, it is `0.1 ln s + 1`. 0 by default.
    pub mscale: f64,
    /// See `mscale`. DeepSeek-V2 and V3 also multiply the softmax scale by the square of its magnitude scaling:
    /// [`Frequencies::softmax_factor`](crate::Frequencies::softmax_factor).
    pub mscale_all_dim: f64,
}

impl Yarn {
    /// Returns the published defaults for a factor and an original context, which have none.
    pub const fn new(factor: f64, original_context: u64) -> Self {
        Self {
            factor,
            original_context,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention_factor: None,
            mscale: 0.0,
            mscale_all_dim: 0.0,
        }
    }
}

/// The parameters of LongRoPE: Ding et al., arXiv:2402.13753; Hugging Face `longrope`, formerly `su`.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::{Frequencies, LongRope, Scaling};
///
/// let (short, long) = ([1.0; 48], [1.5; 48]);
/// let scaling = Scaling::LongRope(LongRope {
///     short_factor: &short,
///     long_factor: &long,
///     original_context: 4096,
///     length: 100_000,
///     factor: 32.0,
///     attention_factor: None,
/// });
/// let frequencies = Frequencies::new(96, 10_000.0, &scaling)?;
/// assert!(frequencies.attention_factor() > 1.19);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongRope<'a> {
    /// The divisors within the original context, one per pair.
    pub short_factor: &'a [f64],
    /// The divisors beyond it, one per pair.
    pub long_factor: &'a [f64],
    /// `L`, the context of the original training.
    pub original_context: u64,
    /// The length of the sequence: the largest position plus one. Above `original_context` the long list applies. The
    /// whole batch must switch at once, and cached keys keep the list that rotated them.
    pub length: u64,
    /// `s`, `max_position_embeddings` over `original_context`. Only the attention factor depends on it.
    pub factor: f64,
    /// The factor on cos and sin, instead of `sqrt(1 + ln s / ln L)` (1 for `s <= 1`). For Phi-3.5-MoE: its
    /// `short_mscale` or `long_mscale`.
    pub attention_factor: Option<f64>,
}

/// The unscaled frequencies of one set of pairs: powers of one base.
#[derive(Clone, Copy)]
pub(crate) struct BaseFrequencies {
    dim: u64,
    log2_base: Float128,
}

impl BaseFrequencies {
    /// Creates the frequencies of `pairs` pairs, for a finite and positive base.
    pub(crate) fn new(pairs: usize, base: Float128) -> Self {
        Self {
            dim: 2 * pairs as u64,
            log2_base: base.log2(),
        }
    }

    fn pairs(self) -> usize {
        (self.dim / 2) as usize
    }

    /// Returns the turns per position of pair `i`: `b^(-2i/d) / 2 pi`.
    #[inline(never)]
    fn turns(self) -> impl Fn(usize) -> Float128 {
        let per_pair = self.log2_base * Float128::ratio(2, self.dim);
        move |i| (-(per_pair * Float128::from_u64(i as u64))).exp2() * Float128::INVERSE_TWO_PI
    }

    /// Multiplies the base by `x^(d/(d-2))`: slows the last pair by `x` and keeps the first.
    #[inline(never)]
    fn ntk(self, x: Float128) -> Result<Self> {
        self.check_above_two("above 2 for NTK scaling")?;
        Ok(Self {
            dim: self.dim,
            log2_base: self.log2_base + x.log2() * Float128::ratio(self.dim, self.dim - 2),
        })
    }

    fn check_above_two(self, required: &'static str) -> Result<()> {
        match self.dim > 2 {
            true => Ok(()),
            false => Err(Error::Rows(RowsError::RotaryDim {
                rotary_dim: self.dim as usize,
                required,
            })),
        }
    }

    /// Returns the pair, as a real number, that makes `turns` turns in the original context.
    #[inline(never)]
    fn pair_of(self, turns: Float128, original_context: Float128) -> Float128 {
        let ratio = original_context * Float128::INVERSE_TWO_PI / turns;
        ratio.log2() * Float128::from_u64(self.dim) / (self.log2_base + self.log2_base)
    }

    /// Returns YaRN's ramp over the pairs: 1 for pairs faster than `fast` turns in the original context, 0 for pairs
    /// slower than `slow`.
    #[inline(never)]
    fn ramp(
        self,
        [fast, slow]: [Float128; 2],
        context: Float128,
        truncate: bool,
    ) -> Result<impl Fn(usize) -> Float128> {
        // Without a base above 1 later pairs are not slower, and the ramp has no ends.
        if self.log2_base <= Float128::ZERO {
            let value = self.log2_base.exp2().to_f64();
            return Err(Error::parameter(
                "base",
                value,
                "above 1 for YaRN and NTK by parts",
            ));
        }
        let (mut low, mut high) = (self.pair_of(fast, context), self.pair_of(slow, context));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        low = low.max(Float128::ZERO);
        // The limit is d - 1 in the reference, although the pairs end at d/2 - 1. If it applies, it sets the slope.
        high = high.min(Float128::from_u64(self.dim - 1));
        if low == high {
            high = high + Float128::from_f64(0.001);
        }
        let width = high - low;
        Ok(move |i| {
            Float128::ONE
                - ((Float128::from_u64(i as u64) - low) / width)
                    .clamp(Float128::ZERO, Float128::ONE)
        })
    }
}

impl Scaling<'_> {
    /// Writes the scaled frequencies of one base to its pairs, the next assignments.
    #[inline(never)]
    pub(crate) fn write(
        &self,
        base: BaseFrequencies,
        assignments: &mut Assignments<'_>,
        chunks: &mut [FrequencyChunk],
    ) -> Result<()> {
        let mut targets = Targets {
            assignments,
            pairs: base.pairs(),
            chunks,
        };
        let turns = base.turns();
        match *self {
            Self::Default => targets.write(&turns),
            // Hugging Face `_compute_linear_scaling_rope_parameters`.
            Self::Linear { factor } => {
                let factor = positive("factor", factor)?;
                targets.write(&|i| turns(i) / factor)
            }
            Self::DynamicNtk {
                factor,
                max_position_embeddings,
                length,
            } => targets.write(&dynamic_ntk(base, factor, max_position_embeddings, length)?),
            // vLLM `dynamic_ntk_alpha_rope.py`.
            Self::NtkAlpha { alpha } => {
                let alpha = positive("alpha", alpha)?;
                targets.write(&base.ntk(alpha)?.turns())
            }
            // vLLM `ntk_scaling_rope.py` without `mixed_b`.
            Self::NtkFixed { factor } => {
                let log2_factor = positive("factor", factor)?.log2();
                let log2_base = base.log2_base + log2_factor;
                let turns = BaseFrequencies { log2_base, ..base }.turns();
                let slower = (-(log2_factor * Float128::ratio(2, base.dim))).exp2();
                targets.write(&|i| turns(i) * slower)
            }
            // vLLM `ntk_scaling_rope.py` with `mixed_b`.
            Self::NtkMixed { factor, mixed_b } => {
                let ln_factor = positive("factor", factor)?.ln();
                let beta = finite("mixed_b", mixed_b)?;
                targets.write(&|i| {
                    let place = Float128::ratio(i as u64 + 1, base.dim / 2);
                    turns(i) * (-(ln_factor * place.pow(beta))).exp()
                })
            }
            Self::NtkByParts {
                factor,
                original_context,
                ntk_factor,
                extrapolation_factor,
            } => targets.write(&ntk_by_parts(
                base,
                factor,
                original_context,
                ntk_factor,
                extrapolation_factor,
            )?),
            Self::Yarn(ref parameters) => targets.write(&yarn(base, parameters)?),
            Self::LongRope(ref parameters) => targets.write(&longrope(base, parameters)?),
            Self::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            } => targets.write(&llama3(
                base,
                factor,
                [low_freq_factor, high_freq_factor],
                original_context,
            )?),
            // Hugging Face `_compute_proportional_rope_parameters`: `int(partial * head_dim // 2)` pairs, with the
            // product rounded to a double as in the original.
            Self::Proportional {
                partial_rotary_factor,
                factor,
            } => {
                let factor = positive("factor", factor)?;
                let partial = part("partial_rotary_factor", partial_rotary_factor)?;
                let rotated = Float128::from_f64((partial * Float128::from_u64(base.dim)).to_f64());
                let rotates = |i| Float128::from_u64(2 * (i as u64 + 1)) <= rotated;
                targets.write(&|i| match rotates(i) {
                    true => turns(i) / factor,
                    false => Float128::ZERO,
                })
            }
            // ggml `ggml_rope_cache_init`: `theta / ff`.
            Self::FreqFactors { factors } => {
                let given = factors.iter().map(|&factor| f64::from(factor));
                each_pair("freq_factors", base, given, positive)?;
                targets.write(&|i| turns(i) / Float128::from_f64(factors[i].into()))
            }
            // Hugging Face `mistral_large4`: `inv_freq * exp(alpha)`.
            Self::Learned { alphas } => {
                each_pair("alphas", base, alphas.iter().copied(), finite)?;
                targets.write(&|i| turns(i) * Float128::from_f64(alphas[i]).exp())
            }
            // facebookresearch/dinov3 `rope_position_encoding.py` with `base`: periods `base^(2k / (D/2))`.
            Self::Turns => targets.write(&|i| turns(i) * Float128::TWO_PI),
            // facebookresearch/dinov3 `rope_position_encoding.py` with `min_period` and `max_period`.
            Self::Periods {
                min_period,
                max_period,
            } => {
                let least = positive("min_period", min_period)?.log2();
                let most = positive("max_period", max_period)?.log2();
                base.check_above_two("above 2 for two periods")?;
                let step = (most - least) / Float128::from_u64(base.dim / 2 - 1);
                targets.write(&|i| (-(least + step * Float128::from_u64(i as u64))).exp2())
            }
        }
    }

    /// Returns the factor on cos and sin, and the model's factor on its softmax scale. The match is exhaustive: a new
    /// scaling does not compile without its factors.
    pub(crate) fn factors(&self) -> Result<[f64; 2]> {
        match self {
            Self::Yarn(yarn) => Ok([yarn_attention_factor(yarn)?, yarn_softmax_factor(yarn)?]),
            Self::LongRope(long) => Ok([longrope_attention_factor(long)?, 1.0]),
            Self::Default
            | Self::Linear { .. }
            | Self::DynamicNtk { .. }
            | Self::NtkAlpha { .. }
            | Self::NtkFixed { .. }
            | Self::NtkMixed { .. }
            | Self::NtkByParts { .. }
            | Self::Llama3 { .. }
            | Self::Proportional { .. }
            | Self::FreqFactors { .. }
            | Self::Learned { .. }
            | Self::Turns
            | Self::Periods { .. } => Ok([1.0, 1.0]),
        }
    }
}

/// The pairs of one base, and the target of their frequencies.
struct Targets<'a, 'x> {
    assignments: &'a mut Assignments<'x>,
    pairs: usize,
    chunks: &'a mut [FrequencyChunk],
}

impl Targets<'_, '_> {
    /// Writes the turns that `rule` returns for each pair. Compiled once: one copy per rule took 59 KB.
    #[inline(never)]
    fn write(&mut self, rule: &dyn Fn(usize) -> Float128) -> Result<()> {
        for Assignment { pair, axis, index } in self.assignments.take(self.pairs) {
            let turns = rule(index);
            let inverse = turns * Float128::TWO_PI;
            store(&mut self.chunks[pair / 8], pair, turns, inverse, axis)?;
        }
        Ok(())
    }
}

/// Hugging Face `_compute_dynamic_ntk_parameters`.
#[inline(never)]
fn dynamic_ntk(
    base: BaseFrequencies,
    factor: f64,
    longest: u64,
    length: u64,
) -> Result<impl Fn(usize) -> Float128> {
    let factor = positive("factor", factor)?;
    let longest = length_of("max_position_embeddings", longest, 1)?;
    // s n / M - (s - 1), in a form that is exactly 1 up to n = M.
    let beyond = (Float128::from_u64(length) - longest).max(Float128::ZERO);
    Ok(base.ntk(Float128::ONE + factor * beyond / longest)?.turns())
}

/// jquesnelle/yarn `scaled_rope/LlamaPartNTKScaledRotaryEmbedding.py`.
#[inline(never)]
fn ntk_by_parts(
    base: BaseFrequencies,
    factor: f64,
    original_context: u64,
    ntk_factor: f64,
    extrapolation_factor: f64,
) -> Result<impl Fn(usize) -> Float128> {
    let factor = positive("factor", factor)?;
    let context = length_of("original_context", original_context, 1)?;
    let [ntk_factor, extrapolation_factor] = [
        part("ntk_factor", ntk_factor)?,
        part("extrapolation_factor", extrapolation_factor)?,
    ];
    let [beta, gamma] = [[1.25, 0.75], [16.0, 2.0]].map(|ends| ends.map(Float128::from_f64));
    let (ntk_ramp, fast_ramp) = (
        base.ramp(beta, context, true)?,
        base.ramp(gamma, context, true)?,
    );
    let (turns, ntk_turns) = (base.turns(), base.ntk(factor)?.turns());
    Ok(move |i| {
        let turns = turns(i);
        let slow = blend(turns / factor, ntk_turns(i), ntk_ramp(i) * ntk_factor);
        blend(slow, turns, fast_ramp(i) * extrapolation_factor)
    })
}

/// Hugging Face `_compute_yarn_parameters`.
#[inline(never)]
fn yarn(base: BaseFrequencies, yarn: &Yarn) -> Result<impl Fn(usize) -> Float128> {
    let factor = positive("factor", yarn.factor)?;
    let context = length_of("original_context", yarn.original_context, 1)?;
    let or = |beta: f64, default: f64| if beta == 0.0 { default } else { beta };
    let fast = positive("beta_fast", or(yarn.beta_fast, 32.0))?;
    let slow = positive("beta_slow", or(yarn.beta_slow, 1.0))?;
    let ramp = base.ramp([fast, slow], context, yarn.truncate)?;
    let turns = base.turns();
    Ok(move |i| {
        let turns = turns(i);
        blend(turns / factor, turns, ramp(i))
    })
}

/// Hugging Face `_compute_yarn_parameters`: `attention_factor` overrides; `mscale` counts only with `mscale_all_dim`.
#[inline(never)]
fn yarn_attention_factor(yarn: &Yarn) -> Result<f64> {
    if let Some(given) = yarn.attention_factor {
        return attention_factor(given);
    }
    let factor = positive("factor", yarn.factor)?;
    let (mscale, all_dim) = (
        finite("mscale", yarn.mscale)?,
        finite("mscale_all_dim", yarn.mscale_all_dim)?,
    );
    let magnitude = match mscale.is_zero() || all_dim.is_zero() {
        true => magnitude(factor, Float128::ONE),
        false => magnitude(factor, mscale) / magnitude(factor, all_dim),
    };
    // A negative mscale can make the magnitude zero or negative.
    attention_factor(magnitude.to_f64())
}

/// Hugging Face `deepseek_v3`, `yarn_get_mscale(scaling_factor, mscale_all_dim)` squared.
#[inline(never)]
fn yarn_softmax_factor(yarn: &Yarn) -> Result<f64> {
    let all_dim = finite("mscale_all_dim", yarn.mscale_all_dim)?;
    let magnitude = magnitude(positive("factor", yarn.factor)?, all_dim);
    let value = (magnitude * magnitude).to_f64();
    finite("mscale_all_dim", value).map(|_| value)
}

/// YaRN's `get_mscale`.
#[inline(never)]
fn magnitude(factor: Float128, mscale: Float128) -> Float128 {
    match factor > Float128::ONE {
        true => Float128::ratio(1, 10) * mscale * factor.ln() + Float128::ONE,
        false => Float128::ONE,
    }
}

/// Hugging Face `_compute_longrope_parameters`.
#[inline(never)]
fn longrope<'a>(
    base: BaseFrequencies,
    long: &LongRope<'a>,
) -> Result<impl Fn(usize) -> Float128 + use<'a>> {
    let names = ["short_factor", "long_factor"];
    for (name, factors) in names.into_iter().zip([long.short_factor, long.long_factor]) {
        each_pair(name, base, factors.iter().copied(), positive)?;
    }
    length_of("original_context", long.original_context, 1)?;
    let factors = if long.length > long.original_context {
        long.long_factor
    } else {
        long.short_factor
    };
    let turns = base.turns();
    Ok(move |i| turns(i) / Float128::from_f64(factors[i]))
}

/// Hugging Face `_compute_longrope_parameters`: `sqrt(1 + ln s / ln L)`.
#[inline(never)]
fn longrope_attention_factor(long: &LongRope<'_>) -> Result<f64> {
    if let Some(given) = long.attention_factor {
        return attention_factor(given);
    }
    let factor = positive("factor", long.factor)?;
    if factor <= Float128::ONE {
        return Ok(1.0);
    }
    let context = length_of("original_context", long.original_context, 2)?;
    Ok((Float128::ONE + factor.log2() / context.log2())
        .pow(Float128::ratio(1, 2))
        .to_f64())
}

/// Hugging Face `_compute_llama3_parameters`. Its comparison of wavelengths `2 pi / w_i` with `L / low` and `L / high`
/// is one of turns in the original context here.
#[inline(never)]
fn llama3(
    base: BaseFrequencies,
    factor: f64,
    limits: [f64; 2],
    original_context: u64,
) -> Result<impl Fn(usize) -> Float128> {
    let factor = positive("factor", factor)?;
    let (low, high) = (
        positive("low_freq_factor", limits[0])?,
        positive("high_freq_factor", limits[1])?,
    );
    if high < low {
        let required = "not below low_freq_factor";
        return Err(Error::parameter("high_freq_factor", limits[1], required));
    }
    let context = length_of("original_context", original_context, 1)?;
    let turns = base.turns();
    Ok(move |i| {
        let turns = turns(i);
        let in_context = context * turns;
        if in_context > high {
            turns
        } else if in_context < low || low == high {
            turns / factor
        } else {
            blend(turns / factor, turns, (in_context - low) / (high - low))
        }
    })
}

/// Interpolates linearly between `a` at 0 and `b` at 1.
#[inline(never)]
fn blend(a: Float128, b: Float128, at: Float128) -> Float128 {
    if at == Float128::ONE {
        b
    } else {
        a + (b - a) * at
    }
}

#[inline(never)]
fn part(name: &'static str, value: f64) -> Result<Float128> {
    let fits = (0.0..=1.0).contains(&value);
    required(name, value, fits, "between 0 and 1")
}

#[inline(never)]
fn length_of(name: &'static str, value: u64, least: u64) -> Result<Float128> {
    match value >= least {
        true => Ok(Float128::from_u64(value)),
        false => Err(Error::parameter(
            name,
            value as f64,
            "positive (and above 1 for a logarithm)",
        )),
    }
}

/// Checks that a list has one valid number per pair.
fn each_pair(
    name: &'static str,
    base: BaseFrequencies,
    given: impl ExactSizeIterator<Item = f64>,
    check: fn(&'static str, f64) -> Result<Float128>,
) -> Result<()> {
    check_count(name, given.len(), base.pairs())?;
    for (index, value) in given.enumerate() {
        check(name, value).map_err(|error| error.in_list(index))?;
    }
    Ok(())
}
