//! The filters of the command line, as cases and formulations.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rope_core::{Backend, Pairing};
use rope_report::kind::{Kind, family};

use crate::cases::models::{Model, STEPS};
use crate::cases::names::{named, only};
use crate::cases::workloads::Workload;
use crate::cases::{Alignment, Case, Element};
use crate::formulations;
use crate::formulations::formulation::Formulation;
use crate::formulations::runners;

/// Filters. What is not filtered is measured.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Also tensors beyond the caches, other head sizes, misaligned tensors and threads; measures each number longer:
    /// half an hour
    #[arg(long)]
    pub full: bool,
    /// Only these formulations, by name or family: fused, complex, even-odd, rotate-half, matrix, ..
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub formulation: Vec<String>,
    /// Only these backends of rope-core
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub backend: Vec<Backend>,
    /// Only these elements
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub element: Vec<Element>,
    /// Only these pairings.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help = only("pairings", Pairing::ALL))]
    pub pairing: Vec<Pairing>,
    /// Only these workloads.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help = only("workloads", Workload::named().iter().map(|of| &of.name)) + "; with --model: " + &STEPS.join(", "))]
    pub workload: Vec<String>,
    /// A workload of this shape instead: batch,tokens,heads,head_dim
    #[arg(long, value_name = "B,T,H,D", value_parser = shape, conflicts_with_all = ["workload", "model"])]
    pub shape: Vec<[usize; 4]>,
    /// The workloads of this model instead, in its own pairing: llama-3.1-8b, qwen3-0.6b, deepseek-v3, ..
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub model: Vec<String>,
    /// Also the formulations of the runner in this directory: runners/PROTOCOL.md
    #[arg(long, value_name = "DIRECTORY")]
    pub runner: Vec<PathBuf>,
    /// Threads that share each rotation
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Parses `batch,tokens,heads,head_dim`.
fn shape(text: &str) -> Result<[usize; 4]> {
    let extents = text.split([',', 'x']).map(|extent| extent.trim().parse());
    let extents: Vec<usize> = extents.collect::<Result<_, _>>().unwrap_or_default();
    let shape = extents.try_into().ok();
    shape.context("not four numbers: batch,tokens,heads,head_dim")
}

/// Returns the named items of a filter, or everything if it names none.
fn or_all<'a, T>(named: &'a [T], all: &'a [T]) -> &'a [T] {
    if named.is_empty() { all } else { named }
}

/// A case and its measured formulations.
pub type Planned<'a> = (Case, Vec<&'a dyn Formulation>);

/// Returns the backends named on the command line, or all that this CPU can run if none is named.
///
/// # Errors
///
/// A named backend cannot run here.
pub fn backends(named: &[Backend]) -> Result<Vec<Backend>> {
    if let Some(missing) = named.iter().find(|backend| !backend.is_available()) {
        let here: Vec<_> = Backend::available().map(Backend::name).collect();
        bail!(
            "this CPU, or this build, cannot run {missing}; it can run {}",
            here.join(", ")
        );
    }
    Ok(Backend::available()
        .filter(|backend| named.is_empty() || named.contains(backend))
        .collect())
}

impl Selection {
    /// Returns true if only a part is selected: some cases, or some formulations. A runner adds to the whole.
    pub fn is_partial(&self) -> bool {
        let names = [&self.formulation, &self.workload, &self.model];
        names.iter().any(|names| !names.is_empty())
            || !(self.element.is_empty() && self.pairing.is_empty() && self.shape.is_empty())
            || self.threads.is_some()
    }

    /// Returns all built-in formulations, and those of the runners.
    pub fn all(&self) -> Result<Vec<Box<dyn Formulation>>> {
        let mut all = formulations::all();
        for directory in &self.runner {
            for formulation in runners::read(directory)? {
                let name = formulation.name();
                ensure!(
                    all.iter().all(|known| known.name() != name),
                    "{}: there is a formulation {name} already",
                    directory.display()
                );
                all.push(formulation);
            }
        }
        Ok(all)
    }

    /// Returns the cases, each with the formulations that support it. Cases of one table are consecutive.
    pub fn plan<'a>(&self, all: &'a [Box<dyn Formulation>]) -> Result<Vec<Planned<'a>>> {
        let formulations = self.formulations(all)?;
        let most = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        if let Some(threads) = self.threads {
            ensure!(
                (1..=most).contains(&threads),
                "{threads} threads: this machine can do with 1 to {most}"
            );
        }
        let threads = self.threads.unwrap_or(1);
        let mut planned: Vec<Planned<'a>> = Vec::new();
        let mut add = |workloads: &[_], alignment, threads, pairings: &[_]| {
            for &element in or_all(&self.element, &Element::ALL) {
                for &pairing in pairings {
                    planned.extend(workloads.iter().cloned().map(|workload: Workload| {
                        let case = Case {
                            workload,
                            element,
                            pairing,
                            alignment,
                            threads,
                        };
                        let able = formulations.iter().copied();
                        let able = able.filter(|f| f.supports(&case)).collect();
                        (case, able)
                    }));
                }
            }
        };
        for name in &self.model {
            let model = Model::named(name)?;
            let step = |name: &String| named(&STEPS, "workload of a model", name, |step| step);
            let steps = self.workload.iter().map(step).collect::<Result<Vec<_>>>()?;
            let pairings = or_all(&self.pairing, std::slice::from_ref(&model.pairing));
            let mut workloads = model.workloads();
            workloads.retain(|workload| {
                steps.is_empty() || steps.iter().any(|step| workload.name.ends_with(*step))
            });
            add(&workloads, Alignment::Line, threads, pairings);
        }
        let pairings = or_all(&self.pairing, &Pairing::ALL);
        if !self.shape.is_empty() {
            let shapes = self.shape.iter().map(|&shape| Workload::free(shape));
            let shapes = shapes.collect::<Result<Vec<_>>>()?;
            add(&shapes, Alignment::Line, threads, pairings);
        }
        if self.model.is_empty() && self.shape.is_empty() {
            let workloads = self.workloads()?;
            add(&workloads, Alignment::Line, threads, pairings);
            if self.full {
                add(&workloads, Alignment::Allocator, threads, pairings);
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                for threads in 2..=if self.threads.is_some() { 1 } else { cores } {
                    add(&workloads, Alignment::Line, threads, pairings);
                }
            }
        }
        planned.retain(|(_, formulations)| !formulations.is_empty());
        ensure!(
            !planned.is_empty(),
            "nothing to measure: no formulation that is left can compute a case that is left"
        );
        Ok(planned)
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        let known = Workload::named();
        if self.workload.is_empty() {
            let chosen = if self.full {
                Workload::all
            } else {
                Workload::standard
            };
            return Ok(chosen());
        }
        let find = |name: &String| named(&known, "workload", name, |of| &of.name).cloned();
        self.workload.iter().map(find).collect()
    }

    fn formulations<'a>(
        &self,
        all: &'a [Box<dyn Formulation>],
    ) -> Result<Vec<&'a dyn Formulation>> {
        let backends = backends(&self.backend)?;
        let names: Vec<_> = all.iter().map(|f| f.name()).collect();
        for wanted in &self.formulation {
            if !names
                .iter()
                .any(|name| name == wanted || family(name) == *wanted)
            {
                bail!(
                    "no formulation {wanted:?}; known here are {}",
                    names.join(", ")
                );
            }
        }
        let wanted = |name: &str| {
            let mut named = self.formulation.iter();
            self.formulation.is_empty() || named.any(|f| f == name || *f == family(name))
        };
        let runs = |name: &str| match Kind::of(name) {
            Kind::Own { backend } | Kind::OnTheFly { backend } => {
                backends.iter().any(|known| known.name() == backend)
            }
            // A selected backend excludes the formulations of others.
            _ => self.backend.is_empty() || !self.formulation.is_empty(),
        };
        let usual_only = !self.full && self.formulation.is_empty() && self.backend.is_empty();
        let chosen = |f: &&dyn Formulation| {
            wanted(&f.name()) && runs(&f.name()) && (f.is_usual() || !usual_only)
        };
        Ok(all.iter().map(|f| &**f).filter(chosen).collect())
    }
}

/// Returns all formulations and their descriptions, as text.
pub fn list() -> String {
    let describe = |f: Box<dyn Formulation>| {
        let (name, about) = (f.name(), f.about());
        let pairings = about.pairings.iter().map(ToString::to_string);
        let pairings = pairings.collect::<Vec<_>>().join(" and ");
        let elements = about.elements.iter().map(|element| element.name());
        let elements = elements.collect::<Vec<_>>().join(", ");
        let (summary, counting, source) = (about.summary, about.counting, about.source);
        format!(
            "{name}\n    {summary}\n    {pairings} pairs; {elements}; {counting}\n    from {source}\n"
        )
    };
    formulations::all().into_iter().map(describe).collect()
}
