//! Calls on rayon's threads: each thread writes a part of the target. Tensors are cut along their longest stride,
//! caches between their blocks.
//!
//! The calling thread runs the first part: on two threads it waits for one thread to wake, not for two. There are no
//! more parts than threads. With smaller parts and work stealing, `[1, 64, 32, 128]` of f32 took longer on two threads
//! than on one.

use alloc::vec::Vec;
use core::ops::Range;

use super::gradient::PairGradients;
use super::{RunSums, RunTarget, RunTensor, Threads};
use crate::describe::tensor::{BytesMut, Layout};
use crate::pass::{OperandMut, PartOfCall};
use crate::tuning::Tuning;
use crate::{Dimension, Shape};

pub(super) static THREADS: Threads = Threads {
    tensors,
    target,
    sums,
};

fn tensors(tuning: &Tuning, by_heads: bool, tensors: &mut [BytesMut<'_>], run: &RunTensor<'_>) {
    let bytes = |x: &BytesMut<'_>| {
        let elements = x.layout.shape().elements().unwrap_or(usize::MAX);
        elements.saturating_mul(x.size)
    };
    let all = tensors.iter().map(bytes).fold(0, usize::saturating_add);
    let count = threads(tuning, all);
    let tensors = tensors.iter_mut().enumerate().map(|(tensor, x)| Part {
        tensor,
        by_heads,
        bytes: x.bytes,
        size: x.size,
        layout: *x.layout,
        origin: [0; 3],
        call: x.layout.shape(),
    });
    if count == 1 {
        return tensors.for_each(|part| part.run(run));
    }
    let mut shares: Vec<Vec<Part<'_>>> = Vec::new();
    shares.resize_with(count, Vec::new);
    for part in tensors {
        let mut parts = Vec::new();
        part.cut(count, &mut parts);
        for (share, part) in shares.iter_mut().zip(parts) {
            share.push(part);
        }
    }
    on_threads(shares, |part| part.run(run));
}

fn target(
    tuning: &Tuning,
    call: Shape,
    by_heads: bool,
    target: &mut OperandMut<'_>,
    run: &RunTarget<'_>,
) {
    match target {
        OperandMut::Tensor(x, element) => {
            let element = *element;
            tensors(tuning, by_heads, &mut [x.part(x.layout)], &|_, of, x| {
                run(of, &mut OperandMut::Tensor(x, element));
            });
        }
        OperandMut::Cache(slots) => {
            let bytes = (call.elements().unwrap_or(usize::MAX)).saturating_mul(slots.stored.size());
            let count = threads(tuning, bytes);
            if count == 1 {
                return run(PartOfCall::whole(call), target);
            }
            let parts = slots.reborrow().cut(count, call.batch * call.tokens);
            let parts = parts.into_iter().map(|part| Vec::from([part])).collect();
            on_threads(parts, |(slots, tokens)| {
                let mut part = PartOfCall::whole(call);
                // With several sequences a part may have tokens of any of them.
                if call.batch == 1 {
                    part.origin[1] = tokens.start;
                    part.shape.tokens = tokens.len();
                }
                run(part, &mut OperandMut::Cache(slots));
            });
        }
    }
}

fn sums(
    tuning: &Tuning,
    call: Shape,
    size: usize,
    sums: &mut [PairGradients<'_>],
    run: &RunSums<'_>,
) {
    let bytes = (call.elements().unwrap_or(usize::MAX)).saturating_mul(size);
    let count = threads(tuning, bytes);
    if count == 1 {
        return run(PartOfCall::whole(call), sums);
    }
    // Sequences share their rows, or have one for each of their tokens.
    let rows = sums.first().map_or(0, |sums| sums.shape()[0]);
    let shared = rows == call.tokens;
    let mut rest: Vec<_> = sums.iter_mut().map(PairGradients::reborrow).collect();
    let mut share = |own: Range<usize>| {
        let (mut row, mut parts) = (own.start, Vec::new());
        while row < own.end {
            let (sequence, token) = (row / call.tokens, row % call.tokens);
            let tokens = (call.tokens - token).min(own.end - row);
            let (origin, batch) = match shared {
                true => ([0, token, 0], call.batch),
                false => ([sequence, token, 0], 1),
            };
            let shape = Shape {
                batch,
                tokens,
                ..call
            };
            let part = PartOfCall {
                origin,
                shape,
                call,
            };
            let sums: Vec<_> = rest.iter_mut().map(|sums| sums.take_rows(tokens)).collect();
            parts.push((part, sums));
            row += tokens;
        }
        parts
    };
    let at = |thread: usize| (rows as u128 * thread as u128 / count as u128) as usize;
    let shares = (0..count).map(|thread| share(at(thread)..at(thread + 1)));
    on_threads(shares.collect(), |(part, mut sums)| run(part, &mut sums));
}

/// A part of a tensor.
struct Part<'a> {
    /// Index of the tensor in the call.
    tensor: usize,
    /// `true` if the heads of a token may be in several parts.
    by_heads: bool,
    bytes: &'a mut [u8],
    size: usize,
    layout: Layout,
    /// The first sequence, token and head.
    origin: [usize; 3],
    /// The shape of the tensor.
    call: Shape,
}

impl<'a> Part<'a> {
    /// Runs the part.
    fn run(self, run: &RunTensor<'_>) {
        let of = PartOfCall {
            origin: self.origin,
            shape: self.layout.shape(),
            call: self.call,
        };
        let x = BytesMut {
            bytes: self.bytes,
            size: self.size,
            layout: &self.layout,
        };
        run(self.tensor, of, x);
    }

    /// Cuts the part into `parts` parts, as even as its indices allow, or fewer if it has fewer indices.
    fn cut(self, parts: usize, into: &mut Vec<Self>) {
        let (dimension, extent) = match self.layout.outermost() {
            Some((Dimension::Heads, _)) if !self.by_heads => return into.push(self),
            Some(longest) if parts > 1 => longest,
            _ => return into.push(self),
        };
        let first_parts = parts / 2;
        let at = (extent * first_parts / parts).max(1);
        let (layout, rest, begin) = match self.layout.split_slice(dimension, at) {
            Ok(split) => split,
            Err(_) => unreachable!("parts along the longest stride do not interleave"),
        };
        let (bytes, rest_bytes) = self.bytes.split_at_mut(begin * self.size);
        let [sequence, token, head] = self.origin;
        let rest_origin = match dimension {
            Dimension::Batch => [sequence + at, token, head],
            Dimension::Tokens => [sequence, token + at, head],
            Dimension::Heads => [sequence, token, head + at],
            Dimension::Channels => self.origin,
        };
        Part {
            bytes,
            layout,
            ..self
        }
        .cut(first_parts, into);
        Part {
            bytes: rest_bytes,
            layout: rest,
            origin: rest_origin,
            ..self
        }
        .cut(parts - first_parts, into);
    }
}

/// Returns the number of threads that pays for this many bytes.
fn threads(tuning: &Tuning, bytes: usize) -> usize {
    let least = match rayon::current_thread_index() {
        Some(_) => tuning.thread_part,
        None => tuning.thread_part_outside,
    };
    // Asking rayon for the number of threads starts them.
    match bytes / least {
        0 | 1 => 1,
        most => most.min(rayon::current_num_threads()),
    }
}

/// Runs the share of each thread, the first one on the calling thread.
fn on_threads<T: Send>(shares: Vec<Vec<T>>, run: impl Fn(T) + Sync) {
    let run_share = |share: Vec<T>| share.into_iter().for_each(&run);
    let mut shares = shares.into_iter();
    let own = shares.next();
    rayon::in_place_scope(|scope| {
        for share in shares {
            let run_share = &run_share;
            scope.spawn(move |_| run_share(share));
        }
        own.map(&run_share)
    });
}
