//! Codes with numbers by channel over groups of tokens: the bytes of another program, any group on every backend, whole
//! programs with a residual, shifts, moves, and refusals that leave the cache untouched.

use half::bf16;
use rope_core::cache::{
    Cache, CacheFormat, CacheLayout, CacheMut, CachePartsMut, ChannelCodes, QuantFormat,
    QuantScale, Slots,
};
use rope_core::error::{CacheError, SlotsError};
use rope_core::{Backend, Error, Frequencies, Output, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_tests::compare::same_bytes as same;
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source};

use crate::models::alike;

/// All formats with groups of 32 tokens, by name.
const FORMATS: [(&str, CacheFormat<'static>); 4] = [
    ("u8_by_channel", of_32(ChannelCodes::U8)),
    ("u4_by_channel", of_32(ChannelCodes::U4)),
    ("kivi2", of_32(ChannelCodes::Kivi2)),
    ("kivi4", of_32(ChannelCodes::Kivi4)),
];

const fn of_32(codes: ChannelCodes) -> CacheFormat<'static> {
    CacheFormat::by_channel(codes, 32)
}

fn on_every_backend() -> impl Iterator<Item = (&'static str, CacheFormat<'static>, Rope)> {
    FORMATS.into_iter().flat_map(|(name, format)| {
        Backend::available().map(move |backend| (name, format, rope(backend)))
    })
}

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

fn on<'a>(memory: &'a mut [u8], layout: CacheLayout, format: CacheFormat<'a>) -> CacheMut<'a> {
    CacheMut::coded(memory, layout, format).expect("a cache that fits")
}

/// Returns the memory of a cache.
fn memory(layout: CacheLayout, format: CacheFormat<'_>) -> Vec<u8> {
    vec![0x5a; layout.bytes(format).expect("few")]
}

fn tensor<E: Number>(x: &[E], shape: [usize; 4]) -> Tensor<'_, E> {
    Tensor::new(x, shape).expect("a tensor")
}

/// Reads slots.
fn read<'s>(
    rope: &Rope,
    cache: &Cache<'_>,
    slots: impl rope_core::cache::IntoSlots<'s>,
    shape: [usize; 4],
) -> Vec<f32> {
    let mut y = vec![0.0; shape.iter().product()];
    let mut target = TensorMut::new(&mut y, shape).expect("a tensor");
    rope.apply_into(&cache.slots(slots), &mut target)
        .expect("slots of the cache");
    y
}

fn some_values(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 % 101) as f32 - 30.0) * 0.37 + (i % 7) as f32)
        .collect()
}

fn of_numpy<E: Number + Bits>() {
    const SHAPE: [usize; 4] = [1, 64, 1, 20];
    let (file, e) = (Golden::file("codes4/channels.txt"), E::NAME);
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    for (name, format, rope) in on_every_backend() {
        let doing = format!("{}, {name} of {e}", rope.backend());
        let expected = file.bits::<u8>(&format!("{name}_{e}"));
        let values: Vec<f32> = file.bits(&format!("{name}_dequant_{e}"));
        // A block of two groups, and two blocks of one.
        for [blocks, slots] in [[1, 64], [2, 32]] {
            let layout = CacheLayout::hnd([blocks, 1, slots, 20]).expect("a small cache");
            let mut bytes = memory(layout, format);
            let mut cache = on(&mut bytes, layout, format);
            rope.apply_into(&tensor(&x, SHAPE), &mut cache.slots(0..64))
                .expect("whole groups");
            let got = read(&rope, &cache.as_cache(), 0..64, SHAPE);
            alike(&got, &values, &doing);
            // Reads are of any slots.
            let slots = [40_i64, 3, 63, 31];
            let got = read(&rope, &cache.as_cache(), &slots, [1, 4, 1, 20]);
            let some = slots.map(|slot| &values[20 * slot as usize..][..20]);
            alike(&got, &some.concat(), &doing);
            same(&bytes, &expected, &doing);
        }
    }
}

#[test]
fn bytes_of_numpy() {
    of_numpy::<f32>();
    of_numpy::<bf16>();
}

/// The bytes of a head: scales, offsets, codes, in the order of each format.
#[test]
fn bytes_of_a_head() {
    let layout = CacheLayout::hnd([1, 1, 32, 2]).expect("a small cache");
    // Channel 0 rises to 15, channel 1 is constant.
    let x: Vec<f32> = (0..32)
        .flat_map(|token| [(token % 16) as f32, 8.0])
        .collect();
    for (name, format, rope) in on_every_backend() {
        let doing = format!("{}, {name}", rope.backend());
        let mut bytes = memory(layout, format);
        rope.apply_into(
            &tensor(&x, [1, 32, 1, 2]),
            &mut on(&mut bytes, layout, format).slots(0..32),
        )
        .expect("a whole group");
        let f32_at = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        match name {
            "u8_by_channel" => {
                assert_eq!(bytes.len(), 2 * (8 + 32), "{doing}");
                assert_eq!(f32_at(4), 0.0001, "{doing}");
                assert_eq!(bytes[16..22], [0, 0, 17, 0, 34, 0], "{doing}");
            }
            "u4_by_channel" => {
                assert_eq!(bytes.len(), 2 * (8 + 16), "{doing}");
                assert_eq!([f32_at(0), f32_at(8)], [1.0, 0.0], "{doing}");
                // The even channel is in the high half.
                assert_eq!(bytes[16..20], [0x00, 0x10, 0x20, 0x30], "{doing}");
            }
            "kivi2" => {
                assert_eq!(bytes.len(), 2 * (4 + 8), "{doing}");
                // 5, 0; 0, 8 in f16
                let numbers = [0x00, 0x45, 0, 0, 0, 0, 0x00, 0x48];
                assert_eq!(bytes[..8], numbers, "{doing}");
                // 0, 1, 2 become 0; 3 and 4 become 1.
                assert_eq!(bytes[8..10], [0b0100_0000, 0b0101_0101], "{doing}");
                assert_eq!(bytes[16..], [0; 8], "{doing}");
            }
            _ => {
                assert_eq!(bytes.len(), 2 * (4 + 16), "{doing}");
                assert_eq!(bytes[8..12], [0x10, 0x32, 0x54, 0x76], "{doing}");
                assert_eq!(bytes[24..], [0; 16], "{doing}");
            }
        }
    }
}

/// Groups of any bits and widths, over more values than one pass covers: every backend gives the bytes of `scalar`.
#[test]
fn any_group() {
    let source = &mut Source::random("any_group_by_channel");
    for round in 0..24 {
        let [heads, head_dim] = [[1, 6], [3, 64], [2, 100], [9, 128]][round % 4];
        let size = [1.0, 1e-44, 6e-8, 1e-5, 3e4, 1e18, 3e38][round % 7];
        let count = 32 * heads * head_dim;
        let x: Vec<f32> = (0..count)
            .map(|_| match round % 3 {
                0 => f32::from_bits(source.word()),
                1 => (source.below(9) as f32 - 4.0) * size,
                _ => source.unit() * size + size,
            })
            .collect();
        let (shape, layout) = (
            [1, 32, heads, head_dim],
            CacheLayout::hnd([1, heads, 32, head_dim]).expect("a small cache"),
        );
        for (name, format) in FORMATS {
            let mut expected = Vec::new();
            let mut expected_values = Vec::new();
            for backend in [Backend::Scalar].into_iter().chain(Backend::available()) {
                let (rope, mut bytes) = (rope(backend), memory(layout, format));
                let mut cache = on(&mut bytes, layout, format);
                rope.apply_into(&tensor(&x, shape), &mut cache.slots(0..32))
                    .expect("a whole group");
                let values = read(&rope, &cache.as_cache(), 0..32, shape);
                if expected.is_empty() {
                    (expected, expected_values) = (bytes, values);
                    continue;
                }
                let doing = format!("{backend}, {name}, round {round}");
                same(&bytes, &expected, &doing);
                alike(&values, &expected_values, &doing);
            }
        }
    }
}

/// NaNs do not count in bounds and have code 0; a channel of NaNs, or with an infinity, decodes to NaNs.
#[test]
fn nans_and_infinities() {
    let layout = CacheLayout::hnd([1, 1, 32, 4]).expect("a small cache");
    let shape = [1, 32, 1, 4];
    for (name, format, rope) in on_every_backend() {
        let write = |x: &[f32]| {
            let mut bytes = memory(layout, format);
            let mut cache = on(&mut bytes, layout, format);
            rope.apply_into(&tensor(x, shape), &mut cache.slots(0..32))
                .expect("a whole group");
            read(&rope, &cache.as_cache(), 0..32, shape)
        };
        let plain = some_values(128);
        let expected = write(&plain);
        let least = |channel: usize| {
            let all = expected.iter().skip(channel).step_by(4);
            all.copied().fold(f32::MAX, f32::min)
        };
        for bits in [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0xffff_ffff] {
            let mut x = plain.clone();
            // Bounds of channel 1 are at other tokens.
            x[4 * 9 + 1] = f32::from_bits(bits);
            for token in 0..32 {
                x[4 * token + 2] = f32::from_bits(bits);
            }
            x[4 * 3 + 3] = f32::INFINITY;
            let got = write(&x);
            for token in 0..32 {
                let doing = format!("{}, {name}, {bits:08x}, token {token}", rope.backend());
                let row = &got[4 * token..][..4];
                assert_eq!(row[0], expected[4 * token], "{doing}");
                match token {
                    9 => assert_eq!(row[1], least(1), "{doing}"),
                    _ => assert_eq!(row[1], expected[4 * token + 1], "{doing}"),
                }
                assert!(row[2..].iter().all(|x| x.is_nan()), "{doing}: {row:?}");
            }
        }
    }
}

/// One call that rotates into a cache writes what a rotation and a copy write, with rows of either kind; likewise a
/// shift, a copy into another format, a move, several outputs, and parts.
#[test]
fn rotated_shifted_copied_and_moved() {
    const SHAPE: [usize; 4] = [1, 64, 3, 128];
    let [_, tokens, heads, head_dim] = SHAPE;
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
    let rows = frequencies.rows(7..71).expect("positions");
    let x = some_values(tokens * heads * head_dim);
    let layout = CacheLayout::hnd([2, heads, 64, head_dim]).expect("a small cache");
    // Groups in any order.
    let slots: Vec<i64> = (96..128).chain(32..64).collect();
    let plain_layout = CacheLayout::nhd([1, 64, heads, head_dim]).expect("a small cache");
    for (name, format, rope) in on_every_backend() {
        let doing = format!("{}, {name}", rope.backend());
        let [mut one, mut two, mut three] = [(); 3].map(|()| memory(layout, format));
        let mut y = vec![0.0; x.len()];
        rope.rotate_into(
            &tensor(&x, SHAPE),
            &mut on(&mut one, layout, format).slots(&slots),
            &rows,
        )
        .expect("whole groups");
        let mut step = TensorMut::new(&mut y, SHAPE).expect("a tensor");
        rope.rotate_into(&tensor(&x, SHAPE), &mut step, &rows)
            .expect("tensors");
        // From a residual of elements.
        let residual = Cache::new(&y, plain_layout).expect("a cache that fits");
        rope.apply_into(
            &residual.slots(0..64),
            &mut on(&mut two, layout, format).slots(&slots),
        )
        .expect("whole groups");
        same(&one, &two, &doing);
        rope.rotate_into(
            &tensor(&x, SHAPE),
            &mut on(&mut three, layout, format).slots(&slots),
            &frequencies.at(7..71).expect("positions"),
        )
        .expect("whole groups");
        same(&one, &three, &format!("{doing}, rows made in the call"));
        let (mut cache, mut copy) = (on(&mut three, layout, format), vec![0.0; x.len()]);
        let mut copy = TensorMut::new(&mut copy, SHAPE).expect("a tensor");
        let mut cached = cache.slots(&slots);
        let outputs = &mut [
            Output::new(&mut copy, &rows),
            Output::new(&mut cached, &rows),
        ];
        three_is_written(&rope, &x, SHAPE, outputs);
        same(&one, &three, &format!("{doing}, with another output"));
        let parts = [on(&mut three, layout, format)];
        let mut parts = CachePartsMut::of(parts).expect("one part");
        rope.prepare_into(&tensor(&x, SHAPE), &mut parts.slots(&slots), &rows)
            .expect("whole groups")
            .run();
        same(&one, &three, &format!("{doing}, in parts"));

        // A shift decodes, rotates and encodes whole groups. The second group keeps its bits.
        let deltas: Vec<i64> = (0..64)
            .map(|i| if i < 32 { i % 5 - 4 } else { 0 })
            .collect();
        let back = frequencies.shift(&deltas).expect("a shift");
        let kept = read(
            &rope,
            &on(&mut one, layout, format).as_cache(),
            32..64,
            [1, 32, heads, head_dim],
        );
        rope.rotate(&mut on(&mut one, layout, format).slots(&slots), &back)
            .expect("whole groups");
        let first = frequencies.shift(&deltas[..32]).expect("a shift");
        let part = [1, 32, heads, head_dim];
        let mut y = vec![0.0; x.len() / 2];
        let mut step = TensorMut::new(&mut y, part).expect("a tensor");
        let cache = on(&mut two, layout, format);
        rope.rotate_into(&cache.as_cache().slots(96..128), &mut step, &first)
            .expect("slots");
        let mut cache = cache;
        rope.apply_into(&tensor(&y, part), &mut cache.slots(96..128))
            .expect("a whole group");
        same(&one, &two, &format!("{doing}, shifted"));
        let got = read(
            &rope,
            &on(&mut one, layout, format).as_cache(),
            32..64,
            part,
        );
        alike(&got, &kept, &format!("{doing}, not shifted"));

        // A group that is listed twice moves once.
        let twice: Vec<i64> = (96..128).chain(96..128).collect();
        let deltas = [&deltas[..32], &deltas[..32]].concat();
        let both = frequencies.shift(&deltas).expect("a shift");
        rope.rotate(&mut on(&mut one, layout, format).slots(&twice), &both)
            .and_then(|()| {
                let mut cache = on(&mut two, layout, format);
                rope.rotate(&mut cache.slots(96..128), &first)
            })
            .expect("whole groups");
        same(&one, &two, &format!("{doing}, shifted once"));

        // Into another format, and through numbers.
        let scale = QuantScale::Divide(0.5.into());
        let [mut direct, mut through] = [(); 2].map(|()| vec![0x5a; 64 * heads * head_dim]);
        let cache = on(&mut one, layout, format);
        let cache = cache.as_cache();
        let target = &mut on(
            &mut direct,
            plain_layout,
            CacheFormat::quantized(QuantFormat::E4m3, scale),
        );
        rope.apply_into(&cache.slots(&slots), &mut target.slots(0..64))
            .expect("slots");
        let y = read(&rope, &cache, &slots, SHAPE);
        let target = &mut on(
            &mut through,
            plain_layout,
            CacheFormat::quantized(QuantFormat::E4m3, scale),
        );
        rope.apply_into(&tensor(&y, SHAPE), &mut target.slots(0..64))
            .expect("slots");
        same(&direct, &through, &format!("{doing}, copied"));

        // A move copies numbers and codes; over each other in both directions.
        for [from, to] in [[[96, 128], [64, 96]], [[32, 96], [64, 128]]] {
            let before = read(
                &rope,
                &on(&mut one, layout, format).as_cache(),
                from[0]..from[1],
                [1, from[1] - from[0], heads, head_dim],
            );
            on(&mut one, layout, format)
                .move_slots(from[0]..from[1], to[0]..to[1])
                .expect("whole groups");
            let after = read(
                &rope,
                &on(&mut one, layout, format).as_cache(),
                to[0]..to[1],
                [1, from[1] - from[0], heads, head_dim],
            );
            alike(&after, &before, &format!("{doing}, moved"));
        }
    }
}

/// A shift of more channels than are encoded together is that of the numbers: no head is read after a part of it is
/// written.
#[test]
fn heads_of_many_channels() {
    for [heads, head_dim] in [[11, 96], [22, 96], [3, 1100], [2, 2048], [33, 64]] {
        let shape = [1, 32, heads, head_dim];
        let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
        let deltas: Vec<i64> = (0..32).map(|token| token % 5 - 3).collect();
        let back = frequencies.shift(&deltas).expect("a shift");
        let x = some_values(32 * heads * head_dim);
        let layout = CacheLayout::hnd([1, heads, 32, head_dim]).expect("a small cache");
        for (name, format, rope) in on_every_backend() {
            let [mut one, mut two] = [(); 2].map(|()| memory(layout, format));
            let mut y = x.clone();
            let mut cache = on(&mut one, layout, format);
            rope.apply_into(&tensor(&x, shape), &mut cache.slots(0..32))
                .expect("a whole group");
            let mut step = TensorMut::new(&mut y, shape).expect("a tensor");
            rope.rotate_into(&cache.as_cache().slots(0..32), &mut step, &back)
                .expect("slots");
            rope.apply_into(&step, &mut on(&mut two, layout, format).slots(0..32))
                .expect("a whole group");
            rope.rotate(&mut cache.slots(0..32), &back)
                .expect("a whole group");
            let doing = format!("{}, {name}, {heads} of {head_dim}", rope.backend());
            same(&one, &two, &doing);
        }
    }
}

fn three_is_written(rope: &Rope, x: &[f32], shape: [usize; 4], outputs: &mut [Output<'_>]) {
    rope.rotate_into_each(&tensor(x, shape), outputs)
        .expect("whole groups");
}

/// Shifts a group by tokens of which some do not rotate: all are encoded again.
#[test]
fn a_group_that_rotates_in_part() {
    let frequencies = Frequencies::new(16, 10_000.0, &Scaling::Default).expect("a base");
    let (layout, shape) = (
        CacheLayout::hnd([1, 2, 32, 16]).expect("a small cache"),
        [1, 32, 2, 16],
    );
    let x = some_values(32 * 2 * 16);
    let deltas: Vec<i64> = (0..32).map(|i| if i % 3 == 0 { 40 } else { 0 }).collect();
    let shift = frequencies.shift(&deltas).expect("a shift");
    for (name, format, rope) in on_every_backend() {
        let [mut one, mut two] = [(); 2].map(|()| memory(layout, format));
        for bytes in [&mut one, &mut two] {
            rope.apply_into(
                &tensor(&x, shape),
                &mut on(bytes, layout, format).slots(0..32),
            )
            .expect("a whole group");
        }
        rope.rotate(&mut on(&mut one, layout, format).slots(0..32), &shift)
            .expect("a whole group");
        let mut y = vec![0.0; x.len()];
        let mut cache = on(&mut two, layout, format);
        let mut step = TensorMut::new(&mut y, shape).expect("a tensor");
        rope.rotate_into(&cache.as_cache().slots(0..32), &mut step, &shift)
            .expect("slots");
        rope.apply_into(&tensor(&y, shape), &mut cache.slots(0..32))
            .expect("a whole group");
        same(&one, &two, &format!("{}, {name}", rope.backend()));
    }
}

/// Sequences with a block each, one of which ends early, and tokens that are skipped.
#[test]
fn sequences_and_skipped_tokens() {
    let rope = Rope::new(Pairing::Interleaved);
    let layout = CacheLayout::hnd([2, 1, 64, 8]).expect("a small cache");
    let x = some_values(2 * 96 * 8);
    for (name, format) in FORMATS {
        let [mut one, mut two] = [(); 2].map(|()| memory(layout, format));
        // Both sequences: 5 skipped tokens, a group, 27 skipped tokens, a group.
        let positions: Vec<i64> = [
            vec![-1; 5],
            (32..64).collect(),
            vec![-1; 27],
            (0..32).collect(),
        ]
        .concat();
        let mut cache = on(&mut one, layout, format);
        rope.apply_into(
            &tensor(&x, [2, 96, 1, 8]),
            &mut cache.slots(Slots::sequences(&positions)),
        )
        .expect("whole groups");
        let mut cache = on(&mut two, layout, format);
        for (token, slot) in [(5, 32), (64, 0), (96 + 5, 96), (96 + 64, 64)] {
            let group = tensor(&x[8 * token..][..8 * 32], [1, 32, 1, 8]);
            rope.apply_into(&group, &mut cache.slots(slot..slot + 32))
                .expect("a whole group");
        }
        same(&one, &two, name);
    }
}

#[test]
fn refused() {
    let rope = Rope::new(Pairing::Half);
    let frequencies = Frequencies::new(16, 10_000.0, &Scaling::Default).expect("a base");
    let layout = CacheLayout::hnd([2, 1, 64, 16]).expect("a small cache");
    let x = some_values(64 * 16);
    let part = |index, slot, found| {
        Err(Error::Slots(SlotsError::PartOfGroup {
            index,
            slot,
            found,
            tokens: 32,
        }))
    };
    for (name, format) in FORMATS {
        let mut bytes = memory(layout, format);
        let before = bytes.clone();
        let reversed: Vec<i64> = (0..32).rev().collect();
        let hole: Vec<i64> = (0..64)
            .map(|slot| if slot == 40 { -1 } else { slot })
            .collect();
        let over_blocks: Vec<i64> = (32..64).chain(48..80).collect();
        for (slots, expected) in [
            ((0..31).collect::<Vec<i64>>(), part(0, 0, 31)),
            ((1..33).collect(), part(0, 1, 32)),
            ((0..33).collect(), part(32, 32, 1)),
            (reversed, part(0, 31, 1)),
            (hole, part(32, 32, 8)),
            (over_blocks, part(32, 48, 32)),
            (vec![-1, 7], part(1, 7, 1)),
        ] {
            let shape = [1, slots.len(), 1, 16];
            let k = tensor(&x[..slots.len() * 16], shape);
            let deltas = vec![-1; slots.len()];
            let shift = frequencies.shift(&deltas).expect("a shift");
            let mut cache = on(&mut bytes, layout, format);
            assert_eq!(
                rope.apply_into(&k, &mut cache.slots(&slots)),
                expected,
                "{name}"
            );
            assert_eq!(
                rope.rotate(&mut cache.slots(&slots), &shift),
                expected,
                "{name}"
            );
            let mut cached = cache.slots(&slots);
            let outputs = &mut [Output::new(&mut cached, &shift)];
            assert_eq!(rope.rotate_into_each(&k, outputs), expected, "{name}");
            let mut parts = CachePartsMut::of([cache]).expect("one part");
            assert_eq!(
                rope.apply_into(&k, &mut parts.slots(&slots)),
                expected,
                "{name}"
            );
        }
        // Groups of other sequences do not join.
        let mut cache = on(&mut bytes, layout, format);
        let halves: Vec<i64> = (0..32).collect();
        let refused = rope.apply_into(
            &tensor(&x[..32 * 16], [2, 16, 1, 16]),
            &mut cache.slots(&halves),
        );
        assert_eq!(refused, part(0, 0, 16), "{name}");
        assert_eq!(cache.move_slots(0..16, 32..48), part(0, 0, 16), "{name}");
        assert_eq!(cache.move_slots(0..32, 16..48), part(0, 16, 32), "{name}");
        let refused = rope.apply_into(
            &tensor(&x[..512], [1, 32, 1, 16]),
            &mut cache.slots(Slots::offsets(&[0; 32])),
        );
        assert!(
            matches!(refused, Err(Error::Cache(CacheError::Layout { .. }))),
            "{name}"
        );
        assert_eq!(bytes, before, "{name}");

        // Blocks of whole groups; slots that are contiguous; widths; memory.
        let blocks = CacheLayout::hnd([2, 1, 48, 16]).expect("a small cache");
        let expected = CacheError::PartOfBlock {
            of: "block_size",
            given: 48,
            values: 32,
        };
        assert_eq!(blocks.bytes(format), Err(Error::Cache(expected)), "{name}");
        let nhd = CacheLayout::nhd([1, 32, 2, 16]).expect("a small cache");
        let refused = nhd.bytes(format);
        assert!(
            matches!(refused, Err(Error::Cache(CacheError::Layout { .. }))),
            "{name}"
        );
        let one_head = CacheLayout::nhd([4, 32, 1, 16]).expect("a small cache");
        assert_eq!(one_head.bytes(format), layout.bytes(format), "{name}");
        let hdn = CacheLayout::hdn([1, 1, 16, 32]).expect("a small cache");
        let refused = hdn.bytes(format);
        assert!(
            matches!(refused, Err(Error::Cache(CacheError::ChannelsApart { .. }))),
            "{name}"
        );
        let needed = bytes.len();
        let refused = Cache::coded(&bytes[..needed - 1], layout, format).expect_err("too short");
        let given = needed - 1;
        assert_eq!(
            refused,
            Error::Cache(CacheError::Memory { needed, given }),
            "{name}"
        );
    }
    let odd = CacheLayout::hnd([1, 1, 32, 15]).expect("a small cache");
    assert!(odd.bytes(of_32(ChannelCodes::U4)).is_err());
    assert!(odd.bytes(of_32(ChannelCodes::U8)).is_ok());
    for (codes, tokens, required) in [
        (ChannelCodes::U8, 0, "at least 1"),
        (ChannelCodes::Kivi4, 0, "a multiple of 8, above zero"),
        (ChannelCodes::Kivi4, 12, "a multiple of 8, above zero"),
        (ChannelCodes::Kivi2, 24, "a multiple of 16, above zero"),
    ] {
        let layout = CacheLayout::hnd([1, 1, 0, 16]).expect("a small cache");
        let refused = layout
            .bytes(CacheFormat::by_channel(codes, tokens))
            .expect_err("a refused group");
        assert!(
            matches!(refused, Error::Parameter { name: "tokens", required: it, .. } if it == required),
            "{refused}"
        );
    }
}
