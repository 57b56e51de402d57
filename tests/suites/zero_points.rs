//! Unsigned codes with a scale and a zero point per group: the bytes of another program, shifts, moves, NaNs and
//! infinities, any group on every backend, and refusals.

use half::bf16;
use rope_core::cache::{BlockFormat, Cache, CacheLayout, CacheMut};
use rope_core::error::CacheError;
use rope_core::{Backend, Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_tests::compare::same_bytes as same;
use rope_tests::golden::{Bits, Golden};
use rope_tests::quantize::OPENVINO;
use rope_tests::{Number, Source};

use crate::cache::{in_blocks, out_of_blocks};
use crate::models::alike;

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

fn of_numpy<E: Number + Bits>() {
    let (file, e) = (Golden::file("codes4/zero_points.txt"), E::NAME);
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    for format in OPENVINO {
        let name = format.name;
        let expected = file.bits::<u8>(&format!("{name}_{e}"));
        let values: Vec<f32> = file.bits(&format!("{name}_dequant_{e}"));
        for backend in Backend::available() {
            // One group, and several, whose rests fill no vector.
            for head_dim in [1, 2, 7].map(|groups| groups * format.values) {
                let doing = format!("{backend}, {name} of {e}, heads of {head_dim}");
                same(&in_blocks(backend, &x, head_dim, format), &expected, &doing);
                let got = out_of_blocks(backend, &expected, head_dim, format);
                alike(&got, &values, &doing);
            }
        }
    }
}

#[test]
fn bytes_of_numpy() {
    of_numpy::<f32>();
    of_numpy::<bf16>();
}

/// The sizes of a head of 128 channels, and the order of its bytes: scale, zero point, codes.
#[test]
fn bytes_of_a_head() {
    let layout = CacheLayout::nhd([1, 1, 1, 128]).expect("a small cache");
    let bytes = OPENVINO.map(|format| layout.bytes(format).expect("few"));
    assert_eq!(bytes, [160, 144, 136, 96, 80, 72]);
    let x: Vec<f32> = (0..32).map(|i| (i % 16) as f32 - 4.0).collect();
    for backend in Backend::available() {
        let head = in_blocks(backend, &x, 32, BlockFormat::U4_IN_32);
        assert_eq!(head[..4], 1.0_f32.to_le_bytes(), "{backend}");
        assert_eq!(head[4..8], 4.0_f32.to_le_bytes(), "{backend}");
        // The even channel is in the high half.
        assert_eq!(head[8..12], [0x01, 0x23, 0x45, 0x67], "{backend}");
        let head = in_blocks(backend, &x, 32, BlockFormat::U8_IN_32);
        assert_eq!(head[8..12], [0, 17, 34, 51], "{backend}");
    }
}

/// NaNs do not count in bounds and have code 0; a group of NaNs, or with an infinity, decodes to NaNs.
#[test]
fn nans_and_infinities() {
    let plain: Vec<f32> = (0..128).map(|i| i as f32 - 40.25).collect();
    for format in OPENVINO {
        let most = if format.bytes > format.values {
            255
        } else {
            15
        };
        let expected = in_blocks(Backend::Scalar, &plain, 128, format);
        for nan in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0xffff_ffff] {
            let mut x = plain.clone();
            x[6] = f32::from_bits(nan);
            let nans = vec![f32::from_bits(nan); 128];
            for backend in Backend::available() {
                let doing = format!("{backend}, {}, {nan:08x}", format.name);
                let mut expected = expected.clone();
                if most == 255 {
                    expected[8 + 6] = 0;
                } else {
                    expected[8 + 3] &= 0x0f;
                }
                same(&in_blocks(backend, &x, 128, format), &expected, &doing);
                let bytes = in_blocks(backend, &nans, 128, format);
                let values = out_of_blocks(backend, &bytes, 128, format);
                assert!(values.iter().all(|x| x.is_nan()), "{doing}");
            }
        }
        for infinities in [
            [f32::INFINITY, 1.0],
            [f32::NEG_INFINITY, 1.0],
            [f32::INFINITY, f32::NEG_INFINITY],
        ] {
            let mut x = plain.clone();
            x[5..7].copy_from_slice(&infinities);
            let expected = in_blocks(Backend::Scalar, &x, 128, format);
            for backend in Backend::available() {
                let doing = format!("{backend}, {}, {infinities:?}", format.name);
                let got = in_blocks(backend, &x, 128, format);
                same(&got, &expected, &doing);
                let values = out_of_blocks(backend, &got, 128, format);
                let group = &values[..format.values];
                assert!(group.iter().all(|x| x.is_nan()), "{doing}");
            }
        }
    }
}

/// Groups of any bits and sizes: every backend gives the bytes of `scalar`.
#[test]
fn any_group() {
    let source = &mut Source::random("any_group_with_zero_point");
    for round in 0..240 {
        let size = [1.0, 1e-44, 1e-38, 1e-20, 4e-6, 3e5, 1e18, 1e30, 3e38][round % 9];
        let offset = [0.0, 3.0, -1000.0, 1e9][round % 4] * size;
        let x: Vec<f32> = (0..256)
            .map(|_| match round % 3 {
                0 => f32::from_bits(source.word()),
                1 => (source.below(9) as f32 - 4.0) * size + offset,
                _ => source.unit() * size + offset,
            })
            .collect();
        for format in OPENVINO {
            let expected = in_blocks(Backend::Scalar, &x, 128, format);
            let values = out_of_blocks(Backend::Scalar, &expected, 128, format);
            for backend in Backend::available() {
                let doing = format!("{backend}, {}, round {round}", format.name);
                same(&in_blocks(backend, &x, 128, format), &expected, &doing);
                alike(
                    &out_of_blocks(backend, &expected, 128, format),
                    &values,
                    &doing,
                );
            }
        }
    }
}

/// One call that rotates into a cache writes what a rotation and a copy write; likewise a shift, a copy into another
/// format, and a move.
#[test]
fn rotated_shifted_copied_and_moved() {
    let shape @ [_, tokens, heads, head_dim] = SHAPE;
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
    let rows = frequencies.rows(7..12).expect("positions");
    let back = frequencies.shift(&[-3_i64; 5]).expect("a shift");
    let x: Vec<f32> = (0..tokens * heads * head_dim)
        .map(|i| ((i * 37 % 101) as f32 - 30.0) * 0.37)
        .collect();
    let layout = CacheLayout::nhd([2, 4, heads, head_dim]).expect("a small cache");
    let slots = [6_i64, 1, 0, 7, 3];
    for (format, backend) in OPENVINO
        .into_iter()
        .flat_map(|format| Backend::available().map(move |backend| (format, backend)))
    {
        let (rope, doing) = (rope(backend), format!("{backend}, {}", format.name));
        let bytes = layout.bytes(format).expect("few");
        let [mut one, mut two] = [vec![0x5a; bytes], vec![0x5a; bytes]];
        let mut y = vec![0.0; x.len()];
        let mut step = TensorMut::new(&mut y, shape).expect("a tensor");
        rope.rotate_into(
            &tensor(&x),
            &mut on(&mut one, layout, format).slots(&slots),
            &rows,
        )
        .and_then(|()| rope.rotate_into(&tensor(&x), &mut step, &rows))
        .and_then(|()| {
            let mut cache = on(&mut two, layout, format);
            rope.apply_into(&tensor(&y), &mut cache.slots(&slots))
        })
        .expect("slots");
        same(&one, &two, &doing);
        // A shift decodes, rotates and encodes.
        let mut step = TensorMut::new(&mut y, shape).expect("a tensor");
        rope.rotate(&mut on(&mut one, layout, format).slots(&slots), &back)
            .and_then(|()| {
                let cache = on(&mut two, layout, format);
                rope.rotate_into(&cache.as_cache().slots(&slots), &mut step, &back)
            })
            .and_then(|()| {
                let mut cache = on(&mut two, layout, format);
                rope.apply_into(&tensor(&y), &mut cache.slots(&slots))
            })
            .expect("slots");
        same(&one, &two, &format!("{doing}, shifted"));
        // Into another format, and through numbers.
        let q8_0 = layout.bytes(BlockFormat::Q8_0).expect("few");
        let [mut direct, mut through] = [vec![0x5a; q8_0], vec![0x5a; q8_0]];
        let cache = on(&mut one, layout, format);
        let cache = cache.as_cache();
        let source = cache.slots(&slots);
        let mut step = TensorMut::new(&mut y, shape).expect("a tensor");
        let mut target = on(&mut direct, layout, BlockFormat::Q8_0);
        rope.apply_into(&source, &mut target.slots(&slots))
            .and_then(|()| rope.apply_into(&source, &mut step))
            .and_then(|()| {
                let mut cache = on(&mut through, layout, BlockFormat::Q8_0);
                rope.apply_into(&tensor(&y), &mut cache.slots(&slots))
            })
            .expect("slots");
        same(&direct, &through, &format!("{doing}, copied"));
        // A move copies the scale and the zero point too.
        let slot = bytes / 8;
        let moved = one[6 * slot..7 * slot].to_vec();
        on(&mut one, layout, format)
            .move_slots(&[6_i64], &[5_i64])
            .expect("slots");
        same(&one[5 * slot..6 * slot], &moved, &format!("{doing}, moved"));
    }
}

const SHAPE: [usize; 4] = [1, 5, 3, 128];

fn tensor(x: &[f32]) -> Tensor<'_, f32> {
    Tensor::new(x, SHAPE).expect("a tensor")
}

fn on<'a>(memory: &'a mut [u8], layout: CacheLayout, format: &'static BlockFormat) -> CacheMut<'a> {
    CacheMut::coded(memory, layout, format).expect("a cache that fits")
}

#[test]
fn refused() {
    let mut memory = [0x5a; 4096];
    for block in OPENVINO {
        // A width that is no multiple of a group; an odd one too.
        for head_dim in [block.values - 1, block.values + 16, 3 * block.values / 2] {
            let layout = CacheLayout::nhd([1, 2, 1, head_dim]).expect("a small cache");
            let error = CacheMut::coded(&mut memory, layout, block).expect_err("part of a group");
            assert!(
                matches!(error, Error::Cache(CacheError::PartOfBlock { .. })),
                "{error}"
            );
        }
        // The room of a scale and a zero point of each group is part of a head.
        let layout = CacheLayout::nhd([1, 2, 1, block.values]).expect("a small cache");
        let needed = 2 * block.bytes;
        let error = Cache::coded(&memory[..needed - 1], layout, block).expect_err("too short");
        assert_eq!(
            error,
            Error::Cache(CacheError::Memory {
                needed,
                given: needed - 1
            })
        );
        Cache::coded(&memory[..needed], layout, block).expect("enough");
    }
    assert!(memory.iter().all(|&byte| byte == 0x5a));
}
