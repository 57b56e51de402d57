//! Even and odd: elementwise products of the even channels and the odd ones, each taken with a stride of two.
//!
//! ```text
//! y[0::2] = x[0::2] cos - x[1::2] sin
//! y[1::2] = x[0::2] sin + x[1::2] cos
//! ```
//!
//! torchtune and RoFormer's own code are of this form (they stack the two results, which is the strided write).

use rope_core::Pairing;

use super::cos_sin_f32;
use super::literature::{Literature, out_of_place};

/// One pass for the even channels and one for the odd, head by head.
pub const EVEN_ODD: Literature = Literature {
    name: "even-odd",
    summary: "elementwise, over even and odd channels with a stride of two",
    source: "ZhuiyiTechnology/roformer; meta-pytorch/torchtune, position_embeddings.py",
    counting: "positions and pairs from 0 in the code; the paper (arXiv:2104.09864) counts both from 1",
    pairing: &[Pairing::Interleaved],
    cost: |_| (2.0, 3.0),
    table: |_| 0,
    prepare: |case| {
        let workload = case.workload.clone();
        let (cos, sin): (Vec<f32>, Vec<f32>) = cos_sin_f32(&workload).unzip();
        let dim = workload.head_dim;
        let pairs = dim / 2;
        out_of_place(case, move |x, output| {
            workload.each_head(|head| {
                let (cos, sin) = (
                    &cos[head.row * pairs..][..pairs],
                    &sin[head.row * pairs..][..pairs],
                );
                let (x, y) = (&x[head.at..][..dim], &mut output[head.at..][..dim]);
                let even = || x.iter().step_by(2);
                let odd = || x.iter().skip(1).step_by(2);
                for ((y, (x0, x1)), (c, s)) in y
                    .iter_mut()
                    .step_by(2)
                    .zip(even().zip(odd()))
                    .zip(cos.iter().zip(sin))
                {
                    *y = x0 * c - x1 * s;
                }
                let y = y.iter_mut().skip(1).step_by(2);
                for ((y, (x0, x1)), (c, s)) in y.zip(even().zip(odd())).zip(cos.iter().zip(sin)) {
                    *y = x0 * s + x1 * c;
                }
            });
            Ok(())
        })
    },
};
