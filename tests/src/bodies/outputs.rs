//! Several outputs of one input.

#[cfg(feature = "capi")]
use rope::{rope_angles, rope_output};
use rope_core::error::ShapeError;
use rope_core::{Backend, Error, Output, Rows, Tensor, TensorMut};

use super::cache::{codes, elements, filled, located};
use super::chain::{refusal, rotating_shape, rows};
#[cfg(feature = "capi")]
use crate::c::in_slots;
use crate::cache::{Coded, Elements, Kept, TokenAddress};
use crate::chain::{Chain, heads_of, row_of, written};
use crate::norm::ElementKind;
use crate::number::{paint, values};
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{
    Expected, Number, Placed, Rotation, Source, Stored, compare, element_pair_functions, oracle,
};

/// Tests any tensor through any chain into any targets, tensors and caches: every backend gives the bits of the
/// definition in each target and writes nothing else.
///
/// # Panics
///
/// If a bit is wrong.
pub fn outputs(source: &mut Source<'_>) {
    source.one_of(element_pair_functions!(into_each: fn(&mut Source<'_>)))(source);
}

/// A target tensor, with rows for each of its groups of heads.
struct InTensor<O> {
    place: Placed,
    before: Vec<O>,
    rows: Vec<Stored>,
}

/// A target cache.
struct InCache<K> {
    before: K,
    slots: TokenAddress,
    rows: Stored,
}

impl<O: Number> InTensor<O> {
    fn any(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize, groups: usize) -> Self {
        let mut whole = shape;
        whole[2] *= groups;
        let place = Placed::any(source, whole);
        InTensor {
            before: paint(source, place.len),
            rows: (0..groups)
                .map(|_| rows(source, shape, rotary_dim))
                .collect(),
            place,
        }
    }

    /// Returns the values that the target must hold after the call.
    fn expected<I: Number>(
        &self,
        chain: &Chain,
        rotation: Rotation,
        (x, from): (&[I], &Placed),
        refused: bool,
    ) -> Expected<O> {
        let shape @ [_, tokens, ..] = from.view.shape;
        written(&self.before, &self.place.view, |at| {
            if refused {
                return None;
            }
            let heads = heads_of(x, &from.view, at);
            let group = |rows: &Stored| {
                let angles = &rows.angles;
                let rotated = Some(((rotation, angles), row_of(angles, shape, at)));
                chain.heads(
                    (ElementKind::of::<I>(), false),
                    at[0] * tokens + at[1],
                    &heads,
                    rotated,
                )
            };
            Some(self.rows.iter().flat_map(group).collect())
        })
    }
}

impl<K: Kept> InCache<K> {
    fn any(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize, before: K) -> Self {
        InCache {
            slots: located(source, &before, shape),
            rows: rows(source, shape, rotary_dim),
            before,
        }
    }

    fn expected<I: Number>(
        &self,
        chain: &Chain,
        rotation: Rotation,
        x: (&[I], &Placed),
        refused: bool,
    ) -> K {
        match refused {
            true => self.before.clone(),
            false => filled(
                &self.before,
                &self.slots,
                chain,
                x,
                Some((rotation, &self.rows)),
            ),
        }
    }
}

fn into_each<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = rotating_shape(source);
    let [batch, tokens, heads, head_dim] = shape;
    let chain = Chain::any(source, batch * tokens, heads, head_dim);
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let from = Placed::any(source, shape);
    let x = values::<I>(source, from.len);

    let groups = source.within(1, 3);
    let first = InTensor::<O>::any(source, shape, rotary_dim, groups);
    let second = InTensor::<I>::any(source, shape, rotary_dim, 1);
    let kept: Elements<O> = elements(source, shape, false);
    let kept = InCache::any(source, shape, rotary_dim, kept);
    let coded: Coded = codes(source, shape);
    let coded = InCache::any(source, shape, rotary_dim, coded);
    // Any subset of the targets in any order.
    let mut order = vec![0, 1, 2, 3];
    for end in (1..4).rev() {
        order.swap(end, source.below(end + 1));
    }
    order.truncate(source.below(5));

    let refused_by = |rows: &Stored| refusal(rotation, Some(rows), shape);
    // The last target has another head count; the call must then write no target.
    let misfit = source.once_in(8);
    let error = order.iter().find_map(|target| match target {
        0 => first.rows.iter().find_map(refused_by),
        1 => refused_by(&second.rows[0]),
        2 => refused_by(&kept.rows),
        _ => refused_by(&coded.rows),
    });
    let error = error.or_else(|| misfit.then(|| mismatch(heads)));
    let (from_x, refused) = ((&x[..], &from), error.is_some());
    let skipped = |target: usize| refused || !order.contains(&target);
    let expected = (
        first.expected(&chain, rotation, from_x, skipped(0)),
        second.expected(&chain, rotation, from_x, skipped(1)),
        kept.expected(&chain, rotation, from_x, skipped(2)),
        coded.expected(&chain, rotation, from_x, skipped(3)),
    );
    for backend in Backend::available() {
        let (mut y, mut z) = (first.before.clone(), second.before.clone());
        let (mut in_kept, mut in_coded) = (kept.before.clone(), coded.before.clone());
        let mut other = vec![O::from_f32(0.0); (heads + 1) * batch * tokens * head_dim];
        let tensor = Tensor::new(&x, from.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let (mut to_y, mut to_z, mut to_other) = (
            TensorMut::new(&mut y, first.place.layout).expect("a valid tensor"),
            TensorMut::new(&mut z, second.place.layout).expect("a valid tensor"),
            TensorMut::new(&mut other, [batch, tokens, heads + 1, head_dim]).expect("valid"),
        );
        let result = with_all(&first.rows, &mut Vec::new(), &mut |rows| {
            second.rows[0].with(|second| {
                in_kept.with_mut(|keys| {
                    kept.rows.with(|key_rows| {
                        in_coded.with_mut(|codes| {
                            coded.rows.with(|code_rows| {
                                let mut keys = keys.slots(kept.slots.given());
                                let mut codes = codes.slots(coded.slots.given());
                                let mut all = [
                                    Some(Output::head_groups(&mut to_y, rows)),
                                    Some(Output::new(&mut to_z, second)),
                                    Some(Output::new(&mut keys, key_rows)),
                                    Some(Output::new(&mut codes, code_rows)),
                                ];
                                let mut given: Vec<Output<'_>> =
                                    order.iter().filter_map(|&at| all[at].take()).collect();
                                if misfit {
                                    given.push(Output::new(&mut to_other, second));
                                }
                                plan.rotate_into_each(&tensor, &mut given)
                            })
                        })
                    })
                })
            })
        });
        oracle::answered(result, error);
        let doing = format!(
            "{backend}, {} into {} and others, {order:?}, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}",
            I::NAME,
            O::NAME,
        );
        compare(&y, &expected.0, &first.place.view, &doing);
        compare(&z, &expected.1, &second.place.view, &doing);
        expected.2.compare(&in_kept, &doing);
        expected.3.compare(&in_coded, &doing);
        assert!(other.iter().all(|x| x.to_f32() == 0.0), "{doing}");
    }
    #[cfg(feature = "capi")]
    {
        let (mut x, mut y, mut z) = (x.clone(), first.before.clone(), second.before.clone());
        let (mut in_kept, mut in_coded) = (kept.before.clone(), coded.before.clone());
        let mut other = vec![O::from_f32(0.0); (heads + 1) * batch * tokens * head_dim];
        let of_kept = over_c::slots(&kept.slots, kept.before.paged());
        let of_coded = over_c::slots(&coded.slots, coded.before.paged());
        let caches = in_kept.over_c().zip(in_coded.over_c());
        if let (Some((keys, codes)), Some((of_kept, of_coded))) = (caches, of_kept.zip(of_coded)) {
            let wide = Placed::bshd([batch, tokens, heads + 1, head_dim]);
            let targets = [
                over_c::tensor(&mut y, &first.place),
                over_c::tensor(&mut z, &second.place),
                in_slots(&keys, &of_kept),
                in_slots(&codes, &of_coded),
                over_c::tensor(&mut other, &wide),
            ];
            let rows_of = [&second.rows[0], &kept.rows, &coded.rows, &second.rows[0]];
            let rows_of = rows_of.map(Stored::over_c);
            let of_groups: Vec<rope_angles> = first.rows.iter().map(Stored::over_c).collect();
            let output = |&target: &usize| rope_output {
                y: &targets[target],
                rows: match target {
                    0 => of_groups.as_ptr(),
                    _ => &rows_of[target - 1],
                },
                groups: if target == 0 { groups } else { 0 },
            };
            let outputs: Vec<rope_output> = order
                .iter()
                .chain(misfit.then_some(&4))
                .map(output)
                .collect();
            let source = over_c::tensor(&mut x, &from);
            let accepted = over_c::into_each((&chain, rotation), &source, &outputs);
            let doing = format!("over C, {order:?}, {rotation:?}, {shape:?}, {chain:?}");
            assert_eq!(accepted, error.is_none(), "{doing}: {}", crate::c::detail());
            compare(&y, &expected.0, &first.place.view, &doing);
            compare(&z, &expected.1, &second.place.view, &doing);
            expected.2.compare(&in_kept, &doing);
            expected.3.compare(&in_coded, &doing);
            assert!(other.iter().all(|x| x.to_f32() == 0.0), "{doing}");
        }
    }
}

/// Returns the error for a target with one head too many.
fn mismatch(heads: usize) -> Error {
    Error::Shape(ShapeError::Mismatch {
        dimension: rope_core::Dimension::Heads,
        source: heads,
        target: heads + 1,
    })
}

/// Calls a function with the rows of all targets.
fn with_all<T>(
    stored: &[Stored],
    made: &mut Vec<Rows<'_>>,
    with: &mut dyn FnMut(&[Rows<'_>]) -> T,
) -> T {
    match stored.split_first() {
        None => with(made),
        Some((first, rest)) => first.with(|rows| {
            let mut made: Vec<Rows<'_>> = made.iter().map(Rows::clone).collect();
            made.push(rows.clone());
            with_all(rest, &mut made, with)
        }),
    }
}
