//! All that leads to a kernel. No function is generic, so each is compiled here, with what it instantiates.
use half::{bf16, f16};
use rope_core::axes::Axes;
use rope_core::*;

type Done = Result<(), Error>;

macro_rules! one {
    ($($element:ident: $rotate:ident $parallel:ident $at:ident $qk:ident,)+) => {$(
        pub fn $rotate(x: &mut TensorMut<'_, $element>, rows: &Rows<'_>) -> Done {
            Rope::new(Pairing::Half).rotate(x, rows)?;
            Rope::new(Pairing::Interleaved).with_direction(Direction::Inverse).rotate(x, rows)
        }

        pub fn $parallel(x: &mut TensorMut<'_, $element>, rows: &Rows<'_>) -> Done {
            Rope::new(Pairing::Half).with_threads().rotate(x, rows)
        }

        pub fn $at(x: &mut TensorMut<'_, $element>, frequencies: &Frequencies<'_>) -> Done {
            Rope::new(Pairing::Half).rotate(x, &frequencies.at(7..9)?)?;
            Rope::new(Pairing::Interleaved).rotate(x, &frequencies.at(&[7, 9])?)
        }

        pub fn $qk(
            q: &mut TensorMut<'_, $element>,
            k: &mut TensorMut<'_, $element>,
            other: &mut TensorMut<'_, f32>,
            rows: &Rows<'_>,
        ) -> Done {
            Rope::new(Pairing::Half).rotate_qk(q, k, rows)?;
            Rope::new(Pairing::Interleaved).rotate_qk(q, other, rows)
        }
    )+};
}
one! {
    f32: rotate_f32 rotate_parallel_f32 rotate_at_f32 rotate_qk_f32,
    f16: rotate_f16 rotate_parallel_f16 rotate_at_f16 rotate_qk_f16,
    bf16: rotate_bf16 rotate_parallel_bf16 rotate_at_bf16 rotate_qk_bf16,
}

macro_rules! two {
    ($($name:ident: $input:ident $output:ident,)+) => {$(
        pub fn $name(x: &Tensor<'_, $input>, y: &mut TensorMut<'_, $output>, rows: &Rows<'_>) -> Done {
            for pairing in Pairing::ALL {
                Rope::new(Pairing::Half).with_output_pairing(pairing).rotate_into(x, y, rows)?;
                Rope::new(Pairing::Interleaved).with_output_pairing(pairing).rotate_into(x, y, rows)?;
            }
            Ok(())
        }
    )+};
}
two! {
    rotate_f32_into_f32: f32 f32, rotate_f32_into_f16: f32 f16, rotate_f32_into_bf16: f32 bf16,
    rotate_f16_into_f32: f16 f32, rotate_f16_into_f16: f16 f16, rotate_f16_into_bf16: f16 bf16,
    rotate_bf16_into_f32: bf16 f32, rotate_bf16_into_f16: bf16 f16, rotate_bf16_into_bf16: bf16 bf16,
}

pub fn rotate_by_all_rows(x: &mut TensorMut<'_, f32>) -> Done {
    let rope = Rope::new(Pairing::Half);
    let mut storage = [0.0; 1024];
    let mut blocks = [FrequencyChunk::EMPTY; FrequencyChunk::count(128)];
    let yarn = Scaling::Yarn(Yarn::new(4.0, 4096));

    let frequencies = Frequencies::new(Axes::mrope_interleaved(128, [24, 20, 20]), 5e6, &yarn)?;
    rope.rotate(x, &frequencies.rows(Positions::axis_major(&[1, 2, 3]))?)?;
    rope.rotate(
        x,
        &frequencies.rows(Positions::token_major(&[0.5, 2.0, 3.0]))?,
    )?;
    let frequencies = Frequencies::new_in(&mut blocks, 128, 1e4, &yarn)?;
    rope.rotate(x, &frequencies.at(&[3_u32, 4])?.rows_in(&mut storage)?)?;
    let frequencies = Frequencies::from_inverse(4, &[1.0_f32, 0.5], 1.0)?;
    rope.rotate(x, &frequencies.rows(1000..1010)?)?;
    let table = Frequencies::new(128, 1e4, &Scaling::Default)?.rows(0..100)?;
    rope.rotate(x, &table.gather(&[5_i32, 7])?)?;
    rope.rotate(x, &table.narrow(3..9)?)?;
    rope.rotate(x, &Rows::new(&storage, [8, 128])?)
}
