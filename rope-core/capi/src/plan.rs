//! The plan: a rotation, and the stages beside it.

use core::ffi::c_void;

use rope_core::internals;
use rope_core::stages::{Linear, Normed};
use rope_core::{Backend, Pairing, Rope};
#[cfg(feature = "models")]
use rope_models::Rotation;

use crate::failure::Failure;
use crate::hadamard::rope_hadamard;
use crate::memory::{Region, plain, read};
use crate::names::{rope_backend, rope_direction, rope_pairing};
use crate::norm::rope_norm;
use crate::scale::rope_scale;

/// A plan: the rotation of heads and its stages. It is a plain value, which every checked call reads anew.
///
/// A plan with everything but `pairing` at zero, {ROPE_PAIRING_HALF, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL}, rotates
/// forward, keeps the pairing, takes the fastest backend, and does nothing else. With stages it does all that stands
/// between a projection and the attention:
///
/// read -> norm -> scale -> rotate -> norm -> scale -> transform -> write
///
/// The norm and the scale stand on either side. The Hadamard transform is the last stage; heads from a cache are
/// transformed back first. Between the stages a value is a float; a norm, a scale and the plan say where it is rounded
/// to the element of the source. With stages a head has at most 2048 channels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_plan {
    /// The pairs of the source (`enum rope_pairing`).
    pub pairing: i32,
    /// The pairs of the target (`enum rope_pairing`); 0: the same as `pairing`. Only a call with a source and a target
    /// can change the pairing.
    pub output_pairing: i32,
    /// The direction in which pairs rotate (`enum rope_direction`).
    pub direction: i32,
    /// The instruction set (`enum rope_backend`).
    pub backend: i32,
    /// Other than 0: the stage after the rotation (a norm, a scale, a transform, a quantized format) takes its float as
    /// it is. Otherwise the float is first rounded to the element of the source, with the bits of separate passes.
    pub without_rounding: i32,
    /// The first channel of a head that rotates (multi-head latent attention). Norms span the whole head.
    pub first_channel: usize,
    /// The channels of a head; 0: any. A rotation of other heads is refused (ROPE_STATUS_MODEL_HEAD): from
    /// `first_channel` on they would rotate other channels. A latent with its key after it, 512 + 64 channels of
    /// DeepSeek-V3, is rotated by a plan with `first_channel` 512 and `head_dim` 0.
    pub head_dim: usize,
    /// Equal parts of the channels that rotate, each with its share of the pairs of the rows and paired by itself, as a
    /// head of its own (Gemma 4's vision tower); 0 and 1: one part.
    pub parts: usize,
    /// The norm; NULL: none.
    pub norm: *const rope_norm,
    /// The scale; NULL: none.
    pub scale: *const rope_scale,
    /// The Hadamard transform; NULL, or one of zeros: none.
    pub hadamard: *const rope_hadamard,
}
plain!(rope_plan);

impl rope_plan {
    /// All zeros.
    pub const NONE: Self = rope_plan {
        pairing: 0,
        output_pairing: 0,
        direction: 0,
        backend: 0,
        without_rounding: 0,
        first_channel: 0,
        head_dim: 0,
        parts: 0,
        norm: core::ptr::null(),
        scale: core::ptr::null(),
        hadamard: core::ptr::null(),
    };

    /// The plan for whole heads of a model.
    #[cfg(feature = "models")]
    pub(crate) fn of_model(rotation: &Rotation) -> Self {
        let (input, output) = rotation.pairing();
        rope_plan {
            pairing: rope_pairing::from(input) as i32,
            output_pairing: rope_pairing::from(output) as i32,
            direction: rope_direction::from(rotation.direction()) as i32,
            first_channel: rotation.window().start,
            head_dim: rotation.head_dim(),
            parts: rotation.windows().count(),
            ..rope_plan::NONE
        }
    }

    /// The rotation.
    #[inline(always)]
    pub(crate) fn rope(&self) -> Result<Rope, Failure> {
        let pairing = rope_pairing::from_c(self.pairing)?;
        let output = match self.output_pairing {
            0 => pairing,
            other => rope_pairing::from_c(other)?,
        };
        let direction = rope_direction::from_c(self.direction)?.direction();
        let backend = rope_backend::from_c(self.backend)?.backend();
        let rope = internals::rope(pairing.pairing(), backend)?
            .with_output_pairing(output.pairing())
            .with_direction(direction);
        let rope = match (self.first_channel, self.parts) {
            (0, 0 | 1) => rope,
            (first, parts) => rope.with_window(first).with_parts(parts.max(1)),
        };
        Ok(rope.with_head_dim(self.head_dim))
    }

    /// The pairing and the backend, if they are all that the plan says; `None` also if it is refused.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<(Pairing, Option<Backend>)> {
        let keeps = self.output_pairing == 0 || self.output_pairing == self.pairing;
        let forward = self.direction == rope_direction::Forward as i32;
        let whole = self.first_channel == 0 && self.parts <= 1;
        if !(keeps && forward && whole && self.is_bare()) {
            return None;
        }
        let pairing = rope_pairing::from_c(self.pairing).ok()?;
        let backend = rope_backend::from_c(self.backend).ok()?;
        Some((pairing.pairing(), backend.backend()))
    }

    /// Returns `true` if the plan has no stages.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        let pointers = [
            self.norm.cast::<u8>(),
            self.scale.cast(),
            self.hadamard.cast(),
        ];
        pointers.iter().all(|pointer| pointer.is_null()) && self.without_rounding == 0
    }

    /// A copy of the plan and of the structs that it points to.
    ///
    /// # Safety
    ///
    /// Each pointer is null or points to its struct.
    #[inline(always)]
    pub(crate) unsafe fn record(&self) -> Result<PlanRecord, Failure> {
        let rope = self.rope()?;
        let stages = match self.is_bare() {
            true => None,
            // SAFETY: the caller promises that each pointer is null or has its struct.
            false => Some(unsafe { self.stages() }?),
        };
        Ok(PlanRecord { rope, stages })
    }

    /// # Safety
    ///
    /// As [`rope_plan::record`].
    #[inline(never)]
    unsafe fn stages(&self) -> Result<StagesRecord, Failure> {
        // SAFETY: the caller promises that each pointer is null or has its struct.
        unsafe {
            let stages = StagesRecord {
                norm: optional("norm", self.norm)?,
                scale: optional("scale", self.scale)?,
                hadamard: optional("hadamard", self.hadamard)?,
                without_rounding: self.without_rounding != 0,
            };
            // All numbers name something.
            stages.used()?;
            Ok(stages)
        }
    }
}

/// # Safety
///
/// The pointer is null or points to the struct.
unsafe fn optional<T: crate::memory::Plain>(
    name: &'static str,
    value: *const T,
) -> Result<Option<T>, Failure> {
    match value.is_null() {
        true => Ok(None),
        // SAFETY: the caller promises that the pointer is null or has the struct.
        false => Ok(Some(unsafe { read(name, value) }?)),
    }
}

/// A plan without pointers to structs: lists that its stages read are where they were.
#[derive(Clone, Copy)]
pub(crate) struct PlanRecord {
    pub(crate) rope: Rope,
    pub(crate) stages: Option<StagesRecord>,
}

#[derive(Clone, Copy)]
pub(crate) struct StagesRecord {
    pub(crate) norm: Option<rope_norm>,
    scale: Option<rope_scale>,
    hadamard: Option<rope_hadamard>,
    without_rounding: bool,
}

impl StagesRecord {
    /// The bytes that the stages read.
    pub(crate) fn used(&self) -> Result<[Region; 4], Failure> {
        let mut regions = [Region::NONE; 4];
        // SAFETY: the slices end here.
        unsafe {
            if let Some(scale) = &self.scale {
                regions[3] = scale.scale()?.1;
            }
            if let Some(hadamard) = &self.hadamard {
                hadamard.hadamard()?;
            }
            if let Some(norm) = &self.norm {
                let (_, [weight, bias, sums]) = norm.norm()?;
                [regions[0], regions[1], regions[2]] = [weight, bias, sums];
            }
        }
        Ok(regions)
    }

    /// The stages but for the norm.
    ///
    /// # Safety
    ///
    /// The factors of the scale are readable, and nobody writes them during `'a`.
    unsafe fn without_norm<'a>(&self, rope: Rope) -> Result<Rope<Linear<'a>>, Failure> {
        let mut plan = Rope::<Linear<'_>>::from(rope);
        if let Some(scale) = &self.scale {
            // SAFETY: the caller promises that the factors are readable, and that nobody writes them during `'a`.
            plan = plan.with_scale(unsafe { scale.scale() }?.0);
        }
        if let Some(hadamard) = &self.hadamard
            && let Some(hadamard) = hadamard.hadamard()?
        {
            plan = plan.with_hadamard(hadamard);
        }
        if self.without_rounding {
            plan = plan.without_rounding();
        }
        Ok(plan)
    }
}

impl PlanRecord {
    /// The same plan with weights and biases elsewhere; null: where they are.
    ///
    /// # Safety
    ///
    /// Pointers are null or point to as many as the norm has.
    pub(crate) unsafe fn at(
        &self,
        weight: *const c_void,
        bias: *const c_void,
    ) -> Result<Self, Failure> {
        let mut record = *self;
        if let Some(StagesRecord {
            norm: Some(norm), ..
        }) = &mut record.stages
        {
            if !weight.is_null() {
                norm.weight.data = weight;
            }
            if !bias.is_null() {
                norm.bias.data = bias;
            }
            // SAFETY: the slices end here.
            let _ = unsafe { norm.norm() }?;
        }
        Ok(record)
    }

    /// Returns true for a norm with weights, and true for a norm with biases.
    pub(crate) fn norm_lists(&self) -> [bool; 2] {
        let norm = self.stages.as_ref().and_then(|stages| stages.norm.as_ref());
        norm.map_or([false; 2], |norm| {
            [norm.weight, norm.bias].map(|list| !list.data.is_null())
        })
    }

    /// The bytes that the stages read.
    #[inline]
    pub(crate) fn used(&self) -> Result<[Region; 4], Failure> {
        match &self.stages {
            None => Ok([Region::NONE; 4]),
            Some(stages) => stages.used(),
        }
    }

    /// The plan with all of its stages.
    ///
    /// # Safety
    ///
    /// The lists are there, and nobody writes them during `'a`.
    #[inline(never)]
    pub(crate) unsafe fn with_stages<'a>(&self) -> Result<Rope<Normed<'a>>, Failure> {
        let Some(stages) = &self.stages else {
            return Ok(self.rope.into());
        };
        // SAFETY: the caller promises that the lists of the plan are readable, and that nobody writes them during `'a`.
        unsafe {
            let plan = Rope::<Normed<'_>>::from(stages.without_norm(self.rope)?);
            Ok(match &stages.norm {
                None => plan,
                Some(norm) => plan.with_norm(norm.norm()?.0),
            })
        }
    }

    /// The rotation of a plan without stages.
    pub(crate) fn bare(&self) -> Result<Rope, Failure> {
        match self.stages {
            None => Ok(self.rope),
            Some(_) => Err(Failure::NotLinear),
        }
    }

    /// The plan, if it has no norm.
    ///
    /// # Safety
    ///
    /// As [`PlanRecord::with_stages`].
    pub(crate) unsafe fn linear<'a>(&self) -> Result<Rope<Linear<'a>>, Failure> {
        match &self.stages {
            None => Ok(self.rope.into()),
            Some(stages) if stages.norm.is_some() => Err(Failure::NotLinear),
            // SAFETY: the caller promises that the lists of the plan are readable, and that nobody writes them during
            // `'a`.
            Some(stages) => unsafe { stages.without_norm(self.rope) },
        }
    }
}
