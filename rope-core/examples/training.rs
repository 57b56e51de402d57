//! The gradient of a rotation is the rotation by its transpose.
//!
//! If the gradient of a loss by the rotated `y = A R x` is `g`, its gradient by `x` is `A R^T g`:
//! `Direction::Transpose` with the rows of the forward pass. It multiplies by the attention factor `A` as the forward
//! pass did, where `Direction::Inverse`, which undoes a rotation, divides by it.
//!
//! `cargo run -p rope-core --example training`

use rope_core::{Direction, Error, Frequencies, Pairing, Rope, Scaling, TensorMut, Yarn};

const SHAPE: [usize; 4] = [1, 3, 2, 64];

fn rotated(rope: Rope, x: &[f32], rows: &rope_core::Rows<'_>) -> Result<Vec<f32>, Error> {
    let mut y = x.to_vec();
    rope.rotate(&mut TensorMut::new(&mut y, SHAPE)?, rows)?;
    Ok(y)
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter()
        .zip(y)
        .map(|(&x, &y)| f64::from(x) * f64::from(y))
        .sum()
}

pub(crate) fn main() -> Result<(), Error> {
    let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Yarn(Yarn::new(4.0, 4096)))?;
    let factor = frequencies.attention_factor();
    let rows = frequencies.rows(70_000..70_003)?;
    let forward = Rope::new(Pairing::Half);
    let backward = forward.with_direction(Direction::Transpose);

    let len: usize = SHAPE.iter().product();
    let x: Vec<f32> = (0..len).map(|i| (i % 31) as f32 / 31.0 - 0.5).collect();
    let gradient_of_y: Vec<f32> = (0..len).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect();
    let y = rotated(forward, &x, &rows)?;
    let gradient_of_x = rotated(backward, &gradient_of_y, &rows)?;

    // What makes it the gradient: <g, A R x> = <A R^T g, x>, for any x and g.
    let (left, right) = (dot(&gradient_of_y, &y), dot(&gradient_of_x, &x));
    let size = dot(&x, &x).sqrt() * dot(&gradient_of_y, &gradient_of_y).sqrt();
    assert!((left - right).abs() <= 1e-6 * size, "{left} {right}");
    println!("<g, rotated x> = {left:.6}, <gradient, x> = {right:.6}");

    // It is no inverse: there and back is A^2 x, where the inverse gives x.
    let back = rotated(backward, &y, &rows)?;
    let undone = rotated(forward.with_direction(Direction::Inverse), &y, &rows)?;
    for ((x, back), undone) in x.iter().zip(back).zip(undone) {
        assert!((f64::from(back) - factor * factor * f64::from(*x)).abs() <= 1e-6);
        assert!((undone - x).abs() <= 1e-6);
    }
    println!("attention factor {factor:.6}: transposed, x times its square; inverse, x");

    // Without the factor, backward is forward at the opposite positions, bit for bit.
    let plain = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
    let transposed = rotated(backward, &y, &plain.rows(1..4)?)?;
    let opposite = rotated(forward, &y, &plain.rows(&[-1_i64, -2, -3])?)?;
    assert_eq!(transposed, opposite);
    Ok(())
}
