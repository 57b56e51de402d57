//! candle's three functions.

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor};
use rope_core::Pairing;

use crate::rotation::Rotation;
use crate::tables::{self, Tables};
use crate::tensor::{Order, with_adjacent_channels};
use crate::{double, gradient};

/// Rotates `[batch, heads, tokens, head_dim]` by tables of cos and sin; a pair is channels `i` and `i + head_dim / 2`.
///
/// Replaces `candle_nn::rotary_emb::rope`:
///
/// - `xs` is f32, bf16, f16 or f64, with any strides: no `.contiguous()` is needed. (It is copied if the *channels* of
///   a head are not adjacent.) The result is contiguous.
/// - `cos` and `sin` are `[tokens or more, head_dim / 2]`, or `[batch, tokens or more, head_dim / 2]` if sequences have
///   separate positions; in f32 or in the type of `xs`, with any strides.
/// - Each output of f32, bf16 or f16 is two products and a sum in f32, each rounded by itself, and then rounded to the
///   type of `xs`: in f32 candle's bits, in 16 bits one rounding where candle has three. f64 uses candle's tensor
///   operations.
/// - Gradients reach `xs`, `cos` and `sin`, whichever are tracked. Those of `cos` and `sin` are summed over heads and
///   sequences in f64, in the same order on every machine.
///
/// Many models make tables of 16 bits. They are accepted, widened to f32 at every call, and cost accuracy that no
/// rotation restores: a cos is off by up to 2^-9 in bf16 and 2^-12 in f16, where an f32 is off by 2^-25. If the
/// *angles* were formed in bf16 as well, which skips integers beyond 256, the tables are wrong altogether.
/// [`Rotary::rows`](crate::Rotary::rows) makes tables in f32.
///
/// # Errors
///
/// A message, if shapes or types do not match, or a tensor is not on the CPU.
pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotated(xs, [cos, sin], "rope", Pairing::Half, Order::HeadsMajor)
}

/// Rotates as [`rope`], with channels `2 i` and `2 i + 1` as a pair. Replaces `candle_nn::rotary_emb::rope_i`.
///
/// # Errors
///
/// The errors of [`rope`].
pub fn rope_i(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let interleaved = Pairing::Interleaved;
    rotated(xs, [cos, sin], "rope-i", interleaved, Order::HeadsMajor)
}

/// Rotates as [`rope`], for `[batch, tokens, heads, head_dim]`. Replaces `candle_nn::rotary_emb::rope_thd`.
///
/// # Errors
///
/// The errors of [`rope`].
pub fn rope_thd(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotated(
        xs,
        [cos, sin],
        "rope-thd",
        Pairing::Half,
        Order::TokensMajor,
    )
}

fn rotated(
    xs: &Tensor,
    [cos, sin]: [&Tensor; 2],
    name: &'static str,
    pairing: Pairing,
    order: Order,
) -> Result<Tensor> {
    tables::check(xs, cos, sin, order)?;
    if xs.dtype() == DType::F64 {
        return double::rotated(xs, [cos, sin], pairing, order);
    }
    let rotation = Rotation {
        order,
        ..Rotation::new(pairing)
    };
    with_adjacent_channels(xs)?.apply_op3(cos, sin, ByTables { name, rotation })
}

/// A rotation by tables, as an operation of candle.
struct ByTables {
    name: &'static str,
    rotation: Rotation,
}

impl CustomOp3 for ByTables {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        xs: &CpuStorage,
        layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let [_, tokens, ..] = self.rotation.order.extents(layout)?;
        let tables = Tables::new((cos, cos_layout), (sin, sin_layout), tokens)?;
        self.rotation.rotated(xs, layout, &tables.rows()?.into())
    }

    fn bwd(
        &self,
        xs: &Tensor,
        cos: &Tensor,
        sin: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = &with_adjacent_channels(gradient)?;
        let by_xs = match self.rotation.transposed() {
            Some(rotation) if xs.track_op() => {
                let back = ByTables {
                    name: self.name,
                    rotation,
                };
                Some(gradient.apply_op3_no_bwd(cos, sin, &back)?)
            }
            _ => None,
        };
        let [by_cos, by_sin] = gradient::of_tables(&self.rotation, [xs, gradient], [cos, sin])?;
        Ok((by_xs, by_cos, by_sin))
    }
}
