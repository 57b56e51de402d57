//! The norm of a model's queries and keys.

use rope_core::norm::Norm;

/// The norm of a model's queries and keys, without its weights: [`Model::norm`](crate::Model::norm) and
/// [`Layer::norm`](crate::Layer::norm).
///
/// Queries and keys have separate weights, in the same shape. Norms of latents in multi-head latent attention are not
/// included, nor are other factors of the model's code on queries; the table names them
/// ([guide](crate::guide::models)).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelNorm {
    /// The norm, without weights ([`Norm::with_weight`]) and biases ([`Norm::with_bias`]).
    pub norm: Norm<'static>,
    /// Its weights.
    pub weights: NormWeights,
    /// True if it has biases, in the shape of the weights.
    pub bias: bool,
    /// True if each head of the values is normed too, by the same formula and with the same eps, without weights: Gemma
    /// 3n and 4.
    pub values: bool,
}

/// The weights of the norm of a model's queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormWeights {
    /// None: Llama 4, nanochat.
    None,
    /// `[head_dim]`, shared by all heads.
    Shared,
    /// `[heads, head_dim]`: norms over all heads of a token, and those of Cohere, StableLM, Chameleon and PLaMo 2.
    PerHead,
}
