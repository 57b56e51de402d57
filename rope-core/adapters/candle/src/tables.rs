//! Tables of cos and sin as tensors: their valid shapes, and their conversion to rows of f32.

use std::borrow::Cow;

use candle_core::{CpuStorage, Layout, Result, Tensor, bail};
use rope_core::internals::Count;
use rope_core::{Rows, Strides};

use crate::tensor::{Order, from_offset, on_cpu, refused, with_elements};

/// Checks tables against a tensor: `[tokens or more, head_dim / 2]`, or one of these per sequence.
pub(crate) fn check(xs: &Tensor, cos: &Tensor, sin: &Tensor, order: Order) -> Result<()> {
    for (name, tensor) in [("xs", xs), ("cos", cos), ("sin", sin)] {
        on_cpu(name, tensor)?;
    }
    let [batch, tokens, _, head_dim] = order.extents(xs.layout())?;
    for (name, table) in [("cos", cos), ("sin", sin)] {
        let (rows, pairs) = match *table.dims() {
            [rows, pairs] => (rows, pairs),
            [sequences, rows, pairs] if sequences == batch => (rows, pairs),
            _ => bail!(
                "{name} must be [tokens, head_dim / 2] or [{batch}, tokens, head_dim / 2], and is {:?}",
                table.dims()
            ),
        };
        if rows < tokens {
            let (rows, tokens) = (Count(rows, "rows"), Count(tokens, "tokens"));
            bail!("{name} has {rows}, and xs has {tokens}");
        }
        if pairs * 2 != head_dim {
            let (values, channels) = (Count(pairs, "values"), Count(head_dim, "channels"));
            bail!("{name} has {values} in a row, and xs has {channels} in a head");
        }
        let (own, element) = (table.dtype(), xs.dtype());
        if own != element && own != candle_core::DType::F32 {
            bail!(
                "{name} must be f32 or have the type of xs, which is {}, and is {}",
                element.as_str(),
                own.as_str()
            );
        }
    }
    if cos.rank() != sin.rank() {
        bail!("cos is {:?}, and sin is {:?}", cos.dims(), sin.dims());
    }
    Ok(())
}

/// The rows of some tokens of both tables: borrowed if they are f32, otherwise copied.
pub(crate) struct Tables<'a> {
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    layout: rope_core::Layout,
}

impl<'a> Tables<'a> {
    /// Creates the first rows of both, one per token. The tables have been checked.
    pub(crate) fn new(
        (cos, cos_layout): (&'a CpuStorage, &Layout),
        (sin, sin_layout): (&'a CpuStorage, &Layout),
        tokens: usize,
    ) -> Result<Self> {
        let place = Place::of(cos_layout, tokens)?;
        if let (CpuStorage::F32(cos), CpuStorage::F32(sin)) = (cos, sin)
            && place == Place::of(sin_layout, tokens)?
            && place.strides[2] == 1
        {
            let [sequence, token, _] = place.strides;
            let strides = Strides {
                batch: sequence,
                token,
                head: 0,
            };
            return Ok(Tables {
                cos: from_offset(cos, cos_layout).into(),
                sin: from_offset(sin, sin_layout).into(),
                layout: rope_core::Layout::strided(place.shape(), strides).map_err(refused)?,
            });
        }
        Ok(Tables {
            cos: widened(cos, cos_layout, tokens)?.into(),
            sin: widened(sin, sin_layout, tokens)?.into(),
            layout: rope_core::Layout::bshd(place.shape()).map_err(refused)?,
        })
    }

    pub(crate) fn rows(&self) -> Result<Rows<'_>> {
        Rows::strided(&self.cos, &self.sin, self.layout).map_err(refused)
    }
}

/// The place of the first rows of a table.
#[derive(PartialEq)]
struct Place {
    /// Sequences, tokens, pairs.
    extents: [usize; 3],
    strides: [usize; 3],
}

impl Place {
    fn of(layout: &Layout, tokens: usize) -> Result<Self> {
        let (extents, strides) = match (layout.dims(), layout.stride()) {
            (&[_, pairs], &[token, pair]) => ([1, tokens, pairs], [0, token, pair]),
            (&[sequences, _, pairs], &[sequence, token, pair]) => {
                ([sequences, tokens, pairs], [sequence, token, pair])
            }
            (dims, _) => {
                bail!("a table of cos or sin has two or three dimensions, and not {dims:?}")
            }
        };
        Ok(Place { extents, strides })
    }

    /// Returns the shape as rows of one head.
    fn shape(&self) -> [usize; 4] {
        let [sequences, tokens, pairs] = self.extents;
        [sequences, tokens, 1, pairs]
    }

    fn gathered<T: Copy + Into<f32>>(&self, values: &[T]) -> Vec<f32> {
        let Place {
            extents: [sequences, tokens, pairs],
            strides: [of_sequence, of_token, of_pair],
        } = *self;
        let mut rows = Vec::with_capacity(sequences * tokens * pairs);
        for sequence in 0..sequences {
            for token in 0..tokens {
                let row = sequence * of_sequence + token * of_token;
                rows.extend((0..pairs).map(|pair| values[row + pair * of_pair].into()));
            }
        }
        rows
    }
}

/// Converts the first rows of a table with any strides to contiguous f32.
fn widened(storage: &CpuStorage, layout: &Layout, tokens: usize) -> Result<Vec<f32>> {
    let place = Place::of(layout, tokens)?;
    with_elements!(storage, values => Ok(place.gathered(from_offset(values, layout))))
}
