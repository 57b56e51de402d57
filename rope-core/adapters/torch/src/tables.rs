//! Tables of cos and sin, as rope-core's rows: where they lie if they are f32, as a copy otherwise.

use std::borrow::Cow;
use std::ops::Range;

use rope_core::error::RowsError;
use rope_core::{AnyRows, Error, Layout, Rows, Strides};

use crate::convert::{Convert, LANES, Work, run};
use crate::number::Number;
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
    body: impl FnOnce(&[&Tensor], &AnyRows<'_>) -> Result<T>,
) -> Result<T> {
    let (cos, sin) = (raw.cos.named("cos")?, raw.sin.named("sin")?);
    let Some(ids) = raw.ids else {
        let tables = Tables::new(&cos, &sin, plan, attention_factor, written, None)?;
        return body(&[&cos, &sin], &tables.rows()?.into());
    };
    let ids = integers(&ids.named("ids")?)?;
    let tables = Tables::new(&cos, &sin, plan, attention_factor, written, Some(&ids))?;
    let rows = tables.rows()?;
    match tables.gathered {
        true => body(&[&cos, &sin], &rows.into()),
        false => body(&[&cos, &sin], &rows.gather(&ids[..])?.into()),
    }
}

/// The same without ids and factor, for calls that may do without a rotation: cos and sin are then lists of no values.
pub(crate) fn with_rows_or_none<T>(
    raw: RawRows,
    plan: &Plan,
    written: &[Range<usize>],
    body: impl FnOnce(Option<&AnyRows<'_>>) -> Result<T>,
) -> Result<T> {
    let (cos, sin) = (raw.cos.named("cos")?, raw.sin.named("sin")?);
    if [&cos, &sin].iter().all(|table| table.sizes() == [0]) {
        return body(None);
    }
    let tables = Tables::new(&cos, &sin, plan, 1.0, written, None)?;
    body(Some(&tables.rows()?.into()))
}

/// Fails where so many values of a type have no room: an expanded tensor may have any number of elements, and an
/// allocation that fails would end the process.
pub(crate) fn check_room<E>(values: Option<usize>, name: &str) -> Result<()> {
    let room = values.is_some_and(|values| Vec::<E>::new().try_reserve_exact(values).is_ok());
    match room {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{name} has more elements than memory has room for"
        ))),
    }
}

/// The product of extents.
pub(crate) fn product(extents: &[usize]) -> Option<usize> {
    extents
        .iter()
        .try_fold(1_usize, |product, extent| product.checked_mul(*extent))
}

/// The values of a tensor in its order.
fn ordered<E: Copy, T>(tensor: &Tensor, values: &[E], as_value: impl Fn(E) -> T) -> Result<Vec<T>> {
    let count = product(tensor.sizes());
    check_room::<T>(count, tensor.name())?;
    let dimensions = || tensor.sizes().iter().zip(tensor.strides()).rev();
    let element = |mut index: usize| {
        let mut place = 0;
        for (extent, stride) in dimensions() {
            place += index % extent * stride;
            index /= extent;
        }
        as_value(values[place])
    };
    Ok((0..count.unwrap_or(0)).map(element).collect())
}

/// The values of a tensor of integers, in its order.
pub(crate) fn integers(ids: &Tensor) -> Result<Vec<i64>> {
    match ids.dtype() {
        Dtype::Int64 => ordered(ids, ids.elements::<i64>()?, |id| id),
        Dtype::Int32 => ordered(ids, ids.elements::<i32>()?, i64::from),
        other => Err(Failure::new(format!(
            "{} is {other:?}; it must be int64 or int32",
            ids.name()
        ))),
    }
}

/// The values of a tensor of real numbers, in its order.
pub(crate) fn reals(numbers: &Tensor) -> Result<Vec<f64>> {
    match numbers.dtype() {
        Dtype::Float64 => ordered(numbers, numbers.elements::<f64>()?, |number| number),
        _ => ordered(numbers, numbers.elements::<f32>()?, f64::from),
    }
}

/// cos and sin in f32, and where their rows lie.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    layout: Layout,
    attention_factor: f64,
    /// True if the rows are already those of the ids.
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
        if plan.is_width_open {
            let forms = [(cos, &of_cos), (sin, &of_sin)].map(
                |(table, place)| with_elements!(table, E => Ok(place.repeated(table.elements::<E>()?))),
            );
            let [of_cos, of_sin] = forms;
            check_once(cos, of_cos?.and(of_sin?))?;
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
        let [batch, tokens, heads, pairs] = of_cos.extents;
        let copied = match ids {
            None => product(&[batch, tokens, heads, pairs]),
            Some(ids) => product(&[ids.len(), pairs]),
        };
        check_room::<f32>(copied.and_then(|copied| copied.checked_mul(2)), "cos")?;
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

/// The forms in which every row may have each value twice.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    halves: bool,
    pairs: bool,
    /// False if no row decides: a row of equal values has every form.
    is_known: bool,
}

impl Repeated {
    fn and(self, other: Self) -> Self {
        Repeated {
            halves: self.halves && other.halves,
            pairs: self.pairs && other.pairs,
            is_known: self.is_known || other.is_known,
        }
    }
}

/// Refuses rows that have each value twice, of a caller that did not say so: they would rotate twice the channels.
fn check_once(cos: &Tensor, form: Repeated) -> Result<()> {
    let (form, repeat) = match form {
        Repeated {
            is_known: false, ..
        } => return Ok(()),
        Repeated { halves: true, .. } => ("cat((freqs, freqs), -1)", "halves"),
        Repeated { pairs: true, .. } => ("repeat_interleave(2, -1)", "pairs"),
        _ => return Ok(()),
    };
    Err(Failure::new(format!(
        "every row of cos {:?} has each value twice, as {form}; pass repeat=\"{repeat}\", or repeat=\"none\" if the \
         equal values belong to different pairs",
        cos.sizes()
    )))
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
                return Err(Error::Rows(RowsError::RotaryDim {
                    rotary_dim: width,
                    required,
                })
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

    /// In which form every row has each value twice. The first row of unequal values usually ends the search.
    fn repeated<E: Number>(&self, values: &[E]) -> Repeated {
        let ([.., width], [.., stride]) = (self.extents, self.strides);
        let mut form = Repeated {
            halves: width.is_multiple_of(2),
            pairs: width.is_multiple_of(2),
            is_known: false,
        };
        if self.is_empty() {
            return form;
        }
        // An expanded table has more rows than memory, which are the same ones again.
        for row in self.row_indices().take(values.len().div_ceil(width.max(1))) {
            let bits = |index: usize| values[row + index * stride].widened().to_bits();
            if (1..width).all(|index| bits(index) == bits(0)) {
                continue;
            }
            form.is_known = true;
            form.halves &= (0..width / 2).all(|index| bits(index) == bits(index + width / 2));
            form.pairs &= (0..width / 2).all(|index| bits(2 * index) == bits(2 * index + 1));
            if !form.halves && !form.pairs {
                break;
            }
        }
        form
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
        let bits = |value: E| -> u32 { value.into().to_bits() };
        if let (Width::Halves, 1) = (width, of_pair) {
            // Without an early exit, so that it is vector code: a call for one token is as long as this otherwise.
            let (first, second) = values[row..row + 2 * apart].split_at(apart);
            let pairs = first.iter().zip(second);
            if pairs.fold(0, |all, (x, y)| all | (bits(*x) ^ bits(*y))) == 0 {
                return Ok(());
            }
        }
        let differs = |pair: &usize| {
            let first = row + pair * of_pair;
            bits(values[first]) != bits(values[first + apart])
        };
        match (0..=pairs).find(differs) {
            None => Ok(()),
            Some(pair) => Err(Failure::new(format!(
                "{name} should have each value twice, as {form}, but the two values of pair {pair} in its last row differ"
            ))),
        }
    }

    /// The index of each value, in the order of the extents.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        let ([.., pairs], [.., of_pair]) = (self.extents, self.strides);
        self.row_indices()
            .flat_map(move |row| (0..pairs).map(move |pair| row + pair * of_pair))
    }

    /// The index of each row's first value.
    fn row_indices(&self) -> impl Iterator<Item = usize> + use<> {
        // Without a value no time goes into the other extents, which may be any.
        let [batch, tokens, heads, _] = match self.is_empty() {
            true => [0; 4],
            false => self.extents,
        };
        let [of_batch, of_token, of_head, _] = self.strides;
        (0..batch).flat_map(move |sequence| {
            (0..tokens).flat_map(move |token| {
                (0..heads).map(move |head| sequence * of_batch + token * of_token + head * of_head)
            })
        })
    }

    /// The rows of a table that ids name.
    fn rows<E: Number>(&self, values: &[E], ids: &[i64]) -> Result<Vec<f32>> {
        let mut begins = Vec::with_capacity(ids.len());
        let [_, rows, ..] = self.extents;
        for (index, &id) in ids.iter().enumerate() {
            let Some(row) = usize::try_from(id).ok().filter(|row| *row < rows) else {
                return Err(
                    Error::Rows(RowsError::PositionOutsideTable { index, id, rows }).into(),
                );
            };
            begins.push(row * self.strides[1]);
        }
        Ok(run(Widened {
            values,
            place: self,
            count: ids.len(),
            begins: begins.into_iter(),
        }))
    }

    fn gathered<E: Number>(&self, values: &[E]) -> Vec<f32> {
        run(Widened {
            values,
            place: self,
            count: product(&self.extents[..3]).unwrap_or(0),
            begins: self.row_indices(),
        })
    }
}

/// Rows of a table as f32, by the indices of their first values.
struct Widened<'a, E, I> {
    values: &'a [E],
    place: &'a Place,
    count: usize,
    begins: I,
}

impl<E: Number, I: Iterator<Item = usize>> Work for Widened<'_, E, I> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run(self, convert: impl Convert) -> Vec<f32> {
        let Widened {
            values,
            place,
            count,
            begins,
        } = self;
        let ([.., pairs], [.., of_pair]) = (place.extents, place.strides);
        let mut widened = Vec::with_capacity(count * pairs);
        for begin in begins {
            match of_pair {
                1 => {
                    let (blocks, rest) = values[begin..][..pairs].as_chunks::<LANES>();
                    for block in blocks {
                        widened.extend_from_slice(&E::all_widened(*block, convert));
                    }
                    widened.extend(rest.iter().map(|value| value.widened()));
                }
                2 if pairs > 0 => {
                    let (twice, last) = values[begin..][..2 * pairs - 1].as_chunks::<2>();
                    widened.extend(twice.iter().map(|[value, _]| value.widened()));
                    widened.extend(last.iter().map(|value| value.widened()));
                }
                _ => {
                    widened.extend((0..pairs).map(|pair| values[begin + pair * of_pair].widened()))
                }
            }
        }
        widened
    }
}
