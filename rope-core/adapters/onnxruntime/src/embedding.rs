//! The two built-in operators, `com.microsoft::RotaryEmbedding` and `ai.onnx::RotaryEmbedding`: attributes and inputs
//! to heads and rows.

use rope_core::internals::Count;
use rope_core::{Rope, Shape};

use crate::attributes::{count, pairing};
use crate::heads::{Heads, Order, Split};
use crate::operator::Operator;
use crate::rotation::rotate;
use crate::runtime::{
    Call, Declaration, ElementType, Input, Inputs, Kernel, Node, Parameter, Result, invalid,
};
use crate::tables::{Ids, Rotated, Tables};

/// The contributed operator. Its attributes `scale` and `is_packed_batching` have no effect: ONNX Runtime's own kernel
/// ignores the first, and with the second it only takes more tokens than the tables have rows.
pub(crate) const CONTRIBUTED: Declaration = Declaration {
    name: c"RotaryEmbedding",
    since: 1,
    inputs: &[
        Parameter::ROTATED,
        Parameter::IDS,
        Parameter::ROTATED,
        Parameter::ROTATED,
    ],
    create: |node, element| Embedding::create(node, element, Schema::Contributed),
};

/// ONNX's own, since its version 23.
pub(crate) const STANDARD: Declaration = Declaration {
    name: c"RotaryEmbedding",
    since: 23,
    inputs: &[
        Parameter::ROTATED,
        Parameter::ROTATED,
        Parameter::ROTATED,
        Parameter::IDS.optional(),
    ],
    create: |node, element| Embedding::create(node, element, Schema::Standard),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schema {
    /// `x, position_ids, cos_cache, sin_cache`.
    Contributed,
    /// `x, cos_cache, sin_cache`, and position ids or none.
    Standard,
}

/// A node of either.
#[derive(Debug)]
struct Embedding {
    schema: Schema,
    rope: Rope,
    /// 0 where the model does not say.
    num_heads: usize,
    /// 0 where all of a head rotates.
    rotary_dim: usize,
}

impl Embedding {
    fn create(node: &Node, element: ElementType, schema: Schema) -> Result<Box<dyn Kernel>> {
        let num_heads = count(node, c"num_heads")?;
        let rotary_dim = count(node, c"rotary_embedding_dim")?;
        if rotary_dim % 2 != 0 {
            return Err(invalid(format!(
                "rotary_embedding_dim is {rotary_dim}; it must be even"
            )));
        }
        if schema == Schema::Contributed && rotary_dim > 0 && num_heads == 0 {
            return Err(invalid(format!(
                "num_heads is 0; with rotary_embedding_dim ({rotary_dim}) it is required"
            )));
        }
        Embedding {
            schema,
            rope: Rope::new(pairing(node)?),
            num_heads,
            rotary_dim,
        }
        .of(element)
    }

    fn heads(&self, dims: &[usize], columns: usize) -> Result<Heads> {
        let split = match (self.schema, self.num_heads) {
            (Schema::Contributed, _) if self.rotary_dim == 0 => {
                Split::HeadDim(columns.saturating_mul(2))
            }
            (_, 0) if dims.len() == 3 => {
                return Err(invalid("num_heads is 0; an input of rank 3 requires it"));
            }
            (_, heads) => Split::Heads(heads),
        };
        let heads = Heads::new(dims, split)?;
        let count = heads.shape.heads;
        // Of rank 4 both operators have the heads from the shape alone.
        if heads.order == Order::TokensMajor && ![0, count].contains(&self.num_heads) {
            return Err(invalid(format!(
                "num_heads is {}; the input {dims:?} has {}",
                self.num_heads,
                Count(count, "heads")
            )));
        }
        Ok(heads)
    }

    /// The tables, if they are those of the heads: `[positions, pairs]` for position ids, and otherwise
    /// `[batch, tokens, pairs]`.
    fn tables<'a, E: Rotated>(
        &self,
        [cos, sin]: [Input<'a>; 2],
        heads: &Heads,
        by_ids: bool,
    ) -> Result<Tables<'a, E>> {
        let Shape {
            batch,
            tokens,
            head_dim,
            ..
        } = heads.shape;
        let rotary_dim = match self.rotary_dim {
            0 => head_dim,
            given => given,
        };
        let pairs = rotary_dim / 2;
        let fits = match *cos.dims() {
            [_, columns] => by_ids && columns == pairs,
            [of_batch, of_tokens, columns] => {
                !by_ids && [of_batch, of_tokens, columns] == [batch, tokens, pairs]
            }
            _ => false,
        };
        if !fits || cos.dims() != sin.dims() || rotary_dim % 2 != 0 {
            let (cos, sin) = (cos.dims(), sin.dims());
            let leading = match by_ids {
                true => "positions".into(),
                false => format!("{batch}, {tokens}"),
            };
            return Err(invalid(format!(
                "cos_cache is {cos:?} and sin_cache is {sin:?}; both must be [{leading}, {pairs}], half of \
                 rotary_embedding_dim ({rotary_dim}), which must be even"
            )));
        }
        let (cos_values, sin_values) = (cos.slice::<E>()?, sin.slice::<E>()?);
        Ok(Tables {
            cos: cos_values,
            sin: sin_values,
            rows: cos_values.len().checked_div(pairs).unwrap_or(0),
            pairs,
        })
    }

    /// The position ids of an input, if there is one; of a table of `rows` rows.
    fn ids<'a>(&self, ids: Option<Input<'a>>, heads: &Heads, rows: usize) -> Result<Ids<'a>> {
        let Some(ids) = ids else {
            return Ok(Ids::All);
        };
        let Shape { batch, tokens, .. } = heads.shape;
        let values = ids.slice::<i64>()?;
        match (ids.dims(), values) {
            ([] | [1], &[start]) if self.schema == Schema::Contributed => {
                Ok(Ids::From(start, tokens))
            }
            (&[of_batch, of_tokens], _) if [of_batch, of_tokens] == [batch, tokens] => {
                Ok(Ids::each(values, tokens, rows))
            }
            (dims, _) => {
                let or_one = match self.schema {
                    Schema::Contributed => " or [1]",
                    Schema::Standard => "",
                };
                Err(invalid(format!(
                    "position_ids is {dims:?}; it must be [{batch}, {tokens}]{or_one}"
                )))
            }
        }
    }
}

impl Operator for Embedding {
    fn compute<E: Rotated>(&self, call: Call<'_>) -> Result<()> {
        let Call {
            inputs,
            output,
            threads,
        } = call;
        let ([cos, sin], ids) = match self.schema {
            Schema::Contributed => (
                tables_at(&inputs, 2)?,
                Some(inputs.require(1, "position_ids")?),
            ),
            Schema::Standard => (tables_at(&inputs, 1)?, inputs.get(3)?),
        };
        let columns = cos.dims().last().copied().unwrap_or(0);
        let heads = self.heads(output.dims(), columns)?;
        let tables = self.tables::<E>([cos, sin], &heads, ids.is_some())?;
        let ids = self.ids(ids, &heads, tables.rows)?;
        tables.with_rows(ids, |rows| {
            rows.check_shape(heads.shape)?;
            rotate(&self.rope, &heads, rows, output.buffers::<E>()?, threads)
        })
    }
}

fn tables_at<'a>(inputs: &Inputs<'a>, index: usize) -> Result<[Input<'a>; 2]> {
    Ok([
        inputs.require(index, "cos_cache")?,
        inputs.require(index + 1, "sin_cache")?,
    ])
}
