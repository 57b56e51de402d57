//! rope-core's arithmetic in C: a handwritten loop of intrinsics for each instruction set, element and pairing. The
//! distance of rope-core from them is the cost of one text for all kernels.
//!
//! The feature `intrinsics` builds `intrinsics.c` with the machine's C compiler, gcc or clang, optimized in every
//! profile. `intrinsics/avx512bf16`, `intrinsics/avx512` and `intrinsics/avx2` use the instructions of rope-core's
//! backends of these names (the first one also VBMI, which every such CPU has), and `intrinsics/neon` those of 64-bit
//! ARM. Each is available if the CPU supports it. rope-core makes the rows in advance. The results equal rope-core's to
//! the bit, as a test checks.
//!
//! ```text
//! cargo run --release -p rope-bench --features intrinsics -- --formulation fused,intrinsics
//! ```
//!
//! Only this file calls that C, on tensors and rows whose extents it has checked.

use std::ffi::{c_uint, c_void};

use anyhow::{Result, ensure};
use rope_core::{Frequencies, Pairing, Scaling};

use super::formulation::{About, Formulation, Runner};
use crate::cases::workloads::Part;
use crate::cases::{Case, Element};

/// `tensor` of the C file: the first `2 * pairs` channels of each head, strides in elements.
type Rotate = unsafe extern "C" fn(
    x: *mut c_void,
    rows: *const f32,
    tokens: usize,
    heads: usize,
    pairs: usize,
    token_stride: usize,
    head_stride: usize,
);

/// The function for an element, 0 for f32, 1 for bf16, 2 for f16, and a pairing, 0 for half, 1 for interleaved.
type Choose = unsafe extern "C" fn(element: c_uint, pairing: c_uint) -> Rotate;

unsafe extern "C" {
    #[cfg(target_arch = "x86_64")]
    fn rope_bench_avx512bf16(element: c_uint, pairing: c_uint) -> Rotate;
    #[cfg(target_arch = "x86_64")]
    fn rope_bench_avx512(element: c_uint, pairing: c_uint) -> Rotate;
    #[cfg(target_arch = "x86_64")]
    fn rope_bench_avx2(element: c_uint, pairing: c_uint) -> Rotate;
    #[cfg(target_arch = "aarch64")]
    fn rope_bench_neon(element: c_uint, pairing: c_uint) -> Rotate;
    #[cfg(target_arch = "x86_64")]
    fn rope_bench_hadamard_avx2(x: *mut f32, heads: usize);
    #[cfg(target_arch = "aarch64")]
    fn rope_bench_hadamard_neon(x: *mut f32, heads: usize);
}

/// Channels of the heads of [`hadamard`].
pub const HADAMARD: usize = 128;

/// Returns the Hadamard transform of `hadamard.c`, of contiguous heads of [`HADAMARD`] channels, if this CPU has one.
pub fn hadamard() -> Option<fn(&mut [f32])> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the instructions that it is compiled for, and the heads lie in the slice.
        return Some(|x| unsafe { rope_bench_hadamard_avx2(x.as_mut_ptr(), x.len() / HADAMARD) });
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every 64-bit ARM has NEON, and the heads lie in the slice.
    return Some(|x| unsafe { rope_bench_hadamard_neon(x.as_mut_ptr(), x.len() / HADAMARD) });
    #[cfg(not(target_arch = "aarch64"))]
    None
}

/// The most pairs of a row in the C file.
const MOST_PAIRS: usize = 4096;

/// The loops for one instruction set.
#[derive(Clone, Copy, Debug)]
struct Intrinsics {
    name: &'static str,
    choose: Choose,
}

impl Intrinsics {
    fn rotation(self, element: Element, pairing: Pairing) -> Rotate {
        let pairing = c_uint::from(pairing == Pairing::Interleaved);
        // SAFETY: both numbers are valid in the C file: the elements are in its order.
        unsafe { (self.choose)(element as c_uint, pairing) }
    }
}

/// Returns one formulation for each instruction set of this CPU, the widest first.
pub fn all() -> Vec<Box<dyn Formulation>> {
    available()
        .into_iter()
        .filter(|&(here, ..)| here)
        .map(|(_, name, choose)| Box::new(Intrinsics { name, choose }) as Box<dyn Formulation>)
        .collect()
}

/// Returns the functions by instruction set, and whether the CPU has it.
#[cfg(target_arch = "x86_64")]
fn available() -> [(bool, &'static str, Choose); 3] {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("f16c");
    let avx512 =
        avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    let bf16 = avx512 && has!("avx512vbmi") && has!("avx512bf16");
    let widest: Choose = rope_bench_avx512bf16;
    [
        (bf16, "intrinsics/avx512bf16", widest),
        (avx512, "intrinsics/avx512", rope_bench_avx512),
        (avx2, "intrinsics/avx2", rope_bench_avx2),
    ]
}

/// Returns the functions of NEON, which every 64-bit ARM has.
#[cfg(target_arch = "aarch64")]
fn available() -> [(bool, &'static str, Choose); 1] {
    [(true, "intrinsics/neon", rope_bench_neon)]
}

/// Returns no functions: the C file supports no other machines.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn available() -> [(bool, &'static str, Choose); 0] {
    []
}

impl Formulation for Intrinsics {
    fn name(&self) -> String {
        self.name.into()
    }

    fn about(&self) -> About {
        About::ours(
            "rope-bench: formulations/intrinsics.c",
            "one pass in place by loops of C intrinsics, rows made beforehand",
        )
    }

    fn supports(&self, case: &Case) -> bool {
        case.workload.rotary_dim <= 2 * MOST_PAIRS && self.about().admits(case)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        let workload = &case.workload;
        let frequencies = Frequencies::new(workload.rotary_dim, workload.base, &Scaling::Default)?;
        let rows = frequencies.rows(&workload.positions())?;
        let halves = (0..rows.len()).filter_map(|index| rows.row(index, 0));
        let values = halves.flat_map(|(cos, sin)| [cos, sin]).flatten();
        let values: Vec<f32> = values.copied().collect();
        let shared = workload.starts.len() == 1;
        let sequences = if shared { 1 } else { workload.batch };
        ensure!(
            rows.len() == sequences * workload.tokens && workload.rotary_dim <= workload.head_dim,
            "not a row of a head for each token"
        );
        let mut calls = Vec::new();
        for Part { range, layout } in workload.parts()? {
            let (shape, strides) = (layout.shape(), layout.strides());
            // Sequences of one token at separate positions are tokens.
            let [batch, tokens, token_stride] = match shape.tokens {
                1 if !shared => [1, shape.batch, strides.batch],
                tokens => [shape.batch, tokens, strides.token],
            };
            let rows = if shared { 0 } else { tokens };
            calls.extend((0..batch).map(|sequence| Arguments {
                x: range.start + sequence * strides.batch,
                row: sequence * rows * workload.rotary_dim,
                tokens,
                heads: shape.heads,
                token_stride,
                head_stride: strides.head,
            }));
        }
        Ok(Box::new(PreparedIntrinsics {
            rotate: self.rotation(case.element, case.pairing),
            size: case.element.size(),
            bytes: case.bytes(),
            calls,
            rows: values,
            pairs: workload.rotary_dim / 2,
        }))
    }
}

/// The arguments of a call: the start of the tensor and its rows, its shape, and its strides.
struct Arguments {
    x: usize,
    row: usize,
    tokens: usize,
    heads: usize,
    token_stride: usize,
    head_stride: usize,
}

struct PreparedIntrinsics {
    rotate: Rotate,
    size: usize,
    bytes: usize,
    calls: Vec<Arguments>,
    rows: Vec<f32>,
    pairs: usize,
}

impl Runner for PreparedIntrinsics {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        let size = self.size;
        ensure!(bytes.len() == self.bytes, "a buffer of another case");
        let start = bytes.as_mut_ptr();
        ensure!(start.align_offset(size) == 0, "elements astride");
        let rows = self.rows.as_ptr();
        for _ in 0..times {
            for call in &self.calls {
                // SAFETY: the CPU has the instructions that the function is compiled for, or the formulation would not
                // exist. The tensor lies in `bytes`, at the workload's place: `bytes` has the length of the case and
                // its elements' alignment, and is borrowed during the call. `prepare` has made a row for each token,
                // with at most the pairs of a head; `supports` refuses longer rows than the C file has room for.
                unsafe {
                    (self.rotate)(
                        start.wrapping_add(call.x * size).cast(),
                        rows.wrapping_add(call.row),
                        call.tokens,
                        call.heads,
                        self.pairs,
                        call.token_stride,
                        call.head_stride,
                    );
                };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use rope_core::{Layout, Rope, Rows, Strides, TensorMut};

    use super::*;

    /// The only NaN that rounding could carry into an infinity; no other test has one.
    #[test]
    fn a_nan_in_a_row_stays_one() {
        let (tokens, heads, pairs) = (19, 3, 97);
        let mut rows = vec![0.5; tokens * 2 * pairs];
        for (index, value) in rows.iter_mut().enumerate().step_by(29) {
            *value = f32::from_bits([0x7fff_ffff, 0xff80_ffff][index % 2]);
        }
        let layouts = [
            Layout::bshd([1, tokens, heads, 2 * pairs]),
            Layout::bhsd([1, heads, tokens, 2 * pairs]),
        ];
        for layout in layouts.map(Result::unwrap) {
            for pairing in [Pairing::Half, Pairing::Interleaved] {
                let input: Vec<_> = (0..tokens * heads * 2 * pairs)
                    .map(|i| bf16::from_f32((i % 13) as f32 - 6.0))
                    .collect();
                let mut expected = input.clone();
                let mut x = TensorMut::new(&mut expected, layout).unwrap();
                let rows_of = Rows::new(&rows, [tokens, 2 * pairs]).unwrap();
                Rope::new(pairing).rotate(&mut x, &rows_of).unwrap();
                assert!(expected.iter().any(|x| x.is_nan()));
                for (_, name, choose) in available().into_iter().filter(|&(here, ..)| here) {
                    let rotate = Intrinsics { name, choose }.rotation(Element::Bf16, pairing);
                    let mut x = input.clone();
                    let Strides { token, head, .. } = layout.strides();
                    let (start, rows) = (x.as_mut_ptr().cast(), rows.as_ptr());
                    // SAFETY: the CPU has the instructions that it is compiled for; the tensor is `x`, with a row for
                    // each token.
                    unsafe { rotate(start, rows, tokens, heads, pairs, token, head) };
                    for (i, (x, expected)) in x.iter().zip(&expected).enumerate() {
                        let same =
                            x.to_bits() == expected.to_bits() || x.is_nan() && expected.is_nan();
                        assert!(same, "{name}, {pairing}, {i}: {x} for {expected}");
                    }
                }
            }
        }
    }
}
