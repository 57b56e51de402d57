//! Positions in tensors.

use candle_core::{DType, Result, Tensor, bail};

/// The positions of tokens, on one axis or several, from a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    values: Values,
    axes: usize,
}

#[derive(Clone, Debug)]
enum Values {
    Ids(Vec<i64>),
    Coordinates(Vec<f64>),
}

impl Positions {
    /// Reads positions on one axis in any shape, or on several axes in `[axes, ..]`.
    pub(crate) fn new(tensor: &Tensor, axes: usize) -> Result<Self> {
        if axes > 1 && tensor.dims().first() != Some(&axes) {
            bail!(
                "positions on {axes} axes are [{axes}, ..], and these are {:?}",
                tensor.dims()
            );
        }
        let flat = tensor.flatten_all()?;
        let values = match tensor.dtype() {
            DType::U8 | DType::U32 | DType::I16 | DType::I32 | DType::I64 => {
                Values::Ids(flat.to_dtype(DType::I64)?.to_vec1()?)
            }
            DType::F32 | DType::F64 => Values::Coordinates(flat.to_dtype(DType::F64)?.to_vec1()?),
            other => bail!(
                "positions are integers, f32 or f64, and not {}",
                other.as_str()
            ),
        };
        Ok(Positions { values, axes })
    }

    /// Returns the number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        let values = match &self.values {
            Values::Ids(ids) => ids.len(),
            Values::Coordinates(coordinates) => coordinates.len(),
        };
        values / self.axes
    }

    pub(crate) fn as_core(&self) -> rope_core::Positions<'_> {
        match &self.values {
            Values::Ids(ids) => rope_core::Positions::axis_major(ids),
            Values::Coordinates(coordinates) => rope_core::Positions::axis_major(coordinates),
        }
    }
}
