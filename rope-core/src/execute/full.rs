//! Full-width rows: f32 tensors rotate in place, everything else in a tile. Rows refer to this module, so programs
//! without such rows do not link it; therefore their constructors are here too.

use super::staged;
use crate::describe::rows::{FullHeads, FullWidth, Rotation};
use crate::describe::tensor::BytesMut;
use crate::kernel::elements::ElementType;
use crate::kernel::full::FullLine;
use crate::kernel::line::{Line, MoreTokens};
use crate::pass::walk::Walk;
use crate::pass::{OperandMut, PartOfCall, Pass, PassKernels};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Error, Pairing, Rows};

static FULL_WIDTH: FullWidth = FullWidth { in_place, tile };

impl<'a> Rows<'a> {
    /// Views full-width rows: one cos and one sin per channel, as tensors `[rows, rotary_dim]`. For the channels `i`
    /// and `j` of a pair
    ///
    /// ```text
    /// x' = x cos[i] - y sin[i]        y' = y cos[j] + x sin[j]
    /// ```
    ///
    /// with the roundings of any other rotation. If both channels have the same cos and sin, the bits are those of
    /// other rows. HunYuan-VL and V-JEPA 2 rotate in this way, as do kernels that index cos and sin by channel. Channel
    /// indices refer to the tensor before the rotation.
    ///
    /// In general this is not a rotation. [`Direction::Transpose`](crate::Direction::Transpose) computes gradients, but
    /// [`Direction::Inverse`](crate::Direction::Inverse), shifts and gradients of angles are refused. f32 tensors
    /// rotate in place; everything else runs over a tile of f32.
    ///
    /// ```
    /// use rope_core::{Pairing, Rope, Rows, TensorMut};
    /// // The second channel turns by another angle than the first.
    /// let rows = Rows::full_width(&[0.0, 1.0], &[1.0, 0.0], [1, 2])?;
    /// let mut x = [2.0_f32, 3.0];
    /// Rope::new(Pairing::Half).rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &rows)?;
    /// assert_eq!(x, [-3.0, 3.0]);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) if `rotary_dim` is zero or odd;
    /// [`FrequenciesError::RotaryDimOnStack`](crate::error::FrequenciesError::RotaryDimOnStack) beyond 2048;
    /// [`RowsError::CosSinLength`](crate::error::RowsError::CosSinLength) if the slices differ in length;
    /// [`RowsError::Shape`](crate::error::RowsError::Shape) unless they have `rows * rotary_dim` values.
    pub fn full_width(cos: &'a [f32], sin: &'a [f32], shape: [usize; 2]) -> Result<Self, Error> {
        Rows::wide((cos, sin), shape, &FULL_WIDTH)
    }

    /// Converts rows of `n` pairs to full-width rows ([`Rows::full_width`]) that rotate `n` channels: each value of a
    /// row belongs to a channel, not to a pair. [`Frequencies::arranged`](crate::Frequencies::arranged) can thus assign
    /// a frequency and an axis to each channel, and [`Rows::strided`] reads full-width rows of any layout.
    ///
    /// # Errors
    ///
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) if the number of pairs is odd;
    /// [`FrequenciesError::RotaryDimOnStack`](crate::error::FrequenciesError::RotaryDimOnStack) for more than 2048
    /// channels; [`RowsError::FullWidth`](crate::error::RowsError::FullWidth) if the rows are full-width already.
    #[doc(alias = "per_channel")]
    pub fn into_full_width(self) -> Result<Self, Error> {
        self.widened(&FULL_WIDTH)
    }
}

fn in_place(
    (proof, tuning): (Proof, &'static Tuning),
    staged: bool,
    x: &mut BytesMut<'_>,
    element: ElementType,
    rotation: Rotation<'_>,
) {
    let pairing = rotation.input;
    if element == ElementType::F32 && !staged {
        Walk::in_place(
            tuning,
            x.layout,
            x.size,
            &rotation.rows,
            rotation.factors.as_ref(),
        )
        .run_dyn(&mut |span| {
            let (before, memory) = span.split(x.bytes, x.size);
            rotate(proof, pairing, memory, &span.line(before));
        });
        return;
    }
    let element = element.out_of_place();
    let (kernels, of) = (PassKernels::default(), PartOfCall::whole(x.layout.shape()));
    let pass = Pass::new(
        (proof, tuning),
        (element, kernels),
        of,
        Some(rotation),
        true,
    );
    staged::run(
        &pass,
        None,
        &mut OperandMut::Tensor(x.part(x.layout), element),
    );
}

fn tile(
    proof: Proof,
    rotation: &Rotation<'_>,
    shape: FullHeads<'_>,
    tile: &mut [f32],
    side: &mut [f32],
) {
    let Rotation { input, output, .. } = *rotation;
    let FullHeads {
        rows,
        head_dim,
        first,
    } = shape;
    // The channels of a row are those of the tensor before the rotation, which is the output of a transpose.
    let transposed = rotation.factors.is_some();
    if input == output || !transposed {
        rotate_tile(proof, input, tile, shape);
    }
    if input != output {
        let side = &mut side[..tile.len()];
        for (to, from) in side
            .chunks_exact_mut(head_dim)
            .zip(tile.chunks_exact(head_dim))
        {
            reorder(input, rows.pairs, &from[first..], &mut to[first..]);
        }
        if transposed {
            rotate_tile(proof, output, side, shape);
        }
    }
}

/// Rotates contiguous heads.
fn rotate_tile(proof: Proof, pairing: Pairing, heads: &mut [f32], shape: FullHeads<'_>) {
    let FullHeads {
        rows,
        head_dim,
        first,
    } = shape;
    let line = &Line {
        heads: heads.len() / head_dim,
        step: head_dim,
        head_dim: head_dim - first,
        rows,
        ahead: 0,
        before: &[],
        more: &MoreTokens::NONE,
    };
    let memory = bytemuck::cast_slice_mut(&mut heads[first..]);
    rotate(proof, pairing, memory, line);
}

/// Copies the pairs of a head from this pairing to the other.
fn reorder(input: Pairing, pairs: usize, from: &[f32], to: &mut [f32]) {
    for pair in 0..pairs {
        let (half, interleaved) = ([pair, pairs + pair], [2 * pair, 2 * pair + 1]);
        let (read, written) = match input {
            Pairing::Half => (half, interleaved),
            Pairing::Interleaved => (interleaved, half),
        };
        for (read, written) in read.into_iter().zip(written) {
            to[written] = from[read];
        }
    }
}

#[inline(never)]
fn rotate(proof: Proof, pairing: Pairing, memory: &mut [u8], line: &Line<'_>) {
    proof.run_in(memory, 0, FullLine { line, pairing });
}
