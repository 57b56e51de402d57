//! Norms around the rotation, compared with results of the attention of real models: bits for root mean squares and for
//! Cohere's layer norm, and a tolerance for `nn.LayerNorm`, which sums by another algorithm.
//!
//! Comparisons, for f32, bf16 and f16:
//!
//! | calls | compared with | |
//! |---|---|---|
//! | `apply` | `*_norm`; after the rotation `*_out`, from `*_rope` | bits |
//! | `rotate`, rounded as the model rounds its norm | `*_rope_once`, or `*_out` in f32 | bits |
//! | `rotate`, rounded once in all | `*_fused_once` | bits |

use rope_core::norm::{Norm, NormFormula, NormReach, NormSum};
use rope_core::stages::{Normed, StageOrder};
use rope_core::{Backend, Pairing, Rope, Rows, Tensor, TensorMut};
use rope_tests::golden::{self, Bits, Golden};
use rope_tests::{Number, bounds, each_element, exact};

use crate::models::{alike, members};

/// Returns the formula of an id of the files, and the same formula with a single rounding.
fn formulas(id: &str) -> [NormFormula; 2] {
    let formula = match id {
        "R1" => NormFormula::LLAMA,
        "R2" => NormFormula::OLMO2,
        "R3" => NormFormula::GEMMA,
        "R4" => NormFormula::OLMO2,
        "R5" => NormFormula::LLAMA4,
        "L1" => NormFormula::LAYER_NORM,
        "L4" => NormFormula::LAYER_NORM,
        other => panic!("formula {other}"),
    };
    let once = NormFormula {
        centered: formula.centered,
        weighted: formula.weighted,
        one_plus_weight: formula.one_plus_weight,
        ..NormFormula::ONCE
    };
    [formula, once]
}

fn place(name: &str) -> StageOrder {
    match name {
        "before" => StageOrder::BeforeRotation,
        "after" => StageOrder::AfterRotation,
        other => panic!("place {other}"),
    }
}

fn pairing(name: &str) -> Pairing {
    match name {
        "half" => Pairing::Half,
        "interleaved" => Pairing::Interleaved,
        other => panic!("layout {other}"),
    }
}

fn reach(name: &str) -> NormReach {
    match name {
        "head" => NormReach::Head,
        "row" => NormReach::Token,
        other => panic!("reach {other}"),
    }
}

/// Returns the cos or sin of a model for an element type; the model keeps it in that type or in f32.
fn angles<E: Number + Bits>(file: &Golden, key: &str) -> Vec<f32> {
    match file.find(&format!("{key}_f32")) {
        Some(_) => file.bits(&format!("{key}_f32")),
        None => {
            let values: Vec<E> = file.bits(&format!("{key}_{}", E::NAME));
            values.into_iter().map(Number::to_f32).collect()
        }
    }
}

fn with_lists<'a, E: Number>(
    norm: Norm<'a>,
    weight: Option<&'a [E]>,
    bias: Option<&'a [E]>,
) -> Norm<'a> {
    let norm = weight.map_or(norm, |weight| norm.with_weight(weight));
    bias.map_or(norm, |bias| norm.with_bias(bias))
}

/// Q or K of a file in one element type.
struct Heads<'f, E> {
    doing: String,
    file: &'f Golden,
    /// The id of the formula. A constant of [`NormFormula`] does not suffice: a layer norm that is compared by bits may
    /// have the formula of `nn.LayerNorm`.
    formula: &'f str,
    shape: [usize; 4],
    pairing: Pairing,
    norm: Norm<'f>,
    /// The norm with a single rounding.
    once: Norm<'f>,
    cos: &'f [f32],
    sin: &'f [f32],
    x: Vec<E>,
}

impl<E: Number + Bits> Heads<'_, E> {
    fn rows(&self) -> Rows<'_> {
        let tokens = self.shape[1];
        let pairs = self.cos.len() / tokens;
        Rows::from_cos_sin(self.cos, self.sin, [tokens, pairs], 2 * pairs).expect("whole rows")
    }

    fn rope(&self, backend: Backend) -> Rope {
        Rope::new(self.pairing)
            .with_backend(backend)
            .expect("an available backend")
    }

    /// Runs a chain in place, with or without its rotation.
    fn run(&self, chain: Rope<Normed<'_>>, x: &[E], rotates: bool) -> Vec<E> {
        let mut y = x.to_vec();
        let mut tensor = TensorMut::new(&mut y, self.shape).expect("a valid tensor");
        if rotates {
            chain.rotate(&mut tensor, &self.rows())
        } else {
            chain.apply(&mut tensor)
        }
        .expect("a norm that fits");
        y
    }

    /// Asserts that the rotation in f32, rounded to 16 bits, is the exact rotation rounded once, except where the file
    /// lists an exception.
    fn rotation_rounded_once(&self, tensor: &str) {
        let key = |name: &str| format!("{tensor}_{name}_{}", E::NAME);
        let from = match self.norm.order {
            StageOrder::BeforeRotation => key("norm"),
            StageOrder::AfterRotation => key("in"),
        };
        let (x, once) = (
            self.file.bits::<E>(&from),
            self.file.bits::<E>(&key("rope_once")),
        );
        let [_, tokens, heads, head_dim] = self.shape;
        let pairs = self.cos.len() / tokens;
        let mut off = 0;
        for head in 0..tokens * heads {
            for pair in 0..pairs {
                let row = head / heads * pairs + pair;
                let at =
                    members(self.pairing, pair, pairs).map(|channel| head * head_dim + channel);
                let [a, b] = at.map(|index| f64::from(x[index].to_f32()));
                let (cos, sin) = (self.cos[row].into(), self.sin[row].into());
                let (c, d) = exact::rotate((a, b), (cos, sin));
                for (index, exact) in at.into_iter().zip([c, d]) {
                    let nearest = exact::is_nearest(once[index], exact, 1e-14 * a.hypot(b));
                    off += usize::from(!nearest);
                }
            }
        }
        let said = self.file.decimal(&key("rope_once_exact_diff"));
        assert_eq!(off, said, "{}", self.doing);
    }

    /// Compares with the values after the key, if the file has it: bits, or the tolerance of a layer norm.
    fn compare(&self, key: &str, backend: Backend, got: &[E]) -> bool {
        if self.file.find(key).is_none() {
            return false;
        }
        let expected: Vec<E> = self.file.bits(key);
        let doing = format!("{backend}, {}, {key}", self.doing);
        if self.formula == "L4" {
            near(got, &expected, self.shape[3], &doing);
        } else {
            alike(got, &expected, &doing);
        }
        true
    }
}

/// Asserts that heads are within the distance of a two-pass layer norm from Welford's.
fn near<E: Number>(got: &[E], expected: &[E], head_dim: usize, doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (head, (got, expected)) in got
        .chunks(head_dim)
        .zip(expected.chunks(head_dim))
        .enumerate()
    {
        let largest = expected
            .iter()
            .fold(0.0_f32, |largest, value| largest.max(value.to_f32().abs()));
        for (channel, (got, expected)) in got.iter().zip(expected).enumerate() {
            let (got, expected) = (got.to_f32(), expected.to_f32());
            let off = (f64::from(got) - f64::from(expected)).abs();
            let bound = bounds::layer_norm::<E>(largest, expected);
            assert!(
                off <= bound || got.is_nan() && expected.is_nan(),
                "{doing}: head {head}, channel {channel}: {got:?}, not {expected:?}"
            );
        }
    }
}

/// Makes every comparison that a file has for Q, or K, in an element type.
fn heads_of_models<E: Number + Bits>() {
    let mut compared = [0; 4];
    for file in Golden::all("norm") {
        let e = E::NAME;
        if file.find("formula").is_none() || file.find(&format!("q_in_{e}")).is_none() {
            continue;
        }
        let [formula, once] = formulas(file.text("formula"));
        let at = place(file.text("place"));
        let (cos, sin) = (
            angles::<E>(&file, &format!("cos_{e}")),
            angles::<E>(&file, &format!("sin_{e}")),
        );
        for tensor in ["q", "k"] {
            let key = |name: &str| format!("{tensor}_{name}_{e}");
            let list = |name: &str| file.find(&key(name)).map(|_| file.bits::<E>(&key(name)));
            let (weight, bias) = (list("weight"), list("bias"));
            let eps = file.bits::<f32>("eps_f32")[0];
            assert_eq!(file.bits::<f64>("eps_f64")[0] as f32, eps);
            let [norm, once] = [formula, once].map(|formula| {
                let norm = Norm::new(formula, eps)
                    .with_reach(reach(file.text("reach")))
                    .with_order(at);
                with_lists(norm, weight.as_deref(), bias.as_deref())
            });
            let heads = Heads::<E> {
                doing: format!("{}, {tensor} in {e}", file.name),
                file: &file,
                formula: file.text("formula"),
                shape: [
                    1,
                    file.decimal("tokens"),
                    file.decimal(&format!("{tensor}_heads")),
                    file.decimal("head_dim"),
                ],
                pairing: pairing(file.text("layout")),
                norm,
                once,
                cos: &cos,
                sin: &sin,
                x: file.bits(&key("in")),
            };
            assert_eq!(cos.len(), heads.shape[1] * file.decimal("n_freq"));
            if e != "f32" {
                heads.rotation_rounded_once(tensor);
            }
            for backend in Backend::available() {
                compared_on(&heads, backend, tensor, &mut compared);
            }
        }
    }
    let expected = match E::NAME {
        "f32" => [18, 0, 0, 18],
        _ => [18, 18, 16, 6],
    };
    let backends = Backend::available().count();
    assert_eq!(compared, expected.map(|count| count * backends));
}

/// Compares on a backend and counts norms alone, rotations rounded once, chains rounded once, and whole chains.
fn compared_on<E: Number + Bits>(
    heads: &Heads<'_, E>,
    backend: Backend,
    tensor: &str,
    compared: &mut [usize; 4],
) {
    let key = |name: &str| format!("{tensor}_{name}_{}", E::NAME);
    let Heads { file, norm, x, .. } = heads;
    let rope = heads.rope(backend);
    let chain = rope.with_norm(*norm);
    let mut count = |index: usize, key: String, got: &[E]| {
        let there = heads.compare(&key, backend, got);
        compared[index] += usize::from(there);
        there
    };
    let whole = heads.run(chain, x, true);
    if norm.order == StageOrder::BeforeRotation {
        let normed = heads.run(chain, x, false);
        assert!(count(0, key("norm"), &normed));
        if E::NAME == "f32" {
            assert!(count(3, key("out"), &whole));
        } else {
            assert!(count(1, key("rope_once"), &whole));
            // These models round nothing between the rotation's operations.
            if ["olmo2", "cohere"].contains(&file.text("model")) {
                count(3, key("out"), &whole);
            }
        }
    } else {
        let rotated = heads.run(rope.into(), x, true);
        let normed = heads.run(chain, &file.bits::<E>(&key("rope")), false);
        assert!(count(0, key("out"), &normed));
        if E::NAME == "f32" {
            assert!(count(3, key("out"), &whole));
        } else {
            assert!(count(1, key("rope_once"), &rotated));
            let doing = format!("{backend}, {}, the chain and its steps", heads.doing);
            alike(&whole, &heads.run(chain, &rotated, false), &doing);
            if file.text("model") == "llama4" {
                count(3, key("out"), &whole);
            }
        }
    }
    let once = rope.with_norm(heads.once).without_rounding();
    count(2, key("fused_once"), &heads.run(once, x, true));
}

#[test]
fn the_norms_of_models() {
    each_element!(heads_of_models());
}

/// Tests that f32 weights promote the result of 16-bit activations: it is f32 from there on.
fn promoted<E: Number + Bits>() {
    if E::NAME == "f32" {
        return;
    }
    let file = Golden::file("norm/qwen3_d128_f32_weight.txt");
    let tag = format!("{}_wf32", E::NAME);
    let (tokens, pairs) = (file.decimal("tokens"), file.decimal("n_freq"));
    let eps = file.bits::<f32>("eps_f32")[0];
    assert_eq!(file.bits::<f64>("eps_f64")[0] as f32, eps);
    let widened = |key: &str| -> Vec<f32> {
        let values: Vec<E> = file.bits(&format!("{key}_{tag}_{}", E::NAME));
        values.into_iter().map(Number::to_f32).collect()
    };
    let (cos, sin) = (widened("cos"), widened("sin"));
    let rows =
        |cos, sin| Rows::from_cos_sin(cos, sin, [tokens, pairs], 2 * pairs).expect("whole rows");
    // The norm alone as f32.
    let (ones, zeros) = (vec![1.0; tokens * pairs], vec![0.0; tokens * pairs]);
    for tensor in ["q", "k"] {
        let bits = |name: &str| file.bits::<f32>(&format!("{tensor}_{name}_{tag}"));
        let weight = bits("weight");
        let x: Vec<E> = file.bits(&format!("{tensor}_in_{tag}"));
        let heads = file.decimal(&format!("{tensor}_heads"));
        let shape = [1, tokens, heads, file.decimal("head_dim")];
        let norm = Norm::new(formulas(file.text("formula"))[0], eps)
            .with_reach(reach(file.text("reach")))
            .with_order(place(file.text("place")))
            .with_weight(&weight);
        for backend in Backend::available() {
            let rope = Rope::new(pairing(file.text("layout"))).with_backend(backend);
            let chain = rope.expect("an available backend").with_norm(norm);
            for (name, rows) in [("norm", rows(&ones, &zeros)), ("out", rows(&cos, &sin))] {
                let mut y = vec![f32::NAN; x.len()];
                let source = Tensor::new(&x, shape).expect("a valid tensor");
                let mut target = TensorMut::new(&mut y, shape).expect("a valid tensor");
                chain
                    .rotate_into(&source, &mut target, &rows)
                    .expect("a norm that fits");
                let doing = format!("{backend}, {tensor}_{name}_{tag}");
                alike(&y, &bits(name), &doing);
            }
        }
    }
}

#[test]
fn f32_weights_promote() {
    each_element!(promoted());
}

/// Tests zeros, overflow, infinities, NaN and subnormals with the results of the models' modules.
fn special_rows<E: Number + Bits>() {
    let file = Golden::file("norm/special_d40.txt");
    let e = E::NAME;
    let (tokens, head_dim) = (file.decimal("tokens"), file.decimal("head_dim"));
    for line in golden::lines("norm/special_d40.txt") {
        if line.first().map(String::as_str) != Some("case") {
            continue;
        }
        let value = |key: &str| {
            let at = line.iter().position(|word| word == key).expect(key);
            line[at + 1].as_str()
        };
        let (model, id) = (&line[1], value("formula"));
        let [formula, once] = formulas(id);
        let key = |name: &str| format!("{model}_{name}_{e}");
        let list = |name: &str| file.find(&key(name)).map(|_| file.bits::<E>(&key(name)));
        let (weight, bias) = (list("weight"), list("bias"));
        let [norm, once] = [formula, once].map(|formula| {
            let norm =
                Norm::new(formula, golden::hex(value("eps_f32"))).with_order(place(value("place")));
            with_lists(norm, weight.as_deref(), bias.as_deref())
        });
        let heads = Heads {
            doing: format!("{model} in {e}"),
            file: &file,
            formula: id,
            shape: [1, tokens, 1, head_dim],
            pairing: pairing(value("layout")),
            norm,
            once,
            cos: &angles::<E>(&file, &key("cos")),
            sin: &angles::<E>(&file, &key("sin")),
            x: file.bits(&format!("in_{e}")),
        };
        let n_freq: usize = value("n_freq").parse().expect("a number");
        assert_eq!(heads.cos.len(), tokens * n_freq, "{model}");
        let before = norm.order == StageOrder::BeforeRotation;
        let (from, to) = match before {
            true => (heads.x.clone(), key("norm")),
            false => (file.bits(&key("rope")), key("out")),
        };
        for backend in Backend::available() {
            let chain = heads.rope(backend).with_norm(norm);
            let normed = heads.run(chain, &from, false);
            let doing = format!("{backend}, {model} in {e}");
            if id == "L4" {
                // The overflow and the cancellation of rows 2 and 11 belong to the algorithm.
                let expected: Vec<E> = file.bits(&to);
                let rows = normed.chunks(head_dim).zip(expected.chunks(head_dim));
                for (index, (got, expected)) in rows.enumerate() {
                    if ![2, 11].contains(&index) {
                        near(got, expected, head_dim, &format!("{doing}, row {index}"));
                    }
                }
                continue;
            }
            assert!(heads.compare(&to, backend, &normed), "{to}");
            // The rotation of Llama 4 is complex; PyTorch computes it with FMA if the number of pairs is no multiple of
            // 8.
            let one_rounding = e == "f32" || ["olmo2", "cohere"].contains(&model.as_str());
            if one_rounding && model != "llama4" {
                let whole = heads.run(chain, &heads.x, true);
                assert!(heads.compare(&key("out"), backend, &whole), "{to}");
            }
        }
    }
}

#[test]
fn special_rows_of_models() {
    each_element!(special_rows());
}

/// The mean of squares and the reciprocal root of PyTorch, for rows of up to 32776 values.
#[test]
fn sums_have_the_order_of_pytorch() {
    let file = Golden::file("norm/sum_order.txt");
    let eps = file.bits::<f32>("eps_f32")[0];
    let mut widths = Vec::new();
    for line in golden::lines("norm/sum_order.txt") {
        let [width, seed, mean, root] = &line[..] else {
            continue;
        };
        let (width, seed): (usize, u64) = (
            width.parse().expect("a width"),
            seed.parse().expect("a seed"),
        );
        let (mean, root): (f32, f32) = (golden::hex(mean), golden::hex(root));
        widths.push(width);
        let mut state = seed;
        let x: Vec<f32> = (0..width)
            .map(|_| {
                ((golden::splitmix(&mut state) >> 40) as i64 - (1 << 23)) as f32 * 2f32.powi(-22)
            })
            .collect();
        let normed: Vec<f32> = x.iter().map(|x| x * root).collect();
        for backend in Backend::available() {
            let rope = Rope::new(Pairing::Half).with_backend(backend);
            let rope = rope.expect("an available backend");
            let doing = format!("{backend}, width {width}, seed {seed}");
            // A row as heads of each of these lengths.
            let lengths = [1, 3, 32, 40, 72, 128, 2047, 2048, width];
            for head_dim in lengths.into_iter().filter(|&length| {
                width.is_multiple_of(length) && length <= 2048 && width / length <= 4096
            }) {
                let shape = [1, 1, width / head_dim, head_dim];
                let norm = Norm::new(NormFormula::LLAMA4, eps).with_reach(NormReach::Token);
                let mut sum = [f32::NAN];
                let tensor = Tensor::new(&x, shape).expect("a valid tensor");
                rope.sum_of_squares(norm, &tensor, &mut sum)
                    .expect("one sum for one token");
                let got = sum[0] / width as f32;
                assert_eq!(
                    got.to_bits(),
                    mean.to_bits(),
                    "{doing}, heads of {head_dim}"
                );
                // From the same row, and from the given sum.
                for norm in [norm, norm.with_sum_of_squares(&sum, width)] {
                    let mut y = x.clone();
                    let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
                    rope.with_norm(norm)
                        .apply(&mut tensor)
                        .expect("a norm that fits");
                    alike(&y, &normed, &format!("{doing}, heads of {head_dim}"));
                }
            }
            if width <= 2048 {
                let mut y = x.clone();
                let mut tensor = TensorMut::new(&mut y, [1, 1, 1, width]).expect("a valid tensor");
                rope.with_norm(Norm::new(NormFormula::LLAMA4, eps))
                    .apply(&mut tensor)
                    .expect("a norm that fits");
                alike(&y, &normed, &format!("{doing}, a head"));
            }
        }
    }
    assert!(widths.len() > 190 && widths.contains(&32776), "{widths:?}");
}

/// In f64 the mean is the exact one, rounded once, and the same on every backend.
#[test]
fn sums_in_f64_are_rounded_once() {
    let mut state = 1;
    for width in [1, 7, 8, 31, 32, 100, 128, 640, 2048] {
        let x: Vec<f32> = (0..width)
            .map(|_| {
                ((golden::splitmix(&mut state) >> 40) as i64 - (1 << 23)) as f32 * 2f32.powi(-22)
            })
            .collect();
        // Squares of 46 bits below 4: a sum of 2048 of them is exact in integers.
        let sum: u128 = x
            .iter()
            .map(|x| ((x * 2f32.powi(22)) as i128).pow(2) as u128)
            .sum();
        let mean = (sum as f64 / width as f64 * 2f64.powi(-44)) as f32;
        let eps = 1e-6;
        let root = 1.0 / (mean + eps).sqrt();
        let normed: Vec<f32> = x.iter().map(|x| x * root).collect();
        for backend in Backend::available() {
            let rope = Rope::new(Pairing::Half).with_backend(backend);
            let rope = rope.expect("an available backend");
            for reach in [NormReach::Head, NormReach::Token] {
                let norm = Norm::new(NormFormula::LLAMA4, eps)
                    .with_sum(NormSum::F64)
                    .with_reach(reach);
                let mut y = x.clone();
                let mut tensor = TensorMut::new(&mut y, [1, 1, 1, width]).expect("a valid tensor");
                rope.with_norm(norm)
                    .apply(&mut tensor)
                    .expect("a norm that fits");
                alike(&y, &normed, &format!("{backend}, {reach:?} of {width}"));
            }
        }
    }
}
