//! Every error of a chain, of its norm, scale or transform: it has the value and the limit, and nothing was written.

use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Hadamard, Normed, Scale, StageOrder};
use rope_core::{Dimension, Error, Layout, Rope, Tensor};

use crate::refused::errors as error;
use crate::refused::verbs::{
    APPLY, APPLY_CACHE, Operands, READ, ROTATE, ROTATE_INTO, SHIFT, Verb, WRITE,
};
use crate::refused::{norm, numbers, ones, refused, rope, strides, tensor, untouched};

/// Six tokens of two heads of eight channels.
const SHAPE: [usize; 4] = [2, 3, 2, 8];
const VERBS: &[&[Verb]] = &[ROTATE, ROTATE_INTO, APPLY, READ, WRITE, APPLY_CACHE];
const ONES: &[f32] = &[1.0; 96];

/// Calls each verb of a chain.
#[track_caller]
fn each_verb<'a>(plan: impl Into<Rope<Normed<'a>>>, error: Error) {
    Operands::new(SHAPE, numbers([6, 8])).refused(VERBS, plan.into(), error);
}

#[test]
fn parameters_of_norms() {
    for eps in [-1e-6, f32::INFINITY, f32::NAN] {
        let error = error::parameter("eps", eps.into(), "finite and not negative");
        each_verb(rope().with_norm(Norm::new(NormFormula::LLAMA, eps)), error);
    }
    for len in [0, 7, 9, 15, 17] {
        for (reach, needed) in [(NormReach::Head, 8), (NormReach::Token, 16)] {
            let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_reach(reach);
            for (name, norm) in [
                ("weight", norm.with_weight(&ONES[..len])),
                ("bias", norm.without_weight().with_bias(&ONES[..len])),
            ] {
                let error = error::count(name, len, needed);
                each_verb(rope().with_norm(norm), error);
                let norm = norm.with_order(StageOrder::AfterRotation);
                each_verb(rope().with_norm(norm), error);
            }
        }
    }
}

/// A missing weight would still produce text, and so would a weight that the formula lacks.
#[test]
fn weights_of_norms() {
    let one = &ONES[..16];
    for formula in [
        NormFormula::LLAMA,
        NormFormula::OLMO2,
        NormFormula::GEMMA,
        NormFormula::LAYER_NORM,
        NormFormula::CHAMELEON,
        NormFormula::ONCE,
    ] {
        let norm = Norm::new(formula, 1e-6);
        for norm in [
            norm,
            norm.with_bias(one),
            norm.with_reach(NormReach::Token),
            norm.with_order(StageOrder::AfterRotation),
        ] {
            each_verb(rope().with_norm(norm), error::weight_missing(8));
        }
        // Explicitly, it is a norm without weights, also after weights were given.
        let without = norm.without_weight();
        assert!(!without.formula.weighted);
        for norm in [without, norm.with_weight(one).without_weight()] {
            let mut x = ONES.to_vec();
            let applied = rope().with_norm(norm).apply(&mut tensor(&mut x, SHAPE));
            assert_eq!(applied, Ok(()));
        }
        let norm = without.with_weight(&one[..8]);
        each_verb(rope().with_norm(norm), error::weight_unused(8));
    }
    for given in [0, 8, 16] {
        let norm = norm().with_weight(&one[..given]);
        each_verb(rope().with_norm(norm), error::weight_unused(given));
    }
    // The sums that ranks exchange need no weights.
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let sums = rope().sum_of_squares(norm, &ones(SHAPE), &mut [0.0; 12]);
    assert_eq!(sums, Ok(()));
}

#[test]
fn given_sums() {
    let x = ones(SHAPE);
    let norm = norm();
    let centered = Norm::new(NormFormula::LAYER_NORM, 1e-6).without_weight();
    let with_sums = centered.with_sum_of_squares(&ONES[..12], 8);
    each_verb(rope().with_norm(with_sums), error::centered_sums());
    untouched::<f32>(13, |sums| {
        let refusal = rope().sum_of_squares(centered, &x, &mut sums[..12]);
        refused(refusal, error::centered_sums());
        for (reach, needed) in [(NormReach::Token, 6), (NormReach::Head, 12)] {
            let norm = norm.with_reach(reach);
            for len in [0, needed - 1, needed + 1] {
                let with_sums = norm.with_sum_of_squares(&ONES[..len], 16);
                each_verb(
                    rope().with_norm(with_sums),
                    error::count("sums", len, needed),
                );
                // The requested sums.
                let refusal = rope().sum_of_squares(norm, &x, &mut sums[..len]);
                refused(refusal, error::storage("sums", len, needed));
            }
            let with_sums = norm.with_sum_of_squares(&ONES[..needed], 0);
            let error = error::parameter("width", 0.0, "at least 1");
            each_verb(rope().with_norm(with_sums), error);
        }
        let strided = |shape, strides| {
            let layout = Layout::strided(shape, strides).expect("it can be read");
            Tensor::new(ONES, layout).expect("valid")
        };
        // A row of heads that share elements has no limit: these would be 2^65 terms.
        for (heads, stride) in [(usize::MAX / 2, 0), (2, 3)] {
            let x = strided([1, 1, heads, 4], strides(4, 4, stride));
            let of_tokens = norm.with_reach(NormReach::Token);
            let error = error::overlap(Dimension::Heads, stride, 4);
            refused(rope().sum_of_squares(of_tokens, &x, &mut sums[..1]), error);
        }
        // Tokens that share elements are counted as well: these exceed usize.
        let many = 1 << (usize::BITS / 2);
        let x = strided([many, many, 1, 4], strides(0, 0, 0));
        let refusal = rope().sum_of_squares(norm, &x, &mut []);
        refused(refusal, error::storage("sums", 0, usize::MAX));
    });
}

#[test]
fn factors_of_scales() {
    for given in [0, 5, 7, 11, 13] {
        let factors = &ONES[..given];
        let scale = Scale::per_token(factors);
        each_verb(rope().with_scale(scale), error::count("factors", given, 6));
        let scale = Scale::per_token_and_head(factors).with_order(StageOrder::AfterRotation);
        each_verb(rope().with_scale(scale), error::count("factors", given, 12));
    }
}

/// A block that no head has, and a block that does not divide the head.
#[test]
fn blocks_of_transforms() {
    for block in [0, 1, 3, 96, 2049, 4096, usize::MAX, 1 << (usize::BITS - 1)] {
        let error = error::hadamard_block(block);
        refused(Hadamard::new(block), error);
    }
    let sixteen = Hadamard::new(16).expect("a power of two");
    let error = error::hadamard_head(16, 8);
    let rope = rope().with_hadamard(sixteen);
    each_verb(rope, error);
    each_verb(rope.with_norm(norm()), error);
    let operands = Operands::new(SHAPE, numbers([6, 8]));
    operands.refused(&[SHIFT], rope, error);
    operands.backward_refused::<f32>(&rope, error);
}

#[test]
fn head_dim_on_stack() {
    let error = error::head_dim_on_stack(2049, 2048);
    let shape = [1, 1, 1, 2049];
    let operands = Operands::new(shape, numbers([1, 8]));
    let chain = rope().with_norm(norm());
    operands.refused(VERBS, chain, error);
    operands.refused(&[SHIFT], rope(), error);
    let x = vec![1.0_f32; 2049];
    let refusal =
        rope().sum_of_squares(norm(), &Tensor::new(&x, shape).expect("valid"), &mut [0.0]);
    refused(refusal, error);
    // The longest possible block.
    let mut x = vec![1.0_f32; 2048];
    let longest = chain.rotate(&mut tensor(&mut x, [1, 1, 1, 2048]), &operands.rows);
    assert_eq!(longest, Ok(()));
}
