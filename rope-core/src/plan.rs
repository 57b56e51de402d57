//! The plan: pairing, direction, instruction set, and the stages beside the rotation.

// The modules of the constructor and the verbs come first: rustdoc lists the methods of a type by module.
mod build;
mod verbs;

mod any;
mod at;
mod call;
mod check;
mod direct;
mod gathered;
pub mod gradient;
mod kinds;
mod operand;
mod outputs;
#[cfg(feature = "rayon")]
mod parallel;
mod parts;
mod raw;
mod run;

use crate::describe::tensor::BytesMut;
use crate::describe::window::Window;
use crate::kernel::elements::InPlaceKernels;
use crate::pass::{OperandMut, PartOfCall};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Direction, Pairing, Shape};

use gradient::PairGradients;

pub use any::{AnyAngles, AnySource, AnyTarget};
pub use call::Call;
pub(crate) use check::check_query_and_key;
pub use direct::{TokenHeads, TokenRow, rotate_raw};
pub use kinds::{Linear, Normed, Stages, Transpose};
pub use operand::{Angles, NoRotation, Source, Target};
pub use outputs::Output;
pub use raw::{InPlace, RawRows, RawTensor};

/// A plan: a pairing, a direction, a backend, and the stages around the rotation. Made once and used for every layer.
///
/// A plan is `Copy`, and threads can share it. `S` is the kind of the plan:
///
/// | | is | has |
/// |---|---|---|
/// | `Rope` | the rotation alone | every verb that takes no norm |
/// | [`Rope<Linear>`](Linear) | with a [scale](Rope::with_scale), a [transform](Rope::with_hadamard) | the verbs of [`Stages`] and of [`Transpose`] plans |
/// | [`Rope<Normed>`](Normed) | with a [norm](Rope::with_norm), and any of these | the verbs of [`Stages`] |
///
/// ```
/// use rope_core::{Direction, Pairing, Rope, Rows, TensorMut};
///
/// let angle = 0.5_f32;
/// let values = [angle.cos(), angle.sin()];
/// let rows = Rows::new(&values, [1, 2])?;
/// let rope = Rope::new(Pairing::Half);
/// let mut x = [1.0_f32, 0.0];
/// rope.rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &rows)?;
/// assert_eq!(x, values);
/// rope.with_direction(Direction::Inverse).rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &rows)?;
/// assert!((x[0] - 1.0).abs() < 1e-6);
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Rope<S = Plain> {
    input: Pairing,
    output: Pairing,
    direction: Direction,
    proof: Proof,
    pub(crate) tuning: &'static Tuning,
    /// True if fused stages run one after the other all the same.
    pub(crate) staged: bool,
    window: Window,
    threads: Option<&'static Threads>,
    stages: S,
}

/// The functions that cut the target of a call, and run the parts. A reference, so that programs without threads do not
/// link them.
#[derive(Debug)]
struct Threads {
    /// Cuts tensors. The flag is `true` if the heads of a token may be in several parts.
    tensors: fn(&Tuning, bool, &mut [BytesMut<'_>], &RunTensor<'_>),
    /// Cuts the target of a call of this shape likewise.
    target: fn(&Tuning, Shape, bool, &mut OperandMut<'_>, &RunTarget<'_>),
    /// Cuts sums of one number of rows, which are added up from tensors of a size in bytes.
    sums: fn(&Tuning, Shape, usize, &mut [PairGradients<'_>], &RunSums<'_>),
}

impl PartialEq for Threads {
    // There is one.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Threads {}

/// Runs a part of one of the tensors, by its index.
type RunTensor<'r> = dyn Fn(usize, PartOfCall, BytesMut<'_>) + Sync + 'r;

/// Runs a part of a call on its part of the target.
type RunTarget<'r> = dyn Fn(PartOfCall, &mut OperandMut<'_>) + Sync + 'r;

/// Adds the tokens of a part to the sums of their rows.
type RunSums<'r> = dyn Fn(PartOfCall, &mut [PairGradients<'_>]) + Sync + 'r;

/// A tensor, and the kernels that rotate it in place.
type InPlaceTensor<'t> = (BytesMut<'t>, &'static InPlaceKernels);

/// The stages of a plan that only rotates: none.
///
/// ```
/// use rope_core::stages::Plain;
/// use rope_core::{Pairing, Rope};
///
/// struct Layer {
///     rope: Rope<Plain>, // `Rope` alone is the same
/// }
/// let layer = Layer { rope: Rope::new(Pairing::Half) };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;
