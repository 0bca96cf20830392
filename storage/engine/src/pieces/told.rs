//! What the slices of a story add up to. Of slices that are wanted whole it is kept with the story,
//! whose events do not change: a query over all times looks at one batch of each story.
//!
//! ```text
//!   slices, whole, all series ─► known? ─► its batches
//!                                  └► cells and rows ─► batches ─► kept, if they are small
//! ```

use std::{hash::Hash, sync::Arc};

use ahash::RandomState;
use arrow::array::RecordBatch;
use futures::{TryStreamExt, stream};
use stratalog_model::{
    ColumnId, Error, Result,
    aggregate::{AggregateRequest, Statistic, Wanted, Windows},
    tier::BatchStream,
};
use stratalog_story::{Source, Spot, Story};

use super::{
    piece::Part,
    read::{decode, select},
    reader::Reader,
};
use crate::player::aggregate::{self, Slices};

/// Batches of more bytes are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What was asked of which slices. Columns are those that the story has, by the ids under which it
/// has them: what a definition that is not committed calls by the same place is another thing.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Question {
    keys: Vec<ColumnId>,
    windows: Option<Windows>,
    /// Events have no column.
    wanted: Vec<(Option<ColumnId>, Statistic)>,
    /// First and last slice.
    slices: (u32, u32),
}

impl Question {
    /// That of slices next to each other, if it does not matter what else is asked.
    fn of(reader: &Reader, request: &AggregateRequest, own: &[Part]) -> Option<Self> {
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
        let asked = |wanted: &Wanted| match wanted.statistic {
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

/// An answer that is kept.
#[derive(Debug)]
struct Answer {
    question: Question,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

/// What slices of a story add up to, in the order of time.
pub fn of_parts(
    reader: &Arc<Reader>,
    keys: Option<&Arc<[Vec<u8>]>>,
    request: &Arc<AggregateRequest>,
    story: Arc<Story>,
    own: Vec<Part>,
) -> BatchStream {
    let question = Question::of(reader, request, &own);
    let known = question.as_ref().and_then(|question| {
        let answer = story.finding::<Answer>(question.spot())?;
        (answer.question == *question).then_some(answer)
    });
    if let Some(answer) = known {
        request.scan.metrics.story.told(1);
        return Box::pin(stream::iter(answer.batches.clone().into_iter().map(Ok)));
    }
    let aggregating = Aggregating {
        slices: Slices::new(request, reader, keys),
        own: Some(own.into_iter()),
        reader: Arc::clone(reader),
        request: Arc::clone(request),
        story,
        kept: question.map(|question| Answer { question, batches: Vec::new(), bytes: 0 }),
    };
    let batches = stream::try_unfold(aggregating, |mut state| async move {
        Ok::<_, Error>(state.next().await?.map(|batches| (batches, state)))
    });
    Box::pin(batches.map_ok(stream::iter).try_flatten())
}

/// Slices of a story that are aggregated one after another.
struct Aggregating {
    slices: Slices,
    /// Those that are to come; `None` behind the end.
    own: Option<std::vec::IntoIter<Part>>,
    reader: Arc<Reader>,
    request: Arc<AggregateRequest>,
    story: Arc<Story>,
    /// What is kept when it is complete.
    kept: Option<Answer>,
}

impl Aggregating {
    /// What there is next.
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
        let (spot, bytes) = (answer.question.spot(), answer.bytes + size_of::<Answer>());
        self.story.note(spot, &Arc::new(answer), bytes);
    }
}
