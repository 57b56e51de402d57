//! Runs every pass: its stages, one after the other, over a tile of f32 that stays in the first-level cache.
//!
//! ```text
//! read -> transform -> norm -> scale -> rotate -> norm -> scale -> transform -> write
//! ```
//!
//! A call has one tile, and a scratch buffer of the same size for the stages: heads whose pairing changes, words to
//! round to, weights as f32, channels that lie apart. The tile holds whole heads. If a call only rotates elements, a
//! head may be longer than the tile, which then holds some of its pairs at a time.

use core::ops::Range;

use super::lines::copy_channels;
use crate::base::limits::{MOST_CHANNELS, MOST_HEADS};
use crate::describe::cache::{CacheHeads, CacheHeadsMut};
use crate::describe::norm::NormReach;
use crate::describe::rows::{FullHeads, Rotation};
use crate::describe::tensor::BytesMut;
use crate::describe::window::{Window, WindowPart};
use crate::kernel::compiled::RotateF32;
use crate::kernel::element::Element;
use crate::kernel::elements::OutOfPlaceKernels;
use crate::kernel::line::SourceLine;
use crate::kernel::norm::{NormFactors, ROOTS};
use crate::pass::walk::{LineSpan, Order};
use crate::pass::{Operand, OperandMut, Operands, Pass};
use crate::proof::Proof;
use crate::stages::StageOrder;
use crate::{Dimension, Pairing, Shape};

/// Values in a tile: the longest head, or enough heads of 128 channels to amortize a call per stage.
const TILE: usize = MOST_CHANNELS;

/// Values in the tile of a call with few heads.
const SMALL_TILE: usize = 512;

/// The most heads of a tile.
const HEADS: usize = MOST_HEADS;
const _: () = assert!(HEADS == ROOTS);

/// Values aligned to cache lines: a vector across two lines costs twice as much.
#[repr(align(64))]
struct F32Tile<const LEN: usize>([f32; LEN]);

/// Calls `run` with the smallest tile of at least `len` values: clearing 8 KiB takes as long as rotating ten heads.
pub(crate) fn with_tile(len: usize, run: &mut dyn FnMut(&mut [f32])) {
    #[inline(never)]
    fn cleared<const LEN: usize>(run: &mut dyn FnMut(&mut [f32])) {
        run(&mut F32Tile([0.0; LEN]).0);
    }
    if len <= SMALL_TILE {
        cleared::<SMALL_TILE>(run);
    } else if len <= TILE {
        cleared::<TILE>(run);
    } else {
        cleared::<{ 2 * TILE }>(run);
    }
}

/// Runs all stages of any pass, in place if it has no source.
pub(crate) fn run(pass: &Pass<'_>, source: Option<&Operand<'_>>, target: &mut OperandMut<'_>) {
    let head_dim = pass.shape.head_dim;
    if let (true, Some(rotation), OperandMut::Tensor(y, element)) =
        (head_dim > TILE, &pass.rotation, &mut *target)
        && !rotation.window.is_whole()
    {
        return run_windowed(pass, rotation, source, (y, element));
    }
    let over_row = pass
        .norm()
        .filter(|norm| norm.reach == NormReach::Token && norm.given.is_none());
    let is_line = |heads: &CacheHeads<'_>| matches!(heads, CacheHeads::Lines(..));
    let (read, written) = (source.map(Operand::heads), target.heads());
    let lines = read.as_ref().is_none_or(is_line) && is_line(&written);
    // Channels that do not rotate keep their bits if the element stays the same.
    let elements = (
        read.as_ref().unwrap_or(&written).element(),
        written.element(),
    );
    let kept = match elements {
        (Some(source), Some(target)) if pass.stages.is_none() && source.is(target) => Some(source),
        _ => None,
    };
    let first = pass.first_channel();
    let width = match kept {
        Some(_) => 2 * pass.rows().pairs,
        None => head_dim,
    };
    let mut walk = pass.walk(source, target);
    if over_row.is_some() {
        walk.order = Order::BY_TOKEN;
    }
    walk.most = (TILE / width.max(1)).clamp(1, HEADS);
    let operands = &mut Operands { source, target };
    let len = walk.longest().saturating_mul(width).min(TILE);
    let rounds = pass.stages.is_some() && !pass.element.is(f32::OUT_OF_PLACE);
    let has_side = !lines || pass.moves() || rounds || pass.norm().is_some();
    let all = if has_side { 2 * len } else { len };
    with_tile(all, &mut |tile| {
        let (tile, side) = tile.split_at_mut(if has_side { tile.len() / 2 } else { tile.len() });
        let mut row = None;
        walk.run_dyn(&mut |span| {
            let [batch, token, head] = span.first;
            if pass.skips_identity && walk.rows.is_identity(batch, token) {
                return;
            }
            if let (Some(norm), Some(stages), 0) = (over_row, pass.stages, head) {
                let factors = (stages.ops.row_factors)(pass, norm, operands, span, tile, side);
                row = Some(factors);
            }
            if width > TILE {
                pass.run_long(operands, span, kept.is_none(), tile, side);
            } else if width > 0 {
                let span = &LineSpan {
                    head_dim: width,
                    ..*span
                };
                let (start, at) = match kept {
                    Some(_) => (first, 0),
                    None => (0, first),
                };
                let channels = [Channels::run(start, width); 2];
                pass.run_part(operands, span, (channels, at), row, tile, side);
            }
            if let (Some(element), Some(source), true) = (kept, source, lines) {
                let (before, to) = span.split(operands.target.memory_mut(), element.size);
                let line = &span.line(before);
                let ends = pass.ends(element, element);
                let source = &span.source(source.memory());
                copy_channels(pass.proof, ends, source, to, line, 0..first);
                copy_channels(pass.proof, ends, source, to, line, first + width..head_dim);
            } else if let (Some(element), Some(source)) = (kept, source) {
                let side = bytemuck::cast_slice_mut(side);
                for channels in [0..first, first + width..head_dim] {
                    copy_apart(element.size, source, operands.target, span, channels, side);
                }
            }
        });
    });
}

/// Rotates tensors whose heads are longer than the tile, part by part of the window; copies the channels before it.
#[cold]
#[inline(never)]
fn run_windowed(
    pass: &Pass<'_>,
    rotation: &Rotation<'_>,
    source: Option<&Operand<'_>>,
    (y, element): (&mut BytesMut<'_>, &'static OutOfPlaceKernels),
) {
    let parts = (rotation.window).all_channels(pass.shape.head_dim, rotation.rows.pairs);
    for WindowPart { channels, pairs } in parts {
        let part = Pass {
            shape: Shape {
                head_dim: channels.len(),
                ..pass.shape
            },
            part: pass.part.clone(),
            rotation: Some(Rotation {
                window: Window::WHOLE,
                rows: rotation.rows.of_pairs(pairs),
                ..*rotation
            }),
            ..*pass
        };
        let layout = y.layout.part(Dimension::Channels, channels.clone());
        let target = &mut OperandMut::Tensor(y.part(&layout), element);
        match source {
            Some(&Operand::Tensor(x, element)) => {
                let layout = x.layout.part(Dimension::Channels, channels);
                run(
                    &part,
                    Some(&Operand::Tensor(x.within(&layout), element)),
                    target,
                );
            }
            _ => run(&part, None, target),
        }
    }
}

impl Pass<'_> {
    /// Rotates heads that are longer than the tile, some pairs of one head at a time.
    fn run_long(
        &self,
        operands: &mut Operands<'_, '_>,
        span: &LineSpan<'_>,
        converts_rest: bool,
        tile: &mut [f32],
        side: &mut [f32],
    ) {
        let (pairs, most) = (span.rows.pairs, TILE / 2);
        for first in (0..pairs).step_by(most) {
            let count = most.min(pairs - first);
            let channels = self
                .pairings()
                .map(|pairing| Channels::of_pairs(pairing, pairs, first, count));
            let part = &LineSpan {
                rows: &span.rows.of_pairs(first, count),
                head_dim: 2 * count,
                ..*span
            };
            self.run_part(operands, part, (channels, 0), None, tile, side);
        }
        if converts_rest {
            for first in (2 * pairs..span.head_dim).step_by(TILE) {
                let channels = Channels::run(first, TILE.min(span.head_dim - first));
                let values = &mut tile[..channels.len];
                operands.read(self.proof, span, channels, values, side);
                operands.write(self.proof, span, channels, values, side);
            }
        }
    }

    /// Runs all stages on some channels of the heads of a line, by their ranges in source and target; `first` is the
    /// place in the tile of the first rotated channel.
    fn run_part(
        &self,
        operands: &mut Operands<'_, '_>,
        span: &LineSpan<'_>,
        ([read, written], first): ([Channels; 2], usize),
        row: Option<NormFactors>,
        tile: &mut [f32],
        side: &mut [f32],
    ) {
        let tile = &mut tile[..span.count * span.head_dim];
        operands.read(self.proof, span, read, tile, side);
        if let Some(stages) = self.stages {
            (stages.ops.run)(
                self,
                stages,
                StageOrder::BeforeRotation,
                span,
                row,
                tile,
                side,
            );
        }
        let [tile, side] = self.rotate(span, first, tile, side);
        let after = StageOrder::AfterRotation;
        if self.rotation.is_some()
            && self.rounds
            && (self.stages.is_some_and(|stages| stages.stand_at(after))
                || operands.target.is_coded())
        {
            self.round(self.flowing(StageOrder::BeforeRotation), tile, side);
        }
        if let Some(stages) = self.stages {
            (stages.ops.run)(self, stages, after, span, row, tile, side);
            // The input of a quantizer is rounded as after any other stage.
            let transformed = stages.transform.is_some_and(|transform| transform.last);
            if transformed && self.rounds && operands.target.is_coded() {
                self.round(self.flowing(after), tile, side);
            }
        }
        operands.write(self.proof, span, written, tile, side);
    }

    /// Rounds values to an element and back, with the words in scratch beside the tile.
    #[inline(never)]
    pub(crate) fn round(
        &self,
        element: &'static OutOfPlaceKernels,
        values: &mut [f32],
        side: &mut [f32],
    ) {
        if element.is(f32::OUT_OF_PLACE) {
            return;
        }
        let bytes = &mut bytemuck::cast_slice_mut(side)[..values.len() * element.size];
        (element.from_f32)(self.proof, values, bytes);
        (element.to_f32)(self.proof, bytes, values);
    }

    /// Rotates the heads of a line in the tile, or into the scratch beside it if the pairing changes. Returns the
    /// heads, and the unused one of both. `first` is the first rotated channel of a head in the tile.
    pub(super) fn rotate<'t>(
        &self,
        span: &LineSpan<'_>,
        first: usize,
        tile: &'t mut [f32],
        side: &'t mut [f32],
    ) -> [&'t mut [f32]; 2] {
        let Some(rotation) = self.rotation.as_ref().filter(|_| span.rows.pairs > 0) else {
            return [tile, side];
        };
        let (full, len, pairs) = (rotation.rows.full, tile.len(), span.rows.pairs);
        let moves = self.moves();
        if moves && (first > 0 || 2 * pairs < span.head_dim) {
            side[..len].copy_from_slice(tile);
        }
        let window = Window {
            first,
            ..rotation.window
        };
        for WindowPart { channels, pairs } in window.parts(span.head_dim, pairs) {
            let first = channels.start;
            let begin = rotation.rows.values(pairs.start);
            let span = &LineSpan {
                rows: &span.rows.of_pairs(begin, pairs.len()),
                ..*span
            };
            if let Some(full) = full {
                let heads = FullHeads {
                    rows: span.rows,
                    head_dim: span.head_dim,
                    first,
                };
                (full.tile)(self.proof, rotation, heads, tile, side);
                continue;
            }
            match RotateF32::of(rotation.input, rotation.output) {
                RotateF32::InPlace(kernel) => {
                    let heads = bytemuck::cast_slice_mut(&mut tile[first..]);
                    kernel(self.proof, heads, &span.line_in_tile(first));
                }
                RotateF32::OutOfPlace(kernel) => {
                    let source = SourceLine {
                        memory: bytemuck::cast_slice(tile),
                        at: first,
                        step: span.head_dim,
                        ahead: 0,
                    };
                    let heads = bytemuck::cast_slice_mut(&mut side[first..len]);
                    kernel(self.proof, &source, heads, &span.line_in_tile(first));
                }
            }
        }
        match moves {
            true => [&mut side[..len], tile],
            false => [tile, side],
        }
    }
}

/// The channels of each head that are in a tile: one run, or two.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    starts: [usize; 2],
    /// Channels per run.
    len: usize,
    /// Channels of all runs.
    width: usize,
}

impl Channels {
    /// Creates one run.
    pub(super) fn run(start: usize, len: usize) -> Self {
        Channels {
            starts: [start; 2],
            len,
            width: len,
        }
    }

    /// Creates the runs of some pairs of a head.
    fn of_pairs(pairing: Pairing, all: usize, first: usize, count: usize) -> Self {
        match pairing {
            Pairing::Half => Channels {
                starts: [first, all + first],
                len: count,
                width: 2 * count,
            },
            Pairing::Interleaved => Channels::run(2 * first, 2 * count),
        }
    }

    /// Returns the number of heads per call of `values` values, all if heads are contiguous; and of runs per head.
    fn runs(self, step: usize, values: usize) -> (usize, usize) {
        if step == self.len && step == self.width {
            (values / self.width, 1)
        } else {
            (1, self.width / self.len)
        }
    }
}

/// Reads whole heads that are lines.
pub(crate) fn read_heads(
    proof: Proof,
    heads: &SourceLine<'_>,
    element: &'static OutOfPlaceKernels,
    head_dim: usize,
    values: &mut [f32],
) {
    read_lines(proof, heads, element, Channels::run(0, head_dim), values);
}

/// Reads channels of heads that are lines.
pub(super) fn read_lines(
    proof: Proof,
    heads: &SourceLine<'_>,
    element: &'static OutOfPlaceKernels,
    channels: Channels,
    values: &mut [f32],
) {
    let size = element.size;
    let (together, runs) = channels.runs(heads.step, values.len());
    for (index, values) in values.chunks_mut(together * channels.len).enumerate() {
        let first = heads.at + index / runs * together * heads.step + channels.starts[index % runs];
        let bytes = &heads.memory[first * size..][..values.len() * size];
        (element.to_f32)(proof, bytes, values);
    }
}

/// Copies channels of the heads of a line as bits, if the channels of a head lie apart at one end. `side` holds some of
/// them at a time.
fn copy_apart(
    size: usize,
    source: &Operand<'_>,
    target: &mut OperandMut<'_>,
    span: &LineSpan<'_>,
    channels: Range<usize>,
    side: &mut [u8],
) {
    let line = |end: usize, head: usize, first: usize| {
        (span.at[end] + head * span.steps[end] + first) * size
    };
    let most = side.len() / size;
    for head in 0..span.count {
        for first in channels.clone().step_by(most) {
            let bytes = &mut side[..most.min(channels.end - first) * size];
            match source.heads() {
                CacheHeads::Lines(memory, _) => {
                    bytes.copy_from_slice(&memory[line(0, head, first)..][..bytes.len()]);
                }
                CacheHeads::Kept(kept) => {
                    kept.gather(span.tokens[0], span.first[2] + head, first, bytes);
                }
            }
            match target.heads_mut() {
                CacheHeadsMut::Lines(memory, _) => {
                    memory[line(1, head, first)..][..bytes.len()].copy_from_slice(bytes);
                }
                CacheHeadsMut::Kept(cache) => {
                    cache.scatter(span.tokens[1], span.first[2] + head, first, bytes);
                }
            }
        }
    }
}

impl Operands<'_, '_> {
    /// Reads channels of the heads of a line; codes are read whole.
    pub(super) fn read(
        &self,
        proof: Proof,
        span: &LineSpan<'_>,
        channels: Channels,
        values: &mut [f32],
        side: &mut [f32],
    ) {
        let (heads, end) = match self.source {
            Some(source) => (source.heads(), 0),
            None => (self.target.heads(), 1),
        };
        match heads {
            CacheHeads::Lines(memory, element) => {
                let heads = SourceLine {
                    memory,
                    at: span.at[end],
                    step: span.steps[end],
                    ahead: 0,
                };
                read_lines(proof, &heads, element, channels, values);
            }
            CacheHeads::Kept(kept) => {
                let (at, head) = (span.tokens[end], span.first[2]);
                let channels = channels.starts[0]..channels.starts[0] + channels.len;
                let side = bytemuck::cast_slice_mut(side);
                kept.read(proof, at, head, channels, values, side);
            }
        }
    }

    /// Writes channels of the heads of a line: the reverse of `read`.
    fn write(
        &mut self,
        proof: Proof,
        span: &LineSpan<'_>,
        channels: Channels,
        values: &[f32],
        side: &mut [f32],
    ) {
        match self.target.heads_mut() {
            CacheHeadsMut::Lines(memory, element) => {
                let (size, step) = (element.size, span.steps[1]);
                let (together, runs) = channels.runs(step, values.len());
                for (index, values) in values.chunks(together * channels.len).enumerate() {
                    let first =
                        span.at[1] + index / runs * together * step + channels.starts[index % runs];
                    let bytes = &mut memory[first * size..][..values.len() * size];
                    (element.from_f32)(proof, values, bytes);
                }
            }
            CacheHeadsMut::Kept(cache) => {
                let (at, head) = (span.tokens[1], span.first[2]);
                let channels = channels.starts[0]..channels.starts[0] + channels.len;
                let side = bytemuck::cast_slice_mut(side);
                cache.write(proof, at, head, channels, values, side);
            }
        }
    }
}
