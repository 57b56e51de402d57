//! Every error of a chain, a cache or a shift: its message has the value and the limit, and nothing was written to a
//! tensor, a cache or its scales.

use half::bf16;
use rope_core::axes::Axes;
use rope_core::cache::{
    BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, CacheShape, CacheStrides, HeadScales,
    IntoSlots, QuantFormat, QuantScale, ScaleLayout, ScalePlace, Slots,
};
use rope_core::error::{
    CacheError, FrequenciesError, PlanError, PositionsError, RowsError, ShapeError, SlotsError,
};
use rope_core::gradient::PairGradients;
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::shard::{Shard, ShardKind};
use rope_core::stages::{Hadamard, Scale, StageOrder, Stages, WithStages};
use rope_core::{
    Dimension, Element, Error, Frequencies, Layout, NoRotation, Pairing, Positions, Rope, Rows,
    Scaling, Strides, Tensor, TensorMut,
};

use crate::refused::{NUMBERS, refused, untouched};

const ROPE: fn() -> Rope = || Rope::new(Pairing::Half);

/// `[2, 3, 2, 8]`, in all tests below.
const SHAPE: [usize; 4] = [2, 3, 2, 8];
const LEN: usize = 96;

fn rows() -> Rows<'static> {
    Rows::new(&NUMBERS[..24], [3, 8]).expect("three rows")
}

/// Slots of the six tokens.
const SLOTS: [i64; 6] = [0, 1, 2, 3, 4, 5];

fn layout() -> CacheLayout {
    CacheLayout::nhd([2, 3, 2, 8]).expect("a small cache")
}

/// Calls each writing verb of a chain, with painted targets. Calls on caches have slots for each token.
fn each_verb<'a>(plan: impl Into<Rope<WithStages<'a>>>, error: Error, words: &[&str]) {
    let chain = plan.into();
    let rows = rows();
    untouched::<bf16>(LEN, |data| {
        let mut tensor = TensorMut::new(data, SHAPE).expect("valid");
        refused(chain.rotate(&mut tensor, &rows), error, words);
        refused(chain.apply(&mut tensor), error, words);
        let other = vec![bf16::ONE; LEN];
        let from = Tensor::new(&other, SHAPE).expect("valid");
        refused(chain.rotate_into(&from, &mut tensor, &rows), error, words);
        let cache = Cache::new(&other, layout()).expect("a cache that fits");
        let slots = &SLOTS;
        let refusal = chain.rotate_into(&cache.slots(slots), &mut tensor, &rows);
        refused(refusal, error, words);
        refused(
            chain.apply_into(&cache.slots(slots), &mut tensor),
            error,
            words,
        );
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let refusal = chain.rotate_into(&from, &mut cache.slots(slots), &rows);
        refused(refusal, error, words);
        refused(
            chain.apply_into(&from, &mut cache.slots(slots)),
            error,
            words,
        );
        untouched::<bf16>(LEN, |values| {
            let mut values = CacheMut::new(values, layout()).expect("a cache that fits");
            let refusal = both(
                &chain,
                (&from, &mut cache),
                (&from, &mut values),
                slots,
                &rows,
            );
            refused(refusal, error, words);
        });
    });
}

#[test]
fn parameters_of_norms() {
    for eps in [-1e-6, f32::INFINITY] {
        let error = Error::Parameter {
            name: "eps",
            value: eps.into(),
            required: "finite and not negative",
        };
        let norm = Norm::new(NormFormula::LLAMA, eps);
        each_verb(
            ROPE().norm(norm),
            error,
            &["eps", "finite and not negative"],
        );
    }
    // NaNs compare unequal.
    untouched::<f32>(LEN, |data| {
        let mut tensor = TensorMut::new(data, SHAPE).expect("valid");
        let norm = Norm::new(NormFormula::LLAMA, f32::NAN);
        let error = ROPE().norm(norm).rotate(&mut tensor, &rows());
        let error = error.expect_err("a refusal");
        assert!(matches!(error, Error::Parameter { name: "eps", value, .. } if value.is_nan()));
        assert!(error.to_string().contains("NaN"));
    });
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let one = [1.0_f32; 17];
    for len in [0, 7, 9, 15, 17] {
        for (reach, needed) in [(NormReach::Head, 8), (NormReach::Token, 16)] {
            let words = [&*len.to_string(), &*needed.to_string()];
            for name in ["weight", "bias"] {
                let norm = norm.with_reach(reach);
                let norm = match name {
                    "weight" => norm.weight(&one[..len]),
                    _ => norm.without_weight().bias(&one[..len]),
                };
                let error = Error::Count {
                    name,
                    given: len,
                    needed,
                };
                each_verb(ROPE().norm(norm), error, &[name, words[0], words[1]]);
                each_verb(
                    ROPE().norm(norm.with_order(StageOrder::AfterRotation)),
                    error,
                    &words,
                );
            }
        }
    }
}

/// A missing weight would still produce text, and so would a weight that the formula lacks.
#[test]
fn weights_of_norms() {
    let one = [1.0_f32; 16];
    let missing = Error::Plan(PlanError::WeightMissing { needed: 8 });
    let words = ["8", "per head", "weight", "without_weight"];
    let unused = |given| Error::Plan(PlanError::WeightUnused { given });
    for formula in [
        NormFormula::LLAMA,
        NormFormula::OLMO2,
        NormFormula::GEMMA,
        NormFormula::OLMO2,
        NormFormula::LAYER_NORM,
        NormFormula::LAYER_NORM,
        NormFormula::CHAMELEON,
        NormFormula::LAYER_NORM,
        NormFormula::ONCE,
    ] {
        let norm = Norm::new(formula, 1e-6);
        for norm in [
            norm,
            norm.bias(&one),
            norm.with_reach(NormReach::Token),
            norm.with_order(StageOrder::AfterRotation),
        ] {
            each_verb(ROPE().norm(norm), missing, &words);
        }
        // Explicitly, it is a norm without weights.
        let mut data = [bf16::ONE; LEN];
        let mut tensor = TensorMut::new(&mut data, SHAPE).expect("valid");
        let without = norm.without_weight();
        assert!(!without.formula().weighted);
        let chain = ROPE().norm(without);
        assert_eq!(chain.apply(&mut tensor), Ok(()));
        // Also after weights were given.
        let chain = ROPE().norm(norm.weight(&one).without_weight());
        assert_eq!(chain.apply(&mut tensor), Ok(()));
        let chain = ROPE().norm(norm.without_weight().weight(&one[..8]));
        each_verb(chain, unused(8), &["8"]);
    }
    for given in [0, 8, 16] {
        let norm = Norm::new(NormFormula::LLAMA4, 1e-6).weight(&one[..given]);
        let words = [&*given.to_string(), "weighted"];
        each_verb(ROPE().norm(norm), unused(given), &words);
    }
    // The sums that ranks exchange need no weights.
    let x = [1.0_f32; LEN];
    let x = Tensor::new(&x, SHAPE).expect("valid");
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    assert_eq!(ROPE().sum_of_squares(norm, &x, &mut [0.0; 12]), Ok(()));
}

#[test]
fn given_sums() {
    let sums = [1.0_f32; 13];
    let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
    for (reach, needed) in [(NormReach::Token, 6), (NormReach::Head, 12)] {
        for given in [0, needed - 1, needed + 1] {
            let error = Error::Count {
                name: "sums",
                given,
                needed,
            };
            let norm = norm
                .with_reach(reach)
                .with_sum_of_squares(&sums[..given], 16);
            let words = ["sums", &given.to_string(), &needed.to_string()];
            each_verb(ROPE().norm(norm), error, &words);
        }
        let error = Error::Parameter {
            name: "width",
            value: 0.0,
            required: "at least 1",
        };
        let norm = norm
            .with_reach(reach)
            .with_sum_of_squares(&sums[..needed], 0);
        each_verb(ROPE().norm(norm), error, &["width", "0", "1"]);
    }
    let centered = Norm::new(NormFormula::LAYER_NORM, 1e-6).without_weight();
    each_verb(
        ROPE().norm(centered.with_sum_of_squares(&sums[..12], 8)),
        Error::Plan(PlanError::CenteredSums),
        &["centered", "sums"],
    );
    // The requested sums.
    untouched::<f32>(13, |sums| {
        let x = [1.0_f32; LEN];
        let x = Tensor::new(&x, SHAPE).expect("valid");
        let squares = |norm, sums: &mut [f32]| ROPE().sum_of_squares(norm, &x, sums);
        refused(
            squares(centered, &mut sums[..12]),
            Error::Plan(PlanError::CenteredSums),
            &["centered"],
        );
        for (reach, needed) in [(NormReach::Token, 6), (NormReach::Head, 12)] {
            for given in [0, needed - 1, needed + 1] {
                let what = "sums";
                let error = Error::Storage {
                    what,
                    given,
                    needed,
                };
                let words = [&*given.to_string(), &*needed.to_string()];
                refused(
                    squares(norm.with_reach(reach), &mut sums[..given]),
                    error,
                    &words,
                );
            }
        }
        // A row of heads that share elements has no limit: these would be 2^65 terms.
        for (heads, stride) in [(usize::MAX / 2, 0), (2, 3)] {
            let strides = Strides {
                batch: 4,
                token: 4,
                head: stride,
            };
            let layout = Layout::strided([1, 1, heads, 4], strides).expect("it can be read");
            let error = Error::Shape(ShapeError::Overlap {
                dimension: Dimension::Heads,
                stride,
                needed: 4,
            });
            let x = [1.0_f32; LEN];
            let x = Tensor::new(&x, layout).expect("valid");
            refused(
                ROPE().sum_of_squares(norm.with_reach(NormReach::Token), &x, &mut sums[..1]),
                error,
                &["heads", &stride.to_string(), "4"],
            );
        }
        // Tokens that share elements are counted as well: these exceed usize.
        let many = 1 << (usize::BITS / 2);
        let nowhere = Strides {
            batch: 0,
            token: 0,
            head: 0,
        };
        let layout = Layout::strided([many, many, 1, 4], nowhere).expect("it can be read");
        let (x, given, needed) = ([1.0_f32; LEN], 0, usize::MAX);
        let x = Tensor::new(&x, layout).expect("valid");
        refused(
            ROPE().sum_of_squares(norm, &x, &mut sums[..given]),
            Error::Storage {
                what: "sums",
                given,
                needed,
            },
            &["0", &needed.to_string()],
        );
    });
}

#[test]
fn factors_of_scales() {
    let factors = [1.0_f32; 13];
    for given in [0, 5, 7] {
        let error = Error::Count {
            name: "factors",
            given,
            needed: 6,
        };
        let scale = Scale::per_token(&factors[..given]);
        each_verb(
            ROPE().scale(scale),
            error,
            &["factors", &given.to_string(), "6"],
        );
    }
    for given in [0, 11, 13] {
        let error = Error::Count {
            name: "factors",
            given,
            needed: 12,
        };
        let scale =
            Scale::per_token_and_head(&factors[..given]).with_order(StageOrder::AfterRotation);
        each_verb(
            ROPE().scale(scale),
            error,
            &["factors", &given.to_string(), "12"],
        );
    }
}

/// A block that no head has, and a block that does not divide the head.
#[test]
fn blocks_of_transforms() {
    for block in [0, 1, 3, 96, 2049, 4096, usize::MAX, 1 << (usize::BITS - 1)] {
        let refusal = Hadamard::new(block);
        let error = Error::Plan(PlanError::HadamardBlock { block });
        assert_eq!(refusal, Err(error));
        assert!(
            error.to_string().contains(&block.to_string()) && error.to_string().contains("2048")
        );
        assert_eq!(Hadamard::indexer(block), Err(error));
    }
    let sixteen = Hadamard::new(16).expect("a power of two");
    let error = Error::Plan(PlanError::HadamardHead {
        block: 16,
        head_dim: 8,
    });
    let words = ["16", "8"];
    each_verb(ROPE().hadamard(sixteen), error, &words);
    let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
    each_verb(ROPE().norm(norm).hadamard(sixteen), error, &words);
    let rope = ROPE().hadamard(sixteen);
    untouched::<f32>(LEN, |data| {
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let rows = Rows::new(&NUMBERS[..48], [6, 8]).expect("six rows");
        refused(rope.rotate(&mut cache.slots(&SLOTS), &rows), error, &words);
    });
    untouched::<f32>(LEN, |data| {
        let y = [1.0_f32; LEN];
        let y = Tensor::new(&y, SHAPE).expect("valid");
        let mut sums = [0.5; 12];
        let angles = &mut PairGradients::new(&mut sums, [3, 1, 4]).expect("sums of that shape");
        let mut dy = TensorMut::new(data, SHAPE).expect("valid");
        refused(rope.backward(&y, &mut dy, &rows(), angles), error, &words);
        let refusal = rope.backward_into(&y, &y, &mut dy, &rows(), angles);
        refused(refusal, error, &words);
        assert_eq!(sums, [0.5; 12]);
    });
    // Q and K in one call.
    untouched::<f32>(LEN, |data| {
        let mut other = [1.0_f32; LEN];
        let mut q = TensorMut::new(data, SHAPE).expect("valid");
        let mut k = TensorMut::new(&mut other, SHAPE).expect("valid");
        let rope = ROPE().hadamard(sixteen);
        refused(rope.rotate_qk(&mut q, &mut k, &rows()), error, &words);
    });
}

#[test]
fn head_dim_on_stack() {
    let error = Error::Shape(ShapeError::HeadDimOnStack {
        head_dim: 2049,
        limit: 2048,
    });
    let words = ["2049", "2048"];
    let chain = ROPE().norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    let shape = [1, 1, 1, 2049];
    let layout = CacheLayout::nhd([1, 1, 1, 2049]).expect("a small cache");
    let rows = Rows::new(&NUMBERS[..8], [1, 8]).expect("a row");
    untouched::<f32>(2049, |data| {
        let other = vec![1.0_f32; 2049];
        let from = Tensor::new(&other, shape).expect("valid");
        let mut tensor = TensorMut::new(data, shape).expect("valid");
        refused(chain.rotate(&mut tensor, &rows), error, &words);
        refused(chain.apply(&mut tensor), error, &words);
        refused(chain.rotate_into(&from, &mut tensor, &rows), error, &words);
        let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
        let squares = ROPE().sum_of_squares(norm, &from, &mut [0.0]);
        refused(squares, error, &words);
        let cache = Cache::new(&other, layout).expect("a cache that fits");
        refused(
            chain.apply_into(&cache.slots(0..1), &mut tensor),
            error,
            &words,
        );
        let mut cache = CacheMut::new(data, layout).expect("a cache that fits");
        refused(
            chain.apply_into(&from, &mut cache.slots(0..1)),
            error,
            &words,
        );
        refused(ROPE().rotate(&mut cache.slots(0..1), &rows), error, &words);
    });
    // The longest possible block.
    let mut data = vec![1.0_f32; 2048];
    let mut tensor = TensorMut::new(&mut data, [1, 1, 1, 2048]).expect("valid");
    assert!(chain.rotate(&mut tensor, &rows).is_ok());
}

/// A chain refuses everything that a rotation refuses.
#[test]
fn rows_and_shapes() {
    let chain = ROPE().norm(Norm::new(NormFormula::LLAMA4, 1e-6));
    untouched::<f32>(LEN, |data| {
        let x = [1.0_f32; LEN];
        let x = Tensor::new(&x, SHAPE).expect("valid");
        let error = Error::Rows(RowsError::RotaryDimExceedsHead {
            rotary_dim: 10,
            head_dim: 8,
        });
        let wide = Rows::new(&NUMBERS[..30], [3, 10]).expect("whole rows");
        let count = Error::Rows(RowsError::Count {
            rows: 4,
            tokens: 3,
            batch: 2,
        });
        let four = Rows::new(&NUMBERS[..32], [4, 8]).expect("whole rows");
        for (rows, error, words) in [(wide, error, ["10", "8"]), (four, count, ["4", "3"])] {
            let mut tensor = TensorMut::new(data, SHAPE).expect("valid");
            refused(chain.rotate(&mut tensor, &rows), error, &words);
            refused(chain.rotate_into(&x, &mut tensor, &rows), error, &words);
            let y = [1.0_f32; LEN];
            let cache = Cache::new(&y, layout()).expect("a cache that fits");
            let refusal = chain.rotate_into(&cache.slots(&SLOTS), &mut tensor, &rows);
            refused(refusal, error, &words);
            let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
            let refusal = chain.rotate_into(&x, &mut cache.slots(&SLOTS), &rows);
            refused(refusal, error, &words);
            untouched::<f32>(LEN, |values| {
                let mut values = CacheMut::new(values, layout()).expect("a cache that fits");
                let refusal = both(&chain, (&x, &mut cache), (&x, &mut values), &SLOTS, &rows);
                refused(refusal, error, &words);
            });
        }
        // A shift has a row for each slot, and as many channels.
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let wide = Rows::new(&NUMBERS[..60], [6, 10]).expect("whole rows");
        refused(
            ROPE().rotate(&mut cache.slots(&SLOTS), &wide),
            error,
            &["10", "8"],
        );
        let changes = ROPE().output_pairing(Pairing::Interleaved);
        let error = Error::Plan(PlanError::PairingChangesInPlace {
            input: Pairing::Half,
            output: Pairing::Interleaved,
        });
        let rows = Rows::new(&NUMBERS[..48], [6, 8]).expect("whole rows");
        let words = ["half", "interleaved"];
        refused(
            changes.rotate(&mut cache.slots(&SLOTS), &rows),
            error,
            &words,
        );
        let mut tensor = TensorMut::new(data, SHAPE).expect("valid");
        let chain = changes.norm(Norm::new(NormFormula::LLAMA4, 1e-6));
        refused(chain.rotate(&mut tensor, &rows), error, &words);
        let error = Error::Shape(ShapeError::Mismatch {
            dimension: Dimension::Heads,
            source: 2,
            target: 1,
        });
        let mut tensor = TensorMut::new(&mut data[..48], [2, 3, 1, 8]).expect("valid");
        refused(
            chain.rotate_into(&x, &mut tensor, &rows),
            error,
            &["heads is 2"],
        );
    });
}

#[test]
fn keys_and_values() {
    let x = [1.0_f32; LEN];
    let k = Tensor::new(&x, SHAPE).expect("valid");
    let rows = rows();
    untouched::<f32>(LEN, |keys| {
        untouched::<f32>(LEN, |values| {
            let mut keys = CacheMut::new(keys, layout()).expect("a cache that fits");
            let mut values = CacheMut::new(values, layout()).expect("a cache that fits");
            let chain = Rope::<WithStages<'_>>::from(ROPE());
            // Values that do not fit are found before the keys are written.
            for shape in [[1, 5, 1, 8], [2, 3, 1, 8]] {
                let v = Tensor::new(&x[..shape.iter().product()], shape).expect("valid");
                let error = Error::Cache(CacheError::Heads {
                    heads: 1,
                    head_dim: 8,
                    cache_heads: 2,
                    cache_head_dim: 8,
                });
                let refusal = both(&chain, (&k, &mut keys), (&v, &mut values), &SLOTS, &rows);
                refused(refusal, error, &["1", "2"]);
            }
            let v = Tensor::new(&x[..80], [1, 5, 2, 8]).expect("valid");
            let error = Error::Slots(SlotsError::Count {
                slots: 6,
                tokens: 5,
                batch: 1,
            });
            let refusal = both(&chain, (&k, &mut keys), (&v, &mut values), &SLOTS, &rows);
            refused(refusal, error, &["6", "5"]);
        });
        // Slots that only the values' cache lacks are found before, too.
        untouched::<f32>(16, |values| {
            let small = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
            let mut keys = CacheMut::new(keys, layout()).expect("a cache that fits");
            let mut values = CacheMut::new(values, small).expect("a cache that fits");
            let error = Error::Slots(SlotsError::Slot {
                index: 1,
                slot: 1,
                slots: 1,
            });
            let refusal = both(&ROPE(), (&k, &mut keys), (&k, &mut values), &SLOTS, &rows);
            refused(refusal, error, &["1", "the cache's 0..1"]);
        });
    });
}

/// Writes keys through a plan and unchanged values into the same slots of two caches: both, or neither.
fn both<'s, S: Stages, E: Element>(
    plan: &Rope<S>,
    (k, keys): (&Tensor<'_, E>, &mut CacheMut<'_>),
    (v, values): (&Tensor<'_, E>, &mut CacheMut<'_>),
    slots: impl IntoSlots<'s> + Copy,
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let unchanged = ROPE();
    let (mut keys, mut values) = (keys.slots(slots), values.slots(slots));
    let write_keys = plan.prepare_into(k, &mut keys, rows)?;
    let write_values = unchanged.prepare_into(v, &mut values, &NoRotation)?;
    write_keys.run();
    write_values.run();
    Ok(())
}

/// Calls each verb of caches with slots that the cache `[2, 3, 2, 8]` does not have.
fn each_cache_verb(slots: Slots<'_>, error: Error, words: &[&str]) {
    let rows = rows();
    let chain = Rope::<WithStages<'_>>::from(ROPE());
    let each = Rows::new(&NUMBERS[..48], [6, 8]).expect("six rows");
    untouched::<f32>(LEN, |data| {
        let x = [1.0_f32; LEN];
        let from = Tensor::new(&x, SHAPE).expect("valid");
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let refusal = chain.rotate_into(&from, &mut cache.slots(slots), &rows);
        refused(refusal, error, words);
        refused(
            ROPE().rotate_into(&from, &mut cache.slots(slots), &rows),
            error,
            words,
        );
        refused(
            chain.apply_into(&from, &mut cache.slots(slots)),
            error,
            words,
        );
        untouched::<f32>(LEN, |values| {
            let mut values = CacheMut::new(values, layout()).expect("a cache that fits");
            let refusal = both(
                &chain,
                (&from, &mut cache),
                (&from, &mut values),
                slots,
                &rows,
            );
            refused(refusal, error, words);
        });
        // A shift has one sequence.
        let one_sequence = matches!(
            error,
            Error::Slots(SlotsError::Slot { .. }) | Error::Slots(SlotsError::Offset { .. })
        );
        if one_sequence {
            refused(ROPE().rotate(&mut cache.slots(slots), &each), error, words);
        }
        let mut tensor = TensorMut::new(data, SHAPE).expect("valid");
        let cache = Cache::new(&x, layout()).expect("a cache that fits");
        refused(
            chain.apply_into(&cache.slots(slots), &mut tensor),
            error,
            words,
        );
        let refusal = chain.rotate_into(&cache.slots(slots), &mut tensor, &rows);
        refused(refusal, error, words);
    });
}

#[test]
fn slots() {
    let count = |slots| {
        Error::Slots(SlotsError::Count {
            slots,
            tokens: 3,
            batch: 2,
        })
    };
    for len in [0, 5] {
        let words = [&*len.to_string(), "3", "2"];
        each_cache_verb((&SLOTS[..len]).into(), count(len), &words);
        each_cache_verb((0..len).into(), count(len), &words);
        each_cache_verb(Slots::offsets(&SLOTS[..len]), count(len), &words);
        each_cache_verb(Slots::sequences(&SLOTS[..len]), count(len), &words);
    }
    let slot = |index, slot| {
        Error::Slots(SlotsError::Slot {
            index,
            slot,
            slots: 6,
        })
    };
    // The last slot.
    let mut slots = [0, -1, 2, 3, -7, 6];
    each_cache_verb((&slots).into(), slot(5, 6), &["6", "5", "the cache's 0..6"]);
    slots[1] = i64::MAX;
    let largest = i64::MAX.to_string();
    each_cache_verb(
        (&slots).into(),
        slot(1, i64::MAX),
        &[&largest, "1", "the cache's 0..6"],
    );
    each_cache_verb((1..7).into(), slot(5, 6), &["6", "5"]);
    // Beyond `i64`; the value is not negative.
    if let (Ok(first), Ok(end)) = (
        usize::try_from(i64::MAX),
        usize::try_from(i64::MAX as u64 + 6),
    ) {
        each_cache_verb((first..end).into(), slot(0, i64::MAX), &[&largest, "0"]);
        each_cache_verb(
            (first + 1..end + 1).into(),
            slot(0, i64::MAX),
            &[&largest, "0"],
        );
    }
    // A negative slot of any size is skipped.
    let mut data = [1.0_f32; LEN];
    let x = data;
    let from = Tensor::new(&x, SHAPE).expect("valid");
    let mut cache = CacheMut::new(&mut data, layout()).expect("a cache that fits");
    let skipped = ROPE().rotate_into(&from, &mut cache.slots(&[i64::MIN; 6]), &rows());
    assert!(skipped.is_ok());
    assert!(data == x);
}

#[test]
fn slot_offsets() {
    let offset = |index, offset| {
        Error::Slots(SlotsError::Offset {
            index,
            offset,
            extent: 16,
            len: LEN,
        })
    };
    for wrong in [81, 96, 97, i64::MAX] {
        let offsets = [0, 80, -1, wrong, 16, 32];
        let words = [&*wrong.to_string(), "3", "16", "96"];
        each_cache_verb(Slots::offsets(&offsets), offset(3, wrong), &words);
    }
}

/// An offset leaves room for the scale after the codes, and separate scales are found by slot.
#[test]
fn offsets_and_scales() {
    let long = CacheLayout::nhd([1, 1, 2, 12])
        .and_then(|layout| layout.channels(0..8))
        .expect("a small cache");
    let made = |at| QuantScale::Computed { least: 1e-6, at };
    let x = [1.0_f32; 16];
    let x = Tensor::new(&x, [1, 1, 2, 8]).expect("valid");
    let rows = Rows::new(&NUMBERS[..8], [1, 8]).expect("a row");
    let mut bytes = vec![0x5a_u8; 40];
    for offset in [17_i64, 20, 21, 24, 40] {
        let inline = made(ScalePlace::Inline(8));
        let mut cache = CacheMut::quantized(&mut bytes, long, QuantFormat::E4m3, inline, &mut [])
            .expect("fits");
        let error = Error::Slots(SlotsError::Offset {
            index: 0,
            offset,
            extent: 24,
            len: 40,
        });
        let slots = [offset];
        let words = [&*offset.to_string(), "24", "40"];
        let slots = Slots::offsets(&slots);
        refused(
            ROPE().rotate_into(&x, &mut cache.slots(slots), &rows),
            error,
            &words,
        );
        refused(ROPE().rotate(&mut cache.slots(slots), &rows), error, &words);
        assert_eq!(bytes, [0x5a; 40]);
    }
    let inline = made(ScalePlace::Inline(8));
    let mut cache =
        CacheMut::quantized(&mut bytes, long, QuantFormat::E4m3, inline, &mut []).expect("fits");
    let last = ROPE().rotate_into(&x, &mut cache.slots(Slots::offsets(&[16])), &rows);
    assert!(last.is_ok());

    let (mut bytes, mut scales) = (vec![0x5a_u8; 40], [7.0_f32; 2]);
    let apart = made(ScalePlace::Separate(ScaleLayout::nh(1, 2)));
    let error = Error::Cache(CacheError::Layout {
        required: "addressed by slots, because its scales lie apart",
    });
    let nhd = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
    let mut cache =
        CacheMut::quantized(&mut bytes, nhd, QuantFormat::E4m3, apart, &mut scales).expect("fits");
    let slots = Slots::offsets(&[0]);
    refused(
        ROPE().rotate_into(&x, &mut cache.slots(slots), &rows),
        error,
        &["slots"],
    );
    refused(
        ROPE().rotate(&mut cache.slots(slots), &rows),
        error,
        &["slots"],
    );
    assert!(bytes == [0x5a; 40] && scales == [7.0; 2]);
}

#[test]
fn page_positions() {
    let page = |index, position, sequence| {
        Error::Slots(SlotsError::PagePosition {
            index,
            position,
            sequence,
        })
    };
    // Two sequences, of one page and of two; three slots per page.
    let (pages, starts) = ([1_i32, 0, 1], [0_i32, 1, 3]);
    let sequences = [0_i32, 0, 0, 1, 1, 1];
    let each = |sequences: &[i32], positions: &[i64], error, words: &[&str]| {
        let slots = Slots::pages(&pages, &starts, sequences, positions);
        each_cache_verb(slots, error, words);
    };
    each(
        &sequences,
        &[0, 1, 3, 0, 1, 2],
        page(2, 3, 0),
        &["3", "2", "0"],
    );
    each(
        &sequences,
        &[0, 1, 2, 0, 1, 6],
        page(5, 6, 1),
        &["6", "5", "1"],
    );
    let far = i64::MAX;
    each(
        &sequences,
        &[0, 1, far, 0, 1, 5],
        page(2, far, 0),
        &[&far.to_string(), "2"],
    );
    // Missing sequences.
    for sequence in [2, -1, i32::MAX] {
        let sequences = [0, 0, 0, 1, 1, sequence];
        let error = page(5, 1, sequence.into());
        each(
            &sequences,
            &[0, 1, 2, 0, 1, 1],
            error,
            &["1", "5", &sequence.to_string()],
        );
    }
    // Pages without a beginning, and missing pages.
    for (starts, pages) in [
        ([-1_i64, 3], [0_i64, 0]),
        ([0, 9], [0, 0]),
        ([i64::MAX, i64::MAX], [0, 0]),
    ] {
        let positions = [0_i64, 0, 0, 0, 0, 8];
        let slots = Slots::pages(&pages, &starts, &[0_i32; 6], &positions);
        let index = if starts[0] == 0 { 5 } else { 0 };
        let error = page(index, positions[index], 0);
        each_cache_verb(slots, error, &[&index.to_string()]);
    }
    // A page that the cache does not have is called a page.
    for (number, position) in [(2, 0), (2, 1), (i64::MAX, 0), (i64::MAX, 1)] {
        let pages = [number];
        let positions = [position; 6];
        let slots = Slots::pages(&pages, &[0_i64, 1], &[0_i32; 6], &positions);
        let error = Error::Slots(SlotsError::Page {
            index: 0,
            position,
            page: number,
            pages: 2,
        });
        let words = [&*format!("page {number}"), "the cache's 0..2"];
        each_cache_verb(slots, error, &words);
    }
    let slots = Slots::pages(&pages, &starts, &sequences[..5], &SLOTS);
    let error = Error::Count {
        name: "sequences",
        given: 5,
        needed: 6,
    };
    each_cache_verb(slots, error, &["sequences", "5", "6"]);

    // A line of two blocks for each sequence.
    let table = [0_i64, 1, 1, 0];
    let slots = Slots::table(&table[..3], [2, 2], &SLOTS);
    let error = Error::Count {
        name: "table",
        given: 3,
        needed: 4,
    };
    each_cache_verb(slots, error, &["table", "3", "4"]);
    let slots = Slots::table(&table, [2, usize::MAX], &SLOTS);
    let error = Error::Count {
        name: "table",
        given: 4,
        needed: usize::MAX,
    };
    each_cache_verb(slots, error, &["table", "4"]);
    // Its block, in 32 bits, is the first.
    let wraps = 3 << 32;
    for position in [6, wraps, i64::MAX] {
        let positions = [0, 1, 5, -1, position, 0];
        let slots = Slots::table(&table, [2, 2], &positions);
        let words = [&*position.to_string(), "4", "1"];
        each_cache_verb(slots, page(4, position, 1), &words);
    }
    untouched::<f32>(LEN, |data| {
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let x = [1.0_f32; LEN];
        let x = Tensor::new(&x, SHAPE).expect("valid");
        let slots = Slots::table(&[0_i64, 2, 0, 0], [2, 2], &[3_i64, 0, 0, 0, 0, 0]);
        let error = Error::Slots(SlotsError::Page {
            index: 0,
            position: 3,
            page: 2,
            pages: 2,
        });
        let refusal = ROPE().rotate_into(&x, &mut cache.slots(slots), &rows());
        refused(
            refusal,
            error,
            &["page 2", "token 0", "position 3", "the cache's 0..2"],
        );
    });
    // One block for each sequence.
    for position in [3, i64::MAX] {
        let positions = [0, 1, 2, -1, 0, position];
        let words = [&*position.to_string(), "5", "1"];
        each_cache_verb(Slots::sequences(&positions), page(5, position, 1), &words);
    }
    untouched::<f32>(48, |data| {
        let one = CacheLayout::nhd([1, 3, 2, 8]).expect("a small cache");
        let mut cache = CacheMut::new(data, one).expect("a cache that fits");
        let x = [1.0_f32; LEN];
        let x = Tensor::new(&x, SHAPE).expect("valid");
        let error = Error::Slots(SlotsError::Slot {
            index: 3,
            slot: 3,
            slots: 3,
        });
        let slots = Slots::sequences(&[0_i64; 6]);
        refused(
            ROPE().rotate_into(&x, &mut cache.slots(slots), &rows()),
            error,
            &["3"],
        );
    });
}

/// A negative page that a position needs is an error; its token would be lost silently. A negative position skips its
/// token in any page, and pages that no token needs may be negative.
#[test]
fn negative_pages() {
    let page = |index, position, sequence, page, block| {
        Error::Slots(SlotsError::NegativePage {
            index,
            position,
            sequence,
            page,
            block,
        })
    };
    // Two sequences of two pages of three slots; the last page is padding.
    let table = [0_i64, 1, -1, -9];
    for (positions, error) in [
        ([0_i64, 1, 5, 0, -1, -1], page(3, 0, 1, 0, -1)),
        ([0, 1, 5, -1, -1, 4], page(5, 4, 1, 1, -9)),
        ([0, 1, 5, 2, 4, -1], page(3, 2, 1, 0, -1)),
    ] {
        let Error::Slots(SlotsError::NegativePage {
            index,
            position,
            sequence,
            page,
            block,
        }) = error
        else {
            unreachable!()
        };
        let words = [index as i64, position, sequence, page, block].map(|word| word.to_string());
        let words = words.each_ref().map(String::as_str);
        each_cache_verb(Slots::table(&table, [2, 2], &positions), error, &words);
        let (starts, sequences) = ([0_i64, 2, 4], [0_i64, 0, 0, 1, 1, 1]);
        let slots = Slots::pages(&table, &starts, &sequences, &positions);
        each_cache_verb(slots, error, &words);
    }
    let x: [f32; LEN] = core::array::from_fn(|index| index as f32 + 1.0);
    let x = Tensor::new(&x, SHAPE).expect("valid");
    let written = |slots: Slots<'_>| {
        let mut memory = [0.0_f32; LEN];
        let mut cache = CacheMut::new(&mut memory, layout()).expect("a cache that fits");
        let copied = ROPE().apply_into(&x, &mut cache.slots(slots));
        copied.map(|()| memory)
    };
    let positions = [0_i64, 1, 5, -1, -4, i64::MIN];
    let expected = written(Slots::from(&[0_i64, 1, 5, -1, -1, -1]));
    assert!(expected.is_ok());
    assert_eq!(written(Slots::table(&table, [2, 2], &positions)), expected);
    // One token, and no page.
    let one = |slots: Slots<'_>| {
        let mut memory = [0.0_f32; 16];
        let one = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
        let mut cache = CacheMut::new(&mut memory, one).expect("a cache that fits");
        let x = Tensor::new(&NUMBERS[..16], [1, 1, 2, 8]).expect("valid");
        ROPE().apply_into(&x, &mut cache.slots(slots))
    };
    assert_eq!(
        one(Slots::table(&[-1], [1, 1], 0)),
        Err(page(0, 0, 0, 0, -1))
    );
    assert_eq!(
        one(Slots::pages(&[-1], &[0, 1], &[0], 0)),
        Err(page(0, 0, 0, 0, -1))
    );
    assert_eq!(one(Slots::table(&[-1], [1, 1], -1)), Ok(()));
    assert_eq!(one(Slots::from(-1)), Ok(()));
}

/// Positions of packed sequences give the sequence of each token: a table has a line for each sequence.
#[test]
fn tables_of_packed_sequences() {
    // Three sequences in one batch: four tokens from position 0, none, and two from position 4.
    let (offsets, starts) = ([0_i32, 4, 4, 6], [0_i32, 9, 4]);
    let packed = Positions::packed_from(&offsets, &starts).expect("offsets");
    let table = [1_i64, 3, /* */ -1, -1, /* */ -1, 0];
    let layout = CacheLayout::nhd([4, 3, 2, 8]).expect("a small cache");
    let x: [f32; LEN] = core::array::from_fn(|index| index as f32 + 1.0);
    let written = |shape: [usize; 4], slots: Slots<'_>| {
        let mut memory = [0.0_f32; 2 * LEN];
        let x = Tensor::new(&x, shape).expect("valid");
        let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
        let copied = ROPE().apply_into(&x, &mut cache.slots(slots));
        copied.map(|()| memory)
    };
    const PACKED: [usize; 4] = [1, 6, 2, 8];
    let expected = written(PACKED, Slots::from(&[3, 4, 5, 9, 1, 2]));
    assert!(expected.is_ok());
    let slots = Slots::table(&table, [3, 2], packed);
    assert_eq!(written(PACKED, slots), expected);
    // With one list of pages, which needs the sequence of each token.
    let sequences = [0, 0, 0, 0, 2, 2];
    let paged = Slots::pages(&table, &[0, 2, 4, 6], &sequences, packed);
    assert_eq!(written(PACKED, paged), expected);
    // A block for each sequence.
    let short = Positions::packed(&offsets[..3]).expect("offsets");
    let x4 = [1, 4, 2, 8];
    let written4 = |slots: Slots<'_>| {
        let mut memory = [0.0_f32; 3 * 64];
        let x = Tensor::new(&x[..64], x4).expect("valid");
        let cells = CacheLayout::nhd([3, 4, 2, 8]).expect("a small cache");
        let mut cache = CacheMut::new(&mut memory, cells).expect("a cache that fits");
        let copied = ROPE().apply_into(&x, &mut cache.slots(slots));
        copied.map(|()| memory)
    };
    assert_eq!(
        written4(Slots::sequences(short)),
        written4(Slots::from(0..4))
    );
    let two = Positions::packed_from(&[0, 1, 4], &[3, 1]).expect("offsets");
    assert_eq!(
        written4(Slots::sequences(two)),
        written4(Slots::from(&[3, 5, 6, 7]))
    );

    // The tokens of a rank, of packed sequences.
    let all = [0_u32, 8, 12];
    for kind in [
        ShardKind::Zigzag,
        ShardKind::UnevenZigzag,
        ShardKind::Striped,
        ShardKind::Contiguous,
    ] {
        for rank in 0..2 {
            let shard = Shard::new(kind, rank, 2).expect("a rank");
            let tokens = shard.packed(&all).expect("whole chunks");
            assert_eq!(tokens.len(), 6);
            let table = [1_i64, 3, 0, /* */ 2, 3, -1];
            let mut slots = Vec::new();
            for (index, token) in tokens.iter().enumerate() {
                let (line, position) = if token < 8 {
                    (0, token)
                } else {
                    (3, token - 8)
                };
                assert_eq!(tokens.position(index), Some(position as i64));
                slots.push(table[line + position / 3] * 3 + position as i64 % 3);
            }
            let by_table = written(PACKED, Slots::table(&table, [2, 3], tokens));
            assert_eq!(by_table, written(PACKED, Slots::from(&slots)), "{kind:?}");
        }
    }

    // Errors: a table of the tensor's batch, a batch that would share the packed sequences, a missing page.
    let count = |given, needed| Error::Count {
        name: "table",
        given,
        needed,
    };
    let slots = Slots::table(&table[..2], [1, 2], packed);
    assert_eq!(written(PACKED, slots), Err(count(2, 6)));
    let slots = Slots::table(&table, [2, 2], packed);
    assert_eq!(written(PACKED, slots), Err(count(6, 4)));
    let three = Positions::packed(&[0, 1, 3]).expect("offsets");
    let slots = Slots::table(&table, [3, 2], three);
    let error = Error::Slots(SlotsError::Count {
        slots: 3,
        tokens: 3,
        batch: 2,
    });
    assert_eq!(written(SHAPE, slots), Err(error));
    let late = Positions::packed_from(&offsets, &[0, 9, 2]).expect("offsets");
    let slots = Slots::table(&table, [3, 2], late);
    let error = Error::Slots(SlotsError::NegativePage {
        index: 4,
        position: 2,
        sequence: 2,
        page: 0,
        block: -1,
    });
    assert_eq!(written(PACKED, slots), Err(error));
    let beyond = Positions::packed_from(&offsets, &[0, 9, 5]).expect("offsets");
    let slots = Slots::table(&table, [3, 2], beyond);
    let error = Error::Slots(SlotsError::PagePosition {
        index: 5,
        position: 6,
        sequence: 2,
    });
    assert_eq!(written(PACKED, slots), Err(error));
}

/// Slots take the integers and ranges of positions: each type, with an exclusive or an inclusive end.
#[test]
fn integers_are_slots() {
    const CELLS: usize = 6 * 16;
    let x: [f32; 48] = core::array::from_fn(|index| index as f32 + 1.0);
    let cells = CacheLayout::nhd([2, 3, 2, 8]).expect("a small cache");
    fn written<'s>(
        x: &[f32],
        cells: CacheLayout,
        slots: impl IntoSlots<'s>,
    ) -> Result<[f32; CELLS], Error> {
        let mut memory = [0.0_f32; CELLS];
        let x = Tensor::new(x, [1, x.len() / 16, 2, 8])?;
        let mut cache = CacheMut::new(&mut memory, cells)?;
        ROPE().apply_into(&x, &mut cache.slots(slots))?;
        Ok(memory)
    }
    let three = written(&x, cells, &[2_i64, 3, 4]);
    let one = written(&x[..16], cells, &[5_i64]);
    assert!(three.is_ok() && one.is_ok());
    macro_rules! each {
        ($($int:ty),*) => {$(
            assert_eq!(written(&x, cells, 2 as $int..5), three);
            assert_eq!(written(&x, cells, 2 as $int..=4), three);
            assert_eq!(written(&x[..16], cells, 5 as $int), one);
            // One slot too many, or two tokens more than slots.
            let slot = |index, slot| Err(Error::Slots(SlotsError::Slot { index, slot, slots: 6 }));
            assert_eq!(written(&x, cells, 4 as $int..7), slot(2, 6));
            assert_eq!(written(&x, cells, 4 as $int..=6), slot(2, 6));
            assert_eq!(written(&x[..16], cells, 6 as $int), slot(0, 6));
            let most = <$int>::MAX;
            let far = i64::try_from(most).unwrap_or(i64::MAX);
            assert_eq!(written(&x[..16], cells, most), slot(0, far));
            assert_eq!(written(&x[..32], cells, most - 1..=most), slot(0, far - i64::from(far != i64::MAX || most as u64 == far as u64)));
            let count = |slots| Err(Error::Slots(SlotsError::Count { slots, tokens: 3, batch: 1 }));
            assert_eq!(written(&x, cells, 2 as $int..2), count(0));
            assert_eq!(written(&x, cells, 5 as $int), count(1));
        )*};
    }
    each!(i32, i64, u32, u64, usize);
    // Negative slots are skipped.
    let two = written(&x, cells, &[-1_i64, 0, 1]);
    assert!(two.is_ok());
    assert_eq!(written(&x, cells, -1..2), two);
    assert_eq!(written(&x, cells, -1_i64..=1), two);
    assert_eq!(written(&x, cells, i64::MIN..i64::MIN + 3), Ok([0.0; CELLS]));
    assert_eq!(written(&x[..16], cells, -7), Ok([0.0; CELLS]));
    let few = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
    let error = Error::Slots(SlotsError::Slot {
        index: 2,
        slot: 1,
        slots: 1,
    });
    assert_eq!(written(&x, few, -1..2), Err(error));
}

/// Given scales are one number or a list of any form.
#[test]
fn lists_are_scales() {
    let each = [0.5_f32, 0.25];
    let expected = HeadScales::Each(&each);
    assert_eq!(HeadScales::from(&each), expected);
    assert_eq!(HeadScales::from(&each[..]), expected);
    assert_eq!(HeadScales::from(&each.to_vec()), expected);
    assert_eq!(
        QuantScale::Divide((&each).into()),
        QuantScale::Divide(expected)
    );
    assert_eq!(HeadScales::from(0.5), HeadScales::Same(0.5));
}

#[test]
fn heads_of_caches() {
    for (shape, words) in [([2, 3, 1, 8], ["1", "2"]), ([2, 3, 2, 6], ["6", "8"])] {
        let [.., heads, head_dim] = shape;
        let error = Error::Cache(CacheError::Heads {
            heads,
            head_dim,
            cache_heads: 2,
            cache_head_dim: 8,
        });
        let rows = Rows::new(&NUMBERS[..12], [3, 4]).expect("three rows");
        untouched::<f32>(LEN, |data| {
            let other = [1.0_f32; LEN];
            let chain = Rope::<WithStages<'_>>::from(ROPE());
            let part = Layout::bshd(shape).expect("a small shape");
            let from = Tensor::new(&other, part).expect("valid");
            let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
            let refusal = chain.rotate_into(&from, &mut cache.slots(&SLOTS), &rows);
            refused(refusal, error, &words);
            refused(
                chain.apply_into(&from, &mut cache.slots(&SLOTS)),
                error,
                &words,
            );
            let cache = Cache::new(&other, layout()).expect("a cache that fits");
            let mut tensor = TensorMut::new(data, part).expect("valid");
            refused(
                chain.apply_into(&cache.slots(&SLOTS), &mut tensor),
                error,
                &words,
            );
        });
    }
    // Channels of Q8_0 are values, not bytes.
    let blocks = CacheLayout::nhd([1, 1, 1, 64]).expect("a small cache");
    let mut bytes = [0x5a_u8; 68];
    let mut cache = CacheMut::blocks(&mut bytes, blocks, BlockFormat::Q8_0).expect("whole blocks");
    let x = [1.0_f32; 68];
    let x = Tensor::new(&x, [1, 1, 1, 68]).expect("valid");
    let error = Error::Cache(CacheError::Heads {
        heads: 1,
        head_dim: 68,
        cache_heads: 1,
        cache_head_dim: 64,
    });
    let refusal = ROPE().apply_into(&x, &mut cache.slots(0..1));
    refused(refusal, error, &["68", "64"]);
    assert_eq!(bytes, [0x5a; 68]);
}

const OVERLAP: Error = Error::Cache(CacheError::Layout {
    required: "of strides with which no two indices name one element",
});
const TOO_LARGE: Error = Error::Cache(CacheError::Layout {
    required: "of indices that fit usize",
});

#[test]
fn layouts_of_caches() {
    let shape = CacheShape {
        blocks: 2,
        block_size: 4,
        heads: 3,
        head_dim: 8,
    };
    let good = CacheStrides {
        block: 96,
        group: 2,
        group_stride: 48,
        token: 24,
        head: 8,
        chunk: 4,
        chunk_stride: 4,
        channel: 1,
    };
    assert!(CacheLayout::strided(shape, good).is_ok());
    let no_members = Error::Cache(CacheError::Layout {
        required: "of groups and chunks with at least one member",
    });
    for strides in [
        CacheStrides { group: 0, ..good },
        CacheStrides { chunk: 0, ..good },
    ] {
        refused(
            CacheLayout::strided(shape, strides),
            no_members,
            &["groups", "chunks"],
        );
    }
    for strides in [
        CacheStrides { block: 95, ..good },
        CacheStrides {
            group_stride: 47,
            ..good
        },
        CacheStrides { token: 23, ..good },
        CacheStrides { head: 7, ..good },
        CacheStrides {
            chunk_stride: 3,
            ..good
        },
        CacheStrides { channel: 0, ..good },
        CacheStrides { channel: 2, ..good },
        CacheStrides { head: 24, ..good },
    ] {
        refused(
            CacheLayout::strided(shape, strides),
            OVERLAP,
            &["no two indices name one element"],
        );
    }
    let words = ["indices that fit usize"];
    for strides in [
        CacheStrides {
            block: usize::MAX,
            ..good
        },
        CacheStrides {
            block: usize::MAX - 90,
            ..good
        },
    ] {
        refused(CacheLayout::strided(shape, strides), TOO_LARGE, &words);
    }
    let (big, half) = (usize::MAX, usize::MAX / 2 + 1);
    refused(CacheLayout::nhd([2, 2, half, 2]), TOO_LARGE, &words);
    refused(CacheLayout::nhd([2, half, 1, 1]), TOO_LARGE, &words);
    refused(CacheLayout::hnd([2, 2, half, 2]), TOO_LARGE, &words);
    refused(CacheLayout::hdn([1, 2, half, 2]), TOO_LARGE, &words);
    refused(CacheLayout::hdnx([1, 1, half, 1, 2]), TOO_LARGE, &words);
    refused(CacheLayout::hndx([1, 1, half, 1, 2]), TOO_LARGE, &words);
    assert!(CacheLayout::nhd([1, 1, 1, big]).is_ok());

    let nhd = CacheLayout::nhd([1, 1, 2, 8]).expect("a small cache");
    let outside = Error::Cache(CacheError::Layout {
        required: "narrowed to channels that a head has",
    });
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let backwards = 4..2;
    for range in [0..9, 9..9, backwards, 0..usize::MAX] {
        refused(nhd.channels(range), outside, &["channels that a head has"]);
    }
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    let apart = Error::Cache(CacheError::Layout {
        required: "one whose heads have their channels side by side, to be narrowed to some of them",
    });
    refused(hdn.channels(0..4), apart, &["side by side"]);
}

/// [`CacheLayout::bytes`] is the exact size of the memory that a cache of each format requires.
#[test]
fn bytes_of_layouts() {
    let shape = [2, 3, 2, 64];
    let nhd = CacheLayout::nhd(shape).expect("a small cache");
    let values = 2 * 3 * 2 * 64;
    assert_eq!(nhd.bytes(CacheFormat::element::<f32>()), Ok(4 * values));
    assert_eq!(
        nhd.bytes(CacheFormat::element::<half::bf16>()),
        Ok(2 * values)
    );
    let mut memory = vec![0_u8; 4 * values];
    let short = |bytes: usize| {
        Error::Cache(CacheError::Memory {
            needed: bytes,
            given: bytes - 1,
        })
    };
    for format in BlockFormat::ALL {
        let bytes = nhd.bytes(format).expect("whole blocks");
        assert_eq!(bytes, values / 32 * format.bytes);
        assert!(CacheMut::blocks(&mut memory[..bytes], nhd, format).is_ok());
        let refused = CacheMut::blocks(&mut memory[..bytes - 1], nhd, format).err();
        assert_eq!(refused, Some(short(bytes)));
    }
    // A scale after the codes of each head, of 68 bytes in all; none for separate scales.
    let heads = CacheLayout::nhd([2, 3, 2, 68]).and_then(|layout| layout.channels(0..64));
    let heads = heads.expect("a small cache");
    let made = |at| QuantScale::Computed { least: 1e-6, at };
    let (inline, apart) = (
        ScalePlace::Inline(64),
        ScalePlace::Separate(ScaleLayout::nh(3, 2)),
    );
    for code in QuantFormat::ALL {
        assert_eq!(nhd.bytes(code), Ok(values));
        for (layout, at, bytes) in [(heads, inline, 12 * 68), (nhd, apart, values)] {
            assert_eq!(layout.bytes((code, at)), Ok(bytes));
            let mut scales = [0.0; 12];
            for given in [bytes - 1, bytes] {
                let memory = &mut memory[..given];
                let made = CacheMut::quantized(memory, layout, code, made(at), &mut scales);
                let refusal = (given < bytes).then(|| short(bytes));
                assert_eq!(made.err(), refusal);
            }
        }
        assert!(matches!(
            nhd.bytes((code, inline)),
            Err(Error::Cache(CacheError::Layout { .. }))
        ));
    }
    // 65 channels make no blocks, and the bytes of so many elements exceed usize.
    let odd = CacheLayout::nhd([2, 3, 2, 65]).expect("a small cache");
    assert!(matches!(
        odd.bytes(BlockFormat::Q8_0),
        Err(Error::Cache(CacheError::Layout { .. }))
    ));
    let huge = CacheLayout::nhd([usize::MAX / 2, 1, 1, 1]).expect("indices that fit");
    assert!(matches!(
        huge.bytes(CacheFormat::element::<f32>()),
        Err(Error::Cache(CacheError::Layout { .. }))
    ));
}

#[test]
fn memory_of_caches() {
    untouched::<f32>(95, |data| {
        let error = Error::Cache(CacheError::Memory {
            needed: 384,
            given: 380,
        });
        refused(Cache::new(&*data, layout()), error, &["384 bytes", "380"]);
        refused(CacheMut::new(data, layout()), error, &["384 bytes", "380"]);
    });
    let mut bytes = [0x5a_u8; 96];
    let code = QuantFormat::E4m3;
    let divide = QuantScale::Divide(HeadScales::Same(1.0));
    let error = Error::Cache(CacheError::Memory {
        needed: 96,
        given: 95,
    });
    let short = Cache::quantized(&bytes[..95], layout(), code, divide, &[]);
    refused(short, error, &["96", "95"]);
    let short = CacheMut::quantized(&mut bytes[..95], layout(), code, divide, &mut []);
    refused(short, error, &["96", "95"]);
    // With scales after the codes of their heads.
    let long = CacheLayout::nhd([2, 3, 2, 12])
        .and_then(|layout| layout.channels(0..8))
        .expect("a small cache");
    let inline = |behind| QuantScale::Computed {
        least: 1e-6,
        at: ScalePlace::Inline(behind),
    };
    let mut bytes = [0x5a_u8; 144];
    let error = Error::Cache(CacheError::Memory {
        needed: 144,
        given: 143,
    });
    let short = CacheMut::quantized(&mut bytes[..143], long, code, inline(8), &mut []);
    refused(short, error, &["144", "143"]);
    assert!(CacheMut::quantized(&mut bytes, long, code, inline(8), &mut []).is_ok());
    // Over codes of its head, or of the next one; beyond all memory; with channels that are not adjacent.
    let required = "of heads with their channels side by side, and room for a scale after them";
    let error = Error::Cache(CacheError::Layout { required });
    for behind in [0, 7, 9, usize::MAX - 4, usize::MAX] {
        let cache = CacheMut::quantized(&mut bytes, long, code, inline(behind), &mut []);
        refused(cache, error, &["room for a scale"]);
    }
    let hdn = CacheLayout::hdn([1, 1, 8, 4]).expect("a small cache");
    let cache = CacheMut::quantized(&mut bytes, hdn, code, inline(8), &mut []);
    refused(cache, error, &["side by side"]);
    // An end that does not fit usize.
    let one = CacheLayout::nhd([1, 1, 1, 64])
        .and_then(|layout| layout.channels(60..64))
        .expect("a small cache");
    let cache = CacheMut::quantized(&mut bytes, one, code, inline(usize::MAX - 4), &mut []);
    refused(cache, error, &["room for a scale"]);
    assert_eq!(bytes, [0x5a; 144]);
}

#[test]
fn scales_of_caches() {
    let mut bytes = [0x5a_u8; LEN];
    let code = QuantFormat::Int8Even;
    let mut coded = |scale: QuantScale<'_>, scales: &mut [f32]| {
        CacheMut::quantized(&mut bytes, layout(), code, scale, scales).map(|_| ())
    };
    let required = "finite and above zero";
    for value in [0.0, -1.0, f32::INFINITY] {
        let error = Error::Parameter {
            name: "scale",
            value: value.into(),
            required,
        };
        let entry = Error::ListEntry {
            name: "scales",
            index: 1,
            value: value.into(),
            required,
        };
        let list = [1.0, value];
        for make in [
            QuantScale::Divide,
            QuantScale::Reciprocal,
            QuantScale::Multiply,
        ] {
            refused(
                coded(make(value.into()), &mut []),
                error,
                &["scale", required],
            );
            refused(
                coded(make(HeadScales::Each(&list)), &mut []),
                entry,
                &["scales[1] is"],
            );
        }
    }
    let nan = coded(QuantScale::Divide(f32::NAN.into()), &mut []).expect_err("a refusal");
    assert!(nan.to_string().contains("scale is NaN"), "{nan}");
    for given in [0, 1, 3] {
        let error = Error::Count {
            name: "scales",
            given,
            needed: 2,
        };
        let list = [1.0; 3];
        let scale = QuantScale::Multiply(HeadScales::Each(&list[..given]));
        refused(
            coded(scale, &mut []),
            error,
            &["scales", &given.to_string(), "2"],
        );
    }
    for least in [-1e-6, f32::INFINITY] {
        let error = Error::Parameter {
            name: "least",
            value: least.into(),
            required: "finite and not negative",
        };
        let at = ScalePlace::Inline(8);
        refused(
            coded(QuantScale::Computed { least, at }, &mut []),
            error,
            &["least"],
        );
    }
    // Twelve, of two blocks of three slots of two heads.
    let apart = |block, token, head| QuantScale::Computed {
        least: 1e-6,
        at: ScalePlace::Separate(ScaleLayout { block, token, head }),
    };
    let mut scales = [7.0_f32; 12];
    let error = Error::Storage {
        what: "scales",
        given: 11,
        needed: 12,
    };
    refused(
        coded(apart(6, 2, 1), &mut scales[..11]),
        error,
        &["11 scales", "12"],
    );
    assert!(coded(apart(6, 2, 1), &mut scales).is_ok());
    for layout in [
        apart(usize::MAX, 2, 1),
        apart(6, usize::MAX / 2, 1),
        apart(usize::MAX - 4, 2, 1),
    ] {
        let refusal = coded(layout, &mut scales).expect_err("a refusal");
        assert!(
            matches!(refusal, Error::Storage { given: 12, needed, .. } if needed > usize::MAX / 2)
        );
    }
    assert_eq!(scales, [7.0; 12]);
}

#[test]
fn blocks_of_ggml() {
    macro_rules! of {
        ($name:literal, $format:expr) => {
            blocks_of(
                concat!(
                    "of heads with their channels side by side, and strides that are multiples of 32, for ",
                    $name
                ),
                $name,
                $format,
            );
        };
    }
    of!("Q8_0", BlockFormat::Q8_0);
    of!("Q4_0", BlockFormat::Q4_0);
    of!("Q4_1", BlockFormat::Q4_1);
    of!("Q5_0", BlockFormat::Q5_0);
    of!("Q5_1", BlockFormat::Q5_1);
    of!("IQ4_NL", BlockFormat::IQ4_NL);
}

fn blocks_of(required: &'static str, name: &str, format: &'static BlockFormat) {
    let error = Error::Cache(CacheError::Layout { required });
    let needed = 4 * format.bytes;
    let mut bytes = vec![0x5a_u8; needed];
    let words = ["32", name];
    let whole = CacheLayout::nhd([1, 2, 1, 64]).expect("a small cache");
    for layout in [
        CacheLayout::nhd([1, 1, 1, 48]),
        CacheLayout::nhd([1, 1, 1, 31]),
        CacheLayout::hdn([1, 1, 32, 2]),
        whole.channels(16..48),
        whole.channels(0..63),
    ] {
        let layout = layout.expect("a small cache");
        refused(Cache::blocks(&bytes, layout, format), error, &words);
        refused(CacheMut::blocks(&mut bytes, layout, format), error, &words);
    }
    let error_of = |given| Error::Cache(CacheError::Memory { needed, given });
    refused(
        Cache::blocks(&bytes[..needed - 1], whole, format),
        error_of(needed - 1),
        &[&needed.to_string(), &(needed - 1).to_string()],
    );
    refused(
        CacheMut::blocks(&mut bytes[..needed - 1], whole, format),
        error_of(needed - 1),
        &[&needed.to_string(), &(needed - 1).to_string()],
    );
    assert!(
        whole
            .channels(32..64)
            .is_ok_and(|part| Cache::blocks(&bytes, part, format).is_ok())
    );
    // Values that fit usize, in bytes that do not; and an end that does not fit.
    let many = usize::MAX & !31;
    let huge = CacheLayout::nhd([1, 1, 1, many]).expect("one head");
    let far = huge.channels(usize::MAX / 2 + 1..many).expect("channels");
    for layout in [huge, far] {
        // Blocks of fewer bytes than values always fit.
        let blocks = layout.shape().head_dim / 32;
        match blocks.checked_mul(format.bytes) {
            None => refused(CacheMut::blocks(&mut bytes, layout, format), error, &words),
            Some(_) => assert!(CacheMut::blocks(&mut bytes, layout, format).is_err()),
        }
    }
    assert_eq!(bytes, vec![0x5a; needed]);
}

#[test]
fn empty_caches_are_fine() {
    let none: [i64; 0] = [];
    for shape in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] {
        let [blocks, block_size, heads, head_dim] = shape;
        let layout = CacheLayout::nhd(shape).expect("an empty cache");
        assert_eq!(layout.end(), 0, "{layout:?}");
        let mut data = [0.0_f32; 0];
        let mut cache = CacheMut::new(&mut data, layout).expect("an empty cache");
        let chain = Rope::<WithStages<'_>>::from(ROPE());
        let nothing = Tensor::new(&[0.0_f32; 0], [1, 0, heads, head_dim]).expect("nothing");
        chain
            .apply_into(&nothing, &mut cache.slots(&none))
            .expect("no slots");
        let x = [0.0_f32; 1];
        let x = Tensor::new(&x[..heads * head_dim], [1, 1, heads, head_dim]).expect("valid");
        let into = |cache: &mut CacheMut<'_>, slots: Slots<'_>| {
            chain.apply_into(&x, &mut cache.slots(slots))
        };
        let there = blocks * block_size > 0;
        assert_eq!(into(&mut cache, (0..1).into()).is_ok(), there, "{shape:?}");
        assert!(into(&mut cache, (&[-1_i64]).into()).is_ok());
        // Heads without elements fit at any offset; other heads do not.
        let offsets = [0];
        let fits = heads * head_dim == 0;
        assert_eq!(
            into(&mut cache, Slots::offsets(&offsets)).is_ok(),
            fits,
            "{shape:?}"
        );
        assert!(into(&mut cache, Slots::offsets(&[-1])).is_ok());
        for code in QuantFormat::ALL {
            let at = ScalePlace::Separate(ScaleLayout::nh(block_size, heads));
            let scale = QuantScale::Computed { least: 0.0, at };
            assert!(CacheMut::quantized(&mut [], layout, code, scale, &mut []).is_ok());
            let scale = QuantScale::Computed {
                least: 0.0,
                at: ScalePlace::Inline(head_dim),
            };
            assert!(CacheMut::quantized(&mut [], layout, code, scale, &mut []).is_ok());
        }
        if head_dim != 1 {
            for format in BlockFormat::ALL {
                assert!(CacheMut::blocks(&mut [], layout, format).is_ok());
            }
        }
    }
    // A shift without rows, and sums without tokens.
    let mut data = [1.0_f32; LEN];
    let mut cache = CacheMut::new(&mut data, layout()).expect("a cache that fits");
    let rows = Rows::new(&[], [0, 8]).expect("no rows");
    ROPE()
        .rotate(&mut cache.slots(&none), &rows)
        .expect("no slots");
    let nothing = Tensor::new(&[0.0_f32; 0], [2, 0, 2, 8]).expect("nothing");
    let norm = Norm::new(NormFormula::LLAMA4, 1e-6);
    ROPE()
        .sum_of_squares(norm, &nothing, &mut [])
        .expect("no sums");
}

/// The rows of a shift.
#[test]
fn shifts() {
    let frequencies =
        |axes: Axes<'_>| Frequencies::new(axes, 1e4, &Scaling::Default).expect("sane parameters");
    let (new, old) = (frequencies(Axes::from(8)), frequencies(Axes::from(6)));
    let error = Error::Rows(RowsError::RotaryDim {
        rotary_dim: 6,
        required: "the same in the old frequencies as in the new",
    });
    let storage = &mut [7.0_f32; 24];
    refused(new.shift_from(&old, 0..3, 0..3), error, &["6"]);
    refused(new.shift_from_in(&old, 0..3, 0..3, storage), error, &["6"]);
    let error = Error::Count {
        name: "from",
        given: 2,
        needed: 3,
    };
    refused(new.shift_from(&new, 0..2, 0..3), error, &["from", "2", "3"]);
    refused(
        new.shift_from_in(&new, 0..2, 0..3, storage),
        error,
        &["from", "2", "3"],
    );
    let real = [1.5_f32, 2.0, 3.0];
    let error = Error::Positions(PositionsError::NotAnInteger { value: 1.5 });
    refused(
        new.shift_from(&new, Positions::real(&real), 0..3),
        error,
        &["coordinate 1.5"],
    );
    refused(
        new.shift_from(&new, 0..3, Positions::real(&real)),
        error,
        &["coordinate 1.5"],
    );
    let refusal = new.shift_from_in(&new, 0..3, Positions::real(&real), storage);
    refused(refusal, error, &["coordinate 1.5"]);
    let error = Error::Storage {
        what: "values of storage",
        given: 23,
        needed: 24,
    };
    refused(
        new.shift_from_in(&new, 0..3, 0..3, &mut storage[..23]),
        error,
        &["23", "24"],
    );
    refused(new.shift_in(0..3, &mut storage[..23]), error, &["23", "24"]);
    assert_eq!(storage, &[7.0; 24]);
    let three = frequencies(Axes::mrope(8, [1, 1, 2]));
    let error = Error::Positions(PositionsError::PerAxis { given: 4, axes: 3 });
    let four = [0_i64; 4];
    refused(
        three.shift(Positions::axis_major(&four)),
        error,
        &["4", "3"],
    );
    let refusal = three.shift_from(
        &three,
        Positions::axis_major(&four),
        Positions::axis_major(&four),
    );
    refused(refusal, error, &["4", "3"]);
    let error = Error::Frequencies(FrequenciesError::RowsTooLong {
        tokens: usize::MAX / 8,
        rotary_dim: 8,
    });
    let many = || Positions::from(0..usize::MAX / 8);
    refused(new.shift(many()), error, &["8"]);
    refused(new.shift_from(&new, many(), many()), error, &["8"]);
    // One slot for each row.
    let rows = new.shift(0..3).expect("deltas");
    untouched::<f32>(LEN, |data| {
        let mut cache = CacheMut::new(data, layout()).expect("a cache that fits");
        let error = Error::Slots(SlotsError::Count {
            slots: 2,
            tokens: 3,
            batch: 1,
        });
        refused(
            ROPE().rotate(&mut cache.slots(0..2), &rows),
            error,
            &["2", "3"],
        );
    });
}

/// Slots by positions take a range, as rows do, and positions without a list; they refuse coordinates.
#[test]
fn positions_of_slots() {
    const CELLS: usize = 2 * 5 * 2 * 8;
    let layout = CacheLayout::hnd([2, 2, 5, 8]).expect("a small cache");
    let x: [f32; LEN] = core::array::from_fn(|index| index as f32);
    let x = Tensor::new(&x, SHAPE).expect("valid");
    let written = |slots: Slots<'_>| {
        let mut memory = [0.0_f32; CELLS];
        let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
        let copied = Rope::<WithStages<'_>>::from(ROPE()).apply_into(&x, &mut cache.slots(slots));
        copied.map(|()| memory)
    };
    let each = [1_i64, 2, 3, 1, 2, 3];
    let expected = written(Slots::sequences(&each));
    assert!(expected.is_ok());
    assert_eq!(written(Slots::sequences(1..4)), expected);
    assert_eq!(written(Slots::sequences(&each[..3])), expected);
    // Blocks 0 and 1, one for each sequence.
    let table = [0_u32, 1];
    assert_eq!(written(Slots::table(&table, [2, 1], 1..4)), expected);
    assert_eq!(written(Slots::table(&table, [2, 1], &each)), expected);
    let (pages, starts, sequences) = ([0_u32, 1], [0_u32, 1, 2], [0_u32, 0, 0, 1, 1, 1]);
    let packed = Positions::packed(&[0_u32, 3, 6]).expect("two sequences");
    let from_zero = written(Slots::sequences(0..3));
    assert_eq!(
        written(Slots::pages(&pages, &starts, &sequences, packed)),
        from_zero
    );

    let beyond = Error::Slots(SlotsError::PagePosition {
        index: 2,
        position: 5,
        sequence: 0,
    });
    assert_eq!(written(Slots::sequences(3..6)), Err(beyond));
    let coordinates = Positions::real(&[0.5_f32; 6]);
    let refusal = Err(Error::Positions(PositionsError::NotAnInteger {
        value: 0.5,
    }));
    assert_eq!(written(Slots::sequences(coordinates)), refusal);
    assert_eq!(written(Slots::table(&table, [2, 1], coordinates)), refusal);
    assert_eq!(
        written(Slots::pages(&pages, &starts, &sequences, coordinates)),
        refusal
    );

    // As many tokens as usize counts, without elements: no code loops over them.
    let tokens = usize::MAX;
    let none = Tensor::<f32>::new(&[], [1, tokens, 0, 8]).expect("no elements");
    let mut memory = [0.0_f32; 0];
    let no_heads = CacheLayout::hnd([1, 0, 5, 8]).expect("no heads");
    let mut cache = CacheMut::new(&mut memory, no_heads).expect("a cache that fits");
    let negative = Slots::sequences(i64::MIN..i64::MAX);
    let chain = Rope::<WithStages<'_>>::from(ROPE());
    assert_eq!(chain.apply_into(&none, &mut cache.slots(negative)), Ok(()));
}
