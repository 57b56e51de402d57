//! The backward pass: gradients of angles, frequencies, positions, cos and sin, and factors.
//!
//! Comparisons:
//!
//! | | compared with | |
//! |---|---|---|
//! | sums of golden tensors | sums in the documented order, by a program of its own | bits |
//! | the same sums | PyTorch's autograd in f64 | relative to the sum of the terms' magnitudes |
//! | every formula | central differences of a loss in f64 | a tolerance |
//! | splits, layouts, backends | each other, and the definition (the body `gradient`) | bits |
//! | the call for sums and transpose | the definition of each | bits |

use half::{bf16, f16};
use rope_core::axes::MixedFrequencies;
use rope_core::error::{GradientError, PositionsError, RowsError, ShapeError};
use rope_core::gradient::{PairGradients, convert_to_base, convert_to_ratio};
use rope_core::{
    Backend, Dimension, Direction, Error, Pairing, Positions, Rope, Rows, Tensor, TensorMut,
};
use rope_tests::golden::{Bits, Golden, splitmix};
use rope_tests::gradient::{Term, add};
use rope_tests::number::{paint, special, values};
use rope_tests::{
    Angles, Number, Placed, Rotation, Source, Stored, View, compare, each_element, oracle,
};

use crate::models::{alike, members};

/// Returns the files except the one of blocks.
fn files() -> Vec<Golden> {
    let mut files = Golden::all("grad");
    files.retain(|file| file.name != "dfreq_blocks");
    assert_eq!(files.len(), 6);
    files
}

/// The tensors of a file of one element type.
struct Passed<'f, E> {
    file: &'f Golden,
    batch: usize,
    tokens: usize,
    head_dim: usize,
    pairs: usize,
    /// Number of rows, and of heads with rows of their own.
    rows: usize,
    row_heads: usize,
    axes: usize,
    pairing: Pairing,
    /// Q and K.
    sides: [Side<E>; 2],
}

struct Side<E> {
    name: &'static str,
    heads: usize,
    x: Vec<E>,
    y: Vec<E>,
    dx: Vec<E>,
    dy: Vec<E>,
}

impl<'f, E: Number + Bits> Passed<'f, E> {
    /// Returns the tensors of a file, if it has this element type.
    fn of(file: &'f Golden) -> Option<Self> {
        if file.text("dtype") != E::NAME {
            return None;
        }
        let side = |name: &'static str| {
            let tensor = |what: &str| file.bits(&format!("{what}_{name}_{}", E::NAME));
            Side {
                name,
                heads: file.decimal(&format!("{name}_heads")),
                x: tensor("x"),
                y: tensor("y"),
                dx: tensor("dx"),
                dy: tensor("dy"),
            }
        };
        let (batch, tokens) = (file.decimal("batch"), file.decimal("tokens"));
        let shared = file.decimal("rows_shared_by_batch") == 1;
        Some(Passed {
            file,
            batch,
            tokens,
            head_dim: file.decimal("head_dim"),
            pairs: file.decimal("n_freq"),
            rows: if shared { tokens } else { batch * tokens },
            row_heads: file.decimal("row_heads"),
            axes: file.decimal("axes"),
            pairing: file.pairings().0,
            sides: [side("q"), side("k")],
        })
    }

    fn shape(&self, side: &Side<E>) -> [usize; 4] {
        [self.batch, self.tokens, side.heads, self.head_dim]
    }

    fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.rows * self.row_heads * self.pairs]
    }

    fn gradients<'s>(&self, sums: &'s mut [f64]) -> PairGradients<'s> {
        PairGradients::new(sums, [self.rows, self.row_heads, self.pairs]).expect("their shape")
    }

    /// Returns the sums over both tensors, Q first.
    fn summed(
        &self,
        mut add: impl FnMut(&Side<E>, [usize; 4], &mut PairGradients<'_>),
    ) -> Vec<f64> {
        let mut sums = self.zeros();
        let mut gradients = self.gradients(&mut sums);
        for side in &self.sides {
            add(side, self.shape(side), &mut gradients);
        }
        sums
    }

    /// Asserts the bits of the documented order, and a distance from the exact gradient relative to the terms.
    fn compare(&self, sums: &[f64], key: &str, autograd: Option<&str>, doing: &str) {
        let doing = format!("{}, {key}, {doing}", self.file.name);
        same(sums, &self.file.bits(&format!("{key}_f64")), &doing);
        let rounded: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
        alike(&rounded, &self.file.bits(&format!("{key}_f32")), &doing);
        if let Some(autograd) = autograd {
            self.near(sums, autograd, "dphi_sumabs_f64", &doing);
        }
    }

    /// The distance of a gradient from autograd's, relative to its terms: the rounding of the tensors, 2^-24 or 2^-9,
    /// twice.
    const BOUND: f64 = if size_of::<E>() == 2 { 1e-2 } else { 4e-7 };

    /// Asserts that sums are within the bound of the exact gradient.
    fn near(&self, sums: &[f64], autograd: &str, terms: &str, doing: &str) {
        let exact: Vec<f64> = self.file.bits(&format!("autograd_{autograd}_f64"));
        let terms: Vec<f64> = self.file.bits(terms);
        assert_eq!([exact.len(), terms.len()], [sums.len(); 2], "{doing}");
        for ((sum, exact), terms) in sums.iter().zip(&exact).zip(&terms) {
            assert!(
                (sum - exact).abs() <= Self::BOUND * terms,
                "{doing}: {sum} for {exact}"
            );
        }
    }

    /// Asserts that the file's gradients of the input, the references of bit-for-bit comparisons, are near autograd's,
    /// and that its rows have the attention factor as their magnitude.
    fn near_autograd(&self) {
        for side in &self.sides {
            let exact: Vec<f64> = self.file.bits(&format!("autograd_dx_{}_f64", side.name));
            assert_eq!(exact.len(), side.dx.len());
            let heads = side
                .dx
                .chunks(self.head_dim)
                .zip(exact.chunks(self.head_dim));
            for (dx, exact) in heads {
                let off = |channel: usize| (f64::from(dx[channel].to_f32()) - exact[channel]).abs();
                for pair in 0..self.pairs {
                    let [a, b] = members(self.pairing, pair, self.pairs);
                    let bound = Self::BOUND * exact[a].hypot(exact[b]);
                    let good = off(a) <= bound && off(b) <= bound;
                    assert!(good, "{}, {}: {pair}", self.file.name, side.name);
                }
                assert!((2 * self.pairs..self.head_dim).all(|channel| off(channel) == 0.0));
            }
        }
        let factor = self.file.bits::<f64>("attention_factor_f64")[0];
        let [cos, sin] = ["cos_f32", "sin_f32"].map(|key| self.file.bits::<f32>(key));
        for (&cos, &sin) in cos.iter().zip(&sin) {
            let off = f64::from(cos).hypot(sin.into()) - factor;
            assert!(off.abs() <= 2f64.powi(-24) * factor, "{}", self.file.name);
        }
    }
}

fn same(got: &[f64], expected: &[f64], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(
            got.to_bits(),
            expected.to_bits(),
            "{doing}: {index} is {got:e}, not {expected:e}"
        );
    }
}

fn tensor<E: Number>(data: &[E], shape: [usize; 4]) -> Tensor<'_, E> {
    Tensor::new(data, shape).expect("a valid tensor")
}

/// Tests all sums of a file on a backend.
fn sums_of<E: Number + Bits>(file: &Golden, backend: Backend) -> bool {
    let Some(passed) = Passed::<E>::of(file) else {
        return false;
    };
    let doing = format!("{backend}");
    let rope = Rope::new(passed.pairing)
        .with_backend(backend)
        .expect("available");
    let from_output = passed.summed(|side, shape, angles| {
        let (y, dy) = (&tensor(&side.y, shape), &tensor(&side.dy, shape));
        rope.angle_gradients(y, dy, angles).expect("sums that fit");
    });
    passed.compare(&from_output, "dphi_y", Some("dangle"), &doing);
    let from_input = passed.summed(|side, shape, angles| {
        let (x, dx) = (&tensor(&side.x, shape), &tensor(&side.dx, shape));
        rope.angle_gradients(x, dx, angles).expect("sums that fit");
    });
    passed.compare(&from_input, "dphi_x", Some("dangle"), &doing);
    let factors = passed.summed(|side, shape, factors| {
        let (y, dy) = (&tensor(&side.y, shape), &tensor(&side.dy, shape));
        rope.factor_gradients(y, dy, factors)
            .expect("sums that fit");
    });
    passed.compare(&factors, "dlnA", None, &doing);
    let mut sines = passed.zeros();
    let cosines = passed.summed(|side, shape, cos| {
        let (x, dy) = (&tensor(&side.x, shape), &tensor(&side.dy, shape));
        let sin = &mut passed.gradients(&mut sines);
        rope.cos_sin_gradients(x, dy, cos, sin)
            .expect("sums that fit");
    });
    passed.compare(&cosines, "dcos", Some("dcos"), &doing);
    passed.compare(&sines, "dsin", Some("dsin"), &doing);
    backward(&passed, rope, &from_output, &doing);
    reduced(&passed, from_output, &doing);
    passed.near_autograd();
    true
}

/// Products that f32 cannot represent, or not exactly, one at a time in every place of a line: as exact as products in
/// doubles on every path of a kernel.
#[test]
fn products_beyond_f32_are_exact() {
    let mut source = Source::random("products_beyond_f32_are_exact");
    beyond_f32::<f32>(&mut source);
    beyond_f32::<bf16>(&mut source);
    beyond_f32::<f16>(&mut source);
}

fn beyond_f32<E: Number>(source: &mut Source<'_>) {
    // Above the largest number; between subnormal numbers; below the least one; a subnormal by a normal number; zeros;
    // and NaNs. Values that an element type lacks are rounded to it.
    let products = [
        [3e30, 3e30],
        [1.171875e-20, 1.0078125e-22],
        [1e-30, 1e-30],
        [1e-40, 1.0078125],
        [-0.0, 2.0],
        [f32::INFINITY, 0.0],
        [f32::NAN, 1.0],
    ]
    .map(|product| product.map(E::from_f32));
    // Whole groups of every instruction set, and a remainder.
    let (heads, pairs) = (3, 71);
    let shape = [1, 1, heads, 2 * pairs];
    let view = View {
        shape,
        strides: [heads * 2 * pairs, heads * 2 * pairs, 2 * pairs],
        offset: 0,
    };
    let mut tensor = || -> Vec<E> {
        let values = 0..heads * 2 * pairs;
        values.map(|_| E::from_f32(source.unit() - 0.5)).collect()
    };
    let (x, g) = (tensor(), tensor());
    // The other terms are far below one; no sum rounds away a lost part of the product.
    let small = E::from_f32(1.0 / (1_u64 << 60) as f32);
    for product in products {
        for pairing in Pairing::ALL {
            // One pair of a head, in either half of the term, and finally every pair of all heads.
            for case in 0..=2 * pairs {
                let (mut x, mut g) = (x.clone(), g.clone());
                let changed = match case / 2 {
                    pair if pair < pairs => pair..pair + 1,
                    _ => 0..pairs,
                };
                for (pair, head) in
                    changed.flat_map(|pair| (0..heads).map(move |head| (pair, head)))
                {
                    let mut members = match pairing {
                        Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                        Pairing::Half => [pair, pair + pairs],
                    }
                    .map(|member| head * 2 * pairs + member);
                    if case % 2 == 1 {
                        members.reverse();
                    }
                    let [first, second] = members;
                    let [p, q] = product;
                    ([x[first], x[second]], [g[first], g[second]]) = match case / 2 {
                        every if every == pairs => ([p, p], [E::from_f32(-q.to_f32()), q]),
                        one if one % heads == head => ([p, small], [small, q]),
                        _ => ([small; 2], [small; 2]),
                    };
                }
                let (from, to) = ((&x[..], &view), (&g[..], &view));
                let mut expected = vec![0.0; pairs];
                add(
                    Term::Cross,
                    (pairing, 1),
                    from,
                    to,
                    &mut expected,
                    [1, 1, pairs],
                );
                for backend in Backend::available() {
                    let rope = Rope::new(pairing).with_backend(backend).expect("available");
                    let mut sums = vec![0.0; pairs];
                    let mut angles = PairGradients::new(&mut sums, [1, 1, pairs]).expect("a shape");
                    let (x, g) = (Tensor::new(&x, shape), Tensor::new(&g, shape));
                    let (x, g) = (x.expect("a valid tensor"), g.expect("a valid tensor"));
                    let (y, dy, angles) = (&x, &g, &mut angles);
                    rope.angle_gradients(y, dy, angles).expect("sums that fit");
                    for (place, (got, expected)) in sums.iter().zip(&expected).enumerate() {
                        assert!(
                            got.to_bits() == expected.to_bits()
                                || got.is_nan() && expected.is_nan(),
                            "{backend}, {}, {pairing}, {product:?}, case {case}: sum {place} is {got:e}, not \
                             {expected:e}",
                            E::NAME
                        );
                    }
                }
            }
        }
    }
}

/// Tests the call for sums and transpose on every backend: sums in the documented order, and the transposed rotation of
/// a tensor, with all other bits of its memory unchanged. Heads share their sums.
fn both<E: Number>(
    source: &mut Source<'_>,
    rows: &Stored,
    (y, from): (&[E], &Placed),
    (dy, to): (&[E], &Placed),
) {
    let (shape, pairs) = (to.view.shape, rows.angles.pairs);
    let [batch, tokens, heads, _] = shape;
    let shape_of_sums = [source.one_of(&[tokens, batch * tokens]), 1, pairs];
    let before: Vec<f64> = (0..shape_of_sums.iter().product())
        .map(|_| f64::from(source.unit()))
        .collect();
    for pairing in Pairing::ALL {
        let mut sums = before.clone();
        let tensors = ((y, &from.view), (dy, &to.view));
        add(
            Term::Cross,
            (pairing, 1),
            tensors.0,
            tensors.1,
            &mut sums,
            shape_of_sums,
        );
        let back = Rotation {
            direction: Direction::Transpose,
            ..Rotation::forward(pairing)
        };
        let rotated = oracle::rotated(back, &rows.angles, tensors.1, tensors.1);
        for backend in Backend::available() {
            let doing = format!(
                "{backend}, {}, {pairing}, {pairs} pairs of {shape:?} at {:?} and {:?}",
                E::NAME,
                from.view.strides,
                to.view.strides
            );
            let (mut got, mut written) = (before.clone(), dy.to_vec());
            let mut angles = PairGradients::new(&mut got, shape_of_sums).expect("a shape");
            let y = Tensor::new(y, from.layout).expect("a valid tensor");
            let mut dy = TensorMut::new(&mut written, to.layout).expect("a valid tensor");
            let rope = Rotation::forward(pairing).plan(backend);
            rows.with(|rows| rope.backward(&y, &mut dy, rows, &mut angles))
                .expect("rows that fit");
            compare(&written, &rotated, &to.view, &doing);
            for (place, (got, sum)) in got.iter().zip(&sums).enumerate() {
                assert!(
                    got.to_bits() == sum.to_bits() || got.is_nan() && sum.is_nan(),
                    "{doing}, {heads} heads: sum {place} is {got:e}, not {sum:e}"
                );
            }
        }
    }
}

/// Tests numbers of pairs around the lanes of every instruction set, alone and before channels that pass, with heads at
/// any place among any bits.
fn both_of_every_size<E: Number>(source: &mut Source<'_>) {
    for pairs in (1..=70).chain([96, 127, 128, 129]) {
        let head_dim = 2 * pairs + source.one_of(&[0, 0, 1, 7, 64]);
        let shape = [
            source.within(1, 2),
            source.within(1, 3),
            source.within(1, 18),
            head_dim,
        ];
        let rows = Stored::for_shape(source, shape, pairs);
        let by_token: fn(&mut Source<'_>, [usize; 4]) -> Placed =
            source.one_of(&[Placed::packed, Placed::window]);
        let (from, to) = (Placed::any(source, shape), by_token(source, shape));
        let y = values::<E>(source, from.len);
        let (mut dy, ordinary) = (paint::<E>(source, to.len), values::<E>(source, to.len));
        for [batch, token, head] in to.view.heads() {
            let start = to.view.index([batch, token, head, 0]);
            dy[start..start + head_dim].copy_from_slice(&ordinary[start..start + head_dim]);
        }
        both(source, &rows, (&y, &from), (&dy, &to));
    }
}

#[test]
fn sums_and_transpose_of_every_head_size() {
    let source = &mut Source::random("sums_and_transpose_of_every_head_size");
    each_element!(both_of_every_size(source));
}

/// Tests special values one at a time in every place of y, dy, cos and sin: each token has one, and its other values
/// are ordinary.
fn both_of_special_values<E: Number>(source: &mut Source<'_>, pairs: usize) {
    let count = E::SPECIAL.len().max(f32::SPECIAL.len());
    let shape = [1, 4 * count * pairs, 2, 2 * pairs];
    let place = Placed::bshd(shape);
    let ordinary = |source: &mut Source<'_>| -> Vec<E> {
        (0..place.len)
            .map(|_| E::from_f32(source.unit() - 0.5))
            .collect()
    };
    let (mut y, mut dy) = (ordinary(source), ordinary(source));
    let mut row = || -> Vec<f32> { (0..shape[1] * pairs).map(|_| source.unit()).collect() };
    let (mut cos, mut sin) = (row(), row());
    for token in 0..shape[1] {
        let (pair, nth, kind) = (token % pairs, token / pairs % count, token / pairs / count);
        let value = E::from_bits(E::SPECIAL[nth % E::SPECIAL.len()]);
        let channel = pair + pairs * source.below(2);
        let at = place.view.index([0, token, source.below(2), channel]);
        match kind {
            0 => y[at] = value,
            1 => dy[at] = value,
            2 => cos[token * pairs + pair] = f32::from_bits(f32::SPECIAL[nth % f32::SPECIAL.len()]),
            _ => sin[token * pairs + pair] = f32::from_bits(f32::SPECIAL[nth % f32::SPECIAL.len()]),
        }
        // Sometimes a second one beside it.
        if source.once_in(4) {
            dy[place.view.index([0, token, source.below(2), channel])] = special(source);
        }
    }
    let rows = Stored::plain(Angles {
        rows: shape[1],
        heads: 1,
        pairs,
        cos,
        sin,
        attention_factor: 1.0,
    });
    both(source, &rows, (&y, &place), (&dy, &place));
}

/// 32 + 8 + 4 + 3 pairs: every kind of group, and every lane of it.
#[test]
fn sums_and_transpose_of_special_values() {
    let source = &mut Source::random("sums_and_transpose_of_special_values");
    each_element!(both_of_special_values(source, 47));
}

/// Tests tensors larger than the caches of a core, whose heads pass in groups of 8 + 8 + 3. The sequences share their
/// sums or have their own, and are the outer or the inner dimension of the tokens.
fn both_of_large_tensors<E: Number>(source: &mut Source<'_>) {
    let shape = [2, 460 / size_of::<E>(), 19, 128];
    for to in [Placed::bshd(shape), Placed::dense(source, shape)] {
        let from = Placed::any(source, shape);
        let (y, dy) = (values::<E>(source, from.len), values::<E>(source, to.len));
        let rows = Stored::for_shape(source, shape, 64);
        both(source, &rows, (&y, &from), (&dy, &to));
    }
}

#[test]
fn sums_and_transpose_of_large_tensors() {
    let source = &mut Source::random("sums_and_transpose_of_large_tensors");
    each_element!(both_of_large_tensors(source));
}

/// Tests the call for sums and transpose: the same sums, and the tensors of the file.
fn backward<E: Number + Bits>(passed: &Passed<'_, E>, rope: Rope, angles: &[f64], doing: &str) {
    let doing = format!("{}, {doing}", passed.file.name);
    let (cos, sin): (Vec<f32>, Vec<f32>) =
        (passed.file.bits("cos_f32"), passed.file.bits("sin_f32"));
    // Rows for each head: each head is a tensor with its own sums.
    for row_head in 0..passed.row_heads {
        let of_head = |values: &[f32]| -> Vec<f32> {
            let heads = values.chunks_exact(passed.pairs).skip(row_head);
            heads.step_by(passed.row_heads).flatten().copied().collect()
        };
        let (cos, sin) = (of_head(&cos), of_head(&sin));
        let width = [passed.rows, passed.pairs];
        let rows = Rows::from_cos_sin(&cos, &sin, width, 2 * passed.pairs).expect("their rows");
        let mut sums = vec![0.0; passed.rows * passed.pairs];
        let mut gradients =
            PairGradients::new(&mut sums, [passed.rows, 1, passed.pairs]).expect("their shape");
        for side in &passed.sides {
            let layout = rope_core::Layout::bshd(passed.shape(side)).expect("small");
            let heads = match passed.row_heads {
                1 => 0..side.heads,
                _ => row_head..row_head + 1,
            };
            let layout = layout
                .narrow(Dimension::Heads, heads.clone())
                .expect("those heads");
            let y = Tensor::new(&side.y, layout).expect("a valid tensor");
            let mut written = side.dy.clone();
            let mut dy = TensorMut::new(&mut written, layout).expect("a valid tensor");
            rope.backward(&y, &mut dy, &rows, &mut gradients)
                .expect("rows that fit");
            let dy = Tensor::new(&side.dy, layout).expect("a valid tensor");
            let mut across = vec![E::from_f32(0.0); written.len()];
            let mut dx = TensorMut::new(&mut across, layout).expect("a valid tensor");
            let mut again = vec![0.0; passed.rows * passed.pairs];
            let mut again =
                PairGradients::new(&mut again, [passed.rows, 1, passed.pairs]).expect("a shape");
            rope.backward_into(&y, &dy, &mut dx, &rows, &mut again)
                .expect("rows that fit");
            let selected = |data: &[E]| -> Vec<E> {
                let tokens = data.chunks_exact(side.heads * passed.head_dim);
                let part = heads.start * passed.head_dim..heads.end * passed.head_dim;
                tokens
                    .flat_map(|token| token[part.clone()].to_vec())
                    .collect()
            };
            let (expected, doing) = (selected(&side.dx), format!("{doing}, dx_{}", side.name));
            alike(&selected(&written), &expected, &doing);
            alike(&selected(&across), &expected, &doing);
        }
        let expected: Vec<f64> = angles
            .chunks_exact(passed.pairs)
            .skip(row_head)
            .step_by(passed.row_heads)
            .flatten()
            .copied()
            .collect();
        same(&sums, &expected, &doing);
    }
}

/// Tests the sums of frequencies and positions from those of angles.
fn reduced<E: Number + Bits>(passed: &Passed<'_, E>, mut angles: Vec<f64>, doing: &str) {
    let Passed { file, axes, .. } = *passed;
    let doing = format!("{}, {doing}", file.name);
    let row = passed.row_heads * passed.pairs;
    let gradients = passed.gradients(&mut angles);
    let coordinates: Vec<f64> = file.bits("positions_f64");
    let mut frequencies = vec![0.0; axes * row];
    gradients
        .frequencies(Positions::axis_major(&coordinates), axes, &mut frequencies)
        .expect("a position for each row");
    same(&frequencies, &file.bits("dfreq_y_f64"), &doing);
    let rounded: Vec<f32> = frequencies.iter().map(|&sum| sum as f32).collect();
    alike(&rounded, &file.bits("dfreq_y_f32"), &doing);
    passed.near(&frequencies, "dfreq", "dfreq_sumabs_f64", &doing);
    let inverse: Vec<f32> = file.bits("freqs_f32");
    let inverse: Vec<f64> = inverse.into_iter().map(f64::from).collect();
    let mut positions = vec![0.0; passed.rows * axes];
    gradients
        .positions(&inverse, axes, &mut positions)
        .expect("their frequencies");
    let axis_major: Vec<f64> = (0..axes)
        .flat_map(|axis| positions.iter().skip(axis).step_by(axes).copied())
        .collect();
    same(&axis_major, &file.bits("dpos_y_f64"), &doing);
    passed.near(&axis_major, "dpos", "dpos_sumabs_f64", &doing);
}

#[test]
fn sums_are_in_the_documented_order() {
    for file in files() {
        for backend in Backend::available() {
            let found = [
                sums_of::<f32>(&file, backend),
                sums_of::<bf16>(&file, backend),
            ];
            assert!(found.contains(&true), "{}", file.name);
        }
    }
}

/// Blocks of tokens: sums of parts are added one after the other.
#[test]
fn frequencies_by_blocks() {
    let file = Golden::file("grad/dfreq_blocks.txt");
    let (tokens, pairs, axes) = (
        file.decimal("tokens"),
        file.decimal("n_freq"),
        file.decimal("axes"),
    );
    let mut state: u64 = file.decimals("seed")[0];
    let mut angles: Vec<f64> = (0..tokens * pairs)
        .map(|_| (splitmix(&mut state) >> 11) as f64 * 2f64.powi(-53) * 4.0 - 2.0)
        .collect();
    let first: Vec<f64> = file.bits("dphi_first4_f64");
    same(&angles[..4], &first, "the generator");
    let positions: Vec<i64> = (0..tokens as i64)
        .flat_map(|token| [token % 14, token / 14])
        .collect();
    for block in [16, 32, 64, 128, 256] {
        let mut total = vec![0.0; axes * pairs];
        for (block, positions) in angles
            .chunks_mut(block * pairs)
            .zip(positions.chunks(block * axes))
        {
            let rows = block.len() / pairs;
            let gradients = PairGradients::new(block, [rows, 1, pairs]).expect("whole rows");
            let mut part = vec![0.0; axes * pairs];
            gradients
                .frequencies(Positions::token_major(positions), axes, &mut part)
                .expect("a position for each row");
            for (total, part) in total.iter_mut().zip(&part) {
                *total += part;
            }
        }
        same(
            &total,
            &file.bits(&format!("dfreq_block{block}_f64")),
            &format!("{block}"),
        );
    }
}

/// A rotation of one head in f64, and a loss that is linear in it.
struct Loss {
    x: Vec<f64>,
    weights: Vec<f64>,
}

impl Loss {
    /// Returns the loss; the pairs are `(2j, 2j + 1)`.
    fn at(&self, angles: &[f64], factors: &[f64]) -> f64 {
        let pairs = angles.iter().zip(factors).enumerate();
        pairs.fold(0.0, |loss, (pair, (angle, factor))| {
            let (x, y) = (self.x[2 * pair], self.x[2 * pair + 1]);
            let (sin, cos) = angle.sin_cos();
            loss + self.weights[2 * pair] * factor * (x * cos - y * sin)
                + self.weights[2 * pair + 1] * factor * (x * sin + y * cos)
        })
    }
}

fn central(mut f: impl FnMut(f64) -> f64, at: f64) -> f64 {
    let h = 1e-5 * at.abs().max(1.0);
    (f(at + h) - f(at - h)) / (2.0 * h)
}

fn near(got: f64, expected: f64, terms: f64, doing: &str) {
    assert!(
        (got - expected).abs() <= 1e-6 * terms.max(1.0),
        "{doing}: {got} for {expected}"
    );
}

/// Compares every formula with differences of the loss: angles, factors, frequencies, positions, cos and sin, and the
/// parameters of frequencies.
#[test]
fn formulas_are_derivatives() {
    let source = &mut Source::random("formulas_are_derivatives");
    for _ in 0..200 {
        let pairs = source.within(1, 9);
        let axes = source.within(1, 4);
        let mut list = |len: usize, scale: f64| -> Vec<f64> {
            (0..len).map(|_| f64::from(source.unit()) * scale).collect()
        };
        let x: Vec<f32> = list(2 * pairs, 2.0).iter().map(|&x| x as f32).collect();
        let dy: Vec<f32> = list(2 * pairs, 2.0).iter().map(|&x| x as f32).collect();
        let loss = Loss {
            x: x.iter().map(|&x| x.into()).collect(),
            weights: dy.iter().map(|&x| x.into()).collect(),
        };
        let (positions, mut frequencies) = (list(axes, 8.0), list(axes * pairs, 1.0));
        let factors: Vec<f64> = list(pairs, 0.4).iter().map(|x| 1.0 + x).collect();
        let angles = |positions: &[f64], frequencies: &[f64]| -> Vec<f64> {
            (0..pairs)
                .map(|pair| {
                    let terms = positions.iter().zip(frequencies.chunks_exact(pairs));
                    terms.map(|(position, axis)| position * axis[pair]).sum()
                })
                .collect()
        };
        let phi = angles(&positions, &frequencies);
        // The rotated head, in f32 as stored.
        let row = |f: fn(f64) -> f64| -> Vec<f32> {
            phi.iter()
                .zip(&factors)
                .map(|(angle, factor)| (factor * f(*angle)) as f32)
                .collect()
        };
        let (cos, sin) = (row(f64::cos), row(f64::sin));
        let rows = Rows::from_cos_sin(&cos, &sin, [1, pairs], 2 * pairs).expect("a row");
        let shape = [1, 1, 1, 2 * pairs];
        let mut y = x.clone();
        let rope = Rope::new(Pairing::Interleaved);
        rope.rotate(&mut TensorMut::new(&mut y, shape).expect("a head"), &rows)
            .expect("a row");
        let (x, y, dy) = (tensor(&x, shape), tensor(&y, shape), tensor(&dy, shape));
        let summed = |add: &mut dyn FnMut(&mut PairGradients<'_>)| {
            let mut sums = vec![0.0; pairs];
            add(&mut PairGradients::new(&mut sums, [1, 1, pairs]).expect("a row"));
            sums
        };
        let (x, y, dy) = (&x, &y, &dy);
        let mut dphi = summed(&mut |angles| {
            rope.angle_gradients(y, dy, angles).expect("fits");
        });
        let mut dln = summed(&mut |factors| {
            rope.factor_gradients(y, dy, factors).expect("fits");
        });
        for pair in 0..pairs {
            let by_angle = central(
                |angle| {
                    let mut phi = phi.clone();
                    phi[pair] = angle;
                    loss.at(&phi, &factors)
                },
                phi[pair],
            );
            near(dphi[pair], by_angle, 16.0, "an angle");
            let by_factor = central(
                |factor| {
                    let mut factors = factors.clone();
                    factors[pair] = factor;
                    loss.at(&phi, &factors)
                },
                factors[pair],
            );
            near(dln[pair], factors[pair] * by_factor, 16.0, "a factor");
        }
        let by_all = central(
            |all| {
                let factors: Vec<f64> = factors.iter().map(|factor| all * factor).collect();
                loss.at(&phi, &factors)
            },
            1.0,
        );
        let total = PairGradients::new(&mut dln, [1, 1, pairs])
            .expect("a row")
            .total();
        near(total, by_all, 16.0, "one factor for all pairs");
        let angle_gradients = PairGradients::new(&mut dphi, [1, 1, pairs]).expect("a row");
        let mut df = vec![0.0; axes * pairs];
        angle_gradients
            .frequencies(Positions::axis_major(&positions), axes, &mut df)
            .expect("a position for each axis");
        let by_frequency = |index: usize, value: f64| {
            let mut changed = frequencies.clone();
            changed[index] = value;
            loss.at(&angles(&positions, &changed), &factors)
        };
        for (index, &gradient) in df.iter().enumerate() {
            let expected = central(|f| by_frequency(index, f), frequencies[index]);
            near(gradient, expected, 256.0, "a frequency");
        }
        let mut dpos = vec![0.0; axes];
        angle_gradients
            .positions(&frequencies, axes, &mut dpos)
            .expect("their frequencies");
        for (axis, &gradient) in dpos.iter().enumerate() {
            let by_position = |value: f64| {
                let mut changed = positions.clone();
                changed[axis] = value;
                loss.at(&angles(&changed, &frequencies), &factors)
            };
            near(
                gradient,
                central(by_position, positions[axis]),
                256.0,
                "a position",
            );
        }
        // cos and sin from the outputs alone equal those from the inputs, the differences of a linear loss.
        let factor_gradients = PairGradients::new(&mut dln, [1, 1, pairs]).expect("a row");
        let (mut dcos, mut dsin) = (vec![0.0; pairs], vec![0.0; pairs]);
        angle_gradients
            .cos_sin(&factor_gradients, &rows, &mut dcos, &mut dsin)
            .expect("rows that are not zero");
        let mut sines = vec![0.0; pairs];
        let cosines = summed(&mut |cos| {
            let sin = &mut PairGradients::new(&mut sines, [1, 1, pairs]).expect("a row");
            rope.cos_sin_gradients(x, dy, cos, sin).expect("fits");
        });
        for pair in 0..pairs {
            let [x, y] = [loss.x[2 * pair], loss.x[2 * pair + 1]];
            let [u, v] = [loss.weights[2 * pair], loss.weights[2 * pair + 1]];
            assert_eq!(cosines[pair], x * u + y * v);
            assert_eq!(sines[pair], x * v - y * u);
            near(dcos[pair], cosines[pair], 16.0, "cos");
            near(dsin[pair], sines[pair], 16.0, "sin");
        }
        // Parametrizations of the frequencies of axis 0.
        let first = &df[..pairs];
        let by_all = |change: &dyn Fn(usize, f64) -> f64| {
            let mut changed = frequencies.clone();
            for (pair, frequency) in changed[..pairs].iter_mut().enumerate() {
                *frequency = change(pair, *frequency);
            }
            loss.at(&angles(&positions, &changed), &factors)
        };
        let (mut logarithms, mut ratios) = (first.to_vec(), first.to_vec());
        convert_to_ratio(&frequencies[..pairs], &mut logarithms);
        let fixed: Vec<f64> = frequencies[..pairs].iter().map(|f| f / 1.5).collect();
        convert_to_ratio(&fixed, &mut ratios);
        for index in 0..pairs {
            let of = |pair: usize, one: f64, other: f64| if pair == index { one } else { other };
            let by_alpha = |alpha: f64| by_all(&|pair, f| of(pair, f * alpha.exp(), f));
            near(
                logarithms[index],
                central(by_alpha, 0.0),
                256.0,
                "a logarithm",
            );
            let by_ratio = |ratio: f64| by_all(&|pair, f| of(pair, ratio * fixed[pair], f));
            near(ratios[index], central(by_ratio, 1.5), 256.0, "a ratio");
        }
        let base = 50.0;
        let ladder = |base: f64| (0..pairs).map(move |i| base.powf(-(i as f64) / pairs as f64));
        for (frequency, of_base) in frequencies.iter_mut().zip(ladder(base)) {
            *frequency = of_base;
        }
        let by_base = |base: f64| {
            let mut changed = frequencies.clone();
            for (frequency, of_base) in changed.iter_mut().zip(ladder(base)) {
                *frequency = of_base;
            }
            loss.at(&angles(&positions, &changed), &factors)
        };
        let df: Vec<f64> = (0..pairs)
            .map(|index| {
                let by = |value: f64| {
                    let mut changed = frequencies.clone();
                    changed[index] = value;
                    loss.at(&angles(&positions, &changed), &factors)
                };
                central(by, frequencies[index])
            })
            .collect();
        let got = convert_to_base(base, &frequencies[..pairs], &df);
        near(got, central(by_base, base), 16.0, "a base");
    }
}

/// Tokens can be split between threads.
#[test]
fn any_split_of_tokens_gives_the_same_bits() {
    let source = &mut Source::random("any_split_of_tokens_gives_the_same_bits");
    for _ in 0..100 {
        let shape = [
            source.within(1, 3),
            source.within(1, 40),
            source.within(1, 5),
            2 * source.within(1, 40),
        ];
        let [_, tokens, heads, head_dim] = shape;
        let pairs = head_dim / 2;
        let own_heads = source.one_of(&[1, heads]);
        let len = shape.iter().product();
        let mut data = || -> Vec<f32> { (0..len).map(|_| source.unit()).collect() };
        let (y, dy) = (data(), data());
        let at = source.within(0, tokens);
        let rope = Rope::new(source.one_of(&Pairing::ALL));
        let mut whole = vec![0.5; tokens * own_heads * pairs];
        let mut split = whole.clone();
        let shape_of_sums = [tokens, own_heads, pairs];
        let (y, dy) = (tensor(&y, shape), tensor(&dy, shape));
        let add = |y: &_, dy: &_, angles: &mut PairGradients<'_>| {
            rope.angle_gradients(y, dy, angles).expect("sums that fit");
        };
        let mut sums = PairGradients::new(&mut whole, shape_of_sums).expect("their shape");
        add(&y, &dy, &mut sums);
        let sums = PairGradients::new(&mut split, shape_of_sums).expect("their shape");
        let (first, rest) = sums.split_at(at).expect("so many rows");
        let (y_first, y_rest) = y.split_at(Dimension::Tokens, at).expect("so many tokens");
        let (dy_first, dy_rest) = dy.split_at(Dimension::Tokens, at).expect("so many tokens");
        let parts = [(first, y_first, dy_first), (rest, y_rest, dy_rest)];
        // In any order.
        for (mut sums, y, dy) in parts.into_iter().rev() {
            add(&y, &dy, &mut sums);
        }
        same(
            &split,
            &whole,
            &format!("{shape:?}, {own_heads} heads, at {at}"),
        );
    }
}

/// A refused call neither adds nor writes.
#[test]
fn refused_calls_touch_nothing() {
    let shape = [2, 3, 4, 8];
    let values: Vec<f32> = (0..192).map(|i| i as f32).collect();
    let table: Vec<f32> = (0..24).map(|i| 1.0 + i as f32).collect();
    let rows = Rows::new(&table, [3, 8]).expect("three rows");
    let rope = Rope::new(Pairing::Half);
    let y = tensor(&values, shape);
    let refused = |rope: Rope,
                   y: &Tensor<'_, f32>,
                   of_sums: [usize; 3],
                   rows: &Rows<'_>,
                   error: Error,
                   words: &[&str]| {
        let before: Vec<f64> = (0..of_sums.iter().product()).map(|i| i as f64).collect();
        let mut sums = before.clone();
        let mut angles = PairGradients::new(&mut sums, of_sums).expect("their shape");
        let mut written = values.clone();
        let mut dy = TensorMut::new(&mut written, shape).expect("a valid tensor");
        assert_eq!(rope.backward(y, &mut dy, rows, &mut angles), Err(error));
        let mut across = values.clone();
        let mut dx = TensorMut::new(&mut across, shape).expect("a valid tensor");
        let dy = tensor(&values, shape);
        assert_eq!(
            rope.backward_into(y, &dy, &mut dx, rows, &mut angles),
            Err(error)
        );
        if !matches!(error, Error::Gradient(GradientError::Shape { .. })) {
            let mut other = before.clone();
            let mut other = PairGradients::new(&mut other, of_sums).expect("their shape");
            let (dy, angles, other) = (&dy, &mut angles, &mut other);
            for (call, refused) in [
                rope.angle_gradients(y, dy, angles),
                rope.factor_gradients(y, dy, angles),
                rope.cos_sin_gradients(y, dy, angles, other),
                rope.cos_sin_gradients(y, dy, other, angles),
            ]
            .into_iter()
            .enumerate()
            {
                assert_eq!(refused, Err(error), "call {call}");
            }
        }
        assert!(sums == before && written == values && across == values);
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let fits = [3, 1, 4];
    for direction in [Direction::Transpose, Direction::Inverse] {
        let error = Error::Gradient(GradientError::Direction { direction });
        refused(
            rope.with_direction(direction),
            &y,
            fits,
            &rows,
            error,
            &[&direction.to_string()],
        );
    }
    let other = [2, 3, 2, 16];
    let error = Error::Shape(ShapeError::Mismatch {
        dimension: Dimension::Heads,
        source: 2,
        target: shape[2],
    });
    refused(
        rope,
        &tensor(&values, other),
        fits,
        &rows,
        error,
        &["heads is 2"],
    );
    for heads in [0, 2, 5] {
        let error = Error::Gradient(GradientError::Heads {
            gradients: heads,
            heads: 4,
        });
        refused(
            rope,
            &y,
            [3, heads, 4],
            &rows,
            error,
            &[&heads.to_string(), "4"],
        );
    }
    for count in [0, 2, 5, 7] {
        let error = Error::Rows(RowsError::Count {
            rows: count,
            tokens: 3,
            batch: 2,
        });
        refused(
            rope,
            &y,
            [count, 1, 4],
            &rows,
            error,
            &[&count.to_string(), "3"],
        );
    }
    let error = Error::Rows(RowsError::RotaryDimExceedsHead {
        rotary_dim: 10,
        head_dim: 8,
    });
    refused(rope, &y, [3, 4, 5], &rows, error, &["10", "8"]);
    let narrow = Rows::new(&table[..18], [3, 6]).expect("three rows");
    let error = Error::Gradient(GradientError::Shape {
        what: "pairs",
        given: 4,
        needed: 3,
    });
    refused(rope, &y, [6, 4, 4], &narrow, error, &["4 pairs", "3"]);

    // In place the pairing must stay, and also for products of inputs and outputs.
    let changes = rope.with_output_pairing(Pairing::Interleaved);
    let error = Error::Gradient(GradientError::Pairing {
        input: Pairing::Half,
        output: Pairing::Interleaved,
    });
    let mut sums = [vec![0.0; 12], vec![0.0; 12]];
    let [cos, sin] = &mut sums;
    let mut cos = PairGradients::new(cos, fits).expect("their shape");
    let mut sin = PairGradients::new(sin, fits).expect("their shape");
    let refused = changes.cos_sin_gradients(&y, &y, &mut cos, &mut sin);
    assert_eq!(refused, Err(error));
    let mut written = values.clone();
    let mut dy = TensorMut::new(&mut written, shape).expect("a valid tensor");
    assert!(changes.backward(&y, &mut dy, &rows, &mut cos).is_err());
    assert!(sums.concat() == [0.0; 24] && written == values);
}

/// Tensors without a sequence or without a head add nothing.
#[test]
fn nothing_is_added_of_empty_tensors() {
    let rope = Rope::new(Pairing::Half);
    for shape in [[0, 3, 4, 8], [2, 3, 0, 8]] {
        let x = Tensor::new(&[0.0_f32; 0], shape).expect("an empty tensor");
        let (mut sums, mut others) = ([0.5; 12], [0.5; 12]);
        let mut sums_of = PairGradients::new(&mut sums, [3, 1, 4]).expect("their shape");
        let mut others_of = PairGradients::new(&mut others, [3, 1, 4]).expect("their shape");
        let (x, first, second) = (&x, &mut sums_of, &mut others_of);
        assert_eq!(rope.angle_gradients(x, x, first), Ok(()));
        assert_eq!(rope.factor_gradients(x, x, first), Ok(()));
        assert_eq!(rope.cos_sin_gradients(x, x, first, second), Ok(()));
        assert_eq!([sums, others], [[0.5; 12]; 2], "{shape:?}");
    }
}

#[test]
fn refused_reductions_touch_nothing() {
    let storage = |what, given, needed| Error::Storage {
        what,
        given,
        needed,
    };
    let mut sums = [1.0; 24];
    assert_eq!(
        PairGradients::new(&mut sums, [2, 3, 5]).map(drop),
        Err(storage("sums", 24, 30))
    );
    assert_eq!(
        PairGradients::new(&mut sums, [usize::MAX, 2, 2]).map(drop),
        Err(storage("sums", 24, usize::MAX))
    );
    // An extent of zero does not hide an invalid one.
    for shape in [[0, usize::MAX, 2], [0, 1, usize::MAX], [usize::MAX, 2, 0]] {
        assert_eq!(
            PairGradients::new(&mut [], shape).map(drop),
            Err(storage("sums", 0, usize::MAX))
        );
    }
    let split = PairGradients::new(&mut sums, [2, 3, 4])
        .expect("their shape")
        .split_at(3);
    assert_eq!(
        split.map(drop),
        Err(Error::Rows(RowsError::Range {
            start: 3,
            end: 2,
            rows: 2
        }))
    );

    let gradients = PairGradients::new(&mut sums, [2, 3, 4]).expect("their shape");
    let mut out = [7.0; 25];
    let mut frequencies = |positions: Positions<'_>, axes: usize, len: usize| {
        gradients.frequencies(positions, axes, &mut out[..len])
    };
    let count = |name, given, needed| Error::Count {
        name,
        given,
        needed,
    };
    assert_eq!(
        frequencies((0..3).into(), 1, 12),
        Err(count("positions", 3, 2))
    );
    assert_eq!(
        frequencies((0..2).into(), 2, 12),
        Err(storage("numbers of out", 12, 24))
    );
    assert_eq!(
        frequencies((0..2).into(), usize::MAX, 12),
        Err(storage("numbers of out", 12, usize::MAX))
    );
    let ragged = Positions::axis_major(&[1_i64, 2, 3]);
    let error = Error::Positions(PositionsError::PerAxis { given: 3, axes: 2 });
    assert_eq!(frequencies(ragged, 2, 24), Err(error));
    let infinite = [0.0, f64::INFINITY];
    let refusal = frequencies(Positions::from(&infinite), 1, 12);
    assert_eq!(
        refusal,
        Err(Error::Positions(PositionsError::Coordinate {
            index: 1,
            value: f64::INFINITY
        }))
    );
    assert_eq!(frequencies((0..2).into(), 0, 0), Ok(()));

    let inverse = [1.0; 24];
    let refusal = gradients.positions(&inverse, 3, &mut out[..6]);
    assert_eq!(refusal, Err(count("inverse frequencies", 24, 36)));
    assert_eq!(
        gradients.positions(&inverse, 2, &mut out[..5]),
        Err(storage("numbers of out", 5, 4))
    );

    // More positions than any memory has are not accepted because their product wraps in 64 bits.
    let many = PairGradients::new(&mut [], [1 << (usize::BITS - 2), 1, 0]).expect("no sums");
    assert_eq!(
        many.positions(&[], 4, &mut []),
        Err(storage("numbers of out", 0, usize::MAX))
    );

    let mut others = [1.0; 24];
    let table: [f32; 16] = core::array::from_fn(|i| 0.5 + i as f32);
    let rows = Rows::new(&table, [2, 8]).expect("two rows");
    let (mut cos, mut sin) = ([7.0; 24], [7.0; 24]);
    let mut cos_sin = |shape: [usize; 3], rows: &Rows<'_>, len: usize| {
        let factors = PairGradients::new(&mut others, shape).expect("their shape");
        gradients.cos_sin(&factors, rows, &mut cos[..len], &mut sin)
    };
    let shapes = |what, given, needed| {
        Error::Gradient(GradientError::Shape {
            what,
            given,
            needed,
        })
    };
    assert_eq!(cos_sin([2, 4, 3], &rows, 24), Err(shapes("heads", 3, 4)));
    let one = Rows::new(&table[..8], [1, 8]).expect("a row");
    assert_eq!(cos_sin([2, 3, 4], &one, 24), Err(shapes("rows", 2, 1)));
    assert_eq!(
        cos_sin([2, 3, 4], &rows, 23),
        Err(storage("values of cos", 23, 24))
    );
    let mut table = table;
    [table[10], table[14]] = [0.0, -0.0];
    let rows = Rows::new(&table, [2, 8]).expect("two rows");
    let zeros = |row, head| Error::Gradient(GradientError::RowOfZeros { row, head, pair: 2 });
    assert_eq!(cos_sin([2, 3, 4], &rows, 24), Err(zeros(1, 0)));
    let mut table: [f32; 48] = core::array::from_fn(|i| 1.0 + i as f32);
    [table[42], table[46]] = [0.0, -0.0];
    let rows = Rows::new(&table, [6, 8]).expect("six rows").with_heads(3);
    let rows = rows.expect("two rows of each head");
    assert_eq!(cos_sin([2, 3, 4], &rows, 24), Err(zeros(1, 2)));
    assert!(zeros(1, 2).to_string().contains("pair 2 of row 1 (head 2)"));
    assert!(out == [7.0; 25] && cos == [7.0; 24] && sin == [7.0; 24]);
}

/// A frequency of zero rotates nothing and has a gradient like all others.
#[test]
fn a_frequency_of_zero_has_a_gradient() {
    let source = &mut Source::random("a_frequency_of_zero_has_a_gradient");
    let [axes, heads, pairs, tokens] = [2, 3, 5, 7];
    // Axis 1 does not rotate, nor does pair 2.
    let inverse: Vec<f32> = (0..axes * heads * pairs)
        .map(|at| match at / (heads * pairs) == 1 || at % pairs == 2 {
            true => 0.0,
            false => 1.0 + source.unit(),
        })
        .collect();
    let frequencies = MixedFrequencies::new(&inverse, [axes, heads, pairs], 1.0).expect("a shape");
    let positions: Vec<i64> = (0..axes * tokens)
        .map(|_| 1 + source.below(50) as i64)
        .collect();
    let rows = frequencies
        .rows(Positions::token_major(&positions))
        .expect("positions");
    let shape = [1, tokens, heads, 2 * pairs];
    let len = shape.iter().product();
    let mut data = || -> Vec<f32> { (0..len).map(|_| source.unit()).collect() };
    let (x, mut dy) = (data(), data());
    let mut y = x.clone();
    let rope = Rope::new(Pairing::Interleaved);
    rope.rotate(&mut TensorMut::new(&mut y, shape).expect("a tensor"), &rows)
        .expect("rows");
    for (index, (x, y)) in x.iter().zip(&y).enumerate() {
        assert_eq!(x == y, index / 2 % pairs == 2, "{index}");
    }
    let mut sums = vec![0.0; tokens * heads * pairs];
    let mut angles = PairGradients::new(&mut sums, [tokens, heads, pairs]).expect("a shape");
    let mut dx = TensorMut::new(&mut dy, shape).expect("a tensor");
    rope.backward(&tensor(&y, shape), &mut dx, &rows, &mut angles)
        .expect("rows of each head");
    let mut df = vec![0.0; axes * heads * pairs];
    angles
        .frequencies(Positions::token_major(&positions), axes, &mut df)
        .expect("positions");
    assert!(df.iter().all(|gradient| *gradient != 0.0), "{df:?}");
}
