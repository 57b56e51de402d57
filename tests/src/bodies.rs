//! Whole tests from a source of choices: suites call them in a loop, fuzz targets with their bytes.

use half::{bf16, f16};
use rope_core::{Dimension, Error, Layout, Pairing, Rows, Strides, Tensor, TensorMut};

use crate::number::{self, paint, values};
use crate::{Number, Placed, Plan, Source, Stored, Turn, run};

/// Any rotation of any tensor: the bits of the oracle on every backend, and nothing else written.
///
/// # Panics
///
/// If a bit is wrong.
pub fn rotate(source: &mut Source<'_>) {
    let turns: Vec<Turn> = Turn::all().collect();
    let turn = source.one_of(&turns);
    if turn.input == turn.output && source.once_in(2) {
        match source.below(3) {
            0 => rotate_in_place::<f32>(source, turn),
            1 => rotate_in_place::<f16>(source, turn),
            _ => rotate_in_place::<bf16>(source, turn),
        }
    } else {
        match source.below(9) {
            0 => rotate_into::<f32, f32>(source, turn),
            1 => rotate_into::<f32, f16>(source, turn),
            2 => rotate_into::<f32, bf16>(source, turn),
            3 => rotate_into::<f16, f32>(source, turn),
            4 => rotate_into::<f16, f16>(source, turn),
            5 => rotate_into::<f16, bf16>(source, turn),
            6 => rotate_into::<bf16, f32>(source, turn),
            7 => rotate_into::<bf16, f16>(source, turn),
            _ => rotate_into::<bf16, bf16>(source, turn),
        }
    }
}

fn rotate_in_place<E: Number>(source: &mut Source<'_>, turn: Turn) {
    let (shape, rows) = shape_and_rows(source);
    let place = Placed::any(source, shape);
    let x = values::<E>(source, place.len);
    run::in_place(turn, &rows, &x, &place);
}

fn rotate_into<I: Number, O: Number>(source: &mut Source<'_>, turn: Turn) {
    let (shape, rows) = shape_and_rows(source);
    let (from, to) = (Placed::any(source, shape), Placed::any(source, shape));
    let x = values::<I>(source, from.len);
    let y = paint::<O>(source, to.len);
    run::into(turn, &rows, (&x, &from), (&y, &to));
}

/// A shape of some thousand elements at most, perhaps empty, and rows that fit it.
fn shape_and_rows(source: &mut Source<'_>) -> ([usize; 4], Stored) {
    let head_dim = match source.below(4) {
        0 => source.one_of(&[64, 72, 80, 96, 112, 128, 160, 192, 256]),
        1 => source.within(2, 300),
        _ => source.within(2, 70),
    };
    let rotary_dim = match source.below(3) {
        0 => 2 * source.within(1, head_dim / 2),
        _ => head_dim & !1,
    };
    let extent = |source: &mut Source<'_>, last: usize| {
        let extent = source.below(last + 1);
        // Seldom nothing.
        if extent == 0 && !source.once_in(8) {
            1
        } else {
            extent
        }
    };
    // More than one block of tokens, now and then.
    let most = if source.once_in(4) { 40 } else { 5 };
    let (batch, tokens, heads) = (extent(source, 3), extent(source, most), extent(source, 4));
    let rows = if source.once_in(2) {
        batch * tokens
    } else {
        tokens
    };
    (
        [batch, tokens, heads, head_dim],
        Stored::any(source, rows, rotary_dim / 2),
    )
}

/// Any shape, strides and sub-tensors, sane or not: nothing panics; what is accepted lies in the slice, its elements
/// apart, and can be split, rotated and copied.
///
/// # Panics
///
/// If that is not so.
pub fn tensor(source: &mut Source<'_>) {
    let mut data = paint::<f32>(source, 64);
    let len = source.below(65);
    let data = &mut data[..len];
    let Ok(layout) = layout(source) else {
        return;
    };
    check_layout(&layout);
    match Tensor::new(&*data, layout) {
        Ok(_) => {
            let empty = layout.end() == layout.offset();
            assert!(empty || layout.end() <= len, "{layout:?} of {len}");
        }
        Err(Error::OutOfBounds { needed, len: given }) => {
            assert_eq!((needed, given), (layout.end(), len));
            assert!(layout.end() > len, "{layout:?} of {len}");
        }
        Err(error) => panic!("{layout:?} of {len}: {error}"),
    }
    match TensorMut::new(&mut *data, layout) {
        Ok(tensor) => {
            check_apart(&layout, len);
            tensor_mut(source, tensor);
        }
        Err(Error::OutOfBounds { .. }) => {}
        Err(Error::Overlap { stride, needed, .. }) => assert!(stride < needed),
        Err(error) => panic!("{layout:?} of {len}: {error}"),
    }
}

fn tensor_mut(source: &mut Source<'_>, mut tensor: TensorMut<'_, f32>) {
    let shape = tensor.shape();
    assert_eq!(tensor.as_tensor().shape(), shape);
    let table: Vec<f32> = (0..64).map(|_| source.unit()).collect();
    let rows = Rows::new(&table[..source.below(table.len() + 1) & !1], 2).expect("whole rows");
    let rope = Plan::forward(source.one_of(&Pairing::ALL));
    let result = rope.rotate(&mut tensor, &rows);
    let (whole, fits) = (
        shape.head_dim >= 2,
        [Some(shape.tokens), shape.batch.checked_mul(shape.tokens)],
    );
    assert_eq!(
        result.is_ok(),
        whole && fits.contains(&Some(rows.len())),
        "{shape}: {result:?}"
    );
    let at = number_of_any_size(source);
    let dimension = dimension(source);
    let layout = *tensor.layout();
    let extent = extent(&layout, dimension);
    match tensor.split_at(dimension, at) {
        Ok((first, second)) => {
            let extents =
                [first.layout(), second.layout()].map(|layout| self::extent(layout, dimension));
            assert_eq!(extents, [at, extent - at]);
            check_layout(first.layout());
            check_layout(second.layout());
            for mut part in [first, second] {
                let tokens = part.shape().tokens;
                if let (Ok(rows), 2..) = (rows.range(0..tokens), part.shape().head_dim) {
                    rope.rotate(&mut part, &rows).expect("a row per token");
                }
            }
        }
        Err(Error::Range {
            start,
            end,
            extent: limit,
            ..
        }) => {
            assert!(at > extent && limit == extent && (start == at || end == at));
        }
        Err(Error::Interleaved { dimension: named }) => assert_eq!(named, dimension),
        Err(error) => panic!("{layout:?} split at {at}: {error}"),
    }
}

/// No two elements are in one place, and none is outside.
fn check_apart(layout: &Layout, len: usize) {
    let (shape, strides) = (layout.shape(), layout.strides());
    if layout.end() == layout.offset() {
        return;
    }
    let mut taken = vec![false; len];
    for batch in 0..shape.batch {
        for token in 0..shape.tokens {
            for head in 0..shape.heads {
                let first = layout.offset()
                    + batch * strides.batch
                    + token * strides.token
                    + head * strides.head;
                for place in &mut taken[first..first + shape.head_dim] {
                    assert!(!*place, "{layout:?} has two elements in one place");
                    *place = true;
                }
            }
        }
    }
}

/// The end is one past the last element.
fn check_layout(layout: &Layout) {
    let shape = layout.shape();
    let extents = [shape.batch, shape.tokens, shape.heads, shape.head_dim];
    if extents.contains(&0) {
        assert_eq!(layout.end(), layout.offset(), "{layout:?}");
        return;
    }
    let strides = layout.strides();
    let steps = [strides.batch, strides.token, strides.head, 1];
    let last = extents
        .iter()
        .zip(steps)
        .map(|(&extent, step)| (extent as u128 - 1) * step as u128);
    assert_eq!(
        layout.end() as u128,
        layout.offset() as u128 + last.sum::<u128>() + 1,
        "{layout:?}"
    );
}

fn layout(source: &mut Source<'_>) -> Result<Layout, Error> {
    let mut number = || number_of_any_size(source);
    let shape = [number(), number(), number(), number()];
    let strides = Strides {
        batch: number(),
        token: number(),
        head: number(),
    };
    let mut layout = match source.below(6) {
        0 => Layout::bshd(shape),
        1 => Layout::bhsd(shape),
        2 => Layout::sbhd(shape),
        3 => Layout::thd([shape[1], shape[2], shape[3]]),
        _ => Layout::strided(shape, strides),
    }?;
    for _ in 0..source.below(3) {
        let dimension = dimension(source);
        let (start, end) = (number_of_any_size(source), number_of_any_size(source));
        match layout.narrow(dimension, start..end) {
            Ok(narrowed) => layout = narrowed,
            Err(error) => {
                let extent = extent(&layout, dimension);
                assert!(start > end || end > extent, "{layout:?}: {error}");
                assert_eq!(
                    error,
                    Error::Range {
                        dimension,
                        start,
                        end,
                        extent
                    }
                );
            }
        }
    }
    Ok(layout)
}

fn extent(layout: &Layout, dimension: Dimension) -> usize {
    let shape = layout.shape();
    match dimension {
        Dimension::Batch => shape.batch,
        Dimension::Tokens => shape.tokens,
        Dimension::Heads => shape.heads,
        Dimension::Channels => shape.head_dim,
    }
}

fn dimension(source: &mut Source<'_>) -> Dimension {
    source.one_of(&[
        Dimension::Batch,
        Dimension::Tokens,
        Dimension::Heads,
        Dimension::Channels,
    ])
}

/// Small as a rule, huge now and then.
fn number_of_any_size(source: &mut Source<'_>) -> usize {
    match source.below(24) {
        0 => usize::MAX - source.below(3),
        1 => 1 << source.below(usize::BITS as usize),
        2 => source.below(64),
        _ => source.below(5),
    }
}

/// Any slices as rows, and any ids and ranges of them: nothing panics, and what is accepted is what was given.
///
/// # Panics
///
/// If that is not so.
pub fn rows(source: &mut Source<'_>) {
    let cos: Vec<f32> = number::paint(source, 40);
    let sin: Vec<f32> = number::paint(source, 40);
    let len = source.below(41);
    let other = if source.once_in(4) {
        source.below(41)
    } else {
        len
    };
    let rotary_dim = number_of_any_size(source);
    let (cos, sin) = (&cos[..len], &sin[..other]);
    let joined = source.once_in(2);
    let stride = if joined {
        rotary_dim
    } else {
        number_of_any_size(source)
    };
    let table = if joined {
        Rows::new(cos, rotary_dim)
    } else {
        Rows::from_cos_sin(cos, sin, rotary_dim, stride)
    };
    let good = rotary_dim != 0
        && rotary_dim.is_multiple_of(2)
        && stride >= rotary_dim / 2
        && len.is_multiple_of(stride)
        && (joined || len == other);
    assert_eq!(
        table.is_ok(),
        good,
        "{len} and {other} by {rotary_dim}, {stride}: {table:?}"
    );
    let Ok(table) = table else {
        return;
    };
    assert_eq!(
        (table.len(), table.rotary_dim()),
        (len / stride, rotary_dim)
    );
    let pairs = rotary_dim / 2;
    let wanted = |row: usize| {
        let cos_row = &cos[row * stride..][..pairs];
        let sin_row = if joined {
            &cos[row * stride + pairs..][..pairs]
        } else {
            &sin[row * stride..][..pairs]
        };
        bits(cos_row).chain(bits(sin_row)).collect::<Vec<u32>>()
    };
    let got = |rows: &Rows<'_>, row: usize| {
        rows.row(row)
            .map(|(cos, sin)| bits(cos).chain(bits(sin)).collect::<Vec<u32>>())
    };
    for row in 0..table.len() {
        assert_eq!(got(&table, row), Some(wanted(row)));
    }
    assert_eq!(got(&table, table.len()), None);
    let (start, end) = (number_of_any_size(source), number_of_any_size(source));
    let range = table.range(start..end);
    assert_eq!(range.is_ok(), start <= end && end <= table.len());
    let (first, part) = match range {
        Ok(range) => (start, range),
        Err(error) => {
            assert_eq!(
                error,
                Error::RowRange {
                    start,
                    end,
                    rows: table.len()
                }
            );
            (0, table.clone())
        }
    };
    for row in 0..part.len() {
        assert_eq!(got(&part, row), Some(wanted(first + row)));
    }
    let ids: Vec<i64> = (0..source.below(5))
        .map(|_| match source.below(16) {
            0 => -1,
            1 => i64::from(source.word()),
            2 => i64::MIN,
            _ => source.below(part.len()) as i64,
        })
        .collect();
    let outside = ids
        .iter()
        .position(|&id| id < 0 || id as u64 >= part.len() as u64);
    match (part.gather(&ids), outside) {
        (Ok(gathered), None) => {
            assert_eq!(gathered.len(), ids.len());
            for (row, &id) in ids.iter().enumerate() {
                assert_eq!(got(&gathered, row), Some(wanted(first + id as usize)));
            }
            assert_eq!(gathered.gather(&ids).map(|_| ()), Err(Error::GatheredTwice));
        }
        (Err(error), Some(index)) => {
            assert_eq!(
                error,
                Error::PositionOutsideTable {
                    index,
                    id: ids[index],
                    rows: part.len()
                }
            );
        }
        (result, _) => panic!("{ids:?} of {}: {result:?}", part.len()),
    }
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| value.to_bits())
}
