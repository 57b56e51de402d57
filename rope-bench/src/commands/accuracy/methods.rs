//! The methods for cos and sin, each as its users compute it.
//!
//! cos and sin themselves are those of the platform's libm, even if the original has its own (PyTorch's SLEEF, for
//! one). This differs by a unit in the last place, 6e-8, far below all relevant errors.

use anyhow::Result;
use half::bf16;
use rope_core::{Frequencies, Scaling};

use super::models::{LLAMA3, RecordedModel};

/// Computes (cos, sin) of every pair at a position.
pub type MakeRow = Box<dyn Fn(u32, &mut [(f32, f32)]) + Send + Sync>;

/// A method for cos and sin.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    pub name: &'static str,
    pub about: &'static str,
    pub source: &'static str,
    pub prepare: fn(&RecordedModel) -> Result<MakeRow>,
}

/// All methods, ours first.
pub const METHODS: &[Method] = &[
    Method {
        name: "rope-core",
        about: "phases in fixed point, cos and sin correctly rounded",
        source: "rope_core::Frequencies::rows",
        prepare: rope_core_rows,
    },
    Method {
        name: "f64 angle",
        about: "position times frequency, cos and sin in f64; rounded to f32",
        source: "cactus (tables made beforehand), imp (angles reduced in f64)",
        prepare: f64_angle,
    },
    Method {
        name: "f32 angle",
        about: "position times inverse frequency in f32, cos and sin in f32",
        source: "Hugging Face transformers, modeling_llama.py, LlamaRotaryEmbedding.forward",
        prepare: f32_angle,
    },
    Method {
        name: "iterated multiply",
        about: "theta = position; from pair to pair theta *= theta_scale in f32; cosf and sinf",
        source: "ggml, ggml-cpu/ops.cpp, ggml_rope_cache_init (llama.cpp)",
        prepare: iterated_multiply,
    },
    Method {
        name: "bf16 angle",
        about: "position, inverse frequency, angle, cos and sin each rounded to bf16",
        source: "candle-transformers, models/qwen2.rs, RotaryEmbedding::new, with the model's dtype",
        prepare: bf16_angle,
    },
];

/// The method of rope-core.
fn rope_core_rows(model: &RecordedModel) -> Result<MakeRow> {
    let frequencies = Frequencies::new(model.rotary_dim, model.base, &model.scaling)?;
    Ok(Box::new(move |position, row| {
        let mut storage = [f32::NAN; 256];
        let rows = frequencies
            .at(&[position])
            .and_then(|angles| angles.rows_in(&mut storage));
        match rows.as_ref().ok().and_then(|rows| rows.row(0, 0)) {
            Some((cos, sin)) => {
                for ((cos, sin), to) in cos.iter().zip(sin).zip(row) {
                    *to = (*cos, *sin);
                }
            }
            // The comparison detects the NaN.
            None => row.fill((f32::NAN, f32::NAN)),
        }
    }))
}

/// Computes `freqs = inv_freq @ position_ids.float()`, then `freqs.cos()` and `freqs.sin()`.
fn f32_angle(model: &RecordedModel) -> Result<MakeRow> {
    let inverse = model.inverse_of_torch()?;
    Ok(Box::new(move |position, row| {
        let position = position as f32;
        for (inverse, to) in inverse.iter().zip(row) {
            let angle = position * inverse;
            *to = (angle.cos(), angle.sin());
        }
    }))
}

/// Computes `theta_scale = powf(freq_base, -2.0f / n_dims)`; each angle is the previous one times that, divided by the
/// pair's `freq_factors` if the model has them.
fn iterated_multiply(model: &RecordedModel) -> Result<MakeRow> {
    let theta_scale = (model.base as f32).powf(-2.0 / model.rotary_dim as f32);
    let factors = freq_factors(model);
    Ok(Box::new(move |position, row| {
        let mut theta = position as f32;
        for (factor, to) in factors.iter().zip(row) {
            let angle = theta / factor;
            *to = (angle.cos(), angle.sin());
            theta *= theta_scale;
        }
    }))
}

/// Returns the factor, the low and the high frequency's factor, and the original context of a model with Llama 3's
/// scaling.
fn llama3(model: &RecordedModel) -> Option<[f64; 4]> {
    matches!(model.scaling, Scaling::Llama3 { .. }).then_some(LLAMA3)
}

/// Computes the tensor `rope_freqs.weight` as llama.cpp's convert_hf_to_gguf.py does, in f32; 1 without scaling.
fn freq_factors(model: &RecordedModel) -> Vec<f32> {
    let dim = model.rotary_dim as f32;
    let factor = |pair: usize| {
        let Some([factor, low, high, context]) = llama3(model) else {
            return 1.0;
        };
        let [factor, low, high, context] = [factor, low, high, context].map(|x| x as f32);
        let frequency = 1.0 / (model.base as f32).powf((2 * pair) as f32 / dim);
        let wavelength = std::f32::consts::TAU / frequency;
        if wavelength < context / high {
            1.0
        } else if wavelength > context / low {
            factor
        } else {
            let smooth = (context / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..model.pairs()).map(factor).collect()
}

/// Computes `Tensor::arange(..).to_dtype(bf16)` times `inv_freq.to_dtype(bf16)`, then `.cos()` and `.sin()` of the
/// bf16.
fn bf16_angle(model: &RecordedModel) -> Result<MakeRow> {
    let round = |x: f32| bf16::from_f32(x).to_f32();
    let inverse: Vec<f32> = model.inverse_of_torch()?.into_iter().map(round).collect();
    Ok(Box::new(move |position, row| {
        let position = round(position as f32);
        for (inverse, to) in inverse.iter().zip(row) {
            let angle = round(position * inverse);
            *to = (round(angle.cos()), round(angle.sin()));
        }
    }))
}

/// Computes everything in f64 except the result.
fn f64_angle(model: &RecordedModel) -> Result<MakeRow> {
    let dim = model.rotary_dim as f64;
    let frequency = |pair: usize| {
        let frequency = model.base.powf(-((2 * pair) as f64) / dim);
        llama3(model).map_or(frequency, |scaled| scale(scaled, frequency))
    };
    let frequencies: Vec<f64> = (0..model.pairs()).map(frequency).collect();
    Ok(Box::new(move |position, row| {
        let position = f64::from(position);
        for (frequency, to) in frequencies.iter().zip(row) {
            let angle = position * frequency;
            *to = (angle.cos() as f32, angle.sin() as f32);
        }
    }))
}

/// Computes Hugging Face's `_compute_llama3_parameters`, in f64.
fn scale([factor, low, high, context]: [f64; 4], frequency: f64) -> f64 {
    let wavelength = std::f64::consts::TAU / frequency;
    if wavelength < context / high {
        frequency
    } else if wavelength > context / low {
        frequency / factor
    } else {
        let smooth = (context / wavelength - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}
