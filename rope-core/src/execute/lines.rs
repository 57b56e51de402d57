//! Rotations and copies, line by line in memory.

use core::fmt;
use core::ops::Range;

use crate::Shape;
use crate::describe::address::Addresses;
use crate::describe::rows::View;
use crate::describe::tensor::{BytesMut, Layout};
use crate::kernel::elements::{InPlaceFn, InPlaceKernels, OutOfPlaceFn};
use crate::kernel::line::{Line, LineRows, MoreTokens, SourceLine};
use crate::kernel::rotation::RowFactors;
use crate::pass::walk::Walk;
use crate::pass::{IoFormats, Operand, OperandMut, Pass};
use crate::proof::Proof;
use crate::tuning::Tuning;

/// Copies heads that are lines of one element.
pub(crate) fn copy(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
    ends: IoFormats,
) {
    // Without pairs, all channels are copied.
    rotate(pass, source, target, ends, |_, _, _, _| {});
}

/// Rotates heads by one kernel, with lines at both ends.
pub(crate) fn rotate(
    pass: &Pass<'_>,
    source: &Operand<'_>,
    target: &mut OperandMut<'_, '_>,
    ends: IoFormats,
    kernel: OutOfPlaceFn,
) {
    let core = (pass.proof, pass.tuning);
    if let (Operand::Tensor(x, _), OperandMut::Tensor(y, _)) = (source, &mut *target) {
        let walk = &pass.walk_between(x.layout, y.layout);
        rotate_lines(core, ends, kernel, x.bytes, y.bytes, walk);
    } else {
        let walk = &pass.walk(Some(source), target);
        let (from, to) = (source.memory(), target.memory_mut());
        rotate_lines(core, ends, kernel, from, to, walk);
    }
}

/// Rotates heads from one memory into another by a kernel, and copies the channels that do not rotate.
#[inline(never)]
pub(crate) fn rotate_lines<S: Addresses, T: Addresses>(
    (proof, tuning): (Proof, &Tuning),
    ends: IoFormats,
    kernel: OutOfPlaceFn,
    from: &[u8],
    to: &mut [u8],
    walk: &Walk<'_, S, T>,
) {
    let walk = walk.into_another(tuning, ends.source.size);
    let rotated = 2 * walk.rows.pairs();
    let (rotates, leaves) = (rotated > 0, rotated < walk.shape.head_dim);
    walk.run(|span| {
        let (before, to) = span.split(to, ends.target.size);
        let (source, line) = (&span.source(from), &span.line(before));
        if rotates {
            kernel(proof, source, to, line);
        }
        if leaves {
            copy_unrotated(proof, ends, source, to, line);
        }
    });
}

/// Rotates a line by a kernel, and copies the channels that do not rotate.
#[inline]
pub(crate) fn rotate_line(
    proof: Proof,
    ends: IoFormats,
    kernel: OutOfPlaceFn,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
) {
    let rotated = 2 * line.rows.pairs;
    if rotated > 0 {
        kernel(proof, source, memory, line);
    }
    if rotated < line.head_dim {
        copy_unrotated(proof, ends, source, memory, line);
    }
}

/// Copies the channels after the pairs: as bits if the element stays the same, so that not even a NaN changes;
/// otherwise rounded from f32, as in all kernels that convert.
#[inline(never)]
pub(super) fn copy_unrotated(
    proof: Proof,
    ends: IoFormats,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
) {
    let channels = 2 * line.rows.pairs..line.head_dim;
    copy_channels(proof, ends, source, memory, line, channels);
}

/// Copies some channels of each head.
#[inline(always)]
pub(super) fn copy_channels(
    proof: Proof,
    ends: IoFormats,
    source: &SourceLine<'_>,
    memory: &mut [u8],
    line: &Line<'_>,
    channels: Range<usize>,
) {
    let (first, len) = (channels.start, channels.len());
    // An empty copy takes 20 ns per head (Zen 3), half as long as the rotation.
    if len == 0 {
        return;
    }
    let [read, written] = [ends.source.size, ends.target.size];
    for head in 0..line.heads {
        let from = (source.at + head * source.step + first) * read;
        let to = (head * line.step + first) * written;
        let from = &source.memory[from..][..len * read];
        let to = &mut memory[to..][..len * written];
        if ends.source.is(ends.target) {
            to.copy_from_slice(from);
        } else {
            (ends.target.from_f32)(proof, bytemuck::cast_slice(from), to);
        }
    }
}

/// Rotates heads of a tensor in place.
pub(crate) fn in_tensor(pass: &Pass<'_>, x: &mut BytesMut<'_>, kernels: &InPlaceKernels) {
    let [batch, tokens] = &pass.part;
    let layout = x
        .layout
        .part_of([batch.clone(), tokens.clone(), 0..pass.shape.heads]);
    let rows = pass.rows().skip([batch.start, tokens.start, 0]);
    let (x, kernel) = (&mut x.part(&layout), kernels.0.of(pass.pairings()[0]));
    rotate_in_place(
        (pass.proof, pass.tuning),
        kernel,
        x,
        &rows,
        pass.rotation_factors(),
    );
}

/// Rotates heads of a cache in place, if they are lines.
pub(crate) fn in_slots(pass: &Pass<'_>, target: &mut OperandMut<'_, '_>, kernels: &InPlaceKernels) {
    let kernel = kernels.0.of(pass.pairings()[0]);
    let walk = pass.walk(None, target);
    let memory = target.memory_mut();
    walk.run(|span| {
        let [batch, token, _] = span.first;
        if !pass.skips_identity || !walk.rows.is_identity(batch, token) {
            let (before, memory) = span.split(memory, kernels.1.size());
            kernel(pass.proof, memory, &span.line(before));
        }
    });
}

/// Rotates a tensor in place.
pub(crate) fn rotate_in_place(
    (proof, tuning): (Proof, &Tuning),
    kernel: InPlaceFn,
    x: &mut BytesMut<'_>,
    rows: &View<'_>,
    factors: Option<&RowFactors>,
) {
    let proof = proof.fitting(rows.pairs());
    let walk = Walk::in_place(tuning, x.layout, x.size, rows, factors);
    walk.run_with_tokens(tuning, x.size, |span, more| {
        let (before, memory) = span.split(x.bytes, x.size);
        let line = &Line {
            more,
            ..span.line(before)
        };
        kernel(proof, memory, line);
    });
}

/// The heads of one token that rotate in place by one row, without their memory and the row: a single line, without a
/// walk.
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
    /// Returns the heads of a layout, unless there are none.
    #[inline(always)]
    pub(crate) fn new(
        core: (Proof, &Tuning),
        kernel: InPlaceFn,
        layout: &Layout,
        [size, pairs]: [usize; 2],
    ) -> Option<Self> {
        let Shape {
            heads, head_dim, ..
        } = layout.shape();
        if heads == 0 || head_dim == 0 {
            return None;
        }
        let extents = [heads, head_dim, layout.strides().head];
        let ends = [layout.offset(), layout.end()];
        Some(TokenHeads::within(
            core,
            kernel,
            extents,
            ends,
            [size, pairs],
        ))
    }

    /// Returns heads of this number, channels and stride that begin and end at two elements.
    #[inline(always)]
    pub(crate) fn within(
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
    pub(crate) fn run(&self, memory: &mut [u8], rows: &LineRows<'_>) {
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
