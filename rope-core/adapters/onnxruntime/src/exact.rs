//! `rope::Rotate` and `rope::NormRotate`: rotations by positions at exact angles, and the norm of the heads before it.

use rope_core::internals::Count;
use rope_core::norm::{Norm, NormFormula};
use rope_core::{Frequencies, Rope, Scaling, Shape};

use crate::attributes::{count, pairing};
use crate::heads::{Heads, Split};
use crate::operator::Operator;
use crate::rotation::rotate;
use crate::runtime::{Call, Declaration, ElementType, Kernel, Node, Parameter, Result, invalid};
use crate::tables::Rotated;

pub(crate) const ROTATE: Declaration = Declaration {
    name: c"Rotate",
    since: 1,
    inputs: &[Parameter::ROTATED, Parameter::IDS],
    create: |node, element| Exact::create(node, element, None),
};

pub(crate) const NORM_ROTATE: Declaration = Declaration {
    name: c"NormRotate",
    since: 1,
    inputs: &[Parameter::ROTATED, Parameter::IDS, Parameter::ROTATED],
    create: |node, element| {
        let formula = match node.text(c"formula")?.as_deref() {
            None | Some("llama") => NormFormula::LLAMA,
            Some("olmo2") => NormFormula::OLMO2,
            Some("gemma") => NormFormula::GEMMA,
            Some("once") => NormFormula::ONCE,
            Some(other) => {
                return Err(invalid(format!(
                    "formula is '{other}'; it must be llama, olmo2, gemma or once"
                )));
            }
        };
        let epsilon = node.number(c"epsilon")?.unwrap_or(1e-6);
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(invalid(format!(
                "epsilon is {epsilon}; it must be finite and not negative"
            )));
        }
        Exact::create(node, element, Some((formula, epsilon)))
    },
};

/// A node of either.
struct Exact {
    rope: Rope,
    frequencies: Frequencies<'static>,
    /// 0 where the model does not say.
    num_heads: usize,
    norm: Option<(NormFormula, f32)>,
}

impl Exact {
    fn create(
        node: &Node,
        element: ElementType,
        norm: Option<(NormFormula, f32)>,
    ) -> Result<Box<dyn Kernel>> {
        let rotary_dim = count(node, c"rotary_embedding_dim")?;
        let base = node.number(c"base")?;
        let factor = f64::from(node.number(c"attention_factor")?.unwrap_or(1.0));
        let frequencies = match node.numbers(c"inverse_frequencies")? {
            Some(_) if base.is_some() => {
                return Err(invalid("base and inverse_frequencies exclude each other"));
            }
            Some(inverse) if ![0, 2 * inverse.len()].contains(&rotary_dim) => {
                return Err(invalid(format!(
                    "inverse_frequencies has {}; rotary_embedding_dim ({rotary_dim}) requires half as many",
                    Count(inverse.len(), "values")
                )));
            }
            Some(inverse) => Frequencies::from_inverse(2 * inverse.len(), &inverse, factor)?,
            None if rotary_dim == 0 => {
                return Err(invalid(
                    "rotary_embedding_dim is 0; it is required where inverse_frequencies is not given",
                ));
            }
            None => {
                let base = f64::from(base.unwrap_or(10_000.0));
                Frequencies::new(rotary_dim, base, &Scaling::Default)?
                    .with_attention_factor(factor)?
            }
        };
        Exact {
            rope: Rope::new(pairing(node)?),
            frequencies,
            num_heads: count(node, c"num_heads")?,
            norm,
        }
        .of(element)
    }
}

impl Operator for Exact {
    fn compute<E: Rotated>(&self, call: Call<'_>) -> Result<()> {
        let Call {
            inputs,
            output,
            threads,
        } = call;
        if self.num_heads == 0 && output.dims().len() == 3 {
            return Err(invalid("num_heads is 0; an input of rank 3 requires it"));
        }
        let heads = Heads::new(output.dims(), Split::Heads(self.num_heads))?;
        let Shape { batch, tokens, .. } = heads.shape;
        let ids = inputs.require(1, "position_ids")?;
        let values = ids.slice::<i64>()?;
        let rows = match (ids.dims(), values) {
            ([] | [1], &[start]) => {
                let end = i64::try_from(tokens)
                    .ok()
                    .and_then(|tokens| start.checked_add(tokens));
                let end = end.ok_or_else(|| {
                    invalid(format!(
                        "position_ids is [{start}]; with {} it is beyond int64",
                        Count(tokens, "tokens")
                    ))
                })?;
                self.frequencies.rows(start..end)?
            }
            (&[of_batch, of_tokens], _) if [of_batch, of_tokens] == [batch, tokens] => {
                self.frequencies.rows(values)?
            }
            (dims, _) => {
                return Err(invalid(format!(
                    "position_ids is {dims:?}; it must be [{batch}, {tokens}] or [1]"
                )));
            }
        };
        rows.check_shape(heads.shape)?;
        let Some((formula, epsilon)) = self.norm else {
            return rotate(&self.rope, &heads, &rows, output.buffers::<E>()?, threads);
        };
        let weight = inputs.require(2, "weight")?;
        if *weight.dims() != [heads.shape.head_dim] {
            return Err(invalid(format!(
                "weight is {:?}; it must be [{}]",
                weight.dims(),
                heads.shape.head_dim
            )));
        }
        let norm = Norm::new(formula, epsilon).with_weight(weight.slice::<E>()?);
        let rope = self.rope.with_norm(norm);
        rotate(&rope, &heads, &rows, output.buffers::<E>()?, threads)
    }
}
