//! Rows: the cos and sin of each token, in the caller's memory or in a table.

use core::ffi::c_void;

use rope_core::{Error, Rows};

use crate::failure::Failure;
use crate::frequencies::{frequencies, rope_frequencies};
use crate::memory::{Out, Region, Span, SpanMut, plain, read};
use crate::names::rope_number;
use crate::positions::{ids, rope_positions};
use crate::status::{rope_status, status_of};

/// The cos and sin of each token, `rotary_dim / 2` of each, already multiplied by the attention factor.
///
/// A rotation takes as many rows as a sequence has tokens (all sequences share them), or as many as there are tokens
/// in the batch. With `ids` the values are a table, and the rows are those that the ids name, in the order of the
/// ids. Every call checks that each id names a row of the table.
///
/// Filled in by the caller, or by rope_rows_joined, rope_rows_apart, rope_rows_fill, rope_table_rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_rows {
    /// The cos values. If `sin` is NULL, a row is `rotary_dim / 2` cos and then as many sin (vLLM's cache).
    pub cos: *const f32,
    /// The sin values; NULL: they lie behind the cos of their row.
    pub sin: *const f32,
    /// How many values `cos` points to, and `sin` as well: a whole number of rows.
    pub len: usize,
    /// Channels that a row rotates.
    pub rotary_dim: usize,
    /// cos values of a row, where cos and sin are apart: `rotary_dim / 2`, or `rotary_dim` where each is kept twice,
    /// the second half of a row like the first. Not used where they are joined.
    pub width: usize,
    /// What cos and sin are multiplied by (YaRN, LongRoPE): 1 for most models. ROPE_DIRECTION_INVERSE divides by its
    /// square.
    pub attention_factor: f64,
    /// Ids of rows; NULL: all rows, in order.
    pub ids: *const c_void,
    /// How many ids. Not used without ids.
    pub ids_count: usize,
    /// The type of the ids (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64). Not used without
    /// ids.
    pub ids_number: i32,
}
plain!(rope_rows);

impl rope_rows {
    fn joined(values: *const f32, len: usize, rotary_dim: usize) -> Self {
        rope_rows {
            cos: values,
            sin: core::ptr::null(),
            len,
            rotary_dim,
            width: rotary_dim,
            attention_factor: 1.0,
            ids: core::ptr::null(),
            ids_count: 0,
            ids_number: 0,
        }
    }

    /// Calls `with` with the rows, and with the bytes that they are read from.
    ///
    /// # Safety
    ///
    /// Each pointer is null or points to what it says, which nobody writes until this returns.
    #[inline]
    pub(crate) unsafe fn with(
        &self,
        with: impl FnOnce(&Rows<'_>, [Region; 3]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let none = Region::bytes("sin", 0, 0);
        let cos = Span::new("cos", self.cos, self.len)?;
        let (table, sin_region) = if self.sin.is_null() {
            // SAFETY: the caller promises it.
            let values = unsafe { cos.get() };
            (Rows::new(values, self.rotary_dim)?, none)
        } else {
            let sin = Span::new("sin", self.sin, self.len)?;
            // SAFETY: the caller promises it.
            let (cos, values) = unsafe { (cos.get(), sin.get()) };
            let rows = self.len.checked_div(self.width).unwrap_or(0);
            let rows = Rows::from_cos_sin(cos, values, [rows, self.width], self.rotary_dim)?;
            (rows, sin.region())
        };
        let table = table.with_attention_factor(self.attention_factor)?;
        if self.ids.is_null() {
            return with(&table, [cos.region(), sin_region, none]);
        }
        let number = rope_number::from_c(self.ids_number)?;
        // SAFETY: the caller promises it.
        let (ids, ids_region) = unsafe { ids("ids", number, self.ids, self.ids_count) }?;
        with(&table.gather(ids)?, [cos.region(), sin_region, ids_region])
    }
}

/// `len / rotary_dim` rows of `rotary_dim / 2` cos and then as many sin (vLLM's cache). This call reads no value;
/// the calls that the rows are given to do.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_rows_joined(values: *const f32, len: usize, rotary_dim: usize) -> rope_rows {
    rope_rows::joined(values, len, rotary_dim)
}

/// Rows with cos and sin in arrays of their own, each of the shape `[rows, width]`. `width` is `rotary_dim / 2` where
/// each value is kept once (ONNX), and `rotary_dim` where it is kept twice, the second half of a row like the first
/// (PyTorch's `cat((freqs, freqs), -1)`). This call reads no value; the calls that the rows are given to do.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_rows_apart(
    cos: *const f32,
    sin: *const f32,
    rows: usize,
    width: usize,
    rotary_dim: usize,
) -> rope_rows {
    rope_rows {
        sin,
        width,
        // More than memory holds is refused by the calls that the rows are given to.
        ..rope_rows::joined(cos, rows.saturating_mul(width), rotary_dim)
    }
}

/// Writes to `len` how many values (floats) the rows of some positions have: the number of tokens times rotary_dim.
///
/// Returns ROPE_STATUS_POSITIONS_PER_AXIS, ROPE_STATUS_COORDINATE, ROPE_STATUS_OFFSETS, ROPE_STATUS_COUNT,
/// ROPE_STATUS_POSITION_RANGE, ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_len(
    frequencies: *const rope_frequencies,
    positions: *const rope_positions,
    len: *mut usize,
) -> rope_status {
    status_of(|| {
        let out = Out::new("len", len)?;
        // SAFETY: the caller promises it.
        let needed = unsafe {
            let (frequencies, region) = self::frequencies(frequencies)?;
            Region::of("len", len).apart_from(&[region])?;
            let (positions, _) = read("positions", positions)?.positions()?;
            needed(frequencies, positions)?
        };
        // SAFETY: the caller's number.
        unsafe { out.write(needed) };
        Ok(())
    })
}

fn needed(
    frequencies: &rope_core::Frequencies<'_>,
    positions: rope_core::Positions<'_>,
) -> Result<usize, Error> {
    match frequencies.rows_in(positions, &mut []) {
        Ok(_) => Ok(0),
        Err(Error::Storage { needed, .. }) => Ok(needed),
        Err(error) => Err(error),
    }
}

/// Makes the rows of some positions in the caller's storage, and describes them in `rows`. The storage has `len`
/// floats; the call uses the first rope_rows_len of them, and allocates nothing. cos and sin are the floats nearest
/// to the exact values.
///
/// Returns ROPE_STATUS_STORAGE if the storage is too short, and what rope_rows_len returns.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call. `storage` stays as long as the rows are
/// used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_fill(
    frequencies: *const rope_frequencies,
    positions: *const rope_positions,
    storage: *mut f32,
    len: usize,
    rows: *mut rope_rows,
) -> rope_status {
    status_of(|| {
        let out = Out::new("rows", rows)?;
        let place = Region::of("rows", rows);
        let values = SpanMut::new("storage", storage, len)?;
        // SAFETY: the caller promises it, and the storage is apart from all that is read.
        let (used, rotary_dim, attention_factor) = unsafe {
            let (frequencies, region) = self::frequencies(frequencies)?;
            let (positions, [first, second]) = read("positions", positions)?.positions()?;
            place.apart_from(&[region])?;
            let values = values.get(&[region, first, second, place])?;
            let made = frequencies.rows_in(positions, values)?;
            let used = made.len() * made.rotary_dim();
            (used, made.rotary_dim(), made.attention_factor())
        };
        let made = rope_rows {
            attention_factor,
            ..rope_rows::joined(storage, used, rotary_dim)
        };
        // SAFETY: the caller's struct.
        unsafe { out.write(made) };
        Ok(())
    })
}

/// Writes the additive sinusoidal encoding of the original Transformer from the same angles. Each row has
/// `rotary_dim` values: sin at the even channels, cos at the odd ones.
///
/// Returns ROPE_STATUS_STORAGE unless `len` is the number of rows times rotary_dim, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows.
///
/// # Threads
///
/// May be called from any thread; others may read the rows meanwhile.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_sinusoidal(
    rows: *const rope_rows,
    values: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        let values = SpanMut::new("values", values, len)?;
        // SAFETY: the caller promises it.
        unsafe {
            read("rows", rows)?.with(|rows, regions| {
                rows.sinusoidal(values.get(&regions)?)?;
                Ok(())
            })
        }
    })
}

#[cfg(feature = "std")]
mod heap {
    use std::boxed::Box;
    use std::vec::Vec;

    use super::{needed, rope_rows};
    use crate::failure::Failure;
    use crate::frequencies::{frequencies, rope_frequencies};
    use crate::memory::{Out, Region, place, read};
    use crate::positions::rope_positions;
    use crate::status::{rope_status, status_of};

    const MAGIC: u64 = 0x726f_7065_5f74_626c;

    /// Rows that own their memory, of a table of all positions or of one step. A handle.
    #[derive(Debug)]
    pub struct rope_table {
        magic: u64,
        values: Vec<f32>,
        rotary_dim: usize,
        attention_factor: f64,
    }

    // Threads may share it.
    const _: fn() = || {
        fn shared<T: Send + Sync>() {}
        shared::<rope_table>();
    };

    /// `ROPE_STATUS_HANDLE` unless this library made the table.
    ///
    /// # Safety
    ///
    /// A pointer that is not null points to as many bytes as a table has.
    unsafe fn check(table: *const rope_table) -> Result<(), Failure> {
        place("table", table)?;
        // SAFETY: neither null nor misaligned. Any bits are a number. The caller promises that memory is there.
        let magic = unsafe { (&raw const (*table).magic).read() };
        if magic == MAGIC {
            Ok(())
        } else {
            Err(Failure::Handle)
        }
    }

    /// Makes the rows of some positions, on the heap. rope_table_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
    ///
    /// # Threads
    ///
    /// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or point to what they say, for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_new(
        frequencies: *const rope_frequencies,
        positions: *const rope_positions,
        table: *mut *mut rope_table,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("table", table)?;
            // SAFETY: the caller promises it.
            let (frequencies, positions) = unsafe {
                let (frequencies, _) = self::frequencies(frequencies)?;
                let (positions, _) = read("positions", positions)?.positions()?;
                (frequencies, positions)
            };
            let needed = needed(frequencies, positions)?;
            let mut values = Vec::new();
            values
                .try_reserve_exact(needed)
                .map_err(|_| Failure::OutOfMemory {
                    bytes: needed.saturating_mul(size_of::<f32>()),
                })?;
            values.resize(needed, 0.0);
            frequencies.rows_in(positions, &mut values)?;
            let made = Box::new(rope_table {
                magic: MAGIC,
                values,
                rotary_dim: frequencies.rotary_dim(),
                attention_factor: frequencies.attention_factor(),
            });
            // SAFETY: the caller's pointer.
            unsafe { out.write(Box::into_raw(made)) };
            Ok(())
        })
    }

    /// Describes the rows of a table in `rows`. They lie in the table, and are gone when it is freed. To pick some
    /// of them set `ids`.
    ///
    /// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_HANDLE, ROPE_STATUS_MEMORY_OVERLAP.
    ///
    /// # Threads
    ///
    /// May be called from any thread; others may use the table meanwhile, but not free it.
    ///
    /// # Safety
    ///
    /// `table` is NULL or of this library; `rows` is NULL or points to a rope_rows.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_rows(
        table: *const rope_table,
        rows: *mut rope_rows,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("rows", rows)?;
            // SAFETY: the caller promises it.
            unsafe { check(table) }?;
            Region::of("rows", rows).apart_from(&[Region::of("table", table)])?;
            // SAFETY: the caller promises it, and the magic number says that this library made the table.
            let table = unsafe { &*table };
            let rows = rope_rows {
                attention_factor: table.attention_factor,
                ..rope_rows::joined(table.values.as_ptr(), table.values.len(), table.rotary_dim)
            };
            // SAFETY: the caller's struct.
            unsafe { out.write(rows) };
            Ok(())
        })
    }

    /// Frees a table. NULL is left alone.
    ///
    /// Returns ROPE_STATUS_HANDLE for memory that holds no table, ROPE_STATUS_MISALIGNED. The library cannot tell
    /// that a table was freed before.
    ///
    /// # Threads
    ///
    /// May be called from any thread; no other thread may use the table then or later.
    ///
    /// # Safety
    ///
    /// `table` is NULL or of this library, and neither it nor its rows are used any more.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_free(table: *mut rope_table) -> rope_status {
        status_of(|| {
            if table.is_null() {
                return Ok(());
            }
            // SAFETY: the caller promises it.
            unsafe { check(table) }?;
            // SAFETY: it came from a box, and the caller does not use it any more.
            let mut table = unsafe { Box::from_raw(table) };
            table.magic = 0;
            Ok(())
        })
    }
}
#[cfg(feature = "std")]
pub use heap::*;
