//! Constants that depend on the core: one table, a row per core. No other file names a core, a prefetch distance or a
//! size at which the order of memory accesses changes.
//!
//! A tuning changes the time of a call, never its bits. `rope-bench tune` measures every knob on the current machine,
//! `rope-bench/records` holds the results, and the suite `tuning` compares the rows with them. A core without a row
//! uses [`UNKNOWN`], whose values have the smallest worst case over all records.

/// The access of a kernel to heads, as far as it affects prefetching.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Rotates them in place.
    Rotate,
    /// Sums their squares, before they are normed and rotated.
    Squares,
    /// Rotates gradients back and sums the terms of their angles.
    Backward,
    /// Sums the terms of two tensors.
    Gradients,
    /// Rotates them into a tile.
    Tile,
    /// Rotates them into another tensor.
    Another,
}

/// The tuning of one core. Sizes are in bytes; arrays hold a value for 16-bit elements and one for f32.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// The name of the core in records.
    pub core: &'static str,
    /// Prefetch of a rotation in place.
    pub rotate: Ahead,
    /// Prefetch of a rotation into a tile.
    pub tile: Ahead,
    /// Prefetch of the sums of squares before a norm.
    pub squares: Ahead,
    /// Prefetch of gradients that are rotated back while the terms of their angles are summed.
    pub backward: Ahead,
    /// Prefetch of two tensors whose terms are summed.
    pub gradients: Ahead,
    /// Tensor size above which the next token is prefetched instead of the next heads, if other elements lie between
    /// tokens.
    pub over_gaps_above: [usize; 2],
    /// The same size for a rotation into another tensor.
    pub over_gaps_into_another_above: [usize; 2],
    /// Tensor size above which the next line is prefetched, if a line is one head of some tokens.
    pub next_line_above: usize,
    /// Heads of a heads-major tensor that an in-place rotation visits together, token by token, by the token's row;
    /// 1 for one head at a time, whose 16 tokens have a row each.
    pub heads_together: [usize; 2],
    /// Tensor size above which so few heads are visited together that two lines of 16 tokens fit a first-level cache,
    /// and the next line is prefetched.
    pub few_together_above: [usize; 2],
    /// Size of a heads-major tensor above which an in-place rotation runs head by head and prefetches nothing; up to
    /// it, 16 tokens of each head, or of the heads that are visited together, alternate.
    pub by_head_above: [usize; 2],
    /// The same size for a rotation into another tensor.
    pub by_head_into_another_above: [usize; 2],
    /// Size of a tensor above which a rotation from a tokens-major into a heads-major tensor runs token by token.
    pub by_token_of_source_above: [usize; 2],
    /// Size of the part of both tensors whose angle gradients are summed before it is rotated back.
    pub backward_part: usize,
    /// Size of the part of a source that is written to every output before the next part.
    pub output_part: usize,
    /// The same size if the outputs bypass the caches.
    pub streamed_part: usize,
    /// Total size of several output tensors above which they bypass the caches.
    pub stream_above: usize,
    /// Smallest part of a tensor for a second thread, if the caller is a thread of the pool.
    pub thread_part: usize,
    /// The same size for other callers, which wait for the threads that they wake.
    pub thread_part_outside: usize,
}

/// The prefetch distance in heads, for lines of the heads of a token, and the tensor size from which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Heads; 0 for none.
    pub heads: [usize; 2],
    /// Tensor size above which heads are prefetched.
    pub above: [usize; 2],
}

impl Ahead {
    const NONE: Self = Self::by(0, 0);

    const fn by(heads: usize, above: usize) -> Self {
        Ahead {
            heads: [heads; 2],
            above: [above; 2],
        }
    }

    /// Returns the prefetch distance in a tensor of `bytes` whose elements have `size`.
    #[inline(always)]
    pub(crate) fn heads(&self, size: usize, bytes: usize) -> usize {
        if bytes > of_size(self.above, size) {
            of_size(self.heads, size)
        } else {
            0
        }
    }
}

/// Returns the value for elements of `size` bytes.
#[inline(always)]
pub(crate) fn of_size<T: Copy>(values: [T; 2], size: usize) -> T {
    values[usize::from(size == 4)]
}

/// A size that no tensor exceeds.
const NEVER: usize = usize::MAX;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The row of every other core.
pub(crate) static UNKNOWN: Tuning = Tuning {
    core: "unknown",
    rotate: Ahead {
        above: [2 * MIB, 512 * KIB],
        ..EARLIER.rotate
    },
    tile: Ahead::NONE,
    squares: Ahead::NONE,
    gradients: Ahead {
        heads: [0, 8],
        ..EARLIER.gradients
    },
    heads_together: [16, 16],
    few_together_above: [2 * MIB, 16 * MIB],
    by_token_of_source_above: [0, 0],
    stream_above: NEVER,
    ..EARLIER
};

/// Values from before the first record: common to all cores, measured on various machines.
const EARLIER: Tuning = Tuning {
    core: "",
    // f32 beyond the first-level cache; 16-bit elements, which take longer to rotate, beyond the second.
    rotate: Ahead {
        heads: [10, 10],
        above: [2 * MIB, 48 * KIB],
    },
    // A line of 16-bit elements takes so long that the CPU's prefetcher keeps up.
    tile: Ahead {
        heads: [0, 10],
        above: [NEVER, 48 * KIB],
    },
    squares: Ahead::by(10, 0),
    backward: Ahead {
        heads: [20, 10],
        above: [MIB, MIB],
    },
    gradients: Ahead::by(8, MIB),
    over_gaps_above: [2 * MIB, 48 * KIB],
    over_gaps_into_another_above: [2 * MIB, NEVER],
    next_line_above: MIB,
    heads_together: [1, 1],
    few_together_above: [NEVER, NEVER],
    by_head_above: [NEVER, NEVER],
    by_head_into_another_above: [2 * MIB, 4 * MIB],
    by_token_of_source_above: [NEVER, NEVER],
    backward_part: 64 * KIB,
    output_part: 512 * KIB,
    streamed_part: 128 * KIB,
    stream_above: 48 * MIB,
    thread_part: 256 * KIB,
    thread_part_outside: 2 * MIB,
};

/// Zen 4: its prefetcher keeps up with contiguous heads, and its second-level cache has 1 MiB.
static ZEN_4: Tuning = Tuning {
    core: "Zen 4",
    rotate: Ahead::NONE,
    tile: Ahead::NONE,
    squares: Ahead::NONE,
    gradients: Ahead::NONE,
    by_head_above: [NEVER, 4 * MIB],
    output_part: NEVER,
    ..EARLIER
};

static ZEN_3: Tuning = Tuning {
    core: "Zen 3",
    ..EARLIER
};

static ZEN_5: Tuning = Tuning {
    core: "Zen 5",
    rotate: Ahead {
        heads: [0, 14],
        // With a threshold of 512 KiB, tensors of 1 MiB, the size of the second-level cache, take 1.4 times as long.
        above: [2 * MIB, 2 * MIB],
    },
    gradients: Ahead {
        heads: [0, 8],
        ..EARLIER.gradients
    },
    over_gaps_into_another_above: [2 * MIB, 2 * MIB],
    heads_together: [16, 16],
    few_together_above: [2 * MIB, 16 * MIB],
    by_token_of_source_above: [0, 0],
    // Five tensors of bf16 `[1, 2048, 32, 128]` past the caches take 0.5 to 1.1 of five calls through them, and up to
    // 1.5 on a shared machine; on a quiet one both take the same time.
    stream_above: NEVER,
    ..EARLIER
};

/// The core of Emerald Rapids, whose record this row follows.
static SAPPHIRE_RAPIDS: Tuning = Tuning {
    core: "Sapphire Rapids",
    ..EMERALD_RAPIDS
};

static EMERALD_RAPIDS: Tuning = Tuning {
    core: "Emerald Rapids",
    heads_together: [16, 16],
    few_together_above: [NEVER, 16 * MIB],
    by_head_into_another_above: [NEVER, 4 * MIB],
    by_token_of_source_above: [0, 0],
    ..EARLIER
};

/// Returns true if SVE is preferred to NEON. With vectors of 16 bytes, NEON keeps more of cos and sin in registers and
/// has kernels of everything else.
#[cfg_attr(
    not(target_arch = "aarch64"),
    allow(dead_code, reason = "only 64-bit ARM has both")
)]
pub(crate) fn sve_pays(vector_bytes: usize) -> bool {
    vector_bytes >= 32
}

/// All rows, each at the index that `Tuning::row_of_x86` returns for its core.
pub static ROWS: [&Tuning; 6] = [
    &UNKNOWN,
    &ZEN_3,
    &ZEN_4,
    &ZEN_5,
    &SAPPHIRE_RAPIDS,
    &EMERALD_RAPIDS,
];

impl Tuning {
    /// Returns the index in [`ROWS`] of the core with this vendor, family and model of CPUID.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has CPUID")
    )]
    pub(crate) fn row_of_x86(vendor: &[u8], family: u32, model: u32) -> u8 {
        match (vendor, family, model) {
            (b"AuthenticAMD", 0x19, 0x10..=0x1F | 0x60..=0x7F | 0xA0..=0xAF) => 2,
            (b"AuthenticAMD", 0x19, _) => 1,
            (b"AuthenticAMD", 0x1A, 0x00..=0x7F) => 3,
            (b"GenuineIntel", 6, 0x8F) => 4,
            (b"GenuineIntel", 6, 0xCF) => 5,
            _ => 0,
        }
    }

    /// Returns the row at that index.
    #[cfg_attr(
        not(any(target_arch = "x86", target_arch = "x86_64")),
        allow(dead_code, reason = "only x86 has CPUID")
    )]
    pub(crate) fn of_row(row: u8) -> &'static Self {
        ROWS.get(usize::from(row)).copied().unwrap_or(&UNKNOWN)
    }

    /// Returns the heads that an in-place rotation visits together in a heads-major tensor of `bytes`, and true if the
    /// next line is prefetched. The tokens of one head in a line have `of_head` bytes.
    #[inline(always)]
    pub(crate) fn together(&self, size: usize, bytes: usize, of_head: usize) -> (usize, bool) {
        let heads = of_size(self.heads_together, size);
        if bytes > of_size(self.few_together_above, size) {
            (heads.min(16 * KIB / of_head.max(1)), true)
        } else {
            (heads, false)
        }
    }

    /// Returns the prefetch distance in heads for an access to a tensor of `bytes` whose elements have `size`.
    #[inline(always)]
    pub(crate) fn ahead(&self, access: Access, size: usize, bytes: usize) -> usize {
        match access {
            Access::Rotate => self.rotate.heads(size, bytes),
            Access::Tile => self.tile.heads(size, bytes),
            Access::Squares => self.squares.heads(size, bytes),
            Access::Backward => self.backward.heads(size, bytes),
            Access::Gradients => self.gradients.heads(size, bytes),
            Access::Another => 0,
        }
    }

    /// Returns true if the next token is prefetched, when other elements lie between tokens.
    #[inline(always)]
    pub(crate) fn over_gaps(&self, access: Access, size: usize, bytes: usize) -> bool {
        match access {
            Access::Rotate | Access::Tile | Access::Squares => {
                bytes > of_size(self.over_gaps_above, size)
            }
            Access::Another => bytes > of_size(self.over_gaps_into_another_above, size),
            Access::Backward | Access::Gradients => false,
        }
    }
}

/// Compares rows by address: a plan has a row of the table, or one made by a benchmark.
impl PartialEq for Tuning {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Tuning {}
