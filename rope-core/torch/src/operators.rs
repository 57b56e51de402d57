//! The operators: their schemas, and how a kernel takes its arguments off the stack.

use crate::shim::{Entry, RawTensor, Tensor, register, run};
use crate::{gradients, rotate};

/// A type of arguments. Taking one cannot fail, so that all are owned before anything does.
trait Argument {
    fn take(value: u64) -> Self;
}

impl Argument for RawTensor {
    fn take(value: u64) -> Self {
        RawTensor::take(value)
    }
}

impl Argument for i64 {
    fn take(value: u64) -> Self {
        value.cast_signed()
    }
}

impl Argument for f64 {
    fn take(value: u64) -> Self {
        f64::from_bits(value)
    }
}

/// What an operator returns.
trait Results {
    fn put(self, results: &mut [u64]);
}

impl Results for () {
    fn put(self, _: &mut [u64]) {}
}

impl Results for Tensor {
    fn put(self, results: &mut [u64]) {
        [self].put(results);
    }
}

impl<const N: usize> Results for [Tensor; N] {
    fn put(self, results: &mut [u64]) {
        for (result, tensor) in results.iter_mut().zip(self) {
            *result = tensor.into_stack();
        }
    }
}

/// `schema => function [types of its arguments]`.
macro_rules! operators {
    ($($schema:literal => $function:path [$($argument:ty),*];)*) => {
        &[$(($schema, {
            extern "C-unwind" fn entry(stack: *mut u64, inputs: u64, outputs: u64) {
                run(stack, inputs, outputs, |given, results| {
                    let mut given = given.iter().copied();
                    let mut next = || given.next().unwrap_or_default();
                    $function($(<$argument as Argument>::take(next())),*)?.put(results);
                    Ok(())
                });
            }
            entry
        })),*]
    };
}

/// `plan` is a [`Plan`](crate::plan::Plan) as a number; `rope_kernels.plan` makes it of words.
const OPERATORS: &[(&str, Entry)] = operators! {
    "rotate(Tensor x, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> Tensor"
        => rotate::rotate [RawTensor, RawTensor, RawTensor, i64, f64];
    "rotate_(Tensor(a!) x, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => rotate::rotate_in_place [RawTensor, RawTensor, RawTensor, i64, f64];
    "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> (Tensor, Tensor)"
        => rotate::rotate_qk [RawTensor, RawTensor, RawTensor, RawTensor, i64, f64];
    "rotate_qk_(Tensor(a!) q, Tensor(b!) k, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => rotate::rotate_qk_in_place [RawTensor, RawTensor, RawTensor, RawTensor, i64, f64];
    "table_gradients(Tensor x, Tensor dy, Tensor cos, int plan=0) -> (Tensor, Tensor)"
        => gradients::table_gradients [RawTensor, RawTensor, RawTensor, i64];
};

/// Registers the operators; Python calls it once. Returns 0, or 1 if libtorch refused, which has printed the reason.
#[unsafe(no_mangle)]
extern "C" fn rope_kernels_register() -> i32 {
    i32::from(register(c"rope_kernels", OPERATORS).is_err())
}
