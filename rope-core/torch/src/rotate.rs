//! Rotations by rows of cos and sin.

use rope_core::{Error, Rows, TensorMut};

use crate::plan::Plan;
use crate::shim::{RawTensor, Result, Tensor};
use crate::tables::Tables;
use crate::tensor::{extents, layout, like, with_adjacent_channels, with_elements};
use crate::{eager, parallel};

/// `rope_kernels::rotate`
pub(crate) fn rotate(
    x: RawTensor,
    cos: RawTensor,
    sin: RawTensor,
    plan: i64,
    attention_factor: f64,
) -> Result<Tensor> {
    let plan = Plan::new(plan)?;
    let x = with_adjacent_channels(x.named("x")?)?;
    let (cos, sin) = (cos.named("cos")?, sin.named("sin")?);
    let tables = Tables::new(&cos, &sin, &plan, attention_factor, &[])?;
    rotated("y", &x, &plan, [&cos, &sin], &tables.rows()?)
}

/// `rope_kernels::rotate_`
pub(crate) fn rotate_in_place(
    x: RawTensor,
    cos: RawTensor,
    sin: RawTensor,
    plan: i64,
    attention_factor: f64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let mut x = x.named_mut("x")?;
    let (cos, sin) = (cos.named("cos")?, sin.named("sin")?);
    let tables = Tables::new(&cos, &sin, &plan, attention_factor, &[&x])?;
    rotate_where_it_lies(&mut x, &plan, [&cos, &sin], &tables.rows()?)
}

/// `rope_kernels::rotate_qk`
pub(crate) fn rotate_qk(
    q: RawTensor,
    k: RawTensor,
    cos: RawTensor,
    sin: RawTensor,
    plan: i64,
    attention_factor: f64,
) -> Result<[Tensor; 2]> {
    let plan = Plan::new(plan)?;
    let q = with_adjacent_channels(q.named("q")?)?;
    let k = with_adjacent_channels(k.named("k")?)?;
    let (cos, sin) = (cos.named("cos")?, sin.named("sin")?);
    let tables = Tables::new(&cos, &sin, &plan, attention_factor, &[])?;
    let rows = tables.rows()?;
    Ok([
        rotated("q", &q, &plan, [&cos, &sin], &rows)?,
        rotated("k", &k, &plan, [&cos, &sin], &rows)?,
    ])
}

/// `rope_kernels::rotate_qk_`
pub(crate) fn rotate_qk_in_place(
    q: RawTensor,
    k: RawTensor,
    cos: RawTensor,
    sin: RawTensor,
    plan: i64,
    attention_factor: f64,
) -> Result<()> {
    let plan = Plan::new(plan)?;
    let (mut q, mut k) = (q.named_mut("q")?, k.named_mut("k")?);
    let (cos, sin) = (cos.named("cos")?, sin.named("sin")?);
    let tables = Tables::new(&cos, &sin, &plan, attention_factor, &[&q, &k])?;
    let rows = tables.rows()?;
    // Views of one packed projection interleave in memory, so they are rotated one after the other; all that can be
    // refused of the second is refused before the first is touched.
    check_in_place(&mut k, &plan, [&cos, &sin], &rows)?;
    rotate_where_it_lies(&mut q, &plan, [&cos, &sin], &rows)?;
    rotate_where_it_lies(&mut k, &plan, [&cos, &sin], &rows)
}

/// A new tensor: `x` rotated.
fn rotated(
    name: &'static str,
    x: &Tensor,
    plan: &Plan,
    tables: [&Tensor; 2],
    rows: &Rows<'_>,
) -> Result<Tensor> {
    rows.check_shape(extents(x, plan)?)?;
    let source = layout(x, plan)?;
    let mut y = like(name, x)?;
    let target = layout(&y, plan)?;
    let [cos, sin] = tables;
    with_elements!(x, E => {
        let from = x.elements::<E>()?;
        let into = y.elements_mut::<E>(&[x, cos, sin])?;
        if eager::applies(x, plan) {
            eager::check(x, plan, tables)?;
            eager::copy(from, source, into, target, rows);
            eager::rotate(into, target, plan, rows)
        } else {
            let x = rope_core::Tensor::new(from, source)?;
            parallel::rotate_into(&plan.rope(), x, TensorMut::new(into, target)?, rows)
        }
    })?;
    Ok(y)
}

/// What [`rotate_where_it_lies`] may refuse.
fn check_in_place(
    x: &mut Tensor,
    plan: &Plan,
    tables: [&Tensor; 2],
    rows: &Rows<'_>,
) -> Result<()> {
    rows.check_shape(extents(x, plan)?)?;
    let target = layout(x, plan)?;
    let (input, output) = (plan.input, plan.output);
    if input != output {
        return Err(Error::PairingChangesInPlace { input, output }.into());
    }
    if eager::applies(x, plan) {
        eager::check(x, plan, tables)?;
    }
    with_elements!(x, E => {
        TensorMut::new(x.elements_mut::<E>(&[])?, target)?;
        Ok(())
    })
}

fn rotate_where_it_lies(
    x: &mut Tensor,
    plan: &Plan,
    tables: [&Tensor; 2],
    rows: &Rows<'_>,
) -> Result<()> {
    check_in_place(x, plan, tables, rows)?;
    let (target, eager) = (layout(x, plan)?, eager::applies(x, plan));
    with_elements!(x, E => {
        // Tables that overlap with it were copied.
        let values = x.elements_mut::<E>(&[])?;
        if eager {
            eager::rotate(values, target, plan, rows)
        } else {
            parallel::rotate(&plan.rope(), TensorMut::new(values, target)?, rows)
        }
    })
}
