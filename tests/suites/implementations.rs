//! The executor of each call, by the variants of `Executor` in `execute/choose.rs` of rope-core. A call on a slower one
//! gives the same bits, and no other suite would notice it.

use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, HeadScales, QuantFormat, QuantScale};
use rope_core::internals::{Executor, in_stages};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Hadamard, Normed, Scale, StageOrder};
use rope_core::{Call, NoRotation, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::{Number, each_element_pair};

const HEAD_DIM: usize = 64;
const SHAPE: [usize; 4] = [1, 2, 3, HEAD_DIM];
const LEN: usize = 2 * 3 * HEAD_DIM;

/// Returns the executor that runs an in-place call of a plan.
fn in_place(chain: Rope<Normed<'_>>, rotary_dim: usize) -> [Executor; 2] {
    fn run<E: Number>(chain: Rope<Normed<'_>>, rotary_dim: usize) -> Executor {
        let (mut x, angles) = (vec![E::from_f32(0.5); LEN], [0.5; 2 * HEAD_DIM]);
        let rows = Rows::new(&angles[..2 * rotary_dim], [2, rotary_dim]).expect("whole rows");
        let mut x = TensorMut::new(&mut x, SHAPE).expect("a valid tensor");
        let call = chain.prepare(&mut x, &rows).expect("what fits");
        call.executor()
    }
    [
        run::<f32>(chain, rotary_dim),
        run::<half::bf16>(chain, rotary_dim),
    ]
}

#[test]
fn of_calls_in_place() {
    let rope = Rope::new(Pairing::Half);
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).without_weight();
    let biases = [0.5_f32; HEAD_DIM];
    let centered = Norm::new(NormFormula::LAYER_NORM, 1e-6).without_weight();
    for (chain, rotary_dim, name) in [
        (Rope::<Normed<'_>>::from(rope), HEAD_DIM, Executor::Fused),
        (Rope::<Normed<'_>>::from(rope), 8, Executor::Fused),
        (rope.with_norm(norm), HEAD_DIM, Executor::Normed),
        (rope.with_norm(norm), 8, Executor::Normed),
        (
            rope.with_norm(norm.with_bias(&biases)),
            HEAD_DIM,
            Executor::Staged,
        ),
        (
            rope.with_norm(norm.with_reach(NormReach::Token)),
            HEAD_DIM,
            Executor::Staged,
        ),
        (
            rope.with_norm(norm.with_order(StageOrder::AfterRotation)),
            HEAD_DIM,
            Executor::Staged,
        ),
        (rope.with_norm(centered), HEAD_DIM, Executor::Staged),
        (
            rope.with_scale(Scale::constant(0.5)).into(),
            HEAD_DIM,
            Executor::Staged,
        ),
        (
            rope.with_norm(norm).with_scale(Scale::constant(0.5)),
            HEAD_DIM,
            Executor::Staged,
        ),
        (in_stages(rope).with_norm(norm), HEAD_DIM, Executor::Staged),
        (
            Rope::<Normed<'_>>::from(in_stages(rope)),
            HEAD_DIM,
            Executor::Staged,
        ),
    ] {
        assert_eq!(
            in_place(chain, rotary_dim),
            [name; 2],
            "{chain:?}, {rotary_dim}"
        );
    }
}

/// Transforms without a rotation, by the element type and the place of the heads.
#[test]
fn of_transforms() {
    fn run<E: Number>(chain: Rope<Normed<'_>>) -> Executor {
        let mut x = vec![E::from_f32(0.5); LEN];
        let mut x = TensorMut::new(&mut x, SHAPE).expect("a valid tensor");
        let call = chain.prepare(&mut x, &NoRotation).expect("what fits");
        call.executor()
    }
    let rope = Rope::new(Pairing::Half);
    let hadamard = Hadamard::new(HEAD_DIM).expect("a power of two");
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).without_weight();
    for (chain, name) in [
        (rope.with_hadamard(hadamard).into(), Executor::Transformed),
        (
            rope.with_hadamard(hadamard).with_norm(norm),
            Executor::Staged,
        ),
        (
            rope.with_hadamard(hadamard)
                .with_scale(Scale::constant(0.5))
                .into(),
            Executor::Staged,
        ),
        (
            in_stages(rope).with_hadamard(hadamard).into(),
            Executor::Staged,
        ),
        (rope.into(), Executor::Nothing),
    ] {
        assert_eq!(run::<f32>(chain), name, "{chain:?}");
        let wide = if name == Executor::Transformed {
            Executor::Staged
        } else {
            name
        };
        assert_eq!(run::<half::bf16>(chain), wide, "{chain:?}");
    }
    let chain = Rope::<Normed<'_>>::from(rope.with_hadamard(hadamard));
    assert_eq!(in_place(chain, HEAD_DIM), [Executor::Staged; 2]);
}

/// Tests calls out of place: into a tensor, into slots, and out of slots.
fn between<I: Number, O: Number>() {
    let (x, angles) = (vec![I::from_f32(0.5); LEN], [0.5; 2 * HEAD_DIM]);
    let rows = Rows::new(&angles, [2, HEAD_DIM]).expect("whole rows");
    let x = Tensor::new(&x, SHAPE).expect("a valid tensor");
    let same = I::NAME == O::NAME;
    let side_by_side = CacheLayout::nhd([1, 2, 3, HEAD_DIM]).expect("a small cache");
    let apart = CacheLayout::hdn([1, 3, HEAD_DIM, 2]).expect("a small cache");
    for (input, output) in [
        (Pairing::Half, Pairing::Half),
        (Pairing::Half, Pairing::Interleaved),
        (Pairing::Interleaved, Pairing::Half),
        (Pairing::Interleaved, Pairing::Interleaved),
    ] {
        let rope = Rope::new(input).with_output_pairing(output);
        let normed = rope.with_norm(Norm::new(NormFormula::OLMO2, 1e-6).without_weight());
        let kernel = match (I::NAME, O::NAME) {
            ("f32", "f32") => true,
            ("bf16", "bf16") => (input, output) != (Pairing::Half, Pairing::Interleaved),
            ("f32", _) => input == output,
            _ => same && input == output,
        };
        let rotation = if kernel {
            Executor::Fused
        } else {
            Executor::Staged
        };
        let norm = match same && input == output {
            true => Executor::CopiedNormed,
            false => Executor::Staged,
        };
        let doing = format!("{} {input} to {} {output}", I::NAME, O::NAME);
        for (chain, name) in [
            (Rope::<Normed<'_>>::from(rope), rotation),
            (normed, norm),
            (Rope::<Normed<'_>>::from(in_stages(rope)), Executor::Staged),
        ] {
            let mut y = vec![O::from_f32(0.0); LEN];
            let mut tensor = TensorMut::new(&mut y, SHAPE).expect("a valid tensor");
            let ran = chain
                .prepare_into(&x, &mut tensor, &rows)
                .map(Call::executor);
            assert_eq!(ran, Ok(name), "{doing}, {chain:?}");
            for (layout, name) in [(side_by_side, name), (apart, Executor::Staged)] {
                let mut cache = CacheMut::new(&mut y, layout).expect("a valid cache");
                let ran = chain
                    .prepare_into(&x, &mut cache.slots(0..2), &rows)
                    .map(Call::executor);
                assert_eq!(ran, Ok(name), "{doing} slots, {chain:?}");
            }
        }
        for (layout, rotation, copy) in [
            (
                side_by_side,
                rotation,
                if same {
                    Executor::Copied
                } else {
                    Executor::Staged
                },
            ),
            (apart, Executor::Staged, Executor::Staged),
        ] {
            let mut kept = vec![O::from_f32(0.0); LEN];
            let mut cache = CacheMut::new(&mut kept, layout).expect("a valid cache");
            let ran = rope
                .prepare_into(&x, &mut cache.slots(0..2), &NoRotation)
                .map(Call::executor);
            assert_eq!(ran, Ok(copy), "{doing}, copied");
            let kept = vec![I::from_f32(0.0); LEN];
            let cache = rope_core::cache::Cache::new(&kept, layout).expect("a valid cache");
            let mut y = vec![O::from_f32(0.0); LEN];
            let mut tensor = TensorMut::new(&mut y, SHAPE).expect("a valid tensor");
            let ran = rope
                .prepare_into(&cache.slots(0..2), &mut tensor, &rows)
                .map(Call::executor);
            assert_eq!(ran, Ok(rotation), "{doing}, from slots");
        }
    }
}

#[test]
fn of_calls_between_elements() {
    each_element_pair!(between());
}

#[test]
fn of_calls_into_codes() {
    let angles = [0.5; 2 * HEAD_DIM];
    let rows = Rows::new(&angles, [2, HEAD_DIM]).expect("whole rows");
    let layout = CacheLayout::nhd([1, 2, 3, HEAD_DIM]).expect("a small cache");
    let scale = QuantScale::Reciprocal(HeadScales::Same(0.5));
    let mut codes = vec![0; LEN];
    let mut cache = CacheMut::coded(
        &mut codes,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )
    .expect("a valid cache");
    let rope = Rope::new(Pairing::Half);
    let (own, wide) = ([half::bf16::from_f32(0.5); HEAD_DIM], [0.5_f32; HEAD_DIM]);
    let llama = Norm::new(NormFormula::LLAMA, 1e-6);
    let weightless = llama.without_weight();
    let changed = Rope::<Normed<'_>>::from(rope.with_output_pairing(Pairing::Interleaved));
    let (narrow, f32s) = (vec![half::bf16::from_f32(0.5); LEN], vec![0.5_f32; LEN]);
    let narrow = Tensor::new(&narrow, SHAPE).expect("a valid tensor");
    let f32s = Tensor::new(&f32s, SHAPE).expect("a valid tensor");
    for (chain, of_bf16, of_f32) in [
        (
            Rope::<Normed<'_>>::from(rope),
            Executor::Tiled,
            Executor::Tiled,
        ),
        // A 16-bit element between the rotation and the code would round.
        (
            Rope::<Normed<'_>>::from(rope).without_rounding(),
            Executor::Staged,
            Executor::Tiled,
        ),
        (changed, Executor::Staged, Executor::Tiled),
        (
            rope.with_norm(llama.with_weight(&own)),
            Executor::Tiled,
            Executor::Tiled,
        ),
        // The weights promote the result.
        (
            rope.with_norm(llama.with_weight(&wide)),
            Executor::Staged,
            Executor::Tiled,
        ),
        (
            rope.with_norm(weightless).without_rounding(),
            Executor::Staged,
            Executor::Tiled,
        ),
        (
            rope.with_norm(weightless.with_reach(NormReach::Token)),
            Executor::Staged,
            Executor::Staged,
        ),
        (
            Rope::<Normed<'_>>::from(in_stages(rope)),
            Executor::Staged,
            Executor::Staged,
        ),
    ] {
        let ran = chain
            .prepare_into(&narrow, &mut cache.slots(0..2), &rows)
            .map(Call::executor);
        assert_eq!(ran, Ok(of_bf16), "bf16, {chain:?}");
        let ran = chain
            .prepare_into(&f32s, &mut cache.slots(0..2), &rows)
            .map(Call::executor);
        assert_eq!(ran, Ok(of_f32), "f32, {chain:?}");
    }
    let ran = rope
        .prepare_into(&narrow, &mut cache.slots(0..2), &NoRotation)
        .map(Call::executor);
    assert_eq!(ran, Ok(Executor::Coded));
    let mut y = vec![0.0_f32; LEN];
    let mut y = TensorMut::new(&mut y, SHAPE).expect("a valid tensor");
    let ran = rope
        .prepare_into(&cache.as_cache().slots(0..2), &mut y, &rows)
        .map(Call::executor);
    assert_eq!(ran, Ok(Executor::Staged));
}
