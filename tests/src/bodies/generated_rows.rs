//! Rows from any frequencies and positions.

use rope_core::axes::{Axes, MixedAngle, MixedFrequencies};
use rope_core::error::{FrequenciesError, PositionsError};
use rope_core::{
    Angle, Backend, Error, Frequencies, Pairing, Positions, Rope, Rows, Scaling, TensorMut,
    TokenAngles,
};

use crate::Source;
use crate::correctly_rounded::{Coordinate, cos_sin, cos_sin_of_sum};
#[cfg(feature = "capi")]
use crate::over_c::frequencies::{self as over_c, Recipe};

/// Tests any frequencies and positions: every backend gives the same bits, the f32 values nearest to the exact ones.
///
/// # Panics
///
/// If a bit is wrong.
pub fn generated_rows(source: &mut Source<'_>) {
    let axes = if source.once_in(2) {
        1
    } else {
        source.within(2, 4)
    };
    let pairs = source.within(1, 20);
    let given: Vec<u8> = (0..pairs)
        .map(|pair| if pair == 0 { axes - 1 } else { source.below(axes) } as u8)
        .collect();
    let factor = match source.below(8) {
        0 => f64::from(source.unit().abs()) + 1e-3,
        1 => source.one_of(&[1e-30, 1e30, 1e-38, 3.4e38, 1e-44, 1.0 + 2.0_f64.powi(-24)]),
        2 => 1.138_629_436_111_989,
        _ => 1.0,
    };
    let inverse: Vec<f64> = (0..pairs).map(|_| inverse(source)).collect();
    let scaling = Scaling::Yarn(rope_core::Yarn {
        attention_factor: Some(factor),
        ..rope_core::Yarn::new(8.0, 4096)
    });
    let listed = source.once_in(2);
    let base = match listed {
        true => factor,
        false => source.one_of(&[1e4, 5e5, 1e6, 1.001, 1e300]),
    };
    let made = match listed {
        true => Frequencies::from_inverse(Axes::given(&given), &inverse, factor),
        false => Frequencies::new(Axes::given(&given), base, &scaling),
    };
    let frequencies = match made {
        Ok(frequencies) => frequencies,
        Err(Error::Frequencies(FrequenciesError::TurnsPerPosition { .. })) => return,
        Err(error) => panic!("{inverse:?} with {factor}: {error}"),
    };
    let angle = source.one_of(&[
        Angle::Exact,
        Angle::Exact,
        Angle::Exact,
        Angle::HuggingFaceF32,
    ]);
    let frequencies = frequencies.with_angle(angle);
    let tokens = source.within(1, 6);
    let placed = ListedPositions::any(source, tokens, axes);
    let positions = placed.positions();
    let rows = frequencies
        .rows(positions)
        .expect("positions that fit the axes");
    assert_eq!(
        (rows.len(), rows.rotary_dim()),
        (placed.at.len(), 2 * pairs)
    );
    assert_eq!(rows.attention_factor(), factor);
    for backend in Backend::available() {
        let frequencies = frequencies
            .clone()
            .with_backend(backend)
            .expect("it is available");
        let mut storage = vec![f32::NAN; 2 * pairs * placed.at.len() + 3];
        let angles = frequencies.at(positions).expect("positions");
        let other = angles.rows_in(&mut storage).expect("room");
        for token in 0..rows.len() {
            assert_eq!(
                bits(&rows, token),
                bits(&other, token),
                "{backend}, {placed:?}"
            );
        }
        assert!(
            storage[storage.len() - 3..]
                .iter()
                .all(|value| value.is_nan())
        );
    }
    on_the_stack(&frequencies.at(positions).expect("positions"), &rows, 1);
    #[cfg(feature = "capi")]
    {
        let axes = rope::rope_axes {
            kind: rope::rope_axes_kind::Given as i32,
            count: pairs,
            given: given.as_ptr(),
            ..rope::rope_axes_text(0)
        };
        let recipe = match over_c::scaling(&scaling) {
            Some(scaling) if !listed => Recipe::Base(axes, base, scaling),
            _ => Recipe::Doubles(axes, &inverse, factor),
        };
        let made = recipe
            .make(pairs.div_ceil(8))
            .expect("the same frequencies");
        made.set_angle(angle);
        let angles = frequencies.at(positions).expect("positions");
        made.compare_rows(&placed.over_c(), &angles);
    }
    if angle == Angle::HuggingFaceF32 {
        for token in 0..rows.len() {
            let (cos, sin) = rows.row(token, 0).expect("a row for each");
            assert!(
                cos.iter()
                    .chain(sin)
                    .all(|value| value.abs() <= (factor * (1.0 + 1e-6)) as f32)
            );
        }
        return;
    }
    for (token, at) in placed.at.iter().enumerate() {
        let (cos, sin) = rows.row(token, 0).expect("a row for each");
        for ((frequency, cos), sin) in frequencies.iter().zip(cos).zip(sin) {
            let at = at[frequency.axis];
            let (right_cos, right_sin) = cos_sin(at, frequency, factor);
            assert!(
                right_cos.is(*cos) && right_sin.is(*sin),
                "{at:?} times {frequency:?} by {factor:e}: {cos:e} {sin:e}, not {right_cos:?} {right_sin:?}",
            );
        }
    }
}

/// Tests any mixed frequencies and positions: every backend gives the same bits, also for rows on the stack. Where the
/// definition has an exact value, the rows are the nearest f32 values.
///
/// # Panics
///
/// If a bit is wrong.
pub fn mixed_rows(source: &mut Source<'_>) {
    let [axes, heads, pairs] = [
        source.within(1, 4),
        source.within(1, 3),
        source.within(1, 20),
    ];
    let factor = source.one_of(&[1.0, 1.138_629_436_111_989, 1e-30, 3.4e38, 1e-44]);
    let list: Vec<f64> = (0..axes * heads * pairs).map(|_| inverse(source)).collect();
    let shape = [axes, heads, pairs];
    let singles: Option<Vec<f32>> =
        (source.once_in(2)).then(|| list.iter().map(|&inverse| inverse as f32).collect());
    let made = match &singles {
        Some(singles) => MixedFrequencies::new(singles, shape, factor),
        None => MixedFrequencies::new(&list, shape, factor),
    };
    let frequencies = match made {
        Ok(frequencies) => frequencies,
        Err(Error::Frequencies(FrequenciesError::TurnsPerPosition { .. })) => return,
        Err(error) => panic!("{list:?} with {factor}: {error}"),
    };
    let angle = source.one_of(&[MixedAngle::Exact, MixedAngle::Exact, MixedAngle::SummedF32]);
    let frequencies = frequencies.with_angle(angle);
    let tokens = source.within(1, 4);
    let placed = ListedPositions::any(source, tokens, axes);
    let (positions, tokens) = (placed.positions(), placed.at.len());
    // A single number per token would place every token on the diagonal.
    if axes > 1 && !placed.is_per_axis() {
        let given = tokens;
        assert_eq!(
            frequencies.at(positions).err(),
            Some(Error::Positions(PositionsError::PerAxis { given, axes }))
        );
        return;
    }
    let angles = frequencies
        .at(positions)
        .expect("positions that fit the axes");
    let mut values = vec![f32::NAN; tokens * heads * 2 * pairs];
    angles.rows_in(&mut values).expect("room");
    for backend in Backend::available() {
        let frequencies = frequencies.clone().with_backend(backend);
        let frequencies = frequencies.expect("it is available");
        let mut storage = vec![f32::NAN; values.len() + 3];
        let other = frequencies.at(positions).expect("positions");
        other.rows_in(&mut storage).expect("room");
        let same = storage.iter().zip(&values);
        assert!(
            same.clone().all(|(a, b)| a.to_bits() == b.to_bits()),
            "{backend}, {placed:?}, {frequencies:?}, {list:?}"
        );
        assert!(storage[values.len()..].iter().all(|value| value.is_nan()));
    }
    if tokens > 0 {
        on_the_stack(&angles, &angles.rows().expect("memory"), heads);
    }
    #[cfg(feature = "capi")]
    {
        let inverse = match &singles {
            Some(singles) => over_c::mixed(singles, rope::rope_number::F32, shape),
            None => over_c::mixed(&list, rope::rope_number::F64, shape),
        };
        let made = Recipe::Mixed(inverse, factor, angle).make(axes * heads * pairs.div_ceil(8));
        let made = made.expect("mixed frequencies");
        made.compare_mixed(&frequencies);
        made.compare_rows(&placed.over_c(), &angles);
    }
    // The coordinate in the definition's own type.
    let exact = |at: &Coordinate| match *at {
        Coordinate::Integer(_) => true,
        Coordinate::Real(at) => (at * 2.0_f64.powi(111)).fract() == 0.0,
    };
    if angle == MixedAngle::SummedF32 || !placed.at.iter().flatten().all(exact) {
        return;
    }
    for (row, values) in values.chunks_exact(2 * pairs).enumerate() {
        let (token, head) = (row / heads, row % heads);
        let (cos, sin) = values.split_at(pairs);
        for pair in 0..pairs {
            let terms = (0..axes).map(|axis| {
                let frequency = frequencies.frequency(axis, head, pair);
                (placed.at[token][axis], frequency.expect("a pair"))
            });
            let (right_cos, right_sin) = cos_sin_of_sum(terms, factor);
            assert!(
                right_cos.is(cos[pair]) && right_sin.is(sin[pair]),
                "{:?}, head {head}, pair {pair} of {list:?} by {factor:e}: {:e} {:e}, not {right_cos:?} {right_sin:?}",
                placed.at[token],
                cos[pair],
                sin[pair],
            );
        }
    }
}

/// Asserts that a call makes the same rows on the stack.
fn on_the_stack(at: &TokenAngles<'_>, rows: &Rows<'_>, heads: usize) {
    let (tokens, head_dim) = (rows.len(), rows.rotary_dim());
    let len = tokens * heads * head_dim;
    let mut x: Vec<f32> = (0..len).map(|i| i as f32 - 7.0).collect();
    let mut y = x.clone();
    let rope = Rope::new(Pairing::Half);
    let shape = [1, tokens, heads, head_dim];
    rope.rotate(
        &mut TensorMut::new(&mut x, shape).expect("it is dense"),
        rows,
    )
    .expect("rows that fit");
    rope.rotate(&mut TensorMut::new(&mut y, shape).expect("it is dense"), at)
        .expect("as many positions");
    let same = x
        .iter()
        .zip(&y)
        .all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan());
    assert!(same, "rows on the stack are others: {x:?} {y:?}");
}

fn bits(rows: &Rows<'_>, token: usize) -> Vec<u32> {
    let (cos, sin) = rows.row(token, 0).expect("a row for each");
    cos.iter().chain(sin).map(|value| value.to_bits()).collect()
}

fn inverse(source: &mut Source<'_>) -> f64 {
    let sign = if source.once_in(8) { -1.0 } else { 1.0 };
    sign * match source.below(8) {
        0 => 0.0,
        1 => std::f64::consts::TAU * source.one_of(&[1.0, 0.25, 0.5, 3.0, 0.125]),
        2 => f64::from(source.word()) * 2.0_f64.powi(-(source.below(160) as i32)),
        3 => f64::from_bits(u64::from(source.word()) << 32 | u64::from(source.word()))
            .abs()
            .min(1e4),
        _ => f64::from(source.unit().abs()),
    }
}

/// Positions as a list, and the coordinates that the list means.
#[derive(Debug)]
struct ListedPositions {
    /// `[token][axis]`.
    at: Vec<[Coordinate; 4]>,
    listed: Listed,
}

#[derive(Debug)]
enum Listed {
    Range(i64, i64),
    I32(Order, Vec<i32>),
    I64(Order, Vec<i64>),
    U32(Order, Vec<u32>),
    U64(Order, Vec<u64>),
    Usize(Order, Vec<usize>),
    One(i64),
    Inclusive(i64, i64),
    F32(Order, Vec<f32>),
    F64(Order, Vec<f64>),
    Packed(Vec<i32>, Option<Vec<i32>>),
}

#[derive(Clone, Copy, Debug)]
enum Order {
    PerToken,
    AxisMajor,
    TokenMajor,
}

type MakePlaced = fn(&mut Source<'_>, tokens: usize, axes: usize, Order) -> ListedPositions;

/// All kinds of lists; f64, the widest, is listed twice.
const LISTS: &[MakePlaced] = &[
    |source, tokens, _, _| ListedPositions::range(source, tokens),
    |source, tokens, _, _| ListedPositions::inclusive(source, tokens),
    |source, tokens, _, _| ListedPositions::one(source, tokens),
    |source, tokens, axes, order| {
        let number = |s: &mut Source<'_>| integer(s) as i32;
        let coordinate = |at: i32| Coordinate::Integer(at.into());
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::I32)
    },
    |source, tokens, axes, order| {
        let (number, coordinate) = (integer, Coordinate::Integer);
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::I64)
    },
    |source, tokens, axes, order| {
        let number = |s: &mut Source<'_>| integer(s) as u32;
        let coordinate = |at: u32| Coordinate::Integer(at.into());
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::U32)
    },
    |source, tokens, axes, order| {
        let number = |s: &mut Source<'_>| integer(s) as u64;
        // Values beyond i64 wrap.
        let coordinate = |at: u64| Coordinate::Integer(at as i64);
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::U64)
    },
    |source, tokens, axes, order| {
        let number = |s: &mut Source<'_>| integer(s) as usize;
        let coordinate = |at: usize| Coordinate::Integer(at as i64);
        ListedPositions::listed(
            source,
            tokens,
            axes,
            order,
            number,
            coordinate,
            Listed::Usize,
        )
    },
    |source, tokens, axes, order| {
        let number = |s: &mut Source<'_>| real(s) as f32;
        let coordinate = |at: f32| Coordinate::Real(at.into());
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::F32)
    },
    ListedPositions::doubles,
    ListedPositions::doubles,
    |source, _, _, _| ListedPositions::packed(source),
];

impl ListedPositions {
    fn any(source: &mut Source<'_>, tokens: usize, axes: usize) -> Self {
        let order = source.one_of(&[Order::PerToken, Order::AxisMajor, Order::TokenMajor]);
        source.one_of(LISTS)(source, tokens, axes, order)
    }

    fn range(source: &mut Source<'_>, tokens: usize) -> Self {
        let first = integer(source).clamp(i64::MIN, i64::MAX - 8);
        let at = (first..first + tokens as i64).map(|at| [Coordinate::Integer(at); 4]);
        ListedPositions {
            at: at.collect(),
            listed: Listed::Range(first, first + tokens as i64),
        }
    }

    fn inclusive(source: &mut Source<'_>, tokens: usize) -> Self {
        let ListedPositions { at, listed } = ListedPositions::range(source, tokens);
        match listed {
            // The last position of an empty range is before the first.
            Listed::Range(first, end) if end > i64::MIN => ListedPositions {
                at,
                listed: Listed::Inclusive(first, end - 1),
            },
            listed => ListedPositions { at, listed },
        }
    }

    /// Returns a single token if one is asked for, and otherwise a range.
    fn one(source: &mut Source<'_>, tokens: usize) -> Self {
        let ListedPositions { at, listed } = ListedPositions::range(source, tokens);
        match listed {
            Listed::Range(first, _) if tokens == 1 => ListedPositions {
                at,
                listed: Listed::One(first),
            },
            listed => ListedPositions { at, listed },
        }
    }

    fn doubles(source: &mut Source<'_>, tokens: usize, axes: usize, order: Order) -> Self {
        let (number, coordinate) = (real, Coordinate::Real);
        ListedPositions::listed(source, tokens, axes, order, number, coordinate, Listed::F64)
    }

    fn listed<T: Copy + Default>(
        source: &mut Source<'_>,
        tokens: usize,
        axes: usize,
        order: Order,
        number: impl Fn(&mut Source<'_>) -> T,
        coordinate: impl Fn(T) -> Coordinate,
        list: impl Fn(Order, Vec<T>) -> Listed,
    ) -> Self {
        let len = if let Order::PerToken = order {
            tokens
        } else {
            tokens * axes
        };
        let values: Vec<T> = (0..len)
            .map(|_| finite(number(source), &coordinate))
            .collect();
        let at = (0..tokens)
            .map(|token| {
                std::array::from_fn(|axis| {
                    let axis = axis.min(axes - 1);
                    coordinate(
                        values[match order {
                            Order::PerToken => token,
                            Order::AxisMajor => axis * tokens + token,
                            Order::TokenMajor => token * axes + axis,
                        }],
                    )
                })
            })
            .collect();
        ListedPositions {
            at,
            listed: list(order, values),
        }
    }

    fn packed(source: &mut Source<'_>) -> Self {
        let (mut offsets, mut starts, mut at) = (vec![0], Vec::new(), Vec::new());
        let counted = source.once_in(2);
        for _ in 0..source.below(5) {
            let (len, start) = (source.below(4) as i32, integer(source) as i32);
            offsets.push(offsets.last().expect("it begins with 0") + len);
            starts.push(start);
            let first = if counted { i64::from(start) } else { 0 };
            at.extend((first..first + i64::from(len)).map(|at| [Coordinate::Integer(at); 4]));
        }
        ListedPositions {
            at,
            listed: Listed::Packed(offsets, counted.then_some(starts)),
        }
    }

    fn is_per_axis(&self) -> bool {
        match &self.listed {
            Listed::I32(order, _)
            | Listed::I64(order, _)
            | Listed::U32(order, _)
            | Listed::U64(order, _)
            | Listed::Usize(order, _)
            | Listed::F32(order, _)
            | Listed::F64(order, _) => !matches!(order, Order::PerToken),
            Listed::Range(..) | Listed::One(_) | Listed::Inclusive(..) | Listed::Packed(..) => {
                false
            }
        }
    }

    /// Returns the list as a struct of C.
    #[cfg(feature = "capi")]
    fn over_c(&self) -> rope::rope_positions {
        use over_c::positions;
        use rope::{rope_number as Number, rope_positions_kind as Kind};
        let kind = |order: &Order| match order {
            Order::PerToken => Kind::PerToken,
            Order::AxisMajor => Kind::AxisMajor,
            Order::TokenMajor => Kind::TokenMajor,
        };
        match &self.listed {
            Listed::I32(order, ids) => positions(kind(order), ids, Number::I32),
            Listed::I64(order, ids) => positions(kind(order), ids, Number::I64),
            Listed::U32(order, ids) => positions(kind(order), ids, Number::U32),
            Listed::U64(order, ids) => positions(kind(order), ids, Number::U64),
            Listed::Usize(order, ids) if usize::BITS == 64 => {
                positions(kind(order), ids, Number::U64)
            }
            Listed::Usize(order, ids) => positions(kind(order), ids, Number::U32),
            Listed::F32(order, values) => positions(kind(order), values, Number::F32),
            Listed::F64(order, values) => positions(kind(order), values, Number::F64),
            Listed::Range(first, _) | Listed::One(first) | Listed::Inclusive(first, _) => {
                rope::rope_positions_range(*first, self.at.len())
            }
            Listed::Packed(offsets, starts) => rope::rope_positions {
                starts: (starts.as_ref()).map_or(std::ptr::null(), |starts| starts.as_ptr().cast()),
                ..positions(Kind::Packed, offsets, Number::I32)
            },
        }
    }

    fn positions(&self) -> Positions<'_> {
        macro_rules! listed {
            ($order:expr, $numbers:expr) => {
                match $order {
                    Order::PerToken => Positions::from(&$numbers[..]),
                    Order::AxisMajor => Positions::axis_major(&$numbers[..]),
                    Order::TokenMajor => Positions::token_major(&$numbers[..]),
                }
            };
        }
        match &self.listed {
            Listed::Range(first, end) => Positions::from(*first..*end),
            Listed::I32(order, ids) => listed!(order, ids),
            Listed::I64(order, ids) => listed!(order, ids),
            Listed::U32(order, ids) => listed!(order, ids),
            Listed::U64(order, ids) => listed!(order, ids),
            Listed::Usize(order, ids) => listed!(order, ids),
            Listed::One(at) => Positions::from(*at),
            Listed::Inclusive(first, last) => Positions::from(*first..=*last),
            Listed::F32(order, values) => listed!(order, values),
            Listed::F64(order, values) => listed!(order, values),
            Listed::Packed(offsets, None) => {
                Positions::packed(&offsets[..]).expect("they never fall")
            }
            Listed::Packed(offsets, Some(starts)) => {
                Positions::packed_from(&offsets[..], &starts[..]).expect("one for each sequence")
            }
        }
    }
}

/// Replaces values that are not finite, which would be refused, by zero.
fn finite<T: Copy + Default>(value: T, coordinate: impl Fn(T) -> Coordinate) -> T {
    match coordinate(value) {
        Coordinate::Real(at) if !at.is_finite() => T::default(),
        _ => value,
    }
}

fn integer(source: &mut Source<'_>) -> i64 {
    match source.below(6) {
        0 => source.wide() as i64,
        1 => source.one_of(&[i64::MIN, i64::MAX - 8, -1, 0, 1 << 32, 1 << 53]),
        2 => -(source.below(100_000) as i64),
        _ => source.below(1 << 20) as i64,
    }
}

/// Returns a coordinate of at most 2^63, beyond which they are refused; a few are not finite.
fn real(source: &mut Source<'_>) -> f64 {
    const MOST: f64 = (1_u64 << 63) as f64;
    match any_real(source) {
        value if value.is_finite() => value.clamp(-MOST, MOST),
        other => other,
    }
}

fn any_real(source: &mut Source<'_>) -> f64 {
    match source.below(6) {
        0 => f64::from_bits(source.wide() as u64),
        1 => source.one_of(&[-0.0, 5e-324, f64::MAX, 0.5, -0.25, 1e-40, 4_294_967_296.5]),
        2 => f64::from(source.word()) * 2.0_f64.powi(source.below(80) as i32 - 60),
        _ => f64::from(source.unit()),
    }
}
