//! The verbs.

use rope_core::axes::MixedFrequencies;
use rope_core::internals::check_query_and_key;
use rope_core::{Frequencies, Layout, Positions, Rope, Rows, RowsAt, TensorMut};

use crate::failure::Failure;
use crate::frequencies::{frequencies, rope_frequencies};
use crate::memory::{Region, SpanMut, read};
use crate::packed::{Nest, Sharing, of_one_row};
use crate::plan::rope_plan;
use crate::positions::rope_positions;
use crate::rows::rope_rows;
use crate::status::{rope_status, status_of};
use crate::tensor::{rope_tensor, rope_tensor_mut};

/// Runs a block with a name for the element type that a number stands for.
macro_rules! with_element {
    ($element:expr, $E:ident => $block:block) => {
        match $crate::names::rope_element::from_c($element)? {
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

/// Rotates the first `rotary_dim` channels of every head of a tensor, in place. The other channels stay as they are.
///
/// Each of the three operations of x cos - y sin and x sin + y cos is rounded to a float by itself, and the result
/// is rounded to the element once: the same bits on every machine.
///
/// Returns ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD, ROPE_STATUS_ROW_COUNT, ROPE_STATUS_ROW_HEADS,
/// ROPE_STATUS_ROW_SEQUENCES, ROPE_STATUS_PAIRING_CHANGES_IN_PLACE; ROPE_STATUS_ROW_MAGNITUDE and
/// ROPE_STATUS_FULL_WIDTH_ROWS of ROPE_DIRECTION_INVERSE; ROPE_STATUS_BACKEND_UNAVAILABLE; ROPE_STATUS_SHAPE_OVERFLOW,
/// ROPE_STATUS_OUT_OF_BOUNDS, ROPE_STATUS_OVERLAP; ROPE_STATUS_ROTARY_DIM, ROPE_STATUS_ROWS_LENGTH,
/// ROPE_STATUS_ROW_WIDTH, ROPE_STATUS_HALVES_DIFFER, ROPE_STATUS_HALVES_EQUAL, ROPE_STATUS_ROWS_PER_HEAD,
/// ROPE_STATUS_ATTENTION_FACTOR, ROPE_STATUS_POSITION_OUTSIDE_TABLE; ROPE_STATUS_ROTARY_DIM_ON_STACK of full-width rows
/// beyond 2048 channels; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE,
/// ROPE_STATUS_MEMORY_OVERLAP. The tensor is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the tensor's memory meanwhile, from its first element to
/// its last; others may read the rows. To spread one rotation over threads, give each thread its own tokens, or its
/// own heads of a heads-major tensor. The bits do not depend on the split.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or point to what they say, for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate(
    plan: *const rope_plan,
    x: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `x` becomes a slice only apart from the rows (see `memory`).
        unsafe {
            let rope = read("plan", plan)?.rope()?;
            let x = read("x", x)?;
            read("rows", rows)?.with(|rows, regions| in_place(&rope, "x", &x, rows, &regions))
        }
    })
}

/// # Safety
///
/// The tensor is there, and nobody else uses it meanwhile.
#[inline]
unsafe fn in_place(
    rope: &Rope,
    name: &'static str,
    x: &rope_tensor_mut,
    rows: &Rows<'_>,
    regions: &[Region],
) -> Result<(), Failure> {
    with_element!(x.element, E => {
        let (span, layout) = x.span::<E>(name)?;
        // SAFETY: the caller promises it.
        let data = unsafe { span.get(regions) }?;
        Ok(rope.rotate(&mut TensorMut::new(data, layout)?, rows)?)
    })
}

/// The layout of a tensor that passes all checks of one that is written, by itself, and the bytes that it takes.
///
/// # Safety
///
/// As [`in_place`].
unsafe fn checked(
    name: &'static str,
    x: &rope_tensor_mut,
    regions: &[Region],
) -> Result<(Layout, Region), Failure> {
    with_element!(x.element, E => {
        let (span, layout) = x.span::<E>(name)?;
        let region = span.region();
        // SAFETY: the caller promises it.
        let data = unsafe { span.get(regions) }?;
        TensorMut::new(data, layout)?;
        Ok((layout, region))
    })
}

/// Rotates a tensor, by its layout.
///
/// # Safety
///
/// As [`in_place`], and [`checked`] has passed it.
unsafe fn rotate_checked(
    rope: &Rope,
    name: &'static str,
    x: &rope_tensor_mut,
    layout: Layout,
    rows: &Rows<'_>,
) -> Result<(), Failure> {
    with_element!(x.element, E => {
        // SAFETY: the caller promises it, and it is apart from all that is read.
        let data = unsafe { SpanMut::<E>::new(name, x.data.cast(), layout.end())?.get(&[]) }?;
        Ok(rope.rotate(&mut TensorMut::new(data, layout)?, rows)?)
    })
}

/// `ROPE_STATUS_MEMORY_OVERLAP` unless two tensors that are checked share no element. Where the spans are
/// disjoint that is 35 instructions, in a packed row 99 (1 to 4 ns more, on Zen 3).
#[inline]
fn apart(
    (q, query): (&rope_tensor_mut, Region),
    (k, key): (&rope_tensor_mut, Region),
) -> Result<(), Failure> {
    if !query.overlaps(key) {
        return Ok(());
    }
    let (element, ahead) = (element_size(q.element)?, query.ahead(key));
    if q.element == k.element && of_one_row(&q.layout, &k.layout, element, ahead) {
        return Ok(());
    }
    between((q, query), (k, key))
}

#[inline]
fn element_size(element: i32) -> Result<usize, Failure> {
    with_element!(element, E => { Ok(size_of::<E>()) })
}

/// The same of two that are no parts of one row.
#[cold]
fn between(
    (q, query): (&rope_tensor_mut, Region),
    (k, key): (&rope_tensor_mut, Region),
) -> Result<(), Failure> {
    let [element, other] = [element_size(q.element)?, element_size(k.element)?];
    let nest = Nest::new(&q.layout, element, query.len());
    let other = Nest::new(&k.layout, other, key.len());
    let required = match nest.sharing(other, query.ahead(key)) {
        Sharing::Apart => return Ok(()),
        Sharing::Shared => {
            "they must share no element: in a packed row K begins after the heads of Q"
        }
        Sharing::Unknown => {
            "between one another they need equal strides in bytes, or a call of rope_rotate each"
        }
    };
    Err(query.overlap(key, required))
}

/// Rotates Q and K in place with the same rows. Both are checked before either is touched.
///
/// They may lie between one another in memory, as in a packed row of Q, K and V, in whatever order its dimensions are.
/// They must share no byte, and their strides must show it. These always do where Q and K have one element type, and
/// equal strides along each dimension of which both have more than one index. Other strides do if one tensor lies in a
/// gap of the other: of the longest stride, what does not repeat with it must be no longer than it, and so on within
/// each stride. What is apart and refused because nothing shows it takes two calls of rope_rotate.
///
/// Returns ROPE_STATUS_QUERY_KEY_MISMATCH unless the two differ in their heads (and elements) only,
/// ROPE_STATUS_MEMORY_OVERLAP if they share an element, and what rope_rotate returns.
///
/// # Threads
///
/// As rope_rotate.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_qk(
    plan: *const rope_plan,
    q: *const rope_tensor_mut,
    k: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. The slices of Q and of K never exist at the same time: each call below
        // makes one, which ends with it. So Q and K of a packed row are no two slices of overlapping memory.
        unsafe {
            let rope = read("plan", plan)?.rope()?;
            let (q, k) = (read("q", q)?, read("k", k)?);
            read("rows", rows)?.with(|rows, regions| {
                let (query, query_region) = checked("q", &q, &regions)?;
                let (key, key_region) = checked("k", &k, &regions)?;
                apart((&q, query_region), (&k, key_region))?;
                check_query_and_key(&rope, query.shape(), key.shape(), rows)?;
                // What is left asks the rows alone: K is refused after Q has passed only if Q is empty.
                rotate_checked(&rope, "q", &q, query, rows)?;
                rotate_checked(&rope, "k", &k, key, rows)
            })
        }
    })
}

const IN_PLACE: &str = "they must be disjoint; rope_rotate rotates in place";

/// Rotates one tensor into another, whose element and pairing may differ: a write into a KV cache. Copies the
/// channels after `rotary_dim`.
///
/// The two must not share memory, from the first element to the last of each, not even in one packed row.
///
/// Returns ROPE_STATUS_SHAPE_MISMATCH, and what rope_rotate returns. The target is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the target's memory meanwhile, from its first element to
/// its last; others may read the source and the rows.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_into(
    plan: *const rope_plan,
    x: *const rope_tensor,
    y: *const rope_tensor_mut,
    rows: *const rope_rows,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises all of it. `y` becomes a slice only apart from all that is read (see `memory`).
        unsafe {
            let rope = read("plan", plan)?.rope()?;
            let (x, y) = (read("x", x)?, read("y", y)?);
            read("rows", rows)?.with(|rows, [cos, sin, ids]| {
                with_element!(x.element, I => {
                    let (x, region) = x.readable::<I>("x")?;
                    with_element!(y.element, O => {
                        let mut y = y
                            .tensor::<O>("y", &[&[region, cos, sin, ids]])
                            .map_err(|refused| refused.between(["y", "x"], IN_PLACE))?;
                        Ok(rope.rotate_into(&x, &mut y, rows)?)
                    })
                })
            })
        }
    })
}

/// Rotates a tensor in place as rope_rotate does, and makes the rows of the positions itself, on the stack (8 KiB).
/// There are no rows to keep, and nothing is allocated. It takes as many positions as rope_rotate takes rows. The
/// bits are the same.
///
/// Returns ROPE_STATUS_ROTARY_DIM_ON_STACK beyond 2048 rotated channels, and what rope_rotate and rope_rows_len
/// return. The tensor is untouched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the tensor's memory meanwhile, from its first element to
/// its last; others may use the frequencies, but not change or free them.
///
/// # Safety
///
/// As rope_rotate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_rotate_at(
    plan: *const rope_plan,
    x: *const rope_tensor_mut,
    frequencies: *const rope_frequencies,
    positions: *const rope_positions,
) -> rope_status {
    // SAFETY: the caller promises it.
    status_of(|| unsafe { at(plan, x, self::frequencies(frequencies)?, positions) })
}

/// Frequencies of either kind.
pub(crate) trait At {
    fn at<'a>(&'a self, positions: Positions<'a>) -> RowsAt<'a>;
}

impl At for Frequencies<'_> {
    fn at<'a>(&'a self, positions: Positions<'a>) -> RowsAt<'a> {
        self.at(positions)
    }
}

impl At for MixedFrequencies<'_> {
    fn at<'a>(&'a self, positions: Positions<'a>) -> RowsAt<'a> {
        self.at(positions)
    }
}

/// Rotates with rows that are made on the way.
///
/// # Safety
///
/// As rope_rotate.
pub(crate) unsafe fn at(
    plan: *const rope_plan,
    x: *const rope_tensor_mut,
    (frequencies, region): (&impl At, Region),
    positions: *const rope_positions,
) -> Result<(), Failure> {
    // SAFETY: the caller promises all of it. `x` becomes a slice only apart from the frequencies and the positions (see
    // `memory`).
    unsafe {
        let rope = read("plan", plan)?.rope()?;
        let x = read("x", x)?;
        let (positions, [first, second]) = read("positions", positions)?.positions()?;
        with_element!(x.element, E => {
            let mut x = x.tensor::<E>("x", &[&[region, first, second]])?;
            Ok(rope.rotate(&mut x, &frequencies.at(positions))?)
        })
    }
}
