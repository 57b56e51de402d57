//! Where tokens are.

use core::ffi::c_void;

use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::shard::{Shard, ShardKind, ShardTokens};
use rope_core::{Coordinates, Ids, Numbers, Positions};

use crate::failure::Failure;
use crate::memory::{Out, Plain, Region, Span, SpanMut, plain, read};
use crate::names::{INTEGERS, lookup, rope_number};
use crate::status::{rope_status, status_of};

/// The form of a list of positions.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_positions_kind {
    /// `count` consecutive positions from `first` on, the same on all axes. Mixed frequencies on several axes refuse
    /// it, and all other kinds with one number per token.
    Range = 2201,
    /// One number per token, the same on all axes.
    PerToken = 2202,
    /// All tokens' numbers on axis 0, then all on axis 1 (Hugging Face's [3, batch * tokens], ggml's).
    AxisMajor = 2203,
    /// All numbers of token 0, then all of token 1.
    TokenMajor = 2204,
    /// Sequences packed one after another: the values are offsets, and sequence s has the tokens `values[s]`
    /// to `values[s + 1]` (FlashAttention's cu_seqlens). Integers only.
    Packed = 2205,
    /// The tokens of rank `rank` of `ranks` (context parallelism), and of the kinds below: `rank * n / ranks` to
    /// `(rank + 1) * n / ranks` of `n`, a multiple of `ranks` (Llama 3's all-gather). Without values it is one sequence
    /// of `count` tokens; with values these are the offsets of packed sequences, as for PACKED.
    ContiguousShard = 2206,
    /// Chunk `rank` and then chunk `2 * ranks - 1 - rank` of `2 * ranks` (Megatron-LM, Transformer Engine). Packed
    /// sequences are divided one by one, each of a multiple of `2 * ranks` tokens (cu_seqlens_padded).
    ZigzagShard = 2207,
    /// The same of any number of tokens, the first chunks one longer; of packed sequences first the early chunks of
    /// all, then the late ones (sglang).
    UnevenZigzagShard = 2208,
    /// `rank`, `rank + ranks`, .. (Striped Attention); of packed sequences the whole buffer.
    StripedShard = 2209,
}
lookup!(
    rope_positions_kind,
    "kind of positions": Range PerToken AxisMajor TokenMajor Packed ContiguousShard ZigzagShard UnevenZigzagShard
        StripedShard
);

impl rope_positions_kind {
    /// Returns the division of tokens among ranks, if this kind is one.
    fn shard(self) -> Option<ShardKind> {
        match self {
            Self::ContiguousShard => Some(ShardKind::Contiguous),
            Self::ZigzagShard => Some(ShardKind::Zigzag),
            Self::UnevenZigzagShard => Some(ShardKind::UnevenZigzag),
            Self::StripedShard => Some(ShardKind::Striped),
            _ => None,
        }
    }
}

/// Which position id Dual Chunk Attention gives a token (Qwen2.5-1M). With `L = chunk_size - local_size`, at position
/// `p`:
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_dual_chunk_query {
    /// `p mod L`: of queries beside keys of their own chunk, and of keys.
    Intra = 2301,
    /// `min(p mod L + L, chunk_size)`: of queries beside keys of the chunk before.
    Succ = 2302,
    /// `min(2 L - 1, chunk_size)`: of queries beside keys of earlier chunks, all the same.
    Inter = 2303,
    /// `p mod L + L`: of the estimate for the chunk before.
    SuccCritical = 2304,
    /// `p mod L + chunk_size`: of the estimate for earlier chunks.
    InterCritical = 2305,
}
lookup!(
    rope_dual_chunk_query,
    "position of dual chunk attention": Intra Succ Inter SuccCritical InterCritical
);

/// The position ids of Dual Chunk Attention, of integer positions. All zero: the positions themselves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_dual_chunk {
    /// Which of them (`enum rope_dual_chunk_query`); 0: none.
    pub query: i32,
    /// Tokens of a chunk.
    pub chunk_size: usize,
    /// Tokens at the end of a chunk that the next one has too.
    pub local_size: usize,
}
plain!(rope_dual_chunk);

impl rope_dual_chunk {
    const NONE: Self = rope_dual_chunk {
        query: 0,
        chunk_size: 0,
        local_size: 0,
    };

    /// Positions as it numbers them.
    fn of<'a>(&self, positions: Positions<'a>) -> Result<Positions<'a>, Failure> {
        if self.query == 0 {
            return Ok(positions);
        }
        let query = match rope_dual_chunk_query::from_c(self.query)? {
            rope_dual_chunk_query::Intra => DualChunkQuery::Intra,
            rope_dual_chunk_query::Succ => DualChunkQuery::Succ,
            rope_dual_chunk_query::Inter => DualChunkQuery::Inter,
            rope_dual_chunk_query::SuccCritical => DualChunkQuery::SuccCritical,
            rope_dual_chunk_query::InterCritical => DualChunkQuery::InterCritical,
        };
        let chunks = DualChunk::new(self.chunk_size, self.local_size)?;
        Ok(chunks.positions(query, positions)?)
    }
}

/// The positions of some tokens: integers, negative ones too, or real coordinates.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_positions {
    /// The form of the list (`enum rope_positions_kind`).
    pub kind: i32,
    /// The type of `values` and of `starts` (`enum rope_number`); floats are real-valued coordinates. Not used by
    /// RANGE, nor by shards of one sequence.
    pub number: i32,
    /// The numbers. Not used by RANGE; NULL for shards of one sequence.
    pub values: *const c_void,
    /// The number of values; of positions for RANGE; of tokens for a shard of one sequence.
    pub count: usize,
    /// RANGE: the first position. Not used by others.
    pub first: i64,
    /// PACKED: where each sequence starts counting, `count - 1` numbers; NULL: at 0. Not used by others.
    pub starts: *const c_void,
    /// Shards: the rank, from 0. Not used by others.
    pub rank: usize,
    /// Shards: how many ranks there are. Not used by others.
    pub ranks: usize,
    /// The ids that Dual Chunk Attention makes of the positions. All zero: none.
    pub dual_chunk: rope_dual_chunk,
}
plain!(rope_positions);

/// The ids of an integer type.
///
/// # Safety
///
/// `values` is null or points to `count` of them, which nobody writes during `'a`.
pub(crate) unsafe fn ids<'a>(
    name: &'static str,
    number: rope_number,
    values: *const c_void,
    count: usize,
) -> Result<(Ids<'a>, Region), Failure> {
    // SAFETY: the caller promises that `values` is null or has `count` numbers, which nobody writes during `'a`.
    unsafe {
        match number {
            rope_number::I32 => list(name, values, count, Ids::I32),
            rope_number::I64 => list(name, values, count, Ids::I64),
            rope_number::U32 => list(name, values, count, Ids::U32),
            rope_number::U64 => list(name, values, count, Ids::U64),
            rope_number::F32 | rope_number::F64 => Err(number.refused(INTEGERS)),
        }
    }
}

/// A list, and the bytes that it takes.
///
/// # Safety
///
/// As [`ids`].
unsafe fn list<'a, T: Plain + 'a, L>(
    name: &'static str,
    values: *const c_void,
    count: usize,
    listed: fn(&'a [T]) -> L,
) -> Result<(L, Region), Failure> {
    let span = Span::<T>::new(name, values.cast(), count)?;
    // SAFETY: the caller promises that the list is readable, and that nobody writes it during `'a`.
    Ok((listed(unsafe { span.get() }), span.region()))
}

impl rope_positions {
    /// The positions, and the bytes they are read from.
    ///
    /// # Safety
    ///
    /// Each pointer is null or points to its list, which nobody writes during `'a`.
    pub(crate) unsafe fn positions<'a>(&self) -> Result<(Positions<'a>, [Region; 2]), Failure> {
        // SAFETY: the caller promises that each pointer is null or has its list, which nobody writes during `'a`.
        let (positions, regions) = unsafe { self.listed() }?;
        Ok((self.dual_chunk.of(positions)?, regions))
    }

    /// The positions as they are listed.
    ///
    /// # Safety
    ///
    /// As [`rope_positions::positions`].
    unsafe fn listed<'a>(&self) -> Result<(Positions<'a>, [Region; 2]), Failure> {
        let kind = rope_positions_kind::from_c(self.kind)?;
        let none = Region::bytes("starts", 0, 0);
        if kind == rope_positions_kind::Range {
            let (first, count) = (self.first, self.count);
            let end = i64::try_from(count)
                .ok()
                .and_then(|count| first.checked_add(count))
                .ok_or(Failure::PositionRange { first, count })?;
            return Ok((Positions::from(first..end), [none; 2]));
        }
        if let Some(kind) = kind.shard() {
            // SAFETY: the caller promises that each pointer is null or has its list, which nobody writes during `'a`.
            let (tokens, region) = unsafe { self.shard(kind) }?;
            return Ok((tokens.into(), [region, none]));
        }
        let number = rope_number::from_c(self.number)?;
        // SAFETY: the caller promises that each pointer is null or has its list, which nobody writes during `'a`.
        unsafe {
            match number {
                _ if kind == rope_positions_kind::Packed => {
                    let (values, region) = ids("values", number, self.values, self.count)?;
                    if self.starts.is_null() {
                        return Ok((Positions::packed(values)?, [region, none]));
                    }
                    let count = self.count.saturating_sub(1);
                    let (starts, other) = ids("starts", number, self.starts, count)?;
                    Ok((Positions::packed_from(values, starts)?, [region, other]))
                }
                rope_number::F32 => Ok(ordered(
                    kind,
                    list("values", self.values, self.count, Coordinates::F32)?,
                )),
                rope_number::F64 => Ok(ordered(
                    kind,
                    list("values", self.values, self.count, Coordinates::F64)?,
                )),
                _ => Ok(ordered(
                    kind,
                    ids("values", number, self.values, self.count)?,
                )),
            }
        }
    }

    /// The tokens of a rank.
    ///
    /// # Safety
    ///
    /// As [`rope_positions::positions`].
    unsafe fn shard<'a>(&self, kind: ShardKind) -> Result<(ShardTokens<'a>, Region), Failure> {
        let shard = Shard::new(kind, self.rank, self.ranks)?;
        if self.values.is_null() {
            return Ok((shard.tokens(self.count)?, Region::bytes("values", 0, 0)));
        }
        let number = rope_number::from_c(self.number)?;
        // SAFETY: the caller promises that each pointer is null or has its list, which nobody writes during `'a`.
        let (offsets, region) = unsafe { ids("values", number, self.values, self.count) }?;
        Ok((shard.packed(offsets)?, region))
    }
}

/// The positions of a list, and the bytes that it takes.
fn ordered<'a>(
    kind: rope_positions_kind,
    (values, region): (impl Numbers<'a>, Region),
) -> (Positions<'a>, [Region; 2]) {
    let positions = match kind {
        rope_positions_kind::AxisMajor => Positions::axis_major(values),
        rope_positions_kind::TokenMajor => Positions::token_major(values),
        _ => Positions::from(values),
    };
    (positions, [region, Region::bytes("starts", 0, 0)])
}

/// `count` positions from `first` on.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_positions_range(first: i64, count: usize) -> rope_positions {
    rope_positions {
        kind: rope_positions_kind::Range as i32,
        number: 0,
        values: core::ptr::null(),
        count,
        first,
        starts: core::ptr::null(),
        rank: 0,
        ranks: 0,
        dual_chunk: rope_dual_chunk::NONE,
    }
}

/// One number per token: `count` of type `number` (`enum rope_number`). This call reads none of them; the calls that
/// the positions are given to do.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_positions_per_token(
    values: *const c_void,
    count: usize,
    number: i32,
) -> rope_positions {
    rope_positions {
        kind: rope_positions_kind::PerToken as i32,
        number,
        values,
        count,
        first: 0,
        starts: core::ptr::null(),
        rank: 0,
        ranks: 0,
        dual_chunk: rope_dual_chunk::NONE,
    }
}

/// The tokens of rank `rank` of `ranks`, of one sequence of `tokens`: `kind` is one of the shards of
/// `enum rope_positions_kind`. Of packed sequences set `values`, `count` and `number` to their offsets.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_positions_shard(
    kind: i32,
    tokens: usize,
    rank: usize,
    ranks: usize,
) -> rope_positions {
    rope_positions {
        kind,
        rank,
        ranks,
        ..rope_positions_range(0, tokens)
    }
}

/// Writes which tokens a rank has, in its order: their indices in the sequence, or in the packed buffer. `tokens` has
/// room for `len` of them; `count` becomes how many there are. With `len` 0 it only counts.
///
/// Returns ROPE_STATUS_STORAGE if there is less room, ROPE_STATUS_UNKNOWN_VALUE for positions that are no shard,
/// ROPE_STATUS_RANK, ROPE_STATUS_SHARD_TOKENS, ROPE_STATUS_OFFSETS, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread at any time.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_shard_tokens(
    positions: *const rope_positions,
    tokens: *mut usize,
    len: usize,
    count: *mut usize,
) -> rope_status {
    status_of(|| {
        let out = Out::new("count", count)?;
        let place = Region::of("count", count);
        let written = SpanMut::new("tokens", tokens, len)?;
        written.region().apart_from(&[place])?;
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. `tokens`
        // becomes a slice only after a check that it is disjoint from `count` and from what the shard is read from (see
        // `memory`).
        unsafe {
            let positions = read("positions", positions)?;
            let kind = rope_positions_kind::from_c(positions.kind)?;
            let kind = kind.shard().ok_or(Failure::UnknownValue {
                what: "positions.kind",
                value: positions.kind,
                required: "a shard",
            })?;
            let (shard, region) = positions.shard(kind)?;
            place.apart_from(&[region])?;
            let values = written.get(&[region])?;
            let needed = shard.len();
            if len > 0 && len < needed {
                return Err(rope_core::Error::Storage {
                    what: "tokens",
                    given: len,
                    needed,
                }
                .into());
            }
            for (value, token) in values.iter_mut().zip(shard.iter()) {
                *value = token;
            }
            out.write(needed);
        }
        Ok(())
    })
}
