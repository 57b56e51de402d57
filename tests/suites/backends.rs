//! The available instruction sets.

use rope_core::error::PlanError;
use rope_core::{Backend, Error, Pairing, Rope};
use rope_tests::backends::{self, VARIABLE, missing, running, say};

#[test]
fn expected_backends_ran() {
    let (running, expected) = (running(), std::env::var(VARIABLE));
    // Platform scripts read this line; a passing test needs it for nothing else.
    if let Ok(list) = &expected {
        let best = Backend::best();
        say(&format!(
            "backends that run: {running} (best: {best}; {VARIABLE}: {list})"
        ));
    }
    let missing = missing(&expected.unwrap_or_default());
    assert!(
        missing.is_empty(),
        "{VARIABLE} names {missing:?}, which this CPU or this build lacks; running: {running}"
    );
}

#[test]
fn an_unknown_name_in_the_list_is_a_failure() {
    assert!(std::panic::catch_unwind(|| missing("scalar,sse9")).is_err());
    assert_eq!(missing(" scalar, portable ,"), []);
    let absent: Vec<Backend> = Backend::ALL
        .iter()
        .copied()
        .filter(|backend| !backend.is_available())
        .collect();
    let names: Vec<&str> = Backend::ALL.iter().map(|backend| backend.name()).collect();
    assert_eq!(missing(&names.join(",")), absent);
}

/// Backends without requirements are always available and come last.
#[test]
fn scalar_and_portable_always_run() {
    let available: Vec<Backend> = Backend::available().collect();
    assert!(
        available.ends_with(&[Backend::Portable, Backend::Scalar]),
        "{}",
        backends::running()
    );
    // SVE with vectors of NEON's size yields to NEON.
    let best = Backend::best();
    let yields = available[..2] == [Backend::Sve, Backend::Neon] && best == Backend::Neon;
    assert!(best == available[0] || yields, "{best}");
    assert_eq!(Rope::new(Pairing::Half).backend(), best);
}

#[test]
fn a_plan_uses_the_backend_that_it_was_given() {
    for &backend in Backend::ALL {
        let plan = Rope::new(Pairing::Half).with_backend(backend);
        if backend.is_available() {
            assert_eq!(plan.map(|plan| plan.backend()), Ok(backend));
        } else {
            assert_eq!(
                plan,
                Err(Error::Plan(PlanError::BackendUnavailable { backend }))
            );
        }
    }
}

/// The crate's own detection, without std, gives the answer of std.
#[cfg(all(
    any(target_arch = "x86", target_arch = "x86_64"),
    target_feature = "sse2",
    not(miri)
))]
#[test]
fn detection_agrees_with_std() {
    macro_rules! all {
        ($($feature:tt)*) => { true $(&& is_x86_feature_detected!($feature))* };
    }
    let avx2 = all!("avx" "avx2" "fma" "f16c");
    let avx512 = avx2 && all!("avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi2");
    assert_eq!(Backend::Avx2.is_available(), avx2);
    assert_eq!(Backend::Avx512.is_available(), avx512);
    assert_eq!(
        Backend::Avx512Bf16.is_available(),
        avx512 && all!("avx512bf16")
    );
}

#[cfg(all(
    target_arch = "aarch64",
    target_feature = "neon",
    target_endian = "little"
))]
#[test]
fn neon_is_there() {
    assert!(Backend::Neon.is_available());
}
