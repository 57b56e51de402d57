//! The gradients of cos and sin, where tables are parameters.

use rope_core::Rope;
use rope_core::gradient::PairGradients;

use crate::number::Number;
use crate::plan::{Plan, Width};
use crate::shim::{Failure, RawTensor, Result, Tensor};
use crate::tables::{Place, check_room, product};
use crate::tensor::{extents, layout, with_adjacent_channels, with_elements};

/// `rope_kernels::table_gradients`: of `y = rotate(x, cos, sin)`, from `x` and the gradient by `y`. A place of the
/// tables that several tokens or heads share gets the sum of theirs, in f64 and rounded to f32, then to the tables'
/// type. `cos` gives shape and type, not values.
pub(crate) fn table_gradients(
    x: RawTensor,
    dy: RawTensor,
    cos: RawTensor,
    plan: i64,
) -> Result<[Tensor; 2]> {
    let plan = Plan::new(plan)?;
    if plan.width != Width::Once {
        return Err(Failure::new(
            "gradients of tables need repeat=\"none\": slice the first of the two values",
        ));
    }
    let x = with_adjacent_channels(x.named("x")?)?;
    let dy = with_adjacent_channels(dy.named("dy")?)?;
    let cos = cos.named("cos")?;
    if x.dtype() != dy.dtype() {
        return Err(Failure::new(format!(
            "x is {:?}, but dy is {:?}; they must have one type",
            x.dtype(),
            dy.dtype()
        )));
    }
    let [batch, tokens, heads, pairs] = Place::new(&cos, &plan)?.extents;
    // Checked before rope-core looks at a shape: an empty table could have any number of rows.
    let [x_batch, x_tokens, x_heads, _] = extents(&x, &plan)?;
    if ![1, x_batch].contains(&batch) || tokens != x_tokens || ![1, x_heads].contains(&heads) {
        return Err(Failure::new(format!(
            "cos is {:?}, and x {:?}; batch and heads of cos must be 1 or those of x, and its tokens those of x",
            cos.sizes(),
            x.sizes()
        )));
    }
    let shape = [batch * tokens, heads, pairs];
    let places = product(&[batch, tokens, heads, pairs]);
    check_room::<f64>(places.and_then(|places| places.checked_mul(2)), "cos")?;
    let places = places.unwrap_or(0);
    let (mut of_cos, mut of_sin) = (vec![0.0; places], vec![0.0; places]);
    with_elements!(x, E => {
        let x = rope_core::Tensor::new(x.elements::<E>()?, layout(&x, &plan)?)?;
        let dy = rope_core::Tensor::new(dy.elements::<E>()?, layout(&dy, &plan)?)?;
        let rope = Rope::new(plan.input).with_output_pairing(plan.output).with_direction(plan.direction);
        let mut cos = PairGradients::new(&mut of_cos, shape)?;
        let mut sin = PairGradients::new(&mut of_sin, shape)?;
        let (x, dy, cos, sin) = (&x, &dy, &mut cos, &mut sin);
        Ok(rope.cos_sin_gradients(x, dy, cos, sin)?)
    })?;
    Ok([
        placed("cos", &cos, &plan, &of_cos)?,
        placed("sin", &cos, &plan, &of_sin)?,
    ])
}

/// Sums in a tensor of the shape and the type of a table.
fn placed(name: &'static str, table: &Tensor, plan: &Plan, sums: &[f64]) -> Result<Tensor> {
    let mut strides = vec![1; table.sizes().len()];
    for dimension in (1..strides.len()).rev() {
        strides[dimension - 1] = strides[dimension] * table.sizes()[dimension].max(1);
    }
    let mut gradient = Tensor::uninitialized(name, table.sizes(), &strides, table.dtype())?;
    let place = Place::new(&gradient, plan)?;
    with_elements!(gradient, E => {
        let values = gradient.elements_mut::<E>([])?;
        for (index, sum) in place.indices().zip(sums) {
            values[index] = E::narrowed(*sum as f32);
        }
        Ok(())
    })?;
    Ok(gradient)
}
