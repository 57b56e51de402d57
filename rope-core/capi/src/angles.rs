//! Angles: rows, the cos and sin of each token, or frequencies at positions, of which a call makes rows itself.

use core::ffi::c_void;

use rope_core::error::RowsError;
use rope_core::internals::{AnyAngles, RawRows, TokenHeads, moving, over, token_heads};
use rope_core::{Error, FullRows, Ids, Rope, Rows, TokenAngles};

use crate::failure::Failure;
use crate::frequencies::{AnyFrequencies, any_frequencies, rope_frequencies};
use crate::memory::{Region, Span, plain, read};
use crate::names::rope_number;
use crate::operand::{TensorRecord, rope_layout, with_element};
use crate::positions::{ids, rope_positions};

/// The angles of the tokens of a call: rows, or frequencies at positions.
///
/// A row is the cos and sin of a token, `rotary_dim / 2` of each, already multiplied by the attention factor. A
/// rotation requires one row per token of a sequence (all sequences share them), or one per token of the batch. With
/// `ids` the values are a table, and the ids select its rows, in their order. Every call checks that each id names a
/// row of the table.
///
/// The heads of a token share its row, unless each has a row of its own (`heads`, `layout`). Such rows are counted per
/// token, all heads together, and rotate only tensors with that number of heads.
///
/// Rows are described by the caller, or by rope_rows_joined, rope_rows_apart, rope_rows_fill, rope_table_rows.
/// rope_angles_at describes frequencies at positions: a call then makes the rows itself, some tokens at a time, on the
/// stack (8 KiB), with the same bits; there are no rows to keep.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_angles {
    /// The cos values. If `sin` is NULL, a row is `rotary_dim / 2` cos and then as many sin (vLLM's cache).
    pub cos: *const f32,
    /// The sin values; NULL: they lie after the cos of their row.
    pub sin: *const f32,
    /// The number of values in `cos`, and also in `sin`: a whole number of rows.
    pub len: usize,
    /// Channels that a row rotates.
    pub rotary_dim: usize,
    /// cos values of a row, where cos and sin are apart: `rotary_dim / 2`, or `rotary_dim` where each is kept twice,
    /// the second half of a row like the first. Not used where they are joined.
    pub width: usize,
    /// The factor on cos and sin (YaRN, LongRoPE): 1 for most models. ROPE_DIRECTION_INVERSE divides by its
    /// square, and refuses rows whose pairs have another magnitude (xPos); rope_rows_invert makes the rows that undo
    /// them.
    pub attention_factor: f64,
    /// Ids of rows; NULL: all rows, in order.
    pub ids: *const c_void,
    /// The number of ids. Not read without ids.
    pub ids_count: usize,
    /// The type of the ids (ROPE_NUMBER_I32, ROPE_NUMBER_I64, ROPE_NUMBER_U32 or ROPE_NUMBER_U64). Not used without
    /// ids.
    pub ids_number: i32,
    /// Heads that have a row each: groups of this number of consecutive rows belong to the heads of one token. 0
    /// and 1: heads share their row. Not used with a layout.
    pub heads: usize,
    /// Where cos and sin lie, each of them, if not row after row: the shape is sequences, tokens, heads and
    /// `rotary_dim / 2`, with any strides. Dimensions that share their rows have an extent of 1 or a stride of 0:
    /// ROPE_ORDER_BHSD with 1 sequence is how timm keeps them. All zero: row after row.
    pub layout: rope_layout,
    /// Not 0: full-width rows, with a cos and a sin for each of the `rotary_dim` channels: `width` and the last extent
    /// of a layout are `rotary_dim`; joined, `2 * rotary_dim` values are a row. For the channels `i` and `j` of a pair
    /// `x' = x cos[i] - y sin[i]` and `y' = y cos[j] + x sin[j]`: HunYuan-VL and V-JEPA 2, and kernels that index cos
    /// and sin by channel. In general that is no rotation: ROPE_DIRECTION_TRANSPOSE takes gradients back, but inverses,
    /// shifts and gradients of angles are refused with ROPE_STATUS_FULL_WIDTH_ROWS.
    pub full_width: i32,
    /// Not 0: rows that move keys in a cache. Of rows: keys are also multiplied by their `attention_factor`;
    /// a rotation in a cache refuses other rows unless their `attention_factor` is 1. With frequencies and positions,
    /// for rope_rows_fill and rope_table_new: the rows of a context shift, by the positions as deltas or, with
    /// `old_frequencies`, from other frequencies and positions to these.
    pub moves: i32,
    /// Frequencies, of which the call makes rows; NULL: rows.
    pub frequencies: *const rope_frequencies,
    /// The positions of the tokens. Not used of rows.
    pub positions: *const rope_positions,
    /// The frequencies that keys were rotated with, if they move from others; NULL: they move by deltas.
    pub old_frequencies: *const rope_frequencies,
    /// The positions of the keys then. Used with `old_frequencies` alone.
    pub old_positions: *const rope_positions,
}
plain!(rope_angles);

impl rope_angles {
    pub(crate) const NONE: Self = rope_angles {
        cos: core::ptr::null(),
        sin: core::ptr::null(),
        len: 0,
        rotary_dim: 0,
        width: 0,
        attention_factor: 1.0,
        ids: core::ptr::null(),
        ids_count: 0,
        ids_number: 0,
        heads: 0,
        layout: rope_layout {
            shape: [0; 4],
            strides: [0; 3],
        },
        full_width: 0,
        moves: 0,
        frequencies: core::ptr::null(),
        positions: core::ptr::null(),
        old_frequencies: core::ptr::null(),
        old_positions: core::ptr::null(),
    };

    /// Rows of joined cos and sin.
    pub(crate) fn joined(values: *const f32, len: usize, rotary_dim: usize) -> Self {
        rope_angles {
            cos: values,
            len,
            rotary_dim,
            width: rotary_dim,
            ..rope_angles::NONE
        }
    }

    /// Rows that lie as a layout says.
    fn strided<'v>(&self, cos: &'v [f32], sin: &'v [f32]) -> Result<Rows<'v>, Error> {
        let rows = Rows::strided(cos, sin, self.layout.layout()?)?;
        let (width, rotary_dim) = (self.layout.shape[3], self.rotary_dim);
        if Some(rows.rotary_dim()) == self.values() {
            Ok(rows)
        } else {
            Err(Error::Rows(RowsError::Width { width, rotary_dim }))
        }
    }

    /// cos and sin values of a row, if there can be so many.
    fn values(&self) -> Option<usize> {
        let times = if self.full_width == 0 { 1 } else { 2 };
        self.rotary_dim.checked_mul(times)
    }

    /// The angles, checked by themselves.
    ///
    /// # Safety
    ///
    /// Each pointer is null or valid.
    #[inline(always)]
    pub(crate) unsafe fn record(&self) -> Result<AnglesRecord, Failure> {
        match self.frequencies.is_null() {
            // SAFETY: the caller promises that each pointer is null or valid.
            true if self.full_width != 0 => Ok(AnglesRecord::Full(unsafe { self.any_rows() }?)),
            // SAFETY: the caller promises that each pointer is null or valid.
            true => Ok(AnglesRecord::Rows(unsafe { self.any_rows() }?)),
            // SAFETY: the caller promises that each pointer is null or valid.
            false => Ok(AnglesRecord::At(unsafe { self.at() }?)),
        }
    }

    /// Rows that consist of cos and sin alone; `None` also if their memory is refused.
    ///
    /// # Safety
    ///
    /// Each pointer is null or valid, and nobody writes there during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn raw<'a>(&self) -> Option<RawRows<'a>> {
        let lists = !(self.frequencies.is_null() && self.ids.is_null());
        let placed = self.heads > 1 || self.layout.shape != [0; 4];
        let marked = self.full_width | self.moves != 0 || self.attention_factor != 1.0;
        if lists || placed || marked {
            return None;
        }
        let cos = Span::new("cos", self.cos, self.len).ok()?;
        let (sin, width) = match self.sin.is_null() {
            true => (None, self.rotary_dim),
            false => (Some(Span::new("sin", self.sin, self.len).ok()?), self.width),
        };
        Some(RawRows {
            // SAFETY: the caller promises that each pointer is null or valid, and that nobody writes there during `'a`.
            cos: unsafe { cos.get() },
            // SAFETY: the caller promises that each pointer is null or valid, and that nobody writes there during `'a`.
            sin: sin.map(|sin| unsafe { sin.get() }),
            rotary_dim: self.rotary_dim,
            width,
        })
    }

    /// Rows with one angle per pair, checked by themselves.
    ///
    /// # Safety
    ///
    /// As [`rope_angles::record`].
    #[inline]
    pub(crate) unsafe fn rows(&self, operation: &'static str) -> Result<RowsRecord, Failure> {
        // SAFETY: the caller promises that each pointer is null or valid.
        let rows = unsafe { self.any_rows() }?;
        match self.full_width {
            0 => Ok(rows),
            _ => Err(Error::Rows(RowsError::FullWidth { operation }).into()),
        }
    }

    /// Rows with one angle per pair or per channel, checked by themselves.
    ///
    /// # Safety
    ///
    /// As [`rope_angles::record`].
    #[inline]
    pub(crate) unsafe fn any_rows(&self) -> Result<RowsRecord, Failure> {
        if !self.frequencies.is_null() {
            return Err(Failure::NotRows);
        }
        let cos = Span::new("cos", self.cos, self.len)?;
        let strided = self.layout.shape != [0; 4];
        // Values per row: full-width rows have one for each channel.
        let values_of_a_row = self.values().ok_or(Error::Rows(RowsError::RotaryDim {
            rotary_dim: self.rotary_dim,
            required: "even and at most 2048 of full-width rows",
        }))?;
        let (table, sin) = if self.sin.is_null() && !strided {
            // SAFETY: the caller promises that each pointer is null or valid.
            let values = unsafe { cos.get() };
            let rows = self.len.checked_div(values_of_a_row).unwrap_or(0);
            (Rows::new(values, [rows, values_of_a_row])?, None)
        } else {
            let sin = Span::new("sin", self.sin, self.len)?;
            // SAFETY: the caller promises that each pointer is null or valid.
            let (cos, values) = unsafe { (cos.get(), sin.get()) };
            let rows = if strided {
                self.strided(cos, values)?
            } else {
                let rows = self.len.checked_div(self.width).unwrap_or(0);
                Rows::from_cos_sin(cos, values, [rows, self.width], values_of_a_row)?
            };
            (rows, Some(sin))
        };
        let table = if strided || self.heads <= 1 {
            table
        } else {
            table.with_heads(self.heads)?
        };
        if self.full_width != 0 {
            FullRows::new(table.clone())?;
        }
        let table = match self.attention_factor {
            1.0 => table,
            factor => table.with_attention_factor(factor)?,
        };
        let table = match self.moves {
            0 => table,
            _ => moving(table),
        };
        let ids = match self.ids.is_null() {
            true => None,
            false => {
                let number = rope_number::from_c(self.ids_number)?;
                // SAFETY: the caller promises that each pointer is null or valid.
                unsafe { ids("ids", number, self.ids, self.ids_count) }?;
                Some((number, self.ids_count))
            }
        };
        Ok(RowsRecord {
            rows: over(&table, &[], sin.map(|_| &[][..])),
            cos,
            sin,
            ids: self.ids,
            listed: ids,
        })
    }

    /// Frequencies at positions.
    ///
    /// # Safety
    ///
    /// As [`rope_angles::record`].
    #[inline(never)]
    unsafe fn at(&self) -> Result<AtRecord, Failure> {
        if self.moves != 0 || !self.old_frequencies.is_null() {
            return Err(Failure::UnknownValue {
                what: "angles.moves",
                value: self.moves,
                required: "0 of frequencies at positions; rope_rows_fill makes the rows that move keys",
            });
        }
        // SAFETY: the caller promises that each pointer is null or valid.
        unsafe {
            any_frequencies(self.frequencies)?;
            Ok(AtRecord {
                frequencies: self.frequencies,
                positions: read("positions", self.positions)?,
            })
        }
    }
}

/// Angles that were checked by themselves.
#[derive(Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "it lies in a rope_call, or on the stack of one"
)]
pub(crate) enum AnglesRecord {
    Rows(RowsRecord),
    /// Rows of full width, with a value for each channel.
    Full(RowsRecord),
    At(AtRecord),
    /// A call that does not rotate.
    None,
}

/// Rows without their memory.
#[derive(Clone)]
pub(crate) struct RowsRecord {
    rows: Rows<'static>,
    cos: Span<f32>,
    sin: Option<Span<f32>>,
    /// The ids; not used where none are listed.
    ids: *const c_void,
    listed: Option<(rope_number, usize)>,
}

#[derive(Clone, Copy)]
pub(crate) struct AtRecord {
    frequencies: *const rope_frequencies,
    pub(crate) positions: rope_positions,
}

impl RowsRecord {
    /// The bytes that the rows are read from.
    #[inline]
    pub(crate) fn regions(&self) -> [Region; 3] {
        let ids = match self.listed {
            Some((number, count)) => Region::bytes("ids", self.ids.addr(), count * number.size()),
            None => Region::NONE,
        };
        let sin = self.sin.map_or(Region::NONE, |sin| sin.region());
        [self.cos.region(), sin, ids]
    }

    /// The heads of a plain call on one token, if this is its row.
    pub(crate) fn token_heads(&self, rope: &Rope, x: &TensorRecord) -> Option<TokenHeads> {
        if self.listed.is_some() {
            return None;
        }
        with_element!(x.element, E => { token_heads::<E>(rope, &x.layout, &self.rows) })
    }

    /// The cos, and the sin unless they lie after them.
    pub(crate) fn spans(&self) -> (Span<f32>, Option<Span<f32>>) {
        (self.cos, self.sin)
    }

    /// Returns true for a sin apart from the cos, and true for rows by ids.
    pub(crate) fn parts(&self) -> (bool, bool) {
        (self.sin.is_some(), self.listed.is_some())
    }

    /// The same rows in other memory; null: where they are.
    #[inline]
    pub(crate) fn at(
        &self,
        cos: *const f32,
        sin: *const f32,
        ids: *const c_void,
    ) -> Result<Self, Failure> {
        let mut record = self.clone();
        if !cos.is_null() {
            record.cos = self.cos.at(cos)?;
        }
        if let Some(here) = self.sin
            && !sin.is_null()
        {
            record.sin = Some(here.at(sin)?);
        }
        if let Some((number, count)) = self.listed
            && !ids.is_null()
        {
            // SAFETY: the slice of the ids ends here.
            unsafe { crate::positions::ids("ids", number, ids, count) }?;
            record.ids = ids;
        }
        Ok(record)
    }

    /// The table.
    ///
    /// # Safety
    ///
    /// The values are there, and nobody writes them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn table<'a>(&self) -> Rows<'a> {
        // SAFETY: the caller promises that the values are readable, and that nobody writes them during `'a`.
        unsafe { over(&self.rows, self.cos.get(), self.sin.map(|sin| sin.get())) }
    }

    /// The ids of the table's rows, if there are any.
    ///
    /// # Safety
    ///
    /// As [`RowsRecord::table`].
    pub(crate) unsafe fn ids<'a>(&self) -> Result<Option<Ids<'a>>, Failure> {
        let Some((number, count)) = self.listed else {
            return Ok(None);
        };
        // SAFETY: the caller promises that the ids are readable, and that nobody writes them during `'a`.
        Ok(Some(unsafe { ids("ids", number, self.ids, count) }?.0))
    }

    /// Calls `with` with the rows.
    ///
    /// # Safety
    ///
    /// The values and the ids are there, and nobody writes them until this returns.
    #[inline(always)]
    pub(crate) unsafe fn with<T>(
        &self,
        with: impl FnOnce(&Rows<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: the caller promises that the values and ids are readable, and that nobody writes them meanwhile.
        let table = unsafe { self.table() };
        if self.listed.is_none() {
            return with(&table);
        }
        // SAFETY: the caller promises that the values and ids are readable, and that nobody writes them meanwhile.
        match unsafe { self.ids() }? {
            None => with(&table),
            Some(ids) => with(&table.gather(ids)?),
        }
    }
}

impl AnglesRecord {
    /// The bytes that the angles are read from.
    #[inline]
    pub(crate) fn regions(&self) -> Result<[Region; 3], Failure> {
        match self {
            AnglesRecord::Rows(rows) | AnglesRecord::Full(rows) => Ok(rows.regions()),
            AnglesRecord::None => Ok([Region::NONE; 3]),
            // SAFETY: the slices end here.
            AnglesRecord::At(at) => unsafe {
                let (_, region) = any_frequencies(at.frequencies)?;
                let (_, [first, second]) = at.positions.positions()?;
                Ok([region, first, second])
            },
        }
    }

    /// Calls `with` with the angles.
    ///
    /// # Safety
    ///
    /// All that they point to is there, and nobody writes it until this returns.
    pub(crate) unsafe fn with<T>(
        &self,
        with: impl FnOnce(&AnyAngles<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // SAFETY: the caller promises that the memory of the angles is readable, and that nobody writes it meanwhile.
        unsafe {
            match self {
                AnglesRecord::Rows(rows) => rows.with(|rows| with(&AnyAngles::Rows(rows))),
                AnglesRecord::Full(rows) => {
                    rows.with(|rows| with(&AnyAngles::Full(FullRows::new(rows.clone())?)))
                }
                AnglesRecord::At(at) => with(&AnyAngles::At(at.rows()?)),
                AnglesRecord::None => with(&AnyAngles::None),
            }
        }
    }
}

impl AtRecord {
    /// The same frequencies at other positions; null: at these.
    ///
    /// # Safety
    ///
    /// The pointer is null or points to a struct.
    pub(crate) unsafe fn at(&self, positions: *const rope_positions) -> Result<Self, Failure> {
        let positions = match positions.is_null() {
            true => self.positions,
            // SAFETY: the caller promises that the pointer, which is not null, is valid.
            false => unsafe { read("positions", positions) }?,
        };
        Ok(AtRecord { positions, ..*self })
    }

    /// # Safety
    ///
    /// The positions and the frequencies are readable, and nobody writes them during `'a`.
    unsafe fn rows<'a>(&self) -> Result<TokenAngles<'a>, Failure> {
        // SAFETY: the caller promises that positions and frequencies are readable, and that nobody writes them during
        // `'a`.
        unsafe {
            let (positions, _) = self.positions.positions()?;
            Ok(match any_frequencies(self.frequencies)?.0 {
                AnyFrequencies::Axes(frequencies) => frequencies.at(positions)?,
                AnyFrequencies::Mixed(frequencies) => frequencies.at(positions)?,
            })
        }
    }
}

/// Describes frequencies at the positions of the tokens. This call reads neither; the calls that the angles are given
/// to do. With ROPE_STATUS_ROTARY_DIM_ON_STACK they refuse frequencies of more than 2048 channels (of all heads
/// together, where each has its own, unless a plan without stages rotates a tensor in place).
///
/// # Threads
///
/// May be called from any thread at any time.
#[unsafe(no_mangle)]
pub extern "C" fn rope_angles_at(
    frequencies: *const rope_frequencies,
    positions: *const rope_positions,
) -> rope_angles {
    rope_angles {
        frequencies,
        positions,
        ..rope_angles::NONE
    }
}
