//! Moves of keys in a cache: the rows of a shift compared with correctly rounded ones, and the moved keys in every
//! element type and code, bit for bit.

use std::f64::consts::TAU;

use half::{bf16, f16};
use rope_core::axes::Axes;
use rope_core::cache::{
    CacheFormat, CacheLayout, CacheMut, IntoSlots, QuantFormat, QuantScale, ScaleLayout,
    ScalePlace, Slots,
};
use rope_core::error::{CacheError, FrequenciesError, PositionsError, RowsError, SlotsError};
use rope_core::stages::Scale;
use rope_core::{
    Angles, Backend, Error, Frequencies, Pairing, Positions, Rope, Rows, Scaling, TensorMut,
    TokenAngles, Yarn,
};
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source, backends, bounds};

use crate::models::{alike, bits, members};

/// Keys of a file, and the rows that move them.
struct Keys<'f> {
    file: &'f Golden,
    rows: Rows<'f>,
    pairing: Pairing,
    layout: CacheLayout,
}

impl<'f> Keys<'f> {
    fn new(file: &'f Golden, rows: Rows<'f>) -> Self {
        let [tokens, heads, head_dim] =
            ["tokens", "heads", "head_dim"].map(|key| file.decimal(key));
        let (pairing, _) = file.pairings();
        Keys {
            file,
            rows,
            pairing,
            layout: CacheLayout::nhd([tokens, 1, heads, head_dim]).expect("a small cache"),
        }
    }

    fn rope(&self, backend: Backend) -> Rope {
        let rope = Rope::new(self.pairing).with_backend(backend);
        rope.expect("an available backend")
    }

    fn slots(&self) -> std::ops::Range<usize> {
        0..self.rows.len()
    }

    /// Moves keys in an element type a number of times.
    fn elements<E: Number + Bits>(&self, rows: &Rows<'_>, moves: usize, key: &str) {
        let expected: Vec<E> = self.file.bits(&format!("{key}_{}", E::NAME));
        for backend in backends::tested() {
            let mut got: Vec<E> = self.file.bits(&format!("cached_{}", E::NAME));
            let mut cache = CacheMut::new(&mut got, self.layout).expect("a cache that fits");
            for _ in 0..moves {
                self.rope(backend)
                    .rotate(&mut cache.slots(self.slots()), rows)
                    .expect("a slot for each row");
            }
            let doing = format!("{backend}, {}, {key}_{}", self.file.name, E::NAME);
            alike(&got, &expected, &doing);
        }
    }

    /// Tests the keys of a file in each of its element types, and their distance from the exact keys.
    fn all_elements(&self) -> usize {
        let mut count = 0;
        let has = |key: &str| self.file.find(key).is_some();
        if has("shifted_f32") {
            self.elements::<f32>(&self.rows, 1, "shifted");
            self.near();
            count += 1;
        }
        if has("shifted_bf16") {
            self.elements::<bf16>(&self.rows, 1, "shifted");
            count += 1;
        }
        if has("shifted_f16") {
            self.elements::<f16>(&self.rows, 1, "shifted");
            count += 1;
        }
        count
    }

    /// Compares f32 with exact arithmetic, within the bound of a pair.
    fn near(&self) {
        let exact: Vec<f64> = self.file.bits("shifted_exact_f64_f32");
        let mut got: Vec<f32> = self.file.bits("cached_f32");
        let mut cache = CacheMut::new(&mut got, self.layout).expect("a cache that fits");
        Rope::new(self.pairing)
            .rotate(&mut cache.slots(self.slots()), &self.rows)
            .expect("a slot for each row");
        let (head_dim, pairs) = (self.file.decimal("head_dim"), self.file.decimal("n_freq"));
        for (got, exact) in got.chunks(head_dim).zip(exact.chunks(head_dim)) {
            for pair in 0..pairs {
                let members = crate::models::members(self.pairing, pair, pairs);
                let length = exact[members[0]].hypot(exact[members[1]]);
                for channel in members {
                    let off = (f64::from(got[channel]) - exact[channel]).abs();
                    let bound = bounds::F32_PAIR * bounds::of::<f32>().u * length;
                    assert!(off <= bound, "{}: channel {channel}", self.file.name);
                }
            }
        }
    }

    /// Tests E4M3 with a given scale.
    fn e4m3(&self) {
        let scale = QuantScale::Divide(self.file.bits::<f32>("scale_e4m3fn")[0].into());
        for backend in backends::tested() {
            let mut got = self.file.bits::<u8>("cached_e4m3fn");
            let mut cache = CacheMut::coded(
                &mut got,
                self.layout,
                CacheFormat::quantized(QuantFormat::E4m3, scale),
            )
            .expect("a cache that fits");
            self.rope(backend)
                .rotate(&mut cache.slots(self.slots()), &self.rows)
                .expect("a slot for each row");
            let expected = self.file.bits::<u8>("shifted_e4m3fn");
            assert_eq!(got, expected, "{backend}, {}, E4M3", self.file.name);
        }
    }

    /// Tests integers with a scale per token and head, which is made anew.
    fn int8(&self, rows: &Rows<'_>, moves: usize, key: &str) {
        let heads = self.file.decimal("heads");
        let scale = QuantScale::Computed {
            least: 1e-6,
            at: ScalePlace::Separate(ScaleLayout::nh([1, heads])),
        };
        for backend in backends::tested() {
            let mut got = self.file.bits::<u8>("cached_int8");
            let mut scales: Vec<f32> = self.file.bits("cached_scale_int8");
            let mut cache = CacheMut::coded_with_scales(
                &mut got,
                self.layout,
                CacheFormat::quantized(QuantFormat::Int8RoundAway, scale),
                &mut scales,
            )
            .expect("a cache that fits");
            for _ in 0..moves {
                self.rope(backend)
                    .rotate(&mut cache.slots(self.slots()), rows)
                    .expect("a slot for each row");
            }
            let doing = format!("{backend}, {}, {key}_int8", self.file.name);
            let expected: Vec<f32> = self.file.bits(&format!("{key}_scale_int8"));
            alike(&scales, &expected, &doing);
            assert_eq!(got, self.file.bits::<u8>(&format!("{key}_int8")), "{doing}");
        }
    }
}

fn axis_ids(file: &Golden, name: &str, axes: usize) -> Vec<i64> {
    let axis = |axis| file.decimals::<i64>(&format!("{name}_axis{axis}"));
    (0..axes).flat_map(axis).collect()
}

/// Asserts the rows of a file.
fn same_rows(rows: &Rows<'_>, file: &Golden, [cos, sin]: [&str; 2]) {
    let pairs = file.decimal("n_freq");
    let (cos, sin): (Vec<f32>, Vec<f32>) = (file.bits(cos), file.bits(sin));
    let expected: Vec<u32> = cos
        .chunks(pairs)
        .zip(sin.chunks(pairs))
        .flat_map(|(cos, sin)| cos.iter().chain(sin).map(|value| value.to_bits()))
        .collect();
    assert_eq!(bits(rows), expected, "{}", file.name);
}

/// Compares steps and inverse frequencies with those of a file whose keys have this prefix.
fn steps(file: &Golden, prefix: &str, frequencies: &Frequencies<'_>) {
    let steps: Vec<u128> = file.bits(&format!("{prefix}turn_step_u128"));
    let inverse: Vec<f64> = file.bits(&format!("{prefix}inv_freq_exact_f64"));
    let pairs = frequencies.iter().count();
    assert_eq!([steps.len(), inverse.len()], [pairs; 2], "{}", file.name);
    for ((pair, step), inverse) in frequencies.iter().zip(steps).zip(inverse) {
        assert_eq!(pair.inverse.to_bits(), inverse.to_bits(), "{}", file.name);
        let off = pair.step.abs_diff(step);
        assert!(off <= bounds::step(inverse / TAU), "{}: {off}", file.name);
    }
}

/// The original keys of a file, rotated to their old and to their new positions, equal the file's own keys within the
/// bound of a pair; the kept keys are rounded.
fn keys_are_at(file: &Golden, here: &Rows<'_>, there: &Rows<'_>) {
    let [tokens, heads, head_dim, pairs] =
        ["tokens", "heads", "head_dim", "n_freq"].map(|key| file.decimal(key));
    let (pairing, _) = file.pairings();
    let kept: Vec<f32> = file.bits("cached_f32");
    let kept: Vec<f64> = kept.into_iter().map(f64::from).collect();
    let target: Vec<f64> = file.bits("target_f64");
    for (rows, exact, unit) in [
        (here, kept, bounds::F32_PAIR + 1.0),
        (there, target, bounds::F32_PAIR),
    ] {
        let mut keys: Vec<f32> = file.bits("k_orig_f32");
        assert_eq!(keys.len(), exact.len());
        let shape = [1, tokens, heads, head_dim];
        let mut tensor = TensorMut::new(&mut keys, shape).expect("a valid tensor");
        Rope::new(pairing)
            .rotate(&mut tensor, rows)
            .expect("rows that fit");
        for (key, exact) in keys.chunks(head_dim).zip(exact.chunks(head_dim)) {
            let off = |channel: usize| (f64::from(key[channel]) - exact[channel]).abs();
            for pair in 0..pairs {
                let [a, b] = members(pairing, pair, pairs);
                let bound = unit * bounds::of::<f32>().u * exact[a].hypot(exact[b]);
                assert!(off(a) <= bound && off(b) <= bound, "{}: {pair}", file.name);
            }
            assert!((2 * pairs..head_dim).all(|channel| off(channel) == 0.0));
        }
    }
}

/// By a delta: on one axis, in a part of the head, on three axes.
#[test]
fn keys_move_by_deltas() {
    for (name, axes, base) in [
        ("half_d64", Axes::from(64), 1e4),
        ("interleaved_d48_partial", Axes::from(32), 5e5),
        ("mrope_d32", Axes::mrope(32, [4, 6, 6]), 1e6),
    ] {
        let file = Golden::file(&format!("shift/{name}.txt"));
        let count = if name == "mrope_d32" { 3 } else { 1 };
        let deltas = axis_ids(&file, "delta", count);
        let frequencies = Frequencies::new(axes, base, &Scaling::Default).expect("sane");
        let positions = || match count {
            1 => Positions::from(&deltas),
            _ => Positions::axis_major(&deltas),
        };
        let rows = rows_of(frequencies.shift(positions()));
        same_rows(&rows, &file, ["cos_cr_delta", "sin_cr_delta"]);
        steps(&file, "", &frequencies);
        let pair_axes: Vec<usize> = frequencies.iter().map(|pair| pair.axis).collect();
        assert_eq!(pair_axes, file.decimals::<usize>("pair_axis"), "{name}");
        let ids = axis_ids(&file, "positions", count);
        let there: Vec<i64> = ids
            .iter()
            .zip(&deltas)
            .map(|(id, delta)| id + delta)
            .collect();
        let at = |ids: &[i64]| match count {
            1 => frequencies.rows(ids).expect("ids"),
            _ => frequencies.rows(Positions::axis_major(ids)).expect("ids"),
        };
        keys_are_at(&file, &at(&ids), &at(&there));
        let mut storage = vec![f32::NAN; rows.len() * frequencies.rotary_dim() + 3];
        let angles = frequencies.shift(positions()).expect("deltas");
        let stored = angles.rows_in(&mut storage);
        assert_eq!(bits(&stored.expect("room")), bits(&rows));
        assert!(
            storage[storage.len() - 3..]
                .iter()
                .all(|value| value.is_nan())
        );

        let keys = Keys::new(&file, rows);
        assert_eq!(keys.all_elements(), 3);
        keys.e4m3();
        keys.int8(&keys.rows, 1, "shifted");
        if file.find("repeated_bf16").is_none() {
            continue;
        }
        // As many steps, each rounded to the cache's type.
        let words: Vec<&str> = file.text("repeat").split_ascii_whitespace().collect();
        let moves = words[0].parse().expect("a number");
        let delta: i64 = words[2].trim_matches(',').parse().expect("a number");
        let deltas = vec![delta; keys.rows.len()];
        let rows = rows_of(frequencies.shift(&deltas));
        keys.elements::<bf16>(&rows, moves, "repeated");
        keys.elements::<f16>(&rows, moves, "repeated");
        keys.int8(&rows, moves, "repeated");
    }
}

/// Returns the rows of angles.
fn rows_of(angles: Result<TokenAngles<'_>, Error>) -> Rows<'static> {
    angles.expect("positions").rows().expect("memory")
}

/// From old frequencies and positions to new ones, with the quotient of their attention factors.
#[test]
fn keys_move_between_frequencies() {
    let yarn = |factor| Scaling::Yarn(Yarn::new(factor, 32768));
    let plain_yarn = |factor| {
        Scaling::Yarn(Yarn {
            attention_factor: Some(1.0),
            ..Yarn::new(factor, 32768)
        })
    };
    let dynamic = |length| Scaling::DynamicNtk {
        factor: 2.0,
        max_position_embeddings: 4096,
        length,
    };
    for (name, base, [old, new], unscaled) in [
        (
            "yarn_2_to_4",
            1e6,
            [yarn(2.0), yarn(4.0)],
            [plain_yarn(2.0), plain_yarn(4.0)],
        ),
        (
            "dynamic_ntk_8192_to_16384",
            1e4,
            [dynamic(8192), dynamic(16384)],
            [dynamic(8192), dynamic(16384)],
        ),
    ] {
        let file = Golden::file(&format!("shift/{name}.txt"));
        let frequencies = |scaling| Frequencies::new(64, base, scaling).expect("sane parameters");
        let (old, new) = (frequencies(&old), frequencies(&new));
        let (from, to): (Vec<i64>, Vec<i64>) =
            (file.decimals("positions"), file.decimals("new_positions"));
        let rows = rows_of(new.shift_from(&old, &from, &to));
        same_rows(&rows, &file, ["cos_scaled_cr", "sin_scaled_cr"]);
        for (prefix, frequencies) in [("old_", &old), ("new_", &new)] {
            steps(&file, prefix, frequencies);
            let factor = file.bits::<f64>(&format!("{prefix}attention_factor_f64"));
            assert_eq!(factor, [frequencies.attention_factor()], "{name}");
        }
        let ratio = new.attention_factor() / old.attention_factor();
        assert_eq!(file.bits::<f64>("ratio_f64"), [ratio], "{name}");
        // The factors of the ratio.
        let [from_plain, plain] = unscaled.each_ref().map(frequencies);
        let turned = rows_of(plain.shift_from(&from_plain, &from, &to));
        same_rows(&turned, &file, ["cos_cr", "sin_cr"]);
        let (here, there) = (old.rows(&from).expect("ids"), new.rows(&to).expect("ids"));
        keys_are_at(&file, &here, &there);
        let mut storage = vec![0.0; rows.len() * 64];
        let angles = new.shift_from(&old, &from, &to).expect("as many positions");
        let stored = angles.rows_in(&mut storage);
        assert_eq!(bits(&stored.expect("room")), bits(&rows));
        // Between equal frequencies it is a delta.
        let moved = rows_of(new.shift_from(&new, &from, &to));
        let deltas: Vec<i64> = to.iter().zip(&from).map(|(to, from)| to - from).collect();
        assert_eq!(bits(&moved), bits(&rows_of(new.shift(&deltas))));
        let keys = Keys::new(&file, rows);
        assert_eq!(keys.all_elements(), 2);
    }
}

/// The keys already contain the attention factor: a delta does not multiply by it again.
#[test]
fn a_delta_has_no_magnitude() {
    let yarn = Scaling::Yarn(Yarn::new(4.0, 32768));
    let scaled = Frequencies::new(64, 1e6, &yarn).expect("sane parameters");
    assert!(scaled.attention_factor() > 1.1);
    let rows = rows_of(scaled.shift(&[0_i64, -5, 1 << 40]));
    assert_eq!(rows.attention_factor(), 1.0);
    for index in 0..rows.len() {
        let (cos, sin) = rows.row(index, 0).expect("a row");
        for (cos, sin) in cos.iter().zip(sin) {
            let length = f64::from(*cos).hypot(f64::from(*sin));
            assert!((length - 1.0).abs() < 1e-7, "{length}");
        }
        if index == 0 {
            assert!(cos.iter().all(|&cos| cos == 1.0) && sin.iter().all(|&sin| sin == 0.0));
        }
    }
}

/// Returns keys of squared length 2 after a move by rows, on every backend and in a plan with a stage.
fn moved(rows: &impl Angles) -> Result<[[f64; 2]; ROWS], Error> {
    let layout = CacheLayout::nhd([ROWS, 1, 1, 2]).expect("a small cache");
    let on = |rope: Rope| {
        let mut keys = [1.0_f32; 2 * ROWS];
        let mut cache = CacheMut::new(&mut keys, layout).expect("a cache that fits");
        let result = rope.rotate(&mut cache.slots(0..ROWS), rows);
        let scaled = rope.with_scale(Scale::constant(3.0));
        let mut others = [1.0_f32; 2 * ROWS];
        let mut cache = CacheMut::new(&mut others, layout).expect("a cache that fits");
        assert_eq!(scaled.rotate(&mut cache.slots(0..ROWS), rows), result);
        assert_eq!(keys, others, "{}", rope.backend());
        assert!(result.is_ok() || keys == [1.0; 2 * ROWS]);
        result.map(|()| [0, 1, 2].map(|row| [keys[2 * row], keys[2 * row + 1]].map(f64::from)))
    };
    let rope = Rope::new(Pairing::Half);
    let best = on(rope);
    for backend in backends::tested() {
        assert_eq!(
            on(rope.with_backend(backend).expect("available")),
            best,
            "{backend}"
        );
    }
    best
}

const ROWS: usize = 3;

/// Asserts that rows move keys, and that the moved keys have this squared length.
#[track_caller]
fn have_square(rows: &impl Angles, square: f64) {
    for key in moved(rows).expect("a shift") {
        let off = (key[0] * key[0] + key[1] * key[1]) / square - 1.0;
        assert!(off.abs() < 1e-6, "{key:?}: {off}");
    }
}

/// Returns one pair of a YaRN model, which has an attention factor.
fn yarn(factor: f64) -> Frequencies<'static> {
    let scaling = Scaling::Yarn(Yarn::new(factor, 32768));
    Frequencies::new(2, 1e4, &scaling).expect("sane parameters")
}

/// Cached keys contain the attention factor of their model, and rows that contain it as well are refused: keys of
/// squared length 2 would get 2.59. Rows of a shift, rows of unknown factor, and rows with a declared factor of 1 move
/// keys.
#[test]
fn rows_with_an_attention_factor_do_not_move_keys() {
    let old = yarn(4.0);
    let factor = old.attention_factor();
    let positions = [-7_i64, 5, 1000];
    let refused = Err(Error::Cache(CacheError::ShiftFactor { factor }));
    let rows = old.rows(&positions).expect("positions");
    assert_eq!(moved(&rows), refused);
    let gathered = rows.gather(&[2_u32, 0, 1]).expect("rows");
    assert_eq!(moved(&gathered), refused);
    assert_eq!(moved(&rows.narrow(0..ROWS).expect("rows")), refused);
    assert_eq!(moved(&rows.narrow_pairs(0..1).expect("a pair")), refused);
    assert_eq!(moved(&rows.repeated(1, ROWS).expect("a row")), refused);
    let mut storage = [0.0; 2 * ROWS];
    let back = rows.inverted(&mut storage).expect("an inverse");
    let error = Error::Cache(CacheError::ShiftFactor {
        factor: back.attention_factor(),
    });
    assert_eq!(moved(&back), Err(error));
    have_square(&rows_of(old.shift(&positions)), 2.0);

    // Given rows are accepted unless a factor was declared.
    let row = rows.row(0, 0).expect("a row");
    let values = [row.0[0], row.1[0]].repeat(ROWS);
    let given = || Rows::new(&values, [ROWS, 2]).expect("rows");
    have_square(&given(), 2.0 * factor * factor);
    let told = given().with_attention_factor(factor).expect("a factor");
    assert_eq!(moved(&told), refused);
    let taken = rows.with_attention_factor(1.0).expect("a factor");
    have_square(&taken, 2.0 * factor * factor);
}

/// The rows of a shift need integer positions of all axes, one for each other, and equal channels.
#[test]
fn rows_that_no_shift_has() {
    let frequencies =
        |axes: Axes<'_>| Frequencies::new(axes, 1e4, &Scaling::Default).expect("sane parameters");
    let (new, old) = (frequencies(Axes::from(8)), frequencies(Axes::from(6)));
    let three = frequencies(Axes::mrope(8, [1, 1, 2]));
    let integers = || Positions::from(0..3);
    let real = || Positions::from(&[1.5_f32, 2.0, 3.0]);
    let four = || Positions::axis_major(&[0_i64; 4]);
    let many = || Positions::from(0..usize::MAX / 8);
    let of_real = Error::Positions(PositionsError::NotAnInteger { value: 1.5 });
    let of_axes = Error::Positions(PositionsError::PerAxis { given: 4, axes: 3 });
    let of_dim = Error::Rows(RowsError::RotaryDim {
        rotary_dim: 6,
        required: "the same in the old frequencies as in the new",
    });
    let count = |given, needed| Error::Count {
        name: "from",
        given,
        needed,
    };
    let too_long = Error::Frequencies(FrequenciesError::RowsTooLong {
        tokens: usize::MAX / 8,
        rotary_dim: 8,
    });
    let storage = &mut [7.0_f32; 24];
    for (new, old, from, to, error) in [
        (&new, &old, integers(), integers(), of_dim),
        (&new, &new, (0..2).into(), integers(), count(2, 3)),
        (&new, &new, real(), integers(), of_real),
        (&new, &new, integers(), real(), of_real),
        (&three, &three, four(), four(), of_axes),
        (&new, &new, many(), many(), too_long),
    ] {
        let refusal = new.shift_from(old, from, to).and_then(|angles| {
            assert_eq!(error, too_long);
            angles.rows_in(storage).map(drop)
        });
        assert_eq!(refusal, Err(error));
    }
    assert_eq!(three.shift(four()).err(), Some(of_axes));
    let refusal = new.shift(many()).and_then(|angles| angles.rows());
    assert_eq!(refusal.err(), Some(too_long));
    let short = Some(Error::Storage {
        what: "values of storage",
        given: 23,
        needed: 24,
    });
    let moves = new.shift_from(&new, 0..3, 0..3).expect("positions");
    assert_eq!(moves.rows_in(&mut storage[..23]).err(), short);
    let shift = new.shift(0..3).expect("deltas");
    assert_eq!(shift.rows_in(&mut storage[..23]).err(), short);
    assert_eq!(storage, &[7.0; 24]);
}

/// Rows between two frequencies have the quotient of their attention factors, and move keys.
#[test]
fn rows_between_frequencies_move_keys() {
    let (old, new) = (yarn(4.0), yarn(8.0));
    let ratio = new.attention_factor() / old.attention_factor();
    assert!(ratio > 1.05);
    let (from, to) = ([7_i64, 9, 11], [7_i64, 5, 3]);
    let angles = new.shift_from(&old, &from, &to).expect("positions");
    let moves = angles.rows().expect("memory");
    assert_eq!(moves.attention_factor(), ratio);
    have_square(&moves, 2.0 * ratio * ratio);
    have_square(&angles, 2.0 * ratio * ratio);
    let mut storage = [0.0; 2 * ROWS];
    let moves = angles.rows_in(&mut storage).expect("room");
    have_square(&moves.narrow(0..ROWS).expect("rows"), 2.0 * ratio * ratio);
}

/// The inverse of such rows moves keys, too.
#[test]
fn inverted_rows_between_frequencies_move_keys_back() {
    let (old, new) = (yarn(4.0), yarn(8.0));
    let ratio = new.attention_factor() / old.attention_factor();
    let (from, to) = ([7_i64, 9, 11], [7_i64, 5, 3]);
    let moves = rows_of(new.shift_from(&old, &from, &to));
    let mut storage = [0.0; 2 * ROWS];
    let back = moves.inverted(&mut storage).expect("an inverse");
    have_square(&back, 2.0 / (ratio * ratio));
}

/// A delta of zero keeps every bit, also bits that no rounding would restore: payloads of NaN, and a scale that differs
/// from the one that would be made.
#[test]
fn a_delta_of_zero_keeps_the_bits() {
    let source = &mut Source::random("a_delta_of_zero_keeps_the_bits");
    let frequencies = Frequencies::new(32, 1e4, &Scaling::Default).expect("sane parameters");
    let deltas = [0_i64, 7, 0, -3];
    let rows = rows_of(frequencies.shift(&deltas));
    let layout = CacheLayout::hdn([1, 2, 32, 4]).expect("a small cache");
    let place = |slot: usize, head: usize, channel: usize| (head * 32 + channel) * 4 + slot;
    let made = QuantScale::Computed {
        least: 1e-6,
        at: ScalePlace::Separate(ScaleLayout::nh([4, 2])),
    };
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            let rope = Rope::new(pairing).with_backend(backend).expect("available");
            let words: Vec<f16> = (0..256)
                .map(|_| f16::from_bits(source.word() as u16))
                .collect();
            let mut got = words.clone();
            let mut cache = CacheMut::new(&mut got, layout).expect("a cache that fits");
            rope.rotate(&mut cache.slots(0..4), &rows)
                .expect("a slot for each");
            for code in QuantFormat::ALL {
                let bytes: Vec<u8> = (0..256).map(|_| source.word() as u8).collect();
                let (mut codes, mut scales) = (bytes.clone(), [f32::NAN, 3.0, 0.5, 1e9].repeat(2));
                let before = scales.clone();
                let mut cache = CacheMut::coded_with_scales(
                    &mut codes,
                    layout,
                    CacheFormat::quantized(code, made),
                    &mut scales,
                )
                .expect("a cache that fits");
                rope.rotate(&mut cache.slots(0..4), &rows)
                    .expect("a slot for each");
                for slot in [0, 2] {
                    for head in 0..2 {
                        let at = slot * 2 + head;
                        assert_eq!(scales[at].to_bits(), before[at].to_bits(), "{code:?}");
                        for channel in 0..32 {
                            let at = place(slot, head, channel);
                            assert_eq!(codes[at], bytes[at], "{backend}, {code:?}, slot {slot}");
                        }
                    }
                }
                assert_ne!(codes, bytes, "{code:?}: nothing has moved");
            }
            for slot in [0, 2] {
                for (head, channel) in (0..2).flat_map(|head| (0..32).map(move |c| (head, c))) {
                    let at = place(slot, head, channel);
                    assert_eq!(got[at].to_bits(), words[at].to_bits(), "{backend}, {slot}");
                }
            }
        }
    }
}

/// Compares keys of four tokens and two heads, shifted in a cache, with their rotation in a tensor, which skips no
/// token.
fn shifted_as_rotated(source: &mut Source<'_>, rows: &Rows<'_>, doing: &str) {
    let shape = [1, 4, 2, 40];
    let x: Vec<f32> = (0..320).map(|_| source.unit() + 2.0).collect();
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            let rope = Rope::new(pairing).with_backend(backend).expect("available");
            let (mut got, mut expected) = (x.clone(), x.clone());
            let layout = CacheLayout::nhd(shape).expect("a small cache");
            let mut cache = CacheMut::new(&mut got, layout).expect("a cache that fits");
            rope.rotate(&mut cache.slots(0..4), rows)
                .expect("a slot for each row");
            let mut tensor = TensorMut::new(&mut expected, shape).expect("a valid tensor");
            rope.rotate(&mut tensor, rows).expect("rows that fit");
            alike(&got, &expected, &format!("{backend}, {pairing:?}, {doing}"));
        }
    }
}

/// A token is skipped only if no pair of it moves. Tested moves: on one axis of three, the axis of the last pairs; by
/// an angle whose cos is 1 in f32; by half a turn, whose sin is 0; in one head of two.
#[test]
fn one_pair_that_moves_moves_its_token() {
    let source = &mut Source::random("one_pair_that_moves_moves_its_token");
    let mrope = Frequencies::new(Axes::mrope(32, [4, 6, 6]), 1e6, &Scaling::Default).expect("sane");
    let deltas = [[0_i64, 5, 0, 0], [0, 0, -7, 0], [0, 0, 0, 1]].concat();
    let rows = rows_of(mrope.shift(Positions::axis_major(&deltas)));
    shifted_as_rotated(source, &rows, "one axis");

    const PAIRS: usize = 16;
    for pair in 0..PAIRS {
        for (cos, sin) in [(1.0_f32, 1e-4_f32), (-1.0, 0.0)] {
            for heads in [1, 2] {
                for head in 0..heads {
                    let still = [[1.0_f32; PAIRS], [0.0; PAIRS]].concat();
                    let mut values = still.repeat(4 * heads);
                    let row = (2 * heads + head) * 2 * PAIRS;
                    (values[row + pair], values[row + PAIRS + pair]) = (cos, sin);
                    let rows = Rows::new(&values, [4 * heads, 2 * PAIRS])
                        .and_then(|rows| rows.with_heads(heads))
                        .expect("four tokens");
                    let doing = format!("pair {pair} of head {head} of {heads} by {cos}, {sin}");
                    shifted_as_rotated(source, &rows, &doing);
                    if sin == 0.0 {
                        half_a_turn_of_codes(source, &rows, (pair, head), &doing);
                    }
                }
            }
        }
    }
}

/// Half a turn changes the signs of the codes of one pair in token 2, in all heads if they share their row.
fn half_a_turn_of_codes(
    source: &mut Source<'_>,
    rows: &Rows<'_>,
    (pair, head): (usize, usize),
    doing: &str,
) {
    let x: Vec<u8> = (0..320).map(|_| source.within(1, 127) as u8).collect();
    let layout = CacheLayout::nhd([1, 4, 2, 40]).expect("a small cache");
    for backend in backends::tested() {
        for pairing in Pairing::ALL {
            let mut expected = x.clone();
            for moved in 0..2 {
                for channel in members(pairing, pair, 16) {
                    let code = &mut expected[(2 * 2 + moved) * 40 + channel];
                    if moved == head || rows.heads() == 1 {
                        *code = code.wrapping_neg();
                    }
                }
            }
            let rope = Rope::new(pairing).with_backend(backend).expect("available");
            let mut got = x.clone();
            let scale = QuantScale::Divide(1.0.into());
            let mut cache = CacheMut::coded(
                &mut got,
                layout,
                CacheFormat::quantized(QuantFormat::Int8Even, scale),
            )
            .expect("a cache that fits");
            rope.rotate(&mut cache.slots(0..4), rows)
                .expect("a slot for each row");
            assert_eq!(got, expected, "{backend}, {pairing:?}, {doing}");
        }
    }
}

/// Rotates slots of a cache in place, and one slot after the other in a copy; returns both.
fn moved_once<'s>(
    keys: &[f32],
    layout: CacheLayout,
    slots: impl IntoSlots<'s>,
    rows: &Rows<'_>,
    once: &[(usize, usize)],
) -> (Result<(), Error>, [Vec<f32>; 2]) {
    let rope = Rope::new(Pairing::Half);
    let (mut got, mut expected) = (keys.to_vec(), keys.to_vec());
    let mut cache = CacheMut::new(&mut got, layout).expect("a cache");
    let result = rope.rotate(&mut cache.slots(slots), rows);
    let mut cache = CacheMut::new(&mut expected, layout).expect("a cache");
    for &(slot, token) in once {
        let row = rows.narrow(token..token + 1).expect("a row");
        rope.rotate(&mut cache.slots(slot..slot + 1), &row)
            .expect("one slot");
    }
    (result, [got, expected])
}

/// A slot of several tokens moves once, if their rows are equal; otherwise the slot and both tokens are named, and
/// nothing moves. Slots are few, many, in order, in pages, and far apart.
#[test]
fn slots_that_repeat_move_once() {
    let source = &mut Source::random("slots_that_repeat_move_once");
    let frequencies = Frequencies::new(4, 1e4, &Scaling::Default).expect("frequencies");
    for (blocks, most) in [(4, 3), (40, 150), (400, 1500), (20_000, 700)] {
        let layout = CacheLayout::nhd([blocks, 16, 1, 4]).expect("a cache");
        let keys: Vec<f32> = (0..layout.end()).map(|_| source.unit()).collect();
        for page in [1, 1, 3, 16] {
            // Tokens by page, some of them twice; a slot moves by a delta of its own.
            let count = source.within(2, most).div_ceil(page);
            let starts: Vec<usize> = (0..count)
                .map(|_| source.below(blocks * 16 / page) * page)
                .collect();
            let delta = |slot: usize| -((slot % 7) as i64);
            let mut slots: Vec<i64> = starts
                .iter()
                .flat_map(|&start| start as i64..(start + page) as i64)
                .collect();
            slots.push(slots[source.below(slots.len())]);
            if source.once_in(3) {
                slots.insert(source.below(slots.len()), -1);
            }
            let mut deltas: Vec<i64> = slots
                .iter()
                .map(|&slot| delta(slot.max(0) as usize))
                .collect();
            let mut seen = std::collections::HashMap::new();
            for (token, &slot) in slots.iter().enumerate() {
                if slot >= 0 {
                    seen.entry(slot as usize).or_insert(token);
                }
            }
            let once: Vec<(usize, usize)> =
                seen.iter().map(|(&slot, &token)| (slot, token)).collect();
            let rows = rows_of(frequencies.shift(&deltas));
            let offsets: Vec<i64> = slots.iter().map(|&slot| (slot * 4).max(-1)).collect();
            for by_offset in [false, true] {
                let slots = match by_offset {
                    true => Slots::offsets(&offsets),
                    false => Slots::from(&slots),
                };
                let (result, [got, expected]) = moved_once(&keys, layout, slots, &rows, &once);
                assert_eq!(result, Ok(()));
                assert!(got == expected, "{blocks} blocks, pages of {page}");
                // The call makes the rows.
                let mut other = keys.clone();
                let mut cache = CacheMut::new(&mut other, layout).expect("a cache");
                let rope = Rope::new(Pairing::Half);
                let at = frequencies.at(&deltas).expect("positions");
                assert_eq!(rope.rotate(&mut cache.slots(slots), &at), Ok(()));
                assert!(other == expected);
            }
            // The last token is one of the others again, with another delta.
            let last = slots.len() - 1;
            deltas[last] -= 1;
            let rows = rows_of(frequencies.shift(&deltas));
            let (result, [got, _]) = moved_once(&keys, layout, &slots, &rows, &[]);
            let Err(Error::Slots(SlotsError::Repeated {
                slot,
                first,
                second,
            })) = result
            else {
                panic!("{result:?}");
            };
            assert_eq!(
                (slot as i64, slots[first], second),
                (slots[last], slots[last], last)
            );
            assert!(first < last && got == keys);
            let mut other = keys.clone();
            let mut cache = CacheMut::new(&mut other, layout).expect("a cache");
            let at = frequencies.at(&deltas).expect("positions");
            let result = Rope::new(Pairing::Half).rotate(&mut cache.slots(&slots), &at);
            assert!(matches!(
                result,
                Err(Error::Slots(SlotsError::Repeated { .. }))
            ));
            assert!(other == keys);
        }
    }
    // Two sequences that share a page, in a table.
    let layout = CacheLayout::nhd([8, 2, 1, 4]).expect("a cache");
    let keys: Vec<f32> = (0..layout.end()).map(|_| source.unit()).collect();
    let table = [5_i64, 1, /* */ 5, 3];
    let (starts, sequences) = ([0_i64, 2, 4], [0_i64, 0, 0, 1, 1, 1]);
    let slots = Slots::pages(&table, &starts, &sequences, &[0_i64, 1, 2, 0, 1, 3]);
    let rows = rows_of(frequencies.shift(&[-1_i64; 6]));
    let once = [(10, 0), (11, 1), (2, 2), (7, 5)];
    let (result, [got, expected]) = moved_once(&keys, layout, slots, &rows, &once);
    assert_eq!(result, Ok(()));
    assert!(got == expected);
    let rows = rows_of(frequencies.shift(&[-1_i64, -1, -1, -1, -2, -1]));
    let (result, [got, _]) = moved_once(&keys, layout, slots, &rows, &[]);
    let (slot, first, second) = (11, 1, 4);
    let repeated = SlotsError::Repeated {
        slot,
        first,
        second,
    };
    assert_eq!(result, Err(Error::Slots(repeated)));
    assert!(got == keys);
}
