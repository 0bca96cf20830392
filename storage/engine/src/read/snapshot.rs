//! A snapshot: a pinned, immutable view of all chronicles at one instant (CL-5).

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use arrow::array::RecordBatch;
use futures::StreamExt;
use hashbrown::HashMap;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnId, Error, Gsn, GsnRange, Result, Tick, TickRange,
    TickRanges, Tier, TierName,
    aggregate::{AggregateRequest, Windows},
    chronicle::SYSTEM_COLUMNS,
    store::Snapshot,
    tier::{BatchStream, Extent, ScanOrder, ScanRequest, Split},
};

use super::{
    journal_tier::JournalTier,
    merge::Merge,
    newest,
    stream::{self, SplitChain},
    transaction_version::{self, TransactionVersion},
};
use crate::{
    events::{batch::MemoryBatch, budget::Budget},
    ingest::{chunk::Chunk, delete::deletion::Deletion, step::Step},
    read::pieces::tier::FiledTier,
    version::{
        piece::OpenPiece,
        published_versions::{PinnedVersion, PublishedVersions},
    },
};

/// System columns whose values only the commit assigns.
const GIVEN_BY_COMMIT: [&str; 2] = ["_gsn", "_toid"];

/// All events committed up to one instant; inside a transaction, also the uncommitted events of the
/// transaction.
#[derive(Debug)]
pub struct PinnedSnapshot {
    published: Arc<PublishedVersions>,
    transaction_versions: HashMap<ChronicleId, TransactionVersion, RandomState>,
}

impl PinnedSnapshot {
    /// A snapshot of the published versions.
    pub fn new(published: Arc<PublishedVersions>) -> Self {
        Self { published, transaction_versions: HashMap::default() }
    }

    /// A copy of the snapshot in which the events and deletes of `steps` are applied, in order.
    ///
    /// # Errors
    /// The errors of reads of tablets and stories.
    pub async fn with<'a>(
        &self,
        steps: impl Iterator<Item = Step<&'a Chunk, &'a Deletion>>,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let mut by_chronicle: BTreeMap<ChronicleId, Vec<Step<&Chunk, &Deletion>>> = BTreeMap::new();
        for step in steps {
            by_chronicle.entry(step.chronicle().id()).or_default().push(step);
        }
        let mut transaction_versions = HashMap::default();
        for (id, steps) in by_chronicle {
            let below = self.published.versions.get(&id);
            let over = transaction_version::over(below, self.published.gsn, &steps, budget).await?;
            transaction_versions.extend(over.map(|over| (id, over)));
        }
        Ok(Self { published: Arc::clone(&self.published), transaction_versions })
    }

    /// The version of a chronicle, and the highest visible gsn.
    fn pinned(&self, id: ChronicleId) -> Option<(&PinnedVersion, Gsn)> {
        match self.transaction_versions.get(&id) {
            Some(version) => {
                debug_assert!(
                    self.published.gsn <= version.visible,
                    "a transaction sees less than its snapshot"
                );
                Some((&version.pinned, version.visible))
            }
            None => Some((self.published.versions.get(&id)?, self.published.gsn)),
        }
    }

    /// Refuses a request for system columns that uncommitted events do not have yet.
    fn check(&self, request: &ScanRequest) -> Result<()> {
        let chronicle = &request.chronicle;
        let named = |at: &usize| SYSTEM_COLUMNS.get(at.checked_sub(chronicle.columns.len())?);
        let unknown = |name: &&&str| GIVEN_BY_COMMIT.contains(*name);
        match request.projection.iter().filter_map(named).find(unknown) {
            Some(name)
                if self
                    .transaction_versions
                    .get(&chronicle.id)
                    .is_some_and(|version| version.wrote) =>
            {
                Err(Error::not_yet(format!(
                    "{name} of a table with writes in the same transaction"
                ))
                .with_hint("events get a _gsn at the commit"))
            }
            _ => Ok(()),
        }
    }

    /// The tiers that have events of a chronicle, and the highest visible gsn. Each event is in
    /// exactly one tier (CL-2).
    pub fn tiers(&self, chronicle: &ChronicleDefinition) -> (Vec<Box<dyn Tier>>, Gsn) {
        let Some((pinned, visible)) = self.pinned(chronicle.id) else {
            return (Vec::new(), self.published.gsn);
        };
        let of_name = |name: TierName| -> Box<dyn Tier> {
            match name.has_pieces() {
                true => Box::new(FiledTier::new(pinned, name)),
                false => Box::new(JournalTier::new(pinned.clone())),
            }
        };
        let tiers: Vec<Box<dyn Tier>> = TierName::ALL.into_iter().rev().map(of_name).collect();
        (tiers, visible)
    }
}

impl Snapshot for PinnedSnapshot {
    fn gsn(&self) -> Gsn {
        self.published.gsn
    }

    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        let (pinned, _) = self.pinned(chronicle.id)?;
        pinned.version.open_from().map(|first| Tick(first.0.saturating_sub(1)))
    }

    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent> {
        let mut sum = Extent::EMPTY;
        let (tiers, visible) = self.tiers(chronicle);
        for tier in tiers {
            let extent = tier.extent(chronicle, ranges, visible)?;
            sum.rows += extent.rows;
            sum.bytes += extent.bytes;
            sum.ticks = sum.ticks.hull(&extent.ticks);
        }
        Some(sum)
    }

    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        let Some((pinned, _)) = self.pinned(chronicle.id) else {
            return TickRange::EMPTY;
        };
        let batches = pinned.version.batches().map(|batch| batch.hull());
        let pieces = pinned.version.pieces().iter().map(|piece| piece.record().ticks);
        batches.chain(pieces).fold(TickRange::EMPTY, |hull, ticks| hull.hull(&ticks))
    }

    fn estimate(&self, request: &ScanRequest) -> u64 {
        let Some((pinned, _)) = self.pinned(request.chronicle.id) else { return 0 };
        let rows = match self.extent(&request.chronicle, &request.ticks) {
            Some(extent) => extent.rows,
            None => {
                let (batches, pieces) = within(pinned, &request.ticks);
                batches.map(|batch| batch.rows() as u64).sum::<u64>()
                    + pieces.map(|piece| piece.record().rows).sum::<u64>()
            }
        };
        // If the filters fix only some key columns, any number of series may match.
        let named = |id: &ColumnId| {
            let at = request.chronicle.position(*id);
            let mut filters = request.keys.iter().filter(|filter| Some(filter.column) == at);
            filters.next().map(|filter| filter.values.len() as u64)
        };
        let keys = request.chronicle.key_columns.iter().map(named);
        let Some(named) = keys.reduce(|all, of| Some(all?.saturating_mul(of?))).flatten() else {
            return rows;
        };
        match self.series(&request.chronicle, &request.ticks) {
            series if named < series => rows.div_ceil(series).saturating_mul(named),
            _ => rows,
        }
    }

    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        let Some((pinned, _)) = self.pinned(chronicle.id) else { return 0 };
        let (mut batches, pieces) = within(pinned, ranges);
        let filed = pieces.map(|piece| piece.series_seen()).max().unwrap_or_default();
        match batches.next() {
            Some(_) => filed.max(pinned.chronicle.series_at_hand()),
            None => filed,
        }
    }

    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange> {
        let (pinned, visible) = self.pinned(chronicle.id)?;
        let seen = gsns.intersect(&GsnRange::between(Gsn(0), visible));
        let lost = pinned.version.lost().within(seen).next().map(|lost| lost.intersect(&seen));
        debug_assert!(
            lost.is_none_or(|lost| !lost.is_empty() && gsns.covers(&lost)),
            "a gap lies outside of the wanted positions"
        );
        lost
    }

    fn aggregate(&self, request: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        let projection = request.projection();
        let scan =
            ScanRequest { projection, order: ScanOrder::Any, limit: None, ..request.scan.clone() };
        let hull = scan.ticks.hull().intersect(&self.hull(&scan.chronicle));
        let begins = |windows: Windows| hull.is_empty() || windows.start(hull.start.0).is_some();
        if !request.windows.is_none_or(begins) {
            return Ok(None);
        }
        let (request, scan) = (Arc::new(request), Arc::new(scan));
        let mut splits: Vec<Box<dyn Split>> = Vec::new();
        if !hull.is_empty() {
            let (tiers, visible) = self.tiers(&scan.chronicle);
            for tier in tiers {
                splits.extend(tier.splits(&scan, visible)?);
            }
        }
        let chained = |splits: Vec<Box<dyn Split>>| -> BatchStream {
            let request = Arc::clone(&request);
            let each =
                futures::stream::iter(splits).flat_map(move |split| split.aggregate(&request));
            Box::pin(each)
        };
        Ok(Some(deal(splits, scan.streams.max(1)).into_iter().map(chained).collect()))
    }

    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        self.check(&request)?;
        let request = match request.newest_of.is_some() {
            true => ScanRequest { order: ScanOrder::Any, limit: None, streams: 1, ..request },
            false => request,
        };
        let request = Arc::new(request);
        let mut splits: Vec<Box<dyn Split>> = Vec::new();
        if !request.ticks.is_empty() && request.limit != Some(0) {
            let (tiers, visible) = self.tiers(&request.chronicle);
            for tier in tiers {
                splits.extend(tier.splits(&request, visible)?);
            }
        }
        if let Some(of) = &request.newest_of {
            let Some((pinned, _)) = self.pinned(request.chronicle.id) else {
                return Ok(vec![Box::pin(futures::stream::empty())]);
            };
            let columns = &request.chronicle.columns;
            let keys = of.keys.iter().filter_map(|at| Some(columns.get(*at)?.id)).collect();
            let lent = pinned.chronicle.numberings().of(keys);
            return Ok(vec![newest::scan(splits, &request, of, lent)]);
        }
        if request.order != ScanOrder::Any {
            return Ok(vec![Box::pin(Merge::new(splits, &request))]);
        }
        let streams = deal(splits, request.streams.max(1));
        if streams.is_empty() {
            return Ok(vec![stream::of_iterator(std::iter::empty::<Result<RecordBatch>>())]);
        }
        let chained = |splits| -> BatchStream { Box::pin(SplitChain::new(splits, request.limit)) };
        Ok(streams.into_iter().map(chained).collect())
    }
}

/// The batches and the pieces of a version that may have events with ticks in the hull of `ranges`.
fn within<'a>(
    pinned: &'a PinnedVersion,
    ranges: &TickRanges,
) -> (impl Iterator<Item = &'a Arc<MemoryBatch>>, impl Iterator<Item = &'a Arc<OpenPiece>>) {
    let hull = ranges.hull();
    let meets = move |ticks: TickRange| !ticks.intersect(&hull).is_empty();
    let batches = pinned.version.batches().filter(move |batch| meets(batch.hull()));
    let pieces = pinned.version.pieces().iter().filter(move |piece| meets(piece.record().ticks));
    (batches, pieces)
}

/// Distributes splits over at most `streams` streams with about equal numbers of rows. Adjacent
/// splits stay together.
fn deal(splits: Vec<Box<dyn Split>>, streams: usize) -> Vec<Vec<Box<dyn Split>>> {
    debug_assert!(streams > 0, "no stream takes the splits");
    let count = splits.len();
    let rows: usize = splits.iter().map(|split| split.rows_max()).sum();
    let share = rows.div_ceil(streams).max(1);
    let mut dealt: Vec<Vec<Box<dyn Split>>> = Vec::with_capacity(streams);
    let mut filled = share;
    for split in splits {
        if filled >= share && dealt.len() < streams {
            dealt.push(Vec::new());
            filled = 0;
        }
        filled += split.rows_max();
        if let Some(last) = dealt.last_mut() {
            last.push(split);
        }
    }
    debug_assert!(dealt.len() <= streams, "the splits have more streams than wanted");
    debug_assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), count, "a split gets lost");
    dealt
}
