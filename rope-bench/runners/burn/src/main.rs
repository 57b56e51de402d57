//! burn-nn's `RotaryEncoding`, on the CPU backend Flex.
//!
//! Every call multiplies the whole tensor by a constant matrix of signs, multiplies the product by a table of cos and
//! sin, and sums pairs of the result: three tensors, two of them twice as large as x, allocated in every call.

use std::hint::black_box;

use anyhow::{Context, Result};
use burn::nn::{RotaryEncoding, RotaryEncodingConfig};
use burn::tensor::{Device, Tensor, TensorData};
use protocol::{Part, Prepared, Request};

struct Burn {
    encoding: RotaryEncoding,
    start: usize,
    is_tokens_major: bool,
    inputs: Vec<Tensor<4>>,
    outputs: Vec<Tensor<4>>,
}

fn prepare(request: &Request, parts: Vec<Part>) -> Result<Burn> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(request.threads)
        .use_current_thread()
        .build_global()?;
    let [positions] = &request.positions[..] else {
        anyhow::bail!("burn's sequences all start at the same position");
    };
    let start = positions.first().copied().unwrap_or(0) as usize;
    let device = Device::flex();
    let config = RotaryEncodingConfig::new(start + request.tokens, request.head_dim)
        .with_theta(request.base as f32);
    let is_tokens_major = request.layout == "bshd";
    let inputs = parts.into_iter().map(|part| {
        let values: Vec<f32> = bytemuck::pod_collect_to_vec(&part.bytes);
        let x = Tensor::from_data(TensorData::new(values, part.shape), &device);
        // A view; nothing moves before the call.
        if is_tokens_major {
            x.swap_dims(1, 2)
        } else {
            x
        }
    });
    Ok(Burn {
        inputs: inputs.collect(),
        encoding: config.init(&device),
        start,
        is_tokens_major,
        outputs: Vec::new(),
    })
}

impl Prepared for Burn {
    fn call(&mut self) -> Result<()> {
        // Freed first, so that the next outputs can reuse the memory.
        self.outputs.clear();
        for x in &self.inputs {
            let output = self.encoding.apply(black_box(x).clone(), self.start);
            self.outputs.push(output);
        }
        Ok(())
    }

    fn values(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for output in self.outputs.iter().cloned() {
            let output = if self.is_tokens_major {
                output.swap_dims(1, 2)
            } else {
                output
            };
            let data = output.into_data();
            let values = data
                .as_slice::<f32>()
                .ok()
                .context("burn's result is not f32")?;
            bytes.extend_from_slice(bytemuck::cast_slice(values));
        }
        Ok(bytes)
    }
}

fn main() -> Result<()> {
    protocol::answer("burn", include_str!("../Cargo.lock"), prepare, None)
}
