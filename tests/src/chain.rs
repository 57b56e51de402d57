//! The results of a chain for one token, from its definition: norm, scale, rotation, transform, and the roundings
//! between them.

use rope_core::Backend;
use rope_core::stages::StageOrder;

use crate::hadamard::Hadamard;
use crate::norm::{ElementKind, Norm};
use crate::oracle::{directed, members, rotate};
use crate::{Angles, Expected, Number, Rotation, Source, View};

/// A scale stage.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Factors of the scale.
    pub factors: Factors,
    /// Position of the scale in the chain.
    pub order: StageOrder,
    /// True if the product is rounded.
    pub rounds: bool,
}

/// The factors of a scale.
#[derive(Clone, Debug)]
pub enum Factors {
    /// One factor for all elements.
    Constant(f32),
    /// One factor for each token.
    Tokens(Vec<f32>),
    /// One factor for each head of each token.
    Heads(Vec<f32>),
}

impl Scale {
    /// Returns a random scale for a tensor of this many tokens, over all sequences, and heads.
    pub fn any(source: &mut Source<'_>, tokens: usize, heads: usize) -> Self {
        let factors =
            |source: &mut Source<'_>, len| (0..len).map(|_| 2.0 * source.unit()).collect();
        Scale {
            factors: match source.below(3) {
                0 => Factors::Constant(2.0 * source.unit()),
                1 => Factors::Tokens(factors(source, tokens)),
                _ => Factors::Heads(factors(source, tokens * heads)),
            },
            order: source.one_of(&[StageOrder::BeforeRotation, StageOrder::AfterRotation]),
            rounds: source.once_in(2),
        }
    }

    /// Returns the scale in the crate's form.
    pub fn given(&self) -> rope_core::stages::Scale<'_> {
        let scale = match &self.factors {
            Factors::Constant(factor) => rope_core::stages::Scale::constant(*factor),
            Factors::Tokens(factors) => rope_core::stages::Scale::per_token(factors),
            Factors::Heads(factors) => rope_core::stages::Scale::per_token_and_head(factors),
        }
        .with_order(self.order);
        if self.rounds {
            scale
        } else {
            scale.without_rounding()
        }
    }
}

/// The stages around a rotation.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Norm stage.
    pub norm: Option<Norm>,
    /// Scale stage.
    pub scale: Option<Scale>,
    /// Hadamard transform at the end.
    pub hadamard: Option<Hadamard>,
    /// True if the rotation's result is rounded before another stage or before a code.
    pub rounds: bool,
}

/// A rotation and its rows.
pub type Rotated<'a> = (Rotation, &'a Angles);

impl Chain {
    /// The chain of the rotation alone.
    pub const ALONE: Chain = Chain {
        norm: None,
        scale: None,
        hadamard: None,
        rounds: true,
    };

    /// Returns random stages for a tensor of this many tokens, over all sequences, and heads.
    pub fn any(source: &mut Source<'_>, tokens: usize, heads: usize, head_dim: usize) -> Self {
        Chain {
            norm: (!source.once_in(4)).then(|| Norm::any(source, tokens, heads, head_dim)),
            scale: source.once_in(3).then(|| Scale::any(source, tokens, heads)),
            hadamard: match source.once_in(3) {
                true => Hadamard::any(source, head_dim),
                false => None,
            },
            rounds: source.once_in(2),
        }
    }

    /// Returns the chain in the crate's form.
    pub fn given(
        &self,
        rotation: Rotation,
        backend: Backend,
    ) -> rope_core::Rope<rope_core::stages::Normed<'_>> {
        let mut chain =
            rope_core::Rope::<rope_core::stages::Normed<'_>>::from(rotation.plan(backend));
        let (norm, scale) = self.stages();
        if let Some(norm) = norm {
            chain = chain.with_norm(norm);
        }
        if let Some(scale) = scale {
            chain = chain.with_scale(scale);
        }
        if let Some(hadamard) = &self.hadamard {
            chain = chain.with_hadamard(hadamard.given());
        }
        if self.rounds {
            chain
        } else {
            chain.without_rounding()
        }
    }

    /// Returns the norm and the scale in the crate's form.
    pub fn stages(
        &self,
    ) -> (
        Option<rope_core::norm::Norm<'_>>,
        Option<rope_core::stages::Scale<'_>>,
    ) {
        (
            self.norm.as_ref().map(Norm::given),
            self.scale.as_ref().map(Scale::given),
        )
    }

    /// Returns the heads of a token after all stages. `kind` is the type in which they were read, `token` counts the
    /// tokens of all sequences, `row` is the row of the angles, and `coded` is true if they become codes.
    pub fn heads(
        &self,
        (kind, coded): (ElementKind, bool),
        token: usize,
        heads: &[Vec<f32>],
        rotated: Option<(Rotated<'_>, usize)>,
    ) -> Vec<Vec<f32>> {
        let mut heads = heads.to_vec();
        let kind = self.beside(StageOrder::BeforeRotation, kind, token, &mut heads);
        if let Some(((rotation, angles), row)) = rotated {
            for (index, head) in heads.iter_mut().enumerate() {
                *head = rotated_head(rotation, angles, [row, index], head);
            }
            let behind = |place| place == StageOrder::AfterRotation;
            let stages = self.norm.as_ref().is_some_and(|norm| behind(norm.order))
                || self.scale.as_ref().is_some_and(|scale| behind(scale.order));
            if self.rounds && (stages || self.hadamard.is_some() || coded) {
                heads.iter_mut().flatten().for_each(|x| *x = kind.round(*x));
            }
        }
        let kind = self.beside(StageOrder::AfterRotation, kind, token, &mut heads);
        if let Some(hadamard) = self.hadamard {
            for head in &mut heads {
                hadamard.apply(head);
                if self.rounds && coded {
                    head.iter_mut().for_each(|x| *x = kind.round(*x));
                }
            }
        }
        heads
    }

    /// Undoes the transform of heads before all other stages, then applies those stages: the chain of heads from a
    /// cache and of gradients.
    pub fn undone(&self, kind: ElementKind, mut heads: Vec<Vec<f32>>) -> (Chain, Vec<Vec<f32>>) {
        for head in &mut heads {
            if let Some(hadamard) = self.hadamard {
                hadamard.apply(head);
                if self.rounds {
                    head.iter_mut().for_each(|x| *x = kind.round(*x));
                }
            }
        }
        let rest = Chain {
            hadamard: None,
            ..self.clone()
        };
        (rest, heads)
    }

    /// Applies the norm and the scale on one side of the rotation; returns the type of the values after them.
    fn beside(
        &self,
        place: StageOrder,
        kind: ElementKind,
        token: usize,
        heads: &mut [Vec<f32>],
    ) -> ElementKind {
        let mut kind = kind;
        if let Some(norm) = self.norm.as_ref().filter(|norm| norm.order == place) {
            kind = norm.apply(kind, token, heads);
        }
        if let Some(scale) = self.scale.as_ref().filter(|scale| scale.order == place) {
            let count = heads.len();
            for (index, head) in heads.iter_mut().enumerate() {
                let factor = match &scale.factors {
                    Factors::Constant(factor) => *factor,
                    Factors::Tokens(factors) => factors[token],
                    Factors::Heads(factors) => factors[token * count + index],
                };
                for x in head {
                    *x *= factor;
                    if scale.rounds {
                        *x = kind.round(*x);
                    }
                }
            }
        }
        kind
    }
}

/// Rotates a head by the definition, in f32.
fn rotated_head(
    rotation: Rotation,
    angles: &Angles,
    [row, index]: [usize; 2],
    head: &[f32],
) -> Vec<f32> {
    let pairs = angles.pairs;
    let member = |pairing, pair| members(pairing, [pairs, rotation.parts], pair);
    let mut rotated = head.to_vec();
    for pair in 0..pairs {
        let ([x, y], [first, second]) =
            (member(rotation.input, pair), member(rotation.output, pair));
        let (cos, sin) = directed(rotation.direction, angles, row, index, pair);
        (rotated[first], rotated[second]) = rotate(head[x], head[y], cos, sin);
    }
    rotated
}

/// Returns the heads of a token of a tensor.
pub fn heads_of<E: Number>(x: &[E], view: &View, [batch, token]: [usize; 2]) -> Vec<Vec<f32>> {
    let [_, _, heads, head_dim] = view.shape;
    let head = |head| {
        let at = |channel| x[view.index([batch, token, head, channel])].to_f32();
        (0..head_dim).map(at).collect()
    };
    (0..heads).map(head).collect()
}

/// Returns the elements that `y` must hold, from the heads of its tokens; `None` leaves a token unchanged.
pub fn written<O: Number>(
    y: &[O],
    view: &View,
    mut heads: impl FnMut([usize; 2]) -> Option<Vec<Vec<f32>>>,
) -> Expected<O> {
    let mut expected = Expected {
        values: y.to_vec(),
        computed: vec![false; y.len()],
    };
    let [batch, tokens, ..] = view.shape;
    for at in (0..batch * tokens).map(|token| [token / tokens, token % tokens]) {
        let Some(heads) = heads(at) else { continue };
        for (head, values) in heads.iter().enumerate() {
            for (channel, &value) in values.iter().enumerate() {
                let index = view.index([at[0], at[1], head, channel]);
                expected.values[index] = O::from_f32(value);
                expected.computed[index] = true;
            }
        }
    }
    expected
}

/// Returns the row of a token: one row per token of a sequence, or one per token of each sequence.
pub fn row_of(angles: &Angles, [_, tokens, ..]: [usize; 4], [batch, token]: [usize; 2]) -> usize {
    if angles.rows == tokens {
        token
    } else {
        batch * tokens + token
    }
}
