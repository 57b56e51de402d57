//! Full-width rows: a pair `(i, j)` has one cos and one sin per channel.
//!
//! ```text
//! x' = x cos[i] - y sin[i]        y' = y cos[j] + x sin[j]
//! ```
//!
//! Runs on f32, in place: in a tensor, or in the tile of other elements. A row is loaded again for each head, four
//! vectors for every two of values: with AVX2 on Zen, 1.8 to 2.0 times the time of ordinary rows in the first-level
//! cache, and 1.1 beyond the caches. Keeping rows in registers would require a second copy of the loop over a line.

use bytemuck::cast_slice_mut;

use super::line::{Line, Starts};
use crate::Pairing;
use crate::simd::{InstructionSet, MemoryKernel, Simd};

/// Heads of f32, and their full-width rows.
pub(crate) struct FullLine<'l> {
    pub(crate) line: &'l Line<'l>,
    pub(crate) pairing: Pairing,
}

impl MemoryKernel for FullLine<'_> {
    #[inline(always)]
    fn run_in<S: InstructionSet>(self, s: S, memory: &mut [u8], from: usize) {
        let FullLine { line, pairing } = self;
        let rows = *line.rows;
        let pairs = rows.pairs;
        let end = pairs - (pairs - from) % S::LANES;
        // Among the directions, only the transpose has factors.
        let transposed = rows.factors.is_some();
        let values: &mut [f32] = cast_slice_mut(memory);
        for index in 0..line.heads {
            let start = match rows.starts {
                Starts::Shared(start) => start,
                Starts::Each(starts) => starts[index],
            };
            let (cos, sin) = (
                &rows.cos[start..][..2 * pairs],
                &rows.sin[start..][..2 * pairs],
            );
            let head = &mut values[index * line.step..][..2 * pairs];
            match pairing {
                Pairing::Half => {
                    let (x, y) = head.split_at_mut(pairs);
                    let (x, y) = (
                        S::chunks_mut(&mut x[from..end]),
                        S::chunks_mut(&mut y[from..end]),
                    );
                    let ((c0, c1), (s0, s1)) = (cos.split_at(pairs), sin.split_at(pairs));
                    let (c0, c1) = (S::chunks(&c0[from..end]), S::chunks(&c1[from..end]));
                    let (s0, s1) = (S::chunks(&s0[from..end]), S::chunks(&s1[from..end]));
                    let groups = x.len();
                    let (y, c0, c1) = (&mut y[..groups], &c0[..groups], &c1[..groups]);
                    let (s0, s1) = (&s0[..groups], &s1[..groups]);
                    for i in 0..groups {
                        let xy = [s.load_f32(x[i]), s.load_f32(y[i])];
                        let cos = [s.load_f32(c0[i]), s.load_f32(c1[i])];
                        let sin = [s.load_f32(s0[i]), s.load_f32(s1[i])];
                        let [a, b] = rotate(s, xy, cos, sin, transposed);
                        x[i] = s.store_f32(a);
                        y[i] = s.store_f32(b);
                    }
                }
                Pairing::Interleaved => {
                    let range = 2 * from..2 * end;
                    let xy = S::chunks_mut(&mut head[range.clone()]);
                    let xy = xy.as_chunks_mut::<2>().0;
                    let cos = S::chunks(&cos[range.clone()]).as_chunks::<2>().0;
                    let sin = S::chunks(&sin[range]).as_chunks::<2>().0;
                    let groups = xy.len();
                    let (cos, sin) = (&cos[..groups], &sin[..groups]);
                    for i in 0..groups {
                        let rotated = rotate(
                            s,
                            unzip(s, xy[i]),
                            unzip(s, cos[i]),
                            unzip(s, sin[i]),
                            transposed,
                        );
                        let [a, b] = s.zip(rotated);
                        xy[i] = [s.store_f32(a), s.store_f32(b)];
                    }
                }
            }
        }
        if end < pairs {
            s.narrower().enter_in(memory, end, self);
        }
    }
}

#[inline(always)]
fn unzip<S: Simd>(s: S, [a, b]: [S::Chunk<f32>; 2]) -> [S::F32; 2] {
    s.unzip([s.load_f32(a), s.load_f32(b)])
}

/// Computes `(x c0 - y s0, y c1 + x s1)`, or its transpose, `(x c0 + y s1, y c1 - x s0)`.
#[inline(always)]
fn rotate<S: Simd>(
    s: S,
    [x, y]: [S::F32; 2],
    [c0, c1]: [S::F32; 2],
    [s0, s1]: [S::F32; 2],
    transposed: bool,
) -> [S::F32; 2] {
    if transposed {
        [
            s.add(s.mul(x, c0), s.mul(y, s1)),
            s.sub(s.mul(y, c1), s.mul(x, s0)),
        ]
    } else {
        [
            s.sub(s.mul(x, c0), s.mul(y, s0)),
            s.add(s.mul(y, c1), s.mul(x, s1)),
        ]
    }
}
