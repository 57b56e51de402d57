//! The registered operators, and the trait of an operator.

use std::ffi::CStr;
use std::marker::PhantomData;

use half::{bf16, f16};

use crate::runtime::{Call, Declaration, ElementType, Kernel, Result, invalid};
use crate::tables::Rotated;
use crate::{embedding, exact};

/// The domains, by the names that models have for them, and their operators. ONNX's own is the empty name.
pub(crate) const DOMAINS: &[(&CStr, &[Declaration])] = &[
    (c"com.microsoft", &[embedding::CONTRIBUTED]),
    (c"", &[embedding::STANDARD]),
    (c"rope", &[exact::ROTATE, exact::NORM_ROTATE]),
    #[cfg(feature = "probes")]
    (c"rope.test", &[crate::probes::PANIC, crate::probes::PLACE]),
];

/// A node, of any type.
pub(crate) trait Operator: Send + Sync + Sized + 'static {
    fn compute<E: Rotated>(&self, call: Call<'_>) -> Result<()>;

    /// The node of one type.
    fn of(self, element: ElementType) -> Result<Box<dyn Kernel>> {
        Ok(match element {
            ElementType::F32 => Box::new(Typed::<Self, f32>(self, PhantomData)),
            ElementType::F16 => Box::new(Typed::<Self, f16>(self, PhantomData)),
            ElementType::Bf16 => Box::new(Typed::<Self, bf16>(self, PhantomData)),
            ElementType::I64 => return Err(invalid("int64 is not rotated")),
        })
    }
}

struct Typed<O, E>(O, PhantomData<E>);

impl<O: Operator, E: Rotated> Kernel for Typed<O, E> {
    fn compute(&self, call: Call<'_>) -> Result<()> {
        self.0.compute::<E>(call)
    }
}
