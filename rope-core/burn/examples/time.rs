//! How long burn-nn's `RotaryEncoding` takes, and how long rope-burn's in its place: in one process, in turns.
//!
//! `cargo run --release --example time`

use std::hint::black_box;
use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};

/// How often each of the two is timed.
const ROUNDS: usize = 21;

/// The median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Seconds of a call, from as many calls as take some milliseconds.
fn seconds(call: &impl Fn()) -> f64 {
    let mut calls = 1;
    loop {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > 5e-3 {
            return elapsed / f64::from(calls);
        }
        calls *= 2;
    }
}

/// What is timed of a tensor and a module that rotates it.
type Pass = fn(&Tensor<4>, &dyn Fn(Tensor<4>) -> Tensor<4>);

/// The rotation of a tensor that stays, into a new one.
fn forward(x: &Tensor<4>, rotate: &dyn Fn(Tensor<4>) -> Tensor<4>) {
    black_box(rotate(black_box(x).clone()));
}

/// The same, recorded, and the gradient of the sum of all channels.
fn backward(x: &Tensor<4>, rotate: &dyn Fn(Tensor<4>) -> Tensor<4>) {
    let x = x.clone().detach().require_grad();
    let gradients = rotate(x.clone()).sum().backward();
    black_box(x.grad(&gradients));
}

fn main() -> Result<(), rope_burn::Error> {
    let plain = Device::flex();
    // [batch, tokens, heads, head_dim], as projections leave them; attention takes [batch, heads, tokens, head_dim].
    let cases: [(&str, [usize; 4], bool, Pass); 5] = [
        ("one token", [1, 1, 32, 128], false, forward),
        ("prompt, heads-major", [1, 2048, 32, 128], false, forward),
        (
            "prompt, a view of tokens-major",
            [1, 2048, 32, 128],
            true,
            forward,
        ),
        (
            "training, forward and backward",
            [4, 512, 8, 64],
            false,
            backward,
        ),
        ("training, of a view", [4, 512, 8, 64], true, backward),
    ];
    println!("| | [batch, tokens, heads, head_dim] | burn-nn / rope-burn |");
    println!("|---|---|---|");
    for (name, [batch, tokens, heads, head_dim], view, pass) in cases {
        let training = name.starts_with("training");
        let device = if training {
            plain.clone().autodiff()
        } else {
            plain.clone()
        };
        let random = |dims| Tensor::<4>::random(dims, Distribution::Normal(0.0, 1.0), &device);
        let x = match view {
            true => random([batch, tokens, heads, head_dim]).swap_dims(1, 2),
            false => random([batch, heads, tokens, head_dim]),
        };
        let burn = burn::nn::RotaryEncodingConfig::new(4096, head_dim).init(&device);
        let ours = rope_burn::RotaryEncodingConfig::new(4096, head_dim).init(&device)?;
        let (theirs, own) = (burn.apply(x.clone(), 1000), ours.apply(x.clone(), 1000));
        let distance = (theirs - own).abs().max().into_scalar::<f32>();
        assert!(distance < 5e-3, "they rotate differently: {distance}");

        let burn = || pass(&x, &|x| burn.apply(x, 1000));
        let ours = || pass(&x, &|x| ours.apply(x, 1000));
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| (seconds(&burn), seconds(&ours)))
            .collect();
        let ratio = median(rounds.iter().map(|(burn, ours)| burn / ours).collect());
        println!("| {name} | [{batch}, {tokens}, {heads}, {head_dim}] | {ratio:.1} |");
    }
    Ok(())
}
