//! Describes this machine, and binds threads to its cores.

use rope_core::Backend;
use rope_report::machine::Machine;

/// Describes this machine, and binds the thread to a core.
pub fn this(emulator: Option<String>) -> Machine {
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
        backends: Backend::available().map(|one| one.name().into()).collect(),
        pinned: pin(0),
        emulator,
    }
}

/// The name by family and model, as AMD's and Intel's manuals list them.
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

/// Binds this thread to a core, counted from the last: the first has the system's interrupts. Where the system does not
/// let it, the numbers are noisier.
pub(crate) fn pin_to(from_last: usize) {
    let _ = pin(from_last);
}

#[cfg(any(target_os = "linux", target_os = "windows", target_os = "macos"))]
fn pin(from_last: usize) -> bool {
    use core_affinity::{CoreId, get_core_ids, set_for_current};
    /// The cores that the process may use, listed before any of its threads is bound to one.
    static CORES: std::sync::OnceLock<Vec<CoreId>> = std::sync::OnceLock::new();
    let cores = CORES.get_or_init(|| get_core_ids().unwrap_or_default());
    let core = cores.iter().rev().nth(from_last % cores.len().max(1));
    core.is_some_and(|core| set_for_current(*core))
}

#[cfg(not(any(target_os = "linux", target_os = "windows", target_os = "macos")))]
fn pin(_: usize) -> bool {
    false
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn cpu() -> String {
    let cpuid = raw_cpuid::CpuId::new();
    let Some(brand) = cpuid.get_processor_brand_string() else {
        return std::env::consts::ARCH.into();
    };
    let family = cpuid.get_feature_info().map_or(String::new(), |info| {
        let (family, model) = (info.family_id(), info.model_id());
        format!(" (family {family:x}h model {model:x}h)")
    });
    format!("{}{family}", brand.as_str().trim())
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn cpu() -> String {
    // Linux on ARM names the part by number only.
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let part = || {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("implementer {implementer} part {part}"))
    };
    let name = field("model name").or_else(part);
    name.unwrap_or_else(|| std::env::consts::ARCH.into())
}

fn features() -> Vec<String> {
    #[allow(unused_macros, reason = "no other architecture has names")]
    macro_rules! detected {
        ($is_detected:ident, $($feature:tt)*) => {
            [$(($feature, std::arch::$is_detected!($feature))),*]
        };
    }
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    let features = detected!(is_x86_feature_detected, "sse2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512dq"
        "avx512vl" "avx512vbmi2" "avx512bf16" "avx512fp16");
    #[cfg(target_arch = "aarch64")]
    let features = detected!(is_aarch64_feature_detected, "neon" "fp16" "bf16" "sve" "sve2");
    // std's own answer is not stable there.
    #[cfg(target_arch = "riscv64")]
    let features = [("v", Backend::Rvv.is_available())];
    #[cfg(not(any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )))]
    let features: [(&str, bool); 0] = [];
    let here = features.into_iter().filter(|(_, is_here)| *is_here);
    here.map(|(name, _)| name.to_owned()).collect()
}

/// As Linux lists them.
fn caches() -> Vec<String> {
    let read = |index: usize, file: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    };
    let caches = (0..8).filter_map(|index| {
        let kind = read(index, "type")?;
        let cache = format!("L{} {}", read(index, "level")?, read(index, "size")?);
        (kind != "Instruction").then_some(cache)
    });
    caches.collect()
}
