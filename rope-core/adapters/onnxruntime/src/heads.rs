//! A tensor of rank 3 or 4 as batch, tokens, heads and channels.

use rope_core::{Layout, Shape};

use crate::runtime::{Result, invalid};

/// Heads as they lie in memory, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    pub(crate) shape: Shape,
    pub(crate) order: Order,
}

/// The outermost dimension of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[batch, tokens, heads * head_dim]`.
    TokensMajor,
    /// `[batch, heads, tokens, head_dim]`.
    HeadsMajor,
}

/// How many heads share a row of a tensor of rank 3.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Split {
    Heads(usize),
    HeadDim(usize),
}

impl Heads {
    pub(crate) fn new(dims: &[usize], split: Split) -> Result<Self> {
        let (order, shape) = match *dims {
            [batch, tokens, hidden] => {
                let (name, part) = match split {
                    Split::Heads(heads) => ("num_heads", heads),
                    Split::HeadDim(head_dim) => ("2 * the columns of cos_cache", head_dim),
                };
                let Some(other) = hidden
                    .checked_div(part)
                    .filter(|other| other * part == hidden)
                else {
                    return Err(invalid(format!(
                        "the last dimension of the input is {hidden}; it must be a multiple of {name} ({part})"
                    )));
                };
                let (heads, head_dim) = match split {
                    Split::Heads(heads) => (heads, other),
                    Split::HeadDim(head_dim) => (other, head_dim),
                };
                (Order::TokensMajor, [batch, tokens, heads, head_dim])
            }
            [batch, heads, tokens, head_dim] => {
                (Order::HeadsMajor, [batch, tokens, heads, head_dim])
            }
            _ => {
                return Err(invalid(format!(
                    "the input is {dims:?}; it must be [batch, tokens, heads * head_dim] or \
                     [batch, heads, tokens, head_dim]"
                )));
            }
        };
        let shape = shape.into();
        Ok(Heads { shape, order })
    }

    pub(crate) fn layout(&self) -> Result<Layout> {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        Ok(match self.order {
            Order::TokensMajor => Layout::bshd(self.shape)?,
            Order::HeadsMajor => Layout::bhsd([batch, heads, tokens, head_dim])?,
        })
    }
}
