//! Context parallelism with processes that share nothing but ids: 2, 3 and 4 processes rotate the parts of a tensor,
//! and the parts together equal the rotated tensor bit for bit.
//!
//! The arguments of a process are the kind of its shard, its rank, the number of ranks and the sequences' offsets; its
//! input has the values of its tokens, f32 of some heads. The process makes rows for the positions of its tokens and
//! writes the rotated tokens.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rope_core::shard::{Shard, ShardKind};
use rope_core::{Error, Frequencies, Pairing, Positions, Rope, Scaling, TensorMut};

type Any = Box<dyn std::error::Error>;

const HEADS: usize = 3;
const HEAD_DIM: usize = 64;
const TOKEN: usize = HEADS * HEAD_DIM;

const KINDS: [(&str, ShardKind); 4] = [
    ("contiguous", ShardKind::Contiguous),
    ("zigzag", ShardKind::Zigzag),
    ("uneven", ShardKind::UnevenZigzag),
    ("striped", ShardKind::Striped),
];

fn main() -> Result<(), Any> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => all(),
        [kind, rank, ranks, offsets] => {
            let kind = KINDS
                .iter()
                .find(|(name, _)| name == kind)
                .ok_or("no such kind")?
                .1;
            let offsets: Result<Vec<u64>, _> = offsets.split(',').map(str::parse).collect();
            rank_of(Shard::new(kind, rank.parse()?, ranks.parse()?)?, &offsets?)
        }
        _ => Err("ranks [KIND RANK RANKS OFFSETS]".into()),
    }
}

fn rotate(x: &mut [f32], positions: Positions<'_>) -> Result<(), Error> {
    let frequencies = Frequencies::new(HEAD_DIM, 500_000.0, &Scaling::Default)?;
    let rows = frequencies.rows(positions)?;
    let tokens = x.len() / TOKEN;
    let mut tensor = TensorMut::new(x, [1, tokens, HEADS, HEAD_DIM])?;
    Rope::new(Pairing::Half).rotate(&mut tensor, &rows)
}

/// Runs one rank from its input to its output.
fn rank_of(shard: Shard, offsets: &[u64]) -> Result<(), Any> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let mut x: Vec<f32> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_ne_bytes(*bytes))
        .collect();
    rotate(&mut x, shard.packed(offsets)?.into())?;
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
    std::io::stdout().write_all(&bytes)?;
    Ok(())
}

/// Runs all ranks and compares their parts with the whole.
fn all() -> Result<(), Any> {
    let own = std::env::current_exe()?;
    for (name, kind) in KINDS {
        // 24 and 48 are multiples of twice 2, 3 and 4.
        let even = matches!(kind, ShardKind::Contiguous | ShardKind::Zigzag);
        let cases: [&[u64]; 2] = match even {
            true => [&[0, 48], &[0, 24, 72]],
            false => [&[0, 53], &[0, 10, 10, 16, 53]],
        };
        for (offsets, ranks) in cases
            .into_iter()
            .flat_map(|of| [2, 3, 4].map(|ranks| (of, ranks)))
        {
            let tokens = offsets[offsets.len() - 1] as usize;
            let x: Vec<f32> = (0..tokens * TOKEN)
                .map(|i| (i as f32 * 0.37).sin())
                .collect();
            let mut whole = x.clone();
            rotate(&mut whole, Positions::packed(offsets)?)?;

            let listed: Vec<String> = offsets.iter().map(u64::to_string).collect();
            let mut running = Vec::new();
            for rank in 0..ranks {
                let mut process = Command::new(&own)
                    .args([
                        name,
                        &rank.to_string(),
                        &ranks.to_string(),
                        &listed.join(","),
                    ])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()?;
                let held: Vec<usize> = Shard::new(kind, rank, ranks)?
                    .packed(offsets)?
                    .iter()
                    .collect();
                let values = held.iter().flat_map(|&token| &x[token * TOKEN..][..TOKEN]);
                let bytes: Vec<u8> = values.flat_map(|x| x.to_ne_bytes()).collect();
                process.stdin.take().ok_or("no input")?.write_all(&bytes)?;
                running.push((process, held));
            }
            let mut gathered = vec![None; tokens];
            for (process, held) in running {
                let output = process.wait_with_output()?;
                assert!(output.status.success() && output.stdout.len() == 4 * TOKEN * held.len());
                for (token, bytes) in held.into_iter().zip(output.stdout.chunks(4 * TOKEN)) {
                    assert!(
                        gathered[token].replace(bytes.to_vec()).is_none(),
                        "token {token} twice"
                    );
                }
            }
            for (token, (whole, bytes)) in whole.chunks(TOKEN).zip(gathered).enumerate() {
                let whole: Vec<u8> = whole.iter().flat_map(|x| x.to_ne_bytes()).collect();
                assert_eq!(Some(whole), bytes, "{name} of {ranks} ranks: token {token}");
            }
        }
        println!("{name}: 2, 3 and 4 processes give the bits of one");
    }
    Ok(())
}
