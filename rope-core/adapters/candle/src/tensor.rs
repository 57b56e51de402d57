//! candle's tensors as views of rope-core.

use candle_core::{DType, Error, Layout, Result, Tensor, bail};
use rope_core::Strides;

/// The order of heads and tokens in the four dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// `[batch, heads, tokens, head_dim]`, the order of `rope` and `rope_i`.
    #[default]
    HeadsMajor,
    /// `[batch, tokens, heads, head_dim]`, the order of `rope_thd` and of projections.
    TokensMajor,
}

impl Order {
    /// Reorders four numbers, one per dimension of a tensor, to `[batch, tokens, heads, head_dim]`.
    pub(crate) fn sorted([batch, second, third, head_dim]: [usize; 4], order: Self) -> [usize; 4] {
        match order {
            Order::HeadsMajor => [batch, third, second, head_dim],
            Order::TokensMajor => [batch, second, third, head_dim],
        }
    }

    /// Returns the extents `[batch, tokens, heads, head_dim]` of a tensor.
    pub(crate) fn extents(self, layout: &Layout) -> Result<[usize; 4]> {
        let (batch, second, third, head_dim) = layout.shape().dims4()?;
        Ok(Order::sorted([batch, second, third, head_dim], self))
    }

    /// Returns rope-core's layout, from the offset of candle's layout on.
    pub(crate) fn layout(self, layout: &Layout) -> Result<rope_core::Layout> {
        rope_core::Layout::strided(self.extents(layout)?, self.strides(layout)?).map_err(refused)
    }

    /// Returns the strides of a tensor whose heads have adjacent channels.
    pub(crate) fn strides(self, layout: &Layout) -> Result<Strides> {
        let strides: [usize; 4] = layout.stride().try_into().map_err(Error::debug)?;
        let [batch, token, head, channel] = Order::sorted(strides, self);
        if channel != 1 && self.extents(layout)?[3] > 1 {
            bail!(
                "the channels of a head must lie one after the other, and their stride is {channel}"
            );
        }
        Ok(Strides { batch, token, head })
    }
}

/// Returns the tensor, copied if the channels of its heads are not adjacent.
pub(crate) fn with_adjacent_channels(x: &Tensor) -> Result<Tensor> {
    match x.stride().last() {
        Some(1) | None => Ok(x.clone()),
        Some(_) => x.contiguous(),
    }
}

/// Returns the elements from the layout's offset on.
pub(crate) fn from_offset<'a, E>(elements: &'a [E], layout: &Layout) -> &'a [E] {
    elements.get(layout.start_offset()..).unwrap_or_default()
}

/// Returns true if two tensors are views of one storage.
pub(crate) fn share_storage(x: &Tensor, y: &Tensor) -> bool {
    std::ptr::eq(&*x.storage_and_layout().0, &*y.storage_and_layout().0)
}

/// Checks that a tensor is on the CPU.
pub(crate) fn on_cpu(name: &str, x: &Tensor) -> Result<()> {
    if !x.device().is_cpu() {
        bail!(
            "rope-candle rotates on the CPU, and {name} lies on {:?}",
            x.device().location()
        );
    }
    Ok(())
}

/// Converts an error of rope-core to candle's.
pub(crate) fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::wrap(error)
}

pub(crate) fn unsupported(dtype: DType) -> Error {
    Error::msg(format!(
        "rope-candle rotates f32, bf16 and f16, and not {}",
        dtype.as_str()
    ))
}

/// Evaluates `$body` with `$x` as the elements of a storage, for the types of rope-core.
macro_rules! with_elements {
    ($storage:expr, $x:ident => $body:expr) => {
        match $storage {
            candle_core::CpuStorage::F32($x) => $body,
            candle_core::CpuStorage::BF16($x) => $body,
            candle_core::CpuStorage::F16($x) => $body,
            other => {
                use candle_core::backend::BackendStorage;
                Err($crate::tensor::unsupported(other.dtype()))
            }
        }
    };
}
pub(crate) use with_elements;
