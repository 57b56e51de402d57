//! Every formulation against the oracle, in shapes small enough for a debug build, in every order and alignment.

use rope_bench::cases::models::MODELS;
use rope_bench::cases::workloads::{Order, Workload};
use rope_bench::cases::{Alignment, Case, Element};
use rope_bench::formulations::all;
#[cfg(feature = "intrinsics")]
use rope_bench::formulations::formulation::Formulation;
use rope_bench::measure::memory::{self, Memory};
use rope_bench::verify::oracle;
use rope_core::Pairing;

fn small() -> Vec<Workload> {
    let mut workloads: Vec<Workload> = Workload::standard();
    workloads.extend(Workload::head_sizes());
    workloads.extend(Workload::single_calls());
    workloads.push(Workload::normed());
    workloads.extend(MODELS.iter().flat_map(|model| model.workloads()));
    for workload in &mut workloads {
        workload.tokens = workload.tokens.min(7);
        workload.heads = workload.heads.min(3);
        workload.kv_heads = workload.kv_heads.min(2);
        if workload.batch > 3 {
            workload.batch = 3;
            workload.starts.truncate(3);
        }
    }
    let order = Order::HeadsMajor;
    for workload in workloads.clone() {
        workloads.push(Workload { order, ..workload });
    }
    workloads
}

/// A model's run shows rope-core beside the code that models run, partial rotations included.
#[test]
fn every_model_has_a_competitor() {
    let all = all();
    for model in MODELS {
        for workload in model.workloads() {
            for element in [Element::F32, Element::Bf16] {
                let case = Case::new(workload.clone(), element, model.pairing);
                let usual = all.iter().filter(|f| f.supports(&case) && f.is_usual());
                let mut kinds = usual
                    .map(|f| f.name())
                    .filter(|name| !name.contains("fused"));
                assert!(kinds.next().is_some(), "{case}");
            }
        }
    }
}

#[test]
fn formulations_are_right() {
    let all = all();
    let (mut checked, mut normed) = (0, 0);
    for workload in small() {
        for element in Element::ALL {
            for pairing in Pairing::ALL {
                let ways = [Alignment::Line, Alignment::Allocator].map(|alignment| (alignment, 1));
                for (alignment, threads) in ways.into_iter().chain([(Alignment::Line, 3)]) {
                    let case = Case {
                        alignment,
                        threads,
                        ..Case::new(workload.clone(), element, pairing)
                    };
                    let values = memory::values(case.workload.elements());
                    let rotations = oracle::rotations(&case.workload);
                    let mut memory = Memory::new(case.bytes());
                    for formulation in all.iter().filter(|f| f.supports(&case)) {
                        let bytes = memory.slice(alignment, case.bytes());
                        memory::fill(bytes, element, &values);
                        let mut runner = formulation.prepare(&case).unwrap();
                        runner.load(bytes).unwrap();
                        runner.run(bytes, 1).unwrap();
                        runner.store(bytes).unwrap();
                        let error = oracle::error(&case, &rotations, &values, bytes).unwrap();
                        let limit = formulation.about().limit(&case);
                        let name = formulation.name();
                        assert!(error <= limit, "{name} in {case}: {error:e} > {limit:e}");
                        checked += 1;
                        normed += usize::from(case.workload.norms);
                    }
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} checked");
    assert!(normed > 0, "no norm was checked");
}

#[test]
fn the_oracle_sees_errors() {
    let mut workload = Workload::standard().remove(0);
    (workload.tokens, workload.heads) = (2, 1);
    let case = Case::new(workload, Element::F32, Pairing::Half);
    let values = memory::values(case.workload.elements());
    let rotations = oracle::rotations(&case.workload);
    let error = |result: &[f32]| {
        oracle::error(&case, &rotations, &values, bytemuck::cast_slice(result)).unwrap()
    };
    // Nothing was rotated: right for token 0 only.
    assert!(error(&values) > 0.1);
    assert_eq!(error(&vec![f32::NAN; values.len()]), f64::INFINITY);
}

/// rope-core promises bits, so bits are compared.
#[cfg(feature = "intrinsics")]
#[test]
fn intrinsics_give_the_bits_of_rope_core() {
    let all = all();
    let named = |name: &'static str| all.iter().filter(move |f| f.name().starts_with(name));
    assert_ne!(named("intrinsics/").count(), 0);
    let mut bits = 1;
    for case in odd_cases() {
        let mut memory = Memory::new(case.bytes());
        let mut rotated = |formulation: &dyn Formulation, input: &[u8]| {
            let bytes = memory.slice(case.alignment, case.bytes());
            bytes.copy_from_slice(input);
            formulation.prepare(&case).unwrap().run(bytes, 1).unwrap();
            without_payloads(bytes, case.element)
        };
        for kind in 0..3 {
            let mut element = || special(&mut bits, kind).to_le_bytes();
            let size = case.element.size();
            let input =
                (0..case.workload.elements()).flat_map(|_| element().into_iter().skip(4 - size));
            let input: Vec<u8> = input.collect();
            let ours = named("fused/scalar").next().unwrap();
            let expected = rotated(&**ours, &input);
            for theirs in named("intrinsics/") {
                let mut both = rotated(&**theirs, &input).into_iter().zip(&expected);
                let other = both.position(|(theirs, ours)| theirs != *ours);
                let (name, workload) = (theirs.name(), &case.workload);
                assert_eq!(other, None, "{name} in {case}: {workload:?}");
            }
        }
    }
}

/// Returns cases with more tokens than a block, and with every number of pairs that whole vectors can leave.
#[cfg(feature = "intrinsics")]
fn odd_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for order in [Order::TokensMajor, Order::HeadsMajor] {
        let shapes = (1..=66).map(|pairs| (2, 2 * pairs + pairs % 3, 2 * pairs));
        for (tokens, head_dim, rotary_dim) in shapes.chain([(37, 128, 128), (3, 520, 516)]) {
            for element in Element::ALL {
                for pairing in Pairing::ALL {
                    let workload = Workload {
                        name: format!("{order:?}"),
                        batch: 2,
                        tokens,
                        heads: 3,
                        kv_heads: 1,
                        head_dim,
                        rotary_dim,
                        order,
                        ..Workload::standard().remove(0)
                    };
                    cases.push(Case::new(workload, element, pairing));
                }
            }
        }
    }
    cases
}

/// Returns the bits of an f32, whose upper half is a bf16 or an f16: any bits, NaNs and infinities included; close to
/// zero, where products are subnormal; or close to one.
#[cfg(feature = "intrinsics")]
fn special(state: &mut u64, kind: u32) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    let bits = (*state >> 32) as u32;
    match (kind, bits % 8) {
        (0, _) | (1, 0) => bits,
        (1, 1) => 0,
        (1, _) => bits & 0x81ff_ffff,
        _ => bits & 0x80ff_ffff | 0x3f00_0000,
    }
}

/// Returns the bits of all elements, the same for all quiet NaNs.
#[cfg(feature = "intrinsics")]
fn without_payloads(bytes: &[u8], element: Element) -> Vec<u32> {
    let (sign, infinity, quiet) = match element {
        Element::F32 => (0x8000_0000, 0x7f80_0000, 0x0040_0000),
        Element::Bf16 => (0x8000, 0x7f80, 0x0040),
        Element::F16 => (0x8000, 0x7c00, 0x0200),
    };
    let of = |bytes: &[u8]| {
        let bits = bytes
            .iter()
            .rfold(0, |bits, &byte| bits << 8 | u32::from(byte));
        let nan = bits & !sign > infinity && bits & quiet != 0;
        if nan { u32::MAX } else { bits }
    };
    bytes.chunks_exact(element.size()).map(of).collect()
}
