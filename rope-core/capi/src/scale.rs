//! The factor that stands beside a rotation.

use rope_core::stages::Scale;

use crate::failure::Failure;
use crate::memory::{Region, Span, plain};
use crate::names::lookup;
use crate::norm::rope_stage_order;

/// The owner of a factor: the tensor, a token or a head.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_scale_kind {
    /// The tensor: the same `factor` everywhere.
    Constant = 2401,
    /// A token of a sequence: `factors` is `[batch][tokens]`. Mistral 4's, Llama 4's temperature.
    PerToken = 2402,
    /// A head of a token: `factors` is `[batch][tokens][heads]`.
    PerTokenAndHead = 2403,
}
lookup!(rope_scale_kind, "kind of scale": Constant PerToken PerTokenAndHead);

/// A factor on queries or keys. On its side of the rotation it follows the norm.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_scale {
    /// The owners of the factors (`enum rope_scale_kind`).
    pub kind: i32,
    /// CONSTANT: the factor. Not used by others.
    pub factor: f32,
    /// The factors. Not used by CONSTANT.
    pub factors: *const f32,
    /// The number of factors. Not read for CONSTANT.
    pub count: usize,
    /// On which side of the rotation it stands (`enum rope_stage_order`).
    pub order: i32,
    /// Other than 0: the product is not rounded to the element of the tensor that is read.
    pub unrounded: i32,
}
plain!(rope_scale);

impl rope_scale {
    /// # Safety
    ///
    /// `factors` is null or points to the list, which nobody writes during `'a`.
    pub(crate) unsafe fn scale<'a>(&self) -> Result<(Scale<'a>, Region), Failure> {
        let kind = rope_scale_kind::from_c(self.kind)?;
        let mut region = Region::bytes("factors", 0, 0);
        let mut scale = if kind == rope_scale_kind::Constant {
            Scale::constant(self.factor)
        } else {
            let span = Span::new("factors", self.factors, self.count)?;
            region = span.region();
            // SAFETY: the caller promises that the factors are readable, and that nobody writes them during `'a`.
            let factors = unsafe { span.get() };
            match kind {
                rope_scale_kind::PerTokenAndHead => Scale::per_token_and_head(factors),
                _ => Scale::per_token(factors),
            }
        };
        scale = scale.with_order(rope_stage_order::from_c(self.order)?.order());
        if self.unrounded != 0 {
            scale = scale.without_rounding();
        }
        Ok((scale, region))
    }
}
