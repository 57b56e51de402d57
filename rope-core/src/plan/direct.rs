//! Plain rotations without a pass, which would be most of the cost of a small call. There are two ways: the heads of
//! one token are a single line, without a walk; other tensors are walked line by line.

use core::fmt;

use super::at::RowsToMake;
use super::kinds::Lowered;
use super::raw::{InPlace, RawRows, RawTensor};
use super::{InPlaceTensor, Rope, Threads};
use crate::describe::address::{Addresses, TokenAddress};
use crate::describe::cache::{CacheHeadsMut, SlotsTarget};
use crate::describe::frequencies::TokenAngles;
use crate::describe::rows::{FullWidth, Rotation, View};
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::describe::window::{Window, WindowPart};
use crate::execute::{lines, staged};
use crate::kernel::element::Element;
use crate::kernel::elements::{InPlaceFn, InPlaceKernels, OutOfPlaceKernels};
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine, Starts};
use crate::pass::walk::Walk;
use crate::pass::{IoFormats, Operand, OperandMut, PartOfCall, Pass, PassKernels};
use crate::proof::{self, Proof};
use crate::tuning::Tuning;
use crate::{Backend, Dimension, Direction, Error, FullRows, Pairing, Rows, Shape};

impl Rope {
    /// Rotates a tensor in place.
    #[inline(never)]
    pub(crate) fn rotate_bytes(
        &self,
        x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_tensors([(x, element)], rows)
    }

    /// Rotates Q and K in place.
    #[inline(never)]
    pub(crate) fn rotate_qk_bytes(
        &self,
        tensors: [InPlaceTensor<'_>; 2],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        self.rotate_tensors(tensors, rows)
    }

    #[inline(always)]
    fn rotate_tensors<const N: usize>(
        &self,
        mut tensors: [InPlaceTensor<'_>; N],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let Some(row) = self.row_of_a_token(tensors.each_ref().map(|(x, _)| x.layout), rows) else {
            return self.rotate_lines(tensors, rows);
        };
        let core = (self.proof.fitting(row.pairs), self.tuning);
        for (x, element) in &mut tensors {
            let sizes = [x.size, row.pairs];
            if let Some(heads) = self.heads_of_a_token(core, x.layout, element, sizes) {
                heads.run(x.bytes, &row);
            }
        }
        Ok(())
    }

    /// Returns the row of a call on one token with one row, forward, if no check can fail. Every other call is checked
    /// in full, which takes more instructions than the rotation of a few heads.
    #[inline(always)]
    fn row_of_a_token<'r, const N: usize>(
        &self,
        layouts: [&Layout; N],
        rows: &'r Rows<'_>,
    ) -> Option<LineRows<'r>> {
        let Window { first, parts, .. } = self.window;
        // One branch for all: the call of one head takes 12 ns.
        let is_other = (self.direction != Direction::Forward)
            | (self.input != self.output)
            | (parts != 1)
            | self.threads().is_some();
        if is_other {
            return None;
        }
        let head_dim = layouts.first()?.shape().head_dim;
        let has_room = rows.rotary_dim() <= head_dim.saturating_sub(first);
        for layout in layouts {
            let shape = layout.shape();
            let is_a_token = shape.batch == 1 && shape.tokens == 1 && shape.head_dim == head_dim;
            if !is_a_token || !has_room || !self.window.fits(head_dim) {
                return None;
            }
        }
        rows.only()
    }

    /// Returns the heads of a tensor of one token from the window on, unless there are none.
    #[inline(always)]
    fn heads_of_a_token(
        &self,
        core: (Proof, &Tuning),
        layout: &Layout,
        element: &InPlaceKernels,
        sizes: [usize; 2],
    ) -> Option<TokenHeads> {
        let (
            Shape {
                heads, head_dim, ..
            },
            first,
        ) = (layout.shape(), self.window.first);
        if heads == 0 || head_dim == first {
            return None;
        }
        let kernel = element.0.of(self.input);
        let extents = [heads, head_dim - first, layout.strides().head];
        let ends = [layout.offset() + first, layout.end()];
        Some(TokenHeads::within(core, kernel, extents, ends, sizes))
    }

    /// Returns the heads of a call on one token by the first row of its values, if no check can fail.
    pub(crate) fn token_heads(
        &self,
        layout: &Layout,
        size: usize,
        element: &'static InPlaceKernels,
        rows: &Rows<'_>,
    ) -> Option<TokenHeads> {
        let row = self.row_of_a_token([layout], rows)?;
        if !matches!(row.starts, Starts::Shared(0)) {
            return None;
        }
        let core = (self.proof.fitting(row.pairs), self.tuning);
        self.heads_of_a_token(core, layout, element, [size, row.pairs])
    }

    /// Checks tensors, and rotates them in place.
    #[inline(never)]
    fn rotate_lines<const N: usize>(
        &self,
        tensors: [InPlaceTensor<'_>; N],
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let shapes = tensors.each_ref().map(|(x, _)| x.layout.shape());
        let view = rows.view(self.check_tensors(shapes, rows)?);
        let factor = rows.attention_factor();
        let Some(threads) = self.threads() else {
            for (mut x, element) in tensors {
                self.run_in_window(&mut x, element, &view, factor);
            }
            return Ok(());
        };
        let elements = tensors.each_ref().map(|(_, element)| *element);
        let tensors = tensors.map(|(x, _)| x);
        self.spread(threads, tensors, &|rope, index, of, x| {
            rope.run_in_window(x, elements[index], &view.skip(of.origin), factor);
        });
        Ok(())
    }

    /// Checks a tensor, and rotates it in place by rows that are made for some of its tokens at a time.
    #[inline(never)]
    pub(super) fn rotate_bytes_at(
        &self,
        x: BytesMut<'_>,
        element: &'static InPlaceKernels,
        at: &TokenAngles<'_>,
    ) -> Result<(), Error> {
        let shape = self.window.shape(x.layout.shape(), at.kind().rotary_dim)?;
        let rows = RowsToMake::new(at, shape, |shape, rotary_dim, rows| {
            self.check_in_place_rows(shape, rotary_dim, rows)
        })?;
        let factor = at.kind().attention_factor;
        let run = |rope: &Rope, _, of: PartOfCall, x: &mut BytesMut<'_>| {
            let layout = x.layout;
            rows.each(layout.shape(), of.origin, &mut |rows, sharing, part| {
                let layout = layout.part_of(part);
                let (mut x, rows) = (x.part(&layout), rows.view(sharing));
                rope.run_in_window(&mut x, element, &rows, factor);
            });
        };
        match self.threads() {
            None => run(self, 0, PartOfCall::whole(x.layout.shape()), &mut { x }),
            Some(threads) => self.spread(threads, [x], &run),
        }
        Ok(())
    }

    /// Returns true if full-width rows rotate a tensor of this element in place without a pass.
    pub(super) fn is_direct(&self, element: &OutOfPlaceKernels) -> bool {
        element.is(f32::OUT_OF_PLACE) && !self.staged && self.threads().is_none()
    }

    /// Checks a tensor of f32, and rotates it in place by full-width rows.
    #[inline(never)]
    pub(super) fn rotate_bytes_full(
        &self,
        x: &mut BytesMut<'_>,
        rows: &FullRows<'_>,
        full: &'static FullWidth,
    ) -> Result<(), Error> {
        let view = rows.view(self.check_full(x.layout.shape(), rows)?, full);
        let rotation = self.rotation(view, rows.rows().attention_factor());
        (full.in_place)(self.core(), x, &rotation);
        Ok(())
    }

    /// Runs a checked call on threads, each on parts of its tensors. The heads of a part begin with the window of the
    /// plan that it receives.
    #[inline(never)]
    fn spread<const N: usize>(
        &self,
        threads: &Threads,
        tensors: [BytesMut<'_>; N],
        run: &(dyn Fn(&Rope, usize, PartOfCall, &mut BytesMut<'_>) + Sync),
    ) {
        let layouts = tensors.each_ref().map(|x| self.window.narrow(x.layout));
        let mut tensors = tensors;
        for (x, layout) in tensors.iter_mut().zip(&layouts) {
            x.layout = layout;
        }
        let window = self.window.at_first();
        let rope = &Rope { window, ..*self };
        (threads.tensors)(self.tuning, true, &mut tensors, &|index, of, mut x| {
            run(rope, index, of, &mut x);
        });
    }

    /// Rotates a checked tensor in place, part by part of the window.
    fn run_in_window(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &View<'_>,
        attention_factor: f64,
    ) {
        if self.window.is_whole() {
            return self.run_in_place(x, element, rows, attention_factor);
        }
        let parts = self.window.parts(x.layout.shape().head_dim, rows.pairs);
        for WindowPart { channels, pairs } in parts {
            let layout = x.layout.part(Dimension::Channels, channels);
            let (mut x, rows) = (x.part(&layout), rows.of_pairs(pairs));
            self.run_in_place(&mut x, element, &rows, attention_factor);
        }
    }

    /// Rotates a checked tensor in place, from the first channel on.
    pub(super) fn run_in_place(
        &self,
        x: &mut BytesMut<'_>,
        element: &'static InPlaceKernels,
        rows: &View<'_>,
        attention_factor: f64,
    ) {
        let core = self.core();
        let (kernel, factors) = (element.0.of(self.input), self.factors(attention_factor));
        lines::rotate_in_place(core, kernel, x, rows, factors.as_ref());
    }

    /// Checks two tensors, and rotates one into the other.
    #[inline(never)]
    pub(crate) fn rotate_bytes_into(
        &self,
        (x, source_element): (Bytes<'_>, &'static OutOfPlaceKernels),
        (y, target_element): (&mut BytesMut<'_>, &'static OutOfPlaceKernels),
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let elements = [source_element, target_element];
        let view = rows.view(self.check_across(x.layout.shape(), y.layout.shape(), rows)?);
        let factor = rows.attention_factor();
        match self.threads() {
            None if self.window.is_whole() => self.run_across(x, y, elements, view, factor),
            None => self.run_windowed(x, y, elements, view, factor),
            Some(threads) => {
                let tensors = &mut [y.part(y.layout)];
                (threads.tensors)(self.tuning, true, tensors, &|_, of, mut y| {
                    let (layout, view) = (of.of_tensor(x.layout), view.skip(of.origin));
                    self.run_windowed(x.within(&layout), &mut y, elements, view, factor);
                });
            }
        }
        Ok(())
    }

    /// Rotates one checked tensor into another, part by part of the window; copies the channels before it.
    #[inline(never)]
    fn run_windowed(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        elements: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let parts = (self.window).all_channels(x.layout.shape().head_dim, rows.pairs);
        for WindowPart { channels, pairs } in parts {
            let rows = rows.of_pairs(pairs);
            let [source, target] = [x.layout, y.layout]
                .map(|layout| layout.part(Dimension::Channels, channels.clone()));
            let (x, y) = (x.within(&source), &mut y.part(&target));
            self.run_across(x, y, elements, rows, attention_factor);
        }
    }

    /// Rotates one checked tensor into another, from the first channel on.
    fn run_across(
        &self,
        x: Bytes<'_>,
        y: &mut BytesMut<'_>,
        [source, target]: [&'static OutOfPlaceKernels; 2],
        rows: View<'_>,
        attention_factor: f64,
    ) {
        let ends = self.ends(source, target);
        if let Some(kernel) = ends.fused().filter(|_| !self.staged) {
            let factors = self.factors(attention_factor);
            let walk = &Walk::between([x.layout, y.layout], &rows, factors.as_ref());
            return lines::rotate_lines(self.core(), ends, kernel, x.bytes, y.bytes, walk);
        }
        let rotation = Rotation {
            window: Window::WHOLE,
            ..self.rotation(rows, attention_factor)
        };
        let (kernels, of) = (PassKernels::default(), PartOfCall::whole(y.layout.shape()));
        let kernels = (source, kernels);
        let pass = Pass::new(self.core(), kernels, of, Some(rotation), self.staged);
        let target = &mut OperandMut::Tensor(y.part(y.layout), target);
        staged::run(&pass, Some(&Operand::Tensor(x, source)), target);
    }
}

impl<S: Copy> Rope<S> {
    /// Returns the rotation of a pass by these rows.
    #[inline]
    pub(super) fn rotation<'r>(&self, rows: View<'r>, attention_factor: f64) -> Rotation<'r> {
        Rotation {
            rows,
            factors: self.factors(attention_factor),
            input: self.input,
            output: self.output,
            window: self.window,
        }
    }

    /// Returns the formats of a rotation from one element to another.
    fn ends(
        &self,
        source: &'static OutOfPlaceKernels,
        target: &'static OutOfPlaceKernels,
    ) -> IoFormats {
        IoFormats {
            source,
            input: self.input,
            target,
            output: self.output,
        }
    }
}

impl Rope<Lowered<'_>> {
    /// Rotates one token with a shared row into its slot, if the plan has no stages and there is a kernel. The call is
    /// checked.
    #[inline]
    pub(super) fn rotate_token_into_slot(
        &self,
        (x, element): (Bytes<'_>, &'static OutOfPlaceKernels),
        target: &mut SlotsTarget<'_>,
        rows: &Rows<'_>,
    ) -> bool {
        let shape = x.layout.shape();
        let is_a_token = shape.batch == 1 && shape.tokens == 1 && !shape.is_empty();
        let Some(row) = rows.only().filter(|_| is_a_token) else {
            return false;
        };
        if !self.stages.is_empty() || self.staged || !self.window.is_whole() {
            return false;
        }
        let factors = self.factors(rows.attention_factor());
        let row = &LineRows {
            factors: factors.as_ref(),
            ..row
        };
        let located = target.in_slots(1).token(0, 0);
        let step = target.stored.layout.strides().head;
        let CacheHeadsMut::Lines(memory, written) = target.heads_mut() else {
            return false;
        };
        let ends = self.ends(element, written);
        let Some(kernel) = ends.fused() else {
            return false;
        };
        if let Some(TokenAddress { element: at, .. }) = located {
            let source = &SourceLine {
                memory: x.bytes,
                at: x.layout.offset(),
                step: x.layout.strides().head,
                ahead: 0,
            };
            let line = &Line {
                step,
                heads: shape.heads,
                head_dim: shape.head_dim,
                rows: row,
                ahead: 0,
                before: &[],
                more: &MoreTokens::NONE,
            };
            let memory = &mut memory[at * written.size..];
            lines::rotate_line(self.proof, ends, kernel, source, memory, line);
        }
        true
    }
}

/// The heads of one token that rotate in place by one row, without their memory and the row.
#[derive(Clone, Copy)]
pub struct TokenHeads {
    proof: Proof,
    kernel: InPlaceFn,
    pairs: usize,
    /// The bytes of the heads in the memory.
    bytes: [usize; 2],
    step: usize,
    heads: usize,
    head_dim: usize,
    ahead: usize,
}

/// The row of a token.
#[allow(
    missing_debug_implementations,
    reason = "it lives for the length of a call"
)]
pub struct TokenRow<'a>(LineRows<'a>);

impl TokenHeads {
    /// Returns heads of this number, channels and stride that begin and end at two elements.
    #[inline(always)]
    fn within(
        (proof, tuning): (Proof, &Tuning),
        kernel: InPlaceFn,
        [heads, head_dim, step]: [usize; 3],
        [at, end]: [usize; 2],
        [size, pairs]: [usize; 2],
    ) -> Self {
        let bytes = heads.wrapping_mul(head_dim).wrapping_mul(size);
        TokenHeads {
            proof,
            kernel,
            pairs,
            bytes: [at * size, end * size],
            step,
            heads,
            head_dim,
            ahead: step.wrapping_mul(tuning.rotate.heads(size, bytes)),
        }
    }

    /// Returns the bytes of the memory up to the end of the last head.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes[1]
    }

    /// Returns their row, whose sin lie after its cos unless they are given. It panics if there are too few.
    #[inline(always)]
    pub fn row<'a>(&self, cos: &'a [f32], sin: Option<&'a [f32]>) -> TokenRow<'a> {
        let (cos, after) = cos.split_at(self.pairs);
        TokenRow(LineRows::shared(cos, &sin.unwrap_or(after)[..self.pairs]))
    }

    /// Rotates the heads by their row.
    #[inline(always)]
    pub fn rotate(&self, memory: &mut [u8], row: &TokenRow<'_>) {
        self.run(memory, &row.0);
    }

    #[inline(always)]
    fn run(&self, memory: &mut [u8], rows: &LineRows<'_>) {
        let line = &Line {
            step: self.step,
            heads: self.heads,
            head_dim: self.head_dim,
            rows,
            ahead: self.ahead,
            before: &[],
            more: &MoreTokens::NONE,
        };
        let [start, end] = self.bytes;
        (self.kernel)(self.proof, &mut memory[start..end], line);
    }
}

impl fmt::Debug for TokenHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenHeads").finish_non_exhaustive()
    }
}

/// [`Rope::rotate`] of a tensor, or [`Rope::rotate_qk`] of two, forward. A call of one token makes neither a plan nor a
/// layout nor rows, which would take longer than the rotation of a head.
///
/// # Errors
///
/// The errors of the verbs, and of the constructors of their operands.
///
/// # Panics
///
/// If one token's memory is shorter than its layout.
pub fn rotate_raw(
    plan: (Pairing, Option<Backend>),
    element: InPlace,
    tensors: &mut [RawTensor<'_>],
    rows: &RawRows<'_>,
) -> Result<(), Error> {
    let is_token = |x: &RawTensor<'_>| x.is_token(rows.rotary_dim);
    match rows.only() {
        Some(row) if tensors.iter().all(is_token) => rotate_raw_tokens(plan, element, tensors, row),
        _ => rotate_raw_lines(plan, element, tensors, rows),
    }
}

#[inline(always)]
fn rotate_raw_tokens(
    (pairing, backend): (Pairing, Option<Backend>),
    InPlace(kernels, size): InPlace,
    tensors: &mut [RawTensor<'_>],
    [cos, sin]: [&[f32]; 2],
) -> Result<(), Error> {
    let proof = match backend {
        None => Proof::best(),
        Some(backend) => backend.required()?,
    };
    let (pairs, kernel) = (cos.len(), kernels.0.of(pairing));
    let core = (proof.fitting(pairs), proof::tuning());
    let row = &LineRows::shared(cos, sin);
    for x in tensors {
        let (heads, head_dim, step) = (x.shape.heads, x.shape.head_dim, x.strides.head);
        let end = (heads - 1) * step + head_dim;
        let extents = [heads, head_dim, step];
        TokenHeads::within(core, kernel, extents, [0, end], [size, pairs])
            .run(&mut x.memory[..end * size], row);
    }
    Ok(())
}

#[inline(never)]
fn rotate_raw_lines(
    (pairing, backend): (Pairing, Option<Backend>),
    InPlace(kernels, size): InPlace,
    tensors: &mut [RawTensor<'_>],
    rows: &RawRows<'_>,
) -> Result<(), Error> {
    let (rope, rows) = (Rope::on(pairing, backend)?, rows.rows()?);
    match tensors {
        [x] => {
            let layout = &x.layout(size)?;
            rope.rotate_bytes(x.bytes(size, layout), kernels, &rows)
        }
        [q, k] => {
            let (query, key) = (q.layout(size)?, k.layout(size)?);
            let tensors = [
                (q.bytes(size, &query), kernels),
                (k.bytes(size, &key), kernels),
            ];
            rope.rotate_qk_bytes(tensors, &rows)
        }
        _ => unreachable!("one tensor, or Q and K"),
    }
}
