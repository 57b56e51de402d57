//! The places of the two members of a pair in a head: a pairing as a type.

use bytemuck::Pod;

use crate::simd::Simd;

/// Two vectors in storage format.
pub(crate) type VectorPair<S, T> = [<S as Simd>::Chunk<T>; 2];

/// A [`Pairing`](crate::Pairing) that a kernel is compiled for.
///
/// A group is two vectors of pairs, so two doubles of elements. A head is split into groups at once: if their number is
/// a constant, their loop has constant bounds and no checks.
pub(crate) trait PairLayout {
    /// True if first and second members alternate in memory. Otherwise the first double of a group has the first
    /// members, and the second double the second members.
    const ALTERNATING: bool;

    type Groups<'a, D: 'a>: Copy;
    type GroupsMut<'a, D: 'a>;

    /// Returns true if a head of `head_dim` channels and `pairs` pairs has `len` pairs from pair `at` on. Called once
    /// before the loop over heads, so that the compiler need not check each head.
    fn has(head_dim: usize, pairs: usize, at: usize, len: usize) -> bool;

    /// Returns `len` groups, from pair `at` of a head with `pairs` pairs.
    fn groups<S: Simd, T: Pod>(
        head: &[T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::Groups<'_, VectorPair<S, T>>;

    /// Returns the groups for writing.
    fn groups_mut<S: Simd, T: Pod>(
        head: &mut [T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::GroupsMut<'_, VectorPair<S, T>>;

    /// Returns the groups for reading.
    fn reread<'r, D>(groups: &'r Self::GroupsMut<'_, D>) -> Self::Groups<'r, D>;

    fn get<D: Copy>(groups: Self::Groups<'_, D>, i: usize) -> [D; 2];

    fn set<D>(groups: &mut Self::GroupsMut<'_, D>, i: usize, group: [D; 2]);

    /// Loads half a group: one vector of pairs, as two vectors.
    fn get_half<V: Copy>(groups: Self::Groups<'_, [V; 2]>, i: usize, half: usize) -> [V; 2];

    fn set_half<V>(groups: &mut Self::GroupsMut<'_, [V; 2]>, i: usize, half: usize, xy: [V; 2]);

    /// Returns the channels of the two members of a pair.
    fn members(pairs: usize, pair: usize) -> [usize; 2];

    /// Replaces the pairs of a head, from a given one to the last, by a function of them, cos and sin.
    fn replace<T: Pod>(
        head: &mut [T],
        pairs: usize,
        from: usize,
        row: [&[f32]; 2],
        rotate: impl Fn([T; 2], f32, f32) -> [T; 2],
    );
}

/// The pairs `(i, i + pairs)`.
pub(crate) struct Half;

impl PairLayout for Half {
    const ALTERNATING: bool = false;

    type Groups<'a, D: 'a> = [&'a [D]; 2];
    type GroupsMut<'a, D: 'a> = [&'a mut [D]; 2];

    #[inline(always)]
    fn has(head_dim: usize, pairs: usize, at: usize, len: usize) -> bool {
        let inside = |members: usize| at <= members && len <= members - at;
        pairs <= head_dim && inside(pairs) && inside(head_dim - pairs)
    }

    #[inline(always)]
    fn groups<S: Simd, T: Pod>(
        head: &[T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::Groups<'_, VectorPair<S, T>> {
        let (first, second) = head.split_at(pairs);
        let len = len * 2 * S::LANES;
        [
            S::chunks(&first[at..][..len]).as_chunks().0,
            S::chunks(&second[at..][..len]).as_chunks().0,
        ]
    }

    #[inline(always)]
    fn groups_mut<S: Simd, T: Pod>(
        head: &mut [T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::GroupsMut<'_, VectorPair<S, T>> {
        let (first, second) = head.split_at_mut(pairs);
        let len = len * 2 * S::LANES;
        [
            S::chunks_mut(&mut first[at..][..len]).as_chunks_mut().0,
            S::chunks_mut(&mut second[at..][..len]).as_chunks_mut().0,
        ]
    }

    #[inline(always)]
    fn reread<'r, D>([first, second]: &'r Self::GroupsMut<'_, D>) -> Self::Groups<'r, D> {
        [first, second]
    }

    #[inline(always)]
    fn get<D: Copy>([first, second]: Self::Groups<'_, D>, i: usize) -> [D; 2] {
        [first[i], second[i]]
    }

    #[inline(always)]
    fn set<D>([first, second]: &mut Self::GroupsMut<'_, D>, i: usize, [x, y]: [D; 2]) {
        first[i] = x;
        second[i] = y;
    }

    #[inline(always)]
    fn get_half<V: Copy>(
        [first, second]: Self::Groups<'_, [V; 2]>,
        i: usize,
        half: usize,
    ) -> [V; 2] {
        [first[i][half], second[i][half]]
    }

    #[inline(always)]
    fn set_half<V>(
        [first, second]: &mut Self::GroupsMut<'_, [V; 2]>,
        i: usize,
        half: usize,
        [x, y]: [V; 2],
    ) {
        first[i][half] = x;
        second[i][half] = y;
    }

    #[inline(always)]
    fn members(pairs: usize, pair: usize) -> [usize; 2] {
        [pair, pair + pairs]
    }

    /// Not inlined: within the loop over heads the compiler would compare the members of all heads for overlap, find
    /// one, and not vectorize.
    #[inline(never)]
    fn replace<T: Pod>(
        head: &mut [T],
        pairs: usize,
        from: usize,
        [cos, sin]: [&[f32]; 2],
        rotate: impl Fn([T; 2], f32, f32) -> [T; 2],
    ) {
        let (first, second) = head.split_at_mut(pairs);
        let (len, first) = (cos.len(), &mut first[from..]);
        let (first, second) = (&mut first[..len], &mut second[from..][..len]);
        let sin = &sin[..len];
        for i in 0..len {
            [first[i], second[i]] = rotate([first[i], second[i]], cos[i], sin[i]);
        }
    }
}

/// The pairs `(2i, 2i + 1)`.
pub(crate) struct Interleaved;

impl PairLayout for Interleaved {
    const ALTERNATING: bool = true;

    type Groups<'a, D: 'a> = &'a [[D; 2]];
    type GroupsMut<'a, D: 'a> = &'a mut [[D; 2]];

    #[inline(always)]
    fn has(head_dim: usize, _: usize, at: usize, len: usize) -> bool {
        let pairs = head_dim / 2;
        at <= pairs && len <= pairs - at
    }

    #[inline(always)]
    fn groups<S: Simd, T: Pod>(
        head: &[T],
        _: usize,
        at: usize,
        len: usize,
    ) -> Self::Groups<'_, VectorPair<S, T>> {
        let doubles = S::chunks(&head[2 * at..][..len * 4 * S::LANES]);
        doubles.as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn groups_mut<S: Simd, T: Pod>(
        head: &mut [T],
        _: usize,
        at: usize,
        len: usize,
    ) -> Self::GroupsMut<'_, VectorPair<S, T>> {
        let doubles = S::chunks_mut(&mut head[2 * at..][..len * 4 * S::LANES]);
        doubles.as_chunks_mut().0.as_chunks_mut().0
    }

    #[inline(always)]
    fn reread<'r, D>(groups: &'r Self::GroupsMut<'_, D>) -> Self::Groups<'r, D> {
        groups
    }

    #[inline(always)]
    fn get<D: Copy>(groups: Self::Groups<'_, D>, i: usize) -> [D; 2] {
        groups[i]
    }

    #[inline(always)]
    fn set<D>(groups: &mut Self::GroupsMut<'_, D>, i: usize, group: [D; 2]) {
        groups[i] = group;
    }

    #[inline(always)]
    fn get_half<V: Copy>(groups: Self::Groups<'_, [V; 2]>, i: usize, half: usize) -> [V; 2] {
        groups[i][half]
    }

    #[inline(always)]
    fn set_half<V>(groups: &mut Self::GroupsMut<'_, [V; 2]>, i: usize, half: usize, xy: [V; 2]) {
        groups[i][half] = xy;
    }

    #[inline(always)]
    fn members(_: usize, pair: usize) -> [usize; 2] {
        [2 * pair, 2 * pair + 1]
    }

    #[inline(always)]
    fn replace<T: Pod>(
        head: &mut [T],
        pairs: usize,
        from: usize,
        [cos, sin]: [&[f32]; 2],
        rotate: impl Fn([T; 2], f32, f32) -> [T; 2],
    ) {
        let pairs = head[2 * from..2 * pairs].as_chunks_mut().0;
        for (xy, (cos, sin)) in pairs.iter_mut().zip(cos.iter().zip(sin)) {
            *xy = rotate(*xy, *cos, *sin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `has` is true exactly if both members of every pair are in the head and, in a split head, in their halves.
    #[test]
    fn pairs_of_a_head() {
        for case in 0..10_usize.pow(4) {
            let [head_dim, pairs, at, len] = [1, 10, 100, 1000].map(|unit| case / unit % 10);
            let len = len + 1;
            let inside = |members: fn(usize, usize) -> [usize; 2]| {
                (at..at + len).all(|pair| members(pairs, pair)[1] < head_dim)
            };
            let half = at + len <= pairs && inside(Half::members);
            let found = Half::has(head_dim, pairs, at, len);
            assert_eq!(found, half, "{at} + {len} of {pairs} in {head_dim}");
            let found = Interleaved::has(head_dim, pairs, at, len);
            assert_eq!(
                found,
                inside(Interleaved::members),
                "{at} + {len} in {head_dim}"
            );
        }
        assert!(!Half::has(8, 4, usize::MAX, 2) && !Interleaved::has(8, 4, usize::MAX, 2));
    }
}
