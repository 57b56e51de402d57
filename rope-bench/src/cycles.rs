//! Cycles that the inner loops should take on CPUs that are not here, as llvm-mca predicts them.
//!
//! [`predict`] reads the assembly of rope-core, finds for each kernel that rotates in place the loop that a head of
//! 128 channels runs through ([`loops`]), and has llvm-mca play it on models of CPUs ([`mca`]). It is a prediction:
//! llvm-mca takes every load for a hit in the first cache, every branch for one that was foreseen, and knows a CPU as
//! well as LLVM's scheduler does. So [`measured`] measures the same kernels where they run here, in the first cache, to
//! say how far it can be trusted.
//!
//! Where a store of ARM also moves its own address (`str d4, [x22], #8`), llvm-mca lets the new address wait for the
//! data that is stored, and the next iteration with it. Loops with such stores, some of the scalar ones, take fewer
//! cycles than it says.
//!
//! A loop that is not found is said not to be found.

pub mod loops;
pub mod mca;
pub mod measured;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rope_core::Pairing;

use crate::cases::Element;
use crate::results::{CyclesResult, KernelCycles, ModelledCpu};
use loops::{Function, Hot, Wanted, hot};

/// Channels of a head.
pub const HEAD_DIM: usize = 128;

/// An instruction set as compilers call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// Cortex-M4 and M7.
    Thumbv7em,
}

impl Architecture {
    /// As in the name of a target.
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            Architecture::Thumbv7em => "thumbv7em",
        }
    }

    /// The backends that rope-core has for it, the fastest first.
    pub const fn backends(self) -> &'static [&'static str] {
        match self {
            Architecture::X86_64 => &["avx512bf16", "avx512", "avx2", "portable", "scalar"],
            Architecture::Aarch64 => &["neon", "portable", "scalar"],
            // Without vectors, `portable` runs the scalar loops.
            Architecture::Thumbv7em => &["scalar"],
        }
    }

    fn triple(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-unknown-linux-gnu",
            Architecture::Aarch64 => "aarch64-unknown-linux-gnu",
            Architecture::Thumbv7em => "thumbv7em-none-eabihf",
        }
    }
}

/// A CPU that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// As people call it.
    pub name: &'static str,
    /// As LLVM calls it.
    pub llvm: &'static str,
    /// What it runs.
    pub architecture: Architecture,
    /// The backends that it can run, of its architecture's.
    pub backends: &'static [&'static str],
    /// How the units of a model of its own would be called.
    units: &'static str,
}

const NO_VECTORS: &[&str] = &["portable", "scalar"];
const NEON: &[&str] = &["neon", "portable", "scalar"];
const WIDE: &[&str] = &["avx512bf16", "avx512", "avx2", "portable", "scalar"];
/// Skylake-X has no VBMI2, which the backend `avx512` wants.
const AVX2: &[&str] = &["avx2", "portable", "scalar"];

/// The CPUs that are asked about.
pub const CPUS: [Cpu; 11] = {
    use Architecture::{Aarch64, Thumbv7em, X86_64};
    const fn cpu(
        name: &'static str,
        llvm: &'static str,
        architecture: Architecture,
        backends: &'static [&'static str],
        units: &'static str,
    ) -> Cpu {
        Cpu {
            name,
            llvm,
            architecture,
            backends,
            units,
        }
    }
    [
        cpu("Sapphire Rapids", "sapphirerapids", X86_64, WIDE, "SPR"),
        cpu("Zen 5", "znver5", X86_64, WIDE, "Zn5"),
        cpu("Zen 4", "znver4", X86_64, WIDE, "Zn4"),
        cpu("Zen 3", "znver3", X86_64, AVX2, "Zn3"),
        cpu("Skylake-X", "skylake-avx512", X86_64, AVX2, "SKX"),
        cpu("Neoverse V2", "neoverse-v2", Aarch64, NEON, "V2"),
        cpu("Neoverse N1", "neoverse-n1", Aarch64, NEON, "N1"),
        cpu("Apple M1", "apple-m1", Aarch64, NEON, "M1"),
        cpu("Cortex-A76", "cortex-a76", Aarch64, NEON, "A76"),
        cpu("Cortex-A53", "cortex-a53", Aarch64, NEON, "A53"),
        cpu("Cortex-M4", "cortex-m4", Thumbv7em, NO_VECTORS, "M4"),
    ]
};

/// A kernel: what runs through a head.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// By which backend.
    pub backend: &'static str,
    /// Of what.
    pub element: Element,
    /// Which pairs.
    pub pairing: Pairing,
}

impl Kernel {
    /// All that are compiled: `avx512bf16` is the same as `avx512`, but for bf16.
    pub fn all(architecture: Architecture) -> Vec<Kernel> {
        let mut kernels = Vec::new();
        for element in Element::ALL {
            for pairing in [Pairing::Half, Pairing::Interleaved] {
                for &backend in architecture.backends() {
                    if backend != "avx512bf16" || element == Element::Bf16 {
                        kernels.push(Kernel {
                            backend,
                            element,
                            pairing,
                        });
                    }
                }
            }
        }
        kernels
    }

    /// Whether a function is compiled for this kernel, by its name: a backend's entry for a rotation.
    fn is(&self, name: &str) -> bool {
        let bf16 = name.contains("inside_bf16");
        let backend = match self.backend {
            "avx512bf16" => bf16 && name.contains("::simd::avx512::"),
            "avx512" => !bf16 && name.contains("::simd::avx512::"),
            other => name.contains(&format!("::simd::{other}::")),
        };
        // In place, and with nothing before the rotation, which would be named after the route.
        let Some((route, rest)) = name
            .split_once("::line::RotateLine<")
            .and_then(|(_, rotation)| rotation.split_once("::line::Same<"))
            .and_then(|(_, route)| route.split_once('>'))
        else {
            return false;
        };
        let of: Vec<_> = route
            .split(", ")
            .map(|path| path.rsplit("::").next().unwrap_or(path))
            .collect();
        let pairing = match self.pairing {
            Pairing::Half => "Half",
            Pairing::Interleaved => "Interleaved",
        };
        let element = self.element.name();
        backend && rest.chars().all(|c| c == '>') && of == [element, pairing]
    }

    /// Its loop over the heads, or over the pairs of a head if it is the scalar one.
    fn hot(&self, functions: &[Function]) -> Result<Hot, String> {
        let scalar = self.backend == "scalar";
        let wanted = Wanted {
            size: self.element.size(),
            head: HEAD_DIM,
            rows: scalar,
        };
        let functions = functions.iter().filter(|function| self.is(&function.name));
        let found = functions.map(|function| hot(function, wanted));
        found
            .reduce(Result::or)
            .unwrap_or_else(|| Err("no such function".into()))
    }
}

/// The assembly of rope-core for a target: what `cargo rustc --release -p rope-core --lib -- --emit asm -C debuginfo=0
/// -C symbol-mangling-version=v0` wrote, for x86-64 with `-C llvm-args=--x86-asm-syntax=intel`.
pub type ArchitectureFiles = Vec<(Architecture, PathBuf)>;

/// Reads assembly, finds the loops, and has `program` play them. `listing` gets the loops as they are played.
pub fn predict(
    files: &ArchitectureFiles,
    program: &str,
    listing: Option<&Path>,
) -> Result<CyclesResult> {
    ensure!(!files.is_empty(), "no assembly to look at");
    let (tool, host) = mca::version(program)?;
    let mut result = CyclesResult {
        tool,
        head_dim: HEAD_DIM,
        cpus: Vec::new(),
        kernels: Vec::new(),
        here: None,
    };
    let mut listed = String::new();
    for (architecture, path) in files {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let functions = loops::functions(&text);
        let kernels = Kernel::all(*architecture);
        let found: Vec<_> = kernels
            .iter()
            .map(|kernel| kernel.hot(&functions))
            .collect();
        let first = result.kernels.len();
        for (kernel, found) in kernels.iter().zip(&found) {
            let mut line = KernelCycles {
                architecture: architecture.name().into(),
                backend: kernel.backend.into(),
                element: kernel.element.name().into(),
                pairing: kernel.pairing.to_string(),
                elements: 0,
                instructions: 0,
                spills: 0,
                slots: 0,
                constants: 0,
                predicted: Vec::new(),
                measured: None,
                problem: None,
            };
            match found {
                Ok(hot) => {
                    line.elements = hot.elements;
                    line.instructions = hot.instructions.len();
                    line.spills = hot.spills;
                    line.slots = hot.slots;
                    line.constants = hot.constants;
                    let _ = writeln!(
                        listed,
                        "# {} {} {} {}: {} elements\n{}\n",
                        line.architecture,
                        line.backend,
                        line.element,
                        line.pairing,
                        line.elements,
                        hot.instructions.join("\n")
                    );
                }
                Err(problem) => line.problem = Some(problem.clone()),
            }
            result.kernels.push(line);
        }
        for cpu in CPUS.iter().filter(|cpu| cpu.architecture == *architecture) {
            let ours = kernels.iter().zip(&found).enumerate();
            let ours: Vec<_> = ours
                .filter(|(_, (kernel, _))| cpu.backends.contains(&kernel.backend))
                .filter_map(|(index, (_, found))| Some((index, found.as_ref().ok()?)))
                .collect();
            let code: Vec<_> = ours
                .iter()
                .map(|(_, hot)| hot.instructions.join("\n"))
                .collect();
            let played = if code.is_empty() {
                None
            } else {
                mca::play(program, *architecture, cpu.llvm, &code)?
            };
            let unit = played.as_ref().and_then(|played| played.units.first());
            result.cpus.push(ModelledCpu {
                name: cpu.name.into(),
                llvm: cpu.llvm.into(),
                architecture: architecture.name().into(),
                known: played.is_some(),
                units: unit.map_or_else(String::new, |unit| {
                    unit.trim_end_matches(|c: char| !c.is_alphanumeric())
                        .to_owned()
                }),
                own: unit.is_some_and(|unit| unit.starts_with(cpu.units)),
                here: cpu.llvm == host,
            });
            let column = result.cpus.len() - 1;
            for line in &mut result.kernels[first..] {
                line.predicted.resize(column + 1, None);
            }
            for ((index, hot), cycles) in ours
                .iter()
                .zip(played.iter().flat_map(|played| &played.cycles))
            {
                result.kernels[first + index].predicted[column] =
                    Some(cycles / hot.elements as f64);
            }
        }
    }
    let columns = result.cpus.len();
    for line in &mut result.kernels {
        line.predicted.resize(columns, None);
    }
    if let Some(listing) = listing {
        crate::report::files::write_or_print(listing, listed.as_bytes())?;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_by_the_names_of_functions() {
        let name = |backend: &str, inside: &str, rotation: &str| {
            format!(
                "<rope_core::simd::{backend} as rope_core::simd::instruction_set::InstructionSet>::{inside}::<rope_core::kernel::line::RotateLine<{rotation}>>"
            )
        };
        let half = "rope_core::kernel::pairs::Half";
        let route = |route: &str| format!("rope_core::kernel::line::{route}");
        let in_place = |element: &str| route(&format!("Same<{element}, {half}>"));
        let names = [
            name("avx512::Token<_>", "enter::inside", &in_place("f32")),
            name(
                "avx512::Token<_>",
                "enter::inside_bf16",
                &in_place("half::bfloat::bf16"),
            ),
            name(
                "avx512::Token<_>",
                "enter::inside",
                &in_place("half::bfloat::bf16"),
            ),
            name(
                "portable::Portable",
                "enter",
                &in_place("half::binary16::f16"),
            ),
            name(
                "avx2::Avx2",
                "enter::inside",
                &route(&format!("Other<f32, {half}, f32, {half}>")),
            ),
            "rope_core::kernel::elements::f32_half".to_owned(),
            name(
                "avx2::Avx2",
                "enter::inside",
                &format!("{}, &rope_core::kernel::normed::LineNorm", in_place("f32")),
            ),
        ];
        let of: Vec<Vec<String>> = names
            .iter()
            .map(|name| {
                let kernels = Kernel::all(Architecture::X86_64);
                let of = kernels.iter().filter(|kernel| kernel.is(name));
                of.map(|k| format!("{} {} {}", k.backend, k.element, k.pairing))
                    .collect()
            })
            .collect();
        let expected = [
            "avx512 f32 half",
            "avx512bf16 bf16 half",
            "avx512 bf16 half",
            "portable f16 half",
        ];
        for (of, expected) in of.iter().zip(expected) {
            assert_eq!(of, &[expected]);
        }
        assert!(of[4..].iter().all(Vec::is_empty));
    }

    #[test]
    fn a_file_without_kernels_has_no_loops() {
        let reason = Kernel::all(Architecture::Aarch64)[0].hot(&[]).unwrap_err();
        assert_eq!(reason, "no such function");
        let x86 = Architecture::X86_64;
        let all = (x86.backends().len() - 1) * 2 * Element::ALL.len();
        // `avx512bf16` has kernels of its own for one element.
        assert_eq!(Kernel::all(x86).len(), all + 2);
    }

    /// A backend that no list names would silently be left out.
    #[test]
    fn every_backend_has_an_architecture_and_a_cpu() {
        for backend in rope_core::Backend::ALL {
            let name = backend.name();
            let listed = |list: &[&str]| list.contains(&name);
            assert!(
                CPUS.iter().any(|cpu| listed(cpu.architecture.backends())),
                "{name}"
            );
            assert!(CPUS.iter().any(|cpu| listed(cpu.backends)), "{name}");
        }
    }
}
