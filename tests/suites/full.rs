//! Full-width rows: golden bits of HunYuan-VL, V-JEPA 2 and any rows; the refused operations; and the stages and caches
//! around a rotation.

use half::bf16;
use rope_core::cache::{CacheFormat, CacheLayout, CacheMut, QuantFormat, QuantScale};
use rope_core::error::{FrequenciesError, GradientError, RowsError};
use rope_core::gradient::PairGradients;
use rope_core::norm::{Norm, NormFormula};
use rope_core::{
    Angle, Angles, AnyRows, Backend, Direction, Error, Frequencies, FullRows, Pairing, Positions,
    Rope, Rows, Scaling, Tensor, TensorMut,
};
use rope_models::Config;
use rope_tests::golden::{Bits, Golden};
use rope_tests::{Number, Source, bodies, each_element, seed};

/// Returns full-width rows of cos and sin, `[rows, rotary_dim]` each.
fn full_rows<'a>(
    cos: &'a [f32],
    sin: &'a [f32],
    [rows, rotary_dim]: [usize; 2],
) -> Result<FullRows<'a>, Error> {
    Rows::strided(cos, sin, [1, rows, 1, rotary_dim]).and_then(FullRows::new)
}

#[test]
fn any_rows() {
    let mut source = Source::random("full::any_rows");
    for _ in 0..seed::times(1500) {
        bodies::full_width(&mut source);
    }
}

#[track_caller]
fn same<E: Number>(got: &[E], expected: &[E], doing: &str) {
    assert_eq!(got.len(), expected.len(), "{doing}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let same = got.bits() == expected.bits() || got.is_nan() && expected.is_nan();
        assert!(
            same,
            "{doing}: element {index} is {got:?}, not {expected:?}"
        );
    }
}

/// Tests the results of each backend for a tensor, in place.
fn rotates<E: Number>(
    file: &Golden,
    (x, shape): (&[E], [usize; 4]),
    rows: &impl Angles,
    direction: Direction,
    expected: &[E],
) {
    for backend in Backend::available() {
        let plan = Rope::new(file.pairings().0).with_direction(direction);
        let plan = plan.with_backend(backend).expect("available");
        let mut y = x.to_vec();
        let mut tensor = TensorMut::new(&mut y, shape).expect("a valid tensor");
        plan.rotate(&mut tensor, rows).expect("rows that fit");
        same(
            &y,
            expected,
            &format!("{}, {backend}, {}", file.name, E::NAME),
        );
    }
}

#[test]
fn given_rows() {
    fn one<E: Number + Bits>(file: &Golden) {
        let (head_dim, rotary_dim) = (file.decimal("head_dim"), file.decimal("rotary_dim"));
        let (tokens, heads) = (file.decimal("tokens"), file.decimal("heads"));
        let (cos, sin): (Vec<f32>, Vec<f32>) = (file.bits("cos_f32"), file.bits("sin_f32"));
        let rows = full_rows(&cos, &sin, [tokens, rotary_dim]).expect("whole rows");
        let bits = |what: &str| file.bits::<E>(&format!("{what}_{}", E::NAME));
        let (x, shape) = (bits("x"), [1, tokens, heads, head_dim]);
        rotates(
            file,
            (&x, shape),
            &rows,
            Direction::Forward,
            &bits("forward"),
        );
        rotates(
            file,
            (&x, shape),
            &rows,
            Direction::Transpose,
            &bits("transpose"),
        );
    }
    let files: Vec<Golden> = Golden::all("full")
        .into_iter()
        .filter(|file| file.name.starts_with("given_"))
        .collect();
    assert_eq!(files.len(), 2);
    for file in &files {
        each_element!(one(file));
    }
}

/// Tests the rows of a file, its tokens and its rotated tensors.
fn of_model<E: Number + Bits>(file: &Golden, rotary_dim: usize, tensors: &[(&str, &str)]) {
    let (tokens, head_dim) = (file.decimal("tokens"), file.decimal("head_dim"));
    let bits = |what: &str| file.bits::<E>(&format!("{what}_{}", E::NAME));
    let widen = |what: &str| bits(what).iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    for &(tensor, heads) in tensors {
        let x = bits(&format!("{tensor}_in"));
        let shape = [1, tokens, file.decimal(heads), head_dim];
        let (cos, sin) = (widen("cos"), widen("sin"));
        let rows = full_rows(&cos, &sin, [tokens, rotary_dim]).expect("whole rows");
        // V-JEPA 2 rounds every operation: in f32 its results equal this crate's, in 16 bits they do not.
        if file.pairings().0 == Pairing::Half || E::NAME == "f32" {
            let expected = bits(&format!("{tensor}_out"));
            rotates(file, (&x, shape), &rows, Direction::Forward, &expected);
        }
        let [cos, sin]: [Vec<f32>; 2] = ["cos_cr_f32", "sin_cr_f32"].map(|key| file.bits(key));
        let rows = full_rows(&cos, &sin, [tokens, rotary_dim]).expect("whole rows");
        let expected = bits(&format!("{tensor}_cr"));
        rotates(file, (&x, shape), &rows, Direction::Forward, &expected);
    }
}

/// Returns the positions of a file's tokens, token by token.
fn ids(file: &Golden, axes: usize) -> Vec<i64> {
    let of_axis = |axis| file.decimals::<i64>(&format!("positions_axis{axis}"));
    let lists: Vec<Vec<i64>> = (0..axes).map(of_axis).collect();
    (0..file.decimal("tokens"))
        .flat_map(|token| lists.iter().map(move |list| list[token]))
        .collect()
}

/// Compares rows of frequencies of channels with the correctly rounded rows of a file.
fn made(file: &Golden, frequencies: &Frequencies<'_>, axes: usize) {
    let (tokens, ids) = (file.decimal("tokens"), ids(file, axes));
    let rows = frequencies
        .rows(Positions::token_major(&ids))
        .and_then(FullRows::new)
        .expect("positions on each axis");
    let [cos, sin]: [Vec<f32>; 2] = ["cos_cr_f32", "sin_cr_f32"].map(|key| file.bits(key));
    let rows = rows.rows();
    let width = rows.rotary_dim() / 2;
    for token in 0..tokens {
        let (ours_cos, ours_sin) = rows.row(token, 0).expect("a row");
        same(ours_cos, &cos[token * width..][..width], "cos");
        same(ours_sin, &sin[token * width..][..width], "sin");
    }
}

/// Compares rows of a model's own frequencies and angles in f32: within one unit in the last place of the model's rows.
fn made_in_f32(file: &Golden, given: &str, axes: usize, channels: &[(usize, usize)]) {
    let given: Vec<f32> = file.bits(given);
    let rows = Frequencies::from_inverse(2 * given.len(), &given, 1.0)
        .map(|set| set.with_angle(Angle::HuggingFaceF32))
        .and_then(|set| set.arranged(axes, channels))
        .and_then(|set| set.rows(Positions::token_major(&ids(file, axes))));
    let rows = rows.and_then(FullRows::new).expect("frequencies");
    let [cos, sin]: [Vec<f32>; 2] = ["cos_f32", "sin_f32"].map(|key| file.bits(key));
    let rows = rows.rows();
    let width = rows.rotary_dim() / 2;
    for token in 0..file.decimal("tokens") {
        let (ours_cos, ours_sin) = rows.row(token, 0).expect("a row");
        let theirs = [&cos, &sin].map(|all| &all[token * width..][..width]);
        for (ours, theirs) in [ours_cos, ours_sin].into_iter().zip(theirs) {
            for (ours, theirs) in ours.iter().zip(theirs) {
                let ulps = ours.to_bits().abs_diff(theirs.to_bits());
                assert!(ulps <= 1, "{}, {token}: {ours}, not {theirs}", file.name);
            }
        }
    }
}

#[test]
fn hunyuan_vl() {
    let file = Golden::file("full/hunyuan_vl_d32_4axes.txt");
    let head_dim = file.decimal("head_dim");
    fn one<E: Number + Bits>(file: &Golden) {
        let tensors = [("q", "q_heads"), ("k", "k_heads")];
        of_model::<E>(file, file.decimal("head_dim"), &tensors);
    }
    each_element!(one(&file));
    let base = file.bits::<f64>("base")[0];
    let channels = file.decimals::<usize>("freq_of_channel").into_iter();
    let channels: Vec<(usize, usize)> = channels
        .zip(file.decimals::<usize>("axis_of_channel"))
        .collect();
    assert_eq!(channels.len(), head_dim);
    let set = Frequencies::new(head_dim, base, &Scaling::Default).expect("a base");
    made(&file, &set.arranged(4, &channels).expect("four axes"), 4);
    made_in_f32(&file, "inv_freq_hf_f32", 4, &channels);
}

#[test]
fn vjepa2() {
    let file = Golden::file("full/vjepa2_d64.txt");
    let (n, width) = (file.decimal("n"), file.decimal("width"));
    fn one<E: Number + Bits>(file: &Golden) {
        of_model::<E>(file, 3 * file.decimal("width"), &[("q", "q_heads")]);
    }
    each_element!(one(&file));
    let set = Frequencies::new(width, 10_000.0, &Scaling::Default).expect("a base");
    let channels: Vec<(usize, usize)> = (0..3 * width)
        .map(|channel| (channel % width % n, channel / width))
        .collect();
    made(&file, &set.arranged(3, &channels).expect("three axes"), 3);
    made_in_f32(&file, "omega_f32", 3, &channels);
}

/// Tests both models by their configurations: the rows and the rotation of whole heads.
#[test]
fn by_configuration() {
    let hunyuan = r#"{"model_type": "hunyuan_vl_text", "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32,
        "num_hidden_layers": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
        "mrope_section": [4, 4, 4, 4]}}"#;
    let section = Golden::file("full/hunyuan_vl_d32_4axes.txt").decimals::<usize>("mrope_section");
    assert_eq!(section, [4; 4]);
    let vjepa2 = r#"{"model_type": "vjepa2", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1}"#;
    let of = |json: &str| {
        let model = Config::from_json(json).and_then(|config| config.model());
        model.and_then(|model| model.rotation().cloned())
    };
    for (json, name, axes) in [
        (hunyuan, "hunyuan_vl_d32_4axes", 4),
        (vjepa2, "vjepa2_d64", 3),
    ] {
        let file = Golden::file(&format!("full/{name}.txt"));
        let rotation = of(json).expect("a rotation");
        assert!(rotation.is_full_width());
        assert_eq!(rotation.pairing().0, file.pairings().0);
        made(&file, rotation.frequencies(), axes);
        let ids = ids(&file, axes);
        let rows = rotation
            .rows(Positions::token_major(&ids))
            .expect("positions");
        assert_eq!(rows.rotary_dim(), rotation.window().len());
        let (tokens, heads) = (file.decimal("tokens"), file.decimal("q_heads"));
        let mut x: Vec<f32> = file.bits("q_in_f32");
        let shape = [1, tokens, heads, rotation.head_dim()];
        let mut tensor = TensorMut::new(&mut x, shape).expect("valid");
        let rope = rotation.rope();
        rope.rotate(&mut tensor, &rows).expect("rows that fit");
        same(&x, &file.bits("q_cr_f32"), name);
        // Rows of the unchanged frequencies would have twice the channels.
        let wrong = rotation.frequencies().rows(Positions::token_major(&ids));
        let mut tensor = TensorMut::new(&mut x, shape).expect("valid");
        let wrong = rope.rotate(&mut tensor, &wrong.expect("positions"));
        assert!(wrong.is_err(), "{wrong:?}");
    }
    // Sections under their older name, and sections that do not cover the head.
    let older = hunyuan.replace("mrope_section", "xdrope_section");
    assert_eq!(
        of(&older).expect("a rotation"),
        of(hunyuan).expect("a rotation")
    );
    let xdrope =
        |alpha: &str| hunyuan.replace("\"default\"", &format!("\"{alpha}\", \"alpha\": 3.0"));
    assert_eq!(
        of(&xdrope("xdrope")).expect("NTK"),
        of(&xdrope("dynamic")).expect("NTK")
    );
    for (from, to) in [
        ("4, 4, 4, 4", "4, 4, 4"),
        ("4, 4, 4, 4", "4, 4, 4, 2, 2"),
        ("[4, 4, 4, 4]", "[4, 4, 4, 4], \"xdrope_section\": [8, 8]"),
        ("\"mrope_section\"", "\"section\""),
    ] {
        let refused = of(&hunyuan.replace(from, to));
        assert!(refused.is_err(), "{to}: {refused:?}");
    }
    let based = vjepa2.replace("\"num_hidden", "\"rope_theta\": 5000.0, \"num_hidden");
    assert!(of(&based).is_err(), "its base is fixed");
}

/// If both channels of a pair have one angle, the bits are those of ordinary rows.
#[test]
fn equal_halves_are_a_rotation() {
    let mut source = Source::random("full::equal_halves_are_a_rotation");
    let (tokens, heads, head_dim) = (5, 3, 64);
    let x: Vec<f32> = (0..tokens * heads * head_dim)
        .map(|_| source.unit())
        .collect();
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
    let rows = frequencies.rows(100..105).expect("positions");
    for pairing in Pairing::ALL {
        let channels: Vec<(usize, usize)> = (0..head_dim)
            .map(|channel| match pairing {
                Pairing::Half => (channel % (head_dim / 2), 0),
                Pairing::Interleaved => (channel / 2, 0),
            })
            .collect();
        let doubled = frequencies.arranged(1, &channels).expect("one axis");
        let full = doubled.rows(100..105).and_then(FullRows::new);
        let full = full.expect("positions");
        let rotated = |rows: &AnyRows<'_>| {
            let mut y = x.clone();
            let mut tensor = TensorMut::new(&mut y, [1, tokens, heads, head_dim]).expect("valid");
            Rope::new(pairing)
                .rotate(&mut tensor, rows)
                .expect("rows that fit");
            y
        };
        same(
            &rotated(&AnyRows::Channels(full)),
            &rotated(&rows.clone().into()),
            "equal halves",
        );
    }
}

/// With a norm, into caches, and from caches: the bits of the steps, one after the other.
#[test]
fn in_passes() {
    let mut source = Source::random("full::in_passes");
    let (tokens, heads, head_dim, rotary_dim) = (7, 2, 64, 48);
    let shape = [1, tokens, heads, head_dim];
    let len = tokens * heads * head_dim;
    let x: Vec<bf16> = (0..len).map(|_| bf16::from_f32(source.unit())).collect();
    let weights: Vec<bf16> = (0..head_dim)
        .map(|_| bf16::from_f32(source.unit()))
        .collect();
    let [cos, sin] =
        [(); 2].map(|()| -> Vec<f32> { (0..tokens * rotary_dim).map(|_| source.unit()).collect() });
    let rows = full_rows(&cos, &sin, [tokens, rotary_dim]).expect("whole rows");
    for backend in Backend::available() {
        let plan = Rope::new(Pairing::Half)
            .with_backend(backend)
            .expect("available");
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).with_weight(&weights);
        let mut steps = x.clone();
        let mut tensor = TensorMut::new(&mut steps, shape).expect("valid");
        plan.with_norm(norm)
            .apply(&mut tensor)
            .expect("a norm that fits");
        plan.rotate(&mut tensor, &rows).expect("rows that fit");

        let mut y = x.clone();
        let mut tensor = TensorMut::new(&mut y, shape).expect("valid");
        plan.with_norm(norm)
            .rotate(&mut tensor, &rows)
            .expect("rows that fit");
        same(&y, &steps, "a norm before the rotation");

        let (format, scale) = (QuantFormat::E4m3, QuantScale::Divide(1.0.into()));
        let layout = || CacheLayout::nhd([tokens, 1, heads, head_dim]).expect("a small cache");
        let [mut passed, mut separate] = [(); 2].map(|()| vec![0_u8; len]);
        let mut cache =
            CacheMut::coded(&mut passed, layout(), CacheFormat::quantized(format, scale))
                .expect("a cache");
        let source = Tensor::new(&x, shape).expect("valid");
        plan.with_norm(norm)
            .rotate_into(&source, &mut cache.slots(0..tokens), &rows)
            .expect("rows that fit");
        let mut cache = CacheMut::coded(
            &mut separate,
            layout(),
            CacheFormat::quantized(format, scale),
        )
        .expect("a cache");
        let source = Tensor::new(&steps, shape).expect("valid");
        plan.apply_into(&source, &mut cache.slots(0..tokens))
            .expect("slots");
        assert_eq!(passed, separate, "{backend}: into codes");
    }
}

/// Operations that need a rotation are refused with the reason, and nothing is written.
#[test]
fn refusals() {
    let (tokens, head_dim) = (3, 8);
    let (cos, sin) = (
        vec![0.5_f32; tokens * head_dim],
        vec![0.25_f32; tokens * head_dim],
    );
    let rows = full_rows(&cos, &sin, [tokens, head_dim]).expect("whole rows");
    assert_eq!(
        rows.rows().row(2, 0),
        Some((&cos[..head_dim], &sin[..head_dim]))
    );
    let either = AnyRows::Channels(rows.clone());
    assert_eq!(
        (either.rotary_dim(), either.rows().len()),
        (head_dim, tokens)
    );
    let refused = |operation| Error::Rows(RowsError::FullWidth { operation });
    let plan = Rope::new(Pairing::Half);
    let mut x = vec![1.0_f32; tokens * head_dim];
    let shape = [1, tokens, 1, head_dim];
    let mut tensor = TensorMut::new(&mut x, shape).expect("valid");
    let back = plan.with_direction(Direction::Inverse);
    assert_eq!(
        back.rotate(&mut tensor, &rows),
        Err(refused("Direction::Inverse"))
    );
    let mut memory = vec![1.0_f32; tokens * head_dim];
    let layout = CacheLayout::nhd([tokens, 1, 1, head_dim]).expect("a small cache");
    let mut cache = CacheMut::new(&mut memory, layout).expect("a cache that fits");
    assert_eq!(
        plan.rotate(&mut cache.slots(0..tokens), &rows),
        Err(refused("a rotation in a cache"))
    );
    assert!(x.iter().chain(&memory).all(|&x| x == 1.0));

    let odd = full_rows(&cos[..9], &sin[..9], [3, 3]).map(drop);
    assert!(
        matches!(
            odd,
            Err(Error::Rows(RowsError::RotaryDim { rotary_dim: 3, .. }))
        ),
        "{odd:?}"
    );
    let long = vec![0.0_f32; 2050];
    let (rotary_dim, limit) = (2050, 2048);
    let result = full_rows(&long, &long, [1, 2050]).map(drop);
    assert_eq!(
        result,
        Err(Error::Frequencies(FrequenciesError::RotaryDimOnStack {
            rotary_dim,
            limit
        }))
    );
}

/// Gradients of channels are refused before anything is added.
#[test]
fn refused_gradients() {
    let x = [1.0_f32; 24];
    let x = Tensor::new(&x, [1, 3, 1, 8]).expect("valid");
    let check = |plan: Rope, shapes: [[usize; 3]; 2], expected: Error| {
        let mut sums = shapes.map(|shape| vec![0.5; shape.iter().product()]);
        let [cos, sin] = &mut sums;
        let mut cos = PairGradients::new(cos, shapes[0]).expect("as many");
        let mut sin = PairGradients::new(sin, shapes[1]).expect("as many");
        let (x, dy, cos, sin) = (&x, &x, &mut cos, &mut sin);
        let result = plan.channel_gradients(x, dy, cos, sin);
        assert_eq!(result, Err(expected));
        assert!(sums.concat().iter().all(|&sum| sum == 0.5), "{expected}");
    };
    let plan = Rope::new(Pairing::Half);
    for rotary_dim in [0, 1, 7] {
        let error = Error::Rows(RowsError::RotaryDim {
            rotary_dim,
            required: "even and at least 2",
        });
        check(plan, [[3, 1, rotary_dim]; 2], error);
    }
    let error = Error::Rows(RowsError::RotaryDimExceedsHead {
        rotary_dim: 10,
        head_dim: 8,
    });
    check(plan, [[3, 1, 10]; 2], error);
    let error = Error::Gradient(GradientError::Shape {
        what: "channels",
        given: 6,
        needed: 8,
    });
    check(plan, [[3, 1, 8], [3, 1, 6]], error);
    let error = Error::Gradient(GradientError::Pairing {
        input: Pairing::Half,
        output: Pairing::Interleaved,
    });
    let changes = plan.with_output_pairing(Pairing::Interleaved);
    check(changes, [[3, 1, 8]; 2], error);
    let direction = Direction::Inverse;
    let error = Error::Gradient(GradientError::Direction { direction });
    check(plan.with_direction(direction), [[3, 1, 8]; 2], error);
}
