//! Rotations by rows of cos and sin: those of each token, or rows of a table by position ids.

use rope_core::error::PlanError;
use rope_core::{AnyRows, Error, TensorMut};

use crate::plan::{Plan, Strict, Width};
use crate::shim::{Dtype, Failure, RawTensor, Result, Tensor};
use crate::tables::{Place, RawRows, with_rows};
use crate::tensor::{
    check_apart, extents, layout, like, with_adjacent_channels, with_elements, with_short_elements,
};
use crate::{eager, parallel};

/// `rope_kernels::rotate` and `rotate_at`
pub(crate) fn rotate(x: RawTensor, rows: RawRows, plan: i64, factor: f64) -> Result<Tensor> {
    let plan = Plan::new(plan)?;
    let x = with_adjacent_channels(x.named("x")?)?;
    with_rows(rows, &plan, factor, &[], |tables, rows| {
        rotated("y", &x, &plan, tables, rows, 0)
    })
}

/// `rope_kernels::rotate_` and `rotate_at_`
pub(crate) fn rotate_in_place(x: RawTensor, rows: RawRows, plan: i64, factor: f64) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut x = x.named_mut("x")?;
    with_rows(rows, &plan, factor, &[x.memory()], |tables, rows| {
        check_in_place(&mut x, &plan, tables, rows, 0)?;
        rotate_where_it_lies(&mut x, &plan, rows, 0)?;
        x.count_write()
    })
}

/// `rope_kernels::rotate_qk` and `rotate_qk_at`
pub(crate) fn rotate_qk(
    q: RawTensor,
    k: RawTensor,
    rows: RawRows,
    plan: i64,
    factor: f64,
) -> Result<[Tensor; 2]> {
    let plan = Plan::new(plan)?;
    let q = with_adjacent_channels(q.named("q")?)?;
    let k = with_adjacent_channels(k.named("k")?)?;
    with_rows(rows, &plan, factor, &[], |tables, rows| {
        let plan = match plan.strict {
            Some(strict) => as_function([&q, &k], plan, strict, tables)?,
            None => plan,
        };
        Ok([
            rotated("q", &q, &plan, tables, rows, 0)?,
            rotated("k", &k, &plan, tables, rows, 0)?,
        ])
    })
}

/// The plan of a function of transformers for these tensors, or a refusal of what the function would do otherwise.
fn as_function(
    tensors: [&Tensor; 2],
    plan: Plan,
    strict: Strict,
    tables: &[&Tensor],
) -> Result<Plan> {
    let &[cos, sin] = tables else {
        return Err(Failure::new("cos and sin are missing"));
    };
    let &[batch, tokens, width] = cos.sizes() else {
        return Err(Failure::new("cos must have three dimensions"));
    };
    for x in tensors {
        let [of_x, its_tokens, _, head_dim] = extents(x, &plan)?;
        let fits = x.sizes().len() == 4
            && x.dtype() == tensors[0].dtype()
            && cos.dtype() == sin.dtype()
            && its_tokens == tokens
            && (batch == 1 || batch == of_x)
            && (!strict.is_full
                || head_dim
                    == if plan.width == Width::Once {
                        2 * width
                    } else {
                        width
                    })
            && (!strict.is_promoted || [Dtype::Float32, cos.dtype()].contains(&x.dtype()));
        if !fits {
            return Err(Failure::new(format!("{} and cos do not fit", x.name())));
        }
    }
    Ok(Plan {
        eager: plan.eager && tensors[0].dtype() == cos.dtype(),
        ..plan
    })
}

/// `rope_kernels::rotate_qk_` and `rotate_qk_at_`; `check_qk` and `check_qk_at` only refuse what these do.
pub(crate) fn rotate_qk_in_place(
    [q, k]: [RawTensor; 2],
    rows: RawRows,
    plan: i64,
    factor: f64,
    only_check: bool,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let (mut q, mut k) = (q.named_mut("q")?, k.named_mut("k")?);
    let written = [q.memory(), k.memory()];
    with_rows(rows, &plan, factor, &written, |tables, rows| {
        // Views of one packed projection interleave in memory, so they are rotated one after the other; all that can be
        // refused of either is refused before the first is touched.
        for x in [&mut q, &mut k] {
            check_in_place(x, &plan, tables, rows, 0)?;
        }
        check_apart((&q, layout(&q, &plan)?), (&k, layout(&k, &plan)?))?;
        if only_check {
            return Ok(());
        }
        rotate_where_it_lies(&mut q, &plan, rows, 0)?;
        rotate_where_it_lies(&mut k, &plan, rows, 0)?;
        q.count_write()?;
        k.count_write()
    })
}

/// A new tensor: `x` with its channels from `first` on rotated. Tables are those that the rows were read from.
pub(crate) fn rotated(
    name: &'static str,
    x: &Tensor,
    plan: &Plan,
    tables: &[&Tensor],
    rows: &AnyRows<'_>,
    first: usize,
) -> Result<Tensor> {
    check_shape(x, plan, tables, rows, first)?;
    let source = layout(x, plan)?;
    let mut y = like(name, x)?;
    let target = layout(&y, plan)?;
    let read = [x].into_iter().chain(tables.iter().copied());
    if eager::applies(x, plan) {
        eager::check(x, plan, tables)?;
        with_short_elements!(x, E => {
            let (from, into) = (x.elements::<E>()?, y.elements_mut::<E>(read)?);
            eager::rotate(Some((from, source)), into, target, plan, rows)
        })?;
        return Ok(y);
    }
    with_elements!(x, E => {
        let (from, into) = (x.elements::<E>()?, y.elements_mut::<E>(read)?);
        let x = rope_core::Tensor::new(from, source)?;
        parallel::rotate_into(&plan.rope().with_window(first), x, TensorMut::new(into, target)?, rows)
    })?;
    Ok(y)
}

fn check_shape(
    x: &Tensor,
    plan: &Plan,
    tables: &[&Tensor],
    rows: &AnyRows<'_>,
    first: usize,
) -> Result<()> {
    let mut extents = extents(x, plan)?;
    extents[3] = extents[3].saturating_sub(first);
    if let Some(table) = tables.first().filter(|table| table.sizes().len() > 2) {
        let [batch, ..] = Place::new(table, plan)?.extents;
        if batch != 1 && batch != extents[0] {
            let batches = match extents[0] {
                1 => "1".to_owned(),
                batch => format!("1, or {batch}"),
            };
            return Err(Failure::new(format!(
                "{} is {:?}, and {} {:?}; the batch of {} must be {batches}: expand {} to compute more sequences",
                table.name(),
                table.sizes(),
                x.name(),
                x.sizes(),
                table.name(),
                x.name(),
            )));
        }
    }
    let width = rows.rotary_dim() / 2;
    rows.check_shape(extents).map_err(|error| {
        let Failure(sentence) = Failure::from(error);
        match plan.width == Width::Once && (extents[3] / 2 + 1..=extents[3]).contains(&width) {
            true => Failure::new(format!(
                "{sentence}; if rows of {width} values have each value twice, pass repeat=\"halves\" or \"pairs\""
            )),
            false => Failure(sentence),
        }
    })
}

/// Checks a call of [`rotate_where_it_lies`].
pub(crate) fn check_in_place(
    x: &mut Tensor,
    plan: &Plan,
    tables: &[&Tensor],
    rows: &AnyRows<'_>,
    first: usize,
) -> Result<()> {
    check_shape(x, plan, tables, rows, first)?;
    let target = layout(x, plan)?;
    let (input, output) = (plan.input, plan.output);
    if input != output {
        return Err(Error::Plan(PlanError::PairingChangesInPlace { input, output }).into());
    }
    if eager::applies(x, plan) {
        eager::check(x, plan, tables)?;
    }
    with_elements!(x, E => {
        TensorMut::new(x.elements_mut::<E>([])?, target)?;
        Ok(())
    })
}

/// Rotates the channels from `first` on in place, after [`check_in_place`]. Tables that overlap with the tensor were
/// copied.
pub(crate) fn rotate_where_it_lies(
    x: &mut Tensor,
    plan: &Plan,
    rows: &AnyRows<'_>,
    first: usize,
) -> Result<()> {
    let target = layout(x, plan)?;
    if eager::applies(x, plan) {
        return with_short_elements!(x, E => {
            eager::rotate(None, x.elements_mut::<E>([])?, target, plan, rows)
        });
    }
    with_elements!(x, E => {
        let values = x.elements_mut::<E>([])?;
        parallel::rotate(&plan.rope().with_window(first), TensorMut::new(values, target)?, rows, &parallel::ANY)
    })
}
