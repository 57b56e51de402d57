//! A rotation in burn has rope-core's bits, however the tensor lies in memory.

use burn::tensor::{DType, Device, Tensor};
use burn_core::backend::Flex;
use rope_burn::{RotaryRows, rotate};
use rope_core::{Direction, Frequencies, Pairing, Scaling};

use crate::support::{FORMS, Source, U, bits, dense, laid, other, rotated, values};

/// Returns a random shape `[batch, heads, tokens, head_dim]`, and a number of rotating pairs.
pub(crate) fn shape(source: &mut Source) -> ([usize; 4], usize) {
    let pairs = 1 + source.below(20);
    let passed = source.one_of(&[0, 0, 1, 7, 16]);
    let outer = [(); 3].map(|()| 1 + source.below(5));
    ([outer[0], outer[1], outer[2], 2 * pairs + passed], pairs)
}

#[test]
fn a_rotation_is_that_of_rope_core() {
    let (source, device) = (&mut Source::random("bits"), Device::flex());
    for _ in 0..60 {
        let (shape, pairs) = shape(source);
        let dtype = source.one_of(&[DType::F32, DType::F16, DType::BF16]);
        let (pairing, own) = (source.one_of(&Pairing::ALL), source.rows(shape, pairs));
        let (x, rows) = (source.tensor(shape, dtype, &device), own.on(&device));
        let expected = rotated(&x, &own.rows, pairing, Direction::Forward);
        for form in FORMS {
            let case = format!("{shape:?} {pairs} {dtype:?} {pairing} {rows:?} {form}");
            let only = laid(&x, form);
            let shared = (only.clone(), only.clone());
            let y = rotate(shared.0, &rows, pairing).expect(&case);
            assert_eq!(y.dtype(), dtype, "{case}");
            assert_eq!(bits(&y), expected, "{case}");
            assert_eq!(bits(&shared.1), bits(&x), "another handle changed: {case}");
            drop(shared.1);
            let y = rotate(only, &rows, pairing).expect(&case);
            assert_eq!(bits(&y), expected, "in place: {case}");
        }
    }
}

/// A size that rope-core divides among threads, with the feature `rayon`.
#[test]
fn a_tensor_of_megabytes_is_no_other() {
    let (source, device) = (&mut Source::random("megabytes"), Device::flex());
    let shape = [2, 4, 1024, 160];
    let own = source.rows(shape, 64);
    let x = source.tensor(shape, DType::F32, &device);
    let rows = own.on(&device);
    let expected = rotated(&x, &own.rows, Pairing::Half, Direction::Forward);
    let y = rotate(x.clone(), &rows, Pairing::Half).expect("rows that fit");
    assert!(bits(&y) == expected);
    let y = rotate(x, &rows, Pairing::Half).expect("rows that fit");
    assert!(bits(&y) == expected, "in place");
}

#[test]
fn cos_and_sin_lie_anywhere() {
    let (source, device) = (&mut Source::random("cos and sin"), Device::flex());
    let own = source.rows([2, 3, 5, 8], 4);
    let x = source.tensor([2, 3, 5, 8], DType::F32, &device);
    let (rows, pairing) = (own.on(&device), Pairing::Half);
    let expected = rotated(&x, &own.rows, pairing, Direction::Forward);
    for cos in FORMS {
        for sin in FORMS {
            let case = format!("cos {cos}, sin {sin}, {:?}", rows.dims());
            let rows = RotaryRows::new(laid(rows.cos(), cos), laid(rows.sin(), sin)).expect(&case);
            let y = rotate(x.clone(), &rows, pairing).expect(&case);
            assert_eq!(bits(&y), expected, "{case}");
        }
    }
}

#[test]
fn other_backends_and_types_have_the_same_numbers() {
    let (source, flex, other) = (&mut Source::random("others"), Device::flex(), other());
    for _ in 0..30 {
        let (shape, pairs) = shape(source);
        let (pairing, own) = (source.one_of(&Pairing::ALL), source.rows(shape, pairs));
        let x = source.tensor(shape, DType::F32, &flex);
        let expected = rotated(&x, &own.rows, pairing, Direction::Forward);
        let there = Tensor::<4>::from_data(x.to_data(), (&other, DType::F32));
        let y = rotate(there, &own.on(&other), pairing).expect("rows that fit");
        assert_eq!(bits(&y), expected, "{shape:?} {pairs} {pairing}");

        // In f64 products of two f32 are exact, and there is one rounding where f32 has three.
        let wide = rotate(x.clone().cast(DType::F64), &own.on(&flex), pairing).expect("f64");
        assert_eq!(wide.dtype(), DType::F64);
        let wide: Vec<f64> = wide.to_data().try_to_vec().expect("f64");
        let narrow = rotate(x.clone(), &own.on(&flex), pairing).expect("f32");
        let (x, row) = (largest(&x), largest(own.on(&flex).cos()));
        let row = row.max(largest(own.on(&flex).sin()));
        for (wide, narrow) in wide.iter().zip(values(&narrow)) {
            let bound = 4.0 * U * x * row;
            assert!((wide - f64::from(narrow)).abs() <= bound, "{wide} {narrow}");
        }
    }
}

fn largest(x: &Tensor<4>) -> f64 {
    f64::from(values(x).into_iter().map(f32::abs).fold(0.0, f32::max))
}

#[test]
fn two_three_and_more_dimensions_are_four() {
    let (source, device) = (&mut Source::random("dimensions"), Device::flex());
    let [batch, depth, heads, tokens, head_dim] = [2, 3, 2, 5, 12];
    let four = source.tensor(
        [batch, depth * heads, tokens, head_dim],
        DType::F32,
        &device,
    );
    let each = source.rows([batch, 1, tokens, head_dim], 4).on(&device);
    for pairing in Pairing::ALL {
        let expected = bits(&rotate(four.clone(), &each, pairing).expect("four"));
        let five = four
            .clone()
            .reshape([batch, depth, heads, tokens, head_dim]);
        let y = rotate(five.clone(), &each, pairing).expect("five");
        assert_eq!(y.dims(), five.dims());
        assert_eq!(bits(&y), expected);
        let other = Tensor::<5>::from_data(five.to_data(), (&other(), DType::F32));
        let (cos, sin) = (each.cos().to_data(), each.sin().to_data());
        let there = |data| Tensor::<4>::from_data(data, (&other.device(), DType::F32));
        let rows = RotaryRows::new(there(cos), there(sin)).expect("rows");
        assert_eq!(
            bits(&rotate(other, &rows, pairing).expect("five")),
            expected
        );

        let three = four.clone().narrow(1, 2, 1).squeeze_dim::<3>(1);
        let strided = dense(&three.clone().swap_dims(1, 2)).swap_dims(1, 2);
        let expected = bits(&rotate(four.clone().narrow(1, 2, 1), &each, pairing).expect("four"));
        for three in [three, strided] {
            assert_eq!(
                bits(&rotate(three, &each, pairing).expect("three")),
                expected
            );
        }
        let first = RotaryRows::new(
            each.cos().clone().narrow(0, 0, 1),
            each.sin().clone().narrow(0, 0, 1),
        )
        .expect("rows");
        let two = four.clone().narrow(0, 0, 1).narrow(1, 0, 1);
        let expected = bits(&rotate(two.clone(), &first, pairing).expect("four"));
        let two = two.reshape([tokens, head_dim]);
        assert_eq!(bits(&rotate(two, &first, pairing).expect("two")), expected);
    }
}

#[test]
fn what_broadcasts_and_what_is_empty_rotates() {
    let (source, device) = (&mut Source::random("broadcast"), Device::flex());
    let x = source.tensor([2, 1, 5, 8], DType::F32, &device);
    let own = source.rows([2, 3, 5, 8], 4);
    let expanded = x.expand([2, 3, 5, 8]);
    let expected = rotated(
        &dense(&expanded),
        &own.rows,
        Pairing::Half,
        Direction::Forward,
    );
    let y = rotate(expanded, &own.on(&device), Pairing::Half).expect("a broadcast");
    assert_eq!(bits(&y), expected);

    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("frequencies");
    for device in [Device::flex(), other()] {
        let none = RotaryRows::at(&frequencies, 0..0, 1, &device).expect("no rows");
        let x = Tensor::<4>::zeros([2, 3, 0, 8], &device);
        assert_eq!(
            rotate(x, &none, Pairing::Half).expect("no tokens").dims(),
            [2, 3, 0, 8]
        );
    }
}

/// Returns the address and the strides of a tensor.
fn place(x: &Tensor<4>) -> (usize, Vec<isize>) {
    let tensor = x.clone().try_into_primitive::<Flex>().expect("on Flex");
    (
        tensor.bytes().as_ptr().addr(),
        tensor.layout().strides().to_vec(),
    )
}

#[test]
fn the_only_handle_is_rotated_in_place_and_a_second_one_is_not() {
    let (source, device) = (&mut Source::random("in place"), Device::flex());
    let shape = [2, 3, 5, 8];
    let rows = source.rows(shape, 3).on(&device);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        // A strided tensor would lie elsewhere if it were made contiguous.
        let x = laid(&source.tensor(shape, dtype, &device), "tokens-major");
        let before = place(&x);
        let shared = x.clone();
        let y = rotate(x, &rows, Pairing::Half).expect("rows that fit");
        assert_ne!(place(&y).0, before.0);
        let x = shared;
        let y = rotate(x, &rows, Pairing::Half).expect("rows that fit");
        assert_eq!(place(&y), before);
    }
}

#[test]
fn rows_of_positions_are_rope_cores() {
    let (source, device) = (&mut Source::random("rows"), Device::flex());
    let frequencies =
        Frequencies::new(24, 1e6, &Scaling::NtkAlpha { alpha: 3.0 }).expect("frequencies");
    let positions: Vec<i64> = (0..12)
        .map(|_| source.below(1 << 40) as i64 - (1 << 39))
        .collect();
    let rows = RotaryRows::at(&frequencies, &positions, 3, &device).expect("rows");
    assert_eq!((rows.dims(), rows.rotary_dim()), ([3, 1, 4, 12], 24));
    let expected = frequencies.rows(&positions).expect("rows");
    let (cos, sin) = (values(rows.cos()), values(rows.sin()));
    for token in 0..12 {
        let part = token * 12..(token + 1) * 12;
        assert_eq!(
            expected.row(token, 0),
            Some((&cos[part.clone()], &sin[part]))
        );
    }
}
