//! Continuous batching: one step over sequences of any length and position, on threads, into the pages of one cache.
//!
//! Some sequences are in prefill and have many tokens, others decode one. Their tokens are packed into one tensor, each
//! with its own position and slot. Threads take runs of tokens, whatever sequence they belong to; every token gets the
//! bits that it gets alone.
//!
//! `cargo run -p rope-core --example continuous_batching`

use std::thread;

use rope_core::cache::{CacheLayout, CacheMut, Slots};
use rope_core::{
    Dimension, Error, Frequencies, Pairing, Positions, Rope, Rows, Scaling, Tensor, TensorMut,
};

const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const PAGE_SIZE: usize = 4;

/// A sequence: its tokens in the cache, those of this step, and its pages.
pub(crate) struct Sequence {
    cached: usize,
    new: usize,
    pages: Vec<i64>,
}

/// Rotates packed queries, `[tokens, heads, head_dim]`, on a number of threads.
pub(crate) fn rotate_on_threads(
    rope: Rope,
    q: &mut TensorMut<'_, f32>,
    rows: &Rows<'_>,
    threads: usize,
) -> Result<(), Error> {
    let tokens = rows.len();
    // Every part is cut before any thread starts, so that an error leaves all as it was.
    let mut parts = Vec::new();
    let (mut rest, mut first) = (q.reborrow(), 0);
    for thread in 0..threads {
        let end = tokens * (thread + 1) / threads;
        let (part, after) = rest.split_at(Dimension::Tokens, end - first)?;
        parts.push((part, rows.narrow(first..end)?));
        (rest, first) = (after, end);
    }
    let rotate = |(mut part, rows): (TensorMut<'_, f32>, Rows<'_>)| rope.rotate(&mut part, &rows);
    thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(move || rotate(part)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

pub(crate) fn main() -> Result<(), Error> {
    const HEADS: usize = 8;
    let frequencies = Frequencies::new(HEAD_DIM, 10_000.0, &Scaling::Default)?;
    let rope = Rope::new(Pairing::Half);

    // A prompt, the second chunk of another, and two sequences that decode.
    let sequences = [
        Sequence {
            cached: 0,
            new: 7,
            pages: vec![3, 0],
        },
        Sequence {
            cached: 4,
            new: 5,
            pages: vec![5, 1, 9],
        },
        Sequence {
            cached: 9,
            new: 1,
            pages: vec![2, 8, 6],
        },
        Sequence {
            cached: 0,
            new: 1,
            pages: vec![7],
        },
    ];
    // The scheduler's lists: where each sequence begins among the packed tokens, and from which position it goes on.
    let starts: Vec<i64> = sequences
        .iter()
        .map(|sequence| sequence.cached as i64)
        .collect();
    let mut offsets = vec![0];
    for sequence in &sequences {
        offsets.push(offsets[offsets.len() - 1] + sequence.new as i64);
    }
    let tokens = offsets[sequences.len()] as usize;
    let rows = frequencies.rows(Positions::packed_from(&offsets, &starts)?)?;
    let slots: Vec<i64> = sequences
        .iter()
        .flat_map(|Sequence { cached, new, pages }| {
            (*cached..cached + new).map(|position| {
                pages[position / PAGE_SIZE] * PAGE_SIZE as i64 + (position % PAGE_SIZE) as i64
            })
        })
        .collect();

    let numbers = |heads: usize| -> Vec<f32> {
        (0..tokens * heads * HEAD_DIM)
            .map(|i| (i * 7919 % 1009) as f32 / 1009.0 - 0.5)
            .collect()
    };
    let (original, k) = (numbers(HEADS), numbers(KV_HEADS));
    let layout = CacheLayout::nhd([10, PAGE_SIZE, KV_HEADS, HEAD_DIM])?;
    for threads in 1..=5 {
        let mut q = original.clone();
        let mut x = TensorMut::new(&mut q, [1, tokens, HEADS, HEAD_DIM])?;
        rotate_on_threads(rope, &mut x, &rows, threads)?;
        let mut keys = vec![0.0_f32; layout.end()];
        rope.rotate_into(
            &Tensor::new(&k, [1, tokens, KV_HEADS, HEAD_DIM])?,
            &mut CacheMut::new(&mut keys, layout)?.slots(Slots::from(&slots)),
            &rows,
        )?;

        // Each sequence alone.
        let mut first = 0;
        for Sequence { cached, new, .. } in &sequences {
            let rows = frequencies.rows(*cached..cached + new)?;
            let part = first * HEADS * HEAD_DIM..(first + new) * HEADS * HEAD_DIM;
            let mut alone = original[part.clone()].to_vec();
            rope.rotate(
                &mut TensorMut::new(&mut alone, [1, *new, HEADS, HEAD_DIM])?,
                &rows,
            )?;
            assert_eq!(q[part], alone);

            let token = KV_HEADS * HEAD_DIM;
            let mut alone = k[first * token..(first + new) * token].to_vec();
            rope.rotate(
                &mut TensorMut::new(&mut alone, [1, *new, KV_HEADS, HEAD_DIM])?,
                &rows,
            )?;
            for (slot, alone) in slots[first..first + new].iter().zip(alone.chunks(token)) {
                assert_eq!(keys[*slot as usize * token..][..token], *alone);
            }
            first += new;
        }
    }
    println!(
        "{tokens} tokens of {} sequences: with 1 to 5 threads the bits of each alone",
        sequences.len()
    );
    Ok(())
}
