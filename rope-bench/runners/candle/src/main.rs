//! candle-nn's `rotary_emb`, on the CPU.
//!
//! Every call allocates its result. cos and sin have the element's type, as in candle-transformers, and so does all
//! arithmetic: in 16 bits every product and every sum is rounded.
//!
//! `candle/as-called` is what a layer of candle-transformers' Llama does with the result of a projection: it transposes
//! Q and K, copies them, and slices the tables of all positions at the first one.

use std::hint::black_box;

use anyhow::{Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_nn::rotary_emb;
use protocol::{Part, Prepared, Request};

type Function = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;

struct Candle {
    function: Function,
    /// The first position of the tables of all positions, and the number of tokens; none if the tables are ready.
    sliced: Option<[usize; 2]>,
    cos: Tensor,
    sin: Tensor,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// Returns `[tokens, pairs]`, or `[batch, tokens, pairs]` if sequences have separate positions: all in f32.
fn angles(request: &Request, positions: &[Vec<u32>]) -> candle_core::Result<Tensor> {
    let dim = request.head_dim;
    let frequency = |i: usize| 1.0 / (request.base as f32).powf(i as f32 / dim as f32);
    let frequencies: Vec<f32> = (0..dim).step_by(2).map(frequency).collect();
    let angles: Vec<f32> = positions
        .iter()
        .flatten()
        .flat_map(|&position| frequencies.iter().map(move |f| position as f32 * f))
        .collect();
    let (tokens, pairs) = (positions[0].len(), dim / 2);
    match positions.len() {
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
        "candle/rope" | "candle/as-called" => rotary_emb::rope,
        "candle/rope-i" => rotary_emb::rope_i,
        "candle/rope-thd" => rotary_emb::rope_thd,
        other => bail!("no formulation {other}"),
    };
    // One token has the same order in both layouts, and `rope-thd` reads it as `bshd`.
    let is_called = request.formulation == "candle/as-called";
    let is_thd = request.formulation == "candle/rope-thd" || is_called;
    let dtype: DType = request.element.parse()?;
    let (sliced, positions) = match (&request.positions[..], is_called) {
        ([positions], true) if !positions.is_empty() => {
            let first = positions[0];
            let all = (0..first + request.tokens as u32).collect();
            (Some([first as usize, request.tokens]), vec![all])
        }
        (positions, false) => (None, positions.to_vec()),
        _ => bail!("candle-transformers' sequences share their positions"),
    };
    let angles = angles(request, &positions)?;
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
        sliced,
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
            let x = black_box(x);
            self.outputs.push(match self.sliced {
                None => (self.function)(x, &self.cos, &self.sin)?,
                Some([first, tokens]) => {
                    let x = x.transpose(1, 2)?.contiguous()?;
                    let (cos, sin) = (
                        self.cos.narrow(0, first, tokens)?,
                        self.sin.narrow(0, first, tokens)?,
                    );
                    (self.function)(&x, &cos, &sin)?
                }
            });
        }
        Ok(())
    }

    fn values(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for output in &self.outputs {
            match self.sliced {
                None => output.write_bytes(&mut bytes)?,
                Some(_) => output
                    .transpose(1, 2)?
                    .contiguous()?
                    .write_bytes(&mut bytes)?,
            }
        }
        Ok(bytes)
    }
}

fn main() -> Result<()> {
    protocol::answer("candle-nn", include_str!("../Cargo.lock"), prepare, None)
}
