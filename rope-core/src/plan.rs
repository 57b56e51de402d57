//! The plan: pairing, direction, instruction set, and the stages beside the rotation.

// The modules of the constructor and the verbs come first: rustdoc lists the methods of a type by module.
mod build;
mod verbs;

mod any;
mod at;
mod call;
mod check;
pub mod gradient;
mod kinds;
mod operand;
mod outputs;
#[cfg(feature = "rayon")]
mod parallel;
mod plain;
mod raw;
mod run;
mod window;

use crate::describe::frequencies::TokenAngles;
use crate::describe::tensor::{Bytes, BytesMut};
use crate::describe::window::Window;
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::pass::{OperandMut, PartOfCall};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Direction, Error, Pairing, Rows, Shape};

use gradient::PairGradients;

pub use any::{AnyAngles, AnySource, AnyTarget};
pub use call::Call;
pub(crate) use check::check_query_and_key;
pub use kinds::{Linear, Normed, Stages, Transpose};
pub use operand::{Angles, NoRotation, Source, Target};
pub use outputs::Output;
pub use raw::{InPlace, RawRows, RawTensor, rotate_raw};

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
    detour: Option<Detour>,
    stages: S,
}

/// The functions of a plan with a window, or on threads. A reference, so that programs without either do not link them.
#[derive(Clone, Copy, Debug)]
struct Detour(&'static DetourFns);

impl PartialEq for Detour {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Detour {}

#[derive(Debug)]
struct DetourFns {
    in_place: fn(&Rope, [InPlaceTensor<'_>; 1], &Rows<'_>) -> Result<(), Error>,
    query_and_key: fn(&Rope, [InPlaceTensor<'_>; 2], &Rows<'_>) -> Result<(), Error>,
    across: DetourAcross,
    at: Option<DetourAt>,
    threads: Option<&'static Threads>,
}

type DetourAt =
    fn(&Rope, BytesMut<'_>, &'static InPlaceKernels, &TokenAngles<'_>) -> Result<(), Error>;

type DetourAcross = fn(
    &Rope,
    Bytes<'_>,
    &mut BytesMut<'_>,
    [&'static OutOfPlaceKernels; 2],
    &Rows<'_>,
) -> Result<(), Error>;

/// The functions that cut the target of a call, and run the parts.
#[derive(Debug)]
struct Threads {
    /// The flag is `true` if the heads of a token may be in several parts of a tensor.
    target: fn(&Tuning, Shape, bool, &mut OperandMut<'_>, &RunTarget<'_>),
    /// Cuts sums of one number of rows, which are added up from tensors of a size in bytes.
    sums: fn(&Tuning, Shape, usize, &mut [PairGradients<'_>], &RunSums<'_>),
}

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
