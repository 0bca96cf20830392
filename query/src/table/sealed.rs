//! A snapshot without what can still change.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Gsn, GsnRange, Result, Snapshot, Tick, TickRange, TickRanges,
    aggregate::AggregateRequest,
    tier::{BatchStream, Extent, ScanRequest},
};

/// A snapshot of which some chronicles end with their sealed tick. Whatever reads it, by whichever
/// way, asks the snapshot: so there is no way around the end.
#[derive(Debug)]
pub struct SealedSnapshot {
    inner: Arc<dyn Snapshot>,
    within: Vec<(ChronicleId, TickRange)>,
}

impl SealedSnapshot {
    /// What is sealed of `tables` in a snapshot.
    pub fn new(inner: Arc<dyn Snapshot>, tables: &[Arc<ChronicleDefinition>]) -> Self {
        let within = tables.iter().map(|table| {
            let sealed = inner.sealed(table);
            let range = sealed.map(|sealed| TickRange::new(Tick::MIN, sealed.next()));
            (table.id, range.unwrap_or(TickRange::EMPTY))
        });
        Self { within: within.collect(), inner }
    }

    fn range(&self, chronicle: ChronicleId) -> TickRange {
        let found = self.within.iter().find(|(id, _)| *id == chronicle);
        found.map_or(TickRange::ALL, |(_, range)| *range)
    }

    fn within(&self, chronicle: ChronicleId, ticks: &TickRanges) -> TickRanges {
        match self.range(chronicle) {
            range if range.is_empty() => TickRanges::none(),
            range => ticks.intersect(&range.into()),
        }
    }

    fn confined(&self, mut request: ScanRequest) -> ScanRequest {
        request.ticks = self.within(request.chronicle.id, &request.ticks);
        request
    }
}

impl Snapshot for SealedSnapshot {
    fn gsn(&self) -> Gsn {
        self.inner.gsn()
    }

    fn sealed(&self, chronicle: &ChronicleDefinition) -> Option<Tick> {
        self.inner.sealed(chronicle)
    }

    fn extent(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> Option<Extent> {
        self.inner.extent(chronicle, &self.within(chronicle.id, ranges))
    }

    fn hull(&self, chronicle: &ChronicleDefinition) -> TickRange {
        self.inner.hull(chronicle).intersect(&self.range(chronicle.id))
    }

    fn estimate(&self, request: &ScanRequest) -> u64 {
        self.inner.estimate(&self.confined(request.clone()))
    }

    fn series(&self, chronicle: &ChronicleDefinition, ranges: &TickRanges) -> u64 {
        self.inner.series(chronicle, &self.within(chronicle.id, ranges))
    }

    fn deleted(&self, chronicle: &ChronicleDefinition, gsns: GsnRange) -> Option<GsnRange> {
        self.inner.deleted(chronicle, gsns)
    }

    fn aggregate(&self, mut request: AggregateRequest) -> Result<Option<Vec<BatchStream>>> {
        request.scan = self.confined(request.scan);
        self.inner.aggregate(request)
    }

    fn scan(&self, request: ScanRequest) -> Result<Vec<BatchStream>> {
        self.inner.scan(self.confined(request))
    }
}
