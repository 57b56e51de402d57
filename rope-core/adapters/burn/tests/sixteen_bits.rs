//! A device whose tensors are bf16 unless it is said otherwise: a program of its own, because that is so for all of it.

use burn::nn::RotaryEncodingConfig as BurnConfig;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use half::bf16;
use rope_burn::RotaryEncodingConfig;
use rope_core::{Frequencies, Layout, Pairing, Rope, Scaling, TensorMut};

#[test]
fn angles_do_not_take_the_type_of_the_device() {
    let mut device = Device::flex();
    device
        .configure(FloatDType::BF16)
        .expect("nothing was made before");
    let (shape, start) = ([2, 3, 4, 16], 300);
    let seed = std::env::var("ROPE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    device.seed(seed);
    let x = Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);

    // burn-nn: bf16 has no 301, so that its row is that of 300.
    let burn = BurnConfig::new(512, 16).init(&device);
    let row = |position: usize| burn.freq_complex.clone().narrow(0, position, 1).into_data();
    assert_eq!(row(300).as_bytes(), row(301).as_bytes());

    // rope-burn: rope-core's bits.
    let ours = RotaryEncodingConfig::new(512, 16).init(&device);
    let mut expected: Vec<bf16> = x.to_data().try_to_vec().expect("bf16");
    let layout = Layout::bhsd(shape).expect("a small shape");
    let frequencies = Frequencies::new(16, 10_000.0, &Scaling::Default).expect("frequencies");
    let rows = frequencies.rows(start..start + 4).expect("rows");
    Rope::new(Pairing::Interleaved)
        .rotate(
            &mut TensorMut::new(&mut expected, layout).expect("a tensor"),
            &rows,
        )
        .expect("rows that fit");
    let y: Vec<bf16> = ours.apply(x, start).into_data().try_to_vec().expect("bf16");
    assert_eq!(y, expected, "seed {seed}");

    // The frequencies that a function scales are f32 as well.
    let halves = RotaryEncodingConfig::new(8, 16).init_with_frequency_scaling(|f| f / 2.0, &device);
    let first = |pairs: &Frequencies<'_>| pairs.iter().map(|pair| pair.inverse_f32).nth(3);
    let halves = first(halves.expect("f32").frequencies());
    assert_eq!(halves, first(&frequencies).map(|f| f / 2.0));
}
