//! Milliseconds of `RotaryEncodingConfig::init` of burn-nn on Flex, the shortest of many: built with the feature
//! `rope-core`, and without.

use std::hint::black_box;
use std::time::Instant;

use burn_core::tensor::Device;
use burn_nn::RotaryEncodingConfig;

fn main() {
    let with = if cfg!(feature = "rope-core") {
        "rope-core"
    } else {
        "burn"
    };
    let device = Device::default();
    for positions in [2048, 32_768] {
        let config = RotaryEncodingConfig::new(positions, 128);
        let mut least = f64::INFINITY;
        for _ in 0..if positions == 2048 { 200 } else { 20 } {
            let start = Instant::now();
            let module = black_box(config.init(&device));
            // The table is there when it can be read.
            black_box(module.freq_complex.slice([0..1, 0..1, 0..1]).into_data());
            least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        println!("{with}: init, {positions} positions x 128 channels: {least:.2} ms");
    }
}
