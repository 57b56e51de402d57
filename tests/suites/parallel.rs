//! A rotation on several threads: the same bits, and nothing else written.

use std::fmt::Debug;
use std::sync::OnceLock;

use half::bf16;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CachePartsMut,
    ChannelCodes, GroupCodes, MxScale, QuantFormat, QuantScale, ScaleLayout, ScalePlace, TileScale,
};
use rope_core::error::{PlanError, RowsError};
use rope_core::gradient::PairGradients;
use rope_core::internals::{Tuning, tuned, tuning};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Hadamard, Normed, Scale, Transpose};
use rope_core::{
    Backend, Error, Frequencies, Layout, Output, Pairing, Positions, Rope, Rows, Scaling, Tensor,
    TensorMut,
};
use rope_tests::number::{Number, paint};
use rope_tests::{Placed, Rotation, Source, Stored};

/// Tensors below and above the split size; with many tokens, many sequences, heads outermost, and fewer heads than
/// threads.
const SHAPES: [[usize; 4]; 7] = [
    [1, 600, 8, 70],
    [300, 3, 9, 64],
    [1, 1, 9000, 64],
    [2, 1500, 2, 66],
    [3, 5, 4, 38],
    [2, 0, 700, 128],
    [1, 2, 3, 40_000],
];

fn pools() -> [ThreadPool; 4] {
    [1, 2, 3, 8].map(|threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a few threads")
    })
}

fn bits<T: Number>(x: &[T]) -> Vec<u32> {
    x.iter().map(|x| x.bits()).collect()
}

/// Asserts the same bits. A computed NaN may be any NaN: parts have other remainders than the whole.
#[track_caller]
fn same<T: Number>(got: &[T], expected: &[T], doing: &str) {
    assert_eq!(got.len(), expected.len());
    let differ = |&(got, expected): &(&T, &T)| {
        got.bits() != expected.bits() && !(got.is_nan() && expected.is_nan())
    };
    if let Some((got, expected)) = got.iter().zip(expected).find(differ) {
        panic!("{doing}: {got:?} for {expected:?}");
    }
}

/// Returns rows for a shape in any form: shared by sequences, by heads, by both, or by neither.
fn rows(source: &mut Source<'_>, shape: [usize; 4]) -> Stored {
    Stored::for_shape(source, shape, 16)
}

#[test]
fn rotate() {
    let source = &mut Source::random("parallel_rotate");
    for pool in pools() {
        for shape in SHAPES {
            let (place, rows) = (Placed::any(source, shape), rows(source, shape));
            let x = paint::<f32>(source, place.len);
            let rotation = source.one_of(&Rotation::in_place().collect::<Vec<_>>());
            let rotation = rotation.allowed(&rows.angles);
            let rope = rotation.plan(Backend::best());
            let (mut expected, mut got) = (x.clone(), x);
            rows.with(|rows| {
                let mut x = TensorMut::new(&mut expected, place.layout).expect("valid");
                rope.rotate(&mut x, rows).expect("rows that fit");
                let mut x = TensorMut::new(&mut got, place.layout).expect("valid");
                pool.install(|| rope.with_threads().rotate(&mut x, rows))
                    .expect("rows that fit");
            });
            same(&got, &expected, &format!("{rotation:?}, {shape:?}"));
        }
    }
}

#[test]
fn rotate_qk() {
    let source = &mut Source::random("parallel_rotate_qk");
    for pool in pools() {
        for [batch, tokens, heads, head_dim] in SHAPES {
            let shapes = [heads, heads.div_ceil(4)].map(|heads| [batch, tokens, heads, head_dim]);
            let [q_place, k_place] = shapes.map(|shape| Placed::any(source, shape));
            let rows = rows(source, [batch, tokens, 1, head_dim]);
            let q = paint::<f32>(source, q_place.len);
            let k = paint::<bf16>(source, k_place.len);
            let rope = Rope::new(source.one_of(&Pairing::ALL));
            let (mut expected, mut got) = ((q.clone(), k.clone()), (q, k));
            rows.with(|rows| {
                let mut q = TensorMut::new(&mut expected.0, q_place.layout).expect("valid");
                let mut k = TensorMut::new(&mut expected.1, k_place.layout).expect("valid");
                rope.rotate_qk(&mut q, &mut k, rows).expect("they fit");
                let mut q = TensorMut::new(&mut got.0, q_place.layout).expect("valid");
                let mut k = TensorMut::new(&mut got.1, k_place.layout).expect("valid");
                pool.install(|| rope.with_threads().rotate_qk(&mut q, &mut k, rows))
                    .expect("they fit");
            });
            same(&got.0, &expected.0, &format!("q, {shapes:?}"));
            same(&got.1, &expected.1, &format!("k, {shapes:?}"));
        }
    }
}

#[test]
fn rotate_into() {
    let source = &mut Source::random("parallel_rotate_into");
    for pool in pools() {
        for shape in SHAPES {
            let [from, to] = [(); 2].map(|()| Placed::any(source, shape));
            let rows = rows(source, shape);
            let x = paint::<f32>(source, from.len);
            let y = paint::<bf16>(source, to.len);
            let rope = Rope::new(source.one_of(&Pairing::ALL))
                .with_output_pairing(source.one_of(&Pairing::ALL));
            let x = Tensor::new(&x, from.layout).expect("valid");
            let (mut expected, mut got) = (y.clone(), y);
            rows.with(|rows| {
                let mut y = TensorMut::new(&mut expected, to.layout).expect("valid");
                rope.rotate_into(&x, &mut y, rows).expect("they fit");
                let mut y = TensorMut::new(&mut got, to.layout).expect("valid");
                pool.install(|| rope.with_threads().rotate_into(&x, &mut y, rows))
                    .expect("they fit");
            });
            same(&got, &expected, &format!("{rope:?}, {shape:?}"));
        }
    }
}

#[test]
fn rotate_at() {
    let source = &mut Source::random("parallel_rotate_at");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    for pool in pools() {
        for shape in SHAPES {
            let place = Placed::any(source, shape);
            let [batch, tokens, heads, head_dim] = shape;
            // A part of the tokens has some rows of every sequence.
            let tokens_outside = Layout::sbhd([tokens, batch, heads, head_dim]).expect("valid");
            let layout = if source.once_in(3) && tokens_outside.end() <= place.len {
                tokens_outside
            } else {
                place.layout
            };
            let ids: Vec<i64> = (0..batch * tokens)
                .map(|_| i64::from(source.word()) - (1 << 31))
                .collect();
            let rope = Rope::new(source.one_of(&Pairing::ALL));
            let x = paint::<bf16>(source, place.len);
            for positions in [
                Positions::from(-70_000..-70_000 + tokens as i64),
                Positions::from(&ids),
            ] {
                let (mut expected, mut got) = (x.clone(), x.clone());
                let mut x = TensorMut::new(&mut expected, layout).expect("valid");
                rope.rotate(&mut x, &frequencies.at(positions).expect("positions"))
                    .expect("they fit");
                let mut x = TensorMut::new(&mut got, layout).expect("valid");
                pool.install(|| {
                    rope.with_threads()
                        .rotate(&mut x, &frequencies.at(positions).expect("positions"))
                })
                .expect("they fit");
                same(&got, &expected, &format!("{shape:?}"));
            }
        }
    }
}

/// Groups with numbers by channel, in many blocks and in one, of one head or with heads between them: written in any
/// order of the groups, beside another output, and shifted, some of them twice.
#[test]
fn groups_by_channel() {
    groups_of_heads([32, 64]);
    groups_of_heads([1, 2048]);
}

/// Tests groups of 1 MiB, which several threads divide.
fn groups_of_heads([heads, head_dim]: [usize; 2]) {
    let tokens = 512;
    let shape = [1, tokens, heads, head_dim];
    let frequencies = Frequencies::new(head_dim, 1e4, &Scaling::Default).expect("a base");
    let x: Vec<f32> = (0..tokens * heads * head_dim)
        .map(|i| (i * 37 % 101) as f32 - 50.0)
        .collect();
    let x = Tensor::new(&x, shape).expect("a tensor");
    let rows = frequencies.rows(3..515).expect("positions");
    let made = frequencies.at(3..515).expect("positions");
    let deltas = vec![-5_i64; tokens];
    let back = frequencies.shift(&deltas).expect("a shift");
    // The groups in an order of their own, two of them skipped, and one twice.
    let group = |index: usize| match index {
        3 | 9 => None,
        15 => Some(0),
        _ => Some(index * 7 % 16),
    };
    let slots: Vec<i64> = (0..tokens)
        .map(|token| group(token / 32).map_or(-1, |group| (group * 32 + token % 32) as i64))
        .collect();
    let layouts = [[16, 32], [4, 128], [1, 512]].map(|[blocks, slots]| {
        CacheLayout::hnd([blocks, heads, slots, head_dim]).expect("a small cache")
    });
    for codes in [ChannelCodes::U4, ChannelCodes::U8, ChannelCodes::Kivi2] {
        for layout in layouts {
            let format = CacheFormat::by_channel(codes, 32);
            let bytes = layout.bytes(format).expect("few");
            let run = |rope: Rope| {
                let mut memory = vec![0x5a_u8; bytes];
                let mut keys =
                    CacheMut::coded(&mut memory, layout, format).expect("a cache that fits");
                let mut y = vec![0.0_f32; tokens * heads * head_dim];
                let mut y = TensorMut::new(&mut y, shape).expect("a tensor");
                let mut cached = keys.slots(0..512);
                let outputs = &mut [Output::new(&mut y, &rows), Output::new(&mut cached, &rows)];
                rope.rotate_into_each(&x, outputs).expect("whole groups");
                rope.rotate_into(&x, &mut keys.slots(&slots), &made)
                    .expect("whole groups");
                rope.rotate(&mut keys.slots(&slots), &back)
                    .expect("whole groups");
                rope.rotate_into(&x, &mut keys.slots(64..576 - 64), &back)
                    .expect_err("one slot per token");
                memory
            };
            let expected = run(plain());
            for pool in pools() {
                let got = pool.install(|| run(plain().with_threads()));
                assert!(got == expected, "{codes:?} {layout:?} {pool:?}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_any_thread_starts() {
    let source = &mut Source::random("refused_before_any_thread_starts");
    let shape = [1, 600, 8, 64];
    let x = paint::<f32>(source, shape.iter().product());
    let mut got = x.clone();
    let table: Vec<f32> = (0..599 * 32).map(|i| i as f32).collect();
    let rows = Rows::new(&table, [599, 32]).expect("whole rows");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    let rope = Rope::new(Pairing::Half).with_threads();
    let source_tensor = Tensor::new(&x, shape).expect("valid");
    let mut other = x.clone();
    let mut other = TensorMut::new(&mut other, shape).expect("valid");
    let mut tensor = TensorMut::new(&mut got, shape).expect("a valid tensor");
    for result in [
        rope.rotate(&mut tensor, &rows),
        rope.rotate_qk(&mut tensor, &mut other, &rows),
        rope.rotate_into(&source_tensor, &mut tensor, &rows),
        rope.rotate(&mut tensor, &frequencies.at(0..599).expect("positions")),
    ] {
        assert!(
            matches!(result, Err(Error::Rows(RowsError::Count { .. }))),
            "{result:?}"
        );
    }
    assert_eq!(bits(&got), bits(&x));
}

/// Returns a plan with a minimum of 1 KiB for a thread.
fn plain() -> Rope {
    let plain = Rope::new(Pairing::Half);
    static SMALL_PARTS: OnceLock<Tuning> = OnceLock::new();
    let tuning = SMALL_PARTS.get_or_init(|| Tuning {
        thread_part: 1 << 10,
        ..*tuning(&plain)
    });
    tuned(plain, tuning)
}

/// Plans with every kind of stage.
fn plans<'a>(weights: &'a [f32], factors: &'a [f32], sums: &'a [f32]) -> Vec<Plan<'a>> {
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let over_token = norm.with_weight(weights).with_reach(NormReach::Token);
    let plain = Plan::from(plain());
    vec![
        plain,
        plain.with_norm(norm.with_weight(&weights[..DIM])),
        plain.with_norm(over_token),
        plain.with_norm(
            norm.with_weight(&weights[..DIM])
                .with_sum_of_squares(sums, DIM),
        ),
        plain.with_scale(Scale::per_token(factors)),
        plain.with_hadamard(Hadamard::new(DIM).expect("a power of two")),
        plain.with_window(16),
        plain.with_parts(2),
    ]
}

type Plan<'a> = Rope<Normed<'a>>;

const DIM: usize = 64;
const HEADS: usize = 3;
const TOKENS: usize = 75;

/// Returns the contents of caches of each layout and format after a call.
fn into_caches(call: &mut dyn FnMut(&mut CacheMut<'_>)) -> Vec<Vec<u8>> {
    let paged = CacheLayout::nhd([11, 8, HEADS, DIM]).expect("valid");
    let one_block = CacheLayout::nhd([1, 88, HEADS, DIM]).expect("valid");
    let by_heads = CacheLayout::hnd([11, HEADS, 8, DIM]).expect("valid");
    let by_channels = CacheLayout::hdn([1, HEADS, DIM, 88]).expect("valid");
    let mut written = Vec::new();
    for layout in [paged, one_block, by_heads, by_channels] {
        let mut memory = vec![bf16::ZERO; layout.end()];
        call(&mut CacheMut::new(&mut memory, layout).expect("valid"));
        written.push(bytemuck::cast_slice(&memory).to_vec());

        let separate = ScalePlace::Separate(ScaleLayout::nh([layout.shape().block_size, HEADS]));
        let scale = QuantScale::Computed {
            least: 1e-6,
            at: separate,
        };
        let (mut memory, mut scales) = (vec![0_u8; layout.end()], vec![0.0_f32; 88 * HEADS]);
        let code = QuantFormat::E4m3;
        let mut cache = CacheMut::coded_with_scales(
            &mut memory,
            layout,
            CacheFormat::quantized(code, scale),
            &mut scales,
        );
        call(cache.as_mut().expect("valid"));
        written.extend([memory, bytemuck::cast_slice(&scales).to_vec()]);
    }
    for layout in [paged, one_block, by_heads] {
        let shape = layout.shape();
        let mut scales = vec![0_u8; 88 * HEADS * DIM / 16];
        for group in [32, 16] {
            let place = ScaleLayout::nh([shape.block_size, HEADS]).with_groups(DIM / group);
            let at = ScalePlace::Separate(place);
            let format = match group {
                32 => CacheFormat::by_group(GroupCodes::Mxfp4(MxScale::Even), at),
                _ => CacheFormat::by_group(GroupCodes::Nvfp4(0.5), at),
            };
            let mut memory = vec![0_u8; layout.bytes(format).expect("valid")];
            let mut cache = CacheMut::coded_with_scales(&mut memory, layout, format, &mut scales);
            call(cache.as_mut().expect("valid"));
            written.extend([memory, scales.clone()]);
        }
        // Scales in one list, and zero points in another.
        let place = ScaleLayout::nh([shape.block_size, HEADS]).with_groups(2);
        let codes = GroupCodes::U8(Asymmetric::ZeroPoint, DIM / 2);
        let format = CacheFormat::by_group(codes, ScalePlace::Separate(place));
        let mut memory = vec![0_u8; layout.bytes(format).expect("valid")];
        let [mut scales, mut zeros] = [(); 2].map(|()| vec![0.0_f32; 88 * HEADS * 2]);
        let both = [&mut scales, &mut zeros];
        let mut cache = CacheMut::coded_with_scales(&mut memory, layout, format, both);
        call(cache.as_mut().expect("valid"));
        written.push(memory);
        written.extend([scales, zeros].map(|list| bytemuck::cast_slice(&list).to_vec()));
        // Each block has its scales after its codes.
        let mut strides = layout.strides();
        strides.block += shape.block_size * HEADS * 4;
        let wide = CacheLayout::strided(shape, strides).expect("valid");
        let first = strides.block - shape.block_size * HEADS * 4;
        let strides = ScaleLayout {
            block: strides.block,
            ..ScaleLayout::nh([shape.block_size, HEADS]).with_groups(4)
        };
        let at = ScalePlace::InBlock { first, strides };
        for format in [
            CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Computed { least: 1e-6, at }),
            CacheFormat::by_group(
                GroupCodes::E4m3In64(TileScale::PowerOfTwo { least: 1e-4 }),
                at,
            ),
        ] {
            let mut memory = vec![0_u8; wide.bytes(format).expect("valid")];
            let cache = CacheMut::coded(&mut memory, wide, format);
            call(&mut cache.expect("valid"));
            written.push(memory);
        }
    }
    for layout in [paged, one_block] {
        let mut memory = vec![0_u8; layout.bytes(BlockFormat::Q8_0).expect("valid")];
        let cache = CacheMut::coded(&mut memory, layout, BlockFormat::Q8_0);
        call(&mut cache.expect("valid"));
        written.push(memory);
    }
    written
}

/// A plan on several threads gives the bits of the plan on one: in tensors and caches, from either, by given rows and
/// by rows that the call makes. Some tokens share their slots, and some have none.
#[test]
fn every_operand() {
    let source = &mut Source::random("parallel_every_operand");
    let weights: Vec<f32> = (0..HEADS * DIM).map(|_| 1.0 + source.unit()).collect();
    let factors: Vec<f32> = (0..TOKENS).map(|_| source.unit()).collect();
    let sums: Vec<f32> = (0..TOKENS * HEADS).map(|_| 64.0 + source.unit()).collect();
    let x: Vec<f32> = (0..TOKENS * HEADS * DIM).map(|_| source.unit()).collect();
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    let rows = frequencies.rows(7..7 + TOKENS).expect("positions");
    let shift = frequencies.shift(&[-5_i64; TOKENS]).expect("positions");
    for pool in pools() {
        for plan in plans(&weights, &factors, &sums) {
            let parallel = plan.with_threads();
            let slots: Vec<i64> = (0..TOKENS).map(|_| source.below(89) as i64 - 1).collect();
            for (batch, tokens) in [(1, TOKENS), (3, TOKENS / 3)] {
                for layout in [
                    Layout::bshd([batch, tokens, HEADS, DIM]).expect("valid"),
                    Layout::bhsd([batch, HEADS, tokens, DIM]).expect("valid"),
                ] {
                    let from = Tensor::new(&x, layout).expect("valid");
                    let made = &frequencies.at(7..7 + TOKENS).expect("positions");
                    let tensors = |plan: &Plan<'_>| {
                        let (mut y, mut z) = (x.clone(), vec![bf16::ZERO; x.len()]);
                        let mut w = x.clone();
                        let mut in_place = TensorMut::new(&mut y, layout).expect("valid");
                        plan.rotate(&mut in_place, &rows).expect("it fits");
                        let mut in_place = TensorMut::new(&mut w, layout).expect("valid");
                        let call = plan.prepare(&mut in_place, made).expect("it fits");
                        call.run();
                        let mut to = TensorMut::new(&mut z, layout).expect("valid");
                        plan.rotate_into(&from, &mut to, &rows).expect("it fits");
                        [bits(&y), bits(&w), bits(&z)]
                    };
                    let (got, expected) = (pool.install(|| tensors(&parallel)), tensors(&plan));
                    for (what, (got, expected)) in got.iter().zip(&expected).enumerate() {
                        let differ = (0..got.len()).find(|&i| got[i] != expected[i]);
                        assert_eq!(differ, None, "{what}, {plan:?}, {layout:?}");
                    }

                    let caches = |plan: &Plan<'_>| {
                        let ready = into_caches(&mut |cache| {
                            let to = &mut cache.slots(&slots);
                            plan.rotate_into(&from, to, &rows).expect("it fits");
                        });
                        let made = into_caches(&mut |cache| {
                            let to = &mut cache.slots(&slots);
                            plan.rotate_into(&from, to, made).expect("it fits");
                        });
                        [ready, made]
                    };
                    let several = |plan: &Plan<'_>| {
                        let mut tensor = vec![bf16::ZERO; x.len()];
                        let mut groups = vec![0.0_f32; 2 * x.len()];
                        let wide = [batch, tokens, 2 * HEADS, DIM];
                        let caches = into_caches(&mut |cache| {
                            let mut y = TensorMut::new(&mut tensor, layout).expect("valid");
                            let mut z = TensorMut::new(&mut groups, wide).expect("valid");
                            let of_groups =
                                [rows.narrow(0..tokens), rows.narrow(TOKENS - tokens..TOKENS)];
                            let of_groups = of_groups.map(|rows| rows.expect("they are inside"));
                            let mut cached = cache.slots(&slots);
                            let outputs = &mut [
                                Output::new(&mut y, made),
                                Output::head_groups(&mut z, &of_groups),
                                Output::new(&mut cached, &rows),
                            ];
                            plan.rotate_into_each(&from, outputs).expect("they fit");
                        });
                        (bits(&tensor), bits(&groups), caches)
                    };
                    let got = pool.install(|| several(&parallel));
                    assert!(got == several(&plan), "{plan:?}, {layout:?}, outputs");

                    let [ready, made] = pool.install(|| caches(&parallel));
                    assert_eq!(ready, caches(&plan)[0], "{plan:?}, {layout:?}");
                    assert_eq!(made, ready, "{plan:?}, {layout:?}");
                }
            }
            // From a cache into a tensor and into other caches, and in place.
            let Some(linear) = without_norm(&plan) else {
                continue;
            };
            let cached: Vec<f32> = x.iter().cycle().take(88 * HEADS * DIM).copied().collect();
            let layout = CacheLayout::hnd([11, HEADS, 8, DIM]).expect("valid");
            let cached = Cache::new(&cached, layout).expect("valid");
            let moved = |plan: &Plan<'_>| {
                let mut y = vec![0.0_f32; x.len()];
                let to = &mut TensorMut::new(&mut y, [1, TOKENS, HEADS, DIM]).expect("valid");
                let from = cached.slots(0..TOKENS as i64);
                plan.rotate_into(&from, to, &rows).expect("it fits");
                let caches = into_caches(&mut |cache| {
                    let to = &mut cache.slots(&slots);
                    plan.rotate_into(&from, to, &rows).expect("it fits");
                    let own = &mut cache.slots(3..3 + TOKENS as i64);
                    plan.rotate(own, &shift).expect("it fits");
                });
                (bits(&y), caches)
            };
            let got = pool.install(|| moved(&linear.with_threads()));
            assert_eq!(got, moved(&linear), "{plan:?}, from a cache");
        }
    }
}

/// Parts of slots, written and shifted on several threads.
#[test]
fn parts_of_slots() {
    let source = &mut Source::random("parallel_parts_of_slots");
    let x: Vec<f32> = (0..TOKENS * 96).map(|_| source.unit()).collect();
    let x = Tensor::new(&x, [1, TOKENS, 1, 96]).expect("valid");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("good frequencies");
    let rows = frequencies.rows(7..7 + TOKENS).expect("positions");
    let shift = frequencies.shift(&[-5_i64; TOKENS]).expect("positions");
    let slots: Vec<i64> = (0..TOKENS).map(|_| source.below(89) as i64 - 1).collect();
    // 64 codes, their scale, and 32 channels of bf16.
    let part = |width, channels| {
        CacheLayout::nhd([11, 8, 1, width]).and_then(|layout| layout.narrow_channels(channels))
    };
    let least = f32::MIN_POSITIVE;
    let codes = CacheFormat::by_group(
        GroupCodes::E4m3In64(TileScale::Quotient { least }),
        ScalePlace::Inline(64),
    );
    let parts = [
        (part(132, 0..64).expect("valid"), codes),
        (
            part(66, 34..66).expect("valid"),
            CacheFormat::element::<bf16>(),
        ),
    ];
    let written = |rope: &Rope| {
        let mut memory = vec![0_u32; 88 * 33];
        let bytes = bytemuck::cast_slice_mut(&mut memory);
        let mut cache = CachePartsMut::new(bytes, parts).expect("valid");
        rope.rotate_into(&x, &mut cache.slots(&slots), &rows)
            .expect("it fits");
        rope.rotate(&mut cache.slots(5..5 + TOKENS as i64), &shift)
            .expect("it fits");
        memory
    };
    let rope = plain().with_window(64);
    for pool in pools() {
        let got = pool.install(|| written(&rope.with_threads()));
        assert!(got == written(&rope));
    }
}

/// Returns the plan without its norm, for keys in a cache.
fn without_norm<'a>(plan: &Plan<'a>) -> Option<Plan<'a>> {
    let mut memory = [0.0_f32; HEADS * DIM];
    let layout = CacheLayout::nhd([1, 1, HEADS, DIM]).expect("valid");
    let mut cache = CacheMut::new(&mut memory, layout).expect("valid");
    let rows = [0.0; 2];
    let rows = Rows::new(&rows, [1, 2]).expect("a row");
    let refused = plan.rotate(&mut cache.slots(0..1), &rows);
    (refused != Err(Error::Plan(PlanError::NormInCache))).then_some(*plan)
}

/// Sums of gradients on threads are those on one, and so is the tensor that comes back: of rows that sequences share or
/// not, of sums that heads share or not, of plans that only rotate, scale, or transform.
#[test]
fn gradients() {
    let source = &mut Source::random("parallel_gradients");
    let factors: Vec<f32> = (0..TOKENS).map(|_| source.unit()).collect();
    let transform = Hadamard::new(DIM).expect("a power of two");
    for pool in pools() {
        let plain = plain();
        for plan in [plain, plain.with_window(16), plain.with_parts(4)] {
            backward(source, &pool, plan, Some(plan));
        }
        backward(
            source,
            &pool,
            plain.with_scale(Scale::per_token(&factors)),
            None,
        );
        backward(source, &pool, plain.with_hadamard(transform), None);
        backward(
            source,
            &pool,
            plain.with_window(16).with_hadamard(transform),
            None,
        );
    }
}

/// The same of one plan; `plain` is the plan that has the verbs of a plain one.
fn backward<S: Transpose + Debug + Sync>(
    source: &mut Source<'_>,
    pool: &ThreadPool,
    plan: Rope<S>,
    plain: Option<Rope>,
) {
    let y: Vec<f32> = (0..TOKENS * HEADS * DIM).map(|_| source.unit()).collect();
    let dy: Vec<f32> = y.iter().map(|_| source.unit()).collect();
    let table: Vec<f32> = (0..TOKENS * 32).map(|_| source.unit()).collect();
    for (batch, tokens, rows) in [
        (1, TOKENS, TOKENS),
        (3, TOKENS / 3, TOKENS),
        (3, TOKENS / 3, TOKENS / 3),
    ] {
        let angles = Rows::new(&table[..rows * 32], [rows, 32]).expect("whole rows");
        for (heads, layout) in [1, HEADS].into_iter().flat_map(|heads| {
            let bshd = Layout::bshd([batch, tokens, HEADS, DIM]).expect("valid");
            let bhsd = Layout::bhsd([batch, HEADS, tokens, DIM]).expect("valid");
            [(heads, bshd), (heads, bhsd)]
        }) {
            let tensors @ [y, before] = [&y, &dy].map(|x| Tensor::new(x, layout).expect("valid"));
            let run = |plan: Rope<S>| {
                let (mut in_place, mut dx) = (dy.clone(), vec![bf16::ZERO; dy.len()]);
                let mut sums = [(); 2].map(|()| vec![0.5; rows * heads * 16]);
                let [mut a, mut b] = sums
                    .each_mut()
                    .map(|sums| PairGradients::new(sums, [rows, heads, 16]).expect("as many sums"));
                let mut dy = TensorMut::new(&mut in_place, layout).expect("valid");
                plan.backward(&y, &mut dy, &angles, &mut a)
                    .expect("it fits");
                let mut to = TensorMut::new(&mut dx, layout).expect("valid");
                plan.backward_into(&y, &before, &mut to, &angles, &mut b)
                    .expect("it fits");
                (bits(&in_place), bits(&dx), sums)
            };
            let doing = format!("{plan:?}, {layout:?}, {rows} rows, {heads} heads of sums");
            let (got, expected) = (pool.install(|| run(plan.with_threads())), run(plan));
            assert!(got.0 == expected.0, "dy in place, {doing}");
            assert!(got.1 == expected.1, "dx, {doing}");
            assert!(got.2 == expected.2, "sums, {doing}");
            if let Some(plan) = plain {
                let got = pool.install(|| other_sums(plan.with_threads(), &tensors, [rows, heads]));
                assert!(got == other_sums(plan, &tensors, [rows, heads]), "{doing}");
            }
        }
    }
}

/// The sums of all gradients but those by the rotated tensor's angles.
fn other_sums(
    plan: Rope,
    [x, dy]: &[Tensor<'_, f32>; 2],
    [rows, heads]: [usize; 2],
) -> Vec<Vec<f64>> {
    let mut sums: Vec<_> = [16, 16, 16, 16, 32, 32]
        .map(|pairs| vec![0.5; rows * heads * pairs])
        .into();
    let mut all: Vec<_> = sums
        .iter_mut()
        .map(|sums| {
            let pairs = sums.len() / (rows * heads);
            PairGradients::new(sums, [rows, heads, pairs]).expect("as many sums")
        })
        .collect();
    let [factors, angles, cos, sin, cos_of_channels, sin_of_channels] = &mut all[..] else {
        unreachable!("there are six");
    };
    for added in [
        plan.factor_gradients(x, dy, factors),
        plan.angle_gradients(x, dy, angles),
        plan.cos_sin_gradients(x, dy, cos, sin),
        plan.channel_gradients(x, dy, cos_of_channels, sin_of_channels),
    ] {
        added.expect("they fit");
    }
    sums
}
