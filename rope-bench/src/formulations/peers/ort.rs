//! ONNX Runtime's `RotaryEmbedding` on the CPU: the contributed operator, and ONNX's own since opset 23.
//!
//! The library is loaded when it is first asked for, from `ORT_DYLIB_PATH`. A session has one node for Q and one for K,
//! and its inputs and outputs are bound once; what is timed is a run of the session, whose own cost shows where little
//! is rotated. Tables have the element's type and hold all positions up to the largest.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use ort::editor::{Graph, Model, Node, ONNX_DOMAIN, Opset};
use ort::environment::Environment;
use ort::memory::Allocator;
use ort::operator::Attribute;
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, Session};
use ort::value::{
    Outlet, PrimitiveTensorElementType, Shape, SymbolicDimensions, Tensor, TensorElementType,
    ValueType,
};
use rope_core::Pairing;

use super::super::{About, Cost, Formulation, Runner, angles_f32};
use crate::cases::{Case, Element, Float};
use crate::machine;
use crate::oracle::{Angle, Arithmetic};
use crate::workloads::{Order, Part, Workload};

/// Where the library is looked for, and how to get it.
pub const LIBRARY: &str = "ONNX Runtime is loaded from where ORT_DYLIB_PATH says. To get it:\n  \
     pip install --no-deps --target onnxruntime onnxruntime && \
     export ORT_DYLIB_PATH=$(ls $PWD/onnxruntime/onnxruntime/capi/libonnxruntime.so.*)";

/// One of its operators.
#[derive(Clone, Copy, Debug)]
struct Operator {
    name: &'static str,
    domain: &'static str,
    /// In the order in which the operator takes them.
    inputs: fn(&str) -> [&str; 4],
    source: &'static str,
}

/// The contributed operator, of the domain com.microsoft, and ONNX's own.
pub fn all() -> Vec<Box<dyn Formulation>> {
    vec![
        Box::new(Operator {
            name: "ort/contrib",
            domain: "com.microsoft",
            inputs: |x| [x, "positions", "cos", "sin"],
            source: "microsoft/onnxruntime: com.microsoft.RotaryEmbedding",
        }),
        Box::new(Operator {
            name: "ort/onnx",
            domain: ONNX_DOMAIN,
            inputs: |x| [x, "cos", "sin", "positions"],
            source: "microsoft/onnxruntime: RotaryEmbedding of ONNX opset 23",
        }),
    ]
}

impl Formulation for Operator {
    fn name(&self) -> String {
        self.name.into()
    }

    fn about(&self) -> About {
        About {
            summary: "[batch, tokens, heads * head_dim] or [batch, heads, tokens, head_dim] into another tensor",
            source: self.source,
            pairings: &Pairing::ALL,
            elements: &[Element::F32, Element::F16],
            partial: true,
            threads: true,
            angle: Angle::F32,
            arithmetic: Arithmetic::Element,
            counting: "positions and pairs from 0; a position id for each token",
        }
    }

    fn cost(&self, case: &Case) -> Cost {
        Cost::per_element(case, 2.0, 3.0)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Runner>> {
        Ok(match case.element {
            Element::F32 => Box::new(Prepared::<f32>::new(self, case)?),
            Element::F16 => Box::new(Prepared::<half::f16>::new(self, case)?),
            Element::Bf16 => anyhow::bail!("ONNX Runtime's operator rotates no bf16 on a CPU"),
        })
    }
}

impl Operator {
    /// A model of a node for each part, `x` to `y`.
    fn model(&self, case: &Case, kind: TensorElementType, parts: &[Part]) -> Result<Model> {
        let Workload {
            batch,
            tokens,
            head_dim,
            rotary_dim,
            ..
        } = case.workload;
        let rows = i64::from(rows(&case.workload));
        let pairs = i64::try_from(rotary_dim / 2)?;
        let ids = [i64::try_from(batch)?, i64::try_from(tokens)?];
        let mut inputs = vec![
            outlet("positions", TensorElementType::Int64, &ids),
            outlet("cos", kind, &[rows, pairs]),
            outlet("sin", kind, &[rows, pairs]),
        ];
        let mut outputs = Vec::new();
        let mut graph = Graph::new()?;
        for (part, [x, y]) in parts.iter().zip(NAMES) {
            let shape = shape(part, &case.workload)?;
            inputs.push(outlet(x, kind, &shape));
            outputs.push(outlet(y, kind, &shape));
            let mut attributes =
                vec![("interleaved", (case.pairing == Pairing::Interleaved).into())];
            // Where only a part of a head rotates, both operators need the two attributes. Where all of it does, the
            // contributed one must have neither.
            if rotary_dim != head_dim || self.domain == ONNX_DOMAIN {
                attributes.push(("num_heads", i64::try_from(part.layout.shape().heads)?));
            }
            if rotary_dim != head_dim {
                attributes.push(("rotary_embedding_dim", i64::try_from(rotary_dim)?));
            }
            let attributes = attributes
                .into_iter()
                .map(|(name, value): (_, i64)| Attribute::new(name, value))
                .collect::<Result<Vec<_>, _>>()?;
            graph.add_node(Node::new(
                "RotaryEmbedding",
                self.domain,
                format!("rotate {x}"),
                (self.inputs)(x),
                [y],
                attributes,
            )?)?;
        }
        graph.set_inputs(inputs)?;
        graph.set_outputs(outputs)?;
        let mut model = Model::new([
            Opset::new(ONNX_DOMAIN, 23)?,
            Opset::new("com.microsoft", 1)?,
        ])?;
        model.set_graph(graph)?;
        Ok(model)
    }
}

/// The names of input and output, for Q and for K.
const NAMES: [[&str; 2]; 2] = [["q", "rotated q"], ["k", "rotated k"]];

fn outlet(name: &str, ty: TensorElementType, shape: &[i64]) -> Outlet {
    Outlet::new(
        name,
        ValueType::Tensor {
            ty,
            shape: Shape::new(shape.iter().copied()),
            dimension_symbols: SymbolicDimensions::empty(shape.len()),
        },
    )
}

/// The extents as the operator takes them: three if tokens-major, four if heads-major.
fn shape(part: &Part, workload: &Workload) -> Result<Vec<i64>> {
    let shape = part.layout.shape();
    let extents = match workload.order {
        Order::TokensMajor => vec![shape.batch, shape.tokens, shape.heads * shape.head_dim],
        Order::HeadsMajor => vec![shape.batch, shape.heads, shape.tokens, shape.head_dim],
    };
    Ok(extents
        .into_iter()
        .map(i64::try_from)
        .collect::<Result<_, _>>()?)
}

/// Rows of the tables.
fn rows(workload: &Workload) -> u32 {
    workload.positions().into_iter().max().map_or(0, |p| p + 1)
}

/// There can be one in a process.
fn environment() -> Result<&'static Environment> {
    static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
    fn load() -> Result<Environment> {
        let path = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
        let path = PathBuf::from(path.context("ORT_DYLIB_PATH is not set")?);
        // Else ort would look beside the executable.
        let path = path
            .canonicalize()
            .with_context(|| path.display().to_string())?;
        Ok(ort::init_from(path)?.with_telemetry(false).build()?)
    }
    ENVIRONMENT
        .get_or_init(|| load().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("cannot load ONNX Runtime: {error}\n{LIBRARY}"))
}

fn session(environment: &Environment, model: Model, threads: usize) -> ort::Result<Session> {
    let mut builder = SessionBuilder::new(environment)?.with_intra_threads(threads)?;
    if threads > 1 {
        // This thread has its core. The others would inherit it, and go on spinning in the time of others.
        let cores: Vec<_> = machine::last_cores(threads)
            .into_iter()
            .skip(1)
            .map(|core| (core + 1).to_string())
            .collect();
        for (key, value) in [
            (
                "session.intra_op_thread_affinities",
                cores.join(";").as_str(),
            ),
            ("session.force_spinning_stop", "1"),
        ] {
            builder = builder.with_config_entry(key, value)?;
        }
    }
    model.into_session(&builder)
}

/// What its tensors may hold.
trait TensorElement: Float + PrimitiveTensorElementType + Debug {}
impl TensorElement for f32 {}
impl TensorElement for half::f16 {}

struct Prepared<E: TensorElement> {
    session: Session,
    binding: IoBinding,
    parts: Vec<Part>,
    shapes: Vec<Vec<i64>>,
    outputs: Vec<Tensor<E>>,
}

impl<E: TensorElement> Prepared<E> {
    fn new(operator: &Operator, case: &Case) -> Result<Self> {
        let workload = &case.workload;
        let parts = workload.parts()?;
        // Before anything is asked of the library.
        let environment = environment()?;
        let model = operator.model(case, E::into_tensor_element_type(), &parts)?;
        let session = session(environment, model, case.threads)?;
        let mut binding = session.create_binding()?;

        let mut ids: Vec<i64> = workload.positions().into_iter().map(i64::from).collect();
        if workload.starts.len() == 1 {
            ids = ids.repeat(workload.batch);
        }
        let ids = Tensor::from_array(([workload.batch, workload.tokens], ids))?;
        binding.bind_input("positions", &ids)?;
        let rows = rows(workload);
        let angles: Vec<f32> = angles_f32(workload, (0..rows).collect()).collect();
        for (name, f) in [("cos", f32::cos as fn(f32) -> f32), ("sin", f32::sin)] {
            let table: Vec<E> = angles.iter().map(|&angle| E::round(f(angle))).collect();
            let shape = [rows as usize, workload.rotary_dim / 2];
            binding.bind_input(name, &Tensor::from_array((shape, table))?)?;
        }

        let mut shapes = Vec::new();
        let mut outputs = Vec::new();
        for (part, [_, y]) in parts.iter().zip(NAMES) {
            let shape = shape(part, workload)?;
            let mut output = Tensor::<E>::new(&Allocator::default(), shape.clone())?;
            binding.bind_output(y, &mut output)?;
            shapes.push(shape);
            outputs.push(output);
        }
        Ok(Prepared {
            session,
            binding,
            parts,
            shapes,
            outputs,
        })
    }
}

impl<E: TensorElement> Runner for Prepared<E> {
    fn load(&mut self, bytes: &[u8]) -> Result<()> {
        let x: &[E] = bytemuck::cast_slice(bytes);
        for ((part, shape), [name, _]) in self.parts.iter().zip(&self.shapes).zip(NAMES) {
            let tensor = Tensor::from_array((shape.clone(), x[part.range.clone()].to_vec()))?;
            self.binding.bind_input(name, &tensor)?;
        }
        Ok(())
    }

    fn run(&mut self, _: &mut [u8], times: usize) -> Result<()> {
        for _ in 0..times {
            self.session.run_binding(&self.binding)?;
        }
        Ok(())
    }

    fn store(&self, bytes: &mut [u8]) -> Result<()> {
        let x: &mut [E] = bytemuck::cast_slice_mut(bytes);
        for (part, output) in self.parts.iter().zip(&self.outputs) {
            let (_, output) = output.try_extract_tensor::<E>()?;
            x[part.range.clone()].copy_from_slice(output);
        }
        Ok(())
    }
}
