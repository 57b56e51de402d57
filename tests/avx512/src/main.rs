//! Comparison of rope-core's AVX-512 kernels with its AVX2 kernels, for machines without AVX-512.
//!
//! Boots on an emulated CPU with both instruction sets, makes calls on each backend and compares all bytes that they
//! wrote. The suites test the AVX2 kernels. `tests/platforms/avx512.sh` builds and starts this program.
#![no_std]
#![no_main]

mod machine;

use core::fmt::Write;

use bytemuck::{Pod, cast_slice_mut};
use machine::{Serial, shut_down};
use rope_core::cache::{BlockFormat, CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::gradient::PairGradients;
use rope_core::half::{bf16, f16};
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::Hadamard;
use rope_core::{
    Backend, Element, Error, Frequencies, FrequencyChunk, Pairing, Rope, Rows, Scaling, Tensor,
    TensorMut,
};

/// Values of the largest tensor.
const MOST: usize = 4 * 12 * 256;
/// `[tokens, heads, head_dim]`, around the lanes of a vector, a group and a block.
const SHAPES: [[usize; 3]; 8] = [
    [1, 1, 32],
    [1, 3, 32],
    [2, 5, 96],
    [3, 8, 128],
    [1, 11, 64],
    [4, 12, 256],
    [2, 1, 160],
    [3, 2, 80],
];
/// Slots of a cache for the tokens of a shape.
const SLOTS: [i64; 4] = [3, 0, 2, 1];

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let (mut tame, mut wild) = ([0.0; MOST], [0.0; MOST]);
    let (mut expected, mut got) = ([0.0; MOST], [0.0; MOST]);
    let mut checks = Checks {
        memory: [cast_slice_mut(&mut expected), cast_slice_mut(&mut got)],
        compared: 0,
        wrong: 0,
    };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let done = (0..2).try_for_each(|_| {
        SHAPES.into_iter().try_for_each(|shape| {
            let len = shape.iter().product();
            for (tame, wild) in tame[..len].iter_mut().zip(&mut wild) {
                *tame = random.value();
                *wild = random.special().unwrap_or(*tame);
            }
            checks.shape(shape, [&tame[..len], &wild[..len]], &mut random)
        })
    });
    let Checks {
        compared, wrong, ..
    } = checks;
    let mut serial = Serial;
    let _ = match done {
        Ok(()) if wrong == 0 => writeln!(serial, "test result: ok. {compared} passed"),
        Ok(()) => writeln!(
            serial,
            "FAILED: {wrong} of {compared} calls wrote other bits"
        ),
        Err(error) => writeln!(serial, "FAILED: a call was refused: {error}"),
    };
    shut_down()
}

/// A call on a backend that writes to the given memory.
type Call<'c> = &'c mut dyn FnMut(Backend, &mut [u8]) -> Result<(), Error>;

struct Checks<'m> {
    memory: [&'m mut [u8]; 2],
    compared: usize,
    wrong: usize,
}

impl Checks<'_> {
    fn compare(&mut self, what: &str, shape: [usize; 3], call: Call<'_>) -> Result<(), Error> {
        for (backend, memory) in [Backend::Avx2, Backend::Avx512]
            .into_iter()
            .zip(&mut self.memory)
        {
            memory.fill(0xa5);
            call(backend, memory)?;
        }
        self.compared += 1;
        let [expected, got] = &self.memory;
        if let Some(at) = expected.iter().zip(&**got).position(|(a, b)| a != b) {
            self.wrong += 1;
            let (a, b) = (expected[at], got[at]);
            let _ = writeln!(
                Serial,
                "{what} of {shape:?}: byte {at} is {b:#x}, not {a:#x}"
            );
        }
        Ok(())
    }

    /// Makes all calls on tensors of one shape.
    fn shape(
        &mut self,
        shape: [usize; 3],
        x: [&[f32]; 2],
        random: &mut Random,
    ) -> Result<(), Error> {
        let [tokens, _, head_dim] = shape;
        let mut storage = [0.0; 4 * 256];
        let mut chunks = [FrequencyChunk::EMPTY; FrequencyChunk::count(256)];
        let positions = &[7, 131_071, 3, i64::from(i32::MAX)][..tokens];
        self.compare("rows", shape, &mut |backend, memory| {
            let frequencies = frequencies(&mut chunks, head_dim)?.with_backend(backend)?;
            frequencies
                .at(positions)?
                .rows_in(cast_slice_mut(memory))
                .map(drop)
        })?;
        let rows = frequencies(&mut chunks, head_dim)?
            .at(positions)?
            .rows_in(&mut storage)?;

        let weights = [0.0; 256].map(|_: f32| random.value());
        let (mut x16, mut half) = ([[bf16::ZERO; MOST]; 2], [[f16::ZERO; MOST]; 2]);
        for ((x, a), b) in x.iter().zip(&mut x16).zip(&mut half) {
            for ((x, a), b) in x.iter().zip(a).zip(b) {
                (*a, *b) = (bf16::from_f32(*x), f16::from_f32(*x));
            }
        }
        let len = x[0].len();
        let x16 = x16.each_ref().map(|x| &x[..len]);
        let half = half.each_ref().map(|x| &x[..len]);
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights[..head_dim]);
        self.element(shape, x, &rows, norm, random)?;
        self.element(shape, x16, &rows, norm, random)?;
        self.element(shape, half, &rows, norm, random)
    }

    /// Makes all calls on tensors of one element type. A rotation of NaNs and infinities gives NaNs of any bits; a copy
    /// into a cache has one answer for them, and the second tensor therefore has some.
    fn element<E: Element + Pod>(
        &mut self,
        shape: [usize; 3],
        [x, wild]: [&[E]; 2],
        rows: &Rows<'_>,
        norm: Norm<'_>,
        random: &mut Random,
    ) -> Result<(), Error> {
        let [tokens, heads, head_dim] = shape;
        let extents = [1, tokens, heads, head_dim];
        let (tensor, wild) = (Tensor::new(x, extents)?, Tensor::new(wild, extents)?);
        let slots = &SLOTS[..tokens];
        for pairing in Pairing::ALL {
            let plan = |backend| Rope::new(pairing).with_backend(backend);
            let copied =
                |memory: &mut [u8]| cast_slice_mut::<_, E>(memory)[..x.len()].copy_from_slice(x);
            self.compare("in place", shape, &mut |backend, memory| {
                copied(memory);
                plan(backend)?.rotate(&mut tensor_of::<E>(memory, extents)?, rows)
            })?;
            self.compare("after a norm", shape, &mut |backend, memory| {
                copied(memory);
                plan(backend)?
                    .with_norm(norm)
                    .rotate(&mut tensor_of::<E>(memory, extents)?, rows)
            })?;
            self.compare("into f32", shape, &mut |backend, memory| {
                plan(backend)?.rotate_into(&tensor, &mut tensor_of::<f32>(memory, extents)?, rows)
            })?;
            self.compare("into bf16", shape, &mut |backend, memory| {
                plan(backend)?.rotate_into(&tensor, &mut tensor_of::<bf16>(memory, extents)?, rows)
            })?;
            self.compare("gradients", shape, &mut |backend, memory| {
                let mut sums = [0.0; 4 * 128];
                let pairs = head_dim / 2;
                let sums = &mut sums[..tokens * pairs];
                let mut angles = PairGradients::new(sums, [tokens, 1, pairs])?;
                copied(memory);
                let dy = &mut tensor_of::<E>(memory, extents)?;
                plan(backend)?.backward(&tensor, dy, rows, &mut angles)?;
                cast_slice_mut(memory)[size_of_val(x) / 8..][..sums.len()].copy_from_slice(sums);
                Ok(())
            })?;
        }
        if head_dim.is_power_of_two() {
            let hadamard = Hadamard::new(head_dim)?;
            self.compare("transformed", shape, &mut |backend, memory| {
                let rope = Rope::new(Pairing::Half)
                    .with_backend(backend)?
                    .with_hadamard(hadamard);
                rope.rotate_into(&tensor, &mut tensor_of::<f32>(memory, extents)?, rows)
            })?;
        }

        let layout = CacheLayout::nhd([2, 2, heads, head_dim])?;
        let blocks = BlockFormat::ALL.into_iter().filter(|_| head_dim % 32 == 0);
        let formats = QuantFormat::ALL
            .map(Format::Codes)
            .into_iter()
            .chain(blocks.map(Format::Blocks));
        for format in formats {
            let rope = |backend| Rope::new(Pairing::Half).with_backend(backend);
            let name = format.name();
            self.compare(name, shape, &mut |backend, memory| {
                let mut cache = format.cache_mut(memory, layout)?;
                rope(backend)?.rotate_into(&tensor, &mut cache.slots(slots), rows)
            })?;
            self.compare(name, shape, &mut |backend, memory| {
                let mut cache = format.cache_mut(memory, layout)?;
                rope(backend)?.apply_into(&wild, &mut cache.slots(slots))
            })?;
            // Any bytes are codes; in a block of any bytes a number is sometimes a NaN.
            let mut codes = [0; 2 * MOST];
            for code in &mut codes {
                *code = random.next() as u8;
            }
            let cache = format.cache_mut(&mut codes, layout)?;
            self.compare(name, shape, &mut |backend, memory| {
                let y = &mut tensor_of::<E>(memory, extents)?;
                rope(backend)?.rotate_into(&cache.as_cache().slots(slots), y, rows)
            })?;
        }
        Ok(())
    }
}

fn frequencies(chunks: &mut [FrequencyChunk], head_dim: usize) -> Result<Frequencies<'_>, Error> {
    Frequencies::new_in(chunks, head_dim, 1e4, &Scaling::Default)
}

fn tensor_of<E: Element + Pod>(
    memory: &mut [u8],
    extents: [usize; 4],
) -> Result<TensorMut<'_, E>, Error> {
    TensorMut::new(
        &mut cast_slice_mut(memory)[..extents.iter().product()],
        extents,
    )
}

/// The format of a cache.
#[derive(Clone, Copy)]
enum Format {
    Codes(QuantFormat),
    Blocks(&'static BlockFormat),
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Codes(QuantFormat::E4m3) => "e4m3",
            Format::Codes(QuantFormat::E5m2) => "e5m2",
            Format::Codes(QuantFormat::E5m2Saturating) => "e5m2-saturating",
            Format::Codes(QuantFormat::Int8Even) => "int8-even",
            Format::Codes(_) => "int8-round-away",
            Format::Blocks(format) => format.name,
        }
    }

    fn cache_mut(self, memory: &mut [u8], layout: CacheLayout) -> Result<CacheMut<'_>, Error> {
        match self {
            Format::Codes(code) => {
                let scale = QuantScale::Divide(0.0625.into());
                CacheMut::coded(
                    &mut memory[..layout.end()],
                    layout,
                    CacheFormat::quantized(code, scale),
                )
            }
            Format::Blocks(format) => CacheMut::coded(memory, layout, format),
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a value in [-1, 1); some values have few bits and often equal others of their block in magnitude.
    fn value(&mut self) -> f32 {
        let number = self.next();
        let value = (number >> 40) as f32 / (1 << 23) as f32 - 1.0;
        if number & 7 == 0 {
            (8.0 * value) as i32 as f32 / 8.0
        } else {
            value
        }
    }

    /// Returns a special value once in a while.
    fn special(&mut self) -> Option<f32> {
        const VALUES: [f32; 12] = [
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            -f32::INFINITY,
            0.0,
            -0.0,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x8000_0001),
            f32::from_bits(0x7f80_0001),
            65504.0,
        ];
        let number = self.next();
        let value = VALUES[(number >> 32) as usize % VALUES.len()];
        number.is_multiple_of(50).then_some(value)
    }
}
