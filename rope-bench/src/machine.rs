//! Which machine and which build the numbers belong to.

use rope_core::Backend;
use serde::{Deserialize, Serialize};

use crate::report::table::count;

/// The machine and the build.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// What the CPU calls itself.
    pub cpu: String,
    /// Its microarchitecture, `Zen 4`, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microarchitecture: Option<String>,
    /// `x86_64`, `aarch64`, `wasm32`.
    pub architecture: String,
    /// `linux`, `macos`, `windows`.
    pub system: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Vector extensions of the CPU.
    pub features: Vec<String>,
    /// Data caches, from the core outwards.
    pub caches: Vec<String>,
    /// The compiler.
    pub compiler: String,
    /// The C compiler of the C loops, where they were built.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub c_compiler: String,
    /// The target it compiled for.
    pub target: String,
    /// Flags beyond the profile.
    pub flags: String,
    /// The commit.
    pub revision: String,
    /// Backends of rope-core, the one it chooses first.
    pub backends: Vec<String>,
    /// Whether the measuring thread was bound to a core.
    pub pinned: bool,
    /// What emulates the CPU, where something does: times then mean nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
}

impl Machine {
    /// This one. Binds the thread to a core.
    pub fn this(emulator: Option<String>) -> Self {
        // Asked first: it counts the cores that the thread may use.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Machine {
            cpu: cpu(),
            microarchitecture: microarchitecture().map(Into::into),
            architecture: std::env::consts::ARCH.into(),
            system: std::env::consts::OS.into(),
            cores,
            features: features(),
            caches: caches(),
            compiler: env!("ROPE_BENCH_RUSTC").into(),
            c_compiler: env!("ROPE_BENCH_CC").into(),
            target: env!("ROPE_BENCH_TARGET").into(),
            flags: env!("ROPE_BENCH_FLAGS").into(),
            revision: env!("ROPE_BENCH_REVISION").into(),
            backends: Backend::available()
                .map(|backend| backend.name().to_owned())
                .collect(),
            pinned: cores::pin(0),
            emulator,
        }
    }

    /// What a report opens with: a word, and what is said of it.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let cores = count(self.cores, "core");
        let compiler = format!("{}, {} {}", self.compiler, self.target, self.flags);
        let mut facts = vec![
            (
                "CPU",
                format!(
                    "{}, {cores}, {} {}",
                    self.cpu, self.architecture, self.system
                ),
            ),
            ("caches", self.caches.join(", ")),
            ("features", self.features.join(" ")),
            ("compiler", compiler.trim_end().to_owned()),
            ("revision", self.revision.clone()),
            ("backends", self.backends.join(" ")),
            (
                "pinned",
                if self.pinned { "to one core" } else { "no" }.to_owned(),
            ),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }

    /// What people call it: its microarchitecture, or what the CPU calls itself.
    pub fn name(&self) -> &str {
        self.microarchitecture.as_deref().unwrap_or(&self.cpu)
    }

    /// The folder of its records: the name in lower case with dashes, and `emulated` if it is.
    pub fn folder(&self) -> String {
        let name = self.name().to_lowercase();
        let mut words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
        if self.emulator.is_some() {
            words.push(&self.architecture);
            words.push("emulated");
        }
        words.retain(|word| !word.is_empty());
        words.join("-")
    }
}

/// By family and model, as AMD's and Intel's manuals list them.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn microarchitecture() -> Option<&'static str> {
    let cpuid = raw_cpuid::CpuId::new();
    let info = cpuid.get_feature_info()?;
    let vendor = cpuid.get_vendor_info()?;
    match (vendor.as_str(), info.family_id(), info.model_id()) {
        ("AuthenticAMD", 0x17, 0x30..) => Some("Zen 2"),
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => Some("Zen 4"),
        ("AuthenticAMD", 0x19, _) => Some("Zen 3"),
        ("AuthenticAMD", 0x1a, 0x00..=0x7f) => Some("Zen 5"),
        ("GenuineIntel", 6, 0x55) => Some("Skylake-X"),
        ("GenuineIntel", 6, 0x6a | 0x6c) => Some("Ice Lake"),
        ("GenuineIntel", 6, 0x8f) => Some("Sapphire Rapids"),
        ("GenuineIntel", 6, 0xcf) => Some("Emerald Rapids"),
        ("GenuineIntel", 6, 0xad | 0xae) => Some("Granite Rapids"),
        _ => None,
    }
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn microarchitecture() -> Option<&'static str> {
    None
}

#[cfg(any(target_os = "linux", target_os = "windows", target_os = "macos"))]
mod cores {
    use std::sync::OnceLock;

    /// The cores that the process may use, listed before any of its threads is bound to one.
    fn list() -> &'static [core_affinity::CoreId] {
        static CORES: OnceLock<Vec<core_affinity::CoreId>> = OnceLock::new();
        CORES.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default())
    }

    pub(super) fn pin(from_last: usize) -> bool {
        let core = list()
            .iter()
            .rev()
            .nth(from_last % list().len().max(1))
            .copied();
        core.is_some_and(core_affinity::set_for_current)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "windows", target_os = "macos")))]
mod cores {
    pub(super) fn pin(_: usize) -> bool {
        false
    }
}

/// Binds this thread to a core, counted from the last: the first has the system's interrupts.
pub(crate) fn pin_to(from_last: usize) {
    // Not every system lets it; then the numbers are noisier.
    let _ = cores::pin(from_last);
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn cpu() -> String {
    let cpuid = raw_cpuid::CpuId::new();
    match cpuid.get_processor_brand_string() {
        Some(brand) => {
            let family = cpuid.get_feature_info().map(|info| {
                format!(
                    " (family {:x}h model {:x}h)",
                    info.family_id(),
                    info.model_id()
                )
            });
            format!("{}{}", brand.as_str().trim(), family.unwrap_or_default())
        }
        None => std::env::consts::ARCH.into(),
    }
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn cpu() -> String {
    // Linux on ARM names the part by number only.
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name")
        .or_else(|| {
            Some(format!(
                "implementer {} part {}",
                field("CPU implementer")?,
                field("CPU part")?
            ))
        })
        .unwrap_or_else(|| std::env::consts::ARCH.into())
}

fn features() -> Vec<String> {
    #[allow(unused_mut, reason = "empty on other architectures")]
    let mut features: Vec<&str> = Vec::new();
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        macro_rules! detect {
            ($($feature:tt)*) => {
                $(if std::arch::is_x86_feature_detected!($feature) {
                    features.push($feature);
                })*
            };
        }
        detect!("sse2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi2" "avx512bf16"
            "avx512fp16");
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! detect {
            ($($feature:tt)*) => {
                $(if std::arch::is_aarch64_feature_detected!($feature) {
                    features.push($feature);
                })*
            };
        }
        detect!("neon" "fp16" "bf16" "sve" "sve2");
    }
    features.into_iter().map(str::to_owned).collect()
}

/// As Linux lists them.
fn caches() -> Vec<String> {
    let read = |index: usize, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    (0..8)
        .filter_map(|index| {
            let kind = read(index, "type")?;
            let cache = format!("L{} {}", read(index, "level")?, read(index, "size")?);
            (kind != "Instruction").then_some(cache)
        })
        .collect()
}
