//! Tokens distributed over ranks.

use rope_core::error::ShardError;
use rope_core::shard::{Shard, ShardKind};
use rope_core::{Error, Ids, Positions};

use crate::Source;
#[cfg(feature = "capi")]
use crate::over_c::frequencies as over_c;

/// Tests any number of tokens, ranks and sequences: the lists equal the definitions token by token.
///
/// # Panics
///
/// If a token or a position differs.
pub fn shards(source: &mut Source<'_>) {
    let kinds = [
        ShardKind::Contiguous,
        ShardKind::Zigzag,
        ShardKind::UnevenZigzag,
        ShardKind::Striped,
    ];
    let (kind, ranks) = (source.one_of(&kinds), source.within(1, 6));
    let multiple = match kind {
        ShardKind::Contiguous => ranks,
        ShardKind::Zigzag => 2 * ranks,
        _ => 1,
    };
    let tokens = source.below(9) * multiple + if source.once_in(8) { 1 } else { 0 };
    let one = dealt(kind, ranks, tokens, &[(0, tokens)]);
    let mut offsets = vec![0_i64];
    for _ in 0..source.below(4) {
        let len = source.below(4) * multiple + usize::from(source.once_in(16));
        offsets.push(offsets[offsets.len() - 1] + len as i64);
    }
    if source.once_in(8) {
        offsets.clear();
    }
    let sequences: Vec<(usize, usize)> = offsets
        .windows(2)
        .map(|ends| (ends[0] as usize, (ends[1] - ends[0]) as usize))
        .collect();
    let all = offsets.last().map_or(0, |&end| end as usize);
    let packed = dealt(kind, ranks, all, &sequences);
    for rank in 0..ranks {
        let shard = Shard::new(kind, rank, ranks).expect("a rank");
        compare(shard.tokens(tokens), one.as_ref(), rank);
        compare(shard.packed(Ids::I64(&offsets)), packed.as_ref(), rank);
        #[cfg(feature = "capi")]
        {
            use rope::rope_positions_kind as Kind;
            let kind = match kind {
                ShardKind::Contiguous => Kind::ContiguousShard,
                ShardKind::Zigzag => Kind::ZigzagShard,
                ShardKind::UnevenZigzag => Kind::UnevenZigzagShard,
                ShardKind::Striped => Kind::StripedShard,
            };
            let of_one = rope::rope_positions_shard(kind as i32, tokens, rank, ranks);
            let of_packed = rope::rope_positions {
                rank,
                ranks,
                ..over_c::positions(kind, &offsets, rope::rope_number::I64)
            };
            compare_over_c(&of_one, shard.tokens(tokens).ok());
            compare_over_c(&of_packed, shard.packed(Ids::I64(&offsets)).ok());
        }
    }
    let beyond = ranks + source.below(3);
    let error = Error::Shard(ShardError::Rank {
        rank: beyond,
        ranks,
    });
    assert_eq!(Shard::new(kind, beyond, ranks), Err(error));
}

fn compare(
    got: Result<rope_core::shard::ShardTokens<'_>, Error>,
    expected: Result<&Vec<Vec<(usize, usize)>>, &Error>,
    rank: usize,
) {
    let (got, expected) = match (got, expected) {
        (Ok(got), Ok(expected)) => (got, &expected[rank]),
        (got, expected) => {
            assert_eq!(got.err().as_ref(), expected.err());
            return;
        }
    };
    assert_eq!(got.len(), expected.len());
    assert_eq!(got.is_empty(), expected.is_empty());
    let tokens: Vec<usize> = got.iter().collect();
    for (index, &(token, position)) in expected.iter().enumerate() {
        assert_eq!(tokens[index], token);
        assert_eq!(got.position(index), Some(position as i64));
    }
    assert_eq!(got.position(tokens.len()), None);
    let _: Positions<'_> = got.into();
}

/// Compares the tokens of a rank, and the rows of their positions.
#[cfg(feature = "capi")]
fn compare_over_c(
    shard: &rope::rope_positions,
    expected: Option<rope_core::shard::ShardTokens<'_>>,
) {
    let tokens = expected.as_ref().map(|tokens| tokens.iter().collect());
    assert_eq!(over_c::shard_tokens(shard), tokens);
    if let Some(expected) = expected {
        let frequencies = rope_core::Frequencies::new(8, 10_000.0, &rope_core::Scaling::Default);
        let frequencies = frequencies.expect("a base");
        let angles = frequencies.at(expected).expect("positions");
        over_c::Made::text(8).compare_rows(shard, &angles);
    }
}

/// Returns the tokens of every rank with their positions; `sequences` are pairs of first token and length.
fn dealt(
    kind: ShardKind,
    ranks: usize,
    all: usize,
    sequences: &[(usize, usize)],
) -> Result<Vec<Vec<(usize, usize)>>, Error> {
    let refused = |sequence, tokens, multiple| {
        Err(Error::Shard(ShardError::Tokens {
            sequence,
            tokens,
            multiple,
        }))
    };
    let each = || {
        let each = sequences.iter();
        each.flat_map(|&(first, len)| (0..len).map(move |at| (first + at, at)))
    };
    // The 2 R chunks of a sequence; the first ones are a token longer.
    let chunks = |&(first, len): &(usize, usize)| {
        let mut tokens = (0..len).map(move |at| (first + at, at));
        let of = |chunk: usize| len / (2 * ranks) + usize::from(chunk < len % (2 * ranks));
        let cut = (0..2 * ranks).map(|chunk| tokens.by_ref().take(of(chunk)).collect::<Vec<_>>());
        cut.collect::<Vec<_>>()
    };
    let mut made = vec![Vec::new(); ranks];
    match kind {
        ShardKind::Contiguous if !all.is_multiple_of(ranks) => return refused(0, all, ranks),
        ShardKind::Contiguous => {
            for (index, token) in each().enumerate() {
                made[index / (all / ranks)].push(token);
            }
        }
        ShardKind::Striped => {
            for (index, token) in each().enumerate() {
                made[index % ranks].push(token);
            }
        }
        ShardKind::Zigzag => {
            for (index, sequence) in sequences.iter().enumerate() {
                if !sequence.1.is_multiple_of(2 * ranks) {
                    return refused(index, sequence.1, 2 * ranks);
                }
            }
            for chunks in sequences.iter().map(chunks) {
                for (rank, made) in made.iter_mut().enumerate() {
                    made.extend(&chunks[rank]);
                    made.extend(&chunks[2 * ranks - 1 - rank]);
                }
            }
        }
        ShardKind::UnevenZigzag => {
            for late in [false, true] {
                for chunks in sequences.iter().map(chunks) {
                    for (rank, made) in made.iter_mut().enumerate() {
                        let chunk = if late { 2 * ranks - 1 - rank } else { rank };
                        made.extend(&chunks[chunk]);
                    }
                }
            }
        }
    }
    Ok(made)
}
