//! ggml's CPU operator, `ggml_rope_ext_inplace`, from the llama.cpp sources in the crate `llama-cpp-sys-2`.
//!
//! A graph with one operator for Q and one for K is built once; what is timed is `ggml_graph_compute`, which makes cos
//! and sin of each token again in every operator. ggml has no kernel of its own for it: what the C++ compiler may use
//! decides. `CFLAGS=-march=native CXXFLAGS=-march=native` lets it use all of this CPU, as llama.cpp's own build does.
//!
//! This file alone calls C; every call is made on objects that it has itself made, and shapes that `supports` let
//! through.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use anyhow::{Context as _, Result, ensure};
use llama_cpp_sys_2 as c;
use rope_core::Pairing;

use super::super::{About, Cost, Formulation, Runner};
use crate::cases::{Case, Element};
use crate::machine;
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::{Order, Part, Workload};

/// `GGML_ROPE_TYPE_NORMAL` and `GGML_ROPE_TYPE_NEOX`, which are macros in ggml.h.
const NORMAL: i32 = 0;
const NEOX: i32 = 2;

/// One of its modes.
#[derive(Clone, Copy, Debug)]
struct Ggml {
    name: &'static str,
    mode: i32,
    pairings: &'static [Pairing],
}

/// NORMAL and NEOX.
pub fn all() -> Vec<Box<dyn Formulation>> {
    vec![
        Box::new(Ggml {
            name: "ggml/normal",
            mode: NORMAL,
            pairings: &[Pairing::Interleaved],
        }),
        Box::new(Ggml {
            name: "ggml/neox",
            mode: NEOX,
            pairings: &[Pairing::Half],
        }),
    ]
}

impl Formulation for Ggml {
    fn name(&self) -> String {
        self.name.into()
    }

    fn about(&self) -> About {
        About {
            summary: "one pass in place over any strides, the rows of a token made in every call: no table",
            source: "ggml-org/llama.cpp: ggml_rope_ext_inplace on the CPU",
            pairings: self.pairings,
            elements: &[Element::F32, Element::F16],
            partial: true,
            threads: true,
            angle: Angle::F32Iterated,
            arithmetic: Arithmetic::F32,
            counting: "positions and pairs from 0; a position id for each token",
        }
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        let Workload { starts, .. } = &case.workload;
        if starts.len() > 1 && !is_flat(&case.workload) {
            return Err("its sequences share their positions".into());
        }
        self.about().admits(case)
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        Ok(Box::new(Graph::new(self.mode, case)?))
    }
}

/// Whether the tokens of all sequences lie one after another, as in a batch of llama.cpp.
fn is_flat(workload: &Workload) -> bool {
    workload.order == Order::TokensMajor || workload.tokens == 1
}

/// A tensor, the view of it that the operator writes to, and where both begin in the buffer.
struct Placed {
    x: NonNull<c::ggml_tensor>,
    result: NonNull<c::ggml_tensor>,
    at: usize,
}

struct Graph {
    placed: Vec<Placed>,
    bytes: usize,
    graph: NonNull<c::ggml_cgraph>,
    plan: c::ggml_cplan,
    pool: Pool,
    // What the others point into.
    _context: Context,
    _positions: Vec<i32>,
    _work: Vec<u64>,
}

impl Graph {
    fn new(mode: i32, case: &Case) -> Result<Self> {
        let workload = &case.workload;
        let mut positions = workload
            .positions()
            .into_iter()
            .map(i32::try_from)
            .collect::<Result<Vec<_>, _>>()?;
        if is_flat(workload) && workload.starts.len() == 1 {
            positions = positions.repeat(workload.batch);
        }
        // ggml ends the process where an assertion of its own fails.
        let tokens = workload.tokens * if is_flat(workload) { workload.batch } else { 1 };
        ensure!(positions.len() == tokens, "not one position for each token");
        let Workload {
            rotary_dim,
            head_dim,
            ..
        } = *workload;
        ensure!(
            rotary_dim % 2 == 0 && rotary_dim <= head_dim,
            "{rotary_dim} channels of {head_dim} cannot rotate"
        );
        let parts = workload.parts()?;
        let context = Context::new(1 + 2 * parts.len())?;
        let ids = context.tensor(c::GGML_TYPE_I32, [positions.len(), 1, 1, 1])?;
        // SAFETY: the tensor was just made. Its data is read by `run` only, while the graph keeps the positions.
        unsafe { (*ids.as_ptr()).data = positions.as_mut_ptr().cast() };
        // SAFETY: the context has room for one graph.
        let graph = NonNull::new(unsafe { c::ggml_new_graph(context.0.as_ptr()) });
        let graph = graph.context("ggml has no room for a graph")?;
        let mut placed = Vec::new();
        for part in &parts {
            let x = context.part(part, case)?;
            // SAFETY: all tensors are of this context, and what ggml asserts was checked above.
            let result = NonNull::new(unsafe {
                c::ggml_rope_ext_inplace(
                    context.0.as_ptr(),
                    x.as_ptr(),
                    ids.as_ptr(),
                    ptr::null_mut(),
                    i32::try_from(rotary_dim)?,
                    mode,
                    // Of the YaRN parameters the first factor, 0, says that the others do not matter.
                    0,
                    workload.base as f32,
                    1.0,
                    0.0,
                    1.0,
                    32.0,
                    1.0,
                )
            });
            let result = result.context("ggml has no room for an operator")?;
            // SAFETY: graph and operator are of this context.
            unsafe { c::ggml_build_forward_expand(graph.as_ptr(), result.as_ptr()) };
            placed.push(Placed {
                x,
                result,
                at: part.range.start * case.element.size(),
            });
        }
        let pool = Pool::new(case.threads)?;
        // SAFETY: the graph is complete, and the pool has as many threads.
        let mut plan = unsafe {
            c::ggml_graph_plan(
                graph.as_ptr(),
                i32::try_from(case.threads)?,
                pool.0.as_ptr(),
            )
        };
        let mut work = vec![0; plan.work_size.div_ceil(8)];
        plan.work_data = work.as_mut_ptr().cast();
        Ok(Graph {
            placed,
            bytes: case.bytes(),
            graph,
            plan,
            pool,
            _context: context,
            _positions: positions,
            _work: work,
        })
    }
}

impl Runner for Graph {
    fn run(&mut self, bytes: &mut [u8], times: usize) -> Result<()> {
        ensure!(bytes.len() == self.bytes, "a buffer of another case");
        let start = bytes.as_mut_ptr();
        for Placed { x, result, at } in &self.placed {
            // SAFETY: the tensors live as long as the context, and nobody else holds them. They begin inside the
            // buffer, and `Context::part` gave them the extents and strides of a part of it.
            unsafe {
                let data: *mut c_void = start.add(*at).cast();
                (*x.as_ptr()).data = data;
                (*result.as_ptr()).data = data;
            }
        }
        for _ in 0..times {
            // SAFETY: the graph is as it was planned, with tensors inside of `bytes`, which are borrowed for as long as
            // this takes, and with the plan's own work space.
            let status = unsafe { c::ggml_graph_compute(self.graph.as_ptr(), &mut self.plan) };
            ensure!(
                status == c::GGML_STATUS_SUCCESS,
                "ggml returns status {status}"
            );
        }
        self.pool.rest();
        Ok(())
    }
}

/// Where tensors and graph live; not their data.
struct Context(NonNull<c::ggml_context>);

impl Context {
    fn new(tensors: usize) -> Result<Self> {
        // SAFETY: these only add sizes up.
        let (tensor, graph) = unsafe { (c::ggml_tensor_overhead(), c::ggml_graph_overhead()) };
        let parameters = c::ggml_init_params {
            mem_size: tensors * tensor + graph,
            mem_buffer: ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: with no buffer given it allocates its own.
        let context = NonNull::new(unsafe { c::ggml_init(parameters) });
        Ok(Context(context.context("ggml cannot make a context")?))
    }

    /// A tensor without data: extents from the innermost outwards.
    fn tensor(&self, kind: c::ggml_type, extents: [usize; 4]) -> Result<NonNull<c::ggml_tensor>> {
        let extents = extents.map(i64::try_from);
        let [Ok(a), Ok(b), Ok(c), Ok(d)] = extents else {
            anyhow::bail!("an extent is too large for ggml");
        };
        // SAFETY: the context was made with room for all tensors that are asked for.
        let tensor = unsafe { c::ggml_new_tensor_4d(self.0.as_ptr(), kind, a, b, c, d) };
        NonNull::new(tensor).context("ggml has no room for a tensor")
    }

    /// Q or K as `[head_dim, heads, tokens, batch]` with the strides of the case.
    fn part(&self, part: &Part, case: &Case) -> Result<NonNull<c::ggml_tensor>> {
        let (shape, strides) = (part.layout.shape(), part.layout.strides());
        let size = case.element.size();
        let kind = match case.element {
            Element::F32 => c::GGML_TYPE_F32,
            Element::F16 => c::GGML_TYPE_F16,
            Element::Bf16 => anyhow::bail!("ggml's operator rotates no bf16"),
        };
        let (tokens, batch) = if is_flat(&case.workload) {
            (shape.tokens * shape.batch, 1)
        } else {
            (shape.tokens, shape.batch)
        };
        let x = self.tensor(kind, [shape.head_dim, shape.heads, tokens, batch])?;
        // One token of each sequence: the next token is the next sequence's.
        let token = if shape.tokens == 1 {
            strides.batch
        } else {
            strides.token
        };
        // SAFETY: the tensor was just made, and nobody else holds it.
        unsafe {
            (*x.as_ptr()).nb = [
                size,
                strides.head * size,
                token * size,
                strides.batch * size,
            ];
        }
        Ok(x)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by `ggml_init`, and is freed once.
        unsafe { c::ggml_free(self.0.as_ptr()) };
    }
}

/// Threads that wait for graphs.
struct Pool(NonNull<c::ggml_threadpool>);

impl Pool {
    fn new(threads: usize) -> Result<Self> {
        // SAFETY: a struct of defaults.
        let mut parameters = unsafe { c::ggml_threadpool_params_default(i32::try_from(threads)?) };
        if threads > 1 {
            // The threads would otherwise all inherit the one core that this thread is bound to.
            parameters.strict_cpu = true;
            for core in machine::last_cores(threads) {
                if let Some(may) = parameters.cpumask.get_mut(core) {
                    *may = true;
                }
            }
        }
        // SAFETY: the parameters are valid.
        let pool = NonNull::new(unsafe { c::ggml_threadpool_new(&mut parameters) });
        Ok(Pool(pool.context("ggml cannot start its threads")?))
    }

    /// Pauses the threads until the next graph, so that they do not spin while other subjects are measured.
    fn rest(&self) {
        // SAFETY: the pool is ours, and no graph is being computed.
        unsafe { c::ggml_threadpool_pause(self.0.as_ptr()) };
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: it was made by `ggml_threadpool_new`, computes nothing now, and is freed once.
        unsafe { c::ggml_threadpool_free(self.0.as_ptr()) };
    }
}
