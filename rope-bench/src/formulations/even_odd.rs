//! Even and odd: elementwise products of the even and of the odd channels, each read with a stride of two.
//!
//! ```text
//! y[0::2] = x[0::2] cos - x[1::2] sin
//! y[1::2] = x[0::2] sin + x[1::2] cos
//! ```
//!
//! torchtune and RoFormer's own code have this form (they stack the two results, which is the strided write).

use rope_core::Pairing;

use super::literature::{Literature, by_heads, cos_sin_f32};
use crate::cases::Element;

/// One pass for the even channels and one for the odd, head by head.
pub const EVEN_ODD: Literature = Literature {
    name: "even-odd",
    summary: "elementwise, over even and odd channels with a stride of two",
    source: "ZhuiyiTechnology/roformer; meta-pytorch/torchtune, position_embeddings.py",
    counting: "positions and pairs from 0 in the code; the paper (arXiv:2104.09864) counts both from 1",
    pairing: &[Pairing::Interleaved],
    elements: &[Element::F32],
    partial: false,
    table: |_| 0,
    prepare: |case| {
        let pairs = case.workload.head_dim / 2;
        let (cos, sin): (Vec<f32>, Vec<f32>) = cos_sin_f32(&case.workload).unzip();
        let rows = cos.chunks(pairs).zip(sin.chunks(pairs));
        let table = rows.flat_map(|(cos, sin)| [cos, sin]).flatten().copied();
        by_heads(case, table.collect(), |row, x, y| {
            let (cos, sin) = row.split_at(row.len() / 2);
            let pairs = || {
                let odd = x.iter().skip(1).step_by(2);
                x.iter().step_by(2).zip(odd).zip(cos.iter().zip(sin))
            };
            for (y, ((x0, x1), (cos, sin))) in y.iter_mut().step_by(2).zip(pairs()) {
                *y = x0 * cos - x1 * sin;
            }
            for (y, ((x0, x1), (cos, sin))) in y.iter_mut().skip(1).step_by(2).zip(pairs()) {
                *y = x0 * sin + x1 * cos;
            }
        })
    },
};
