//! The operands of a call: every verb takes each of them, and rows made by a call have the bits of rows made before.

use half::bf16;
use rope_core::axes::MixedFrequencies;
use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale,
};
use rope_core::error::{CacheError, PlanError, RowsError};
use rope_core::gradient::PairGradients;
use rope_core::internals::Executor;
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Hadamard, Normed, Scale, StageOrder};
use rope_core::{
    Angles, AnyRows, Call, Dimension, Direction, Element, Error, Frequencies, FullRows, Output,
    Pairing, Rope, Rows, Scaling, Target, Tensor, TensorMut, Yarn,
};
use rope_tests::{Number, Source};

const HEADS: usize = 2;
const DIM: usize = 128;

/// Tokens of more than one block of rows that a call makes itself.
const TOKENS: usize = 37;

type Plan<'a> = Rope<Normed<'a>>;

fn frequencies(rotary_dim: usize) -> Frequencies<'static> {
    Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default).expect("a base")
}

fn heads<E: Number>(source: &mut Source<'_>, tokens: usize) -> Vec<E> {
    let len = tokens * HEADS * DIM;
    (0..len).map(|_| E::from_f32(source.unit())).collect()
}

/// Returns plans with every kind of stage.
fn plans<'a>(weights: &'a [f32], factors: &'a [f32]) -> Vec<Plan<'a>> {
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(weights);
    let plain = Plan::from(Rope::new(Pairing::Half));
    vec![
        plain,
        Plan::from(Rope::new(Pairing::Interleaved).with_direction(Direction::Inverse)),
        plain.with_norm(norm),
        plain.with_norm(norm.with_reach(NormReach::Token)),
        plain.with_norm(norm.with_order(StageOrder::AfterRotation)),
        plain.with_scale(Scale::per_token(factors)),
        plain
            .with_norm(norm)
            .with_hadamard(Hadamard::new(64).expect("a power of two")),
        plain.with_window(24).with_parts(4),
        plain.with_parts(2).with_norm(norm),
    ]
}

/// The form of a call: a verb, or a prepared call.
#[derive(Clone, Copy, Debug)]
enum How {
    Verb,
    Prepared,
}

/// Calls [`Rope::rotate`], or its prepared form.
fn rotate(how: How, plan: &Plan<'_>, x: &mut impl Target, angles: &impl Angles) {
    match how {
        How::Verb => plan.rotate(x, angles),
        How::Prepared => plan.prepare(x, angles).map(Call::run),
    }
    .expect("it fits");
}

/// Calls [`Rope::rotate_into`], or its prepared form.
fn rotate_into(
    how: How,
    plan: &Plan<'_>,
    x: &impl rope_core::Source,
    y: &mut impl Target,
    angles: &impl Angles,
) {
    match how {
        How::Verb => plan.rotate_into(x, y, angles),
        How::Prepared => plan.prepare_into(x, y, angles).map(Call::run),
    }
    .expect("it fits");
}

/// Returns the bytes that a plan makes of heads: in place, in another tensor, in caches of each kind, and from a cache.
fn everywhere<E: Number>(
    how: How,
    plan: &Plan<'_>,
    x: &[E],
    shape: [usize; 4],
    angles: &impl Angles,
) -> Vec<Vec<u8>> {
    let count = shape[0] * shape[1];
    let layout = CacheLayout::nhd([6, 16, HEADS, DIM]).expect("valid");
    let slots: Vec<i64> = (0..count)
        .map(|token| (token * 7 % 96) as i64 - 1)
        .collect();
    let source = Tensor::new(x, shape).expect("valid");
    let mut all = Vec::new();

    let mut y = x.to_vec();
    let mut target = TensorMut::new(&mut y, shape).expect("valid");
    rotate(how, plan, &mut target, angles);
    all.push(bytemuck::cast_slice(&y).to_vec());

    let mut y = vec![bf16::ZERO; x.len()];
    let mut target = TensorMut::new(&mut y, shape).expect("valid");
    rotate_into(how, plan, &source, &mut target, angles);
    all.push(bytemuck::cast_slice(&y).to_vec());

    let mut memory = vec![E::from_f32(0.0); layout.end()];
    let mut cache = CacheMut::new(&mut memory, layout).expect("valid");
    rotate_into(how, plan, &source, &mut cache.slots(&slots), angles);
    let mut y = vec![0.0_f32; x.len()];
    let mut target = TensorMut::new(&mut y, shape).expect("valid");
    let cached = Cache::new(&memory, layout).expect("valid");
    rotate_into(how, plan, &cached.slots(&slots), &mut target, angles);
    all.push(bytemuck::cast_slice(&memory).to_vec());
    all.push(bytemuck::cast_slice(&y).to_vec());

    let mut memory = vec![0_u8; layout.end()];
    let scale = QuantScale::Divide(0.25.into());
    let mut cache = CacheMut::coded(
        &mut memory,
        layout,
        CacheFormat::quantized(QuantFormat::E4m3, scale),
    )
    .expect("valid");
    rotate_into(how, plan, &source, &mut cache.slots(&slots), angles);
    all.push(memory);

    // Both outputs of one read.
    let (mut y, mut memory) = (vec![bf16::ZERO; x.len()], vec![bf16::ZERO; layout.end()]);
    let mut tensor = TensorMut::new(&mut y, shape).expect("valid");
    let mut cache = CacheMut::new(&mut memory, layout).expect("valid");
    let mut cached = cache.slots(&slots);
    let outputs = &mut [
        Output::new(&mut tensor, angles),
        Output::new(&mut cached, angles),
    ];
    plan.rotate_into_each(&source, outputs).expect("it fits");
    all.push(bytemuck::cast_slice(&y).to_vec());
    all.push(bytemuck::cast_slice(&memory).to_vec());

    let mut memory = vec![0_u8; layout.bytes(BlockFormat::Q8_0).expect("valid")];
    let mut cache = CacheMut::coded(&mut memory, layout, BlockFormat::Q8_0).expect("valid");
    rotate_into(how, plan, &source, &mut cache.slots(&slots), angles);
    all.push(memory);
    all
}

#[test]
fn made_rows_have_the_bits_of_ready_rows() {
    fn of<E: Number>(source: &mut Source<'_>) {
        let weights: Vec<f32> = (0..DIM).map(|_| 1.0 + source.unit()).collect();
        let factors: Vec<f32> = (0..2 * TOKENS).map(|_| source.unit()).collect();
        let x: Vec<E> = heads(source, 2 * TOKENS);
        let list: Vec<f64> = (0..HEADS * 32).map(|i| 1.0 / (1.0 + i as f64)).collect();
        let mixed = MixedFrequencies::new(&list, [1, HEADS, 32], 1.0).expect("it fits");
        let frequencies = frequencies(96);
        for plan in plans(&weights, &factors) {
            for (batch, positions) in [(1, 2 * TOKENS), (2, TOKENS), (2, 2 * TOKENS)] {
                let shape = [batch, 2 * TOKENS / batch, HEADS, DIM];
                let positions = 1000..1000 + positions;
                let rows = frequencies.rows(positions.clone()).expect("positions");
                for how in [How::Verb, How::Prepared] {
                    assert_eq!(
                        everywhere(How::Verb, &plan, &x, shape, &rows),
                        everywhere(
                            how,
                            &plan,
                            &x,
                            shape,
                            &frequencies.at(positions.clone()).expect("positions")
                        ),
                        "{plan:?} {shape:?} {how:?}"
                    );
                }
                let rows = mixed.rows(positions.clone()).expect("positions");
                assert_eq!(
                    everywhere(How::Prepared, &plan, &x, shape, &rows),
                    everywhere(
                        How::Verb,
                        &plan,
                        &x,
                        shape,
                        &mixed.at(positions).expect("positions")
                    ),
                    "{plan:?} {shape:?}, rows of each head"
                );
            }
        }
    }
    let source = &mut Source::random("operands::made_rows_have_the_bits_of_ready_rows");
    of::<f32>(source);
    of::<bf16>(source);
}

/// A plain plan has a direct path and a pass; both give the same bits.
#[test]
fn a_pass_has_the_bits_of_the_direct_way() {
    fn of<E: Number>(source: &mut Source<'_>) {
        let frequencies = frequencies(96);
        let rope = Rope::new(source.one_of(&Pairing::ALL));
        for (rope, executor) in [
            (rope, Executor::Fused),
            (rope.with_window(DIM - 96), Executor::Staged),
            (rope.with_window(8).with_parts(3), Executor::Staged),
        ] {
            for tokens in [1, TOKENS] {
                let shape = [1, tokens, HEADS, DIM];
                let x: Vec<E> = heads(source, tokens);
                let rows = frequencies.rows(7..7 + tokens).expect("positions");
                let [mut direct, mut passed] = [x.clone(), x.clone()];
                let mut y = TensorMut::new(&mut direct, shape).expect("valid");
                rope.rotate(&mut y, &rows).expect("it fits");
                let mut y = TensorMut::new(&mut passed, shape).expect("valid");
                let call = rope.prepare(&mut y, &rows).expect("it fits");
                assert_eq!(call.executor(), executor);
                assert_eq!(bytes(&direct), bytes(&passed), "{rope:?}");
                let source = Tensor::new(&x, shape).expect("valid");
                let mut y = TensorMut::new(&mut direct, shape).expect("valid");
                rope.rotate_into(&source, &mut y, &rows).expect("it fits");
                let mut y = TensorMut::new(&mut passed, shape).expect("valid");
                let call = rope.prepare_into(&source, &mut y, &rows);
                assert_eq!(call.expect("it fits").executor(), executor);
                assert_eq!(bytes(&direct), bytes(&passed), "{rope:?}");
            }
        }
    }
    let source = &mut Source::random("operands::a_pass_has_the_bits_of_the_direct_way");
    of::<f32>(source);
    of::<bf16>(source);
}

/// Heads of a plan without stages may be longer than a tile, also in a prepared call, and in windows.
#[test]
fn long_heads() {
    let source = &mut Source::random("operands::long_heads");
    let (shape, len) = ([1, 3, 1, 5000], 3 * 5000);
    let x: Vec<f32> = (0..len).map(|_| source.unit()).collect();
    let from = Tensor::new(&x, shape).expect("valid");
    let whole = Rope::new(Pairing::Half);
    for (plan, channels) in [
        (whole, 4998),
        (whole.with_window(700), 4200),
        (whole.with_parts(3), 4998),
        (whole.with_window(2500).with_parts(5), 2500),
    ] {
        let rows = Rows::new(&x[..3 * channels], [3, channels]).expect("rows");
        for output in Pairing::ALL {
            let rope = plan.with_output_pairing(output);
            let [mut direct, mut prepared] = [(); 2].map(|()| vec![bf16::ZERO; len]);
            let mut y = TensorMut::new(&mut direct, shape).expect("valid");
            rope.rotate_into(&from, &mut y, &rows).expect("it fits");
            let mut y = TensorMut::new(&mut prepared, shape).expect("valid");
            let call = rope.prepare_into(&from, &mut y, &rows);
            call.expect("it fits").run();
            assert_eq!(bytes(&direct), bytes(&prepared), "{rope:?}");
        }
        let [mut direct, mut prepared] = [(); 2].map(|()| x.clone());
        let mut y = TensorMut::new(&mut direct, shape).expect("valid");
        plan.rotate(&mut y, &rows).expect("it fits");
        let mut y = TensorMut::new(&mut prepared, shape).expect("valid");
        plan.prepare(&mut y, &rows).expect("it fits").run();
        assert_eq!(bytes(&direct), bytes(&prepared), "{plan:?}");
    }
}

/// Full-width rows in a window of long heads: the bits of a narrower tensor, and the other channels stay.
#[test]
fn full_width_rows_in_long_heads() {
    const HEAD: usize = 5000;
    fn of<E: Number>(source: &mut Source<'_>) {
        let (shape, len) = ([1, 3, 2, HEAD], 6 * HEAD);
        let x: Vec<E> = (0..len).map(|_| E::from_f32(source.unit())).collect();
        let values: Vec<f32> = (0..2 * 3 * 96).map(|_| source.unit()).collect();
        let (cos, sin) = values.split_at(3 * 96);
        let rows = Rows::strided(cos, sin, [1, 3, 1, 96]).and_then(FullRows::new);
        let rows = rows.expect("whole rows");
        for (first, parts) in [(3000, 1), (4904, 3), (1, 4)] {
            let whole = Rope::new(Pairing::Half).with_parts(parts);
            let rope = whole.with_window(first);
            for output in Pairing::ALL {
                let window: Vec<E> = x
                    .chunks(HEAD)
                    .flat_map(|head| &head[first..first + 96])
                    .copied()
                    .collect();
                let (narrow, mut rotated) = ([1, 3, 2, 96], window.clone());
                let given = Tensor::new(&window, narrow).expect("valid");
                let mut y = TensorMut::new(&mut rotated, narrow).expect("valid");
                let plan = whole.with_output_pairing(output);
                plan.rotate_into(&given, &mut y, &rows).expect("it fits");
                let mut expected = x.clone();
                for (head, rotated) in expected.chunks_mut(HEAD).zip(rotated.chunks(96)) {
                    head[first..first + 96].copy_from_slice(rotated);
                }

                let rope = rope.with_output_pairing(output);
                let given = Tensor::new(&x, shape).expect("valid");
                let [mut direct, mut prepared] = [(); 2].map(|()| vec![E::from_f32(9.0); len]);
                let mut y = TensorMut::new(&mut direct, shape).expect("valid");
                rope.rotate_into(&given, &mut y, &rows).expect("it fits");
                assert_eq!(bytes(&direct), bytes(&expected), "{rope:?}");
                let mut y = TensorMut::new(&mut prepared, shape).expect("valid");
                let call = rope.prepare_into(&given, &mut y, &rows);
                call.expect("it fits").run();
                assert_eq!(bytes(&prepared), bytes(&expected), "{rope:?}");
                if output == Pairing::Half {
                    let [mut direct, mut threaded] = [(); 2].map(|()| x.clone());
                    let mut y = TensorMut::new(&mut direct, shape).expect("valid");
                    rope.rotate(&mut y, &rows).expect("it fits");
                    assert_eq!(bytes(&direct), bytes(&expected), "{rope:?}");
                    let mut y = TensorMut::new(&mut threaded, shape).expect("valid");
                    let threads = rope.with_threads();
                    threads.rotate(&mut y, &rows).expect("it fits");
                    assert_eq!(bytes(&threaded), bytes(&expected), "{rope:?}");
                }
            }
        }
    }
    let source = &mut Source::random("operands::full_width_rows_in_long_heads");
    of::<f32>(source);
    of::<bf16>(source);
}

/// From one cache into another: heads as f32, rotated, and written.
#[test]
fn from_one_cache_into_another() {
    let source = &mut Source::random("operands::from_one_cache_into_another");
    let rows = frequencies(96).rows(50..50 + TOKENS).expect("positions");
    let from = CacheLayout::nhd([3, 16, HEADS, DIM]).expect("valid");
    let to = CacheLayout::hnd([4, HEADS, 16, DIM]).expect("valid");
    let memory: Vec<bf16> = (0..from.end())
        .map(|_| bf16::from_f32(source.unit()))
        .collect();
    let keys = Cache::new(&memory, from).expect("valid");
    let slots: Vec<i64> = (0..TOKENS as i64).rev().collect();
    let mut into: Vec<i64> = (0..TOKENS as i64).map(|slot| slot + 9).collect();
    into[5] = -1;
    let shape = [1, TOKENS, HEADS, DIM];
    let written = |run: &dyn Fn(&mut CacheMut<'_>)| {
        let mut memory = vec![0_u8; to.bytes(BlockFormat::Q8_0).expect("valid")];
        run(&mut CacheMut::coded(&mut memory, to, BlockFormat::Q8_0).expect("valid"));
        memory
    };
    let rope = Rope::new(Pairing::Half);
    let mut y = vec![0.0_f32; TOKENS * HEADS * DIM];
    let mut tensor = TensorMut::new(&mut y, shape).expect("valid");
    rope.apply_into(&keys.slots(&slots), &mut tensor)
        .expect("it fits");
    let moved = written(&|cache| {
        rope.apply_into(&keys.slots(&slots), &mut cache.slots(&into))
            .expect("it fits");
    });
    let through = written(&|cache| {
        rope.apply_into(&tensor, &mut cache.slots(&into))
            .expect("it fits");
    });
    assert_eq!(moved, through);
    // The keys already contain the scale; a transform is undone and redone.
    let hadamard = Hadamard::new(64).expect("a power of two");
    let scaled = rope
        .with_scale(Scale::constant(0.5))
        .with_hadamard(hadamard);
    let transform = rope.with_hadamard(hadamard);
    for (plan, turned) in [
        (rope.with_scale(Scale::constant(0.5)), false),
        (scaled, true),
    ] {
        let mut z = y.clone();
        let mut tensor = TensorMut::new(&mut z, shape).expect("valid");
        if turned {
            transform.apply(&mut tensor).expect("it fits");
        }
        rope.rotate(&mut tensor, &rows).expect("it fits");
        if turned {
            transform.apply(&mut tensor).expect("it fits");
        }
        let rotated = written(&|cache| {
            plan.rotate_into(&keys.slots(&slots), &mut cache.slots(&into), &rows)
                .expect("it fits");
        });
        let through = written(&|cache| {
            rope.apply_into(&tensor, &mut cache.slots(&into))
                .expect("it fits");
        });
        assert_eq!(rotated, through);
    }
}

/// A window rotates as a narrower tensor does; the stages around the rotation apply to the whole head.
#[test]
fn windows_are_those_of_narrower_tensors() {
    const FROM: usize = 32;
    fn of<E: Number>(source: &mut Source<'_>, rows: &AnyRows<'_>) {
        let shape = [1, TOKENS, HEADS, DIM];
        let x: Vec<E> = heads(source, TOKENS);
        for rope in [
            Rope::new(Pairing::Half),
            Rope::new(Pairing::Half).with_parts(4),
            Rope::new(Pairing::Interleaved).with_direction(Direction::Transpose),
        ] {
            let window = rope.with_window(FROM);
            let mut narrow = x.clone();
            let tensor = TensorMut::new(&mut narrow, shape).expect("valid");
            let mut part = tensor
                .narrow(Dimension::Channels, FROM..DIM)
                .expect("channels");
            rope.rotate(&mut part, rows).expect("it fits");

            let mut y = x.clone();
            window
                .rotate(&mut TensorMut::new(&mut y, shape).expect("valid"), rows)
                .expect("it fits");
            assert_eq!(bytes(&y), bytes(&narrow));
            let mut y = x.clone();
            let mut tensor = TensorMut::new(&mut y, shape).expect("valid");
            window.prepare(&mut tensor, rows).expect("it fits").run();
            assert_eq!(bytes(&y), bytes(&narrow));
            let mut y = vec![E::from_f32(0.0); x.len()];
            let tensor = Tensor::new(&x, shape).expect("valid");
            for pass in [false, true] {
                y.fill(E::from_f32(0.0));
                let mut y = TensorMut::new(&mut y, shape).expect("valid");
                match pass {
                    false => window.rotate_into(&tensor, &mut y, rows),
                    true => window.prepare_into(&tensor, &mut y, rows).map(Call::run),
                }
                .expect("it fits");
                let _ = y;
            }
            assert_eq!(bytes(&y), bytes(&narrow));

            // Into a cache, within it, and out of it.
            let layout = CacheLayout::nhd([3, 16, HEADS, DIM]).expect("valid");
            let mut memory = vec![E::from_f32(0.0); layout.end()];
            let mut cache = CacheMut::new(&mut memory, layout).expect("valid");
            window
                .rotate_into(&tensor, &mut cache.slots(0..TOKENS), rows)
                .expect("it fits");
            assert_eq!(bytes(&memory[..x.len()]), bytes(&narrow));
            let mut cache = CacheMut::new(&mut memory, layout).expect("valid");
            rope.apply_into(&tensor, &mut cache.slots(0..TOKENS))
                .expect("it fits");
            let mut y = vec![E::from_f32(0.0); x.len()];
            window
                .rotate_into(
                    &cache.as_cache().slots(0..TOKENS),
                    &mut TensorMut::new(&mut y, shape).expect("valid"),
                    rows,
                )
                .expect("it fits");
            assert_eq!(bytes(&y), bytes(&narrow));
            if matches!(rows, AnyRows::Pairs(_)) {
                window
                    .rotate(&mut cache.slots(0..TOKENS), rows)
                    .expect("it fits");
                assert_eq!(bytes(&memory[..x.len()]), bytes(&narrow));
            }
        }
    }
    let source = &mut Source::random("operands::windows_are_those_of_narrower_tensors");
    let rows = frequencies(64).rows(5..5 + TOKENS).expect("positions");
    of::<f32>(source, &rows.clone().into());
    of::<bf16>(source, &rows.into());
    let values: Vec<f32> = (0..TOKENS * 64).map(|_| source.unit()).collect();
    let full = Rows::strided(&values, &values, [1, TOKENS, 1, 64]).and_then(FullRows::new);
    of::<f32>(source, &AnyRows::Channels(full.expect("it fits")));
}

/// The gradients of a plan with a window and a transform are those of the window alone in tensors that were transformed
/// before.
#[test]
fn gradients_of_a_window_beside_a_transform() {
    const FROM: usize = 32;
    let source = &mut Source::random("operands::gradients_of_a_window_beside_a_transform");
    let shape = [1, TOKENS, HEADS, DIM];
    let rows = frequencies(64).rows(5..5 + TOKENS).expect("positions");
    let hadamard = Hadamard::new(64).expect("a power of two");
    for (pairing, parts) in [
        (Pairing::Interleaved, 1),
        (Pairing::Half, 1),
        (Pairing::Half, 8),
    ] {
        let rope = Rope::new(pairing).with_parts(parts);
        let [y, dy] = [(); 2].map(|()| heads::<f32>(source, TOKENS));
        let transformed = |x: &[f32]| {
            let mut x = x.to_vec();
            let mut tensor = TensorMut::new(&mut x, shape).expect("valid");
            rope.with_hadamard(hadamard)
                .apply(&mut tensor)
                .expect("it fits");
            x
        };
        let sums = |of: &mut dyn FnMut(&mut PairGradients<'_>)| {
            let mut sums = vec![0.0; TOKENS * 32];
            of(&mut PairGradients::new(&mut sums, [TOKENS, 1, 32]).expect("as many sums"));
            sums
        };

        let [from, mut expected] = [transformed(&y), transformed(&dy)];
        let channels = FROM..DIM;
        let from = Tensor::new(&from, shape).expect("valid");
        let from = from.narrow(Dimension::Channels, channels.clone());
        let to = TensorMut::new(&mut expected, shape).expect("valid");
        let mut to = to.narrow(Dimension::Channels, channels).expect("channels");
        let expected_sums = sums(&mut |angles| {
            rope.backward(&from.expect("channels"), &mut to, &rows, angles)
                .expect("it fits");
        });

        let mut got = dy.clone();
        let got_sums = sums(&mut |angles| {
            let y = Tensor::new(&y, shape).expect("valid");
            let mut dy = TensorMut::new(&mut got, shape).expect("valid");
            let plan = rope.with_window(FROM).with_hadamard(hadamard);
            plan.backward(&y, &mut dy, &rows, angles).expect("it fits");
        });
        assert_eq!(bytes(&got), bytes(&expected));
        assert_eq!(got_sums, expected_sums);
    }
}

#[test]
fn stages_beside_a_window_are_of_whole_heads() {
    const FROM: usize = 64;
    let source = &mut Source::random("operands::stages_beside_a_window_are_of_whole_heads");
    let shape = [1, TOKENS, HEADS, DIM];
    let x: Vec<f32> = heads(source, TOKENS);
    let weights: Vec<f32> = (0..DIM).map(|_| 1.0 + source.unit()).collect();
    let rows = frequencies(64).rows(5..5 + TOKENS).expect("positions");
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
    let rope = Rope::new(Pairing::Half).with_window(FROM).with_parts(2);
    let hadamard = Hadamard::new(64).expect("a power of two");
    let after = norm.with_order(StageOrder::AfterRotation);
    for (plan, before) in [
        (rope.with_norm(norm), true),
        (rope.with_norm(norm.with_reach(NormReach::Token)), true),
        (rope.with_norm(after), false),
        (rope.with_norm(after.with_reach(NormReach::Token)), false),
        (Plan::from(rope.with_hadamard(hadamard)), false),
    ] {
        let mut steps = x.clone();
        let mut tensor = TensorMut::new(&mut steps, shape).expect("valid");
        if before {
            plan.apply(&mut tensor).expect("it fits");
        }
        rope.rotate(&mut tensor, &rows).expect("it fits");
        if !before {
            plan.apply(&mut tensor).expect("it fits");
        }
        let mut y = x.clone();
        plan.rotate(&mut TensorMut::new(&mut y, shape).expect("valid"), &rows)
            .expect("it fits");
        assert_eq!(bytes(&y), bytes(&steps), "{plan:?}");
    }
}

#[test]
fn what_stays_in_a_cache_is_refused() {
    let yarn = Scaling::Yarn(Yarn::new(16.0, 8192));
    let scaled = Frequencies::new(DIM, 10_000.0, &yarn).expect("a base");
    let layout = CacheLayout::nhd([1, 16, HEADS, DIM]).expect("valid");
    let mut memory = [1.0_f32; 16 * HEADS * DIM];
    let before = memory;
    let other = [1.0_f32; 16 * HEADS * DIM];
    let mut keys = CacheMut::new(&mut memory, layout).expect("valid");
    let rope = Rope::new(Pairing::Half);
    let normed = rope.with_norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    let factor = scaled.attention_factor();
    assert_eq!(
        rope.rotate(&mut keys.slots(0..3), &scaled.at(0..3).expect("positions")),
        Err(Error::Cache(CacheError::ShiftFactor { factor }))
    );
    let plain = frequencies(DIM);
    let refused = Err(Error::Plan(PlanError::NormInCache));
    assert_eq!(
        normed.rotate(&mut keys.slots(0..3), &plain.at(0..3).expect("positions")),
        refused
    );
    assert_eq!(normed.apply(&mut keys.slots(0..3)), refused);
    let others = Cache::new(&other, layout).expect("valid");
    assert_eq!(
        normed.rotate_into(
            &others.slots(0..3),
            &mut keys.slots(0..3),
            &plain.at(0..3).expect("positions")
        ),
        refused
    );
    assert!(matches!(
        rope.with_window(DIM + 1)
            .rotate(&mut keys.slots(0..3), &plain.at(0..3).expect("positions")),
        Err(Error::Rows(RowsError::Window { .. }))
    ));
    assert!(matches!(
        rope.with_window(1)
            .rotate(&mut keys.slots(0..3), &plain.at(0..3).expect("positions")),
        Err(Error::Rows(RowsError::Window { .. }))
    ));
    assert_eq!(rope.apply(&mut keys.slots(0..3)), Ok(()));
    assert_eq!(memory, before);
    let mut keys = CacheMut::new(&mut memory, layout).expect("valid");
    rope.rotate(&mut keys.slots(0..3), &plain.at(0..3).expect("positions"))
        .expect("it has no factor");
    let mut rotated = before;
    let mut tensor =
        TensorMut::new(&mut rotated[..3 * HEADS * DIM], [1, 3, HEADS, DIM]).expect("valid");
    rope.rotate(&mut tensor, &plain.at(0..3).expect("positions"))
        .expect("it fits");
    assert_eq!(bytes(&memory), bytes(&rotated));
}

fn bytes<E: Element>(values: &[E]) -> &[u8] {
    bytemuck::cast_slice(values)
}
