//! Norms in a rotation's pass, and writes into caches: rope-core's own bits.

use crate::random::{Random, bits};
use candle_core::{D, DType, Device, Error, Result, Tensor};
use rope_candle::rope_core::cache::{
    BlockFormat, Cache, CacheLayout, CacheMut, QuantFormat, QuantScale, Slots,
};
use rope_candle::rope_core::half::{bf16, f16};
use rope_candle::rope_core::norm::{Norm, NormFormula, NormReach};
use rope_candle::rope_core::stages::{Normed, StageOrder};
use rope_candle::rope_core::{
    self, Element, Frequencies, Layout, Pairing, Rope, Scaling, TensorMut,
};
use rope_candle::{CacheFormat, ChannelFormat, Order, Rotary};

const BATCH: usize = 2;
const TOKENS: usize = 3;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

fn frequencies(rotary_dim: usize) -> Frequencies<'static> {
    Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default).expect("they exist")
}

fn random_k(random: &mut Random, dtype: DType) -> Result<Tensor> {
    random.tensor((BATCH, TOKENS, HEADS, HEAD_DIM), dtype)
}

fn flat<E: candle_core::WithDType>(x: &Tensor) -> Result<Vec<E>> {
    x.flatten_all()?.to_vec1()
}

/// Returns rope-core's result for the same tensor, rows and weights.
fn normed<E: Element + candle_core::WithDType, W: Element + candle_core::WithDType>(
    x: &Tensor,
    norm: Norm<'_>,
    weight: Option<&Tensor>,
    (pairing, rows): (Pairing, &rope_core::Rows<'_>),
) -> Result<Tensor> {
    let mut elements: Vec<E> = flat(x)?;
    let weight = weight.map(flat::<W>).transpose()?;
    let norm = match &weight {
        Some(weight) => norm.with_weight(weight),
        None => norm,
    };
    let layout = Layout::bshd([BATCH, TOKENS, HEADS, HEAD_DIM]).map_err(Error::wrap)?;
    let mut target = TensorMut::new(&mut elements, layout).map_err(Error::wrap)?;
    let rope = Rope::new(pairing).with_norm(norm);
    rope.rotate(&mut target, rows).map_err(Error::wrap)?;
    Tensor::from_vec(elements, x.dims(), &Device::Cpu)
}

#[test]
fn norms_have_the_bits_of_rope_core() -> Result<()> {
    let mut random = Random::new("norms");
    let eps = 1e-6;
    let norms = [
        (Norm::new(NormFormula::LLAMA, eps), Some(HEAD_DIM)),
        (Norm::new(NormFormula::GEMMA, eps), Some(HEADS * HEAD_DIM)),
        (Norm::new(NormFormula::ONCE, eps), Some(HEAD_DIM)),
        (
            Norm::new(NormFormula::OLMO2, eps).with_reach(NormReach::Token),
            Some(HEADS * HEAD_DIM),
        ),
        (
            Norm::new(NormFormula::LLAMA4, eps).with_order(StageOrder::AfterRotation),
            None,
        ),
    ];
    for (norm, weights) in norms {
        for (pairing, rotary_dim) in [(Pairing::Half, 64), (Pairing::Interleaved, 24)] {
            let rotary = Rotary::new(frequencies(rotary_dim), pairing).order(Order::TokensMajor);
            let rows = rotary.rows(9..9 + TOKENS)?;
            let core_rows = rotary.frequencies().rows(9..9 + TOKENS);
            let how = (pairing, &core_rows.map_err(Error::wrap)?);
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let x = random_k(&mut random, dtype)?;
                // Weights of every second channel of a longer tensor, which are copied.
                let weight = weights.map(|count| {
                    let wide = random.tensor((count, 2), DType::BF16)?;
                    wide.narrow(1, 1, 1)?.squeeze(1)
                });
                let weight = weight.transpose()?;
                let rotary = rotary.clone().with_norm(norm, weight.as_ref())?;
                let wanted = match dtype {
                    DType::F32 => normed::<f32, bf16>(&x, norm, weight.as_ref(), how),
                    DType::BF16 => normed::<bf16, bf16>(&x, norm, weight.as_ref(), how),
                    _ => normed::<f16, bf16>(&x, norm, weight.as_ref(), how),
                }?;
                assert_eq!(bits(&rotary.rotate(&x, &rows)?)?, bits(&wanted)?);
                // The same with any strides, and in place.
                let transposed = x.transpose(1, 2)?.contiguous()?.transpose(1, 2)?;
                assert_eq!(bits(&rotary.rotate(&transposed, &rows)?)?, bits(&wanted)?);
                rotary.rotate_in_place(&transposed, &rows)?;
                assert_eq!(bits(&transposed)?, bits(&wanted)?);
            }
        }
    }
    Ok(())
}

/// Blocks, slots per block, and the slot of each token; the second token has none.
const BLOCKS: usize = 3;
const BLOCK_SIZE: usize = 4;
const SLOTS: [i64; BATCH * TOKENS] = [7, -1, 0, 11, 3, 4];

/// Returns the bytes that rope-core writes into a dense cache of the same contents.
fn written<E: Element + candle_core::WithDType>(
    x: &Tensor,
    (layout, format, memory): (CacheLayout, CacheFormat, Vec<u8>),
    scale: usize,
    rotation: Option<(&Rope<Normed<'_>>, &rope_core::Rows<'_>)>,
) -> Result<Vec<u8>> {
    let elements: Vec<E> = flat(x)?;
    let shape = Layout::bshd([BATCH, TOKENS, HEADS, HEAD_DIM]).map_err(Error::wrap)?;
    let x = rope_core::Tensor::new(&elements, shape).map_err(Error::wrap)?;
    let write = |cache: &mut CacheMut<'_>| match rotation {
        Some((rope, rows)) => rope.rotate_into(&x, &mut cache.slots(&SLOTS), rows),
        None => Rope::new(Pairing::Half).apply_into(&x, &mut cache.slots(&SLOTS)),
    };
    let mut memory = memory;
    match format {
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[scale].into());
            CacheMut::coded(
                &mut memory,
                layout,
                rope_candle::rope_core::cache::CacheFormat::quantized(code, scale),
            )
            .and_then(|mut cache| write(&mut cache))
        }
        CacheFormat::Blocks(format) => {
            CacheMut::coded(&mut memory, layout, format).and_then(|mut cache| write(&mut cache))
        }
        _ => unreachable!("caches of elements are compared as tensors"),
    }
    .map_err(Error::wrap)?;
    Ok(memory)
}

/// Returns the values that rope-core reads from a cache of codes, in f32.
fn found(
    memory: &[u8],
    (layout, format): (CacheLayout, CacheFormat),
    scale: usize,
) -> Result<Tensor> {
    let cache = match format {
        CacheFormat::Quantized(code, scales) => {
            let scale = QuantScale::Divide(scales[scale].into());
            Cache::coded(
                memory,
                layout,
                rope_candle::rope_core::cache::CacheFormat::quantized(code, scale),
            )
        }
        CacheFormat::Blocks(format) => Cache::coded(memory, layout, format),
        _ => unreachable!("caches of elements are compared as tensors"),
    };
    let mut elements = [0.0_f32; BATCH * TOKENS * HEADS * HEAD_DIM];
    let shape = [BATCH, TOKENS, HEADS, HEAD_DIM];
    let mut target = TensorMut::new(&mut elements, shape).map_err(Error::wrap)?;
    cache
        .and_then(|cache| Rope::new(Pairing::Half).apply_into(&cache.slots(&SLOTS), &mut target))
        .map_err(Error::wrap)?;
    Tensor::new(&elements, &Device::Cpu)?.reshape(&shape)
}

fn codes(random: &mut Random, width: usize) -> Result<Tensor> {
    let shape = (BLOCKS, BLOCK_SIZE, HEADS, width);
    let bytes = (0..BLOCKS * BLOCK_SIZE * HEADS * width).map(|_| random.below(256) as u8);
    Tensor::from_vec(bytes.collect(), shape, &Device::Cpu)
}

/// Codes with a scale per group: rope-core's bytes in a cache of heads with their scales after their codes.
#[test]
fn groups_have_the_bits_of_rope_core() -> Result<()> {
    use rope_candle::GroupFormat as Group;
    use rope_candle::rope_core::cache::{
        self, Asymmetric, GroupCodes, MxScale, ScalePlace, TileScale,
    };
    let mut random = Random::new("groups");
    let tile = TileScale::PowerOfTwo { least: 1e-4 };
    // Bytes of the codes of a head, and of its scales.
    for (format, codes_of, scales) in [
        (Group::Mxfp4(MxScale::Even), 32, 2),
        (Group::Mxfp8(MxScale::Up), 64, 2),
        (Group::Nvfp4([0.5, 0.25]), 32, 4),
        (Group::E4m3In64(tile), 64, 4),
        (Group::E4m3In64(TileScale::E8m0 { least: 1e-4 }), 64, 1),
        (Group::U8(Asymmetric::ZeroPoint, 64), 64, 8),
        (Group::U4(Asymmetric::Minimum, 32), 32, 16),
    ] {
        let (width, at) = (codes_of + scales, ScalePlace::Inline(codes_of));
        let core = |index: usize| {
            let codes = match format {
                Group::Mxfp4(scale) => GroupCodes::Mxfp4(scale),
                Group::Mxfp8(scale) => GroupCodes::Mxfp8(scale),
                Group::Nvfp4(factors) => GroupCodes::Nvfp4(factors[index]),
                Group::E4m3In64(tile) => GroupCodes::E4m3In64(tile),
                Group::U8(rule, channels) => GroupCodes::U8(rule, channels),
                Group::U4(rule, channels) => GroupCodes::U4(rule, channels),
                _ => unreachable!("heads have 64 channels"),
            };
            cache::CacheFormat::by_group(codes, at)
        };
        let per_byte = HEAD_DIM / codes_of;
        let layout = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS, width * per_byte])
            .and_then(|layout| layout.narrow_channels(0..HEAD_DIM))
            .map_err(Error::wrap)?;
        let rotary = Rotary::new(frequencies(64), Pairing::Half).order(Order::TokensMajor);
        let rows = rotary.rows(9..9 + TOKENS)?;
        let core_rows = rotary
            .frequencies()
            .rows(9..9 + TOKENS)
            .map_err(Error::wrap)?;
        let (k, v) = (
            random_k(&mut random, DType::BF16)?,
            random_k(&mut random, DType::BF16)?,
        );
        let (keys, values) = (codes(&mut random, width)?, codes(&mut random, width)?);
        let rope = Rope::new(Pairing::Half);
        let shape = [BATCH, TOKENS, HEADS, HEAD_DIM];
        let mut wanted = Vec::new();
        for (index, (x, cache)) in [(&k, &keys), (&v, &values)].into_iter().enumerate() {
            let (elements, mut memory) = (flat::<bf16>(x)?, flat::<u8>(cache)?);
            let x = rope_core::Tensor::new(&elements, shape).map_err(Error::wrap)?;
            let mut cache =
                CacheMut::coded(&mut memory, layout, core(index)).map_err(Error::wrap)?;
            let slots = &mut cache.slots(&SLOTS);
            match index {
                0 => rope.rotate_into(&x, slots, &core_rows),
                _ => rope.apply_into(&x, slots),
            }
            .map_err(Error::wrap)?;
            wanted.push(memory);
        }
        let format = CacheFormat::Groups(format);
        rotary.rotate_into_caches((&k, &keys), (&v, &values), format, &SLOTS, &rows)?;
        assert_eq!(flat::<u8>(&keys)?, wanted[0], "{format:?}");
        assert_eq!(flat::<u8>(&values)?, wanted[1], "{format:?}");
        // A width that is no whole number of groups.
        let narrow = codes(&mut random, width - 1)?;
        let refused =
            rotary.rotate_into_caches((&k, &narrow), (&v, &values), format, &SLOTS, &rows);
        assert!(refused.is_err(), "{format:?}");
        assert_eq!(flat::<u8>(&values)?, wanted[1], "{format:?}");
    }
    Ok(())
}

#[test]
fn codes_have_the_bits_of_rope_core() -> Result<()> {
    let mut random = Random::new("codes");
    let scales = [0.5, 0.25];
    let quantized = QuantFormat::ALL.map(|code| CacheFormat::Quantized(code, scales));
    let blocks = [BlockFormat::Q8_0, BlockFormat::Q4_0].map(CacheFormat::Blocks);
    for format in quantized.into_iter().chain(blocks) {
        let width = match format {
            CacheFormat::Blocks(format) => HEAD_DIM / format.values * format.bytes,
            _ => HEAD_DIM,
        };
        for (pairing, rotary_dim) in [(Pairing::Half, 64), (Pairing::Interleaved, 24)] {
            let rotary = Rotary::new(frequencies(rotary_dim), pairing).order(Order::TokensMajor);
            let weight = random.tensor(HEAD_DIM, DType::F32)?;
            let norm = Norm::new(NormFormula::LLAMA, 1e-6);
            let with_norm = rotary.clone().with_norm(norm, Some(&weight))?;
            let rows = rotary.rows(9..9 + TOKENS)?;
            let core_rows = rotary.frequencies().rows(9..9 + TOKENS);
            let core_rows = core_rows.map_err(Error::wrap)?;
            let weight: Vec<f32> = flat(&weight)?;
            let plain = Rope::<Normed<'_>>::from(Rope::new(pairing));
            for (rotary, rope) in [
                (&rotary, plain),
                (&with_norm, plain.with_norm(norm.with_weight(&weight))),
            ] {
                let k = random_k(&mut random, DType::BF16)?;
                let v = random_k(&mut random, DType::F16)?;
                let (keys, values) = (codes(&mut random, width)?, codes(&mut random, width)?);
                let layout = CacheLayout::nhd([BLOCKS, BLOCK_SIZE, HEADS, HEAD_DIM]);
                let layout = layout.map_err(Error::wrap)?;
                let of = |cache: &Tensor| Ok::<_, Error>((layout, format, flat::<u8>(cache)?));
                let wanted_keys = written::<bf16>(&k, of(&keys)?, 0, Some((&rope, &core_rows)))?;
                let wanted_values = written::<f16>(&v, of(&values)?, 1, None)?;
                rotary.rotate_into_caches((&k, &keys), (&v, &values), format, &SLOTS, &rows)?;
                assert_eq!(flat::<u8>(&keys)?, wanted_keys, "{format:?}");
                assert_eq!(flat::<u8>(&values)?, wanted_values, "{format:?}");

                // rope-core reads the same, as either type; a token without a slot stays as it was.
                for dtype in [DType::F32, DType::BF16] {
                    let shape = [BATCH, TOKENS];
                    let (k, v) =
                        rotary.read_caches((&keys, &values), format, shape, &SLOTS, dtype)?;
                    for (read, memory, scale) in [(&k, &wanted_keys, 0), (&v, &wanted_values, 1)] {
                        let wanted = found(memory, (layout, format), scale)?;
                        assert_eq!((read.dims(), read.dtype()), (wanted.dims(), dtype));
                        assert_eq!(bits(read)?, bits(&wanted.to_dtype(dtype)?)?, "{format:?}");
                        let skipped = read.narrow(0, 0, 1)?.narrow(1, 1, 1)?;
                        assert_eq!(bits(&skipped)?, [0; HEADS * HEAD_DIM]);
                    }
                }
            }
        }
    }
    Ok(())
}

/// A slot has the bits of the same token rotated by itself, and the other slots keep theirs. The caches have room
/// before them and between their heads, or heads first, or keys and values of different types.
#[test]
fn elements_are_those_of_a_rotation() -> Result<()> {
    let mut random = Random::new("elements");
    let rotary = Rotary::new(frequencies(48), Pairing::Half);
    let rows = rotary.rows(9..9 + TOKENS)?;
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let k = random_k(&mut random, dtype)?.transpose(1, 2)?;
        let v = random_k(&mut random, DType::F32)?.transpose(1, 2)?;
        let wide = (BLOCKS + 1, HEADS + 1, BLOCK_SIZE, HEAD_DIM + 8);
        let [keys, values] = [(); 2].map(|()| random.tensor(wide, dtype));
        let (keys, values) = (keys?, values?);
        let before = [keys.copy()?, values.copy()?];
        let part = |cache: &Tensor| {
            cache
                .narrow(0, 1, BLOCKS)?
                .narrow(1, 1, HEADS)?
                .narrow(3, 8, HEAD_DIM)
        };
        let caches = [part(&keys)?, part(&values)?];
        let elements = CacheFormat::Elements;
        rotary.rotate_into_caches((&k, &caches[0]), (&v, &caches[1]), elements, &SLOTS, &rows)?;
        let rotated = [rotary.rotate(&k, &rows)?, v.to_dtype(dtype)?];
        for ((cache, before), wanted) in [&keys, &values].into_iter().zip(before).zip(rotated) {
            for (token, slot) in SLOTS.into_iter().enumerate().filter(|(_, slot)| *slot >= 0) {
                let (block, place) = (slot as usize / BLOCK_SIZE, slot as usize % BLOCK_SIZE);
                let slot = |cache: &Tensor| part(cache)?.narrow(0, block, 1)?.narrow(2, place, 1);
                let (sequence, token) = (token / TOKENS, token % TOKENS);
                let wanted = wanted.narrow(0, sequence, 1)?.narrow(2, token, 1)?;
                assert_eq!(bits(&slot(cache)?)?, bits(&wanted)?);
                slot(&before)?.zero_set()?;
                slot(cache)?.zero_set()?;
            }
            assert_eq!(bits(cache)?, bits(&before)?);
        }
    }
    Ok(())
}

/// candle-nn's cache, `[batch, heads, tokens, head_dim]`: each sequence is a block.
#[test]
fn a_block_for_each_sequence() -> Result<()> {
    let mut random = Random::new("sequences");
    let rotary = Rotary::new(frequencies(64), Pairing::Half);
    let rows = rotary.rows(4..4 + TOKENS)?;
    let k = random_k(&mut random, DType::F32)?.transpose(1, 2)?;
    let shape = (BATCH, HEADS, 8, HEAD_DIM);
    let [keys, values] = [(); 2].map(|()| Tensor::zeros(shape, DType::F32, &Device::Cpu));
    let (keys, values) = (keys?, values?);
    let slots = Slots::sequences(4..4 + TOKENS);
    let elements = CacheFormat::Elements;
    rotary.rotate_into_caches((&k, &keys), (&k, &values), elements, slots, &rows)?;
    let wanted = rotary.rotate(&k, &rows)?;
    assert_eq!(bits(&keys.narrow(2, 4, TOKENS)?)?, bits(&wanted)?);
    assert_eq!(bits(&values.narrow(2, 4, TOKENS)?)?, bits(&k)?);
    let shape = [BATCH, TOKENS];
    let (read, v) = rotary.read_caches((&keys, &values), elements, shape, slots, DType::F32)?;
    assert_eq!((bits(&read)?, bits(&v)?), (bits(&wanted)?, bits(&k)?));
    assert_eq!(
        bits(&keys.narrow(2, 0, 4)?.abs()?.max(D::Minus1)?)?,
        [0; 16]
    );
    Ok(())
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
fn channels_have_the_bits_of_rope_core() -> Result<()> {
    use rope_candle::rope_core::cache;
    let mut random = Random::new("channels");
    for (format, per_byte, rows_of_head) in CHANNEL_FORMATS {
        let core = match format {
            ChannelFormat::U8 => cache::ChannelCodes::U8,
            ChannelFormat::U4 => cache::ChannelCodes::U4,
            ChannelFormat::Kivi2 => cache::ChannelCodes::Kivi2,
            _ => cache::ChannelCodes::Kivi4,
        };
        let core = cache::CacheFormat::by_channel(core, 32);
        let (width, shape) = (HEAD_DIM / per_byte, [1, 64, HEADS, HEAD_DIM]);
        let rotary = Rotary::new(frequencies(64), Pairing::Half).order(Order::TokensMajor);
        let rows = rotary.rows(9..73)?;
        let core_rows = rotary.frequencies().rows(9..73).map_err(Error::wrap)?;
        let k = random.tensor(&shape, DType::F32)?;
        let v = random.tensor(&shape, DType::BF16)?;
        // Blocks 2 and 0, each in the order of its slots; block 1 keeps its bytes.
        let slots: Vec<i64> = (64..96).chain(0..32).collect();
        let mut cache = || {
            let bytes = (0..3 * HEADS * rows_of_head * width).map(|_| random.below(256) as u8);
            let shape = (3, HEADS, rows_of_head, width);
            Tensor::from_vec(bytes.collect::<Vec<_>>(), shape, &Device::Cpu)
        };
        let (keys, values) = (cache()?, cache()?);
        let layout = CacheLayout::hnd([3, HEADS, 32, HEAD_DIM]).map_err(Error::wrap)?;
        let (mut wanted_keys, mut wanted_values) = (flat::<u8>(&keys)?, flat::<u8>(&values)?);
        let rope = Rope::new(Pairing::Half);
        let of_k = flat::<f32>(&k)?;
        let x = rope_core::Tensor::new(&of_k, shape).map_err(Error::wrap)?;
        CacheMut::coded(&mut wanted_keys, layout, core)
            .and_then(|mut cache| rope.rotate_into(&x, &mut cache.slots(&slots), &core_rows))
            .map_err(Error::wrap)?;
        let of_v = flat::<bf16>(&v)?;
        let x = rope_core::Tensor::new(&of_v, shape).map_err(Error::wrap)?;
        CacheMut::coded(&mut wanted_values, layout, core)
            .and_then(|mut cache| rope.apply_into(&x, &mut cache.slots(&slots)))
            .map_err(Error::wrap)?;
        let by_channel = CacheFormat::Channels(format);
        // The order of the tensors is that of the caches, which are [blocks, rows, heads, width] here.
        let turned = (keys.transpose(1, 2)?, values.transpose(1, 2)?);
        let (to_keys, to_values) = ((&k, &turned.0), (&v, &turned.1));
        rotary.rotate_into_caches(to_keys, to_values, by_channel, &slots, &rows)?;
        assert_eq!(flat::<u8>(&keys)?, wanted_keys, "{format:?}");
        assert_eq!(flat::<u8>(&values)?, wanted_values, "{format:?}");

        let some = [70_i64, 3, -1, 31];
        let caches = (&turned.0, &turned.1);
        let (k_read, v_read) = rotary.read_caches(caches, by_channel, [1, 4], &some, DType::F32)?;
        for (read, memory) in [(k_read, &wanted_keys), (v_read, &wanted_values)] {
            let bytes = rows_of_head * width;
            let mut wanted = Vec::new();
            for slot in some {
                for head in 0..HEADS {
                    let Ok(slot) = usize::try_from(slot) else {
                        wanted.extend([0; HEAD_DIM]);
                        continue;
                    };
                    let rows = &memory[(slot / 32 * HEADS + head) * bytes..][..bytes];
                    let value = |channel| decoded(format, rows, HEAD_DIM, [slot % 32, channel]);
                    wanted.extend((0..HEAD_DIM).map(|channel| value(channel).to_bits()));
                }
            }
            let read = flat::<f32>(&read)?;
            let read: Vec<_> = read.into_iter().map(f32::to_bits).collect();
            assert_eq!(read, wanted, "{format:?}");
        }

        // A part of a group, rows apart, and rows of numbers alone.
        let part: Vec<i64> = (1..65).collect();
        let refused = [
            rotary.rotate_into_caches(to_keys, to_values, by_channel, &part, &rows),
            rotary.rotate_into_caches(
                (&k, &turned.0.contiguous()?),
                to_values,
                by_channel,
                &slots,
                &rows,
            ),
            rotary.rotate_into_caches(
                (&k, &turned.0.narrow(1, 0, 4)?),
                to_values,
                by_channel,
                &slots,
                &rows,
            ),
        ];
        assert!(refused.iter().all(Result::is_err), "{format:?}");
        assert_eq!(flat::<u8>(&keys)?, wanted_keys, "{format:?}");
        assert_eq!(flat::<u8>(&values)?, wanted_values, "{format:?}");
    }
    Ok(())
}
