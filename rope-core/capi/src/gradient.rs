//! The backward pass: gradients of angles, factors, cos and sin, and their sums.

use rope_core::gradient::{PairGradients, convert_to_base, convert_to_ratio};

use crate::angles::rope_angles;
use crate::failure::Failure;
use crate::memory::{Out, Region, Span, SpanMut, plain, read};
use crate::names::{lookup, rope_pairing};
use crate::operand::{TensorRecord, rope_operand, with_element};
use crate::plan::rope_plan;
use crate::positions::rope_positions;
use crate::status::{rope_status, status_of};

/// Gradients of pairs, `[rows][heads][pairs]`: the sums of a backward pass, in doubles of the caller's.
///
/// There is a row for each token, which all sequences share, or one for each token of each sequence. Calls add to
/// the sums: begin with zeros, or with the sums of other layers.
///
/// The order of a sum is fixed: sequence by sequence where they share a row, in each head by head where heads do, then
/// the next call (Q first, then K). So the bits are the same on every backend and in every layout, and threads may have
/// tokens of their own, each with the rows of its tokens. To deal out heads or sequences that share a row would change
/// the order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rope_pair_gradients {
    /// The first of the sums; there are `rows * heads * pairs`.
    pub sums: *mut f64,
    /// Tokens, or sequences times tokens.
    pub rows: usize,
    /// Heads with sums of their own: the number of heads of the tensor. 0 and 1: heads share theirs.
    pub heads: usize,
    /// Pairs of a head that rotate: half of the rotary_dim of the rows.
    pub pairs: usize,
}
plain!(rope_pair_gradients);

impl rope_pair_gradients {
    fn shape(&self) -> [usize; 3] {
        [self.rows, self.heads.max(1), self.pairs]
    }

    fn span(&self, name: &'static str) -> Result<SpanMut<f64>, Failure> {
        let [rows, heads, pairs] = self.shape();
        // Zero extents hide no others that memory does not have.
        let len = rows.max(1).saturating_mul(heads);
        let len = len.saturating_mul(pairs.max(1));
        if len > isize::MAX as usize / size_of::<f64>() {
            return Err(Failure::Length { name, len });
        }
        let len = rows * heads * pairs;
        SpanMut::new(name, self.sums, len)
    }

    /// The gradients, if they share no byte with memory that the call reads or writes.
    ///
    /// # Safety
    ///
    /// The sums are there, and nobody else reads or writes them during `'a` but through the regions that are listed.
    unsafe fn gradients<'a>(
        &self,
        name: &'static str,
        others: &[Region],
    ) -> Result<PairGradients<'a>, Failure> {
        // SAFETY: the caller promises that the sums are accessible, and that during `'a` only the listed regions can
        // name their bytes.
        let sums = unsafe { self.span(name)?.get(others) }?;
        Ok(PairGradients::new(sums, self.shape())?)
    }
}

/// `ROPE_STATUS_UNKNOWN_VALUE` unless two tensors have one element.
fn same_element(tensor: &TensorRecord, gradient: &TensorRecord) -> Result<(), Failure> {
    if tensor.element == gradient.element {
        return Ok(());
    }
    Err(Failure::UnknownValue {
        what: "element of the gradient",
        value: gradient.element as i32,
        required: "the element of the tensor that it is the gradient of",
    })
}

/// The backward pass of rope_rotate, by a plan without a norm: `dy`, the gradient by the rotated tensor `y`, becomes
/// the gradient by the tensor before, and `y1 dy2 - y2 dy1` is added to the gradient of the angle of each pair. `dy`
/// becomes what ROPE_DIRECTION_TRANSPOSE makes of it, bit for bit. Both tensors have one element and one shape.
///
/// A scale and a Hadamard transform are transposed, in reverse order, and round where they do in the forward pass. With
/// a Hadamard transform the gradients of the angles are computed from `y` and `dy` transformed back, in float.
///
/// Returns ROPE_STATUS_BACKWARD_DIRECTION unless the plan rotates forward, ROPE_STATUS_NOT_LINEAR for a plan with a
/// norm, ROPE_STATUS_SHAPE_MISMATCH, ROPE_STATUS_GRADIENT_HEADS, ROPE_STATUS_GRADIENT_SHAPE unless the gradients have
/// as many pairs as the rows, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_UNKNOWN_VALUE for two elements,
/// ROPE_STATUS_OPERAND for a cache, ROPE_STATUS_ANGLES for frequencies at positions, and what rope_rotate returns.
/// Nothing is touched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the memory of `dy` or of the sums meanwhile; others may read
/// `y` and the rows. The bits do not depend on how tokens are divided among threads.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_backward(
    plan: *const rope_plan,
    y: *const rope_operand,
    dy: *const rope_operand,
    rows: *const rope_angles,
    angles: *const rope_pair_gradients,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. The sums
        // become a slice only after a check that they are disjoint from `y`, the rows and the plan's factors, `dy` only
        // apart from these and from the sums (see `memory`).
        unsafe {
            let plan = read("plan", plan)?.record()?;
            let (y, dy) = (read("y", y)?.tensor("y")?, read("dy", dy)?.tensor("dy")?);
            let angles = read("angles", angles)?;
            let rows = read("rows", rows)?.rows("a gradient of angles")?;
            same_element(&y, &dy)?;
            let (used, regions) = (plan.used()?, rows.regions());
            let sums = angles.span("angles")?.region();
            for read in [&used[..], &regions, &[y.region()]] {
                sums.apart_from(read)?;
                dy.region().apart_from(read)?;
            }
            dy.region().apart_from(&[sums])?;
            let mut angles = angles.gradients("angles", &[])?;
            rows.with(|rows| {
                with_element!(dy.element, E => {
                    let (y, mut dy) = (y.read::<E>()?, dy.write::<E>()?);
                    Ok(match plan.stages {
                        None => plan.rope.backward(&y, &mut dy, rows, &mut angles),
                        Some(_) => plan.linear()?.backward(&y, &mut dy, rows, &mut angles),
                    }?)
                })
            })
        }
    })
}

const IN_PLACE: &str = "they must be disjoint; rope_backward works in place";

/// The backward pass of rope_rotate_into between tensors, by a plan without stages: as rope_backward, from `dy` into
/// `dx`, which may have another element. `y` and `dy` have one element and the plan's output pairing; `dx` has its
/// input pairing. All three have one shape.
///
/// Returns what rope_backward returns, but the pairing may change; ROPE_STATUS_NOT_LINEAR for a plan with stages.
/// Nothing is touched then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the memory of `dx` or of the sums meanwhile; others may read
/// `y`, `dy` and the rows.
///
/// # Safety
///
/// As rope_backward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_backward_into(
    plan: *const rope_plan,
    y: *const rope_operand,
    dy: *const rope_operand,
    dx: *const rope_operand,
    rows: *const rope_angles,
    angles: *const rope_pair_gradients,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. The sums
        // become a slice only after a check that they are disjoint from `y`, `dy` and the rows, `dx` only apart from
        // these and from the sums (see `memory`).
        unsafe {
            let rope = read("plan", plan)?.record()?.bare()?;
            let (y, dy) = (read("y", y)?.tensor("y")?, read("dy", dy)?.tensor("dy")?);
            let dx = read("dx", dx)?.tensor("dx")?;
            let angles = read("angles", angles)?;
            let rows = read("rows", rows)?.rows("a gradient of angles")?;
            same_element(&y, &dy)?;
            let sums = angles.span("angles")?.region();
            for read in [&rows.regions()[..], &[dy.region(), y.region()]] {
                sums.apart_from(read)?;
                let apart = dx.region().apart_from(read);
                apart.map_err(|refused| refused.between(["dx", "dy"], IN_PLACE))?;
            }
            dx.region().apart_from(&[sums])?;
            let mut angles = angles.gradients("angles", &[])?;
            rows.with(|rows| {
                with_element!(dy.element, E => {
                    let (y, dy) = (y.read::<E>()?, dy.read::<E>()?);
                    with_element!(dx.element, O => {
                        let mut dx = dx.write::<O>()?;
                        Ok(rope.backward_into(&y, &dy, &mut dx, rows, &mut angles)?)
                    })
                })
            })
        }
    })
}

/// The sums of rope_gradients over two tensors `a` and `b`: x is before the rotation, y after it; `a` has the plan's
/// output pairing if it is y, or the gradient by y, and its input pairing if it is x.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rope_gradient_kind {
    /// `a` is y and `b` the gradient by it: `y1 dy2 - y2 dy1`, the gradient of the angle of each pair, to `sums`.
    Angles = 1101,
    /// `a` is x and `b` the gradient by it: `x1 dx2 - x2 dx1`, the same number but for rounding.
    AnglesOfInput = 1102,
    /// `a` is y and `b` the gradient by it: `y1 dy1 + y2 dy2`, the gradient of the logarithm of the factor of each
    /// pair: of what cos and sin of a row are multiplied by (an attention factor, or xPos, which has one for each
    /// pair).
    Factors = 1103,
    /// `a` is x and `b` the gradient by y. Adds `x1 dy1 + x2 dy2`, the gradient of the cos of each row, to `sums`, and
    /// `x1 dy2 - x2 dy1`, the gradient of its sin, to `sin`. With it, given rows are parameters.
    CosSin = 1104,
    /// The same for full-width rows. For the channels `i` and `j` of a pair, adds `xi dyi` to the gradient of `cos[i]`,
    /// `-xj dyi` to `sin[i]`, `xj dyj` to `cos[j]` and `xi dyj` to `sin[j]`. `sums` (of cos) and `sin` have a place for
    /// each channel: their `pairs` is the rotary_dim of the rows.
    Channels = 1105,
}
lookup!(rope_gradient_kind, "kind of gradients": Angles AnglesOfInput Factors CosSin Channels);

/// Adds gradients (`enum rope_gradient_kind`) of two tensors that are only read. They have one element and one shape.
/// `sin` is used by COS_SIN and CHANNELS, and may be NULL for others.
///
/// Returns ROPE_STATUS_BACKWARD_DIRECTION unless the plan rotates forward, ROPE_STATUS_NOT_LINEAR for one with stages,
/// ROPE_STATUS_SHAPE_MISMATCH, ROPE_STATUS_ROTARY_DIM_EXCEEDS_HEAD if the gradients have more pairs than a head,
/// ROPE_STATUS_ROW_COUNT unless they have a row for each token or one for each token of each sequence,
/// ROPE_STATUS_GRADIENT_HEADS unless they have one head or the heads of the tensors; of COS_SIN and CHANNELS
/// ROPE_STATUS_GRADIENT_PAIRING if the plan's pairing changes and ROPE_STATUS_GRADIENT_SHAPE unless `sums` and `sin`
/// have one shape; of CHANNELS ROPE_STATUS_ROTARY_DIM if they are none or odd, and ROPE_STATUS_HEAD_DIM_ON_STACK;
/// ROPE_STATUS_OPERAND for a cache, ROPE_STATUS_BACKEND_UNAVAILABLE, ROPE_STATUS_SHAPE_OVERFLOW,
/// ROPE_STATUS_OUT_OF_BOUNDS; ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE,
/// ROPE_STATUS_MEMORY_OVERLAP. Nothing is added then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the memory of the sums meanwhile; others may read the
/// tensors.
///
/// # Safety
///
/// As rope_backward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_gradients(
    kind: i32,
    plan: *const rope_plan,
    a: *const rope_operand,
    b: *const rope_operand,
    sums: *const rope_pair_gradients,
    sin: *const rope_pair_gradients,
) -> rope_status {
    status_of(|| {
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. The sums
        // become slices only after a check that they are disjoint from both tensors, and from one another (see
        // `memory`).
        unsafe {
            let kind = rope_gradient_kind::from_c(kind)?;
            let plan = read("plan", plan)?;
            let rope = plan.record()?.bare()?;
            let (a, b) = (read("a", a)?.tensor("a")?, read("b", b)?.tensor("b")?);
            same_element(&a, &b)?;
            let regions = [a.region(), b.region()];
            let sums = read("sums", sums)?;
            let two = matches!(
                kind,
                rope_gradient_kind::CosSin | rope_gradient_kind::Channels
            );
            let mut other = match two {
                true => {
                    let sin = read("sin", sin)?;
                    sums.span("sums")?
                        .region()
                        .apart_from(&[sin.span("sin")?.region()])?;
                    Some(sin.gradients("sin", &regions)?)
                }
                false => None,
            };
            let mut sums = sums.gradients("sums", &regions)?;
            with_element!(a.element, E => {
                let (a, b) = (&a.read::<E>()?, &b.read::<E>()?);
                let sums = &mut sums;
                Ok(match (kind, &mut other) {
                    (rope_gradient_kind::Factors, _) => rope.factor_gradients(a, b, sums),
                    (rope_gradient_kind::AnglesOfInput, _) => {
                        let input = rope_pairing::from_c(plan.pairing)?.pairing();
                        rope.with_output_pairing(input).angle_gradients(a, b, sums)
                    }
                    (rope_gradient_kind::CosSin, Some(sin)) => {
                        rope.cos_sin_gradients(a, b, sums, sin)
                    }
                    (rope_gradient_kind::Channels, Some(sin)) => {
                        rope.channel_gradients(a, b, sums, sin)
                    }
                    _ => rope.angle_gradients(a, b, sums),
                }?)
            })
        }
    })
}

/// Adds to `out` the gradient of the inverse frequencies, `[axes][heads][pairs]` with the heads of the gradients of
/// angles: the sum over rows of the position times the gradient, row after row, each product and each sum rounded to a
/// double. A pair that follows one axis has a gradient on this axis. `out` has `len` numbers.
///
/// Returns ROPE_STATUS_STORAGE unless `len` is `axes * heads * pairs`, ROPE_STATUS_COUNT unless there is a position for
/// each row, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_UNKNOWN_VALUE,
/// ROPE_STATUS_MEMORY_OVERLAP, and what rope_rows_len returns for positions. Nothing is added then.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the sums or `out` meanwhile.
///
/// # Safety
///
/// Pointers, also those in structs, are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_pair_gradients_frequencies(
    angles: *const rope_pair_gradients,
    positions: *const rope_positions,
    axes: usize,
    out: *mut f64,
    len: usize,
) -> rope_status {
    status_of(|| {
        let out = SpanMut::new("out", out, len)?;
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. `out`
        // becomes a slice only after a check that it is disjoint from the sums and the positions, and the sums only
        // apart from the positions (see `memory`).
        unsafe {
            let angles = read("angles", angles)?;
            let (positions, regions) = read("positions", positions)?.positions()?;
            out.region().apart_from(&regions)?;
            let sums = angles.span("angles")?.region();
            let angles = angles.gradients("angles", &regions)?;
            Ok(angles.frequencies(positions, axes, out.get(&[sums])?)?)
        }
    })
}

/// Adds to `out` the gradient of the positions, `[rows][axes]`, where they are learned or computed: of each the sum
/// over heads and pairs of the inverse frequency times the gradient of the angle, head by head and in each pair by
/// pair. The `count` inverse frequencies, in radians, are `[axes][heads][pairs]` with the heads of the gradients. `out`
/// has `len` numbers.
///
/// Returns ROPE_STATUS_COUNT unless `count` is `axes * heads * pairs`, ROPE_STATUS_STORAGE unless `len` is
/// `rows * axes`, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP. Nothing is
/// added then.
///
/// # Threads
///
/// As rope_pair_gradients_frequencies.
///
/// # Safety
///
/// As rope_pair_gradients_frequencies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_pair_gradients_positions(
    angles: *const rope_pair_gradients,
    inverse: *const f64,
    count: usize,
    axes: usize,
    out: *mut f64,
    len: usize,
) -> rope_status {
    status_of(|| {
        let out = SpanMut::new("out", out, len)?;
        let inverse = Span::new("inverse", inverse, count)?;
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. `out`
        // becomes a slice only after a check that it is disjoint from the sums and the frequencies, and the sums only
        // apart from the frequencies (see `memory`).
        unsafe {
            let angles = read("angles", angles)?;
            let sums = angles.span("angles")?.region();
            let angles = angles.gradients("angles", &[inverse.region()])?;
            let out = out.get(&[sums, inverse.region()])?;
            Ok(angles.positions(inverse.get(), axes, out)?)
        }
    })
}

/// Writes to `total` the sum of all, row by row, head by head, pair by pair: of rope_gradients the gradient of
/// the logarithm of one attention factor.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// As rope_pair_gradients_frequencies.
///
/// # Safety
///
/// As rope_pair_gradients_frequencies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_pair_gradients_total(
    gradients: *const rope_pair_gradients,
    total: *mut f64,
) -> rope_status {
    status_of(|| {
        let out = Out::new("total", total)?;
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. The sums
        // become a slice only after a check that they are disjoint from `total` (see `memory`).
        unsafe {
            let gradients = read("gradients", gradients)?;
            let place = Region::of("total", total);
            place.apart_from(&[gradients.span("gradients")?.region()])?;
            out.write(gradients.gradients("gradients", &[])?.total());
        }
        Ok(())
    })
}

/// Computes the gradients of the cos and sin of each row from the gradients of angles and of the logarithms of factors,
/// and adds them to `cos` and `sin`, in the same shape: with `m = cos^2 + sin^2`, `(cos dlnA - sin dphi) / m` and
/// `(sin dlnA + cos dphi) / m`.
/// With the tensor before the rotation at hand, rope_gradients of ROPE_GRADIENT_KIND_COS_SIN has one rounding less and
/// takes any row. `cos` and `sin` have `len` numbers each. The four arrays are apart.
///
/// Returns ROPE_STATUS_GRADIENT_SHAPE unless factors and rows have the shape of the angles' gradients,
/// ROPE_STATUS_STORAGE unless `len` is as many, ROPE_STATUS_FULL_WIDTH_ROWS, ROPE_STATUS_ROW_OF_ZEROS where cos and sin
/// are both zero, ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP, and what
/// rope_rotate returns for rows. Nothing is added then.
///
/// # Threads
///
/// As rope_pair_gradients_frequencies; others may read the rows.
///
/// # Safety
///
/// As rope_pair_gradients_frequencies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_pair_gradients_cos_sin(
    angles: *const rope_pair_gradients,
    factors: *const rope_pair_gradients,
    rows: *const rope_angles,
    cos: *mut f64,
    sin: *mut f64,
    len: usize,
) -> rope_status {
    status_of(|| {
        let (cos, sin) = (
            SpanMut::new("cos", cos, len)?,
            SpanMut::new("sin", sin, len)?,
        );
        // SAFETY: the caller promises that pointers, also those in structs, are null or valid during the call. Each of
        // the four arrays becomes a slice only after a check that it is disjoint from the rows and from the other three
        // (see `memory`).
        unsafe {
            let (angles, factors) = (read("angles", angles)?, read("factors", factors)?);
            let rows = read("rows", rows)?.rows("rope_pair_gradients_cos_sin")?;
            let regions = rows.regions();
            let sums = [
                angles.span("angles")?.region(),
                factors.span("factors")?.region(),
            ];
            let written = [cos.region(), sin.region()];
            for region in sums.into_iter().chain(written) {
                region.apart_from(&regions)?;
            }
            let angles = angles.gradients("angles", &sums[1..])?;
            let factors = factors.gradients("factors", &written)?;
            let cos = cos.get(&[sums[0], written[1]])?;
            let sin = sin.get(&sums[..1])?;
            rows.with(|rows| Ok(angles.cos_sin(&factors, rows, cos, sin)?))
        }
    })
}

/// Converts the `count` gradients by `f` to gradients by `r`, `dr = f0 df`, for frequencies `f = r f0` that are learned
/// as ratios to fixed ones. With `f` in place of `f0` it converts to gradients by `l` of `f = exp(l)`, learned as
/// logarithms, or by `alpha` of `f = f0 exp(alpha)`.
///
/// Returns ROPE_STATUS_NULL, ROPE_STATUS_MISALIGNED, ROPE_STATUS_LENGTH, ROPE_STATUS_MEMORY_OVERLAP.
///
/// # Threads
///
/// May be called from any thread. No other thread may use the gradients meanwhile; others may read the frequencies.
///
/// # Safety
///
/// Pointers are NULL or valid for the length of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_gradients_to_ratio(
    frequencies: *const f64,
    gradients: *mut f64,
    count: usize,
) -> rope_status {
    status_of(|| {
        let frequencies = Span::new("frequencies", frequencies, count)?;
        let gradients = SpanMut::new("gradients", gradients, count)?;
        // SAFETY: the caller promises that pointers are null or valid during the call. The gradients become a slice
        // only after a check that they are disjoint from the frequencies (see `memory`).
        unsafe { convert_to_ratio(frequencies.get(), gradients.get(&[frequencies.region()])?) };
        Ok(())
    })
}

/// Of `f_i = b^(-i/count)`, frequencies that follow from a learned base: writes its gradient to `gradient`,
/// `db = sum of -(i / (count b)) f_i df_i`, pair by pair.
///
/// Returns what rope_gradients_to_ratio returns.
///
/// # Threads
///
/// As rope_gradients_to_ratio; others may read the gradients too.
///
/// # Safety
///
/// As rope_gradients_to_ratio.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rope_gradients_to_base(
    base: f64,
    frequencies: *const f64,
    gradients: *const f64,
    count: usize,
    gradient: *mut f64,
) -> rope_status {
    status_of(|| {
        let out = Out::new("gradient", gradient)?;
        let frequencies = Span::new("frequencies", frequencies, count)?;
        let gradients = Span::new("gradients", gradients, count)?;
        let read = [frequencies.region(), gradients.region()];
        Region::of("gradient", gradient).apart_from(&read)?;
        // SAFETY: the caller promises that pointers are null or valid during the call. `gradient` is apart from both
        // lists.
        unsafe { out.write(convert_to_base(base, frequencies.get(), gradients.get())) };
        Ok(())
    })
}
