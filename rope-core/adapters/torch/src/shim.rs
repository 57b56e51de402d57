//! libtorch's stable C interface (`torch/csrc/stable/c/shim.h` of torch 2.10), and all `unsafe` code of this crate.
//!
//! Handles that libtorch passes to a kernel are valid and owned by the kernel. What else the unsafe blocks rely on is
//! checked right before each of them.

mod interface;
mod sys;
mod tangents;
mod versions;

use std::any::Any;
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use self::interface::{VERSION, succeeded, written};

pub(crate) use self::interface::{Failure, RawTensor, Result};
pub(crate) use self::sys::Entry;

/// A type of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    Float32,
    Bfloat16,
    Float16,
    Float64,
    Int32,
    Int64,
    Uint8,
    Int8,
    Float8E4m3,
    Other,
}

impl Dtype {
    const KNOWN: [Dtype; 9] = [
        Dtype::Float32,
        Dtype::Bfloat16,
        Dtype::Float16,
        Dtype::Float64,
        Dtype::Int32,
        Dtype::Int64,
        Dtype::Uint8,
        Dtype::Int8,
        Dtype::Float8E4m3,
    ];

    fn code(self) -> i32 {
        // SAFETY: functions without arguments that return a constant.
        unsafe {
            match self {
                Dtype::Float32 => sys::aoti_torch_dtype_float32(),
                Dtype::Bfloat16 => sys::aoti_torch_dtype_bfloat16(),
                Dtype::Float16 => sys::aoti_torch_dtype_float16(),
                Dtype::Float64 => sys::aoti_torch_dtype_float64(),
                Dtype::Int32 => sys::aoti_torch_dtype_int32(),
                Dtype::Int64 => sys::aoti_torch_dtype_int64(),
                Dtype::Uint8 => sys::aoti_torch_dtype_uint8(),
                Dtype::Int8 => sys::aoti_torch_dtype_int8(),
                Dtype::Float8E4m3 => sys::aoti_torch_dtype_float8_e4m3fn(),
                Dtype::Other => -1,
            }
        }
    }
}

impl fmt::Debug for Dtype {
    /// torch's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::Float32 => "float32",
            Dtype::Bfloat16 => "bfloat16",
            Dtype::Float16 => "float16",
            Dtype::Float64 => "float64",
            Dtype::Int32 => "int32",
            Dtype::Int64 => "int64",
            Dtype::Uint8 => "uint8",
            Dtype::Int8 => "int8",
            Dtype::Float8E4m3 => "float8_e4m3fn",
            Dtype::Other => "of another type",
        })
    }
}

/// A type of elements in Rust: any bytes of its size are a value of it.
pub(crate) trait Plain: Copy {
    const DTYPES: &'static [Dtype];
}

macro_rules! plain {
    ($($type:ty: $($dtype:ident)|*;)*) => { $(
        impl Plain for $type {
            const DTYPES: &'static [Dtype] = &[$(Dtype::$dtype),*];
        }
    )* };
}
plain! {
    f32: Float32;
    rope_core::half::bf16: Bfloat16;
    rope_core::half::f16: Float16;
    f64: Float64;
    i32: Int32;
    i64: Int64;
    u8: Uint8 | Int8 | Float8E4m3;
}

/// A dense tensor on the CPU that a kernel owns a reference to: what it is was read and checked when it was taken.
#[derive(Debug)]
pub(crate) struct Tensor {
    handle: RawTensor,
    name: &'static str,
    dtype: Dtype,
    rank: usize,
    sizes: [usize; Tensor::MAX_RANK],
    strides: [usize; Tensor::MAX_RANK],
    /// One past the last element, from the first on.
    end: usize,
    /// Bytes of an element.
    size: usize,
    mutable: bool,
    /// True if the kernel made it, for a result.
    is_new: bool,
    data: *mut u8,
}

impl RawTensor {
    /// A tensor that is read.
    pub(crate) fn named(self, name: &'static str) -> Result<Tensor> {
        Tensor::new(self, name, false)
    }

    /// A tensor that is written. Memory that is copied on write is copied here: take it before those that are read.
    pub(crate) fn named_mut(self, name: &'static str) -> Result<Tensor> {
        Tensor::new(self, name, true)
    }
}

/// One past the last element, from the first on.
fn end(name: &str, sizes: &[usize], strides: &[usize]) -> Result<usize> {
    let overflow = || Failure::new(format!("{name} reaches past the end of memory"));
    if sizes.contains(&0) {
        return Ok(0);
    }
    let mut end = 1_usize;
    for (extent, stride) in sizes.iter().zip(strides) {
        let reach = (extent - 1).checked_mul(*stride).ok_or_else(overflow)?;
        end = end.checked_add(reach).ok_or_else(overflow)?;
    }
    Ok(end)
}

impl Tensor {
    pub(crate) const MAX_RANK: usize = 5;

    fn new(raw: RawTensor, name: &'static str, mutable: bool) -> Result<Self> {
        let handle = raw.0;
        if handle.is_null() {
            return Err(Failure::new(format!("{name} is no tensor")));
        }
        tangents::refuse(&raw, name)?;
        // SAFETY: here and in the calls of libtorch below the handle is valid: `raw` owns it.
        let device = written("get_device_type", |p| unsafe {
            sys::aoti_torch_get_device_type(handle, p)
        })?;
        // SAFETY: as above.
        if device != unsafe { sys::aoti_torch_device_type_cpu() } {
            return Err(Failure::new(format!(
                "{name} is not on the CPU, where rope_kernels rotates; move it there, or use the model's own function"
            )));
        }
        // SAFETY: as above.
        let rank: i64 = written("get_dim", |p| unsafe { sys::aoti_torch_get_dim(handle, p) })?;
        let rank = usize::try_from(rank)?;
        if rank > Tensor::MAX_RANK {
            return Err(Failure::new(format!(
                "{name} has {rank} dimensions; it must have at most {}",
                Tensor::MAX_RANK
            )));
        }
        let list = |call, function: unsafe extern "C" fn(sys::Handle, *mut *const i64) -> i32| {
            let mut first = std::ptr::null();
            // SAFETY: as above; the pointer leads to `rank` numbers that live as long as the tensor.
            succeeded(unsafe { function(handle, &mut first) }, call)?;
            let mut numbers = [0; Tensor::MAX_RANK];
            if rank > 0 {
                // SAFETY: as above; a pointer to no number at all is not read.
                let given = unsafe { std::slice::from_raw_parts(first, rank) };
                for (number, given) in numbers.iter_mut().zip(given) {
                    *number = usize::try_from(*given)?;
                }
            }
            Ok::<_, Failure>(numbers)
        };
        let sizes = list("get_sizes", sys::aoti_torch_get_sizes)?;
        let strides = list("get_strides", sys::aoti_torch_get_strides)?;
        // SAFETY: as above.
        let code: i32 = written("get_dtype", |p| unsafe {
            sys::aoti_torch_get_dtype(handle, p)
        })?;
        let known = Dtype::KNOWN.into_iter().find(|known| known.code() == code);
        // SAFETY: libtorch's own code of a type.
        let size = unsafe { sys::aoti_torch_dtype_element_size(code) };
        let end = end(name, &sizes[..rank], &strides)?;
        // SAFETY: as above.
        let offset: i64 = written("get_storage_offset", |p| unsafe {
            sys::aoti_torch_get_storage_offset(handle, p)
        })?;
        // SAFETY: as above.
        let bytes: i64 = written("get_storage_size", |p| unsafe {
            sys::aoti_torch_get_storage_size(handle, p)
        })?;
        let mut data = std::ptr::null_mut();
        if end > 0 {
            let needed = end.checked_add(usize::try_from(offset)?);
            let needed = needed.and_then(|needed| needed.checked_mul(size));
            if needed.is_none_or(|needed| needed > usize::try_from(bytes).unwrap_or(0)) {
                return Err(Failure::new(format!(
                    "{name} reaches past its storage of {bytes} bytes, which was resized"
                )));
            }
            data = raw.data(name, mutable)?;
            if !data.addr().is_multiple_of(size.max(1)) {
                return Err(Failure::new(format!(
                    "{name} is not aligned to its elements"
                )));
            }
        }
        Ok(Tensor {
            handle: raw,
            name,
            dtype: known.unwrap_or(Dtype::Other),
            rank,
            sizes,
            strides,
            end,
            size,
            mutable,
            is_new: false,
            data,
        })
    }

    /// A new tensor whose elements are not set.
    pub(crate) fn uninitialized(
        name: &'static str,
        sizes: &[usize],
        strides: &[usize],
        dtype: Dtype,
    ) -> Result<Self> {
        // libtorch finds its description of a type by the code without a look at the code's range.
        if dtype == Dtype::Other {
            return Err(Failure::new(format!(
                "{name} is of a type that rope_kernels does not know; operators rotate float32, bfloat16 and float16"
            )));
        }
        let mut numbers = [[0_i64; Tensor::MAX_RANK]; 2];
        let mut kept = [[0; Tensor::MAX_RANK]; 2];
        for ((numbers, kept), given) in numbers.iter_mut().zip(&mut kept).zip([sizes, strides]) {
            for ((number, kept), given) in numbers.iter_mut().zip(kept).zip(given) {
                (*number, *kept) = (i64::try_from(*given)?, *given);
            }
        }
        let rank = sizes.len().min(strides.len()).min(Tensor::MAX_RANK);
        let end = end(name, &sizes[..rank], strides)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: both lists have `rank` numbers at least, and the type is one that libtorch has named.
        let status = unsafe {
            sys::aoti_torch_empty_strided(
                rank as i64,
                numbers[0].as_ptr(),
                numbers[1].as_ptr(),
                dtype.code(),
                sys::aoti_torch_device_type_cpu(),
                0,
                &mut handle,
            )
        };
        succeeded(status, "empty_strided")?;
        // libtorch would say of it what it was told; to read that back takes 0.1 us of 3.6.
        let handle = RawTensor(handle);
        let data = match end {
            0 => std::ptr::null_mut(),
            _ => handle.data(name, true)?,
        };
        let [sizes, strides] = kept;
        Ok(Tensor {
            handle,
            name,
            dtype,
            rank,
            sizes,
            strides,
            end,
            // SAFETY: a code that libtorch has named.
            size: unsafe { sys::aoti_torch_dtype_element_size(dtype.code()) },
            mutable: true,
            is_new: true,
            data,
        })
    }

    /// Copies the elements of a tensor of the same shape.
    pub(crate) fn copy_from(&mut self, source: &Tensor) -> Result<()> {
        // SAFETY: both handles are valid.
        let status = unsafe { sys::aoti_torch_copy_(self.handle.0, source.handle.0, 0) };
        succeeded(status, "copy_")
    }

    /// Counts a write to the tensor, so that a backward pass that saved it finds out.
    pub(crate) fn count_write(&self) -> Result<()> {
        versions::count_write(&self.handle)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides[..self.rank]
    }

    /// Bytes of an element.
    pub(crate) fn element_size(&self) -> usize {
        self.size
    }

    /// The addresses from the first element to the last, with those between.
    pub(crate) fn memory(&self) -> std::ops::Range<usize> {
        let begin = self.data.addr();
        begin..begin + self.end * self.size
    }

    /// Returns true if the spans from the first to the last elements of both overlap.
    pub(crate) fn overlaps(&self, other: &Tensor) -> bool {
        let (own, other) = (self.memory(), other.memory());
        own.start < other.end && other.start < own.end
    }

    fn check<E: Plain>(&self) -> Result<()> {
        match E::DTYPES.contains(&self.dtype) && size_of::<E>() == self.size {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{} must be of the type {:?}",
                self.name,
                E::DTYPES
            ))),
        }
    }

    /// All elements from the first to the last, with those between.
    pub(crate) fn elements<E: Plain>(&self) -> Result<&[E]> {
        self.check::<E>()?;
        if self.end == 0 {
            return Ok(&[]);
        }
        // SAFETY: `new` found that so many elements, of the size of E, lie in the tensor's storage, aligned. The
        // storage lives as long as the handle. No kernel makes a mutable slice of memory that it holds a slice of
        // (`elements_mut`). Other threads of the program must not write to arguments during a call, as in any operator.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast_const().cast(), self.end) })
    }

    /// The same to be written, while slices of all of `read` may exist.
    pub(crate) fn elements_mut<'t, E: Plain>(
        &mut self,
        read: impl IntoIterator<Item = &'t Tensor>,
    ) -> Result<&mut [E]> {
        self.check::<E>()?;
        if !self.is_new {
            versions::refuse(&self.handle, self.name)?;
        }
        if let Some(other) = read.into_iter().find(|other| self.overlaps(other)) {
            return Err(Failure::new(format!(
                "{} and {} overlap in memory; clone one of them",
                self.name,
                other.name()
            )));
        }
        if self.end == 0 {
            return Ok(&mut []);
        }
        if !self.mutable {
            return Err(Failure::new(format!("{} is not to be written", self.name)));
        }
        // SAFETY: as in `elements`, of a pointer that may be written through; `self` is borrowed mutably, and the
        // tensors of which slices may exist do not lie in this range.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.end) })
    }

    /// The first of the bytes of this tensor and of another, and their number. The two overlap, so one storage has all
    /// of them.
    fn union(&self, other: &Tensor) -> Result<(*mut u8, usize)> {
        if !self.overlaps(other) {
            return Err(Failure::new(format!(
                "{} and {} do not overlap in memory",
                self.name, other.name
            )));
        }
        let (own, of_other) = (self.memory(), other.memory());
        let first = match own.start <= of_other.start {
            true => self.data,
            false => other.data,
        };
        let length = own.end.max(of_other.end) - own.start.min(of_other.start);
        Ok((first, length))
    }

    /// The bytes from the first element of this tensor or of another, which overlaps it, to the last of both.
    pub(crate) fn bytes_with(&self, other: &Tensor) -> Result<&[u8]> {
        let (first, length) = self.union(other)?;
        // SAFETY: as in `elements`. The memory of both tensors is accessible, and has no gap, because it overlaps.
        Ok(unsafe { std::slice::from_raw_parts(first.cast_const(), length) })
    }

    /// The same to be written, while slices of all of `read` may exist.
    pub(crate) fn bytes_with_mut<'t>(
        &mut self,
        other: &Tensor,
        read: impl IntoIterator<Item = &'t Tensor>,
    ) -> Result<&mut [u8]> {
        for tensor in [&*self, other] {
            if !tensor.is_new {
                versions::refuse(&tensor.handle, tensor.name)?;
            }
            if !tensor.mutable {
                return Err(Failure::new(format!(
                    "{} is not to be written",
                    tensor.name
                )));
            }
        }
        let (first, length) = self.union(other)?;
        let memory = first.addr()..first.addr() + length;
        for other in read {
            let of_read = other.memory();
            if memory.start < of_read.end && of_read.start < memory.end {
                return Err(Failure::new(format!(
                    "{} and {} overlap in memory; clone one of them",
                    self.name,
                    other.name()
                )));
            }
        }
        // SAFETY: as in `elements_mut`. The memory of both tensors is accessible, and has no gap, because it overlaps;
        // the caller makes no slice of the other tensor while this one exists.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, length) })
    }

    /// The reference, for the stack to own.
    pub(crate) fn into_stack(mut self) -> u64 {
        std::mem::replace(&mut self.handle.0, std::ptr::null_mut()) as u64
    }
}

/// More than any operator has.
const MAX_ARGUMENTS: usize = 24;

/// Runs the body of a kernel over its stack, and throws what it fails with as C++ does, panics too.
pub(crate) fn run(
    stack: *mut u64,
    inputs: u64,
    outputs: u64,
    body: impl FnOnce(&[u64], &mut [u64]) -> Result<()>,
) {
    let (inputs, outputs) = (inputs as usize, outputs as usize);
    // SAFETY: libtorch's stack has room for the inputs and for the outputs.
    let values = unsafe { std::slice::from_raw_parts_mut(stack, inputs.max(outputs)) };
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut given = [0; MAX_ARGUMENTS];
        given[..inputs].copy_from_slice(&values[..inputs]);
        body(&given[..inputs], &mut values[..outputs])
    }));
    let message = match caught {
        Ok(Ok(())) => return,
        Ok(Err(Failure(message))) => message,
        Err(panic) => panic_message(&*panic),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the function copies the message into its exception. What it throws unwinds through this frame and through
    // the kernel's, whose ABI lets it, and frees the message.
    unsafe { sys::throw_runtime_error(message.as_ptr()) }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("rope_kernels panicked: {}", text.unwrap_or("no message"))
}

/// PyTorch's threads.
pub(crate) fn threads() -> usize {
    // SAFETY: the pointer is that of a local variable.
    let threads = written("num_threads", |p| unsafe { sys::torch_get_num_threads(p) });
    threads.map_or(1, |threads: u32| threads as usize)
}

/// Calls `body` with each of the parts, on PyTorch's threads.
pub(crate) fn parallel<P: Send>(
    parts: Vec<P>,
    body: impl Fn(P) -> Result<()> + Sync,
) -> Result<()> {
    struct Work<'a, P> {
        parts: Vec<Mutex<Option<P>>>,
        body: &'a (dyn Fn(P) -> Result<()> + Sync),
        failure: Mutex<Option<Failure>>,
    }
    extern "C" fn part<P: Send>(begin: i64, end: i64, context: *mut c_void) {
        // SAFETY: `context` is the `Work<P>` below, which outlives the call of libtorch.
        let work = unsafe { &*context.cast_const().cast::<Work<'_, P>>() };
        for index in begin..end {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let part = work.parts[index as usize]
                    .lock()
                    .ok()
                    .and_then(|mut part| part.take());
                part.map_or(Ok(()), work.body)
            }));
            let failure = match caught {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure,
                Err(panic) => Failure(panic_message(&*panic)),
            };
            if let Ok(mut first) = work.failure.lock() {
                first.get_or_insert(failure);
            }
        }
    }
    let count = parts.len() as i64;
    let work = Work {
        parts: parts
            .into_iter()
            .map(|part| Mutex::new(Some(part)))
            .collect(),
        body: &body,
        failure: Mutex::new(None),
    };
    // SAFETY: `part` reads the context as what it is, shared by threads that finish before the call returns; what is
    // sent to them is `Send`, what they share `Sync`.
    let status = unsafe {
        sys::torch_parallel_for(0, count, 1, part::<P>, (&raw const work).cast_mut().cast())
    };
    succeeded(status, "parallel_for")?;
    match work.failure.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(failure)) => Err(failure),
        Err(_) => Err(Failure::new("a thread panicked")),
    }
}

/// Registers operators: schemas without the namespace, and the kernels for the CPU. `only_stable` excludes the C++
/// functions that find tangents and count versions sooner.
pub(crate) fn register(
    namespace: &CStr,
    operators: &[(&str, Entry)],
    only_stable: bool,
) -> Result<()> {
    if !only_stable {
        tangents::find_shortcut();
        versions::find_shortcut();
    }
    let (file, key) = (c"rope-torch", c"CPU");
    let (mut definitions, mut kernels) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: here and below strings end with a zero, and handles are those that libtorch has made. The libraries are
    // never deleted: they are registered as long as the process lives.
    let status = unsafe {
        sys::aoti_torch_library_init_def(namespace.as_ptr(), file.as_ptr(), 0, &mut definitions)
    };
    succeeded(status, "library_init_def")?;
    let (namespace, key, file) = (namespace.as_ptr(), key.as_ptr(), file.as_ptr());
    // SAFETY: as above.
    let status =
        unsafe { sys::aoti_torch_library_init_impl(namespace, key, file, 0, &mut kernels) };
    succeeded(status, "library_init_impl")?;
    for (schema, entry) in operators {
        let name = CString::new(schema.split('(').next().unwrap_or_default())?;
        let schema = CString::new(*schema)?;
        // SAFETY: as above.
        let status = unsafe { sys::aoti_torch_library_def(definitions, schema.as_ptr()) };
        succeeded(status, "library_def")?;
        // SAFETY: as above; the entry reads as many arguments of those types as the schema declares.
        let status = unsafe { sys::torch_library_impl(kernels, name.as_ptr(), *entry, VERSION) };
        succeeded(status, "library_impl")?;
    }
    Ok(())
}
