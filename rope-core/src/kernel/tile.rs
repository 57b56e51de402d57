//! A chain whose stages run one after the other, over a tile of f32 that stays in the first cache.
//!
//! Some heads are converted into the tile, rotated there, and converted into the target: three passes over what is near
//! instead of one, with the bits of the fused chain, because a head in f32 is exact. A stage that wants a whole head
//! at a time has it here.

use super::chains::{Across, OutOfPlaceFn, RotateF32};
use super::line::{Line, LineRows, Source, Starts};
use crate::Pairing;
use crate::backend::Proof;

/// Values of a tile: 8 KiB, which a call clears once, if it uses it. As large as the rows that
/// [`Rope::rotate_at`](crate::Rope::rotate_at) keeps on the stack.
const TILE: usize = 2048;

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
pub(crate) struct Tile([f32; TILE]);

impl Tile {
    fn empty() -> Self {
        Tile([0.0; TILE])
    }
}

/// What is read and what is written.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) source: &'static Across,
    pub(crate) input: Pairing,
    pub(crate) target: &'static Across,
    pub(crate) output: Pairing,
}

impl Ends {
    /// The one kernel that does it all, if there is one.
    pub(crate) fn fused(self) -> Option<OutOfPlaceFn> {
        self.source.fused(self.input, self.target, self.output)
    }

    /// Rotates a line by stages.
    pub(crate) fn rotate(
        self,
        proof: Proof,
        source: &Source<'_>,
        line: &mut Line<'_>,
        tile: &mut Option<Tile>,
    ) {
        let Ends { input, output, .. } = self;
        let rows = line.rows;
        let tile = tile.get_or_insert_with(Tile::empty);
        // Half of the tile to read into and half to write from, where the pairing changes.
        let room = if input == output { TILE } else { TILE / 2 };
        let block = (room / 2).min(rows.pairs).max(1);
        let together = (room / (2 * block)).max(1);
        for head in (0..line.heads).step_by(together) {
            let heads = together.min(line.heads - head);
            for pair in (0..rows.pairs).step_by(block) {
                let pairs = block.min(rows.pairs - pair);
                let len = heads * 2 * pairs;
                // Heads beside each other are one call.
                let beside = |step: usize| pairs == rows.pairs && step == 2 * pairs;
                if beside(source.step) {
                    let values = self.source(source, head, 0, len);
                    (self.source.to_f32)(proof, values, &mut tile.0[..len]);
                } else {
                    for (index, values) in tile.0[..len].chunks_exact_mut(2 * pairs).enumerate() {
                        self.read(proof, source, rows.pairs, [head + index, pair], values);
                    }
                }
                let (first, second) = tile.0.split_at_mut(room);
                let rows = &LineRows {
                    cos: &rows.cos[pair..],
                    sin: &rows.sin[pair..],
                    pairs,
                    starts: match rows.starts {
                        Starts::Each(starts) => Starts::Each(&starts[head..head + heads]),
                        shared => shared,
                    },
                    factors: rows.factors,
                };
                let tile = |memory| Line {
                    memory: bytemuck::cast_slice_mut(memory),
                    at: 0,
                    step: 2 * pairs,
                    heads,
                    head_dim: 2 * pairs,
                    rows,
                    ahead: 0,
                };
                let target = match RotateF32::of(input, output) {
                    RotateF32::InPlace(kernel) => {
                        kernel(proof, &mut tile(&mut first[..len]));
                        &first[..len]
                    }
                    RotateF32::OutOfPlace(kernel) => {
                        let source = Source {
                            memory: bytemuck::cast_slice(&first[..len]),
                            at: 0,
                            step: 2 * pairs,
                            ahead: 0,
                        };
                        kernel(proof, &source, &mut tile(&mut second[..len]));
                        &second[..len]
                    }
                };
                if beside(line.step) {
                    (self.target.from_f32)(proof, target, self.target(line, head, 0, len));
                } else {
                    for (index, values) in target.chunks_exact(2 * pairs).enumerate() {
                        self.write(proof, line, head + index, pair, values);
                    }
                }
            }
        }
    }

    /// Channels behind the pairs, which are not rotated. As bits where the element stays the same: not even a NaN
    /// changes.
    pub(crate) fn copy_unrotated(
        self,
        proof: Proof,
        source: &Source<'_>,
        line: &mut Line<'_>,
        tile: &mut Option<Tile>,
    ) {
        let from = 2 * line.rows.pairs;
        if from == line.head_dim {
            return;
        }
        if self.source.is(self.target) {
            let size = self.target.size;
            let len = line.head_dim - from;
            for head in 0..line.heads {
                let source = self.source(source, head, from, len);
                let start = (line.at + head * line.step + from) * size;
                line.memory[start..][..len * size].copy_from_slice(source);
            }
            return;
        }
        let tile = tile.get_or_insert_with(Tile::empty);
        for head in 0..line.heads {
            for at in (from..line.head_dim).step_by(TILE) {
                let len = TILE.min(line.head_dim - at);
                let source = self.source(source, head, at, len);
                let values = &mut tile.0[..len];
                (self.source.to_f32)(proof, source, values);
                (self.target.from_f32)(proof, values, self.target(line, head, at, len));
            }
        }
    }

    /// Pairs of a head, from one on.
    fn read(
        self,
        proof: Proof,
        source: &Source<'_>,
        all: usize,
        [head, pair]: [usize; 2],
        values: &mut [f32],
    ) {
        let pairs = values.len() / 2;
        if self.input == Pairing::Half && pairs < all {
            let (first, second) = values.split_at_mut(pairs);
            (self.source.to_f32)(proof, self.source(source, head, pair, pairs), first);
            let second_pairs = self.source(source, head, all + pair, pairs);
            (self.source.to_f32)(proof, second_pairs, second);
        } else {
            // All pairs begin at channel 0.
            let source = self.source(source, head, 2 * pair, 2 * pairs);
            (self.source.to_f32)(proof, source, values);
        }
    }

    /// Undoes `read`.
    fn write(self, proof: Proof, line: &mut Line<'_>, head: usize, pair: usize, values: &[f32]) {
        let pairs = values.len() / 2;
        if self.output == Pairing::Half && pairs < line.rows.pairs {
            let (first, second) = values.split_at(pairs);
            let behind = line.rows.pairs + pair;
            (self.target.from_f32)(proof, first, self.target(line, head, pair, pairs));
            (self.target.from_f32)(proof, second, self.target(line, head, behind, pairs));
        } else {
            let target = self.target(line, head, 2 * pair, 2 * pairs);
            (self.target.from_f32)(proof, values, target);
        }
    }

    /// Channels of a head that is read.
    fn source<'s>(self, source: &Source<'s>, head: usize, at: usize, len: usize) -> &'s [u8] {
        let size = self.source.size;
        &source.memory[(source.at + head * source.step + at) * size..][..len * size]
    }

    /// Channels of a head that is written.
    fn target<'t>(
        self,
        line: &'t mut Line<'_>,
        head: usize,
        at: usize,
        len: usize,
    ) -> &'t mut [u8] {
        let size = self.target.size;
        &mut line.memory[(line.at + head * line.step + at) * size..][..len * size]
    }
}
