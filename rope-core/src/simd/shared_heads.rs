//! The arguments of a line backend's kernels: heads, checked once and then passed as addresses.

#![cfg_attr(
    not(any(target_arch = "riscv64", target_arch = "aarch64")),
    allow(dead_code, reason = "this target has no such backend")
)]

use core::marker::PhantomData;

use super::element::{Convert, FloatKind};
use crate::Pairing;

/// The elements of a head, and where the members of a pair lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadFormat {
    pub(crate) kind: FloatKind,
    pub(crate) pairing: Pairing,
}

impl HeadFormat {
    #[inline(always)]
    pub(crate) fn of<E: Convert>(alternating: bool) -> Self {
        HeadFormat {
            kind: E::KIND,
            pairing: if alternating {
                Pairing::Interleaved
            } else {
                Pairing::Half
            },
        }
    }

    /// Bytes of an element.
    #[inline(always)]
    fn size(self) -> usize {
        match self.kind {
            FloatKind::F32 => 4,
            FloatKind::F16 | FloatKind::Bf16 => 2,
        }
    }
}

/// Heads at equal distances that share a row. Memory begins with the first head; steps are elements.
pub(crate) struct SharedHeads<'a> {
    /// The heads to read, and the step from one to the next; `None` in place.
    pub(crate) source: Option<(&'a [u8], usize)>,
    /// The heads to write.
    pub(crate) target: &'a mut [u8],
    pub(crate) step: usize,
    pub(crate) heads: usize,
    /// The row.
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    /// The factor of cos and sin.
    pub(crate) factors: [f32; 2],
}

/// The heads of a kernel in assembly, whose rotated channels all lie in borrowed memory. Steps are bytes.
pub(crate) struct HeadAddresses<'a> {
    pub(crate) source: *const u8,
    pub(crate) source_step: usize,
    pub(crate) target: *mut u8,
    pub(crate) target_step: usize,
    /// At least 1.
    pub(crate) heads: usize,
    pub(crate) cos: *const f32,
    pub(crate) sin: *const f32,
    /// At least 1.
    pub(crate) pairs: usize,
    pub(crate) factors: [f32; 2],
    /// True if both ends are the same memory.
    pub(crate) in_place: bool,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> HeadAddresses<'a> {
    /// Checks that the pairs of every head lie in their memory. Returns `None` if there are no pairs or no heads.
    #[inline(always)]
    pub(crate) fn new([from, to]: [HeadFormat; 2], heads: SharedHeads<'a>) -> Option<Self> {
        let SharedHeads {
            source,
            target,
            step,
            heads,
            cos,
            sin,
            factors,
        } = heads;
        let pairs = cos.len();
        assert!(sin.len() == pairs);
        let last = heads.checked_sub(1)?;
        if pairs == 0 {
            return None;
        }
        // Only the rotated pairs count. The step of a single head may be any number.
        let is_inside = |step: usize, format: HeadFormat, len: usize| {
            let start = if last == 0 {
                Some(0)
            } else {
                last.checked_mul(step)
            };
            let end = start.and_then(|start| start.checked_add(2 * pairs));
            let bytes = end.and_then(|end| end.checked_mul(format.size()));
            bytes.is_some_and(|bytes| bytes <= len)
        };
        assert!(is_inside(step, to, target.len()), "a head is outside");
        let target_step = step.wrapping_mul(to.size());
        let (read, source_step) = match source {
            Some((memory, step)) => {
                assert!(is_inside(step, from, memory.len()), "a head is outside");
                (memory.as_ptr(), step.wrapping_mul(from.size()))
            }
            None => {
                assert!(from == to);
                (target.as_ptr(), target_step)
            }
        };
        Some(HeadAddresses {
            source: read,
            source_step,
            target: target.as_mut_ptr(),
            target_step,
            heads,
            cos: cos.as_ptr(),
            sin: sin.as_ptr(),
            pairs,
            factors,
            in_place: source.is_none(),
            memory: PhantomData,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::vec;

    use super::{FloatKind, HeadAddresses, HeadFormat, Pairing, SharedHeads};

    const F32: HeadFormat = HeadFormat {
        kind: FloatKind::F32,
        pairing: Pairing::Half,
    };
    const BF16: HeadFormat = HeadFormat {
        kind: FloatKind::Bf16,
        pairing: Pairing::Interleaved,
    };

    /// Bytes to the end of a source, if there is one, and of a target; steps; heads.
    type Case = ([Option<usize>; 2], [usize; 2], usize);

    /// Returns true if heads of three pairs lie inside a memory of this length.
    fn fits((lens, steps, heads): Case) -> bool {
        let memory = lens.map(|len| vec![0; len.unwrap_or(0)]);
        let inside = catch_unwind(|| {
            let (mut target, in_place) = (memory[1].clone(), lens[0].is_none());
            let heads = SharedHeads {
                source: (!in_place).then_some((&memory[0], steps[0])),
                target: &mut target,
                step: steps[1],
                heads,
                cos: &[0.0; 3],
                sin: &[0.0; 3],
                factors: [1.0; 2],
            };
            let formats = if in_place { [F32, F32] } else { [F32, BF16] };
            assert!(HeadAddresses::new(formats, heads).is_some());
        });
        inside.is_ok()
    }

    #[test]
    fn heads_are_inside() {
        let last = [
            ([None, Some(24)], [0, usize::MAX], 1),
            ([None, Some((2 * 7 + 6) * 4)], [0, 7], 3),
            ([Some((8 + 6) * 4), Some((9 + 6) * 2)], [8, 9], 2),
        ];
        for (lens, steps, heads) in last {
            assert!(fits((lens, steps, heads)));
            let shorter = |end: usize| {
                let mut lens = lens;
                lens[end] = lens[end].map(|len| len - 1);
                lens
            };
            assert!(!fits((shorter(1), steps, heads)));
            assert_eq!(fits((shorter(0), steps, heads)), lens[0].is_none());
        }
        assert!(!fits(([None, Some(1000)], [0, usize::MAX], 2)));
        assert!(!fits(([None, Some(1000)], [0, usize::MAX / 2 - 1], 3)));
    }

    #[test]
    fn nothing_to_rotate() {
        for (heads, row) in [(0, &[0.0; 3][..]), (3, &[])] {
            let heads = SharedHeads {
                source: None,
                target: &mut [],
                step: 1,
                heads,
                cos: row,
                sin: row,
                factors: [1.0; 2],
            };
            assert!(HeadAddresses::new([BF16, BF16], heads).is_none());
        }
    }
}
