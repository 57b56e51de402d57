//! MXFP4, MXFP8, NVFP4 and tiles of E4M3 in caches: the codes and scales of other programs, wherever scales lie,
//! shifts, moves, NaNs and infinities, and refusals.

use half::{bf16, f16};
use rope_core::cache::{
    Cache, CacheFormat, CacheLayout, CacheMut, GroupCodes, MxScale, QuantFormat, QuantScale,
    ScaleLayout, ScalePlace, TileScale,
};
use rope_core::error::CacheIndex::Head;
use rope_core::{Backend, Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_tests::compare::same_bytes as same;
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source, quantize};

use crate::models::alike;
use crate::refused::errors as error;

/// A format without the place of its scales.
#[derive(Clone, Copy)]
struct Micro {
    codes: GroupCodes,
    /// Channels of a group, channels per byte, and bytes of a scale.
    group: usize,
    per_byte: usize,
    unit: usize,
}

impl Micro {
    fn at(self, place: ScalePlace) -> CacheFormat<'static> {
        CacheFormat::by_group(self.codes, place)
    }
}

fn least(power_of_two: bool) -> TileScale {
    let least = f32::MIN_POSITIVE;
    match power_of_two {
        true => TileScale::PowerOfTwo { least },
        false => TileScale::Quotient { least },
    }
}

fn mxfp4(codes: GroupCodes) -> Micro {
    Micro {
        codes,
        group: 32,
        per_byte: 2,
        unit: 1,
    }
}

fn nvfp4(factor: f32) -> Micro {
    Micro {
        codes: GroupCodes::Nvfp4(factor),
        group: 16,
        per_byte: 2,
        unit: 1,
    }
}

/// Returns the formats of `micro.txt`, by their keys; those of NVFP4 with its factors.
fn formats(file: &Golden, element: &str) -> Vec<(String, Micro)> {
    let mxfp8 = |codes| Micro {
        per_byte: 1,
        ..mxfp4(codes)
    };
    let tiles = |group, codes| Micro {
        group,
        unit: 4,
        ..mxfp8(codes)
    };
    let mut formats = vec![
        ("mxfp4_floor", mxfp4(GroupCodes::Mxfp4(MxScale::Floor))),
        ("mxfp4_even", mxfp4(GroupCodes::Mxfp4(MxScale::Even))),
        ("mxfp4_up", mxfp4(GroupCodes::Mxfp4(MxScale::Up))),
        ("mxfp8_floor", mxfp8(GroupCodes::Mxfp8(MxScale::Floor))),
        ("mxfp8_even", mxfp8(GroupCodes::Mxfp8(MxScale::Even))),
        ("mxfp8_up", mxfp8(GroupCodes::Mxfp8(MxScale::Up))),
        (
            "e4m3_in_64_quotient",
            tiles(64, GroupCodes::E4m3In64(least(false))),
        ),
        (
            "e4m3_in_64_power_of_two",
            tiles(64, GroupCodes::E4m3In64(least(true))),
        ),
        (
            "e4m3_in_64_e8m0",
            Micro {
                group: 64,
                ..mxfp8(GroupCodes::E4m3In64(TileScale::E8m0 {
                    least: 1e-4 / 448.0,
                }))
            },
        ),
        (
            "e4m3_in_128_quotient",
            tiles(128, GroupCodes::E4m3In128(least(false))),
        ),
        (
            "e4m3_in_128_power_of_two",
            tiles(128, GroupCodes::E4m3In128(least(true))),
        ),
    ];
    formats.retain(|(key, _)| file.find(&format!("{key}_codes_{element}")).is_some());
    let mut formats: Vec<_> = formats
        .into_iter()
        .map(|(key, format)| (key.to_owned(), format))
        .collect();
    for index in 0..2 {
        let factor = file.bits::<f32>(&format!("nvfp4_factor_{element}_{index}"))[0];
        formats.push((format!("nvfp4_{index}"), nvfp4(factor)));
    }
    formats
}

/// A cache of one page with some heads in each slot, and its scales after the codes of a head or in a slice.
struct Memory {
    layout: CacheLayout,
    format: CacheFormat<'static>,
    bytes: Vec<u8>,
    scales: Vec<u8>,
    /// Bytes of the codes, of the scales, and of a whole head.
    widths: [usize; 3],
    unit: usize,
}

impl Memory {
    fn new(micro: Micro, [slots, heads, head_dim]: [usize; 3], inline: bool) -> Memory {
        let codes = head_dim / micro.per_byte;
        let scales = head_dim / micro.group * micro.unit;
        let width = if inline { codes + scales + 3 } else { codes };
        let layout = CacheLayout::nhd([1, slots, heads, width * micro.per_byte])
            .and_then(|layout| layout.narrow_channels(0..head_dim))
            .expect("a small cache");
        let count = head_dim / micro.group;
        let place = if inline {
            ScalePlace::Inline(codes)
        } else {
            ScalePlace::Separate(ScaleLayout::nh([slots, heads]).with_groups(count))
        };
        let apart = if inline { 0 } else { slots * heads * scales };
        Memory {
            layout,
            format: micro.at(place),
            bytes: vec![0x5a; slots * heads * width],
            scales: vec![0x5a; apart],
            widths: [codes, scales, width],
            unit: micro.unit,
        }
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut CacheMut<'_>) -> T) -> T {
        let (bytes, layout, format) = (&mut self.bytes, self.layout, self.format);
        let cache = if self.unit == 1 {
            CacheMut::coded_with_scales(bytes, layout, format, &mut self.scales)
        } else {
            let mut scales: Vec<f32> = bytemuck::pod_collect_to_vec(&self.scales);
            let done = CacheMut::coded_with_scales(bytes, layout, format, &mut scales)
                .map(|mut cache| f(&mut cache))
                .expect("a cache that fits");
            self.scales = bytemuck::cast_slice(&scales).to_vec();
            return done;
        };
        f(&mut cache.expect("a cache that fits"))
    }

    /// Returns the codes, and the scales, of all heads.
    fn parts(&self) -> [Vec<u8>; 2] {
        let [codes, scales, width] = self.widths;
        let heads = self.bytes.chunks_exact(width);
        let found = heads.clone().flat_map(|head| &head[..codes]).copied();
        let apart = if width > codes {
            let heads = heads.flat_map(|head| &head[codes..codes + scales]);
            heads.copied().collect()
        } else {
            self.scales.clone()
        };
        [found.collect(), apart]
    }
}

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Writes heads and reads them back; returns codes, scales and numbers.
fn through<E: Number>(
    backend: Backend,
    x: &[E],
    micro: Micro,
    [heads, head_dim]: [usize; 2],
    inline: bool,
) -> ([Vec<u8>; 2], Vec<f32>) {
    let slots = x.len() / heads / head_dim;
    let mut memory = Memory::new(micro, [slots, heads, head_dim], inline);
    let shape = [1, slots, heads, head_dim];
    let x = Tensor::new(x, shape).expect("a valid tensor");
    let mut y = vec![0.5; x.shape().elements().expect("few")];
    memory.with(|cache| {
        rope(backend)
            .apply_into(&x, &mut cache.slots(0..slots))
            .expect("slots that are there");
        let mut y = TensorMut::new(&mut y, shape).expect("a valid tensor");
        rope(backend)
            .apply_into(&cache.as_cache().slots(0..slots), &mut y)
            .expect("slots that are there");
    });
    (memory.parts(), y)
}

fn scale_bytes(file: &Golden, key: &str, unit: usize) -> Vec<u8> {
    match unit {
        1 => file.bits::<u8>(key),
        _ => {
            let scales = file.bits::<f32>(key);
            scales
                .iter()
                .flat_map(|scale| scale.to_ne_bytes())
                .collect()
        }
    }
}

fn of_numpy<E: Number + Bits>() {
    let (file, e) = (Golden::file("codes4/micro.txt"), E::NAME);
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    for (key, micro) in formats(&file, e) {
        let codes = file.bits::<u8>(&format!("{key}_codes_{e}"));
        let scales = scale_bytes(&file, &format!("{key}_scale_{e}"), micro.unit);
        let values = (e == "f32").then(|| file.bits::<f32>(&format!("{key}_dequant_f32")));
        for backend in Backend::available() {
            // Rows of groups are heads of any whole number of them, with rests of every length.
            for groups in [1, 2, 7, 14] {
                for (heads, inline) in [(1, false), (1, true), (2, false), (2, true)] {
                    let head_dim = groups * micro.group;
                    if !x.len().is_multiple_of(heads * head_dim) {
                        continue;
                    }
                    let doing = format!("{backend}, {key} of {e}, {heads} of {head_dim}, {inline}");
                    let ([got, got_scales], y) =
                        through(backend, &x, micro, [heads, head_dim], inline);
                    same(&got_scales, &scales, &format!("{doing}, scales"));
                    same(&got, &codes, &doing);
                    if let Some(values) = &values {
                        alike(&y, values, &doing);
                    }
                }
            }
        }
    }
}

#[test]
fn codes_of_numpy() {
    of_numpy::<f32>();
    of_numpy::<bf16>();
}

/// Tests the codes that vLLM's formulas gave, of OCP's and its own scales of MXFP4, and of NVFP4.
fn of_engines<E: Number + Bits>() {
    let (file, e) = (Golden::file("codes4/fp4_rows.txt"), E::NAME);
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    let channels = file.decimal("channels");
    let mut formats = vec![
        ("mxfp4_ocp", "", mxfp4(GroupCodes::Mxfp4(MxScale::Floor))),
        ("mxfp4_even", "", mxfp4(GroupCodes::Mxfp4(MxScale::Even))),
    ];
    for index in ["_0", "_1", "_2"] {
        let g = file.bits::<f32>(&format!("nvfp4_g_{e}{index}"))[0];
        // A factor whose reciprocal is the file's multiplier, rounded; the file has no other.
        let near = (1.0 / g).to_bits();
        let factor = (near - 2..near + 3)
            .map(f32::from_bits)
            .find(|factor| 1.0 / factor == g);
        formats.push(("nvfp4", index, nvfp4(factor.expect("a reciprocal"))));
    }
    for (key, index, micro) in formats {
        let codes = file.bits::<u8>(&format!("{key}_codes_{e}{index}"));
        let scales = file.bits::<u8>(&format!("{key}_scale_{e}{index}"));
        for backend in Backend::available() {
            let doing = format!("{backend}, {key}{index} of {e}");
            let ([got, got_scales], _) = through(backend, &x, micro, [1, channels], false);
            same(&got_scales, &scales, &format!("{doing}, scales"));
            same(&got, &codes, &doing);
        }
    }
}

#[test]
fn codes_of_engines() {
    of_engines::<f32>();
    of_engines::<f16>();
    of_engines::<bf16>();
}

/// Tests the code of every f32 at both ends of each range, with a scale of one: the least scale in the group is `6`.
#[test]
fn codes_of_ranges() {
    let file = rope_tests::golden::lines("codes4/e2m1.txt");
    for line in file.iter().filter(|line| line[0] == "code") {
        let code = u8::from_str_radix(&line[1], 16).expect("a code");
        for end in [2, 3] {
            let x: f32 = rope_tests::golden::hex(&line[end]);
            // 4 keeps the scale of its group at one.
            if x.abs() >= 8.0 {
                continue;
            }
            let mut row = [0.0; 32];
            (row[0], row[7]) = (4.0, x);
            for backend in Backend::available() {
                let micro = mxfp4(GroupCodes::Mxfp4(MxScale::Floor));
                let ([codes, scales], _) = through(backend, &row, micro, [1, 32], true);
                assert_eq!(scales, [127], "{backend}, {x}");
                assert_eq!(codes[3] >> 4, code, "{backend}, {x}");
            }
        }
    }
}

/// NaNs have the code of 6 in FP4 and do not count in scales. Infinities saturate; other backends agree.
#[test]
fn nans_and_infinities() {
    let file = Golden::file("codes4/micro.txt");
    for (key, micro) in formats(&file, "f32") {
        let plain: Vec<f32> = (0..128).map(|i| i as f32 - 40.25).collect();
        let expected = through(Backend::Scalar, &plain, micro, [1, 128], false);
        for nan in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0xffff_ffff] {
            let mut x = plain.clone();
            x[5] = f32::from_bits(nan);
            for backend in Backend::available() {
                let doing = format!("{backend}, {key}");
                let ([codes, scales], values) = through(backend, &x, micro, [1, 128], false);
                same(&scales, &expected.0[1], &doing);
                for (at, (value, expected)) in values.iter().zip(&expected.1).enumerate() {
                    if at != 5 {
                        assert_eq!(value.to_bits(), expected.to_bits(), "{doing}, {at}");
                    } else if micro.per_byte == 2 {
                        assert_eq!(codes[2] >> 4, 7, "{doing}");
                    } else {
                        assert!(value.is_nan(), "{doing}");
                    }
                }
            }
        }
        for infinity in [f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = plain.clone();
            x[5] = infinity;
            let expected = through(Backend::Scalar, &x, micro, [1, 128], false);
            for backend in Backend::available() {
                let got = through(backend, &x, micro, [1, 128], false);
                let doing = format!("{backend}, {key}, {infinity}");
                same(&got.0[1], &expected.0[1], &doing);
                alike(&got.1, &expected.1, &doing);
            }
        }
    }
}

/// Groups of any bits and sizes: every backend gives the codes of `scalar`.
#[test]
fn any_group() {
    let (file, source) = (
        Golden::file("codes4/micro.txt"),
        &mut Source::random("any_group"),
    );
    for round in 0..120 {
        let size = [1.0, 1e-44, 1e-38, 1e-20, 4e-6, 3e5, 1e18, 1e30, 3e38][round % 9];
        let x: Vec<f32> = (0..256)
            .map(|_| match round % 3 {
                0 => match f32::from_bits(source.word()) {
                    x if x.is_nan() => 0.0,
                    x => x,
                },
                1 => (source.below(9) as f32 - 4.0) * size,
                _ => source.unit() * size,
            })
            .collect();
        for (key, micro) in formats(&file, "f32") {
            let expected = through(Backend::Scalar, &x, micro, [1, 128], false);
            for backend in Backend::available() {
                let got = through(backend, &x, micro, [1, 128], false);
                let doing = format!("{backend}, {key}, round {round}");
                same(&got.0[1], &expected.0[1], &doing);
                // An infinity times 0 is a NaN of any sign.
                if x.iter().all(|x| x.is_finite()) {
                    same(&got.0[0], &expected.0[0], &doing);
                }
                alike(&got.1, &expected.1, &doing);
            }
        }
    }
}

/// Elements of 16 bits with all their NaNs and infinities, in one group up to more than a kernel takes at once.
fn any_group_of<E: Number>() {
    let file = Golden::file("codes4/micro.txt");
    let source = &mut Source::random("any_group_of");
    for (round, heads) in [1, 3, 11, 64].into_iter().cycle().take(48).enumerate() {
        // One element in `rare` has any bits, those of NaNs and infinities among them; with 0 none has.
        let rare = [1, 60, 3000, 0][round / 4 % 4];
        let size = [1.0, 1e-6, 1e-3, 3e4][round % 4];
        let x: Vec<E> = (0..heads * 128)
            .map(|_| match rare {
                1.. if source.below(rare) == 0 => E::from_bits(source.word() >> 16),
                _ => E::from_f32(source.unit() * size),
            })
            .collect();
        for (key, micro) in formats(&file, "f32") {
            let expected = through(Backend::Scalar, &x, micro, [heads, 128], false);
            for backend in Backend::available() {
                let got = through(backend, &x, micro, [heads, 128], false);
                let doing = format!("{backend}, {key}, {heads} heads, round {round}");
                same(&got.0[1], &expected.0[1], &doing);
                if rare == 0 {
                    same(&got.0[0], &expected.0[0], &doing);
                }
                alike(&got.1, &expected.1, &doing);
            }
        }
    }
}

#[test]
fn any_group_of_elements() {
    any_group_of::<bf16>();
    any_group_of::<f16>();
}

/// Tests all quotients that correct division alone rounds to the midpoint of two codes or beside it: see `quotient` of
/// rope-core's `groups.rs`. The least scale is the scale.
#[test]
fn quotients_next_to_midpoints() {
    let scales =
        (8..=16).flat_map(|multiple| (-128..=128).map(move |more: i64| (multiple << 20) + more));
    for scale in scales.filter(|scale| (1 << 23..1 << 24).contains(scale)) {
        let mut x = Vec::new();
        for (midpoint, shift) in (16..32).flat_map(|midpoint| [(midpoint, 4), (midpoint, 5)]) {
            let below = (scale * midpoint) >> shift;
            for integer in below - 1..=below + 1 {
                if (1 << 23..1 << 24).contains(&integer) {
                    // Subnormal codes, and normal ones.
                    let powers = [-10, -9, -8, -7, -6, 3].map(|power| 2_f32.powi(power));
                    x.extend(powers.map(|power| integer as f32 * power));
                    x.extend(powers.map(|power| integer as f32 * -power));
                }
            }
        }
        x.resize(x.len().next_multiple_of(128), -0.0);
        let scale = scale as f32;
        let expected: Vec<u8> = x
            .iter()
            .map(|x| quantize::encode(QuantFormat::E4m3, x / scale))
            .collect();
        let micro = Micro {
            codes: GroupCodes::E4m3In128(TileScale::Quotient { least: scale }),
            group: 128,
            per_byte: 1,
            unit: 4,
        };
        for backend in Backend::available() {
            let ([codes, _], _) = through(backend, &x, micro, [1, 128], false);
            same(&codes, &expected, &format!("{backend}, {scale}"));
        }
    }
}

/// Tests rotated keys, shifts in place, and copies into another format: each is one step after the other.
#[test]
fn rotated_shifted_and_copied() {
    let source = &mut Source::random("rotated_shifted_and_copied");
    let (slots, heads, head_dim) = (5, 2, 128);
    let shape = [1, slots, heads, head_dim];
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
    let rows = frequencies.rows(3..3 + slots).expect("positions");
    let deltas = [-2_i64, 0, 5, 1, -1];
    let shift = frequencies.shift(&deltas).expect("deltas");
    let x: Vec<bf16> = (0..slots * heads * head_dim)
        .map(|_| bf16::from_f32(source.unit()))
        .collect();
    let file = Golden::file("codes4/micro.txt");
    for (key, micro) in formats(&file, "f32") {
        for (backend, inline) in
            Backend::available().flat_map(|backend| [(backend, false), (backend, true)])
        {
            let doing = format!("{backend}, {key}, {inline}");
            let rope = rope(backend);
            let mut rotated = x.clone();
            let tensor = Tensor::new(&x, shape).expect("a valid tensor");
            let mut into = TensorMut::new(&mut rotated, shape).expect("a valid tensor");
            rope.rotate_into(&tensor, &mut into, &rows).expect("rows");
            let expected = through(backend, &rotated, micro, [heads, head_dim], inline);
            let mut memory = Memory::new(micro, [slots, heads, head_dim], inline);
            memory.with(|cache| {
                rope.rotate_into(&tensor, &mut cache.slots(0..slots), &rows)
                    .expect("slots that are there");
            });
            same(&memory.parts()[0], &expected.0[0], &doing);
            same(&memory.parts()[1], &expected.0[1], &doing);
            // A shift reads, rotates and writes; a delta of zero keeps the bits.
            let before = memory.parts();
            let mut values = expected.1.clone();
            let mut tensor = TensorMut::new(&mut values, shape).expect("a valid tensor");
            rope.rotate(&mut tensor, &shift).expect("rows");
            let shifted = through(backend, &values, micro, [heads, head_dim], inline);
            memory.with(|cache| {
                rope.rotate(&mut cache.slots(0..slots), &shift)
                    .expect("slots that are there");
            });
            for (part, (got, wanted)) in memory.parts().iter().zip(&shifted.0).enumerate() {
                let slot = got.len() / slots;
                for (index, got) in got.chunks(slot).enumerate() {
                    let from = if deltas[index] == 0 {
                        &before[part]
                    } else {
                        wanted
                    };
                    same(
                        got,
                        &from[index * slot..][..slot],
                        &format!("{doing}, {index}"),
                    );
                }
            }
            // A move copies codes and scales.
            let shifted = memory.parts();
            memory.with(|cache| cache.move_slots(&[3_i64, 4], &[0_i64, 1]).expect("moves"));
            for (got, from) in memory.parts().iter().zip(&shifted) {
                let slot = got.len() / slots;
                same(&got[..2 * slot], &from[3 * slot..], &doing);
                same(&got[2 * slot..], &from[2 * slot..], &doing);
            }
            // Into a cache of floats, and back.
            let mut floats = vec![0.0_f32; slots * heads * head_dim];
            let layout = CacheLayout::nhd([1, slots, heads, head_dim]).expect("a small cache");
            let mut other = Memory::new(micro, [slots, heads, head_dim], !inline);
            let mut cache = CacheMut::new(&mut floats, layout).expect("a cache that fits");
            memory.with(|from| {
                rope.apply_into(&from.as_cache().slots(0..slots), &mut cache.slots(0..slots))
                    .expect("slots that are there");
            });
            let again = through(backend, &floats, micro, [heads, head_dim], !inline);
            let cache = Cache::new(&floats, layout).expect("a cache that fits");
            other.with(|to| {
                rope.apply_into(&cache.slots(0..slots), &mut to.slots(0..slots))
                    .expect("slots that are there");
            });
            same(&other.parts()[0], &again.0[0], &doing);
            same(&other.parts()[1], &again.0[1], &doing);
        }
    }
}

/// Widths that are no multiple of a group, half bytes, scales that collide or do not fit, and wrong numbers.
#[test]
fn refused() {
    let nhd = |extents| CacheLayout::nhd(extents).expect("a small cache");
    let inline = |behind| CacheFormat::by_group(GroupCodes::Nvfp4(1.0), ScalePlace::Inline(behind));
    let mut bytes = [0x5a_u8; 512];
    let part = error::cache_part_of_block;
    for (layout, expected) in [
        (nhd([1, 1, 1, 40]), part("head_dim", 40, 16)),
        (
            CacheLayout::hdn([1, 1, 32, 2]).expect("a small cache"),
            error::cache_channels_apart(32, 1, 2, 1),
        ),
        (
            nhd([1, 2, 1, 33]).narrow_channels(0..32).expect("channels"),
            part("the stride of head", 33, 2),
        ),
        (
            nhd([1, 2, 1, 64]).narrow_channels(1..33).expect("channels"),
            part("the first channel", 1, 2),
        ),
    ] {
        let refusal = CacheMut::coded(&mut bytes, layout, inline(16)).map(|_| ());
        assert_eq!(refusal, Err(expected));
        assert_eq!(layout.bytes(inline(16)), Err(expected));
    }
    // Scales over codes, or over those of the next head.
    let wide = nhd([1, 2, 2, 36]).narrow_channels(0..32).expect("channels");
    assert_eq!(wide.bytes(inline(16)), Ok(4 * 18));
    for (behind, expected) in [
        (0, error::cache_scale_among_codes(0, 16)),
        (15, error::cache_scale_among_codes(15, 16)),
        (17, error::cache_scale_room(19, 16, Head, 18, 19)),
        (usize::MAX, error::cache_too_large(usize::MAX, 1)),
    ] {
        assert_eq!(wide.bytes(inline(behind)), Err(expected), "{behind}");
    }
    // Heads of two scales each.
    let layout = nhd([1, 2, 2, 32]);
    let separate = |token, head| {
        let block = 8;
        let place = ScalePlace::Separate(ScaleLayout { block, token, head });
        CacheFormat::by_group(GroupCodes::Nvfp4(1.0), place)
    };
    let mut scales = [0x5a_u8; 8];
    assert!(CacheMut::coded_with_scales(&mut bytes, layout, separate(4, 2), &mut scales).is_ok());
    let refusal = CacheMut::coded_with_scales(&mut bytes, layout, separate(4, 2), &mut scales[..7]);
    assert_eq!(refusal.map(|_| ()), Err(error::storage("scales", 7, 8)));
    let refusal = CacheMut::coded(&mut bytes, layout, separate(4, 2)).map(|_| ());
    assert_eq!(refusal, Err(error::storage("scales", 0, 8)));
    let refusal =
        CacheMut::coded_with_scales(&mut bytes, layout, separate(4, 1), &mut scales).map(|_| ());
    assert!(matches!(refusal, Err(Error::Cache(_))), "{refusal:?}");
    let mut floats = [0.5_f32; 8];
    let refusal =
        CacheMut::coded_with_scales(&mut bytes, layout, separate(4, 2), &mut floats).map(|_| ());
    let wrong = error::cache_layout("given with its separate scales as bytes");
    assert_eq!(refusal, Err(wrong));
    let place = ScalePlace::Separate(ScaleLayout::nh([2, 2]));
    let format = CacheFormat::quantized(
        QuantFormat::E4m3,
        QuantScale::Computed {
            least: 1e-6,
            at: place,
        },
    );
    let refusal = CacheMut::coded_with_scales(&mut bytes, layout, format, &mut scales).map(|_| ());
    let wrong = error::cache_layout("given with its separate scales as f32");
    assert_eq!(refusal, Err(wrong));
    for factor in [0.0, -1.0, f32::INFINITY, f32::NAN, 1e-40] {
        let format = CacheFormat::by_group(GroupCodes::Nvfp4(factor), ScalePlace::Inline(16));
        let required = "finite and above zero, and its reciprocal finite";
        let refusal = CacheMut::coded(&mut bytes, wide, format).map(|_| ());
        let expected = error::parameter("factor", factor.into(), required);
        assert_eq!(
            format!("{refusal:?}"),
            format!("{:?}", Err::<(), _>(expected))
        );
    }
    for least in [0.0, -1.0, f32::INFINITY, f32::NAN] {
        for scale in [
            TileScale::Quotient { least },
            TileScale::PowerOfTwo { least },
        ] {
            let format = CacheFormat::by_group(GroupCodes::E4m3In64(scale), ScalePlace::Inline(64));
            let layout = nhd([1, 1, 1, 68]).narrow_channels(0..64).expect("channels");
            let refusal = CacheMut::coded(&mut bytes, layout, format).map(|_| ());
            let expected = error::parameter("least", least.into(), "finite and above zero");
            assert_eq!(
                format!("{refusal:?}"),
                format!("{:?}", Err::<(), _>(expected))
            );
        }
    }
    // Elements in bytes of any alignment.
    let element = CacheFormat::element::<f32>();
    let odd = usize::from(bytes.as_ptr().addr().is_multiple_of(2));
    let refusal = CacheMut::coded(&mut bytes[odd..], nhd([1, 1, 1, 8]), element).map(|_| ());
    let wrong = error::cache_layout("in memory that is aligned to its elements");
    assert_eq!(refusal, Err(wrong));
    assert_eq!((bytes, scales, floats), ([0x5a; 512], [0x5a; 8], [0.5; 8]));
}
