//! Drives the backend with the cases of ggml's own test (`cases.tsv`), as `test-backend-ops` does: ggml computes each
//! graph on this backend and on its CPU's, and the normalized mean squared error has to be at most 1e-7. Beyond
//! position 512 ggml's angles drift, so there, as everywhere, the results are compared with an oracle in f64.

mod case;
mod oracle;

use std::ffi::{c_int, c_void};
use std::ptr;

use half::f16;
use llama_cpp_sys_2 as c;

use case::{Case, Operator};
use oracle::of_bound;

/// The bound of ggml's test: the squared error over the squared result.
const LARGEST_ERROR: f64 = 1e-7;

/// The bounds of positions: that of ggml's cases, and one beyond which ggml is no judge.
const POSITIONS: [i32; 2] = [512, 1 << 20];

/// The outcome of a case.
struct Verdict {
    /// The distance of ggml's result from this one.
    error: f64,
    /// The largest error of an element, over its bound.
    of_bound: f64,
}

struct Judge {
    ours: c::ggml_backend_t,
    ggml: c::ggml_backend_t,
    random: u64,
}

impl Judge {
    fn new() -> Judge {
        // SAFETY: both devices were registered.
        let [ours, ggml] = unsafe {
            [
                c::ggml_backend_dev_init(rope_ggml::device(), ptr::null()),
                c::ggml_backend_init_by_type(c::GGML_BACKEND_DEVICE_TYPE_CPU, ptr::null()),
            ]
        };
        assert!(
            !ours.is_null() && !ggml.is_null(),
            "a backend cannot be made"
        );
        Judge {
            ours,
            ggml,
            random: 1,
        }
    }

    /// Returns a number from 0 to 1, by splitmix64.
    fn uniform(&mut self) -> f32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
    }

    fn judge(&mut self, case: &Case, positions: i32) -> Result<Verdict, String> {
        let parameters = c::ggml_init_params {
            mem_size: 1 << 16,
            mem_buffer: ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: the context has room for six tensors and a graph, and outlives their use. ggml gives each tensor
        // memory of its size on the CPU, and only this memory is written and read.
        unsafe {
            let context = c::ggml_init(parameters);
            let operator = case.build(context);
            if let Some(reason) = rope_ggml::unsupported(&*operator.result) {
                return Err(format!("not supported: {reason}"));
            }
            let graph = c::ggml_new_graph_custom(context, 16, false);
            c::ggml_build_forward_expand(graph, operator.result);
            let buffer = c::ggml_backend_alloc_ctx_tensors(context, self.ours);
            self.fill(&operator, positions);
            let x = values(&*operator.x);
            let mut results: [Vec<f32>; 2] = Default::default();
            let compared = c::ggml_backend_compare_graph_backend(
                self.ours,
                self.ggml,
                graph,
                Some(keep),
                (&raw mut results).cast(),
                ptr::null(),
                0,
            );
            let [ours, ggml] = &results;
            let verdict = if compared && ours.len() == x.len() && ggml.len() == x.len() {
                Ok(Verdict {
                    error: error(ggml, ours),
                    of_bound: of_bound(&operator, &x, ours)?,
                })
            } else {
                Err("ggml computed nothing".into())
            };
            c::ggml_backend_buffer_free(buffer);
            c::ggml_free(context);
            verdict
        }
    }

    /// # Safety
    ///
    /// The tensors have memory.
    unsafe fn fill(&mut self, operator: &Operator, positions: i32) {
        // SAFETY: by contract, and each of the tensors is contiguous.
        unsafe {
            let root = &*operator.root;
            for index in 0..root.ne.iter().product::<i64>() as usize {
                let value = 2.0 * self.uniform() - 1.0;
                if root.type_ == c::GGML_TYPE_F16 {
                    *root.data.cast::<f16>().add(index) = f16::from_f32(value);
                } else {
                    *root.data.cast::<f32>().add(index) = value;
                }
            }
            for index in 0..(*operator.positions).ne[0] as usize {
                let position = (self.uniform() * positions as f32) as i32;
                *(*operator.positions).data.cast::<i32>().add(index) = position;
            }
            if let Some(factors) = operator.factors.as_ref() {
                for index in 0..factors.ne[0] as usize {
                    *factors.data.cast::<f32>().add(index) = 0.9 + 0.2 * self.uniform();
                }
            }
        }
    }

    /// Returns `true` if ggml's scheduler gives the operator to this backend, between two of the CPU.
    fn is_scheduled(&self) -> bool {
        let parameters = c::ggml_init_params {
            mem_size: 1 << 16,
            mem_buffer: ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: as in `judge`. The scheduler owns the tensors' memory, and is freed before the context.
        unsafe {
            let context = c::ggml_init(parameters);
            let x = c::ggml_new_tensor_4d(context, c::GGML_TYPE_F32, 128, 8, 4, 1);
            let positions = c::ggml_new_tensor_1d(context, c::GGML_TYPE_I32, 4);
            let rope = c::ggml_rope(context, c::ggml_neg(context, x), positions, 128, 0);
            let graph = c::ggml_new_graph_custom(context, 16, false);
            c::ggml_set_input(x);
            c::ggml_set_input(positions);
            c::ggml_build_forward_expand(graph, c::ggml_neg(context, rope));
            let mut backends = [self.ours, self.ggml];
            let scheduler = c::ggml_backend_sched_new(
                backends.as_mut_ptr(),
                ptr::null_mut(),
                2,
                16,
                false,
                false,
            );
            let done = c::ggml_backend_sched_alloc_graph(scheduler, graph)
                && c::ggml_backend_sched_graph_compute(scheduler, graph) == c::GGML_STATUS_SUCCESS;
            let taken = c::ggml_backend_sched_get_tensor_backend(scheduler, rope);
            c::ggml_backend_sched_free(scheduler);
            c::ggml_free(context);
            done && taken == self.ours
        }
    }
}

/// Keeps the results of both backends.
unsafe extern "C" fn keep(
    _: c_int,
    ours: *mut c::ggml_tensor,
    ggml: *mut c::ggml_tensor,
    results: *mut c_void,
) -> bool {
    // SAFETY: ggml passes two computed tensors, and the pointer that `judge` gave it.
    unsafe { *results.cast::<[Vec<f32>; 2]>() = [values(&*ours), values(&*ggml)] };
    true
}

/// Returns all elements, the innermost dimension first.
///
/// # Safety
///
/// The tensor is of f32 or f16 and has memory.
unsafe fn values(tensor: &c::ggml_tensor) -> Vec<f32> {
    let [channels, heads, tokens, batch] = tensor.ne;
    let mut values = Vec::new();
    for (d, e) in (0..batch).flat_map(|d| (0..tokens).map(move |e| (d, e))) {
        for (head, channel) in (0..heads).flat_map(|h| (0..channels).map(move |i| (h, i))) {
            let index = [channel, head, e, d];
            let at = index
                .iter()
                .zip(tensor.nb)
                .map(|(&i, bytes)| i as usize * bytes);
            // SAFETY: an element of the tensor, of this type.
            let value = unsafe {
                let element = tensor.data.byte_add(at.sum());
                if tensor.type_ == c::GGML_TYPE_F16 {
                    (*element.cast::<f16>()).to_f32()
                } else {
                    *element.cast::<f32>()
                }
            };
            values.push(value);
        }
    }
    values
}

/// Returns the normalized mean squared error, as `nmse` of ggml's test.
fn error(a: &[f32], b: &[f32]) -> f64 {
    let squared = |x: f32| f64::from(x) * f64::from(x);
    let difference: f64 = a.iter().zip(b).map(|(a, b)| squared(a - b)).sum();
    difference / a.iter().copied().map(squared).sum::<f64>()
}

fn main() {
    if let Err(refused) = rope_ggml::register() {
        eprintln!("{refused}");
        std::process::exit(1);
    }
    let lines = include_str!("../../../cases.tsv").lines().skip(2);
    let cases: Vec<_> = lines
        .map(|line| Case::parse(line).unwrap_or_else(|| panic!("not a case: {line}")))
        .collect();
    println!(
        "| operator | type | positions below | passed | NMSE from ggml | oracle, of the bound |"
    );
    println!("|---|---|---|---|---|---|");
    let mut judge = Judge::new();
    let mut failures = 0;
    for positions in POSITIONS {
        for (name, backward) in [("ROPE", false), ("ROPE_BACK", true)] {
            for (kind, of_kind) in [("f32", c::GGML_TYPE_F32), ("f16", c::GGML_TYPE_F16)] {
                let (mut all, mut passed, mut error, mut of_bound) = (0, 0, 0.0_f64, 0.0_f64);
                let chosen = |case: &&Case| case.backward == backward && case.kind == of_kind;
                for case in cases.iter().filter(chosen) {
                    all += 1;
                    let verdict = match judge.judge(case, positions) {
                        Ok(verdict) => verdict,
                        Err(reason) => {
                            println!("{}: {reason}", case.line);
                            continue;
                        }
                    };
                    error = error.max(verdict.error);
                    of_bound = of_bound.max(verdict.of_bound);
                    let is_near = verdict.error <= LARGEST_ERROR || positions > POSITIONS[0];
                    if verdict.of_bound <= 1.0 && is_near {
                        passed += 1;
                    } else {
                        println!(
                            "{}: {:e}, {:.2}",
                            case.line, verdict.error, verdict.of_bound
                        );
                    }
                }
                failures += all - passed;
                println!(
                    "| {name} | {kind} | {positions} | {passed} of {all} | {error:.1e} | {of_bound:.2} |"
                );
            }
        }
    }
    let scheduled = judge.is_scheduled();
    println!("ggml's scheduler gives ROPE to rope-core: {scheduled}");
    if failures > 0 || !scheduled || cases.is_empty() {
        std::process::exit(1);
    }
}
