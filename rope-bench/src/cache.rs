//! What one pass gains over several: norm and rotation in one call, a rotation into the slots of a cache, codes of 4
//! to 8 bits, a shift of what lies there, and several outputs of one read, each beside the calls that it stands for.
//!
//! The several passes are rope-core's own, so that the ratio is what the passes cost, and nothing else. Both are first
//! compared bit for bit.

mod outputs;
mod quantizers;
#[cfg(feature = "intrinsics")]
mod transform;

use std::hint::black_box;

use anyhow::{Result, ensure};
use half::bf16;
use rope_core::cache::{
    BlockFormat, CacheLayout, CacheMut, QuantFormat, QuantScale, ScaleLayout, ScalePlace,
};
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::{Stages, WithStages};
use rope_core::{Backend, Frequencies, Pairing, Rope, Rows, Scaling, Tensor, TensorMut};

use crate::cases::{Alignment, Element, Float, with_float};
use crate::measuring::{Effort, Subject, measure};
use crate::memory::{Memory, fill, values};
use crate::roof::Roof;
use crate::runners::Quantizer;
use crate::threads::Team;

/// One call, and the calls that it stands for.
#[derive(Clone, Debug)]
pub struct Pass {
    /// What it does.
    pub name: String,
    /// Tokens of the tensor.
    pub tokens: usize,
    /// Its heads.
    pub heads: usize,
    /// What it is measured beside.
    pub beside: &'static str,
    /// Nanoseconds of the one call.
    pub one: f64,
    /// Nanoseconds of what it is measured beside.
    pub other: f64,
    /// Nanoseconds of the roof over the same bytes, where it works in place.
    pub roof: Option<f64>,
}

const HEAD_DIM: usize = 128;
/// Slots of a block.
const BLOCK: usize = 16;

/// Measures all of them.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let rope = Rope::new(Pairing::Half).backend(backend)?;
    let mut passes = Vec::new();
    // W3, W4 and W1 of the workloads.
    for [tokens, heads] in [[1, 40], [64, 32], [2048, 32]] {
        for element in [Element::F32, Element::Bf16] {
            let bench = CacheBench::new(rope, [tokens, heads], effort)?;
            passes.push(with_float!(element, E => bench.norm::<E>()?));
        }
    }
    for [tokens, heads] in [[1, 8], [64, 8], [2048, 8]] {
        let bench = CacheBench::new(rope, [tokens, heads], effort)?;
        passes.push(bench.paged()?);
        for (name, kept) in KEPT {
            passes.extend(bench.coded(name, kept)?);
        }
        for element in [Element::F32, Element::Bf16, Element::F16] {
            passes.push(with_float!(element, E => bench.shift::<E>()?));
        }
        passes.push(bench.shift_codes()?);
    }
    for [tokens, heads] in [[64, 32], [2048, 32]] {
        passes.extend(CacheBench::new(rope, [tokens, heads], effort)?.outputs()?);
    }
    #[cfg(feature = "intrinsics")]
    passes.extend(CacheBench::new(rope, [1, 32], effort)?.transform()?);
    Ok(passes)
}

/// Measures the quantizers of runners beside ours.
pub fn quantizers(backend: Backend, effort: Effort, quantizers: &[Quantizer]) -> Result<Vec<Pass>> {
    ensure!(!quantizers.is_empty(), "the runner has no quantizer");
    let rope = Rope::new(Pairing::Half).backend(backend)?;
    let mut passes = Vec::new();
    for [tokens, heads] in [[1, 8], [64, 8], [2048, 8]] {
        let bench = CacheBench::new(rope, [tokens, heads], effort)?;
        for quantizer in quantizers {
            passes.extend(bench.beside(quantizer)?);
        }
    }
    Ok(passes)
}

/// How a cache of codes keeps its scales.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Given(QuantFormat),
    Made(QuantFormat),
    Blocks(&'static BlockFormat),
}

const KEPT: [(&str, Kept); 8] = [
    ("e4m3", Kept::Given(QuantFormat::E4m3)),
    ("int8, scale made", Kept::Made(QuantFormat::Int8RoundAway)),
    ("q8_0", Kept::Blocks(BlockFormat::Q8_0)),
    ("q4_0", Kept::Blocks(BlockFormat::Q4_0)),
    ("q4_1", Kept::Blocks(BlockFormat::Q4_1)),
    ("q5_0", Kept::Blocks(BlockFormat::Q5_0)),
    ("q5_1", Kept::Blocks(BlockFormat::Q5_1)),
    ("iq4_nl", Kept::Blocks(BlockFormat::IQ4_NL)),
];

/// A tensor of keys, and where its tokens go.
struct CacheBench {
    rope: Rope,
    tokens: usize,
    heads: usize,
    effort: Effort,
    rows: Rows<'static>,
    slots: Vec<i64>,
    layout: CacheLayout,
}

impl CacheBench {
    fn new(rope: Rope, [tokens, heads]: [usize; 2], effort: Effort) -> Result<Self> {
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let rows = frequencies.rows(4096..4096 + tokens as u32)?;
        let blocks = tokens.div_ceil(BLOCK);
        // Blocks in an order of their own, as an allocator of pages leaves them.
        let block = |token: usize| (token / BLOCK * 7 + 3) % blocks.next_power_of_two();
        let slots = (0..tokens)
            .map(|token| (block(token) * BLOCK + token % BLOCK) as i64)
            .collect();
        let layout = CacheLayout::nhd([blocks.next_power_of_two(), BLOCK, heads, HEAD_DIM])?;
        Ok(CacheBench {
            rope,
            tokens,
            heads,
            effort,
            rows,
            slots,
            layout,
        })
    }

    fn shape(&self) -> [usize; 4] {
        [1, self.tokens, self.heads, HEAD_DIM]
    }

    fn len(&self) -> usize {
        self.tokens * self.heads * HEAD_DIM
    }

    fn pass(&self, name: String, beside: &'static str, times: &[f64], roof: Option<f64>) -> Pass {
        Pass {
            name,
            tokens: self.tokens,
            heads: self.heads,
            beside,
            one: times[0],
            other: times[1..].iter().sum(),
            roof,
        }
    }

    /// Measures one call beside another on the same bytes.
    fn pair(
        &self,
        name: String,
        beside: &'static str,
        subjects: &mut [Subject<'_>; 2],
        bytes: &mut [u8],
    ) -> Result<Pass> {
        let times = self.measure(subjects, bytes)?;
        Ok(self.pass(name, beside, &times, None))
    }

    /// Runs subjects in turns; the shortest times.
    fn measure(&self, subjects: &mut [Subject<'_>], bytes: &mut [u8]) -> Result<Vec<f64>> {
        let times = measure(subjects, bytes, self.effort)?;
        Ok(times.iter().map(|time| time.minimum).collect())
    }

    /// Norm and rotation in place, in one call and in two.
    fn norm<E: Float>(&self) -> Result<Pass> {
        let shape = self.shape();
        // Of magnitude 1: a norm over and over keeps what it finds.
        let weights: Vec<E> = (0..HEAD_DIM)
            .map(|i| E::round(if i % 3 == 0 { -1.0 } else { 1.0 }))
            .collect();
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).weight(&weights);
        let chain = self.rope.norm(norm);
        let mut memory = Memory::new(self.len() * size_of::<E>());
        let bytes = memory.slice(Alignment::Line, self.len() * size_of::<E>());
        fill(bytes, E::ELEMENT, &values(self.len()));

        let mut apart = bytes.to_vec();
        let mut x = TensorMut::<E>::new(bytemuck::cast_slice_mut(bytes), shape)?;
        chain.rotate(&mut x, &self.rows)?;
        let mut y = TensorMut::<E>::new(
            bytemuck::try_cast_slice_mut(&mut apart).unwrap_or_default(),
            shape,
        )?;
        chain.apply(&mut y)?;
        self.rope.rotate(&mut y, &self.rows)?;
        ensure!(*bytes == *apart, "one call and two differ");

        let run = |work: &dyn Fn(&mut TensorMut<'_, E>) -> Result<(), rope_core::Error>,
                   bytes: &mut [u8],
                   times| {
            let mut x = TensorMut::new(bytemuck::cast_slice_mut(bytes), shape)?;
            for _ in 0..times {
                work(black_box(&mut x))?;
            }
            anyhow::Ok(())
        };
        let team = &Team::new(1)?;
        let mut subjects: Vec<Subject<'_>> = vec![
            Box::new(|bytes, times| run(&|x| chain.rotate(x, &self.rows), bytes, times)),
            Box::new(|bytes, times| run(&|x| chain.apply(x), bytes, times)),
            Box::new(|bytes, times| run(&|x| self.rope.rotate(x, &self.rows), bytes, times)),
        ];
        for roof in Roof::available() {
            subjects.push(Box::new(move |bytes, times| {
                roof.run(bytes, team, times);
                Ok(())
            }));
        }
        let times = self.measure(&mut subjects, bytes)?;
        let roof = times[3..].iter().copied().fold(f64::INFINITY, f64::min);
        let name = format!("norm and rotate, {}", E::ELEMENT);
        Ok(self.pass(name, "norm, then rotation", &times[..3], Some(roof)))
    }

    /// bf16 into a paged cache, beside a tensor of the same bytes.
    fn paged(&self) -> Result<Pass> {
        let x = self.keys();
        let source = Tensor::new(&x, self.shape())?;
        let len = 2 * self.layout.end();
        let mut memory = Memory::new(len);
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| {
                let mut cache =
                    CacheMut::new::<bf16>(bytemuck::cast_slice_mut(bytes), self.layout)?;
                self.write(self.rope, &source, &mut cache, times)
            }),
            Box::new(|bytes, times| {
                let bytes = &mut bytes[..2 * self.len()];
                let mut target =
                    TensorMut::<bf16>::new(bytemuck::cast_slice_mut(bytes), self.shape())?;
                for _ in 0..times {
                    self.rope
                        .rotate_into(black_box(&source), &mut target, &self.rows)?;
                }
                Ok(())
            }),
        ];
        let (name, bytes) = (
            "bf16 into a paged cache",
            memory.slice(Alignment::Line, len),
        );
        self.pair(name.into(), "rotate_into", &mut subjects, bytes)
    }

    /// Rotates keys into a cache, some times.
    fn write<S: Stages>(
        &self,
        rope: Rope<S>,
        keys: &Tensor<'_, bf16>,
        cache: &mut CacheMut<'_>,
        times: usize,
    ) -> Result<()> {
        for _ in 0..times {
            rope.rotate_into(black_box(keys), &mut cache.slots(&self.slots), &self.rows)?;
        }
        Ok(())
    }

    /// A cache of E4M3 whose scale is given.
    fn e4m3<'a>(&self, bytes: &'a mut [u8]) -> Result<CacheMut<'a>, rope_core::Error> {
        let scale = QuantScale::Multiply(0.5.into());
        CacheMut::quantized(bytes, self.layout, QuantFormat::E4m3, scale, &mut [])
    }

    fn keys(&self) -> Vec<bf16> {
        Self::keys_of(self.len())
    }

    fn keys_of(len: usize) -> Vec<bf16> {
        values(len).into_iter().map(bf16::from_f32).collect()
    }

    /// bf16 into a paged cache of codes: beside one of bf16, beside one of E4M3, and beside a rotation in place and a
    /// conversion.
    fn coded(&self, name: &str, kept: Kept) -> Result<[Pass; 3]> {
        let x = self.keys();
        let source = Tensor::new(&x, self.shape())?;
        let chain = Rope::<WithStages<'_>>::from(self.rope);
        let mut scales = vec![0.0; self.layout.shape().blocks * BLOCK * self.heads];
        let run = |chain: Rope<WithStages<'_>>,
                   x: &[bf16],
                   rotates: bool,
                   bytes: &mut [u8],
                   scales: &mut [f32],
                   times: usize| {
            let source = Tensor::new(x, self.shape())?;
            let mut cache = match kept {
                Kept::Given(code) => CacheMut::quantized(
                    bytes,
                    self.layout,
                    code,
                    QuantScale::Multiply(0.5.into()),
                    &mut [],
                )?,
                Kept::Made(code) => {
                    let at = ScalePlace::Separate(ScaleLayout::nh(BLOCK, self.heads));
                    CacheMut::quantized(
                        bytes,
                        self.layout,
                        code,
                        QuantScale::Computed { least: 1e-6, at },
                        scales,
                    )?
                }
                Kept::Blocks(format) => CacheMut::blocks(bytes, self.layout, format)?,
            };
            for _ in 0..times {
                if rotates {
                    chain.rotate_into(
                        black_box(&source),
                        &mut cache.slots(&self.slots),
                        &self.rows,
                    )?;
                } else {
                    chain.apply_into(black_box(&source), &mut cache.slots(&self.slots))?;
                }
            }
            anyhow::Ok(())
        };
        let len = 2 * self.layout.end();
        let mut memory = Memory::new(len);
        let bytes = memory.slice(Alignment::Line, len);

        let mut rotated = x.clone();
        let mut target = TensorMut::new(&mut rotated, self.shape())?;
        self.rope.rotate_into(&source, &mut target, &self.rows)?;
        let mut apart = vec![0; len];
        run(chain, &x, true, bytes, &mut scales, 1)?;
        run(chain, &rotated, false, &mut apart, &mut scales.clone(), 1)?;
        ensure!(*bytes == *apart, "{name}: one call and two differ");

        let mut more = scales.clone();
        let mut subjects: Vec<Subject<'_>> = vec![
            Box::new(|bytes, times| run(chain, &x, true, bytes, &mut scales, times)),
            Box::new(|bytes, times| {
                let mut cache =
                    CacheMut::new::<bf16>(bytemuck::cast_slice_mut(bytes), self.layout)?;
                self.write(chain, &source, &mut cache, times)
            }),
            Box::new(|bytes, times| run(chain, &rotated, false, bytes, &mut more, times)),
            Box::new(|bytes, times| self.write(chain, &source, &mut self.e4m3(bytes)?, times)),
        ];
        let times = self.measure(&mut subjects, bytes)?;
        let name = format!("bf16 into a paged cache of {name}");
        let [one, bf16, conversion, e4m3] = [times[0], times[1], times[2], times[3]];
        Ok([
            self.pass(name.clone(), "one of bf16", &[one, bf16], None),
            self.pass(name.clone(), "one of e4m3", &[one, e4m3], None),
            self.pass(name, "bf16, then codes", &[one, bf16, conversion], None),
        ])
    }

    /// Keys of a cache, turned in place, beside a tensor's.
    fn shift<E: Float>(&self) -> Result<Pass> {
        let len = self.layout.end() * size_of::<E>();
        let mut memory = Memory::new(len);
        let bytes = memory.slice(Alignment::Line, len);
        fill(bytes, E::ELEMENT, &values(self.layout.end()));
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| {
                let mut cache = CacheMut::new::<E>(bytemuck::cast_slice_mut(bytes), self.layout)?;
                self.shift_keys(&mut cache, times)
            }),
            Box::new(|bytes, times| {
                let bytes = &mut bytes[..self.len() * size_of::<E>()];
                let mut x = TensorMut::<E>::new(bytemuck::cast_slice_mut(bytes), self.shape())?;
                for _ in 0..times {
                    self.rope.rotate(black_box(&mut x), &self.rows)?;
                }
                Ok(())
            }),
        ];
        let name = format!("shift in a cache of {}", E::ELEMENT);
        self.pair(name, "rotate", &mut subjects, bytes)
    }

    /// Turns the keys of a cache, some times.
    fn shift_keys(&self, cache: &mut CacheMut<'_>, times: usize) -> Result<()> {
        for _ in 0..times {
            self.rope
                .rotate(&mut black_box(&mut *cache).slots(&self.slots), &self.rows)?;
        }
        Ok(())
    }

    /// The same of E4M3, beside bf16.
    fn shift_codes(&self) -> Result<Pass> {
        let len = self.layout.end();
        let (mut memory, mut keys) = (Memory::new(len), Self::keys_of(len));
        let mut subjects: [Subject<'_>; 2] = [
            Box::new(|bytes, times| self.shift_keys(&mut self.e4m3(bytes)?, times)),
            Box::new(|_, times| {
                self.shift_keys(&mut CacheMut::new(&mut keys, self.layout)?, times)
            }),
        ];
        let (name, bytes) = (
            "shift in a cache of e4m3",
            memory.slice(Alignment::Line, len),
        );
        self.pair(name.into(), "one of bf16", &mut subjects, bytes)
    }
}
