//! From the gradient of frequencies to that of what they are computed from.

/// Of `f = exp(l)`, frequencies that are learned as logarithms (k-diffusion's `AxialRoPE`), or of `f = f0 exp(alpha)`
/// (Mistral Large 4): makes the gradients by `l` or `alpha` of those by `f`, `dl = f df`.
///
/// A list that is longer than the other has the rest untouched.
pub fn convert_to_logarithm(frequencies: &[f64], gradients: &mut [f64]) {
    for (gradient, frequency) in gradients.iter_mut().zip(frequencies) {
        *gradient *= frequency;
    }
}

/// Of `f = r f0`, frequencies that are learned as ratios to fixed ones (LeRoPE): makes the gradients by `r` of those by
/// `f`, `dr = f0 df`.
///
/// A list that is longer than the other has the rest untouched.
pub fn convert_to_ratio(fixed: &[f64], gradients: &mut [f64]) {
    convert_to_logarithm(fixed, gradients);
}

/// Of `f_i = b^(-i/n)` for the pairs `i` of `n`, frequencies that follow from a learned base: its gradient,
/// `db = sum of -(i / (n b)) f_i df_i`, pair by pair.
pub fn convert_to_base(base: f64, frequencies: &[f64], gradients: &[f64]) -> f64 {
    let pairs = frequencies.len() as f64;
    let terms = frequencies.iter().zip(gradients).enumerate();
    terms.fold(0.0, |sum, (pair, (frequency, gradient))| {
        sum - pair as f64 / (pairs * base) * (frequency * gradient)
    })
}
