//! The backward pass: gradients of the parts of a rotation, in f64, summed in one order everywhere.
//!
//! With `y = A R x` for a pair, `A` the factor on cos and sin and `R` the rotation by the angle `phi`, and `dx`, `dy`
//! the gradients of a loss with respect to `x` and `y`:
//!
//! ```text
//! dx      = A R^T dy                                     the transpose; Direction::Transpose
//! dphi    = y1 dy2 - y2 dy1  =  x1 dx2 - x2 dx1          no cos, no sin, no A
//! d ln A  = y1 dy1 + y2 dy2  =  x1 dx1 + x2 dx2
//! d cos   = x1 dy1 + x2 dy2        d sin = x1 dy2 - x2 dy1
//! ```
//!
//! Full-width rows have no angle, but one cos and one sin per channel ([`Rope::channel_gradients`]).
//!
//! The gradient of the angle needs only the rotated tensor, which attention keeps anyway, so the rotation may be in
//! place. The fused kernels of most frameworks compute `dx` alone, and silently treat frequencies as constants.
//!
//! # Order
//!
//! A sum starts with the value in its place. Added to it, one by one, are the terms of everything that shares the row:
//! sequence by sequence if sequences share it, and in each, head by head if heads do; then the terms of the next call
//! (Q first, then K). A term is one difference of two exact products, rounded once. A sum therefore has the same bits
//! on every backend, in every layout, and for every division of tokens among threads. Dividing heads or sequences that
//! share a row would change the order, so a [`PairGradients`] splits by rows only.

mod parameters;
mod reductions;
mod sums;

pub use parameters::{convert_to_base, convert_to_ratio};
pub use sums::PairGradients;
pub(crate) use sums::SumFn;

use core::ops::Range;

use super::operand::{AnglesKind, Target};
use super::{Plain, RunSums};
use crate::base::limits::MOST_CHANNELS;
use crate::describe::rows::View;
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::describe::window::{Window, WindowPart};
use crate::error::GradientError;
use crate::execute::staged;
use crate::kernel::element::Element;
use crate::kernel::elements::{BackwardFn, InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::gradient::{GradientLine, GradientTerm};
use crate::kernel::line::SourceLine;
use crate::pass::transform::Transform;
use crate::pass::walk::{self, LineSpan, Prefetch, Walk};
use crate::pass::{OperandMut, PartOfCall, PassKernels};
use crate::proof::Proof;
use crate::stages::{Stages, Transpose};
use crate::tuning::Access;
use crate::{Dimension, Error, Pairing, Rope, Rows, Shape, Tensor, TensorMut};

impl<S: Stages> Rope<S> {
    /// Computes the backward pass of [`Rope::rotate`]: `dy`, the gradient of the rotated tensor `y`, becomes the
    /// gradient of the tensor before, `A R^T dy`; and `y1 dy2 - y2 dy1` is added to the gradient of the angle of each
    /// pair.
    ///
    /// `dy` becomes the result of [`Direction::Transpose`](crate::Direction::Transpose), bit for bit. With a scale or a
    /// Hadamard transform, the transposed stages run in reverse order, and round where they do in the forward pass. The
    /// gradients of the angles have the rounding of `y` and `dy` as stored, and that of the sums
    /// ([order](crate::gradient#order)), and no other. With a transform they belong to `y` and `dy` transformed back,
    /// in f32.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::rotate`] and of [`Rope::angle_gradients`], and [`GradientError::Shape`] unless the
    /// gradients have as many pairs as the rows. Nothing is touched then.
    #[doc(alias = "rope_back")]
    pub fn backward<E: Element>(
        &self,
        y: &Tensor<'_, E>,
        dy: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error>
    where
        S: Transpose,
    {
        match S::plain(self) {
            Some(rope) => rope.backward_together(y, dy, rows, angles),
            None => {
                let (kernels, sum) = (dy.kernels::<S>(), E::SUMMED.0.of(self.output));
                let target = OperandMut::Tensor(dy.bytes_mut(), E::OUT_OF_PLACE);
                self.backward_staged(&y.bytes(), (target, kernels), sum, rows, angles)
            }
        }
    }

    /// Computes the backward pass of [`Rope::rotate_into`]: as [`Rope::backward`], from `dy` into `dx`. `dx` may have
    /// another element, and has the plan's input pairing; `y` and `dy` have its output pairing.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::backward`], but the pairing may change; and
    /// [`ShapeError::Mismatch`](crate::error::ShapeError::Mismatch) unless all three have the same shape. Nothing is
    /// touched then.
    pub fn backward_into<E: Element, O: Element>(
        &self,
        y: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        dx: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error>
    where
        S: Transpose,
    {
        let back = self.back_with([y.shape(), dy.shape()], rows, angles)?;
        back.rotate_into(dy, dx, rows)?;
        let (sum, tensors) = (E::SUMMED.0.of(self.output), [&y.bytes(), &dy.bytes()]);
        self.add_angles(tensors, E::OUT_OF_PLACE, sum, angles)
    }
}

impl<S: Transpose> Rope<S> {
    #[inline(never)]
    fn backward_staged(
        &self,
        y: &Bytes<'_>,
        (mut dy, kernels): (OperandMut<'_>, PassKernels),
        sum: SumFn,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let OperandMut::Tensor(tensor, element) = &dy else {
            unreachable!("gradients are tensors");
        };
        let (shape, element) = (tensor.layout.shape(), *element);
        let back = self.back_with([y.layout.shape(), shape], rows, angles)?;
        back.erased(&mut |back| {
            let rows = Some(AnglesKind::Rows(rows));
            let (checked, _) = &back.check_in_place(&dy, kernels, rows)?;
            if let OperandMut::Tensor(dy, _) = &dy {
                self.add_angles([y, &dy.read()], element, sum, angles)?;
            }
            back.run_checked_in_place(checked, &mut dy);
            Ok(())
        })
    }

    /// Adds the gradients of the angles, of what stands between the rotation and the transform: the factors of a scale
    /// cancel.
    fn add_angles(
        &self,
        tensors: [&Bytes<'_>; 2],
        element: &'static OutOfPlaceKernels,
        sum: SumFn,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let transform = self.stages.lowered().transform();
        let transform = transform.map(|transform| (transform, element));
        let plain = self.with(Plain);
        plain.add_terms(sum, GradientTerm::Cross, tensors, transform, angles)
    }

    /// Returns the plan of the backward pass, if the sums match two tensors and the rows.
    #[inline(never)]
    fn back_with(
        &self,
        shapes: [Shape; 2],
        rows: &Rows<'_>,
        angles: &PairGradients<'_>,
    ) -> Result<Self, Error> {
        let back = self.back()?;
        let [y, dy] = shapes;
        let [y, dy] = [y, dy].map(|shape| self.window.shape(shape, rows.rotary_dim()));
        angles.check([y?, dy?])?;
        angles.check_pairs(rows)?;
        Ok(back)
    }
}

impl Rope {
    /// Runs the backward pass of a plain rotation: sums and rotates each chunk while it is in the caches.
    pub(crate) fn backward_together<E: Element>(
        &self,
        y: &Tensor<'_, E>,
        dy: &mut TensorMut<'_, E>,
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let pairing = self.output;
        let kernels = (
            E::BACKWARD.0.of(pairing),
            E::SUMMED.0.of(pairing),
            E::IN_PLACE,
        );
        self.backward_bytes(y.bytes(), dy.bytes_mut(), kernels, rows, angles)
    }

    #[inline(never)]
    fn backward_bytes(
        &self,
        y: Bytes<'_>,
        mut tensor: BytesMut<'_>,
        (backward, sum, rotate): (BackwardFn, SumFn, &'static InPlaceKernels),
        rows: &Rows<'_>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let [y_layout, layout] = self.windowed([y.layout, tensor.layout], rows.rotary_dim())?;
        let shape = layout.shape();
        let sharing = self.fit_in_place(shape, rows)?;
        let back = self.back()?;
        let sequence_rows = angles.check([y_layout.shape(), shape])?;
        angles.check_pairs(rows)?;
        if shape.is_empty() {
            return Ok(());
        }
        // A tensor whose heads lie outermost cannot be cut by the rows of its sums. No kernel sums and rotates parts.
        if self.threads().is_some() || self.window.parts > 1 {
            let tensors = [&y, &tensor.read()];
            self.add_terms(sum, GradientTerm::Cross, tensors, None, angles)?;
            return back.rotate_bytes(tensor, rotate, rows);
        }
        let (y, mut dy) = (y.within(&y_layout), tensor.part(&layout));
        // One kernel does both if heads share their row and their sums.
        let (view, factors) = (rows.view(sharing), back.factors(rows.attention_factor()));
        let walk = Walk {
            prefetch: Prefetch::of(Access::Backward, self.tuning, shape, dy.size),
            ..Walk::between([y.layout, dy.layout], &view, factors.as_ref())
        };
        if walk.shares_rows() && angles.heads == 1 && !self.staged {
            let (proof, pairs) = (self.proof, angles.pairs);
            walk.run(|span| {
                let [sequence, token, _] = span.first;
                let row = sequence * sequence_rows + token;
                let sums = &mut angles.sums[row * pairs..][..pairs];
                let (before, memory) = span.split(dy.bytes, dy.size);
                let (source, line) = (&span.source(y.bytes), &span.line(before));
                backward(proof, source, sums, memory, line);
            });
            return Ok(());
        }
        let token_bytes = shape.heads * shape.head_dim * dy.size;
        // If heads are outermost, a line has up to `CHUNK` tokens of a head.
        let chunk = (self.tuning.backward_part / token_bytes).max(walk::CHUNK);
        let prefetch = Prefetch::of(Access::Gradients, self.tuning, shape, dy.size);
        let each: &mut dyn FnMut(_) = &mut |[batch, tokens, heads]: [Range<usize>; 3]| {
            let (sequence, token) = (batch.start, tokens.start);
            let [y_layout, layout] = [y.layout, dy.layout]
                .map(|layout| layout.part_of([batch.clone(), tokens.clone(), heads.clone()]));
            Terms {
                sum,
                proof: self.proof,
                term: GradientTerm::Cross,
                tensors: [(y.bytes, &y_layout), (dy.bytes, &layout)],
                prefetch,
                first_row: sequence * sequence_rows + token,
                sequence_rows,
                window: Window::WHOLE,
            }
            .add(angles);
            let (rows, factor) = (view.skip([sequence, token, 0]), rows.attention_factor());
            back.run_in_place(&mut dy.part(&layout), rotate, &rows, factor);
        };
        walk::parts(shape, [1, chunk, shape.heads], each);
        Ok(())
    }

    /// Runs what adds to sums of a row for each token: on the threads of the plan, each with rows of its own.
    fn on_rows(&self, tensor: &Bytes<'_>, sums: &mut [PairGradients<'_>], run: &RunSums<'_>) {
        let shape = tensor.layout.shape();
        match self.threads() {
            None => run(PartOfCall::whole(shape), sums),
            Some(threads) => (threads.sums)(self.tuning, shape, tensor.size, sums, run),
        }
    }

    /// Adds `y1 dy2 - y2 dy1` to the gradient of the angle of each pair. `y` is the rotated tensor and `dy` the
    /// gradient of the loss by it, both in the plan's output pairing.
    ///
    /// If the pairing does not change, the tensor before the rotation and the gradient by it give the same sums, except
    /// for rounding.
    ///
    /// ```
    /// use rope_core::gradient::PairGradients;
    /// use rope_core::{Pairing, Rope, Tensor};
    ///
    /// let (y, dy) = ([1.0_f32, 2.0], [3.0_f32, 5.0]);
    /// let (y, dy) = (&Tensor::new(&y, [1, 1, 1, 2])?, &Tensor::new(&dy, [1, 1, 1, 2])?);
    /// let mut sums = [0.0];
    /// let angles = &mut PairGradients::new(&mut sums, [1, 1, 1])?;
    /// Rope::new(Pairing::Half).angle_gradients(y, dy, angles)?;
    /// assert_eq!(sums, [1.0 * 5.0 - 2.0 * 3.0]);
    /// # Ok::<(), rope_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`GradientError::Direction`] unless the plan rotates forward;
    /// [`ShapeError::Mismatch`](crate::error::ShapeError::Mismatch) unless both tensors have the same shape;
    /// [`RowsError::RotaryDimExceedsHead`](crate::error::RowsError::RotaryDimExceedsHead) if the gradients have more
    /// pairs than a head; [`RowsError::Count`](crate::error::RowsError::Count) unless they have one row per token, or
    /// one per token of each sequence; [`GradientError::Heads`] unless they have one head or those of the tensors.
    /// Nothing is added then.
    #[doc(alias = "angle_gradients_of_input")]
    pub fn angle_gradients<E: Element>(
        &self,
        y: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        angles: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let (sum, tensors) = (E::SUMMED.0.of(self.output), [&y.bytes(), &dy.bytes()]);
        self.add_terms(sum, GradientTerm::Cross, tensors, None, angles)
    }

    /// Adds `y1 dy1 + y2 dy2` to the gradient of the logarithm of the factor of each pair, from the tensors of
    /// [`Rope::angle_gradients`]. A factor multiplies cos and sin of a row: an attention factor, or the factor of xPos,
    /// one per pair.
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::angle_gradients`]. Nothing is added then.
    pub fn factor_gradients<E: Element>(
        &self,
        y: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        factors: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let (sum, tensors) = (E::SUMMED.0.of(self.output), [&y.bytes(), &dy.bytes()]);
        self.add_terms(sum, GradientTerm::Dot, tensors, None, factors)
    }

    /// Adds `x1 dy1 + x2 dy2` to the gradient of the cos of each row, and `x1 dy2 - x2 dy1` to the gradient of its sin,
    /// for given rows that are parameters. `x` is the tensor before the rotation and `dy` the gradient of the loss by
    /// the rotated tensor. ([`PairGradients::cos_sin`] needs no `x`.)
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::angle_gradients`], and [`GradientError::Pairing`] if the plan's pairing changes. Nothing
    /// is added then.
    pub fn cos_sin_gradients<E: Element>(
        &self,
        x: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        cos: &mut PairGradients<'_>,
        sin: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let (sum, tensors) = (E::SUMMED.0.of(self.input), [&x.bytes(), &dy.bytes()]);
        self.add_cos_sin(sum, tensors, cos, sin)
    }

    /// Adds to the gradients of full-width rows ([`FullRows`](crate::FullRows)): for the channels `i` and `j` of a
    /// pair, `xi dyi` to `cos[i]`, `-xj dyi` to `sin[i]`, `xj dyj` to `cos[j]` and `xi dyj` to `sin[j]`. The sums are
    /// `[rows, heads or 1, rotary_dim]`, one per channel instead of one per pair; the tensors are those of
    /// [`Rope::cos_sin_gradients`]. ([`Direction::Transpose`](crate::Direction::Transpose) computes `dx` from `dy`.)
    ///
    /// # Errors
    ///
    /// The errors of [`Rope::cos_sin_gradients`]; [`GradientError::Shape`] unless `cos` and `sin` have the same shape;
    /// [`RowsError::RotaryDim`](crate::error::RowsError::RotaryDim) unless they have two channels per pair, and at
    /// least two; [`ShapeError::HeadDimOnStack`](crate::error::ShapeError::HeadDimOnStack) for heads of more than 2048
    /// channels. Nothing is added then.
    pub fn channel_gradients<E: Element>(
        &self,
        x: &Tensor<'_, E>,
        dy: &Tensor<'_, E>,
        cos: &mut PairGradients<'_>,
        sin: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        self.add_channels([&x.bytes(), &dy.bytes()], E::OUT_OF_PLACE, cos, sin)
    }

    #[inline(never)]
    fn add_cos_sin(
        &self,
        sum: SumFn,
        tensors: [&Bytes<'_>; 2],
        cos: &mut PairGradients<'_>,
        sin: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        self.check_kept_pairing()?;
        let rotary_dim = 2 * sin.pairs;
        let [x, g] = tensors.map(|tensor| self.window.shape(tensor.layout.shape(), rotary_dim));
        sin.check([x?, g?])?;
        self.add_terms(sum, GradientTerm::Dot, tensors, None, cos)?;
        self.add_terms(sum, GradientTerm::Cross, tensors, None, sin)
    }

    /// Checks that the plan rotates forward and keeps the pairing.
    fn check_kept_pairing(&self) -> Result<(), Error> {
        let _ = self.back()?;
        let Rope { input, output, .. } = *self;
        if input != output {
            return Err(Error::Gradient(GradientError::Pairing { input, output }));
        }
        Ok(())
    }

    #[inline(never)]
    fn add_channels(
        &self,
        [x, g]: [&Bytes<'_>; 2],
        element: &'static OutOfPlaceKernels,
        cos: &mut PairGradients<'_>,
        sin: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        self.check_kept_pairing()?;
        sin.check_shape(cos.shape(), "channels")?;
        let [x_layout, g_layout] = self.windowed([x.layout, g.layout], cos.pairs)?;
        let (x, g) = (x.within(&x_layout), g.within(&g_layout));
        let shape = g.layout.shape();
        let sequence_rows = cos.check_channels([x.layout.shape(), shape])?;
        shape.check_head_on_stack()?;
        if shape.is_empty() {
            return Ok(());
        }
        let (proof, pairing) = (self.proof, self.input);
        let window = self.window.at_first();
        let sums = &mut [cos.reborrow(), sin.reborrow()];
        self.on_rows(&g, sums, &|part, sums| {
            if let [cos, sin] = sums {
                let layouts = [part.of_tensor(x.layout), part.of_tensor(g.layout)];
                let tensors = [x.within(&layouts[0]), g.within(&layouts[1])];
                add_channels(
                    (proof, pairing, window),
                    tensors,
                    element,
                    sequence_rows,
                    [cos, sin],
                );
            }
        });
        Ok(())
    }

    /// Adds the terms of two tensors, which are first transformed back, in f32, if there is a transform.
    #[inline(never)]
    pub(crate) fn add_terms(
        &self,
        sum: SumFn,
        term: GradientTerm,
        [x, g]: [&Bytes<'_>; 2],
        transform: Option<(Transform, &'static OutOfPlaceKernels)>,
        gradients: &mut PairGradients<'_>,
    ) -> Result<(), Error> {
        let _ = self.back()?;
        let mut layouts = self.windowed([x.layout, g.layout], 2 * gradients.pairs)?;
        let [x_shape, shape] = [layouts[0].shape(), layouts[1].shape()];
        let sequence_rows = gradients.check([x_shape, shape])?;
        let (mut sum, mut window) = (sum, self.window.at_first());
        if let Some((transform, _)) = transform {
            // A transform needs whole heads, and leaves f32.
            layouts = [*x.layout, *g.layout];
            (sum, window) = (f32::SUMMED.0.of(self.output), self.window);
            let whole = g.layout.shape();
            whole.check_head_on_stack()?;
            transform.hadamard.check(whole.head_dim)?;
        }
        if shape.is_empty() {
            return Ok(());
        }
        let (x, g) = (x.within(&layouts[0]), g.within(&layouts[1]));
        let terms = Terms {
            sum,
            proof: self.proof,
            term,
            tensors: [(x.bytes, x.layout), (g.bytes, g.layout)],
            prefetch: Prefetch::of(Access::Gradients, self.tuning, shape, g.size),
            first_row: 0,
            sequence_rows,
            window,
        };
        let sums = &mut [gradients.reborrow()];
        self.on_rows(&g, sums, &|part, sums| {
            let layouts = terms.layouts(&part);
            let terms = terms.within(&layouts);
            for sums in sums {
                match transform {
                    None => terms.add(sums),
                    Some((transform, element)) => terms.add_transformed(transform, element, sums),
                }
            }
        });
        Ok(())
    }
}

/// Adds the gradients of cos and sin of full-width rows, channel by channel.
fn add_channels(
    (proof, pairing, window): (Proof, Pairing, Window),
    [x, g]: [Bytes<'_>; 2],
    element: &'static OutOfPlaceKernels,
    sequence_rows: usize,
    [cos, sin]: [&mut PairGradients<'_>; 2],
) {
    let (own, channels) = (cos.heads, cos.pairs);
    let walk = Walk {
        most: 1,
        ..Walk::between([x.layout, g.layout], &View::NONE, None)
    };
    let (head_dim, pairs) = (walk.shape.head_dim, channels / 2);
    staged::with_tile(2 * head_dim, &mut |tiles| {
        let (first, second) = tiles.split_at_mut(head_dim);
        let second = &mut second[..head_dim];
        walk.run_dyn(&mut |span| {
            staged::read_heads(proof, &span.source(x.bytes), element, head_dim, first);
            staged::read_heads(proof, &span.written(g.bytes), element, head_dim, second);
            let [sequence, token, head] = span.first;
            let row = sequence * sequence_rows + token;
            let at = (row * own + if own == 1 { 0 } else { head }) * channels;
            let [cos, sin] =
                [&mut *cos.sums, &mut *sin.sums].map(|sums| &mut sums[at..][..channels]);
            let of_part = |part: WindowPart| {
                let (first, len) = (part.channels.start, part.pairs.len());
                (0..len).map(move |pair| match pairing {
                    Pairing::Half => [first + pair, first + len + pair],
                    Pairing::Interleaved => [first + 2 * pair, first + 2 * pair + 1],
                })
            };
            for [i, j] in window.parts(head_dim, pairs).flat_map(of_part) {
                let [xi, xj] = [i, j].map(|channel| f64::from(first[channel]));
                let [gi, gj] = [i, j].map(|channel| f64::from(second[channel]));
                cos[i] += xi * gi;
                sin[i] -= xj * gi;
                cos[j] += xj * gj;
                sin[j] += xi * gj;
            }
        });
    });
}

/// Terms of two tensors, found to fit their sums.
#[derive(Clone, Copy)]
struct Terms<'a> {
    sum: SumFn,
    proof: Proof,
    term: GradientTerm,
    /// The elements of both as bytes, and their layouts.
    tensors: [(&'a [u8], &'a Layout); 2],
    prefetch: Prefetch,
    /// The row of the first token.
    first_row: usize,
    /// Rows from the first of one sequence to the first of the next.
    sequence_rows: usize,
    window: Window,
}

impl<'a> Terms<'a> {
    /// The layouts of both tensors in a part of the call.
    fn layouts(&self, part: &PartOfCall) -> [Layout; 2] {
        self.tensors.map(|(_, layout)| part.of_tensor(layout))
    }

    /// The terms of a part of both tensors.
    fn within<'l>(&self, [x, g]: &'l [Layout; 2]) -> Terms<'l>
    where
        'a: 'l,
    {
        let [(x_bytes, _), (g_bytes, _)] = self.tensors;
        Terms {
            tensors: [(x_bytes, x), (g_bytes, g)],
            ..*self
        }
    }

    /// Adds the terms, for each row in the order of its sequences and heads.
    fn add(&self, gradients: &mut PairGradients<'_>) {
        let [(x, x_layout), (g, g_layout)] = self.tensors;
        for part in (self.window).parts(g_layout.shape().head_dim, gradients.pairs) {
            let [x_layout, g_layout] = [x_layout, g_layout]
                .map(|layout| layout.part(Dimension::Channels, part.channels.clone()));
            Walk {
                prefetch: self.prefetch,
                ..Walk::between([&x_layout, &g_layout], &View::NONE, None)
            }
            .run(|span| {
                let tensors = [span.source(x), span.written(g)];
                (self.sum)(self.proof, &mut self.line(span, &part, tensors, gradients));
            });
        }
    }

    /// Adds the terms of heads that are first transformed, in two tiles of f32.
    fn add_transformed(
        &self,
        transform: Transform,
        element: &'static OutOfPlaceKernels,
        gradients: &mut PairGradients<'_>,
    ) {
        let [(x, x_layout), (g, g_layout)] = self.tensors;
        let walk = Walk::between([x_layout, g_layout], &View::NONE, None);
        let head_dim = walk.shape.head_dim;
        let walk = Walk {
            most: MOST_CHANNELS / head_dim,
            ..walk
        };
        let len = walk.longest() * head_dim;
        staged::with_tile(2 * len, &mut |tiles| {
            let (first_tile, second_tile) = tiles.split_at_mut(len);
            walk.run_dyn(&mut |span| {
                let len = span.count * head_dim;
                let tiles = [
                    (span.source(x), &mut first_tile[..len]),
                    (span.written(g), &mut second_tile[..len]),
                ]
                .map(|(heads, tile)| {
                    staged::read_heads(self.proof, &heads, element, head_dim, tile);
                    transform.run(self.proof, tile);
                    bytemuck::cast_slice(tile)
                });
                for part in self.window.parts(head_dim, gradients.pairs) {
                    let tensors = tiles.map(|memory| SourceLine {
                        memory,
                        at: part.channels.start,
                        step: head_dim,
                        ahead: 0,
                    });
                    (self.sum)(self.proof, &mut self.line(span, &part, tensors, gradients));
                }
            });
        });
    }

    /// Returns a line: a part of the heads of two tensors, and their sums.
    #[inline(always)]
    fn line<'l>(
        &self,
        span: &LineSpan<'_>,
        part: &WindowPart,
        [x, g]: [SourceLine<'l>; 2],
        gradients: &'l mut PairGradients<'_>,
    ) -> GradientLine<'l> {
        let PairGradients {
            heads: own,
            pairs,
            ref mut sums,
            ..
        } = *gradients;
        let head_step = if own == 1 { 0 } else { pairs };
        let [sequence, token, head] = span.first;
        let row = self.first_row + sequence * self.sequence_rows + token;
        GradientLine {
            x,
            g,
            heads: span.count,
            head_dim: part.channels.len(),
            pairs: part.pairs.len(),
            term: self.term,
            sums: &mut sums[row * own * pairs + head * head_step + part.pairs.start..],
            sums_step: if span.along_tokens {
                own * pairs
            } else {
                head_step
            },
        }
    }
}
