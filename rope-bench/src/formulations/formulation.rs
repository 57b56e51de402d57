//! A formulation: its name, its description, and how it runs a case.

use anyhow::Result;
use rope_core::Pairing;
use rope_report::time::Samples;
use serde::Deserialize;

use crate::cases::{Case, Element};
use crate::measure::Effort;
use crate::verify::oracle::{self, Angle, Arithmetic};

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

/// The answer of a separate program.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    pub version: String,
    /// Nanoseconds of a call in each round.
    pub samples: Samples,
    #[serde(default)]
    pub preparation: f64,
}
