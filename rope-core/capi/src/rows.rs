//! Rows: the cos and sin of each token, in the caller's memory or in a table.

use core::ffi::c_void;

use rope_core::axes::MixedFrequencies;
use rope_core::{Error, Frequencies, Ids, Positions, Rows, internals};

use crate::failure::Failure;
use crate::frequencies::{frequencies, rope_frequencies};
use crate::memory::{Out, Region, Span, SpanMut, plain, read};
use crate::names::rope_number;
use crate::positions::{ids, rope_positions};
use crate::status::{rope_status, status_of};
use crate::tensor::rope_layout;

/// The cos and sin of each token, `rotary_dim / 2` of each, already multiplied by the attention factor.
///
/// A rotation takes as many rows as a sequence has tokens (all sequences share them), or as many as there are tokens
/// in the batch. With `ids` the values are a table, and the rows are those that the ids name, in the order of the
/// ids. Every call checks that each id names a row of the table.
///
/// The heads of a token share its row, unless each has a row of its own (`heads`, rope_rows_strided): then a row of
/// these is those of all heads of a token, wherever rows are counted, and they rotate only tensors with that number of
/// heads.
///
/// Filled in by the caller, or by rope_rows_joined, rope_rows_apart, rope_rows_strided, rope_rows_full, rope_rows_fill,
/// rope_table_rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_rows {
    /// The cos values. If `sin` is NULL, a row is `rotary_dim / 2` cos and then as many sin (vLLM's cache).
    pub cos: *const f32,
    /// The sin values; NULL: they lie after the cos of their row.
    pub sin: *const f32,
    /// How many values `cos` points to, and `sin` as well: a whole number of rows.
    pub len: usize,
    /// Channels that a row rotates.
    pub rotary_dim: usize,
    /// cos values of a row, where cos and sin are apart: `rotary_dim / 2`, or `rotary_dim` where each is kept twice,
    /// the second half of a row like the first. Not used where they are joined.
    pub width: usize,
    /// What cos and sin are multiplied by (YaRN, LongRoPE): 1 for most models. ROPE_DIRECTION_INVERSE divides by its
    /// square, and refuses rows whose pairs have another magnitude, as those of xPos; rope_rows_invert makes the rows
    /// that undo them.
    pub attention_factor: f64,
    /// Ids of rows; NULL: all rows, in order.
    pub ids: *const c_void,
    /// How many ids. Not used without ids.
    pub ids_count: usize,
    /// The type of the ids (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64). Not used without
    /// ids.
    pub ids_number: i32,
    /// Heads that have a row each: groups of this number of consecutive rows belong to the heads of one token. 0
    /// and 1: heads share their row. Not used with a layout.
    pub heads: usize,
    /// Where cos and sin lie, each of them, if not row after row: the shape is sequences, tokens, heads and
    /// `rotary_dim / 2`. Dimensions that share their rows have an extent of 1 or a stride of 0. All zero: row after
    /// row.
    pub layout: rope_layout,
    /// Not 0: full-width rows (rope_rows_full). A row has a cos and a sin for each of its `rotary_dim` channels:
    /// `width` and the last extent of a layout are `rotary_dim`; joined, `2 * rotary_dim` values are a row.
    pub per_channel: i32,
    /// Not 0: rows that move keys (rope_rows_fill_shift_from), whose `attention_factor` is what keys are multiplied by
    /// besides. rope_shift refuses other rows unless their `attention_factor` is 1.
    pub moves: i32,
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
            heads: 0,
            layout: rope_layout {
                shape: [0; 4],
                strides: [0; 3],
            },
            per_channel: 0,
            moves: 0,
        }
    }

    /// Rows that lie as a layout says.
    fn strided<'v>(&self, cos: &'v [f32], sin: &'v [f32]) -> Result<Rows<'v>, Error> {
        let rows = Rows::strided(cos, sin, self.layout.layout()?)?;
        let (width, rotary_dim) = (self.layout.shape[3], self.rotary_dim);
        if Some(rows.rotary_dim()) == self.values() {
            Ok(rows)
        } else {
            Err(Error::RowWidth { width, rotary_dim })
        }
    }

    /// cos and sin values of a row, if there can be so many.
    fn values(&self) -> Option<usize> {
        let times = if self.per_channel == 0 { 1 } else { 2 };
        self.rotary_dim.checked_mul(times)
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
        // SAFETY: the caller promises it.
        let (table, ids, regions) = unsafe { self.table() }?;
        match ids {
            None => with(&table, regions),
            Some(ids) => with(&table.gather(ids)?, regions),
        }
    }

    /// The table, the ids of its rows if there are any, and the bytes that both are read from.
    ///
    /// # Safety
    ///
    /// Each pointer is null or points to what it says, which nobody writes during `'a`.
    #[inline]
    pub(crate) unsafe fn table<'a>(
        &self,
    ) -> Result<(Rows<'a>, Option<Ids<'a>>, [Region; 3]), Failure> {
        let none = Region::bytes("sin", 0, 0);
        let cos = Span::new("cos", self.cos, self.len)?;
        let strided = self.layout.shape != [0; 4];
        // Those of pairs, of which full-width rows have as many as channels.
        let values_of_a_row = self.values().ok_or(Error::RotaryDim {
            rotary_dim: self.rotary_dim,
            required: "even and at most 2048 of full-width rows",
        })?;
        let (table, sin_region) = if self.sin.is_null() && !strided {
            // SAFETY: the caller promises it.
            let values = unsafe { cos.get() };
            let rows = self.len.checked_div(values_of_a_row).unwrap_or(0);
            (Rows::new(values, [rows, values_of_a_row])?, none)
        } else {
            let sin = Span::new("sin", self.sin, self.len)?;
            // SAFETY: the caller promises it.
            let (cos, values) = unsafe { (cos.get(), sin.get()) };
            let rows = if strided {
                self.strided(cos, values)?
            } else {
                let rows = self.len.checked_div(self.width).unwrap_or(0);
                Rows::from_cos_sin(cos, values, [rows, self.width], values_of_a_row)?
            };
            (rows, sin.region())
        };
        let table = if strided || self.heads <= 1 {
            table
        } else {
            table.with_heads(self.heads)?
        };
        let table = match self.per_channel {
            0 => table,
            _ => table.per_channel()?,
        };
        let table = table.with_attention_factor(self.attention_factor)?;
        let table = match self.moves {
            0 => table,
            _ => internals::moving(table),
        };
        if self.ids.is_null() {
            return Ok((table, None, [cos.region(), sin_region, none]));
        }
        let number = rope_number::from_c(self.ids_number)?;
        // SAFETY: the caller promises it.
        let (ids, ids_region) = unsafe { ids("ids", number, self.ids, self.ids_count) }?;
        Ok((table, Some(ids), [cos.region(), sin_region, ids_region]))
    }
}

/// What is done with rows, and with the memory that they are read from.
type WithRows<'w> = dyn FnMut(&Rows<'_>, [Region; 3]) -> Result<(), Failure> + 'w;

/// Reads the caller's rows, and calls `with` with them and with the memory that they are read from. Compiled once, for
/// all verbs that take much longer than a call.
///
/// # Safety
///
/// As [`rope_rows::with`].
#[inline(never)]
pub(crate) unsafe fn with_rows(
    rows: *const rope_rows,
    with: &mut WithRows<'_>,
) -> Result<(), Failure> {
    // SAFETY: the caller promises it.
    unsafe { read("rows", rows)?.with(with) }
}

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

/// Rows with cos and sin in arrays of their own, of `len` values each, in which they lie as the layout says: its shape
/// is sequences, tokens, heads and `rotary_dim / 2`, with any strides. An extent of 1, or a stride of 0, is that of
/// what shares its rows: rope_layout_bhsd of `[1, heads, tokens, pairs]` is how timm keeps them. This call reads no
/// value; the calls that the rows are given to do.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_rows_strided(
    cos: *const f32,
    sin: *const f32,
    len: usize,
    layout: rope_layout,
) -> rope_rows {
    rope_rows {
        sin,
        layout,
        // More than a number holds is refused by the calls that the rows are given to.
        ..rope_rows::joined(cos, len, layout.shape[3].saturating_mul(2))
    }
}

/// Full-width rows: cos and sin in arrays of their own, each of the shape `[rows, rotary_dim]`, a value for each
/// channel. For the channels `i` and `j` of a pair `x' = x cos[i] - y sin[i]` and `y' = y cos[j] + x sin[j]`:
/// HunYuan-VL and V-JEPA 2, and kernels that index cos and sin by channel. In general that is no rotation:
/// ROPE_DIRECTION_TRANSPOSE takes gradients back, and what needs an inverse, a shift or an angle is refused with
/// ROPE_STATUS_FULL_WIDTH_ROWS. This call reads no value; the calls that the rows are given to do.
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_rows_full(
    cos: *const f32,
    sin: *const f32,
    rows: usize,
    rotary_dim: usize,
) -> rope_rows {
    rope_rows {
        per_channel: 1,
        ..rope_rows_apart(cos, sin, rows, rotary_dim, rotary_dim)
    }
}

/// Makes the rows that undo others with ROPE_DIRECTION_FORWARD, pair by pair, whatever their magnitudes (xPos), in the
/// caller's storage, and describes them in `inverted`: `cos / (cos^2 + sin^2)` and `-sin / (cos^2 + sin^2)`. The
/// storage has `len` floats, of which the call uses the number of rows times heads (those that have a row each) times
/// rotary_dim.
///
/// Returns ROPE_STATUS_STORAGE if the storage is too short, ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_NO_INVERSE for a
/// pair of zeros or of what is not finite, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED,
/// ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what rope_rotate returns for rows. The storage is untouched
/// then.
///
/// # Threads
///
/// May be called from any thread; others may read the rows meanwhile.
///
/// # Safety
///
/// Pointers are NULL or point to what they say, for the length of the call. `storage` stays as long as the inverted
/// rows are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_invert(
    rows: *const rope_rows,
    storage: *mut f32,
    len: usize,
    inverted: *mut rope_rows,
) -> rope_status {
    status_of(|| {
        let out = Out::new("inverted", inverted)?;
        let place = Region::of("inverted", inverted);
        let values = SpanMut::new("storage", storage, len)?;
        values.region().apart_from(&[place])?;
        // SAFETY: the caller promises it, and the storage is apart from all that is read.
        unsafe {
            let rows = read("rows", rows)?;
            let moves = rows.moves;
            rows.with(|rows, regions| {
                place.apart_from(&regions)?;
                let made = rows.inverted(values.get(&regions)?)?;
                let (heads, rotary_dim) = (made.heads(), made.rotary_dim());
                let used = made.len() * heads * rotary_dim;
                out.write(rope_rows {
                    attention_factor: made.attention_factor(),
                    heads,
                    moves,
                    ..rope_rows::joined(storage, used, rotary_dim)
                });
                Ok(())
            })
        }
    })
}

/// Writes to `len` how many values (floats) the rows of some positions have: the number of tokens times rotary_dim.
///
/// Returns ROPE_STATUS_POSITIONS_PER_AXIS, ROPE_STATUS_COORDINATE, ROPE_STATUS_OFFSETS, ROPE_STATUS_COUNT,
/// ROPE_STATUS_POSITION_RANGE; ROPE_STATUS_RANK and ROPE_STATUS_SHARD_TOKENS of a shard; ROPE_STATUS_PARAMETER and
/// ROPE_STATUS_AXES of `dual_chunk`; ROPE_STATUS_ROWS_TOO_LONG, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL,
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
    // SAFETY: the caller promises it.
    status_of(|| unsafe {
        write_len(
            recipe(frequencies, "positions", positions, RowRecipe::At)?,
            len,
        )
    })
}

/// Writes how many values are needed.
///
/// # Safety
///
/// `len` is null or points to a number that may be written.
pub(crate) unsafe fn write_len(
    (recipe, regions): (RowRecipe<'_>, [Region; 6]),
    len: *mut usize,
) -> Result<(), Failure> {
    let out = Out::new("len", len)?;
    // The handle's bytes; what positions lie in is not read.
    Region::of("len", len).apart_from(&regions[..1])?;
    let needed = recipe.needed()?;
    // SAFETY: the caller's number.
    unsafe { out.write(needed) };
    Ok(())
}

/// What rows are made of.
#[derive(Clone, Copy)]
pub(crate) enum RowRecipe<'a> {
    /// The positions of tokens.
    At(&'a Frequencies<'static>, Positions<'a>),
    /// The same on mixed axes.
    AtMixed(&'a MixedFrequencies<'static>, Positions<'a>),
    /// What keys move by.
    Shift(&'a Frequencies<'static>, Positions<'a>),
    /// The frequencies and positions that keys have, and those they get.
    ShiftFrom {
        new: &'a Frequencies<'static>,
        old: &'a Frequencies<'static>,
        from: Positions<'a>,
        to: Positions<'a>,
    },
}

impl RowRecipe<'_> {
    fn make<'s>(self, storage: &'s mut [f32]) -> Result<Rows<'s>, Error> {
        match self {
            RowRecipe::At(frequencies, positions) => frequencies.rows_in(positions, storage),
            RowRecipe::AtMixed(frequencies, positions) => frequencies.rows_in(positions, storage),
            RowRecipe::Shift(frequencies, deltas) => frequencies.shift_in(deltas, storage),
            RowRecipe::ShiftFrom { new, old, from, to } => {
                new.shift_from_in(old, from, to, storage)
            }
        }
    }

    /// `rope_rows.moves`.
    fn moves(self) -> i32 {
        matches!(self, RowRecipe::ShiftFrom { .. }).into()
    }

    /// Values that are needed.
    fn needed(self) -> Result<usize, Error> {
        match self.make(&mut []) {
            Ok(_) => Ok(0),
            Err(Error::Storage { needed, .. }) => Ok(needed),
            Err(error) => Err(error),
        }
    }
}

/// The recipe of positions or deltas, and the bytes that it reads.
///
/// # Safety
///
/// Pointers are null or point to what they say, which nobody writes during `'a`.
unsafe fn recipe<'a>(
    frequencies: *const rope_frequencies,
    name: &'static str,
    positions: *const rope_positions,
    of: fn(&'a Frequencies<'static>, Positions<'a>) -> RowRecipe<'a>,
) -> Result<(RowRecipe<'a>, [Region; 6]), Failure> {
    // SAFETY: the caller promises it.
    unsafe {
        let (frequencies, region) = self::frequencies(frequencies)?;
        let (positions, [first, second]) = read(name, positions)?.positions()?;
        let none = Region::bytes(name, 0, 0);
        let regions = [region, first, second, none, none, none];
        Ok((of(frequencies, positions), regions))
    }
}

/// As [`recipe`], of keys that have frequencies and positions.
///
/// # Safety
///
/// As [`recipe`].
unsafe fn recipe_from<'a>(
    frequencies: *const rope_frequencies,
    old: *const rope_frequencies,
    from: *const rope_positions,
    to: *const rope_positions,
) -> Result<(RowRecipe<'a>, [Region; 6]), Failure> {
    // SAFETY: the caller promises it.
    unsafe {
        let (new, region) = self::frequencies(frequencies)?;
        let (old, other) = self::frequencies(old)?;
        let (from, [first, second]) = read("from", from)?.positions()?;
        let (to, [third, fourth]) = read("to", to)?.positions()?;
        let recipe = RowRecipe::ShiftFrom { new, old, from, to };
        Ok((recipe, [region, other, first, second, third, fourth]))
    }
}

/// Makes rows in the caller's storage.
///
/// # Safety
///
/// `storage` is null or points to `len` floats, and `rows` is null or points to a rope_rows; nobody else uses them
/// meanwhile. Nothing of the recipe is written but through the regions that are listed.
pub(crate) unsafe fn fill(
    (recipe, regions): (RowRecipe<'_>, [Region; 6]),
    storage: *mut f32,
    len: usize,
    rows: *mut rope_rows,
) -> Result<(), Failure> {
    let out = Out::new("rows", rows)?;
    let place = Region::of("rows", rows);
    let values = SpanMut::new("storage", storage, len)?;
    place.apart_from(&regions)?;
    values.region().apart_from(&[place])?;
    // SAFETY: the caller promises it, and the storage is apart from all that is read.
    let made = recipe.make(unsafe { values.get(&regions) }?)?;
    let (heads, rotary_dim) = (made.heads(), made.rotary_dim());
    let used = made.len() * heads * rotary_dim;
    let made = rope_rows {
        attention_factor: made.attention_factor(),
        heads,
        moves: recipe.moves(),
        ..rope_rows::joined(storage, used, rotary_dim)
    };
    // SAFETY: the caller's struct.
    unsafe { out.write(made) };
    Ok(())
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
        // SAFETY: the caller promises it.
        unsafe {
            let recipe = recipe(frequencies, "positions", positions, RowRecipe::At)?;
            fill(recipe, storage, len, rows)
        }
    })
}

/// Makes the rows that move keys by `deltas`, for rope_shift, in the caller's storage: those of the deltas as
/// positions, with a magnitude of 1, because the keys have the attention factor already. On several axes a token has a
/// delta for each. ROPE_ROWS_LEN(tokens, rotary_dim) floats are needed.
///
/// Returns what rope_rows_fill returns.
///
/// # Threads
///
/// As rope_rows_fill.
///
/// # Safety
///
/// As rope_rows_fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_fill_shift(
    frequencies: *const rope_frequencies,
    deltas: *const rope_positions,
    storage: *mut f32,
    len: usize,
    rows: *mut rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises it.
        unsafe {
            let recipe = recipe(frequencies, "deltas", deltas, RowRecipe::Shift)?;
            fill(recipe, storage, len, rows)
        }
    })
}

/// Makes the rows that take keys from other frequencies and positions to these, for rope_shift, in the caller's
/// storage: after dynamic NTK, YaRN or LongRoPE have changed with the length of a sequence. `old` are the frequencies
/// that the keys were rotated with, `from` their positions then, `to` those they get. ROPE_ROWS_LEN(tokens, rotary_dim)
/// floats are needed.
///
/// An angle is the exact difference of the two; cos and sin are multiplied by the new attention factor over the old.
///
/// Returns ROPE_STATUS_ROTARY_DIM if the old frequencies have another number of pairs, ROPE_STATUS_COUNT if `from` and
/// `to` are not as many, ROPE_STATUS_NO_INTEGER for coordinates, and what rope_rows_fill returns.
///
/// # Threads
///
/// As rope_rows_fill.
///
/// # Safety
///
/// As rope_rows_fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rows_fill_shift_from(
    frequencies: *const rope_frequencies,
    old: *const rope_frequencies,
    from: *const rope_positions,
    to: *const rope_positions,
    storage: *mut f32,
    len: usize,
    rows: *mut rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises it.
        unsafe { fill(recipe_from(frequencies, old, from, to)?, storage, len, rows) }
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
/// Pointers are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_sinusoidal(
    rows: *const rope_rows,
    values: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        let values = SpanMut::new("values", values, len)?;
        // SAFETY: the caller promises it. The values become a slice only apart from the rows (see `memory`).
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
    use std::vec::Vec;

    use super::{RowRecipe, recipe, recipe_from, rope_rows};
    use crate::failure::Failure;
    use crate::frequencies::rope_frequencies;
    use crate::handle::{Head, free, handle, own};
    use crate::memory::{Out, Region};
    use crate::positions::rope_positions;
    use crate::status::{rope_status, status_of};

    /// Rows that own their memory, of a table of all positions or of one step. A handle.
    #[repr(align(64))]
    #[derive(Debug)]
    pub struct rope_table {
        head: Head,
        value: Table,
    }
    handle!(rope_table, Table, 0x726f_7065_5f74_626c, "table");

    /// What a table holds.
    #[derive(Debug)]
    pub(crate) struct Table {
        values: Vec<f32>,
        heads: usize,
        rotary_dim: usize,
        attention_factor: f64,
        moves: i32,
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
        // SAFETY: the caller promises it.
        status_of(|| unsafe {
            write_table(
                recipe(frequencies, "positions", positions, RowRecipe::At)?,
                table,
            )
        })
    }

    /// Writes where a new table of rows is.
    ///
    /// # Safety
    ///
    /// `table` is null or points to a pointer that may be written.
    pub(crate) unsafe fn write_table(
        (recipe, regions): (RowRecipe<'_>, [Region; 6]),
        table: *mut *mut rope_table,
    ) -> Result<(), Failure> {
        let out = Out::new("table", table)?;
        Region::of("table", table).apart_from(&regions)?;
        let made = table_of(recipe)?;
        // SAFETY: the caller's pointer.
        unsafe { out.write(made) };
        Ok(())
    }

    /// A table of rows.
    fn table_of(recipe: RowRecipe<'_>) -> Result<*mut rope_table, Failure> {
        let needed = recipe.needed()?;
        let mut values = Vec::new();
        values
            .try_reserve_exact(needed)
            .map_err(|_| Failure::OutOfMemory {
                bytes: needed.saturating_mul(size_of::<f32>()),
            })?;
        values.resize(needed, 0.0);
        let rows = recipe.make(&mut values)?;
        let (heads, rotary_dim) = (rows.heads(), rows.rotary_dim());
        let attention_factor = rows.attention_factor();
        own(Table {
            values,
            heads,
            rotary_dim,
            attention_factor,
            moves: recipe.moves(),
        })
    }

    /// Makes the rows of rope_rows_fill_shift on the heap. rope_table_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_len returns.
    ///
    /// # Threads
    ///
    /// As rope_table_new.
    ///
    /// # Safety
    ///
    /// As rope_table_new.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_new_shift(
        frequencies: *const rope_frequencies,
        deltas: *const rope_positions,
        table: *mut *mut rope_table,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        status_of(|| unsafe {
            write_table(
                recipe(frequencies, "deltas", deltas, RowRecipe::Shift)?,
                table,
            )
        })
    }

    /// Makes the rows of rope_rows_fill_shift_from on the heap. rope_table_free frees them.
    ///
    /// Returns ROPE_STATUS_OUT_OF_MEMORY, and what rope_rows_fill_shift_from returns.
    ///
    /// # Threads
    ///
    /// As rope_table_new.
    ///
    /// # Safety
    ///
    /// As rope_table_new.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn rope_table_new_shift_from(
        frequencies: *const rope_frequencies,
        old: *const rope_frequencies,
        from: *const rope_positions,
        to: *const rope_positions,
        table: *mut *mut rope_table,
    ) -> rope_status {
        // SAFETY: the caller promises it.
        status_of(|| unsafe { write_table(recipe_from(frequencies, old, from, to)?, table) })
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
            let (table, region) = unsafe { crate::handle::value(table) }?;
            Region::of("rows", rows).apart_from(&[region])?;
            let rows = rope_rows {
                attention_factor: table.attention_factor,
                heads: table.heads,
                moves: table.moves,
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
        // SAFETY: the caller promises it.
        status_of(|| unsafe { free(table) })
    }
}
#[cfg(feature = "std")]
pub use heap::*;
