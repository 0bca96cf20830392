//! Finds the newest (or the oldest) event of each group of series, for a story with many series.
//! Unlike [`SeriesEdge`](super::edge::SeriesEdge), the cached result has a group number per event,
//! and no keys.
//!
//! ```text
//!   row groups ─► grouping columns, ticks ─► group number ─► best tick, its row group and row
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow::array::{ArrayRef, RecordBatch};
use stratalog_model::{
    ColumnId, Error, Result,
    newest::{Best, sort_from_end},
};
use stratalog_story::{Finding, FindingKey, Source, Story, StoryEdge};

use super::{edge, newest, reader::PieceReader};
use crate::{
    events::{column::Column, numberings::SeriesNumbers},
    read::newest::{EdgeCandidates, numbers_of},
    version::piece::Part,
};

/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 8_192;

/// If a row group has more rows than this and no cells, it has many series, and the cache cannot
/// hold all its series by key.
const ROWS_MANY: u64 = 1 << 14;

/// The newest (or oldest) event of each group of series in a story.
#[derive(Debug)]
pub struct GroupEdge {
    /// Unique id of this result, for the cache of its columns.
    id: u64,
    oldest: bool,
    /// The key columns that form the groups.
    keys: Vec<ColumnId>,
    ticks: Vec<i64>,
    /// Row group, and row in the group, of each event; ascending.
    places: Vec<(u32, u32)>,
    numbered: SeriesNumbers,
}

impl Finding for GroupEdge {
    /// The cache has one entry for the newest events, and one for the oldest (true).
    type Key = bool;

    fn cache_key(oldest: bool) -> FindingKey {
        FindingKey::Edge(StoryEdge::Groups { oldest })
    }
}

/// True if a story has large row groups without cells, which means many series.
///
/// # Errors
/// `Io`, `ConnectionFailure`.
pub async fn has_many_series(
    reader: &PieceReader,
    story: &Arc<Story>,
    parts: &[Part],
) -> Result<bool> {
    for part in parts.iter().filter(|part| part.rows > ROWS_MANY) {
        if !reader.has_cells(story, part).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl GroupEdge {
    /// The newest (or oldest) events of all groups of series of a story; cached with the story. The
    /// snapshot must see every event of the story.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn of_story(
        reader: &PieceReader,
        story: &Arc<Story>,
        parts: &[Part],
        best: &Best,
    ) -> Result<Arc<Self>> {
        let columns = &reader.request().chronicle.columns;
        let keys = best.of().keys.iter().filter_map(|at| Some(columns.get(*at)?.id));
        let keys: Vec<ColumnId> = keys.collect();
        let oldest = best.of().oldest;
        if let Some(known) = story.finding::<Self>(oldest)
            && known.keys == keys
        {
            return Ok(known);
        }
        let edge = Arc::new(Self::find(reader, story, parts, best, keys).await?);
        story.note(oldest, &edge, edge.bytes());
        Ok(edge)
    }

    async fn find(
        reader: &PieceReader,
        story: &Arc<Story>,
        parts: &[Part],
        best: &Best,
        keys: Vec<ColumnId>,
    ) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let reader = newest::of_keys(reader, best)?;
        let metrics = &reader.request().metrics.story;
        let mut parts: Vec<&Part> = parts.iter().collect();
        sort_from_end(&mut parts, best.of().oldest, |part| part.hull);
        // For each group number: tick, row group and row of the best event so far.
        let mut found: Vec<Option<(i64, u32, u32)>> = Vec::new();
        for part in parts {
            let sources = reader.sources(&part.hull)?;
            let fetched = story.fetch(part.number, &sources, None).await?;
            metrics.read(part.rows, fetched.bytes() as u64);
            metrics.compared(part.rows);
            let mut first = 0_u32;
            for batch in fetched.decode(BATCH_ROWS)? {
                let events = reader.events(&batch?, &part.hull)?;
                let columns = best.of().keys.iter().map(|at| reader.column(&events, *at));
                let columns = columns.collect::<Result<Vec<Column>>>()?;
                let numbers = numbers_of(best.numbers(), &columns, events.rows)?;
                for (row, (tick, number)) in events.ticks.iter().zip(numbers).enumerate() {
                    let number = number as usize;
                    if number >= found.len() {
                        found.resize((number + 1).next_power_of_two(), None);
                    }
                    if let Some(known) = found.get_mut(number)
                        && known.is_none_or(|(known, ..)| best.of().better(*tick, known))
                    {
                        *known = Some((*tick, part.number, first + row as u32));
                    }
                }
                first += events.rows as u32;
            }
        }
        let numbered = (0_u32..).zip(found);
        let mut events: Vec<(u32, u32, i64, u32)> = numbered
            .filter_map(|(number, found)| {
                found.map(|(tick, group, row)| (group, row, tick, number))
            })
            .collect();
        events.sort_unstable();
        debug_assert!(
            events.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)),
            "two groups have the same event"
        );
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            oldest: best.of().oldest,
            keys,
            ticks: events.iter().map(|event| event.2).collect(),
            places: events.iter().map(|event| (event.0, event.1)).collect(),
            numbered: SeriesNumbers::known(best, events.iter().map(|event| event.3).collect()),
        })
    }

    fn bytes(&self) -> usize {
        // Two integers of the place, a tick, and a group number per event.
        self.ticks.len() * (2 * size_of::<i64>() + size_of::<u32>())
    }

    /// The group numbers of the events. Reads the key columns again if the numbers are no longer in
    /// memory.
    async fn numbers(
        &self,
        reader: &PieceReader,
        story: &Arc<Story>,
        best: &Best,
    ) -> Result<Arc<[u32]>> {
        if let Some(known) = self.numbered.get(best) {
            return Ok(known);
        }
        let all: Vec<u32> = (0..self.ticks.len() as u32).collect();
        let keys = self.columns(reader, story, &best.of().keys, &all).await?;
        let keys: Vec<Column> = keys.into_iter().map(Column::Plain).collect();
        self.numbered.of(best, |numbers| numbers_of(numbers, &keys, all.len()))
    }

    /// Reads columns for the events at the positions `wanted`. The columns are positions in the
    /// request's definition.
    async fn columns(
        &self,
        reader: &PieceReader,
        story: &Arc<Story>,
        positions: &[usize],
        wanted: &[u32],
    ) -> Result<Vec<ArrayRef>> {
        debug_assert_eq!(self.places.len(), self.ticks.len(), "an event has no place");
        let sources = positions.iter().filter_map(|at| reader.source(*at));
        let sources: Vec<Source> = sources.collect();
        let kept = Some((StoryEdge::Groups { oldest: self.oldest }, self.id));
        let (values, bytes) = edge::values(story, &self.places, &sources, wanted, kept).await?;
        reader.request().metrics.story.read_on(0, bytes);
        let mut values = values.into_iter();
        let columns = positions.iter().map(|at| match reader.source(*at) {
            Some(_) => {
                values.next().ok_or_else(|| Error::internal("a column of a story was not read"))
            }
            None => reader.constant(*at, wanted.len()),
        });
        columns.collect()
    }

    /// The events that are better than the best events known so far.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn improved(
        &self,
        reader: &PieceReader,
        story: &Arc<Story>,
        best: &Best,
    ) -> Result<Option<RecordBatch>> {
        let request = reader.request();
        let numbers = self.numbers(reader, story, best).await?;
        debug_assert_eq!(numbers.len(), self.ticks.len(), "an event has no group");
        let tick_of = |at: u32| self.ticks.get(at as usize).copied().unwrap_or_default();
        let all = 0..self.ticks.len() as u32;
        let candidates = EdgeCandidates::of_series(best, &numbers, all, tick_of);
        if candidates.is_empty() {
            return Ok(None);
        }
        if request.projection.iter().any(|at| *at >= request.chronicle.columns.len()) {
            return Err(Error::internal("the newest events were asked for their numbers"));
        }
        request.metrics.story.read(candidates.rows.len() as u64, 0);
        let columns = self.columns(reader, story, &request.projection, &candidates.rows).await?;
        candidates.batch(&request.schema(), columns).map(Some)
    }
}
