//! Qwen2.5-VL: the position ids of a prompt with an image, and the rotation of its queries and keys.
//!
//! A patch of the image has a time, a row and a column. A token of text has one position on all three axes, after the
//! largest one before it. The model's `config.json` assigns pairs of channels to axes.
//!
//! `cargo run -p rope-models --example qwen2_5_vl`

use rope_core::{Positions, TensorMut};
use rope_models::{Config, Error, Rotation};

const CONFIG: &str = r#"{
    "model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
    "num_hidden_layers": 28, "max_position_embeddings": 128000, "rope_theta": 1000000.0,
    "rope_scaling": { "type": "mrope", "mrope_section": [16, 24, 24] }
}"#;

/// A part of the prompt.
#[derive(Clone, Copy)]
enum Part {
    Text {
        tokens: i64,
    },
    /// Patches after the merge of 2 x 2: the grid of the vision tower has twice as many rows and columns.
    Image {
        rows: i64,
        columns: i64,
    },
}

/// Returns the ids of all tokens, `[tokens, 3]`, and the position of the next token of text.
fn position_ids(parts: &[Part]) -> (Vec<[i64; 3]>, i64) {
    let (mut ids, mut next) = (Vec::new(), 0);
    for &part in parts {
        match part {
            Part::Text { tokens } => {
                ids.extend((next..next + tokens).map(|at| [at; 3]));
                next += tokens;
            }
            Part::Image { rows, columns } => {
                for row in 0..rows {
                    ids.extend((0..columns).map(|column| [next, next + row, next + column]));
                }
                next += rows.max(columns);
            }
        }
    }
    (ids, next)
}

/// Rotates the queries and keys of one layer in place, `[tokens, heads, head_dim]` each.
pub(crate) fn rotate(
    rotation: &Rotation,
    ids: &[[i64; 3]],
    q: &mut [f32],
    k: &mut [f32],
) -> Result<(), Error> {
    let head_dim = rotation.head_dim();
    // A model makes these rows once per forward step, for all layers.
    let rows = rotation.rows(Positions::token_major(ids.as_flattened()))?;
    let [heads, kv_heads] = [q.len(), k.len()].map(|len| len / ids.len() / head_dim);
    rotation.rope().rotate_qk(
        &mut TensorMut::new(q, [1, ids.len(), heads, head_dim])?,
        &mut TensorMut::new(k, [1, ids.len(), kv_heads, head_dim])?,
        &rows,
    )?;
    Ok(())
}

pub(crate) fn main() -> Result<(), Error> {
    let model = Config::from_json(CONFIG)?.model()?;
    let rotation = model.rotation()?;
    let head_dim = rotation.head_dim();

    let parts = [
        Part::Text { tokens: 5 },
        Part::Image {
            rows: 3,
            columns: 4,
        },
        Part::Text { tokens: 2 },
    ];
    let (ids, next) = position_ids(&parts);
    // The image spans 4 positions, its longer side, and not 12.
    assert_eq!((ids.len(), next), (5 + 12 + 2, 5 + 4 + 2));
    assert_eq!((ids[5], ids[16], ids[17]), ([5; 3], [5, 7, 8], [9; 3]));

    let mut q = vec![1.0_f32; ids.len() * 28 * head_dim];
    let mut k = vec![1.0_f32; ids.len() * 4 * head_dim];
    rotate(rotation, &ids, &mut q, &mut k)?;

    // The next token, decoded: one id for three axes, because it is text.
    let mut decoded = vec![1.0_f32; 4 * head_dim];
    let mut query = vec![1.0_f32; 28 * head_dim];
    rotate(rotation, &[[next; 3]], &mut query, &mut decoded)?;
    // It equals the same token in a longer prompt.
    let mut longer = ids.clone();
    longer.push([next; 3]);
    let mut q = vec![1.0_f32; longer.len() * 28 * head_dim];
    let mut k = vec![1.0_f32; longer.len() * 4 * head_dim];
    rotate(rotation, &longer, &mut q, &mut k)?;
    assert_eq!(k[ids.len() * 4 * head_dim..], decoded);
    println!(
        "{} tokens with an image at 11 positions, and one more decoded",
        ids.len()
    );
    Ok(())
}
