//! The documented behavior of special values.

use half::{bf16, f16};
use rope_core::{Backend, Pairing, Tensor, TensorMut};
use rope_tests::number::Temper;
use rope_tests::{
    Angles, Number, Rotation, Source, Stored, backends, each_element, each_element_pair,
};

use crate::properties::{rotate_by, rows, steps};

/// Returns a head of 40 channels whose first 36 rotate by a zero angle, channel by channel.
fn through<I: Number, O: Number>(backend: Backend, pairing: Pairing, x: &[I]) -> Vec<O> {
    let angles = Angles {
        rows: 1,
        heads: 1,
        pairs: 18,
        cos: vec![1.0; 18],
        sin: vec![0.0; 18],
        attention_factor: 1.0,
    };
    let mut y = vec![O::from_f32(1.0); 40];
    let source = Tensor::new(x, [1, 1, 1, 40]).expect("a valid tensor");
    let mut target = TensorMut::new(&mut y, [1, 1, 1, 40]).expect("a valid tensor");
    Stored::plain(angles)
        .with(|rows| {
            Rotation::forward(pairing)
                .plan(backend)
                .rotate_into(&source, &mut target, rows)
        })
        .expect("rows that fit");
    y
}

/// Tests the documentation of `Element`: conversions keep infinities, subnormals and the sign of zero, values that
/// round beyond the largest one become infinities, and a NaN stays a NaN.
fn special_values<I: Number, O: Number>() {
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            for &special in I::SPECIAL {
                let value = I::from_bits(special);
                for channel in 0..40 {
                    // The other channels are zeros: -0 beside a second member, whose sign the sum then keeps.
                    let mut x = vec![I::from_f32(0.0); 40];
                    let second = match pairing {
                        Pairing::Half => (18..36).contains(&channel),
                        Pairing::Interleaved => channel < 36 && channel % 2 == 1,
                    };
                    if second {
                        x = vec![I::from_f32(-0.0); 40];
                    }
                    x[channel] = value;
                    let y = through::<I, O>(backend, pairing, &x)[channel];
                    let wide = value.to_f32();
                    let doing = format!(
                        "{backend}, {} to {}, {pairing}, {value:?}: {y:?}",
                        I::NAME,
                        O::NAME
                    );
                    assert_eq!(y.is_nan(), wide.is_nan(), "{doing}");
                    if !wide.is_nan() {
                        assert_eq!(
                            y.to_f32().is_sign_negative(),
                            wide.is_sign_negative(),
                            "{doing}"
                        );
                        assert_eq!(y.bits(), O::from_f32(wide).bits(), "{doing}");
                    }
                    if I::NAME == O::NAME && channel >= 36 {
                        assert_eq!(y.bits(), special, "{doing}: copied as bits");
                    }
                }
            }
        }
    }
}

#[test]
fn special_values_are_kept() {
    each_element_pair!(special_values());
}

/// Tests that a special value affects the two members of its pair and no other channel.
fn stays_in_its_pair<E: Number>(source: &mut Source<'_>) {
    let shape = [1, 1, 1, 100];
    let rows = rows(&steps(source, 48), &[77], 1.0);
    let clean: Vec<E> = (0..100).map(|_| Temper::Ordinary.value(source)).collect();
    for backend in backends::tested() {
        for rotation in Rotation::in_place() {
            let before = rotate_by(rotation, backend, &rows, &clean, shape);
            for channel in 0..100 {
                for special in [f32::NAN, f32::INFINITY] {
                    let mut x = clean.clone();
                    x[channel] = E::from_f32(special);
                    let after = rotate_by(rotation, backend, &rows, &x, shape);
                    let partner = match rotation.input {
                        _ if channel >= 96 => channel,
                        Pairing::Half => (channel + 48) % 96,
                        Pairing::Interleaved => channel ^ 1,
                    };
                    for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                        let same = before.bits() == after.bits();
                        let reached = i == channel || i == partner;
                        assert_eq!(
                            same,
                            !reached,
                            "{backend}, {}, {rotation:?}: {special} at {channel}, {i}",
                            E::NAME
                        );
                        assert!(!reached || !after.to_f32().is_finite());
                    }
                }
            }
        }
    }
}

#[test]
fn a_special_value_stays_in_its_pair() {
    let source = &mut Source::random("a_special_value_stays_in_its_pair");
    each_element!(stays_in_its_pair(source));
}

/// Infinity times zero: the angle of position 0 turns an infinity's partner into a NaN, as the definition does.
#[test]
fn an_infinity_beside_a_sine_of_zero_makes_its_partner_not_a_number() {
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            let rows = rows(&[1 << 100], &[0], 1.0);
            let y = rotate_by(
                Rotation::forward(pairing),
                backend,
                &rows,
                &[f32::INFINITY, 1.0],
                [1, 1, 1, 2],
            );
            assert_eq!(y[0], f32::INFINITY);
            assert!(y[1].is_nan());
        }
    }
}

/// Finite values may overflow in the product, in the sum, and in the rounding.
#[test]
fn overflow_is_an_infinity() {
    let rows = Stored::plain(Angles {
        rows: 1,
        heads: 1,
        pairs: 1,
        cos: vec![0.75],
        sin: vec![0.75],
        attention_factor: 1.0,
    });
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            let rotation = Rotation::forward(pairing);
            let y = rotate_by(
                rotation,
                backend,
                &rows,
                &[f32::MAX, f32::MAX],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [0.0, f32::INFINITY]);
            let y = rotate_by(
                rotation,
                backend,
                &rows,
                &[f16::MAX, f16::MIN],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [f16::INFINITY, f16::from_f32(0.0)]);
            let y = rotate_by(
                rotation,
                backend,
                &rows,
                &[bf16::MIN, bf16::MIN],
                [1, 1, 1, 2],
            );
            assert_eq!(y, [bf16::from_f32(0.0), bf16::NEG_INFINITY]);
        }
    }
}
