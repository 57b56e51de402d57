//! Mixed axes: the rows of the golden data of timm, Mochi and HDiT, bit for bit; sums compared with a separate
//! definition; and the cases in which the rows equal those of ordinary frequencies.

use half::bf16;
use rope_core::axes::{Axes, MixedAngle, MixedFrequencies};
use rope_core::error::{FrequenciesError, PositionsError, RowsError};
use rope_core::{
    Backend, Dimension, Error, Frequencies, FrequencyChunk, IntoPositions, Layout, Pairing,
    Positions, Rope, Rows, TensorMut,
};
use rope_models::{GridIndexing, initial_axial, initial_mixed};
use rope_tests::correctly_rounded::{Coordinate, cos_sin_of_sum};
use rope_tests::golden::{Bits, Golden, hex, lines};
use rope_tests::{Number, Source, bounds};

use crate::models::{alike, bits, members};

/// Returns the same frequencies on every available backend.
fn everywhere(
    frequencies: &MixedFrequencies<'static>,
) -> impl Iterator<Item = (Backend, MixedFrequencies<'static>)> {
    Backend::available().map(|backend| {
        let made = frequencies.clone().with_backend(backend);
        (backend, made.expect("an available backend"))
    })
}

fn mixed<T: Copy + Into<f64>>(inverse: &[T], shape: [usize; 3]) -> MixedFrequencies<'static> {
    MixedFrequencies::new(inverse, shape, 1.0).expect("frequencies")
}

/// Returns the values of the rows, `[tokens, heads, [cos | sin]]`.
fn values_of<'p>(
    frequencies: &MixedFrequencies<'_>,
    positions: impl IntoPositions<'p>,
) -> Result<Vec<f32>, Error> {
    let rows = frequencies.rows(positions)?;
    let row = |index| rows.row(index / rows.heads(), index % rows.heads());
    let all = (0..rows.len() * rows.heads()).filter_map(row);
    Ok(all.flat_map(|(cos, sin)| [cos, sin].concat()).collect())
}

/// Returns the cos and the sin of all rows, each as `[token, head, pair]`.
fn cos_and_sin(values: &[f32], pairs: usize) -> [Vec<f32>; 2] {
    let rows = values.chunks_exact(2 * pairs);
    [0, pairs].map(|first| {
        rows.clone()
            .flat_map(|row| &row[first..first + pairs])
            .copied()
            .collect()
    })
}

fn demand(values: &[f32], pairs: usize, file: &Golden, [cos, sin]: [&str; 2], backend: Backend) {
    let made = cos_and_sin(values, pairs);
    for (made, key) in made.iter().zip([cos, sin]) {
        let doing = format!("{backend}, {}, {key}", file.name);
        alike(made, &file.bits(key), &doing);
    }
}

/// Rotates `[token, head, head_dim]` by rows `[token, head]`, head by head and all at once, and asserts the values of a
/// file.
fn rotated<E: Number + Bits>(
    file: &Golden,
    pairing: Pairing,
    rows: &[f32],
    rotary_dim: usize,
    [from, to]: [&str; 2],
) {
    let (heads, head_dim) = (file.decimal("heads"), file.decimal("head_dim"));
    let expected: Vec<E> = file.bits(to);
    for backend in Backend::available() {
        let mut x: Vec<E> = file.bits(from);
        let tokens = x.len() / heads / head_dim;
        let layout = Layout::bshd([1, tokens, heads, head_dim]).expect("a small shape");
        let rope = Rope::new(pairing).with_backend(backend).expect("available");
        for head in 0..heads {
            let of_head = rows.chunks_exact(rotary_dim).skip(head).step_by(heads);
            let values = of_head.flatten().copied().collect();
            let rows = Rows::from_vec(values, [tokens, rotary_dim]).expect("whole rows");
            let one = layout
                .narrow(Dimension::Heads, head..head + 1)
                .expect("a head");
            let mut x = TensorMut::new(&mut x, one).expect("a layout that fits");
            rope.rotate(&mut x, &rows).expect("rows that fit");
        }
        let doing = format!("{backend}, {}, {to}", file.name);
        alike(&x, &expected, &doing);
        // All heads at once.
        let all =
            Rows::new(rows, [tokens * heads, rotary_dim]).and_then(|rows| rows.with_heads(heads));
        let mut x: Vec<E> = file.bits(from);
        let mut tensor = TensorMut::new(&mut x, layout).expect("a layout that fits");
        let all = all.expect("whole rows");
        rope.rotate(&mut tensor, &all).expect("rows that fit");
        alike(&x, &expected, &doing);
    }
}

/// Asserts that `q_f32` rotated by rows `[token, head]` is within the bound of a pair of the file's exact rotation.
fn near_exact(file: &Golden, pairing: Pairing, rows: &[f32], rotary_dim: usize) {
    let (heads, head_dim) = (file.decimal("heads"), file.decimal("head_dim"));
    let mut x: Vec<f32> = file.bits("q_f32");
    let exact: Vec<f64> = file.bits("q_exact_f64");
    assert_eq!(x.len(), exact.len());
    let tokens = x.len() / heads / head_dim;
    let layout = Layout::bshd([1, tokens, heads, head_dim]).expect("a shape");
    let rows = Rows::new(rows, [tokens * heads, rotary_dim]);
    let rows = rows.and_then(|rows| rows.with_heads(heads));
    let mut tensor = TensorMut::new(&mut x, layout).expect("a layout that fits");
    Rope::new(pairing)
        .rotate(&mut tensor, &rows.expect("whole rows"))
        .expect("rows that fit");
    let unit = bounds::F32_PAIR * bounds::of::<f32>().u;
    for (x, exact) in x.chunks(head_dim).zip(exact.chunks(head_dim)) {
        let off = |channel: usize| (f64::from(x[channel]) - exact[channel]).abs();
        for pair in 0..rotary_dim / 2 {
            let [a, b] = members(pairing, pair, rotary_dim / 2);
            let bound = unit * exact[a].hypot(exact[b]);
            assert!(off(a) <= bound && off(b) <= bound, "{}: {pair}", file.name);
        }
        assert!((rotary_dim..head_dim).all(|channel| off(channel) == 0.0));
    }
}

/// Returns rows `[token, head]` from tables `[token, head, pair]`.
fn rows_of_tables([cos, sin]: [&[f32]; 2], pairs: usize) -> Vec<f32> {
    let rows = cos.chunks(pairs).zip(sin.chunks(pairs));
    rows.flat_map(|(cos, sin)| [cos, sin].concat()).collect()
}

/// Returns the 64-bit FNV-1a hash of the bytes of f32 values.
fn fnv1a(values: impl Iterator<Item = f32>) -> u64 {
    values
        .flat_map(f32::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// A file of timm.
struct Timm {
    file: Golden,
    heads: usize,
    pairs: usize,
    tokens: usize,
    depth: usize,
}

impl Timm {
    fn all() -> Vec<Timm> {
        let files = Golden::all("mixed").into_iter();
        let files: Vec<Timm> = files
            .filter(|file| file.name.starts_with("timm"))
            .map(|file| Timm {
                heads: file.decimal("heads"),
                pairs: file.decimal("head_dim") / 2,
                tokens: file.decimal("tokens"),
                depth: file.decimal("depth"),
                file,
            })
            .collect();
        assert_eq!(files.len(), 4);
        files
    }

    /// Returns `[axis, head, pair]` of a block, from `[axis, block, head, pair]`.
    fn inverse(&self, block: usize) -> Vec<f32> {
        let all: Vec<f32> = self.file.bits("freqs_f32");
        let width = self.heads * self.pairs;
        let axis = |axis| &all[(axis * self.depth + block) * width..][..width];
        [axis(0), axis(1)].concat()
    }

    fn frequencies(&self, block: usize) -> MixedFrequencies<'static> {
        mixed(&self.inverse(block), [2, self.heads, self.pairs])
    }

    /// Returns the positions, `[axis, token]`.
    fn at(&self) -> Vec<f32> {
        ["t_x", "t_y"]
            .map(|key| self.file.bits::<f32>(key))
            .concat()
    }

    /// Returns the tokens of `[token, head, ..]` that the file has.
    fn sampled(&self, values: &[f32]) -> Vec<f32> {
        let token = self.heads * 2 * self.pairs;
        let sampled: Vec<usize> = self.file.decimals("sampled");
        let of = sampled
            .into_iter()
            .flat_map(|at| &values[at * token..][..token]);
        of.copied().collect()
    }

    /// Returns the hash of `[block, head, token, pair]`, from the rows `[token, head]` of each block.
    fn hash(&self, blocks: &[Vec<f32>]) -> u64 {
        let (heads, pairs) = (self.heads, self.pairs);
        fnv1a(blocks.iter().flat_map(|block| {
            (0..heads).flat_map(move |head| {
                let of_head = block.chunks_exact(pairs).skip(head).step_by(heads);
                of_head.flatten().copied()
            })
        }))
    }
}

#[test]
fn timm_rows_of_its_f32_angles() {
    for timm in Timm::all() {
        let (file, at) = (&timm.file, timm.at());
        let hashes = ["cos_cr_fnv1a64", "sin_cr_fnv1a64"]
            .map(|key| u64::from_str_radix(file.text(key), 16).expect("a hash"));
        for backend in Backend::available() {
            let mut blocks = [Vec::new(), Vec::new()];
            for block in 0..timm.depth {
                let frequencies = timm.frequencies(block).with_angle(MixedAngle::SummedF32);
                let frequencies = frequencies.with_backend(backend).expect("available");
                let values =
                    values_of(&frequencies, Positions::axis_major(&at)).expect("coordinates");
                if block == file.decimal("block") {
                    let keys = ["cos_cr_of_angle", "sin_cr_of_angle"];
                    let sampled = timm.sampled(&values);
                    demand(&sampled, timm.pairs, file, keys, backend);
                }
                let made = cos_and_sin(&values, timm.pairs);
                blocks
                    .iter_mut()
                    .zip(made)
                    .for_each(|(all, one)| all.push(one));
            }
            let made = blocks.map(|blocks| timm.hash(&blocks));
            assert_eq!(made, hashes, "{backend}, {}", file.name);
        }
    }
}

/// The angle of [`MixedAngle::SummedF32`] is timm's own, as documented.
#[test]
fn timm_angles() {
    for timm in Timm::all() {
        let (file, at) = (&timm.file, timm.at());
        let angles: Vec<Vec<f32>> = (0..timm.depth)
            .map(|block| {
                let inverse = timm.inverse(block);
                let (fx, fy) = inverse.split_at(timm.heads * timm.pairs);
                (0..timm.tokens)
                    .flat_map(|token| {
                        let (x, y) = (at[token], at[timm.tokens + token]);
                        fx.iter().zip(fy).map(move |(fx, fy)| x * fx + y * fy)
                    })
                    .collect()
            })
            .collect();
        let hash = file.text("angles_fnv1a64").split_whitespace().next();
        let hash = u64::from_str_radix(hash.expect("a hash"), 16).expect("a hash");
        assert_eq!(timm.hash(&angles), hash, "{}", file.name);
        let (block, width) = (&angles[file.decimal("block")], timm.heads * timm.pairs);
        let sampled: Vec<usize> = file.decimals("sampled");
        let sampled = sampled
            .into_iter()
            .flat_map(|at| &block[at * width..][..width]);
        let sampled: Vec<f32> = sampled.copied().collect();
        alike(&sampled, &file.bits("angle_f32"), &file.name);
    }
}

#[test]
fn timm_rows_of_exact_sums() {
    for timm in Timm::all() {
        let frequencies = timm.frequencies(timm.file.decimal("block"));
        let at = timm.at();
        for (backend, frequencies) in everywhere(&frequencies) {
            let values = values_of(&frequencies, Positions::axis_major(&at));
            let sampled = timm.sampled(&values.expect("coordinates"));
            let keys = ["cos_cr_exact", "sin_cr_exact"];
            demand(&sampled, timm.pairs, &timm.file, keys, backend);
            near_exact(&timm.file, Pairing::Interleaved, &sampled, 2 * timm.pairs);
        }
    }
}

#[test]
fn timm_queries() {
    for timm in Timm::all() {
        let (file, at) = (&timm.file, timm.at());
        let frequencies = timm.frequencies(file.decimal("block"));
        let frequencies = frequencies.with_angle(MixedAngle::SummedF32);
        let values = values_of(&frequencies, Positions::axis_major(&at));
        let rows = timm.sampled(&values.expect("coordinates"));
        let (pairing, rotary_dim) = (Pairing::Interleaved, 2 * timm.pairs);
        rotated::<f32>(
            file,
            pairing,
            &rows,
            rotary_dim,
            ["q_f32", "q_cr_of_angle_f32"],
        );
        rotated::<bf16>(
            file,
            pairing,
            &rows,
            rotary_dim,
            ["q_bf16", "q_cr_of_angle_bf16"],
        );
    }
}

/// timm's own tables, up to one unit of 2^-24 those of its angles, give timm's rotations.
#[test]
fn timm_tables() {
    for timm in Timm::all() {
        let file = &timm.file;
        let table = |key: &str| file.bits::<f32>(key);
        for function in ["cos", "sin"] {
            let theirs = table(&format!("{function}_timm"));
            let nearest = table(&format!("{function}_cr_of_angle"));
            assert_eq!(theirs.len(), nearest.len());
            let off = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
            let good = theirs
                .iter()
                .zip(&nearest)
                .all(|pair| off(pair) <= 2f64.powi(-24));
            assert!(good, "{}", file.name);
        }
        let tables = [&table("cos_timm")[..], &table("sin_timm")];
        let rows = rows_of_tables(tables, timm.pairs);
        let (pairing, rotary_dim) = (Pairing::Interleaved, 2 * timm.pairs);
        let keys = ["q_f32", "q_timm_f32"];
        rotated::<f32>(file, pairing, &rows, rotary_dim, keys);
        let keys = ["q_bf16", "q_timm_bf16"];
        rotated::<bf16>(file, pairing, &rows, rotary_dim, keys);
    }
}

/// timm's grids equal those of the file.
#[test]
fn grids() {
    let mut grids = 0;
    for timm in Timm::all() {
        let size = ["grid_h", "grid_w"].map(|key| timm.file.decimal(key) as u16);
        if size[0] == 0 {
            continue;
        }
        let indexing = match timm.file.text("grid_indexing") {
            "xy" => GridIndexing::Xy,
            "ij" => GridIndexing::Ij,
            other => panic!("{other}"),
        };
        let mut reals = vec![f32::NAN; 2 * timm.tokens + 1];
        let positions = indexing.positions_in(size, &mut reals).expect("room");
        assert_eq!(*positions, timm.at());
        assert!(reals[2 * timm.tokens].is_nan());
        let mut integers = vec![-1_i32; 2 * timm.tokens];
        let positions = indexing.positions_in(size, &mut integers).expect("room");
        // Integers and reals of the same value have the same rows.
        let frequencies = timm.frequencies(0);
        let values = values_of(&frequencies, Positions::axis_major(&*positions));
        let of_reals = values_of(&frequencies, Positions::axis_major(&timm.at()));
        alike(
            &values.expect("a grid"),
            &of_reals.expect("a grid"),
            "a grid",
        );
        grids += 1;
    }
    assert_eq!(grids, 3);
    let mut none = [0_u32; 0];
    let empty = GridIndexing::Ij.positions_in([0, 7], &mut none);
    assert_eq!(empty.map(|positions| positions.len()), Ok(0));
    let mut few = [9_u32; 11];
    let refused = GridIndexing::Ij.positions_in([2, 3], &mut few);
    let expected = Error::Storage {
        what: "positions of storage",
        given: 11,
        needed: 12,
    };
    assert_eq!(refused.map(|_| ()), Err(expected));
    assert_eq!(few, [9; 11]);
}

#[test]
fn mochi() {
    let file = Golden::file("mixed/mochi_3h_d32.txt");
    let (heads, pairs) = (file.decimal("heads"), file.decimal("head_dim") / 2);
    let inverse: Vec<f32> = file.bits("pos_frequencies_f32");
    let at: Vec<f32> = file.bits("positions_f32");
    let frequencies = mixed(&inverse, [3, heads, pairs]);
    // The angles of the file's tables, summed in f64 axis after axis.
    let (tokens, width) = (at.len() / 3, heads * pairs);
    let angles = (0..tokens).flat_map(|token| {
        let (at, inverse) = (&at, &inverse);
        (0..width).map(move |pair| {
            let term = |axis: usize| {
                f64::from(at[axis * tokens + token]) * f64::from(inverse[axis * width + pair])
            };
            (term(0) + term(1)) + term(2)
        })
    });
    assert!(angles.eq(file.bits::<f64>("angle_f64_seq")));
    for (backend, frequencies) in everywhere(&frequencies) {
        let values = values_of(&frequencies, Positions::axis_major(&at));
        let values = values.expect("coordinates");
        demand(
            &values,
            pairs,
            &file,
            ["cos_cr_exact", "sin_cr_exact"],
            backend,
        );
        rotated::<f32>(
            &file,
            Pairing::Interleaved,
            &values,
            2 * pairs,
            ["q_f32", "q_cr_f32"],
        );
        near_exact(&file, Pairing::Interleaved, &values, 2 * pairs);
    }
}

/// Fixed axes with separate frequencies for each head: zeros on the other axis.
#[test]
fn hdit() {
    let file = Golden::file("mixed/hdit_3h_d64.txt");
    let (heads, rotary_dim) = (file.decimal("heads"), file.decimal("rotary_dim"));
    let inverse: Vec<f32> = file.bits("freqs_f32");
    let at: Vec<f32> = file.bits("positions_f32");
    let frequencies = mixed(&inverse, [2, heads, rotary_dim / 2]);
    for (backend, frequencies) in everywhere(&frequencies) {
        let values = values_of(&frequencies, Positions::axis_major(&at));
        let values = values.expect("coordinates");
        demand(
            &values,
            rotary_dim / 2,
            &file,
            ["cos_cr_exact", "sin_cr_exact"],
            backend,
        );
        rotated::<f32>(
            &file,
            Pairing::Half,
            &values,
            rotary_dim,
            ["q_f32", "q_cr_f32"],
        );
        near_exact(&file, Pairing::Half, &values, rotary_dim);
    }
}

/// Given tables for each head: `[head, token, pair]` of cos and of sin.
#[test]
fn ltx2() {
    let file = Golden::file("mixed/ltx2_4h_d32.txt");
    let (heads, pairs) = (file.decimal("heads"), file.decimal("head_dim") / 2);
    let tokens = file.text("sampled").split_whitespace().count();
    let tables: [Vec<f32>; 2] = ["cos_f32", "sin_f32"].map(|key| file.bits(key));
    let rows = (0..tokens).flat_map(|token| {
        let at = move |head| (head * tokens + token) * pairs;
        let tables = &tables;
        (0..heads).flat_map(move |head| tables.iter().flat_map(move |t| &t[at(head)..][..pairs]))
    });
    let rows: Vec<f32> = rows.copied().collect();
    rotated::<f32>(
        &file,
        Pairing::Half,
        &rows,
        2 * pairs,
        ["q_f32", "q_mulmuladd_f32"],
    );
    rotated::<bf16>(
        &file,
        Pairing::Half,
        &rows,
        2 * pairs,
        ["q_bf16", "q_mulmuladd_bf16"],
    );
}

/// The initial values of rope-vit and timm, correctly rounded; their own values are as near as documented.
#[test]
fn initial_frequencies() {
    let mut cases = 0;
    let mut case = Vec::new();
    let mut directions: Vec<f32> = Vec::new();
    let mut made: Vec<f32> = Vec::new();
    for words in lines("mixed/ropevit_init.txt") {
        let number = |name: &str| {
            let at = case.iter().position(|word: &String| word == name);
            let word: &String = &case[at.expect("a name") + 1];
            word.parse::<f64>().expect("a number")
        };
        let values = || words[1..].iter().map(|word| hex::<f32>(word));
        match words[0].split('_').next() {
            Some("case") => case = words,
            Some("u") => {
                directions = values().collect();
                let pairs = number("head_dim") as usize / 2;
                let needed = 2 * directions.len() * pairs;
                let (theta, heads) = (number("theta"), directions.len());
                made = vec![f32::NAN; needed + 1];
                initial_mixed(theta, &directions, pairs, &mut made).expect("sane");
                assert!(made.pop().is_some_and(f32::is_nan));
                if number("rotate") == 0.0 {
                    let mut axial = vec![f32::NAN; needed];
                    initial_axial(theta, heads, pairs, &mut axial).expect("sane");
                    alike(&axial, &made, "axial");
                }
            }
            Some("exact") => {
                alike(&made, &values().collect::<Vec<f32>>(), &words[0]);
                cases += 1;
            }
            Some("timm" | "ropevit") => {
                assert_eq!(made.len(), words.len() - 1);
                let near = |(made, theirs): (&f32, f32)| (made - theirs).abs() <= 3e-7;
                assert!(made.iter().zip(values()).all(near), "{}", words[0]);
            }
            _ => {}
        }
    }
    assert_eq!((cases, directions.len()), (3, 2));
}

/// Returns inverse frequencies of either sign and every magnitude, some of them zero.
fn inverse(source: &mut Source<'_>, len: usize) -> Vec<f64> {
    let mut one = || match source.below(8) {
        0 => 0.0,
        1 => f64::from(source.unit()) * 100.0,
        2 => f64::from(source.unit()) * 1e-9,
        _ => f64::from(source.unit()) * 2.0_f64.powi(-(source.below(12) as i32)),
    };
    (0..len).map(|_| one()).collect()
}

/// Returns positions `[token, axis]`: of a grid, far ones, and the last ones.
fn integers(source: &mut Source<'_>, len: usize) -> Vec<i64> {
    let mut one = || match source.below(6) {
        0 => 0,
        1 => source.wide() as i64 >> source.below(64),
        2 => [i64::MIN, i64::MAX, 1 << 32, -1][source.below(4)],
        _ => source.below(100) as i64,
    };
    (0..len).map(|_| one()).collect()
}

/// Returns coordinates that are multiples of 2^-100.
fn reals(source: &mut Source<'_>, len: usize) -> Vec<f64> {
    let mut one = || match source.below(6) {
        0 => 0.0,
        1 => source.wide() as i64 as f64 * 2.0_f64.powi(-37 - source.below(63) as i32),
        2 => f64::from(source.unit()) * 1e12,
        _ => f64::from(source.unit()) * 64.0,
    };
    (0..len).map(|_| one()).collect()
}

/// Random frequencies, positions and factors agree with the definition in plain code, on every backend.
#[test]
fn sums_are_correctly_rounded() {
    let source = &mut Source::random("sums_are_correctly_rounded");
    let (mut compared, mut all) = (0, 0);
    for _ in 0..40 {
        let [axes, heads, pairs] = [
            source.within(1, 4),
            source.within(1, 3),
            source.within(1, 20),
        ];
        let inverse = inverse(source, axes * heads * pairs);
        let factor = source.one_of(&[1.0, 1.138_629_436, 2.0_f64.powi(-30)]);
        let frequencies = MixedFrequencies::new(&inverse, [axes, heads, pairs], factor);
        let frequencies = frequencies.expect("frequencies");
        let tokens = source.within(1, 12);
        // cos and sin, of integers and of reals.
        all += 4 * tokens * heads * pairs * Backend::available().count();
        let (ids, coordinates) = (
            integers(source, tokens * axes),
            reals(source, tokens * axes),
        );
        for (positions, at) in [
            (
                Positions::token_major(&ids),
                ids.iter()
                    .map(|&at| Coordinate::Integer(at))
                    .collect::<Vec<_>>(),
            ),
            (
                Positions::token_major(&coordinates),
                coordinates.iter().map(|&at| Coordinate::Real(at)).collect(),
            ),
        ] {
            let mut expected = Vec::new();
            for (token, head, pair) in indices([tokens, heads, pairs]) {
                let terms = (0..axes).map(|axis| {
                    let frequency = frequencies.frequency(axis, head, pair);
                    (at[token * axes + axis], frequency.expect("a pair"))
                });
                expected.push(cos_sin_of_sum(terms, factor));
            }
            for (backend, frequencies) in everywhere(&frequencies) {
                let values = values_of(&frequencies, positions).expect("positions");
                let [cos, sin] = cos_and_sin(&values, pairs);
                for (index, expected) in expected.iter().enumerate() {
                    assert!(
                        expected.0.is(cos[index]) && expected.1.is(sin[index]),
                        "{backend}: {} {}, not {expected:?}: value {index} of {positions:?} {frequencies:?} {inverse:?}",
                        cos[index],
                        sin[index]
                    );
                    compared += 2;
                }
            }
        }
    }
    assert_eq!(compared, all);
}

fn indices([tokens, heads, pairs]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..tokens * heads * pairs).map(move |i| (i / pairs / heads, i / pairs % heads, i % pairs))
}

/// One axis for each pair and zeros on the others give the rows of ordinary frequencies.
#[test]
fn one_axis_a_pair_is_axial() {
    let source = &mut Source::random("one_axis_a_pair_is_axial");
    for _ in 0..60 {
        let (axes, pairs) = (source.within(1, 4), source.within(1, 40));
        let of_pairs = inverse(source, pairs);
        let mut axis: Vec<u8> = (0..pairs).map(|_| source.below(axes) as u8).collect();
        // The last axis exists.
        axis[pairs - 1] = axes as u8 - 1;
        let mut of_axes = vec![0.0; axes * pairs];
        for (pair, (&axis, &inverse)) in axis.iter().zip(&of_pairs).enumerate() {
            of_axes[usize::from(axis) * pairs + pair] = inverse;
        }
        let factor = source.one_of(&[1.0, 0.7]);
        let axial = Frequencies::from_inverse(Axes::given(&axis), &of_pairs, factor);
        let axial = axial.expect("frequencies");
        let mixed = MixedFrequencies::new(&of_axes, [axes, 1, pairs], factor);
        let mixed = mixed.expect("frequencies");
        let tokens = source.within(1, 40);
        let ids = integers(source, tokens * axes);
        let coordinates: Vec<f64> = (0..tokens * axes)
            .map(|_| source.one_of(&[1e-300, 1.0, 1e3, 1e12, 9e18]) * f64::from(source.unit()))
            .collect();
        let range = Positions::from(source.below(1000) as i64..1040);
        for positions in [
            Positions::axis_major(&ids),
            Positions::axis_major(&coordinates),
            range,
        ]
        .into_iter()
        .take(if axes > 1 { 2 } else { 3 })
        {
            let expected = axial.rows(positions).expect("positions");
            for (backend, mixed) in everywhere(&mixed) {
                let rows = mixed.rows(positions).expect("positions");
                assert_eq!(bits(&rows), bits(&expected), "{backend} {positions:?}");
                assert_eq!(rows.attention_factor(), factor);
            }
        }
    }
}

/// Rows of frequencies that all heads share equal the rows of heads with equal frequencies, and each head has its own
/// rows.
#[test]
fn heads_are_by_themselves() {
    let source = &mut Source::random("heads_are_by_themselves");
    for _ in 0..20 {
        let [axes, heads, pairs] = [
            source.within(1, 4),
            source.within(2, 70),
            source.within(1, 20),
        ];
        let inverse = inverse(source, axes * heads * pairs);
        let angle = source.one_of(&[MixedAngle::Exact, MixedAngle::SummedF32]);
        let all = mixed(&inverse, [axes, heads, pairs]).with_angle(angle);
        let tokens = source.within(1, 9);
        let ids = integers(source, tokens * axes);
        let positions = Positions::token_major(&ids);
        let values = values_of(&all, positions).expect("positions");
        for head in 0..heads {
            let of_axis = |axis| &inverse[(axis * heads + head) * pairs..][..pairs];
            let one: Vec<f64> = (0..axes).flat_map(of_axis).copied().collect();
            let one = mixed(&one, [axes, 1, pairs]).with_angle(angle);
            let one = values_of(&one, positions).expect("positions");
            let of_head = values.chunks_exact(2 * pairs).skip(head).step_by(heads);
            let of_head: Vec<f32> = of_head.flatten().copied().collect();
            alike(&of_head, &one, &format!("head {head} of {heads}"));
        }
        let mut storage = vec![f32::NAN; values.len() + 1];
        let angles = all.at(positions).expect("positions");
        angles.rows_in(&mut storage).expect("room");
        alike(&storage[..values.len()], &values, "stored");
        assert!(storage[values.len()].is_nan());
        let stored = angles.rows_in(&mut storage).expect("room");
        let rows = angles.rows().expect("memory");
        for rows in [stored, rows] {
            assert_eq!((rows.len(), rows.heads()), (tokens, heads));
            for (index, values) in values.chunks_exact(2 * pairs).enumerate() {
                let row = rows.row(index / heads, index % heads);
                assert_eq!(row, Some(values.split_at(pairs)));
            }
        }
        let mut blocks =
            vec![FrequencyChunk::EMPTY; MixedFrequencies::chunks([axes, heads, pairs])];
        let kept = MixedFrequencies::new_in(&mut blocks, &inverse, [axes, heads, pairs], 1.0);
        assert_eq!(kept.expect("room").with_angle(angle), all);
    }
}

/// Frequencies return the given values: exact, and by axis, head and pair.
#[test]
fn frequencies_match_those_given() {
    let source = &mut Source::random("frequencies_match_those_given");
    let [axes, heads, pairs] = [3, 4, 11];
    let inverse = inverse(source, axes * heads * pairs);
    let made = mixed(&inverse, [axes, heads, pairs]);
    assert_eq!([made.axes(), made.heads(), made.rotary_dim()], [3, 4, 22]);
    for (axis, head, pair) in indices([axes, heads, pairs]) {
        let frequency = made.frequency(axis, head, pair).expect("a pair");
        let given = inverse[(axis * heads + head) * pairs + pair];
        assert_eq!((frequency.inverse, frequency.axis), (given, axis));
    }
    for (axis, head, pair) in [(3, 0, 0), (0, 4, 0), (0, 0, 11)] {
        assert_eq!(made.frequency(axis, head, pair), None);
    }
}

/// Tokens without a place in the grid are unchanged.
#[test]
fn prefix_tokens_are_left_alone() {
    let source = &mut Source::random("prefix_tokens_are_left_alone");
    let frequencies = mixed(&inverse(source, 2 * 8), [2, 1, 8]);
    let mut grid = [0_i32; 12];
    let grid = GridIndexing::Xy.positions_in([2, 3], &mut grid);
    let positions = Positions::axis_major(&*grid.expect("room"));
    let rows = frequencies.rows(positions).expect("a grid");
    let (prefix, tokens) = (5, 11);
    let x: Vec<f32> = (0..tokens * 16).map(|_| source.unit()).collect();
    let mut y = x.clone();
    let layout = Layout::bshd([1, tokens, 1, 16]).expect("a small shape");
    let patches = layout
        .narrow(Dimension::Tokens, prefix..tokens)
        .expect("tokens");
    let mut patches = TensorMut::new(&mut y, patches).expect("a layout that fits");
    Rope::new(Pairing::Interleaved)
        .rotate(&mut patches, &rows)
        .expect("a row for each patch");
    // The first patch is at the origin.
    alike(&y[..(prefix + 1) * 16], &x[..(prefix + 1) * 16], "prefix");
    assert_ne!(y[(prefix + 1) * 16..], x[(prefix + 1) * 16..]);
}

/// A single number per token is a position of text. Patches of an image have two; equal ones would place them on the
/// diagonal.
#[test]
fn positions_of_text_are_refused_on_several_axes() {
    let one = mixed(&[0.5_f32; 4], [1, 2, 2]);
    assert_eq!(one.rows(0..196).map(|rows| rows.len()), Ok(196));
    let two = mixed(&[0.5_f32; 8], [2, 2, 2]);
    let (ids, coordinates) = ([7_i64; 196], [0.5_f64; 196]);
    for (positions, given) in [
        (Positions::from(0..196), 196),
        (Positions::from(7), 1),
        (Positions::from(&ids), 196),
        (Positions::from(&coordinates), 196),
        (Positions::packed(&[0_u32, 4, 7]).expect("offsets"), 7),
    ] {
        let error = Error::Positions(PositionsError::PerAxis { given, axes: 2 });
        assert_eq!(two.at(positions).err(), Some(error));
        assert_eq!(two.rows(positions).err(), Some(error));
        let positions = if given == 1 {
            "position is"
        } else {
            "positions are"
        };
        let text = format!("{given} {positions} not one per axis for each token on 2 axes");
        assert!(error.to_string().starts_with(&text), "{error}");
    }
    let grid = Positions::axis_major(&ids);
    assert_eq!(two.rows(grid).map(|rows| rows.len()), Ok(98));
}

/// Errors by name and limit; nothing is written.
#[test]
fn refusals() {
    let refused = |inverse: &[f64], shape, factor| {
        let mut storage = [FrequencyChunk::EMPTY; 4];
        let error = MixedFrequencies::new(inverse, shape, factor).expect_err("refused");
        let in_storage = MixedFrequencies::new_in(&mut storage, inverse, shape, factor);
        // NaNs compare unequal.
        assert_eq!(
            in_storage.expect_err("refused").to_string(),
            error.to_string()
        );
        error
    };
    for axes in [0, 5, usize::MAX] {
        let error = refused(&[1.0; 5], [axes, 1, 1], 1.0);
        assert!(
            matches!(error, Error::Frequencies(FrequenciesError::Axes { .. })),
            "{error}"
        );
    }
    let error = refused(&[], [2, 0, 4], 1.0);
    assert!(
        matches!(error, Error::Parameter { name: "heads", .. }),
        "{error}"
    );
    for (pairs, rotary_dim) in [(0, 0), (32769, 65538), (usize::MAX, usize::MAX)] {
        let error = refused(&[], [1, 1, pairs], 1.0);
        assert!(
            matches!(error, Error::Rows(RowsError::RotaryDim { rotary_dim: r, .. }) if r == rotary_dim)
        );
    }
    for (given, shape, needed) in [
        (7, [2, 2, 2], 8),
        (9, [2, 2, 2], 8),
        (0, [4, usize::MAX, 8], usize::MAX),
    ] {
        let error = refused(&vec![1.0; given], shape, 1.0);
        let name = "inverse";
        assert_eq!(
            error,
            Error::Count {
                name,
                given,
                needed
            }
        );
    }
    for value in [f64::NAN, f64::INFINITY] {
        let error = refused(&[1.0, 1.0, value, 1.0], [2, 1, 2], 1.0);
        let named = matches!(
            error,
            Error::ListEntry {
                name: "inverse",
                index: 2,
                ..
            }
        );
        assert!(named, "{error}");
    }
    let error = refused(&[1.0, 1.0, 1.0, -205888.0], [2, 1, 2], 1.0);
    let inverse = -205888.0;
    assert_eq!(
        error,
        Error::Frequencies(FrequenciesError::TurnsPerPosition { pair: 1, inverse })
    );
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refused(&[1.0], [1, 1, 1], factor);
        assert!(matches!(
            error,
            Error::Parameter {
                name: "attention_factor",
                ..
            }
        ));
    }
    let mut few = [FrequencyChunk::EMPTY; 3];
    let error = MixedFrequencies::new_in(&mut few, &[1.0_f32; 36], [2, 2, 9], 1.0);
    let expected = Error::Storage {
        what: "chunks of storage",
        given: 3,
        needed: 8,
    };
    assert_eq!(error.expect_err("refused"), expected);
    assert_eq!(MixedFrequencies::chunks([4, usize::MAX, 9]), usize::MAX);

    let two = mixed(&[0.5_f32; 8], [2, 2, 2]);
    let error = values_of(&two, Positions::axis_major(&[1_i64, 2, 3]));
    assert_eq!(
        error,
        Err(Error::Positions(PositionsError::PerAxis {
            given: 3,
            axes: 2
        }))
    );
    let error = values_of(&two, Positions::token_major(&[1.0, f64::INFINITY]));
    let expected = Error::Positions(PositionsError::Coordinate {
        index: 1,
        value: f64::INFINITY,
    });
    assert_eq!(error, Err(expected));
    let mut storage = [7.0_f32; 15];
    let diagonal = Positions::axis_major(&[0_i64, 1, 0, 1]);
    let angles = two.at(diagonal).expect("positions");
    let error = angles.rows_in(&mut storage).err();
    assert_eq!(
        error,
        Some(Error::Storage {
            what: "values of storage",
            given: 15,
            needed: 16
        })
    );
    assert_eq!(storage, [7.0; 15]);
    let tokens = usize::MAX / 2 + 1;
    let one = mixed(&[0.5_f32; 4], [1, 2, 2]);
    let error = one
        .at(0..tokens)
        .and_then(|angles| angles.rows_in(&mut storage).map(drop));
    assert!(matches!(
        error,
        Err(Error::Frequencies(FrequenciesError::RowsTooLong {
            rotary_dim: 4,
            ..
        }))
    ));
    assert_eq!(storage, [7.0; 15]);

    let mut inverse = [7.0_f32; 16];
    let mut initial = |theta, directions: &[f64], pairs| {
        initial_mixed(theta, directions, pairs, &mut inverse).expect_err("refused")
    };
    for theta in [0.0, -10.0, f64::NAN] {
        let error = initial(theta, &[1.0], 4);
        assert!(
            matches!(error, Error::Parameter { name: "theta", .. }),
            "{error}"
        );
    }
    for pairs in [0, 3, 32770, usize::MAX] {
        let error = initial(10.0, &[1.0], pairs);
        let Error::Rows(RowsError::RotaryDim { rotary_dim, .. }) = error else {
            panic!("{pairs} pairs: {error}");
        };
        assert_eq!(rotary_dim, pairs.saturating_mul(2));
    }
    for direction in [f64::NAN, f64::INFINITY, -1048577.0] {
        let error = initial(10.0, &[1.0, direction], 4);
        assert!(matches!(
            error,
            Error::ListEntry {
                name: "directions",
                index: 1,
                ..
            }
        ));
    }
    let expected = Error::Storage {
        what: "numbers of inverse",
        given: 16,
        needed: 24,
    };
    assert_eq!(initial(10.0, &[1.0; 3], 4), expected);
    let error = initial_axial(10.0, usize::MAX, 4, &mut inverse);
    assert!(matches!(error, Err(Error::Storage { given: 16, .. })));
    assert_eq!(inverse, [7.0; 16]);
}
