//! Gradients of pairs.

#[cfg(feature = "capi")]
use rope::rope_gradient_kind;
use rope_core::gradient::PairGradients;
use rope_core::stages::{Linear, StageOrder};
use rope_core::{Backend, Direction, Pairing, Rope, Tensor, TensorMut};

use super::rotate::shape_and_rows;
use crate::chain::{Chain, Scale, heads_of, row_of, written};
use crate::gradient::{Term, add};
use crate::hadamard::Hadamard;
use crate::norm::ElementKind;
use crate::number::values;
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{Number, Placed, Rotation, Source, Stored, compare, element_functions, oracle};

/// Tests a backward pass of any tensor: every backend gives the sums of the definition bit for bit, and the tensor's
/// gradient is the transposed rotation of its input.
///
/// # Panics
///
/// If a bit is wrong.
pub fn gradient(source: &mut Source<'_>) {
    let bodies = element_functions!(any: fn(&mut Source<'_>));
    source.one_of(bodies)(source);
}

fn any<E: Number>(source: &mut Source<'_>) {
    let (shape, stored) = shape_and_rows(source);
    let [batch, tokens, heads, _] = shape;
    let pairs = stored.angles.pairs;
    // Sums and rows are shared between sequences independently of each other.
    let rows = source.one_of(&[tokens, batch * tokens]);
    let shape_of_sums = [rows, source.one_of(&[1, heads]), pairs];
    let [from, to] = [Placed::any(source, shape), Placed::any(source, shape)];
    let (x, g) = (values::<E>(source, from.len), values::<E>(source, to.len));
    let before: Vec<f64> = (0..shape_of_sums.iter().product())
        .map(|_| f64::from(source.unit()))
        .collect();
    let pairing = source.one_of(&Pairing::ALL);
    let rotation = Rotation::forward(pairing).in_parts(source, pairs);
    let expected = |term| {
        let mut sums = before.clone();
        add(
            term,
            (pairing, rotation.parts),
            (&x, &from.view),
            (&g, &to.view),
            &mut sums,
            shape_of_sums,
        );
        sums
    };
    let (cross, dot) = (expected(Term::Cross), expected(Term::Dot));
    let back = Rotation {
        direction: Direction::Transpose,
        ..rotation
    };
    let rotated = oracle::rotated(back, &stored.angles, (&g, &to.view), (&g, &to.view));
    for backend in Backend::available() {
        let doing = format!(
            "{backend}, {}, {rotation:?}, {shape:?} at {:?} and {:?}, sums {shape_of_sums:?}",
            E::NAME,
            from.view.strides,
            to.view.strides
        );
        let rope = rotation.plan(backend);
        let sums = |expected: &[f64], doing: &str, call: &mut dyn FnMut(&mut PairGradients<'_>)| {
            let mut got = before.clone();
            call(&mut PairGradients::new(&mut got, shape_of_sums).expect("sums of that shape"));
            same(&got, expected, doing);
        };
        let x = Tensor::new(&x, from.layout).expect("a valid tensor");
        let read = Tensor::new(&g, to.layout).expect("a valid tensor");
        let (y, dy) = (&x, &read);
        sums(&cross, &doing, &mut |angles| {
            rope.angle_gradients(y, dy, angles).expect("sums that fit");
        });
        sums(&dot, &doing, &mut |factors| {
            rope.factor_gradients(y, dy, factors)
                .expect("sums that fit");
        });
        let mut written = g.clone();
        stored.with(|rows| {
            sums(&cross, &doing, &mut |sums| {
                let mut g = TensorMut::new(&mut written, to.layout).expect("a valid tensor");
                rope.backward(&x, &mut g, rows, sums)
                    .expect("rows that fit");
            });
        });
        compare(&written, &rotated, &to.view, &doing);
    }
    // Sums of no heads are sums for all heads in C.
    #[cfg(feature = "capi")]
    if shape_of_sums[1] > 0 {
        let [mut y, mut dy, mut written] = [x.clone(), g.clone(), g.clone()];
        let [y, dy] = [over_c::tensor(&mut y, &from), over_c::tensor(&mut dy, &to)];
        let other = Rotation {
            output: source.one_of(&Pairing::ALL),
            ..rotation
        };
        for (kind, rotation, expected) in [
            (rope_gradient_kind::Angles, rotation, &cross),
            (rope_gradient_kind::AnglesOfInput, other, &cross),
            (rope_gradient_kind::Factors, rotation, &dot),
        ] {
            let mut sums = before.clone();
            let into = (&mut sums[..], None, shape_of_sums);
            assert!(over_c::gradients(kind, rotation, [&y, &dy], into));
            same(&sums, expected, "over C");
        }
        let [mut cos, mut sin] = [before.clone(), before.clone()];
        let into = (&mut cos[..], Some(&mut sin[..]), shape_of_sums);
        let kind = rope_gradient_kind::CosSin;
        let accepted = over_c::gradients(kind, rotation, [&y, &dy], into);
        assert!(accepted, "{}", crate::c::detail());
        same(&cos, &dot, "cos over C");
        same(&sin, &cross, "sin over C");
        let mut sums = before.clone();
        let dx = over_c::tensor(&mut written, &to);
        over_c::backward(
            (&Chain::ALONE, rotation),
            [&y, &dy],
            Some(&dx),
            &stored.over_c(),
            (&mut sums, shape_of_sums),
        );
        same(&sums, &cross, "over C");
        compare(&written, &rotated, &to.view, &"over C");
    }
    linear(
        source,
        &stored,
        [(&x, from), (&g, to)],
        (rotation, &before, shape_of_sums),
        &cross,
    );
}

/// Tests the backward pass of a plan with a scale, a transform, or both: the stages are undone in reverse order, and
/// the sums stay the same; with a transform they are the sums of both tensors transformed back.
fn linear<E: Number>(
    source: &mut Source<'_>,
    stored: &Stored,
    [(y, from), (dy, to)]: [(&[E], Placed); 2],
    (rotation, before, shape_of_sums): (Rotation, &[f64], [usize; 3]),
    cross: &[f64],
) {
    let shape @ [batch, tokens, heads, head_dim] = from.view.shape;
    let hadamard = match source.once_in(2) {
        true => Hadamard::any(source, head_dim),
        false => None,
    };
    let scaled = hadamard.is_none() || source.once_in(2);
    let forward = scaled.then(|| Scale::any(source, batch * tokens, heads));
    let chain = Chain {
        scale: forward.clone().map(|scale| Scale {
            order: match scale.order {
                StageOrder::BeforeRotation => StageOrder::AfterRotation,
                StageOrder::AfterRotation => StageOrder::BeforeRotation,
            },
            ..scale
        }),
        hadamard,
        rounds: source.once_in(2),
        ..Chain::ALONE
    };
    let sums = hadamard.map(|hadamard| {
        let transformed = |(data, place): (&[E], &Placed)| {
            let mut data: Vec<f32> = data.iter().map(|x| x.to_f32()).collect();
            for [batch, token, head] in place.view.heads() {
                let at = |channel| place.view.index([batch, token, head, channel]);
                let mut values: Vec<f32> = (0..head_dim).map(|channel| data[at(channel)]).collect();
                hadamard.apply(&mut values);
                for (channel, value) in values.into_iter().enumerate() {
                    data[at(channel)] = value;
                }
            }
            data
        };
        let (y, dy) = (transformed((y, &from)), transformed((dy, &to)));
        let mut sums = before.to_vec();
        add(
            Term::Cross,
            (rotation.input, rotation.parts),
            (&y, &from.view),
            (&dy, &to.view),
            &mut sums,
            shape_of_sums,
        );
        sums
    });
    let cross = sums.as_deref().unwrap_or(cross);
    let back = Rotation {
        direction: Direction::Transpose,
        ..rotation
    };
    let expected = written(dy, &to.view, |at| {
        let rotated = ((back, &stored.angles), row_of(&stored.angles, shape, at));
        let heads = heads_of(dy, &to.view, at);
        let (chain, heads) = chain.undone(ElementKind::of::<E>(), heads);
        let kind = (ElementKind::of::<E>(), false);
        Some(chain.heads(kind, at[0] * tokens + at[1], &heads, Some(rotated)))
    });
    for backend in Backend::available() {
        let mut rope = Rope::<Linear<'_>>::from(rotation.plan(backend));
        if let Some(scale) = &forward {
            rope = rope.with_scale(scale.given());
        }
        if let Some(hadamard) = &hadamard {
            rope = rope.with_hadamard(hadamard.given());
        }
        if !chain.rounds {
            rope = rope.without_rounding();
        }
        let (mut sums, mut got) = (before.to_vec(), dy.to_vec());
        let y = Tensor::new(y, from.layout).expect("a valid tensor");
        let mut g = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
        let angles = &mut PairGradients::new(&mut sums, shape_of_sums).expect("sums of that shape");
        stored
            .with(|rows| rope.backward(&y, &mut g, rows, angles))
            .expect("rows that fit");
        let doing = format!(
            "{backend}, {}, {rotation:?}, {shape:?}, {forward:?}, {hadamard:?}",
            E::NAME
        );
        same(&sums, cross, &doing);
        compare(&got, &expected, &to.view, &doing);
        // Repeats the call out of place.
        let (mut sums, mut got) = (before.to_vec(), dy.to_vec());
        let read = Tensor::new(dy, to.layout).expect("a valid tensor");
        let mut g = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
        let angles = &mut PairGradients::new(&mut sums, shape_of_sums).expect("sums of that shape");
        stored
            .with(|rows| rope.backward_into(&y, &read, &mut g, rows, angles))
            .expect("rows that fit");
        same(&sums, cross, &doing);
        compare(&got, &expected, &to.view, &doing);
    }
    #[cfg(feature = "capi")]
    if shape_of_sums[1] > 0 {
        let (mut y, mut got, mut sums) = (y.to_vec(), dy.to_vec(), before.to_vec());
        let [of_y, of_dy] = [over_c::tensor(&mut y, &from), over_c::tensor(&mut got, &to)];
        let plan = Chain {
            scale: forward,
            ..chain
        };
        over_c::backward(
            (&plan, rotation),
            [&of_y, &of_dy],
            None,
            &stored.over_c(),
            (&mut sums, shape_of_sums),
        );
        same(&sums, cross, "over C");
        compare(&got, &expected, &to.view, &"over C");
    }
}

/// Asserts equal bits, or NaN on both sides.
pub(super) fn same(got: &[f64], expected: &[f64], doing: &str) {
    assert_eq!(got.len(), expected.len());
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
            "{doing}: sum {index} is {got:e}, not {expected:e}"
        );
    }
}
