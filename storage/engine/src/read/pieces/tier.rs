//! The file tiers (tablets and stories) for reads: turns pieces into splits for a request.
//!
//! ```text
//!   parts (blocks, row groups) ─► parts with wanted ticks and keys ─► visible rows
//!     any order:  part by part
//!     ordered:    all blocks of a tablet, or row groups of a story one by one, sorted by
//!                 (tick, seq): each is a window of ticks; row groups that share a tick are merged
//!     if the request accepts the stored order, a large row group is read in windows of rows
//! ```

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use stratalog_model::{
    ChronicleDefinition, Error, Gsn, Result, TickRange, TickRanges, Tier, TierName,
    aggregate::AggregateRequest,
    newest::Best,
    tier::{BatchStream, Extent, ScanOrder, ScanRequest, Split},
};
use stratalog_story::{FetchedColumns, Selection, Story};

use super::{
    aggregate_cache,
    filtered_rows::FilteredRows,
    keyed_rows::KeyedRows,
    leading_keys::LeadingKeys,
    newest,
    reader::PieceReader,
    row_groups::{decode, select, visible_batches},
};
use crate::{
    events::{budget::Budget, numberings::Numberings, part_events::PartEvents},
    read::{aggregate, journal_split::SharedRequest, merge::Merge},
    version::{Version, piece::Part, published_versions::PinnedVersion},
};

/// If the request's limit is below this number, the first window likely has all requested rows.
const FEW_ROWS: usize = 8_192;

/// Number of row groups or windows that are fetched ahead of the decoder.
const FETCHES_AHEAD: usize = 2;

/// The pieces of one version of a chronicle in one file tier.
#[derive(Debug)]
pub struct FiledTier {
    version: Arc<Version>,
    name: TierName,
    numberings: Arc<Numberings>,
}

impl FiledTier {
    /// The tablet tier or the story tier (`name`) of a pinned version.
    pub fn new(pinned: &PinnedVersion, name: TierName) -> Self {
        debug_assert!(name.has_pieces(), "the {name} has no pieces");
        let (version, numberings) = (&pinned.version, pinned.chronicle.numberings());
        Self { version: Arc::clone(version), name, numberings: Arc::clone(numberings) }
    }
}

impl Tier for FiledTier {
    fn name(&self) -> TierName {
        self.name
    }

    fn extent(&self, _: &ChronicleDefinition, ranges: &TickRanges, _: Gsn) -> Option<Extent> {
        self.version.pieces().extent(self.name, ranges, self.version.fences())
    }

    fn splits(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Split>>> {
        let mut filed = self.version.pieces().iter().filter(|p| p.tier() == self.name).peekable();
        if filed.peek().is_none() {
            return Ok(Vec::new());
        }
        let metrics = request.metrics.of(self.name);
        let shared = Arc::new(SharedRequest::new(request, Arc::clone(&self.version), visible)?);
        let leading = LeadingKeys::of(request)?;
        let beginnings = leading.as_ref().map(|keys| Arc::new(keys.as_beginnings()));
        let leading = leading.map(Arc::new);
        let mut splits: Vec<Box<dyn Split>> = Vec::new();
        let mut stories = Vec::new();
        for piece in filed {
            let record = piece.record();
            let overlaps =
                request.ticks.overlaps(&record.ticks) && request.gsns.overlaps(&piece.gsns());
            if !overlaps {
                metrics.pruned(u64::from(record.parts));
                continue;
            }
            let reader = PieceReader::new(Arc::clone(piece), Arc::clone(&shared));
            // A piece with more key columns has longer keys: its keys are compared by prefix.
            let known = request.chronicle.key_columns.len();
            let keys = match piece.shape().keys.at.len() <= known {
                true => leading.as_ref(),
                false => beginnings.as_ref(),
            };
            if self.name == TierName::Story {
                stories.push(of_story(&Arc::new(reader), keys).into_iter());
                continue;
            }
            let parts = piece.parts_at_hand()?.unwrap_or(&[]).iter();
            let wanted = parts.filter(|part| {
                request.ticks.overlaps(&part.hull)
                    && request.gsns.overlaps(&part.gsns)
                    && may_hold(part, keys)
                    && reader.may_hold_values(part)
            });
            let parts: Vec<Part> = wanted.cloned().collect();
            debug_assert!(
                parts.len() as u64 <= u64::from(record.parts),
                "a tablet has more blocks"
            );
            metrics.pruned(u64::from(record.parts) - parts.len() as u64);
            if !parts.is_empty() {
                let numbers = Arc::clone(self.numberings.budget());
                splits.push(Box::new(TabletSplit { reader, parts, numbers }));
            }
        }
        // Interleaves the splits of the stories: the first split of each story, then the second of
        // each, and so on. Each stream then reads an equal part of every story.
        while !stories.is_empty() {
            splits.extend(stories.iter_mut().filter_map(Iterator::next));
            stories.retain(|shares| shares.len() > 0);
        }
        Ok(splits)
    }
}

/// True if a part may contain one of the wanted keys.
fn may_hold(part: &Part, keys: Option<&Arc<LeadingKeys>>) -> bool {
    keys.is_none_or(|keys| keys.may_lie_between(&part.keys.0, &part.keys.1))
}

/// A split with the wanted blocks of a tablet.
struct TabletSplit {
    reader: PieceReader,
    parts: Vec<Part>,
    /// Memory budget for cached group numbers.
    numbers: Arc<Budget>,
}

impl Split for TabletSplit {
    fn ticks(&self) -> TickRange {
        debug_assert!(!self.parts.is_empty(), "a split has no block");
        self.parts.iter().fold(TickRange::EMPTY, |hull, part| hull.hull(&part.hull))
    }

    fn rows_max(&self) -> usize {
        self.parts.iter().map(|part| part.rows as usize).sum()
    }

    fn read(self: Box<Self>) -> BatchStream {
        let Self { reader, parts, .. } = *self;
        if reader.request().order == ScanOrder::Any {
            let batches = stream::iter(parts).map(move |part| {
                let batches = match reader.may_hold_seqs(&part)? {
                    true => reader.unordered(&reader.read_at_hand(&part)?, &part.hull)?,
                    false => Vec::new(),
                };
                Ok::<_, Error>(each(batches))
            });
            return Box::pin(batches.try_flatten());
        }
        let sorted = move || {
            let mut read = Vec::with_capacity(parts.len());
            for part in &parts {
                if reader.may_hold_seqs(part)? {
                    read.push((reader.read_at_hand(part)?, part.hull));
                }
            }
            reader.ordered(read)
        };
        match sorted() {
            Ok(batches) => Box::pin(each(batches)),
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }

    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream {
        match newest::of_tablet(&self.reader, self.parts, best, &self.numbers) {
            Ok(found) => Box::pin(each(found)),
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }

    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream {
        aggregate::of_rows(self.read(), request)
    }
}

fn each(batches: Vec<RecordBatch>) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::iter(batches.into_iter().map(Ok))
}

/// Divides a story into splits. An ordered request reads the story as one split; an unordered
/// request reads several splits concurrently. Split `n` of `m` has every `m`-th row group, and thus
/// covers the whole time of the story.
fn of_story(reader: &Arc<PieceReader>, keys: Option<&Arc<LeadingKeys>>) -> Vec<Box<dyn Split>> {
    let request = reader.request();
    let all = reader.piece().record().parts;
    let splits = match request.order {
        ScanOrder::Any => all.clamp(1, request.streams.max(1) as u32),
        _ => 1,
    };
    let split = |turn: u32| -> Box<dyn Split> {
        let (reader, keys) = (Arc::clone(reader), keys.cloned());
        debug_assert!(turn < splits);
        Box::new(StorySplit { reader, keys, turn, turns: splits, chain: None })
    };
    (0..splits).map(split).collect()
}

/// A split of a story: every n-th row group, or the row groups of a chain.
struct StorySplit {
    reader: Arc<PieceReader>,
    keys: Option<Arc<LeadingKeys>>,
    turn: u32,
    turns: u32,
    chain: Option<GroupChain>,
}

/// A chain: row groups of a story that have no tick in common.
struct GroupChain {
    numbers: Vec<u32>,
    hull: TickRange,
}

/// The row groups to read, in the order of the request.
type ChosenGroups = Vec<(Arc<Story>, Part)>;

/// Divides row groups into chains. Row groups overlap only if one tick has more events than a row
/// group; without overlaps, all row groups form one chain.
fn chains(groups: &ChosenGroups) -> Vec<GroupChain> {
    let mut chains: Vec<GroupChain> = Vec::new();
    for (_, part) in groups {
        match chains.iter_mut().find(|chain| !chain.hull.overlaps(&part.hull)) {
            Some(chain) => {
                chain.numbers.push(part.number);
                chain.hull = chain.hull.hull(&part.hull);
            }
            None => chains.push(GroupChain { numbers: vec![part.number], hull: part.hull }),
        }
    }
    debug_assert_eq!(chains.iter().map(|chain| chain.numbers.len()).sum::<usize>(), groups.len());
    chains
}

impl StorySplit {
    /// Opens the story and returns its row groups.
    async fn opened(&self) -> Result<(Arc<Story>, &[Part])> {
        let piece = self.reader.piece();
        let parts = piece.parts().await?;
        let story = piece.story().await?;
        Ok((story.ok_or_else(|| Error::internal("a story has no file"))?, parts))
    }

    fn has(&self, part: &Part) -> bool {
        debug_assert!(self.turn < self.turns, "a share has no turn");
        match &self.chain {
            Some(chain) => chain.numbers.contains(&part.number),
            None => part.number % self.turns == self.turn,
        }
    }
}

impl Split for StorySplit {
    fn ticks(&self) -> TickRange {
        self.chain.as_ref().map_or(self.reader.piece().record().ticks, |chain| chain.hull)
    }

    fn rows_max(&self) -> usize {
        let record = self.reader.piece().record();
        record.rows.div_ceil(u64::from(self.turns)) as usize
    }

    fn read(self: Box<Self>) -> BatchStream {
        let opened = async move {
            let groups = self.choose().await?;
            let is_ordered = self.reader.request().order != ScanOrder::Any;
            let chains = if is_ordered { chains(&groups) } else { Vec::new() };
            if chains.len() <= 1 {
                return Ok::<_, Error>(self.read_groups(groups));
            }
            let split = |chain| -> Box<dyn Split> {
                let (reader, keys) = (Arc::clone(&self.reader), self.keys.clone());
                Box::new(Self { reader, keys, turn: 0, turns: 1, chain: Some(chain) })
            };
            let splits = chains.into_iter().map(split).collect();
            Ok(Box::pin(Merge::nested(splits, self.reader.request())) as BatchStream)
        };
        Box::pin(stream::once(opened).try_flatten())
    }
    fn newest(self: Box<Self>, best: &Arc<Best>) -> BatchStream {
        let best = Arc::clone(best);
        let found = async move {
            let (story, parts) = self.opened().await?;
            newest::of_story(&self.reader, &story, parts, &best).await.map(each)
        };
        Box::pin(stream::once(found).try_flatten())
    }

    fn aggregate(self: Box<Self>, request: &Arc<AggregateRequest>) -> BatchStream {
        let request = Arc::clone(request);
        let opened = async move {
            let (story, parts) = self.opened().await?;
            let wanted: Vec<&Part> = parts.iter().filter(|part| self.may_hold(part)).collect();
            if self.turn == 0 {
                let others = parts.len() - wanted.len();
                self.reader.request().metrics.story.pruned(others as u64);
            }
            // For aggregates, each split takes adjacent row groups instead: partial results of the
            // same time window are then merged early.
            let (turn, turns) = (self.turn as usize, self.turns as usize);
            let start = wanted.len() * turn / turns;
            let end = wanted.len() * (turn + 1) / turns;
            debug_assert!(start <= end && end <= wanted.len(), "a share is reversed or too long");
            let own = wanted.get(start..end).unwrap_or(&[]).iter().copied().cloned().collect();
            let keys: Option<Arc<[Vec<u8>]>> = self.whole_keys().map(Into::into);
            Ok::<_, Error>(aggregate_cache::of_parts(
                &self.reader,
                keys.as_ref(),
                &request,
                story,
                own,
            ))
        };
        Box::pin(stream::once(opened).try_flatten())
    }
}

impl StorySplit {
    /// Streams the rows of the row groups, one after another.
    fn read_groups(self: Box<Self>, groups: ChosenGroups) -> BatchStream {
        let reader = Arc::clone(&self.reader);
        let ahead = self.ahead();
        let split: Arc<Self> = self.into();
        let fetching = Arc::clone(&split);
        let windows = stream::iter(groups).map(move |(story, part)| {
            let split = Arc::clone(&split);
            async move {
                let windows = split.windows(&story, &part).await?;
                let window = move |rows| Ok::<_, Error>((Arc::clone(&story), part.clone(), rows));
                Ok::<_, Error>(stream::iter(windows.into_iter().map(window)))
            }
        });
        let fetched = windows.buffered(ahead).try_flatten().map(move |window| {
            let split = Arc::clone(&fetching);
            async move {
                let (story, part, rows) = window?;
                let read = split.fetch(&story, &part, rows).await?;
                Ok::<_, Error>((part, read))
            }
        });
        let batches = fetched.buffered(ahead).map(move |read| {
            let (part, read) = read?;
            let batches = match read {
                FetchedRows::Events(events) => visible_batches(&reader, &part, vec![events])?,
                FetchedRows::Pages(fetched, begins) => decode(&reader, &part, fetched, begins)?,
            };
            Ok::<_, Error>(stream::iter(batches))
        });
        Box::pin(batches.try_flatten())
    }

    /// True if the row group may contain wanted events, according to its ranges of ticks, gsn's and
    /// keys.
    fn may_hold(&self, part: &Part) -> bool {
        let request = self.reader.request();
        request.ticks.overlaps(&part.hull)
            && request.gsns.overlaps(&part.gsns)
            && may_hold(part, self.keys.as_ref())
    }

    /// The wanted keys; `None` unless the request fixes all key columns.
    fn whole_keys(&self) -> Option<&[Vec<u8>]> {
        self.keys.as_deref().and_then(LeadingKeys::whole)
    }

    /// The reads that a row group needs, in order: one, or several windows of rows.
    async fn windows(&self, story: &Arc<Story>, part: &Part) -> Result<Vec<RowSelection>> {
        let reader = &self.reader;
        Ok(match self.rows(story, part).await? {
            Some(RowSelection::Pages(selection, _)) if reader.reads_as_it_lies() => {
                let windows = self.cut(story, part, selection)?.into_iter();
                let begins = std::iter::once(true).chain(std::iter::repeat(false));
                windows
                    .zip(begins)
                    .map(|(window, begins)| RowSelection::Pages(window, begins))
                    .collect()
            }
            None => {
                reader.request().metrics.story.pruned(1);
                Vec::new()
            }
            Some(rows) => vec![rows],
        })
    }

    /// Cuts the selected rows of a row group into windows, in the order of the request. With a
    /// limit, the first window has the first rows of the result.
    fn cut(&self, story: &Story, part: &Part, selection: Selection) -> Result<Vec<Selection>> {
        let (request, group) = (self.reader.request(), part.number);
        let sources = self.reader.sources(&part.hull)?;
        let descending = request.order == ScanOrder::Descending;
        let (mut windows, mut rest) = (Vec::new(), selection);
        if let Some(limit) = request.limit {
            let (edge, others) = story.edge(group, &sources, &rest, limit, descending)?;
            windows.push(edge);
            rest = others;
        }
        if rest.rows() > 0 {
            let mut others = story.windows(group, &sources, rest)?;
            if descending {
                others.reverse();
            }
            windows.extend(others);
        }
        debug_assert!(windows.iter().all(|window| window.rows() > 0), "a window has no rows");
        Ok(windows)
    }

    /// Number of windows to fetch ahead: only one if the first window likely satisfies the limit.
    fn ahead(&self) -> usize {
        match self.reader.request().limit {
            Some(limit) if limit < FEW_ROWS => 1,
            _ => FETCHES_AHEAD,
        }
    }

    async fn fetch(
        &self,
        story: &Arc<Story>,
        part: &Part,
        rows: RowSelection,
    ) -> Result<FetchedRows> {
        let reader = &self.reader;
        Ok(match rows {
            RowSelection::Keyed(keyed) => {
                FetchedRows::Events(keyed.events(reader, story, part).await?)
            }
            RowSelection::Picked(picked) => {
                FetchedRows::Events(picked.events(reader, story, part).await?)
            }
            RowSelection::Pages(selection, begins) => {
                let sources = reader.sources(&part.hull)?;
                FetchedRows::Pages(
                    story.fetch(part.number, &sources, Some(&selection)).await?,
                    begins,
                )
            }
        })
    }

    /// The rows of a row group that may match; `None` if no row can match.
    async fn rows(&self, story: &Arc<Story>, part: &Part) -> Result<Option<RowSelection>> {
        let (reader, keys) = (&self.reader, self.whole_keys());
        let ticks = &reader.request().ticks;
        if !reader.request().keys.is_empty() {
            // Unless the request fixes all key columns, the page index is a faster way than the
            // runs to find that no series matches.
            if keys.is_none()
                && story.select(part.number, ticks, &reader.key_values(), &[])?.is_none()
            {
                return Ok(None);
            }
            if let Some(keyed) = KeyedRows::find(reader, story, part, keys).await? {
                return Ok((keyed.rows() > 0).then_some(RowSelection::Keyed(keyed)));
            }
        }
        let Some(selection) = select(reader, story, part).await? else { return Ok(None) };
        Ok(match FilteredRows::find(reader, story, part, selection).await? {
            Ok(picked) => (picked.rows() > 0).then_some(RowSelection::Picked(picked)),
            Err(selection) => Some(RowSelection::Pages(selection, true)),
        })
    }

    /// The row groups that may contain wanted events, according to their ranges, in the order of
    /// the request. Other data is read later, one row group at a time, because the caller may stop
    /// early.
    async fn choose(&self) -> Result<ChosenGroups> {
        let reader = &self.reader;
        let request = reader.request();
        let (story, parts) = self.opened().await?;
        let mut chosen = Vec::new();
        let mut all = 0;
        for part in parts.iter().filter(|part| self.has(part)) {
            all += 1;
            if self.may_hold(part) {
                chosen.push((Arc::clone(&story), part.clone()));
            }
        }
        request.metrics.story.pruned((all - chosen.len()) as u64);
        match request.order {
            ScanOrder::Any => {}
            ScanOrder::Ascending => chosen.sort_by_key(|(_, part)| part.hull.start),
            ScanOrder::Descending => {
                chosen.sort_by_key(|(_, part)| std::cmp::Reverse(part.hull.end))
            }
        }
        Ok(chosen)
    }
}

/// The rows to read from a row group.
enum RowSelection {
    Keyed(KeyedRows),
    Picked(FilteredRows),
    /// Rows in whole pages. The flag is true for the first window of the row group.
    Pages(Selection, bool),
}

/// The data read for a [`RowSelection`].
enum FetchedRows {
    Events(PartEvents),
    Pages(FetchedColumns, bool),
}
