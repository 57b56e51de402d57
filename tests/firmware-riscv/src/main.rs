//! rope-core on bare 64-bit RISC-V: no operating system, no allocator, one model's frequencies and one row in static
//! memory. Built with `--cfg rope_rvv` it rotates by vectors, otherwise without.
//!
//! Compares bits with golden values, tells instructions, and ends the emulator with a code.
//! `tests/platforms/firmware.sh` builds and runs it, on a CPU with vectors of several lengths and on one without.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use rope_core::{Backend, Error, Frequencies, FrequencyChunk, Pairing, Rope, Rows, TensorMut};

mod golden {
    //! Golden values, by `build.rs`.
    include!(concat!(env!("OUT_DIR"), "/golden.rs"));
}
mod machine;
#[path = "../../firmware/src/model.rs"]
mod model;

use golden::{COS, COS_GIVEN, POSITION, QUERIES, ROTATED, SIN, SIN_GIVEN};
use machine::{end, instructions, number, text};
use model::{BASE, HEAD_DIM, PAIRS, SCALING, SHAPE};

/// Where the startup code ends.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    text("backends that run: ");
    text(Backend::best().name());
    text("\n");
    end(test().is_ok());
}

/// A failure, of which a line has been printed.
struct Failure;

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        text("a call was refused\n");
        Failure
    }
}

/// Compares with the golden values, and tells instructions.
fn test() -> Result<(), Failure> {
    let mut blocks = [FrequencyChunk::EMPTY; FrequencyChunk::count(HEAD_DIM)];
    let mut row = [0.0; HEAD_DIM];
    let frequencies = Frequencies::new_in(&mut blocks, HEAD_DIM, BASE, &SCALING)?;
    let rows = frequencies.at(&[POSITION])?.rows_in(&mut row)?;
    let (cos, sin) = rows.row(0, 0).ok_or(Failure)?;
    check("cos_is_correctly_rounded", same(cos, &COS))?;
    check("sin_is_correctly_rounded", same(sin, &SIN))?;

    let (cos, sin) = (COS_GIVEN.map(f32::from_bits), SIN_GIVEN.map(f32::from_bits));
    let given = Rows::from_cos_sin(&cos, &sin, [cos.len() / PAIRS, PAIRS], HEAD_DIM)?;
    let mut x = QUERIES.map(f32::from_bits);
    let rope = Rope::new(Pairing::Half);
    let before = instructions();
    rope.rotate(&mut TensorMut::new(&mut x, SHAPE)?, &given)?;
    let after = instructions();
    check("heads_rotated_as_in_hugging_face", same(&x, &ROTATED))?;
    text("firmware cost: two heads of 128 channels rotated: ");
    number(after - before);
    text(" instructions\n");

    let mut scalar = QUERIES.map(f32::from_bits);
    let mut best = scalar;
    let plain = Rope::new(Pairing::Interleaved).with_backend(Backend::Scalar)?;
    plain.rotate(&mut TensorMut::new(&mut scalar, SHAPE)?, &rows)?;
    let rope = Rope::new(Pairing::Interleaved);
    rope.rotate(&mut TensorMut::new(&mut best, SHAPE)?, &rows)?;
    check(
        "interleaved_pairs_have_the_bits_of_scalar",
        same(&best, &scalar.map(f32::to_bits)),
    )?;
    text("test result: ok. 4 passed; 0 failed\n");
    Ok(())
}

fn check(name: &str, fine: bool) -> Result<(), Failure> {
    text("test ");
    text(name);
    text(if fine { " ... ok\n" } else { " ... FAILED\n" });
    if fine { Ok(()) } else { Err(Failure) }
}

fn same(x: &[f32], bits: &[u32]) -> bool {
    x.len() == bits.len() && x.iter().zip(bits).all(|(x, &bits)| x.to_bits() == bits)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    text("panicked\n");
    end(false);
}
