//! Models from `config.json` and GGUF files: the same as rope-models answers, and every refusal.

use rope_models::Config;

use super::gguf::{File, Value};
use super::*;

/// Makes a model of a file, and frees it at the end.
struct Model(*mut rope_model);

impl Model {
    #[track_caller]
    fn new(json: &str) -> Self {
        Model::with(json, &zero()).expect("a model")
    }

    fn with(json: &str, config: &rope_config) -> Result<Self, rope_status> {
        let mut made = null_mut();
        let text = json.as_ptr().cast();
        match call!(rope_model_from_config(text, json.len(), config, &mut made)) {
            rope_status::Ok => Ok(Model(made)),
            status => {
                assert!(made.is_null());
                Err(status)
            }
        }
    }

    fn from_gguf(file: &[u8], gguf: *const rope_gguf) -> Result<Self, rope_status> {
        let (mut made, text) = (null_mut(), file.as_ptr());
        let status = call!(rope_model_from_gguf(text, file.len(), gguf, &mut made));
        assert_eq!(made.is_null(), status != rope_status::Ok);
        (status == rope_status::Ok)
            .then_some(Model(made))
            .ok_or(status)
    }

    #[track_caller]
    fn layer(&self, index: usize) -> rope_model_layer {
        let mut layer = zero();
        ok!(rope_model_describe_layer(self.0, index, &mut layer));
        layer
    }

    fn frequencies(&self, rotation: usize) -> Owned {
        Owned::make(|out| call!(rope_model_frequencies(self.0, rotation, out)))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        ok!(rope_model_free(self.0));
    }
}

/// Makes frequencies and a plan of a file, and frees the frequencies.
fn from_config(json: &[u8], config: &rope_config, plan: *mut rope_plan) -> rope_status {
    let (mut made, text) = (null_mut(), json.as_ptr().cast());
    let (len, out) = (json.len(), &mut made);
    let status = call!(rope_frequencies_from_config(text, len, config, out, plan));
    assert_eq!(made.is_null(), status != rope_status::Ok);
    ok!(rope_frequencies_free(made));
    status
}

/// The plan of a model rotates parts of a head that are paired by themselves.
#[test]
fn a_window_of_two_parts() {
    let json = r#"{"model_type": "gemma4_vision", "head_dim": 48, "num_hidden_layers": 1}"#;
    let expected = Config::from_json(json).expect("JSON").model();
    let expected = expected.expect("a model");
    let rotation = expected.rotation().expect("a rotation");
    let (ids, shape) = ([3_i64, 70, 1, 12], [1, 2, 3, 48]);
    let rows = rotation
        .rows(Positions::axis_major(&ids[..]))
        .expect("rows");
    let table = (0..2).filter_map(|token| rows.rows().row(token, 0));
    let table: Vec<f32> = table.flat_map(|(cos, sin)| [cos, sin].concat()).collect();
    let [mut ours, mut theirs] = [(); 2].map(|()| values::<f32>(288));
    let mut wanted = TensorMut::new(&mut theirs, shape).expect("a tensor");
    rotation.rope().rotate(&mut wanted, &rows).expect("rotated");

    let layer = Model::new(json).layer(0);
    let window = (layer.first, layer.rotary_dim, layer.plan.parts);
    assert_eq!(window, (0, 48, 2));
    let (x, rows) = (tensor(&mut ours, shape), joined(&table, 48));
    ok!(rope_rotate(&layer.plan, &x, &rows));
    assert_eq!(ours, theirs);
}

/// The channels that a plan rotates, keys that are refused or left out, and names.
#[test]
fn configurations() {
    let (mut refusals, mut made) = (Refusals::default(), zero::<rope_plan>());
    let none: rope_config = zero();
    let of = |head_dim| rope_config { head_dim, ..none };
    let deepseek =
        br#"{"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_theta": 10000.0}"#;
    // Channels 128..192 of whole heads rotate, and the plan is for tensors of these alone.
    for given in [0, 192, 128, 63] {
        for plan in [null_mut(), &raw mut made] {
            refused!(refusals, from_config(deepseek, &of(given), plan));
        }
    }
    assert_eq!((made.pairing, made.output_pairing), (0, 0));
    ok!(from_config(deepseek, &of(64), &mut made));
    let pairings = [rope_pairing::Interleaved, rope_pairing::Half].map(|pairing| pairing as i32);
    assert_eq!([made.pairing, made.output_pairing], pairings);
    let partial =
        br#"{"model_type": "phi", "head_dim": 80, "hidden_size": 2560, "num_attention_heads": 32,
        "partial_rotary_factor": 0.4, "rope_theta": 10000.0}"#;
    for given in [0, 80, 32] {
        ok!(from_config(partial, &of(given), &mut made));
    }
    let unknown = br#"{"model_type": "none such", "head_dim": 64, "rope_theta": 10000.0}"#;
    let unread = br#"{"model_type": "stablelm", "head_dim": 80, "hidden_size": 2560, "num_attention_heads": 32,
        "rope_pct": 0.5}"#;
    let [llama, without, no_text] = [c"llama", c"none, rope_pct", c"\xff"].map(CStr::as_ptr);
    let named = |model_type| rope_config { model_type, ..none };
    ok!(
        from_config(unknown, &named(llama), &mut made),
        from_config(unread, &rope_config { without, ..none }, &mut made),
    );
    let mut config = |json: &str| {
        refused!(refusals, from_config(json.as_bytes(), &none, null_mut()));
    };
    config(r#"{"model_type": "lama"}"#);
    config(
        r#"{"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_scaling": {"type": "dynamic",
        "factor": 2.0}, "max_position_embeddings": 64}"#,
    );
    config(r#"{"model_type": "gemma3_text", "hidden_size": 2560}"#);
    refused!(
        refusals,
        from_config(partial, &of(64), &mut made),
        from_config(unknown, &none, null_mut()),
        from_config(unknown, &none, &mut made),
        from_config(unread, &none, &mut made),
        from_config(unknown, &named(no_text), &mut made),
        from_config(b"{", &none, null_mut()),
        from_config(b"{}", &none, null_mut()),
        from_config(b"\"\xff\"", &none, null_mut()),
        rope_frequencies_from_config(null(), 2, null(), &mut null_mut(), null_mut()),
    );
    compare!(refusals, "configurations");
}

/// The layers of a model, one after the other.
#[test]
fn models_are_read_layer_by_layer() {
    let json = r#"{"model_type": "gemma3_text", "hidden_size": 640, "num_attention_heads": 4, "head_dim": 256,
        "num_hidden_layers": 7, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}"#;
    let (model, mut count) = (Model::new(json), 0);
    ok!(rope_model_layers(model.0, &mut count));
    assert_eq!(count, 7);
    let expected = Config::from_json(json).and_then(|config| config.model());
    let expected = expected.expect("a model");
    for layer in expected.layers().expect("layers").iter() {
        let rotation = layer.rotation.expect("all layers rotate");
        let own = model.layer(layer.index);
        let frequencies = model.frequencies(own.rotation);
        assert_eq!(
            (own.rotates, own.rotation),
            (1, usize::from(layer.index == 5))
        );
        let window = own.first..own.first + own.rotary_dim;
        let expected = (1, usize::from(layer.index == 5), rotation.head_dim());
        assert_eq!((own.rotates, own.rotation, own.head_dim), expected);
        assert_eq!(window, rotation.window());
        assert_eq!((own.rotates_values, own.unrotates_output), (0, 0));
        let plan = (own.plan.pairing, own.plan.first_channel, own.plan.parts);
        assert_eq!(plan, (rope_pairing::Half as i32, 0, 1));
        let mut inverse = [0.0; 128];
        let out = inverse.as_mut_ptr();
        ok!(rope_frequencies_inverse(frequencies.0, out, 128));
        let pairs = rotation.frequencies().iter().map(|pair| pair.inverse);
        assert!(pairs.eq(inverse), "layer {}", layer.index);
    }
    let (mut own, mut frequencies) = (zero::<rope_model_layer>(), null_mut());
    let (mut refusals, inside) = (Refusals::default(), model.0.cast::<usize>());
    refused!(
        refusals,
        rope_model_describe_layer(model.0, 7, &mut own),
        rope_model_frequencies(model.0, 2, &mut frequencies),
        rope_model_layers(model.0, inside),
        rope_frequencies_free(model.0.cast()),
    );
    each!(rope_model_layers(model, layers); model = model.0, layers = &mut count);
    assert!(own.head_dim == 0 && frequencies.is_null());

    // The parts of a rotation that a plan does not have.
    let nanochat = Model::new(
        r#"{"model_type": "nanochat", "hidden_size": 768, "num_attention_heads": 6, "num_hidden_layers": 1}"#,
    );
    let deepseek =
        Model::new(r#"{"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 1}"#);
    for (model, first, direction, back) in [
        (nanochat, 0, rope_direction::Transpose, 0),
        (deepseek, 448, rope_direction::Forward, 1),
    ] {
        let own = model.layer(0);
        assert_eq!((own.first, own.unrotates_output), (first, back));
        assert_eq!(own.plan.direction, direction as i32);
    }
    // A layer that stands still.
    let still = r#"{"model_type": "cohere2", "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 4}"#;
    let own = Model::new(still).layer(3);
    assert_eq!((own.rotates, own.head_dim, own.plan.pairing), (0, 0, 0));
    for json in [
        "{",
        "{}",
        r#"{"model_type": "bert"}"#,
        r#"{"model_type": "qwen2_5_omni", "talker_config": {}}"#,
        r#"{"model_type": "xcodec2"}"#,
    ] {
        let refused = Model::with(json, &zero()).map(|_| rope_status::Ok);
        refusals.add(refused.unwrap_or_else(|status| status), json);
    }
    let text = b"{}".as_ptr().cast();
    let status = call!(rope_model_from_config(text, 2, null(), null_mut()));
    refusals.add(status, "a model that is null");
    compare!(refusals, "models");
}

/// A key that the model's code ignores is refused, or listed.
#[test]
fn ignored_keys_are_listed() {
    let json = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1,
        "use_mrope": false, "rope_pct": 0.5}"#;
    let made = |lenient| Model::with(json, &rope_config { lenient, ..zero() });
    assert_eq!(made(0).err(), Some(rope_status::Unread));
    let model = made(1).expect("a model");
    let listed = |index, size| {
        let (mut text, mut significant) = ([1_u8; 100], -1);
        let buffer = text.as_mut_ptr().cast();
        let out = &mut significant;
        let status = call!(rope_model_ignored(model.0, index, buffer, size, out));
        let end = text.iter().position(|&byte| byte == 0);
        let text = String::from_utf8_lossy(&text[..end.unwrap_or(0)]).into_owned();
        (status, text, significant)
    };
    let (ok, count) = (rope_status::Ok, rope_status::Count);
    let same =
        "use_mrope is false: it changes nothing, as the model's code does the same without it";
    let other =
        "rope_pct is 0.5: the model's code does not read it, and rotates otherwise than it says";
    assert_eq!(listed(0, 100), (ok, same.to_string(), 0));
    assert_eq!(listed(1, 100), (ok, other.to_string(), 1));
    assert_eq!(listed(1, 9), (ok, "rope_pct".to_string(), 1));
    assert_eq!(listed(1, 0), (ok, String::new(), 1));
    assert_eq!(listed(2, 100), (count, String::new(), -1));
    let nowhere = call!(rope_model_ignored(model.0, 0, null_mut(), 0, null_mut()));
    assert_eq!(nowhere, rope_status::Null);
}

/// The bytes of GGUF files, and each member of `rope_gguf`.
#[test]
fn models_are_read_from_gguf_files() {
    let made = |file: &[u8], gguf: *const rope_gguf| {
        let (model, mut inverse) = (Model::from_gguf(file, gguf)?, vec![0.0; 32]);
        let (made, out) = (model.frequencies(0), inverse.as_mut_ptr());
        ok!(rope_frequencies_inverse(made.0, out, 32));
        Ok::<_, rope_status>(inverse)
    };
    let divided = |factor: f32| {
        let factors = [factor; 32];
        let scaling = Scaling::FreqFactors { factors: &factors };
        let made = Frequencies::new(64, 1e4, &scaling).expect("frequencies");
        Ok(made.iter().map(|pair| pair.inverse).collect::<Vec<f64>>())
    };
    let of = |keys: &[(&str, u32)], architecture: &str, tensors: &[(&str, &[f32])]| {
        let mut file = File::new(&[], tensors);
        let name = ("general.architecture".to_owned(), Value::text(architecture));
        file.keys.extend((!architecture.is_empty()).then_some(name));
        let keys = keys
            .iter()
            .map(|&(key, value)| (key.to_owned(), Value::U32(value)));
        file.keys.extend(keys);
        file.write()
    };
    let keys = [("llama.block_count", 2), ("llama.attention.key_length", 64)];
    let (two, three, none) = ([2.0; 32], [3.0; 32], zero::<rope_gguf>());
    let weights: [(&str, &[f32]); 1] = [("rope_freqs.weight", &two)];
    let file = of(&keys, "llama", &weights);
    assert_eq!(made(&file, null()), divided(2.0));
    assert_eq!(made(&file, &none), divided(2.0));
    assert_eq!(made(&of(&keys, "llama", &[]), null()), divided(1.0));
    let own = with!(none; freq_factors = three.as_ptr(), freq_factor_count = 32);
    assert_eq!(made(&file, &own), divided(3.0));
    let short = &file[..file.len() - 1];
    assert_eq!(made(short, &own), divided(3.0));
    assert_eq!(
        made(&file, &with!(own; freq_factor_count = 0)),
        divided(1.0)
    );

    // Parts of a file.
    let split = |number| [("split.no", number), ("split.count", 2)];
    let first = of(&[&keys[..], &split(0)].concat(), "llama", &[]);
    let other = of(&split(1), "", &weights);
    let (data, length) = (other.as_ptr(), other.len());
    let part = rope_bytes { data, length };
    let parts = with!(none; parts = &raw const part, part_count = 1);
    assert_eq!(made(&first, &parts), divided(2.0));

    // The context, and keys that are not meant.
    let longrope = [
        ("phi3.block_count", 2),
        ("phi3.context_length", 8192),
        ("phi3.attention.key_length", 64),
        ("phi3.rope.scaling.original_context_length", 4096),
        ("phi3.rope.some", 0),
        ("phi3.rope.other", 0),
    ];
    let tensors: [(&str, &[f32]); 2] = [
        ("rope_factors_long.weight", &three),
        ("rope_factors_short.weight", &two),
    ];
    let long = of(&longrope, "phi3", &tensors);
    let without = with!(none; without = c"phi3.rope.some, phi3.rope.other".as_ptr());
    assert_eq!(made(&long, &without), divided(3.0));
    assert_eq!(made(&long, &with!(without; context = 4096)), divided(2.0));

    let no_text = with!(none; without = c"\xff".as_ptr());
    let no_parts = with!(none; part_count = 1);
    let refuses = |file, gguf| made(file, gguf).err().unwrap_or(rope_status::Ok);
    let mut refusals = Refusals::default();
    refused!(
        refusals,
        // The file ends before the tensor, or before its list of tensors.
        refuses(short, null()),
        refuses(&file[..100], null()),
        refuses(b"", null()),
        refuses(&first, null()),
        refuses(&file, &parts),
        refuses(&other, null()),
        refuses(&long, null()),
        refuses(&file, &no_text),
        refuses(&file, &no_parts),
        rope_model_from_gguf(null(), 1, null(), &mut null_mut()),
        rope_model_from_gguf(file.as_ptr(), file.len(), null(), null_mut()),
    );
    compare!(refusals, "gguf");
}
