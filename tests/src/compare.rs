//! Bits, and a message that says where they differ.

use std::fmt::Display;

use crate::{Expected, Number, View};

/// Elements of one byte-wise comparison.
const PART: usize = 64;

/// Asserts the bits of every element of a buffer, in the tensor and around it. A computed NaN may be any NaN.
///
/// # Panics
///
/// At the first element that differs; the message has the operation (`doing`), the index and both bits.
pub fn compare<E: Number>(got: &[E], expected: &Expected<E>, view: &View, doing: &dyn Display) {
    assert_eq!(got.len(), expected.values.len());
    let right = |index: usize| {
        let (got, wanted) = (got[index], expected.values[index]);
        got.bits() == wanted.bits() || expected.computed[index] && got.is_nan() && wanted.is_nan()
    };
    // Compares bytes first: comparing equal elements one by one took a third of the suites' time.
    let parts = got.chunks(PART).zip(expected.values.chunks(PART));
    let wrong = parts.enumerate().find_map(|(part, (got, wanted))| {
        if bytemuck::cast_slice::<E, u8>(got) == bytemuck::cast_slice::<E, u8>(wanted) {
            return None;
        }
        (part * PART..part * PART + got.len()).find(|&index| !right(index))
    });
    if let Some(index) = wrong {
        let place = match view.find(index) {
            Some(element) => format!("element {element:?} of {:?}", view.shape),
            None => format!("outside the tensor {view:?}"),
        };
        let wrong = (0..got.len()).filter(|&index| !right(index)).count();
        panic!(
            "{doing}: {place}, index {index} of {}: expected {:#010x} ({:?}), got {:#010x} ({:?}); {wrong} wrong in all",
            got.len(),
            expected.values[index].bits(),
            expected.values[index],
            got[index].bits(),
            got[index],
        );
    }
}

/// Compares bytes.
///
/// # Panics
///
/// At the first byte that differs, or if the numbers differ; the message has the operation (`doing`).
#[track_caller]
pub fn same_bytes(got: &[u8], expected: &[u8], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
        panic!(
            "{doing}: byte {at} is {:02x}, not {:02x}",
            got[at], expected[at]
        );
    }
}
