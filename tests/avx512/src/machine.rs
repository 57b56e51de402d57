//! The emulated machine: its start, its serial port, and its end.

use core::arch::{asm, global_asm};
use core::fmt;
use core::panic::PanicInfo;
use core::ptr;

global_asm!(include_str!("boot.s"));

const DATA: u16 = 0x3f8;
const LINE_CONTROL: u16 = DATA + 3;
const LINE_STATUS: u16 = DATA + 5;

/// The first serial port; the emulator writes its output to a file.
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Eight bits of data.
        write_port(LINE_CONTROL, 3);
        for byte in text.bytes() {
            while read_port(LINE_STATUS) & 1 << 5 == 0 {}
            write_port(DATA, byte);
        }
        Ok(())
    }
}

/// Waits for the serial port to send all bytes, then ends the emulator.
pub fn shut_down() -> ! {
    while read_port(LINE_STATUS) & 1 << 6 == 0 {}
    loop {
        for byte in *b"Shutdown" {
            write_port(0x8900, byte);
        }
    }
}

fn write_port(port: u16, value: u8) {
    // SAFETY: the ports belong to a serial port and to the emulator; neither touches memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) }
}

fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: as above.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) }
    value
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = fmt::Write::write_fmt(&mut Serial, format_args!("FAILED: {info}\n"));
    shut_down()
}

// Functions of a C library that the compiler and `core` call.

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _)
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.cast_const() <= from {
        // SAFETY: the caller's promise; a forward copy reads each byte before it overwrites it.
        return unsafe { memcpy(to, from, len) };
    }
    for index in (0..len).rev() {
        // SAFETY: the caller's promise. A volatile write cannot become a call of this function.
        unsafe { to.add(index).write_volatile(*from.add(index)) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear.
    unsafe { asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") value as u8) }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for index in 0..len {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe {
            (
                ptr::read_volatile(a.add(index)),
                ptr::read_volatile(b.add(index)),
            )
        };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, len) }
}

/// `core` was compiled to unwind and refers to this function; a panic ends before it could be called.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
