//! rope-core on a Cortex-M4F: no allocator, the frequencies of one model and one row in static memory.
//!
//! Rotates, compares bits with golden values, prints the costs in memory and time, and ends the emulator with a code.
//! `tests/platforms/firmware.sh` builds and runs it.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use rope_core::{
    Backend, Direction, Error, Frequencies, FrequencyChunk, Pairing, Rope, Rows, TensorMut,
};

mod golden {
    //! Golden values, written by `build.rs`.
    include!(concat!(env!("OUT_DIR"), "/golden.rs"));
}
mod model;
mod print;
mod stack;
mod time;

use golden::{COS, COS_GIVEN, POSITION, QUERIES, ROTATED, SIN, SIN_GIVEN};
use model::{BASE, HEAD_DIM, HEADS, PAIRS, SCALING, SHAPE};
use print::Line;
use time::Clock;

#[entry]
fn main() -> ! {
    // Static memory. The attribute turns it into a `&mut`, once.
    static mut BLOCKS: [FrequencyChunk; FrequencyChunk::count(HEAD_DIM)] =
        [FrequencyChunk::EMPTY; FrequencyChunk::count(HEAD_DIM)];
    static mut ROW: [f32; HEAD_DIM] = [0.0; HEAD_DIM];
    static mut QUERY: [f32; HEADS * HEAD_DIM] = [0.0; HEADS * HEAD_DIM];

    Line::new("backends that run: ")
        .text(Backend::best().name())
        .end();
    let passed = test(BLOCKS, ROW, QUERY).and_then(|passed| {
        costs(BLOCKS, ROW, QUERY)?;
        Ok(passed)
    });
    if let Ok(passed) = passed {
        Line::new("test result: ok. ")
            .number(passed)
            .text(" passed; 0 failed")
            .end();
    }
    debug::exit(if passed.is_ok() {
        EXIT_SUCCESS
    } else {
        EXIT_FAILURE
    });
    loop {}
}

/// A failure whose message has been printed.
struct Failure;

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Line::new("a call was refused").end();
        Failure
    }
}

/// Compares with the golden values and returns the number of comparisons.
fn test(blocks: &mut [FrequencyChunk], row: &mut [f32], x: &mut [f32]) -> Result<u32, Failure> {
    let mut passed = 0;
    let mut check = |name: &str, fine: bool| {
        Line::new("test ")
            .text(name)
            .text(if fine { " ... ok" } else { " ... FAILED" })
            .end();
        passed += 1;
        if fine { Ok(()) } else { Err(Failure) }
    };

    // Once per model.
    let frequencies = Frequencies::new_in(blocks, HEAD_DIM, BASE, &SCALING)?;
    let rope = Rope::new(Pairing::Half);

    // Once per token.
    let rows = frequencies.at(&[POSITION])?.rows_in(row)?;
    let (cos, sin) = rows.row(0, 0).ok_or(Failure)?;
    check("cos_is_correctly_rounded", same(cos, &COS))?;
    check("sin_is_correctly_rounded", same(sin, &SIN))?;

    // Per layer: with the cos and sin of the golden file.
    let (cos, sin) = (COS_GIVEN.map(f32::from_bits), SIN_GIVEN.map(f32::from_bits));
    let given = Rows::from_cos_sin(&cos, &sin, [cos.len() / PAIRS, PAIRS], HEAD_DIM)?;
    set(x);
    rope.rotate(&mut TensorMut::new(&mut *x, SHAPE)?, &given)?;
    check("heads_rotated_as_in_hugging_face", same(x, &ROTATED))?;

    // With the crate's own cos and sin, made before the rotation or during it.
    set(x);
    rope.rotate(&mut TensorMut::new(&mut *x, SHAPE)?, &rows)?;
    let mut other = QUERIES.map(f32::from_bits);
    rope.rotate(
        &mut TensorMut::new(&mut other, SHAPE)?,
        &frequencies.at(&[POSITION])?,
    )?;
    check(
        "rotate_at_gives_the_bits_of_rotate",
        same(x, &other.map(f32::to_bits)),
    )?;

    rope.with_direction(Direction::Inverse)
        .rotate(&mut TensorMut::new(&mut *x, SHAPE)?, &rows)?;
    let near = x
        .iter()
        .zip(&QUERIES)
        .all(|(x, &was)| (x - f32::from_bits(was)).abs() < 2e-6);
    check("the_inverse_turns_back", near)?;
    Ok(passed)
}

fn same(x: &[f32], bits: &[u32]) -> bool {
    x.len() == bits.len() && x.iter().zip(bits).all(|(x, &bits)| x.to_bits() == bits)
}

fn set(x: &mut [f32]) {
    for (x, &bits) in x.iter_mut().zip(&QUERIES) {
        *x = f32::from_bits(bits);
    }
}

/// Prints instructions and stack.
fn costs(blocks: &mut [FrequencyChunk], row: &mut [f32], x: &mut [f32]) -> Result<(), Failure> {
    let clock = Clock::new().ok_or(Failure)?;
    let cost = |name: &str, work: &mut dyn FnMut()| {
        let stack = stack::used(&mut *work);
        Line::new("firmware cost: ")
            .text(name)
            .text(": ")
            .number(clock.measure(work))
            .text(" instructions, ")
            .number(stack)
            .text(" bytes of stack")
            .end();
    };
    // `test` has checked the results.
    cost("the frequencies of a model, 64 pairs", &mut || {
        let _ = Frequencies::new_in(blocks, HEAD_DIM, BASE, &SCALING);
    });
    let frequencies = Frequencies::new_in(blocks, HEAD_DIM, BASE, &SCALING)?;
    cost("a row of 64 pairs", &mut || {
        let angles = frequencies.at(&[POSITION]);
        let _ = angles.and_then(|angles| angles.rows_in(row).map(drop));
    });
    // A position too large for doubles.
    cost("a row of 64 pairs by integers alone", &mut || {
        let angles = frequencies.at(&[i64::MAX]);
        let _ = angles.and_then(|angles| angles.rows_in(row).map(drop));
    });
    let rows = frequencies.at(&[POSITION])?.rows_in(row)?;
    let rope = Rope::new(Pairing::Half);
    let mut x = TensorMut::new(x, SHAPE)?;
    cost("two heads of 128 channels rotated by it", &mut || {
        let _ = rope.rotate(&mut x, &rows);
    });
    let interleaved = Rope::new(Pairing::Interleaved);
    cost("the same with interleaved pairs", &mut || {
        let _ = interleaved.rotate(&mut x, &rows);
    });
    cost("two heads with a row made on the stack", &mut || {
        let angles = frequencies.at(&[POSITION]);
        let _ = angles.and_then(|angles| rope.rotate(&mut x, &angles));
    });
    Ok(())
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    Line::new("panicked").end();
    debug::exit(EXIT_FAILURE);
    loop {}
}
