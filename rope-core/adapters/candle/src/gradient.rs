//! The gradients of tables: of cos and sin that are parameters, or computed from parameters.

use candle_core::{CpuStorage, Device, Result, Storage, Tensor, bail};
use rope_core::gradient::PairGradients;

use crate::rotation::Rotation;
use crate::tensor::{from_offset, refused, unsupported};

/// Returns the gradients of cos and sin, of those that are tracked, with their shapes and types. `xs` is the tensor
/// before the rotation, `gradient` that of the tensor after it.
pub(crate) fn of_tables(
    rotation: &Rotation,
    tensors: [&Tensor; 2],
    tables: [&Tensor; 2],
) -> Result<[Option<Tensor>; 2]> {
    if !tables.iter().any(|table| table.track_op()) {
        return Ok([None, None]);
    }
    let [batch, tokens, _, head_dim] = rotation.order.extents(tensors[0].layout())?;
    let pairs = head_dim / 2;
    let sequences = if tables[0].rank() == 3 { batch } else { 1 };
    let mut sums = [(); 2].map(|()| vec![0.0; sequences * tokens * pairs]);
    let [cos, sin] = &mut sums;
    let rows = [sequences * tokens, 1, pairs];
    add(
        rotation,
        tensors,
        PairGradients::new(cos, rows).map_err(refused)?,
        PairGradients::new(sin, rows).map_err(refused)?,
    )?;
    let [cos, sin] = sums;
    let as_table = |sums: Vec<f64>, table: &Tensor| {
        if !table.track_op() {
            return Ok(None);
        }
        let mut dims = table.dims().to_vec();
        let along = dims.len() - 2;
        // Rows after those of the tokens are unused.
        let unused = std::mem::replace(&mut dims[along], tokens) - tokens;
        Tensor::from_vec(sums, dims, &Device::Cpu)?
            .pad_with_zeros(along, 0, unused)?
            .to_dtype(table.dtype())
            .map(Some)
    };
    Ok([as_table(cos, tables[0])?, as_table(sin, tables[1])?])
}

fn add(
    rotation: &Rotation,
    [xs, gradient]: [&Tensor; 2],
    mut cos: PairGradients<'_>,
    mut sin: PairGradients<'_>,
) -> Result<()> {
    let ((x, x_layout), (g, g_layout)) = (xs.storage_and_layout(), gradient.storage_and_layout());
    let (Storage::Cpu(x), Storage::Cpu(g)) = (&*x, &*g) else {
        bail!("rope-candle rotates on the CPU");
    };
    let order = rotation.order;
    let layouts = [order.layout(x_layout)?, order.layout(g_layout)?];
    let plan = rotation.plan(layouts[0].shape().head_dim)?;
    macro_rules! add {
        ($x:ident, $g:ident) => {
            plan.cos_sin_gradients(
                &rope_core::Tensor::new(from_offset($x, x_layout), layouts[0]).map_err(refused)?,
                &rope_core::Tensor::new(from_offset($g, g_layout), layouts[1]).map_err(refused)?,
                &mut cos,
                &mut sin,
            )
            .map_err(refused)
        };
    }
    match (x, g) {
        (CpuStorage::F32(x), CpuStorage::F32(g)) => add!(x, g),
        (CpuStorage::BF16(x), CpuStorage::BF16(g)) => add!(x, g),
        (CpuStorage::F16(x), CpuStorage::F16(g)) => add!(x, g),
        _ => Err(unsupported(gradient.dtype())),
    }
}
