//! Rows from slices, ranges of rows, and rows selected by ids.

use rope_core::error::RowsError;
use rope_core::{Error, Rows};

use super::number_of_any_size;
use crate::Source;
use crate::number::paint;

/// Tests any slices as rows, and any ids and ranges of them: nothing panics, and accepted rows hold the given values.
///
/// # Panics
///
/// If an assertion fails.
pub fn rows(source: &mut Source<'_>) {
    let mut cos: Vec<f32> = paint(source, 40);
    let sin: Vec<f32> = paint(source, 40);
    let len = source.below(41);
    let other = if source.once_in(4) {
        source.below(41)
    } else {
        len
    };
    let rotary_dim = number_of_any_size(source);
    let joined = source.once_in(2);
    let pairs = rotary_dim / 2;
    // PyTorch's cos keeps each value twice and is no joined row of cos and sin.
    if joined && rotary_dim <= len && source.once_in(4) {
        let last = len - rotary_dim;
        cos.copy_within(last..last + pairs, len - pairs);
    }
    let (cos, sin) = (&cos[..len], &sin[..other]);
    let stride = match source.below(4) {
        _ if joined => rotary_dim,
        0 => number_of_any_size(source),
        1 => rotary_dim,
        _ => pairs,
    };
    let whole = len.checked_div(stride).unwrap_or(0);
    let count = match source.below(4) {
        0 => number_of_any_size(source),
        _ => whole,
    };
    let table = if joined {
        Rows::new(cos, [count, rotary_dim])
    } else {
        Rows::from_cos_sin(cos, sin, [count, stride], rotary_dim)
    };
    let twice = |values: &[f32]| {
        let last = &values[(count - 1) * stride..];
        bits(&last[..pairs]).eq(bits(&last[pairs..]))
    };
    // Padding, and pairs that all turn by 45 degrees, have one common magnitude.
    let alike = |values: &[f32]| {
        let mut others = values.windows(2);
        values.iter().any(|value| *value != 1.0)
            && others.all(|two| two[0].abs().to_bits() == two[1].abs().to_bits())
    };
    let good = rotary_dim != 0
        && rotary_dim.is_multiple_of(2)
        && (stride == rotary_dim || stride == pairs)
        && count.checked_mul(stride) == Some(len)
        && (joined || len == other)
        && match joined {
            true => pairs < 2 || count == 0 || !twice(cos) || alike(&cos[len - pairs..]),
            false => stride == pairs || count == 0 || (twice(cos) && twice(sin)),
        };
    assert_eq!(
        table.is_ok(),
        good,
        "{len} and {other} by {rotary_dim}, [{count}, {stride}]: {table:?}"
    );
    let Ok(table) = table else {
        return;
    };
    assert_eq!(
        (table.len(), table.rotary_dim()),
        (len / stride, rotary_dim)
    );
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
        rows.row(row, 0)
            .map(|(cos, sin)| bits(cos).chain(bits(sin)).collect::<Vec<u32>>())
    };
    for row in 0..table.len() {
        assert_eq!(got(&table, row), Some(wanted(row)));
    }
    assert_eq!(got(&table, table.len()), None);
    let (start, end) = (number_of_any_size(source), number_of_any_size(source));
    let range = table.narrow(start..end);
    assert_eq!(range.is_ok(), start <= end && end <= table.len());
    let (first, part) = match range {
        Ok(range) => (start, range),
        Err(error) => {
            assert_eq!(
                error,
                Error::Rows(RowsError::Range {
                    start,
                    end,
                    rows: table.len()
                })
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
            assert_eq!(
                gathered.gather(&ids).map(|_| ()),
                Err(Error::Rows(RowsError::AlreadyGathered))
            );
        }
        (Err(error), Some(index)) => {
            assert_eq!(
                error,
                Error::Rows(RowsError::PositionOutsideTable {
                    index,
                    id: ids[index],
                    rows: part.len()
                })
            );
        }
        (result, _) => panic!("{ids:?} of {}: {result:?}", part.len()),
    }
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| value.to_bits())
}
