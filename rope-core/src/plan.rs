//! The plan: which pairs, which direction, on which instruction set. Checks everything, then dispatches once.

// The first one has the constructor and the verbs: rustdoc shows the methods of a type by module.
mod build;
mod verbs;

mod at;
mod call;
mod erased;
pub mod gradient;
mod kinds;
mod operand;
mod outputs;
#[cfg(feature = "rayon")]
mod parallel;
mod run;
mod window;

use crate::describe::rows::fit::{check, fit_across};
use crate::describe::rows::{Rotation, RowSharing, View};
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::execute::{lines, staged};
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::line::LineRows;
use crate::kernel::rotation::RowFactors;
use crate::pass::walk::Walk;
use crate::pass::{IoFormats, Operand, OperandMut, Pass, PassKernels};
use crate::proof::Proof;
use crate::tuning::Tuning;
use crate::{Dimension, Direction, Error, Pairing, Rows, Shape};

pub use call::Call;
pub(crate) use kinds::check_head;
pub use kinds::{Linear, LinearStages, Stages, WithStages};
pub use operand::{Angles, NoRotation, Source, Target};
pub use outputs::Output;

/// A plan: a pairing, a direction, a backend, and the stages around the rotation; chosen once and used for every
/// layer.
///
/// Copying it costs nothing, and it can be shared by threads. `S` is the kind of the plan:
///
/// | | is | has |
/// |---|---|---|
/// | `Rope` | the rotation alone | every verb that takes no norm |
/// | [`Rope<LinearStages>`](LinearStages) | with a [`scale`](Rope::scale), a [`hadamard`](Rope::hadamard) transform | the verbs of [`Stages`] and of [`Linear`] plans |
/// | [`Rope<WithStages>`](WithStages) | with a [`norm`](Rope::norm), and any of these | the verbs of [`Stages`] |
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
/// rope.direction(Direction::Inverse).rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &rows)?;
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
    tuning: &'static Tuning,
    /// Whether what is fused runs stage by stage all the same.
    staged: bool,
    window: Option<Window>,
    stages: S,
}

/// The channels that rotate, if they do not begin with the first.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: usize,
    fns: &'static WindowFns,
}

impl PartialEq for Window {
    // There are no other functions.
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first
    }
}

impl Eq for Window {}

/// Plain rotations of windows: by reference, so that programs without windows do not link them.
#[derive(Debug)]
struct WindowFns {
    in_place: fn(&Rope, InPlaceTensor<'_, '_>, &Rows<'_>) -> Result<(), Error>,
    query_and_key: fn(&Rope, [InPlaceTensor<'_, '_>; 2], &Rows<'_>) -> Result<(), Error>,
    across: WindowInto,
}

type WindowInto = fn(
    &Rope,
    Bytes<'_>,
    &mut BytesMut<'_>,
    [&'static OutOfPlaceKernels; 2],
    &Rows<'_>,
) -> Result<(), Error>;

/// A tensor, and the kernels that rotate it in place.
type InPlaceTensor<'t, 'b> = (&'t mut BytesMut<'b>, &'static InPlaceKernels);

/// A plan without stages: the rotation alone.
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

impl Direction {
    /// What it makes of rows with an attention factor.
    #[inline]
    fn factors(self, attention_factor: f64) -> Option<RowFactors> {
        match self {
            Direction::Forward => None,
            Direction::Transpose => Some(RowFactors {
                cos: 1.0,
                sin: -1.0,
            }),
            Direction::Inverse => {
                let factor = (1.0 / (attention_factor * attention_factor)) as f32;
                Some(RowFactors {
                    cos: factor,
                    sin: -factor,
                })
            }
        }
    }
}

impl Rope {
    #[inline(never)]
    pub(crate) fn rotate_bytes(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        if let Some(window) = self.window {
            return (window.fns.in_place)(self, (x, element), rows);
        }
        match self.row_of_a_token([x.layout], rows) {
            Some(row) => {
                self.rotate_tokens([(x, element)], &row);
                Ok(())
            }
            None => self.rotate_checked(x, element, rows),
        }
    }

    #[inline(never)]
    fn rotate_checked(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let sharing = self.check_in_place(x.layout.shape(), rows)?;
        self.run_in_place(x, element, &rows.view(sharing), rows.attention_factor());
        Ok(())
    }

    #[inline(never)]
    pub(crate) fn rotate_qk_bytes<'t, 'b>(
        &self,
        q: (&'t mut BytesMut<'b>, &'static InPlaceKernels),
        k: (&'t mut BytesMut<'b>, &'static InPlaceKernels),
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        if let Some(window) = self.window {
            return (window.fns.query_and_key)(self, [q, k], rows);
        }
        let layouts = [q.0.layout, k.0.layout];
        let [query, key] = layouts.map(|layout| layout.shape().head_dim);
        match self.row_of_a_token(layouts, rows) {
            Some(row) if query == key => {
                self.rotate_tokens([q, k], &row);
                Ok(())
            }
            _ => self.rotate_qk_checked(q, k, rows),
        }
    }

    #[inline(never)]
    fn rotate_qk_checked<'t, 'b>(
        &self,
        q: (&'t mut BytesMut<'b>, &'static InPlaceKernels),
        k: (&'t mut BytesMut<'b>, &'static InPlaceKernels),
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let sharing = self.check_qk(q.0.layout.shape(), k.0.layout.shape(), rows)?;
        for (x, element) in [q, k] {
            self.run_in_place(x, element, &rows.view(sharing), rows.attention_factor());
        }
        Ok(())
    }

    /// The row of a plain call: one token, one row, forward, nothing that could be refused. Every other call is checked
    /// in full; that costs more instructions than the rotation of a few heads.
    #[inline(always)]
    fn row_of_a_token<'r, const N: usize>(
        &self,
        layouts: [&Layout; N],
        rows: &'r Rows<'_>,
    ) -> Option<LineRows<'r>> {
        if self.direction != Direction::Forward || self.input != self.output {
            return None;
        }
        for layout in layouts {
            let shape = layout.shape();
            let is_a_token = shape.batch == 1 && shape.tokens == 1;
            if !is_a_token || rows.rotary_dim() > shape.head_dim {
                return None;
            }
        }
        rows.only()
    }

    /// Rotates tensors of one token.
    #[inline(always)]
    fn rotate_tokens<const N: usize>(
        &self,
        tensors: [(&mut BytesMut<'_>, &'static InPlaceKernels); N],
        row: &LineRows<'_>,
    ) {
        let core = (self.proof.fitting(row.pairs), self.tuning);
        for (x, element) in tensors {
            lines::rotate_token(core, element.0.of(self.input), x, row);
        }
    }

    #[inline(never)]
    pub(crate) fn rotate_bytes_into(
        &self,
        (x, source_element): (Bytes<'_>, &'static OutOfPlaceKernels),
        (y, target_element): (&mut BytesMut<'_>, &'static OutOfPlaceKernels),
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let elements = [source_element, target_element];
        if let Some(window) = self.window {
            return (window.fns.across)(self, x, y, elements, rows);
        }
        let view = rows.view(self.check_across(x.layout.shape(), y.layout.shape(), rows)?);
        self.run_across(x, y, elements, view, rows.attention_factor());
        Ok(())
    }

    #[inline]
    pub(crate) fn check_in_place(
        &self,
        shape: Shape,
        rows: &Rows<'_>,
    ) -> Result<RowSharing, Error> {
        let sharing = self.fit_in_place(shape, rows)?;
        self.check_direction(shape, rows)?;
        Ok(sharing)
    }

    /// Whether given rows fit a tensor that is rotated in place, and whose they are.
    #[inline]
    pub(crate) fn fit_in_place(&self, shape: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
        let sharing = self.check_in_place_rows(shape, rows.rotary_dim(), rows.len())?;
        rows.check_places(shape, sharing)?;
        Ok(sharing)
    }

    /// Whether the direction can use the rows. It comes last: the rows that are looked through are as many as tokens.
    #[inline]
    pub(crate) fn check_direction(&self, shape: Shape, rows: &Rows<'_>) -> Result<(), Error> {
        if self.direction == Direction::Inverse && !shape.is_empty() {
            rows.check_magnitudes()?;
        }
        Ok(())
    }

    /// Whether Q and K of these shapes fit each other and the rows, for who cannot borrow both at once. Of what
    /// [`Rope::rotate_qk`] checks this leaves the direction, which asks the rows alone, unless there are no heads.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_qk`] but [`Error::RowMagnitude`].
    pub(crate) fn check_qk_shapes(
        &self,
        query: Shape,
        key: Shape,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.fit_qk(query, key, rows).map(drop)
    }

    #[inline]
    fn fit_qk(&self, query: Shape, key: Shape, rows: &Rows<'_>) -> Result<RowSharing, Error> {
        check_query_and_key(query, key)?;
        rows.check_heads(key)?;
        self.fit_in_place(query, rows)
    }

    #[inline]
    pub(crate) fn check_qk(
        &self,
        query: Shape,
        key: Shape,
        rows: &Rows<'_>,
    ) -> Result<RowSharing, Error> {
        let sharing = self.fit_qk(query, key, rows)?;
        // Either may have no heads.
        let heads = query.heads.max(key.heads);
        self.check_direction(Shape { heads, ..query }, rows)?;
        Ok(sharing)
    }

    #[inline]
    pub(crate) fn check_across(
        &self,
        source: Shape,
        target: Shape,
        rows: &Rows<'_>,
    ) -> Result<RowSharing, Error> {
        let sharing = fit_across(source, target, rows)?;
        self.check_direction(target, rows)?;
        Ok(sharing)
    }

    #[inline]
    fn check_in_place_rows(
        &self,
        shape: Shape,
        rotary_dim: usize,
        rows: usize,
    ) -> Result<RowSharing, Error> {
        self.check_same_pairing()?;
        check(shape, rotary_dim, rows)
    }

    /// Rotates one tensor into another, both of these elements.
    pub(crate) fn run_across(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        [source, target]: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let (input, output) = (self.input, self.output);
        let factors = self.direction.factors(attention_factor);
        let ends = IoFormats {
            source,
            input,
            target,
            output,
        };
        let is_full = rows.full_width().is_some();
        if let Some(kernel) = ends.fused().filter(|_| !self.staged && !is_full) {
            let walk = &Walk::between([x.layout, y.layout], &rows, factors.as_ref());
            return lines::rotate_lines(self.core(), ends, kernel, x.bytes, y.bytes, walk);
        }
        let shape = y.layout.shape();
        let pass = Pass {
            proof: self.proof,
            tuning: self.tuning,
            element: source,
            kernels: PassKernels::default(),
            shape,
            part: shape.whole(),
            stages: None,
            rotation: Some(Rotation {
                rows,
                factors,
                input,
                output,
                first_channel: 0,
            }),
            rounds: false,
            skips_identity: false,
            staged: self.staged,
            streams: false,
        };
        let target = &mut OperandMut::Tensor(y, target);
        staged::run(&pass, Some(&Operand::Tensor(x, source)), target);
    }

    pub(crate) fn run_in_place(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &View<'_>,
        attention_factor: f64,
    ) {
        let (core, kernel) = (self.core(), element.0.of(self.input));
        let factors = self.direction.factors(attention_factor);
        if let Some(full) = rows.full_width() {
            let rotation = Rotation {
                rows: *rows,
                factors,
                input: self.input,
                output: self.output,
                first_channel: 0,
            };
            return (full.in_place)(core, self.staged, x, element.1, rotation);
        }
        lines::rotate_in_place(core, kernel, x, rows, factors.as_ref());
    }
}

impl<S> Rope<S> {
    /// The first channel that rotates.
    #[inline]
    pub(crate) fn first_channel(&self) -> usize {
        self.window.map_or(0, |window| window.first)
    }

    /// The channels of heads from the first that rotates on.
    #[inline(never)]
    pub(crate) fn windowed(&self, layout: &Layout) -> Result<Layout, Error> {
        match self.first_channel() {
            0 => Ok(*layout),
            first => layout.channels(first..layout.shape().head_dim),
        }
    }

    /// The same of a shape.
    #[inline]
    pub(crate) fn windowed_shape(&self, shape: Shape) -> Result<Shape, Error> {
        let (first, head_dim) = (self.first_channel(), shape.head_dim);
        if first > head_dim {
            return Err(Error::Range {
                dimension: Dimension::Channels,
                start: first,
                end: head_dim,
                extent: head_dim,
            });
        }
        Ok(Shape {
            head_dim: head_dim - first,
            ..shape
        })
    }

    /// Whether the pairing stays, as it must in place.
    #[inline]
    fn check_same_pairing(&self) -> Result<(), Error> {
        let Rope { input, output, .. } = *self;
        if input != output {
            return Err(Error::PairingChangesInPlace { input, output });
        }
        Ok(())
    }
}

/// Whether Q and K differ in their heads only.
#[inline]
fn check_query_and_key(query: Shape, key: Shape) -> Result<(), Error> {
    let key = Shape {
        heads: query.heads,
        ..key
    };
    match query.difference(key) {
        None => Ok(()),
        Some((dimension, query, key)) => Err(Error::QueryKeyMismatch {
            dimension,
            query,
            key,
        }),
    }
}
