//! One mistake per function, each of which a user makes. The suite `compile_errors` compiles this file, and compares
//! the texts of the errors with `messages.txt`.

use rope_core::cache::CacheMut;
use rope_core::gradient::PairGradients;
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Frequencies, FullRows, Pairing, Positions, Rope, Rows, Tensor, TensorMut};

fn a_slice_as_a_source(rope: Rope, x: &[f32], y: &mut TensorMut<'_, f32>, rows: &Rows<'_>) {
    let _ = rope.rotate_into(&x, y, rows);
}

fn a_list_as_a_target(rope: Rope, x: &mut Vec<f32>, rows: &Rows<'_>) {
    let _ = rope.rotate(x, rows);
}

fn frequencies_as_angles(rope: Rope, x: &mut TensorMut<'_, f32>, frequencies: &Frequencies<'_>) {
    let _ = rope.rotate(x, frequencies);
}

fn elements_of_f64(x: &[f64]) {
    let _ = Tensor::new(x, [1, 1, 1, 4]);
}

fn three_extents(x: &[f32]) {
    let _ = Tensor::new(x, [1, 1, 4]);
}

fn a_norm_in_a_backward_pass(y: &Tensor<'_, f32>, dy: &mut TensorMut<'_, f32>, rows: &Rows<'_>) {
    let rope = Rope::new(Pairing::Half).with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    let mut sums = [0.0; 4];
    if let Ok(mut angles) = PairGradients::new(&mut sums, [1, 1, 4]) {
        let _ = rope.backward(y, dy, rows, &mut angles);
    }
}

fn full_width_rows_in_a_backward_pass(
    y: &Tensor<'_, f32>,
    dy: &mut TensorMut<'_, f32>,
    rows: &FullRows<'_>,
    angles: &mut PairGradients<'_>,
) {
    let _ = Rope::new(Pairing::Half).backward(y, dy, rows, angles);
}

fn the_inverse_of_full_width_rows(rows: &FullRows<'_>) {
    let _ = rows.inverted(&mut [0.0; 64]);
}

fn an_array_of_weights(norm: Norm<'_>) {
    let _ = norm.with_weight([1.0; 64]);
}

fn weights_of_f64(norm: Norm<'_>, weights: &[f64]) {
    let _ = norm.with_weight(weights);
}

fn an_array_of_positions(frequencies: &Frequencies<'_>) {
    let _ = frequencies.rows([0.5, 1.5]);
}

fn an_array_of_coordinates() {
    let _ = Positions::axis_major([0.5, 1.5]);
}

fn a_list_of_slots(cache: &mut CacheMut<'_>) {
    let _ = cache.slots(vec![3, 4]);
}

fn a_range_of_ids(rows: &Rows<'_>) {
    let _ = rows.gather(0..4);
}

fn main() {}
