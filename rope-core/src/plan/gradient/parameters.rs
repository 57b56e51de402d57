//! The chain rule from frequencies to the parameters they are computed from.

/// Converts gradients of frequencies `f = r f0` to those of their ratios `r`, in place: `dr = f0 df`. For frequencies
/// learned as ratios to fixed ones (LeRoPE).
///
/// Given the frequencies `f` themselves, these are the gradients of their logarithms, `dl = f df`: of `f = exp(l)`
/// (k-diffusion's `AxialRoPE`) and of `f = f0 exp(alpha)` (Mistral Large 4).
///
/// The rest of a longer list is unused.
#[doc(alias("to_ratio", "to_logarithm", "convert_to_logarithm"))]
pub fn convert_to_ratio(fixed: &[f64], gradients: &mut [f64]) {
    for (gradient, fixed) in gradients.iter_mut().zip(fixed) {
        *gradient *= fixed;
    }
}

/// Computes the gradient of the base of frequencies `f_i = b^(-i/n)`, pairs `i` of `n`: `db = sum of -(i / (n b)) f_i
/// df_i`, pair by pair. For a learned base.
#[doc(alias = "to_base")]
pub fn convert_to_base(base: f64, frequencies: &[f64], gradients: &[f64]) -> f64 {
    let pairs = frequencies.len() as f64;
    let terms = frequencies.iter().zip(gradients).enumerate();
    terms.fold(0.0, |sum, (pair, (frequency, gradient))| {
        sum - pair as f64 / (pairs * base) * (frequency * gradient)
    })
}
