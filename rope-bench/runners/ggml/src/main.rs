//! ggml's CPU operator, `ggml_rope_ext_inplace`, from the llama.cpp sources in the crate `llama-cpp-sys-2`.
//!
//! A graph with one operator for Q and one for K is built once. The timed call is `ggml_graph_compute`, which
//! recomputes cos and sin of each token in every operator. ggml has no vector kernel for it, so its speed depends on
//! the C++ compiler. `CFLAGS=-march=native CXXFLAGS=-march=native` enables all of this CPU, as llama.cpp's own build
//! does.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use anyhow::{Context as _, Result, bail, ensure};
use llama_cpp_sys_2 as c;
use protocol::{Part, Prepared, Quantization, Request};

/// `GGML_ROPE_TYPE_NORMAL` and `GGML_ROPE_TYPE_NEOX`, which are macros in ggml.h.
const NORMAL: i32 = 0;
const NEOX: i32 = 2;

struct Graph {
    graph: NonNull<c::ggml_cgraph>,
    plan: c::ggml_cplan,
    // The targets of the pointers in the other fields.
    data: Vec<Vec<u8>>,
    _pool: Pool,
    _context: Context,
    _inputs: Vec<Box<dyn Any>>,
    _work: Vec<u64>,
}

impl Graph {
    /// Creates a graph of operators that read the inputs and write the data.
    fn new(
        context: Context,
        graph: NonNull<c::ggml_cgraph>,
        inputs: Vec<Box<dyn Any>>,
        data: Vec<Vec<u8>>,
        threads: usize,
    ) -> Result<Self> {
        let threads = i32::try_from(threads)?;
        let pool = Pool::new(threads)?;
        // SAFETY: the graph is complete, and the pool has as many threads.
        let mut plan = unsafe { c::ggml_graph_plan(graph.as_ptr(), threads, pool.0.as_ptr()) };
        let mut work = vec![0; plan.work_size.div_ceil(8)];
        plan.work_data = work.as_mut_ptr().cast();
        Ok(Graph {
            graph,
            plan,
            data,
            _pool: pool,
            _context: context,
            _inputs: inputs,
            _work: work,
        })
    }
}

fn prepare(request: &Request, parts: Vec<Part>) -> Result<Graph> {
    let mode = match request.formulation.as_str() {
        "ggml/normal" => NORMAL,
        "ggml/neox" => NEOX,
        other => bail!("no formulation {other}"),
    };
    let (kind, size) = match request.element.as_str() {
        "f32" => (c::GGML_TYPE_F32, 4),
        "f16" => (c::GGML_TYPE_F16, 2),
        other => bail!("ggml's operator rotates no {other}"),
    };
    let &Request {
        batch,
        tokens,
        head_dim,
        rotary_dim,
        ..
    } = request;
    // Contiguous tokens of all sequences are one sequence, as in a batch of llama.cpp.
    let is_flat = request.layout == "bshd" || tokens == 1;
    let (tokens, batch) = if is_flat {
        (tokens * batch, 1)
    } else {
        (tokens, batch)
    };
    let mut positions: Vec<i32> = request
        .positions
        .iter()
        .flatten()
        .map(|&position| i32::try_from(position))
        .collect::<Result<_, _>>()?;
    if is_flat && request.positions.len() == 1 {
        positions = positions.repeat(request.batch);
    }
    // ggml ends the process if one of its assertions fails.
    ensure!(
        positions.len() == tokens,
        "ggml's sequences share their positions where heads are major"
    );
    ensure!(
        rotary_dim % 2 == 0 && rotary_dim <= head_dim,
        "{rotary_dim} channels of {head_dim} cannot rotate"
    );
    let context = Context::new(1 + 2 * parts.len())?;
    let ids = context.tensor(c::GGML_TYPE_I32, [positions.len(), 1, 1, 1])?;
    // SAFETY: the tensor was just made. Only `call` reads its data, while the graph keeps the positions.
    unsafe { (*ids.as_ptr()).data = positions.as_mut_ptr().cast() };
    let graph = context.graph()?;
    let mut data = Vec::new();
    for part in parts {
        let heads = part.heads;
        let x = context.tensor(kind, [head_dim, heads, tokens, batch])?;
        let (head, token) = match is_flat {
            true => (head_dim, heads * head_dim),
            false => (tokens * head_dim, head_dim),
        };
        let mut bytes = part.bytes;
        let start: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: the tensor was just made, with no other owner. With these strides its extents are the part's.
        unsafe {
            (*x.as_ptr()).nb =
                [1, head, token, heads * tokens * head_dim].map(|stride| stride * size);
            (*x.as_ptr()).data = start;
        }
        // SAFETY: all tensors are of this context, and ggml's assertions were checked above.
        let result = NonNull::new(unsafe {
            c::ggml_rope_ext_inplace(
                context.0.as_ptr(),
                x.as_ptr(),
                ids.as_ptr(),
                ptr::null_mut(),
                i32::try_from(rotary_dim)?,
                mode,
                // The first factor of the YaRN parameters, 0, disables the others.
                0,
                request.base as f32,
                1.0,
                0.0,
                1.0,
                32.0,
                1.0,
            )
        });
        let result = result.context("ggml has no room for an operator")?;
        // SAFETY: graph and operator are of this context; a view of a tensor that is no longer than it.
        unsafe {
            (*result.as_ptr()).data = start;
            c::ggml_build_forward_expand(graph.as_ptr(), result.as_ptr());
        }
        data.push(bytes);
    }
    Graph::new(
        context,
        graph,
        vec![Box::new(positions)],
        data,
        request.threads,
    )
}

impl Prepared for Graph {
    fn call(&mut self) -> Result<()> {
        // SAFETY: the graph is the planned one, with tensors inside of `data` and with the plan's own work space.
        let status = unsafe { c::ggml_graph_compute(self.graph.as_ptr(), &mut self.plan) };
        ensure!(
            status == c::GGML_STATUS_SUCCESS,
            "ggml returns status {status}"
        );
        Ok(())
    }

    fn values(&self) -> Result<Vec<u8>> {
        Ok(self.data.concat())
    }
}

/// Rows, and the function by which ggml's CPU backend writes rows of a quantized cache.
struct Quantizer {
    from_float: unsafe extern "C" fn(*const f32, *mut c_void, i64),
    rows: Vec<f32>,
    row: usize,
    blocks: Vec<u8>,
}

fn quantize(request: &Quantization, bytes: Vec<u8>) -> Result<Box<dyn Prepared>> {
    let kind = match request.format.as_str() {
        "q8_0" => c::GGML_TYPE_Q8_0,
        "q4_0" => c::GGML_TYPE_Q4_0,
        "q4_1" => c::GGML_TYPE_Q4_1,
        "q5_0" => c::GGML_TYPE_Q5_0,
        "q5_1" => c::GGML_TYPE_Q5_1,
        "iq4_nl" => c::GGML_TYPE_IQ4_NL,
        other => bail!("no format {other}"),
    };
    let rows: Vec<f32> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|&x| f32::from_ne_bytes(x))
        .collect();
    let row = i64::try_from(request.row)?;
    // SAFETY: these read tables of constants, which `ggml_cpu_init` fills in.
    let (from_float, block, size) = unsafe {
        c::ggml_cpu_init();
        let traits = c::ggml_get_type_traits_cpu(kind);
        (
            (*traits).from_float,
            c::ggml_blck_size(kind),
            c::ggml_row_size(kind, row),
        )
    };
    ensure!(
        row > 0 && row % block == 0 && rows.len() == request.rows * request.row,
        "rows of {row}: blocks have {block} elements"
    );
    let from_float = from_float.context("ggml does not quantize to this format")?;
    let blocks = vec![0; request.rows * size];
    match request.quantizer.as_str() {
        "ggml/quantize" => Ok(Box::new(Quantizer {
            from_float,
            rows,
            row: request.row,
            blocks,
        })),
        other => bail!("no quantizer {other}"),
    }
}

impl Prepared for Quantizer {
    fn call(&mut self) -> Result<()> {
        let rows = self.rows.chunks_exact(self.row);
        let size = self.blocks.len() / rows.len();
        let blocks = self.blocks.chunks_exact_mut(size);
        for (row, blocks) in rows.zip(blocks) {
            // SAFETY: a row of whole blocks, and their number of bytes according to ggml.
            unsafe { (self.from_float)(row.as_ptr(), blocks.as_mut_ptr().cast(), self.row as i64) };
        }
        Ok(())
    }

    fn values(&self) -> Result<Vec<u8>> {
        Ok(self.blocks.clone())
    }
}

/// The memory of tensors and graph, without their data.
struct Context(NonNull<c::ggml_context>);

impl Context {
    fn new(tensors: usize) -> Result<Self> {
        // SAFETY: these only add sizes.
        let (tensor, graph) = unsafe { (c::ggml_tensor_overhead(), c::ggml_graph_overhead()) };
        let parameters = c::ggml_init_params {
            mem_size: tensors * tensor + graph,
            mem_buffer: ptr::null_mut(),
            no_alloc: true,
        };
        // SAFETY: without a given buffer it allocates its own.
        let context = NonNull::new(unsafe { c::ggml_init(parameters) });
        Ok(Context(context.context("ggml cannot make a context")?))
    }

    /// Creates a tensor without data: extents from the innermost outwards.
    fn tensor(&self, kind: c::ggml_type, extents: [usize; 4]) -> Result<NonNull<c::ggml_tensor>> {
        let [Ok(a), Ok(b), Ok(c), Ok(d)] = extents.map(i64::try_from) else {
            bail!("an extent is too large for ggml");
        };
        // SAFETY: the context was made with room for all requested tensors.
        let tensor = unsafe { c::ggml_new_tensor_4d(self.0.as_ptr(), kind, a, b, c, d) };
        NonNull::new(tensor).context("ggml has no room for a tensor")
    }

    /// Creates the graph, for which the context has room.
    fn graph(&self) -> Result<NonNull<c::ggml_cgraph>> {
        // SAFETY: the context exists.
        let graph = NonNull::new(unsafe { c::ggml_new_graph(self.0.as_ptr()) });
        graph.context("ggml has no room for a graph")
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
    fn new(threads: i32) -> Result<Self> {
        // SAFETY: a struct of defaults, from which a pool is made.
        let pool = unsafe {
            let mut parameters = c::ggml_threadpool_params_default(threads);
            NonNull::new(c::ggml_threadpool_new(&mut parameters))
        };
        Ok(Pool(pool.context("ggml cannot start its threads")?))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: it was made by `ggml_threadpool_new`, computes nothing now, and is freed once.
        unsafe { c::ggml_threadpool_free(self.0.as_ptr()) };
    }
}

fn main() -> Result<()> {
    let lock = include_str!("../Cargo.lock");
    protocol::answer("llama-cpp-sys-2", lock, prepare, Some(quantize))
}
