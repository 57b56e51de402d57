//! The stages of a chain, one after the other, over a tile of whole heads in f32 that stays in the first cache.
//!
//! ```text
//! read -> norm -> scale -> rotate -> norm -> scale -> write
//! ```
//!
//! All of it is checked; here nothing fails. [`sums`](super::sums) has the sums of a norm over a row.

use crate::backend::Proof;
use crate::cache::{Format, MOST_CHANNELS, MOST_HEADS};
use crate::kernel::chains::{Across, F32, F32_NORMED, RotateF32};
use crate::kernel::line::Source;
use crate::kernel::norm::{
    AddToSum, Channelwise, NormFactors, PerChannel, ROOTS, RootOf, Scaled, Sum,
};
use crate::kernel::normed::TOO_LONG;
use crate::kernel::values::Values;
use crate::norm::{GivenSums, Norm, NormReach, NormSum, Place, Weights};
use crate::pass::{Operand, OperandMut, Pass};
use crate::walk::{LineSpan, Order, Walk};

/// Values of a tile: the longest head, and so many heads of 128 channels that a call for each stage costs little.
const TILE: usize = MOST_CHANNELS;

/// The most heads of a tile.
const HEADS: usize = MOST_HEADS;
const _: () = assert!(HEADS == ROOTS);

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
pub(super) struct Tile(pub(super) [f32; TILE]);

/// Tiles that some chains want beside theirs. What is not wanted is not cleared, which takes as long as to rotate ten
/// heads.
struct Buffers {
    /// For heads whose pairing changes.
    other: Option<Tile>,
    /// For weights and biases as f32.
    values: Option<Tile>,
}

impl Tile {
    pub(super) fn empty() -> Self {
        Tile([0.0; TILE])
    }
}

/// Runs all stages of any pass.
pub(crate) fn run(pass: &Pass<'_>, source: &Operand<'_>, target: &mut OperandMut<'_, '_>) {
    pass.run_stages(source, target);
}

impl Pass<'_> {
    fn run_stages(&self, source: &Operand<'_>, target: &mut OperandMut<'_, '_>) {
        let over_row = self
            .norm
            .filter(|norm| norm.reach == NormReach::Row && norm.given.is_none());
        let walk = self.walk(source, target);
        let walk = Walk {
            order: if over_row.is_some() {
                Order::BY_TOKEN
            } else {
                walk.order
            },
            most: (TILE / self.shape.head_dim.max(1)).min(HEADS),
            ..walk
        };
        let mut buffers = Buffers {
            other: None,
            values: None,
        };
        let mut tile = Tile::empty();
        let mut row = None;
        walk.run(|span| {
            let [batch, token, head] = span.first;
            if self.skips_identity && walk.rows.is_identity(batch, token) {
                return;
            }
            if let (Some(norm), 0) = (over_row, head) {
                row = Some(self.row_factors(source, target, norm, span, &mut tile));
            }
            self.line(source, target, span, row, &mut tile, &mut buffers);
        });
    }

    /// The heads of a line, through all stages.
    fn line(
        &self,
        source: &Operand<'_>,
        target: &mut OperandMut<'_, '_>,
        span: &LineSpan<'_>,
        row: Option<NormFactors>,
        tile: &mut Tile,
        buffers: &mut Buffers,
    ) {
        let len = span.count * self.shape.head_dim;
        self.read(source, target, span, &mut tile.0[..len]);
        self.beside_rotation(
            Place::BeforeRotation,
            span,
            row,
            &mut tile.0[..len],
            buffers,
        );
        if self.moves() {
            let other = buffers.other.get_or_insert_with(Tile::empty);
            self.rotate(span, &mut tile.0[..len], &mut other.0[..len]);
            core::mem::swap(tile, other);
        } else {
            self.rotate(span, &mut tile.0[..len], &mut []);
        }
        let tile = &mut tile.0[..len];
        let after = |place| place == Place::AfterRotation;
        let stages_after = self.norm.is_some_and(|norm| after(norm.place))
            || self.scale.is_some_and(|scale| after(scale.place));
        if self.rotation.is_some() && self.rounds && (stages_after || target.is_coded()) {
            self.round(self.flowing(Place::BeforeRotation), tile);
        }
        self.beside_rotation(Place::AfterRotation, span, row, tile, buffers);
        target.write(self.proof, span, tile);
    }

    fn beside_rotation(
        &self,
        place: Place,
        span: &LineSpan<'_>,
        row: Option<NormFactors>,
        tile: &mut [f32],
        buffers: &mut Buffers,
    ) {
        if let Some(norm) = self.norm.filter(|norm| norm.place == place) {
            let values = buffers.values.get_or_insert_with(Tile::empty);
            self.norm(norm, span, row, tile, values);
        }
        if let Some(scale) = self.scale.filter(|scale| scale.place == place) {
            let mut factors = [1.0; HEADS];
            for (index, factor) in factors.iter_mut().enumerate().take(span.count) {
                let [batch, token, head] = span.index(index);
                *factor = scale.of(batch * self.shape.tokens + token, head, self.shape.heads);
            }
            self.each(tile, Channelwise::TimesEach(&factors));
            if scale.rounds {
                self.round(self.flowing(place), tile);
            }
        }
    }

    /// Norms the heads of a tile.
    fn norm(
        &self,
        norm: Norm<'_>,
        span: &LineSpan<'_>,
        row: Option<NormFactors>,
        tile: &mut [f32],
        values: &mut Tile,
    ) {
        let formula = norm.formula;
        let head_dim = self.shape.head_dim;
        let mut factors = [row.unwrap_or(NormFactors::NONE); HEADS];
        let factors = &mut factors[..span.count];
        if let Some(GivenSums { sums, width }) = norm.given {
            for (index, factors) in factors.iter_mut().enumerate() {
                let [batch, token, head] = span.index(index);
                let row = batch * self.shape.tokens + token;
                let sum = match norm.reach {
                    NormReach::Row => sums[row],
                    NormReach::Head => sums[row * self.shape.heads + head],
                };
                let (mean, square) = (0.0, sum / width as f32);
                self.proof.run(RootOf {
                    mean,
                    square,
                    eps: norm.eps,
                    factors,
                });
            }
        } else if row.is_none()
            && !formula.centred
            && norm.sum == NormSum::PyTorch
            && head_dim < TOO_LONG
        {
            let mut roots = [0.0; ROOTS];
            let heads = Source {
                memory: bytemuck::cast_slice(tile),
                at: 0,
                step: head_dim,
                ahead: 0,
            };
            let extents = [head_dim, span.count];
            (F32_NORMED.roots)(self.proof, &heads, extents, norm.eps, &mut roots);
            for (factors, root) in factors.iter_mut().zip(roots) {
                factors.root = root;
            }
        } else if row.is_none() {
            for (factors, head) in factors.iter_mut().zip(tile.chunks_exact(head_dim)) {
                *factors = self.factors(norm, |term, mean| {
                    let mut sum = Sum::new(head_dim, norm.sum);
                    let mut all = 0.0;
                    let (values, total) = (head, Some(&mut all));
                    self.proof.run(AddToSum {
                        sum: &mut sum,
                        values,
                        term,
                        mean,
                        total,
                    });
                    (all, head_dim)
                });
            }
        }
        let result = self.result(norm);
        match norm.weight {
            Some(weights) if !formula.rounds_normed => {
                let weights = self.per_channel(weights, formula.one_plus_weight, span, values);
                self.each(tile, Channelwise::NormTimes(factors, weights));
            }
            weights => {
                self.each(tile, Channelwise::Norm(factors));
                if formula.rounds_normed {
                    self.round(self.element, tile);
                }
                if let Some(weights) = weights {
                    let weights = self.per_channel(weights, formula.one_plus_weight, span, values);
                    self.each(tile, Channelwise::Times(weights));
                }
            }
        }
        if let Some(biases) = norm.bias {
            if formula.rounds_product && norm.weight.is_some() && !self.promotes(norm) {
                self.round(self.element, tile);
            }
            let biases = self.per_channel(biases, false, span, values);
            self.each(tile, Channelwise::Plus(biases));
        }
        self.round(result, tile);
    }

    pub(super) fn each(&self, tile: &mut [f32], what: Channelwise<'_>) {
        let head_dim = self.shape.head_dim;
        self.proof.run(Scaled {
            heads: tile,
            head_dim,
            what,
        });
    }

    /// The weights of the heads of a block as f32: where they are, or in a buffer.
    fn per_channel<'w>(
        &self,
        weights: Weights<'w>,
        one_plus: bool,
        span: &LineSpan<'_>,
        Tile(buffer): &'w mut Tile,
    ) -> PerChannel<'w> {
        let head_dim = self.shape.head_dim;
        let shared = weights.len() == head_dim;
        let start = if shared { 0 } else { span.first[2] * head_dim };
        let (step, count) = if shared || span.along_tokens {
            (0, 1)
        } else {
            (head_dim, span.count)
        };
        let len = count * head_dim;
        if let (Weights::F32(weights), false) = (weights, one_plus) {
            return PerChannel {
                values: &weights[start..][..len],
                step,
            };
        }
        let values = &mut buffer[..len];
        self.widen(weights, one_plus, start, values);
        PerChannel { values, step }
    }

    /// Rounds values to an element, and takes them back.
    pub(super) fn round(&self, element: &'static Across, values: &mut [f32]) {
        if element.is(&F32) {
            return;
        }
        let mut words = Words([0; WORDS]);
        for values in values.chunks_mut(WORDS) {
            let bytes = &mut bytemuck::cast_slice_mut(&mut words.0)[..values.len() * element.size];
            (element.from_f32)(self.proof, values, bytes);
            (element.to_f32)(self.proof, bytes, values);
        }
    }

    /// Whether the pairing changes.
    pub(super) fn moves(&self) -> bool {
        self.rotation
            .as_ref()
            .is_some_and(|rotation| rotation.input != rotation.output)
    }

    /// Rotates the heads of a line, in a tile; or into the other one, where the pairing changes.
    pub(super) fn rotate(&self, span: &LineSpan<'_>, tile: &mut [f32], other: &mut [f32]) {
        let Some(rotation) = &self.rotation else {
            return;
        };
        match RotateF32::of(rotation.input, rotation.output) {
            RotateF32::InPlace(kernel) => {
                let tile = bytemuck::cast_slice_mut(tile);
                kernel(self.proof, &mut span.line_in_tile(tile));
            }
            RotateF32::OutOfPlace(kernel) => {
                // What follows the pairs stays.
                other.copy_from_slice(tile);
                let source = Source {
                    memory: bytemuck::cast_slice(tile),
                    at: 0,
                    step: span.head_dim,
                    ahead: 0,
                };
                let other = bytemuck::cast_slice_mut(other);
                kernel(self.proof, &source, &mut span.line_in_tile(other));
            }
        }
    }

    /// Reads the heads of a line.
    pub(super) fn read(
        &self,
        source: &Operand<'_>,
        target: &OperandMut<'_, '_>,
        span: &LineSpan<'_>,
        values: &mut [f32],
    ) {
        let (proof, head) = (self.proof, span.first[2]);
        match (source, target) {
            (Operand::Tensor(tensor, element), _) => {
                read_heads(proof, &span.source(tensor.bytes), element, span, values);
            }
            (Operand::Target, OperandMut::Tensor(tensor, element)) => {
                read_heads(proof, &span.written(tensor.bytes), element, span, values);
            }
            (Operand::Cache(cache, _), _) => cache.read(proof, span.tokens[0], head, values),
            (Operand::Target, OperandMut::Cache(cache, _)) => {
                cache.as_cache().read(proof, span.tokens[1], head, values);
            }
        }
    }
}

/// What values of 16 bits are on the way through `round`, a part at a time.
const WORDS: usize = 1024;

#[repr(align(64))]
struct Words([u16; WORDS]);

/// Heads of a tensor as f32.
pub(super) fn read_heads(
    proof: Proof,
    heads: &Source<'_>,
    element: &'static Across,
    span: &LineSpan<'_>,
    values: &mut [f32],
) {
    let together = together(span, heads.step);
    for (index, values) in values.chunks_mut(together * span.head_dim).enumerate() {
        let start = (heads.at + index * together * heads.step) * element.size;
        let bytes = &heads.memory[start..][..values.len() * element.size];
        (element.to_f32)(proof, bytes, values);
    }
}

/// How many heads of a line are one call: those beside each other.
fn together(span: &LineSpan<'_>, step: usize) -> usize {
    if step == span.head_dim { span.count } else { 1 }
}

impl OperandMut<'_, '_> {
    /// Writes the heads of a line.
    fn write(&mut self, proof: Proof, span: &LineSpan<'_>, values: &[f32]) {
        match self {
            OperandMut::Tensor(tensor, element) => {
                let (step, size) = (span.steps[1], element.size);
                let together = together(span, step);
                for (index, values) in values.chunks(together * span.head_dim).enumerate() {
                    let start = (span.at[1] + index * together * step) * size;
                    let bytes = &mut tensor.bytes[start..][..values.len() * size];
                    (element.from_f32)(proof, values, bytes);
                }
            }
            OperandMut::Cache(cache, _) => {
                let (at, head) = (span.tokens[1], span.first[2]);
                match cache.stored().format {
                    Format::Element(element, _) => {
                        cache.write_elements(proof, element, at, head, values);
                    }
                    Format::Codes(codes) => {
                        let heads = [head, span.count];
                        cache.write_codes(proof, codes, at, heads, Values::F32(values));
                    }
                }
            }
        }
    }
}
