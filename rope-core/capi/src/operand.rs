//! Operands: a tensor, slots of a cache, or two of these side by side.

use core::ffi::c_void;

use half::{bf16, f16};
use rope_core::cache::{Cache, CacheMut};
use rope_core::error::ShapeError;
use rope_core::internals::{AnySource, AnyTarget, RawTensor};
use rope_core::{Element, Error, Layout, Shape, Strides, Tensor, TensorMut};

use crate::cache::{CacheRecord, rope_cache};
use crate::failure::Failure;
use crate::memory::{Out, Plain, Region, Span, elements, elements_mut, plain, read};
use crate::names::{lookup, rope_element};
use crate::slots::{SlotsRecord, Used, rope_slots};
use crate::status::{rope_status, status_of};

/// Runs a block with a name for the element type.
macro_rules! with_element {
    ($element:expr, $E:ident => $block:block) => {
        match $element {
            $crate::names::rope_element::F32 => {
                type $E = f32;
                $block
            }
            $crate::names::rope_element::F16 => {
                type $E = half::f16;
                $block
            }
            $crate::names::rope_element::Bf16 => {
                type $E = half::bf16;
                $block
            }
        }
    };
}
pub(crate) use with_element;

/// Where the elements of a tensor lie. The caller fills it in, or rope_layout_init does.
///
/// A part of a tensor (K of a packed row of Q, K and V; the rotated window of a longer head) has the strides of the
/// whole and a smaller shape. Its `data` points to the first element of the part.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_layout {
    /// Sequences, tokens of a sequence, heads of a token, channels of a head. This order does not depend on the
    /// order in memory.
    pub shape: [usize; 4],
    /// Elements from one sequence, token and head to the next. The channels of a head are contiguous.
    pub strides: [usize; 3],
}
plain!(rope_layout);

impl rope_layout {
    #[inline]
    pub(crate) fn layout(&self) -> Result<Layout, Error> {
        let [batch, token, head] = self.strides;
        Layout::strided(self.shape, Strides { batch, token, head })
    }
}

impl From<Layout> for rope_layout {
    fn from(layout: Layout) -> Self {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = layout.shape();
        let strides = layout.strides();
        rope_layout {
            shape: [batch, tokens, heads, head_dim],
            strides: [strides.batch, strides.token, strides.head],
        }
    }
}

/// The order of a tensor's dimensions in memory, outermost first: B sequences, S tokens, H heads, D channels.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_order {
    /// PyTorch before the transpose, vLLM, FlashAttention. With one sequence also packed sequences (THD), each token of
    /// which has a row of its own (ROPE_POSITIONS_KIND_PACKED).
    Bshd = 2101,
    /// PyTorch's attention, ONNX, KV caches.
    Bhsd = 2102,
    /// Megatron.
    Sbhd = 2103,
}
lookup!(rope_order, "order": Bshd Bhsd Sbhd);

/// Fills in the layout of a tensor without gaps, whose dimensions lie in memory in this order (`enum rope_order`). The
/// extents are always given as sequences, tokens, heads and channels.
///
/// Returns ROPE_STATUS_SHAPE_OVERFLOW if the elements are more than size_t counts, ROPE_STATUS_UNKNOWN_VALUE,
/// ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED. The layout is untouched then.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// `layout` is NULL or points to a rope_layout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_layout_init(
    layout: *mut rope_layout,
    order: i32,
    batch: usize,
    tokens: usize,
    heads: usize,
    head_dim: usize,
) -> rope_status {
    status_of(|| {
        let out = Out::new("layout", layout)?;
        let layout = match rope_order::from_c(order)? {
            rope_order::Bshd => Layout::bshd([batch, tokens, heads, head_dim]),
            rope_order::Bhsd => Layout::bhsd([batch, heads, tokens, head_dim]),
            rope_order::Sbhd => Layout::sbhd([tokens, batch, heads, head_dim]),
        }?;
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(layout.into()) };
        Ok(())
    })
}

/// An operand of a call: a tensor, or the slots of a cache. Sources are never written: a pointer to constants may
/// be cast.
///
/// In a tensor that is written, every index must have an element of its own. In one that is read elements may coincide
/// (a broadcast has a stride of zero).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_operand {
    /// The first element of a tensor, aligned as its type is. Not used of a cache, as the next three.
    pub data: *mut c_void,
    /// The number of elements in `data`.
    pub len: usize,
    /// The type of the elements (`enum rope_element`).
    pub element: i32,
    /// Where the elements lie.
    pub layout: rope_layout,
    /// The cache; NULL: the operand is a tensor.
    pub cache: *const rope_cache,
    /// The slots in the cache, one for each token of each sequence. Not used of a tensor.
    pub slots: *const rope_slots,
    /// The operand of the next channels of each head, as the key after a latent; NULL: none. It has no next one. A
    /// cache has the slots of the first; two caches of one memory, each by its layout, are parts of its slots.
    pub next: *const rope_operand,
}
plain!(rope_operand);

impl rope_operand {
    /// The operand, checked by itself.
    ///
    /// # Safety
    ///
    /// `cache` and `slots` are null or point to their structs.
    #[inline(always)]
    pub(crate) unsafe fn record(&self, name: &'static str) -> Result<OperandRecord, Failure> {
        match (self.cache.is_null(), self.next.is_null()) {
            (true, true) => Ok(OperandRecord::Tensor(self.tensor(name)?)),
            // SAFETY: the caller promises that `cache` and `slots` are null or valid.
            (false, true) => Ok(OperandRecord::Slots(unsafe { self.slots() }?)),
            // SAFETY: the caller promises that `next` is null or valid.
            (_, false) => unsafe { self.parts(name) },
        }
    }

    /// # Safety
    ///
    /// As [`rope_operand::record`].
    #[cold]
    unsafe fn parts(&self, name: &'static str) -> Result<OperandRecord, Failure> {
        let null = core::ptr::null();
        // SAFETY: the caller promises that `next` is null or valid.
        let mut second = unsafe { read("next", self.next)? };
        if !second.next.is_null() {
            return Err(Failure::MoreParts { name });
        }
        if !self.cache.is_null() {
            second.slots = self.slots;
        }
        let parts = [
            rope_operand {
                next: null,
                ..*self
            },
            second,
        ];
        let record = PartsRecord { name, parts };
        // SAFETY: the caller promises that all of them are null or valid.
        unsafe { record.records() }?;
        Ok(OperandRecord::Parts(record))
    }

    /// # Safety
    ///
    /// As [`rope_operand::record`].
    #[inline(never)]
    unsafe fn slots(&self) -> Result<SlotsRecord, Failure> {
        // SAFETY: the caller promises that `cache` and `slots` are null or valid.
        unsafe {
            Ok(SlotsRecord {
                cache: read("cache", self.cache)?.record()?,
                slots: read("slots", self.slots)?,
            })
        }
    }

    /// A tensor that is not empty, without a layout. `None` also for an operand that is refused.
    #[inline(always)]
    pub(crate) fn raw(&self, size: usize) -> Option<RawRecord> {
        let [batch, tokens, heads, head_dim] = self.layout.shape;
        let [batch_stride, token_stride, head_stride] = self.layout.strides;
        let reach = |extent: usize, stride| extent.checked_sub(1)?.checked_mul(stride);
        let last = reach(batch, batch_stride)?
            .checked_add(reach(tokens, token_stride)?)?
            .checked_add(reach(heads, head_stride)?)?;
        let end = last.checked_add(head_dim)?;
        let (data, bytes) = (self.data, self.len.checked_mul(size)?);
        let fits = end <= self.len && bytes <= isize::MAX as usize;
        let aligned = !data.is_null() && data.addr() & (size - 1) == 0;
        let is_tensor = self.cache.is_null() && self.next.is_null() && head_dim > 0;
        if !fits || !aligned || !is_tensor || data.addr().checked_add(bytes).is_none() {
            return None;
        }
        Some(RawRecord {
            data,
            region: Region::bytes("", data.addr(), end * size),
            shape: Shape {
                batch,
                tokens,
                heads,
                head_dim,
            },
            strides: Strides {
                batch: batch_stride,
                token: token_stride,
                head: head_stride,
            },
        })
    }

    /// The tensor, checked by itself.
    #[inline(always)]
    pub(crate) fn tensor(&self, name: &'static str) -> Result<TensorRecord, Failure> {
        if !self.cache.is_null() || !self.next.is_null() {
            return Err(Failure::NotATensor { name });
        }
        let element = rope_element::from_c(self.element)?;
        let layout = self.layout.layout()?;
        let (needed, len) = (layout.end(), self.len);
        if needed > len {
            return Err(Error::Shape(ShapeError::OutOfBounds { needed, len }).into());
        }
        let data = self.data;
        with_element!(element, E => { Span::<E>::new(name, data.cast_const().cast(), len)?; });
        Ok(TensorRecord {
            name,
            data,
            element,
            layout,
        })
    }
}

/// An operand that was checked by itself.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "it lies in a rope_call, or on the stack of one"
)]
pub(crate) enum OperandRecord {
    Tensor(TensorRecord),
    Slots(SlotsRecord),
    Parts(PartsRecord),
}

/// Two operands side by side, which are read anew by each step of a call: few calls have them.
#[derive(Clone, Copy)]
pub(crate) struct PartsRecord {
    name: &'static str,
    parts: [rope_operand; 2],
}

#[derive(Clone, Copy)]
pub(crate) struct TensorRecord {
    name: &'static str,
    pub(crate) data: *mut c_void,
    pub(crate) element: rope_element,
    pub(crate) layout: Layout,
}

/// A tensor whose memory was checked.
pub(crate) struct RawRecord {
    data: *mut c_void,
    /// The bytes that the layout reaches.
    pub(crate) region: Region,
    shape: Shape,
    strides: Strides,
}

impl RawRecord {
    /// The channels of a head.
    #[inline(always)]
    pub(crate) fn head_dim(&self) -> usize {
        self.shape.head_dim
    }

    /// The tensor to write.
    ///
    /// # Safety
    ///
    /// As [`TensorRecord::data_mut`].
    #[inline(always)]
    pub(crate) unsafe fn tensor<'a>(&self) -> RawTensor<'a> {
        RawTensor {
            // SAFETY: the caller promises that the elements are accessible, and that nobody else uses them during `'a`.
            memory: unsafe { elements_mut(self.data.cast(), self.region.len()) },
            shape: self.shape,
            strides: self.strides,
        }
    }
}

impl TensorRecord {
    /// The bytes that the layout reaches. Only these have to be apart from other memory: source and target may be parts
    /// of one allocation.
    #[inline]
    pub(crate) fn region(&self) -> Region {
        let bytes = self.layout.end() * self.element.size();
        Region::bytes(self.name, self.data.addr(), bytes)
    }

    /// The same tensor in other memory.
    #[inline]
    pub(crate) fn at(&self, data: *mut c_void) -> Result<Self, Failure> {
        let len = self.layout.end();
        let name = self.name;
        with_element!(self.element, E => { Span::<E>::new(name, data.cast_const().cast(), len)?; });
        Ok(TensorRecord { data, ..*self })
    }

    /// The tensor to read.
    ///
    /// # Safety
    ///
    /// The elements are there, and nobody writes them during `'a`.
    #[inline]
    pub(crate) unsafe fn read<'a, E: Element + Plain>(&self) -> Result<Tensor<'a, E>, Failure> {
        // SAFETY: the caller promises that the elements are readable, and that nobody writes them during `'a`.
        let data = unsafe { elements(self.data.cast_const().cast(), self.layout.end()) };
        Ok(Tensor::new(data, self.layout)?)
    }

    /// The elements to write.
    ///
    /// # Safety
    ///
    /// They are there, and nobody else uses them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn data_mut<'a, E: Plain>(&self) -> &'a mut [E] {
        // SAFETY: the caller promises that the elements are accessible, and that nobody else uses them during `'a`.
        unsafe { elements_mut(self.data.cast(), self.layout.end()) }
    }

    /// The tensor to write.
    ///
    /// # Safety
    ///
    /// The elements are there, and nobody else uses them during `'a`.
    #[inline]
    pub(crate) unsafe fn write<'a, E: Element + Plain>(&self) -> Result<TensorMut<'a, E>, Failure> {
        // SAFETY: the caller promises that the elements are accessible, and that nobody else uses them during `'a`.
        Ok(TensorMut::new(unsafe { self.data_mut() }, self.layout)?)
    }

    /// # Safety
    ///
    /// As [`TensorRecord::read`].
    #[inline(never)]
    unsafe fn source<'a>(&self) -> Result<AnySource<'a>, Failure> {
        // SAFETY: the caller promises that the elements are readable, and that nobody writes them during `'a`.
        unsafe {
            Ok(match self.element {
                rope_element::F32 => AnySource::F32(self.read::<f32>()?),
                rope_element::F16 => AnySource::F16(self.read::<f16>()?),
                rope_element::Bf16 => AnySource::Bf16(self.read::<bf16>()?),
            })
        }
    }

    /// # Safety
    ///
    /// As [`TensorRecord::write`].
    #[inline(never)]
    pub(crate) unsafe fn target<'a>(&self) -> Result<AnyTarget<'a>, Failure> {
        // SAFETY: the caller promises that the elements are accessible, and that nobody else uses them during `'a`.
        unsafe {
            Ok(match self.element {
                rope_element::F32 => AnyTarget::F32(self.write::<f32>()?),
                rope_element::F16 => AnyTarget::F16(self.write::<f16>()?),
                rope_element::Bf16 => AnyTarget::Bf16(self.write::<bf16>()?),
            })
        }
    }
}

impl OperandRecord {
    /// The bytes of the operand's memory and scales, and those that are read for it.
    pub(crate) fn regions(&self) -> Result<Used, Failure> {
        match self {
            OperandRecord::Tensor(x) => Ok(Used {
                memory: [x.region(), Region::NONE, Region::NONE, Region::NONE],
                read: [Region::NONE; 6],
            }),
            OperandRecord::Slots(x) => x.regions(),
            OperandRecord::Parts(x) => x.regions(),
        }
    }

    /// `ROPE_STATUS_MEMORY_OVERLAP` if the memory of a target shares a byte with what is read.
    #[inline(always)]
    pub(crate) fn written(&self, read: Region) -> Result<(), Failure> {
        match self {
            OperandRecord::Tensor(x) => x.region().apart_from(&[read]),
            OperandRecord::Slots(x) => x.written(read),
            OperandRecord::Parts(x) => x.regions()?.written_apart_from(&[read]),
        }
    }

    /// Refuses parts, for calls that have none.
    pub(crate) fn whole(&self) -> Result<(), Failure> {
        match *self {
            OperandRecord::Parts(PartsRecord { name, .. }) => Err(Failure::InParts { name }),
            _ => Ok(()),
        }
    }

    /// Runs a call with the operand as its source.
    ///
    /// # Safety
    ///
    /// All that it points to is there, and nobody writes it meanwhile.
    pub(crate) unsafe fn with_source<T>(
        &self,
        run: impl FnOnce(&AnySource<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: the caller promises that the operand's memory is readable, and that nobody writes it meanwhile.
        unsafe {
            match self {
                OperandRecord::Tensor(x) => run(&x.source()?),
                OperandRecord::Slots(x) => {
                    let cache = x.cache.read()?;
                    run(&AnySource::Slots(cache.slots(x.slots.slots()?.0)))
                }
                OperandRecord::Parts(x) => {
                    let ([first, second], mut caches) = (x.records()?, [None, None]);
                    let [room, other] = &mut caches;
                    let pair = [first.part(room)?, second.part(other)?];
                    run(&AnySource::Pair(&pair))
                }
            }
        }
    }

    /// The operand as a part of a source. `cache` is room for its cache.
    ///
    /// # Safety
    ///
    /// As [`OperandRecord::with_source`].
    unsafe fn part<'c>(&self, cache: &'c mut Option<Cache<'c>>) -> Result<AnySource<'c>, Failure> {
        // SAFETY: the caller promises that the operand's memory is readable, and that nobody writes it meanwhile.
        unsafe {
            match self {
                OperandRecord::Tensor(x) => x.source(),
                OperandRecord::Slots(x) => {
                    let cache = cache.insert(x.cache.read()?);
                    Ok(AnySource::Slots(cache.slots(x.slots.slots()?.0)))
                }
                OperandRecord::Parts(x) => Err(Failure::MoreParts { name: x.name }),
            }
        }
    }

    /// The operand as a part of a target. `cache` is room for its cache.
    ///
    /// # Safety
    ///
    /// As [`OperandRecord::with_target`].
    unsafe fn part_mut<'c, 'a: 'c>(
        &self,
        cache: &'c mut Option<CacheMut<'a>>,
    ) -> Result<AnyTarget<'c>, Failure> {
        // SAFETY: the caller promises that the operand's memory is accessible, and that nobody else uses it meanwhile.
        unsafe {
            match self {
                OperandRecord::Tensor(x) => x.target(),
                OperandRecord::Slots(x) => {
                    let cache = cache.insert(x.cache.write()?);
                    Ok(AnyTarget::Slots(cache.slots(x.slots.slots()?.0)))
                }
                OperandRecord::Parts(x) => Err(Failure::MoreParts { name: x.name }),
            }
        }
    }

    /// Runs a call with the operand as its target.
    ///
    /// # Safety
    ///
    /// All that it points to is there, and nobody else uses its memory and its scales meanwhile.
    pub(crate) unsafe fn with_target<T>(
        &self,
        run: impl FnOnce(&mut AnyTarget<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: the caller promises that the operand's memory is accessible, and that nobody else uses it or its
        // scales meanwhile.
        unsafe {
            match self {
                OperandRecord::Tensor(x) => run(&mut x.target()?),
                OperandRecord::Slots(x) => {
                    let mut cache = x.cache.write()?;
                    run(&mut AnyTarget::Slots(cache.slots(x.slots.slots()?.0)))
                }
                OperandRecord::Parts(x) => {
                    let records = x.records()?;
                    if let Some(([first, second], slots)) = in_one_memory(&records) {
                        let mut cache = first.write_parts(second)?;
                        return run(&mut AnyTarget::Parts(cache.slots(slots.slots()?.0)));
                    }
                    let ([first, second], mut caches) = (records, [None, None]);
                    let [room, other] = &mut caches;
                    let mut pair = [first.part_mut(room)?, second.part_mut(other)?];
                    run(&mut AnyTarget::Pair(&mut pair))
                }
            }
        }
    }
}

/// Two caches of one memory, and their slots.
fn in_one_memory(records: &[OperandRecord; 2]) -> Option<([&CacheRecord; 2], &rope_slots)> {
    match records {
        [OperandRecord::Slots(first), OperandRecord::Slots(second)]
            if first.cache.shares_memory(&second.cache) =>
        {
            Some(([&first.cache, &second.cache], &first.slots))
        }
        _ => None,
    }
}

impl PartsRecord {
    /// The operands, each checked by itself.
    ///
    /// # Safety
    ///
    /// As [`rope_operand::record`].
    unsafe fn records(&self) -> Result<[OperandRecord; 2], Failure> {
        let PartsRecord { name, parts } = self;
        // SAFETY: the caller promises that `cache` and `slots` of both are null or valid.
        unsafe { Ok([parts[0].record(name)?, parts[1].record(name)?]) }
    }

    /// The bytes of both operands: one memory once.
    fn regions(&self) -> Result<Used, Failure> {
        // SAFETY: the slices of the lists end here.
        let records = unsafe { self.records() }?;
        let [first, second] = [records[0].regions()?, records[1].regions()?];
        let ([memory, scales, ..], [mut other, other_scales, ..]) = (first.memory, second.memory);
        if in_one_memory(&records).is_some() {
            other = Region::NONE;
        }
        let [a, b, c, d, given, _] = first.read;
        Ok(Used {
            memory: [memory, scales, other, other_scales],
            read: [a, b, c, d, given, second.read[4]],
        })
    }
}
