//! How deep a call's stack is: what lies below the stack pointer is painted first.

use core::arch::asm;
use core::ptr;

const PAINT: u32 = 0x5eed_5eed;
/// More than is used, and less than there is.
const DEPTH: u32 = 64 << 10;
/// For the painter's own frame.
const FRAME: u32 = 64;

/// Bytes of stack that a call takes.
#[inline(never)]
pub fn used(work: impl FnOnce()) -> u32 {
    let top = pointer();
    paint(top);
    work();
    let mut at = top - DEPTH;
    // SAFETY: stack, which `paint` wrote.
    while at < top && unsafe { ptr::read_volatile(at as *const u32) } == PAINT {
        at += 4;
    }
    top - at
}

#[inline(never)]
fn paint(top: u32) {
    let mut at = top - DEPTH;
    while at < pointer() - FRAME {
        // SAFETY: between the static memory, some kilobytes of four megabytes, and the stack pointer is memory that
        // nothing uses.
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
