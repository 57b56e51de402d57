//! How frequencies are stretched for longer contexts.

use rope_core::{LongRope, Scaling, Yarn};

use crate::failure::Failure;
use crate::memory::{Out, Region, Span, plain};
use crate::names::lookup;
use crate::status::{rope_status, status_of};

/// The change of a model to the frequencies base^(-2i/d). Each kind names the fields of rope_scaling that it reads.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_scaling_kind {
    /// Not at all.
    Default = 0,
    /// Position interpolation: `factor`, ggml's `1 / freq_scale`.
    Linear = 2501,
    /// Hugging Face's dynamic: `factor`, `max_position_embeddings`, `length`.
    DynamicNtk = 2502,
    /// HunYuan's: `alpha`.
    NtkAlpha = 2503,
    /// kexue.fm/9706: `factor`.
    NtkFixed = 2504,
    /// kexue.fm/9706 with a mixed base: `factor`, `mixed_b`.
    NtkMixed = 2505,
    /// NTK by parts: `factor`, `original_context`, `ntk_factor`, `extrapolation_factor`.
    NtkByParts = 2506,
    /// YaRN: `factor`, `original_context`, `beta_fast`, `beta_slow`, `untruncated`, `attention_factor`, `mscale`,
    /// `mscale_all_dim`.
    Yarn = 2507,
    /// LongRoPE: `short_factor`, `long_factor`, `count`, `original_context`, `length`, `factor`, `attention_factor`.
    LongRope = 2508,
    /// Llama 3.1: `factor`, `low_freq_factor`, `high_freq_factor`, `original_context`.
    Llama3 = 2509,
    /// Gemma 4's full-attention layers: `partial_rotary_factor`, `factor`.
    Proportional = 2510,
    /// ggml's rope_freqs: `freq_factors`, `count`.
    FreqFactors = 2511,
    /// A learned correction: `alphas`, `count`.
    Learned = 2512,
    /// Turns instead of radians: DINOv3.
    Turns = 2513,
    /// Periods in geometric progression: `min_period`, `max_period`.
    Periods = 2514,
}
lookup!(rope_scaling_kind, "scaling":
    Default Linear DynamicNtk NtkAlpha NtkFixed NtkMixed NtkByParts Yarn LongRope Llama3 Proportional FreqFactors
    Learned Turns Periods);

/// The parameters of a scaling, by their public names. A call does not read the fields that the kind does not name:
/// a struct of zeros will do, with the fields that count filled in. rope_scaling_init fills in the published values
/// as well.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_scaling {
    /// `enum rope_scaling_kind`.
    pub kind: i32,
    /// YARN: other than 0 if the ends of the ramp are not rounded to whole pairs (`truncate: false`; gpt-oss).
    pub untruncated: i32,
    /// The ratio of the extended context to the original one.
    pub factor: f64,
    /// The context before scaling.
    pub original_context: u64,
    /// The context of the model.
    pub max_position_embeddings: u64,
    /// The length of the sequence so far: the largest position plus one.
    pub length: u64,
    /// LLAMA3: turns in the original context up to which a pair is slow. Published: 1.
    pub low_freq_factor: f64,
    /// LLAMA3: turns in the original context from which a pair is fast. Published: 4.
    pub high_freq_factor: f64,
    /// YARN: turns in the original context from which a pair is left as it is; 0 means the published 32.
    pub beta_fast: f64,
    /// YARN: turns in the original context up to which a pair is interpolated; 0 means the published 1.
    pub beta_slow: f64,
    /// YARN, LONG_ROPE: the factor of cos and sin; 0: computed.
    pub attention_factor: f64,
    /// YARN.
    pub mscale: f64,
    /// YARN.
    pub mscale_all_dim: f64,
    /// NTK_ALPHA.
    pub alpha: f64,
    /// NTK_MIXED.
    pub mixed_b: f64,
    /// NTK_BY_PARTS. Published: 1.
    pub ntk_factor: f64,
    /// NTK_BY_PARTS. Published: 1.
    pub extrapolation_factor: f64,
    /// PROPORTIONAL: the part of the head that rotates, up to 1.
    pub partial_rotary_factor: f64,
    /// PERIODS: the period of the first pair.
    pub min_period: f64,
    /// PERIODS: the period of the last pair.
    pub max_period: f64,
    /// LONG_ROPE: a divisor for each pair within the original context.
    pub short_factor: *const f64,
    /// LONG_ROPE: a divisor for each pair beyond it.
    pub long_factor: *const f64,
    /// LEARNED: the logarithm of a factor for each pair.
    pub alphas: *const f64,
    /// FREQ_FACTORS: a divisor for each pair.
    pub freq_factors: *const f32,
    /// The length of each list: one number per pair.
    pub count: usize,
}
plain!(rope_scaling);

impl rope_scaling {
    pub(crate) const ZERO: rope_scaling = rope_scaling {
        kind: rope_scaling_kind::Default as i32,
        untruncated: 0,
        factor: 0.0,
        original_context: 0,
        max_position_embeddings: 0,
        length: 0,
        low_freq_factor: 0.0,
        high_freq_factor: 0.0,
        beta_fast: 0.0,
        beta_slow: 0.0,
        attention_factor: 0.0,
        mscale: 0.0,
        mscale_all_dim: 0.0,
        alpha: 0.0,
        mixed_b: 0.0,
        ntk_factor: 0.0,
        extrapolation_factor: 0.0,
        partial_rotary_factor: 0.0,
        min_period: 0.0,
        max_period: 0.0,
        short_factor: core::ptr::null(),
        long_factor: core::ptr::null(),
        alphas: core::ptr::null(),
        freq_factors: core::ptr::null(),
        count: 0,
    };

    /// # Safety
    ///
    /// The pointers that the kind names are null or point to their lists, which nobody writes during `'a`.
    pub(crate) unsafe fn scaling<'a>(&self) -> Result<(Scaling<'a>, [Region; 2]), Failure> {
        let Self {
            factor,
            original_context,
            max_position_embeddings,
            length,
            low_freq_factor,
            high_freq_factor,
            alpha,
            mixed_b,
            ntk_factor,
            extrapolation_factor,
            partial_rotary_factor,
            min_period,
            max_period,
            count,
            ..
        } = *self;
        let attention_factor = (self.attention_factor != 0.0).then_some(self.attention_factor);
        let mut regions = [Region::bytes("list", 0, 0); 2];
        let scaling = match rope_scaling_kind::from_c(self.kind)? {
            rope_scaling_kind::Default => Scaling::Default,
            rope_scaling_kind::Linear => Scaling::Linear { factor },
            rope_scaling_kind::DynamicNtk => Scaling::DynamicNtk {
                factor,
                max_position_embeddings,
                length,
            },
            rope_scaling_kind::NtkAlpha => Scaling::NtkAlpha { alpha },
            rope_scaling_kind::NtkFixed => Scaling::NtkFixed { factor },
            rope_scaling_kind::NtkMixed => Scaling::NtkMixed { factor, mixed_b },
            rope_scaling_kind::NtkByParts => Scaling::NtkByParts {
                factor,
                original_context,
                ntk_factor,
                extrapolation_factor,
            },
            rope_scaling_kind::Yarn => Scaling::Yarn(Yarn {
                beta_fast: self.beta_fast,
                beta_slow: self.beta_slow,
                truncate: self.untruncated == 0,
                attention_factor,
                mscale: self.mscale,
                mscale_all_dim: self.mscale_all_dim,
                ..Yarn::new(factor, original_context)
            }),
            rope_scaling_kind::LongRope => {
                let (short, long) = (
                    Span::new("short_factor", self.short_factor, count)?,
                    Span::new("long_factor", self.long_factor, count)?,
                );
                regions = [short.region(), long.region()];
                Scaling::LongRope(LongRope {
                    // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                    short_factor: unsafe { short.get() },
                    // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                    long_factor: unsafe { long.get() },
                    original_context,
                    length,
                    factor,
                    attention_factor,
                })
            }
            rope_scaling_kind::Llama3 => Scaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_context,
            },
            rope_scaling_kind::Proportional => Scaling::Proportional {
                partial_rotary_factor,
                factor,
            },
            rope_scaling_kind::FreqFactors => {
                let factors = Span::new("freq_factors", self.freq_factors, count)?;
                regions[0] = factors.region();
                // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                let factors = unsafe { factors.get() };
                Scaling::FreqFactors { factors }
            }
            rope_scaling_kind::Learned => {
                let alphas = Span::new("alphas", self.alphas, count)?;
                regions[0] = alphas.region();
                // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
                let alphas = unsafe { alphas.get() };
                Scaling::Learned { alphas }
            }
            rope_scaling_kind::Turns => Scaling::Turns,
            rope_scaling_kind::Periods => Scaling::Periods {
                min_period,
                max_period,
            },
        };
        Ok((scaling, regions))
    }
}

/// Fills in a scaling: its kind (`enum rope_scaling_kind`), the published value of each field that has one, and
/// zeros.
///
/// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `scaling` is NULL or points to a rope_scaling.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_scaling_init(scaling: *mut rope_scaling, kind: i32) -> rope_status {
    status_of(|| {
        let out = Out::new("scaling", scaling)?;
        let published = rope_scaling {
            kind: rope_scaling_kind::from_c(kind)? as i32,
            factor: 1.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            ntk_factor: 1.0,
            extrapolation_factor: 1.0,
            partial_rotary_factor: 1.0,
            ..rope_scaling::ZERO
        };
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(published) };
        Ok(())
    })
}
