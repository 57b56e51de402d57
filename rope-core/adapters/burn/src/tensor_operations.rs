//! The rotation as burn's tensor operations, for every device but Flex and for every type without a kernel in
//! rope-core: each product and each sum rounded by itself, in `f32` (in `f64` for `f64`), as in rope-core.

use alloc::vec;

use burn_core::tensor::{DType, Tensor};
use rope_core::Pairing;

/// Rotates `x`, of shape `[batch, heads, tokens, head_dim]`, by matching cos and sin.
pub(crate) fn rotate(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>, pairing: Pairing) -> Tensor<4> {
    let dtype = x.dtype();
    let arithmetic = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let [x, cos, sin] = [x, cos, sin].map(|tensor| match tensor.dtype() {
        same if same == arithmetic => tensor,
        _ => tensor.cast(arithmetic),
    });
    let ([batch, heads, tokens, head_dim], pairs) = (x.dims(), cos.dims()[3]);
    // The members of a pair are two indices of this dimension.
    let (members, grid) = match pairing {
        Pairing::Half => (3, [batch, heads, tokens, 2, pairs]),
        Pairing::Interleaved => (4, [batch, heads, tokens, pairs, 2]),
    };
    let channels = x.clone().narrow(3, 0, 2 * pairs).reshape(grid);
    let [first, second] = [0, 1].map(|member| {
        let shape = [batch, heads, tokens, pairs];
        channels.clone().narrow(members, member, 1).reshape(shape)
    });
    let rotated = [
        first.clone() * cos.clone() - second.clone() * sin.clone(),
        first * sin + second * cos,
    ];
    let rotated =
        Tensor::stack::<5>(rotated.into(), members).reshape([batch, heads, tokens, 2 * pairs]);
    let passed = head_dim - 2 * pairs;
    let y = match passed {
        0 => rotated,
        _ => Tensor::cat(vec![rotated, x.narrow(3, 2 * pairs, passed)], 3),
    };
    match dtype {
        same if same == arithmetic => y,
        _ => y.cast(dtype),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Distribution, Tensor};
    use rope_core::Pairing;

    /// Other backends compute 16-bit elements as rope-core does: in f32, with one rounding.
    #[test]
    fn elements_of_16_bits_have_the_bits_of_rope_core() {
        let device = Device::flex();
        let seed = std::env::var("ROPE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        device.seed(seed);
        let normal =
            |dims: [usize; 4]| Tensor::<4>::random(dims, Distribution::Normal(0.0, 1.0), &device);
        for dtype in [DType::F16, DType::BF16] {
            for pairing in Pairing::ALL {
                let x = normal([2, 3, 5, 19]).cast(dtype);
                let rows = crate::RotaryRows::new(normal([2, 1, 5, 8]), normal([2, 1, 5, 8]));
                let rows = rows.expect("rows");
                let expected = crate::rotate(x.clone(), &rows, pairing).expect("rows that fit");
                let y = super::rotate(x, rows.cos, rows.sin, pairing);
                assert_eq!(y.dtype(), dtype);
                let (y, expected) = (y.into_data(), expected.into_data());
                assert_eq!(
                    y.as_bytes(),
                    expected.as_bytes(),
                    "seed {seed}: {dtype:?} {pairing}"
                );
            }
        }
    }
}
