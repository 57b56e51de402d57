//! The tokens of each rank under context parallelism, and their positions.
//!
//! ```
//! use rope_core::shard::{Shard, ShardKind};
//! use rope_core::{Frequencies, FrequencyChunk, Pairing, Rope, Scaling, TensorMut};
//!
//! // Rank 1 of 2 holds chunks 1 and 2 of the four chunks of a sequence of 16 tokens.
//! let tokens = Shard::new(ShardKind::Zigzag, 1, 2)?.tokens(16)?;
//! assert!(tokens.iter().eq(4..12));
//!
//! // Its queries are rotated by the positions of those tokens.
//! let mut memory = [FrequencyChunk::EMPTY; 4];
//! let frequencies = Frequencies::new_in(&mut memory, 64, 10_000.0, &Scaling::Default)?;
//! let mut q = [1.0_f32; 8 * 2 * 64];
//! let mut q = TensorMut::new(&mut q, [1, tokens.len(), 2, 64])?;
//! Rope::new(Pairing::Half).rotate(&mut q, &frequencies.at(tokens)?)?;
//! # Ok::<(), rope_core::Error>(())
//! ```

use crate::Error;
use crate::describe::ids::{Ids, IntoIds, check_offsets, sequence_of};
use crate::error::ShardError;

/// The assignment of the tokens of a sequence to ranks. With `R` ranks and `n` tokens, rank `r` holds
///
/// | | tokens | used by |
/// |---|---|---|
/// | `Contiguous` | `r n/R .. (r + 1) n/R`; `R` divides `n` | Llama 3's all-gather, ring-flash-attn's `llama3` |
/// | `Zigzag` | chunk `r`, then chunk `2R - 1 - r` of `2R`; `2R` divides `n` | Megatron-LM, Transformer Engine, ring-flash-attn |
/// | `UnevenZigzag` | the same of any `n`: the first `n mod 2R` chunks are a token longer | sglang's `zigzag` |
/// | `Striped` | `r, r + R, r + 2R, ..` | Striped Attention, ring-flash-attn's `stripe`, sglang's `interleave` |
///
/// Zigzag and stripes balance the work of the ranks under a causal mask.
///
/// ```
/// use rope_core::shard::{Shard, ShardKind};
///
/// // 8 tokens on 2 ranks: rank 0 has the first and the last chunk of four.
/// let tokens = Shard::new(ShardKind::Zigzag, 0, 2)?.tokens(8)?;
/// assert!(tokens.iter().eq([0, 1, 6, 7]));
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardKind {
    /// One piece.
    Contiguous,
    /// A piece of the first half, and its mirror image in the second half.
    Zigzag,
    /// `Zigzag` for any number of tokens.
    UnevenZigzag,
    /// Every `R`-th token.
    Striped,
}

/// The part of sequences that one rank holds: its tokens and their positions, without a list.
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::shard::{Shard, ShardKind};
/// use rope_core::{Frequencies, Scaling};
///
/// let shard = Shard::new(ShardKind::Zigzag, 0, 2)?;             // rank 0 of 2
/// let tokens = shard.tokens(16)?;
/// assert!(tokens.iter().eq([0, 1, 2, 3, 12, 13, 14, 15]));
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(tokens)?;         // or rotate by &frequencies.at(tokens)?
/// assert_eq!(rows.len(), 8);
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[doc(alias("context_parallel", "zigzag"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    kind: ShardKind,
    rank: u32,
    ranks: u32,
}

/// The tokens of one rank, in its order. Converts to [`Positions`](crate::Positions).
///
/// ```
/// # #[cfg(feature = "alloc")] {
/// use rope_core::shard::{Shard, ShardKind};
/// use rope_core::{Frequencies, Scaling};
///
/// let tokens = Shard::new(ShardKind::Striped, 1, 4)?.tokens(16)?;
/// assert!(tokens.iter().eq([1, 5, 9, 13]));
/// let frequencies = Frequencies::new(64, 10_000.0, &Scaling::Default)?;
/// let rows = frequencies.rows(tokens)?; // of this rank
/// # }
/// # Ok::<(), rope_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShardTokens<'a> {
    shard: Shard,
    sequences: ShardSequences<'a>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum ShardSequences<'a> {
    /// One sequence, with its number of tokens.
    One(u64),
    /// Sequence `s` has the tokens `offsets[s]..offsets[s + 1]`.
    Packed(Ids<'a>),
}

impl Shard {
    /// Creates the part of rank `rank` of `ranks`.
    ///
    /// # Errors
    ///
    /// [`ShardError::Rank`] unless `rank` is below `ranks`, and `ranks` at most 2^32 - 1.
    pub fn new(kind: ShardKind, rank: usize, ranks: usize) -> Result<Self, Error> {
        match (u32::try_from(rank), u32::try_from(ranks)) {
            (Ok(own), Ok(all)) if own < all => Ok(Shard {
                kind,
                rank: own,
                ranks: all,
            }),
            _ => Err(Error::Shard(ShardError::Rank { rank, ranks })),
        }
    }

    /// Returns the rank's tokens of one sequence of `tokens`. Positions equal token indices.
    ///
    /// # Errors
    ///
    /// [`ShardError::Tokens`] if the kind requires a multiple of the ranks, or of twice the ranks, and `tokens` is
    /// none.
    pub fn tokens(self, tokens: usize) -> Result<ShardTokens<'static>, Error> {
        self.check(0, tokens as u64)?;
        let tokens = tokens as u64;
        Ok(ShardTokens {
            shard: self,
            sequences: ShardSequences::One(tokens),
            len: self.len_of(tokens) as usize,
        })
    }

    /// Returns the rank's tokens of packed sequences, each counted from 0: sequence `s` has the tokens
    /// `offsets[s]..offsets[s + 1]` (FlashAttention's `cu_seqlens`).
    ///
    /// - `Contiguous` and `Striped` divide the packed buffer as a whole, regardless of sequences.
    /// - `Zigzag` divides each sequence by itself; each must have a multiple of `2R` tokens: the offsets are those
    ///   of padded sequences (Megatron-LM's `cu_seqlens_padded`). Positions continue through the padding.
    /// - `UnevenZigzag` needs no padding: first the early chunks of all sequences, then the late ones of all (sglang).
    ///   Finding a token takes a step per sequence; the other kinds use a binary search.
    ///
    /// # Errors
    ///
    /// [`PositionsError::Offsets`](crate::error::PositionsError::Offsets) unless the offsets start at 0 and never fall,
    /// [`ShardError::Tokens`] as [`Shard::tokens`].
    pub fn packed<'a>(self, offsets: impl IntoIds<'a>) -> Result<ShardTokens<'a>, Error> {
        let offsets = offsets.into();
        check_offsets(offsets)?;
        let all = offsets.last() as u64;
        let mut len = 0;
        match self.kind {
            ShardKind::Contiguous | ShardKind::Striped => {
                self.check(0, all)?;
                len = self.len_of(all);
            }
            ShardKind::Zigzag | ShardKind::UnevenZigzag => {
                for sequence in 0..offsets.len().saturating_sub(1) {
                    let tokens = length(offsets, sequence);
                    self.check(sequence, tokens)?;
                    len += self.len_of(tokens);
                }
            }
        }
        Ok(ShardTokens {
            shard: self,
            sequences: ShardSequences::Packed(offsets),
            len: len as usize,
        })
    }

    /// Checks that `tokens` tokens of a sequence can be divided.
    fn check(self, sequence: usize, tokens: u64) -> Result<(), Error> {
        let multiple = match self.kind {
            ShardKind::Contiguous => u64::from(self.ranks),
            ShardKind::Zigzag => 2 * u64::from(self.ranks),
            ShardKind::UnevenZigzag | ShardKind::Striped => 1,
        };
        if !tokens.is_multiple_of(multiple) {
            return Err(Error::Shard(ShardError::Tokens {
                sequence,
                tokens: tokens as usize,
                multiple: usize::try_from(multiple).unwrap_or(usize::MAX),
            }));
        }
        Ok(())
    }

    /// Returns the number of the rank's tokens of a sequence.
    fn len_of(self, tokens: u64) -> u64 {
        let (rank, ranks) = (u64::from(self.rank), u64::from(self.ranks));
        match self.kind {
            ShardKind::Contiguous => tokens / ranks,
            ShardKind::Zigzag | ShardKind::UnevenZigzag => {
                let [early, late] = self.chunks(tokens);
                early.1 + late.1
            }
            ShardKind::Striped => tokens / ranks + u64::from(rank < tokens % ranks),
        }
    }

    /// Returns the first token and the length of both chunks of a sequence.
    fn chunks(self, tokens: u64) -> [(u64, u64); 2] {
        let (rank, all) = (u64::from(self.rank), 2 * u64::from(self.ranks));
        let (least, longer) = (tokens / all, tokens % all);
        [rank, all - 1 - rank].map(|chunk| {
            let first = chunk * least + chunk.min(longer);
            (first, least + u64::from(chunk < longer))
        })
    }

    /// Returns a token of a sequence that is divided by itself.
    fn token_of(self, tokens: u64, index: u64) -> u64 {
        let (rank, ranks) = (u64::from(self.rank), u64::from(self.ranks));
        match self.kind {
            ShardKind::Contiguous => rank * (tokens / ranks) + index,
            ShardKind::Striped => rank + index * ranks,
            ShardKind::Zigzag | ShardKind::UnevenZigzag => {
                let [early, late] = self.chunks(tokens);
                if index < early.1 {
                    early.0 + index
                } else {
                    late.0 + (index - early.1)
                }
            }
        }
    }
}

impl<'a> ShardTokens<'a> {
    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the rank's token `index`.
    pub(crate) fn token(&self, index: usize) -> Option<usize> {
        (index < self.len).then(|| self.at(index).0 as usize)
    }

    /// Returns the position of the rank's token `index`.
    pub fn position(&self, index: usize) -> Option<i64> {
        (index < self.len).then(|| self.position_at(index))
    }

    /// Iterates over the indices of the tokens: in the sequence, or in the packed buffer (the padded one for `Zigzag`).
    /// They scatter tokens to ranks and gather results.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = usize> + use<'a> {
        let tokens = *self;
        (0..self.len).map(move |index| tokens.at(index).0 as usize)
    }

    /// Returns the position of an existing token.
    pub(crate) fn position_at(&self, index: usize) -> i64 {
        self.at(index).1 as i64
    }

    /// Returns the first position of `count` tokens from `index` on, if they are consecutive.
    pub(crate) fn consecutive(&self, index: usize, count: usize) -> Option<i64> {
        let last = index.checked_add(count)?.checked_sub(1)?;
        let one = matches!(self.sequences, ShardSequences::One(_)) && last < self.len;
        // Positions ascend within one sequence.
        let first = one.then(|| self.position_at(index))?;
        (self.position_at(last) - first == count as i64 - 1).then_some(first)
    }

    /// Returns the offsets of packed sequences.
    pub(crate) fn offsets(&self) -> Option<Ids<'a>> {
        match self.sequences {
            ShardSequences::One(_) => None,
            ShardSequences::Packed(offsets) => Some(offsets),
        }
    }

    /// Returns the token and the position at an index in range.
    fn at(&self, index: usize) -> (u64, u64) {
        let (shard, index) = (self.shard, index as u64);
        let offsets = match self.sequences {
            ShardSequences::One(tokens) => {
                let token = shard.token_of(tokens, index);
                return (token, token);
            }
            ShardSequences::Packed(offsets) => offsets,
        };
        match shard.kind {
            ShardKind::Contiguous | ShardKind::Striped => {
                let token = shard.token_of(offsets.last() as u64, index);
                let sequence = sequence_of(offsets, token as i64);
                (token, token - begin(offsets, sequence))
            }
            ShardKind::Zigzag => {
                // All ranks have equal parts of each sequence.
                let ranks = u64::from(shard.ranks);
                let sequence = sequence_of(offsets, (index * ranks) as i64);
                let first = begin(offsets, sequence);
                let own = index - first / ranks;
                let position = shard.token_of(length(offsets, sequence), own);
                (first + position, position)
            }
            ShardKind::UnevenZigzag => {
                let mut left = index;
                for late in 0..2 {
                    for sequence in 0..offsets.len() - 1 {
                        let (first, len) = shard.chunks(length(offsets, sequence))[late];
                        if left < len {
                            let position = first + left;
                            return (begin(offsets, sequence) + position, position);
                        }
                        left -= len;
                    }
                }
                unreachable!("the chunks of all sequences are the tokens that were counted")
            }
        }
    }
}

/// Returns the first token of a sequence.
fn begin(offsets: Ids<'_>, sequence: usize) -> u64 {
    offsets.at(sequence) as u64
}

/// Returns the number of tokens of a sequence.
fn length(offsets: Ids<'_>, sequence: usize) -> u64 {
    begin(offsets, sequence + 1) - begin(offsets, sequence)
}
