//! Trains a small model twice from the same weights, with burn-nn's `RotaryEncoding` and with rope-burn's. Then trains
//! both once more with all positions moved by a million, which changes nothing if the angles are right.
//!
//! `cargo run --release --example train`

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Distribution, Int, Tensor};

const BATCH: usize = 16;
const TOKENS: usize = 24;
const HEADS: usize = 2;
const HEAD_DIM: usize = 16;
const VOCABULARY: usize = 12;
/// The distance of the token to repeat. Only positions tell which token it is.
const DISTANCE: usize = 3;
const STEPS: usize = 60;
const FAR: usize = 1_000_000;

/// An embedding, a layer of causal attention, and logits.
#[derive(Module, Debug)]
struct Model {
    embedding: Embedding,
    queries: Linear,
    keys: Linear,
    values: Linear,
    logits: Linear,
}

impl Model {
    fn new(device: &Device) -> Self {
        let width = HEADS * HEAD_DIM;
        let square = || LinearConfig::new(width, width).init(device);
        Model {
            embedding: EmbeddingConfig::new(VOCABULARY, width).init(device),
            queries: square(),
            keys: square(),
            values: square(),
            logits: LinearConfig::new(width, VOCABULARY).init(device),
        }
    }

    fn loss(&self, tokens: Tensor<2, Int>, rotate: &impl Fn(Tensor<4>) -> Tensor<4>) -> Tensor<1> {
        let device = tokens.device();
        let x = self.embedding.forward(tokens.clone());
        // [batch, heads, tokens, head_dim], a view
        let heads = |x: Tensor<3>| x.reshape([BATCH, TOKENS, HEADS, HEAD_DIM]).swap_dims(1, 2);
        let q = rotate(heads(self.queries.forward(x.clone())));
        let k = rotate(heads(self.keys.forward(x.clone())));
        let v = heads(self.values.forward(x));
        let scores = q.matmul(k.swap_dims(2, 3)) / (HEAD_DIM as f64).sqrt();
        let later = Tensor::<2, Bool>::tril_mask([TOKENS, TOKENS], 0, &device);
        let scores = scores.mask_fill(later.unsqueeze(), f32::NEG_INFINITY);
        let seen = softmax(scores, 3).matmul(v);
        let seen = seen
            .swap_dims(1, 2)
            .reshape([BATCH, TOKENS, HEADS * HEAD_DIM]);
        let answers = TOKENS - DISTANCE;
        let logits = self.logits.forward(seen).narrow(1, DISTANCE, answers);
        let targets = tokens.narrow(1, 0, answers);
        CrossEntropyLossConfig::new().init(&device).forward(
            logits.reshape([BATCH * answers, VOCABULARY]),
            targets.reshape([BATCH * answers]),
        )
    }
}

/// The loss of each step.
fn train(
    model: &Model,
    batches: &[Tensor<2, Int>],
    rotate: impl Fn(Tensor<4>) -> Tensor<4>,
) -> Vec<f32> {
    let mut model = model.clone();
    let mut optimizer = AdamConfig::new().init();
    let step = |tokens: &Tensor<2, Int>| {
        let loss = model.loss(tokens.clone(), &rotate);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model.clone(), gradients);
        loss.into_scalar::<f32>()
    };
    batches.iter().map(step).collect()
}

fn main() -> Result<(), rope_burn::Error> {
    let device = Device::flex().autodiff();
    device.seed(1);
    let model = Model::new(&device);
    let random = Distribution::Uniform(0.0, VOCABULARY as f64);
    let batch = |_| Tensor::<2>::random([BATCH, TOKENS], random, &device).int();
    let batches: Vec<_> = (0..STEPS).map(batch).collect();

    let mut burn = burn::nn::RotaryEncodingConfig::new(TOKENS, HEAD_DIM).init(&device);
    let mut ours = rope_burn::RotaryEncodingConfig::new(TOKENS, HEAD_DIM).init(&device);
    let burn_near = train(&model, &batches, |x| burn.forward(x));
    let ours_near = train(&model, &batches, |x| ours.forward(x));
    burn.shift(FAR);
    ours.shift(FAR);
    let burn_far = train(&model, &batches, |x| burn.forward(x));
    let ours_far = train(&model, &batches, |x| ours.forward(x));

    println!("| step | burn-nn | rope-burn | burn-nn from {FAR} | rope-burn from {FAR} |");
    println!("|---|---|---|---|---|");
    for step in (0..STEPS).filter(|step| step % 10 == 0 || step + 1 == STEPS) {
        println!(
            "| {step} | {:.5} | {:.5} | {:.5} | {:.5} |",
            burn_near[step], ours_near[step], burn_far[step], ours_far[step]
        );
    }
    let distance = |a: &[f32], b: &[f32]| {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let [near, far, theirs] = [
        distance(&burn_near, &ours_near),
        distance(&ours_near, &ours_far),
        distance(&burn_near, &burn_far),
    ];
    println!("largest distance of two losses:");
    println!(
        "burn-nn and rope-burn {near:.1e}; from 0 and from {FAR}: burn-nn {theirs:.1e}, rope-burn {far:.1e}"
    );

    assert!(
        ours_near[STEPS - 1] < 0.5 * ours_near[0],
        "it has learned nothing"
    );
    assert!(near < 1e-3, "the two modules train differently");
    assert!(far < 1e-3, "a million tokens later it trains differently");
    Ok(())
}
