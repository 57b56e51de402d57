//! Workloads: tensors of Q, and K if it matters, and a position for each token.

use std::ops::Range;

use anyhow::{Result, ensure};
use rope_core::Layout;
use serde::{Deserialize, Serialize};

/// The outer dimension in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Order {
    #[serde(rename = "bshd")]
    TokensMajor,
    #[serde(rename = "bhsd")]
    HeadsMajor,
}

/// Tensors and positions.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name on the command line and in reports.
    pub name: String,
    pub about: String,
    pub batch: usize,
    pub tokens: usize,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K, after Q and rotated in the same call; 0 for Q only.
    pub kv_heads: usize,
    pub head_dim: usize,
    pub rotary_dim: usize,
    /// True if Q and K are normed before they rotate, each head by itself: [`Workload::norm_weights`].
    pub norms: bool,
    pub order: Order,
    pub base: f64,
    /// Position of the first token of each sequence; a single entry is shared by all sequences.
    pub starts: Vec<u32>,
}

/// One tensor of a workload: its range in the buffer, and its layout.
#[derive(Clone, Debug)]
pub struct Part {
    pub range: Range<usize>,
    pub layout: Layout,
}

/// One head: the row of its token, and the start of its channels in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub row: usize,
    pub at: usize,
}

impl Workload {
    /// Creates a tokens-major workload in which all channels rotate, from position 0.
    pub(crate) fn new(
        name: &str,
        about: &str,
        [batch, tokens, heads, head_dim]: [usize; 4],
    ) -> Self {
        Workload {
            name: name.into(),
            about: about.into(),
            batch,
            tokens,
            heads,
            kv_heads: 0,
            head_dim,
            rotary_dim: head_dim,
            norms: false,
            order: Order::TokensMajor,
            base: 10_000.0,
            starts: vec![0],
        }
    }

    /// Creates a shape from the command line: `[batch, tokens, heads, head_dim]`, tokens-major, from position 0.
    pub fn free(shape: [usize; 4]) -> Result<Self> {
        let [batch, tokens, heads, head_dim] = shape;
        let name = format!("{batch},{tokens},{heads},{head_dim}");
        let is_empty = shape.contains(&0);
        ensure!(!is_empty, "shape {name}: every extent must be at least 1");
        ensure!(
            head_dim % 2 == 0,
            "shape {name}: head_dim is {head_dim}, and channels rotate in pairs"
        );
        let mut extents = shape.iter().map(|&extent| extent as u64);
        let bytes = extents.try_fold(4_u64, u64::checked_mul);
        ensure!(
            bytes.is_some_and(|bytes| bytes <= 4 << 30 && usize::try_from(bytes).is_ok()),
            "shape {name}: more than 4 GiB of f32; the bench keeps several copies"
        );
        Ok(Workload::new(
            &name,
            "shape given on the command line",
            shape,
        ))
    }

    /// Returns the five workloads of every report.
    pub fn standard() -> Vec<Workload> {
        let new = Workload::new;
        let prompt = [1, 2048, 32, 128];
        let about = "prefill: 2048 tokens, 32 heads, heads-major";
        let w2 = Workload {
            order: Order::HeadsMajor,
            ..new("W2", about, prompt)
        };
        let about = "decode: one token, 32 Q and 8 K heads in one call";
        let w3 = Workload {
            kv_heads: 8,
            starts: vec![4095],
            ..new("W3", about, [1, 1, 32, 128])
        };
        let about = "batched decode: 64 sequences, each at its own position, 32 heads";
        let w4 = Workload {
            starts: Workload::lengths(),
            ..new("W4", about, [64, 1, 32, 128])
        };
        let w1 = new("W1", "prefill: 2048 tokens, 32 heads, tokens-major", prompt);
        let w5 = new("W5", "a chunk: 16 tokens, 8 heads", [1, 16, 8, 128]);
        vec![w1, w2, w3, w4, w5]
    }

    /// Returns the standard workloads, then those of a full run.
    pub fn all() -> Vec<Workload> {
        let mut all = Workload::standard();
        let about = "prefill of 4 sequences: 128 MiB of f32";
        all.push(Workload::new("W1x4", about, [4, 2048, 32, 128]));
        all.extend(Workload::head_sizes());
        all.push(Workload::normed());
        all
    }

    /// Returns the workloads with a name: those of a full run, then those of [`call`](crate::commands::call).
    pub fn named() -> Vec<Workload> {
        [Workload::all(), Workload::single_calls()].concat()
    }

    /// Returns W3 as Qwen3 and Gemma 3 decode.
    pub fn normed() -> Workload {
        Workload {
            kv_heads: 8,
            norms: true,
            starts: vec![4095],
            ..Workload::new(
                "W3n",
                "W3 with a norm of Q and a norm of K before the rotation",
                [1, 1, 32, 128],
            )
        }
    }

    /// Returns one token of 1 to 40 heads, for the time of a call by its heads; and one pair, as a head and in a head
    /// of 128 channels.
    pub fn single_calls() -> Vec<Workload> {
        let call = |name: String, about: &str, heads: usize, head_dim: usize| Workload {
            starts: vec![4095],
            ..Workload::new(&name, about, [1, 1, heads, head_dim])
        };
        let mut calls: Vec<_> = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40]
            .into_iter()
            .map(|heads| call(format!("H{heads}"), "one token, one tensor", heads, 128))
            .collect();
        calls.extend([2, 128].map(|head_dim| Workload {
            rotary_dim: 2,
            ..call(format!("P{head_dim}"), "one pair", 1, head_dim)
        }));
        calls
    }

    /// Returns the weights of the norms of Q and K, one per channel of a head. They differ, and all have magnitude 1: a
    /// tensor that is normed and rotated repeatedly keeps its length.
    pub fn norm_weights(&self) -> [Vec<f32>; 2] {
        [3, 5].map(|every| {
            let weight = |channel| if channel % every == 0 { -1.0 } else { 1.0 };
            (0..self.head_dim).map(weight).collect()
        })
    }

    /// Returns the positions of the 64 sequences of W4: of different lengths, the longest at 32 k.
    pub(crate) fn lengths() -> Vec<u32> {
        (0..64).map(|sequence| sequence * 509 + 17).collect()
    }

    /// Returns head sizes other than 128, in the shape of W4.
    pub fn head_sizes() -> Vec<Workload> {
        let like = |head_dim: usize, rotary_dim: usize| {
            let mut name = format!("W4d{head_dim}");
            if rotary_dim != head_dim {
                name += &format!("r{rotary_dim}");
            }
            let about = format!("W4 with {rotary_dim} of {head_dim} channels rotating");
            Workload {
                rotary_dim,
                starts: Workload::lengths(),
                ..Workload::new(&name, &about, [64, 1, 32, head_dim])
            }
        };
        let mut sizes: Vec<_> = [64, 80, 96, 192, 256]
            .into_iter()
            .map(|size| like(size, size))
            .collect();
        sizes.push(like(128, 32));
        sizes
    }

    /// Returns the position of every row.
    pub fn positions(&self) -> Vec<u32> {
        let tokens = u32::try_from(self.tokens).unwrap_or(u32::MAX);
        self.starts
            .iter()
            .flat_map(|&start| (0..tokens).map(move |token| start.saturating_add(token)))
            .collect()
    }

    /// Returns the workload of the rotating channels alone.
    pub(crate) fn rotating(&self) -> Workload {
        Workload {
            head_dim: self.rotary_dim,
            ..self.clone()
        }
    }

    /// Returns the number of elements of the tensors.
    pub fn elements(&self) -> usize {
        self.batch * self.tokens * (self.heads + self.kv_heads) * self.head_dim
    }

    /// Returns the number of rotated elements.
    pub fn rotated(&self) -> usize {
        self.batch * self.tokens * (self.heads + self.kv_heads) * self.rotary_dim
    }

    /// Returns `[batch, tokens, heads, head_dim]` as text, with the heads of K.
    pub fn shape(&self) -> String {
        let mut heads = self.heads.to_string();
        if self.kv_heads > 0 {
            heads += &format!("+{}", self.kv_heads);
        }
        format!(
            "[{}, {}, {heads}, {}]",
            self.batch, self.tokens, self.head_dim
        )
    }

    /// Returns Q, and K if there is one.
    pub fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut start = 0;
        for heads in [self.heads, self.kv_heads] {
            if heads > 0 {
                let (batch, tokens, head_dim) = (self.batch, self.tokens, self.head_dim);
                let layout = match self.order {
                    Order::TokensMajor => Layout::bshd([batch, tokens, heads, head_dim])?,
                    Order::HeadsMajor => Layout::bhsd([batch, heads, tokens, head_dim])?,
                };
                parts.push(Part {
                    range: start..start + layout.end(),
                    layout,
                });
                start += layout.end();
            }
        }
        Ok(parts)
    }

    /// Visits every head, in the order of memory.
    pub fn each_head(&self, mut f: impl FnMut(Head)) {
        let (tokens, shared) = (self.tokens, self.starts.len() == 1);
        let mut at = 0;
        for heads in [self.heads, self.kv_heads] {
            for sequence in 0..self.batch {
                let first = if shared { 0 } else { sequence * tokens };
                let is_tokens_major = self.order == Order::TokensMajor;
                let mut extents = [heads, tokens];
                extents.rotate_left(usize::from(is_tokens_major));
                let [outer, inner] = extents;
                for i in 0..outer {
                    for j in 0..inner {
                        let row = first + if is_tokens_major { i } else { j };
                        f(Head { row, at });
                        at += self.head_dim;
                    }
                }
            }
        }
    }
}
