//! The operators: their schemas, and how a kernel takes its arguments off the stack.

use crate::shim::{Entry, RawTensor, Tensor, register, run};
use crate::tables::RawRows;
use crate::{caches, config, gradients, norms, rotate};

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

/// The result of an operator.
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

/// `schema => (arguments: types) body;`
macro_rules! operators {
    ($($schema:literal => |$($name:ident: $argument:ty),*| $body:expr;)*) => {
        &[$(($schema, {
            extern "C-unwind" fn entry(stack: *mut u64, inputs: u64, outputs: u64) {
                run(stack, inputs, outputs, |given, results| {
                    let mut given = given.iter().copied();
                    let mut next = || given.next().unwrap_or_default();
                    let ($($name,)*) = ($(<$argument as Argument>::take(next()),)*);
                    $body?.put(results);
                    Ok(())
                });
            }
            entry
        })),*]
    };
}

type T = RawTensor;

fn rows(cos: T, sin: T) -> RawRows {
    RawRows {
        cos,
        sin,
        ids: None,
    }
}

fn rows_at(cos: T, sin: T, ids: T) -> RawRows {
    RawRows {
        cos,
        sin,
        ids: Some(ids),
    }
}

/// `plan` is a [`Plan`](crate::plan::Plan) as a number; `rope_kernels.plan` makes it of words. Arguments have the order
/// of their schema.
const OPERATORS: &[(&str, Entry)] = operators! {
    "rotate(Tensor x, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> Tensor"
        => |x: T, cos: T, sin: T, plan: i64, factor: f64| rotate::rotate(x, rows(cos, sin), plan, factor);
    "rotate_(Tensor(a!) x, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => |x: T, cos: T, sin: T, plan: i64, factor: f64| rotate::rotate_in_place(x, rows(cos, sin), plan, factor);
    "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> (Tensor, Tensor)"
        => |q: T, k: T, cos: T, sin: T, plan: i64, factor: f64|
            rotate::rotate_qk(q, k, rows(cos, sin), plan, factor);
    "rotate_qk_(Tensor(a!) q, Tensor(b!) k, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => |q: T, k: T, cos: T, sin: T, plan: i64, factor: f64|
            rotate::rotate_qk_in_place([q, k], rows(cos, sin), plan, factor, false);
    "rotate_at(Tensor x, Tensor cos, Tensor sin, Tensor ids, int plan=0, float attention_factor=1.0) -> Tensor"
        => |x: T, cos: T, sin: T, ids: T, plan: i64, factor: f64|
            rotate::rotate(x, rows_at(cos, sin, ids), plan, factor);
    "rotate_at_(Tensor(a!) x, Tensor cos, Tensor sin, Tensor ids, int plan=0, float attention_factor=1.0) -> ()"
        => |x: T, cos: T, sin: T, ids: T, plan: i64, factor: f64|
            rotate::rotate_in_place(x, rows_at(cos, sin, ids), plan, factor);
    "rotate_qk_at(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor ids, int plan=0, float attention_factor=1.0) \
        -> (Tensor, Tensor)"
        => |q: T, k: T, cos: T, sin: T, ids: T, plan: i64, factor: f64|
            rotate::rotate_qk(q, k, rows_at(cos, sin, ids), plan, factor);
    "rotate_qk_at_(Tensor(a!) q, Tensor(b!) k, Tensor cos, Tensor sin, Tensor ids, int plan=0, \
        float attention_factor=1.0) -> ()"
        => |q: T, k: T, cos: T, sin: T, ids: T, plan: i64, factor: f64|
            rotate::rotate_qk_in_place([q, k], rows_at(cos, sin, ids), plan, factor, false);
    "check_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => |q: T, k: T, cos: T, sin: T, plan: i64, factor: f64|
            rotate::rotate_qk_in_place([q, k], rows(cos, sin), plan, factor, true);
    "check_qk_at(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor ids, int plan=0, float attention_factor=1.0) -> ()"
        => |q: T, k: T, cos: T, sin: T, ids: T, plan: i64, factor: f64|
            rotate::rotate_qk_in_place([q, k], rows_at(cos, sin, ids), plan, factor, true);
    "table_gradients(Tensor x, Tensor dy, Tensor cos, int plan=0) -> (Tensor, Tensor)"
        => |x: T, dy: T, cos: T, plan: i64| gradients::table_gradients(x, dy, cos, plan);
    "config_rotation(Tensor config) -> Tensor"
        => |config: T| config::config_rotation(config);
    "config_refusal(Tensor config) -> Tensor"
        => |config: T| config::config_refusal(config);
    "config_ignored(Tensor config) -> Tensor"
        => |config: T| config::config_ignored(config);
    "config_rows(Tensor config, Tensor positions, int pairs, int plan=0) -> (Tensor, Tensor)"
        => |config: T, positions: T, pairs: i64, plan: i64| config::config_rows(config, positions, pairs, plan);
    "config_shift(Tensor config, Tensor deltas, int pairs, int plan=0) -> (Tensor, Tensor)"
        => |config: T, deltas: T, pairs: i64, plan: i64| config::config_shift(config, deltas, pairs, plan);
    "config_shift_from(Tensor config, Tensor old, Tensor before, Tensor after, int pairs, int plan=0) -> (Tensor, Tensor)"
        => |config: T, old: T, before: T, after: T, pairs: i64, plan: i64|
            config::config_shift_from([config, old], [before, after], pairs, plan);
    "rotate_by_config(Tensor x, Tensor config, Tensor positions, int plan=0) -> Tensor"
        => |x: T, config: T, positions: T, plan: i64| config::rotate_by_config(x, config, positions, plan);
    "rotate_by_config_(Tensor(a!) x, Tensor config, Tensor positions, int plan=0) -> ()"
        => |x: T, config: T, positions: T, plan: i64| config::rotate_by_config_in_place(x, config, positions, plan);
    "norm_rotate_qk_(Tensor(a!) q, Tensor(b!) k, Tensor q_weight, Tensor k_weight, Tensor cos, Tensor sin, float eps, \
        int formula=0, int plan=0) -> ()"
        => |q: T, k: T, q_weight: T, k_weight: T, cos: T, sin: T, eps: f64, formula: i64, plan: i64| {
            let norm = norms::RawNorm { formula, eps };
            norms::norm_rotate_qk_in_place([q, k], [q_weight, k_weight], rows(cos, sin), norm, plan)
        };
    "rotate_into_caches(Tensor k, Tensor v, Tensor cos, Tensor sin, Tensor(a!) key_cache, Tensor(b!) value_cache, \
        Tensor(c!) key_scale, Tensor(d!) value_scale, Tensor(e!) key_zero, Tensor(f!) value_zero, Tensor slots, \
        Tensor weight, float eps, int formula=-1, int format=0, int plan=0, float key_factor=1.0, \
        float value_factor=1.0) -> ()"
        => |k: T, v: T, cos: T, sin: T, key_cache: T, value_cache: T, key_scale: T, value_scale: T, key_zero: T,
            value_zero: T, slots: T, weight: T, eps: f64, formula: i64, format: i64, plan: i64, key_factor: f64,
            value_factor: f64| {
            let norm = (weight, norms::RawNorm { formula, eps });
            let format = (caches::RawFormat(format), [key_factor, value_factor]);
            let caches = ([key_cache, value_cache], [key_scale, value_scale, key_zero, value_zero]);
            caches::rotate_into_caches([k, v], rows(cos, sin), caches, slots, norm, format, plan)
        };
    "rotate_into_latent_cache(Tensor latent, Tensor key, Tensor cos, Tensor sin, Tensor(a!) cache, Tensor slots, \
        Tensor weight, float eps, int formula=-1, int plan=0, int format=0) -> ()"
        => |latent: T, key: T, cos: T, sin: T, cache: T, slots: T, weight: T, eps: f64, formula: i64, plan: i64,
            format: i64| {
            let (caches, norm) = ((cache, slots), (weight, norms::RawNorm { formula, eps }));
            caches::rotate_into_latent_cache([latent, key], rows(cos, sin), caches, norm, (format, plan))
        };
    "read_cache(Tensor cache, Tensor scale, Tensor zero, Tensor slots, Tensor(a!) out, Tensor cos, Tensor sin, \
        int latent=0, int format=0, int plan=0, float factor=1.0) -> ()"
        => |cache: T, scale: T, zero: T, slots: T, out: T, cos: T, sin: T, latent: i64, format: i64, plan: i64,
            factor: f64| {
            let cache = caches::RawCache { tensors: [cache, scale, zero], latent, format, factor };
            caches::read_cache(cache, slots, out, rows(cos, sin), plan)
        };
    "rotate_cache_(Tensor(a!) cache, Tensor(b!) scale, Tensor(c!) zero, Tensor slots, Tensor cos, Tensor sin, \
        int latent=0, int format=0, int plan=0, float factor=1.0) -> ()"
        => |cache: T, scale: T, zero: T, slots: T, cos: T, sin: T, latent: i64, format: i64, plan: i64, factor: f64| {
            let cache = caches::RawCache { tensors: [cache, scale, zero], latent, format, factor };
            caches::rotate_cache_in_place(cache, slots, rows(cos, sin), plan)
        };
    "move_slots(Tensor(a!) cache, Tensor(b!) scale, Tensor(c!) zero, Tensor from_slots, Tensor to_slots, int latent=0, \
        int format=0, float factor=1.0) -> ()"
        => |cache: T, scale: T, zero: T, from: T, to: T, latent: i64, format: i64, factor: f64| {
            let cache = caches::RawCache { tensors: [cache, scale, zero], latent, format, factor };
            caches::move_slots(cache, [from, to])
        };
};

/// An operator that does nothing: the cost of a call.
#[cfg(feature = "probes")]
const PROBES: &[(&str, Entry)] = operators! {
    "nothing(Tensor(a!) x, Tensor cos, Tensor sin, int plan=0, float attention_factor=1.0) -> ()"
        => |x: T, cos: T, sin: T, plan: i64, factor: f64| {
            let _ = (x, cos, sin, plan, factor);
            crate::shim::Result::<()>::Ok(())
        };
};
#[cfg(not(feature = "probes"))]
const PROBES: &[(&str, Entry)] = &[];

/// Registers the operators; Python calls it once. Returns 0, or 1 if libtorch refused, which has printed the reason.
#[unsafe(no_mangle)]
extern "C" fn rope_kernels_register(only_stable: i32) -> i32 {
    let operators = [OPERATORS, PROBES].concat();
    i32::from(register(c"rope_kernels", &operators, only_stable != 0).is_err())
}
