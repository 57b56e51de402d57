//! Structs of the C API, from what a case names.

use std::ffi::CStr;
use std::mem::zeroed;
use std::ptr::null_mut;

use rope::*;

/// A plan with half pairing and without stages.
pub const PLAN: rope_plan = rope_plan {
    pairing: rope_pairing::Half as i32,
    ..rope_plan::NONE
};

/// Returns the text of the last refusal.
///
/// # Panics
///
/// If the text cannot be read.
pub fn detail() -> String {
    let mut text = [0_u8; 512];
    // SAFETY: the text has the stated room.
    let status = unsafe { rope_error_detail(text.as_mut_ptr().cast(), text.len()) };
    assert_eq!(status, rope_status::Ok);
    let text = CStr::from_bytes_until_nul(&text).expect("it ends");
    text.to_str().expect("it is UTF-8").to_owned()
}

/// A struct of which all that is not named is zero.
pub fn zero<T: Copy>() -> T {
    // SAFETY: used for structs of numbers and pointers only.
    unsafe { zeroed() }
}

/// The layout of a tensor whose tokens, heads and channels are adjacent.
pub fn bshd(shape: [usize; 4]) -> rope_layout {
    let [_, tokens, heads, head_dim] = shape;
    rope_layout {
        shape,
        strides: [tokens * heads * head_dim, heads * head_dim, head_dim],
    }
}

/// A tensor, as an operand.
pub fn tensor_at(
    data: *mut std::ffi::c_void,
    len: usize,
    element: i32,
    layout: rope_layout,
) -> rope_operand {
    rope_operand {
        data,
        len,
        element,
        layout,
        ..zero()
    }
}

/// Slots of a cache, as an operand.
pub fn in_slots(cache: *const rope_cache, slots: *const rope_slots) -> rope_operand {
    let empty = rope_layout {
        shape: [0; 4],
        strides: [0; 3],
    };
    rope_operand {
        cache,
        slots,
        ..tensor_at(null_mut(), 0, 0, empty)
    }
}

/// The rows that move keys by deltas.
pub fn moved_by(
    frequencies: *const rope_frequencies,
    deltas: *const rope_positions,
) -> rope_angles {
    rope_angles {
        moves: 1,
        ..rope_angles_at(frequencies, deltas)
    }
}

/// The rows that take keys from other frequencies and positions.
pub fn moved_from(
    frequencies: *const rope_frequencies,
    old_frequencies: *const rope_frequencies,
    old_positions: *const rope_positions,
    positions: *const rope_positions,
) -> rope_angles {
    rope_angles {
        old_frequencies,
        old_positions,
        ..moved_by(frequencies, positions)
    }
}

/// Rows that lie as a layout says.
pub fn strided_rows(
    cos: *const f32,
    sin: *const f32,
    len: usize,
    layout: rope_layout,
) -> rope_angles {
    rope_angles {
        layout,
        len,
        ..rope_rows_apart(cos, sin, 0, 0, layout.shape[3].saturating_mul(2))
    }
}

/// Full-width rows.
pub fn full_rows(cos: *const f32, sin: *const f32, rows: usize, rotary_dim: usize) -> rope_angles {
    rope_angles {
        full_width: 1,
        ..rope_rows_apart(cos, sin, rows, rotary_dim, rotary_dim)
    }
}
