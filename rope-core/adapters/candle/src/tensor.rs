//! candle's tensors as rope-core reads them.

use candle_core::{DType, Error, Layout, Result, Tensor, bail};
use rope_core::Strides;

/// Which two dimensions of four are the heads and the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// `[batch, heads, tokens, head_dim]`, as `rope` and `rope_i` have it.
    #[default]
    HeadsMajor,
    /// `[batch, tokens, heads, head_dim]`, as `rope_thd` and the projections have it.
    TokensMajor,
}

impl Order {
    /// Four numbers, one for each dimension of a tensor, as `[batch, tokens, heads, head_dim]`.
    pub(crate) fn sorted([batch, second, third, head_dim]: [usize; 4], order: Self) -> [usize; 4] {
        match order {
            Order::HeadsMajor => [batch, third, second, head_dim],
            Order::TokensMajor => [batch, second, third, head_dim],
        }
    }

    /// `[batch, tokens, heads, head_dim]` of a tensor.
    pub(crate) fn extents(self, layout: &Layout) -> Result<[usize; 4]> {
        let (batch, second, third, head_dim) = layout.shape().dims4()?;
        Ok(Order::sorted([batch, second, third, head_dim], self))
    }

    /// The layout of the elements, from the layout's offset on.
    pub(crate) fn layout(self, layout: &Layout) -> Result<rope_core::Layout> {
        rope_core::Layout::strided(self.extents(layout)?, self.strides(layout)?).map_err(refused)
    }

    /// The strides of a tensor whose heads have adjacent channels.
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

/// The tensor, copied if the channels of its heads are not adjacent.
pub(crate) fn with_adjacent_channels(x: &Tensor) -> Result<Tensor> {
    match x.stride().last() {
        Some(1) | None => Ok(x.clone()),
        Some(_) => x.contiguous(),
    }
}

/// The elements from the layout's offset on.
pub(crate) fn from_offset<'a, E>(elements: &'a [E], layout: &Layout) -> &'a [E] {
    elements.get(layout.start_offset()..).unwrap_or_default()
}

/// Returns `true` if two tensors are views of one storage.
pub(crate) fn share_storage(x: &Tensor, y: &Tensor) -> bool {
    std::ptr::eq(&*x.storage_and_layout().0, &*y.storage_and_layout().0)
}

/// Checks that rope-core can read a tensor.
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

/// `$body` with `$x` as the elements of a storage, of the types that rope-core rotates.
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
