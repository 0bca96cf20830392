//! Finds the *edge* of a story: the newest (or the oldest) event of each series. In each row group,
//! the rows of a series form a run in tick order: the event is at one end of a run.
//!
//! ```text
//!   row groups, newest first ─► runs ─► series new, or run maybe newer? ─► tick at its end
//!   places of the events ─► values of columns ─► cached with the story, a row per series
//! ```

use std::{ops::Range, sync::Arc};

use ahash::RandomState;
use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::{concat, interleave, take},
    datatypes::Int64Type,
};
use hashbrown::HashMap;
use stratalog_model::{
    Error, Result, TickRange, TickRanges,
    newest::{is_better, sort_from_end},
};
use stratalog_story::{CHUNK_ROWS, Finding, FindingKey, Source, Story, StoryEdge};

use super::{reader::PieceReader, series_selection::SeriesSelection};
use crate::{
    events::runs::{Runs, SeriesKeys, compacted},
    version::piece::Part,
};

/// If at least `1 / SHARE` of the series are wanted, the values of all series are read and cached.
const SHARE: usize = 8;

/// The edge event (newest or oldest) of each series in some row groups of a story.
#[derive(Debug)]
pub struct SeriesEdge {
    oldest: bool,
    /// The ticks of the events.
    pub ticks: Vec<i64>,
    /// Keys of the series; same order as `ticks`.
    pub series: SeriesKeys,
    /// Row group, and row in the group, of each event; ascending.
    places: Vec<(u32, u32)>,
}

impl Finding for SeriesEdge {
    /// The cache has one entry for the newest events, and one for the oldest (true).
    type Key = bool;

    fn cache_key(oldest: bool) -> FindingKey {
        FindingKey::Edge(StoryEdge::Series { oldest })
    }
}

/// The best event of a series so far.
#[derive(Debug, Clone, Copy)]
struct Event {
    tick: i64,
    group: u32,
    row: u32,
    /// Where to find the key of the series: index in the list of visited runs, and index of the
    /// series there.
    key: (usize, usize),
}

impl SeriesEdge {
    /// The edge over all row groups of a story; cached with the story.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn of_story(
        reader: &PieceReader,
        story: &Arc<Story>,
        parts: &[Part],
        oldest: bool,
    ) -> Result<Arc<Self>> {
        if let Some(known) = story.finding::<Self>(oldest) {
            return Ok(known);
        }
        let edge = Self::of(reader, story, parts.iter(), oldest, None).await?;
        let edge = Arc::new(edge);
        story.note(oldest, &edge, edge.bytes());
        Ok(edge)
    }

    /// The edge over some row groups. With `within`, the edge has only series that match the key
    /// filters, and only events with ticks in `within`.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn of(
        reader: &PieceReader,
        story: &Arc<Story>,
        parts: impl Iterator<Item = &Part>,
        oldest: bool,
        within: Option<&TickRanges>,
    ) -> Result<Self> {
        let mut parts: Vec<&Part> = parts.collect();
        sort_from_end(&mut parts, oldest, |part| part.hull);
        let better = |tick: i64, than: i64| is_better(oldest, tick, than);
        let mut found: HashMap<Box<[u8]>, Event, RandomState> = HashMap::default();
        let mut looked_at: Vec<Arc<Runs>> = Vec::new();
        for part in parts {
            let (runs, wanted) = match within {
                Some(_) => {
                    let SeriesSelection { runs, series } =
                        SeriesSelection::find(reader, story, part, None).await?;
                    (runs, series)
                }
                None => {
                    let runs = reader.runs(story, part).await?;
                    let all = (0..runs.len()).collect();
                    (runs, all)
                }
            };
            let bound = if oldest { part.hull.start.0 } else { part.hull.end.0 - 1 };
            let open = |run: &usize| {
                let known = runs.keys().get(*run).and_then(|key| found.get(key));
                known.is_none_or(|known| better(bound, known.tick))
            };
            let open: Vec<usize> = wanted.into_iter().filter(open).collect();
            let ranges: Vec<Range<usize>> = open
                .iter()
                .map(|run| match (within, oldest, runs.rows(*run)) {
                    (Some(_), _, rows) => rows,
                    (None, true, rows) => rows.start..rows.start + 1,
                    (None, false, rows) => rows.end - 1..rows.end,
                })
                .collect();
            if ranges.is_empty() {
                continue;
            }
            let columns = story.columns(part.number, &[Source::Tick], &ranges).await?;
            reader.request().metrics.story.read(ranges.len() as u64, columns.read_bytes());
            let ticks = columns.chunks(0);
            let everything = [TickRange::ALL];
            let wanted = within.map_or(everything.as_slice(), TickRanges::as_slice);
            for (run, rows) in open.iter().zip(ranges) {
                let Some((row, tick)) = end_of(ticks, rows, wanted, oldest)? else { continue };
                let Some(key) = runs.keys().get(*run) else { continue };
                let (group, row, key_at) = (part.number, row as u32, (looked_at.len(), *run));
                let event = Event { tick, group, row, key: key_at };
                match found.get_mut(key) {
                    Some(known) if better(tick, known.tick) => *known = event,
                    Some(_) => {}
                    None => {
                        found.insert(key.clone(), event);
                    }
                }
            }
            looked_at.push(runs);
        }
        let mut events: Vec<Event> = found.into_values().collect();
        events.sort_unstable_by_key(|event| (event.group, event.row));
        debug_assert!(
            events.is_sorted_by(|a, b| (a.group, a.row) < (b.group, b.row)),
            "two series have the same event"
        );
        let keys: Vec<(usize, usize)> = events.iter().map(|event| event.key).collect();
        let key_columns = reader.piece().shape().keys.at.len();
        let values = (0..key_columns).map(|at| {
            let of_runs = looked_at.iter().filter_map(|runs| runs.series().values().get(at));
            let of_runs: Vec<&dyn Array> = of_runs.map(AsRef::as_ref).collect();
            match of_runs.is_empty() {
                // No run was visited: the edge has no event.
                true => reader.no_key(at),
                false => Ok(interleave(&of_runs, &keys)?),
            }
        });
        Ok(Self {
            oldest,
            ticks: events.iter().map(|event| event.tick).collect(),
            series: SeriesKeys::new(values.collect::<Result<_>>()?, events.len()),
            places: events.iter().map(|event| (event.group, event.row)).collect(),
        })
    }

    fn bytes(&self) -> usize {
        self.series.bytes() + self.ticks.len() * size_of::<(i64, u32, u32)>()
    }

    /// Reads the values of columns for the events at the positions `wanted` (ascending) of this
    /// edge. Also returns the number of bytes read. With `kept`, the values may come from the cache
    /// of the story, and may go there.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn values(
        &self,
        story: &Arc<Story>,
        sources: &[Source],
        wanted: &[u32],
        kept: bool,
    ) -> Result<(Vec<ArrayRef>, u64)> {
        let kept = kept.then_some((StoryEdge::Series { oldest: self.oldest }, WHOLE_STORY));
        values(story, &self.places, sources, wanted, kept).await
    }
}

/// Id of the edge by series; groups of series have other ids.
const WHOLE_STORY: u64 = 0;

/// The values of one column for all events of an edge; cached with the story.
#[derive(Debug)]
struct KeptColumn {
    /// Id of the edge to which the values belong.
    edge: u64,
    values: ArrayRef,
}

impl Finding for KeptColumn {
    type Key = (StoryEdge, Source);

    fn cache_key((edge, column): Self::Key) -> FindingKey {
        FindingKey::EdgeColumn(edge, column)
    }
}

/// Reads the values of columns for the events at the positions `wanted` (ascending). Also returns
/// the number of bytes read. `events` has the row group and row of each event. For an edge cached
/// with the story, `kept` is the kind and the id of the edge; if many events are wanted, the
/// columns of all its events are then read and cached, too.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure`.
pub async fn values(
    story: &Arc<Story>,
    events: &[(u32, u32)],
    sources: &[Source],
    wanted: &[u32],
    kept: Option<(StoryEdge, u64)>,
) -> Result<(Vec<ArrayRef>, u64)> {
    debug_assert!(wanted.is_sorted_by(|a, b| a < b), "the wanted events are not in order");
    debug_assert!(
        wanted.last().is_none_or(|last| (*last as usize) < events.len()),
        "an unknown event is wanted"
    );
    let kept = kept.filter(|_| wanted.len() * SHARE >= events.len());
    let Some((edge, id)) = kept else {
        let places: Vec<(u32, u32)> =
            wanted.iter().filter_map(|at| events.get(*at as usize)).copied().collect();
        return gather(story, sources, &places).await;
    };
    let find = |source: &Source| {
        story.finding::<KeptColumn>((edge, *source)).filter(|kept| kept.edge == id)
    };
    let mut known: Vec<Option<Arc<KeptColumn>>> = sources.iter().map(find).collect();
    let lacking = sources.iter().zip(&known).filter(|(_, known)| known.is_none());
    let lacking: Vec<Source> = lacking.map(|(source, _)| *source).collect();
    let mut bytes = 0;
    if !lacking.is_empty() {
        let (read, read_bytes) = gather(story, &lacking, events).await?;
        bytes = read_bytes;
        let mut read = lacking.iter().zip(read);
        for slot in known.iter_mut().filter(|slot| slot.is_none()) {
            let Some((source, values)) = read.next() else { break };
            let values = compacted(&values);
            let bytes = values.get_array_memory_size();
            let column = Arc::new(KeptColumn { edge: id, values });
            story.note((edge, *source), &column, bytes);
            *slot = Some(column);
        }
    }
    let all = wanted.len() == events.len();
    let rows = UInt32Array::from_iter_values(wanted.iter().copied());
    let values = known.iter().flatten().map(|kept| match all {
        true => Ok(ArrayRef::clone(&kept.values)),
        false => Ok(take(kept.values.as_ref(), &rows, None)?),
    });
    let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
    debug_assert_eq!(values.len(), sources.len(), "a column of an edge is missing");
    Ok((values, bytes))
}

/// Finds the row of a run with the last tick (or with the first tick, if `oldest`) within `ranges`.
/// Returns the row and its tick.
fn end_of(
    ticks: &[(u32, ArrayRef)],
    rows: Range<usize>,
    ranges: &[TickRange],
    oldest: bool,
) -> Result<Option<(usize, i64)>> {
    let end = |range: &TickRange| -> Result<Option<(usize, i64)>> {
        let at = match oldest {
            true => bisect(ticks, &rows, range.start.0)?,
            false => match bisect(ticks, &rows, range.end.0)?.checked_sub(1) {
                Some(at) => at,
                None => return Ok(None),
            },
        };
        if !rows.contains(&at) {
            return Ok(None);
        }
        let tick = tick_at(ticks, at)?;
        Ok((range.start.0 <= tick && tick < range.end.0).then_some((at, tick)))
    };
    let mut ranges = ranges.iter();
    while let Some(range) = if oldest { ranges.next() } else { ranges.next_back() } {
        if let Some(found) = end(range)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The first row of the run `rows` with a tick at or after `tick`; the end of the run if there is
/// none.
pub fn bisect(ticks: &[(u32, ArrayRef)], rows: &Range<usize>, tick: i64) -> Result<usize> {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match tick_at(ticks, middle)? < tick {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    debug_assert!(rows.start <= low && low <= rows.end, "a search leaves its run");
    Ok(low)
}

fn tick_at(ticks: &[(u32, ArrayRef)], row: usize) -> Result<i64> {
    let number = row / CHUNK_ROWS;
    let chunk = ticks.binary_search_by_key(&number, |(chunk, _)| *chunk as usize);
    let chunk = chunk.ok().and_then(|at| ticks.get(at));
    let values = chunk.and_then(|(_, array)| array.as_primitive_opt::<Int64Type>());
    let tick = values.and_then(|values| values.values().get(row % CHUNK_ROWS));
    tick.copied().ok_or_else(|| Error::internal("a tick of a story was not read"))
}

/// Reads the values of columns for the events at `places` (row group and row, ascending). Also
/// returns the number of bytes read.
async fn gather(
    story: &Arc<Story>,
    sources: &[Source],
    places: &[(u32, u32)],
) -> Result<(Vec<ArrayRef>, u64)> {
    debug_assert!(places.is_sorted_by(|a, b| a < b), "the places of events are not in order");
    let missing = || Error::internal("rows of a story were not read");
    let mut of_groups: Vec<Vec<ArrayRef>> = vec![Vec::new(); sources.len()];
    let mut bytes = 0;
    for of_group in places.chunk_by(|a, b| a.0 == b.0) {
        let Some((group, _)) = of_group.first() else { continue };
        let ranges = of_group.iter().map(|(_, row)| *row as usize..*row as usize + 1);
        let columns = story.columns(*group, sources, &ranges.collect::<Vec<_>>()).await?;
        bytes += columns.read_bytes();
        for (at, out) in of_groups.iter_mut().enumerate() {
            let chunks = columns.chunks(at);
            let arrays: Vec<&dyn Array> = chunks.iter().map(|(_, array)| array.as_ref()).collect();
            let rows = of_group.iter().map(|(_, row)| {
                let number = row / CHUNK_ROWS as u32;
                let chunk = chunks.binary_search_by_key(&number, |(chunk, _)| *chunk);
                let chunk = chunk.map_err(|_| missing())?;
                Ok((chunk, *row as usize % CHUNK_ROWS))
            });
            out.push(interleave(&arrays, &rows.collect::<Result<Vec<_>>>()?)?);
        }
    }
    let whole = of_groups.into_iter().map(|arrays| match arrays.as_slice() {
        [one] => Ok(Arc::clone(one)),
        more => {
            let more: Vec<&dyn Array> = more.iter().map(AsRef::as_ref).collect();
            Ok(concat(&more)?)
        }
    });
    let whole: Vec<ArrayRef> = whole.collect::<Result<_>>()?;
    debug_assert!(whole.iter().all(|column| column.len() == places.len()), "an event has no value");
    Ok((whole, bytes))
}
