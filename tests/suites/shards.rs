//! Tokens distributed over ranks: results of the frameworks' own functions, the definitions, and whole rotations in
//! parts.

use rope_core::error::{PositionsError, ShardError};
use rope_core::shard::{Shard, ShardKind, ShardTokens};
use rope_core::{Frequencies, Pairing, Positions, Rope, Scaling, TensorMut};
use rope_tests::golden::lines;
use rope_tests::{Source, bodies};

#[test]
fn any_shards() {
    let mut source = Source::random("shards::any_shards");
    for _ in 0..2000 {
        bodies::shards(&mut source);
    }
}

fn numbers<T: std::str::FromStr>(words: &[String]) -> Vec<T> {
    let number = |word: &String| {
        word.parse()
            .unwrap_or_else(|_| panic!("{word} in the file"))
    };
    words.iter().map(number).collect()
}

#[test]
fn ids_of_the_frameworks() {
    let (mut single, mut packed) = (0, 0);
    for line in lines("parallel/ids.txt") {
        let kind = match &*line[1] {
            "contiguous" => ShardKind::Contiguous,
            "zigzag" | "zigzag_padded" => ShardKind::Zigzag,
            "uneven" | "uneven_early_then_late" => ShardKind::UnevenZigzag,
            "striped" => ShardKind::Striped,
            other => panic!("{other} in the file"),
        };
        let ranks: usize = line[2].parse().expect("a number");
        let shard = |rank: &str| {
            let rank = rank.trim_end_matches(':').parse().expect("a rank");
            Shard::new(kind, rank, ranks).expect("a rank")
        };
        if line[0] == "single" {
            let tokens = shard(&line[4]).tokens(line[3].parse().expect("a number"));
            let tokens = tokens.expect("tokens that divide");
            assert_eq!(
                tokens.iter().collect::<Vec<_>>(),
                numbers::<usize>(&line[5..]),
                "{line:?}"
            );
            assert!(
                tokens
                    .iter()
                    .enumerate()
                    .all(|(i, t)| tokens.position(i) == Some(t as i64))
            );
            single += 1;
            continue;
        }
        let parts: Vec<&[String]> = line[3..].split(|word| word == "|").collect();
        let lengths: Vec<i64> = numbers(parts[0]);
        // Offsets of the sequences; the padded kind has offsets of the padded sequences.
        let (mut offsets, mut padded) = (vec![0], vec![0]);
        for len in lengths {
            let multiple = 2 * ranks as i64;
            offsets.push(offsets[offsets.len() - 1] + len);
            padded.push(padded[padded.len() - 1] + (len + multiple - 1) / multiple * multiple);
        }
        let is_padded = line[1] == "zigzag_padded";
        let given = if is_padded { &padded } else { &offsets };
        let tokens = shard(&parts[1][0])
            .packed(given)
            .expect("tokens that divide");
        let expected: Vec<i64> = numbers(&parts[1][1..]);
        let of_packed = |token: usize| {
            let sequence = given.partition_point(|&offset| offset <= token as i64) - 1;
            let token = offsets[sequence] + token as i64 - given[sequence];
            if token < offsets[sequence + 1] {
                token
            } else {
                -1
            }
        };
        let ours: Vec<i64> = tokens.iter().map(of_packed).collect();
        assert_eq!(ours, expected, "{line:?}");
        let positions: Vec<i64> = (0..tokens.len())
            .filter_map(|i| tokens.position(i))
            .collect();
        assert_eq!(positions, numbers::<i64>(parts[2]), "{line:?}");
        packed += 1;
    }
    assert!(single > 20 && packed > 40, "{single} and {packed}");
}

/// The rows of shards equal those of the whole, also for contiguous parts, and so do the rows that `Frequencies::at`
/// makes during a call.
#[test]
fn rows_of_shards_match_the_whole() {
    let (tokens, heads, head_dim) = (96, 2, 64);
    let frequencies = Frequencies::new(head_dim, 10_000.0, &Scaling::Default).expect("a base");
    let mut source = Source::random("shards::rows_of_shards_match_the_whole");
    let row = heads * head_dim;
    let x: Vec<f32> = (0..tokens * row).map(|_| source.unit()).collect();
    let rope = Rope::new(Pairing::Half);
    let offsets = [0_u32, 48, 48, 96];
    let check = |positions: Positions<'_>, shards: &dyn Fn(Shard) -> ShardTokens<'static>| {
        let mut whole = x.clone();
        let mut tensor = TensorMut::new(&mut whole, [1, tokens, heads, head_dim]).expect("valid");
        rope.rotate(&mut tensor, &frequencies.at(positions).expect("positions"))
            .expect("positions");
        for kind in [
            ShardKind::Contiguous,
            ShardKind::Zigzag,
            ShardKind::UnevenZigzag,
            ShardKind::Striped,
        ] {
            for ranks in 1..=4 {
                let mut all = vec![f32::NAN; x.len()];
                for rank in 0..ranks {
                    let tokens = shards(Shard::new(kind, rank, ranks).expect("a rank"));
                    let part = |of: usize| of * row..(of + 1) * row;
                    let own: Vec<f32> =
                        tokens.iter().flat_map(|at| &x[part(at)]).copied().collect();
                    let shape = [1, tokens.len(), heads, head_dim];
                    let (mut by_rows, mut on_the_way) = (own.clone(), own);
                    let rows = frequencies.rows(tokens).expect("positions");
                    let mut tensor = TensorMut::new(&mut by_rows, shape).expect("valid");
                    rope.rotate(&mut tensor, &rows).expect("rows that fit");
                    let mut tensor = TensorMut::new(&mut on_the_way, shape).expect("valid");
                    rope.rotate(&mut tensor, &frequencies.at(tokens).expect("positions"))
                        .expect("positions");
                    assert_eq!(by_rows, on_the_way);
                    for (own, at) in by_rows.chunks(row).zip(tokens.iter()) {
                        all[part(at)].copy_from_slice(own);
                    }
                }
                assert!(all == whole, "{kind:?} of {ranks} ranks");
            }
        }
    };
    check(Positions::from(0..tokens), &|shard| {
        shard.tokens(tokens).expect("valid")
    });
    static OFFSETS: [u32; 4] = [0, 48, 48, 96];
    let packed = Positions::packed(&offsets).expect("offsets");
    check(packed, &|shard| shard.packed(&OFFSETS).expect("valid"));
}

/// The program of `suites/bin/ranks.rs`: processes that share nothing but ids.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn processes() {
    let ranks = std::process::Command::new(env!("CARGO_BIN_EXE_ranks")).output();
    let ranks = ranks.expect("a program that starts");
    assert!(ranks.status.success(), "{ranks:?}");
}

#[test]
fn refusals() {
    use rope_core::Error;
    for (rank, ranks) in [(0, 0), (2, 2), (usize::MAX, 4), (0, usize::MAX)] {
        let error = Error::Shard(ShardError::Rank { rank, ranks });
        if usize::BITS > 32 || ranks < usize::MAX {
            assert_eq!(Shard::new(ShardKind::Striped, rank, ranks), Err(error));
        }
    }
    let shard = Shard::new(ShardKind::Zigzag, 1, 4).expect("a rank");
    let (sequence, tokens, multiple) = (0, 12, 8);
    let error = Error::Shard(ShardError::Tokens {
        sequence,
        tokens,
        multiple,
    });
    assert_eq!(shard.tokens(12).map(drop), Err(error));
    let error = Error::Shard(ShardError::Tokens {
        sequence: 1,
        tokens,
        multiple,
    });
    assert_eq!(shard.packed(&[0_i32, 16, 28]).map(drop), Err(error));
    let falls = shard.packed(&[0_i32, 16, 8]).map(drop);
    assert_eq!(
        falls,
        Err(Error::Positions(PositionsError::Offsets {
            index: 2,
            offset: 8
        }))
    );
    // The largest number of ranks; most of them have no token.
    let most = u32::MAX as usize;
    for kind in [ShardKind::UnevenZigzag, ShardKind::Striped] {
        let of = |rank| {
            Shard::new(kind, rank, most)
                .expect("a rank")
                .tokens(3)
                .expect("any")
        };
        assert!(of(2).iter().eq([2]) && of(most - 1).is_empty());
    }
}
