//! The shapes of common models.

use anyhow::Result;
use rope_core::Pairing;

use crate::cases::names::named;
use crate::cases::workloads::Workload;

/// The workloads of every model: a prompt, a token, and a token of each of many sequences.
pub const STEPS: [&str; 3] = ["prefill", "decode", "batch"];

/// The relevant parameters of a model. Scaled frequencies change the rows, not the work, and are omitted.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub name: &'static str,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    rotary_dim: usize,
    base: f64,
    pub pairing: Pairing,
}

macro_rules! models {
    ($($name:literal $heads:literal $kv_heads:literal $head_dim:literal $rotary_dim:literal $base:literal $pairing:ident;)*) => {
        /// The models known by name.
        pub const MODELS: &[Model] = &[$(Model {
            name: $name,
            heads: $heads,
            kv_heads: $kv_heads,
            head_dim: $head_dim,
            rotary_dim: $rotary_dim,
            base: $base,
            pairing: Pairing::$pairing,
        }),*];
    };
}

// heads of Q, heads of K, head_dim, channels that rotate, base, pairing
models! {
    "llama-3.1-8b"  32  8 128 128   500000.0 Half;
    "llama-3.2-1b"  32  8  64  64   500000.0 Half;
    "llama-2-7b"    32 32 128 128    10000.0 Half;
    "mistral-7b"    32  8 128 128  1000000.0 Half;
    "qwen2.5-7b"    28  4 128 128  1000000.0 Half;
    "qwen3-0.6b"    16  8 128 128  1000000.0 Half;
    "qwen3-8b"      32  8 128 128  1000000.0 Half;
    "gemma-3-4b"     8  4 256 256  1000000.0 Half;
    "gpt-oss-20b"   64  8  64  64   150000.0 Half;
    "gpt-neox-20b"  64 64  96  24    10000.0 Half;
    "gpt-j-6b"      16 16 256  64    10000.0 Interleaved;
    "glm-4-9b"      32  2 128  64    10000.0 Interleaved;
    // The rotated 64 channels of each head, and the one key that all heads share.
    "deepseek-v3"  128  1  64  64    10000.0 Interleaved;
}

impl Model {
    /// Returns the model of that name.
    pub fn named(name: &str) -> Result<Model> {
        named(MODELS, "model", name, |model| model.name).copied()
    }

    /// Returns prefill, decode, and decode of many sequences: the [`STEPS`].
    pub fn workloads(&self) -> Vec<Workload> {
        let new = |step: &str, about: &str, batch: usize, tokens: usize, starts: Vec<u32>| {
            let name = self.name;
            let shape = [batch, tokens, self.heads, self.head_dim];
            Workload {
                kv_heads: self.kv_heads,
                rotary_dim: self.rotary_dim,
                base: self.base,
                starts,
                ..Workload::new(
                    &format!("{name}/{step}"),
                    &format!("{name}: {about}"),
                    shape,
                )
            }
        };
        let about = "one token of each of 64 sequences, Q and K";
        let [prefill, decode, batch] = STEPS;
        vec![
            new(prefill, "2048 tokens, Q and K", 1, 2048, vec![0]),
            new(decode, "one token, Q and K", 1, 1, vec![4095]),
            new(batch, about, 64, 1, Workload::lengths()),
        ]
    }
}
