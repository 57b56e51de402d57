//! Tables of cos and sin, and position ids: the rows of a call.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rope_core::error::RowsError;
use rope_core::internals::Count;
use rope_core::{Element, Rows};

use crate::runtime::{Result, Scalar, invalid};

/// Types that are rotated, by tables of the same type.
pub(crate) trait Rotated: Element + Scalar {
    /// The values themselves, of f32.
    fn as_f32(values: &[Self]) -> Option<&[f32]>;

    /// The same values as f32, which is exact.
    fn widen(values: &[Self], into: &mut [f32]);
}

impl Rotated for f32 {
    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }

    fn widen(values: &[Self], into: &mut [f32]) {
        into.copy_from_slice(values);
    }
}

macro_rules! of_16_bits {
    ($($E:ty)+) => {$(
        impl Rotated for $E {
            fn as_f32(_: &[Self]) -> Option<&[f32]> {
                None
            }

            fn widen(values: &[Self], into: &mut [f32]) {
                values.convert_to_f32_slice(into);
            }
        }
    )+};
}
of_16_bits!(f16 bf16);

/// Which rows of the tables are those of the tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ids<'a> {
    /// The rows in their order, one for each token of each sequence.
    All,
    /// As many as a sequence has tokens, from one on; all sequences share them.
    From(i64, usize),
    /// One for each token of each sequence.
    Each(&'a [i64]),
}

impl<'a> Ids<'a> {
    /// One id for each token of each sequence. Those that follow one another in each sequence, as they nearly always
    /// do, are rows of the table as it is: nothing is gathered.
    pub(crate) fn each(ids: &'a [i64], tokens: usize, rows: usize) -> Self {
        let Some(&start) = ids.first() else {
            return Ids::Each(ids);
        };
        let fit = usize::try_from(start)
            .ok()
            .and_then(|start| start.checked_add(tokens))
            .is_some_and(|end| end <= rows);
        let follow = |sequence: &[i64]| (start..).zip(sequence).all(|(next, id)| next == *id);
        match fit && ids.chunks(tokens).all(follow) {
            true => Ids::From(start, tokens),
            false => Ids::Each(ids),
        }
    }
}

/// Tables of the shape `[rows, pairs]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a, E> {
    pub(crate) cos: &'a [E],
    pub(crate) sin: &'a [E],
    pub(crate) rows: usize,
    pub(crate) pairs: usize,
}

/// The f32 of a table's rows that are on the stack, which are those of a few tokens: memory of the heap would cost as
/// much as the rotation of one.
const ON_STACK: usize = 256;

impl<E: Rotated> Tables<'_, E> {
    /// Runs with the rows of the tokens as f32. Tables of 16 bits may be of a million positions: only the rows that are
    /// used are converted.
    pub(crate) fn with_rows(
        &self,
        ids: Ids<'_>,
        run: impl FnOnce(&Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let Tables { rows, pairs, .. } = *self;
        let (start, count) = match ids {
            Ids::From(start, tokens) => (self.first(start, tokens)?, tokens),
            Ids::All | Ids::Each(_) => (0, rows),
        };
        let [cos, sin] =
            [self.cos, self.sin].map(|values| &values[start * pairs..][..count * pairs]);
        let rotary_dim = 2 * pairs;
        if let Some((cos, sin)) = E::as_f32(cos).zip(E::as_f32(sin)) {
            let table = Rows::from_cos_sin(cos, sin, [count, pairs], rotary_dim)?;
            return match ids {
                Ids::Each(ids) => run(&table.gather(ids)?),
                Ids::All | Ids::From(..) => run(&table),
            };
        }
        let count = match ids {
            Ids::Each(ids) => ids.len(),
            Ids::All | Ids::From(..) => count,
        };
        let (mut on_stack, mut on_heap) = ([0.0; ON_STACK], Vec::new());
        let widened = match 2 * count * pairs {
            size @ ..=ON_STACK => &mut on_stack[..size],
            size => {
                on_heap.resize(size, 0.0);
                &mut on_heap[..]
            }
        };
        let (cos_f32, sin_f32) = widened.split_at_mut(count * pairs);
        if let Ids::Each(ids) = ids {
            let into = cos_f32
                .chunks_exact_mut(pairs)
                .zip(sin_f32.chunks_exact_mut(pairs));
            for (index, (&id, (cos_f32, sin_f32))) in ids.iter().zip(into).enumerate() {
                let Some(row) = usize::try_from(id).ok().filter(|row| *row < rows) else {
                    return Err(rope_core::Error::Rows(RowsError::PositionOutsideTable {
                        index,
                        id,
                        rows,
                    })
                    .into());
                };
                E::widen(&cos[row * pairs..][..pairs], cos_f32);
                E::widen(&sin[row * pairs..][..pairs], sin_f32);
            }
        } else {
            E::widen(cos, cos_f32);
            E::widen(sin, sin_f32);
        }
        run(&Rows::from_cos_sin(
            cos_f32,
            sin_f32,
            [count, pairs],
            rotary_dim,
        )?)
    }

    /// The first of as many rows as there are tokens.
    fn first(&self, start: i64, tokens: usize) -> Result<usize> {
        let end = |start: &usize| start.checked_add(tokens).filter(|end| *end <= self.rows);
        let start_row = usize::try_from(start)
            .ok()
            .filter(|start| end(start).is_some());
        start_row.ok_or_else(|| {
            invalid(format!(
                "position_ids is [{start}] for {}; cos_cache has rows for positions 0..{}",
                Count(tokens, "tokens"),
                self.rows
            ))
        })
    }
}
