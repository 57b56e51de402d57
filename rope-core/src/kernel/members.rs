//! Where the two members of a pair lie in a head: a pairing as a type.

use crate::element::Element;
use crate::simd::Simd;

/// A [`Pairing`](crate::Pairing) that the kernel is compiled for.
///
/// A run is some whole vectors of pairs of one head. It is cut out once, so that its loop has constant bounds where
/// the number of vectors is a constant, and no checks.
pub(crate) trait Members {
    /// Whether first and second members alternate in memory.
    const ALTERNATING: bool;

    type Run<'a, C: Copy + 'a>: Copy;
    type RunMut<'a, C: Copy + 'a>;

    /// `len` vectors of pairs, from pair `at` of a head with `pairs` pairs.
    fn run<S: Simd, T: Copy>(
        head: &[T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::Run<'_, S::Chunk<T>>;

    /// The same, to write.
    fn run_mut<S: Simd, T: Copy>(
        head: &mut [T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::RunMut<'_, S::Chunk<T>>;

    /// The run itself as the place to read from.
    fn reread<'r, C: Copy>(run: &'r Self::RunMut<'_, C>) -> Self::Run<'r, C>;

    /// The two vectors of elements that hold vector `i`, as they lie.
    fn load_as_is<S: Simd, E: Element>(
        s: S,
        run: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32);

    /// Undoes `load_as_is`.
    fn store_as_is<S: Simd, E: Element>(
        s: S,
        run: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        vectors: (S::F32, S::F32),
    );

    /// First and second members of vector `i`.
    fn load<S: Simd, E: Element>(
        s: S,
        run: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32);

    /// Writes vector `i`.
    fn store<S: Simd, E: Element>(
        s: S,
        run: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        pair: (S::F32, S::F32),
    );
}

/// Whether loading such pairs of such elements leaves lanes in the order of [`Simd::unzip`].
pub(crate) const fn shuffled<P: Members, E: Element>() -> bool {
    P::ALTERNATING && E::SHUFFLED
}

/// `(i, i + pairs)`.
pub(crate) struct Half;

impl Members for Half {
    const ALTERNATING: bool = false;

    type Run<'a, C: Copy + 'a> = [&'a [C]; 2];
    type RunMut<'a, C: Copy + 'a> = [&'a mut [C]; 2];

    #[inline(always)]
    fn run<S: Simd, T: Copy>(
        head: &[T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::Run<'_, S::Chunk<T>> {
        let (first, second) = head.split_at(pairs);
        let len = len * S::LANES;
        [
            S::chunks(&first[at..at + len]),
            S::chunks(&second[at..at + len]),
        ]
    }

    #[inline(always)]
    fn run_mut<S: Simd, T: Copy>(
        head: &mut [T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::RunMut<'_, S::Chunk<T>> {
        let (first, second) = head.split_at_mut(pairs);
        let len = len * S::LANES;
        [
            S::chunks_mut(&mut first[at..at + len]),
            S::chunks_mut(&mut second[at..at + len]),
        ]
    }

    #[inline(always)]
    fn reread<'r, C: Copy>([first, second]: &'r Self::RunMut<'_, C>) -> Self::Run<'r, C> {
        [first, second]
    }

    #[inline(always)]
    fn load_as_is<S: Simd, E: Element>(
        s: S,
        [first, second]: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32) {
        (E::load(s, first[i]), E::load(s, second[i]))
    }

    #[inline(always)]
    fn store_as_is<S: Simd, E: Element>(
        s: S,
        [first, second]: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        (x, y): (S::F32, S::F32),
    ) {
        let [x, y] = E::store(s, x, y);
        first[i] = x;
        second[i] = y;
    }

    #[inline(always)]
    fn load<S: Simd, E: Element>(
        s: S,
        run: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32) {
        Self::load_as_is::<S, E>(s, run, i)
    }

    #[inline(always)]
    fn store<S: Simd, E: Element>(
        s: S,
        run: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        pair: (S::F32, S::F32),
    ) {
        Self::store_as_is::<S, E>(s, run, i, pair);
    }
}

/// `(2i, 2i + 1)`.
pub(crate) struct Interleaved;

impl Members for Interleaved {
    const ALTERNATING: bool = true;

    type Run<'a, C: Copy + 'a> = &'a [[C; 2]];
    type RunMut<'a, C: Copy + 'a> = &'a mut [[C; 2]];

    #[inline(always)]
    fn run<S: Simd, T: Copy>(
        head: &[T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::Run<'_, S::Chunk<T>> {
        let head = &head[..2 * pairs];
        S::chunks(&head[2 * at..2 * (at + len * S::LANES)])
            .as_chunks()
            .0
    }

    #[inline(always)]
    fn run_mut<S: Simd, T: Copy>(
        head: &mut [T],
        pairs: usize,
        at: usize,
        len: usize,
    ) -> Self::RunMut<'_, S::Chunk<T>> {
        let head = &mut head[..2 * pairs];
        S::chunks_mut(&mut head[2 * at..2 * (at + len * S::LANES)])
            .as_chunks_mut()
            .0
    }

    #[inline(always)]
    fn reread<'r, C: Copy>(run: &'r Self::RunMut<'_, C>) -> Self::Run<'r, C> {
        run
    }

    #[inline(always)]
    fn load_as_is<S: Simd, E: Element>(
        s: S,
        run: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32) {
        let [a, b] = run[i];
        (E::load(s, a), E::load(s, b))
    }

    #[inline(always)]
    fn store_as_is<S: Simd, E: Element>(
        s: S,
        run: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        (a, b): (S::F32, S::F32),
    ) {
        run[i] = E::store(s, a, b);
    }

    #[inline(always)]
    fn load<S: Simd, E: Element>(
        s: S,
        run: Self::Run<'_, S::Chunk<E::Bits>>,
        i: usize,
    ) -> (S::F32, S::F32) {
        E::load_pairs(s, run[i])
    }

    #[inline(always)]
    fn store<S: Simd, E: Element>(
        s: S,
        run: &mut Self::RunMut<'_, S::Chunk<E::Bits>>,
        i: usize,
        (x, y): (S::F32, S::F32),
    ) {
        run[i] = E::store_pairs(s, x, y);
    }
}
