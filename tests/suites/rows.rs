//! Rows: correctly rounded wherever there is golden data, and the same bits from every constructor.

use crate::models::{bits, frequencies};
use rope_core::axes::Axes;
use rope_core::error::{FrequenciesError, PlanError, PositionsError};
use rope_core::{Angle, Backend, Error, Frequencies, FrequencyChunk, Positions, Rows, Scaling};
use rope_tests::golden::{Golden, hex, lines};
use rope_tests::{Source, bounds, exact};
use std::f64::consts::TAU;

/// Returns the same frequencies on every available backend, the fastest first.
fn everywhere(
    frequencies: &Frequencies<'static>,
) -> impl Iterator<Item = (Backend, Frequencies<'static>)> {
    Backend::available().map(|backend| {
        let made = frequencies.clone().with_backend(backend);
        (backend, made.expect("an available backend"))
    })
}

/// Returns the frequencies of a plain text model.
fn plain() -> Frequencies<'static> {
    Frequencies::new(128, 5e5, &Scaling::Default).expect("sane parameters")
}

/// Number of cos and sin values of a kind in all golden tables: of each pair, at twelve positions.
const ALL_ROWS: usize = 31_776;

/// Asserts the bits of every golden row of a kind on every backend; returns the number of values.
fn golden_rows(table: &Golden, kind: &str, frequencies: &Frequencies<'static>) -> usize {
    let positions: Vec<i64> = table.decimals("positions");
    let mut compared = 0;
    for (backend, frequencies) in everywhere(frequencies) {
        let rows = frequencies.rows(&positions).expect("positions");
        for (index, &position) in positions.iter().enumerate() {
            let expected = table
                .row(kind, position)
                .unwrap_or_else(|| panic!("{} {kind}", table.name));
            let rows = rows.narrow(index..index + 1).expect("a row");
            let made = bits(&rows);
            assert_eq!(
                made, expected,
                "{backend}, {}, {kind}, {position}",
                table.name
            );
            compared += made.len();
        }
    }
    compared
}

#[test]
fn golden_rows_are_correctly_rounded() {
    let compared = Golden::all("tables")
        .into_iter()
        .map(|table| golden_rows(&table, "cr", &frequencies(&table, Some(1.0))));
    assert_eq!(
        compared.sum::<usize>(),
        ALL_ROWS * Backend::available().count()
    );
}

#[test]
fn rows_times_the_attention_factor_are_correctly_rounded() {
    let (mut scaled, mut compared) = (0, 0);
    for table in Golden::all("tables") {
        let frequencies = frequencies(&table, None);
        if frequencies.attention_factor() != 1.0 {
            compared += golden_rows(&table, "scaled_cr", &frequencies);
            scaled += 1;
        }
        let rows = frequencies.rows(0..1).expect("positions");
        assert_eq!(rows.attention_factor(), frequencies.attention_factor());
    }
    let backends = Backend::available().count();
    assert_eq!((scaled, compared), (4, 4_608 * backends));
}

#[test]
fn rows_of_given_f32_frequencies_are_correctly_rounded() {
    let mut compared = 0;
    for table in Golden::all("tables") {
        let given: Vec<f32> = table.bits("inv_freq_hf_f32");
        let frequencies = Frequencies::from_inverse(2 * given.len(), &given, 1.0);
        compared += golden_rows(&table, "cr_f32freq", &frequencies.expect("frequencies"));
    }
    assert_eq!(compared, ALL_ROWS * Backend::available().count());
}

/// The oracle alone gives the same rows: the fast path leaves factors below 2^-20 to it, and this factor changes only
/// exponents.
#[test]
fn rows_of_the_oracle_are_correctly_rounded() {
    let factor = 2.0_f32.powi(-30);
    let mut compared = 0;
    for table in Golden::all("tables") {
        let given: Vec<f32> = table.bits("inv_freq_hf_f32");
        let frequencies = Frequencies::from_inverse(2 * given.len(), &given, factor.into());
        let positions: Vec<i64> = table.decimals("positions");
        let rows = frequencies.expect("frequencies").rows(&positions);
        let golden = positions
            .iter()
            .flat_map(|&at| table.row("cr_f32freq", at).expect("a row"));
        let golden: Vec<u32> = golden
            .map(|bits| (f32::from_bits(bits) * factor).to_bits())
            .collect();
        assert_eq!(bits(&rows.expect("positions")), golden, "{}", table.name);
        compared += golden.len();
    }
    assert_eq!(compared, ALL_ROWS);
}

/// The golden values were computed by Hugging Face's code, within 0.6 units in the last place of the angle's exact cos
/// and sin, and may be the other neighbor; an attention factor above 1 can turn one unit into two.
#[test]
fn rows_of_hugging_face_angles_are_within_an_ulp_or_two_with_a_factor() {
    let mut off = [0, 0, 0];
    for table in Golden::all("tables") {
        let given: Vec<f32> = table.bits("inv_freq_hf_f32");
        let factor = table.bits::<f64>("attention_factor_hf_f64")[0];
        let frequencies = Frequencies::from_inverse(2 * given.len(), &given, factor)
            .expect("frequencies")
            .with_angle(Angle::HuggingFaceF32);
        assert_eq!(frequencies.angle(), Angle::HuggingFaceF32);
        let positions: Vec<i64> = table.decimals("positions");
        let best = frequencies.rows(&positions).expect("positions");
        for (backend, frequencies) in everywhere(&frequencies) {
            let rows = frequencies.rows(&positions).expect("positions");
            assert_eq!(bits(&rows), bits(&best), "{backend}, {}", table.name);
        }
        let golden = positions
            .iter()
            .flat_map(|&at| table.row("hf", at).expect("a row"));
        for (made, golden) in bits(&best).into_iter().zip(golden) {
            let ulps = made.abs_diff(golden) as usize;
            assert!(ulps <= 1 + usize::from(factor != 1.0), "{}", table.name);
            off[ulps] += 1;
        }
    }
    // Equal, one unit off, and two units off.
    assert_eq!(off, [30_811, 959, 6]);
}

/// Tests one pair at one position, and at the opposite one.
fn golden_pair(frequencies: &Frequencies<'static>, pair: usize, at: i64, cos: u32, sin: u32) {
    for (backend, frequencies) in everywhere(frequencies) {
        let rows = frequencies.rows(&[at, -at]).expect("positions");
        for (index, sin) in [(0, sin), (1, sin ^ 1 << 31)] {
            let (coses, sines) = rows.row(index, 0).expect("a row");
            let made = (coses[pair].to_bits(), sines[pair].to_bits());
            assert_eq!(made, (cos, sin), "{backend}, pair {pair} at {at}");
        }
    }
}

#[test]
fn angles_near_a_quarter_turn() {
    let tables: Vec<Golden> = Golden::all("tables");
    let (mut lines_read, mut checked) = (0, 0);
    for words in lines("hard_near_zero.txt") {
        let [name, pair, step, at, sin, cos, sin_f64, cos_f64] = &words[..] else {
            panic!("{words:?}");
        };
        // A separate line: its f32 are the rounded f64, and the f64 are those of the step, as near as f64 computes
        // them.
        let step_here = u128::from_str_radix(step, 16).expect("a step");
        let (cos_here, sin_here) = exact::cos_sin(at.parse().expect("a position"), step_here);
        for (double, rounded, here) in [(sin_f64, sin, sin_here), (cos_f64, cos, cos_here)] {
            let double: f64 = hex(double);
            let in_f32 = (double as f32).to_bits();
            assert_eq!(in_f32, hex::<f32>(rounded).to_bits(), "{words:?}");
            assert!((double - here).abs() < 1e-15, "{words:?}");
        }
        lines_read += 1;
        let Some(table) = tables.iter().find(|table| table.name == *name) else {
            continue;
        };
        let [sin, cos] = [sin, cos].map(|word| hex::<f32>(word).to_bits());
        let (pair, at) = (
            pair.parse().expect("a pair"),
            at.parse().expect("a position"),
        );
        assert_eq!(
            table.bits::<u128>("turn_step_u128")[pair],
            step_here,
            "{words:?}"
        );
        golden_pair(&frequencies(table, Some(1.0)), pair, at, cos, sin);
        checked += 1;
    }
    assert_eq!((lines_read, checked), (932, 836));
}

#[test]
fn values_near_a_midpoint() {
    let mut checked = 0;
    for words in lines("hard_midpoints.txt") {
        let [base, dim, pair, at, step, sin, cos, _] = &words[..] else {
            panic!("{words:?}");
        };
        let (base, dim): (f64, usize) =
            (base.parse().expect("a base"), dim.parse().expect("a size"));
        let frequencies = Frequencies::new(dim, base, &Scaling::Default).expect("frequencies");
        let [sin, cos] = [sin, cos].map(|word| hex::<f32>(word).to_bits());
        let (pair, at) = (
            pair.parse().expect("a pair"),
            at.parse().expect("a position"),
        );
        let found = frequencies.iter().nth(pair).expect("a pair");
        let step = u128::from_str_radix(step, 16).expect("a step");
        let bound = bounds::step(found.inverse / TAU);
        assert!(found.step.abs_diff(step) <= bound, "{words:?}");
        golden_pair(&frequencies, pair, at, cos, sin);
        checked += 1;
    }
    assert_eq!(checked, 92);
}

/// The sine of an angle midway between two f32, so small that it equals its sine: either neighbor is accepted.
#[test]
fn real_coordinates_on_a_midpoint() {
    let ulp = f64::from(f32::EPSILON);
    let frequencies = Frequencies::from_inverse(2, &[1.0 + ulp / 2.0], 1.0).expect("a frequency");
    for exponent in [-50, -60, -70, -120] {
        let at = 2.0_f64.powi(exponent);
        for (backend, frequencies) in everywhere(&frequencies) {
            let rows = frequencies
                .rows(Positions::from(&[at]))
                .expect("it is finite");
            let (_, sin) = rows.row(0, 0).expect("one row");
            let near = [at, at * (1.0 + ulp)].map(|near| near as f32);
            assert!(
                near.contains(&sin[0]),
                "{backend}: {:e} of 2^{exponent}",
                sin[0]
            );
        }
    }
}

/// DINOv3's patches, time stamps, and points on three axes with frequencies of either sign and of many turns.
#[test]
fn real_coordinates_are_correctly_rounded() {
    let golden = Golden::file("coordinates.txt");
    let (text, dino) = (Axes::from(64), Axes::vision(64));
    let plain = Frequencies::new(text, 1e4, &Scaling::Default);
    let dinov3 = || Frequencies::new(dino, 100.0, &Scaling::Turns);
    let axes: Vec<u8> = (0..10).map(|pair| pair % 3).collect();
    let mixed: Vec<f64> = golden.bits("mixed.inverse");
    let mixed = Frequencies::from_inverse(Axes::given(&axes), &mixed, 1.0);
    for (name, frequencies) in [
        ("dinov3", dinov3()),
        ("dinov3_f32", dinov3()),
        ("seconds", plain),
        ("mixed", mixed),
    ] {
        let frequencies = frequencies.expect("frequencies");
        let inverse: Vec<f64> = frequencies.iter().map(|pair| pair.inverse).collect();
        assert_eq!(
            inverse,
            golden.bits::<f64>(&format!("{name}.inverse")),
            "{name}"
        );
        let coordinates: Vec<f64> = golden.bits(&format!("{name}.coordinates"));
        let by_axis: Vec<f64> = (0..frequencies.axes())
            .flat_map(|axis| coordinates.iter().skip(axis).step_by(frequencies.axes()))
            .copied()
            .collect();
        let singles: Vec<f32> = coordinates.iter().map(|&x| x as f32).collect();
        let mut positions = vec![
            Positions::token_major(&coordinates[..]),
            Positions::axis_major(&by_axis[..]),
        ];
        if singles
            .iter()
            .zip(&coordinates)
            .all(|(&single, &x)| f64::from(single) == x)
        {
            positions.push(Positions::token_major(&singles[..]));
        }
        assert_eq!(positions.len(), if name == "dinov3_f32" { 3 } else { 2 });
        if frequencies.axes() == 1 {
            positions.push(Positions::from(&coordinates[..]));
        }
        let half = |function| -> Vec<u32> {
            let values = golden.bits::<f32>(&format!("{name}.{function}"));
            values.into_iter().map(f32::to_bits).collect()
        };
        let (cos, sin) = (half("cos"), half("sin"));
        for (backend, frequencies) in everywhere(&frequencies) {
            for &positions in &positions {
                let rows = frequencies.rows(positions).expect("coordinates");
                assert_eq!(rows.len() * inverse.len(), cos.len());
                for index in 0..rows.len() {
                    let (coses, sines) = rows.row(index, 0).expect("a row");
                    for pair in 0..inverse.len() {
                        let made = (coses[pair].to_bits(), sines[pair].to_bits());
                        let at = index * inverse.len() + pair;
                        let doing = format!("{backend}, {name}, token {index}, pair {pair}");
                        assert_eq!(made, (cos[at], sin[at]), "{doing}");
                    }
                }
            }
        }
    }
}

/// Returns frequencies and positions of every magnitude, with the difficult ones.
fn any(source: &mut Source<'_>) -> (Frequencies<'static>, Vec<i64>, Vec<f64>) {
    let pairs = source.within(1, 70);
    let axes: Vec<u8> = match source.below(3) {
        0 => (0..pairs).map(|_| source.below(4) as u8).collect(),
        _ => vec![0; pairs],
    };
    let inverse: Vec<f64> = (0..pairs)
        .map(|_| match source.below(8) {
            0 => 0.0,
            1 => 205_000.0 * f64::from(source.unit()),
            2 => f64::from(source.unit()) * 2f64.powi(-(source.below(120) as i32)),
            _ => f64::from(source.unit()) * 2f64.powi(-(source.below(20) as i32)),
        })
        .collect();
    let factor = match source.below(4) {
        0 => 1.138_629_436_111_989,
        1 => 2f64.powi(60 - source.below(120) as i32),
        _ => 1.0,
    };
    let frequencies = Frequencies::from_inverse(Axes::given(&axes), &inverse, factor);
    let mut frequencies = frequencies.expect("sane frequencies");
    if source.once_in(4) {
        frequencies = frequencies.with_angle(Angle::HuggingFaceF32);
    }
    let numbers = frequencies.axes() * source.within(1, 9);
    let integers = (0..numbers)
        .map(|_| match source.below(8) {
            0 => source.one_of(&[
                0,
                1 << 32,
                -1 << 32,
                1 << 53,
                i64::MAX,
                i64::MIN,
                (1 << 32) + 1,
            ]),
            1 => source.wide() as i64,
            _ => source.wide() as i64 >> (32 + source.below(32)),
        })
        .collect();
    let reals = (0..numbers)
        .map(|_| match source.below(8) {
            0 => source.one_of(&[0.0, -0.0, 0.5, 9e18, -1e-300, 5e-324]),
            1 => f64::from(source.unit()) * 2f64.powi(source.below(163) as i32 - 100),
            _ => f64::from(source.unit()) * 2f64.powi(source.below(40) as i32 - 8),
        })
        .collect();
    (frequencies, integers, reals)
}

#[test]
fn same_bits_on_every_backend() {
    let source = &mut Source::random("same_bits_on_every_backend");
    for _ in 0..400 {
        let (frequencies, integers, reals) = any(source);
        for positions in [
            Positions::token_major(&integers),
            Positions::from(&integers),
            Positions::token_major(&reals[..]),
        ] {
            let scalar = frequencies.clone().with_backend(Backend::Scalar);
            let rows = scalar.and_then(|frequencies| frequencies.rows(positions));
            let expected = bits(&rows.expect("rows"));
            for (backend, frequencies) in everywhere(&frequencies) {
                let rows = frequencies.rows(positions).expect("rows");
                let same = bits(&rows) == expected;
                assert!(same, "{backend}: {frequencies:?} at {positions:?}");
            }
        }
    }
}

#[test]
fn same_bits_in_any_order_and_any_division() {
    let source = &mut Source::random("same_bits_in_any_order_and_any_division");
    let frequencies = plain();
    const LEN: usize = 5000;
    let table = frequencies.rows(0..LEN).expect("a table");
    let expected = bits(&table);

    // Reversed, and shuffled.
    let mut ids: Vec<u32> = (0..LEN as u32).rev().collect();
    for _ in 0..2 {
        let rows = frequencies.rows(&ids).expect("ids");
        let gathered = table.gather(&ids).expect("ids of the table");
        assert!(bits(&rows) == bits(&gathered));
        for last in (1..LEN).rev() {
            ids.swap(last, source.below(last + 1));
        }
    }
    // Blocks of any length.
    for longest in [1, 7, 64, 1000] {
        let mut first = 0;
        let mut made = Vec::new();
        while first < LEN {
            let end = LEN.min(first + source.within(1, longest));
            made.extend(bits(&frequencies.rows(first..end).expect("a range")));
            first = end;
        }
        assert!(made == expected, "blocks up to {longest}");
    }
    // Threads, each with its part of one slice.
    for threads in [2, 3, 16] {
        let mut values = vec![f32::NAN; LEN * 128];
        let each = LEN.div_ceil(threads);
        std::thread::scope(|scope| {
            for (part, values) in values.chunks_mut(each * 128).enumerate() {
                let (first, frequencies) = (part * each, &frequencies);
                scope.spawn(move || {
                    let range = first..first + values.len() / 128;
                    frequencies
                        .at(range)
                        .expect("positions")
                        .rows_in(values)
                        .expect("a range")
                        .len()
                });
            }
        });
        let rows = Rows::new(&values, [LEN, 128]).expect("whole rows");
        assert!(bits(&rows) == expected, "{threads} threads");
    }
}

/// Pairs in rows of any length: a row of some pairs is a part of the row of all pairs.
#[test]
fn same_bits_in_rows_of_any_length() {
    let all: Vec<f64> = plain().iter().map(|pair| pair.inverse).collect();
    let positions = [0_i64, 5, -77, 1 << 31, 4_000_000_007];
    let of = |inverse: &[f64]| {
        let frequencies = Frequencies::from_inverse(2 * inverse.len(), inverse, 1.0);
        frequencies.expect("frequencies")
    };
    let long = of(&all).rows(&positions).expect("rows");
    for pairs in 1..=all.len() {
        let first = pairs % 5 % (all.len() - pairs + 1);
        for (backend, frequencies) in everywhere(&of(&all[first..first + pairs])) {
            let short = frequencies.rows(&positions).expect("rows");
            for index in 0..positions.len() {
                let (cos, sin) = long.row(index, 0).expect("a row");
                let expected = (&cos[first..first + pairs], &sin[first..first + pairs]);
                assert_eq!(
                    short.row(index, 0),
                    Some(expected),
                    "{backend}, {pairs} pairs"
                );
            }
        }
    }
}

#[test]
fn ranges() {
    let frequencies = plain();
    let same = |positions: Positions<'_>, ids: &[i64]| {
        let (rows, expected) = (frequencies.rows(positions), frequencies.rows(ids));
        assert_eq!(
            bits(&rows.expect("rows")),
            bits(&expected.expect("ids")),
            "{ids:?}"
        );
    };
    same((7_i32..10).into(), &[7, 8, 9]);
    same((-2_i32..2).into(), &[-2, -1, 0, 1]);
    same(
        (i32::MIN..i32::MIN + 2).into(),
        &[-(1 << 31), 1 - (1 << 31)],
    );
    same((u32::MAX - 1..u32::MAX).into(), &[(1 << 32) - 2]);
    same((7_usize..9).into(), &[7, 8]);
    same(
        (-(1_i64 << 32)..2 - (1 << 32)).into(),
        &[-(1 << 32), 1 - (1 << 32)],
    );
    same((i64::MAX - 1..i64::MAX).into(), &[i64::MAX - 1]);
    same((u64::MAX - 1..u64::MAX).into(), &[-2]);
    same((7_u64..9).into(), &[7, 8]);
    // Inclusive ranges, up to the last integer.
    same((7_i32..=9).into(), &[7, 8, 9]);
    same((i32::MAX..=i32::MAX).into(), &[(1 << 31) - 1]);
    same(
        (u32::MAX - 1..=u32::MAX).into(),
        &[(1 << 32) - 2, (1 << 32) - 1],
    );
    same((i64::MAX - 1..=i64::MAX).into(), &[i64::MAX - 1, i64::MAX]);
    same((u64::MAX..=u64::MAX).into(), &[-1]);
    same((7_usize..=7).into(), &[7]);
    // One token.
    same((-3_i32).into(), &[-3]);
    same(i64::MIN.into(), &[i64::MIN]);
    same(u32::MAX.into(), &[(1 << 32) - 1]);
    same(7_u64.into(), &[7]);
    same(7_usize.into(), &[7]);
    // Empty ranges, and ranges that end before they begin.
    same((5_i32..5).into(), &[]);
    #[allow(clippy::reversed_empty_ranges, reason = "what is tested")]
    same((5_u32..2).into(), &[]);
    #[allow(clippy::reversed_empty_ranges, reason = "what is tested")]
    same((5_i64..=4).into(), &[]);
    // Such a length exceeds usize; the largest usize is given.
    let all = frequencies
        .at(i64::MIN..i64::MAX)
        .expect("positions")
        .rows_in(&mut []);
    assert!(
        matches!(
            all,
            Err(Error::Frequencies(FrequenciesError::RowsTooLong { .. }))
        ),
        "{all:?}"
    );
}

/// Long ranges are made differently from ids, by adding angles. The bits are the same on every backend.
#[test]
fn a_range_gives_the_rows_of_its_ids() {
    let source = &mut Source::random("a_range_gives_the_rows_of_its_ids");
    let lengths = [1, 15, 16, 31, 32, 33, 39, 40, 64, 513];
    for round in 0..24 {
        // Models of every width, and one whose pairs do not divide by eight; some pairs of a model do not rotate.
        let rotary_dim = [16, 48, 64, 72, 128, 256][round % 6];
        let base = source.one_of(&[1e4, 5e5, 1e8]);
        let mut inverse: Vec<f64> = (0..rotary_dim / 2)
            .map(|i| f64::powf(base, -2.0 * i as f64 / rotary_dim as f64))
            .collect();
        if source.once_in(3) {
            inverse[rotary_dim / 3..].fill(0.0);
        }
        let factor = source.one_of(&[1.0, 1.138_629_436, 0.5]);
        let frequencies =
            Frequencies::from_inverse(rotary_dim, &inverse, factor).expect("frequencies");
        let len = source.one_of(&lengths);
        let first = match source.below(4) {
            0 => 0,
            1 => -(source.below(600) as i64),
            2 => (1 << 32) - source.below(600) as i64,
            _ => i64::from(source.word()),
        };
        let ids: Vec<i64> = (first..first + len).collect();
        for (backend, frequencies) in everywhere(&frequencies) {
            let rows = frequencies.rows(first..first + len).expect("a range");
            let expected = frequencies.rows(&ids).expect("ids");
            assert_eq!(
                bits(&rows),
                bits(&expected),
                "{backend}, {rotary_dim} channels, {len} from {first}"
            );
        }
    }
}

#[test]
fn ids_of_every_type() {
    let frequencies = plain();
    let expected = bits(&frequencies.rows(&[9_i64, 0, 70_000, 9]).expect("ids"));
    let (i32s, i64s, u32s) = (
        vec![9_i32, 0, 70_000, 9],
        vec![9_i64, 0, 70_000, 9],
        vec![9_u32, 0, 70_000, 9],
    );
    for positions in [
        Positions::from(&i32s),
        Positions::from(&i32s[..]),
        Positions::from(&[9_i32, 0, 70_000, 9]),
        Positions::from(&i64s),
        Positions::from(&i64s[..]),
        Positions::from(&u32s),
        Positions::from(&u32s[..]),
        Positions::from(&[9_u32, 0, 70_000, 9]),
        Positions::axis_major(&i32s),
        Positions::token_major(&u32s),
    ] {
        let rows = frequencies.rows(positions).expect("ids");
        assert_eq!(bits(&rows), expected, "{positions:?}");
    }
    assert!(frequencies.rows(&[0_i64; 0]).expect("no ids").is_empty());
}

#[test]
fn negative_positions_turn_back() {
    let source = &mut Source::random("negative_positions_turn_back");
    let ids: Vec<i64> = (0..200).map(|i| source.wide() as i64 >> (i % 64)).collect();
    let ids: Vec<i64> = ids.into_iter().filter(|&id| id != i64::MIN).collect();
    let minus: Vec<i64> = ids.iter().map(|id| -id).collect();
    for (backend, frequencies) in everywhere(&plain()) {
        let (there, back) = (frequencies.rows(&ids), frequencies.rows(&minus));
        let (there, back) = (there.expect("ids"), back.expect("ids"));
        for (index, id) in ids.iter().enumerate() {
            let (cos, sin) = there.row(index, 0).expect("a row");
            // Zeros have no sign.
            let sin: Vec<f32> = sin.iter().map(|sin| 0.0 - sin).collect();
            let (cos_back, sin_back) = back.row(index, 0).expect("a row");
            assert_eq!((cos_back, sin_back), (cos, &sin[..]), "{backend}, {id}");
        }
    }
}

/// Frequencies of either sign, and their opposites.
#[test]
fn negative_frequencies_turn_the_other_way() {
    let source = &mut Source::random("negative_frequencies_turn_the_other_way");
    for _ in 0..100 {
        let inverse: Vec<f64> = (0..20).map(|_| 9.0 * f64::from(source.unit())).collect();
        let minus: Vec<f64> = inverse.iter().map(|w| -w).collect();
        let ids: Vec<i64> = (0..5).map(|_| source.wide() as i64 >> 20).collect();
        let reals: Vec<f64> = (0..5).map(|_| 1e5 * f64::from(source.unit())).collect();
        let [there, back] = [&inverse, &minus].map(|inverse| {
            let frequencies = Frequencies::from_inverse(40, inverse, 1.0);
            frequencies.expect("frequencies")
        });
        for positions in [Positions::from(&ids), Positions::from(&reals[..])] {
            let (there, back) = (there.rows(positions), back.rows(positions));
            let (there, back) = (there.expect("rows"), back.expect("rows"));
            for index in 0..5 {
                let (cos, sin) = there.row(index, 0).expect("a row");
                let sin: Vec<f32> = sin.iter().map(|sin| 0.0 - sin).collect();
                assert_eq!(back.row(index, 0), Some((cos, &sin[..])), "{inverse:?}");
            }
        }
    }
}

/// Returns every way to distribute 64 pairs over several axes with one common set of base frequencies.
pub(crate) fn one_set_of_64_pairs() -> [Axes<'static>; 8] {
    const GIVEN: [u8; 64] = {
        let mut axes = [0; 64];
        let mut pair = 0;
        while pair < 64 {
            axes[pair] = (pair * pair % 7 % 4) as u8;
            pair += 1;
        }
        axes
    };
    [
        Axes::mrope(128, [16, 24, 24]),
        Axes::mrope(128, [16, 16, 16, 16]),
        Axes::mrope_interleaved(128, [24, 20, 20]),
        Axes::mrope_alternating(128, [22, 22, 20]),
        Axes::mrope_spread(128, [24, 20, 20]),
        Axes::ggml_mrope(128, [16, 24, 24, 0]),
        Axes::ggml_imrope(128, [24, 20, 20, 0]),
        Axes::given(&GIVEN),
    ]
}

#[test]
fn each_pair_follows_its_axis() {
    let source = &mut Source::random("each_pair_follows_its_axis");
    const TOKENS: usize = 11;
    for axes in one_set_of_64_pairs() {
        let frequencies = Frequencies::new(axes, 5e5, &Scaling::Default).expect("frequencies");
        let count = frequencies.axes();
        let by_token: Vec<i64> = (0..TOKENS * count)
            .map(|_| source.wide() as i64 >> 31)
            .collect();
        let by_axis: Vec<i64> = (0..count)
            .flat_map(|axis| by_token.iter().skip(axis).step_by(count).copied())
            .collect();
        // The rows of a plain model at the position on each axis.
        let plain: Vec<Rows<'_>> = by_axis
            .chunks(TOKENS)
            .map(|ids| plain().rows(ids).expect("ids"))
            .collect();
        let which: Vec<usize> = frequencies.iter().map(|pair| pair.axis).collect();
        let mut expected = Vec::new();
        for index in 0..TOKENS {
            let row = |axis: usize| plain[axis].row(index, 0).expect("a row");
            let pairs = || which.iter().enumerate();
            expected.extend(pairs().map(|(pair, &axis)| row(axis).0[pair].to_bits()));
            expected.extend(pairs().map(|(pair, &axis)| row(axis).1[pair].to_bits()));
        }
        for (backend, frequencies) in everywhere(&frequencies) {
            let rows = frequencies.rows(Positions::token_major(&by_token));
            assert!(bits(&rows.expect("ids")) == expected, "{backend}, {axes:?}");
            let rows = frequencies.rows(Positions::axis_major(&by_axis));
            assert!(bits(&rows.expect("ids")) == expected, "{backend}, {axes:?}");
        }
    }
}

/// Axes with their own base frequencies: each is a plain model of its size.
#[test]
fn each_ladder_is_a_plain_model() {
    for (axes, dims) in [
        (Axes::vision(80), &[40, 40][..]),
        (Axes::wan(128), &[44, 42, 42]),
        (Axes::per_axis([1, 20, 3, 40]), &[2, 40, 6, 80]),
    ] {
        let frequencies = Frequencies::new(axes, 1e4, &Scaling::Default).expect("frequencies");
        assert_eq!(frequencies.axes(), dims.len());
        let at = [3_i64, -70_000, 1 << 40, 12_345_678];
        let ids = &at[..dims.len()];
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for (&dim, &id) in dims.iter().zip(ids) {
            let plain = Frequencies::new(dim, 1e4, &Scaling::Default).expect("frequencies");
            let rows = plain.rows(&[id]).expect("an id");
            let row = rows.row(0, 0).expect("a row");
            cos.extend_from_slice(row.0);
            sin.extend_from_slice(row.1);
        }
        let rows = frequencies.rows(Positions::token_major(ids)).expect("ids");
        assert_eq!(rows.row(0, 0), Some((&cos[..], &sin[..])), "{axes:?}");
    }
}

#[test]
fn equal_positions_on_all_axes_are_plain_rope() {
    let ids = [0_i64, 1, 2, 4095, 1_000_003, -9, 1 << 32];
    let expected = bits(&plain().rows(&ids).expect("ids"));
    for axes in one_set_of_64_pairs() {
        let frequencies = Frequencies::new(axes, 5e5, &Scaling::Default).expect("frequencies");
        let count = frequencies.axes();
        let by_axis = ids.repeat(count);
        let by_token: Vec<i64> = ids.iter().flat_map(|&id| vec![id; count]).collect();
        for (backend, frequencies) in everywhere(&frequencies) {
            for positions in [
                Positions::from(&ids),
                Positions::axis_major(&by_axis),
                Positions::token_major(&by_token),
            ] {
                let rows = frequencies.rows(positions).expect("ids");
                assert!(
                    bits(&rows) == expected,
                    "{backend}, {axes:?}, {positions:?}"
                );
            }
        }
    }
    // Ranges and packed sequences have one position for all axes.
    let qwen = Axes::mrope_interleaved(128, [24, 20, 20]);
    let qwen = Frequencies::new(qwen, 5e5, &Scaling::Default).expect("frequencies");
    for positions in [
        Positions::from(5..12),
        Positions::packed(&[0, 3, 9]).expect("offsets"),
    ] {
        let (rows, expected) = (qwen.rows(positions), plain().rows(positions));
        assert_eq!(bits(&rows.expect("rows")), bits(&expected.expect("rows")));
    }
}

#[test]
fn packed_sequences() {
    let frequencies = plain();
    let same = |positions: Result<Positions<'_>, Error>, ids: &[i64]| {
        let rows = frequencies.rows(positions.expect("offsets")).expect("rows");
        let expected = frequencies.rows(ids).expect("ids");
        assert_eq!(bits(&rows), bits(&expected), "{ids:?}");
    };
    let ids = &[0, 1, 2, 3, 4, 0, 1, 0, 1, 2];
    same(Positions::packed(&[0_u32, 5, 7, 10]), ids);
    same(Positions::packed(&[0_i32, 5, 7, 10]), ids);
    same(Positions::packed(&vec![0_i64, 5, 7, 10]), ids);
    // Empty sequences at either end and in the middle.
    same(Positions::packed(&[0_i32, 0, 2, 2, 2, 3, 3]), &[0, 1, 0]);
    same(Positions::packed(&[0_i32]), &[]);
    same(Positions::packed(&[0_i32; 0]), &[]);
    let starts = [100_i64, -3, 1 << 33];
    let ids = &[100, 101, -3, 1 << 33, (1 << 33) + 1];
    same(Positions::packed_from(&[0_i32, 2, 3, 5], &starts), ids);
    same(
        Positions::packed_from(&[0_i32, 0, 1, 1], &[7_u32, 8, 9]),
        &[8],
    );
    same(Positions::packed_from(&[0_i32], &[0_i64; 0]), &[]);

    let source = &mut Source::random("packed_sequences");
    for _ in 0..50 {
        let (mut offsets, mut starts, mut ids) = (vec![0_u32], Vec::new(), Vec::new());
        for _ in 0..source.below(12) {
            let (start, len) = (source.wide() as i32, source.below(6));
            ids.extend((0..len as i64).map(|token| i64::from(start) + token));
            starts.push(start);
            offsets.push(ids.len() as u32);
        }
        same(Positions::packed_from(&offsets, &starts), &ids);
    }
}

#[test]
fn whole_real_coordinates_are_positions() {
    let ids = [0_i64, 1, -1, 4095, 131_071, (1 << 24) + 1, -(1 << 32)];
    let doubles = ids.map(|id| id as f64);
    for (backend, frequencies) in everywhere(&plain()) {
        let rows = frequencies
            .rows(Positions::from(&doubles))
            .expect("coordinates");
        let expected = frequencies.rows(&ids).expect("ids");
        assert_eq!(bits(&rows), bits(&expected), "{backend}");
    }
    // The same coordinate on all axes.
    let vision = Frequencies::new(Axes::vision(64), 100.0, &Scaling::Turns).expect("frequencies");
    let (one, both) = ([0.25_f32, -0.75], [0.25_f32, 0.25, -0.75, -0.75]);
    let one = vision.rows(Positions::from(&one)).expect("coordinates");
    let both = vision
        .rows(Positions::token_major(&both))
        .expect("coordinates");
    assert_eq!(bits(&one), bits(&both));
}

#[test]
fn whole_turns_vanish_from_integer_positions_only() {
    // DINOv3's first pair turns once per unit, and a quarter of a unit is a quarter turn.
    let vision = Frequencies::new(Axes::vision(64), 100.0, &Scaling::Turns).expect("frequencies");
    let first = |positions: Positions<'_>| {
        let rows = vision.rows(positions).expect("positions");
        let (cos, sin) = rows.row(0, 0).expect("a row");
        (cos[0], sin[0])
    };
    assert_eq!(first(Positions::from(&[12_345_i64])), (1.0, 0.0));
    assert_eq!(first(Positions::from(&[0.25])), (0.0, 1.0));
    assert_eq!(first(Positions::from(&[-0.25])), (0.0, -1.0));
    assert_eq!(first(Positions::from(&[1000.5_f32])), (-1.0, 0.0));
}

#[test]
fn the_callers_storage_does_as_well() {
    let mut blocks = [FrequencyChunk::EMPTY; FrequencyChunk::count(128)];
    let borrowed = Frequencies::new_in(&mut blocks, 128, 5e5, &Scaling::Default);
    let borrowed = borrowed.expect("frequencies");
    let expected = bits(&plain().rows(3..10).expect("a range"));
    let mut values = [f32::NAN; 8 * 128];
    let rows = borrowed
        .at(3..10)
        .expect("positions")
        .rows_in(&mut values)
        .expect("a range");
    assert_eq!(bits(&rows), expected);
    // Unused memory is not written.
    assert!(values[7 * 128..].iter().all(|value| value.is_nan()));

    let mut values = [f32::NAN; 7 * 128 - 1];
    let refused = borrowed
        .at(3..10)
        .expect("positions")
        .rows_in(&mut values)
        .expect_err("a refusal");
    let (what, given, needed) = ("values of storage", 895, 896);
    assert_eq!(
        refused,
        Error::Storage {
            what,
            given,
            needed
        }
    );
    let text = "895 values of storage were given, but 896 are needed";
    assert_eq!(refused.to_string(), text);
    assert!(values.iter().all(|value| value.is_nan()));

    let none = borrowed
        .at(3..3)
        .expect("positions")
        .rows_in(&mut [])
        .expect("no positions");
    assert!(none.is_empty());
}

/// More bytes than an allocator has, if an address space has as many: an error, not an abort.
#[cfg(target_pointer_width = "64")]
#[test]
fn rows_beyond_memory_are_refused() {
    let rows = plain();
    // 2^50 rows of 128 values of 4 bytes.
    let error = Error::OutOfMemory { bytes: 1 << 59 };
    assert_eq!(rows.rows(0_u64..1 << 50).err(), Some(error));
    let shift = rows.shift(0_i64..1 << 50).and_then(|angles| angles.rows());
    assert_eq!(shift.err(), Some(error));
    let from_to = rows.shift_from(&rows, 0_i64..1 << 50, 0_i64..1 << 50);
    let from_to = from_to.and_then(|angles| angles.rows());
    assert_eq!(from_to.err(), Some(error));
    let mixed =
        rope_core::axes::MixedFrequencies::new(&[0.5_f32; 4], [1, 2, 2], 1.0).expect("frequencies");
    let error = Error::OutOfMemory { bytes: 1 << 55 };
    assert_eq!(mixed.rows(0_i64..1 << 50).err(), Some(error));
}

#[test]
fn unavailable_backends_are_refused() {
    for &backend in Backend::ALL {
        let made = plain().with_backend(backend);
        if backend.is_available() {
            made.expect("an available backend");
        } else {
            assert_eq!(
                made,
                Err(Error::Plan(PlanError::BackendUnavailable { backend }))
            );
        }
    }
}

/// Asserts the error and its text.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, error: Error, text: &str) {
    let got = result.expect_err("a refusal");
    assert_eq!(got, error);
    assert_eq!(got.to_string(), text);
}

#[test]
fn numbers_that_do_not_divide_among_the_axes_are_refused() {
    let qwen = Frequencies::new(Axes::mrope(128, [16, 24, 24]), 1e6, &Scaling::Default);
    let qwen = qwen.expect("frequencies");
    let error = Error::Positions(PositionsError::PerAxis { given: 7, axes: 3 });
    let text = "7 positions are not one per axis for each token on 3 axes; give those of all axes to Positions::axis_major or \
         Positions::token_major";
    for positions in [
        Positions::axis_major(&[1_i32; 7]),
        Positions::token_major(&[1_u32; 7]),
        Positions::axis_major(&[1.0_f32; 7]),
        Positions::token_major(&[1.0_f64; 7]),
    ] {
        refused(qwen.rows(positions), error, text);
        refused(qwen.at(positions), error, text);
    }
}

#[test]
fn coordinates_beyond_the_promise_are_refused() {
    const MOST: f64 = (1_u64 << 63) as f64;
    let beyond = "it must be within -2^63..=2^63, where its cos and sin are correctly rounded";
    for (value, given) in [
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (1e300, "1e300"),
        // The next f32 beyond 2^63.
        (-9223373136366403584.0, "-9.223373136366404e18"),
    ] {
        let text = &*format!("coordinate 2 is {given}; {beyond}");
        let error = Error::Positions(PositionsError::Coordinate { index: 2, value });
        refused(
            plain().rows(Positions::from(&[0.0, 1.0, value])),
            error,
            text,
        );
        let singles = [0.0, 1.0, value as f32];
        if value.abs() < 1e300 || value.is_infinite() {
            refused(plain().rows(Positions::from(&singles)), error, text);
        }
    }
    // The integers of this size have the same rows.
    let real = plain().rows(Positions::from(&[MOST - 1024.0, -MOST]));
    let real = real.expect("rows");
    let integers = plain().rows(&[i64::MAX - 1023, i64::MIN]).expect("rows");
    assert_eq!(real.row(0, 0), integers.row(0, 0));
    assert_eq!(real.row(1, 0), integers.row(1, 0));
    assert!(plain().rows(Positions::from(&[MOST])).is_ok());
    let nan = plain()
        .rows(Positions::from(&[f32::NAN]))
        .expect_err("a refusal");
    assert!(
        matches!(nan, Error::Positions(PositionsError::Coordinate { index: 0, value }) if value.is_nan())
    );
}

#[test]
fn offsets_that_fall_are_refused() {
    for (offsets, index, offset) in [
        (&[1_i64, 2][..], 0, 1),
        (&[-1], 0, -1),
        (&[0, 5, 4], 2, 4),
        (&[0, 5, -1], 2, -1),
    ] {
        let error = Error::Positions(PositionsError::Offsets { index, offset });
        let text = format!("offset {index} is {offset}; offsets start at 0 and never fall");
        refused(Positions::packed(offsets), error, &text);
    }
    let error = Error::Count {
        name: "starts",
        given: 3,
        needed: 2,
    };
    // The count of sequences, not of pairs.
    let got = Positions::packed_from(&[0_i32, 1, 2], &[0_i32; 3]).expect_err("a refusal");
    assert_eq!(got, error);
}

#[test]
fn more_rows_than_memory_has_are_refused() {
    let frequencies = plain();
    let huge = Positions::packed(&[0, isize::MAX as i64]).expect("offsets");
    let (tokens, rotary_dim) = (isize::MAX as usize, 128);
    let error = Error::Frequencies(FrequenciesError::RowsTooLong { tokens, rotary_dim });
    assert_eq!(frequencies.rows(huge).expect_err("a refusal"), error);
    assert_eq!(
        frequencies
            .at(huge)
            .expect("positions")
            .rows_in(&mut [])
            .expect_err("a refusal"),
        error
    );
    // A number of values that usize counts, and more bytes than a slice can have.
    let tokens = usize::MAX / 128;
    let error = Error::Frequencies(FrequenciesError::RowsTooLong { tokens, rotary_dim });
    assert_eq!(frequencies.rows(0..tokens).expect_err("a refusal"), error);
}
