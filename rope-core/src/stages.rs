//! The stages of a chain, one after the other, over a tile of whole heads in f32 that stays in the first cache.
//!
//! ```text
//! read -> norm -> scale -> rotate -> norm -> scale -> write
//! ```
//!
//! [`fused`], [`lines`] and [`codes`] are short ways, with the same bits; [`sums`] has those of a norm over a row.
//!
//! A head is read from a tensor or a cache, and written to one. Between two stages it is f32, or was rounded to the
//! element of what is read, as the plan says. All of it is checked; here nothing fails.

mod codes;
mod fused;
mod lines;
mod sums;

use crate::backend::Proof;
use crate::cache::{Cache, CacheMut, Format, Located, MOST_CHANNELS, MOST_HEADS, Slots};
use crate::kernel::chains::{Across, BF16, F16, F32, F32_NORMED, rotate_f32};
use crate::kernel::line::{Line, LineRows, Starts};
use crate::kernel::norm::{
    AddToSum, Channelwise, NormFactors, PerChannel, ROOTS, RootOf, Scaled, Sum,
};
use crate::kernel::normed::TOO_LONG;
use crate::kernel::rotation::RowFactors;
use crate::kernel::values::Values;
use crate::norm::{GivenSums, Norm, NormReach, NormResult, NormSum, Place, Weights};
use crate::rows::View;
use crate::scale::Scale;
use crate::tensor::{Bytes, BytesMut};
use crate::{CacheLayout, Pairing, Shape};

/// Values of a tile: the longest head, and so many heads of 128 channels that a call for each stage costs little.
const TILE: usize = MOST_CHANNELS;

/// The most heads of a tile.
const HEADS: usize = MOST_HEADS;
const _: () = assert!(HEADS == ROOTS);

/// On cache lines of its own: a vector that crosses two costs twice as much.
#[repr(align(64))]
struct Tile([f32; TILE]);

/// Tiles that some chains want beside theirs. What is not wanted is not cleared, which takes as long as to rotate ten
/// heads.
struct Buffers {
    /// For heads whose pairing changes.
    other: Option<Tile>,
    /// For weights and biases as f32.
    values: Option<Tile>,
}

impl Tile {
    fn empty() -> Self {
        Tile([0.0; TILE])
    }
}

/// A chain whose every index has been checked.
pub(crate) struct Stages<'a> {
    pub(crate) proof: Proof,
    /// What is read, which intermediate results are rounded to.
    pub(crate) element: &'static Across,
    pub(crate) shape: Shape,
    pub(crate) norm: Option<Norm<'a>>,
    pub(crate) scale: Option<Scale<'a>>,
    pub(crate) rotation: Option<Rotation<'a>>,
    /// Whether what the rotation gives is rounded before a norm or a scale, or a code, is made of it.
    pub(crate) rounds: bool,
    /// Whether a token whose row rotates by nothing is left alone.
    pub(crate) skips_still: bool,
    /// Whether what is fused runs stage by stage all the same.
    pub(crate) staged: bool,
}

/// The stage that rotates.
pub(crate) struct Rotation<'a> {
    pub(crate) rows: View<'a>,
    pub(crate) factors: Option<RowFactors>,
    pub(crate) input: Pairing,
    pub(crate) output: Pairing,
}

impl Rotation<'_> {
    /// Heads as a line: how many, and their channels; elements from one to the next, where they are read and where they
    /// are written; where their rows start; bytes of all that is rotated, if its next heads may be asked for.
    #[inline(always)]
    fn line<'l>(
        &'l self,
        source: Option<&'l [u8]>,
        target: &'l mut [u8],
        [heads, head_dim]: [usize; 2],
        [source_step, target_step]: [usize; 2],
        starts: Starts<'l>,
        tensor: usize,
    ) -> Line<'l> {
        Line {
            source,
            source_step,
            target,
            target_step,
            heads,
            head_dim,
            tensor,
            rows: LineRows::of(&self.rows, starts, self.factors.as_ref()),
            next: [&[]; 2],
        }
    }
}

/// Where heads are read.
pub(crate) enum Source<'s> {
    /// Where they are written.
    Target,
    Tensor(Bytes<'s>, &'static Across),
    Cache(&'s Cache<'s>, &'s Slots<'s>),
}

/// Where heads are written.
pub(crate) enum Target<'t, 'm> {
    Tensor(&'t mut BytesMut<'m>, &'static Across),
    Cache(&'t mut CacheMut<'m>, Slots<'t>),
}

/// Some heads of a token, or one head of some tokens.
#[derive(Clone, Copy)]
struct Block {
    batch: usize,
    token: usize,
    head: usize,
    count: usize,
    /// Whether they are of consecutive tokens.
    along_tokens: bool,
    places: Places,
}

/// Where caches have a token: the one that is read, the one that is written. `None` where that is no cache.
#[derive(Clone, Copy, Default)]
struct Places {
    from: Option<Located>,
    to: Option<Located>,
}

impl Block {
    /// The sequence, the token and the head of one of them.
    fn at(self, index: usize) -> [usize; 3] {
        if self.along_tokens {
            [self.batch, self.token + index, self.head]
        } else {
            [self.batch, self.token, self.head + index]
        }
    }
}

impl Stages<'_> {
    /// Runs all stages over all heads.
    pub(crate) fn run(&self, source: &Source<'_>, target: &mut Target<'_, '_>) {
        let Shape {
            batch,
            tokens,
            heads,
            head_dim,
        } = self.shape;
        if self.shape.is_empty() {
            return;
        }
        let over_row = self
            .norm
            .filter(|norm| norm.reach == NormReach::Row && norm.given.is_none());
        let together = (TILE / head_dim).min(HEADS);
        let along_tokens =
            over_row.is_none() && target.heads_major() && !matches!(source, Source::Cache(..));
        let mut buffers = Buffers {
            other: None,
            values: None,
        };
        let mut tile = Tile::empty();
        for batch in 0..batch {
            if along_tokens {
                for token in (0..tokens).step_by(together) {
                    let count = together.min(tokens - token);
                    for head in 0..heads {
                        let block = Block {
                            batch,
                            token,
                            head,
                            count,
                            along_tokens,
                            places: Places::default(),
                        };
                        self.block(source, target, block, None, &mut tile, &mut buffers);
                    }
                }
                continue;
            }
            for token in 0..tokens {
                let Some(places) = self.places(source, target, batch, token) else {
                    continue;
                };
                let mut block = Block {
                    batch,
                    token,
                    head: 0,
                    count: 1,
                    along_tokens,
                    places,
                };
                let row =
                    over_row.map(|norm| self.row_factors(source, target, norm, block, &mut tile));
                while block.head < heads {
                    block.count = together.min(heads - block.head);
                    self.block(source, target, block, row, &mut tile, &mut buffers);
                    block.head += block.count;
                }
            }
        }
    }

    /// Where a token lies in caches, or nothing if it is skipped.
    fn places(
        &self,
        source: &Source<'_>,
        target: &Target<'_, '_>,
        batch: usize,
        token: usize,
    ) -> Option<Places> {
        let index = batch * self.shape.tokens + token;
        let still = self.skips_still
            && self
                .rotation
                .as_ref()
                .is_some_and(|rotation| rotation.rows.is_still(batch, token));
        if still {
            return None;
        }
        let locate = |slots: &Slots<'_>, layout: &CacheLayout, len: usize| {
            slots.locate(index, self.shape.tokens, layout, len)
        };
        Some(Places {
            from: match source {
                Source::Cache(cache, slots) => {
                    Some(locate(slots, &cache.stored().layout, cache.len())?)
                }
                _ => None,
            },
            to: match target {
                Target::Cache(cache, slots) => {
                    Some(locate(slots, &cache.stored().layout, cache.len())?)
                }
                Target::Tensor(..) => None,
            },
        })
    }

    /// The heads of a block, through all stages.
    fn block(
        &self,
        source: &Source<'_>,
        target: &mut Target<'_, '_>,
        block: Block,
        row: Option<NormFactors>,
        tile: &mut Tile,
        buffers: &mut Buffers,
    ) {
        let len = block.count * self.shape.head_dim;
        self.read(source, target, block, &mut tile.0[..len]);
        self.beside_rotation(
            Place::BeforeRotation,
            block,
            row,
            &mut tile.0[..len],
            buffers,
        );
        if self.moves() {
            let other = buffers.other.get_or_insert_with(Tile::empty);
            self.rotate(block, &mut tile.0[..len], &mut other.0[..len]);
            core::mem::swap(tile, other);
        } else {
            self.rotate(block, &mut tile.0[..len], &mut []);
        }
        let tile = &mut tile.0[..len];
        let behind = |place| place == Place::AfterRotation;
        let stages_behind = self.norm.is_some_and(|norm| behind(norm.place))
            || self.scale.is_some_and(|scale| behind(scale.place));
        if self.rotation.is_some() && self.rounds && (stages_behind || target.is_coded()) {
            self.round(self.flowing(Place::BeforeRotation), tile);
        }
        self.beside_rotation(Place::AfterRotation, block, row, tile, buffers);
        target.write(self.proof, self.shape, block, tile);
    }

    /// What the values behind the norm of a place are made of: the element, or f32 behind one whose weights promote
    /// it.
    fn flowing(&self, place: Place) -> &'static Across {
        let passed = |norm: Norm<'_>| norm.place == Place::BeforeRotation || norm.place == place;
        match self.norm {
            Some(norm) if passed(norm) && self.promotes(norm) => &F32,
            _ => self.element,
        }
    }

    /// Whether the result of a norm is f32 because its weights, or its biases, are not of the element.
    fn promotes(&self, norm: Norm<'_>) -> bool {
        let other = |weights: Weights<'_>| !self.element.is(element_of(weights));
        norm.formula.result == NormResult::Promoted
            && (norm.weight.is_some_and(other) || norm.bias.is_some_and(other))
    }

    /// What the result of a norm is rounded to.
    fn result(&self, norm: Norm<'_>) -> &'static Across {
        match norm.formula.result {
            NormResult::Kept => &F32,
            NormResult::Promoted if self.promotes(norm) => &F32,
            NormResult::Promoted | NormResult::Rounded => self.element,
        }
    }

    fn beside_rotation(
        &self,
        place: Place,
        block: Block,
        row: Option<NormFactors>,
        tile: &mut [f32],
        buffers: &mut Buffers,
    ) {
        if let Some(norm) = self.norm.filter(|norm| norm.place == place) {
            let values = buffers.values.get_or_insert_with(Tile::empty);
            self.norm(norm, block, row, tile, values);
        }
        if let Some(scale) = self.scale.filter(|scale| scale.place == place) {
            let mut factors = [1.0; HEADS];
            for (index, factor) in factors.iter_mut().enumerate().take(block.count) {
                let [batch, token, head] = block.at(index);
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
        block: Block,
        row: Option<NormFactors>,
        tile: &mut [f32],
        values: &mut Tile,
    ) {
        let formula = norm.formula;
        let head_dim = self.shape.head_dim;
        let mut factors = [row.unwrap_or(NormFactors::NONE); HEADS];
        let factors = &mut factors[..block.count];
        if let Some(GivenSums { sums, width }) = norm.given {
            for (index, factors) in factors.iter_mut().enumerate() {
                let [batch, token, head] = block.at(index);
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
            let extents = [head_dim, head_dim, block.count];
            (F32_NORMED.roots)(
                self.proof,
                bytemuck::cast_slice(tile),
                extents,
                norm.eps,
                &mut roots,
            );
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
                let weights = self.per_channel(weights, formula.one_plus_weight, block, values);
                self.each(tile, Channelwise::NormTimes(factors, weights));
            }
            weights => {
                self.each(tile, Channelwise::Norm(factors));
                if formula.rounds_normed {
                    self.round(self.element, tile);
                }
                if let Some(weights) = weights {
                    let weights = self.per_channel(weights, formula.one_plus_weight, block, values);
                    self.each(tile, Channelwise::Times(weights));
                }
            }
        }
        if let Some(biases) = norm.bias {
            if formula.rounds_product && norm.weight.is_some() && !self.promotes(norm) {
                self.round(self.element, tile);
            }
            let biases = self.per_channel(biases, false, block, values);
            self.each(tile, Channelwise::Plus(biases));
        }
        self.round(result, tile);
    }

    fn each(&self, tile: &mut [f32], what: Channelwise<'_>) {
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
        block: Block,
        Tile(buffer): &'w mut Tile,
    ) -> PerChannel<'w> {
        let head_dim = self.shape.head_dim;
        let shared = weights.len() == head_dim;
        let start = if shared { 0 } else { block.head * head_dim };
        let (step, count) = if shared || block.along_tokens {
            (0, 1)
        } else {
            (head_dim, block.count)
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

    /// Weights from one on, as f32.
    fn widen(&self, weights: Weights<'_>, one_plus: bool, start: usize, values: &mut [f32]) {
        let len = values.len();
        match weights {
            Weights::F32(weights) => values.copy_from_slice(&weights[start..][..len]),
            Weights::F16(weights) => {
                (F16.to_f32)(
                    self.proof,
                    bytemuck::cast_slice(&weights[start..][..len]),
                    values,
                );
            }
            Weights::Bf16(weights) => {
                (BF16.to_f32)(
                    self.proof,
                    bytemuck::cast_slice(&weights[start..][..len]),
                    values,
                );
            }
        }
        if one_plus {
            for value in values {
                *value += 1.0;
            }
        }
    }

    /// Rounds values to an element, and takes them back.
    fn round(&self, element: &'static Across, values: &mut [f32]) {
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
    fn moves(&self) -> bool {
        self.rotation
            .as_ref()
            .is_some_and(|rotation| rotation.input != rotation.output)
    }

    /// Rotates the heads of a block, in a tile; or into the other one, where the pairing changes.
    fn rotate(&self, block: Block, tile: &mut [f32], other: &mut [f32]) {
        let Some(rotation) = &self.rotation else {
            return;
        };
        let Rotation {
            rows,
            input,
            output,
            ..
        } = rotation;
        let head_dim = self.shape.head_dim;
        let mut starts = [0; HEADS];
        let starts = &mut starts[..block.count];
        let starts = if block.along_tokens {
            let within = block.head * rows.head_stride().unwrap_or(0);
            for (index, start) in starts.iter_mut().enumerate() {
                *start = rows.start(block.batch, block.token + index) + within;
            }
            Starts::Each(starts)
        } else {
            rows.starts(block.at(0), starts)
        };
        let (source, target) = if self.moves() {
            // What is behind the pairs stays.
            other.copy_from_slice(tile);
            (Some(bytemuck::cast_slice(&*tile)), other)
        } else {
            (None, tile)
        };
        let heads = [block.count, head_dim];
        let steps = [head_dim; 2];
        let target = bytemuck::cast_slice_mut(target);
        let line = &mut rotation.line(source, target, heads, steps, starts, 0);
        rotate_f32(*input, *output)(self.proof, line);
    }

    /// Reads the heads of a block.
    fn read(&self, source: &Source<'_>, target: &Target<'_, '_>, block: Block, values: &mut [f32]) {
        let Places { from, to } = block.places;
        match (source, target) {
            (Source::Tensor(tensor, element), _) => {
                read_tensor(self.proof, tensor, element, block, values);
            }
            (Source::Target, Target::Tensor(tensor, element)) => {
                read_tensor(self.proof, &tensor.as_bytes(), element, block, values);
            }
            (Source::Cache(cache, _), _) => {
                if let Some(at) = from {
                    cache.read(self.proof, at, block.head, values);
                }
            }
            (Source::Target, Target::Cache(cache, _)) => {
                if let Some(at) = to {
                    cache.as_cache().read(self.proof, at, block.head, values);
                }
            }
        }
    }
}

/// What values of 16 bits are on the way through `round`, a part at a time.
const WORDS: usize = 1024;

#[repr(align(64))]
struct Words([u16; WORDS]);

fn element_of(weights: Weights<'_>) -> &'static Across {
    match weights {
        Weights::F32(_) => &F32,
        Weights::F16(_) => &F16,
        Weights::Bf16(_) => &BF16,
    }
}

/// Elements from one head of a block to the next.
fn step(layout: &crate::Layout, block: Block) -> usize {
    let strides = layout.strides();
    if block.along_tokens {
        strides.token
    } else {
        strides.head
    }
}

fn read_tensor(
    proof: Proof,
    tensor: &Bytes<'_>,
    element: &'static Across,
    block: Block,
    values: &mut [f32],
) {
    let layout = tensor.layout;
    let head_dim = layout.shape().head_dim;
    // Heads beside each other are one call.
    let together = if step(layout, block) == head_dim {
        block.count
    } else {
        1
    };
    for (index, values) in values.chunks_mut(together * head_dim).enumerate() {
        let [batch, token, head] = block.at(index * together);
        let start = layout.head(batch, token, head) * element.size;
        let bytes = &tensor.bytes[start..][..values.len() * element.size];
        (element.to_f32)(proof, bytes, values);
    }
}

impl Target<'_, '_> {
    /// Whether tokens of one head are nearer to each other than heads of one token.
    fn heads_major(&self) -> bool {
        match self {
            Target::Tensor(tensor, _) => !tensor.layout.is_tokens_major(),
            Target::Cache(..) => false,
        }
    }

    /// Whether it keeps codes, and not elements.
    fn is_coded(&self) -> bool {
        match self {
            Target::Tensor(..) => false,
            Target::Cache(cache, _) => cache.stored().is_coded(),
        }
    }

    /// Writes the heads of a block.
    fn write(&mut self, proof: Proof, shape: Shape, block: Block, values: &[f32]) {
        match self {
            Target::Tensor(tensor, element) => {
                let (layout, size) = (tensor.layout, element.size);
                let together = if step(layout, block) == shape.head_dim {
                    block.count
                } else {
                    1
                };
                for (index, values) in values.chunks(together * shape.head_dim).enumerate() {
                    let [batch, token, head] = block.at(index * together);
                    let start = layout.head(batch, token, head) * size;
                    (element.from_f32)(
                        proof,
                        values,
                        &mut tensor.bytes[start..][..values.len() * size],
                    );
                }
            }
            Target::Cache(cache, _) => {
                let Some(at) = block.places.to else {
                    return;
                };
                match cache.stored().format {
                    Format::Element(element, _) => {
                        cache.write_elements(proof, element, at, block.head, values);
                    }
                    Format::Codes(codes) => {
                        let heads = [block.head, block.count];
                        cache.write_codes(proof, codes, at, heads, Values::F32(values));
                    }
                }
            }
        }
    }
}
