//! The times of burn-nn's `RotaryEncoding` and of rope-burn's in its place, in one process, in turns.
//!
//! `cargo run --release --example time`

use std::hint::black_box;
use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};

/// The number of times that each of the two runs.
const ROUNDS: usize = 21;

/// Returns the median of times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A rotation, by one of the two.
type Rotate<'a> = &'a dyn Fn(Tensor<4>) -> Tensor<4>;

/// A timed function: its result is the argument of the next call.
type Pass = fn(Tensor<4>, Rotate<'_>) -> Tensor<4>;

/// The rotation of a tensor that others hold as well, into a new one.
fn of_a_copy(x: Tensor<4>, rotate: Rotate<'_>) -> Tensor<4> {
    black_box(rotate(x.clone()));
    x
}

/// The rotation of a tensor that no one else holds.
fn of_the_only_handle(x: Tensor<4>, rotate: Rotate<'_>) -> Tensor<4> {
    rotate(x)
}

/// The rotation, recorded, and the gradient of the sum of all channels.
fn with_gradient(x: Tensor<4>, rotate: Rotate<'_>) -> Tensor<4> {
    let leaf = x.clone().detach().require_grad();
    let gradients = rotate(leaf.clone()).sum().backward();
    black_box(leaf.grad(&gradients));
    x
}

/// Returns the seconds of a pass, from enough passes to take some milliseconds.
fn seconds(pass: Pass, rotate: Rotate<'_>, x: &mut Option<Tensor<4>>) -> f64 {
    let mut passes = 1;
    loop {
        let start = Instant::now();
        for _ in 0..passes {
            *x = x.take().map(|x| pass(black_box(x), rotate));
        }
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > 5e-3 {
            return elapsed / f64::from(passes);
        }
        passes *= 2;
    }
}

fn main() -> Result<(), rope_burn::Error> {
    let plain = Device::flex();
    // [batch, tokens, heads, head_dim], as projections leave them; attention takes [batch, heads, tokens, head_dim].
    let (copy, only, gradient): (Pass, Pass, Pass) = (of_a_copy, of_the_only_handle, with_gradient);
    let (token, prompt, batch) = ([1, 1, 32, 128], [1, 2048, 32, 128], [4, 512, 8, 64]);
    let cases = [
        ("one token, in place", token, false, only),
        ("one token, into a new tensor", token, false, copy),
        ("prompt, in place", prompt, false, only),
        ("prompt, into a new tensor", prompt, false, copy),
        ("the same of a tokens-major view", prompt, true, copy),
        ("training, forward and backward", batch, false, gradient),
        ("training, of a tokens-major view", batch, true, gradient),
    ];
    println!("| | [batch, tokens, heads, head_dim] | burn-nn / rope-burn |");
    println!("|---|---|---|");
    for (name, [batch, tokens, heads, head_dim], view, pass) in cases {
        let training = name.starts_with("training");
        let device = match training {
            true => plain.clone().autodiff(),
            false => plain.clone(),
        };
        let random = |dims| Tensor::<4>::random(dims, Distribution::Normal(0.0, 1.0), &device);
        let tensor = || match view {
            true => random([batch, tokens, heads, head_dim]).swap_dims(1, 2),
            false => random([batch, heads, tokens, head_dim]),
        };
        let burn = burn::nn::RotaryEncodingConfig::new(4096, head_dim).init(&device);
        let ours = rope_burn::RotaryEncodingConfig::new(4096, head_dim).init(&device);
        let x = tensor();
        let (theirs, own) = (burn.apply(x.clone(), 1000), ours.apply(x, 1000));
        let distance = (theirs - own).abs().max().into_scalar::<f32>();
        assert!(distance < 5e-3, "they rotate differently: {distance}");

        // A tensor that is rotated in place must have no other handle, so each of the two has its own.
        let (mut theirs, mut own) = (Some(tensor()), Some(tensor()));
        let round = |_| {
            (
                seconds(pass, &|x| burn.apply(x, 1000), &mut theirs),
                seconds(pass, &|x| ours.apply(x, 1000), &mut own),
            )
        };
        let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
        let ratio = median(rounds.iter().map(|(burn, ours)| burn / ours).collect());
        println!("| {name} | [{batch}, {tokens}, {heads}, {head_dim}] | {ratio:.1} |");
    }
    Ok(())
}
