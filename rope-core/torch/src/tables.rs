//! Tables of cos and sin, as rope-core's rows: where they lie if they are f32, as a copy otherwise.

use std::borrow::Cow;
use std::ops::Range;

use rope_core::{Error, Layout, Rows, Strides};

use crate::plan::{Plan, Width};
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tensor::with_elements;

/// cos and sin, and the ids of the rows of a table.
pub(crate) struct RawRows {
    pub(crate) cos: RawTensor,
    pub(crate) sin: RawTensor,
    pub(crate) ids: Option<RawTensor>,
}

/// Calls `body` with the tensors of cos and sin, and with their rows, or those that ids name. `written` is the memory
/// that the body writes: what overlaps with it is copied.
pub(crate) fn with_rows<T>(
    raw: RawRows,
    plan: &Plan,
    attention_factor: f64,
    written: &[Range<usize>],
    body: impl FnOnce(&[&Tensor], &Rows<'_>) -> Result<T>,
) -> Result<T> {
    let (cos, sin) = (raw.cos.named("cos")?, raw.sin.named("sin")?);
    let Some(ids) = raw.ids else {
        let tables = Tables::new(&cos, &sin, plan, attention_factor, written, None)?;
        return body(&[&cos, &sin], &tables.rows()?);
    };
    let ids = integers(&ids.named("ids")?)?;
    let tables = Tables::new(&cos, &sin, plan, attention_factor, written, Some(&ids))?;
    let rows = tables.rows()?;
    match tables.gathered {
        true => body(&[&cos, &sin], &rows),
        false => body(&[&cos, &sin], &rows.gather(&ids[..])?),
    }
}

/// The values of a tensor of integers, in its order.
pub(crate) fn integers(ids: &Tensor) -> Result<Vec<i64>> {
    fn ordered<E: Copy>(ids: &Tensor, values: &[E]) -> Vec<E> {
        let mut indices = vec![0];
        for (extent, stride) in ids.sizes().iter().zip(ids.strides()) {
            if *extent == 0 {
                return Vec::new();
            }
            let along = |start: usize| (0..*extent).map(move |index| start + index * stride);
            indices = indices.into_iter().flat_map(along).collect();
        }
        indices.into_iter().map(|index| values[index]).collect()
    }
    // Expanded tensors may have any number of elements; no token has more than one id for each of a few axes.
    let elements = ids
        .sizes()
        .iter()
        .try_fold(1_usize, |product, extent| product.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > 1 << 32) {
        return Err(Failure::new(format!(
            "{} is {:?}, which is too large",
            ids.name(),
            ids.sizes()
        )));
    }
    match ids.dtype() {
        Dtype::Int64 => Ok(ordered(ids, ids.elements::<i64>()?)),
        Dtype::Int32 => Ok(ordered(ids, ids.elements::<i32>()?)
            .into_iter()
            .map(i64::from)
            .collect()),
        other => Err(Failure::new(format!(
            "{} is {other:?}; it must be int64 or int32",
            ids.name()
        ))),
    }
}

/// cos and sin in f32, and where their rows lie.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    layout: Layout,
    attention_factor: f64,
    /// Whether the rows are those of the ids already.
    gathered: bool,
}

impl<'a> Tables<'a> {
    /// `[rows, width]`, `[batch or 1, tokens, width]`, or four dimensions in the order of the tensor that is rotated,
    /// of which heads and batch may be 1. Of a table in 16 bits only the rows with these ids are converted.
    fn new(
        cos: &'a Tensor,
        sin: &'a Tensor,
        plan: &Plan,
        attention_factor: f64,
        written: &[Range<usize>],
        ids: Option<&[i64]>,
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
        if ids.is_some() && (of_cos.extents[0], of_cos.extents[2]) != (1, 1) {
            return Err(Failure::new(format!(
                "cos is {:?}; a table of which ids name rows must be [rows, width]",
                cos.sizes()
            )));
        }
        let is_apart = |table: &Tensor| {
            let table = table.memory();
            let overlaps =
                |written: &Range<usize>| written.start < table.end && table.start < written.end;
            !written.iter().any(overlaps)
        };
        for (table, place) in [(cos, &of_cos), (sin, &of_sin)] {
            with_elements!(table, E => place.check_repeated(table.name(), table.elements::<E>()?, plan.width))?;
        }
        if let (Ok(cos_values), Ok(sin_values)) = (cos.elements::<f32>(), sin.elements::<f32>())
            && of_cos == of_sin
            && of_cos.strides[3] == 1
            && is_apart(cos)
            && is_apart(sin)
        {
            let [batch, token, head, _] = of_cos.strides;
            return Ok(Tables {
                cos: cos_values.into(),
                sin: sin_values.into(),
                layout: Layout::strided(of_cos.extents, Strides { batch, token, head })?,
                attention_factor,
                gathered: false,
            });
        }
        let copy = |table: &Tensor, place: &Place| {
            with_elements!(table, E => {
                let values = table.elements::<E>()?;
                match ids {
                    None => Ok(place.gathered(values)),
                    Some(ids) => place.rows(values, ids),
                }
            })
        };
        let mut extents = of_cos.extents;
        if let Some(ids) = ids {
            extents[1] = ids.len();
        }
        Ok(Tables {
            cos: copy(cos, &of_cos)?.into(),
            sin: copy(sin, &of_sin)?.into(),
            layout: Layout::bshd(extents)?,
            attention_factor,
            gathered: ids.is_some(),
        })
    }

    fn rows(&self) -> Result<Rows<'_>> {
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

    /// The rows of a table that ids name.
    fn rows<E: Copy + Into<f32>>(&self, values: &[E], ids: &[i64]) -> Result<Vec<f32>> {
        let [_, rows, _, pairs] = self.extents;
        let [_, of_row, _, of_pair] = self.strides;
        let mut gathered = Vec::with_capacity(ids.len() * pairs);
        for (index, &id) in ids.iter().enumerate() {
            let Some(row) = usize::try_from(id).ok().filter(|row| *row < rows) else {
                return Err(Error::PositionOutsideTable { index, id, rows }.into());
            };
            gathered.extend((0..pairs).map(|pair| values[row * of_row + pair * of_pair].into()));
        }
        Ok(gathered)
    }

    fn gathered<E: Copy + Into<f32>>(&self, values: &[E]) -> Vec<f32> {
        self.indices().map(|index| values[index].into()).collect()
    }
}
