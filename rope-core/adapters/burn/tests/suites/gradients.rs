//! Gradients against rope-core (bit for bit), differences, and burn's own operations.

use burn::tensor::{DType, Device, Tensor, TensorData};
use rope_burn::{RotaryRows, rotate};
use rope_core::gradient::PairGradients;
use rope_core::{Direction, Layout, Pairing, Rope};

use crate::bits::shape;
use crate::support::{FORMS, Source, U, bits, dense, other, rotated, values};

/// Returns the same tensor on a device with autodiff, as a leaf that has gradients.
fn leaf<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let device = x.device().autodiff();
    Tensor::from_data(x.to_data(), (&device, x.dtype())).require_grad()
}

/// Returns the gradients of `sum(w * rotate(x, rows))` by x, cos and sin.
fn gradients(
    [x, cos, sin]: [&Tensor<4>; 3],
    w: &Tensor<4>,
    pairing: Pairing,
    form: &str,
) -> [Tensor<4>; 3] {
    let leaves = [x, cos, sin].map(leaf);
    let [x, cos, sin] = leaves.clone();
    let rows = RotaryRows::new(cos, sin).expect("rows");
    let w = Tensor::from_data(w.to_data(), (&x.device(), w.dtype()));
    let y = rotate(laid_on_graph(x, form), &rows, pairing).expect("rows that fit");
    let gradients = (y * w).sum().backward();
    leaves.map(|leaf| leaf.grad(&gradients).expect("a gradient"))
}

/// Returns the same values, stored in another way, by operations that have gradients.
fn laid_on_graph(x: Tensor<4>, form: &str) -> Tensor<4> {
    match form {
        "tokens-major" => (x.swap_dims(1, 2) * 1.0).swap_dims(1, 2),
        "reversed" => (x.flip([2]) * 1.0).flip([2]),
        "channels apart" => (x.swap_dims(2, 3) * 1.0).swap_dims(2, 3),
        _ => x,
    }
}

#[test]
fn gradients_are_those_of_rope_core() {
    let (source, device) = (&mut Source::random("gradients"), Device::flex());
    for _ in 0..30 {
        let (shape, pairs) = shape(source);
        let dtype = source.one_of(&[DType::F32, DType::F16, DType::BF16]);
        let (pairing, own) = (source.one_of(&Pairing::ALL), source.rows(shape, pairs));
        let (x, w) = (
            source.tensor(shape, dtype, &device),
            source.tensor(shape, dtype, &device),
        );
        let rows = own.on(&device);
        let dx = rotated(&w, &own.rows, pairing, Direction::Transpose);
        let [dcos, dsin] = row_gradients(&x, &w, rows.dims(), pairing);
        for form in FORMS {
            let case = format!(
                "{shape:?} {pairs} {dtype:?} {pairing} {:?} {form}",
                rows.dims()
            );
            let [x, cos, sin] = gradients([&x, rows.cos(), rows.sin()], &w, pairing, form);
            assert_eq!(bits(&x), dx, "x: {case}");
            assert_eq!(bits(&cos), dcos, "cos: {case}");
            assert_eq!(bits(&sin), dsin, "sin: {case}");
        }
    }
}

/// Returns rope-core's gradients of cos and sin, `[sequences, heads, tokens, pairs]`, rounded to f32 once.
fn row_gradients(
    x: &Tensor<4>,
    w: &Tensor<4>,
    rows: [usize; 4],
    pairing: Pairing,
) -> [Vec<u32>; 2] {
    // f32 holds every 16-bit value, and the terms are exact products.
    let (x_values, w_values) = (values(x), values(w));
    let layout = Layout::bhsd(x.dims()).expect("a small shape");
    let [sequences, heads, tokens, pairs] = rows;
    let shape = [sequences * tokens, heads, pairs];
    let mut sums = [(); 2].map(|()| vec![0.0_f64; shape.iter().product()]);
    let [cos, sin] = &mut sums;
    Rope::new(pairing)
        .cos_sin_gradients(
            &rope_core::Tensor::new(&x_values, layout).expect("x"),
            &rope_core::Tensor::new(&w_values, layout).expect("w"),
            &mut PairGradients::new(cos, shape).expect("cos"),
            &mut PairGradients::new(sin, shape).expect("sin"),
        )
        .expect("gradients");
    sums.map(|sums| {
        let sums: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
        let sums = TensorData::new(sums, [sequences, tokens, heads, pairs]);
        bits(&Tensor::<4>::from_data(sums, &x.device()).swap_dims(1, 2))
    })
}

/// A loss `sum(w * y)` is linear in x, in cos and in sin, so that a difference is the derivative at any distance, but
/// for rounding. With distances `h` of at least 1/4, two products and a sum round each y by 2u(|x| + h)(|cos| + |sin| +
/// h) at most (`U`), at both ends; the gradient itself rounds less. Nothing that is summed here rounds by more than
/// 2^-50.
#[test]
fn gradients_are_differences() {
    let (source, device) = (&mut Source::random("differences"), Device::flex());
    let shape = [2, 3, 2, 7];
    for pairing in Pairing::ALL {
        for _ in 0..2 {
            let (x, w) = (
                source.tensor(shape, DType::F32, &device),
                source.tensor(shape, DType::F32, &device),
            );
            let rows = source.rows(shape, 3).on(&device);
            let inputs = [&x, rows.cos(), rows.sin()];
            let gradients = gradients(inputs, &w, pairing, "dense");
            let weights = values(&w);
            let y = |inputs: &[Tensor<4>; 3]| {
                let [x, cos, sin] = inputs.clone();
                let rows = RotaryRows::new(cos, sin).expect("rows");
                values(&rotate(x, &rows, pairing).expect("rows that fit"))
            };
            let h = 0.25_f32;
            let reach = |tensor: &Tensor<4>| {
                values(tensor)
                    .into_iter()
                    .map(|v| f64::from(v.abs()))
                    .fold(0.0, f64::max)
                    + f64::from(h)
            };
            let rounding = 2.0 * U * reach(inputs[0]) * (reach(inputs[1]) + reach(inputs[2]));
            for (which, gradient) in gradients.iter().enumerate() {
                for (index, gradient) in values(gradient).into_iter().enumerate() {
                    let moved = |by: f32| {
                        let mut moved = inputs.map(dense);
                        let mut data = values(&moved[which]);
                        data[index] += by;
                        let at = f64::from(data[index]);
                        moved[which] =
                            Tensor::from_data(TensorData::new(data, moved[which].dims()), &device);
                        (at, y(&moved))
                    };
                    let ((high, up), (low, down)) = (moved(h), moved(-h));
                    let (mut difference, mut bound) = (0.0, 0.0);
                    for ((up, down), w) in up.iter().zip(&down).zip(&weights) {
                        if up.to_bits() != down.to_bits() {
                            difference += f64::from(*w) * (f64::from(*up) - f64::from(*down));
                            bound += 2.0 * f64::from(w.abs()) * rounding;
                        }
                    }
                    let (slope, bound) = (difference / (high - low), 2.0 * bound / (high - low));
                    assert!(
                        (slope - f64::from(gradient)).abs() <= bound,
                        "{pairing} {which} {index}: {slope} {gradient} {bound}"
                    );
                }
            }
        }
    }
}

/// Learned frequencies are plain tensors: angles are a product, and cos and sin have gradients.
#[test]
fn frequencies_learn_through_cos_and_sin() {
    let source = &mut Source::random("learned");
    let flex = Device::flex();
    let [batch, heads, tokens, head_dim] = [2, 3, 6, 10];
    let pairs = head_dim / 2;
    let positions: Vec<f32> = (0..tokens).map(|_| source.below(40) as f32).collect();
    let frequencies: Vec<f32> = (0..pairs).map(|_| source.value() / 16.0).collect();
    let x = source.tensor([batch, heads, tokens, head_dim], DType::F32, &flex);
    let w = source.tensor([batch, heads, tokens, head_dim], DType::F32, &flex);
    for pairing in Pairing::ALL {
        let learned = |device: Device| {
            let device = device.autodiff();
            let on = |data: TensorData| Tensor::<4>::from_data(data, (&device, DType::F32));
            let frequencies =
                on(TensorData::new(frequencies.clone(), [1, 1, 1, pairs])).require_grad();
            let angles =
                on(TensorData::new(positions.clone(), [1, 1, tokens, 1])) * frequencies.clone();
            let rows = RotaryRows::new(angles.clone().cos(), angles.sin()).expect("rows");
            let y = rotate(on(x.to_data()), &rows, pairing).expect("rows that fit");
            let gradients = (y.clone() * on(w.to_data())).sum().backward();
            let gradient = frequencies.grad(&gradients).expect("a gradient");
            (values(&gradient), values(&y))
        };
        let (ours, y) = learned(Device::flex());
        let (theirs, _) = learned(other());

        // df = sum of p dphi, dphi = y1 dy2 - y2 dy1.
        let w = values(&w);
        let layout = Layout::bhsd([batch, heads, tokens, head_dim]).expect("a small shape");
        let mut sums = vec![0.0; tokens * pairs];
        let mut angles = PairGradients::new(&mut sums, [tokens, 1, pairs]).expect("sums");
        Rope::new(pairing)
            .angle_gradients(
                &rope_core::Tensor::new(&y, layout).expect("y"),
                &rope_core::Tensor::new(&w, layout).expect("w"),
                &mut angles,
            )
            .expect("gradients");
        let mut exact = vec![0.0; pairs];
        let whole: Vec<i64> = positions.iter().map(|p| *p as i64).collect();
        angles
            .frequencies(&whole, 1, &mut exact)
            .expect("frequencies");

        // Each of the two makes a sum of `batch * heads * tokens` terms of at most p |x| |w| (lengths of pairs, below
        // twice the largest channel), each rounded some 8 times on its way, and every partial sum once.
        let largest = |values: &[f32]| {
            values
                .iter()
                .map(|v| f64::from(v.abs()))
                .fold(0.0, f64::max)
        };
        let terms = (batch * heads * tokens) as f64;
        let term = 40.0 * 2.0 * largest(&values(&x)) * 2.0 * largest(&w);
        let bound = terms * (terms + 8.0) * U * term;
        for ((ours, theirs), exact) in ours.iter().zip(&theirs).zip(&exact) {
            assert!(
                (f64::from(*ours) - exact).abs() <= bound,
                "{ours} {exact} {bound}"
            );
            assert!(
                (f64::from(*theirs) - exact).abs() <= bound,
                "{theirs} {exact} {bound}"
            );
        }
    }
}

/// rope-core's gradients equal those of a rotation that burn's own operations compute.
#[test]
fn gradients_of_other_backends_agree() {
    let source = &mut Source::random("others' gradients");
    let (flex, device) = (Device::flex(), other());
    for _ in 0..10 {
        let (shape, pairs) = shape(source);
        let (pairing, own) = (source.one_of(&Pairing::ALL), source.rows(shape, pairs));
        let (x, w) = (
            source.tensor(shape, DType::F32, &flex),
            source.tensor(shape, DType::F32, &flex),
        );
        let rows = own.on(&flex);
        let there =
            |tensor: &Tensor<4>| Tensor::<4>::from_data(tensor.to_data(), (&device, DType::F32));
        let inputs = [&x, rows.cos(), rows.sin()];
        let ours = gradients(inputs, &w, pairing, "dense");
        let theirs = gradients(inputs.map(&there).each_ref(), &there(&w), pairing, "dense");
        // The gradient of x is two products and a sum, in either order. That of cos and sin is a sum over all heads and
        // sequences that share them.
        let largest =
            |tensor: &Tensor<4>| values(tensor).into_iter().map(f32::abs).fold(0.0, f32::max);
        let terms = (2 * shape[0] * shape[1]) as f32;
        let scale = largest(&w)
            * largest(&x)
                .max(largest(&rows.cos().clone()))
                .max(largest(rows.sin()));
        let bound = terms * (terms + 4.0) * U as f32 * scale;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for (ours, theirs) in values(ours).into_iter().zip(values(theirs)) {
                assert!((ours - theirs).abs() <= bound, "{ours} {theirs} {bound}");
            }
        }
    }
}

#[test]
fn what_is_not_tracked_is_a_constant() {
    let (source, plain) = (&mut Source::random("constants"), Device::flex());
    let shape = [2, 3, 4, 8];
    let (x, w) = (
        source.tensor(shape, DType::F32, &plain),
        source.tensor(shape, DType::F32, &plain),
    );
    let rows = source.rows(shape, 4).on(&plain);
    let all = gradients([&x, rows.cos(), rows.sin()], &w, Pairing::Half, "dense");
    let on =
        |tensor: &Tensor<4>| Tensor::<4>::from_data(tensor.to_data(), &plain.clone().autodiff());
    let w = on(&w);

    // x alone, with rows of a device without autodiff.
    let tracked = leaf(&x);
    let y = rotate(tracked.clone(), &rows, Pairing::Half).expect("rows that fit");
    let gradients = (y * w.clone()).sum().backward();
    assert_eq!(bits(&tracked.grad(&gradients).expect("x")), bits(&all[0]));

    // One of cos and sin alone.
    for one in 0..2 {
        let leaves = [leaf(rows.cos()), leaf(rows.sin())];
        let mut both = [on(rows.cos()), on(rows.sin())];
        both[one] = leaves[one].clone();
        let [cos, sin] = both;
        let rows = RotaryRows::new(cos, sin).expect("rows");
        let y = rotate(on(&x), &rows, Pairing::Half).expect("rows that fit");
        let gradients = (y * w.clone()).sum().backward();
        assert_eq!(
            bits(&leaves[one].grad(&gradients).expect("rows")),
            bits(&all[1 + one])
        );
        assert!(leaves[1 - one].grad(&gradients).is_none());
    }

    // No operand requires gradients: nothing is recorded.
    let y = rotate(on(&x), &rows, Pairing::Half).expect("rows that fit");
    assert!(!y.is_require_grad());
}

/// An operation before the rotation keeps its output for its own backward pass; one that was rotated in place would
/// give it a wrong one. With and without checkpoints.
#[test]
fn what_the_graph_keeps_is_not_rotated() {
    let (source, device) = (&mut Source::random("kept"), Device::flex());
    let shape = [1, 2, 3, 8];
    let (x, w) = (
        source.tensor(shape, DType::F32, &device) / 64.0,
        source.tensor(shape, DType::F32, &device),
    );
    let own = source.rows(shape, 4);
    let dy = rotated(&w, &own.rows, Pairing::Half, Direction::Transpose);
    let dy: Vec<f32> = dy.into_iter().map(f32::from_bits).collect();
    let e = values(&x.clone().exp());
    for checkpoints in [false, true] {
        let device = match checkpoints {
            true => device.clone().autodiff().gradient_checkpointing(),
            false => device.clone().autodiff(),
        };
        let x = Tensor::<4>::from_data(x.to_data(), &device).require_grad();
        let w = Tensor::<4>::from_data(w.to_data(), &device);
        let y = rotate(x.clone().exp(), &own.on(&device), Pairing::Half).expect("rows that fit");
        let gradients = (y * w).sum().backward();
        let dx = values(&x.grad(&gradients).expect("x"));
        for ((dx, dy), e) in dx.iter().zip(&dy).zip(&e) {
            assert_eq!(
                dx.to_bits(),
                (dy * e).to_bits(),
                "checkpoints: {checkpoints}"
            );
        }
    }
}
