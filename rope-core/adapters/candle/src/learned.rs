//! Tables of trained frequencies.

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, bail};
use rope_core::Frequencies;
use rope_core::gradient::PairGradients;

use crate::positions::Positions;
use crate::tensor::{on_cpu, refused};

/// Returns cos and sin, `[tokens, pairs]` in f32, of trained inverse frequencies: `[pairs]`, in f32 or f64, in radians.
///
/// Angles are exact products of the positions, in the form of [`Rotary::rows_at`](crate::Rotary::rows_at) on one axis,
/// and the current frequencies. [`rope`](crate::rope) and its variants pass gradients to the tables, which all layers
/// may share, and the tables pass them on: `df = sum over tokens of p (cos dsin - sin dcos)`, in f64.
///
/// ```
/// use candle_core::{DType, Device, Tensor, Var};
///
/// let frequencies = Var::new(&[1.0_f32, 0.1, 0.01, 0.001], &Device::Cpu)?;
/// let positions = Tensor::arange(1000_u32, 1005, &Device::Cpu)?;
/// let (cos, sin) = rope_candle::learned_tables(&frequencies, &positions)?;
/// let q = Tensor::rand(-1.0_f32, 1.0, (1, 2, 5, 8), &Device::Cpu)?;
/// let k = Tensor::rand(-1.0_f32, 1.0, (1, 2, 5, 8), &Device::Cpu)?;
/// let q = rope_candle::rope(&q, &cos, &sin)?;
/// let k = rope_candle::rope(&k, &cos, &sin)?;
/// let scores = q.matmul(&k.t()?)?;
/// let gradients = scores.sqr()?.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&frequencies).map(|gradient| gradient.dims()), Some(&[4][..]));
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
///
/// A message, if frequencies or positions have another shape or type or are not on the CPU; and the errors of
/// [`Frequencies::from_inverse`] and [`Frequencies::rows`].
pub fn learned_tables(frequencies: &Tensor, positions: &Tensor) -> Result<(Tensor, Tensor)> {
    on_cpu("frequencies", frequencies)?;
    frequencies.dims1()?;
    let positions = Positions::new(positions, 1)?;
    let tables = frequencies.apply_op1(LearnedTables { positions })?;
    Ok((tables.get(0)?, tables.get(1)?))
}

/// The operation from `[pairs]` to `[2, tokens, pairs]`.
struct LearnedTables {
    positions: Positions,
}

impl CustomOp1 for LearnedTables {
    fn name(&self) -> &'static str {
        "rope-learned-tables"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let pairs = layout.shape().dims1()?;
        let (start, stride) = (layout.start_offset(), layout.stride()[0]);
        let places = (0..pairs).map(|pair| start + pair * stride);
        let inverse: Vec<f64> = match storage {
            CpuStorage::F32(values) => places.map(|at| values[at].into()).collect(),
            CpuStorage::F64(values) => places.map(|at| values[at]).collect(),
            _ => bail!("frequencies that are trained are f32 or f64"),
        };
        let rows = Frequencies::from_inverse(2 * pairs, &inverse, 1.0)
            .and_then(|frequencies| frequencies.rows(self.positions.as_core()))
            .map_err(refused)?;
        let tokens = rows.len();
        let mut tables = Vec::with_capacity(2 * tokens * pairs);
        let of = |token| rows.row(token, 0).unwrap_or_default();
        tables.extend((0..tokens).flat_map(|token| of(token).0));
        tables.extend((0..tokens).flat_map(|token| of(token).1));
        Ok((CpuStorage::F32(tables), (2, tokens, pairs).into()))
    }

    fn bwd(&self, inverse: &Tensor, tables: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (tokens, pairs) = (self.positions.tokens(), inverse.dims1()?);
        let double = |tensor: Tensor| tensor.to_dtype(DType::F64);
        let (cos, sin) = (double(tables.get(0)?)?, double(tables.get(1)?)?);
        let (by_cos, by_sin) = (double(gradient.get(0)?)?, double(gradient.get(1)?)?);
        let by_angle = ((cos * by_sin)? - (sin * by_cos)?)?;
        let mut by_angle: Vec<f64> = by_angle.flatten_all()?.to_vec1()?;
        let mut by_frequency = vec![0.0; pairs];
        PairGradients::new(&mut by_angle, [tokens, 1, pairs])
            .and_then(|angles| angles.frequencies(self.positions.as_core(), 1, &mut by_frequency))
            .map_err(refused)?;
        Tensor::from_vec(by_frequency, pairs, &Device::Cpu)?
            .to_dtype(inverse.dtype())
            .map(Some)
    }
}
