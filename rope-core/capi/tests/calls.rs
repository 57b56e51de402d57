//! The calls as C makes them: a right call gives rope-core's bits, a wrong one its status.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use c::{full_rows, in_slots, moved_by, moved_from, strided_rows, tensor_at, zero};
use half::{bf16, f16};
use rope::*;
use rope_core::axes::Axes;
use rope_core::{
    Backend, Dimension, Direction, Element, Frequencies, FullRows, Layout, LongRope, Pairing,
    Positions, Rope, Rows, Scaling, Tensor, TensorMut, Yarn,
};

const SHAPE: [usize; 4] = [2, 5, 3, 64];
const LEN: usize = 2 * 5 * 3 * 64;

trait Number: Element + PartialEq + std::fmt::Debug {
    const ELEMENT: rope_element;
    fn from_f32(x: f32) -> Self;
}

macro_rules! number {
    ($($type:ty = $element:ident, $from:expr;)*) => {$(
        impl Number for $type {
            const ELEMENT: rope_element = rope_element::$element;
            fn from_f32(x: f32) -> Self {
                $from(x)
            }
        }
    )*};
}
number! {
    f32 = F32, |x| x;
    f16 = F16, f16::from_f32;
    bf16 = Bf16, bf16::from_f32;
}

fn values<E: Number>(len: usize) -> Vec<E> {
    (0..len)
        .map(|i| E::from_f32((i * 7 % 31) as f32 / 8.0 - 1.7))
        .collect()
}

fn layout(shape: [usize; 4]) -> rope_layout {
    let [batch, tokens, heads, head_dim] = shape;
    let mut layout = zero();
    // SAFETY: a struct.
    let status = unsafe {
        rope_layout_init(
            &mut layout,
            rope_order::Bshd as i32,
            batch,
            tokens,
            heads,
            head_dim,
        )
    };
    assert_eq!(status, rope_status::Ok);
    layout
}

fn tensor<E: Number>(x: &mut [E], shape: [usize; 4]) -> rope_operand {
    let (data, element) = (x.as_mut_ptr().cast(), E::ELEMENT as i32);
    tensor_at(data, x.len(), element, layout(shape))
}

fn plan(pairing: rope_pairing) -> rope_plan {
    rope_plan {
        pairing: pairing as i32,
        ..zero()
    }
}

/// ROPE_FREQUENCIES_BYTES.
fn frequencies_bytes(rotary_dim: usize) -> usize {
    ROPE_FREQUENCIES_HEAD + ROPE_FREQUENCIES_CHUNK * rotary_dim.div_ceil(16)
}

/// The number after the last of an enumeration: it names nothing, however long the list grows.
fn next<T: Copy>(all: &[T], number: impl Fn(T) -> i32) -> i32 {
    all.iter().copied().map(number).max().expect("a value") + 1
}

/// Calls with one pointer after the other null, then misaligned.
macro_rules! each {
    ($call:ident($($argument:expr),* ; $($rest:expr),*)) => {
        for spoilt in 0..[$(stringify!($argument)),*].len() {
            for wrong in [rope_status::Null, rope_status::Misaligned] {
                let mut index = 0..;
                // SAFETY: pointers that are there, but for one that is null or misaligned.
                let got = unsafe {
                    $call($({
                        let right = $argument;
                        match index.next() {
                            Some(index) if index != spoilt => right,
                            _ if wrong == rope_status::Misaligned => right.wrapping_byte_add(1),
                            _ => right.wrapping_byte_sub(right.addr()),
                        }
                    },)* $($rest),*)
                };
                assert_eq!(got, wrong, "{} with argument {spoilt}", stringify!($call));
            }
        }
    };
}

#[path = "../../../tests/src/c.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the suites need more, and their crate exports it"
)]
mod c;
#[path = "../src/dialect.rs"]
mod dialect;

#[path = "calls/chains.rs"]
mod chains;
#[path = "calls/gradients.rs"]
mod gradients;
#[path = "calls/mixed.rs"]
mod mixed;
#[path = "calls/parts.rs"]
mod parts;
#[path = "calls/prepared.rs"]
mod prepared;

/// Frequencies on the heap, freed at the end.
struct Owned(*mut rope_frequencies);

impl Owned {
    fn new(rotary_dim: usize) -> Self {
        let mut made = null_mut();
        let axes = rope_axes_text(rotary_dim);
        // SAFETY: structs.
        let status = unsafe { rope_frequencies_new(&axes, 10_000.0, null(), &mut made) };
        assert_eq!(status, rope_status::Ok);
        Owned(made)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: freed once.
        assert_eq!(unsafe { rope_frequencies_free(self.0) }, rope_status::Ok);
    }
}

fn detail() -> String {
    let mut text = [0; 256];
    // SAFETY: there is room.
    let status = unsafe { rope_error_detail(text.as_mut_ptr().cast(), text.len()) };
    assert_eq!(status, rope_status::Ok);
    let text = CStr::from_bytes_until_nul(&text).expect("it ends");
    text.to_str().expect("UTF-8").to_owned()
}

/// Each kind reads the fields that it names and no others: every field has a value of its own. The match is over all
/// kinds, so that a new one does not compile until it stands here.
#[test]
fn every_scaling_matches_rope_core() {
    let list = |first: f64| -> Vec<f64> { (0..32).map(|i| first + f64::from(i)).collect() };
    let (short, long) = (list(1.0), list(40.0));
    let alphas: Vec<f64> = (0..32).map(|i| f64::from(i) / -8.0).collect();
    let singles: Vec<f32> = (0..32).map(|i| 2.0 + i as f32).collect();
    let c = rope_scaling {
        kind: 0,
        untruncated: 1,
        factor: 8.0,
        original_context: 4096,
        max_position_embeddings: 2048,
        length: 9000,
        low_freq_factor: 1.25,
        high_freq_factor: 4.5,
        beta_fast: 31.0,
        beta_slow: 1.5,
        attention_factor: 1.75,
        mscale: 0.75,
        mscale_all_dim: 0.875,
        alpha: 1000.0,
        mixed_b: 0.625,
        ntk_factor: 0.9375,
        extrapolation_factor: 0.8125,
        partial_rotary_factor: 0.5,
        min_period: 0.25,
        max_period: 64.0,
        short_factor: short.as_ptr(),
        long_factor: long.as_ptr(),
        alphas: alphas.as_ptr(),
        freq_factors: singles.as_ptr(),
        count: 32,
    };
    let (factor, original_context, length) = (c.factor, c.original_context, c.length);
    for &kind in rope_scaling_kind::ALL {
        use rope_scaling_kind as Kind;
        let scaling = match kind {
            Kind::Default => Scaling::Default,
            Kind::Linear => Scaling::Linear { factor },
            Kind::DynamicNtk => Scaling::DynamicNtk {
                factor,
                max_position_embeddings: 2048,
                length,
            },
            Kind::NtkAlpha => Scaling::NtkAlpha { alpha: 1000.0 },
            Kind::NtkFixed => Scaling::NtkFixed { factor },
            Kind::NtkMixed => Scaling::NtkMixed {
                factor,
                mixed_b: 0.625,
            },
            Kind::NtkByParts => Scaling::NtkByParts {
                factor,
                original_context,
                ntk_factor: 0.9375,
                extrapolation_factor: 0.8125,
            },
            Kind::Yarn => Scaling::Yarn(Yarn {
                beta_fast: 31.0,
                beta_slow: 1.5,
                truncate: false,
                attention_factor: Some(1.75),
                mscale: 0.75,
                mscale_all_dim: 0.875,
                ..Yarn::new(factor, original_context)
            }),
            Kind::LongRope => Scaling::LongRope(LongRope {
                short_factor: &short,
                long_factor: &long,
                original_context,
                length,
                factor,
                attention_factor: Some(1.75),
            }),
            Kind::Llama3 => Scaling::Llama3 {
                factor,
                low_freq_factor: 1.25,
                high_freq_factor: 4.5,
                original_context,
            },
            Kind::Proportional => Scaling::Proportional {
                partial_rotary_factor: 0.5,
                factor,
            },
            Kind::FreqFactors => Scaling::FreqFactors { factors: &singles },
            Kind::Learned => Scaling::Learned { alphas: &alphas },
            Kind::Turns => Scaling::Turns,
            Kind::Periods => Scaling::Periods {
                min_period: 0.25,
                max_period: 64.0,
            },
        };
        let c_scaling = rope_scaling {
            kind: kind as i32,
            ..c
        };
        let expected = Frequencies::new(64, 100.0, &scaling).expect("valid");
        let inverse: Vec<f64> = expected.iter().map(|pair| pair.inverse).collect();
        let (mut got, mut info, mut made) = ([0.0; 32], zero(), null_mut());
        // SAFETY: what is passed is there.
        unsafe {
            let status = rope_frequencies_new(&rope_axes_text(64), 100.0, &c_scaling, &mut made);
            assert_eq!(status, rope_status::Ok, "{kind:?}: {}", detail());
            let status = rope_frequencies_inverse(made, got.as_mut_ptr(), 32);
            assert_eq!(
                (status, &got[..]),
                (rope_status::Ok, &inverse[..]),
                "{kind:?}"
            );
            assert_eq!(rope_frequencies_describe(made, &mut info), rope_status::Ok);
            assert_eq!(rope_frequencies_free(made), rope_status::Ok);
        }
        assert_eq!(
            info.attention_factor,
            expected.attention_factor(),
            "{kind:?}"
        );
        assert_eq!(info.softmax_factor, expected.softmax_factor(), "{kind:?}");
    }
}

/// Each kind deals the pairs out as rope-core does, and reads the fields that it names and no others: every field has a
/// value of its own, and a token another position on each axis, so that a pair on another axis has another angle. The
/// match is over all kinds, so that a new one does not compile until it stands here.
#[test]
fn every_kind_of_axes_matches_rope_core() {
    let given = [3, 0, 1, 2_u8];
    let position = [3_i64, 1000, 70_000, -11];
    for (&kind, count) in rope_axes_kind::ALL
        .iter()
        .flat_map(|kind| (1..=4).map(move |count| (kind, count)))
    {
        use rope_axes_kind as Kind;
        let [a, b, c, d] = match kind {
            // Which asks for as many of height as of width.
            Kind::MropeAlternating => [10, 10, 12, 8],
            _ => [12, 10, 9, 8],
        };
        let rotary_dim = match kind {
            Kind::Mrope => 2 * [a, b, c, d][..count].iter().sum::<usize>(),
            Kind::MropeInterleaved | Kind::MropeAlternating | Kind::MropeSpread => 2 * (a + b + c),
            _ => 100,
        };
        macro_rules! counted {
            ($axes:path $(, $first:expr)?) => {
                match count {
                    1 => $axes($($first,)? [a]),
                    2 => $axes($($first,)? [a, b]),
                    3 => $axes($($first,)? [a, b, c]),
                    _ => $axes($($first,)? [a, b, c, d]),
                }
            };
        }
        let axes = match kind {
            Kind::Text => Axes::from(rotary_dim),
            Kind::Mrope => counted!(Axes::mrope, rotary_dim),
            Kind::MropeInterleaved => Axes::mrope_interleaved(rotary_dim, [a, b, c]),
            Kind::MropeAlternating => Axes::mrope_alternating(rotary_dim, [a, b, c]),
            Kind::MropeSpread => Axes::mrope_spread(rotary_dim, [a, b, c]),
            Kind::GgmlMrope => Axes::ggml_mrope(rotary_dim, [a, b, c, d]),
            Kind::GgmlImrope => Axes::ggml_imrope(rotary_dim, [a, b, c, d]),
            Kind::PerAxis => counted!(Axes::per_axis),
            Kind::Vision => Axes::vision(rotary_dim),
            Kind::Pixtral => Axes::pixtral(rotary_dim),
            Kind::Wan => Axes::wan(rotary_dim),
            Kind::Given => Axes::given(&given[..count]),
        };
        let expected = Frequencies::new(axes, 100.0, &Scaling::Default).expect("valid");
        let position = &position[..expected.axes()];
        let rows = expected
            .rows(Positions::token_major(position))
            .expect("valid");
        let (cos, sin) = rows.row(0).expect("a row");
        let c_axes = rope_axes {
            kind: kind as i32,
            rotary_dim,
            sections: [a, b, c, d],
            count,
            given: given.as_ptr(),
        };
        let c_positions = rope_positions {
            kind: rope_positions_kind::TokenMajor as i32,
            number: rope_number::I64 as i32,
            values: position.as_ptr().cast(),
            count: position.len(),
            ..rope_positions_range(0, 0)
        };
        let size = frequencies_bytes(expected.rotary_dim());
        let (mut memory, mut values) = (vec![0_u8; size], vec![0.0_f32; expected.rotary_dim()]);
        let (mut placed, mut owned) = (null_mut(), null_mut());
        // SAFETY: what is passed is there.
        unsafe {
            let place = memory.as_mut_ptr().cast();
            let status = rope_frequencies_init(place, size, &c_axes, 100.0, null(), &mut placed);
            assert_eq!(status, rope_status::Ok, "{kind:?}: {}", detail());
            let status = rope_frequencies_new(&c_axes, 100.0, null(), &mut owned);
            assert_eq!(status, rope_status::Ok, "{kind:?}: {}", detail());
            for made in [placed, owned] {
                let (mut info, mut c_rows) = (zero(), zero());
                assert_eq!(rope_frequencies_describe(made, &mut info), rope_status::Ok);
                assert_eq!(
                    (info.rotary_dim, info.axes),
                    (expected.rotary_dim(), expected.axes()),
                    "{kind:?}"
                );
                values.fill(0.0);
                let room = (values.as_mut_ptr(), values.len());
                let status = rope_rows_fill(
                    &rope_angles_at(made, &c_positions),
                    room.0,
                    room.1,
                    &mut c_rows,
                );
                assert_eq!(status, rope_status::Ok, "{kind:?}: {}", detail());
                assert_eq!(values, [cos, sin].concat(), "{kind:?}, count {count}");
            }
            assert_eq!(rope_frequencies_free(owned), rope_status::Ok);
        }
    }
}

/// The plan of a model rotates parts of a head that are paired by themselves.
#[cfg(feature = "models")]
#[test]
fn a_window_of_two_parts() {
    let json = br#"{"model_type": "gemma4_vision", "head_dim": 48, "num_hidden_layers": 1}"#;
    let text = core::str::from_utf8(json).expect("a text");
    let config = rope_models::Config::from_json(text).expect("JSON");
    let expected = config.model().expect("a model");
    let rotation = expected.rotation().expect("a rotation");
    let ids = [3_i64, 70, 1, 12];
    let rows = rotation
        .rows(Positions::axis_major(&ids[..]))
        .expect("rows");
    let values: Vec<f32> = (0..2)
        .filter_map(|token| rows.rows().row(token))
        .fold(Vec::new(), |all, (cos, sin)| [&all[..], cos, sin].concat());
    let shape = [1, 2, 3, 48];
    let x: Vec<f32> = (0..288)
        .map(|at| (at * 7919 % 1009) as f32 / 512.0 - 1.0)
        .collect();
    let (mut ours, mut theirs) = (x.clone(), x);
    let mut wanted = TensorMut::new(&mut theirs, shape).expect("a tensor");
    let rope = rotation.rope();
    rope.rotate(&mut wanted, &rows).expect("rotated");

    let (mut model, mut layer): (*mut rope_model, rope_model_layer) = (null_mut(), zero());
    // SAFETY: what is passed is there, and freed once.
    unsafe {
        let made = rope_model_from_config(json.as_ptr().cast(), json.len(), null(), &mut model);
        assert_eq!(made, rope_status::Ok, "{}", detail());
        let described = rope_model_describe_layer(model, 0, &mut layer);
        assert_eq!(described, rope_status::Ok, "{}", detail());
        assert_eq!(rope_model_free(model), rope_status::Ok);
    }
    assert_eq!(
        (layer.first, layer.rotary_dim, layer.plan.parts),
        (0, 48, 2)
    );
    let (x, rows) = (
        tensor(&mut ours, shape),
        rope_rows_joined(values.as_ptr(), values.len(), 48),
    );
    // SAFETY: what is passed is there.
    let status = unsafe { rope_rotate(&layer.plan, &x, &rows) };
    assert_eq!(status, rope_status::Ok, "{}", detail());
    assert_eq!(ours, theirs);
    let odd = rope_plan {
        parts: 5,
        ..layer.plan
    };
    // SAFETY: what is passed is there.
    let status = unsafe { rope_rotate(&odd, &x, &rows) };
    assert_eq!(status, rope_status::RotaryDim);
    assert!(
        detail().contains("parts is 5; it must divide the 24 pairs"),
        "{}",
        detail()
    );
    assert_eq!(ours, theirs);
}

/// Frequencies in the caller's memory, wherever it begins, and on the heap: their lists, and the calls that free them.
#[test]
fn frequencies_match_rope_core() {
    let expected = Frequencies::new(64, 10_000.0, &Scaling::Default).expect("valid");
    let inverse: Vec<f64> = expected.iter().map(|pair| pair.inverse).collect();
    let mut memory = vec![0_u8; frequencies_bytes(64) + 1];
    let (axes, owned, mut placed) = (rope_axes_text(64), Owned::new(64), null_mut());
    // SAFETY: what is passed is there.
    unsafe {
        let memory = memory.as_mut_ptr().add(1).cast::<c_void>();
        let size = frequencies_bytes(64);
        let status = rope_frequencies_init(memory, size, &axes, 10_000.0, null(), &mut placed);
        assert_eq!(status, rope_status::Ok, "{}", detail());
        for made in [placed, owned.0] {
            let mut got = [0.0; 32];
            let status = rope_frequencies_inverse(made, got.as_mut_ptr(), 32);
            assert_eq!((status, &got[..]), (rope_status::Ok, &inverse[..]));
            let status = rope_frequencies_inverse(made, got.as_mut_ptr(), usize::MAX);
            assert_eq!(status, rope_status::Length);
            let status = rope_frequencies_inverse(made, got.as_mut_ptr(), 31);
            assert_eq!(status, rope_status::Storage);
        }
        assert_eq!(rope_frequencies_free(placed), rope_status::Handle);
    }
}

/// Inverse frequencies of both types, in the caller's memory and on the heap.
#[test]
fn inverse_frequencies_match_rope_core() {
    let doubles: [f64; 4] = [1.0, 0.3, 0.1, 1e-3];
    let singles = doubles.map(|inverse| inverse as f32);
    let axes = rope_axes_text(8);
    let mut memory = [0_u8; 1024];
    let cases = [
        (
            doubles.as_ptr().cast::<c_void>(),
            rope_number::F64 as i32,
            Frequencies::from_inverse(8, &doubles, 1.25).expect("valid"),
        ),
        (
            singles.as_ptr().cast(),
            rope_number::F32 as i32,
            Frequencies::from_inverse(8, &singles, 1.25).expect("valid"),
        ),
    ];
    for (inverse, number, expected) in cases {
        let (mut placed, mut owned) = (null_mut(), null_mut());
        // SAFETY: what is passed is there.
        unsafe {
            let status = rope_frequencies_init_inverse(
                memory.as_mut_ptr().cast(),
                memory.len(),
                &axes,
                inverse,
                4,
                number,
                1.25,
                &mut placed,
            );
            assert_eq!(status, rope_status::Ok, "{}", detail());
            let status = rope_frequencies_new_inverse(&axes, inverse, 4, number, 1.25, &mut owned);
            assert_eq!(status, rope_status::Ok, "{}", detail());
            for made in [placed, owned] {
                let (mut info, mut got) = (zero(), [0.0; 4]);
                assert_eq!(rope_frequencies_describe(made, &mut info), rope_status::Ok);
                assert_eq!((info.rotary_dim, info.attention_factor), (8, 1.25));
                let status = rope_frequencies_inverse(made, got.as_mut_ptr(), 4);
                assert_eq!(status, rope_status::Ok);
                assert!(expected.iter().map(|pair| pair.inverse).eq(got));
            }
            assert_eq!(rope_frequencies_free(owned), rope_status::Ok);
        }
    }
}

/// The three orders of the axes in memory.
#[test]
fn layouts_match_rope_core() {
    let shape = [2, 5, 3, 64];
    let [batch, tokens, heads, head_dim] = shape;
    let bhsd = [batch, heads, tokens, head_dim];
    let sbhd = [tokens, batch, heads, head_dim];
    for &order in rope_order::ALL {
        let expected = match order {
            rope_order::Bshd => Layout::bshd(shape),
            rope_order::Bhsd => Layout::bhsd(bhsd),
            rope_order::Sbhd => Layout::sbhd(sbhd),
        };
        let expected = expected.expect("valid");
        let mut layout: rope_layout = zero();
        let mut init = |order, batch, tokens| {
            // SAFETY: a struct.
            let status =
                unsafe { rope_layout_init(&mut layout, order, batch, tokens, heads, head_dim) };
            (status, layout.shape, layout.strides)
        };
        let strides = expected.strides();
        let strides = [strides.batch, strides.token, strides.head];
        assert_eq!(
            init(order as i32, batch, tokens),
            (rope_status::Ok, shape, strides)
        );
        assert_eq!(
            init(order as i32, usize::MAX, usize::MAX),
            (rope_status::ShapeOverflow, shape, strides)
        );
        let unknown = next(rope_order::ALL, |order| order as i32);
        assert_eq!(
            init(unknown, batch, tokens),
            (rope_status::UnknownValue, shape, strides)
        );
    }
}

/// A static text of the library's.
fn text(text: *const c_char) -> &'static str {
    assert!(!text.is_null());
    // SAFETY: static, and it ends.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().expect("UTF-8")
}

#[test]
fn versions_match_the_package() {
    let version = env!("CARGO_PKG_VERSION");
    let numbers = [ROPE_VERSION_MAJOR, ROPE_VERSION_MINOR, ROPE_VERSION_PATCH];
    assert_eq!(numbers.map(|n| n.to_string()).join("."), version);
    let [major, minor, patch] = numbers;
    assert_eq!(rope_version(), major * 1_000_000 + minor * 1_000 + patch);
}

/// Every backend has a number: that of the first and what follows. 0 stands for the best.
#[test]
fn backends_match_rope_core() {
    let first = rope_backend::Scalar as i32;
    let numbers = first..first + Backend::ALL.len() as i32;
    let mut named: Vec<_> = numbers
        .map(|number| {
            let available = rope_backend_available(number) == 1;
            (text(rope_backend_name(number)), available)
        })
        .collect();
    let mut expected: Vec<_> = Backend::ALL
        .iter()
        .map(|backend| (backend.name(), backend.is_available()))
        .collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    assert_eq!(text(rope_backend_name(0)), Backend::best().name());
    assert_eq!(rope_backend_available(0), 1);
    for none in [-1, first - 1, first + named.len() as i32, i32::MIN] {
        assert!(rope_backend_name(none).is_null());
        assert_eq!(rope_backend_available(none), 0);
    }
}

/// The name of a value in place of another enumeration's would be a value of it: no number but 0 names two values.
#[test]
fn enumerations_share_no_values() {
    let header = include_str!("../include/rope.h");
    let mut named: Vec<(i32, &str)> = header
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.trim().strip_prefix("ROPE_")?.split_once(" = ")?;
            Some((rest.split_once(',')?.0.parse().ok()?, name))
        })
        .filter(|&(number, _)| number != 0)
        .collect();
    named.sort_unstable();
    assert!(named.len() > 150, "{}", named.len());
    for pair in named.windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "{pair:?}");
    }
}

/// A sentence for each status, and one for numbers that are no status.
#[test]
fn messages() {
    let none = "not a status of this library";
    let statuses: Vec<i32> = rope_status::ALL
        .iter()
        .map(|&status| status as i32)
        .collect();
    let message = |status| text(rope_error_message(status));
    let sentences: Vec<&str> = statuses.iter().copied().map(message).collect();
    for (index, sentence) in sentences.iter().enumerate() {
        assert!(!sentence.is_empty() && *sentence != none);
        assert!(!sentences[..index].contains(sentence), "{sentence}");
    }
    for other in (-5..200)
        .filter(|number| !statuses.contains(number))
        .chain([i32::MIN])
    {
        assert_eq!(message(other), none);
    }
}

/// Positions of all kinds, in the caller's memory and in a table.
#[test]
fn rows_match_rope_core() {
    let frequencies =
        Frequencies::new(Axes::mrope(12, [2, 3, 1]), 100.0, &Scaling::Default).expect("valid");
    let mut axes: rope_axes = zero();
    (axes.kind, axes.rotary_dim) = (rope_axes_kind::Mrope as i32, 12);
    (axes.sections, axes.count) = ([2, 3, 1, 0], 3);
    let mut made = null_mut();
    // SAFETY: structs.
    let status = unsafe { rope_frequencies_new(&axes, 100.0, null(), &mut made) };
    assert_eq!(status, rope_status::Ok);
    let ints: [i32; 6] = [5, -3, 7, 1000, 2, 9];
    let longs = [1_i64 << 40, 3, -9, 0, 0, 1];
    let words: [u32; 6] = [0, 1, 2, u32::MAX, 4, 5];
    let long_words: [u64; 6] = [0, 1, u64::MAX, 1 << 40, 4, 5];
    let singles = [0.5_f32, 0.25, -1.0, 3.5, 2.0, 1e-3];
    let doubles = [0.5, 0.25, -1.0, 3.5, 2.0, 1e-3];
    let (offsets, starts) = ([0_i32, 2, 2, 5], [100_i32, 0, -4]);
    let listed = |kind: rope_positions_kind, number: rope_number, values: *const c_void, count| {
        rope_positions {
            kind: kind as i32,
            number: number as i32,
            values,
            count,
            ..rope_positions_range(0, 0)
        }
    };
    use rope_number::{F32, F64, I32, I64, U32, U64};
    use rope_positions_kind::{AxisMajor, Packed, PerToken, TokenMajor};
    let packed = listed(Packed, I32, offsets.as_ptr().cast(), 4);
    let cases = [
        (rope_positions_range(-2, 4), Positions::from(-2_i64..2)),
        (rope_positions_range(i64::MAX, 0), Positions::from(0..0)),
        (
            listed(PerToken, I32, ints.as_ptr().cast(), 6),
            Positions::from(&ints),
        ),
        (
            listed(PerToken, U32, words.as_ptr().cast(), 6),
            Positions::from(&words),
        ),
        (
            listed(PerToken, U64, long_words.as_ptr().cast(), 6),
            Positions::from(&long_words),
        ),
        (
            listed(AxisMajor, I32, ints.as_ptr().cast(), 6),
            Positions::axis_major(&ints),
        ),
        (
            listed(TokenMajor, I64, longs.as_ptr().cast(), 6),
            Positions::token_major(&longs),
        ),
        (
            listed(PerToken, F32, singles.as_ptr().cast(), 6),
            Positions::real(&singles),
        ),
        (
            listed(AxisMajor, F64, doubles.as_ptr().cast(), 6),
            Positions::real_axis_major(&doubles),
        ),
        (
            listed(TokenMajor, F32, singles.as_ptr().cast(), 6),
            Positions::real_token_major(&singles),
        ),
        (packed, Positions::packed(&offsets).expect("valid")),
        (
            rope_positions {
                starts: starts.as_ptr().cast(),
                ..packed
            },
            Positions::packed_from(&offsets, &starts).expect("valid"),
        ),
    ];
    for (c_positions, positions) in cases {
        let expected = frequencies.rows(positions).expect("valid");
        let mut wanted = vec![0.0; expected.len() * 12];
        expected.sinusoidal(&mut wanted).expect("room");
        let (mut len, mut table) = (0, null_mut());
        let (mut filled, mut kept): (rope_angles, rope_angles) = (zero(), zero());
        // SAFETY: what is passed is there.
        unsafe {
            assert_eq!(
                rope_rows_len(&rope_angles_at(made, &c_positions), &mut len),
                rope_status::Ok
            );
            assert_eq!(len, wanted.len());
            let mut storage = vec![0.0; len];
            let status = rope_rows_fill(
                &rope_angles_at(made, &c_positions),
                storage.as_mut_ptr(),
                len,
                &mut filled,
            );
            assert_eq!(status, rope_status::Ok);
            assert_eq!(
                rope_table_new(&rope_angles_at(made, &c_positions), &mut table),
                rope_status::Ok
            );
            assert_eq!(rope_table_rows(table, &mut kept), rope_status::Ok);
            for rows in [filled, kept] {
                let mut got = vec![0.0; len];
                let status = rope_sinusoidal(&rows, got.as_mut_ptr(), len);
                assert_eq!((status, got), (rope_status::Ok, wanted.clone()));
            }
            assert_eq!(rope_table_free(table), rope_status::Ok);
        }
    }
    // SAFETY: freed once.
    assert_eq!(unsafe { rope_frequencies_free(made) }, rope_status::Ok);
}

/// Rows apart, with strides, ids and a factor.
#[test]
fn rows_of_the_caller() {
    let (sin, cos): (Vec<f32>, Vec<f32>) = (0..4 * 4)
        .map(|i| f64::from(i).sin_cos())
        .map(|(sin, cos)| ((1.5 * sin) as f32, (1.5 * cos) as f32))
        .unzip();
    let ids = [3_u32, 0, 3];
    let mut x = values::<f32>(3 * 8);
    let mut expected = x.clone();
    let table = Rows::from_cos_sin(&cos, &sin, [4, 4], 8)
        .and_then(|rows| rows.with_attention_factor(1.5))
        .expect("valid");
    let rows = table.gather(&ids).expect("valid");
    let rope = Rope::new(Pairing::Half).with_direction(Direction::Inverse);
    let mut view = TensorMut::new(&mut expected, [1, 3, 1, 8]).expect("valid");
    rope.rotate(&mut view, &rows).expect("valid");

    let mut rows = rope_rows_apart(cos.as_ptr(), sin.as_ptr(), 4, 4, 8);
    (rows.ids, rows.ids_count) = (ids.as_ptr().cast(), 3);
    (rows.ids_number, rows.attention_factor) = (rope_number::U32 as i32, 1.5);
    let mut plan = plan(rope_pairing::Half);
    plan.direction = rope_direction::Inverse as i32;
    let view = tensor(&mut x, [1, 3, 1, 8]);
    let call = |rows: &rope_angles| {
        // SAFETY: what is passed is there.
        unsafe { rope_rotate(&plan, &view, rows) }
    };
    assert_eq!(call(&rows), rope_status::Ok);
    assert_eq!(x, expected);
    let inside = rope_angles {
        ids: view.data,
        ..rows
    };
    assert_eq!(call(&inside), rope_status::MemoryOverlap);
    rows.ids_number = rope_number::F32 as i32;
    assert_eq!(call(&rows), rope_status::UnknownValue);
    rows.ids_number = rope_number::U32 as i32;
    rows.len = 12;
    assert_eq!(call(&rows), rope_status::PositionOutsideTable);
    assert_eq!(
        detail(),
        "position id 3 (at index 0) is outside the table's 0..3"
    );
    rows.len = 14;
    assert_eq!(call(&rows), rope_status::RowsLength);
    (rows.len, rows.width) = (16, 5);
    assert_eq!(call(&rows), rope_status::RowWidth);
    // PyTorch's cos without its sin, as rows of both.
    let twice: Vec<f32> = cos.chunks(4).flat_map(|row| row.repeat(2)).collect();
    assert_eq!(
        call(&rope_rows_joined(twice.as_ptr(), twice.len(), 8)),
        rope_status::HalvesEqual
    );
    assert!(
        detail().contains("row 3 has the same 4 values"),
        "{}",
        detail()
    );
    assert_eq!(
        call(&rope_rows_joined(twice.as_ptr(), 31, 8)),
        rope_status::RowsLength
    );
    // Two rows that keep their values twice, which these do not.
    rows.width = 8;
    assert_eq!(call(&rows), rope_status::HalvesDiffer);
    (rows.width, rows.attention_factor) = (4, 0.0);
    assert_eq!(call(&rows), rope_status::AttentionFactor);
    // By another factor the inverse is none.
    rows.attention_factor = 1.0;
    assert_eq!(call(&rows), rope_status::RowMagnitude);
    assert_eq!(x, expected);
}

/// The tokens of ranks, and rows of their positions, are rope-core's.
#[test]
fn shards() {
    use rope_core::shard::{Shard, ShardKind};
    let kinds = [
        (rope_positions_kind::ContiguousShard, ShardKind::Contiguous),
        (rope_positions_kind::ZigzagShard, ShardKind::Zigzag),
        (
            rope_positions_kind::UnevenZigzagShard,
            ShardKind::UnevenZigzag,
        ),
        (rope_positions_kind::StripedShard, ShardKind::Striped),
    ];
    let offsets = [0_i32, 12, 12, 36];
    let frequencies = Frequencies::new(8, 10_000.0, &Scaling::Default).expect("valid");
    let mut handle = null_mut();
    let number = rope_number::I32 as i32;
    // SAFETY: what is passed is there.
    unsafe {
        let axes = rope_axes {
            kind: rope_axes_kind::Text as i32,
            rotary_dim: 8,
            ..zero()
        };
        let status = rope_frequencies_new(&axes, 10_000.0, null(), &mut handle);
        assert_eq!(status, rope_status::Ok);
    }
    for (c_kind, kind) in kinds {
        for rank in 0..3 {
            let shard = Shard::new(kind, rank, 3).expect("a rank");
            let one = rope_positions_shard(c_kind as i32, 36, rank, 3);
            let packed = rope_positions {
                values: offsets.as_ptr().cast(),
                count: offsets.len(),
                number,
                ..one
            };
            for (given, expected) in [
                (one, shard.tokens(36).expect("valid")),
                (packed, shard.packed(&offsets).expect("valid")),
            ] {
                let wanted: Vec<usize> = expected.iter().collect();
                let (mut got, mut count) = (vec![usize::MAX; wanted.len() + 1], 0);
                let (tokens, len) = (got.as_mut_ptr(), got.len());
                // SAFETY: what is passed is there.
                let status = unsafe { rope_shard_tokens(&given, tokens, len, &mut count) };
                assert_eq!((status, count), (rope_status::Ok, wanted.len()));
                assert_eq!(got[..count], wanted);
                assert_eq!(got[count], usize::MAX);
                let of_core = frequencies.rows(expected).expect("valid");
                let mut storage = vec![0.0_f32; 8 * count];
                let mut rows = zero();
                // SAFETY: what is passed is there.
                let status = unsafe {
                    let memory = storage.as_mut_ptr();
                    rope_rows_fill(
                        &rope_angles_at(handle, &given),
                        memory,
                        storage.len(),
                        &mut rows,
                    )
                };
                assert_eq!((status, rows.len), (rope_status::Ok, storage.len()));
                for (row, values) in storage.chunks(8).enumerate() {
                    let (cos, sin) = of_core.row(row).expect("a row");
                    assert_eq!(values, [cos, sin].concat());
                }
            }
        }
    }
    // Dual Chunk Attention's ids of any of them, and of a list.
    let chunks = rope_core::dual_chunk::DualChunk::new(16, 4).expect("sizes");
    let queries = rope_dual_chunk_query::ALL.iter();
    for (c_query, query) in queries.zip(rope_core::dual_chunk::DualChunkQuery::ALL) {
        let dual_chunk = rope_dual_chunk {
            query: *c_query as i32,
            chunk_size: 16,
            local_size: 4,
        };
        let list = [5_i32, -1, 90, 12];
        let listed = rope_positions_per_token(list.as_ptr().cast(), list.len(), number);
        for (positions, of_core) in [
            (rope_positions_range(-3, 40), Positions::from(-3..37)),
            (listed, Positions::from(&list)),
        ] {
            let given = rope_positions {
                dual_chunk,
                ..positions
            };
            let ids = chunks.positions(query, of_core).expect("one axis");
            let expected = frequencies.rows(ids).expect("valid");
            let mut storage = vec![0.0_f32; 8 * expected.len()];
            let mut rows = zero();
            // SAFETY: what is passed is there.
            let status = unsafe {
                let memory = storage.as_mut_ptr();
                rope_rows_fill(
                    &rope_angles_at(handle, &given),
                    memory,
                    storage.len(),
                    &mut rows,
                )
            };
            assert_eq!(status, rope_status::Ok);
            for (row, values) in storage.chunks(8).enumerate() {
                let (cos, sin) = expected.row(row).expect("a row");
                assert_eq!(values, [cos, sin].concat());
            }
            for (spoilt, expected) in [
                (
                    rope_dual_chunk {
                        query: 6,
                        ..dual_chunk
                    },
                    rope_status::UnknownValue,
                ),
                (
                    rope_dual_chunk {
                        local_size: 16,
                        ..dual_chunk
                    },
                    rope_status::Parameter,
                ),
            ] {
                let given = rope_positions {
                    dual_chunk: spoilt,
                    ..positions
                };
                // SAFETY: what is passed is there.
                let status = unsafe {
                    let memory = storage.as_mut_ptr();
                    rope_rows_fill(
                        &rope_angles_at(handle, &given),
                        memory,
                        storage.len(),
                        &mut rows,
                    )
                };
                assert_eq!(status, expected);
            }
        }
    }
    let (mut got, mut count) = ([7; 4], 7);
    let zigzag = rope_positions_kind::ZigzagShard as i32;
    let mut call = |positions: rope_positions, len| {
        // SAFETY: what is passed is there.
        unsafe { rope_shard_tokens(&positions, got.as_mut_ptr(), len, &mut count) }
    };
    let status = [
        call(rope_positions_shard(zigzag, 12, 3, 3), 4),
        call(rope_positions_shard(zigzag, 12, 0, 0), 4),
        call(rope_positions_shard(zigzag, 13, 0, 3), 4),
        call(rope_positions_shard(zigzag, 24, 0, 3), 4),
        call(rope_positions_range(0, 4), 4),
    ];
    let expected = [
        rope_status::Rank,
        rope_status::Rank,
        rope_status::ShardTokens,
        rope_status::Storage,
        rope_status::UnknownValue,
    ];
    assert_eq!(status, expected);
    assert_eq!(
        call(rope_positions_shard(zigzag, 24, 0, 3), 0),
        rope_status::Ok
    );
    assert_eq!((got, count), ([7; 4], 8));
    // SAFETY: of this library.
    assert_eq!(unsafe { rope_frequencies_free(handle) }, rope_status::Ok);
}

/// Full-width rows rotate as rope-core's do, in slices of their own, joined and strided; what needs a rotation is
/// refused.
#[test]
fn full_width_rows() {
    let (tokens, head_dim, rotary_dim) = (SHAPE[0] * SHAPE[1], SHAPE[3], 48);
    let cos = values::<f32>(tokens * rotary_dim);
    let sin: Vec<f32> = cos.iter().rev().map(|x| x * 0.75).collect();
    let lines = cos.chunks(rotary_dim).zip(sin.chunks(rotary_dim));
    let joined: Vec<f32> = lines.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
    let of_core = Rows::strided(&cos, &sin, [1, tokens, 1, rotary_dim]);
    let of_core = of_core.and_then(FullRows::new).expect("valid");
    let apart = full_rows(cos.as_ptr(), sin.as_ptr(), tokens, rotary_dim);
    let of_joined = rope_angles {
        full_width: 1,
        ..rope_rows_joined(joined.as_ptr(), joined.len(), rotary_dim)
    };
    let layout = layout([1, tokens, 1, rotary_dim]);
    let strided = rope_angles {
        full_width: 1,
        rotary_dim,
        ..strided_rows(cos.as_ptr(), sin.as_ptr(), cos.len(), layout)
    };
    let mut plan = plan(rope_pairing::Half);
    for (direction, of_plan) in [
        (rope_direction::Forward, Direction::Forward),
        (rope_direction::Transpose, Direction::Transpose),
    ] {
        plan.direction = direction as i32;
        let mut expected = values::<bf16>(LEN);
        let mut view = TensorMut::new(&mut expected, SHAPE).expect("valid");
        let rope = Rope::new(Pairing::Half).with_direction(of_plan);
        rope.rotate(&mut view, &of_core).expect("valid");
        for rows in [&apart, &of_joined, &strided] {
            let mut x = values::<bf16>(LEN);
            let view = tensor(&mut x, SHAPE);
            // SAFETY: what is passed is there.
            let status = unsafe { rope_rotate(&plan, &view, rows) };
            assert_eq!((status, x), (rope_status::Ok, expected.clone()));
        }
    }
    let mut x = values::<f32>(LEN);
    let view = tensor(&mut x, SHAPE);
    plan.direction = rope_direction::Inverse as i32;
    let mut storage = vec![0.0; joined.len()];
    let (memory, len) = (storage.as_mut_ptr(), storage.len());
    let mut inverted: rope_angles = zero();
    let odd = full_rows(cos.as_ptr(), sin.as_ptr(), 1, 3);
    let huge = full_rows(cos.as_ptr(), sin.as_ptr(), 0, usize::MAX);
    let wide = full_rows(cos.as_ptr(), sin.as_ptr(), 1, head_dim + 2);
    // SAFETY: what is passed is there.
    let got = unsafe {
        [
            rope_rotate(&plan, &view, &apart),
            rope_rows_invert(&apart, memory, len, &mut inverted),
            rope_rotate(&plan, &view, &odd),
            rope_rotate(&plan, &view, &huge),
            rope_rotate(&plan, &view, &wide),
        ]
    };
    let expected = [
        rope_status::FullWidthRows,
        rope_status::FullWidthRows,
        rope_status::RotaryDim,
        rope_status::RotaryDim,
        rope_status::RotaryDimExceedsHead,
    ];
    assert_eq!(got, expected);
    assert_eq!(x, values::<f32>(LEN));
}

/// A row for each head: one after another, with strides, by ids; and what undoes them.
#[test]
fn rows_of_each_head() {
    let (heads, tokens, pairs) = (3, 4, 2);
    let (cos, sin): (Vec<f32>, Vec<f32>) = (0..heads * tokens * pairs)
        .map(|i| ((1 + i) as f32, -(i as f32)))
        .unzip();
    let joined: Vec<f32> = (0..heads * tokens)
        .flat_map(|row| [&cos[row * pairs..][..pairs], &sin[row * pairs..][..pairs]].concat())
        .collect();
    let plan = plan(rope_pairing::Half);
    let rope = Rope::new(Pairing::Half);
    let rotated = |rows: &Rows<'_>, tokens| {
        let mut x = values::<f32>(tokens * heads * 2 * pairs);
        let mut view = TensorMut::new(&mut x, [1, tokens, heads, 2 * pairs]).expect("valid");
        rope.rotate(&mut view, rows).expect("valid");
        x
    };
    let call = |rows: &rope_angles, [tokens, heads]: [usize; 2]| {
        let mut x = values::<f32>(tokens * heads * 2 * pairs);
        let view = tensor(&mut x, [1, tokens, heads, 2 * pairs]);
        // SAFETY: what is passed is there.
        (unsafe { rope_rotate(&plan, &view, rows) }, x)
    };
    // `[heads, tokens, pairs]`.
    let bhsd = rope_core::Layout::bhsd([1, heads, tokens, pairs]).expect("a layout");
    let strided = strided_rows(cos.as_ptr(), sin.as_ptr(), cos.len(), bhsd.into());
    let of_core = Rows::strided(&cos, &sin, bhsd).expect("valid");
    let expected = rotated(&of_core, tokens);
    assert_eq!(
        call(&strided, [tokens, heads]),
        (rope_status::Ok, expected.clone())
    );
    // `[tokens, heads, 2 * pairs]`, apart and joined.
    let rows =
        Rows::new(&joined, [tokens * heads, 2 * pairs]).and_then(|rows| rows.with_heads(heads));
    let rows = rows.expect("valid");
    let expected_each = rotated(&rows, tokens);
    let mut given = rope_rows_joined(joined.as_ptr(), joined.len(), 2 * pairs);
    given.heads = heads;
    assert_eq!(
        call(&given, [tokens, heads]),
        (rope_status::Ok, expected_each.clone())
    );
    let mut apart = rope_rows_apart(cos.as_ptr(), sin.as_ptr(), heads * tokens, pairs, 2 * pairs);
    apart.heads = heads;
    assert_eq!(
        call(&apart, [tokens, heads]),
        (rope_status::Ok, expected_each)
    );
    // Ids are those of tokens.
    let ids = [3_i32, 0];
    let mut gathered = given;
    (gathered.ids, gathered.ids_count) = (ids.as_ptr().cast(), 2);
    gathered.ids_number = rope_number::I32 as i32;
    let expected_two = rotated(&rows.gather(&ids).expect("valid"), 2);
    assert_eq!(call(&gathered, [2, heads]), (rope_status::Ok, expected_two));

    // What undoes them, pair by pair.
    let mut storage = vec![f32::NAN; joined.len()];
    let mut inverted: rope_angles = zero();
    // SAFETY: what is passed is there.
    let status =
        unsafe { rope_rows_invert(&strided, storage.as_mut_ptr(), storage.len(), &mut inverted) };
    assert_eq!((status, inverted.heads), (rope_status::Ok, heads));
    let mut of_core_storage = vec![0.0; joined.len()];
    of_core.inverted(&mut of_core_storage).expect("valid");
    assert_eq!(storage, of_core_storage);
    let mut x = expected;
    let view = tensor(&mut x, [1, tokens, heads, 2 * pairs]);
    // SAFETY: what is passed is there.
    let status = unsafe { rope_rotate(&plan, &view, &inverted) };
    assert_eq!(status, rope_status::Ok);
    for (got, was) in x.iter().zip(values::<f32>(tokens * heads * 2 * pairs)) {
        assert!(
            (got - was).abs() <= 1e-6 * was.abs().max(1.0),
            "{got} for {was}"
        );
    }

    // Refused.
    assert_eq!(call(&strided, [tokens, 2]).0, rope_status::RowHeads);
    assert_eq!(
        detail(),
        "the rows are per head, for 3 heads, but 2 heads are required"
    );
    let (mut q, mut k) = (
        values::<f32>(tokens * heads * 2 * pairs),
        values::<f32>(tokens * 4 * pairs),
    );
    let whole = (q.clone(), k.clone());
    {
        let view = tensor(&mut q, [1, tokens, heads, 2 * pairs]);
        let fewer = tensor(&mut k, [1, tokens, 2, 2 * pairs]);
        // SAFETY: what is passed is there.
        unsafe {
            assert_eq!(
                rope_rotate_qk(&plan, &view, &fewer, &strided),
                rope_status::RowHeads
            );
            assert_eq!(
                rope_rotate_qk(&plan, &fewer, &view, &strided),
                rope_status::RowHeads
            );
        }
    }
    assert_eq!((q, k), whole);
    given.heads = 5;
    assert_eq!(call(&given, [tokens, heads]).0, rope_status::RowsPerHead);
    let mut short = strided;
    short.len -= 1;
    assert_eq!(call(&short, [tokens, heads]).0, rope_status::OutOfBounds);
    let mut wide = strided;
    wide.rotary_dim = 2;
    assert_eq!(call(&wide, [tokens, heads]).0, rope_status::RowWidth);
    let mut none = strided;
    none.sin = core::ptr::null();
    assert_eq!(call(&none, [tokens, heads]).0, rope_status::Null);
    let mut far = strided;
    far.layout.strides = [usize::MAX; 3];
    assert_eq!(call(&far, [tokens, heads]).0, rope_status::ShapeOverflow);
    // Two sequences that lie apart are no four tokens.
    let mut sequences = strided;
    sequences.layout.shape = [2, 2, heads, pairs];
    sequences.layout.strides = [pairs, 2 * pairs, tokens * pairs];
    assert_eq!(
        call(&sequences, [tokens, heads]).0,
        rope_status::RowSequences
    );
    let mut sinusoidal = vec![0.0; joined.len()];
    // SAFETY: what is passed is there.
    unsafe {
        let status = rope_sinusoidal(&strided, sinusoidal.as_mut_ptr(), sinusoidal.len());
        assert_eq!(status, rope_status::RowHeads);
        let (out, len) = (storage.as_mut_ptr(), storage.len());
        assert_eq!(
            rope_rows_invert(&strided, out, len - 1, &mut inverted),
            rope_status::Storage
        );
        let zeros = rope_rows_joined(sinusoidal.as_ptr(), sinusoidal.len(), 2 * pairs);
        assert_eq!(
            rope_rows_invert(&zeros, out, len, &mut inverted),
            rope_status::NoInverse
        );
        let own = rope_rows_joined(out, len, 2 * pairs);
        let status = rope_rows_invert(&own, out, len, &mut inverted);
        assert_eq!(status, rope_status::MemoryOverlap);
        let null = core::ptr::null_mut();
        assert_eq!(
            rope_rows_invert(&strided, out, len, null),
            rope_status::Null
        );
        assert_eq!(
            rope_rows_invert(null, out, len, &mut inverted),
            rope_status::Null
        );
    }
    assert_eq!(storage, of_core_storage);
}

/// Q and K of a packed row lie between one another.
#[test]
fn q_and_k_of_packed_rows() {
    let (tokens, heads, head_dim) = (3, 6, 16);
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("valid");
    let rows = frequencies.rows(0..tokens).expect("valid");
    let mut x = values::<bf16>(tokens * heads * head_dim);
    let mut expected = x.clone();
    let whole = Layout::bshd([1, tokens, heads, head_dim]).expect("valid");
    for part in [0..3, 3..5] {
        let layout = whole.narrow(Dimension::Heads, part).expect("valid");
        let mut view = TensorMut::new(&mut expected, layout).expect("valid");
        Rope::new(Pairing::Half)
            .rotate(&mut view, &rows)
            .expect("valid");
    }
    let made = Owned::new(head_dim);
    let mut storage = vec![0.0; tokens * head_dim];
    let (mut c_rows, positions) = (zero(), rope_positions_range(0, tokens));
    let all = tensor(&mut x, [1, tokens, heads, head_dim]);
    let (mut q, mut k) = (all, all);
    (q.layout.shape[2], k.layout.shape[2]) = (3, 2);
    k.data = k.data.wrapping_byte_add(3 * head_dim * 2);
    k.len -= 3 * head_dim;
    let plan = plan(rope_pairing::Half);
    // SAFETY: what is passed is there.
    unsafe {
        let status = rope_rows_fill(
            &rope_angles_at(made.0, &positions),
            storage.as_mut_ptr(),
            storage.len(),
            &mut c_rows,
        );
        assert_eq!(status, rope_status::Ok);
        let mut other = k;
        other.layout.shape[3] = 14;
        assert_eq!(
            rope_rotate_qk(&plan, &q, &other, &c_rows),
            rope_status::QueryKeyMismatch
        );
        other = k;
        other.len = 10;
        assert_eq!(
            rope_rotate_qk(&plan, &q, &other, &c_rows),
            rope_status::OutOfBounds
        );
        assert_eq!(rope_rotate_qk(&plan, &q, &k, &c_rows), rope_status::Ok);
    }
    assert_eq!(x, expected);
}

/// Every pointer of every call, null and misaligned.
#[test]
fn null_and_misaligned_pointers() {
    let made = Owned::new(64);
    let mut x = values::<f32>(64);
    let view = tensor(&mut x, [1, 1, 1, 64]);
    let mut halves = [f16::ZERO; 64];
    let from = tensor(&mut halves, [1, 1, 1, 64]);
    let plan = plan(rope_pairing::Half);
    let table = [0.5_f32; 64];
    let rows = rope_rows_joined(table.as_ptr(), 64, 64);
    let positions = rope_positions_range(0, 1);
    let axes = rope_axes_text(64);
    let mut storage = [0.0_f32; 64];
    let mut memory = [0_u8; 4096];
    let mut doubles = [0.0_f64; 32];
    let (mut out_rows, mut info): (rope_angles, rope_frequencies_info) = (zero(), zero());
    let (mut scaling, mut out_layout): (rope_scaling, rope_layout) = (zero(), zero());
    let mut norm: rope_norm = zero();
    let (mut frequencies, mut out_table, mut len) = (null_mut(), null_mut::<rope_table>(), 0);

    each!(rope_rotate(&raw const plan, &raw const view, &raw const rows;));
    each!(rope_rotate_qk(&raw const plan, &raw const view, &raw const view, &raw const rows;));
    each!(rope_rotate_into(&raw const plan, &raw const from, &raw const view, &raw const rows;));
    let at = rope_angles_at(made.0, &positions);
    each!(rope_rotate(&raw const plan, &raw const view, &raw const at;));
    each!(rope_apply(&raw const plan, &raw const view;));
    each!(rope_apply_into(&raw const plan, &raw const from, &raw const view;));
    each!(rope_rows_len(&raw const at, &raw mut len;));
    each!(rope_table_new(&raw const at, &raw mut out_table;));
    // The pointers in angles.
    unsafe fn at_mut(
        frequencies: *const rope_frequencies,
        positions: *const rope_positions,
        old_frequencies: *const rope_frequencies,
        old_positions: *const rope_positions,
        len: &mut usize,
    ) -> rope_status {
        let angles = moved_from(frequencies, old_frequencies, old_positions, positions);
        match old_frequencies.is_null() {
            // Without old frequencies the positions are deltas.
            true => rope_status::Null,
            // SAFETY: as the caller's.
            false => unsafe { rope_rows_len(&angles, len) },
        }
    }
    let handle = made.0.cast_const();
    each!(at_mut(handle, &raw const positions, handle, &raw const positions; &mut len));
    each!(rope_frequencies_describe(made.0.cast_const(), &raw mut info;));
    each!(rope_frequencies_set_angle(made.0; 0));
    each!(rope_frequencies_set_backend(made.0; 0));
    each!(rope_frequencies_inverse(made.0.cast_const(), doubles.as_mut_ptr(); 32));
    each!(rope_scaling_init(&raw mut scaling; 0));
    each!(rope_layout_init(&raw mut out_layout; 1, 1, 1, 1, 1));
    each!(rope_norm_init(&raw mut norm; 1, 1e-6));
    // SAFETY: as above.
    unsafe {
        let fill = |storage: *mut f32| {
            rope_rows_fill(
                &rope_angles_at(made.0, &positions),
                storage,
                64,
                &mut out_rows,
            )
        };
        let mut fill = fill;
        assert_eq!(fill(null_mut()), rope_status::Null);
        assert_eq!(
            fill(storage.as_mut_ptr().wrapping_byte_add(2)),
            rope_status::Misaligned
        );
        let memory: *mut c_void = memory.as_mut_ptr().cast();
        let status = rope_frequencies_init(null_mut(), 4096, &axes, 1e4, null(), &mut frequencies);
        assert_eq!(status, rope_status::Null);
        let status = rope_frequencies_init(memory, 4096, null(), 1e4, null(), &mut frequencies);
        assert_eq!(status, rope_status::Null);
        let status = rope_frequencies_init(memory, 4096, &axes, 1e4, null(), null_mut());
        assert_eq!(status, rope_status::Null);
        let status = rope_frequencies_new(&axes, 1e4, null(), null_mut());
        assert_eq!(status, rope_status::Null);
        assert_eq!(rope_frequencies_free(null_mut()), rope_status::Ok);
        assert_eq!(rope_table_free(null_mut()), rope_status::Ok);
        assert_eq!(rope_table_rows(null(), &mut out_rows), rope_status::Null);
        assert_eq!(rope_error_detail(null_mut(), 3), rope_status::Null);
        assert_eq!(rope_error_detail(null_mut(), 0), rope_status::Ok);

        let mut odd = view;
        odd.data = odd.data.wrapping_byte_add(2);
        assert_eq!(rope_rotate(&plan, &odd, &rows), rope_status::Misaligned);
        assert_eq!(
            detail(),
            "x is misaligned; its address must be a multiple of 4"
        );
        odd.data = null_mut();
        assert_eq!(rope_rotate(&plan, &odd, &rows), rope_status::Null);
        let none = rope_rows_joined(null(), 64, 64);
        assert_eq!(rope_rotate(&plan, &view, &none), rope_status::Null);
        // The pointer to no elements may be anything.
        (odd.len, odd.layout.shape[0]) = (0, 0);
        assert_eq!(rope_rotate(&plan, &odd, &rows), rope_status::Ok);
    }
}

/// Sizes that no memory has, and values that no enumeration has.
#[test]
fn wrong_sizes_and_unknown_values() {
    let made = Owned::new(64);
    let mut x = values::<f32>(2 * 64);
    let view = tensor(&mut x, [1, 2, 1, 64]);
    let mut table = [0.5_f32; 128];
    let rows = rope_rows_joined(table.as_ptr(), 128, 64);
    let plan = plan(rope_pairing::Half);
    let call = |plan: &rope_plan, x: &rope_operand, rows: &rope_angles| {
        // SAFETY: what is passed is there, or longer than memory.
        unsafe { rope_rotate(plan, x, rows) }
    };
    let spoil = |spoil: &dyn Fn(&mut rope_plan, &mut rope_operand, &mut rope_angles)| {
        let (mut plan, mut view, mut rows) = (plan, view, rows);
        spoil(&mut plan, &mut view, &mut rows);
        call(&plan, &view, &rows)
    };
    use rope_status as S;
    assert_eq!(spoil(&|_, _, _| ()), S::Ok);
    assert_eq!(spoil(&|plan, _, _| plan.pairing = 0), S::UnknownValue);
    let pairing = next(rope_pairing::ALL, |pairing| pairing as i32);
    assert_eq!(spoil(&|plan, _, _| plan.pairing = pairing), S::UnknownValue);
    let words = format!("pairing is {pairing}; it must be a value of enum rope_pairing");
    assert_eq!(detail(), words);
    assert_eq!(
        spoil(&|plan, _, _| plan.output_pairing = -1),
        S::UnknownValue
    );
    assert_eq!(
        spoil(&|plan, _, _| plan.output_pairing = rope_pairing::Interleaved as i32),
        S::PairingChangesInPlace
    );
    let direction = next(rope_direction::ALL, |direction| direction as i32);
    let refused = spoil(&|plan, _, _| plan.direction = direction);
    assert_eq!(refused, S::UnknownValue);
    let backend = next(rope_backend::ALL, |backend| backend as i32);
    assert_eq!(spoil(&|plan, _, _| plan.backend = backend), S::UnknownValue);
    assert_eq!(spoil(&|_, x, _| x.element = 0), S::UnknownValue);
    assert_eq!(spoil(&|_, x, _| x.element = i32::MIN), S::UnknownValue);
    assert_eq!(spoil(&|_, x, _| x.len -= 1), S::OutOfBounds);
    assert_eq!(spoil(&|_, x, _| x.layout.strides[1] = 63), S::Overlap);
    assert_eq!(
        spoil(&|_, x, _| x.layout.shape[2] = usize::MAX),
        S::ShapeOverflow
    );
    assert_eq!(
        spoil(&|_, x, _| {
            x.layout.shape = [1, 1, 1, usize::MAX];
            x.len = usize::MAX;
        }),
        S::Length
    );
    assert_eq!(spoil(&|_, _, rows| rows.len = 64), S::RowCount);
    assert_eq!(spoil(&|_, _, rows| rows.len = 63), S::RowsLength);
    assert_eq!(
        spoil(&|_, _, rows| rows.len = isize::MAX as usize),
        S::Length
    );
    assert_eq!(spoil(&|_, _, rows| rows.rotary_dim = 63), S::RotaryDim);
    assert_eq!(
        spoil(&|_, x, rows| (x.layout.shape[3], rows.len) = (62, 128)),
        S::RotaryDimExceedsHead
    );
    assert_eq!(
        spoil(&|_, x, rows| x.data = rows.cos.cast_mut().cast()),
        S::MemoryOverlap
    );
    for &backend in rope_backend::ALL {
        let backend = backend as i32;
        let status = spoil(&|plan, _, _| plan.backend = backend);
        let available = rope_backend_available(backend) == 1;
        assert_eq!(
            status,
            if available {
                S::Ok
            } else {
                S::BackendUnavailable
            }
        );
        // SAFETY: a handle.
        let same = unsafe { rope_frequencies_set_backend(made.0, backend) };
        assert_eq!(same, status);
    }

    let axes = rope_axes_text(64);
    let mut memory = [0_u8; 4096];
    let mut out = null_mut();
    let mut out_rows = zero();
    let mut len = 0;
    // SAFETY: what is passed is there, or longer than memory.
    unsafe {
        let memory: *mut c_void = memory.as_mut_ptr().cast();
        let init = |size, axes: &rope_axes, base, out| {
            rope_frequencies_init(memory, size, axes, base, null(), out)
        };
        assert_eq!(init(500, &axes, 1e4, &mut out), S::Storage);
        assert_eq!(init(0, &axes, 1e4, &mut out), S::Storage);
        assert_eq!(init(usize::MAX, &axes, 1e4, &mut out), S::Length);
        assert_eq!(init(4096, &axes, f64::NAN, &mut out), S::Parameter);
        assert_eq!(init(4096, &rope_axes_text(63), 1e4, &mut out), S::RotaryDim);
        let largest = rope_axes_text(ROPE_ROTARY_DIM_MAX);
        assert_eq!(init(4096, &largest, 1e4, &mut out), S::Storage);
        let larger = rope_axes_text(ROPE_ROTARY_DIM_MAX + 2);
        assert_eq!(init(4096, &larger, 1e4, &mut out), S::RotaryDim);
        let endless = rope_axes_text(usize::MAX - 1);
        assert_eq!(init(4096, &endless, 1e4, &mut out), S::RotaryDim);
        assert_eq!(
            init(4096, &rope_axes { kind: 0, ..axes }, 1e4, &mut out),
            S::UnknownValue
        );
        let mrope = rope_axes {
            kind: rope_axes_kind::Mrope as i32,
            count: 5,
            ..axes
        };
        assert_eq!(init(4096, &mrope, 1e4, &mut out), S::Axes);
        for kind in [
            rope_axes_kind::Mrope,
            rope_axes_kind::MropeInterleaved,
            rope_axes_kind::MropeAlternating,
            rope_axes_kind::MropeSpread,
        ] {
            let mrope = rope_axes {
                kind: kind as i32,
                rotary_dim: 128,
                sections: [20, 20, 20, 0],
                count: 3,
                ..axes
            };
            assert_eq!(init(4096, &mrope, 1e4, &mut out), S::Sections);
        }
        let given = rope_axes {
            kind: rope_axes_kind::Given as i32,
            count: 32,
            given: memory.cast(),
            ..axes
        };
        assert_eq!(init(4096, &given, 1e4, &mut out), S::MemoryOverlap);
        let scaling = rope_scaling {
            kind: next(rope_scaling_kind::ALL, |kind| kind as i32),
            ..zero()
        };
        let status = rope_frequencies_new(&axes, 1e4, &scaling, &mut out);
        assert_eq!(status, S::UnknownValue);
        let inverse = [1e6_f64; 32];
        let new = |count, number| {
            let inverse = inverse.as_ptr().cast();
            rope_frequencies_new_inverse(&axes, inverse, count, number, 1.0, &mut null_mut())
        };
        assert_eq!(new(32, rope_number::F64 as i32), S::TooFast);
        assert_eq!(new(31, rope_number::F64 as i32), S::Count);
        assert_eq!(new(32, rope_number::I32 as i32), S::UnknownValue);
        assert!(out.is_null());

        let fill = |positions: &rope_positions, storage, len, rows| {
            rope_rows_fill(&rope_angles_at(made.0, positions), storage, len, rows)
        };
        let storage = table.as_mut_ptr();
        assert_eq!(
            fill(&rope_positions_range(0, 3), storage, 128, &mut out_rows),
            S::Storage
        );
        assert_eq!(
            fill(
                &rope_positions_range(i64::MAX, 2),
                storage,
                128,
                &mut out_rows
            ),
            S::PositionRange
        );
        let inside = rope_positions_per_token(storage.cast(), 2, rope_number::I32 as i32);
        assert_eq!(fill(&inside, storage, 128, &mut out_rows), S::MemoryOverlap);
        let nan = [f32::NAN; 2];
        let nan = rope_positions_per_token(nan.as_ptr().cast(), 2, rope_number::F32 as i32);
        assert_eq!(fill(&nan, storage, 128, &mut out_rows), S::Coordinate);
        let offsets = [0, 3, 2];
        let mut packed =
            rope_positions_per_token(offsets.as_ptr().cast(), 3, rope_number::I32 as i32);
        packed.kind = rope_positions_kind::Packed as i32;
        assert_eq!(fill(&packed, storage, 128, &mut out_rows), S::Offsets);
        // The type is refused before anything is read.
        packed.number = rope_number::F64 as i32;
        assert_eq!(fill(&packed, storage, 128, &mut out_rows), S::UnknownValue);
        let huge = rope_positions_range(0, usize::MAX / 4);
        assert_eq!(
            rope_rows_len(&rope_angles_at(made.0, &huge), &mut len),
            S::RowsTooLong
        );
        // 2^60 bytes.
        #[cfg(target_pointer_width = "64")]
        {
            let large = rope_positions_range(0, 1 << 52);
            let mut out_table = null_mut();
            assert_eq!(
                rope_table_new(&rope_angles_at(made.0, &large), &mut out_table),
                S::OutOfMemory
            );
        }
    }
}

/// The library finds out that memory holds no handle, and says the same of every kind.
#[test]
fn handles_of_other_kinds() {
    #[repr(align(64))]
    struct Memory([u8; 512]);
    let mut other = Memory([0xa5; 512]);
    let other: *mut Memory = &mut other;
    let (mut info, mut rows) = (zero(), zero());
    // SAFETY: memory that is there.
    unsafe {
        let refused = |status, name: &str| {
            let text = "is not a handle of the kind that this call takes, or it has been freed";
            assert_eq!(status, rope_status::Handle);
            assert_eq!(detail(), format!("{name} {text}"));
        };
        let mut layers = 0;
        refused(
            rope_frequencies_describe(other.cast(), &mut info),
            "frequencies",
        );
        refused(rope_frequencies_set_angle(other.cast(), 0), "frequencies");
        refused(rope_frequencies_free(other.cast()), "frequencies");
        refused(rope_table_rows(other.cast(), &mut rows), "table");
        refused(rope_table_free(other.cast()), "table");
        refused(rope_model_layers(other.cast(), &mut layers), "model");
        refused(rope_model_free(other.cast()), "model");
        assert!((*other).0.iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn configurations() {
    let call = |json: &[u8], config: *const rope_config, plan: *mut rope_plan| {
        let mut made = null_mut();
        // SAFETY: what is passed is there.
        let status = unsafe {
            rope_frequencies_from_config(json.as_ptr().cast(), json.len(), config, &mut made, plan)
        };
        // SAFETY: null, or freed once.
        assert_eq!(unsafe { rope_frequencies_free(made) }, rope_status::Ok);
        status
    };
    let deepseek =
        br#"{"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 10000.0}"#;
    let mut made: rope_plan = zero();
    // Channels 128..192 of whole heads rotate, and the plan is for tensors of these alone.
    let of = |head_dim| rope_config { head_dim, ..zero() };
    for given in [0, 192, 128, 63] {
        for plan in [null_mut(), &raw mut made] {
            let status = call(deepseek, &of(given), plan);
            assert_eq!(status, rope_status::ModelHead, "{given}");
            let said = format!(
                "config.head_dim is {given}; heads of this model have 192 channels, of which 128..192 rotate, and the \
                 plan of this call is for tensors of those channels alone: give head_dim 64, or whole heads to the plan \
                 of rope_model_describe_layer"
            );
            assert_eq!(detail(), said);
        }
    }
    assert_eq!(call(deepseek, null(), null_mut()), rope_status::ModelHead);
    assert_eq!((made.pairing, made.output_pairing), (0, 0));
    assert_eq!(
        call(deepseek, &of(64), &mut made),
        rope_status::Ok,
        "{}",
        detail()
    );
    let partial =
        br#"{"model_type": "phi", "head_dim": 80, "hidden_size": 2560, "num_attention_heads": 32,
        "partial_rotary_factor": 0.4, "rope_theta": 10000.0}"#;
    let mut other: rope_plan = zero();
    for (given, status) in [
        (0, rope_status::Ok),
        (80, rope_status::Ok),
        (32, rope_status::Ok),
        (64, rope_status::ModelHead),
    ] {
        let got = call(partial, &of(given), &mut other);
        assert_eq!(got, status, "{given}: {}", detail());
    }
    let pairings = (made.pairing, made.output_pairing);
    assert_eq!(
        pairings,
        (rope_pairing::Interleaved as i32, rope_pairing::Half as i32)
    );

    let unknown = br#"{"model_type": "none such", "head_dim": 64, "rope_theta": 10000.0}"#;
    assert_eq!(call(unknown, null(), null_mut()), rope_status::Unknown);
    assert_eq!(call(unknown, null(), &mut made), rope_status::Unknown);
    assert!(detail().contains("none such"));
    let config = rope_config {
        model_type: c"llama".as_ptr(),
        ..zero()
    };
    assert_eq!(call(unknown, &config, &mut made), rope_status::Ok);
    let unread = br#"{"model_type": "stablelm", "head_dim": 80, "hidden_size": 2560, "num_attention_heads": 32,
        "rope_pct": 0.5}"#;
    assert_eq!(call(unread, null(), &mut made), rope_status::Unread);
    assert!(detail().contains("rope_pct"));
    let config = rope_config {
        without: c"none, rope_pct".as_ptr(),
        ..zero()
    };
    assert_eq!(
        call(unread, &config, &mut made),
        rope_status::Ok,
        "{}",
        detail()
    );
    let config = rope_config {
        model_type: c"\xff".as_ptr(),
        ..zero()
    };
    assert_eq!(call(unknown, &config, &mut made), rope_status::Utf8);
    assert_eq!(call(b"{", null(), null_mut()), rope_status::Json);
    assert_eq!(call(b"{}", null(), null_mut()), rope_status::Missing);
    assert_eq!(call(b"\"\xff\"", null(), null_mut()), rope_status::Utf8);
    let text =
        "byte 1 of json is 0xff, which belongs to no character of UTF-8; encode json in UTF-8";
    assert_eq!(detail(), text);
    // SAFETY: null.
    let status =
        unsafe { rope_frequencies_from_config(null(), 2, null(), &mut null_mut(), null_mut()) };
    assert_eq!(status, rope_status::Null);
}

/// A model's layers, one after the other: the same as rope-models says, and every refusal.
#[test]
fn models_are_read_layer_by_layer() {
    let json = br#"{"model_type": "gemma3_text", "hidden_size": 640, "num_attention_heads": 4, "head_dim": 256,
        "num_hidden_layers": 7, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}"#;
    let made = |json: &[u8], config: *const rope_config| {
        let mut model = null_mut();
        // SAFETY: what is passed is there.
        let status =
            unsafe { rope_model_from_config(json.as_ptr().cast(), json.len(), config, &mut model) };
        (status, model)
    };
    let (status, model) = made(json, null());
    assert_eq!(status, rope_status::Ok, "{}", detail());
    let mut count = 0;
    // SAFETY: what is passed is there.
    let status = unsafe { rope_model_layers(model, &mut count) };
    assert_eq!(status, rope_status::Ok);
    assert_eq!(count, 7);
    let text = core::str::from_utf8(json).expect("a text");
    let expected = rope_models::Config::from_json(text).and_then(|config| config.model());
    let expected = expected.expect("a model");
    let expected = expected.layers().expect("layers");
    for layer in expected.iter() {
        let rotation = layer.rotation.expect("all layers rotate");
        let (mut own, mut frequencies): (rope_model_layer, _) = (zero(), null_mut());
        // SAFETY: what is passed is there.
        unsafe {
            let status = rope_model_describe_layer(model, layer.index, &mut own);
            assert_eq!(status, rope_status::Ok, "{}", detail());
            let status = rope_model_frequencies(model, own.rotation, &mut frequencies);
            assert_eq!(status, rope_status::Ok, "{}", detail());
        }
        assert_eq!(
            (own.rotates, own.rotation),
            (1, usize::from(layer.index == 5))
        );
        let window = own.first..own.first + own.rotary_dim;
        assert_eq!(
            (own.head_dim, window),
            (rotation.head_dim(), rotation.window())
        );
        assert_eq!(own.plan.pairing, rope_pairing::Half as i32);
        assert_eq!((own.rotates_values, own.unrotates_output), (0, 0));
        assert_eq!((own.plan.first_channel, own.plan.parts), (0, 1));
        let mut inverse = [0.0; 128];
        // SAFETY: what is passed is there, and freed once.
        unsafe {
            let status = rope_frequencies_inverse(frequencies, inverse.as_mut_ptr(), 128);
            assert_eq!(status, rope_status::Ok, "{}", detail());
            assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
        }
        let pairs = rotation.frequencies().iter().map(|pair| pair.inverse);
        assert!(pairs.eq(inverse), "layer {}", layer.index);
    }
    let (mut own, mut frequencies): (rope_model_layer, *mut rope_frequencies) =
        (zero(), null_mut());
    // SAFETY: what is passed is there, and freed once.
    unsafe {
        assert_eq!(
            rope_model_describe_layer(model, 7, &mut own),
            rope_status::Count
        );
        assert_eq!(own.head_dim, 0);
        assert_eq!(
            rope_model_frequencies(model, 2, &mut frequencies),
            rope_status::Count
        );
        assert!(frequencies.is_null());
        assert_eq!(rope_model_layers(model, null_mut()), rope_status::Null);
        assert_eq!(rope_model_layers(null(), &mut count), rope_status::Null);
        assert_eq!(
            detail(),
            "model is NULL; it must point to the memory that the call reads or writes there"
        );
        let inside = model.cast::<usize>();
        assert_eq!(rope_model_layers(model, inside), rope_status::MemoryOverlap);
        assert_eq!(rope_frequencies_free(model.cast()), rope_status::Handle);
        assert_eq!(rope_model_free(model), rope_status::Ok);
        assert_eq!(rope_model_free(null_mut()), rope_status::Ok);
    }

    // The parts of a rotation that a plan does not say.
    for (json, first, direction, back) in [
        (&br#"{"model_type": "nanochat", "hidden_size": 768, "num_attention_heads": 6, "num_hidden_layers": 1}"#[..],
         0, rope_direction::Transpose, 0),
        (br#"{"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 1}"#,
         448, rope_direction::Forward, 1),
    ] {
        let (status, model) = made(json, null());
        assert_eq!(status, rope_status::Ok, "{}", detail());
        // SAFETY: what is passed is there, and freed once.
        unsafe {
            assert_eq!(rope_model_describe_layer(model, 0, &mut own), rope_status::Ok);
            assert_eq!(rope_model_free(model), rope_status::Ok);
        }
        assert_eq!((own.first, own.unrotates_output), (first, back));
        assert_eq!(own.plan.direction, direction as i32);
    }
    // A layer that stands still.
    let still = br#"{"model_type": "cohere2", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 4}"#;
    let (status, model) = made(still, null());
    assert_eq!(status, rope_status::Ok, "{}", detail());
    // SAFETY: what is passed is there, and freed once.
    unsafe {
        assert_eq!(
            rope_model_describe_layer(model, 3, &mut own),
            rope_status::Ok
        );
        assert_eq!(rope_model_free(model), rope_status::Ok);
    }
    assert_eq!((own.rotates, own.head_dim, own.plan.pairing), (0, 0, 0));

    assert_eq!(made(b"{", null()).0, rope_status::Json);
    assert_eq!(made(b"{}", null()).0, rope_status::Missing);
    assert_eq!(
        made(br#"{"model_type": "bert"}"#, null()).0,
        rope_status::NothingRotates
    );
    assert_eq!(
        made(
            br#"{"model_type": "qwen2_5_omni", "talker_config": {}}"#,
            null()
        )
        .0,
        rope_status::ChoosePart
    );
    assert_eq!(
        made(br#"{"model_type": "xcodec2"}"#, null()).0,
        rope_status::Unsupported
    );
    // SAFETY: null.
    let status = unsafe { rope_model_from_config(b"{}".as_ptr().cast(), 2, null(), null_mut()) };
    assert_eq!(status, rope_status::Null);
}

/// A GGUF file of version 3: keys with integers or texts, and tensors.
#[cfg(feature = "models")]
fn gguf_file(keys: &[(&str, Result<u32, &str>)], tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((keys.len() as u64).to_le_bytes());
    for (key, value) in keys {
        file.extend(text(key));
        match value {
            Ok(number) => file.extend([4, *number].map(u32::to_le_bytes).concat()),
            Err(name) => file.extend([&8_u32.to_le_bytes()[..], &text(name)].concat()),
        }
    }
    let mut offset = 0_usize;
    for (name, values) in tensors {
        file.extend(text(name));
        file.extend(1_u32.to_le_bytes());
        file.extend((values.len() as u64).to_le_bytes());
        file.extend(0_u32.to_le_bytes());
        file.extend((offset as u64).to_le_bytes());
        offset += (4 * values.len()).next_multiple_of(32);
    }
    for (_, values) in tensors {
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file
}

/// The bytes of GGUF files: the same as rope-models says, each member of `rope_gguf`, and every refusal.
#[cfg(feature = "models")]
#[test]
fn models_are_read_from_gguf_files() {
    /// The frequencies of a file's one rotation.
    fn made(file: &[u8], gguf: *const rope_gguf) -> Result<Vec<f64>, rope_status> {
        let (mut model, mut frequencies, mut inverse) = (null_mut(), null_mut(), vec![0.0; 32]);
        // SAFETY: what is passed is there, and freed once.
        unsafe {
            let status = rope_model_from_gguf(file.as_ptr(), file.len(), gguf, &mut model);
            if status != rope_status::Ok {
                assert!(model.is_null());
                return Err(status);
            }
            let status = rope_model_frequencies(model, 0, &mut frequencies);
            assert_eq!(status, rope_status::Ok, "{}", detail());
            assert_eq!(rope_model_free(model), rope_status::Ok);
            let status = rope_frequencies_inverse(frequencies, inverse.as_mut_ptr(), 32);
            assert_eq!(status, rope_status::Ok, "{}", detail());
            assert_eq!(rope_frequencies_free(frequencies), rope_status::Ok);
        }
        Ok(inverse)
    }
    let divided = |factor: f32| {
        let factors = [factor; 32];
        let scaling = Scaling::FreqFactors { factors: &factors };
        let made = Frequencies::new(64, 1e4, &scaling).expect("frequencies");
        Ok(made.iter().map(|pair| pair.inverse).collect::<Vec<f64>>())
    };
    let keys = [
        ("general.architecture", Err("llama")),
        ("llama.block_count", Ok(2)),
        ("llama.attention.key_length", Ok(64)),
    ];
    let (two, three) = ([2.0; 32], [3.0; 32]);
    let file = gguf_file(&keys, &[("rope_freqs.weight", &two)]);
    assert_eq!(made(&file, null()), divided(2.0));
    assert_eq!(made(&file, &zero()), divided(2.0));
    assert_eq!(made(&gguf_file(&keys, &[]), null()), divided(1.0));
    let own = rope_gguf {
        freq_factors: three.as_ptr(),
        freq_factor_count: 32,
        ..zero()
    };
    assert_eq!(made(&file, &own), divided(3.0));
    let none = rope_gguf {
        freq_factor_count: 0,
        ..own
    };
    assert_eq!(made(&file, &none), divided(1.0));

    // The file ends before the tensor, or before its list of tensors.
    let short = &file[..file.len() - 1];
    assert_eq!(made(short, null()), Err(rope_status::Gguf));
    let end = file.len();
    assert_eq!(
        detail(),
        format!(
            "the tensor rope_freqs.weight ends at byte {end} of the GGUF file, and {} bytes were given: give the file \
             as far as there, or pass the tensor's values as rope_gguf.freq_factors",
            end - 1
        )
    );
    assert_eq!(made(short, &own), divided(3.0));
    assert_eq!(made(&file[..100], null()), Err(rope_status::Gguf));
    assert_eq!(made(b"", null()), Err(rope_status::Gguf));

    // Parts of a file.
    let split = |number| [("split.no", Ok(number)), ("split.count", Ok(2))];
    let first = gguf_file(&[&keys[..], &split(0)].concat(), &[]);
    assert_eq!(made(&first, null()), Err(rope_status::Gguf));
    let other = gguf_file(&split(1), &[("rope_freqs.weight", &two)]);
    let part = rope_bytes {
        data: other.as_ptr(),
        length: other.len(),
    };
    let parts = rope_gguf {
        parts: &part,
        part_count: 1,
        ..zero()
    };
    assert_eq!(made(&first, &parts), divided(2.0));
    assert_eq!(made(&file, &parts), Err(rope_status::Invalid));
    assert_eq!(made(&other, null()), Err(rope_status::Invalid));

    // The context, and keys that are not meant.
    let longrope = [
        ("general.architecture", Err("phi3")),
        ("phi3.block_count", Ok(2)),
        ("phi3.context_length", Ok(8192)),
        ("phi3.attention.key_length", Ok(64)),
        ("phi3.rope.scaling.original_context_length", Ok(4096)),
        ("phi3.rope.some", Ok(0)),
        ("phi3.rope.other", Ok(0)),
    ];
    let tensors: [(&str, &[f32]); 2] = [
        ("rope_factors_long.weight", &three),
        ("rope_factors_short.weight", &two),
    ];
    let file = gguf_file(&longrope, &tensors);
    assert_eq!(made(&file, null()), Err(rope_status::Unknown));
    let without = rope_gguf {
        without: c"phi3.rope.some, phi3.rope.other".as_ptr(),
        ..zero()
    };
    assert_eq!(made(&file, &without), divided(3.0));
    let context = rope_gguf {
        context: 4096,
        ..without
    };
    assert_eq!(made(&file, &context), divided(2.0));

    let wrong = rope_gguf {
        without: c"\xff".as_ptr(),
        ..zero()
    };
    assert_eq!(made(&file, &wrong), Err(rope_status::Utf8));
    let wrong = rope_gguf {
        part_count: 1,
        ..zero()
    };
    assert_eq!(made(&file, &wrong), Err(rope_status::Null));
    assert_eq!(
        detail(),
        "parts is NULL; it must point to the memory that the call reads or writes there"
    );
    // SAFETY: null.
    let status = unsafe { rope_model_from_gguf(null(), 1, null(), &mut null_mut()) };
    assert_eq!(status, rope_status::Null);
    // SAFETY: null.
    let status = unsafe { rope_model_from_gguf(file.as_ptr(), file.len(), null(), null_mut()) };
    assert_eq!(status, rope_status::Null);
}

/// A message names what C has: no function, variant or builder of Rust.
#[test]
fn messages_name_what_c_has() {
    let mut x = [1.0_f32; 8];
    let x = tensor(&mut x, [1, 1, 1, 8]);
    let inverse = rope_plan {
        direction: rope_direction::Inverse as i32,
        ..plan(rope_pairing::Half)
    };
    for (sin, status, words) in [
        (
            1.0_f32,
            rope_status::HalvesEqual,
            "give both to rope_rows_apart",
        ),
        (
            0.5,
            rope_status::RowMagnitude,
            "that ROPE_DIRECTION_INVERSE divides by; use rope_rows_invert",
        ),
    ] {
        let table = [1.0, 1.0, 1.0, 1.0, sin, sin, sin, sin];
        let rows = rope_rows_joined(table.as_ptr(), 8, 8);
        // SAFETY: what is passed is there.
        assert_eq!(unsafe { rope_rotate(&inverse, &x, &rows) }, status);
        assert!(detail().ends_with(words), "{}", detail());
    }

    let refused = |json: &str, words: &str| {
        let (json, length) = (json.as_ptr().cast(), json.len());
        let mut made = null_mut();
        // SAFETY: what is passed is there.
        let status =
            unsafe { rope_frequencies_from_config(json, length, null(), &mut made, null_mut()) };
        assert_ne!(status, rope_status::Ok, "{words}");
        detail()
    };
    for (json, words) in [
        (
            r#"{"model_type": "lama"}"#,
            "; rope_config.model_type reads the file by the rules of another type",
        ),
        (
            r#"{"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "dynamic",
            "factor": 2.0}, "max_position_embeddings": 64}"#,
            "the length of the sequence (rope_config.length) is missing, and has no known default",
        ),
        (
            r#"{"model_type": "gemma3_text", "hidden_size": 2560}"#,
            "layer_type (rope_config.layer_type) must be chosen from: full_attention, sliding_attention",
        ),
    ] {
        let said = refused(json, words);
        assert!(said.ends_with(words), "{said}");
    }
}

/// A key that the model's code ignores is refused, or listed.
#[test]
fn ignored_keys_are_listed() {
    let json = br#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
        "use_mrope": false, "rope_pct": 0.5}"#;
    let made = |lenient| {
        let (config, mut model) = (rope_config { lenient, ..zero() }, null_mut());
        // SAFETY: what is passed is there.
        let status = unsafe {
            rope_model_from_config(json.as_ptr().cast(), json.len(), &config, &mut model)
        };
        (status, model)
    };
    assert_eq!(made(0).0, rope_status::Unread);
    let (status, model) = made(1);
    assert_eq!(status, rope_status::Ok, "{}", detail());
    let listed = |index, size| {
        let (mut text, mut significant) = ([1_u8; 100], -1);
        let buffer = text.as_mut_ptr().cast();
        // SAFETY: what is passed is there.
        let status =
            unsafe { rope_model_ignored(model, index, buffer, size, &raw mut significant) };
        let end = text.iter().position(|&byte| byte == 0);
        let text = String::from_utf8_lossy(&text[..end.unwrap_or(0)]).into_owned();
        (status, text, significant)
    };
    let (ok, count) = (rope_status::Ok, rope_status::Count);
    let same =
        "use_mrope is false: it changes nothing, as the model's code does the same without it";
    assert_eq!(listed(0, 100), (ok, same.to_string(), 0));
    let other =
        "rope_pct is 0.5: the model's code does not read it, and rotates otherwise than it says";
    assert_eq!(listed(1, 100), (ok, other.to_string(), 1));
    assert_eq!(listed(1, 9), (ok, "rope_pct".to_string(), 1));
    assert_eq!(listed(1, 0), (ok, String::new(), 1));
    assert_eq!(listed(2, 100), (count, String::new(), -1));
    // SAFETY: it is not used any more; null.
    unsafe {
        let nowhere = rope_model_ignored(model, 0, null_mut(), 0, null_mut());
        assert_eq!(nowhere, rope_status::Null);
        assert_eq!(rope_model_free(model), ok);
    }
}

/// Every thread has its own last refusal.
#[test]
fn details_are_of_a_thread() {
    // SAFETY: null.
    let status = unsafe { rope_scaling_init(null_mut(), 0) };
    assert_eq!(
        (status, detail().as_str()),
        (
            rope_status::Null,
            "scaling is NULL; it must point to the memory that the call reads or writes there"
        )
    );
    let other = std::thread::spawn(detail)
        .join()
        .expect("it does not panic");
    assert_eq!(other, "");
    let mut short = [0x7f; 8];
    // SAFETY: there is room.
    let status = unsafe { rope_error_detail(short.as_mut_ptr(), 8) };
    let text = short.map(|byte| byte.to_ne_bytes()[0]);
    assert_eq!((status, &text), (rope_status::Ok, b"scaling\0"));
}
