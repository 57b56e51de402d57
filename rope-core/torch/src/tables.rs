//! Tables of cos and sin, as rope-core's rows: where they lie if they are f32, as a copy otherwise.

use std::borrow::Cow;

use rope_core::{Error, Layout, Rows, Strides};

use crate::plan::{Plan, Width};
use crate::shim::{Failure, Result, Tensor};
use crate::tensor::with_elements;

/// cos and sin in f32, and where their rows lie.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    layout: Layout,
    attention_factor: f64,
}

impl<'a> Tables<'a> {
    /// `[rows, width]`, `[batch or 1, tokens, width]`, or four dimensions in the order of the tensor that is rotated,
    /// of which heads and batch may be 1. Tables that overlap with a tensor that is written are copied.
    pub(crate) fn new(
        cos: &'a Tensor,
        sin: &'a Tensor,
        plan: &Plan,
        attention_factor: f64,
        written: &[&Tensor],
    ) -> Result<Self> {
        if cos.sizes() != sin.sizes() {
            return Err(Failure::new(format!(
                "cos is {:?}, but sin is {:?}",
                cos.sizes(),
                sin.sizes()
            )));
        }
        let [of_cos, of_sin] = [cos, sin].map(|table| Place::new(table, plan));
        let (of_cos, of_sin) = (of_cos?, of_sin?);
        let is_apart = |table: &Tensor| !written.iter().any(|written| written.overlaps(table));
        let borrowed = match (cos.elements::<f32>(), sin.elements::<f32>()) {
            (Ok(cos_values), Ok(sin_values))
                if of_cos == of_sin && of_cos.strides[3] == 1 && is_apart(cos) && is_apart(sin) =>
            {
                Some((cos_values, sin_values))
            }
            _ => None,
        };
        for (table, place) in [(cos, &of_cos), (sin, &of_sin)] {
            with_elements!(table, E => place.check_repeated(table.name(), table.elements::<E>()?, plan.width))?;
        }
        let Some((cos, sin)) = borrowed else {
            let copy = |table: &Tensor, place: &Place| with_elements!(table, E => Ok(Cow::Owned(place.gathered(table.elements::<E>()?))));
            return Ok(Tables {
                cos: copy(cos, &of_cos)?,
                sin: copy(sin, &of_sin)?,
                layout: Layout::bshd(of_cos.extents)?,
                attention_factor,
            });
        };
        let [batch, token, head, _] = of_cos.strides;
        Ok(Tables {
            cos: cos.into(),
            sin: sin.into(),
            layout: Layout::strided(of_cos.extents, Strides { batch, token, head })?,
            attention_factor,
        })
    }

    pub(crate) fn rows(&self) -> Result<Rows<'_>> {
        let rows = Rows::strided(&self.cos, &self.sin, self.layout)?;
        Ok(rows.with_attention_factor(self.attention_factor)?)
    }
}

/// Where the values of a table lie, each of them once.
#[derive(PartialEq)]
pub(crate) struct Place {
    /// Batch, tokens, heads, pairs.
    pub(crate) extents: [usize; 4],
    strides: [usize; 4],
}

impl Place {
    pub(crate) fn new(table: &Tensor, plan: &Plan) -> Result<Self> {
        let four = |numbers: &[usize], one: usize| match *numbers {
            [tokens, width] => Some([one, tokens, one, width]),
            [batch, tokens, width] => Some([batch, tokens, one, width]),
            [batch, second, third, width] => Some(Plan::sorted(
                [batch, second, third, width],
                plan.tokens_major,
            )),
            _ => None,
        };
        let place = four(table.sizes(), 1).zip(four(table.strides(), 0));
        let Some((mut extents, mut strides)) = place else {
            return Err(Failure::new(format!(
                "{} is {:?}; it must be [tokens, width], [batch, tokens, width], or have the four dimensions of the \
                 tensor that is rotated",
                table.name(),
                table.sizes()
            )));
        };
        let width = extents[3];
        if plan.width != Width::Once {
            if !width.is_multiple_of(2) {
                let required = "even: a row has each value twice";
                return Err(Error::RotaryDim {
                    rotary_dim: width,
                    required,
                }
                .into());
            }
            extents[3] = width / 2;
        }
        if plan.width == Width::Pairs {
            strides[3] *= 2;
        }
        Ok(Place { extents, strides })
    }

    fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Looks whether the last row has each value twice, if it should.
    fn check_repeated<E: Copy + Into<f32>>(
        &self,
        name: &str,
        values: &[E],
        width: Width,
    ) -> Result<()> {
        if width == Width::Once || self.is_empty() {
            return Ok(());
        }
        let [batch, tokens, heads, pairs] = self.extents.map(|extent| extent - 1);
        let [of_batch, of_token, of_head, of_pair] = self.strides;
        let row = batch * of_batch + tokens * of_token + heads * of_head;
        let (apart, form) = match width {
            Width::Pairs => (of_pair / 2, "repeat_interleave(2, -1)"),
            _ => (of_pair * (pairs + 1), "cat((freqs, freqs), -1)"),
        };
        let bits = |index: usize| -> u32 { values[index].into().to_bits() };
        let differs = |pair: &usize| {
            let first = row + pair * of_pair;
            bits(first) != bits(first + apart)
        };
        match (0..=pairs).find(differs) {
            None => Ok(()),
            Some(pair) => Err(Failure::new(format!(
                "{name} should have each value twice, as {form}, but the two values of pair {pair} in its last row differ"
            ))),
        }
    }

    /// Of each value, in the order of the extents.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        // Without a value no time goes into the other extents, which may be any.
        let [batch, tokens, heads, pairs] = match self.is_empty() {
            true => [0; 4],
            false => self.extents,
        };
        let [of_batch, of_token, of_head, of_pair] = self.strides;
        let rows = (0..batch).flat_map(move |sequence| {
            (0..tokens).flat_map(move |token| {
                (0..heads).map(move |head| sequence * of_batch + token * of_token + head * of_head)
            })
        });
        rows.flat_map(move |row| (0..pairs).map(move |pair| row + pair * of_pair))
    }

    fn gathered<E: Copy + Into<f32>>(&self, values: &[E]) -> Vec<f32> {
        self.indices().map(|index| values[index].into()).collect()
    }
}
