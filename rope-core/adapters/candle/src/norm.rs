//! A norm whose weights are a tensor.

use std::sync::Arc;

use candle_core::{CpuStorage, DType, Result, Storage, Tensor, bail};
use rope_core::norm::Norm;

use crate::tensor::{on_cpu, with_elements};

/// A norm of rope-core, and its weights.
#[derive(Clone, Debug)]
pub(crate) struct TensorNorm {
    norm: Norm<'static>,
    /// A copy, so that no tensor rotated in place can be a view of it.
    weight: Option<Arc<CpuStorage>>,
}

impl TensorNorm {
    pub(crate) fn new(norm: Norm<'static>, weight: Option<&Tensor>) -> Result<Self> {
        let weight = weight.map(|weight| {
            on_cpu("weight", weight)?;
            if weight.track_op() {
                bail!("weight is tracked, and a norm has no gradient here; detach it");
            }
            if !matches!(weight.dtype(), DType::F32 | DType::BF16 | DType::F16) {
                bail!(
                    "weight is {}; it must be f32, bf16 or f16",
                    weight.dtype().as_str()
                );
            }
            match &*weight.force_contiguous()?.storage_and_layout().0 {
                Storage::Cpu(weight) => Ok(Arc::new(weight.clone())),
                _ => bail!("rope-candle rotates on the CPU"),
            }
        });
        let weight = weight.transpose()?;
        Ok(TensorNorm { norm, weight })
    }

    pub(crate) fn as_core(&self) -> Result<Norm<'_>> {
        match self.weight.as_deref() {
            None => Ok(self.norm),
            Some(weight) => with_elements!(weight, weight => Ok(self.norm.with_weight(weight))),
        }
    }
}
