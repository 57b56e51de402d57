//! The C API's own parts: enumerations, structs, handles, memory of the caller, statuses and messages. The bodies of
//! rope-harness run their cases over C as well, and compare the bits of every verb.
//!
//! `refusals/*.txt` have the status and the message of each refusal, in the order of the calls; `UPDATE=1` writes them.

#![allow(
    unused_unsafe,
    reason = "the macros of calls also take helpers, which are safe"
)]

use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write;
use std::ptr::{null, null_mut};

use c::{detail, full_rows, in_slots, moved_by, moved_from, strided_rows, tensor_at, zero};
use half::{bf16, f16};
use rope::*;
use rope_core::{
    Backend, Element, Frequencies, Layout, Pairing, Positions, Rope, Rows, Scaling, Tensor,
    TensorMut, Yarn,
};

#[path = "../../../tests/src/c.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the suites need more, and their crate exports it"
)]
mod c;
#[path = "../src/dialect.rs"]
mod dialect;
#[path = "../../../tests/src/gguf.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the crate of the suites exports it"
)]
mod gguf;
#[path = "../../../tests/src/snapshot.rs"]
#[allow(unreachable_pub, reason = "the crate of the suites exports it")]
mod snapshot;

const SHAPE: [usize; 4] = [2, 5, 3, 64];
const LEN: usize = 2 * 5 * 3 * 64;

/// Makes a call. Pointers lead to the stated memory, or are null or misaligned; lengths may exceed any memory.
macro_rules! call {
    ($call:expr) => {
        // SAFETY: the arguments are as above, and a freed handle is not used again.
        unsafe { $call }
    };
}

/// Makes calls that succeed.
macro_rules! ok {
    ($($call:expr),+ $(,)?) => {$(
        let status = call!($call);
        assert_eq!(status, rope_status::Ok, "{}: {}", stringify!($call), detail());
    )+};
}

/// Makes calls that are refused, and adds their refusals to the text of the test.
macro_rules! refused {
    ($refusals:expr, $($call:expr),+ $(,)?) => {$(
        let status = call!($call);
        $refusals.add(status, stringify!($call));
    )+};
}

/// Refuses a call with one pointer after the other null, then misaligned: the message has the parameter's name.
macro_rules! each {
    ($call:expr; $($name:ident = $pointer:expr),+ $(,)?) => {
        for (spoilt, name) in [$(stringify!($name)),+].into_iter().enumerate() {
            for (wrong, is) in [
                (rope_status::Null, "NULL; it must point to the memory that"),
                (rope_status::Misaligned, "misaligned; its address must be a multiple of"),
            ] {
                let mut index = 0..;
                let ($($name,)+) =
                    ($(Pointer::spoil($pointer, index.next() == Some(spoilt), wrong),)+);
                let (status, text) = (call!($call), detail());
                let case = concat!(stringify!($call), ": ");
                assert_eq!(status, wrong, "{case}{name} is {is}");
                assert!(text.starts_with(&format!("{name} is {is}")), "{case}{text}");
            }
        }
    };
}

/// Returns a copy of a struct with other members.
macro_rules! with {
    ($all:expr; $($($member:ident).+ = $value:expr),+ $(,)?) => {{
        let mut all = $all;
        $(all.$($member).+ = $value;)+
        all
    }};
}

/// Returns a list of tuples.
macro_rules! rows {
    ($($($cell:expr),+;)+) => { [$(($($cell),+)),+] };
}

/// Makes a call with changed arguments, a copy for each line, and adds its refusals.
macro_rules! spoil {
    ($refusals:expr, $all:ident => $call:expr; $($change:expr;)+) => {$({
        let mut $all = $all;
        $change;
        $refusals.add(call!($call), stringify!($change));
    })+};
}

/// Compares the text of a test's refusals with its file, whose numbers are those of a 64-bit machine.
macro_rules! compare {
    ($refusals:expr, $name:literal) => {
        if cfg!(target_pointer_width = "64") {
            crate::snapshot!(concat!("tests/refusals/", $name, ".txt"), &$refusals.0);
        }
    };
}

#[path = "calls/caches.rs"]
mod caches;
#[path = "calls/frequencies.rs"]
mod frequencies;
#[path = "calls/gradients.rs"]
mod gradients;
#[path = "calls/mixed.rs"]
mod mixed;
#[path = "calls/models.rs"]
mod models;
#[path = "calls/names.rs"]
mod names;
#[path = "calls/operands.rs"]
mod operands;
#[path = "calls/parts.rs"]
mod parts;
#[path = "calls/pointers.rs"]
mod pointers;
#[path = "calls/prepared.rs"]
mod prepared;
#[path = "calls/rows.rs"]
mod rows;

/// The refusals of a test: a line for each status and message.
#[derive(Default)]
struct Refusals(String);

impl Refusals {
    #[track_caller]
    fn add(&mut self, status: rope_status, call: &str) {
        assert_ne!(status, rope_status::Ok, "accepted: {call}\n{}", self.0);
        writeln!(self.0, "{status:?}: {}", detail()).expect("a text grows");
    }
}

/// An argument that can be spoilt.
trait Pointer {
    type Raw;
    fn spoil(self, spoils: bool, wrong: rope_status) -> Self::Raw;
}

macro_rules! pointers {
    ($($pointer:ty => $raw:ty;)*) => {$(
        impl<T> Pointer for $pointer {
            type Raw = $raw;
            fn spoil(self, spoils: bool, wrong: rope_status) -> $raw {
                let right: $raw = self;
                match wrong {
                    _ if !spoils => right,
                    rope_status::Null => right.wrapping_byte_sub(right.addr()),
                    _ => right.wrapping_byte_add(1),
                }
            }
        }
    )*};
}
pointers! {
    &T => *const T;
    &mut T => *mut T;
    *const T => *const T;
    *mut T => *mut T;
}

trait Number: Element + PartialEq + std::fmt::Debug {
    const ELEMENT: rope_element;
    fn from_f32(x: f32) -> Self;
}

macro_rules! number {
    ($($type:ty = $element:ident, $from:expr;)*) => {$(
        impl Number for $type {
            const ELEMENT: rope_element = rope_element::$element;
            fn from_f32(x: f32) -> Self {
                $from(x)
            }
        }
    )*};
}
number! {
    f32 = F32, |x| x;
    f16 = F16, f16::from_f32;
    bf16 = Bf16, bf16::from_f32;
}

fn values<E: Number>(len: usize) -> Vec<E> {
    let value = |i: usize| E::from_f32((i * 7 % 31) as f32 / 8.0 - 1.7);
    (0..len).map(value).collect()
}

fn layout(shape: [usize; 4]) -> rope_layout {
    Layout::bshd(shape).expect("a layout").into()
}

fn tensor<E: Number>(x: &mut [E], shape: [usize; 4]) -> rope_operand {
    let (data, element) = (x.as_mut_ptr().cast(), E::ELEMENT as i32);
    tensor_at(data, x.len(), element, layout(shape))
}

/// Returns a tensor that is only read.
fn view<E: Number>(x: &[E], shape: [usize; 4]) -> rope_operand {
    let (data, element) = (x.as_ptr().cast_mut().cast(), E::ELEMENT as i32);
    tensor_at(data, x.len(), element, layout(shape))
}

fn plan(pairing: rope_pairing) -> rope_plan {
    with!(zero::<rope_plan>(); pairing = pairing as i32)
}

/// Returns a plan with half pairing and stages.
fn stages(norm: *const rope_norm, scale: *const rope_scale) -> rope_plan {
    with!(plan(rope_pairing::Half); norm = norm, scale = scale)
}

fn norm(formula: rope_norm_formula) -> rope_norm {
    let mut norm = zero();
    ok!(rope_norm_init(&mut norm, formula as i32, 1e-6));
    norm
}

fn weights<E: Number>(values: &[E]) -> rope_weights {
    rope_weights {
        data: values.as_ptr().cast(),
        count: values.len(),
        element: E::ELEMENT as i32,
    }
}

fn ids<T>(values: &[T], number: rope_number) -> rope_ids {
    rope_ids {
        values: values.as_ptr().cast(),
        count: values.len(),
        number: number as i32,
    }
}

fn range(first: usize, count: usize) -> rope_slots {
    with!(zero::<rope_slots>(); kind = rope_slots_kind::Range as i32, first = first, count = count)
}

fn mapping<T>(slots: &[T], number: rope_number) -> rope_slots {
    let slots = ids(slots, number);
    with!(zero::<rope_slots>(); kind = rope_slots_kind::Mapping as i32, slots = slots)
}

/// Returns the layout of a cache whose blocks have the slots, heads and channels in this order.
fn nhd([blocks, size, heads, head_dim]: [usize; 4]) -> rope_cache_layout {
    let kind = rope_cache_layout_kind::Nhd;
    let extents = [blocks, size, heads, head_dim, 0];
    with!(zero::<rope_cache_layout>(); kind = kind as i32, extents = extents)
}

/// Returns a cache in all of this memory.
fn cache<T>(memory: &mut [T], format: rope_cache_format, layout: rope_cache_layout) -> rope_cache {
    let (data, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
    with!(zero::<rope_cache>(); memory = data, bytes = bytes, format = format as i32, layout = layout)
}

fn quant_scale(kind: rope_quant_scale_kind, same: f32) -> rope_quant_scale {
    with!(zero::<rope_quant_scale>(); kind = kind as i32, same = same)
}

fn positions<T>(kind: rope_positions_kind, values: &[T], number: rope_number) -> rope_positions {
    let values = (values.as_ptr().cast(), values.len());
    with!(rope_positions_per_token(values.0, values.1, number as i32); kind = kind as i32)
}

/// Returns joined rows of frequencies at positions from one on.
fn table(rotary_dim: usize, first: i64, tokens: usize) -> Vec<f32> {
    let frequencies = Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default).expect("valid");
    let mut values = vec![0.0; tokens * rotary_dim];
    let angles = frequencies
        .at(first..first + tokens as i64)
        .expect("positions");
    angles.rows_in(&mut values).expect("room");
    values
}

/// Returns joined rows as an operand's angles.
fn joined(values: &[f32], rotary_dim: usize) -> rope_angles {
    rope_rows_joined(values.as_ptr(), values.len(), rotary_dim)
}

/// Returns the rows with these ids.
fn by_ids<T>(rows: rope_angles, ids: &[T], number: rope_number) -> rope_angles {
    let (values, count) = (ids.as_ptr().cast(), ids.len());
    with!(rows; ids = values, ids_count = count, ids_number = number as i32)
}

/// Returns the first place in memory that is aligned as handles are: a refusal counts the bytes up to there as well.
fn aligned(memory: &mut [u8]) -> *mut c_void {
    let start = memory.as_mut_ptr();
    start.wrapping_add(start.align_offset(64)).cast()
}

/// Returns the number after the last of an enumeration: it names nothing, however long the list grows.
fn next<T: Copy>(all: &[T], number: impl Fn(T) -> i32) -> i32 {
    all.iter().copied().map(number).max().expect("a value") + 1
}

/// Frequencies on the heap, freed at the end.
struct Owned(*mut rope_frequencies);

impl Owned {
    fn new(rotary_dim: usize) -> Self {
        let axes = rope_axes_text(rotary_dim);
        Owned::make(|out| call!(rope_frequencies_new(&axes, 10_000.0, null(), out)))
    }

    #[track_caller]
    fn make(make: impl FnOnce(&mut *mut rope_frequencies) -> rope_status) -> Self {
        let mut made = null_mut();
        assert_eq!(make(&mut made), rope_status::Ok, "{}", detail());
        Owned(made)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        ok!(rope_frequencies_free(self.0));
    }
}
