//! The operations that generate rows.

/// The operations on doubles for the row generator. The generator computes chunks of eight pairs; a backend splits a
/// chunk into `8 / F64_LANES` parts.
pub(crate) trait SimdF64: Copy {
    /// Doubles in a vector: 8, 4, 2 or 1.
    const F64_LANES: usize;

    /// A vector of [`SimdF64::F64_LANES`] lanes.
    type F64: Copy;

    /// Loads the lanes of one part of a chunk.
    fn load_f64(self, block: &[f64; 8], part: usize) -> Self::F64;
    /// Undoes `load_f64`.
    fn store_f64(self, v: Self::F64, block: &mut [f64; 8], part: usize);
    /// Copies a value to all lanes.
    fn splat_f64(self, x: f64) -> Self::F64;
    /// Lane `i` is `of[axis of i]`. An axis is the index pair of its 32-bit halves in `of`, `[2 axis, 2 axis + 1]`, so
    /// that x86 needs a single permutation.
    fn pick(self, of: &[f64; 4], halves: &[[u32; 2]; 8], part: usize) -> Self::F64;
    /// Rounds each lane to f32, for one part of a chunk.
    fn store_as_f32(self, v: Self::F64, block: &mut [f32; 8], part: usize);
    /// Returns a bit for each lane in which `a` and `b` round to different f32 numbers. A NaN differs from everything.
    fn differ_as_f32(self, a: Self::F64, b: Self::F64) -> u32;
    /// Rounds each lane to f32 and returns it as a double.
    fn round_to_f32(self, v: Self::F64) -> Self::F64;

    /// Returns `a - b`.
    fn sub_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// Returns `a * b`.
    fn mul_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// Returns `a b + c`, rounded once or twice, whichever is faster.
    fn mul_add(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;
    /// Returns `a b - c`, rounded once, for a `c` so near to `a b` that `fl(a b) - c` is exact.
    fn mul_sub(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;

    /// Rotates `(cos, sin)` by `quarters mod 4` quarter turns.
    fn quarter_turns(
        self,
        quarters: Self::F64,
        cos: Self::F64,
        sin: Self::F64,
    ) -> (Self::F64, Self::F64);
    /// Returns true if the rounding of some lane is in doubt. Either one of `values` lies within `REACH` (a power of
    /// two) units in its last place of a midpoint of f32 numbers, or `small` is below `least` although `whole` is not
    /// zero. A NaN in `whole` or `small` is a doubt.
    fn any_doubt<const REACH: u64>(
        self,
        values: [Self::F64; 2],
        whole: Self::F64,
        small: Self::F64,
        least: f64,
    ) -> bool;
}

/// The bits of a double below the last bit of an f32.
pub(crate) const BELOW_F32: u64 = (1 << 29) - 1;
/// The value of these bits at a midpoint of normal f32 numbers.
pub(crate) const MIDPOINT: u64 = 1 << 28;
/// The sign of a double.
pub(crate) const SIGN: u64 = 1 << 63;
