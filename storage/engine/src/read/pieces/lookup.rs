//! Lookup of keys among the events of pieces (F25). The lookup first compares with the hulls of
//! pieces and blocks. Events that arrive in order lie outside all hulls and need no read.

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{Gsn, Result, Tick};

use crate::{
    events::{keys::Groups, part_events::ColumnSelection, shape::KeyColumns},
    version::{Version, fence::Fence, piece::is_behind},
};

/// An event of a piece, and its place.
#[derive(Debug, Clone, Copy)]
pub struct StoredEvent {
    /// Arrival number.
    pub seq: u64,
    /// Number of the piece.
    pub piece: u64,
    /// Number of the part in the piece.
    pub part: u32,
    /// Row in the part.
    pub row: u32,
}

/// The keys and ticks of the lookup that events in pieces already have.
#[derive(Debug)]
pub struct StoredKeys {
    epoch: u64,
    events: HashMap<(usize, i64), StoredEvent, RandomState>,
}

impl StoredKeys {
    /// An empty result, without a lookup.
    pub fn none(version: &Version) -> Self {
        Self { epoch: version.epoch(), events: HashMap::default() }
    }

    /// Searches the pieces for events with the keys and `ticks` of rows. With `onwards`, the search
    /// also includes later events of the same keys.
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
        // Events that arrive in order lie behind all pieces, whatever the number of pieces.
        if *first >= version.pieces().ticks_end() {
            return Ok(stored_keys);
        }
        for piece in version.pieces().iter() {
            let hull = piece.record().ticks;
            if *first >= hull.end.0 || (!onwards && *last < hull.start.0) {
                continue;
            }
            // Lowest and highest tick to search for, for each group with a tick in the piece.
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

    /// Epoch of the version that the lookup has searched.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The arrival number of the event with this key and tick.
    pub fn seq(&self, group: usize, tick: i64) -> Option<u64> {
        self.event(group, tick).map(|event| event.seq)
    }

    /// The event with this key and tick.
    pub fn event(&self, group: usize, tick: i64) -> Option<StoredEvent> {
        if self.events.is_empty() {
            return None;
        }
        self.events.get(&(group, tick)).copied()
    }
}
