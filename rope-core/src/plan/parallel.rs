//! Rotations spread over rayon's threads: a part of the tensor for each, cut along its longest stride.
//!
//! The first part is rotated by the thread that calls, which so waits for one other thread to wake, and not for two.
//! There are no more parts than threads: with smaller ones, for whoever is done first to take, `[1, 64, 32, 128]` of
//! f32 took longer on two threads than on one.

use alloc::vec::Vec;

use super::erased::AnglesKind;
use super::operand::Angles;
use crate::describe::tensor::{Bytes, BytesMut, Layout};
use crate::kernel::element::Element;
use crate::tuning::Tuning;
use crate::{Dimension, Error, Rope, Rows, Tensor, TensorMut};

impl Rope {
    /// [`Rope::rotate`] of a tensor on the threads of the current rayon pool. The bits are the same. Where the call
    /// makes rows itself and heads lie outermost in memory, each thread makes the rows of its heads.
    ///
    /// What is too small to gain from a second thread stays on this one: less than 512 KiB where the caller is a thread
    /// of the pool (within `ThreadPool::install`, say), and less than 4 MiB where it is not, and has to wait for those
    /// that it wakes.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate`].
    pub fn rotate_parallel<E: Element>(
        &self,
        x: &mut TensorMut<'_, E>,
        angles: &impl Angles,
    ) -> Result<(), Error> {
        let layout = self.windowed(x.layout())?;
        let (shape, mut x) = (layout.shape(), x.bytes_mut());
        let whole = Part::of(x.part(&layout), ());
        match angles.angles().0 {
            None => {}
            Some(AnglesKind::Rows(rows)) => {
                let sharing = self.check_in_place(shape, rows)?;
                let (view, factor) = (rows.view(sharing), rows.attention_factor());
                spread(self.tuning(), [whole], |mut part| {
                    let rows = view.skip(part.origin);
                    self.run_in_place(&mut part.target(), E::IN_PLACE, &rows, factor);
                });
            }
            Some(AnglesKind::At(at, _)) => {
                let rows = self.check_at(shape, at)?;
                spread(self.tuning(), [whole], |mut part| {
                    let origin = part.origin;
                    self.run_at(part.target(), E::IN_PLACE, &rows, origin);
                });
            }
        }
        Ok(())
    }

    /// [`Rope::rotate_qk`] on the threads of the current rayon pool, Q and K together. The bits are the same.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_qk`].
    pub fn rotate_qk_parallel<Q: Element, K: Element>(
        &self,
        q: &mut TensorMut<'_, Q>,
        k: &mut TensorMut<'_, K>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        let (query, key) = (self.windowed(q.layout())?, self.windowed(k.layout())?);
        let sharing = self.check_qk(query.shape(), key.shape(), rows)?;
        let (view, factor) = (rows.view(sharing), rows.attention_factor());
        let (mut q, mut k) = (q.bytes_mut(), k.bytes_mut());
        let parts = [Part::of(q.part(&query), ()), Part::of(k.part(&key), ())];
        let elements = [Q::IN_PLACE, K::IN_PLACE];
        spread(self.tuning(), parts, |mut part| {
            let rows = view.skip(part.origin);
            let element = elements[part.tensor];
            self.run_in_place(&mut part.target(), element, &rows, factor);
        });
        Ok(())
    }

    /// [`Rope::rotate_into`] on the threads of the current rayon pool. The bits are the same.
    ///
    /// # Errors
    ///
    /// Those of [`Rope::rotate_into`].
    pub fn rotate_into_parallel<I: Element, O: Element>(
        &self,
        x: &Tensor<'_, I>,
        y: &mut TensorMut<'_, O>,
        rows: &Rows<'_>,
    ) -> Result<(), Error> {
        x.shape().check_same(y.shape())?;
        let windowed = self.windowed_shape(x.shape())?;
        let sharing = self.check_across(windowed, windowed, rows)?;
        let (view, factor) = (rows.view(sharing), rows.attention_factor());
        let source = (*x.layout(), x.bytes());
        spread(
            self.tuning(),
            [Part::of(y.bytes_mut(), source)],
            |mut part| {
                let rows = view.skip(part.origin);
                let (layout, whole) = part.source;
                let source = Bytes {
                    layout: &layout,
                    ..whole
                };
                let elements = [I::OUT_OF_PLACE, O::OUT_OF_PLACE];
                self.run_windowed(source, &mut part.target(), elements, rows, factor);
            },
        );
        Ok(())
    }
}

/// What a part is rotated from, if not where it is: nothing, or a layout and the tensor of which that is a part.
trait PartSource: Copy + Send {
    /// The same for indices `..at` of a dimension, and for the rest.
    fn split(self, dimension: Dimension, at: usize) -> (Self, Self);
}

impl PartSource for () {
    fn split(self, _: Dimension, _: usize) -> (Self, Self) {
        ((), ())
    }
}

impl PartSource for (Layout, Bytes<'_>) {
    fn split(self, dimension: Dimension, at: usize) -> (Self, Self) {
        let (first, rest) = self.0.split(dimension, at);
        ((first, self.1), (rest, self.1))
    }
}

/// A part of a tensor, and of what is rotated into it.
struct Part<'a, S> {
    /// Which of the tensors of the call.
    tensor: usize,
    bytes: &'a mut [u8],
    size: usize,
    layout: Layout,
    source: S,
    /// The first sequence, the first token and the first head.
    origin: [usize; 3],
}

impl<'a, S: PartSource> Part<'a, S> {
    /// All of a tensor.
    fn of(target: BytesMut<'a>, source: S) -> Self {
        Part {
            tensor: 0,
            bytes: target.bytes,
            size: target.size,
            layout: *target.layout,
            source,
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

    /// Cuts it in so many parts, as even as its indices allow, in fewer if there are not so many.
    fn cut(self, parts: usize, into: &mut Vec<Self>) {
        let (dimension, extent) = match self.layout.outermost() {
            Some(longest) if parts > 1 => longest,
            _ => return into.push(self),
        };
        let first_parts = parts / 2;
        let at = (extent * first_parts / parts).max(1);
        let (layout, rest, begin) = match self.layout.split_slice(dimension, at) {
            Ok(split) => split,
            Err(_) => unreachable!("parts along the longest stride do not interleave"),
        };
        let (source, rest_source) = self.source.split(dimension, at);
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
            source,
            ..self
        }
        .cut(first_parts, into);
        Part {
            bytes: rest_bytes,
            layout: rest,
            source: rest_source,
            origin: rest_origin,
            ..self
        }
        .cut(parts - first_parts, into);
    }
}

/// Cuts tensors in a part of each for every thread, and runs them.
fn spread<'a, S: PartSource, const N: usize>(
    tuning: &Tuning,
    tensors: [Part<'a, S>; N],
    run: impl Fn(Part<'a, S>) + Sync,
) {
    let bytes = |part: &Part<'_, S>| {
        let elements = part.layout.shape().elements().unwrap_or(usize::MAX);
        elements.saturating_mul(part.size)
    };
    let all = tensors.iter().map(bytes).fold(0, usize::saturating_add);
    let least = match rayon::current_thread_index() {
        Some(_) => tuning.thread_part,
        None => tuning.thread_part_outside,
    };
    let tensors = tensors.into_iter().enumerate();
    let tensors = tensors.map(|(tensor, part)| Part { tensor, ..part });
    // To ask for the number of threads starts them.
    let most = all / least;
    let count = if most > 1 {
        most.min(rayon::current_num_threads())
    } else {
        1
    };
    if count == 1 {
        return tensors.for_each(run);
    }
    let mut shares: Vec<Vec<Part<'a, S>>> = Vec::new();
    shares.resize_with(count, Vec::new);
    for part in tensors {
        let mut parts = Vec::new();
        part.cut(count, &mut parts);
        for (share, part) in shares.iter_mut().zip(parts) {
            share.push(part);
        }
    }
    let rotate = |share: Vec<Part<'a, S>>| share.into_iter().for_each(&run);
    let mut shares = shares.into_iter();
    let own = shares.next();
    rayon::in_place_scope(|scope| {
        for share in shares {
            let rotate = &rotate;
            scope.spawn(move |_| rotate(share));
        }
        own.map(&rotate)
    });
}
