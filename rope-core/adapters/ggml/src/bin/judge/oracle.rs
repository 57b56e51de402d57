//! The rotation in f64, and the admitted distance of a result.

use llama_cpp_sys_2 as c;
use rope_core::Pairing;
use rope_ggml::Parameters;

use crate::case::Operator;

/// The admitted error of an f32, over the magnitudes of its pair: the roundings of cos or sin, of their attention
/// factor, of the products and of the sum.
const ROUNDINGS: f64 = 4.0 / (1 << 24) as f64;

/// Returns the largest distance of an element from the rotation in f64, over the bound of its roundings. Channels that
/// do not rotate must be unchanged.
///
/// # Safety
///
/// The tensors have memory.
pub(crate) unsafe fn of_bound(operator: &Operator, x: &[f32], y: &[f32]) -> Result<f64, String> {
    // SAFETY: by contract, and positions and factors are contiguous.
    let (result, positions, factors) = unsafe {
        let (positions, factors) = (&*operator.positions, operator.factors.as_ref());
        (
            &*operator.result,
            std::slice::from_raw_parts(positions.data.cast::<i32>(), positions.ne[0] as usize),
            factors.map(|it| std::slice::from_raw_parts(it.data.cast::<f32>(), it.ne[0] as usize)),
        )
    };
    let parameters = Parameters::read(result)?;
    let pairs: Vec<_> = parameters.pairs(factors).collect();
    let factor = parameters.attention_factor();
    let sign = if result.op == c::GGML_OP_ROPE {
        1.0
    } else {
        -1.0
    };
    let [head_dim, heads, tokens, _] = result.ne.map(|extent| extent as usize);
    let mut largest: f64 = 0.0;
    for (index, (x, y)) in x.chunks(head_dim).zip(y.chunks(head_dim)).enumerate() {
        let token = index / heads % tokens;
        let window = parameters.offset..parameters.offset + parameters.rotary_dim();
        let still = |channel: &usize| !window.contains(channel);
        if (0..head_dim)
            .filter(still)
            .any(|channel| x[channel].to_bits() != y[channel].to_bits())
        {
            return Err("a channel that does not rotate changed".into());
        }
        for (pair, of) in pairs.iter().enumerate() {
            let members = match parameters.pairing() {
                Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                Pairing::Half => [pair, pair + pairs.len()],
            };
            let [first, second] = members.map(|channel| channel + window.start);
            let angle = f64::from(positions[usize::from(of.axis) * tokens + token]) * of.inverse;
            let (cos, sin) = (angle.cos() * factor, sign * angle.sin() * factor);
            let (a, b) = (f64::from(x[first]), f64::from(x[second]));
            let bound = (a.abs() + b.abs()) * factor * ROUNDINGS;
            for (exact, got) in [
                (a * cos - b * sin, y[first]),
                (a * sin + b * cos, y[second]),
            ] {
                // Half an ulp of the result, or of the subnormal numbers.
                let stored = if result.type_ == c::GGML_TYPE_F16 {
                    (exact.abs() + bound) / f64::from(1 << 11)
                        + f64::from(f32::from_bits(0x3300_0000))
                } else {
                    0.0
                };
                largest = largest.max((exact - f64::from(got)).abs() / (bound + stored));
            }
        }
    }
    Ok(largest)
}
