//! The rotations that a model runs under.

use std::cell::RefCell;

use candle_core::{D, DType, Device, Error, Result, Tensor};
use candle_nn::rotary_emb;
use rope_candle::{Rotary, Rows};
use rope_core::{Frequencies, Pairing};

/// What rotates the queries and keys of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// candle's function, by the tables that the model's code made.
    Candle,
    /// rope-candle's function, by the same tables: what a change of the function alone does.
    Swapped,
    /// rope-candle's function, by tables of [`Rotary::rows`] in f32. The model's own are ignored: this is what its code
    /// would compute if rope-candle made its tables as well.
    Exact,
    /// candle's function in f64, by angles that are products in f64: what the others are compared with. For models in
    /// f64.
    Reference,
}

thread_local! {
    /// Of the step that runs: cos and sin that take the place of the model's.
    static STEP: RefCell<Option<(Tensor, Tensor)>> = const { RefCell::new(None) };
}

impl Rotation {
    /// Runs a step of a model: some tokens from a position on. Its inverse frequencies are those that its own code
    /// computes.
    ///
    /// # Errors
    ///
    /// Those of the step.
    pub fn run(
        self,
        inverse: &[f32],
        position: usize,
        tokens: usize,
        step: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        let rope = match self {
            Rotation::Candle => rotary_emb::rope_of_candle,
            Rotation::Swapped => rope_candle::rope,
            Rotation::Exact => {
                let rows = rows(inverse, position, tokens)?;
                STEP.replace(Some(rows.cos_sin()?));
                by_step
            }
            Rotation::Reference => {
                STEP.replace(Some(double_tables(inverse, position, tokens)?));
                by_step
            }
        };
        rotary_emb::within(rope, step)
    }
}

fn rows(inverse: &[f32], position: usize, tokens: usize) -> Result<Rows> {
    let frequencies = Frequencies::from_inverse(2 * inverse.len(), inverse, 1.0);
    let rotary = Rotary::new(frequencies.map_err(Error::wrap)?, Pairing::Half);
    rotary.rows(position..position + tokens)
}

fn double_tables(inverse: &[f32], position: usize, tokens: usize) -> Result<(Tensor, Tensor)> {
    let positions = Tensor::arange(position as f64, (position + tokens) as f64, &Device::Cpu)?;
    let inverse = Tensor::new(inverse, &Device::Cpu)?.to_dtype(DType::F64)?;
    let angles = positions.unsqueeze(D::Minus1)?.broadcast_mul(&inverse)?;
    Ok((angles.cos()?, angles.sin()?))
}

/// Rotates by the tables of the step.
fn by_step(xs: &Tensor, _: &Tensor, _: &Tensor) -> Result<Tensor> {
    STEP.with_borrow(|step| match step {
        Some((cos, sin)) if xs.dtype() == DType::F64 => rotary_emb::rope_of_candle(xs, cos, sin),
        Some((cos, sin)) => rope_candle::rope(xs, cos, sin),
        None => candle_core::bail!("a rotation outside of a step"),
    })
}
