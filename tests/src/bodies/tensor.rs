//! Shapes, strides and sub-tensors.

use rope_core::error::ShapeError;
use rope_core::{Dimension, Error, Layout, Pairing, Rope, Rows, Shape, Strides, Tensor, TensorMut};

use super::number_of_any_size;
use crate::Source;
use crate::number::paint;

/// Tests any shape, strides and sub-tensors, valid or not: nothing panics, and the elements of an accepted layout lie
/// in the slice, are distinct, and can be split, rotated and copied.
///
/// # Panics
///
/// If that is not so.
pub fn tensor(source: &mut Source<'_>) {
    let Some(layout) = layout(source) else {
        return;
    };
    check_layout(&layout);
    let len = source.below(65);
    let data = &mut paint::<f32>(source, len)[..];
    match Tensor::new(&*data, layout) {
        Ok(_) => {
            let empty = layout.end() == layout.offset();
            assert!(empty || layout.end() <= len, "{layout:?} of {len}");
        }
        Err(Error::Shape(ShapeError::OutOfBounds { needed, len: given })) => {
            assert_eq!((needed, given), (layout.end(), len));
            assert!(layout.end() > len, "{layout:?} of {len}");
        }
        Err(error) => panic!("{layout:?} of {len}: {error}"),
    }
    check_whole(layout.shape(), data);
    match TensorMut::new(&mut *data, layout) {
        Ok(tensor) => {
            check_apart(&layout, len);
            tensor_mut(source, tensor);
        }
        Err(Error::Shape(ShapeError::OutOfBounds { .. })) => {}
        Err(Error::Shape(ShapeError::Overlap { stride, needed, .. })) => assert!(stride < needed),
        Err(error) => panic!("{layout:?} of {len}: {error}"),
    }
}

/// Asserts that a shape covers a whole slice, of neither more elements nor fewer.
fn check_whole(shape: Shape, data: &mut [f32]) {
    let len = data.len();
    let of = |len: usize| match Layout::bshd(shape) {
        Ok(layout) if layout.end() == len => Ok(layout),
        Ok(_) => Err(Error::ShapeElements { shape, len }),
        Err(error) => Err(error),
    };
    for len in [Some(len), shape.elements()] {
        let Some(data) = len.and_then(|len| data.get_mut(..len)) else {
            continue;
        };
        let expected = of(data.len());
        let made = Tensor::new(&*data, shape).map(|tensor| *tensor.layout());
        assert_eq!(made, expected);
        let made = TensorMut::new(data, extents(shape)).map(|tensor| *tensor.layout());
        assert_eq!(made, expected);
    }
}

fn tensor_mut(source: &mut Source<'_>, mut tensor: TensorMut<'_, f32>) {
    let shape = tensor.shape();
    assert_eq!(tensor.as_tensor().shape(), shape);
    let table: Vec<f32> = (0..64).map(|_| source.unit()).collect();
    let count = source.below(table.len() + 1) / 2;
    let rows = Rows::new(&table[..2 * count], [count, 2]).expect("whole rows");
    let rope = Rope::new(source.one_of(&Pairing::ALL));
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
                if let (Ok(rows), 2..) = (rows.narrow(0..tokens), part.shape().head_dim) {
                    rope.rotate(&mut part, &rows).expect("a row per token");
                }
            }
        }
        Err(Error::Shape(ShapeError::Range {
            start,
            end,
            extent: limit,
            ..
        })) => {
            assert!(at > extent && limit == extent && (start == at || end == at));
        }
        Err(Error::Shape(ShapeError::PartsInterleave { dimension: named })) => {
            assert_eq!(named, dimension)
        }
        Err(error) => panic!("{layout:?} split at {at}: {error}"),
    }
}

/// Asserts that no two elements share a place and that no element lies outside the slice.
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

/// Asserts that the end is one past the last element and that there are as many elements as indices.
fn check_layout(layout: &Layout) {
    let shape = layout.shape();
    if extents(shape).contains(&0) {
        assert_eq!(layout.end(), layout.offset(), "{layout:?}");
        assert_eq!(shape.elements(), Some(0), "{layout:?}");
        return;
    }
    assert_eq!(
        layout.end() as u128,
        layout.offset() as u128 + reach(shape, layout.strides()),
        "{layout:?}"
    );
    assert_eq!(shape.elements(), product(shape), "{layout:?}");
}

/// Asserts that a layout refused for its size is too large.
fn check_overflow(error: Error, shape: [usize; 4], strides: Strides) {
    match error {
        Error::Shape(ShapeError::StrideOverflow { .. }) => {
            assert!(!shape.contains(&0), "{error}");
            assert!(reach(shape.into(), strides) > usize::MAX as u128, "{error}");
        }
        Error::Shape(ShapeError::Overflow { shape }) => assert_eq!(product(shape), None, "{error}"),
        error => panic!("{error}"),
    }
}

fn extents(shape: Shape) -> [usize; 4] {
    [shape.batch, shape.tokens, shape.heads, shape.head_dim]
}

/// Returns the elements from the first to the last, 0 for an empty shape.
fn reach(shape: Shape, strides: Strides) -> u128 {
    let steps = [strides.batch, strides.token, strides.head, 1];
    let last = extents(shape)
        .into_iter()
        .zip(steps)
        .map(|(extent, step)| (extent as u128 - 1) * step as u128);
    last.fold(1, u128::saturating_add)
}

/// Returns the product of the extents that are not zero.
fn product(shape: Shape) -> Option<usize> {
    extents(shape)
        .into_iter()
        .filter(|&extent| extent > 0)
        .try_fold(1_usize, usize::checked_mul)
}

type MakeLayout = fn([usize; 4], Strides) -> Result<Layout, Error>;

/// All constructors of layouts; the one with free strides is listed twice.
const LAYOUTS: &[MakeLayout] = &[
    |shape, _| Layout::bshd(shape),
    |[batch, tokens, heads, head_dim], _| Layout::bhsd([batch, heads, tokens, head_dim]),
    |[batch, tokens, heads, head_dim], _| Layout::sbhd([tokens, batch, heads, head_dim]),
    |[_, tokens, heads, head_dim], _| Layout::thd([tokens, heads, head_dim]),
    |shape, strides| Layout::strided(shape, strides),
    |shape, strides| Layout::strided(shape, strides),
];

fn layout(source: &mut Source<'_>) -> Option<Layout> {
    let mut number = || number_of_any_size(source);
    let shape = [number(), number(), number(), number()];
    let strides = Strides {
        batch: number(),
        token: number(),
        head: number(),
    };
    let layout = source.one_of(LAYOUTS)(shape, strides);
    let mut layout = layout
        .map_err(|error| check_overflow(error, shape, strides))
        .ok()?;
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
                    Error::Shape(ShapeError::Range {
                        dimension,
                        start,
                        end,
                        extent
                    })
                );
            }
        }
    }
    Some(layout)
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
