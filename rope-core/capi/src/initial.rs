//! The initial values of learned frequencies, and the positions of an image's patches.

use core::ffi::c_void;

use rope_core::Error;
use rope_models::GridIndexing;

use crate::failure::Failure;
use crate::memory::{Out, Plain, Region, SpanMut};
use crate::mixed::Numbers;
use crate::names::{lookup, rope_number};
use crate::positions::{rope_positions, rope_positions_kind, rope_positions_per_token};
use crate::status::{rope_status, status_of};

/// Which axis of a grid is the row, named as torch.meshgrid and timm's `grid_indexing` name it.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_grid_indexing {
    /// Axis 0 is the column, axis 1 the row: the models of RoPE-ViT.
    Xy = 1401,
    /// Axis 0 is the row, axis 1 the column.
    Ij = 1402,
}
lookup!(rope_grid_indexing, "indexing of a grid": Xy Ij);

impl rope_grid_indexing {
    fn indexing(self) -> GridIndexing {
        match self {
            rope_grid_indexing::Xy => GridIndexing::Xy,
            rope_grid_indexing::Ij => GridIndexing::Ij,
        }
    }
}

/// Writes the frequencies that RoPE-Mixed starts from (init_random_2d_freqs in rope-vit and timm) to the first
/// `2 * heads * pairs` floats of `inverse`, which has `len`: `[2][heads][pairs]`.
///
/// Pair k of the first half of a head has the magnitude theta^(-2k / pairs) and looks along the head's direction, an
/// angle in radians; the second half has the same magnitudes and looks a quarter turn further. The directions, one for
/// each head, are the caller's random numbers of type `number` (ROPE_NUMBER_F32 or ROPE_NUMBER_F64), published as
/// uniform in [0, 2 pi). Without directions (NULL) it is the axial start of rope-vit and timm (rotate=False): every
/// head has the direction 0, so that the first half of the pairs looks along axis 0 and the second along axis 1.
///
/// Returns ROPE_STATUS_ROTARY_DIM unless `pairs` is even and at most half of ROPE_ROTARY_DIM_MAX, ROPE_STATUS_PARAMETER
/// for a theta that is not positive and for a direction beyond 2^20, ROPE_STATUS_TOO_FAST, ROPE_STATUS_STORAGE if `len`
/// is too small, ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH,
/// ROPE_STATUS_MEMORY_OVERLAP. `inverse` is untouched then. The call allocates, and cannot report a lack of memory: the
/// process ends.
///
/// # Threads
///
/// May be called from any thread. No other thread may use `inverse` meanwhile.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_initial_mixed(
    theta: f64,
    directions: *const c_void,
    heads: usize,
    number: i32,
    pairs: usize,
    inverse: *mut f32,
    len: usize,
) -> rope_status {
    status_of(|| {
        let inverse = SpanMut::new("inverse", inverse, len)?;
        if directions.is_null() && heads > 0 {
            // SAFETY: the caller promises that pointers are null or valid during the call.
            let inverse = unsafe { inverse.get(&[]) }?;
            return Ok(rope_models::initial_axial(theta, heads, pairs, inverse)?);
        }
        // SAFETY: the caller promises that pointers are null or valid during the call. `inverse` becomes a slice only
        // after a check that it is disjoint from the directions (see `memory`).
        let (directions, inverse) = unsafe {
            let (directions, region) = Numbers::new("directions", directions, heads, number)?;
            (directions, inverse.get(&[region])?)
        };
        match directions {
            Numbers::Singles(list) => {
                rope_models::initial_mixed(theta, list, pairs, inverse)?;
            }
            Numbers::Doubles(list) => {
                rope_models::initial_mixed(theta, list, pairs, inverse)?;
            }
        }
        Ok(())
    })
}

/// Writes the positions of an image's `rows` times `columns` patches to the first `2 * rows * columns` numbers of the
/// storage, which has `len` of type `number` (`enum rope_number`), and describes them in `positions`: all on axis 0,
/// then all on axis 1 (`indexing`, `enum rope_grid_indexing`). Patch `row * columns + column` is the token of that
/// number.
///
/// Returns ROPE_STATUS_PARAMETER for more than 65535 rows or columns, ROPE_STATUS_STORAGE if `len` is too small,
/// ROPE_STATUS_UNKNOWN_VALUE, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
/// The storage is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the storage meanwhile.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call. `storage` stays as long as the positions
/// are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_grid_positions(
    indexing: i32,
    rows: usize,
    columns: usize,
    storage: *mut c_void,
    len: usize,
    number: i32,
    positions: *mut rope_positions,
) -> rope_status {
    status_of(|| {
        let indexing = rope_grid_indexing::from_c(indexing)?.indexing();
        let extents = [extent("rows", rows)?, extent("columns", columns)?];
        let grid = (indexing, extents);
        // SAFETY: the caller promises that pointers are null or valid during the call.
        unsafe {
            match rope_number::from_c(number)? {
                rope_number::I32 => write_grid::<i32>(grid, storage, len, number, positions),
                rope_number::I64 => write_grid::<i64>(grid, storage, len, number, positions),
                rope_number::U32 => write_grid::<u32>(grid, storage, len, number, positions),
                rope_number::U64 => write_grid::<u64>(grid, storage, len, number, positions),
                rope_number::F32 => write_grid::<f32>(grid, storage, len, number, positions),
                rope_number::F64 => write_grid::<f64>(grid, storage, len, number, positions),
            }
        }
    })
}

/// Rows or columns of a grid.
fn extent(name: &'static str, value: usize) -> Result<u16, Error> {
    u16::try_from(value).map_err(|_| Error::Parameter {
        name,
        value: value as f64,
        required: "at most 65535",
    })
}

/// # Safety
///
/// `storage` is null or points to `len` numbers, and `positions` is null or points to a rope_positions; nobody else
/// uses them meanwhile.
unsafe fn write_grid<T: Plain + From<u16> + 'static>(
    (indexing, extents): (GridIndexing, [u16; 2]),
    storage: *mut c_void,
    len: usize,
    number: i32,
    positions: *mut rope_positions,
) -> Result<(), Failure> {
    let out = Out::new("positions", positions)?;
    let values = SpanMut::<T>::new("storage", storage.cast(), len)?;
    // SAFETY: the caller promises that both pointers are null or valid, and that nobody else uses their memory
    // meanwhile. The storage becomes a slice only after a check that it is disjoint from `positions` (see `memory`).
    unsafe {
        let values = values.get(&[Region::of("positions", positions)])?;
        let written = indexing.positions_in(extents, values)?;
        out.write(rope_positions {
            kind: rope_positions_kind::AxisMajor as i32,
            ..rope_positions_per_token(storage, written.len(), number)
        });
    }
    Ok(())
}
