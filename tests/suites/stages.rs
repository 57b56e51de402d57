//! A plan gives the same bits with fused stages and with stages one after the other.

use rope_core::cache::{
    CacheFormat, CacheLayout, CacheMut, HeadScales, QuantFormat, QuantScale, ScaleLayout,
    ScalePlace,
};
use rope_core::internals::in_stages;
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::Normed;
use rope_core::{Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::number::{paint, values};
use rope_tests::quantize::Kind;
use rope_tests::{Number, Placed, Source, backends, each_element, each_element_pair, seed};

/// Returns every `n`th choice from a random one on; in an emulator fewer. Every size and element meets others.
fn every_nth<T: Copy>(source: &mut Source<'_>, n: usize, all: &[T]) -> impl Iterator<Item = T> {
    let step = all.len() / seed::times(all.len() / n);
    let first = source.below(step);
    all.iter().copied().skip(first).step_by(step)
}

fn agree<I: Number, O: Number>(source: &mut Source<'_>, shape: [usize; 4], rotary_dim: usize) {
    // Contiguous heads, and heads at any place.
    let (from, to) = match source.once_in(2) {
        true => (Placed::bshd(shape), Placed::bshd(shape)),
        false => (Placed::any(source, shape), Placed::any(source, shape)),
    };
    let (x, y) = (values::<I>(source, from.len), paint::<O>(source, to.len));
    let [cos, sin] = [(); 2].map(|()| values::<f32>(source, shape[1] * rotary_dim / 2));
    let rows = Rows::from_cos_sin(&cos, &sin, [shape[1], rotary_dim / 2], rotary_dim);
    let rows = rows.expect("whole rows");
    for backend in backends::tested() {
        for (input, output) in [
            (Pairing::Half, Pairing::Half),
            (Pairing::Half, Pairing::Interleaved),
            (Pairing::Interleaved, Pairing::Half),
            (Pairing::Interleaved, Pairing::Interleaved),
        ] {
            let fused = Rope::new(input).with_output_pairing(output);
            let fused = fused.with_backend(backend).expect("an available backend");
            let run = |rope: Rope| {
                let mut got = y.clone();
                let source = Tensor::new(&x, from.layout).expect("a valid tensor");
                let mut target = TensorMut::new(&mut got, to.layout).expect("a valid tensor");
                rope.rotate_into(&source, &mut target, &rows)
                    .expect("rows that fit");
                got
            };
            let doing = format!("{backend}, {input} to {output}, {rotary_dim} of {shape:?}");
            for (index, (got, wanted)) in run(in_stages(fused)).iter().zip(run(fused)).enumerate() {
                // A NaN may be any NaN.
                let same = got.bits() == wanted.bits() || got.is_nan() && wanted.is_nan();
                assert!(
                    same,
                    "{doing}: index {index}: {got:?} instead of {wanted:?}"
                );
            }
        }
    }
}

#[test]
fn fused_or_not() {
    let source = &mut Source::random("fused_or_not");
    // Several heads in a tile, a single one, and heads too long for a tile.
    for (head_dim, rotary_dim) in [
        (2, 2),
        (64, 64),
        (80, 80),
        (128, 32),
        (192, 128),
        (1030, 1030),
        (4200, 4100),
        (5000, 2),
    ] {
        let heads = source.within(1, 40) / (1 + head_dim / 256);
        let shape = [1, source.within(1, 20), heads.max(1), head_dim];
        each_element_pair!(agree(source, shape, rotary_dim));
    }
}

/// Tests codes of rotated and of unchanged heads: contiguous heads and heads with gaps, in a third of the formats.
fn agree_in_codes<E: Number>(
    source: &mut Source<'_>,
    [tokens, heads, head_dim]: [usize; 3],
    rotary_dim: usize,
) {
    let shape = [1, tokens, heads, head_dim];
    let from = match source.once_in(2) {
        true => Placed::bshd(shape),
        false => Placed::any(source, shape),
    };
    let x = values::<E>(source, from.len);
    let [cos, sin] = [(); 2].map(|()| values::<f32>(source, tokens * rotary_dim / 2));
    let rows = Rows::from_cos_sin(&cos, &sin, [tokens, rotary_dim / 2], rotary_dim);
    let rows = rows.expect("whole rows");
    let each: Vec<f32> = (0..heads).map(|_| 0.25 + source.unit().abs()).collect();
    let apart = ScalePlace::Separate(ScaleLayout::hn([heads, 1]));
    let scales = [
        QuantScale::Multiply(HeadScales::Same(0.3)),
        QuantScale::Divide(HeadScales::Each(&each)),
        QuantScale::Reciprocal(HeadScales::Each(&each)),
        QuantScale::Computed {
            least: 1e-6,
            at: apart,
        },
        QuantScale::Computed {
            least: 0.0,
            at: ScalePlace::Inline(head_dim),
        },
    ];
    // Contiguous heads, heads with room after each, and heads with strided channels.
    let beside = CacheLayout::nhd([tokens, 1, heads, head_dim]);
    let roomy = CacheLayout::nhd([tokens, 1, heads, head_dim + 128])
        .and_then(|layout| layout.narrow_channels(0..head_dim));
    let turned = CacheLayout::hdn([tokens, heads, head_dim, 1]);
    let layouts = [beside, roomy, turned].map(|layout| layout.expect("a small cache"));
    // Blocks in the first two layouts.
    let dense = |kind: Kind, layout| match kind {
        Kind::Blocks(format) => (layout, CacheFormat::from(format)),
        _ => kind.dense([1, tokens, heads, head_dim]),
    };
    let kept = layouts.into_iter().flat_map(|layout| {
        let scaled = QuantFormat::ALL
            .into_iter()
            .flat_map(|code| scales.map(|scale| Ok((code, scale))));
        let kinds = Kind::all(head_dim, tokens).into_iter().map(Err);
        scaled.chain(kinds).map(move |kept| (layout, kept))
    });
    let fits = |(layout, kept): &(CacheLayout, Result<(_, QuantScale<'_>), Kind>)| match kept {
        Ok((
            _,
            QuantScale::Computed {
                at: ScalePlace::Inline(_),
                ..
            },
        )) => *layout == layouts[1],
        Ok(_) => true,
        Err(Kind::Blocks(_)) => *layout != layouts[2],
        Err(Kind::Groups(_) | Kind::Channels(_)) => *layout == layouts[0],
    };
    let kept: Vec<_> = kept.filter(fits).collect();
    for (layout, kept) in every_nth(source, 3, &kept) {
        for backend in backends::tested() {
            let run = |rope: Rope, rotates: bool| {
                let (mut bytes, mut made) =
                    (vec![0x5a; 9 * layout.end()], vec![0.5; tokens * heads]);
                let mut cache = match kept {
                    Ok((code, scale)) => CacheMut::coded_with_scales(
                        &mut bytes,
                        layout,
                        CacheFormat::quantized(code, scale),
                        &mut made,
                    ),
                    Err(kind) => {
                        let (layout, format) = dense(kind, layout);
                        CacheMut::coded(&mut bytes, layout, format)
                    }
                }
                .expect("a cache that fits");
                let source = Tensor::new(&x, from.layout).expect("a valid tensor");
                let chain = Rope::<Normed<'_>>::from(rope);
                if rotates {
                    chain.rotate_into(&source, &mut cache.slots(0..tokens), &rows)
                } else {
                    chain.apply_into(&source, &mut cache.slots(0..tokens))
                }
                .expect("rows and slots that fit");
                let made: Vec<u32> = made.iter().map(|scale| scale.to_bits()).collect();
                (bytes, made)
            };
            for pairing in [Pairing::Half, Pairing::Interleaved] {
                let rope = Rope::new(pairing)
                    .with_backend(backend)
                    .expect("an available backend");
                for rotates in [true, false] {
                    let (got, scales) = run(rope, rotates);
                    let (wanted, wanted_scales) = run(in_stages(rope), rotates);
                    let doing = format!(
                        "{backend}, {pairing}, {rotates}, {rotary_dim} of {shape:?}, {kept:?}, {layout:?}"
                    );
                    assert_eq!(scales, wanted_scales, "scales: {doing}");
                    if got == wanted {
                        continue;
                    }
                    let float = match kept {
                        Ok((code, _)) => {
                            !matches!(code, QuantFormat::Int8Even | QuantFormat::Int8RoundAway)
                        }
                        Err(Kind::Groups(format)) => format.is_float(),
                        Err(_) => false,
                    };
                    for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                        // A NaN may be any NaN.
                        let nan = [got, wanted].map(|code| code & 0x7f == 0x7f) == [true; 2];
                        assert!(
                            got == wanted || nan && float,
                            "{doing}: byte {index}: {got:02x} instead of {wanted:02x}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn codes_in_stages_or_not() {
    let source = &mut Source::random("codes_in_stages_or_not");
    // Below, at and above the vectors of each backend; many heads in a tile, one, and heads too long for it.
    for (head_dim, rotary_dim) in [
        (2, 2),
        (20, 8),
        (64, 64),
        (96, 96),
        (128, 128),
        (130, 32),
        (1030, 64),
        (2048, 2048),
    ] {
        // 16 tokens are a group of each format by channel.
        let tokens = source.one_of(&[1, 2, 3, 16]);
        let heads = match head_dim {
            513.. => 2,
            _ if tokens == 16 => source.within(1, 5),
            _ => source.within(1, 70),
        };
        let shape = [tokens, heads, head_dim];
        each_element!(agree_in_codes(source, shape, rotary_dim));
    }
}

/// Tests a norm of heads and the rotation after it, out of place: into a tensor, into slots, and into codes.
fn agree_in_norms<E: Number>(
    source: &mut Source<'_>,
    [tokens, heads, head_dim]: [usize; 3],
    rotary_dim: usize,
) {
    let shape = [1, tokens, heads, head_dim];
    let from = match source.once_in(2) {
        true => Placed::bshd(shape),
        false => Placed::any(source, shape),
    };
    let to = Placed::any(source, shape);
    let (x, painted) = (values::<E>(source, from.len), paint::<E>(source, to.len));
    let per_head = source.once_in(3);
    let rows_heads = if per_head { heads } else { 1 };
    let angles = values::<f32>(source, tokens * rows_heads * rotary_dim);
    let rows = Rows::new(&angles, [tokens * rows_heads, rotary_dim])
        .and_then(|rows| rows.with_heads(rows_heads));
    let rows = rows.expect("whole rows");
    let (own, wide) = (
        values::<E>(source, head_dim),
        values::<f32>(source, head_dim),
    );
    let formulas = [
        NormFormula::LLAMA,
        NormFormula::OLMO2,
        NormFormula::GEMMA,
        NormFormula::ONCE,
        NormFormula {
            rounds_normed: true,
            ..NormFormula::ONCE
        },
    ];
    let layout = CacheLayout::nhd([tokens, 1, heads, head_dim]).expect("a small cache");
    // Two tokens may have one slot, and one may have none.
    let slots: Vec<i64> = (0..tokens)
        .map(|_| source.within(0, tokens) as i64 - 1)
        .collect();
    let choices = backends::tested().flat_map(|backend| {
        formulas
            .into_iter()
            .flat_map(move |formula| Pairing::ALL.map(|pairing| (backend, formula, pairing)))
    });
    let choices: Vec<_> = choices.collect();
    for (backend, formula, pairing) in every_nth(source, 2, &choices) {
        let norm = Norm::new(formula, 1e-6);
        for (weights, norm) in [
            ("no", norm.without_weight()),
            ("own", norm.with_weight(&own)),
            ("f32", norm.with_weight(&wide)),
        ] {
            let run = |rope: Rope| {
                let chain = rope.with_norm(norm);
                let x = Tensor::new(&x, from.layout).expect("a valid tensor");
                let mut tensor = painted.clone();
                let mut y = TensorMut::new(&mut tensor, to.layout).expect("a valid tensor");
                chain.rotate_into(&x, &mut y, &rows).expect("what fits");
                let mut kept = vec![E::from_f32(0.5); layout.end()];
                let mut cache = CacheMut::new(&mut kept, layout).expect("a valid cache");
                chain
                    .rotate_into(&x, &mut cache.slots(&slots), &rows)
                    .expect("what fits");
                let mut codes = [vec![0x5a_u8; layout.end()], vec![0x5a_u8; layout.end()]];
                for (chain, codes) in [chain, chain.without_rounding()]
                    .into_iter()
                    .zip(&mut codes)
                {
                    let scale = QuantScale::Reciprocal(HeadScales::Same(0.3));
                    let mut cache = CacheMut::coded(
                        codes,
                        layout,
                        CacheFormat::quantized(QuantFormat::E4m3, scale),
                    )
                    .expect("a valid cache");
                    chain
                        .rotate_into(&x, &mut cache.slots(&slots), &rows)
                        .expect("what fits");
                }
                (tensor, kept, codes)
            };
            let rope = Rope::new(pairing)
                .with_backend(backend)
                .expect("an available backend");
            let (got, wanted) = (run(rope), run(in_stages(rope)));
            let doing = format!(
                "{backend}, {pairing}, {formula:?}, {weights} weights, {rotary_dim} of {shape:?}"
            );
            let elements = got
                .0
                .iter()
                .chain(&got.1)
                .zip(wanted.0.iter().chain(&wanted.1));
            for (index, (got, wanted)) in elements.enumerate() {
                // A NaN may be any NaN.
                let same = got.bits() == wanted.bits() || got.is_nan() && wanted.is_nan();
                assert!(
                    same,
                    "{doing}: index {index}: {got:?} instead of {wanted:?}"
                );
            }
            for (got, wanted) in got.2.iter().flatten().zip(wanted.2.iter().flatten()) {
                let nan = [got, wanted].map(|code| code & 0x7f == 0x7f) == [true; 2];
                assert!(
                    got == wanted || nan,
                    "{doing}: {got:02x} instead of {wanted:02x}"
                );
            }
        }
    }
}

#[test]
fn norms_in_stages_or_not() {
    let source = &mut Source::random("norms_in_stages_or_not");
    for (head_dim, rotary_dim) in [
        (2, 2),
        (20, 20),
        (64, 64),
        (67, 34),
        (96, 2),
        (128, 128),
        (128, 64),
        (130, 130),
        (257, 64),
        (510, 510),
    ] {
        let heads = source.within(1, 2 + 4096 / head_dim.max(64));
        let shape = [source.within(1, 4), heads, head_dim];
        each_element!(agree_in_norms(source, shape, rotary_dim));
    }
}
