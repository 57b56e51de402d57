//! The formulations of the literature. Each is one file below, and one line in [`all`].
//!
//! They are written as published: with the passes, the temporaries, the tables and the angles of their sources. Two
//! deviations favor them: temporaries are allocated once rather than in every call, and tables hold only the rows of a
//! workload.

#[cfg(feature = "intrinsics")]
#[allow(unsafe_code, reason = "calls the C API")]
pub mod capi;
pub mod complex;
pub mod even_odd;
pub mod fused;
#[cfg(feature = "intrinsics")]
#[allow(unsafe_code, reason = "calls C")]
pub mod intrinsics;
pub mod literature;
pub mod matrix;
pub mod rotate_half;

use anyhow::Result;
use rope_core::Pairing;

use crate::cases::{Case, Element};
use crate::measuring::Effort;
use crate::oracle::{self, Angle, Arithmetic};
use crate::runners::Answer;
use crate::workloads::Workload;

/// A method to compute the rotation.
pub trait Formulation: Send + Sync {
    /// Returns the name on the command line and in reports: `family` or `family/variant`.
    fn name(&self) -> String;

    /// Returns the description.
    fn about(&self) -> About;

    /// Returns true if it computes a case.
    fn supports(&self, case: &Case) -> bool {
        self.about().admits(case)
    }

    /// Returns true if it belongs in a run that is neither restricted nor full.
    fn is_usual(&self) -> bool {
        true
    }

    /// Makes tables and temporaries: everything that a model makes once.
    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>>;
}

/// The description of a formulation.
#[derive(Clone, Debug)]
pub struct About {
    pub summary: &'static str,
    /// The publication, or the users.
    pub source: &'static str,
    pub pairings: &'static [Pairing],
    pub elements: &'static [Element],
    /// True if some channels of a head may stay unrotated.
    pub partial: bool,
    /// True if threads may share the work.
    pub threads: bool,
    pub angle: Angle,
    pub arithmetic: Arithmetic,
    /// The counting of positions and pairs in the source. The bench always counts both from 0.
    pub counting: &'static str,
}

impl About {
    /// The description of rope-core's arithmetic, with all elements and pairings.
    pub(crate) const fn ours(source: &'static str, summary: &'static str) -> Self {
        About {
            summary,
            source,
            pairings: &Pairing::ALL,
            elements: &Element::ALL,
            partial: true,
            threads: false,
            angle: Angle::Exact,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0",
        }
    }

    /// Returns true if it is written for such a case, which has no norm.
    pub fn admits(&self, case: &Case) -> bool {
        let workload = &case.workload;
        !workload.norms
            && self.pairings.contains(&case.pairing)
            && self.elements.contains(&case.element)
            && (self.partial || workload.rotary_dim == workload.head_dim)
            && (self.threads || case.threads == 1)
    }

    /// Returns the error bound of a correct result.
    pub fn limit(&self, case: &Case) -> f64 {
        oracle::limit(case, self.angle, self.arithmetic)
    }
}

/// A formulation ready to run a case.
pub trait Runner {
    /// Copies the tensors in `bytes`, before a run and outside of its time, if it works only in its own memory.
    fn load(&mut self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Rotates the tensors `times` times, in `bytes` unless it loaded them.
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()>;

    /// Runs a separate program instead of [`run`](Runner::run): rotates the loaded tensors, writes the result into
    /// `bytes`, and returns its measurement.
    fn outside(&mut self, _bytes: &mut [u8], _effort: Effort) -> Result<Option<Answer>> {
        Ok(None)
    }

    /// Writes the result of the last run into `bytes`, if it is elsewhere.
    fn store(&self, _bytes: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

/// All formulations, in the order of the tables.
pub fn all() -> Vec<Box<dyn Formulation>> {
    let mut all: Vec<Box<dyn Formulation>> = fused::rotations().collect();
    #[cfg(feature = "intrinsics")]
    all.extend(intrinsics::all().into_iter().chain(capi::all()));
    all.push(Box::new(complex::COMPLEX));
    all.push(Box::new(complex::IN_PLACE));
    all.push(Box::new(even_odd::EVEN_ODD));
    all.push(Box::new(rotate_half::ROTATE_HALF));
    all.push(Box::new(matrix::BLOCKS));
    all.push(Box::new(matrix::SIGN));
    all.push(Box::new(matrix::DENSE));
    all.extend(fused::norms());
    all
}

/// Computes cos and sin of each row and pair as PyTorch code does: frequency, angle, cos and sin all f32.
fn cos_sin_f32(workload: &Workload) -> impl Iterator<Item = (f32, f32)> {
    angles_f32(workload, workload.positions()).map(|angle| (angle.cos(), angle.sin()))
}

/// Computes `outer(positions, 1 / base^(2 i / rotary_dim))` in f32.
fn angles_f32(workload: &Workload, positions: Vec<u32>) -> impl Iterator<Item = f32> {
    let dim = workload.rotary_dim as f32;
    let base = workload.base as f32;
    let frequency = move |i| 1.0 / base.powf((2 * i) as f32 / dim);
    let frequencies: Vec<f32> = (0..workload.rotary_dim / 2).map(frequency).collect();
    positions.into_iter().flat_map(move |position| {
        let frequencies = frequencies.clone().into_iter();
        frequencies.map(move |frequency| position as f32 * frequency)
    })
}
