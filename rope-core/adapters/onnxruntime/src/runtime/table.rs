//! An operator as the runtime sees it: a table of functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};

use ort_sys::{
    ONNXTensorElementDataType, OrtApi, OrtCustomOp, OrtCustomOpInputOutputCharacteristic,
    OrtKernelContext, OrtKernelInfo, OrtMemType, OrtShapeInferContext, OrtStatusPtr,
    OrtTensorTypeAndShapeInfo,
};

use super::call::Constant;
use super::failure::{guarded, status};
use super::{Api, Call, ElementType, Node, Result, checked, invalid};

/// An operator that is registered, once for each type that it rotates. Its only output has the shape and the type of
/// its first input, and may take its place.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) name: &'static CStr,
    /// The first version of the domain that has it.
    pub(crate) since: c_int,
    pub(crate) inputs: &'static [Parameter],
    pub(crate) create: fn(&Node, ElementType) -> Result<Box<dyn Kernel>>,
}

/// An input of an operator.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// None: the type for which the operator is registered.
    pub(crate) element: Option<ElementType>,
    pub(crate) optional: bool,
}

impl Parameter {
    /// An input of the rotated type.
    pub(crate) const ROTATED: Self = Parameter {
        element: None,
        optional: false,
    };
    /// Position ids.
    pub(crate) const IDS: Self = Parameter {
        element: Some(ElementType::I64),
        optional: false,
    };

    pub(crate) const fn optional(self) -> Self {
        Parameter {
            optional: true,
            ..self
        }
    }
}

/// A node of a session, of one type.
pub(crate) trait Kernel: Send + Sync {
    fn compute(&self, call: Call<'_>) -> Result<()>;
}

/// An operator as the runtime gets it. The runtime passes the address of the first field to the functions in it, so
/// that of all of it.
#[repr(C)]
pub(super) struct Entry {
    table: OrtCustomOp,
    api: Api,
    declaration: &'static Declaration,
    element: ElementType,
}

/// The state of a node that the runtime keeps.
struct Running {
    api: Api,
    kernel: Box<dyn Kernel>,
    constants: Vec<Option<Constant>>,
}

impl Entry {
    pub(super) fn new(api: Api, declaration: &'static Declaration, element: ElementType) -> Self {
        let table = OrtCustomOp {
            // The newest whose fields this table has.
            version: api.version.min(18),
            CreateKernel: None,
            GetName: Some(name),
            GetExecutionProviderType: Some(provider),
            GetInputType: Some(input_type),
            GetInputTypeCount: Some(input_count),
            GetOutputType: Some(output_type),
            GetOutputTypeCount: Some(one),
            KernelCompute: None,
            KernelDestroy: Some(destroy),
            GetInputCharacteristic: Some(input_characteristic),
            GetOutputCharacteristic: Some(output_characteristic),
            GetInputMemoryType: Some(memory_type),
            GetVariadicInputMinArity: None,
            GetVariadicInputHomogeneity: None,
            GetVariadicOutputMinArity: None,
            GetVariadicOutputHomogeneity: None,
            CreateKernelV2: Some(create),
            KernelComputeV2: Some(compute),
            InferOutputShapeFn: Some(infer_shape),
            GetStartVersion: Some(since),
            GetEndVersion: Some(until),
            GetMayInplace: Some(may_be_in_place),
            ReleaseMayInplace: Some(release),
            GetAliasMap: Some(aliases),
            ReleaseAliasMap: Some(release),
        };
        Entry {
            table,
            api,
            declaration,
            element,
        }
    }

    /// The registered operators.
    pub(super) fn table(&'static self) -> *const OrtCustomOp {
        (&raw const *self).cast()
    }

    fn parameter(&self, index: usize) -> &Parameter {
        // The runtime asks for those that `input_count` counts.
        &self.declaration.inputs[index.min(self.declaration.inputs.len() - 1)]
    }
}

/// # Safety
///
/// `table` is that of an [`Entry`] that was registered, which are never freed.
unsafe fn entry(table: *const OrtCustomOp) -> &'static Entry {
    // SAFETY: it points to the first field of an entry, by a pointer to all of it.
    unsafe { &*table.cast::<Entry>() }
}

/// Functions of the table, which the runtime calls with the table that it got.
macro_rules! table {
    ($($function:ident($entry:ident $(, $argument:ident: $type:ty)*) -> $result:ty { $body:expr })+) => {$(
        unsafe extern "system" fn $function(
            table: *const OrtCustomOp $(, $argument: $type)*
        ) -> $result {
            // SAFETY: the runtime passes the table that was registered.
            let $entry = unsafe { entry(table) };
            $body
        }
    )+};
}
table! {
    name(entry) -> *const c_char { entry.declaration.name.as_ptr() }
    input_count(entry) -> usize { entry.declaration.inputs.len() }
    input_type(entry, index: usize) -> ONNXTensorElementDataType {
        entry.parameter(index).element.unwrap_or(entry.element).to_onnx()
    }
    input_characteristic(entry, index: usize) -> OrtCustomOpInputOutputCharacteristic {
        match entry.parameter(index).optional {
            true => OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_OPTIONAL,
            false => OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED,
        }
    }
    output_type(entry, _index: usize) -> ONNXTensorElementDataType { entry.element.to_onnx() }
    since(entry) -> c_int { entry.declaration.since }
    create(
        entry,
        _api: *const OrtApi,
        info: *const OrtKernelInfo,
        kernel: *mut *mut c_void
    ) -> OrtStatusPtr {
        status(entry.api, || {
            let info = NonNull::new(info.cast_mut()).ok_or_else(|| invalid("the node is null"))?;
            // SAFETY: the runtime passes the node of the kernel that it makes, for as long as this call.
            let node = unsafe { Node::new(entry.api, info) };
            let declaration = entry.declaration;
            let made = (declaration.create)(&node, entry.element)
                .map_err(|failure| node.refused(declaration.name, failure))?;
            let inputs = 0..declaration.inputs.len();
            let constants = inputs.map(|index| node.constant(index)).collect::<Result<_>>()?;
            let running = Running { api: entry.api, kernel: made, constants };
            // SAFETY: the runtime passes a place for the kernel.
            unsafe { *kernel = Box::into_raw(Box::new(running)).cast() };
            Ok(())
        })
    }
    infer_shape(entry, context: *mut OrtShapeInferContext) -> OrtStatusPtr {
        status(entry.api, || {
            let mut shape = null_mut();
            checked!(entry.api, ShapeInferContext_GetInputTypeShape(context, 0, &mut shape))?;
            if !is_known(entry.api, shape)? {
                return Ok(());
            }
            checked!(entry.api, ShapeInferContext_SetOutputTypeShape(context, 0, shape))
        })
    }
}

/// Returns true if a shape can be passed on. One of unknown rank would become that of a scalar, and an unknown
/// dimension one of -1.
fn is_known(api: Api, shape: *const OrtTensorTypeAndShapeInfo) -> Result<bool> {
    let mut rank = 0;
    checked!(api, GetDimensionsCount(shape, &mut rank))?;
    let (mut extents, mut names) = (vec![0; rank], vec![null(); rank]);
    checked!(api, GetDimensions(shape, extents.as_mut_ptr(), rank))?;
    checked!(api, GetSymbolicDimensions(shape, names.as_mut_ptr(), rank))?;
    let known = extents.iter().zip(names).all(|(extent, name)| {
        // SAFETY: the runtime's texts, which live as long as the shape.
        *extent >= 0 || !name.is_null() && unsafe { *name } != 0
    });
    Ok(known && rank > 0)
}

unsafe extern "system" fn provider(_: *const OrtCustomOp) -> *const c_char {
    // The CPU.
    null()
}

unsafe extern "system" fn one(_: *const OrtCustomOp) -> usize {
    1
}

unsafe extern "system" fn output_characteristic(
    _: *const OrtCustomOp,
    _: usize,
) -> OrtCustomOpInputOutputCharacteristic {
    OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED
}

unsafe extern "system" fn memory_type(_: *const OrtCustomOp, _: usize) -> OrtMemType {
    OrtMemType::OrtMemTypeDefault
}

unsafe extern "system" fn until(_: *const OrtCustomOp) -> c_int {
    c_int::MAX
}

/// Output 0 may take the place of input 0.
unsafe extern "system" fn may_be_in_place(
    inputs: *mut *mut c_int,
    outputs: *mut *mut c_int,
) -> usize {
    static FIRST: c_int = 0;
    // SAFETY: the runtime passes places for two lists, which it reads and hands back to `release`.
    unsafe {
        *inputs = (&raw const FIRST).cast_mut();
        *outputs = (&raw const FIRST).cast_mut();
    }
    1
}

unsafe extern "system" fn aliases(_: *mut *mut c_int, _: *mut *mut c_int) -> usize {
    0
}

unsafe extern "system" fn release(_: *mut c_int, _: *mut c_int) {}

unsafe extern "system" fn compute(
    kernel: *mut c_void,
    context: *mut OrtKernelContext,
) -> OrtStatusPtr {
    // SAFETY: the runtime passes what `create` made, until `destroy`; runs of a node only share it.
    let running = unsafe { &*kernel.cast::<Running>().cast_const() };
    status(running.api, || {
        let context = NonNull::new(context).ok_or_else(|| invalid("the run is null"))?;
        // SAFETY: the runtime passes the context of this run, once.
        let call = unsafe { Call::new(running.api, context, &running.constants)? };
        running.kernel.compute(call)
    })
}

unsafe extern "system" fn destroy(kernel: *mut c_void) {
    // Null where `create` has failed.
    if let Some(kernel) = NonNull::new(kernel.cast::<Running>()) {
        let dropped = guarded(|| {
            // SAFETY: `create` made it, and the runtime destroys it once.
            drop(unsafe { Box::from_raw(kernel.as_ptr()) });
            Ok(())
        });
        // There is nobody to tell.
        drop(dropped);
    }
}
