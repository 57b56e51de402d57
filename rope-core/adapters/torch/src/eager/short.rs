//! Pairs of 16-bit elements, [`LANES`] at once: two products and a sum for each channel, each rounded.
//!
//! Arithmetic is in loops over lanes, of which the compiler makes vector code. (Of the closures of `map` it would not:
//! they are compiled without the instruction set.)

use rope_core::half::{bf16, f16};

use crate::convert::{Convert, LANES};
use crate::number::{Number, rounded_to_bf16};

/// The row of the pairs: cos, and sin with the direction's sign.
pub(super) type Row<'a> = [&'a [f32; LANES]; 2];

/// A 16-bit element. The values of rows are of this type, too.
pub(crate) trait Short: Number {
    const ZERO: Self;

    /// Rotates pairs of a channel from each half.
    fn rotate_halves(
        x: &mut [Self; LANES],
        y: &mut [Self; LANES],
        row: Row<'_>,
        convert: impl Convert,
    );

    /// Rotates pairs of neighbors.
    fn rotate_neighbors(pairs: &mut [[Self; 2]; LANES], row: Row<'_>, convert: impl Convert);
}

impl Short for bf16 {
    const ZERO: Self = bf16::ZERO;

    #[inline(always)]
    fn rotate_halves(x: &mut [Self; LANES], y: &mut [Self; LANES], row: Row<'_>, _: impl Convert) {
        let [cos, sin] = row;
        for lane in 0..LANES {
            [x[lane], y[lane]] = turned([x[lane], y[lane]], cos[lane], sin[lane]);
        }
    }

    #[inline(always)]
    fn rotate_neighbors(pairs: &mut [[Self; 2]; LANES], [cos, sin]: Row<'_>, _: impl Convert) {
        for lane in 0..LANES {
            pairs[lane] = turned(pairs[lane], cos[lane], sin[lane]);
        }
    }
}

#[inline(always)]
fn turned([x, y]: [bf16; 2], cos: f32, sin: f32) -> [bf16; 2] {
    let rounded = |product: f32| f32::from_bits(rounded_to_bf16(product) & 0xffff_0000);
    let narrowed = |sum: f32| bf16::from_bits((rounded_to_bf16(sum) >> 16) as u16);
    let (x, y) = (x.widened(), y.widened());
    [
        narrowed(rounded(x * cos) - rounded(y * sin)),
        narrowed(rounded(y * cos) + rounded(x * sin)),
    ]
}

impl Short for f16 {
    const ZERO: Self = f16::ZERO;

    #[inline(always)]
    fn rotate_halves(
        x: &mut [Self; LANES],
        y: &mut [Self; LANES],
        [cos, sin]: Row<'_>,
        convert: impl Convert,
    ) {
        let (x_wide, y_wide) = (convert.f16_widened(*x), convert.f16_widened(*y));
        let rounded = |x, y| convert.f16_widened(convert.f16_narrowed(products(x, y)));
        let (x_cos, y_sin) = (rounded(&x_wide, cos), rounded(&y_wide, sin));
        let (y_cos, x_sin) = (rounded(&y_wide, cos), rounded(&x_wide, sin));
        let [mut first, mut second] = [[0.0; LANES]; 2];
        for lane in 0..LANES {
            first[lane] = x_cos[lane] - y_sin[lane];
            second[lane] = y_cos[lane] + x_sin[lane];
        }
        (*x, *y) = (convert.f16_narrowed(first), convert.f16_narrowed(second));
    }

    #[inline(always)]
    fn rotate_neighbors(pairs: &mut [[Self; 2]; LANES], row: Row<'_>, convert: impl Convert) {
        let [mut x, mut y] = [[f16::ZERO; LANES]; 2];
        for lane in 0..LANES {
            [x[lane], y[lane]] = pairs[lane];
        }
        Self::rotate_halves(&mut x, &mut y, row, convert);
        for lane in 0..LANES {
            pairs[lane] = [x[lane], y[lane]];
        }
    }
}

#[inline(always)]
fn products(x: &[f32; LANES], y: &[f32; LANES]) -> [f32; LANES] {
    let mut products = [0.0; LANES];
    for lane in 0..LANES {
        products[lane] = x[lane] * y[lane];
    }
    products
}
