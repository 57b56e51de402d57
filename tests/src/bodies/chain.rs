//! Norms, scales, rotations and transforms, in place and across.

use rope_core::error::PlanError;
use rope_core::stages::Stages;
use rope_core::{Backend, Error, Rope, Rows, Tensor, TensorMut};

use crate::chain::{Chain, heads_of, row_of, written};
use crate::norm::{ElementKind, sum_of_squares, wide_sum};
use crate::number::{paint, values};
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{
    Expected, Number, Placed, Rotation, Source, Stored, View, compare, element_functions,
    element_pair_functions, oracle,
};

/// Tests any chain over any tensor: every backend gives the bits of the definition and writes nothing else.
///
/// # Panics
///
/// If a bit is wrong.
pub fn chain(source: &mut Source<'_>) {
    match source.below(6) {
        0..2 => {
            let bodies = element_functions!(in_place: fn(&mut Source<'_>));
            source.one_of(bodies)(source);
        }
        2..4 => {
            let bodies = element_pair_functions!(across: fn(&mut Source<'_>));
            source.one_of(bodies)(source);
        }
        4 => {
            let bodies = element_functions!(squares: fn(&mut Source<'_>));
            source.one_of(bodies)(source);
        }
        _ => {
            let bodies = element_pair_functions!(query_and_key: fn(&mut Source<'_>));
            source.one_of(bodies)(source);
        }
    }
}

/// Returns a shape and a number of rotating channels, or `None` for heads of one channel.
pub(super) fn shape(source: &mut Source<'_>) -> ([usize; 4], usize) {
    let head_dim = match source.below(16) {
        0..4 => source.one_of(&[32, 64, 72, 80, 96, 128, 160, 256]),
        4..8 => source.within(1, 300),
        // Heads long enough for a cascaded sum, and for a tile of one head.
        8 => source.one_of(&[511, 512, 520, 544, 1030, 2048]),
        _ => source.within(1, 70),
    };
    let rotary_dim = match source.below(3) {
        0 => 2 * source.below(head_dim / 2 + 1),
        _ => head_dim & !1,
    };
    let most = if source.once_in(6) { 20 } else { 4 };
    let (batch, tokens) = (source.within(1, 2), source.within(1, most));
    let heads = match source.below(12) {
        // More tokens than a tile or a line of a fused kernel holds.
        0 => source.within(1, 150),
        _ => source.within(1, 5),
    };
    // Bounds the work of a build without optimizations: the definition is plain code.
    let heads = heads.min(1 + 8000 / (batch * tokens * head_dim));
    ([batch, tokens, heads, head_dim], rotary_dim)
}

/// Returns a shape whose heads have a rotating pair, and the number of rotating channels.
pub(super) fn rotating_shape(source: &mut Source<'_>) -> ([usize; 4], usize) {
    let (mut shape, rotary_dim) = shape(source);
    shape[3] = shape[3].max(2);
    (shape, rotary_dim.max(2))
}

pub(super) fn rows(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize) -> Stored {
    Stored::for_shape(source, shape, rotary_dim / 2)
}

/// Returns the error of a rotation by these rows, if it must be refused.
pub(super) fn refusal(
    rotation: Rotation,
    rows: Option<&Stored>,
    shape: [usize; 4],
) -> Option<Error> {
    oracle::refusal(rotation.direction, &rows?.angles, shape)
}

fn in_place<E: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let [batch, tokens, heads, head_dim] = shape;
    let chain = Chain::any(source, batch * tokens, heads, head_dim);
    let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    let rows = (rotary_dim > 0 && !source.once_in(4)).then(|| rows(source, shape, rotary_dim));
    let refusal = refusal(rotation, rows.as_ref(), shape);
    let expected = expected_in_place(&chain, rotation, rows.as_ref(), (&x, &place.view), refusal);
    for backend in Backend::available() {
        let mut got = x.clone();
        let mut tensor = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let result = match &rows {
            Some(rows) => rows.with(|rows| plan.rotate(&mut tensor, rows)),
            None => plan.apply(&mut tensor),
        };
        oracle::answered(result, refusal);
        if let Some(norm) = &chain.norm {
            let (refused, error) = norm.weights_amiss(head_dim);
            let plan = plan.with_norm(refused);
            assert_eq!(plan.apply(&mut tensor), Err(error), "{norm:?}");
        }
        if head_dim % 2048 != 0 {
            let refused = rope_core::stages::Hadamard::new(2048).expect("a power of two");
            let error = Error::Plan(PlanError::HadamardHead {
                block: 2048,
                head_dim,
            });
            let plan = rotation.plan(backend).with_hadamard(refused);
            assert_eq!(plan.apply(&mut tensor), Err(error));
        }
        let doing = format!(
            "{backend}, {} in place, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}, {:?}",
            E::NAME,
            rows.as_ref().map(|rows| rows.form),
        );
        compare(&got, &expected, &place.view, &doing);
    }
    #[cfg(feature = "capi")]
    {
        let (mut got, angles) = (x.clone(), rows.as_ref().map(Stored::over_c));
        let doing = format!("{} in place, {rotation:?}, {shape:?}, {chain:?}", E::NAME);
        let target = over_c::tensor(&mut got, &place);
        let angles = angles.as_ref();
        over_c::run((&chain, rotation), None, &target, angles, refusal, &doing);
        compare(&got, &expected, &place.view, &doing);
    }
}

/// Returns the elements that the tensor must hold after an accepted call.
fn expected_in_place<E: Number>(
    chain: &Chain,
    rotation: Rotation,
    rows: Option<&Stored>,
    (x, view): (&[E], &View),
    refusal: Option<Error>,
) -> Expected<E> {
    let shape @ [_, tokens, ..] = view.shape;
    written(x, view, |at| {
        if refusal.is_some() {
            return None;
        }
        let rotated = rows.map(|rows| {
            let angles = &rows.angles;
            ((rotation, angles), row_of(angles, shape, at))
        });
        let token = at[0] * tokens + at[1];
        let heads = heads_of(x, view, at);
        Some(chain.heads((ElementKind::of::<E>(), false), token, &heads, rotated))
    })
}

/// Rotates Q and K by two plans: prepares both calls before it runs either.
fn both<S: Stages, T: Stages, Q: Number, K: Number>(
    (q_plan, q): (&Rope<S>, &mut TensorMut<'_, Q>),
    (k_plan, k): (&Rope<T>, &mut TensorMut<'_, K>),
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let (queries, keys) = (q_plan.prepare(q, rows)?, k_plan.prepare(k, rows)?);
    queries.run();
    keys.run();
    Ok(())
}

/// Tests a call for Q and K, with separate stages or with common ones.
fn query_and_key<Q: Number, K: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = rotating_shape(source);
    let [batch, tokens, heads, head_dim] = shape;
    let rows = rows(source, shape, rotary_dim);
    // Rows with a head axis need as many heads as each tensor.
    let key_heads = match rows.angles.heads {
        1 => source.within(1, 3),
        _ => heads,
    };
    let key_shape = [batch, tokens, key_heads, head_dim];
    let mut query = Chain::any(source, batch * tokens, heads, head_dim);
    query.rounds = true;
    let same = key_heads == heads && source.once_in(2);
    let key = match same {
        true => query.clone(),
        false => Chain {
            scale: None,
            rounds: true,
            // Q and K share the transform.
            hadamard: query.hadamard,
            ..Chain::any(source, batch * tokens, key_heads, head_dim)
        },
    };
    let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let [to_q, to_k] = [Placed::any(source, shape), Placed::any(source, key_shape)];
    let (q, k) = (values::<Q>(source, to_q.len), values::<K>(source, to_k.len));
    let refusal = refusal(rotation, Some(&rows), shape);
    let expected_q = expected_in_place(&query, rotation, Some(&rows), (&q, &to_q.view), refusal);
    let expected_k = expected_in_place(&key, rotation, Some(&rows), (&k, &to_k.view), refusal);
    for backend in Backend::available() {
        let (mut got_q, mut got_k) = (q.clone(), k.clone());
        let mut q = TensorMut::new(&mut got_q, to_q.layout).expect("a valid tensor");
        let mut k = TensorMut::new(&mut got_k, to_k.layout).expect("a valid tensor");
        // The call is refused because of K alone; Q is untouched.
        if let Some(norm) = &key.norm {
            let (refused, error) = norm.weights_amiss(head_dim);
            let (q_plan, k_plan) = (
                rotation.plan(backend),
                rotation.plan(backend).with_norm(refused),
            );
            let expected = refusal.unwrap_or(error);
            let result = rows.with(|rows| both((&q_plan, &mut q), (&k_plan, &mut k), rows));
            oracle::answered(result, Some(expected));
        }
        let (q_plan, k_plan) = (query.given(rotation, backend), key.given(rotation, backend));
        let result = rows.with(|rows| match same {
            true => q_plan.rotate_qk(&mut q, &mut k, rows),
            false => both((&q_plan, &mut q), (&k_plan, &mut k), rows),
        });
        oracle::answered(result, refusal);
        let doing = format!(
            "{backend}, Q in {} and K in {}, {rotation:?}, {rotary_dim} of {shape:?}, {query:?}, {key:?}",
            Q::NAME,
            K::NAME,
        );
        compare(&got_q, &expected_q, &to_q.view, &format!("Q, {doing}"));
        compare(&got_k, &expected_k, &to_k.view, &format!("K, {doing}"));
    }
}

fn across<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = rotating_shape(source);
    let [batch, tokens, heads, head_dim] = shape;
    let chain = Chain::any(source, batch * tokens, heads, head_dim);
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
    let (x, y) = (values::<I>(source, from.len), paint::<O>(source, to.len));
    let rows = rows(source, shape, rotary_dim);
    let refusal = refusal(rotation, Some(&rows), shape);
    let expected = written(&y, &to.view, |at| {
        if refusal.is_some() {
            return None;
        }
        let row = row_of(&rows.angles, shape, at);
        let token = at[0] * tokens + at[1];
        let heads = heads_of(&x, &from.view, at);
        let rotated = Some(((rotation, &rows.angles), row));
        Some(chain.heads((ElementKind::of::<I>(), false), token, &heads, rotated))
    });
    for backend in Backend::available() {
        let mut got = y.clone();
        let tensor = Tensor::new(&x, from.layout).expect("a valid tensor");
        let mut target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let result = rows.with(|rows| plan.rotate_into(&tensor, &mut target, rows));
        oracle::answered(result, refusal);
        let doing = format!(
            "{backend}, {} to {}, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}, {:?}",
            I::NAME,
            O::NAME,
            rows.form,
        );
        compare(&got, &expected, &to.view, &doing);
    }
    #[cfg(feature = "capi")]
    {
        let (mut x, mut got) = (x.clone(), y.clone());
        let doing = format!(
            "{} to {}, {rotation:?}, {shape:?}, {chain:?}",
            I::NAME,
            O::NAME
        );
        let [source, target] = [over_c::tensor(&mut x, &from), over_c::tensor(&mut got, &to)];
        let angles = rows.over_c();
        over_c::run(
            (&chain, rotation),
            Some(&source),
            &target,
            Some(&angles),
            refusal,
            &doing,
        );
        compare(&got, &expected, &to.view, &doing);
    }
}

/// Tests the sums of squares that ranks exchange.
fn squares<E: Number>(source: &mut Source<'_>) {
    let (shape, _) = shape(source);
    let [batch, tokens, heads, head_dim] = shape;
    let mut norm = crate::norm::Norm::any(source, batch * tokens, heads, head_dim);
    norm.formula.centered = false;
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    let expected: Vec<f32> = (0..batch * tokens)
        .flat_map(|token| {
            let heads = heads_of(&x, &place.view, [token / tokens, token % tokens]);
            let rows = match norm.reach {
                rope_core::norm::NormReach::Token => vec![heads.concat()],
                rope_core::norm::NormReach::Head => heads,
            };
            let sum = |row: Vec<f32>| match norm.sum {
                rope_core::norm::NormSum::PyTorch => sum_of_squares(row.into_iter()),
                rope_core::norm::NormSum::F64 => {
                    wide_sum(row.iter().map(|&x| f64::from(x) * f64::from(x))) as f32
                }
            };
            rows.into_iter().map(sum).collect::<Vec<_>>()
        })
        .collect();
    for backend in Backend::available() {
        let rotation = Rotation::forward(rope_core::Pairing::Half);
        let tensor = Tensor::new(&x, place.layout).expect("a valid tensor");
        let mut sums = vec![f32::NAN; expected.len()];
        rotation
            .plan(backend)
            .sum_of_squares(norm.given(), &tensor, &mut sums)
            .expect("sums that fit");
        for (index, (got, wanted)) in sums.iter().zip(&expected).enumerate() {
            assert!(
                got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
                "{backend}, {} of {shape:?}, {norm:?}: sum {index} is {got:?}, not {wanted:?}",
                E::NAME,
            );
        }
    }
    #[cfg(feature = "capi")]
    {
        let mut x = x.clone();
        let mut sums = vec![f32::NAN; expected.len()];
        over_c::squares(&norm, &over_c::tensor(&mut x, &place), &mut sums);
        for (got, wanted) in sums.iter().zip(&expected) {
            assert!(got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan());
        }
    }
}
