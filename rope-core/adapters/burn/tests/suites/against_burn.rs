//! burn-nn's `RotaryEncoding` has the same rotation at small positions, and the error of f32 angles at large ones.

use burn::nn::RotaryEncodingConfig as BurnConfig;
use burn::tensor::{DType, Device, Tensor};
use rope_burn::RotaryEncodingConfig;

use crate::support::{Source, U, values};

/// `x` rotated in f64, interleaved, from angles that are products of f64.
fn exact(x: &Tensor<4>, base: f64, start: usize) -> Vec<f64> {
    let [.., tokens, head_dim] = x.dims();
    let mut y: Vec<f64> = values(x).into_iter().map(f64::from).collect();
    for (row, head) in y.chunks_exact_mut(head_dim).enumerate() {
        let position = (start + row % tokens) as f64;
        for (pair, [a, b]) in head.as_chunks_mut().0.iter_mut().enumerate() {
            let angle = position * base.powf(-2.0 * pair as f64 / head_dim as f64);
            let (sin, cos) = angle.sin_cos();
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
    y
}

/// The largest distance of a channel from the exact one, relative to the length of its pair before the rotation.
fn error(y: &Tensor<4>, x: &Tensor<4>, exact: &[f64]) -> f64 {
    let (y, x) = (values(y), values(x));
    let mut largest = 0.0_f64;
    for (index, (y, exact)) in y.iter().zip(exact).enumerate() {
        let pair = index & !1;
        let length = f64::from(x[pair]).hypot(x[pair + 1].into());
        largest = largest.max((f64::from(*y) - exact).abs() / length);
    }
    largest
}

/// The largest error of an `f32` angle at a position. The inverse frequency is `exp(-ln(base) * 2i/d)`: its
/// argument, up to `ln(base)`, has the rounding of the quotient, of the logarithm and of the product, so it is wrong by
/// 3 ln(base) u; `exp` and `recip` add some 3 u of the result, and the product with the position one more. An angle is
/// at most the position.
fn angle_error(base: f64, position: usize) -> f64 {
    position as f64 * (3.0 * base.ln() + 4.0) * U
}

#[test]
fn small_positions_agree_within_the_rounding_of_angles() {
    let (source, device) = (&mut Source::random("burn"), Device::flex());
    for (head_dim, base) in [(16, 10_000.0), (64, 10_000.0), (128, 500_000.0)] {
        let (tokens, start) = (1 + source.below(60), source.below(400));
        let burn = BurnConfig::new(512, head_dim)
            .with_theta(base as f32)
            .init(&device);
        let ours = RotaryEncodingConfig::new(512, head_dim)
            .with_theta(base)
            .init(&device);
        let x = source.tensor([2, 3, tokens, head_dim], DType::F32, &device);
        let exact = exact(&x, base, start);
        let ours = error(&ours.apply(x.clone(), start), &x, &exact);
        let burn = error(&burn.apply(x.clone(), start), &x, &exact);
        println!("{head_dim} channels, base {base}, from {start}: {ours:.1e} {burn:.1e}");
        // A cos and a sin rounded once, two products, a sum; what is exact is an angle in f64, wrong by 2^-40 here.
        assert!(ours <= 4.0 * U, "{ours}");
        // The same and the error of the angle, which moves a channel by as much of the pair's length.
        assert!(
            burn <= angle_error(base, start + tokens) + 8.0 * U,
            "{burn}"
        );
    }
}

#[test]
fn at_100_000_angles_in_f32_are_wrong_and_ours_are_not() {
    let (source, device) = (&mut Source::random("far"), Device::flex());
    let (head_dim, base, start, tokens) = (64, 10_000.0, 100_000, 32);
    let burn = BurnConfig::new(start + tokens, head_dim).init(&device);
    let ours = RotaryEncodingConfig::new(16, head_dim).init(&device);
    let x = source.tensor([1, 2, tokens, head_dim], DType::F32, &device);
    let exact = exact(&x, base, start);
    let ours = error(&ours.apply(x.clone(), start), &x, &exact);
    let burn = error(&burn.apply(x.clone(), start), &x, &exact);
    println!("at {start}, relative to f64: burn-nn {burn:.1e}, rope-burn {ours:.1e}");
    // The angle in f64 is itself wrong by 100,000 * 2^-52.
    assert!(ours <= 4.0 * U, "{ours}");
    assert!(burn >= 1e-3, "{burn}");
    assert!(
        burn <= angle_error(base, start + tokens) + 8.0 * U,
        "{burn}"
    );
}
