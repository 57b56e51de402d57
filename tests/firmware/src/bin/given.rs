//! The smallest program that rotates: given rows, f32, one pairing. Its size is measured, and it runs to show that the
//! measured code works; `tests/sizes.sh` and `tests/platforms/firmware.sh` build it.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::panic::PanicInfo;

use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use rope_core::{Error, Pairing, Rope, Rows, TensorMut};

const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

#[entry]
fn main() -> ! {
    // Static memory. The attribute turns it into a `&mut`, once.
    static mut QUERY: [f32; HEADS * HEAD_DIM] = [0.0; HEADS * HEAD_DIM];
    static mut ROW: [f32; HEAD_DIM] = [0.0; HEAD_DIM];

    // A quarter turn, which is exact: cos 0, sin 1.
    ROW[HEAD_DIM / 2..].fill(1.0);
    for (channel, x) in (1_u16..).zip(QUERY.iter_mut()) {
        *x = f32::from(channel);
    }
    let rotated = rotate(black_box(&mut *QUERY), black_box(&*ROW)).is_ok()
        && QUERY
            .chunks_exact(HEAD_DIM)
            .zip(0_u16..)
            .all(|(head, index)| {
                let (first, second) = head.split_at(HEAD_DIM / 2);
                let was = |channel: u16| f32::from(index * HEAD_DIM as u16 + channel + 1);
                let pairs = (0_u16..).zip(first.iter().zip(second));
                let mut pairs = pairs
                    .map(|(pair, (x, y))| (*x, *y, was(pair), was(pair + HEAD_DIM as u16 / 2)));
                pairs.all(|(x, y, x_was, y_was)| x == -y_was && y == x_was)
            });
    debug::exit(if rotated { EXIT_SUCCESS } else { EXIT_FAILURE });
    loop {}
}

#[inline(never)]
fn rotate(x: &mut [f32], row: &[f32]) -> Result<(), Error> {
    let rows = Rows::new(row, [1, HEAD_DIM])?;
    Rope::new(Pairing::Half).rotate(&mut TensorMut::new(x, [1, 1, HEADS, HEAD_DIM])?, &rows)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    debug::exit(EXIT_FAILURE);
    loop {}
}
