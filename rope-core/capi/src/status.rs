//! The status of a call.

use core::ffi::{CStr, c_char};

use rope_core::Error;
use rope_core::error::{
    CacheError as Cache, FrequenciesError as Frequencies, GradientError as Gradient,
    PlanError as Plan, PositionsError as Positions, RowsError as Rows, ShapeError as Shape,
    ShardError as Shard, SlotsError as Slots,
};
use rope_core::internals::ERRORS;

use crate::failure::Failure;
use crate::names::lookup;

/// The result of a call. A refused call has touched no tensor.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum rope_status {
    /// Done.
    Ok = 0,
    /// A pointer is NULL where memory is needed.
    Null = 1,
    /// A pointer is not a multiple of the alignment of its type.
    Misaligned = 2,
    /// A length is more than an address space can hold, or runs past its end.
    Length = 3,
    /// An integer names no value of its enumeration, or a value that has no meaning here.
    UnknownValue = 4,
    /// Memory that a call writes overlaps other memory that it reads or writes.
    MemoryOverlap = 5,
    /// A pointer is to no handle of this library, or to one of another kind than the call takes.
    Handle = 6,
    /// The allocator has no memory.
    OutOfMemory = 7,
    /// A bug of the library, caught. The tensor that the call was writing may be half written.
    Internal = 8,
    /// Text is not UTF-8.
    Utf8 = 9,
    /// A range of positions ends beyond 2^63.
    PositionRange = 10,
    /// The index of the last element of a tensor does not fit size_t.
    ShapeOverflow = 20,
    /// A layout reaches past the memory of the tensor or cache.
    OutOfBounds = 21,
    /// Two indices of a tensor that is written could name one element.
    Overlap = 22,
    /// rotary_dim is odd, zero or too large, or the scaling, the axes or the plan's parts need another.
    RotaryDim = 23,
    /// The rows rotate more channels than a head has, from the first that rotates on.
    RotaryDimExceedsHead = 24,
    /// Values are not a whole number of rows.
    RowsLength = 25,
    /// A row of cos has neither a value for each pair nor each of them twice.
    RowWidth = 26,
    /// Neither one row per token nor one per token of every sequence.
    RowCount = 27,
    /// The number of rows is not a multiple of the number of heads.
    RowsPerHead = 65,
    /// Rows per head belong to another number of heads.
    RowHeads = 66,
    /// Strided rows belong to other sequences, or they lie as sequences that are no table.
    RowSequences = 67,
    /// ROPE_DIRECTION_INVERSE: a pair of the rows has another magnitude than the attention factor.
    RowMagnitude = 68,
    /// No floats undo a pair of the rows.
    NoInverse = 69,
    /// An id names no row of the table.
    PositionOutsideTable = 28,
    /// An attention factor is zero, infinite or not a number.
    AttentionFactor = 29,
    /// A plan that changes the pairing was to work in place.
    PairingChangesInPlace = 30,
    /// Source and target have different shapes.
    ShapeMismatch = 31,
    /// Q and K differ in more than their heads.
    QueryKeyMismatch = 32,
    /// This CPU, or this build, lacks the instruction set.
    BackendUnavailable = 33,
    /// A base, factor or other number makes no sense.
    Parameter = 34,
    /// A list with one number for each pair has another length.
    Count = 35,
    /// Storage is too short.
    Storage = 36,
    /// One position would rotate a pair by 32768 turns or more.
    TooFast = 37,
    /// The axes do not add up.
    Axes = 38,
    /// Sections of M-RoPE do not sum to the pairs of rotary_dim.
    Sections = 70,
    /// Positions are not one for each axis of a token: a list does not divide by the number of axes, or mixed
    /// frequencies on several axes got one number per token.
    PositionsPerAxis = 39,
    /// A coordinate is not a number, or beyond 2^63.
    Coordinate = 40,
    /// Offsets of packed sequences do not start at 0, or fall.
    Offsets = 41,
    /// Rows of more bytes than memory can have.
    RowsTooLong = 42,
    /// A row has more than 2048 values, too many for a call that makes rows on the stack.
    RotaryDimOnStack = 43,
    /// A configuration is not JSON, or not an object.
    Json = 44,
    /// A key of a configuration is missing, and has no known default.
    Missing = 45,
    /// A key of a configuration has a value of another type or outside of its range.
    Invalid = 46,
    /// A name in a configuration stands for no known variant.
    Unknown = 47,
    /// A configuration has no part, or no type of layers, of the name that was chosen.
    NoSuch = 75,
    /// The heads are neither whole heads of the model nor the channels of them that rotate.
    ModelHead = 77,
    /// A configuration holds several answers, and none was chosen.
    Ambiguous = 48,
    /// A model rotates in a way that is not answered.
    Unsupported = 49,
    /// Nothing of a model rotates, or nothing of the chosen part or layers.
    NothingRotates = 84,
    /// A model has no rotation of its own, but its parts have, and none was chosen.
    ChoosePart = 85,
    /// A row of cos or sin that should keep each value twice, in two halves that are the same, does not.
    HalvesDiffer = 50,
    /// The last row of joined cos and sin has the same values in both halves: it is `cat(freqs, freqs)` of cos or of
    /// sin alone, which rope_rows_apart takes.
    HalvesEqual = 71,
    /// A configuration has a key about the rotation that the model's code ignores.
    Unread = 51,
    /// The strides of a cache make no cache, or none for its format.
    CacheLayout = 52,
    /// The tensor and the cache have different heads.
    CacheHeads = 53,
    /// The parts of an operand share bytes, differ in more than their channels, or divide a head at other channels than
    /// the other operand; or the plan has a stage on whole heads.
    Parts = 97,
    /// Not one slot for each token of each sequence.
    SlotCount = 54,
    /// A slot or a page that the cache does not have.
    Slot = 55,
    /// Two moves of slots within a cache write one slot.
    SameTarget = 91,
    /// Neither the order of moves within a cache nor its reverse reads each slot before it is written.
    MoveOrder = 92,
    /// From its offset a token would reach past the cache.
    SlotOffset = 56,
    /// A position that its sequence has no page for, or a sequence that is not there.
    PagePosition = 57,
    /// A head does not fit the stack: it has more than 2048 channels.
    HeadDimOnStack = 58,
    /// Full-width rows, which are no rotation, were given to an operation of rotations.
    FullWidthRows = 81,
    /// There is no such rank.
    Rank = 82,
    /// Tokens that a shard cannot deal out evenly.
    ShardTokens = 83,
    /// The page of a position that exists is negative.
    NegativePage = 86,
    /// Rows with an attention factor, which cached keys have already, were given to a shift.
    ShiftFactor = 87,
    /// A norm whose formula has weights was given none.
    WeightMissing = 76,
    /// A norm whose formula has no weights was given some.
    WeightUnused = 72,
    /// A norm that is centered was given sums.
    CenteredSums = 59,
    /// A block of a Hadamard transform is no power of two from 2 to 2048.
    HadamardBlock = 78,
    /// The block of a Hadamard transform does not divide a head.
    HadamardHead = 79,
    /// A rotation in a cache, or a backward pass, of a plan with a norm.
    NotLinear = 80,
    /// Keys were to be moved between positions that are coordinates.
    NoInteger = 60,
    /// A backward pass of a plan that does not rotate forward.
    BackwardDirection = 61,
    /// A plan that changes the pairing has no gradients of cos and sin.
    GradientPairing = 73,
    /// Gradients have neither one head nor the heads of the tensor.
    GradientHeads = 62,
    /// Gradients have another shape than the rows, or than other gradients.
    GradientShape = 63,
    /// cos and sin of a row are both zero.
    RowOfZeros = 64,
    /// An operand is a cache, and the call takes tensors.
    Operand = 89,
    /// Angles are frequencies at positions, and the call takes rows.
    Angles = 90,
    /// The bytes are no GGUF file, or do not have what its rotation depends on.
    Gguf = 88,
    /// A slot of a rotation in place belongs to two tokens whose rows differ.
    SlotRepeated = 96,
    /// Slots that share scales by channel, of which a call would write, shift or move a part.
    PartOfGroup = 98,
    /// A member of rope_call_memory names memory that the prepared call does not use.
    UnusedMemory = 95,
    /// Refused by rope-core for a reason that this header has no name for.
    Refused = 99,
}

/// Generates the facts of a status from one list: its sentence, the errors of rope-core that it stands for, and the
/// errors of rope-models after an arrow.
///
/// The enumeration above is written out because cbindgen reads it, and it expands no macro. The compiler holds the
/// list to the enumeration, and to the errors of both crates.
macro_rules! statuses {
    ($($status:ident = $message:literal $(: $($error:ident $(:: $of_group:ident)?)+)? $(=> $($of_model:ident)+)?,)+) => {
        lookup!(rope_status, "status": $($status)+);

        impl rope_status {
            fn message(self) -> &'static CStr {
                match self {
                    $(rope_status::$status => $message,)+
                }
            }

            fn of_core(error: Error) -> Self {
                match error {
                    $($($(of_error!($error $($of_group)?) => rope_status::$status,)+)?)+
                    // The compiler asks for this because `Error` may grow. The assertion below refuses to compile when
                    // it has.
                    _ => rope_status::Refused,
                }
            }

            #[cfg(feature = "models")]
            fn of_model(error: &rope_models::Error) -> Self {
                match error {
                    rope_models::Error::Rope(error) => rope_status::of_core(*error),
                    $($($(rope_models::Error::$of_model { .. } => rope_status::$status,)+)?)+
                    _ => rope_status::Refused,
                }
            }
        }

        // The list names every error. (Of one that it names twice, the compiler says that an arm is unreachable.)
        const _: () = assert!(
            [$($($(stringify!($error)),+,)?)+].len() == number_of_errors(),
            "an error of rope-core has no status: give it one in the list below"
        );
        #[cfg(feature = "models")]
        const _: () = assert!(
            [$($($(stringify!($of_model)),+,)?)+].len() == rope_models::Error::NAMES.len(),
            "an error of rope-models has no status: give it one in the list below"
        );
    };
}

/// The pattern of an error: `of_error!(Storage)`, or with its group `of_error!(Rows Count)`.
macro_rules! of_error {
    ($error:ident) => {
        Error::$error { .. }
    };
    ($group:ident $error:ident) => {
        Error::$group($group::$error { .. })
    };
}

/// The number of rope-core's errors.
const fn number_of_errors() -> usize {
    let (mut number, mut i) = (0, 0);
    while i < ERRORS.len() {
        number += ERRORS[i].1.len();
        i += 1;
    }
    number
}

statuses! {
    Ok = c"done",
    Null = c"a pointer is null",
    Misaligned = c"a pointer is misaligned",
    Length = c"a length is more than an address space can hold",
    UnknownValue = c"an integer names no value of its enumeration",
    MemoryOverlap = c"memory that the call writes overlaps other memory that it reads or writes",
    Handle = c"not a handle of this library, or not of the kind that the call takes",
    OutOfMemory = c"out of memory": OutOfMemory,
    Internal = c"an internal error: please report it",
    Utf8 = c"text is not UTF-8",
    PositionRange = c"a range of positions ends beyond 2^63",
    ShapeOverflow = c"the index of a tensor's last element does not fit size_t": Shape::Overflow Shape::StrideOverflow,
    OutOfBounds = c"a layout reaches past the memory of the tensor or cache": Shape::OutOfBounds Cache::Memory,
    Overlap = c"strides let elements overlap that must be distinct": Shape::Overlap,
    RotaryDim = c"rotary_dim is odd, zero or too large, or not what the scaling, the axes or the parts need": Rows::RotaryDim Rows::Parts,
    RotaryDimExceedsHead = c"the rows rotate more channels than a head has, or begin beyond it": Rows::RotaryDimExceedsHead Rows::Window Shape::Range,
    RowsLength = c"the values are not a whole number of rows": Rows::CosSinLength Rows::Shape,
    RowWidth = c"a row of cos has neither a value for each pair nor each of them twice": Rows::Width,
    RowCount = c"neither one row per token nor one per token of every sequence": Rows::Count,
    RowsPerHead = c"the number of rows is not a multiple of the number of heads": Rows::PerHead,
    RowHeads = c"rows per head belong to another number of heads": Rows::Heads,
    RowSequences = c"strided rows belong to other sequences, or are no table": Rows::Sequences,
    RowMagnitude = c"a pair of the rows has another magnitude than the attention factor": Rows::Magnitude,
    NoInverse = c"no floats undo a pair of the rows": Rows::NoInverse,
    PositionOutsideTable = c"a position id names no row of the table": Rows::PositionOutsideTable,
    AttentionFactor = c"an attention factor is zero, infinite or not a number": Rows::AttentionFactor,
    PairingChangesInPlace = c"in place the pairing cannot change": Plan::PairingChangesInPlace,
    ShapeMismatch = c"source and target have different shapes": Shape::Mismatch,
    QueryKeyMismatch = c"Q and K differ in more than their heads": Shape::QueryKeyMismatch,
    BackendUnavailable = c"this CPU, or this build, lacks the instruction set": Plan::BackendUnavailable,
    Parameter = c"a base, factor or other number makes no sense": Parameter ListEntry,
    Count = c"a list with one number for each pair (or sequence) has another length": Count,
    Storage = c"the storage is too short": Storage,
    TooFast = c"one position would rotate a pair by 32768 turns or more": Frequencies::TurnsPerPosition,
    Axes = c"the axes do not add up": Frequencies::Axes,
    Sections = c"the sections of M-RoPE do not sum to the pairs of rotary_dim": Frequencies::Sections,
    PositionsPerAxis = c"positions are not one for each axis of a token": Positions::PerAxis,
    Coordinate = c"a coordinate is not a number, or beyond 2^63": Positions::Coordinate,
    Offsets = c"offsets of packed sequences do not start at 0, or fall": Positions::Offsets,
    RowsTooLong = c"rows of more bytes than memory can have": Frequencies::RowsTooLong,
    RotaryDimOnStack = c"a row has more values than fit on the stack": Frequencies::RotaryDimOnStack,
    Json = c"a configuration is not a JSON object" => Json,
    Missing = c"a key of a configuration is missing, and has no known default" => Missing,
    Invalid = c"a key of a configuration has a value that it cannot have" => Invalid,
    Unknown = c"a name in a configuration stands for nothing known" => Unknown,
    NoSuch = c"a configuration has no part or type of layers of that name" => NoSuch,
    ModelHead = c"the heads are neither whole heads of the model nor the channels of them that rotate": Plan::HeadDim
        => ModelHead,
    Ambiguous = c"a configuration holds several answers, and none was chosen" => Ambiguous,
    Unsupported = c"the model rotates in a way that is not answered" => Unsupported,
    NothingRotates = c"nothing of the model rotates" => NothingRotates,
    ChoosePart = c"the model has parts that rotate, and none was chosen" => ChoosePart,
    HalvesDiffer = c"a row that should keep each value twice has two halves that differ": Rows::HalvesDiffer,
    HalvesEqual = c"a row of cos and sin has the same values in both of its halves": Rows::HalvesEqual,
    Unread = c"a key of a configuration is not obeyed by the model's code" => Unread,
    CacheLayout = c"the strides of a cache describe no cache, or none for its format": Cache::Layout Cache::Overlap
        Cache::TooLarge Cache::Channels Cache::ChannelsApart Cache::ScaleAmongCodes Cache::ScaleRoom
        Cache::PartOfBlock,
    CacheHeads = c"the heads of the tensor and of the cache differ in number or channels": Cache::Heads,
    Parts = c"the parts of an operand share bytes, differ, or do not fit the call": Cache::PartOverlap Cache::PartDivided
        Shape::Part Plan::StagesInParts Plan::PartsOnStack,
    SlotCount = c"not one slot for each token of each sequence": Slots::Count,
    Slot = c"a slot or a page is outside the cache": Slots::Slot Slots::Page,
    SameTarget = c"two moves write one slot": Slots::SameTarget,
    MoveOrder = c"neither order of the moves reads each slot before it is written": Slots::MoveOrder,
    PartOfGroup = c"a call writes, shifts or moves a part of a group of slots that share scales by channel": Slots::PartOfGroup,
    SlotRepeated = c"a slot of a rotation in place has two tokens with different rows": Slots::Repeated,
    SlotOffset = c"from its offset a token would reach past the cache": Slots::Offset,
    PagePosition = c"a position is beyond the pages of its sequence": Slots::PagePosition,
    NegativePage = c"the page of a position that exists is negative": Slots::NegativePage,
    HeadDimOnStack = c"a head has more channels than fit on the stack": Shape::HeadDimOnStack,
    FullWidthRows = c"full-width rows are no rotation": Rows::FullWidth,
    ShiftFactor = c"cached keys have the attention factor that the rows of a shift have": Cache::ShiftFactor,
    Rank = c"there is no such rank": Shard::Rank,
    ShardTokens = c"the tokens of a sequence cannot be divided evenly among the ranks": Shard::Tokens,
    WeightMissing = c"the norm's formula has weights, and none were given": Plan::WeightMissing,
    WeightUnused = c"the norm's formula has no weights, and some were given": Plan::WeightUnused,
    CenteredSums = c"a norm that is centered takes no given sums": Plan::CenteredSums,
    HadamardBlock = c"a block of a Hadamard transform is no power of two from 2 to 2048": Plan::HadamardBlock,
    HadamardHead = c"the block of a Hadamard transform does not divide a head": Plan::HadamardHead,
    NotLinear = c"a plan with a norm has neither a shift nor a backward pass": Plan::NormInCache,
    NoInteger = c"keys are moved between integer positions, not coordinates": Positions::NotAnInteger Positions::DualChunk,
    BackwardDirection = c"a backward pass takes a plan that rotates forward": Gradient::Direction,
    GradientPairing = c"gradients of cos and sin require a plan with one pairing": Gradient::Pairing,
    GradientHeads = c"gradients have one head, or the heads of the tensor": Gradient::Heads,
    GradientShape = c"gradients have the shape of the rows, and of other gradients": Gradient::Shape,
    Operand = c"the call takes tensors, and an operand is a cache",
    Angles = c"the call takes rows, and the angles are frequencies at positions",
    RowOfZeros = c"cos and sin of a row are both zero": Gradient::RowOfZeros,
    Gguf = c"the bytes are no GGUF file, or do not have what its rotation depends on"
        => GgufFile TensorData SplitFile,
    UnusedMemory = c"memory is given that the prepared call does not use",
    // No call of this API meets these.
    Refused = c"refused": ShapeElements Shape::PartsInterleave Rows::AlreadyGathered Rows::Range
        => FreqFactors,
}

/// Returns the meaning of a status (`enum rope_status`) in one sentence, for any other number a sentence about unknown
/// statuses. The text is static; do not free it.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_error_message(status: i32) -> *const c_char {
    let message = match rope_status::from_c(status) {
        Ok(status) => status.message(),
        Err(_) => c"not a status of this library",
    };
    message.as_ptr()
}

impl Failure {
    fn status(&self) -> rope_status {
        match self {
            Failure::Core(error) => rope_status::of_core(*error),
            #[cfg(feature = "models")]
            Failure::Model(error) => rope_status::of_model(error),
            Failure::Null { .. } => rope_status::Null,
            Failure::Misaligned { .. } => rope_status::Misaligned,
            Failure::Length { .. } => rope_status::Length,
            Failure::UnknownValue { .. } => rope_status::UnknownValue,
            Failure::MemoryOverlap { .. } => rope_status::MemoryOverlap,
            Failure::Handle { .. } => rope_status::Handle,
            #[cfg(feature = "std")]
            Failure::OutOfMemory { .. } => rope_status::OutOfMemory,
            #[cfg(feature = "std")]
            Failure::Internal => rope_status::Internal,
            #[cfg(feature = "models")]
            Failure::Utf8 { .. } => rope_status::Utf8,
            #[cfg(feature = "models")]
            Failure::ModelHead { .. } => rope_status::ModelHead,
            Failure::PositionRange { .. } => rope_status::PositionRange,
            Failure::NotLinear => rope_status::NotLinear,
            Failure::NotATensor { .. } => rope_status::Operand,
            Failure::MoreParts { .. } => rope_status::Parts,
            Failure::NotRows => rope_status::Angles,
            Failure::UnusedMemory { .. } => rope_status::UnusedMemory,
        }
    }
}

/// Runs a call, and makes a status of its result. No panic leaves it. (There should be none. Without std a panic
/// ends in the handler.)
#[inline]
pub(crate) fn status_of(call: impl FnOnce() -> Result<(), Failure>) -> rope_status {
    // The status crosses the boundary of unwinding: a refusal would be copied there.
    let status = || match call() {
        Ok(()) => rope_status::Ok,
        Err(failure) => refused(failure),
    };
    #[cfg(feature = "std")]
    return std::panic::catch_unwind(core::panic::AssertUnwindSafe(status))
        .unwrap_or_else(|_| refused(Failure::Internal));
    #[cfg(not(feature = "std"))]
    status()
}

#[cold]
fn refused(failure: Failure) -> rope_status {
    let status = failure.status();
    #[cfg(feature = "std")]
    // A thread that is ending may have dropped its place for the failure.
    let _ = last::LAST.try_with(|last| last.set(Some(failure)));
    status
}

#[cfg(feature = "std")]
mod last {
    use core::cell::Cell;
    use core::ffi::c_char;
    use core::fmt::Write;

    use super::{rope_status, status_of};
    use crate::failure::Failure;
    use crate::memory::SpanMut;

    std::thread_local! {
        pub(super) static LAST: Cell<Option<Failure>> = const { Cell::new(None) };
    }

    /// Writes the last refusal of this thread to `buffer`, in words and with the values that were in the way:
    /// "position id 9 (at index 2) is outside the table's 0..8". The text is empty if no call was refused. It ends
    /// with a NUL, and is cut at `size` bytes.
    ///
    /// The status alone says what went wrong. The text is for people, and its wording may change.
    ///
    /// Returns ROPE_STATUS_NULL, ROPE_STATUS_LENGTH.
    ///
    /// # Threads
    ///
    /// May be called from any thread at any time. Every thread has its own last refusal.
    ///
    /// # Safety
    ///
    /// `buffer` is NULL or points to `size` writable bytes.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_error_detail(buffer: *mut c_char, size: usize) -> rope_status {
        status_of(|| {
            let text = SpanMut::new("buffer", buffer.cast::<u8>(), size)?;
            // SAFETY: the caller promises that `buffer` is null or has `size` writable bytes.
            let text = unsafe { text.get(&[]) }?;
            let Some((end, room)) = text.split_last_mut() else {
                return Ok(());
            };
            *end = 0;
            let mut writer = Cut { room, used: 0 };
            let _ = LAST.try_with(|last| {
                let failure = last.take();
                if let Some(failure) = &failure {
                    // It fails where the text is cut: as much is written as fits.
                    let _ = write!(writer, "{failure}");
                }
                last.set(failure);
            });
            let Cut { room, used } = writer;
            if let Some(after) = room.get_mut(used) {
                *after = 0;
            }
            Ok(())
        })
    }

    /// Takes whole characters as long as they fit, and nothing after that.
    struct Cut<'a> {
        room: &'a mut [u8],
        used: usize,
    }

    impl Write for Cut<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            for character in text.chars() {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).as_bytes();
                let end = self.used + bytes.len();
                let room = self.room.get_mut(self.used..end).ok_or(core::fmt::Error)?;
                room.copy_from_slice(bytes);
                self.used = end;
            }
            Ok(())
        }
    }
}
#[cfg(feature = "std")]
pub use last::rope_error_detail;
