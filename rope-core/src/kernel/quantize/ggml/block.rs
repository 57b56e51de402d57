//! The block formats of ggml as a trait, and their common parts.

use crate::kernel::values::VectorPairs;
use crate::simd::SimdQuant;

/// Values per block.
pub(super) const VALUES: usize = 32;

/// A block format. Blocks are slices of [`BlockCodes::BYTES`].
pub(super) trait BlockCodes {
    /// Bytes of a block.
    const BYTES: usize;

    /// Encodes a block by the definition.
    fn define(x: &[f32; VALUES], block: &mut [u8]);

    /// Encodes some blocks by vectors.
    fn encode<S: SimdQuant>(s: S, source: VectorPairs<'_, S>, blocks: &mut [u8]);

    /// Decodes a block.
    fn decode(block: &[u8], values: &mut [f32; VALUES]);
}

/// Loads the values of a block, from a pair of vectors on.
#[inline(always)]
pub(super) fn values_at<S: SimdQuant>(
    s: S,
    source: VectorPairs<'_, S>,
    at: usize,
) -> [f32; VALUES] {
    let mut x = [0.0; VALUES];
    let chunks = S::chunks_mut(&mut x).as_chunks_mut::<2>().0;
    for (pair, to) in chunks.iter_mut().enumerate() {
        let [a, b] = source.load(s, at + pair);
        *to = [s.store_f32(a), s.store_f32(b)];
    }
    x
}

/// Returns the first value of the largest magnitude, ignoring NaNs; 0 if there is none. By integers, as
/// `scalar::max_magnitude`.
#[inline(always)]
pub(super) fn first_largest(x: &[f32; VALUES]) -> f32 {
    let (mut largest, mut value) = (0, 0.0);
    for &x in x {
        let magnitude = x.to_bits() & 0x7fff_ffff;
        if magnitude > largest && magnitude <= f32::INFINITY.to_bits() {
            (largest, value) = (magnitude, x);
        }
    }
    value
}

/// Packs codes, of whose lowest bytes only `BITS` bits may be set: the fifth bits, if there are any, as one number,
/// then the halves of bytes.
#[inline(always)]
pub(super) fn pack<const BITS: u32, S: SimdQuant>(s: S, codes: &[i32; VALUES], bytes: &mut [u8]) {
    let (low, high) = codes.split_at(VALUES / 2);
    let fifths = const { BITS as usize - 4 } * 4;
    for ((byte, low), high) in bytes[fifths..].iter_mut().zip(low).zip(high) {
        *byte = (low & 15 | high << 4) as u8;
    }
    if BITS == 5 {
        bytes[..4].copy_from_slice(&s.fifth_bits(codes).to_le_bytes());
    }
}

/// Unpacks codes: the inverse of `pack`.
#[inline(always)]
pub(super) fn unpack<const BITS: u32>(bytes: &[u8]) -> [u8; VALUES] {
    let fifths = const { BITS as usize - 4 } * 4;
    let mut codes = [0; VALUES];
    let (low, high) = codes.split_at_mut(VALUES / 2);
    for ((byte, low), high) in bytes[fifths..].iter().zip(low).zip(high) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    if BITS == 5 {
        for (codes, fifths) in codes.as_chunks_mut::<8>().0.iter_mut().zip(&bytes[..4]) {
            for (bit, code) in codes.iter_mut().enumerate() {
                *code |= (fifths >> bit & 1) << 4;
            }
        }
    }
    codes
}
