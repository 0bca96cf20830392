//! Aggregates over the slices of a story. The events of a story never change, and the story caches
//! the aggregates of fully covered slices. A query over all times reads one cached batch list per
//! story.
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
use stratalog_story::{Source, Spot, Story};

use super::{
    piece::Part,
    read::{decode, select},
    reader::PieceReader,
};
use crate::player::aggregate::{self, Slices};

/// Maximum bytes of a cached answer.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The cache key: the aggregates and the slices. Columns appear by their id in the story, because a
/// position in an uncommitted definition may mean another column.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CacheKey {
    keys: Vec<ColumnId>,
    windows: Option<Windows>,
    /// The count of events has no column.
    wanted: Vec<(Option<ColumnId>, Statistic)>,
    /// First and last slice.
    slices: (u32, u32),
}

impl CacheKey {
    /// The question for the slices `own`. `None` if the cache cannot answer the request: the slices
    /// are not adjacent, not fully visible or not fully wanted, the request has key filters, or the
    /// story lacks a column.
    fn of(reader: &PieceReader, request: &AggregateRequest, own: &[Part]) -> Option<Self> {
        let scan = &request.scan;
        let whole = |part: &Part| reader.sees_all(&part.hull) && scan.ticks.covers(&part.hull);
        let (first, last) = (own.first()?, own.last()?);
        let together = (last.number - first.number) as usize + 1 == own.len();
        if !scan.keys.is_empty() || !together || !own.iter().all(whole) {
            return None;
        }
        let stored = |at: usize| match reader.source(at) {
            Some(Source::Column(id)) => Some(id),
            Some(Source::Tick) => Some(scan.chronicle.tick_column),
            _ => None,
        };
        let asked = |wanted: &ColumnStatistic| match wanted.statistic {
            Statistic::Rows => Some((None, Statistic::Rows)),
            statistic => Some((Some(stored(wanted.column)?), statistic)),
        };
        Some(Self {
            keys: request.keys.iter().map(|at| stored(*at)).collect::<Option<_>>()?,
            windows: request.windows,
            wanted: request.wanted.iter().map(asked).collect::<Option<_>>()?,
            slices: (first.number, last.number),
        })
    }

    fn spot(&self) -> Spot {
        Spot::Sums(RandomState::with_seeds(1, 2, 3, 4).hash_one(self) as u32)
    }
}

/// A cached answer.
#[derive(Debug)]
struct CachedAggregates {
    question: CacheKey,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

/// The aggregates of slices of a story, in time order.
pub fn of_parts(
    reader: &Arc<PieceReader>,
    keys: Option<&Arc<[Vec<u8>]>>,
    request: &Arc<AggregateRequest>,
    story: Arc<Story>,
    own: Vec<Part>,
) -> BatchStream {
    let question = CacheKey::of(reader, request, &own);
    let known = question.as_ref().and_then(|question| {
        let answer = story.finding::<CachedAggregates>(question.spot())?;
        (answer.question == *question).then_some(answer)
    });
    if let Some(answer) = known {
        request.scan.metrics.story.told(1);
        return Box::pin(stream::iter(answer.batches.clone().into_iter().map(Ok)));
    }
    let aggregating = SliceAggregation {
        slices: Slices::new(request, reader, keys),
        own: Some(own.into_iter()),
        reader: Arc::clone(reader),
        request: Arc::clone(request),
        story,
        kept: question.map(|question| CachedAggregates { question, batches: Vec::new(), bytes: 0 }),
    };
    let batches = stream::try_unfold(aggregating, |mut state| async move {
        Ok::<_, Error>(state.next().await?.map(|batches| (batches, state)))
    });
    Box::pin(batches.map_ok(stream::iter).try_flatten())
}

/// State of an aggregation, slice by slice.
struct SliceAggregation {
    slices: Slices,
    /// The remaining slices; `None` after the end.
    own: Option<std::vec::IntoIter<Part>>,
    reader: Arc<PieceReader>,
    request: Arc<AggregateRequest>,
    story: Arc<Story>,
    /// The answer for the cache, until now.
    kept: Option<CachedAggregates>,
}

impl SliceAggregation {
    /// Aggregates the next slice; after the last slice, returns the rest.
    async fn next(&mut self) -> Result<Option<Vec<Result<RecordBatch>>>> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let Some(part) = own.next() else {
            self.own = None;
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
            let Some(kept) = &mut self.kept else { return };
            kept.bytes += batch.get_array_memory_size();
            match kept.bytes <= KEPT_BYTES_MAX {
                true => kept.batches.push(batch.clone()),
                false => self.kept = None,
            }
        }
    }

    fn keep(&mut self) {
        let Some(answer) = self.kept.take() else { return };
        let (spot, bytes) = (answer.question.spot(), answer.bytes + size_of::<CachedAggregates>());
        self.story.note(spot, &Arc::new(answer), bytes);
    }
}
