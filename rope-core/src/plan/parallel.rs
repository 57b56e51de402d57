//! Calls on rayon's threads: each thread writes a part of the target. Tensors are cut along their longest stride,
//! caches between their blocks.
//!
//! The calling thread runs the first part: on two threads it waits for one thread to wake, not for two. There are no
//! more parts than threads. With smaller parts and work stealing, `[1, 64, 32, 128]` of f32 took longer on two threads
//! than on one.

use alloc::vec::Vec;
use core::ops::Range;

use super::gradient::PairGradients;
use super::window::narrowed;
use super::{Detour, DetourFns, InPlaceTensor, Rope, RunSums, RunTarget, Threads};
use crate::describe::frequencies::TokenAngles;
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::kernel::elements::{InPlaceKernels, OutOfPlaceKernels};
use crate::pass::{OperandMut, PartOfCall};
use crate::tuning::Tuning;
use crate::{Dimension, Error, Rows, Shape};

static THREADS: DetourFns = DetourFns {
    in_place,
    query_and_key: in_place,
    across,
    at: Some(at),
    threads: Some(&Threads { target, sums }),
};

impl<S: Copy> Rope<S> {
    /// Runs calls on the threads of the current rayon pool: each rotates, or writes, a part of the target. The bits are
    /// the same.
    ///
    /// A tensor is cut along the outermost dimension of its memory, a cache between its blocks, or between the slots of
    /// its only block. If two tokens have the same slot, the later one stays. Calls that cannot be cut run on one
    /// thread: caches whose blocks interleave, slots by [`offsets`](crate::cache::Slots::offsets), and a norm over all
    /// heads of a token if heads are outermost. So do calls with several outputs, and those of gradients.
    ///
    /// Small calls stay on the calling thread: less than 512 KiB if it belongs to the pool (within
    /// `ThreadPool::install`, say), and less than 4 MiB otherwise, because it must wait for the threads that it wakes.
    ///
    /// ```
    /// use rope_core::{Error, Pairing, Rope, Rows, TensorMut};
    ///
    /// let rope = Rope::new(Pairing::Half).with_threads();
    /// let mut x = [1.0_f32, 2.0];
    /// rope.rotate(&mut TensorMut::new(&mut x, [1, 1, 1, 2])?, &Rows::new(&[0.0, 1.0], [1, 2])?)?;
    /// assert_eq!(x, [-2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias(
        "rotate_parallel",
        "rotate_into_parallel",
        "rotate_qk_parallel",
        "rotate_at_parallel",
        "parallel"
    ))]
    pub fn with_threads(self) -> Self {
        Rope {
            detour: Some(Detour(&THREADS)),
            ..self
        }
    }
}

fn in_place<const N: usize>(
    rope: &Rope,
    tensors: [InPlaceTensor<'_>; N],
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let layouts = rope.windowed(tensors.each_ref().map(|(x, _)| x.layout), rows.rotary_dim())?;
    let tensors = narrowed(tensors, &layouts);
    let view = rows.view(rope.check_tensors(&tensors, rows)?);
    let factor = rows.attention_factor();
    let elements = tensors.each_ref().map(|(_, element)| *element);
    let parts = tensors.map(|(x, _)| Part::of(x));
    spread(rope.tuning, parts, |mut part| {
        let (element, rows) = (elements[part.tensor], view.skip(part.origin));
        rope.run_in_window(&mut part.target(), element, &rows, factor);
    });
    Ok(())
}

fn across(
    rope: &Rope,
    x: Bytes<'_>,
    y: &mut BytesMut<'_>,
    elements: [&'static OutOfPlaceKernels; 2],
    rows: &Rows<'_>,
) -> Result<(), Error> {
    let shape = x.layout.shape();
    let view = rope.check_windows(shape, y.layout.shape(), rows)?;
    let factor = rows.attention_factor();
    spread(rope.tuning, [Part::of(y.part(y.layout))], |mut part| {
        let rows = view.skip(part.origin);
        let layout = part.of_call(shape).of_tensor(x.layout);
        rope.run_windowed(
            x.within(&layout),
            &mut part.target(),
            elements,
            rows,
            factor,
        );
    });
    Ok(())
}

/// Runs a call that makes its rows. If heads are outermost in memory, each thread makes the rows of its heads.
fn at(
    rope: &Rope,
    mut x: BytesMut<'_>,
    element: &'static InPlaceKernels,
    at: &TokenAngles<'_>,
) -> Result<(), Error> {
    let layout = rope.window.layout(x.layout, at.kind().rotary_dim)?;
    let rows = rope.check_at(layout.shape(), at)?;
    let whole = Part::of(x.part(&layout));
    spread(rope.tuning, [whole], |mut part| {
        let origin = part.origin;
        rope.run_at(part.target(), element, &rows, origin);
    });
    Ok(())
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
            let whole = Part {
                by_heads,
                ..Part::of(x.part(x.layout))
            };
            spread(tuning, [whole], |mut part| {
                run(
                    part.of_call(call),
                    &mut OperandMut::Tensor(part.target(), element),
                );
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
}

impl<'a> Part<'a> {
    /// Creates the part that is all of a tensor.
    fn of(target: BytesMut<'a>) -> Self {
        Part {
            tensor: 0,
            by_heads: true,
            bytes: target.bytes,
            size: target.size,
            layout: *target.layout,
            origin: [0, 0, 0],
        }
    }

    fn target(&mut self) -> BytesMut<'_> {
        BytesMut {
            bytes: self.bytes,
            size: self.size,
            layout: &self.layout,
        }
    }

    /// Returns the part of a call of this shape that writes the part of the tensor.
    fn of_call(&self, call: Shape) -> PartOfCall {
        PartOfCall {
            origin: self.origin,
            shape: self.layout.shape(),
            call,
        }
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

/// Cuts tensors into one part of each per thread, and runs them.
fn spread<'a, const N: usize>(
    tuning: &Tuning,
    tensors: [Part<'a>; N],
    run: impl Fn(Part<'a>) + Sync,
) {
    let bytes = |part: &Part<'_>| {
        let elements = part.layout.shape().elements().unwrap_or(usize::MAX);
        elements.saturating_mul(part.size)
    };
    let all = tensors.iter().map(bytes).fold(0, usize::saturating_add);
    let count = threads(tuning, all);
    let tensors = tensors.into_iter().enumerate();
    let tensors = tensors.map(|(tensor, part)| Part { tensor, ..part });
    if count == 1 {
        return tensors.for_each(run);
    }
    let mut shares: Vec<Vec<Part<'a>>> = Vec::new();
    shares.resize_with(count, Vec::new);
    for part in tensors {
        let mut parts = Vec::new();
        part.cut(count, &mut parts);
        for (share, part) in shares.iter_mut().zip(parts) {
            share.push(part);
        }
    }
    on_threads(shares, run);
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
