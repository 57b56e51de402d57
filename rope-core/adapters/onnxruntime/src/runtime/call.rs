//! One run of a node: its inputs, its output, the runtime's threads.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{NonNull, null, null_mut};
use std::slice;
use std::sync::Mutex;

use half::{bf16, f16};
use ort_sys::{ONNXTensorElementDataType, OrtKernelContext, OrtTensorTypeAndShapeInfo, OrtValue};

use super::failure::guarded;
use super::{Api, ElementType, Result, checked, invalid};

/// The inputs and the output of a node. The first input is rotated into the only output, which may be the same memory.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) output: Output<'a>,
    pub(crate) threads: Threads<'a>,
}

/// The inputs after the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    context: Context<'a>,
    constants: &'a [Option<Constant>],
}

/// An input that is the same in every run, as tables are: looked up once, because each function of the runtime costs.
#[derive(Debug)]
pub(super) struct Constant(Input<'static>);

impl Constant {
    /// # Safety
    ///
    /// `value` is an initializer of the session, and is not used after it.
    pub(super) unsafe fn new(api: Api, value: *const OrtValue) -> Result<Self> {
        api.tensor(value).map(Constant)
    }
}

/// The first input, and the output of the same shape. There is one for a call, so its memory is borrowed once.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    context: Context<'a>,
    x: Input<'a>,
}

/// The threads of the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads<'a> {
    context: Context<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Context<'a> {
    api: Api,
    context: NonNull<OrtKernelContext>,
    call: PhantomData<&'a OrtKernelContext>,
}

// SAFETY: the runtime's worker threads get it for one call only, `KernelContext_ParallelFor`'s own.
unsafe impl Sync for Context<'_> {}

impl<'a> Call<'a> {
    /// # Safety
    ///
    /// `context` is that of a run, which lasts as long as `'a`, and no other call is made of it.
    pub(super) unsafe fn new(
        api: Api,
        context: NonNull<OrtKernelContext>,
        constants: &'a [Option<Constant>],
    ) -> Result<Self> {
        let context = Context {
            api,
            context,
            call: PhantomData,
        };
        let x = context
            .input(0)?
            .ok_or_else(|| invalid("input 0 is missing"))?;
        Ok(Call {
            inputs: Inputs { context, constants },
            output: Output { context, x },
            threads: Threads { context },
        })
    }
}

impl<'a> Inputs<'a> {
    /// Input `index`, if it is there. The first is part of the [`Output`].
    pub(crate) fn get(&self, index: usize) -> Result<Option<Input<'a>>> {
        match (index, self.constants.get(index)) {
            (0, _) => Ok(None),
            (_, Some(Some(Constant(input)))) => Ok(Some(*input)),
            _ => self.context.input(index),
        }
    }

    /// Input `index`, which has to be there.
    pub(crate) fn require(&self, index: usize, name: &str) -> Result<Input<'a>> {
        self.get(index)?
            .ok_or_else(|| invalid(format!("{name} is missing")))
    }
}

impl<'a> Output<'a> {
    /// The shape of the first input, and of the output.
    pub(crate) fn dims(&self) -> &[usize] {
        self.x.dims()
    }

    /// The memory of the first input and of the output.
    pub(crate) fn buffers<E: Scalar>(self) -> Result<Buffers<'a, E>> {
        let Output { context, x } = self;
        let target = context.output(&x)?;
        let elements = x.data_of::<E>()?;
        if x.elements == 0 {
            return Ok(Buffers::InPlace(&mut []));
        }
        let target = target.cast::<E>();
        check_alignment(target)?;
        if target == elements {
            // SAFETY: the runtime lets this output take the place of its input, so no other input is in this memory.
            // It has as many elements as the shape says, for as long as the call; `self` was the only way to it.
            return Ok(Buffers::InPlace(unsafe {
                slice::from_raw_parts_mut(target.as_ptr(), x.elements)
            }));
        }
        let distance = target.addr().get().abs_diff(elements.addr().get());
        if distance < x.elements * size_of::<E>() {
            return Err(invalid("input 0 and the output overlap in part"));
        }
        // SAFETY: two tensors of as many elements as the shape says, apart from each other, for as long as the call.
        unsafe {
            Ok(Buffers::Across(
                slice::from_raw_parts(elements.as_ptr(), x.elements),
                slice::from_raw_parts_mut(target.as_ptr(), x.elements),
            ))
        }
    }
}

/// The elements to rotate, and where their rotations are to lie.
#[derive(Debug)]
pub(crate) enum Buffers<'a, E> {
    InPlace(&'a mut [E]),
    Across(&'a [E], &'a mut [E]),
}

/// An input: where it lies, and its shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    data: *mut c_void,
    kind: ONNXTensorElementDataType,
    rank: usize,
    extents: [usize; Input::MOST_DIMENSIONS],
    elements: usize,
    call: PhantomData<&'a OrtKernelContext>,
}

impl<'a> Input<'a> {
    /// No operator here takes more than four.
    const MOST_DIMENSIONS: usize = 8;

    pub(crate) fn dims(&self) -> &[usize] {
        &self.extents[..self.rank]
    }

    /// Its elements.
    pub(crate) fn slice<E: Scalar>(&self) -> Result<&'a [E]> {
        let data = self.data_of::<E>()?;
        if self.elements == 0 {
            return Ok(&[]);
        }
        // SAFETY: a tensor of this type and of as many elements, which nothing writes while the node runs.
        Ok(unsafe { slice::from_raw_parts(data.as_ptr(), self.elements) })
    }

    fn data_of<E: Scalar>(&self) -> Result<NonNull<E>> {
        let required = E::TYPE.to_onnx();
        if self.kind != required {
            return Err(invalid(format!(
                "an input is of {:?} where the operator declares {required:?}",
                self.kind
            )));
        }
        let data = match NonNull::new(self.data) {
            Some(data) => data.cast(),
            // Without elements there need not be memory.
            None if self.elements == 0 => NonNull::dangling(),
            None => return Err(invalid("an input has no data")),
        };
        check_alignment(data)?;
        Ok(data)
    }
}

fn check_alignment<E>(data: NonNull<E>) -> Result<()> {
    match data.is_aligned() {
        true => Ok(()),
        false => Err(invalid(
            "a tensor lies at an address that its type cannot have",
        )),
    }
}

/// Types of elements that are read or written.
pub(crate) trait Scalar: Copy + Send + Sync + 'static {
    const TYPE: ElementType;
}
impl Scalar for f32 {
    const TYPE: ElementType = ElementType::F32;
}
impl Scalar for f16 {
    const TYPE: ElementType = ElementType::F16;
}
impl Scalar for bf16 {
    const TYPE: ElementType = ElementType::Bf16;
}
impl Scalar for i64 {
    const TYPE: ElementType = ElementType::I64;
}

impl<'a> Context<'a> {
    fn input(&self, index: usize) -> Result<Option<Input<'a>>> {
        let mut value: *const OrtValue = null();
        checked!(
            self.api,
            KernelContext_GetInput(self.context.as_ptr(), index, &mut value)
        )?;
        if value.is_null() {
            return Ok(None);
        }
        self.api.tensor(value).map(Some)
    }

    /// Where the output lies, which gets the shape of an input.
    fn output(&self, x: &Input<'_>) -> Result<NonNull<c_void>> {
        let dims = x.extents.map(|extent| extent as i64);
        let (mut value, mut data) = (null_mut(), null_mut());
        checked!(
            self.api,
            KernelContext_GetOutput(self.context.as_ptr(), 0, dims.as_ptr(), x.rank, &mut value)
        )?;
        checked!(self.api, GetTensorMutableData(value, &mut data))?;
        match NonNull::new(data) {
            Some(data) => Ok(data),
            None if x.elements == 0 => Ok(NonNull::dangling()),
            None => Err(invalid("the output has no memory")),
        }
    }
}

impl Api {
    /// Where a tensor lies, for as long as it does, and its shape.
    fn tensor<'a>(self, value: *const OrtValue) -> Result<Input<'a>> {
        let mut kind = ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        let mut extents = [0; Input::MOST_DIMENSIONS];
        let rank = self.shape(value, &mut kind, &mut extents)?;
        let mut elements = Some(1_usize);
        let extents = extents.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
        for &extent in &extents[..rank] {
            elements = elements.and_then(|elements| elements.checked_mul(extent));
        }
        let mut data = null_mut();
        checked!(self, GetTensorMutableData(value.cast_mut(), &mut data))?;
        Ok(Input {
            data,
            kind,
            rank,
            extents,
            elements: elements.ok_or_else(|| invalid("a tensor is larger than memory"))?,
            call: PhantomData,
        })
    }

    /// Fills in the type and the extents of a tensor, and returns its rank.
    fn shape(
        self,
        value: *const OrtValue,
        kind: &mut ONNXTensorElementDataType,
        extents: &mut [i64; Input::MOST_DIMENSIONS],
    ) -> Result<usize> {
        let api = self;
        let mut rank = 0;
        // Three calls and an allocation less, of which each costs a part of a microsecond.
        if api.version >= 24 {
            let mut data = null();
            checked!(
                api,
                GetTensorElementTypeAndShapeDataReference(value, kind, &mut data, &mut rank)
            )?;
            check_rank(rank)?;
            if rank > 0 {
                // SAFETY: the runtime returns as many extents, which live as long as the tensor.
                extents[..rank].copy_from_slice(unsafe { slice::from_raw_parts(data, rank) });
            }
            return Ok(rank);
        }
        let mut info: *mut OrtTensorTypeAndShapeInfo = null_mut();
        checked!(api, GetTensorTypeAndShape(value, &mut info))?;
        let done = checked!(api, GetTensorElementType(info, kind))
            .and_then(|()| checked!(api, GetDimensionsCount(info, &mut rank)))
            .and_then(|()| check_rank(rank))
            .and_then(|()| checked!(api, GetDimensions(info, extents.as_mut_ptr(), rank)));
        // SAFETY: the function is one of the oldest version, and `info` is released once.
        unsafe { ((*api.functions.as_ptr()).ReleaseTensorTypeAndShapeInfo)(info) };
        done.map(|()| rank)
    }
}

fn check_rank(rank: usize) -> Result<()> {
    if rank > Input::MOST_DIMENSIONS {
        return Err(invalid(format!(
            "an input has rank {rank}; the most is {}",
            Input::MOST_DIMENSIONS
        )));
    }
    Ok(())
}

impl Threads<'_> {
    /// Runs all indices below `count`, on as many threads as the session has and are idle.
    pub(crate) fn run(
        &self,
        count: usize,
        run: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<()> {
        let shared = Shared {
            run,
            failure: Mutex::new(None),
        };
        let data = (&raw const shared).cast_mut().cast::<c_void>();
        let context = self.context.context.as_ptr();
        // 0: a batch for each index.
        checked!(
            self.context.api,
            KernelContext_ParallelFor(context, run_index, count, 0, data)
        )?;
        let failure = shared
            .failure
            .into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.map_or(Ok(()), Err)
    }
}

struct Shared<'a> {
    run: &'a (dyn Fn(usize) -> Result<()> + Sync),
    /// The first.
    failure: Mutex<Option<super::Failure>>,
}

/// # Safety
///
/// `shared` is that of a [`Threads::run`] that has not returned.
unsafe extern "C" fn run_index(shared: *mut c_void, index: usize) {
    // SAFETY: `Threads::run` lends it until all indices have run; it is only shared.
    let shared = unsafe { &*shared.cast::<Shared<'_>>().cast_const() };
    if let Err(failure) = guarded(|| (shared.run)(index)) {
        let mut first = shared
            .failure
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert(failure);
    }
}
