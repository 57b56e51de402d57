//! The gain of one pass over several calls: norm and rotation, a rotation into the slots of a cache, codes of 4 to 8
//! bits, a shift of cached keys, and several outputs of one read.

use std::cell::RefCell;

use anyhow::{Context, Result, ensure};
use half::bf16;
use rope_core::cache::{BlockFormat, ChannelCodes, QuantFormat};
use rope_core::norm::{Norm, NormFormula};
use rope_core::stages::Normed;
use rope_core::{Backend, Frequencies, Pairing, Rope, Scaling, Tensor, TensorMut};
use rope_report::results::Pass;

use super::{BF16, Calls, E4M3, GROUP, Groups, HEAD_DIM, Kept, agree, filled, on_tensor};
use crate::cases::{Alignment, Element, Float, with_float};
use crate::formulations::runners::Quantizer;
use crate::measure::memory::{Memory, values};
use crate::measure::roof::Roof;
use crate::measure::threads::Team;
use crate::measure::{Effort, Subject};

/// Codes of measured caches.
const CODES: [(&str, Kept); 14] = [
    ("e4m3", E4M3),
    ("int8, scale made", Kept::Made(QuantFormat::Int8RoundAway)),
    ("q8_0", Kept::Blocks(BlockFormat::Q8_0)),
    ("q4_0", Kept::Blocks(BlockFormat::Q4_0)),
    ("q4_1", Kept::Blocks(BlockFormat::Q4_1)),
    ("q5_0", Kept::Blocks(BlockFormat::Q5_0)),
    ("q5_1", Kept::Blocks(BlockFormat::Q5_1)),
    ("iq4_nl", Kept::Blocks(BlockFormat::IQ4_NL)),
    ("nvfp4", Kept::Groups(Groups::Nvfp4)),
    ("mxfp4", Kept::Groups(Groups::Mxfp4)),
    ("mxfp8", Kept::Groups(Groups::Mxfp8)),
    ("tiles of e4m3", Kept::Groups(Groups::Tiles)),
    ("u8 in 128", Kept::Blocks(BlockFormat::U8_IN_128)),
    ("u4 in 128", Kept::Blocks(BlockFormat::U4_IN_128)),
];

/// Codes with numbers by channel.
const CHANNELS: [(&str, Kept); 4] = [
    ("u8 by channel", Kept::Channels(ChannelCodes::U8)),
    ("u4 by channel", Kept::Channels(ChannelCodes::U4)),
    ("kivi2", Kept::Channels(ChannelCodes::Kivi2)),
    ("kivi4", Kept::Channels(ChannelCodes::Kivi4)),
];

/// Measures all passes.
pub fn passes(backend: Backend, effort: Effort) -> Result<Vec<Pass>> {
    let rope = Rope::new(Pairing::Half).with_backend(backend)?;
    let calls = |shape| Calls::new(rope, shape, effort);
    let mut passes = Vec::new();
    // W3, W4 and W1 of the workloads.
    for shape in [[1, 40], [64, 32], [2048, 32]] {
        for element in [Element::F32, Element::Bf16] {
            passes.push(with_float!(element, E => calls(shape)?.norm::<E>()?));
        }
    }
    for shape in [[1, 8], [64, 8], [2048, 8]] {
        let calls = calls(shape)?;
        passes.push(calls.paged()?);
        for (name, kept) in CODES {
            passes.extend(calls.coded(name, kept).context(name)?);
            passes.push(calls.read(name, kept).context(name)?);
        }
        if shape[0] % GROUP == 0 {
            let calls = Calls::in_blocks(rope, shape, effort, GROUP)?;
            for (name, kept) in CHANNELS {
                passes.extend(calls.coded(name, kept).context(name)?);
                passes.push(calls.read(name, kept).context(name)?);
            }
        }
        for element in Element::ALL {
            passes.push(with_float!(element, E => calls.shift::<E>()?));
        }
        passes.push(calls.shift_codes()?);
        passes.push(calls.repeats()?);
    }
    for shape in [[64, 32], [2048, 32]] {
        passes.extend(calls(shape)?.outputs()?);
    }
    // Long sequences of one small head: work that each part repeated over all tokens would show.
    for shape in [[2048, 1], [262_144, 1]] {
        passes.push(calls(shape)?.outputs_at()?);
    }
    #[cfg(feature = "intrinsics")]
    passes.extend(calls([1, 32])?.transform()?);
    Ok(passes)
}

/// Measures the quantizers of runners against ours.
pub fn quantizers(backend: Backend, effort: Effort, quantizers: &[Quantizer]) -> Result<Vec<Pass>> {
    ensure!(!quantizers.is_empty(), "the runner has no quantizer");
    let rope = Rope::new(Pairing::Half).with_backend(backend)?;
    let mut passes = Vec::new();
    for shape in [[1, 8], [64, 8], [2048, 8]] {
        let calls = Calls::new(rope, shape, effort)?;
        for quantizer in quantizers {
            passes.extend(calls.quantizers(quantizer)?);
        }
    }
    Ok(passes)
}

impl Calls {
    /// Norm and rotation in place, in one call and in two.
    fn norm<E: Float>(&self) -> Result<Pass> {
        // The magnitude is 1: a norm that runs again keeps it.
        let weight = |i| E::round(if i % 3 == 0 { -1.0 } else { 1.0 });
        let weights: Vec<E> = (0..HEAD_DIM).map(weight).collect();
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
        let (rope, chain) = (self.rope, self.rope.with_norm(norm));
        let mut memory = Memory::new(self.len() * size_of::<E>());
        let bytes = filled::<E>(&mut memory, self.len());
        let team = &Team::new(1)?;
        let mut subjects = vec![
            on_tensor::<E>(self.shape(), |x| chain.rotate(x, &self.rows)),
            on_tensor::<E>(self.shape(), |x| chain.apply(x)),
            on_tensor::<E>(self.shape(), |x| rope.rotate(x, &self.rows)),
        ];
        agree(&mut subjects, bytes)?;
        for roof in Roof::available() {
            subjects.push(Box::new(move |bytes, times| {
                roof.run(bytes, team, times);
                Ok(())
            }));
        }
        let times = self.measure(&mut subjects, bytes)?;
        let name = format!("norm and rotate, {}", E::ELEMENT);
        Ok(Pass {
            roof: times[3..].iter().copied().reduce(f64::min),
            ..self.pass(name, "norm, then rotation", times[0], times[1] + times[2])
        })
    }

    pub(super) fn keys(&self) -> Vec<bf16> {
        let values = values(self.len()).into_iter();
        values.map(bf16::from_f32).collect()
    }

    /// Measures bf16 into a paged cache against a tensor of the same bytes.
    fn paged(&self) -> Result<Pass> {
        let x = self.keys();
        let source = Tensor::new(&x, self.shape())?;
        let (rope, rows) = (self.rope, &self.rows);
        let mut memory = Memory::new(2 * self.layout.end());
        let bytes = memory.slice(Alignment::Line, 2 * self.layout.end());
        let mut subjects = [
            self.on_cache(BF16, |y| {
                rope.rotate_into(&source, &mut y.slots(&self.slots), rows)
            }),
            on_tensor::<bf16>(self.shape(), |y| rope.rotate_into(&source, y, rows)),
        ];
        self.beside(
            "bf16 into a paged cache",
            "rotate_into",
            &mut subjects,
            bytes,
        )
    }

    /// Measures bf16 into a paged cache of codes: against a cache of bf16, against one of E4M3, and against an in-place
    /// rotation and a conversion.
    fn coded(&self, name: &str, kept: Kept) -> Result<[Pass; 3]> {
        let x = self.keys();
        let mut rotated = x.clone();
        let source = Tensor::new(&x, self.shape())?;
        let mut target = TensorMut::new(&mut rotated, self.shape())?;
        self.rope.rotate_into(&source, &mut target, &self.rows)?;
        let target = Tensor::new(&rotated, self.shape())?;
        let chain = Rope::<Normed<'_>>::from(self.rope);
        let write = |kept| {
            self.on_cache(kept, |y| {
                chain.rotate_into(&source, &mut y.slots(&self.slots), &self.rows)
            })
        };
        let convert = self.on_cache(kept, |y| {
            chain.apply_into(&target, &mut y.slots(&self.slots))
        });
        let mut memory = Memory::new(2 * self.layout.end());
        let bytes = memory.slice(Alignment::Line, 2 * self.layout.end());
        let mut subjects = [write(kept), convert, write(BF16), write(E4M3)];
        agree(&mut subjects[..2], bytes)?;
        let times = self.measure(&mut subjects, bytes)?;
        let name = format!("bf16 into a paged cache of {name}");
        let [one, conversion, bf16, e4m3] = [0, 1, 2, 3].map(|subject| times[subject]);
        Ok([
            self.pass(&*name, "one of bf16", one, bf16),
            self.pass(&*name, "one of e4m3", one, e4m3),
            self.pass(&*name, "bf16, then codes", one, bf16 + conversion),
        ])
    }

    /// Measures a paged cache of codes into bf16, against one of E4M3.
    fn read(&self, name: &str, kept: Kept) -> Result<Pass> {
        let chain = Rope::<Normed<'_>>::from(self.rope);
        let target = RefCell::new(self.keys());
        let read = |kept| {
            self.on_cache(kept, |x| {
                let mut target = target.borrow_mut();
                let mut y = TensorMut::new(&mut target, self.shape())?;
                chain.apply_into(&x.as_cache().slots(&self.slots), &mut y)
            })
        };
        let mut memory = Memory::new(2 * self.layout.end());
        let bytes = filled::<bf16>(&mut memory, self.layout.end());
        let mut subjects = [read(kept), read(E4M3)];
        self.beside(
            format!("a paged cache of {name} into bf16"),
            "one of e4m3",
            &mut subjects,
            bytes,
        )
    }

    /// Rotates keys of a cache in place.
    fn shifts(&self, kept: Kept) -> Subject<'_> {
        self.on_cache(kept, |cache| {
            self.rope.rotate(&mut cache.slots(&self.slots), &self.rows)
        })
    }

    /// Measures shifts against a rotation of a tensor.
    fn shift<E: Float>(&self) -> Result<Pass> {
        let mut memory = Memory::new(self.layout.end() * size_of::<E>());
        let bytes = filled::<E>(&mut memory, self.layout.end());
        let mut subjects = [
            self.shifts(Kept::Plain(E::ELEMENT)),
            on_tensor::<E>(self.shape(), |x| self.rope.rotate(x, &self.rows)),
        ];
        let name = format!("shift in a cache of {}", E::ELEMENT);
        self.beside(name, "rotate", &mut subjects, bytes)
    }

    /// Measures shifts of E4M3 against bf16 in separate memory.
    fn shift_codes(&self) -> Result<Pass> {
        let len = self.layout.end();
        let (mut codes, mut keys) = (Memory::new(len), Memory::new(2 * len));
        let keys = filled::<bf16>(&mut keys, len);
        let mut plain = self.shifts(BF16);
        let mut subjects: [Subject<'_>; 2] = [
            self.shifts(E4M3),
            Box::new(move |_, times| plain(keys, times)),
        ];
        let bytes = codes.slice(Alignment::Line, len);
        self.beside(
            "shift in a cache of e4m3",
            "one of bf16",
            &mut subjects,
            bytes,
        )
    }

    /// Measures the check for repeated slots: a shift by zero in scattered slots, which moves nothing, against one in
    /// ascending slots, which need no more than one look each.
    fn repeats(&self) -> Result<Pass> {
        let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
        let still = frequencies.shift(&vec![0_i64; self.tokens])?.rows()?;
        let ascending: Vec<i64> = (0..self.tokens as i64).collect();
        let shift = |slots| {
            let (rope, still) = (self.rope, &still);
            self.on_cache(BF16, move |cache| {
                rope.rotate(&mut cache.slots(slots), still)
            })
        };
        let len = self.layout.end();
        let mut memory = Memory::new(2 * len);
        let bytes = filled::<bf16>(&mut memory, len);
        let mut subjects = [shift(&self.slots), shift(&ascending)];
        agree(&mut subjects, bytes)?;
        self.beside(
            "shift by zero, scattered slots",
            "slots in order",
            &mut subjects,
            bytes,
        )
    }
}
