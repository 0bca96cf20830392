//! Finds which keys and ticks of new events already belong to events in pieces (F25). The lookup
//! first compares ticks and keys with the ranges of pieces and blocks: events that arrive in order
//! are outside of all ranges, and need no read.

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{Gsn, Result, Tick};

use crate::{
    events::{keys::Groups, part_events::ColumnSelection, shape::KeyColumns},
    version::{Version, fence::Fence, piece::is_behind},
};

/// An event in a tablet or story, and its place.
#[derive(Debug, Clone, Copy)]
pub struct StoredEvent {
    /// Arrival number.
    pub seq: u64,
    /// Number of the piece.
    pub piece: u64,
    /// Number of the part (block or row group) in the piece.
    pub part: u32,
    /// Row in the part.
    pub row: u32,
}

/// The result of a lookup: the requested keys and ticks that events in pieces already have.
#[derive(Debug)]
pub struct StoredKeys {
    epoch: u64,
    events: HashMap<(usize, i64), StoredEvent, RandomState>,
}

impl StoredKeys {
    /// An empty result for `version`, without a lookup.
    pub fn none(version: &Version) -> Self {
        Self { epoch: version.epoch(), events: HashMap::default() }
    }

    /// Searches the pieces for events that have the same key and tick as one of the given rows.
    /// `ticks` has the tick of each row. With `onwards`, also finds all later events with the same
    /// keys.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn find(
        version: &Version,
        groups: &Groups,
        ticks: &[i64],
        onwards: bool,
    ) -> Result<Self> {
        debug_assert!(
            groups.of_row.is_empty() || ticks.len() <= groups.of_row.len(),
            "a row has no group"
        );
        let mut stored_keys = Self::none(version);
        let (Some(first), Some(last)) = (ticks.iter().min(), ticks.iter().max()) else {
            return Ok(stored_keys);
        };
        // Shortcut: events that arrive in order have later ticks than all pieces.
        if *first >= version.pieces().ticks_end() {
            return Ok(stored_keys);
        }
        for piece in version.pieces().iter() {
            let hull = piece.record().ticks;
            if *first >= hull.end.0 || (!onwards && *last < hull.start.0) {
                continue;
            }
            // For each key group with a tick in the piece: lowest and highest tick to search for.
            let mut tick_bounds: HashMap<usize, (i64, i64), RandomState> = HashMap::default();
            for (row, tick) in ticks.iter().enumerate() {
                let there = match onwards {
                    true => *tick < hull.end.0,
                    false => hull.contains(Tick(*tick)),
                };
                if there {
                    let last = if onwards { i64::MAX } else { *tick };
                    let range = tick_bounds.entry(groups.group(row)).or_insert((*tick, last));
                    *range = (range.0.min(*tick), range.1.max(last));
                }
            }
            if tick_bounds.is_empty() {
                continue;
            }
            debug_assert!(
                tick_bounds.values().all(|(low, high)| low <= high),
                "the ticks of a lookup are reversed"
            );
            let fences: Vec<&Fence> = piece.fences_among(version.fences()).collect();
            let mut keys: Vec<(&[u8], usize)> = tick_bounds
                .keys()
                .filter_map(|group| Some((groups.keys.get(*group)?.as_ref(), *group)))
                .collect();
            keys.sort_unstable();
            for part in piece.parts().await? {
                let (first, last) = (part.keys.0.as_ref(), part.keys.1.as_ref());
                let start = keys.partition_point(|(key, _)| *key < first);
                let wanted = keys.get(start..).unwrap_or(&[]).iter();
                let wanted: Vec<_> = wanted
                    .take_while(|(key, _)| *key <= last)
                    .filter(|(_, group)| {
                        tick_bounds.get(group).is_some_and(|(low, high)| {
                            *low < part.hull.end.0 && part.hull.start.0 <= *high
                        })
                    })
                    .collect();
                if wanted.is_empty() {
                    continue;
                }
                let shape = piece.shape();
                let events = piece.read(part, &ColumnSelection::keys(shape)).await?;
                let keys = events.columns_at(&shape.keys.at)?;
                let places = (0..keys.len()).collect();
                let places = KeyColumns { at: places, fixed: shape.keys.fixed };
                let there = Groups::of(&keys, &places, events.rows)?;
                let by_key: HashMap<&[u8], usize, RandomState> = there
                    .keys
                    .iter()
                    .enumerate()
                    .map(|(group, key)| (key.as_ref(), group))
                    .collect();
                let mut of_group: HashMap<usize, usize, RandomState> = HashMap::default();
                for (key, group) in wanted {
                    of_group.extend(by_key.get(key).map(|there| (*there, *group)));
                }
                let numbers = events.ticks.iter().zip(events.seqs.iter()).zip(events.gsns.iter());
                for (row, ((tick, seq), gsn)) in numbers.enumerate() {
                    let Some(group) = of_group.get(&there.group(row)) else { continue };
                    let range = tick_bounds.get(group).copied().unwrap_or((0, 0));
                    let counts = (range.0..=range.1).contains(tick)
                        && !is_behind(&fences, Tick(*tick), *gsn)
                        && !version.pieces().is_replaced(*seq, Gsn(u64::MAX));
                    if counts {
                        let (piece, part) = (piece.record().id, part.number);
                        let (seq, row) = (seq.cast_unsigned(), row as u32);
                        let event = StoredEvent { seq, piece, part, row };
                        stored_keys.events.insert((*group, *tick), event);
                    }
                }
            }
        }
        Ok(stored_keys)
    }

    /// Epoch of the searched version: the result is invalid after the epoch changes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The arrival number of the event with this key and tick; `None` if no piece has such an
    /// event.
    pub fn seq(&self, group: usize, tick: i64) -> Option<u64> {
        self.event(group, tick).map(|event| event.seq)
    }

    /// The event with this key and tick, and its place.
    pub fn event(&self, group: usize, tick: i64) -> Option<StoredEvent> {
        if self.events.is_empty() {
            return None;
        }
        self.events.get(&(group, tick)).copied()
    }
}
