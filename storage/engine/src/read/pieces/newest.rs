//! Finds the newest (or oldest) event of each group in tablets and stories. For most rows, the
//! search reads only keys and ticks.

use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::take,
};
use stratalog_model::{
    Error, Result, TickRange,
    newest::{Best, sort_from_end},
    tier::ScanRequest,
};
use stratalog_story::{Source, Story};

use super::{
    edge::SeriesEdge,
    group_edge::{GroupEdge, has_many_series},
    numbered_rows::numbered_rows,
    reader::PieceReader,
    row_groups,
};
use crate::{
    events::{
        budget::Budget,
        column::Column,
        keys::Groups,
        part_events::{ColumnSelection, PartEvents},
        runs::{Runs, SeriesKeys},
        shape::KeyColumns,
    },
    read::{
        journal_split::SharedRequest,
        newest::{EdgeCandidates, numbers_of},
    },
    version::piece::{BlockEdge, Part},
};

/// A block edge (see [`BlockEdge`]) is used only if at most `1 / BLOCK_SHARE` of the rows are ends
/// of runs.
const BLOCK_SHARE: usize = 4;

/// Number of rows of a row group decoded at a time: all of them.
const GROUP_ROWS: usize = usize::MAX;

/// A reader of the same piece that reads only ticks and the columns that form the groups.
///
/// # Errors
/// `Internal`.
pub fn of_keys(reader: &PieceReader, best: &Best) -> Result<PieceReader> {
    let request = reader.request();
    let tick = request.chronicle.columns.len();
    let projection = best.of().keys.iter().copied().chain([tick]).collect();
    let request = Arc::new(ScanRequest { projection, ..request.as_ref().clone() });
    let shared = reader.shared();
    let shared = SharedRequest::new(&request, Arc::clone(&shared.version), shared.visible)?;
    Ok(PieceReader::new(Arc::clone(reader.piece()), Arc::new(shared)))
}

/// The visible events of a part that are better than the best events known so far.
fn improved(
    reader: &PieceReader,
    events: &PartEvents,
    hull: &TickRange,
    best: &Best,
) -> Result<EdgeCandidates> {
    debug_assert_eq!(events.ticks.len(), events.rows, "ticks of events were not read");
    let keys = best.of().keys.iter().map(|at| reader.column(events, *at));
    let keys = keys.collect::<Result<Vec<Column>>>()?;
    let groups = Groups::of(&keys, &KeyColumns::all(keys.len()), events.rows)?;
    let tick_of = |row: u32| events.ticks.get(row as usize).copied().unwrap_or_default();
    Ok(match reader.seen(events, hull)? {
        Some(rows) => EdgeCandidates::among(best, &groups, rows.into_iter(), tick_of),
        None => EdgeCandidates::among(best, &groups, 0..events.rows as u32, tick_of),
    })
}

/// The group number of each series of `series`.
fn numbers(reader: &PieceReader, series: &SeriesKeys, best: &Best) -> Result<Arc<[u32]>> {
    let numbers = series.numbered.of(best, |numbers| {
        let keys = best.of().keys.iter().map(|at| reader.key_column(series, *at));
        let keys = keys.map(|keys| keys.map(Column::Plain)).collect::<Result<Vec<_>>>()?;
        numbers_of(numbers, &keys, series.len())
    })?;
    debug_assert_eq!(numbers.len(), series.len(), "a series has no number");
    Ok(numbers)
}

/// Adds the requested columns to the candidates.
fn complete(
    reader: &PieceReader,
    events: &PartEvents,
    candidates: EdgeCandidates,
) -> Result<RecordBatch> {
    debug_assert!(
        candidates.rows.iter().all(|row| (*row as usize) < events.rows),
        "a candidate lies outside of its part"
    );
    let rows: Vec<(usize, u32)> = candidates.rows.iter().map(|row| (0, *row)).collect();
    let columns = reader.batch(std::slice::from_ref(events), &rows)?.columns().to_vec();
    candidates.batch(&reader.request().schema(), columns)
}

/// Finds the candidates in some blocks of a tablet: events that are better than the best known so
/// far.
///
/// # Errors
/// `DataCorrupted`, `Io`.
pub fn of_tablet(
    reader: &PieceReader,
    mut parts: Vec<Part>,
    best: &Best,
    budget: &Arc<Budget>,
) -> Result<Vec<RecordBatch>> {
    in_order(&mut parts, best);
    let keys = of_keys(reader, best)?;
    let mut found = Vec::new();
    for part in &parts {
        if let Some(edge) = block_edge(reader, part, best.of().oldest)? {
            found.extend(of_block_edge(reader, part, &edge, best)?);
            continue;
        }
        let whole = reader.request().keys.is_empty() && all_are_wanted(reader, part);
        let candidates = match whole {
            true => {
                let rows = numbered_rows(&keys, part, best, budget)?;
                let tick_of = |row: u32| rows.ticks.get(row as usize).copied().unwrap_or_default();
                let all = 0..rows.numbers.len() as u32;
                EdgeCandidates::of_series(best, &rows.numbers, all, tick_of)
            }
            false => improved(&keys, &keys.read_at_hand(part)?, &part.hull, best)?,
        };
        if !candidates.is_empty() {
            let (events, bytes) =
                reader.piece().read_at_hand(part, &reader.column_selection(&part.hull))?;
            reader.request().metrics.tablet.bytes.fetch_add(bytes, Ordering::Relaxed);
            found.push(complete(reader, &events, candidates)?);
        }
    }
    Ok(found)
}

/// True if the snapshot sees all events of a block, and the request wants all their ticks.
fn all_are_wanted(reader: &PieceReader, part: &Part) -> bool {
    reader.sees_all(&part.hull) && reader.request().ticks.covers(&part.hull)
}

/// The newest (or oldest) event of each series of a block; computed once and cached. `None` if some
/// events of the block are not visible or not wanted, or if too many rows are ends of runs.
fn block_edge(reader: &PieceReader, part: &Part, oldest: bool) -> Result<Option<Arc<BlockEdge>>> {
    if !all_are_wanted(reader, part) {
        return Ok(None);
    }
    let piece = reader.piece();
    piece.edge((part.number, oldest), || {
        let key = &piece.shape().keys;
        let wanted =
            ColumnSelection { columns: key.at.clone(), ticks: true, ..ColumnSelection::default() };
        let (events, bytes) = piece.read_at_hand(part, &wanted)?;
        reader.request().metrics.tablet.read(part.rows, bytes);
        let runs = Runs::of(&events.columns_at(&key.at)?, key, events.rows)?;
        if runs.len() * BLOCK_SHARE > events.rows {
            return Ok(None);
        }
        let end = |run: usize| match oldest {
            true => runs.rows(run).start as u32,
            false => runs.rows(run).end.saturating_sub(1) as u32,
        };
        let rows: Vec<u32> = (0..runs.len()).map(end).collect();
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "the ends of runs are not in order");
        let tick = |row: &u32| events.ticks.get(*row as usize).copied().unwrap_or_default();
        let ticks = rows.iter().map(tick).collect();
        Ok(Some(BlockEdge { rows, ticks, series: runs.series().clone() }))
    })
}

/// The events of a block edge that are better than the best known so far.
fn of_block_edge(
    reader: &PieceReader,
    part: &Part,
    edge: &BlockEdge,
    best: &Best,
) -> Result<Option<RecordBatch>> {
    debug_assert_eq!(edge.rows.len(), edge.series.len(), "a series has no row");
    debug_assert_eq!(edge.ticks.len(), edge.series.len(), "a series has no tick");
    let numbers = numbers(reader, &edge.series, best)?;
    let tick_of = |at: u32| edge.ticks.get(at as usize).copied().unwrap_or_default();
    let matching = reader.matching(&edge.series)?.into_iter().map(|at| at as u32);
    let mut candidates = EdgeCandidates::of_series(best, &numbers, matching, tick_of);
    if candidates.is_empty() {
        return Ok(None);
    }
    let row_of = |at: u32| edge.rows.get(at as usize).copied().unwrap_or_default();
    candidates.rows.iter_mut().for_each(|at| *at = row_of(*at));
    let (events, bytes) =
        reader.piece().read_at_hand(part, &reader.column_selection(&part.hull))?;
    reader.request().metrics.tablet.bytes.fetch_add(bytes, Ordering::Relaxed);
    complete(reader, &events, candidates).map(Some)
}

/// Finds the candidates in some row groups of a story: events that are better than the best known
/// so far.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure`.
pub async fn of_story(
    reader: &PieceReader,
    story: &Arc<Story>,
    parts: &[Part],
    best: &Best,
) -> Result<Vec<RecordBatch>> {
    let mut found = Vec::new();
    let ticks = &reader.request().ticks;
    let wanted = |part: &&Part| ticks.overlaps(&part.hull);
    let (seen, mut others): (Vec<Part>, Vec<Part>) =
        parts.iter().filter(wanted).cloned().partition(|part| reader.sees_all(&part.hull));
    if !seen.is_empty() {
        let whole = others.is_empty() && reaches_end(reader, best);
        let many = has_many_series(reader, story, &seen).await?;
        let filtered = !reader.request().keys.is_empty();
        let oldest = best.of().oldest;
        match (many, filtered) {
            (true, false) if whole => {
                let edge = GroupEdge::of_story(reader, story, parts, best).await?;
                found.extend(edge.improved(reader, story, best).await?);
            }
            // With many series, reading the keys of all series costs more than reading the wanted
            // rows.
            (true, false) => others.extend(seen),
            (false, _) if whole => {
                let edge = SeriesEdge::of_story(reader, story, parts, oldest).await?;
                found.extend(of_edge(reader, story, &edge, best, whole).await?);
            }
            _ => {
                let edge = SeriesEdge::of(reader, story, seen.iter(), oldest, Some(ticks)).await?;
                found.extend(of_edge(reader, story, &edge, best, false).await?);
            }
        }
    }
    in_order(&mut others, best);
    let keys = of_keys(reader, best)?;
    for part in &others {
        let Some(selection) = row_groups::select(reader, story, part).await? else { continue };
        let sources = keys.sources(&part.hull)?;
        let fetched = story.fetch(part.number, &sources, Some(&selection)).await?;
        keys.request().metrics.story.read(fetched.rows() as u64, fetched.bytes() as u64);
        let Some(batch) = fetched.decode(GROUP_ROWS)?.next() else { continue };
        let candidates = improved(&keys, &keys.events(&batch?, &part.hull)?, &part.hull, best)?;
        if !candidates.is_empty() {
            let sources = reader.sources(&part.hull)?;
            let fetched = story.fetch(part.number, &sources, Some(&selection)).await?;
            let bytes = fetched.bytes() as u64;
            reader.request().metrics.story.bytes.fetch_add(bytes, Ordering::Relaxed);
            let Some(batch) = fetched.decode(GROUP_ROWS)?.next() else { continue };
            let events = reader.events(&batch?, &part.hull)?;
            found.push(complete(reader, &events, candidates)?);
        }
    }
    Ok(found)
}

/// True if the newest (or oldest) event of each series of the story is always wanted: the wanted
/// ticks are one range that contains the newest (or oldest) end of the story.
fn reaches_end(reader: &PieceReader, best: &Best) -> bool {
    let hull = reader.piece().record().ticks;
    let mut ranges = reader.request().ticks.as_slice().iter().filter(|range| range.overlaps(&hull));
    let (Some(range), None) = (ranges.next(), ranges.next()) else { return false };
    match best.of().oldest {
        true => range.start <= hull.start,
        false => range.end >= hull.end,
    }
}

/// The wanted events of an edge that are better than the best known so far.
async fn of_edge(
    reader: &PieceReader,
    story: &Arc<Story>,
    edge: &SeriesEdge,
    best: &Best,
    kept: bool,
) -> Result<Option<RecordBatch>> {
    debug_assert_eq!(edge.ticks.len(), edge.series.len(), "a series has no tick");
    let request = reader.request();
    let numbers = numbers(reader, &edge.series, best)?;
    let tick_of = |at: u32| edge.ticks.get(at as usize).copied().unwrap_or_default();
    let matching = reader.matching(&edge.series)?.into_iter().map(|at| at as u32);
    let matching =
        matching.filter(|at| request.ticks.contains(stratalog_model::Tick(tick_of(*at))));
    let candidates = EdgeCandidates::of_series(best, &numbers, matching, tick_of);
    if candidates.is_empty() {
        return Ok(None);
    }
    let rows = UInt32Array::from(candidates.rows.clone());
    let user = request.chronicle.columns.len();
    let mut columns: Vec<Option<ArrayRef>> = Vec::with_capacity(request.projection.len());
    let mut sources: Vec<Source> = Vec::new();
    for at in &request.projection {
        if *at >= user {
            return Err(Error::internal("the newest events were asked for their numbers"));
        }
        let is_key = request
            .chronicle
            .columns
            .get(*at)
            .is_some_and(|column| request.chronicle.key_columns.contains(&column.id));
        columns.push(match (is_key, reader.source(*at)) {
            (true, _) => Some(take(&reader.key_column(&edge.series, *at)?, &rows, None)?),
            (false, None) => Some(reader.constant(*at, candidates.rows.len())?),
            (false, Some(source)) => {
                sources.push(source);
                None
            }
        });
    }
    let (values, bytes) = edge.values(story, &sources, &candidates.rows, kept).await?;
    request.metrics.story.read(candidates.rows.len() as u64, bytes);
    let mut values = values.into_iter();
    let columns = columns.into_iter().map(|column| column.or_else(|| values.next()));
    let columns: Option<Vec<ArrayRef>> = columns.collect();
    let columns = columns.ok_or_else(|| Error::internal("a column of a story was not read"))?;
    candidates.batch(&request.schema(), columns).map(Some)
}

fn in_order(parts: &mut [Part], best: &Best) {
    sort_from_end(parts, best.of().oldest, |part| part.hull);
}
