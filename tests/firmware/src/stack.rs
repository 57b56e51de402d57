//! The stack depth of a call: the memory below the stack pointer is painted before the call.

use core::arch::asm;
use core::ptr;

const PAINT: u32 = 0x5eed_5eed;
/// Painted bytes: more than a call uses, and less than the stack has.
const DEPTH: u32 = 64 << 10;
/// Bytes for the painter's own frame.
const FRAME: u32 = 64;

/// Returns the bytes of stack that a call uses.
#[inline(never)]
pub fn used(work: impl FnOnce()) -> u32 {
    let top = pointer();
    paint(top);
    work();
    let mut at = top - DEPTH;
    // SAFETY: stack memory that `paint` has written.
    while at < top && unsafe { ptr::read_volatile(at as *const u32) } == PAINT {
        at += 4;
    }
    top - at
}

#[inline(never)]
fn paint(top: u32) {
    let mut at = top - DEPTH;
    while at < pointer() - FRAME {
        // SAFETY: nothing uses the memory between the static data, some kilobytes of four megabytes, and the stack
        // pointer.
        unsafe { ptr::write_volatile(at as *mut u32, PAINT) };
        at += 4;
    }
}

#[inline(always)]
fn pointer() -> u32 {
    let pointer: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
