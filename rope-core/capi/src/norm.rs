//! The norm that stands beside a rotation.

use core::ffi::c_void;

use rope_core::norm::{Norm, NormFormula, NormReach, NormResult, NormSum, Weights};
use rope_core::stages::StageOrder;

use crate::failure::Failure;
use crate::memory::{Out, Region, Span, plain};
use crate::names::lookup;
use crate::names::rope_element;
use crate::operand::with_element;
use crate::status::{rope_status, status_of};

/// The formulas that models have, each named after the code whose bits it gives. T is the element of the tensor that
/// is read, r the reciprocal of the root mean square, m the mean, w the weights and b the biases.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_norm_formula {
    /// w T(x r): Hugging Face's LlamaRMSNorm and its copies; Llama, Qwen3, GLM-4.5, HunYuan, EXAONE 4, MiniMax-M2,
    /// OLMoE.
    Llama = 1601,
    /// T(w (x r)): OLMo 2 and 3, gpt-oss, Gemma 3n and 4, whose values are normed without weights: with
    /// `weighted` at 0.
    Olmo2 = 1602,
    /// T((x r) (1 + w)): Gemma 1 to 3, Qwen3-Next.
    Gemma = 1603,
    /// T(x r), without a weight: Llama 4, nanochat.
    Llama4 = 1604,
    /// T(w ((x - m) r)), or T(w ((x - m) r) + b) with biases: Cohere, Command R, StableLM, Phi, Persimmon.
    LayerNorm = 1605,
    /// T(T(T((x - m) r) w) + b), weights and biases of each head: Chameleon.
    Chameleon = 1606,
    /// x r w, which the rotation takes as it is: fused kernels of GPU libraries.
    Once = 1607,
}
lookup!(rope_norm_formula, "formula of a norm":
    Llama Olmo2 Gemma Llama4 LayerNorm Chameleon Once);

impl rope_norm_formula {
    fn formula(self) -> NormFormula {
        match self {
            rope_norm_formula::Llama => NormFormula::LLAMA,
            rope_norm_formula::Olmo2 => NormFormula::OLMO2,
            rope_norm_formula::Gemma => NormFormula::GEMMA,
            rope_norm_formula::Llama4 => NormFormula::LLAMA4,
            rope_norm_formula::Chameleon => NormFormula::CHAMELEON,
            rope_norm_formula::LayerNorm => NormFormula::LAYER_NORM,
            rope_norm_formula::Once => NormFormula::ONCE,
        }
    }
}

/// The rounding of a norm's result.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_norm_result {
    /// Not at all: the next stage takes the float.
    Kept = 0,
    /// To the element of the tensor that is read.
    Rounded = 1701,
    /// To the wider type of that element and the weights', as PyTorch promotes a product.
    Promoted = 1702,
}
lookup!(rope_norm_result, "result of a norm": Kept Rounded Promoted);

impl rope_norm_result {
    fn result(self) -> NormResult {
        match self {
            rope_norm_result::Kept => NormResult::Kept,
            rope_norm_result::Rounded => NormResult::Rounded,
            rope_norm_result::Promoted => NormResult::Promoted,
        }
    }
}

impl From<NormResult> for rope_norm_result {
    fn from(result: NormResult) -> Self {
        match result {
            NormResult::Kept => rope_norm_result::Kept,
            NormResult::Rounded => rope_norm_result::Rounded,
            NormResult::Promoted => rope_norm_result::Promoted,
        }
    }
}

/// The values that a norm covers.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_norm_reach {
    /// Each head by itself.
    Head = 0,
    /// All heads of a token together: OLMo 2, OLMoE, MiniMax-M2.
    Row = 1801,
}
lookup!(rope_norm_reach, "reach of a norm": Head Row);

impl rope_norm_reach {
    fn reach(self) -> NormReach {
        match self {
            rope_norm_reach::Head => NormReach::Head,
            rope_norm_reach::Row => NormReach::Token,
        }
    }
}

/// The order in which a norm sums squares. Either order is the same on every backend.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_norm_sum {
    /// In float, in the order of PyTorch's `mean` on x86: the bits of the eager model.
    Pytorch = 0,
    /// In double, in eight lanes, and the mean rounded to float once: nearer to the true mean.
    F64 = 1901,
}
lookup!(rope_norm_sum, "order of a sum": Pytorch F64);

impl rope_norm_sum {
    fn sum(self) -> NormSum {
        match self {
            rope_norm_sum::Pytorch => NormSum::PyTorch,
            rope_norm_sum::F64 => NormSum::F64,
        }
    }
}

/// The order of a stage and the rotation.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_stage_order {
    /// Before the rotation.
    BeforeRotation = 0,
    /// After it: the norms of HunYuan, Llama 4 and nanochat.
    AfterRotation = 2001,
}
lookup!(rope_stage_order, "order": BeforeRotation AfterRotation);

impl rope_stage_order {
    pub(crate) fn order(self) -> StageOrder {
        match self {
            rope_stage_order::BeforeRotation => StageOrder::BeforeRotation,
            rope_stage_order::AfterRotation => StageOrder::AfterRotation,
        }
    }
}

/// The weights, or the biases, of a norm: `[head_dim]`, which all heads share, or `[heads][head_dim]`. Zeros: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_weights {
    /// The first of them, aligned as its type is.
    pub data: *const c_void,
    /// The number of weights.
    pub count: usize,
    /// Their type (`enum rope_element`).
    pub element: i32,
}
plain!(rope_weights);

impl rope_weights {
    /// # Safety
    ///
    /// `data` is null or points to the numbers, which nobody writes during `'a`.
    unsafe fn weights<'a>(
        &self,
        name: &'static str,
    ) -> Result<(Option<Weights<'a>>, Region), Failure> {
        if self.data.is_null() && self.count == 0 {
            return Ok((None, Region::bytes(name, 0, 0)));
        }
        with_element!(rope_element::from_c(self.element)?, E => {
            let span = Span::<E>::new(name, self.data.cast(), self.count)?;
            // SAFETY: the caller promises that the numbers are readable, and that nobody writes them during `'a`.
            Ok((Some(Weights::from(unsafe { span.get() })), span.region()))
        })
    }
}

/// A norm of queries or keys: its sum, its factors, and its rounding. Every operation is rounded to a float by itself.
///
/// rope_norm_init fills in a formula and `eps`; then the caller sets the weights. A struct of zeros multiplies a head
/// by the reciprocal of its root mean square, and rounds nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_norm {
    /// Other than 0: the mean is taken off first, a layer norm.
    pub centered: i32,
    /// Other than 0: it multiplies by `weight`, and is refused without. 0: it has none, and is refused with some.
    pub weighted: i32,
    /// Other than 0: the factor is 1 + w.
    pub one_plus_weight: i32,
    /// Other than 0: the normed value is rounded to the element before the weight.
    pub rounds_normed: i32,
    /// Other than 0: the product with the weight is rounded to the element before a bias is added.
    pub rounds_product: i32,
    /// The rounding of the result (`enum rope_norm_result`).
    pub result: i32,
    /// The number that is added to the mean. With 0 a head of zeros becomes NaNs.
    pub eps: f32,
    /// The weights; zeros where `weighted` is 0.
    pub weight: rope_weights,
    /// The biases, which are added last; zeros: none.
    pub bias: rope_weights,
    /// The values that it covers (`enum rope_norm_reach`).
    pub reach: i32,
    /// On which side of the rotation it stands (`enum rope_stage_order`).
    pub order: i32,
    /// The order of the sum of squares (`enum rope_norm_sum`).
    pub sum: i32,
    /// Sums of squares from the caller, where a row is split over ranks: one for each token of each sequence, or for
    /// each head where heads are normed by themselves. rope_sum_of_squares computes the sums of a part. NULL: the call
    /// computes them.
    pub sums: *const f32,
    /// The number of sums; not 0 if `sums` is given.
    pub sums_count: usize,
    /// Channels that each of them was summed over. Not used without sums.
    pub sums_width: usize,
}
plain!(rope_norm);

impl rope_norm {
    /// # Safety
    ///
    /// Each pointer is null or points to its list, which nobody writes during `'a`.
    pub(crate) unsafe fn norm<'a>(&self) -> Result<(Norm<'a>, [Region; 3]), Failure> {
        let formula = NormFormula {
            centered: self.centered != 0,
            weighted: self.weighted != 0,
            one_plus_weight: self.one_plus_weight != 0,
            rounds_normed: self.rounds_normed != 0,
            rounds_product: self.rounds_product != 0,
            result: rope_norm_result::from_c(self.result)?.result(),
        };
        let mut norm = Norm::new(formula, self.eps)
            .with_reach(rope_norm_reach::from_c(self.reach)?.reach())
            .with_order(rope_stage_order::from_c(self.order)?.order())
            .with_sum(rope_norm_sum::from_c(self.sum)?.sum());
        // SAFETY: the caller promises that weights and biases are readable, and that nobody writes them during `'a`.
        let ((weight, first), (bias, second)) =
            unsafe { (self.weight.weights("weight")?, self.bias.weights("bias")?) };
        if let Some(weight) = weight {
            norm = norm.with_weight(weight);
        }
        if let Some(bias) = bias {
            norm = norm.with_bias(bias);
        }
        let sums = Span::new("sums", self.sums, self.sums_count)?;
        if !self.sums.is_null() {
            // SAFETY: the caller promises that each pointer is null or has its list, which nobody writes during `'a`.
            norm = norm.with_sum_of_squares(unsafe { sums.get() }, self.sums_width);
        }
        Ok((norm, [first, second, sums.region()]))
    }
}

/// Fills in a norm of each head, before the rotation, by a formula (`enum rope_norm_formula`) and the eps of the model,
/// its `rms_norm_eps` or `layer_norm_eps`. Unless the formula has no weights, they are to be set.
///
/// Returns ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The calls check `eps`.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `norm` is NULL or points to a rope_norm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_norm_init(
    norm: *mut rope_norm,
    formula: i32,
    eps: f32,
) -> rope_status {
    const NONE: rope_weights = rope_weights {
        data: core::ptr::null(),
        count: 0,
        element: 0,
    };
    status_of(|| {
        let out = Out::new("norm", norm)?;
        let NormFormula {
            centered,
            weighted,
            one_plus_weight,
            rounds_normed,
            rounds_product,
            result,
        } = rope_norm_formula::from_c(formula)?.formula();
        let norm = rope_norm {
            centered: centered.into(),
            weighted: weighted.into(),
            one_plus_weight: one_plus_weight.into(),
            rounds_normed: rounds_normed.into(),
            rounds_product: rounds_product.into(),
            result: rope_norm_result::from(result) as i32,
            eps,
            weight: NONE,
            bias: NONE,
            reach: 0,
            order: 0,
            sum: 0,
            sums: core::ptr::null(),
            sums_count: 0,
            sums_width: 0,
        };
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(norm) };
        Ok(())
    })
}
