//! Rows that the library makes: in the caller's memory, or in a table.

use rope_core::error::RowsError;
use rope_core::{Error, Rows, TokenAngles};

use crate::angles::rope_angles;
use crate::failure::Failure;
use crate::frequencies::{AnyFrequencies, any_frequencies, frequencies};
use crate::memory::{Out, Region, SpanMut, read};
use crate::status::{rope_status, status_of};

/// `len / rotary_dim` rows of `rotary_dim / 2` cos and then as many sin (vLLM's cache). This call reads no value;
/// the calls that the rows are given to do. They look at the last row: if it has the same values in both halves, it is
/// PyTorch's `cat((freqs, freqs), -1).cos()` without its sin, which goes to rope_rows_apart, and is refused with
/// ROPE_STATUS_HALVES_EQUAL. (Rows of one pair, and a last row whose values have one magnitude and are not all 1, as
/// zeros that are padding, are accepted.)
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_rows_joined(
    values: *const f32,
    len: usize,
    rotary_dim: usize,
) -> rope_angles {
    rope_angles::joined(values, len, rotary_dim)
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
) -> rope_angles {
    rope_angles {
        sin,
        width,
        // More than memory holds is refused by the calls that the rows are given to.
        ..rope_angles::joined(cos, rows.saturating_mul(width), rotary_dim)
    }
}

/// The angles from which rows are made.
struct RowRecipe<'a> {
    angles: TokenAngles<'a>,
    /// `rope_angles.moves` of the rows.
    moves: i32,
}

impl<'a> RowRecipe<'a> {
    /// The recipe that angles describe, and the bytes that it reads.
    ///
    /// # Safety
    ///
    /// Pointers are null or valid, which nobody writes during `'a`.
    unsafe fn new(angles: *const rope_angles) -> Result<(Self, [Region; 6]), Failure> {
        // SAFETY: the caller promises that pointers are null or valid.
        unsafe {
            let angles = read("angles", angles)?;
            let (new, first) = any_frequencies(angles.frequencies)?;
            let (to, [second, third]) = read("positions", angles.positions)?.positions()?;
            let none = Region::NONE;
            let regions = [first, second, third, none, none, none];
            let made = |angles, moves| RowRecipe { angles, moves };
            Ok(match (new, angles.moves) {
                (AnyFrequencies::Axes(new), 0) => (made(new.at(to)?, 0), regions),
                (AnyFrequencies::Mixed(new), 0) => (made(new.at(to)?, 0), regions),
                _ => {
                    let (new, first) = frequencies(angles.frequencies)?;
                    if angles.old_frequencies.is_null() {
                        return Ok((made(new.shift(to)?, 0), regions));
                    }
                    let (old, other) = frequencies(angles.old_frequencies)?;
                    let (from, [fourth, fifth]) =
                        read("old_positions", angles.old_positions)?.positions()?;
                    let recipe = made(new.shift_from(old, from, to)?, 1);
                    (recipe, [first, second, third, other, fourth, fifth])
                }
            })
        }
    }

    fn make<'s>(&self, storage: &'s mut [f32]) -> Result<Rows<'s>, Error> {
        self.angles.rows_in(storage)
    }

    /// Values that are needed.
    fn needed(&self) -> Result<usize, Error> {
        match self.make(&mut []) {
            Ok(_) => Ok(0),
            Err(Error::Storage { needed, .. }) => Ok(needed),
            Err(error) => Err(error),
        }
    }
}

/// The description of rows without their values.
#[derive(Clone, Copy, Debug)]
struct RowsMade {
    len: usize,
    heads: usize,
    rotary_dim: usize,
    attention_factor: f64,
    moves: i32,
}

impl RowsMade {
    fn new(rows: &Rows<'_>, moves: i32) -> Self {
        let (heads, rotary_dim) = (rows.heads(), rows.rotary_dim());
        RowsMade {
            len: rows.len() * heads * rotary_dim,
            heads,
            rotary_dim,
            attention_factor: rows.attention_factor(),
            moves,
        }
    }

    /// The rows as C describes them.
    fn at(self, values: *const f32) -> rope_angles {
        rope_angles {
            attention_factor: self.attention_factor,
            heads: self.heads,
            moves: self.moves,
            ..rope_angles::joined(values, self.len, self.rotary_dim)
        }
    }
}

/// Writes to `len` the number of floats in the rows of frequencies at positions: tokens times heads with frequencies of
/// their own times rotary_dim.
///
/// Returns ROPE_STATUS_POSITIONS_PER_AXIS, ROPE_STATUS_COORDINATE, ROPE_STATUS_OFFSETS, ROPE_STATUS_COUNT,
/// ROPE_STATUS_POSITION_RANGE; ROPE_STATUS_RANK and ROPE_STATUS_SHARD_TOKENS of a shard; ROPE_STATUS_PARAMETER and
/// ROPE_STATUS_AXES of `dual_chunk`; ROPE_STATUS_ROWS_TOO_LONG; of `old_frequencies` ROPE_STATUS_ROTARY_DIM for another
/// number of pairs, ROPE_STATUS_COUNT for another number of positions and ROPE_STATUS_NO_INTEGER for coordinates;
/// ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_HANDLE,
/// ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_len(angles: *const rope_angles, len: *mut usize) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers are null or valid during the call.
        let (recipe, regions) = unsafe { RowRecipe::new(angles) }?;
        let out = Out::new("len", len)?;
        // The handle's bytes; what positions lie in is not read.
        Region::of("len", len).apart_from(&regions[..1])?;
        let needed = recipe.needed()?;
        // SAFETY: the caller promises that the pointer, which was checked, is writable.
        unsafe { out.write(needed) };
        Ok(())
    })
}

/// Makes the rows of frequencies at positions in the caller's storage, and describes them in `rows`. The storage has
/// `len` floats; the call uses the first rope_rows_len of them, ROPE_ROWS_LEN(tokens * heads, rotary_dim), and
/// allocates nothing. cos and sin are the floats nearest to the exact values (of mixed frequencies with
/// ROPE_MIXED_ANGLE_EXACT).
///
/// With `moves` the rows move keys in a cache (rope_rotate of its slots). The positions are deltas, one per axis, and
/// the rows have the magnitude 1, because the keys have the attention factor already. With `old_frequencies` and
/// `old_positions` they take keys from these to the new ones: after dynamic NTK, YaRN or LongRoPE have changed with the
/// length of a sequence. An angle is the exact difference of the two; cos and sin are multiplied by the new attention
/// factor over the old.
///
/// Returns ROPE_STATUS_STORAGE if the storage is too short, and what rope_rows_len returns.
///
/// # Threads
///
/// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call. `storage` stays as long as the rows are
/// used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_fill(
    angles: *const rope_angles,
    storage: *mut f32,
    len: usize,
    rows: *mut rope_angles,
) -> rope_status {
    status_of(|| {
        let out = Out::new("rows", rows)?;
        let place = Region::of("rows", rows);
        // SAFETY: the caller promises that pointers are null or valid during the call, and `storage` as long as the
        // rows are used.
        let (recipe, regions) = unsafe { RowRecipe::new(angles) }?;
        let values = SpanMut::new("storage", storage, len)?;
        place.apart_from(&regions)?;
        values.region().apart_from(&[place])?;
        // SAFETY: the caller promises that pointers are null or valid during the call, and `storage` as long as the
        // rows are used. The storage is disjoint from all memory that is read.
        let made = recipe.make(unsafe { values.get(&regions) }?)?;
        let made = RowsMade::new(&made, recipe.moves);
        // SAFETY: the caller's struct.
        unsafe { out.write(made.at(storage)) };
        Ok(())
    })
}

/// Makes the rows that undo others with ROPE_DIRECTION_FORWARD, pair by pair, whatever their magnitudes (xPos), in the
/// caller's storage, and describes them in `inverted`: `cos / (cos^2 + sin^2)` and `-sin / (cos^2 + sin^2)`. The
/// storage has `len` floats, of which the call uses the number of rows times heads (those that have a row each) times
/// rotary_dim.
///
/// Returns ROPE_STATUS_STORAGE if the storage is too short, ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_NO_INVERSE for a
/// pair of zeros or with a value that is not finite, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_NULL,
/// ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows. The
/// storage is untouched then.
///
/// # Threads
///
/// May be called from any thread; others may read the rows meanwhile.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call. `storage` stays as long as the inverted
/// rows are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_invert(
    rows: *const rope_angles,
    storage: *mut f32,
    len: usize,
    inverted: *mut rope_angles,
) -> rope_status {
    status_of(|| {
        let out = Out::new("inverted", inverted)?;
        let place = Region::of("inverted", inverted);
        let values = SpanMut::new("storage", storage, len)?;
        values.region().apart_from(&[place])?;
        // SAFETY: the caller promises that pointers are null or valid during the call, and `storage` as long as the
        // rows are used. The storage is disjoint from all memory that is read.
        unsafe {
            let rows = read("rows", rows)?;
            let moves = rows.moves;
            let rows = rows.rows("rope_rows_invert")?;
            let regions = rows.regions();
            place.apart_from(&regions)?;
            let values = values.get(&regions)?;
            rows.with(|rows| {
                let made = RowsMade::new(&rows.inverted(values)?, moves);
                out.write(made.at(storage));
                Ok(())
            })
        }
    })
}

/// Writes the additive sinusoidal encoding of the original Transformer from the same angles. Each row has
/// `rotary_dim` values: sin at the even channels, cos at the odd ones.
///
/// Returns ROPE_STATUS_ROW_HEADS for rows of each head, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_STORAGE unless `len`
/// is the number of rows times rotary_dim, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
/// ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows.
///
/// # Threads
///
/// May be called from any thread; others may read the rows meanwhile.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_sinusoidal(
    rows: *const rope_angles,
    values: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        let values = SpanMut::new("values", values, len)?;
        // SAFETY: the caller promises that pointers are null or valid during the call. The values become a slice only
        // after a check that they are disjoint from the rows (see `memory`).
        unsafe {
            let rows = read("rows", rows)?.rows("rope_sinusoidal")?;
            let values = values.get(&rows.regions())?;
            rows.with(|rows| Ok(encode(rows, values)?))
        }
    })
}

/// Writes sin and cos of every pair, row by row, after the checks of [`rope_sinusoidal`].
fn encode(rows: &Rows<'_>, values: &mut [f32]) -> Result<(), Error> {
    if rows.heads() > 1 {
        let (rows, heads) = (rows.heads(), 1);
        return Err(Error::Rows(RowsError::Heads { rows, heads }));
    }
    // Rows that coincide may exceed memory when written out.
    let needed = rows.len().saturating_mul(rows.rotary_dim());
    if values.len() != needed {
        return Err(Error::Storage {
            what: "values of out",
            given: values.len(),
            needed,
        });
    }
    let each = (0..rows.len()).filter_map(|token| rows.row(token, 0));
    for ((cos, sin), values) in each.zip(values.chunks_exact_mut(rows.rotary_dim())) {
        for ((pair, cos), sin) in values.as_chunks_mut().0.iter_mut().zip(cos).zip(sin) {
            *pair = [*sin, *cos];
        }
    }
    Ok(())
}

#[cfg(feature = "std")]
mod heap {
    use std::vec::Vec;

    use super::{RowRecipe, RowsMade};
    use crate::angles::rope_angles;
    use crate::failure::Failure;
    use crate::handle::{Head, free, handle, own};
    use crate::memory::{Out, Region};
    use crate::status::{rope_status, status_of};

    /// Rows that own their memory, of a table of all positions or of one step. A handle.
    #[repr(align(64))]
    #[derive(Debug)]
    pub struct rope_table {
        head: Head,
        value: Table,
    }
    handle!(rope_table, Table, 0x726f_7065_5f74_626c, "table");

    /// The content of a table.
    #[derive(Debug)]
    pub(crate) struct Table {
        values: Vec<f32>,
        made: RowsMade,
    }

    /// Makes the rows of frequencies at positions on the heap, as rope_rows_fill does. rope_table_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
    ///
    /// # Threads
    ///
    /// May be called from any thread; others may use the frequencies meanwhile, but not change or free them.
    ///
    /// # Safety
    ///
    /// Pointers are NULL or valid for the length of the call.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_new(
        angles: *const rope_angles,
        table: *mut *mut rope_table,
    ) -> rope_status {
        status_of(|| {
            // SAFETY: the caller promises that pointers are null or valid during the call.
            let (recipe, regions) = unsafe { RowRecipe::new(angles) }?;
            let out = Out::new("table", table)?;
            Region::of("table", table).apart_from(&regions)?;
            let needed = recipe.needed()?;
            let mut values = Vec::new();
            values
                .try_reserve_exact(needed)
                .map_err(|_| Failure::OutOfMemory {
                    bytes: needed.saturating_mul(size_of::<f32>()),
                })?;
            values.resize(needed, 0.0);
            let made = RowsMade::new(&recipe.make(&mut values)?, recipe.moves);
            let table = own(Table { values, made })?;
            // SAFETY: the caller promises that the pointer, which was checked, is writable.
            unsafe { out.write(table) };
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
    /// `table` is NULL or of this library; `rows` is NULL or points to a rope_angles.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_rows(
        table: *const rope_table,
        rows: *mut rope_angles,
    ) -> rope_status {
        status_of(|| {
            let out = Out::new("rows", rows)?;
            // SAFETY: the caller promises that `table` is null or a live handle.
            let (table, region) = unsafe { crate::handle::value(table) }?;
            Region::of("rows", rows).apart_from(&[region])?;
            let rows = table.made.at(table.values.as_ptr());
            // SAFETY: the caller promises that the pointer, which was checked, is writable.
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
        // SAFETY: the caller promises that `table` is null or a handle that is no longer used.
        status_of(|| unsafe { free(table) })
    }
}
#[cfg(feature = "std")]
pub use heap::*;
