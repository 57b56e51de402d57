//! The element types of inputs and outputs.

use ort_sys::ONNXTensorElementDataType;

/// Types of inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    F32,
    F16,
    Bf16,
    I64,
}

impl ElementType {
    /// The types that are rotated.
    pub(super) const ROTATED: [Self; 3] = [ElementType::F32, ElementType::F16, ElementType::Bf16];

    pub(super) fn to_onnx(self) -> ONNXTensorElementDataType {
        use ONNXTensorElementDataType as Onnx;
        match self {
            ElementType::F32 => Onnx::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
            ElementType::F16 => Onnx::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
            ElementType::Bf16 => Onnx::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
            ElementType::I64 => Onnx::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        }
    }
}
