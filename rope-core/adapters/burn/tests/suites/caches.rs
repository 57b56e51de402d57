//! Norms in a rotation's pass, and writes into caches: rope-core's own bits, on Flex.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use half::{bf16, f16};
use rope_burn::{
    CacheFormat, ChannelFormat, Error, GroupFormat, norm_rotate, read_caches, rotate_into_caches,
};
use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheLayout, CacheMut, ChannelCodes, GroupCodes, MxScale,
    QuantFormat, QuantScale, ScalePlace, Slots, TileScale,
};
use rope_core::norm::{Norm, NormFormula, NormReach};
use rope_core::stages::{Normed, StageOrder};
use rope_core::{Element, Layout, Pairing, Rope, Rows, TensorMut};

use crate::refused::refused;
use crate::support::{FORMS, Source, bits, laid, other, values};

const SHAPE: [usize; 4] = [2, 2, 3, 64];
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn elements<E: burn::tensor::Element>(x: &Tensor<4>) -> Vec<E> {
    x.to_data().try_to_vec().expect("the tensor's type")
}

fn normed<E: Element + burn::tensor::Element>(
    x: &Tensor<4>,
    rope: &Rope<Normed<'_>>,
    rows: &Rows<'_>,
) -> Vec<u32> {
    let mut values: Vec<E> = elements(x);
    let layout = Layout::bhsd(x.dims()).expect("a small shape");
    let mut target = TensorMut::new(&mut values, layout).expect("a tensor");
    rope.rotate(&mut target, rows).expect("rows that fit");
    let bits = |value: &E| value.to_f32().to_bits();
    values.iter().map(bits).collect()
}

#[test]
fn a_norm_is_that_of_rope_core() {
    let (source, device) = (&mut Source::random("norms"), Device::flex());
    let weights = source.values(2 * 64);
    let eps = 1e-6;
    let norms = [
        Norm::new(NormFormula::LLAMA, eps).with_weight(&weights[..64]),
        Norm::new(NormFormula::GEMMA, eps).with_weight(&weights[..]),
        Norm::new(NormFormula::OLMO2, eps)
            .with_weight(&weights[..])
            .with_reach(NormReach::Token),
        Norm::new(NormFormula::LLAMA4, eps).with_order(StageOrder::AfterRotation),
    ];
    for norm in norms {
        for (pairing, pairs) in [(Pairing::Half, 32), (Pairing::Interleaved, 11)] {
            for dtype in FLOATS {
                let own = source.rows(SHAPE, pairs);
                let (x, rows) = (source.tensor(SHAPE, dtype, &device), own.on(&device));
                let rope = Rope::new(pairing).with_norm(norm);
                let expected = match dtype {
                    DType::F32 => normed::<f32>(&x, &rope, &own.rows),
                    DType::F16 => normed::<f16>(&x, &rope, &own.rows),
                    _ => normed::<bf16>(&x, &rope, &own.rows),
                };
                for form in FORMS {
                    let case = format!("{norm:?} {dtype:?} {pairing} {form}");
                    let only = laid(&x, form);
                    let y = norm_rotate(only.clone(), norm, &rows, pairing).expect(&case);
                    assert_eq!(bits(&y), expected, "{case}");
                    assert_eq!(bits(&only), bits(&x), "another handle changed: {case}");
                    let y = norm_rotate(only, norm, &rows, pairing).expect(&case);
                    assert_eq!((bits(&y), y.dtype()), (expected.clone(), dtype), "{case}");
                }
                // Tensors of more dimensions have heads in a grid.
                let more = x.reshape([2, 1, 2, 3, 64]);
                let y = norm_rotate(more, norm, &rows, pairing).expect("five dimensions");
                assert_eq!(y.dims(), [2, 1, 2, 3, 64]);
                assert_eq!(bits(&y), expected);
            }
        }
    }
}

/// 3 blocks of 4 slots; one slot for each token, and none for the second one.
const SLOTS: [i64; 6] = [7, -1, 0, 11, 3, 4];

/// Returns the bytes of the codes of a head of 64 channels, and those of its scales.
fn widths(format: GroupFormat) -> [usize; 2] {
    match format {
        GroupFormat::Mxfp4(_) => [32, 2],
        GroupFormat::Mxfp8(_) => [64, 2],
        GroupFormat::Nvfp4(_) => [32, 4],
        GroupFormat::E4m3In64(TileScale::E8m0 { .. }) => [64, 1],
        GroupFormat::U8(..) => [64, 8],
        GroupFormat::U4(..) => [32, 16],
        _ => [64, 4],
    }
}

/// Returns rope-core's layout and format; the layout counts channels.
fn groups(
    format: GroupFormat,
    index: usize,
) -> (CacheLayout, rope_core::cache::CacheFormat<'static>) {
    let [codes_of, scales] = widths(format);
    let layout = CacheLayout::hnd([3, 2, 4, (codes_of + scales) * (64 / codes_of)])
        .and_then(|layout| layout.narrow_channels(0..64));
    let codes = match format {
        GroupFormat::Mxfp4(scale) => GroupCodes::Mxfp4(scale),
        GroupFormat::Mxfp8(scale) => GroupCodes::Mxfp8(scale),
        GroupFormat::Nvfp4(factors) => GroupCodes::Nvfp4(factors[index]),
        GroupFormat::E4m3In64(scale) => GroupCodes::E4m3In64(scale),
        GroupFormat::U8(rule, channels) => GroupCodes::U8(rule, channels),
        GroupFormat::U4(rule, channels) => GroupCodes::U4(rule, channels),
        _ => unreachable!("heads have 64 channels"),
    };
    let core = rope_core::cache::CacheFormat::by_group(codes, ScalePlace::Inline(codes_of));
    (layout.expect("a small cache"), core)
}

fn written<E: Element + burn::tensor::Element>(
    x: &Tensor<4>,
    mut memory: Vec<u8>,
    (format, index): (CacheFormat, usize),
    rotation: Option<(&Rope<Normed<'_>>, &Rows<'_>)>,
) -> Vec<u8> {
    let elements: Vec<E> = elements(x);
    let layout = Layout::bhsd(SHAPE).expect("a small shape");
    let x = rope_core::Tensor::new(&elements, layout).expect("a tensor");
    let layout = CacheLayout::hnd([3, 2, 4, 64]).expect("a small cache");
    let cache = match format {
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[index].into());
            CacheMut::coded(
                &mut memory,
                layout,
                rope_core::cache::CacheFormat::quantized(code, scale),
            )
        }
        CacheFormat::Blocks(format) => CacheMut::coded(&mut memory, layout, format),
        CacheFormat::Groups(format) => {
            let (layout, format) = groups(format, index);
            CacheMut::coded(&mut memory, layout, format)
        }
        _ => unreachable!("caches of elements are compared as tensors"),
    };
    let mut cache = cache.expect("a cache");
    match rotation {
        Some((rope, rows)) => rope.rotate_into(&x, &mut cache.slots(&SLOTS), rows),
        None => Rope::new(Pairing::Half).apply_into(&x, &mut cache.slots(&SLOTS)),
    }
    .expect("slots that fit");
    memory
}

fn found(memory: &[u8], (format, index): (CacheFormat, usize)) -> Vec<f32> {
    let layout = CacheLayout::hnd([3, 2, 4, 64]).expect("a small cache");
    let cache = match format {
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[index].into());
            Cache::coded(
                memory,
                layout,
                rope_core::cache::CacheFormat::quantized(code, scale),
            )
        }
        CacheFormat::Blocks(format) => Cache::coded(memory, layout, format),
        CacheFormat::Groups(format) => {
            let (layout, format) = groups(format, index);
            Cache::coded(memory, layout, format)
        }
        _ => unreachable!("caches of elements are compared as tensors"),
    };
    let mut values = vec![0.0_f32; SHAPE.iter().product()];
    let layout = Layout::bhsd(SHAPE).expect("a small shape");
    let mut target = TensorMut::new(&mut values, layout).expect("a tensor");
    let rope = Rope::new(Pairing::Half);
    rope.apply_into(&cache.expect("a cache").slots(&SLOTS), &mut target)
        .expect("slots that fit");
    values
}

fn bytes(cache: &Tensor<4, Int>) -> Vec<u8> {
    cache.to_data().try_to_vec().expect("bytes")
}

#[test]
fn codes_are_those_of_rope_core() {
    let (source, device) = (&mut Source::random("codes"), Device::flex());
    let weights = source.values(64);
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
    let scales = [0.5, 0.25];
    let quantized = QuantFormat::ALL.map(|code| CacheFormat::Quantized(code, scales));
    let blocks = [BlockFormat::Q8_0, BlockFormat::Q4_0].map(CacheFormat::Blocks);
    let groups = [
        GroupFormat::Mxfp4(MxScale::Even),
        GroupFormat::Mxfp8(MxScale::Up),
        GroupFormat::Nvfp4(scales),
        GroupFormat::E4m3In64(TileScale::PowerOfTwo { least: 1e-4 }),
        GroupFormat::E4m3In64(TileScale::E8m0 { least: 1e-4 }),
        GroupFormat::U8(Asymmetric::ZeroPoint, 64),
        GroupFormat::U4(Asymmetric::Minimum, 32),
    ];
    let groups = groups.map(CacheFormat::Groups);
    for format in quantized.into_iter().chain(blocks).chain(groups) {
        let width = match format {
            CacheFormat::Groups(format) => widths(format).iter().sum(),
            CacheFormat::Blocks(format) => 64 / format.values * format.bytes,
            _ => 64,
        };
        for (pairing, pairs) in [(Pairing::Half, 32), (Pairing::Interleaved, 11)] {
            for norm in [None, Some(norm)] {
                let own = source.rows([2, 1, 3, 64], pairs);
                let rows = own.on(&device);
                let k = source.tensor(SHAPE, DType::BF16, &device);
                let v = source.tensor(SHAPE, DType::F16, &device);
                let mut cache = || {
                    let values = (0..3 * 2 * 4 * width).map(|_| source.below(256) as u8);
                    let data = TensorData::new(values.collect::<Vec<_>>(), [3, 2, 4, width]);
                    Tensor::<4, Int>::from_data(data, (&device, DType::U8))
                };
                let caches = [cache(), cache()];
                let before = [bytes(&caches[0]), bytes(&caches[1])];
                let plain = Rope::<Normed<'_>>::from(Rope::new(pairing));
                let rope = norm.map_or(plain, |norm| plain.with_norm(norm));
                let rotation = Some((&rope, &own.rows));
                let expected = (
                    written::<bf16>(&k, before[0].clone(), (format, 0), rotation),
                    written::<f16>(&v, before[1].clone(), (format, 1), None),
                );
                // With another handle, whose values stay, and without one.
                let [keys, values] = caches;
                let write = |keys: &dyn Fn() -> _, values: &dyn Fn() -> _| {
                    let (k, v) = ((k.clone(), keys()), (v.clone(), values()));
                    rotate_into_caches(k, v, format, &SLOTS, &rows, pairing, norm).expect("fits")
                };
                let (new_keys, new_values) = write(&|| keys.clone(), &|| values.clone());
                assert_eq!(
                    (bytes(&new_keys), bytes(&new_values)),
                    expected,
                    "{format:?}"
                );
                assert_eq!([bytes(&keys), bytes(&values)], before, "{format:?}");
                let tokens_major = |x: &Tensor<4, Int>| {
                    let data = x.clone().swap_dims(1, 2).to_data();
                    Tensor::from_data(data, (&device, DType::U8)).swap_dims(1, 2)
                };
                let (keys, values) = write(&|| tokens_major(&keys), &|| tokens_major(&values));
                assert_eq!((bytes(&keys), bytes(&values)), expected, "{format:?}");

                // rope-core reads the same, as either type; a token without a slot stays as it was.
                for dtype in FLOATS {
                    let read = read_caches((&keys, &values), format, [2, 3], &SLOTS, dtype);
                    let (k, v) = read.expect("slots that fit");
                    for (read, memory, index) in [(k, &expected.0, 0), (v, &expected.1, 1)] {
                        assert_eq!((read.dims(), read.dtype()), (SHAPE, dtype));
                        let found = TensorData::new(found(memory, (format, index)), SHAPE);
                        let found = Tensor::<4>::from_data(found, (&device, DType::F32));
                        assert_eq!(bits(&read), bits(&found.cast(dtype)), "{format:?}");
                        let skipped = read.slice([0..1, 0..2, 1..2]);
                        assert!(bits(&skipped).iter().all(|bits| *bits == 0));
                    }
                }
            }
        }
    }
}

/// A slot has the bits of the same token rotated by itself, in any memory layout of the cache.
#[test]
fn elements_are_those_of_a_rotation() {
    let (source, device) = (&mut Source::random("elements"), Device::flex());
    for dtype in FLOATS {
        for form in FORMS {
            let own = source.rows([2, 1, 3, 64], 24);
            let rows = own.on(&device);
            let k = source.tensor(SHAPE, dtype, &device);
            let v = source.tensor(SHAPE, DType::F32, &device);
            let rotated = rope_burn::rotate(k.clone(), &rows, Pairing::Half).expect("rows");
            let [keys, values] = [(); 2].map(|()| source.tensor([2, 2, 8, 64], dtype, &device));
            let (new_keys, new_values) = rotate_into_caches(
                (laid(&k, form), laid(&keys, form)),
                (laid(&v, form), laid(&values, form)),
                CacheFormat::Elements,
                Slots::sequences(4..7),
                &rows,
                Pairing::Half,
                None,
            )
            .expect("fits");
            for (cache, new, wanted) in [
                (keys, new_keys, rotated),
                (values, new_values, v.cast(dtype)),
            ] {
                let slots = [0..2, 0..2, 4..7, 0..64];
                assert_eq!(
                    bits(&new),
                    bits(&cache.slice_assign(slots, wanted)),
                    "{form}"
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (source, device) = (&mut Source::random("refused caches"), Device::flex());
    let own = source.rows([1, 1, 3, 64], 32);
    let rows = own.on(&device);
    let norm = Norm::new(NormFormula::LLAMA, 1e-6);
    let x = source.tensor(SHAPE, DType::F32, &device);
    let before = bits(&x);
    let norm_x = |x, norm| norm_rotate(x, norm, &rows, Pairing::Half);
    refused(norm_x(x.clone(), norm), &["weight"]);
    refused(
        norm_x(x.clone(), norm.with_weight(&[1.0_f32; 63])),
        &["63", "64"],
    );
    let ones = norm.with_weight(&[1.0_f32; 64]);
    let error = refused(
        norm_x(x.clone().cast(DType::F64), ones),
        &["x is F64", "F16", "Flex"],
    );
    assert!(matches!(error, Error::Fused { name: "x", .. }));
    let elsewhere = |device: &Device| {
        let x = Tensor::<4>::zeros(SHAPE, device);
        norm_rotate(x, ones, &own.on(device), Pairing::Half)
    };
    refused(elsewhere(&other()), &["x is F32", "on Flex"]);
    refused(
        elsewhere(&Device::flex().autodiff()),
        &["without autodiff", "inner"],
    );

    let cache = |dims: [usize; 4], dtype| Tensor::<4>::zeros(dims, (&device, dtype));
    let good = || cache([3, 2, 4, 64], DType::F32);
    let kept = good();
    let write = |v: Tensor<4>, values, slots: &[i64]| {
        let k = (x.clone(), kept.clone());
        let elements = CacheFormat::Elements;
        rotate_into_caches(k, (v, values), elements, slots, &rows, Pairing::Half, None)
    };
    let six = cache([3, 2, 4, 6], DType::F32);
    refused(write(x.clone(), six, &SLOTS), &["6", "64"]);
    refused(write(x.clone(), good(), &[0, 1, 2, 3, 4, 12]), &["12"]);
    refused(write(x.clone(), good(), &SLOTS[1..]), &["5", "6"]);
    refused(
        write(x.clone().narrow(2, 0, 2), good(), &SLOTS),
        &["4", "6"],
    );
    refused(
        write(x.clone(), cache([3, 2, 4, 64], DType::F64), &SLOTS),
        &["values is F64"],
    );
    let tracked = Tensor::<4>::zeros(SHAPE, &Device::flex().autodiff()).require_grad();
    refused(write(tracked, good(), &SLOTS), &["v is F32", "inner"]);
    let words = ["keys is F32", "U8 for codes"];
    let (k, v) = ((x.clone(), kept.clone()), (x.clone(), good()));
    let fp8 = CacheFormat::Quantized(QuantFormat::E4m3, [1.0; 2]);
    refused(
        rotate_into_caches(k, v, fp8, &SLOTS, &rows, Pairing::Half, None),
        &words,
    );
    let bytes = |width| Tensor::<4, Int>::zeros([3, 2, 4, width], (&device, DType::U8));
    let blocks = CacheFormat::Blocks(BlockFormat::Q8_0);
    let (k, v) = ((x.clone(), bytes(64)), (x.clone(), bytes(64)));
    refused(
        rotate_into_caches(k, v, blocks, &SLOTS, &rows, Pairing::Half, None),
        &["whole blocks"],
    );
    let read = |keys: &Tensor<4>, tokens, slots: &[i64], dtype| {
        read_caches((&kept, keys), CacheFormat::Elements, tokens, slots, dtype)
    };
    refused(read(&kept, [2, 2], &SLOTS, DType::F32), &["6", "4"]);
    refused(read(&kept, [1, 1], &[12], DType::F32), &["12"]);
    let words = ["the result is F64", "BF16"];
    refused(read(&kept, [2, 3], &SLOTS, DType::F64), &words);
    let most = isize::MAX as usize / 128;
    let words = [&most.to_string()[..], "memory holds"];
    refused(read(&kept, [1, most], &SLOTS, DType::F32), &words);
    let elsewhere = Tensor::<4>::zeros([3, 2, 4, 64], &other());
    refused(read(&elsewhere, [2, 3], &SLOTS, DType::F32), &["values is"]);
    assert_eq!(bits(&x), before);
    assert!(values(&kept).iter().all(|value| *value == 0.0));
}

/// Returns a channel of a token of a head, whose rows in a block are these, by the definitions of OpenVINO and KIVI.
fn decoded(
    format: ChannelFormat,
    rows: &[u8],
    head_dim: usize,
    [token, channel]: [usize; 2],
) -> f32 {
    let float = |index: usize| {
        let bytes = rows[4 * index..][..4].try_into().expect("four bytes");
        f32::from_le_bytes(bytes)
    };
    let half = |index: usize| {
        let bytes = [rows[2 * index], rows[2 * index + 1]];
        f16::from_le_bytes(bytes).to_f32()
    };
    // KIVI packs the tokens of a channel, the first one in the lowest bits.
    let kivi = |bits: usize| {
        let codes = &rows[4 * head_dim..];
        let bytes = codes.len() / head_dim;
        let byte = codes[channel * bytes + token * bits / 8];
        let code = byte >> (token * bits % 8) & ((1 << bits) - 1);
        f32::from(code) * half(channel) + half(head_dim + channel)
    };
    let openvino = |code: u8| (f32::from(code) - float(head_dim + channel)) * float(channel);
    let codes = || &rows[8 * head_dim..];
    match format {
        ChannelFormat::U8 => openvino(codes()[token * head_dim + channel]),
        ChannelFormat::U4 => {
            let byte = codes()[(token * head_dim + channel) / 2];
            openvino(if channel % 2 == 0 {
                byte >> 4
            } else {
                byte & 15
            })
        }
        ChannelFormat::Kivi2 => kivi(2),
        ChannelFormat::Kivi4 => kivi(4),
        _ => unreachable!("another format"),
    }
}

/// Channels per byte of a row, and rows of a head in a block of 32 slots.
const CHANNEL_FORMATS: [(ChannelFormat, usize, usize); 4] = [
    (ChannelFormat::U8, 1, 8 + 32),
    (ChannelFormat::U4, 2, 16 + 32),
    (ChannelFormat::Kivi2, 1, 4 + 32 / 4),
    (ChannelFormat::Kivi4, 1, 4 + 32 / 2),
];

/// Numbers by channel: a write fills whole blocks, a read finds any slots.
#[test]
fn channels_are_those_of_rope_core() {
    let (source, device) = (&mut Source::random("channels"), Device::flex());
    for (format, per_byte, rows_of_head) in CHANNEL_FORMATS {
        let core = match format {
            ChannelFormat::U8 => ChannelCodes::U8,
            ChannelFormat::U4 => ChannelCodes::U4,
            ChannelFormat::Kivi2 => ChannelCodes::Kivi2,
            _ => ChannelCodes::Kivi4,
        };
        let core = rope_core::cache::CacheFormat::by_channel(core, 32);
        let (width, shape) = (64 / per_byte, [1, 2, 64, 64]);
        let own = source.rows(shape, 32);
        let rows = own.on(&device);
        let k = source.tensor(shape, DType::F32, &device);
        let v = source.tensor(shape, DType::BF16, &device);
        // Blocks 2 and 0, each in the order of its slots; block 1 keeps its bytes.
        let slots: Vec<i64> = (64..96).chain(0..32).collect();
        let mut cache = || {
            let bytes = (0..3 * 2 * rows_of_head * width).map(|_| source.below(256) as u8);
            let data = TensorData::new(bytes.collect::<Vec<_>>(), [3, 2, rows_of_head, width]);
            Tensor::<4, Int>::from_data(data, (&device, DType::U8))
        };
        let (keys, values) = (cache(), cache());
        let layout = CacheLayout::hnd([3, 2, 32, 64]).expect("a small cache");
        let (mut wanted_keys, mut wanted_values) = (bytes(&keys), bytes(&values));
        let of_x = Layout::bhsd(shape).expect("a small shape");
        let rope = Rope::new(Pairing::Half);
        let of_k = elements::<f32>(&k);
        let x = rope_core::Tensor::new(&of_k, of_x).expect("a tensor");
        CacheMut::coded(&mut wanted_keys, layout, core)
            .and_then(|mut cache| rope.rotate_into(&x, &mut cache.slots(&slots), &own.rows))
            .expect("whole groups");
        let of_v = elements::<bf16>(&v);
        let x = rope_core::Tensor::new(&of_v, of_x).expect("a tensor");
        CacheMut::coded(&mut wanted_values, layout, core)
            .and_then(|mut cache| rope.apply_into(&x, &mut cache.slots(&slots)))
            .expect("whole groups");
        let by_channel = CacheFormat::Channels(format);
        let write = |keys: &Tensor<4, Int>, values: &Tensor<4, Int>, slots: &[i64]| {
            let (k, v) = ((k.clone(), keys.clone()), (v.clone(), values.clone()));
            rotate_into_caches(k, v, by_channel, slots, &rows, Pairing::Half, None)
        };
        let (new_keys, new_values) = write(&keys, &values, &slots).expect("whole groups");
        assert_eq!(bytes(&new_keys), wanted_keys, "{format:?}");
        assert_eq!(bytes(&new_values), wanted_values, "{format:?}");

        let some = [70_i64, 3, -1, 31];
        let caches = (&new_keys, &new_values);
        let read = read_caches(caches, by_channel, [1, 4], &some, DType::F32);
        let (k_read, v_read) = read.expect("slots that fit");
        for (read, memory) in [(k_read, &wanted_keys), (v_read, &wanted_values)] {
            let bytes = rows_of_head * width;
            let mut wanted = Vec::new();
            for head in 0..2 {
                for slot in some {
                    let Ok(slot) = usize::try_from(slot) else {
                        wanted.extend([0; 64]);
                        continue;
                    };
                    let rows = &memory[(slot / 32 * 2 + head) * bytes..][..bytes];
                    let value = |channel| decoded(format, rows, 64, [slot % 32, channel]);
                    wanted.extend((0..64).map(|channel| value(channel).to_bits()));
                }
            }
            assert_eq!(bits(&read), wanted, "{format:?}");
        }

        // A part of a group, rows apart, and rows of numbers alone.
        let part: Vec<i64> = (1..65).collect();
        assert!(write(&keys, &values, &part).is_err(), "{format:?}");
        let apart = keys.clone().swap_dims(1, 2).to_data();
        let apart = Tensor::from_data(apart, (&device, DType::U8)).swap_dims(1, 2);
        let few = keys.clone().slice([0..3, 0..2, 0..4]);
        for keys in [apart, few] {
            let error = write(&keys, &values, &slots)
                .err()
                .map(|error| error.to_string());
            let error = error.expect("a refusal");
            assert!(error.contains("rows of a head"), "{format:?}: {error}");
        }
    }
}
