//! `Rotary` against candle's functions, and beyond them.

use crate::random::{Random, bits};
use candle_core::{D, DType, Device, IndexOp, Result, Tensor};
use rope_candle::rope_core::axes::{Axes, MixedFrequencies};
use rope_candle::rope_core::norm::{Norm, NormFormula};
use rope_candle::rope_core::{self, Frequencies, Pairing, Positions, Scaling};
use rope_candle::{CacheFormat, Order, Rotary, rope, rope_i};

const FLOATS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

fn frequencies(rotary_dim: usize) -> Frequencies<'static> {
    Frequencies::new(rotary_dim, 10_000.0, &Scaling::Default).expect("they exist")
}

#[test]
fn rotates_as_its_tables_do() -> Result<()> {
    let mut random = Random::new("as its tables");
    for (pairing, function) in [
        (Pairing::Half, rope as fn(&_, &_, &_) -> _),
        (Pairing::Interleaved, rope_i),
    ] {
        let rotary = Rotary::new(frequencies(64), pairing);
        for dtype in FLOATS {
            let x = random.tensor((2, 5, 3, 64), dtype)?;
            let rows = rotary.rows(1_000_000..1_000_005)?;
            let (cos, sin) = rows.cos_sin()?;
            assert_eq!((cos.dims(), cos.dtype()), (&[5, 32][..], DType::F32));
            let heads_first = x.transpose(1, 2)?;
            let y = rotary.rotate(&heads_first, &rows)?;
            assert_eq!(bits(&y)?, bits(&function(&heads_first, &cos, &sin)?)?);
            // The other order has the same tokens.
            let tokens_first = rotary.clone().order(Order::TokensMajor).rotate(&x, &rows)?;
            assert_eq!(bits(&y.transpose(1, 2)?)?, bits(&tokens_first)?);
        }
    }
    Ok(())
}

/// cos and sin are those of the exact angle at position 1,000,000, where the product in f32 is off by 6e-2.
#[test]
fn angles_are_exact() -> Result<()> {
    let rotary = Rotary::new(frequencies(2), Pairing::Half);
    let (cos, sin) = rotary.rows(1_000_000..1_000_001)?.cos_sin()?;
    let (exact_sin, exact_cos) = 1e6_f64.sin_cos();
    assert_eq!(cos.i((0, 0))?.to_scalar::<f32>()?, exact_cos as f32);
    assert_eq!(sin.i((0, 0))?.to_scalar::<f32>()?, exact_sin as f32);
    Ok(())
}

#[test]
fn a_part_of_a_head() -> Result<()> {
    let mut random = Random::new("part");
    for pairing in [Pairing::Half, Pairing::Interleaved] {
        let rotary = Rotary::new(frequencies(24), pairing);
        for dtype in FLOATS {
            let x = random.tensor((2, 3, 4, 80), dtype)?;
            let rows = rotary.rows(7..11)?;
            let y = rotary.rotate(&x, &rows)?;
            let part = rotary.rotate(&x.narrow(3, 0, 24)?, &rows)?;
            assert_eq!(bits(&y.narrow(3, 0, 24)?)?, bits(&part)?);
            assert_eq!(bits(&y.narrow(3, 24, 56)?)?, bits(&x.narrow(3, 24, 56)?)?);
        }
    }
    Ok(())
}

/// Sequences at different positions have the bits of each sequence alone.
#[test]
fn positions_of_each_sequence() -> Result<()> {
    let mut random = Random::new("positions");
    let rotary = Rotary::new(frequencies(16), Pairing::Half);
    let x = random.tensor((3, 2, 4, 16), DType::F32)?;
    let ids: Vec<i64> = (0..12)
        .map(|_| random.below(100_000) as i64 - 50_000)
        .collect();
    let tensor = Tensor::new(ids.as_slice(), &Device::Cpu)?.reshape((3, 4))?;
    let y = rotary.rotate(&x, &rotary.rows_at(&tensor)?)?;
    assert_eq!(bits(&y)?, bits(&rotary.rotate(&x, &rotary.rows(&ids)?)?)?);
    for (sequence, ids) in ids.chunks(4).enumerate() {
        let alone = rotary.rotate(&x.narrow(0, sequence, 1)?, &rotary.rows(ids)?)?;
        assert_eq!(bits(&y.narrow(0, sequence, 1)?)?, bits(&alone)?);
    }
    // Integral real positions equal the integers.
    let real = rotary.rows_at(&tensor.to_dtype(DType::F32)?)?;
    assert_eq!(bits(&y)?, bits(&rotary.rotate(&x, &real)?)?);
    Ok(())
}

/// M-RoPE is the rotation of text if all axes agree. Otherwise each pair follows its own axis.
#[test]
fn several_axes() -> Result<()> {
    let mut random = Random::new("axes");
    let axes = Axes::mrope(16, [2, 3, 3]);
    let mrope =
        Frequencies::new(axes, 10_000.0, &Scaling::Default).map_err(candle_core::Error::wrap)?;
    let mrope = Rotary::new(mrope, Pairing::Half);
    let text = Rotary::new(frequencies(16), Pairing::Half);
    let x = random.tensor((2, 2, 3, 16), DType::BF16)?;
    let ids = |random: &mut Random| -> Result<Tensor> {
        let ids: Vec<u32> = (0..6).map(|_| random.below(5000) as u32).collect();
        Tensor::from_vec(ids, (2, 3), &Device::Cpu)
    };
    let time = ids(&mut random)?;
    let same = Tensor::stack(&[&time, &time, &time], 0)?;
    let y = mrope.rotate(&x, &mrope.rows_at(&same)?)?;
    assert_eq!(bits(&y)?, bits(&text.rotate(&x, &text.rows_at(&time)?)?)?);
    let (height, width) = (ids(&mut random)?, ids(&mut random)?);
    let y = mrope.rotate(
        &x,
        &mrope.rows_at(&Tensor::stack(&[&time, &height, &width], 0)?)?,
    )?;
    for (axis, pairs) in [(&time, 0..2), (&height, 2..5), (&width, 5..8)] {
        let alone = text.rotate(&x, &text.rows_at(axis)?)?;
        for pair in pairs {
            for channel in [pair, pair + 8] {
                assert_eq!(
                    bits(&y.narrow(3, channel, 1)?)?,
                    bits(&alone.narrow(3, channel, 1)?)?
                );
            }
        }
    }
    Ok(())
}

#[test]
fn rows_of_each_head() -> Result<()> {
    let mut random = Random::new("heads");
    let (heads, pairs, tokens) = (3, 4, 5);
    let inverse: Vec<f32> = (0..heads * pairs).map(|_| random.number().abs()).collect();
    let mixed = MixedFrequencies::new(&inverse, [1, heads, pairs], 1.0)
        .map_err(candle_core::Error::wrap)?;
    let rows = mixed
        .rows(0..tokens)
        .map_err(candle_core::Error::wrap)?
        .into();
    let rotary = Rotary::new(frequencies(8), Pairing::Half);
    let x = random.tensor((2, heads, tokens, 8), DType::F32)?;
    let y = rotary.rotate(&x, &rows)?;
    for (head, inverse) in inverse.chunks(pairs).enumerate() {
        let alone = Frequencies::from_inverse(8, inverse, 1.0).map_err(candle_core::Error::wrap)?;
        let alone = Rotary::new(alone, Pairing::Half);
        let alone = alone.rotate(&x.narrow(1, head, 1)?, &alone.rows(0..tokens)?)?;
        assert_eq!(bits(&y.narrow(1, head, 1)?)?, bits(&alone)?);
    }
    assert!(rows.cos_sin().unwrap_err().to_string().contains("3 heads"));
    Ok(())
}

/// A configuration has the pairing, the scaling and the channels that rotate. DeepSeek's are those after 128 others,
/// interleaved before the rotation and in halves after it.
#[test]
fn from_a_configuration() -> Result<()> {
    let mut random = Random::new("configuration");
    let rotary = Rotary::from_config(
        r#"{"model_type": "deepseek_v3", "hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4,
            "num_hidden_layers": 2, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rope_theta": 10000.0,
            "rope_interleave": true}"#,
    )?;
    for dtype in FLOATS {
        let x = random.tensor((1, 3, 4, 192), dtype)?;
        let rows = rotary.rows(40..44)?;
        let y = rotary.rotate(&x.transpose(1, 2)?.contiguous()?.transpose(1, 2)?, &rows)?;
        assert_eq!(bits(&y.narrow(3, 0, 128)?)?, bits(&x.narrow(3, 0, 128)?)?);
        let (cos, sin) = rows.cos_sin()?;
        let interleaved = x.narrow(3, 128, 64)?.reshape((1, 3, 4, 32, 2))?;
        let half = interleaved
            .transpose(D::Minus2, D::Minus1)?
            .contiguous()?
            .reshape((1, 3, 4, 64))?;
        assert_eq!(
            bits(&y.narrow(3, 128, 64)?)?,
            bits(&rope(&half, &cos, &sin)?)?
        );
        // The rotating channels alone, as multi-head latent attention has them; and heads of another model.
        let part = rotary.rotate(&x.narrow(3, 128, 64)?, &rows)?;
        assert_eq!(bits(&part)?, bits(&y.narrow(3, 128, 64)?)?);
        // Whole heads into a cache, and with a norm over the whole head before.
        let [keys, values] = [(); 2].map(|()| Tensor::zeros((1, 3, 8, 192), dtype, &Device::Cpu));
        let (keys, values) = (keys?, values?);
        let format = CacheFormat::Elements;
        rotary.rotate_into_caches((&x, &keys), (&x, &values), format, 0..4, &rows)?;
        assert_eq!(bits(&keys.narrow(2, 0, 4)?)?, bits(&y)?);
        let norm = Norm::new(NormFormula::LLAMA, 1e-6).without_weight();
        let normed = rotary.clone().with_norm(norm, None)?;
        normed.rotate_into_caches((&x, &keys), (&x, &values), format, 0..4, &rows)?;
        let y = normed.rotate(&x, &rows)?;
        assert_eq!(bits(&keys.narrow(2, 0, 4)?)?, bits(&y)?);
        assert_ne!(bits(&y.narrow(3, 0, 128)?)?, bits(&x.narrow(3, 0, 128)?)?);
        let other = random.tensor((1, 3, 4, 256), dtype)?;
        let error = rotary.rotate(&other, &rows).unwrap_err().to_string();
        assert!(
            error.contains("256") && error.contains("128..192"),
            "{error}"
        );
    }
    let error = Rotary::from_config(r#"{"model_type": "nobody"}"#).unwrap_err();
    assert!(error.to_string().contains("nobody"), "{error}");
    Ok(())
}

/// Gemma 4's vision tower rotates each half of a head as a head of its own.
#[test]
fn a_window_of_two_parts() -> Result<()> {
    let mut random = Random::new("parts");
    let rotary = Rotary::from_config(r#"{"model_type": "gemma4_vision", "head_dim": 72}"#)?;
    let ids = [3_i64, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    let rows = rotary.rows(Positions::axis_major(&ids))?;
    let (cos, sin) = rows.cos_sin()?;
    let norm = Norm::new(NormFormula::LLAMA, 1e-6).without_weight();
    let normed = rotary.clone().with_norm(norm, None)?;
    for dtype in FLOATS {
        let x = random.tensor((1, 4, 5, 72), dtype)?;
        let y = rotary.rotate(&x, &rows)?;
        for part in 0..2 {
            let [cos, sin] = [&cos, &sin].map(|table| table.narrow(1, 18 * part, 18));
            let half = x.narrow(3, 36 * part, 36)?.contiguous()?;
            let half = rope(&half, &cos?.contiguous()?, &sin?.contiguous()?)?;
            assert_eq!(bits(&y.narrow(3, 36 * part, 36)?)?, bits(&half)?);
        }
        let z = x.copy()?;
        rotary.rotate_in_place(&z, &rows)?;
        assert_eq!(bits(&z)?, bits(&y)?);
        let [keys, values] = [(); 2].map(|()| Tensor::zeros((1, 4, 8, 72), dtype, &Device::Cpu));
        let (keys, values) = (keys?, values?);
        for (rotary, y) in [(&rotary, y), (&normed, normed.rotate(&x, &rows)?)] {
            let (keys, values) = ((&x, &keys), (&x, &values));
            rotary.rotate_into_caches(keys, values, CacheFormat::Elements, 0..5, &rows)?;
            assert_eq!(bits(&keys.1.narrow(2, 0, 5)?)?, bits(&y)?);
        }
    }
    Ok(())
}

/// Layers that rotate in several ways have one `Rotary` of each.
#[test]
fn from_layers() -> Result<()> {
    let config = r#"{"model_type": "gemma3_text", "hidden_size": 256, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 6, "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0, "sliding_window": 512, "sliding_window_pattern": 6}"#;
    assert!(Rotary::from_config(config).is_err());
    let config = rope_models::Config::from_json(config).map_err(candle_core::Error::wrap)?;
    let model = config.model().map_err(candle_core::Error::wrap)?;
    let layers = model.layers().map_err(candle_core::Error::wrap)?;
    let [local, global] = layers.rotations() else {
        panic!("two bases");
    };
    let mut random = Random::new("layers");
    let x = random.tensor((1, 4, 3, 64), DType::BF16)?;
    for (rotation, base) in [(local, 1e4), (global, 1e6)] {
        let rotary = Rotary::from(rotation.clone());
        let of_base = Frequencies::new(64, base, &Scaling::Default);
        let of_base = Rotary::new(of_base.map_err(candle_core::Error::wrap)?, Pairing::Half);
        let rotated = rotary.rotate(&x, &rotary.rows(600..603)?)?;
        assert_eq!(
            bits(&rotated)?,
            bits(&of_base.rotate(&x, &of_base.rows(600..603)?)?)?
        );
    }
    let of_layers = Rotary::of_layers(&model)?;
    for (layer, rotary) in layers.iter().zip(&of_layers) {
        let found = rotary.as_ref().map(Rotary::frequencies);
        assert_eq!(
            found,
            layer.rotation.map(rope_models::Rotation::frequencies)
        );
    }
    assert_eq!(of_layers.len(), 6);
    Ok(())
}

/// A rotation in place has the same bits, and changes nothing else of a packed projection.
#[test]
fn in_place() -> Result<()> {
    let mut random = Random::new("in place");
    let (batch, tokens, heads, kv_heads, head_dim) = (2, 5, 4, 2, 32);
    for rotary_dim in [32, 20] {
        let rotary = Rotary::new(frequencies(rotary_dim), Pairing::Half).order(Order::TokensMajor);
        let rows = rotary.rows(3..8)?;
        for dtype in FLOATS {
            let packed = random.tensor((batch, tokens, heads + 2 * kv_heads, head_dim), dtype)?;
            let untouched = packed.copy()?;
            let part = |packed: &Tensor, start, len| packed.narrow(2, start, len);
            let (q, k) = (part(&packed, 0, heads)?, part(&packed, heads, kv_heads)?);
            let (wanted_q, wanted_k) = rotary.rotate_qk(&q, &k, &rows)?;
            rotary.rotate_qk_in_place(&q, &k, &rows)?;
            assert_eq!(bits(&q)?, bits(&wanted_q)?);
            assert_eq!(bits(&k)?, bits(&wanted_k)?);
            let v = |packed| part(packed, heads + kv_heads, kv_heads);
            assert_eq!(bits(&v(&packed)?)?, bits(&v(&untouched)?)?);
            // Q and K together are one tensor of their heads.
            rotary.rotate_in_place(&part(&untouched, 0, heads + kv_heads)?, &rows)?;
            assert_eq!(bits(&packed)?, bits(&untouched)?);
        }
    }
    Ok(())
}

/// A tensor that is divided among threads has the bits of one head at a time.
#[test]
fn threads_change_nothing() -> Result<()> {
    let mut random = Random::new("threads");
    let rotary = Rotary::new(frequencies(64), Pairing::Half);
    let rows = rotary.rows(0..512)?;
    let x = random.tensor((1, 40, 512, 64), DType::F32)?;
    let y = rotary.rotate(&x, &rows)?;
    for head in [0, 17, 39] {
        let alone = rotary.rotate(&x.narrow(1, head, 1)?, &rows)?;
        assert_eq!(bits(&y.narrow(1, head, 1)?)?, bits(&alone)?);
    }
    rotary.rotate_in_place(&x, &rows)?;
    assert_eq!(bits(&x)?, bits(&y)?);
    Ok(())
}

#[test]
fn is_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<(Rotary, rope_candle::Rows, rope_core::Frequencies<'static>)>();
}
