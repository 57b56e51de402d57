//! Unsigned codes with two numbers per group of any width, wherever the numbers lie: the codes of another program,
//! shifts, copies and moves, NaNs and infinities, any group on every backend, and refusals.

use half::bf16;
use rope_core::cache::{
    Asymmetric, BlockFormat, Cache, CacheFormat, CacheLayout, CacheMut, GroupCodes, QuantFormat,
    QuantScale, ScaleLayout, ScalePlace,
};
use rope_core::error::{CacheError, CacheIndex};
use rope_core::{Backend, Error, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_tests::compare::same_bytes as same;
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source};

use crate::cache::in_blocks;
use crate::models::alike;

/// The place of the numbers of a head.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In a slice of their own, `[slots, heads, groups, 2]`.
    Apart,
    /// Scales in one slice, and zero points or minima in another, `[slots, heads, groups]`: KIVI's tensors.
    TwoLists,
    /// Before the codes of their head: OpenVINO's pages, if a head is one group.
    Before,
    /// After them, with a gap.
    After,
}

const PLACES: [Place; 4] = [Place::Apart, Place::TwoLists, Place::Before, Place::After];

/// A format without the place of its numbers.
#[derive(Clone, Copy, Debug)]
struct Groups {
    bits: usize,
    channels: usize,
    rule: Asymmetric,
}

impl Groups {
    fn all(channels: usize) -> impl Iterator<Item = Groups> {
        let rules = Asymmetric::ALL.into_iter();
        rules.flat_map(move |rule| {
            [8, 4].map(|bits| Groups {
                bits,
                channels,
                rule,
            })
        })
    }

    fn at(self, at: ScalePlace) -> CacheFormat<'static> {
        match self.bits {
            8 => CacheFormat::by_group(GroupCodes::U8(self.rule, self.channels), at),
            _ => CacheFormat::by_group(GroupCodes::U4(self.rule, self.channels), at),
        }
    }

    fn rule_name(self) -> &'static str {
        match self.rule {
            Asymmetric::ZeroPoint => "zero_point",
            _ => "minimum",
        }
    }
}

/// A cache of one page.
struct Memory {
    layout: CacheLayout,
    format: CacheFormat<'static>,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
    zeros: Vec<f32>,
    /// Bytes of a head, of the codes in it, where these begin, and where the numbers do.
    head: [usize; 4],
    /// Numbers of a head.
    count: usize,
    place: Place,
}

const GAP: usize = 3;

impl Memory {
    fn new(groups: Groups, [slots, heads, head_dim]: [usize; 3], place: Place) -> Self {
        let per_byte = 8 / groups.bits;
        let (codes, count) = (head_dim / per_byte, 2 * head_dim / groups.channels);
        let (begin, numbers) = match place {
            Place::Apart | Place::TwoLists => (0, 0),
            Place::Before => (4 * count, 0),
            Place::After => (0, codes + GAP),
        };
        let width = match place {
            Place::Apart | Place::TwoLists => codes,
            Place::Before => 4 * count + codes,
            Place::After => codes + GAP + 4 * count,
        };
        let layout = CacheLayout::nhd([1, slots, heads, width * per_byte])
            .and_then(|layout| {
                layout.narrow_channels(begin * per_byte..begin * per_byte + head_dim)
            })
            .expect("a small cache");
        let at = match place {
            Place::Apart => {
                ScalePlace::Separate(ScaleLayout::nh([slots, heads]).with_groups(count))
            }
            Place::TwoLists => {
                ScalePlace::Separate(ScaleLayout::nh([slots, heads]).with_groups(count / 2))
            }
            Place::Before => ScalePlace::InBlock {
                first: 0,
                strides: ScaleLayout::nh([slots, heads]).with_groups(width),
            },
            Place::After => ScalePlace::Inline(codes + GAP),
        };
        let [apart, zeros] = match place {
            Place::Apart => [slots * heads * count, 0],
            Place::TwoLists => [slots * heads * count / 2; 2],
            _ => [0; 2],
        };
        let bytes = layout.bytes(groups.at(at)).expect("few");
        Memory {
            layout,
            format: groups.at(at),
            bytes: vec![0x5a; bytes],
            numbers: vec![0.25; apart],
            zeros: vec![0.25; zeros],
            head: [width, codes, begin, numbers],
            count,
            place,
        }
    }

    fn cache(&mut self) -> CacheMut<'_> {
        let (bytes, numbers) = (&mut self.bytes, &mut self.numbers);
        let cache = match self.place {
            Place::TwoLists => {
                let lists = [numbers, &mut self.zeros];
                CacheMut::coded_with_scales(bytes, self.layout, self.format, lists)
            }
            _ => CacheMut::coded_with_scales(bytes, self.layout, self.format, numbers),
        };
        cache.expect("a cache that fits")
    }

    /// Returns the codes of all heads.
    fn codes(&self) -> Vec<u8> {
        let [width, codes, begin, _] = self.head;
        let heads = self.bytes.chunks(width);
        heads
            .flat_map(|head| &head[begin..begin + codes])
            .copied()
            .collect()
    }

    /// Returns the bits of the numbers of all heads.
    fn numbers(&self) -> Vec<u8> {
        match self.place {
            Place::Apart => return bytemuck::cast_slice(&self.numbers).to_vec(),
            Place::TwoLists => {
                let pairs = self.numbers.iter().zip(&self.zeros);
                return pairs
                    .flat_map(|pair| <[_; 2]>::from(pair).map(|x| x.to_ne_bytes()))
                    .flatten()
                    .collect();
            }
            _ => {}
        }
        let [width, .., begin] = self.head;
        let heads = self.bytes.chunks(width);
        heads
            .flat_map(|head| &head[begin..begin + 4 * self.count])
            .copied()
            .collect()
    }

    /// Sets the codes and the numbers of all heads.
    fn fill(&mut self, codes: &[u8], numbers: &[u8]) {
        let [width, len, begin, of_numbers] = self.head;
        let heads = self.bytes.chunks_mut(width).zip(codes.chunks(len));
        for (index, (head, codes)) in heads.enumerate() {
            head[begin..begin + len].copy_from_slice(codes);
            let numbers = &numbers[index * 4 * self.count..][..4 * self.count];
            match self.place {
                Place::Apart => {
                    bytemuck::cast_slice_mut::<_, u8>(&mut self.numbers)[index * 4 * self.count..]
                        [..4 * self.count]
                        .copy_from_slice(numbers);
                }
                Place::TwoLists => {
                    let pairs = numbers.as_chunks().0.as_chunks::<2>().0;
                    for (group, [scale, zero]) in (index * self.count / 2..).zip(pairs) {
                        self.numbers[group] = f32::from_ne_bytes(*scale);
                        self.zeros[group] = f32::from_ne_bytes(*zero);
                    }
                }
                _ => head[of_numbers..of_numbers + 4 * self.count].copy_from_slice(numbers),
            }
        }
    }
}

fn rope(backend: Backend) -> Rope {
    Rope::new(Pairing::Half)
        .with_backend(backend)
        .expect("an available backend")
}

/// Writes heads, and returns their codes and the bits of their numbers.
fn write<E: Number>(
    backend: Backend,
    x: &[E],
    groups: Groups,
    [heads, head_dim]: [usize; 2],
    place: Place,
) -> [Vec<u8>; 2] {
    let slots = x.len() / heads / head_dim;
    let mut memory = Memory::new(groups, [slots, heads, head_dim], place);
    let x = Tensor::new(x, [1, slots, heads, head_dim]).expect("a tensor");
    rope(backend)
        .apply_into(&x, &mut memory.cache().slots(0..slots as i64))
        .expect("slots");
    [memory.codes(), memory.numbers()]
}

/// Reads heads from their codes and numbers.
fn read(
    backend: Backend,
    [codes, numbers]: [&[u8]; 2],
    groups: Groups,
    head_dim: usize,
    place: Place,
) -> Vec<f32> {
    let slots = codes.len() * 8 / groups.bits / head_dim;
    let mut memory = Memory::new(groups, [slots, 1, head_dim], place);
    memory.fill(codes, numbers);
    let mut y = vec![0.0; slots * head_dim];
    let mut target = TensorMut::new(&mut y, [1, slots, 1, head_dim]).expect("a tensor");
    let cache = memory.cache();
    let cache = cache.as_cache();
    rope(backend)
        .apply_into(&cache.slots(0..slots as i64), &mut target)
        .expect("slots");
    y
}

fn of_numpy<E: Number + Bits>() {
    let (file, e) = (Golden::file("codes4/zero_points.txt"), E::NAME);
    let x: Vec<E> = file.bits(&format!("x_{e}"));
    for groups in [20, 80, 96, 256].into_iter().flat_map(Groups::all) {
        let key = format!(
            "u{}_of_{}_{}",
            groups.bits,
            groups.channels,
            groups.rule_name()
        );
        let codes = file.bits::<u8>(&format!("{key}_codes_{e}"));
        let numbers: Vec<f32> = file.bits(&format!("{key}_numbers_{e}"));
        let numbers = bytemuck::cast_slice(&numbers);
        // One group, and several, whose rests fill no vector.
        for count in [1, 3, 7] {
            let head_dim = count * groups.channels;
            let heads = x.len() / head_dim;
            let x = &x[..heads * head_dim];
            for (backend, place) in on_every(PLACES) {
                let doing = format!("{backend}, {key} of {e}, {place:?}, heads of {head_dim}");
                let got = write(backend, x, groups, [heads, head_dim], place);
                same(&got[0], &codes[..got[0].len()], &doing);
                same(&got[1], &numbers[..got[1].len()], &doing);
                if let Some(values) = file
                    .find(&format!("{key}_dequant_{e}"))
                    .is_some()
                    .then(|| file.bits::<f32>(&format!("{key}_dequant_{e}")))
                {
                    let y = read(backend, [&got[0], &got[1]], groups, head_dim, place);
                    alike(&y, &values[..y.len()], &doing);
                }
            }
        }
    }
}

fn on_every(places: [Place; 4]) -> impl Iterator<Item = (Backend, Place)> {
    Backend::available().flat_map(move |backend| places.map(|place| (backend, place)))
}

#[test]
fn codes_of_numpy() {
    of_numpy::<f32>();
    of_numpy::<bf16>();
}

/// Groups as wide as a block of OpenVINO's have its codes, and its numbers before them.
#[test]
fn blocks_of_openvino() {
    let x: Vec<f32> = (0..7 * 128).map(|i| (i * 37 % 101) as f32 - 30.5).collect();
    for (block, bits) in [(BlockFormat::U8_IN_128, 8), (BlockFormat::U4_IN_128, 4)] {
        let groups = Groups {
            bits,
            channels: 128,
            rule: Asymmetric::ZeroPoint,
        };
        for backend in Backend::available() {
            let blocks = in_blocks(backend, &x, 128, block);
            let [codes, numbers] = write(backend, &x, groups, [1, 128], Place::Before);
            let mut joined = Vec::new();
            let heads = numbers.chunks(8).zip(codes.chunks(16 * bits));
            for (numbers, codes) in heads {
                // Blocks are little-endian.
                for number in numbers.as_chunks().0 {
                    joined.extend(f32::from_ne_bytes(*number).to_le_bytes());
                }
                joined.extend(codes);
            }
            same(&joined, &blocks, &format!("{backend}, {}", block.name));
        }
    }
}

/// The numbers of groups that have no bounds, whose bounds are equal, or infinite.
#[test]
fn numbers_of_special_groups() {
    let nan = f32::NAN;
    let infinity = f32::INFINITY;
    let cases = [
        // the group; the scale, the zero point and a value; the scale, the minimum and a value
        ([0.0, -0.0], [0.0001, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([3.5, 3.5], [0.0001, -35000.0, 3.5], [1.0, 3.5, 3.5]),
        ([nan, 2.0], [0.0001, -20000.0, 2.0], [1.0, 2.0, 2.0]),
        ([infinity, 1.0], [infinity, 0.0, nan], [infinity, 1.0, nan]),
    ];
    for (pair, zero_point, minimum) in cases {
        let x = [pair; 10].concat();
        for groups in Groups::all(20) {
            let [scale, second, value] = match groups.rule {
                Asymmetric::ZeroPoint => zero_point,
                _ => minimum,
            };
            for (backend, place) in on_every(PLACES) {
                let doing = format!("{backend}, {groups:?}, {place:?}, {pair:?}");
                let [codes, numbers] = write(backend, &x, groups, [1, 20], place);
                let got: Vec<f32> = bytemuck::pod_collect_to_vec(&numbers);
                assert_eq!(
                    got,
                    [scale, if second == 0.0 { 0.0 } else { second }],
                    "{doing}"
                );
                let y = read(backend, [&codes, &numbers], groups, 20, place);
                let close = |y: f32| (y - value).abs() < 1e-3 || y.is_nan() && value.is_nan();
                assert!(close(y[1]), "{doing}: {}", y[1]);
                // A NaN has code 0.
                if pair[0].is_nan() {
                    let code = match groups.bits {
                        8 => codes[0],
                        _ => codes[0] >> 4,
                    };
                    assert_eq!(code, 0, "{doing}");
                }
            }
        }
    }
}

/// Groups of any bits and sizes: every backend gives the codes of `scalar`, in every place.
#[test]
fn any_group() {
    let source = &mut Source::random("any_asymmetric_group");
    for round in 0..200 {
        let size = [1.0, 1e-44, 1e-38, 1e-20, 4e-6, 3e5, 1e18, 1e30, 3e38][round % 9];
        let offset = [0.0, 3.0, -1000.0, 1e9][round % 4] * size;
        let groups = Groups {
            bits: source.one_of(&[8, 4]),
            channels: 2 * source.within(1, 100),
            rule: source.one_of(&Asymmetric::ALL),
        };
        let (count, heads, slots) = (
            source.within(1, 5),
            source.within(1, 5),
            source.within(1, 3),
        );
        let head_dim = count * groups.channels;
        let x: Vec<f32> = (0..slots * heads * head_dim)
            .map(|_| match round % 3 {
                0 => f32::from_bits(source.word()),
                1 => (source.below(9) as f32 - 4.0) * size + offset,
                _ => source.unit() * size + offset,
            })
            .collect();
        let shape = [heads, head_dim];
        let [codes, numbers] = write(Backend::Scalar, &x, groups, shape, Place::Apart);
        let values = read(
            Backend::Scalar,
            [&codes, &numbers],
            groups,
            head_dim,
            Place::Apart,
        );
        for (backend, place) in on_every(PLACES) {
            let doing = format!("{backend}, {groups:?}, {place:?}, round {round}");
            let got = write(backend, &x, groups, shape, place);
            same(&got[0], &codes, &doing);
            same(&got[1], &numbers, &doing);
            let y = read(backend, [&codes, &numbers], groups, head_dim, place);
            alike(&y, &values, &doing);
        }
    }
}

/// One call that rotates into a cache writes what a rotation and a copy write; likewise a shift, a copy into another
/// format, and a move.
#[test]
fn rotated_shifted_copied_and_moved() {
    const SHAPE: [usize; 4] = [1, 5, 3, 80];
    let frequencies = Frequencies::new(80, 10_000.0, &Scaling::Default).expect("a base");
    let rows = frequencies.rows(7..12).expect("positions");
    let back = frequencies.shift(&[-3_i64; 5]).expect("a shift");
    let x: Vec<f32> = (0..5 * 3 * 80)
        .map(|i| ((i * 37 % 101) as f32 - 30.0) * 0.37)
        .collect();
    let slots = [6_i64, 1, 0, 7, 3];
    let formats = [80, 40].into_iter().flat_map(Groups::all);
    for (groups, (backend, place)) in
        formats.flat_map(|groups| on_every(PLACES).map(move |on| (groups, on)))
    {
        let (rope, doing) = (rope(backend), format!("{backend}, {groups:?}, {place:?}"));
        let new = || Memory::new(groups, [8, 3, 80], place);
        let equal = |one: &Memory, two: &Memory, doing: &str| {
            same(&one.bytes, &two.bytes, doing);
            same(&one.numbers(), &two.numbers(), doing);
        };
        let [mut one, mut two] = [new(), new()];
        let tensor = Tensor::new(&x, SHAPE).expect("a tensor");
        let mut y = vec![0.0; x.len()];
        let mut step = TensorMut::new(&mut y, SHAPE).expect("a tensor");
        rope.rotate_into(&tensor, &mut one.cache().slots(&slots), &rows)
            .and_then(|()| rope.rotate_into(&tensor, &mut step, &rows))
            .expect("slots");
        let tensor = Tensor::new(&y, SHAPE).expect("a tensor");
        rope.apply_into(&tensor, &mut two.cache().slots(&slots))
            .expect("slots");
        equal(&one, &two, &doing);
        // A shift decodes, rotates and encodes.
        let mut step = TensorMut::new(&mut y, SHAPE).expect("a tensor");
        rope.rotate(&mut one.cache().slots(&slots), &back)
            .and_then(|()| {
                let cache = two.cache();
                rope.rotate_into(&cache.as_cache().slots(&slots), &mut step, &back)
            })
            .expect("slots");
        let tensor = Tensor::new(&y, SHAPE).expect("a tensor");
        rope.apply_into(&tensor, &mut two.cache().slots(&slots))
            .expect("slots");
        equal(&one, &two, &format!("{doing}, shifted"));
        // A copy into another place of the same format keeps the numbers that decode to themselves.
        let mut values = vec![0.0; x.len()];
        let mut step = TensorMut::new(&mut values, SHAPE).expect("a tensor");
        let mut other = Memory::new(groups, [8, 3, 80], Place::Apart);
        {
            let cache = one.cache();
            let cache = cache.as_cache();
            rope.apply_into(&cache.slots(&slots), &mut step)
                .and_then(|()| {
                    rope.apply_into(&cache.slots(&slots), &mut other.cache().slots(&slots))
                })
                .expect("slots");
        }
        let mut through = Memory::new(groups, [8, 3, 80], Place::Apart);
        let tensor = Tensor::new(&values, SHAPE).expect("a tensor");
        rope.apply_into(&tensor, &mut through.cache().slots(&slots))
            .expect("slots");
        equal(&other, &through, &format!("{doing}, copied"));
        // A move copies the numbers too.
        one.cache().move_slots(&[6_i64], &[5_i64]).expect("slots");
        let (codes, numbers) = (one.codes(), one.numbers());
        let slot = codes.len() / 8;
        same(
            &codes[5 * slot..6 * slot],
            &codes[6 * slot..7 * slot],
            &doing,
        );
        let slot = numbers.len() / 8;
        same(
            &numbers[5 * slot..6 * slot],
            &numbers[6 * slot..7 * slot],
            &doing,
        );
    }
}

#[test]
fn refused() {
    let mut memory = [0x5a_u8; 4096];
    let layout = |head_dim| CacheLayout::nhd([1, 4, 2, head_dim]).expect("a small cache");
    let apart =
        |groups: usize| ScalePlace::Separate(ScaleLayout::nh([4, 2]).with_groups(2 * groups));
    let (rule, mut numbers) = (Asymmetric::ZeroPoint, [0.5_f32; 64]);
    let mut made = |layout, format, len: usize| {
        let made = CacheMut::coded_with_scales(&mut memory, layout, format, &mut numbers[..len]);
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    let of_u8 = |channels, at| CacheFormat::by_group(GroupCodes::U8(rule, channels), at);
    let of_u4 = |channels, at| CacheFormat::by_group(GroupCodes::U4(rule, channels), at);
    let divisor = "divisor of head_dim, with at most 64 groups in a head";
    for (doing, given, wanted) in [
        (
            "no channels",
            made(layout(80), of_u8(0, apart(1)), 64),
            format!("channels is 0, but must be a {divisor}"),
        ),
        (
            "an odd group of u4",
            made(layout(60), of_u4(15, apart(4)), 64),
            format!("channels is 15, but must be an even {divisor}"),
        ),
        (
            "too many groups",
            made(layout(130), of_u8(2, apart(65)), 64),
            format!("channels is 2, but must be a {divisor}"),
        ),
        (
            "a part of a group",
            made(layout(80), of_u8(32, apart(2)), 64),
            Error::Cache(CacheError::PartOfBlock {
                of: "head_dim",
                given: 80,
                values: 32,
            })
            .to_string(),
        ),
        (
            "a scale without its zero point",
            made(layout(80), of_u8(80, apart(1)), 15),
            Error::Storage {
                what: "scales",
                given: 15,
                needed: 16,
            }
            .to_string(),
        ),
        (
            "zero points that are the scales of the next head",
            made(
                layout(80),
                of_u8(80, ScalePlace::Separate(ScaleLayout::nh([4, 2]))),
                64,
            ),
            Error::Cache(CacheError::Overlap {
                of: "scales",
                index: CacheIndex::Channel,
                stride: 1,
                other: CacheIndex::Head,
                least: 2,
            })
            .to_string(),
        ),
        (
            "numbers among the codes",
            made(layout(80), of_u8(80, ScalePlace::Inline(72)), 0),
            Error::Cache(CacheError::ScaleAmongCodes {
                at: 72,
                head_dim: 80,
            })
            .to_string(),
        ),
        (
            "room for a scale alone",
            made(
                layout(84).narrow_channels(0..80).expect("channels"),
                of_u8(80, ScalePlace::Inline(80)),
                0,
            ),
            Error::Cache(CacheError::ScaleRoom {
                end: 88,
                head_dim: 80,
                index: CacheIndex::Head,
                stride: 84,
                least: 88,
            })
            .to_string(),
        ),
    ] {
        assert_eq!(given, Err(wanted), "{doing}");
    }
    // Two lists.
    let at = apart(1);
    let halves = ScalePlace::Separate(ScaleLayout::nh([4, 2]));
    let too_short = |what, given| Error::Storage {
        what,
        given,
        needed: 8,
    };
    let of_u8 = |at| of_u8(80, at);
    let scaled = QuantScale::Computed {
        least: 1e-6,
        at: halves,
    };
    let e4m3 = CacheFormat::quantized(QuantFormat::E4m3, scaled);
    let required = "given with one list of separate scales: its codes have no zero points";
    for (format, lengths, wanted) in [
        (of_u8(halves), [7, 8], too_short("scales", 7)),
        (of_u8(halves), [8, 7], too_short("zero points", 7)),
        (of_u8(halves), [8, 0], too_short("zero points", 0)),
        (
            of_u8(at),
            [8, 16],
            Error::Storage {
                what: "scales",
                given: 8,
                needed: 15,
            },
        ),
        (e4m3, [8, 8], Error::Cache(CacheError::Layout { required })),
    ] {
        let [mut scales, mut zeros] = lengths.map(|len| vec![0.5_f32; len]);
        let both = [&mut scales, &mut zeros];
        let made = CacheMut::coded_with_scales(&mut memory, layout(80), format, both);
        assert_eq!(made.map(|_| ()), Err(wanted), "{lengths:?}");
        let both = [&scales, &zeros];
        let made = Cache::coded_with_scales(&memory, layout(80), format, both);
        assert!(made.is_err(), "{lengths:?}");
    }
    let mut made = |layout, format, len: usize| {
        let made = CacheMut::coded_with_scales(&mut memory, layout, format, &mut numbers[..len]);
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    // Before the codes of a head, numbers that reach into them.
    let inside = layout(88).narrow_channels(4..84).expect("channels");
    let at = ScalePlace::InBlock {
        first: 0,
        strides: ScaleLayout::nh([4, 2]).with_groups(88),
    };
    let error = made(inside, of_u8(at), 0).expect_err("a zero point in the codes");
    assert!(
        error.contains("codes and scales that share no byte"),
        "{error}"
    );
    let bytes = [0x5a_u8; 4096];
    let error = Cache::coded_with_scales(&bytes, layout(80), of_u8(apart(1)), &[0_u8; 64])
        .expect_err("numbers in bytes");
    assert!(error.to_string().contains("f32"), "{error}");
    assert!(memory.iter().all(|&byte| byte == 0x5a));
}
