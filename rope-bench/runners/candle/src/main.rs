//! candle-nn's `rotary_emb`, on the CPU.
//!
//! Every call allocates its result. cos and sin have the element's type, as in candle-transformers, and so does all
//! arithmetic: in 16 bits every product and every sum is rounded.

use std::hint::black_box;

use anyhow::{Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_nn::rotary_emb;
use protocol::{Part, Prepared, Request};

type Function = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;

struct Candle {
    function: Function,
    cos: Tensor,
    sin: Tensor,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// Returns `[tokens, pairs]`, or `[batch, tokens, pairs]` if sequences have separate positions: all in f32.
fn angles(request: &Request) -> candle_core::Result<Tensor> {
    let dim = request.head_dim;
    let frequency = |i: usize| 1.0 / (request.base as f32).powf(i as f32 / dim as f32);
    let frequencies: Vec<f32> = (0..dim).step_by(2).map(frequency).collect();
    let angles: Vec<f32> = request
        .positions
        .iter()
        .flatten()
        .flat_map(|&position| frequencies.iter().map(move |f| position as f32 * f))
        .collect();
    let (tokens, pairs) = (request.tokens, dim / 2);
    match request.positions.len() {
        1 => Tensor::from_vec(angles, (tokens, pairs), &Device::Cpu),
        sequences => Tensor::from_vec(angles, (sequences, tokens, pairs), &Device::Cpu),
    }
}

fn prepare(request: &Request, parts: Vec<Part>) -> Result<Candle> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(request.threads)
        .use_current_thread()
        .build_global()?;
    let function: Function = match request.formulation.as_str() {
        "candle/rope" => rotary_emb::rope,
        "candle/rope-i" => rotary_emb::rope_i,
        "candle/rope-thd" => rotary_emb::rope_thd,
        other => bail!("no formulation {other}"),
    };
    // One token has the same order in both layouts, and `rope-thd` reads it as `bshd`.
    let is_thd = request.formulation == "candle/rope-thd";
    let dtype: DType = request.element.parse()?;
    let angles = angles(request)?;
    let inputs = parts.iter().map(|part| {
        let (outer, inner) = match is_thd {
            true => (request.tokens, part.heads),
            false => (part.heads, request.tokens),
        };
        let shape = [request.batch, outer, inner, request.head_dim];
        Tensor::from_raw_buffer(&part.bytes, dtype, &shape, &Device::Cpu)
    });
    Ok(Candle {
        function,
        cos: angles.cos()?.to_dtype(dtype)?,
        sin: angles.sin()?.to_dtype(dtype)?,
        inputs: inputs.collect::<Result<_, _>>()?,
        outputs: Vec::new(),
    })
}

impl Prepared for Candle {
    fn call(&mut self) -> Result<()> {
        // Freed first, so that the next outputs can reuse the memory.
        self.outputs.clear();
        for x in &self.inputs {
            let output = (self.function)(black_box(x), &self.cos, &self.sin)?;
            self.outputs.push(output);
        }
        Ok(())
    }

    fn values(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for output in &self.outputs {
            output.write_bytes(&mut bytes)?;
        }
        Ok(bytes)
    }
}

fn main() -> Result<()> {
    protocol::answer("candle-nn", include_str!("../Cargo.lock"), prepare, None)
}
