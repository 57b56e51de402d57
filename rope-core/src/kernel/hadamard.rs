//! A Hadamard transform of contiguous blocks of f32.
//!
//! The result is a fixed tree of roundings: strides ascend. Values of different blocks, or of the same stride, never
//! meet. Eight vectors therefore complete all strides within them in registers; the longer strides are passes over
//! memory, two strides at a time. (AVX2, 128 channels: two halves of eight registers take 0.6 of the time of 16, which
//! spill.)

use crate::simd::{InstructionSet, Kernel, Simd};

/// Vectors in registers.
const GROUP: usize = 8;

/// The blocks of a transform.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Channels per block.
    pub(crate) len: usize,
    /// The factor, `1 / sqrt(len)`.
    pub(crate) scale: f32,
    /// True if the factor multiplies before the butterflies, not after them.
    pub(crate) multiplies_first: bool,
}

/// A kernel that transforms all blocks of some heads, whose channels are a multiple of a block.
pub(crate) struct HadamardKernel<'a> {
    pub(crate) heads: &'a mut [f32],
    pub(crate) blocks: Blocks,
}

impl Kernel for HadamardKernel<'_> {
    #[inline(always)]
    fn run<S: InstructionSet>(self, s: S) {
        let HadamardKernel { heads, blocks } = self;
        let block = blocks.len;
        if const { S::LANES == 1 } {
            return plain(heads, blocks);
        }
        let group = const { GROUP * S::LANES };
        let (whole, rest) = heads.split_at_mut(heads.len() - heads.len() % block.max(group));
        let scale = s.splat(blocks.scale);
        let first = blocks.multiplies_first;
        let last = !first && block <= group;
        for part in whole.chunks_exact_mut(block.max(group)) {
            let vectors = S::chunks_mut(part);
            for group in vectors.as_chunks_mut::<GROUP>().0 {
                in_registers(s, group, block, [first, last], scale);
            }
            if block > group {
                in_memory(s, vectors, !first, scale);
            }
        }
        if !rest.is_empty() {
            let heads = rest;
            s.narrower().enter(HadamardKernel { heads, blocks });
        }
    }
}

/// Transforms the strides of a block within eight vectors.
#[inline(always)]
fn in_registers<S: Simd>(
    s: S,
    vectors: &mut [S::Chunk<f32>; GROUP],
    block: usize,
    [first, last]: [bool; 2],
    scale: S::F32,
) {
    let mut v = [scale; GROUP];
    for (v, vector) in v.iter_mut().zip(&*vectors) {
        *v = s.load_f32(*vector);
    }
    if first {
        multiply(s, &mut v, scale);
    }
    in_lanes::<S, 1>(s, &mut v);
    if const { S::LANES > 2 } && block > 2 {
        in_lanes::<S, 2>(s, &mut v);
    }
    if const { S::LANES > 4 } && block > 4 {
        in_lanes::<S, 4>(s, &mut v);
    }
    if const { S::LANES > 8 } && block > 8 {
        in_lanes::<S, 8>(s, &mut v);
    }
    if block > S::LANES {
        between::<S, 1>(s, &mut v);
    }
    if block > const { 2 * S::LANES } {
        between::<S, 2>(s, &mut v);
    }
    if block > const { 4 * S::LANES } {
        between::<S, 4>(s, &mut v);
    }
    if last {
        multiply(s, &mut v, scale);
    }
    for (vector, v) in vectors.iter_mut().zip(v) {
        *vector = s.store_f32(v);
    }
}

/// Transforms the longer strides of a block.
#[inline(always)]
fn in_memory<S: Simd>(s: S, block: &mut [S::Chunk<f32>], last: bool, scale: S::F32) {
    let mut stride = GROUP;
    while 4 * stride <= block.len() {
        let scales = last && 4 * stride == block.len();
        for part in block.chunks_exact_mut(4 * stride) {
            let (low, high) = part.split_at_mut(2 * stride);
            let ((a, b), (c, d)) = (low.split_at_mut(stride), high.split_at_mut(stride));
            for ((a, b), (c, d)) in a.iter_mut().zip(b).zip(c.iter_mut().zip(d)) {
                let [w, x] = butterfly(s, s.load_f32(*a), s.load_f32(*b));
                let [y, z] = butterfly(s, s.load_f32(*c), s.load_f32(*d));
                let ([w, y], [x, z]) = (butterfly(s, w, y), butterfly(s, x, z));
                *a = store(s, w, scales, scale);
                *b = store(s, x, scales, scale);
                *c = store(s, y, scales, scale);
                *d = store(s, z, scales, scale);
            }
        }
        stride *= 4;
    }
    if stride < block.len() {
        let (low, high) = block.split_at_mut(stride);
        for (a, b) in low.iter_mut().zip(high) {
            let [x, y] = butterfly(s, s.load_f32(*a), s.load_f32(*b));
            *a = store(s, x, last, scale);
            *b = store(s, y, last, scale);
        }
    }
}

#[inline(always)]
fn store<S: Simd>(s: S, x: S::F32, scales: bool, scale: S::F32) -> S::Chunk<f32> {
    s.store_f32(if scales { s.mul(x, scale) } else { x })
}

#[inline(always)]
fn butterfly<S: Simd>(s: S, a: S::F32, b: S::F32) -> [S::F32; 2] {
    [s.add(a, b), s.sub(a, b)]
}

/// Transforms a stride within each vector.
#[inline(always)]
fn in_lanes<S: Simd, const STRIDE: usize>(s: S, v: &mut [S::F32; GROUP]) {
    for v in v {
        *v = s.butterfly::<STRIDE>(*v);
    }
}

/// Transforms a stride of whole vectors.
#[inline(always)]
fn between<S: Simd, const STRIDE: usize>(s: S, v: &mut [S::F32; GROUP]) {
    for i in 0..GROUP {
        if i & STRIDE == 0 {
            [v[i], v[i + STRIDE]] = butterfly(s, v[i], v[i + STRIDE]);
        }
    }
}

#[inline(always)]
fn multiply<S: Simd>(s: S, v: &mut [S::F32; GROUP], scale: S::F32) {
    for v in v {
        *v = s.mul(*v, scale);
    }
}

/// The definition: the loop without vectors.
#[inline(always)]
fn plain(heads: &mut [f32], blocks: Blocks) {
    let (block, scale) = (blocks.len, blocks.scale);
    let first = blocks.multiplies_first;
    for block in heads.chunks_exact_mut(block) {
        if first {
            for x in &mut *block {
                *x *= scale;
            }
        }
        let mut stride = 1;
        while stride < block.len() {
            for part in block.chunks_exact_mut(2 * stride) {
                let (low, high) = part.split_at_mut(stride);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            stride *= 2;
        }
        if !first {
            for x in block {
                *x *= scale;
            }
        }
    }
}
