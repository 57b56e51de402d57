//! Operands: a tensor, slots of a cache, or two of these side by side.

use core::ffi::c_void;

use half::{bf16, f16};
use rope_core::cache::{Cache, CacheMut, CachePartsMut, Slots};
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

/// Fills in the layout of a tensor without gaps. `order` names the order of its dimensions in memory
/// (`enum rope_order`); the extents are always sequences, tokens, heads and channels.
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
        // SAFETY: the caller promises that `next` is null or valid.
        let mut second = unsafe { read("next", self.next)? };
        if !second.next.is_null() {
            return Err(Failure::MoreParts { name });
        }
        if !self.cache.is_null() {
            second.slots = self.slots;
        }
        let first = rope_operand {
            next: core::ptr::null(),
            ..*self
        };
        let mut slots = None;
        let mut part = |operand: &rope_operand| {
            if operand.cache.is_null() {
                return Ok::<_, Failure>(PartRecord::Tensor(operand.tensor(name)?));
            }
            // SAFETY: the caller promises that `cache` and `slots` of both parts are null or valid.
            let record = unsafe { operand.slots() }?;
            slots.get_or_insert(record.slots);
            Ok(PartRecord::Cache(record.cache))
        };
        let parts = [part(&first)?, part(&second)?];
        Ok(OperandRecord::Parts(PartsRecord { parts, slots }))
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

/// Two operands side by side.
#[derive(Clone, Copy)]
pub(crate) struct PartsRecord {
    parts: [PartRecord; 2],
    /// The slots of the parts that are caches.
    slots: Option<rope_slots>,
}

#[derive(Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "it lies in a rope_call")]
enum PartRecord {
    Tensor(TensorRecord),
    Cache(CacheRecord),
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
            OperandRecord::Tensor(x) => {
                let mut memory = [Region::NONE; 6];
                memory[0] = x.region();
                Ok(Used {
                    memory,
                    read: [Region::NONE; 6],
                })
            }
            OperandRecord::Slots(x) => x.regions(),
            OperandRecord::Parts(x) => x.regions(),
        }
    }

    /// Returns `ROPE_STATUS_MEMORY_OVERLAP` if the memory of a target shares a byte with `read`.
    #[inline(always)]
    pub(crate) fn written(&self, read: Region) -> Result<(), Failure> {
        match self {
            OperandRecord::Tensor(x) => x.region().apart_from(&[read]),
            OperandRecord::Slots(x) => x.written(read),
            OperandRecord::Parts(x) => x.regions()?.written_apart_from(&[read]),
        }
    }

    /// The same operand in other memory: the data of both parts, the slots, and the scales and zero points of both
    /// parts.
    ///
    /// # Safety
    ///
    /// Pointers, also those in structs, are null or valid.
    pub(crate) unsafe fn at(
        &self,
        [data, next]: [*mut c_void; 2],
        slots: Option<rope_slots>,
        [scales, next_scales]: [[*mut c_void; 2]; 2],
    ) -> Result<Self, Failure> {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid.
        unsafe {
            Ok(match self {
                OperandRecord::Tensor(x) => OperandRecord::Tensor(x.at(data)?),
                OperandRecord::Slots(x) => OperandRecord::Slots(x.at(data, slots, scales)?),
                OperandRecord::Parts(x) => {
                    let next = if x.in_one_memory() { data } else { next };
                    let [first, second] = &x.parts;
                    OperandRecord::Parts(PartsRecord {
                        parts: [first.at(data, scales)?, second.at(next, next_scales)?],
                        slots: slots.or(x.slots),
                    })
                }
            })
        }
    }

    /// Returns true for an operand with slots.
    pub(crate) fn has_slots(&self) -> bool {
        match self {
            OperandRecord::Tensor(_) => false,
            OperandRecord::Slots(_) => true,
            OperandRecord::Parts(x) => x.slots.is_some(),
        }
    }

    /// Returns true for each part with computed scales in memory of their own, and for each with such zero points.
    pub(crate) fn has_scales(&self) -> [[bool; 2]; 2] {
        let of = |cache: &CacheRecord| [cache.has_scales(), cache.has_zeros()];
        match self {
            OperandRecord::Tensor(_) => [[false; 2]; 2],
            OperandRecord::Slots(x) => [of(&x.cache), [false; 2]],
            OperandRecord::Parts(x) => x.parts.map(|part| match &part {
                PartRecord::Tensor(_) => [false; 2],
                PartRecord::Cache(cache) => of(cache),
            }),
        }
    }

    /// Returns true for an operand with a second part in memory of its own.
    pub(crate) fn has_next(&self) -> bool {
        match self {
            OperandRecord::Tensor(_) | OperandRecord::Slots(_) => false,
            OperandRecord::Parts(x) => !x.in_one_memory(),
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
                    let [first, second] = &x.parts;
                    let mut caches = [None, None];
                    let [room, other] = &mut caches;
                    let pair = [first.source(room, x)?, second.source(other, x)?];
                    run(&AnySource::Pair(&pair))
                }
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
                    let (mut caches, mut pair) = (PartsRoom::default(), None);
                    run(&mut x.target(&mut caches, &mut pair)?)
                }
            }
        }
    }
}

/// Room for the caches of a target in parts: one of both parts, or one of each.
#[derive(Default)]
pub(crate) struct PartsRoom<'a> {
    both: Option<CachePartsMut<'a, 2>>,
    each: [Option<CacheMut<'a>>; 2],
}

impl PartRecord {
    /// # Safety
    ///
    /// As [`OperandRecord::at`].
    unsafe fn at(&self, data: *mut c_void, scales: [*mut c_void; 2]) -> Result<Self, Failure> {
        Ok(match self {
            PartRecord::Tensor(x) => PartRecord::Tensor(x.at(data)?),
            // SAFETY: the caller promises that the memory of the cache is null or there.
            PartRecord::Cache(cache) => PartRecord::Cache(unsafe { cache.at(data, scales) }?),
        })
    }

    /// The part as a source. `room` is for its cache.
    ///
    /// # Safety
    ///
    /// As [`OperandRecord::with_source`].
    unsafe fn source<'c>(
        &self,
        room: &'c mut Option<Cache<'c>>,
        of: &PartsRecord,
    ) -> Result<AnySource<'c>, Failure> {
        // SAFETY: the caller promises that the operand's memory is readable, and that nobody writes it meanwhile.
        unsafe {
            match self {
                PartRecord::Tensor(x) => x.source(),
                PartRecord::Cache(cache) => {
                    let cache = room.insert(cache.read()?);
                    Ok(AnySource::Slots(cache.slots(of.slots()?)))
                }
            }
        }
    }

    /// The part as a target. `room` is for its cache.
    ///
    /// # Safety
    ///
    /// As [`OperandRecord::with_target`].
    unsafe fn target<'c, 'a: 'c>(
        &self,
        room: &'c mut Option<CacheMut<'a>>,
        of: &PartsRecord,
    ) -> Result<AnyTarget<'c>, Failure> {
        // SAFETY: the caller promises that the operand's memory is accessible, and that nobody else uses it meanwhile.
        unsafe {
            match self {
                PartRecord::Tensor(x) => x.target(),
                PartRecord::Cache(cache) => {
                    let cache = room.insert(cache.write()?);
                    Ok(AnyTarget::Slots(cache.slots(of.slots()?)))
                }
            }
        }
    }
}

impl PartsRecord {
    /// The slots of the parts that are caches.
    ///
    /// # Safety
    ///
    /// The lists of the slots are readable, and nobody writes them during `'c`.
    unsafe fn slots<'c>(&self) -> Result<Slots<'c>, Failure> {
        let slots = self.slots.as_ref().ok_or(Failure::Null { name: "slots" })?;
        // SAFETY: the caller promises that the lists are readable, and that nobody writes them during `'c`.
        Ok(unsafe { slots.slots() }?.0)
    }

    /// Returns two caches of one memory.
    fn both(&self) -> Option<[&CacheRecord; 2]> {
        match &self.parts {
            [PartRecord::Cache(first), PartRecord::Cache(second)]
                if first.shares_memory(second) =>
            {
                Some([first, second])
            }
            _ => None,
        }
    }

    fn in_one_memory(&self) -> bool {
        self.both().is_some()
    }

    /// The parts as a target, in room for their caches and their operands.
    ///
    /// # Safety
    ///
    /// As [`OperandRecord::with_target`].
    pub(crate) unsafe fn target<'c, 'a: 'c>(
        &self,
        room: &'c mut PartsRoom<'a>,
        pair: &'c mut Option<[AnyTarget<'c>; 2]>,
    ) -> Result<AnyTarget<'c>, Failure> {
        // SAFETY: the caller promises that the operand's memory is accessible, and that nobody else uses it meanwhile.
        unsafe {
            if let Some([first, second]) = self.both() {
                let cache = room.both.insert(first.write_parts(second)?);
                return Ok(AnyTarget::Parts(cache.slots(self.slots()?)));
            }
            let ([first, second], [room, other]) = (&self.parts, &mut room.each);
            let operands = [first.target(room, self)?, second.target(other, self)?];
            Ok(AnyTarget::Pair(pair.insert(operands)))
        }
    }

    /// The bytes of both operands: one memory once.
    fn regions(&self) -> Result<Used, Failure> {
        let (mut memory, mut read) = ([Region::NONE; 6], [Region::NONE; 6]);
        for (index, part) in self.parts.iter().enumerate() {
            let (of_part, given) = match part {
                PartRecord::Tensor(x) => ([x.region(), Region::NONE, Region::NONE], Region::NONE),
                PartRecord::Cache(cache) => cache.regions()?,
            };
            memory[3 * index..][..3].copy_from_slice(&of_part);
            read[4 + index] = given;
        }
        if self.in_one_memory() {
            memory[3] = Region::NONE;
        }
        if let Some(slots) = &self.slots {
            // SAFETY: the slices of the lists end here.
            read[..4].copy_from_slice(&unsafe { slots.slots() }?.1);
        }
        Ok(Used { memory, read })
    }
}
