//! Caches: written from tensors, read into tensors, and rotated in place.

use rope_core::cache::CachePartsMut;
use rope_core::error::{CacheError, RowsError, SlotsError};
use rope_core::internals::moving;
use rope_core::{Backend, Error, NoRotation, Tensor, TensorMut};

use super::chain::{refusal, rows, shape};
#[cfg(feature = "capi")]
use crate::c::in_slots;
use crate::cache::{Coded, Elements, Found, Kept, TokenAddress};
use crate::chain::{Chain, heads_of, row_of, written};
use crate::hadamard::Hadamard;
use crate::norm::ElementKind;
use crate::number::{paint, values};
#[cfg(feature = "capi")]
use crate::over_c;
use crate::{
    Number, Placed, Rotation, Source, Stored, compare, element_functions, element_pair_functions,
    oracle,
};

/// Tests any chain from a tensor into any cache, or from a cache into a tensor: every backend gives the bits of the
/// definition and writes nothing else.
///
/// # Panics
///
/// If a bit is wrong.
pub fn cache(source: &mut Source<'_>) {
    match source.below(8) {
        7 => source.one_of(element_pair_functions!(into_parts: fn(&mut Source<'_>)))(source),
        0 => source.one_of(element_pair_functions!(into_elements: fn(&mut Source<'_>)))(source),
        1..3 => source.one_of(element_functions!(into_codes: fn(&mut Source<'_>)))(source),
        3 => source.one_of(element_pair_functions!(into_both: fn(&mut Source<'_>)))(source),
        4 => source.one_of(element_pair_functions!(from_elements: fn(&mut Source<'_>)))(source),
        _ => source.one_of(element_functions!(from_codes: fn(&mut Source<'_>)))(source),
    }
}

/// Tests keys in any cache, moved by any rows.
///
/// # Panics
///
/// If a bit is wrong.
pub fn shift(source: &mut Source<'_>) {
    if source.once_in(2) {
        source.one_of(element_functions!(shift_elements: fn(&mut Source<'_>)))(source);
    } else {
        let (shape, rotary_dim) = shape(source);
        let cache = codes(source, shape);
        shifted(source, shape, rotary_dim, cache);
    }
}

pub(super) fn elements<E: Number>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    read: bool,
) -> Elements<E> {
    let [batch, _, heads, head_dim] = shape;
    let blocks = source.within(1, 2 + batch);
    Elements::any(source, blocks, [heads, head_dim], read)
}

pub(super) fn codes(source: &mut Source<'_>, shape: [usize; 4]) -> Coded {
    let [batch, _, heads, head_dim] = shape;
    let blocks = source.within(1, 2 + batch);
    Coded::any(source, blocks, [heads, head_dim])
}

fn into_elements<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let cache = elements::<O>(source, shape, false);
    into::<I, _>(source, shape, rotary_dim, cache);
}

fn into_codes<I: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let cache = codes(source, shape);
    into::<I, _>(source, shape, rotary_dim, cache);
}

fn from_elements<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let cache = elements::<I>(source, shape, true);
    from::<O, _>(source, shape, rotary_dim, cache);
}

fn from_codes<O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let cache = codes(source, shape);
    from::<O, _>(source, shape, rotary_dim, cache);
}

fn shift_elements<E: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let cache = elements::<E>(source, shape, true);
    shifted(source, shape, rotary_dim, cache);
}

pub(super) fn located<K: Kept>(
    source: &mut Source<'_>,
    cache: &K,
    shape: [usize; 4],
) -> TokenAddress {
    let [batch, tokens, ..] = shape;
    TokenAddress::any(source, cache.paged(), [batch, tokens], cache.reach())
}

/// Returns the cache that results when the heads of a tensor go through a chain into its slots.
pub(super) fn filled<I: Number, K: Kept>(
    before: &K,
    slots: &TokenAddress,
    chain: &Chain,
    (x, place): (&[I], &Placed),
    rotated: Option<(Rotation, &Stored)>,
) -> K {
    let mut cache = before.clone();
    let shape = place.view.shape;
    if rotated.is_some_and(|(rotation, rows)| refusal(rotation, Some(rows), shape).is_some()) {
        return cache;
    }
    for (token, found) in slots.places.iter().enumerate() {
        let Some(found) = *found else { continue };
        let at = [token / shape[1], token % shape[1]];
        let heads = heads_of(x, &place.view, at);
        let rotated = rotated.map(|(rotation, rows)| {
            let angles = &rows.angles;
            ((rotation, angles), row_of(angles, shape, at))
        });
        let kind = (ElementKind::of::<I>(), K::CODED);
        cache.write(found, &chain.heads(kind, token, &heads, rotated));
    }
    cache
}

fn into<I: Number, K: Kept>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rotary_dim: usize,
    cache: K,
) {
    let [batch, tokens, heads, head_dim] = shape;
    let chain = match source.once_in(3) {
        true => Chain::any(source, batch * tokens, heads, head_dim),
        false => Chain {
            rounds: source.once_in(2),
            hadamard: match source.once_in(3) {
                true => Hadamard::any(source, head_dim),
                false => None,
            },
            ..Chain::ALONE
        },
    };
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let place = Placed::any(source, shape);
    let x = values::<I>(source, place.len);
    let slots = located(source, &cache, shape);
    let rows = (rotary_dim > 0 && !source.once_in(4)).then(|| rows(source, shape, rotary_dim));
    let rotated = rows.as_ref().map(|rows| (rotation, rows));
    let expected = filled(&cache, &slots, &chain, (&x, &place), rotated);
    for backend in Backend::available() {
        let mut got = cache.clone();
        let tensor = Tensor::new(&x, place.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let result = got.with_mut(|cache| match &rows {
            Some(rows) => {
                rows.with(|rows| plan.rotate_into(&tensor, &mut cache.slots(slots.given()), rows))
            }
            None => plan.apply_into(&tensor, &mut cache.slots(slots.given())),
        });
        oracle::answered(result, refusal(rotation, rows.as_ref(), shape));
        let doing = format!(
            "{backend}, {} into a cache, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}, {:?}, {slots:?}",
            I::NAME,
            cache.paged(),
        );
        expected.compare(&got, &doing);
    }
    #[cfg(feature = "capi")]
    {
        let (mut got, mut x) = (cache.clone(), x.clone());
        let given = (got.over_c(), over_c::slots(&slots, cache.paged()));
        if let (Some(cache), Some(slots)) = given {
            let doing = format!(
                "{} into a cache, {rotation:?}, {shape:?}, {chain:?}",
                I::NAME
            );
            let (source, target) = (over_c::tensor(&mut x, &place), in_slots(&cache, &slots));
            let angles = rows.as_ref().map(Stored::over_c);
            let refusal = refusal(rotation, rows.as_ref(), shape);
            over_c::run(
                (&chain, rotation),
                Some(&source),
                &target,
                angles.as_ref(),
                refusal,
                &doing,
            );
            expected.compare(&got, &doing);
        }
    }
}

/// Writes keys into one cache and values into another in one call; each cache keeps codes or elements.
fn into_both<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    if rotary_dim == 0 {
        return;
    }
    let values_shape = [
        shape[0],
        shape[1],
        source.within(1, 4),
        source.within(1, 80),
    ];
    let (k_place, v_place) = (
        Placed::any(source, shape),
        Placed::any(source, values_shape),
    );
    let (k, v) = (
        values::<I>(source, k_place.len),
        values::<O>(source, v_place.len),
    );
    let rows = rows(source, shape, rotary_dim);
    let chain = Chain::any(source, shape[0] * shape[1], shape[2], shape[3]);
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let keys = elements::<O>(source, shape, false);
    let mut with_values = codes(source, values_shape);
    // Both caches have the same slots: equal numbers of blocks, and of slots per block.
    let slots = keys.paged.slots();
    while with_values.paged.slots() > slots {
        with_values = Coded::any(source, 1, [values_shape[2], values_shape[3]]);
        if source.once_in(3) {
            return;
        }
    }
    let slots = with_values.paged.slots();
    let count = shape[0] * shape[1];
    let ids: Vec<i64> = (0..count)
        .map(|_| source.below(slots + 1) as i64 - 1)
        .collect();
    let (in_keys, in_values) = (
        TokenAddress::mapping(&keys.paged, &ids),
        TokenAddress::mapping(&with_values.paged, &ids),
    );
    let rotated = Some((rotation, &rows));
    let expected_keys = filled(&keys, &in_keys, &chain, (&k, &k_place), rotated);
    let refusal = refusal(rotation, Some(&rows), shape);
    let expected_values = match refusal {
        Some(_) => with_values.clone(),
        None => filled(
            &with_values,
            &in_values,
            &Chain::ALONE,
            (&v, &v_place),
            None,
        ),
    };
    for backend in Backend::available() {
        let (mut got_keys, mut got_values) = (keys.clone(), with_values.clone());
        let k = Tensor::new(&k, k_place.layout).expect("a valid tensor");
        let v = Tensor::new(&v, v_place.layout).expect("a valid tensor");
        let (plan, unchanged) = (chain.given(rotation, backend), rotation.plan(backend));
        let result = got_keys.with_mut(|keys| {
            got_values.with_mut(|values| {
                let (mut keys, mut values) = (keys.slots(&ids), values.slots(&ids));
                rows.with(|rows| {
                    let write_keys = plan.prepare_into(&k, &mut keys, rows)?;
                    let write_values = unchanged.prepare_into(&v, &mut values, &NoRotation)?;
                    write_keys.run();
                    write_values.run();
                    Ok(())
                })
            })
        });
        oracle::answered(result, refusal);
        let doing = format!("{backend}, keys and values, {shape:?}, {values_shape:?}, {ids:?}");
        expected_keys.compare(&got_keys, &doing);
        expected_values.compare(&got_values, &doing);
    }
}

/// Writes heads into slots of two parts, each in a cache of its own: codes and elements, in any order.
fn into_parts<I: Number, O: Number>(source: &mut Source<'_>) {
    let (shape, rotary_dim) = shape(source);
    let [batch, _, heads, head_dim] = shape;
    // A call with stages gathers the heads of a token, of at most 4096 channels.
    if head_dim < 2 || heads * head_dim > 4096 {
        return;
    }
    let split = source.within(1, head_dim - 1);
    let widths = [split, head_dim - split];
    let (blocks, is_coded_first) = (source.within(1, 2 + batch), source.once_in(2));
    let coded = Coded::any(
        source,
        blocks,
        [heads, widths[usize::from(!is_coded_first)]],
    );
    let width = widths[usize::from(is_coded_first)];
    // Parts have the same slots.
    let fits = |cache: &Elements<O>| cache.paged.shape.block_size == coded.paged.shape.block_size;
    let mut elements = (0..16).map(|_| Elements::<O>::any(source, blocks, [heads, width], false));
    let Some(elements) = elements.find(fits) else {
        return;
    };
    match is_coded_first {
        true => divided::<I, _, _>(source, shape, rotary_dim, (coded, elements)),
        false => divided::<I, _, _>(source, shape, rotary_dim, (elements, coded)),
    }
}

fn divided<I: Number, K: Kept, L: Kept>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rotary_dim: usize,
    (first, second): (K, L),
) {
    let [batch, tokens, heads, head_dim] = shape;
    let split = first.paged().layout.shape().head_dim;
    let chain = Chain::any(source, batch * tokens, heads, head_dim);
    let alone = chain.norm.is_none() && chain.scale.is_none() && chain.hadamard.is_none();
    // Without stages the channels that rotate lie in one part.
    if alone && rotary_dim > split {
        return;
    }
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let place = Placed::any(source, shape);
    let x = values::<I>(source, place.len);
    let count = first.paged().slots();
    let ids = (0..batch * tokens).map(|_| source.below(count + 1) as i64 - 1);
    let ids: Vec<i64> = ids.collect();
    let rows = (rotary_dim > 0 && !source.once_in(4)).then(|| rows(source, shape, rotary_dim));
    let refusal = refusal(rotation, rows.as_ref(), shape);
    let slots = TokenAddress::mapping(first.paged(), &ids);
    let other_slots = TokenAddress::mapping(second.paged(), &ids);
    let (mut expected, mut other_expected) = (first.clone(), second.clone());
    for token in (0..batch * tokens).filter(|_| refusal.is_none()) {
        let (Some(found), Some(other)) = (slots.places[token], other_slots.places[token]) else {
            continue;
        };
        let at = [token / tokens, token % tokens];
        let read = heads_of(&x, &place.view, at);
        let rotated = || {
            let angles = &rows.as_ref()?.angles;
            Some(((rotation, angles), row_of(angles, shape, at)))
        };
        // Each part has the bits of a cache of its own format.
        let of = |coded| chain.heads((ElementKind::of::<I>(), coded), token, &read, rotated());
        let part = |heads: Vec<Vec<f32>>, channels: std::ops::Range<usize>| -> Vec<Vec<f32>> {
            let part = |head: Vec<f32>| head[channels.clone()].to_vec();
            heads.into_iter().map(part).collect()
        };
        expected.write(found, &part(of(K::CODED), 0..split));
        other_expected.write(other, &part(of(L::CODED), split..head_dim));
    }
    let doing = format!(
        "{} into parts of {split}, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}, {ids:?}",
        I::NAME
    );
    for backend in Backend::available() {
        let (mut got, mut other) = (first.clone(), second.clone());
        let tensor = Tensor::new(&x, place.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let result = got.with_mut(|first| {
            other.with_mut(|second| {
                let parts = CachePartsMut::of([first.reborrow(), second.reborrow()]);
                let mut cache = parts.expect("parts of one shape");
                let mut target = cache.slots(&ids);
                match &rows {
                    Some(rows) => rows.with(|rows| plan.rotate_into(&tensor, &mut target, rows)),
                    None => plan.apply_into(&tensor, &mut target),
                }
            })
        });
        oracle::answered(result, refusal);
        expected.compare(&got, &format!("{backend}, the first part, {doing}"));
        other_expected.compare(&other, &format!("{backend}, the second part, {doing}"));
    }
    #[cfg(feature = "capi")]
    {
        let (mut got, mut other, mut x) = (first.clone(), second.clone(), x.clone());
        let given = (
            got.over_c(),
            other.over_c(),
            over_c::slots(&slots, first.paged()),
        );
        if let (Some(first), Some(second), Some(slots)) = given {
            let second = in_slots(&second, std::ptr::null());
            let mut target = in_slots(&first, &slots);
            target.next = &raw const second;
            let mut from = over_c::tensor(&mut x, &place);
            // The source is one tensor, or two side by side.
            let rest = over_c::channels_from(&from, size_of::<I>(), split);
            if source.once_in(2) {
                (from.layout.shape[3], from.next) = (split, &raw const rest);
            }
            let angles = rows.as_ref().map(Stored::over_c);
            let plan = (&chain, rotation);
            over_c::run(plan, Some(&from), &target, angles.as_ref(), refusal, &doing);
            expected.compare(&got, &format!("over C, the first part, {doing}"));
            other_expected.compare(&other, &format!("over C, the second part, {doing}"));
        }
    }
}

fn from<O: Number, K: Kept>(
    source: &mut Source<'_>,
    shape: [usize; 4],
    rotary_dim: usize,
    cache: K,
) {
    let [batch, tokens, heads, head_dim] = shape;
    let chain = Chain::any(source, batch * tokens, heads, head_dim);
    let rotation = source.one_of(&Rotation::all().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let place = Placed::any(source, shape);
    let y = paint::<O>(source, place.len);
    let slots = located(source, &cache, shape);
    let rows = (rotary_dim > 0 && !source.once_in(4)).then(|| rows(source, shape, rotary_dim));
    let refusal = refusal(rotation, rows.as_ref(), shape);
    let expected = written(&y, &place.view, |at| {
        if refusal.is_some() {
            return None;
        }
        let token = at[0] * tokens + at[1];
        let heads = cache.read(slots.places[token]?);
        let rotated = rows.as_ref().map(|rows| {
            let angles = &rows.angles;
            ((rotation, angles), row_of(angles, shape, at))
        });
        let (chain, heads) = chain.undone(ElementKind::F32, heads);
        Some(chain.heads((ElementKind::F32, false), token, &heads, rotated))
    });
    for backend in Backend::available() {
        let mut got = y.clone();
        let mut target = TensorMut::new(&mut got, place.layout).expect("a valid tensor");
        let plan = chain.given(rotation, backend);
        let result = cache.with(|cache| match &rows {
            Some(rows) => {
                rows.with(|rows| plan.rotate_into(&cache.slots(slots.given()), &mut target, rows))
            }
            None => plan.apply_into(&cache.slots(slots.given()), &mut target),
        });
        oracle::answered(result, refusal);
        let doing = format!(
            "{backend}, a cache into {}, {rotation:?}, {rotary_dim} of {shape:?}, {chain:?}, {:?}, {slots:?}",
            O::NAME,
            cache.paged(),
        );
        compare(&got, &expected, &place.view, &doing);
    }
    #[cfg(feature = "capi")]
    {
        let (mut cache, mut got) = (cache.clone(), y.clone());
        let given = over_c::slots(&slots, cache.paged());
        if let (Some(cache), Some(slots)) = (cache.over_c(), given) {
            let doing = format!(
                "a cache into {}, {rotation:?}, {shape:?}, {chain:?}",
                O::NAME
            );
            let (source, target) = (in_slots(&cache, &slots), over_c::tensor(&mut got, &place));
            let angles = rows.as_ref().map(Stored::over_c);
            over_c::run(
                (&chain, rotation),
                Some(&source),
                &target,
                angles.as_ref(),
                refusal,
                &doing,
            );
            compare(&got, &expected, &place.view, &doing);
        }
    }
}

fn shifted<K: Kept>(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize, cache: K) {
    if rotary_dim == 0 {
        return;
    }
    let tokens = shape[1];
    let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
    let rotation = rotation.in_parts(source, rotary_dim / 2);
    let slots = TokenAddress::any(source, cache.paged(), [1, tokens], cache.reach());
    // Tokens at given elements may interleave. A shift would read elements that another token has written, in which a
    // NaN may be any NaN.
    let given = |found: &&Found| found.slot.is_none();
    let mut given = slots.places.iter().flatten().filter(given);
    if given
        .next()
        .is_some_and(|first| given.any(|found| found.element != first.element))
    {
        return;
    }
    let heads = cache.paged().shape.heads;
    let mut rows = Stored::for_shape(source, [1, tokens, heads, shape[3]], rotary_dim / 2);
    // Rows that move keys apply their factor; other rows are refused unless it is 1.
    let moves = source.once_in(3);
    if source.once_in(2) {
        rows.angles.attention_factor = 1.0;
    }
    let refusal = match rows.angles.attention_factor {
        factor if factor != 1.0 && !moves => Some(Error::Cache(CacheError::ShiftFactor { factor })),
        _ => refusal(rotation, Some(&rows), [1, tokens, heads, shape[3]]),
    };
    let chain = Chain {
        hadamard: match source.once_in(3) {
            true => Hadamard::any(source, shape[3]),
            false => None,
        },
        ..Chain::ALONE
    };
    // A slot moves once, if its tokens have equal rows.
    let element = |token: usize| slots.places[token].map(|found| found.element);
    let earlier = |token: usize| {
        let mut others = 0..token;
        others.find(|&other| element(token).is_some() && element(other) == element(token))
    };
    let bits = |token: usize| -> Vec<[u32; 2]> {
        let pairs = (0..rows.angles.heads)
            .flat_map(|head| (0..rows.angles.pairs).map(move |pair| (head, pair)));
        let values = pairs.map(|(head, pair)| rows.angles.get(token, head, pair));
        values
            .map(|(cos, sin)| [cos.to_bits(), sin.to_bits()])
            .collect()
    };
    let differ = |token: usize| earlier(token).is_some_and(|other| bits(other) != bits(token));
    let before = matches!(
        refusal,
        None | Some(Error::Rows(RowsError::Magnitude { .. }))
    );
    let repeats = before && heads > 0 && (0..tokens).any(differ);
    let mut expected = cache.clone();
    for (token, found) in slots.places.iter().enumerate() {
        let angles = &rows.angles;
        let row =
            (0..angles.heads).flat_map(|head| (0..angles.pairs).map(move |pair| [head, pair]));
        // An identity row keeps the bits.
        if refusal.is_some()
            || repeats
            || earlier(token).is_some()
            || row
                .clone()
                .all(|[head, pair]| angles.get(token, head, pair) == (1.0, 0.0))
        {
            continue;
        }
        let Some(found) = *found else { continue };
        let heads = expected.read(found);
        let rotated = Some(((rotation, angles), token));
        let (_, heads) = chain.undone(ElementKind::F32, heads);
        let heads = chain.heads((ElementKind::F32, K::CODED), token, &heads, rotated);
        expected.write(found, &heads);
    }
    let scaled = source.once_in(4);
    for backend in Backend::available() {
        let mut got = cache.clone();
        let result = got.with_mut(|cache| {
            let plan = rotation.plan(backend);
            // Cached keys already contain the scale.
            let scale = rope_core::stages::Scale::constant(3.0);
            let hadamard = chain.hadamard.map(|hadamard| hadamard.given());
            rows.with(|rows| {
                let rows = &match moves {
                    true => moving(rows.clone()),
                    false => rows.clone(),
                };
                match (scaled, hadamard) {
                    (true, None) => plan
                        .with_scale(scale)
                        .rotate(&mut cache.slots(slots.given()), rows),
                    (false, None) => plan.rotate(&mut cache.slots(slots.given()), rows),
                    (true, Some(hadamard)) => {
                        let plan = plan.with_hadamard(hadamard).with_scale(scale);
                        plan.rotate(&mut cache.slots(slots.given()), rows)
                    }
                    (false, Some(hadamard)) => plan
                        .with_hadamard(hadamard)
                        .rotate(&mut cache.slots(slots.given()), rows),
                }
            })
        });
        match repeats {
            true => {
                let refused = matches!(result, Err(Error::Slots(SlotsError::Repeated { .. })));
                assert!(refused, "{result:?}");
            }
            false => oracle::answered(result, refusal),
        }
        let doing = format!(
            "{backend}, a shift, {rotation:?}, {chain:?}, {rotary_dim} of {shape:?}, {:?}, {slots:?}",
            cache.paged(),
        );
        expected.compare(&got, &doing);
    }
    #[cfg(feature = "capi")]
    {
        let mut got = cache.clone();
        let given = (got.over_c(), over_c::slots(&slots, cache.paged()));
        if let (Some(cache), Some(slots)) = given {
            let target = in_slots(&cache, &slots);
            let rows = rope::rope_angles {
                moves: moves.into(),
                ..rows.over_c()
            };
            let accepted = over_c::shift((&chain, rotation), &target, &rows);
            let doing = format!("a shift over C, {rotation:?}, {chain:?}, {shape:?}");
            assert_eq!(accepted, refusal.is_none() && !repeats, "{doing}");
            expected.compare(&got, &doing);
        }
    }
}
