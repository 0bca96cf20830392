//! Aggregates over the slices (row groups) of a story. The events of a story never change: the
//! story caches the aggregates of its slices if a query sees and wants all their events. A query
//! over all times then reads one list of cached batches per story.
//!
//! ```text
//!   whole slices, all series ─► in the cache? ─► cached batches
//!                                    └► cells and rows ─► batches ─► cached, if small
//! ```

use std::{hash::Hash, sync::Arc};

use ahash::RandomState;
use arrow::array::RecordBatch;
use futures::{TryStreamExt, stream};
use stratalog_model::{
    ColumnId, Error, Result,
    aggregate::{AggregateRequest, ColumnStatistic, Statistic, Windows},
    tier::BatchStream,
};
use stratalog_story::{Finding, FindingKey, Source, Story};

use super::{
    reader::PieceReader,
    row_groups::{decode, select},
};
use crate::{
    read::aggregate::{self, Slices},
    version::piece::Part,
};

/// Maximum bytes of a cached result.
const CACHED_BYTES_MAX: usize = 1 << 20;

/// The cache key: the wanted aggregates, and the slices. Columns are identified by their id in the
/// story, because a position in an uncommitted definition may mean a different column.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CacheKey {
    keys: Vec<ColumnId>,
    windows: Option<Windows>,
    /// Statistic and column; `None` for the count of events, which has no column.
    statistics: Vec<(Option<ColumnId>, Statistic)>,
    /// Numbers of the first and last slice.
    slices: (u32, u32),
}

impl CacheKey {
    /// The cache key for the slices `parts`. `None` if the result cannot be cached: the slices are
    /// not adjacent, the snapshot does not see all their events, the request does not want all
    /// their events, the request has key filters, or the story lacks a column.
    fn of(reader: &PieceReader, request: &AggregateRequest, parts: &[Part]) -> Option<Self> {
        let scan = &request.scan;
        let whole = |part: &Part| reader.sees_all(&part.hull) && scan.ticks.covers(&part.hull);
        let (first, last) = (parts.first()?, parts.last()?);
        debug_assert!(
            parts.is_sorted_by(|a, b| a.number < b.number),
            "the slices of a story are not in order"
        );
        let adjacent = (last.number - first.number) as usize + 1 == parts.len();
        if !scan.keys.is_empty() || !adjacent || !parts.iter().all(whole) {
            return None;
        }
        let stored = |at: usize| match reader.source(at) {
            Some(Source::Column(id)) => Some(id),
            Some(Source::Tick) => Some(scan.chronicle.tick_column),
            _ => None,
        };
        let requested = |wanted: &ColumnStatistic| match wanted.statistic {
            Statistic::Rows => Some((None, Statistic::Rows)),
            statistic => Some((Some(stored(wanted.column)?), statistic)),
        };
        Some(Self {
            keys: request.keys.iter().map(|at| stored(*at)).collect::<Option<_>>()?,
            windows: request.windows,
            statistics: request.statistics.iter().map(requested).collect::<Option<_>>()?,
            slices: (first.number, last.number),
        })
    }

    fn hash(&self) -> u32 {
        RandomState::with_seeds(1, 2, 3, 4).hash_one(self) as u32
    }
}

/// A cached result.
#[derive(Debug)]
struct CachedAggregates {
    cache_key: CacheKey,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl Finding for CachedAggregates {
    /// The cache of the story is addressed by the hash of the [`CacheKey`].
    type Key = u32;

    fn cache_key(request: u32) -> FindingKey {
        FindingKey::Aggregates { request }
    }
}

/// Streams the aggregates of slices of a story, in time order.
pub fn of_parts(
    reader: &Arc<PieceReader>,
    keys: Option<&Arc<[Vec<u8>]>>,
    request: &Arc<AggregateRequest>,
    story: Arc<Story>,
    parts: Vec<Part>,
) -> BatchStream {
    let cache_key = CacheKey::of(reader, request, &parts);
    let known = cache_key.as_ref().and_then(|cache_key| {
        let aggregates = story.finding::<CachedAggregates>(cache_key.hash())?;
        (aggregates.cache_key == *cache_key).then_some(aggregates)
    });
    if let Some(aggregates) = known {
        request.scan.metrics.story.answered_by_cells(1);
        return Box::pin(stream::iter(aggregates.batches.clone().into_iter().map(Ok)));
    }
    let aggregating = SliceAggregation {
        slices: Slices::new(request, reader, keys),
        parts: Some(parts.into_iter()),
        reader: Arc::clone(reader),
        request: Arc::clone(request),
        story,
        cached: cache_key.map(|cache_key| CachedAggregates {
            cache_key,
            batches: Vec::new(),
            bytes: 0,
        }),
    };
    let batches = stream::try_unfold(aggregating, |mut state| async move {
        Ok::<_, Error>(state.next().await?.map(|batches| (batches, state)))
    });
    Box::pin(batches.map_ok(stream::iter).try_flatten())
}

/// The state of an aggregation that proceeds slice by slice.
struct SliceAggregation {
    slices: Slices,
    /// The slices still to read; `None` after the end.
    parts: Option<std::vec::IntoIter<Part>>,
    reader: Arc<PieceReader>,
    request: Arc<AggregateRequest>,
    story: Arc<Story>,
    /// The result so far, if it is to be cached.
    cached: Option<CachedAggregates>,
}

impl SliceAggregation {
    /// Aggregates the next slice; after the last slice, returns the remaining groups. `None` at the
    /// end.
    async fn next(&mut self) -> Result<Option<Vec<Result<RecordBatch>>>> {
        let Some(parts) = &mut self.parts else { return Ok(None) };
        let Some(part) = parts.next() else {
            self.parts = None;
            let last = self.slices.finish()?;
            self.remember(last.iter());
            self.keep();
            return Ok(Some(last.into_iter().map(Ok).collect()));
        };
        let (reader, story) = (&self.reader, &self.story);
        if reader.sees_all(&part.hull) {
            let found = self.slices.add(story, &part).await?;
            self.remember(found.iter());
            return Ok(Some(found.into_iter().map(Ok).collect()));
        }
        debug_assert!(self.cached.is_none(), "an answer with hidden events enters the cache");
        let Some(selection) = select(reader, story, &part).await? else {
            reader.request().metrics.story.pruned(1);
            return Ok(Some(Vec::new()));
        };
        let sources = reader.sources(&part.hull)?;
        let fetched = story.fetch(part.number, &sources, Some(&selection)).await?;
        let batches = decode(reader, &part, fetched, true)?;
        let request = &self.request;
        Ok(Some(batches.map(|batch| aggregate::of_batch(&batch?, request)).collect()))
    }

    fn remember<'a>(&mut self, batches: impl Iterator<Item = &'a RecordBatch>) {
        for batch in batches {
            let Some(cached) = &mut self.cached else { return };
            cached.bytes += batch.get_array_memory_size();
            match cached.bytes <= CACHED_BYTES_MAX {
                true => cached.batches.push(batch.clone()),
                false => self.cached = None,
            }
        }
        debug_assert!(
            self.cached.as_ref().is_none_or(|cached| cached.bytes <= CACHED_BYTES_MAX),
            "an answer is too large for the cache"
        );
    }

    fn keep(&mut self) {
        debug_assert!(self.parts.is_none(), "an unfinished answer enters the cache");
        let Some(aggregates) = self.cached.take() else { return };
        let (hash, bytes) =
            (aggregates.cache_key.hash(), aggregates.bytes + size_of::<CachedAggregates>());
        self.story.note(hash, &Arc::new(aggregates), bytes);
    }
}
