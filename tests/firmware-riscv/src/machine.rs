//! QEMU's machine `virt`: the startup code, a serial line, the instruction counter, and the way out.

use core::arch::{asm, global_asm};

// The status bits of floats and vectors, which a CPU without vectors ignores; the stack; zeros.
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _start",
    "_start:",
    "li t0, 0x6600",
    "csrs mstatus, t0",
    "la sp, stack_top",
    "la t0, bss_start",
    "la t1, bss_end",
    "1: bgeu t0, t1, 2f",
    "sd zero, 0(t0)",
    "addi t0, t0, 8",
    "j 1b",
    "2: call main",
);

const SERIAL: usize = 0x1000_0000;
const WAY_OUT: usize = 0x10_0000;

/// Prints a text.
pub fn text(text: &str) {
    for byte in text.bytes() {
        // SAFETY: the transmit register of the machine's serial line.
        unsafe { core::ptr::write_volatile(SERIAL as *mut u8, byte) };
    }
}

/// Prints a number in decimal.
pub fn number(number: u64) {
    if number > 9 {
        self::number(number / 10);
    }
    let digit = [b'0' + (number % 10) as u8];
    text(str::from_utf8(&digit).unwrap_or_default());
}

/// Instructions since the start.
pub fn instructions() -> u64 {
    let count;
    // SAFETY: reads a counter, as the mode in which a machine starts may.
    unsafe { asm!("csrr {}, minstret", out(reg) count, options(nomem, nostack)) };
    count
}

/// Ends the emulator, with the code 0 if all was well and with 1 if not.
pub fn end(fine: bool) -> ! {
    let code: u32 = if fine { 0x5555 } else { 0x1_3333 };
    loop {
        // SAFETY: the register by which the machine is switched off.
        unsafe { core::ptr::write_volatile(WAY_OUT as *mut u32, code) };
    }
}
