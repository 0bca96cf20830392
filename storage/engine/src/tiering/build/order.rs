//! Sorts the events of a piece: by key, then tick, then arrival number.

use super::rows::EventRows;
use crate::events::keys::Groups;

/// Returns the rows `chosen`, sorted by (key, tick, seq). `ranks` has the rank of each key group in
/// the order of the keys.
pub fn by_key(rows: &EventRows, groups: &Groups, ranks: &[u32], chosen: &[u32]) -> Vec<u32> {
    debug_assert_eq!(ranks.len(), groups.keys.len(), "a key has no rank");
    debug_assert!(
        chosen.iter().all(|row| (*row as usize) < rows.len()),
        "a row behind the last row is sorted"
    );
    let rank =
        |row: u32| ranks.get(groups.group(row as usize)).copied().unwrap_or_default() as usize;
    // Counting sort by key. `ends` has the start of each key's rows; after the loop below, their
    // end.
    let mut ends = vec![0_usize; ranks.len().max(1) + 1];
    for row in chosen {
        if let Some(count) = ends.get_mut(rank(*row) + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    debug_assert_eq!(sum, chosen.len(), "a row has no place");
    let mut sorted = vec![0; chosen.len()];
    for row in chosen {
        let Some(next) = ends.get_mut(rank(*row)) else { continue };
        if let Some(slot) = sorted.get_mut(*next) {
            *slot = *row;
        }
        *next += 1;
    }
    // Rows that arrived in order are already sorted.
    let place = |row: &u32| {
        let at = |values: &[i64]| values.get(*row as usize).copied().unwrap_or_default();
        (at(&rows.ticks), at(&rows.seqs))
    };
    let mut start = 0;
    for end in ends {
        let Some(of_key) = sorted.get_mut(start..end) else { continue };
        if !of_key.is_sorted_by_key(place) {
            of_key.sort_unstable_by_key(place);
        }
        start = end;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringViewArray};
    use stratalog_sim::Random;

    use super::*;
    use crate::{
        events::{
            column::Column,
            encode,
            shape::{KeyColumns, Shape},
        },
        tiering::build::ranks,
    };

    #[test]
    fn rows_are_sorted_by_key_tick_and_number() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let len = random.below(60) as usize;
            let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(
                (0..len).map(|_| format!("k{}", random.below(5))),
            ));
            let shape = Shape {
                version: stratalog_model::SchemaVersion(1),
                columns: vec![stratalog_model::ColumnId(1)],
                schema: encode::schema_of(&[keys.data_type().clone()]),
                tick_at: 0,
                tick_unit_ns: 1,
                keys: KeyColumns::fixed(if random.below(4) > 0 { vec![0] } else { Vec::new() }),
            };
            let columns = vec![Column::store(&keys).expect("a column")];
            let groups = Groups::of(&columns, &shape.keys, len).expect("groups");
            let rows = EventRows {
                shape: Arc::new(shape),
                columns,
                ticks: (0..len).map(|_| random.below(9) as i64).collect(),
                seqs: (0..len as i64).rev().collect(),
                gsns: vec![1; len],
            };
            let chosen: Vec<u32> = (0..len as u32).filter(|_| random.below(3) > 0).collect();
            let mut expected = chosen.clone();
            expected.sort_by_key(|row| {
                let at = *row as usize;
                (groups.keys[groups.group(at)].clone(), rows.ticks[at], rows.seqs[at])
            });
            assert_eq!(by_key(&rows, &groups, &ranks(&groups), &chosen), expected);
        }
    }
}
