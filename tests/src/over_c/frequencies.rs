//! Frequencies as handles of the C API, and the rows that C makes of them.

use std::ptr::{null, null_mut};

use rope::*;
use rope_core::axes::{MixedAngle, MixedFrequencies};
use rope_core::{
    Angle, Frequencies, LongRope, Pairing, Positions, Rope, Scaling, TensorMut, TokenAngles, Yarn,
};

use crate::c::{PLAN, bshd, detail, tensor_at, zero};

/// Makes calls that succeed. The structs lead to memory of the stated sizes, and the handles are live ones.
macro_rules! ok {
    ($($call:expr),+ $(,)?) => {$(
        // SAFETY: see above.
        let status = unsafe { $call };
        assert_eq!(status, rope_status::Ok, "{}: {}", stringify!($call), detail());
    )+};
}

/// The arguments of frequencies.
#[derive(Debug)]
pub enum Recipe<'a> {
    /// A base and a scaling.
    Base(rope_axes, f64, rope_scaling),
    /// Inverse frequencies and an attention factor.
    Singles(rope_axes, &'a [f32], f64),
    /// Inverse frequencies and an attention factor.
    Doubles(rope_axes, &'a [f64], f64),
    /// Mixed frequencies and an attention factor.
    Mixed(rope_mixed_inverse, f64, MixedAngle),
}

/// Frequencies on the heap, and the same in memory of the least size, aligned to nothing, for the scalar backend.
#[derive(Debug)]
pub struct Made {
    handles: [*mut rope_frequencies; 2],
    _memory: Vec<u8>,
}

impl Recipe<'_> {
    /// Creates frequencies in memory of `chunks` chunks; `None` if the calls are refused.
    ///
    /// # Panics
    ///
    /// If only one of the calls is refused.
    pub fn make(&self, chunks: usize) -> Option<Made> {
        let size = ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * chunks;
        let (mut memory, mut handles) = (vec![0x55_u8; size + 1], [null_mut(); 2]);
        let at = memory.as_mut_ptr().wrapping_add(1).cast();
        let [new, init] = &mut handles;
        // SAFETY: the structs lead to memory of the stated sizes.
        let statuses = unsafe {
            match *self {
                Recipe::Base(ref axes, base, ref scaling) => [
                    rope_frequencies_new(axes, base, scaling, new),
                    rope_frequencies_init(at, size, axes, base, scaling, init),
                ],
                Recipe::Singles(ref axes, list, factor) => {
                    let list = (list.as_ptr().cast(), list.len(), rope_number::F32 as i32);
                    inverse(axes, list, factor, (at, size), [new, init])
                }
                Recipe::Doubles(ref axes, list, factor) => {
                    let list = (list.as_ptr().cast(), list.len(), rope_number::F64 as i32);
                    inverse(axes, list, factor, (at, size), [new, init])
                }
                Recipe::Mixed(ref inverse, factor, angle) => {
                    let angle = mixed_angle(angle);
                    [
                        rope_mixed_frequencies_new(inverse, factor, angle, new),
                        rope_mixed_frequencies_init(at, size, inverse, factor, angle, init),
                    ]
                }
            }
        };
        let made = statuses.map(|status| status == rope_status::Ok);
        assert_eq!(made[0], made[1], "{self:?}: {statuses:?}, {}", detail());
        if !made[0] {
            return None;
        }
        let scalar = rope_backend::Scalar as i32;
        ok!(rope_frequencies_set_backend(handles[1], scalar));
        Some(Made {
            handles,
            _memory: memory,
        })
    }
}

/// Makes frequencies of a list.
///
/// # Safety
///
/// The pointers lead to memory of the stated sizes.
unsafe fn inverse(
    axes: &rope_axes,
    (list, count, number): (*const std::ffi::c_void, usize, i32),
    factor: f64,
    (at, size): (*mut std::ffi::c_void, usize),
    [new, init]: [&mut *mut rope_frequencies; 2],
) -> [rope_status; 2] {
    // SAFETY: the caller promises that the pointers lead to memory of the stated sizes.
    unsafe {
        [
            rope_frequencies_new_inverse(axes, list, count, number, factor, new),
            rope_frequencies_init_inverse(at, size, axes, list, count, number, factor, init),
        ]
    }
}

impl Made {
    /// Returns frequencies of text with a base of 10,000.
    ///
    /// # Panics
    ///
    /// If they are refused.
    pub fn text(rotary_dim: usize) -> Self {
        let scaling = scaling(&Scaling::Default).expect("no factor");
        let recipe = Recipe::Base(rope_axes_text(rotary_dim), 10_000.0, scaling);
        recipe.make(rotary_dim.div_ceil(16)).expect("valid")
    }

    /// Sets the formula of the angles.
    ///
    /// # Panics
    ///
    /// If the call is refused.
    pub fn set_angle(&self, angle: Angle) {
        let angle = match angle {
            Angle::HuggingFaceF32 => rope_angle::HuggingFaceF32,
            _ => rope_angle::Exact,
        };
        for handle in self.handles {
            ok!(rope_frequencies_set_angle(handle, angle as i32));
        }
    }

    /// Compares the list, the description, and the rows of a token with another position on each axis.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn compare(&self, expected: &Frequencies<'_>) {
        let inverse: Vec<f64> = expected.iter().map(|pair| pair.inverse).collect();
        let (axes, rotary_dim) = (expected.axes(), expected.rotary_dim());
        let factors = (expected.attention_factor(), expected.softmax_factor());
        for handle in self.handles {
            let (mut got, mut info) = (vec![0.0; inverse.len()], zero());
            ok!(
                rope_frequencies_inverse(handle, got.as_mut_ptr(), got.len()),
                rope_frequencies_describe(handle, &mut info),
            );
            assert_eq!(got, inverse);
            let shape = (info.rotary_dim, info.axes, info.heads);
            assert_eq!(shape, (rotary_dim, axes, 1));
            assert_eq!((info.attention_factor, info.softmax_factor), factors);
        }
        if rotary_dim <= 1024 {
            let position = &[3_i64, 1000, 70_000, -11][..axes];
            let angles = expected.at(Positions::token_major(position));
            let kind = rope_positions_kind::TokenMajor;
            self.compare_rows(
                &positions(kind, position, rope_number::I64),
                &angles.expect("valid"),
            );
        }
    }

    /// Compares the description of mixed frequencies.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn compare_mixed(&self, expected: &MixedFrequencies<'_>) {
        for handle in self.handles {
            let mut info = zero();
            ok!(rope_frequencies_describe(handle, &mut info));
            let shape = (info.axes, info.heads, info.rotary_dim, info.angle);
            let angle = mixed_angle(expected.angle());
            let (heads, rotary_dim) = (expected.heads(), expected.rotary_dim());
            assert_eq!(shape, (expected.axes(), heads, rotary_dim, angle));
            let factors = (info.attention_factor, info.softmax_factor);
            assert_eq!(factors, (expected.attention_factor(), 1.0));
        }
    }

    /// Compares the rows at positions: in the caller's memory, which has room for one number more, in a table, as
    /// sinusoidal values, and made by a rotation itself.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub fn compare_rows(&self, positions: &rope_positions, expected: &TokenAngles<'_>) {
        for handle in self.handles {
            compare_rows(&rope_angles_at(handle, positions), expected);
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let [owned, placed] = self.handles;
        // SAFETY: the handles are live ones, and a refused call frees none.
        let placed = unsafe { rope_frequencies_free(placed) };
        assert_eq!(placed, rope_status::Handle);
        ok!(rope_frequencies_free(owned));
    }
}

fn compare_rows(at: &rope_angles, expected: &TokenAngles<'_>) {
    let rows = expected.rows().expect("memory");
    let (tokens, heads, rotary_dim) = (rows.len(), rows.heads(), rows.rotary_dim());
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let (mut len, mut made, mut filled, mut kept) =
        (0, null_mut(), zero::<rope_angles>(), zero::<rope_angles>());
    ok!(rope_rows_len(at, &mut len));
    assert_eq!(len, tokens * heads * rotary_dim);
    let (mut values, mut storage) = (vec![0.0; len], vec![7.0; len + 1]);
    expected.rows_in(&mut values).expect("as much room");
    let (out, room) = (storage.as_mut_ptr(), storage.len());
    ok!(
        rope_rows_fill(at, out, room, &mut filled),
        rope_table_new(at, &mut made),
        rope_table_rows(made, &mut kept),
    );
    assert_eq!(storage.pop(), Some(7.0));
    // SAFETY: the rows of the table, which still exists.
    let of_table = unsafe { std::slice::from_raw_parts(kept.cos, kept.len) };
    let right = bits(&values);
    assert!(
        bits(&storage) == right && bits(of_table) == right,
        "other rows"
    );
    for made in [&filled, &kept] {
        let shape = (made.len, made.heads.max(1), made.rotary_dim);
        assert_eq!(shape, (len, heads, rotary_dim));
        assert_eq!(made.attention_factor, rows.attention_factor());
        assert_eq!((made.moves, made.full_width), (0, 0));
    }
    if heads == 1 {
        let mut got = vec![0.0; len];
        ok!(rope_sinusoidal(&kept, got.as_mut_ptr(), len));
        let rows = values
            .chunks(rotary_dim)
            .map(|row| row.split_at(rotary_dim / 2));
        let pairs = rows.flat_map(|(cos, sin)| sin.iter().zip(cos));
        let sinusoidal: Vec<f32> = pairs.flat_map(|(sin, cos)| [*sin, *cos]).collect();
        assert_eq!(bits(&got), bits(&sinusoidal));
    }
    ok!(rope_table_free(made));
    if tokens > 0 {
        let mut x: Vec<f32> = (0..len).map(|i| i as f32 - 7.0).collect();
        let (mut y, shape) = (x.clone(), [1, tokens, heads, rotary_dim]);
        let mut view = TensorMut::new(&mut y, shape).expect("it is dense");
        let rope = Rope::new(Pairing::Half);
        rope.rotate(&mut view, &rows).expect("rows that fit");
        let element = rope_element::F32 as i32;
        let view = tensor_at(x.as_mut_ptr().cast(), len, element, bshd(shape));
        ok!(rope_rotate(&PLAN, &view, at));
        let mut same = x.iter().zip(&y);
        let same = same.all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan());
        assert!(same, "a rotation has other rows");
    }
}

fn mixed_angle(angle: MixedAngle) -> i32 {
    match angle {
        MixedAngle::SummedF32 => rope_mixed_angle::SummedF32 as i32,
        _ => rope_mixed_angle::Exact as i32,
    }
}

/// Returns the list of mixed frequencies, `[axes, heads, pairs]`; C counts one head as none, too.
pub fn mixed<T>(
    values: &[T],
    number: rope_number,
    [axes, heads, pairs]: [usize; 3],
) -> rope_mixed_inverse {
    rope_mixed_inverse {
        values: values.as_ptr().cast(),
        count: values.len(),
        number: number as i32,
        axes,
        heads: if pairs.is_multiple_of(2) && heads == 1 {
            0
        } else {
            heads
        },
        pairs,
    }
}

/// Returns a list as positions of a kind.
pub fn positions<T>(
    kind: rope_positions_kind,
    values: &[T],
    number: rope_number,
) -> rope_positions {
    let (values, count) = (values.as_ptr().cast(), values.len());
    rope_positions {
        kind: kind as i32,
        ..rope_positions_per_token(values, count, number as i32)
    }
}

/// Returns the tokens of a shard, or `None` if it is refused.
pub fn shard_tokens(shard: &rope_positions) -> Option<Vec<usize>> {
    let mut count = 0;
    // SAFETY: the shard leads to a list of the stated length. Without room the call counts the tokens.
    let counted = unsafe { rope_shard_tokens(shard, null_mut(), 0, &mut count) };
    if counted != rope_status::Ok {
        return None;
    }
    let mut tokens = vec![usize::MAX; count + 1];
    let (out, room) = (tokens.as_mut_ptr(), tokens.len());
    ok!(rope_shard_tokens(shard, out, room, &mut count));
    assert_eq!(
        tokens.pop(),
        Some(usize::MAX),
        "it writes beyond the tokens"
    );
    Some(tokens)
}

/// Returns a scaling as its struct, whose unused members no kind accepts, or `None` for an attention factor of 0, which
/// is none in C.
///
/// # Panics
///
/// If the scaling has no struct.
pub fn scaling(scaling: &Scaling<'_>) -> Option<rope_scaling> {
    use rope_scaling_kind as Kind;
    const NO: f64 = f64::NAN;
    let new = |kind: Kind| rope_scaling {
        kind: kind as i32,
        untruncated: 1,
        factor: NO,
        original_context: 0,
        max_position_embeddings: 0,
        length: u64::MAX,
        low_freq_factor: NO,
        high_freq_factor: NO,
        beta_fast: NO,
        beta_slow: NO,
        attention_factor: NO,
        mscale: NO,
        mscale_all_dim: NO,
        alpha: NO,
        mixed_b: NO,
        ntk_factor: NO,
        extrapolation_factor: NO,
        partial_rotary_factor: NO,
        min_period: NO,
        max_period: NO,
        short_factor: null(),
        long_factor: null(),
        alphas: null(),
        freq_factors: null(),
        count: 1,
    };
    macro_rules! scaling {
        ($($kind:ident $({ $($field:ident),+ })?)+; $($rest:pat => $made:expr),+ $(,)?) => {
            match *scaling {
                $(Scaling::$kind $({ $($field),+ })? => rope_scaling { $($($field,)+)? ..new(Kind::$kind) },)+
                $($rest => $made,)+
            }
        };
    }
    let factor = |factor: Option<f64>| match factor {
        Some(0.0) => None,
        factor => Some(factor.unwrap_or(0.0)),
    };
    Some(scaling!(
        Default
        Linear { factor }
        DynamicNtk { factor, max_position_embeddings, length }
        NtkAlpha { alpha }
        NtkFixed { factor }
        NtkMixed { factor, mixed_b }
        NtkByParts { factor, original_context, ntk_factor, extrapolation_factor }
        Llama3 { factor, low_freq_factor, high_freq_factor, original_context }
        Proportional { partial_rotary_factor, factor }
        Turns
        Periods { min_period, max_period };
        Scaling::Yarn(Yarn {
            factor: times, original_context, beta_fast, beta_slow, truncate, attention_factor, mscale, mscale_all_dim, ..
        }) => rope_scaling {
            factor: times,
            original_context,
            beta_fast,
            beta_slow,
            untruncated: (!truncate).into(),
            attention_factor: factor(attention_factor)?,
            mscale,
            mscale_all_dim,
            ..new(Kind::Yarn)
        },
        Scaling::LongRope(LongRope {
            short_factor, long_factor, original_context, length, factor: times, attention_factor, ..
        }) => rope_scaling {
            short_factor: short_factor.as_ptr(),
            long_factor: long_factor.as_ptr(),
            count: short_factor.len(),
            original_context,
            length,
            factor: times,
            attention_factor: factor(attention_factor)?,
            ..new(Kind::LongRope)
        },
        Scaling::FreqFactors { factors } => rope_scaling {
            freq_factors: factors.as_ptr(),
            count: factors.len(),
            ..new(Kind::FreqFactors)
        },
        Scaling::Learned { alphas } => rope_scaling {
            alphas: alphas.as_ptr(),
            count: alphas.len(),
            ..new(Kind::Learned)
        },
        other => panic!("{other:?} has no struct"),
    ))
}
