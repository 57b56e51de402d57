//! Scales after the codes of a block: the pages of vLLM, and the codes and scales of the same heads with scales in a
//! slice of their own.

use half::bf16;
use rope_core::cache::{
    Cache, CacheFormat, CacheLayout, CacheMut, GroupCodes, QuantFormat, QuantScale, ScaleLayout,
    ScalePlace, Slots, TileScale,
};
use rope_core::error::CacheError;
use rope_core::{Backend, Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_tests::Source;
use rope_tests::golden::Golden;

use crate::refused::errors as error;
use crate::refused::refused;

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Tests vLLM's pages of NVFP4: the codes of K, their scales, the codes of V, and their scales.
#[test]
fn nvfp4_of_vllm() {
    let file = Golden::file("codes4/scatter.txt");
    let [blocks, block_size, heads, head_dim] =
        ["blocks", "block_size", "heads", "head_dim"].map(|key| file.decimal(key));
    let slots: Vec<i64> = file.decimals("slots");
    let [k, v]: [Vec<bf16>; 2] = ["k_bf16", "v_bf16"].map(|key| file.bits(key));
    let factor = 1.0 / file.bits::<f32>("nvfp4_g")[0];
    let (codes, scales) = (head_dim / 2, head_dim / 16);
    let side = block_size * heads * (codes + scales);
    for (key, is_nhd) in [("nvfp4_nhd", true), ("nvfp4_hnd", false)] {
        let expected = file.bits::<u8>(key);
        assert_eq!(expected.len(), blocks * 2 * side);
        let dense = match is_nhd {
            true => CacheLayout::nhd([blocks, block_size, heads, head_dim]),
            false => CacheLayout::hnd([blocks, heads, block_size, head_dim]),
        };
        let dense = dense.expect("a small cache");
        // The layout counts channels, two in a byte.
        let mut strides = dense.strides();
        strides.block = 2 * 2 * side;
        let layout = CacheLayout::strided(dense.shape(), strides).expect("a page");
        let place = match is_nhd {
            true => ScaleLayout::nh([block_size, heads]),
            false => ScaleLayout::hn([heads, block_size]),
        };
        for backend in Backend::available() {
            let mut got = vec![0x5a; expected.len()];
            for (x, begin) in [(&k, 0), (&v, side)] {
                let at = ScalePlace::InBlock {
                    first: begin + block_size * heads * codes,
                    strides: ScaleLayout {
                        block: 2 * side,
                        ..place.with_groups(scales)
                    },
                };
                let layout = layout.with_offset(2 * begin).expect("a page");
                let format = CacheFormat::by_group(GroupCodes::Nvfp4(factor), at);
                let mut cache = CacheMut::coded(&mut got, layout, format).expect("its pages");
                let x = Tensor::new(x, [1, slots.len(), heads, head_dim]).expect("a valid tensor");
                rope(backend)
                    .apply_into(&x, &mut cache.slots(&slots))
                    .expect("slots that are there");
            }
            assert_eq!(got, expected, "{backend}, {key}");
        }
    }
}

const BLOCKS: usize = 3;
const BLOCK: usize = 8;
const HEADS: usize = 2;
const DIM: usize = 128;
/// Bytes of a page: all codes, then a float for each head.
const CODES: usize = BLOCK * HEADS * DIM;
const PAGE: usize = CODES + BLOCK * HEADS * 4;

/// The layout of codes in pages, which begin after `offset` bytes.
fn paged(offset: usize) -> CacheLayout {
    let dense = CacheLayout::nhd([BLOCKS, BLOCK, HEADS, DIM]).expect("a small cache");
    let mut strides = dense.strides();
    strides.block = PAGE;
    CacheLayout::strided(dense.shape(), strides)
        .and_then(|layout| layout.with_offset(offset))
        .expect("pages")
}

/// The place of scales after the codes of a page.
fn in_block(first: usize) -> ScalePlace {
    ScalePlace::InBlock {
        first,
        strides: ScaleLayout {
            block: PAGE,
            ..ScaleLayout::nh([BLOCK, HEADS]).with_groups(4)
        },
    }
}

fn formats(at: ScalePlace) -> [CacheFormat<'static>; 3] {
    let least = 1e-4;
    [
        CacheFormat::quantized(QuantFormat::E4m3, QuantScale::Computed { least, at }),
        CacheFormat::quantized(QuantFormat::Int8Even, QuantScale::Computed { least, at }),
        CacheFormat::by_group(GroupCodes::E4m3In128(TileScale::PowerOfTwo { least }), at),
    ]
}

/// Writes, shifts and moves slots, and returns the heads in them.
fn through(backend: Backend, x: &[f32], cache: &mut CacheMut<'_>) -> Vec<f32> {
    let frequencies = Frequencies::new(DIM, 10_000.0, &Scaling::Default).expect("a base");
    let slots = [5_i64, 17, -1, 6, 0];
    let x = Tensor::new(x, [1, slots.len(), HEADS, DIM]).expect("a valid tensor");
    let rope = rope(backend);
    rope.rotate_into(
        &x,
        &mut cache.slots(&slots),
        &frequencies.at(3..8).expect("positions"),
    )
    .expect("slots that are there");
    let shift = frequencies.shift(&[-3_i64, 0, 9]).expect("shifts");
    rope.rotate(&mut cache.slots(&[17_i64, 5, 0]), &shift)
        .expect("slots that are there");
    cache
        .move_slots(&[5_i64, 6], &[4_i64, 5])
        .expect("moves in order");
    let mut y = vec![0.5; 4 * HEADS * DIM];
    let back = &mut TensorMut::new(&mut y, [1, 4, HEADS, DIM]).expect("a valid tensor");
    rope.apply_into(&cache.as_cache().slots(&[4_i64, 5, 17, 0]), back)
        .expect("slots that are there");
    y
}

#[test]
fn pages_of_codes_and_scales() {
    let source = &mut Source::random("pages_of_codes_and_scales");
    let x: Vec<f32> = (0..5 * HEADS * DIM).map(|_| source.unit() - 0.5).collect();
    let place = ScalePlace::Separate(ScaleLayout::nh([BLOCK, HEADS]));
    // Scales need no alignment.
    for before in [0, 3] {
        let at = in_block(before + CODES);
        for (index, (format, apart)) in formats(at).into_iter().zip(formats(place)).enumerate() {
            for backend in Backend::available() {
                let doing = format!("{backend}, {index}, {before}");
                let mut memory = vec![0x5a_u8; before + BLOCKS * PAGE];
                assert_eq!(paged(before).bytes(format), Ok(memory.len()));
                let mut cache =
                    CacheMut::coded(&mut memory, paged(before), format).expect("its pages");
                let got = through(backend, &x, &mut cache);
                let (mut codes, mut scales) = (vec![0x5a_u8; BLOCKS * CODES], Vec::new());
                scales.resize(BLOCKS * BLOCK * HEADS, f32::from_bits(0x5a5a_5a5a));
                let dense = CacheLayout::nhd([BLOCKS, BLOCK, HEADS, DIM]).expect("a cache");
                let mut cache = CacheMut::coded_with_scales(&mut codes, dense, apart, &mut scales)
                    .expect("its memory");
                assert_eq!(got, through(backend, &x, &mut cache), "{doing}");
                let scales: &[u8] = bytemuck::cast_slice(&scales);
                for block in 0..BLOCKS {
                    let page = &memory[before + block * PAGE..][..PAGE];
                    assert_eq!(page[..CODES], codes[block * CODES..][..CODES], "{doing}");
                    let len = BLOCK * HEADS * 4;
                    assert_eq!(page[CODES..], scales[block * len..][..len], "{doing}");
                }
                assert_eq!(memory[..before], [0x5a; 3][..before], "{doing}");
            }
        }
    }
}

#[test]
fn refused_places() {
    let mut memory = vec![0x5a_u8; (BLOCKS + 1) * PAGE];
    let other = |block, token, head| {
        let strides = ScaleLayout { block, token, head };
        ScalePlace::InBlock {
            first: CODES,
            strides,
        }
    };
    for at in [
        in_block(CODES - 1),
        in_block(0),
        in_block(CODES + 1),
        in_block(PAGE - 1),
        other(PAGE - 4, 8, 4),
    ] {
        let required = "of codes and scales that share no byte: the scales of a block follow all of its codes, at the \
                        same stride of blocks";
        for format in formats(at) {
            let refusal = CacheMut::coded(&mut memory, paged(0), format);
            refused(refusal, error::cache_layout(required));
            let refusal = Cache::coded(&memory, paged(0), format).map(|_| ());
            refused(refusal, error::cache_layout(required));
        }
    }
    let len = BLOCKS * PAGE;
    for format in formats(in_block(CODES)) {
        let refusal = CacheMut::coded(&mut memory[..len - 1], paged(0), format);
        refused(refusal, error::cache_memory(len, len - 1));
    }
    // Two heads with one scale.
    for at in [other(PAGE, 8, 3), other(PAGE, 4, 4)] {
        for format in formats(at) {
            let refusal = CacheMut::coded(&mut memory, paged(0), format).map(|_| ());
            assert!(matches!(
                refusal,
                Err(Error::Cache(CacheError::Overlap { of: "scales", .. }))
            ));
        }
    }
    for at in [in_block(usize::MAX), in_block(usize::MAX - 3)] {
        for format in formats(at) {
            assert!(CacheMut::coded(&mut memory, paged(0), format).is_err());
        }
    }
    let [format, ..] = formats(in_block(CODES));
    let mut cache = CacheMut::coded(&mut memory, paged(0), format).expect("its pages");
    let x = [1.0_f32; HEADS * DIM];
    let x = Tensor::new(&x, [1, 1, HEADS, DIM]).expect("a valid tensor");
    let required = "addressed by slots, not by Slots::offsets, because its scales lie apart";
    refused(
        Rope::new(Pairing::Half).apply_into(&x, &mut cache.slots(Slots::offsets(&[0]))),
        error::cache_layout(required),
    );
    assert_eq!(memory, [0x5a; (BLOCKS + 1) * PAGE]);
}
