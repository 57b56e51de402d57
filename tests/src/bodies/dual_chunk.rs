//! The position ids of Dual Chunk Attention.

use rope_core::dual_chunk::{DualChunk, DualChunkQuery};
use rope_core::{Frequencies, Positions, Scaling};

use crate::Source;
#[cfg(feature = "capi")]
use crate::over_c::frequencies as over_c;

/// Tests chunks of any size and any positions: each id and the rows of the list of ids follow the definition.
///
/// # Panics
///
/// If an id or a row differs.
pub fn dual_chunk(source: &mut Source<'_>) {
    let chunk = match source.below(4) {
        0 => source.within(1, u32::MAX as usize),
        _ => source.within(1, 60),
    };
    let local = source.below(chunk);
    let chunks = DualChunk::new(chunk, local).expect("sizes");
    let query = source.one_of(&DualChunkQuery::ALL);
    let first = (source.wide() as i64) >> source.below(64);
    let count = source.below(50);
    let list: Vec<i64> = match source.below(2) {
        0 => (0..count as i64)
            .map_while(|step| first.checked_add(step))
            .collect(),
        _ => (0..count)
            .map(|_| (source.wide() as i64) >> source.below(64))
            .collect(),
    };
    let ids: Vec<i64> = list
        .iter()
        .map(|&position| {
            let (chunk, position) = (chunk as i128, i128::from(position));
            let len = chunk - local as i128;
            let own = (position % len + len) % len;
            let id = match query {
                DualChunkQuery::Intra => own,
                DualChunkQuery::Succ => (own + len).min(chunk),
                DualChunkQuery::Inter => (2 * len - 1).min(chunk),
                DualChunkQuery::SuccCritical => own + len,
                DualChunkQuery::InterCritical => own + chunk,
            };
            id as i64
        })
        .collect();
    let ours: Vec<i64> = list
        .iter()
        .map(|&position| chunks.id(query, position))
        .collect();
    assert_eq!(ours, ids, "{query:?} of {chunks:?}");

    let frequencies = Frequencies::new(16, 10_000.0, &Scaling::Default).expect("a base");
    let follow = list
        .windows(2)
        .all(|pair| Some(pair[1]) == pair[0].checked_add(1));
    let range = list.last().filter(|_| follow && source.once_in(2));
    let positions = match range {
        Some(&last) => Positions::from(list[0]..=last),
        None => Positions::from(&list),
    };
    let given = chunks.positions(query, positions).expect("one axis");
    let rows = frequencies.rows(given).expect("rows");
    let expected = frequencies.rows(&ids).expect("rows");
    assert_eq!(rows.len(), expected.len());
    #[cfg(feature = "capi")]
    {
        use rope::{rope_dual_chunk_query as Query, rope_positions_kind};
        let query = match query {
            DualChunkQuery::Intra => Query::Intra,
            DualChunkQuery::Succ => Query::Succ,
            DualChunkQuery::Inter => Query::Inter,
            DualChunkQuery::SuccCritical => Query::SuccCritical,
            DualChunkQuery::InterCritical => Query::InterCritical,
        };
        let positions = match range {
            // The end of a range in C is a position, too.
            Some(&last) if last < i64::MAX => rope::rope_positions_range(list[0], list.len()),
            _ => over_c::positions(rope_positions_kind::PerToken, &list, rope::rope_number::I64),
        };
        let dual_chunk = rope::rope_dual_chunk {
            query: query as i32,
            chunk_size: chunk,
            local_size: local,
        };
        let angles = frequencies.at(&ids).expect("rows");
        let positions = rope::rope_positions {
            dual_chunk,
            ..positions
        };
        over_c::Made::text(16).compare_rows(&positions, &angles);
    }
    for index in 0..ids.len() {
        assert_eq!(
            rows.row(index, 0),
            expected.row(index, 0),
            "{query:?} of {chunks:?}"
        );
    }
}
