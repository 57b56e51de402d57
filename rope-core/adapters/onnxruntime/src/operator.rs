//! An operator: a node of any type.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::runtime::{Call, ElementType, Kernel, Result, invalid};
use crate::tables::Rotated;

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
