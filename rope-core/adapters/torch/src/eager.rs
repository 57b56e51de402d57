//! The rotation of 16-bit tensors with the roundings of eager PyTorch: each product and each sum is rounded to the
//! element. For comparisons with logits of eager models; it is neither as exact nor as fast as one rounding.

use rope_core::half::{bf16, f16};
use rope_core::{Direction, Element, Layout, Pairing, Rows, Shape};

use crate::plan::Plan;
use crate::shim::{Dtype, Failure, Plain, Result, Tensor};

/// An element with its conversions, which have no branches, so that a loop of them is vector code. A value is rounded
/// to nearest even; a NaN becomes some NaN.
pub(crate) trait Number: Element + Plain {
    fn widened(self) -> f32;

    fn narrowed(value: f32) -> Self;

    /// The nearest value of the element: as `narrowed` and `widened`, in a word of one size.
    fn rounded(value: f32) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn rounded(value: f32) -> f32 {
        value
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        bf16::from_bits((Self::rounded(value).to_bits() >> 16) as u16)
    }

    #[inline(always)]
    fn rounded(value: f32) -> f32 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
        let quiet = 0x7fc0_0000;
        f32::from_bits(if value.is_nan() { quiet } else { rounded })
    }
}

impl Number for f16 {
    #[inline(always)]
    fn widened(self) -> f32 {
        let bits = u32::from(self.to_bits());
        // The exponents of both types differ by 112; f16's subnormals are subnormals before the product, too.
        let value = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
        let special = f32::from_bits(0x7f80_0000 | (bits & 0x3ff) << 13);
        let magnitude = if bits & 0x7c00 == 0x7c00 {
            special
        } else {
            value
        };
        f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn narrowed(value: f32) -> Self {
        let rounded = Self::rounded(value);
        // Exact, as is `widened`.
        let small = (rounded.abs() * f32::from_bits((127 - 112) << 23)).to_bits() >> 13;
        let special = if rounded.is_nan() { 0x7e00 } else { 0x7c00 };
        let magnitude = if rounded.is_finite() { small } else { special };
        f16::from_bits((magnitude | rounded.to_bits() >> 16 & 0x8000) as u16)
    }

    #[inline(always)]
    fn rounded(value: f32) -> f32 {
        let magnitude = value.abs();
        let bits = magnitude.to_bits();
        let normal = f32::from_bits(bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff);
        // Next to 0.5 a float has f16's least step.
        let subnormal = (magnitude + 0.5) - 0.5;
        let least_normal = f32::from_bits((127 - 14) << 23);
        let finite = if magnitude < least_normal {
            subnormal
        } else {
            normal
        };
        let bounded = if magnitude >= 65520.0 {
            f32::INFINITY
        } else {
            finite
        };
        let kept = if value.is_nan() { f32::NAN } else { bounded };
        f32::from_bits(kept.to_bits() & 0x7fff_ffff | value.to_bits() & 0x8000_0000)
    }
}

/// Whether a call rounds as eager PyTorch does: f32 needs no other way.
pub(crate) fn applies(x: &Tensor, plan: &Plan) -> bool {
    plan.eager && x.dtype() != Dtype::Float32
}

/// What a call with these roundings refuses.
pub(crate) fn check(x: &Tensor, plan: &Plan, tables: &[&Tensor]) -> Result<()> {
    if plan.direction == Direction::Inverse {
        return Err(Failure::new(
            "rounding=\"eager\" is that of a model's rotation and of its gradient; direction must not be \"inverse\"",
        ));
    }
    for table in tables {
        if table.dtype() != x.dtype() {
            return Err(Failure::new(format!(
                "{table} is {of_table:?}, but {x} is {of_x:?}; rounding=\"eager\" needs one type, as eager PyTorch \
                 would return another: {table}.to({x}.dtype)",
                table = table.name(),
                of_table = table.dtype(),
                x = x.name(),
                of_x = x.dtype(),
            )));
        }
    }
    Ok(())
}

/// The index of the first channel of each head, with its row and its head.
fn heads(layout: Layout, rows: &Rows<'_>) -> impl Iterator<Item = (usize, usize, usize)> {
    let (
        Shape {
            batch,
            tokens,
            heads,
            ..
        },
        strides,
    ) = (layout.shape(), layout.strides());
    let (of_sequence, of_head) = (rows.len() != tokens, rows.heads() != 1);
    let each = (0..batch)
        .flat_map(move |b| (0..tokens).flat_map(move |t| (0..heads).map(move |h| (b, t, h))));
    each.map(move |(b, t, h)| {
        let first = b * strides.batch + t * strides.token + h * strides.head;
        (
            first,
            if of_sequence { b * tokens + t } else { t },
            if of_head { h } else { 0 },
        )
    })
}

/// Copies heads from one layout into another of the same shape.
pub(crate) fn copy<E: Copy>(
    from: &[E],
    source: Layout,
    into: &mut [E],
    target: Layout,
    rows: &Rows<'_>,
) {
    let channels = source.shape().head_dim;
    for ((from_first, ..), (into_first, ..)) in heads(source, rows).zip(heads(target, rows)) {
        into[into_first..][..channels].copy_from_slice(&from[from_first..][..channels]);
    }
}

/// Rotates heads where they lie; the shapes were checked.
pub(crate) fn rotate<E: Number>(
    x: &mut [E],
    layout: Layout,
    plan: &Plan,
    rows: &Rows<'_>,
) -> Result<()> {
    let pairs = rows.rotary_dim() / 2;
    let mut room = vec![0.0; 3 * pairs];
    for (start, row, head) in heads(layout, rows) {
        let (cos, sin) = rows
            .row_of(row, head)
            .ok_or_else(|| Failure::new("a row is missing"))?;
        rotate_head(&mut x[start..][..2 * pairs], [cos, sin], plan, &mut room);
    }
    Ok(())
}

/// `rotate_head_here` as code for AVX2, where the CPU has it.
fn rotate_head<E: Number>(head: &mut [E], row: [&[f32]; 2], plan: &Plan, room: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn with_avx2<E: Number>(head: &mut [E], row: [&[f32]; 2], plan: &Plan, room: &mut [f32]) {
            rotate_head_here(head, row, plan, room);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { with_avx2(head, row, plan, room) };
        }
    }
    rotate_head_here(head, row, plan, room);
}

#[inline(always)]
fn rotate_head_here<E: Number>(
    head: &mut [E],
    [cos, sin]: [&[f32]; 2],
    plan: &Plan,
    room: &mut [f32],
) {
    let pairs = cos.len();
    let (first, rest) = room.split_at_mut(pairs);
    let (second, sines) = rest.split_at_mut(pairs);
    let sign = match plan.direction {
        Direction::Forward => 1.0,
        _ => -1.0,
    };
    for (own, sin) in sines.iter_mut().zip(sin) {
        *own = sign * sin;
    }
    widen(head, plan.input, first, second);
    turn::<E>(first, second, cos, sines);
    narrow(first, second, head, plan.output);
}

#[inline(always)]
fn widen<E: Number>(head: &[E], pairing: Pairing, first: &mut [f32], second: &mut [f32]) {
    match pairing {
        Pairing::Half => {
            let (x, y) = head.split_at(first.len());
            for (wide, x) in first.iter_mut().zip(x) {
                *wide = x.widened();
            }
            for (wide, y) in second.iter_mut().zip(y) {
                *wide = y.widened();
            }
        }
        Pairing::Interleaved => {
            let (channels, _) = head.as_chunks::<2>();
            for ((first, second), [x, y]) in first.iter_mut().zip(second).zip(channels) {
                (*first, *second) = (x.widened(), y.widened());
            }
        }
    }
}

/// Two products and a sum for each channel, each rounded.
#[inline(always)]
fn turn<E: Number>(first: &mut [f32], second: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = first.len();
    let (second, cos, sin) = (&mut second[..pairs], &cos[..pairs], &sin[..pairs]);
    for pair in 0..pairs {
        let (x, y, cos, sin) = (first[pair], second[pair], cos[pair], sin[pair]);
        first[pair] = E::rounded(x * cos) + E::rounded(-y * sin);
        second[pair] = E::rounded(y * cos) + E::rounded(x * sin);
    }
}

#[inline(always)]
fn narrow<E: Number>(first: &[f32], second: &[f32], head: &mut [E], pairing: Pairing) {
    match pairing {
        Pairing::Half => {
            let (x, y) = head.split_at_mut(first.len());
            for (x, wide) in x.iter_mut().zip(first) {
                *x = E::narrowed(*wide);
            }
            for (y, wide) in y.iter_mut().zip(second) {
                *y = E::narrowed(*wide);
            }
        }
        Pairing::Interleaved => {
            let (channels, _) = head.as_chunks_mut::<2>();
            for ((first, second), [x, y]) in first.iter().zip(second).zip(channels) {
                (*x, *y) = (E::narrowed(*first), E::narrowed(*second));
            }
        }
    }
}
